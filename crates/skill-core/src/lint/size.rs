//! Sizes: what is always in an agent's context should be small.

use super::{Finding, Severity};
use crate::estimate_tokens;
use crate::package::{MAIN_FILE, SkillPackage};

/// The most tokens of a body that the specification recommends.
pub(crate) const MAX_BODY_TOKENS: u64 = 5_000;
/// The most lines of a body that the specification recommends.
pub(crate) const MAX_BODY_LINES: usize = 500;
/// A reference file that is longer than this should be two.
pub(crate) const MAX_REFERENCE_TOKENS: u64 = 10_000;

pub(super) fn check(package: &SkillPackage) -> Vec<Finding> {
    let mut findings = Vec::new();
    let body = package.body();
    if body.trim().is_empty() {
        let advice = "write what the agent should do";
        findings.push(Finding::new(
            "size-empty",
            Severity::Error,
            (MAIN_FILE, 0),
            "there are no instructions",
            advice,
        ));
    }
    let (n_tokens, n_lines) = (estimate_tokens(body), body.lines().count());
    let advice = "move details into files below references/, which are read when they are needed";
    if n_tokens > MAX_BODY_TOKENS {
        let message =
            format!("the instructions have about {n_tokens} tokens; up to {MAX_BODY_TOKENS} are recommended");
        findings.push(Finding::new("size-body", Severity::Warning, (MAIN_FILE, 0), message, advice));
    }
    if n_lines > MAX_BODY_LINES {
        let message =
            format!("the instructions have {n_lines} lines; up to {MAX_BODY_LINES} are recommended");
        findings.push(Finding::new("size-body", Severity::Warning, (MAIN_FILE, 0), message, advice));
    }
    for (path, text) in &package.references {
        let n_tokens = estimate_tokens(text);
        if n_tokens > MAX_REFERENCE_TOKENS {
            let message = format!(
                "the file has about {n_tokens} tokens; up to {MAX_REFERENCE_TOKENS} are read at ease"
            );
            let advice = "split it by topic, so that an agent reads no more than it needs";
            findings.push(Finding::new("size-reference", Severity::Warning, (path, 0), message, advice));
        }
    }
    findings
}
