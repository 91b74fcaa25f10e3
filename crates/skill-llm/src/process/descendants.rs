//! All that a program has started, also what has left its process group: it is found by a mark in its environment.
//!
//! A process inherits the environment of the one that started it, so the mark says where it comes from, whatever has
//! become of its parents; a process id says nothing, since the system gives it away again. Only Linux shows the
//! environments of processes; elsewhere nothing is found.

use super::session::MARK_VARIABLE;

/// The mark of one program, or of all programs of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mark {
    /// What the variable holds, or begins with.
    value: String,
    scope: Scope,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scope {
    Program,
    Session,
}

impl Mark {
    pub(super) fn of_program(token: &str, number: u64) -> Self {
        Self { value: format!("{token}.{number}"), scope: Scope::Program }
    }

    pub(super) fn of_session(token: &str) -> Self {
        Self { value: format!("{token}."), scope: Scope::Session }
    }

    /// What the variable holds.
    pub(super) fn value(&self) -> &str {
        &self.value
    }

    /// Whether an environment, as the system shows it, has this mark.
    #[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "no environments are seen"))]
    fn is_in(&self, environment: &[u8]) -> bool {
        environment
            .split(|byte| *byte == 0)
            .filter_map(|pair| pair.strip_prefix(MARK_VARIABLE.as_bytes())?.strip_prefix(b"="))
            .any(|value| match self.scope {
                Scope::Program => value == self.value.as_bytes(),
                Scope::Session => value.starts_with(self.value.as_bytes()),
            })
    }
}

/// Kills the processes with a mark and their children; returns how many there were.
#[cfg(target_os = "linux")]
pub(super) fn kill(mark: &Mark) -> usize {
    linux::kill(mark)
}

/// Kills all that descends from a process, and not the process; returns how many there were.
#[cfg(target_os = "linux")]
pub(super) fn kill_below(process: Option<Process>) -> usize {
    process.map_or(0, linux::kill_below)
}

/// The process with a number; `None` if it has ended.
#[cfg(target_os = "linux")]
pub(super) fn process(pid: u32) -> Option<Process> {
    linux::process(i32::try_from(pid).ok()?)
}

/// This process.
#[cfg(target_os = "linux")]
pub(super) fn this_process() -> Option<Process> {
    process(std::process::id())
}

/// A process, told from a later one with the same number by when it began.
#[cfg(target_os = "linux")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Process {
    pid: i32,
    began: u64,
}

/// No environments are seen here.
#[cfg(not(target_os = "linux"))]
pub(super) fn kill(_mark: &Mark) -> usize {
    0
}

#[cfg(target_os = "linux")]
mod linux {
    use super::{Mark, Process};
    use rustix::io::Errno;
    use rustix::process::{PidfdFlags, Signal, kill_process, pidfd_open, pidfd_send_signal};
    use std::collections::{BTreeMap, BTreeSet};
    use std::fs;
    use std::thread;
    use std::time::Duration;

    /// How often is looked again for what was started while the rest was being killed.
    const MAX_ROUNDS: usize = 16;

    /// The parent of the kernel's own threads, which never have an environment.
    const KERNEL_THREADS: i32 = 2;

    /// How long is waited for a process to be loaded.
    const LOADING_PAUSE: Duration = Duration::from_millis(1);

    /// What the system says of a process.
    struct Stat {
        parent: i32,
        began: u64,
        is_over: bool,
    }

    pub(super) fn kill(mark: &Mark) -> usize {
        let mut killed = BTreeSet::new();
        for _ in 0..MAX_ROUNDS {
            let Marked { found, is_one_loading } = marked(mark);
            let new: Vec<Process> =
                with_descendants(found).into_iter().filter(|process| !killed.contains(process)).collect();
            if new.is_empty() {
                if !is_one_loading {
                    break;
                }
                thread::sleep(LOADING_PAUSE);
            }
            for process in new {
                kill_one(process);
                killed.insert(process);
            }
        }
        killed.len()
    }

    /// A supervisor is the parent of all that its program leaves behind, so each round finds what the last one freed.
    pub(super) fn kill_below(root: Process) -> usize {
        let mut killed = BTreeSet::new();
        for _ in 0..MAX_ROUNDS {
            if process(root.pid) != Some(root) {
                break;
            }
            let below = with_descendants(BTreeSet::from([root]));
            let new: Vec<Process> =
                below.into_iter().filter(|process| *process != root && !killed.contains(process)).collect();
            if new.is_empty() {
                break;
            }
            for process in new {
                kill_one(process);
                killed.insert(process);
            }
        }
        killed.len()
    }

    pub(super) fn process(pid: i32) -> Option<Process> {
        stat(pid).filter(|stat| !stat.is_over).map(|stat| Process { pid, began: stat.began })
    }

    fn pids() -> impl Iterator<Item = i32> {
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
    }

    /// What was seen of the processes with a mark.
    struct Marked {
        found: BTreeSet<Process>,
        /// Whether a process that began after this one had no environment. While the system loads a program it has none,
        /// and anyone who started it may have ended already, so it would be missed.
        is_one_loading: bool,
    }

    /// The processes with this mark that have not ended; one that has ended shows no environment.
    fn marked(mark: &Mark) -> Marked {
        let own = std::process::id();
        let own_began = i32::try_from(own).ok().and_then(stat).map_or(u64::MAX, |stat| stat.began);
        let mut marked = Marked { found: BTreeSet::new(), is_one_loading: false };
        for pid in pids().filter(|pid| u32::try_from(*pid) != Ok(own)) {
            let environment = || fs::read(format!("/proc/{pid}/environ")).ok();
            // The mark is read first: a number that is given away in between belongs to one that began later, and whose
            // mark is read again before it is killed.
            let Some(first) = environment() else { continue };
            if !first.is_empty() && !mark.is_in(&first) {
                continue;
            }
            let Some(Stat { parent, began, is_over: false }) = stat(pid) else { continue };
            let has_mark = environment().is_some_and(|environment| mark.is_in(&environment));
            if has_mark && stat(pid).is_some_and(|stat| stat.began == began) {
                marked.found.insert(Process { pid, began });
            } else {
                let is_of_the_kernel = parent == KERNEL_THREADS;
                marked.is_one_loading |= first.is_empty() && began >= own_began && !is_of_the_kernel;
            }
        }
        marked
    }

    /// These processes and their children, whatever these have in their environment.
    fn with_descendants(mut found: BTreeSet<Process>) -> BTreeSet<Process> {
        if found.is_empty() {
            return found;
        }
        let mut children: BTreeMap<i32, Vec<Process>> = BTreeMap::new();
        for pid in pids() {
            if let Some(Stat { parent, began, is_over: false }) = stat(pid) {
                children.entry(parent).or_default().push(Process { pid, began });
            }
        }
        let mut open: Vec<Process> = found.iter().copied().collect();
        while let Some(parent) = open.pop() {
            for child in children.remove(&parent.pid).unwrap_or_default() {
                // A child starts after its parent.
                if child.began >= parent.began && found.insert(child) {
                    open.push(child);
                }
            }
        }
        found
    }

    fn stat(pid: i32) -> Option<Stat> {
        let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name of the program may hold anything, and ends with the last bracket.
        let mut fields = text.rsplit_once(')')?.1.split_ascii_whitespace();
        let state = fields.next()?;
        let parent = fields.next()?.parse().ok()?;
        // The 22nd field; the parent is the fourth.
        let began = fields.nth(17)?.parse().ok()?;
        Some(Stat { parent, began, is_over: matches!(state, "Z" | "X") })
    }

    /// Kills the process, and none that has its number by now.
    fn kill_one(process: Process) {
        let Some(pid) = rustix::process::Pid::from_raw(process.pid) else { return };
        let is_same = || stat(process.pid).is_some_and(|stat| stat.began == process.began);
        let killed = match pidfd_open(pid, PidfdFlags::empty()) {
            // The handle holds on to the process that has the number now; then that is the one that was found.
            Ok(handle) if is_same() => pidfd_send_signal(handle, Signal::KILL),
            Err(Errno::NOSYS | Errno::PERM) if is_same() => kill_process(pid, Signal::KILL),
            Ok(_) | Err(_) => return,
        };
        if let Err(error) = killed {
            tracing::debug!(%error, pid = process.pid, "a process cannot be killed");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_that_of_its_program_or_session_and_no_other() {
        let environment = |value: &str| format!("PATH=/bin\0{MARK_VARIABLE}={value}\0LANG=C\0").into_bytes();
        let (program, session) = (Mark::of_program("ab12", 1), Mark::of_session("ab12"));
        for (value, of_program, of_session) in [
            ("ab12.1", true, true),
            ("ab12.10", false, true),
            ("ab12", false, false),
            ("cd34.1", false, false),
        ] {
            assert_eq!(program.is_in(&environment(value)), of_program, "{value}");
            assert_eq!(session.is_in(&environment(value)), of_session, "{value}");
        }
        assert!(!program.is_in(b"OTHER=SKILLRL_PROCESS=ab12.1\0NOT_SKILLRL_PROCESS=ab12.1\0"));
        assert!(!program.is_in(b""));
    }
}
