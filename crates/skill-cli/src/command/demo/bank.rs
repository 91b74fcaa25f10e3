//! `skillrl demo --bank`: a bank of skills from the first episode to the last trial, told step by step.

use crate::args::DemoArgs;
use crate::command::CommandError;
use crate::run_text::summary::{next_of_bank, verdict_text};
use crate::table::counted;
use parking_lot::Mutex;
use skillrl::config::Config;
use skillrl::demo::{BANK_CONFIG_FILE, DemoWorld};
use skillrl::pipeline::bank_dir::read_bank;
use skillrl::pipeline::records::bank::{BankSummary, RoundRecord};
use skillrl::pipeline::{Event, EventSink, StopSignal};
use skillrl::reports::lines::bank::{round_line, trial_line};
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

/// Refuses a world without a bank, before anything is written.
pub(super) fn check(world: DemoWorld) -> Result<(), CommandError> {
    if world.has_bank() {
        return Ok(());
    }
    let message = format!("the demo of `{}` has no bank", world.as_str());
    let with_bank: Vec<String> = DemoWorld::ALL
        .into_iter()
        .filter(|world| world.has_bank())
        .map(|world| format!("--world {}", world.as_str()))
        .collect();
    Err(CommandError::new(message).with_hint(format!("try {}", with_bank.join(" or "))))
}

pub(super) fn run(args: &DemoArgs, dir: &Path) -> crate::Result {
    let loaded = Config::load(&dir.join(BANK_CONFIG_FILE), &args.overrides)?;
    crate::command::print(INTRODUCTION)?;
    let stop = StopSignal::default();
    let story = Arc::new(Story::default());
    let narrator: Arc<dyn EventSink> = Arc::clone(&story) as Arc<dyn EventSink>;
    let (trainer, run_dir) = skillrl::trainer::bank(&loaded, narrator, stop.clone())?;
    let outcome = crate::command::block_on(stop, crate::runtime::STOPPING_RUN, trainer.train(&run_dir))?;
    crate::run_report::write_after(&run_dir, &outcome);
    let summary = outcome?;
    let rounds = std::mem::take(&mut *story.rounds.lock());
    crate::command::print(&conclusion(&run_dir, &summary, &rounds)?)
}

const INTRODUCTION: &str = "\
ALFWorld: chores in generated households, by text commands, in up to 30 turns.
The models here are SIMULATED: programs that play somebody who does chores and a teacher, no network, no key.
The teacher is sometimes wrong, as real ones are. What it proposes is shown to nobody before a trial admits it:
the same games with the candidate and without it, split at random.

";

/// What the games won say of the bank at each moment.
fn conclusion(run_dir: &Path, summary: &BankSummary, rounds: &[RoundRecord]) -> crate::Result<String> {
    let percent = |share: f64| format!("{:5.1} %", share * 100.0);
    let [n_val, n_test] = summary.n_items;
    let mut text = format!("\nGames won of {n_val} on the validation split:\n\n");
    let _ = writeln!(text, "    {}  without a bank", percent(summary.baseline.hard));
    for record in rounds {
        let Some(validation) = &record.validation else { continue };
        let moment = match record.round {
            0 => "with the distilled bank, after its trials".to_owned(),
            1 => "after 1 round of evolution".to_owned(),
            round => format!("after {round} rounds of evolution"),
        };
        let _ = writeln!(
            text,
            "    {}  {moment} ({} active)",
            percent(validation.score.hard),
            counted(record.n_active as u64, "skill")
        );
    }
    if let (Some(before), Some(after)) = (summary.test_baseline, summary.test) {
        let _ = writeln!(
            text,
            "\nTest split of {n_test} games, read once, after training: {} without the bank, {} with it.",
            percent(before.hard).trim_start(),
            percent(after.hard).trim_start()
        );
    }
    let [n_trials, n_admitted] = summary.trials;
    let _ = writeln!(
        text,
        "{n_trials} trials with {}: {n_admitted} admitted.\n\nThe bank:\n",
        counted(summary.trial_rollouts, "rollout")
    );
    let bank = read_bank(&run_dir.join("bank"))?.bank;
    for skill in bank.view().skills() {
        let [low, high] = skill.utility.map_or([0.0, 0.0], |utility| utility.interval);
        let _ = writeln!(
            text,
            "    {} ({}): {} [{:+.0} to {:+.0} points]",
            skill.id,
            skill.tier,
            skill.content.title(),
            low * 100.0,
            high * 100.0
        );
    }
    if let Some(verdict) = crate::run_report::verdict_of(run_dir) {
        text.push_str(&verdict_text(&verdict, None, &next_of_bank(verdict.outcome, run_dir)));
    }
    let _ = writeln!(text, "report: {}", run_dir.join(skillrl::report::REPORT_FILE).display());
    Ok(text)
}

/// Tells each trial and each round on standard output, and remembers the rounds.
#[derive(Default)]
struct Story {
    rounds: Mutex<Vec<RoundRecord>>,
}

impl EventSink for Story {
    fn emit(&self, event: &Event) {
        let text = match event {
            Event::RunStarted { n_items: [n_train, n_val, n_test], .. } => format!(
                "{n_train} training games, half of them for the teacher and half for trials; {n_val} validation and {n_test} test games.\n"
            ),
            Event::TrialFinished { round, record } => format!("{}\n", trial_line(*round, record)),
            Event::RoundFinished { record } => {
                self.rounds.lock().push((**record).clone());
                format!("{}\n", round_line(record))
            }
            Event::Warning { message, .. } => format!("note: {message}\n"),
            _ => return,
        };
        // A reader that went away is no reason to stop.
        crate::command::print(&text).unwrap_or_default();
    }
}
