//! A bank that evolves while its policy is trained.
//!
//! The groups of an iteration are the trial of a candidate: half of a group's episodes may be shown it, half are not, and
//! the advantage of an episode is taken in its half. At each validation a teacher reads failures of weak types and
//! proposes candidates. The tasks that a teacher reads and those of trials are disjoint, as in runs that train a bank
//! alone, whose settings hold here.

use super::bank::RlBank;
use super::record::RlBankIteration;
use super::rollout::{Group, Played};
use super::settings::RlSettings;
use crate::bank::record::BANK_DIR;
use crate::bank::{
    LiveBank, TrialKind, admission, chosen, episode_of, first_of_its_tier, forbid_items, item_sets, measured,
    obstacle, over_cap_of, teacher_error,
};
use crate::bank_dir::{BankDir, is_bank};
use crate::error::PipelineError;
use crate::run_dir::line_log::LineLog;
use crate::run_dir::{RunDir, atomic};
use serde::{Deserialize, Serialize};
use skill_bank::distill::{Admit, DistillError, LeftOut, Proposal, Teacher, apply};
use skill_bank::episode::ItemSets;
use skill_bank::evolve::{EvolvePlan, EvolveSettings, evolve};
use skill_bank::lint::Forbidden;
use skill_bank::trial::{
    ItemRate, TrialDesign, TrialError, TrialOutcome, TrialResult, TrialSettings, TrialState, TriedItems,
};
use skill_bank::{
    Bank, BankError, BankEvent, BankSource, BankView, Episode, Occasion, Reason, SkillRef, State, Verdict,
};
use skill_core::stats::stratified::TrialRule;
use skill_core::{ItemId, SkillDoc};
use skill_envs::source::document;
use skill_envs::{Env, Item, SkillSource, Split, TaskView};
use skill_llm::{CallCtx, CallPlace, ChatModel, EmbeddingModel, Journal, JournalOptions, Journaled};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// The folder of the episodes that the next evolution reads.
const EPISODES_DIR: &str = "episodes";
/// Groups between two looks at a trial, at least.
const GROUPS_PER_LOOK: usize = 16;

/// Where the evolution of a run is, as its checkpoint has it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(super) struct EvolutionState {
    /// Events of the bank's log.
    events: u64,
    /// The trial under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    trial: Option<OpenTrial>,
    /// Trials that were opened.
    n_trials: u32,
    /// Skills that became active.
    n_admissions: u32,
    /// Those since the last validation.
    n_admitted_since_validation: usize,
    /// How often it was each candidate's turn.
    n_tried: BTreeMap<SkillRef, u32>,
    /// The product of the e-values of trials without a verdict, by candidate.
    e_before: BTreeMap<SkillRef, f64>,
    /// Active skills whose retirement was proposed and is not tried yet.
    retirements: Vec<SkillRef>,
    /// Successes and episodes of tasks without candidates.
    rates: BTreeMap<ItemId, [u32; 2]>,
    /// What trials compare.
    outcome: TrialOutcome,
    /// The iteration of the last evolution.
    since: u64,
    /// Episodes since then that a teacher may read.
    episodes: u64,
    /// What happened to the bank and is in no record of an iteration yet.
    #[serde(default)]
    unrecorded: RlBankIteration,
}

/// A trial that was opened and is not decided.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct OpenTrial {
    candidate: SkillRef,
    is_retirement: bool,
    /// The design, as JSON.
    design: String,
    /// The results of its groups so far.
    groups: Vec<Vec<TrialResult>>,
}

/// The evolution of a run that this process holds.
pub(super) struct Evolving<'run> {
    setup: &'run RlBank,
    env: &'run dyn Env,
    settings: &'run RlSettings,
    dir: PathBuf,
    bank: LiveBank,
    sets: ItemSets,
    forbidden: Forbidden,
    frame: SkillDoc,
    teacher: Option<Arc<dyn ChatModel>>,
    embedding: Option<Arc<dyn EmbeddingModel>>,
    journal: Option<Journal>,
    state: EvolutionState,
    trial: Option<TrialState>,
    log: LineLog,
    /// The episodes of `log`.
    episodes: Vec<Episode>,
    /// What happened since the last iteration was recorded.
    record: RlBankIteration,
}

impl<'run> Evolving<'run> {
    /// Takes the evolution up where a checkpoint left it.
    pub(super) fn open(
        setup: &'run RlBank,
        env: &'run dyn Env,
        settings: &'run RlSettings,
        dir: &RunDir,
        kept: Option<EvolutionState>,
    ) -> Result<Self, PipelineError> {
        let path = dir.path().join(BANK_DIR);
        let initial = match &kept {
            Some(kept) if is_bank(&path) => first_events(&path, kept.events)?,
            Some(_) | None => setup.initial.clone(),
        };
        let source = setup.source.as_ref().map(|(format, text)| (*format, text.as_str()));
        let bank = LiveBank::open(&path, &initial, source)?;
        let mut state = kept.unwrap_or_default();
        let record = std::mem::take(&mut state.unrecorded);
        let needs_journal = setup.teacher.is_some() || setup.embedding.is_some();
        let journal = match needs_journal {
            true => Some(dir.open_journal(JournalOptions::default(), false)?),
            false => None,
        };
        if let (Some(budget), Some(journal)) = (&setup.budget, &journal) {
            budget.begin(journal);
        }
        let kept_calls = |model: &Arc<dyn ChatModel>| match &journal {
            Some(journal) => {
                Arc::new(Journaled::new(Arc::clone(model), journal.clone())) as Arc<dyn ChatModel>
            }
            None => Arc::clone(model),
        };
        let embedding = setup.embedding.as_ref().map(|model| match &journal {
            Some(journal) => Arc::new(Journaled::embedding(Arc::clone(model), journal.clone())),
            None => Arc::clone(model),
        });
        let (log, lines) = LineLog::open(&episodes_file(dir.path(), state.since), state.episodes)?;
        let mut episodes = Vec::with_capacity(lines.len());
        for line in &lines {
            episodes.extend(log.record::<Episode>(Some(line))?);
        }
        let mut forbidden = Forbidden::new();
        forbid_items(&mut forbidden, env);
        let frame = setup.frame.clone().unwrap_or_default();
        let mut evolving = Self {
            setup,
            env,
            settings,
            dir: dir.path().to_owned(),
            bank,
            sets: item_sets(env, setup.settings.trial_share, settings.seed)?,
            forbidden,
            frame,
            teacher: setup.teacher.as_ref().map(kept_calls),
            embedding,
            journal,
            trial: None,
            state,
            log,
            episodes,
            record,
        };
        evolving.trial = evolving.reopened()?;
        Ok(evolving)
    }

    /// The trial of the checkpoint with the groups that it has seen.
    fn reopened(&self) -> Result<Option<TrialState>, PipelineError> {
        let Some(open) = &self.state.trial else { return Ok(None) };
        let corrupt = |message: String| PipelineError::Corrupt {
            path: self.dir.join(super::record::CHECKPOINT_FILE),
            message,
        };
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

    /// Where the evolution is now, for a checkpoint.
    pub(super) fn state(&self) -> EvolutionState {
        EvolutionState {
            events: self.bank.bank().log().len() as u64,
            episodes: self.log.n_lines(),
            unrecorded: self.record.clone(),
            ..self.state.clone()
        }
    }

    /// The bank as it is.
    pub(super) fn bank(&self) -> &Bank {
        self.bank.bank()
    }

    /// Trials that were opened, and skills that became active.
    pub(super) fn counts(&self) -> [u32; 2] {
        [self.state.n_trials, self.state.n_admissions]
    }

    /// What agents are shown.
    pub(super) fn source(&self) -> Result<Arc<dyn SkillSource>, PipelineError> {
        self.shown(self.bank.bank().view())
    }

    /// What agents are shown without a bank.
    pub(super) fn without_skills(&self) -> Arc<dyn SkillSource> {
        document(&self.frame)
    }

    fn shown(&self, view: BankView) -> Result<Arc<dyn SkillSource>, PipelineError> {
        if view.skills().is_empty() {
            return Ok(self.without_skills());
        }
        Ok(Arc::new(self.bank_source(view)?))
    }

    fn bank_source(&self, view: BankView) -> Result<BankSource, PipelineError> {
        let source = BankSource::new(view, &self.setup.retrieval, self.embedding.clone())
            .map_err(|error| self.bank_error(error))?;
        Ok(if self.frame.is_blank() { source } else { source.with_frame(self.frame.clone()) })
    }

    /// The groups of an iteration: up to half of them are the next groups of the trial under way.
    pub(super) async fn groups(
        &mut self,
        iteration: u64,
        regular: Vec<&'run Item>,
        cancel: &CancellationToken,
    ) -> Result<Vec<Group<'run>>, PipelineError> {
        let n_groups = regular.len();
        if self.trial.is_none() {
            self.open_trial(iteration, cancel).await?;
        }
        let mut groups = Vec::with_capacity(n_groups);
        if let Some(trial) = &self.trial {
            let items: BTreeMap<&ItemId, &'run Item> =
                self.env.items(Split::Train).iter().map(|item| (&item.id, item)).collect();
            let (first, end) = (trial.n_seen(), trial.design().n_groups());
            for place in (first..end).take(n_groups.div_ceil(2)) {
                let planned = trial.design().group(place).map_err(|error| self.trial_error(&error))?;
                if let Some(item) = items.get(&planned.item) {
                    groups.push(Group { item, planned: Some(planned) });
                }
            }
            self.record.trial = Some(trial.design().candidate().to_string());
        }
        let n_trial = groups.len();
        let regular = regular.into_iter().take(n_groups.saturating_sub(n_trial));
        groups.extend(regular.map(|item| Group { item, planned: None }));
        Ok(groups)
    }

    /// What is shown: to episodes outside of a trial, and to its halves without and with the candidate.
    pub(super) fn sources(&self) -> Result<[Arc<dyn SkillSource>; 3], PipelineError> {
        let view = self.bank.bank().view();
        let plain = self.shown(view.clone())?;
        let Some(open) = &self.state.trial else {
            return Ok([Arc::clone(&plain), Arc::clone(&plain), plain]);
        };
        let [without, with] = self.arms(&open.candidate, open.is_retirement);
        Ok([plain, self.shown(without)?, self.shown(with)?])
    }

    /// The views of the halves of a trial.
    fn arms(&self, candidate: &SkillRef, is_retirement: bool) -> [BankView; 2] {
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
        let most = u32::try_from(self.record_turns()).unwrap_or(u32::MAX);
        let candidates = candidates.filter(|candidate| n_tried(candidate) < most);
        candidates.min_by_key(n_tried).map(|candidate| (candidate, false))
    }

    /// Turns that a candidate may have had by now: one, and one more with each evolution.
    fn record_turns(&self) -> u64 {
        1 + self.state.since / self.settings.validation_interval.max(1)
    }

    async fn design(
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
            let goal = self.env.goal(item).unwrap_or_default();
            let place = CallPlace::new(format_args!("iteration {iteration}")).child(&item.id).child("skill");
            let call = CallCtx { cancel: cancel.clone(), ..CallCtx::new(place.clone()) };
            let selected = source.selection(&TaskView::new(item, &goal), &call).await;
            let selected = selected.map_err(|source| PipelineError::Rollout {
                place: place.to_string(),
                item: item.id.clone(),
                source,
            })?;
            if selected.shown.iter().any(|shown| shown.id == *candidate) {
                let [successes, rollouts] = self.state.rates.get(&item.id).copied().unwrap_or_default();
                eligible.push(ItemRate { item: item.id.clone(), successes, rollouts });
            }
        }
        let asked = &self.setup.settings;
        let rule = match asked.trial {
            TrialKind::AnyTime => {
                let before = self.state.e_before.get(candidate).copied().unwrap_or(1.0);
                let threshold = (1.0 / asked.alpha / before).max(1.0 + f64::EPSILON);
                let look = u32::try_from(GROUPS_PER_LOOK).unwrap_or(u32::MAX);
                TrialRule::AnyTime { threshold, groups_per_look: look }
            }
            TrialKind::FixedEnd => TrialRule::FixedEnd { alpha: asked.alpha },
        };
        let settings = TrialSettings {
            rollouts_per_group: u32::try_from(self.settings.group_size).unwrap_or(u32::MAX),
            max_rollouts: asked.max_trial_rollouts as u64,
            rule: rule.for_trial(self.state.n_trials.saturating_add(1)),
            outcome: self.state.outcome,
            ..TrialSettings::default()
        };
        let evidence = self.bank.bank().version(candidate).map(|version| version.evidence.clone());
        let seed = self.settings.seed;
        let items =
            TriedItems::choose(candidate, &evidence.unwrap_or_default(), &eligible, settings.max_items, seed);
        Ok(items.and_then(|items| TrialDesign::new(candidate.clone(), items, &settings, seed)))
    }

    /// Takes over what the episodes of an iteration have shown.
    pub(super) async fn note(
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
            for played in of_group.iter().filter(|played| !played.has_candidate) {
                let [successes, rollouts] = self.state.rates.entry(group.item.id.clone()).or_default();
                *successes += u32::from(played.is_success);
                *rollouts += 1;
                self.keep_episode(played)?;
            }
            if let (Some(planned), Some(trial)) = (&group.planned, &mut self.trial) {
                let results: Vec<TrialResult> = of_group.iter().map(|played| played.outcome).collect();
                let made: Vec<Option<TrialResult>> = results.iter().copied().map(Some).collect();
                let pushed =
                    planned.of_rollouts(&made).and_then(|made| trial.push(planned.place, made).map(|_| ()));
                pushed.map_err(|error| trial_error(&self.dir, &error))?;
                if let Some(open) = &mut self.state.trial {
                    open.groups.push(results);
                }
            }
        }
        self.decide(iteration).await
    }

    /// Keeps an episode for the teacher, if it may read it.
    fn keep_episode(&mut self, played: &Played) -> Result<(), PipelineError> {
        if self.teacher.is_none() {
            return Ok(());
        }
        let Some(result) = played.result.as_ref().filter(|result| self.sets.train().contains(&result.id))
        else {
            return Ok(());
        };
        let mut episode = episode_of(result, self.env.name());
        episode.id = format!("{}/{}", episode.id, self.log.n_lines());
        if self.log.n_lines() == 0 {
            atomic::create_dir(&self.dir.join(EPISODES_DIR))?;
        }
        self.log.append_record(&episode)?;
        self.episodes.push(episode);
        Ok(())
    }

    /// Ends the trial under way if it is decided or at its end.
    async fn decide(&mut self, iteration: u64) -> Result<(), PipelineError> {
        let Some(trial) = &self.trial else { return Ok(()) };
        let is_at_end = trial.n_seen() >= trial.design().n_groups();
        // Where every task came out the same in both halves, more of the same would tell as little.
        let tells_nothing = trial.n_seen() >= GROUPS_PER_LOOK as u64 && trial.n_informative() == 0;
        let decision = trial.decision().copied();
        if decision.is_none() && !is_at_end && !tells_nothing {
            return Ok(());
        }
        let numbers = trial.numbers();
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
        let event = match (verdict, is_retirement) {
            // It helps, so it stays.
            (Verdict::Admit, true) | (Verdict::Undecided, _) => return Ok(()),
            (Verdict::Admit, false) => admission(self.bank.bank(), &skill),
            (Verdict::Reject, true) => BankEvent::Retired { skill: skill.clone(), reason: Reason::Proposed },
            (Verdict::Reject, false) => BankEvent::Retired { skill: skill.clone(), reason: Reason::Trial },
        };
        let is_open = self.bank.bank().version(&skill).is_some_and(|version| version.state == State::Trial);
        let is_rejected_candidate = verdict == Verdict::Reject && !is_retirement;
        let problem = obstacle(self.bank.bank(), &skill, is_retirement);
        // A candidate that failed takes nobody's place, so a pin is not in its way.
        if let Some(problem) = problem.filter(|_| !(is_rejected_candidate && is_open)) {
            self.record.notes.push(format!("the verdict on {skill} is not carried out: {problem}"));
            return self.release(iteration, &skill).await;
        }
        self.record_events(iteration, [event]).await?;
        if verdict == Verdict::Reject {
            self.record.retired.push(skill.to_string());
        } else {
            self.record.admitted.push(skill.to_string());
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

    /// Has the teacher read what went wrong since the last time, and takes its proposals as candidates.
    pub(super) async fn evolve(
        &mut self,
        iteration: u64,
        cancel: &CancellationToken,
    ) -> Result<(), PipelineError> {
        self.state.n_admitted_since_validation = 0;
        let episodes = std::mem::take(&mut self.episodes);
        self.state.since = iteration;
        self.log = LineLog::open(&episodes_file(&self.dir, iteration), 0)?.0;
        let Some(teacher) = self.teacher.clone() else { return Ok(()) };
        let asked = &self.setup.settings;
        let settings = EvolveSettings {
            threshold: asked.weak_below,
            min_rollouts: asked.min_rollouts,
            max_new_skills: asked.max_new_skills,
            max_analysis_deep: asked.max_analysis_deep,
            max_analysis_shallow: asked.max_analysis_shallow,
            ..EvolveSettings::default()
        };
        let (episodes, _) = self.sets.train().take(episodes);
        let plan = EvolvePlan::new(&episodes, &settings);
        self.record.weak.clone_from(&plan.weak);
        let place = CallPlace::new(format_args!("iteration {iteration}"));
        let call = CallCtx { cancel: cancel.clone(), ..CallCtx::new(place.clone()) };
        let asked = Teacher {
            model: teacher.as_ref(),
            embedding: self.embedding.as_deref(),
            prompts: &self.setup.prompts,
            max_reply_tokens: self.setup.max_reply_tokens,
            workers: 1,
        };
        let bank = self.bank.bank();
        let evolved = evolve(&episodes, &plan, bank, &settings, &asked, &self.forbidden, &call).await;
        let evolved = match evolved {
            Ok(evolved) => evolved,
            // The bank is what it was, and the next evolution reads new episodes.
            Err(error @ DistillError::BrokenReply { .. }) => {
                self.record.notes.push(error.to_string());
                return Ok(());
            }
            Err(error) => return Err(teacher_error(error, place.child("evolve").to_string())),
        };
        self.record.notes.extend(evolved.left_out.iter().map(LeftOut::to_string));
        self.record.notes.extend(evolved.notes);
        self.propose(iteration, &evolved.proposals).await
    }

    async fn propose(&mut self, iteration: u64, proposals: &[Proposal]) -> Result<(), PipelineError> {
        let mut changed = self.bank.bank().clone();
        let n_before = changed.log().len();
        let round = round_of(iteration);
        let applied = apply(&mut changed, round, proposals, Admit::Candidate)
            .map_err(|error| self.bank_error(error))?;
        let events: Vec<BankEvent> =
            changed.log().iter().skip(n_before).map(|record| record.event.clone()).collect();
        self.record_events(iteration, events).await?;
        self.record.notes.extend(applied.left_out.iter().map(LeftOut::to_string));
        self.record.proposed.extend(applied.proposed.iter().map(ToString::to_string));
        self.state.retirements.extend(applied.retirements);
        Ok(())
    }

    /// Has a candidate wait again whose trial ended without a verdict.
    async fn release(&mut self, iteration: u64, candidate: &SkillRef) -> Result<(), PipelineError> {
        let state = self.bank.bank().version(candidate).map(|version| version.state);
        if state != Some(State::Trial) {
            return Ok(());
        }
        let undecided = BankEvent::Measured {
            skill: candidate.clone(),
            occasion: Occasion::Trial,
            utility: None,
            verdict: Some(Verdict::Undecided),
            e_better: None,
            e_worse: None,
            p_better: None,
        };
        self.record_events(iteration, [undecided]).await
    }

    /// Adds events to the bank, once the replies that they follow from are on the disk.
    async fn record_events(
        &mut self,
        iteration: u64,
        events: impl IntoIterator<Item = BankEvent>,
    ) -> Result<(), PipelineError> {
        if let Some(journal) = &self.journal {
            journal.flush().await?;
        }
        self.bank.record(round_of(iteration), events)
    }

    /// What happened to the bank since the last record.
    pub(super) fn take_record(&mut self) -> RlBankIteration {
        let view = self.bank.bank().view();
        let record = std::mem::take(&mut self.record);
        RlBankIteration { version: view.version().to_owned(), active: view.skills().len(), ..record }
    }

    /// Waits until everything that the state counts is on the disk.
    pub(super) async fn flush(&self) -> Result<(), PipelineError> {
        if let Some(journal) = &self.journal {
            journal.flush().await?;
        }
        self.log.flush()
    }

    /// Removes the episodes of evolutions that the checkpoint has behind it.
    pub(super) fn clean(&self) -> Result<(), PipelineError> {
        let current = episodes_file(&self.dir, self.state.since);
        let Ok(entries) = std::fs::read_dir(self.dir.join(EPISODES_DIR)) else { return Ok(()) };
        for path in entries.filter_map(|entry| Some(entry.ok()?.path())).filter(|path| *path != current) {
            std::fs::remove_file(&path).map_err(|source| PipelineError::RunDir {
                action: "remove",
                path: path.clone(),
                source,
            })?;
        }
        Ok(())
    }

    fn bank_error(&self, source: BankError) -> PipelineError {
        PipelineError::Bank { path: self.dir.join(BANK_DIR), source }
    }

    fn trial_error(&self, error: &TrialError) -> PipelineError {
        trial_error(&self.dir, error)
    }
}

fn trial_error(dir: &std::path::Path, error: &TrialError) -> PipelineError {
    PipelineError::Corrupt { path: dir.join(BANK_DIR), message: error.to_string() }
}

fn episodes_file(dir: &std::path::Path, since: u64) -> PathBuf {
    dir.join(EPISODES_DIR).join(format!("{since:06}.jsonl"))
}

/// The bank of a log as it was after so many events.
fn first_events(path: &std::path::Path, n_events: u64) -> Result<Bank, PipelineError> {
    let whole = BankDir::open(path)?;
    let text = whole.bank().log_text();
    // The header comes first.
    let n_lines = usize::try_from(n_events).unwrap_or(usize::MAX).saturating_add(1);
    let text: String = text.split_inclusive('\n').take(n_lines).collect();
    Bank::from_log(&text).map_err(|source| PipelineError::Bank { path: path.to_owned(), source })
}

fn round_of(iteration: u64) -> u32 {
    u32::try_from(iteration).unwrap_or(u32::MAX)
}
