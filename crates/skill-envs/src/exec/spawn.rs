//! Starts a process of the program.

use super::config::ExecConfig;
use super::fault::Fault;
use super::process::{Shared, look_after};
use super::supervise::Pipes;
use skill_llm::process::{Daemons, Passed, ProcessGroup, located, pair, supervised_command};
use std::ffi::OsString;
use std::process::Stdio;
use std::sync::Arc;
use tokio::sync::mpsc;

/// What makes Python write at once and as UTF-8, as the protocol wants it; `set_env` may say otherwise.
const PYTHON: [(&str, &str); 2] = [("PYTHONUNBUFFERED", "1"), ("PYTHONUTF8", "1")];

/// Starts a process, which has not said hello yet.
pub(super) fn spawn(
    config: &ExecConfig,
    number: u64,
    own_env: &[(&'static str, String)],
) -> Result<(Arc<Shared>, mpsc::UnboundedSender<Vec<u8>>), Fault> {
    let label = format!("`{}` (process {number})", config.command.join(" "));
    let (Some(name), arguments) = (config.command.first(), config.command.get(1..).unwrap_or_default())
    else {
        return Err(Fault::program("`command` names no program"));
    };
    let passed = Passed::new(&config.pass_env);
    passed.tell(&config.secrets);
    let program = located(name, config.directory.as_deref());
    let environment = environment(config, &passed, own_env);
    let path = environment.iter().find(|(name, _)| name == "PATH").map(|(_, value)| value.as_os_str());
    let mut command = supervised_command(&program, path);
    command.args(arguments).env_clear().envs(environment);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    if let Some(directory) = &config.directory {
        command.current_dir(directory);
    }
    let group = ProcessGroup::lead(&mut command, Daemons::End);
    let mut child = command.spawn().map_err(|error| {
        let place = config
            .directory
            .as_ref()
            .map_or_else(String::new, |directory| format!(" in the directory {}", directory.display()));
        Fault::program(format!("{label}: cannot be started{place}: {error}"))
    })?;
    group.led_by(child.id());
    let pipes = child.stdin.take().zip(child.stdout.take()).zip(child.stderr.take());
    let Some(((stdin, stdout), stderr)) = pipes else {
        return Err(Fault::program(format!("{label}: has no standard streams")));
    };
    let shared =
        Arc::new(Shared::new(label, group, (passed, config.secrets.clone()), config.limits.stderr_bytes));
    let requests = look_after(&shared, child, Pipes { stdin, stdout, stderr }, config.limits.line_bytes);
    Ok((shared, requests))
}

/// Everything that the program finds in its environment.
fn environment(
    config: &ExecConfig,
    passed: &Passed,
    own_env: &[(&'static str, String)],
) -> Vec<(OsString, OsString)> {
    PYTHON
        .iter()
        .map(|(name, value)| pair(name, value))
        .chain(passed.environment())
        .chain(config.set_env.iter().map(|(name, value)| pair(name, value)))
        .chain(own_env.iter().map(|(name, value)| pair(name, value)))
        .collect()
}
