//! Training of a skill document: six stages, the trainer that calls them, and the run directory.
//!
//! # Who should depend on this crate alone
//!
//! Anybody who wants a stage by itself (to reflect on trajectories of their own, say), or who builds another
//! trainer on the same stages. To train from a program or a configuration file, take the facade `skillrl`.
//!
//! ```
//! use skill_core::{EditOp, ItemId, RolloutResult, SkillDoc};
//! use skill_llm::scripted::ScriptedModel;
//! use skill_pipeline::stage::reflect::{ReflectBatch, ReflectSettings, reflect};
//! use skill_pipeline::stage::{Optimizer, StageCtx};
//! use skill_pipeline::{NoEvents, PromptLibrary, Stage};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // What an agent did, and how it was scored.
//! let mut failed = RolloutResult::new(ItemId::from("q1"), 0.0, 0.0);
//! failed.question = "When did she sail?".to_owned();
//! failed.predicted_answer = "on March 4th".to_owned();
//! failed.reference_text = "1898-03-04".to_owned();
//! let analyst = ScriptedModel::answering("analyst", |_| {
//!     r#"{"edits": [{"op": "append", "content": "- Write dates as YYYY-MM-DD."}]}"#.to_owned()
//! });
//! let optimizer = Optimizer { model: &analyst, max_tokens: 4096 };
//! let settings = ReflectSettings {
//!     minibatch_size: 8,
//!     edit_budget: 4,
//!     failure_only: true,
//!     appendix_source: None,
//!     ends_in_silence: true,
//! };
//! let batch = ReflectBatch { batch_idx: None, seed: 42, results: &[failed] };
//! let ctx = StageCtx::new(Stage::Reflect, &NoEvents);
//! let skill = SkillDoc::new("# Ships\n");
//! let reflections =
//!     reflect(&[batch], &skill, settings, &PromptLibrary::embedded()?, &optimizer, &ctx).await?;
//! let edit = &reflections[0].patches[0].patch.edits[0];
//! assert_eq!(edit.op, EditOp::Append);
//! assert_eq!(edit.content, "- Write dates as YYYY-MM-DD.");
//! # Ok(())
//! # }
//! ```
//!
//! A step is data that flows through the [`stage`]s: rollout, reflect, aggregate, select, update, evaluate.
//! The [`trainer::Trainer`] owns the state, writes each arrow of that flow into the [`run_dir`] and emits
//! [`event::Event`]s. Nothing here names a provider or an environment, and nothing prints.

pub mod bank;
pub mod error;
pub mod event;
pub mod identity;
pub mod kind;
pub mod memory;
pub mod noise;
pub mod phases;
pub mod prompts;
pub mod provenance;
pub mod prune;
pub mod records;
pub mod run_dir;
pub mod settings;
pub mod shell;
pub mod stage;
pub mod text;
pub mod trainer;
pub mod warning;

pub use error::{PipelineError, SettingsError};
pub use event::{Event, EventSink, NoEvents, Stage};
pub use prompts::{PromptLibrary, PromptName};
pub use records::document::{StepAction, StepRecord};
pub use records::epoch::{MetaSkillAction, MetaSkillRecord, SlowUpdateAction, SlowUpdateRecord};
pub use records::summary::Summary;
pub use run_dir::{RunReader, bank_dir};
pub use settings::{
    Acceptance, AppendixSource, EarlyStop, EpochEnd, Evidence, Protocol, SearchLimits, SkillAware,
    SlowUpdate, StopSignal, TaskTexts, TrainSettings,
};
pub use shell::RunConfig;
pub use stage::rollout::TargetsScore;
pub use trainer::{NamedModels, OWN_TARGET, Trainer};
pub use warning::{Advice, Warning};
