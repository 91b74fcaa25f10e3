//! What this machine can fine-tune, where the target runs on it.

use super::{Examination, Finding};
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

/// The server that trains, if one is configured: whether it answers, and has the base model.
#[cfg(feature = "weights")]
pub(super) async fn server(loaded: &LoadedConfig, asked: &Examination) -> Option<Finding> {
    use super::{Check, Network};
    use crate::config::ModelConfig;
    use crate::train_backend::{base_model, connection};
    use skill_llm::error::with_causes;
    let server = loaded.config.tinker.as_ref()?;
    if asked.network == Network::Offline {
        let message = format!("the training server {} was not tested", server.base_url);
        return Some(Finding::skipped(Check::Training, message, "leave `--offline` out"));
    }
    let connection = match connection(loaded) {
        Ok(connection) => connection?,
        Err(error) => return Some(Finding::of_error(Check::Training, &error)),
    };
    let found = tokio::time::timeout(asked.timeout, connection.base_models()).await;
    let models = match found {
        Ok(Ok(models)) => models,
        Ok(Err(error)) => {
            let message = format!("failed to ask: {}", with_causes(&error));
            let hint = "start it (`skillrl train-server MODEL`), or correct `tinker.base_url`";
            return Some(Finding::error(Check::Training, message, hint));
        }
        Err(_) => {
            let seconds = asked.timeout.as_secs();
            let message =
                format!("the training server {} gave no answer in {seconds} s", connection.server());
            return Some(Finding::error(Check::Training, message, "start it again, or raise `--timeout`"));
        }
    };
    let wanted = match &loaded.config.models.target {
        ModelConfig::Local(target) => base_model(loaded, &target.path.to_path()),
        _ => server.base_model.clone().unwrap_or_default(),
    };
    let message = format!("the training server {} has {}", connection.server(), models.join(", "));
    Some(match models.contains(&wanted) {
        true => Finding::ok(Check::Training, message),
        false => Finding::error(
            Check::Training,
            format!("{message}, and not {wanted}"),
            "name one of its models with `tinker.base_model`",
        ),
    })
}

/// Nothing: this build trains no models.
#[cfg(not(feature = "weights"))]
pub(super) async fn server(_: &LoadedConfig, _: &Examination) -> Option<Finding> {
    None
}

/// Nothing: this build trains no models.
#[cfg(not(feature = "weights"))]
pub(super) fn examine(_: &LoadedConfig) -> Vec<Finding> {
    Vec::new()
}
