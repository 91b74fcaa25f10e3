//! `skillrl train`: from a configuration to a better skill.

mod grid;

use crate::args::{Start, TrainArgs};
use crate::data_start::{self, Use};
use crate::{dry_run, training};

pub(crate) fn run(args: &TrainArgs) -> crate::Result {
    let mut start = Start { is_training: true, agrees: args.yes, ..args.config.start() };
    // Before what was set by hand, which counts.
    start.overrides.splice(0..0, args.settings());
    let used = if args.dry_run { Use::Plans } else { Use::Trains };
    let data = data_start::resolve(&args.data, start, used, args.quiet)?;
    if args.is_grid() {
        return grid::run(&data, args);
    }
    if args.dry_run {
        return dry_run::show(&data.start, args.json);
    }
    let outcome = training::train(&data, args, args.yes);
    if let (Err(_), Some(written)) = (&outcome, &data.written) {
        written.remove_if_unused();
    }
    outcome
}
