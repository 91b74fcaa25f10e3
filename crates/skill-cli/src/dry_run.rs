//! `skillrl train --dry-run`: one prompt as it would be sent, the checks of `doctor`, and the estimate; nothing is sent.

use crate::args::Start;
use crate::consent;
use crate::{estimates, findings};
use skillrl::config::EnvKind;
use skillrl::doctor::{Examination, Network, Report, Status, examine};

/// Shows it; as one JSON object with `prompt`, `findings` and `estimate`, if that is asked.
///
/// # Errors
///
/// A configuration that cannot be read, and findings with which no run can begin.
pub(crate) fn show(start: &Start, is_json: bool) -> crate::Result {
    let offline = Examination { network: Network::Offline, ..Examination::default() };
    let loaded = crate::start::read(start)?;
    let report = crate::runtime::block_on_unwarned(examine(Ok(loaded.clone()), &offline))?;
    let starts_program = loaded.config.env.env_kind() == EnvKind::Exec;
    let can_begin = loaded.check_paths().is_ok() && !starts_program;
    let request = if can_begin { consent::first_request(&loaded).ok().flatten() } else { None };
    let estimate = if can_begin { estimates::described(&loaded, is_json).ok() } else { None };
    if is_json {
        let messages = request.map(|request| request.messages);
        let estimate = estimate.and_then(|text| serde_json::from_str::<serde_json::Value>(&text).ok());
        let shown =
            serde_json::json!({ "prompt": messages, "findings": report.findings, "estimate": estimate });
        crate::output::print(&format!("{shown}\n"))?;
    } else {
        if let Some(request) = request {
            crate::output::print(&format!("{}\n\n", consent::prompt_lines(&request)))?;
        }
        let findings =
            report.findings.iter().filter(|finding| finding.status != Status::Skipped).cloned().collect();
        crate::output::print_wrapped(&findings::described(&Report { ok: report.ok, findings }))?;
        crate::output::print_wrapped(&estimate.map(|text| format!("\n{text}")).unwrap_or_default())?;
        crate::output::print("\nnothing was sent\n")?;
    }
    findings::outcome(report.count(Status::Error))
}
