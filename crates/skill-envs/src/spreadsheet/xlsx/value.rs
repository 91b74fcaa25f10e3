//! Values of cells as openpyxl gives them with `data_only=True`.

use jiff::civil::{Date, DateTime, Time};
use std::fmt;
use std::sync::Arc;

/// Microseconds of a day.
pub(crate) const DAY: i64 = 86_400_000_000;
/// The days that a datetime can have: years 1 to 9999, from 1899-12-30.
const DATES: std::ops::RangeInclusive<i64> = -693_593..=2_958_465;
/// The days of a duration are below this number.
const MAX_DURATION_DAYS: f64 = 999_999_999.0;
/// The days between the epochs of the two date systems.
pub(super) const DAYS_TO_1904: f64 = 1462.0;

/// The value of a cell.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// None.
    Empty,
    /// A text, or the name of an error.
    Text(Arc<str>),
    /// A whole number, by its decimal digits.
    Whole(Box<str>),
    /// Another number.
    Float(f64),
    /// A truth value.
    Bool(bool),
    /// A date with a time of day: days since 1899-12-30, microseconds since midnight.
    DateTime(i64, i64),
    /// A date that was written as ISO text: days since 1899-12-30.
    Date(i64),
    /// A time of day: microseconds since midnight.
    Time(i64),
    /// A duration in microseconds.
    Duration(i64),
}

impl Value {
    /// The number that a cell with this value stores, where it is one; of texts and truth values none.
    pub fn number(&self) -> Option<f64> {
        let of_day = |micros: i64| micros as f64 / DAY as f64;
        match self {
            Self::Whole(digits) => digits.parse().ok(),
            Self::Float(number) => Some(*number),
            Self::DateTime(days, micros) => Some(serial(*days) + of_day(*micros)),
            Self::Date(days) => Some(serial(*days)),
            Self::Time(micros) | Self::Duration(micros) => Some(of_day(*micros)),
            Self::Empty | Self::Text(_) | Self::Bool(_) => None,
        }
    }

    /// A number as a file has it: without point and exponent it is a whole one.
    pub(super) fn of_number(text: &str) -> Option<Self> {
        let text = text.trim();
        if text.contains(['.', 'e', 'E']) {
            return text.parse().ok().map(Self::Float);
        }
        let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
        let is_whole = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        is_whole.then(|| Self::Whole(text.into()))
    }

    /// A number under a format of dates; `None` beyond what dates can be.
    pub(super) fn of_serial(number: f64, is_duration: bool, is_1904: bool) -> Option<Self> {
        if is_duration {
            return duration(number);
        }
        let (mut day, fraction) = (number.floor(), number - number.floor());
        let millis = (fraction * 86_400_000.0).round_ties_even();
        if (0.0..1.0).contains(&number) && millis < 86_400_000.0 {
            return Some(Self::Time(whole(millis)? * 1000));
        }
        if number > 0.0 && number < 60.0 && !is_1904 {
            day += 1.0;
        }
        if is_1904 {
            day += DAYS_TO_1904;
        }
        let (mut day, mut micros) = (whole(day)?, whole(millis)? * 1000);
        if micros >= DAY {
            day += 1;
            micros -= DAY;
        }
        DATES.contains(&day).then_some(Self::DateTime(day, micros))
    }

    /// A date, time or duration in ISO 8601, as far as openpyxl reads it.
    pub fn of_iso(text: &str) -> Option<Self> {
        let text = text.trim().trim_end_matches('Z');
        if let Some(duration) = text.strip_prefix("PT") {
            return iso_duration(duration);
        }
        let micros = |time: Time| {
            let seconds =
                i64::from(time.hour()) * 3600 + i64::from(time.minute()) * 60 + i64::from(time.second());
            seconds * 1_000_000 + i64::from(time.subsec_nanosecond()) / 1000
        };
        if let Ok(at) = text.parse::<DateTime>()
            && text.contains(['T', ':'])
        {
            return Some(Self::DateTime(days(at.date())?, micros(at.time())));
        }
        if let Ok(date) = text.parse::<Date>() {
            return Some(Self::Date(days(date)?));
        }
        text.trim_start_matches('T').parse::<Time>().ok().map(|time| Self::Time(micros(time)))
    }
}

/// As a person would write it; texts in quotes.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = |micros: i64| {
            let (seconds, rest) = (micros.div_euclid(1_000_000), micros.rem_euclid(1_000_000));
            let fraction = if rest == 0 { String::new() } else { format!(".{rest:06}") };
            format!("{:02}:{:02}:{:02}{fraction}", seconds / 3600, seconds / 60 % 60, seconds % 60)
        };
        match self {
            Self::Empty => f.write_str("empty"),
            Self::Text(text) => write!(f, "{text:?}"),
            Self::Whole(digits) => f.write_str(digits),
            Self::Float(number) => write!(f, "{number}"),
            Self::Bool(true) => f.write_str("TRUE"),
            Self::Bool(false) => f.write_str("FALSE"),
            Self::DateTime(days, 0) | Self::Date(days) => write!(f, "{}", date_text(*days)),
            Self::DateTime(days, micros) => write!(f, "{} {}", date_text(*days), time(*micros)),
            Self::Time(micros) => f.write_str(&time(*micros)),
            Self::Duration(micros) if *micros < 0 => write!(f, "-{}", time(-micros)),
            Self::Duration(micros) => f.write_str(&time(*micros)),
        }
    }
}

/// The serial number of a date; 1900 has a 29 February in the files.
fn serial(days: i64) -> f64 {
    let days = if (2..=60).contains(&days) { days - 1 } else { days };
    days as f64
}

fn epoch() -> Date {
    Date::constant(1899, 12, 30)
}

fn days(date: Date) -> Option<i64> {
    Some(i64::from(epoch().until(date).ok()?.get_days()))
}

fn date_text(days: i64) -> String {
    let date = i32::try_from(days)
        .ok()
        .and_then(|days| epoch().checked_add(jiff::Span::new().try_days(days).ok()?).ok());
    date.map_or_else(|| days.to_string(), |date| date.to_string())
}

fn duration(number: f64) -> Option<Value> {
    if number.is_nan() || number.abs() > MAX_DURATION_DAYS {
        return None;
    }
    let micros = whole((number * DAY as f64).round_ties_even())?;
    let (seconds, rest) = (micros.div_euclid(1_000_000), micros.rem_euclid(1_000_000));
    let millis = (rest as f64 / 1000.0).round_ties_even();
    Some(Value::Duration(seconds * 1_000_000 + whole(millis)? * 1000))
}

/// `1H30M5.5S`.
fn iso_duration(text: &str) -> Option<Value> {
    let mut micros = 0.0;
    let mut rest = text;
    for (unit, seconds) in [('H', 3600.0), ('M', 60.0), ('S', 1.0)] {
        if let Some((number, behind)) = rest.split_once(unit) {
            micros += number.parse::<f64>().ok()? * seconds * 1_000_000.0;
            rest = behind;
        }
    }
    rest.is_empty().then(|| whole(micros.round_ties_even()).map(Value::Duration))?
}

#[expect(clippy::cast_possible_truncation, reason = "the number is whole and in range")]
fn whole(number: f64) -> Option<i64> {
    (number.is_finite() && number.abs() < 9e18).then_some(number as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn serials_are_dates_times_and_durations() {
        let shown = |number, is_duration| {
            Value::of_serial(number, is_duration, false).map_or("none".to_owned(), |value| value.to_string())
        };
        assert_eq!(shown(45_292.0, false), "2024-01-01");
        assert_eq!(shown(45_292.4, false), "2024-01-01 09:36:00");
        assert_eq!(shown(1.0, false), "1900-01-01");
        assert_eq!(shown(0.5, false), "12:00:00");
        assert_eq!(shown(1.5, true), "36:00:00");
        assert_eq!(shown(-0.5, true), "-12:00:00");
        assert_eq!(shown(3e6, false), "none");
        assert_eq!(Value::of_serial(0.0, false, true), Some(Value::Time(0)));
        assert_eq!(Value::of_serial(1.0, false, true).unwrap().to_string(), "1904-01-02");
        assert_eq!(Value::of_iso("2024-01-01"), Some(Value::Date(45_292)));
        assert_eq!(Value::of_iso("2024-01-01T09:36:00Z").unwrap().number(), Some(45_292.4));
        assert_eq!(Value::of_iso("09:30:15.5"), Some(Value::Time(34_215_500_000)));
        assert_eq!(Value::of_iso("PT1H30M"), Some(Value::Duration(5_400_000_000)));
        assert_eq!(Value::of_iso("soon"), None);
    }

    #[test]
    fn whole_numbers_keep_their_digits() {
        assert_eq!(
            Value::of_number("12345678901234567890"),
            Some(Value::Whole("12345678901234567890".into()))
        );
        assert_eq!(Value::of_number("1e3"), Some(Value::Float(1000.0)));
        assert_eq!((Value::of_number("NaN"), Value::of_number("")), (None, None));
    }
}
