//! `[models.targets.NAME]`: further models that may do the tasks, each with all keys of `[models.target]`.
//!
//! Each of them is checked as the configuration with this model in the place of its target, so that it has the same
//! kinds, presets, defaults and conflicts.

use super::{Draft, Place, Problem, ProblemKind, Source, TARGET};
use crate::config::keys;
use std::collections::BTreeMap;
use toml::de::DeValue;

/// The section of these sections.
pub(in crate::config) const TARGETS: &str = "models.targets";

/// The drafts of these models, by name.
pub(super) type NamedTargets = BTreeMap<String, Draft>;

impl Draft {
    /// Takes the tables below `[models.targets]`.
    pub(super) fn walk_targets(&mut self, source: &Source<'_>, value: &DeValue<'_>, place: &Place) {
        let DeValue::Table(table) = value else {
            return self.report(place.clone(), ProblemKind::NotAKey { section: TARGETS.to_owned() });
        };
        for (name, value) in table {
            let place = source.place(name.span().start);
            let name = name.get_ref().as_ref();
            let section = format!("{TARGETS}.{name}");
            if !is_sound(name) {
                let message = format!(
                    "[{section}] has a name that no file can have: letters, digits, `-`, `_` and `.` make one, and \"target\" is that of [{TARGET}]"
                );
                self.report(place, ProblemKind::Conflict { message });
                continue;
            }
            let DeValue::Table(inner) = value.get_ref() else {
                self.report(place, ProblemKind::NotAKey { section });
                continue;
            };
            self.named_target(name, place).walk(source, keys::section(TARGET), TARGET, inner);
        }
    }

    /// Takes an override of one of these models; false if it is none of such a model.
    pub(super) fn override_target(&mut self, path: &str, text: &str) -> bool {
        let below = path.strip_prefix(TARGETS).and_then(|below| below.strip_prefix('.'));
        let Some((name, key)) = below.and_then(|below| below.split_once('.')) else { return false };
        if !is_sound(name) {
            return false;
        }
        self.named_target(name, Place::Set).read_override(&format!("{TARGET}.{key}"), text);
        true
    }

    fn named_target(&mut self, name: &str, place: Place) -> &mut Self {
        let origin = self.origin.clone();
        let target = self.targets.entry(name.to_owned()).or_insert_with(|| Self::new(&origin));
        target.section_places.entry(TARGET).or_insert(place);
        target
    }

    /// Hands the drafts of these models out: each is this one with that model in the place of the target.
    pub(in crate::config) fn take_targets(&mut self) -> NamedTargets {
        let is_of_target = |key: &str| key.strip_prefix(TARGET).is_some_and(|rest| rest.starts_with('.'));
        let targets = std::mem::take(&mut self.targets);
        let whole = |own: Self| {
            let rest = self.entries.iter().filter(|(key, _)| !is_of_target(key));
            let given = self.given.iter().filter(|key| !is_of_target(key)).cloned();
            let mut places = self.section_places.clone();
            places.extend(own.section_places);
            Self {
                entries: rest.map(|(key, entry)| (key.clone(), entry.clone())).chain(own.entries).collect(),
                given: given.chain(own.given).collect(),
                problems: own.problems,
                section_places: places,
                origin: own.origin,
                targets: BTreeMap::new(),
                trains_weights: false,
            }
        };
        targets.into_iter().map(|(name, own)| (name, whole(own))).collect()
    }
}

/// A problem of one of these models, which names it.
pub(in crate::config) fn problem_of(name: &str, problem: Problem) -> Problem {
    let message = format!("[{TARGETS}.{name}]: {}", problem.kind);
    Problem { place: problem.place, kind: ProblemKind::Conflict { message } }
}

/// True if the name can be that of a file, and is not the target's.
fn is_sound(name: &str) -> bool {
    let is_plain = |character: char| character.is_ascii_alphanumeric() || "-_.".contains(character);
    !name.is_empty() && name != "target" && !name.starts_with('.') && name.chars().all(is_plain)
}
