//! What is trained, and which keys have a meaning there.

use super::Draft;
use crate::config::keys;
use crate::config::models::LOCAL_KIND;
use crate::config::types::TrainMode;
use skill_bank::retrieve::RetrievalMode;

/// Sections whose keys mean something where a document is trained, and nothing for a bank.
const OF_DOCUMENTS: [&str; 2] = ["train", "gate"];
/// Keys of these sections that a bank has too.
const OF_BOTH: [&str; 1] = ["train.mode"];
/// Sections that only the training of a bank has. Which skills a task is shown is of use without training too.
const OF_BANKS: [&str; 2] = ["bank", "evolution"];
/// The section that only the training of weights has.
const OF_WEIGHTS: &str = "collect";

impl Draft {
    /// Reports keys that have no meaning for what is trained, unless their values are the defaults.
    pub(super) fn check_mode(&mut self) {
        let mode = TrainMode::parse(self.mode()).unwrap_or(TrainMode::Document);
        let other = if mode.has_bank() { TrainMode::Document } else { TrainMode::Bank };
        let mut problems = Vec::new();
        for (section, key) in keys::keys() {
            let path = section.path_of(key);
            let has_meaning = match mode {
                TrainMode::Document => !OF_BANKS.contains(&section.path),
                TrainMode::Bank | TrainMode::Weights => {
                    !OF_DOCUMENTS.contains(&section.path) || OF_BOTH.contains(&path.as_str())
                }
            };
            let (has_meaning, other) = match section.path {
                OF_WEIGHTS => (mode == TrainMode::Weights, &TrainMode::Weights),
                _ => (has_meaning, &other),
            };
            let Some(entry) = self.entries.get(&path).filter(|_| !has_meaning) else { continue };
            if !self.given.contains(&path) || keys::default_of(key).as_ref() == Some(&entry.value) {
                continue;
            }
            let message = format!(
                "`{path}` has no meaning where `train.mode` is \"{}\"; it is for \"{}\"",
                mode.as_str(),
                other.as_str()
            );
            problems.push((path, message));
        }
        for (path, message) in problems {
            self.report_at(&path, message);
        }
        self.check_embedding();
        self.check_weights();
    }

    /// Weights that are trained are on this machine.
    fn check_weights(&mut self) {
        let kind = self.model_kind("target").unwrap_or_default();
        if self.mode() == TrainMode::Weights.as_str() && !self.can_train(&kind) {
            let message = format!(
                "`train.mode` is \"weights\", which trains a target of kind \"{LOCAL_KIND}\", and `models.target.kind` is \"{kind}\""
            );
            self.report_at("train.mode", message);
        }
    }

    /// Retrieval by vectors needs a model that gives them.
    fn check_embedding(&mut self) {
        const MODE: &str = "retrieval.mode";
        if self.text_at(MODE) == Some(RetrievalMode::Embedding.as_str())
            && self.entry("models.embedding.model").is_none()
            && self.entry("models.embedding.path").is_none()
        {
            self.report_at(
                MODE,
                "`retrieval.mode` is \"embedding\", but the section [models.embedding] is missing",
            );
        }
    }
}
