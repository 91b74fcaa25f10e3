//! The shop as a world: its goals are the items, a visit is an episode.

use super::config::{ObservationForm, WebshopConfig};
use super::pages::SEPARATOR;
use super::session::Session;
use super::shop::Shop;
use crate::agent::shop_action;
use crate::episode::{Episode, Observation, World};
use crate::error::EnvError;
use crate::item::{Item, Split, Splits};
use async_trait::async_trait;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::sync::Arc;

/// What an agent has to know to act in the shop.
pub const INSTRUCTIONS: &str = "You are shopping online: find the product that the instruction asks for, choose the \
options it names, and buy it. You act by writing one action at a time, in one of two forms. `search[words]` looks \
for products; it is possible on every page. `click[text]` clicks a button, a product number or an option of the \
page, named by its text. Buying (`click[buy now]`) ends the visit; what you bought is judged by how much of the \
instruction it meets: the kind of product, its attributes, the chosen options and the price.";

/// The form in which a search stands among the actions that are possible.
const SEARCH_FORM: &str = "search[<your query>]";

/// A shop whose goals are the items of a data set.
#[derive(Debug)]
pub struct WebshopWorld {
    shop: Arc<Shop>,
    splits: Splits<Vec<Item>>,
    display: Display,
    settings: Value,
}

/// What an episode shows of the pages.
#[derive(Debug, Clone, Copy)]
struct Display {
    form: ObservationForm,
    n_observations: usize,
    n_actions: usize,
}

impl WebshopWorld {
    /// Loads the shop and splits its goals.
    ///
    /// # Errors
    ///
    /// Those of [`Shop::load`] and [`WebshopConfig::split_goals`].
    pub fn load(config: &WebshopConfig) -> Result<Self, EnvError> {
        Self::new(Arc::new(Shop::load(config)?), config)
    }

    /// The world of a shop that is loaded already; of the configuration counts what is shown and how it is split.
    ///
    /// # Errors
    ///
    /// Those of [`WebshopConfig::split_goals`].
    pub fn new(shop: Arc<Shop>, config: &WebshopConfig) -> Result<Self, EnvError> {
        let categories: Vec<&str> = shop.goals().iter().map(|goal| goal.category.as_str()).collect();
        let places = config.split_goals(&categories)?;
        let splits = places.map(|places| places.into_iter().filter_map(|place| item(&shop, place)).collect());
        let settings = json!({
            "shop": shop.fingerprint(),
            "show_attributes": shop.shows_attributes(),
            "observation": config.observation,
            "previous_observations": config.previous_observations,
            "previous_actions": config.previous_actions,
        });
        let display = Display {
            form: config.observation,
            n_observations: config.previous_observations,
            n_actions: config.previous_actions,
        };
        Ok(Self { shop, splits, display, settings })
    }

    /// The shop.
    pub fn shop(&self) -> &Arc<Shop> {
        &self.shop
    }

    /// An episode for the goal of this place, whatever split it belongs to.
    ///
    /// # Errors
    ///
    /// There is no such goal.
    pub fn play(&self, goal: usize) -> Result<WebshopEpisode, EnvError> {
        let session = Session::start(Arc::clone(&self.shop), goal.to_string(), goal).ok_or_else(|| {
            let n_goals = self.shop.goals().len();
            super::config::configuration(format!("goal {goal} not found; the shop has {n_goals}, from 0"))
        })?;
        Ok(WebshopEpisode {
            session,
            window: Window::new(self.display.n_observations, self.display.n_actions),
            form: self.display.form,
        })
    }
}

fn item(shop: &Shop, place: usize) -> Option<Item> {
    let goal = shop.goals().get(place)?;
    let data = json!({
        "goal": place,
        "asin": goal.asin,
        "instruction": goal.instruction,
        "attributes": goal.attributes,
        "options": goal.options.to_json(),
        "price_upper": goal.price_upper,
    });
    Some(Item { id: format!("goal-{place}").into(), task_type: goal.category.clone(), data: Arc::new(data) })
}

impl World for WebshopWorld {
    fn name(&self) -> &str {
        "webshop"
    }

    fn items(&self, split: Split) -> &[Item] {
        &self.splits[split]
    }

    fn settings(&self) -> Value {
        self.settings.clone()
    }

    fn goal(&self, item: &Item) -> Option<String> {
        Some(item.data.get("instruction")?.as_str()?.to_owned())
    }

    fn instructions(&self) -> &str {
        INSTRUCTIONS
    }

    fn episode(&self, item: &Item) -> Result<Box<dyn Episode>, EnvError> {
        let place =
            item.data.get("goal").and_then(Value::as_u64).and_then(|place| usize::try_from(place).ok());
        let place = place.ok_or_else(|| {
            super::config::configuration(format!("item {} is none of the shop's: it names no goal", item.id))
        })?;
        Ok(Box::new(self.play(place)?))
    }
}

/// One visit as an episode.
#[derive(Debug, Clone)]
pub struct WebshopEpisode {
    session: Session,
    window: Window,
    form: ObservationForm,
}

impl WebshopEpisode {
    /// The visit.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Restarts the visit and tells what is seen first.
    pub fn begin(&mut self) -> Observation {
        self.session.restart();
        let text = self.page();
        self.window.begin(text.clone());
        self.observation(text)
    }

    /// Applies an action and returns the observation.
    pub fn act(&mut self, action: &str) -> Observation {
        let outcome = self.session.act(&shop_action(action));
        let page = self.page();
        let text = self.window.next(page, action);
        Observation {
            reward: outcome.reward,
            done: outcome.done,
            won: outcome.done && outcome.reward >= 1.0,
            understood: outcome.understood,
            ..self.observation(text)
        }
    }

    fn page(&self) -> String {
        match self.form {
            ObservationForm::Text => self.session.text(),
            ObservationForm::TextRich => self.session.text_rich(),
        }
    }

    fn observation(&self, text: String) -> Observation {
        let mut admissible = Vec::new();
        if self.session.has_search_bar() {
            admissible.push(SEARCH_FORM.to_owned());
        }
        // The button of the first page does nothing by itself.
        let clickables = self.session.clickables().into_iter().filter(|text| text != "search");
        admissible.extend(clickables.map(|text| format!("click[{text}]")));
        Observation { admissible: Some(admissible), ..Observation::new(text) }
    }
}

#[async_trait]
impl Episode for WebshopEpisode {
    async fn reset(&mut self) -> Result<Observation, EnvError> {
        Ok(self.begin())
    }

    async fn step(&mut self, action: &str) -> Result<Observation, EnvError> {
        Ok(self.act(action))
    }

    fn task(&self) -> Option<&str> {
        Some(self.session.instruction())
    }
}

/// The newest page with as many earlier pages and actions before it as are asked for.
#[derive(Debug, Clone)]
struct Window {
    n_pages: usize,
    n_actions: usize,
    /// The newest first.
    pages: VecDeque<String>,
    actions: VecDeque<String>,
}

impl Window {
    fn new(n_pages: usize, n_actions: usize) -> Self {
        Self { n_pages, n_actions, pages: VecDeque::new(), actions: VecDeque::new() }
    }

    fn begin(&mut self, page: String) {
        self.actions.clear();
        self.pages.clear();
        self.keep_page(page);
    }

    /// What is shown after an action: page, action, page, action, and last the newest page.
    fn next(&mut self, page: String, action: &str) -> String {
        self.actions.push_front(action.to_owned());
        self.actions.truncate(self.n_actions);
        let mut newest_first = vec![page.as_str()];
        for number in 0..self.n_pages.max(self.n_actions) {
            newest_first.extend(self.actions.get(number).map(String::as_str));
            newest_first.extend(self.pages.get(number).map(String::as_str));
        }
        newest_first.reverse();
        let shown = newest_first.join(SEPARATOR);
        self.keep_page(page);
        shown
    }

    fn keep_page(&mut self, page: String) {
        self.pages.push_front(page);
        self.pages.truncate(self.n_pages);
    }
}
