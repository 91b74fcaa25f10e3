//! Before a run sends anything: what its checks found, what it will take, and on a terminal the first prompt with a
//! question. After its first measurement: whether there is anything to gain.

use crate::consent::{Sending, agree, asked};
use crate::data_start::has_answered_call;
use crate::error::CommandError;
use crate::progress::Progress;
use crate::table::{grouped, harmless};
use parking_lot::Mutex;
use skillrl::config::{EnvKind, LoadedConfig, ModelConfig, ModelRole, TrainMode, ValueSource, nearest_name};
use skillrl::core::usage::dollars;
use skillrl::core::{MeanScore, StepIdx};
use skillrl::cost::has_prices;
use skillrl::doctor::{Check, Examination, Finding, Network, Status, examine};
use skillrl::estimate::{Estimate, Prepared, Span};
use skillrl::llm::price_table::{PRICES_AS_OF, priced_models};
use skillrl::pipeline::run_dir::checks::{CHECKS_FILE, CheckWarning, write_checks};
use skillrl::pipeline::run_dir::{RunStatus, run_status};
use skillrl::pipeline::{Event, EventSink, Protocol, RunReader, StopSignal};

/// A cap that leaves no step is answered with one that is a multiple of this.
const ROUND_CALLS: u64 = 50;

/// What was agreed to, and how much is said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Consent {
    /// `--yes`: to cost, and to begin.
    pub(super) agrees: bool,
    /// The run was started from data.
    pub(super) is_data: bool,
    /// Data goes to an address that no configuration here named before.
    pub(super) is_new: bool,
    /// Nothing but warnings and questions is said.
    pub(super) is_quiet: bool,
    /// The option of the command that caps calls, without its number.
    pub(super) calls_option: &'static str,
}

/// Says what the checks found, the models, the calls, the cost and the cap of a run that begins; asks before anything is
/// sent that a person has not seen, and where it may cost much.
///
/// Nothing is said of runs that go on; warnings that a kill kept from being stored are found again. Environments that
/// would have to be started are not examined.
///
/// # Errors
///
/// A cap that leaves no step, and a person who says no.
pub(super) fn say_and_ask(loaded: &LoadedConfig, consent: Consent) -> crate::Result<Vec<CheckWarning>> {
    let run = loaded.run_dir();
    let status = run_status(&run);
    let is_new = status == RunStatus::Absent || !has_answered_call(&run);
    let lacks_warnings = status == RunStatus::Unfinished && !run.join(CHECKS_FILE).exists();
    if loaded.config.env.env_kind() == EnvKind::Exec || !is_new && !lacks_warnings {
        return Ok(Vec::new());
    }
    let found = warnings(loaded)?;
    let kept = |finding: Finding| CheckWarning {
        check: finding.check.as_str().to_owned(),
        message: finding.message,
    };
    if !is_new {
        return Ok(found.into_iter().map(kept).collect());
    }
    if !consent.is_quiet {
        // Who wrote a configuration has `doctor` for what the plan can show.
        let of_plan = [Check::Selection, Check::Decisions];
        let is_said = |finding: &&Finding| consent.is_data || !of_plan.contains(&finding.check);
        for finding in found.iter().filter(is_said) {
            crate::output::say(&format!("warning: {}", harmless(&finding.message)));
            // Of the other hints most are about keys of the configuration, which was made from the data.
            if let Some(hint) = finding.hint.as_ref().filter(|_| finding.check == Check::Labels) {
                crate::output::say(&format!("hint: {}", harmless(hint)));
            }
        }
    }
    ask(loaded, consent)?;
    Ok(found.into_iter().map(kept).collect())
}

/// Says what a run that begins will take, and asks.
fn ask(loaded: &LoadedConfig, consent: Consent) -> crate::Result {
    let config = &loaded.config;
    if config.train.mode != TrainMode::Document {
        return Ok(());
    }
    let roles = ModelRole::of_training(config);
    let is_paid = roles.iter().any(|role| served_name(loaded, *role).is_some());
    let is_capped = config.train.protocol == Protocol::Auto
        && (config.budget.calls.is_some() || config.budget.money.is_some());
    if !is_paid && !is_capped {
        return Ok(());
    }
    // What reading the data warns of is said when the run reads them.
    let estimating = async { Prepared::new(loaded)?.estimate().await };
    let estimate = crate::runtime::block_on_unwarned(estimating)??;
    check_caps(loaded, &estimate, consent.calls_option)?;
    if !is_paid {
        return Ok(());
    }
    if !consent.is_quiet {
        crate::output::say(&sentence(loaded, &roles, &estimate));
    }
    let most = estimate.total.cost.map(|[_, most]| most);
    let Consent { agrees, is_new, .. } = consent;
    agree(&Sending { loaded, is_new, total: String::new(), most, agrees })
}

/// What doctor's offline checks warn of, but for what is said otherwise.
fn warnings(loaded: &LoadedConfig) -> crate::Result<Vec<Finding>> {
    let offline = Examination { network: Network::Offline, ..Examination::default() };
    let report = crate::runtime::block_on_unwarned(examine(Ok(loaded.clone()), &offline))?;
    let is_of_run = |finding: &Finding| {
        matches!(
            finding.check,
            Check::Data
                | Check::Splits
                | Check::Answerable
                | Check::Labels
                | Check::Selection
                | Check::Skill
                | Check::Prompts
                | Check::Decisions
        )
    };
    let found = report.findings.into_iter();
    Ok(found.filter(|finding| finding.status == Status::Warning && is_of_run(finding)).collect())
}

/// Refuses caps with which nothing could be learned.
fn check_caps(loaded: &LoadedConfig, estimate: &Estimate, calls_option: &str) -> Result<(), CommandError> {
    let config = &loaded.config;
    if config.train.protocol != Protocol::Auto {
        // The run stops at its cap, and goes on with a higher one.
        return Ok(());
    }
    let least_money = estimate.total.cost.map(|[least, _]| least);
    if let (Some(cap), Some(least)) = (config.budget.money, least_money)
        && cap < least
    {
        return Err(CommandError::new(format!(
            "a budget of {} is too small: the run takes {} at least",
            dollars(cap),
            dollars(least)
        ))
        .with_hint("raise `--budget`, take a cheaper model, or fewer rows"));
    }
    let Some(cap) = config.budget.calls else { return Ok(()) };
    if estimate.steps > 0 {
        return Ok(());
    }
    let Span { low, high } = estimate.total.calls;
    let useful = high.max(low).saturating_mul(2).div_ceil(ROUND_CALLS).saturating_mul(ROUND_CALLS);
    Err(CommandError::new(format!(
        "{} calls leave no step: measuring alone takes {} to {}",
        grouped(cap),
        grouped(low),
        grouped(high)
    ))
    .with_hint(format!("a useful cap is {} or more: `{calls_option}{useful}`", grouped(useful))))
}

fn sentence(loaded: &LoadedConfig, roles: &[ModelRole], estimate: &Estimate) -> String {
    let mut models: Vec<String> = Vec::new();
    for role in roles {
        if let Some(name) = served_name(loaded, *role) {
            models.push(format!("{} {name}", role.as_str()));
        }
    }
    let Span { low, high } = estimate.total.calls;
    let cost = match estimate.total.cost {
        Some([low, high]) => format!("{} to {}", dollars(low), dollars(high)),
        None => format!("cost unknown without prices of the models{}", similar_priced_model(loaded, roles)),
    };
    let prices = if uses_list_prices(loaded, roles) {
        format!(" at the list prices of {PRICES_AS_OF}")
    } else {
        String::new()
    };
    let budget = loaded.config.budget;
    let caps = [
        budget.calls.map(|cap| format!("{} calls", grouped(cap))),
        budget.tokens.map(|cap| format!("{} tokens", grouped(cap))),
        budget.money.map(dollars),
    ];
    let caps: Vec<String> = caps.into_iter().flatten().collect();
    let cap = if caps.is_empty() { String::new() } else { format!("; it stops at {}", caps.join(" or ")) };
    format!("{}: {} to {} calls, {cost}{prices}{cap}", models.join(", "), grouped(low), grouped(high))
}

/// A hint with the model that has a list price and the name most similar to that of a model without one.
fn similar_priced_model(loaded: &LoadedConfig, roles: &[ModelRole]) -> String {
    let similar = roles.iter().find_map(|role| {
        let model = role.config(&loaded.config).filter(|model| !has_prices(model))?;
        let ModelConfig::Served { config, .. } = model else { return None };
        nearest_name(&config.model, priced_models(&config.base_url))
    });
    similar.map(|name| format!(" (did you mean {name}?)")).unwrap_or_default()
}

/// The name of a model that a server answers for.
pub(super) fn served_name(loaded: &LoadedConfig, role: ModelRole) -> Option<&str> {
    match role.config(&loaded.config)? {
        ModelConfig::Served { config, .. } => Some(config.model.as_str()),
        _ => None,
    }
}

/// True if the prices of a model are those that are built in.
fn uses_list_prices(loaded: &LoadedConfig, roles: &[ModelRole]) -> bool {
    roles.iter().any(|role| {
        let key = format!("models.{}.price_input", role.as_str());
        loaded.origins.get(&key).is_some_and(|origin| matches!(origin, ValueSource::Preset))
    })
}

/// What is known of a run when it begins.
#[derive(Debug)]
pub(super) struct Beginning {
    /// What its checks found.
    pub(super) warnings: Vec<CheckWarning>,
    /// If its first measurement leaves nothing to learn or to gain, a person is asked, and if that is not possible the run
    /// stops; otherwise it goes on.
    pub(super) asks_to_go_on: bool,
}

/// Shows a run, keeps in its directory what its checks found, and stops it after a first measurement that leaves nothing
/// to learn.
pub(super) struct Watched {
    inner: Progress,
    beginning: Beginning,
    stop: StopSignal,
    stopped: Mutex<Option<String>>,
}

impl Watched {
    pub(super) fn new(inner: Progress, beginning: Beginning, stop: StopSignal) -> Self {
        Self { inner, beginning, stop, stopped: Mutex::default() }
    }

    /// Why the run was stopped here.
    pub(super) fn stopped(&self) -> Option<CommandError> {
        self.stopped.lock().take().map(stopped_by)
    }
}

fn stopped_by(message: String) -> CommandError {
    let hint = "look at the data and the scorer (`skillrl env check`); `skillrl train --yes` goes on, and pays nothing twice";
    CommandError::of_data(message).with_hint(hint)
}

/// Why a first measurement leaves nothing to learn or to gain, if it does.
fn without_gain(score: MeanScore) -> Option<&'static str> {
    match (score.hard <= 0.0, score.hard >= 1.0) {
        // Where parts of an answer count, there is something to learn from none that is whole.
        (true, _) if score.soft <= 0.0 => {
            Some("none of the validation items is solved with the initial skill")
        }
        (_, true) => {
            Some("all validation items are solved with the initial skill, so that nothing can be gained")
        }
        _ => None,
    }
}

/// True if a person at a terminal wants to go on all the same.
fn goes_on(what: &str) -> bool {
    matches!(asked(&format!("{what}. Go on? [y/N]")), Ok(Some(true)))
}

/// Stops a run again that its first measurement has stopped before, unless somebody agrees.
///
/// # Errors
///
/// Its first measurement, which is on record, leaves nothing to learn or to gain.
pub(super) fn check_known_baseline(loaded: &LoadedConfig) -> Result<(), CommandError> {
    let run = loaded.run_dir();
    let is_document = loaded.config.train.mode == TrainMode::Document;
    if !is_document || run_status(&run) != RunStatus::Unfinished {
        return Ok(());
    }
    // What cannot be read is an error of the run that goes on.
    let state = RunReader::open(&run).and_then(|reader| reader.state()).ok().flatten();
    let before_steps = state.filter(|state| state.last_completed_step == StepIdx(0));
    match before_steps.and_then(|state| without_gain(state.baseline)).filter(|what| !goes_on(what)) {
        Some(what) => Err(stopped_by(what.to_owned())),
        None => Ok(()),
    }
}

impl EventSink for Watched {
    fn emit(&self, event: &Event) {
        self.inner.emit(event);
        if let Event::RunStarted { dir, .. } = event
            && let Err(error) = write_checks(dir, &self.beginning.warnings)
        {
            tracing::warn!(%error, "what the checks found is not kept with the run");
        }
        let Event::BaselineMeasured { score, .. } = event else { return };
        let lost = without_gain(*score).filter(|what| self.beginning.asks_to_go_on && !goes_on(what));
        let Some(what) = lost else { return };
        *self.stopped.lock() = Some(what.to_owned());
        self.stop.soon.cancel();
    }
}
