//! Means over seeds with intervals, and how many seeds show a difference.

use crate::search::arm::Outcome;
use crate::search::world::Family;
use std::collections::BTreeMap;

/// The normal quantile of 97.5 %, and of 80 %: a two-sided test at 5 % that sees four differences of five.
const Z_TEST: f64 = 1.96;
const Z_POWER: f64 = 0.84;

/// The outcomes of one way of searching, by family and seed.
#[derive(Debug, Clone, Default)]
pub struct Column {
    /// What it is called.
    pub name: String,
    outcomes: BTreeMap<(&'static str, u64), Outcome>,
}

/// A number of an outcome.
type Number = fn(&Outcome) -> f64;

/// A mean with half the width of its interval of 95 %.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Mean {
    /// The mean.
    pub mean: f64,
    /// Half the width.
    pub half: f64,
}

impl Column {
    /// A column without outcomes.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), outcomes: BTreeMap::new() }
    }

    /// Adds an outcome.
    pub fn add(&mut self, family: Family, seed: u64, outcome: Outcome) {
        self.outcomes.insert((family.as_str(), seed), outcome);
    }

    fn seeds(&self) -> Vec<u64> {
        let mut seeds: Vec<u64> = self.outcomes.keys().map(|(_, seed)| *seed).collect();
        seeds.sort_unstable();
        seeds.dedup();
        seeds
    }

    /// A number of each outcome, for one family or as means over all families, by seed.
    fn numbers(&self, family: Option<Family>, of: Number) -> Vec<f64> {
        let of_seed = |seed: u64| {
            let outcomes = self.outcomes.iter().filter(|((name, own), _)| {
                *own == seed && family.is_none_or(|family| family.as_str() == *name)
            });
            mean(&outcomes.map(|(_, outcome)| of(outcome)).collect::<Vec<_>>())
        };
        self.seeds().into_iter().map(of_seed).collect()
    }

    /// The mean of a number over seeds.
    pub fn mean(&self, family: Option<Family>, of: Number) -> Mean {
        Mean::of(&self.numbers(family, of))
    }

    /// The mean difference of the scores to those of another column, seed by seed.
    pub fn lead(&self, other: &Self, family: Option<Family>) -> Mean {
        Mean::of(&self.leads(other, family))
    }

    fn leads(&self, other: &Self, family: Option<Family>) -> Vec<f64> {
        let score = |outcome: &Outcome| outcome.score;
        let (own, theirs) = (self.numbers(family, score), other.numbers(family, score));
        own.iter().zip(theirs).map(|(own, other)| own - other).collect()
    }

    /// How many seeds show a difference of this size to another column, by the spread of the differences so far.
    pub fn seeds_needed(&self, other: &Self, difference: f64) -> u64 {
        let sd = deviation(&self.leads(other, None));
        ((Z_TEST + Z_POWER) * sd / difference).powi(2).ceil() as u64
    }
}

impl Mean {
    fn of(numbers: &[f64]) -> Self {
        let half = Z_TEST * deviation(numbers) / (numbers.len().max(1) as f64).sqrt();
        Self { mean: mean(numbers), half }
    }

    /// In points, with a sign.
    pub fn points(self) -> String {
        format!("{:+.1} ± {:.1}", 100.0 * self.mean, 100.0 * self.half)
    }
}

fn mean(numbers: &[f64]) -> f64 {
    numbers.iter().sum::<f64>() / numbers.len().max(1) as f64
}

fn deviation(numbers: &[f64]) -> f64 {
    let center = mean(numbers);
    let squares: f64 = numbers.iter().map(|number| (number - center).powi(2)).sum();
    (squares / numbers.len().saturating_sub(1).max(1) as f64).sqrt()
}

/// The table of scores: families as rows, columns beside each other; below them the means, calls and tokens.
pub fn scores(families: &[Family], columns: &[Column]) -> String {
    let mut lines = vec![row("test score", columns.iter().map(|column| column.name.clone()))];
    lines.push(row("---", columns.iter().map(|_| "---:".to_owned())));
    let percent = |mean: Mean| format!("{:.1} ± {:.1}", 100.0 * mean.mean, 100.0 * mean.half);
    for family in families {
        let cells = columns.iter().map(|column| percent(column.mean(Some(*family), |outcome| outcome.score)));
        lines.push(row(family.as_str(), cells));
    }
    lines.push(row("mean", columns.iter().map(|column| percent(column.mean(None, |outcome| outcome.score)))));
    let whole: [(&str, Number); 5] = [
        ("calls of the agent", |outcome| outcome.target_calls as f64),
        ("calls of the optimizer", |outcome| outcome.optimizer_calls as f64),
        ("thousand tokens", |outcome| outcome.tokens as f64 / 1000.0),
        ("candidates", |outcome| outcome.candidates as f64),
        ("accepted", |outcome| outcome.accepted as f64),
    ];
    for (name, of) in whole {
        lines.push(row(name, columns.iter().map(|column| format!("{:.1}", column.mean(None, of).mean))));
    }
    lines.join("\n")
}

/// The differences of one column to the others, in points.
pub fn leads(families: &[Family], own: &Column, others: &[&Column]) -> String {
    let title = format!("{} against", own.name);
    let mut lines = vec![row(&title, others.iter().map(|other| other.name.clone()))];
    lines.push(row("---", others.iter().map(|_| "---:".to_owned())));
    let rows = families.iter().map(|family| (family.as_str(), Some(*family))).chain([("mean", None)]);
    for (name, family) in rows {
        lines.push(row(name, others.iter().map(|other| own.lead(other, family).points())));
    }
    lines.join("\n")
}

fn row(name: &str, cells: impl Iterator<Item = String>) -> String {
    let cells: Vec<String> = cells.collect();
    format!("| {name} | {} |", cells.join(" | "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(score: f64) -> Outcome {
        Outcome { score, target_calls: 1, optimizer_calls: 1, tokens: 1, candidates: 1, accepted: 1 }
    }

    #[test]
    fn differences_are_paired_by_seed() {
        let (mut own, mut other) = (Column::new("a"), Column::new("b"));
        for seed in 0..4_u32 {
            own.add(Family::Facts, seed.into(), outcome(0.1 * f64::from(seed) + 0.05));
            other.add(Family::Facts, seed.into(), outcome(0.1 * f64::from(seed)));
        }
        let lead = own.lead(&other, None);
        assert!((lead.mean - 0.05).abs() < 1e-9 && lead.half < 1e-9, "{lead:?}");
        assert!(own.seeds_needed(&other, 0.03) <= 1);
    }

    #[test]
    fn the_number_of_seeds_is_that_of_a_two_sided_test() {
        let (mut own, mut other) = (Column::new("a"), Column::new("b"));
        for (seed, lead) in [(0, 0.1), (1, -0.1)] {
            own.add(Family::Facts, seed, outcome(lead));
            other.add(Family::Facts, seed, outcome(0.0));
        }
        // A deviation of 0.1414: (2.8 * 0.1414 / 0.03)^2.
        assert_eq!(own.seeds_needed(&other, 0.03), 175);
    }
}
