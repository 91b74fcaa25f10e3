//! `[env]`: its types, and the declaration of its keys.

use super::key::KeyDefault::{Absent, Required, Value};
use super::key::ValueType::{self, Body, Flag, Headers, Ratio, Rules, Text, Texts};
use super::key::declare::{choice, decisive, integer, kinds, number, process};
use super::key::{DIRECTORY, FILE, FILE_OR_DIRECTORY, KeySpec, Kinds, MAX_COUNT, MAX_SEED, MAX_TOKENS};
use super::path::ConfigPath;
use super::tasks::{GoalSplit, TasksExtract, TasksJudge, TasksScorer};
use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};
use skill_core::{SplitRatio, SplitRule, named_enum};
use skill_envs::agent::{ActionFormat, AgentSettings};
use skill_envs::choices::{
    Compare, GoalKind, MissingProducts, ObservationForm, OnError, Recalculate, Rooms, SandboxKind,
    SkillDelivery, SpreadsheetMode, Unplayable,
};
use skill_envs::score::{ChoiceBy, PercentRule, UnitRule};
use skill_envs::tasks::{Preset, ToolFormat};

named_enum! {
    /// The kinds of environments.
    pub enum EnvKind {
        /// Questions with known answers.
        Qa = "qa",
        /// A person's own data.
        Tasks = "tasks",
        /// Household games.
        Alfworld = "alfworld",
        /// A shop.
        Webshop = "webshop",
        /// Questions that are answered with a search tool.
        SearchAgent = "search-agent",
        /// A program.
        Exec = "exec",
        /// Programs that change workbooks.
        Spreadsheet = "spreadsheet",
        /// Cases of a coding agent.
        Evals = "evals",
    }
}

impl EnvKind {
    /// The tasks in a few words.
    pub fn summary(self) -> &'static str {
        match self {
            Self::Qa => "questions with known answers",
            Self::Tasks => "data of your own",
            Self::Alfworld => "chores in a household, generated",
            Self::Webshop => "purchases in a shop, bundled",
            Self::SearchAgent => "questions that an agent answers with a search tool",
            Self::Exec => "a program of your own is the environment",
            Self::Spreadsheet => "SpreadsheetBench: programs that change workbooks, from its data set",
            Self::Evals => "cases of a coding agent: projects, prompts and checks",
        }
    }

    /// True if its items are records of data files.
    pub fn has_data_file(self) -> bool {
        match self {
            Self::Qa | Self::Tasks | Self::Spreadsheet => true,
            Self::Alfworld | Self::Webshop | Self::SearchAgent | Self::Exec | Self::Evals => false,
        }
    }

    /// The worlds that are complete without any other key, in the order of their names here; each has an expert.
    pub fn built_in_worlds() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(|kind| kind.is_built_in_world())
    }

    /// True if it is a world that is complete without any other key.
    pub fn is_built_in_world(self) -> bool {
        match self {
            Self::Alfworld | Self::Webshop | Self::SearchAgent => true,
            Self::Qa | Self::Tasks | Self::Exec | Self::Spreadsheet | Self::Evals => false,
        }
    }
}

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
    /// Questions that are answered with a search tool.
    #[serde(rename = "search-agent")]
    SearchAgent(Box<SearchAgentConfig>),
    /// A program.
    Exec(Box<ExecConfig>),
    /// Programs that change workbooks.
    Spreadsheet(Box<SpreadsheetConfig>),
    /// Cases of a coding agent.
    Evals(Box<EvalsConfig>),
}

/// The limits on the turns of an episode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EpisodeTurns {
    /// Turns of an episode at most.
    pub(crate) most: u64,
    /// Earlier turns that a prompt holds at most.
    pub(crate) history: u64,
}

impl EnvConfig {
    /// The kind of environment.
    pub fn env_kind(&self) -> EnvKind {
        match self {
            Self::Qa(_) => EnvKind::Qa,
            Self::Tasks(_) => EnvKind::Tasks,
            Self::Alfworld(_) => EnvKind::Alfworld,
            Self::Webshop(_) => EnvKind::Webshop,
            Self::SearchAgent(_) => EnvKind::SearchAgent,
            Self::Exec(_) => EnvKind::Exec,
            Self::Spreadsheet(_) => EnvKind::Spreadsheet,
            Self::Evals(_) => EnvKind::Evals,
        }
    }

    /// The value of the key `kind`.
    pub fn kind(&self) -> &'static str {
        self.env_kind().as_str()
    }

    /// The limit on tokens of a reply that its requests carry.
    pub fn max_tokens(&self) -> Option<u32> {
        match self {
            Self::Qa(env) => env.max_tokens,
            Self::Tasks(env) => env.max_tokens,
            Self::Alfworld(env) => env.max_tokens,
            Self::Webshop(env) => env.max_tokens,
            Self::SearchAgent(env) => env.max_tokens,
            Self::Spreadsheet(env) => env.max_tokens,
            Self::Evals(env) => env.max_tokens,
            // The program decides.
            Self::Exec(_) => None,
        }
    }

    /// How long the episodes of a world may be; `None` where an item has one.
    pub(crate) fn episode_turns(&self) -> Option<EpisodeTurns> {
        let of = |most: u32, history: u32| {
            Some(EpisodeTurns { most: u64::from(most), history: u64::from(history) })
        };
        match self {
            Self::Alfworld(env) => of(env.max_turns, env.history_turns),
            Self::Webshop(env) => of(env.max_turns, env.history_turns),
            Self::SearchAgent(env) => of(env.max_turns, env.history_turns),
            Self::Exec(env) => of(env.max_turns, env.history_turns),
            Self::Qa(_) | Self::Tasks(_) | Self::Spreadsheet(_) | Self::Evals(_) => None,
        }
    }

    /// The variables of this process that its programs get.
    pub fn pass_env(&self) -> &[String] {
        match self {
            Self::Exec(env) => &env.pass_env,
            Self::Tasks(env) => &env.pass_env,
            Self::Qa(_)
            | Self::Alfworld(_)
            | Self::Webshop(_)
            | Self::SearchAgent(_)
            | Self::Spreadsheet(_)
            | Self::Evals(_) => &[],
        }
    }

    /// The field of an item with what is right, where one is named.
    pub fn answer_field(&self) -> Option<&str> {
        match self {
            Self::Tasks(env) => env.answer_field.as_deref(),
            Self::Qa(_)
            | Self::Alfworld(_)
            | Self::Webshop(_)
            | Self::SearchAgent(_)
            | Self::Exec(_)
            | Self::Spreadsheet(_)
            | Self::Evals(_) => None,
        }
    }

    /// Which model grades answers by their scorer or by `guard`, that of `gate.guard`; `None` if none does.
    pub fn judge(&self, guard: Option<&str>) -> Option<TasksJudge> {
        let is_judged = |scorer: TasksScorer| scorer.spec().is_judged;
        let guard = guard.and_then(TasksScorer::parse);
        match self {
            Self::Tasks(env) => (is_judged(env.scorer) || guard.is_some_and(is_judged)).then_some(env.judge),
            Self::Exec(env) => (env.rubric.is_some() || env.rubric_file.is_some()).then_some(env.judge),
            Self::Evals(env) => env.grader,
            Self::Qa(_)
            | Self::Alfworld(_)
            | Self::Webshop(_)
            | Self::SearchAgent(_)
            | Self::Spreadsheet(_) => None,
        }
    }

    /// How items are split by a ratio; `None` for environments that never are.
    pub(super) fn split_mut(&mut self) -> Option<(&mut SplitRatio, &mut SplitRule)> {
        match self {
            Self::Qa(env) => Some((&mut env.split_ratio, &mut env.split_rule)),
            Self::Tasks(env) => Some((&mut env.split_ratio, &mut env.split_rule)),
            Self::Webshop(env) => Some((&mut env.split_ratio, &mut env.split_rule)),
            Self::SearchAgent(env) => Some((&mut env.split_ratio, &mut env.split_rule)),
            Self::Exec(env) => Some((&mut env.split_ratio, &mut env.split_rule)),
            Self::Spreadsheet(env) => Some((&mut env.split_ratio, &mut env.split_rule)),
            Self::Alfworld(_) | Self::Evals(_) => None,
        }
    }

    pub(super) fn visit_paths(&mut self, section: &str, visit: &mut dyn FnMut(&str, &mut ConfigPath)) {
        match self {
            Self::Qa(env) => env.visit_paths(section, visit),
            Self::Tasks(env) => env.visit_paths(section, visit),
            Self::Alfworld(env) => env.visit_paths(section, visit),
            Self::Webshop(env) => env.visit_paths(section, visit),
            Self::SearchAgent(env) => env.visit_paths(section, visit),
            Self::Exec(env) => env.visit_paths(section, visit),
            Self::Spreadsheet(env) => env.visit_paths(section, visit),
            Self::Evals(env) => env.visit_paths(section, visit),
        }
    }
}

/// The kinds whose items stand in data files.
const DATA: Kinds =
    Kinds::Of(&[EnvKind::Qa.as_str(), EnvKind::Tasks.as_str(), EnvKind::Spreadsheet.as_str()]);
/// The kinds that choose a scorer.
const SCORED: Kinds = Kinds::Of(&[EnvKind::Qa.as_str(), EnvKind::Tasks.as_str()]);
/// The kinds whose splits can be lists of ids.
const LISTED: Kinds = Kinds::Of(&[EnvKind::Tasks.as_str(), EnvKind::Spreadsheet.as_str()]);
/// The kinds with programs that can run in the sandbox.
const SANDBOXED: Kinds = Kinds::Of(&[EnvKind::Spreadsheet.as_str(), EnvKind::Tasks.as_str()]);
const EVALS: Kinds = Kinds::Of(&[EnvKind::Evals.as_str()]);
const SPREADSHEET: Kinds = Kinds::Of(&[EnvKind::Spreadsheet.as_str()]);
/// The kinds that can be split by a ratio.
const RATIO: Kinds = Kinds::Of(&[
    EnvKind::Qa.as_str(),
    EnvKind::Tasks.as_str(),
    EnvKind::Webshop.as_str(),
    EnvKind::SearchAgent.as_str(),
    EnvKind::Exec.as_str(),
    EnvKind::Spreadsheet.as_str(),
]);
const ALL: Kinds = Kinds::All;
const TASKS: Kinds = Kinds::Of(&[EnvKind::Tasks.as_str()]);
const ALFWORLD: Kinds = Kinds::Of(&[EnvKind::Alfworld.as_str()]);
const WEBSHOP: Kinds = Kinds::Of(&[EnvKind::Webshop.as_str()]);
const SEARCH: Kinds = Kinds::Of(&[EnvKind::SearchAgent.as_str()]);
const EXEC: Kinds = Kinds::Of(&[EnvKind::Exec.as_str()]);
/// The environments with games.
const GAMES: Kinds = Kinds::Of(&[EnvKind::Alfworld.as_str(), EnvKind::Webshop.as_str()]);
/// The environments that are built in.
const BUILT_IN: Kinds =
    Kinds::Of(&[EnvKind::Alfworld.as_str(), EnvKind::Webshop.as_str(), EnvKind::SearchAgent.as_str()]);
/// The kinds that start programs of a person's own.
const PROGRAMS: Kinds = Kinds::Of(&[EnvKind::Exec.as_str(), EnvKind::Tasks.as_str()]);
/// The kinds that have no data file and, mostly, several turns.
pub(in crate::config) const WORLD_KINDS: &[&str] = &[
    EnvKind::Alfworld.as_str(),
    EnvKind::Webshop.as_str(),
    EnvKind::SearchAgent.as_str(),
    EnvKind::Exec.as_str(),
];
const WORLDS: Kinds = Kinds::Of(WORLD_KINDS);

const TOLERANCE: ValueType = number(0.0, f64::INFINITY);
const COUNT: ValueType = integer(1, MAX_COUNT);
const TURNS: ValueType = integer(1, 100_000);

/// The key that says which others there are.
pub(in crate::config) const KIND: &[KeySpec] = &[decisive(choice::<EnvKind>(), Value("\"qa\"")).named(
    "kind",
    "qa: questions with known answers. tasks: data of your own, with a prompt over its fields and a scorer by\n\
     name. Both read CSV, TSV, JSON Lines, JSON, Parquet and Excel. alfworld and webshop: an agent acts, turn\n\
     by turn. search-agent: questions that an agent answers with a search tool.\n\
     exec: a program of your own. spreadsheet: SpreadsheetBench, in which programs of the agent change workbooks.\n\
     evals: cases of a coding agent, each a project, a prompt and checks of what is left.",
)];

kinds! {
    /// The keys of `[env]`, but for `kind`.
    const ENV;
    structs {
        qa => {
            /// An environment with `kind = "qa"`.
            QaConfig
        }
        tasks => {
            /// An environment with `kind = "tasks"`; `docs/tasks.md` says what each key means.
            TasksConfig for skill_envs::tasks::TasksConfig
        }
        alfworld => {
            /// An environment with `kind = "alfworld"`; `docs/multi-turn.md` says what each key means.
            AlfworldConfig for AgentSettings
        }
        webshop => {
            /// An environment with `kind = "webshop"`; `docs/multi-turn.md` says what each key means.
            #[expect(rustdoc::broken_intra_doc_links, reason = "the sentences are those of the default file")]
            WebshopConfig for AgentSettings
        }
        search_agent => {
            /// An environment with `kind = "search-agent"`; `docs/multi-turn.md` says what each key means.
            SearchAgentConfig for AgentSettings
        }
        exec => {
            /// An environment with `kind = "exec"`; `docs/env-protocol.md` says how such a program speaks.
            ExecConfig for AgentSettings
        }
        spreadsheet => {
            /// An environment with `kind = "spreadsheet"`; `docs/benchmarks.md` says what each key means.
            SpreadsheetConfig
        }
        evals => {
            /// An environment with `kind = "evals"`; `docs/does-my-skill-help.md` says what a case is.
            EvalsConfig
        }
    }

    [qa tasks spreadsheet] of DATA {
        /// A directory with train, val and test, or what is split by the keys below: one file, or a directory of files.
        data: ConfigPath = decisive(FILE_OR_DIRECTORY, Required { example: "\"data\"" });
    }
    [qa tasks webshop search_agent exec spreadsheet] of RATIO {
        /// The shares of train, val and test, such as [2, 1, 7]. auto: 1:1:1 below 400 items and 2:1:2 from 400
        /// on, with each type of task (task_type) in the same proportions in all three.
        split_ratio: SplitRatio = decisive(Ratio, Value("\"auto\""));
        /// How shares become whole numbers of items. 2: as SkillOpt does, with floating-point remainders. 1: exact,
        /// as in runs from before this key. Without effect where split_ratio is auto.
        split_rule: SplitRule = decisive(integer(1, 2), Value("2"));
        /// Decides which item falls into which split.
        split_seed: u64 = decisive(integer(0, MAX_SEED), Value("42"));
    }
    [qa tasks] of SCORED {
        /// em_f1: exact match and F1 as SQuAD has them. contains: the reply contains an answer. Of kind tasks also
        /// exact, label_set, choice, numeric, anls, regex, json_fields, officeqa; rules: the list below; rubric: a
        /// judge model; command: a program of yours.
        scorer: TasksScorer = decisive(choice::<TasksScorer>(), Value("\"em_f1\""));
    }
    [qa tasks alfworld webshop search_agent exec spreadsheet evals] of ALL {
        /// The most tokens that an answer may have.
        max_tokens: Option<u32> = decisive(integer(1, MAX_TOKENS), Absent { example: "512" });
    }
    [tasks] of TASKS {
        /// A benchmark whose own files are read; it sets fields, prompt, extraction and scorer, which keys here change.
        preset: Option<Preset> = decisive(choice::<Preset>(), Absent { example: "\"searchqa\"" }) => preset;
        /// The field that says train, val or test, instead of a split by ratio.
        split_field: Option<String> = decisive(Text, Absent { example: "\"split\"" });
    }
    [tasks spreadsheet] of LISTED {
        /// A directory with lists of ids named train, val and test (.txt, .json, .jsonl or .csv), instead of a split by
        /// ratio. Items in no list are left out.
        split_ids: Option<ConfigPath> = decisive(DIRECTORY, Absent { example: "\"splits\"" });
    }
    [tasks] of TASKS {
        /// Whether items that ask the same are in one split, so that nothing is measured on what was learned. A
        /// split by shares keeps them together; of other splits the one that is measured later keeps them.
        group_equal_inputs: bool = decisive(Flag, Value("false")) => group_equal_inputs;
        /// True if right answers that differ only in case or whitespace are one label, in its most frequent spelling.
        merge_labels: bool = decisive(Flag, Value("false")) => merge_labels;
        /// Labels that count as another one, such as misspellings.
        #[serde(default)]
        fold_labels: Vec<String> = decisive(Texts, Absent { example: "[\"Biling=Billing\"]" }) => fold_labels;
        /// Whether records with the same fields and values count once.
        drop_duplicates: bool = decisive(Flag, Value("false")) => drop_duplicates;
        /// Whether records without a right answer are left out instead of refused.
        skip_unanswered: bool = decisive(Flag, Value("false")) => skip_unanswered;
        /// A template with a system and a user block over the fields of an item and the skill. Without it the usual
        /// fields are shown (question, context, instruction, input and their like).
        prompt: Option<ConfigPath> = decisive(FILE, Absent { example: "\"prompt.md\"" });
        /// The user block alone; the system block is the skill.
        user_prompt: Option<String> = decisive(Text, Absent { example: "\"Translate into French: {{ text }}\"" });
        /// A JSON list of tools (name, description, parameters) that the agent may call, for rules about calls.
        tools: Option<ConfigPath> = decisive(FILE, Absent { example: "\"tools.json\"" });
        /// The field with the id. Without it the usual names are tried, then items are numbered.
        id_field: Option<String> = decisive(Text, Absent { example: "\"id\"" }) => fields.id;
        /// The field with what is right: a text, a list of texts (all of them for label_set, else any), or for
        /// json_fields an object; a point leads into objects. Without it: answers, answer, ground_truth,
        /// correct_choice, answerKey or label.
        answer_field: Option<String> = decisive(Text, Absent { example: "\"answer\"" }) => fields.answer;
        /// The field with a category for reports. Without it: task_type.
        type_field: Option<String> = decisive(Text, Absent { example: "\"category\"" }) => fields.task_type;
        /// The field with the choices: a list, or texts by label; or several fields with one choice each, between
        /// commas. Without it: choices or options.
        choices_field: Option<String> = decisive(Text, Absent { example: "\"choices\"" }) => fields.choices;
        /// The field with an image file, or a list of them, that the agent sees after the text.
        image_field: Option<String> = decisive(Text, Absent { example: "\"image\"" }) => fields.images;
        /// The directory that image files are relative to. Without it that of the data.
        image_dir: Option<ConfigPath> = decisive(DIRECTORY, Absent { example: "\"images\"" });
        /// A directory of documents. With it the agent may list, read and search the files of its item before it
        /// answers.
        files_dir: Option<ConfigPath> = decisive(DIRECTORY, Absent { example: "\"reports\"" });
        /// The field with the names of an item's files, relative to files_dir. Without it every item has all files.
        files_field: Option<String> = decisive(Text, Absent { example: "\"source_files\"" });
        /// The field that names the pages which answer an item; their text becomes the field context. A form feed
        /// ends a page.
        pages_field: Option<String> = decisive(Text, Absent { example: "\"source_docs\"" });
        /// The tools over files that are offered; without it all three.
        #[serde(default)]
        file_tools: Vec<String> = decisive(Texts, Absent { example: "[\"list\", \"read\", \"grep\"]" });
        /// calls: as tool calls. text: as JSON between <tool> and </tool>, for models without tools.
        file_calls: ToolFormat = decisive(choice::<ToolFormat>(), Value("\"calls\""));
        /// The most replies that may use tools over files; then the agent has to answer.
        max_tool_turns: u32 = decisive(integer(1, 1000), Value("24"));
        /// The field with rules that only this item has.
        rules_field: Option<String> = decisive(Text, Absent { example: "\"rules\"" }) => fields.rules;
        /// Whether the choices are shown in another order, decided by choice_seed and the item's id.
        shuffle_choices: bool = decisive(Flag, Value("false"));
        /// Decides the order of shuffled choices.
        choice_seed: u64 = decisive(integer(0, MAX_SEED), Value("42"));
        /// Which part of a reply is the answer: all of it, the content of the last tag, the last line, the last match
        /// of a pattern, or a member of a JSON object.
        extract: TasksExtract = decisive(choice::<TasksExtract>(), Value("\"whole\""));
        /// The tag of last_tag: <answer>..</answer>.
        extract_tag: String = decisive(Text, Value("\"answer\""));
        /// The pattern of regex; its first group counts, else all of the match.
        extract_pattern: Option<String> = decisive(Text, Absent { example: "'####\\s*(.+)'" });
        /// The member of json; dots lead into objects.
        extract_field: String = decisive(Text, Value("\"answer\""));
        /// Whether case does not count, for exact and json_fields.
        ignore_case: bool = decisive(Flag, Value("false"));
        /// By what an answer may name a choice. skillopt: by its label, else by its text, else by a label that
        /// is the first word.
        choice_by: ChoiceBy = decisive(choice::<ChoiceBy>(), Value("\"either\""));
        /// The greatest difference of numbers that is right, for numeric and json_fields.
        tolerance: f64 = decisive(TOLERANCE, Value("0.0"));
        /// The same as a share of the reference, for numeric: 0.01 is one percent.
        relative_tolerance: f64 = decisive(TOLERANCE, Value("0.0"));
        /// For numeric. optional: units are converted, and one that is left out is the other's. required: the answer
        /// must have the reference's unit. ignored: units are not looked at.
        units: UnitRule = decisive(choice::<UnitRule>(), Value("\"optional\""));
        /// For numeric. unit: 12% and 0.12 are not the same. fraction: they are.
        percent: PercentRule = decisive(choice::<PercentRule>(), Value("\"unit\""));
        /// For anls: the normalized distance from which an answer is worth nothing.
        anls_threshold: f64 = decisive(number(0.0, 1.0), Value("0.5"));
        /// For regex: what must be found in the answer. Without it the references are patterns.
        pattern: Option<String> = decisive(Text, Absent { example: "'^\\d{4}-\\d{2}-\\d{2}$'" });
        /// For json_fields: the fields that are compared. Without it all that the reference has.
        #[serde(default)]
        json_fields: Vec<String> = decisive(Texts, Absent { example: "[\"name\", \"address.city\"]" });
        /// For rules: contains, not_contains, matches, not_matches, section, min_chars, max_chars, min_words,
        /// max_words, tool_called, tool_not_called. hard: all are kept. soft: the share of those that are.
        #[serde(default)]
        rules: Vec<Json> =
            decisive(Rules, Absent { example: "[{ contains = \"refund\" }, { section = \"Summary\" }, { max_words = 150 }]" });
        /// For command: the program and its arguments, started in the directory of this file for each answer. It reads
        /// item and answer as JSON and prints { "hard": 0 to 1, "soft": 0 to 1, "reason": ".." }.
        #[serde(default)]
        command: Vec<String> = decisive(Texts, Absent { example: "[\"python3\", \"score.py\"]" });
        /// For command: seconds after which the program is killed, which stops the run and is not a score.
        command_timeout_s: u64 = process(integer(1, 86_400), Value("60"));
    }
    [alfworld] of ALFWORLD {
        /// The directory of the data set, with train, valid_seen and valid_unseen. Without it games are generated.
        games: Option<ConfigPath> = decisive(DIRECTORY, Absent { example: "\"json_2.1.1\"" });
        /// The games of train: a directory, or a list of them (.txt, .json), instead of the data set's own.
        games_train: Option<ConfigPath> = decisive(FILE_OR_DIRECTORY, Absent { example: "\"train.txt\"" });
        /// The games of val, likewise.
        games_val: Option<ConfigPath> = decisive(FILE_OR_DIRECTORY, Absent { example: "\"val.txt\"" });
        /// The games of test, likewise.
        games_test: Option<ConfigPath> = decisive(FILE_OR_DIRECTORY, Absent { example: "\"test.txt\"" });
        /// The kinds of task that are played. Without it all six.
        #[serde(default)]
        task_types: Vec<String> = decisive(Texts, Absent { example: "[\"pick_and_place_simple\"]" });
    }
    [alfworld webshop search_agent] of BUILT_IN {
        /// The most games or goals of train; of generated games, how many there are (36).
        max_train: Option<usize> = decisive(COUNT, Absent { example: "36" });
        /// The most games or goals of val; generated games: 18.
        max_val: Option<usize> = decisive(COUNT, Absent { example: "18" });
        /// The most games or goals of test; generated games: 36.
        max_test: Option<usize> = decisive(COUNT, Absent { example: "36" });
    }
    [alfworld] of ALFWORLD {
        /// Decides which games are generated.
        game_seed: u64 = decisive(integer(0, MAX_SEED), Value("42"));
        /// How large the rooms of generated games are. small: up to six places to look in, up to five kinds of objects
        /// besides the task's, and no room in two splits; for small models.
        rooms: Rooms = decisive(choice::<Rooms>(), Value("\"full\""));
        /// What becomes of a game that cannot be read or solved. refuse: the run does not start. leave_out: it is
        /// played without that game.
        unplayable: Unplayable = decisive(choice::<Unplayable>(), Value("\"refuse\""));
    }
    [webshop] of WEBSHOP {
        /// The product file. Without it products are made up.
        products: Option<ConfigPath> = decisive(FILE, Absent { example: "\"items_shuffle_1000.json\"" });
        /// The file of attributes, and of instructions made by rule.
        attributes: Option<ConfigPath> = decisive(FILE, Absent { example: "\"items_ins_v2_1000.json\"" });
        /// The file of people's instructions.
        instructions: Option<ConfigPath> = decisive(FILE, Absent { example: "\"items_human_ins.json\"" });
        /// How many products of the file count, from its start; without a file, how many are made up.
        max_products: Option<usize> = decisive(COUNT, Absent { example: "1000" });
        /// Which instructions become goals: those of people, or those made by rule.
        goal_kind: GoalKind = decisive(choice::<GoalKind>(), Value("\"human\""));
        /// A file with the goals themselves, in order; no others are made.
        goals: Option<ConfigPath> = decisive(FILE, Absent { example: "\"goals.json\"" });
        /// A file with the price by which each product is judged; none is drawn then.
        prices: Option<ConfigPath> = decisive(FILE, Absent { example: "\"prices.json\"" });
        /// A file with the nouns of product names; other names are taken apart by rule.
        nouns: Option<ConfigPath> = decisive(FILE, Absent { example: "\"nouns.json\"" });
        /// What becomes of instructions whose product is not in the product file.
        missing_products: MissingProducts = decisive(choice::<MissingProducts>(), Value("\"skip\""));
        /// Decides what the original draws again in each process: prices within a range, bounds on prices.
        shop_seed: u64 = decisive(integer(0, MAX_SEED), Value("0"));
        /// Whether the page of a product leads to a page of its attributes.
        show_attributes: bool = decisive(Flag, Value("false"));
        /// How pages are written: as one line with [SEP], or a piece a line with marks around what can be clicked.
        observation: ObservationForm = decisive(choice::<ObservationForm>(), Value("\"text\""));
        /// How many earlier pages the world itself puts before the newest one; the prompt has a history of its own.
        previous_observations: usize = decisive(integer(0, 1_000), Value("0"));
        /// How many earlier actions are shown between those pages.
        previous_actions: usize = decisive(integer(0, 1_000), Value("0"));
        /// auto: with a product file the paper's ranges (test 0 to 500, val 500 to 1500, train the rest), without one
        /// split_ratio. ratio: split_ratio.
        goal_split: GoalSplit = decisive(choice::<GoalSplit>(), Value("\"auto\""));
    }
    [search_agent] of SEARCH {
        /// The questions: a file, or a directory with train, val and test. Without it they are made up.
        questions: Option<ConfigPath> = decisive(FILE_OR_DIRECTORY, Absent { example: "\"hotpot_dev.json\"" });
        /// Passages to search, a file of JSON Lines or a directory of them and of texts. Without it and without a
        /// retriever the passages that come with the questions.
        corpus: Option<ConfigPath> = decisive(FILE_OR_DIRECTORY, Absent { example: "\"passages\"" });
        /// The address of a server that speaks Search-R1's retriever protocol, instead of a corpus.
        retriever: Option<String> = decisive(Text, Absent { example: "\"http://127.0.0.1:8000/retrieve\"" });
        /// A program that reads a request of that protocol and prints the answer, instead of a corpus.
        #[serde(default)]
        retriever_command: Vec<String> = decisive(Texts, Absent { example: "[\"python3\", \"search.py\"]" });
        /// Seconds that a retriever may take for a query.
        retriever_timeout_s: u64 = process(integer(1, 86_400), Value("60"));
        /// How many passages a search shows.
        passages: usize = decisive(integer(1, 100), Value("3"));
        /// Where indexes of passages are kept. Without it in the user's cache.
        index_dir: Option<ConfigPath> = process(DIRECTORY, Absent { example: "\"index\"" });
    }
    [exec] of EXEC {
        /// The program and its arguments; docs/env-protocol.md says how it speaks.
        program: Vec<String> = decisive(Texts, Required { example: "[\"python3\", \"env.py\"]" });
        /// Where the program runs. Without it the directory of this file.
        program_dir: Option<ConfigPath> = decisive(FILE_OR_DIRECTORY, Absent { example: "\"env\"" });
        /// Environment variables that the program gets, with their values; no place for secrets.
        #[serde(default)]
        set_env: IndexMap<String, String> = decisive(Headers, Absent { example: "{ DATA_DIR = \"games\" }" });
    }
    [exec tasks] of PROGRAMS {
        /// What a good answer is, for a judge: of scorer rubric, and for rollouts of a program that give no `hard`.
        rubric: Option<String> =
            decisive(Text, Absent { example: "\"The summary names the decision, who made it, and what it costs.\"" });
        /// A file that says it, instead of rubric.
        rubric_file: Option<ConfigPath> = decisive(FILE, Absent { example: "\"rubric.md\"" });
        /// The model that grades by the rubric, [models.judge] or one of the other two.
        judge: TasksJudge = decisive(choice::<TasksJudge>(), Value("\"judge\""));
        /// The share of the judge's points from which a task counts as solved.
        pass_score: f64 = decisive(number(0.0, 1.0), Value("0.8"));
        /// Names of variables that the program or the scorer command gets besides the usual ones; keys of models
        /// are not among them unless named.
        #[serde(default)]
        pass_env: Vec<String> = decisive(Texts, Absent { example: "[\"CUDA_VISIBLE_DEVICES\"]" });
    }
    [exec] of EXEC {
        /// Handed to the program as it is.
        #[serde(default)]
        settings: Map<String, Json> = decisive(Body, Absent { example: "{ difficulty = \"hard\" }" });
        /// A directory with train, val and test, or a file that is split. Without it the program lists its items.
        items: Option<ConfigPath> = decisive(FILE_OR_DIRECTORY, Absent { example: "\"items.jsonl\"" });
        /// How many processes of the program run side by side at most.
        processes: u32 = process(integer(1, 10_000), Value("4"));
        /// Whether every rollout or episode has a process of its own.
        process_per_rollout: bool = decisive(Flag, Value("false"));
        /// How a program that runs its own agent gets the skill: as text in the request, as SKILL.md in a directory
        /// made for the rollout, after the system prompt of every call to the endpoint (system_prompt), or there in
        /// the place of the initial skill, which the agent's own prompt holds (replace).
        skill_delivery: SkillDelivery = decisive(choice::<SkillDelivery>(), Value("\"inline\""));
        /// Whether its agent is served the target as an OpenAI- and Anthropic-compatible model on loopback.
        endpoint: bool = decisive(Flag, Value("false"));
        /// What a rollout is whose agent raised an error, died or took too long, after all tries. stop: the run stops.
        /// fail: it failed, as long as no more than max_errors of a stage's rollouts do.
        on_error: OnError = decisive(choice::<OnError>(), Value("\"stop\""));
        /// For on_error = "fail": the share of a stage's rollouts that may break.
        max_errors: f64 = process(number(0.0, 1.0), Value("0.5"));
        /// Seconds until the program has said what it is.
        start_timeout_s: u64 = process(integer(1, 604_800), Value("60"));
        /// Seconds that it may take to begin an episode.
        reset_timeout_s: u64 = process(integer(1, 604_800), Value("120"));
        /// Seconds that it may take for a step.
        step_timeout_s: u64 = process(integer(1, 604_800), Value("60"));
        /// Seconds that it may take for a whole rollout.
        rollout_timeout_s: u64 = process(integer(1, 604_800), Value("1800"));
    }
    [spreadsheet tasks] of SANDBOXED {
        /// Where programs run. auto: in bwrap, and nowhere without it. container: in a container of sandbox_image.
        /// off: as this user, without protection. Without it auto for programs of the agent, and off for the command
        /// of a scorer, which is yours.
        sandbox: Option<SandboxKind> = decisive(choice::<SandboxKind>(), Absent { example: "\"auto\"" });
    }
    [spreadsheet] of SPREADSHEET {
        /// How the agent works. single: one program. multi: it sees the error, or the workbook that came out, and
        /// corrects its program. tools: it writes, reads and runs files.
        mode: SpreadsheetMode = decisive(choice::<SpreadsheetMode>(), Value("\"multi\""));
        /// The most replies of a task, for multi and tools.
        max_rounds: u32 = decisive(integer(1, 1000), Value("30"));
        /// For multi: how often the agent sees a workbook that came out and may correct its program. 0: the first
        /// program that runs counts, as in SkillOpt.
        review_rounds: u32 = decisive(integer(0, 1000), Value("1"));
        /// For multi: in training tasks, how often the agent is told which cells are wrong, without the right values.
        feedback_rounds: u32 = decisive(integer(0, 1000), Value("0"));
        /// The rule by which cells are compared. official: the benchmark's own, with its quirks. strict: what a
        /// reader of both sheets would say.
        compare: Compare = decisive(choice::<Compare>(), Value("\"official\""));
        /// auto: formulas in the answer are calculated by LibreOffice. never: stored values count, and a formula
        /// without one is empty.
        recalculate: Recalculate = decisive(choice::<Recalculate>(), Value("\"auto\""));
        /// The Python of the agent's programs, which has openpyxl. Without it python3, else /usr/bin/python3.
        python: Option<String> = decisive(Text, Absent { example: "\"/opt/venv/bin/python3\"" });
        /// For container: the engine's program.
        sandbox_engine: String = process(Text, Value("\"docker\""));
        /// For container: the image, with sh, tar, Python and openpyxl.
        sandbox_image: Option<String> = decisive(Text, Absent { example: "\"my-python-openpyxl:1\"" });
        /// For container: the engine's runtime.
        sandbox_runtime: Option<String> = process(Text, Absent { example: "\"runsc\"" });
        /// For container: further flags of the engine's command run.
        #[serde(default)]
        sandbox_flags: Vec<String> = process(Texts, Absent { example: "[\"--cpus\", \"1\"]" });
        /// Seconds that a program may take.
        program_timeout_s: u64 = decisive(integer(1, 86_400), Value("120"));
        /// Megabytes of memory that a program may take.
        program_memory_mb: u64 = decisive(integer(64, 1_000_000), Value("2048"));
        /// How many programs run at a time. Without it one for each core.
        programs: Option<usize> = process(COUNT, Absent { example: "4" });
    }
    [evals] of EVALS {
        /// A file of cases (evals.json or JSON Lines), or a folder with a folder for each case.
        cases: ConfigPath = decisive(FILE_OR_DIRECTORY, Required { example: "\"my-skill/evals/evals.json\"" });
        /// Ids of cases that are left out.
        #[serde(default)]
        exclude: Vec<String> = decisive(Texts, Absent { example: "[\"7\"]" });
        /// Whether every case is in the validation split, to be measured; else 6 of 10 are for training.
        measure_only: bool = decisive(Flag, Value("false"));
        /// The model that grades expectations, [models.judge] or one of the other two. Without it no case may have any.
        grader: Option<TasksJudge> = decisive(choice::<TasksJudge>(), Absent { example: "\"judge\"" });
    }
    [alfworld webshop] of GAMES {
        /// Servers that play the world over HTTP, one episode at a time each, instead of playing it here. With
        /// server_tasks alone it is http://localhost:3000 for alfworld and http://localhost:3001 for webshop.
        #[serde(default)]
        servers: Vec<String> = decisive(Texts, Absent { example: "[\"http://localhost:3000\"]" });
        /// A directory with the ids of the servers' tasks as lists train, val and test (.txt, .json, .jsonl, .csv).
        /// Without it the server chooses each task, and max_train, max_val and max_test say how many.
        server_tasks: Option<ConfigPath> = decisive(DIRECTORY, Absent { example: "\"tasks\"" });
        /// Seconds that a server may take for one step.
        server_timeout_s: u64 = process(integer(1, 86_400), Value("60"));
    }
    [alfworld webshop search_agent exec] of WORLDS {
        /// How the agent writes its actions: between <action> and </action>, or as calls of a tool.
        action_format: ActionFormat = decisive(choice::<ActionFormat>(), Value("\"tags\"")) => action_format;
        /// Whether the agent is asked to think before it acts, between <think> and </think>.
        think: bool = decisive(Flag, Value("true")) => think;
        /// Whether the prompt lists the actions that are possible now.
        show_admissible: bool = decisive(Flag, Value("true")) => show_admissible;
        /// How many earlier turns the prompt holds.
        history_turns: u32 = decisive(integer(0, 100_000), Value("10")) => history_turns;
        /// The most tokens of a prompt, about. A longer one loses its oldest turns first; the skill, the task and the
        /// turn under way stay. Without it there is no limit.
        max_prompt_tokens: Option<u64> =
            decisive(integer(1, MAX_TOKENS), Absent { example: "16000" }) => max_prompt_tokens;
        /// The most turns of an episode.
        max_turns: u32 = decisive(TURNS, Value("50")) => max_turns;
        /// The most tokens of all calls of an episode.
        max_episode_tokens: Option<u64> =
            decisive(integer(1, 1_000_000_000), Absent { example: "100000" }) => max_episode_tokens;
        /// How many replies in a row may hold no action that the world understands before the episode is ended.
        max_invalid_actions: u32 = decisive(TURNS, Value("10")) => max_invalid_actions;
        /// What each such reply takes from the soft score.
        invalid_action_penalty: f64 = decisive(number(0.0, 1.0), Value("0.0")) => invalid_action_penalty;
        /// How often the agent may repeat the same cycle of up to three actions before the episode is ended.
        max_repetitions: u32 = decisive(integer(2, 100_000), Value("5")) => max_repetitions;
    }
}
