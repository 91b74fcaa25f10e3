//! Where an evolution is, as the checkpoint of its run has it.

use serde::{Deserialize, Serialize};
use skill_bank::trial::{Candidacy, Standing, TaskRates, TrialNumbers, TrialOutcome, TrialResult};
use skill_bank::{Occasion, SkillRef};
use skill_pipeline::records::rl::RlBankIteration;
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
    pub(super) rates: TaskRates,
    /// Measurements of active skills that are under way or wait, the next one first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) measurements: Vec<OpenMeasurement>,
    /// What the standing check has found, by the intervals between validations; the last one is under way.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) standing: Vec<Standing>,
    /// What measurements after admission have found.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) after_admission: BTreeMap<SkillRef, TrialNumbers>,
    /// How often it was measured whether the policy still needs a skill.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) n_measured: BTreeMap<SkillRef, u32>,
    /// Skills that were withdrawn since the policy wins as often without them.
    #[serde(default)]
    pub(super) n_internalized: u32,
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

impl OpenTrial {
    pub(super) fn tried(&self) -> Candidacy {
        Candidacy { skill: self.candidate.clone(), is_retirement: self.is_retirement }
    }
}

/// A measurement of an active skill.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct OpenMeasurement {
    pub(super) skill: SkillRef,
    /// After its admission, or for its withdrawal.
    pub(super) occasion: Occasion,
    /// The design, as JSON; after an admission, that of the trial with more groups.
    pub(super) design: String,
    /// The place of its first group: after an admission, behind those of the trial.
    pub(super) first: u64,
    /// The results of its groups so far.
    pub(super) groups: Vec<Vec<TrialResult>>,
}
