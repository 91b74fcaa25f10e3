//! Consent: a person at a terminal is asked before data goes for the first time to an address that no configuration here
//! names, before a run that may cost much, and before agents are started. Without a terminal nothing is asked.

use crate::args::Start;
use crate::error::{CommandError, OfFile as _};
use crate::estimates::passes_cost;
use crate::exit_code;
use crate::output::say;
use crate::runtime::{Interrupts, block_on_unwarned};
use crate::table::{grouped, harmless};
use skillrl::config::{Config, FILE_NAME, LoadedConfig, ModelConfig, ModelRole};
use skillrl::core::usage::dollars;
use skillrl::core::{Role, SkillDoc};
use skillrl::envs::{Env, Split};
use skillrl::estimate::StageEstimate;
use skillrl::llm::ChatRequest;
use skillrl::trainer;
use std::collections::BTreeSet;
use std::io::{BufRead as _, IsTerminal as _};
use std::path::Path;
use std::sync::mpsc;

/// The cost in US dollars above which a person at a terminal is asked first, unless there is a cap.
const ASK_ABOVE: f64 = 5.0;
/// The most characters of a prompt that are shown.
const MAX_SHOWN_CHARACTERS: usize = 3_000;

/// A request for consent: what is about to be sent, to whom, and at what cost.
pub(crate) struct Sending<'a> {
    /// The configuration, which has the addresses and models.
    pub(crate) loaded: &'a LoadedConfig,
    /// Whether no configuration here names an address that receives data.
    pub(crate) is_new: bool,
    /// The calls and the cost in all, where they were not said before.
    pub(crate) total: String,
    /// The most US dollars that it may cost in all.
    pub(crate) most: Option<f64>,
    /// `--yes`.
    pub(crate) agrees: bool,
}

/// Shows the first prompt and asks, where data goes to a new address or may cost much.
///
/// # Errors
///
/// The person does not agree, or a signal came instead of an answer.
pub(crate) fn agree(sending: &Sending<'_>) -> crate::Result {
    let Sending { loaded, is_new, ref total, most, agrees } = *sending;
    let most = most.filter(|most| *most > ASK_ABOVE && loaded.config.budget.money.is_none());
    if agrees || !is_new && most.is_none() || !is_terminal() {
        return Ok(());
    }
    if !total.is_empty() {
        say(total);
    }
    let mut parts = Vec::new();
    if is_new && let Some(request) = first_request(loaded)? {
        say(&prompt_lines(&request));
        parts.push(format!("Send this to {}?", receivers(loaded)));
    }
    parts.extend(most.map(|most| format!("It may cost up to {}.", dollars(most))));
    if parts.last().is_none_or(|part| !part.ends_with('?')) {
        parts.push("Continue?".to_owned());
    }
    match asked(&format!("{} [y/N]", parts.join(" ")))? {
        Some(false) => Err(CommandError::of_data("nothing was sent")
            .with_hint(
                "`--input FIELD,..` chooses what is shown, `--budget DOLLARS` caps the cost, `--yes` agrees",
            )
            .into()),
        Some(true) | None => Ok(()),
    }
}

/// Has a person agree to `n_samples` passes over a split, if data goes to a new address.
///
/// # Errors
///
/// As [`agree`].
pub(crate) fn agree_to_passes(
    start: &Start,
    loaded: &LoadedConfig,
    (env, skill): (&dyn Env, &SkillDoc),
    (split, n_samples): (Split, u64),
) -> crate::Result {
    let total = is_new_address(start, loaded).then(|| {
        let settings = trainer::settings(&loaded.config)?;
        passes_cost(loaded, env, skill, &settings, (split, n_samples))
    });
    let total = total.transpose()?;
    agree(&Sending {
        loaded,
        is_new: total.is_some(),
        total: total.as_ref().map(|total| total_words(total, split)).unwrap_or_default(),
        most: total.and_then(|total| total.cost).map(|[_, most]| most),
        agrees: start.agrees,
    })
}

/// Asks before a command that names its calls itself sends data to an address that no configuration here names, as one that
/// `--set` names.
///
/// # Errors
///
/// The person does not agree, or a signal came instead of an answer.
pub(crate) fn agree_to_address(start: &Start, loaded: &LoadedConfig) -> crate::Result {
    let is_new = is_new_address(start, loaded);
    if !is_new || start.agrees || asked(&format!("Send data to {}? [y/N]", receivers(loaded)))? != Some(false)
    {
        return Ok(());
    }
    Err(CommandError::of_data("nothing was sent")
        .with_hint("name the address in a configuration here (`skillrl.toml`), where nothing is asked")
        .into())
}

/// True if data would go to an address that no configuration here names: neither the file that was named nor that of this
/// directory, without what options override.
pub(crate) fn is_new_address(start: &Start, loaded: &LoadedConfig) -> bool {
    let overrides = |key: &str| start.overrides.iter().any(|setting| setting.starts_with(key));
    if start.made.is_none() && !overrides("models.") {
        return false;
    }
    let files = [start.file.as_deref(), Some(Path::new(FILE_NAME))].into_iter().flatten();
    let known: Vec<LoadedConfig> = files.filter_map(|file| Config::load(file, &[]).ok()).collect();
    let known: BTreeSet<String> =
        known.iter().flat_map(addresses).map(|address| host(&address).to_owned()).collect();
    addresses(loaded).iter().any(|address| !known.contains(host(address)))
}

/// The calls and the cost of a pass over a split.
fn total_words(total: &StageEstimate, split: Split) -> String {
    let calls = grouped(total.calls.high);
    match total.cost {
        Some([low, high]) => {
            format!("the {split} split takes {calls} calls, {} to {}", dollars(low), dollars(high))
        }
        None => format!("the {split} split takes {calls} calls, cost unknown without prices of the model"),
    }
}

/// The calls and the cost of one item, by what a pass over a split of so many items takes.
pub(crate) fn item_words(pass: &StageEstimate, n_items: usize) -> String {
    let n_items = u64::try_from(n_items.max(1)).unwrap_or(u64::MAX);
    let calls = pass.calls.high.div_ceil(n_items);
    let calls = if calls == 1 { "1 call".to_owned() } else { format!("up to {} calls", grouped(calls)) };
    match pass.cost {
        Some(cost) => {
            let [low, high] = cost.map(|cost| dollars(cost / n_items as f64));
            format!("an item of this split takes {calls}, {low} to {high}")
        }
        None => format!("an item of this split takes {calls}, cost unknown without prices of the model"),
    }
}

/// The base URLs of all models.
fn addresses(loaded: &LoadedConfig) -> Vec<String> {
    let roles = [ModelRole::Target, ModelRole::Optimizer, ModelRole::Judge, ModelRole::Teacher];
    let models = roles.into_iter().filter_map(|role| role.config(&loaded.config));
    let served = models.chain(loaded.config.models.targets.values()).filter_map(|model| match model {
        ModelConfig::Served { config, .. } => Some(config.base_url.clone()),
        _ => None,
    });
    served.collect()
}

/// The host of an address, with its port.
fn host(address: &str) -> &str {
    let rest = address.split("://").nth(1).unwrap_or(address);
    rest.split('/').next().unwrap_or(rest)
}

/// The hosts that receive data.
fn receivers(loaded: &LoadedConfig) -> String {
    let hosts: BTreeSet<String> = addresses(loaded).iter().map(|address| host(address).to_owned()).collect();
    let hosts: Vec<String> = hosts.into_iter().collect();
    let proxies: BTreeSet<&str> =
        addresses(loaded).iter().filter_map(|address| skillrl::llm::proxy_variable(address)).collect();
    let through = proxies.into_iter().collect::<Vec<_>>().join(" and ");
    let through = if through.is_empty() { through } else { format!(" through the proxy of {through}") };
    if hosts.is_empty() { "the model".to_owned() } else { format!("{}{through}", hosts.join(" and ")) }
}

/// The first request of the agent.
pub(crate) fn first_request(loaded: &LoadedConfig) -> crate::Result<Option<ChatRequest>> {
    Ok(block_on_unwarned(skillrl::doctor::first_request(loaded))??)
}

/// A request as a person reads it.
pub(crate) fn prompt_lines(request: &ChatRequest) -> String {
    let mut text = "The first prompt, as it will be sent:".to_owned();
    for message in &request.messages {
        let whole = message.text();
        let shown: String = whole.chars().take(MAX_SHOWN_CHARACTERS).collect();
        let cut = if shown.len() < whole.len() { " .." } else { "" };
        let shown = if shown.trim().is_empty() { "(empty)".to_owned() } else { harmless(shown.trim()) };
        text.push_str(&format!("\n--- {} ---\n{shown}{cut}", role_name(message.role)));
    }
    text + "\n---"
}

fn role_name(role: Role) -> &'static str {
    match role {
        Role::System => "system (the skill)",
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Tool => "tool",
    }
}

/// Asks a person at a terminal whether to start agents, unless that `is_agreed` by an option.
///
/// # Errors
///
/// The person does not agree.
pub(crate) fn confirm(is_agreed: bool) -> crate::Result {
    if is_agreed || asked("Start? [y/N]")? != Some(false) {
        return Ok(());
    }
    Err(CommandError::of_data("nothing was started")
        .with_hint("`--calls N` or `--budget USD` caps it, `--yes` agrees")
        .into())
}

fn is_terminal() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

/// The answer of a person at a terminal; `None` where nobody can be asked.
///
/// # Errors
///
/// Ctrl-C or another signal that ends programs.
pub(crate) fn asked(question: &str) -> crate::Result<Option<bool>> {
    if !is_terminal() {
        return Ok(None);
    }
    let (answers, answer) = mpsc::channel();
    // The signals may be caught already by a run under way, so they are listened to beside the terminal.
    let listening = listen(answers.clone());
    say(question);
    std::thread::spawn(move || {
        let mut line = String::new();
        let read = std::io::stdin().lock().read_line(&mut line).map(|_| line);
        // Nobody waits for it after a signal.
        let _ = answers.send(Some(read));
    });
    let answered = answer.recv().ok().flatten();
    drop(listening);
    let Some(line) = answered else {
        return Err(CommandError::new("stopped at the question").with_code(exit_code::STOPPED).into());
    };
    let line = line.reading("the answer")?;
    Ok(Some(matches!(line.trim().to_lowercase().as_str(), "y" | "yes")))
}

/// Sends `None` when a signal comes, until what is returned is dropped; signals are caught when it returns.
fn listen<T: Send + 'static>(answers: mpsc::Sender<Option<T>>) -> tokio::sync::oneshot::Sender<()> {
    let (until, ended) = tokio::sync::oneshot::channel();
    let (ready, is_ready) = mpsc::channel();
    std::thread::spawn(move || {
        let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
        runtime.block_on(async {
            let Ok(mut interrupts) = Interrupts::catch() else { return };
            // The question waits for it.
            let _ = ready.send(());
            tokio::select! {
                _ = interrupts.next() => drop(answers.send(None)),
                _ = ended => {}
            }
        });
    });
    // Where no signal can be caught, its sender is gone, and the question is asked all the same.
    let _ = is_ready.recv();
    until
}
