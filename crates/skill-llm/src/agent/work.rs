//! What an agent did in a call: skills that it loaded, tools that it called, files that it changed.

use super::prompt::Written;
use crate::agent_work::{AgentFile, AgentProject, AgentToolCall, AgentWork};
use skill_agents::home::SessionFile;
use skill_agents::{Agent, How, Loads, ReadOptions, read_case};
use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

/// The most bytes of one changed file, and of all of a call.
const MAX_FILE_BYTES: u64 = 4 << 20;
const MAX_BYTES: u64 = 12 << 20;
/// The most changed files of a call.
const MAX_FILES: usize = 1_000;
/// Folders in folders, at most.
const MAX_DEPTH: usize = 16;
/// Directories of a project that are neither given to an agent nor read as its work: repositories, caches, dependencies.
pub const LEFT_OUT: [&str; 3] = [".git", "__pycache__", "node_modules"];

/// What the records of a program show.
pub(super) fn of_records(
    agent: Option<&Agent>,
    skill: Option<&String>,
    stdout: &str,
    files: &[SessionFile],
    elapsed: Duration,
) -> AgentWork {
    let mut work = AgentWork {
        skill: skill.cloned(),
        milliseconds: u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX),
        ..AgentWork::default()
    };
    let Some(agent) = agent else { return work };
    let options = ReadOptions { skills: skill.cloned().into_iter().collect(), ..ReadOptions::default() };
    let Loads { version, model, loads, loads_that_failed, tools, replies, usage, .. } =
        read_case(agent, &[stdout.to_owned()], files, &options);
    let names = |loads: Vec<skill_agents::Load>| {
        let mut seen = BTreeSet::new();
        let by_model = loads.into_iter().filter(|load| load.how != How::Person);
        by_model.map(|load| load.skill).filter(|name| seen.insert(name.clone())).collect::<Vec<_>>()
    };
    (work.loaded, work.attempted) = (names(loads), names(loads_that_failed));
    let call = |call: skill_agents::ToolCall| AgentToolCall { name: call.name, arguments: call.arguments };
    work.tools = tools.into_iter().map(call).collect();
    (work.version, work.model, work.replies) = (version, model, replies);
    work.cost = usage.and_then(|usage| usage.cost);
    work
}

/// Adds what became of the files of a project; `scrub` takes secrets out of texts. What cannot be read is not kept.
pub(super) fn add_changes(
    work: &mut AgentWork,
    before: &AgentProject,
    written: &Written,
    agent: Option<&Agent>,
    scrub: &dyn Fn(&str) -> String,
) {
    let own = own_folders(agent);
    let mut scan = Scan { before, own: &own, scrub, work, seen: BTreeSet::new(), n_bytes: 0 };
    scan.folder(&written.directory, "", 0);
    let Scan { seen, work, .. } = scan;
    // Of a folder that cannot be looked into nothing is known.
    let is_unknown = |path: &str| {
        let folders = path.match_indices('/').filter_map(|(at, _)| path.get(..at));
        folders.chain([""]).any(|folder| work.not_kept.contains(folder))
    };
    let removed = before.files.keys().filter(|path| !seen.contains(*path) && !is_unknown(path));
    work.removed = removed.cloned().collect();
}

/// Folders of a project that the program itself uses, by the first parts of their paths.
fn own_folders(agent: Option<&Agent>) -> Vec<String> {
    let first = |path: &str| path.split('/').next().unwrap_or_default().to_owned();
    let mut own: Vec<String> = LEFT_OUT.iter().map(|name| (*name).to_owned()).collect();
    own.push(first(agent.map_or(super::prompt::SKILLS_OF_OTHERS, |agent| agent.project_skills.as_str())));
    own.extend(agent.and_then(|agent| agent.start.settings_file.as_deref()).map(first));
    own
}

struct Scan<'a> {
    before: &'a AgentProject,
    own: &'a [String],
    scrub: &'a dyn Fn(&str) -> String,
    work: &'a mut AgentWork,
    seen: BTreeSet<String>,
    n_bytes: u64,
}

impl Scan<'_> {
    fn folder(&mut self, at: &Path, prefix: &str, depth: usize) {
        let entries = if depth > MAX_DEPTH { None } else { std::fs::read_dir(at).ok() };
        let Some(entries) = entries else {
            self.work.not_kept.insert(prefix.trim_end_matches('/').to_owned());
            return;
        };
        for entry in entries.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = format!("{prefix}{name}");
            // What the project itself has is looked at, whatever its name.
            let is_own = self.own.contains(&name) && (depth == 0 || LEFT_OUT.contains(&name.as_str()));
            // A file that is gone since it was listed is one that was removed.
            let Ok(kind) = entry.file_type() else { continue };
            if kind.is_dir() {
                if !is_own || self.has_below(&path) {
                    self.folder(&entry.path(), &format!("{path}/"), depth + 1);
                }
                continue;
            }
            let known = self.before.files.get(&path);
            if is_own || (known.is_none() && self.is_in_own(&path)) {
                continue;
            }
            self.seen.insert(path.clone());
            let size = entry.metadata().map_or(u64::MAX, |metadata| metadata.len());
            let is_known_size = |known: &&AgentFile| u64::try_from(known.bytes.len()) == Ok(size);
            // However large a file is that the project had, it is read to see that it is unchanged.
            let known = known.filter(|known| kind.is_file() && is_known_size(known));
            let n_kept = self.work.changed.len() + self.work.not_kept.len();
            let fits = kind.is_file() && size <= MAX_FILE_BYTES && n_kept < MAX_FILES;
            let bytes = if fits || known.is_some() { std::fs::read(entry.path()).ok() } else { None };
            if let (Some(known), Some(bytes)) = (known, &bytes)
                && *known.bytes == **bytes
            {
                continue;
            }
            let Some(bytes) = bytes.filter(|_| fits) else {
                self.work.not_kept.insert(path);
                continue;
            };
            self.n_bytes = self.n_bytes.saturating_add(size);
            if self.n_bytes > MAX_BYTES {
                self.work.not_kept.insert(path);
                continue;
            }
            match std::str::from_utf8(&bytes) {
                Ok(text) => self.work.keep(path, (self.scrub)(text).as_bytes()),
                Err(_) => self.work.keep(path, &bytes),
            }
        }
    }

    fn has_below(&self, path: &str) -> bool {
        let folder = format!("{path}/");
        self.before.files.keys().any(|known| known.starts_with(&folder))
    }

    /// A new file in a folder of the program's own.
    fn is_in_own(&self, path: &str) -> bool {
        let first = path.split('/').next().unwrap_or_default();
        path.contains('/') && self.own.iter().any(|own| own == first)
    }
}
