//! Programs that play the part of a model: those of the table of agents (`skill_agents`), or any other.
//!
//! Each call is one process in a fresh working directory that is gone afterwards, without the user's own skills. The
//! prompt is what it reads on its
//! standard input, never an argument; it finds the environment variables that are named and no others; at the deadline
//! it is killed with all that it has started. What it prints is bounded, kept as a trace where that is wanted, and read
//! for the reply and the tokens that it reports. However it fails is an error and never a reply.
//!
//! A program takes no sampling: temperature, top-p, seed, bounds on tokens and stop sequences are not
//! passed on. A schema reaches Codex, and is left to the prompt for the others. Tools of a request are an error: a
//! program has its own.
//!
//! # Invariants
//!
//! - No prompt is an argument of a program, and a program, with all that it started, outlives neither its call nor
//!   its deadline. Held by `arguments_of_the_known_programs`,
//!   `at_the_deadline_a_program_is_killed_with_all_that_it_started`, `what_a_program_leaves_running_ends_with_it`,
//!   `cancelling_kills_the_program`.

mod arguments;
mod config;
mod launcher;
mod output;
mod prompt;
mod trace;
mod work;

pub use config::{AgentConfig, AgentKind, DEFAULT_MODEL, OutputFormat, Sandbox, SkillAs};
pub use launcher::{ProgramLauncher, account_wait};
pub use prompt::settings_of_agents;
pub use work::LEFT_OUT;

use crate::agent_work::AgentProject;
use crate::call::CallCtx;
use crate::chat::{ChatModel, ChatReply, ChatRequest, FinishReason, ModelId};
use crate::error::{ErrorClass, LlmError, with_causes, wrong};
use crate::http::class_of_words;
use crate::process::{self, Daemons, Ending, Passed, Run, ended_with};
use arguments::Start;
use async_trait::async_trait;
use serde_json::{Value, json};
use skill_agents::{Agent, Exit};
use skill_core::Usage;
use std::process::ExitStatus;
use std::time::Instant;

/// The most bytes that a program may print.
pub const MAX_OUTPUT_BYTES: usize = 16 * 1024 * 1024;
const MAX_STDERR_BYTES: usize = 64 * 1024;
/// How much of a program's words a message quotes.
const MAX_QUOTED_CHARS: usize = 500;

/// A program that plays the part of a model.
#[derive(Debug)]
pub struct AgentModel {
    id: ModelId,
    config: AgentConfig,
    passed: Passed,
    /// The agent as whose output the program's is read.
    printed_as: Option<&'static Agent>,
}

impl AgentModel {
    /// A program with this configuration; it is not looked for before the first call.
    ///
    /// # Errors
    ///
    /// [`LlmError::Configuration`] if the configuration cannot work.
    pub fn new(config: AgentConfig) -> Result<Self, LlmError> {
        config.check()?;
        let passed = Passed::new(&config.pass_env);
        passed.tell(&config.secrets);
        Ok(Self { id: config.model_id(), printed_as: config.printed_as()?, config, passed })
    }

    async fn run(&self, request: &ChatRequest, call: &CallCtx) -> Result<ChatReply, LlmError> {
        let limit = call.timeout.unwrap_or(self.config.timeout);
        let timeout = call.time_left().map_or(limit, |left| left.min(limit));
        let project = call.get::<AgentProject>();
        let room = process::temporary_dir("agent-")
            .map_err(|error| wrong(format!("cannot make a working directory: {error}")))?;
        let ready = prompt::write(request, call, &self.config, room.path())
            .and_then(|written| Ok((Start::new(&self.config, &written, room.path(), timeout)?, written)));
        let (start, written) = ready.inspect_err(|_| call.attempts.note_unsent())?;
        let run = Run {
            command: &start.command,
            directory: Some(&start.directory),
            environment: Some(launcher::environment(&self.passed, &start.env)),
            stdin: written.prompt.as_bytes(),
            deadline: timeout,
            max_output_bytes: MAX_OUTPUT_BYTES,
            max_stderr_bytes: MAX_STDERR_BYTES,
            daemons: Daemons::End,
        };
        let started = Instant::now();
        let outcome = process::run(&run)
            .await
            .map_err(|error| self.failed(ErrorClass::Configuration, &error.to_string()))?;
        let stdout = String::from_utf8_lossy(&outcome.stdout);
        let stderr = self.passed.scrub_tail(&outcome.stderr, MAX_STDERR_BYTES);
        let stderr = self.config.secrets.scrub(&stderr);
        if let Some(directory) = &self.config.trace_dir {
            let cut = if outcome.ending == Ending::Cut { "…" } else { "" };
            let shown = self.scrub(&format!("{stdout}{cut}"));
            trace::keep(directory, call.place.as_str(), &shown, &stderr);
        }
        let status = match outcome.ending {
            // For work on a project, the time limit is part of the task, and reaching it a result. The deadline of the
            // call is not.
            Ending::Deadline if project.is_some() && timeout == limit => None,
            Ending::Deadline => {
                return Err(LlmError::Timeout { provider: self.config.name(), after: timeout });
            }
            Ending::Cut => {
                let message = format!("printed more than {MAX_OUTPUT_BYTES} bytes and was killed");
                return Err(self.failed(ErrorClass::InvalidReply, &message));
            }
            Ending::Exited(status) => Some(status),
        };
        let files = start.session_files(&stdout).map_err(|error| {
            let message = format!("has session files that are not read: {}", with_causes(&error));
            self.failed(ErrorClass::InvalidReply, &message)
        })?;
        let read = output::read(self.printed_as, &stdout, &files).and_then(|reply| {
            let is_broken = reply.text.contains(char::REPLACEMENT_CHARACTER)
                && std::str::from_utf8(&outcome.stdout).is_err();
            let fault = || output::Fault::Unreadable("printed a reply that is not UTF-8".to_owned());
            if is_broken { Err(fault()) } else { Ok(reply) }
        });
        let reply = match status {
            Some(status) => self.judge(self.scrubbed(read), status, &stderr)?,
            None => ChatReply::new("", Usage::default(), FinishReason::time_used_up()),
        };
        if written.skill.is_none() && project.is_none() {
            return Ok(reply);
        }
        let shown = self.scrub(&stdout);
        let mut done =
            work::of_records(self.printed_as, written.skill.as_ref(), &shown, &files, started.elapsed());
        // What the agent itself records was written without regard to secrets.
        for call in &mut done.tools {
            call.name = self.scrub(&call.name);
            call.arguments = self.scrubbed_value(std::mem::take(&mut call.arguments));
        }
        if let Some(project) = project {
            work::add_changes(&mut done, project, &written, self.config.kind.row()?, &|text| {
                self.scrub(text)
            });
        }
        Ok(reply.with_agent_work(&done))
    }

    /// The reply, by what was printed and by how the program ended.
    ///
    /// A known program says itself how its run came out, and its exit code may be another: some fail with 0.
    fn judge(
        &self,
        read: Result<ChatReply, output::Fault>,
        status: ExitStatus,
        stderr: &str,
    ) -> Result<ChatReply, LlmError> {
        let by_code = status.code().and_then(|code| self.exit(code));
        match &read {
            Ok(reply) if status.success() || self.printed_as.is_some() => return Ok(reply.clone()),
            _ if by_code == Some(Exit::Turns) => {
                return Ok(ChatReply::new("", Usage::default(), FinishReason::turns_used_up()));
            }
            Err(_) if status.success() => {}
            Ok(_) | Err(_) => {
                // Where it says on its standard output what is wrong, that is the better message.
                let said = match &read {
                    Err(output::Fault::Reported { said, .. }) => said.as_str(),
                    Ok(_) | Err(output::Fault::Unreadable(_)) => stderr,
                };
                let class = class_of_exit(by_code, status.code())
                    .or_else(|| read.as_ref().err().and_then(output::Fault::class))
                    .unwrap_or_else(|| class_of_words(said));
                let message = format!("{}: {}", ended_with(status), last_words(said));
                return Err(self.failed(class, &message));
            }
        }
        read.map_err(|fault| self.fault(fault, stderr))
    }

    /// What an exit code of a known program says by itself.
    fn exit(&self, code: i32) -> Option<Exit> {
        self.printed_as?.exits.get(&code.to_string()).copied()
    }

    fn fault(&self, fault: output::Fault, stderr: &str) -> LlmError {
        let class = fault.class().unwrap_or(ErrorClass::InvalidReply);
        let message = match fault {
            output::Fault::Reported { said, .. } => format!("reports an error: {}", last_words(&said)),
            output::Fault::Unreadable(what) => {
                format!("{what}; its stderr ends with: {}", last_words(stderr))
            }
        };
        self.failed(class, &message)
    }

    fn failed(&self, class: ErrorClass, message: &str) -> LlmError {
        LlmError::Program { program: self.config.name(), class, message: message.to_owned() }
    }

    /// What was read, without the values of variables that were passed on; before, they may have been escaped.
    fn scrubbed(&self, read: Result<ChatReply, output::Fault>) -> Result<ChatReply, output::Fault> {
        match read {
            Ok(reply) => Ok(ChatReply { text: self.scrub(&reply.text), ..reply }),
            Err(output::Fault::Reported { said, status }) => {
                Err(output::Fault::Reported { said: self.scrub(&said), status })
            }
            Err(output::Fault::Unreadable(what)) => Err(output::Fault::Unreadable(self.scrub(&what))),
        }
    }

    /// The same of a JSON value; one that is not JSON afterwards is a text.
    fn scrubbed_value(&self, value: Value) -> Value {
        let text = value.to_string();
        let clean = self.scrub(&text);
        if clean == text {
            return value;
        }
        serde_json::from_str(&clean).unwrap_or(Value::String(clean))
    }

    /// The text without the values of variables that were passed on, and without the secrets of the run.
    fn scrub(&self, text: &str) -> String {
        self.config.secrets.scrub(&self.passed.scrub(text)).into_owned()
    }
}

/// The class that an exit code says by itself.
fn class_of_exit(exit: Option<Exit>, code: Option<i32>) -> Option<ErrorClass> {
    match (exit, code) {
        (Some(Exit::SignIn), _) => Some(ErrorClass::Authentication),
        (Some(Exit::Input), _) => Some(ErrorClass::BadRequest),
        (Some(Exit::Configuration), _) => Some(ErrorClass::Configuration),
        // What a shell says of a program that is not there, or must not be run.
        (None, Some(126 | 127)) => Some(ErrorClass::Configuration),
        (Some(Exit::Turns) | None, _) => None,
    }
}

/// The end of what a program said, on one line.
fn last_words(text: &str) -> String {
    let line: Vec<&str> = text.split_whitespace().collect();
    let line: String = line.join(" ").chars().filter(|letter| !letter.is_control()).collect();
    let n_over = line.chars().count().saturating_sub(MAX_QUOTED_CHARS);
    match (line.is_empty(), n_over) {
        (true, _) => "it printed nothing".to_owned(),
        (false, 0) => line,
        (false, n_over) => format!("..{}", line.chars().skip(n_over).collect::<String>()),
    }
}

#[async_trait]
impl ChatModel for AgentModel {
    fn id(&self) -> &ModelId {
        &self.id
    }

    fn parameters(&self) -> Value {
        let config = &self.config;
        json!({
            "dialect": "agent",
            "agent": config.kind,
            "command": config.command,
            "arguments": config.arguments,
            "output": config.output,
            "sandbox": config.sandbox,
            "skill_as": config.skill_as,
            "effort": config.effort,
        })
    }

    async fn chat(&self, request: &ChatRequest, call: &CallCtx) -> Result<ChatReply, LlmError> {
        request.sampling.refuse_logprobs(&self.id)?;
        let reply = tokio::select! {
            biased;
            () = call.cancel.cancelled() => return Err(LlmError::Cancelled),
            reply = self.run(request, call) => reply,
        };
        if let Err(error) = &reply {
            tracing::debug!(model = %self.id, place = %call.place, class = ?error.class(), %error, "no reply");
        }
        reply
    }
}
