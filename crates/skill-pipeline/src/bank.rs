//! Training of a bank: collect, distil, try, evolve.

pub mod collect;
mod live;
pub mod record;
mod sets;
mod settings;
mod trainer;

pub use sets::n_items_of_sets;
pub use settings::{Admission, BankSettings, TrialKind};
pub use trainer::{BankTrainer, read_record};
