//! Case files of all forms.

use super::case::{Case, CaseFormat, CaseSet, bad_case};
use super::{check_form, fixture, plugin_form};
use crate::error::{EnvError, read_error};
use crate::item::Split;
use serde_json::{Map, Value};
use skill_core::member::{self, kind_of};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The lists of checks of a case, by the dialect that has them; ours may be in any.
const LISTS: [(&str, Option<CaseFormat>); 3] = [
    ("expectations", Some(CaseFormat::Expectations)),
    ("assertions", Some(CaseFormat::Assertions)),
    ("checks", None),
];
/// Fields of eval-magic without which its cases would be other ones.
const NOT_READ: [(&str, &str); 3] = [
    ("codebase", "name its files in `files`"),
    ("files_root", "give the paths in `files` from the case file"),
    ("plan_mode", "leave it out"),
];
/// Where a skill's folder has its cases.
const USUAL_FILES: [&str; 4] = ["evals/evals.json", "evals/evals.jsonl", "evals.json", "evals.jsonl"];
const USUAL_FOLDER: &str = "evals";

impl CaseSet {
    /// Where the cases of a skill are, if it has any: `evals/evals.json`, `evals/evals.jsonl`, or case folders in `evals/`.
    pub fn usual_place(skill: &Path) -> Option<PathBuf> {
        let file = USUAL_FILES.iter().map(|name| skill.join(name)).find(|path| path.is_file());
        let folder = skill.join(USUAL_FOLDER);
        // An unreadable folder also counts; reading its cases returns the error.
        let has_cases = plugin_form::folders(&folder).map_or(true, |folders| !folders.is_empty());
        file.or_else(|| has_cases.then_some(folder))
    }

    /// Ids of the cases that no person has reviewed, in order.
    pub fn drafts(&self) -> Vec<&str> {
        self.cases.iter().filter(|case| !case.is_reviewed).map(|case| case.id.as_str()).collect()
    }

    /// Reads cases from a file, from a folder of case folders, or from one case folder.
    ///
    /// # Errors
    ///
    /// A file that is none of these, a case without a prompt or without checks, a file of the case that is missing, two
    /// dialects in one file.
    pub fn read(path: &Path) -> Result<Self, EnvError> {
        let set = if path.is_dir() { of_folder(path)? } else { of_file(path)? };
        let mut ids = BTreeSet::new();
        for case in &set.cases {
            let wrong = |message: &str| bad_case(&case.place, message);
            if !ids.insert(&case.id) {
                return Err(wrong(&format!("the id {:?} is that of another case", case.id)));
            }
            if case.guards.union(&case.shown_only).count() == case.checks.len() {
                return Err(wrong(
                    "the case has no checks, so nothing could be said of a run: add `expectations`, or checks of files or commands",
                ));
            }
        }
        if set.cases.is_empty() {
            return Err(EnvError::BadData { path: path.to_owned(), message: "it has no cases".to_owned() });
        }
        Ok(set)
    }
}

fn of_folder(dir: &Path) -> Result<CaseSet, EnvError> {
    let folders = if plugin_form::is_case(dir) { vec![dir.to_owned()] } else { plugin_form::folders(dir)? };
    if folders.is_empty() {
        return match USUAL_FILES.iter().map(|name| dir.join(name)).find(|path| path.is_file()) {
            Some(path) => of_file(&path),
            None => {
                let message = "it has no case: expected evals.json, or a folder with prompt.md or case.yaml for each case";
                Err(EnvError::BadData { path: dir.to_owned(), message: message.to_owned() })
            }
        };
    }
    let cases = folders.iter().map(|folder| plugin_form::case(folder)).collect::<Result<_, _>>()?;
    Ok(CaseSet { format: CaseFormat::Plugin, head: Map::new(), cases })
}

fn of_file(path: &Path) -> Result<CaseSet, EnvError> {
    let text = skill_llm::text_file::read(path).map_err(|error| read_error(path, error))?;
    let text = text.trim_start_matches('\u{feff}');
    let bad = |message: String| EnvError::BadData { path: path.to_owned(), message };
    let whole: Option<Value> = serde_json::from_str(text).ok();
    let mut head = Map::new();
    let (listed, is_lines) = match whole {
        Some(Value::Object(mut fields)) if fields.contains_key("evals") => match fields.shift_remove("evals")
        {
            Some(Value::Array(listed)) => {
                head = fields;
                (listed, false)
            }
            _ => return Err(bad("`evals` is not a list".to_owned())),
        },
        Some(Value::Array(listed)) => (listed, false),
        Some(Value::Object(case)) if case.contains_key("prompt") => (vec![Value::Object(case)], true),
        Some(_) => return Err(bad("it has no list `evals`".to_owned())),
        None => {
            let mut listed = Vec::new();
            for (idx, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
                let value = serde_json::from_str(line).map_err(|error| EnvError::BadLine {
                    path: path.to_owned(),
                    line: idx + 1,
                    message: error.to_string(),
                })?;
                listed.push(value);
            }
            (listed, true)
        }
    };
    let folder = path.parent().map(Path::to_owned).unwrap_or_default();
    let roots = [folder.clone(), folder.parent().map(Path::to_owned).unwrap_or_default()];
    let (mut cases, mut dialect) = (Vec::with_capacity(listed.len()), None);
    for (idx, value) in listed.iter().enumerate() {
        let place = format!("{}, case {}", path.display(), idx + 1);
        let fields = value.as_object().ok_or_else(|| bad(format!("case {} is not an object", idx + 1)))?;
        let (case, found) = case(fields, idx, place, (path, &roots))?;
        if let (Some(known), Some(found)) = (dialect, found)
            && known != found
        {
            let message = format!(
                "case {} has `{}`, and others have `{}`: two dialects in one file; rename one of them",
                idx + 1,
                name_of(found),
                name_of(known)
            );
            return Err(bad(message));
        }
        dialect = dialect.or(found);
        cases.push(case);
    }
    let format = if is_lines { CaseFormat::Lines } else { dialect.unwrap_or(CaseFormat::Expectations) };
    Ok(CaseSet { format, head, cases })
}

fn name_of(dialect: CaseFormat) -> &'static str {
    LISTS.iter().find(|(_, of)| *of == Some(dialect)).map_or("checks", |(name, _)| name)
}

fn case(
    fields: &Map<String, Value>,
    idx: usize,
    place: String,
    (case_file, roots): (&Path, &[PathBuf]),
) -> Result<(Case, Option<CaseFormat>), EnvError> {
    let wrong = |message: String| bad_case(&place, &message);
    let text = |name: &str| match member::text(fields, name) {
        Ok(text) => Ok(text.unwrap_or_default().trim().to_owned()),
        Err(error) => Err(wrong(error.to_string())),
    };
    let prompt = text("prompt")?;
    if prompt.is_empty() {
        return Err(wrong("the case has no text in `prompt`".to_owned()));
    }
    if fields.contains_key("turns") || fields.contains_key("responder") {
        return Err(wrong("the case has several turns, and a run here has one prompt".to_owned()));
    }
    if let Some((name, instead)) = NOT_READ.iter().find(|(name, _)| fields.contains_key(*name)) {
        return Err(wrong(format!("the case has `{name}`, which is not read here: {instead}")));
    }
    let id = match fields.get("id") {
        Some(Value::String(id)) if !id.trim().is_empty() => id.clone(),
        Some(Value::Number(id)) => id.to_string(),
        None | Some(Value::Null | Value::String(_)) => (idx + 1).to_string(),
        Some(other) => {
            return Err(wrong(format!("`id` is {}; expected a text or a number", kind_of(other))));
        }
    };
    let (mut checks, mut dialect) = (Vec::new(), None);
    let (mut guards, mut shown_only) = (BTreeSet::new(), BTreeSet::new());
    for (name, of) in LISTS {
        let Some(list) = fields.get(name) else { continue };
        let list = list.as_array().ok_or_else(|| wrong(format!("`{name}` is not a list")))?;
        if of.is_some() && dialect.is_some() {
            return Err(wrong("it has both `expectations` and `assertions`: keep one of them".to_owned()));
        }
        dialect = dialect.or(of);
        for (idx, value) in list.iter().enumerate() {
            let wrong = |what: String| wrong(format!("check {} of `{name}` {what}", idx + 1));
            if check_form::is_guard(value).map_err(wrong)? {
                guards.insert(checks.len());
            }
            if check_form::is_shown_only(value).map_err(wrong)? {
                shown_only.insert(checks.len());
            }
            checks.push(check_form::check(value).map_err(wrong)?);
        }
    }
    let names: Vec<String> = match fields.get("files") {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(names)) => names
            .iter()
            .map(|name| name.as_str().map(str::to_owned))
            .collect::<Option<_>>()
            .ok_or_else(|| wrong("`files` has an entry that is not a path".to_owned()))?,
        Some(_) => return Err(wrong("`files` is not a list".to_owned())),
    };
    let split = match text("split")?.as_str() {
        "" => None,
        name => Some(
            Split::parse(name)
                .ok_or_else(|| wrong(format!("the split {name:?} is not train, val or test")))?,
        ),
    };
    let is_reviewed = match fields.get("reviewed") {
        None => true,
        Some(value) => {
            value.as_bool().ok_or_else(|| wrong("`reviewed` is neither true nor false".to_owned()))?
        }
    };
    let case = Case {
        id,
        prompt,
        expected: text("expected_output")?,
        files: fixture::named_files(&names, case_file, roots, &place)?,
        scaffold: None,
        checks,
        guards,
        shown_only,
        split,
        is_reviewed,
        source: fields.clone(),
        place,
    };
    Ok((case, dialect))
}
