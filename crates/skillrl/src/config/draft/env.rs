//! The keys of `[env]` among each other: presets, and what a scorer needs.

use super::{Draft, Entry, ValueSource};
use crate::config::key::any_of;
use crate::config::keys;
use crate::config::models::SIMULATED_KIND;
use crate::config::tasks::{TasksScorer, keys_of_scorers};
use serde_json::{Value, json};
use skill_core::NamedEnum;
use skill_envs::qa::QaScorer;
use skill_envs::tasks::{Preset, ScorerConfig, TasksConfig};

/// The tools over files; `glob` is another name of `list`.
const FILE_TOOLS: [&str; 4] = ["list", "read", "grep", "glob"];

/// What a preset sets besides its prompt; null for what it leaves.
fn settings_of(preset: Preset) -> [(&'static str, Value); 6] {
    let TasksConfig { fields, choice_seed, settings, .. } = preset.config("");
    let choice_by = match &settings.scorer {
        ScorerConfig::Choice { by } => json!(by),
        _ => Value::Null,
    };
    [
        ("extract", json!(settings.extraction).get("kind").cloned().unwrap_or_default()),
        ("scorer", json!(settings.scorer.kind())),
        ("choice_by", choice_by),
        ("answer_field", json!(fields.answer)),
        ("image_field", json!(fields.images)),
        ("shuffle_choices", json!(choice_seed.is_some())),
    ]
}

impl Draft {
    /// Sets what the preset says and nobody has given.
    pub(in crate::config) fn fill_preset(&mut self) {
        let preset = self.env("preset").and_then(|entry| Preset::parse(entry.value.as_str()?));
        for (name, value) in preset.into_iter().flat_map(settings_of) {
            let path = format!("env.{name}");
            let default = keys::find(&path).and_then(|(_, key)| keys::default_of(key));
            if !value.is_null() && default.as_ref() != Some(&value) && !self.given.contains(&path) {
                self.set(path, value, ValueSource::Preset);
            }
        }
    }

    /// What does not go together in `[env]`.
    pub(super) fn check_env(&mut self) {
        let kind = self.env_text("kind");
        // A scorer that is none has been reported already.
        let Some(scorer) = self.env_text("scorer") else { return };
        match kind.as_deref() {
            Some("qa") => self.check_qa_scorer(&scorer),
            Some("tasks") => {
                self.check_pairs();
                self.check_files();
                let guard = self.text_at("gate.guard").map(str::to_owned);
                self.check_keys_of_scorers(&scorer, guard.as_deref());
                self.check_extraction();
                self.check_needs("env.scorer", &scorer);
                if let Some(guard) = guard {
                    self.check_needs("gate.guard", &guard);
                }
            }
            Some(_) | None => {}
        }
    }

    fn check_qa_scorer(&mut self, scorer: &str) {
        let known = QaScorer::NAMES;
        if !known.contains(&scorer) {
            let words = any_of(known.iter().map(|word| format!("\"{word}\"")));
            let message = format!(
                "`env.scorer` is \"{scorer}\", and kind \"qa\" has {words}; kind \"tasks\" has the others"
            );
            self.conflict("scorer", message);
        }
    }

    /// Keys that say the same thing in two ways.
    fn check_pairs(&mut self) {
        for (one, other) in
            [("split_field", "split_ids"), ("prompt", "user_prompt"), ("rubric", "rubric_file")]
        {
            if self.env(one).is_some() && self.env(other).is_some() {
                let message =
                    format!("`env.{one}` and `env.{other}` are given, and only one of them can count");
                self.conflict(other, message);
            }
        }
    }

    /// Keys about files, where there are none.
    fn check_files(&mut self) {
        if self.env("files_dir").is_none() {
            for key in ["files_field", "pages_field", "file_tools", "file_calls", "max_tool_turns"] {
                if self.is_meant(key) {
                    let message = format!("`env.{key}` is about files, but `env.files_dir` is not set");
                    self.conflict(key, message);
                }
            }
        } else if self.env("tools").is_some() {
            let message =
                "`env.tools` and `env.files_dir` are given, and only one of them can count".to_owned();
            self.conflict("tools", message);
        }
        let tools =
            self.env("file_tools").and_then(|entry| entry.value.as_array()).cloned().unwrap_or_default();
        for tool in tools.iter().filter_map(Value::as_str) {
            if !FILE_TOOLS.contains(&tool) {
                let known = any_of(FILE_TOOLS.iter().map(|tool| format!("\"{tool}\"")));
                self.conflict("file_tools", format!("`env.file_tools` names \"{tool}\"; expected {known}"));
            }
        }
    }

    /// Refuses keys that neither scorer reads: they would have no effect.
    fn check_keys_of_scorers(&mut self, scorer: &str, guard: Option<&str>) {
        for (key, owners) in keys_of_scorers() {
            let is_looked_at = [Some(scorer), guard].into_iter().flatten().any(|name| owners.contains(&name));
            if self.is_meant(key) && !is_looked_at {
                let owners = any_of(owners.iter().map(|owner| format!("\"{owner}\"")));
                let message =
                    format!("`env.{key}` belongs to the scorer {owners}, but `env.scorer` is \"{scorer}\"");
                self.conflict(key, message);
            }
        }
    }

    /// Keys that the extraction does not look at, and the one without which it cannot work.
    fn check_extraction(&mut self) {
        for (key, owner) in
            [("extract_tag", "last_tag"), ("extract_pattern", "regex"), ("extract_field", "json")]
        {
            let extract = self.env_text("extract").unwrap_or_default();
            if self.is_meant(key) && extract != owner {
                let message = format!(
                    "`env.{key}` belongs to the extraction \"{owner}\", but `env.extract` is \"{extract}\""
                );
                self.conflict(key, message);
            }
        }
        if self.env_text("extract").as_deref() == Some("regex") && self.env("extract_pattern").is_none() {
            self.conflict("extract", "the extraction \"regex\" needs `env.extract_pattern`".to_owned());
        }
    }

    /// Keys without which the scorer that `path` names cannot work.
    fn check_needs(&mut self, path: &str, scorer: &str) {
        let Some(spec) = TasksScorer::parse(scorer).map(TasksScorer::spec) else { return };
        let needs = spec.needs;
        let given = |name: &&str| self.given.contains(&format!("env.{name}"));
        if !needs.is_empty() && !needs.iter().any(given) {
            let needs = any_of(needs.iter().map(|name| format!("`env.{name}`")));
            self.report_at(path, format!("the scorer \"{scorer}\" needs {needs}"));
        }
        if spec.is_judged && self.env_text("judge").as_deref() == Some("judge") {
            let kind = |role: &str| self.entries.get(&format!("models.{role}.kind"))?.value.as_str();
            let (judge, target) = (kind("judge").map(str::to_owned), kind("target").map(str::to_owned));
            match judge.as_deref() {
                None => {
                    let message = format!(
                        "the scorer \"{scorer}\" requires a judge: add a section [models.judge], or set \
                         `env.judge` to \"optimizer\" or \"target\""
                    );
                    self.report_at(path, message);
                }
                // Points by chance are for trying a set-up, where nothing is real.
                Some(SIMULATED_KIND) if target.as_deref() != Some(SIMULATED_KIND) => {
                    let message =
                        "`models.judge.kind` is \"simulated\", and no simulated model can grade".to_owned();
                    self.conflict("judge", message);
                }
                Some(_) => {}
            }
        }
    }

    /// Whether a key is given with another value than its default, which says nothing.
    fn is_meant(&self, name: &str) -> bool {
        let path = format!("env.{name}");
        let default = keys::find(&path).and_then(|(_, key)| keys::default_of(key));
        self.given.contains(&path)
            && self.env(name).is_some_and(|entry| Some(&entry.value) != default.as_ref())
    }

    fn env(&self, name: &str) -> Option<&Entry> {
        self.entry(&format!("env.{name}"))
    }

    fn env_text(&self, name: &str) -> Option<String> {
        self.text_at(&format!("env.{name}")).map(str::to_owned)
    }

    fn conflict(&mut self, name: &str, message: String) {
        self.report_at(&format!("env.{name}"), message);
    }
}
