//! `skillrl doctor`: what is between a configuration and a run that is worth its money.

mod noise;

use crate::args::{DoctorArgs, Start};
use crate::data_start::{self, DataStart, Use};
use crate::findings;
use skillrl::doctor::{Examination, Network, Status, examine};
use skillrl::pipeline::StopSignal;
use std::time::Duration;

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
        return noise::run(args, &start);
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
        super::print_wrapped(&findings::described(&report))?;
    }
    findings::outcome(report.count(Status::Error))
}
