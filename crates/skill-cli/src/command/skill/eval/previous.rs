//! The previous version of a skill: another folder, or a revision of git.

use crate::command::CommandError;
use skill_agents::measure::is_delivered;
use skillrl::core::SkillDoc;
use skillrl::core::carried::CarriedFile;
use skillrl::core::package::{MAIN_FILE, SkillPackage, is_reference};
use skillrl::envs::folder::read_folder_without;
use std::path::Path;
use std::process::Command;

/// The folder of a skill with its cases, which agents do not get.
const CASES: &str = "evals";

/// A version to compare with.
pub(super) struct Previous {
    pub(super) skill: SkillDoc,
    /// What it is, in words.
    pub(super) name: String,
}

/// The version that a person names, a folder or a revision; without one, the last that differs from the folder as it is.
///
/// `None` where there is none: the folder is in no repository, or was never changed.
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
        let skill = at_revision(dir, name)?.ok_or_else(|| {
            CommandError::new(format!(
                "{name:?} is neither a folder nor a revision in which {} exists",
                dir.display()
            ))
            .with_hint("name a folder with a SKILL.md, or a revision such as HEAD~1 or a tag")
        })?;
        return Ok(Some(Previous { skill, name: name.to_owned() }));
    }
    const MAX_VERSIONS: &str = "--max-count=20";
    let Some(log) = git(dir, &["log", MAX_VERSIONS, "--format=%H", "--", "."]) else { return Ok(None) };
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

/// The folder in a revision; `None` where it is not there, or has no SKILL.md.
fn at_revision(dir: &Path, revision: &str) -> crate::Result<Option<SkillDoc>> {
    if revision.starts_with('-') {
        return Ok(None);
    }
    let Some(list) = git(dir, &["ls-tree", "-r", "-z", revision, "--", "."]) else { return Ok(None) };
    let mut package = SkillPackage::default();
    let mut has_main = false;
    for entry in String::from_utf8_lossy(&list).split('\0').filter(|entry| !entry.is_empty()) {
        let Some((head, path)) = entry.split_once('\t') else { continue };
        let mut words = head.split(' ');
        let (mode, kind, object) = (words.next(), words.next(), words.next());
        let is_left_out = path.split('/').any(|part| part.starts_with('.') || part == "__pycache__");
        let (Some("blob"), Some(object), false) = (kind, object, is_left_out) else { continue };
        if !is_delivered(path) {
            continue;
        }
        let Some(bytes) = git(dir, &["cat-file", "blob", object]) else { continue };
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

/// What git prints in a folder; `None` where it is not installed, or fails.
fn git(dir: &Path, arguments: &[&str]) -> Option<Vec<u8>> {
    let output = Command::new("git").arg("-C").arg(dir).args(arguments).output().ok()?;
    output.status.success().then_some(output.stdout)
}
