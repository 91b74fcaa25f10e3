//! The files of a run that fine-tunes.
//!
//! | file | what it holds |
//! |---|---|
//! | `examples.jsonl` | an [`ExampleLine`] for each example: the training part, then the validation part |
//! | `steps.jsonl` | an [`SftStep`] for each finished step |
//! | `validation.jsonl` | an [`SftValidation`] for each measurement of the validation part |
//! | `checkpoint.json` | where the run is, and the hashes of its states |
//! | `checkpoints/` | the last state and the best one: weights and optimizer |
//! | `policy/` | the trained model, as other programs load it |
//! | `sft_summary.json` | an [`SftSummary`], once the run is finished |
//!
//! Nothing measured in seconds is in them: times are in `events.jsonl` and `sft_times.json`, so that two runs of the
//! same settings can be compared byte for byte.

use serde::{Deserialize, Serialize};
use skill_core::ItemId;

/// The file that tells what the run has reached.
pub const SUMMARY_FILE: &str = "sft_summary.json";
/// The file of finished steps.
pub const STEPS_FILE: &str = "steps.jsonl";
/// The file of measurements of the validation part.
pub const VALIDATION_FILE: &str = "validation.jsonl";
/// The file of the examples.
pub const EXAMPLES_FILE: &str = "examples.jsonl";
/// The file of the position of the run.
pub const CHECKPOINT_FILE: &str = "checkpoint.json";
/// The directory of the states.
pub const CHECKPOINTS_DIR: &str = "checkpoints";
/// The directory of the trained model.
pub const POLICY_DIR: &str = "policy";
/// The file of what the run has taken.
pub const TIMES_FILE: &str = "sft_times.json";

/// An example: where it comes from and how large it is. Its text is in no file of the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExampleLine {
    /// The task.
    pub item: ItemId,
    /// True if it belongs to the validation part.
    pub validation: bool,
    /// The skills that its prompt holds.
    pub skills: Vec<String>,
    /// The number of the first turn of the agent that is learnt, from 1, and of the last one.
    pub turns: [usize; 2],
    /// Tokens.
    pub tokens: usize,
    /// Tokens that are learnt.
    pub targets: usize,
    /// True if its end was cut off.
    pub cut: bool,
}

/// A finished optimizer step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SftStep {
    /// Its number, from 1.
    pub step: u64,
    /// The epoch, from 1.
    pub epoch: u32,
    /// The mean cross-entropy of its tokens before the step, in nats.
    pub loss: f64,
    /// The learning rate.
    pub learning_rate: f64,
    /// The norm of the gradient before clipping.
    pub grad_norm: f64,
    /// Examples of the batch.
    pub examples: usize,
    /// Tokens of the batch.
    pub tokens: u64,
    /// Tokens of the batch that are learnt.
    pub targets: u64,
}

/// A measurement of the validation part.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SftValidation {
    /// Steps that the weights have taken.
    pub step: u64,
    /// The mean cross-entropy of the learnt tokens, in nats; absent without a validation part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<f64>,
    /// Learnt tokens.
    pub targets: u64,
    /// Games of the environment that the model played with these weights, where that is configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub games: Option<SftGames>,
}

/// Games that a model played.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SftGames {
    /// Games that were won.
    pub won: usize,
    /// Games that were played.
    pub played: usize,
    /// The mean of the graded scores.
    pub score: f64,
    /// 95 % interval of the share of won games (Wilson, 1927).
    pub interval: [f64; 2],
}

impl SftGames {
    /// The games of these outcomes and scores.
    pub fn new(outcomes: impl IntoIterator<Item = (bool, f64)>) -> Self {
        let (mut won, mut played, mut sum) = (0_usize, 0_usize, 0.0);
        for (is_won, score) in outcomes {
            won += usize::from(is_won);
            played += 1;
            sum += score;
        }
        let score = if played == 0 { 0.0 } else { sum / played as f64 };
        Self { won, played, score, interval: wilson(won, played) }
    }
}

/// The 95 % interval of a share, by E. B. Wilson, "Probable Inference, the Law of Succession, and Statistical
/// Inference", 1927; from 0 to 1 for a share of nothing.
fn wilson(won: usize, played: usize) -> [f64; 2] {
    const Z: f64 = 1.959_963_984_540_054;
    if played == 0 {
        return [0.0, 1.0];
    }
    let n = played as f64;
    let share = won as f64 / n;
    let middle = (share + Z * Z / (2.0 * n)) / (1.0 + Z * Z / n);
    let half = Z * (share * (1.0 - share) / n + Z * Z / (4.0 * n * n)).sqrt() / (1.0 + Z * Z / n);
    [(middle - half).max(0.0), (middle + half).min(1.0)]
}

/// Demonstrations and examples that were not used, by reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SftCounts {
    /// Demonstrations that were read.
    pub demonstrations: usize,
    /// Those that examples were made of.
    pub used: usize,
    /// Those that did not reach their goal.
    pub lost: usize,
    /// Those of tasks outside the training split.
    pub held_out: usize,
    /// Those of tasks that the environment does not have.
    pub unknown: usize,
    /// Those that could not be played again: without steps, or with other steps than the task takes.
    pub not_replayed: usize,
    /// Those that were not read, because there were enough examples.
    pub not_needed: usize,
    /// Examples whose agent says nothing.
    pub empty: usize,
    /// Examples whose prompt fills the longest length, so that nothing of the reply is left.
    pub cut_away: usize,
    /// Examples that are used and whose end was cut off.
    pub cut: usize,
    /// Actions with a reason that a teacher wrote.
    pub reasons: usize,
    /// Actions whose reason was refused; they stay as they were demonstrated.
    pub reasons_refused: usize,
}

impl SftCounts {
    /// What was read and what was left out, as a part of a sentence; reasons that hold for nothing are not named.
    pub fn describe(&self) -> String {
        let parts = [
            (self.used, "used"),
            (self.lost, "without success"),
            (self.held_out, "of validation or test tasks"),
            (self.unknown, "of unknown tasks"),
            (self.not_replayed, "not replayed to their end"),
            (self.not_needed, "not needed"),
        ];
        let examples =
            [(self.empty, "empty"), (self.cut_away, "cut away"), (self.cut, "used without their end")];
        let reasons = [(self.reasons, "written by the teacher"), (self.reasons_refused, "refused")];
        let named = |parts: &[(usize, &str)]| {
            let parts = parts.iter().filter(|(n, _)| *n > 0);
            parts.map(|(n, what)| format!("{n} {what}")).collect::<Vec<_>>().join(", ")
        };
        let mut text = format!("{} demonstrations ({})", self.demonstrations, named(&parts));
        if examples.iter().any(|(n, _)| *n > 0) {
            text.push_str(&format!("; examples: {}", named(&examples)));
        }
        if reasons.iter().any(|(n, _)| *n > 0) {
            text.push_str(&format!("; reasons: {}", named(&reasons)));
        }
        text
    }
}

/// What a run has reached.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SftSummary {
    /// The version of the format.
    pub format_version: String,
    /// Optimizer steps.
    pub steps: u64,
    /// Epochs.
    pub epochs: u32,
    /// Examples of the training part.
    pub train_examples: usize,
    /// Examples of the validation part.
    pub validation_examples: usize,
    /// What the examples were made of.
    pub counts: SftCounts,
    /// Tokens that were trained on, each as often as it was.
    pub tokens: u64,
    /// The measurement before the first step, where something was measured.
    pub before: Option<SftValidation>,
    /// The measurement after the last step.
    pub after: Option<SftValidation>,
    /// The step whose weights are in `policy/`: the one with the lowest validation loss, else the last one.
    pub policy_step: u64,
    /// The state whose weights are in `policy/`.
    pub policy_state: String,
    /// The mean loss of the first step and of the last one.
    pub loss: [f64; 2],
}

/// What a run has taken so far, over all its processes.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct SftTimes {
    /// Seconds of work, up to the last checkpoint.
    pub seconds: f64,
    /// The most memory that a process used, in bytes; 0 where the system does not tell.
    #[serde(default)]
    pub peak_memory: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_of_shares_are_those_of_wilson() {
        // R: prop.test(x, n, correct = FALSE)$conf.int
        for (won, played, expected) in [
            (0, 10, [0.0, 0.277_532_8]),
            (4, 60, [0.026_236_3, 0.159_343_5]),
            (50, 100, [0.403_831_5, 0.596_168_5]),
            (10, 10, [0.722_467_2, 1.0]),
        ] {
            let found = SftGames::new((0..played).map(|game| (game < won, 0.5))).interval;
            let is_close =
                found.iter().zip(expected).all(|(found, expected)| (found - expected).abs() < 1e-3);
            assert!(is_close, "{won} of {played}: {found:?}");
        }
        assert_eq!(SftGames::new([]).interval, [0.0, 1.0]);
    }
}
