//! `skillrl train --dry-run`: one prompt as it would be sent, the checks of `doctor`, and the estimate; nothing is sent.

use crate::args::Start;
use crate::consent;
use crate::{estimates, findings};
use serde_json::Value;
use skillrl::config::EnvKind;
use skillrl::doctor::{Check, DoctorReport, Examination, Finding, Network, Status, examine};
use skillrl::llm::error::with_causes;

/// Shows it; as one JSON object with `prompt`, `findings` and `estimate`, if that is asked.
///
/// # Errors
///
/// A configuration that cannot be read, and findings with which no run can begin.
pub(crate) fn show(start: &Start, is_json: bool) -> crate::Result {
    let offline = Examination { network: Network::Offline, ..Examination::default() };
    let loaded = crate::start::read(start)?;
    let mut report = crate::runtime::block_on_unwarned(examine(Ok(loaded.clone()), &offline))?;
    let starts_program = loaded.config.env.env_kind() == EnvKind::Exec;
    let can_begin = loaded.check_paths().is_ok() && !starts_program;
    let request = can_begin.then(|| consent::first_request(&loaded));
    let request = request.and_then(|request| made(&mut report, Check::Prompts, request)).flatten();
    let estimate = can_begin.then(|| estimates::described(&loaded, is_json));
    let estimate = estimate.and_then(|estimate| made(&mut report, Check::Cost, estimate));
    if is_json {
        let messages = request.map(|request| request.messages);
        let parse = |text: String| -> Value { serde_json::from_str(&text).expect("it was written as JSON") };
        let estimate = estimate.map(parse);
        let shown =
            serde_json::json!({ "prompt": messages, "findings": report.findings, "estimate": estimate });
        crate::output::print(&format!("{shown}\n"))?;
    } else {
        if let Some(request) = request {
            crate::output::print(&format!("{}\n\n", consent::prompt_lines(&request)))?;
        }
        let findings =
            report.findings.iter().filter(|finding| finding.status != Status::Skipped).cloned().collect();
        crate::output::print_wrapped(&findings::described(&DoctorReport { ok: report.ok, findings }))?;
        crate::output::print_wrapped(&estimate.map(|text| format!("\n{text}")).unwrap_or_default())?;
        crate::output::print("\nnothing was sent\n")?;
    }
    findings::outcome(report.count(Status::Error))
}

/// Part of the dry run's output. A failure to compute it becomes a finding of level error, unless a check reported it.
fn made<T>(report: &mut DoctorReport, check: Check, part: crate::Result<T>) -> Option<T> {
    let error = match part {
        Ok(part) => return Some(part),
        Err(error) => error,
    };
    let message = with_causes(&error);
    let is_known = |finding: &Finding| {
        finding.status == Status::Error && (finding.check == check || finding.message == message)
    };
    if !report.findings.iter().any(is_known) {
        let hint = error.hint();
        report.findings.push(Finding { check, role: None, status: Status::Error, message, hint });
        report.ok = false;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::CommandError;

    #[track_caller]
    fn check_made(found: &[(Check, Status, &str)], part: crate::Result<u8>, expect: (Option<u8>, usize)) {
        let of = |&(check, status, message): &(Check, Status, &str)| Finding {
            check,
            role: None,
            status,
            message: message.to_owned(),
            hint: None,
        };
        let findings: Vec<Finding> = found.iter().map(of).collect();
        let ok = findings.iter().all(|finding| finding.status != Status::Error);
        let mut report = DoctorReport { ok, findings };
        let part = made(&mut report, Check::Cost, part);
        assert_eq!((part, report.findings.len()), expect, "{report:?}");
        assert_eq!(report.ok, report.count(Status::Error) == 0);
        let added = report.findings.get(found.len());
        assert!(added.is_none_or(|added| (added.check, added.message.as_str()) == (Check::Cost, "no file")));
    }

    #[test]
    fn a_part_that_cannot_be_made_is_an_error_among_the_findings() {
        let failed = || Err(CommandError::new("no file").into());
        check_made(&[], Ok(7), (Some(7), 0));
        check_made(&[], failed(), (None, 1));
        check_made(&[(Check::Cost, Status::Warning, "no file")], failed(), (None, 2));
        check_made(&[(Check::Key, Status::Error, "no key")], failed(), (None, 2));
        // A check has found it, in its own words or the same.
        check_made(&[(Check::Cost, Status::Error, "too many steps")], failed(), (None, 1));
        check_made(&[(Check::Data, Status::Error, "no file")], failed(), (None, 1));
    }
}
