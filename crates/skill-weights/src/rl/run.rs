//! One process's work on a run of GRPO.

use super::evolve::{EvolutionState, Evolving};
use super::lessons::lessons;
use super::rollout::{Group, Played, Table};
use super::trainer::RlTrainer;
use super::update::RUN;
use crate::policy::{PolicyGames, weights_error, write_policy};
use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use skill_core::{EpochIdx, StepIdx};
use skill_envs::{SkillSource, Split};
use skill_pipeline::error::PipelineError;
use skill_pipeline::event::{Event, EventSink as _, Stage};
use skill_pipeline::records::FORMAT_VERSION;
use skill_pipeline::records::rl::{
    CHECKPOINT_FILE, ITERATIONS_FILE, RlBankSummary, RlIteration, RlSummary, RlTimes, RlValidation,
    SUMMARY_FILE, TIMES_FILE, VALIDATION_FILE,
};
use skill_pipeline::records::sft::SftGames;
use skill_pipeline::records::signs::TrainingAlerts;
use skill_pipeline::run_dir::event_log::EventLog;
use skill_pipeline::run_dir::line_log::{LineLog, LogMark};
use skill_pipeline::run_dir::{RunDir, read_times, read_versioned, seal};
use skill_pipeline::shell::OpenRun;
use skill_pipeline::warning::Warning;
use skill_train::TrainError;
use skill_train::seam::{CallId, LoadRequest, SaveRequest};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

const SAVE: u64 = 30_000_000;
const LOAD: u64 = 30_000_001;

/// The position of a run. It is written after the state that it names, and it is what counts: whatever a killed process
/// did after its last checkpoint is done again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct RlCheckpoint {
    format_version: String,
    /// Finished iterations.
    iteration: u64,
    /// The state after that iteration.
    state: String,
    /// Tokens that were trained on.
    tokens: u64,
    /// Lines of `validation.jsonl`.
    validations: u64,
    /// Where the evolution of the bank is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    bank: Option<EvolutionState>,
    /// The marks of the files of lines, by path; absent in checkpoints of earlier versions.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    logs: BTreeMap<String, LogMark>,
}

impl RlCheckpoint {
    pub(super) fn read(run: &Path) -> Result<Option<Self>, PipelineError> {
        read_versioned(&run.join(CHECKPOINT_FILE))
    }

    fn write(&self, run: &Path) -> Result<(), PipelineError> {
        let path = run.join(CHECKPOINT_FILE);
        seal::write_sealed_json(&path, self)
    }
}

/// A run that this process holds.
pub(super) struct RlRun<'run> {
    trainer: &'run RlTrainer,
    open: &'run OpenRun<'run>,
    dir: &'run RunDir,
    log: &'run EventLog<'run>,
    /// Finished iterations.
    iteration: u64,
    kept: Option<RlCheckpoint>,
    tokens: u64,
    iterations: LineLog,
    validations: LineLog,
    first: Option<RlIteration>,
    last: Option<RlIteration>,
    signs: TrainingAlerts,
    before: Option<SftGames>,
    after: Option<SftGames>,
    evolving: Option<Evolving<'run>>,
    times: RlTimes,
    began: Instant,
}

impl<'run> RlRun<'run> {
    /// Takes the run up from its last checkpoint; nothing is loaded yet.
    pub(super) fn open(trainer: &'run RlTrainer, open: &'run OpenRun<'run>) -> Result<Self, PipelineError> {
        let OpenRun { dir, log, .. } = open;
        let path = dir.path();
        let kept = RlCheckpoint::read(path)?;
        let (iteration, n_validations) =
            kept.as_ref().map_or((0, 0), |kept| (kept.iteration, kept.validations));
        let mark = |name: &str| kept.as_ref().and_then(|kept| kept.logs.get(name));
        let (iterations, lines) =
            LineLog::open_kept(&path.join(ITERATIONS_FILE), iteration, mark(ITERATIONS_FILE))?;
        let (validations, games) =
            LineLog::open_kept(&path.join(VALIDATION_FILE), n_validations, mark(VALIDATION_FILE))?;
        let played = |line: Option<&Vec<u8>>| -> Result<Option<SftGames>, PipelineError> {
            let record: Option<RlValidation> = validations.record(line)?;
            Ok(record.map(|record| record.games))
        };
        let (before, after) = (played(games.first())?, played(games.last())?);
        let times = read_times(&path.join(TIMES_FILE))?;
        let state = kept.as_ref().and_then(|kept| kept.bank.clone());
        let evolving = trainer
            .bank
            .as_ref()
            .map(|bank| Evolving::open(bank, trainer.env.as_ref(), &trainer.settings, dir, state, mark));
        Ok(Self {
            trainer,
            open,
            dir,
            log,
            evolving: evolving.transpose()?,
            iteration,
            tokens: kept.as_ref().map_or(0, |kept| kept.tokens),
            kept,
            first: iterations.record(lines.first())?,
            last: iterations.record(lines.last())?,
            signs: signs_until_now(&iterations, &lines)?,
            before,
            after,
            iterations,
            validations,
            times,
            began: Instant::now(),
        })
    }

    /// Finished iterations.
    pub(super) fn finished_steps(&self) -> u64 {
        self.iteration
    }

    pub(super) fn stopped(&self) -> PipelineError {
        let total_steps = to_u32(self.trainer.settings.iterations);
        PipelineError::Stopped { last_step: to_u32(self.iteration), total_steps }
    }

    fn failed(&self, iteration: u64) -> impl Fn(TrainError) -> PipelineError + use<> {
        weights_error(iteration, self.trainer.settings.iterations)
    }

    pub(super) async fn work(&mut self) -> Result<RlSummary, PipelineError> {
        let iterations = self.trainer.settings.iterations;
        self.begin().await?;
        if self.iteration == 0 && self.validations.n_lines() == 0 {
            if let Some(evolving) = &self.evolving {
                evolving.check_embedding(&self.trainer.shell.stop.now).await?;
            }
            self.validate().await?;
        }
        while self.iteration < iterations {
            if let Some(reason) = self.reason_to_end() {
                self.export().await?;
                return Err(reason);
            }
            self.iterate().await?;
            let interval = self.trainer.settings.validation_interval;
            if self.iteration == iterations || self.iteration.is_multiple_of(interval) {
                self.validate().await?;
                self.evolve().await?;
            }
            self.keep().await?;
        }
        self.finish().await
    }

    async fn begin(&mut self) -> Result<(), PipelineError> {
        let trainer = self.trainer;
        if trainer.env.items(Split::Train).is_empty() {
            let env = trainer.env.name().to_owned();
            return Err(PipelineError::EmptySplit { env, split: Split::Train });
        }
        self.log.emit(&Event::RunStarted {
            dir: self.dir.path().to_owned(),
            env: trainer.env.name().to_owned(),
            n_items: Split::ALL.map(|split| trainer.env.items(split).len()),
            total_steps: to_u32(trainer.settings.iterations),
            finished_steps: to_u32(self.iteration),
            workers: trainer.settings.tasks.saturating_mul(trainer.settings.group_size),
            config_dir: self.open.config_dir(),
        });
        if self.iteration < trainer.settings.iterations {
            self.dir.remove_end(SUMMARY_FILE)?;
        }
        if let Some(kept) = &self.kept {
            // A process that was killed may have left states that no checkpoint names.
            trainer.store.retain(&[kept.state.as_str()]).map_err(self.failed(self.iteration))?;
            let hash = kept.state.clone();
            self.load(hash).await?;
        }
        Ok(())
    }

    async fn load(&self, hash: String) -> Result<(), PipelineError> {
        let call = CallId::new(format!("{RUN} {hash}"), self.iteration, LOAD);
        let loaded = self.trainer.backend.load(LoadRequest { call, hash }).await;
        loaded.map_err(self.failed(self.iteration))?;
        Ok(())
    }

    /// Why the run ends before its next iteration.
    fn reason_to_end(&self) -> Option<PipelineError> {
        if self.open.is_told_to_stop() {
            return Some(self.stopped());
        }
        let (what, spent, cap) = self.trainer.caps.reached(self.tokens, self.seconds())?;
        let (last_step, total_steps) = (to_u32(self.iteration), to_u32(self.trainer.settings.iterations));
        Some(PipelineError::SftCapped { what, spent, cap, last_step, total_steps })
    }

    fn seconds(&self) -> f64 {
        self.times.seconds + self.began.elapsed().as_secs_f64()
    }

    async fn iterate(&mut self) -> Result<(), PipelineError> {
        let (trainer, iteration) = (self.trainer, self.iteration + 1);
        let (settings, failed, began) = (&trainer.settings, self.failed(iteration), Instant::now());
        let cancel = &trainer.shell.stop.now;
        let regular = trainer.tasks(iteration);
        let (groups, source) = match &mut self.evolving {
            Some(evolving) => {
                let groups = evolving.groups(iteration, regular, cancel).await?;
                (groups, evolving.source()?)
            }
            None => (regular.into_iter().map(Group::whole).collect(), Arc::clone(&trainer.source)),
        };
        let (step, n_episodes) = (StepIdx(to_u32(iteration)), groups.len() * settings.group_size);
        self.log.emit(&Event::StepStarted {
            step,
            total_steps: to_u32(settings.iterations),
            epoch: EpochIdx(1),
            batch_size: n_episodes,
            n_notes: 0,
        });
        let table = Table {
            env: &trainer.env,
            source,
            backend: &trainer.backend,
            text: &trainer.text,
            settings,
            cancel,
            events: &trainer.shell.events,
        };
        let (stage, playing) = (Stage::Rollout, Instant::now());
        self.log.emit(&Event::StageStarted { step: Some(step), stage, total: n_episodes });
        let played = table.play(iteration, &groups).await?;
        let seconds = playing.elapsed().as_secs_f64();
        self.log.emit(&Event::StageFinished { step: Some(step), stage, seconds });
        let (lessons, groups_without_signal) = lessons(settings, &played).map_err(&failed)?;
        let mut record = record_of(iteration, groups.len(), &played, groups_without_signal);
        let mut steps = Vec::new();
        for (number, batch) in (0_u64..).zip(lessons.chunks(settings.batch_size)) {
            steps.push(trainer.update((iteration, number), batch, &mut record).await.map_err(&failed)?);
        }
        trainer.note_means(&steps, &mut record);
        if let Some(evolving) = &mut self.evolving {
            evolving.note(iteration, &groups, &played).await?;
            record.bank = Some(evolving.take_record());
        }
        self.iterations.append_record(&record)?;
        self.iteration = iteration;
        self.tokens += record.tokens;
        let seconds = began.elapsed().as_secs_f64();
        self.log.emit(&Event::RlIterationFinished { record: Box::new(record.clone()), seconds });
        self.warn_of_signs(&record);
        self.first.get_or_insert_with(|| record.clone());
        self.last = Some(record);
        Ok(())
    }

    /// Warns of signs that no iteration of the run showed before.
    fn warn_of_signs(&mut self, record: &RlIteration) {
        for found in self.signs.add(record) {
            let warning = Warning::TrainingSign { sign: found.sign, message: found.message };
            self.open.warn(Some(StepIdx(to_u32(record.iteration))), warning);
        }
    }

    /// Plays games, where any are configured.
    async fn validate(&mut self) -> Result<(), PipelineError> {
        let trainer = self.trainer;
        let Some(games) = &trainer.games else { return Ok(()) };
        let source = self.evolving.as_ref().map(Evolving::source).transpose()?;
        let games = self.play(games.as_ref(), source).await?;
        let record = RlValidation { iteration: self.iteration, games };
        self.validations.append_record(&record)?;
        self.log.emit(&Event::RlValidated { record });
        self.before.get_or_insert(games);
        self.after = Some(games);
        Ok(())
    }

    /// Plays games with what this source selects, or their own.
    async fn play(
        &self,
        games: &dyn PolicyGames,
        source: Option<Arc<dyn SkillSource>>,
    ) -> Result<SftGames, PipelineError> {
        let trainer = self.trainer;
        let played = games.play(&trainer.backend, self.iteration, source, &trainer.shell.stop.now).await;
        played.map_err(|error| if matches!(error, PipelineError::Halted) { self.stopped() } else { error })
    }

    /// Has the bank evolve, unless nothing comes behind it.
    async fn evolve(&mut self) -> Result<(), PipelineError> {
        let (trainer, iteration) = (self.trainer, self.iteration);
        match &mut self.evolving {
            Some(evolving) if iteration < trainer.settings.iterations => {
                evolving.evolve(iteration, &trainer.shell.stop.now).await
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Writes a checkpoint, and removes the state that it replaces.
    async fn keep(&mut self) -> Result<(), PipelineError> {
        let trainer = self.trainer;
        self.dir.check_not_moved()?;
        let failed = self.failed(self.iteration);
        let call = CallId::new(RUN, self.iteration, SAVE);
        let saved = trainer.backend.save(SaveRequest { call }).await.map_err(&failed)?;
        self.iterations.flush()?;
        self.validations.flush()?;
        if let Some(evolving) = &self.evolving {
            evolving.flush().await?;
        }
        let kept = RlCheckpoint {
            format_version: FORMAT_VERSION.to_owned(),
            iteration: self.iteration,
            state: saved.hash,
            tokens: self.tokens,
            validations: self.validations.n_lines(),
            bank: self.evolving.as_ref().map(Evolving::state),
            logs: self.marks(),
        };
        kept.write(self.dir.path())?;
        trainer.store.retain(&[kept.state.as_str()]).map_err(&failed)?;
        if let Some(evolving) = &self.evolving {
            evolving.clean()?;
        }
        self.kept = Some(kept);
        let times = RlTimes { seconds: self.seconds() };
        seal::write_sealed_json(&self.dir.path().join(TIMES_FILE), &times)
    }

    /// The marks of all that the next process builds on line by line.
    fn marks(&self) -> BTreeMap<String, LogMark> {
        let own = [(ITERATIONS_FILE, &self.iterations), (VALIDATION_FILE, &self.validations)];
        let own = own.into_iter().map(|(name, log)| (name.to_owned(), log.mark()));
        own.chain(self.evolving.as_ref().map(Evolving::mark)).collect()
    }

    /// Writes `policy/` from the weights of the last checkpoint, which are those that the back end has.
    async fn export(&self) -> Result<(), PipelineError> {
        if self.kept.is_none() {
            return Ok(());
        }
        let files = self.trainer.writer.files().await.map_err(self.failed(self.iteration))?;
        write_policy(self.dir, files)
    }

    /// The bank that belongs to the policy, and what the policy wins without it.
    async fn bank_summary(&self) -> Result<Option<RlBankSummary>, PipelineError> {
        let Some(evolving) = &self.evolving else { return Ok(None) };
        let view = evolving.bank().view();
        let without = match &self.trainer.games {
            Some(games) if !view.skills().is_empty() => {
                Some(self.play(games.as_ref(), Some(evolving.without_skills())).await?)
            }
            Some(_) | None => None,
        };
        Ok(Some(RlBankSummary {
            version: view.version().to_owned(),
            active: view.skills().len(),
            trials: evolving.counts(),
            internalized: evolving.internalized(),
            measured: evolving.measured(),
            without,
        }))
    }

    async fn finish(&mut self) -> Result<RlSummary, PipelineError> {
        self.export().await?;
        let bank = self.bank_summary().await?;
        let summary = RlSummary {
            format_version: FORMAT_VERSION.to_owned(),
            iterations: self.iteration,
            tokens: self.tokens,
            before: self.before,
            after: self.after,
            first: self.first.clone(),
            last: self.last.clone(),
            bank,
            policy_state: self.kept.as_ref().map(|kept| kept.state.clone()).unwrap_or_default(),
        };
        // What an earlier process left behind its last checkpoint.
        self.iterations.cut()?;
        self.validations.cut()?;
        self.dir.write_end(SUMMARY_FILE, &summary)?;
        self.log.emit(&Event::RlFinished { summary: Box::new(summary.clone()) });
        Ok(summary)
    }
}

/// The signs of the iterations that earlier processes finished, which have warned of them.
fn signs_until_now(log: &LineLog, lines: &[Vec<u8>]) -> Result<TrainingAlerts, PipelineError> {
    let mut signs = TrainingAlerts::default();
    for line in lines {
        if let Some(record) = log.record(Some(line))? {
            signs.add(&record);
        }
    }
    Ok(signs)
}

pub(super) fn record_of(
    iteration: u64,
    tasks: usize,
    played: &[Played],
    groups_without_signal: f64,
) -> RlIteration {
    let mut by_task_type: IndexMap<String, [usize; 2]> = IndexMap::new();
    for played in played {
        let [won, all] = by_task_type.entry(played.task_type.clone()).or_default();
        *won += usize::from(played.is_success);
        *all += 1;
    }
    by_task_type.sort_keys();
    let rows = || played.iter().flat_map(|played| &played.rows);
    RlIteration {
        iteration,
        tasks,
        episodes: played.len(),
        won: played.iter().filter(|played| played.is_success).count(),
        reward: played.iter().map(|played| played.reward).sum::<f64>() / played.len().max(1) as f64,
        invalid_actions: played.iter().map(|played| u64::from(played.invalid_actions)).sum(),
        groups_without_signal,
        sampled_tokens: rows().map(|row| row.n_sampled() as u64).sum(),
        by_task_type,
        ..RlIteration::default()
    }
}

pub(super) fn to_u32(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
