//! What a case showed: skills that were offered and loaded, and what its records cannot show.

use crate::outcome::TriggerOutcome;
use serde::Serialize;
use skill_core::Usage;
use std::collections::BTreeMap;

/// How a skill was loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum How {
    /// By the agent's own tool for skills.
    Tool,
    /// By the tool that reads files.
    File,
    /// By a shell command.
    Shell,
    /// By a command inside a program that the model wrote.
    Program,
    /// A person called it by name.
    Person,
}

/// A load, or the attempt at one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Load {
    /// The name that was asked for, or the folder that was read.
    pub skill: String,
    /// How.
    pub how: How,
    /// The run, from 1.
    pub run: usize,
    /// The model's reply in the main conversation that made the call, over all runs; 0 where a person did.
    pub turn: usize,
    /// A sub-agent made the call.
    #[serde(skip_serializing_if = "is_false")]
    pub subagent: bool,
    /// The reply of sub-agents that made the call, over all of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subagent_turn: Option<usize>,
    /// It was loaded before.
    #[serde(skip_serializing_if = "is_false")]
    pub again: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_false(value: &bool) -> bool {
    !value
}

/// A call of the model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ToolCall {
    /// The run, from 1.
    pub run: usize,
    /// As in [`Load::turn`].
    pub turn: usize,
    /// The tool.
    pub name: String,
    /// A sub-agent made the call.
    #[serde(skip_serializing_if = "is_false")]
    pub subagent: bool,
    /// Its arguments, as far as they are recorded.
    #[serde(skip)]
    pub arguments: serde_json::Value,
}

/// What a person asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Prompt {
    /// The run, from 1.
    pub run: usize,
    /// The text.
    pub text: String,
}

/// A run that failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Failed {
    /// The run, from 1.
    pub run: usize,
    /// Why, as far as the records say it.
    pub why: String,
    /// The HTTP status of the model's server, where it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// What the program said.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// What became of one skill.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct TriggerRow {
    /// It was in the listing; `None` where no record shows the listing.
    pub offered: Option<bool>,
    /// It was there with its description.
    pub described: Option<bool>,
    /// The outcome over all runs of the case.
    pub outcome: TriggerOutcome,
}

/// Something that these records cannot show.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct NotVisible(pub String);

/// What a case showed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Loads {
    /// The agent.
    pub agent: String,
    /// Its version, where a record says it.
    pub version: Option<String>,
    /// The model, where a record says it.
    pub model: Option<String>,
    /// Skills of the first listing that are not the agent's own; `None` where no record shows the listing.
    pub skills_offered: Option<Vec<String>>,
    /// Those of them that were listed by name only.
    pub skills_offered_without_description: Option<Vec<String>>,
    /// The agent's own skills of that listing.
    pub skills_offered_by_the_agent_itself: Option<Vec<String>>,
    /// Loads, in order.
    pub loads: Vec<Load>,
    /// Attempts at loads whose text did not reach the model.
    pub loads_that_failed: Vec<Load>,
    /// What became of each skill that was offered, asked for or named by the caller.
    pub trigger: BTreeMap<String, TriggerRow>,
    /// What people asked for, as far as the records show it.
    pub prompts: Vec<Prompt>,
    /// Calls of the model, in order.
    pub tools: Vec<ToolCall>,
    /// Replies of the model in the main conversation.
    pub replies: usize,
    /// Runs that failed; `None` if none did.
    pub failed: Option<Vec<Failed>>,
    /// The session of each run, where it is known.
    pub sessions: Vec<Option<String>>,
    /// Tokens and cost of all runs, where the agent reports them.
    pub usage: Option<RunUsage>,
    /// What these records cannot show.
    pub not_visible: Vec<NotVisible>,
    /// Lines that are no records, such as banners and a torn last line.
    pub lines_passed_over: usize,
}

/// Tokens and cost, as the agent reports them.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct RunUsage {
    /// Tokens.
    #[serde(flatten)]
    pub tokens: Usage,
    /// US dollars.
    pub cost: Option<f64>,
}
