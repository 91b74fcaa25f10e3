//! The words of a command.

use super::config::{AgentConfig, AgentKind, Sandbox};
use super::prompt::Workspace;

/// The program with all its arguments; nothing of the prompt is among them.
pub(super) fn command(config: &AgentConfig, workspace: &Workspace) -> Vec<String> {
    let mut words: Vec<String> = match &config.command {
        Some(command) => command.iter().map(|word| word.replace("{model}", &config.model)).collect(),
        None => vec![config.kind.as_str().to_owned()],
    };
    let known: Vec<String> = match config.kind {
        AgentKind::Claude => claude(config),
        AgentKind::Codex => codex(config, workspace),
        AgentKind::Gemini => gemini(config),
        AgentKind::Command => Vec::new(),
    };
    words.extend(known);
    words.extend(config.arguments.iter().cloned());
    if config.kind == AgentKind::Codex {
        // The prompt comes on the standard input.
        words.push("-".to_owned());
    }
    words
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn claude(config: &AgentConfig) -> Vec<String> {
    let mut arguments = words(&["-p", "--output-format", "json", "--model", &config.model]);
    // Settings of the user would make the same call another one on another machine.
    arguments.extend(words(&["--setting-sources", "project"]));
    arguments.extend(words(match config.sandbox {
        Sandbox::ReadOnly => &["--permission-mode", "dontAsk", "--allowedTools", "Read,Glob,Grep,Skill"],
        Sandbox::Workspace => {
            &["--permission-mode", "acceptEdits", "--allowedTools", "Read,Glob,Grep,Skill,Edit,Write,Bash"]
        }
        Sandbox::Off => &["--dangerously-skip-permissions"],
    }));
    if let Some(effort) = config.effort {
        arguments.extend(words(&["--effort", effort.as_str()]));
    }
    arguments
}

fn codex(config: &AgentConfig, workspace: &Workspace) -> Vec<String> {
    let sandbox = match config.sandbox {
        Sandbox::ReadOnly => "read-only",
        Sandbox::Workspace => "workspace-write",
        Sandbox::Off => "danger-full-access",
    };
    let mut arguments = words(&["exec", "--json", "--ephemeral", "--skip-git-repo-check"]);
    arguments.extend(words(&["--sandbox", sandbox, "--model", &config.model]));
    if let Some(effort) = config.effort {
        arguments.extend(words(&["-c", &format!("model_reasoning_effort=\"{}\"", effort.as_str())]));
    }
    if let Some(schema) = workspace.schema_file() {
        arguments.extend(words(&["--output-schema", schema]));
    }
    arguments
}

fn gemini(config: &AgentConfig) -> Vec<String> {
    let mode = match config.sandbox {
        Sandbox::ReadOnly => "default",
        Sandbox::Workspace => "auto_edit",
        Sandbox::Off => "yolo",
    };
    words(&["--output-format", "json", "--model", &config.model, "--approval-mode", mode])
}
