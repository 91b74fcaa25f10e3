//! The model whose weights are trained: the target where it runs on this machine; where it is simulated, a small decoder
//! for households that the program makes.

use crate::config::{EnvConfig, LoadedConfig, ModelConfig};
use crate::error::Error;
use crate::sft::{configuration, with_policy};
use skill_pipeline::run_dir::vacant::check_vacant;
use skill_pipeline::run_dir::{INITIAL_POLICY_DIR, atomic};
use std::path::Path;

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
        return Err(configuration(message));
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
    skill_sim::household_decoder(seed).map_err(|error| crate::sft::model_error(&error))
}

#[cfg(not(feature = "sim"))]
fn decoder(_: u64) -> Result<Vec<(&'static str, Vec<u8>)>, Error> {
    Err(Error::LeftOut { what: "the policy that comes with the program".to_owned(), feature: "sim" })
}
