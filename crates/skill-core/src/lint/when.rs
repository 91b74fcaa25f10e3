//! Descriptions that do not say when a skill is of use: agents decide by nothing else whether they load it.

use super::{Finding, Severity};
use crate::package::front_matter::FrontMatter;
use crate::package::{MAIN_FILE, SkillPackage};

/// Words by which a description says when its skill is of use.
const WHEN: &[&str] = &[
    "after", "applies", "asked", "asks", "before", "during", "for", "if", "mentions", "needs", "requests",
    "trigger", "triggers", "upon", "use", "used", "user", "users", "using", "wants", "when", "whenever",
    "where", "wherever", "while", "working", "wenn", "falls", "sobald", "bei", "beim", "als", "wanneer",
    "quand", "lorsque", "si", "cuando", "quando", "se",
];

/// A warning for the description of a package that names no occasion.
pub(super) fn check(package: &SkillPackage) -> Option<Finding> {
    let description = FrontMatter::read(&package.main).ok()??.description?;
    if may_say_when(&description) {
        return None;
    }
    let line = package.main.lines().position(|line| line.trim_start().starts_with("description"));
    Some(Finding::new(
        "description-when",
        Severity::Warning,
        (MAIN_FILE, line.map_or(1, |line| line + 1)),
        "the description says what the skill does and not when to use it, by which agents decide to load it",
        "add when: `Use when ..`, with the words that people ask with",
    ))
}

/// False for a description in Latin letters that names no occasion; of others nothing is known.
fn may_say_when(description: &str) -> bool {
    let mut words = description.split(|letter: char| !letter.is_alphanumeric()).map(str::to_lowercase);
    !description.is_ascii() || words.any(|word| WHEN.contains(&word.as_str()))
}

#[cfg(test)]
mod tests {
    use super::may_say_when;

    #[test]
    fn an_occasion_is_told_from_a_task() {
        for (description, expect) in [
            ("Writes release notes.", false),
            ("Sorts tickets into queues", false),
            ("Writes release notes. Use when a version is tagged.", true),
            ("Fills PDF forms if a user asks", true),
            ("Schreibt Notizen, wenn eine Version fertig ist", true),
            ("\u{5199}\u{53d1}\u{5e03}", true),
        ] {
            assert_eq!(may_say_when(description), expect, "{description}");
        }
    }
}
