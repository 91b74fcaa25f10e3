//! Texts of special tokens in what a conversation says.

use super::{ChatError, Conversation};
use serde_json::{Map, Value};

/// Treatment of messages and tools that contain the text of a special token, such as `<|im_end|>`.
///
/// The text never becomes the token: otherwise anyone who writes into a conversation could end a turn and speak for
/// others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum SpecialText {
    /// It is an error that names the message and the token.
    #[default]
    Refuse,
    /// It is encoded as ordinary text.
    Escape,
}

/// Private-use characters that stand for first characters of escaped special tokens while a template is rendered.
const STANDINS: std::ops::Range<u32> = 0x000f_0000..0x000f_fffe;

/// The replacements that escaping made, to be undone after rendering.
#[derive(Debug, Clone, Default)]
pub(super) struct Mask {
    /// Original first characters with their replacements.
    standins: Vec<(char, char)>,
}

impl Mask {
    /// The text as it was.
    pub(super) fn undo(&self, text: &str) -> String {
        let original = |character: char| self.standins.iter().find(|(_, standin)| *standin == character);
        text.chars()
            .map(|character| original(character).map_or(character, |(original, _)| *original))
            .collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.standins.is_empty()
    }
}

/// The first message or tool that contains the text of a special token; `specials` are these texts.
pub(super) fn find(conversation: &Conversation, specials: &[String]) -> Option<ChatError> {
    let places = [("message", &conversation.messages), ("tool", &conversation.tools)];
    let values = places
        .into_iter()
        .flat_map(|(kind, values)| values.iter().enumerate().map(move |(place, value)| (kind, place, value)));
    let mut found = values.filter_map(|(kind, place, value)| {
        let token = specials.iter().find(|special| contains(value, special))?;
        Some(ChatError::SpecialText { place: format!("{kind} {place}"), token: token.clone() })
    });
    found.next()
}

/// The conversation with texts of special tokens written such that no template and no tokenizer takes them for tokens.
pub(super) fn mask(conversation: &Conversation, specials: &[String]) -> (Conversation, Mask) {
    if find(conversation, specials).is_none() {
        return (conversation.clone(), Mask::default());
    }
    let all: Vec<&Value> = conversation.messages.iter().chain(&conversation.tools).collect();
    let unused = |standin: &char| all.iter().all(|value| !contains(value, &standin.to_string()));
    let mut standins = STANDINS.filter_map(char::from_u32).filter(unused);
    let mut firsts: Vec<char> = specials.iter().filter_map(|special| special.chars().next()).collect();
    firsts.sort_unstable();
    firsts.dedup();
    let mask = Mask { standins: firsts.into_iter().zip(&mut standins).collect() };
    // Longer texts first: one special token can be the beginning of another.
    let mut longest_first: Vec<&String> = specials.iter().collect();
    longest_first.sort_by_key(|special| std::cmp::Reverse(special.len()));
    let masked = |text: &str| {
        longest_first.iter().fold(text.to_owned(), |text, special| {
            let mut characters = special.chars();
            let first = characters.next();
            match mask.standins.iter().find(|(original, _)| Some(*original) == first) {
                Some((_, standin)) => {
                    text.replace(special.as_str(), &format!("{standin}{}", characters.as_str()))
                }
                None => text,
            }
        })
    };
    let each = |values: &[Value]| values.iter().map(|value| map_texts(value, &masked)).collect();
    let conversation =
        Conversation { messages: each(&conversation.messages), tools: each(&conversation.tools) };
    (conversation, mask)
}

fn contains(value: &Value, part: &str) -> bool {
    match value {
        Value::String(text) => text.contains(part),
        Value::Array(values) => values.iter().any(|value| contains(value, part)),
        Value::Object(map) => map.iter().any(|(key, value)| key.contains(part) || contains(value, part)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

fn map_texts(value: &Value, change: &impl Fn(&str) -> String) -> Value {
    match value {
        Value::String(text) => Value::String(change(text)),
        Value::Array(values) => values.iter().map(|value| map_texts(value, change)).collect(),
        Value::Object(map) => {
            let changed: Map<String, Value> =
                map.iter().map(|(key, value)| (change(key), map_texts(value, change))).collect();
            Value::Object(changed)
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

/// Cuts a rendered text at the texts of special tokens; `Err` holds the place of the token in `specials`.
pub(super) fn pieces<'a>(text: &'a str, specials: &[String]) -> Vec<Result<&'a str, usize>> {
    let mut pieces = Vec::new();
    let mut rest = text;
    let first = |rest: &str| {
        let found = specials.iter().enumerate().filter(|(_, special)| !special.is_empty());
        let found =
            found.filter_map(|(place, special)| Some((rest.find(special.as_str())?, special.len(), place)));
        found.min_by_key(|(start, length, _)| (*start, std::cmp::Reverse(*length)))
    };
    while let Some((start, length, place)) = first(rest) {
        let (before, after) = (rest.get(..start).unwrap_or_default(), rest.get(start + length..));
        if !before.is_empty() {
            pieces.push(Ok(before));
        }
        pieces.push(Err(place));
        rest = after.unwrap_or_default();
    }
    if !rest.is_empty() {
        pieces.push(Ok(rest));
    }
    pieces
}
