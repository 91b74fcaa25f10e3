//! The commands that look at runs, and the one that stops one.

use clap::Args;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Stands for the newest run here, where nobody names a run.
pub(crate) const NEWEST: &str = "newest";
/// The first skill that `skillrl diff` compares, where nobody names one.
pub(crate) const FIRST_VERSION: &str = "0";

#[derive(Debug, Args)]
pub(crate) struct BlameArgs {
    /// The directory of a run, finished or not, or a skill file: one of a run, or any with --run.
    ///
    /// Without it, the newest run.
    #[arg(value_name = "RUN|SKILL", default_value = NEWEST, hide_default_value = true)]
    pub(crate) path: PathBuf,

    /// The run that the skill file comes from.
    #[arg(long, value_name = "DIR")]
    pub(crate) run: Option<PathBuf>,

    /// The skill after this step instead of the best one; 0 is the initial skill.
    #[arg(long, value_name = "N", conflicts_with = "run")]
    pub(crate) step: Option<u32>,

    /// Show the argument of each analyst, and every item that was won or lost.
    #[arg(long)]
    pub(crate) full: bool,

    /// Print one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    /// The directory of a run, finished or in progress; without it, the newest.
    #[arg(value_name = "RUN", default_value = NEWEST, hide_default_value = true)]
    pub(crate) run: PathBuf,

    /// The file to write; without it, report.html in the run's directory.
    #[arg(long = "out", short, alias = "output", value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,

    /// Print what the report says as one JSON object, and write no page.
    #[arg(long, conflicts_with = "output")]
    pub(crate) json: bool,

    /// Write the curves of a run that trains weights into this folder, as an event file of TensorBoard.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["output", "json"])]
    pub(crate) tensorboard: Option<PathBuf>,

    /// Write the items whose label in the data may be wrong to this CSV file, with their texts.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["output", "json", "tensorboard"])]
    pub(crate) doubtful: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    /// The directory of a run, or one that holds runs.
    #[arg(value_name = "DIR", default_value = ".")]
    pub(crate) dir: PathBuf,

    /// Print one JSON object per run.
    #[arg(long)]
    pub(crate) json: bool,

    /// Print a table of the runs as CSV: settings that differ, seed, scores with intervals, cost and time.
    #[arg(long, conflicts_with = "json")]
    pub(crate) csv: bool,
}

#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// The directory of a run, of runs or of a measurement (`eval --out`); without it, the newest.
    #[arg(value_name = "RUN", default_value = NEWEST, hide_default_value = true)]
    pub(crate) run: PathBuf,

    /// Print one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct DiffArgs {
    /// The directory of a run, finished or in progress; without it, the newest.
    #[arg(value_name = "RUN", default_value = NEWEST, hide_default_value = true)]
    pub(crate) run: PathBuf,

    /// Skill to compare from: the step number (0 is the initial skill), `best` or `candidate-N` (of step N).
    ///
    /// In a run that trains a bank: the bank at the beginning (0), after a round (`round-N`) or now
    /// (`best`), or a version of a skill, such as `gen_003@1`.
    #[arg(value_name = "FROM", default_value = FIRST_VERSION)]
    pub(crate) from: String,

    /// Skill to compare with, named in the same way.
    #[arg(value_name = "TO", default_value = "best")]
    pub(crate) to: String,
}

#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// The directory of a run, finished or in progress; without it, the newest.
    ///
    /// Or a skill, a skill bank or a journal, of which is said what it is.
    #[arg(value_name = "RUN|FILE", default_value = NEWEST, hide_default_value = true)]
    pub(crate) run: PathBuf,

    /// Show this step: proposals, edits, changes, decision; of a bank, this round with its trials.
    #[arg(long, value_name = "N")]
    pub(crate) step: Option<u32>,

    /// Show this validation item under every skill measured; of a bank, with its shown skills.
    #[arg(long, value_name = "ID", conflicts_with = "step")]
    pub(crate) item: Option<String>,

    /// Print one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct InspectArgs {
    /// A skill (file or package), a skill bank, the directory of a run, or a journal.
    #[arg(value_name = "SKILL|BANK|RUN|JOURNAL", default_value = super::SKILL_BANK)]
    pub(crate) path: PathBuf,

    /// What other programs take for all commands; nothing here depends on it.
    #[arg(long, hide = true)]
    config: Option<PathBuf>,
    #[arg(long, hide = true)]
    env: Option<String>,
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true)]
    mock: Option<Option<String>>,

    /// Print one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct CompareArgs {
    /// The directories of runs, or of several runs.
    ///
    /// Two runs are compared item by item; more are rows of a table, with means over the seeds of equal
    /// settings.
    #[arg(value_name = "RUN", required = true)]
    pub(crate) runs: Vec<PathBuf>,

    /// Group runs by this setting; without it, by all that differ, except seeds.
    ///
    /// Several are separated by commas, such as models.target.model; env, kind and seed are names too.
    #[arg(long, value_name = "KEY", value_delimiter = ',')]
    pub(crate) group_by: Vec<String>,

    /// Write the comparison into this file too, as one HTML page that needs nothing else.
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,

    /// Print a table of the runs as CSV: all columns, a line for each run.
    #[arg(long, conflicts_with_all = ["json", "markdown"])]
    pub(crate) csv: bool,

    /// Print a table of the runs as Markdown.
    #[arg(long, conflicts_with = "json")]
    pub(crate) markdown: bool,

    /// Print one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct WatchArgs {
    /// The directory of a run, in progress or finished; without it, the newest.
    #[arg(value_name = "RUN", default_value = NEWEST, hide_default_value = true)]
    pub(crate) run: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// A directory of runs, or one run; without it `runs` if it exists, else this directory.
    #[arg(value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,

    /// Where to listen; port 0 takes a free one. Elsewhere than on loopback a token is needed to look.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:7878", value_parser = listen_address)]
    pub(crate) listen: SocketAddr,

    /// Environment variable with the access token.
    ///
    /// Without it, a random one if other machines can connect, and none on loopback.
    #[arg(long, value_name = "NAME")]
    pub(crate) token_env: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct McpArgs {
    /// A directory of runs, or one run; without it `runs` if it exists, else this directory.
    ///
    /// A new one is made when something is started.
    #[arg(long, value_name = "DIR")]
    pub(crate) runs: Option<PathBuf>,

    /// The directory below which configurations, skills and banks are that may be used.
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub(crate) configs: PathBuf,

    /// Maximum requests of each run, and of all measurements together; an agent may ask for less.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) max_calls: Option<u64>,

    /// Maximum money of each run, and of all measurements together, by the prices of the configuration.
    #[arg(long, value_name = "MONEY", value_parser = money)]
    pub(crate) max_money: Option<f64>,

    /// Offer nothing that starts or stops a run, or measures.
    #[arg(long)]
    pub(crate) read_only: bool,
}

fn money(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(money) if money.is_finite() && money > 0.0 => Ok(money),
        Ok(_) | Err(_) => Err("it is a number above 0".to_owned()),
    }
}

#[derive(Debug, Args)]
pub(crate) struct NoteArgs {
    /// The directory of a run that trains a document, in progress or not; without it, the newest.
    #[arg(value_name = "RUN", default_value = NEWEST, hide_default_value = true, allow_hyphen_values = true)]
    pub(crate) run: PathBuf,

    /// Text of the note; with --pin a line that stays, with --forbid a text that is not added.
    #[arg(value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) text: Option<String>,

    /// The training item that the note is about.
    #[arg(long, value_name = "ID", conflicts_with_all = ["step", "pin", "forbid"])]
    pub(crate) item: Option<String>,

    /// The finished step that the note is about.
    #[arg(long, value_name = "N")]
    pub(crate) step: Option<u32>,

    /// The edit of that step, from 1, as `skillrl show RUN --step N` lists them.
    #[arg(long, value_name = "K", requires = "step")]
    pub(crate) edit: Option<usize>,

    /// Keep a line of the skill, or the text of the edit: no later edit deletes or replaces it.
    #[arg(long)]
    pub(crate) pin: bool,

    /// Forbid a text, or what the edit did: no later edit does it again.
    #[arg(long, conflicts_with = "pin")]
    pub(crate) forbid: bool,

    /// Take the note, pin or ban of this number back.
    #[arg(long, value_name = "NUMBER", conflicts_with_all = ["text", "item", "step", "pin", "forbid"])]
    pub(crate) withdraw: Option<usize>,

    /// List all notes, and which step has read each.
    #[arg(long, conflicts_with_all = ["text", "item", "step", "pin", "forbid", "withdraw"])]
    pub(crate) list: bool,

    /// Print JSON: one object, or with --list an array.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct StopArgs {
    /// The directory of a run that is in progress; without it, the newest.
    #[arg(value_name = "RUN", default_value = NEWEST, hide_default_value = true)]
    pub(crate) run: PathBuf,

    /// Take the request back, if the run has not come to it yet.
    #[arg(long)]
    pub(crate) withdraw: bool,
}

/// An address to listen on; `localhost` is this machine.
pub(super) fn listen_address(text: &str) -> Result<SocketAddr, String> {
    let address = text.strip_prefix("localhost:").map(|port| format!("127.0.0.1:{port}"));
    let address = address.as_deref().unwrap_or(text);
    address.parse().map_err(|_| "expected an IP address and a port, like 127.0.0.1:7878".to_owned())
}
