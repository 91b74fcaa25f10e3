//! Cases of coding agents: a project, a prompt, and checks of what the agent leaves.
//!
//! A case is an item, and a skill is what the agent finds as a package in the folder where it looks for skills; without
//! one the folder is empty. So an arm of a comparison is a skill, and everything else is that of other environments.
//!
//! [`CaseSet`] reads case files: `evals.json` of skill-creator in both dialects, the case folders of
//! `claude plugin eval`, JSON Lines. [`Check`] is one check, [`EvalsEnv`] the environment, [`control`] what is known of a
//! case before its results are believed.

mod case;
mod changes;
mod check;
mod check_form;
mod commands;
pub mod control;
pub mod draft;
mod env;
mod fixture;
mod grade;
mod plugin_form;
mod read;
mod workspace;
mod write;

pub use case::{Case, CaseFormat, CaseSet};
pub use check::{Check, CheckRow, TextOf};
pub use skill_sandbox::Choice as SandboxChoice;

pub use env::{EvalsConfig, EvalsEnv, checks_of, is_over_time};
pub use grade::{GRADER_PROMPT, GRADER_PROMPT_NAME};
pub use workspace::{ArmRows, RunRow, benchmark, write_workspace};
pub use write::CaseFiles;

#[cfg(test)]
mod tests;
