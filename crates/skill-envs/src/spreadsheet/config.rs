//! What a `spreadsheet` environment is made from.

use crate::choices::{Compare, Recalculate, SpreadsheetMode as Mode};
use crate::tasks::Splitting;
use skill_sandbox::Choice;
use std::path::PathBuf;
use std::time::Duration;

/// Where the data is, how the agent works, and how its workbooks are judged.
#[derive(Debug, Clone, PartialEq)]
pub struct SpreadsheetConfig {
    /// The data set's directory, or the file with its tasks; workbooks are relative to the file.
    pub data: PathBuf,
    /// How tasks are split.
    pub splitting: Splitting,
    /// Whether the data may do without a test split.
    pub test_is_optional: bool,
    /// How the agent works.
    pub mode: Mode,
    /// The most replies of an agent in rounds or with tools.
    pub max_rounds: u32,
    /// How often a workbook that came out is shown to the agent, which may correct its program then; 0 ends the rounds
    /// at the first program that runs.
    pub review_rounds: u32,
    /// In training, how often the agent is told which cells are wrong, without the right values; 0 for never.
    pub feedback_rounds: u32,
    /// The rule by which cells are compared.
    pub compare: Compare,
    /// Whether formulas are calculated.
    pub recalculate: Recalculate,
    /// The most tokens of a reply.
    pub max_tokens: Option<u32>,
    /// A template that replaces [`super::ROLLOUT_PROMPT`].
    pub prompt: Option<String>,
    /// The sandbox of the agent's programs.
    pub sandbox: Choice,
    /// The Python of the agent's programs; none for the first one found that has openpyxl.
    pub python: Option<PathBuf>,
    /// How long a program may take.
    pub program_timeout: Duration,
    /// How much memory it may take, in bytes.
    pub program_memory: u64,
    /// How many programs run at a time; none for one for each core.
    pub programs: Option<usize>,
    /// Where results of finished programs are kept, so that no later run of the same program repeats them.
    pub cache: Option<PathBuf>,
}

impl SpreadsheetConfig {
    /// The usual settings for this data.
    pub fn new(data: impl Into<PathBuf>) -> Self {
        Self {
            data: data.into(),
            splitting: Splitting::default(),
            test_is_optional: false,
            mode: Mode::default(),
            max_rounds: 30,
            review_rounds: 1,
            feedback_rounds: 0,
            compare: Compare::default(),
            recalculate: Recalculate::default(),
            max_tokens: None,
            prompt: None,
            sandbox: Choice::default(),
            python: None,
            program_timeout: Duration::from_secs(120),
            program_memory: 2 << 30,
            programs: None,
            cache: None,
        }
    }
}
