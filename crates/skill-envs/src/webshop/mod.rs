//! A shop in which an agent searches, reads pages, chooses options and buys: WebShop, without its servers.
//!
//! S. Yao, H. Chen, J. Yang and K. Narasimhan, "WebShop: Towards Scalable Real-World Web Interaction with Grounded
//! Language Agents", 2022.
//! Products and instructions come from the original's files or are made up ([`Bundled`]); rankings, pages and
//! rewards are those of the original, with its quirks where a player can meet them.
//!
//! [`Shop`] is what does not change, [`Session`] one visit, [`WebshopWorld`] the data set for an agent.
//!
//! ```
//! use skill_envs::webshop::{Session, Shop, WebshopConfig};
//! use std::sync::Arc;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let shop = Arc::new(Shop::load(&WebshopConfig::default())?);
//! let mut visit = Session::start(Arc::clone(&shop), "visit", 3).ok_or("no such goal")?;
//! let wanted = shop.goals()[3].asin.clone();
//! visit.act(&format!("search[{}]", shop.goals()[3].name));
//! visit.act(&format!("click[{wanted}]"));
//! let outcome = visit.act("click[buy now]");
//! assert!(outcome.done && outcome.reward > 0.0);
//! # Ok(())
//! # }
//! ```
//!
//! # What differs from the original
//!
//! - A search that raises an exception there (`<c>` without a word, `<a>`) means nothing here, and changes nothing.
//! - What the original draws again in each process is drawn from [`WebshopConfig::seed`].
//! - Nouns are found by rule ([`nouns`]) or given ([`WebshopConfig::nouns`]), and not by a statistical tagger.
//! - A goal that cannot be scored is refused when it is loaded, and not when something is bought for it.
//! - A product without a first feature is indexed without it, and its pictures are not looked at.
//!
//! # Invariants
//!
//! - Rankings, pages, clickables and rewards are those recorded from the original WebShop. Held by
//!   `conformance_with_the_recordings`.

mod action;
mod bundled;
mod catalogue;
mod colours;
mod config;
mod files;
mod goals;
mod load;
mod nouns;
mod pages;
mod price;
mod python;
mod reward;
mod session;
mod shop;
mod similarity;
mod world;

pub use crate::retrieval::{Hit, SearchIndex, terms};
pub use action::Action;
pub use bundled::{ATTRIBUTES_FILE, Bundled, INSTRUCTIONS_FILE, PRODUCTS_FILE};
pub use catalogue::{Catalogue, Product, option_value};
pub use colours::{COLOURS, normalize_color};
pub use config::{GoalKind, GoalRange, MissingProducts, ObservationForm, SplitRanges, WebshopConfig};
pub use files::{AttributeEntry, Dropped, GoalOptions, HumanInstruction};
pub use goals::{DrawnSessions, Goal, deal};
pub use nouns::{Nouns, nouns};
pub use price::{Price, PriceError};
pub use reward::{BoughtAndWanted, Kind, MatchCount, Reward, TypeMatch, matched_attributes, matched_options};
pub use session::{ActionResult, Purchase, Session};
pub use shop::{Shop, ShopSettings};
pub use similarity::token_set_ratio;
pub use world::{INSTRUCTIONS, WebshopEpisode, WebshopWorld};
