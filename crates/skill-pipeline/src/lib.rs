//! Training of a skill document: six stages, the trainer that calls them, and the run directory.
//!
//! # Who should depend on this crate alone
//!
//! Anybody who wants a stage by itself (to reflect on trajectories of their own, say), or who builds another
//! trainer on the same stages. To train from a program or a configuration file, take the facade `skillrl`.
//!
//! A step is data that flows through the [`stage`]s: rollout, reflect, aggregate, select, update, evaluate.
//! The [`trainer::Trainer`] owns the state, writes each arrow of that flow into the [`run_dir`] and emits
//! [`event::Event`]s. Nothing here names a provider or an environment, and nothing prints.

pub mod error;
pub mod event;
pub mod identity;
pub mod memory;
pub mod noise;
pub mod prompts;
pub mod provenance;
pub mod prune;
pub mod run_dir;
pub mod settings;
pub mod stage;
pub mod trainer;

pub use error::PipelineError;
pub use event::{Event, EventSink, NoEvents, Stage};
pub use prompts::{PromptLibrary, PromptName};
pub use run_dir::RunReader;
pub use run_dir::epoch_format::{MetaSkillAction, MetaSkillRecord, SlowUpdateAction, SlowUpdateRecord};
pub use run_dir::format::{StepAction, StepRecord, Summary};
pub use settings::{
    Acceptance, AppendixSource, EarlyStop, EpochEnd, Evidence, SkillAware, SlowUpdate, StopSignal,
    TrainSettings,
};
pub use trainer::{RunConfig, Trainer};
