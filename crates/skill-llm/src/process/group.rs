//! A process with everything that it has started, to be killed at once.

use super::descendants::{self, Mark};
use super::session::{MARK_VARIABLE, Session};
use parking_lot::Mutex;
use std::sync::Arc;
use tokio::process::Command;

/// A program and all that it has started.
///
/// On Unix its process group is killed; on Linux also what has left the group, which is found by a mark in its
/// environment ([`Daemons::End`]). On Windows the child alone is killed, by its handle.
#[derive(Debug)]
pub struct ProcessGroup {
    state: Mutex<State>,
    /// None where daemons stay.
    mark: Option<Mark>,
    /// So that a later process can clean up if this one is killed.
    _session: Arc<Session>,
}

/// The fate of processes that a program puts aside: those that leave its process group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Daemons {
    /// They end with the program.
    End,
    /// They stay: a command that logs in may start an agent that keeps its session.
    Stay,
}

#[derive(Debug, Default)]
struct State {
    #[cfg_attr(not(unix), expect(dead_code, reason = "there are no process groups"))]
    leader: Option<u32>,
    /// The leader, which may be the supervisor of all that its program has started.
    #[cfg(target_os = "linux")]
    supervisor: Option<descendants::Process>,
    is_killed: bool,
}

impl ProcessGroup {
    /// Makes the child of a command the leader of a group of its own, and marks it where daemons end with it.
    ///
    /// The environment of the command has to be complete: clearing it later would remove the mark.
    pub fn lead(command: &mut Command, daemons: Daemons) -> Self {
        let session = Session::current();
        let mark = match daemons {
            Daemons::End => Some(session.new_mark()),
            Daemons::Stay => None,
        };
        #[cfg(unix)]
        command.process_group(0);
        if let Some(mark) = &mark {
            command.env(MARK_VARIABLE, mark.value());
        }
        Self { state: Mutex::default(), mark, _session: session }
    }

    /// Says which child leads the group, once it has been started.
    pub fn led_by(&self, leader: Option<u32>) {
        let mut state = self.state.lock();
        state.leader = leader;
        #[cfg(target_os = "linux")]
        if self.mark.is_some() {
            state.supervisor = leader.and_then(descendants::process);
        }
    }

    /// Kills the group and what has left it, also where the leader has ended by itself.
    ///
    /// A second time does nothing, since the number of the group may be another's by then.
    pub fn kill(&self) {
        let mut state = self.state.lock();
        if std::mem::replace(&mut state.is_killed, true) {
            return;
        }
        // Before their supervisor, without which they would be found no more.
        #[cfg(target_os = "linux")]
        descendants::kill_below(state.supervisor);
        #[cfg(unix)]
        kill_group(state.leader);
        // Others who want it killed wait until it is.
        if let Some(mark) = &self.mark {
            descendants::kill(mark);
        }
    }
}

#[cfg(unix)]
fn kill_group(leader: Option<u32>) {
    let pid = leader.and_then(|leader| i32::try_from(leader).ok()).and_then(rustix::process::Pid::from_raw);
    if let Some(pid) = pid
        && let Err(error) = rustix::process::kill_process_group(pid, rustix::process::Signal::KILL)
    {
        // A group that is gone is what was wanted.
        tracing::debug!(%error, "no process group to kill");
    }
}

/// Kills a group when it goes out of scope.
#[derive(Debug)]
pub(super) struct KillOnDrop<'a>(pub(super) &'a ProcessGroup);

impl Drop for KillOnDrop<'_> {
    fn drop(&mut self) {
        self.0.kill();
    }
}
