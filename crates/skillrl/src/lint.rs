//! What the linter of `skill-core` needs around it: training items as text, and a model that looks for contradictions.

mod contradictions;

pub use contradictions::{Contradictions, ask_for_contradictions};

use crate::config::{Config, PromptsConfig};
use crate::error::Error;
use crate::prompts::{CONTRADICTIONS_PROMPT_NAME, replaced};
use serde_json::Value;
use skill_core::lint::TrainingText;
use skill_envs::{Env, Item, Split};

/// The text that replaces the prompt about contradictions, if `prompts.dir` has one.
///
/// # Errors
///
/// A file that cannot be read.
pub fn contradictions_prompt(prompts: &PromptsConfig) -> Result<Option<String>, Error> {
    replaced(prompts, CONTRADICTIONS_PROMPT_NAME)
}

/// Fields of an item that hold what is right, besides the one that the configuration names.
const ANSWER_FIELDS: [&str; 9] = [
    "answers",
    "answer",
    "ground_truth",
    "correct_choice",
    "reference",
    "target",
    "expected",
    "output",
    "solution",
];

/// The most items that are looked at: enough to find copies, and few enough to stay quick.
const MAX_ITEMS: usize = 20_000;

/// The training items of an environment, as the linter compares them with a skill.
pub fn training_texts(env: &dyn Env, config: &Config) -> Vec<TrainingText> {
    let named = config.env.answer_field();
    env.items(Split::Train).iter().take(MAX_ITEMS).map(|item| training_text(item, named)).collect()
}

fn training_text(item: &Item, named: Option<&str>) -> TrainingText {
    let mut text = TrainingText { id: item.id.to_string(), ..TrainingText::default() };
    let Value::Object(fields) = item.data.as_ref() else {
        collect(&item.data, &mut |part| join(&mut text.question, part));
        return text;
    };
    for (name, value) in fields {
        let is_answer = named.map_or_else(|| ANSWER_FIELDS.contains(&name.as_str()), |named| named == name);
        if is_answer {
            collect(value, &mut |part| text.answers.push(part.to_owned()));
        } else {
            collect(value, &mut |part| join(&mut text.question, part));
        }
    }
    text
}

/// Every text in a value, and numbers as JSON has them.
fn collect(value: &Value, take: &mut impl FnMut(&str)) {
    match value {
        Value::String(text) => take(text),
        Value::Number(number) => take(&number.to_string()),
        Value::Array(parts) => parts.iter().for_each(|part| collect(part, take)),
        Value::Object(members) => members.values().for_each(|part| collect(part, take)),
        Value::Null | Value::Bool(_) => {}
    }
}

fn join(text: &mut String, part: &str) {
    if !text.is_empty() {
        text.push('\n');
    }
    text.push_str(part);
}
