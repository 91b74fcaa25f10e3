//! Case folders of `claude plugin eval`: `prompt.md` or `case.yaml`, `graders/*.md`, `scaffold.sh`.

use super::case::{Case, bad_case};
use super::check_form;
use super::fixture;
use crate::error::{EnvError, read_error};
use crate::item::Split;
use crate::within::within;
use serde_json::{Map, Value};
use skill_core::member::{self, WrongType};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

const PROMPT: &str = "prompt.md";
const CASE: &str = "case.yaml";
const GRADERS: &str = "graders";
const SCAFFOLD: &str = "scaffold.sh";
/// Folders whose files are the project.
const FILES: [&str; 3] = ["fixture", "files", "workspace"];

/// The case folders below a folder, in the order of their names; empty where there is none.
pub(super) fn folders(dir: &Path) -> Result<Vec<PathBuf>, EnvError> {
    Ok(entries(dir)?.into_iter().filter(|path| is_case(path)).collect())
}

/// What is in a folder, by name; nothing if it is not there.
fn entries(dir: &Path) -> Result<Vec<PathBuf>, EnvError> {
    let entries = match std::fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(read_error(dir, error)),
    };
    let paths = entries.map(|entry| entry.map(|entry| entry.path()));
    let mut paths = paths.collect::<Result<Vec<_>, _>>().map_err(|error| read_error(dir, error))?;
    paths.sort();
    Ok(paths)
}

/// True for a folder of a case.
pub(super) fn is_case(dir: &Path) -> bool {
    dir.join(PROMPT).is_file() || dir.join(CASE).is_file()
}

/// The case of a folder.
pub(super) fn case(dir: &Path) -> Result<Case, EnvError> {
    let place = dir.display().to_string();
    let wrong = |message: String| bad_case(&place, &message);
    let of_type = |error: WrongType| wrong(format!("{CASE}: {error}"));
    let whole = match read(&dir.join(CASE))? {
        Some(text) => yaml(&text).map_err(|what| wrong(format!("{CASE} {what}")))?,
        None => Map::new(),
    };
    let body = match read(&dir.join(PROMPT))? {
        Some(text) => fronted(&text).map_err(|what| wrong(format!("{PROMPT} {what}")))?.1,
        None => String::new(),
    };
    let text = |name: &str| member::text(&whole, name).map_err(of_type);
    let execution = member::object(&whole, "execution").map_err(of_type)?;
    let executed = execution.map(|execution| member::text(execution, "prompt")).transpose();
    let in_case = executed.map_err(of_type)?.flatten().or(text("prompt")?);
    let prompt = match body.trim() {
        // What is missing is named below.
        "" => in_case.unwrap_or_default().trim().to_owned(),
        body => body.to_owned(),
    };
    if prompt.is_empty() {
        return Err(wrong(
            "has no prompt in prompt.md and none in `execution.prompt` of case.yaml".to_owned(),
        ));
    }
    let mut graders: Vec<(String, Value)> = Vec::new();
    let listed = member::list(&whole, "graders").map_err(of_type)?;
    for (idx, grader) in listed.into_iter().flatten().enumerate() {
        graders.push((format!("grader {} of {CASE}", idx + 1), grader.clone()));
    }
    let is_markdown = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "md");
    for path in entries(&dir.join(GRADERS))?.into_iter().filter(is_markdown) {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let text = skill_llm::text_file::read(&path).map_err(|error| read_error(&path, error))?;
        graders.push((
            format!("{GRADERS}/{name}"),
            grader(&text).map_err(|what| wrong(format!("{GRADERS}/{name} {what}")))?,
        ));
    }
    let (mut checks, mut guards, mut shown_only) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
    for (name, value) in &graders {
        let wrong = |what: String| wrong(format!("the grader {name} {what}"));
        if check_form::is_guard(value).map_err(wrong)? {
            guards.insert(checks.len());
        }
        if check_form::is_shown_only(value).map_err(wrong)? {
            shown_only.insert(checks.len());
        }
        checks.push(check_form::check(value).map_err(wrong)?);
    }
    let mut files = BTreeMap::new();
    for folder in FILES {
        if dir.join(folder).is_dir() {
            let found = within(dir, Path::new(folder)).map_err(|what| wrong(format!("the case {what}")))?;
            fixture::walk(&found, "", 0, &place, &mut files)?;
        }
    }
    let name = text("name")?;
    let folder = || dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let is_reviewed = match whole.get("reviewed") {
        None => true,
        Some(value) => {
            value.as_bool().ok_or_else(|| wrong("`reviewed` is neither true nor false".to_owned()))?
        }
    };
    let scaffold = Some(dir.join(SCAFFOLD)).filter(|path| path.is_file());
    let expected = text("expected_output")?.unwrap_or_default().trim().to_owned();
    let split = match text("split")?.map(str::trim) {
        None | Some("") => None,
        Some(name) => Some(
            Split::parse(name)
                .ok_or_else(|| wrong(format!("the split {name:?} is not train, val or test")))?,
        ),
    };
    let mut source = whole.clone();
    source.insert("graders".to_owned(), graders.into_iter().map(|(_, value)| value).collect());
    Ok(Case {
        id: name.map_or_else(folder, str::to_owned),
        expected,
        prompt,
        files,
        scaffold,
        checks,
        guards,
        shown_only,
        split,
        is_reviewed,
        source,
        place,
    })
}

/// A grader in a file: its front matter, with the text below it as the pattern or the rubric.
fn grader(text: &str) -> Result<Value, String> {
    let (mut fields, body) = fronted(text)?;
    let field = match member::text(&fields, "type").map_err(|error| format!("has a wrong field: {error}"))? {
        Some("regex") => "pattern",
        Some("llm") | None => "rubric",
        Some(_) => return Ok(Value::Object(fields)),
    };
    fields.entry("type").or_insert_with(|| "llm".into());
    if !body.trim().is_empty() {
        fields.entry(field).or_insert_with(|| body.trim().into());
    }
    Ok(Value::Object(fields))
}

/// Front matter, and what is below it.
fn fronted(text: &str) -> Result<(Map<String, Value>, String), String> {
    let text = text.trim_start_matches('\u{feff}');
    let Some(rest) = text.strip_prefix("---\n").or_else(|| text.strip_prefix("---\r\n")) else {
        return Ok((Map::new(), text.trim().to_owned()));
    };
    let mut head = String::new();
    let mut lines = rest.split_inclusive('\n');
    while let Some(line) = lines.next() {
        if line.trim_end() == "---" {
            return Ok((yaml(&head)?, lines.collect::<String>().trim().to_owned()));
        }
        head.push_str(line);
    }
    Err("has front matter without an end".to_owned())
}

fn yaml(text: &str) -> Result<Map<String, Value>, String> {
    match serde_saphyr::from_str(text) {
        Ok(Value::Object(fields)) => Ok(fields),
        Ok(Value::Null) => Ok(Map::new()),
        Ok(_) => Err("is not an object".to_owned()),
        Err(error) => Err(format!("cannot be read: {error}")),
    }
}

fn read(path: &Path) -> Result<Option<String>, EnvError> {
    match skill_llm::text_file::read(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(read_error(path, error)),
    }
}
