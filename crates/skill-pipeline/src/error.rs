//! Why a run stopped before its end.

mod change;
mod refusal;
mod settings;

pub use change::{SettingChange, describe_changes};
pub use refusal::NoteRefusal;
pub use settings::SettingsError;

use crate::records::sft::SftCounts;
use skill_bank::{BankError, DistillError};
use skill_core::{ItemId, SkillHash, StepIdx};
use skill_envs::{EnvError, Split};
use skill_llm::error::{Shortfall, after_failure, more};
use skill_llm::{ErrorClass, JournalError, LlmError, PromptError};
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::PathBuf;

/// A run that cannot start or go on; what was written before it stays and the run can be resumed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PipelineError {
    /// A rollout could not be made.
    #[error("stopped at {place}")]
    Rollout {
        /// Where in the run; the item is its last part.
        place: String,
        /// Which item.
        item: ItemId,
        /// What happened.
        #[source]
        source: EnvError,
    },
    /// The optimizer could not be asked.
    #[error("stopped at {place}")]
    Optimizer {
        /// Where in the run.
        place: String,
        /// What happened.
        #[source]
        source: LlmError,
    },
    /// A prompt cannot be rendered.
    #[error("cannot render a prompt")]
    Prompt(#[from] PromptError),
    /// A note cannot be taken; nothing was written.
    #[error(transparent)]
    Note(#[from] NoteRefusal),
    /// The settings cannot work.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// A split that the run needs has no items.
    #[error("the {split} split of environment `{env}` has no items")]
    EmptySplit {
        /// The environment.
        env: String,
        /// The split.
        split: Split,
    },
    /// No training task can be kept for trials, since no type of task has two.
    #[error(
        "no training task of environment `{env}` is left for trials, to which the share {trial_share} of each type of two or more goes: {}",
        tasks.iter().map(|(name, n)| format!("{n} of {}", if name.is_empty() { "no type" } else { name })).collect::<Vec<_>>().join(", ")
    )]
    NoTrialTasks {
        /// The environment.
        env: String,
        /// The share that trials were to get.
        trial_share: f64,
        /// How many training tasks each type has.
        tasks: BTreeMap<String, usize>,
    },
    /// Two items have the same id.
    #[error("item id `{id}` is in the data more than once ({first} and {second})")]
    DuplicateItem {
        /// The id.
        id: ItemId,
        /// Where it is first.
        first: Split,
        /// Where it is again.
        second: Split,
    },
    /// A file or directory of the run cannot be read or written.
    #[error("cannot {action} {}", path.display())]
    RunDir {
        /// `read`, `write`, `create`, `copy`, `lock`, `remove`.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// A file of the run is not what it should be.
    #[error("{}: {message}", path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        message: String,
    },
    /// A skill of the run is not the one that the run left there.
    #[error("{} was changed after the run wrote it: its hash is {found}, and was {expected}", path.display())]
    ChangedSkill {
        /// The file.
        path: PathBuf,
        /// The hash of what is there.
        found: SkillHash,
        /// The hash of what the run wrote.
        expected: SkillHash,
    },
    /// A file of the run is not the one that the run left there.
    #[error("{} was changed after the run wrote it", path.display())]
    ChangedFile {
        /// The file.
        path: PathBuf,
    },
    /// The directory of the run was renamed, moved, removed or replaced while a process worked on it.
    #[error("the directory of this run, {}, was renamed, moved or replaced", path.display())]
    MovedRunDir {
        /// The name under which the run was started.
        path: PathBuf,
    },
    /// The run was written by a version with another format.
    #[error("{} has format version {found}, this program reads {supported}", path.display())]
    OtherFormat {
        /// The file.
        path: PathBuf,
        /// The version in the file.
        found: String,
        /// The version that can be read.
        supported: String,
    },
    /// The directory has files of a run's names, but no run.
    #[error("{} has {found}, but no config.json: it is not a run, or a damaged one", path.display())]
    NotARun {
        /// The directory.
        path: PathBuf,
        /// The file or directory that would be overwritten.
        found: &'static str,
    },
    /// The directory holds other things than a run.
    #[error("{} is not empty and is not a run: it holds {found}", path.display())]
    NotVacant {
        /// The directory.
        path: PathBuf,
        /// What lies there, in words.
        found: String,
    },
    /// The directory lies in that of a run.
    #[error("{} lies in the run {}", path.display(), run.display())]
    InsideARun {
        /// The directory.
        path: PathBuf,
        /// The run.
        run: PathBuf,
    },
    /// The directory holds no run.
    #[error("no run in {}", path.display())]
    NoRun {
        /// The directory.
        path: PathBuf,
    },
    /// The run has no such step.
    #[error("the run has no step {step} yet; the last one is {last_step}")]
    NoStep {
        /// The step that was asked for.
        step: StepIdx,
        /// The last finished step.
        last_step: StepIdx,
    },
    /// Another process works on the run.
    #[error("another process{} is working on the run in {}", holder.map(|holder| format!(" ({holder})")).unwrap_or_default(), path.display())]
    Locked {
        /// The run directory.
        path: PathBuf,
        /// The process, if it trains: others do not say what they are.
        holder: Option<LockHolder>,
    },
    /// A file is not a skill bank, or a bank cannot be changed in this way.
    #[error("cannot use the bank {}", path.display())]
    Bank {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        #[source]
        source: BankError,
    },
    /// A teacher's replies cannot be used; nothing of them got into the bank.
    #[error("stopped at {place}")]
    Teacher {
        /// Where in the run.
        place: String,
        /// What happened.
        #[source]
        source: Box<DistillError>,
    },
    /// Another process changes the bank.
    #[error("another process is changing the bank in {}", path.display())]
    BankLocked {
        /// The bank's directory.
        path: PathBuf,
    },
    /// The run has not measured anything yet.
    #[error("nothing is measured yet in the run in {}, so no line of its skill has a history", path.display())]
    NotMeasured {
        /// The run directory.
        path: PathBuf,
    },
    /// The run directory holds a run of other settings.
    #[error("the run in {} was started with other settings: {}", path.display(), describe_changes(changes))]
    Mismatch {
        /// The run directory.
        path: PathBuf,
        /// Each setting that differs.
        changes: Vec<SettingChange>,
    },
    /// The journal of the run cannot be read or written.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The journal of the run does not hold what it has held.
    #[error("{} {}", path.display(), loss(*n_found, *n_noted, *last_step))]
    LostJournal {
        /// The journal.
        path: PathBuf,
        /// The last finished step.
        last_step: u32,
        /// Requests that it holds; `None` if it is empty or not there.
        n_found: Option<u64>,
        /// Requests that it is known to have held.
        n_noted: u64,
    },
    /// The target said nothing at all, on any item.
    #[error("the target said nothing on any of {n} items at {place}, so nothing was measured{}", cut_at_limit(*n_cut))]
    Silent {
        /// Where in the run, such as `baseline` or `step 3 / rollout`.
        place: String,
        /// How many results there are.
        n: usize,
        /// In how many of them its last reply was cut at its length limit.
        n_cut: usize,
    },
    /// The optimizer said nothing at all in a step, and nothing either when it was asked once more.
    #[error(
        "the optimizer said nothing at {place} (replies: {n}), and nothing when it was asked once more{}",
        cut_at_limit(*n_cut)
    )]
    SilentOptimizer {
        /// Where in the run, such as `step 3 / reflect`.
        place: String,
        /// How many replies there are.
        n: usize,
        /// How many of them were cut at their length limit.
        n_cut: usize,
    },
    /// The replies of a model come without token counts, and the run has no other cap than one that counts them.
    #[error(
        "the replies of the {model} come without token counts, so the cap on {what} cannot hold; stopped {}",
        match last_step { 0 => "before the first step".to_owned(), step => format!("after step {step}") }
    )]
    Uncounted {
        /// Which model: `target` or `optimizer`.
        model: &'static str,
        /// What is capped: `tokens` or `money`.
        what: &'static str,
        /// The last finished step.
        last_step: u32,
    },
    /// A stage was told to begin no further work; what was under way is finished and kept.
    #[error("stopped; what was under way is finished and kept")]
    Halted,
    /// A cap of the run is reached.
    #[error(
        "the run's cap on {what} is reached ({spent} of {cap}), {}{}{}",
        stand(*last_step, *total_steps),
        more(next.as_deref()),
        after_failure(failed.as_deref())
    )]
    Capped {
        /// What is capped: `calls`, `tokens`, `money` or `time`.
        what: &'static str,
        /// What the run has used, over all its processes.
        spent: String,
        /// The cap.
        cap: String,
        /// What the next request may take and what is left, where that is more than a number of calls.
        next: Option<Box<Shortfall>>,
        /// What the call's attempt before came to, where that failed: failures may have used the cap up.
        failed: Option<Box<LlmError>>,
        /// The last finished step.
        last_step: u32,
        /// The steps of the whole run.
        total_steps: u32,
    },
    /// No example is left to fine-tune on.
    #[error("no example is left to train on: {}{}", counts.describe(), first_notes(notes))]
    NoExamples {
        /// What was read, and what was left out.
        counts: Box<SftCounts>,
        /// The first reasons, in words.
        notes: Vec<String>,
    },
    /// A demonstration cannot be turned into tokens.
    #[error("cannot make examples of the demonstration of {item}")]
    Example {
        /// Its task.
        item: ItemId,
        /// What is wrong.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The model under training failed, or its weights could not be kept.
    #[error("training stopped at step {step} of {total_steps}")]
    Weights {
        /// The step under way, or the last finished one; 0 before the first.
        step: u64,
        /// The steps of the whole run.
        total_steps: u64,
        /// What can be done about it.
        hint: &'static str,
        /// What happened.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A cap of a run that fine-tunes is reached.
    #[error(
        "the run's cap on {what} is reached ({spent} of {cap}) after step {last_step} of {total_steps}; policy/ holds the best weights so far"
    )]
    SftCapped {
        /// What is capped: `tokens` or `time`.
        what: &'static str,
        /// What the run has used, over all its processes.
        spent: String,
        /// The cap.
        cap: String,
        /// The last finished step.
        last_step: u32,
        /// The steps of the whole run.
        total_steps: u32,
    },
    /// A person stopped what keeps nothing.
    #[error("stopped; nothing of it is kept")]
    StoppedUnkept,
    /// A person stopped the run.
    #[error("stopped after step {last_step}{}{}", of_steps(*total_steps), unmeasured(*last_step, *total_steps))]
    Stopped {
        /// The last finished step.
        last_step: u32,
        /// The steps of the whole run.
        total_steps: u32,
    },
}

/// The process that works on a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LockHolder {
    /// Its id.
    pub pid: u32,
    /// For how many seconds it has worked on the run.
    pub seconds: u64,
}

impl fmt::Display for LockHolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pid, seconds } = self;
        match seconds {
            ..=119 => write!(f, "pid {pid}, for {seconds} s"),
            120..=7_199 => write!(f, "pid {pid}, for {} min", seconds / 60),
            7_200.. => write!(f, "pid {pid}, for {} h", seconds / 3_600),
        }
    }
}

impl PipelineError {
    /// A file of a run that has to exist, and does not.
    pub fn missing(path: PathBuf) -> Self {
        Self::Corrupt { path, message: "is missing".to_owned() }
    }

    /// Whether the run ended because it was told to, and not for a fault.
    pub fn is_stop(&self) -> bool {
        let is_cancelled = |error: &LlmError| error.class() == ErrorClass::Cancelled;
        matches!(self, Self::Halted | Self::Stopped { .. })
            || matches!(self, Self::Rollout { source: EnvError::Model(error), .. } if is_cancelled(error))
            || matches!(self, Self::Optimizer { source, .. } if is_cancelled(source))
    }

    /// True if a reply to one item cannot be read, however often it was requested: the others may go on.
    pub(crate) fn is_of_one_item(&self) -> bool {
        matches!(self, Self::Rollout { source: EnvError::Model(error), .. } if error.class() == ErrorClass::InvalidReply)
    }

    /// The cap that a model's call would have exceeded, such as `calls`.
    pub(crate) fn cap(&self) -> Option<&'static str> {
        match self {
            Self::Rollout { source: EnvError::Model(LlmError::BudgetExhausted { what, .. }), .. }
            | Self::Optimizer { source: LlmError::BudgetExhausted { what, .. }, .. } => Some(what),
            _ => None,
        }
    }

    /// With where the run is, if it stopped at a cap.
    pub(crate) fn or_capped(self, last_step: u32, total_steps: u32) -> Self {
        match self {
            Self::Rollout {
                source: EnvError::Model(LlmError::BudgetExhausted { what, spent, cap, next, failed }),
                ..
            }
            | Self::Optimizer {
                source: LlmError::BudgetExhausted { what, spent, cap, next, failed }, ..
            } => {
                let (spent, cap) = (spent.into_string(), cap.into_string());
                Self::Capped { what, spent, cap, next, failed, last_step, total_steps }
            }
            error => error,
        }
    }

    /// What a program that trains, or who runs it, can do about it, as one sentence.
    ///
    /// It names no command and no key of a configuration: programs that have these say it in their own terms.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Rollout { source, .. } => source.hint(),
            Self::Optimizer { source, .. } => source.hint(),
            Self::Prompt(_) => "fix the prompt's template",
            Self::Settings(error) => error.hint(),
            Self::Note(refusal) => refusal.hint(),
            Self::EmptySplit { .. } => "give the split at least one item",
            Self::NoTrialTasks { .. } => {
                "give at least one type two training tasks, or admit skills without trials"
            }
            Self::DuplicateItem { .. } => "give every item an id of its own, over all splits",
            Self::RunDir { action: "lock", source, .. } if is_without_locks(source) => {
                "the file system has no locks, which a run needs: take a directory on another one, such as a local disk"
            }
            Self::RunDir { source, .. } => file_hint(source),
            Self::Corrupt { .. } => "restore the file, or start a new run in another directory",
            Self::ChangedSkill { .. } => {
                "restore it (of best_skill.md training in the same directory does that, and keeps what is there beside it), or read the file itself"
            }
            Self::ChangedFile { .. } => {
                "restore the file from a copy, or have the run rebuilt from its journal without paying again: remove runtime_state.json, history.jsonl and history.json, then train in the same directory"
            }
            Self::MovedRunDir { .. } => {
                "train in the new place of the directory, or move it back first; everything finished is in it"
            }
            Self::OtherFormat { .. } => "use the version that wrote the run",
            Self::NotARun { .. } => "take another directory, or restore config.json; nothing was overwritten",
            Self::InsideARun { .. } => "take another directory; nothing was written there",
            Self::NotVacant { .. } => {
                "take another directory, such as a new one below this one; nothing was written there"
            }
            Self::NoRun { .. } => "name a directory that a run was trained in",
            Self::NoStep { .. } => "name a finished step",
            Self::Locked { holder: None, .. } => "wait for it, or end it",
            Self::Locked { holder: Some(_), .. } => {
                "wait for it, or ask it to end after the step under way (`run_dir::request_stop`)"
            }
            Self::Bank { source: BankError::Pinned { .. }, .. } => "unpin it first, if it is to change",
            Self::Bank { .. } => "correct the file, or take a copy of it; nothing was changed",
            Self::Teacher { .. } => {
                "start the same run again: the teacher is asked once more; or take another directory with another teacher"
            }
            Self::BankLocked { .. } => "wait until it is done, then try again",
            Self::NotMeasured { .. } => {
                "ask again when the initial skill is measured; if no process works on the run, train in its directory again"
            }
            Self::Mismatch { .. } => {
                "set these back to resume this run, or start a new one in another directory"
            }
            Self::Capped { .. } => "raise the cap, then train in the same directory to resume",
            Self::Journal(error) => error.hint(),
            Self::LostJournal { .. } => {
                "bring it back from a copy, with its -wal file; `Trainer::with_lost_journal` resumes with what is there: what the journal no longer holds counts for no cap, and is paid for again where it is needed"
            }
            Self::Uncounted { .. } => {
                "set a cap on calls, which holds, then train in the same directory to resume"
            }
            Self::Silent { .. } => {
                "raise the target's limit on tokens of a reply, or have it think less; where the server was at fault, take its empty replies out of the journal (`skill_llm::journal::prune`)"
            }
            Self::SilentOptimizer { .. } => {
                "raise `max_reply_tokens` and the optimizer's own limit, or have it think less; where the server was at fault, take its empty replies out of the journal (`skill_llm::journal::prune`)"
            }
            Self::NoExamples { .. } => {
                "collect demonstrations that reach their goal on training tasks of this environment, or raise the longest length of an example"
            }
            Self::Example { .. } => "fix the demonstration, or take another chat template",
            Self::Weights { hint, .. } => hint,
            Self::SftCapped { .. } => "raise the cap, then train in the same directory to resume",
            Self::StoppedUnkept => "measure in a directory to keep what is measured",
            Self::Halted | Self::Stopped { .. } => "train in the same directory to resume",
        }
    }
}

/// What is wrong with a journal that lacks something.
fn loss(n_found: Option<u64>, n_noted: u64, last_step: u32) -> String {
    let requests = |n: u64| if n == 1 { "1 request".to_owned() } else { format!("{n} requests") };
    let stand = match last_step {
        0 => "has measured its initial skill".to_owned(),
        last_step => format!("has come to step {last_step}"),
    };
    match (n_found, n_noted) {
        (Some(n_found), _) => format!(
            "holds {n_found} of the {} that the run is known to have sent: \
             it was cut, is an older copy, or was copied while the run was at work",
            requests(n_noted)
        ),
        (None, 0) => {
            format!("is empty or not there, but the run {stand}: what it has paid for is not known")
        }
        (None, _) => format!("is empty or not there, but the run {stand} and sent {}", requests(n_noted)),
    }
}

/// True if locking failed because the file system does not support locks.
pub fn is_without_locks(error: &io::Error) -> bool {
    /// `ENOLCK` on Linux, as from NFS without a lock daemon; `io::ErrorKind` has no variant for it.
    const NO_LOCKS_LINUX: i32 = 37;
    error.kind() == io::ErrorKind::Unsupported
        || cfg!(target_os = "linux") && error.raw_os_error() == Some(NO_LOCKS_LINUX)
}

/// What can be done about a file or a directory that cannot be used.
pub fn file_hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "make room, then train in the same directory to resume"
        }
        io::ErrorKind::AlreadyExists | io::ErrorKind::NotADirectory => {
            "a file is where a directory should be: take another directory, or move the file"
        }
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            "check who may write there, or take another directory"
        }
        _ => "check the path, its permissions and the free space",
    }
}

fn first_notes(notes: &[String]) -> String {
    const MAX_NOTES: usize = 3;
    let shown: Vec<&str> = notes.iter().take(MAX_NOTES).map(String::as_str).collect();
    if shown.is_empty() { String::new() } else { format!(" ({})", shown.join("; ")) }
}

/// Where a run is that has not come to its end.
fn stand(last_step: u32, total_steps: u32) -> String {
    const HOLDS: &str = "the run directory holds the best result so far";
    match (last_step, total_steps) {
        (0, 0) => "before the first step was finished".to_owned(),
        (0, total_steps) => format!("before the first of {total_steps} steps was finished"),
        (last_step, total_steps) => format!("after step {last_step}{}; {HOLDS}", of_steps(total_steps)),
    }
}

/// The steps of the whole run, where they are known: a planned search has as many as its budget allows.
fn of_steps(total_steps: u32) -> String {
    if total_steps == 0 { String::new() } else { format!(" of {total_steps}") }
}

fn cut_at_limit(n_cut: usize) -> String {
    match n_cut {
        0 => String::new(),
        1 => "; one of its replies was cut at its length limit".to_owned(),
        n_cut => format!("; {n_cut} of its replies were cut at their length limit"),
    }
}

/// What a run lacks that was stopped after its last step.
fn unmeasured(last_step: u32, total_steps: u32) -> &'static str {
    if last_step == total_steps && total_steps > 0 {
        ", before everything was measured that comes after the steps"
    } else {
        ""
    }
}
