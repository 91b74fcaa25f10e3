//! A case, and a set of them as a file has it.

use super::check::Check;
use crate::item::Split;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The form of a file or folder of cases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CaseFormat {
    /// `evals.json` with `expectations`, as skill-creator's schemas have it.
    Expectations,
    /// `evals.json` with `assertions`, as its instructions and agentskills.io have it.
    Assertions,
    /// One JSON object in each line.
    Lines,
    /// A folder for each case, as `claude plugin eval` reads it.
    Plugin,
}

/// A case.
#[derive(Debug, Clone, PartialEq)]
pub struct Case {
    /// Its id, unique in its set.
    pub id: String,
    /// What a person asks.
    pub prompt: String,
    /// What a good result is, for the grader; empty where nothing says it.
    pub expected: String,
    /// Files of its project: a path in the project, and the file that it is a copy of.
    pub files: BTreeMap<String, PathBuf>,
    /// A script that makes its project.
    pub scaffold: Option<PathBuf>,
    /// What is checked.
    pub checks: Vec<Check>,
    /// The split that it is in, where it says so.
    pub split: Option<Split>,
    /// A person has read it; drafts begin without.
    pub is_reviewed: bool,
    /// Where it was read.
    pub place: String,
}

/// Cases with all that their file has, so that it is written back as it was.
#[derive(Debug, Clone, PartialEq)]
pub struct CaseSet {
    /// The form.
    pub format: CaseFormat,
    /// The cases, in order.
    pub cases: Vec<Case>,
    /// What the file has besides cases; an object, or null.
    pub(super) head: Value,
    /// The cases as the file has them.
    pub(super) raw: Vec<Value>,
}

impl CaseSet {
    /// The file again, with unknown fields, in its own form; `None` for folders, which are not one file.
    pub fn text(&self) -> Option<String> {
        match self.format {
            CaseFormat::Lines => {
                Some(self.raw.iter().map(|case| format!("{case}\n")).collect::<Vec<_>>().concat())
            }
            CaseFormat::Expectations | CaseFormat::Assertions => {
                let whole = match &self.head {
                    Value::Object(head) => {
                        let mut whole = head.clone();
                        whole.insert("evals".to_owned(), Value::Array(self.raw.clone()));
                        Value::Object(whole)
                    }
                    _ => Value::Array(self.raw.clone()),
                };
                serde_json::to_string_pretty(&whole).ok().map(|text| text + "\n")
            }
            CaseFormat::Plugin => None,
        }
    }

    /// Adds a drafted case, which no gate uses before a person has read it.
    pub fn push_draft(&mut self, prompt: &str, expected: &str, expectations: &[String]) {
        let id = self.raw.len() + 1;
        let list = match self.format {
            CaseFormat::Assertions => "assertions",
            CaseFormat::Expectations | CaseFormat::Lines | CaseFormat::Plugin => "expectations",
        };
        let mut case =
            json!({"id": id, "prompt": prompt, "expected_output": expected, "files": [], "reviewed": false});
        if let Some(fields) = case.as_object_mut() {
            fields.insert(list.to_owned(), json!(expectations));
        }
        self.raw.push(case);
    }

    /// A set without cases for a skill, as skill-creator has it.
    pub fn empty(skill: &str) -> Self {
        Self {
            format: CaseFormat::Expectations,
            cases: Vec::new(),
            head: json!({ "skill_name": skill }),
            raw: Vec::new(),
        }
    }
}
