//! The reply in what a program prints: of a known one by the table of agents, of any other the text itself.

use crate::chat::{ChatReply, FinishReason};
use crate::error::ErrorClass;
use crate::http::class_of_report;
use skill_agents::home::SessionFile;
use skill_agents::{Agent, AgentFailure as Found, UsedUp, read_reply};
use skill_core::Usage;

/// Why there is no reply in an output.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The program says that it failed.
    Reported {
        /// Its words.
        said: String,
        /// The HTTP status of the provider behind it, where it tells.
        status: Option<u16>,
    },
    /// The output is not what the program prints, as the end of "the program ...".
    Unreadable(String),
}

impl Fault {
    /// What kind of failure it is; `None` where nothing is said about it.
    pub(super) fn class(&self) -> Option<ErrorClass> {
        match self {
            Self::Reported { said, status } => Some(class_of_report(said, *status)),
            Self::Unreadable(_) => None,
        }
    }
}

/// Reads an output, and the session files of a known program, which hold tokens that some print nowhere.
pub(super) fn read(agent: Option<&Agent>, stdout: &str, files: &[SessionFile]) -> Result<ChatReply, Fault> {
    let Some(agent) = agent else { return text(stdout) };
    let found = read_reply(agent, stdout, files);
    let usage = found.usage.map(|usage| usage.tokens).unwrap_or_default();
    let unreadable = |what: &str| Err(Fault::Unreadable(what.to_owned()));
    match (found.used_up, found.fault) {
        (Some(UsedUp::Turns), _) => Ok(ChatReply::new(found.text, usage, FinishReason::turns_used_up())),
        (Some(UsedUp::Budget), _) => Ok(ChatReply::new(found.text, usage, FinishReason::budget_used_up())),
        (None, None) => Ok(ChatReply::text(found.text, usage)),
        (None, Some(Found::Refused)) => Ok(ChatReply::new(found.text, usage, FinishReason::ContentFilter)),
        (None, Some(Found::Reported { said, status })) => Err(Fault::Reported { said, status }),
        (None, Some(Found::NoRecords)) => unreadable("printed no JSON"),
        (None, Some(Found::NoEnd)) => unreadable("stopped before the end of its output"),
        (None, Some(Found::NoText)) => unreadable("printed no message of the agent"),
    }
}

fn text(stdout: &str) -> Result<ChatReply, Fault> {
    match stdout.trim() {
        "" => Err(Fault::Unreadable("printed nothing".to_owned())),
        reply => Ok(ChatReply::text(reply, Usage::default())),
    }
}
