//! Skills of several texts with names.

use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use skillrl::core::{Region, RegionKind, SkillDoc, SkillPackage, protected_regions};

/// The name of the first text.
const MAIN: &str = "SKILL.md";

/// The texts of a skill by the names of its files, `SKILL.md` first, as a program puts them back: without front matter
/// and without the markers of regions.
pub(crate) fn texts_of(skill: &SkillDoc) -> Vec<(String, String)> {
    let SkillPackage { main, references, .. } = SkillPackage::of(skill);
    let main = SkillDoc::new(main).agent_view().to_string();
    let references = references.iter().map(|(path, text)| (path.clone(), plain(text)));
    std::iter::once((MAIN.to_owned(), plain(&main))).chain(references).collect()
}

/// A text without the lines that mark regions; a region without a text leaves nothing.
fn plain(text: &str) -> String {
    let is_marked = |region: &Region| region.kind != RegionKind::FrontMatter;
    if !protected_regions(text).iter().any(is_marked) {
        return text.to_owned();
    }
    let mut plain = text.to_owned();
    for kind in [RegionKind::SlowUpdate, RegionKind::Appendix] {
        let Some((start, end)) = kind.markers() else { continue };
        plain = plain.replace(start, "").replace(end, "");
    }
    let lines: Vec<&str> = plain.trim_end().lines().collect();
    let mut kept: Vec<&str> = Vec::with_capacity(lines.len());
    for line in lines {
        // What was around a region that is empty.
        if !(line.trim().is_empty() && kept.last().is_some_and(|last| last.trim().is_empty())) {
            kept.push(line);
        }
    }
    kept.join("\n") + "\n"
}

/// A skill of these texts, the first of which is its `SKILL.md`.
pub(crate) fn of_texts(texts: Vec<(String, String)>) -> PyResult<SkillDoc> {
    let mut texts = texts.into_iter();
    let (_, main) = texts.next().unwrap_or_default();
    let package = SkillPackage { main, references: texts.collect(), ..SkillPackage::default() };
    package.document().map_err(|fault| PyValueError::new_err(fault.to_string()))
}

/// The texts of a skill in a file of a run.
#[pyfunction]
pub(crate) fn skill_texts(source: String) -> Vec<(String, String)> {
    texts_of(&SkillDoc::new(source))
}

/// The rows of a data file, each as JSON.
#[pyfunction]
pub(crate) fn data_rows(
    py: Python<'_>,
    path: std::path::PathBuf,
    into: std::path::PathBuf,
) -> PyResult<usize> {
    let written = py.detach(|| skillrl::envs::tasks::write_json_lines(&[path], &into));
    written.map_err(|error| PyValueError::new_err(error.to_string()))
}

/// The traces of a file as JSON: `tasks`, `system`, `n_left_out`, and in `leaks` the ids of those whose answer is a part of the
/// input.
#[pyfunction]
pub(crate) fn read_traces(py: Python<'_>, path: std::path::PathBuf) -> PyResult<String> {
    let read = py.detach(|| skillrl::envs::tasks::Traces::read(&path));
    let traces = read.map_err(|error| match &error {
        skillrl::envs::EnvError::ReadData { .. } => {
            PyOSError::new_err(skillrl::llm::error::with_causes(&error))
        }
        _ => PyValueError::new_err(error.to_string()),
    })?;
    let leaks = traces.tasks.iter().filter(|task| task.contains_answer()).map(|task| &task.id);
    let leaks: Vec<&String> = leaks.collect();
    Ok(serde_json::json!({
        "tasks": traces.tasks, "system": traces.system, "n_left_out": traces.n_left_out, "leaks": leaks,
    })
    .to_string())
}
