//! A trained policy as one folder for servers of models: the adapter merged into its base, with tokenizer and chat
//! template.

use crate::error::{Error, MergeError};
use crate::policy::{base_named, model_error, texts_of_base};
use serde::Serialize;
use serde_json::Value;
use skill_llm::regular_file;
use skill_pipeline::run_dir::policy_hashes::{HASHES_FILE, verify_policy, write_hashes};
use skill_pipeline::run_dir::{INITIAL_POLICY_DIR, atomic, read_config};
use skill_train::TrainError;
use skill_train::lora;
use skill_train::merge::{Adapter, write_f16};
use skill_train::weights::WeightFiles;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

const CONFIG_FILE: &str = "config.json";
const WEIGHTS_FILE: &str = "model.safetensors";
const INDEX_FILE: &str = "model.safetensors.index.json";
/// The file of a policy whose weights a training server has.
const SERVER_FILE: &str = "tinker.json";
/// Where runs have their policies, the last one first.
const POLICIES: [&str; 4] = ["rl/policy", "sft/policy", "policy", ""];

/// What is merged.
#[derive(Debug, Clone)]
pub struct MergeOptions {
    /// A run of fine-tuning, GRPO or all phases, whose last policy is taken, or the folder of a policy.
    pub from: PathBuf,
    /// The folder that is written.
    pub to: PathBuf,
    /// The base model of the adapter, if it was moved since training.
    pub base: Option<PathBuf>,
    /// Whether a folder with a model is replaced.
    pub force: bool,
}

/// A policy that was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MergedPolicy {
    /// The folder.
    pub path: PathBuf,
    /// The policy that was taken.
    pub policy: PathBuf,
    /// The base of its adapter; `None` for a policy of which all weights were trained.
    pub base: Option<PathBuf>,
    /// The tensors that were merged.
    pub n_merged: usize,
    /// The bytes of the weights.
    pub bytes: u64,
}

/// Writes a policy as safetensors of F16 with the configuration, tokenizer and chat template of its base.
///
/// # Errors
///
/// A path without a policy, a policy that only this program or a training server can play, a base that is not found or
/// is a GGUF file, an adapter of another base, and files that cannot be read or written.
pub fn merge(options: &MergeOptions) -> Result<MergedPolicy, Error> {
    let policy = policy_of(&options.from)?;
    verify_policy(&policy)?;
    let has_adapter = policy.join(lora::CONFIG_FILE).is_file();
    let base = match has_adapter {
        true => Some(base_of(&policy, options.base.as_deref())?),
        false => None,
    };
    let source = base.as_ref().unwrap_or(&policy);
    if is_of_program(&policy, source) {
        return Err(MergeError::OfProgram { policy }.into());
    }
    let to = options.to.as_path();
    check_place(to, &[Some(&policy), base.as_ref()], options.force)?;
    let weights = WeightFiles::open(source).map_err(|error| model_error(&error))?;
    let adapter =
        has_adapter.then(|| Adapter::open(&policy)).transpose().map_err(|error| model_error(&error))?;
    // The policy's own tokenizer and template, if it has them, in place of those of the base.
    let mut texts = BTreeMap::new();
    for dir in [source, &policy] {
        texts.extend(texts_of_base(dir).map_err(|error| model_error(&error))?);
    }
    texts.insert(CONFIG_FILE.to_owned(), half_config(&source.join(CONFIG_FILE))?);
    atomic::create_dir(to)?;
    let part = to.join(format!("{WEIGHTS_FILE}.part"));
    let n_merged = write_weights(&weights, adapter.as_ref(), &part).inspect_err(|_| {
        // A half-written file is of no use.
        drop(std::fs::remove_file(&part));
    })?;
    // Servers follow the index of a model in several files, where there is one.
    atomic::remove_file(&to.join(INDEX_FILE))?;
    let path = to.join(WEIGHTS_FILE);
    std::fs::rename(&part, &path).map_err(|source| MergeError::Write { path: path.clone(), source })?;
    for (name, bytes) in &texts {
        atomic::write(&to.join(name), bytes)?;
    }
    write_hashes(to, texts.keys().map(String::as_str).chain([WEIGHTS_FILE]))?;
    let bytes = path.metadata().map_err(|source| MergeError::Write { path, source })?.len();
    Ok(MergedPolicy { path: to.to_owned(), policy, base, n_merged, bytes })
}

fn write_weights(weights: &WeightFiles, adapter: Option<&Adapter>, path: &Path) -> Result<usize, Error> {
    let failed = |source| MergeError::Write { path: path.to_owned(), source };
    let mut out = BufWriter::with_capacity(1 << 20, File::create(path).map_err(failed)?);
    let n_merged = write_f16(weights, adapter, &mut out, path).map_err(|error| match error {
        TrainError::Io { path, source } => MergeError::Write { path, source }.into(),
        error => model_error(&error),
    })?;
    let file = out.into_inner().map_err(|error| failed(error.into_error()))?;
    file.sync_all().map_err(failed)?;
    Ok(n_merged)
}

/// Refuses the folder of the policy, of its base or of a run; another model is replaced only with `force`.
fn check_place(to: &Path, sources: &[Option<&PathBuf>], force: bool) -> Result<(), MergeError> {
    let real = |path: &Path| path.canonicalize().ok();
    let is_source = |source: &&PathBuf| real(to).is_some() && real(to) == real(source);
    // A model has a `config.json` too, of another form.
    let is_run = matches!(read_config(to), Ok(Some(_)));
    if sources.iter().flatten().any(is_source) || is_run {
        return Err(MergeError::Source { path: to.to_owned() });
    }
    let of_model = [CONFIG_FILE, WEIGHTS_FILE, INDEX_FILE, HASHES_FILE, lora::CONFIG_FILE];
    if !force && of_model.iter().any(|name| to.join(name).exists()) {
        return Err(MergeError::Exists { path: to.to_owned() });
    }
    Ok(())
}

/// The folder of the last policy of a run, or a policy itself.
fn policy_of(from: &Path) -> Result<PathBuf, Error> {
    let has = |policy: &Path, name: &str| policy.join(name).is_file();
    let is_policy = |policy: &PathBuf| {
        has(policy, lora::CONFIG_FILE) || has(policy, WEIGHTS_FILE) && has(policy, CONFIG_FILE)
    };
    let places = POLICIES.iter().map(|place| from.join(place));
    if let Some(policy) = places.clone().find(is_policy) {
        return Ok(policy);
    }
    match places.clone().find(|policy| has(policy, SERVER_FILE)) {
        Some(policy) => Err(MergeError::AtServer { policy }.into()),
        None => Err(MergeError::NoPolicy { path: from.to_owned() }.into()),
    }
}

/// The folder of the model that an adapter was trained on.
fn base_of(policy: &Path, given: Option<&Path>) -> Result<PathBuf, Error> {
    let base = match given {
        Some(base) => base.to_owned(),
        None => base_named(policy)?.unwrap_or_default(),
    };
    if base.is_file() {
        return Err(MergeError::Quantized { base }.into());
    }
    if !base.join(CONFIG_FILE).is_file() {
        return Err(MergeError::NoBase { policy: policy.to_owned(), base }.into());
    }
    Ok(base)
}

/// True for the built-in decoder that replaces a simulated target: no model server has its tokenizer.
fn is_of_program(policy: &Path, source: &Path) -> bool {
    let is_beside = |dir: &Path| dir.join(INITIAL_POLICY_DIR).is_dir();
    source.file_name().is_some_and(|name| name == INITIAL_POLICY_DIR)
        || source == policy && policy.ancestors().skip(1).take(2).any(is_beside)
}

/// The configuration of a base with the type of the weights that are written.
fn half_config(path: &Path) -> Result<Vec<u8>, Error> {
    let read = regular_file::read_to_string(path);
    let text = read.map_err(|source| Error::Read { what: "model", path: path.to_owned(), source })?;
    let mut config: Value = serde_json::from_str(&text)
        .map_err(|error| MergeError::Config { path: path.to_owned(), message: error.to_string() })?;
    if let Some(keys) = config.as_object_mut() {
        // Releases of transformers from 5 on have the second name.
        let name = if keys.contains_key("dtype") { "dtype" } else { "torch_dtype" };
        keys.insert(name.to_owned(), Value::from("float16"));
        keys.shift_remove("quantization_config");
    }
    let mut bytes = serde_json::to_vec_pretty(&config).expect("what was read can be written");
    bytes.push(b'\n');
    Ok(bytes)
}
