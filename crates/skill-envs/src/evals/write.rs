//! Cases written back, in their own form or in another one, with the files of their projects.

use super::case::{Case, CaseFormat, CaseSet, bad_case};
use crate::error::EnvError;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Where a case file has the files of its cases, and a case folder those of its case.
const FILES: &str = "files";
const FIXTURE: &str = "fixture";
/// Fields of a case that have another place in a case folder.
const IN_FOLDERS: [&str; 7] = ["id", "name", "prompt", "files", "expectations", "assertions", "checks"];

/// Files to write: their paths below a folder, with their bytes.
pub type CaseFiles = BTreeMap<String, Vec<u8>>;

impl CaseSet {
    /// The cases in a form, from which the same cases are read: a file of this name (`evals.json` of skill-creator, or JSON
    /// Lines) with the files of projects in `files/` beside it, or the case folders of `claude plugin eval`.
    ///
    /// # Errors
    ///
    /// A file that cannot be read; a case that the form cannot hold: one whose project a script makes in a file, and files of
    /// two cases in one file that have one name and different bytes.
    pub fn files_as(&self, format: CaseFormat, name: &str) -> Result<CaseFiles, EnvError> {
        match format {
            CaseFormat::Plugin => self.folders(),
            CaseFormat::Expectations | CaseFormat::Assertions | CaseFormat::Lines => self.file(format, name),
        }
    }

    fn file(&self, format: CaseFormat, file: &str) -> Result<CaseFiles, EnvError> {
        let mut files: BTreeMap<&str, (&str, Vec<u8>)> = BTreeMap::new();
        for case in &self.cases {
            if case.scaffold.is_some() {
                let what = "its project is made by a script, which only case folders have";
                return Err(bad_case(&case.place, what));
            }
            for (name, from) in &case.files {
                let bytes = read(from)?;
                let known = files.insert(name, (&case.id, bytes.clone()));
                if let Some((other, _)) = known.filter(|(_, known)| *known != bytes) {
                    let what = format!("its file {name:?} is another one than that of the case {other:?}");
                    return Err(bad_case(&case.place, &what));
                }
            }
        }
        let mut written: CaseFiles =
            files.into_iter().map(|(name, (_, bytes))| (format!("{FILES}/{name}"), bytes)).collect();
        let cases: Vec<Value> = self.cases.iter().map(in_file).collect();
        let text = match format {
            CaseFormat::Lines => cases.iter().map(|case| format!("{case}\n")).collect(),
            _ => {
                let mut head = self.head.clone();
                head.insert("evals".to_owned(), Value::Array(cases));
                format!("{:#}\n", Value::Object(head))
            }
        };
        written.insert(file.to_owned(), text.into_bytes());
        Ok(written)
    }

    fn folders(&self) -> Result<CaseFiles, EnvError> {
        let (mut names, mut written) = (BTreeSet::new(), CaseFiles::new());
        for case in &self.cases {
            let sign = |sign: char| if sign.is_alphanumeric() || "-_.".contains(sign) { sign } else { '-' };
            let plain: String = case.id.chars().map(sign).collect();
            let plain = plain.trim_start_matches('.').to_owned();
            let name = (1..)
                .map(|number| if number == 1 { plain.clone() } else { format!("{plain}-{number}") })
                .find(|name| !name.is_empty() && names.insert(name.to_lowercase()))
                .unwrap_or_default();
            let whole = in_folder(case);
            let text = serde_saphyr::to_string(&whole)
                .map_err(|error| bad_case(&case.place, &format!("it cannot be written: {error}")))?;
            written.insert(format!("{name}/case.yaml"), text.into_bytes());
            for (file, from) in &case.files {
                written.insert(format!("{name}/{FIXTURE}/{file}"), read(from)?);
            }
            if let Some(script) = &case.scaffold {
                written.insert(format!("{name}/scaffold.sh"), read(script)?);
            }
        }
        Ok(written)
    }
}

/// A case as an object of a case file.
fn in_file(case: &Case) -> Value {
    let mut fields = case.source.clone();
    // Of a case folder: the name is the id, and the prompt has a place of its own.
    if let Some(graders) = fields.shift_remove("graders") {
        fields.insert("checks".to_owned(), graders);
        fields.shift_remove("name");
        fields.shift_remove("execution");
    }
    fields.entry("id").or_insert_with(|| json!(case.id));
    fields.insert("prompt".to_owned(), json!(case.prompt));
    fields.shift_remove(FILES);
    if !case.files.is_empty() {
        let names: Vec<String> = case.files.keys().map(|name| format!("{FILES}/{name}")).collect();
        fields.insert(FILES.to_owned(), json!(names));
    }
    Value::Object(fields)
}

/// A case as the `case.yaml` of its folder.
fn in_folder(case: &Case) -> Map<String, Value> {
    let mut fields = Map::from_iter([("name".to_owned(), json!(case.id))]);
    let mut graders: Vec<Value> = Vec::new();
    for (name, value) in &case.source {
        match (name.as_str(), value) {
            ("graders" | "expectations" | "assertions" | "checks", Value::Array(checks)) => {
                graders.extend(checks.iter().map(|check| match check {
                    Value::String(text) => json!({"type": "llm", "rubric": text}),
                    other => other.clone(),
                }));
            }
            // The name of a folder's case is its id.
            ("name", value) if !case.source.contains_key("graders") => {
                fields.entry("title").or_insert_with(|| value.clone());
            }
            (name, _) if IN_FOLDERS.contains(&name) => {}
            (name, value) => {
                fields.insert(name.to_owned(), value.clone());
            }
        }
    }
    let execution = fields.entry("execution").or_insert_with(|| json!({}));
    match execution {
        Value::Object(execution) => {
            execution.insert("prompt".to_owned(), json!(case.prompt));
        }
        other => *other = json!({"prompt": case.prompt}),
    }
    fields.insert("graders".to_owned(), Value::Array(graders));
    fields
}

fn read(path: &Path) -> Result<Vec<u8>, EnvError> {
    std::fs::read(path).map_err(|source| EnvError::ReadData { path: path.to_owned(), source })
}
