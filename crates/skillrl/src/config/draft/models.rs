//! The keys of models among each other: what a provider sets, and what does not go together.

use super::{Draft, ValueSource};
use crate::config::key::any_of;
use crate::config::keys;
use crate::config::models::AGENT_KIND;
use serde_json::{Map, Value, json};
use skill_llm::price_table::list_prices;
use skill_llm::{Dialect, KeyHeader, Provider};

/// The sections of models.
pub(super) const ROLES: [&str; 4] = ["target", "optimizer", "judge", "teacher"];

impl Draft {
    /// Drops what a text says of a model in whose place the overrides put one of another kind.
    pub(in crate::config) fn drop_replaced_models(&mut self) {
        for section in keys::sections().iter().filter(|section| section.path.starts_with("models.")) {
            let kind = section.key("kind").and_then(|key| self.entries.get(&section.path_of(key)));
            let Some(kind) = kind.filter(|kind| kind.origin == ValueSource::Set) else { continue };
            let Some(kind) = kind.value.as_str().map(str::to_owned) else { continue };
            for key in section.keys().filter(|key| !key.kinds.has(&kind)) {
                let path = section.path_of(key);
                if self.entries.get(&path).is_some_and(|entry| entry.origin != ValueSource::Set) {
                    self.entries.remove(&path);
                    self.given.remove(&path);
                }
            }
        }
    }

    /// The target may be of any kind: `--policy` replaces it. A teacher's reasons need a place in replies.
    pub(super) fn check_sft(&mut self) {
        let has_place = self.entry("env.think").is_some_and(|entry| entry.value == true);
        if self.text_at("sft.reasoning") == Some("teacher") && !has_place {
            let message = "`sft.reasoning` is \"teacher\", and replies have no place for reasons: they need a world with `env.think = true`";
            self.report_at("sft.reasoning", message);
        }
        self.check_adapter("sft");
    }

    /// The target may be of any kind: `--policy` of `skillrl rl` replaces it.
    pub(super) fn check_rl(&mut self) {
        if self.entry("rl.group_size").is_some_and(|entry| entry.value == 1) {
            let message = "`rl.group_size` is 1, and GRPO compares the episodes of a group with each other: the advantage of a single episode is always 0; it takes at least 2";
            self.report_at("rl.group_size", message);
        }
        self.check_adapter("rl");
    }

    /// A scale needs an adapter.
    fn check_adapter(&mut self, section: &str) {
        let is_full = self.entry(&format!("{section}.lora_rank")).is_some_and(|entry| entry.value == 0);
        let alpha = format!("{section}.lora_alpha");
        if is_full && self.entries.contains_key(&alpha) {
            let message = format!(
                "`{alpha}` has no meaning where `{section}.lora_rank` is 0: all weights are trained, without an adapter"
            );
            self.report_at(&alpha, message);
        }
    }

    /// Sets the kind that a provider's interface has, where nobody has given one.
    pub(super) fn fill_kinds_of_providers(&mut self) {
        for role in ROLES {
            let path = format!("models.{role}.kind");
            let provider = self.model_text(role, "provider").as_deref().and_then(Provider::find);
            if let Some(provider) = provider.filter(|_| !self.given.contains(&path)) {
                self.set(path, json!(provider.dialect), ValueSource::Preset);
            }
        }
    }

    /// Sets what is known about a provider and nobody has given.
    pub(in crate::config) fn fill_providers(&mut self) {
        for role in ROLES {
            let kind = self.model_kind(role);
            let Some(dialect) = kind.as_deref().and_then(Dialect::parse) else { continue };
            let named = self.model_text(role, "provider");
            // The default address is OpenAI's, where nobody speaks this kind.
            let name = named.as_deref().or(dialect.implied_provider());
            let Some(provider) = name.and_then(Provider::find) else { continue };
            let section_is_there =
                keys::section(&format!("models.{role}")).is_some_and(|section| !self.lacks(section));
            if section_is_there {
                for (name, value) in self.known_about(provider, role, dialect) {
                    let path = format!("models.{role}.{name}");
                    if !self.given.contains(&path) {
                        self.set(path, value, ValueSource::Preset);
                    }
                }
            }
        }
    }

    /// What a provider's row says about a model of this kind.
    fn known_about(&self, provider: &Provider, role: &str, dialect: Dialect) -> Vec<(&'static str, Value)> {
        let mut known = Vec::new();
        let given_url = self.model_text(role, "base_url");
        let has_command = self.is_given(role, "api_key_command");
        if let Some(base_url) = provider.base_url {
            known.push(("base_url", json!(base_url)));
        }
        // A key goes to its provider's own address, and to no other without being asked.
        let is_at_home = match &given_url {
            Some(base_url) => provider.owns(base_url),
            None => provider.base_url.is_some(),
        };
        if let Some(variable) = provider.key_variable.filter(|_| is_at_home && !has_command) {
            known.push(("api_key_env", json!(variable)));
        }
        if provider.key_header != provider.dialect.key_header() {
            // What a command prints is a token, and tokens have a header of their own.
            known.push((
                "key_header",
                json!(if has_command { KeyHeader::Bearer } else { provider.key_header }),
            ));
        }
        let speaks_its_own = dialect == provider.dialect;
        let is_other_of_openai =
            dialect == Dialect::Responses && provider.dialect == Dialect::ChatCompletions;
        if speaks_its_own || is_other_of_openai {
            let format = match provider.response_format {
                skill_llm::ResponseFormat::JsonObjectSchema if is_other_of_openai => json!("json_schema"),
                format => json!(format),
            };
            known.push(("response_format", format));
        }
        if dialect == Dialect::ChatCompletions && speaks_its_own {
            known.push(("max_tokens_field", json!(provider.max_tokens_field)));
            known.push(("reasoning_effort_field", json!(provider.effort_field)));
            known.push(("thinking_field", json!(provider.thinking_field)));
            known.push(("seed_field", json!(if provider.takes_seed { "seed" } else { "off" })));
            if !provider.flags.is_empty() {
                let flags: Map<String, Value> =
                    provider.flags.iter().map(|flag| ((*flag).to_owned(), true.into())).collect();
                known.push(("extra_body", Value::Object(flags)));
            }
        }
        known
    }

    /// Sets the list prices of models that are known, where no price is given.
    pub(in crate::config) fn fill_prices(&mut self) {
        for role in ROLES {
            let is_served = self.model_kind(role).as_deref().and_then(Dialect::parse).is_some();
            let is_priced = ["price_input", "price_cached", "price_output"]
                .into_iter()
                .any(|key| self.is_given(role, key));
            if !is_served || is_priced {
                continue;
            }
            let address = self.model_text(role, "base_url").zip(self.model_text(role, "model"));
            let Some(prices) = address.and_then(|(url, model)| list_prices(&url, &model)) else { continue };
            let known = [
                ("price_input", Some(prices.input)),
                ("price_cached", prices.cached),
                ("price_output", Some(prices.output)),
            ];
            for (name, price) in known {
                if let Some(price) = price {
                    self.set(format!("models.{role}.{name}"), json!(price), ValueSource::Preset);
                }
            }
        }
    }

    /// What does not go together in the sections of models.
    pub(super) fn check_models(&mut self) {
        for role in ROLES {
            let Some(kind) = self.model_kind(role) else { continue };
            match Dialect::parse(&kind) {
                Some(dialect) => self.check_served(role, dialect),
                None if kind == AGENT_KIND => self.check_agent(role),
                None => {}
            }
        }
    }

    fn check_served(&mut self, role: &str, dialect: Dialect) {
        let provider = self.model_text(role, "provider").as_deref().and_then(Provider::find);
        if let Some(provider) = provider
            && provider.base_url.is_none()
            && !self.is_given(role, "base_url")
        {
            let message = format!(
                "`models.{role}.provider` \"{}\" needs `models.{role}.base_url`: each account has its own address",
                provider.name
            );
            self.model_conflict(role, "provider", message);
        }
        if self.model_text(role, "api_key_env").is_some_and(|name| !name.is_empty())
            && self.is_given(role, "api_key_command")
        {
            let message = format!(
                "`models.{role}.api_key_env` and `models.{role}.api_key_command` are given, and only one of them can count"
            );
            self.model_conflict(role, "api_key_command", message);
        }
        let (kind, formats) = (dialect.as_str(), dialect.response_formats());
        if let Some(format) = self.model_text(role, "response_format")
            && !formats.contains(&format.as_str())
        {
            let words = any_of(formats.iter().map(|word| format!("\"{word}\"")));
            let message =
                format!("`models.{role}.response_format` is \"{format}\", and kind \"{kind}\" has {words}");
            self.model_conflict(role, "response_format", message);
        }
    }

    fn check_agent(&mut self, role: &str) {
        if self.model_text(role, "agent").as_deref() == Some("command") && !self.is_given(role, "command") {
            let message = format!("`models.{role}.agent` \"command\" needs `models.{role}.command`");
            self.model_conflict(role, "agent", message);
        }
    }

    pub(super) fn model_kind(&self, role: &str) -> Option<String> {
        let section = keys::section(&format!("models.{role}"))?;
        if self.lacks(section) { None } else { self.kind_of(section) }
    }

    fn is_given(&self, role: &str, name: &str) -> bool {
        self.given.contains(&format!("models.{role}.{name}"))
    }

    fn model_text(&self, role: &str, name: &str) -> Option<String> {
        self.text_at(&format!("models.{role}.{name}")).map(str::to_owned)
    }

    fn model_conflict(&mut self, role: &str, name: &str, message: String) {
        self.report_at(&format!("models.{role}.{name}"), message);
    }
}
