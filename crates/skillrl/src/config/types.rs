//! The configuration as plain data.
//!
//! The types stand alone: whoever builds models, environment and trainer turns them into theirs. They are
//! written as JSON into the run directory, so nothing in them may be a secret.

use super::models::ModelConfig;
use super::path::AskedPath;
use super::tasks::TasksConfig;
use super::worlds::{AlfworldConfig, ExecConfig, WebshopConfig};
use serde::{Deserialize, Serialize};
use skill_core::{SplitRatio, SplitRule};

/// A complete configuration: what the file says, with all defaults filled in.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The run as a whole.
    pub run: RunConfig,
    /// The two models.
    pub models: ModelsConfig,
    /// The tasks.
    pub env: EnvConfig,
    /// The skill to start from.
    #[serde(default)]
    pub skill: SkillConfig,
    /// The training loop.
    pub train: TrainConfig,
    /// What a changed skill must do to be kept.
    pub gate: GateConfig,
    /// What is measured after training.
    pub eval: EvalConfig,
    /// The optimizer's prompts.
    #[serde(default)]
    pub prompts: PromptsConfig,
    /// Bounds on single calls.
    pub limits: LimitsConfig,
    /// Repeated attempts.
    pub retry: RetryConfig,
    /// Caps of the run.
    #[serde(default)]
    pub budget: BudgetConfig,
}

/// `[run]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunConfig {
    /// The run directory.
    pub dir: AskedPath,
    /// Decides the order of the tasks and how they are grouped; below 2^53.
    pub seed: u64,
    /// Model calls in flight at most, 1 to 4096.
    pub workers: u32,
    /// Training items of the next step that may be begun while a candidate is evaluated.
    pub speculation: u32,
}

/// `[models]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelsConfig {
    /// The model that does the tasks.
    pub target: ModelConfig,
    /// The model that proposes edits.
    pub optimizer: ModelConfig,
    /// The model that grades answers, where one is configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judge: Option<ModelConfig>,
}

/// Defines an enum of the words of a [`super::keys::ValueType::Choice`].
macro_rules! choice {
    ($(#[$meta:meta])* $name:ident { $($(#[$variant_meta:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum $name {
            $($(#[$variant_meta])* #[serde(rename = $word)] $variant,)+
        }

        impl $name {
            /// The word that stands in the file.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)+
                }
            }
        }
    };
}

pub(super) use choice;

/// `[env]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum EnvConfig {
    /// Questions with known answers.
    Qa(QaConfig),
    /// A person's own data.
    Tasks(Box<TasksConfig>),
    /// Household games.
    Alfworld(Box<AlfworldConfig>),
    /// A shop.
    Webshop(Box<WebshopConfig>),
    /// A program.
    Exec(Box<ExecConfig>),
}

impl EnvConfig {
    /// The value of the key `kind`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Qa(_) => "qa",
            Self::Tasks(_) => "tasks",
            Self::Alfworld(_) => "alfworld",
            Self::Webshop(_) => "webshop",
            Self::Exec(_) => "exec",
        }
    }
}

/// An environment with `kind = "qa"`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QaConfig {
    /// A directory with the three splits, or one file to be split.
    pub data: AskedPath,
    /// The shares of train, val and test; not all 0.
    pub split_ratio: SplitRatio,
    /// How they become whole numbers.
    pub split_rule: SplitRule,
    /// Decides which question falls into which split; below 2^53.
    pub split_seed: u64,
    /// How a reply is scored.
    pub scorer: QaScorer,
    /// The most tokens of an answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u32>,
}

choice! {
    /// How a reply to a question is scored.
    QaScorer {
        /// Exact match and F1 as SQuAD has them.
        EmF1 = "em_f1",
        /// Whether an answer stands in the reply.
        Contains = "contains",
    }
}

/// `[skill]`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SkillConfig {
    /// The Markdown file or the folder to start from; `None` takes the environment's own skill, or an empty one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initial: Option<AskedPath>,
    /// Whether edits may change the front matter.
    #[serde(default)]
    pub edit_front_matter: bool,
}

/// `[train]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrainConfig {
    /// How often the training split is gone through, at least 1.
    pub epochs: u32,
    /// Tasks per micro-batch, at least 1.
    pub batch_size: u32,
    /// Micro-batches per step, at least 1.
    pub accumulation: u32,
    /// Attempts at each task of a step, at least 1.
    pub samples: u32,
    /// Trajectories per analyst call, at least 1.
    pub minibatch_size: u32,
    /// Patches per merge call, at least 2.
    pub merge_batch_size: u32,
    /// How a candidate is made.
    pub update_mode: UpdateMode,
    /// Edits per step at the start, at least 1.
    pub edit_budget: u32,
    /// Edits per step at the end, 1 to `edit_budget`.
    pub min_edit_budget: u32,
    /// How the edits per step fall.
    pub schedule: Schedule,
    /// Whether failed trajectories alone are reflected on.
    pub failure_only: bool,
    /// Whether a failure despite a good rule becomes a note in the appendix.
    pub skill_aware: bool,
    /// Which analysts write such notes.
    pub appendix_source: AppendixSource,
    /// With more notes than this the optimizer is asked for fewer; 0 never asks.
    pub appendix_limit: u32,
    /// Steps whose outcome the optimizer's prompts show, at most 100.
    pub memory_steps: u32,
    /// The most characters that these take in a prompt.
    pub memory_chars: u32,
    /// The guidance of an epoch's end.
    pub slow_update: SlowUpdate,
    /// Tasks that are compared at an epoch's end, at least 1.
    pub slow_update_samples: u32,
    /// Which of these the optimizer sees.
    pub pair_policy: PairPolicy,
    /// Whether the optimizer writes notes to itself.
    pub meta_skill: bool,
    /// The most tokens that edits may let the skill grow to; 0 sets no limit.
    pub max_skill_tokens: u64,
    /// How an edit finds its place.
    pub anchors: Anchors,
    /// Whether an edit is left out that adds what the skill says already.
    pub drop_duplicates: bool,
}

choice! {
    /// Which analysts write notes for the appendix.
    AppendixSource {
        /// Those of failures and of successes.
        Both = "both",
        /// Those of failures.
        FailureOnly = "failure_only",
    }
}

choice! {
    /// How guidance becomes part of the skill at an epoch's end.
    SlowUpdate {
        /// By the gate.
        Gated = "gated",
        /// In any case.
        Force = "force",
        /// There is none.
        Off = "off",
    }
}

choice! {
    /// Which tasks of an epoch's comparison the optimizer sees.
    PairPolicy {
        /// All.
        Mixed = "mixed",
        /// Those that one skill alone solved.
        Changed = "changed",
        /// Those that both solved or both failed.
        Unchanged = "unchanged",
    }
}

choice! {
    /// How a candidate is made of what the analysts propose.
    UpdateMode {
        /// Edits are applied.
        Patch = "patch",
        /// The optimizer rewrites the skill by suggestions.
        RewriteFromSuggestions = "rewrite_from_suggestions",
        /// Analysts write whole skills, which are merged.
        FullRewriteMinibatch = "full_rewrite_minibatch",
    }
}

choice! {
    /// How an edit finds its place.
    Anchors {
        /// To the letter, or else by how it looks, if one place fits.
        Folded = "folded",
        /// To the letter alone.
        Exact = "exact",
    }
}

choice! {
    /// How the edits per step fall from `edit_budget` to `min_edit_budget`.
    Schedule {
        /// They do not.
        Constant = "constant",
        /// In a straight line.
        Linear = "linear",
        /// Along half a cosine.
        Cosine = "cosine",
        /// As the optimizer says at each step.
        Autonomous = "autonomous",
    }
}

/// `[gate]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GateConfig {
    /// Whether a changed skill has to pass.
    pub enabled: bool,
    /// The score that decides.
    pub metric: Metric,
    /// The weight of the soft score in [`Metric::Mixed`], 0 to 1.
    pub mixed_weight: f64,
    /// What a candidate must show besides a higher score.
    pub mode: GateMode,
    /// For [`GateMode::Paired`]: how many standard errors the mean difference must exceed.
    pub standard_errors: f64,
    /// For [`GateMode::Mcnemar`] and [`GateMode::Eprocess`]: the level, above 0 and below 1.
    pub alpha: f64,
    /// Whether all decisions of the run share `alpha`.
    pub spend_alpha: bool,
    /// For [`GateMode::NoRegression`]: items that may be lost.
    pub max_losses: u32,
    /// Draws per item of the selection split, at least 1.
    pub selection_repeats: u32,
    /// When the evaluation of a candidate ends.
    pub early_stop: EarlyStop,
}

choice! {
    /// What a candidate must show besides a higher score.
    GateMode {
        /// Nothing.
        Strict = "strict",
        /// A mean difference of so many standard errors.
        Paired = "paired",
        /// A small p-value.
        Mcnemar = "mcnemar",
        /// A large e-value.
        Eprocess = "eprocess",
        /// Few lost items.
        NoRegression = "no_regression",
    }
}

choice! {
    /// When the evaluation of a candidate ends.
    EarlyStop {
        /// When it cannot win any more.
        Exact = "exact",
        /// When every item is measured.
        Off = "off",
    }
}

choice! {
    /// The score that decides at the gate.
    Metric {
        /// The share of tasks solved.
        Hard = "hard",
        /// The mean graded score.
        Soft = "soft",
        /// `(1 - mixed_weight) * hard + mixed_weight * soft`.
        Mixed = "mixed",
    }
}

/// `[eval]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EvalConfig {
    /// Whether the first and the best skill are measured on the selection split once more at the end.
    pub fresh: bool,
    /// Whether the first and the best skill are measured on the test split at the end.
    pub test: bool,
}

/// `[prompts]`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PromptsConfig {
    /// A directory with prompts that take the place of the built-in ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dir: Option<AskedPath>,
}

/// `[limits]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LimitsConfig {
    /// The most tokens that a reply of the optimizer may have.
    pub max_reply_tokens: u32,
}

/// `[retry]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RetryConfig {
    /// Attempts per call, at least 1.
    pub max_attempts: u32,
    /// Seconds before the second attempt.
    pub first_delay_s: f64,
    /// The longest wait between attempts, in seconds.
    pub max_delay_s: f64,
    /// The longest wait that a server may ask for, in seconds.
    pub max_server_wait_s: f64,
    /// Seconds for a call with all its attempts and waits.
    pub call_timeout_s: f64,
}

/// `[budget]`: caps over all processes of a run; `None` sets none.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BudgetConfig {
    /// Requests that may be sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calls: Option<u64>,
    /// Tokens of prompts and replies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Money, by the prices of the models.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub money: Option<f64>,
    /// Seconds that the run works.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_s: Option<f64>,
}
