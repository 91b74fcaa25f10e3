//! SpreadsheetBench: an agent gets an instruction and a workbook, and the workbook that its program writes is compared
//! with the right one.
//!
//! `task` reads the data, `rollout` talks to the agent, `lab` runs its programs in the sandbox, `office` calculates
//! formulas, `judge` compares workbooks by the rules of `compare` at the cells that `position` finds.

mod cache;
mod code;
mod compare;
mod config;
mod env;
mod feedback;
mod judge;
mod lab;
mod office;
mod position;
mod preview;
mod python_float;
mod rollout;
mod score;
mod task;
mod tools;
mod xlsx;

pub use crate::choices::{Compare, Recalculate, SpreadsheetMode as Mode};
pub use compare::Raised;
pub use config::SpreadsheetConfig;
pub use env::{ProgramsReport, SpreadsheetEnv, describe_programs};
pub use judge::{Gold, GoldError, Got, MAX_LISTED, WorkbookComparison, WrongCell};
pub use position::{CellRange, resolve};
pub use preview::preview;
pub use skill_sandbox::{Choice as SandboxChoice, ContainerConfig};
pub use xlsx::{Area, Cell, Cells, Sheet, Value, Workbook, XlsxError};

/// The name of the built-in prompt.
pub const ROLLOUT_PROMPT_NAME: &str = "rollout_spreadsheet";

/// The built-in prompt.
pub const ROLLOUT_PROMPT: &str = include_str!("../../prompts/rollout_spreadsheet.md");
