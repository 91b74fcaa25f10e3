//! Training of a bank: collect, distil, try, evolve.

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
pub use settings::{Admission, BankSettings, TrialKind};
pub use teach::{forbid_items, teacher_error};
pub use trainer::BankTrainer;

// What GRPO with a bank in its loop shares with runs that train a bank alone.
#[cfg(feature = "weights")]
pub(crate) use {
    collect::episode_of,
    live::LiveBank,
    sets::{chosen, gives_small_types_a_task, item_sets},
};
