//! Trials of a run: which candidates are tried, on which rollouts, and what becomes of them.

use super::record::{RoundRecord, TrialRecord};
use super::run::{BankRun, add};
use super::sets::chosen;
use super::verdict::measured;
use super::{BankSettings, TrialKind};
use crate::error::PipelineError;
use crate::event::{Event, EventSink as _, Stage};
use crate::run_dir::format::StageTokens;
use crate::stage::rollout::{Attempt, rollout_attempts};
use crate::trainer::spans;
use skill_bank::trial::{
    Half, ItemRate, Preflight, TrialDesign, TrialError, TrialGroup, TrialGroups, TrialNumbers, TrialResult,
    TrialSettings, TrialState, TriedItems, preflight,
};
use skill_bank::{
    Bank, BankEvent, BankView, Evidence, Occasion, SkillRef, State, Tier, Utility, Verdict, ViewedSkill,
};
use skill_core::stats::stratified::{TaskPrior, TrialRule};
use skill_core::{ItemId, StepIdx};
use skill_envs::{Item, SkillSource, Split};
use std::collections::BTreeMap;
use std::sync::Arc;
use tracing::Instrument as _;

/// Groups of the fresh measurement of an admitted skill, at least: with fewer nothing is known of its interval.
pub const GROUPS_PER_INTERVAL: u64 = 8;

/// Groups between two looks at a trial, at least.
const GROUPS_PER_LOOK: usize = 16;

impl BankRun<'_> {
    pub(super) async fn try_candidates(&mut self, record: &mut RoundRecord) -> Result<(), PipelineError> {
        let mut room = self.settings().max_trials;
        for skill in std::mem::take(&mut self.retirements) {
            match room {
                0 => self.retirements.push(skill),
                _ if self.obstacle(&skill, true).is_some() => {}
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
            self.obstacle(candidate, false).is_none() && (*n_tried == 0 || is_needed(candidate))
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
        let found = bank.skill(&candidate.skill).zip(bank.version(candidate)).zip(bank.viewed(candidate));
        let Some(((skill, version), viewed)) = found else { return Ok(()) };
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
        let evidence = version.evidence.clone();
        let view = bank.view();
        let [without, with] = if trial.is_retirement {
            [view.without(candidate), view]
        } else {
            let with = view.with(first_of_its_tier(viewed), &bank.replaced_by(candidate));
            [view, with]
        };
        let eligible = self.eligible(candidate, &with, record.round).await?;
        let rule = trial_rule(self.settings(), trial.e_before).for_trial(self.n_trials.saturating_add(1));
        let asked = self.trial_settings(rule);
        let design = match trial_design(candidate, &evidence, &eligible, asked, self.seed()) {
            Ok(design) => design,
            Err(error) => {
                trial.problem = Some(error.to_string());
                self.end_trial(record, trial);
                return Ok(());
            }
        };
        trial.items = design.items().to_vec();
        trial.preflight = Some(self.preflight(&design));
        let opened = BankEvent::TrialOpened {
            skill: candidate.clone(),
            max_rollouts: design.n_rollouts(),
            design_sha256: design.sha256(),
        };
        self.record_events(record.round, [opened]).await?;
        self.n_trials += 1;
        trial.trial = self.n_trials;
        // What people did in the log comes next: a process that goes on with the run finds it here.
        if let Some(problem) = self.obstacle(candidate, trial.is_retirement) {
            trial.problem = Some(problem);
            self.release(candidate, record.round).await?;
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
            let undecided = measured(candidate, Occasion::Trial, &numbers, Some(Verdict::Undecided));
            self.record_events(record.round, [undecided]).await?;
            self.end_trial(record, trial);
            return Ok(());
        };
        let is_admitted = self.decide(decision, &mut trial, record).await?;
        if is_admitted {
            let fresh = self.measure_afresh(state.design(), &arms, record.round, &mut trial).await?;
            let again = measured(candidate, Occasion::AfterAdmission, &fresh, None);
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
                let [successes, rollouts] = self.rates.get(&item.id).copied().unwrap_or_default();
                eligible.push(ItemRate { item: item.id.clone(), successes, rollouts });
            }
        }
        drop(ctx);
        if self.embedding.is_some() {
            let used = StageTokens::from(watch.used.snapshot());
            add(&mut self.tokens, Stage::Trial.as_str(), used);
        }
        Ok(eligible)
    }

    fn trial_settings(&self, rule: TrialRule) -> TrialSettings {
        TrialSettings {
            rollouts_per_group: u32::try_from(self.settings().trial_samples).unwrap_or(u32::MAX),
            max_rollouts: self.settings().max_trial_rollouts as u64,
            rule,
            outcome: self.outcome,
            ..TrialSettings::default()
        }
    }

    /// Makes the rollouts of a trial, a pass over its tasks at a time, until it is decided, or until nobody expects it to
    /// be: where every task of the first look came out the same in both halves, more of the same would cost as much and
    /// tell as little.
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
        while state.decision().is_none() && from < n_groups {
            let to = (from + pass).min(n_groups);
            let groups = self.make_groups(state.design(), from..to, arms, round, trial).await?;
            for (place, group) in (from..to).zip(groups) {
                state.push(place, group).map_err(|error| self.trial_error(&error))?;
            }
            from = to;
            self.tell_numbers(round, trial, &state);
            if tells_nothing(&state) {
                break;
            }
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
        let longer =
            longer_design(self.bank.bank(), design, n_groups).map_err(|error| self.trial_error(&error))?;
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
                    let [successes, rollouts] = self.rates.entry(group.item.clone()).or_default();
                    *rollouts += 1;
                    *successes += u32::from(result.is_success());
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

/// When a trial may decide. What earlier trials without a verdict have shown counts: their e-values and that of this one
/// multiply, so the threshold of this one is divided by theirs.
pub(crate) fn trial_rule(settings: &BankSettings, e_before: Option<f64>) -> TrialRule {
    match settings.trial {
        TrialKind::AnyTime => {
            let threshold = 1.0 / settings.alpha / e_before.unwrap_or(1.0);
            // A threshold is above 1; where less is needed, the first look that is not against the candidate decides.
            TrialRule::AnyTime { threshold: threshold.max(1.0 + f64::EPSILON), groups_per_look: 1 }
        }
        TrialKind::FixedEnd => TrialRule::FixedEnd { alpha: settings.alpha },
    }
}

/// The design of a trial on some of the tasks that would be shown the candidate.
pub(crate) fn trial_design(
    candidate: &SkillRef,
    evidence: &Evidence,
    eligible: &[ItemRate],
    asked: TrialSettings,
    seed: u64,
) -> Result<TrialDesign, TrialError> {
    let items = TriedItems::choose(candidate, evidence, eligible, asked.max_items, seed)?;
    // Whole passes, and at least as many groups as in the simulations that the page on trials reports.
    let n_items = items.as_slice().len().max(1);
    let look = u32::try_from(GROUPS_PER_LOOK.div_ceil(n_items) * n_items).unwrap_or(u32::MAX);
    let rule = match asked.rule {
        TrialRule::AnyTime { threshold, .. } => TrialRule::AnyTime { threshold, groups_per_look: look },
        rule => rule,
    };
    TrialDesign::new(candidate.clone(), items, &TrialSettings { rule, ..asked }, seed)
}

/// A trial's design with so many more groups, on which the skill is measured once the trial has admitted it: the places
/// after the last one of the trial have samples of their own.
pub(crate) fn longer_design(
    bank: &Bank,
    design: &TrialDesign,
    n_groups: u64,
) -> Result<TrialDesign, TrialError> {
    let skill = design.candidate();
    let size = design.shape().rollouts();
    let settings = TrialSettings {
        rollouts_per_group: size,
        max_rollouts: design.n_rollouts().saturating_add(n_groups.saturating_mul(u64::from(size))),
        rule: design.rule(),
        outcome: design.outcome(),
        ..TrialSettings::default()
    };
    let evidence = bank.version(skill).map(|version| version.evidence.clone()).unwrap_or_default();
    let items = TriedItems::these(skill, &evidence, design.items().to_vec())?;
    TrialDesign::new(skill.clone(), items, &settings, design.seed())
}

/// True where every task of the first look came out the same in both halves: more of the same would tell as little.
pub(crate) fn tells_nothing(trial: &TrialState) -> bool {
    trial.n_seen() >= GROUPS_PER_LOOK as u64 && trial.n_informative() == 0
}

/// A candidate as a trial shows it: before all others of its tier, since one that nobody is shown cannot be measured.
pub(crate) fn first_of_its_tier(candidate: ViewedSkill) -> ViewedSkill {
    let utility = Utility {
        difference: 1.0,
        interval: [1.0, 1.0],
        with: [0, 0],
        without: [0, 0],
        informative_groups: 0,
    };
    ViewedSkill { utility: Some(utility), ..candidate }
}
