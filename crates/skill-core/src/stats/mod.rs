//! Paired statistics: how sure one can be that a candidate is better than the skill it was compared with.
//!
//! Two skills are measured on the same items, so that what counts is the difference on each item:
//!
//! - [`paired`]: wins, losses, ties and differences, from the scores of both;
//! - [`mcnemar`]: the exact one-sided p-value of wins against losses;
//! - [`eprocess`]: evidence that may be looked at after every item, if the items come in random order;
//! - [`interval`]: intervals for a difference and for a score, and the sign-flip permutation test;
//! - [`power`]: what a number of items can show, and how many are needed;
//! - [`stratified`]: a candidate on rollouts that were split at random inside each task, and what a trial can show;
//! - [`student`]: intervals for the mean of a few runs, and for the difference of two means;
//! - [`normal`]: the normal distribution, which the four before need.
//!
//! Nothing here decides about a skill; [`crate::rule`] does, with these. Counts are of exact comparisons
//! ([`crate::exact`]), and sums are in the order of the items, so that neither rounding nor the order in which results
//! arrive decides anything.

pub mod eprocess;
pub mod interval;
pub mod mcnemar;
pub mod normal;
pub mod paired;
pub mod power;
mod scaled;
pub mod stratified;
pub mod student;

pub use eprocess::{EProcess, ln_e_value, ln_e_value_of};
pub use interval::{difference_interval, score_interval, shares_interval, sign_flip_p};
pub use mcnemar::{least_wins, ln_mcnemar_p, mcnemar_p};
pub use paired::{Paired, PairedCounts, flip_rate};
pub use power::{detectable_effect, expected_maximum, items_needed, spent_alpha};
pub use student::{mean_interval, means_interval, student_quantile};
