//! Dates, clock times and quantities in text: what a model knows without being told.

use std::ops::Range;

/// A piece of a text between white space, without the punctuation around it.
#[derive(Debug, Clone)]
struct Token<'a> {
    text: &'a str,
    range: Range<usize>,
}

fn tokens(text: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    let mut search_from = 0;
    for word in text.split_whitespace() {
        let Some(offset) = text.get(search_from..).and_then(|rest| rest.find(word)) else { continue };
        let start = search_from + offset;
        search_from = start + word.len();
        let inner = word.trim_matches(|c: char| !c.is_alphanumeric());
        if inner.is_empty() {
            continue;
        }
        let inner_start = start + word.find(inner).unwrap_or(0);
        tokens.push(Token { text: inner, range: inner_start..inner_start + inner.len() });
    }
    tokens
}

/// What was found in a text, and where.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Found<T> {
    /// What it means.
    pub(super) value: T,
    /// The bytes that say it.
    pub(super) range: Range<usize>,
}

impl<T> Found<T> {
    /// The text with the found bytes replaced.
    pub(super) fn replaced(&self, text: &str, by: &str) -> String {
        let before = text.get(..self.range.start).unwrap_or_default();
        let after = text.get(self.range.end..).unwrap_or_default();
        format!("{before}{by}{after}")
    }

    /// The bytes themselves.
    pub(super) fn of<'a>(&self, text: &'a str) -> &'a str {
        text.get(self.range.clone()).unwrap_or_default()
    }
}

/// A day of the calendar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Date {
    year: u16,
    month: u8,
    day: u8,
}

impl Date {
    /// `YYYY-MM-DD`.
    pub(super) fn iso(self) -> String {
        format!("{:04}-{:02}-{:02}", self.year, self.month, self.day)
    }
}

const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];

fn month(word: &str) -> Option<u8> {
    let word = word.to_ascii_lowercase();
    let position =
        MONTHS.iter().position(|name| *name == word || (word.len() == 3 && name.starts_with(&word)))?;
    u8::try_from(position + 1).ok()
}

fn day(word: &str) -> Option<u8> {
    let digits = ["st", "nd", "rd", "th"].iter().find_map(|end| word.strip_suffix(end)).unwrap_or(word);
    digits.parse().ok().filter(|day| (1..=31).contains(day))
}

fn year(word: &str) -> Option<u16> {
    if word.len() == 4 && word.bytes().all(|b| b.is_ascii_digit()) { word.parse().ok() } else { None }
}

fn iso_date(word: &str) -> Option<Date> {
    let mut parts = word.split('-');
    let (y, m, d) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() || m.len() != 2 || d.len() != 2 {
        return None;
    }
    let month = m.parse().ok().filter(|month| (1..=12).contains(month))?;
    Some(Date { year: year(y)?, month, day: day(d)? })
}

/// The first date in the text: `2025-03-04`, `4 March 2025`, `March 4th, 2025`, `4 Mar 2025`.
pub(super) fn find_date(text: &str) -> Option<Found<Date>> {
    let tokens = tokens(text);
    tokens.iter().enumerate().find_map(|(index, first)| {
        if let Some(date) = iso_date(first.text) {
            return Some(Found { value: date, range: first.range.clone() });
        }
        let (second, third) = (tokens.get(index + 1)?, tokens.get(index + 2)?);
        let (d, m) = match (day(first.text), month(second.text)) {
            (Some(d), Some(m)) => (d, m),
            _ => (day(second.text)?, month(first.text)?),
        };
        let date = Date { year: year(third.text)?, month: m, day: d };
        Some(Found { value: date, range: first.range.start..third.range.end })
    })
}

/// A time of day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Clock {
    hour: u8,
    minute: u8,
}

impl Clock {
    /// `HH:MM` on the 24-hour clock.
    pub(super) fn hh_mm(self) -> String {
        format!("{:02}:{:02}", self.hour, self.minute)
    }
}

#[derive(Clone, Copy)]
enum Half {
    Morning,
    Afternoon,
}

fn half(word: &str) -> Option<Half> {
    match word.to_ascii_lowercase().replace('.', "").as_str() {
        "am" => Some(Half::Morning),
        "pm" => Some(Half::Afternoon),
        _ => None,
    }
}

fn on_the_dial(hour: u8, minute: u8, half: Option<Half>) -> Option<Clock> {
    let hour = match half {
        None => Some(hour).filter(|hour| *hour < 24),
        Some(Half::Morning) => Some(hour % 12).filter(|_| (1..=12).contains(&hour)),
        Some(Half::Afternoon) => Some(hour % 12 + 12).filter(|_| (1..=12).contains(&hour)),
    }?;
    (minute < 60).then_some(Clock { hour, minute })
}

fn hour_and_minute(word: &str, half: Option<Half>) -> Option<Clock> {
    let separators: &[char] = if half.is_some() { &[':', '.'] } else { &[':'] };
    match word.split_once(separators) {
        Some((hour, minute)) if minute.len() == 2 => {
            on_the_dial(hour.parse().ok()?, minute.parse().ok()?, half)
        }
        Some(_) => None,
        None => on_the_dial(word.parse().ok()?, 0, Some(half?)),
    }
}

/// The first time of day in the text: `14:35`, `2:35 pm`, `8 a.m.`, `2.35pm`, `noon`, `midnight`.
pub(super) fn find_clock(text: &str) -> Option<Found<Clock>> {
    let tokens = tokens(text);
    tokens.iter().enumerate().find_map(|(index, token)| {
        let lower = token.text.to_ascii_lowercase();
        let value = match lower.as_str() {
            "noon" => Some(Clock { hour: 12, minute: 0 }),
            "midnight" => Some(Clock { hour: 0, minute: 0 }),
            _ => None,
        };
        if let Some(value) = value {
            return Some(Found { value, range: token.range.clone() });
        }
        let digits_end = lower.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(lower.len());
        let (digits, joined) = lower.split_at_checked(digits_end)?;
        if let Some(half) = half(joined) {
            let value = hour_and_minute(digits, Some(half))?;
            return Some(Found { value, range: token.range.clone() });
        }
        let next = tokens.get(index + 1).and_then(|next| half(next.text).map(|half| (half, next)));
        if let Some((half, next)) = next {
            let value = hour_and_minute(&lower, Some(half))?;
            return Some(Found { value, range: token.range.start..next.range.end });
        }
        hour_and_minute(&lower, None).map(|value| Found { value, range: token.range.clone() })
    })
}

/// What a unit measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dimension {
    /// In kilograms.
    Mass,
    /// In metres.
    Length,
    /// In minutes.
    Duration,
}

/// A unit of measurement.
#[derive(Debug, PartialEq)]
pub(super) struct Unit {
    /// How it is written; the first is the symbol, the second the plural word.
    pub(super) names: &'static [&'static str],
    /// What it measures.
    pub(super) dimension: Dimension,
    factor: f64,
    decimals: usize,
}

/// The units that the models know; factors are the international definitions.
pub(super) static UNITS: &[Unit] = &[
    Unit {
        names: &["kg", "kilograms", "kilogram", "kilos"],
        dimension: Dimension::Mass,
        factor: 1.0,
        decimals: 0,
    },
    Unit { names: &["t", "tonnes", "tonne"], dimension: Dimension::Mass, factor: 1_000.0, decimals: 2 },
    Unit {
        names: &["lb", "pounds", "pound", "lbs"],
        dimension: Dimension::Mass,
        factor: 0.453_592_37,
        decimals: 0,
    },
    Unit { names: &["g", "grams", "gram"], dimension: Dimension::Mass, factor: 0.001, decimals: 0 },
    Unit {
        names: &["m", "metres", "metre", "meters", "meter"],
        dimension: Dimension::Length,
        factor: 1.0,
        decimals: 1,
    },
    Unit { names: &["ft", "feet", "foot"], dimension: Dimension::Length, factor: 0.304_8, decimals: 0 },
    Unit { names: &["fm", "fathoms", "fathom"], dimension: Dimension::Length, factor: 1.828_8, decimals: 1 },
    Unit {
        names: &["km", "kilometres", "kilometers"],
        dimension: Dimension::Length,
        factor: 1_000.0,
        decimals: 1,
    },
    Unit { names: &["mi", "miles", "mile"], dimension: Dimension::Length, factor: 1_609.344, decimals: 1 },
    Unit { names: &["min", "minutes", "minute"], dimension: Dimension::Duration, factor: 1.0, decimals: 0 },
    Unit { names: &["h", "hours", "hour"], dimension: Dimension::Duration, factor: 60.0, decimals: 1 },
];

impl Unit {
    /// The unit of this name.
    pub(super) fn named(name: &str) -> Option<&'static Self> {
        UNITS.iter().find(|unit| unit.names.contains(&name))
    }

    /// The symbol, such as `kg`.
    pub(super) fn symbol(&self) -> &'static str {
        self.names.first().copied().unwrap_or_default()
    }

    /// The plural word, such as `kilograms`.
    pub(super) fn plural(&self) -> &'static str {
        self.names.get(1).copied().unwrap_or_default()
    }
}

/// A number with its unit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Quantity {
    number: f64,
    /// The unit it is given in.
    pub(super) unit: &'static Unit,
}

impl Quantity {
    /// The quantity in this unit, rounded as is usual for it; itself if the unit measures something else.
    pub(super) fn written_in(self, unit: &'static Unit) -> String {
        let (number, unit) = if unit.dimension == self.unit.dimension {
            (self.number * self.unit.factor / unit.factor, unit)
        } else {
            (self.number, self.unit)
        };
        format!("{number:.*} {}", unit.decimals, unit.symbol())
    }

    /// Whether the other one is the same amount in another unit, up to rounding.
    pub(super) fn is_conversion_of(self, other: Self) -> bool {
        const ROUNDING: f64 = 0.02;
        let (mine, theirs) = (self.number * self.unit.factor, other.number * other.unit.factor);
        self.unit != other.unit
            && self.unit.dimension == other.unit.dimension
            && (mine - theirs).abs() <= ROUNDING * mine.abs().max(theirs.abs())
    }
}

/// The first number with a unit in the text: `4.2 t`, `1,250 kg`, `14ft`.
pub(super) fn find_quantity(text: &str) -> Option<Found<Quantity>> {
    let tokens = tokens(text);
    tokens.iter().enumerate().find_map(|(index, token)| {
        let digits_end = token.text.find(|c: char| c.is_alphabetic()).unwrap_or(token.text.len());
        let (digits, joined) = token.text.split_at_checked(digits_end)?;
        let number: f64 = digits.replace(',', "").parse().ok()?;
        let (name, end) = if joined.is_empty() {
            let next = tokens.get(index + 1)?;
            (next.text.to_ascii_lowercase(), next.range.end)
        } else {
            (joined.to_ascii_lowercase(), token.range.end)
        };
        let unit = Unit::named(&name)?;
        Some(Found { value: Quantity { number, unit }, range: token.range.start..end })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_date(text: &str, expect: &str) {
        let found = find_date(text);
        assert_eq!(found.map_or(String::new(), |found| found.replaced(text, &found.value.iso())), expect);
    }

    #[test]
    fn dates() {
        check_date("4 March 2025", "2025-03-04");
        check_date("on March 4, 2025, at noon", "on 2025-03-04, at noon");
        check_date("the 21st Dec 2024.", "the 2024-12-21.");
        check_date("2025-03-04", "2025-03-04");
        check_date("4 March", "");
        check_date("32 March 2025", "");
        check_date("2025-13-04", "");
        check_date("März 4 März 2025", "");
        check_date("", "");
    }

    #[track_caller]
    fn check_clock(text: &str, expect: &str) {
        let found = find_clock(text);
        assert_eq!(found.map_or(String::new(), |found| found.replaced(text, &found.value.hh_mm())), expect);
    }

    #[test]
    fn clock_times() {
        check_clock("2:35 pm", "14:35");
        check_clock("2.35 p.m. sharp", "14:35. sharp");
        check_clock("at 8 am.", "at 08:00.");
        check_clock("12:05 am", "00:05");
        check_clock("12 pm", "12:00");
        check_clock("9:05pm", "21:05");
        check_clock("4 March 2025, 2:35 pm", "4 March 2025, 14:35");
        check_clock("14:35", "14:35");
        check_clock("noon", "12:00");
        check_clock("25:00", "");
        check_clock("13:00 pm", "");
        check_clock("3.14", "");
        check_clock("12 men", "");
    }

    #[track_caller]
    fn check_quantity(text: &str, unit: &str, expect: &str) {
        let unit = Unit::named(unit).unwrap();
        assert_eq!(find_quantity(text).map_or(String::new(), |found| found.value.written_in(unit)), expect);
    }

    #[test]
    fn quantities() {
        check_quantity("4.2 t", "kg", "4200 kg");
        check_quantity("1,250 kg of salt", "kg", "1250 kg");
        check_quantity("14 ft", "m", "4.3 m");
        check_quantity("about 2 fathoms", "m", "3.7 m");
        check_quantity("3.9m", "m", "3.9 m");
        check_quantity("4.2 t", "m", "4.20 t");
        check_quantity("7 men", "kg", "");
        check_quantity("kg", "kg", "");
    }
}
