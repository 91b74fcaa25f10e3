//! `skillrl replay`: a recorded run is repeated from its journal.

use super::CommandError;
use crate::args::{ReplayArgs, as_word};
use crate::progress::{Progress, Show};
use crate::run_text::summary::{bank_lines, result_lines, summary_lines};
use crate::table::{counted, grouped};
use skillrl::llm::NotInRecording;
use skillrl::pipeline::records::bank::BankSummary;
use skillrl::pipeline::run_dir::{read_bank_summary, read_summary};
use skillrl::pipeline::{PipelineError, StopSignal, Summary};
use skillrl::replay::{Replay, ReplayOptions};
use skillrl::reports::Verdict;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

pub(crate) fn run(args: &ReplayArgs) -> crate::Result {
    let replay = Replay::prepare(&ReplayOptions {
        run: args.run.clone(),
        into: args.out.clone(),
        config: args.config.clone(),
        overrides: args.overrides.clone(),
    })?;
    crate::start::say_mapping(replay.loaded());
    let otherwise = if args.live { NotInRecording::Send } else { NotInRecording::Fail };
    let progress = Progress::new(if args.quiet { Show::Quiet } else { Show::Progress });
    let (stop, events) = (StopSignal::default(), Arc::new(progress));
    let outcome = super::block_on(stop.clone(), crate::runtime::STOPPING_RUN, async {
        if replay.trains_bank() {
            let summary = replay.train_bank(otherwise, events, stop).await;
            summary.map(|summary| Replayed::Bank(Box::new(summary)))
        } else {
            let summary = replay.train(otherwise, events, stop).await;
            summary.map(|summary| Replayed::Document(Box::new(summary)))
        }
    })?;
    if outcome.is_err() && args.live {
        say_counts(&replay);
    }
    let replayed = outcome.map_err(|error| elsewhere(error, args, &replay))?;
    let changes = replay.changes()?;
    super::print_wrapped(&describe(&replay, &replayed, &changes)?)?;
    if changes.is_empty() && replay.is_recording_finished() {
        let n_files = replay.compare()?;
        super::print_wrapped(&format!(
            "identical:  all {} of the run, its journal, events and timings aside\n",
            counted(n_files as u64, "file")
        ))?;
    }
    Ok(())
}

/// A replay with other settings than the one that is there goes to another directory.
fn elsewhere(error: skillrl::Error, args: &ReplayArgs, replay: &Replay) -> crate::CliError {
    let is_of_others = matches!(error, skillrl::Error::Pipeline(PipelineError::Mismatch { .. }));
    if !is_of_others || args.out.is_some() {
        return error.into();
    }
    let into = replay.into_dir().display().to_string();
    let free =
        (2_u32..10_000).map(|number| format!("{into}-{number}")).find(|name| !Path::new(name).exists());
    let hint = free.map(|free| format!("replay into another directory: `--out {}`", as_word(&free)));
    let other = CommandError::new(error.to_string()).with_code(crate::exit_code::OTHER_RUN);
    CommandError { hint, ..other }.into()
}

/// What a replay came to.
enum Replayed {
    Document(Box<Summary>),
    Bank(Box<BankSummary>),
}

/// What the replay came to, how its calls were answered, and beside what was recorded if it was another run.
fn describe(replay: &Replay, replayed: &Replayed, changes: &[String]) -> crate::Result<String> {
    // What the calls cost that were paid for long ago is not what the replay costs.
    let mut text = match replayed {
        Replayed::Document(summary) => {
            format!(
                "{}\n{}.\n",
                summary_lines(summary, None, None, replay.into_dir()),
                line(summary, replay.into_dir())
            )
        }
        Replayed::Bank(summary) => bank_lines(summary, None, replay.into_dir()),
    };
    let counts = replay.counts()?;
    let _ = writeln!(
        text,
        "replayed:   {} from {}, {} sent",
        counted(counts.n_replayed, "call"),
        replay.run().display(),
        grouped(counts.n_sent)
    );
    for change in changes {
        let _ = writeln!(text, "changed:    {change}");
    }
    if changes.is_empty() {
        return Ok(text);
    }
    let recorded = match replayed {
        Replayed::Document(_) => read_summary(replay.run())?
            .map(|recorded| format!("{}{}.\n", result_lines(&recorded), line(&recorded, replay.run()))),
        Replayed::Bank(_) => {
            read_bank_summary(replay.run())?.map(|recorded| bank_lines(&recorded, None, replay.run()))
        }
    };
    if let Some(recorded) = recorded {
        let _ = writeln!(text, "\nThe recorded run's result:\n{}", recorded.trim_end());
    }
    Ok(text)
}

/// The verdict on a run.
fn line(summary: &Summary, dir: &Path) -> String {
    crate::run_report::verdict_of(dir).unwrap_or_else(|| Verdict::of_summary(summary, None)).line()
}

/// How the calls were answered until the replay stopped; on standard error, since there is no result.
fn say_counts(replay: &Replay) {
    if let Ok(counts) = replay.counts() {
        let (replayed, sent) = (counted(counts.n_replayed, "call"), grouped(counts.n_sent));
        super::say(&format!("until here: {replayed} replayed, {sent} sent"));
    }
}
