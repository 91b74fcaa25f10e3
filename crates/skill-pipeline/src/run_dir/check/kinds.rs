//! Runs that train a bank, that fine-tune, of reinforcement learning, and of several phases.

use super::logs::{self, EVENTS_FILE};
use super::{Checking, Fault, Recorded, Remedy};
use crate::error::PipelineError;
use crate::kind::RunKind;
use crate::records::bank::{BANK_DIR, ROUNDS_DIR};
use crate::records::phases::{PHASE_TIMES_FILE, PHASES_FILE, Phase, PhaseRecord};
use crate::records::{ConfigFile, rl, sft};
use crate::run_dir::files::{FILES_FILE, RunPart};
use crate::run_dir::path::round_path;
use serde::Deserialize;
use std::fs;

/// As much of the state of a run of several phases as says what has to be there.
#[derive(Deserialize)]
struct PhasesState {
    finished: Vec<PhaseRecord>,
    files_lines: Option<u64>,
}

impl Checking<'_> {
    /// All files but the configuration, by the kind that it names, or else by the files.
    pub(super) fn of_kind(&mut self, config: Option<&ConfigFile>) -> Result<(), PipelineError> {
        let named = config.and_then(|config| RunKind::of_identity(&config.identity));
        match named.unwrap_or_else(|| RunKind::by_files(self.run)) {
            RunKind::Document => self.document(),
            kind @ (RunKind::Bank | RunKind::Sft | RunKind::Rl | RunKind::Phases) => self.other(kind, config),
        }
    }

    fn other(&mut self, kind: RunKind, config: Option<&ConfigFile>) -> Result<(), PipelineError> {
        self.remedy = match kind {
            RunKind::Document => Remedy::Rebuild,
            RunKind::Bank | RunKind::Sft | RunKind::Rl => Remedy::Resume,
            RunKind::Phases => Remedy::OnlyCopy,
        };
        if kind != RunKind::Bank {
            // Only the configuration was looked at.
            self.check.damage.iter_mut().for_each(|damage| damage.remedy = Remedy::OnlyCopy);
        }
        // Of a run whose configuration cannot be read.
        let has_files = self.run.join(FILES_FILE).exists();
        let has_hashes = config.map_or(has_files, |config| config.has_hashes);
        self.check.is_unrecorded = !has_hashes;
        let phases: Option<PhasesState> =
            if kind == RunKind::Phases { self.versioned(PHASES_FILE, Remedy::OnlyCopy)? } else { None };
        let n_lines = match &phases {
            Some(phases) => phases.files_lines.unwrap_or_default(),
            // Without a state that can be read all lines are taken for those that it would name.
            None if kind == RunKind::Phases => u64::MAX,
            None => 0,
        };
        // A process that was killed at the very beginning has left no line.
        let has_lines = self.has_lines(FILES_FILE) || self.has_lines(EVENTS_FILE);
        let recorded = if has_hashes && has_lines { self.recorded(n_lines) } else { Recorded::default() };
        let summary = kind.summary_file();
        let is_finished = summary.is_some_and(|name| self.run.join(name).is_file());
        let has_ended = logs::has_ended(self.run);
        for (name, hash) in &recorded.hashes {
            // A process that was killed before it wrote the summary is not one whose summary was lost.
            if summary == Some(name) && !has_ended && !is_finished {
                continue;
            }
            self.hashed(name, hash);
        }
        // It is written before the first event.
        if has_hashes && self.has_lines(EVENTS_FILE) && !recorded.has(&RunPart::Start) {
            self.lacks_line("of the beginning");
        }
        if has_hashes && is_finished && !self.check.is_training && !recorded.has(&RunPart::End) {
            self.lacks_line("of the end");
        }
        let has_worked = match kind {
            RunKind::Document => false,
            RunKind::Bank => self.rounds(&recorded, is_finished, has_hashes),
            RunKind::Sft => {
                let files = (sft::CHECKPOINT_FILE, sft::TIMES_FILE);
                let has_worked = self.checkpoint(files, is_finished, &recorded)?;
                if has_hashes && has_worked && !recorded.has(&RunPart::Data) {
                    self.lacks_line("of the examples");
                }
                self.policy(is_finished)?;
                has_worked
            }
            RunKind::Rl => {
                let files = (rl::CHECKPOINT_FILE, rl::TIMES_FILE);
                let has_worked = self.checkpoint(files, is_finished, &recorded)?;
                self.policy(is_finished)?;
                has_worked
            }
            RunKind::Phases => self.phases(phases.as_ref())?,
        };
        self.logs(has_hashes && has_worked, has_ended)?;
        self.journal(kind == RunKind::Bank && has_worked)
    }

    fn lacks_line(&mut self, which: &str) {
        if !self.is_known(FILES_FILE) {
            self.files_changed(&format!("the line {which} is missing"));
        }
    }

    /// The rounds of a bank, and the bank itself; returns true if a round is known to be finished, and the times of it to
    /// be written.
    fn rounds(&mut self, recorded: &Recorded, is_finished: bool, has_hashes: bool) -> bool {
        let rounds = (0..).take_while(|round| self.run.join(round_path(self.run, *round)).is_dir());
        // Where there is a round, the one before it is finished.
        let n_finished =
            u32::try_from(rounds.count()).unwrap_or(u32::MAX).saturating_sub(u32::from(!is_finished));
        let lacking = (0..n_finished).find(|round| !recorded.has(&RunPart::Round { round: *round }));
        if let (true, Some(round)) = (has_hashes, lacking) {
            self.lacks_line(&format!("of round {round}"));
        }
        let n_rounds = recorded.parts.iter().filter(|part| matches!(part, RunPart::Round { .. })).count();
        self.check.finished_steps = u32::try_from(n_rounds).unwrap_or(u32::MAX).saturating_sub(1);
        let has_rounds = n_rounds > 0 || self.run.join(ROUNDS_DIR).is_dir();
        self.bank(BANK_DIR, is_finished, has_rounds);
        n_finished > 0
    }

    /// The phases of a run: runs themselves, banks, and files with hashes; returns true if one is finished.
    fn phases(&mut self, state: Option<&PhasesState>) -> Result<bool, PipelineError> {
        let dirs = Phase::ALL.into_iter().filter(|phase| phase.dir(self.run).is_dir()).count();
        if state.is_none() && !self.run.join(PHASES_FILE).exists() && dirs > 0 {
            self.damaged(PHASES_FILE, Fault::Missing, Remedy::OnlyCopy);
        }
        let n_finished = state.map_or(0, |state| state.finished.len());
        if n_finished > 0 && !self.run.join(PHASE_TIMES_FILE).exists() {
            self.damaged(PHASE_TIMES_FILE, Fault::Missing, Remedy::NotNeeded);
        }
        self.check.finished_steps = u32::try_from(n_finished).unwrap_or(u32::MAX);
        for phase in Phase::ALL {
            let is_finished =
                state.is_some_and(|state| state.finished.iter().any(|record| record.phase == phase));
            match phase {
                Phase::Collect | Phase::Test => {}
                Phase::Distill => {
                    for bank in ["distill/bank", "distill/shown"] {
                        self.bank(bank, is_finished, is_finished);
                    }
                }
                Phase::Sft | Phase::Rl => self.nested(phase.as_str(), is_finished)?,
            }
        }
        Ok(n_finished > 0)
    }

    /// A run in the directory of another one.
    fn nested(&mut self, name: &str, is_expected: bool) -> Result<(), PipelineError> {
        let run = self.run.join(name);
        if !is_expected && !fs::exists(run.join(super::CONFIG_FILE)).unwrap_or(true) {
            return Ok(());
        }
        let mut nested = Checking::new(&run);
        nested.all()?;
        nested.beside();
        let below = |file: &str| format!("{name}/{file}");
        self.whole.extend(nested.whole.iter().map(|file| below(file)));
        for mut damage in nested.check.damage {
            damage.file = below(&damage.file);
            self.check.damage.push(damage);
        }
        Ok(())
    }
}
