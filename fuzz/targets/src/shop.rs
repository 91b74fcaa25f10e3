//! Actions and prices of the shop.

use skill_envs::webshop::{Action, Price, Session, Shop, WebshopConfig, terms, token_set_ratio};
use std::sync::{Arc, LazyLock};

/// More actions than this are not taken, so that an input stays quick.
const MAX_ACTIONS: usize = 64;

static SHOP: LazyLock<Arc<Shop>> = LazyLock::new(|| {
    let config = WebshopConfig { n_products: Some(60), show_attributes: true, ..WebshopConfig::default() };
    Arc::new(Shop::load(&config).unwrap())
});

/// Reads a text as an action, as a price and as a search, and plays its lines in a small shop.
pub fn shop(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    check_price(&text);
    assert!(terms(&text).all(|term| !term.is_empty()));
    if let Some((a, b)) = text.split_once('\n') {
        let ratio = token_set_ratio(a, b);
        assert!(ratio <= 100 && ratio == token_set_ratio(b, a), "{ratio}");
    }
    check_action(&text);
    let mut visit = Session::start(Arc::clone(&SHOP), "fuzz", 1).unwrap();
    for line in text.lines().take(MAX_ACTIONS) {
        check_action(line);
        let before = (visit.text_rich(), visit.url().to_owned());
        let outcome = visit.act(line);
        assert!((0.0..=1.0).contains(&outcome.reward), "{outcome:?}");
        assert!(outcome.understood || before == (visit.text_rich(), visit.url().to_owned()), "{line:?}");
        assert!(!outcome.done || visit.purchase().is_some());
        assert!(!visit.text().is_empty());
    }
}

/// An argument is in brackets behind the name, in the first line.
fn check_action(text: &str) {
    let action = Action::parse(text);
    match action.argument {
        None => assert_eq!(action.name, text),
        Some(argument) => {
            assert!(!action.name.is_empty() && !argument.is_empty());
            assert!(!argument.contains('\n') && !action.name.contains('\n'));
            assert!(text.starts_with(&format!("{}[{argument}]", action.name)), "{text:?}");
        }
    }
}

/// A price is one number or two, and reads the same when it is read again as it is shown.
fn check_price(text: &str) {
    let Ok(price) = Price::parse(text) else {
        return;
    };
    let numbers = price.numbers();
    assert!(
        matches!(numbers.len(), 1 | 2) && numbers.iter().all(|n| n.is_finite() && *n >= 0.0),
        "{numbers:?}"
    );
    let shown = price.to_string();
    // An exponent is not a part of what is read.
    if !shown.contains('e') {
        assert_eq!(Price::parse(&shown).map(Price::numbers), Ok(numbers));
    }
}
