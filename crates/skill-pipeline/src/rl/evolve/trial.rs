//! Trials in the groups of iterations: half of a group's episodes may be shown the candidate, half are not, and the
//! advantage of an episode is taken in its half.

use super::{Evolving, OpenTrial};
use crate::bank::{
    chosen, consequence, first_of_its_tier, measured, obstacle, obstacle_to_verdict, over_cap_of, released,
    tells_nothing, trial_design, trial_rule,
};
use crate::error::PipelineError;
use crate::rl::record::CHECKPOINT_FILE;
use crate::rl::rollout::{Group, Halved, Played, Purpose};
use skill_bank::trial::{
    Half, ItemRate, PlannedGroup, TrialDesign, TrialError, TrialOutcome, TrialResult, TrialSettings,
    TrialState,
};
use skill_bank::{BankEvent, BankView, Occasion, Reason, SkillRef, State, Verdict};
use skill_core::ItemId;
use skill_envs::{Item, SkillSource, Split};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

impl<'run> Evolving<'run> {
    /// The trial of the checkpoint with the groups that it has seen.
    pub(super) fn reopened(&self) -> Result<Option<TrialState>, PipelineError> {
        let Some(open) = &self.state.trial else { return Ok(None) };
        let corrupt =
            |message: String| PipelineError::Corrupt { path: self.dir.join(CHECKPOINT_FILE), message };
        let evidence = self.bank.bank().version(&open.candidate).map(|version| version.evidence.clone());
        let design = TrialDesign::from_json(&open.design, &evidence.unwrap_or_default())
            .map_err(|error| corrupt(error.to_string()))?
            .map_err(|error| self.trial_error(&error))?;
        let mut state = TrialState::new(design);
        for (place, results) in (0..).zip(&open.groups) {
            let results: Vec<Option<TrialResult>> = results.iter().copied().map(Some).collect();
            let group = state.design().group(place).and_then(|group| group.of_rollouts(&results));
            let group = group.map_err(|error| self.trial_error(&error))?;
            state.push(place, group).map_err(|error| self.trial_error(&error))?;
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
        let sources = self.shown_to_halves(&open.candidate, open.is_retirement)?;
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

    /// What the halves without and with a skill are shown.
    pub(super) fn shown_to_halves(
        &self,
        skill: &SkillRef,
        is_active: bool,
    ) -> Result<[Arc<dyn SkillSource>; 2], PipelineError> {
        let [without, with] = self.arms(skill, is_active);
        Ok([self.shown(without)?, self.shown(with)?])
    }

    /// The views of the halves of a trial.
    pub(super) fn arms(&self, candidate: &SkillRef, is_retirement: bool) -> [BankView; 2] {
        let bank = self.bank.bank();
        let view = bank.view();
        if is_retirement {
            return [view.without(candidate), view];
        }
        match bank.viewed(candidate) {
            Some(viewed) => {
                let with = view.with(first_of_its_tier(viewed), &bank.replaced_by(candidate));
                [view, with]
            }
            None => [view.clone(), view],
        }
    }

    /// Opens the trial of the candidate whose turn it is, if one waits.
    async fn open_trial(&mut self, iteration: u64, cancel: &CancellationToken) -> Result<(), PipelineError> {
        while let Some((candidate, is_retirement)) = self.next_candidate() {
            *self.state.n_tried.entry(candidate.clone()).or_default() += 1;
            let design = match self.design(iteration, &candidate, is_retirement, cancel).await? {
                Ok(design) => design,
                Err(error) => {
                    self.record.notes.push(format!("{candidate} is not tried: {error}"));
                    continue;
                }
            };
            let opened = BankEvent::TrialOpened {
                skill: candidate.clone(),
                max_rollouts: design.n_rollouts(),
                design_sha256: design.sha256(),
            };
            self.record_events(iteration, [opened]).await?;
            self.state.n_trials += 1;
            if let Some(problem) = obstacle(self.bank.bank(), &candidate, is_retirement) {
                self.record.notes.push(format!("{candidate} is not tried: {problem}"));
                self.release(iteration, &candidate).await?;
                continue;
            }
            let open = OpenTrial { candidate, is_retirement, design: design.to_json(), groups: Vec::new() };
            self.state.trial = Some(open);
            self.trial = Some(TrialState::new(design));
            return Ok(());
        }
        Ok(())
    }

    /// The next version to try: proposed retirements first, then what was tried least.
    fn next_candidate(&mut self) -> Option<(SkillRef, bool)> {
        while !self.state.retirements.is_empty() {
            let skill = self.state.retirements.remove(0);
            if obstacle(self.bank.bank(), &skill, true).is_none() {
                return Some((skill, true));
            }
        }
        if self.state.n_admitted_since_validation >= self.setup.settings.max_admissions {
            return None;
        }
        let bank = self.bank.bank();
        let versions = bank.skills().flat_map(|skill| {
            let waiting = skill.versions.iter().filter(|version| version.state == State::Candidate);
            waiting.map(|version| SkillRef::new(skill.id.clone(), version.number))
        });
        let candidates = versions.filter(|candidate| obstacle(bank, candidate, false).is_none());
        let n_tried = |candidate: &SkillRef| self.state.n_tried.get(candidate).copied().unwrap_or_default();
        // A candidate that was tried in vain has another turn after each validation.
        let most = u32::try_from(self.turns_by_now()).unwrap_or(u32::MAX);
        let candidates = candidates.filter(|candidate| n_tried(candidate) < most);
        candidates.min_by_key(n_tried).map(|candidate| (candidate, false))
    }

    /// Turns that a candidate may have had by now: one, and one more with each evolution.
    pub(super) fn turns_by_now(&self) -> u64 {
        1 + self.state.since / self.settings.validation_interval.max(1)
    }

    pub(super) async fn design(
        &self,
        iteration: u64,
        candidate: &SkillRef,
        is_retirement: bool,
        cancel: &CancellationToken,
    ) -> Result<Result<TrialDesign, TrialError>, PipelineError> {
        let [_, with] = self.arms(candidate, is_retirement);
        let source = self.bank_source(with)?;
        let trial = self.sets.trial().clone();
        let mut eligible = Vec::new();
        for item in chosen(self.env, |id| trial.contains(id)) {
            if self.selected(iteration, &source, item, cancel).await?.contains(candidate) {
                let [successes, rollouts] = self.state.rates.get(&item.id).copied().unwrap_or_default();
                eligible.push(ItemRate { item: item.id.clone(), successes, rollouts });
            }
        }
        let asked = &self.setup.settings;
        let rule = trial_rule(asked, self.state.e_before.get(candidate).copied());
        let settings = TrialSettings {
            rollouts_per_group: u32::try_from(self.settings.group_size).unwrap_or(u32::MAX),
            max_rollouts: asked.max_trial_rollouts as u64,
            rule: rule.for_trial(self.state.n_trials.saturating_add(1)),
            outcome: self.state.outcome,
            ..TrialSettings::default()
        };
        let evidence = self.bank.bank().version(candidate).map(|version| version.evidence.clone());
        let seed = self.settings.seed;
        Ok(trial_design(candidate, &evidence.unwrap_or_default(), &eligible, settings, seed))
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
                let [successes, rollouts] = self.state.rates.entry(group.item.id.clone()).or_default();
                *successes += u32::from(played.is_success);
                *rollouts += 1;
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
        let made: Vec<Option<TrialResult>> = results.iter().copied().map(Some).collect();
        let pushed = planned.of_rollouts(&made).and_then(|made| trial.push(planned.place, made).map(|_| ()));
        pushed.map_err(|error| super::trial_error(&self.dir, &error))?;
        open.groups.push(results);
        Ok(())
    }

    /// Ends the trial under way if it is decided or at its end.
    async fn decide(&mut self, iteration: u64) -> Result<(), PipelineError> {
        let Some(trial) = &self.trial else { return Ok(()) };
        let is_at_end = trial.n_seen() >= trial.design().n_groups();
        let decision = trial.decision().copied();
        if decision.is_none() && !is_at_end && !tells_nothing(trial) {
            return Ok(());
        }
        let numbers = trial.numbers();
        let design = trial.design().clone();
        self.trial = None;
        let Some(open) = self.state.trial.take() else { return Ok(()) };
        let (skill, is_retirement) = (open.candidate, open.is_retirement);
        let verdict = decision.map_or(Verdict::Undecided, |decision| decision.verdict);
        let shown = measured(&skill, Occasion::Trial, &numbers, Some(verdict));
        self.record_events(iteration, [shown]).await?;
        if verdict == Verdict::Undecided {
            if decision.is_some() {
                *self.state.e_before.entry(skill).or_insert(1.0) *= numbers.e_better;
            }
            return Ok(());
        }
        self.state.e_before.remove(&skill);
        let bank = self.bank.bank();
        let Some(event) = consequence(bank, &skill, verdict, is_retirement) else { return Ok(()) };
        if let Some(problem) = obstacle_to_verdict(bank, &skill, verdict, is_retirement) {
            self.record.notes.push(format!("the verdict on {skill} is not carried out: {problem}"));
            return self.release(iteration, &skill).await;
        }
        self.record_events(iteration, [event]).await?;
        if verdict == Verdict::Reject {
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
    async fn release(&mut self, iteration: u64, candidate: &SkillRef) -> Result<(), PipelineError> {
        let state = self.bank.bank().version(candidate).map(|version| version.state);
        if state != Some(State::Trial) {
            return Ok(());
        }
        self.record_events(iteration, [released(candidate)]).await
    }
}
