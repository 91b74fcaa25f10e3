//! One attempt: what is asked, and what becomes of the reply.

use super::extract::{Extracted, Extractor};
use super::scorers::{Answer, Scorer, Verdict, shown_references};
use super::task::{Asked, SHOWN_FIELDS};
use crate::error::EnvError;
use crate::record;
use serde_json::{Map, Value, json};
use skill_core::rollout::GUARD_KEY;
use skill_core::{Role, RolloutResult, SkillDoc, Trajectory, TrajectoryTurn, Usage};
use skill_llm::{
    CallCtx, ChatModel, ChatReply, ChatRequest, FinishReason, Message, PromptError, PromptTemplate, Sampling,
    ToolSpec,
};

/// What was asked of an agent, up to its last reply.
#[derive(Debug)]
pub(crate) struct Attempt {
    /// The first request.
    pub(crate) opening: ChatRequest,
    /// What was said after it.
    pub(crate) later: Vec<Message>,
    pub(crate) n_turns: u32,
    /// Of all replies.
    pub(crate) usage: Usage,
    /// Each call, in order.
    pub(crate) calls: Vec<Call>,
    /// Why there is no last reply.
    pub(crate) gave_out: Option<String>,
}

impl Attempt {
    /// One request with this reply.
    pub(crate) fn single(request: ChatRequest, reply: &ChatReply) -> Self {
        let calls = vec![Call::new(request.messages.len(), reply)];
        Self { opening: request, later: Vec::new(), n_turns: 1, usage: reply.usage, calls, gave_out: None }
    }

    /// The conversation, which ends with this reply, and its calls: each request is all that was said before it.
    pub(crate) fn trajectory(&self, last: &ChatReply) -> Trajectory {
        let mut trajectory = Trajectory::default();
        for message in self.opening.messages.iter().chain(&self.later) {
            trajectory.say(record::message(message));
        }
        trajectory.say(record::reply(last));
        for Call { turn, reasoning } in &self.calls {
            if let Some(reply) =
                usize::try_from(turn.reply).ok().and_then(|at| trajectory.messages.get_mut(at))
            {
                reply.reasoning.clone_from(reasoning);
            }
            trajectory.turns.push(turn.clone());
        }
        trajectory
    }
}

/// A call of the agent's model.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) turn: TrajectoryTurn,
    reasoning: Option<String>,
}

impl Call {
    /// A call with the first so many messages of the conversation, whose reply is the next one.
    pub(crate) fn new(n_sent: usize, reply: &ChatReply) -> Self {
        let n_sent = u32::try_from(n_sent).unwrap_or(u32::MAX);
        let turn = record::turn((0..n_sent).collect(), n_sent, reply);
        Self { turn, reasoning: reply.reasoning.clone() }
    }
}

/// How items are asked and scored.
#[derive(Debug, Clone)]
pub(crate) struct Agenda {
    pub(crate) prompt: PromptTemplate,
    /// Whether the prompt is the one that shows fields by their usual names.
    pub(crate) shows_usual_fields: bool,
    pub(crate) tools: Vec<ToolSpec>,
    pub(crate) max_tokens: Option<u32>,
    pub(crate) extractor: Extractor,
    pub(crate) scorer: Scorer,
    /// A second scorer, whose score is beside that of the first.
    pub(crate) guard: Option<Scorer>,
}

impl Agenda {
    /// What the template sees.
    fn variables(&self, task: Asked<'_>, skill: &SkillDoc) -> Map<String, Value> {
        let mut variables = task.variables();
        let choices = if task.choices.is_empty() { json!([]) } else { json!(task.choices) };
        for (name, value) in [
            ("skill", Value::from(skill.agent_view().trim())),
            ("item", Value::clone(&task.item.data)),
            ("choice_list", choices),
            ("answer_format", Value::from(self.extractor.request())),
        ] {
            variables.insert(name.to_owned(), value);
        }
        if self.shows_usual_fields {
            variables.insert("shown".to_owned(), shown_fields(task));
        }
        if !variables.contains_key("task_type") {
            variables.insert("task_type".to_owned(), Value::from(task.item.task_type.as_str()));
        }
        variables
    }

    /// What is to be done: the question, or else what the agent is asked without a skill.
    pub(crate) fn goal(&self, task: Asked<'_>) -> Result<String, PromptError> {
        let question = task.question();
        if !question.trim().is_empty() {
            return Ok(question);
        }
        Ok(self.messages(task, &SkillDoc::default())?.text_of(Role::User))
    }

    /// What the agent is asked, without its images.
    pub(crate) fn messages(&self, task: Asked<'_>, skill: &SkillDoc) -> Result<ChatRequest, PromptError> {
        let messages = self.prompt.render(Value::Object(self.variables(task, skill)))?;
        Ok(ChatRequest {
            sampling: Sampling { max_tokens: self.max_tokens, ..Sampling::default() },
            tools: self.tools.clone(),
            ..ChatRequest::new(messages)
        })
    }

    /// What the agent is asked.
    pub(crate) fn request(&self, task: Asked<'_>, skill: &SkillDoc) -> Result<ChatRequest, EnvError> {
        let mut request = self.messages(task, skill)?;
        if let Some(message) = request.messages.iter_mut().rfind(|message| message.role == Role::User) {
            for image in &task.images {
                message.content.push(super::image::part(image)?);
            }
        }
        Ok(request)
    }

    /// The result of an attempt: the reply, scored.
    pub(crate) async fn result(
        &self,
        task: Asked<'_>,
        attempt: Attempt,
        reply: ChatReply,
        judge: Option<&dyn ChatModel>,
        call: &CallCtx,
    ) -> Result<RolloutResult, EnvError> {
        let extracted = self.extractor.extract(&reply.text);
        let asked = attempt.opening.text_of(Role::User);
        let is_whole = matches!(self.extractor.extraction(), super::Extraction::Whole);
        let whole = reply.answer();
        let is_for_want = match self.extractor.extraction() {
            super::Extraction::LastTag { .. } => extracted.missing.is_some(),
            super::Extraction::LastLine => true,
            super::Extraction::Whole | super::Extraction::Regex { .. } | super::Extraction::Json { .. } => {
                false
            }
        };
        let answer = Answer {
            task,
            text: &extracted.answer,
            whole: is_for_want.then_some(whole.as_ref()),
            noun: if is_whole { "reply" } else { "answer" },
            reply: &reply,
            asked: &asked,
        };
        // A reply without text is not an answer, even where nothing is left of the answer once it is normalised.
        let calls_tools = !reply.tool_calls.is_empty();
        let is_empty = extracted.answer.is_empty() && !calls_tools;
        let mut verdict =
            if is_empty { Verdict::default() } else { self.scorer.verdict(&answer, judge, call).await? };
        if let Some(guard) = &self.guard {
            let second =
                if is_empty { Verdict::default() } else { guard.verdict(&answer, judge, call).await? };
            verdict.extras.insert(GUARD_KEY.to_owned(), json!(second.score.soft));
        }
        let mut result = RolloutResult::new(task.item.id.clone(), verdict.score.hard, verdict.score.soft);
        if !result.is_success() {
            result.fail_reason = fail_reason(task, &extracted, calls_tools, &verdict, &reply);
        }
        if let Some(reason) = &attempt.gave_out {
            result.fail_reason.clone_from(reason);
        }
        result.n_turns = attempt.n_turns;
        result.task_type = task.item.task_type.clone();
        result.question = task.question();
        if result.question.is_empty() {
            result.task_description = asked.clone();
        }
        result.reference_text = self.scorer.reference_text(&task);
        result.target_system_prompt = attempt.opening.text_of(Role::System);
        result.target_user_prompt = asked;
        result.trajectory = attempt.trajectory(&reply);
        result.usage = attempt.usage;
        result.extras = verdict.extras;
        result.predicted_answer = extracted.answer;
        Ok(result)
    }

    /// A reply that is right, where one can be made from the reference.
    pub(crate) fn reference_reply(&self, task: Asked<'_>) -> Option<String> {
        self.extractor.reply_with(&self.scorer.right_answer(&task)?)
    }
}

/// The fields that the built-in prompt shows, each with a title.
fn shown_fields(task: Asked<'_>) -> Value {
    let text = |value: &Value| match value {
        Value::String(text) => text.trim().to_owned(),
        Value::Null => String::new(),
        other => other.to_string(),
    };
    let shown = SHOWN_FIELDS.iter().filter_map(|name| {
        let text = task.variable(name).map(text).filter(|text| !text.is_empty())?;
        let mut letters = name.chars();
        let title: String =
            letters.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(letters).collect();
        Some(json!({"name": name, "title": title, "text": text}))
    });
    shown.collect()
}

fn fail_reason(
    task: Asked<'_>,
    extracted: &Extracted,
    calls_tools: bool,
    verdict: &Verdict,
    reply: &ChatReply,
) -> String {
    let expected = || match task.answers.is_empty() {
        true => String::new(),
        false => format!("; expected {}", shown_references(&task.answers)),
    };
    let missing = extracted.missing.as_ref().map(|missing| format!("the reply has {missing}"));
    let mut reason = if reply.text.trim().is_empty() && !calls_tools {
        format!("the reply is empty{}", expected())
    } else if extracted.is_only_thought && !calls_tools {
        format!("the reply holds only what the model thought, and no answer{}", expected())
    } else if extracted.answer.is_empty() && !calls_tools {
        format!("{}{}", missing.unwrap_or_else(|| "the answer is empty".to_owned()), expected())
    } else {
        let missing = missing.map(|missing| format!("; {missing}")).unwrap_or_default();
        format!("{}{missing}", verdict.reason)
    };
    match &reply.finish {
        FinishReason::Length => reason.push_str("; the reply was cut at its token limit"),
        FinishReason::ContentFilter => {
            reason.push_str("; the provider's content filter withheld the reply or a part of it");
        }
        FinishReason::ToolCalls => reason.push_str("; the reply called a tool"),
        FinishReason::Stop | FinishReason::Other(_) => {
            if let Some(what) = reply.finish.used_up() {
                reason.push_str(&format!("; the agent's program has used up its {what}"));
            }
        }
    }
    reason
}
