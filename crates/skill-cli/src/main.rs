//! The program `skillrl`; see the library beside it.

use std::process::ExitCode;

fn main() -> ExitCode {
    // A process that was started to look after a program does nothing else.
    if let Some(code) = skillrl::llm::process::supervised(std::env::args_os()) {
        return ExitCode::from(code);
    }
    skillrl::llm::process::offer_supervision();
    #[cfg(all(feature = "weights", target_os = "linux"))]
    threads::set_number();
    ExitCode::from(skill_cli::run(std::env::args_os()))
}

/// The number of threads of local models.
#[cfg(all(feature = "weights", target_os = "linux"))]
mod threads {
    use std::os::unix::process::CommandExt as _;
    use std::process::Command;

    const VARIABLE: &str = "RAYON_NUM_THREADS";

    /// Sets the variable that candle reads before each product of matrices; see [`skillrl::train::n_threads`].
    ///
    /// Changing the environment of a running process is unsafe code, which this workspace forbids. So the process executes
    /// the program again, once, with the new environment and before it has done anything else.
    pub(crate) fn set_number() {
        if std::env::var_os(VARIABLE).is_some() {
            return;
        }
        let Ok(program) = std::env::current_exe() else { return };
        let mut again = Command::new(program);
        let mut arguments = std::env::args_os();
        if let Some(name) = arguments.next() {
            again.arg0(name);
        }
        again.args(arguments).env(VARIABLE, skillrl::train::n_threads().to_string());
        // It returns only if it fails, and then local models are slower.
        let _ = again.exec();
    }
}
