//! The simulated agent: it reads its skill and answers from the record before it.

use crate::conventions::{Convention, HouseRules, Stance};
use crate::records::{Field, Task};
use crate::values::{Dimension, Unit, find_clock, find_date, find_quantity};
use crate::{PROVIDER, reply_to};
use async_trait::async_trait;
use parking_lot::Mutex;
use serde_json::{Value, json};
use skill_core::Role;
use skill_core::random::Dice;
use skill_llm::{CallCtx, ChatModel, ChatReply, ChatRequest, LlmError, ModelId};
use std::sync::Arc;

/// The name of the schema with which a judge is asked, and the most points that it gives.
const JUDGEMENT: &str = "judgement";
const MOST_POINTS: u32 = 10;
/// How often the agent takes the wrong line of the record, whatever its skill says.
const SLIP_RATE: f64 = 0.04;
/// How often it is brief of its own accord.
const BRIEF_BY_NATURE: f64 = 0.6;
/// How often it has the doubts that a timid skill makes it act upon.
const DOUBT_RATE: f64 = 0.6;

/// A target whose success depends on what its skill says.
///
/// The system message is its skill, read for rules about how answers are written, in any words; the user message is
/// a record of `Field: value` lines and a question. Without rules it chats: a sentence around the value as it stands
/// in the record, and something made up where the record is silent. It knows no facts of its own. Where there is no
/// record and the last line of the message lists labels, it answers with one of them, and as a judge it gives points by
/// chance: so any data can be tried.
#[derive(Debug, Clone)]
pub struct SimulatedTarget {
    id: ModelId,
    seed: u64,
    /// The last skill and what it says: most calls come with the same one.
    last_read: Arc<Mutex<(String, Arc<HouseRules>)>>,
}

impl SimulatedTarget {
    /// A target; the seed decides on which questions it slips and how it chats.
    pub fn new(seed: u64) -> Self {
        Self { id: ModelId::new(PROVIDER, "simulated-target"), seed, last_read: Arc::default() }
    }

    fn answer(&self, skill: &str, message: &str) -> String {
        let rules = self.rules_of(skill);
        let task = Task::read(message);
        let dice = Dice::new(self.seed, &[&task.question]);
        if task.fields.is_empty() {
            if let Some(label) = one_of_the_labels(dice, message) {
                return label.to_owned();
            }
            return "I am sorry, I have no record to look that up in, so I do not know.".to_owned();
        }
        let Some(found) = self.find(&task, &rules, dice) else { return "unknown".to_owned() };
        match rules.stance(Convention::BareValue) {
            Some(Stance::Wanted) => found,
            Some(Stance::Unwanted | Stance::Overdone) => explained(&task, &found),
            None if dice.chance("brief", BRIEF_BY_NATURE) => found,
            None => chatty(dice, &found),
        }
    }

    /// Points for an answer, by chance: a simulated judge knows no rubric.
    fn judgement(&self, message: &str) -> String {
        let points: Vec<u32> = (0..=MOST_POINTS).collect();
        let points = Dice::new(self.seed, &[message]).pick("points", &points).copied().unwrap_or_default();
        json!({ "reason": "A simulated judge gives points by chance.", "points": points }).to_string()
    }

    fn rules_of(&self, skill: &str) -> Arc<HouseRules> {
        let mut last = self.last_read.lock();
        if last.0 != skill {
            *last = (skill.to_owned(), Arc::new(HouseRules::read(skill)));
        }
        Arc::clone(&last.1)
    }

    /// The value in the form that the rules ask for; `None` stands for `unknown`.
    fn find(&self, task: &Task, rules: &HouseRules, dice: Dice) -> Option<String> {
        let stance = rules.stance(Convention::Unknown);
        let readable = task.readable();
        let asked = task.asked().filter(|field| !field.value.is_empty());
        let field = match asked {
            Some(_) if stance == Some(Stance::Overdone) && dice.chance("doubt", DOUBT_RATE) => return None,
            Some(_) if dice.chance("slip", SLIP_RATE) => *dice.pick("slip to", &readable)?,
            Some(field) => field,
            None if matches!(stance, Some(Stance::Wanted | Stance::Overdone)) => return None,
            None => *dice.pick("make up", &readable)?,
        };
        Some(in_house_form(field, rules))
    }
}

#[async_trait]
impl ChatModel for SimulatedTarget {
    fn id(&self) -> &ModelId {
        &self.id
    }

    fn parameters(&self) -> Value {
        json!({ "seed": self.seed })
    }

    async fn chat(&self, request: &ChatRequest, call: &CallCtx) -> Result<ChatReply, LlmError> {
        if call.cancel.is_cancelled() {
            return Err(LlmError::Cancelled);
        }
        request.sampling.refuse_logprobs(&self.id)?;
        let message = request.text_of(Role::User);
        let answer = match &request.response_schema {
            Some(schema) if schema.name == JUDGEMENT => self.judgement(&message),
            Some(_) | None => self.answer(&request.text_of(Role::System), &message),
        };
        Ok(reply_to(request, answer))
    }
}

/// One of the labels that the last line of a message lists after a colon: the one that the text names, else any.
fn one_of_the_labels(dice: Dice, message: &str) -> Option<&str> {
    let (text, last) = message.trim_end().rsplit_once('\n')?;
    let (_, listed) = last.split_once(": ")?;
    let labels: Vec<&str> = listed.split(", ").map(str::trim).filter(|label| !label.is_empty()).collect();
    if labels.len() < 2 {
        return None;
    }
    let text = text.to_lowercase();
    let named = labels.iter().find(|label| text.contains(&label.to_lowercase())).copied();
    named.or_else(|| dice.pick("label", &labels).copied())
}

fn in_house_form(field: &Field, rules: &HouseRules) -> String {
    let value = field.value.as_str();
    if rules.wants(Convention::Codes)
        && let Some(code) = rules.code(value)
    {
        return code.to_owned();
    }
    if field.names_a_berth() {
        let code = rules.wants(Convention::BerthCodes).then(|| berth_code(value)).flatten();
        return code.unwrap_or_else(|| value.to_owned());
    }
    let is_person = field.names_people() && rules.wants(Convention::SurnameFirst);
    let entry = |text: &str| if is_person { surname_first(text) } else { text.to_owned() };
    let has_moment = find_date(value).is_some() || find_clock(value).is_some();
    let entries = entries(value);
    if entries.len() > 1 && !has_moment {
        let mut written: Vec<String> = entries.iter().map(|text| entry(text)).collect();
        if rules.wants(Convention::SortedLists) {
            written.sort_by_key(|text| text.to_lowercase());
            return written.join("; ");
        }
        return in_prose(&written);
    }
    measured(&moment(&entry(value), rules), rules)
}

/// The entries of a list in prose: `salt, wool and tin`.
fn entries(value: &str) -> Vec<&str> {
    value
        .split(", ")
        .flat_map(|part| part.split(" and "))
        .map(str::trim)
        .filter(|part| !part.is_empty())
        .collect()
}

fn in_prose(entries: &[String]) -> String {
    match entries.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
        _ => entries.concat(),
    }
}

fn surname_first(name: &str) -> String {
    match name.rsplit_once(' ') {
        Some((given, surname)) if !name.contains(',') => format!("{surname}, {given}"),
        _ => name.to_owned(),
    }
}

/// `North Quay 7` as `N07`.
fn berth_code(value: &str) -> Option<String> {
    let initial = value.chars().next().filter(|c| c.is_alphabetic())?;
    let number: u8 = value.rsplit(' ').next()?.parse().ok()?;
    Some(format!("{}{number:02}", initial.to_uppercase()))
}

fn moment(value: &str, rules: &HouseRules) -> String {
    let mut text = value.to_owned();
    if rules.wants(Convention::IsoDates)
        && let Some(date) = find_date(&text)
    {
        text = date.replaced(&text, &date.value.iso()).replace(", ", " ").replace(" at ", " ");
    }
    if rules.wants(Convention::Clock24)
        && let Some(clock) = find_clock(&text)
    {
        text = clock.replaced(&text, &clock.value.hh_mm());
    }
    text
}

fn measured(value: &str, rules: &HouseRules) -> String {
    let Some(quantity) = find_quantity(value) else { return value.to_owned() };
    let unit = match quantity.value.unit.dimension {
        Dimension::Mass if rules.wants(Convention::Kilograms) => Unit::named("kg"),
        Dimension::Length if rules.wants(Convention::Metres) => Unit::named("m"),
        Dimension::Mass | Dimension::Length | Dimension::Duration => None,
    };
    match unit {
        Some(unit) => quantity.replaced(value, &quantity.value.written_in(unit)),
        None => value.to_owned(),
    }
}

fn chatty(dice: Dice, value: &str) -> String {
    const OPENINGS: &[(&str, &str)] = &[
        ("According to the record, the answer is ", "."),
        ("Happy to help! The record says: ", ". Let me know if you need anything else."),
        ("From what I can see in the harbour book, it is ", "."),
        ("Good question. That would be ", ", as far as the record goes."),
    ];
    let (before, after) = dice.pick("opening", OPENINGS).copied().unwrap_or_default();
    format!("{before}{value}{after}")
}

fn explained(task: &Task, value: &str) -> String {
    format!(
        "Let me go through it step by step. The question is: {} I read the record line by line ({} entries), and one \
         of them settles it. So the answer is {value}.",
        task.question,
        task.fields.len()
    )
}
