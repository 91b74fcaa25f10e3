//! The tools of an agent that works in a directory: files that it writes and reads, and programs that it runs.

use super::feedback::{failure, printed};
use super::lab::{INPUT, Lab, OUTPUT, Ran, SOLUTION};
use super::preview::preview;
use crate::error::EnvError;
use serde_json::{Map, Value, json};
use skill_llm::ToolSpec;
use skill_sandbox::{Input, Outputs};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// How much of what is printed or read is shown.
const SHOWN_CHARS: usize = 4_000;
/// The most bytes of all files of the directory.
const MAX_BYTES: usize = 64 << 20;

/// The directory of an agent, between its programs.
#[derive(Debug)]
pub(super) struct Desk {
    input: Arc<[u8]>,
    files: BTreeMap<String, Arc<[u8]>>,
}

/// What the model is offered.
pub(super) fn specs() -> Vec<ToolSpec> {
    let spec = |name: &str, description: &str, properties: Value, required: Value| ToolSpec {
        name: name.to_owned(),
        description: description.to_owned(),
        parameters: json!({"type": "object", "properties": properties, "required": required}),
    };
    let path =
        json!({"type": "string", "description": "a path in the working directory, such as solution.py"});
    vec![
        spec(
            "write_file",
            "Writes a text file in the working directory; replaces an existing one.",
            json!({"path": path, "content": {"type": "string"}}),
            json!(["path", "content"]),
        ),
        spec(
            "read_file",
            "Shows a text file of the working directory.",
            json!({"path": path}),
            json!(["path"]),
        ),
        spec(
            "run_python",
            "Runs a Python file in the working directory and shows its output. Files that it writes there are kept.",
            json!({"path": path}),
            json!(["path"]),
        ),
    ]
}

impl Desk {
    pub(super) fn new(input: Arc<[u8]>) -> Self {
        Self { input, files: BTreeMap::new() }
    }

    /// The program that is run in the end.
    pub(super) fn solution(&self) -> Option<String> {
        self.files.get(SOLUTION).map(|bytes| String::from_utf8_lossy(bytes).into_owned())
    }

    /// Carries out a call; what is wrong with it is told to the agent.
    pub(super) async fn call(
        &mut self,
        lab: &Lab,
        tool: &str,
        arguments: &Map<String, Value>,
        cancel: &CancellationToken,
    ) -> Result<String, EnvError> {
        let text = |name: &str| arguments.get(name).and_then(Value::as_str);
        let Some(path) = text("path").map(|path| path.trim_start_matches("./").trim_start_matches("/work/"))
        else {
            return Ok("error: `path` is missing; it is a text".to_owned());
        };
        match tool {
            "write_file" => Ok(match text("content") {
                Some(content) => self.write(path, content),
                None => "error: `content` is missing; it is a text".to_owned(),
            }),
            "read_file" => Ok(self.read(path)),
            "run_python" => self.run(lab, path, cancel).await,
            other => Ok(format!(
                "error: there is no tool {other:?}; there are write_file, read_file and run_python"
            )),
        }
    }

    fn write(&mut self, path: &str, content: &str) -> String {
        if path == INPUT {
            return format!("error: {INPUT} cannot be changed");
        }
        let is_plain = !path.is_empty()
            && path.split('/').all(|part| {
                !part.is_empty() && part != "." && part != ".." && !part.contains(['\'', '\n', '\0'])
            });
        if !is_plain {
            return format!("error: {path:?} is not a path in the working directory");
        }
        let n_bytes: usize = self.files.values().map(|bytes| bytes.len()).sum();
        if n_bytes + content.len() > MAX_BYTES {
            return format!("error: the files of the working directory have at most {MAX_BYTES} bytes");
        }
        self.files.insert(path.to_owned(), Arc::from(content.as_bytes()));
        format!("{path} is written: {} bytes", content.len())
    }

    fn read(&self, path: &str) -> String {
        if path == INPUT {
            return preview(Arc::clone(&self.input));
        }
        match self.files.get(path) {
            Some(bytes) if bytes.starts_with(b"PK") => preview(Arc::clone(bytes)),
            Some(bytes) => clipped(&String::from_utf8_lossy(bytes)),
            None => {
                let names: Vec<&str> =
                    std::iter::once(INPUT).chain(self.files.keys().map(String::as_str)).collect();
                format!("error: there is no file {path:?}; there are {}", names.join(", "))
            }
        }
    }

    async fn run(&mut self, lab: &Lab, path: &str, cancel: &CancellationToken) -> Result<String, EnvError> {
        if !self.files.contains_key(path) {
            return Ok(self.read(path));
        }
        // What an earlier run left is not taken for what this one writes.
        self.files.remove(OUTPUT);
        let mut program =
            lab.program(path, Outputs::All).with_input(INPUT, Input::Bytes(Arc::clone(&self.input)));
        for (name, bytes) in &self.files {
            program = program.with_input(name.as_str(), Input::Writable(Arc::clone(bytes)));
        }
        let ran = lab.start(program, cancel).await?;
        let n_bytes: usize = ran.files.values().map(|bytes| bytes.len()).sum();
        // A program that was killed has left nothing, and what was there before stays.
        if !ran.files.is_empty() && n_bytes <= MAX_BYTES {
            self.files.clone_from(&ran.files);
        }
        Ok(shown(&ran, path))
    }
}

/// What came of a run.
fn shown(ran: &Ran, path: &str) -> String {
    let is_solution = path == SOLUTION;
    let fault = if is_solution || !ran.verdict.is_success() { failure(ran) } else { None };
    let mut text = match &fault {
        Some(fault) => format!("error: {fault}."),
        None => "It ran.".to_owned(),
    };
    text.push_str(&printed("It printed", &ran.stdout, SHOWN_CHARS));
    text.push_str(&printed("Its errors", &ran.stderr, SHOWN_CHARS));
    if let (None, Some(output)) = (&fault, ran.output()) {
        text.push_str(&format!("\n\nThe workbook at OUTPUT_PATH:\n\n{}", preview(Arc::clone(output))));
    }
    text
}

fn clipped(text: &str) -> String {
    if text.chars().count() <= SHOWN_CHARS {
        return text.to_owned();
    }
    let kept: String = text.chars().take(SHOWN_CHARS).collect();
    format!("{kept}\n[the rest is left out]")
}
