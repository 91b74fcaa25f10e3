//! Answers as the servers write them.

use super::LiveKind;
use crate::episode::Observation;
use serde_json::Value;
use skill_core::python_json;

/// What ALFWorld says to a command that it does not know, or that does nothing.
const NOTHING_HAPPENS: &str = "Nothing happens";

/// An answer to `/reset` or `/step`.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Answer {
    pub(super) observation: String,
    pub(super) task_description: Option<String>,
    pub(super) task_category: Option<String>,
    available_actions: Option<Vec<String>>,
    done: bool,
    reward: f64,
    /// What the server itself says about the goal.
    won: Option<bool>,
}

/// Reads an answer; an error is a fragment that says what is wrong with it.
pub(super) fn answer(text: &str) -> Result<Answer, String> {
    let body: Value = python_json::read(text).map_err(|error| format!("it is not JSON: {error}"))?;
    let observation = match body.get("observation") {
        Some(Value::String(text)) => text.clone(),
        Some(_) => return Err("`observation` is not text".to_owned()),
        None => return Err("it has no `observation`".to_owned()),
    };
    let done = match body.get("done") {
        None | Some(Value::Null) => false,
        Some(Value::Bool(done)) => *done,
        Some(_) => return Err("`done` is neither true nor false".to_owned()),
    };
    let reward = match body.get("reward") {
        None | Some(Value::Null) => 0.0,
        Some(reward) => reward.as_f64().ok_or_else(|| "`reward` is not a number".to_owned())?,
    };
    let info = |name: &str| body.get("info").and_then(|info| info.get(name)).and_then(Value::as_bool);
    let text = |name: &str| {
        body.get(name).and_then(Value::as_str).filter(|text| !text.trim().is_empty()).map(str::to_owned)
    };
    Ok(Answer {
        observation,
        task_description: text("task_description"),
        task_category: text("task_category").map(|category| category.trim().to_owned()),
        available_actions: available_actions(body.get("available_actions"))?,
        done,
        reward,
        won: info("won").or_else(|| info("success")),
    })
}

fn available_actions(actions: Option<&Value>) -> Result<Option<Vec<String>>, String> {
    let texts = |list: &[Value]| -> Result<Vec<String>, String> {
        let texts = list.iter().map(|text| text.as_str().map(str::to_owned)).collect::<Option<_>>();
        texts.ok_or_else(|| "`available_actions` holds something that is not a text".to_owned())
    };
    match actions {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Array(list)) => texts(list).map(Some),
        Some(Value::Object(page)) => {
            let mut actions = Vec::new();
            if page.get("has_search_bar").and_then(Value::as_bool) == Some(true) {
                actions.push("search[words]".to_owned());
            }
            if let Some(Value::Array(list)) = page.get("clickables") {
                // The search button needs words, so it is not a link.
                let links = texts(list)?.into_iter().filter(|link| link != "search");
                actions.extend(links.map(|link| format!("click[{link}]")));
            }
            Ok(Some(actions))
        }
        Some(_) => Err("`available_actions` is not a list".to_owned()),
    }
}

impl Answer {
    pub(super) fn observation_of(self, kind: LiveKind) -> Observation {
        let by_reward = match kind {
            LiveKind::Alfworld => self.reward > 0.0,
            LiveKind::Webshop => self.reward >= 1.0,
        };
        let understood = match kind {
            LiveKind::Alfworld => !self.observation.trim_start().starts_with(NOTHING_HAPPENS),
            // A shop shows its page again, and that is all.
            LiveKind::Webshop => true,
        };
        Observation {
            text: self.observation,
            admissible: self.available_actions,
            reward: self.reward,
            done: self.done,
            won: self.won.unwrap_or(self.done && by_reward),
            understood,
        }
    }
}
