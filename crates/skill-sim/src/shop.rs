//! The shop: how a skill speaks of the habits of who buys there, what agents do wrong, and the rules that repair it.

mod page;
pub(crate) mod player;

use crate::habits::{Habit, Pattern, Sense};
use crate::played::{Lessons, Played};
use crate::shop::page::{ShopListing, ShopPage, ShopWish, is_option_name};

/// What an agent in a shop may make a habit of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum ShopHabit {
    /// To search with the words that matter, and with no others.
    SearchKeyWords,
    /// To leave out what costs more than may be paid.
    CheckPrice,
    /// To take the result whose name fits best.
    CompareNames,
    /// To choose the options that the instruction names.
    ChooseOptions,
    /// To read a product's features before buying it.
    ReadFeatures,
    /// To look at another product where one does not fit.
    TryOthers,
}

const SEARCHING: &[&str] = &["search", "query", "queries", "look for"];

impl Habit for ShopHabit {
    const ALL: &'static [Self] = &[
        Self::SearchKeyWords,
        Self::CheckPrice,
        Self::CompareNames,
        Self::ChooseOptions,
        Self::ReadFeatures,
        Self::TryOthers,
    ];

    fn patterns(self) -> &'static [Pattern] {
        match self {
            Self::SearchKeyWords => &[
                Pattern {
                    deeds: &[
                        "key word",
                        "keyword",
                        "words that matter",
                        "few words",
                        "important words",
                        "main words",
                    ],
                    about: &[SEARCHING],
                    sense: Sense::For,
                },
                Pattern {
                    deeds: &[
                        "whole sentence",
                        "full sentence",
                        "whole instruction",
                        "entire instruction",
                        "one word",
                        "single word",
                    ],
                    about: &[SEARCHING],
                    sense: Sense::Contrary,
                },
            ],
            Self::CheckPrice => &[
                Pattern {
                    deeds: &[
                        "check", "compare", "look at", "mind", "read", "within", "below", "under", "respect",
                    ],
                    about: &[&["price", "budget", "cost"]],
                    sense: Sense::For,
                },
                Pattern {
                    deeds: &[
                        "above",
                        "over",
                        "more than",
                        "more expensive",
                        "exceed",
                        "too expensive",
                        "higher",
                    ],
                    about: &[&["price", "limit", "budget", "cost", "dollar", "pay", "expensive"]],
                    sense: Sense::ForWhereForbidden,
                },
                Pattern {
                    deeds: &["ignore", "disregard", "forget"],
                    about: &[&["price", "budget", "cost"]],
                    sense: Sense::Against,
                },
            ],
            Self::CompareNames => &[
                Pattern {
                    deeds: &["best", "fits", "closest", "compare"],
                    about: &[&["result", "product", "list"], &["name", "title"]],
                    sense: Sense::For,
                },
                Pattern {
                    deeds: &["first result", "first product", "top result", "first one", "first hit"],
                    about: &[],
                    sense: Sense::Contrary,
                },
            ],
            Self::ChooseOptions => &[
                Pattern {
                    deeds: &["choose", "click", "select", "pick", "set ", "choosing", "clicks"],
                    about: &[&["option", "color", "colour", "size", "style"]],
                    sense: Sense::For,
                },
                Pattern { deeds: &["leave", "ignore"], about: &[&["option"]], sense: Sense::Against },
            ],
            Self::ReadFeatures => &[Pattern {
                deeds: &["read", "open", "look at", "look into", "check", "click"],
                about: &[&["feature", "description", "details"]],
                sense: Sense::For,
            }],
            Self::TryOthers => &[
                Pattern {
                    deeds: &[
                        "another",
                        "next result",
                        "next product",
                        "other results",
                        "other products",
                        "go on to the next",
                    ],
                    about: &[&["product", "result", "one"]],
                    sense: Sense::For,
                },
                Pattern { deeds: &["settle", "stay with", "be content"], about: &[], sense: Sense::Against },
            ],
        }
    }
}

impl Lessons for ShopHabit {
    const HARMFUL: &'static [&'static str] = &[
        "Copy the whole instruction into the search, so that nothing is lost.",
        "Take the first result: the shop knows best.",
        "Ignore the price: quality costs what it costs.",
        "Leave the options as they are: that saves time.",
        "Do not open features or descriptions: they hold nothing new.",
        "Settle for the product that you have opened.",
    ];

    fn name(self) -> &'static str {
        match self {
            Self::SearchKeyWords => "vague search",
            Self::CheckPrice => "above the price limit",
            Self::CompareNames => "a better result was listed",
            Self::ChooseOptions => "named option not chosen",
            Self::ReadFeatures => "bought unread",
            Self::TryOthers => "settled for what does not fit",
        }
    }

    fn description(self) -> &'static str {
        match self {
            Self::SearchKeyWords => {
                "the agent searched for one word, or for a whole sentence with its fillers"
            }
            Self::CheckPrice => "the agent bought something that costs more than may be paid",
            Self::CompareNames => "the agent took a result although the name of another one fits better",
            Self::ChooseOptions => "the agent bought without choosing an option that the instruction names",
            Self::ReadFeatures => "the agent bought a product without a look at its features",
            Self::TryOthers => {
                "the agent saw that something was missing, and bought the product all the same"
            }
        }
    }

    fn phrasings(self) -> &'static [&'static str] {
        match self {
            Self::SearchKeyWords => &[
                "Search with the key words of the instruction: the product and what it should be.",
                "Search for the words that matter, and leave out the rest.",
            ],
            Self::CheckPrice => &[
                "Check the price: never buy anything above the limit of the instruction.",
                "Compare the price with the limit before you open a product.",
            ],
            Self::CompareNames => &[
                "Compare the results and take the one whose name fits the instruction best.",
                "Do not just take the first result: read all names and take the closest.",
            ],
            Self::ChooseOptions => &[
                "Before you buy, click the options that the instruction names, such as color and size.",
                "Never buy before you have chosen every option that the instruction asks for: click on each.",
            ],
            Self::ReadFeatures => &[
                "Open the features of a product before you buy it, and look for what is asked for.",
                "Read features or description first: names do not tell everything.",
            ],
            Self::TryOthers => &[
                "If a product lacks something that is asked for, go back and try another one.",
                "Where something is missing, return to the list and look at the next result.",
            ],
        }
    }

    fn is_in(played: &Played) -> bool {
        ShopPage::read(&played.opening).is_some()
    }

    fn diagnose(played: &Played) -> Vec<Self> {
        let Some((instruction, _)) = ShopPage::read(&played.opening) else { return Vec::new() };
        let visit = Visit::of(played);
        let wish = ShopWish::read(&instruction);
        let mut findings = Vec::new();
        let is_vague = |query: &String| {
            let asked = ShopWish::read(query);
            asked.key_words.len() < 2 || query.split(' ').count() > asked.key_words.len()
        };
        findings.extend(visit.queries.iter().any(is_vague).then_some(Self::SearchKeyWords));
        let Some(bought) = visit.bought else { return findings };
        let unchosen = |value: &&str| !bought.clicked.iter().any(|clicked| clicked == value);
        let named = wish.chosen(&bought.choices, |choice| !is_option_name(choice));
        findings.extend(named.iter().any(unchosen).then_some(Self::ChooseOptions));
        let is_dear = bought.price.zip(wish.price_limit).is_some_and(|(price, limit)| price > limit);
        findings.extend(is_dear.then_some(Self::CheckPrice));
        let n_missing = wish.n_missing(&bought.title);
        let is_better = |listing: &ShopListing| wish.n_missing(&listing.title) < n_missing;
        findings.extend(visit.listed.iter().any(is_better).then_some(Self::CompareNames));
        if bought.read.is_empty() {
            findings.push(Self::ReadFeatures);
        } else {
            let all = format!("{} {} {}", bought.title, bought.read, bought.choices.join(" "));
            let settled = visit.n_opened == 1 && wish.n_missing(&all) > 0;
            findings.extend(settled.then_some(Self::TryOthers));
        }
        findings
    }

    fn practised(played: &Played) -> Vec<Self> {
        let Some((instruction, _)) = ShopPage::read(&played.opening) else { return Vec::new() };
        let visit = Visit::of(played);
        let Some(bought) = visit.bought else { return Vec::new() };
        let named = ShopWish::read(&instruction).chosen(&bought.choices, |choice| !is_option_name(choice));
        let is_chosen = |value: &&str| bought.clicked.iter().any(|clicked| clicked == value);
        let shown = [
            (Self::ChooseOptions, named.iter().any(is_chosen)),
            (Self::ReadFeatures, !bought.read.is_empty()),
            (Self::TryOthers, visit.n_opened > 1),
        ];
        shown.into_iter().filter_map(|(habit, is_shown)| is_shown.then_some(habit)).collect()
    }
}

/// What was bought, and what the agent knew of it.
#[derive(Debug, Default)]
struct Bought {
    title: String,
    price: Option<f64>,
    choices: Vec<String>,
    clicked: Vec<String>,
    read: String,
}

/// A visit as its trajectory tells it.
#[derive(Debug, Default)]
struct Visit {
    queries: Vec<String>,
    listed: Vec<ShopListing>,
    n_opened: usize,
    bought: Option<Bought>,
}

impl Visit {
    fn of(played: &Played) -> Self {
        let mut visit = Self::default();
        let mut looked_at = Bought::default();
        for step in &played.steps {
            let inside = |verb: &str| step.action.strip_prefix(verb).and_then(|rest| rest.strip_suffix(']'));
            if let Some(query) = inside("search[") {
                visit.queries.push(query.to_owned());
            }
            if let Some(clicked) = inside("click[") {
                if clicked.eq_ignore_ascii_case("buy now") {
                    visit.bought = Some(std::mem::take(&mut looked_at));
                    break;
                }
                looked_at.clicked.push(clicked.to_lowercase());
            }
            match ShopPage::read(&step.seen).map(|(_, page)| page) {
                Some(ShopPage::Results(listed)) => {
                    visit.listed = listed;
                    looked_at = Bought::default();
                }
                Some(ShopPage::Item { title, price, choices }) => {
                    visit.n_opened += usize::from(looked_at.title.is_empty());
                    looked_at = Bought { title, price, choices, ..looked_at };
                }
                Some(ShopPage::More(text)) => looked_at.read.push_str(&text),
                Some(ShopPage::Search | ShopPage::Done) | None => {}
            }
        }
        visit
    }
}
