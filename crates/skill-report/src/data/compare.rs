//! Two runs side by side.

use super::any::AnyReport;
use super::bank::{BankComparison, BankReport};
use super::epochs::Maker;
use super::headline::Comparison;
use super::standing::RunPhase;
use super::{Report, StageRow};
use crate::verdict::{TestArm, arm_title};
use crate::words::counted;
use crate::{LEVEL, ReportError};
use serde::Serialize;
use serde_json::Value;
use skill_core::stats::score_interval;
use skill_core::{Gate, GateMetric, ItemScore, RolloutResult};
use skill_pipeline::error::{SettingChange, describe_changes};
use skill_pipeline::identity::{data_of, scoring_changes};
use skill_pipeline::records::arm::ArmName;
use skill_pipeline::records::{RunIdentity, StageTokens};
use skill_pipeline::run_dir::EvaluationDir;
use skill_pipeline::stage::evaluate::by_item;
use skill_pipeline::{PipelineError, RunReader};
use std::collections::{BTreeMap, BTreeSet};

/// The most items that a comparison names.
const MAX_ITEMS: usize = 2_000;

/// Two runs, and their best skills or banks on the items that both have measured.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunComparison {
    /// The two runs.
    pub runs: [RunSide; 2],
    /// The metric of all scores here: that of the first run's gate.
    pub metric: GateMetric,
    /// The settings that are not the same in both, by name.
    pub settings: Vec<SettingDifference>,
    /// The best skill of the first run and that of the second on the test items of both; `None` if there are none.
    pub test: Option<Comparison>,
    /// The same on the selection items of both.
    pub selection: Option<Comparison>,
    /// The items that both have measured, each with its outcome under the two best skills; what differs comes first.
    pub items: Vec<PairedItem>,
    /// Of which split these are: `test`, or else `selection`.
    pub items_split: &'static str,
    /// How many items are left out for their number: first those that come out the same.
    pub n_items_left_out: usize,
    /// What the comparison does not say, one sentence each.
    pub not_compared: Vec<String>,
}

/// An item under the best skills of two runs; with several draws, solved in at least half of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PairedItem {
    /// The item.
    pub id: String,
    /// Its kind, where items have one.
    pub task_type: String,
    /// Who solved it.
    pub outcome: PairedOutcome,
}

/// Which of two runs solves an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PairedOutcome {
    /// The first run alone.
    OnlyFirst,
    /// The second run alone.
    OnlySecond,
    /// Neither.
    Neither,
    /// Both.
    Both,
}

/// One of two runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunSide {
    /// The name of its directory.
    pub name: String,
    /// What it trains.
    pub trains: TrainedKind,
    /// The environment.
    pub env: String,
    /// Steps that are finished; rounds of a run that trains a bank.
    pub n_steps: usize,
    /// Whether it has come to its end.
    pub is_finished: bool,
    /// Candidates that were measured; trials of a run that trains a bank.
    pub n_candidates: usize,
    /// Candidates that were accepted, or admitted.
    pub n_accepted: usize,
    /// The step that made its best skill; 0 is the initial one, and of a run that trains a bank.
    pub best_step: u32,
    /// What made its best skill, in words; of a run that trains a bank, how many skills are active.
    pub best_skill: String,
    /// The metric of its own gate.
    pub metric: Option<GateMetric>,
    /// The score of its best skill on its validation split.
    pub selection: Option<f64>,
    /// The 95 % interval of that score (Agresti-Coull).
    pub selection_interval: Option<[f64; 2]>,
    /// The score of its best skill on its test split.
    pub test: Option<f64>,
    /// The 95 % interval of that score.
    pub test_interval: Option<[f64; 2]>,
    /// The score of its initial skill on its test split, or the score without the bank.
    pub test_before: Option<f64>,
    /// What it measured on its test split beside its best skill, such as no skill and a one-shot rewrite; of a document.
    pub arms: Vec<TestArm>,
    /// Tokens of the target for each task of the validation split under its initial skill, where they were counted.
    pub tokens_per_task_before: Option<f64>,
    /// The same under its best skill.
    pub tokens_per_task: Option<f64>,
    /// The length of its best skill in tokens, estimated; of a document.
    pub skill_tokens: Option<u64>,
    /// Calls that it made.
    pub calls: u64,
    /// Tokens of prompts and replies.
    pub tokens: u64,
    /// What they cost, where all prices are known.
    pub money: Option<f64>,
    /// True if nothing was sent for the replies of the run: a replay, for example.
    pub is_replay: bool,
}

/// A skill beside the best one on the test splits of two runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ComparedArm {
    /// What it is, such as `initial skill`.
    pub title: &'static str,
    /// What each run measured.
    pub sides: [Option<TestArm>; 2],
}

impl RunComparison {
    /// What the runs measured on their test splits beside their best skills; empty for banks and for runs that are not finished.
    pub fn arm_rows(&self) -> Vec<ComparedArm> {
        let names = [ArmName::NoSkill, ArmName::Initial, ArmName::OneShot].into_iter();
        let rows = names.map(|name| {
            let arm = |side: &RunSide| side.arms.iter().find(|arm| arm.name == name).cloned();
            ComparedArm { title: arm_title(name), sides: self.runs.each_ref().map(arm) }
        });
        rows.filter(|row| row.sides.iter().any(Option::is_some)).collect()
    }
}

/// What a run trains.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TrainedKind {
    /// One skill document.
    Document,
    /// A bank of skills.
    Bank,
}

/// A setting of two values.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SettingDifference {
    /// Its name, such as `gate.metric`.
    pub key: String,
    /// What it is in each run; null where it is not there.
    pub values: [Value; 2],
}

impl RunComparison {
    /// Compares two runs, each with its report; scores are by the metric of `gate`.
    ///
    /// # Errors
    ///
    /// A file of a run that cannot be read or is not what it should be.
    pub fn of(runs: [(&RunReader, &AnyReport); 2], gate: Gate) -> Result<Self, ReportError> {
        let [first, second] = runs;
        let mut selection = [selection_results(first)?, selection_results(second)?];
        let mut test = [test_results(first)?, test_results(second)?];
        let sides = [
            side(first.1, gate, [&selection[0], &test[0]])?,
            side(second.1, gate, [&selection[1], &test[1]])?,
        ];
        let identities = runs.map(|(run, _)| &run.config().identity);
        let mut not_compared = Vec::new();
        for (name, split, results) in [("validation", "val", &mut selection), ("test", "test", &mut test)] {
            let others = leave_out_others(name, split, identities, results);
            let [before, after] = &*results;
            not_compared.extend(others.or_else(|| unshared(name, before, after)));
            not_compared.extend(differently_drawn(name, before, after));
        }
        for (_, report) in runs {
            if let Some(metric) = report.metric().filter(|metric| *metric != gate.metric) {
                not_compared.push(format!(
                    "The gate of {} went by the {} metric; every score here is by the {} metric, that of the first run.",
                    report.name(),
                    metric.as_str(),
                    gate.metric.as_str()
                ));
            }
            if !report.is_finished() {
                not_compared.push(format!("The run {} is not finished.", report.name()));
            }
        }
        let compare = |[before, after]: &[Vec<RolloutResult>; 2]| Comparison::of(gate, before, after);
        let of_test = items(&test);
        let (items_split, mut items) =
            if of_test.is_empty() { ("selection", items(&selection)) } else { ("test", of_test) };
        let n_items_left_out = items.len().saturating_sub(MAX_ITEMS);
        items.truncate(MAX_ITEMS);
        Ok(Self {
            items,
            items_split,
            n_items_left_out,
            runs: sides,
            metric: gate.metric,
            settings: settings(&first.0.config().config, &second.0.config().config),
            test: compare(&test),
            selection: compare(&selection),
            not_compared,
        })
    }
}

/// The items of both, what differs first.
fn items([first, second]: &[Vec<RolloutResult>; 2]) -> Vec<PairedItem> {
    let is_solved =
        |draws: &[ItemScore]| 2 * draws.iter().filter(|draw| draw.is_success()).count() >= draws.len();
    let known: BTreeMap<_, bool> =
        by_item(first).map(|(result, draws)| (&result.id, is_solved(&draws))).collect();
    let paired = by_item(second).filter_map(|(result, draws)| {
        let outcome = match (known.get(&result.id)?, is_solved(&draws)) {
            (true, true) => PairedOutcome::Both,
            (true, false) => PairedOutcome::OnlyFirst,
            (false, true) => PairedOutcome::OnlySecond,
            (false, false) => PairedOutcome::Neither,
        };
        let (id, task_type) = (result.id.as_str().to_owned(), result.task_type.clone());
        Some(PairedItem { id, task_type, outcome })
    });
    let mut items: Vec<PairedItem> = paired.collect();
    items.sort_by_key(|item| item.outcome);
    items
}

/// A run, with the results of its best skill on the selection and on the test split.
fn side(report: &AnyReport, gate: Gate, results: [&[RolloutResult]; 2]) -> Result<RunSide, ReportError> {
    let measured = results.map(|results| {
        let score = gate.score(skill_core::MeanScore::of_results(results));
        let n_items = by_item(results).count();
        (n_items > 0).then(|| (score, score_interval(score, n_items, LEVEL)))
    });
    match report {
        AnyReport::Document(report) => Ok(document_side(report, measured)),
        AnyReport::Bank(report) => Ok(bank_side(report, measured)),
        AnyReport::Sft(_) | AnyReport::Rl(_) | AnyReport::Phases(_) => {
            Err(ReportError::NotCompared { name: report.name().to_owned() })
        }
    }
}

/// A score with its interval.
type Measured = Option<(f64, [f64; 2])>;

fn document_side(report: &Report, [selection, test]: [Measured; 2]) -> RunSide {
    let headline = report.headline.as_ref();
    let best = report.front.iter().find(|row| row.is_best);
    let used = used(&report.stages);
    RunSide {
        name: report.name.clone(),
        trains: TrainedKind::Document,
        env: report.env.clone(),
        n_steps: report.n_steps,
        is_finished: report.is_finished,
        n_candidates: headline.map_or(0, |headline| headline.n_candidates),
        n_accepted: headline.map_or(0, |headline| headline.n_accepted),
        best_step: headline.map_or(0, |headline| headline.best_step),
        best_skill: headline
            .map_or_else(|| "not measured".to_owned(), |headline| headline.best_skill.clone()),
        metric: headline.map(|headline| headline.metric),
        selection: selection.map(|(score, _)| score),
        selection_interval: selection.map(|(_, interval)| interval),
        test: test.map(|(score, _)| score),
        test_interval: test.map(|(_, interval)| interval),
        test_before: headline.and_then(|headline| headline.test.as_ref()).map(|test| test.before),
        arms: report.verdict.arms.iter().filter(|arm| arm.name != ArmName::Trained).cloned().collect(),
        tokens_per_task_before: report.front.first().and_then(|row| row.tokens),
        tokens_per_task: best.and_then(|row| row.tokens),
        skill_tokens: best.map(|row| row.skill_tokens),
        calls: used.calls,
        tokens: used.tokens(),
        money: report.total.as_ref().and_then(|total| total.money),
        is_replay: report.sent.is_replay,
    }
}

/// Where the run kept no results of single items, its scores are those of its records.
fn bank_side(report: &BankReport, [selection, test]: [Measured; 2]) -> RunSide {
    let recorded = |of: &Option<BankComparison>| of.as_ref().map(|of| (of.after.hard, of.after.interval));
    let (selection, test) = (selection.or(recorded(&report.selection)), test.or(recorded(&report.test)));
    let used = used(&report.stages);
    RunSide {
        name: report.name.clone(),
        trains: TrainedKind::Bank,
        env: report.env.clone(),
        n_steps: report.rounds.len(),
        is_finished: report.phase == RunPhase::Finished,
        n_candidates: report.tried.all,
        n_accepted: report.tried.admitted,
        best_step: 0,
        best_skill: format!("a bank of {}", counted(report.counts.active as u64, "skill")),
        metric: Some(GateMetric::Hard),
        selection: selection.map(|(score, _)| score),
        selection_interval: selection.map(|(_, interval)| interval),
        test: test.map(|(score, _)| score),
        test_interval: test.map(|(_, interval)| interval),
        test_before: report.test.as_ref().map(|test| test.before.hard),
        arms: Vec::new(),
        tokens_per_task_before: None,
        tokens_per_task: None,
        skill_tokens: None,
        calls: used.calls,
        tokens: used.tokens(),
        money: report.total.as_ref().and_then(|total| total.money),
        is_replay: report.sent.is_replay,
    }
}

fn used(stages: &[StageRow]) -> StageTokens {
    stages.iter().fold(StageTokens::default(), |mut all, row| {
        all += row.used;
        all
    })
}

/// The best skill, or the bank of the last validation, on the validation split.
fn selection_results((run, report): (&RunReader, &AnyReport)) -> Result<Vec<RolloutResult>, PipelineError> {
    let place = match report {
        AnyReport::Bank(report) => match report.last_validation() {
            Some((round, _)) => EvaluationDir::Round(round),
            None => EvaluationDir::Baseline,
        },
        AnyReport::Document(_) => {
            let Some(state) = run.state()? else { return Ok(Vec::new()) };
            let place = Maker::of_best(&state, run.summary()?.as_ref()).measured(&run.history()?);
            run.check_measured(place)?;
            place
        }
        AnyReport::Sft(_) | AnyReport::Rl(_) | AnyReport::Phases(_) => return Ok(Vec::new()),
    };
    Ok(run.results(place)?.unwrap_or_default())
}

/// The best skill, or the last bank, on the test split; a best skill that is the first one was measured once.
fn test_results((run, report): (&RunReader, &AnyReport)) -> Result<Vec<RolloutResult>, PipelineError> {
    if !report.is_finished() {
        return Ok(Vec::new());
    }
    let place = match report {
        AnyReport::Document(_) => tested(run)?,
        AnyReport::Bank(_) | AnyReport::Sft(_) | AnyReport::Rl(_) | AnyReport::Phases(_) => {
            Some(EvaluationDir::TestBest)
        }
    };
    match place {
        Some(place) => Ok(run.results(place)?.unwrap_or_default()),
        None => Ok(Vec::new()),
    }
}

/// Where the best skill of a finished run was measured on the test split; `None` if the run did not read it.
///
/// # Errors
///
/// A file that cannot be read, and results that the run has lost.
pub(crate) fn tested(run: &RunReader) -> Result<Option<EvaluationDir>, PipelineError> {
    let (Some(state), Some(summary)) = (run.state()?, run.summary()?) else { return Ok(None) };
    let place = Maker::of_best(&state, Some(&summary)).tested(&run.history()?);
    if summary.test().is_some() {
        run.check_measured(place)?;
    }
    Ok(Some(place))
}

/// Keeps the items that are the same in both runs, and says so where a run is of other data, labels or another scorer: an
/// id may be the number of a row. What a run does not record is taken to be the same.
fn leave_out_others(
    name: &str,
    split: &str,
    identities: [&RunIdentity; 2],
    results: &mut [Vec<RolloutResult>; 2],
) -> Option<String> {
    let is_recorded = identities.iter().all(|identity| identity.contains_key(&data_of(split)));
    if !is_recorded || results.iter().any(Vec::is_empty) {
        return None;
    }
    let changes = scoring_changes(identities[0], identities[1], split);
    if changes.is_empty() {
        return None;
    }
    let is_scored_alike = changes.iter().all(|change| matches!(change, SettingChange::Data { .. }));
    // What was asked, and what a right answer is.
    let text = |result: &RolloutResult| {
        let texts = [&result.question, &result.task_description, &result.reference_text, &result.task_type];
        let is_known = !result.question.is_empty() || !result.task_description.is_empty();
        is_known.then(|| texts.map(Clone::clone))
    };
    let [first, second] = &*results;
    let known: BTreeMap<_, _> = first.iter().map(|result| (&result.id, text(result))).collect();
    let is_same = |result: &RolloutResult| {
        let text = text(result);
        is_scored_alike && text.is_some() && known.get(&result.id) == Some(&text)
    };
    let same: BTreeSet<_> =
        second.iter().filter(|result| is_same(result)).map(|result| result.id.clone()).collect();
    for results in results {
        results.retain(|result| same.contains(&result.id));
    }
    let compared = match same.len() {
        0 => "no item is compared".to_owned(),
        n_same => {
            format!("{} with the same text and label are compared", counted(n_same as u64, "item"))
        }
    };
    let changes = describe_changes(&changes);
    Some(format!(
        "The runs differ in the items of the {name} split or in how they are scored ({changes}): {compared}."
    ))
}

/// Says which items only one of two evaluations has.
fn unshared(split: &str, before: &[RolloutResult], after: &[RolloutResult]) -> Option<String> {
    let ids =
        |results: &[RolloutResult]| results.iter().map(|result| result.id.clone()).collect::<BTreeSet<_>>();
    let (before, after) = (ids(before), ids(after));
    let n_shared = before.intersection(&after).count();
    let n_other = before.symmetric_difference(&after).count();
    if before.is_empty() && after.is_empty() {
        return Some(format!("Neither run has measured its best skill on the {split} split."));
    }
    (n_other > 0).then(|| {
        format!(
            "{n_other} items of the {split} split were measured by one run alone; {n_shared} are compared."
        )
    })
}

/// Says which items of both cannot be paired: one run tried them more often than the other.
fn differently_drawn(split: &str, first: &[RolloutResult], second: &[RolloutResult]) -> Option<String> {
    let n_draws: BTreeMap<_, usize> =
        by_item(first).map(|(result, draws)| (&result.id, draws.len())).collect();
    let other = by_item(second)
        .filter_map(|(result, draws)| Some((*n_draws.get(&result.id)?, draws.len())))
        .filter(|(first, second)| first != second);
    let other: Vec<(usize, usize)> = other.collect();
    let (of_first, of_second) = other.first()?;
    Some(format!(
        "{} items of the {split} split were not tried equally often ({of_first} and {of_second} draws of each): their \
         scores are not compared.",
        other.len()
    ))
}

fn settings(first: &Value, second: &Value) -> Vec<SettingDifference> {
    let mut all: BTreeMap<String, [Value; 2]> = BTreeMap::new();
    flattened(first, "", &mut |key, value| all.entry(key).or_default()[0] = value.clone());
    flattened(second, "", &mut |key, value| all.entry(key).or_default()[1] = value.clone());
    let differ = all.into_iter().filter(|(_, [first, second])| first != second);
    differ.map(|(key, values)| SettingDifference { key, values }).collect()
}

/// Calls `found` for each setting below this value, by its name: the keys on the way to it, joined by dots.
pub fn flattened(value: &Value, key: &str, found: &mut impl FnMut(String, &Value)) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let key = if key.is_empty() { name.clone() } else { format!("{key}.{name}") };
                flattened(value, &key, found);
            }
        }
        other => found(key.to_owned(), other),
    }
}
