//! What the checks of a configuration found, in words.

use crate::error::CommandError;
use crate::exit_code;
use crate::table::{counted, harmless};
use skillrl::doctor::{DoctorReport, Finding, Status};
use std::fmt::Write as _;

/// The columns before a finding's words.
const STATUS_WIDTH: usize = 8;

/// Fails if there are errors among the findings.
pub(crate) fn outcome(n_errors: usize) -> crate::Result {
    let problems = match n_errors {
        0 => return Ok(()),
        n_errors => counted(n_errors as u64, "problem"),
    };
    let message = format!("{problems} must be fixed before a run can begin");
    Err(CommandError::new(message).with_code(exit_code::OTHER).into())
}

/// The findings for people.
pub(crate) fn described(report: &DoctorReport) -> String {
    let width = report.findings.iter().map(|finding| name(finding).len()).max().unwrap_or_default();
    let indent = " ".repeat(STATUS_WIDTH + width + 3);
    let mut text = String::new();
    for finding in &report.findings {
        let status = finding.status.as_str();
        let _ = writeln!(text, "{status:<STATUS_WIDTH$} {:<width$}  {}", name(finding), finding.message);
        if let Some(hint) = &finding.hint {
            let _ = writeln!(text, "{indent}do: {hint}");
        }
    }
    let n_warnings = report.count(Status::Warning);
    let warnings =
        if n_warnings == 0 { String::new() } else { format!(", {}", counted(n_warnings as u64, "warning")) };
    let skipped = match report.count(Status::Skipped) {
        0 => String::new(),
        n_skipped => format!(", {n_skipped} skipped"),
    };
    let verdict = if report.ok { "a run can begin" } else { "a run cannot begin" };
    let _ = writeln!(text, "\n{verdict}{warnings}{skipped}");
    harmless(&text)
}

fn name(finding: &Finding) -> String {
    match finding.role {
        Some(role) => format!("{role} {}", finding.check.as_str()),
        None => finding.check.as_str().to_owned(),
    }
}
