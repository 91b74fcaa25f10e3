//! Prices of models that many people use, so that a first run knows what it costs.
//!
//! They are list prices of the providers in US dollars per million tokens, without discounts for batches and without
//! surcharges for long prompts. Prices change: a configuration that names its own is not touched by these.

use crate::layer::Prices;
use crate::provider::PROVIDERS;

/// The day on which the prices were those of the providers.
pub const PRICES_AS_OF: &str = "2026-06-21";

/// List prices in US dollars per million tokens.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ListPrices {
    /// A million tokens of prompts.
    pub input: f64,
    /// A million tokens of prompts that the provider took from its cache; `None` where it has no such price.
    pub cached: Option<f64>,
    /// A million tokens of replies, reasoning included.
    pub output: f64,
}

impl From<ListPrices> for Prices {
    /// Prompts from a cache without a price of their own, and those written to one, cost as much as others.
    fn from(list: ListPrices) -> Self {
        let ListPrices { input, cached, output } = list;
        Self { input, cached: cached.unwrap_or(input), cache_write: input, output }
    }
}

/// The list prices of a model at this address, if it is the provider's own and the model is known.
///
/// Names with the date of a build, such as `gpt-5-mini-2025-08-07`, have the prices of the model.
///
/// ```
/// use skill_llm::price_table::list_prices;
///
/// let prices = list_prices("https://api.openai.com/v1", "gpt-5-mini-2025-08-07").unwrap();
/// assert_eq!((prices.input, prices.output), (0.25, 2.0));
/// assert_eq!(list_prices("http://localhost:8000/v1", "gpt-5-mini"), None);
/// ```
pub fn list_prices(base_url: &str, model: &str) -> Option<ListPrices> {
    let provider = PROVIDERS.iter().find(|provider| provider.owns(base_url))?;
    let row = PRICES.iter().find(|(of, name, ..)| *of == provider.name && is_build_of(model, name))?;
    let (_, _, input, cached, output) = *row;
    Some(ListPrices { input, cached, output })
}

/// The list prices of a model by its name alone: coding agents use the model's own provider.
pub fn list_prices_of(model: &str) -> Option<ListPrices> {
    let (_, _, input, cached, output) = *PRICES.iter().find(|(_, name, ..)| is_build_of(model, name))?;
    Some(ListPrices { input, cached, output })
}

/// The models with list prices at this address, if it is that of a provider.
pub fn priced_models(base_url: &str) -> impl Iterator<Item = &'static str> {
    let provider = PROVIDERS.iter().find(|provider| provider.owns(base_url));
    let rows = PRICES.iter().filter(move |(of, ..)| provider.is_some_and(|provider| provider.name == *of));
    rows.map(|(_, name, ..)| *name)
}

/// Every model with list prices.
pub fn all_list_prices() -> impl Iterator<Item = (&'static str, ListPrices)> {
    PRICES.iter().map(|&(_, model, input, cached, output)| (model, ListPrices { input, cached, output }))
}

/// True for the name itself, and for the name with a date behind it.
fn is_build_of(model: &str, name: &str) -> bool {
    let Some(rest) = model.strip_prefix(name) else { return false };
    let digits = rest.chars().filter(char::is_ascii_digit).count();
    rest.is_empty()
        || rest.starts_with('-')
            && digits == 8
            && rest.chars().all(|sign| sign.is_ascii_digit() || sign == '-')
}

/// Provider, model, and the prices of prompts, cached prompts and replies.
const PRICES: &[(&str, &str, f64, Option<f64>, f64)] = &[
    ("openai", "gpt-5.5", 5.0, Some(0.5), 30.0),
    ("openai", "gpt-5.4", 2.5, Some(0.25), 15.0),
    ("openai", "gpt-5.4-mini", 0.75, Some(0.075), 4.5),
    ("openai", "gpt-5.4-nano", 0.2, Some(0.02), 1.25),
    ("openai", "gpt-5.2", 1.75, Some(0.175), 14.0),
    ("openai", "gpt-5.1", 1.25, Some(0.125), 10.0),
    ("openai", "gpt-5", 1.25, Some(0.125), 10.0),
    ("openai", "gpt-5-mini", 0.25, Some(0.025), 2.0),
    ("openai", "gpt-5-nano", 0.05, Some(0.005), 0.4),
    ("openai", "gpt-5-pro", 15.0, None, 120.0),
    ("openai", "gpt-4.1", 2.0, Some(0.5), 8.0),
    ("openai", "gpt-4.1-mini", 0.4, Some(0.1), 1.6),
    ("openai", "gpt-4.1-nano", 0.1, Some(0.025), 0.4),
    ("openai", "gpt-4o", 2.5, Some(1.25), 10.0),
    ("openai", "gpt-4o-mini", 0.15, Some(0.075), 0.6),
    ("openai", "o3", 2.0, Some(0.5), 8.0),
    ("openai", "o3-mini", 1.1, Some(0.55), 4.4),
    ("openai", "o4-mini", 1.1, Some(0.275), 4.4),
    ("anthropic", "claude-opus-4-8", 5.0, Some(0.5), 25.0),
    ("anthropic", "claude-sonnet-4-6", 3.0, Some(0.3), 15.0),
    ("anthropic", "claude-haiku-4-5", 1.0, Some(0.1), 5.0),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_model_and_its_dated_builds_have_its_prices() {
        let url = "https://api.openai.com/v1";
        let input = |model| list_prices(url, model).map(|prices| prices.input);
        assert_eq!(input("gpt-5"), Some(1.25));
        assert_eq!(input("gpt-5-2025-08-07"), Some(1.25));
        assert_eq!(input("gpt-5-mini"), Some(0.25));
        for other in ["gpt-5-max", "gpt-55", "ft:gpt-5", "gpt-5-", "gpt-5-12", "claude-haiku-4-5"] {
            assert_eq!(input(other), None, "{other}");
        }
        assert_eq!(list_prices_of("claude-haiku-4-5-20251001").map(|prices| prices.cached), Some(Some(0.1)));
        assert_eq!(list_prices_of("sonnet"), None);
        let url = "https://api.anthropic.com";
        assert_eq!(list_prices(url, "claude-haiku-4-5-20251001").map(|prices| prices.output), Some(5.0));
        assert_eq!(list_prices("https://gateway.example/v1", "gpt-5"), None, "another host, other prices");
    }

    #[test]
    fn every_row_names_a_provider_with_an_address_and_no_model_twice() {
        for (place, (provider, model, input, cached, output)) in PRICES.iter().enumerate() {
            assert!(PROVIDERS.iter().any(|of| of.name == *provider && of.base_url.is_some()), "{provider}");
            let twice = PRICES[..place].iter().any(|row| row.1 == *model);
            assert!(
                !twice && *input > 0.0 && *output > *input && cached.is_none_or(|cached| cached < *input),
                "{model}"
            );
        }
    }
}
