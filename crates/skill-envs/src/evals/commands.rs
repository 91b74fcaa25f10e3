//! Command checks: each in a copy of what the run left, in the sandbox.

use super::changes::Done;
use super::check::{Check, CheckRow, CommandCheck, matches_path};
use super::fixture;
use crate::error::EnvError;
use skill_sandbox::{Input, Limits, Program, RunError, Sandbox, Termination};
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
    let is_restored = |path: &str| check.restore.iter().any(|pattern| matches_path(pattern, path));
    let left = done.after.iter().filter(|(path, _)| !is_restored(path));
    let left = left.map(|(path, bytes)| (path.clone(), fixture::input(bytes, is_executable(path))));
    let mut inputs: BTreeMap<String, Input> = left.collect();
    inputs.extend(fixture::inputs(&done.before).filter(|(path, _)| is_restored(path)));
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
    let is_code = outcome.verdict == (Termination::Exited { code: check.exit_code });
    let is_printed =
        check.stdout.as_ref().is_none_or(|pattern| pattern.regex.is_match(&printed) != pattern.is_absent);
    let said = format!("{}\n{}", printed.trim(), outcome.stderr.text().trim());
    let n_over = said.trim().chars().count().saturating_sub(MAX_SHOWN);
    let shown: String = said.trim().chars().skip(n_over).collect();
    let text = Check::Command(check.clone()).text();
    let edited: Vec<String> =
        edited_by_run(check, done).into_iter().filter(|path| !is_restored(path)).map(str::to_owned).collect();
    let passed = is_code && is_printed;
    let evidence = format!("the command {}: {shown}", outcome.verdict);
    Ok(CheckRow { text, passed, evidence, by_model: false, is_shown_only: false, edited })
}

/// Files of the case that the command names, that the run has changed and that the check does not bring itself: the
/// command may then decide by what the agent wrote.
fn edited_by_run<'run>(check: &CommandCheck, done: &'run Done) -> Vec<&'run str> {
    let line = check.command.join(" ");
    let is_end = |sign: char| !(sign.is_alphanumeric() || "-_./".contains(sign));
    let words: Vec<&str> = line.split(is_end).map(|word| word.trim_start_matches("./")).collect();
    let is_of_case = |path: &&str| done.before.files.contains_key(*path);
    let is_named = |path: &&str| words.contains(path) && !check.files.contains_key(*path);
    done.touched().into_iter().filter(|path| is_of_case(path) && is_named(path)).collect()
}

#[cfg(test)]
mod tests {
    use super::edited_by_run;
    use crate::evals::changes::Done;
    use crate::evals::check::Check;
    use crate::evals::check_form::check;
    use serde_json::json;
    use skill_core::Usage;
    use skill_llm::{AgentFile, AgentProject, AgentWork, ChatReply};
    use std::sync::Arc;

    #[test]
    fn a_file_of_the_case_that_decides_a_check_and_that_the_run_changed_is_named() {
        let mut project = AgentProject::default();
        for path in ["check.sh", "main.py", "tests/a.py"] {
            let file = AgentFile { bytes: Arc::from(b"x".as_slice()), is_executable: false };
            project.files.insert(path.to_owned(), file);
        }
        let mut work = AgentWork::default();
        for path in ["check.sh", "tests/a.py", "new.sh"] {
            work.keep(path.to_owned(), b"exit 0");
        }
        let reply = ChatReply::text("Done.", Usage::default()).with_agent_work(&work);
        let done = Done::of(&reply, &Arc::new(project)).unwrap();
        for (more, expect) in [
            (json!({"command": "sh ./check.sh"}), vec!["check.sh"]),
            (json!({"command": ["python3", "main.py"]}), vec![]),
            (json!({"command": "sh new.sh && python3 tests/a.py"}), vec!["tests/a.py"]),
            (json!({"command": "sh check.sh", "files": {"check.sh": "exit 1"}}), vec![]),
        ] {
            let mut value = more;
            value["type"] = json!("command");
            let Ok(Check::Command(command)) = check(&value) else { panic!("{value}") };
            assert_eq!(edited_by_run(&command, &done), expect, "{value}");
        }
    }
}
