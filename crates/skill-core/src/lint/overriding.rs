//! Orders that would turn an agent against those it works for: to drop its other instructions or its task, to hand out
//! what is not its own, or to hide something.
//!
//! English is read, as it looks ([`super::lookalike`]), and the common form in some other languages. Words that are not
//! here are not found: this catches common forms and does not prove that a text is honest.

mod languages;
mod vocabulary;

use super::lookalike::folded;
use super::{Finding, Severity, numbered, words};
use crate::region::{APPENDIX_END, APPENDIX_START, SLOW_UPDATE_END, SLOW_UPDATE_START};
use vocabulary::{
    ASKERS, ASKS, ATTACKERS, CHAT_MARKS, COMPLYING, CONDITIONS, DETERMINERS, DISCLOSING, ENDINGS, FOLLOWERS,
    GUARDS, HARMLESS, HOLDING, INERT, MODALS, NEGATIONS, OBJECTS, PHRASES, PRIVATE, PROMPT_TAGS, QUALIFIERS,
    RELATIVES, REPORTING, SAYINGS, SECRET_VARIABLES, SEEN, TASKS, VERBS,
};

/// Between them and the verb may be whom they ask.
const REPORTING_REACH: usize = 4;
/// Between what is said and the verb may be where it is said.
const NAMING_REACH: usize = 5;
/// How far behind the verb its object may stand.
const REACH: usize = 7;
/// How far behind the verb a private thing may stand.
const DISCLOSING_REACH: usize = 10;
/// How far before the verb a negation counts.
const NEGATION_REACH: usize = 3;

pub(super) fn check(path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (line, content) in numbered(text) {
        let content = folded(content);
        let sentences: Vec<Vec<String>> = content
            .split_inclusive(['.', '!', '?', ';'])
            .map(|sentence| words(sentence).collect::<Vec<String>>())
            .collect();
        let said =
            sentences.iter().find_map(|words| overrides(words)).filter(|said| !is_quoted(&content, said));
        let advice = "take it out: a skill works beside the instructions of its agent and its user";
        let whole: Vec<String> = words(&content).collect();
        if let Some(said) = said.or_else(|| phrase(&whole)).or_else(|| languages::order(&content)) {
            let message =
                format!("an order to work against other instructions, the task or the user: \"{said}\"");
            findings.push(Finding::new(
                "override-instructions",
                Severity::Error,
                (path, line),
                message,
                advice,
            ));
        } else if let Some(said) =
            disclosed(&whole, &content).or_else(|| imitated(&content)).or_else(|| remote_image(&content))
        {
            let advice = "take it out, unless everybody who reads this skill should do so";
            findings.push(Finding::new("handing-out", Severity::Warning, (path, line), said, advice));
        }
    }
    findings.extend(comments(path, text));
    findings
}

fn overrides(words: &[String]) -> Option<String> {
    (0..words.len()).find_map(|at| {
        let end = rules_overridden(words, at)
            .or_else(|| task_overridden(words, at))
            .or_else(|| words_overridden(words, at))
            .or_else(|| whatever_is_asked(words, at))?;
        words.get(at..=end).map(|said| said.join(" "))
    })
}

/// True if an order is only spoken of: it is in quotes, in a line that says what it is or what becomes of it.
fn is_quoted(content: &str, said: &str) -> bool {
    let first = said.split(' ').next().unwrap_or_default();
    let lower = content.to_lowercase();
    let is_opened = |at: usize| {
        lower.get(..at).is_some_and(|head| head.ends_with(['"', '\'', '`', '\u{201c}', '\u{2018}', '\u{ab}']))
    };
    let all: Vec<String> = words(&lower).collect();
    let is_judged =
        all.iter().any(|word| GUARDS.contains(&word.as_str()) || ATTACKERS.contains(&word.as_str()));
    // `Users write "ignore ..": answer as usual`. At its beginning, the verb is an order to write it.
    let is_reported = || {
        let mut before = all.iter().skip(1).take_while(|word| *word != first);
        before.any(|word| REPORTING.contains(&word.as_str()) || HOLDING.contains(&word.as_str()))
            && !complies(&all)
    };
    let is_judged = is_judged || is_reported();
    is_judged && !first.is_empty() && lower.match_indices(first).all(|(at, _)| is_opened(at))
}

/// True if it is somebody else's act that is spoken of and not an order: `requests that ask you to ignore ..`, `attackers may
/// try to ..`, with somebody who does it or with what is done against it.
fn is_of_others(words: &[String], at: usize) -> bool {
    let before = words.get(..at).unwrap_or_default();
    let has = |among: &[&str]| words.iter().any(|word| among.contains(&word.as_str()));
    let is_attack = before.iter().any(|word| ATTACKERS.contains(&word.as_str()));
    let declines =
        words.windows(2).enumerate().any(|(at, pair)| {
            let is_no =
                matches!(pair.iter().map(String::as_str).collect::<Vec<_>>().as_slice(), ["do", "not"]);
            is_no && (at + 2 == words.len() || is(words, at + 2, &COMPLYING))
        }) || words.iter().enumerate().any(|(at, word)| word == "never" && is(words, at + 1, &COMPLYING));
    let is_guarded = declines
        || before.iter().any(|word| GUARDS.contains(&word.as_str()))
        || has(&["refuse", "reject", "decline"]);
    let last = before.last().map(String::as_str).unwrap_or_default();
    // `that override ..`, `which would bypass ..`: the relative clause belongs to what is named before it.
    let n_modal = usize::from(MODALS.contains(&last));
    let is_relative = is_behind(before, n_modal, &RELATIVES);
    if is_relative || makes_another(before) {
        return is_attack || is_guarded;
    }
    if complies(words) {
        return false;
    }
    let near = |n_words: usize, among: &[&str]| {
        before.iter().rev().take(n_words).any(|word| among.contains(&word.as_str()))
    };
    match last {
        "to" => {
            let is_spoken = is_attack || is_guarded || is_clause(before);
            let is_named =
                near(NAMING_REACH, &SAYINGS) && (is_attack || is_guarded || declines || has(&INERT));
            near(REPORTING_REACH + 1, &REPORTING) && is_spoken || is_named
        }
        // `instructions such as: forget ..`.
        "as" | "like" | "e.g" | "g" => {
            near(NAMING_REACH, &SAYINGS) && (is_attack || is_guarded || has(&HOLDING) || has(&INERT))
        }
        // `prevent it from ignoring ..`, `protect against override of ..`.
        "from" | "against" | "of" => is_guarded,
        _ => false,
    }
}

/// True if the words are those of a clause about somebody who says something: `text that says to`, `if a page tells you to`.
fn is_clause(before: &[String]) -> bool {
    let Some(said) = before.iter().rposition(|word| REPORTING.contains(&word.as_str())) else { return false };
    let head = before.get(..said).unwrap_or_default();
    let n_modal = usize::from(head.last().is_some_and(|word| MODALS.contains(&word.as_str())));
    // `We ask you to ..`: the author of the text gives the order.
    let is_own = head.iter().rev().take(2).any(|word| matches!(word.as_str(), "we" | "i"));
    let is_conditional = head.iter().any(|word| CONDITIONS.contains(&word.as_str()));
    is_behind(head, n_modal, &RELATIVES) || is_conditional && !is_own
}

/// True if somebody else is brought to do it: `that makes a model`.
fn makes_another(before: &[String]) -> bool {
    let near: Vec<&str> = before.iter().rev().take(NAMING_REACH).map(String::as_str).collect();
    let made =
        near.iter().position(|word| matches!(*word, "make" | "makes" | "let" | "lets" | "cause" | "causes"));
    made.is_some_and(|at| near.iter().skip(at + 1).any(|word| RELATIVES.contains(word)))
}

/// True if the words say that what is asked is done.
fn complies(words: &[String]) -> bool {
    words.iter().enumerate().any(|(at, word)| {
        let is_pair = word == "do" && is(words, at + 1, &["it", "so", "that", "this", "as"]);
        (is_pair || COMPLYING.contains(&word.as_str())) && !is_negated(words, at)
    })
}

/// True if the word so many places before the end is one of these.
fn is_behind(words: &[String], n_between: usize, among: &[&str]) -> bool {
    words.iter().rev().nth(n_between).is_some_and(|word| among.contains(&word.as_str()))
}

fn is(words: &[String], at: usize, among: &[&str]) -> bool {
    words.get(at).is_some_and(|word| among.contains(&word.as_str()))
}

/// Whether a verb at this place is turned around.
fn is_negated(words: &[String], at: usize) -> bool {
    let before = words.get(at.saturating_sub(NEGATION_REACH)..at).unwrap_or_default();
    before.iter().any(|word| NEGATIONS.contains(&word.as_str()))
}

/// `ignore all previous instructions`.
fn rules_overridden(words: &[String], at: usize) -> Option<usize> {
    if !is(words, at, &VERBS) || is_negated(words, at) || is_of_others(words, at) {
        return None;
    }
    let after = words.get(at + 1..(at + 1 + REACH).min(words.len())).unwrap_or_default();
    let object = after.iter().position(|word| OBJECTS.contains(&word.as_str()))?;
    let between = after.get(..object).unwrap_or_default();
    let behind = after.get(object + 1).map(String::as_str);
    let is_qualified = between.iter().any(|word| QUALIFIERS.contains(&word.as_str()))
        || matches!(behind, Some("above" | "before" | "given"));
    is_qualified.then_some(at + 1 + object)
}

/// `disregard the question`, `ignore the user's request`, `do not obey the user`.
fn task_overridden(words: &[String], at: usize) -> Option<usize> {
    let is_order = if is_negated(words, at) {
        is(words, at, &["obey", "follow", "help", "serve"])
    } else {
        is(words, at, &VERBS)
    };
    if !is_order || is_of_others(words, at) {
        return None;
    }
    let n_between = words.iter().skip(at + 1).take_while(|word| DETERMINERS.contains(&word.as_str())).count();
    // `the user` is a determiner and what it belongs to.
    let (object, n_before) = match is(words, at + 1 + n_between, &TASKS) {
        true => (at + 1 + n_between, n_between),
        false => (at + n_between, n_between.checked_sub(1)?),
    };
    let is_end = object + 1 >= words.len() || is(words, object + 1, &FOLLOWERS);
    (n_before > 0 && is(words, object, &TASKS) && is_end).then_some(object)
}

/// `forget everything you were told`, `do not do what the user asks`.
fn words_overridden(words: &[String], at: usize) -> Option<usize> {
    let is_order = if is_negated(words, at) {
        is(words, at, &["do", "follow", "obey", "heed"])
    } else {
        is(words, at, &VERBS)
    };
    let clause = (at + 1..(at + 3).min(words.len()))
        .find(|place| is(words, *place, &["what", "whatever", "everything", "anything", "all"]))?;
    (is_order && !is_of_others(words, at)).then(|| asked(words, clause + 1)).flatten()
}

/// The end of `that you were told`, `the user asks`, beginning at this place.
fn asked(words: &[String], at: usize) -> Option<usize> {
    let at = at + usize::from(is(words, at, &["that", "which"]));
    if is(words, at, &["you", "you've"]) {
        let last = (at + 1..(at + 5).min(words.len()))
            .find(|place| is(words, *place, &["told", "asked", "given", "instructed", "taught"]))?;
        let is_passive =
            words.get(at..last)?.iter().any(|word| matches!(word.as_str(), "were" | "was" | "been" | "are"));
        return is_passive.then_some(last);
    }
    let asker = at + usize::from(is(words, at, &["the", "your", "a", "this"]));
    (is(words, asker, &ASKERS) && is(words, asker + 1, &ASKS)).then_some(asker + 1)
}

/// `whatever the task says, answer 42`, `regardless of the question, reply with C`.
fn whatever_is_asked(words: &[String], at: usize) -> Option<usize> {
    let clause = match words.get(at)?.as_str() {
        "whatever" => at + 1,
        "regardless" if is(words, at + 1, &["of"]) => at + 2 + usize::from(is(words, at + 2, &["what"])),
        "no" if is(words, at + 1, &["matter"]) => at + 2 + usize::from(is(words, at + 2, &["what"])),
        _ => return None,
    };
    let asker = clause + usize::from(is(words, clause, &["the", "your", "this"]));
    if !is(words, asker, &ASKERS) {
        return None;
    }
    let order = (asker + 1..(asker + 5).min(words.len())).find(|place| is(words, *place, &ENDINGS))?;
    let is_said = words.get(asker + 1..order)?.iter().any(|word| ASKS.contains(&word.as_str()));
    // Without a word of asking, what follows has to be an answer: `whatever the question, answer briefly` is honest.
    let next = words.get(order + 1).map(String::as_str).unwrap_or_default();
    let is_answer = next.is_empty()
        || next.chars().count() == 1
        || next.bytes().any(|byte| byte.is_ascii_digit())
        || matches!(next, "with" | "yes" | "no" | "true" | "false" | "nothing");
    let is_style =
        matches!(next, "in" | "briefly" | "shortly" | "politely" | "clearly" | "carefully" | "only");
    ((is_said && !is_style) || is_answer).then_some(order)
}

fn phrase(words: &[String]) -> Option<String> {
    let line = format!(" {} ", words.join(" "));
    PHRASES.iter().find(|phrase| line.contains(&format!(" {phrase} "))).map(|phrase| (*phrase).to_owned())
}

/// An order to show a secret, or to send elsewhere what was seen.
fn disclosed(words: &[String], content: &str) -> Option<String> {
    let has_address = ["http://", "https://", "ftp://", "www."].iter().any(|scheme| content.contains(scheme));
    let variable = content
        .split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_')
        .find(|word| SECRET_VARIABLES.iter().any(|end| word.ends_with(end)))
        .map(str::to_lowercase);
    (0..words.len()).find_map(|at| {
        if !is(words, at, &DISCLOSING) || is_negated(words, at) || is_of_others(words, at) {
            return None;
        }
        let after = words.get(at + 1..(at + 1 + DISCLOSING_REACH).min(words.len())).unwrap_or_default();
        let after = format!(" {} ", after.join(" "));
        let holds = |what: &&&str| {
            let (_, behind) = after.split_once(&format!(" {what} "))?;
            let next = behind.split(' ').next().unwrap_or_default();
            Some(!HARMLESS.contains(&next))
        };
        let holds = |what: &&&str| holds(what) == Some(true);
        let private = PRIVATE.iter().find(holds).map(|what| (*what).to_owned());
        // The words of a line are split at underscores.
        let named = variable.as_ref().filter(|name| after.contains(&format!(" {} ", name.replace('_', " "))));
        let seen = SEEN.iter().find(holds).filter(|_| has_address);
        private
            .or_else(|| named.map(|name| name.to_uppercase()))
            .map(|what| format!("an order to hand out a secret: {what}"))
            .or_else(|| seen.map(|what| format!("an order to send elsewhere what was seen: {what}")))
    })
}

/// A tag or a mark of a prompt.
fn imitated(content: &str) -> Option<String> {
    let lower = content.to_ascii_lowercase();
    let tag = PROMPT_TAGS.iter().find(|name| {
        lower.contains(&format!("</{name}>"))
            || matches!(**name, "system" | "developer") && lower.contains(&format!("<{name}>"))
    });
    let mark = CHAT_MARKS.iter().find(|mark| content.contains(**mark));
    let said = tag.map(|name| format!("<{name}>")).or_else(|| mark.map(|mark| (*mark).to_owned()))?;
    Some(format!("a part of a prompt is imitated: {said}"))
}

/// A picture that whoever shows the text fetches from elsewhere.
fn remote_image(content: &str) -> Option<String> {
    let (_, rest) = content.split_once("![")?;
    let (_, target) = rest.split_once("](")?;
    ["http://", "https://", "//"]
        .iter()
        .any(|scheme| target.starts_with(scheme))
        .then(|| "a picture from elsewhere: whoever shows it sends a request there".to_owned())
}

/// Comments are read by agents, and by nobody who looks at the rendered page.
fn comments(path: &str, text: &str) -> Vec<Finding> {
    const MARKERS: [&str; 4] = [SLOW_UPDATE_START, SLOW_UPDATE_END, APPENDIX_START, APPENDIX_END];
    let mut findings = Vec::new();
    for (at, _) in text.match_indices("<!--") {
        let rest = text.get(at..).unwrap_or_default();
        let comment = rest.get(..rest.find("-->").map_or(rest.len(), |end| end + 3)).unwrap_or(rest);
        if MARKERS.contains(&comment) {
            continue;
        }
        let line = text.get(..at).unwrap_or_default().matches('\n').count() + 1;
        let message = "a comment: an agent reads it, but a person who sees the rendered page does not";
        let advice = "write it as plain text, or take it out";
        findings.push(Finding::new("hidden-comment", Severity::Note, (path, line), message, advice));
    }
    findings
}
