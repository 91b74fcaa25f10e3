//! What the arms of an agent come to: controls first, then differences with intervals.

use super::arms::Measured;
use crate::against::describe;
use crate::table::counted;
use serde::Serialize;
use serde_json::Value;
use skillrl::core::{Gate, ItemId, RolloutResult, SkillPackage};
use skillrl::envs::evals::control::{Excluded, names_the_method, tests_something};
use skillrl::envs::evals::{Case, CaseSet, checks_of, is_over_time};
use skillrl::pipeline::records::evaluation::Activations;
use skillrl::reports::words::percent;
use skillrl::reports::{Comparison, LEVEL};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// A case, with what is known of it.
#[derive(Debug, Serialize)]
pub(super) struct CaseRow {
    pub(super) id: String,
    /// Why it is in no verdict, and not run.
    pub(super) excluded: Option<Excluded>,
    /// Every run of every arm comes out the same: it shows no difference, and stays in the rates.
    pub(super) no_signal: bool,
    /// Where no run passes: a check that fails, with what shows it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) fails: Option<String>,
    /// Files by which the agent may have decided its own verdict, in runs that pass.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub(super) edited: BTreeSet<String>,
    /// Passed runs of each arm.
    pub(super) passed: BTreeMap<&'static str, usize>,
}

/// An arm over the cases that count, which alone are run.
#[derive(Debug, Serialize)]
pub(super) struct ArmOutcome {
    pub(super) name: &'static str,
    pub(super) title: String,
    pub(super) pass_rate: f64,
    /// The share of cases of which every run passes.
    pub(super) pass_all: f64,
    pub(super) tokens: f64,
    pub(super) seconds: f64,
    pub(super) dollars: Option<f64>,
    pub(super) activations: Option<Activations>,
    /// Runs that ended at the time limit, and failed for that.
    pub(super) over_time: usize,
}

/// A difference between the current skill and another arm.
#[derive(Debug, Serialize)]
pub(super) struct Difference {
    pub(super) against: &'static str,
    pub(super) comparison: Comparison,
    pub(super) verdict: VerdictOf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum VerdictOf {
    Better,
    Worse,
    NotShown,
    /// The skill was never loaded, so its text was not tested.
    NotTested,
}

/// All of it for one agent.
#[derive(Debug, Serialize)]
pub(super) struct Outcome {
    pub(super) agent: String,
    pub(super) runs: usize,
    pub(super) cases: Vec<CaseRow>,
    pub(super) arms: Vec<ArmOutcome>,
    pub(super) differences: Vec<Difference>,
    /// The current skill against an earlier measurement of it, on the cases that count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) against: Option<Comparison>,
}

/// What a prompt names where it names a skill.
pub(super) struct Naming {
    /// Its folder, and the name in its front matter.
    names: [String; 2],
    files: Vec<String>,
}

impl Naming {
    pub(super) fn of(folder: String, package: &SkillPackage) -> Self {
        let named = skill_agents::Skill::new(folder.clone(), package.clone()).map(|skill| skill.name);
        let files = package.files().map(|(path, ..)| path.to_owned()).collect();
        Self { names: [folder, named.unwrap_or_default()], files }
    }

    /// True if the prompt of a case names the skill or one of its files.
    pub(super) fn is_in(&self, case: &Case) -> bool {
        let names = self.names.each_ref().map(String::as_str);
        let files: Vec<&str> = self.files.iter().map(String::as_str).collect();
        names_the_method(&case.prompt, &names, &files)
    }
}

/// The cases that are in no verdict, by the control and by their prompts.
pub(super) fn excluded(control: &Measured, set: &CaseSet, naming: &Naming) -> BTreeMap<ItemId, Excluded> {
    let of_prompts: BTreeSet<&str> =
        set.cases.iter().filter(|case| naming.is_in(case)).map(|case| case.id.as_str()).collect();
    let why = |idle: &RolloutResult| match tests_something(&checks_of(idle)) {
        false => Some(Excluded::TestsNothing),
        true => of_prompts.contains(idle.id.as_str()).then_some(Excluded::NamesTheMethod),
    };
    control.results.iter().filter_map(|idle| Some((idle.id.clone(), why(idle)?))).collect()
}

/// The cases, with what the arms show of those that count.
pub(super) fn cases(
    control: &Measured,
    arms: &[Measured],
    excluded: &BTreeMap<ItemId, Excluded>,
) -> Vec<CaseRow> {
    let of_case = |arm: &Measured, id: &ItemId| -> Vec<bool> {
        arm.results.iter().filter(|result| result.id == *id).map(RolloutResult::is_success).collect()
    };
    control
        .results
        .iter()
        .map(|idle| {
            let excluded = excluded.get(&idle.id).copied();
            let all: Vec<bool> = arms.iter().flat_map(|arm| of_case(arm, &idle.id)).collect();
            let passed =
                |arm: &Measured| of_case(arm, &idle.id).into_iter().filter(|is_passed| *is_passed).count();
            let is_failed = all.iter().all(|is_passed| !is_passed);
            let last = arms.iter().rev().flat_map(|arm| &arm.results).find(|result| result.id == idle.id);
            CaseRow {
                id: idle.id.as_str().to_owned(),
                excluded,
                edited: arms.iter().flat_map(|arm| edited(arm, &idle.id)).collect(),
                fails: last.filter(|_| is_failed).and_then(first_failure),
                no_signal: excluded.is_none() && (is_failed || all.iter().all(|is_passed| *is_passed)),
                passed: arms
                    .iter()
                    .filter(|_| excluded.is_none())
                    .map(|arm| (arm.name, passed(arm)))
                    .collect(),
            }
        })
        .collect()
}

/// Files that passing checks of a case may have been decided by, since a run has changed them.
fn edited(arm: &Measured, id: &ItemId) -> impl Iterator<Item = String> {
    let rows = arm.results.iter().filter(|result| result.id == *id).flat_map(checks_of);
    rows.filter(|row| row.passed).flat_map(|row| row.edited)
}

/// The first check that a run fails, with what shows it, in a line.
fn first_failure(result: &RolloutResult) -> Option<String> {
    const MAX_CHARS: usize = 160;
    let row = checks_of(result).into_iter().find(|row| !row.passed && !row.is_shown_only)?;
    let line = format!("{}: {}", row.text, row.evidence);
    let words: Vec<&str> = line.split_whitespace().collect();
    let line = words.join(" ");
    let shown: String = line.chars().take(MAX_CHARS).collect();
    Some(if shown.len() < line.len() { format!("{shown} ..") } else { shown })
}

impl Outcome {
    pub(super) fn of(agent: &str, runs: usize, cases: Vec<CaseRow>, arms: &[Measured]) -> Self {
        let current = arms.iter().find(|arm| arm.name == super::CURRENT);
        let mut differences = Vec::new();
        for other in arms.iter().filter(|arm| arm.name != super::CURRENT) {
            let Some(current) = current else { continue };
            let compared = Comparison::of(Gate::default(), &other.results, &current.results);
            let Some(comparison) = compared else { continue };
            let never_loaded = Activations::of(&current.results).is_some_and(Activations::is_none);
            let [low, high] = comparison.difference_interval;
            let verdict = if never_loaded {
                VerdictOf::NotTested
            } else if low > 0.0 {
                VerdictOf::Better
            } else if high < 0.0 {
                VerdictOf::Worse
            } else {
                VerdictOf::NotShown
            };
            differences.push(Difference { against: other.name, comparison, verdict });
        }
        let arms = arms.iter().map(arm_outcome).collect();
        Self { agent: agent.to_owned(), runs, cases, arms, differences, against: None }
    }

    /// The results as text.
    pub(super) fn text(&self) -> String {
        let n_kept = self.cases.iter().filter(|case| case.excluded.is_none()).count();
        let mut text = format!(
            "{}: {n_kept} of {} in the verdict, {} each\n",
            self.agent,
            counted(self.cases.len() as u64, "case"),
            counted(self.runs as u64, "run")
        );
        for case in &self.cases {
            if let Some(excluded) = case.excluded {
                let _ = writeln!(text, "  excluded {}: {}", case.id, excluded.as_str());
            }
        }
        for case in self.cases.iter().filter(|case| case.no_signal && case.excluded.is_none()) {
            let how = match &case.fails {
                Some(failure) => format!("every run fails: {failure}"),
                None => "every run passes".to_owned(),
            };
            let _ = writeln!(text, "  no signal {}: {how}", case.id);
        }
        for case in self.cases.iter().filter(|case| !case.edited.is_empty()) {
            let files: Vec<&str> = case.edited.iter().map(String::as_str).collect();
            let _ = writeln!(
                text,
                "  warning {}: a run changed {}, which the command of a check names; `\"restore\": [..]` in the check brings it \
                 back",
                case.id,
                files.join(", ")
            );
        }
        let _ = writeln!(
            text,
            "\n  {:<10} {:>7} {:>9} {:>9} {:>8}  loaded",
            "arm", "passed", "every run", "tokens", "seconds"
        );
        for arm in &self.arms {
            let loaded = arm.activations.map_or_else(
                || "-".to_owned(),
                |activations| format!("{} of {}", activations.loaded, activations.runs),
            );
            let over = match arm.over_time {
                0 => String::new(),
                n => format!("  {} over the time limit", counted(n as u64, "run")),
            };
            let dollars = arm.dollars.map(|dollars| format!("  ${dollars:.4} a run")).unwrap_or_default();
            let _ = writeln!(
                text,
                "  {:<10} {:>7} {:>9} {:>9.0} {:>8.1}  {loaded}{dollars}{over}{}",
                arm.name,
                percent(arm.pass_rate),
                percent(arm.pass_all),
                arm.tokens,
                arm.seconds,
                if arm.title == arm.name { String::new() } else { format!("  ({})", arm.title) },
            );
        }
        text.push('\n');
        for difference in &self.differences {
            let _ = writeln!(text, "{}", difference.words(self.activations()));
        }
        if n_kept == 0 {
            text.push_str("no verdict: no case counts\n");
        }
        text.push_str(&self.against.as_ref().map(describe).unwrap_or_default());
        text
    }

    fn activations(&self) -> Option<Activations> {
        self.arms.iter().find(|arm| arm.name == super::CURRENT)?.activations
    }
}

impl Difference {
    fn words(&self, activations: Option<Activations>) -> String {
        let against = match self.against {
            super::NONE => "no skill",
            other => other,
        };
        let compared = &self.comparison;
        let [low, high] = compared.difference_interval;
        let points = |share: f64| format!("{:+.1}", share * 100.0);
        let numbers = format!(
            "{} points against {against} ({:.0} % interval {} to {}, {})",
            points(compared.difference),
            LEVEL * 100.0,
            points(low),
            points(high),
            counted(compared.n as u64, "case")
        );
        match (self.verdict, activations) {
            (VerdictOf::Better, _) => format!("better: {numbers}"),
            (VerdictOf::Worse, _) => format!("worse: {numbers}"),
            (VerdictOf::NotShown, _) => format!("no difference is shown: {numbers}"),
            (VerdictOf::NotTested, activations) => {
                let n = activations.map_or(0, |activations| activations.runs);
                format!("no verdict: the skill was activated in 0 of {n} runs, so its text was not tested")
            }
        }
    }
}

fn arm_outcome(arm: &Measured) -> ArmOutcome {
    let results = arm.results.as_slice();
    let n = results.len().max(1) as f64;
    let number = |result: &RolloutResult, key: &str| result.extras.get(key).and_then(Value::as_f64);
    let mean = |of: &dyn Fn(&RolloutResult) -> f64| results.iter().map(of).sum::<f64>() / n;
    let ids: BTreeSet<&ItemId> = results.iter().map(|result| &result.id).collect();
    let is_sure =
        |id: &&&ItemId| results.iter().filter(|result| result.id == ***id).all(RolloutResult::is_success);
    // What a run had cost that was ended at its time limit is not known.
    let n_ended = results.iter().filter(|result| !is_over_time(result)).count();
    let costs: Vec<f64> = results.iter().filter_map(|result| number(result, "cost")).collect();
    ArmOutcome {
        name: arm.name,
        title: arm.title.clone(),
        pass_rate: mean(&|result| result.hard),
        pass_all: ids.iter().filter(is_sure).count() as f64 / ids.len().max(1) as f64,
        tokens: tokens_of(results),
        seconds: mean(&|result| number(result, "seconds").unwrap_or_default()),
        dollars: (costs.len() >= n_ended && !costs.is_empty())
            .then(|| costs.iter().sum::<f64>() / costs.len() as f64),
        activations: Activations::of(results),
        over_time: results.iter().filter(|result| is_over_time(result)).count(),
    }
}

/// The mean tokens of the runs that ended within their time limit; those of the others are unknown.
fn tokens_of(results: &[RolloutResult]) -> f64 {
    let ended: Vec<f64> = results
        .iter()
        .filter(|result| !is_over_time(result))
        .map(|result| result.usage.tokens() as f64)
        .collect();
    ended.iter().sum::<f64>() / ended.len().max(1) as f64
}
