//! `skillrl report`: what a run came to and why, as one HTML page.

use super::CommandError;
use crate::args::ReportArgs;
use crate::error::OfFile as _;
use crate::table::counted;
use skillrl::reports::DoubtfulLabel;
use skillrl::reports::words::csv_line;
use std::fmt::Write as _;

pub(crate) fn run(args: &ReportArgs) -> crate::Result {
    if let Some(kept) = skillrl::report::triggers(&args.run)?
        && (args.json || args.tensorboard.is_some() || args.doubtful.is_some())
    {
        if args.json {
            return crate::run_report::print_triggers(&kept, true);
        }
        let message = format!(
            "{} has runs of a coding agent, which have neither labels nor curves",
            args.run.display()
        );
        return Err(CommandError::new(message).with_hint("leave out --tensorboard and --doubtful").into());
    }
    if args.json {
        return super::print_pretty_json(&skillrl::report::any(&args.run)?);
    }
    if let Some(folder) = &args.tensorboard {
        let path = skillrl::report::write_tensorboard(&args.run, folder)?;
        return super::print(&format!("{}\n", path.display()));
    }
    if let Some(file) = &args.doubtful {
        let labels = skillrl::report::doubtful_labels(&args.run)?;
        std::fs::write(file, doubtful_csv(&labels)).writing(file)?;
        let mut text = format!("{}: {}\n", file.display(), counted(labels.len() as u64, "label"));
        for rule in skillrl::report::missing_rules(&args.run)? {
            let _ = writeln!(text, "a rule is missing: {}", crate::table::harmless(&rule.words()));
        }
        return super::print(&text);
    }
    let path = skillrl::report::write(&args.run, args.output.as_deref())?;
    super::print(&format!("{}\n", path.display()))
}

/// Doubtful labels as CSV, with the names of the columns first.
fn doubtful_csv(labels: &[DoubtfulLabel]) -> String {
    let mut text = "id,split,label,answered,n_answered,n_rollouts,text\n".to_owned();
    for label in labels {
        let numbers = [label.n_answered, label.n_rollouts].map(|number| number.to_string());
        let cells =
            [&*label.id, label.split, &label.label, &label.answered, &numbers[0], &numbers[1], &label.text];
        text.push_str(&csv_line(cells));
    }
    text
}
