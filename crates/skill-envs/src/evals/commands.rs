//! Command checks: each in a copy of what the run left, in the sandbox.

use super::changes::Done;
use super::check::{Check, CheckRow, CommandCheck};
use super::fixture;
use crate::error::EnvError;
use skill_sandbox::{Input, Limits, Program, RunError, Sandbox, Verdict};
use std::collections::BTreeMap;
use tokio_util::sync::CancellationToken;

/// Bytes of each stream that are looked at.
const MAX_PRINTED: usize = 1 << 20;
/// Characters of what was printed that a row shows.
const MAX_SHOWN: usize = 400;

/// The row of a command check.
///
/// # Errors
///
/// A sandbox that cannot run anything. A command that hangs or is killed has failed.
pub(super) async fn run(
    check: &CommandCheck,
    done: &Done,
    sandbox: &Sandbox,
    cancel: &CancellationToken,
) -> Result<CheckRow, EnvError> {
    // What an agent leaves has no file modes, so a file of the project keeps the mode that it had.
    let is_executable = |path: &str| done.before.files.get(path).is_some_and(|file| file.is_executable);
    let left = done.after.iter();
    let left = left.map(|(path, bytes)| (path.clone(), fixture::input(bytes, is_executable(path))));
    let mut inputs: BTreeMap<String, Input> = left.collect();
    // What a check brings replaces what the agent has left in its place.
    inputs.extend(check.files.iter().map(|(path, text)| (path.clone(), Input::text(text))));
    let program = Program {
        inputs: inputs.into_iter().collect(),
        environment: check.env.iter().map(|(name, value)| (name.clone(), value.clone())).collect(),
        limits: Limits { wall: check.timeout, printed: MAX_PRINTED, ..Limits::default() },
        ..Program::new(&check.command)
    };
    let outcome =
        crate::sandboxed::start(sandbox, program, (), cancel).await.map_err(|error| match error {
            RunError::Cancelled => EnvError::Model(skill_llm::LlmError::Cancelled),
            error => EnvError::Configuration {
                message: format!(
                    "the command `{}` was not run: {}",
                    check.command.join(" "),
                    skill_llm::error::with_causes(&error)
                ),
            },
        })?;
    let printed = outcome.stdout.text();
    let is_code = outcome.verdict == (Verdict::Exited { code: check.exit_code });
    let is_printed =
        check.stdout.as_ref().is_none_or(|pattern| pattern.regex.is_match(&printed) != pattern.is_absent);
    let said = format!("{}\n{}", printed.trim(), outcome.stderr.text().trim());
    let n_over = said.trim().chars().count().saturating_sub(MAX_SHOWN);
    let shown: String = said.trim().chars().skip(n_over).collect();
    let text = Check::Command(check.clone()).text();
    let evidence = format!("the command {}: {shown}", outcome.verdict);
    Ok(CheckRow { text, passed: is_code && is_printed, evidence, by_model: false, is_shown_only: false })
}
