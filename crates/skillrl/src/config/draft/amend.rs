//! Amendments: an environment and simulated models, as if the file had said so.

use super::{Draft, Entry, Origin, Place, ProblemKind};
use crate::config::models::SIMULATED_KIND;
use crate::config::{Amendments, EnvKind, keys, value};
use serde_json::Value;
use skill_bank::retrieve::RetrievalMode;
use std::fmt::Write as _;

/// Models that every configuration has.
const NEEDED: [&str; 2] = ["target", "optimizer"];
/// Models that a configuration may have, and that can be simulated in a world.
const OPTIONAL: [&str; 1] = ["teacher"];
/// Models that cannot be simulated in a world, which needs none of them.
const WITHOUT_SIMULATION: [&str; 2] = ["judge", "embedding"];

impl Draft {
    /// Makes the amendments; returns the text of what came of the file, `None` if nothing was amended.
    pub(in crate::config) fn amend(&mut self, amendments: Amendments) -> Option<String> {
        if amendments.is_empty() {
            return None;
        }
        if let Some(kind) = amendments.env {
            self.amend_env(kind);
        }
        if amendments.simulates_models {
            self.simulate_models();
        }
        Some(self.as_toml())
    }

    /// Reports what the amendments do not go together with, overrides included.
    pub(in crate::config) fn check_amended(&mut self, amendments: Amendments) {
        if !amendments.simulates_models {
            return;
        }
        let kind = keys::section("env").and_then(|section| self.kind_of(section));
        let is_world = |kind: &str| EnvKind::parse(kind).is_some_and(EnvKind::is_built_in_world);
        if let Some(kind) = kind.filter(|kind| !is_world(kind)) {
            let worlds: Vec<&str> = EnvKind::ALL
                .into_iter()
                .filter(|kind| kind.is_built_in_world())
                .map(EnvKind::as_str)
                .collect();
            let message = format!(
                "`env.kind` is \"{kind}\", and simulated models know the built-in worlds alone: {}",
                worlds.join(", ")
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
            let is_given = self.given.iter().any(|path| path.starts_with(&prefix));
            let is_simulated = self.text_at(&kind) == Some(SIMULATED_KIND);
            let can_be = !WITHOUT_SIMULATION.contains(role);
            if is_simulated && can_be {
                continue;
            }
            self.given.retain(|path| !path.starts_with(&prefix));
            self.entries.retain(|path, _| !path.starts_with(&prefix));
            if can_be && (is_given || NEEDED.contains(role)) {
                self.amend_key(&kind, SIMULATED_KIND);
            }
        }
        // Simulated models have no weights.
        let is_of_weights = |path: &String| path.starts_with("sft.") || path.starts_with("rl.");
        self.given.retain(|path| !is_of_weights(path));
        self.entries.retain(|path, _| !is_of_weights(path));
        const MODE: &str = "retrieval.mode";
        if self.text_at(MODE) == Some(RetrievalMode::Embedding.as_str()) {
            self.amend_key(MODE, RetrievalMode::Template.as_str());
        }
    }

    fn amend_key(&mut self, path: &str, value: &str) {
        let place = Place::File { origin: self.origin.clone() };
        self.given.insert(path.to_owned());
        let entry = Entry { value: Value::from(value), origin: Origin::Default, place };
        self.entries.insert(path.to_owned(), entry);
    }

    fn text_at(&self, path: &str) -> Option<&str> {
        self.entries.get(path)?.value.as_str()
    }

    fn report_at(&mut self, path: &str, message: String) {
        let whole = || Place::File { origin: self.origin.clone() };
        let place = self.entries.get(path).map_or_else(whole, |entry| entry.place.clone());
        self.report(place, ProblemKind::Conflict { message });
    }

    /// What is set so far, as a configuration file.
    fn as_toml(&self) -> String {
        let mut text = String::new();
        for section in keys::sections() {
            let mut lines = String::new();
            for key in section.keys() {
                if let Some(entry) = self.entries.get(&section.path_of(key)) {
                    let _ = writeln!(lines, "{} = {}", key.name, value::to_toml(&entry.value));
                }
            }
            if !lines.is_empty() {
                let gap = if text.is_empty() { "" } else { "\n" };
                let _ = write!(text, "{gap}[{}]\n{lines}", section.path);
            }
        }
        text
    }
}
