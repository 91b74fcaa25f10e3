//! A player that shops as well as its skill makes it.

use super::ShopHabit;
use super::page::{ShopListing, ShopPage, ShopWish, is_option_name};
use crate::agent::{Move, Player, Situation};
use crate::habits::{Conduct, ConductReader, Habit as _};
use crate::played::Lessons as _;
use skill_core::random::Dice;
use skill_envs::webshop::INSTRUCTIONS;
use std::collections::BTreeMap;
use std::sync::Arc;

/// How often one of the named options is forgotten in a visit, whatever the skill says.
const SLIP_RATE: f64 = 0.04;
/// How often the shopper has a habit in a visit of which the skill says nothing.
const BY_NATURE: f64 = 0.3;
/// How many products are opened, at most.
const MAX_OPENED: usize = 5;

/// A shopper for a [`crate::SimulatedAgent`].
///
/// It searches with key words, compares names and prices, reads features, tries other products and chooses options
/// where its skill says so; what the skill says nothing about it does now and then.
#[derive(Debug, Default)]
pub struct SimulatedShopper {
    skills: ConductReader<ShopHabit>,
}

impl Player for SimulatedShopper {
    fn name(&self) -> &'static str {
        "simulated-shopper"
    }

    fn instructions(&self) -> Vec<&'static str> {
        instructions()
    }

    fn decide(&self, situation: &Situation, dice: Dice) -> Move {
        let visit = Visit::of(situation);
        let shopper = Shopper {
            conduct: self.skills.read(&situation.skill),
            dice,
            visit: &visit,
            slip_rate: SLIP_RATE,
        };
        shopper.decide(situation.admissible.as_deref())
    }
}

/// A shopper that has every habit and makes no slip, whatever its skill says.
///
/// Its episodes are demonstrations that cost no model calls. It knows what a page shows and no more, so it does not
/// reach every goal.
#[derive(Debug, Default)]
pub struct ShopExpert {
    skills: ConductReader<ShopHabit>,
}

impl Player for ShopExpert {
    fn name(&self) -> &'static str {
        "shop-expert"
    }

    fn instructions(&self) -> Vec<&'static str> {
        instructions()
    }

    fn decide(&self, situation: &Situation, dice: Dice) -> Move {
        let all: Vec<&str> =
            ShopHabit::ALL.iter().filter_map(|habit| habit.phrasings().first().copied()).collect();
        let visit = Visit::of(situation);
        let conduct = self.skills.read(&all.join("\n"));
        Shopper { conduct, dice, visit: &visit, slip_rate: 0.0 }.decide(situation.admissible.as_deref())
    }
}

fn instructions() -> Vec<&'static str> {
    Vec::from([
        INSTRUCTIONS,
        #[cfg(feature = "live")]
        skill_envs::live::LiveKind::Webshop.instructions(),
    ])
}

/// What is known of a product.
#[derive(Debug, Clone, Default)]
struct Known {
    title: String,
    price: Option<f64>,
    choices: Vec<String>,
    /// What its pages say of it, once they were read.
    read: Option<String>,
}

/// A visit, as far as it is remembered.
#[derive(Debug, Default)]
struct Visit {
    wish: ShopWish,
    instruction: String,
    page: Option<ShopPage>,
    listed: Vec<ShopListing>,
    /// The products that were opened, in the order of their numbers, and the number of the open one.
    known: BTreeMap<String, Known>,
    open: String,
    /// Whether it was opened before.
    is_back: bool,
    /// What was clicked since the list was seen.
    clicked: Vec<String>,
    n_searches: usize,
}

impl Visit {
    fn of(situation: &Situation) -> Self {
        let mut visit = Self::default();
        for turn in &situation.past {
            visit.see(&turn.observation);
            visit.did(turn.action.as_deref().unwrap_or_default());
        }
        visit.see(&situation.observation);
        visit
    }

    fn see(&mut self, observation: &str) {
        let Some((instruction, page)) = ShopPage::read(observation) else { return };
        if self.instruction.is_empty() {
            self.wish = ShopWish::read(&instruction);
            self.instruction = instruction;
        }
        match &page {
            ShopPage::Results(listed) => {
                self.listed.clone_from(listed);
                self.clicked.clear();
            }
            ShopPage::Item { title, price, choices } => {
                let known = self.known.entry(self.open.clone()).or_default();
                known.title.clone_from(title);
                known.price = *price;
                known.choices.clone_from(choices);
            }
            ShopPage::More(text) => {
                let known = self.known.entry(self.open.clone()).or_default();
                known.read.get_or_insert_default().push_str(text);
            }
            ShopPage::Search | ShopPage::Done => {}
        }
        self.page = Some(page);
    }

    fn did(&mut self, action: &str) {
        self.n_searches += usize::from(action.starts_with("search["));
        let Some(clicked) = action.strip_prefix("click[").and_then(|rest| rest.strip_suffix(']')) else {
            return;
        };
        if self.listed.iter().any(|listing| listing.asin == clicked) {
            clicked.clone_into(&mut self.open);
            self.is_back = self.known.contains_key(clicked);
        }
        self.clicked.push(clicked.to_owned());
    }

    /// How much of what is asked for a product lacks, as far as is known.
    fn n_missing(&self, known: &Known) -> usize {
        let read = known.read.as_deref().unwrap_or_default();
        self.wish.n_missing(&format!("{} {read} {}", known.title, known.choices.join(" ")))
    }

    fn is_dear(&self, price: Option<f64>) -> bool {
        price.zip(self.wish.price_limit).is_some_and(|(price, limit)| price > limit)
    }
}

/// Somebody in a visit.
struct Shopper<'a> {
    conduct: Arc<Conduct<ShopHabit>>,
    dice: Dice,
    visit: &'a Visit,
    /// How often one of the named options is forgotten.
    slip_rate: f64,
}

impl Shopper<'_> {
    fn has(&self, habit: ShopHabit) -> bool {
        let by_nature = || self.dice.chance(&format!("{habit:?}"), BY_NATURE);
        self.conduct.says(habit).unwrap_or_else(by_nature)
    }

    fn decide(&self, admissible: Option<&[String]>) -> Move {
        match &self.visit.page {
            None | Some(ShopPage::Search | ShopPage::Done) => self.search(),
            Some(ShopPage::Results(_)) => self.choose_result(),
            Some(ShopPage::Item { choices, .. }) => self.at_product(choices, admissible),
            Some(ShopPage::More(_)) => click("< prev", "I have read enough of this."),
        }
    }

    fn search(&self) -> Move {
        let wish = &self.visit.wish;
        let words = if self.has(ShopHabit::SearchKeyWords) || self.visit.n_searches > 1 {
            wish.key_words.join(" ")
        } else if self.dice.chance("whole sentence", 0.3) {
            self.visit.instruction.clone()
        } else {
            self.dice.pick("one word", &wish.key_words).cloned().unwrap_or_default()
        };
        Move { thought: "I look for what is asked for.".to_owned(), action: format!("search[{words}]") }
    }

    /// Opens a product of the list, one that was not opened yet unless all that come into question were.
    fn choose_result(&self) -> Move {
        let visit = self.visit;
        let fits_the_purse =
            |listing: &&ShopListing| !self.has(ShopHabit::CheckPrice) || !visit.is_dear(listing.price);
        let mut candidates: Vec<&ShopListing> = visit.listed.iter().filter(fits_the_purse).collect();
        if self.has(ShopHabit::CompareNames) {
            candidates.sort_by_key(|listing| visit.wish.n_missing(&listing.title));
        } else if let Some(start) = self.dice.pick("some result", &[0, 1, 2, 3]) {
            let n_before = candidates.len().min(*start);
            candidates.rotate_left(n_before);
        }
        let new = candidates.iter().find(|listing| !visit.known.contains_key(&listing.asin));
        let best = self.best();
        let chosen = match (new, best) {
            (Some(new), _) if visit.known.len() < MAX_OPENED => new.asin.as_str(),
            (_, Some(best)) => best,
            (Some(new), None) => new.asin.as_str(),
            (None, None) if visit.n_searches < 3 => return self.search_again(),
            (None, None) => match visit.listed.first() {
                Some(first) => first.asin.as_str(),
                None => return self.search_again(),
            },
        };
        click(chosen, "This one may be what is asked for.")
    }

    fn search_again(&self) -> Move {
        click("back to search", "Nothing here comes into question, so I search with other words.")
    }

    /// The number of the opened product that lacks least.
    fn best(&self) -> Option<&str> {
        let visit = self.visit;
        let opened = visit.known.iter();
        let best = opened.min_by_key(|(_, known)| {
            (self.has(ShopHabit::CheckPrice) && visit.is_dear(known.price), visit.n_missing(known))
        });
        best.map(|(asin, _)| asin.as_str())
    }

    fn at_product(&self, choices: &[String], admissible: Option<&[String]>) -> Move {
        let visit = self.visit;
        let known = visit.known.get(&visit.open).cloned().unwrap_or_default();
        if self.has(ShopHabit::ReadFeatures) && known.read.is_none() {
            return click("features", "The name does not tell everything, so I read the features.");
        }
        // Who comes back to a product has found no better one.
        let is_last = visit.known.len() >= MAX_OPENED && self.best() == Some(visit.open.as_str());
        let is_good_enough = visit.n_missing(&known) == 0 || visit.is_back || is_last;
        if self.has(ShopHabit::TryOthers) && known.read.is_some() && !is_good_enough {
            return click("< prev", "Something that is asked for is missing here, so I look at another one.");
        }
        if self.has(ShopHabit::ChooseOptions) {
            let is_value = |choice: &str| match admissible {
                Some(admissible) => admissible.contains(&format!("click[{choice}]")),
                None => !is_option_name(choice),
            };
            let mut named = visit.wish.chosen(choices, is_value);
            if self.dice.chance("slip", self.slip_rate) {
                named.pop();
            }
            if let Some(value) =
                named.into_iter().find(|value| !visit.clicked.iter().any(|done| done == value))
            {
                return click(value, "The instruction names this option.");
            }
        }
        click("buy now", "This is it, so I buy it.")
    }
}

fn click(text: &str, thought: &str) -> Move {
    Move { thought: thought.to_owned(), action: format!("click[{text}]") }
}
