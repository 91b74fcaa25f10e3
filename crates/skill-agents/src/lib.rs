//! Coding agents as data, and one reader for what they record.
//!
//! [`Agent`] is a row of the table of agents: how a program is started without a terminal, where skills lie, how the
//! user's own are kept out, and which lines of its records say what. Each row is a file below `src/agents/`.
//! [`read_case`] reads streams and session files of any of them with the same engine and says which skills were
//! offered and loaded ([`Loads`]).
//!
//! [`measure`](measure::measure) asks queries again and again and keeps what happened, [`report`](report::report) makes
//! rates of it, and [`Training`](train::Training) improves a description by them.
//!
//! Nothing here starts a program or calls a model: that is a [`Launcher`](measure::Launcher). Files are read and written
//! only below directories that a caller names.
//!
//! # Who should depend on this crate alone
//!
//! Anybody with a harness of their own who asks which skills an agent was offered and loaded.
//!
//! # Example
//!
//! ```
//! use skill_agents::{ReadOptions, agent, read_case};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let claude = agent("claude-code")?.ok_or("the table has no such agent")?;
//! let run = r#"
//! {"type": "assistant", "message": {"id": "1", "model": "m", "content": [{"type": "tool_use", "id": "c", "name": "Skill", "input": {"skill": "invoices"}}]}}
//! {"type": "user", "message": {"content": [{"type": "tool_result", "tool_use_id": "c", "content": "Launching skill: invoices"}]}}
//! {"type": "result", "subtype": "success", "is_error": false}
//! "#;
//! let seen = read_case(claude, &[run.to_owned()], &[], &ReadOptions::default());
//! assert_eq!((seen.loads[0].skill.as_str(), seen.loads[0].turn), ("invoices", 1));
//! # Ok(())
//! # }
//! ```

mod command;
mod database;
mod event;
pub mod gate;
pub mod home;
pub mod kept;
mod listed;
mod listing;
mod loads;
pub mod measure;
mod outcome;
pub mod plugin;
pub mod query;
pub mod rates;
mod read;
mod record;
pub mod report;
mod rule;
mod skill;
mod table;
pub mod train;

pub use listed::{DescriptionVisibility, Listed, listed};
pub use listing::Offer;
pub use loads::{Failed, How, Load, Loads, NotVisible, Prompt, RunUsage, ToolCall, TriggerRow};
pub use outcome::TriggerOutcome;
pub use read::{
    AgentFailure, AgentReply, LiveReplies, ReadOptions, UsedUp, read_case, read_reply, sessions_of,
};
pub use skill::{Skill, SkillFault, Texts, text_hash};
pub use table::{
    Agent, Budget, Exit, Home, ListingIn, MEASURED_WINDOW, NamedBy, OverBudget, Play, Rights, SameName,
    SettingsFile, Start, TableError, agent, agents,
};
