//! A shop: products, the search engine over them, goals and prices. It does not change, and any number of visits
//! share it.

use super::catalogue::{Catalogue, Product};
use super::goals::{DrawnSessions, Goal};
use super::nouns::Nouns;
use super::reward::{BoughtAndWanted, Reward};
use crate::retrieval::SearchIndex;
use skill_core::PyRandom;

/// How many results a search has at most.
const MAX_HITS: usize = 50;

/// How many products the query `<r>` shows.
const N_RANDOM: usize = 50;

/// A shop.
#[derive(Debug)]
pub struct Shop {
    catalogue: Catalogue,
    index: SearchIndex,
    prices: Vec<f64>,
    goals: Vec<Goal>,
    nouns: Nouns,
    settings: ShopSettings,
}

/// How a shop behaves, besides its products and goals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ShopSettings {
    /// Whether the page of a product leads to a page of its attributes.
    pub show_attributes: bool,
    /// The seed of the products that the query `<r>` shows.
    pub seed: u64,
}

impl Shop {
    /// Builds the search engine over these products. Prices are in their order.
    pub fn new(
        catalogue: Catalogue,
        prices: Vec<f64>,
        goals: Vec<Goal>,
        nouns: Nouns,
        settings: ShopSettings,
    ) -> Self {
        let index = SearchIndex::new(catalogue.products().iter().map(Product::indexed_text));
        Self { catalogue, index, prices, goals, nouns, settings }
    }

    /// The products.
    pub fn catalogue(&self) -> &Catalogue {
        &self.catalogue
    }

    /// The goals, in the order in which they are dealt out.
    pub fn goals(&self) -> &[Goal] {
        &self.goals
    }

    /// The price that the product of this place is judged by.
    pub fn price(&self, place: usize) -> f64 {
        self.prices.get(place).copied().unwrap_or_default()
    }

    /// The sessions that the original makes where nobody says which.
    pub fn drawn_sessions(&self) -> DrawnSessions {
        DrawnSessions::new(&self.goals)
    }

    /// The best products for these words with their scores, at most 50; equal scores are in the order of asins.
    pub fn search(&self, words: &str) -> Vec<(&Product, f32)> {
        let hits = self.hits(words);
        hits.into_iter()
            .filter_map(|(place, score)| Some((self.catalogue.products().get(place)?, score)))
            .collect()
    }

    /// What buying this product with these values is worth for this goal.
    pub fn reward<'a>(
        &self,
        goal: &Goal,
        product: &Product,
        chosen: impl IntoIterator<Item = &'a str>,
        price: f64,
    ) -> Reward {
        let (bought, wanted) = (self.nouns.of(&product.title), self.nouns.of(&goal.name));
        Reward::new(goal, product, chosen, price, BoughtAndWanted { bought: &bought, wanted: &wanted })
    }

    /// A number that tells this shop's products, prices, goals and nouns from those of another.
    pub fn fingerprint(&self) -> String {
        let mut print = Fingerprint::default();
        for (product, price) in self.catalogue.products().iter().zip(&self.prices) {
            for text in [&product.asin, &product.title, &product.category, &product.query] {
                print.add(text);
            }
            print.add(&product.indexed_text());
            print.add(&product.product_category);
            print.add(&format!("{} {price}", product.price));
            product.bullets.iter().chain(&product.attributes).for_each(|text| print.add(text));
        }
        for goal in &self.goals {
            print.add(&format!("{goal:?}"));
        }
        self.nouns.each_given(|name, nouns| {
            print.add(name);
            nouns.iter().for_each(|noun| print.add(noun));
        });
        format!("{} products, {} goals, {:016x}", self.catalogue.len(), self.goals.len(), print.0)
    }

    pub(super) fn shows_attributes(&self) -> bool {
        self.settings.show_attributes
    }

    fn hits(&self, words: &str) -> Vec<(usize, f32)> {
        let products = self.catalogue.products();
        let asin = |place: usize| products.get(place).map(|product| product.asin.as_str());
        let hits = self.index.search(words, MAX_HITS, |a, b| asin(a).cmp(&asin(b)));
        hits.into_iter().map(|hit| (hit.document, hit.score)).collect()
    }

    /// Whether a search for these words has an answer: `<a>`, and `<c>` without a word, have none.
    pub(super) fn can_search(keywords: &[String]) -> bool {
        match keywords.first().map(String::as_str) {
            Some("<a>") => false,
            Some("<c>") => keywords.len() > 1,
            _ => true,
        }
    }

    /// Whether these words ask for random products.
    pub(super) fn is_random(keywords: &[String]) -> bool {
        keywords.first().is_some_and(|word| word == "<r>")
    }

    /// The places of what these words find. `draw` tells one random choice from another.
    pub(super) fn find(&self, keywords: &[String], draw: (usize, u64)) -> Vec<usize> {
        let rest = keywords.get(1..).unwrap_or_default();
        match keywords.first().map(String::as_str) {
            Some("<r>") => self.random_products(draw),
            Some("<c>") => {
                let category = rest.first().map_or("", |word| super::python::strip(word));
                self.places_where(|product| product.category == category)
            }
            Some("<q>") => {
                let query = rest.join(" ");
                let query = super::python::strip(&query);
                self.places_where(|product| product.query == query)
            }
            _ => self.hits(&keywords.join(" ")).into_iter().map(|(place, _)| place).collect(),
        }
    }

    fn places_where(&self, is_found: impl Fn(&Product) -> bool) -> Vec<usize> {
        let places = self.catalogue.products().iter().enumerate();
        places.filter(|(_, product)| is_found(product)).map(|(place, _)| place).collect()
    }

    /// Different products, drawn from the shop's seed, the goal and how often it was drawn before.
    fn random_products(&self, (goal, n_before): (usize, u64)) -> Vec<usize> {
        let key = format!("{}/{goal}/{n_before}", self.settings.seed);
        let hash = skill_core::canonical::hex_sha256(key.as_bytes());
        let digits = hash.get(..16).expect("a SHA-256 has 64 digits");
        let seed = u64::from_str_radix(digits, 16).expect("the digits are hexadecimal");
        let mut random = PyRandom::new(seed);
        let mut places: Vec<usize> = (0..self.catalogue.len()).collect();
        let n_wanted = places.len().min(N_RANDOM);
        for place in 0..n_wanted {
            let n_left = (places.len() - place) as u64;
            let partner = place + usize::try_from(random.randbelow(n_left)).unwrap_or_default();
            places.swap(place, partner);
        }
        places.truncate(n_wanted);
        places
    }
}

/// The hash FNV-1a of 64 bits: quick, the same everywhere, and no secret depends on it.
struct Fingerprint(u64);

impl Default for Fingerprint {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Fingerprint {
    /// Adds a text, with a mark behind it that no text has.
    fn add(&mut self, text: &str) {
        for byte in text.bytes().chain(std::iter::once(0xff)) {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
}
