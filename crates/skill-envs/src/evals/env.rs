//! The environment.

use super::case::{Case, CaseSet};
use super::changes::Done;
use super::check::{Check, CheckRow};
use super::{commands, fixture, grade};
use crate::env::{Env, RolloutCtx};
use crate::error::EnvError;
use crate::item::{Item, Split, Splits};
use crate::source::SkillSource;
use crate::tasks::rollout::Attempt;
use async_trait::async_trait;
use indexmap::IndexMap;
use serde_json::{Value, json};
use skill_core::rollout::GUARD_KEY;
use skill_core::{ItemId, Role, RolloutResult, ToolUse};
use skill_llm::{AgentProject, ChatModel, ChatRequest, FinishReason, Message, PromptTemplate};
use skill_sandbox::{Choice, Sandbox};
use std::path::PathBuf;
use std::sync::Arc;

/// The key of a result's extras with what became of each check.
const CHECKS_KEY: &str = "checks";
/// The key of a result's extras that marks a run that ended at its time limit.
const OVER_TIME_KEY: &str = "over_time";
/// How many of so many cases are for training, of those that name no split.
const TRAIN_TENTHS: usize = 6;

/// Where cases come from.
#[derive(Debug, Clone)]
pub struct EvalsConfig {
    /// A case file, or a folder of case folders.
    pub cases: PathBuf,
    /// Ids of cases that are left out.
    pub exclude: Vec<String>,
    /// All cases are in the validation split, as a measurement needs them; else they are split for training.
    pub is_for_measuring: bool,
    /// A model grades expectations: the judge, which those who only look at the cases do without.
    pub is_graded: bool,
    /// A template that replaces [`super::GRADER_PROMPT`].
    pub prompt: Option<String>,
    /// The sandbox of commands.
    pub sandbox: Choice,
    /// A gate has a guard, so that some case has to have a check that guards.
    pub needs_guard: bool,
}

/// Cases of a coding agent.
pub struct EvalsEnv {
    splits: Splits<Vec<Item>>,
    cases: IndexMap<ItemId, (Case, Arc<AgentProject>)>,
    prompt: PromptTemplate,
    sandbox: Option<Sandbox>,
    judge: Option<Arc<dyn ChatModel>>,
}

impl EvalsEnv {
    /// Reads the cases and their projects.
    ///
    /// # Errors
    ///
    /// Cases that cannot be used, a sandbox that is needed and missing, expectations without a model that grades them.
    pub fn load(config: &EvalsConfig, judge: Option<Arc<dyn ChatModel>>) -> Result<Self, EnvError> {
        let wrong = |message: String| EnvError::Configuration { message };
        let set = CaseSet::read(&config.cases)?;
        let is_kept = |case: &&Case| !config.exclude.contains(&case.id) && case.is_reviewed;
        let kept: Vec<Case> = set.cases.iter().filter(is_kept).cloned().collect();
        let drafts = set.drafts();
        if kept.is_empty() {
            let message = format!(
                "no case is left of {}; {} are drafts: review them, and set \"reviewed\": true",
                set.cases.len(),
                drafts.len()
            );
            return Err(EnvError::BadData { path: config.cases.clone(), message });
        }
        // A measurement names them itself, before it asks.
        if !drafts.is_empty() && !config.is_for_measuring {
            tracing::warn!("drafts are left out until they are reviewed: {}", drafts.join(", "));
        }
        let needs_sandbox = |case: &Case| {
            case.scaffold.is_some() || case.checks.iter().any(|check| matches!(check, Check::Command(_)))
        };
        let sandbox = match kept.iter().find(|case| needs_sandbox(case)) {
            Some(case) => Some(crate::sandboxed::open(&config.sandbox).map_err(|what| {
                wrong(format!("{}: a command of it runs in the sandbox: {what}", case.place))
            })?),
            None => None,
        };
        if let (false, Some(case)) =
            (config.is_graded, kept.iter().find(|case| case.checks.iter().any(Check::needs_grader)))
        {
            return Err(wrong(format!(
                "{}: its expectations are graded by a model, and none is configured as the judge",
                case.place
            )));
        }
        let mut splits = Splits::from([Vec::new(), Vec::new(), Vec::new()]);
        let mut cases = IndexMap::new();
        let n_open = kept.iter().filter(|case| case.split.is_none()).count();
        let n_train = (n_open * TRAIN_TENTHS / 10).max(1);
        let mut n_given = 0;
        for case in kept {
            let project = Arc::new(fixture::project(&case, sandbox.as_ref())?);
            let split = match (config.is_for_measuring, case.split) {
                (true, _) => Split::Val,
                (false, Some(split)) => split,
                (false, None) => {
                    n_given += 1;
                    if n_given <= n_train { Split::Train } else { Split::Val }
                }
            };
            let checks: Vec<Value> = case.checks.iter().map(Check::settings).collect();
            let mut data = json!({
                "prompt": case.prompt, "expected": case.expected, "checks": checks, "project": project.digest(),
            });
            for (name, places) in [("guards", &case.guards), ("shown_only", &case.shown_only)] {
                if let (Value::Object(fields), false) = (&mut data, places.is_empty()) {
                    fields.insert(name.to_owned(), json!(places));
                }
            }
            splits[split].push(Item::new(case.id.as_str(), data));
            cases.insert(ItemId::new(case.id.clone()), (case, project));
        }
        let has_guard = |item: &Item| item.data.get("guards").is_some();
        if config.needs_guard && !splits[Split::Val].iter().any(has_guard) {
            let message =
                "no check of a validation case has \"guard\": true, and the gate has a guard".to_owned();
            return Err(EnvError::BadData { path: config.cases.clone(), message });
        }
        let prompt = grade::parsed(config.prompt.as_deref())?;
        Ok(Self { splits, cases, prompt, sandbox, judge })
    }

    async fn judged(
        &self,
        case: &Case,
        done: &Done,
        item: &Item,
        ctx: &RolloutCtx,
    ) -> Result<Vec<CheckRow>, EnvError> {
        let expectations: Vec<&str> = case
            .checks
            .iter()
            .filter_map(|check| match check {
                Check::Expectation { text } => Some(text.as_str()),
                _ => None,
            })
            .collect();
        let judge = ctx.judge.as_ref().or(self.judge.as_ref());
        let mut graded = match judge.filter(|_| !expectations.is_empty()) {
            Some(judge) => {
                let task = (case.prompt.as_str(), case.expected.as_str());
                grade::grade(&self.prompt, task, &expectations, done, judge.as_ref(), (&item.id, &ctx.call))
                    .await?
            }
            None => Vec::new(),
        }
        .into_iter();
        let mut rows = Vec::with_capacity(case.checks.len());
        for (idx, check) in case.checks.iter().enumerate() {
            let row = match (check, &self.sandbox) {
                (Check::Expectation { .. }, _) => graded.next(),
                (Check::Command(check), Some(sandbox)) => {
                    Some(commands::run(check, done, sandbox, &ctx.call.cancel).await?)
                }
                (check, _) => check.look(done),
            };
            let missing =
                || EnvError::Configuration { message: format!("{}: a check cannot be made", case.place) };
            let mut row = row.ok_or_else(missing)?;
            row.is_shown_only |= case.guards.contains(&idx) || case.shown_only.contains(&idx);
            rows.push(row);
        }
        Ok(rows)
    }
}

/// What became of each check of a result.
pub fn checks_of(result: &RolloutResult) -> Vec<CheckRow> {
    let rows = result.extras.get(CHECKS_KEY).cloned().unwrap_or_default();
    serde_json::from_value(rows).unwrap_or_default()
}

/// The result of a run that did not end within its time limit: it fails all its checks.
fn over_time(case: &Case, item: &Item, milliseconds: u64) -> RolloutResult {
    let seconds = milliseconds as f64 / 1000.0;
    let evidence = format!("the run did not end within {seconds:.0} s");
    let row = |(idx, check): (usize, &Check)| CheckRow {
        text: check.text(),
        passed: false,
        evidence: evidence.clone(),
        by_model: false,
        is_shown_only: matches!(check, Check::Activation { .. })
            || case.guards.contains(&idx)
            || case.shown_only.contains(&idx),
        edited: Vec::new(),
    };
    let rows: Vec<CheckRow> = case.checks.iter().enumerate().map(row).collect();
    let mut result = RolloutResult::new(item.id.clone(), 0.0, 0.0);
    result.task_description.clone_from(&case.prompt);
    result.extras.insert(CHECKS_KEY.to_owned(), json!(rows));
    result.extras.insert("seconds".to_owned(), json!(seconds));
    if let Some(guard) = guard_score(case, &rows) {
        result.extras.insert(GUARD_KEY.to_owned(), json!(guard));
    }
    result.extras.insert(OVER_TIME_KEY.to_owned(), json!(true));
    result.fail_reason = evidence;
    result
}

/// The share of a case's guarding checks that pass; `None` where it has none.
fn guard_score(case: &Case, rows: &[CheckRow]) -> Option<f64> {
    let guards: Vec<&CheckRow> = case.guards.iter().filter_map(|idx| rows.get(*idx)).collect();
    let n_passed = guards.iter().filter(|row| row.passed).count();
    (!guards.is_empty()).then(|| n_passed as f64 / guards.len() as f64)
}

/// Whether a run ended at its time limit, and failed for that.
pub fn is_over_time(result: &RolloutResult) -> bool {
    result.extras.get(OVER_TIME_KEY).and_then(Value::as_bool) == Some(true)
}

#[async_trait]
impl Env for EvalsEnv {
    fn name(&self) -> &'static str {
        "evals"
    }

    fn items(&self, split: Split) -> &[Item] {
        &self.splits[split]
    }

    fn settings(&self) -> Value {
        json!({ "grader": self.prompt.source() })
    }

    fn judge(&self) -> Option<&Arc<dyn ChatModel>> {
        self.judge.as_ref()
    }

    fn reward(&self) -> Option<String> {
        Some("all checks of what the agent left pass".to_owned())
    }

    fn goal(&self, item: &Item) -> Option<String> {
        self.cases.get(&item.id).map(|(case, _)| case.prompt.clone())
    }

    async fn rollout(
        &self,
        item: &Item,
        source: &dyn SkillSource,
        target: &dyn ChatModel,
        ctx: &RolloutCtx,
    ) -> Result<RolloutResult, EnvError> {
        let (case, project) = self
            .cases
            .get(&item.id)
            .ok_or_else(|| EnvError::Configuration { message: format!("no case has the id {}", item.id) })?;
        let (_, ctx) = ctx.show(source, item, &case.prompt).await?;
        let call = ctx.call.clone().with(AgentProject::clone(project));
        let request = ChatRequest::new(vec![Message::user(case.prompt.as_str())]);
        let reply = target.chat(&request, &call).await?;
        let done = Done::of(&reply, project).ok_or_else(|| EnvError::Configuration {
            message: format!(
                "the model {} is not a coding agent, which cases need as their target",
                target.id()
            ),
        })?;
        if reply.finish == FinishReason::time_used_up() {
            return Ok(over_time(case, item, done.work.milliseconds));
        }
        let rows = self.judged(case, &done, item, &ctx).await?;
        let counted: Vec<&CheckRow> = rows.iter().filter(|row| !row.is_shown_only).collect();
        let n_passed = counted.iter().filter(|row| row.passed).count();
        let is_passed = !counted.is_empty() && n_passed == counted.len();
        let soft = if counted.is_empty() { 0.0 } else { n_passed as f64 / counted.len() as f64 };
        let mut result = RolloutResult::new(item.id.clone(), f64::from(u8::from(is_passed)), soft);
        if !is_passed {
            let failed = counted.iter().filter(|row| !row.passed);
            let failed: Vec<String> = failed.map(|row| format!("{}: {}", row.text, row.evidence)).collect();
            result.fail_reason = failed.join("\n");
        }
        let mut attempt = Attempt::single(request, &reply);
        if let Some(call) = attempt.calls.last_mut() {
            let used = done.work.tools.iter();
            let used =
                used.map(|tool| ToolUse::new(tool.name.clone(), Some(tool.arguments.to_string()), false));
            call.turn.tools = used.collect();
        }
        result.n_turns = u32::try_from(done.work.replies.max(1)).unwrap_or(u32::MAX);
        result.task_description.clone_from(&case.prompt);
        result.reference_text.clone_from(&case.expected);
        result.target_user_prompt = attempt.opening.text_of(Role::User);
        result.trajectory = attempt.trajectory(&reply);
        result.usage = attempt.usage;
        result.predicted_answer = reply.text.clone();
        let extras = &mut result.extras;
        if let Some(guard) = guard_score(case, &rows) {
            extras.insert(GUARD_KEY.to_owned(), json!(guard));
        }
        extras.insert(CHECKS_KEY.to_owned(), json!(rows));
        extras.insert("seconds".to_owned(), json!(done.work.milliseconds as f64 / 1000.0));
        extras.insert("tool_calls".to_owned(), json!(done.work.tools.len()));
        if let Some(cost) = done.work.cost {
            extras.insert("cost".to_owned(), json!(cost));
        }
        extras.insert("loaded".to_owned(), json!(done.work.loaded));
        extras.insert("changed".to_owned(), json!(done.touched()));
        Ok(result)
    }
}
