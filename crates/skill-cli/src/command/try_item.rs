//! `skillrl try`: one item with the real models, and everything that happens.

use super::CommandError;
use crate::args::TryArgs;
use crate::consent::{self, agree, is_new_address, item_words};
use crate::estimates::passes_cost;
use crate::table::{counted, duration, harmless};
use async_trait::async_trait;
use parking_lot::Mutex;
use serde::Serialize;
use skillrl::config::{LoadedConfig, ModelRole};
use skillrl::core::{MeanScore, RolloutResult};
use skillrl::cost::{has_prices, prices};
use skillrl::engine::Engine;
use skillrl::envs::{EnvError, RolloutCtx, Split};
use skillrl::llm::{
    CallCtx, CallPlace, ChatModel, ChatReply, ChatRequest, ContentPart, Journal, JournalOptions, Journaled,
    LlmError, Message, ModelId, Usage,
};
use skillrl::pipeline::run_dir::{RunDir, RunStatus, run_status};
use skillrl::pipeline::shell::count_spent;
use skillrl::pipeline::{PipelineError, StopSignal};
use skillrl::reports::lines::scores;
use skillrl::world;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

/// The place of these calls in the journal: no run has calls there.
const PLACE: &str = "try";

/// One call of a model.
#[derive(Debug, Clone, Serialize)]
struct Call {
    /// `target` or `judge`.
    role: &'static str,
    model: ModelId,
    /// Whether something was sent for it; else the reply is the journal's.
    sent: bool,
    request: ChatRequest,
    #[serde(skip_serializing_if = "Option::is_none")]
    reply: Option<ChatReply>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    took_ms: i64,
    /// By the configured prices; what comes from the journal costs nothing now.
    #[serde(skip_serializing_if = "Option::is_none")]
    cost: Option<f64>,
}

/// Everything that happened, in the order in which it is shown.
#[derive(Debug, Serialize)]
struct Report {
    item: String,
    split: Split,
    task_type: String,
    skill: String,
    skill_hash: String,
    calls: Vec<Call>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<RolloutResult>,
    usage: Usage,
    #[serde(skip_serializing_if = "Option::is_none")]
    cost: Option<f64>,
}

pub(crate) fn run(args: &TryArgs) -> crate::Result {
    let item = Path::new(&args.item);
    if item.extension().is_some_and(|extension| extension == "toml") && item.is_file() {
        let message = format!("{} is a configuration file, not an item", args.item);
        let hint = format!("name the item first: `skillrl try ITEM {}`", args.item);
        return Err(CommandError::new(message).with_hint(hint).into());
    }
    let loaded = crate::start::load_start(&args.config.start(), args.json)?;
    let mut engine = Engine::new(&loaded);
    let env = world::environment(&loaded, engine.judge()?)?;
    let (split, item) = crate::measuring::find_item(env.as_ref(), Some(&args.item))?;
    let (name, skill) = skillrl::skills::chosen(&loaded, args.skill.as_deref(), env.as_ref())?;
    let kept = if args.fresh { None } else { open_journal(&loaded)? };
    let journal = kept.as_ref().map(|(_, journal)| journal.clone());
    if let Some(journal) = &journal {
        // The caps of the run hold for what is tried in it too.
        count_spent(&engine.budget(), &engine.prices(), journal);
    }
    let is_new = is_new_address(&args.config.start(), &loaded);
    let pass = (is_new && !args.yes).then(|| {
        let settings = skillrl::trainer::settings(&loaded.config)?;
        passes_cost(&loaded, env.as_ref(), &skill, &settings, (split, 1))
    });
    let pass = pass.transpose()?;
    agree(&consent::Sending {
        loaded: &loaded,
        is_new,
        total: pass.as_ref().map(|pass| item_words(pass, env.items(split).len())).unwrap_or_default(),
        most: None,
        agrees: args.yes,
    })?;
    let calls = Arc::new(Mutex::new(Vec::new()));
    let watched = |role: ModelRole, model: Arc<dyn ChatModel>| {
        let prices = role.config(&loaded.config).filter(|config| has_prices(config)).map(prices);
        let sent = Arc::default();
        let sending: Arc<dyn ChatModel> = Arc::new(Sending { model, sent: Arc::clone(&sent) });
        let kept = match &journal {
            Some(journal) => Arc::new(Journaled::new(sending, journal.clone())),
            None => sending,
        };
        Watched { role, kept, sent, calls: Arc::clone(&calls), prices }
    };
    let target = watched(ModelRole::Target, engine.model(ModelRole::Target)?);
    let judge_role = ModelRole::of_judge(&loaded.config).unwrap_or(ModelRole::Judge);
    let judge =
        env.judge().map(|judge| Arc::new(watched(judge_role, Arc::clone(judge))) as Arc<dyn ChatModel>);

    let stop = StopSignal::default();
    let place = CallPlace::new(PLACE).child(&item.id);
    let call = CallCtx { cancel: stop.soon.clone(), ..CallCtx::new(place) }.with(skill.agent_view());
    let ctx = RolloutCtx { call, judge, ..RolloutCtx::default() };
    let outcome = super::block_on(stop, "stopping", env.rollout(item, &skill, &target, &ctx))?;
    if let Some(journal) = &journal {
        let committed = super::block_on(StopSignal::default(), "stopping", journal.flush())?;
        committed.map_err(PipelineError::Journal)?;
    }
    let calls = std::mem::take(&mut *calls.lock());
    let (result, failure) = match outcome {
        Ok(result) => (Some(result), None),
        Err(error) => (None, Some(skillrl::Error::Attempt(error))),
    };
    let report = Report {
        item: item.id.to_string(),
        split,
        task_type: item.task_type.clone(),
        skill: name,
        skill_hash: skill.hash().to_string(),
        usage: used(&calls),
        cost: calls.iter().filter_map(|call| call.cost).reduce(|sum, cost| sum + cost),
        calls,
        result,
    };
    if args.json {
        super::print_json(&report)?;
    } else {
        super::print(&harmless(&describe(&report)))?;
    }
    // What happened is shown before what it failed of.
    failure.map_or(Ok(()), failed)
}

/// Ends with the failure of the attempt, unless a reply came: it is shown, and that is what this command is for.
fn failed(error: skillrl::Error) -> crate::Result {
    // The model replied each time with half a character.
    let is_half =
        matches!(&error, skillrl::Error::Attempt(EnvError::Model(error)) if error.is_half_character());
    if !is_half {
        return Err(error.into());
    }
    let hint = "a run repeats such a request, and ends with exit code 5 if it comes to nothing else";
    super::say(&format!("warning: no score: {}; {hint}", skillrl::llm::error::with_causes(&error)));
    Ok(())
}

/// The tokens of all replies, regardless of who paid for them.
fn used(calls: &[Call]) -> Usage {
    let mut used = Usage::default();
    for reply in calls.iter().filter_map(|call| call.reply.as_ref()) {
        used += reply.usage;
    }
    used
}

/// The journal of the run, with the run's lock; `None` where there is no run, or its journal is not to be written.
fn open_journal(loaded: &LoadedConfig) -> crate::Result<Option<(RunDir, Journal)>> {
    let dir = loaded.run_dir();
    if run_status(&dir) == RunStatus::Absent {
        return Ok(None);
    }
    let opened = RunDir::open(&dir).and_then(|run| {
        let journal = run.open_journal(JournalOptions::default(), false)?;
        Ok((run, journal))
    });
    let why = match opened {
        Ok(opened) => return Ok(Some(opened)),
        Err(PipelineError::Locked { .. }) => "is at work",
        Err(PipelineError::LostJournal { .. }) => "lacks its journal, or a part of it",
        Err(error) => return Err(error.into()),
    };
    let note = format!("note: the run in {} {why}; these calls are not kept in its journal", dir.display());
    super::say(&note);
    Ok(None)
}

/// A model whose calls are written down, with what was sent for them.
struct Watched {
    role: ModelRole,
    kept: Arc<dyn ChatModel>,
    sent: Arc<Mutex<Vec<ChatRequest>>>,
    calls: Arc<Mutex<Vec<Call>>>,
    prices: Option<skillrl::llm::Prices>,
}

#[async_trait]
impl ChatModel for Watched {
    fn id(&self) -> &ModelId {
        self.kept.id()
    }

    fn parameters(&self) -> serde_json::Value {
        self.kept.parameters()
    }

    async fn chat(&self, request: &ChatRequest, call: &CallCtx) -> Result<ChatReply, LlmError> {
        let started = Instant::now();
        let outcome = self.kept.chat(request, call).await;
        let sent = {
            let mut sent = self.sent.lock();
            let at = sent.iter().position(|sent| sent == request);
            at.map(|at| sent.swap_remove(at)).is_some()
        };
        let reply = outcome.as_ref().ok().cloned();
        let cost = match (&reply, self.prices) {
            (Some(reply), Some(prices)) => Some(if sent { prices.cost(reply.usage) } else { 0.0 }),
            (None, _) | (_, None) => None,
        };
        self.calls.lock().push(Call {
            role: self.role.as_str(),
            model: self.id().clone(),
            sent,
            request: request.clone(),
            reply,
            error: outcome.as_ref().err().map(|error| skillrl::llm::error::with_causes(error)),
            took_ms: i64::try_from(started.elapsed().as_millis()).unwrap_or(i64::MAX),
            cost,
        });
        outcome
    }
}

/// Notes what the journal did not answer.
struct Sending {
    model: Arc<dyn ChatModel>,
    sent: Arc<Mutex<Vec<ChatRequest>>>,
}

#[async_trait]
impl ChatModel for Sending {
    fn id(&self) -> &ModelId {
        self.model.id()
    }

    fn parameters(&self) -> serde_json::Value {
        self.model.parameters()
    }

    async fn chat(&self, request: &ChatRequest, call: &CallCtx) -> Result<ChatReply, LlmError> {
        self.sent.lock().push(request.clone());
        self.model.chat(request, call).await
    }
}

fn describe(report: &Report) -> String {
    let of_type = if report.task_type.is_empty() { String::new() } else { format!(", {}", report.task_type) };
    let mut text = format!(
        "item    {} ({}{of_type})\nskill   {} ({})\n",
        report.item, report.split, report.skill, report.skill_hash
    );
    let mut shown: &[Message] = &[];
    for (call, number) in report.calls.iter().zip(1..) {
        shown = describe_call(&mut text, call, number, shown);
    }
    text.push('\n');
    if let Some(result) = &report.result {
        describe_result(&mut text, result);
    }
    let usage = report.usage;
    let money = report.cost.map_or_else(String::new, |cost| format!(", ${cost:.6}"));
    let _ = writeln!(
        text,
        "used    {}, {} tokens in ({} from a cache), {} out{money}",
        counted(report.calls.len() as u64, "call"),
        usage.input,
        usage.cached,
        usage.output
    );
    text
}

/// Shows a call, without the messages that the call before began with; returns its messages.
fn describe_call<'a>(text: &mut String, call: &'a Call, number: usize, shown: &[Message]) -> &'a [Message] {
    let how = if call.sent { duration(call.took_ms) } else { "from the journal of the run".to_owned() };
    let _ = writeln!(text, "\ncall {number}  {}, {}, {how}", call.role, call.model);
    let messages = call.request.messages.as_slice();
    let same = messages.iter().zip(shown).take_while(|(message, shown)| message == shown).count();
    if same > 0 {
        let _ = writeln!(text, "        after {} as before", counted(same as u64, "message"));
    }
    for message in messages.iter().skip(same) {
        block(text, message.role.as_str(), &message_text(message));
    }
    if !call.request.tools.is_empty() {
        let names: Vec<&str> = call.request.tools.iter().map(|tool| tool.name.as_str()).collect();
        let _ = writeln!(text, "tools   {}", names.join(", "));
    }
    match (&call.reply, &call.error) {
        (Some(reply), _) => {
            block(text, "reply", &reply.text);
            for tool in &reply.tool_calls {
                block(text, "calls", &format!("{} {}", tool.name, tool.arguments));
            }
            let usage = reply.usage;
            let _ = writeln!(
                text,
                "tokens  {} in ({} from a cache), {} out; ended by {}",
                usage.input,
                usage.cached,
                usage.output,
                finish_text(reply)
            );
        }
        (None, Some(error)) => block(text, "error", error),
        (None, None) => {}
    }
    messages
}

fn finish_text(reply: &ChatReply) -> &str {
    use skillrl::llm::FinishReason;
    match &reply.finish {
        FinishReason::Stop => "itself",
        FinishReason::Length => "its limit on tokens",
        FinishReason::ToolCalls => "calling tools",
        FinishReason::ContentFilter => "a filter of the provider",
        FinishReason::Other(reason) => reason,
    }
}

fn message_text(message: &Message) -> String {
    let mut text = message.text();
    let n_images = message.content.iter().filter(|part| matches!(part, ContentPart::Image(_))).count();
    if n_images > 0 {
        let _ = write!(text, "\n({})", counted(n_images as u64, "image"));
    }
    for call in &message.tool_calls {
        let _ = write!(text, "\n{} {}", call.name, call.arguments);
    }
    text
}

fn describe_result(text: &mut String, result: &RolloutResult) {
    block(text, "answer", &result.predicted_answer);
    if !result.reference_text.is_empty() {
        block(text, "wanted", &result.reference_text);
    }
    let score = scores(MeanScore { hard: result.hard, soft: result.soft }, None);
    let _ = writeln!(text, "score   {score}");
    if !result.fail_reason.is_empty() {
        block(text, "reason", &result.fail_reason);
    }
    if result.n_turns > 1 {
        let _ = writeln!(text, "turns   {}", result.n_turns);
    }
}

/// A text under its name, indented where it has lines.
fn block(text: &mut String, name: &str, content: &str) {
    if content.trim().lines().count() <= 1 {
        let _ = writeln!(text, "{}", format!("{name:<7} {}", content.trim()).trim_end());
        return;
    }
    let _ = writeln!(text, "{name}");
    for line in content.trim_end().lines() {
        let _ = writeln!(text, "{}", format!("  | {line}").trim_end());
    }
}
