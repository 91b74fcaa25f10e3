//! Task environments: where the items of a data set come from, and how one item is run and scored.
//!
//! # Who should depend on this crate alone
//!
//! Anybody who wants the built-in worlds without training, who writes an [`Env`] of their own, or who wants
//! only the scorers in [`score`].
//! Nothing here knows about training.
//!
//! # Environments
//!
//! Each comes after a cargo feature of its name.
//!
//! - `alfworld`: ALFWorld's text games, from the data set's files or generated.
//! - `live`: worlds on servers that are running already, over HTTP.
//! - `search-agent`: questions that an agent answers with a search tool over passages.
//! - `webshop`: a shop in which an agent searches, reads pages and buys, from the files of WebShop or made up.
//! - `tasks` (on by default): a person's own data (CSV, TSV, JSON Lines, JSON, Parquet or Excel), with a prompt over its fields and
//!   a scorer by its name; the files of several benchmarks as presets.
//! - `qa` (on by default): questions with known answers, a preset of `tasks`.
//! - `spreadsheets`: SpreadsheetBench, in which an agent's program changes a workbook.
//! - `exec`: any program, by JSON Lines over its standard streams.
//!
//! And for environments whose agent is another program:
//!
//! - `endpoint`: the target as an OpenAI- and Anthropic-compatible server on loopback.
//!
//! # Invariants
//!
//! - Every environment can be left out; `cargo xtask check features` builds the crate without any.
#![cfg_attr(
    feature = "qa",
    doc = r##"
# Example

A model that always says the same, measured on two questions:

```
use skill_core::{SkillDoc, Usage};
use skill_envs::qa::{QaEnv, QaItem, QaSettings};
use skill_envs::{Env, RolloutCtx, Split};
use skill_llm::{CallCtx, ChatModel, ChatReply, ChatRequest, LlmError, ModelId};

struct Parrot(ModelId);

#[async_trait::async_trait]
impl ChatModel for Parrot {
    fn id(&self) -> &ModelId {
        &self.0
    }
    async fn chat(&self, _: &ChatRequest, _: &CallCtx) -> Result<ChatReply, LlmError> {
        Ok(ChatReply::text("The Nile.", Usage::default()))
    }
}

# #[tokio::main(flavor = "current_thread")]
# async fn main() -> Result<(), Box<dyn std::error::Error>> {
let questions = vec![
    QaItem::new("q1", "Which river flows through Cairo?", ["Nile", "the Nile"]),
    QaItem::new("q2", "Which river flows through Vienna?", ["Danube"]),
];
let env = QaEnv::from_items(Vec::new(), Vec::new(), questions, QaSettings::default())?;
let parrot = Parrot(ModelId::new("example", "parrot"));
let skill = SkillDoc::new("Answer with the bare name.");
let mut n_solved = 0;
for item in env.items(Split::Test) {
    let result = env.rollout(item, &skill, &parrot, &RolloutCtx::default()).await?;
    n_solved += u32::from(result.is_success());
}
assert_eq!(n_solved, 1);
# Ok(())
# }
```
"##
)]

pub mod agent;
#[cfg(feature = "alfworld")]
pub mod alfworld;
pub mod answerable;
mod answers;
pub mod choices;
#[cfg(feature = "tasks")]
mod data;
#[cfg(any(feature = "spreadsheets", feature = "search-agent", feature = "webshop"))]
mod digits;
#[cfg(feature = "endpoint")]
pub mod endpoint;
pub mod env;
pub mod episode;
pub mod error;
#[cfg(feature = "evals")]
pub mod evals;
#[cfg(feature = "exec")]
pub mod exec;
pub mod folder;
pub mod item;
#[cfg(feature = "tasks")]
pub mod judged;
pub mod labels;
#[cfg(feature = "live")]
pub mod live;
#[cfg(feature = "qa")]
pub mod qa;
pub mod reach;
pub mod record;
#[cfg(any(feature = "search-agent", feature = "webshop"))]
pub mod retrieval;
pub mod runner;
#[cfg(feature = "sandbox")]
mod sandboxed;
pub mod score;
#[cfg(feature = "search-agent")]
pub mod search_agent;
pub mod source;
#[cfg(feature = "spreadsheets")]
pub mod spreadsheet;
#[cfg(feature = "tasks")]
pub mod tasks;
#[cfg(feature = "tasks")]
mod verdict;
#[cfg(feature = "webshop")]
pub mod webshop;
#[cfg(any(feature = "spreadsheets", feature = "tasks"))]
mod within;

pub use agent::{AgentSettings, WorldEnv};
pub use answers::AnswerWorld;
pub use env::{Env, RolloutCtx, SCORING_VERSION, same_across_splits};
pub use episode::{Episode, Observation, World};
pub use error::{EnvError, FaultKind, RolloutFault};
pub use item::{Item, Split, Splits};
pub use runner::{
    JobLink, JobModels, JobSkill, LocalRunner, ReplyRecord, RolloutJob, RolloutOutcome, RolloutRunner,
};
pub use source::{Shown, SkillSource, TaskView};
