//! The run directory: where the files of a run are, who holds it, and how it is read back.

pub mod atomic;
pub mod bank_dir;
pub mod bank_progress;
mod by_hand;
pub mod check;
pub mod checks;
pub mod config_copy;
mod dir_handle;
mod evaluation;
pub mod event_log;
mod files;
mod forget;
mod held;
mod history;
mod journal;
pub mod line_log;
pub mod live;
pub mod measurement;
pub mod notes;
mod path;
pub mod policy_hashes;
pub mod process_log;
mod read;
mod reader;
mod recorded;
pub mod seal;
mod sent;
mod skills;
mod stop;
pub mod timings;
mod unflushed;
pub mod vacant;
mod whole;

pub(crate) use by_hand::SKILL_FILE_STEMS;
pub use by_hand::is_kept_by_hand;
pub use evaluation::{EvaluationDir, summarise};
pub use files::{FilesLine, RunPart};
pub use forget::forget_unanswered;
pub use held::RunDir;
pub use journal::journal_if_there;
pub(crate) use path::HISTORY_LOG;
pub use path::way_to;
pub use path::{CARRIED_DIR, INITIAL_POLICY_DIR, REPORT_FILE, RESULTS_FILE, SUMMARY_FILE};
pub(crate) use path::{
    COMPARISON_PAIRS, META_SKILL_RESULT, PLAYS_FILE, ROLLOUTS_FILE, SLOW_RESULT, round_path,
};
pub use read::{
    RunStatus, hash_of_file, is_held, is_run, read_bank_summary, read_bytes, read_config, read_finished_step,
    read_summary, read_text, run_status,
};
pub use read::{parse_versioned, read_times, read_versioned};
pub use reader::{AnswerBrief, RunReader, RunTotals};
pub use sent::Sent;
pub use skill_llm::journal::JOURNAL_FILE;
pub use skills::RunSkills;
pub use stop::{STOP_FILE, is_stop_requested, request_stop, withdraw_stop};
