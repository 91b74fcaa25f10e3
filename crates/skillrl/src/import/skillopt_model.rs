//! The models of a SkillOpt configuration.

use crate::config::mapping::draft::{Draft, Entry, flag, text};
use serde_json::{Value, json};

/// What SkillOpt asks a Qwen server for where the configuration does not say.
const QWEN_TEMPERATURE: f64 = 0.7;
const QWEN_TIMEOUT_S: u64 = 300;
const QWEN_MAX_TOKENS: u64 = 8_000;

/// What SkillOpt asks a server of the generic backend for, where its environment does not say.
const COMPATIBLE_TIMEOUT_S: u64 = 300;
const COMPATIBLE_MAX_TOKENS: u64 = 8_000;

/// Where MiniMax is.
const MINIMAX_GLOBAL: &str = "https://api.minimax.io/v1";
const MINIMAX_CHINA: &str = "https://api.minimaxi.com/v1";
const MINIMAX_MODEL: &str = "MiniMax-M3";

const AGENT: &str = concat!(
    "is a program that is not known here: kind = \"agent\" with command plays any, see ",
    skill_core::book_page!(models)
);

/// The words for how much a model thinks that both have.
const EFFORTS: [&str; 7] = ["none", "minimal", "low", "medium", "high", "xhigh", "max"];

/// The scope of a token for Azure, where the configuration does not say.
const AZURE_SCOPE: &str = "https://cognitiveservices.azure.com/.default";
const OTHER_BACKEND: &str = "belongs to a backend that is not used";

/// Backends of a high-level label that fill the target alone; others fill both roles.
const FOR_TARGET: [&str; 5] =
    ["claude_code_exec", "cursor_exec", "copilot_exec", "qwen_chat", "minimax_chat"];

/// The chat backend, which is the one of a role that names none.
const CHAT: &str = "openai_chat";

/// Other names of backends, as SkillOpt resolves them.
const ALIASES: [(&str, &str); 10] = [
    ("azure", CHAT),
    ("azure_openai", CHAT),
    ("azure-openai", CHAT),
    ("openai", "codex"),
    ("claude", "claude_chat"),
    ("anthropic", "claude_chat"),
    ("qwen", "qwen_chat"),
    ("minimax", "minimax_chat"),
    ("copilot", "copilot_chat"),
    ("cursor", "cursor_exec"),
];

/// Backends that SkillOpt asks without the effort of reasoning.
const WITHOUT_EFFORT: [&str; 3] = ["qwen_chat", "minimax_chat", "openai_compatible"];

/// Backends that are a server.
const SERVED: [&str; 4] = [CHAT, "qwen_chat", "minimax_chat", "openai_compatible"];

/// Keys of backends, by what they begin with.
const BACKEND_KEYS: [&str; 8] =
    ["codex_", "claude_code_", "cursor_", "copilot_", "azure_", "qwen_", "minimax_", "openai_compatible_"];

pub(super) fn map(draft: &mut Draft) {
    let label = draft.take("model_backend");
    let effort = draft.take("reasoning_effort");
    let mut is_effort_used = false;
    let roles = ["optimizer", "target"].map(|role| {
        let asked = draft.take(&format!("{role}_backend"));
        let backend = backend(role, asked.as_ref(), label.as_ref());
        if let Some(asked) = &asked {
            name_taken(draft, asked, &format!("models.{role}"));
        }
        (role, backend)
    });
    if let Some(label) = &label {
        name_taken(draft, label, "models");
    }
    for (role, backend) in &roles {
        map_role(draft, role, backend);
        if let Some(effort) = effort.as_ref().and_then(|effort| text(&effort.value))
            && !WITHOUT_EFFORT.contains(&backend.as_str())
        {
            if EFFORTS.contains(&effort.as_str()) {
                draft.set(&format!("models.{role}.reasoning_effort"), effort);
            } else {
                draft.set(&format!("models.{role}.extra_body"), json!({"reasoning_effort": effort}));
            }
            is_effort_used = true;
        }
    }
    if let Some(effort) = effort {
        if text(&effort.value).is_none() || is_effort_used {
            name_taken(draft, &effort, "models.*.reasoning_effort");
        } else {
            draft.idle(&effort, "these backends do not take it there either");
        }
    }
    // Shared keys were read for both roles, and are taken once both have seen them.
    for flat in draft.names() {
        let own = flat.strip_prefix("optimizer_").or_else(|| flat.strip_prefix("target_")).unwrap_or(&flat);
        if !BACKEND_KEYS.iter().any(|start| own.starts_with(start)) {
            continue;
        }
        let Some(entry) = draft.take(&flat) else { continue };
        rest(draft, &entry, own, &roles);
    }
}

/// Reports a key whose value is a name as mapped, and any other value as lost.
fn name_taken(draft: &mut Draft, entry: &Entry, to: &str) {
    match text(&entry.value) {
        Some(_) => draft.mapping.map(entry.key.as_str(), to),
        None => draft.lose(entry, "is not a name"),
    }
}

/// What becomes of a backend's key that is not taken over as it is.
fn rest(draft: &mut Draft, entry: &Entry, own: &str, roles: &[(&str, String)]) {
    if own.ends_with("api_key") {
        return draft.lose(
            entry,
            "a key is never copied: put it into the environment variable that api_key_env names",
        );
    }
    let is_used = |starts: &[&str], backends: &[&str]| {
        starts.iter().any(|start| own.starts_with(start))
            && roles.iter().any(|(_, backend)| backends.contains(&backend.as_str()))
    };
    let uses = [
        (&["azure_"][..], &["openai_chat"][..]),
        (&["qwen_"], &["qwen_chat"]),
        (&["minimax_"], &["minimax_chat"]),
        (&["codex_"], &["codex", "codex_exec"]),
        (&["claude_code_"], &["claude_code_exec"]),
        (&["cursor_"], &["cursor_exec"]),
        (&["copilot_"], &["copilot_chat", "copilot_exec"]),
        (&["openai_compatible_"], &["openai_compatible"]),
    ];
    if !uses.iter().any(|(starts, backends)| is_used(starts, backends)) {
        return draft.idle(entry, OTHER_BACKEND);
    }
    let mut taken = |to: &str, is_taken: bool, expected: &str| match is_taken {
        true => draft.mapping.map(entry.key.as_str(), to),
        false => draft.lose(entry, format!("is not {expected}; the usual value is used instead")),
    };
    let is_text = text(&entry.value).is_some();
    let is_number = number(&entry.value).is_some();
    match own {
        "azure_openai_endpoint"
        | "azure_endpoint"
        | "qwen_chat_base_url"
        | "openai_compatible_base_url"
        | "minimax_base_url"
        | "minimax_region" => taken("models.*.base_url", is_text, "a text"),
        "qwen_chat_temperature" | "openai_compatible_temperature" | "minimax_temperature" => {
            taken("models.*.temperature", is_number, "a number");
        }
        "qwen_chat_max_tokens" | "openai_compatible_max_tokens" | "minimax_max_tokens" => {
            taken("models.*.max_tokens", is_number, "a number");
        }
        "qwen_chat_timeout_seconds" | "openai_compatible_timeout_seconds" => {
            taken("models.*.timeout_s", is_number, "a number");
        }
        "qwen_chat_enable_thinking" => {
            taken("models.*.extra_body", flag(&entry.value).is_some(), "true or false");
        }
        "minimax_model" => taken("models.*.model", is_text, "a name"),
        "azure_openai_api_version" | "azure_api_version" => {
            draft.idle(entry, "Azure's address /openai/v1 needs no version");
        }
        "azure_openai_auth_mode" => match entry.value.as_str() {
            Some("api_key" | "openai_compatible" | "compat" | "openai") => {
                draft.mapping.map(entry.key.as_str(), "models.*.api_key_env");
            }
            Some("azure_cli") => draft.mapping.map(entry.key.as_str(), "models.*.api_key_command"),
            _ => draft.lose(
                entry,
                "signs in with an identity there; here a key is needed: name its variable in api_key_env",
            ),
        },
        "azure_openai_ad_scope" => {
            draft.idle(entry, "is part of api_key_command where a command gives the token");
        }
        "codex_exec_path" | "claude_code_exec_path" | "copilot_exec_path" => {
            taken("models.*.command", is_text, "a path");
        }
        "codex_exec_sandbox" => {
            let is_known = sandbox(&entry.value).is_some();
            taken("models.*.sandbox", is_known, "read-only, workspace-write or danger-full-access");
        }
        _ => draft.lose(entry, "no counterpart"),
    }
}

/// Which backend plays a role. A name that nobody knows is nobody's default: it is the backend, and is listed.
fn backend(role: &str, asked: Option<&Entry>, label: Option<&Entry>) -> String {
    let name = |entry: Option<&Entry>| {
        let name = text(&entry?.value)?.to_lowercase();
        let alias = ALIASES.iter().find(|(alias, _)| *alias == name);
        Some(alias.map_or(name, |(_, backend)| (*backend).to_owned()))
    };
    let asked = name(asked).filter(|name| name != CHAT);
    let label = name(label).filter(|label| role == "target" || !FOR_TARGET.contains(&label.as_str()));
    asked.or(label).unwrap_or_else(|| CHAT.to_owned())
}

fn map_role(draft: &mut Draft, role: &str, backend: &str) {
    let key = |name: &str| format!("models.{role}.{name}");
    let own = |draft: &Draft, name: &str| draft.text(&format!("{role}_{name}")).or_else(|| draft.text(name));
    let program = program_of(backend);
    // A backend without a counterpart must not become a server that happens to be the default: as an agent without a
    // program the configuration is not complete, and says so.
    draft.set(&key("kind"), if SERVED.contains(&backend) { "openai" } else { "agent" });
    let model = draft.take(&format!("{role}_model"));
    let name = match backend {
        "minimax_chat" => Some(draft.text("minimax_model").unwrap_or_else(|| MINIMAX_MODEL.to_owned())),
        _ => model.as_ref().and_then(|entry| text(&entry.value)),
    };
    if let Some(name) = name {
        draft.set(&key("model"), name);
    }
    if let Some(model) = model {
        name_taken(draft, &model, &key("model"));
    }
    match backend {
        CHAT => azure(draft, role, &own),
        "qwen_chat" => {
            let number = |name: &str| own(draft, name).and_then(|text| number(&text.into()));
            let temperature = number("qwen_chat_temperature").unwrap_or(QWEN_TEMPERATURE);
            let timeout =
                number("qwen_chat_timeout_seconds").map_or(QWEN_TIMEOUT_S, |seconds| seconds.max(1.0) as u64);
            let tokens =
                number("qwen_chat_max_tokens").map_or(QWEN_MAX_TOKENS, |tokens| tokens.max(1.0) as u64);
            let thinks =
                draft.flag_of(&format!("{role}_qwen_chat_enable_thinking"), "qwen_chat_enable_thinking");
            let address = own(draft, "qwen_chat_base_url");
            place(draft, role, address, "QWEN_CHAT_BASE_URL");
            draft.set(&key("temperature"), temperature);
            draft.set(&key("max_tokens"), tokens);
            draft.set(&key("timeout_s"), timeout);
            if let Some(thinks) = thinks {
                draft.set(&key("extra_body"), json!({"chat_template_kwargs": {"enable_thinking": thinks}}));
            }
        }
        "minimax_chat" => {
            let is_china = draft.text("minimax_region").is_some_and(|region| region.starts_with("cn"));
            let usual = if is_china { MINIMAX_CHINA } else { MINIMAX_GLOBAL };
            let address = draft.text("minimax_base_url").unwrap_or_else(|| usual.to_owned());
            draft.set(&key("base_url"), address);
            need_key(draft, role, "MINIMAX_API_KEY");
            if let Some(temperature) = draft.value("minimax_temperature").and_then(number) {
                draft.set(&key("temperature"), temperature);
            }
            if let Some(tokens) = draft.value("minimax_max_tokens").and_then(number) {
                draft.set(&key("max_tokens"), tokens.max(1.0) as u64);
            }
        }
        "openai_compatible" => {
            let address = own(draft, "openai_compatible_base_url");
            place(draft, role, address, "OPENAI_COMPATIBLE_BASE_URL");
            need_key(draft, role, "OPENAI_COMPATIBLE_API_KEY");
            let number = |name: &str| own(draft, name).and_then(|text| number(&text.into()));
            let temperature = number("openai_compatible_temperature");
            let tokens = number("openai_compatible_max_tokens").map(|tokens| tokens.max(1.0) as u64);
            let timeout = number("openai_compatible_timeout_seconds").map(|seconds| seconds.max(1.0) as u64);
            if let Some(temperature) = temperature {
                draft.set(&key("temperature"), temperature);
            }
            draft.set(&key("max_tokens"), tokens.unwrap_or(COMPATIBLE_MAX_TOKENS));
            // That of the environment comes first there too.
            if timeout.is_some() || role == "optimizer" || draft.value("exec_timeout").is_none() {
                draft.set(&key("timeout_s"), timeout.unwrap_or(COMPATIBLE_TIMEOUT_S));
            }
        }
        other => match program {
            Some(program) => agent(draft, role, program),
            None => draft.mapping.lose(format!("{role} backend"), other, AGENT),
        },
    }
}

/// The program behind a backend, where it is one that is known here too.
fn program_of(backend: &str) -> Option<&'static str> {
    match backend {
        "codex" | "codex_exec" => Some("codex"),
        "claude_chat" | "claude_code_exec" => Some("claude"),
        "copilot_chat" | "copilot_exec" => Some("copilot"),
        _ => None,
    }
}

/// A program as a model.
fn agent(draft: &mut Draft, role: &str, program: &str) {
    let key = |name: &str| format!("models.{role}.{name}");
    draft.set(&key("agent"), program);
    let path = match program {
        "codex" => "codex_exec_path",
        "copilot" => "copilot_exec_path",
        _ => "claude_code_exec_path",
    };
    if let Some(path) = draft.text(path).filter(|path| path != program) {
        draft.set(&key("command"), json!([path]));
    }
    let asked = draft.value("codex_exec_sandbox").filter(|_| program == "codex");
    if let Some(sandbox) = asked.and_then(sandbox) {
        draft.set(&key("sandbox"), sandbox);
    }
}

/// The sandbox of Codex in our words.
fn sandbox(asked: &Value) -> Option<&'static str> {
    match text(asked).as_deref() {
        Some("workspace-write") => Some("workspace"),
        Some("danger-full-access") => Some("off"),
        Some("read-only") => Some("read_only"),
        Some(_) | None => None,
    }
}

/// A number, also as text.
fn number(value: &Value) -> Option<f64> {
    text(value)?.parse::<f64>().ok().filter(|number| number.is_finite())
}

/// The chat backend, which is Azure's unless it is said otherwise.
fn azure(draft: &mut Draft, role: &str, own: &dyn Fn(&Draft, &str) -> Option<String>) {
    let mode = own(draft, "azure_openai_auth_mode");
    let is_plain = matches!(mode.as_deref(), Some("openai_compatible" | "compat" | "openai"));
    let endpoint = own(draft, "azure_openai_endpoint").or_else(|| draft.text("azure_endpoint"));
    let address = match (&endpoint, is_plain) {
        (Some(endpoint), true) => Some(endpoint.clone()),
        (Some(endpoint), false) => {
            let endpoint = endpoint.trim_end_matches('/');
            Some(if endpoint.ends_with("/v1") {
                endpoint.to_owned()
            } else {
                format!("{endpoint}/openai/v1")
            })
        }
        (None, _) => None,
    };
    let key = |name: &str| format!("models.{role}.{name}");
    // Azure has no address of its own: without one the configuration is refused, and the key goes nowhere else.
    let is_azure = !is_plain && endpoint.as_ref().is_none_or(|endpoint| endpoint.contains(".azure.com"));
    if is_azure {
        draft.set(&key("provider"), "azure");
    }
    match address {
        None if is_azure => need_address(draft, role, "AZURE_OPENAI_ENDPOINT"),
        address => place(draft, role, address, "AZURE_OPENAI_ENDPOINT"),
    }
    if matches!(mode.as_deref(), Some("azure_cli")) {
        let scope = own(draft, "azure_openai_ad_scope").unwrap_or_else(|| AZURE_SCOPE.to_owned());
        let resource = scope.trim_end_matches("/.default");
        let command = ["az", "account", "get-access-token", "--resource", resource];
        draft.set(&key("api_key_command"), json!(command));
    } else {
        need_key(draft, role, "AZURE_OPENAI_API_KEY");
    }
}

/// Names the variable of a key, which no configuration has.
fn need_key(draft: &mut Draft, role: &str, variable: &str) {
    draft.set(&format!("models.{role}.api_key_env"), variable);
    draft.mapping.need(format!("{variable}: the environment variable with the key"));
}

/// Names an address that is missing.
fn need_address(draft: &mut Draft, role: &str, variable: &str) {
    draft.mapping.need(format!("models.{role}.base_url: the address that SkillOpt reads from {variable}"));
    let reason = format!("SkillOpt reads it from {variable}: write it into models.{role}.base_url");
    draft.mapping.lose(format!("{role} address"), "", reason);
}

/// Where a server is; SkillOpt may have it from its environment, which a configuration cannot know. An empty address is
/// refused, so that no key and no task goes to the server that happens to be the default.
fn place(draft: &mut Draft, role: &str, address: Option<String>, variable: &str) {
    if address.is_none() {
        need_address(draft, role, variable);
    }
    draft.set(&format!("models.{role}.base_url"), address.unwrap_or_default());
}

impl Draft {
    fn flag_of(&self, own: &str, shared: &str) -> Option<bool> {
        self.value(own).or_else(|| self.value(shared)).and_then(flag)
    }
}
