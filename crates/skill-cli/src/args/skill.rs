//! Arguments of the commands about skills in coding agents.

use super::data::{Price, dollars};
use super::eval::MeasurementArgs;
use crate::coding_agent::folder_of_skill;
use clap::builder::{PathBufValueParser, TypedValueParser};
use clap::{Args, Subcommand, ValueEnum};
use std::ffi::OsString;
use std::path::PathBuf;

/// A folder, or the `SKILL.md` in it.
fn skill_folder() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().map(folder_of_skill)
}

#[derive(Debug, Subcommand)]
pub(crate) enum SkillCommand {
    /// Show what each coding agent sees of a skill: name, description, budget, lint findings.
    Check(SkillCheckArgs),
    /// Measure how often an agent loads a skill when it should, and when it should not.
    Triggers(Box<TriggersArgs>),
    /// Train the description of a skill for an agent; the same as `skillrl train DIR --agent NAME`.
    Train(Box<TrainSkillArgs>),
    /// Measure if an agent works better with a skill: `skillrl eval DIR --agent NAME`.
    Eval(Box<EvalSkillArgs>),
    /// List the cases of a skill, or write them in another form.
    Cases(CasesArgs),
    /// Write skills as a plugin for agents; the same as `skillrl export DIR --plugin`.
    Plugin(PluginArgs),
    /// Show which skills a recorded run of a coding agent was offered and loaded.
    Loads(LoadsArgs),
}

impl SkillCommand {
    /// Whether agents are started.
    pub(crate) const fn calls_models(&self) -> bool {
        match self {
            Self::Triggers(_) | Self::Train(_) | Self::Eval(_) => true,
            Self::Check(_) | Self::Cases(_) | Self::Loads(_) | Self::Plugin(_) => false,
        }
    }
}

/// `train DIR --agent NAME` is `skill train DIR --agent NAME`, so is `eval`, and `export DIR --plugin` is `skill plugin DIR`.
pub(crate) fn arranged(mut arguments: Vec<OsString>) -> Vec<OsString> {
    let is_word = |word: &OsString| !word.to_str().is_some_and(|word| word.starts_with('-'));
    // Options of all commands may come before the command.
    let Some((at, command)) = arguments.iter().enumerate().skip(1).find(|(_, word)| is_word(word)) else {
        return arguments;
    };
    let (has_both, is_export) = (command == "train" || command == "eval", command == "export");
    let has_agent = arguments
        .iter()
        .any(|word| word.to_str().is_some_and(|word| word == "--agent" || word.starts_with("--agent=")));
    if has_both && has_agent {
        arguments.insert(at, "skill".into());
    }
    let plugin = arguments.iter().position(|word| word == "--plugin").filter(|_| is_export);
    if let Some(plugin) = plugin {
        arguments.remove(plugin);
        let at = if plugin < at { at - 1 } else { at };
        arguments.splice(at..=at, ["skill".into(), "plugin".into()]);
    }
    arguments
}

#[derive(Debug, Args)]
pub(crate) struct SkillCheckArgs {
    /// A folder with a SKILL.md, a folder of such folders, a project, or a plugin.
    #[arg(value_name = "DIR", value_parser = skill_folder())]
    pub(crate) dir: PathBuf,

    /// Only this agent; without it, all that are known.
    #[arg(long, value_name = "NAME")]
    pub(crate) agent: Option<String>,

    /// Model of the agent, whose context window limits the listing; default: its usual one.
    #[arg(long, value_name = "MODEL")]
    pub(crate) model: Option<String>,

    /// The context window in tokens, for a model that is not known.
    #[arg(long, value_name = "TOKENS", value_parser = clap::value_parser!(u64).range(1_000..=100_000_000))]
    pub(crate) context: Option<u64>,

    /// Write one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

/// What all commands that start agents have.
#[derive(Debug, Args)]
pub(crate) struct AgentArgs {
    /// The model, as the agent names it.
    #[arg(long, value_name = "MODEL")]
    pub(crate) model: Option<String>,

    /// The agent's program, if it is not on the PATH.
    #[arg(long, value_name = "PATH")]
    pub(crate) program: Option<String>,

    /// The price of a million tokens of prompts and of replies in US dollars, such as `0.25,2`.
    #[arg(long, value_name = "IN,OUT")]
    pub(crate) price: Option<Price>,

    /// Runs at the same time.
    #[arg(long, value_name = "N", default_value_t = 2)]
    pub(crate) concurrency: usize,

    /// A variable that the agent gets besides those of its own sign-in; may be given more than once.
    #[arg(long, value_name = "NAME")]
    pub(crate) pass_env: Vec<String>,

    /// Write one JSON object.
    #[arg(long)]
    pub(crate) json: bool,

    /// Print only errors, warnings and the result.
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

#[derive(Debug, Args)]
pub(crate) struct MeasureArgs {
    /// A folder with a SKILL.md, or a folder of such folders.
    #[arg(value_name = "DIR", value_parser = skill_folder())]
    pub(crate) skills: PathBuf,

    /// The agent, such as claude-code or codex; an unknown name lists all.
    #[arg(long, value_name = "NAME")]
    pub(crate) agent: String,

    /// Queries with expected loading: JSON Lines with `query` and `should`.
    ///
    /// Or a file of skill-creator, Skill Lab or waza, or evals.json. Without it NAME-queries.jsonl.
    #[arg(long, value_name = "FILE")]
    pub(crate) queries: Option<PathBuf>,

    /// How often each query is asked.
    #[arg(long, value_name = "K", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=100))]
    pub(crate) runs: u16,

    /// The directory that keeps all runs: the same command goes on there. Without it NAME-triggers-AGENT.
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,

    /// The most starts of the agent, over all processes that use the directory.
    #[arg(long, value_name = "N")]
    pub(crate) calls: Option<u64>,

    /// Maximum cost in US dollars, by --price, else by what the agent reports.
    #[arg(long, value_name = "USD", value_parser = dollars)]
    pub(crate) budget: Option<f64>,

    /// Model that drafts: as the agent names it, or the optimizer of a skillrl.toml.
    ///
    /// Without it the agent's program with the model that is measured, without tools and skills.
    #[arg(long, value_name = "MODEL")]
    pub(crate) optimizer: Option<String>,

    /// Start nothing: compute the result from the runs in the directory.
    #[arg(long, conflicts_with = "wait")]
    pub(crate) replay: bool,

    /// Wait until a limit of the agent's account is over, in place of ending the command.
    #[arg(long)]
    pub(crate) wait: bool,

    /// Folder of other installed skills (distractors); may be given more than once.
    #[arg(long, value_name = "DIR")]
    pub(crate) beside: Vec<PathBuf>,

    /// A folder whose files each run finds in its project.
    #[arg(long, value_name = "DIR")]
    pub(crate) project: Option<PathBuf>,

    /// Give runs the tool servers (MCP) of your settings; without it they have none.
    ///
    /// They are named before the start: a query can do with them whatever the agent can.
    #[arg(long)]
    pub(crate) with_mcp: bool,

    /// The most replies of a run; reaching the limit is not a failure.
    #[arg(long, value_name = "N", default_value_t = 6)]
    pub(crate) turns: usize,

    /// Seconds that a run may take. Without it 180, and 600 for a run on a case.
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(crate) timeout: Option<u64>,

    #[command(flatten)]
    pub(crate) common: AgentArgs,
}

#[derive(Debug, Args)]
pub(crate) struct TriggersArgs {
    #[command(flatten)]
    pub(crate) measure: MeasureArgs,

    /// Have the agent draft so many queries for review, and measure nothing.
    ///
    /// Should, should not and near misses, in the file of --queries.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(3..=100))]
    pub(crate) draft: Option<u16>,

    /// Make one run, and estimate the others from it.
    #[arg(long, conflicts_with = "replay")]
    pub(crate) estimate: bool,

    /// Start without asking.
    #[arg(short, long)]
    pub(crate) yes: bool,

    /// Compare recall with an earlier measurement, query by query: the directory of its runs.
    #[arg(long, value_name = "DIR")]
    pub(crate) against: Option<PathBuf>,

    /// Fail with exit code 11 if the recall of a skill has dropped by more than chance would give.
    #[arg(long, requires = "against")]
    pub(crate) fail_on_drop: bool,

    /// Fail with exit code 11 if the recall of a skill is below PERCENT.
    #[arg(long, value_name = "PERCENT", value_parser = super::eval::in_percent)]
    pub(crate) min_recall: Option<f64>,
}

#[derive(Debug, Args)]
pub(crate) struct EvalSkillArgs {
    /// A folder with a SKILL.md.
    #[arg(value_name = "SKILL", value_parser = skill_folder())]
    pub(crate) skill: PathBuf,

    /// The agents, such as claude-code or codex; an unknown name lists all.
    #[arg(long = "agent", value_name = "NAME,..", value_delimiter = ',', required = true)]
    pub(crate) agents: Vec<String>,

    /// Cases: evals.json, JSON Lines, or case folders; without it those in SKILL/evals.
    #[arg(long, value_name = "PATH")]
    pub(crate) cases: Option<PathBuf>,

    /// Have the agent draft so many cases for review, and measure nothing.
    ///
    /// They go with their input files to SKILL/evals/evals.json, or to the file of --cases.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=50))]
    pub(crate) draft: Option<u16>,

    /// How often each case is run in each arm.
    #[arg(long, value_name = "K", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=100))]
    pub(crate) runs: u16,

    /// The previous version: a folder, or a revision of git.
    ///
    /// Without it the last version in git that differs.
    #[arg(long, value_name = "DIR|REV")]
    pub(crate) previous: Option<String>,

    /// Model that grades expectations; without it the agent's own program.
    ///
    /// Such as `anthropic/claude-haiku-4-5`.
    #[arg(long, value_name = "MODEL")]
    pub(crate) judge: Option<String>,

    #[command(flatten)]
    pub(crate) measurement: MeasurementArgs,

    /// The most calls over all agents: starts of agents, and calls of the grader.
    #[arg(long, value_name = "N")]
    pub(crate) calls: Option<u64>,

    /// The most US dollars over all agents, by --price, else by the list price of --model.
    #[arg(long, value_name = "USD", value_parser = dollars)]
    pub(crate) budget: Option<f64>,

    /// Seconds that a run may take; one that takes longer fails its checks.
    #[arg(long, value_name = "SECONDS", default_value_t = 600, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(crate) timeout: u64,

    /// Wait until a limit of the agent's account is over, in place of ending the command.
    #[arg(long)]
    pub(crate) wait: bool,

    /// Print how many starts it takes at most and what they cost as far as it is known, and start nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Start without asking.
    #[arg(long)]
    pub(crate) yes: bool,

    #[command(flatten)]
    pub(crate) common: AgentArgs,
}

#[derive(Debug, Args)]
pub(crate) struct CasesArgs {
    /// A folder with a SKILL.md.
    #[arg(value_name = "SKILL", value_parser = skill_folder())]
    pub(crate) skill: PathBuf,

    /// The cases; without it those in SKILL/evals.
    #[arg(long, value_name = "PATH")]
    pub(crate) cases: Option<PathBuf>,

    /// Write the cases: to FILE.json, FILE.jsonl, or a new folder for `claude plugin eval`.
    ///
    /// The files of their projects are written beside them.
    #[arg(long, value_name = "PATH")]
    pub(crate) out: Option<PathBuf>,

    /// Write one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct PluginArgs {
    /// A folder with a SKILL.md, or a folder of such folders.
    #[arg(value_name = "DIR", value_parser = skill_folder())]
    pub(crate) skills: PathBuf,

    /// The folder of the plugin.
    #[arg(long = "out", visible_alias = "to", value_name = "DIR")]
    pub(crate) to: PathBuf,

    /// The plugin's name; without it that of its folder.
    #[arg(long)]
    pub(crate) name: Option<String>,

    /// The plugin's version.
    #[arg(long = "plugin-version", value_name = "VERSION", default_value = "0.1.0")]
    pub(crate) version_of_plugin: String,

    /// What its skills are for.
    #[arg(long, value_name = "TEXT")]
    pub(crate) description: Option<String>,

    /// Write into a folder that is not empty.
    #[arg(long)]
    pub(crate) force: bool,
}

/// What is trained of a skill.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Only {
    /// `description` in the front matter, by queries.
    Description,
    /// The text below the front matter and in references/, by cases.
    Body,
}

#[derive(Debug, Args)]
pub(crate) struct TrainSkillArgs {
    #[command(flatten)]
    pub(crate) measure: MeasureArgs,

    /// What is trained.
    #[arg(long, value_enum, default_value_t = Only::Description)]
    pub(crate) only: Only,

    /// With `--only body`: the cases, as for `skillrl eval SKILL --agent`. Without it those in DIR/evals.
    #[arg(long, value_name = "PATH")]
    pub(crate) cases: Option<PathBuf>,

    /// With `--only body`: the model that grades expectations; without it the agent's own program.
    #[arg(long, value_name = "MODEL")]
    pub(crate) judge: Option<String>,

    /// The skill whose description is trained, where the folder has several; may be given more than once.
    ///
    /// Without it all, one after the other.
    #[arg(long = "skill", value_name = "NAME")]
    pub(crate) trained: Vec<String>,

    /// The most proposals for each skill.
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub(crate) steps: usize,

    /// The seed by which queries are split into halves.
    #[arg(long, value_name = "SEED", default_value_t = 42)]
    pub(crate) seed: u64,

    /// Print how many starts it takes at most, and start nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Start without asking.
    #[arg(long)]
    pub(crate) yes: bool,
}

#[derive(Debug, Args)]
pub(crate) struct LoadsArgs {
    /// What the agent printed: one file for each run of a session, in order.
    ///
    /// Without any, the sessions in --home.
    #[arg(value_name = "RUN")]
    pub(crate) runs: Vec<PathBuf>,

    /// The agent, such as claude-code or codex; an unknown name lists all.
    #[arg(long, value_name = "NAME")]
    pub(crate) agent: String,

    /// Home directory of the run, for its session files; it is only read.
    ///
    /// They show what streams hide: sub-agents, skills called by people, the listing.
    #[arg(long, value_name = "DIR", required_unless_present = "runs")]
    pub(crate) home: Option<PathBuf>,

    /// A skill that gets an outcome whether or not it occurs; may be given more than once.
    #[arg(long = "skill", value_name = "NAME")]
    pub(crate) skills: Vec<String>,

    /// Write one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(given: &str, expected: &str) {
        let words = |line: &str| line.split(' ').map(OsString::from).collect::<Vec<_>>();
        assert_eq!(arranged(words(given)), words(expected));
    }

    #[test]
    fn an_agent_or_a_plugin_names_the_command_about_skills() {
        check("skillrl eval a --agent pi", "skillrl skill eval a --agent pi");
        check("skillrl -v eval a --agent=pi", "skillrl -v skill eval a --agent=pi");
        check("skillrl -v -v train a --agent pi", "skillrl -v -v skill train a --agent pi");
        check("skillrl export a --plugin --out b", "skillrl skill plugin a --out b");
        check("skillrl --plugin -v export a", "skillrl -v skill plugin a");
        check("skillrl -v eval a.toml", "skillrl -v eval a.toml");
        check("skillrl skill eval a --agent pi", "skillrl skill eval a --agent pi");
        check("skillrl --version", "skillrl --version");
    }
}
