//! JSON out of the text that a model wrote.
//!
//! Models wrap their JSON in prose, fences and reasoning, forget commas and backslashes, and are cut off in the
//! middle of a word. Three readings share one tolerant parser:
//!
//! - [`extract_json`] gives the one value that is meant, and nothing where that is in doubt;
//! - [`extract`] gives the one value that fits what the caller expects, says what had to be repaired, and keeps
//!   what is whole of a reply that was cut off;
//! - [`read_patch`] and [`read_object`] know the replies of this crate's domain.
//!
//! All are total and take time linear in the text: no text makes them panic, recurse or look back without end.
//! They never invent content: a string is what is between its quotes.
//!
//! What is read as what:
//!
//! - JSON inside a thought (see [`crate::thought`]) is a draft, not the answer.
//! - A quote inside a string ends it only if what follows can follow a string in that place.
//! - `NaN`, infinities and numbers beyond a double are `null`; of two equal keys the last one counts.
//! - A backspace or form feed in front of a letter, and a tab or line break in front of what is left of a command of
//!   LaTeX, is the backslash that the model forgot to double: `"\frac"` is `\frac`.
//! - An object without quotes around its first key is prose (`{op: delete}`), unless a fence tagged as JSON
//!   starts with it and [`extract`] is asked.
//! - What is nested deeper than [`MAX_DEPTH`] is not JSON.

mod latex;
mod parser;
mod repair;
mod reply;
mod scalar;
mod scan;
mod source;
mod strict;
mod string;
mod tape;

pub use repair::Repair;
pub use reply::{PatchReply, read_object, read_patch};

use repair::Repairs;
use scan::{Candidate, Found, Scanner, Wanted};
use serde_json::Value;
use source::Source;

/// How deep containers may be nested: what [`serde_json`] itself reads, whose recursion limit is 128.
pub const MAX_DEPTH: usize = 127;

/// The JSON value in a model's text, where there is no doubt which one is meant.
///
/// In this order:
///
/// 1. the first fence tagged `json` whose content is valid, of whatever type;
/// 2. the text from the first `{` to the last `}`, if that is one valid value;
/// 3. the only object of the text, repaired where it is damaged; an object in a fence tagged as JSON goes
///    before one in prose.
///
/// Two objects, an object that cannot be repaired, and one that is cut off give `None`.
///
/// ```
/// use skill_core::json::extract_json;
/// use serde_json::json;
///
/// assert_eq!(extract_json("Sure: {\"a\": \"say \"hi\"\",}"), Some(json!({"a": "say \"hi\""})));
/// assert_eq!(extract_json("{\"a\": 1} or {\"a\": 2}"), None);
/// ```
pub fn extract_json(text: &str) -> Option<Value> {
    let answer = scan::after_reasoning(text);
    let slice = scan::strict_slice(&answer);
    let letter = scan::strict_fence(&answer, slice.as_ref()).or_else(|| slice.map(|slice| slice.value));
    match letter {
        Some(mut value) => {
            latex::restore(&mut value);
            Some(value)
        }
        None => only_object(&answer),
    }
}

/// The JSON value that a text consists of, to the letter; what [`extract_json`] restores is restored here too.
pub fn whole_json(text: &str) -> Option<Value> {
    let mut value = serde_json::from_str(text.trim()).ok()?;
    latex::restore(&mut value);
    Some(value)
}

/// The JSON value that a reply gives as its answer.
///
/// As an optimizer may write its edits, so may a model write its answer: the whole text, or else the last whole value that
/// `accept` takes, by the rules of [`extract`]; also an object whose keys have no quotes, if it is the first one.
/// Where several differ, [`Repair::SeveralObjects`] says so. A value that is cut off is no answer.
///
/// ```
/// use serde_json::{Value, json};
/// use skill_core::json::extract_answer;
///
/// let found = extract_answer("Draft: {\"n\": 1}\nFinal: {\"n\": 3}", Value::is_object);
/// assert_eq!(found.map(|found| found.value), Some(json!({"n": 3})));
/// assert_eq!(extract_answer("{n: 3}", Value::is_object).map(|found| found.value), Some(json!({"n": 3})));
/// ```
pub fn extract_answer(text: &str, accept: impl Fn(&Value) -> bool) -> Option<Extracted> {
    let whole = |value| Extracted { value, repairs: Vec::new(), truncated: false };
    let answer = scan::after_reasoning(text);
    if let Some(value) = whole_json(&answer).filter(&accept) {
        return Some(whole(value));
    }
    let found = extract(text, &accept).filter(|found| !found.truncated);
    if found.is_some() {
        return found;
    }
    if let Some(bare) = answer.find(['{', '[']).and_then(|at| answer.get(at..)) {
        let declared = ["```json\n", bare].concat();
        let found = extract(&declared, &accept).filter(|found| !found.truncated);
        if found.is_some() {
            return found;
        }
    }
    // A fence may hold a value of another type.
    extract_json(text).filter(accept).map(whole)
}

fn only_object(text: &str) -> Option<Value> {
    let mut scanner = Scanner::new(text, Wanted::Objects);
    let mut only = None;
    let mut in_doubt = false;
    while let Some(found) = scanner.next() {
        match found {
            Found::Value(candidate) if candidate.fenced => {
                return if candidate.cut { None } else { Some(scanner.take_value()) };
            }
            Found::Value(candidate) if only.is_none() && !in_doubt && !candidate.cut => {
                only = Some(scanner.take_value());
            }
            // From here on only a fence can help.
            Found::Value(_) | Found::Broken if !in_doubt && !scanner.has_fence_left() => return None,
            Found::Value(_) | Found::Broken => in_doubt = true,
        }
    }
    if in_doubt { None } else { only }
}

/// A value that was found in a text, and how.
#[derive(Debug, Clone, PartialEq)]
pub struct Extracted {
    /// The value.
    pub value: Value,
    /// What was wrong with the text: each kind of damage once, in the order in which it was met.
    pub repairs: Vec<Repair>,
    /// The text ended before the value did.
    ///
    /// Members and elements that were whole are kept; the scalar that was being written is dropped with its
    /// key, and an element of an array that was being written is dropped whole.
    pub truncated: bool,
}

/// The value in a model's text that fits what the caller expects.
///
/// Among the outermost objects, lists of objects and fenced values, those count that `accept` takes:
///
/// 1. whole ones before those that are cut off;
/// 2. if exactly one of them is in a fence tagged as JSON, that one;
/// 3. else the last one: a draft comes before the final answer.
///
/// Where they are not all equal, [`Repair::SeveralObjects`] says that there was a choice.
/// What is inside a value is looked at only if that value was damaged beyond recognition.
///
/// ```
/// use skill_core::json::{Repair, extract};
///
/// let text = "Draft: {\"plan\": 1}\nAnswer: {\"selected\": [3, 1], \"why\": \"the fir";
/// let found = extract(text, |value| value.get("selected").is_some()).ok_or("nothing")?;
/// assert_eq!(found.value, serde_json::json!({"selected": [3, 1]}));
/// assert_eq!(found.repairs, [Repair::CutOff]);
/// assert!(found.truncated);
/// # Ok::<(), &str>(())
/// ```
pub fn extract(text: &str, accept: impl Fn(&Value) -> bool) -> Option<Extracted> {
    let answer = scan::after_reasoning(text);
    if let Some(found) = extract_from(&answer, &accept) {
        return Some(found);
    }
    let decoded = decode_object(&answer)?;
    let mut found = extract_from(&decoded, &accept)?;
    found.repairs.insert(0, Repair::EncodedTwice);
    Some(found)
}

fn extract_from(text: &str, accept: &impl Fn(&Value) -> bool) -> Option<Extracted> {
    let mut scanner = Scanner::new(text, Wanted::ObjectsAndLists);
    let mut fitting = Fitting::default();
    while let Some(found) = scanner.next() {
        let Found::Value(candidate) = found else { continue };
        let value = scanner.value();
        let (fits, is_list) = (accept(value), value.is_array());
        if fits {
            let (value, repairs) = (scanner.take_value(), scanner.repairs().to_vec());
            fitting.offer(Fit { value, repairs, candidate });
        } else if is_list || scanner.has_guessed_quotes() {
            scanner.look_inside(candidate.start);
        }
    }
    fitting.choose()
}

/// All whole values in a model's text that fit what the caller expects, in order; drafts among them are not told apart.
pub(crate) fn extract_all(text: &str, accept: impl Fn(&Value) -> bool) -> Vec<Extracted> {
    let answer = scan::after_reasoning(text);
    let mut scanner = Scanner::new(&answer, Wanted::ObjectsAndLists);
    let mut all = Vec::new();
    while let Some(found) = scanner.next() {
        let Found::Value(candidate) = found else { continue };
        if !candidate.cut && accept(scanner.value()) {
            let (value, repairs) = (scanner.take_value(), scanner.repairs().to_vec());
            all.push(Extracted { value, repairs, truncated: false });
        }
    }
    all
}

/// A value that fits.
struct Fit {
    value: Value,
    repairs: Vec<Repair>,
    candidate: Candidate,
}

/// The values that fit so far; of each sort only the last is ever needed.
#[derive(Default)]
struct Fitting {
    fenced: Option<Fit>,
    several_fenced: bool,
    bare: Option<Fit>,
    cut: Option<Fit>,
    several: bool,
}

impl Fitting {
    fn offer(&mut self, fit: Fit) {
        let differs = |other: &Option<Fit>| other.as_ref().is_some_and(|other| other.value != fit.value);
        self.several |= differs(&self.fenced) || differs(&self.bare) || differs(&self.cut);
        if fit.candidate.cut {
            self.cut = Some(fit);
        } else if fit.candidate.fenced {
            self.several_fenced |= differs(&self.fenced);
            self.fenced = Some(fit);
        } else {
            self.bare = Some(fit);
        }
    }

    fn choose(self) -> Option<Extracted> {
        let chosen = match (self.fenced, self.bare) {
            (Some(fenced), Some(bare))
                if self.several_fenced && bare.candidate.start > fenced.candidate.start =>
            {
                bare
            }
            (Some(fenced), _) => fenced,
            (None, Some(bare)) => bare,
            (None, None) => self.cut?,
        };
        let mut repairs = chosen.repairs;
        if self.several {
            repairs.push(Repair::SeveralObjects);
        }
        Some(Extracted { value: chosen.value, repairs, truncated: chosen.candidate.cut })
    }
}

/// Decodes a reply that is nothing but an object written as a JSON string, with or without the quotes around it.
fn decode_object(text: &str) -> Option<String> {
    let body = text.trim();
    let body = body.strip_prefix("```json").or_else(|| body.strip_prefix("```")).unwrap_or(body);
    let body = body.trim().trim_end_matches("```").trim_end();
    let body = body.strip_prefix('"').unwrap_or(body);
    let body = body.strip_suffix('"').unwrap_or(body);
    let inside = body.strip_prefix('{')?.trim_start_matches("\\n").trim_start();
    if !inside.starts_with("\\\"") {
        return None;
    }
    let mut repairs = Repairs::default();
    let mut decoded = String::new();
    string::string(Source::new(&format!("\"{body}\"")), 0, None, &mut repairs, &mut decoded)?;
    Some(decoded)
}
