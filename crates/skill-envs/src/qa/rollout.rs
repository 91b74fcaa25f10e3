//! One attempt: what is asked, and what becomes of the reply.

use super::ROLLOUT_PROMPT_NAME;
use super::config::QaScorer;
use super::item::QaItem;
use crate::error::EnvError;
use crate::score::Score;
use serde::Serialize;
use serde_json::Value;
use skill_core::rollout::{FINISH_REASON_KEY, FINISH_REASON_LENGTH};
use skill_core::{Role, RolloutResult, SkillDoc, Turn};
use skill_llm::{ChatReply, ChatRequest, FinishReason, Message, PromptError, PromptTemplate, Sampling};

/// How many characters of a reply stand in a reason.
const MAX_REPLY_CHARACTERS: usize = 80;
/// How many characters of an answer stand in a reason.
const MAX_ANSWER_CHARACTERS: usize = 60;
/// How many answers stand in a reason.
const MAX_ANSWERS: usize = 3;

/// A skill that stands in no template by itself.
const SAMPLE_SKILL: &str = "sample-skill-6d1f";
/// A question that stands in no template by itself.
const SAMPLE_QUESTION: &str = "sample-question-6d1f";

/// What the template sees.
#[derive(Serialize)]
struct PromptVariables<'a> {
    skill: &'a str,
    question: &'a str,
    context: &'a str,
    task_type: &'a str,
}

/// Reads a template and renders it once for each kind of item, so that a wrong one is found before the run.
pub(super) fn prompt_template(source: &str) -> Result<PromptTemplate, EnvError> {
    let template = PromptTemplate::parse(ROLLOUT_PROMPT_NAME, source)?;
    let bare = QaItem::new("sample", SAMPLE_QUESTION, ["answer"]);
    let full = QaItem { context: "context".to_owned(), task_type: "type".to_owned(), ..bare.clone() };
    for item in [&bare, &full] {
        request(&template, item, &SkillDoc::default(), None)?;
        let request = request(&template, item, &SkillDoc::from(SAMPLE_SKILL), None)?;
        let text: String = request.messages.iter().map(Message::text).collect();
        for (variable, sample) in [("skill", SAMPLE_SKILL), ("question", SAMPLE_QUESTION)] {
            if !text.contains(sample) {
                let message =
                    format!("never shows `{{{{ {variable} }}}}`, without which nothing can be learned");
                return Err(PromptError { prompt: ROLLOUT_PROMPT_NAME.to_owned(), message }.into());
            }
        }
    }
    Ok(template)
}

/// The one call of an attempt.
pub(super) fn request(
    template: &PromptTemplate,
    item: &QaItem,
    skill: &SkillDoc,
    max_tokens: Option<u32>,
) -> Result<ChatRequest, EnvError> {
    let variables = PromptVariables {
        skill: skill.text().trim(),
        question: item.question.trim(),
        context: item.context.trim(),
        task_type: item.task_type.trim(),
    };
    let messages: Vec<Message> = template.render(variables)?;
    Ok(ChatRequest { sampling: Sampling { max_tokens, ..Sampling::default() }, ..ChatRequest::new(messages) })
}

/// The result of an attempt: the reply, scored.
pub(super) fn result(
    item: &QaItem,
    scorer: QaScorer,
    request: &ChatRequest,
    reply: ChatReply,
) -> RolloutResult {
    let prediction = reply.text.trim();
    // A reply without text is no answer, even where nothing is left of the answer once it is normalised.
    let score =
        if prediction.is_empty() { Score::default() } else { scorer.score(prediction, &item.answers) };
    let mut result = RolloutResult::new(item.id.clone(), score.hard, score.soft);
    if !result.is_success() {
        result.fail_reason = fail_reason(prediction, &item.answers, &reply.finish);
    }
    result.n_turns = 1;
    result.task_type = item.task_type.clone();
    result.predicted_answer = prediction.to_owned();
    result.question = item.question.clone();
    result.reference_text = item.answers.join(" | ");
    result.target_system_prompt = request.text_of(Role::System);
    result.target_user_prompt = request.text_of(Role::User);
    result.conversation =
        request.messages.iter().map(|message| Turn::new(message.role, message.text())).collect();
    result.conversation.push(Turn::new(Role::Assistant, prediction));
    result.usage = reply.usage;
    if let Some(reason) = unusual_finish(&reply.finish) {
        result.extras.insert(FINISH_REASON_KEY.to_owned(), Value::String(reason.to_owned()));
    }
    result
}

fn fail_reason(prediction: &str, answers: &[String], finish: &FinishReason) -> String {
    let mut reason = if prediction.is_empty() {
        "the reply is empty".to_owned()
    } else {
        format!("the reply {} matches no reference answer", quoted(prediction, MAX_REPLY_CHARACTERS))
    };
    let shown: Vec<String> =
        answers.iter().take(MAX_ANSWERS).map(|answer| quoted(answer, MAX_ANSWER_CHARACTERS)).collect();
    reason.push_str(&format!("; expected {}", shown.join(" or ")));
    if answers.len() > MAX_ANSWERS {
        reason.push_str(&format!(" or one of {} more", answers.len() - MAX_ANSWERS));
    }
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

/// A text on one line in quotation marks, cut to this many characters.
fn quoted(text: &str, max_characters: usize) -> String {
    let mut shown: String = text.chars().take(max_characters).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    format!("{shown:?}")
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
