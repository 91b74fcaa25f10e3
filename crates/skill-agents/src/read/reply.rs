//! What an agent replied that plays a model.

use super::case::{RunEnd, usage};
use super::steps::{of_files, of_stream};
use super::text_of;
use crate::event::What;
use crate::home::SessionFile;
use crate::loads::RunUsage;
use crate::rule::REFUSED;
use crate::table::Agent;
use std::collections::BTreeMap;

/// What an agent replied.
#[derive(Debug, Clone, PartialEq)]
pub struct AgentReply {
    /// The last text of the model; empty where there is none.
    pub text: String,
    /// What the program has used up, where that is why it ended.
    pub used_up: Option<UsedUp>,
    /// Why this is not a reply.
    pub fault: Option<AgentFailure>,
    /// The tokens that it reports.
    pub usage: Option<RunUsage>,
}

/// What a program allows itself and has used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UsedUp {
    /// Its turns.
    Turns,
    /// Its budget.
    Budget,
}

/// What went wrong instead of a reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AgentFailure {
    /// The model refused.
    Refused,
    /// The program says that it failed.
    Reported {
        /// Its words; what is known about it where it has none.
        said: String,
        /// The HTTP status of the model's server, where it is known.
        status: Option<u16>,
    },
    /// It printed nothing that its kind of program prints.
    NoRecords,
    /// Its output stops before the end of the run.
    NoEnd,
    /// It ended without a text.
    NoText,
}

/// What the output of one run, and the session files of that run, show of a reply.
pub fn read_reply(agent: &Agent, stream: &str, files: &[SessionFile]) -> AgentReply {
    let stream = of_stream(agent, stream, 1);
    let runs: BTreeMap<_, _> = stream.session.iter().map(|id| (id.clone(), vec![1])).collect();
    let end = RunEnd::of(stream.steps.iter());
    let text = text_of(&stream.steps);
    let used_up = stream.steps.iter().rev().find_map(|step| match &step.what {
        What::UsedUp(what) if what == "budget" => Some(UsedUp::Budget),
        What::UsedUp(_) => Some(UsedUp::Turns),
        _ => None,
    });
    let fault = match end.fault {
        Some((why, ..)) if why == REFUSED => Some(AgentFailure::Refused),
        Some((why, status, said)) => {
            Some(AgentFailure::Reported { said: if said.is_empty() { why } else { said }, status })
        }
        None if stream.n_records == 0 => Some(AgentFailure::NoRecords),
        None if !end.has_ended => Some(AgentFailure::NoEnd),
        None if text.is_empty() => Some(AgentFailure::NoText),
        None => None,
    };
    AgentReply {
        text,
        used_up,
        fault,
        // Some report tokens in their session files alone.
        usage: usage(&stream.steps).or_else(|| usage(&of_files(agent, files, &runs).0)),
    }
}
