//! Conversations of an agent in use as rows of data, which a person can look through before training.

use crate::args::DataArgs;
use crate::files::write_with_parents;
use skillrl::envs::tasks::{DataSample, Traces, trace_layout};
use std::path::{Path, PathBuf};

/// The field with the recorded answer.
pub(super) const ANSWER: &str = "answer";
/// Where the rows are written.
const DIR: &str = "data";

/// The rows of a file of traces.
pub(super) struct Rows {
    /// One row for each trace, with the fields `id`, `text` and, where one is recorded, `answer`.
    pub(super) data: PathBuf,
    /// Whether any answer is recorded.
    pub(super) has_answers: bool,
    /// The system prompt of most traces: the initial skill.
    pub(super) prompt: Option<PathBuf>,
    /// What a person should know of it, line by line.
    pub(super) said: Vec<String>,
}

/// Writes the rows of a file of traces; `None` for other data, and where a field beside the conversation is the answer.
///
/// Files that are there stay as they are: a person may have removed wrong answers.
///
/// # Errors
///
/// Traces that cannot be read, and files that cannot be written.
pub(super) fn rows_of(data: &Path, args: &DataArgs) -> crate::Result<Option<Rows>> {
    let Some(layout) = trace_layout(data).map_err(skillrl::Error::Env)? else { return Ok(None) };
    if let Some(answer) = &args.answer
        && let Ok(sample) = DataSample::read(data)
        && layout.has_beside(&sample, answer)
    {
        return Ok(None);
    }
    let traces = Traces::read(data).map_err(skillrl::Error::Env)?;
    let stem = data.file_stem().and_then(|stem| stem.to_str()).unwrap_or("traces");
    let rows = Path::new(DIR).join(format!("{stem}-rows.jsonl"));
    let prompt = Path::new(DIR).join(format!("{stem}-prompt.md"));
    let mut said = Vec::new();
    let n_traces = traces.tasks.len();
    let has_answers = traces.tasks.iter().any(|task| !task.reference.is_empty());
    if rows.exists() {
        said.push(format!(
            "{} is there and used as it is; delete it to read {} again",
            rows.display(),
            data.display()
        ));
    } else {
        write_with_parents(&rows, text_of(&traces, has_answers).as_bytes())?;
        said.push(format!(
            "{n_traces} conversations ({}) are the rows of {}: remove those whose recorded answer is wrong",
            layout.name,
            rows.display()
        ));
    }
    let has_prompt = !traces.system.is_empty();
    if has_prompt && !prompt.exists() {
        write_with_parents(&prompt, traces.system.as_bytes())?;
    }
    if has_prompt {
        said.push(format!(
            "the system prompt of most conversations is the initial skill: {}",
            prompt.display()
        ));
    }
    if traces.n_left_out > 0 {
        said.push(format!("warning: records without a question are left out: {}", traces.n_left_out));
    }
    let n_leaks = traces.tasks.iter().filter(|task| task.contains_answer()).count();
    if n_leaks > 0 {
        said.push(format!(
            "warning: the answer is part of the input of {n_leaks} of {n_traces} conversations: scores on these tell nothing"
        ));
    }
    Ok(Some(Rows { data: rows, has_answers, prompt: has_prompt.then_some(prompt), said }))
}

/// A row of JSON for each trace.
fn text_of(traces: &Traces, has_answers: bool) -> String {
    let rows = traces.tasks.iter().map(|task| {
        let (id, text) = (&task.id, task.prompt());
        let row = match has_answers {
            true => serde_json::json!({"id": id, "text": text, ANSWER: task.reference}),
            false => serde_json::json!({"id": id, "text": text}),
        };
        format!("{row}\n")
    });
    rows.collect()
}
