//! `current_skill.md` and `best_skill.md`, against the hashes in the state and the summary.

use super::{Checking, Fault, Remedy};
use crate::records::document::RuntimeState;
use crate::records::summary::Summary;
use crate::run_dir::RunReader;
use crate::run_dir::read::read_bytes;
use skill_core::SkillHash;

impl Checking<'_> {
    pub(super) fn skills(&mut self, state: &RuntimeState, summary: Option<&Summary>) {
        // Both are replaced before the state that names them.
        if self.check.is_training {
            return;
        }
        let best = summary.map_or(&state.best_skill_hash, |summary| &summary.best_skill_hash);
        for (name, expected) in [("current_skill.md", &state.current_skill_hash), ("best_skill.md", best)] {
            let bytes = match read_bytes(&self.run.join(name)) {
                Ok(bytes) => bytes,
                Err(error) => {
                    self.unreadable(name, &error, Remedy::Resume);
                    continue;
                }
            };
            let Some(bytes) = bytes else {
                self.damaged(name, Fault::Missing, Remedy::Resume);
                continue;
            };
            let found = SkillHash::of(&String::from_utf8_lossy(&bytes));
            if found == *expected || summary.is_none() && self.is_on_its_way(state, &found) {
                self.whole(name);
            } else if bytes.is_empty() {
                self.damaged(name, Fault::Empty, Remedy::Resume);
            } else {
                self.damaged(name, Fault::Changed, Remedy::Resume);
            }
        }
    }

    /// Whether a skill is one that a process was about to name in the state when it died.
    fn is_on_its_way(&self, state: &RuntimeState, hash: &SkillHash) -> bool {
        RunReader::open(self.run).and_then(|run| run.is_on_its_way(state, hash)).unwrap_or(false)
    }
}
