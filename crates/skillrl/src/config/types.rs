//! The configuration as plain data, and the declaration of the sections that have no kinds.
//!
//! A row of `settings!` declares a key once, see `key/declare.rs`. The configuration is written as JSON into
//! the run directory, so nothing in it may be a secret.
//!
//! # Invariants
//!
//! - The defaults are the paper's protocol. Held by `the_defaults_are_the_paper_protocol`.

use super::bank::{BankConfig, EmbeddingConfig, EvolutionConfig, RetrievalConfig};
use super::collect::CollectConfig;
use super::env::EnvConfig;
use super::key::KeyDefault::{Absent, Value};
use super::key::ValueType::{Flag, Text, Texts, Variable};
use super::key::declare::{choice, decisive, integer, length, number, process, settings};
use super::key::{
    DIRECTORY, FILE, MADE, MAX_COUNT, MAX_RATE, MAX_SECONDS, MAX_SEED, MAX_TOKENS, PRICE, SKILL, ValueType,
};
use super::keys::with_defaults;
use super::models::ModelConfig;
use super::path::ConfigPath;
use super::rl::RlConfig;
use super::sft::SftConfig;
use super::tinker::TinkerConfig;
use serde::{Deserialize, Serialize};
use skill_core::gate::GateMetric;
use skill_core::rewrite::UpdateMode;
use skill_core::{GateKind, PairPolicy, named_enum};
use skill_llm::{BudgetCaps, RetryPolicy};
use skill_pipeline::records::arm::ArmSetting;
use skill_pipeline::{AppendixSource, EarlyStop, Protocol, SlowUpdate, TargetsScore, TrainSettings};
use std::collections::BTreeMap;

const SECONDS: ValueType = number(0.0, MAX_SECONDS);

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
    /// What the optimizer is told of the task.
    #[serde(default)]
    pub task: TaskConfig,
    /// The training loop.
    pub train: TrainConfig,
    /// What a changed skill must do to be kept.
    pub gate: GateConfig,
    /// The bank.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bank: Option<BankConfig>,
    /// Which skills of a bank a task is shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retrieval: Option<RetrievalConfig>,
    /// How a bank is changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evolution: Option<EvolutionConfig>,
    /// The episodes that training of weights begins with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collect: Option<CollectConfig>,
    /// Fine-tuning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sft: Option<SftConfig>,
    /// Reinforcement learning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rl: Option<RlConfig>,
    /// The server that trains the weights, if it is not this machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tinker: Option<TinkerConfig>,
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

/// `[models]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelsConfig {
    /// The model that does the tasks.
    pub target: ModelConfig,
    /// Further models that may do the tasks, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub targets: BTreeMap<String, ModelConfig>,
    /// The model that proposes edits.
    pub optimizer: ModelConfig,
    /// The model that grades answers, where one is configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judge: Option<ModelConfig>,
    /// The model that writes skills of a bank, if it is not the optimizer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub teacher: Option<ModelConfig>,
    /// The model that gives vectors to texts, where one is configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub embedding: Option<EmbeddingConfig>,
}

impl ModelsConfig {
    /// All models of conversations that are configured.
    pub(crate) fn all(&self) -> impl Iterator<Item = &ModelConfig> {
        let optional = [&self.judge, &self.teacher];
        let needed = [&self.target, &self.optimizer].into_iter();
        needed.chain(self.targets.values()).chain(optional.into_iter().flatten())
    }
}

settings! {
    /// `[run]`.
    RunConfig with nats: NatsConfig for TrainSettings {
        /// The run directory. Paths in this file are relative to the file.
        dir: ConfigPath = process(MADE, Value("\"runs/my-task\""));
        /// Decides the order of the tasks and how they are grouped.
        seed: u64 = decisive(integer(0, MAX_SEED), Value("42")) => seed;
        /// Model calls in flight at most. Changes the time a run takes and nothing else. Fewer are in flight while a
        /// server returns HTTP 429 or its latency rises.
        workers: u32 = process(integer(1, 4096), Value("8")) => workers;
        /// Where rollouts are made. local: in this process. nats: by `skillrl worker` on any number of machines, see
        /// [run.nats] and docs/several-machines.md; for programs that are built with the feature `nats`.
        runner: Runner = process(choice::<Runner>(), Value("\"local\""));
    }
}

settings! {
    /// `[run.nats]`.
    NatsConfig {
        /// The broker, a server of NATS with JetStream: nats://HOST:PORT, or tls://HOST:PORT. On another machine it
        /// takes TLS and credentials.
        url: String = process(Text, Value("\"nats://127.0.0.1:4222\""));
        /// The name that a run and its workers share: workers of another name do not see the run.
        name: String = process(Text, Value("\"skillrl\""));
        /// The user at the broker.
        user: Option<String> = process(Text, Absent { example: "\"trainer\"" });
        /// The environment variable that holds the user's password, never the password itself.
        password_env: Option<String> = process(Variable, Absent { example: "\"NATS_PASSWORD\"" });
        /// The environment variable that holds the seed of an nkey, in place of a user.
        nkey_env: Option<String> = process(Variable, Absent { example: "\"NATS_NKEY_SEED\"" });
        /// Certificates of authorities to trust besides those of the system, in PEM.
        ca_file: Option<ConfigPath> = process(FILE, Absent { example: "\"ca.pem\"" });
        /// The certificate of this client in PEM, for brokers that verify clients; needs client_key.
        client_cert: Option<ConfigPath> = process(FILE, Absent { example: "\"client.pem\"" });
        /// The key of that certificate, in PEM.
        client_key: Option<ConfigPath> = process(FILE, Absent { example: "\"client-key.pem\"" });
    }
}

with_defaults!(NatsConfig);

named_enum! {
    /// Where rollouts are made.
    pub enum Runner {
        /// In this process.
        Local = "local",
        /// By workers, through a broker.
        Nats = "nats",
    }
}

settings! {
    /// `[skill]`.
    #[derive(Default)]
    SkillConfig {
        /// The Markdown file to start from, or a folder with a SKILL.md (docs/packages.md). Without it the tasks' own
        /// skill is taken, or an empty one.
        initial: Option<ConfigPath> = decisive(SKILL, Absent { example: "\"skill.md\"" });
        /// Files of the folder that are edited besides SKILL.md and Markdown below references/: paths of files or of
        /// folders, such as prompts and descriptions of tools (docs/packages.md).
        #[serde(default)]
        editable: Vec<String> = process(Texts, Absent { example: "[\"planner.md\", \"tools\"]" });
        /// Whether edits may change the front matter of a skill: its description, but never its name.
        edit_front_matter: bool = decisive(Flag, Value("false"));
    }
}

settings! {
    /// `[task]`.
    #[derive(Default)]
    TaskConfig for TrainSettings {
        /// What the tasks are about, and facts of their domain that no trajectory shows. At most 20,000 characters:
        /// every prompt of the optimizer shows it.
        background: Option<String> = decisive(ValueType::Text, Absent { example: "\"Tickets of a railway.\"" }) => task.background;
        /// What is wanted of the agent.
        objective: Option<String> = decisive(ValueType::Text, Absent { example: "\"Refund only what the rules allow.\"" }) => task.objective;
        /// What a good skill is like, where several would do.
        preferences: Option<String> = decisive(ValueType::Text, Absent { example: "\"Short rules, most important first.\"" }) => task.preferences;
    }
}

settings! {
    /// `[train]`.
    TrainConfig for TrainSettings {
        /// What is trained. document: a skill, by edits. bank: many small skills, of which each task is shown a few.
        /// weights: a local model, with a bank in its prompts.
        mode: TrainMode = decisive(choice::<TrainMode>(), Value("\"document\""));
        /// What decides the size and number of steps. paper: the keys below, whose defaults are the paper's.
        /// auto: a plan from the tasks, their noise, the caps of the run and what is accepted; the sizes below,
        /// the schedule, slow_update and meta_skill are not read then. Without caps, the calls that the paper's
        /// protocol takes for as many epochs are the budget (docs/how-it-works.md).
        protocol: Protocol = decisive(choice::<Protocol>(), Value("\"paper\"")) => protocol;
        /// With auto: the search ends after so many proposals in a row of which none was taken: nothing was proposed,
        /// it changed nothing, or it did not solve the tasks that it was made from. 0 never ends it.
        patience: u32 = length(integer(0, MAX_COUNT), Value("24")) => search.patience;
        /// With auto: how many proposals are made from one skill at the same time: 1, 2, 4 or 8. More take less time,
        /// and each knows less of the others (docs/how-it-works.md).
        round: u32 = decisive(integer(1, 8), Value("2")) => round;
        /// The targets that do the selection and the test split, by their names in [models.targets]; `target` is the
        /// target itself, which alone does the training tasks. An item counts what they score together, so that a
        /// change is kept for what it is worth to all of them. Without any, the target alone.
        targets: Option<Vec<String>> = decisive(Texts, Absent { example: "[\"target\", \"small\"]" });
        /// For targets: what an item counts. mean: the mean of their scores. worst: the lowest of them. Without it, the
        /// mean.
        targets_score: Option<TargetsScore> = decisive(choice::<TargetsScore>(), Absent { example: "\"worst\"" });
        /// How often the training split is gone through. A run can go on with more.
        epochs: u32 = length(integer(1, MAX_COUNT), Value("4")) => epochs;
        /// Tasks per micro-batch. A step has one, unless accumulation says otherwise.
        batch_size: u32 = decisive(integer(1, MAX_COUNT), Value("40")) => batch_size;
        /// Micro-batches per step. Each is reflected on by itself under the same skill; all patches make one change.
        accumulation: u32 = decisive(integer(1, 1000), Value("1")) => accumulation;
        /// Attempts at each task of a step. Each is a trajectory of its own, with replies of its own.
        samples: u32 = decisive(integer(1, 1000), Value("1")) => samples;
        /// Trajectories that one analyst reads at a time.
        minibatch_size: u32 = decisive(integer(1, MAX_COUNT), Value("8")) => minibatch_size;
        /// Patches that are merged at a time, at least 2.
        merge_batch_size: u32 = decisive(integer(2, MAX_COUNT), Value("8")) => merge_batch_size;
        /// How a candidate is made. patch: edits are applied, without a model. rewrite_from_suggestions: the optimizer
        /// rewrites the skill by the suggestions of the analysts. full_rewrite_minibatch: each analyst rewrites the
        /// whole skill, and these versions are merged; edit_budget and schedule do not count then. Protected regions
        /// survive in all.
        update_mode: UpdateMode = decisive(choice::<UpdateMode>(), Value("\"patch\"")) => update_mode;
        /// Edits per step at the start: the learning rate.
        edit_budget: u32 = decisive(integer(1, 1000), Value("4"));
        /// Edits per step at the end, at most edit_budget.
        min_edit_budget: u32 = decisive(integer(1, 1000), Value("2"));
        /// How the edits per step fall from edit_budget to min_edit_budget. autonomous: the optimizer is asked at each
        /// step how many edits to apply.
        schedule: Schedule = decisive(choice::<Schedule>(), Value("\"cosine\""));
        /// Whether failed trajectories alone are reflected on.
        failure_only: bool = decisive(Flag, Value("false")) => failure_only;
        /// Whether a failure despite a good rule becomes a note in the skill's appendix, instead of an edit.
        skill_aware: bool = decisive(Flag, Value("false"));
        /// Who writes such notes: the analysts of failures and of successes, or of failures alone.
        appendix_source: AppendixSource = decisive(choice::<AppendixSource>(), Value("\"both\""));
        /// With more notes than this the optimizer is asked to make fewer of them. 0 never asks.
        appendix_limit: u32 = decisive(integer(0, 200), Value("0"));
        /// Steps whose failures, rejected edits and scores every prompt of the optimizer shows, over epochs too.
        /// 0 shows none.
        memory_steps: u32 = decisive(integer(0, 100), Value("10")) => memory_steps;
        /// The most characters that these take in a prompt; the oldest steps give way.
        memory_chars: u32 = decisive(integer(0, MAX_COUNT), Value("8000")) => memory_chars;
        /// The most characters of a trajectory that an analyst reads. Of a longer one the turns are kept that tell
        /// most: the first, the first error with what led to it, and the last ones.
        trajectory_chars: u32 = decisive(integer(500, MAX_COUNT), Value("24000")) => trajectories.trajectory;
        /// The most characters of one turn; a longer one loses its middle.
        turn_chars: u32 = decisive(integer(200, MAX_COUNT), Value("8000")) => trajectories.turn;
        /// The most characters of a field above the turns, such as the question.
        field_chars: u32 = decisive(integer(200, MAX_COUNT), Value("2000")) => trajectories.field;
        /// At an epoch's end tasks are done with the last epoch's skill and with this one's, and the optimizer writes
        /// guidance into a region that no step touches. gated: it has to pass the gate. force: it is kept in any case,
        /// and measured. off: there is none.
        slow_update: SlowUpdate = decisive(choice::<SlowUpdate>(), Value("\"gated\"")) => epoch_end.slow_update;
        /// How many tasks are compared at an epoch's end, each done with both skills.
        slow_update_samples: u32 = decisive(integer(1, MAX_COUNT), Value("20")) => epoch_end.samples;
        /// Which of these the optimizer sees. mixed: all. changed: those that one skill alone solved; more tasks are
        /// drawn until there are as many. unchanged: the others.
        pair_policy: PairPolicy = decisive(choice::<PairPolicy>(), Value("\"mixed\"")) => epoch_end.pair_policy;
        /// Whether the optimizer writes notes to itself at an epoch's end, which its prompts show in the next epoch.
        meta_skill: bool = decisive(Flag, Value("true")) => epoch_end.meta_skill;
        /// The most tokens, about, that edits may let the skill grow to: it is a part of every prompt of the agent.
        /// The optimizer is told what is left. 0 sets no limit.
        max_skill_tokens: u64 = decisive(integer(0, MAX_TOKENS), Value("8000"));
        /// How an edit finds its place. folded: to the letter, or else by how it looks, if one place fits.
        /// exact: to the letter alone, as in the reference.
        anchors: Anchors = decisive(choice::<Anchors>(), Value("\"folded\""));
        /// Whether an edit is left out that adds what the skill says already.
        drop_duplicates: bool = decisive(Flag, Value("true")) => edit_rules.drop_duplicates;
    }
}

impl TrainConfig {
    /// The targets of evaluations; none where the target alone does them.
    pub fn targets(&self) -> &[String] {
        self.targets.as_deref().unwrap_or_default()
    }
}

named_enum! {
    /// What is trained.
    pub enum TrainMode {
        /// A skill document.
        Document = "document",
        /// A bank of small skills.
        Bank = "bank",
        /// The weights of a local model, with a bank: collect, distil, fine-tune, GRPO.
        Weights = "weights",
    }
}

impl TrainMode {
    /// True if runs have a bank.
    pub fn has_bank(&self) -> bool {
        *self != Self::Document
    }
}

named_enum! {
    /// How an edit finds its place.
    pub enum Anchors {
        /// To the letter, or else by how it looks, if one place fits.
        Folded = "folded",
        /// To the letter alone.
        Exact = "exact",
    }
}

named_enum! {
    /// How the edits per step fall from `edit_budget` to `min_edit_budget`.
    #[non_exhaustive]
    pub enum Schedule {
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

settings! {
    /// `[gate]`.
    GateConfig for TrainSettings {
        /// false: every changed skill becomes the current one, better or not. Each is measured, and the best is kept.
        enabled: bool = decisive(Flag, Value("true"));
        /// hard: the share of tasks solved. soft: the mean graded score. mixed: both.
        metric: GateMetric = decisive(choice::<GateMetric>(), Value("\"hard\"")) => gate.metric;
        /// The weight w of soft in mixed = (1 - w) * hard + w * soft.
        mixed_weight: f64 = decisive(number(0.0, 1.0), Value("0.5")) => gate.mixed_weight;
        /// strict: a higher score, as in the paper. paired: a mean difference of more than standard_errors. mcnemar: an
        /// exact one-sided p-value of at most alpha. eprocess: an e-value of at least 1 / alpha. no_regression: at most
        /// max_losses tasks lost. Where too few tasks differ to tell, a step is indecisive and the skill stays.
        mode: GateKind = decisive(choice::<GateKind>(), Value("\"strict\""));
        /// For mode = "paired": how many standard errors the mean difference must exceed.
        standard_errors: f64 = decisive(number(0.0, 100.0), Value("1.0"));
        /// For mcnemar and eprocess: how probable it may be that a change that helps nothing is kept.
        alpha: f64 = decisive(number(1e-9, 0.999), Value("0.05"));
        /// For mcnemar and eprocess: whether alpha holds for all steps together, so that later ones ask for more.
        spend_alpha: bool = decisive(Flag, Value("false")) => evidence.spends_alpha;
        /// For no_regression: how many tasks of the validation split a change may do worse than before.
        max_losses: u32 = decisive(integer(0, MAX_COUNT), Value("0"));
        /// Also accepts a candidate that keeps the score and saves this share of the target's tokens (prompts and
        /// replies) on the validation split. Without it scores alone decide.
        token_saving: Option<f64> = decisive(number(0.001, 0.999), Absent { example: "0.2" });
        /// For token_saving: how much lower the score may be, as a share. Without it, it must not be lower.
        score_margin: Option<f64> = decisive(number(0.0, 0.5), Absent { example: "0.01" });
        /// A second scorer, whose score a candidate must not lower on the validation split, significantly or by more
        /// than a tenth. For tasks a value of env.scorer, by the same keys; for evals checks: those with guard.
        guard: Option<String> = decisive(Text, Absent { example: "\"json_fields\"" });
        /// How often each task of the validation split is tried with a skill. A task's tries count together, and
        /// each is paid for; for targets whose answers are sampled.
        selection_repeats: u32 = decisive(integer(1, 100), Value("1")) => evidence.selection_repeats;
        /// exact: a candidate is rejected as soon as it can no longer win; what is decided is the same, and most
        /// rejected candidates cost a part of the calls. off: every candidate is measured on the whole split.
        early_stop: EarlyStop = decisive(choice::<EarlyStop>(), Value("\"exact\"")) => early_stop;
    }
}

settings! {
    /// `[eval]`.
    EvalConfig for TrainSettings {
        /// Whether the first and the best skill are measured on the validation split once more at the end: the
        /// score that a skill was selected by is optimistic, and this one is not. It costs one pass or two.
        fresh: bool = process(Flag, Value("true")) => evidence.fresh;
        /// Whether the first and the best skill are measured on the test split at the end.
        test: bool = length(Flag, Value("true")) => eval_test;
        /// Whether the test split is read with no skill at all too: a skill may beat the one that it was made
        /// from and be worse than none. auto: in a planned search with caps, where it takes at most a tenth of
        /// each. on, off.
        no_skill: ArmSetting = length(choice::<ArmSetting>(), Value("\"auto\"")) => no_skill;
        /// Whether the test split is read with a one-shot skill too: one request shows the optimizer up to 8
        /// failures of the initial skill on training tasks, and its skill is measured and never delivered. The
        /// difference is what the search adds to a single rewrite. auto: in a planned search with caps, where
        /// it takes at most a tenth of each. on, off.
        one_shot: ArmSetting = length(choice::<ArmSetting>(), Value("\"auto\"")) => one_shot;
    }
}

settings! {
    /// `[prompts]`.
    #[derive(Default)]
    PromptsConfig {
        /// A directory with prompts (NAME.md) that take the place of the built-in ones.
        dir: Option<ConfigPath> = decisive(DIRECTORY, Absent { example: "\"prompts\"" });
    }
}

settings! {
    /// `[limits]`.
    LimitsConfig {
        /// The most tokens that a reply of the optimizer may have.
        max_reply_tokens: u32 = process(integer(1, MAX_TOKENS), Value("16384"));
    }
}

settings! {
    /// `[retry]`.
    RetryConfig for RetryPolicy {
        /// Attempts per call. A wrong key, a refused request or an empty account is never tried again.
        /// A rate limit with a stated wait uses up no attempt.
        max_attempts: u32 = process(integer(1, 1000), Value("8")) => max_attempts;
        /// Seconds before the second attempt; each further wait is twice as long.
        first_delay_s: f64 = process(SECONDS, Value("0.5")) => first_delay;
        /// The longest of these waits.
        max_delay_s: f64 = process(SECONDS, Value("60.0")) => max_delay;
        /// The longest wait that a server may ask for; if it asks for more, the run stops.
        max_server_wait_s: f64 = process(SECONDS, Value("600.0")) => max_server_wait;
        /// Whether a call waits until a limit of the account of an agent's program is over, and ends the run otherwise.
        wait_for_account: bool = process(Flag, Value("false")) => wait_for_account;
        /// Seconds for a call with all its attempts and waits.
        call_timeout_s: f64 = process(SECONDS, Value("1800.0")) => call_timeout;
    }
}

settings! {
    /// `[budget]`: caps over all processes of a run; `None` sets none.
    #[derive(Copy, Default)]
    BudgetConfig for BudgetCaps {
        /// Requests that may be sent, repeated ones included.
        calls: Option<u64> = process(integer(1, MAX_RATE), Absent { example: "5000" }) => calls;
        /// Tokens of prompts and replies.
        tokens: Option<u64> = process(integer(1, MAX_RATE), Absent { example: "20000000" }) => tokens;
        /// Money, by the prices of the models.
        money: Option<f64> = process(PRICE, Absent { example: "10.0" }) => money;
        /// Seconds that the run works.
        time_s: Option<f64> = process(SECONDS, Absent { example: "14400.0" }) => time;
    }
}
