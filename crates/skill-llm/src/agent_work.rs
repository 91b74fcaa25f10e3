//! A task of a coding agent that plays a model, besides its prompt: the files that it finds, and what it did.
//!
//! [`AgentProject`] goes with a call, [`AgentWork`] comes back with its reply. A skill that is delivered as a package goes
//! with the call as a [`SkillDoc`](skill_core::SkillDoc). What an agent finds decides its reply, so it is a part of the key of a recorded call.

use crate::chat::{ChatReply, Message, ProviderState};
use base64::prelude::{BASE64_STANDARD, Engine as _};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Arc;

/// The dialect of the state that an agent's work is kept as.
const DIALECT: &str = "agent";

/// A file of a project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentFile {
    /// Its content.
    pub bytes: Arc<[u8]>,
    /// Whether it can be started.
    pub is_executable: bool,
}

/// The files that a coding agent finds in its working directory, by their paths with `/` between names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AgentProject {
    /// The files.
    pub files: BTreeMap<String, AgentFile>,
}

impl AgentProject {
    /// The SHA-256 of all paths, contents and modes, in hexadecimal digits.
    pub fn digest(&self) -> String {
        let mut hash = Sha256::new();
        for (path, file) in &self.files {
            for part in [path.as_bytes(), &file.bytes] {
                hash.update((part.len() as u64).to_be_bytes());
                hash.update(part);
            }
            hash.update([u8::from(file.is_executable)]);
        }
        hash.finalize().iter().fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        })
    }
}

/// A call of a tool that an agent made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgentToolCall {
    /// The tool.
    pub name: String,
    /// Its arguments, as far as they are recorded.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub arguments: Value,
}

/// What a coding agent did in one call, besides its reply.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct AgentWork {
    /// The agent's version, where its records say it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The model, where they say it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The name of the skill that was delivered as a package; `None` if none was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skill: Option<String>,
    /// Skills that the model loaded, in the order of their first loads.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub loaded: Vec<String>,
    /// Skills that the model requested and whose text did not reach it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub attempted: Vec<String>,
    /// Calls of tools, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<AgentToolCall>,
    /// Replies of the model in the main conversation.
    pub replies: usize,
    /// How long the program took.
    pub milliseconds: u64,
    /// US dollars, where the agent reports them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<f64>,
    /// Files of the project that are new or changed, each in base64; only of a call with an [`AgentProject`].
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub changed: BTreeMap<String, String>,
    /// Files of the project that were removed.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub removed: BTreeSet<String>,
    /// Files that are not kept, since they are too large, too many, or not readable; also folders that are not looked into.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub not_kept: BTreeSet<String>,
}

impl AgentWork {
    /// Whether the skill that was delivered was loaded; `None` if none was delivered.
    pub fn is_activated(&self) -> Option<bool> {
        let skill = self.skill.as_ref()?;
        Some(self.loaded.contains(skill))
    }

    /// Keeps the content of a changed file.
    pub fn keep(&mut self, path: String, bytes: &[u8]) {
        self.changed.insert(path, BASE64_STANDARD.encode(bytes));
    }

    /// The files of the project after the work.
    pub fn after(&self, before: &AgentProject) -> BTreeMap<String, Arc<[u8]>> {
        let mut files: BTreeMap<String, Arc<[u8]>> =
            before.files.iter().map(|(path, file)| (path.clone(), Arc::clone(&file.bytes))).collect();
        files.retain(|path, _| !self.removed.contains(path) && !self.not_kept.contains(path));
        for (path, content) in &self.changed {
            // What this program encoded decodes; a journal that was changed by hand has no file here.
            if let Ok(bytes) = BASE64_STANDARD.decode(content) {
                files.insert(path.clone(), Arc::from(bytes));
            }
        }
        files
    }
}

impl ChatReply {
    /// The same reply with what the agent did that gave it.
    #[must_use]
    pub fn with_agent_work(self, work: &AgentWork) -> Self {
        let work = serde_json::to_value(work).expect("the keys of its maps are texts");
        self.with_provider_state(DIALECT, Some(work))
    }

    /// US dollars that the agent reports for this reply.
    pub(crate) fn agent_cost(&self) -> Option<f64> {
        let state = self.provider_state.as_deref().filter(|state| state.dialect == DIALECT)?;
        state.value.get("cost")?.as_f64().filter(|cost| *cost >= 0.0)
    }

    /// What the agent did that gave this reply; `None` where no agent plays the model.
    pub fn agent_work(&self) -> Option<AgentWork> {
        let state = self.provider_state.as_deref().filter(|state| state.dialect == DIALECT)?;
        serde_json::from_value(state.value.clone()).ok()
    }
}

impl Message {
    /// A message without an agent's work, which is not a part of a conversation.
    #[must_use]
    pub(crate) fn without_agent_work(mut self) -> Self {
        let is_work = |state: &Arc<ProviderState>| state.dialect == DIALECT;
        self.provider_state = self.provider_state.filter(|state| !is_work(state));
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use skill_core::Usage;

    fn project(files: &[(&str, &str)]) -> AgentProject {
        let file = |text: &str| AgentFile { bytes: Arc::from(text.as_bytes()), is_executable: false };
        AgentProject { files: files.iter().map(|(path, text)| ((*path).to_owned(), file(text))).collect() }
    }

    #[test]
    fn work_comes_back_from_a_reply_and_is_no_part_of_a_conversation() {
        let mut work = AgentWork {
            skill: Some("pdf".to_owned()),
            removed: BTreeSet::from(["b".to_owned()]),
            ..AgentWork::default()
        };
        assert_eq!(work.is_activated(), Some(false));
        work.keep("new".to_owned(), b"\xff");
        let reply = ChatReply::text("done", Usage::default()).with_agent_work(&work);
        assert_eq!(reply.agent_work(), Some(work.clone()));
        assert_eq!(Message::reply(&reply).provider_state, None);
        let after = work.after(&project(&[("a", "1"), ("b", "2")]));
        assert_eq!(after.keys().collect::<Vec<_>>(), ["a", "new"]);
        assert_eq!(after["new"].as_ref(), b"\xff");
    }

    #[test]
    fn each_file_decides_the_digest() {
        let digests: BTreeSet<String> =
            [&[("a", "1")][..], &[("a", "2")], &[("a1", "")], &[("a", "1"), ("b", "")]]
                .iter()
                .map(|files| project(files).digest())
                .collect();
        assert_eq!(digests.len(), 4);
    }
}
