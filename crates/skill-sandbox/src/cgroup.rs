//! A cgroup for each program, of version 1 or 2.
//!
//! It is made below the cgroup of this process or below the next one above it where this user may: the first where the
//! kernel takes limits for memory and processes.

use crate::{Limits, RunError};
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const PREFIX: &str = "skillrl-sandbox-";
/// The processes of the sandbox besides those of the program: `bwrap`, the script, and what the script starts.
const OWN_PROCESSES: u32 = 4;
/// How long the last processes of a cgroup may take to go.
const REMOVAL: Duration = Duration::from_secs(2);

/// How long a sweep may take.
const SWEEP: Duration = Duration::from_millis(300);

/// Where cgroups for programs are made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    /// Version 1, with a hierarchy for each of the two.
    V1 {
        memory: PathBuf,
        pids: PathBuf,
    },
    V2(PathBuf),
}

/// The cgroup of one program; removed with all that is in it when it is dropped.
#[derive(Debug)]
pub(crate) struct Cgroup {
    memory: PathBuf,
    pids: PathBuf,
    is_v2: bool,
}

/// What the kernel has counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) n_oom_kills: u64,
    pub(crate) n_refused_forks: u64,
}

impl Place {
    /// Looks for a place where cgroups can be made; what was found wrong if there is none.
    pub(crate) fn find() -> Result<Self, String> {
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let candidates = candidates(&mounts, &own);
        let mut why = "no cgroup hierarchy has both controllers, memory and pids".to_owned();
        for place in candidates {
            place.sweep();
            match place.check() {
                Ok(()) => return Ok(place),
                Err(error) => why = error,
            }
        }
        Err(why)
    }

    fn directories(&self) -> Vec<&Path> {
        match self {
            Self::V1 { memory, pids } if memory == pids => vec![memory],
            Self::V1 { memory, pids } => vec![memory, pids],
            Self::V2(path) => vec![path],
        }
    }

    fn check(&self) -> Result<(), String> {
        // Where nothing is counted, a program that takes too much would only look killed.
        let counted = self.make(&Limits::default()).and_then(|cgroup| cgroup.counts());
        counted.map(drop).map_err(|error| match error {
            RunError::Cgroup { path, source } => format!("{}: {source}", path.display()),
            other => other.to_string(),
        })
    }

    /// Makes the cgroup of a program.
    pub(crate) fn make(&self, limits: &Limits) -> Result<Cgroup, RunError> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let name = format!("{PREFIX}{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let create = |directory: &Path| {
            let path = directory.join(&name);
            match fs::create_dir(&path) {
                Ok(()) => Ok(path),
                Err(source) => Err(RunError::Cgroup { path, source }),
            }
        };
        let (memory, pids, is_v2) = match self {
            Self::V1 { memory, pids } => (memory, pids, false),
            Self::V2(path) => (path, path, true),
        };
        // From here on what was made is removed, also where a later step fails.
        let own = create(memory)?;
        let mut cgroup = Cgroup { memory: own.clone(), pids: own, is_v2 };
        if memory != pids {
            cgroup.pids = create(pids)?;
        }
        if let Self::V2(path) = self
            && !cgroup.memory.join("memory.max").exists()
        {
            write(&path.join("cgroup.subtree_control"), "+memory +pids")?;
        }
        let memory = limits.memory.to_string();
        if cgroup.is_v2 {
            write(&cgroup.memory.join("memory.max"), &memory)?;
            // Kernels without swap accounting lack the file, and the older ones the other.
            drop(write(&cgroup.memory.join("memory.swap.max"), "0"));
            drop(write(&cgroup.memory.join("memory.oom.group"), "1"));
        } else {
            write(&cgroup.memory.join("memory.limit_in_bytes"), &memory)?;
            drop(write(&cgroup.memory.join("memory.memsw.limit_in_bytes"), &memory));
        }
        let processes = limits.processes.saturating_add(OWN_PROCESSES).to_string();
        write(&cgroup.pids.join("pids.max"), &processes)?;
        Ok(cgroup)
    }

    /// Removes cgroups of processes that are gone; what such a process ran dies with it, which takes a moment.
    fn sweep(&self) {
        let began = Instant::now();
        for directory in self.directories() {
            for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
                let name = entry.file_name();
                let owner = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.split('-').next());
                let Some(owner) = owner.and_then(|owner| owner.parse::<u32>().ok()) else { continue };
                if Path::new("/proc").join(owner.to_string()).exists() {
                    continue;
                }
                while fs::remove_dir(entry.path()).is_err() && began.elapsed() < SWEEP {
                    std::thread::sleep(Duration::from_millis(2));
                }
            }
        }
    }
}

impl Cgroup {
    /// The files to which a process writes `0` to join.
    pub(crate) fn entrances(&self) -> Vec<PathBuf> {
        let mut directories = vec![&self.memory];
        if self.pids != self.memory {
            directories.push(&self.pids);
        }
        directories.into_iter().map(|directory| directory.join("cgroup.procs")).collect()
    }

    /// What the kernel has counted so far.
    pub(crate) fn counts(&self) -> Result<Counts, RunError> {
        let events = if self.is_v2 { "memory.events" } else { "memory.oom_control" };
        Ok(Counts {
            n_oom_kills: field(&self.memory.join(events), "oom_kill")?,
            n_refused_forks: field(&self.pids.join("pids.events"), "max")?,
        })
    }

    /// Kills every process in it.
    pub(crate) fn kill(&self) {
        if self.is_v2 && fs::write(self.memory.join("cgroup.kill"), "1").is_ok() {
            return;
        }
        for pid in self.processes() {
            if let Some(pid) = rustix::process::Pid::from_raw(pid) {
                // One that is gone is what was wanted.
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            }
        }
    }

    fn processes(&self) -> BTreeSet<i32> {
        let texts = self.entrances().into_iter().filter_map(|path| fs::read_to_string(path).ok());
        texts.flat_map(|text| text.lines().filter_map(|line| line.parse().ok()).collect::<Vec<_>>()).collect()
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        let began = Instant::now();
        for path in BTreeSet::from([&self.memory, &self.pids]) {
            while fs::remove_dir(path).is_err() && path.exists() && began.elapsed() < REMOVAL {
                self.kill();
                std::thread::sleep(Duration::from_millis(2));
            }
        }
    }
}

fn write(path: &Path, text: &str) -> Result<(), RunError> {
    // A file of the kernel is never made: where it is missing, the controller is.
    let written = fs::OpenOptions::new()
        .write(true)
        .open(path)
        .and_then(|mut file| io::Write::write_all(&mut file, text.as_bytes()));
    written.map_err(|source| RunError::Cgroup { path: path.to_owned(), source })
}

/// The number after a name in a file of lines with names and numbers; 0 without such a line, as older kernels count less.
fn field(path: &Path, name: &str) -> Result<u64, RunError> {
    let failed = |source| RunError::Cgroup { path: path.to_owned(), source };
    let text = fs::read_to_string(path).map_err(failed)?;
    let number = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    let number = number.map(|number| number.trim().parse::<u64>()).transpose();
    number.map(|number| number.unwrap_or(0)).map_err(|error| failed(io::Error::other(error)))
}

/// Places by the mounts and cgroups of this process: its own cgroup, then those above it; version 2 first.
fn candidates(mounts: &str, own: &str) -> Vec<Place> {
    let v2 = levels(mounts, own, None);
    let memory = levels(mounts, own, Some("memory"));
    let pids = levels(mounts, own, Some("pids"));
    let mut places: Vec<Place> = v2.into_iter().map(Place::V2).collect();
    for memory in &memory {
        places.extend(pids.iter().map(|pids| Place::V1 { memory: memory.clone(), pids: pids.clone() }));
    }
    places
}

/// The directories of this process's cgroup and of those above it, in the hierarchy of a controller of version 1 or in
/// that of version 2.
fn levels(mounts: &str, own: &str, controller: Option<&str>) -> Vec<PathBuf> {
    let has = |list: &str, name: &str| list.split(',').any(|entry| entry == name);
    let mount = mounts.lines().find_map(|line| {
        let (place, kind) = line.split_once(" - ")?;
        let mut kind = kind.split(' ');
        let (name, options) = (kind.next()?, kind.nth(1).unwrap_or_default());
        let fits = match controller {
            None => name == "cgroup2",
            Some(controller) => name == "cgroup" && has(options, controller),
        };
        let mut place = place.split(' ').skip(3);
        let (root, point) = (place.next()?, place.next()?);
        fits.then(|| (root.to_owned(), PathBuf::from(point)))
    });
    let Some((root, point)) = mount else { return Vec::new() };
    let path = own.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (list, path) = (parts.next()?, parts.next()?);
        let fits = controller.map_or(list.is_empty(), |controller| has(list, controller));
        fits.then_some(path)
    });
    let Some(path) = path else { return Vec::new() };
    // In a container the mount begins at the container's own cgroup.
    let relative = path.strip_prefix(root.trim_end_matches('/')).unwrap_or(path).trim_start_matches('/');
    let own = if relative.is_empty() { point.clone() } else { point.join(relative) };
    own.ancestors().take_while(|path| path.starts_with(&point)).map(Path::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(mounts: &str, own: &str, expect: &[&str]) {
        let found = candidates(mounts, own).into_iter().map(|place| match place {
            Place::V2(path) => path.display().to_string(),
            Place::V1 { memory, pids } => format!("{} {}", memory.display(), pids.display()),
        });
        assert_eq!(found.collect::<Vec<_>>(), expect);
    }

    #[test]
    fn the_own_cgroup_and_those_above_it_are_tried() {
        let v2 = "30 24 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n";
        check(
            v2,
            "0::/user.slice/app.slice\n",
            &["/sys/fs/cgroup/user.slice/app.slice", "/sys/fs/cgroup/user.slice", "/sys/fs/cgroup"],
        );
        let v1 = "31 30 0:27 /docker/1 /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
                  32 30 0:28 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n";
        check(v1, "5:memory:/docker/1\n4:pids:/\n0::/\n", &["/sys/fs/cgroup/memory /sys/fs/cgroup/pids"]);
        check("24 1 0:2 / / rw - ext4 /dev/vda rw\n", "0::/\n", &[]);
    }

    /// A hierarchy of version 2 without controllers, as beside version 1: plain directories lack the kernel's files too.
    #[test]
    fn where_no_limit_can_be_set_nothing_is_left() {
        let directory = tempfile::tempdir().unwrap();
        let [memory, pids] = ["memory", "pids"].map(|name| directory.path().join(name));
        fs::create_dir(&memory).unwrap();
        let places = [Place::V2(memory.clone()), Place::V1 { memory: memory.clone(), pids: pids.clone() }];
        for place in places {
            assert!(matches!(place.make(&Limits::default()), Err(RunError::Cgroup { .. })));
            assert_eq!(fs::read_dir(&memory).unwrap().count(), 0, "{place:?}");
        }
    }

    /// The files are those of the kernel in a directory of ours.
    #[test]
    fn counts_are_read_in_both_versions() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("own");
        fs::create_dir(&path).unwrap();
        fs::write(path.join("memory.events"), "low 0\noom 3\noom_kill 2\noom_group_kill 1\n").unwrap();
        fs::write(path.join("memory.oom_control"), "oom_kill_disable 0\nunder_oom 0\noom_kill 5\n").unwrap();
        fs::write(path.join("pids.events"), "max 7\n").unwrap();
        let counts = |is_v2| {
            let cgroup = Cgroup { memory: path.clone(), pids: path.clone(), is_v2 };
            let counts = cgroup.counts();
            // It is no cgroup and is not to be removed.
            std::mem::forget(cgroup);
            counts.map(|counts| (counts.n_oom_kills, counts.n_refused_forks)).map_err(|error| match error {
                RunError::Cgroup { path, .. } => path,
                other => panic!("{other:?}"),
            })
        };
        assert_eq!((counts(true), counts(false)), (Ok((2, 7)), Ok((5, 7))));
        // Kernels before 4.13 do not count in the first version.
        fs::write(path.join("memory.oom_control"), "oom_kill_disable 0\nunder_oom 0\n").unwrap();
        assert_eq!(counts(false), Ok((0, 7)));
        fs::write(path.join("pids.events"), "max many\n").unwrap();
        assert_eq!(counts(true), Err(path.join("pids.events")));
        fs::remove_file(path.join("memory.events")).unwrap();
        assert_eq!(counts(true), Err(path.join("memory.events")));
    }
}
