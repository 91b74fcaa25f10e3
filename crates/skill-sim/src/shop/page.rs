//! Pages of a shop and the wishes of its visitors, as a model reads them.

/// What one looks for, read from an instruction.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct ShopWish {
    /// The words that say something about the product, in order.
    pub(crate) key_words: Vec<String>,
    /// The most that may be paid, in dollars.
    pub(crate) price_limit: Option<f64>,
    /// All words, with a blank between them and at both ends.
    text: String,
}

/// Words of an instruction that say nothing about the product.
const FILLERS: &str = "a an the i i'd i'm im am is are be it its it's this that which these those for of in on to with \
    and or by my me you your please find get show looking look need want would like can could have has should buy \
    broke old so one some also am interested searching";

/// What the options of products are called; in a line of text nothing else tells a name from a value.
const OPTION_NAMES: &[&str] = &[
    "color",
    "colour",
    "size",
    "style",
    "scent",
    "flavor",
    "flavor name",
    "pattern",
    "material",
    "pattern name",
];

/// The words of a text in lower case.
fn words(text: &str) -> impl Iterator<Item = String> {
    let lower = text.to_lowercase().replace('’', "'");
    let split: Vec<String> = lower
        .split(|c: char| !c.is_alphanumeric() && c != '\'' && c != '.')
        .map(|word| word.trim_matches(['\'', '.']).to_owned())
        .filter(|word| !word.is_empty())
        .collect();
    split.into_iter()
}

fn padded(text: &str) -> String {
    let words: Vec<String> = words(text).collect();
    format!(" {} ", words.join(" "))
}

impl ShopWish {
    /// Reads an instruction such as `find me a red mug, and price lower than 20.00 dollars`.
    pub(crate) fn read(instruction: &str) -> Self {
        let lower = instruction.to_lowercase();
        let (wish, bound) = match lower.split_once("price lower than ") {
            Some((wish, bound)) => (wish, bound),
            None => (lower.as_str(), ""),
        };
        let price_limit = words(bound).find_map(|word| word.parse().ok());
        let is_filler = |word: &String| FILLERS.split(' ').any(|filler| filler == word);
        let key_words = words(wish).filter(|word| !is_filler(word)).collect();
        Self { key_words, price_limit, text: padded(wish) }
    }

    /// Whether these words are in the instruction, one after the other.
    pub(crate) fn names(&self, value: &str) -> bool {
        let value = padded(value);
        value.trim().chars().next().is_some() && self.text.contains(&value)
    }

    /// How many of the key words do not stand in this text.
    pub(crate) fn n_missing(&self, text: &str) -> usize {
        let text = padded(text);
        // Of a short word the beginning alone says too little: `5` is not `50`.
        let stands = |word: &String| match stem(word) {
            short if short.len() < 4 => {
                text.contains(&format!(" {short} ")) || text.contains(&format!(" {short}s "))
            }
            stem => text.contains(&format!(" {stem}")),
        };
        self.key_words.iter().filter(|word| !stands(word)).count()
    }

    /// Of the choices of a product's page those that the instruction names: one of each option.
    ///
    /// `is_value` tells values from the names of the options before them.
    pub(crate) fn chosen<'a>(&self, choices: &'a [String], is_value: impl Fn(&str) -> bool) -> Vec<&'a str> {
        let mut chosen: Vec<&str> = Vec::new();
        let mut of_this_option: Option<&str> = None;
        for choice in choices {
            if !is_value(choice) {
                chosen.extend(of_this_option.take());
            } else if self.names(choice) && of_this_option.is_none_or(|known| known.len() < choice.len()) {
                of_this_option = Some(choice);
            }
        }
        chosen.extend(of_this_option);
        chosen
    }
}

/// A word without a plural's ending.
fn stem(word: &str) -> &str {
    word.strip_suffix('s').filter(|stem| stem.len() > 3).unwrap_or(word)
}

/// Whether this piece of a product's page is the name of an option, as far as a reader can tell.
pub(crate) fn is_option_name(piece: &str) -> bool {
    OPTION_NAMES.contains(&piece.to_lowercase().as_str())
}

/// A product in a list of results.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ShopListing {
    /// Its number, in lower case.
    pub(crate) asin: String,
    /// Its name.
    pub(crate) title: String,
    /// The most that it may cost; `None` if no price is told.
    pub(crate) price: Option<f64>,
}

/// A page of a shop.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ShopPage {
    /// Where a visit begins.
    Search,
    /// What a search has found.
    Results(Vec<ShopListing>),
    /// A product.
    Item {
        /// Its name.
        title: String,
        /// The most that it may cost.
        price: Option<f64>,
        /// Names of options and the values to choose from, in lower case and in order.
        choices: Vec<String>,
    },
    /// More about a product.
    More(String),
    /// The end of a visit.
    Done,
}

impl ShopPage {
    /// Reads a page in either of its forms, and the instruction on it. Of several pages the last one counts.
    pub(crate) fn read(text: &str) -> Option<(String, Self)> {
        let all = pieces(text);
        let is_done = |piece: &&String| piece.starts_with("Thank you for shopping");
        if all.iter().any(|piece| is_done(&piece)) {
            return Some((String::new(), Self::Done));
        }
        let start = all.iter().rposition(|piece| piece == "Instruction:")?;
        let instruction = all.get(start + 1)?.clone();
        let rest = all.get(start + 2..).unwrap_or_default();
        Some((instruction, Self::of(rest)))
    }

    /// The page of the pieces below the instruction.
    fn of(pieces: &[String]) -> Self {
        let is_piece = |text: &'static str| move |piece: &String| piece.eq_ignore_ascii_case(text);
        if let Some(number) = pieces.iter().position(|piece| piece.contains("(Total results: ")) {
            let listed: Vec<&String> = pieces
                .iter()
                .skip(number + 1)
                .filter(|piece| !is_piece("< Prev")(piece) && !is_piece("Next >")(piece))
                .collect();
            let listings = listed.chunks_exact(3).map(|listing| match listing {
                [asin, title, price] => ShopListing {
                    asin: asin.to_lowercase(),
                    title: (*title).clone(),
                    price: highest_price(price),
                },
                _ => ShopListing { asin: String::new(), title: String::new(), price: None },
            });
            return Self::Results(listings.collect());
        }
        let Some(back) = pieces.iter().position(is_piece("< Prev")) else { return Self::Search };
        let rest = pieces.get(back + 1..).unwrap_or_default();
        let price = rest.iter().position(|piece| piece.starts_with("Price: "));
        let is_item = rest.iter().any(is_piece("Buy Now"));
        match price.and_then(|at| at.checked_sub(1)).filter(|_| is_item) {
            Some(title) => Self::Item {
                title: rest.get(title).cloned().unwrap_or_default(),
                price: rest.get(title + 1).and_then(|price| highest_price(price)),
                choices: rest.iter().take(title).map(|choice| choice.to_lowercase()).collect(),
            },
            None => Self::More(rest.join(" ")),
        }
    }
}

/// The last amount of a text such as `$10.00 to $12.50`.
fn highest_price(text: &str) -> Option<f64> {
    text.rsplit('$').find_map(|part| {
        let number: String =
            part.chars().take_while(|c| c.is_ascii_digit() || *c == '.' || *c == ',').collect();
        number.replace(',', "").trim_end_matches('.').parse().ok()
    })
}

/// The pieces of a page: between `[SEP]`, or lines with marks around what can be clicked.
fn pieces(text: &str) -> Vec<String> {
    let trimmed = |piece: &str| {
        let mut piece = piece.trim();
        for (open, close) in [("[button]", "[button_]"), ("[clicked button]", "[clicked button_]")] {
            let inner = piece.strip_prefix(open).and_then(|rest| rest.strip_suffix(close));
            piece = inner.unwrap_or(piece).trim();
        }
        piece.to_owned()
    };
    let separators = if text.contains(" [SEP] ") { " [SEP] " } else { "\n" };
    text.split(separators).map(trimmed).filter(|piece| !piece.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const RESULTS: &str = "Instruction: [SEP] find me a red mug, and price lower than 20.00 dollars [SEP] Back to Search \
        [SEP] Page 1 (Total results: 2) [SEP] Next > [SEP] B0AA [SEP] Red Mug [SEP] $9.00 [SEP] B0BB [SEP] Cup [SEP] \
        $10.00 to $12.50";

    #[test]
    fn pages_are_read() {
        let (instruction, page) = ShopPage::read(RESULTS).unwrap();
        let wish = ShopWish::read(&instruction);
        assert_eq!((wish.key_words.join(" ").as_str(), wish.price_limit), ("red mug", Some(20.0)));
        let ShopPage::Results(listed) = page else { panic!("results") };
        assert_eq!(
            listed.iter().map(|l| (l.asin.as_str(), l.price)).collect::<Vec<_>>(),
            [("b0aa", Some(9.0)), ("b0bb", Some(12.5))]
        );
        assert_eq!(wish.n_missing("Cup of tin"), 2);
        assert_eq!(wish.n_missing("Red Mugs"), 0);
    }

    #[test]
    fn a_product_in_either_form() {
        let plain = "Instruction: [SEP] a mug, color navy blue, size x-large [SEP] Back to Search [SEP] < Prev [SEP] color \
            [SEP] blue [SEP] navy blue [SEP] size [SEP] large [SEP] x-large [SEP] Mug [SEP] Price: $9.00 [SEP] Rating: \
            N.A. [SEP] Description [SEP] Buy Now";
        let rich = "Instruction:\na mug, color navy blue, size x-large\n[button] Back to Search [button_]\n[button] < Prev \
            [button_]\ncolor\n  [button] blue [button_]\n  [clicked button] navy blue [clicked button_]\nsize\n  [button] \
            large [button_]\n  [button] x-large [button_]\nMug\nPrice: $9.00\nRating: N.A.\n[button] Description \
            [button_]\n[button] Buy Now [button_]\n";
        let read = ShopPage::read(plain).unwrap();
        assert_eq!(ShopPage::read(rich).unwrap(), read);
        let (instruction, ShopPage::Item { title, price, choices }) = read else { panic!("an item") };
        assert_eq!((title.as_str(), price), ("Mug", Some(9.0)));
        let wish = ShopWish::read(&instruction);
        assert_eq!(wish.chosen(&choices, |choice| !is_option_name(choice)), ["navy blue", "x-large"]);
    }

    #[test]
    fn other_pages() {
        let search = "WebShop [SEP] Instruction: [SEP] a mug [SEP] Search";
        assert_eq!(ShopPage::read(search), Some(("a mug".to_owned(), ShopPage::Search)));
        let more = "Instruction: [SEP] a mug [SEP] Back to Search [SEP] < Prev [SEP] Leak proof: yes.";
        assert_eq!(ShopPage::read(more).unwrap().1, ShopPage::More("Leak proof: yes.".to_owned()));
        let thanks = "Thank you for shopping with us! [SEP] x";
        assert_eq!(ShopPage::read(thanks).unwrap().1, ShopPage::Done);
        let of_household = "You are in the middle of a room.";
        assert_eq!(ShopPage::read(of_household), None);
    }
}
