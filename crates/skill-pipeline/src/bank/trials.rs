//! Trials of a run: which candidates are tried, on which rollouts, and what becomes of them.

use super::run::{BankRun, add};
use super::sets::chosen;
use crate::error::PipelineError;
use crate::event::{Event, EventSink as _, Stage};
use crate::records::StageTokens;
use crate::records::bank::{RoundRecord, TrialRecord};
use crate::shell::spans;
use crate::stage::rollout::{Attempt, rollout_attempts};
use skill_bank::trial::{
    Candidacy, GROUPS_PER_INTERVAL, Half, ItemRate, Preflight, TrialDesign, TrialGroup, TrialGroups,
    TrialNumbers, TrialResult, TrialState, obstacle, preflight,
};
use skill_bank::{BankView, Occasion, SkillRef, State, Tier, TrialVerdict};
use skill_core::stats::stratified::TaskPrior;
use skill_core::{ItemId, StepIdx};
use skill_envs::{Item, SkillSource, Split};
use std::collections::BTreeMap;
use std::sync::Arc;
use tracing::Instrument as _;

impl BankRun<'_> {
    pub(super) async fn try_candidates(&mut self, record: &mut RoundRecord) -> Result<(), PipelineError> {
        let mut room = self.settings().max_trials;
        for skill in std::mem::take(&mut self.retirements) {
            match room {
                0 => self.retirements.push(skill),
                _ if obstacle(self.bank.bank(), &skill, true).is_some() => {}
                _ => {
                    room -= 1;
                    self.try_one(&skill, record).instrument(spans::of_trial()).await?;
                }
            }
        }
        let rate_of = |tier: &Tier| {
            let rate = record.rates.iter().find(|rate| Some(rate.task_type.as_str()) == tier.task_type());
            rate.map_or(1.0, skill_bank::evolve::TypeRate::rate)
        };
        let mut queue: Vec<(u32, f64, SkillRef)> = self
            .waiting()
            .into_iter()
            .map(|candidate| {
                let tier = self.bank.bank().skill(&candidate.skill).map(|skill| skill.tier.clone());
                let rate = tier.map_or(1.0, |tier| rate_of(&tier));
                (self.n_tried.get(&candidate).copied().unwrap_or_default(), rate, candidate)
            })
            .collect();
        // What was tried in vain is retried only where tasks still fail.
        let is_needed =
            |candidate: &SkillRef| match self.bank.bank().skill(&candidate.skill).map(|skill| &skill.tier) {
                Some(Tier::TaskType(task_type)) => record.weak.contains(task_type),
                Some(_) => !record.weak.is_empty(),
                None => false,
            };
        queue.retain(|(n_tried, _, candidate)| {
            obstacle(self.bank.bank(), candidate, false).is_none() && (*n_tried == 0 || is_needed(candidate))
        });
        // Stable: of equal ones the first in the bank comes first.
        queue.sort_by(|one, other| one.0.cmp(&other.0).then_with(|| one.1.total_cmp(&other.1)));
        for (_, _, candidate) in queue.into_iter().take(room) {
            if self.n_admitted_since_validation >= self.settings().max_admissions {
                break;
            }
            self.try_one(&candidate, record).instrument(spans::of_trial()).await?;
        }
        Ok(())
    }

    /// Tries a candidate, or whether an active skill is worth its place.
    async fn try_one(&mut self, candidate: &SkillRef, record: &mut RoundRecord) -> Result<(), PipelineError> {
        self.check_stop(record.round.saturating_sub(1), self.rounds())?;
        *self.n_tried.entry(candidate.clone()).or_default() += 1;
        let bank = self.bank.bank();
        let found = bank.skill(&candidate.skill).zip(bank.version(candidate));
        let Some((skill, version)) = found else { return Ok(()) };
        let mut trial = TrialRecord {
            trial: 0,
            skill: candidate.clone(),
            title: version.content.title().to_owned(),
            tier: skill.tier.to_string(),
            is_retirement: version.state == State::Active,
            items: Vec::new(),
            preflight: None,
            e_before: self.e_before.get(candidate).copied(),
            rollouts: 0,
            decision: None,
            fresh: None,
            problem: None,
        };
        let tried = Candidacy { skill: candidate.clone(), is_retirement: trial.is_retirement };
        let [without, with] = tried.arms(bank);
        let eligible = self.eligible(candidate, &with, record.round).await?;
        let (number, samples) = (self.n_trials.saturating_add(1), self.settings().trial_samples);
        let asked = self.settings().of_trial(number, samples, self.outcome, trial.e_before);
        let design = match tried.design(self.bank.bank(), &eligible, asked, self.seed()) {
            Ok(design) => design,
            Err(error) => {
                trial.problem = Some(error.to_string());
                self.end_trial(record, trial);
                return Ok(());
            }
        };
        trial.items = design.items().to_vec();
        trial.preflight = Some(self.preflight(&design));
        self.record_events(record.round, [tried.opened(&design)]).await?;
        self.n_trials += 1;
        trial.trial = self.n_trials;
        // What people did in the log comes next: a process that goes on with the run finds it here.
        if let Some(problem) = tried.obstacle(self.bank.bank()) {
            trial.problem = Some(problem);
            self.release(&tried, record.round).await?;
            self.end_trial(record, trial);
            return Ok(());
        }
        self.tell_trial(record.round, &trial, &design);
        let arms = [self.shown_source(without)?, self.shown_source(with)?];
        let state = self.run_trial(design, &arms, record.round, &mut trial).await?;
        let Some(decision) = state.decision().copied() else {
            // No task told anything: the candidate waits, behind those that were tried less.
            let numbers = state.numbers();
            trial.problem = Some(format!("none of {} groups told anything", state.n_seen()));
            let undecided = numbers.measured(candidate, Occasion::Trial, Some(TrialVerdict::Undecided));
            self.record_events(record.round, [undecided]).await?;
            self.end_trial(record, trial);
            return Ok(());
        };
        let is_admitted = self.decide(&tried, decision, &mut trial, record).await?;
        if is_admitted {
            let fresh = self.measure_afresh(state.design(), &arms, record.round, &mut trial).await?;
            let again = fresh.measured(candidate, Occasion::AfterAdmission, None);
            self.record_events(record.round, [again]).await?;
            trial.fresh = Some(fresh);
        }
        self.end_trial(record, trial);
        Ok(())
    }

    pub(super) fn end_trial(&mut self, record: &mut RoundRecord, trial: TrialRecord) {
        self.trial_rollouts += trial.rollouts;
        self.tell_changes();
        spans::tell_trial(&trial);
        self.log.emit(&Event::TrialFinished { round: record.round, record: Box::new(trial.clone()) });
        record.trials.push(trial);
    }

    /// What a design can show; designs of one size show the same.
    fn preflight(&mut self, design: &TrialDesign) -> Preflight {
        let known = self
            .preflights
            .iter()
            .find(|(rule, n_groups, _)| (*rule, *n_groups) == (design.rule(), design.n_groups()));
        let known = known.map(|(_, _, known)| known.clone());
        let mut found = known.unwrap_or_else(|| {
            let made = preflight(design, TaskPrior::default());
            self.preflights.push((design.rule(), design.n_groups(), made.clone()));
            made
        });
        found.items = design.items().len() as u64;
        found
    }

    /// The tasks of the trial set whose retrieval would show the candidate, with what is known of them.
    async fn eligible(
        &mut self,
        candidate: &SkillRef,
        with: &BankView,
        round: u32,
    ) -> Result<Vec<ItemRate>, PipelineError> {
        let env = Arc::clone(&self.trainer.base.env);
        let set = self.sets.trial().clone();
        let source = self.source(with.clone())?;
        let watch = self.begin();
        let ctx = self.ctx(Some(StepIdx(round)), Stage::Trial, None, &watch);
        let mut eligible = Vec::new();
        for item in chosen(env.as_ref(), |id| set.contains(id)) {
            if self.selected(&source, item, &ctx).await?.contains(candidate) {
                eligible.push(self.rates.of(&item.id));
            }
        }
        drop(ctx);
        if self.embedding.is_some() {
            let used = StageTokens::from(watch.used.snapshot());
            add(&mut self.tokens, Stage::Trial.as_str(), used);
        }
        Ok(eligible)
    }

    /// Makes the rollouts of a trial, a pass over its tasks at a time, until it is over.
    async fn run_trial(
        &mut self,
        design: TrialDesign,
        arms: &[Arc<dyn SkillSource>; 2],
        round: u32,
        trial: &mut TrialRecord,
    ) -> Result<TrialState, PipelineError> {
        let n_groups = design.n_groups();
        let pass = design.items().len().max(1) as u64;
        let mut state = TrialState::new(design);
        let mut from = 0;
        while !state.is_over() {
            let to = (from + pass).min(n_groups);
            let groups = self.make_groups(state.design(), from..to, arms, round, trial).await?;
            for (place, group) in (from..to).zip(groups) {
                state.push(place, group).map_err(|error| self.trial_error(&error))?;
            }
            from = to;
            self.tell_numbers(round, trial, &state);
        }
        Ok(state)
    }

    /// Measures an admitted skill on further passes: the numbers that admitted it are too good on average.
    async fn measure_afresh(
        &mut self,
        design: &TrialDesign,
        arms: &[Arc<dyn SkillSource>; 2],
        round: u32,
        trial: &mut TrialRecord,
    ) -> Result<TrialNumbers, PipelineError> {
        let n_items = design.items().len().max(1) as u64;
        // Whole passes.
        let n_groups = GROUPS_PER_INTERVAL.div_ceil(n_items) * n_items;
        let longer = design.longer(n_groups).map_err(|error| self.trial_error(&error))?;
        let places = design.n_groups()..longer.n_groups();
        self.tell_fresh(round, trial, &longer, &places);
        let mut fresh = TrialGroups::new(&longer);
        for group in self.make_groups(&longer, places, arms, round, trial).await? {
            fresh.push(group);
        }
        Ok(fresh.numbers())
    }

    async fn make_groups(
        &mut self,
        design: &TrialDesign,
        places: std::ops::Range<u64>,
        arms: &[Arc<dyn SkillSource>; 2],
        round: u32,
        trial: &mut TrialRecord,
    ) -> Result<Vec<TrialGroup>, PipelineError> {
        let env = Arc::clone(&self.trainer.base.env);
        let items: BTreeMap<&ItemId, &Item> =
            env.items(Split::Train).iter().map(|item| (&item.id, item)).collect();
        let n_samples = usize::try_from(design.shape().rollouts()).unwrap_or(usize::MAX);
        let mut groups = Vec::new();
        let mut work: Vec<Attempt<'_>> = Vec::new();
        for place in places {
            let group = design.group(place).map_err(|error| self.trial_error(&error))?;
            if let Some(item) = items.get(&group.item) {
                let first = usize::try_from(group.pass).unwrap_or(usize::MAX).saturating_mul(n_samples);
                work.extend(group.halves.iter().enumerate().map(|(sample, half)| Attempt {
                    item,
                    draw: first.saturating_add(sample),
                    source_idx: usize::from(*half == Half::With),
                }));
            }
            groups.push(group);
        }
        let step = Some(StepIdx(round));
        let watch = self.begin();
        let batch = usize::try_from(trial.trial.saturating_sub(1)).ok();
        let ctx = self.ctx(step, Stage::Trial, batch, &watch);
        let results = rollout_attempts(&self.rollouts, &work, arms, &ctx).await?;
        drop(ctx);
        self.end(step, Stage::Trial, &watch);
        trial.rollouts += results.len() as u64;
        let mut made = Vec::with_capacity(groups.len());
        for (group, results) in groups.iter().zip(results.chunks(n_samples.max(1))) {
            for (half, result) in group.halves.iter().zip(results) {
                if *half == Half::Without {
                    self.rates.count(&group.item, result.is_success());
                }
            }
            let results: Vec<Option<TrialResult>> = results
                .iter()
                .map(|result| Some(TrialResult { is_success: result.is_success(), score: result.soft }))
                .collect();
            made.push(group.of_rollouts(&results).map_err(|error| self.trial_error(&error))?);
        }
        Ok(made)
    }
}
