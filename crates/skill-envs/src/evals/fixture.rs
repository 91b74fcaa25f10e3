//! The project of a case: copies of files, or what a script makes in the sandbox.

use super::case::{Case, bad_case};
use crate::error::EnvError;
use crate::within::within;
use skill_llm::agent::{LEFT_OUT, settings_of_agents};
use skill_llm::{AgentFile, AgentProject};
use skill_sandbox::{Input, Limits, Outputs, Program, Sandbox, Termination};
use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// The most bytes of one file of a project, and of all.
const MAX_FILE_BYTES: u64 = 16 << 20;
const MAX_BYTES: u64 = 64 << 20;
/// The most files.
const MAX_FILES: usize = 2_000;
const MAX_DEPTH: usize = 16;
/// How long a script may take that makes a project.
const SCAFFOLD_TIME: Duration = Duration::from_secs(60);

/// A path inside of a project, or what is wrong as the end of "the check ...".
pub(super) fn check_path(path: &str) -> Result<(), String> {
    let is_inside =
        Path::new(path).components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    if path.trim().is_empty() || !is_inside || path.contains('\\') {
        return Err(format!("names {path:?}, which is not a path inside of the project"));
    }
    Ok(())
}

/// A path inside of the project without the parts of it that name the folder itself.
pub(super) fn without_dots(path: &str) -> String {
    path.split('/').filter(|part| !part.is_empty() && *part != ".").collect::<Vec<_>>().join("/")
}

/// The files that a case of `case_file` names, below one of the roots: the folder of that file, and that of the skill.
///
/// A folder is all files in it but the case file, which has the answers. What a run finds has the path that the case gives,
/// without `evals/` and `files/` before it.
pub(super) fn named_files(
    names: &[String],
    case_file: &Path,
    roots: &[PathBuf],
    place: &str,
) -> Result<BTreeMap<String, PathBuf>, EnvError> {
    let mut files = BTreeMap::new();
    let is_case_file = |path: &Path| match (path.canonicalize(), case_file.canonicalize()) {
        (Ok(path), Ok(case_file)) => path == case_file,
        (Ok(_) | Err(_), _) => path == case_file,
    };
    for name in names {
        let wrong = |message: String| bad_case(place, &message);
        check_path(name).map_err(|what| wrong(format!("a file of the case {what}")))?;
        let found = roots.iter().find(|root| root.join(name).exists());
        let looked = || roots.iter().map(|root| root.display().to_string()).collect::<Vec<_>>().join(" and ");
        let root = found.ok_or_else(|| {
            wrong(format!("the file {name:?} is missing: looked in {}; add it, or correct `files`", looked()))
        })?;
        let found = within(root, Path::new(name)).map_err(|what| wrong(format!("`files` {what}")))?;
        let end = if name.ends_with('/') { "/" } else { "" };
        let plain = without_dots(name) + end;
        let shown = ["evals/files/", "evals/", "files/"]
            .iter()
            .fold(plain.as_str(), |name, prefix| name.strip_prefix(prefix).unwrap_or(name));
        let shown = shown.trim_end_matches('/');
        if found.is_dir() {
            walk(&found, shown, 0, place, &mut files)?;
        } else if is_case_file(&found) {
            return Err(wrong(format!("`files` names {name:?}, the case file, which has the answers")));
        } else {
            files.insert(shown.to_owned(), found);
        }
    }
    files.retain(|_, path| !is_case_file(path));
    Ok(files)
}

/// All files below a folder.
pub(super) fn walk(
    folder: &Path,
    prefix: &str,
    depth: usize,
    place: &str,
    files: &mut BTreeMap<String, PathBuf>,
) -> Result<(), EnvError> {
    let wrong = |message: String| bad_case(place, &message);
    if depth > MAX_DEPTH {
        return Err(wrong(format!("{} has more than {MAX_DEPTH} folders in each other", folder.display())));
    }
    let read = |source| EnvError::ReadData { path: folder.to_owned(), source };
    for entry in std::fs::read_dir(folder).map_err(read)? {
        let entry = entry.map_err(read)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let kind = entry.file_type().map_err(read)?;
        let path = if prefix.is_empty() { name.clone() } else { format!("{prefix}/{name}") };
        if LEFT_OUT.contains(&name.as_str()) {
            continue;
        }
        if kind.is_dir() {
            walk(&entry.path(), &path, depth + 1, place, files)?;
        } else if kind.is_file() {
            files.insert(path, entry.path());
        } else {
            return Err(wrong(format!("{} is a link or no plain file", entry.path().display())));
        }
        if files.len() > MAX_FILES {
            return Err(wrong(format!("the project has more than {MAX_FILES} files")));
        }
    }
    Ok(())
}

/// The project of a case.
///
/// # Errors
///
/// Files that cannot be read, a script that fails, and files that configure an agent, which would start programs outside
/// of its sandbox.
pub(super) fn project(case: &Case, sandbox: Option<&Sandbox>) -> Result<AgentProject, EnvError> {
    let project = made(case, sandbox)?;
    match settings_of_agents(&project)? {
        Some(path) => {
            let what = format!(
                "its project has {path:?}, which configures an agent and could start programs; leave it out"
            );
            Err(bad_case(&case.place, &what))
        }
        None => Ok(project),
    }
}

fn made(case: &Case, sandbox: Option<&Sandbox>) -> Result<AgentProject, EnvError> {
    let wrong = |message: String| bad_case(&case.place, &message);
    let mut project = AgentProject::default();
    let mut n_bytes = 0_u64;
    for (path, source) in &case.files {
        let read = |error| EnvError::ReadData { path: source.clone(), source: error };
        let size = std::fs::metadata(source).map_err(read)?.len();
        n_bytes = n_bytes.saturating_add(size);
        if size > MAX_FILE_BYTES || n_bytes > MAX_BYTES {
            return Err(wrong(format!(
                "the project is too large at {}: at most {} MiB in a file and {} MiB in all; leave large files out, or \
                 make them by a script",
                source.display(),
                MAX_FILE_BYTES >> 20,
                MAX_BYTES >> 20
            )));
        }
        let bytes = Arc::from(std::fs::read(source).map_err(read)?);
        let is_executable = crate::folder::is_executable(source);
        project.files.insert(path.clone(), AgentFile { bytes, is_executable });
    }
    let Some(script) = &case.scaffold else { return Ok(project) };
    let Some(sandbox) = sandbox else {
        return Err(wrong(
            "its project is made by a script, which runs in the sandbox, and there is none".to_owned(),
        ));
    };
    let bytes =
        std::fs::read(script).map_err(|source| EnvError::ReadData { path: script.clone(), source })?;
    let program = Program {
        inputs: inputs(&project)
            .chain([("scaffold.sh".to_owned(), Input::Bytes(Arc::from(bytes)))])
            .collect(),
        outputs: Outputs::All,
        limits: Limits { wall: SCAFFOLD_TIME, ..Limits::default() },
        ..Program::new([
            "/bin/sh",
            "-c",
            "if command -v bash > /dev/null; then bash scaffold.sh; else sh scaffold.sh; fi",
        ])
    };
    let outcome = sandbox
        .run(&program, &skill_sandbox::Cancel::default())
        .map_err(|error| wrong(format!("{} was not run: {error}", script.display())))?;
    if outcome.verdict != (Termination::Exited { code: 0 }) {
        let said = outcome.stderr.text();
        let said = said.trim().lines().next_back().unwrap_or_default().to_owned();
        return Err(wrong(format!("{} {}: {said}", script.display(), outcome.verdict)));
    }
    for file in outcome.files {
        let is_left_out = file.name.split('/').any(|part| LEFT_OUT.contains(&part));
        if !is_left_out && file.name != "scaffold.sh" {
            let file_of = AgentFile { bytes: Arc::from(file.bytes), is_executable: file.is_executable };
            project.files.insert(file.name, file_of);
        }
    }
    Ok(project)
}

/// The files as a program in the sandbox may change them.
pub(super) fn inputs(project: &AgentProject) -> impl Iterator<Item = (String, Input)> {
    project.files.iter().map(|(path, file)| (path.clone(), input(&file.bytes, file.is_executable)))
}

/// A file as a program in the sandbox may change it, and start it if that is what it is for.
pub(super) fn input(bytes: &Arc<[u8]>, is_executable: bool) -> Input {
    let bytes = Arc::clone(bytes);
    if is_executable { Input::Executable(bytes) } else { Input::Writable(bytes) }
}

#[cfg(test)]
mod tests {
    use super::{named_files, without_dots};
    use std::path::Path;

    #[test]
    fn paths_lose_the_parts_that_name_the_folder_itself() {
        for (path, expect) in [("./a.txt", "a.txt"), ("a/./b/", "a/b"), (".", ""), ("a//b", "a/b")] {
            assert_eq!(without_dots(path), expect, "{path}");
        }
    }

    /// What the files of these names come to, by the paths in the project; `None` if they are refused.
    fn found(dir: &Path, names: &[&str]) -> Option<Vec<String>> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let evals = dir.join("evals");
        let files =
            named_files(&names, &evals.join("evals.json"), &[evals.clone(), dir.to_owned()], "case 1");
        files.ok().map(|files| files.into_keys().collect())
    }

    #[test]
    fn files_lie_below_the_folder_and_the_case_file_is_none_of_them() {
        let dir = tempfile::tempdir().unwrap();
        let outside = tempfile::NamedTempFile::new().unwrap();
        std::fs::create_dir_all(dir.path().join("evals/files")).unwrap();
        for file in ["evals/evals.json", "evals/files/a.txt", "data.csv"] {
            std::fs::write(dir.path().join(file), "x").unwrap();
        }
        let paths = |names: &[&str]| found(dir.path(), names).map(|paths| paths.join(" "));
        assert_eq!(paths(&["."]).as_deref(), Some("files/a.txt"));
        assert_eq!(paths(&["./files/a.txt", "data.csv"]).as_deref(), Some("a.txt data.csv"));
        assert_eq!(paths(&["evals.json"]), None);
        assert_eq!(paths(&["evals"]).as_deref(), Some("evals/files/a.txt"));
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink(outside.path(), dir.path().join("evals/notes.txt")).unwrap();
            assert_eq!(paths(&["notes.txt"]), None);
        }
        drop(outside);
    }
}
