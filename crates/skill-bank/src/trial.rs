//! Trials: a skill becomes active when rollouts with it do better than rollouts without it.
//!
//! Everything here is data and functions of data; who makes the rollouts is not known here. A rollout that could not
//! be made is not a result: it never comes here as a failure.
//!
//! - [`Candidacy`]: the course of a trial, from the choice of a candidate to what the verdict brings;
//! - [`TriedItems`]: the tasks of a trial, none of which is among the candidate's evidence;
//! - [`TrialDesign`]: what is run, how chance splits it in halves, and when it is decided;
//! - [`TrialOutcome`]: whether successes or scores are compared, and [`TrialGroups`]: groups with what they say;
//! - [`TrialState`]: the results so far, and the [`Decision`];
//! - [`preflight`]: the effects that a design can show, before anything is paid for;
//! - [`HideRule`] and [`Standing`]: the standing check of active skills, and [`over_cap`] for tiers that are too large.
//!
//! # Invariants
//!
//! - A trial's decision depends on the shortest prefix of its groups that decides, not on what arrives first, and
//!   ending early never takes back an admission. Held by `the_order_of_arrival_decides_nothing`,
//!   `an_early_end_is_the_decision_of_the_whole_trial`.

mod candidacy;
mod design;
mod error;
mod groups;
mod items;
mod numbers;
mod preflight;
mod standing;
mod state;

pub use candidacy::{Candidacy, Consequence, MIN_STANDING_GROUPS, obstacle, over_cap_of, with_skill};
pub use design::{GROUPS_PER_INTERVAL, Half, PlannedGroup, TrialDesign, TrialSettings, halves};
pub use error::TrialError;
pub use groups::{TrialGroup, TrialGroups, TrialOutcome, TrialResult};
pub use items::{ItemRate, TaskRates, TriedItems};
pub use numbers::TrialNumbers;
pub use preflight::{Preflight, PreflightRow, preflight};
pub use standing::{HideRule, Overflow, Standing, StandingRollout, over_cap};
pub use state::{Decision, Ground, TrialState};

/// The e-value at which a skill is shown to harm: a candidate is dropped and an active skill is retired. Of skills that
/// do no harm at most one in twenty ever reaches it.
const HARM_THRESHOLD: f64 = 20.0;
