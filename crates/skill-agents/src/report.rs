//! The report of a measurement: how often a skill is loaded where it should be, and where it should not.

use crate::measure::{Measured, Record};
use crate::outcome::TriggerOutcome;
use crate::query::{Query, beginning};
use crate::rates::{Rate, Stratum, rate};
use serde::Serialize;
use skill_core::stats::sign_flip_p;
use std::collections::{BTreeMap, BTreeSet};

/// The rates of one skill.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SkillRates {
    /// The share of runs in which it was loaded, of queries for which it should be.
    pub recall: Option<Rate>,
    /// The same of queries for which it should not be.
    pub false_positives: Option<Rate>,
    /// The same of those of them that are near misses.
    pub near_misses: Option<Rate>,
    /// Runs in which the model tried to load it and did not get its text.
    pub attempted: usize,
    /// Tokens of its entry in the listing, estimated.
    pub listing_tokens: usize,
}

/// What became of one query.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct QueryRow {
    /// Its name.
    pub id: String,
    /// Its text.
    pub query: String,
    /// The skill that should be loaded.
    pub skill: Option<String>,
    /// It is a near miss.
    pub near_miss: bool,
    /// Runs that count.
    pub runs: usize,
    /// Runs in which each skill was loaded.
    pub loaded: BTreeMap<String, usize>,
    /// Runs by the outcome of the skill that should be loaded, or of the only one.
    pub outcomes: BTreeMap<TriggerOutcome, usize>,
    /// The mean turn of the first load of that skill.
    pub first_turn: Option<f64>,
    /// The model answered in one reply and without any tool, in every run, and loaded nothing.
    pub solved_without: bool,
}

/// A run that failed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FailedRun {
    /// The query.
    pub query: String,
    /// The repetition.
    pub repetition: usize,
    /// Why.
    pub why: String,
    /// What the program said.
    pub message: String,
}

impl FailedRun {
    /// Why, with the beginning of what the program said.
    pub fn said(&self) -> String {
        const MAX_CHARS: usize = 300;
        let message: String = self.message.trim().chars().take(MAX_CHARS).collect();
        match message.as_str() {
            "" => self.why.clone(),
            message => format!("{}: {message}", self.why),
        }
    }
}

/// The report.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TriggerReport {
    /// The agent.
    pub agent: String,
    /// Versions that its records name.
    pub versions: Vec<String>,
    /// Models that its records name.
    pub models: Vec<String>,
    /// Repetitions of each query.
    pub repetitions: usize,
    /// Runs that were planned.
    pub planned: usize,
    /// Runs that came to a result.
    pub counted: usize,
    /// By skill.
    pub skills: BTreeMap<String, SkillRates>,
    /// By query.
    pub queries: Vec<QueryRow>,
    /// Which skills were loaded (inner) for queries of which skill (outer), in runs; `none` is a query of no skill.
    pub confusions: BTreeMap<String, BTreeMap<String, usize>>,
    /// Runs that failed; they are in no rate.
    pub failed: Vec<FailedRun>,
    /// Tokens of prompts of all runs.
    pub input: u64,
    /// Tokens of replies of all runs.
    pub output: u64,
    /// US dollars, where the agent reports them.
    pub cost: Option<f64>,
    /// What the reader should know.
    pub warnings: Vec<String>,
}

/// The recall of a skill before and now, on the queries that both measurements have.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct RecallChange {
    /// Queries of both.
    pub queries: usize,
    /// The mean recall before.
    pub before: f64,
    /// The mean recall now.
    pub now: f64,
    /// The one-sided p-value of a drop.
    pub p: f64,
}

impl RecallChange {
    /// True if the recall has dropped by more than chance would give, at this level of the test.
    pub fn has_dropped(&self, alpha: f64) -> bool {
        self.now < self.before && self.p <= alpha
    }
}

impl TriggerReport {
    /// The queries that the model answers in one reply and without any tool, as a warning: with one description measured,
    /// that is all that is known.
    pub fn answered_at_once(&self) -> Option<String> {
        let solved = self.queries.iter().filter(|row| row.solved_without);
        let solved: Vec<&str> = solved.map(|row| row.query.as_str()).collect();
        (!solved.is_empty()).then(|| {
            format!(
                "answered at once and without any tool, so a description may not help: {}",
                beginnings(&solved)
            )
        })
    }

    /// How the recall of a skill has changed since an earlier measurement; `None` where no query of it is in both.
    pub fn recall_change(&self, earlier: &Self, skill: &str) -> Option<RecallChange> {
        const SEED: u64 = 42;
        let recall = |row: &QueryRow| {
            let is_mine = row.skill.as_deref() == Some(skill) && row.runs > 0;
            is_mine.then(|| row.loaded.get(skill).copied().unwrap_or(0) as f64 / row.runs as f64)
        };
        let pair = |row: &QueryRow| {
            let now = recall(row)?;
            let before = earlier.queries.iter().find(|other| other.query == row.query).and_then(recall)?;
            Some((before, now))
        };
        let pairs: Vec<(f64, f64)> = self.queries.iter().filter_map(pair).collect();
        let n = pairs.len() as f64;
        let lost: Vec<f64> = pairs.iter().map(|(before, now)| before - now).collect();
        (!pairs.is_empty()).then(|| RecallChange {
            queries: pairs.len(),
            before: pairs.iter().map(|(before, _)| before).sum::<f64>() / n,
            now: pairs.iter().map(|(_, now)| now).sum::<f64>() / n,
            p: sign_flip_p(&lost, SEED),
        })
    }

    /// Runs of queries for a skill in which another was loaded: the skill that took them, the one that they are for, the
    /// runs, and all runs of these queries.
    pub fn taken(&self) -> Vec<(&str, &str, usize, usize)> {
        let mut taken = Vec::new();
        for (wanted, row) in self.confusions.iter().filter(|(wanted, _)| *wanted != NO_SKILL) {
            let of_wanted = |row: &&QueryRow| row.skill.as_ref() == Some(wanted);
            let n_runs = self.queries.iter().filter(of_wanted).map(|row| row.runs).sum();
            let others = row.iter().filter(|(name, n)| *name != wanted && *name != NO_SKILL && **n > 0);
            taken.extend(others.map(|(name, n)| (name.as_str(), wanted.as_str(), *n, n_runs)));
        }
        taken
    }
}

/// The name of the row of queries for which no skill should be loaded.
pub const NO_SKILL: &str = "none";

/// The report of a measurement; `skills` has the listed name of each measured skill with the characters of its entry.
pub fn report(
    agent: &str,
    queries: &[Query],
    repetitions: usize,
    skills: &BTreeMap<String, usize>,
    measured: &Measured,
) -> TriggerReport {
    let records: Vec<&Record> = measured.records.values().collect();
    let good: Vec<&&Record> = records.iter().filter(|record| record.failed.is_none()).collect();
    let names = |of: fn(&Record) -> Option<&String>| -> Vec<String> {
        let names: BTreeSet<&String> = records.iter().filter_map(|record| of(record)).collect();
        names.into_iter().cloned().collect()
    };
    let rows: Vec<QueryRow> = queries.iter().map(|query| row(query, skills, measured)).collect();
    let sum = |of: fn(&Record) -> Option<u64>| records.iter().filter_map(|record| of(record)).sum();
    let costs: Vec<f64> = records.iter().filter_map(|record| record.cost).collect();
    let mut report = TriggerReport {
        agent: agent.to_owned(),
        versions: names(|record| record.agent_version.as_ref()),
        models: names(|record| record.model.as_ref()),
        repetitions,
        planned: measured.n_planned,
        counted: good.len(),
        skills: skills
            .iter()
            .map(|(name, n_chars)| (name.clone(), rates(name, *n_chars, queries, measured)))
            .collect(),
        confusions: confusions(queries, measured),
        failed: records.iter().filter_map(|record| failed(record)).collect(),
        input: sum(|record| record.input),
        output: sum(|record| record.output),
        cost: (!costs.is_empty()).then(|| costs.iter().sum()),
        warnings: Vec::new(),
        queries: rows,
    };
    report.warnings = warnings(&report);
    report
}

fn failed(record: &Record) -> Option<FailedRun> {
    let why = record.failed.clone()?;
    let message = record.message.clone();
    Some(FailedRun { query: record.query.clone(), repetition: record.repetition, why, message })
}

fn runs_of<'a>(query: &'a Query, measured: &'a Measured) -> impl Iterator<Item = &'a Record> {
    let first = (query.id.clone(), 0);
    measured.records.range(first..).take_while(|((id, _), _)| *id == query.id).map(|(_, record)| record)
}

/// The runs of a query that count for a skill, and those in which it was loaded.
pub(crate) fn stratum(query: &Query, skill: &str, measured: &Measured) -> Stratum {
    let outcomes = runs_of(query, measured).filter_map(|record| record.outcomes.get(skill));
    outcomes.filter(|outcome| outcome.counts()).fold(Stratum::default(), |sum, outcome| Stratum {
        n: sum.n + 1,
        hits: sum.hits + usize::from(*outcome == TriggerOutcome::Triggered),
    })
}

fn rates(name: &str, n_chars: usize, queries: &[Query], measured: &Measured) -> SkillRates {
    let over = |wanted: &dyn Fn(&Query) -> bool| {
        let strata: Vec<Stratum> = queries
            .iter()
            .filter(|query| wanted(query))
            .map(|query| stratum(query, name, measured))
            .collect();
        rate(&strata)
    };
    let is_mine = |query: &Query| query.skill.as_deref() == Some(name);
    let outcomes = measured.records.values().filter_map(|record| record.outcomes.get(name));
    SkillRates {
        recall: over(&is_mine),
        false_positives: over(&|query: &Query| !is_mine(query)),
        near_misses: over(&|query: &Query| query.near_miss),
        attempted: outcomes.filter(|outcome| **outcome == TriggerOutcome::Attempted).count(),
        listing_tokens: n_chars.div_ceil(4),
    }
}

fn row(query: &Query, skills: &BTreeMap<String, usize>, measured: &Measured) -> QueryRow {
    let only = skills.keys().next().filter(|_| skills.len() == 1);
    let skill = query.skill.as_ref().or(only);
    let mut loaded: BTreeMap<String, usize> = BTreeMap::new();
    let mut outcomes: BTreeMap<TriggerOutcome, usize> = BTreeMap::new();
    let mut turns = Vec::new();
    let (mut n_runs, mut n_simple) = (0, 0);
    for record in runs_of(query, measured) {
        for name in record.loaded.keys() {
            *loaded.entry(name.clone()).or_default() += 1;
        }
        let Some(skill) = skill else {
            n_runs += usize::from(record.failed.is_none());
            continue;
        };
        if let Some(outcome) = record.outcomes.get(skill) {
            *outcomes.entry(*outcome).or_default() += 1;
            n_runs += usize::from(outcome.counts());
        }
        turns.extend(record.loaded.get(skill).map(|turn| *turn as f64));
        n_simple += usize::from(record.failed.is_none() && record.replies == 1 && record.calls == 0);
    }
    QueryRow {
        id: query.id.clone(),
        query: query.query.clone(),
        skill: query.skill.clone(),
        near_miss: query.near_miss,
        runs: n_runs,
        loaded,
        outcomes,
        first_turn: (!turns.is_empty()).then(|| turns.iter().sum::<f64>() / turns.len() as f64),
        solved_without: query.skill.is_some() && n_runs > 0 && n_simple == n_runs,
    }
}

/// Queries for a skill that the model answered in one reply, without any tool, in every run.
pub(crate) fn answered_without(skill: &str, queries: &[Query], measured: &Measured) -> Vec<String> {
    let only = BTreeMap::from([(skill.to_owned(), 0)]);
    let mine = queries.iter().filter(|query| query.skill.as_deref() == Some(skill));
    mine.map(|query| row(query, &only, measured)).filter(|row| row.solved_without).map(|row| row.id).collect()
}

fn confusions(queries: &[Query], measured: &Measured) -> BTreeMap<String, BTreeMap<String, usize>> {
    let mut matrix: BTreeMap<String, BTreeMap<String, usize>> = BTreeMap::new();
    for query in queries {
        let row = matrix.entry(query.skill.clone().unwrap_or_else(|| NO_SKILL.to_owned())).or_default();
        for record in runs_of(query, measured).filter(|record| record.failed.is_none()) {
            for name in record.loaded.keys() {
                *row.entry(name.clone()).or_default() += 1;
            }
            if record.loaded.is_empty() {
                *row.entry(NO_SKILL.to_owned()).or_default() += 1;
            }
        }
    }
    matrix
}

/// The beginnings of a few queries, and the number of the others.
pub fn beginnings(queries: &[&str]) -> String {
    const MAX_SHOWN: usize = 3;
    const MAX_CHARS: usize = 40;
    let shown = queries.iter().take(MAX_SHOWN).map(|query| format!("\"{}\"", beginning(query, MAX_CHARS)));
    let shown: Vec<String> = shown.collect();
    let others = match queries.len().saturating_sub(MAX_SHOWN) {
        0 => String::new(),
        n => format!(" and {n} more"),
    };
    format!("{}{others}", shown.join(", "))
}

fn warnings(report: &TriggerReport) -> Vec<String> {
    let mut warnings: Vec<String> = report.answered_at_once().into_iter().collect();
    for (name, rates) in &report.skills {
        if rates.attempted > 0 {
            warnings.push(format!(
                "{name}: in {} runs the model requested the skill and did not get it; stream.jsonl of these runs says why",
                rates.attempted
            ));
        }
    }
    let lost = |outcome: TriggerOutcome| -> usize {
        report.queries.iter().filter_map(|row| row.outcomes.get(&outcome)).sum()
    };
    let (n_unlisted, n_names) =
        (lost(TriggerOutcome::NotOffered), lost(TriggerOutcome::OfferedWithoutDescription));
    if n_unlisted > 0 {
        warnings.push(format!("in {n_unlisted} runs the agent did not list the skill; they are in no rate"));
    }
    if n_names > 0 {
        warnings.push(format!(
            "in {n_names} runs the agent listed the name without the description; they are in no rate"
        ));
    }
    if report.versions.len() > 1 || report.models.len() > 1 {
        warnings.push("the runs are of several versions or models".to_owned());
    }
    warnings
}
