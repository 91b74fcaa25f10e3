//! Changes of a configuration that are requested as a whole, apart from its keys.

use super::EnvKind;

/// Changes of a configuration that are made before its overrides are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Amendments {
    /// The environment of a text that names none; a text that names another one is refused.
    pub env: Option<EnvKind>,
    /// True if every model is a simulated one, whatever the text says. Simulated models of the text keep their settings;
    /// without a simulated embedding model, skills are retrieved by template.
    pub simulates_models: bool,
}

impl Amendments {
    /// True if nothing is changed.
    pub fn is_empty(self) -> bool {
        self == Self::default()
    }
}

/// The configuration of a built-in world where there is no file: a bank is trained, as in krill and SkillRL.
///
/// Which models are used is not a part of it, but simulated ones have a directory of their own.
pub fn world_text(kind: EnvKind, simulates_models: bool) -> String {
    // A simulated agent knows what is in its prompt and nothing else.
    let history = if simulates_models { "history_turns = 50\n" } else { "" };
    let (kind, suffix) = (kind.as_str(), if simulates_models { "-mock" } else { "" });
    format!(
        "[run]\ndir = \"runs/{kind}{suffix}\"\n\n[env]\nkind = \"{kind}\"\n{history}\n[train]\nmode = \"bank\"\n"
    )
}
