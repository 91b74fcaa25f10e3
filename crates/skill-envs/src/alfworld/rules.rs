//! The rules of a game: which of the published domains and grammars its file holds, and its task.
//!
//! Neither is interpreted.
//! A text is brought into a normal form and known by its hash; what the known ones say is written in Rust in the
//! modules beside this one, and any other text is refused.

use super::error::GameError;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use skill_core::SkillHash;
use std::borrow::Cow;

/// The domain of `alfworld` 0.2 and 0.3, in its normal form.
const DOMAIN_0_2: &str = "b0b8259a4e11c9f4";
/// The domain of `alfworld` 0.4, in its normal form.
const DOMAIN_0_4: &str = "915e118f4f32b4d8";
/// The grammar of `alfworld` 0.2 and 0.3, in its normal form.
const GRAMMAR_0_2: &str = "ab7832e463c5eea8";
/// The grammar of `alfworld` 0.4, in its normal form.
const GRAMMAR_0_4: &str = "56608cb77f438c90";

/// What comes before the task in a grammar, and in the first observation.
pub(super) const TASK_PREFIX: &str = "Your task is to: ";

/// The rules by which a game is played.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Rules {
    /// What commands and answers look like.
    pub wording: Wording,
    /// Whether there is a command `help`.
    pub has_help: bool,
}

impl Rules {
    /// The rules of `alfworld` 0.4.
    pub const CURRENT: Self = Self { wording: Wording::Move, has_help: true };
    /// The rules of `alfworld` 0.2 and 0.3, by which most published transcripts were made.
    pub const FIRST: Self = Self { wording: Wording::Put, has_help: false };

    /// The rules of a game file; a game without a domain is played by the one that belongs to its grammar.
    ///
    /// # Errors
    ///
    /// A domain or a grammar that is not known, or two that do not fit together.
    pub fn recognise(domain: Option<&str>, grammar: &str) -> Result<Self, GameError> {
        let wording = Wording::recognise(grammar)?;
        let has_help = match domain {
            Some(domain) => domain_has_help(domain)?,
            None => wording == Wording::Move,
        };
        if has_help && wording == Wording::Put {
            let message = "`pddl_domain` is that of alfworld 0.4 and has a command `help`, but `grammar` is that of \
                           alfworld 0.2, which does not know it; take both from one version";
            return Err(GameError::Rules { message: message.to_owned() });
        }
        Ok(Self { wording, has_help })
    }
}

/// What commands and answers look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wording {
    /// `alfworld` 0.4: `move .. to ..`, and one arrives at a receptacle.
    Move,
    /// `alfworld` 0.2 and 0.3: `put .. in/on ..`, and one arrives at a numbered location.
    Put,
}

impl Wording {
    fn recognise(grammar: &str) -> Result<Self, GameError> {
        let parts = without_task(grammar);
        let hash = HASHES.of(parts, || normal_grammar(grammar));
        match hash.as_str() {
            GRAMMAR_0_4 => Ok(Self::Move),
            GRAMMAR_0_2 => Ok(Self::Put),
            other => Err(GameError::Rules {
                message: format!(
                    "`grammar` is none that is known (its normal form has the hash {other}; known are {GRAMMAR_0_2} of \
                     alfworld 0.2 and 0.3 and {GRAMMAR_0_4} of alfworld 0.4), so what it would say is not known either"
                ),
            }),
        }
    }
}

fn domain_has_help(domain: &str) -> Result<bool, GameError> {
    let hash = HASHES.of((domain, ""), || normal_domain(domain));
    match hash.as_str() {
        DOMAIN_0_4 => Ok(true),
        DOMAIN_0_2 => Ok(false),
        other => Err(GameError::Rules {
            message: format!(
                "`pddl_domain` is none that is known (its normal form has the hash {other}; known are {DOMAIN_0_2} of \
                 alfworld 0.2 and 0.3 and {DOMAIN_0_4} of alfworld 0.4), so its actions are not known either"
            ),
        }),
    }
}

/// The hashes of the texts that came last.
///
/// Thousands of files hold the same two texts, and comparing one takes a hundredth of the time of hashing it.
static HASHES: Hashes = Hashes(Mutex::new(Vec::new()));
/// How many texts are kept: domain and grammar of two versions.
const MAX_HASHES: usize = 4;

struct Hashes(Mutex<Vec<KnownHash>>);

/// A text in two parts, and the hash of its normal form.
struct KnownHash {
    parts: (Box<str>, Box<str>),
    hash: SkillHash,
}

impl Hashes {
    /// The hash of a text's normal form.
    fn of(&self, parts: (&str, &str), normal: impl FnOnce() -> String) -> SkillHash {
        // What was kept is whole even if a thread died while it held the lock.
        let mut known = self.0.lock();
        let is_it = |known: &KnownHash| (known.parts.0.as_ref(), known.parts.1.as_ref()) == parts;
        if let Some(known) = known.iter().find(|known| is_it(known)) {
            return known.hash.clone();
        }
        let hash = SkillHash::of(&normal());
        if known.len() >= MAX_HASHES {
            known.remove(0);
        }
        known.push(KnownHash { parts: (parts.0.into(), parts.1.into()), hash: hash.clone() });
        hash
    }
}

/// A grammar up to its task, and from the end of the task's line on.
fn without_task(grammar: &str) -> (&str, &str) {
    let Some((before, after)) = grammar.split_once(TASK_PREFIX) else { return (grammar, "") };
    (before, after.find('\n').and_then(|end| after.get(end..)).unwrap_or_default())
}

/// A domain without comments, case and layout.
fn normal_domain(domain: &str) -> String {
    let mut normal = String::with_capacity(domain.len());
    let mut is_after_blank = true;
    for line in domain.split('\n') {
        let code = line.split(';').next().unwrap_or_default();
        for character in code.chars().chain(['\n']) {
            let is_mark = matches!(character, '(' | ')');
            if (character.is_whitespace() || is_mark || character == '?') && !is_after_blank {
                normal.push(' ');
                is_after_blank = true;
            }
            if !character.is_whitespace() {
                normal.push(character.to_ascii_lowercase());
                is_after_blank = false;
            }
            if is_mark {
                normal.push(' ');
                is_after_blank = true;
            }
        }
    }
    normal.truncate(normal.trim_end().len());
    normal
}

/// A grammar without its task and the layout around its lines; blanks inside a line may be part of a text.
fn normal_grammar(grammar: &str) -> String {
    let mut normal = String::with_capacity(grammar.len());
    let mut awaits_task = true;
    for line in grammar.split('\n') {
        let mut line = line.trim();
        if awaits_task && let Some((before, _)) = line.split_once(TASK_PREFIX) {
            line = line.get(..before.len() + TASK_PREFIX.len()).unwrap_or(line);
            awaits_task = false;
            push_line(&mut normal, line);
            normal.push('"');
            continue;
        }
        push_line(&mut normal, line);
    }
    normal
}

fn push_line(text: &mut String, line: &str) {
    if !line.is_empty() {
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(line);
    }
}

/// The sentence in which a grammar states the task, without what comes before it: `put a mug in desk.`
///
/// # Errors
///
/// A grammar that states no task, or in no whole string.
pub(super) fn task_of(grammar: &str) -> Result<String, GameError> {
    let rules = |message: &str| GameError::Rules { message: message.to_owned() };
    let Some((_, rest)) = grammar.split_once(TASK_PREFIX) else {
        return Err(rules("`grammar` states no task; expected a line `Your task is to: ..`"));
    };
    let line = rest.split('\n').next().unwrap_or_default();
    let mut is_escaped = false;
    for (place, character) in line.char_indices() {
        match character {
            '"' if !is_escaped => {
                let raw = line.get(..place).unwrap_or_default();
                let quoted = format!("\"{raw}\"");
                let task: Cow<'_, str> = serde_json::from_str(&quoted)
                    .map_err(|_| rules("the task in `grammar` is not a whole JSON string"))?;
                return Ok(task.into_owned());
            }
            _ => is_escaped = character == '\\' && !is_escaped,
        }
    }
    Err(rules("the task in `grammar` does not end; the file may be cut"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layout_and_comments_do_not_make_another_domain() {
        let plain = "(define (domain a) (:action b :parameters (?a - agent ?l - location)))";
        let laid_out = "; first\r\n( DEFINE (domain A)\n  ;(:action c)\n\t(:action b :parameters (?a - agent\n?l - \
                        location) ) )\n";
        assert_eq!(normal_domain(plain), normal_domain(laid_out));
        assert_ne!(normal_domain(plain), normal_domain(&plain.replace("agent", "location")));
        assert_ne!(normal_domain(plain), normal_domain(&plain.replace("agent ", "agent, ")));
    }

    #[test]
    fn the_task_and_the_margin_do_not_make_another_grammar() {
        let grammar =
            "grammar :: \"\"\"\n  \"task\": [{\n    \"rhs\": \"Your task is to: UNKNOWN GOAL.\"\n  }]\n";
        let goal = "put a \"mug\" in desk";
        let written = goal.replace('"', "\\\"");
        let played = grammar.replace("UNKNOWN GOAL", &written).replace('\n', "\r\n    ");
        assert_eq!(normal_grammar(grammar), normal_grammar(&played));
        assert_eq!(task_of(&played).unwrap(), format!("{goal}."));
        assert_ne!(normal_grammar(grammar), normal_grammar(&grammar.replace("rhs", "lhs")));
    }

    #[track_caller]
    fn check_no_task(grammar: &str, expect: &str) {
        assert_eq!(task_of(grammar).unwrap_err().to_string(), expect);
    }

    #[test]
    fn a_grammar_without_a_task_is_refused() {
        check_no_task("{}", "`grammar` states no task; expected a line `Your task is to: ..`");
        check_no_task(
            "\"rhs\": \"Your task is to: put a mu",
            "the task in `grammar` does not end; the file may be cut",
        );
        check_no_task("\"Your task is to: a \\q b.\"", "the task in `grammar` is not a whole JSON string");
    }
}
