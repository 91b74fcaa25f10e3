//! The previous version of a skill: another folder, or a revision of git.

use crate::command::CommandError;
use crate::error::{CliError, OfFile as _};
use crate::exit_code;
use crate::table::harmless;
use skill_agents::measure::is_delivered;
use skillrl::core::SkillDoc;
use skillrl::core::carried::CarriedFile;
use skillrl::core::package::{MAIN_FILE, SkillPackage, is_reference};
use skillrl::envs::folder::read_folder_without;
use skillrl::llm::error::with_causes;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::process::{Command, Output};

/// The folder of a skill with its cases, which agents do not get.
const CASES: &str = "evals";

/// The words of git for a folder that is in no repository.
const NO_REPOSITORY: &str = "not a git repository (or any";

/// A version to compare with.
pub(super) struct Previous {
    pub(super) skill: SkillDoc,
    /// What it is, in words.
    pub(super) name: String,
}

/// The version that a person names, a folder or a revision; without one, the last that differs from the folder as it is.
///
/// `None` if there is no other version: the folder is not in a repository, or was never changed. A repository that git refuses
/// to open, and a missing git, are warnings unless a revision is named.
pub(super) fn previous(
    dir: &Path,
    current: &SkillDoc,
    named: Option<&str>,
) -> crate::Result<Option<Previous>> {
    if let Some(name) = named {
        let path = Path::new(name);
        if path.is_dir() {
            return Ok(Some(Previous { skill: delivered(path)?, name: name.to_owned() }));
        }
        let skill = named_revision(dir, name)?.ok_or_else(|| {
            CommandError::new(format!(
                "{name:?} is neither a folder nor a revision in which {} exists",
                dir.display()
            ))
            .with_hint("name a folder with a SKILL.md, or a revision such as HEAD~1 or a tag")
        })?;
        return Ok(Some(Previous { skill, name: name.to_owned() }));
    }
    match has_revisions(dir) {
        Ok(true) => {}
        Ok(false) => return Ok(None),
        // For instance a repository of another user, which git refuses to read.
        Err(error) => {
            crate::output::say(&format!(
                "warning: not compared with the previous version: {}",
                with_causes(&error)
            ));
            return Ok(None);
        }
    }
    const MAX_VERSIONS: &str = "--max-count=20";
    let log = git(dir, &["log", MAX_VERSIONS, "--format=%H", "--", "."])?;
    for revision in String::from_utf8_lossy(&log).lines() {
        let skill = at_revision(dir, revision)?;
        if let Some(skill) = skill.filter(|skill| skill.hash() != current.hash()) {
            let name = format!("revision {}", revision.chars().take(10).collect::<String>());
            return Ok(Some(Previous { skill, name }));
        }
    }
    Ok(None)
}

/// The skill in a folder, as an agent gets it: cases that change make no other version of it, and their files may be
/// larger than those of a skill.
pub(super) fn delivered(path: &Path) -> crate::Result<SkillDoc> {
    if !path.is_dir() {
        return Ok(skillrl::skills::read_skill(path)?);
    }
    Ok(document(path, read_folder_without(path, &[CASES])?)?)
}

fn document(dir: &Path, package: SkillPackage) -> Result<SkillDoc, CommandError> {
    package
        .document()
        .map_err(|fault| CommandError::new(format!("{} cannot be a skill: {fault}", dir.display())))
}

/// The skill folder at a Git revision; `None` if the revision does not exist or does not contain the folder.
fn named_revision(dir: &Path, name: &str) -> crate::Result<Option<SkillDoc>> {
    match !name.starts_with('-') && has_revisions(dir)? && resolves(dir, &format!("{name}^{{tree}}"))? {
        true => at_revision(dir, name),
        false => Ok(None),
    }
}

/// The folder in a revision; `None` where it is not there, or has no SKILL.md.
fn at_revision(dir: &Path, revision: &str) -> crate::Result<Option<SkillDoc>> {
    let list = git(dir, &["ls-tree", "-r", "-z", revision, "--", "."])?;
    let mut package = SkillPackage::default();
    let mut has_main = false;
    for entry in String::from_utf8_lossy(&list).split('\0').filter(|entry| !entry.is_empty()) {
        let (head, path) = entry.split_once('\t').ok_or_else(|| {
            CommandError::new(format!("git lists {entry:?}, which has no path")).with_code(exit_code::OTHER)
        })?;
        let mut words = head.split(' ');
        let (mode, kind, object) = (words.next(), words.next(), words.next());
        let is_left_out = path.split('/').any(|part| part.starts_with('.') || part == "__pycache__");
        let (Some("blob"), Some(object), false) = (kind, object, is_left_out) else { continue };
        if !is_delivered(path) {
            continue;
        }
        let bytes = git(dir, &["cat-file", "blob", object])?;
        let text = || String::from_utf8_lossy(&bytes).into_owned();
        if path.eq_ignore_ascii_case(MAIN_FILE) {
            (package.main, has_main) = (text(), true);
        } else if is_reference(path) {
            package.references.insert(path.to_owned(), text());
        } else {
            package.carry(path, CarriedFile::new(bytes, mode == Some("100755")));
        }
    }
    if !has_main {
        return Ok(None);
    }
    let place = dir.join(format!("(revision {revision})"));
    Ok(Some(document(&place, package)?))
}

/// True if the folder is in a repository that has a revision.
fn has_revisions(dir: &Path) -> crate::Result<bool> {
    // Git takes only folders.
    if !dir.is_dir() {
        return Ok(false);
    }
    let arguments = ["rev-parse", "--git-dir"];
    match started(dir, &arguments) {
        Ok(output) if output.status.success() => resolves(dir, "HEAD"),
        Ok(output) if String::from_utf8_lossy(&output.stderr).contains(NO_REPOSITORY) => Ok(false),
        Ok(output) => Err(failed(dir, &arguments, &output)),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            crate::output::say(
                "warning: git is not installed, so previous versions of the skill are not found",
            );
            Ok(false)
        }
        Err(error) => Err(error).trying_to("start git"),
    }
}

/// True if the name resolves to an object.
fn resolves(dir: &Path, name: &str) -> crate::Result<bool> {
    const UNKNOWN: i32 = 1;
    let arguments = ["rev-parse", "--verify", "--quiet", name];
    let output = started(dir, &arguments).trying_to("start git")?;
    match output.status.code() {
        Some(0) => Ok(true),
        Some(UNKNOWN) => Ok(false),
        Some(_) | None => Err(failed(dir, &arguments, &output)),
    }
}

/// What git prints in a folder of a repository.
fn git(dir: &Path, arguments: &[&str]) -> crate::Result<Vec<u8>> {
    let output = started(dir, arguments).trying_to("start git")?;
    if output.status.success() { Ok(output.stdout) } else { Err(failed(dir, arguments, &output)) }
}

fn started(dir: &Path, arguments: &[&str]) -> io::Result<Output> {
    // What it says is compared, so it is in one language.
    Command::new("git").arg("-C").arg(dir).args(arguments).env("LC_ALL", "C").output()
}

/// The error of a git command, with git's own message.
fn failed(dir: &Path, arguments: &[&str], output: &Output) -> CliError {
    let stderr = harmless(String::from_utf8_lossy(&output.stderr).trim());
    let message =
        format!("`git {}` failed in {} ({}): {stderr}", arguments.join(" "), dir.display(), output.status);
    let hint = "repair the repository, or name the previous version as a folder with `--previous`";
    CommandError::new(message).with_code(exit_code::OTHER).with_hint(hint).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    /// A folder `skill` with a SKILL.md in a directory that may be a repository.
    struct Place(tempfile::TempDir);

    impl Place {
        fn new() -> Self {
            let place = Self(tempfile::tempdir().unwrap());
            std::fs::create_dir(place.skill()).unwrap();
            place.write("first");
            place
        }

        fn skill(&self) -> PathBuf {
            self.0.path().join("skill")
        }

        fn write(&self, rule: &str) {
            let text = format!("---\nname: skill\ndescription: Adds.\n---\n# Rules\n\n- {rule}\n");
            std::fs::write(self.skill().join(MAIN_FILE), text).unwrap();
        }

        fn git(&self, arguments: &[&str]) -> String {
            let author = ["-c", "user.name=a", "-c", "user.email=a@b.c"];
            String::from_utf8(git(self.0.path(), &[&author[..], arguments].concat()).unwrap()).unwrap()
        }

        fn commit(&self) {
            self.git(&["add", "."]);
            self.git(&["commit", "--quiet", "--message", "a version"]);
        }

        /// Removes an object of the repository.
        fn lose(&self, name: &str) {
            let object = self.git(&["rev-parse", name]);
            let (folder, file) = object.trim().split_at(2);
            std::fs::remove_file(self.0.path().join(".git/objects").join(folder).join(file)).unwrap();
        }

        /// The text of the previous version, or the exit code.
        fn previous(&self, named: Option<&str>) -> Result<Option<String>, u8> {
            let current = delivered(&self.skill()).unwrap();
            let found = previous(&self.skill(), &current, named).map_err(|error| error.code())?;
            Ok(found.map(|found| SkillPackage::of(&found.skill).main))
        }

        #[track_caller]
        fn check(&self, named: Option<&str>, expect: Result<Option<&str>, u8>) {
            let found = self.previous(named);
            let is_same = match (&found, expect) {
                (Ok(Some(text)), Ok(Some(rule))) => text.contains(rule),
                (Ok(None), Ok(None)) => true,
                (Err(code), Err(expect)) => *code == expect,
                (Ok(_) | Err(_), _) => false,
            };
            assert!(is_same, "{found:?}, not {expect:?}");
        }
    }

    #[test]
    fn a_failure_of_git_is_not_a_skill_without_a_previous_version() {
        let place = Place::new();
        // Neither a folder without a repository nor one without a revision has any.
        place.check(None, Ok(None));
        place.check(Some("HEAD"), Err(exit_code::USAGE));
        place.git(&["init", "--quiet"]);
        place.check(None, Ok(None));
        place.commit();
        place.check(None, Ok(None));
        place.write("second");
        place.check(None, Ok(Some("first")));
        place.commit();
        for name in ["HEAD~1", "HEAD~1^{tree}"] {
            place.check(Some(name), Ok(Some("first")));
        }
        for name in ["nowhere", "-1"] {
            place.check(Some(name), Err(exit_code::USAGE));
        }
        // Of the newest version that differs its SKILL.md is lost, and an older one is not the previous one.
        place.write("third");
        place.check(None, Ok(Some("second")));
        place.lose("HEAD:skill/SKILL.md");
        place.check(None, Err(exit_code::OTHER));
        place.check(Some("HEAD"), Err(exit_code::OTHER));
        place.check(Some("HEAD~1"), Ok(Some("first")));
        place.lose("HEAD");
        place.check(None, Err(exit_code::OTHER));
    }

    #[test]
    fn a_repository_that_git_refuses_to_open_is_an_error_only_for_a_named_revision() {
        let place = Place::new();
        std::fs::write(place.0.path().join(".git"), "gitdir: nowhere\n").unwrap();
        place.check(None, Ok(None));
        place.check(Some("HEAD"), Err(exit_code::OTHER));
    }
}
