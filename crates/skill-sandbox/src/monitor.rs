//! The processes of a sandbox as `/proc` shows them, where no cgroup counts them.

use crate::Limits;
use crate::bubblewrap::{TEMPORARY, WORK};
use crate::verdict::Seen;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::linux::fs::MetadataExt as _;
use std::path::Path;

/// The processes of the sandbox that are not of the program: `bwrap` and the script.
const OWN_PROCESSES: usize = 2;
/// More are not looked at: there are too many by then.
const MAX_LOOKED_AT: usize = 4096;
/// The largest buffer of a socket, in bytes.
const SOCKET: u64 = 416 << 10;
/// The buffer of a pipe, in bytes; the kernel limits larger ones for all pipes of a user together.
const PIPE: u64 = 64 << 10;
/// Kernel memory of a file besides its content, in bytes.
const INODE: u64 = 1 << 10;
/// Names in `/proc/PID/maps` of shared memory that is in no file system.
const SHARED: [&str; 3] = ["/dev/zero (deleted)", "/memfd:", "/SYSV"];

/// The limit that the processes below this one are over, if any.
pub(crate) fn over(bwrap: u32, limits: &Limits) -> Option<Seen> {
    let family = family(bwrap);
    let n_threads: usize = family.iter().map(|pid| threads(*pid).len()).sum();
    let n_allowed = usize::try_from(limits.processes).unwrap_or(usize::MAX).saturating_add(OWN_PROCESSES);
    if n_threads > n_allowed {
        return Some(Seen::Processes);
    }
    let outside = outside(&family);
    let memory = |of: fn(u32) -> u64| family.iter().map(|pid| of(*pid)).sum::<u64>() + outside;
    // Pages that processes share count in each; what they really take together costs more to find out.
    (memory(resident) > limits.memory && memory(share) > limits.memory).then_some(Seen::Memory)
}

/// An upper bound of the memory that these processes hold outside of their own pages, in bytes: shared memory objects up
/// to the farthest mapped page, buffers of sockets and pipes, and inodes of empty files.
fn outside(family: &[u32]) -> u64 {
    let mut mapped: BTreeMap<String, u64> = BTreeMap::new();
    let mut open: BTreeSet<String> = BTreeSet::new();
    for pid in family {
        for (object, size) in
            shared_mappings(&fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default())
        {
            let largest = mapped.entry(object).or_default();
            *largest = size.max(*largest);
        }
        for thread in threads(*pid) {
            let files = fs::read_dir(format!("/proc/{pid}/task/{thread}/fd"));
            let targets =
                files.into_iter().flatten().flatten().filter_map(|file| fs::read_link(file.path()).ok());
            open.extend(targets.map(|target| target.to_string_lossy().into_owned()));
        }
    }
    let held = |name: &String| match name.split(':').next() {
        Some("socket") => SOCKET,
        Some("pipe") => PIPE,
        _ => 0,
    };
    let files = family.last().map_or(0, |pid| n_files(*pid)).saturating_mul(INODE);
    mapped.values().sum::<u64>() + open.iter().map(held).sum::<u64>() + files
}

/// Shared memory objects in `/proc/PID/maps`, each with the end of its farthest mapping, in bytes.
fn shared_mappings(maps: &str) -> Vec<(String, u64)> {
    let read = |line: &str| {
        let mut words = line.splitn(6, ' ');
        let (range, _, offset, device, inode) =
            (words.next()?, words.next()?, words.next()?, words.next()?, words.next()?);
        let name = words.next()?.trim_start();
        if !SHARED.iter().any(|shared| name.starts_with(shared)) {
            return None;
        }
        let number = |text: &str| u64::from_str_radix(text, 16).ok();
        let (from, to) = range.split_once('-')?;
        let size = number(to)?.checked_sub(number(from)?)?;
        Some((format!("{device} {inode}"), number(offset)?.checked_add(size)?))
    };
    maps.lines().filter_map(read).collect()
}

/// The number of files in the writable directories of the sandbox; 0 before the process has left the root of this machine.
fn n_files(pid: u32) -> u64 {
    let root = |path: &str| fs::metadata(path).map(|found| (found.st_dev(), found.st_ino())).ok();
    let inside = root(&format!("/proc/{pid}/root/"));
    if inside.is_none() || inside == root("/") {
        return 0;
    }
    let used = |place: &str| {
        let found = rustix::fs::statvfs(format!("/proc/{pid}/root{place}"));
        found.map_or(0, |found| found.f_files.saturating_sub(found.f_ffree))
    };
    [TEMPORARY, WORK, "/dev/shm"].into_iter().map(used).sum()
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

/// The resident bytes of a process, with those that it shares with others. Shared memory is not among them:
/// [`outside`] counts it.
fn resident(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    kilobytes(&status, "RssAnon:") + kilobytes(&status, "RssFile:")
}

/// The resident bytes of a process, of those that it shares its part; all of them where that is not known.
fn share(pid: u32) -> u64 {
    match fs::read_to_string(format!("/proc/{pid}/smaps_rollup")) {
        Ok(text) => kilobytes(&text, "Pss_Anon:") + kilobytes(&text, "Pss_File:"),
        Err(_) => resident(pid),
    }
}

fn kilobytes(text: &str, name: &str) -> u64 {
    let number = text
        .lines()
        .find_map(|line| line.strip_prefix(name)?.split_ascii_whitespace().next()?.parse::<u64>().ok());
    number.unwrap_or_default().saturating_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::shared_mappings;

    #[test]
    fn shared_memory_counts_once_for_each_object_up_to_its_farthest_page() {
        let maps = "\
            7f0000000000-7f0000001000 r--p 00000000 fe:00 123 /usr/lib/libc.so.6\n\
            7f0000001000-7f0000003000 rw-s 00001000 00:01 9 /dev/zero (deleted)\n\
            7f0000003000-7f0000004000 rw-s 00000000 00:01 10 /memfd:name with blanks (deleted)\n\
            7f0000004000-7f0000005000 rw-p 00000000 00:00 0 \n\
            7f0000005000-7f0000006000 rw-s 00000000 00:01 11 /SYSV00000000 (deleted)\n";
        let expect = [("00:01 9", 0x3000), ("00:01 10", 0x1000), ("00:01 11", 0x1000)];
        assert_eq!(shared_mappings(maps), expect.map(|(object, size)| (object.to_owned(), size)));
    }
}
