//! What there is to buy: goals from the instructions of people or from those made by rule, in the order in which the
//! original deals them out.

use super::catalogue::{Catalogue, Product};
use super::files::{AttributeEntry, GoalOptions, HumanInstruction};
use serde::Deserialize;
use serde_json::Value;
use skill_core::PyRandom;
use std::collections::HashMap;

/// The seed of the shuffle of the goals.
const SHUFFLE_SEED: u64 = 233;

/// The bound on the price where nothing above the product's price is round enough: none.
const NO_BOUND: f64 = 1_000_000.0;

/// How many letters the name of a session has that nobody named.
const N_NAME_LETTERS: usize = 10;

/// What is to be bought in an episode.
#[derive(Debug, Clone, PartialEq)]
pub struct Goal {
    /// The product that the instruction was written for.
    pub asin: String,
    /// Its department.
    pub category: String,
    /// Its query.
    pub query: String,
    /// Its name.
    pub name: String,
    /// The path of its category.
    pub product_category: String,
    /// What the agent is told.
    pub instruction: String,
    /// The attributes that it asks for; at least one.
    pub attributes: Vec<String>,
    /// The most that may be paid; above 0.
    pub price_upper: f64,
    /// The options that it asks for.
    pub options: GoalOptions,
    /// How often it is drawn, against the other goals.
    pub weight: f64,
}

/// A goal as files hold it that were written from a running original.
#[derive(Debug, Deserialize)]
pub(super) struct GoalEntry {
    asin: String,
    category: String,
    query: String,
    name: String,
    product_category: String,
    instruction_text: String,
    attributes: Vec<String>,
    price_upper: f64,
    goal_options: Value,
    #[serde(default = "one")]
    weight: f64,
}

fn one() -> f64 {
    1.0
}

impl TryFrom<GoalEntry> for Goal {
    type Error = String;

    fn try_from(entry: GoalEntry) -> Result<Self, String> {
        let goal = Self {
            asin: entry.asin,
            category: entry.category,
            query: entry.query,
            name: entry.name,
            product_category: entry.product_category,
            instruction: entry.instruction_text,
            attributes: entry.attributes,
            price_upper: entry.price_upper,
            options: GoalOptions::from_json(&entry.goal_options)
                .map_err(|message| format!("its {message}"))?,
            weight: entry.weight,
        };
        match goal.fault() {
            Some(fault) => Err(fault),
            None => Ok(goal),
        }
    }
}

impl Goal {
    /// What makes a goal impossible to score; the original stops with an exception when it is bought for.
    pub fn fault(&self) -> Option<String> {
        let fault = if self.attributes.is_empty() {
            "names no attribute"
        } else if self.price_upper.is_nan() || self.price_upper <= 0.0 {
            "has a bound on the price that is not above 0"
        } else if !(self.weight.is_finite() && self.weight >= 0.0) {
            "has a weight that is negative or no number"
        } else {
            return None;
        };
        Some(format!("the goal for product {} {fault}", self.asin))
    }

    fn of(product: &Product, instruction: String, attributes: &[String], price_upper: f64) -> Self {
        Self {
            asin: product.asin.clone(),
            category: product.category.clone(),
            query: product.query.clone(),
            name: product.title.clone(),
            product_category: product.product_category.clone(),
            instruction,
            attributes: attributes.to_vec(),
            price_upper,
            options: GoalOptions::Values(Vec::new()),
            weight: 1.0,
        }
    }
}

/// The goals of people's instructions, products in their order; those without attributes are left out.
pub(crate) fn human_goals(
    catalogue: &Catalogue,
    prices: &[f64],
    instructions: &HashMap<String, Vec<HumanInstruction>>,
    random: &mut PyRandom,
) -> Vec<Goal> {
    let mut goals = Vec::new();
    for (product, price) in catalogue.products().iter().zip(prices) {
        for instruction in instructions.get(&product.asin).into_iter().flatten() {
            if instruction.attributes.is_empty() {
                continue;
            }
            let (bound, bound_text) = draw_bound(*price, random);
            let text = format!("{}{bound_text}", instruction.instruction.trim_matches('.'));
            goals.push(Goal {
                options: instruction.options.clone(),
                ..Goal::of(product, text, &instruction.attributes, bound)
            });
        }
    }
    goals
}

/// The goals of instructions made by rule: one for each combination of the product's options.
///
/// # Errors
///
/// An instruction without attributes.
pub(crate) fn synthetic_goals(
    catalogue: &Catalogue,
    prices: &[f64],
    instructions: &HashMap<String, AttributeEntry>,
    random: &mut PyRandom,
) -> Result<Vec<Goal>, String> {
    let mut goals: Vec<Goal> = Vec::new();
    for (product, price) in catalogue.products().iter().zip(prices) {
        let Some(entry) = instructions.get(&product.asin) else {
            continue;
        };
        let Some(instruction) = &entry.instruction else {
            continue;
        };
        let attributes = entry.instruction_attributes.as_deref().unwrap_or_default();
        if attributes.is_empty() {
            return Err(format!("`{}` has an instruction without `instruction_attributes`", product.asin));
        }
        let (bound, bound_text) = draw_bound(*price, random);
        for combination in combinations(product) {
            let options: Vec<_> =
                combination.iter().map(|(name, value)| format!("{name}: {value}")).collect();
            let with = if options.is_empty() { "" } else { " with " };
            let text = format!("{instruction}{with}{}{bound_text}", options.join(", and "));
            goals.push(Goal {
                options: GoalOptions::Named(combination),
                ..Goal::of(product, text, attributes, bound)
            });
        }
    }
    weigh(&mut goals);
    Ok(goals)
}

/// A bound on the price and what the instruction says of it: the larger of two drawn from the next round numbers.
fn draw_bound(price: f64, random: &mut PyRandom) -> (f64, String) {
    let above: Vec<f64> =
        (1..100_u32).map(|tens| f64::from(tens * 10)).filter(|bound| *bound > price).collect();
    let Some(candidates) = above.get(..above.len().min(4)).filter(|candidates| candidates.len() >= 2) else {
        return (NO_BOUND, String::new());
    };
    // As `random.sample` takes two: the second is drawn with the last one in the place of the first.
    let n_candidates = candidates.len() as u64;
    let first = random.randbelow(n_candidates);
    let second = match random.randbelow(n_candidates - 1) {
        place if place == first => n_candidates - 1,
        place => place,
    };
    let larger = usize::try_from(first.max(second)).unwrap_or_default();
    let bound = candidates.get(larger).copied().unwrap_or(NO_BOUND);
    (bound, format!(", and price lower than {bound:.2} dollars"))
}

/// Every way to choose a value of each option, options in the order of their names.
fn combinations(product: &Product) -> Vec<Vec<(String, String)>> {
    let mut names: Vec<&String> = product.options.keys().collect();
    names.sort_unstable();
    let mut found = vec![Vec::new()];
    for name in names {
        let values = product.options.get(name).map(Vec::as_slice).unwrap_or_default();
        let extended = found.iter().flat_map(|chosen: &Vec<(String, String)>| {
            values.iter().map(move |value| {
                let mut longer = chosen.clone();
                // Of a dictionary, which has each name once.
                longer.push((name.clone(), value.clone()));
                longer
            })
        });
        found = extended.collect();
    }
    found
}

/// Gives each goal the mean, over its attributes, of how rare they are among all goals.
fn weigh(goals: &mut [Goal]) {
    let mut counts: HashMap<String, f64> = HashMap::new();
    for attribute in goals.iter().flat_map(|goal| &goal.attributes) {
        *counts.entry(attribute.clone()).or_default() += 1.0;
    }
    for goal in goals {
        let rarity = |attribute: &String| 1.0 / counts.get(attribute).copied().unwrap_or(1.0);
        let sum = goal.attributes.iter().map(rarity).fold(0.0, |sum, share| sum + share);
        goal.weight = sum / goal.attributes.len() as f64;
    }
}

/// Puts goals in the order in which the original deals them out.
pub fn deal(goals: &mut [Goal]) {
    PyRandom::new(SHUFFLE_SEED).shuffle(goals);
}

/// The sessions that the original makes where nobody says which: a name and the place of a goal, without end.
///
/// The goal of place 0 is never drawn, and the last one as often as two.
#[derive(Debug, Clone)]
pub struct DrawnSessions {
    random: PyRandom,
    /// The sums of the weights before each goal, and of all.
    sums: Vec<f64>,
}

impl DrawnSessions {
    /// The sessions that are drawn after these goals were dealt out by [`deal`].
    pub fn new(goals: &[Goal]) -> Self {
        // The generator is that of the shuffle, which depends on the number of goals alone.
        let mut random = PyRandom::new(SHUFFLE_SEED);
        random.shuffle(&mut vec![(); goals.len()]);
        let sums = std::iter::once(0.0).chain(goals.iter().scan(0.0, |sum, goal| {
            *sum += goal.weight;
            Some(*sum)
        }));
        Self { random, sums: sums.collect() }
    }
}

impl Iterator for DrawnSessions {
    type Item = (String, usize);

    fn next(&mut self) -> Option<Self::Item> {
        let n_goals = self.sums.len().checked_sub(1).filter(|n_goals| *n_goals > 0)?;
        let name = (0..N_NAME_LETTERS).map(|_| letter(self.random.random())).collect();
        let place = self.sums.last()? * self.random.random();
        let n_before = self.sums.partition_point(|sum| *sum <= place);
        Some((name, n_before.min(n_goals - 1)))
    }
}

/// The letter that a number in [0, 1) stands for.
fn letter(share: f64) -> char {
    let letters = 'a'..='z';
    letters.into_iter().nth((share * 26.0) as usize).unwrap_or('z')
}
