//! The file format of scripts, version 1.

use super::{AfterLast, Answer, Rule, Script, When};
use crate::chat::FinishReason;
use crate::error::ErrorClass;
use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use skill_core::python_json;

const VERSION: u64 = 1;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ScriptFile {
    version: u64,
    #[serde(default)]
    rules: Vec<RuleFile>,
    otherwise: Option<OtherwiseFile>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleFile {
    #[serde(default)]
    when: WhenFile,
    reply: Option<String>,
    replies: Option<Vec<String>>,
    after_last: Option<AfterLast>,
    finish: Option<FinishFile>,
    error: Option<ErrorFile>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OtherwiseFile {
    reply: Option<String>,
    replies: Option<Vec<String>>,
    after_last: Option<AfterLast>,
    finish: Option<FinishFile>,
    error: Option<ErrorFile>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct WhenFile {
    #[serde(default)]
    system_contains: Vec<String>,
    #[serde(default)]
    user_contains: Vec<String>,
    place_contains: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum FinishFile {
    Stop,
    Length,
    ToolCalls,
    ContentFilter,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ErrorFile {
    class: ErrorClass,
    #[serde(default)]
    message: String,
}

/// Reads a script; an error is a fragment with the line or the number of the rule.
pub(super) fn parse(text: &str) -> Result<Script, String> {
    let file: ScriptFile = python_json::read(text).map_err(|error| error.to_string())?;
    if file.version != VERSION {
        return Err(format!("version {} is not known; this program reads version {VERSION}", file.version));
    }
    let mut rules = Vec::with_capacity(file.rules.len());
    for (rule_idx, rule) in file.rules.into_iter().enumerate() {
        let (when, answer) = rule.split();
        let answer = answer.convert().map_err(|message| format!("rule {}: {message}", rule_idx + 1))?;
        rules.push(Rule { when, answer });
    }
    let otherwise = file.otherwise.map(OtherwiseFile::convert).transpose();
    Ok(Script { rules, otherwise: otherwise.map_err(|message| format!("`otherwise`: {message}"))? })
}

/// The first 16 hexadecimal digits of the SHA-256 of a script's text.
pub(super) fn hash(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

impl RuleFile {
    fn split(self) -> (When, OtherwiseFile) {
        let Self { when, reply, replies, after_last, finish, error } = self;
        let WhenFile { system_contains, user_contains, place_contains } = when;
        let when = When { system_contains, user_contains, place_contains };
        (when, OtherwiseFile { reply, replies, after_last, finish, error })
    }
}

impl OtherwiseFile {
    fn convert(self) -> Result<Answer, &'static str> {
        let texts = match (self.reply, self.replies, &self.error) {
            (Some(reply), None, None) => {
                if self.after_last.is_some() {
                    return Err("`after_last` needs `replies`");
                }
                vec![reply]
            }
            (None, Some(replies), None) if replies.is_empty() => return Err("`replies` is empty"),
            (None, Some(replies), None) => replies,
            (None, None, Some(_)) => Vec::new(),
            _ => return Err("needs exactly one of `reply`, `replies` and `error`"),
        };
        if let Some(error) = self.error {
            if self.finish.is_some() || self.after_last.is_some() {
                return Err("`finish` and `after_last` do not go with `error`");
            }
            if matches!(error.class, ErrorClass::Budget | ErrorClass::Journal | ErrorClass::NotRecorded) {
                return Err(
                    "the `class` of `error` is `budget`, `journal` or `not_recorded`, which no model fails with",
                );
            }
            return Ok(Answer::Error { class: error.class, message: error.message });
        }
        let after_last = self.after_last.unwrap_or_default();
        let finish = match self.finish {
            None | Some(FinishFile::Stop) => FinishReason::Stop,
            Some(FinishFile::Length) => FinishReason::Length,
            Some(FinishFile::ToolCalls) => FinishReason::ToolCalls,
            Some(FinishFile::ContentFilter) => FinishReason::ContentFilter,
        };
        Ok(Answer::Replies { texts, after_last, finish })
    }
}
