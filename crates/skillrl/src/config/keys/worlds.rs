//! The keys of `[env]` that worlds with several turns have.

use super::Effect::{Process, Result as Outcome};
use super::KeyDefault::{self, Absent, Required, Value};
use super::table::{MAX_SEED, MAX_TOKENS};
use super::{KeySpec, ValueType};

/// The worlds that are built in.
const BUILT_IN: &[&str] = &["alfworld", "webshop"];
/// The kinds that have no data file and, mostly, several turns.
pub(in crate::config) const WORLDS: &[&str] = &["alfworld", "webshop", "exec"];

const COUNT: ValueType = ValueType::Integer { min: 1, max: 1_000_000 };
const TURNS: ValueType = ValueType::Integer { min: 1, max: 100_000 };

pub(super) const WORLD_KEYS: &[KeySpec] = &[
    alfworld(
        "games",
        ValueType::Path,
        Absent { example: "\"json_2.1.1\"" },
        "The directory of the data set, with train, valid_seen and valid_unseen. Without it games are generated.",
    ),
    alfworld(
        "games_train",
        ValueType::Path,
        Absent { example: "\"train.txt\"" },
        "The games of train: a directory, or a list of them (.txt, .json), instead of the data set's own.",
    ),
    alfworld("games_val", ValueType::Path, Absent { example: "\"val.txt\"" }, "The games of val, likewise."),
    alfworld(
        "games_test",
        ValueType::Path,
        Absent { example: "\"test.txt\"" },
        "The games of test, likewise.",
    ),
    alfworld(
        "task_types",
        ValueType::Texts,
        Absent { example: "[\"pick_and_place_simple\"]" },
        "The kinds of task that are played. Without it all six.",
    ),
    built_in(
        "max_train",
        COUNT,
        Absent { example: "36" },
        "The most games or goals of train; of generated games, how many there are (36).",
    ),
    built_in(
        "max_val",
        COUNT,
        Absent { example: "18" },
        "The most games or goals of val; generated games: 18.",
    ),
    built_in(
        "max_test",
        COUNT,
        Absent { example: "36" },
        "The most games or goals of test; generated games: 36.",
    ),
    alfworld(
        "game_seed",
        ValueType::Integer { min: 0, max: MAX_SEED },
        Value("42"),
        "Decides which games are generated.",
    ),
    alfworld(
        "unplayable",
        ValueType::Choice(&["refuse", "leave_out"]),
        Value("\"refuse\""),
        "What becomes of a game that cannot be read or solved. refuse: the run does not start. leave_out: it is\n\
         played without that game.",
    ),
    webshop(
        "products",
        ValueType::Path,
        Absent { example: "\"items_shuffle_1000.json\"" },
        "The product file. Without it products are made up.",
    ),
    webshop(
        "attributes",
        ValueType::Path,
        Absent { example: "\"items_ins_v2_1000.json\"" },
        "The file of attributes, and of instructions made by rule.",
    ),
    webshop(
        "instructions",
        ValueType::Path,
        Absent { example: "\"items_human_ins.json\"" },
        "The file of people's instructions.",
    ),
    webshop(
        "max_products",
        COUNT,
        Absent { example: "1000" },
        "How many products of the file count, from its start; without a file, how many are made up.",
    ),
    webshop(
        "goal_kind",
        ValueType::Choice(&["human", "synthetic"]),
        Value("\"human\""),
        "Which instructions become goals: those of people, or those made by rule.",
    ),
    webshop(
        "goals",
        ValueType::Path,
        Absent { example: "\"goals.json\"" },
        "A file with the goals themselves, in order; no others are made.",
    ),
    webshop(
        "prices",
        ValueType::Path,
        Absent { example: "\"prices.json\"" },
        "A file with the price by which each product is judged; none is drawn then.",
    ),
    webshop(
        "nouns",
        ValueType::Path,
        Absent { example: "\"nouns.json\"" },
        "A file with the nouns of product names; other names are taken apart by rule.",
    ),
    webshop(
        "missing_products",
        ValueType::Choice(&["skip", "error"]),
        Value("\"skip\""),
        "What becomes of instructions whose product is not in the product file.",
    ),
    webshop(
        "shop_seed",
        ValueType::Integer { min: 0, max: MAX_SEED },
        Value("0"),
        "Decides what the original draws anew in each process: prices within a range, bounds on prices.",
    ),
    webshop(
        "show_attributes",
        ValueType::Flag,
        Value("false"),
        "Whether the page of a product leads to a page of its attributes.",
    ),
    webshop(
        "observation",
        ValueType::Choice(&["text", "text_rich"]),
        Value("\"text\""),
        "How pages are written: as one line with [SEP], or a piece a line with marks around what can be clicked.",
    ),
    webshop(
        "previous_observations",
        ValueType::Integer { min: 0, max: 1_000 },
        Value("0"),
        "How many earlier pages the world itself puts before the newest one; the prompt has a history of its own.",
    ),
    webshop(
        "previous_actions",
        ValueType::Integer { min: 0, max: 1_000 },
        Value("0"),
        "How many earlier actions stand between those pages.",
    ),
    webshop(
        "goal_split",
        ValueType::Choice(&["auto", "ratio"]),
        Value("\"auto\""),
        "auto: with a product file the paper's ranges (test 0 to 500, val 500 to 1500, train the rest), without one\n\
         split_ratio. ratio: split_ratio.",
    ),
    exec(
        "program",
        ValueType::Texts,
        Required { example: "[\"python3\", \"env.py\"]" },
        "The program and its arguments; docs/env-protocol.md says how it speaks.",
    ),
    exec(
        "program_dir",
        ValueType::Path,
        Absent { example: "\"env\"" },
        "Where the program runs. Without it the directory of this file.",
    ),
    exec(
        "set_env",
        ValueType::Headers,
        Absent { example: "{ DATA_DIR = \"games\" }" },
        "Environment variables that the program gets, with their values; no place for secrets.",
    ),
    KeySpec::new(
        "pass_env",
        ValueType::Texts,
        Outcome,
        Absent { example: "[\"CUDA_VISIBLE_DEVICES\"]" },
        "Names of variables that the program or the scorer command gets besides the usual ones; keys of models\n\
         are not among them unless named.",
    )
    .of_kinds(&["exec", "tasks"]),
    exec(
        "settings",
        ValueType::Body,
        Absent { example: "{ difficulty = \"hard\" }" },
        "Handed to the program as it is.",
    ),
    exec(
        "items",
        ValueType::Path,
        Absent { example: "\"items.jsonl\"" },
        "A directory with train, val and test, or a file that is split. Without it the program lists its items.",
    ),
    KeySpec::new(
        "processes",
        ValueType::Integer { min: 1, max: 10_000 },
        Process,
        Value("4"),
        "How many processes of the program run side by side at most.",
    )
    .of_kind("exec"),
    exec(
        "process_per_rollout",
        ValueType::Flag,
        Value("false"),
        "Whether every rollout or episode has a process of its own.",
    ),
    exec(
        "skill_delivery",
        ValueType::Choice(&["inline", "file", "system_prompt"]),
        Value("\"inline\""),
        "How a program that runs its own agent gets the skill: as text in the request, as SKILL.md in a directory\n\
         made for the rollout, or in the system prompt of every call to the endpoint.",
    ),
    exec(
        "endpoint",
        ValueType::Flag,
        Value("false"),
        "Whether its agent is served the target as an OpenAI- and Anthropic-compatible model on loopback.",
    ),
    seconds("start_timeout_s", "60", "Seconds until the program has said what it is."),
    seconds("reset_timeout_s", "120", "Seconds that it may take to begin an episode."),
    seconds("step_timeout_s", "60", "Seconds that it may take for a step."),
    seconds("rollout_timeout_s", "1800", "Seconds that it may take for a whole rollout."),
    built_in(
        "servers",
        ValueType::Texts,
        Absent { example: "[\"http://localhost:3000\"]" },
        "Servers that play the world over HTTP, one episode at a time each, instead of playing it here. With\n\
         server_tasks alone it is http://localhost:3000 for alfworld and http://localhost:3001 for webshop.",
    ),
    built_in(
        "server_tasks",
        ValueType::Path,
        Absent { example: "\"tasks\"" },
        "A directory with the ids of the servers' tasks as lists train, val and test (.txt, .json, .jsonl, .csv).",
    ),
    KeySpec::new(
        "server_timeout_s",
        ValueType::Integer { min: 1, max: 86_400 },
        Process,
        Value("60"),
        "Seconds that a server may take for one step.",
    )
    .of_kinds(BUILT_IN),
    world(
        "action_format",
        ValueType::Choice(&["tags", "tool"]),
        Value("\"tags\""),
        "How the agent writes its actions: between <action> and </action>, or as calls of a tool.",
    ),
    world(
        "think",
        ValueType::Flag,
        Value("true"),
        "Whether the agent is asked to think before it acts, between <think> and </think>.",
    ),
    world(
        "show_admissible",
        ValueType::Flag,
        Value("true"),
        "Whether the actions that are possible now stand in the prompt.",
    ),
    world(
        "history_turns",
        ValueType::Integer { min: 0, max: 100_000 },
        Value("10"),
        "How many earlier turns the prompt holds.",
    ),
    world("max_turns", TURNS, Value("50"), "The most turns of an episode."),
    world(
        "max_episode_tokens",
        ValueType::Integer { min: 1, max: 1_000_000_000 },
        Absent { example: "100000" },
        "The most tokens of all calls of an episode.",
    ),
    world(
        "max_invalid_actions",
        TURNS,
        Value("10"),
        "How many replies in a row may hold no action that the world understands before the episode is ended.",
    ),
    world(
        "invalid_action_penalty",
        ValueType::Number { min: 0.0, max: 1.0 },
        Value("0.0"),
        "What each such reply takes from the soft score.",
    ),
    world(
        "max_repetitions",
        ValueType::Integer { min: 2, max: 100_000 },
        Value("5"),
        "How often the agent may go round in the same circle of up to three actions before the episode is ended.",
    ),
];

/// The bound on a reply's tokens is that of all kinds.
pub(super) const MAX_REPLY_TOKENS: ValueType = ValueType::Integer { min: 1, max: MAX_TOKENS };

const fn alfworld(name: &'static str, value: ValueType, default: KeyDefault, doc: &'static str) -> KeySpec {
    KeySpec::new(name, value, Outcome, default, doc).of_kind("alfworld")
}

const fn webshop(name: &'static str, value: ValueType, default: KeyDefault, doc: &'static str) -> KeySpec {
    KeySpec::new(name, value, Outcome, default, doc).of_kind("webshop")
}

const fn built_in(name: &'static str, value: ValueType, default: KeyDefault, doc: &'static str) -> KeySpec {
    KeySpec::new(name, value, Outcome, default, doc).of_kinds(BUILT_IN)
}

const fn exec(name: &'static str, value: ValueType, default: KeyDefault, doc: &'static str) -> KeySpec {
    KeySpec::new(name, value, Outcome, default, doc).of_kind("exec")
}

const fn seconds(name: &'static str, default: &'static str, doc: &'static str) -> KeySpec {
    KeySpec::new(name, ValueType::Integer { min: 1, max: 604_800 }, Process, Value(default), doc)
        .of_kind("exec")
}

const fn world(name: &'static str, value: ValueType, default: KeyDefault, doc: &'static str) -> KeySpec {
    KeySpec::new(name, value, Outcome, default, doc).of_kinds(WORLDS)
}
