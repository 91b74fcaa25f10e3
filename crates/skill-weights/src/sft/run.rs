//! One process's work on a run that fine-tunes.

use super::checkpoint::{Best, Checkpoint};
use super::measure::peak_memory;
use super::trainer::{SftTrainer, batch_of, place_of, rows_of};
use crate::policy::{micro_batches, weights_error, write_policy};
use skill_core::{EpochIdx, StepIdx};
use skill_pipeline::error::PipelineError;
use skill_pipeline::event::{Event, EventSink as _};
use skill_pipeline::records::FORMAT_VERSION;
use skill_pipeline::records::sft::{
    EXAMPLES_FILE, STEPS_FILE, SUMMARY_FILE, SftStep, SftSummary, SftTimes, SftValidation, TIMES_FILE,
    VALIDATION_FILE,
};
use skill_pipeline::run_dir::event_log::EventLog;
use skill_pipeline::run_dir::line_log::LineLog;
use skill_pipeline::run_dir::{RunDir, RunPart, read_times, seal};
use skill_pipeline::shell::OpenRun;
use skill_train::TrainError;
use skill_train::schedule::LearningRateSchedule;
use skill_train::seam::{
    AdamSettings, CallId, ForwardBackward, LoadRequest, Loss, LossMetrics, OptimStep, Pass, Policy,
    SaveRequest,
};
use std::time::Instant;

/// The name of the run in the calls of the back end.
const RUN: &str = "sft";
/// Sequence numbers of calls in a step: forward passes of training count from 0.
const OPTIMIZE: u64 = 1_000_000;
const SAVE: u64 = 1_000_001;
const VALIDATE: u64 = 2_000_000;
const LOAD: u64 = 3_000_000;

/// A run that this process holds.
pub(super) struct SftRun<'run> {
    trainer: &'run SftTrainer,
    open: &'run OpenRun<'run>,
    dir: &'run RunDir,
    log: &'run EventLog<'run>,
    total_steps: u64,
    /// Finished steps.
    step: u64,
    /// The last checkpoint.
    kept: Option<Checkpoint>,
    best: Option<Best>,
    tokens: u64,
    steps: LineLog,
    validations: LineLog,
    first: Option<SftStep>,
    last: Option<SftStep>,
    before: Option<SftValidation>,
    after: Option<SftValidation>,
    times: SftTimes,
    began: Instant,
}

impl<'run> SftRun<'run> {
    /// Takes the run up from its last checkpoint; nothing is loaded yet.
    pub(super) fn open(trainer: &'run SftTrainer, open: &'run OpenRun<'run>) -> Result<Self, PipelineError> {
        let OpenRun { dir, log, .. } = open;
        let path = dir.path();
        let kept = Checkpoint::read(path)?;
        let (step, n_validations) = kept.as_ref().map_or((0, 0), |kept| (kept.step, kept.validations));
        let mark = |name: &str| kept.as_ref().and_then(|kept| kept.logs.get(name));
        let (steps, step_lines) = LineLog::open_kept(&path.join(STEPS_FILE), step, mark(STEPS_FILE))?;
        let (validations, validation_lines) =
            LineLog::open_kept(&path.join(VALIDATION_FILE), n_validations, mark(VALIDATION_FILE))?;
        let times = read_times(&path.join(TIMES_FILE))?;
        Ok(Self {
            trainer,
            open,
            dir,
            log,
            total_steps: trainer.settings.total_steps(trainer.data.train.len()),
            step,
            best: kept.as_ref().and_then(|kept| kept.best.clone()),
            tokens: kept.as_ref().map_or(0, |kept| kept.tokens),
            kept,
            first: steps.record(step_lines.first())?,
            last: steps.record(step_lines.last())?,
            before: validations.record(validation_lines.first())?,
            after: validations.record(validation_lines.last())?,
            steps,
            validations,
            times,
            began: Instant::now(),
        })
    }

    /// Finished steps.
    pub(super) fn finished_steps(&self) -> u64 {
        self.step
    }

    pub(super) fn stopped(&self) -> PipelineError {
        PipelineError::Stopped { last_step: to_u32(self.step), total_steps: to_u32(self.total_steps) }
    }

    pub(super) async fn work(&mut self) -> Result<SftSummary, PipelineError> {
        self.begin().await?;
        if self.step == 0 && self.validations.n_lines() == 0 {
            self.validate().await?;
        }
        while self.step < self.total_steps {
            if let Some(reason) = self.reason_to_end() {
                self.keep().await?;
                self.export().await?;
                return Err(reason);
            }
            self.train_step().await?;
            let is_last = self.step == self.total_steps;
            let settings = &self.trainer.settings;
            let is_validated = is_last || self.step.is_multiple_of(settings.validation_interval);
            let is_kept = is_last || self.step.is_multiple_of(settings.checkpoint_interval);
            let is_best = is_validated && self.validate().await?;
            if is_kept || is_best {
                self.keep().await?;
            }
        }
        self.finish().await
    }

    async fn begin(&mut self) -> Result<(), PipelineError> {
        let data = &self.trainer.data;
        self.log.emit(&Event::RunStarted {
            dir: self.dir.path().to_owned(),
            env: "sft".to_owned(),
            n_items: [data.train.len(), data.validation.len(), 0],
            total_steps: to_u32(self.total_steps),
            finished_steps: to_u32(self.step),
            workers: 1,
            config_dir: self.open.config_dir(),
        });
        let lines = data.lines.iter().map(|line| {
            // Records have texts as keys, which is all that JSON asks for.
            serde_json::to_string(line).expect("a line serializes") + "\n"
        });
        let lines: String = lines.collect();
        self.dir.put(&self.dir.path().join(EXAMPLES_FILE), lines.as_bytes())?;
        self.dir.commit_part(RunPart::Data)?;
        if self.step < self.total_steps {
            self.dir.remove_end(SUMMARY_FILE)?;
        }
        if let Some(kept) = &self.kept {
            // A process that was killed may have left states, or parts of them, that no checkpoint names.
            self.trainer.store.retain(&kept.states()).map_err(self.failed())?;
            let state = kept.state.clone();
            self.load(state).await?;
        }
        Ok(())
    }

    /// Loads a state into the back end.
    async fn load(&self, hash: String) -> Result<(), PipelineError> {
        let call = CallId::new(format!("{RUN} {hash}"), self.step, LOAD);
        self.trainer.backend.load(LoadRequest { call, hash }).await.map_err(self.failed())?;
        Ok(())
    }

    /// What a failure of the model is after the last finished step.
    fn failed(&self) -> impl Fn(TrainError) -> PipelineError + use<> {
        weights_error(self.step, self.total_steps)
    }

    /// Why the run ends before its next step.
    fn reason_to_end(&self) -> Option<PipelineError> {
        if self.open.is_told_to_stop() {
            return Some(self.stopped());
        }
        let (what, spent, cap) = self.trainer.caps.reached(self.tokens, self.seconds())?;
        let (last_step, total_steps) = (to_u32(self.step), to_u32(self.total_steps));
        Some(PipelineError::SftCapped { what, spent, cap, last_step, total_steps })
    }

    fn seconds(&self) -> f64 {
        self.times.seconds + self.began.elapsed().as_secs_f64()
    }

    async fn train_step(&mut self) -> Result<(), PipelineError> {
        let trainer = self.trainer;
        let (settings, step) = (&trainer.settings, self.step + 1);
        let failed = weights_error(step, self.total_steps);
        let began = Instant::now();
        let batch = batch_of(&trainer.data.train, settings, step);
        let (epoch, _) = place_of(settings, trainer.data.train.len(), step);
        self.log.emit(&Event::StepStarted {
            step: StepIdx(to_u32(step)),
            total_steps: to_u32(self.total_steps),
            epoch: EpochIdx(epoch),
            batch_size: batch.len(),
            n_notes: 0,
        });
        let targets: usize = batch.iter().map(|example| example.n_targets()).sum();
        let tokens: usize = batch.iter().map(|example| example.tokens.len()).sum();
        let mut metrics = LossMetrics::default();
        for (sequence, rows) in (0..).zip(micro_batches(rows_of(&batch), settings.micro_batch_tokens)) {
            let pass = Pass::Gradient { loss: Loss::CrossEntropy, denominator: targets as f64 };
            let call = CallId::new(RUN, step, sequence);
            let request = ForwardBackward { call, rows, temperature: 1.0, pass };
            metrics.add(&trainer.backend.forward_backward(request).await.map_err(&failed)?.metrics);
        }
        let learning_rate = self.learning_rate();
        let adam = AdamSettings {
            learning_rate,
            beta2: settings.beta2,
            weight_decay: settings.weight_decay,
            max_grad_norm: Some(settings.max_grad_norm).filter(|norm| *norm > 0.0),
            ..AdamSettings::default()
        };
        let optimize = OptimStep { call: CallId::new(RUN, step, OPTIMIZE), settings: adam };
        let grad_norm = trainer.backend.optim_step(optimize).await.map_err(&failed)?.grad_norm;
        let (tokens, targets) = (tokens as u64, targets as u64);
        let loss = metrics.loss;
        let record =
            SftStep { step, epoch, loss, learning_rate, grad_norm, examples: batch.len(), tokens, targets };
        self.steps.append_record(&record)?;
        self.step = step;
        self.tokens += tokens;
        let seconds = began.elapsed().as_secs_f64();
        let peak_memory = peak_memory();
        self.log.emit(&Event::SftStepFinished { record: record.clone(), seconds, peak_memory });
        self.first.get_or_insert_with(|| record.clone());
        self.last = Some(record);
        Ok(())
    }

    fn learning_rate(&self) -> f64 {
        let settings = &self.trainer.settings;
        let n_warmup_steps = (settings.warmup_share * self.total_steps as f64) as u64;
        let schedule = LearningRateSchedule::Cosine { n_warmup_steps, n_steps: self.total_steps };
        settings.learning_rate * schedule.factor(self.step)
    }

    /// Measures the validation part, and plays games; true if the weights are the best so far.
    async fn validate(&mut self) -> Result<bool, PipelineError> {
        let trainer = self.trainer;
        if trainer.data.validation.is_empty() && trainer.games.is_none() {
            return Ok(false);
        }
        let failed = self.failed();
        let examples: Vec<_> = trainer.data.validation.iter().collect();
        let targets: usize = examples.iter().map(|example| example.n_targets()).sum();
        let mut sum = 0.0;
        for (sequence, rows) in
            (VALIDATE..).zip(micro_batches(rows_of(&examples), trainer.settings.micro_batch_tokens))
        {
            let call = CallId::new(RUN, self.step, sequence);
            let pass = Pass::LogProbs { policy: Policy::Current };
            let request = ForwardBackward { call, rows, temperature: 1.0, pass };
            let output = trainer.backend.forward_backward(request).await.map_err(&failed)?;
            sum -= output.logprobs.iter().flatten().map(|logprob| f64::from(*logprob)).sum::<f64>();
        }
        let loss = (targets > 0).then(|| sum / targets as f64);
        if let Some(loss) = loss
            && !loss.is_finite()
        {
            return Err(failed(TrainError::NotFinite { quantity: "the validation loss".to_owned() }));
        }
        let games = match &trainer.games {
            Some(games) => {
                Some(games.play(&trainer.backend, self.step, None, &trainer.shell.stop.now).await.map_err(
                    |error| {
                        if matches!(error, PipelineError::Halted) { self.stopped() } else { error }
                    },
                )?)
            }
            None => None,
        };
        let record = SftValidation { step: self.step, loss, targets: targets as u64, games };
        self.validations.append_record(&record)?;
        self.log.emit(&Event::SftValidated { record: record.clone() });
        self.before.get_or_insert_with(|| record.clone());
        self.after = Some(record);
        // The weights of the base model are nobody's policy.
        let is_best =
            self.step > 0 && loss.is_some_and(|loss| self.best.as_ref().is_none_or(|best| loss < best.loss));
        if let (true, Some(loss)) = (is_best, loss) {
            // The state is known when it is saved.
            self.best = Some(Best { step: self.step, loss, state: String::new() });
        }
        Ok(is_best)
    }

    /// Writes a checkpoint, and removes the states that no checkpoint names any more.
    async fn keep(&mut self) -> Result<(), PipelineError> {
        let trainer = self.trainer;
        if self.kept.as_ref().is_some_and(|kept| kept.step == self.step) || self.step == 0 {
            return Ok(());
        }
        self.dir.check_not_moved()?;
        let failed = self.failed();
        let call = CallId::new(RUN, self.step, SAVE);
        let saved = trainer.backend.save(SaveRequest { call }).await.map_err(&failed)?;
        if let Some(best) = &mut self.best
            && best.step == self.step
        {
            best.state.clone_from(&saved.hash);
        }
        self.steps.flush()?;
        self.validations.flush()?;
        let kept =
            Checkpoint::new(saved.hash, self.best.clone(), self.tokens, &self.steps, &self.validations);
        kept.write(self.dir.path())?;
        trainer.store.retain(&kept.states()).map_err(&failed)?;
        self.kept = Some(kept);
        self.write_times()
    }

    fn write_times(&self) -> Result<(), PipelineError> {
        let peak = peak_memory().unwrap_or_default().max(self.times.peak_memory);
        let times = SftTimes { seconds: self.seconds(), peak_memory: peak };
        seal::write_sealed_json(&self.dir.path().join(TIMES_FILE), &times)
    }

    /// Writes `policy/` from the best state; nothing where there is no checkpoint yet.
    async fn export(&mut self) -> Result<(), PipelineError> {
        let Some(kept) = &self.kept else { return Ok(()) };
        let (state, _) = kept.policy();
        self.load(state.to_owned()).await?;
        let files = self.trainer.writer.files().await.map_err(self.failed())?;
        write_policy(self.dir, files)
    }

    async fn finish(&mut self) -> Result<SftSummary, PipelineError> {
        self.keep().await?;
        self.export().await?;
        let data = &self.trainer.data;
        let (state, policy_step) = self.kept.as_ref().map(Checkpoint::policy).unwrap_or_default();
        let loss_of = |step: &Option<SftStep>| step.as_ref().map_or(f64::NAN, |step| step.loss);
        let summary = SftSummary {
            format_version: FORMAT_VERSION.to_owned(),
            steps: self.step,
            epochs: self.trainer.settings.epochs,
            train_examples: data.train.len(),
            validation_examples: data.validation.len(),
            counts: data.counts,
            tokens: self.tokens,
            before: self.before.clone(),
            after: self.after.clone(),
            policy_step,
            policy_state: state.to_owned(),
            loss: [loss_of(&self.first), loss_of(&self.last)],
        };
        // What an earlier process left behind its last checkpoint.
        self.steps.cut()?;
        self.validations.cut()?;
        self.dir.write_end(SUMMARY_FILE, &summary)?;
        self.write_times()?;
        self.log.emit(&Event::SftFinished { summary: Box::new(summary.clone()) });
        Ok(summary)
    }
}

fn to_u32(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
