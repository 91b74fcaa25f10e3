//! A process with everything that it has started, to be killed at once.

#[cfg(unix)]
use std::sync::PoisonError;

use std::sync::Mutex;
use tokio::process::Command;

/// The process group of a child that leads one.
///
/// On Windows it is empty, and the child alone is killed, by its handle.
#[derive(Debug)]
pub struct Group {
    #[cfg_attr(not(unix), expect(dead_code, reason = "there are no process groups"))]
    leader: Mutex<Option<u32>>,
}

impl Group {
    /// Makes the child of a command the leader of a group of its own.
    #[cfg_attr(not(unix), expect(unused_variables, reason = "there are no process groups"))]
    pub fn lead(command: &mut Command) {
        #[cfg(unix)]
        command.process_group(0);
    }

    /// The group of the child with this id.
    pub fn new(leader: Option<u32>) -> Self {
        Self { leader: Mutex::new(leader) }
    }

    /// Kills the group; a second time does nothing, since the number may be another's by then.
    #[cfg(unix)]
    pub fn kill(&self) {
        let leader = self.leader.lock().unwrap_or_else(PoisonError::into_inner).take();
        let pid =
            leader.and_then(|leader| i32::try_from(leader).ok()).and_then(rustix::process::Pid::from_raw);
        if let Some(pid) = pid
            && let Err(error) = rustix::process::kill_process_group(pid, rustix::process::Signal::KILL)
        {
            // A group that is gone is what was wanted.
            tracing::debug!(%error, "no process group to kill");
        }
    }

    /// There are no process groups here.
    #[cfg(not(unix))]
    pub fn kill(&self) {}
}

/// Kills a group when it goes out of scope.
#[derive(Debug)]
pub struct KillOnDrop<'a>(pub &'a Group);

impl Drop for KillOnDrop<'_> {
    fn drop(&mut self) {
        self.0.kill();
    }
}
