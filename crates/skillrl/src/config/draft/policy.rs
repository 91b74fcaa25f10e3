//! Training of weights with simulated models: a decoder that learns from nothing, in small households.

use super::{Draft, ValueSource};
use crate::config::models::{LOCAL_KIND, SIMULATED_KIND};
use crate::config::types::TrainMode;
use crate::config::{EnvKind, keys};

/// What the decoder of `skill_sim` learns with in a few minutes, as TOML; `benches/weights.md` has what it comes to.
const SETTINGS: &[(&str, &str)] = &[
    ("env.rooms", "\"small\""),
    ("env.task_types", "[\"pick_and_place_simple\", \"look_at_obj_in_light\"]"),
    ("env.max_train", "3200"),
    ("env.max_val", "100"),
    ("env.max_test", "60"),
    ("env.max_turns", "20"),
    ("env.max_repetitions", "100"),
    // Games that are lost take half the time, and hardly one is won after more.
    ("env.max_invalid_actions", "5"),
    ("env.action_format", "\"tags\""),
    ("env.think", "false"),
    ("env.show_admissible", "false"),
    ("env.history_turns", "100"),
    // Its context is short, and each skill in a prompt costs time.
    ("retrieval.top_k", "1"),
    ("retrieval.task_top_k", "1"),
    ("retrieval.mistakes_top_k", "0"),
    ("sft.examples", "3200"),
    ("sft.epochs", "2"),
    ("sft.batch_size", "8"),
    ("sft.learning_rate", "3e-3"),
    ("sft.beta2", "0.99"),
    ("sft.lora_rank", "0"),
    ("sft.max_tokens", "1024"),
    ("sft.mistakes", "0.125"),
    ("sft.validation_interval", "500"),
    ("sft.checkpoint_interval", "250"),
    ("rl.iterations", "12"),
    ("rl.tasks", "8"),
    ("rl.group_size", "8"),
    ("rl.batch_size", "64"),
    ("rl.learning_rate", "3e-4"),
    ("rl.lora_rank", "0"),
    ("rl.kl_coeff", "0.0"),
    ("rl.aggregation", "\"seq_mean_token_mean\""),
    ("rl.invalid_action_penalty", "0.05"),
    ("rl.reply_advantage", "1.0"),
    ("rl.max_prompt_tokens", "1000"),
    ("rl.max_reply_tokens", "24"),
];
/// The same for the phases that only a run of all has.
const OF_ALL_PHASES: &[(&str, &str)] = &[("collect.episodes", "64"), ("bank.admit", "\"unmeasured\"")];

/// Limits that depend on the context of the target.
pub(super) const OF_CONTEXT: [&str; 3] = ["sft.max_tokens", "rl.max_prompt_tokens", "rl.max_reply_tokens"];

/// What the decoder has room for, of a limit of [`OF_CONTEXT`].
pub(super) fn limit_of_decoder(path: &str) -> Option<i64> {
    SETTINGS.iter().find(|(name, _)| *name == path)?.1.parse().ok()
}

impl Draft {
    /// Settings that nobody has given, where a simulated target stands for the decoder.
    pub(in crate::config) fn fill_policy(&mut self) {
        let is_of_all_phases = self.mode() == TrainMode::Weights.as_str();
        let env = keys::section("env").and_then(|section| self.kind_of(section));
        let is_household = env.as_deref() == Some(EnvKind::Alfworld.as_str());
        let is_simulated = self.model_kind("target").as_deref() == Some(SIMULATED_KIND);
        if !is_household || !is_simulated || !(is_of_all_phases || self.trains_weights) {
            return;
        }
        let of_all_phases = OF_ALL_PHASES.iter().filter(|_| is_of_all_phases);
        for (path, toml) in SETTINGS.iter().chain(of_all_phases) {
            let Some((_, key)) = keys::find(path) else { continue };
            let value = keys::value_of(key, toml);
            if let (Some(value), true) = (value, self.given.insert((*path).to_owned())) {
                self.set((*path).to_owned(), value, ValueSource::Preset);
            }
        }
    }

    /// True if a model of this kind can be trained here.
    pub(super) fn can_train(&self, kind: &str) -> bool {
        let env = keys::section("env").and_then(|section| self.kind_of(section));
        kind == LOCAL_KIND || kind == SIMULATED_KIND && env.as_deref() == Some(EnvKind::Alfworld.as_str())
    }
}
