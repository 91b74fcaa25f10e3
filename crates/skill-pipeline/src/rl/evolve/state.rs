//! Where an evolution is, as the checkpoint of its run has it.

use crate::rl::record::RlBankIteration;
use serde::{Deserialize, Serialize};
use skill_bank::SkillRef;
use skill_bank::trial::{TrialOutcome, TrialResult};
use skill_core::ItemId;
use std::collections::BTreeMap;

/// Where the evolution of a run is, as its checkpoint has it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(in crate::rl) struct EvolutionState {
    /// Events of the bank's log.
    pub(super) events: u64,
    /// The trial under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) trial: Option<OpenTrial>,
    /// Trials that were opened.
    pub(super) n_trials: u32,
    /// Skills that became active.
    pub(super) n_admissions: u32,
    /// Those since the last validation.
    pub(super) n_admitted_since_validation: usize,
    /// How often it was each candidate's turn.
    pub(super) n_tried: BTreeMap<SkillRef, u32>,
    /// The product of the e-values of trials without a verdict, by candidate.
    pub(super) e_before: BTreeMap<SkillRef, f64>,
    /// Active skills whose retirement was proposed and is not tried yet.
    pub(super) retirements: Vec<SkillRef>,
    /// Successes and episodes of tasks without candidates.
    pub(super) rates: BTreeMap<ItemId, [u32; 2]>,
    /// What trials compare.
    pub(super) outcome: TrialOutcome,
    /// The iteration of the last evolution.
    pub(super) since: u64,
    /// Episodes since then that a teacher may read.
    pub(super) episodes: u64,
    /// What happened to the bank and is in no record of an iteration yet.
    #[serde(default)]
    pub(super) unrecorded: RlBankIteration,
}

/// A trial that was opened and is not decided.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct OpenTrial {
    pub(super) candidate: SkillRef,
    pub(super) is_retirement: bool,
    /// The design, as JSON.
    pub(super) design: String,
    /// The results of its groups so far.
    pub(super) groups: Vec<Vec<TrialResult>>,
}
