//! Orders that would turn an agent against those it works for: to drop its other instructions, or to hide something.

use super::{Finding, Severity, numbered, words};
use crate::region::{APPENDIX_END, APPENDIX_START, SLOW_UPDATE_END, SLOW_UPDATE_START};

const VERBS: [&str; 9] = [
    "ignore",
    "ignoring",
    "disregard",
    "disregarding",
    "forget",
    "override",
    "overrides",
    "bypass",
    "supersede",
];

/// What makes the order one about the instructions of others, rather than about those in some text.
const QUALIFIERS: [&str; 20] = [
    "previous",
    "previously",
    "prior",
    "above",
    "earlier",
    "preceding",
    "existing",
    "system",
    "developer",
    "safety",
    "all",
    "any",
    "other",
    "original",
    "user",
    "user's",
    "users",
    "every",
    "security",
    "default",
];

const OBJECTS: [&str; 18] = [
    "instruction",
    "instructions",
    "rule",
    "rules",
    "prompt",
    "prompts",
    "guideline",
    "guidelines",
    "guardrail",
    "guardrails",
    "direction",
    "directions",
    "policy",
    "policies",
    "constraint",
    "constraints",
    "restrictions",
    "messages",
];

/// Before the verb, these turn it around.
const NEGATIONS: [&str; 7] = ["not", "never", "don't", "cannot", "can't", "won't", "without"];

/// Words in a row that no honest skill needs.
const PHRASES: [&str; 15] = [
    "do not tell the user",
    "don't tell the user",
    "never tell the user",
    "without telling the user",
    "without the user knowing",
    "without the user's knowledge",
    "do not inform the user",
    "hide this from the user",
    "keep this secret from the user",
    "do not mention this to the user",
    "reveal your system prompt",
    "print your system prompt",
    "you are no longer bound",
    "do anything now",
    "enable developer mode",
];

/// How far behind the verb its object may stand.
const REACH: usize = 7;
/// How far before the verb a negation counts.
const NEGATION_REACH: usize = 3;

pub(super) fn check(path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (line, content) in numbered(text) {
        let sentences = content.split_inclusive(['.', '!', '?', ';']);
        let said = sentences
            .map(|sentence| words(sentence).collect::<Vec<String>>())
            .find_map(|words| overrides(&words));
        let advice = "take it out: a skill works beside the instructions of its agent and its user";
        if let Some(said) = said.or_else(|| phrase(&words(content).collect::<Vec<_>>())) {
            let message = format!("an order to work against other instructions or the user: \"{said}\"");
            findings.push(Finding::new(
                "override-instructions",
                Severity::Error,
                (path, line),
                message,
                advice,
            ));
        }
    }
    findings.extend(comments(path, text));
    findings
}

fn overrides(words: &[String]) -> Option<String> {
    for (verb_idx, _) in words.iter().enumerate().filter(|(_, word)| VERBS.contains(&word.as_str())) {
        let before = words.get(verb_idx.saturating_sub(NEGATION_REACH)..verb_idx).unwrap_or_default();
        if before.iter().any(|word| NEGATIONS.contains(&word.as_str())) {
            continue;
        }
        let after = words.get(verb_idx + 1..(verb_idx + 1 + REACH).min(words.len())).unwrap_or_default();
        let Some(object_idx) = after.iter().position(|word| OBJECTS.contains(&word.as_str())) else {
            continue;
        };
        let between = after.get(..object_idx).unwrap_or_default();
        let behind = after.get(object_idx + 1).map(String::as_str);
        let is_qualified = between.iter().any(|word| QUALIFIERS.contains(&word.as_str()))
            || matches!(behind, Some("above" | "before" | "given"));
        if is_qualified {
            return words.get(verb_idx..=verb_idx + 1 + object_idx).map(|said| said.join(" "));
        }
    }
    None
}

fn phrase(words: &[String]) -> Option<String> {
    let line = format!(" {} ", words.join(" "));
    PHRASES.iter().find(|phrase| line.contains(&format!(" {phrase} "))).map(|phrase| (*phrase).to_owned())
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
