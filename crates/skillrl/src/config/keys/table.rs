//! The sections and keys themselves, in the order of the file.

use super::Effect::{Process, Result as Outcome};
use super::KeyDefault::{Absent, Value};
use super::env::ENV;
use super::models::MODEL;
use super::worlds::WORLD_KEYS;
use super::{KeySpec, SectionSpec, ValueType};

/// The largest integer that every reader of JSON keeps exactly: 2^53 - 1.
pub(super) const MAX_SEED: u64 = 9_007_199_254_740_991;
pub(super) const MAX_TOKENS: u64 = 10_000_000;
const MAX_COUNT: u64 = 1_000_000;
pub(super) const MAX_RATE: u64 = 1_000_000_000_000;
const MAX_SECONDS: f64 = 31_536_000.0;

pub(super) const SECTIONS: &[SectionSpec] = &[
    SectionSpec::new("run", "The run as a whole. All of this section may be left out.", &[RUN]),
    SectionSpec::new(
        "models.target",
        "The model that does the tasks, with the skill in its prompt. It is what gets better.",
        &[MODEL],
    ),
    SectionSpec::new(
        "models.optimizer",
        "The model that reads what went wrong and proposes edits to the skill.",
        &[MODEL, OPTIMIZER],
    ),
    SectionSpec::new(
        "models.judge",
        "The model that grades answers, where env.scorer is \"rubric\". It has all keys of [models.target].",
        &[MODEL],
    )
    .optional(),
    SectionSpec::new("env", "The tasks.", &[ENV, WORLD_KEYS]),
    SectionSpec::new("skill", "The skill that training starts from.", &[SKILL]),
    SectionSpec::new("train", "The training loop. The defaults are the paper's.", &[TRAIN]),
    SectionSpec::new(
        "gate",
        "What a changed skill must do to be kept: score strictly higher on the selection split, and what mode asks for.",
        &[GATE],
    ),
    SectionSpec::new("eval", "What is measured after training.", &[EVAL]),
    SectionSpec::new("prompts", "The prompts of the optimizer.", &[PROMPTS]),
    SectionSpec::new("limits", "Bounds on single calls.", &[LIMITS]),
    SectionSpec::new(
        "retry",
        "How often and how long a call is tried that a server failed or turned away for now.",
        &[RETRY],
    ),
    SectionSpec::new(
        "budget",
        "What the run may use, over all its processes. At a cap it stops, and goes on with a higher one.",
        &[BUDGET],
    ),
];

const RUN: &[KeySpec] = &[
    KeySpec::new(
        "dir",
        ValueType::Path,
        Process,
        Value("\"runs/my-task\""),
        "The run directory. Paths in this file are relative to the file.",
    ),
    KeySpec::new(
        "seed",
        ValueType::Integer { min: 0, max: MAX_SEED },
        Outcome,
        Value("42"),
        "Decides the order of the tasks and how they are grouped.",
    ),
    KeySpec::new(
        "workers",
        ValueType::Integer { min: 1, max: 4096 },
        Process,
        Value("8"),
        "Model calls in flight at most. Changes the time a run takes and nothing else. Fewer are in flight while a\n\
         server turns calls away or becomes slow.",
    ),
    KeySpec::new(
        "speculation",
        ValueType::Integer { min: 0, max: MAX_COUNT },
        Process,
        Value("0"),
        "Tasks of the next step that idle workers may begin while a changed skill is measured: most are rejected, so\n\
         most of this work is used. What is not used is paid for all the same.",
    ),
];

pub(super) const PRICE: ValueType = ValueType::Number { min: 0.0, max: f64::INFINITY };

const OPTIMIZER: &[KeySpec] = &[KeySpec::new(
    "flaw_rate",
    ValueType::Number { min: 0.0, max: 1.0 },
    Outcome,
    Value("0.25"),
    "The share of replies that the simulated optimizer spoils: broken JSON, harmful and repeated edits.",
)
.of_kind("simulated")];

const SKILL: &[KeySpec] = &[
    KeySpec::new(
        "initial",
        ValueType::Path,
        Outcome,
        Absent { example: "\"skill.md\"" },
        "The Markdown file to start from, or a folder with a SKILL.md (docs/packages.md). Without it the tasks' own\n\
         skill is taken, or an empty one.",
    ),
    KeySpec::new(
        "edit_front_matter",
        ValueType::Flag,
        Outcome,
        Value("false"),
        "Whether edits may change the front matter of a skill: its description, but never its name.",
    ),
];

const TRAIN: &[KeySpec] = &[
    KeySpec::new(
        "epochs",
        ValueType::Integer { min: 1, max: MAX_COUNT },
        Process,
        Value("4"),
        "How often the training split is gone through. A run can go on with more.",
    ),
    KeySpec::new(
        "batch_size",
        ValueType::Integer { min: 1, max: MAX_COUNT },
        Outcome,
        Value("40"),
        "Tasks per micro-batch. A step has one, unless accumulation says otherwise.",
    ),
    KeySpec::new(
        "accumulation",
        ValueType::Integer { min: 1, max: 1000 },
        Outcome,
        Value("1"),
        "Micro-batches per step. Each is reflected on by itself under the same skill; all patches make one change.",
    ),
    KeySpec::new(
        "samples",
        ValueType::Integer { min: 1, max: 1000 },
        Outcome,
        Value("1"),
        "Attempts at each task of a step. Each is a trajectory of its own, with replies of its own.",
    ),
    KeySpec::new(
        "minibatch_size",
        ValueType::Integer { min: 1, max: MAX_COUNT },
        Outcome,
        Value("8"),
        "Trajectories that one analyst reads at a time.",
    ),
    KeySpec::new(
        "merge_batch_size",
        ValueType::Integer { min: 2, max: MAX_COUNT },
        Outcome,
        Value("8"),
        "Patches that are merged at a time, at least 2.",
    ),
    KeySpec::new(
        "update_mode",
        ValueType::Choice(&["patch", "rewrite_from_suggestions", "full_rewrite_minibatch"]),
        Outcome,
        Value("\"patch\""),
        "How a candidate is made. patch: edits are applied, without a model. rewrite_from_suggestions: the optimizer\n\
         rewrites the skill by the suggestions of the analysts. full_rewrite_minibatch: each analyst writes the skill\n\
         anew, and these are merged; edit_budget and schedule do not count then. Protected regions survive in all.",
    ),
    KeySpec::new(
        "edit_budget",
        ValueType::Integer { min: 1, max: 1000 },
        Outcome,
        Value("4"),
        "Edits per step at the start: the learning rate.",
    ),
    KeySpec::new(
        "min_edit_budget",
        ValueType::Integer { min: 1, max: 1000 },
        Outcome,
        Value("2"),
        "Edits per step at the end, at most edit_budget.",
    ),
    KeySpec::new(
        "schedule",
        ValueType::Choice(&["constant", "linear", "cosine", "autonomous"]),
        Outcome,
        Value("\"cosine\""),
        "How the edits per step fall from edit_budget to min_edit_budget. autonomous: the optimizer is asked at each\n\
         step how many edits to apply.",
    ),
    KeySpec::new(
        "failure_only",
        ValueType::Flag,
        Outcome,
        Value("false"),
        "Whether failed trajectories alone are reflected on.",
    ),
    KeySpec::new(
        "skill_aware",
        ValueType::Flag,
        Outcome,
        Value("false"),
        "Whether a failure despite a good rule becomes a note in the skill's appendix, instead of an edit.",
    ),
    KeySpec::new(
        "appendix_source",
        ValueType::Choice(&["both", "failure_only"]),
        Outcome,
        Value("\"both\""),
        "Who writes such notes: the analysts of failures and of successes, or of failures alone.",
    ),
    KeySpec::new(
        "appendix_limit",
        ValueType::Integer { min: 0, max: 200 },
        Outcome,
        Value("0"),
        "With more notes than this the optimizer is asked to make fewer of them. 0 never asks.",
    ),
    KeySpec::new(
        "memory_steps",
        ValueType::Integer { min: 0, max: 100 },
        Outcome,
        Value("10"),
        "Steps whose failures, rejected edits and scores every prompt of the optimizer shows, over epochs too.\n\
         0 shows none.",
    ),
    KeySpec::new(
        "memory_chars",
        ValueType::Integer { min: 0, max: MAX_COUNT },
        Outcome,
        Value("8000"),
        "The most characters that these take in a prompt; the oldest steps give way.",
    ),
    KeySpec::new(
        "slow_update",
        ValueType::Choice(&["gated", "force", "off"]),
        Outcome,
        Value("\"gated\""),
        "At an epoch's end tasks are done with the last epoch's skill and with this one's, and the optimizer writes\n\
         guidance into a region that no step touches. gated: it has to pass the gate. force: it is kept in any case,\n\
         and measured. off: there is none.",
    ),
    KeySpec::new(
        "slow_update_samples",
        ValueType::Integer { min: 1, max: MAX_COUNT },
        Outcome,
        Value("20"),
        "How many tasks are compared at an epoch's end, each done with both skills.",
    ),
    KeySpec::new(
        "pair_policy",
        ValueType::Choice(&["mixed", "changed", "unchanged"]),
        Outcome,
        Value("\"mixed\""),
        "Which of these the optimizer sees. mixed: all. changed: those that one skill alone solved; more tasks are\n\
         drawn until there are as many. unchanged: the others.",
    ),
    KeySpec::new(
        "meta_skill",
        ValueType::Flag,
        Outcome,
        Value("true"),
        "Whether the optimizer writes notes to itself at an epoch's end, which its prompts show in the next epoch.",
    ),
    KeySpec::new(
        "max_skill_tokens",
        ValueType::Integer { min: 0, max: MAX_TOKENS },
        Outcome,
        Value("8000"),
        "The most tokens, about, that edits may let the skill grow to: it is a part of every prompt of the agent.\n\
         The optimizer is told what is left. 0 sets no limit.",
    ),
    KeySpec::new(
        "anchors",
        ValueType::Choice(&["folded", "exact"]),
        Outcome,
        Value("\"folded\""),
        "How an edit finds its place. folded: to the letter, or else by how it looks, if one place fits.\n\
         exact: to the letter alone, as in the reference.",
    ),
    KeySpec::new(
        "drop_duplicates",
        ValueType::Flag,
        Outcome,
        Value("true"),
        "Whether an edit is left out that adds what the skill says already.",
    ),
];

const GATE: &[KeySpec] = &[
    KeySpec::new(
        "enabled",
        ValueType::Flag,
        Outcome,
        Value("true"),
        "false: every changed skill becomes the current one, better or not. Each is measured, and the best is kept.",
    ),
    KeySpec::new(
        "metric",
        ValueType::Choice(&["hard", "soft", "mixed"]),
        Outcome,
        Value("\"hard\""),
        "hard: the share of tasks solved. soft: the mean graded score. mixed: both.",
    ),
    KeySpec::new(
        "mixed_weight",
        ValueType::Number { min: 0.0, max: 1.0 },
        Outcome,
        Value("0.5"),
        "The weight w of soft in mixed = (1 - w) * hard + w * soft.",
    ),
    KeySpec::new(
        "mode",
        ValueType::Choice(&["strict", "paired", "mcnemar", "eprocess", "no_regression"]),
        Outcome,
        Value("\"strict\""),
        "strict: a higher score, as in the paper. paired: a mean difference of more than standard_errors. mcnemar: an\n\
         exact one-sided p-value of at most alpha. eprocess: an e-value of at least 1 / alpha. no_regression: at most\n\
         max_losses tasks lost. Where too few tasks differ to tell, a step is indecisive and the skill stays.",
    ),
    KeySpec::new(
        "standard_errors",
        ValueType::Number { min: 0.0, max: 100.0 },
        Outcome,
        Value("1.0"),
        "For mode = \"paired\": how many standard errors the mean difference must exceed.",
    ),
    KeySpec::new(
        "alpha",
        ValueType::Number { min: 1e-9, max: 0.999 },
        Outcome,
        Value("0.05"),
        "For mcnemar and eprocess: how probable it may be that a change that helps nothing is kept.",
    ),
    KeySpec::new(
        "spend_alpha",
        ValueType::Flag,
        Outcome,
        Value("false"),
        "For mcnemar and eprocess: whether alpha holds for all steps together, so that later ones ask for more.",
    ),
    KeySpec::new(
        "max_losses",
        ValueType::Integer { min: 0, max: MAX_COUNT },
        Outcome,
        Value("0"),
        "For no_regression: how many tasks of the selection split a change may do worse than before.",
    ),
    KeySpec::new(
        "selection_repeats",
        ValueType::Integer { min: 1, max: 100 },
        Outcome,
        Value("1"),
        "How often each task of the selection split is tried with a skill. A task's tries count together, and each is\n\
         paid for; for targets whose answers are sampled.",
    ),
    KeySpec::new(
        "early_stop",
        ValueType::Choice(&["exact", "off"]),
        Outcome,
        Value("\"exact\""),
        "exact: a candidate is rejected as soon as it cannot win any more; what is decided is the same, and most\n\
         rejected candidates cost a part of the calls. off: every candidate is measured on the whole split.",
    ),
];

const EVAL: &[KeySpec] = &[
    KeySpec::new(
        "fresh",
        ValueType::Flag,
        Process,
        Value("true"),
        "Whether the first and the best skill are measured on the selection split once more at the end: the\n\
         score that a skill was selected by flatters it, and this one does not. It costs one pass or two.",
    ),
    KeySpec::new(
        "test",
        ValueType::Flag,
        Process,
        Value("true"),
        "Whether the first and the best skill are measured on the test split at the end.",
    ),
];

const PROMPTS: &[KeySpec] = &[KeySpec::new(
    "dir",
    ValueType::Path,
    Outcome,
    Absent { example: "\"prompts\"" },
    "A directory with prompts (NAME.md) that take the place of the built-in ones.",
)];

const LIMITS: &[KeySpec] = &[KeySpec::new(
    "max_reply_tokens",
    ValueType::Integer { min: 1, max: MAX_TOKENS },
    Process,
    Value("16384"),
    "The most tokens that a reply of the optimizer may have.",
)];

const SECONDS: ValueType = ValueType::Number { min: 0.0, max: MAX_SECONDS };

const RETRY: &[KeySpec] = &[
    KeySpec::new(
        "max_attempts",
        ValueType::Integer { min: 1, max: 1000 },
        Process,
        Value("8"),
        "Attempts per call. A wrong key, a refused request or an empty account is never tried again.\n\
         A rate limit with a stated wait uses up no attempt.",
    ),
    KeySpec::new(
        "first_delay_s",
        SECONDS,
        Process,
        Value("0.5"),
        "Seconds before the second attempt; each further wait is twice as long.",
    ),
    KeySpec::new("max_delay_s", SECONDS, Process, Value("60.0"), "The longest of these waits."),
    KeySpec::new(
        "max_server_wait_s",
        SECONDS,
        Process,
        Value("600.0"),
        "The longest wait that a server may ask for; if it asks for more, the run stops.",
    ),
    KeySpec::new(
        "call_timeout_s",
        SECONDS,
        Process,
        Value("1800.0"),
        "Seconds for a call with all its attempts and waits.",
    ),
];

const BUDGET: &[KeySpec] = &[
    KeySpec::new(
        "calls",
        ValueType::Integer { min: 1, max: MAX_RATE },
        Process,
        Absent { example: "5000" },
        "Requests that may be sent, repeated ones included.",
    ),
    KeySpec::new(
        "tokens",
        ValueType::Integer { min: 1, max: MAX_RATE },
        Process,
        Absent { example: "20000000" },
        "Tokens of prompts and replies.",
    ),
    KeySpec::new("money", PRICE, Process, Absent { example: "10.0" }, "Money, by the prices of the models."),
    KeySpec::new("time_s", SECONDS, Process, Absent { example: "14400.0" }, "Seconds that the run works."),
];
