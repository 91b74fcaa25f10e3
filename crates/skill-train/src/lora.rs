//! The configuration of a LoRA adapter, in the file that peft reads and writes.

use std::path::Path;

use serde_json::{Map, Value, json};
use skill_core::python_json;

use crate::error::TrainError;
use crate::model_file;

/// The file of the configuration in an adapter's directory.
pub const CONFIG_FILE: &str = "adapter_config.json";
/// The file of the weights in an adapter's directory.
pub const WEIGHTS_FILE: &str = "adapter_model.safetensors";
/// The largest rank of an adapter.
pub const MAX_RANK: usize = 1 << 16;
/// The linear layers of a decoder, by the last part of their names.
pub const LINEAR_LAYERS: [&str; 7] =
    ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"];

/// The configuration of a LoRA adapter (Hu et al., 2021).
///
/// Keys of the file that mean nothing here are kept and written back.
#[derive(Debug, Clone, PartialEq)]
pub struct LoraConfig {
    rank: usize,
    scale: f64,
    target_modules: Vec<String>,
    file: Map<String, Value>,
}

impl LoraConfig {
    /// A new adapter of this rank on these linear layers (see [`LINEAR_LAYERS`]), scaled by `alpha / rank`.
    ///
    /// `base_model` is what peft shows as the model that the adapter belongs to.
    ///
    /// # Errors
    /// [`TrainError::Model`] for rank 0 or an unknown layer.
    pub fn new(
        rank: usize,
        alpha: f64,
        target_modules: &[&str],
        base_model: &str,
    ) -> Result<Self, TrainError> {
        let mut file = defaults();
        file.insert("r".to_owned(), Value::from(rank));
        let is_whole = alpha.fract() == 0.0 && alpha.abs() < 1e15;
        let alpha = if is_whole { Value::from(alpha as i64) } else { Value::from(alpha) };
        file.insert("lora_alpha".to_owned(), alpha);
        file.insert("target_modules".to_owned(), Value::from(target_modules));
        file.insert("base_model_name_or_path".to_owned(), Value::from(base_model));
        Self::from_map(file)
    }

    /// Reads the text of an `adapter_config.json`.
    ///
    /// # Errors
    /// [`TrainError::Model`] with the key: another kind of adapter, an unknown layer, or a variant that would give
    /// other numbers (DoRA, biases, ranks by layer, layers that are saved whole).
    pub fn from_json(text: &str) -> Result<Self, TrainError> {
        let file =
            python_json::read(text).map_err(|error| TrainError::model(CONFIG_FILE, error.to_string()))?;
        Self::from_map(file)
    }

    /// Reads the configuration of an adapter's directory.
    ///
    /// # Errors
    /// As [`LoraConfig::from_json`], and [`TrainError::Io`].
    pub fn open(directory: &Path) -> Result<Self, TrainError> {
        let path = directory.join(CONFIG_FILE);
        let text = model_file::read_text(&path)?;
        Self::from_json(&text)
    }

    fn from_map(file: Map<String, Value>) -> Result<Self, TrainError> {
        refuse_variants(&file)?;
        let rank = file.get("r").and_then(Value::as_u64).and_then(|rank| usize::try_from(rank).ok());
        let rank = rank.filter(|rank| (1..=MAX_RANK).contains(rank));
        let rank =
            rank.ok_or_else(|| TrainError::model("r", format!("not a rank between 1 and {MAX_RANK}")))?;
        let alpha = file.get("lora_alpha").and_then(Value::as_f64);
        let alpha = alpha.ok_or_else(|| TrainError::model("lora_alpha", "not a number"))?;
        let has_rank_stabilized_scale = file.get("use_rslora").and_then(Value::as_bool) == Some(true);
        let divisor = if has_rank_stabilized_scale { (rank as f64).sqrt() } else { rank as f64 };
        let names =
            file.get("target_modules").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let target_modules = names.iter().map(module).collect::<Result<Vec<_>, _>>()?;
        if target_modules.is_empty() {
            return Err(TrainError::model("target_modules", "not a list of linear layers"));
        }
        Ok(Self { rank, scale: alpha / divisor, target_modules, file })
    }

    /// The rank of the added matrices.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// The factor of the added matrices.
    pub fn scale(&self) -> f64 {
        self.scale
    }

    /// True if the adapter changes the linear layer of this name, such as `self_attn.q_proj`.
    pub fn targets(&self, layer: &str) -> bool {
        self.target_modules.iter().any(|module| layer.rsplit('.').next() == Some(module))
    }

    /// The text of `adapter_config.json` as peft writes it: sorted keys, two spaces, no newline at the end.
    pub fn to_json(&self) -> String {
        let mut keys: Vec<(&String, &Value)> = self.file.iter().collect();
        keys.sort_by_key(|(key, _)| *key);
        let sorted: Map<String, Value> =
            keys.into_iter().map(|(key, value)| (key.clone(), value.clone())).collect();
        serde_json::to_string_pretty(&sorted).expect("settings serialize")
    }
}

/// The name of an adapter's matrix in peft's files: `part` is `lora_A` (`[r, in]`) or `lora_B` (`[out, r]`).
#[cfg(feature = "candle")]
pub(crate) fn tensor_name(layer: usize, linear: &str, part: &str) -> String {
    format!("base_model.model.model.layers.{layer}.{linear}.{part}.weight")
}

fn module(value: &Value) -> Result<String, TrainError> {
    let name = value.as_str().unwrap_or_default();
    match LINEAR_LAYERS.iter().find(|known| **known == name) {
        Some(known) => Ok((*known).to_owned()),
        None => Err(TrainError::model("target_modules", format!("{value} is not one of {LINEAR_LAYERS:?}"))),
    }
}

/// Settings that change the numbers and are not implemented.
fn refuse_variants(file: &Map<String, Value>) -> Result<(), TrainError> {
    let kind = file.get("peft_type").and_then(Value::as_str);
    if kind != Some("LORA") {
        return Err(TrainError::model("peft_type", format!("{kind:?} is not LORA")));
    }
    if !matches!(file.get("bias").and_then(Value::as_str), Some("none") | None) {
        return Err(TrainError::model("bias", "trained biases are not implemented"));
    }
    for (key, value) in file {
        let is_off = match value {
            Value::Null | Value::Bool(false) => true,
            Value::Object(map) => map.is_empty(),
            Value::Array(list) => list.is_empty(),
            Value::Bool(true) | Value::Number(_) | Value::String(_) => false,
        };
        let changes_numbers = matches!(
            key.as_str(),
            "use_dora"
                | "use_qalora"
                | "use_bdlora"
                | "lora_bias"
                | "fan_in_fan_out"
                | "modules_to_save"
                | "rank_pattern"
                | "alpha_pattern"
                | "layers_to_transform"
                | "layer_replication"
                | "target_parameters"
                | "trainable_token_indices"
                | "alora_invocation_tokens"
        );
        if changes_numbers && !is_off {
            return Err(TrainError::model(key, format!("{value} is not implemented")));
        }
    }
    Ok(())
}

/// What peft 0.21 writes for a new adapter.
fn defaults() -> Map<String, Value> {
    let nulls = [
        "alora_invocation_tokens",
        "arrow_config",
        "auto_mapping",
        "corda_config",
        "eva_config",
        "exclude_modules",
        "kasa_config",
        "layer_replication",
        "layers_pattern",
        "layers_to_transform",
        "lora_ga_config",
        "megatron_config",
        "modules_to_save",
        "monteclora_config",
        "revision",
        "target_parameters",
        "trainable_token_indices",
        "use_bdlora",
        "velora_config",
    ];
    let mut all: Map<String, Value> = nulls.into_iter().map(|key| (key.to_owned(), Value::Null)).collect();
    let others = json!({
        "alpha_pattern": {},
        "bias": "none",
        "ensure_weight_tying": false,
        "fan_in_fan_out": false,
        "inference_mode": true,
        "init_lora_weights": true,
        "loftq_config": {},
        "lora_bias": false,
        "lora_dropout": 0.0,
        "megatron_core": "megatron.core",
        "peft_type": "LORA",
        "peft_version": "0.21.2",
        "qalora_group_size": 16,
        "rank_pattern": {},
        "task_type": "CAUSAL_LM",
        "use_dora": false,
        "use_qalora": false,
        "use_rslora": false,
    });
    if let Value::Object(others) = others {
        all.extend(others);
    }
    all
}
