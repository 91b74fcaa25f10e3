//! Training of a bank: collect, distil, try, evolve.
//!
//! # Invariants
//!
//! - A run flushes the journal before it writes an event of a bank, so the event follows from replies that are on
//!   the disk. Held by `an_event_of_the_bank_comes_after_the_replies_that_it_follows_from`,
//!   `the_demo_dies_training_a_bank`.
//! - A person's changes to the bank between two processes of a run are followed, and no verdict overrules them.
//!   Held by `a_trial_ends_with_a_problem_where_a_person_has_retired_its_candidate`,
//!   `the_retirement_of_a_skill_ends_with_a_problem_where_a_person_has_pinned_it`,
//!   `what_a_person_does_between_two_events_of_one_step_is_followed`.
//! - A run that trains a bank comes to the same files with any number of workers and after a stop, and a finished
//!   one sends nothing. Held by `a_run_that_trains_a_bank_is_the_same_each_time`.

pub mod collect;
mod context;
mod live;
#[cfg(feature = "outside")]
pub mod outside;
mod own_runs;
mod run;
mod sets;
mod settings;
mod teach;
mod tell;
mod trainer;
mod trials;
mod verdict;

pub use own_runs::{RolloutUse, RunEpisodes, run_episodes};
pub use run::read_record;
pub use sets::n_items_of_sets;
pub use settings::{Admission, BankSettings, Show, TrialKind};
pub use teach::{DistillTask, check_embedding, forbid_items};
pub use trainer::BankTrainer;

// What GRPO with a bank in its loop shares with runs that train a bank alone.
pub use {
    collect::episode_of,
    live::LiveBank,
    sets::{chosen, gives_small_types_a_task, item_sets},
    teach::teacher_error,
};
