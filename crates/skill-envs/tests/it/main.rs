//! The environments from outside, each behind its feature.
//!
//! One program for all of them: linking one takes longer than compiling most of these files.

mod agent_loop;
#[cfg(feature = "alfworld")]
mod alfworld_conformance;
#[cfg(feature = "alfworld")]
mod alfworld_errors;
#[cfg(feature = "alfworld")]
mod alfworld_files;
#[cfg(feature = "alfworld")]
mod alfworld_generated;
#[cfg(feature = "alfworld")]
mod alfworld_rules;
#[cfg(feature = "tables")]
mod cells;
mod files;
mod fixed;
mod folder;
#[cfg(feature = "tasks")]
mod foreign_files;
#[cfg(feature = "live")]
mod live_world;
#[cfg(feature = "qa")]
mod qa_data;
#[cfg(feature = "qa")]
mod qa_rollout;
mod requests;
mod runner;
#[path = "../../../skill-llm/tests/support/said.rs"]
mod said;
#[cfg(feature = "spreadsheets")]
mod spreadsheet_compare;
#[cfg(feature = "spreadsheets")]
mod spreadsheet_env;
#[cfg(feature = "tables")]
mod tables;
#[cfg(feature = "tasks")]
mod tasks_data;
#[cfg(feature = "tasks")]
mod tasks_files;
#[cfg(feature = "tasks")]
mod tasks_programs;
#[cfg(feature = "tasks")]
mod tasks_rollout;
#[cfg(any(feature = "spreadsheets", feature = "tables"))]
mod workbook;
