//! Amendments: an environment and simulated models, as if the file had said so.

use super::policy::OF_CONTEXT;
use super::{Draft, ValueSource};
use crate::config::models::SIMULATED_KIND;
use crate::config::{Amendments, EnvKind, OptimizerUse, SftReasoning, TrainMode, keys};
use skill_bank::retrieve::RetrievalMode;

/// Models that every configuration has.
const NEEDED: [&str; 2] = ["target", "optimizer"];
/// Models that a configuration may have, and that can be simulated.
const OPTIONAL: [&str; 2] = ["teacher", "judge"];
/// A model that cannot be simulated; nothing needs it.
const WITHOUT_SIMULATION: [&str; 1] = ["embedding"];

impl Draft {
    /// Makes the amendments; returns the text of what came of the file, `None` if nothing was amended.
    pub(in crate::config) fn amend(&mut self, amendments: Amendments) -> Option<String> {
        self.trains_weights = amendments.trains_weights;
        let is_left_out = self.leave_out_optimizer(amendments.optimizer);
        if amendments.is_empty() {
            return is_left_out.then(|| self.as_toml());
        }
        if let Some(kind) = amendments.env {
            self.amend_env(kind);
        }
        if amendments.simulates_models {
            self.simulate_models();
        }
        let is_household = self.text_at("env.kind") == Some(EnvKind::Alfworld.as_str());
        if amendments.all_phases && cfg!(feature = "weights") && is_household {
            self.amend_key("train.mode", TrainMode::Weights.as_str());
        }
        Some(self.as_toml())
    }

    /// Reports what the amendments do not go together with, overrides included.
    pub(in crate::config) fn check_amended(&mut self, amendments: Amendments) {
        if !amendments.simulates_models {
            return;
        }
        let kind = keys::section("env").and_then(|section| self.kind_of(section));
        let is_simulated = |kind: &str| {
            EnvKind::parse(kind).is_some_and(|kind| kind.is_built_in_world() || kind.has_data_file())
        };
        if let Some(kind) = kind.filter(|kind| !is_simulated(kind)) {
            let kinds: Vec<&str> =
                EnvKind::ALL.into_iter().map(EnvKind::as_str).filter(|kind| is_simulated(kind)).collect();
            let message = format!(
                "`env.kind` is \"{kind}\", and simulated models know the built-in worlds and data files alone: {}",
                kinds.join(", ")
            );
            self.report_at("env.kind", message);
        }
        for role in NEEDED.iter().chain(&OPTIONAL) {
            let path = format!("models.{role}.kind");
            if let Some(kind) = self.text_at(&path).filter(|kind| *kind != SIMULATED_KIND) {
                let message = format!("`{path}` is \"{kind}\", and all models are to be simulated");
                self.report_at(&path, message);
            }
        }
    }

    /// Puts a simulated optimizer, which is asked nothing, in the place of one that is not given; true if it did.
    fn leave_out_optimizer(&mut self, needed: OptimizerUse) -> bool {
        let has_teacher = self.is_there("teacher");
        let is_needed = match needed {
            OptimizerUse::Edits => true,
            OptimizerUse::Teaching => {
                let trains_bank =
                    self.text_at("train.mode").and_then(TrainMode::parse).is_some_and(|mode| mode.has_bank());
                let writes_reasons = self.text_at("sft.reasoning") == Some(SftReasoning::Teacher.as_str());
                !has_teacher && (trains_bank || writes_reasons)
            }
            OptimizerUse::Nothing => false,
        };
        if is_needed || self.is_there("optimizer") {
            return false;
        }
        self.amend_key("models.optimizer.kind", SIMULATED_KIND);
        true
    }

    /// True if the section of a model has a key.
    fn is_there(&self, role: &str) -> bool {
        let prefix = format!("models.{role}.");
        self.given.iter().any(|path| path.starts_with(&prefix))
    }

    fn amend_env(&mut self, kind: EnvKind) {
        const KEY: &str = "env.kind";
        match self.text_at(KEY) {
            Some(given) if given == kind.as_str() => {}
            Some(given) => {
                let message =
                    format!("`{KEY}` is \"{given}\", and the environment \"{}\" is requested", kind.as_str());
                self.report_at(KEY, message);
            }
            None => self.amend_key(KEY, kind.as_str()),
        }
    }

    fn simulate_models(&mut self) {
        for role in NEEDED.iter().chain(&OPTIONAL).chain(&WITHOUT_SIMULATION) {
            let prefix = format!("models.{role}.");
            let kind = format!("{prefix}kind");
            let is_given = self.is_there(role);
            let is_simulated = self.text_at(&kind) == Some(SIMULATED_KIND);
            // Worlds need no judge.
            let is_needed = *role != "judge" || self.text_at("env.kind") == Some(EnvKind::Tasks.as_str());
            let can_be = is_needed && !WITHOUT_SIMULATION.contains(role);
            if is_simulated && can_be {
                continue;
            }
            self.forget(|path| path.starts_with(&prefix));
            if *role == "target" {
                self.fit_limits_to_decoder();
            }
            if can_be && (is_given || NEEDED.contains(role)) {
                self.amend_key(&kind, SIMULATED_KIND);
            }
        }
        // Outside of households nothing is simulated whose weights can be trained.
        if self.text_at("env.kind") != Some(EnvKind::Alfworld.as_str()) {
            self.forget(|path| path.starts_with("sft.") || path.starts_with("rl."));
        }
        const MODE: &str = "retrieval.mode";
        if self.text_at(MODE) == Some(RetrievalMode::Embedding.as_str()) {
            self.amend_key(MODE, RetrievalMode::Template.as_str());
        }
    }

    /// Takes back the limits of tokens of a target that is replaced if the decoder has no room for them; smaller ones
    /// are kept.
    fn fit_limits_to_decoder(&mut self) {
        let too_large = |path: &&str| {
            let limit = super::policy::limit_of_decoder(path);
            self.entries
                .get(*path)
                .and_then(|entry| entry.value.as_i64())
                .zip(limit)
                .is_some_and(|(given, limit)| given > limit)
        };
        let too_large: Vec<&str> = OF_CONTEXT.into_iter().filter(too_large).collect();
        self.forget(|path| too_large.contains(&path));
    }

    /// Takes settings back, as if nobody had given them.
    fn forget(&mut self, is_one: impl Fn(&str) -> bool) {
        self.given.retain(|path| !is_one(path));
        self.entries.retain(|path, _| !is_one(path));
    }

    fn amend_key(&mut self, path: &str, value: &str) {
        self.given.insert(path.to_owned());
        self.set(path.to_owned(), value.into(), ValueSource::Default);
    }

    /// What is set so far, as a configuration file.
    fn as_toml(&self) -> String {
        let sections = keys::sections().iter().map(|section| self.shown_section(section, section.path));
        sections.filter(|shown| !shown.is_empty()).collect::<Vec<_>>().join("\n")
    }
}
