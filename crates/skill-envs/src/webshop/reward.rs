//! What a purchase is worth: how far the product is of the right kind, times the share of what was asked for that it
//! has.

use super::catalogue::Product;
use super::colours::{is_color, normalize_color};
use super::files::GoalOptions;
use super::goals::Goal;
use super::python::{string_repr, strip};
use super::similarity::is_similar;
use serde::Serialize;
use std::collections::{BTreeSet, HashSet};

/// The share of nouns in common from which on two names speak of one kind.
const SAME_KIND_ABOVE: f64 = 0.2;

/// Below this share of nouns in common next to nothing is left of the reward.
const OTHER_KIND_BELOW: f64 = 0.1;

/// How far what was bought is of the kind that was wanted.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct TypeMatch {
    /// Both have the same query.
    pub query_match: bool,
    /// The paths of their categories share two parts.
    pub category_match: bool,
    /// The share of the wanted name's nouns that the bought name has.
    pub title_score: f64,
}

impl TypeMatch {
    /// Compares what was bought with what was wanted, given the nouns of both names.
    pub fn new(
        bought: &Kind<'_>,
        wanted: &Kind<'_>,
        bought_nouns: &[String],
        wanted_nouns: &[String],
    ) -> Self {
        Self {
            query_match: bought.query == wanted.query,
            category_match: parts(bought.product_category)
                .intersection(&parts(wanted.product_category))
                .count()
                >= 2,
            title_score: title_score(bought_nouns, wanted_nouns),
        }
    }

    /// The factor of the reward: 1, 0.5, 0.1 or 0.
    ///
    /// Names that share no noun are worth nothing, even where query and category are the same.
    pub fn factor(&self) -> f64 {
        if self.title_score == 0.0 {
            0.0
        } else if self.title_score < OTHER_KIND_BELOW {
            0.1
        } else if self.query_match || self.category_match || self.title_score > SAME_KIND_ABOVE {
            1.0
        } else {
            0.5
        }
    }
}

/// What the kind of a product is told by, besides its name.
#[derive(Debug, Clone, Copy)]
pub struct Kind<'a> {
    /// Its query.
    pub query: &'a str,
    /// The path of its category.
    pub product_category: &'a str,
}

/// The trimmed parts of a category's path; an empty one is a part.
fn parts(path: &str) -> BTreeSet<&str> {
    path.split('›').map(strip).collect()
}

/// Each noun that both have counts once, and each of the wanted ones as often as it is there.
fn title_score(bought: &[String], wanted: &[String]) -> f64 {
    if wanted.is_empty() {
        return SAME_KIND_ABOVE;
    }
    let bought: HashSet<&String> = bought.iter().collect();
    let n_common = wanted.iter().collect::<HashSet<_>>().intersection(&bought).count();
    n_common as f64 / wanted.len() as f64
}

/// How many of these attributes a product has: by its list of attributes, or else in its texts.
pub fn matched_attributes(product: &Product, wanted: &[String]) -> usize {
    let title = product.title.to_lowercase();
    let bullets = product.bullets.join(" ").to_lowercase();
    let description = product.description.to_lowercase();
    let is_matched = |attribute: &&String| {
        product.attributes.iter().any(|has| is_similar(has, attribute))
            || [&title, &bullets, &description].iter().any(|text| text.contains(attribute.as_str()))
    };
    wanted.iter().filter(is_matched).count()
}

/// How many of these options are among the values that were chosen, whatever option they belong to.
pub fn matched_options<'a>(chosen: impl IntoIterator<Item = &'a str>, wanted: &GoalOptions) -> usize {
    let chosen: Vec<&str> = chosen.into_iter().map(normalize_color).collect();
    let is_matched = |wanted: &str| chosen.iter().any(|value| is_similar(value, wanted));
    match wanted {
        GoalOptions::Values(values) => {
            values.iter().filter(|value| is_matched(normalize_color(value))).count()
        }
        GoalOptions::Named(pairs) => {
            pairs.iter().filter(|(name, value)| is_matched(&named_option(name, value))).count()
        }
    }
}

/// The text that a named option is compared as: a colour if its name or value is one, else the pair as Python
/// writes it, so that the name's letters count.
fn named_option(name: &str, value: &str) -> String {
    // The list is searched in its order, so that of two colours the earlier one is found.
    let color = match (is_color(name), is_color(value)) {
        (true, true) => Some(name.min(value)),
        (true, false) => Some(name),
        (false, true) => Some(value),
        (false, false) => None,
    };
    match color {
        Some(color) => color.to_owned(),
        None => format!("({}, {})", string_repr(name), string_repr(value)),
    }
}

/// A reward with its parts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reward {
    /// How far the product is of the right kind.
    pub kind: TypeMatch,
    /// How many attributes the goal names, and how many of them the product has.
    pub attributes: MatchCount,
    /// How many options the goal names, and how many of them were chosen.
    pub options: MatchCount,
    /// Whether the price is within the goal's bound.
    pub is_price_met: bool,
}

/// So many of so many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MatchCount {
    /// How many there are.
    pub wanted: usize,
    /// How many of them are met.
    pub met: usize,
}

impl MatchCount {
    /// The share that is met; nothing of nothing has none.
    pub fn share(self) -> Option<f64> {
        (self.wanted > 0).then(|| self.met as f64 / self.wanted as f64)
    }
}

impl Reward {
    /// What buying this product with these values at this price is worth, given the nouns of both names.
    pub fn new<'a>(
        goal: &Goal,
        product: &Product,
        chosen: impl IntoIterator<Item = &'a str>,
        price: f64,
        nouns: BoughtAndWanted<'_>,
    ) -> Self {
        let bought = Kind { query: &product.query, product_category: &product.product_category };
        let wanted = Kind { query: &goal.query, product_category: &goal.product_category };
        Self {
            kind: TypeMatch::new(&bought, &wanted, nouns.bought, nouns.wanted),
            attributes: MatchCount {
                wanted: goal.attributes.len(),
                met: matched_attributes(product, &goal.attributes),
            },
            options: MatchCount { wanted: goal.options.len(), met: matched_options(chosen, &goal.options) },
            is_price_met: price <= goal.price_upper,
        }
    }

    /// The number between 0 and 1.
    pub fn total(&self) -> f64 {
        let n_met = self.attributes.met + self.options.met + usize::from(self.is_price_met);
        n_met as f64 / self.n_wanted() * self.kind.factor()
    }

    /// The weight of the attributes.
    pub fn attribute_weight(&self) -> f64 {
        self.attributes.wanted as f64 / self.n_wanted()
    }

    /// The weight of the options.
    pub fn option_weight(&self) -> f64 {
        self.options.wanted as f64 / self.n_wanted()
    }

    /// The weight of the price.
    pub fn price_weight(&self) -> f64 {
        1.0 / self.n_wanted()
    }

    fn n_wanted(&self) -> f64 {
        (self.attributes.wanted + self.options.wanted + 1) as f64
    }
}

/// The nouns of two names.
#[derive(Debug, Clone, Copy)]
pub struct BoughtAndWanted<'a> {
    /// Of the product that was bought.
    pub bought: &'a [String],
    /// Of the product that the goal was written for.
    pub wanted: &'a [String],
}
