//! The model whose weights are trained: the target where it runs on this machine; where it is simulated, a small decoder
//! for households that the program makes.

mod files;

pub(crate) use files::{LocalPolicy, texts_of_base};

use crate::config::key::declare::Carry as _;
use crate::config::{ConfigPath, EnvConfig, LoadedConfig, LocalConfig, ModelConfig};
use crate::error::Error;
use files::TOKENIZER_FILE;
use serde_json::{Value, json};
use skill_llm::LlmError;
use skill_llm::error::with_causes;
use skill_llm::regular_file;
use skill_pipeline::run_dir::policy_hashes::verify_policy;
use skill_pipeline::run_dir::vacant::check_vacant;
use skill_pipeline::run_dir::{INITIAL_POLICY_DIR, atomic};
use skill_train::TrainError;
use skill_train::chat::RenderOptions;
use skill_train::chat_model::{ModelFiles, WeightFormat};
use skill_train::lora::{LINEAR_LAYERS, LoraConfig};
use skill_train::model::Decoder;
use skill_weights::policy::PolicyText;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The file of the decoder that is written last.
const LAST_FILE: &str = "model.safetensors";

/// The configuration with a target that can be trained by the run in this directory. A simulated target becomes the small
/// decoder, whose files are kept with the run.
///
/// # Errors
///
/// A simulated target of another world than households, a directory that holds something else or cannot be written.
pub fn trainable(loaded: &LoadedConfig, run: &Path) -> Result<LoadedConfig, Error> {
    if !matches!(loaded.config.models.target, ModelConfig::Simulated(_)) {
        return Ok(loaded.clone());
    }
    if !matches!(loaded.config.env, EnvConfig::Alfworld(_)) {
        let message = format!(
            "the policy that comes with the program plays households only, and the environment is \"{}\": name a \
             model on this machine as the target, or a policy",
            loaded.config.env.kind()
        );
        return Err(target_error(message));
    }
    check_vacant(run)?;
    let dir = run.join(INITIAL_POLICY_DIR);
    if !dir.join(LAST_FILE).is_file() {
        atomic::create_dir(&dir)?;
        for (name, bytes) in decoder(loaded.config.run.seed)? {
            atomic::write(&dir.join(name), &bytes)?;
        }
    }
    with_policy(loaded, &dir)
}

#[cfg(feature = "sim")]
fn decoder(seed: u64) -> Result<Vec<(&'static str, Vec<u8>)>, Error> {
    skill_sim::household_decoder(seed).map_err(|error| model_error(&error))
}

#[cfg(not(feature = "sim"))]
fn decoder(_: u64) -> Result<Vec<(&'static str, Vec<u8>)>, Error> {
    Err(Error::LeftOut { what: "the policy that comes with the program".to_owned(), feature: "sim" })
}

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
    /// By `lora_rank` and `lora_alpha`: rank 0 trains all weights, and the scale is twice the rank where none is given.
    pub(crate) fn of(rank: u32, alpha: Option<f64>) -> Self {
        match rank.carry() {
            0 => Self::Full,
            n => Self::Lora { rank: n, alpha: alpha.unwrap_or(2.0 * f64::from(rank)) },
        }
    }

    /// The rank of the adapter; 0 where all weights are trained.
    pub fn rank(self) -> usize {
        match self {
            Self::Lora { rank, .. } => rank,
            Self::Full => 0,
        }
    }

    /// The name in the identity of a run.
    pub(crate) fn value(self) -> Value {
        match self {
            Self::Lora { rank, alpha } => json!({"lora": {"rank": rank, "alpha": alpha}}),
            Self::Full => json!("full"),
        }
    }
}

/// The target, if it runs on this machine.
fn local(target: &ModelConfig) -> Result<&LocalConfig, Error> {
    match target {
        ModelConfig::Local(asked) => Ok(asked),
        other => Err(target_error(format!(
            "kind \"{}\" has no weights here; only kind \"local\" is trained, or a folder with weights (`--policy DIR`)",
            other.kind()
        ))),
    }
}

/// The files of the target, where it runs on this machine.
pub(crate) struct LocalTarget<'config> {
    pub(crate) config: &'config LocalConfig,
    pub(crate) path: PathBuf,
    pub(crate) adapter: Option<PathBuf>,
    pub(crate) files: ModelFiles,
}

impl<'config> LocalTarget<'config> {
    pub(crate) fn open(target: &'config ModelConfig) -> Result<Self, Error> {
        let config = local(target)?;
        let (path, adapter) = (config.path.to_path(), config.adapter.as_ref().map(ConfigPath::to_path));
        let files = ModelFiles::open(&path, adapter.as_deref()).map_err(|error| model_error(&error))?;
        Ok(Self { config, path, adapter, files })
    }

    /// What turns conversations into tokens and back.
    pub(crate) fn text(&self) -> PolicyText {
        let files = &self.files;
        PolicyText {
            template: files.template().clone(),
            codec: Arc::new(files.tokenizer().clone()),
            options: RenderOptions::default(),
            stop_tokens: files.stop_tokens().to_vec(),
        }
    }

    /// Refuses a method by which these weights cannot be trained on this machine.
    pub(crate) fn check_method(&self, method: Method) -> Result<(), Error> {
        if method == Method::Full && self.files.format() == WeightFormat::Gguf {
            let message = "all weights of a GGUF file cannot be trained: train an adapter, or take a folder with safetensors";
            return Err(target_error(message.to_owned()));
        }
        Ok(())
    }

    /// Reads the weights that are trained, in this way; a compact base of an adapter keeps the bytes of its file.
    pub(crate) fn to_train(
        &self,
        method: Method,
        seed: u64,
        base_is_compact: bool,
    ) -> Result<Decoder, Error> {
        let Self { path, files, .. } = self;
        let failed = |error: TrainError| model_error(&error);
        self.check_method(method)?;
        let loaded = if base_is_compact { files.load_to_adapt() } else { files.load_to_train() };
        let mut model = loaded.map_err(failed)?;
        match method {
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
}

/// The base model that the adapter of a policy names.
pub(crate) fn base_named(policy: &Path) -> Result<Option<PathBuf>, Error> {
    let path = policy.join(skill_train::lora::CONFIG_FILE);
    let read = regular_file::read_to_string(&path);
    let text = read.map_err(|source| Error::Read { what: "adapter", path: path.clone(), source })?;
    let config: Value = serde_json::from_str(&text)
        .map_err(|error| target_error(format!("{} is not JSON: {error}", path.display())))?;
    match config.get("base_model_name_or_path") {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(base)) => Ok(Some(PathBuf::from(base))),
        Some(other) => Err(target_error(format!(
            "{} has {other} as `base_model_name_or_path`; expected a text",
            path.display()
        ))),
    }
}

/// The same configuration with a trained policy as its target: a folder with an adapter or with all weights, whose files
/// are those of its hashes, if it has any.
///
/// # Errors
///
/// A folder that holds neither, or has a file that was changed since training wrote it, or an adapter that does not name
/// its base.
pub fn with_policy(loaded: &LoadedConfig, policy: &Path) -> Result<LoadedConfig, Error> {
    let policy = std::path::absolute(policy).unwrap_or_else(|_| policy.to_owned());
    verify_policy(&policy)?;
    let adapter = policy.join(skill_train::lora::CONFIG_FILE);
    let (path, adapter) = if adapter.is_file() {
        let base = base_named(&policy)?;
        let configured = match &loaded.config.models.target {
            ModelConfig::Local(asked) => Some(asked.path.to_path()),
            _ => None,
        };
        let base = base.filter(|base| base.exists()).or(configured).ok_or_else(|| {
            target_error(format!("the base of the adapter {} is not found", policy.display()))
        })?;
        let tokenizer = |folder: &Path| {
            let path = folder.join(TOKENIZER_FILE);
            regular_file::read_if_there(&path).map_err(|source| Error::Read {
                what: "tokenizer",
                path,
                source,
            })
        };
        let both = tokenizer(&policy)?.zip(tokenizer(&base)?);
        if both.is_some_and(|(of_policy, of_base)| of_policy != of_base) {
            return Err(target_error(format!(
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
        return Err(target_error(format!("{} holds no adapter and no model", policy.display())));
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
        ModelConfig::try_from(keys).map_err(|error| target_error(error.to_string()))?;
    Ok(changed)
}

/// What is wrong with the target.
pub(crate) fn target_error(message: String) -> Error {
    Error::Model { role: "target", source: LlmError::Configuration { message } }
}

/// What is wrong with the weights of the target.
pub(crate) fn model_error(error: &TrainError) -> Error {
    target_error(format!("failed to {}", with_causes(error)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::SftConfig;

    #[test]
    fn the_scale_of_an_adapter_is_twice_its_rank_unless_it_is_given() {
        assert_eq!(Method::of(SftConfig::default().lora_rank, None), Method::Lora { rank: 16, alpha: 32.0 });
        assert_eq!(Method::of(8, Some(4.0)), Method::Lora { rank: 8, alpha: 4.0 });
        assert_eq!(Method::of(0, None), Method::Full);
    }
}
