//! What the runs of a measurement cost: before it begins by runs on record, and while it is made.

use super::arms::Arm;
use super::outcome::Naming;
use super::{CURRENT, IDLE, NONE, PREVIOUS};
use crate::agent_cases::prices_of;
use crate::args::skill::EvalSkillArgs;
use crate::outcomes::outcomes_in;
use crate::table::counted;
use serde::Deserialize;
use serde_json::{Map, Value};
use skill_agents::Agent;
use skillrl::core::RolloutResult;
use skillrl::core::usage::{Usage, dollars};
use skillrl::envs::Item;
use skillrl::envs::evals::{Case, CaseSet};
use skillrl::llm::Prices;
use skillrl::llm::regular_file;
use skillrl::measurement::unchanged;
use skillrl::pipeline::records::evaluation::EvaluationSummary;
use skillrl::pipeline::run_dir::{RESULTS_FILE, SUMMARY_FILE};
use std::collections::BTreeSet;
use std::path::PathBuf;

/// Runs whose cost is known.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Known {
    /// US dollars of all of them.
    dollars: f64,
    /// How many they are.
    pub(super) n_runs: usize,
}

/// Of a result on record, what it took.
#[derive(Deserialize)]
struct Recorded {
    #[serde(default)]
    id: String,
    #[serde(default)]
    extras: Map<String, Value>,
    #[serde(default)]
    usage: Usage,
}

/// The dollars of a run: as the agent reports them, else by the price.
fn of_run(reported: Option<&Value>, usage: Usage, prices: Option<Prices>) -> Option<f64> {
    reported.and_then(Value::as_f64).or_else(|| Some(prices?.cost(usage)))
}

/// What is going to be run, beside what is on record.
pub(super) struct Plan<'a> {
    pub(super) args: &'a EvalSkillArgs,
    pub(super) set: &'a CaseSet,
    pub(super) naming: &'a Naming,
    /// The cases as tasks; none where they cannot be used, and then nothing is on record.
    pub(super) items: &'a [Item],
}

impl Plan<'_> {
    /// Where an arm is on record, unless it is measured again, and its cases that have not changed since.
    fn recorded(&self, agent: &Agent, arm: &str) -> Option<(PathBuf, BTreeSet<&str>)> {
        let out = self.args.measurement.out.as_ref().filter(|_| !self.args.measurement.force)?;
        let dir = out.join(&agent.name).join(arm);
        let same = unchanged(&dir, self.items).map(|item| item.id.as_str()).collect();
        Some((dir, same))
    }

    /// The cases that are run: neither does the prompt name the skill, nor does the control on record exclude them.
    pub(super) fn counting(&self, agent: &Agent) -> BTreeSet<&str> {
        let (dir, same) = self.recorded(agent, IDLE).unwrap_or_default();
        // Without the recorded exclusions the plan overestimates the runs.
        let recorded = dir.parent().and_then(|dir| outcomes_in(dir).ok()).unwrap_or_default();
        let rows = recorded.iter().filter_map(|kept| kept.pointer("/outcome/cases")?.as_array()).flatten();
        let excluded: BTreeSet<&str> = rows
            .filter(|row| row.get("excluded").is_some_and(Value::is_string))
            .filter_map(|row| row.get("id")?.as_str())
            .filter(|id| same.contains(id))
            .collect();
        let is_run = |case: &&Case| !excluded.contains(case.id.as_str()) && !self.naming.is_in(case);
        self.set.cases.iter().filter(is_run).map(|case| case.id.as_str()).collect()
    }

    /// How many runs of these cases an arm lacks.
    pub(super) fn n_left(&self, agent: &Agent, arm: &Arm, counting: &BTreeSet<&str>) -> usize {
        let runs = usize::from(self.args.runs);
        let (dir, same) = self.recorded(agent, arm.name).unwrap_or_default();
        // What cannot be read is refused where it is needed.
        let read = |name: &str| regular_file::read(&dir.join(name)).unwrap_or_default();
        let summary = serde_json::from_slice::<EvaluationSummary>(&read(SUMMARY_FILE)).ok();
        let is_of_arm = summary.is_some_and(|summary| summary.skill_hash == arm.skill.hash());
        let results: Vec<Recorded> = match is_of_arm {
            true => serde_json::from_slice(&read(RESULTS_FILE)).unwrap_or_default(),
            false => Vec::new(),
        };
        let n_recorded =
            |id: &str| results.iter().filter(|result| result.id == id && same.contains(id)).count();
        counting.iter().map(|id| runs.saturating_sub(n_recorded(id))).sum()
    }
}

impl Known {
    /// What an agent's runs in `--out`, else in `--against`, cost.
    pub(super) fn on_record(args: &EvalSkillArgs, agent: &Agent) -> Self {
        let places = [&args.measurement.out, &args.measurement.against].into_iter().flatten();
        let of_place = |place: &std::path::PathBuf| {
            let mut known = Self::default();
            for arm in [NONE, PREVIOUS, CURRENT] {
                let path = place.join(&agent.name).join(arm).join(RESULTS_FILE);
                // Results that cannot be read are refused where they are needed; here they predict no cost.
                let Ok(bytes) = regular_file::read(&path) else { continue };
                let results: Vec<Recorded> = serde_json::from_slice(&bytes).unwrap_or_default();
                let costs = results.iter().filter_map(|result| {
                    of_run(result.extras.get("cost"), result.usage, prices_of(&args.common))
                });
                costs.for_each(|cost| known.add(cost));
            }
            known
        };
        places.map(of_place).find(|known| known.n_runs > 0).unwrap_or_default()
    }

    /// Adds the runs of an arm; returns what they cost.
    pub(super) fn add_results(&mut self, results: &[RolloutResult], prices: Option<Prices>) -> f64 {
        let before = self.dollars;
        let costs =
            results.iter().filter_map(|result| of_run(result.extras.get("cost"), result.usage, prices));
        costs.for_each(|cost| self.add(cost));
        self.dollars - before
    }

    fn add(&mut self, cost: f64) {
        self.dollars += cost;
        self.n_runs += 1;
    }

    /// What so many runs would cost at the mean of these; `None` where nothing is known.
    pub(super) fn of_runs(self, n: usize) -> Option<f64> {
        (self.n_runs > 0).then(|| self.dollars / self.n_runs as f64 * n as f64)
    }

    /// The cost of so many runs in words.
    pub(super) fn words(self, n: usize) -> Option<String> {
        let most = self.of_runs(n)?;
        let n_runs = counted(self.n_runs as u64, "run");
        Some(format!("about {} at the mean of {n_runs} on record", dollars(most)))
    }
}
