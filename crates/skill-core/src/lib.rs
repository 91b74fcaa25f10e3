//! The pure core of `skillrl`: what a skill document is and everything that is decided about it.
//!
//! # Who should depend on this crate alone
//!
//! Anybody who wants the deterministic parts without a runtime:
//!
//! - [`skill`], [`edit`], [`rollout`], [`trajectory`], [`reply`], [`usage`], [`ids`]: the data that everything else is
//!   about;
//! - [`editor`]: applies edits to a skill, with a report row for each, and keeps away from the protected
//!   [`region`]s, one of which is the [`appendix`];
//! - [`text`]: texts that are the same to those who read them;
//! - [`thought`]: what a model thought, where its server has left it in the text of a reply;
//! - [`tokens`]: how many tokens a text has, about;
//! - [`package`]: skills that are folders, in the form of the Agent Skills specification, with [`carried`] files;
//! - [`schedule`]: the edit budget, which is a learning rate in edits;
//! - [`autonomous`]: that budget where the optimizer chooses it;
//! - [`select`]: the edits that a ranking reply picks within that budget;
//! - [`gate`]: whether a candidate takes the current skill's place, and [`early`]: how soon that is known;
//! - [`rewrite`]: how a skill is rewritten as a whole, and what survives that;
//! - [`rule`]: what else may be asked of a candidate, by [`stats`]: paired tests, e-values, intervals, power;
//! - [`longitudinal`]: the same tasks under two skills, as pairs;
//! - [`objective`]: a higher score first, then [`saving`] tokens;
//! - [`non_inferiority`]: whether something can be taken from a skill, and [`rules`]: what can be;
//! - [`exact`]: sums of scores without rounding;
//! - [`labels`]: answers that are the names of classes: their counts, misspellings and confusions;
//! - `lint`: what a person should know about a skill before others use it, behind the feature `yaml`;
//! - [`decoration`]: marks around what people and models say, and how they are taken off;
//! - [`secret`]: how the keys of providers look;
//! - [`encoding`], [`python_json`], [`member`]: texts and JSON as other programs write them to files;
//! - [`spelling`]: which name was meant by a misspelled one;
//! - [`search`]: the decisions of a planned search, from outcomes and a seed;
//! - [`random`], [`split`], [`plan`]: CPython-compatible shuffles and seeded dice, splits by ratio, epoch plans, minibatches;
//! - [`SkillHash`]: the content hash that names a version of a skill.
//!
//! Nothing here does I/O, reads a clock or the environment, starts a thread or awaits: times, seeds and
//! texts are arguments, and the same arguments give the same bytes on every machine.
//! Functions over text that a model wrote are total: bad text is a normal input with a normal result.
//!
//! # Example
//!
//! ```
//! use skill_core::{Edit, EditOp, Gate, ItemScore, SkillDoc};
//!
//! let current = SkillDoc::new("# Trivia\n\n- Answer the question.\n");
//! let (candidate, rows) = current.apply(&[
//!     Edit::append("- Reply with the bare answer."),
//!     Edit::new(EditOp::Delete, "- Think aloud.", ""),
//! ]);
//! assert_eq!(candidate.source_text(), "# Trivia\n\n- Answer the question.\n\n- Reply with the bare answer.\n");
//! assert!(rows[0].status.is_applied());
//! assert_eq!(rows[1].missed_anchor(), Some("- Think aloud."));
//!
//! // Both skills were measured on held-out tasks: 1 of 4 solved before, 3 after.
//! let scores = |hard: [f64; 4]| hard.map(|hard| ItemScore { hard, soft: hard });
//! let (before, after) = (scores([1.0, 0.0, 0.0, 0.0]), scores([1.0, 1.0, 0.0, 1.0]));
//! assert!(Gate::default().accepts(&after, &before));
//! ```

pub mod appendix;
pub mod autonomous;
mod book;
pub mod canonical;
pub mod carried;
pub mod constraints;
pub mod decoration;
pub mod early;
pub mod edit;
pub mod editor;
pub mod encoding;
pub mod exact;
mod fold;
pub mod gate;
pub mod guard;
pub mod ids;
pub mod json;
pub mod labels;
pub mod lineage;
#[cfg(feature = "yaml")]
pub mod lint;
pub mod longitudinal;
pub mod member;
pub mod named;
pub mod non_inferiority;
pub mod objective;
pub mod package;
pub mod plan;
pub mod python_json;
pub mod random;
pub mod region;
pub mod reply;
pub mod rewrite;
pub mod rollout;
pub mod rule;
pub mod rules;
pub mod saving;
pub mod schedule;
pub mod search;
pub mod search_plan;
pub mod secret;
pub mod select;
pub mod skill;
pub mod spelling;
pub mod split;
pub mod stats;
pub mod text;
pub mod thought;
pub mod tokens;
pub mod trajectory;
pub mod usage;

pub use autonomous::BudgetChoice;
pub use early::{EarlyRejection, EarlyVerdict, FlipCounts, PrefixFold, evaluation_order};
pub use edit::{Edit, EditOp, Patch, RawPatch, SourceType};
pub use editor::{EditRow, EditRules, EditStatus, FoldedAnchor, apply_edit, apply_patch};
pub use exact::ExactSum;
pub use gate::{Gate, GateAction, GateMetric, ItemScore};
pub use ids::{EpochIdx, ItemId, SkillHash, SkillPartId, StepIdx};
pub use json::{
    Extracted, PatchReply, Repair, extract, extract_answer, extract_json, read_object, read_patch, whole_json,
};
pub use lineage::{SkillId, SkillOrigin};
pub use longitudinal::{ComparisonPair, PairCategory, PairPolicy, comparison_pairs, slow_update_order};
pub use named::NamedEnum;
pub use non_inferiority::NonInferiority;
pub use package::{FrontMatterEdits, SkillPackage, apply_package_patch};
pub use plan::{BatchPlan, EpochPlan, Minibatches, plan_minibatches, plan_train_epoch, steps_per_epoch};
pub use random::PyRandom;
pub use region::{
    Region, RegionKind, inject_slow_update, protected_regions, replace_slow_update, slow_update_guidance,
};
pub use reply::{FinishReason, ReplyTokens, Role, TokenLogprob, ToolCall, TopLogprob};
pub use rollout::{MeanScore, RolloutResult};
pub use rule::{GateKind, GateMode, GateRule};
pub use saving::TokenSaving;
pub use schedule::{BudgetControl, EditBudget, EditBudgetSchedule, ScheduleError};
pub use select::{select_edits, selected_indices};
pub use skill::SkillDoc;
pub use split::{RatioSplit, SplitRatio, SplitRule, split_counts};
pub use tokens::estimate_tokens;
pub use trajectory::{Ending, OfferedTool, ToolUse, Trajectory, TrajectoryMessage, TrajectoryTurn};
pub use usage::Usage;
