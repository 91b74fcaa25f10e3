//! The arms that a run measured on the test split, in the form that page, terminal, JSON and Python share.

use super::Verdict;
use crate::words::{percent, points};
use serde::Serialize;
use skill_pipeline::records::arm::ArmName;
use std::fmt::Write as _;

/// A skill on the test split, beside the trained one.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TestArm {
    /// Its part in the comparison.
    pub name: ArmName,
    /// Its score by the gate's metric, in [0, 1].
    pub score: f64,
    /// The 95 % interval of the score (Agresti-Coull).
    pub interval: [f64; 2],
    /// The trained skill's score less this one, in [-1, 1]; `None` for the trained skill itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub difference: Option<f64>,
    /// The 95 % interval of the difference.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub difference_interval: Option<[f64; 2]>,
}

/// An arm that the run has not measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MissingArm {
    /// Its part in the comparison.
    pub name: ArmName,
    /// How it is added; empty until the program that has commands says it.
    pub command: String,
}

/// The title of an arm.
pub fn arm_title(name: ArmName) -> &'static str {
    match name {
        ArmName::NoSkill => "no skill at all",
        ArmName::Initial => "initial skill",
        ArmName::OneShot => "one-shot skill",
        ArmName::Trained => "trained skill",
    }
}

impl Verdict {
    /// The skills on the test split as a table in plain text, and the commands that add what is missing; empty where there
    /// is nothing besides the verdict's own numbers.
    pub fn arms_text(&self) -> String {
        let mut text = String::new();
        if self.arms.iter().all(|arm| matches!(arm.name, ArmName::Initial | ArmName::Trained)) {
            return text;
        }
        for arm in &self.arms {
            let [low, high] = arm.interval.map(|bound| bound * 100.0);
            let score = format!("{} ({low:.1} to {high:.1})", percent(arm.score));
            let _ = write!(text, "{:<16} {score:<24}", arm_title(arm.name));
            if let (Some(difference), Some([low, high])) = (arm.difference, arm.difference_interval) {
                let bounds = format!("{:+.1} to {:+.1}", low * 100.0, high * 100.0);
                let _ = write!(text, " trained skill {} ({bounds})", points(difference));
            }
            text.truncate(text.trim_end().len());
            text.push('\n');
        }
        for arm in &self.missing_arms {
            let _ = writeln!(text, "{:<16} not measured: `{}` adds it", arm_title(arm.name), arm.command);
        }
        text
    }
}
