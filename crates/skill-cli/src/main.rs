//! The program `skillrl`; see the library beside it.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(skill_cli::run(std::env::args_os()))
}
