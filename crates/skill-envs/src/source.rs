//! The seam between what is trained and what an agent is shown: a source of skills.
//!
//! A document is the source that always shows itself. A bank selects what fits the task, and may ask a model for that.

use crate::error::EnvError;
use crate::item::Item;
use async_trait::async_trait;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use skill_core::{ItemId, SkillDoc, SkillPartId};
use skill_llm::CallCtx;
use std::sync::Arc;

/// Decides what the agent is shown for each task.
#[async_trait]
pub trait SkillSource: Send + Sync {
    /// Names everything that decides what any task is shown: sources of one version show the same.
    ///
    /// It identifies a rollout whose environment learns the goal only from a reset. For a document it is the SHA-256 of
    /// its text, in 64 hexadecimal digits.
    fn version(&self) -> String;

    /// What the agent is shown for this task.
    ///
    /// Equal tasks are shown the same by one version. Models that it asks are called at places inside `call`.
    ///
    /// # Errors
    ///
    /// A model that cannot be asked, or a task that nothing can be selected for. It ends the rollout and is never a
    /// score.
    async fn show(&self, task: &TaskView<'_>, call: &CallCtx) -> Result<Shown, EnvError>;
}

/// What a source may know of a task: nothing that tells its answer.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct TaskView<'a> {
    /// The id of the item.
    pub item: &'a ItemId,
    /// What is to be done, as the agent is told it; empty where the environment tells only its agent.
    pub goal: &'a str,
    /// The category of the item; empty if there is none.
    pub task_type: &'a str,
}

impl<'a> TaskView<'a> {
    /// The view of an item with this goal.
    pub fn new(item: &'a Item, goal: &'a str) -> Self {
        Self { item: &item.id, goal, task_type: &item.task_type }
    }
}

/// What an agent is shown for one task.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Shown {
    /// The text, and the files carried with it.
    #[serde(with = "wire")]
    pub skill: SkillDoc,
    /// The parts that the text was put together from, in their order; none for a document.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<SkillPartId>,
}

impl Shown {
    /// A text that is put together from these parts.
    pub fn new(skill: SkillDoc, parts: Vec<SkillPartId>) -> Self {
        Self { skill, parts }
    }
}

/// A document as a source.
pub fn document(skill: &SkillDoc) -> Arc<dyn SkillSource> {
    Arc::new(skill.clone())
}

#[async_trait]
impl SkillSource for SkillDoc {
    fn version(&self) -> String {
        self.source_sha256()
    }

    async fn show(&self, _task: &TaskView<'_>, _call: &CallCtx) -> Result<Shown, EnvError> {
        Ok(Shown::new(self.clone(), Vec::new()))
    }
}

/// What a task was shown before its rollout, as a source for that rollout.
#[async_trait]
impl SkillSource for Shown {
    fn version(&self) -> String {
        self.skill.version()
    }

    async fn show(&self, _task: &TaskView<'_>, _call: &CallCtx) -> Result<Shown, EnvError> {
        Ok(self.clone())
    }
}

/// A source that remembers which parts it showed last.
pub struct Witnessed<'a> {
    source: &'a dyn SkillSource,
    parts: Mutex<Vec<SkillPartId>>,
}

impl<'a> Witnessed<'a> {
    /// Wraps a source.
    pub fn new(source: &'a dyn SkillSource) -> Self {
        Self { source, parts: Mutex::default() }
    }

    /// The parts that were shown last.
    pub fn into_parts(self) -> Vec<SkillPartId> {
        self.parts.into_inner()
    }
}

#[async_trait]
impl SkillSource for Witnessed<'_> {
    fn version(&self) -> String {
        self.source.version()
    }

    async fn show(&self, task: &TaskView<'_>, call: &CallCtx) -> Result<Shown, EnvError> {
        let shown = self.source.show(task, call).await?;
        self.parts.lock().clone_from(&shown.parts);
        Ok(shown)
    }
}

/// A skill with the content of its files, for other processes: a record of a run has its text alone.
mod wire {
    use base64::prelude::{BASE64_STANDARD, Engine as _};
    use serde::de::Error as _;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use skill_core::SkillDoc;
    use skill_core::carried::{CarriedFile, CarriedFiles};
    use std::collections::BTreeMap;

    #[derive(Serialize, Deserialize)]
    struct WireSkill {
        text: String,
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        files: BTreeMap<String, WireFile>,
    }

    #[derive(Serialize, Deserialize)]
    struct WireFile {
        base64: String,
        #[serde(default)]
        is_executable: bool,
    }

    pub(super) fn serialize<S: Serializer>(skill: &SkillDoc, serializer: S) -> Result<S::Ok, S::Error> {
        let files = skill.carried().iter().map(|(path, file)| {
            let base64 = BASE64_STANDARD.encode(file.bytes());
            (path.to_owned(), WireFile { base64, is_executable: file.is_executable() })
        });
        WireSkill { text: skill.source_text().to_owned(), files: files.collect() }.serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SkillDoc, D::Error> {
        let WireSkill { text, files } = WireSkill::deserialize(deserializer)?;
        let mut carried = CarriedFiles::default();
        for (path, file) in files {
            let bytes = BASE64_STANDARD
                .decode(&file.base64)
                .map_err(|error| D::Error::custom(format!("the file {path:?} is not base64: {error}")))?;
            carried.insert(path, CarriedFile::new(bytes, file.is_executable));
        }
        Ok(SkillDoc::new(text).with_carried(carried))
    }
}
