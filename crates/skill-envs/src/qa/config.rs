//! What a `qa` environment is made from.

use crate::item::Split;
use crate::score::{Score, contains, em_f1};
use crate::tasks::ScorerConfig;
use serde::{Deserialize, Serialize};
use skill_core::{RatioSplit, SplitRatio, SplitRule};
use std::path::PathBuf;

/// Where the data is, how it is split, and how replies are asked for and scored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QaConfig {
    /// A directory with `train`, `val` and `test`, or one `.jsonl` or `.json` file.
    pub data: PathBuf,
    /// The shares of train, val and test where `data` is one file.
    #[serde(default)]
    pub split_ratio: SplitRatio,
    /// How explicit shares become numbers of items.
    #[serde(default)]
    pub split_rule: SplitRule,
    /// Whether the data may do without a test split, as for a run that does not read it.
    #[serde(default)]
    pub test_is_optional: bool,
    /// The seed of the shuffle before one file is split.
    #[serde(default = "default_split_seed")]
    pub split_seed: u64,
    /// How replies are scored.
    #[serde(default)]
    pub scorer: QaScorer,
    /// The most tokens of a reply; `None` leaves it to the model's configuration.
    pub max_tokens: Option<u32>,
    /// The source of a template that replaces [`super::ROLLOUT_PROMPT`].
    pub prompt: Option<String>,
}

impl QaConfig {
    /// The defaults for this data: the automatic split by the seed 42, scored by exact match and F1.
    pub fn new(data: impl Into<PathBuf>) -> Self {
        Self {
            data: data.into(),
            split_ratio: SplitRatio::default(),
            split_rule: SplitRule::default(),
            test_is_optional: false,
            split_seed: default_split_seed(),
            scorer: QaScorer::default(),
            max_tokens: None,
            prompt: None,
        }
    }

    /// How one file is split.
    pub(super) fn split(&self) -> RatioSplit {
        RatioSplit { ratio: self.split_ratio, rule: self.split_rule, seed: self.split_seed }
    }

    /// The splits that the data may do without.
    pub(super) fn optional_splits(&self) -> &'static [Split] {
        if self.test_is_optional { &[Split::Test] } else { &[] }
    }

    pub(super) fn settings(&self) -> QaSettings {
        QaSettings { scorer: self.scorer, max_tokens: self.max_tokens, prompt: self.prompt.clone() }
    }
}

fn default_split_seed() -> u64 {
    42
}

/// The part of a [`QaConfig`] that is not about data files.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct QaSettings {
    /// How replies are scored.
    pub scorer: QaScorer,
    /// The most tokens of a reply; `None` leaves it to the model's configuration.
    pub max_tokens: Option<u32>,
    /// The source of a template that replaces [`super::ROLLOUT_PROMPT`].
    pub prompt: Option<String>,
}

skill_core::named_enum! {
    /// How a reply is scored.
    #[derive(Default)]
    #[non_exhaustive]
    pub enum QaScorer {
        /// SQuAD's exact match and token F1, see [`em_f1`].
        #[default]
        EmF1 = "em_f1",
        /// True if the reply contains an answer, see [`contains`].
        Contains = "contains",
    }
}

impl QaScorer {
    /// The score of a prediction.
    pub fn score(self, prediction: &str, answers: &[impl AsRef<str>]) -> Score {
        match self {
            Self::EmF1 => em_f1(prediction, answers),
            Self::Contains => contains(prediction, answers),
        }
    }
}

impl From<QaScorer> for ScorerConfig {
    fn from(scorer: QaScorer) -> Self {
        match scorer {
            QaScorer::EmF1 => Self::EmF1,
            QaScorer::Contains => Self::Contains,
        }
    }
}
