//! The processes of a sandbox as `/proc` shows them, where no cgroup counts them.

use crate::Limits;
use crate::verdict::Seen;
use std::fs;
use std::path::Path;

/// The processes of the sandbox that are not of the program: `bwrap` and the script.
const OWN_PROCESSES: usize = 2;
/// More are not looked at: there are too many by then.
const MAX_LOOKED_AT: usize = 4096;

/// The limit that the processes below this one are over, if any.
pub(crate) fn over(bwrap: u32, limits: &Limits) -> Option<Seen> {
    let family = family(bwrap);
    let n_threads: usize = family.iter().map(|pid| threads(*pid).len()).sum();
    let n_allowed = usize::try_from(limits.processes).unwrap_or(usize::MAX).saturating_add(OWN_PROCESSES);
    if n_threads > n_allowed {
        return Some(Seen::Processes);
    }
    let memory: u64 = family.iter().map(|pid| resident(*pid)).sum();
    // Pages that processes share count in each; what they really take together costs more to find out.
    (memory > limits.memory && family.iter().map(|pid| share(*pid)).sum::<u64>() > limits.memory)
        .then_some(Seen::Memory)
}

/// A process and all below it.
fn family(first: u32) -> Vec<u32> {
    let mut found = vec![first];
    let mut at = 0;
    while let Some(pid) = found.get(at).copied() {
        for thread in threads(pid) {
            let children = fs::read_to_string(format!("/proc/{pid}/task/{thread}/children"));
            let children = children.unwrap_or_default();
            found.extend(children.split_ascii_whitespace().filter_map(|pid| pid.parse::<u32>().ok()));
        }
        at += 1;
        if found.len() > MAX_LOOKED_AT {
            break;
        }
    }
    found
}

fn threads(pid: u32) -> Vec<u32> {
    let entries = fs::read_dir(Path::new("/proc").join(pid.to_string()).join("task"));
    let names = entries.into_iter().flatten().flatten().map(|entry| entry.file_name());
    names.filter_map(|name| name.to_str()?.parse().ok()).collect()
}

/// The resident bytes of a process, with those that it shares.
fn resident(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    kilobytes(&status, "VmRSS:")
}

/// The resident bytes of a process, of shared ones its part; all of them where that is not known.
fn share(pid: u32) -> u64 {
    match fs::read_to_string(format!("/proc/{pid}/smaps_rollup")) {
        Ok(text) => kilobytes(&text, "Pss:"),
        Err(_) => resident(pid),
    }
}

fn kilobytes(text: &str, name: &str) -> u64 {
    let number = text
        .lines()
        .find_map(|line| line.strip_prefix(name)?.split_ascii_whitespace().next()?.parse::<u64>().ok());
    number.unwrap_or_default().saturating_mul(1024)
}
