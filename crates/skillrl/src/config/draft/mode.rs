//! What is trained, and which keys have a meaning there.

use super::{Draft, ProblemKind, default_value};
use crate::config::keys;
use crate::config::types::TrainMode;
use skill_bank::retrieve::RetrievalMode;

/// Sections whose keys mean something where a document is trained, and nothing for a bank.
const OF_DOCUMENTS: [&str; 2] = ["train", "gate"];
/// Keys of these sections that a bank has too.
const OF_BOTH: [&str; 1] = ["train.mode"];
/// Sections that only the training of a bank has. Which skills a task is shown is of use without training too.
const OF_BANKS: [&str; 2] = ["bank", "evolution"];

impl Draft {
    /// Reports keys that have no meaning for what is trained, unless their values are the defaults.
    pub(super) fn check_mode(&mut self) {
        let is_bank = self.mode() == TrainMode::Bank.as_str();
        let (mode, other) = match is_bank {
            true => (TrainMode::Bank, TrainMode::Document),
            false => (TrainMode::Document, TrainMode::Bank),
        };
        let mut problems = Vec::new();
        for (section, key) in keys::keys() {
            let path = section.path_of(key);
            let has_meaning = match is_bank {
                true => !OF_DOCUMENTS.contains(&section.path) || OF_BOTH.contains(&path.as_str()),
                false => !OF_BANKS.contains(&section.path),
            };
            let Some(entry) = self.entries.get(&path).filter(|_| !has_meaning) else { continue };
            if !self.given.contains(&path) || default_value(&path, key).as_ref() == Some(&entry.value) {
                continue;
            }
            let message = format!(
                "`{path}` has no meaning where `train.mode` is \"{}\"; it is for \"{}\"",
                mode.as_str(),
                other.as_str()
            );
            problems.push((entry.place.clone(), message));
        }
        for (place, message) in problems {
            self.report(place, ProblemKind::Conflict { message });
        }
        self.check_embedding();
    }

    /// Retrieval by vectors needs a model that gives them.
    fn check_embedding(&mut self) {
        let mode =
            self.entry("retrieval.mode").and_then(|entry| Some((entry.value.as_str()?, entry.place.clone())));
        if let Some((mode, place)) = mode
            && mode == RetrievalMode::Embedding.as_str()
            && self.entry("models.embedding.model").is_none()
            && self.entry("models.embedding.path").is_none()
        {
            let message =
                "`retrieval.mode` is \"embedding\", and there is no section [models.embedding]".to_owned();
            self.report(place, ProblemKind::Conflict { message });
        }
    }
}
