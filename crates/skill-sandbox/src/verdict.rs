//! From what was seen of a program to its verdict.

use crate::{Limits, Termination};
use std::time::Duration;

/// Signals that the kernel sends for resource limits, and the one that cannot be caught; the same numbers on Linux for
/// all processors that it is built for here.
const SIGKILL: i32 = 9;
const SIGXCPU: i32 = 24;
const SIGXFSZ: i32 = 25;
/// What a shell adds to the number of the signal that ended a program.
const SIGNALLED: i32 = 128;
/// The signals of Linux are below this number.
const MAX_SIGNAL: i32 = 65;

/// What a limit was seen to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Seen {
    Memory,
    Processes,
    Output,
    Clock,
}

/// How the script says that the program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Report {
    pub(crate) code: i32,
    pub(crate) is_disk_full: bool,
    /// The limit that acted by the counts of a container's cgroup.
    pub(crate) seen: Option<Seen>,
    /// The time of the processor that the program took; none where the script does not know.
    pub(crate) cpu: Option<Duration>,
}

/// The last words of programs that were refused something, in the words of C, Python and the shell.
const MEMORY_WORDS: [&str; 5] =
    ["MemoryError", "Cannot allocate memory", "std::bad_alloc", "out of memory", "memory allocation of"];
const PROCESS_WORDS: [&str; 2] = ["Resource temporarily unavailable", "BlockingIOError"];
/// The same where it can be nothing else.
const FORK_WORDS: [&str; 5] = [
    "can't start new thread",
    "Cannot fork",
    "fork failed",
    "fork: Resource temporarily unavailable",
    "fork: retry",
];
const DISK_WORDS: [&str; 4] =
    ["No space left on device", "File too large", "Disk quota exceeded", "File size limit exceeded"];

/// The verdict: limits that were seen to act first, then signals, then what the program says of its own failure.
pub(crate) fn verdict(
    seen: Option<Seen>,
    report: Option<Report>,
    said: &str,
    wall: Duration,
    limits: &Limits,
) -> Termination {
    let says = |words: &[&str]| words.iter().any(|word| said.contains(word));
    match seen {
        // It went on forking without success, faster than the monitor looks.
        Some(Seen::Clock) if says(&FORK_WORDS) => return Termination::TooManyProcesses,
        Some(Seen::Memory) => return Termination::OutOfMemory,
        Some(Seen::Processes) => return Termination::TooManyProcesses,
        Some(Seen::Output) => return Termination::DiskFull,
        Some(Seen::Clock) => return Termination::TimedOut,
        None => {}
    }
    // The script did not come to its end: whoever ended it ended all.
    let Some(Report { code, is_disk_full, cpu, .. }) = report else {
        return Termination::Killed { signal: SIGKILL };
    };
    if code == 0 {
        return Termination::Exited { code };
    }
    let signal = (code > SIGNALLED && code < SIGNALLED + MAX_SIGNAL).then_some(code - SIGNALLED);
    match signal {
        Some(SIGXCPU) => return Termination::TimedOut,
        // The kernel's answer to a program that goes on after the other signal.
        Some(SIGKILL) if cpu.unwrap_or(wall) >= limits.cpu => return Termination::TimedOut,
        Some(SIGXFSZ) => return Termination::DiskFull,
        Some(_) | None => {}
    }
    if says(&MEMORY_WORDS) {
        Termination::OutOfMemory
    } else if says(&PROCESS_WORDS) || says(&FORK_WORDS) {
        Termination::TooManyProcesses
    } else if says(&DISK_WORDS) || is_disk_full {
        Termination::DiskFull
    } else if let Some(signal) = signal {
        Termination::Killed { signal }
    } else {
        Termination::Exited { code }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(seen: Option<Seen>, code: Option<i32>, said: &str, expect: Termination) {
        let limits = Limits::default();
        let report = code.map(|code| Report { code, is_disk_full: false, seen: None, cpu: None });
        assert_eq!(verdict(seen, report, said, Duration::from_secs(1), &limits), expect);
    }

    #[test]
    fn what_was_seen_comes_before_what_was_said() {
        check(None, Some(0), "MemoryError", Termination::Exited { code: 0 });
        check(None, Some(1), "", Termination::Exited { code: 1 });
        check(None, Some(1), "MemoryError", Termination::OutOfMemory);
        check(Some(Seen::Clock), Some(1), "MemoryError", Termination::TimedOut);
        check(Some(Seen::Clock), None, "sh: 1: Cannot fork", Termination::TooManyProcesses);
        check(Some(Seen::Memory), None, "", Termination::OutOfMemory);
        check(Some(Seen::Processes), None, "", Termination::TooManyProcesses);
        check(Some(Seen::Output), None, "", Termination::DiskFull);
        check(None, None, "", Termination::Killed { signal: 9 });
        check(None, Some(139), "", Termination::Killed { signal: 11 });
        check(None, Some(137), "", Termination::Killed { signal: 9 });
        check(None, Some(152), "", Termination::TimedOut);
        check(None, Some(153), "", Termination::DiskFull);
        check(None, Some(255), "", Termination::Exited { code: 255 });
        check(None, Some(2), "sh: 1: Cannot fork", Termination::TooManyProcesses);
        check(None, Some(1), "OSError: [Errno 28] No space left on device", Termination::DiskFull);
    }

    #[test]
    fn a_program_that_ignores_the_limit_of_its_time_has_timed_out_too() {
        let limits = Limits { cpu: Duration::from_secs(2), ..Limits::default() };
        let after = |wall, cpu: Option<u64>| {
            let cpu = cpu.map(Duration::from_secs);
            let report = Some(Report { code: 137, is_disk_full: false, seen: None, cpu });
            verdict(None, report, "", Duration::from_secs(wall), &limits)
        };
        let killed = Termination::Killed { signal: 9 };
        assert_eq!((after(3, None), after(1, None)), (Termination::TimedOut, killed));
        // One that slept and killed itself, and one with two threads.
        assert_eq!((after(100, Some(0)), after(1, Some(2))), (killed, Termination::TimedOut));
    }
}
