//! Training of a bank: collect, distil, try, evolve.

pub mod collect;
mod context;
mod live;
#[cfg(feature = "outside")]
pub mod outside;
mod own_runs;
pub mod record;
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
pub use trials::GROUPS_PER_INTERVAL;

// What GRPO with a bank in its loop shares with runs that train a bank alone.
#[cfg(feature = "weights")]
pub(crate) use {
    collect::episode_of,
    live::LiveBank,
    run::MIN_STANDING_GROUPS,
    sets::{chosen, gives_small_types_a_task, item_sets},
    trials::{first_of_its_tier, longer_design, tells_nothing, trial_design, trial_rule},
    verdict::{consequence, measured, obstacle, obstacle_to_verdict, over_cap_of, released},
};
