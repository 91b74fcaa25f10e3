//! From a configuration to GRPO on its target, where that runs on this machine.

use crate::assemble::{self, ModelRole};
use crate::config::keys::declare::{Carry as _, Fill as _};
use crate::config::{Config, LoadedConfig, TrainMode};
use crate::engine::Engine;
use crate::error::Error;
use crate::hint::CommandHints;
use crate::kept::KeptCalls;
use crate::sft::{LocalPolicy, Method, local_target, method_value, model_error, model_to_train, text_of};
use crate::training_server;
use serde_json::json;
use skill_bank::Bank;
use skill_core::SkillDoc;
use skill_envs::source::document;
use skill_pipeline::bank_dir::read_bank;
use skill_pipeline::records::sft::CHECKPOINTS_DIR;
use skill_pipeline::rl::{RlBank, RlSettings, RlTrainer};
use skill_pipeline::run_dir::live::{LiveEvents, Pulse};
use skill_pipeline::weights::{EnvGames, PolicyWriter, WeightsCaps, WeightsSpent};
use skill_pipeline::{EventSink, RunConfig, StopSignal};
use skill_train::TrainError;
use skill_train::chat_model::ModelFiles;
use skill_train::checkpoint::StateStore;
use skill_train::local::LocalBackend;
use skill_train::model::Keep;
use skill_train::seam::TrainBackend;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A request to train a policy by GRPO.
#[derive(Clone)]
#[non_exhaustive]
pub struct RlRequest {
    /// Settings of training.
    pub settings: RlSettings,
    /// The weights that are trained. An adapter that the policy has already is trained further.
    pub method: Method,
    /// The bank whose skills the prompts hold; without it that of the configuration, else its skill.
    pub bank: Option<PathBuf>,
    /// Games of the selection split along the way.
    pub n_games: usize,
    /// The directory of the run.
    pub out: PathBuf,
    /// What counts for the caps of training already.
    pub before: WeightsSpent,
    /// Files whose kept calls count for the caps of models already, see [`KeptCalls`].
    pub earlier_calls: Vec<PathBuf>,
}

impl RlRequest {
    /// A request with the settings of `[rl]`, or their defaults if the section is absent.
    pub fn of_config(config: &Config, out: impl Into<PathBuf>) -> Self {
        let asked = config.rl.clone().unwrap_or_default();
        let mut request = Self::new(out);
        asked.fill(&mut request.settings);
        request.settings.seed = config.run.seed;
        request.n_games = asked.games.carry();
        request.method = match asked.lora_rank.carry() {
            0 => Method::Full,
            rank => Method::Lora { rank, alpha: asked.alpha() },
        };
        request
    }

    /// A request with the defaults, which trains an adapter of rank 16 and plays no games.
    pub fn new(out: impl Into<PathBuf>) -> Self {
        Self {
            settings: RlSettings::default(),
            method: Method::Lora { rank: 16, alpha: 32.0 },
            bank: None,
            n_games: 0,
            out: out.into(),
            before: WeightsSpent::default(),
            earlier_calls: Vec::new(),
        }
    }
}

/// Loads the policy and makes the trainer; nothing is written. The policy is the target of the configuration, see
/// [`with_policy`](crate::sft::with_policy), and the reference of its divergence is what it is before the first
/// iteration.
///
/// # Errors
///
/// A target that does not run here, a context that has no room for a prompt and a reply, files that cannot be read.
pub fn prepare(
    loaded: &LoadedConfig,
    request: &RlRequest,
    events: Arc<dyn EventSink>,
    stop: StopSignal,
) -> Result<RlTrainer, Error> {
    request.settings.validate().map_err(Error::Pipeline)?;
    let asked = local_target(loaded)?;
    let path = loaded.resolve(&asked.path);
    let adapter = asked.adapter.as_ref().map(|path| loaded.resolve(path));
    let files = ModelFiles::open(&path, adapter.as_deref()).map_err(|error| model_error(&error))?;
    let mut settings = request.settings.clone();
    let room = files.config().max_positions.saturating_sub(settings.max_reply_tokens);
    if room < 2 {
        return Err(model_error(&TrainError::Request {
            field: "max_reply_tokens".to_owned(),
            fault: format!(
                "{} leave no room for a prompt in a context of {}",
                settings.max_reply_tokens,
                files.config().max_positions
            ),
        }));
    }
    settings.max_prompt_tokens = settings.max_prompt_tokens.min(room);
    let env = assemble::environment(loaded)?;
    let skill = assemble::initial_skill(loaded)?.or_else(|| env.initial_skill());
    // Without a bank everybody is shown the initial skill; with one it comes before the skills of the bank.
    let source = document(&skill.clone().unwrap_or_default());
    let bank = bank_in_the_loop(loaded, request, skill)?;
    let text = text_of(&files);
    let has_reference = settings.kl_coeff > 0.0;
    let store = StateStore::new(request.out.join(CHECKPOINTS_DIR));
    let asked = training_server::Asked {
        target: &path,
        adapter: adapter.as_deref(),
        method: request.method,
        seed: settings.seed,
        has_reference,
        store: store.clone(),
    };
    let mut identity = vec![
        ("models.policy".to_owned(), json!(files.revision())),
        ("rl.method".to_owned(), method_value(request.method)),
    ];
    let (backend, writer): (Arc<dyn TrainBackend>, Arc<dyn PolicyWriter>) =
        match training_server::backend(loaded, asked)? {
            Some(remote) => {
                check_remote(&settings)?;
                identity.extend(remote.identity);
                (Arc::new(remote.backend), Arc::new(remote.writer))
            }
            None => {
                let model = model_to_train(&path, &files, request.method, settings.seed, false)?;
                // The two share their weights until the first step.
                let reference = has_reference.then(|| model.clone());
                let local = LocalBackend::new(model, reference, Keep::Activations, store.clone());
                let writer = LocalPolicy::new(local.clone(), &path);
                (Arc::new(local), Arc::new(writer))
            }
        };
    let config = RunConfig {
        source_text: Some(loaded.source_text.clone()),
        resolved: loaded.config.decisive_json(),
        identity,
        dir: loaded.path.as_ref().map(|_| Path::new(".").join(loaded.base_dir())),
        simulated_models: Vec::new(),
    };
    let budget = &loaded.config.budget;
    let events: Arc<dyn EventSink> = Arc::new(LiveEvents::new(events, Arc::new(Pulse::default)));
    let games = (request.n_games > 0)
        .then(|| EnvGames::new(Arc::clone(&env), Arc::clone(&source), text.clone(), request.n_games))
        .map(|games| games.with_limits(settings.max_prompt_tokens, settings.max_reply_tokens));
    let mut trainer = RlTrainer::new(env, source, backend, store, writer, text)
        .with_settings(settings)
        .with_caps(WeightsCaps::new(budget.tokens, budget.time_s).after(request.before))
        .with_events(events)
        .with_advice(Arc::new(CommandHints))
        .with_stop(stop)
        .with_config(config);
    if let Some(games) = games {
        trainer = trainer.with_games(Arc::new(games));
    }
    if let Some(bank) = bank {
        trainer = trainer.with_bank(bank);
    }
    Ok(trainer)
}

/// Settings that a training server has no place for are refused before a run begins.
fn check_remote(settings: &RlSettings) -> Result<(), Error> {
    let refuse = |key: &str, why: &str| {
        let field = format!("rl.{key}");
        Err(model_error(&TrainError::Request { field, fault: format!("{why} on a training server") }))
    };
    if (settings.temperature - 1.0).abs() > f64::EPSILON {
        return refuse("temperature", "log-probabilities are those of temperature 1");
    }
    if settings.entropy_coeff != 0.0 {
        return refuse("entropy_coeff", "entropies are not known");
    }
    Ok(())
}

/// The bank that takes part, with the teacher that proposes skills for it: a bank that is asked for or configured, and
/// an empty one where banks are trained.
fn bank_in_the_loop(
    loaded: &LoadedConfig,
    request: &RlRequest,
    frame: Option<SkillDoc>,
) -> Result<Option<RlBank>, Error> {
    let trains_banks = loaded.config.train.mode != TrainMode::Document;
    let (initial, source) = match &request.bank {
        Some(path) => (read_bank(path)?.bank, None),
        None => match assemble::initial_bank(loaded)? {
            Some(found) => found,
            None if trains_banks => (Bank::new(), None),
            None => return Ok(None),
        },
    };
    let mut engine = Engine::new(loaded);
    for calls in &request.earlier_calls {
        if let Some(kept) = KeptCalls::existing(calls)? {
            kept.count_spent(&engine);
        }
    }
    let embedding = assemble::retrieval_model(loaded, &mut engine)?;
    let retrieval = assemble::retrieval(loaded, embedding.as_deref())?;
    let mut bank = RlBank::new(initial, retrieval, assemble::teacher_prompts(loaded)?)
        .with_source(source)
        .with_settings(assemble::bank_settings(loaded))
        .with_embedding(embedding)
        .with_frame(frame);
    if trains_banks || loaded.config.models.teacher.is_some() {
        let max_reply_tokens = loaded.config.limits.max_reply_tokens;
        bank = bank.with_teacher(engine.model(ModelRole::Teacher)?, max_reply_tokens);
    }
    Ok(Some(bank.with_budget(engine.budget(), engine.prices())))
}
