//! What a run left: the reply, the calls of tools, and the project before and after.

use skill_llm::{AgentProject, AgentWork, ChatReply};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Arc;

/// Characters of a file or an argument that a grader is shown.
const MAX_SHOWN_CHARS: usize = 6_000;
const MAX_ARGUMENT_CHARS: usize = 400;
/// Files and calls that a grader is shown.
const MAX_SHOWN: usize = 40;

/// A run that is over.
#[derive(Debug, Clone)]
pub(super) struct Done {
    pub(super) reply: String,
    pub(super) work: AgentWork,
    pub(super) tokens: u64,
    pub(super) before: Arc<AgentProject>,
    pub(super) after: BTreeMap<String, Arc<[u8]>>,
}

impl Done {
    /// What a reply leaves; `None` for a reply of a model that is not a coding agent.
    pub(super) fn of(reply: &ChatReply, before: &Arc<AgentProject>) -> Option<Self> {
        let work = reply.agent_work()?;
        let after = work.after(before);
        let tokens = reply.usage.tokens();
        Some(Self { reply: reply.text.clone(), work, tokens, before: Arc::clone(before), after })
    }

    /// The text of a file, where it is one.
    pub(super) fn text(&self, path: &str) -> Option<String> {
        self.after.get(path).map(|bytes| String::from_utf8_lossy(bytes).into_owned())
    }

    /// Paths of files that are new, other or gone.
    pub(super) fn touched(&self) -> BTreeSet<&str> {
        let changed = self.work.changed.keys().chain(&self.work.not_kept);
        changed.chain(&self.work.removed).map(String::as_str).collect()
    }

    /// Paths of files that were not there before, one in each line.
    pub(super) fn new_files(&self) -> String {
        let is_new = |path: &&str| !self.before.files.contains_key(*path) && self.after.contains_key(*path);
        self.touched().into_iter().filter(is_new).collect::<Vec<_>>().join("\n")
    }

    /// Lines that were added or removed, counted as a line-by-line difference counts them.
    pub(super) fn changed_lines(&self) -> usize {
        let text = |bytes: Option<&Arc<[u8]>>| {
            bytes.map(|bytes| String::from_utf8_lossy(bytes).into_owned()).unwrap_or_default()
        };
        let lines = |path: &&str| {
            let before = text(self.before.files.get(*path).map(|file| &file.bytes));
            let after = text(self.after.get(*path));
            let mut counts: BTreeMap<&str, i64> = BTreeMap::new();
            before.lines().for_each(|line| *counts.entry(line).or_default() -= 1);
            after.lines().for_each(|line| *counts.entry(line).or_default() += 1);
            counts.values().map(|n| usize::try_from(n.unsigned_abs()).unwrap_or(usize::MAX)).sum::<usize>()
        };
        self.touched().iter().map(lines).sum()
    }

    /// The run for a check: calls of tools with their arguments as JSON, changed files, the last reply; nothing is cut.
    pub(super) fn trace(&self) -> String {
        let calls = self.work.tools.iter().map(|call| format!("{} {}", call.name, call.arguments));
        let files = self.work.changed.keys().flat_map(|path| [Some(path.clone()), self.text(path)]);
        let removed = self.work.removed.iter().cloned();
        let parts = calls.chain(files.flatten()).chain(removed).chain([self.reply.clone()]);
        parts.collect::<Vec<_>>().join("\n")
    }

    /// The run for a grader: calls of tools, changed files, the last reply.
    pub(super) fn transcript(&self) -> String {
        let cut = |text: &str, most: usize| {
            let shown: String = text.chars().take(most).collect();
            if shown.len() < text.len() { format!("{shown} [..]") } else { shown }
        };
        let mut text = String::from("Tool calls:\n");
        for call in self.work.tools.iter().take(MAX_SHOWN) {
            let arguments = cut(&call.arguments.to_string(), MAX_ARGUMENT_CHARS);
            let _ = writeln!(text, "- {} {arguments}", call.name);
        }
        let n_more = self.work.tools.len().saturating_sub(MAX_SHOWN);
        if n_more > 0 {
            let _ = writeln!(text, "- and {n_more} more");
        }
        for path in self.work.changed.keys().take(MAX_SHOWN) {
            let content = self.after.get(path).map(|bytes| match std::str::from_utf8(bytes) {
                Ok(content) => cut(content, MAX_SHOWN_CHARS),
                Err(_) => format!("[{} bytes that are no text]", bytes.len()),
            });
            let _ = write!(text, "\nFile {path} after the run:\n{}\n", content.unwrap_or_default());
        }
        for path in self.work.removed.iter().take(MAX_SHOWN) {
            let _ = write!(text, "\nFile {path} was removed.\n");
        }
        let _ = write!(text, "\nLast reply:\n{}\n", cut(&self.reply, MAX_SHOWN_CHARS));
        text
    }
}
