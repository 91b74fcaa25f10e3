//! Formulas calculated by LibreOffice, in the sandbox: workbooks of agents are no more trusted than their programs.
//!
//! A process takes a second to begin and a tenth for each further workbook, so all that wait are calculated by one.

use super::cache::Cache;
use super::lab::{said, start, wrong};
use super::xlsx::{Area, Workbook};
use crate::error::EnvError;
use parking_lot::Mutex;
use skill_core::canonical::hex_sha256;
use skill_sandbox::{Cancel, ExecutionResult, Input, Limits, Outputs, Program, Sandbox};
use std::collections::VecDeque;
use std::io::{Cursor, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Semaphore, oneshot};
use tokio_util::sync::CancellationToken;
use zip::ZipWriter;
use zip::result::ZipError;
use zip::write::SimpleFileOptions;

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
    /// LibreOffice, where it is installed: in the image where programs run in containers, else on this machine.
    ///
    /// # Errors
    ///
    /// One that is installed and does not calculate a workbook.
    pub(super) fn find(sandbox: &Sandbox, is_in_image: bool) -> Result<Option<Self>, EnvError> {
        let found = if is_in_image { Self::of_image(sandbox)? } else { Self::of_machine() };
        if let Some(office) = &found {
            let sample = sample().map_err(|error| wrong(&format!("cannot make a workbook: {error}")))?;
            office.check(&blocking(sandbox, &office.conversion(&[sample.into()]).0)?)?;
        }
        Ok(found)
    }

    fn of_machine() -> Option<Self> {
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
        Some(Self::new(program, readable, version))
    }

    fn of_image(sandbox: &Sandbox) -> Result<Option<Self>, EnvError> {
        let limits =
            Limits { wall: STARTING, cpu: STARTING, memory: MEMORY, processes: 256, ..Limits::default() };
        let look = Program { limits, ..Program::new(["/bin/sh", "-c", LOOK]) };
        let found = said(&blocking(sandbox, &look)?);
        let mut lines = found.lines();
        let program = lines.find_map(|line| line.strip_prefix(FOUND));
        Ok(program
            .map(|program| Self::new(program.into(), Vec::new(), lines.next().map_or_else(unnamed, named))))
    }

    fn new(program: PathBuf, readable: Vec<PathBuf>, version: String) -> Self {
        Self { program, readable, version, turn: Arc::new(Semaphore::new(1)), waiting: Mutex::default() }
    }

    /// An error of the set-up where the calculation of [`sample`] has come to another number, or to none.
    fn check(&self, outcome: &ExecutionResult) -> Result<(), EnvError> {
        let calculated = outcome.file("out/0.xlsx").and_then(|bytes| {
            let cells = Workbook::open(bytes.into()).ok()?.cells(0, &[Area::WHOLE]).ok()?;
            cells.get(&(1, 1))?.number
        });
        if calculated == Some(SAMPLE_VALUE) {
            return Ok(());
        }
        let last = said(outcome);
        let last = last.trim().lines().next_back().unwrap_or("nothing was printed");
        Err(wrong(&format!(
            "{} ({}) does not calculate a workbook: it {}: {last}; repair it (`apt-get install --reinstall \
             libreoffice-calc`), or set `recalculate` to \"never\", by which formulas without a stored value are empty",
            self.version,
            self.program.display(),
            outcome.verdict
        )))
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
        let mut rest: VecDeque<(Waiting, Option<Arc<[u8]>>)> = batch.into_iter().zip(outputs).collect();
        while let Some((one, output)) = rest.pop_front() {
            let calculated = match output {
                Some(bytes) => Ok(Ok(bytes)),
                None => self.alone(sandbox, &one.bytes, cancel).await,
            };
            match calculated {
                // A rollout that was given up does not listen.
                Ok(calculated) => drop(one.done.send(calculated)),
                Err(error) => {
                    self.give_back(std::iter::once(one).chain(rest.into_iter().map(|(one, _)| one)));
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Converts one workbook, and where nothing comes of it, asks whether anything is calculated at all.
    async fn alone(
        &self,
        sandbox: &Sandbox,
        bytes: &Arc<[u8]>,
        cancel: &CancellationToken,
    ) -> Result<Calculated, EnvError> {
        let (outputs, ended) = self.process(sandbox, &[Arc::clone(bytes)], cancel).await?;
        if let Some(bytes) = outputs.into_iter().next().flatten() {
            return Ok(Ok(bytes));
        }
        let sample = sample().map_err(|error| wrong(&format!("cannot make a workbook: {error}")))?;
        self.check(&start(sandbox, self.conversion(&[sample.into()]).0, (), cancel).await?)?;
        Ok(Err(format!("LibreOffice did not calculate the workbook ({ended})")))
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
        let (program, outputs) = self.conversion(workbooks);
        let outcome = start(sandbox, program, (), cancel).await?;
        let outputs = outputs.iter().map(|name| outcome.file(name).map(Arc::from));
        Ok((outputs.collect(), format!("LibreOffice {}", outcome.verdict)))
    }

    /// The process that converts these workbooks, and the names of what comes out.
    fn conversion(&self, workbooks: &[Arc<[u8]>]) -> (Program, Vec<String>) {
        let outputs: Vec<String> = (0..workbooks.len()).map(|number| format!("out/{number}.xlsx")).collect();
        let n_workbooks = u32::try_from(workbooks.len()).unwrap_or(u32::MAX);
        let wall = STARTING + EACH * n_workbooks;
        let mut program = Program {
            outputs: Outputs::Named(outputs.clone()),
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
        // Unpacked by the program's user: an engine would make the folders of a mounted file as root.
        .with_input("profile/user/registrymodifications.xcu", Input::Writable(SETTINGS.as_bytes().into()));
        for (number, bytes) in workbooks.iter().enumerate() {
            program = program.with_input(format!("in/{number}.xlsx"), Input::Bytes(Arc::clone(bytes)));
        }
        (program, outputs)
    }
}

/// Looks for LibreOffice where it runs.
const LOOK: &str = r#"for name in soffice libreoffice; do path=$(command -v $name) && echo "found $path" && exec "$path" --version; done; exit 0"#;
const FOUND: &str = "found ";
/// What the only cell of [`sample`] comes to; another value is stored, as by a program that has changed the workbook.
const SAMPLE_VALUE: f64 = 42.0;

/// A workbook with one formula.
fn sample() -> Result<Vec<u8>, ZipError> {
    workbook_of("<f>6*7</f><v>1</v>")
}

/// A workbook with one cell, as small as it can be.
fn workbook_of(cell: &str) -> Result<Vec<u8>, ZipError> {
    let links = "http://schemas.openxmlformats.org/officeDocument/2006/relationships";
    let parts = "http://schemas.openxmlformats.org/package/2006";
    let main = "http://schemas.openxmlformats.org/spreadsheetml/2006/main";
    let kind = "application/vnd.openxmlformats-officedocument.spreadsheetml";
    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, text) in [
        (
            "[Content_Types].xml",
            format!(
                r#"<Types xmlns="{parts}/content-types"><Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/><Override PartName="/xl/workbook.xml" ContentType="{kind}.sheet.main+xml"/><Override PartName="/xl/worksheets/sheet1.xml" ContentType="{kind}.worksheet+xml"/></Types>"#
            ),
        ),
        (
            "_rels/.rels",
            format!(
                r#"<Relationships xmlns="{parts}/relationships"><Relationship Id="r1" Type="{links}/officeDocument" Target="xl/workbook.xml"/></Relationships>"#
            ),
        ),
        (
            "xl/workbook.xml",
            format!(
                r#"<workbook xmlns="{main}" xmlns:r="{links}"><sheets><sheet name="A" sheetId="1" r:id="r1"/></sheets></workbook>"#
            ),
        ),
        (
            "xl/_rels/workbook.xml.rels",
            format!(
                r#"<Relationships xmlns="{parts}/relationships"><Relationship Id="r1" Type="{links}/worksheet" Target="worksheets/sheet1.xml"/></Relationships>"#
            ),
        ),
        (
            "xl/worksheets/sheet1.xml",
            format!(
                r#"<worksheet xmlns="{main}"><sheetData><row r="1"><c r="A1">{cell}</c></row></sheetData></worksheet>"#
            ),
        ),
    ] {
        archive.start_file(name, SimpleFileOptions::default())?;
        archive.write_all(text.as_bytes())?;
    }
    Ok(archive.finish()?.into_inner())
}

/// Runs a program while the sandbox is opened, before anything is asynchronous.
fn blocking(sandbox: &Sandbox, program: &Program) -> Result<ExecutionResult, EnvError> {
    sandbox.run(program, &Cancel::default()).map_err(|error| wrong(&skill_llm::error::with_causes(&error)))
}

fn version_of(program: &Path) -> String {
    let output =
        std::process::Command::new(program).arg("--version").stdin(std::process::Stdio::null()).output();
    output.map_or_else(|_| unnamed(), |output| named(&String::from_utf8_lossy(&output.stdout)))
}

/// The name and version at the beginning of a line that a program printed about itself.
fn named(said: &str) -> String {
    let words: Vec<&str> = said.split_whitespace().take(2).collect();
    if words.is_empty() { unnamed() } else { words.join(" ") }
}

/// A program that prints nothing is one without a version.
fn unnamed() -> String {
    "LibreOffice".to_owned()
}

/// An error of the set-up: formulas have no values, and nothing here gives them any.
pub(super) fn missing(n_formulas: usize) -> EnvError {
    wrong(&format!(
        "{n_formulas} cells of the answer hold formulas without a stored value, and LibreOffice is not installed to \
         calculate them; install it (`apt-get install --no-install-recommends libreoffice-calc`), or set \
         `recalculate` to \"never\", by which such cells are empty"
    ))
}

#[cfg(all(test, unix))]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;
    use skill_sandbox::Choice;
    use std::os::unix::fs::PermissionsExt as _;

    /// An office program that does this with `in/*.xlsx`.
    fn office(directory: &Path, script: &str) -> Office {
        let path = directory.join("soffice");
        std::fs::write(&path, format!("#!/bin/sh\nmkdir out; {script}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        Office::new(path, Vec::new(), "LibreOffice 9".to_owned())
    }

    fn sandbox() -> Sandbox {
        Sandbox::open(&Choice::Off).unwrap()
    }

    fn check(office: &Office) -> Result<(), EnvError> {
        office.check(&blocking(&sandbox(), &office.conversion(&[sample().unwrap().into()]).0).unwrap())
    }

    #[tokio::test]
    async fn a_program_that_calculates_nothing_is_an_error_of_the_set_up() {
        let directory = tempfile::tempdir().unwrap();
        for script in [
            "exit 1",
            "exit 0",
            // What is stored is not what the formula comes to.
            "cp in/* out",
            "echo text >out/0.xlsx",
        ] {
            let office = office(directory.path(), script);
            assert!(matches!(check(&office), Err(EnvError::Configuration { .. })), "{script}");
            if !script.contains("out") {
                let workbook = Arc::from(&b"of an agent"[..]);
                let calculated =
                    office.calculate(&sandbox(), None, workbook, &CancellationToken::new()).await;
                assert!(
                    matches!(calculated, Err(EnvError::Configuration { .. })),
                    "{script}: {calculated:?}"
                );
            }
        }
    }

    #[tokio::test]
    async fn a_workbook_that_cannot_be_calculated_is_no_fault_of_the_set_up() {
        let directory = tempfile::tempdir().unwrap();
        let right = directory.path().join("right");
        std::fs::write(&right, workbook_of("<v>42</v>").unwrap()).unwrap();
        let script = format!("grep -q damaged in/0.xlsx || cp {} out/0.xlsx", right.display());
        let office = office(directory.path(), &script);
        check(&office).unwrap();
        let workbook = Arc::from(&b"a damaged workbook"[..]);
        let calculated = office.calculate(&sandbox(), None, workbook, &CancellationToken::new()).await;
        assert!(matches!(calculated, Ok(Err(_))), "{calculated:?}");
    }

    #[test]
    fn a_program_of_one_stream_is_read_too() {
        for script in ["echo 'found 1'", "echo 'found 1' >&2"] {
            let outcome = blocking(&sandbox(), &Program::new(["/bin/sh", "-c", script])).unwrap();
            assert_eq!(said(&outcome).trim(), "found 1");
        }
    }
}
