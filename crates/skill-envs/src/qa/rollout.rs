//! What a question is in terms of [`crate::tasks`]: the prompt, the scorer, and the whole reply as the answer.

use super::ROLLOUT_PROMPT_NAME;
use super::config::QaSettings;
use super::item::QaItem;
use crate::error::EnvError;
use crate::tasks::rollout::Agenda;
use crate::tasks::scorers::Scorer;
use crate::tasks::task::{Asked, Task, Variables};
use crate::tasks::{Extraction, Extractor};
use serde_json::{Map, Value};
use skill_core::SkillDoc;
use skill_llm::{Message, PromptError, PromptTemplate};

/// A skill that is in no template by itself.
const SAMPLE_SKILL: &str = "sample-skill-6d1f";
/// A question that is in no template by itself.
const SAMPLE_QUESTION: &str = "sample-question-6d1f";

/// How questions are asked and scored; a wrong prompt is found here, before the run.
pub(super) fn agenda(settings: QaSettings) -> Result<Agenda, EnvError> {
    let source = settings.prompt.as_deref().unwrap_or(super::ROLLOUT_PROMPT);
    let agenda = Agenda {
        prompt: PromptTemplate::parse(ROLLOUT_PROMPT_NAME, source)?,
        shows_usual_fields: false,
        tools: Vec::new(),
        max_tokens: settings.max_tokens,
        extractor: Extractor::new(Extraction::Whole)?,
        scorer: Scorer::new(settings.scorer.into())?,
        guard: None,
    };
    check_prompt(&agenda)?;
    Ok(agenda)
}

/// Renders the prompt once for each kind of item.
fn check_prompt(agenda: &Agenda) -> Result<(), PromptError> {
    let bare = QaItem::new("sample", SAMPLE_QUESTION, ["answer"]);
    let full = QaItem { context: "context".to_owned(), task_type: "type".to_owned(), ..bare.clone() };
    for (item, task) in [bare, full].map(|question| (question.to_item(), task(&question))) {
        let asked = Asked { item: &item, task: &task };
        agenda.messages(asked, &SkillDoc::default())?;
        let request = agenda.messages(asked, &SkillDoc::from(SAMPLE_SKILL))?;
        let text: String = request.messages.iter().map(Message::text).collect();
        for (variable, sample) in [("skill", SAMPLE_SKILL), ("question", SAMPLE_QUESTION)] {
            if !text.contains(sample) {
                let message =
                    format!("never shows `{{{{ {variable} }}}}`, without which nothing can be learned");
                return Err(PromptError { prompt: ROLLOUT_PROMPT_NAME.to_owned(), message });
            }
        }
    }
    Ok(())
}

/// The question as a task.
pub(super) fn task(item: &QaItem) -> Task {
    let variables = [
        ("question", item.question.trim()),
        ("context", item.context.trim()),
        ("task_type", item.task_type.trim()),
    ];
    let variables = variables.map(|(name, text)| (name.to_owned(), Value::from(text)));
    Task {
        variables: Variables::Own(Map::from_iter(variables)),
        answers: item.answers.clone(),
        ..Task::default()
    }
}
