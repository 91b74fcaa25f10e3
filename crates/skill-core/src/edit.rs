//! Edits and patches: what the optimizer proposes.
//!
//! ```
//! use skill_core::{Edit, EditOp};
//!
//! let edit = Edit::replace("Round down.", "Round to the nearest cent.");
//! assert_eq!((edit.op, edit.target.as_str()), (EditOp::Replace, "Round down."));
//! let read: Edit = serde_json::from_str(r#"{"op": "append", "content": "- Name the unit."}"#)?;
//! assert_eq!(read, Edit::append("- Name the unit."));
//! # Ok::<(), serde_json::Error>(())
//! ```

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// What an [`Edit`] does to the skill.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum EditOp {
    /// Adds `content` at the end of the body, before the first protected region.
    Append,
    /// Adds `content` below the line that holds `target`.
    InsertAfter,
    /// Puts `content` in the place of `target`.
    Replace,
    /// Removes `target`.
    Delete,
    /// An operation that a model made up; the editor skips it and says so.
    Unknown(String),
}

impl EditOp {
    /// The name used in prompts and files.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Append => "append",
            Self::InsertAfter => "insert_after",
            Self::Replace => "replace",
            Self::Delete => "delete",
            Self::Unknown(name) => name,
        }
    }
}

impl From<&str> for EditOp {
    fn from(name: &str) -> Self {
        match name {
            "append" => Self::Append,
            "insert_after" => Self::InsertAfter,
            "replace" => Self::Replace,
            "delete" => Self::Delete,
            other => Self::Unknown(other.to_owned()),
        }
    }
}

impl Serialize for EditOp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for EditOp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self::from(String::deserialize(deserializer)?.as_str()))
    }
}

crate::named_enum! {
    /// Which kind of trajectories an edit answers.
    pub enum SourceType {
        /// Trajectories that failed.
        Failure = "failure",
        /// Trajectories that succeeded.
        Success = "success",
    }
}

/// One bounded change to the skill's text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Edit {
    /// What to do.
    pub op: EditOp,
    /// The new text; ignored for [`EditOp::Delete`]. Null and missing are the same.
    #[serde(default, deserialize_with = "null_as_empty")]
    pub content: String,
    /// The anchor in the skill; ignored for [`EditOp::Append`]. Null and missing are the same.
    #[serde(default, deserialize_with = "null_as_empty", skip_serializing_if = "String::is_empty")]
    pub target: String,
    /// The file of a skill package that the edit is for; `SKILL.md` without one. Null and missing are the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The tasks that it is meant to solve, as far as the optimizer names them. Null and missing are the same.
    #[serde(rename = "for", default, skip_serializing_if = "Vec::is_empty")]
    pub tasks: Vec<crate::ItemId>,
    /// How many trajectories support the edit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub support_count: Option<u32>,
    /// Which analyst it came from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_type: Option<SourceType>,
    /// The level of the merge tree that produced it, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merge_level: Option<u32>,
    /// What made the edit, in the words of whoever proposed it; kept as it is. Null and missing are the same.
    #[serde(default, deserialize_with = "null_as_empty", skip_serializing_if = "String::is_empty")]
    pub update_origin: String,
    /// What the edit is for, kept alike. Null and missing are the same.
    #[serde(default, deserialize_with = "null_as_empty", skip_serializing_if = "String::is_empty")]
    pub update_target: String,
}

fn null_as_empty<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    Ok(Option::<String>::deserialize(deserializer)?.unwrap_or_default())
}

impl Edit {
    /// An edit without provenance.
    pub fn new(op: EditOp, target: impl Into<String>, content: impl Into<String>) -> Self {
        Self {
            op,
            content: content.into(),
            target: target.into(),
            file: None,
            tasks: Vec::new(),
            support_count: None,
            source_type: None,
            merge_level: None,
            update_origin: String::new(),
            update_target: String::new(),
        }
    }

    /// An edit that appends `content`.
    pub fn append(content: impl Into<String>) -> Self {
        Self::new(EditOp::Append, "", content)
    }

    /// An edit that puts `content` below the line with `target`.
    pub fn insert_after(target: impl Into<String>, content: impl Into<String>) -> Self {
        Self::new(EditOp::InsertAfter, target, content)
    }

    /// An edit that puts `content` in the place of `target`.
    pub fn replace(target: impl Into<String>, content: impl Into<String>) -> Self {
        Self::new(EditOp::Replace, target, content)
    }

    /// An edit that removes `target`.
    pub fn delete(target: impl Into<String>) -> Self {
        Self::new(EditOp::Delete, target, "")
    }
}

/// True if a text holds control characters besides tabs and line ends: no skill has a use for them, and they are mostly
/// what JSON makes of a backslash that was not doubled.
pub(crate) fn has_control_characters(text: &str) -> bool {
    text.chars().any(|character| character.is_control() && !matches!(character, '\t' | '\n' | '\r'))
}

/// Edits with the argument for them: the output of aggregate and select, the input of update.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Patch {
    /// The optimizer's argument, or how a fallback came about.
    #[serde(default, deserialize_with = "null_as_empty")]
    pub reasoning: String,
    /// The edits, in the order in which they are applied.
    #[serde(default)]
    pub edits: Vec<Edit>,
    /// The optimizer's own reply to the ranking call, where there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ranking_details: Option<serde_json::Value>,
}

/// What one analyst call proposes for one minibatch of trajectories.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RawPatch {
    /// The proposed edits.
    pub patch: Patch,
    /// Which kind of trajectories the analyst saw.
    pub source_type: SourceType,
    /// How many trajectories it saw.
    pub batch_size: u32,
    /// The ids of the trajectories it saw, in prompt order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub item_ids: Vec<crate::ItemId>,
    /// What was wrong with the reply and how it was read, one sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(json: &str, expect: &Edit) {
        assert_eq!(&serde_json::from_str::<Edit>(json).unwrap(), expect, "{json}");
    }

    #[test]
    fn null_and_missing_are_the_same() {
        check(r#"{"op": "append", "content": "x"}"#, &Edit::append("x"));
        check(r#"{"op": "append", "content": "x", "target": null}"#, &Edit::append("x"));
        check(r#"{"op": "append", "content": null, "support_count": null}"#, &Edit::append(""));
        check(r#"{"op": "append", "content": "x", "file": null}"#, &Edit::append("x"));
        check(r#"{"op": "delete", "target": "x"}"#, &Edit::new(EditOp::Delete, "x", ""));
        check(r#"{"op": "noop", "target": "x"}"#, &Edit::new(EditOp::Unknown("noop".to_owned()), "x", ""));
    }

    #[test]
    fn origin_and_purpose_of_an_edit_are_kept_as_they_are() {
        let edit = Edit {
            update_origin: "slow update".to_owned(),
            update_target: "body".to_owned(),
            ..Edit::append("x")
        };
        let json = r#"{"op":"append","content":"x","update_origin":"slow update","update_target":"body"}"#;
        check(json, &edit);
        assert_eq!(serde_json::to_string(&edit).unwrap(), json);
        let reply = format!(r#"{{"edits": [{json}]}}"#);
        assert_eq!(crate::json::read_patch(&reply).patch.unwrap().edits, [edit]);
        check(r#"{"op": "append", "content": "x", "update_origin": null}"#, &Edit::append("x"));
    }

    #[test]
    fn an_edit_without_provenance_is_written_without_it() {
        assert_eq!(serde_json::to_string(&Edit::append("x")).unwrap(), r#"{"op":"append","content":"x"}"#);
    }
}
