//! Tasks of the data set, and their cases, which are found by the names of files.

use super::judge::Gold;
use super::xlsx::{Workbook, XlsxError};
use crate::data::Record;
use crate::error::EnvError;
use crate::item::Item;
use crate::within::within;
use serde_json::{Value, json};
use skill_core::ItemId;
use skill_core::canonical::hex_sha256;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The most bytes of a workbook of the data set.
const MAX_WORKBOOK_BYTES: u64 = 200 << 20;
/// Names of inputs, and those of the answers beside them.
const ENDINGS: [(&str, &str); 2] = [("_input", "_answer"), ("_init", "_golden")];
/// Endings of workbooks; what is no `.xlsx` inside is told when it is read.
const WORKBOOKS: [&str; 3] = ["xlsx", "xlsm", "xls"];
const BARE: (&str, &str) = ("initial", "golden");

/// A task.
#[derive(Debug, Clone)]
pub(super) struct Task {
    pub(super) instruction: String,
    pub(super) instruction_type: String,
    /// Where the answer is, as the data says it.
    pub(super) position: String,
    pub(super) answer_sheet: Option<String>,
    pub(super) cases: Vec<Case>,
    /// Why it cannot be judged.
    pub(super) fault: Option<EnvErrorText>,
}

/// What is wrong with a task, with its place.
#[derive(Debug, Clone)]
pub(super) struct EnvErrorText {
    pub(super) place: crate::data::Place,
    pub(super) message: String,
}

/// One input with its right answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Case {
    /// Its name: the beginning of the names of its files, such as `1_54513`.
    pub(super) name: String,
    pub(super) input: PathBuf,
    pub(super) answer: PathBuf,
    /// The hashes of both when the data was read.
    hashes: Option<[String; 2]>,
}

impl Task {
    /// Reads a record; `root` is the directory of its file.
    pub(super) fn read(record: Record, root: &Path) -> Result<(Item, Self), EnvError> {
        let Record { fields, place, .. } = record;
        let text = |name: &str| match fields.get(name) {
            Some(Value::String(text)) => Some(text.trim().to_owned()).filter(|text| !text.is_empty()),
            Some(Value::Number(number)) => Some(number.to_string()),
            // Names of several sheets.
            Some(Value::Array(items)) => {
                Some(items.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(","))
            }
            _ => None,
        };
        let id = text("id").ok_or_else(|| place.error("has no `id`"))?;
        let instruction = text("instruction").ok_or_else(|| {
            place.error("has no `instruction`; a list of ids alone belongs into the lists of a split, beside the data set")
        })?;
        let mut task = Self {
            instruction,
            instruction_type: text("instruction_type").unwrap_or_default(),
            position: text("answer_position").unwrap_or_default(),
            answer_sheet: text("answer_sheet"),
            cases: Vec::new(),
            fault: None,
        };
        let found = match fields.get("cases") {
            Some(Value::Array(cases)) => cases.iter().map(|case| Case::named(case, root)).collect(),
            _ => match text("spreadsheet_path") {
                Some(folder) => within(root, Path::new(&folder))
                    .map_err(|fault| format!("`spreadsheet_path` {fault}"))
                    .and_then(|folder| find_cases(root, &folder)),
                None => Err("has neither `cases` nor `spreadsheet_path`".to_owned()),
            },
        };
        let checked = found.and_then(|cases| {
            task.cases = cases;
            task.check()
        });
        let hashes = match checked {
            Ok(hashes) => {
                for (case, hashes) in task.cases.iter_mut().zip(&hashes) {
                    case.hashes = Some(hashes.clone());
                }
                hashes
            }
            Err(message) => {
                task.fault =
                    Some(EnvErrorText { place, message: format!("task {id} is left out: {message}") });
                Vec::new()
            }
        };
        let lower = task.instruction_type.to_lowercase();
        let task_type = match (lower.contains("cell"), lower.contains("sheet")) {
            (true, _) => "cell_level",
            (false, true) => "sheet_level",
            (false, false) => "other",
        };
        let data = json!({
            "instruction": task.instruction,
            "instruction_type": task.instruction_type,
            "answer_position": task.position,
            "answer_sheet": task.answer_sheet,
            // What a run is about includes the workbooks.
            "cases": task.cases.iter().zip(hashes).map(|(case, [input, answer])| {
                json!({"name": case.name, "input": input, "answer": answer})
            }).collect::<Vec<_>>(),
        });
        let item =
            Item { id: ItemId::from(id.as_str()), task_type: task_type.to_owned(), data: Arc::new(data) };
        Ok((item, task))
    }

    /// Reads all its workbooks once; their hashes.
    fn check(&self) -> Result<Vec<[String; 2]>, String> {
        if self.position.is_empty() {
            return Err("has no `answer_position`".to_owned());
        }
        if self.cases.is_empty() {
            return Err("has no case: no pair of an input and an answer was found".to_owned());
        }
        self.cases
            .iter()
            .map(|case| {
                let input = read_file(&case.input)?;
                let answer = read_file(&case.answer)?;
                let hashes = [hex_sha256(&input), hex_sha256(&answer)];
                let gold = self.gold_of(case, answer.into())?;
                let of_input = |error: XlsxError| format!("{}: the input {error}", case.input.display());
                let input: Arc<[u8]> = input.into();
                Workbook::open(Arc::clone(&input)).map_err(of_input)?;
                if gold.lacks_an_answer(input).map_err(of_input)? {
                    return Err(format!(
                        "{}: the gold workbook has nothing in {}, and neither has the input",
                        case.answer.display(),
                        gold.position()
                    ));
                }
                Ok(hashes)
            })
            .collect()
    }

    /// The right answer of a case.
    pub(super) fn gold(&self, case: &Case) -> Result<Gold, String> {
        let [_, answer] = case.hashes.as_ref().map_or([None; 2], |hashes| hashes.each_ref().map(Some));
        self.gold_of(case, read_unchanged(&case.answer, answer)?.into())
    }

    fn gold_of(&self, case: &Case, bytes: Arc<[u8]>) -> Result<Gold, String> {
        Gold::read(bytes, &self.position, self.answer_sheet.as_deref())
            .map_err(|error| format!("{}: {error}", case.answer.display()))
    }
}

impl Case {
    /// A case that the data names.
    fn named(case: &Value, root: &Path) -> Result<Self, String> {
        let path = |name: &str| {
            let path = case.get(name).and_then(Value::as_str);
            let path = path.ok_or_else(|| format!("a case has no `{name}`"))?;
            within(root, Path::new(path)).map_err(|fault| format!("`{name}` of a case {fault}"))
        };
        let input = path("input")?;
        let name = match case.get("no") {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Number(number)) => number.to_string(),
            _ => stem(&input),
        };
        Ok(Self { name, answer: path("answer")?, input, hashes: None })
    }

    /// The input's bytes.
    pub(super) fn read_input(&self) -> Result<Arc<[u8]>, String> {
        let [input, _] = self.hashes.as_ref().map_or([None; 2], |hashes| hashes.each_ref().map(Some));
        read_unchanged(&self.input, input).map(Arc::from)
    }
}

/// A workbook whose content was this when the data was read: a score of another one would be of another task.
fn read_unchanged(path: &Path, hash: Option<&String>) -> Result<Vec<u8>, String> {
    let bytes = read_file(path)?;
    if hash.is_some_and(|hash| *hash != hex_sha256(&bytes)) {
        return Err(format!(
            "{} is not what it was when this run read its data; bring it back, or begin another run",
            path.display()
        ));
    }
    Ok(bytes)
}

fn read_file(path: &Path) -> Result<Vec<u8>, String> {
    let error = |error: std::io::Error| format!("{} cannot be read: {error}", path.display());
    let n_bytes = fs::metadata(path).map_err(error)?.len();
    if n_bytes > MAX_WORKBOOK_BYTES {
        return Err(format!("{} has {n_bytes} bytes; at most {MAX_WORKBOOK_BYTES} are read", path.display()));
    }
    fs::read(path).map_err(error)
}

/// The name of a file without its ending, and without blanks before that.
fn stem(path: &Path) -> String {
    path.file_stem().map(|stem| stem.to_string_lossy().trim().to_owned()).unwrap_or_default()
}

fn is_workbook(ending: &OsStr) -> bool {
    WORKBOOKS.iter().any(|known| ending.eq_ignore_ascii_case(known))
}

/// The cases in a folder, by the names that the benchmark has.
fn find_cases(root: &Path, folder: &Path) -> Result<Vec<Case>, String> {
    let wrong = |error: std::io::Error| format!("{}: {error}", folder.display());
    let entries = fs::read_dir(folder).map_err(wrong)?.collect::<Result<Vec<_>, _>>().map_err(wrong)?;
    let mut files: Vec<PathBuf> = entries
        .iter()
        .map(fs::DirEntry::path)
        .filter(|path| path.extension().is_some_and(is_workbook))
        // What Excel leaves while a file is open.
        .filter(|path| !stem(path).starts_with("~$"))
        .collect();
    files.sort();
    for path in &files {
        // A link in the folder may lead anywhere.
        let named = path.strip_prefix(root).unwrap_or(path);
        within(root, named).map_err(|fault| format!("`spreadsheet_path` {fault}"))?;
    }
    let is_answer = |name: &str| name == BARE.1 || ENDINGS.iter().any(|(_, answer)| name.ends_with(answer));
    let answers: Vec<&PathBuf> = files.iter().filter(|path| is_answer(&stem(path))).collect();
    let mut cases = Vec::new();
    for input in &files {
        let name = stem(input);
        let endings = ENDINGS.iter().find_map(|(ending, answer)| Some((name.strip_suffix(ending)?, *answer)));
        let (case, wanted) = match endings {
            Some((case, answer)) => (case.to_owned(), format!("{case}{answer}")),
            None if name == BARE.0 => ("1".to_owned(), BARE.1.to_owned()),
            None => continue,
        };
        let answer = match (answers.iter().find(|path| stem(path) == wanted), answers.as_slice()) {
            (Some(answer), _) => answer,
            // Some answers have another task's number in their name.
            (None, [answer]) => answer,
            (None, _) => return Err(format!("{}: there is no {wanted}.xlsx beside it", input.display())),
        };
        cases.push(Case { name: case, input: input.clone(), answer: (*answer).clone(), hashes: None });
    }
    Ok(cases)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(files: &[&str], expect: &[(&str, &str, &str)]) {
        let folder = tempfile::tempdir().unwrap();
        for file in files {
            fs::write(folder.path().join(file), "").unwrap();
        }
        let name = |path: &Path| path.file_name().unwrap().to_string_lossy().into_owned();
        let cases = find_cases(folder.path(), folder.path()).unwrap();
        let found: Vec<(String, String, String)> =
            cases.iter().map(|case| (case.name.clone(), name(&case.input), name(&case.answer))).collect();
        let found: Vec<(&str, &str, &str)> = found
            .iter()
            .map(|(case, input, answer)| (case.as_str(), input.as_str(), answer.as_str()))
            .collect();
        assert_eq!(found, expect);
    }

    #[test]
    fn cases_are_found_by_the_names_of_files() {
        check(
            &["2_7_input.xlsx", "1_7_answer.xlsx", "1_7_input.xlsx", "2_7_answer.xlsx", "notes.txt"],
            &[("1_7", "1_7_input.xlsx", "1_7_answer.xlsx"), ("2_7", "2_7_input.xlsx", "2_7_answer.xlsx")],
        );
        check(&["1_8_init.xlsx", "1_8_golden.xlsx"], &[("1_8", "1_8_init.xlsx", "1_8_golden.xlsx")]);
        check(&["initial.xlsx", "golden.xlsx"], &[("1", "initial.xlsx", "golden.xlsx")]);
        check(&["2_9_input .xlsx", "2_9_answer.xlsx"], &[("2_9", "2_9_input .xlsx", "2_9_answer.xlsx")]);
        check(&["1_4_init.xlsx", "1_5_golden.xlsx"], &[("1_4", "1_4_init.xlsx", "1_5_golden.xlsx")]);
        check(&["other.xlsx"], &[]);
    }
}
