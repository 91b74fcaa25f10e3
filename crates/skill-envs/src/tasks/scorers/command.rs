//! A program as a scorer.
//!
//! It is started for each answer, in the directory of the configuration, without a shell. On its standard input it gets
//! one JSON object and then the end of the file:
//!
//! ```json
//! {"version": 1, "id": "q1", "item": {"question": ".."}, "answer": "Paris", "reply": "..", "references": ["Paris"]}
//! ```
//!
//! On its standard output it prints one JSON object, `{"hard": 1, "soft": 1.0, "reason": ".."}`, and ends with 0.
//! `soft` may be left out and is `hard` then; `reason` may be left out.
//! Anything else is a fault and never a score: another exit code, no such object, numbers outside of [0, 1], more output
//! than [`MAX_OUTPUT_BYTES`], or more time than allowed; at the deadline the program is killed with all that it has
//! started. Its standard error is in the message.
//!
//! What it scores was written by a model, and may be code that it runs: of the environment it sees what every program
//! needs and what the configuration names, and so no key of a model by accident.

use super::{Answer, AskingScorer, References, Scored, ScorerSpec, TaskScorer, Verdict, wrong};
use crate::error::{EnvError, read_error};
use crate::score::Score;
use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use skill_core::ItemId;
use skill_llm::process::{self, Daemons, Ending, Passed, Run};
use skill_llm::{CallCtx, ChatModel, LlmError, Secrets};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

/// The version of the protocol.
pub const PROTOCOL_VERSION: u32 = 1;
/// The most bytes that the program may print.
pub const MAX_OUTPUT_BYTES: usize = 1 << 20;
/// How much of its standard error is kept: the end of it.
const MAX_STDERR_BYTES: usize = 4096;
/// How much of what is not a score a message quotes.
const QUOTED_CHARACTERS: usize = 200;
/// Programs at work at the same time for each core.
const PROGRAMS_PER_CORE: usize = 2;

/// Nothing is known of a reply without the program.
pub(super) const SPEC: ScorerSpec = ScorerSpec {
    keys: &["command", "command_timeout_s", "sandbox", "pass_env"],
    needs: &["command"],
    ..ScorerSpec::new(References::Texts, &[], "A program grades the answer.")
};

/// A program that scores.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CommandConfig {
    /// The program and its arguments; no shell reads them.
    pub command: Vec<String>,
    /// Where it is started.
    pub dir: PathBuf,
    /// Names of environment variables that it gets besides [`skill_llm::process::BASE_VARIABLES`].
    ///
    /// What it scores was written by a model, and may be code that it runs, so no key reaches it unnamed.
    pub pass_env: Vec<String>,
    /// How long one answer may take.
    pub timeout: Duration,
    /// Whether it runs in the sandbox, where it reads its directory and nothing else of the user.
    #[serde(default)]
    pub sandbox: bool,
    /// The secrets of the run, which are taken out of everything that the program prints.
    #[serde(skip)]
    pub secrets: Secrets,
}

/// A program that scores answers.
#[derive(Debug)]
pub(super) struct Program {
    config: CommandConfig,
    /// The hashes of the files among its words that lie beside the configuration.
    files: Map<String, Value>,
    passed: Passed,
    /// As many programs at a time as the machine can serve, however many calls are in flight.
    permits: Arc<Semaphore>,
    #[cfg(feature = "sandbox")]
    sandbox: Option<skill_sandbox::Sandbox>,
}

/// What a program says of an answer.
struct ProgramScore {
    score: Score,
    reason: String,
}

impl Program {
    pub(super) fn new(config: CommandConfig) -> Result<Self, EnvError> {
        let blank = config.command.first().is_none_or(|program| program.trim().is_empty());
        if blank {
            return Err(wrong("`command` is empty; expected a program and its arguments"));
        }
        if config.timeout.is_zero() {
            return Err(wrong("`command_timeout_s` is 0; expected at least 1"));
        }
        process::check_passed(&config.pass_env).map_err(wrong)?;
        let files = hashes(&config)?;
        let n_cores = std::thread::available_parallelism().map_or(1, usize::from);
        let passed = Passed::new(&config.pass_env);
        passed.tell(&config.secrets);
        #[cfg(feature = "sandbox")]
        let sandbox = match config.sandbox {
            false => None,
            true => {
                passed_texts(&config.pass_env).map_err(|what| wrong(format!("the scorer {what}")))?;
                Some(crate::sandboxed::open(&skill_sandbox::Choice::Auto).map_err(wrong)?)
            }
        };
        #[cfg(not(feature = "sandbox"))]
        if config.sandbox {
            return Err(wrong(
                "the scorer is to run in the sandbox, which this build lacks (feature `sandbox`)",
            ));
        }
        Ok(Self {
            config,
            files,
            passed,
            permits: Arc::new(Semaphore::new(n_cores * PROGRAMS_PER_CORE)),
            #[cfg(feature = "sandbox")]
            sandbox,
        })
    }

    /// Asks for the score of one answer.
    async fn score_of(
        &self,
        item: &ItemId,
        input: &Value,
        cancel: &CancellationToken,
    ) -> Result<ProgramScore, EnvError> {
        let failed = |what: &str| self.failed(item, what);
        let _permit = tokio::select! {
            biased;
            () = cancel.cancelled() => return Err(cancelled()),
            permit = self.permits.acquire() => permit,
        };
        let command = self.command().map_err(|error| failed(&format!("cannot be started: {error}")))?;
        let directory = Some(self.config.dir.as_path()).filter(|directory| !directory.as_os_str().is_empty());
        let input = format!("{input}\n");
        #[cfg(feature = "sandbox")]
        if let Some(sandbox) = &self.sandbox {
            return self.score_inside(sandbox, item, &input, cancel).await;
        }
        let program = Run {
            command: &command,
            directory,
            environment: Some(self.passed.environment().collect()),
            stdin: input.as_bytes(),
            deadline: self.config.timeout,
            max_output_bytes: MAX_OUTPUT_BYTES,
            max_stderr_bytes: MAX_STDERR_BYTES,
            daemons: Daemons::End,
        };
        // Whatever way this ends, the program and all that it has started ends with it.
        let outcome = tokio::select! {
            biased;
            () = cancel.cancelled() => return Err(cancelled()),
            outcome = process::run(&program) => outcome,
        };
        let outcome = outcome.map_err(|error| failed(&error.to_string()))?;
        if outcome.ending == Ending::Deadline {
            let seconds = self.config.timeout.as_secs_f64();
            return Err(failed(&format!(
                "did not end within {seconds} s (`command_timeout_s`) and was killed"
            )));
        }
        let printed = String::from_utf8_lossy(&outcome.stdout);
        let printed = self.config.secrets.scrub(&printed);
        let read = read_score(&outcome.ending, &printed, &self.passed);
        self.concluded(item, read, &self.passed.scrub_tail(&outcome.stderr, MAX_STDERR_BYTES))
    }

    /// The score, or the error with the end of what the program wrote to its standard error.
    fn concluded(
        &self,
        item: &ItemId,
        read: Result<ProgramScore, String>,
        stderr: &str,
    ) -> Result<ProgramScore, EnvError> {
        match read {
            Ok(read) => Ok(ProgramScore { reason: self.passed.scrub(&read.reason), ..read }),
            Err(what) => Err(self.failed(item, &format!("{}{}", self.passed.scrub(&what), said(stderr)))),
        }
    }

    /// The error of a program that did not do what it should.
    fn failed(&self, item: &ItemId, what: &str) -> EnvError {
        let (command, what) = (self.config.command.join(" "), self.config.secrets.scrub(what));
        EnvError::Broken { item: item.clone(), message: format!("the scorer `{command}` {what}") }
    }

    /// The same in the sandbox, where the program reads its own directory and nothing else of this machine.
    #[cfg(feature = "sandbox")]
    async fn score_inside(
        &self,
        sandbox: &skill_sandbox::Sandbox,
        item: &ItemId,
        input: &str,
        cancel: &CancellationToken,
    ) -> Result<ProgramScore, EnvError> {
        use skill_sandbox::{Limits, RunError, Termination};
        let named = Some(self.config.dir.as_path()).filter(|directory| !directory.as_os_str().is_empty());
        let directory = named
            .unwrap_or(Path::new("."))
            .canonicalize()
            .map_err(|error| self.failed(item, &format!("cannot be started: {error}")))?;
        let environment = passed_texts(&self.config.pass_env).map_err(|what| self.failed(item, &what))?;
        let program = skill_sandbox::Program {
            readable: vec![directory.clone()],
            directory: Some(directory),
            stdin: Arc::from(input.as_bytes()),
            environment,
            limits: Limits { wall: self.config.timeout, printed: MAX_OUTPUT_BYTES, ..Limits::default() },
            ..skill_sandbox::Program::new(&self.config.command)
        };
        let outcome = crate::sandboxed::start(sandbox, program, (), cancel).await;
        let outcome = outcome.map_err(|error| match error {
            RunError::Cancelled => cancelled(),
            error => self.failed(item, &format!("was not run: {}", skill_llm::error::with_causes(&error))),
        })?;
        let printed = outcome.stdout.text();
        let read = match outcome.verdict {
            Termination::Exited { code: 0 } if outcome.stdout.n_dropped() == 0 => {
                read_printed(&self.config.secrets.scrub(&printed), &self.passed)
            }
            Termination::Exited { code: 0 } => Err(format!("printed more than {MAX_OUTPUT_BYTES} bytes")),
            verdict => Err(verdict.to_string()),
        };
        self.concluded(item, read, &end_of(&outcome.stderr.text()))
    }

    /// The words of the command, the first one as the system finds it.
    fn command(&self) -> std::io::Result<Vec<String>> {
        let mut command = self.config.command.clone();
        if let Some(program) = command.first_mut() {
            let beside = self.config.dir.join(program.as_str());
            // A path is one beside the configuration; a bare name is looked up where the system looks.
            if program.contains('/') && beside.exists() {
                *program = beside.canonicalize()?.to_string_lossy().into_owned();
            }
        }
        Ok(command)
    }
}

impl TaskScorer for Program {
    fn score(&self, _: &Answer<'_>) -> Scored<'_> {
        Scored::Asks(self)
    }

    /// The words, and the contents of the files among them that lie beside the configuration.
    fn own_settings(&self) -> Option<Value> {
        let (command, files) = (&self.config.command, &self.files);
        Some(match self.config.sandbox {
            false => json!({"command": command, "files": files}),
            true => json!({"command": command, "files": files, "sandbox": true}),
        })
    }

    fn expects(&self) -> Option<&'static str> {
        None
    }
}

#[async_trait]
impl AskingScorer for Program {
    async fn ask(
        &self,
        answer: &Answer<'_>,
        _: Option<&dyn ChatModel>,
        call: &CallCtx,
    ) -> Result<Verdict, EnvError> {
        let id = &answer.task.item.id;
        let input = json!({
            "version": PROTOCOL_VERSION,
            "id": id,
            "item": answer.task.item.data,
            "answer": answer.text,
            "reply": answer.reply.text,
            "references": answer.task.answers,
        });
        let ProgramScore { score, reason } = self.score_of(id, &input, &call.cancel).await?;
        if reason.is_empty() {
            let reason = format!("the scorer gave {} for {}", score.hard, answer.quoted());
            return Ok(Verdict::new(score, reason));
        }
        Ok(Verdict::new(score, reason.clone()).with("scorer_reason", reason))
    }
}

fn cancelled() -> EnvError {
    EnvError::Model(LlmError::Cancelled)
}

/// The score that a program printed, or what is wrong, as the end of "the scorer ...".
fn read_score(ending: &Ending, text: &str, passed: &Passed) -> Result<ProgramScore, String> {
    match ending {
        Ending::Exited(status) if status.success() => {}
        Ending::Exited(status) => return Err(format!("ended with {status}")),
        Ending::Cut => return Err(format!("printed more than {MAX_OUTPUT_BYTES} bytes")),
        Ending::Deadline => return Err("did not end in time".to_owned()),
    }
    read_printed(text, passed)
}

/// The score in what a program printed.
fn read_printed(text: &str, passed: &Passed) -> Result<ProgramScore, String> {
    // Before it is cut, since of a value that is cut through nothing would be found.
    let quoted = || passed.scrub(text.trim()).chars().take(QUOTED_CHARACTERS).collect::<String>();
    let value: Value = serde_json::from_str(text.trim()).map_err(|error| {
        format!("printed {:?}, which is not a JSON object like {{\"hard\": 1, \"soft\": 1.0, \"reason\": \"..\"}}: {error}", quoted())
    })?;
    let number = |name: &str| match value.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(given) => match given.as_f64().or_else(|| given.as_bool().map(|flag| f64::from(u8::from(flag))))
        {
            Some(number) if (0.0..=1.0).contains(&number) => Ok(Some(number)),
            Some(_) | None => Err(format!("printed {given} as `{name}`; expected a number from 0 to 1")),
        },
    };
    let (hard, soft) = (number("hard")?, number("soft")?);
    let hard = hard.ok_or_else(|| format!("printed {:?}, which has no `hard`", quoted()))?;
    let reason = match value.get("reason") {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.trim().to_owned(),
        Some(other) => return Err(format!("printed {other} as `reason`; expected a text")),
    };
    Ok(ProgramScore { score: Score { hard, soft: soft.unwrap_or(hard) }, reason })
}

/// The end of what a program wrote to its standard error.
#[cfg(feature = "sandbox")]
fn end_of(stderr: &str) -> String {
    stderr.chars().skip(stderr.chars().count().saturating_sub(MAX_STDERR_BYTES)).collect()
}

/// What a program wrote to its standard error, for the end of a message.
fn said(stderr: &str) -> String {
    match stderr.trim() {
        "" => String::new(),
        text => format!("; its standard error ends with: {text}"),
    }
}

/// The hashes of the files among the words of a command that lie beside the configuration.
fn hashes(config: &CommandConfig) -> Result<Map<String, Value>, EnvError> {
    let mut files = Map::new();
    for word in config.command.iter().filter(|word| Path::new(word).is_relative()) {
        let path = config.dir.join(word);
        if let Some(hash) = process::file_hash(&path).map_err(|source| read_error(&path, source))? {
            files.insert(word.clone(), hash.into());
        }
    }
    Ok(files)
}

/// The variables with these names, as the sandbox takes them; the error is the end of "the scorer ...".
#[cfg(feature = "sandbox")]
fn passed_texts(names: &[String]) -> Result<Vec<(String, String)>, String> {
    let text = |name: &String| match std::env::var(name) {
        Ok(value) => Ok((name.clone(), value)),
        Err(error) => Err(format!("is not passed {name} of `pass_env` in the sandbox: {error}")),
    };
    names.iter().map(text).collect()
}
