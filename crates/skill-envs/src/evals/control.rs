//! What is known of a case before its results are believed.
//!
//! An agent that does nothing leaves the project as it was. A check that passes then shows no work: it is a *guard*, which
//! can make a run fail and never makes it pass. A case with guards alone tests nothing and is excluded. A case whose
//! prompt names the skill gives its method to the arm without it, and is excluded too.

use super::check::CheckRow;
use serde::Serialize;

/// Why a case is in no verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Excluded {
    /// Every check passes for an agent that does nothing.
    TestsNothing,
    /// The prompt names the skill or one of its files.
    NamesTheMethod,
}

impl Excluded {
    /// The rule in words.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::TestsNothing => "an agent that does nothing passes: it tests nothing",
            Self::NamesTheMethod => "the prompt names the skill, so every arm is given its method",
        }
    }
}

/// What a person would type to name a skill, rather than its subject: the name as a command or beside the word skill, a
/// name of several words as it is, or a file of the package.
pub fn names_the_method(prompt: &str, names: &[&str], files: &[&str]) -> bool {
    let prompt = prompt.to_lowercase();
    let words: Vec<&str> =
        prompt.split(|sign: char| !(sign.is_alphanumeric() || "-_./$:".contains(sign))).collect();
    let trimmed = |word: &&str| word.trim_matches(|sign: char| "._:".contains(sign)).to_owned();
    let words: Vec<String> = words.iter().map(trimmed).filter(|word| !word.is_empty()).collect();
    let has = |wanted: &str| words.iter().any(|word| word == wanted);
    let is_named = names.iter().filter(|name| !name.is_empty()).any(|name| {
        let name = name.to_lowercase();
        let is_beside = words.windows(2).any(|pair| match pair {
            [one, other] => (*one == name && other == "skill") || (one == "skill" && *other == name),
            _ => false,
        });
        let is_compound = name.contains(['-', '_']) && has(&name);
        is_beside || is_compound || has(&format!("/{name}")) || has(&format!("${name}"))
    });
    let is_of_package = |path: &&str| {
        let path = path.to_lowercase();
        let name = path.rsplit('/').next().unwrap_or_default().to_owned();
        has(&path) || (path.starts_with("scripts/") && has(&name))
    };
    is_named || has("skill.md") || files.iter().any(is_of_package)
}

/// Whether the rows of an agent that did nothing leave a check that tests something.
pub fn tests_something(rows: &[CheckRow]) -> bool {
    rows.iter().any(|row| !row.passed && !row.is_shown_only)
}

#[cfg(test)]
mod tests {
    use super::names_the_method;

    #[test]
    fn a_prompt_that_names_the_method_is_told_from_one_about_the_subject() {
        let names = |prompt: &str| {
            names_the_method(prompt, &["pdf"], &["SKILL.md", "scripts/fill_form.py", "references/x.md"])
        };
        for prompt in [
            "Use the pdf skill for this.",
            "/pdf merge these",
            "$pdf merge these",
            "Read SKILL.md, then merge",
            "Run fill_form.py on form.txt",
            "follow references/x.md",
        ] {
            assert!(names(prompt), "{prompt}");
        }
        for prompt in
            ["Merge the two pdf files.", "Fill in form.pdf", "Which skills does a clerk need for pdf?"]
        {
            assert!(!names(prompt), "{prompt}");
        }
        assert!(names_the_method("Do it by invoice-format", &["invoice-format"], &[]));
        assert!(!names_the_method("Format the invoice", &["invoice-format"], &[]));
    }
}
