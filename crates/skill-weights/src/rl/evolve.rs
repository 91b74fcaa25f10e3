//! A bank that evolves while its policy is trained.
//!
//! The groups of an iteration are the trial of a candidate (see `trial`), and measure active skills (see `standing`). At each validation a teacher reads failures of weak types and
//! proposes candidates. The tasks that a teacher reads and those of trials are disjoint, as in runs that train a bank
//! alone, whose settings hold here.

mod standing;
mod state;
mod trial;

pub(super) use state::EvolutionState;

use super::bank::RlBank;
use super::rollout::Played;
use skill_bank::distill::{Admit, DistillError, LeftOut, Proposal, Teacher, apply};
use skill_bank::episode::ItemSets;
use skill_bank::evolve::{EvolvePlan, evolve};
use skill_bank::lint::Forbidden;
use skill_bank::trial::{TrialError, TrialState};
use skill_bank::{Bank, BankError, BankEvent, BankSource, BankView, Episode};
use skill_core::SkillDoc;
use skill_envs::source::document;
use skill_envs::{Env, SkillSource};
use skill_llm::{CallCtx, CallPlace, ChatModel, EmbeddingModel, Journal};
use skill_pipeline::bank::{LiveBank, check_embedding, episode_of, forbid_items, item_sets, teacher_error};
use skill_pipeline::error::PipelineError;
use skill_pipeline::records::bank::BANK_DIR;
use skill_pipeline::records::rl::RlBankIteration;
use skill_pipeline::run_dir::bank_dir::is_bank;
use skill_pipeline::run_dir::line_log::{LineLog, LogMark};
use skill_pipeline::run_dir::{RunDir, atomic};
use skill_pipeline::settings::RlSettings;
use state::OpenTrial;
use std::path::PathBuf;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// The folder of the episodes that the next evolution reads.
const EPISODES_DIR: &str = "episodes";

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
    /// Takes the evolution up where a checkpoint left it, which has a `mark` of each file of lines.
    pub(super) fn open<'mark>(
        setup: &'run RlBank,
        env: &'run dyn Env,
        settings: &'run RlSettings,
        dir: &RunDir,
        kept: Option<EvolutionState>,
        mark: impl Fn(&str) -> Option<&'mark LogMark>,
    ) -> Result<Self, PipelineError> {
        let path = dir.path().join(BANK_DIR);
        let initial = match &kept {
            Some(kept) if is_bank(&path) => LiveBank::first_events(&path, kept.events)?,
            Some(_) | None => setup.initial.clone(),
        };
        let source = setup.source.as_ref().map(|(format, text)| (*format, text.as_str()));
        let bank = LiveBank::open(&path, &initial, source)?;
        let mut state = kept.unwrap_or_default();
        let record = std::mem::take(&mut state.unrecorded);
        let needs_journal = setup.teacher.is_some() || setup.embedding.is_some();
        let calls = if needs_journal { Some(setup.calls.open(dir)?) } else { None };
        let name = episodes_name(state.since);
        let (log, lines) = LineLog::open_kept(&dir.path().join(&name), state.episodes, mark(&name))?;
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
            sets: item_sets(env, &setup.settings, settings.seed)?,
            forbidden,
            frame,
            teacher: calls.as_ref().zip(setup.teacher.as_ref()).map(|(calls, model)| calls.chat(model)),
            embedding: calls
                .as_ref()
                .zip(setup.embedding.as_ref())
                .map(|(calls, model)| calls.embedding(model)),
            journal: calls.map(|calls| calls.journal),
            trial: None,
            state,
            log,
            episodes,
            record,
        };
        evolving.trial = evolving.reopened()?;
        Ok(evolving)
    }

    /// See [`check_embedding`].
    pub(super) async fn check_embedding(&self, cancel: &CancellationToken) -> Result<(), PipelineError> {
        let call = CallCtx { cancel: cancel.clone(), ..CallCtx::new(CallPlace::default()) };
        check_embedding(self.embedding.as_deref(), &call).await
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

    /// The file of the episodes, and its mark.
    pub(super) fn mark(&self) -> (String, LogMark) {
        (episodes_name(self.state.since), self.log.mark())
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

    /// Has the teacher read what went wrong since the last time, and takes its proposals as candidates.
    pub(super) async fn evolve(
        &mut self,
        iteration: u64,
        cancel: &CancellationToken,
    ) -> Result<(), PipelineError> {
        self.state.n_admitted_since_validation = 0;
        self.begin_standing_interval();
        let episodes = std::mem::take(&mut self.episodes);
        self.state.since = iteration;
        self.log = LineLog::open(&self.dir.join(episodes_name(iteration)), 0)?.0;
        let Some(teacher) = self.teacher.clone() else { return Ok(()) };
        let settings = self.setup.settings.of_evolution();
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
        let current = self.dir.join(episodes_name(self.state.since));
        let Ok(entries) = std::fs::read_dir(self.dir.join(EPISODES_DIR)) else { return Ok(()) };
        for path in entries.filter_map(|entry| Some(entry.ok()?.path())).filter(|path| *path != current) {
            std::fs::remove_file(&path).map_err(atomic::failed("remove", &path))?;
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

/// The file of the episodes since an evolution, below the run directory.
fn episodes_name(since: u64) -> String {
    format!("{EPISODES_DIR}/{since:06}.jsonl")
}

fn round_of(iteration: u64) -> u32 {
    u32::try_from(iteration).unwrap_or(u32::MAX)
}
