//! `skillrl train`: from a configuration to a better skill.

use crate::args::TrainArgs;
use crate::progress::Show;
use crate::report_line::summary_lines;

pub(crate) fn run(args: &TrainArgs) -> anyhow::Result<()> {
    let loaded = super::load_to_run(&args.config)?;
    let show = match (args.json, args.quiet) {
        (true, _) => Show::Json,
        (false, true) => Show::Quiet,
        (false, false) => Show::Progress,
    };
    let (summary, spent, dir) = super::train(&loaded, show, args.new_journal)?;
    if args.json {
        return Ok(());
    }
    let cost = skillrl::cost::run_cost(&loaded.config, &summary.token_summary, &dir);
    let lines = format!("{}\n", summary_lines(&summary, cost, spent, &dir));
    super::print_wrapped(&lines)
}
