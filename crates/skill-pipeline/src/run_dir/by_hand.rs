//! What a person made of the skills of a run: no process replaces it without keeping it.

use super::atomic;
use super::held::RunDir;
use super::read::read_bytes;
use crate::error::PipelineError;
use skill_core::{SkillDoc, SkillHash};
use skill_llm::regular_file;
use std::fs;
use std::path::{Path, PathBuf};

/// What a kept file has after the name of the skill.
const CHANGED: &str = ".changed";

/// The run's two skill files, by their names without `.md`.
pub(crate) const SKILL_FILE_STEMS: [&str; 2] = ["current_skill", "best_skill"];

/// Whether a file of a run directory is one that [`RunDir::keep_changed_skill`] puts there, by its name.
pub fn is_kept_by_hand(name: &str) -> bool {
    SKILL_FILE_STEMS
        .iter()
        .any(|skill| name.strip_prefix(skill).is_some_and(|rest| rest.starts_with(CHANGED)))
}

impl RunDir {
    /// Looks whether one of the run's two skill files holds what no process of this run has written, and if so puts
    /// that beside it before it is written again; returns the new file.
    ///
    /// # Errors
    ///
    /// A file that cannot be read or written.
    pub fn keep_changed_skill(
        &self,
        name: &str,
        own: &[&SkillDoc],
    ) -> Result<Option<PathBuf>, PipelineError> {
        let path = self.path().join(format!("{name}.md"));
        // What is not there, or no text, is written again as the run has it.
        let Some(bytes) = read_bytes(&path)? else { return Ok(None) };
        let hash = SkillHash::of(&String::from_utf8_lossy(&bytes));
        if bytes.is_empty() || own.iter().any(|skill| skill.hash() == hash) || self.has_skill(&hash) {
            return Ok(None);
        }
        for number in 1_u32.. {
            let number = if number == 1 { String::new() } else { format!("-{number}") };
            let kept = self.path().join(format!("{name}{CHANGED}{number}.md"));
            match read_bytes(&kept)? {
                Some(there) if there == bytes => return Ok(Some(kept)),
                Some(_) => {}
                None => {
                    atomic::write(&kept, &bytes)?;
                    return Ok(Some(kept));
                }
            }
        }
        Ok(None)
    }

    /// Whether a skill is one that a process of this run wrote: after a step or an epoch, or as a candidate.
    fn has_skill(&self, hash: &SkillHash) -> bool {
        let of_dir = |dir: &str| entries(&self.path().join(dir));
        let candidates = of_dir("steps").into_iter().chain(of_dir("slow_update"));
        let candidates = candidates.map(|dir| dir.join("candidate_skill.md"));
        let mut files = of_dir("skills").into_iter().chain(candidates);
        files.any(|path| regular_file::read_to_string(&path).is_ok_and(|text| SkillHash::of(&text) == *hash))
    }
}

fn entries(dir: &Path) -> Vec<PathBuf> {
    fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(before: &[(&str, Option<&str>)], expect: Result<Option<&str>, &str>) {
        let dir = tempfile::tempdir().unwrap();
        let run = RunDir::open(dir.path()).unwrap();
        for (name, text) in before {
            let path = dir.path().join(name);
            match text {
                Some(text) => fs::write(path, text).unwrap(),
                // A directory in place of the file is unreadable for every user, including root.
                None => fs::create_dir(path).unwrap(),
            }
        }
        let kept = match run.keep_changed_skill("best_skill", &[&SkillDoc::new("own".to_owned())]) {
            Ok(kept) => Ok(kept),
            Err(PipelineError::RunDir { action: "read", path, .. }) => Err(path),
            Err(other) => panic!("{other:?}"),
        };
        let below = |name: &str| dir.path().join(name);
        assert_eq!(kept, expect.map(|name| name.map(below)).map_err(below));
    }

    #[test]
    fn a_changed_skill_is_kept_and_one_that_cannot_be_read_is_not_replaced() {
        const FILE: &str = "best_skill.md";
        const KEPT: &str = "best_skill.changed.md";
        check(&[], Ok(None));
        check(&[(FILE, Some("own"))], Ok(None));
        check(&[(FILE, Some("other"))], Ok(Some(KEPT)));
        check(&[(FILE, Some("other")), (KEPT, Some("earlier"))], Ok(Some("best_skill.changed-2.md")));
        check(&[(FILE, None)], Err(FILE));
        check(&[(FILE, Some("other")), (KEPT, None)], Err(KEPT));
    }
}
