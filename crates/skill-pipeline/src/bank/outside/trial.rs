//! The trial under way: which episode is in which half, what they came to, and the verdict. What it admits is measured
//! on further groups, which are played like those of the trial.

use super::OutsideBank;
use super::error::OutsideError;
use super::file::Line;
use super::groups::SeenGroups;
use serde::{Deserialize, Serialize};
use skill_bank::trial::{
    Candidacy, Consequence, GROUPS_PER_INTERVAL, Half, ItemRate, TrialDesign, TrialResult, obstacle,
    over_cap_of,
};
use skill_bank::{Bank, BankEvent, BankView, Occasion, Reason, SkillRef, State, TrialVerdict, Version};
use skill_core::ItemId;
use std::collections::BTreeMap;

/// So many later groups of another task end a group that still misses results: its episodes were given up.
const GROUPS_BEHIND: u32 = 2;

/// The place of an episode in a trial.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrialPlace {
    /// The number of the trial, from 1.
    pub trial: u32,
    /// The version that is tried.
    pub candidate: SkillRef,
    /// The group, from 0.
    pub group: u64,
    /// The number in the group, from 0.
    pub sample: usize,
    /// The half.
    pub half: Half,
}

impl TrialPlace {
    /// True if the agent may be shown what is tried.
    pub fn has_candidate(&self) -> bool {
        self.half == Half::With
    }
}

/// Where a trial is, or how it ended.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TrialReport {
    /// The version that is tried.
    pub candidate: SkillRef,
    /// Whether it is active already, and its retirement is tried.
    pub is_retirement: bool,
    /// A trial, or the measurement of what a trial has admitted, which decides nothing.
    pub occasion: Occasion,
    /// Its tasks.
    pub items: usize,
    /// Groups that count so far.
    pub groups: u64,
    /// Groups at most.
    pub max_groups: u64,
    /// Episodes of a group.
    pub group_size: u32,
    /// The e-value for "better" so far.
    pub e_better: f64,
    /// The difference so far, and its interval at 95 %.
    pub difference: f64,
    /// The interval of the difference at 95 %.
    pub interval: [f64; 2],
    /// What was decided; none while it goes on, and for a measurement.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verdict: Option<TrialVerdict>,
}

/// A trial that could begin, with the tasks that are known.
#[derive(Debug, Clone)]
pub struct TrialDraft {
    /// The version that is to be tried.
    pub tried: Candidacy,
    /// The view that has it.
    pub with: BankView,
    /// Tasks that trainers ask for: id, goal and type.
    pub items: Vec<(ItemId, String, String)>,
}

/// The trial under way.
pub(super) struct Trial {
    number: u32,
    is_retirement: bool,
    seen: SeenGroups,
    /// Without the candidate, and with it.
    views: [BankView; 2],
    /// How many episodes of each task were begun.
    begun: BTreeMap<ItemId, u64>,
    /// Groups with results that are not in `seen` yet.
    open: BTreeMap<u64, Vec<Option<TrialResult>>>,
    /// The pass that comes after the complete groups of each task.
    complete: BTreeMap<ItemId, u32>,
}

impl Trial {
    fn new(number: u32, is_retirement: bool, seen: SeenGroups, views: [BankView; 2]) -> Self {
        let mut trial = Self {
            number,
            is_retirement,
            seen,
            views,
            begun: BTreeMap::new(),
            open: BTreeMap::new(),
            complete: BTreeMap::new(),
        };
        // The places before its first one are those of the trial before it.
        let (first, size) = (trial.seen.first(), trial.group_size());
        let items = trial.seen.design().items().to_vec();
        for (item_idx, item) in (0_u64..).zip(&items) {
            let passes = first.saturating_sub(item_idx).div_ceil(items.len() as u64);
            trial.begun.insert(item.clone(), passes.saturating_mul(size));
            trial.complete.insert(item.clone(), u32::try_from(passes).unwrap_or(u32::MAX));
        }
        trial
    }

    pub(super) fn candidate(&self) -> &SkillRef {
        self.seen.design().candidate()
    }

    /// The state that the candidate has in the bank meanwhile.
    pub(super) fn expected_state(&self) -> State {
        match &self.seen {
            SeenGroups::Trial(_) if !self.is_retirement => State::Trial,
            SeenGroups::Trial(_) | SeenGroups::AfterAdmission { .. } => State::Active,
        }
    }

    pub(super) fn view(&self, half: Half) -> &BankView {
        let [without, with] = &self.views;
        match half {
            Half::With => with,
            Half::Without => without,
        }
    }

    fn group_size(&self) -> u64 {
        u64::from(self.seen.design().shape().rollouts()).max(1)
    }

    /// The next place of an episode about this task; `None` if the task is none of the trial's, or has no place left.
    pub(super) fn take_place(&mut self, item: &ItemId) -> Option<TrialPlace> {
        let design = self.seen.design();
        let item_idx = design.items().iter().position(|of| of == item)?;
        let (n_items, size) = (design.items().len() as u64, self.group_size());
        let begun = self.begun.entry(item.clone()).or_default();
        let group = (*begun / size).checked_mul(n_items)?.checked_add(item_idx as u64)?;
        let planned = self.seen.design().group(group).ok()?;
        let sample = usize::try_from(*begun % size).ok()?;
        let half = *planned.halves.get(sample)?;
        *begun += 1;
        let (trial, candidate) = (self.number, self.candidate().clone());
        Some(TrialPlace { trial, candidate, group, sample, half })
    }

    /// Takes a result; false if it is of another trial or comes too late.
    pub(super) fn take_result(
        &mut self,
        place: &TrialPlace,
        outcome: TrialResult,
    ) -> Result<bool, OutsideError> {
        if place.trial != self.number || place.group < self.seen.next() {
            return Ok(false);
        }
        let size = usize::try_from(self.group_size()).unwrap_or(usize::MAX);
        let results = self.open.entry(place.group).or_insert_with(|| vec![None; size]);
        let Some(own) = results.get_mut(place.sample) else { return Ok(false) };
        *own = Some(outcome);
        if results.iter().all(Option::is_some) {
            let item = self.seen.design().group(place.group)?.item;
            *self.complete.entry(item).or_default() += 1;
        }
        self.push_complete()?;
        Ok(true)
    }

    /// Hands over groups in the order of the design, as far as they are complete or given up.
    fn push_complete(&mut self) -> Result<(), OutsideError> {
        while self.seen.decision().is_none() && self.seen.next() < self.seen.design().n_groups() {
            let place = self.seen.next();
            let planned = self.seen.design().group(place)?;
            let is_complete =
                self.open.get(&place).is_some_and(|results| results.iter().all(Option::is_some));
            // Others are further: nobody plays this task any more, or its episodes were given up.
            let most = self.complete.values().copied().max().unwrap_or_default();
            if !is_complete && most <= planned.pass.saturating_add(GROUPS_BEHIND) {
                return Ok(());
            }
            let size = usize::try_from(self.group_size()).unwrap_or(usize::MAX);
            let results = self.open.remove(&place).unwrap_or_else(|| vec![None; size]);
            let group = planned.of_rollouts(&results)?;
            self.seen.push(group)?;
        }
        Ok(())
    }

    /// As if the groups that were begun had been given up: who took their places is no longer known.
    fn skip_begun(&mut self) {
        let size = self.group_size();
        for begun in self.begun.values_mut() {
            *begun = begun.div_ceil(size) * size;
        }
    }

    fn report(&self, verdict: Option<TrialVerdict>) -> TrialReport {
        let (numbers, design, first) = (self.seen.numbers(), self.seen.design(), self.seen.first());
        TrialReport {
            candidate: self.candidate().clone(),
            is_retirement: self.is_retirement,
            occasion: self.seen.occasion(),
            items: design.items().len(),
            groups: self.seen.next().saturating_sub(first),
            max_groups: design.n_groups().saturating_sub(first),
            group_size: design.shape().rollouts(),
            e_better: numbers.e_better,
            difference: numbers.difference,
            interval: numbers.interval,
            verdict,
        }
    }
}

impl OutsideBank {
    /// The trial under way.
    pub fn trial_report(&self) -> Option<TrialReport> {
        self.trial.as_ref().map(|trial| trial.report(None))
    }

    /// The trial that could begin now: proposed retirements first, then what was tried least. `None` while one is under
    /// way, and where nothing waits.
    pub fn next_trial(&mut self) -> Option<TrialDraft> {
        if self.trial.is_some() || self.sets.is_none() {
            return None;
        }
        let log = self.bank.log();
        let n_tried = |candidate: &SkillRef| {
            let opened = log.iter().filter(
                |record| matches!(&record.event, BankEvent::TrialOpened { skill, .. } if skill == candidate),
            );
            u32::try_from(opened.count()).unwrap_or(u32::MAX)
        };
        let tried = Candidacy::next(&self.bank, &mut self.retirements, n_tried, u32::MAX)?;
        let [_, with] = tried.arms(&self.bank);
        let items = self
            .visited
            .iter()
            .map(|(item, visited)| (item.clone(), visited.goal.clone(), visited.task_type.clone()));
        Some(TrialDraft { tried, with, items: items.collect() })
    }

    /// What earlier trials of a candidate that came to no verdict have shown together.
    fn e_before(&self, candidate: &SkillRef) -> Option<f64> {
        let shown = self.bank.log().iter().filter_map(|record| match &record.event {
            BankEvent::Measured {
                skill,
                occasion: Occasion::Trial,
                verdict: Some(TrialVerdict::Undecided),
                e_better,
                ..
            } if skill == candidate => *e_better,
            _ => None,
        });
        shown.fold(None, |product, e_value| Some(product.unwrap_or(1.0) * e_value))
    }

    /// Begins a trial on those of the draft's tasks whose agents would be shown the candidate.
    ///
    /// # Errors
    ///
    /// [`OutsideError::Trial`] where it cannot be made on these tasks; nothing has changed then.
    pub fn open_trial(
        &mut self,
        draft: TrialDraft,
        shown: &[ItemId],
    ) -> Result<Option<TrialReport>, OutsideError> {
        let TrialDraft { tried, .. } = draft;
        if self.trial.is_some() || tried.obstacle(&self.bank).is_some() {
            return Ok(None);
        }
        let n_opened = self.bank.log().iter();
        let n_opened =
            n_opened.filter(|record| matches!(record.event, BankEvent::TrialOpened { .. })).count();
        let number = u32::try_from(n_opened).unwrap_or(u32::MAX).saturating_add(1);
        let eligible: Vec<ItemRate> = shown.iter().map(|item| self.rates.of(item)).collect();
        let (samples, e_before) = (self.settings.trial_samples, self.e_before(&tried.skill));
        let settings = self.settings.of_trial(number, samples, self.scores, e_before);
        let design = tried.design(&self.bank, &eligible, settings, self.seed)?;
        let views = tried.arms(&self.bank);
        self.results.append(&Line::Trial {
            trial: number,
            candidate: tried.skill.clone(),
            is_retirement: tried.is_retirement,
            design: design.to_json(),
        })?;
        self.record(self.bank.round(), vec![tried.opened(&design)])?;
        for view in &views {
            self.know(view.clone());
        }
        self.trial = Some(Trial::new(number, tried.is_retirement, SeenGroups::of_trial(design), views));
        Ok(self.trial_report())
    }

    /// Ends the trial under way if its results decide it; says where it is, or how it ended.
    pub(super) fn after_result(&mut self) -> Result<Option<TrialReport>, OutsideError> {
        let Some(trial) = &self.trial else { return Ok(None) };
        if !trial.seen.is_over() {
            return Ok(Some(trial.report(None)));
        }
        let round = self.bank.round();
        let (numbers, skill) = (trial.seen.numbers(), trial.candidate().clone());
        if trial.seen.occasion() == Occasion::AfterAdmission {
            let report = trial.report(None);
            self.trial = None;
            self.record(round, vec![numbers.measured(&skill, Occasion::AfterAdmission, None)])?;
            return Ok(Some(report));
        }
        let verdict = trial.seen.decision().map_or(TrialVerdict::Undecided, |decision| decision.verdict);
        let report = trial.report(Some(verdict));
        let number = trial.number;
        let tried = Candidacy { skill: skill.clone(), is_retirement: trial.is_retirement };
        let design = trial.seen.design().clone();
        // First, so that a process that takes over finds it with the admission.
        let measurement = match verdict {
            TrialVerdict::Admit if !tried.is_retirement => Some(self.plan_measurement(number, &design)?),
            _ => None,
        };
        self.trial = None;
        self.record(round, vec![numbers.measured(&skill, Occasion::Trial, Some(verdict))])?;
        match tried.consequence(&self.bank, verdict) {
            Consequence::Nothing => {}
            Consequence::Event(event) => self.record(round, vec![*event])?,
            Consequence::Hindered(problem) => {
                tracing::warn!(%skill, problem, "the verdict of a trial is not carried out");
                if let Some(released) = tried.released(&self.bank) {
                    self.record(round, vec![released])?;
                }
            }
        }
        for skill in over_cap_of(&self.bank, self.settings.max_active) {
            if obstacle(&self.bank, &skill, true).is_none() {
                self.record(round, vec![BankEvent::Retired { skill, reason: Reason::OverCap }])?;
            }
        }
        let is_active = self.bank.version(&skill).is_some_and(|version| version.state == State::Active);
        if let Some(seen) = measurement.filter(|_| is_active) {
            let views = active_arms(&self.bank, skill);
            for view in &views {
                self.know(view.clone());
            }
            self.trial = Some(Trial::new(number, false, seen, views));
        }
        Ok(Some(report))
    }

    /// Plans the measurement of a skill that is admitted, on further groups of its trial's tasks.
    fn plan_measurement(&mut self, trial: u32, design: &TrialDesign) -> Result<SeenGroups, OutsideError> {
        let longer = design.longer(GROUPS_PER_INTERVAL)?;
        let first = design.n_groups();
        self.results.append(&Line::AfterAdmission {
            trial,
            skill: design.candidate().clone(),
            design: longer.to_json(),
            first,
        })?;
        Ok(SeenGroups::after_admission(longer, first))
    }

    /// Takes up what earlier processes have recorded: their results, and the trial that was under way.
    ///
    /// # Errors
    ///
    /// The design of the trial under way, if it cannot be read, and a result that does not fit it.
    pub(super) fn replay(&mut self, lines: Vec<Line>) -> Result<(), OutsideError> {
        for (number, line) in (1..).zip(lines) {
            match line {
                Line::Trial { trial, candidate, is_retirement, design } => {
                    self.trial = self.reopened(trial, &candidate, is_retirement, (number, &design))?;
                }
                Line::AfterAdmission { trial, skill, design, first } => {
                    let open = self.reopened_measurement(trial, &skill, (number, &design), first)?;
                    self.trial = open.or_else(|| self.trial.take());
                }
                Line::Result { episode, item, skill_version, reward, outcome, trial } => {
                    if let (Some(place), Some(open)) = (&trial, &mut self.trial)
                        && place.trial == open.number
                    {
                        let size = open.group_size();
                        let n_items = open.seen.design().items().len().max(1) as u64;
                        let begun = open.begun.entry(item.clone()).or_default();
                        *begun = (*begun).max(place.group / n_items * size + place.sample as u64 + 1);
                    }
                    self.count(&item, outcome, trial.as_ref())?;
                    self.episodes.recall(episode, skill_version, trial, reward);
                }
            }
        }
        if let Some(trial) = &mut self.trial {
            trial.skip_begun();
        }
        Ok(())
    }

    /// The design in a line of the file.
    fn design(&self, version: &Version, (line, text): (u64, &str)) -> Result<TrialDesign, OutsideError> {
        let design = TrialDesign::from_json(text, &version.evidence);
        let design = design.map_err(|error| self.results.corrupt(line, &error))?;
        design.map_err(|error| self.results.corrupt(line, &error))
    }

    /// A trial of an earlier process, if it is still under way.
    fn reopened(
        &self,
        number: u32,
        candidate: &SkillRef,
        is_retirement: bool,
        design: (u64, &str),
    ) -> Result<Option<Trial>, OutsideError> {
        let expected = if is_retirement { State::Active } else { State::Trial };
        let version = self.bank.version(candidate).filter(|version| version.state == expected);
        // The last event about it is that it began with this design.
        let last = self.bank.log().iter().rev().find_map(|record| match &record.event {
            BankEvent::TrialOpened { skill, design_sha256, .. } if skill == candidate => {
                Some(Some(design_sha256.as_str()))
            }
            BankEvent::Measured { skill, occasion: Occasion::Trial, .. } if skill == candidate => Some(None),
            _ => None,
        });
        let Some((version, opened)) = version.zip(last.flatten()) else { return Ok(None) };
        let design = self.design(version, design)?;
        if design.sha256() != opened {
            return Ok(None);
        }
        let views = Candidacy { skill: candidate.clone(), is_retirement }.arms(&self.bank);
        Ok(Some(Trial::new(number, is_retirement, SeenGroups::of_trial(design), views)))
    }

    /// A measurement that an earlier process began, if it has not ended.
    fn reopened_measurement(
        &self,
        trial: u32,
        skill: &SkillRef,
        design: (u64, &str),
        first: u64,
    ) -> Result<Option<Trial>, OutsideError> {
        let version = self.bank.version(skill).filter(|version| version.state == State::Active);
        let last = self.bank.log().iter().rev().find_map(|record| match &record.event {
            BankEvent::Measured { skill: of, occasion, .. } if of == skill => Some(*occasion),
            _ => None,
        });
        let Some(version) = version.filter(|_| last == Some(Occasion::Trial)) else { return Ok(None) };
        let design = self.design(version, design)?;
        let views = active_arms(&self.bank, skill.clone());
        Ok(Some(Trial::new(trial, false, SeenGroups::after_admission(design, first), views)))
    }
}

/// What the halves are shown that measure an active skill.
fn active_arms(bank: &Bank, skill: SkillRef) -> [BankView; 2] {
    Candidacy { skill, is_retirement: true }.arms(bank)
}
