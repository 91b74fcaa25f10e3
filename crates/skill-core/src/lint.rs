//! The linter: what a person should know about a skill before others use it.
//!
//! [`lint`] looks at every file of a package and says what it found, with a rule, a place and what to do about it. It
//! knows the rules of the Agent Skills specification, sizes, links, secrets, characters that cannot be seen or look like others,
//! orders to override other instructions or the task, and text that was copied from training items. Nothing here asks a model, reads a
//! file, or shows a secret that it found.
//!
//! # Invariants
//!
//! - No finding shows the secret that it found. Held by `a_finding_never_shows_the_secret`.

mod copied;
mod hidden;
mod links;
mod lookalike;
mod overriding;
mod secrets;
mod size;
mod when;

pub use copied::TrainingText;

use crate::package::front_matter::{self, FrontMatterFault, check_front_matter, check_upload_of_document};
use crate::package::{MAIN_FILE, SkillPackage};
use serde::{Deserialize, Serialize};

/// More findings of one rule in one file than this are summed up in the last one.
const MAX_FINDINGS_PER_RULE: usize = 20;

crate::named_enum! {
    /// How bad a [`Finding`] is.
    #[derive(PartialOrd, Ord)]
    pub enum Severity {
        /// The skill should not be given away like this.
        Error = "error",
        /// A warning.
        Warning = "warning",
        /// Good to know.
        Note = "note",
    }
}

/// One thing that was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// The rule's name; it never changes its meaning.
    pub rule: String,
    /// How bad it is.
    pub severity: Severity,
    /// The file, by its path in the package.
    pub file: String,
    /// The line, from 1; 0 for the file as a whole.
    pub line: usize,
    /// What was found.
    pub message: String,
    /// What to do about it.
    pub advice: String,
}

impl Finding {
    pub(crate) fn new(
        rule: &str,
        severity: Severity,
        place: (&str, usize),
        message: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        Self {
            rule: rule.to_owned(),
            severity,
            file: place.0.to_owned(),
            line: place.1,
            message: message.into(),
            advice: advice.into(),
        }
    }
}

/// Which rules of the specification a skill is held to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form<'a> {
    /// A document alone: none; what Claude would refuse to take as a package is a warning.
    Document,
    /// A package in a folder of this name.
    Package {
        /// The name; `None` where it is not known.
        folder: Option<&'a str>,
    },
}

/// Looks at all of a package; `training` is what its text must not be copied from.
///
/// Findings stand by file, then by line, then by rule.
pub fn lint(package: &SkillPackage, form: Form<'_>, training: &[TrainingText]) -> Vec<Finding> {
    let mut findings = Vec::new();
    match form {
        // It may never become a package.
        Form::Document => {
            findings.extend(check_upload_of_document(&package.main).into_iter().map(of_front_matter));
        }
        Form::Package { folder } => {
            findings.extend(check_front_matter(&package.main, folder).into_iter().map(of_front_matter));
            findings.extend(when::check(package));
        }
    }
    let texts: Vec<(&str, &str)> = texts(package);
    findings.extend(size::check(package));
    findings.extend(links::check(package));
    for (path, text) in &texts {
        findings.extend(secrets::check(path, text));
        findings.extend(hidden::check(path, text));
        findings.extend(lookalike::check(path, text));
    }
    let written = || texts.iter().copied().filter(|(path, _)| !package.carried.contains_key(*path));
    for (path, text) in written() {
        findings.extend(overriding::check(path, text));
    }
    findings.extend(copied::check(&written().collect::<Vec<_>>(), training));
    ordered(findings)
}

fn of_front_matter(fault: FrontMatterFault) -> Finding {
    let severity = if fault.is_error { Severity::Error } else { Severity::Warning };
    Finding::new(fault.rule, severity, (MAIN_FILE, fault.line), fault.message, fault.advice)
}

/// That the `SKILL.md` of a package begins with a byte-order mark in its file, which no text of it holds.
pub fn byte_order_mark() -> Finding {
    of_front_matter(front_matter::byte_order_mark())
}

/// Every file that is text, by path.
fn texts(package: &SkillPackage) -> Vec<(&str, &str)> {
    let references = package.references.iter().map(|(path, text)| (path.as_str(), text.as_str()));
    let carried = package
        .contents
        .iter()
        .filter_map(|(path, file)| std::str::from_utf8(file.bytes()).ok().map(|text| (path, text)));
    std::iter::once((MAIN_FILE, package.main.as_str())).chain(references).chain(carried).collect()
}

/// In the order of places, and no endless list of the same.
fn ordered(mut findings: Vec<Finding>) -> Vec<Finding> {
    let key = |finding: &Finding| (finding.file != MAIN_FILE, finding.file.clone(), finding.line);
    findings.sort_by(|left, right| key(left).cmp(&key(right)).then_with(|| left.rule.cmp(&right.rule)));
    let mut kept: Vec<Finding> = Vec::new();
    let mut n_of: std::collections::BTreeMap<(String, String), usize> = std::collections::BTreeMap::new();
    for finding in findings {
        let n_found = n_of.entry((finding.file.clone(), finding.rule.clone())).or_default();
        *n_found += 1;
        if *n_found <= MAX_FINDINGS_PER_RULE {
            kept.push(finding);
        }
    }
    for ((file, rule), n_found) in n_of {
        let n_more = n_found.saturating_sub(MAX_FINDINGS_PER_RULE);
        if n_more > 0
            && let Some(last) = kept.iter_mut().rev().find(|kept| kept.file == file && kept.rule == rule)
        {
            last.message.push_str(&format!(" (and {n_more} more of this kind in the file)"));
        }
    }
    kept
}

/// The lines of a text with their numbers, from 1.
fn numbered(text: &str) -> impl Iterator<Item = (usize, &str)> {
    (1..).zip(text.lines())
}

/// The words of a text in lower case: runs of letters and digits.
fn words(text: &str) -> impl Iterator<Item = String> {
    text.split(|c: char| !c.is_alphanumeric() && c != '\'' && c != '\u{2019}')
        .map(|word| word.trim_matches(['\'', '\u{2019}']).replace('\u{2019}', "'").to_lowercase())
        .filter(|word| !word.is_empty())
}
