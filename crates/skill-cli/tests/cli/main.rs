//! The whole binary, as a person runs it: command lines in, files, output and exit codes out.
#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

#[path = "../../../skill-core/tests/support/all_files.rs"]
mod all_files;
mod bad_input;
mod bank;
mod bank_live;
mod bank_run;
mod bank_training;
mod broken_replies;
mod caps;
mod changed;
mod check;
mod codes;
mod config_copy;
#[cfg(target_os = "linux")]
mod consent;
mod context;
mod demo;
mod demo_worlds;
#[path = "../../../skill-core/tests/support/dependencies.rs"]
mod dependencies;
mod earlier_runs;
mod env_export;
mod epochs;
mod estimate;
mod eval;
mod eval_skill;
mod exec;
mod fake_pi;
mod faults;
mod finished_demo;
mod first;
mod grid;
mod guessed;
#[cfg(feature = "tables")]
mod hub;
mod import;
#[cfg(target_os = "linux")]
mod init;
mod interrupt;
mod journal;
mod killed;
#[cfg(unix)]
mod labels;
mod large;
mod leaks;
mod lean;
mod local;
mod log_format;
mod look;
mod lost;
mod matrix;
mod mcp;
mod metric;
mod mistakes;
mod modes;
#[cfg(unix)]
mod moved;
#[cfg(target_os = "linux")]
mod narrow;
mod noise;
mod notes;
#[cfg(feature = "otel")]
mod otel;
mod output;
mod packages;
mod phased;
mod phases;
#[cfg(unix)]
mod pipes;
mod prompts;
mod prune;
#[cfg(target_os = "linux")]
mod read_only;
mod rendered;
mod replay;
mod report;
mod rl;
mod said;
mod secrets;
mod seeds;
mod serve;
mod server;
mod sft;
mod shapes;
mod silent;
mod skill;
mod split_names;
#[cfg(target_os = "linux")]
mod spreadsheets;
mod status;
mod table_files;
mod tables;
mod tasks;
#[cfg(target_os = "linux")]
mod terminal;
mod train;
mod train_data;
#[cfg(feature = "weights")]
mod train_server;
mod transfer;
mod verdict;
#[cfg(unix)]
mod what_is_sent;
mod worlds;
