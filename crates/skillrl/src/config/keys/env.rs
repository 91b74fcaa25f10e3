//! The keys of `[env]`.

use super::Effect::{Process, Result as Outcome};
use super::KeyDefault::{Absent, Required, Value};
use super::table::MAX_SEED;
use super::{KeySpec, ValueType};

/// The kinds whose items stand in data files.
const DATA: &[&str] = &["qa", "tasks"];
/// The kinds that can be split by a ratio.
const RATIO: &[&str] = &["qa", "tasks", "webshop", "exec"];

const TOLERANCE: ValueType = ValueType::Number { min: 0.0, max: f64::INFINITY };

pub(super) const ENV: &[KeySpec] = &[
    KeySpec::new(
        "kind",
        ValueType::Choice(&["qa", "tasks", "alfworld", "webshop", "exec"]),
        Outcome,
        Value("\"qa\""),
        "qa: questions with known answers. tasks: data of your own, with a prompt over its fields and a scorer by\n\
         name. Both read JSON Lines, JSON and CSV. alfworld and webshop: worlds in which an agent acts, turn by turn.\n\
         exec: a program of your own.",
    ),
    KeySpec::new(
        "data",
        ValueType::Path,
        Outcome,
        Required { example: "\"data\"" },
        "A directory with train, val and test, or what is split by the keys below: one file, or a directory of files.",
    )
    .of_kinds(DATA),
    KeySpec::new(
        "split_ratio",
        ValueType::Ratio,
        Outcome,
        Value("\"auto\""),
        "The shares of train, val and test, such as [2, 1, 7]. auto: 1:1:1 below 400 items and 2:1:2 from 400\n\
         on, with each type of task (task_type) in the same proportions in all three.",
    )
    .of_kinds(RATIO),
    KeySpec::new(
        "split_rule",
        ValueType::Integer { min: 1, max: 2 },
        Outcome,
        Value("2"),
        "How shares become whole numbers of items. 2: as SkillOpt does, with floating-point remainders. 1: exact,\n\
         as in runs from before this key. Without effect where split_ratio is auto.",
    )
    .of_kinds(RATIO),
    KeySpec::new(
        "split_seed",
        ValueType::Integer { min: 0, max: MAX_SEED },
        Outcome,
        Value("42"),
        "Decides which item falls into which split.",
    )
    .of_kinds(RATIO),
    KeySpec::new(
        "scorer",
        ValueType::Choice(SCORERS),
        Outcome,
        Value("\"em_f1\""),
        "em_f1: exact match and F1 as SQuAD has them. contains: an answer stands in the reply. Of kind tasks also\n\
         exact, choice, numeric, anls, regex, json_fields, officeqa; rules: the list below; rubric: a judge model;\n\
         command: a program of yours.",
    )
    .of_kinds(DATA),
    KeySpec::new(
        "max_tokens",
        super::worlds::MAX_REPLY_TOKENS,
        Outcome,
        Absent { example: "512" },
        "The most tokens that an answer may have.",
    ),
    task(
        "preset",
        ValueType::Choice(&["searchqa", "hotpotqa", "livemath", "officeqa", "docvqa"]),
        Absent { example: "\"searchqa\"" },
        "A benchmark whose own files are read; it sets fields, prompt, extraction and scorer, which keys here change.",
    ),
    task(
        "split_field",
        ValueType::Text,
        Absent { example: "\"split\"" },
        "The field that says train, val or test, instead of a split by ratio.",
    ),
    task(
        "split_ids",
        ValueType::Path,
        Absent { example: "\"splits\"" },
        "A directory with lists of ids named train, val and test (.txt, .json, .jsonl or .csv), instead of a split by\n\
         ratio. Items in no list are left out.",
    ),
    task(
        "prompt",
        ValueType::Path,
        Absent { example: "\"prompt.md\"" },
        "A template with a system and a user block over the fields of an item and the skill. Without it the usual\n\
         fields are shown (question, context, instruction, input and their like).",
    ),
    task(
        "user_prompt",
        ValueType::Text,
        Absent { example: "\"Translate into French: {{ text }}\"" },
        "The user block alone; the system block is the skill.",
    ),
    task(
        "tools",
        ValueType::Path,
        Absent { example: "\"tools.json\"" },
        "A JSON list of tools (name, description, parameters) that the agent may call, for rules about calls.",
    ),
    task(
        "id_field",
        ValueType::Text,
        Absent { example: "\"id\"" },
        "The field with the id. Without it the usual names are tried, then items are numbered.",
    ),
    task(
        "answer_field",
        ValueType::Text,
        Absent { example: "\"answer\"" },
        "The field with what is right: a text, a list of texts, or for json_fields an object. Without it: answers,\n\
         answer, ground_truth or correct_choice.",
    ),
    task(
        "type_field",
        ValueType::Text,
        Absent { example: "\"category\"" },
        "The field with a category for reports. Without it: task_type.",
    ),
    task(
        "choices_field",
        ValueType::Text,
        Absent { example: "\"choices\"" },
        "The field with the choices: a list, or texts by label. Without it: choices or options.",
    ),
    task(
        "image_field",
        ValueType::Text,
        Absent { example: "\"image\"" },
        "The field with an image file, or a list of them, that the agent sees after the text.",
    ),
    task(
        "image_dir",
        ValueType::Path,
        Absent { example: "\"images\"" },
        "The directory that image files are relative to. Without it that of the data.",
    ),
    task(
        "files_dir",
        ValueType::Path,
        Absent { example: "\"reports\"" },
        "A directory of documents. With it the agent may list, read and search the files of its item before it\n\
         answers.",
    ),
    task(
        "files_field",
        ValueType::Text,
        Absent { example: "\"source_files\"" },
        "The field with the names of an item's files, relative to files_dir. Without it every item has all files.",
    ),
    task(
        "pages_field",
        ValueType::Text,
        Absent { example: "\"source_docs\"" },
        "The field that names the pages which answer an item; their text becomes the field context. A form feed\n\
         ends a page.",
    ),
    task(
        "file_tools",
        ValueType::Texts,
        Absent { example: "[\"list\", \"read\", \"grep\"]" },
        "The tools over files that are offered; without it all three.",
    ),
    task(
        "file_calls",
        ValueType::Choice(&["calls", "text"]),
        Value("\"calls\""),
        "calls: as tool calls. text: as JSON between <tool> and </tool>, for models without tools.",
    ),
    task(
        "max_tool_turns",
        ValueType::Integer { min: 1, max: 1000 },
        Value("24"),
        "The most replies that may use tools over files; then the agent has to answer.",
    ),
    task(
        "rules_field",
        ValueType::Text,
        Absent { example: "\"rules\"" },
        "The field with rules that only this item has.",
    ),
    task(
        "shuffle_choices",
        ValueType::Flag,
        Value("false"),
        "Whether the choices are shown in another order, decided by choice_seed and the item's id.",
    ),
    task(
        "choice_seed",
        ValueType::Integer { min: 0, max: MAX_SEED },
        Value("42"),
        "Decides the order of shuffled choices.",
    ),
    task(
        "extract",
        ValueType::Choice(&["whole", "last_tag", "last_line", "regex", "json"]),
        Value("\"whole\""),
        "Which part of a reply is the answer: all of it, what stands in the last tag, the last line, the last match\n\
         of a pattern, or a member of a JSON object.",
    ),
    task(
        "extract_tag",
        ValueType::Text,
        Value("\"answer\""),
        "The tag of last_tag: <answer>..</answer>.",
    ),
    task(
        "extract_pattern",
        ValueType::Text,
        Absent { example: "'####\\s*(.+)'" },
        "The pattern of regex; its first group counts, else all of the match.",
    ),
    task(
        "extract_field",
        ValueType::Text,
        Value("\"answer\""),
        "The member of json; dots lead into objects.",
    ),
    task(
        "ignore_case",
        ValueType::Flag,
        Value("false"),
        "Whether case does not count, for exact and json_fields.",
    ),
    task(
        "choice_by",
        ValueType::Choice(&["either", "label", "text", "skillopt"]),
        Value("\"either\""),
        "By what an answer may name a choice. skillopt: by its label, else by its text, else by a label that\n\
         is the first word.",
    ),
    task(
        "tolerance",
        TOLERANCE,
        Value("0.0"),
        "The greatest difference of numbers that is right, for numeric and json_fields.",
    ),
    task(
        "relative_tolerance",
        TOLERANCE,
        Value("0.0"),
        "The same as a share of the reference, for numeric: 0.01 is one percent.",
    ),
    task(
        "units",
        ValueType::Choice(&["optional", "required", "ignored"]),
        Value("\"optional\""),
        "For numeric. optional: units are converted, and one that is left out is the other's. required: the answer\n\
         must have the reference's unit. ignored: units are not looked at.",
    ),
    task(
        "percent",
        ValueType::Choice(&["unit", "fraction"]),
        Value("\"unit\""),
        "For numeric. unit: 12% and 0.12 are not the same. fraction: they are.",
    ),
    task(
        "anls_threshold",
        ValueType::Number { min: 0.0, max: 1.0 },
        Value("0.5"),
        "For anls: the normalized distance from which an answer is worth nothing.",
    ),
    task(
        "pattern",
        ValueType::Text,
        Absent { example: "'^\\d{4}-\\d{2}-\\d{2}$'" },
        "For regex: what must be found in the answer. Without it the references are patterns.",
    ),
    task(
        "json_fields",
        ValueType::Texts,
        Absent { example: "[\"name\", \"address.city\"]" },
        "For json_fields: the fields that are compared. Without it all that the reference has.",
    ),
    task(
        "rules",
        ValueType::Rules,
        Absent { example: "[{ contains = \"refund\" }, { section = \"Summary\" }, { max_words = 150 }]" },
        "For rules: contains, not_contains, matches, not_matches, section, min_chars, max_chars, min_words,\n\
         max_words, tool_called, tool_not_called. hard: all are kept. soft: the share of those that are.",
    ),
    task(
        "rubric",
        ValueType::Text,
        Absent { example: "\"The summary names the decision, who made it, and what it costs.\"" },
        "For rubric: what a good answer is.",
    ),
    task(
        "rubric_file",
        ValueType::Path,
        Absent { example: "\"rubric.md\"" },
        "For rubric: a file that says it, instead of rubric.",
    ),
    task(
        "judge",
        ValueType::Choice(&["judge", "optimizer", "target"]),
        Value("\"judge\""),
        "For rubric: the model that grades, [models.judge] or one of the other two.",
    ),
    task(
        "pass_score",
        ValueType::Number { min: 0.0, max: 1.0 },
        Value("0.8"),
        "For rubric: the share of the judge's points from which a task counts as solved.",
    ),
    task(
        "command",
        ValueType::Texts,
        Absent { example: "[\"python3\", \"score.py\"]" },
        "For command: the program and its arguments, started in the directory of this file for each answer. It reads\n\
         item and answer as JSON and prints { \"hard\": 0 to 1, \"soft\": 0 to 1, \"reason\": \"..\" }.",
    ),
    KeySpec::new(
        "command_timeout_s",
        ValueType::Integer { min: 1, max: 86_400 },
        Process,
        Value("60"),
        "For command: seconds after which the program is killed, which stops the run and is no score.",
    )
    .of_kind("tasks"),
];

/// Every scorer; the first two are those of kind qa.
pub(in crate::config) const SCORERS: &[&str] = &[
    "em_f1",
    "contains",
    "exact",
    "choice",
    "numeric",
    "anls",
    "regex",
    "json_fields",
    "rules",
    "rubric",
    "command",
    "officeqa",
];

/// The scorers that look at a key, for keys that not all of them look at.
pub(in crate::config) const KEYS_OF_SCORERS: &[(&str, &[&str])] = &[
    ("ignore_case", &["exact", "json_fields"]),
    ("choice_by", &["choice"]),
    ("tolerance", &["numeric", "json_fields"]),
    ("relative_tolerance", &["numeric"]),
    ("units", &["numeric"]),
    ("percent", &["numeric"]),
    ("anls_threshold", &["anls"]),
    ("pattern", &["regex"]),
    ("json_fields", &["json_fields"]),
    ("rules", &["rules"]),
    ("rules_field", &["rules"]),
    ("rubric", &["rubric"]),
    ("rubric_file", &["rubric"]),
    ("judge", &["rubric"]),
    ("pass_score", &["rubric"]),
    ("command", &["command"]),
    ("command_timeout_s", &["command"]),
    ("pass_env", &["command"]),
];

/// A key of kind tasks that decides results.
const fn task(
    name: &'static str,
    value: ValueType,
    default: super::KeyDefault,
    doc: &'static str,
) -> KeySpec {
    KeySpec::new(name, value, Outcome, default, doc).of_kind("tasks")
}
