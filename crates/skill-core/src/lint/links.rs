//! Links to files of the package that are not there, and files that nothing speaks of.

use super::{Finding, Severity, numbered};
use crate::package::{MAIN_FILE, SkillPackage};

/// The folders whose files a skill speaks of by their path.
const FOLDERS: [&str; 3] = ["references/", "scripts/", "assets/"];

pub(super) fn check(package: &SkillPackage) -> Vec<Finding> {
    let has = |path: &str| {
        path == MAIN_FILE || package.references.contains_key(path) || package.carried.contains_key(path)
    };
    let is_folder = |path: &str| {
        let prefix = format!("{}/", path.trim_end_matches('/'));
        package.references.keys().chain(package.carried.keys()).any(|file| file.starts_with(&prefix))
    };
    let mut findings = Vec::new();
    let texts = package.references.iter().map(|(path, text)| (path.as_str(), text.as_str()));
    let all: Vec<(&str, &str)> = std::iter::once((MAIN_FILE, package.main.as_str())).chain(texts).collect();
    for (file, text) in &all {
        for (line, content) in numbered(text) {
            for path in mentioned(content) {
                // A file of a folder may be named from there too.
                let beside = file.rsplit_once('/').map(|(folder, _)| format!("{folder}/{path}"));
                if has(path) || is_folder(path) || beside.is_some_and(|beside| has(&beside)) {
                    continue;
                }
                let message = format!("there is no file `{path}` in the package");
                findings.push(Finding::new(
                    "missing-file",
                    Severity::Warning,
                    (file, line),
                    message,
                    "add it, or fix the path",
                ));
            }
        }
    }
    for path in package.references.keys() {
        let name = path.rsplit('/').next().unwrap_or(path);
        if !all.iter().any(|(file, text)| file != path && text.contains(name)) {
            let advice = "say in SKILL.md when it is to be read, or an agent never opens it";
            let message = "no other file speaks of this one";
            findings.push(Finding::new("unused-file", Severity::Warning, (path, 0), message, advice));
        }
    }
    findings
}

/// The paths below one of the folders that a line speaks of.
fn mentioned(line: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for folder in FOLDERS {
        for (at, _) in line.match_indices(folder) {
            let before = line.get(..at).and_then(|before| before.chars().next_back());
            if before
                .is_some_and(|c| c.is_alphanumeric() || matches!(c, '/' | '_' | '-' | '.' | '*' | '<' | '{'))
            {
                // What is in front belongs to a longer path, except for the one that means the folder itself.
                let is_here = line.get(..at).is_some_and(|before| {
                    before.ends_with(" ./")
                        || before == "./"
                        || before.ends_with("(./")
                        || before.ends_with("`./")
                });
                if !is_here {
                    continue;
                }
            }
            let rest = line.get(at..).unwrap_or_default();
            let end = rest
                .find(|c: char| !(c.is_alphanumeric() || matches!(c, '/' | '_' | '-' | '.')))
                .unwrap_or(rest.len());
            let cut = rest.get(end..).and_then(|rest| rest.chars().next());
            let path = rest.get(..end).unwrap_or_default().trim_end_matches(['.', '/', '-']);
            let has_ending = path.rsplit('/').next().is_some_and(|name| name.contains('.'));
            // A pattern, or a text such as `<file>`, is not the name of a file.
            if has_ending && !matches!(cut, Some('*' | '<' | '{' | '[' | '$')) {
                found.push(path);
            }
        }
    }
    found
}
