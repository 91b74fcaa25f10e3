//! Systems on which no program can be run.

use crate::sandbox::Sandbox;
use crate::{Cancel, Outcome, Program, RunError};

impl Sandbox {
    /// Runs nothing here.
    ///
    /// # Errors
    ///
    /// Always.
    pub fn run(&self, _program: &Program, _cancel: &Cancel) -> Result<Outcome, RunError> {
        Err(RunError::Program("programs are run on Unix alone".to_owned()))
    }
}
