//! Systems on which no program can be run.

use crate::sandbox::Sandbox;
use crate::{Cancel, ExecutionResult, Program, RunError};

impl Sandbox {
    /// Runs nothing here.
    ///
    /// # Errors
    ///
    /// Always.
    pub fn run(&self, _program: &Program, _cancel: &Cancel) -> Result<ExecutionResult, RunError> {
        Err(RunError::Program("programs are run on Unix alone".to_owned()))
    }
}
