//! Formulas calculated by LibreOffice, in the sandbox: workbooks of agents are no more trusted than their programs.
//!
//! A process takes a second to begin and a tenth for each further workbook, so all that wait are calculated by one.

use super::cache::Cache;
use super::lab::{start, wrong};
use crate::error::EnvError;
use parking_lot::Mutex;
use skill_core::canonical::hex_sha256;
use skill_sandbox::{Input, Limits, Outputs, Program, Sandbox};
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Semaphore, oneshot};
use tokio_util::sync::CancellationToken;

/// The most workbooks of one process.
const MAX_BATCH: usize = 25;
/// How long a process may take to begin, and for each workbook.
const STARTING: Duration = Duration::from_secs(30);
const EACH: Duration = Duration::from_secs(30);
const MEMORY: u64 = 3 << 30;
/// What it reads besides `/usr`.
const READABLE: [&str; 3] = ["/etc/libreoffice", "/etc/fonts", "/var/cache/fontconfig"];
/// Its settings: all formulas are calculated when a file is loaded, whatever values are stored.
const SETTINGS: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<oor:items xmlns:oor="http://openoffice.org/2001/registry" xmlns:xs="http://www.w3.org/2001/XMLSchema" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance">
<item oor:path="/org.openoffice.Office.Calc/Formula/Load"><prop oor:name="OOXMLRecalcMode" oor:op="fuse"><value>0</value></prop></item>
</oor:items>
"#;
/// Converts every workbook of `in` into `out`.
const SCRIPT: &str = r#"exec "$0" "-env:UserInstallation=file://$PWD/profile" --headless --calc --convert-to "xlsx:Calc MS Excel 2007 XML" --outdir out in/*.xlsx"#;

/// LibreOffice.
#[derive(Debug)]
pub(super) struct Office {
    program: PathBuf,
    readable: Vec<PathBuf>,
    version: String,
    /// One process at a time.
    turn: Arc<Semaphore>,
    waiting: Mutex<VecDeque<Waiting>>,
}

/// A workbook that is to be calculated.
#[derive(Debug)]
struct Waiting {
    bytes: Arc<[u8]>,
    done: oneshot::Sender<Calculated>,
}

/// A calculated workbook, or why there is none.
pub(super) type Calculated = Result<Arc<[u8]>, String>;

impl Office {
    /// LibreOffice, where it is installed.
    pub(super) fn find() -> Option<Self> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let found = std::env::split_paths(&path)
            .flat_map(|directory| ["soffice", "libreoffice"].map(|name| directory.join(name)))
            .find(|path| path.is_file())?;
        let program = found.canonicalize().ok()?;
        let mut readable: Vec<PathBuf> =
            READABLE.iter().map(PathBuf::from).filter(|path| path.exists()).collect();
        if !program.starts_with("/usr") {
            // `program/soffice` in the directory of an installation elsewhere.
            readable.push(program.ancestors().nth(2).unwrap_or(Path::new("/nowhere")).to_owned());
        }
        let version = version_of(&program);
        Some(Self {
            program,
            readable,
            version,
            turn: Arc::new(Semaphore::new(1)),
            waiting: Mutex::default(),
        })
    }

    /// Its name and version.
    pub(super) fn version(&self) -> &str {
        &self.version
    }

    /// Calculates all formulas of a workbook.
    ///
    /// # Errors
    ///
    /// The sandbox, never the workbook: of one that cannot be calculated the reason is the outcome.
    pub(super) async fn calculate(
        &self,
        sandbox: &Sandbox,
        cache: Option<&Cache>,
        bytes: Arc<[u8]>,
        cancel: &CancellationToken,
    ) -> Result<Calculated, EnvError> {
        let about = format!("calculation 1 {} {}", self.version, hex_sha256(&bytes));
        let key = hex_sha256(about.as_bytes());
        if let Some(bytes) = cache.and_then(|cache| cache.calculated(&key)) {
            return Ok(Ok(bytes));
        }
        let (done, mut own) = oneshot::channel();
        self.waiting.lock().push_back(Waiting { bytes, done });
        let calculated = loop {
            // Whoever has the turn may have taken this workbook along.
            let turn = tokio::select! {
                biased;
                done = &mut own => break done,
                () = cancel.cancelled() => return Err(EnvError::Model(skill_llm::LlmError::Cancelled)),
                turn = Arc::clone(&self.turn).acquire_owned() => turn,
            };
            let batch: Vec<Waiting> = {
                let mut waiting = self.waiting.lock();
                // Those whose rollout was given up need nothing.
                waiting.retain(|one| !one.done.is_closed());
                let n_batch = waiting.len().min(MAX_BATCH);
                waiting.drain(..n_batch).collect()
            };
            self.convert(sandbox, batch, cancel).await?;
            drop(turn);
        };
        let calculated = calculated.unwrap_or_else(|_| Err("the calculation was given up".to_owned()));
        if let (Some(cache), Ok(bytes)) = (cache, &calculated) {
            cache.keep_calculated(&key, bytes);
        }
        Ok(calculated)
    }

    /// Converts a batch, and each workbook of which nothing came once more alone.
    async fn convert(
        &self,
        sandbox: &Sandbox,
        batch: Vec<Waiting>,
        cancel: &CancellationToken,
    ) -> Result<(), EnvError> {
        let all: Vec<Arc<[u8]>> = batch.iter().map(|one| Arc::clone(&one.bytes)).collect();
        let outputs = match self.process(sandbox, &all, cancel).await {
            Ok((outputs, _)) => outputs,
            Err(error) => {
                self.give_back(batch);
                return Err(error);
            }
        };
        let is_alone = batch.len() == 1;
        let mut rest: VecDeque<(Waiting, Option<Arc<[u8]>>)> = batch.into_iter().zip(outputs).collect();
        while let Some((one, output)) = rest.pop_front() {
            let calculated = match output {
                Some(bytes) => Ok(bytes),
                None if is_alone => Err(NOT_CALCULATED.to_owned()),
                None => match self.process(sandbox, &[Arc::clone(&one.bytes)], cancel).await {
                    Ok((outputs, said)) => outputs
                        .into_iter()
                        .next()
                        .flatten()
                        .ok_or_else(|| format!("{NOT_CALCULATED} ({said})")),
                    Err(error) => {
                        self.give_back(std::iter::once(one).chain(rest.into_iter().map(|(one, _)| one)));
                        return Err(error);
                    }
                },
            };
            // A rollout that was given up does not listen.
            drop(one.done.send(calculated));
        }
        Ok(())
    }

    /// Those who wait besides the one that failed have their own turn.
    fn give_back(&self, batch: impl IntoIterator<Item = Waiting>) {
        self.waiting.lock().extend(batch);
    }

    /// One process; what came of each workbook, and how the process ended.
    async fn process(
        &self,
        sandbox: &Sandbox,
        workbooks: &[Arc<[u8]>],
        cancel: &CancellationToken,
    ) -> Result<(Vec<Option<Arc<[u8]>>>, String), EnvError> {
        let names: Vec<String> = (0..workbooks.len()).map(|number| format!("{number}.xlsx")).collect();
        let n_workbooks = u32::try_from(workbooks.len()).unwrap_or(u32::MAX);
        let wall = STARTING + EACH * n_workbooks;
        let mut program = Program {
            outputs: Outputs::Named(names.iter().map(|name| format!("out/{name}")).collect()),
            readable: self.readable.clone(),
            limits: Limits {
                wall,
                cpu: wall,
                memory: MEMORY,
                processes: 256,
                open_files: 1024,
                disk: 1 << 30,
                file: 256 << 20,
                output: 512 << 20,
                ..Limits::default()
            },
            ..Program::new(["/bin/sh".as_ref(), "-c".as_ref(), SCRIPT.as_ref(), self.program.as_os_str()])
        }
        .with_input("profile/user/registrymodifications.xcu", Input::text(SETTINGS));
        for (name, bytes) in names.iter().zip(workbooks) {
            program = program.with_input(format!("in/{name}"), Input::Bytes(Arc::clone(bytes)));
        }
        let outcome = start(sandbox, program, (), cancel).await?;
        let outputs = names.iter().map(|name| outcome.file(&format!("out/{name}")).map(Arc::from));
        Ok((outputs.collect(), format!("LibreOffice {}", outcome.verdict)))
    }
}

const NOT_CALCULATED: &str = "LibreOffice did not calculate the workbook";

fn version_of(program: &Path) -> String {
    // A program that prints nothing is one without a version.
    let output =
        std::process::Command::new(program).arg("--version").stdin(std::process::Stdio::null()).output();
    let said =
        output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default();
    let words: Vec<&str> = said.split_whitespace().take(2).collect();
    if words.is_empty() { "LibreOffice".to_owned() } else { words.join(" ") }
}

/// An error of the set-up: formulas have no values, and nothing here gives them any.
pub(super) fn missing(n_formulas: usize) -> EnvError {
    wrong(&format!(
        "{n_formulas} cells of the answer hold formulas without a stored value, and LibreOffice is not installed to \
         calculate them; install it (`apt-get install --no-install-recommends libreoffice-calc`), or set \
         `recalculate` to \"never\", by which such cells are empty"
    ))
}
