//! The libraries below the facade name no command of `skillrl` and no key of its configuration: who uses them alone has
//! neither. What a person can do is said in `src/hint.rs`.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::all_files::all_files;
use skillrl::config::keys;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The crates below the facade.
const LIBRARIES: [&str; 5] = ["skill-core", "skill-llm", "skill-envs", "skill-pipeline", "skill-report"];

/// Texts that name what looks like a key of the configuration and is a field of a protocol or of a library's own type.
const OTHER_MEANINGS: [(&str, &str); 0] = [];

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The sources of a library, without files of tests.
fn sources(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let is_of_tests = |part: &str| part == "tests" || part == "tests.rs" || part.ends_with("_tests.rs");
    let mut files = all_files(dir);
    files.retain(|path, _| path.ends_with(".rs") && !path.split('/').any(is_of_tests));
    files
}

/// The lines of a source that are neither comments nor tests, with their numbers.
fn code(source: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = source.lines().take_while(|line| *line != "#[cfg(test)]");
    lines
        .enumerate()
        .filter(|(_, line)| !line.trim_start().starts_with("//"))
        .map(|(idx, line)| (idx + 1, line))
}

/// The names of all commands, from the page that the program writes.
fn commands() -> BTreeSet<String> {
    let page = fs::read_to_string(workspace().join("docs/reference/cli.md")).unwrap();
    let names = page.lines().filter_map(|line| line.strip_prefix("## `skillrl ")?.strip_suffix('`'));
    names.filter_map(|name| Some(name.split(' ').next()?.to_owned())).collect()
}

/// The command or the key that a line names.
fn named(line: &str, commands: &BTreeSet<String>) -> Option<String> {
    let command = line.split("skillrl ").skip(1).find_map(|rest| {
        let is_of_word = |letter: &char| letter.is_alphanumeric() || *letter == '_';
        let word: String = rest.chars().take_while(is_of_word).collect();
        commands.contains(&word).then(|| format!("skillrl {word}"))
    });
    let key = line.split('`').skip(1).step_by(2).find(|span| {
        let path = span.trim_start_matches('[').trim_end_matches(']');
        keys::find(path).is_some() || (span.starts_with('[') && keys::section(path).is_some())
    });
    command.or_else(|| key.map(str::to_owned))
}

#[test]
fn libraries_name_no_command_and_no_key_of_the_configuration() {
    let commands = commands();
    assert!(commands.contains("train") && commands.len() > 20, "{commands:?}");
    let (mut found, mut n_files) = (Vec::new(), 0);
    for library in LIBRARIES {
        let files = sources(&workspace().join("crates").join(library).join("src"));
        n_files += files.len();
        for (path, bytes) in files {
            let name = format!("crates/{library}/src/{path}");
            for (line_no, line) in code(str::from_utf8(&bytes).unwrap()) {
                let is_other = |(file, text): &(&str, &str)| name.ends_with(file) && line.contains(text);
                if let Some(what) = named(line, &commands)
                    && !OTHER_MEANINGS.iter().any(is_other)
                {
                    found.push(format!("{name}:{line_no}: {what}"));
                }
            }
        }
    }
    assert!(n_files > 250, "the libraries were not found: {n_files} files");
    assert!(found.is_empty(), "say it in crates/skillrl/src/hint.rs:\n{}", found.join("\n"));
}

#[test]
fn commands_and_keys_are_found() {
    #[track_caller]
    fn check(line: &str, expect: Option<&str>) {
        assert_eq!(named(line, &commands()).as_deref(), expect, "{line}");
    }
    check(r#""wait, or `skillrl stop RUN` ends it""#, Some("skillrl stop"));
    check(r#"format!("raise `train.epochs` = {n}")"#, Some("train.epochs"));
    check(r#""raise the cap in `[budget]`""#, Some("[budget]"));
    check(r#""skillrl result 1""#, None);
    check(r#""raise `epochs`""#, None);
    check(r#"("train.epochs", json!(1))"#, None);
}
