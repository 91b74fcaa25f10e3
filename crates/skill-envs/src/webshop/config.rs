//! What a `webshop` world is made from.

pub use crate::choices::{GoalKind, MissingProducts, ObservationForm};

use crate::error::EnvError;
use crate::item::{Split, Splits};
use serde::{Deserialize, Serialize};
use skill_core::{RatioSplit, SplitRatio, SplitRule};
use std::path::PathBuf;

/// Where the products and goals are, how they are split, and what the agent sees.
///
/// Without `products` the shop is made up by [`super::Bundled`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct WebshopConfig {
    /// The product file, `items_shuffle*.json`.
    pub products: Option<PathBuf>,
    /// The file of attributes and instructions made by rule, `items_ins_v2*.json`.
    pub attributes: Option<PathBuf>,
    /// The file of people's instructions, `items_human_ins.json`.
    pub instructions: Option<PathBuf>,
    /// How many entries of the product file count, from its start; without a file, how many products are made up.
    pub n_products: Option<usize>,
    /// Which instructions become goals.
    pub goal_kind: GoalKind,
    /// A file with the goals themselves, as a list in the order in which they are dealt out; no others are made.
    pub goals: Option<PathBuf>,
    /// A file with the price by which each product is judged, by asin; no price is drawn then.
    pub prices: Option<PathBuf>,
    /// A file with the nouns of names, as a list for each name; other names are taken apart by rule.
    pub nouns: Option<PathBuf>,
    /// What becomes of the instructions for products that are not in the product file.
    pub missing_products: MissingProducts,
    /// The seed of what the original draws again in each process: prices within a range, bounds on prices, random
    /// products.
    pub seed: u64,
    /// Whether the page of a product leads to a page of its attributes.
    pub show_attributes: bool,
    /// How pages are written.
    pub observation: ObservationForm,
    /// How many earlier pages come before the newest one.
    pub previous_observations: usize,
    /// How many earlier actions are between the pages.
    pub previous_actions: usize,
    /// The goals of each split, by their places.
    ///
    /// Where neither this nor `split_ratio` is given, it is [`SplitRanges::default`] with files, and the automatic
    /// split without.
    pub ranges: Option<SplitRanges>,
    /// The shares of train, val and test.
    pub split_ratio: Option<SplitRatio>,
    /// How explicit shares become numbers of goals.
    pub split_rule: SplitRule,
    /// The seed of the shuffle before goals are split by a ratio.
    pub split_seed: u64,
    /// The most goals of train, val and test, from the start of each.
    pub limits: [Option<usize>; 3],
}

impl Default for WebshopConfig {
    fn default() -> Self {
        Self {
            products: None,
            attributes: None,
            instructions: None,
            n_products: None,
            goal_kind: GoalKind::default(),
            goals: None,
            prices: None,
            nouns: None,
            missing_products: MissingProducts::default(),
            seed: 0,
            show_attributes: false,
            observation: ObservationForm::default(),
            previous_observations: 0,
            previous_actions: 0,
            ranges: None,
            split_ratio: None,
            split_rule: SplitRule::default(),
            split_seed: DEFAULT_SPLIT_SEED,
            limits: [None; 3],
        }
    }
}

const DEFAULT_SPLIT_SEED: u64 = 42;

/// The goals of each split, by their places.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SplitRanges {
    /// Of the split `train`.
    pub train: GoalRange,
    /// Of the split `val`.
    pub val: GoalRange,
    /// Of the split `test`.
    pub test: GoalRange,
}

impl Default for SplitRanges {
    /// The ranges of the paper: test 0 to 500, val 500 to 1500, train the rest.
    fn default() -> Self {
        Self {
            train: GoalRange { start: 1500, end: None },
            val: GoalRange { start: 500, end: Some(1500) },
            test: GoalRange { start: 0, end: Some(500) },
        }
    }
}

/// Goals from one place up to, and without, another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GoalRange {
    /// The first place, from 0.
    pub start: usize,
    /// The place behind the last one; all the rest if it is not given.
    pub end: Option<usize>,
}

/// How the places of the goals are put into splits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum GoalRule {
    Ranges(SplitRanges),
    Ratio(SplitRatio),
}

impl WebshopConfig {
    /// The configuration for these three files.
    pub fn new(
        products: impl Into<PathBuf>,
        attributes: impl Into<PathBuf>,
        instructions: impl Into<PathBuf>,
    ) -> Self {
        Self {
            products: Some(products.into()),
            attributes: Some(attributes.into()),
            instructions: Some(instructions.into()),
            ..Self::default()
        }
    }

    /// The places of the goals of each split; `categories` are those of the goals, in
    /// their order.
    ///
    /// # Errors
    ///
    /// Both ranges and a ratio, ranges that overlap or reach beyond the goals, or a split without goals.
    pub fn split_goals(&self, categories: &[&str]) -> Result<Splits<Vec<usize>>, EnvError> {
        let n_goals = categories.len();
        let rule = match (self.ranges, self.split_ratio) {
            (Some(_), Some(_)) => {
                return Err(configuration("give `ranges` or `split_ratio`, not both"));
            }
            (Some(ranges), None) => GoalRule::Ranges(ranges),
            (None, Some(ratio)) => GoalRule::Ratio(ratio),
            (None, None) if self.products.is_some() => GoalRule::Ranges(SplitRanges::default()),
            (None, None) => GoalRule::Ratio(SplitRatio::Auto),
        };
        let mut splits = match rule {
            GoalRule::Ranges(ranges) => ranges.places(n_goals)?,
            GoalRule::Ratio(SplitRatio::Shares(shares)) if shares.contains(&0) => {
                return Err(configuration("every weight of `split_ratio` must be above 0"));
            }
            GoalRule::Ratio(ratio) => {
                let split = RatioSplit { ratio, rule: self.split_rule, seed: self.split_seed };
                let goals = categories.iter().copied().enumerate().collect();
                Splits::from(split.split(goals, |(_, category)| category))
                    .map(|goals| goals.into_iter().map(|(place, _)| place).collect())
            }
        };
        for (split, limit) in Split::ALL.into_iter().zip(self.limits) {
            splits[split].truncate(limit.unwrap_or(usize::MAX));
        }
        if let Some((split, _)) = splits.iter().find(|(_, places)| places.is_empty()) {
            return Err(configuration(format!(
                "there are {n_goals} goals, and none of them for the split `{split}`; \
                 change `split_ratio` or take more goals"
            )));
        }
        Ok(splits)
    }
}

impl SplitRanges {
    fn places(self, n_goals: usize) -> Result<Splits<Vec<usize>>, EnvError> {
        let mut named = [(Split::Train, self.train), (Split::Val, self.val), (Split::Test, self.test)];
        for (split, range) in named {
            let end = range.end.unwrap_or(n_goals);
            if end > n_goals || range.start >= end {
                return Err(configuration(format!(
                    "the split `{split}` takes the goals from {} to {end}, but there are {n_goals}; \
                     give other `ranges`, or a `split_ratio`",
                    range.start
                )));
            }
        }
        let places = named.map(|(_, range)| (range.start..range.end.unwrap_or(n_goals)).collect());
        named.sort_by_key(|(_, range)| range.start);
        for ((before, first), (after, second)) in named.iter().zip(named.iter().skip(1)) {
            if first.end.unwrap_or(n_goals) > second.start {
                return Err(configuration(format!(
                    "the splits `{before}` and `{after}` overlap: both have the goal of place {}",
                    second.start
                )));
            }
        }
        Ok(places.into())
    }
}

pub(super) fn configuration(message: impl Into<String>) -> EnvError {
    EnvError::Configuration { message: message.into() }
}
