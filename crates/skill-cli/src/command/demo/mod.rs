//! `skillrl demo`: the main job on a bundled task, told step by step.
//!
//! # Invariants
//!
//! - The demo prints the same bytes every time; `cargo xtask check default-build` runs it.

mod bank;

use crate::args::DemoArgs;
use crate::command::CommandError;
use crate::error::OfFile as _;
use crate::run_text::summary::{next_of_document, verdict_text};
use crate::skill_diff::skill_diff;
use skillrl::config::Config;
use skillrl::core::{Edit, EditRow, StepIdx};
use skillrl::demo::DemoWorld;
use skillrl::pipeline::{Event, EventSink, PipelineError, RunReader, StopSignal, Summary};
use skillrl::reports::Verdict;
use skillrl::reports::lines::step::{StepTotal, slow_update_line, step_line};
use skillrl::reports::words::percent;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// So many demos may be in one directory.
const MAX_DEMOS: u32 = 1000;

pub(crate) fn run(args: &DemoArgs) -> crate::Result {
    if args.bank {
        bank::check(args.world())?;
    }
    let dir = args.dir.clone().or_else(vacant_dir).ok_or_else(|| {
        CommandError::new("demo to demo-999 exist").with_hint("name a directory with `--out`")
    })?;
    let dir = dir.as_path();
    let world = args.world();
    crate::files::write_demo(dir, world, false)?;
    if args.bank {
        return bank::run(args, dir);
    }
    let loaded = Config::load(&dir.join(skillrl::demo::CONFIG_FILE), &args.overrides)?;
    let first_skill =
        std::fs::read_to_string(dir.join(skillrl::demo::SKILL_FILE)).reading("the initial skill")?;
    crate::command::print(&introduction(world, &first_skill))?;

    let run_dir = loaded.run_dir();
    let stop = StopSignal::default();
    let narrator = Arc::new(Narrator { run_dir: run_dir.clone(), total_steps: AtomicU32::new(0) });
    let (trainer, _) = skillrl::trainer::document(&loaded, narrator, stop.clone())?;
    let outcome = crate::command::block_on(stop, crate::runtime::STOPPING_RUN, trainer.train(&run_dir))?;
    crate::run_report::write_after_document(&run_dir, &outcome);
    let summary = outcome?;

    let best_skill = std::fs::read_to_string(run_dir.join("best_skill.md")).reading("the best skill")?;
    let verdict =
        crate::run_report::verdict_of(&run_dir).unwrap_or_else(|| Verdict::of_summary(&summary, None));
    let n_candidates = summary.total_accepts + summary.total_rejects + summary.total_indecisive;
    let next = next_of_document(verdict.outcome, n_candidates, &run_dir);
    crate::command::print(&format!(
        "{}{}report: {}\n",
        conclusion(world, &summary, (&first_skill, &best_skill), dir),
        verdict_text(&verdict, None, &next),
        run_dir.join(skillrl::report::REPORT_FILE).display()
    ))
}

/// The first directory of this name that does not exist; what an earlier demo left is kept.
fn vacant_dir() -> Option<PathBuf> {
    let numbered = (2..MAX_DEMOS).map(|number| PathBuf::from(format!("demo-{number}")));
    std::iter::once(PathBuf::from("demo")).chain(numbered).find(|dir| !dir.exists())
}

fn introduction(world: DemoWorld, first_skill: &str) -> String {
    let (task, agent) = match world {
        DemoWorld::Notes => (
            "The harbour desk of Saltmarsh Haven: a clerk answers questions from the harbour book.",
            "a clerk",
        ),
        DemoWorld::Alfworld => (
            "ALFWorld: chores in generated households, by text commands, in up to 30 turns.",
            "somebody who does chores",
        ),
        DemoWorld::Webshop => (
            "WebShop: purchases by instruction, in a shop with a bundled catalogue, in up to 40 turns.",
            "a shopper",
        ),
    };
    format!(
        "{task}\n\
         The models here are SIMULATED: programs that play {agent} and an optimizer, no network, no key.\n\
         Everything else is the real thing: the same run as `skillrl train` makes with a real model.\n\n\
         The skill before training:\n\n{}\n",
        indented(first_skill)
    )
}

fn conclusion(
    world: DemoWorld,
    summary: &Summary,
    (first_skill, best_skill): (&str, &str),
    dir: &Path,
) -> String {
    let measured = match world {
        DemoWorld::Notes => "of the answers right",
        DemoWorld::Alfworld => "of the games won",
        DemoWorld::Webshop => "of the purchases perfect",
    };
    let mut text = format!(
        "\nThe skill after training, as a diff:\n\n{}\n",
        skill_diff(first_skill, best_skill, ("initial skill", "best skill"))
    );
    if let (Some(before), Some(after)) = (summary.baseline_test_hard, summary.test_hard) {
        let _ = writeln!(
            text,
            "Test split, read once, after training: {:.1} % {measured} before, {:.1} % after.",
            before * 100.0,
            after * 100.0
        );
    }
    let _ = writeln!(
        text,
        "{} steps: {} accepted, {} rejected, {} without an evaluation.\n",
        summary.total_steps, summary.total_accepts, summary.total_rejects, summary.total_skips
    );
    let config = dir.join(skillrl::demo::CONFIG_FILE);
    let _ = writeln!(text, "To train with real models change these two lines of {}:\n", config.display());
    for (simulated, real) in skillrl::demo::REAL_MODEL_LINES {
        let _ = writeln!(text, "- {simulated}\n+ {real}");
    }
    text
}

/// Tells each step with its edits, on standard output.
struct Narrator {
    run_dir: PathBuf,
    total_steps: AtomicU32,
}

impl EventSink for Narrator {
    fn emit(&self, event: &Event) {
        let text = match event {
            Event::RunStarted { n_items: [n_train, n_val, n_test], total_steps, .. } => {
                self.total_steps.store(*total_steps, Ordering::Relaxed);
                format!(
                    "Training: {n_train} train, {n_val} validation and {n_test} test items, {total_steps} steps.\n"
                )
            }
            Event::BaselineMeasured { gate_score, .. } => {
                format!("Validation score of the initial skill: {}\n\n", percent(*gate_score))
            }
            Event::StepFinished { record } => {
                let line = step_line(record, StepTotal::Exactly(self.total_steps.load(Ordering::Relaxed)));
                let notes: String = record.notes.iter().map(|note| format!("    note: {note}\n")).collect();
                format!("{line}\n{}{notes}", self.edits(record.step))
            }
            Event::EpochEnded { epoch, slow_update: Some(record), .. } => {
                let guidance = indented(&record.slow_update_content);
                format!("{}\n{guidance}", slow_update_line(*epoch, record))
            }
            Event::Warning { step: None, message, .. } => format!("note: {message}\n"),
            // What was noted in a step is told with the step.
            Event::Warning { step: Some(_), .. }
            | Event::StepStarted { .. }
            | Event::StageStarted { .. }
            | Event::StageProgress { .. }
            | Event::StageFinished { .. }
            | Event::EpochEnded { slow_update: None, .. }
            | Event::TestMeasured { .. }
            | Event::RunFinished { .. }
            | Event::RunStopped { .. } => return,
            other => {
                tracing::debug!(event = ?other, "an event that the story does not tell");
                return;
            }
        };
        // A reader that went away is no reason to stop.
        crate::command::print(&text).unwrap_or_default();
    }
}

impl Narrator {
    /// The edits of a step with what became of each, from the files of the run; empty if they cannot be read.
    fn edits(&self, step: StepIdx) -> String {
        let read = || -> Result<_, PipelineError> {
            let run = RunReader::open(&self.run_dir)?;
            Ok((run.ranked_patch(step)?, run.apply_report(step)?))
        };
        let Ok((Some(patch), Some(report))) = read() else { return String::new() };
        let line = |(edit, row): (&Edit, &EditRow)| {
            let [target, content] =
                [&edit.target, &edit.content].map(|text| text.trim().replace('\n', " ⏎ "));
            let shown = match (target.is_empty(), content.is_empty()) {
                (true, _) => content,
                (false, true) => target,
                (false, false) => format!("{target} → {content}"),
            };
            format!("    {}: {shown}  [{}]\n", edit.op.as_str(), row.status.as_str())
        };
        patch.edits.iter().zip(&report).map(line).collect()
    }
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("    {line}\n")).collect()
}
