//! The pages, as the pieces of text that a person would see, and their two renderings.

use super::catalogue::Product;
use super::python::{float_repr, json_dict, strip};
use super::session::Sub;
use indexmap::IndexMap;

/// What is between the pieces of a plain rendering.
pub(super) const SEPARATOR: &str = " [SEP] ";

/// A piece of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Piece {
    /// Text.
    Text(String),
    /// A button.
    Button(&'static str),
    /// The asin of a product in a list of results.
    Link(String),
    /// A value of an option, with the option's name.
    Choice { name: String, value: String },
}

impl Piece {
    /// What a person sees of it.
    fn shown(&self) -> Option<String> {
        match self {
            Self::Text(text) | Self::Link(text) => Some(text.clone()),
            Self::Button(label) => Some((*label).to_owned()),
            Self::Choice { value, .. } => visible(value),
        }
    }
}

/// A page.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Page {
    pub(super) pieces: Vec<Piece>,
    /// Whether there is a line to type a search into.
    pub(super) has_search_bar: bool,
}

pub(super) const SEARCH: &str = "Search";
pub(super) const BACK_TO_SEARCH: &str = "Back to Search";
pub(super) const NEXT_PAGE: &str = "Next >";
pub(super) const PREVIOUS_PAGE: &str = "< Prev";
pub(super) const BUY_NOW: &str = "Buy Now";

impl Page {
    fn text(&mut self, text: impl AsRef<str>) {
        if let Some(text) = visible(text.as_ref()) {
            self.pieces.push(Piece::Text(text));
        }
    }

    fn button(&mut self, label: &'static str) {
        self.pieces.push(Piece::Button(label));
    }

    /// A page that begins with the instruction, under the way back to the search.
    fn with_header(instruction: &str) -> Self {
        let mut page = Self::default();
        page.text("Instruction:");
        page.text(instruction);
        page.button(BACK_TO_SEARCH);
        page
    }

    /// The first page.
    pub(super) fn search(instruction: &str) -> Self {
        let mut page = Self { has_search_bar: true, ..Self::default() };
        page.text("WebShop");
        page.text("Instruction: ");
        page.text(instruction);
        page.button(SEARCH);
        page
    }

    /// A page of results.
    pub(super) fn results<'a>(
        instruction: &str,
        number: i64,
        n_found: usize,
        products: impl Iterator<Item = &'a Product>,
    ) -> Self {
        let mut page = Self::with_header(instruction);
        page.text(format!("Page {number} (Total results: {n_found})"));
        if number > 1 {
            page.button(PREVIOUS_PAGE);
        }
        page.button(NEXT_PAGE);
        for product in products {
            page.pieces.push(Piece::Link(product.asin.clone()));
            page.text(&product.title);
            page.text(product.price.to_string());
        }
        page
    }

    /// The page of a product.
    pub(super) fn item(instruction: &str, product: &Product, show_attributes: bool) -> Self {
        let mut page = Self::with_header(instruction);
        page.button(PREVIOUS_PAGE);
        for (name, values) in &product.options {
            page.text(name);
            for value in values {
                page.pieces.push(Piece::Choice { name: name.clone(), value: value.clone() });
            }
        }
        page.text(&product.title);
        page.text(format!("Price: {}", product.price));
        page.text("Rating: N.A.");
        for sub in [Sub::Description, Sub::Features, Sub::Reviews] {
            page.button(sub.label());
        }
        if show_attributes {
            page.button(Sub::Attributes.label());
        }
        page.button(BUY_NOW);
        page
    }

    /// A page that tells more of a product.
    pub(super) fn sub(instruction: &str, product: &Product, sub: Sub) -> Self {
        let mut page = Self::with_header(instruction);
        page.button(PREVIOUS_PAGE);
        match sub {
            Sub::Description => page.text(&product.description),
            Sub::Features => page.list(&product.bullets),
            Sub::Reviews => {}
            Sub::Attributes => {
                page.list(&product.attributes);
                page.text(&product.category);
                page.text(&product.query);
                page.text(&product.product_category);
            }
        }
        page
    }

    /// Entries with a blank before each.
    fn list(&mut self, entries: &[String]) {
        for entry in entries {
            self.text(format!(" {entry}"));
        }
    }

    /// The page after a purchase.
    pub(super) fn done(asin: &str, chosen: &IndexMap<String, String>, reward: f64) -> Self {
        let mut sorted: Vec<_> = chosen.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        sorted.sort_unstable();
        let options = ['&', '<', '>', '\''].iter().fold(json_dict(sorted.into_iter()), |text, character| {
            text.replace(*character, &format!("\\u{:04x}", u32::from(*character)))
        });
        let mut page = Self::default();
        for text in ["Thank you for shopping with us!", "Your code: ", "None"] {
            page.text(text);
        }
        for text in [" (Paste it in your MTurk interface.)", "Purchased", "asin", asin, "options", &options] {
            page.text(text);
        }
        for text in ["attrs", "None", "category", "None", "query", "None", "product category", "None"] {
            page.text(text);
        }
        // The spelling is that of the original.
        for text in ["Target", "asin", "options", "attrs", "price upper", "instuction text", "category"] {
            page.text(text);
        }
        for text in ["product category", "query", "Goal ", "None", "Reward"] {
            page.text(text);
        }
        for text in ["Your score (min 0.0, max 1.0)", &float_repr(reward), "Reward Details ", "None"] {
            page.text(text);
        }
        page
    }

    /// The pieces, trimmed, with `[SEP]` between them.
    pub(super) fn plain(&self) -> String {
        let texts: Vec<String> = self.pieces.iter().filter_map(Piece::shown).collect();
        texts.iter().map(|text| strip(text)).collect::<Vec<_>>().join(SEPARATOR)
    }

    /// One piece a line, with marks around what can be clicked, and other marks around what was.
    pub(super) fn rich(&self, is_chosen: impl Fn(&str) -> bool, is_visited: impl Fn(&str) -> bool) -> String {
        let mut out = String::new();
        let mut said = Vec::new();
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => out.push_str(text),
                Piece::Button(label) => mark(&mut out, "", label, false),
                Piece::Link(asin) => mark(&mut out, "\n", asin, is_visited(asin)),
                Piece::Choice { value, .. } => {
                    let Some(value) = visible(value) else {
                        continue;
                    };
                    let is_chosen = is_chosen(&value);
                    mark(&mut out, "  ", &value, is_chosen);
                    if is_chosen {
                        said.push(format!("You have clicked {value}.\n"));
                    }
                }
            }
            out.push('\n');
        }
        said.reverse();
        said.push(out);
        said.concat()
    }
}

fn mark(out: &mut String, before: &str, text: &str, is_clicked: bool) {
    let (open, close) =
        if is_clicked { ("[clicked button]", "[clicked button_]") } else { ("[button]", "[button_]") };
    for part in [before, open, " ", text, " ", close] {
        out.push_str(part);
    }
}

/// What a browser makes of a text: nothing of an empty one or of white space with a line break, one blank of other
/// white space.
fn visible(text: &str) -> Option<String> {
    let is_blank = text.chars().all(|character| matches!(character, ' ' | '\t' | '\n' | '\r' | '\u{c}'));
    match is_blank {
        false => Some(text.to_owned()),
        true if text.is_empty() || text.contains('\n') => None,
        true => Some(" ".to_owned()),
    }
}
