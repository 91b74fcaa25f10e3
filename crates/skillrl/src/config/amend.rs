//! Changes of a configuration that are requested as a whole, apart from its keys.

use super::EnvKind;

/// Changes of a configuration that are made before its overrides are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Amendments {
    /// The environment of a text that names none; a text that names another one is refused.
    pub env: Option<EnvKind>,
    /// True if every model is a simulated one, whatever the text says. Simulated models of the text keep their settings;
    /// without a simulated embedding model, skills are retrieved by template. Limits on the tokens of a target that is
    /// replaced are forgotten with it.
    pub simulates_models: bool,
    /// True if weights are trained, whatever `train.mode` says: a simulated target then stands for a small decoder, and
    /// settings that the text does not name are those that it learns with.
    pub trains_weights: bool,
    /// True if a run of simulated models goes through all phases where the program can train weights: they begin with a
    /// small decoder for households.
    pub all_phases: bool,
    /// What the optimizer is needed for; a text may leave out one that is not.
    pub optimizer: OptimizerUse,
}

/// What a command needs an optimizer for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OptimizerUse {
    /// It proposes edits.
    #[default]
    Edits,
    /// It is the teacher, where the text asks for one and has no other.
    Teaching,
    /// Nothing.
    Nothing,
}

impl Amendments {
    /// True if the text is not changed.
    pub fn is_empty(self) -> bool {
        let Self { trains_weights, optimizer, .. } = self;
        self == Self { trains_weights, optimizer, ..Self::default() }
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
