//! The forms in which the optimizer is asked for its proposals: edits, suggestions for a rewrite, or whole skills.
//!
//! It thinks in edits. A suggestion is an edit in words that [`edit_of`] can follow; a whole skill is the skill with the
//! edits in it.

use crate::conventions::statements;
use serde_json::{Value, json};
use skill_core::{Edit, EditOp, SkillDoc, apply_patch};

const APPEND: &str = "Add this at the end:\n";
const INSERT: &str = "Add something below this line:\n";
const REPLACE: &str = "Take this out:\n";
const WHAT: &str = "\nWhat to add:\n";
const BY: &str = "\nWrite this instead:\n";

/// The words of a suggestion's title at most.
const TITLE_WORDS: usize = 6;

/// What a reply is to propose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// Edits.
    Edits,
    /// Suggestions, by which an editor rewrites the skill.
    Suggestions,
    /// The whole skill, rewritten.
    Skills,
}

impl Form {
    /// The form that a system message asks for, by the shape of the reply that is in it.
    pub(super) fn asked_in(system: &str) -> Self {
        if system.contains("\"revise_suggestions\"") {
            Self::Suggestions
        } else if system.contains("\"skill_candidates\"") {
            Self::Skills
        } else {
            Self::Edits
        }
    }

    /// Edits of a skill in this form, with the argument for them.
    pub(super) fn patch(self, skill: &str, reasoning: &str, edits: &[Edit]) -> Value {
        match self {
            Self::Edits => {
                json!({ "reasoning": reasoning, "edits": edits.iter().map(wire).collect::<Vec<_>>() })
            }
            Self::Suggestions => {
                let suggestions: Vec<Value> = edits.iter().map(suggestion_of).collect();
                json!({ "reasoning": reasoning, "revise_suggestions": suggestions })
            }
            Self::Skills if edits.is_empty() => json!({ "reasoning": reasoning, "skill_candidates": [] }),
            Self::Skills => {
                let support = edits.iter().filter_map(|edit| edit.support_count).max().unwrap_or(1);
                let candidate = json!({
                    "title": edits.first().map(title_of),
                    "new_skill": rewritten(skill, edits),
                    "support_count": support,
                });
                json!({ "reasoning": reasoning, "skill_candidates": [candidate] })
            }
        }
    }
}

/// An edit as a model writes it.
fn wire(edit: &Edit) -> Value {
    json!({
        "op": edit.op.as_str(),
        "target": edit.target,
        "content": edit.content,
        "support_count": edit.support_count.unwrap_or(1),
    })
}

/// The skill with these edits in it.
pub(super) fn rewritten(skill: &str, edits: &[Edit]) -> String {
    apply_patch(&SkillDoc::new(skill), edits).0.source_text().to_owned()
}

/// A few words that name an edit.
pub(super) fn title_of(edit: &Edit) -> String {
    let text = if edit.content.is_empty() { &edit.target } else { &edit.content };
    let words: Vec<&str> = text.trim_start_matches("- ").split_whitespace().take(TITLE_WORDS).collect();
    words.join(" ")
}

fn suggestion_of(edit: &Edit) -> Value {
    let Edit { op, target, content, .. } = edit;
    let instruction = match op {
        EditOp::InsertAfter => [INSERT, target, WHAT, content].concat(),
        EditOp::Replace => [REPLACE, target, BY, content].concat(),
        EditOp::Delete => [REPLACE, target].concat(),
        EditOp::Append | EditOp::Unknown(_) => [APPEND, content].concat(),
    };
    json!({
        "title": title_of(edit),
        "instruction": instruction,
        "support_count": edit.support_count.unwrap_or(1),
    })
}

/// An edit, or the edit that a suggestion asks for; one in other words becomes a rule at the end of the skill.
pub(super) fn edit_of(proposal: &Value) -> Option<Edit> {
    let Some(instruction) = proposal.get("instruction").and_then(Value::as_str) else {
        return serde_json::from_value(proposal.clone()).ok();
    };
    let edit = if let Some(content) = instruction.strip_prefix(APPEND) {
        Edit::append(content)
    } else if let Some((target, content)) =
        instruction.strip_prefix(INSERT).and_then(|it| it.split_once(WHAT))
    {
        Edit::new(EditOp::InsertAfter, target, content)
    } else if let Some(rest) = instruction.strip_prefix(REPLACE) {
        match rest.split_once(BY) {
            Some((target, content)) => Edit::new(EditOp::Replace, target, content),
            None => Edit::new(EditOp::Delete, rest, ""),
        }
    } else {
        Edit::append(format!("- {}", instruction.split_whitespace().collect::<Vec<_>>().join(" ")))
    };
    let support = proposal.get("support_count").and_then(Value::as_u64);
    Some(Edit { support_count: support.and_then(|count| u32::try_from(count).ok()), ..edit })
}

/// One skill of several: what any of them took out goes, and what any of them brought in comes, once.
pub(super) fn merge_skills(skill: &str, candidates: &[String]) -> Value {
    let base: Vec<&str> = skill.lines().collect();
    let mut merged: Vec<&str> = base.clone();
    for candidate in candidates {
        let lines: Vec<&str> = candidate.lines().collect();
        merged.retain(|line| line.trim().is_empty() || lines.contains(line) || !base.contains(line));
        for (place, line) in lines.iter().enumerate() {
            if line.trim().is_empty()
                || base.contains(line)
                || merged.iter().any(|known| say_the_same(known, line))
            {
                continue;
            }
            let place_of = |above: &&str| merged.iter().position(|known| known == above);
            let said = lines.iter().take(place).rev().filter(|above| !above.trim().is_empty());
            let at = said.filter_map(place_of).next().map_or(merged.len(), |at| at + 1);
            merged.insert(at, line);
        }
    }
    let reasoning = format!("{} skills, and what each of them \"changed\".", candidates.len());
    let candidate = json!({
        "title": "all changes",
        "new_skill": merged.join("\n"),
        "support_count": candidates.len(),
    });
    json!({ "reasoning": reasoning, "skill_candidates": [candidate], "no_change": false })
}

fn say_the_same(a: &str, b: &str) -> bool {
    let (said_a, said_b) = (statements(a), statements(b));
    a == b || !said_a.is_empty() && said_a == said_b
}

/// The reply of an editor who follows suggestions.
pub(super) fn rewrite(skill: &str, suggestions: &[Edit]) -> Value {
    let changes: Vec<String> = suggestions.iter().map(title_of).collect();
    json!({
        "reasoning": "Each suggestion stands where it \"belongs\".",
        "change_summary": changes,
        "new_skill": rewritten(skill, suggestions),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_suggestion_can_be_followed() {
        let edits = [
            Edit::append("- a\n- b"),
            Edit::new(EditOp::InsertAfter, "- x", "- y"),
            Edit::new(EditOp::Replace, "- x", "- y"),
            Edit::new(EditOp::Delete, "- x", ""),
        ];
        for edit in edits {
            let edit = Edit { support_count: Some(3), ..edit };
            assert_eq!(edit_of(&suggestion_of(&edit)), Some(edit));
        }
        let other = json!({ "title": "t", "instruction": "Ask for\nthe day." });
        assert_eq!(edit_of(&other), Some(Edit::append("- Ask for the day.")));
        assert_eq!(edit_of(&json!({ "title": "t" })), None);
    }

    #[test]
    fn skills_become_one() {
        let skill = "# S\n- old\n- base\n";
        let candidates =
            ["# S\n- base\n- new\n", "# S\n- old\n- other\n- base\n", "# S\n- old\n- base\n- new\n"];
        let merged = merge_skills(skill, &candidates.map(str::to_owned));
        assert_eq!(merged["skill_candidates"][0]["new_skill"], "# S\n- other\n- base\n- new");
    }
}
