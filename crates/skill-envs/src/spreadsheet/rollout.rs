//! One task: what the agent is asked and told, until there is a program, and what that comes to.

use super::code::program;
use super::config::SpreadsheetConfig;
use super::feedback::{self, NO_PROGRAM};
use super::lab::Lab;
use super::score::Judge;
use super::task::Task;
use super::tools::{Desk, specs};
use crate::choices::SpreadsheetMode as Mode;
use crate::env::RolloutCtx;
use crate::error::EnvError;
use crate::item::Item;
use crate::tasks::rollout::{Attempt, Call};
use serde_json::{Map, Value, json};
use skill_core::{Role, RolloutResult, ToolUse, Usage};
use skill_llm::{ChatModel, ChatReply, ChatRequest, ErrorClass, FinishReason, Message, ToolCall};

/// The most calls of one reply that are carried out.
const MAX_CALLS: usize = 8;
/// How much of a program a result keeps as the answer.
const ANSWER_CHARS: usize = 20_000;

/// A conversation about a task.
pub(super) struct Talk<'a> {
    pub(super) lab: &'a Lab,
    pub(super) config: &'a SpreadsheetConfig,
    pub(super) task: &'a Task,
    /// The agent may be told which cells are wrong.
    pub(super) is_training: bool,
    pub(super) target: &'a dyn ChatModel,
    pub(super) ctx: &'a RolloutCtx,
    request: ChatRequest,
    n_opening: usize,
    usage: Usage,
    calls: Vec<Call>,
    gave_out: Option<String>,
}

impl<'a> Talk<'a> {
    pub(super) fn new(
        lab: &'a Lab,
        config: &'a SpreadsheetConfig,
        task: &'a Task,
        is_training: bool,
        target: &'a dyn ChatModel,
        ctx: &'a RolloutCtx,
        mut request: ChatRequest,
    ) -> Self {
        if config.mode == Mode::Tools {
            request.tools = specs();
        }
        let n_opening = request.messages.len();
        Self {
            lab,
            config,
            task,
            is_training,
            target,
            ctx,
            request,
            n_opening,
            usage: Usage::default(),
            calls: Vec::new(),
            gave_out: None,
        }
    }

    /// Talks until there is a program, and scores it.
    pub(super) async fn play(mut self, item: &Item) -> Result<RolloutResult, EnvError> {
        let (code, last) = match self.config.mode {
            Mode::Single => {
                let reply = self.ask().await?;
                (reply.as_ref().and_then(|reply| program(&reply.answer())), reply)
            }
            Mode::Multi => self.rounds().await?,
            Mode::Tools => self.tools().await?,
        };
        self.result(item, code, last).await
    }

    fn judge(&self) -> Judge<'_> {
        Judge { lab: self.lab, config: self.config, task: self.task, cancel: &self.ctx.call.cancel }
    }

    /// One call; `None` where the model no longer takes the conversation, which is the agent's own doing.
    async fn ask(&mut self) -> Result<Option<ChatReply>, EnvError> {
        let turn = self.calls.len() + 1;
        let place =
            if turn == 1 { self.ctx.call.clone() } else { self.ctx.call.child(format!("turn {turn}")) };
        match self.target.chat(&self.request, &place).await {
            Ok(reply) => {
                self.usage += reply.usage;
                self.calls.push(Call::new(self.request.messages.len(), &reply));
                Ok(Some(reply))
            }
            Err(error)
                if turn > 1 && matches!(error.class(), ErrorClass::ContextTooLong | ErrorClass::Refused) =>
            {
                self.gave_out = Some(format!("the model does not take the conversation any longer: {error}"));
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Rounds with what became of the program.
    async fn rounds(&mut self) -> Result<(Option<String>, Option<ChatReply>), EnvError> {
        let mut code: Option<String> = None;
        let (mut n_reviews, mut n_feedbacks) = (self.config.review_rounds, self.config.feedback_rounds);
        let Some(case) = self.task.cases.first() else { return Ok((None, None)) };
        // Feedback in training has rounds of its own, so that what is said of errors is not cut by it.
        let max_rounds = match self.is_training {
            true => self.config.max_rounds.saturating_add(n_feedbacks),
            false => self.config.max_rounds,
        };
        for round in 1..=max_rounds {
            let Some(reply) = self.ask().await? else { return Ok((code, None)) };
            let answer = reply.answer().into_owned();
            let given = program(&answer);
            if given.is_none() && code.is_some() && feedback::is_done(&answer) {
                return Ok((code, Some(reply)));
            }
            let told = match &given {
                None => NO_PROGRAM.to_owned(),
                Some(given) => {
                    let ran = self.judge().run(given, case).await?;
                    let failure = feedback::failure(&ran);
                    let output = ran.output().filter(|_| failure.is_none());
                    match (&failure, output) {
                        (Some(failure), _) => feedback::of_failure(failure, &ran),
                        (None, Some(_)) if self.is_training && n_feedbacks > 0 => {
                            let judged = self.judge().judge(given, case).await?;
                            if judged.is_right {
                                return Ok((Some(given.clone()), Some(reply)));
                            }
                            n_feedbacks -= 1;
                            feedback::of_cells(&judged.feedback)
                        }
                        (None, Some(output)) if n_reviews > 0 => {
                            n_reviews -= 1;
                            feedback::of_result(output, &ran, &self.task.position)
                        }
                        (None, _) => return Ok((Some(given.clone()), Some(reply))),
                    }
                }
            };
            code = given.or(code);
            if round == max_rounds {
                return Ok((code, Some(reply)));
            }
            self.request.messages.push(Message::reply(&reply));
            self.request.messages.push(Message::user(told));
        }
        Ok((code, None))
    }

    /// Calls of tools until the agent makes none.
    async fn tools(&mut self) -> Result<(Option<String>, Option<ChatReply>), EnvError> {
        let Some(case) = self.task.cases.first() else { return Ok((None, None)) };
        let mut desk = Desk::new(case.read_input().map_err(|error| super::lab::wrong(&error))?);
        for round in 1..=self.config.max_rounds {
            let Some(reply) = self.ask().await? else { return Ok((desk.solution(), None)) };
            if reply.tool_calls.is_empty() || round == self.config.max_rounds {
                return Ok((desk.solution(), Some(reply)));
            }
            self.request.messages.push(Message::reply(&reply));
            let mut used = Vec::new();
            for (call_idx, call) in reply.tool_calls.iter().enumerate() {
                let told = match arguments(call) {
                    _ if call_idx >= MAX_CALLS => {
                        format!("error: not done; at most {MAX_CALLS} calls of a reply are")
                    }
                    Ok(arguments) => {
                        desk.call(self.lab, &call.name, &arguments, &self.ctx.call.cancel).await?
                    }
                    Err(fault) => fault,
                };
                let failed = told.starts_with("error: ");
                used.push(ToolUse::new(call.name.clone(), Some(call.arguments.clone()), failed));
                self.request.messages.push(Message::tool_result(call.id.as_str(), told));
            }
            if let Some(call) = self.calls.last_mut() {
                call.turn.tools = used;
            }
        }
        Ok((desk.solution(), None))
    }

    /// Runs the program for every case, and says what came of it.
    async fn result(
        self,
        item: &Item,
        code: Option<String>,
        last: Option<ChatReply>,
    ) -> Result<RolloutResult, EnvError> {
        let mut cases = Vec::new();
        let mut reasons = Vec::new();
        if let Some(code) = &code {
            for case in &self.task.cases {
                let judged = self.judge().judge(code, case).await?;
                cases.push(json!({"case": case.name, "right": judged.is_right, "verdict": judged.ran.verdict.as_str()}));
                if !judged.is_right {
                    reasons.push(match self.task.cases.len() {
                        1 => judged.reason,
                        _ => format!("case {}: {}", case.name, judged.reason),
                    });
                }
            }
        }
        let n_right = cases.iter().filter(|case| case["right"] == true).count();
        let n_cases = self.task.cases.len();
        let hard = f64::from(u8::from(n_right == n_cases && n_cases > 0));
        let soft = if n_cases == 0 { 0.0 } else { n_right as f64 / n_cases as f64 };
        let mut result = RolloutResult::new(item.id.clone(), hard, soft);
        let reply = last.unwrap_or_else(|| ChatReply::text("", Usage::default()));
        if !result.is_success() || n_right < n_cases {
            result.fail_reason = match (&code, &self.gave_out) {
                (None, Some(why)) => why.clone(),
                (None, None) => no_program(self.config.mode, &reply),
                (Some(_), _) => reasons.join("\n"),
            };
        }
        let mut opening = self.request;
        let later = opening.messages.split_off(self.n_opening.min(opening.messages.len()));
        let attempt = Attempt {
            opening,
            later,
            n_turns: u32::try_from(self.calls.len()).unwrap_or(u32::MAX),
            usage: self.usage,
            calls: self.calls,
            gave_out: None,
        };
        result.n_turns = attempt.n_turns;
        result.task_type.clone_from(&item.task_type);
        result.task_description.clone_from(&self.task.instruction);
        result.reference_text = format!("the answer is in {}", self.task.position);
        result.target_system_prompt = attempt.opening.text_of(Role::System);
        result.target_user_prompt = attempt.opening.text_of(Role::User);
        result.trajectory = attempt.trajectory(&reply);
        result.usage = attempt.usage;
        result.extras.insert("cases".to_owned(), Value::Array(cases));
        result.predicted_answer = code.unwrap_or_default().chars().take(ANSWER_CHARS).collect();
        Ok(result)
    }
}

fn no_program(mode: Mode, reply: &ChatReply) -> String {
    let what = match mode {
        Mode::Tools => "the agent wrote no solution.py",
        Mode::Single | Mode::Multi if reply.text.trim().is_empty() => "the reply is empty",
        Mode::Single | Mode::Multi => "the reply has no program",
    };
    match reply.finish {
        FinishReason::Length => format!("{what}; the reply was cut at its token limit"),
        _ => what.to_owned(),
    }
}

fn arguments(call: &ToolCall) -> Result<Map<String, Value>, String> {
    use skill_core::json::extract_answer;
    match extract_answer(call.arguments.trim(), Value::is_object).map(|found| found.value) {
        Some(Value::Object(arguments)) => Ok(arguments),
        Some(_) | None => Err("error: the arguments are not a JSON object".to_owned()),
    }
}

/// What the template sees.
pub(super) fn variables(task: &Task, config: &SpreadsheetConfig, skill: &str, preview: &str) -> Value {
    json!({
        "skill": skill,
        "mode": config.mode.as_str(),
        "instruction": task.instruction,
        "instruction_type": task.instruction_type,
        "position": task.position,
        "preview": preview,
        "max_rounds": config.max_rounds,
    })
}
