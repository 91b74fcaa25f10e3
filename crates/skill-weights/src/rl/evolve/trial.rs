//! Trials in the groups of iterations: half of a group's episodes may be shown the candidate, half are not, and the
//! advantage of an episode is taken in its half.

use super::{EvolutionState, Evolving, OpenTrial};
use crate::rl::rollout::{Group, Halved, Played, Purpose};
use skill_bank::trial::{
    Candidacy, Consequence, Half, ItemRate, PlannedGroup, TrialDesign, TrialError, TrialOutcome, TrialResult,
    TrialState, obstacle, over_cap_of,
};
use skill_bank::{BankEvent, Occasion, Reason, SkillRef, TrialVerdict};
use skill_core::ItemId;
use skill_envs::{Item, SkillSource, Split};
use skill_pipeline::bank::chosen;
use skill_pipeline::error::PipelineError;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

impl<'run> Evolving<'run> {
    /// The trial of the checkpoint with the groups that it has seen.
    pub(super) fn reopened(&self) -> Result<Option<TrialState>, PipelineError> {
        let Some(open) = &self.state.trial else { return Ok(None) };
        let design = self.design_of(&open.candidate, &open.design)?;
        let mut state = TrialState::new(design);
        for (place, results) in (0..).zip(&open.groups) {
            let group = state.design().group_of(place, results);
            let pushed = group.and_then(|group| state.push(place, group).map(drop));
            pushed.map_err(|error| self.trial_error(&error))?;
        }
        Ok(Some(state))
    }

    /// The groups of an iteration: up to half of them are the next groups of the trial under way.
    pub(in crate::rl) async fn groups(
        &mut self,
        iteration: u64,
        regular: Vec<&'run Item>,
        cancel: &CancellationToken,
    ) -> Result<Vec<Group<'run>>, PipelineError> {
        let (n_groups, room) = (regular.len(), regular.len().div_ceil(2));
        self.drop_measurements();
        if self.trial.is_none() && !self.measures_an_admission() && self.settings.can_halve_groups() {
            self.open_trial(iteration, cancel).await?;
        }
        if self.trial.is_none() {
            self.open_withdrawal(iteration, cancel).await?;
        }
        let mut groups = match self.trial {
            Some(_) => self.groups_of_trial(room)?,
            None => self.groups_of_measurement(room)?,
        };
        let regular = regular.into_iter().take(n_groups.saturating_sub(groups.len()));
        groups.extend(self.groups_of_standing_check(iteration, regular, cancel).await?);
        Ok(groups)
    }

    /// The next groups of the trial under way, at most so many.
    fn groups_of_trial(&mut self, room: usize) -> Result<Vec<Group<'run>>, PipelineError> {
        let (Some(trial), Some(open)) = (&self.trial, &self.state.trial) else { return Ok(Vec::new()) };
        let sources = self.shown_to_halves(&open.tried())?;
        let (first, end) = (trial.n_seen(), trial.design().n_groups());
        let groups =
            self.planned_groups(trial.design(), (first..end).take(room), &sources, Purpose::Trial)?;
        self.record.trial = Some(trial.design().candidate().to_string());
        Ok(groups)
    }

    /// The groups of a design at these places.
    pub(super) fn planned_groups(
        &self,
        design: &TrialDesign,
        places: impl Iterator<Item = u64>,
        sources: &[Arc<dyn SkillSource>; 2],
        purpose: fn(PlannedGroup) -> Purpose,
    ) -> Result<Vec<Group<'run>>, PipelineError> {
        let items: BTreeMap<&ItemId, &'run Item> =
            self.env.items(Split::Train).iter().map(|item| (&item.id, item)).collect();
        let mut groups = Vec::new();
        for place in places {
            let planned = design.group(place).map_err(|error| self.trial_error(&error))?;
            if let Some(item) = items.get(&planned.item) {
                let (halves, sources) = (planned.halves.clone(), sources.clone());
                groups.push(Group {
                    item,
                    halved: Some(Halved { halves, sources, purpose: purpose(planned) }),
                });
            }
        }
        Ok(groups)
    }

    /// What the halves are shown.
    pub(super) fn shown_to_halves(
        &self,
        tried: &Candidacy,
    ) -> Result<[Arc<dyn SkillSource>; 2], PipelineError> {
        let [without, with] = tried.arms(self.bank.bank());
        Ok([self.shown(without)?, self.shown(with)?])
    }

    /// Opens the trial of the candidate whose turn it is, if one waits.
    async fn open_trial(&mut self, iteration: u64, cancel: &CancellationToken) -> Result<(), PipelineError> {
        while let Some(tried) = self.next_candidate() {
            *self.state.n_tried.entry(tried.skill.clone()).or_default() += 1;
            let design = match self.design(iteration, &tried, cancel).await? {
                Ok(design) => design,
                Err(error) => {
                    self.record.notes.push(format!("{} is not tried: {error}", tried.skill));
                    continue;
                }
            };
            self.record_events(iteration, [tried.opened(&design)]).await?;
            self.state.n_trials += 1;
            if let Some(problem) = tried.obstacle(self.bank.bank()) {
                self.record.notes.push(format!("{} is not tried: {problem}", tried.skill));
                self.release(iteration, &tried).await?;
                continue;
            }
            let Candidacy { skill: candidate, is_retirement } = tried;
            let open = OpenTrial { candidate, is_retirement, design: design.to_json(), groups: Vec::new() };
            self.state.trial = Some(open);
            self.trial = Some(TrialState::new(design));
            return Ok(());
        }
        Ok(())
    }

    /// The next version to try.
    fn next_candidate(&mut self) -> Option<Candidacy> {
        let is_full = self.state.n_admitted_since_validation >= self.setup.settings.max_admissions;
        // A candidate that was tried in vain has another turn after each validation.
        let most = if is_full { 0 } else { u32::try_from(self.turns_by_now()).unwrap_or(u32::MAX) };
        let EvolutionState { retirements, n_tried, .. } = &mut self.state;
        let n_tried = |candidate: &SkillRef| n_tried.get(candidate).copied().unwrap_or_default();
        Candidacy::next(self.bank.bank(), retirements, n_tried, most)
    }

    /// Turns that a candidate may have had by now: one, and one more with each evolution.
    pub(super) fn turns_by_now(&self) -> u64 {
        1 + self.state.since / self.settings.validation_interval.max(1)
    }

    pub(super) async fn design(
        &self,
        iteration: u64,
        tried: &Candidacy,
        cancel: &CancellationToken,
    ) -> Result<Result<TrialDesign, TrialError>, PipelineError> {
        let [_, with] = tried.arms(self.bank.bank());
        let source = self.bank_source(with)?;
        let trial = self.sets.trial().clone();
        let mut eligible: Vec<ItemRate> = Vec::new();
        for item in chosen(self.env, |id| trial.contains(id)) {
            if self.selected(iteration, &source, item, cancel).await?.contains(&tried.skill) {
                eligible.push(self.state.rates.of(&item.id));
            }
        }
        let (number, e_before) =
            (self.state.n_trials.saturating_add(1), self.state.e_before.get(&tried.skill));
        let (size, outcome) = (self.settings.group_size, self.state.outcome);
        let settings = self.setup.settings.of_trial(number, size, outcome, e_before.copied());
        Ok(tried.design(self.bank.bank(), &eligible, settings, self.settings.seed))
    }

    /// Takes over what the episodes of an iteration have shown.
    pub(in crate::rl) async fn note(
        &mut self,
        iteration: u64,
        groups: &[Group<'_>],
        played: &[Played],
    ) -> Result<(), PipelineError> {
        if iteration == 1 {
            self.state.outcome = TrialOutcome::of_scores(played.iter().map(|played| played.outcome.score));
        }
        for (place, group) in groups.iter().enumerate() {
            let of_group: Vec<&Played> = played.iter().filter(|played| played.group == place).collect();
            let purpose = group.halved.as_ref().map(|halved| &halved.purpose);
            // The half that was shown what everybody is shown.
            let usual = match purpose {
                None => None,
                Some(Purpose::Trial(_)) => Some(Half::Without),
                Some(Purpose::Measurement | Purpose::Standing(_)) => Some(Half::With),
            };
            for played in of_group.iter().filter(|played| played.half == usual) {
                self.state.rates.count(&group.item.id, played.is_success);
                self.keep_episode(played)?;
            }
            let results = || of_group.iter().map(|played| played.outcome).collect();
            match purpose {
                None => {}
                Some(Purpose::Trial(planned)) => self.note_trial(planned, results())?,
                Some(Purpose::Measurement) => self.note_measurement(results()),
                Some(Purpose::Standing(hidden)) => self.note_standing(hidden, &of_group),
            }
        }
        self.decide(iteration).await?;
        self.end_measurement(iteration).await?;
        self.check_standing(iteration).await
    }

    fn note_trial(&mut self, planned: &PlannedGroup, results: Vec<TrialResult>) -> Result<(), PipelineError> {
        let (Some(trial), Some(open)) = (&mut self.trial, &mut self.state.trial) else { return Ok(()) };
        let group = trial.design().group_of(planned.place, &results);
        let pushed = group.and_then(|group| trial.push(planned.place, group).map(drop));
        pushed.map_err(|error| super::trial_error(&self.dir, &error))?;
        open.groups.push(results);
        Ok(())
    }

    /// Ends the trial under way if it is decided or at its end.
    async fn decide(&mut self, iteration: u64) -> Result<(), PipelineError> {
        let Some(trial) = &self.trial else { return Ok(()) };
        if !trial.is_over() {
            return Ok(());
        }
        let decision = trial.decision().copied();
        let numbers = trial.numbers();
        let design = trial.design().clone();
        self.trial = None;
        let Some(open) = self.state.trial.take() else { return Ok(()) };
        let tried = open.tried();
        let skill = open.candidate;
        let verdict = decision.map_or(TrialVerdict::Undecided, |decision| decision.verdict);
        let shown = numbers.measured(&skill, Occasion::Trial, Some(verdict));
        self.record_events(iteration, [shown]).await?;
        if verdict == TrialVerdict::Undecided {
            if decision.is_some() {
                *self.state.e_before.entry(skill).or_insert(1.0) *= numbers.e_better;
            }
            return Ok(());
        }
        self.state.e_before.remove(&skill);
        match tried.consequence(self.bank.bank(), verdict) {
            Consequence::Nothing => return Ok(()),
            Consequence::Hindered(problem) => {
                self.record.notes.push(format!("the verdict on {skill} is not carried out: {problem}"));
                return self.release(iteration, &tried).await;
            }
            Consequence::Event(event) => self.record_events(iteration, [*event]).await?,
        }
        if verdict == TrialVerdict::Reject {
            self.record.retired.push(skill.to_string());
        } else {
            self.record.admitted.push(skill.to_string());
            self.measure_after_admission(&skill, &design);
            self.state.n_admissions += 1;
            self.state.n_admitted_since_validation += 1;
            for skill in over_cap_of(self.bank.bank(), self.setup.settings.max_active) {
                if obstacle(self.bank.bank(), &skill, true).is_none() {
                    let event = BankEvent::Retired { skill: skill.clone(), reason: Reason::OverCap };
                    self.record_events(iteration, [event]).await?;
                    self.record.retired.push(skill.to_string());
                }
            }
        }
        Ok(())
    }

    /// Has a candidate wait again whose trial ended without a verdict.
    async fn release(&mut self, iteration: u64, tried: &Candidacy) -> Result<(), PipelineError> {
        let released = tried.released(self.bank.bank());
        match released {
            Some(released) => self.record_events(iteration, [released]).await,
            None => Ok(()),
        }
    }
}
