//! Skill banks: many small skills, of which each task is shown the few that fit it.
//!
//! A [`Bank`] is the sum of its [events](BankEvent): skills are proposed, tried, admitted, revised, merged, pinned,
//! retired and restored, and nothing is ever lost. Everything here is a function of data, chat models and embedding
//! models; files, runs and printing are for the crates above.
//!
//! # Who should depend on this crate
//!
//! Programs that show banks, change them or retrieve from them, without training.
//!
//! # Example
//!
//! ```
//! use skill_bank::{Author, Bank, BankEvent, Basis, Content, Evidence, SkillProvenance, Tier};
//!
//! # fn main() -> Result<(), skill_bank::BankError> {
//! let mut bank = Bank::new();
//! let principle = "Open a container before you look for things in it.";
//! let content = Content::principle("Open it first", principle, "");
//! let skill = bank.next_skill(&Tier::General);
//! let evidence = Evidence::default();
//! let proposed = BankEvent::proposed(skill.clone(), Tier::General, content, SkillProvenance::Person, evidence);
//! bank.record(0, Author::Person, proposed)?;
//! assert_eq!(bank.view().skills().len(), 0, "a candidate is shown to nobody");
//! bank.record(0, Author::Person, BankEvent::Admitted { skill, basis: Basis::Person })?;
//! assert_eq!(bank.view().skills()[0].id.to_string(), "gen_001");
//! assert_eq!(Bank::from_log(&bank.log_text())?, bank);
//! # Ok(())
//! # }
//! ```

mod bank;
mod diff;
pub mod distill;
pub mod episode;
mod error;
mod event;
pub mod evolve;
pub mod format;
pub mod lint;
mod log;
mod render;
pub mod retrieve;
mod skill;
mod source;
mod summary;
pub mod task_type;
pub mod trial;
mod view;
mod words;

pub use bank::{Bank, ReadLog};
pub use diff::{BankDiff, FieldChange, SkillChange};
pub use distill::{DistillError, DistillPlan, DistillSettings, Teacher, TeacherPrompts, distill};
pub use episode::{Episode, TrainEpisode, read_episodes};
pub use error::BankError;
pub use event::{Author, BankEvent, Basis, Occasion, Reason, Record, TrialVerdict};
pub use evolve::{EvolvePlan, EvolveSettings, evolve};
pub use log::{LogChain, log_line};
pub use skill::{
    Content, Evidence, Skill, SkillProvenance, SkillRef, State, Tier, Utility, Version, ViewedSkill,
};
pub use source::BankSource;
pub use summary::{BankSummary, LongestSkill, TierSummary, TokenCompression};
pub use view::BankView;
