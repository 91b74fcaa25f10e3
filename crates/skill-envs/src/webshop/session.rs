//! One visit to the shop, from the instruction to the purchase.

use super::action::Action;
use super::catalogue::Product;
use super::goals::Goal;
use super::pages::{BACK_TO_SEARCH, BUY_NOW, NEXT_PAGE, PREVIOUS_PAGE, Page, Piece, SEARCH};
use super::python::{dict_repr, json_dict};
use super::reward::Reward;
use super::shop::Shop;
use indexmap::{IndexMap, IndexSet};
use std::sync::Arc;

/// Where the original serves its pages; the addresses decide what some clicks do.
const BASE_URL: &str = "http://127.0.0.1:3000";

/// How many results a page shows.
const PAGE_LENGTH: usize = 10;

/// A visit: which goal it is for, what is shown, and what was chosen.
#[derive(Debug, Clone)]
pub struct Session {
    shop: Arc<Shop>,
    name: String,
    goal: usize,
    view: View,
    url: String,
    keywords: Vec<String>,
    page: i64,
    /// The place of the product that is looked at.
    product: Option<usize>,
    chosen: IndexMap<String, String>,
    /// The asins that were clicked since the last return to the search.
    visited: IndexSet<String>,
    purchase: Option<Purchase>,
    /// How often random products were drawn.
    n_draws: u64,
}

/// What is shown.
#[derive(Debug, Clone)]
enum View {
    Search,
    /// The products of one page of results, and how many were found.
    Results {
        products: Vec<usize>,
        n_found: usize,
    },
    Item,
    Sub(Sub),
    Done,
}

/// A page that tells more of a product.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sub {
    Description,
    Features,
    Reviews,
    Attributes,
}

impl Sub {
    const ALL: [Self; 4] = [Self::Description, Self::Features, Self::Reviews, Self::Attributes];

    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Description => "Description",
            Self::Features => "Features",
            Self::Reviews => "Reviews",
            Self::Attributes => "Attributes",
        }
    }
}

/// What an action did.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ActionResult {
    /// Whether the action meant something; one that did not changes nothing.
    pub understood: bool,
    /// The reward of this action: that of the purchase, or 0.
    pub reward: f64,
    /// Whether something was bought.
    pub done: bool,
}

impl ActionResult {
    const IGNORED: Self = Self { understood: false, reward: 0.0, done: false };
    const SHOWN: Self = Self { understood: true, reward: 0.0, done: false };
}

/// What was bought.
#[derive(Debug, Clone, PartialEq)]
pub struct Purchase {
    /// The product.
    pub asin: String,
    /// The value that was chosen of each option, in the order of the first choices.
    pub options: IndexMap<String, String>,
    /// The price that it is judged by.
    pub price: f64,
    /// What it is worth.
    pub reward: Reward,
}

/// What a click is on, besides its text.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Target {
    Button,
    Product,
    Choice { name: String },
}

impl Session {
    /// A visit for the goal of this place; `None` if there is none.
    pub fn start(shop: Arc<Shop>, name: impl Into<String>, goal: usize) -> Option<Self> {
        shop.goals().get(goal)?;
        let name = name.into();
        let mut session = Self {
            shop,
            name,
            goal,
            view: View::Search,
            url: String::new(),
            keywords: Vec::new(),
            page: 1,
            product: None,
            chosen: IndexMap::new(),
            visited: IndexSet::new(),
            purchase: None,
            n_draws: 0,
        };
        session.show_search();
        Some(session)
    }

    /// Restarts the visit.
    pub fn restart(&mut self) {
        self.purchase = None;
        self.n_draws = 0;
        self.show_search();
    }

    /// The goal.
    pub fn goal(&self) -> Option<&Goal> {
        self.shop.goals().get(self.goal)
    }

    /// What the agent is told to buy.
    pub fn instruction(&self) -> &str {
        self.goal().map_or("", |goal| goal.instruction.as_str())
    }

    /// The page as one line, its pieces separated by ` [SEP] `.
    pub fn text(&self) -> String {
        self.render().plain()
    }

    /// The page with one piece a line and marks around what can be clicked.
    pub fn text_rich(&self) -> String {
        let is_chosen = |value: &str| self.url.contains(&format!("\"{value}\""));
        self.render().rich(is_chosen, |asin| self.visited.contains(asin))
    }

    /// What can be clicked, in lower case; the button `search` of the first page is here, but does nothing.
    pub fn clickables(&self) -> Vec<String> {
        self.targets().into_keys().collect()
    }

    /// Whether there is a line to type a search into. A search is possible on every page all the same.
    pub fn has_search_bar(&self) -> bool {
        matches!(self.view, View::Search)
    }

    /// The address of the page.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The last purchase.
    pub fn purchase(&self) -> Option<&Purchase> {
        self.purchase.as_ref()
    }

    /// Takes an action: `search[words]` or `click[text]`. Any other text, and a click on what is not there, changes
    /// nothing.
    pub fn act(&mut self, action: &str) -> ActionResult {
        let Action { name, argument: Some(argument) } = Action::parse(action) else {
            return ActionResult::IGNORED;
        };
        let argument = argument.to_lowercase();
        match name {
            "search" => self.search(&argument),
            "click" => match self.targets().swap_remove(&argument) {
                Some(target) if argument != SEARCH.to_lowercase() => self.click(&argument, &target),
                _ => ActionResult::IGNORED,
            },
            _ => ActionResult::IGNORED,
        }
    }

    fn search(&mut self, words: &str) -> ActionResult {
        let keywords: Vec<String> = words.split(' ').map(str::to_owned).collect();
        // The original stops with an exception here.
        if !Shop::can_search(&keywords) {
            return ActionResult::IGNORED;
        }
        self.keywords = keywords;
        self.show_results(1);
        ActionResult::SHOWN
    }

    /// What a click does is told by its text first, then by the address, and last by what it is on.
    fn click(&mut self, text: &str, target: &Target) -> ActionResult {
        if text == BUY_NOW.to_lowercase() {
            return self.buy();
        }
        let is_previous = text == PREVIOUS_PAGE.to_lowercase();
        let address = Address::of(&self.url);
        if text == BACK_TO_SEARCH.to_lowercase() {
            self.show_search();
        } else if text == NEXT_PAGE.to_lowercase() && address == Address::Results {
            self.show_results(self.page + 1);
        } else if is_previous && address == Address::Results {
            self.show_results(self.page - 1);
        } else if is_previous && address == Address::Item {
            self.show_results(self.page);
        } else if is_previous && address == Address::Sub {
            self.show_item();
        } else if let Some(sub) = Sub::ALL.into_iter().find(|sub| text == sub.label().to_lowercase()) {
            self.show_sub(sub);
        } else {
            self.choose(text, target);
            self.show_item();
        }
        ActionResult::SHOWN
    }

    fn choose(&mut self, text: &str, target: &Target) {
        match target {
            Target::Button => {}
            Target::Product => {
                let asin = text.to_uppercase();
                self.product = self.shop.catalogue().position(&asin).or_else(|| self.linked(text));
                self.visited.insert(asin);
            }
            Target::Choice { name } => {
                self.chosen.insert(name.to_lowercase(), text.to_owned());
            }
        }
    }

    /// The product of the shown results with this asin in lower case, for an asin that is not in upper case.
    fn linked(&self, text: &str) -> Option<usize> {
        let View::Results { products, .. } = &self.view else {
            return None;
        };
        let is_linked = |place: &usize| {
            self.shop
                .catalogue()
                .products()
                .get(*place)
                .is_some_and(|product| product.asin.to_lowercase() == text)
        };
        products.iter().copied().find(is_linked)
    }

    fn buy(&mut self) -> ActionResult {
        let (Some(goal), Some((place, product))) = (self.goal(), self.looked_at()) else {
            return ActionResult::IGNORED;
        };
        let price = self.shop.price(place);
        let chosen = self.chosen.values().map(String::as_str);
        let reward = self.shop.reward(goal, product, chosen, price);
        let asin = product.asin.clone();
        self.url = format!("{BASE_URL}/done/{}/{asin}/{}", self.name, dict_repr(pairs(&self.chosen)));
        self.purchase = Some(Purchase { asin, options: self.chosen.clone(), price, reward });
        self.view = View::Done;
        ActionResult { understood: true, reward: reward.total(), done: true }
    }

    fn show_search(&mut self) {
        self.keywords.clear();
        self.product = None;
        self.visited.clear();
        self.chosen.clear();
        self.view = View::Search;
        self.url = format!("{BASE_URL}/{}", self.name);
    }

    fn show_results(&mut self, page: i64) {
        self.page = page;
        self.product = None;
        self.chosen.clear();
        let draw = (self.goal, self.n_draws);
        self.n_draws += u64::from(Shop::is_random(&self.keywords));
        let found = self.shop.find(&self.keywords, draw);
        let n_found = found.len();
        // Before the first page there is nothing, and behind the last one neither.
        let n_before = page.checked_sub(1).and_then(|before| usize::try_from(before).ok());
        let products = n_before.map_or_else(Vec::new, |n_before| {
            found.into_iter().skip(n_before.saturating_mul(PAGE_LENGTH)).take(PAGE_LENGTH).collect()
        });
        self.view = View::Results { products, n_found };
        self.url = format!("{BASE_URL}/search_results/{}/{}/{page}", self.name, self.keywords.join("+"));
    }

    fn show_item(&mut self) {
        let options = json_dict(pairs(&self.chosen));
        self.url = format!("{}/{options}", self.product_url("item_page"));
        self.view = View::Item;
    }

    fn show_sub(&mut self, sub: Sub) {
        let options = dict_repr(pairs(&self.chosen));
        self.url = format!("{}/{}/{options}", self.product_url("item_sub_page"), sub.label());
        self.view = View::Sub(sub);
    }

    fn product_url(&self, kind: &str) -> String {
        let asin = self.looked_at().map_or("", |(_, product)| product.asin.as_str());
        format!("{BASE_URL}/{kind}/{}/{asin}/{}/{}", self.name, self.keywords.join("+"), self.page)
    }

    fn looked_at(&self) -> Option<(usize, &Product)> {
        let place = self.product?;
        Some((place, self.shop.catalogue().products().get(place)?))
    }

    fn render(&self) -> Page {
        let instruction = self.instruction();
        let products = self.shop.catalogue().products();
        let item = self.looked_at().map(|(_, product)| product);
        match (&self.view, item) {
            (View::Results { products: shown, n_found }, _) => {
                let shown = shown.iter().filter_map(|place| products.get(*place));
                Page::results(instruction, self.page, *n_found, shown)
            }
            (View::Item, Some(product)) => Page::item(instruction, product, self.shop.shows_attributes()),
            (View::Sub(sub), Some(product)) => Page::sub(instruction, product, *sub),
            (View::Done, Some(product)) => {
                let reward = self.purchase.as_ref().map_or(0.0, |purchase| purchase.reward.total());
                Page::done(&product.asin, &self.chosen, reward)
            }
            // A product page is shown of a product alone.
            (View::Search | View::Item | View::Sub(_) | View::Done, _) => Page::search(instruction),
        }
    }

    /// What can be clicked by its text: buttons, then products, then choices; of equal texts the last one counts,
    /// in the place of the first.
    fn targets(&self) -> IndexMap<String, Target> {
        let page = self.render();
        let mut targets = IndexMap::new();
        for piece in &page.pieces {
            if let Piece::Button(label) = piece {
                targets.insert(label.to_lowercase(), Target::Button);
            }
        }
        for piece in &page.pieces {
            if let Piece::Link(asin) = piece {
                targets.insert(asin.to_lowercase(), Target::Product);
            }
        }
        for piece in page.pieces {
            if let Piece::Choice { name, value } = piece {
                targets.insert(value, Target::Choice { name });
            }
        }
        targets
    }
}

fn pairs(chosen: &IndexMap<String, String>) -> impl Iterator<Item = (&str, &str)> {
    chosen.iter().map(|(name, value)| (name.as_str(), value.as_str()))
}

/// The kind of page that an address is taken for: by the first of these words that stands anywhere in it, and the
/// words of the search are in it too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Address {
    Results,
    Item,
    Sub,
    Other,
}

impl Address {
    fn of(url: &str) -> Self {
        let kinds =
            [("search_results", Self::Results), ("item_page", Self::Item), ("item_sub_page", Self::Sub)];
        kinds.into_iter().find(|(word, _)| url.contains(word)).map_or(Self::Other, |(_, kind)| kind)
    }
}
