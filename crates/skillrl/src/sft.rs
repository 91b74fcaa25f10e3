//! From a configuration to the fine-tuning of its target, where that runs on this machine.

mod memory;

pub use memory::{MemoryForecast, capacity};

use crate::assemble::{self, ModelRole};
use crate::config::keys::declare::{Carry as _, Fill as _};
use crate::config::{Config, LoadedConfig, LocalConfig, ModelConfig, SftReasoning};
use crate::engine::Engine;
use crate::error::Error;
use crate::hint::CommandHints;
use crate::kept::KeptCalls;
use crate::training_server;
use async_trait::async_trait;
use serde_json::{Value, json};
use skill_bank::BankSource;
use skill_core::SkillDoc;
use skill_envs::source::document;
use skill_envs::{Env, SkillSource};
use skill_llm::LlmError;
use skill_llm::error::with_causes;
use skill_pipeline::bank_dir::read_bank;
use skill_pipeline::records::sft::CHECKPOINTS_DIR;
use skill_pipeline::run_dir::live::{LiveEvents, Pulse};
use skill_pipeline::sft::demos::{Demonstrations, Demonstrator};
use skill_pipeline::sft::reasons::{REASON_PROMPT_NAME, Reasoner};
use skill_pipeline::sft::{SftData, SftSettings, SftTrainer};
use skill_pipeline::weights::{EnvGames, PolicyFile, PolicyText, PolicyWriter, WeightsCaps, WeightsSpent};
use skill_pipeline::{EventSink, RunConfig, StopSignal};
use skill_train::TrainError;
use skill_train::chat::RenderOptions;
use skill_train::chat_model::{ModelFiles, WeightFormat};
use skill_train::checkpoint::StateStore;
use skill_train::local::LocalBackend;
use skill_train::lora::{LINEAR_LAYERS, LoraConfig};
use skill_train::model::{Decoder, Keep};
use skill_train::seam::TrainBackend;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The weights that are trained.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Method {
    /// A LoRA adapter of this rank on all linear layers, scaled by `alpha / rank`.
    Lora {
        /// The rank.
        rank: usize,
        /// The scale times the rank.
        alpha: f64,
    },
    /// All weights.
    Full,
}

impl Method {
    /// The rank of the adapter; 0 where all weights are trained.
    pub fn rank(self) -> usize {
        match self {
            Self::Lora { rank, .. } => rank,
            Self::Full => 0,
        }
    }
}

/// The settings of `[sft]` and the weights that they train, or their defaults if the section is absent.
fn method_of(config: &Config) -> (SftSettings, Method) {
    let asked = config.sft.clone().unwrap_or_default();
    let mut settings = SftSettings::default();
    asked.fill(&mut settings);
    settings.seed = config.run.seed;
    let method = match asked.lora_rank.carry() {
        0 => Method::Full,
        rank => Method::Lora { rank, alpha: asked.alpha() },
    };
    (settings, method)
}

/// A request to fine-tune.
#[derive(Clone)]
#[non_exhaustive]
pub struct SftRequest {
    /// Settings of training.
    pub settings: SftSettings,
    /// The weights that are trained.
    pub method: Method,
    /// The demonstrations.
    pub demonstrator: Demonstrator,
    /// The bank whose skills the prompts hold; without it that of the configuration, else its skill.
    pub bank: Option<PathBuf>,
    /// Games of the selection split with each validation.
    pub n_games: usize,
    /// The directory of the run.
    pub out: PathBuf,
    /// The teacher that writes a reason for each action, where that is requested.
    pub reasoner: Option<Reasoner>,
    /// What counts for the caps already.
    pub before: WeightsSpent,
}

impl SftRequest {
    /// A request with the settings of `[sft]`, or their defaults if the section is absent.
    pub fn of_config(config: &Config, demonstrator: Demonstrator, out: impl Into<PathBuf>) -> Self {
        let mut request = Self::new(demonstrator, out);
        (request.settings, request.method) = method_of(config);
        request.n_games = config.sft.as_ref().map_or(0, |asked| asked.games.carry());
        request
    }

    /// A request with the defaults, which trains an adapter of rank 16 and plays no games.
    pub fn new(demonstrator: Demonstrator, out: impl Into<PathBuf>) -> Self {
        Self {
            settings: SftSettings::default(),
            method: Method::Lora { rank: 16, alpha: 32.0 },
            demonstrator,
            bank: None,
            n_games: 0,
            out: out.into(),
            reasoner: None,
            before: WeightsSpent::default(),
        }
    }
}

/// The teacher that writes reasons for the run in this directory, with its calls, which are kept beside it and held as
/// long as they live; `None` where none is asked for.
///
/// # Errors
///
/// A teacher that is not configured, and calls that another process holds.
pub fn teacher(loaded: &LoadedConfig, out: &Path) -> Result<Option<(Reasoner, KeptCalls)>, Error> {
    if loaded.config.sft.as_ref().is_none_or(|asked| asked.reasoning != SftReasoning::Teacher) {
        return Ok(None);
    }
    let mut engine = Engine::new(loaded);
    let model = engine.model(ModelRole::Teacher)?;
    let kept = KeptCalls::beside(out)?;
    kept.count_spent(&engine);
    let workers = usize::try_from(loaded.config.run.workers).unwrap_or(usize::MAX);
    let mut reasoner = Reasoner::new(kept.chat(model), workers).map_err(Error::Prompt)?;
    if let Some(source) = assemble::replaced_prompt(loaded, REASON_PROMPT_NAME)? {
        reasoner = reasoner.with_prompt(&source).map_err(Error::Prompt)?;
    }
    Ok(Some((reasoner, kept)))
}

/// A run that can begin.
pub struct PreparedSft {
    /// The trainer.
    pub trainer: SftTrainer,
    /// Its back end.
    pub backend: Arc<dyn TrainBackend>,
    /// Its examples.
    pub data: SftData,
    /// The memory that was predicted before the weights were read.
    pub forecast: MemoryForecast,
    /// The first demonstrations that were left out, in words.
    pub notes: Vec<String>,
}

/// Plays the demonstrations, loads the model and makes the trainer; nothing is written.
///
/// # Errors
///
/// A target that does not run here, demonstrations that cannot be used, files of the model that cannot be read.
pub async fn prepare(
    loaded: &LoadedConfig,
    request: &SftRequest,
    events: Arc<dyn EventSink>,
    stop: StopSignal,
) -> Result<PreparedSft, Error> {
    let asked = local_target(loaded)?;
    let (path, adapter) =
        (loaded.resolve(&asked.path), asked.adapter.as_ref().map(|path| loaded.resolve(path)));
    let files = ModelFiles::open(&path, adapter.as_deref()).map_err(|error| model_error(&error))?;
    let text = text_of(&files);
    let env = assemble::environment(loaded)?;
    let source = skills(loaded, request.bank.as_deref(), env.as_ref())?;
    let mut settings = request.settings.clone();
    settings.max_tokens = settings.max_tokens.min(files.config().max_positions);
    let demonstrations = Demonstrations::new(env.as_ref(), source.as_ref())
        .with_wins_only(settings.wins_only)
        .with_reasons(request.reasoner.clone())
        .with_cancel(stop.now.clone());
    // An episode gives at least one example.
    let mut n_played = 0;
    let enough = |_: &_| {
        n_played += 1;
        n_played >= settings.max_examples
    };
    let played = demonstrations.play(&request.demonstrator, enough).await?;
    let data = SftData::new(&played, &text, &settings)?;
    let all = data.train.iter().chain(&data.validation);
    let longest = all.map(|example| example.tokens.len()).max().unwrap_or_default();
    let forecast = MemoryForecast::of_request(&files, request, longest);
    tracing::info!("fine-tuning {} takes {}", files.name(), forecast.describe());
    let store = StateStore::new(request.out.join(CHECKPOINTS_DIR));
    let remote = training_server::backend(
        loaded,
        training_server::Asked {
            target: &path,
            adapter: adapter.as_deref(),
            method: request.method,
            seed: settings.seed,
            has_reference: false,
            store: store.clone(),
        },
    )?;
    let (backend, writer, of_server): (Arc<dyn TrainBackend>, Arc<dyn PolicyWriter>, _) = match remote {
        Some(remote) => (Arc::new(remote.backend), Arc::new(remote.writer), remote.identity),
        None => {
            forecast.check(&path)?;
            let (backend, writer) = backend(&path, &files, request, &forecast)?;
            (Arc::new(backend), Arc::new(writer), Vec::new())
        }
    };
    let budget = &loaded.config.budget;
    let mut identity = vec![
        ("models.policy".to_owned(), json!(files.revision())),
        ("sft.method".to_owned(), method_value(request.method)),
    ];
    identity.extend(of_server);
    identity.extend(
        request.reasoner.as_ref().map(|teacher| ("sft.reasons".to_owned(), json!(teacher.identity()))),
    );
    let config = RunConfig {
        source_text: Some(loaded.source_text.clone()),
        resolved: loaded.config.decisive_json(),
        identity,
        dir: loaded.path.as_ref().map(|_| Path::new(".").join(loaded.base_dir())),
        simulated_models: Vec::new(),
    };
    let events: Arc<dyn EventSink> = Arc::new(LiveEvents::new(events, Arc::new(Pulse::default)));
    let mut trainer = SftTrainer::new(Arc::clone(&backend), store, writer, data.clone())
        .with_settings(settings)
        .with_caps(WeightsCaps::new(budget.tokens, budget.time_s).after(request.before))
        .with_events(events)
        .with_advice(Arc::new(CommandHints))
        .with_stop(stop)
        .with_config(config);
    if request.n_games > 0 {
        let context = files.config().max_positions;
        let max_reply = max_reply_tokens(asked.max_tokens, context);
        let games = EnvGames::new(env, source, text, request.n_games)
            .with_limits(context.saturating_sub(max_reply), max_reply);
        trainer = trainer.with_games(Arc::new(games));
    }
    Ok(PreparedSft { trainer, backend, data, forecast, notes: played.notes })
}

/// The most tokens of a reply in games along the way: those of the target, but no more than a quarter of its context.
fn max_reply_tokens(asked: Option<u32>, context: usize) -> usize {
    const DEFAULT: usize = 512;
    let asked = asked.map_or(DEFAULT, |asked| usize::try_from(asked).unwrap_or(usize::MAX));
    asked.min(context / 4)
}

/// What turns conversations into tokens and back.
pub(crate) fn text_of(files: &ModelFiles) -> PolicyText {
    PolicyText {
        template: files.template().clone(),
        codec: Arc::new(files.tokenizer().clone()),
        options: RenderOptions::default(),
        stop_tokens: files.stop_tokens().to_vec(),
    }
}

/// The target, if it runs on this machine.
pub(crate) fn local_target(loaded: &LoadedConfig) -> Result<&LocalConfig, Error> {
    match &loaded.config.models.target {
        ModelConfig::Local(asked) => Ok(asked),
        other => Err(Error::Model {
            role: "target",
            source: LlmError::Configuration {
                message: format!(
                    "kind \"{}\" has no weights here; only kind \"local\" is trained",
                    other.kind()
                ),
            },
        }),
    }
}

/// The skills that prompts hold.
pub(crate) fn skills(
    loaded: &LoadedConfig,
    bank: Option<&Path>,
    env: &dyn Env,
) -> Result<Arc<dyn SkillSource>, Error> {
    let skill: Option<SkillDoc> = assemble::initial_skill(loaded)?.or_else(|| env.initial_skill());
    let bank = match bank {
        Some(path) => Some(read_bank(path)?.bank),
        None => assemble::initial_bank(loaded)?.map(|(bank, _)| bank),
    };
    let Some(bank) = bank else { return Ok(document(&skill.unwrap_or_default())) };
    let mut engine = Engine::new(loaded);
    let embedding = assemble::retrieval_model(loaded, &mut engine)?;
    let retrieval = assemble::retrieval(loaded, embedding.as_deref())?;
    let frame = skill.filter(|skill| !skill.is_blank());
    let source: BankSource = assemble::bank_source(bank.view(), &retrieval, embedding, frame)?;
    Ok(Arc::new(source))
}

/// Reads the weights that are trained, in this way; a compact base of an adapter keeps the bytes of its file.
pub(crate) fn model_to_train(
    path: &Path,
    files: &ModelFiles,
    method: Method,
    seed: u64,
    base_is_compact: bool,
) -> Result<Decoder, Error> {
    let failed = |error: TrainError| model_error(&error);
    let loaded = if base_is_compact { files.load_to_adapt() } else { files.load_to_train() };
    let mut model = loaded.map_err(failed)?;
    match method {
        Method::Full if files.format() == WeightFormat::Gguf => {
            let message = "all weights of a GGUF file cannot be trained: train an adapter, or take a folder with safetensors";
            return Err(configuration(message.to_owned()));
        }
        Method::Full => model = model.merged().map_err(failed)?,
        // A configured adapter is trained further.
        Method::Lora { .. } if model.lora().is_some() => {}
        Method::Lora { rank, alpha } => {
            let base = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
            let lora = LoraConfig::new(rank, alpha, &LINEAR_LAYERS, &base.display().to_string());
            model.attach_new(lora.map_err(failed)?, seed).map_err(failed)?;
        }
    }
    Ok(model)
}

fn backend(
    path: &Path,
    files: &ModelFiles,
    request: &SftRequest,
    forecast: &MemoryForecast,
) -> Result<(LocalBackend, LocalPolicy), Error> {
    let (method, seed) = (request.method, request.settings.seed);
    let model = model_to_train(path, files, method, seed, forecast.base_is_compact)?;
    let store = StateStore::new(request.out.join(CHECKPOINTS_DIR));
    let backend = LocalBackend::new(model, None, Keep::Activations, store);
    let writer = LocalPolicy::new(backend.clone(), path);
    Ok((backend, writer))
}

/// Writes the model of a back end with the texts of its base: a peft adapter, or merged safetensors.
pub(crate) struct LocalPolicy {
    backend: LocalBackend,
    base: PathBuf,
}

impl LocalPolicy {
    pub(crate) fn new(backend: LocalBackend, base: &Path) -> Self {
        Self { backend, base: base.to_owned() }
    }
}

/// The file of a model's tokenizer.
const TOKENIZER_FILE: &str = "tokenizer.json";
/// Files of a model's folder that stay as they are.
const TEXT_FILES: [&str; 7] = [
    TOKENIZER_FILE,
    "tokenizer_config.json",
    "chat_template.jinja",
    "generation_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "LICENSE",
];

#[async_trait]
impl PolicyWriter for LocalPolicy {
    async fn files(&self) -> Result<Vec<PolicyFile>, TrainError> {
        let model = self.backend.model();
        let mut files: Vec<PolicyFile> =
            model.adapter_files()?.into_iter().map(|(name, bytes)| (name.to_owned(), bytes)).collect();
        if files.is_empty() {
            files.push(("model.safetensors".to_owned(), model.base_file()?));
            let path = self.base.join("config.json");
            let bytes = std::fs::read(&path).map_err(|source| TrainError::Io { path, source })?;
            files.push(("config.json".to_owned(), bytes));
        }
        files.extend(texts_of_base(&self.base));
        Ok(files)
    }
}

/// The files of a model's folder that a policy takes over as they are.
pub(crate) fn texts_of_base(base: &Path) -> impl Iterator<Item = PolicyFile> {
    TEXT_FILES.iter().filter_map(|name| Some(((*name).to_owned(), std::fs::read(base.join(name)).ok()?)))
}

/// The same configuration with a trained policy as its target: a folder with an adapter or with all weights.
///
/// # Errors
///
/// A folder that holds neither, or an adapter that does not name its base.
pub fn with_policy(loaded: &LoadedConfig, policy: &Path) -> Result<LoadedConfig, Error> {
    let policy = std::path::absolute(policy).unwrap_or_else(|_| policy.to_owned());
    let adapter = policy.join(skill_train::lora::CONFIG_FILE);
    let (path, adapter) = if adapter.is_file() {
        let text = std::fs::read_to_string(&adapter).map_err(|source| Error::Read {
            what: "adapter",
            path: adapter.clone(),
            source,
        })?;
        let config: Value = serde_json::from_str(&text).unwrap_or_default();
        let base = config.get("base_model_name_or_path").and_then(Value::as_str).map(PathBuf::from);
        let configured = match &loaded.config.models.target {
            ModelConfig::Local(asked) => Some(loaded.resolve(&asked.path)),
            _ => None,
        };
        let base = base.filter(|base| base.exists()).or(configured).ok_or_else(|| {
            configuration(format!("the base of the adapter {} is not found", policy.display()))
        })?;
        let tokenizer = |folder: &Path| std::fs::read(folder.join(TOKENIZER_FILE)).ok();
        let both = tokenizer(&policy).zip(tokenizer(&base));
        if both.is_some_and(|(of_policy, of_base)| of_policy != of_base) {
            return Err(configuration(format!(
                "the policy {} was trained with another tokenizer than its base {} has now; put that model back, or name \
                 it as the target",
                policy.display(),
                base.display()
            )));
        }
        (base, Some(policy))
    } else if policy.join("config.json").is_file() {
        (policy, None)
    } else {
        return Err(configuration(format!("{} holds no adapter and no model", policy.display())));
    };
    let mut keys = match &loaded.config.models.target {
        target @ ModelConfig::Local(_) => Value::from(target.clone()),
        // Greedy, so that two measurements of one policy agree.
        _ => json!({
            "kind": "local", "context": 8192, "response_schema": "refuse", "batch_rows": 8,
            "prefix_cache_mb": 512, "temperature": 0.0,
        }),
    };
    if let Some(keys) = keys.as_object_mut() {
        keys.insert("path".to_owned(), json!(path));
        keys.insert("adapter".to_owned(), json!(adapter));
    }
    let mut changed = loaded.clone();
    changed.config.models.target =
        ModelConfig::try_from(keys).map_err(|error| configuration(error.to_string()))?;
    Ok(changed)
}

pub(crate) fn method_value(method: Method) -> Value {
    match method {
        Method::Lora { rank, alpha } => json!({"lora": {"rank": rank, "alpha": alpha}}),
        Method::Full => json!("full"),
    }
}

pub(crate) fn configuration(message: String) -> Error {
    Error::Model { role: "target", source: LlmError::Configuration { message } }
}

pub(crate) fn model_error(error: &TrainError) -> Error {
    configuration(format!("failed to {}", with_causes(error)))
}

#[cfg(test)]
mod tests {
    use super::max_reply_tokens;

    #[test]
    fn replies_in_games_are_as_long_as_those_of_the_target_and_leave_room_for_prompts() {
        assert_eq!(max_reply_tokens(Some(32), 8_192), 32);
        assert_eq!(max_reply_tokens(None, 8_192), 512);
        assert_eq!(max_reply_tokens(Some(4_096), 1_024), 256);
    }
}
