//! From TOML and overrides to checked settings, one JSON value per dotted key, with all problems collected.

mod amend;
mod env;
mod mode;
mod models;
mod policy;
mod targets;

use super::Origin;
use super::error::{ConfigError, Place, Problem, ProblemKind};
use super::key::{KeyDefault, KeySpec, ValueType};
use super::keys::{self, SectionSpec};
use super::types::TrainMode;
use super::{suggest, value};
use models::ROLES;
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use targets::NamedTargets;
pub(super) use targets::TARGETS;
pub(super) use targets::problem_of;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Two models each, which may be of one server.
const PAIRS: [(&str, &str); 6] = [
    ("target", "optimizer"),
    ("target", "judge"),
    ("optimizer", "judge"),
    ("target", "teacher"),
    ("optimizer", "teacher"),
    ("judge", "teacher"),
];
/// Longer arguments are cut in messages.
const MAX_SHOWN_CHARS: usize = 60;

/// A value, and where it came from.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) value: Value,
    pub(super) origin: Origin,
    place: Place,
}

/// Settings on the way to a configuration.
#[derive(Debug, Default)]
pub(super) struct Draft {
    entries: BTreeMap<String, Entry>,
    problems: Vec<Problem>,
    /// Keys that were given, well or badly: none of them is missing.
    given: BTreeSet<String>,
    section_places: BTreeMap<&'static str, Place>,
    origin: String,
    /// Further models that may do the tasks.
    targets: NamedTargets,
    /// True if weights are trained, whatever `train.mode` says.
    trains_weights: bool,
}

/// The text that the spans of a walk count in.
struct Source<'a> {
    text: &'a str,
    origin: &'a str,
}

impl Source<'_> {
    fn place(&self, offset: usize) -> Place {
        let before = self.text.as_bytes().get(..offset).unwrap_or(self.text.as_bytes());
        let line_start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |newline| newline + 1);
        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        let in_line = before.get(line_start..).unwrap_or_default();
        let column = String::from_utf8_lossy(in_line).trim_start_matches('\u{feff}').chars().count() + 1;
        Place::At { origin: self.origin.to_owned(), line, column }
    }
}

/// The target.
pub(super) const TARGET: &str = "models.target";
/// The target by the name that it has where weights are trained.
const POLICY: &str = "models.policy";

impl Draft {
    pub(super) fn new(origin: &str) -> Self {
        Self { origin: origin.to_owned(), ..Self::default() }
    }

    fn report(&mut self, place: Place, kind: ProblemKind) {
        self.problems.push(Problem { place, kind });
    }

    /// Everything that is wrong so far, in the order of the file and then of the command line.
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        if self.problems.is_empty() {
            return Ok(());
        }
        let mut problems = self.problems.clone();
        problems.sort_by(|left, right| left.place.cmp(&right.place));
        Err(ConfigError::Invalid { problems })
    }

    /// The settings, if nothing is wrong.
    pub(super) fn finish(self) -> Result<BTreeMap<String, Entry>, ConfigError> {
        self.check()?;
        Ok(self.entries)
    }

    /// Adds what a file says; fails at once where it is not TOML.
    pub(super) fn read_file(&mut self, text: &str) -> Result<(), ConfigError> {
        let origin = self.origin.clone();
        let source = Source { text, origin: &origin };
        match DeTable::parse(text) {
            Ok(table) => {
                self.walk(&source, None, "", table.get_ref());
                Ok(())
            }
            Err(error) => {
                let place = error
                    .span()
                    .map_or_else(|| Place::File { origin: origin.clone() }, |span| source.place(span.start));
                self.report(place, ProblemKind::Syntax { message: error.message().to_owned() });
                self.check()
            }
        }
    }

    fn walk(
        &mut self,
        source: &Source<'_>,
        section: Option<&'static SectionSpec>,
        prefix: &str,
        table: &DeTable<'_>,
    ) {
        for (name, value) in table {
            let place = source.place(name.span().start);
            let name = name.get_ref().as_ref();
            // A quoted name with dots in it is one name, never a path.
            let shown = if name.contains('.') { format!("\"{name}\"") } else { name.to_owned() };
            let path = if prefix.is_empty() { shown } else { format!("{prefix}.{shown}") };
            let path = if path == POLICY { TARGET.to_owned() } else { path };
            if path == TARGETS {
                self.walk_targets(source, value.get_ref(), &place);
                continue;
            }
            if path == TARGET && self.section_places.contains_key(TARGET) {
                let message =
                    format!("[{POLICY}] is another name of [{TARGET}], and both are there; keep one of them");
                self.report(place, ProblemKind::Conflict { message });
                continue;
            }
            if let Some((section, key)) = section.and_then(|section| Some((section, section.key(name)?))) {
                self.take(section, key, value.get_ref(), place);
            } else if is_section_prefix(&path) {
                match value.get_ref() {
                    DeValue::Table(inner) => {
                        let inner_section = keys::section(&path);
                        if let Some(inner_section) = inner_section {
                            self.section_places.insert(inner_section.path, place);
                        }
                        self.walk(source, inner_section, &path, inner);
                    }
                    DeValue::String(_)
                    | DeValue::Integer(_)
                    | DeValue::Float(_)
                    | DeValue::Boolean(_)
                    | DeValue::Datetime(_)
                    | DeValue::Array(_) => self.report(place, ProblemKind::NotAKey { section: path }),
                }
            } else {
                self.unknown(source, section, path, name, value.get_ref(), place);
            }
        }
    }

    fn unknown(
        &mut self,
        source: &Source<'_>,
        section: Option<&'static SectionSpec>,
        path: String,
        name: &str,
        value: &DeValue<'_>,
        place: Place,
    ) {
        if let Some(section) = section {
            let suggestion = suggest::for_key(section, name);
            return self.report(place, ProblemKind::UnknownKey { key: path, suggestion });
        }
        match value.as_table() {
            // `[model.target]` is a wrong name for a section, not for a section of sections.
            Some(inner) if !inner.is_empty() && inner.values().all(|value| value.get_ref().is_table()) => {
                for (name, value) in inner {
                    let place = source.place(name.span().start);
                    let path = format!("{path}.{}", name.get_ref());
                    self.unknown(source, None, path, name.get_ref(), value.get_ref(), place);
                }
            }
            Some(_) => {
                let suggestion = suggest::for_section(&path);
                self.report(place, ProblemKind::UnknownSection { section: path, suggestion });
            }
            None => {
                let suggestion = suggest::for_path(path.trim_matches('"'));
                self.report(place, ProblemKind::UnknownKey { key: path, suggestion });
            }
        }
    }

    fn take(&mut self, section: &SectionSpec, key: &KeySpec, given: &DeValue<'_>, place: Place) {
        let path = section.path_of(key);
        self.given.insert(path.clone());
        let origin = match place {
            Place::At { line, .. } => Origin::File { line },
            Place::File { .. } => Origin::Default,
            Place::Set => Origin::Set,
        };
        match value::check(&path, key.value, given) {
            Ok(value) => {
                self.entries.insert(path, Entry { value, origin, place });
            }
            Err(kind) => {
                self.entries.remove(&path);
                self.report(place, kind);
            }
        }
    }

    /// Adds overrides of the form `KEY=VALUE`; later ones win.
    pub(super) fn read_overrides(&mut self, overrides: &[String]) {
        for argument in overrides {
            match argument.split_once('=') {
                Some((key, text)) if !key.trim().is_empty() => self.read_override(key.trim(), text),
                Some(_) | None => {
                    let argument = shown_argument(argument);
                    self.report(Place::Set, ProblemKind::SetSyntax { argument });
                }
            }
        }
    }

    fn read_override(&mut self, path: &str, text: &str) {
        let of_policy = path.strip_prefix(POLICY).filter(|rest| rest.starts_with('.'));
        let renamed = of_policy.map(|rest| format!("{TARGET}{rest}"));
        let path = renamed.as_deref().unwrap_or(path);
        if self.override_target(path, text) {
            return;
        }
        if let Some((section, key)) = keys::find(path) {
            let given = override_value(text, key.value.is_text());
            return self.take(section, key, &given, Place::Set);
        }
        if let Some((section, key, fields)) = free_field(path) {
            return self.take_field(section, key, &fields, text);
        }
        if is_section_prefix(path) {
            return self.report(Place::Set, ProblemKind::NotAKey { section: path.to_owned() });
        }
        let known = path
            .rsplit_once('.')
            .and_then(|(section, name)| keys::section(section).map(|section| (section, name)));
        let suggestion = match known {
            Some((section, name)) => suggest::for_key(section, name),
            None => suggest::for_path(path),
        };
        self.report(Place::Set, ProblemKind::UnknownKey { key: shown_argument(path), suggestion });
    }

    /// Sets one field of a free table, and keeps its others.
    fn take_field(&mut self, section: &SectionSpec, key: &KeySpec, fields: &[&str], text: &str) {
        let is_text = matches!(key.value, ValueType::Headers);
        let field = fields.iter().rev().fold(override_value(text, is_text), |value, field| {
            let mut table = DeTable::new();
            table.insert(Spanned::new(0..0, Cow::Borrowed(*field)), Spanned::new(0..0, value));
            DeValue::Table(table)
        });
        let path = section.path_of(key);
        let before = self.entries.get(&path).map(|entry| entry.value.clone());
        self.take(section, key, &field, Place::Set);
        if let (Some(mut merged), Some(entry)) = (before, self.entries.get_mut(&path)) {
            merge(&mut merged, std::mem::take(&mut entry.value));
            entry.value = merged;
        }
    }

    /// The kind of a section, with where it was set; `None` where there is none, or a wrong one.
    pub(super) fn kind_of(&self, section: &SectionSpec) -> Option<String> {
        let key = section.key("kind")?;
        let path = section.path_of(key);
        match self.entries.get(&path) {
            Some(entry) => entry.value.as_str().map(str::to_owned),
            None if self.given.contains(&path) => None,
            None => default_value(&path, key)?.as_str().map(str::to_owned),
        }
    }

    /// Whether the section's kind has the key; `false` where the kind itself is wrong.
    pub(super) fn has_key(&self, section: &SectionSpec, key: &KeySpec) -> bool {
        let names = key.kinds.names();
        names.is_empty() || self.kind_of(section).is_some_and(|kind| names.contains(&kind.as_str()))
    }

    /// Whether a section that need not be there is not.
    pub(super) fn lacks(&self, section: &SectionSpec) -> bool {
        let is_needed = section.modes.contains(&self.mode());
        section.is_optional
            && !is_needed
            && !section.keys().any(|key| self.given.contains(&section.path_of(key)))
    }

    /// What is trained, as `train.mode` says.
    pub(super) fn mode(&self) -> &str {
        self.entry("train.mode")
            .and_then(|entry| entry.value.as_str())
            .unwrap_or(TrainMode::Document.as_str())
    }

    /// Reports keys of other kinds than the one that is chosen.
    pub(super) fn check_kinds(&mut self) {
        self.fill_kinds_of_providers();
        for section in keys::sections() {
            let Some(kind) = self.kind_of(section) else { continue };
            for key in section.keys() {
                let path = section.path_of(key);
                let Some(entry) = self.entries.get(&path).filter(|_| !key.kinds.has(&kind)) else { continue };
                let place = entry.place.clone();
                let section = section.path;
                self.report(
                    place,
                    ProblemKind::OtherKind {
                        key: path,
                        owners: key.kinds.names().to_vec(),
                        section,
                        kind: kind.clone(),
                    },
                );
            }
        }
    }

    /// Reports keys that must be given.
    pub(super) fn check_missing(&mut self) {
        for (section, key) in keys::keys() {
            let path = section.path_of(key);
            let KeyDefault::Required { example } = key.default else { continue };
            if self.has_key(section, key) && !self.given.contains(&path) && !self.lacks(section) {
                let whole = || Place::File { origin: self.origin.clone() };
                let place = self.section_places.get(section.path).cloned().unwrap_or_else(whole);
                self.report(place, ProblemKind::Missing { key: path, example });
            }
        }
    }

    /// Sets what was not given.
    pub(super) fn fill_defaults(&mut self) {
        for (section, key) in keys::keys() {
            let path = section.path_of(key);
            let KeyDefault::Value(_) = key.default else { continue };
            if self.has_key(section, key)
                && !self.given.contains(&path)
                && !self.entries.contains_key(&path)
                && !self.lacks(section)
                && let Some(value) = default_value(&path, key)
            {
                let place = Place::File { origin: self.origin.clone() };
                self.entries.insert(path, Entry { value, origin: Origin::Default, place });
            }
        }
    }

    /// Reports values that do not go together.
    pub(super) fn check_conflicts(&mut self) {
        self.check_mode();
        self.check_edit_budgets();
        self.check_saving();
        self.check_targets();
        self.check_rates();
        self.check_prices();
        self.check_env();
        self.check_models();
        self.check_sft();
        self.check_rl();
    }

    /// The least edit budget may not be above the greatest; where it is left out, it follows.
    fn check_edit_budgets(&mut self) {
        let budget = |name: &str| {
            let entry = self.entries.get(name)?;
            Some((entry.value.as_u64()?, entry.origin, entry.place.clone()))
        };
        let least = budget("train.min_edit_budget");
        let most = budget("train.edit_budget");
        let (Some((least, origin, place)), Some((most, _, _))) = (least, most) else { return };
        if least <= most {
            return;
        }
        if origin == Origin::Default {
            if let Some(entry) = self.entries.get_mut("train.min_edit_budget") {
                entry.value = Value::from(most);
            }
            return;
        }
        let message = format!(
            "`train.min_edit_budget` ({least}) is above `train.edit_budget` ({most}); it takes at most {most}"
        );
        self.report(place, ProblemKind::Conflict { message });
    }

    /// What a saving of tokens needs.
    fn check_saving(&mut self) {
        let message = match (self.entries.get("gate.token_saving"), self.entries.get("gate.score_margin")) {
            (Some(saving), _) if self.entry("gate.enabled").is_some_and(|entry| entry.value == false) => {
                let message = "`gate.token_saving` asks for something that `gate.enabled = false` accepts without; leave one of them out";
                (saving.place.clone(), message)
            }
            (None, Some(margin)) => {
                let message = "`gate.score_margin` is what may be given up for `gate.token_saving`, which is not set; set it, or leave the margin out";
                (margin.place.clone(), message)
            }
            (Some(_) | None, _) => return,
        };
        self.report(message.0, ProblemKind::Conflict { message: message.1.to_owned() });
    }

    /// The targets of evaluations are in this process, and each is named once; that they are configured is checked when
    /// all are read.
    fn check_targets(&mut self) {
        let Some(targets) = self.entry("train.targets") else { return };
        let place = targets.place.clone();
        let names: Vec<&str> =
            targets.value.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let twice = names
            .iter()
            .enumerate()
            .find(|(place, name)| names.iter().skip(place + 1).any(|other| other == *name));
        let message = if let Some((_, name)) = twice {
            format!("`train.targets` names \"{name}\" twice")
        } else if !names.is_empty() && self.entry("run.runner").is_some_and(|runner| runner.value == "nats") {
            "`train.targets` are asked by this process, and `run.runner` is \"nats\"; leave one of them out"
                .to_owned()
        } else {
            return;
        };
        self.report(place, ProblemKind::Conflict { message });
    }

    /// Two models of one server have one rate.
    fn check_rates(&mut self) {
        let value = |role: &str, key: &str| self.entries.get(&format!("models.{role}.{key}"));
        let address = |role| value(role, "base_url").map(|entry| &entry.value);
        let mut problems = Vec::new();
        for (first, second) in PAIRS {
            if address(first) != address(second) {
                continue;
            }
            for key in ["requests_per_minute", "tokens_per_minute"] {
                if let (Some(one), Some(other)) = (value(first, key), value(second, key))
                    && one.value != other.value
                {
                    let message = format!(
                        "`models.{first}.{key}` ({}) and `models.{second}.{key}` ({}) are of one server, which has one rate; set it for one of them",
                        one.value, other.value
                    );
                    problems.push((other.place.clone(), ProblemKind::Conflict { message }));
                }
            }
        }
        for (place, problem) in problems {
            self.report(place, problem);
        }
    }

    /// A cap on money means something only with the prices of every model that costs money.
    fn check_prices(&mut self) {
        let Some(cap) = self.entries.get("budget.money") else { return };
        let has = |role: &str, key: &str| self.entries.contains_key(&format!("models.{role}.{key}"));
        let unpriced = ROLES.into_iter().find(|role| {
            (has(role, "base_url") || has(role, "agent"))
                && !has(role, "price_input")
                && !has(role, "price_output")
        });
        if let Some(role) = unpriced {
            self.report(cap.place.clone(), ProblemKind::Unpriced { role });
        }
    }

    pub(super) fn entry(&self, path: &str) -> Option<&Entry> {
        self.entries.get(path)
    }
}

/// The default of a key as a value; `None` where nothing is set by default.
fn default_value(path: &str, key: &KeySpec) -> Option<Value> {
    let KeyDefault::Value(default) = key.default else { return None };
    let value = DeValue::parse(default).ok()?;
    value::check(path, key.value, value.get_ref()).ok()
}

/// Whether the name is a section's, or the first part of one.
fn is_section_prefix(path: &str) -> bool {
    keys::sections()
        .iter()
        .any(|section| section.path == path || suggest::starts_with_segment(section.path, path))
}

/// The key with a free table that the path leads into, and the way inside it.
fn free_field(path: &str) -> Option<(&'static SectionSpec, &'static KeySpec, Vec<&str>)> {
    keys::keys().filter(|(_, key)| key.value.is_table()).find_map(|(section, key)| {
        let inside = path.strip_prefix(section.path)?.strip_prefix('.')?;
        let fields: Vec<&str> = inside.strip_prefix(key.name)?.strip_prefix('.')?.split('.').collect();
        fields.iter().all(|field| !field.trim().is_empty()).then_some((section, key, fields))
    })
}

/// The value of an override: TOML if it is that, else the text; a key that holds text takes the text to the
/// letter, without the quotes if it stands in quotes.
fn override_value(text: &str, is_text: bool) -> DeValue<'_> {
    let trimmed = text.trim();
    let parsed = DeValue::parse(trimmed).map(Spanned::into_inner).ok();
    match parsed {
        Some(value) if !is_text || value.is_str() => value,
        Some(_) | None => DeValue::String(Cow::Borrowed(text)),
    }
}

/// Puts the fields of one JSON object into another, objects inside objects too.
fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (name, value) in from {
                merge(into.entry(name).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from,
    }
}

fn shown_argument(argument: &str) -> String {
    if super::secret::looks_like_key(argument) {
        return "...".to_owned();
    }
    let shown: String = argument.chars().take(MAX_SHOWN_CHARS).collect();
    if shown.len() < argument.len() { format!("{shown}...") } else { shown }
}

/// Builds the tree of sections.
pub(super) fn nest(entries: &BTreeMap<String, Entry>) -> Value {
    let mut root = Map::new();
    for (section, key) in keys::keys() {
        let Some(entry) = entries.get(&section.path_of(key)) else { continue };
        // No key is the same as none that is named.
        if key.value == ValueType::Variable && entry.value == "" {
            continue;
        }
        let leaf = Value::Object(Map::from_iter([(key.name.to_owned(), entry.value.clone())]));
        let branch = section
            .path
            .rsplit('.')
            .fold(leaf, |inner, segment| Value::Object(Map::from_iter([(segment.to_owned(), inner)])));
        let mut tree = Value::Object(std::mem::take(&mut root));
        merge(&mut tree, branch);
        if let Value::Object(merged) = tree {
            root = merged;
        }
    }
    Value::Object(root)
}
