//! Rules of the table: which records say what.
//!
//! A path is names with dots between them; in a rule with `each` it starts at the element, and with a leading `/` at
//! the record. A condition is a text that a value must equal; `!` before it negates, `?` is present, `!?` absent, `^`
//! begins with, `~` contains.

use crate::event::{Event, Style, What};
use regex::Regex;
use serde::Deserialize;
use serde_json::Value;
use skill_core::Usage;
use std::collections::BTreeMap;

/// Where a record comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Source {
    /// What the program printed.
    Stream,
    /// A session file.
    File,
}

/// What a matching record says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Is {
    Session,
    Reply,
    ReplyEnd,
    Replied,
    Summary,
    Text,
    Answer,
    UsedUp,
    Call,
    Command,
    Result,
    Listing,
    Offer,
    Person,
    Prompt,
    Failure,
    End,
    Usage,
}

/// Why a run failed whose model refused, in the rules of the table.
pub(crate) const REFUSED: &str = "model refused";

/// A regular expression of the table.
#[derive(Debug, Clone)]
struct Pattern(Regex);

impl<'de> Deserialize<'de> for Pattern {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Regex::new(&text).map(Self).map_err(serde::de::Error::custom)
    }
}

/// One rule.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Rule {
    pub(crate) from: Option<Source>,
    pub(crate) when: BTreeMap<String, String>,
    pub(crate) each: Option<String>,
    #[serde(default)]
    pub(crate) item: BTreeMap<String, String>,
    pub(crate) is: Is,
    id: Option<String>,
    name: Option<String>,
    fixed_name: Option<String>,
    arguments: Option<String>,
    /// The path of the only argument, a command.
    argument: Option<String>,
    text: Option<String>,
    path: Option<String>,
    sub: Option<String>,
    status: Option<String>,
    why: Option<String>,
    exit: Option<String>,
    exit_pattern: Option<Pattern>,
    #[serde(default)]
    fails: BTreeMap<String, String>,
    #[serde(default)]
    failed: bool,
    pattern: Option<Pattern>,
    /// In prompts, what the pattern is replaced by.
    replacement: Option<String>,
    /// Prompts have quotation marks around them.
    #[serde(default)]
    quoted: bool,
    #[serde(default)]
    not_prefixes: Vec<String>,
    prompt_override: Option<String>,
    style: Option<Style>,
    version: Option<String>,
    model: Option<String>,
    #[serde(default)]
    add: bool,
    #[serde(default)]
    input: Vec<String>,
    #[serde(default)]
    cached: Vec<String>,
    #[serde(default)]
    cache_written: Vec<String>,
    #[serde(default)]
    output: Vec<String>,
    #[serde(default)]
    reasoning: Vec<String>,
    pub(crate) cost: Option<String>,
}

/// The value at a path; `null` is absent.
pub(crate) fn at<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    let mut found = value;
    for name in path.split('.') {
        found = match found {
            Value::Object(fields) => fields.get(name)?,
            Value::Array(items) => items.get(name.parse::<usize>().ok()?)?,
            _ => return None,
        };
    }
    Some(found).filter(|found| !found.is_null())
}

/// All text in a value, part after part.
pub(crate) fn text_in(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => {
            let texts: Vec<String> = items.iter().map(text_in).filter(|text| !text.is_empty()).collect();
            texts.join("\n")
        }
        Value::Object(fields) => {
            let is_text = |name: &str| !matches!(name, "type" | "id" | "name" | "tool_use_id" | "mimeType");
            let texts = fields.iter().filter(|(name, _)| is_text(name)).map(|(_, value)| text_in(value));
            let texts: Vec<String> = texts.filter(|text| !text.is_empty()).collect();
            texts.join("\n")
        }
        _ => String::new(),
    }
}

fn as_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(_) | Value::Object(_) => text_in(value),
        other => other.to_string(),
    }
}

/// True if all conditions hold.
pub(crate) fn holds(record: &Value, item: &Value, conditions: &BTreeMap<String, String>) -> bool {
    conditions.iter().all(|(path, condition)| {
        let value = find(record, item, path);
        match condition.strip_prefix('!') {
            Some(condition) => !holds_one(value, condition),
            None => holds_one(value, condition),
        }
    })
}

fn holds_one(value: Option<&Value>, condition: &str) -> bool {
    match (condition, value) {
        ("?", value) => value.is_some(),
        (_, None) => false,
        (condition, Some(value)) => {
            let text = as_text(value);
            match (condition.strip_prefix('^'), condition.strip_prefix('~')) {
                (Some(start), _) => text.starts_with(start),
                (None, Some(part)) => text.contains(part),
                (None, None) => text == condition,
            }
        }
    }
}

fn find<'a>(record: &'a Value, item: &'a Value, path: &str) -> Option<&'a Value> {
    match path.strip_prefix('/') {
        Some(path) => at(record, path),
        None => at(item, path),
    }
}

impl Rule {
    /// The events that a record says by this rule.
    pub(crate) fn events(&self, source: Source, record: &Value, events: &mut Vec<Event>) {
        if self.from.is_some_and(|from| from != source) || !holds(record, record, &self.when) {
            return;
        }
        match &self.each {
            None => events.extend(self.event(record, record)),
            Some(each) => {
                let items: Vec<&Value> = match at(record, each) {
                    Some(Value::Array(items)) => items.iter().collect(),
                    Some(Value::Object(fields)) => fields.values().collect(),
                    _ => return,
                };
                let matching = items.into_iter().filter(|item| holds(record, item, &self.item));
                events.extend(matching.filter_map(|item| self.event(record, item)));
            }
        }
    }

    fn event(&self, record: &Value, item: &Value) -> Option<Event> {
        let text_at = |path: &Option<String>| {
            path.as_deref().and_then(|path| find(record, item, path)).map(as_text).unwrap_or_default()
        };
        let what = match self.is {
            Is::Session => What::Session {
                id: text_at(&self.id),
                version: text_at(&self.version),
                model: text_at(&self.model),
            },
            Is::Reply => What::Reply { id: text_at(&self.id), model: text_at(&self.model) },
            Is::ReplyEnd => What::ReplyEnd,
            Is::Replied => What::Replied,
            Is::Summary => What::Summary,
            Is::Text => What::Text(text_at(&self.text)).non_empty()?,
            Is::Answer => What::Answer(text_at(&self.text)).non_empty()?,
            Is::UsedUp => What::UsedUp(self.why.clone().unwrap_or_default()),
            Is::Call => self.call(record, item),
            Is::Command => What::Command {
                command: text_at(&self.argument),
                output: text_at(&self.text),
                failed: self.exit_code(record, item).is_some_and(|code| code != 0),
            },
            Is::Result => What::Result {
                id: text_at(&self.id),
                text: self.text.as_deref().and_then(|path| find(record, item, path)).map(as_text),
                failed: self.is_failed(record, item),
            },
            Is::Listing => What::Listing { text: text_at(&self.text), style: self.style? },
            Is::Offer => What::Offer {
                name: text_at(&self.name),
                description: text_at(&self.text),
                path: text_at(&self.path),
            },
            Is::Person => What::Person { skill: self.person(&text_at(&self.text))? },
            Is::Prompt => self.prompt(record, item, text_at(&self.text))?,
            Is::Failure => What::Failure {
                why: self.why.clone(),
                status: text_at(&self.status).parse().ok(),
                text: text_at(&self.text),
            },
            Is::End => What::End,
            Is::Usage => self.usage(record, item),
        };
        let sub = self.sub.as_deref().and_then(|path| find(record, item, path)).map(as_text);
        Some(Event { what, sub: sub.filter(|sub| !sub.is_empty()) })
    }

    fn call(&self, record: &Value, item: &Value) -> What {
        let text_at = |path: &Option<String>| {
            path.as_deref().and_then(|path| find(record, item, path)).map(as_text).unwrap_or_default()
        };
        let arguments = match (&self.argument, &self.arguments) {
            (Some(path), _) => {
                let command = find(record, item, path).map(command_text).unwrap_or_default();
                serde_json::json!({ "command": command })
            }
            (None, Some(path)) => match find(record, item, path) {
                // Some formats have JSON in a string; a program stays text.
                Some(Value::String(text)) => match serde_json::from_str(text) {
                    Ok(value @ Value::Object(_)) => value,
                    _ => Value::String(text.clone()),
                },
                Some(value) => value.clone(),
                None => Value::Null,
            },
            (None, None) => Value::Null,
        };
        let name = self.fixed_name.clone().unwrap_or_else(|| text_at(&self.name));
        What::Call { id: text_at(&self.id), name, arguments }
    }

    fn exit_code(&self, record: &Value, item: &Value) -> Option<i64> {
        if let Some(code) = self.exit.as_deref().and_then(|path| find(record, item, path)) {
            return code.as_i64();
        }
        let Pattern(pattern) = self.exit_pattern.as_ref()?;
        let text = self.text.as_deref().and_then(|path| find(record, item, path)).map(as_text)?;
        pattern.captures(&text)?.get(1)?.as_str().parse().ok()
    }

    fn is_failed(&self, record: &Value, item: &Value) -> bool {
        let by_condition = self.fails.iter().any(|(path, condition)| {
            holds(record, item, &BTreeMap::from([(path.clone(), condition.clone())]))
        });
        self.failed || by_condition || self.exit_code(record, item).is_some_and(|code| code != 0)
    }

    /// The skill that a person called, by the pattern of the rule.
    fn person(&self, text: &str) -> Option<String> {
        let name = match &self.pattern {
            None => text.to_owned(),
            Some(Pattern(pattern)) => {
                let found = pattern.captures(text)?;
                let groups = (1..found.len()).filter_map(|group| found.get(group));
                groups.map(|group| group.as_str().trim().to_owned()).next()?
            }
        };
        let name = name.trim_end_matches(['/', '\\']).rsplit(['/', '\\']).next().unwrap_or_default();
        Some(name.to_owned()).filter(|name| !name.is_empty())
    }

    fn prompt(&self, record: &Value, item: &Value, text: String) -> Option<What> {
        let override_text = self.prompt_override.as_deref().and_then(|path| find(record, item, path));
        let text = override_text.map_or(text, text_in);
        let text = match (&self.pattern, self.quoted) {
            // The call of a skill by a person is written as its document.
            (Some(Pattern(pattern)), _) => {
                let replaced = pattern.replace(&text, self.replacement.as_deref().unwrap_or_default());
                replaced.trim().to_owned()
            }
            (None, true) => unquoted(&text).to_owned(),
            (None, false) => text,
        };
        let is_injected =
            self.not_prefixes.iter().any(|prefix| text.trim_start().starts_with(prefix.as_str()));
        // Results of tools are no prompts, in whichever record they come.
        let content = self.text.as_deref().and_then(|path| find(record, item, path));
        let has_result = content.and_then(Value::as_array).is_some_and(|parts| {
            let is_result =
                |part: &Value| part.get("tool_use_id").is_some() || part.get("functionResponse").is_some();
            parts.iter().any(is_result)
        });
        (!is_injected && !has_result && !text.trim().is_empty()).then_some(What::Prompt(text))
    }

    fn usage(&self, record: &Value, item: &Value) -> What {
        let number = |path: &str| find(record, item, path).and_then(Value::as_u64).unwrap_or(0);
        // Numbers after a minus are taken off what is before them.
        let sum = |paths: &[String]| {
            paths.iter().fold(0, |sum: u64, path| match path.strip_prefix('-') {
                Some(path) => sum.saturating_sub(number(path)),
                None => sum.saturating_add(number(path)),
            })
        };
        What::Usage {
            tokens: Usage {
                input: sum(&self.input),
                cached: sum(&self.cached),
                cache_written: sum(&self.cache_written),
                output: sum(&self.output),
                reasoning: sum(&self.reasoning),
            },
            cost: self.cost.as_deref().and_then(|path| find(record, item, path)).and_then(Value::as_f64),
            adds: self.add,
        }
    }
}

fn unquoted(text: &str) -> &str {
    let text = text.trim();
    text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(text)
}

/// A command, whether it is one text or words.
fn command_text(value: &Value) -> String {
    match value {
        Value::Array(words) => words.iter().map(as_text).collect::<Vec<_>>().join(" "),
        other => as_text(other),
    }
}
