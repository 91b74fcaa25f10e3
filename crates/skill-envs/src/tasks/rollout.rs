//! One attempt: what is asked, and what becomes of the reply.

use super::extract::{Extracted, Extractor};
use super::scorer::{Answer, Scorer, Verdict, shown_references};
use super::task::{Asked, SHOWN_FIELDS};
use crate::error::EnvError;
use serde_json::{Map, Value, json};
use skill_core::rollout::{FINISH_REASON_KEY, FINISH_REASON_LENGTH};
use skill_core::{Role, RolloutResult, SkillDoc, Turn, Usage};
use skill_llm::{
    CallCtx, ChatModel, ChatReply, ChatRequest, FinishReason, Message, PromptError, PromptTemplate, Sampling,
    ToolCall, ToolSpec,
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
    /// What is kept of the turns.
    pub(crate) extras: Map<String, Value>,
    /// Why there is no last reply.
    pub(crate) gave_out: Option<String>,
}

impl Attempt {
    /// One request with this reply.
    pub(crate) fn single(request: ChatRequest, reply: &ChatReply) -> Self {
        Self {
            opening: request,
            later: Vec::new(),
            n_turns: 1,
            usage: reply.usage,
            extras: Map::new(),
            gave_out: None,
        }
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
}

impl Agenda {
    /// What the template sees.
    fn variables(&self, task: Asked<'_>, skill: &SkillDoc) -> Map<String, Value> {
        let mut variables = task.variables();
        let choices = if task.choices.is_empty() { json!([]) } else { json!(task.choices) };
        for (name, value) in [
            ("skill", Value::from(skill.agent_view().trim())),
            ("item", task.item.data.clone()),
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
        let text = reply.text.trim();
        let extracted = self.extractor.extract(text);
        let asked = attempt.opening.text_of(Role::User);
        let is_whole = matches!(self.extractor.extraction(), super::Extraction::Whole);
        let answer = Answer {
            task,
            text: &extracted.answer,
            noun: if is_whole { "reply" } else { "answer" },
            reply: &reply,
            asked: &asked,
        };
        // A reply without text is no answer, even where nothing is left of the answer once it is normalised.
        let calls_tools = !reply.tool_calls.is_empty();
        let verdict = if extracted.answer.is_empty() && !calls_tools {
            Verdict::default()
        } else {
            self.scorer.score(&answer, judge, call).await?
        };
        let mut result = RolloutResult::new(task.item.id.clone(), verdict.score.hard, verdict.score.soft);
        if !result.is_success() {
            result.fail_reason = fail_reason(task, text, &extracted, calls_tools, &verdict, &reply.finish);
        }
        if let Some(reason) = attempt.gave_out {
            result.fail_reason = reason;
        }
        result.n_turns = attempt.n_turns;
        result.task_type = task.item.task_type.clone();
        result.question = task.question();
        if result.question.is_empty() {
            result.task_description = asked.clone();
        }
        result.reference_text = self.reference_text(task);
        result.target_system_prompt = attempt.opening.text_of(Role::System);
        result.target_user_prompt = asked;
        let messages = attempt.opening.messages.iter().chain(&attempt.later);
        result.conversation = messages
            .map(|message| Turn::new(message.role, said(&message.text(), &message.tool_calls)))
            .collect();
        result.conversation.push(Turn::new(Role::Assistant, said(reply.text.trim(), &reply.tool_calls)));
        result.usage = attempt.usage;
        result.extras = attempt.extras;
        result.extras.extend(verdict.extras);
        if let Some(reason) = unusual_finish(&reply.finish) {
            result.extras.insert(FINISH_REASON_KEY.to_owned(), Value::String(reason.to_owned()));
        }
        result.predicted_answer = extracted.answer;
        Ok(result)
    }

    /// What a right answer looks like, for those who read trajectories.
    fn reference_text(&self, task: Asked<'_>) -> String {
        if let (false, Some(choice)) = (task.choices.is_empty(), task.choices.get(task.correct))
            && matches!(self.scorer.config(), super::ScorerConfig::Choice { .. })
        {
            return format!("{}. {}", choice.label, choice.text);
        }
        let rules: Vec<String> =
            self.scorer.rules().iter().chain(&task.rules).map(|rule| rule.source().to_string()).collect();
        let mut parts = task.answers.clone();
        if !rules.is_empty() {
            parts.push(format!("rules: {}", rules.join(", ")));
        }
        parts.join(" | ")
    }

    /// A reply that is right, where one can be made from the reference.
    pub(crate) fn reference_reply(&self, task: Asked<'_>) -> Option<String> {
        use super::ScorerConfig;
        match self.scorer.config() {
            ScorerConfig::Regex { .. } | ScorerConfig::Rules { .. } => None,
            _ => self.extractor.reply_with(task.answers.first()?),
        }
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

/// What was said, calls of tools included.
fn said(text: &str, tool_calls: &[ToolCall]) -> String {
    if tool_calls.is_empty() {
        return text.to_owned();
    }
    let calls = tool_calls.iter().map(|call| format!("[calls {} with {}]", call.name, call.arguments));
    let text = Some(text.trim().to_owned()).filter(|text| !text.is_empty());
    text.into_iter().chain(calls).collect::<Vec<_>>().join("\n")
}

fn fail_reason(
    task: Asked<'_>,
    text: &str,
    extracted: &Extracted,
    calls_tools: bool,
    verdict: &Verdict,
    finish: &FinishReason,
) -> String {
    let expected = || match task.answers.is_empty() {
        true => String::new(),
        false => format!("; expected {}", shown_references(&task.answers)),
    };
    let missing = extracted.missing.as_ref().map(|missing| format!("the reply has {missing}"));
    let mut reason = if text.is_empty() && !calls_tools {
        format!("the reply is empty{}", expected())
    } else if extracted.answer.is_empty() && !calls_tools {
        format!("{}{}", missing.unwrap_or_else(|| "the answer is empty".to_owned()), expected())
    } else {
        let missing = missing.map(|missing| format!("; {missing}")).unwrap_or_default();
        format!("{}{missing}", verdict.reason)
    };
    match finish {
        FinishReason::Length => reason.push_str("; the reply was cut at its token limit"),
        FinishReason::ContentFilter => {
            reason.push_str("; the provider's content filter withheld the reply or a part of it");
        }
        FinishReason::ToolCalls => reason.push_str("; the reply called a tool"),
        FinishReason::Stop | FinishReason::Other(_) => {}
    }
    reason
}

fn unusual_finish(finish: &FinishReason) -> Option<&str> {
    match finish {
        FinishReason::Stop => None,
        FinishReason::Length => Some(FINISH_REASON_LENGTH),
        FinishReason::ToolCalls => Some("tool_calls"),
        FinishReason::ContentFilter => Some("content_filter"),
        FinishReason::Other(reason) => Some(reason),
    }
}
