//! `current_skill.md` and `best_skill.md`, against the hashes in the state and the summary.

use super::{Checking, Remedy};
use crate::records::document::RuntimeState;
use crate::records::summary::Summary;
use crate::run_dir::RunReader;
use skill_core::SkillHash;
use std::path::Path;

impl Checking<'_> {
    pub(super) fn skills(&mut self, state: &RuntimeState, summary: Option<&Summary>) {
        // Both are replaced before the state that names them.
        if self.check.is_training {
            return;
        }
        let best = summary.map_or(&state.best_skill_hash, |summary| &summary.best_skill_hash);
        for (name, expected) in [("current_skill.md", &state.current_skill_hash), ("best_skill.md", best)] {
            let run = self.run;
            self.file(name, Remedy::Resume, |bytes| {
                let found = SkillHash::of(&String::from_utf8_lossy(bytes));
                found == *expected || summary.is_none() && is_on_its_way(run, state, &found)
            });
        }
    }
}

/// Whether a skill is one that a process was about to name in the state when it died.
fn is_on_its_way(run: &Path, state: &RuntimeState, hash: &SkillHash) -> bool {
    RunReader::open(run).and_then(|run| run.is_on_its_way(state, hash)).unwrap_or(false)
}
