//! The table of agents: one file for each, read once.
//!
//! Main type: [`Agent`].

use crate::rule::Rule;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::LazyLock;

/// The files of the table, in the order in which agents are listed.
const FILES: [&str; 7] = [
    include_str!("agents/claude-code.toml"),
    include_str!("agents/codex.toml"),
    include_str!("agents/gemini-cli.toml"),
    include_str!("agents/opencode.toml"),
    include_str!("agents/copilot-cli.toml"),
    include_str!("agents/pi.toml"),
    include_str!("agents/qwen-code.toml"),
];

static TABLE: LazyLock<Result<Vec<Agent>, TableError>> = LazyLock::new(|| {
    FILES.iter().map(|text| toml::from_str(text).map_err(|error| TableError(error.to_string()))).collect()
});

/// A row of the table that cannot be read; a defect of this program.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the table of agents is damaged: {0}")]
pub struct TableError(String);

/// All agents.
///
/// # Errors
///
/// A damaged table, which is a defect of this program.
pub fn agents() -> Result<&'static [Agent], TableError> {
    TABLE.as_deref().map_err(Clone::clone)
}

/// The agent of a name or of one of its aliases; `None` where the table has none.
///
/// # Errors
///
/// As [`agents`].
pub fn agent(name: &str) -> Result<Option<&'static Agent>, TableError> {
    let is_named = |agent: &&Agent| agent.name == name || agent.aliases.iter().any(|alias| alias == name);
    Ok(agents()?.iter().find(is_named))
}

/// A coding agent.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Agent {
    /// The name by which people choose it.
    pub name: String,
    /// Other names.
    #[serde(default)]
    pub aliases: Vec<String>,
    /// Its name in sentences.
    pub title: String,
    /// The program.
    pub program: String,
    /// The npm package that has it.
    pub package: String,
    /// The versions with which this row was measured.
    pub versions: Vec<String>,
    /// Arguments with which the program prints its version.
    pub version_arguments: Vec<String>,
    /// Where a project's skills lie.
    pub project_skills: String,
    /// Further folders with skills that it reads below a project.
    #[serde(default)]
    pub also_read: Vec<String>,
    /// Where the user's skills lie, below the home directory.
    pub user_skills: Vec<String>,
    /// By what skills are listed.
    pub named_by: NamedBy,
    /// A skill whose front matter says `disable-model-invocation` is not listed.
    #[serde(default)]
    pub honours_disable: bool,
    /// A skill whose `agents/openai.yaml` forbids implicit invocation is not listed.
    #[serde(default)]
    pub honours_openai_file: bool,
    /// `when_to_use` of the front matter is shown behind the description.
    #[serde(default)]
    pub reads_when_to_use: bool,
    /// Which of two skills of one name is listed, if the user has one and the project the other.
    pub same_name: SameName,
    /// What a person types before the name of a skill.
    pub person_prefix: String,
    /// The hosts that it talks to, besides those of other providers.
    pub hosts: Vec<String>,
    /// Where session files lie, below the home directory; `*` is any name, `**` any folders.
    pub session_files: Vec<String>,
    /// Where the listing of skills can be read.
    pub listing_in: ListingIn,
    /// Skills of the agent's own.
    pub bundled: Vec<String>,
    /// Parts of the paths of the agent's own skills.
    #[serde(default)]
    pub bundled_paths: Vec<String>,
    /// What its stream does not show, by the name of a field of the output or of a kind of event.
    pub not_visible: Vec<String>,
    /// How much of the skills the model is shown; `None` where no limit was seen.
    pub budget: Option<Budget>,
    /// The context window of the model that it uses by itself, in tokens; without it [`MEASURED_WINDOW`].
    pub usual_window: Option<u64>,
    /// Context windows by parts of the names of models; the first part that a name has counts.
    #[serde(default)]
    pub windows: Vec<(String, u64)>,
    /// How it is started.
    pub start: Start,
    /// How it plays a model.
    pub play: Play,
    /// What its exit codes say by themselves.
    #[serde(default)]
    pub exits: BTreeMap<String, Exit>,
    /// Programs that it cannot do without.
    #[serde(default)]
    pub needs: Vec<String>,
    /// A finished run without any reply is a refusal.
    #[serde(default)]
    pub empty_reply_fails: bool,

    pub(crate) file_time: Option<String>,
    /// Records of session files are the same where this is.
    pub(crate) file_id: Option<String>,
    /// A later record of the same id takes the place of an earlier one.
    #[serde(default)]
    pub(crate) file_id_replaces: bool,
    /// Present in records of sub-agents.
    pub(crate) file_sub: Option<String>,
    /// The id of the session in its first record.
    pub(crate) file_session: Option<String>,
    /// The session that a sub-agent's file belongs to.
    pub(crate) file_parent: Option<String>,
    /// A sub-agent's file lies in a folder with the id of its session.
    #[serde(default)]
    pub(crate) file_parent_is_folder: bool,
    /// In the first record, the number from which a file's own part begins, and in every record its number.
    pub(crate) file_begins: Option<[String; 2]>,
    /// A file with such a record is that of a sub-agent.
    #[serde(default)]
    pub(crate) file_is_sub: BTreeMap<String, String>,
    /// Calls have other ids in the stream than in files.
    #[serde(default)]
    pub(crate) ids_differ: bool,
    pub(crate) tools: Tools,
    #[serde(rename = "rule")]
    pub(crate) rules: Vec<Rule>,
}

/// Tools by which a skill can be read.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Tools {
    /// The agent's own tools for skills, each with the argument that has the name.
    pub(crate) skill: BTreeMap<String, String>,
    /// Tools that read a file, each with the argument that has the path.
    pub(crate) read: BTreeMap<String, String>,
    /// Tools that run a command, each with the argument that has it.
    pub(crate) shell: BTreeMap<String, String>,
    /// Tools that run a program that the model writes.
    pub(crate) program: Vec<String>,
}

/// By what an agent lists skills.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NamedBy {
    /// The name of the folder.
    Folder,
    /// `name` in the front matter.
    FrontMatter,
}

/// Which of two skills of one name is listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SameName {
    /// The user's.
    User,
    /// The project's.
    Project,
    /// Both.
    Both,
    /// It changes from run to run.
    Either,
}

/// Where the listing of skills that the model was shown can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ListingIn {
    /// In the stream, and in session files.
    Stream,
    /// In session files only.
    Files,
    /// In neither.
    Nowhere,
}

/// The context window with which budgets were measured, in tokens.
pub const MEASURED_WINDOW: u64 = 200_000;

/// How much of the skills the model is shown, at a context window of [`MEASURED_WINDOW`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Budget {
    /// Characters of all descriptions together.
    pub total_chars: usize,
    /// Whether they are a share of the context window, so that a larger one has more.
    #[serde(default)]
    pub is_share_of_window: bool,
    /// Characters of one description.
    pub description_chars: usize,
    /// Characters of an entry besides its name and description.
    #[serde(default)]
    pub entry_chars: usize,
    /// Characters that the agent's own skills take of it.
    #[serde(default)]
    pub own_chars: usize,
    /// What becomes of descriptions beyond the total.
    pub over: OverBudget,
    /// What becomes of a skill with a longer description; `None` where it is cut.
    pub too_long: Option<OverBudget>,
}

/// What becomes of a description that does not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OverBudget {
    /// The skill is listed by its name only.
    NameOnly,
    /// It is cut.
    Cut,
    /// The skill is not listed.
    NotListed,
}

/// How an agent is started without a terminal.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Start {
    /// Arguments of a run with the project's skills; `{turns}` is the turn limit, `{skills}` the folder of skills.
    pub arguments: Vec<String>,
    /// Arguments that choose a model, `{model}`.
    pub model: Vec<String>,
    /// The last argument, for a program that reads the prompt from standard input only with it.
    pub prompt_argument: Option<String>,
    /// Arguments of a run without tools and skills.
    pub plain_arguments: Vec<String>,
    /// The home directory that keeps the user's skills out.
    pub home: Home,
    /// Variables by which a user moves folders below the home directory, with these folders; the empty one is the home
    /// directory itself.
    #[serde(default)]
    pub moved_by: BTreeMap<String, String>,
    /// Variables that the agent does not get, since they would change what is measured.
    #[serde(default)]
    pub hidden_env: Vec<String>,
    /// Beginnings of the names of variables with the sign-in, which the agent gets from its caller.
    #[serde(default)]
    pub pass_env: Vec<String>,
    /// Files that hold the sign-in and nothing else, which a fresh home directory gets, below it.
    #[serde(default)]
    pub sign_in: Vec<String>,
    /// Settings files of which only the sign-in and the model's provider are taken over.
    #[serde(default)]
    pub settings_of_user: Vec<SettingsFile>,
    /// Arguments that name a file with tool servers, `{servers}`, for a run in the user's own home.
    #[serde(default)]
    pub server_arguments: Vec<String>,
    /// Files and folders of a project that configure the agent, and could have it start programs.
    pub project_settings: Vec<String>,
    /// Variables of every run.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// A settings file of the project.
    pub settings_file: Option<String>,
    /// What it says.
    pub settings: Option<serde_json::Value>,
    /// What it says in a run without tools and skills.
    pub plain_settings: Option<serde_json::Value>,
    /// Variables of a run without tools and skills, besides those of every run.
    #[serde(default)]
    pub plain_env: BTreeMap<String, String>,
}

/// A settings file of the user, which may hold anything.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SettingsFile {
    /// Where it lies, below the home directory.
    pub file: String,
    /// A variable by which the user names another file, whose settings lie over those of this one.
    pub variable: Option<String>,
    /// The keys that are taken over, with dots between those of nested objects.
    pub keep: Vec<String>,
    /// The key of the tool servers (MCP), which are taken over on request only.
    pub servers: Option<String>,
}

/// Which home directory a run has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Home {
    /// The user's: arguments keep the user's skills out.
    Own,
    /// A fresh one, with the sign-in copied into it.
    Fresh,
}

/// How an agent plays a model: it works on a prompt, and its last text is the reply.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Play {
    /// Arguments of each call; `{skills}` is the folder of skills.
    pub arguments: Vec<String>,
    /// Arguments that say how much the model thinks, `{effort}`; none where it cannot be told.
    #[serde(default)]
    pub effort: Vec<String>,
    /// Arguments that name a file with the schema of the reply, `{schema}`; none where it takes no schema.
    #[serde(default)]
    pub schema: Vec<String>,
    /// It may read in its working directory.
    pub read_only: Rights,
    /// It may also write there and, where the program can tell one from the other, run programs.
    pub workspace: Rights,
    /// It may do anything.
    pub off: Rights,
}

/// How a program is told what it may do.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Rights {
    /// Arguments.
    pub arguments: Vec<String>,
    /// The settings file of the project.
    pub settings: Option<serde_json::Value>,
    /// Variables.
    pub env: BTreeMap<String, String>,
}

/// What an exit code says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Exit {
    /// The account is not signed in.
    SignIn,
    /// The prompt is not accepted.
    Input,
    /// A setting is wrong.
    Configuration,
    /// The run has used up its turns.
    Turns,
}

/// Variables that move folders below the home directory, for all programs that follow them.
const MOVED_BY: [(&str, &str); 4] = [
    ("XDG_CACHE_HOME", ".cache"),
    ("XDG_CONFIG_HOME", ".config"),
    ("XDG_DATA_HOME", ".local/share"),
    ("XDG_STATE_HOME", ".local/state"),
];

impl Budget {
    /// Characters of all descriptions together, at a context window of so many tokens.
    pub fn chars_at(&self, window: u64) -> usize {
        if !self.is_share_of_window {
            return self.total_chars;
        }
        let total = self.total_chars as u64;
        usize::try_from(total.saturating_mul(window) / MEASURED_WINDOW).unwrap_or(usize::MAX)
    }
}

impl Agent {
    /// The context window of a model, in tokens: without one that of the agent's usual model; `None` for a model that the
    /// table does not know.
    pub fn window(&self, model: Option<&str>) -> Option<u64> {
        let Some(model) = model else { return Some(self.usual_window.unwrap_or(MEASURED_WINDOW)) };
        let model = model.to_lowercase();
        self.windows.iter().find(|(part, _)| model.contains(part.as_str())).map(|(_, window)| *window)
    }

    /// Whether its records say what a run has cost.
    pub fn reports_cost(&self) -> bool {
        self.rules.iter().any(|rule| rule.cost.is_some())
    }

    /// Whether it finds skills in this folder, which ends with the place in a project; places of other agents are foreign.
    pub fn reads_skills_in(&self, folder: &Path, others: &[&Self]) -> bool {
        let reads = |agent: &Self| {
            let places = [&agent.project_skills].into_iter().chain(&agent.also_read);
            places.into_iter().any(|place| folder.ends_with(place))
        };
        reads(self) || !others.iter().any(|other| reads(other))
    }

    /// The variables that move folders of this agent, each with the folder below the home directory.
    pub(crate) fn moved_by(&self) -> impl Iterator<Item = (&str, &str)> {
        let own = self.start.moved_by.iter().map(|(name, folder)| (name.as_str(), folder.as_str()));
        MOVED_BY.into_iter().chain(own)
    }

    /// True if the table was measured with a version, given as the program prints it.
    pub fn is_tried(&self, printed: &str) -> bool {
        self.versions.iter().any(|version| {
            printed
                .split(|sign: char| !(sign.is_ascii_alphanumeric() || sign == '.' || sign == '-'))
                .any(|word| word.trim_start_matches('v').trim_end_matches('.') == version)
        })
    }
}
