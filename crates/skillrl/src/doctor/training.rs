//! What this machine can fine-tune, where the target runs on it.

use super::Finding;
use crate::config::LoadedConfig;

/// The capacity of the machine, and whether the configured fine-tuning fits.
#[cfg(feature = "weights")]
pub(super) fn examine(loaded: &LoadedConfig) -> Vec<Finding> {
    use super::Check;
    use crate::config::ModelConfig;
    use crate::sft::{MemoryForecast, capacity};
    if !matches!(loaded.config.models.target, ModelConfig::Local(_)) {
        return Vec::new();
    }
    let mut findings = vec![Finding::ok(Check::Training, capacity())];
    if let (Some(asked), Ok(forecast)) = (&loaded.config.sft, MemoryForecast::of_config(loaded)) {
        let method = match asked.lora_rank {
            0 => "all weights".to_owned(),
            rank => format!("an adapter of rank {rank}"),
        };
        let message = format!("`skillrl sft` trains {method}: {}", forecast.describe());
        findings.push(match forecast.is_too_much() {
            false => Finding::ok(Check::Training, message),
            true => {
                let hint =
                    "train an adapter (`sft.lora_rank`), or lower `sft.max_tokens` or `sft.batch_size`";
                Finding::error(Check::Training, message, hint)
            }
        });
    }
    findings
}

/// Nothing: this build trains no models.
#[cfg(not(feature = "weights"))]
pub(super) fn examine(_: &LoadedConfig) -> Vec<Finding> {
    Vec::new()
}
