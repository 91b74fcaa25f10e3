//! The one reader: streams and session files of any agent, by the rules of the table.
//!
//! Records become [`Event`]s by rules, and the same fold goes over the events of every agent. Session files know the
//! whole conversation, sub-agents included; streams know where runs begin and how they ended. So with session files
//! these decide, and what only a stream shows is added.

mod case;
mod fold;
mod reply;
mod steps;

use crate::event::What;
use crate::home::SessionFile;
use crate::loads::Loads;
use crate::table::Agent;
use std::collections::BTreeSet;
use steps::Step;

pub use reply::{AgentFailure, AgentReply, UsedUp, read_reply};

/// What a caller knows besides the records.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReadOptions {
    /// Skills that get a row in [`Loads::trigger`] whether or not they were offered.
    pub skills: Vec<String>,
    /// The caller stopped the last run at its turn limit, so that its stream has no end.
    pub is_stopped: bool,
}

/// Counts the replies of a run while it prints.
#[derive(Debug, Clone)]
pub struct LiveReplies {
    agent: &'static Agent,
    rest: Vec<u8>,
    folded: fold::Folded,
}

impl LiveReplies {
    /// The beginning of a run.
    pub fn new(agent: &'static Agent) -> Self {
        Self { agent, rest: Vec::new(), folded: fold::Folded::default() }
    }

    /// Takes what was printed.
    pub fn take(&mut self, bytes: &[u8]) {
        self.rest.extend_from_slice(bytes);
        if let Some(end) = self.rest.iter().rposition(|byte| *byte == b'\n') {
            let lines: Vec<u8> = self.rest.drain(..=end).collect();
            let stream = steps::of_stream(self.agent, &String::from_utf8_lossy(&lines), 1);
            self.folded.extend(self.agent, &stream.steps);
        }
    }

    /// Replies of the model in the main conversation until now.
    pub fn count(&self) -> usize {
        self.folded.replies
    }
}

/// The model's last text in a stream: what it wrote after its last call of a tool.
pub(crate) fn last_text(agent: &Agent, stream: &str) -> String {
    text_of(&steps::of_stream(agent, stream, 1).steps)
}

fn text_of(steps: &[Step]) -> String {
    let (mut text, mut answer) = (String::new(), None);
    for step in steps.iter().filter(|step| step.sub.is_none()) {
        match &step.what {
            What::Text(part) => text.push_str(part),
            What::Call { .. } => text.clear(),
            What::Answer(said) => answer = Some(said),
            _ => {}
        }
    }
    answer.cloned().unwrap_or(text)
}

/// The name of a skill without the plugin before it.
pub(crate) fn base_name(skill: &str) -> &str {
    skill.rsplit(':').next().unwrap_or(skill)
}

/// The sessions that streams belong to.
pub fn sessions_of(agent: &Agent, streams: &[String]) -> BTreeSet<String> {
    streams.iter().filter_map(|text| steps::of_stream(agent, text, 1).session).collect()
}

/// What the streams of a case in order, and its session files, show.
pub fn read_case(agent: &Agent, streams: &[String], files: &[SessionFile], options: &ReadOptions) -> Loads {
    case::read(agent, streams, files, options)
}
