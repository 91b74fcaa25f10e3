//! A planned search: proposals in rounds, and comparisons of what has gathered.
//!
//! What is done next follows from the records of finished steps ([`Search::of`]) and from the budget of the settings, never
//! from a clock or from what was in flight. A round is committed as a whole: a process that dies in one begins it again,
//! and has its replies and rollouts from the journal.
//!
//! The current skill of the state is the *working skill*, with everything that was taken; its scores, and the best skill,
//! are those of the *incumbent*, which was compared last.

mod round;

use super::TrainState;
use super::run::Run;
use super::state::StepOutcome;
use super::step::Decision;
use crate::error::PipelineError;
use crate::event::{Event, EventSink as _};
use crate::memory::StepTrace;
use crate::records::document::{StepAction, StepRecord};
use crate::records::proposal::{ComparisonRecord, PlayPurpose, PlayRecord, ProposalRecord};
use crate::run_dir::atomic;
use crate::shell::spans;
use skill_core::search::{Adopted, Due, KnownTasks, SearchRules, TaskScore};
use skill_core::search_plan::SearchCost;
use skill_core::{EpochIdx, GateMode, ItemId, StepIdx};
use skill_envs::{Item, Split};
use std::collections::BTreeMap;
use tracing::Instrument as _;

/// All steps of a planned search are of one epoch.
const EPOCH: EpochIdx = EpochIdx(1);

/// What the records of a run say of its search.
pub(super) struct Search {
    pub(super) known: KnownTasks,
    /// The training tasks by id.
    places: BTreeMap<ItemId, usize>,
    /// Where the result behind each task's last outcome is: a step, and the place in its plays.
    sources: Vec<Option<(StepIdx, usize)>>,
    /// Proposals that were taken and not compared yet.
    pub(super) pending: Vec<StepIdx>,
    /// Plays and replies since the last comparison.
    pub(super) since: f64,
    /// True if no task is left to read.
    pub(super) is_over: bool,
    /// Proposals in a row, up to now, of which none was taken.
    pub(super) in_vain: usize,
    /// Proposals in a row, up to now, that changed nothing in the working skill.
    pub(super) unchanged: usize,
}

impl Search {
    /// What is known after these steps.
    pub(super) fn of(items: &[Item], history: &[StepRecord], rules: SearchRules) -> Self {
        let mut search = Self {
            known: KnownTasks::new(items.len(), rules),
            places: items.iter().map(|item| item.id.clone()).zip(0..).collect(),
            sources: vec![None; items.len()],
            pending: Vec::new(),
            since: 0.0,
            is_over: false,
            in_vain: 0,
            unchanged: 0,
        };
        let round = |record: &StepRecord| record.proposal.as_ref().map(|proposal| proposal.round);
        for steps in history.chunk_by(|one, next| round(one).is_some() && round(one) == round(next)) {
            let proposals = || steps.iter().filter_map(|record| Some((record, record.proposal.as_ref()?)));
            for (record, proposal) in proposals() {
                for (place, play) in proposal.plays.iter().enumerate() {
                    if play.purpose == PlayPurpose::Group {
                        search.played((record.step, place), play);
                    }
                }
                search.known.set_most_tries(proposal.most_tries);
            }
            for (record, proposal) in proposals() {
                search.settle(record.step, record.action, proposal);
            }
            for record in steps.iter().filter(|record| record.comparison.is_some()) {
                search.compared(record);
            }
        }
        search
    }

    /// The places of these tasks.
    pub(super) fn places_of(&self, ids: &[ItemId]) -> Vec<usize> {
        ids.iter().filter_map(|id| self.places.get(id).copied()).collect()
    }

    /// Where the result behind a task's last outcome is.
    pub(super) fn source(&self, task: usize) -> Option<(StepIdx, usize)> {
        self.sources.get(task).copied().flatten()
    }

    /// Takes a play of the working skill.
    pub(super) fn played(&mut self, source: (StepIdx, usize), play: &PlayRecord) {
        let Some(&task) = self.places.get(&play.item) else { return };
        self.known.played(task, TaskScore { score: play.score }, &play.kind);
        self.set_source(task, source);
    }

    /// A play is kept in another place than it was to be.
    fn moved(&mut self, play: &PlayRecord, source: (StepIdx, usize)) {
        if let Some(&task) = self.places.get(&play.item) {
            self.set_source(task, source);
        }
    }

    fn set_source(&mut self, task: usize, source: (StepIdx, usize)) {
        if let Some(place) = self.sources.get_mut(task) {
            *place = Some(source);
        }
    }

    /// Takes what a proposal came to; the plays for its group are known already.
    pub(super) fn settle(&mut self, step: StepIdx, action: StepAction, proposal: &ProposalRecord) {
        self.since += proposal.plays.len() as f64 + 1.0;
        self.is_over = proposal.group.is_empty();
        self.known.aimed_at(&self.places_of(&proposal.group));
        let plays = |purpose: PlayPurpose| -> Vec<(usize, Adopted)> {
            let own = proposal.plays.iter().enumerate().filter(|(_, play)| play.purpose == purpose);
            let adopted = own.filter_map(|(place, play)| {
                let task = *self.places.get(&play.item)?;
                Some((place, Adopted { task, outcome: TaskScore { score: play.score } }))
            });
            adopted.collect()
        };
        let (screened, checked) = (plays(PlayPurpose::Screening), plays(PlayPurpose::Regression));
        // Only a proposal that changes the skill is screened.
        self.unchanged = if screened.is_empty() { self.unchanged + 1 } else { 0 };
        match action {
            StepAction::Taken => {
                let seen: Vec<(usize, Adopted)> = screened.into_iter().chain(checked).collect();
                self.known.taken(&seen.iter().map(|(_, adopted)| *adopted).collect::<Vec<_>>());
                for (place, adopted) in seen {
                    self.set_source(adopted.task, (step, place));
                }
                self.pending.push(step);
                self.in_vain = 0;
            }
            _ => {
                self.in_vain += 1;
                if action == StepAction::Dropped && checked.is_empty() && !screened.is_empty() {
                    self.known.dropped(&screened.iter().map(|(_, adopted)| *adopted).collect::<Vec<_>>());
                }
                for (_, adopted) in checked {
                    self.known.checked(adopted.task);
                }
            }
        }
    }

    /// Takes what a comparison came to.
    fn compared(&mut self, record: &StepRecord) {
        self.pending.clear();
        self.since = 0.0;
        if record.action.is_accept() {
            let counts = record.paired.as_ref();
            let n_solved = record.comparison.as_ref().map(|comparison| comparison.incumbent_solved);
            let (solved, lost) = (n_solved.unwrap_or_default(), counts.map_or(0, |paired| paired.losses));
            let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
            self.known.accepted(number(solved), number(lost));
        } else {
            (self.is_over, self.unchanged) = (false, 0);
            self.known.rejected();
        }
    }
}

impl Run<'_> {
    /// What the finished steps say of the search.
    pub(super) fn search(&self, state: &TrainState) -> Search {
        let rules = SearchRules { seed: self.settings.seed, is_deterministic: self.is_deterministic() };
        Search::of(self.env.items(Split::Train), &state.history, rules)
    }

    /// True if the target samples nothing, by its parameters.
    fn is_deterministic(&self) -> bool {
        let parameters = self.rollouts.target().parameters();
        parameters.get("temperature").and_then(serde_json::Value::as_f64) == Some(0.0)
    }

    /// Makes proposals and comparisons for as long as there is room.
    pub(super) async fn follow_the_plan(&mut self, state: &mut TrainState) -> Result<(), PipelineError> {
        loop {
            let search = self.search(state);
            let due = self.next_due(state, &search)?;
            if due == Due::Nothing {
                self.length.1 = state.last_step.0;
                return Ok(());
            }
            self.check_stop(state.last_step, self.length.1)?;
            // A reply of the optimizer may take more than a play, so what was taken keeps its comparison.
            let compared = match due {
                Due::Proposal => {
                    let confirm = self.allowance(state, &search)?.confirm;
                    self.rollout_of(state, &state.current)?.times(confirm)
                }
                Due::Comparison | Due::Nothing => SearchCost::default(),
            };
            self.set_aside(state, compared)?;
            self.bound_workers(Some(state))?;
            let step = StepIdx(state.last_step.0.saturating_add(1));
            let span = spans::of_step(step, EPOCH);
            let made = match due {
                Due::Proposal => self.make_round(state, search).instrument(span).await,
                Due::Comparison => self.make_comparison(state, &search).instrument(span).await.map(|()| true),
                Due::Nothing => Ok(true),
            };
            match made.map_err(|error| self.or_stopped(error, state.last_step)) {
                Ok(true) => {}
                Ok(false) => self.end_for_room(state)?,
                Err(PipelineError::Capped { what, .. }) if self.budget.is_some() && what != "time" => {
                    self.give_up(state, step, what)?;
                    if due == Due::Comparison {
                        self.length.1 = state.last_step.0;
                        return Ok(());
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// What is to be done next.
    fn next_due(&mut self, state: &TrainState, search: &Search) -> Result<Due, PipelineError> {
        self.check_counts(state)?;
        let allowance = self.allowance(state, search)?;
        let is_over = self.end_of(state, search).is_some()
            || search.is_over
            || state.no_room == Some(self.settings.search.budget);
        let due = if is_over { Due::Nothing } else { allowance.due() };
        self.tell_plan(state, &allowance)?;
        // What was taken is compared before the end.
        let can_compare = !search.pending.is_empty() && allowance.left >= allowance.confirm;
        Ok(if due == Due::Nothing && can_compare { Due::Comparison } else { due })
    }

    /// The record of a step of which nothing is known yet.
    fn planned_record(&self, state: &TrainState, step: StepIdx) -> StepRecord {
        let mode = self.settings.evidence.mode;
        StepRecord {
            step_in_epoch: usize::try_from(step.0.saturating_sub(1)).unwrap_or(usize::MAX),
            batch_seed: self.settings.seed,
            lr_control_mode: self.settings.effective_budget_control(),
            gate_metric: self.settings.gate.metric.as_str().to_owned(),
            gate_mode: Some(mode)
                .filter(|mode| *mode != GateMode::Strict)
                .map(|mode| mode.as_str().to_owned()),
            score_before: state.current.score,
            current_score: state.current.score,
            best_score: state.best.score,
            best_step: state.best.id.origin.step(),
            ..StepRecord::begun(step, EPOCH)
        }
    }

    /// The working skill against the incumbent on the validation split.
    async fn make_comparison(
        &mut self,
        state: &mut TrainState,
        search: &Search,
    ) -> Result<(), PipelineError> {
        let step = StepIdx(state.last_step.0.saturating_add(1));
        let step_dir = self.dir.step_dir(step);
        atomic::remove_dir(&step_dir)?;
        self.emit_step_started(step, 0, 0);
        let working = state.current.skill.clone();
        self.dir.put_skill(&step_dir.join("candidate_skill.md"), &working)?;
        let incumbent = TrainState { current: state.best.clone(), ..state.clone() };
        let incumbent_solved =
            incumbent.current.item_scores.iter().filter(|score| score.is_success()).count();
        let mut record = StepRecord {
            comparison: Some(ComparisonRecord { proposals: search.pending.clone(), incumbent_solved }),
            candidate_hash: Some(working.hash()),
            candidate_skill_len: Some(working.n_chars()),
            ..self.planned_record(state, step)
        };
        let Decision { candidate, flips } = self.decide(&incumbent, working, &mut record).await?;
        let is_accepted = record.action.is_accept();
        let text = (!is_accepted).then(|| state.best.skill.clone());
        record.current_skill_hash = Some(text.as_ref().unwrap_or(&state.current.skill).hash());
        let digest = StepTrace::default().entry(&record);
        self.commit(state, vec![StepOutcome { record, candidate, flips, digest, with_notes: text }]).await
    }

    pub(super) fn emit_step_started(&self, step: StepIdx, batch_size: usize, n_notes: usize) {
        let total_steps = self.length.1.max(step.0);
        self.log.emit(&Event::StepStarted { step, total_steps, epoch: EPOCH, batch_size, n_notes });
    }
}
