//! The arguments of `skillrl train`: a configuration, or a data file in its place.

use super::StartArgs;
use clap::Args;
use std::path::{Path, PathBuf};

#[derive(Debug, Args)]
pub(crate) struct TrainArgs {
    #[command(flatten)]
    pub(crate) config: StartArgs,

    /// Writes events to standard output, one JSON object per line.
    #[arg(long)]
    pub(crate) json: bool,

    /// Prints only errors, warnings and the result.
    #[arg(short, long)]
    pub(crate) quiet: bool,

    /// Takes over finished phases of this run, where their settings are the same; for `train.mode` "weights".
    #[arg(long, value_name = "RUN")]
    pub(crate) reuse: Vec<PathBuf>,

    #[command(flatten)]
    pub(crate) data: DataArgs,

    /// Agrees to what the run may cost: nothing is asked before it begins.
    #[arg(short, long)]
    pub(crate) yes: bool,

    /// Waits until a limit of the account of an agent's program is over, in place of ending the run: `retry.wait_for_account`.
    #[arg(long)]
    pub(crate) wait: bool,

    /// Resumes a run whose journal is missing, truncated or an older copy: caps do not count the calls that it has lost,
    /// and those that are needed are paid for again. Not for banks.
    #[arg(long)]
    pub(crate) new_journal: bool,
}

/// The settings that most people set, for a data file without a configuration.
#[derive(Debug, Clone, Default, PartialEq, Args)]
#[command(next_help_heading = "With a data file (CSV, TSV, JSON Lines or JSON) in place of a configuration")]
pub(crate) struct DataArgs {
    /// The field with the right answer; without it, a field with a usual name such as `answer` or `label`.
    #[arg(long, value_name = "FIELD")]
    pub(crate) answer: Option<String>,

    /// The model that does the tasks and proposes edits, such as `gpt-5-mini`, `anthropic/claude-haiku-4-5` or a GGUF file.
    #[arg(long, value_name = "MODEL")]
    pub(crate) model: Option<String>,

    /// The model that does the tasks, where it is another one.
    #[arg(long, value_name = "MODEL")]
    pub(crate) target: Option<String>,

    /// The model that proposes edits, where it is another one.
    #[arg(long, value_name = "MODEL")]
    pub(crate) optimizer: Option<String>,

    /// The address of your own server of the models, up to and with `/v1`.
    #[arg(long, value_name = "URL")]
    pub(crate) base_url: Option<String>,

    /// The most US dollars that the run may cost.
    #[arg(long, value_name = "DOLLARS")]
    pub(crate) budget: Option<f64>,
}

impl DataArgs {
    /// The first option that was given.
    pub(crate) fn given(&self) -> Option<&'static str> {
        let all = [
            ("--answer", self.answer.is_some()),
            ("--model", self.model.is_some()),
            ("--target", self.target.is_some()),
            ("--optimizer", self.optimizer.is_some()),
            ("--base-url", self.base_url.is_some()),
            ("--budget", self.budget.is_some()),
        ];
        all.into_iter().find_map(|(name, is_given)| is_given.then_some(name))
    }

    /// True if a path names data: JSON is a configuration of another system, unless an option for data is given.
    pub(crate) fn is_data(&self, path: &Path) -> bool {
        if path.to_str().is_some_and(|path| path.contains("://")) {
            return true;
        }
        let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
        match extension.to_ascii_lowercase().as_str() {
            "csv" | "tsv" | "jsonl" | "ndjson" => true,
            // Where this build does not read them, the error says what to do.
            "parquet" | "xlsx" | "xls" | "xlsb" | "ods" => true,
            "json" => self.given().is_some(),
            _ => path.is_dir(),
        }
    }
}
