//! The text that agents are shown: skills under headings, as the SkillRL paper writes them.
//!
//! Sections are [`Section::General`], [`Section::TaskType`], [`Section::Mistakes`], in this order, empty ones left out,
//! joined by an empty line:
//!
//! ```text
//! ### General Principles
//! - **title**: principle
//!
//! ### Pick And Place Skills
//! - **title**: principle
//!   _Apply when: when_to_apply_
//!
//! ### Mistakes to Avoid
//! - **Don't**: description
//!   **Instead**: how_to_avoid
//! ```

use crate::skill::{Content, Tier};
use std::borrow::Cow;

/// The text where there is nothing to show.
pub const NOTHING_RELEVANT: &str = "No relevant skills found for this task.";
/// The heading of skills of all types, ranked together.
pub(crate) const ALL_TYPES_HEADING: &str = "### Task-Relevant Skills";
/// The end of a text that was cut.
const CUT_MARK: &str = "…";

skill_core::named_enum! {
    /// A part of the text, in their order.
    #[derive(PartialOrd, Ord)]
    pub enum Section {
        /// Skills for tasks of all types.
        General = "general",
        /// Skills for the type of the task.
        TaskType = "task_type",
        /// Mistakes to avoid.
        Mistakes = "mistakes",
    }
}

impl Section {
    /// The section of a tier.
    pub fn of(tier: &Tier) -> Self {
        match tier {
            Tier::General => Self::General,
            Tier::TaskType(_) => Self::TaskType,
            Tier::Mistakes => Self::Mistakes,
        }
    }
}

/// The heading of a section; `task_type` names the type of the task.
pub(crate) fn heading(section: Section, task_type: &str) -> String {
    match section {
        Section::General => "### General Principles".to_owned(),
        Section::TaskType => format!("### {} Skills", titled(task_type)),
        Section::Mistakes => "### Mistakes to Avoid".to_owned(),
    }
}

/// The heading of a section of episodes; `task_type` names the type of the task and is empty for all types.
pub(crate) fn episodes_heading(task_type: &str) -> String {
    match titled(task_type).as_str() {
        "" => "### Earlier Episodes".to_owned(),
        task_type => format!("### Earlier Episodes: {task_type}"),
    }
}

/// A name with blanks for underscores, each of its words with a capital letter.
fn titled(name: &str) -> String {
    let mut follows_a_letter = false;
    let letter = |character: char| {
        let begins = character.is_alphabetic() && !follows_a_letter;
        follows_a_letter = character.is_alphabetic();
        match character {
            '_' => " ".to_owned(),
            _ if begins => character.to_uppercase().collect(),
            _ => character.to_string(),
        }
    };
    name.chars().map(letter).collect()
}

/// A skill as its section shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Line {
    /// The text, which may have several lines; empty if all texts of the skill are empty.
    pub(crate) text: String,
    /// True if a part of the skill is missing.
    pub(crate) is_cut: bool,
}

/// A skill as its section shows it, with at most so many characters of its own.
pub(crate) fn line(content: &Content, section: Section, max_chars: usize) -> Line {
    let texts = match content {
        Content::Principle { title, principle, when_to_apply } => {
            let is_shown = section != Section::General && !when_to_apply.trim().is_empty();
            [title.as_str(), principle, if is_shown { when_to_apply } else { "" }]
        }
        Content::Mistake { description, how_to_avoid, .. } => [description.as_str(), how_to_avoid, ""],
        Content::Episode { goal, outcome, steps, .. } => return episode(goal, outcome, steps, max_chars),
    };
    let mut left = max_chars;
    let mut is_cut = false;
    let [first, second, third] = texts.map(|text| {
        let kept = cut(text, left);
        // What follows a text that was cut would read as a part of it.
        left = if kept.len() == text.len() { left.saturating_sub(kept.chars().count()) } else { 0 };
        is_cut |= kept.len() != text.len();
        kept
    });
    let is_blank = |text: &str| text.trim().is_empty();
    let mut text = match content {
        Content::Principle { .. } => match (is_blank(&first), is_blank(&second)) {
            (true, true) => String::new(),
            (true, false) => format!("- {second}"),
            (false, _) => format!("- **{first}**: {second}"),
        },
        Content::Mistake { .. } if is_blank(&first) => String::new(),
        Content::Mistake { .. } => format!("- **Don't**: {first}"),
        Content::Episode { .. } => String::new(),
    };
    match content {
        _ if text.is_empty() => {}
        Content::Principle { .. } if !third.is_empty() => {
            text.push_str(&format!("\n  _Apply when: {third}_"));
        }
        Content::Mistake { .. } if !is_blank(&second) => text.push_str(&format!("\n  **Instead**: {second}")),
        Content::Principle { .. } | Content::Mistake { .. } | Content::Episode { .. } => {}
    }
    Line { text, is_cut }
}

/// An episode: its goal and outcome, and of its steps the last whole lines that there is room for, since what an attempt
/// came to is decided at its end.
fn episode(goal: &str, outcome: &str, steps: &str, max_chars: usize) -> Line {
    if steps.trim().is_empty() {
        return Line { text: String::new(), is_cut: false };
    }
    let goal = cut(goal.trim(), max_chars);
    let mut left = max_chars.saturating_sub(goal.chars().count());
    let lines: Vec<&str> = steps.lines().collect();
    let mut shown: Vec<Cow<'_, str>> = Vec::new();
    for line in lines.iter().rev() {
        let n_chars = line.chars().count();
        if n_chars > left {
            // Of an end that is longer than the room the beginning says most.
            let part = cut(line, left);
            if shown.is_empty() && !part.is_empty() {
                shown.push(part);
            }
            break;
        }
        left -= n_chars;
        shown.push(Cow::Borrowed(line));
    }
    let n_missing = lines.len() - shown.len();
    let is_cut = n_missing > 0 || shown.iter().any(|line| matches!(line, Cow::Owned(_)));
    let missing = (n_missing > 0).then(|| format!("\n  [{n_missing} earlier lines left out]"));
    let mut text = format!("- **{goal}** ({outcome})");
    text.extend(missing);
    for line in shown.iter().rev() {
        text.push_str("\n  ");
        text.push_str(line);
    }
    Line { text, is_cut }
}

/// The beginning of a text, with at most so many characters, up to the end of a word.
fn cut(text: &str, max_chars: usize) -> Cow<'_, str> {
    // A character has at most four bytes, so most texts need no count.
    if text.len() <= max_chars || text.chars().count() <= max_chars {
        return Cow::Borrowed(text);
    }
    let Some(n_kept) = max_chars.checked_sub(CUT_MARK.chars().count()) else { return Cow::Borrowed("") };
    let end = text.char_indices().nth(n_kept).map_or(text.len(), |(end, _)| end);
    let (kept, rest) = text.split_at_checked(end).unwrap_or((text, ""));
    let ends_a_word = rest.chars().next().is_none_or(char::is_whitespace);
    let kept = match kept.rfind(char::is_whitespace) {
        Some(blank) if !ends_a_word => kept.get(..blank).unwrap_or(kept),
        _ => kept,
    };
    Cow::Owned(kept.trim_end().to_owned() + CUT_MARK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(content: &Content, section: Section, max_chars: usize, expect: (&str, bool)) {
        let line = line(content, section, max_chars);
        assert_eq!((line.text.as_str(), line.is_cut), expect);
    }

    fn principle(title: &str, principle: &str, when_to_apply: &str) -> Content {
        Content::principle(title, principle, when_to_apply)
    }

    fn mistake(description: &str, how_to_avoid: &str) -> Content {
        Content::Mistake {
            description: description.to_owned(),
            why_it_happens: "never shown".to_owned(),
            how_to_avoid: how_to_avoid.to_owned(),
        }
    }

    #[test]
    fn skills_are_written_as_their_section_wants_them() {
        let full = principle("T", "P", "W");
        check(&full, Section::General, 500, ("- **T**: P", false));
        check(&full, Section::TaskType, 500, ("- **T**: P\n  _Apply when: W_", false));
        check(&principle("T", "P", " "), Section::TaskType, 500, ("- **T**: P", false));
        check(&principle("", "P", ""), Section::General, 500, ("- P", false));
        check(&principle("", " ", "W"), Section::TaskType, 500, ("", false));
        check(&mistake("D", "F"), Section::Mistakes, 500, ("- **Don't**: D\n  **Instead**: F", false));
        check(&mistake("D", ""), Section::Mistakes, 500, ("- **Don't**: D", false));
        check(&mistake("", "F"), Section::Mistakes, 500, ("", false));
    }

    #[test]
    fn long_skills_are_cut_between_words() {
        let long = principle("Name", "one two three", "sometimes");
        check(&long, Section::General, 17, ("- **Name**: one two three", false));
        check(&long, Section::General, 16, ("- **Name**: one two…", true));
        check(&long, Section::General, 12, ("- **Name**: one two…", true));
        check(&long, Section::TaskType, 26, ("- **Name**: one two three\n  _Apply when: sometimes_", false));
        check(&long, Section::TaskType, 25, ("- **Name**: one two three\n  _Apply when: sometim…_", true));
        check(&long, Section::TaskType, 17, ("- **Name**: one two three", true));
        check(&principle("", "äöüäöü", ""), Section::General, 4, ("- äöü…", true));
        check(&long, Section::General, 0, ("", true));
    }

    #[test]
    fn names_of_types_become_titles() {
        for (task_type, title) in [
            ("look_at_obj_in_light", "Look At Obj In Light"),
            ("PickTwo", "PickTwo"),
            ("2wiki multi-hop", "2Wiki Multi-Hop"),
        ] {
            assert_eq!(heading(Section::TaskType, task_type), format!("### {title} Skills"));
        }
    }
}
