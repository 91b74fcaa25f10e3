//! How the optimizer is sometimes bad: what real models do, at a rate that can be set.

use skill_core::random::Dice;
use skill_core::{Edit, EditOp};

/// Rules that sound sensible and do harm.
pub(super) const HARMFUL: &[&str] = &[
    "Explain your reasoning step by step in the answer.",
    "If in any doubt, answer `unknown`.",
    "Copy every value exactly as it stands in the record, so that nothing is lost.",
    "Copy dates, times and names exactly as written in the record.",
    "Answer in a full, friendly sentence.",
];

/// Bad edits in the place of good ones, or added to them; `harmful` are rules that do harm where the skill is used.
pub(super) fn spoil(skill: &str, edits: &mut Vec<Edit>, support: u32, harmful: &[&str], dice: Dice) {
    let lines: Vec<&str> =
        skill.lines().filter(|line| line.trim().len() > 12 && !line.starts_with(['#', '<'])).collect();
    let line = dice.pick("spoiled line", &lines).copied();
    match (dice.pick("flaw", &[Flaw::Harmful, Flaw::Duplicate, Flaw::MissedAnchor, Flaw::MissedAnchor]), line)
    {
        (Some(Flaw::Duplicate), Some(line)) => edits.push(supported(Edit::append(line), support)),
        (Some(Flaw::MissedAnchor), Some(line)) => {
            if edits.is_empty() {
                let shorter = line.trim_start_matches("- ").trim_end_matches('.');
                edits.push(supported(Edit::append(format!("- {shorter}, always.")), support));
            }
            for edit in edits {
                edit.op = EditOp::Replace;
                edit.target = misquoted(line);
            }
        }
        _ => {
            let rule = dice.pick("harm", harmful).copied().unwrap_or_default();
            edits.insert(0, supported(Edit::append(format!("- {rule}")), support));
        }
    }
}

#[derive(Clone, Copy)]
enum Flaw {
    Harmful,
    Duplicate,
    MissedAnchor,
}

fn supported(mut edit: Edit, support: u32) -> Edit {
    edit.support_count = Some(support);
    edit
}

/// A line as somebody quotes it who has no time to look: the last word is gone, and another one is there.
fn misquoted(line: &str) -> String {
    let line = line.trim_end().trim_end_matches('.');
    let start = line.rsplit_once(' ').map_or(line, |(start, _)| start);
    format!("{start} as above")
}

/// The reply as a careless model writes it; every one of these can be repaired.
pub(super) fn malform(json: &str, dice: Dice) -> String {
    match dice.pick("malformation", &[0_u8, 1, 2, 3]) {
        Some(0) => trailing_comma(json),
        Some(1) => json.replace("\\\"", "\""),
        Some(2) => {
            format!("Sure! Here is what I propose:\n\n```json\n{json}\n```\n\nLet me know how it goes.")
        }
        _ => json.trim_end_matches(['}', ']', ' ', '\n']).to_owned(),
    }
}

fn trailing_comma(json: &str) -> String {
    match json.rsplit_once(']') {
        Some((before, after)) if !before.trim_end().ends_with('[') => {
            format!("{},\n]{after}", before.trim_end())
        }
        _ => format!("{json},"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conventions::{Stance, statements};

    #[test]
    fn harmful_rules_do_harm() {
        for rule in HARMFUL {
            let read = statements(&format!("- {rule}"));
            assert!(!read.is_empty() && read.iter().all(|s| s.stance != Stance::Wanted), "{rule}: {read:?}");
        }
    }

    #[test]
    fn a_misquoted_line_is_not_in_the_skill() {
        for line in ["- Write dates as YYYY-MM-DD.", "- Be brief", "word"] {
            assert!(!line.contains(&misquoted(line)), "{line}");
        }
    }

    #[test]
    fn malformed_replies_are_no_json() {
        let json = "{\n  \"reasoning\": \"a \\\"b\\\" c\",\n  \"edits\": [\n    {\n      \"op\": \"append\"\n    }\n  ]\n}";
        for seed in 0..20 {
            let text = malform(json, Dice::new(seed, &[]));
            assert!(serde_json::from_str::<serde_json::Value>(&text).is_err(), "{text}");
        }
    }
}
