//! How a program is started for a call: a known one as the table of agents says, any other by its command alone.

use super::config::{AgentConfig, DEFAULT_MODEL, Sandbox};
use super::prompt::Written;
use crate::error::{LlmError, wrong};
use skill_agents::home::{HomeError, Moved, SessionFile};
use skill_agents::measure::{CallOptions, Prepared, Setup, named_files, prepare_play};
use skill_agents::{Agent, Play, Rights};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// A program that is ready to start.
pub(super) struct Start {
    pub(super) command: Vec<String>,
    pub(super) directory: PathBuf,
    /// Variables besides those of the caller.
    pub(super) env: BTreeMap<String, String>,
    known: Option<(Setup, Prepared, SystemTime)>,
}

impl Start {
    /// A call of a program, in the directory of the call; nothing of the prompt is among the arguments.
    pub(super) fn new(
        config: &AgentConfig,
        written: &Written,
        at: &Path,
        deadline: Duration,
    ) -> Result<Self, LlmError> {
        let named = config.command.iter().flatten().map(|word| word.replace("{model}", &config.model));
        let Some(agent) = config.kind.row()? else {
            let command = named.chain(config.arguments.iter().cloned()).collect();
            let directory = written.directory.clone();
            return Ok(Self { command, directory, env: BTreeMap::new(), known: None });
        };
        let setup = Setup {
            agent,
            program: named.collect(),
            version: String::new(),
            model: Some(config.model.clone()).filter(|model| model != DEFAULT_MODEL),
            turns: usize::MAX,
            deadline,
            skills: Vec::new(),
            competitors: Vec::new(),
            project: None,
            home: std::env::home_dir().unwrap_or_default(),
            moved: Moved::of(agent, |name| std::env::var_os(name).map(PathBuf::from)),
            named_files: named_files(agent, |name| std::env::var_os(name).map(PathBuf::from)),
            with_mcp: false,
        };
        let options = CallOptions {
            rights: rights(&agent.play, config.sandbox),
            effort: config.effort.map(|effort| effort.as_str()),
            schema: written.schema_file,
            arguments: &config.arguments,
        };
        let since = SystemTime::now();
        let prepared = prepare_play(&setup, &options, &written.prompt, at)
            .map_err(|error| wrong(format!("cannot make a working directory: {error}")))?;
        let launch = &prepared.launch;
        Ok(Self {
            command: launch.command.clone(),
            directory: launch.directory.clone(),
            env: launch.env.clone(),
            known: Some((setup, prepared, since)),
        })
    }

    /// The session files that a known program wrote.
    pub(super) fn session_files(&self, stdout: &str) -> Result<Vec<SessionFile>, HomeError> {
        match &self.known {
            Some((setup, prepared, since)) => prepared.session_files(setup, stdout, *since),
            None => Ok(Vec::new()),
        }
    }
}

const fn rights(play: &Play, sandbox: Sandbox) -> &Rights {
    match sandbox {
        Sandbox::ReadOnly => &play.read_only,
        Sandbox::Workspace => &play.workspace,
        Sandbox::Off => &play.off,
    }
}

/// True if a program takes the schema of a reply.
pub(super) fn takes_schema(agent: Option<&Agent>) -> bool {
    agent.is_some_and(|agent| !agent.play.schema.is_empty())
}
