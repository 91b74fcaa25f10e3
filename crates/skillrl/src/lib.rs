//! Trains the natural-language skill of an LLM agent.
//!
//! The agent works from a Markdown document, its *skill*. A run measures the agent on tasks, lets an optimizer
//! model read what went wrong, turns that into a few bounded edits, and keeps an edited skill only if it does
//! better on held-out tasks. Models stay frozen; the result is a file to deploy.
//!
//! # Who should depend on this crate
//!
//! Anybody who trains from a program. It re-exports the layered crates ([`core`], [`llm`], [`envs`],
//! [`pipeline`]) and the models of the demos (`sim`), reads the configuration file ([`config`]) and turns one into
//! models ([`engine`]), environment ([`world`]) and trainer ([`trainer`]). Each of the layers can be taken alone.
//!
//! # Cargo features
//!
//! These are on by default; `default-features = false` leaves out what is not named.
//!
//! - `alfworld`, `evals`, `exec`, `search-agent`, `spreadsheets`, `webshop`: the environments of these names;
//! - `import`: configurations, runs and candidates of other systems (`import`);
//! - `live`: worlds on servers that are running already;
//! - `report`: reports of runs (`report`, `reports`), with `import`, since an imported run keeps its gate there;
//! - `sim`: the demos and their simulated models (`demo`, `sim`);
//! - `yaml`: the front matter of skills: the linter (`lint`), packages to give away (`export`), edits of it.
//!
//! Off by default are `nats`, rollouts on several machines (`nats`), with `nats-client`, the real broker; `tables`, data
//! from Parquet files and spreadsheets; and `weights` with `parquet`, models whose weights are on this machine.
//!
//! A configuration that needs what a build leaves out is refused with the name of the feature ([`Error::LeftOut`]).
//!
//! # A task of your own
//!
//! Here the agent is told to answer in capitals by nobody: training finds that out. With real models the two lines of
//! `ScriptedModel` are `skillrl::model("openai/gpt-5-mini")?` and `skillrl::model("openai/gpt-5")?`.
//!
//! ```
//! use skillrl::env::{self, Score};
//! use skillrl::prelude::*;
//! use std::sync::Arc;
//!
//! #[tokio::main(flavor = "current_thread")]
//! async fn main() -> Result<(), PipelineError> {
//!     let items = (0..9).map(|n| Item::new(format!("{n}"), serde_json::json!({"text": "hi", "answer": "HELLO"})));
//!     let env = env::from_fn("shout", env::split(items.collect()), |item, agent| async move {
//!         let answer = agent.answer(env::text(&item, "text")).await?;
//!         Ok(Score::exact(&answer, env::text(&item, "answer")))
//!     });
//!     let target = ScriptedModel::answering("target", |request|
//!         if request.text_of(Role::System).contains("capitals") { "HELLO" } else { "hello" }.to_owned());
//!     let optimizer = ScriptedModel::answering("optimizer", |_|
//!         r#"{"edits": [{"op": "append", "content": "- Answer in capitals."}]}"#.to_owned());
//! #   let dir = tempfile::tempdir().expect("a temporary directory");
//! #   let run_dir = dir.path();
//!     let summary = Trainer::new(Arc::new(env), Arc::new(target), Arc::new(optimizer)).train(run_dir).await?;
//!     assert_eq!((summary.baseline_test_hard, summary.test_hard), (Some(0.0), Some(1.0)));
//!     Ok(())
//! }
//! ```
//!
//! An environment with more than one call or a world of several turns implements [`Env`](envs::Env) or
//! [`World`](envs::World): `examples/own_world.rs` has one.
//!
//! # Invariants
//!
//! - Each cargo feature can be left out, and a configuration that needs one of them is refused with its name;
//!   `cargo xtask check features` builds each alone. Held by `left_out_environments_name_their_feature`,
//!   `left_out_models_name_their_feature`, `left_out_servers_name_their_feature`.

#[cfg(feature = "report")]
pub mod bundle;
pub mod caches;
pub mod call_cache;
pub mod collect;
pub mod config;
pub mod cost;
#[cfg(feature = "sim")]
pub mod demo;
pub mod distill;
pub mod doctor;
pub mod engine;
pub mod env;
pub mod env_vars;
pub mod error;
pub mod estimate;
#[cfg(feature = "yaml")]
pub mod export;
pub mod hint;
#[cfg(feature = "tables")]
pub mod hub;
pub mod identify;
#[cfg(feature = "import")]
pub mod import;
#[cfg(feature = "yaml")]
pub mod lint;
pub mod listener;
#[cfg(feature = "report")]
pub mod matrix;
pub mod measurement;
#[cfg(feature = "weights")]
pub mod merged;
#[cfg(feature = "nats")]
pub mod nats;
pub mod not_a_skill;
#[cfg(feature = "weights")]
pub mod phased;
#[cfg(feature = "weights")]
pub mod policy;
pub mod program;
pub mod prompts;
pub mod prune;
pub mod replay;
#[cfg(feature = "report")]
pub mod report;
#[cfg(feature = "weights")]
pub mod rl;
pub mod run_files;
#[cfg(feature = "report")]
pub mod runs;
mod secrets;
#[cfg(feature = "weights")]
pub mod sft;
pub mod skills;
pub mod spend;
#[cfg(feature = "weights")]
pub mod task_prompts;
#[cfg(feature = "weights")]
mod train_backend;
pub mod trainer;
#[cfg(feature = "report")]
pub mod transfer;
pub mod world;

pub use error::{Error, Failure};
pub use program::model;
pub use prompts::built_in_prompts;
pub use skill_bank as bank;
pub use skill_core as core;
pub use skill_envs as envs;
pub use skill_llm as llm;
pub use skill_pipeline as pipeline;
#[cfg(feature = "report")]
#[doc(inline)]
pub use skill_report as reports;
#[cfg(feature = "sim")]
pub use skill_sim as sim;
#[cfg(feature = "weights")]
pub use skill_tinker as tinker;
#[cfg(feature = "weights")]
pub use skill_train as train;
#[cfg(feature = "weights")]
pub use skill_weights as weights;

/// What a program that trains needs, in one `use`: the seam [`Env`](envs::Env) with what its methods take and return,
/// the seam [`ChatModel`](llm::ChatModel) with a model for tests, the [`Trainer`](pipeline::Trainer) with its settings,
/// and `async_trait`, by which both seams are implemented.
///
/// It holds the names of the example at the top of this crate and their neighbours, and nothing that a program which
/// trains has to do without; everything else is a path away in [`core`], [`llm`], [`envs`] and [`pipeline`].
pub mod prelude {
    pub use async_trait::async_trait;
    pub use skill_core::{
        Edit, EditOp, ItemId, MeanScore, Patch, Role, RolloutResult, SkillDoc, Trajectory, TrajectoryMessage,
    };
    pub use skill_envs::{Env, EnvError, Item, RolloutCtx, SkillSource, Split};
    pub use skill_llm::scripted::ScriptedModel;
    pub use skill_llm::{ChatModel, ChatReply, ChatRequest, LlmError, Message, Usage};
    pub use skill_pipeline::{Event, EventSink, PipelineError, StopSignal, Summary, TrainSettings, Trainer};
}
