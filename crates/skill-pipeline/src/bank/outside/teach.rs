//! What a teacher reads of episodes, and what becomes of its proposals.

use super::OutsideBank;
use super::error::OutsideError;
use crate::bank::settings::Admission;
use skill_bank::distill::{Admit, LeftOut, apply};
use skill_bank::episode::TrainEpisode;
use skill_bank::evolve::{Evolution, EvolvePlan, EvolveSettings};
use skill_bank::lint::Forbidden;
use skill_bank::{Bank, BankEvent, Episode, SkillRef};
use std::sync::Arc;

/// What a teacher is asked about, decided before the call.
pub struct EvolutionDraft {
    /// The bank.
    pub bank: Bank,
    /// The episodes since the last evolution.
    pub episodes: Vec<TrainEpisode>,
    /// The types that are weak, and the failures that are read.
    pub plan: EvolvePlan,
    /// Sizes and limits.
    pub settings: EvolveSettings,
    /// What no skill may hold.
    pub forbidden: Arc<Forbidden>,
    /// The round, from 1.
    pub round: u32,
}

/// What became of an evolution.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Proposed {
    /// New candidates, each with the version of the bank that has it.
    pub candidates: Vec<(SkillRef, String)>,
    /// What was left out, and why.
    pub left_out: Vec<String>,
}

impl OutsideBank {
    /// How many episodes a teacher has not read yet.
    pub fn n_unread(&self) -> usize {
        self.episodes.n_unread()
    }

    /// Takes the episodes since the last evolution, and plans what a teacher reads of them. Until
    /// [`end_evolution`](Self::end_evolution) there is no other one.
    ///
    /// # Errors
    ///
    /// [`OutsideError::Evolving`], [`OutsideError::TooFewTasks`], [`OutsideError::ReadOnly`], and a bank that cannot be
    /// read.
    pub fn begin_evolution(
        &mut self,
        task_type: &dyn Fn(&Episode) -> String,
    ) -> Result<EvolutionDraft, OutsideError> {
        if self.is_evolving {
            return Err(OutsideError::Evolving);
        }
        if !crate::run_dir::bank_dir::is_bank(&self.path) {
            return Err(OutsideError::ReadOnly { path: self.path.clone() });
        }
        self.refresh()?;
        let sets = self.sets.as_ref().ok_or(OutsideError::TooFewTasks)?;
        let mut episodes = self.episodes.take_unread();
        skill_bank::episode::assign_types(&mut episodes, task_type);
        let (episodes, _) = sets.train().take(episodes);
        let settings = self.settings.of_evolution();
        let plan = EvolvePlan::new(&episodes, &settings);
        self.is_evolving = true;
        Ok(EvolutionDraft {
            bank: self.bank.clone(),
            plan,
            episodes,
            settings,
            forbidden: Arc::clone(&self.forbidden),
            round: self.bank.round().saturating_add(1),
        })
    }

    /// Takes the proposals of a teacher into the bank. Without an evolution, since the teacher could not be asked or read
    /// nothing, its episodes wait for the next one.
    ///
    /// # Errors
    ///
    /// Proposals that do not follow, and a bank that cannot be written; the episodes wait for the next evolution then.
    pub fn end_evolution(
        &mut self,
        draft: EvolutionDraft,
        evolution: Option<&Evolution>,
    ) -> Result<Proposed, OutsideError> {
        self.is_evolving = false;
        let outcome = match evolution {
            Some(evolution) => self.propose(draft.round, evolution),
            None => Ok(Proposed::default()),
        };
        if evolution.is_none_or(|evolution| evolution.calls == 0) || outcome.is_err() {
            let episodes = draft.episodes.iter().map(|episode| Episode::clone(episode)).collect();
            self.episodes.put_back(episodes);
        }
        outcome
    }

    fn propose(&mut self, round: u32, evolution: &Evolution) -> Result<Proposed, OutsideError> {
        self.refresh()?;
        let admit = match self.settings.admission {
            Admission::Measured => Admit::Candidate,
            Admission::Unmeasured => Admit::Unmeasured,
        };
        let mut changed = self.bank.clone();
        let n_before = changed.log().len();
        let applied = apply(&mut changed, round, &evolution.proposals, admit)
            .map_err(|source| crate::error::PipelineError::Bank { path: self.path.clone(), source })?;
        let events: Vec<BankEvent> =
            changed.log().iter().skip(n_before).map(|record| record.event.clone()).collect();
        if !events.is_empty() {
            self.record(round, events)?;
        }
        if admit == Admit::Candidate {
            self.retirements.extend(applied.retirements);
        }
        let mut candidates = Vec::with_capacity(applied.proposed.len());
        for skill in applied.proposed {
            let view = self.with(&skill);
            candidates.push((skill, view.version().to_owned()));
            self.know(view);
        }
        let left_out = evolution.left_out.iter().chain(&applied.left_out).map(LeftOut::to_string).collect();
        Ok(Proposed { candidates, left_out })
    }
}
