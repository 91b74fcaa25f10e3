//! What a person made of the skills of a run: no process replaces it without keeping it.

use super::atomic;
use super::held::RunDir;
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
        let Ok(bytes) = regular_file::read(&path) else { return Ok(None) };
        let hash = SkillHash::of(&String::from_utf8_lossy(&bytes));
        if bytes.is_empty() || own.iter().any(|skill| skill.hash() == hash) || self.has_skill(&hash) {
            return Ok(None);
        }
        for number in 1_u32.. {
            let number = if number == 1 { String::new() } else { format!("-{number}") };
            let kept = self.path().join(format!("{name}{CHANGED}{number}.md"));
            match regular_file::read(&kept) {
                Ok(there) if there == bytes => return Ok(Some(kept)),
                Ok(_) => {}
                Err(_) => {
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
