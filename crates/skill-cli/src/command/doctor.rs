//! `skillrl doctor`: what is between a configuration and a run that is worth its money.

use super::CommandError;
use super::data_start::{self, DataStart, Use};
use crate::args::{DoctorArgs, NoiseArgs, Start};
use crate::exit_code;
use crate::table::{counted, harmless};
use skillrl::doctor::{DEFAULT_EFFECT, Examination, Finding, Network, Report, Status, examine};
use skillrl::pipeline::StopSignal;
use std::fmt::Write as _;
use std::time::Duration;

/// The columns before a finding's words.
const STATUS_WIDTH: usize = 8;

pub(crate) fn run(args: &DoctorArgs) -> crate::Result {
    let asked = Examination {
        network: if args.offline { Network::Offline } else { Network::Allowed },
        effect: args.effect,
        flip_rate: args.flip_rate,
        timeout: Duration::from_secs(args.timeout),
    };
    let mut start = Start { is_training: true, agrees: args.yes, ..args.config.start() };
    let skill = args.skill.iter().map(|path| format!("skill.initial={}", path.display()));
    start.overrides.splice(0..0, skill);
    let used = if args.offline || args.dry_run { Use::Looks } else { Use::Sends };
    let DataStart { start, .. } = data_start::resolve(&args.data, start, used, args.json || args.quiet)?;
    if args.measure {
        return super::noise::run(&NoiseArgs {
            start,
            skill: args.skill.clone(),
            effect: args.effect.unwrap_or(DEFAULT_EFFECT),
            dry_run: args.dry_run,
            yes: args.yes,
            json: args.json,
            quiet: args.quiet,
        });
    }
    let stop = StopSignal::default();
    let now = stop.soon.clone();
    let loaded = match crate::start::read(&start) {
        Ok(loaded) => Ok(loaded),
        Err(skillrl::Error::Config(error)) => Err(error),
        Err(error) => return Err(error.into()),
    };
    let examining = async {
        tokio::select! {
            biased;
            () = now.cancelled() => None,
            report = examine(loaded, &asked) => Some(report),
        }
    };
    let report = super::block_on(stop, "stopping", examining)?;
    let Some(report) = report else {
        return Err(skillrl::pipeline::PipelineError::Halted.into());
    };
    if args.json {
        super::print_json(&report)?;
    } else {
        super::print_wrapped(&described(&report))?;
    }
    outcome(report.count(Status::Error))
}

/// Fails if there are errors among the findings.
pub(super) fn outcome(n_errors: usize) -> crate::Result {
    let problems = match n_errors {
        0 => return Ok(()),
        n_errors => counted(n_errors as u64, "problem"),
    };
    let message = format!("{problems} must be fixed before a run can begin");
    Err(CommandError::new(message).with_code(exit_code::OTHER).into())
}

/// The findings for people.
pub(super) fn described(report: &Report) -> String {
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
