//! Where programs of an agent run: the sandbox, the Python in it, and what is known of programs that have run.

use super::cache::Cache;
use super::config::SpreadsheetConfig;
use super::office::Office;
use crate::choices::Recalculate;
use crate::error::EnvError;
use crate::sandboxed;
use serde_json::json;
use skill_core::canonical::hex_sha256;
use skill_llm::LlmError;
use skill_sandbox::{
    Cancel, Choice, ExecutionResult, Input, Limits, Outputs, Program, RunError, Sandbox, Termination,
};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

/// The names of files in the working directory.
pub(super) const INPUT: &str = "input.xlsx";
pub(super) const OUTPUT: &str = "output.xlsx";
pub(super) const SOLUTION: &str = "solution.py";
/// Runs a file with the two paths as variables; a traceback begins in the file.
const RUNNER: &str = r"
import os, runpy, sys, traceback
file, at = sys.argv[1], os.getcwd()
def told(kind, error, trace):
    while trace is not None and trace.tb_frame.f_code.co_filename != file:
        trace = trace.tb_next
    traceback.print_exception(kind, error, trace)
sys.excepthook = told
sys.path.insert(0, at)
paths = {'INPUT_PATH': os.path.join(at, 'input.xlsx'), 'OUTPUT_PATH': os.path.join(at, 'output.xlsx')}
runpy.run_path(file, init_globals=paths, run_name='__main__')
";
/// What a Python has to have.
const NEEDED: &str =
    "import openpyxl, sys; print('.'.join(map(str, sys.version_info[:3])), openpyxl.__version__)";
/// Where a Python lies.
const PLACES: &str = "import json, sys; print(json.dumps([sys.executable, sys.prefix, sys.base_prefix]))";
/// The Python that programs get where the one that is found first cannot be used.
const SYSTEM_PYTHON: &str = "/usr/bin/python3";

/// The sandbox with its Python.
#[derive(Debug)]
pub(super) struct Lab {
    sandbox: Sandbox,
    python: Python,
    limits: Limits,
    permits: Arc<Semaphore>,
    cache: Option<Cache>,
    office: Option<Office>,
}

#[derive(Debug, Clone)]
struct Python {
    program: PathBuf,
    /// What it needs outside of `/usr`.
    readable: Vec<PathBuf>,
    /// Its version and that of openpyxl.
    version: String,
}

/// What became of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ran {
    pub(super) verdict: Termination,
    pub(super) stdout: String,
    pub(super) stderr: String,
    /// The files that came out.
    pub(super) files: BTreeMap<String, Arc<[u8]>>,
}

impl Ran {
    /// The workbook that it wrote.
    pub(super) fn output(&self) -> Option<&Arc<[u8]>> {
        self.files.get(OUTPUT)
    }
}

impl From<ExecutionResult> for Ran {
    fn from(outcome: ExecutionResult) -> Self {
        Self {
            verdict: outcome.verdict,
            stdout: outcome.stdout.text(),
            stderr: outcome.stderr.text(),
            files: outcome.files.into_iter().map(|file| (file.name, Arc::from(file.bytes))).collect(),
        }
    }
}

impl Lab {
    /// Opens the sandbox, looks for a Python and has LibreOffice calculate a formula; takes some seconds.
    pub(super) fn open(config: &SpreadsheetConfig) -> Result<Self, EnvError> {
        let sandbox = sandboxed::open(&config.sandbox).map_err(|why| wrong(&why))?;
        let limits =
            Limits { wall: config.program_timeout, memory: config.program_memory, ..Limits::default() };
        let python = Python::find(&sandbox, config)?;
        let n_cores = std::thread::available_parallelism().map_or(1, usize::from);
        let permits = Arc::new(Semaphore::new(config.programs.unwrap_or(n_cores).max(1)));
        let office = match config.recalculate {
            Recalculate::Auto => Office::find(&sandbox, matches!(config.sandbox, Choice::Container(_)))?,
            Recalculate::Never => None,
        };
        let cache = config.cache.as_deref().map(Cache::open);
        Ok(Self { sandbox, python, limits, permits, cache, office })
    }

    /// What there is, for people.
    pub(super) fn describe(&self) -> Vec<String> {
        let (python, openpyxl) = self.python.version.split_once(' ').unwrap_or((&self.python.version, "?"));
        let office = match &self.office {
            Some(office) => format!("formulas are calculated by {}", office.version()),
            None => {
                "formulas are not calculated; LibreOffice is not installed, or `recalculate` is \"never\""
                    .to_owned()
            }
        };
        let off = match self.sandbox.limiting() {
            skill_sandbox::Limiting::Nothing => "; programs can do all that this user can",
            _ => "",
        };
        vec![
            format!(
                "sandbox: {}, memory and processes limited by {}{off}",
                self.sandbox.name(),
                self.sandbox.limiting().as_str()
            ),
            format!("Python {python} with openpyxl {openpyxl} ({})", self.python.program.display()),
            office,
        ]
    }

    /// The office programs that calculate formulas.
    pub(super) fn office(&self) -> Option<&Office> {
        self.office.as_ref()
    }

    pub(super) fn cache(&self) -> Option<&Cache> {
        self.cache.as_ref()
    }

    /// Runs a program on an input.
    pub(super) async fn run(
        &self,
        code: &str,
        input: &Arc<[u8]>,
        cancel: &CancellationToken,
    ) -> Result<Ran, EnvError> {
        let program = self
            .program(SOLUTION, Outputs::Named(vec![OUTPUT.to_owned()]))
            .with_input(SOLUTION, Input::text(code))
            .with_input(INPUT, Input::Bytes(Arc::clone(input)));
        self.start(program, cancel).await
    }

    /// A Python program of the working directory.
    pub(super) fn program(&self, file: &str, outputs: Outputs) -> Program {
        Program {
            outputs,
            readable: self.python.readable.clone(),
            environment: vec![
                ("PYTHONDONTWRITEBYTECODE".to_owned(), "1".to_owned()),
                ("PYTHONIOENCODING".to_owned(), "utf-8".to_owned()),
                // One thread: its libraries would start one for each core of the machine.
                ("OPENBLAS_NUM_THREADS".to_owned(), "1".to_owned()),
            ],
            limits: self.limits,
            ..Program::new([self.python.program.as_os_str(), "-Ic".as_ref(), RUNNER.as_ref(), file.as_ref()])
        }
    }

    /// Runs it when there is a place for it; one that has run before is not run again.
    pub(super) async fn start(&self, program: Program, cancel: &CancellationToken) -> Result<Ran, EnvError> {
        let key = self.cache.as_ref().map(|_| self.key(&program));
        if let (Some(cache), Some(key)) = (&self.cache, &key)
            && let Some(ran) = cache.program(key)
        {
            return Ok(ran);
        }
        let permit = tokio::select! {
            biased;
            () = cancel.cancelled() => return Err(EnvError::Model(LlmError::Cancelled)),
            permit = Arc::clone(&self.permits).acquire_owned() => permit,
        };
        let ran = Ran::from(start(&self.sandbox, program, permit, cancel).await?);
        if let (Some(cache), Some(key)) = (&self.cache, &key) {
            cache.keep_program(key, &ran);
        }
        Ok(ran)
    }

    pub(super) fn sandbox(&self) -> &Sandbox {
        &self.sandbox
    }

    /// All that decides what becomes of a program.
    fn key(&self, program: &Program) -> String {
        let Limits { wall, memory, .. } = program.limits;
        let inputs = program.inputs.iter().map(|(name, input)| match input {
            Input::Bytes(bytes) => json!([name, "fixed", hex_sha256(bytes)]),
            Input::Writable(bytes) => json!([name, "writable", hex_sha256(bytes)]),
            Input::Executable(bytes) => json!([name, "executable", hex_sha256(bytes)]),
            Input::File(path) => json!([name, "file", path.to_string_lossy()]),
        });
        let about = json!([
            "program 2",
            program.command.last().map(|file| file.to_string_lossy()),
            inputs.collect::<Vec<_>>(),
            match &program.outputs {
                Outputs::None => json!([]),
                Outputs::Named(names) => json!(names),
                Outputs::All => json!("all"),
            },
            self.sandbox.name(),
            self.python.version,
            wall.as_millis().to_string(),
            memory,
        ]);
        hex_sha256(about.to_string().as_bytes())
    }
}

/// Runs a program, and says what was wrong with the sandbox as a fault of the set-up.
pub(super) async fn start<P: Send + 'static>(
    sandbox: &Sandbox,
    program: Program,
    permit: P,
    cancel: &CancellationToken,
) -> Result<ExecutionResult, EnvError> {
    sandboxed::start(sandbox, program, permit, cancel).await.map_err(|error| match error {
        RunError::Cancelled => EnvError::Model(LlmError::Cancelled),
        error => wrong(&skill_llm::error::with_causes(&error)),
    })
}

impl Python {
    /// The configured Python, or the first one that can be used.
    fn find(sandbox: &Sandbox, config: &SpreadsheetConfig) -> Result<Self, EnvError> {
        if let Choice::Container(_) = config.sandbox {
            let program = config.python.clone().unwrap_or_else(|| "python3".into());
            return Self::checked(sandbox, program, Vec::new()).map_err(|why| wrong(&why));
        }
        let candidates = match &config.python {
            Some(python) => vec![python.clone()],
            None => vec!["python3".into(), SYSTEM_PYTHON.into()],
        };
        let mut reasons = Vec::new();
        for candidate in candidates {
            match Self::located(&candidate)
                .and_then(|(program, readable)| Self::checked(sandbox, program, readable))
            {
                Ok(python) => return Ok(python),
                Err(why) => reasons.push(format!("{}: {why}", candidate.display())),
            }
        }
        Err(wrong(&format!(
            "there is no Python with openpyxl that programs can use: {}; install both (`apt-get install \
             python3-openpyxl`), or name another Python",
            reasons.join("; ")
        )))
    }

    /// Where a Python lies, and what of it is outside of `/usr`.
    fn located(candidate: &Path) -> Result<(PathBuf, Vec<PathBuf>), String> {
        let output = std::process::Command::new(candidate)
            .args(["-Ic", PLACES])
            .stdin(std::process::Stdio::null())
            .output()
            .map_err(|error| format!("cannot be started ({error})"))?;
        let places: Vec<PathBuf> = serde_json::from_slice(&output.stdout)
            .map_err(|_| format!("is not a Python ({})", String::from_utf8_lossy(&output.stderr).trim()))?;
        let [program, prefix, base] =
            <[PathBuf; 3]>::try_from(places).map_err(|_| "is not a Python".to_owned())?;
        let mut readable: Vec<PathBuf> =
            [prefix, base].into_iter().filter(|path| !path.starts_with("/usr")).collect();
        readable.dedup();
        Ok((program, readable))
    }

    /// A Python that has what it needs, in the sandbox.
    fn checked(sandbox: &Sandbox, program: PathBuf, readable: Vec<PathBuf>) -> Result<Self, String> {
        let asked = Program {
            readable: readable.clone(),
            limits: Limits { wall: Duration::from_secs(60), ..Limits::default() },
            ..Program::new([program.as_os_str(), "-Ic".as_ref(), NEEDED.as_ref()])
        };
        let outcome = sandbox.run(&asked, &Cancel::default());
        let outcome = outcome.map_err(|error| skill_llm::error::with_causes(&error))?;
        let said = said(&outcome);
        let last = said.trim().lines().next_back().unwrap_or_default().to_owned();
        if !outcome.verdict.is_success() {
            return Err(format!("in the sandbox it {}: {last}", outcome.verdict));
        }
        Ok(Self { program, readable, version: last })
    }
}

/// What a program printed: a container has one stream, which is its standard error.
pub(super) fn said(outcome: &ExecutionResult) -> String {
    let stdout = outcome.stdout.text();
    if stdout.trim().is_empty() { outcome.stderr.text() } else { stdout }
}

pub(super) fn wrong(message: &str) -> EnvError {
    EnvError::Configuration { message: message.to_owned() }
}
