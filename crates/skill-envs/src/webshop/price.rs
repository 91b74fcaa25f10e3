//! Prices as the product files write them.

use super::python::float_repr;
use crate::digits::ascii_digit;
use skill_core::PyRandom;
use std::fmt;

/// What a product without a price costs.
const DEFAULT_PRICE: f64 = 100.0;

/// The price of a product: one number, or two that the real one lies between.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Price {
    low: f64,
    high: Option<f64>,
}

/// Why a text is not a price.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PriceError {
    /// There is no `$`, so that nothing is known of the currency.
    #[error("has no `$`; a price is written like `$9.99` or `$5.00 - $10.00`")]
    NoDollar,
    /// A `$` is not followed by a number.
    #[error("has a `$` that no number follows")]
    NoNumber,
}

impl Price {
    /// One number.
    pub fn exact(price: f64) -> Self {
        Self { low: price, high: None }
    }

    /// Reads a price: what follows each `$`, without everything that is no digit and no point, is a number.
    ///
    /// An empty text is a price of 100 dollars. Of more than two numbers the first two count.
    ///
    /// # Errors
    ///
    /// No `$`, or a `$` without a number.
    pub fn parse(text: &str) -> Result<Self, PriceError> {
        if text.is_empty() {
            return Ok(Self::exact(DEFAULT_PRICE));
        }
        let mut parts = text.split('$').skip(1).map(number);
        let low = parts.next().ok_or(PriceError::NoDollar)??;
        let high = parts.next().transpose()?;
        // All of them must be numbers, although two are used.
        for part in parts {
            part?;
        }
        Ok(Self { low, high })
    }

    /// The numbers: one, or the two ends.
    pub fn numbers(self) -> Vec<f64> {
        std::iter::once(self.low).chain(self.high).collect()
    }

    /// The price that a purchase is judged by: the number, or one that is drawn between the two.
    pub(super) fn draw(self, random: &mut PyRandom) -> f64 {
        match self.high {
            None => self.low,
            Some(high) => self.low + (high - self.low) * random.random(),
        }
    }
}

/// As the pages show it: `$9.6`, `$5.0 to $10.0`.
impl fmt::Display for Price {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "${}", float_repr(self.low))?;
        if let Some(high) = self.high {
            write!(f, " to ${}", float_repr(high))?;
        }
        Ok(())
    }
}

fn number(text: &str) -> Result<f64, PriceError> {
    let plain: String = text.chars().filter_map(plain_digit).collect();
    plain.parse().ok().filter(|number: &f64| number.is_finite()).ok_or(PriceError::NoNumber)
}

/// A decimal digit of any script as one of ASCII, a point as it is, nothing else.
fn plain_digit(character: char) -> Option<char> {
    if character == '.' { Some(character) } else { ascii_digit(character) }
}
