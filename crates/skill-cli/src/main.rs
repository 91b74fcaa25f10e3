//! The program `skillrl`; see the library beside it.

use std::process::ExitCode;

fn main() -> ExitCode {
    #[cfg(all(feature = "weights", target_os = "linux"))]
    threads::settle();
    ExitCode::from(skill_cli::run(std::env::args_os()))
}

/// The number of threads of local models.
#[cfg(all(feature = "weights", target_os = "linux"))]
mod threads {
    use std::os::unix::process::CommandExt as _;
    use std::process::Command;

    const VARIABLE: &str = "RAYON_NUM_THREADS";

    /// Writes the number into the environment, where candle looks for it before each product of matrices; see
    /// [`skillrl::train::n_threads`]. A process can change its own environment only while it has no threads, which
    /// nothing checks, so this one begins again with the new environment: as the same process, before it has done
    /// anything.
    pub(crate) fn settle() {
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
