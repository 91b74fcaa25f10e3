//! Active skills while a policy is trained: they are measured after their admission, and the standing check hides them.
//!
//! What helped the policy of iteration 10 may be useless to that of iteration 100, which has learnt it. So the standing
//! check remembers the last few intervals between validations alone, and a skill that the policy has internalized can be
//! withdrawn.

use super::Evolving;
use super::state::OpenMeasurement;
use crate::rl::rollout::{Group, Halved, Played, Purpose};
use skill_bank::trial::{
    Candidacy, GROUPS_PER_INTERVAL, Half, HideRule, MIN_STANDING_GROUPS, Standing, StandingRollout,
    TrialDesign, TrialGroups, TrialNumbers, TrialResult, halves, obstacle,
};
use skill_bank::{BankEvent, BankSource, Occasion, Reason, SkillRef};
use skill_core::stats::stratified::GroupShape;
use skill_envs::{Item, TaskView};
use skill_llm::{CallCtx, CallPlace};
use skill_pipeline::error::PipelineError;
use skill_pipeline::records::rl::{CHECKPOINT_FILE, RlMeasured};
use tokio_util::sync::CancellationToken;

/// Intervals between validations that the standing check remembers.
const REMEMBERED_INTERVALS: usize = 4;

impl<'run> Evolving<'run> {
    /// Has an admitted skill measured: the numbers that admitted it are too good on average.
    pub(super) fn measure_after_admission(&mut self, skill: &SkillRef, design: &TrialDesign) {
        match design.longer(GROUPS_PER_INTERVAL) {
            Ok(longer) => {
                let of_admissions = |open: &&OpenMeasurement| open.occasion == Occasion::AfterAdmission;
                let place = self.state.measurements.iter().take_while(of_admissions).count();
                let open = OpenMeasurement {
                    skill: skill.clone(),
                    occasion: Occasion::AfterAdmission,
                    design: longer.to_json(),
                    first: design.n_groups(),
                    groups: Vec::new(),
                };
                self.state.measurements.insert(place, open);
            }
            Err(error) => {
                self.record.notes.push(format!("{skill} is not measured after its admission: {error}"));
            }
        }
    }

    /// Has it measured whether the policy still needs an active skill, where no other measurement waits.
    pub(super) async fn open_withdrawal(
        &mut self,
        iteration: u64,
        cancel: &CancellationToken,
    ) -> Result<(), PipelineError> {
        while self.state.measurements.is_empty()
            && let Some(skill) = self.next_to_withdraw()
        {
            *self.state.n_measured.entry(skill.clone()).or_default() += 1;
            let tried = Candidacy { skill: skill.clone(), is_retirement: true };
            match self.design(iteration, &tried, cancel).await? {
                Ok(design) => self.state.measurements.push(OpenMeasurement {
                    skill,
                    occasion: Occasion::Withdrawal,
                    design: design.to_json(),
                    first: 0,
                    groups: Vec::new(),
                }),
                Err(error) => self.record.notes.push(format!("{skill} is not measured: {error}")),
            }
        }
        Ok(())
    }

    /// The active skill whose withdrawal is measured next: the one for which that was done least, and the earliest in
    /// the bank of equal ones.
    fn next_to_withdraw(&self) -> Option<SkillRef> {
        if self.settings.withdraw_below <= 0.0 || !self.settings.can_halve_groups() {
            return None;
        }
        let bank = self.bank.bank();
        let n_measured = |skill: &SkillRef| self.state.n_measured.get(skill).copied().unwrap_or_default();
        let most = u32::try_from(self.turns_by_now()).unwrap_or(u32::MAX);
        let view = bank.view();
        let active = view.skills().iter().map(|skill| &skill.id);
        let active = active.filter(|skill| obstacle(bank, skill, true).is_none());
        active.filter(|skill| n_measured(skill) < most).min_by_key(|skill| n_measured(skill)).cloned()
    }

    /// Drops measurements of skills that a person has retired since.
    pub(super) fn drop_measurements(&mut self) {
        let bank = self.bank.bank();
        self.state.measurements.retain(|open| is_active(bank, &open.skill));
    }

    /// True if the next measurement is that of an admitted skill, which no trial precedes.
    pub(super) fn measures_an_admission(&self) -> bool {
        self.state.measurements.first().is_some_and(|open| open.occasion == Occasion::AfterAdmission)
    }

    /// The next groups of the measurement under way, at most so many.
    pub(super) fn groups_of_measurement(&self, room: usize) -> Result<Vec<Group<'run>>, PipelineError> {
        let Some(open) = self.state.measurements.first() else { return Ok(Vec::new()) };
        let design = self.design_of(&open.skill, &open.design)?;
        let tried = Candidacy { skill: open.skill.clone(), is_retirement: true };
        let sources = self.shown_to_halves(&tried)?;
        let first = open.first.saturating_add(open.groups.len() as u64);
        let places = (first..design.n_groups()).take(room);
        self.planned_groups(&design, places, &sources, |_| Purpose::Measurement)
    }

    pub(super) fn note_measurement(&mut self, results: Vec<TrialResult>) {
        if let Some(open) = self.state.measurements.first_mut() {
            open.groups.push(results);
        }
    }

    /// Ends the measurement under way once all of its groups are in, or once they say enough for its purpose.
    pub(super) async fn end_measurement(&mut self, iteration: u64) -> Result<(), PipelineError> {
        let Some(open) = self.state.measurements.first() else { return Ok(()) };
        let design = self.design_of(&open.skill, &open.design)?;
        let mut groups = TrialGroups::new(&design);
        for (place, results) in (open.first..).zip(&open.groups) {
            groups.push(design.group_of(place, results).map_err(|error| self.trial_error(&error))?);
        }
        let is_complete = open.first.saturating_add(open.groups.len() as u64) >= design.n_groups();
        let (is_harmful, helps) = (groups.is_worse(), groups.is_better(design.rule()));
        let is_withdrawal = open.occasion == Occasion::Withdrawal;
        if !is_complete && !(is_withdrawal && (is_harmful || helps)) {
            return Ok(());
        }
        let open = self.state.measurements.remove(0);
        let numbers = groups.numbers();
        self.record_measurement(iteration, &open.skill, open.occasion, numbers).await?;
        if obstacle(self.bank.bank(), &open.skill, true).is_some() {
            return Ok(());
        }
        if !is_withdrawal {
            self.state.after_admission.insert(open.skill, numbers);
            return Ok(());
        }
        if is_harmful {
            return self.retire(iteration, &open.skill, Reason::Harmful).await;
        }
        if numbers.odds_interval.high.is_some_and(|high| high < self.settings.withdraw_below) {
            self.retire(iteration, &open.skill, Reason::Internalized).await?;
            self.record.internalized.push(open.skill.to_string());
            self.state.n_internalized += 1;
        }
        Ok(())
    }

    /// A design of the checkpoint.
    pub(super) fn design_of(&self, skill: &SkillRef, design: &str) -> Result<TrialDesign, PipelineError> {
        let evidence = self.bank.bank().version(skill).map(|version| version.evidence.clone());
        let corrupt =
            |message: String| PipelineError::Corrupt { path: self.dir.join(CHECKPOINT_FILE), message };
        TrialDesign::from_json(design, &evidence.unwrap_or_default())
            .map_err(|error| corrupt(error.to_string()))?
            .map_err(|error| self.trial_error(&error))
    }

    async fn record_measurement(
        &mut self,
        iteration: u64,
        skill: &SkillRef,
        occasion: Occasion,
        numbers: TrialNumbers,
    ) -> Result<(), PipelineError> {
        self.record_events(iteration, [numbers.measured(skill, occasion, None)]).await?;
        self.record.measured.push(RlMeasured { skill: skill.to_string(), occasion, numbers });
        Ok(())
    }

    /// The groups of these tasks. In some of them a shown skill is hidden from one half.
    pub(super) async fn groups_of_standing_check(
        &mut self,
        iteration: u64,
        items: impl Iterator<Item = &'run Item>,
        cancel: &CancellationToken,
    ) -> Result<Vec<Group<'run>>, PipelineError> {
        let view = self.bank.bank().view();
        if view.skills().is_empty() || !self.settings.can_halve_groups() {
            return Ok(items.map(Group::whole).collect());
        }
        let source = self.bank_source(view)?;
        let seed = self.settings.seed;
        let hide = HideRule { one_in: self.setup.settings.hides_one_in(), seed };
        let pass = super::round_of(iteration);
        let shape = GroupShape::halves(u32::try_from(self.settings.group_size).unwrap_or(u32::MAX));
        let mut groups = Vec::new();
        for item in items {
            if !hide.hides_in_group(&item.id, pass) {
                groups.push(Group::whole(item));
                continue;
            }
            let shown = self.selected(iteration, &source, item, cancel).await?;
            let Some(hidden) = hide.hidden_in_group(&item.id, pass, &shown) else {
                groups.push(Group::whole(item));
                continue;
            };
            self.record.hidden.push(hidden.to_string());
            groups.push(Group {
                item,
                halved: Some(Halved {
                    halves: halves(seed, hidden, &item.id, pass, shape),
                    sources: self
                        .shown_to_halves(&Candidacy { skill: hidden.clone(), is_retirement: true })?,
                    purpose: Purpose::Standing(hidden.clone()),
                }),
            });
        }
        Ok(groups)
    }

    /// The skills that a task would be shown.
    pub(super) async fn selected(
        &self,
        iteration: u64,
        source: &BankSource,
        item: &Item,
        cancel: &CancellationToken,
    ) -> Result<Vec<SkillRef>, PipelineError> {
        let goal = self.env.goal(item).unwrap_or_default();
        let place = CallPlace::new(format_args!("iteration {iteration}")).child(&item.id).child("skill");
        let call = CallCtx { cancel: cancel.clone(), ..CallCtx::new(place.clone()) };
        let selected = source.selection(&TaskView::new(item, &goal), &call).await;
        let selected = selected.map_err(|source| PipelineError::Rollout {
            place: place.to_string(),
            item: item.id.clone(),
            source,
        })?;
        Ok(selected.shown.into_iter().map(|shown| shown.id).collect())
    }

    pub(super) fn note_standing(&mut self, hidden: &SkillRef, played: &[&Played]) {
        let rollouts = played.iter().map(|played| StandingRollout {
            hidden: (played.half == Some(Half::Without)).then(|| hidden.clone()),
            is_success: played.is_success,
        });
        let rollouts: Vec<StandingRollout> = rollouts.collect();
        if self.state.standing.is_empty() {
            self.state.standing.push(Standing::default());
        }
        if let Some(interval) = self.state.standing.last_mut() {
            interval.push(std::slice::from_ref(hidden), &rollouts);
        }
    }

    /// Begins another interval of the standing check, and forgets what is too old.
    pub(super) fn begin_standing_interval(&mut self) {
        let standing = &mut self.state.standing;
        if standing.last().is_some_and(|interval| interval.all().next().is_some()) {
            standing.push(Standing::default());
        }
        standing.drain(..standing.len().saturating_sub(REMEMBERED_INTERVALS));
    }

    /// What the standing check knows.
    fn remembered(&self) -> Standing {
        let mut remembered = Standing::default();
        self.state.standing.iter().for_each(|interval| remembered.add(interval));
        remembered
    }

    /// Retires what the standing check has shown to harm.
    pub(super) async fn check_standing(&mut self, iteration: u64) -> Result<(), PipelineError> {
        let standing = self.remembered();
        for skill in standing.harmful(MIN_STANDING_GROUPS) {
            let Some(numbers) = standing.numbers(skill) else { continue };
            if obstacle(self.bank.bank(), skill, true).is_some() {
                continue;
            }
            self.record_measurement(iteration, skill, Occasion::Standing, numbers).await?;
            self.retire(iteration, skill, Reason::Harmful).await?;
        }
        Ok(())
    }

    async fn retire(
        &mut self,
        iteration: u64,
        skill: &SkillRef,
        reason: Reason,
    ) -> Result<(), PipelineError> {
        self.record_events(iteration, [BankEvent::Retired { skill: skill.clone(), reason }]).await?;
        self.record.retired.push(skill.to_string());
        self.state.standing.iter_mut().for_each(|interval| interval.forget(skill));
        self.state.after_admission.remove(skill);
        Ok(())
    }

    /// Skills that were withdrawn since the policy wins as often without them.
    pub(in crate::rl) fn internalized(&self) -> u32 {
        self.state.n_internalized
    }

    /// What is known of active skills, in the order of their ids.
    pub(in crate::rl) fn measured(&self) -> Vec<RlMeasured> {
        let bank = self.bank.bank();
        let standing = self.remembered();
        let after = self.state.after_admission.iter().map(|(skill, numbers)| (skill, *numbers));
        let fresh = after.map(|(skill, numbers)| (skill, Occasion::AfterAdmission, numbers));
        let hidden = standing.all().map(|(skill, numbers)| (skill, Occasion::Standing, numbers));
        let known = fresh.chain(hidden).filter(|(skill, ..)| is_active(bank, skill));
        let mut known: Vec<RlMeasured> = known
            .map(|(skill, occasion, numbers)| RlMeasured { skill: skill.to_string(), occasion, numbers })
            .collect();
        known.sort_by(|one, other| one.skill.cmp(&other.skill));
        known
    }
}

fn is_active(bank: &skill_bank::Bank, skill: &SkillRef) -> bool {
    bank.version(skill).is_some_and(|version| version.state == skill_bank::State::Active)
}
