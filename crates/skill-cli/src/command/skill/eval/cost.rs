//! What the runs of a measurement cost: before it begins by runs on record, and while it is made.

use super::arms::Arm;
use super::outcome::Naming;
use super::{CURRENT, NONE, PREVIOUS};
use crate::agent_cases::prices_of;
use crate::args::skill::EvalSkillArgs;
use crate::outcomes::outcomes_in;
use crate::table::counted;
use serde::Deserialize;
use serde_json::{Map, Value};
use skill_agents::Agent;
use skillrl::core::RolloutResult;
use skillrl::core::usage::{Usage, dollars};
use skillrl::envs::evals::CaseSet;
use skillrl::llm::Prices;
use skillrl::llm::regular_file;
use skillrl::pipeline::records::evaluation::EvaluationSummary;
use skillrl::pipeline::run_dir::{RESULTS_FILE, SUMMARY_FILE};
use std::collections::BTreeSet;

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
    extras: Map<String, Value>,
    #[serde(default)]
    usage: Usage,
}

/// The dollars of a run: as the agent reports them, else by the price.
fn of_run(reported: Option<&Value>, usage: Usage, prices: Option<Prices>) -> Option<f64> {
    reported.and_then(Value::as_f64).or_else(|| Some(prices?.cost(usage)))
}

/// How many runs of an arm are on record where the measurement is kept, unless it is made again.
pub(super) fn n_measured(args: &EvalSkillArgs, agent: &Agent, arm: &Arm) -> usize {
    let out = args.measurement.out.as_ref().filter(|_| !args.measurement.force);
    let Some(dir) = out.map(|out| out.join(&agent.name).join(arm.name)) else { return 0 };
    // What cannot be read is refused where it is needed.
    let read = |name: &str| regular_file::read(&dir.join(name)).unwrap_or_default();
    let summary = serde_json::from_slice::<EvaluationSummary>(&read(SUMMARY_FILE)).ok();
    let results = || serde_json::from_slice::<Vec<Recorded>>(&read(RESULTS_FILE)).unwrap_or_default();
    summary.filter(|summary| summary.skill_hash == arm.skill.hash()).map_or(0, |_| results().len())
}

/// How many cases are in no verdict, and so not run: those whose prompt names the skill, and those that the control on
/// record leaves out.
pub(super) fn n_excluded(args: &EvalSkillArgs, agent: &Agent, set: &CaseSet, naming: &Naming) -> usize {
    let out = args.measurement.out.as_ref().filter(|_| !args.measurement.force);
    let recorded = out.map(|out| outcomes_in(&out.join(&agent.name))).unwrap_or_default();
    let rows = recorded.iter().filter_map(|kept| kept.pointer("/outcome/cases")?.as_array()).flatten();
    let of_control: BTreeSet<&str> = rows
        .filter(|row| row.get("excluded").is_some_and(Value::is_string))
        .filter_map(|row| row.get("id")?.as_str())
        .collect();
    set.cases.iter().filter(|case| of_control.contains(case.id.as_str()) || naming.is_in(case)).count()
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
