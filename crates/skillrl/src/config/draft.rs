//! From TOML and overrides to checked settings, one JSON value per dotted key, with all problems collected.

mod amend;
mod env;
mod mode;
mod models;
mod policy;
mod targets;

use super::ValueSource;
use super::error::{ConfigError, Place, Problem, ProblemKind};
use super::key::{KeyDefault, KeySpec, ValueType};
use super::keys::{self, SectionSpec};
use super::types::TrainMode;
use super::{suggest, value};
use models::ROLES;
use serde_json::{Map, Value};
use skill_llm::agent::AgentKind;
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
    pub(super) origin: ValueSource,
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

    /// Reports a conflict at the place of a setting, or at the file as a whole if it is not given.
    fn report_at(&mut self, path: &str, message: impl Into<String>) {
        let place = self.entry(path).map_or_else(|| self.whole(), |entry| entry.place.clone());
        self.report(place, ProblemKind::Conflict { message: message.into() });
    }

    /// The file as a whole.
    fn whole(&self) -> Place {
        Place::File { origin: self.origin.clone() }
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
                let place = error.span().map_or_else(|| self.whole(), |span| source.place(span.start));
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
            Place::At { line, .. } => ValueSource::File { line },
            Place::File { .. } => ValueSource::Default,
            Place::Set => ValueSource::Set,
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
        let given = self.entries.get_mut(&path).map(|entry| &mut entry.value);
        if let (Some(Value::Object(mut merged)), Some(Value::Object(given))) = (before, given) {
            merge(&mut merged, std::mem::take(given));
            *given = merged;
        }
    }

    /// The kind of a section, with where it was set; `None` where there is none, or a wrong one.
    pub(super) fn kind_of(&self, section: &SectionSpec) -> Option<String> {
        let key = section.key("kind")?;
        let path = section.path_of(key);
        match self.entries.get(&path) {
            Some(entry) => entry.value.as_str().map(str::to_owned),
            None if self.given.contains(&path) => None,
            None => keys::default_of(key)?.as_str().map(str::to_owned),
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
        self.text_at("train.mode").unwrap_or(TrainMode::Document.as_str())
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
                let place = self.section_places.get(section.path).cloned().unwrap_or_else(|| self.whole());
                self.report(place, ProblemKind::Missing { key: path, example });
            }
        }
    }

    /// Sets what was not given.
    pub(super) fn fill_defaults(&mut self) {
        for (section, key) in keys::keys() {
            let path = section.path_of(key);
            if self.has_key(section, key)
                && !self.given.contains(&path)
                && !self.entries.contains_key(&path)
                && !self.lacks(section)
                && let Some(value) = keys::default_of(key)
            {
                self.set(path, value, ValueSource::Default);
            }
        }
    }

    /// Sets what no line of the file and no override says.
    fn set(&mut self, path: String, value: Value, origin: ValueSource) {
        let place = self.whole();
        self.entries.insert(path, Entry { value, origin, place });
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
        const LEAST: &str = "train.min_edit_budget";
        let most = self.entry("train.edit_budget").and_then(|entry| entry.value.as_u64());
        let (Some(entry), Some(most)) = (self.entries.get_mut(LEAST), most) else { return };
        let Some(least) = entry.value.as_u64().filter(|least| *least > most) else { return };
        if entry.origin == ValueSource::Default {
            entry.value = Value::from(most);
            return;
        }
        let message =
            format!("`{LEAST}` ({least}) is above `train.edit_budget` ({most}); it takes at most {most}");
        self.report_at(LEAST, message);
    }

    /// What a saving of tokens needs.
    fn check_saving(&mut self) {
        let is_gate_off = self.entry("gate.enabled").is_some_and(|entry| entry.value == false);
        match (self.entry("gate.token_saving"), self.entry("gate.score_margin")) {
            (Some(_), _) if is_gate_off => self.report_at(
                "gate.token_saving",
                "`gate.token_saving` asks for something that `gate.enabled = false` accepts without; leave one of them out",
            ),
            (None, Some(_)) => self.report_at(
                "gate.score_margin",
                "`gate.score_margin` is what may be given up for `gate.token_saving`, which is not set; set it, or leave the margin out",
            ),
            (Some(_) | None, _) => {}
        }
    }

    /// The targets of evaluations are in this process, and each is named once; that they are configured is checked when
    /// all are read.
    fn check_targets(&mut self) {
        let Some(targets) = self.entry("train.targets") else { return };
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
        self.report_at("train.targets", message);
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
                    problems.push((format!("models.{second}.{key}"), message));
                }
            }
        }
        for (path, message) in problems {
            self.report_at(&path, message);
        }
    }

    /// A cap on money means something only with the prices of every model that costs money, or where it reports its cost.
    fn check_prices(&mut self) {
        let Some(cap) = self.entries.get("budget.money") else { return };
        let has = |role: &str, key: &str| self.entries.contains_key(&format!("models.{role}.{key}"));
        let reports = |role: &str| {
            let agent = self.text_at(&format!("models.{role}.agent")).and_then(AgentKind::parse);
            agent.and_then(|agent| agent.row().ok().flatten()).is_some_and(|agent| agent.reports_cost())
        };
        let unpriced = ROLES.into_iter().find(|role| {
            (has(role, "base_url") || has(role, "agent") && !reports(role))
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

    fn text_at(&self, path: &str) -> Option<&str> {
        self.entry(path)?.value.as_str()
    }

    /// The settings of a section, as a file has them under this title; empty if there are none.
    pub(super) fn shown_section(&self, section: &SectionSpec, title: &str) -> String {
        let entries = section.keys().filter_map(|key| Some((key.name, self.entry(&section.path_of(key))?)));
        let lines: String =
            entries.map(|(name, entry)| format!("{name} = {}\n", value::to_toml(&entry.value))).collect();
        if lines.is_empty() { lines } else { format!("[{title}]\n{lines}") }
    }
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
pub(crate) fn merge(into: &mut Map<String, Value>, from: Map<String, Value>) {
    for (name, value) in from {
        match (into.get_mut(&name), value) {
            (Some(Value::Object(into)), Value::Object(from)) => merge(into, from),
            (_, value) => drop(into.insert(name, value)),
        }
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
        let leaf = Map::from_iter([(key.name.to_owned(), entry.value.clone())]);
        let branch = section
            .path
            .rsplit('.')
            .fold(leaf, |inner, segment| Map::from_iter([(segment.to_owned(), Value::Object(inner))]));
        merge(&mut root, branch);
    }
    Value::Object(root)
}
