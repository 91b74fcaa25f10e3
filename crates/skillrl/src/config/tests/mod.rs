//! Tests of the configuration file, by feature.

mod amend;
mod defaults;
mod messages;
mod overrides;
mod properties;
mod providers;
mod secrets;
mod values;

use super::{Config, LoadedConfig};

/// The keys without which nothing works, and nothing else.
pub(super) const MINIMAL: &str = "\
[models.target]
model = \"small\"
[models.optimizer]
model = \"large\"
[env]
data = \"data\"
";

/// The same as overrides.
pub(super) fn minimal_overrides() -> Vec<String> {
    ["models.target.model=small", "models.optimizer.model=large", "env.data=data"].map(str::to_owned).to_vec()
}

/// What a model of this kind needs to be one.
pub(super) fn model_settings(section: &str, kind: &str) -> Vec<String> {
    match kind {
        kind if super::models::SERVED_KINDS.contains(&kind) => vec![format!("{section}.model=m")],
        "agent" => vec![format!("{section}.model=m"), format!("{section}.agent=claude")],
        "local" => vec![format!("{section}.path=m")],
        "scripted" => vec![format!("{section}.file=f")],
        _ => Vec::new(),
    }
}

/// The same settings where what is trained has the section: a bank has no edits.
pub(super) fn fit_to_mode(section: &super::keys::SectionSpec, mut settings: Vec<String>) -> Vec<String> {
    if let Some(mode) = section.modes.first().or((section.path == "models.embedding").then_some(&"bank")) {
        settings.retain(|setting| !setting.starts_with("train."));
        settings.push(format!("train.mode={mode}"));
    }
    if section.path == "collect" {
        settings.retain(|setting| !setting.starts_with("models.target."));
        settings.extend(["models.target.kind=local", "models.target.path=m"].map(str::to_owned));
    }
    if section.path == "sft" {
        settings.retain(|setting| !setting.starts_with("models.target.") && !setting.starts_with("env."));
        // Reasons of a teacher need a world.
        let needed = ["models.target.kind=local", "models.target.path=m", "env.kind=alfworld"];
        settings.extend(needed.map(str::to_owned));
    }
    if ["retrieval", "models.embedding"].contains(&section.path) {
        let is_local = settings.iter().any(|setting| setting == "models.embedding.kind=local");
        let name = if is_local { "path" } else { "model" };
        settings.push(format!("models.embedding.{name}=m"));
    }
    settings
}

/// What a key of `[env]` needs around it to be allowed.
pub(super) fn env_settings(key: &super::key::KeySpec) -> Vec<String> {
    if let Some(kind) = key.kinds.names().first()
        && (super::env::WORLD_KINDS.contains(kind) || ["spreadsheet", "evals"].contains(kind))
    {
        let mut settings = vec![format!("env.kind={kind}")];
        if *kind == "exec" && key.name != "program" {
            settings.push("env.program=[\"true\"]".to_owned());
        }
        if *kind == "evals" && key.name != "cases" {
            settings.push("env.cases=evals.json".to_owned());
        }
        return settings;
    }
    if key.kinds.names().first() != Some(&"tasks") {
        return Vec::new();
    }
    let mut settings = vec!["env.kind=tasks".to_owned()];
    if let Some(owners) = super::tasks::keys_of_scorers().get(key.name) {
        settings.push(format!("env.scorer={}", owners[0]));
        settings.push("env.judge=target".to_owned());
        settings.retain(|setting| owners[0] == "rubric" || !setting.starts_with("env.judge"));
        settings.extend(match (owners[0], key.name) {
            ("rubric", "rubric" | "rubric_file") => None,
            ("rubric", _) => Some("env.rubric=good".to_owned()),
            ("command", "command_timeout_s") => Some("env.command=[\"true\"]".to_owned()),
            _ => None,
        });
    }
    settings.extend(match key.name {
        "files_field" | "pages_field" | "file_tools" | "file_calls" | "max_tool_turns" => {
            Some("env.files_dir=files".to_owned())
        }
        "extract_tag" => Some("env.extract=last_tag".to_owned()),
        "extract_pattern" => Some("env.extract=regex".to_owned()),
        "extract_field" => Some("env.extract=json".to_owned()),
        _ => None,
    });
    settings
}

/// Worlds have no data file.
pub(super) fn fit_to_world(settings: &mut Vec<String>) {
    let without_data = super::env::WORLD_KINDS.iter().chain(&["evals"]);
    if without_data.into_iter().any(|kind| settings.contains(&format!("env.kind={kind}"))) {
        settings.retain(|setting| !setting.starts_with("env.data"));
    }
    let has_program = settings.iter().any(|setting| setting.starts_with("env.program="));
    if settings.contains(&"env.kind=exec".to_owned()) && !has_program {
        settings.push("env.program=[\"true\"]".to_owned());
    }
}

#[track_caller]
pub(super) fn parse(text: &str, overrides: &[&str]) -> LoadedConfig {
    let overrides: Vec<String> = overrides.iter().map(|text| (*text).to_owned()).collect();
    Config::parse(text, "skillrl.toml", &overrides).unwrap_or_else(|error| panic!("{error}"))
}

#[track_caller]
pub(super) fn error(text: &str, overrides: &[&str]) -> String {
    let overrides: Vec<String> = overrides.iter().map(|text| (*text).to_owned()).collect();
    match Config::parse(text, "skillrl.toml", &overrides) {
        Ok(_) => panic!("accepted: {text} {overrides:?}"),
        Err(error) => error.to_string(),
    }
}

/// The messages of a test, for one snapshot: a message that is reworded changes its own text and that file alone.
#[derive(Default)]
pub(super) struct Said(String);

impl Said {
    /// Adds the message about a configuration and overrides, which names all of these: places, keys, values.
    #[track_caller]
    pub(super) fn add(&mut self, text: &str, overrides: &[&str], names: &[&str]) {
        let message = error(text, overrides);
        for name in names {
            assert!(message.contains(name), "{name} is not named in: {message}");
        }
        self.0.push_str(&message);
        self.0.push('\n');
    }

    /// Adds the message about one key that is set by `--set`.
    #[track_caller]
    pub(super) fn refused(&mut self, setting: &str) {
        let key = format!("--set: `{}`", setting.split('=').next().unwrap());
        self.add(MINIMAL, &[setting], &[&key]);
    }

    /// All messages.
    pub(super) fn text(&self) -> &str {
        self.0.trim_end()
    }
}

/// The value at a dotted path of the configuration's JSON; null where nothing is.
pub(super) fn lookup(config: &Config, path: &str) -> serde_json::Value {
    let json = config.to_json();
    path.split('.').try_fold(&json, |value, segment| value.get(segment)).cloned().unwrap_or_default()
}
