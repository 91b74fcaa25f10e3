//! One round: proposals that were made from one working skill.
//!
//! 1. For each of them failures are chosen, one after the other, with plays of the working skill.
//! 2. All analysts are asked at the same time.
//! 3. All proposals are screened at the same time, each on its own failures.
//! 4. Those that pass are checked for regressions in order, each on top of those that were taken before it.
//!
//! Every play is certain to be needed when it is begun.

use super::Search;
use crate::error::PipelineError;
use crate::event::Stage;
use crate::memory::StepTrace;
use crate::prompts::PromptLibrary;
use crate::records::document::{ApplySummary, StepAction, StepRecord};
use crate::records::proposal::{PlayPurpose, PlayRecord, ProposalRecord};
use crate::run_dir::notes::{STEP_NOTES_FILE, StepNotes};
use crate::run_dir::{PLAYS_FILE, ROLLOUTS_FILE, atomic};
use crate::stage::StageCtx;
use crate::stage::patterns::patterns;
use crate::stage::reflect::{Material, ReflectSettings, Reflection, propose};
use crate::stage::rollout::{Attempt, Rollouts, rollout_attempts};
use crate::stage::update::{Candidate, update};
use crate::trainer::TrainState;
use crate::trainer::run::Run;
use crate::trainer::state::StepOutcome;
use crate::trainer::step::note_tokens;
use skill_core::search::{
    Estimates, FailureSelection, GROUP, MOST_EDITS, Pick, Regression, ScreenTask, Screening,
    SequentialDecision, TaskScore,
};
use skill_core::{FlipCounts, Gate, ItemId, ItemScore, MeanScore, Patch, RolloutResult, SkillDoc, StepIdx};
use skill_envs::source::document;
use skill_envs::{Item, Split};
use std::collections::{BTreeMap, BTreeSet};

/// The fewest plays that must be left for another play of a group, and for another proposal of a round.
const LEAST_LEFT: f64 = 8.0;
const LEAST_BESIDE: f64 = 20.0;

/// A proposal that is under way.
struct Member {
    record: StepRecord,
    proposal: ProposalRecord,
    /// The results of its plays, in order.
    results: Vec<RolloutResult>,
    /// What the analyst is shown: the failures, and solved tasks.
    failures: Vec<RolloutResult>,
    solved: Vec<RolloutResult>,
    /// Patterns in the failures of all tasks.
    patterns: String,
    patch: Option<Patch>,
    trace: StepTrace,
    /// The skill after the step.
    skill: SkillDoc,
}

/// Plays of training tasks, and what they came to.
#[derive(Default)]
struct Plays {
    records: Vec<PlayRecord>,
    results: Vec<RolloutResult>,
}

/// Who plays training tasks: at a stage, with a skill.
struct Player<'run> {
    rollouts: &'run Rollouts,
    items: &'run [Item],
    gate: Gate,
    ctx: StageCtx<'run>,
}

impl Player<'_> {
    /// Plays these tasks, each in the next sample that `draws` has for it.
    async fn play(
        &self,
        skill: &SkillDoc,
        tasks: &[usize],
        draws: &mut BTreeMap<usize, usize>,
    ) -> Result<Vec<RolloutResult>, PipelineError> {
        let mut attempts = Vec::with_capacity(tasks.len());
        for task in tasks {
            let draw = draws.entry(*task).or_default();
            attempts.extend(self.items.get(*task).map(|item| Attempt { item, draw: *draw, source_idx: 0 }));
            *draw += 1;
        }
        rollout_attempts(self.rollouts, &attempts, &[document(skill)], &self.ctx).await
    }

    fn outcome(&self, result: &RolloutResult) -> TaskScore {
        TaskScore::of(self.gate, ItemScore::from(result))
    }

    /// Whether a proposal solves the tasks that it was made from.
    async fn screen(
        &self,
        skill: &SkillDoc,
        tasks: &[(usize, ScreenTask)],
        estimates: Estimates,
        room: f64,
    ) -> Result<(SequentialDecision, Plays), PipelineError> {
        let of_tasks: Vec<ScreenTask> = tasks.iter().map(|(_, task)| *task).collect();
        let mut screening = Screening::new(&of_tasks, estimates);
        let (mut plays, mut draws) = (Plays::default(), BTreeMap::new());
        while screening.verdict() == SequentialDecision::Open {
            let next: Vec<usize> =
                screening.certain().iter().filter_map(|place| Some(tasks.get(*place)?.0)).collect();
            if (plays.results.len() + next.len()) as f64 > room {
                return Ok((SequentialDecision::Failed, plays));
            }
            for result in self.play(skill, &next, &mut draws).await? {
                let outcome = self.outcome(&result);
                screening.push(outcome);
                plays.push(result, outcome, PlayPurpose::Screening, Some(screening.odds()));
            }
        }
        Ok((screening.verdict(), plays))
    }

    /// Whether a proposal leaves these solved tasks as they are.
    async fn check(
        &self,
        skill: &SkillDoc,
        solved: &[usize],
        estimates: Estimates,
        room: f64,
    ) -> Result<(SequentialDecision, Plays), PipelineError> {
        let mut check = Regression::new(estimates, solved.len());
        let (mut plays, mut draws) = (Plays::default(), BTreeMap::new());
        while check.verdict() == SequentialDecision::Open {
            let from = plays.results.len();
            let next = solved.get(from..from + check.n_certain()).unwrap_or_default();
            if (from + next.len()) as f64 > room || next.is_empty() {
                return Ok((SequentialDecision::Failed, plays));
            }
            for result in self.play(skill, next, &mut draws).await? {
                let outcome = self.outcome(&result);
                check.push(outcome);
                plays.push(result, outcome, PlayPurpose::Regression, Some(check.odds()));
            }
        }
        Ok((check.verdict(), plays))
    }
}

impl Plays {
    fn push(&mut self, result: RolloutResult, outcome: TaskScore, purpose: PlayPurpose, odds: Option<f64>) {
        self.records.push(PlayRecord {
            item: result.id.clone(),
            purpose,
            score: outcome.score,
            kind: result.task_type.clone(),
            odds: odds.map(skill_core::exact::round_6),
        });
        self.results.push(result);
    }
}

impl Member {
    fn add(&mut self, plays: Plays) {
        self.proposal.plays.extend(plays.records);
        self.results.extend(plays.results);
    }

    fn is_open(&self) -> bool {
        self.patch.is_some() && self.record.action == StepAction::Taken
    }
}

impl Run<'_> {
    /// Makes a round; false if the budget has no room for it.
    pub(super) async fn make_round(
        &mut self,
        state: &mut TrainState,
        mut search: Search,
    ) -> Result<bool, PipelineError> {
        let first = StepIdx(state.last_step.0.saturating_add(1));
        let notes = self.notes_at_start(state, first)?;
        let allowance = self.allowance(state, &search)?;
        // Of what is kept for the last comparison, the margin is for this round.
        let mut room = allowance.left - allowance.confirm;
        let Some(mut members) = self.choose(state, &mut search, first, &notes, &mut room).await? else {
            return Ok(false);
        };
        let prompts = self.prompts.clone().with_notes(&notes.told());
        let prompts = prompts.with_size_of(&state.current.skill, self.settings.edit_rules.max_tokens);
        self.ask_analysts(state, &prompts, &mut members).await?;
        let working = state.current.skill.clone();
        for member in &mut members {
            self.apply(member, &working, &notes)?;
        }
        drop_equal(&mut members);
        room -= members.len() as f64;
        let of_each = room / members.len().max(1) as f64;
        self.screen_all(&search, &mut members, of_each).await?;
        let of_screening = |member: &Member| member.proposal.plays_for(PlayPurpose::Screening).count();
        room -= members.iter().map(of_screening).sum::<usize>() as f64;
        let mut skill = working;
        for member in &mut members {
            self.check_member(&mut search, member, &notes, &mut skill, &mut room).await?;
        }
        let outcomes = members
            .into_iter()
            .map(|member| self.finish_member(member, state.flips.clone()))
            .collect::<Result<_, _>>()?;
        self.commit(state, outcomes).await?;
        Ok(true)
    }

    /// Chooses the failures of each analyst; `None` if the budget ends before the first one has any.
    async fn choose(
        &mut self,
        state: &TrainState,
        search: &mut Search,
        first: StepIdx,
        notes: &StepNotes,
        room: &mut f64,
    ) -> Result<Option<Vec<Member>>, PipelineError> {
        let mut members: Vec<Member> = Vec::new();
        let (mut busy, mut draws) = (BTreeSet::new(), BTreeMap::new());
        while members.len() < self.settings.round {
            let is_first = members.is_empty();
            let step = StepIdx(first.0.saturating_add(u32::try_from(members.len()).unwrap_or(u32::MAX)));
            if !is_first && *room < LEAST_BESIDE * (members.len() + 1) as f64 {
                break;
            }
            atomic::remove_dir(&self.dir.step_dir(step))?;
            let watch = self.begin(Some(first), Stage::Rollout);
            let mut plays = Plays::default();
            let mut group = FailureSelection::new(step.0, busy.clone());
            let chosen = loop {
                let tasks = match search.known.pick(&mut group) {
                    Pick::Group(tasks) => break Some(tasks),
                    Pick::Play(tasks) => tasks,
                };
                if *room < LEAST_LEFT + tasks.len() as f64 {
                    break None;
                }
                *room -= tasks.len() as f64;
                let player = self.player(self.stage_ctx(&watch));
                let results = player.play(&state.current.skill, &tasks, &mut draws).await?;
                self.check_target_speaks(&watch, &state.current.skill, &results).await?;
                for result in results {
                    let outcome = player.outcome(&result);
                    plays.push(result, outcome, PlayPurpose::Group, None);
                    // What it is told by is where it is going to be.
                    if let Some(play) = plays.records.last() {
                        search.played((step, plays.records.len() - 1), play);
                    }
                }
            };
            let used = self.end(&watch);
            self.warn_of_replies(Some(step), &plays.results);
            match chosen {
                None if is_first => return Ok(None),
                Some(tasks) if is_first || !tasks.is_empty() => {
                    busy.extend(&tasks);
                    let mut member = self.member(state, search, step, first, &tasks, plays, &members)?;
                    note_tokens(&mut member.record, Stage::Rollout, used);
                    member.record.n_notes_read = Some(notes.n_read).filter(|n_read| *n_read > 0);
                    if let Some(file) = notes.file().filter(|_| is_first) {
                        self.dir.put_json(&self.dir.step_dir(step).join(STEP_NOTES_FILE), &file)?;
                    }
                    self.emit_step_started(step, tasks.len(), notes.n_read);
                    members.push(member);
                    if tasks.is_empty() {
                        break;
                    }
                }
                // Nobody reads them: they are those of the proposal before.
                _ => {
                    if let Some(last) = members.last_mut() {
                        let from = last.proposal.plays.len();
                        for (place, play) in (from..).zip(&plays.records) {
                            search.moved(play, (last.record.step, place));
                        }
                        last.add(plays);
                        note_tokens(&mut last.record, Stage::Rollout, used);
                    }
                    break;
                }
            }
        }
        let most_tries = search.known.most_tries();
        for member in &mut members {
            member.proposal.most_tries = most_tries;
        }
        Ok(Some(members))
    }

    fn player<'own>(&'own self, ctx: StageCtx<'own>) -> Player<'own> {
        let items = self.env.items(Split::Train);
        Player { rollouts: &self.rollouts, items, gate: self.settings.gate, ctx }
    }

    #[expect(clippy::too_many_arguments, reason = "what a proposal begins with")]
    fn member(
        &self,
        state: &TrainState,
        search: &Search,
        step: StepIdx,
        first: StepIdx,
        tasks: &[usize],
        plays: Plays,
        before: &[Member],
    ) -> Result<Member, PipelineError> {
        let shown = search.known.shown_solved(tasks, step.0);
        let result_of = |task: &usize| -> Result<Option<RolloutResult>, PipelineError> {
            let Some((from, place)) = search.source(*task) else { return Ok(None) };
            if from == step {
                return Ok(plays.results.get(place).cloned());
            }
            match before.iter().find(|member| member.record.step == from) {
                Some(member) => Ok(member.results.get(place).cloned()),
                None => self.dir.read_play(from, place).map(Some),
            }
        };
        let results = |tasks: &[usize]| -> Result<Vec<RolloutResult>, PipelineError> {
            tasks.iter().filter_map(|task| result_of(task).transpose()).collect()
        };
        let (failures, solved) = (results(tasks)?, results(&shown)?);
        let patterns = match failures.is_empty() {
            true => String::new(),
            false => patterns(&results(&search.known.failing())?),
        };
        let ids = |results: &[RolloutResult]| results.iter().map(|result| result.id.clone()).collect();
        let mean = MeanScore::of_results(&failures);
        let record = StepRecord {
            batch_item_ids: ids(&failures),
            rollout_n: failures.len(),
            rollout_hard: skill_core::exact::round_6(mean.hard),
            rollout_soft: skill_core::exact::round_6(mean.soft),
            edit_budget: Some(MOST_EDITS),
            ..self.planned_record(state, step)
        };
        let proposal = ProposalRecord {
            round: first,
            group: ids(&failures),
            shown_solved: ids(&solved),
            most_tries: 0,
            plays: Vec::new(),
        };
        let mut member = Member {
            record,
            proposal,
            results: Vec::new(),
            failures,
            solved,
            patterns,
            patch: None,
            trace: StepTrace::default(),
            skill: state.current.skill.clone(),
        };
        member.add(plays);
        Ok(member)
    }

    /// Asks the analyst of each proposal.
    async fn ask_analysts(
        &mut self,
        state: &TrainState,
        prompts: &PromptLibrary,
        members: &mut [Member],
    ) -> Result<(), PipelineError> {
        let asked: Vec<&Member> = members.iter().filter(|member| !member.failures.is_empty()).collect();
        let Some(first) = asked.first() else { return Ok(()) };
        let settings = ReflectSettings {
            minibatch_size: GROUP,
            edit_budget: MOST_EDITS,
            failure_only: true,
            appendix_source: None,
            ends_in_silence: state.history.iter().all(StepRecord::has_no_edit) && !self.skips_empty_replies,
        };
        let watches: Vec<_> =
            asked.iter().map(|member| self.begin(Some(member.record.step), Stage::Reflect)).collect();
        let round = self.begin(Some(first.record.step), Stage::Reflect);
        let reflections = {
            let (optimizer, ctx) = (self.optimizer(), self.stage_ctx(&round));
            let contexts: Vec<StageCtx<'_>> = watches.iter().map(|watch| self.stage_ctx(watch)).collect();
            let work = asked.iter().zip(&contexts).collect();
            ctx.map_ordered(work, async |_, (member, ctx): (&&Member, &StageCtx<'_>)| {
                let shown = Material {
                    failures: member.failures.iter().collect(),
                    solved: member.solved.iter().collect(),
                    patterns: &member.patterns,
                };
                propose(&shown, &state.current.skill, settings, prompts, &optimizer, ctx).await
            })
            .await?
        };
        let asked = members.iter_mut().filter(|member| !member.failures.is_empty());
        for ((member, watch), reflection) in asked.zip(&watches).zip(reflections) {
            note_tokens(&mut member.record, Stage::Reflect, self.end(watch));
            self.take_reflection(member, reflection)?;
        }
        Ok(())
    }

    fn take_reflection(&self, member: &mut Member, reflection: Reflection) -> Result<(), PipelineError> {
        let Reflection { patches, failure_patterns, notes, n_empty, .. } = reflection;
        let Member { record, trace, .. } = member;
        let step_dir = self.dir.step_dir(record.step);
        self.dir.put_json(&step_dir.join("raw_patches.json"), &patches)?;
        self.warn_of_notes(record.step, &notes);
        record.notes.extend(notes);
        record.n_empty_replies = n_empty;
        trace.observe(&member.failures, failure_patterns);
        let patch = patches.into_iter().map(|raw| raw.patch).find(|patch| !patch.edits.is_empty());
        record.n_failure_patches = usize::from(patch.is_some());
        member.patch = patch;
        Ok(())
    }

    /// Applies the edits of a proposal to a skill.
    fn apply(&self, member: &mut Member, skill: &SkillDoc, notes: &StepNotes) -> Result<(), PipelineError> {
        let Member { record, trace, patch: Some(patch), .. } = member else { return Ok(()) };
        let step_dir = self.dir.step_dir(record.step);
        let settings = self.settings;
        let Candidate { skill: candidate, report } =
            update(skill, patch, settings.front_matter, &settings.edit_rules, &notes.constraints);
        self.dir.put_json(&step_dir.join("ranked_patch.json"), patch)?;
        self.dir.put_json(&step_dir.join("edit_apply_report.json"), &report)?;
        self.dir.put_skill(&step_dir.join("candidate_skill.md"), &candidate)?;
        trace.try_patch(patch);
        trace.report(&report);
        (record.n_edits_merged, record.n_edits_ranked) = (Some(patch.edits.len()), Some(patch.edits.len()));
        record.apply_report = Some(ApplySummary::of(&report));
        record.candidate_hash = Some(candidate.hash());
        record.candidate_skill_len = Some(candidate.n_chars());
        record.action = if candidate == *skill { StepAction::SkipNoOp } else { StepAction::Taken };
        member.skill = candidate;
        Ok(())
    }

    /// Screens all proposals of a round at the same time, each within so many plays.
    async fn screen_all(
        &mut self,
        search: &Search,
        members: &mut [Member],
        room: f64,
    ) -> Result<(), PipelineError> {
        let open: Vec<&Member> = members.iter().filter(|member| member.is_open()).collect();
        let Some(first) = open.first() else { return Ok(()) };
        let estimates = search.known.estimates();
        let watches: Vec<_> =
            open.iter().map(|member| self.begin(Some(member.record.step), Stage::Screen)).collect();
        let round = self.begin(Some(first.record.step), Stage::Screen);
        let screened = {
            let ctx = self.stage_ctx(&round);
            let workers = (ctx.workers / open.len()).max(1);
            let players: Vec<Player<'_>> = watches
                .iter()
                .map(|watch| self.player(StageCtx { workers, ahead: 0, ..self.stage_ctx(watch) }))
                .collect();
            let work = open.iter().zip(&players).collect();
            ctx.map_ordered(work, async |_, (member, player): (&&Member, &Player<'_>)| {
                let tasks = named_first(search, member);
                player.screen(&member.skill, &tasks, estimates, room).await
            })
            .await?
        };
        for ((member, watch), (verdict, plays)) in
            members.iter_mut().filter(|member| member.is_open()).zip(&watches).zip(screened)
        {
            note_tokens(&mut member.record, Stage::Screen, self.end(watch));
            self.warn_of_replies(Some(member.record.step), &plays.results);
            member.add(plays);
            if verdict != SequentialDecision::Passed {
                member.record.action = StepAction::Dropped;
            }
        }
        Ok(())
    }

    /// Checks a proposal that passed for regressions, on top of those that were taken before it, and settles it.
    async fn check_member(
        &mut self,
        search: &mut Search,
        member: &mut Member,
        notes: &StepNotes,
        skill: &mut SkillDoc,
        room: &mut f64,
    ) -> Result<(), PipelineError> {
        let step = member.record.step;
        if member.is_open() {
            self.apply(member, skill, notes)?;
        }
        if member.is_open() {
            let solved = search.known.to_check(&search.places_of(&member.proposal.group), step.0);
            let estimates = search.known.estimates();
            let watch = self.begin(Some(step), Stage::Screen);
            let player = self.player(self.stage_ctx(&watch));
            let (verdict, plays) = player.check(&member.skill, &solved, estimates, *room).await?;
            note_tokens(&mut member.record, Stage::Screen, self.end(&watch));
            *room -= plays.results.len() as f64;
            member.add(plays);
            if verdict != SequentialDecision::Passed {
                member.record.action = StepAction::Dropped;
            }
        }
        search.settle(step, member.record.action, &member.proposal);
        if member.record.action == StepAction::Taken {
            skill.clone_from(&member.skill);
        }
        member.record.current_skill_hash = Some(skill.hash());
        Ok(())
    }

    /// What the step of a proposal came to.
    fn finish_member(&self, member: Member, flips: FlipCounts) -> Result<StepOutcome, PipelineError> {
        let Member { mut record, proposal, results, failures, solved, trace, skill, .. } = member;
        let shown: Vec<&RolloutResult> = failures.iter().chain(&solved).collect();
        self.dir.put_json(&self.dir.step_dir(record.step).join(ROLLOUTS_FILE), &shown)?;
        self.dir.put_json(&self.dir.step_dir(record.step).join(PLAYS_FILE), &results)?;
        record.proposal = Some(proposal);
        let digest = trace.entry(&record);
        let with_notes = (record.action == StepAction::Taken).then_some(skill);
        Ok(StepOutcome { record, candidate: None, flips, digest, with_notes })
    }
}

/// The tasks of a proposal, those first that its edits name.
fn named_first(search: &Search, member: &Member) -> Vec<(usize, ScreenTask)> {
    let edits = || member.patch.iter().flat_map(|patch| &patch.edits);
    let is_named = |id: &ItemId| edits().any(|edit| edit.tasks.contains(id));
    let (mut group, names_all) = (member.proposal.group.clone(), edits().all(|edit| !edit.tasks.is_empty()));
    group.sort_by_key(|id| names_all && !is_named(id));
    let places = search.places_of(&group);
    let task = |place: usize| {
        let known = search.known.get(place)?;
        let before = known.outcome.map_or(0.0, |outcome| outcome.score);
        Some((place, ScreenTask { before, fails: known.fails }))
    };
    places.into_iter().filter_map(task).collect()
}

/// Of equal proposals of a round only the first one is tried.
fn drop_equal(members: &mut [Member]) {
    let mut seen: Vec<SkillDoc> = Vec::new();
    for member in members.iter_mut().filter(|member| member.is_open()) {
        if seen.contains(&member.skill) {
            member.record.action = StepAction::SkipNoOp;
        }
        seen.push(member.skill.clone());
    }
}
