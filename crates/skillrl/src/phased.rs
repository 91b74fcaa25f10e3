//! From a configuration to trained weights in one run: collect episodes, distil skills, fine-tune, train by GRPO with the
//! bank in the loop, and test what came of it.
//!
//! The phases are those of the single commands, each in a directory of its own; `phases.json` says which are finished,
//! and by which settings. A run that is taken up goes on in the phase where it was.

mod settings;
mod test;

use crate::call_cache::CallCache;
use crate::collect::{CollectRequest, Collecting};
use crate::config::collect::{CollectAgent, CollectConfig, DemonstrationSource};
use crate::config::recorded::needed_overrides;
use crate::config::{LoadedConfig, ModelRole, Runner, simulated_models};
use crate::distill::Distilling;
use crate::engine::Engine;
use crate::error::Error;
use crate::policy::{LocalTarget, trainable, with_policy};
use crate::rl::{self, RlRequest};
use crate::sft::{self, SftRequest};
use crate::{skills, trainer, world};
use settings::PhaseSettings;
use skill_bank::distill::Admit;
use skill_bank::episode::{Episode, episode_line};
use skill_bank::read_episodes;
use skill_core::canonical::hex_sha256;
use skill_envs::{Env, Split};
use skill_llm::error::with_causes;
use skill_llm::regular_file;
use skill_llm::{CallCtx, CallPlace, text_file};
use skill_pipeline::bank::{Admission, check_embedding, n_items_of_sets};
use skill_pipeline::bank_dir::BankDir;
use skill_pipeline::phases::{
    PHASE_JOURNALS, Phases, add_phase_time, hash_of_dir, phase_times, phased_identity, test_games,
};
use skill_pipeline::records::phases::{Phase, PhaseRecord, TEST_FILE, TestGames};
use skill_pipeline::records::sft::{POLICY_DIR, SftGames};
use skill_pipeline::records::{ConfigFile, RunIdentity};
use skill_pipeline::run_dir::atomic::{self, failed};
use skill_pipeline::run_dir::config_copy::config_copy;
use skill_pipeline::run_dir::event_log::EventLog;
use skill_pipeline::run_dir::process_log::ProcessLog;
use skill_pipeline::run_dir::vacant::check_vacant;
use skill_pipeline::run_dir::{RunDir, is_stop_requested, way_to, withdraw_stop};
use skill_pipeline::{Event, EventSink, PipelineError, StopSignal, Warning, identity};
use skill_weights::policy::WeightsSpent;
use skill_weights::sft::demos::Demonstrator;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

/// The collected episodes, in the directory of their phase.
const TRAJECTORIES_FILE: &str = "trajectories.jsonl";
/// The bank that trials begin with, in the directory of its phase.
const BANK_DIR: &str = "bank";
/// The same bank with all skills active, as demonstrations show them.
const SHOWN_DIR: &str = "shown";
/// A run of all phases.
pub struct PhasedTrainer {
    loaded: LoadedConfig,
    out: PathBuf,
    reuse: Vec<PathBuf>,
    events: Arc<dyn EventSink>,
    stop: StopSignal,
}

/// What a run has come to.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct PhasedSummary {
    /// The finished phases.
    pub phases: Phases,
    /// The games of the test split, where it is measured.
    pub test: Vec<TestGames>,
}

impl PhasedTrainer {
    /// A trainer in this directory.
    pub fn new(
        loaded: LoadedConfig,
        out: impl Into<PathBuf>,
        events: Arc<dyn EventSink>,
        stop: StopSignal,
    ) -> Self {
        Self { loaded, out: out.into(), reuse: Vec::new(), events, stop }
    }

    /// Takes over finished phases of these runs, where their settings are the same.
    #[must_use]
    pub fn with_reuse(self, reuse: Vec<PathBuf>) -> Self {
        Self { reuse, ..self }
    }

    /// Starts the run, or continues it.
    ///
    /// # Errors
    ///
    /// A directory that holds another run, a phase that was finished with other settings, and what ends a phase. The
    /// same call continues.
    pub async fn train(&self) -> Result<PhasedSummary, Error> {
        if self.loaded.config.run.runner == Runner::Nats {
            return Err(Error::NoWorkers { what: "`train.mode = \"weights\"`" });
        }
        let env = world::environment(&self.loaded, None)?;
        // What the last phases need is known before the first one is paid for.
        n_items_of_sets(
            env.as_ref(),
            &trainer::bank_settings(&self.loaded.config),
            self.loaded.config.run.seed,
        )?;
        check_vacant(&self.out)?;
        let dir = RunDir::open(&self.out)?;
        let asked = phased_identity();
        if let Some(stored) = dir.read_config()? {
            identity::check_identity(&self.out, &stored.identity, &asked)?;
        }
        let set = needed_overrides(&self.loaded.source_text, &self.loaded.config.decisive_json());
        let copy = config_copy(&self.loaded.source_text, &set, &asked);
        let mut config = ConfigFile::new(self.loaded.config.decisive_json(), asked);
        let roles = ModelRole::of_training(&self.loaded.config);
        config.simulated_models =
            simulated_models(&self.loaded.config, &roles).into_iter().map(str::to_owned).collect();
        config.has_hashes = true;
        dir.write_config(&config, Some(&copy))?;
        let policy = trainable(&self.loaded, &self.out);
        dir.commit_start()?;
        withdraw_stop(&self.out)?;
        let log = EventLog::open(&self.out, self.events.as_ref())?;
        let mut process = None;
        let outcome = async {
            let n_finished = Phases::read(&self.out)?.map_or(0, |phases| n_phases(phases.finished.len()));
            let text = Some(copy.as_str());
            process = Some(ProcessLog::begin(&self.out, &log, text, n_finished, &PHASE_JOURNALS)?);
            self.work(&dir, env, &log, &policy?).await
        };
        let outcome = outcome.await;
        if let Err(error) = &outcome {
            log.emit(&Event::RunStopped { reason: with_causes(error), hint: error.hint() });
        }
        if let Some(Err(error)) = process.map(|mut process| process.write(&log)) {
            tracing::debug!(%error, "the timings could not be written");
        }
        outcome
    }

    /// The files of a phase that is not a run itself. Of banks every command verifies the log.
    fn files_of(&self, phase: Phase) -> Vec<PathBuf> {
        let name = match phase {
            Phase::Collect => TRAJECTORIES_FILE,
            Phase::Test => TEST_FILE,
            Phase::Distill | Phase::Sft | Phase::Rl => return Vec::new(),
        };
        vec![phase.dir(&self.out).join(name)]
    }

    /// Goes through the phases; `policy` is the configuration with the target that is trained.
    async fn work(
        &self,
        dir: &RunDir,
        env: Arc<dyn Env>,
        log: &EventLog<'_>,
        policy: &LoadedConfig,
    ) -> Result<PhasedSummary, Error> {
        let mut phases = Phases::read(&self.out)?.unwrap_or_default();
        // The caps hold for the time of all phases, so a clock that cannot be read is found before any work.
        phase_times(&self.out)?;
        phases.write(&self.out)?;
        let base = self.loaded.path.as_ref().map(|_| Path::new(".").join(self.loaded.base_dir()));
        log.emit(&Event::RunStarted {
            dir: self.out.clone(),
            env: env.name().to_owned(),
            n_items: Split::ALL.map(|split| env.items(split).len()),
            total_steps: n_phases(self.phases().count()),
            finished_steps: n_phases(phases.finished.len()),
            workers: usize::try_from(self.loaded.config.run.workers).unwrap_or(usize::MAX),
            config_dir: base.and_then(|base| way_to(&self.out, &base)),
        });
        if let Some(message) = trainer::told_of_episodes(&self.loaded) {
            log.emit(&Event::warning(None, Warning::Note { message }, None));
        }
        let settings = PhaseSettings::new(&self.loaded, policy, env)?;
        let target = LocalTarget::open(&policy.config.models.target)?;
        sft::check(policy, &target)?;
        rl::check(policy, &target)?;
        for phase in self.phases() {
            self.check_stop(&phases)?;
            if phase == Phase::Test && test::is_of_another(&self.out, &phases) {
                // What the policy won before it went on is measured again.
                phases.finished.retain(|record| record.phase != Phase::Test);
            }
            let asked = settings.of(phase, &phases);
            let finish = |record: PhaseRecord, phases: &mut Phases| {
                phases.files_lines = Some(dir.commit_phase(phase, &self.files_of(phase))?);
                log.emit(&Event::PhaseFinished { record: Box::new(record.clone()) });
                phases.put(record);
                phases.write(&self.out)
            };
            let mut is_finished = phases.checked(&self.out, phase, &asked)?.is_some();
            if !is_finished && let Some(record) = self.reused(phase, &asked)? {
                add_phase_time(&self.out, phase, 0.0)?;
                finish(record, &mut phases)?;
                is_finished = true;
            }
            if is_finished && !self.goes_on(phase, &phases) {
                continue;
            }
            log.emit(&Event::PhaseStarted { phase });
            let began = Instant::now();
            let made = self.make(phase, &phases, policy).await;
            add_phase_time(&self.out, phase, began.elapsed().as_secs_f64())?;
            finish(made?.with_settings(asked), &mut phases)?;
        }
        Ok(PhasedSummary { test: test_games(&self.out)?, phases })
    }

    /// The phases of this run, in order.
    fn phases(&self) -> impl Iterator<Item = Phase> + use<'_> {
        Phase::ALL.into_iter().filter(|phase| *phase != Phase::Test || self.loaded.config.eval.test)
    }

    /// A person can end the run between phases too.
    fn check_stop(&self, phases: &Phases) -> Result<(), Error> {
        let is_asked = self.stop.after_step.is_cancelled() || self.stop.soon.is_cancelled();
        if !is_asked && !is_stop_requested(&self.out) {
            return Ok(());
        }
        withdraw_stop(&self.out)?;
        let total_steps = n_phases(self.phases().count());
        Err(PipelineError::Stopped { last_step: n_phases(phases.finished.len()), total_steps }.into())
    }

    /// True if a finished phase has more to do: more iterations extend it.
    fn goes_on(&self, phase: Phase, phases: &Phases) -> bool {
        let done = phases.get(Phase::Rl).and_then(|record| record.figures.get("iterations").copied());
        phase == Phase::Rl && done.is_some_and(|done| done < self.iterations())
    }

    fn iterations(&self) -> f64 {
        self.loaded.config.rl.clone().unwrap_or_default().iterations as f64
    }

    /// The result of another run, copied into this one.
    fn reused(&self, phase: Phase, asked: &RunIdentity) -> Result<Option<PhaseRecord>, Error> {
        for run in &self.reuse {
            let Some(found) = Phases::read(run)? else {
                return Err(PipelineError::NoRun { path: run.clone() }.into());
            };
            let Some(record) = found.with_key(phase, asked) else { continue };
            // A run can be extended, and not shortened.
            if record.figures.get("iterations").is_some_and(|done| *done > self.iterations()) {
                continue;
            }
            let (from, to) = (phase.dir(run), phase.dir(&self.out));
            check_result(phase, &from, record)?;
            // A process that dies here leaves no half of a phase under its name.
            let beside = self.out.join(format!("{}.new", phase.as_str()));
            atomic::remove_dir(&beside)?;
            copy_dir(&from, &beside)?;
            atomic::remove_dir(&to)?;
            std::fs::rename(&beside, &to).map_err(failed("write", &to))?;
            return Ok(Some(record.clone().reused()));
        }
        Ok(None)
    }

    async fn make(&self, phase: Phase, phases: &Phases, policy: &LoadedConfig) -> Result<PhaseRecord, Error> {
        match phase {
            Phase::Collect => self.collect(phases).await,
            Phase::Distill => self.distill(phases).await,
            Phase::Sft => self.fine_tune(phases, policy).await,
            Phase::Rl => self.reinforce(phases, policy).await,
            Phase::Test => {
                let policies = [
                    (None, None, None),
                    (Some(Phase::Sft), Some(self.policy(Phase::Sft)), Some(self.shown())),
                    (Some(Phase::Rl), Some(self.policy(Phase::Rl)), Some(self.bank_of_rl())),
                    (Some(Phase::Rl), Some(self.policy(Phase::Rl)), None),
                ];
                test::play(policy, &self.out, &policies, &self.stop).await
            }
        }
    }

    /// The engine of a phase. The caps are those of the run: what its earlier phases have sent counts.
    fn engine(&self, phases: &Phases, phase: Phase) -> Result<Engine<'_>, Error> {
        let engine = Engine::new(&self.loaded);
        CallCache::count_earlier(&self.calls_before(phases, phase), &engine)?;
        Ok(engine)
    }

    async fn collect(&self, phases: &Phases) -> Result<PhaseRecord, Error> {
        let asked = self.asked();
        let expert = asked.agent == CollectAgent::Expert;
        let out = Phase::Collect.dir(&self.out).join(TRAJECTORIES_FILE);
        atomic::create_dir(&Phase::Collect.dir(&self.out))?;
        let mut engine = self.engine(phases, Phase::Collect)?;
        let request = CollectRequest {
            split: Split::Train,
            n_episodes: asked.episodes.map(|n| usize::try_from(n).unwrap_or(usize::MAX)),
            expert,
            skill: skills::configured_skill(&self.loaded.config.skill)?.unwrap_or_default(),
        };
        let env = world::environment(&self.loaded, engine.judge()?)?;
        let collecting = Collecting::new(&self.loaded, &mut engine, env, request)?;
        let kept = (!expert).then(|| CallCache::beside(&out)).transpose()?;
        if let Some(kept) = &kept {
            kept.count_spent(&engine);
            // The later phases need it.
            let embedding = engine.retrieval_model()?.map(|model| kept.embedding(model));
            check_embedding(embedding.as_deref(), &CallCtx::new(CallPlace::default())).await?;
        }
        let collected = collecting.collect(kept.as_ref(), self.events.as_ref(), &self.stop).await?;
        let text: String = collected.episodes.iter().map(episode_line).collect();
        atomic::write(&out, text.as_bytes())?;
        let n_won = collected.episodes.iter().filter(|episode| episode.success).count();
        let record = PhaseRecord::new(Phase::Collect, hex_sha256(text.as_bytes()));
        Ok(record
            .with_figure("episodes", Some(collected.episodes.len() as f64))
            .with_figure("won", Some(n_won as f64)))
    }

    async fn distill(&self, phases: &Phases) -> Result<PhaseRecord, Error> {
        let dir = Phase::Distill.dir(&self.out);
        let [out, shown] = [BANK_DIR, SHOWN_DIR].map(|name| dir.join(name));
        atomic::create_dir(&dir)?;
        let episodes = self.episodes()?;
        let distilling = Distilling::new(&self.loaded, episodes, &out)?;
        let mut engine = self.engine(phases, Phase::Distill)?;
        let kept = CallCache::beside(&out)?;
        kept.count_spent(&engine);
        let asked = self.loaded.config.bank.clone().unwrap_or_default();
        let admit = match asked.admit {
            Admission::Unmeasured => Admit::Unmeasured,
            _ => Admit::Candidate,
        };
        // The second time the teacher's replies are there already.
        let measured = distilling.distill(&mut engine, admit, &kept, &self.stop).await?;
        let all = distilling.distill(&mut engine, Admit::Unmeasured, &kept, &self.stop).await?;
        for (path, bank) in [(&out, measured.bank.clone()), (&shown, all.bank)] {
            // A process that died here has left a part.
            atomic::remove_dir(path)?;
            BankDir::create_in_run(path, bank, None)?;
        }
        let skills = measured.bank.skills().len();
        let compression = distilling.compression(&measured.bank);
        let record = PhaseRecord::new(Phase::Distill, hash_of_dir(&shown)?);
        Ok(record
            .with_figure("skills", Some(skills as f64))
            .with_figure("calls", Some(measured.calls as f64))
            .with_figure("compression", compression.map(|compression| compression.ratio)))
    }

    async fn fine_tune(&self, phases: &Phases, policy: &LoadedConfig) -> Result<PhaseRecord, Error> {
        let out = Phase::Sft.dir(&self.out);
        let demonstrator = match self.asked().demonstrations {
            DemonstrationSource::Expert => Demonstrator::Expert(Engine::new(&self.loaded).expert()?),
            DemonstrationSource::Collected => Demonstrator::Episodes(self.episodes()?),
        };
        let mut request = SftRequest::of_config(&policy.config, demonstrator, &out);
        request.bank = Some(self.shown());
        let earlier = self.calls_before(phases, Phase::Sft);
        let (reasoner, _kept) = sft::teacher(&self.loaded, &out, &earlier)?.unzip();
        request.reasoner = reasoner;
        request.before = self.spent_before(phases, Phase::Sft)?;
        let prepared = sft::prepare(policy, &request, Arc::clone(&self.events), self.stop.clone()).await?;
        let summary = prepared.trainer.train(&out).await?;
        let policy = hash_of_dir(&self.policy(Phase::Sft))?;
        let record = PhaseRecord::new(Phase::Sft, policy);
        Ok(record
            .with_figure("examples", Some(summary.train_examples as f64))
            .with_figure("steps", Some(summary.steps as f64))
            .with_figure("tokens", Some(summary.tokens as f64))
            .with_figure("loss", summary.after.as_ref().and_then(|after| after.loss)))
    }

    async fn reinforce(&self, phases: &Phases, policy: &LoadedConfig) -> Result<PhaseRecord, Error> {
        let out = Phase::Rl.dir(&self.out);
        let loaded = with_policy(policy, &self.policy(Phase::Sft))?;
        let mut request = RlRequest::of_config(&loaded.config, &out);
        request.bank = Some(Phase::Distill.dir(&self.out).join(BANK_DIR));
        request.before = self.spent_before(phases, Phase::Rl)?;
        request.earlier_calls = self.calls_before(phases, Phase::Rl);
        let trainer = rl::prepare(&loaded, &request, Arc::clone(&self.events), self.stop.clone())?;
        let summary = trainer.train(&out).await?;
        let policy = hash_of_dir(&self.policy(Phase::Rl))?;
        let record = PhaseRecord::new(Phase::Rl, policy);
        let games = |games: Option<SftGames>| games.map(|games| games.score);
        Ok(record
            .with_figure("iterations", Some(summary.iterations as f64))
            .with_figure("tokens", Some(summary.tokens as f64))
            .with_figure("skills", summary.bank.as_ref().map(|bank| bank.active as f64))
            .with_figure("games_before", games(summary.before))
            .with_figure("games_after", games(summary.after)))
    }

    /// What phases before this one have taken of the caps.
    fn spent_before(&self, phases: &Phases, phase: Phase) -> Result<WeightsSpent, Error> {
        let times = phase_times(&self.out)?;
        let earlier = || Phase::ALL.into_iter().take_while(|other| *other != phase);
        let tokens = earlier().filter_map(|phase| phases.get(phase)?.figures.get("tokens").copied());
        Ok(WeightsSpent {
            tokens: tokens.sum::<f64>() as u64,
            seconds: earlier().filter_map(|phase| times.get(phase.as_str())).sum(),
        })
    }

    fn asked(&self) -> CollectConfig {
        self.loaded.config.collect.clone().unwrap_or_default()
    }

    fn episodes(&self) -> Result<Vec<Episode>, Error> {
        let path = Phase::Collect.dir(&self.out).join(TRAJECTORIES_FILE);
        let text = text_file::read(&path).map_err(|source| Error::Read {
            what: "episodes",
            path: path.clone(),
            source,
        })?;
        let read = read_episodes(&text)
            .map_err(|error| PipelineError::Corrupt { path, message: error.to_string() })?;
        Ok(read.episodes)
    }

    fn policy(&self, phase: Phase) -> PathBuf {
        phase.dir(&self.out).join(POLICY_DIR)
    }

    fn shown(&self) -> PathBuf {
        Phase::Distill.dir(&self.out).join(SHOWN_DIR)
    }

    fn bank_of_rl(&self) -> PathBuf {
        Phase::Rl.dir(&self.out).join(BANK_DIR)
    }

    /// What the phases before this one have made, with their calls beside it: they count for its caps. What was taken over
    /// was paid for by another run.
    fn calls_before(&self, phases: &Phases, phase: Phase) -> Vec<PathBuf> {
        let earlier = Phase::ALL.into_iter().take_while(|earlier| *earlier != phase);
        let is_own = |phase: &Phase| phases.get(*phase).is_none_or(|record| !record.is_reused);
        let made = |phase: Phase| match phase {
            Phase::Collect => Some(phase.dir(&self.out).join(TRAJECTORIES_FILE)),
            Phase::Distill => Some(phase.dir(&self.out).join(BANK_DIR)),
            Phase::Sft => Some(phase.dir(&self.out)),
            Phase::Rl | Phase::Test => None,
        };
        earlier.filter(is_own).filter_map(made).collect()
    }
}

fn n_phases(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// Refuses a phase whose files are not those that it was finished with.
fn check_result(phase: Phase, dir: &Path, record: &PhaseRecord) -> Result<(), PipelineError> {
    let found = match phase {
        Phase::Collect => {
            let path = dir.join(TRAJECTORIES_FILE);
            let bytes = regular_file::read(&path).map_err(failed("read", &path))?;
            hex_sha256(&bytes)
        }
        Phase::Distill => hash_of_dir(&dir.join(SHOWN_DIR))?,
        Phase::Sft | Phase::Rl => hash_of_dir(&dir.join(POLICY_DIR))?,
        // What was won is numbers, with nothing built on them.
        Phase::Test => return Ok(()),
    };
    if found == record.result {
        return Ok(());
    }
    let message = format!("the result of the phase {} was changed after it was finished", phase.as_str());
    Err(PipelineError::Corrupt { path: dir.to_owned(), message })
}

fn copy_dir(from: &Path, to: &Path) -> Result<(), PipelineError> {
    atomic::create_dir(to)?;
    for entry in std::fs::read_dir(from).map_err(failed("copy", from))? {
        let path = entry.map_err(failed("copy", from))?.path();
        let into = to.join(path.file_name().unwrap_or_default());
        if path.is_dir() {
            copy_dir(&path, &into)?;
        } else {
            std::fs::copy(&path, &into).map_err(failed("copy", &path))?;
        }
    }
    Ok(())
}
