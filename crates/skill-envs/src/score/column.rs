//! Whether the texts of a column are numbers, as the scorer of numbers reads them.

use super::number::{Item, is_currency, numbers};
use super::numeric::parse_reference;
use super::units::{is_currency_word, is_known_unit, unit, with_magnitude};
use skill_core::decoration::of_cell;
use std::collections::BTreeMap;
use std::ops::Range;

/// What the texts of a column are to the scorer of numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum ColumnKind {
    /// Texts that it does not read, or not as a whole.
    #[default]
    Texts,
    /// Numbers, so that it tells any two of them apart that differ.
    Numbers,
    /// Numbers of which some begin with a zero that counts, such as `007`.
    Codes,
}

/// What a column of texts is.
///
/// All but a tenth of them have to be numbers as a whole, and what is around the number is a currency or a unit that can be
/// converted, or the same in all of them: `Room 5` and `Hall 5` are not one number.
pub(crate) fn column_kind<'a>(texts: impl IntoIterator<Item = &'a str>) -> ColumnKind {
    let (mut n_texts, mut has_code) = (0_usize, false);
    let mut counts = BTreeMap::<String, usize>::new();
    for text in texts {
        n_texts += 1;
        if let Some((around, is_code)) = whole_number(text) {
            *counts.entry(around).or_default() += 1;
            has_code |= is_code;
        }
    }
    let n_alike = counts.into_values().max().unwrap_or_default();
    match n_alike > 0 && n_alike * 10 >= n_texts * 9 {
        false => ColumnKind::Texts,
        true if has_code => ColumnKind::Codes,
        true => ColumnKind::Numbers,
    }
}

/// What is around the one number that a text is as a whole, without what the scorer knows, and whether the number begins
/// with a zero that counts.
fn whole_number(text: &str) -> Option<(String, bool)> {
    parse_reference(text)?;
    let text = &*of_cell(text);
    let text = text.rsplit_once("####").map_or(text, |(_, answer)| answer);
    let numbers = numbers(text, is_known_unit);
    let [Item::Number { value, range }] = numbers.items.as_slice() else { return None };
    let part = |part: Range<usize>| numbers.text.get(part).unwrap_or_default().iter().collect::<String>();
    let (head, tail) = (part(0..range.start), part(range.end..numbers.text.len()));
    let digits = part(range.clone());
    let digits = digits.trim_start_matches(|sign: char| !sign.is_ascii_digit() && !matches!(sign, '.' | ','));
    let is_code = digits.starts_with('0') && digits.chars().nth(1).is_some_and(|next| next.is_ascii_digit());
    let is_mark = |sign: char| sign.is_whitespace() || is_currency(sign) || "()~≈.!".contains(sign);
    let (_, tail) = with_magnitude(*value, &tail);
    let known = |part: &str, is_known: &dyn Fn(&str) -> bool| {
        let part = part.trim_matches(is_mark).to_lowercase();
        if is_known(&part) { String::new() } else { part }
    };
    let head = known(&head, &is_currency_word);
    let tail = known(tail, &|name| unit(name).is_some());
    let n_words = head.split_whitespace().count().max(tail.split_whitespace().count());
    (n_words <= 1).then(|| (format!("{head} {tail}"), is_code))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_of_numbers_is_told_from_texts_and_codes() {
        #[track_caller]
        fn check(texts: &[&str], expect: ColumnKind) {
            assert_eq!(column_kind(texts.iter().copied()), expect, "{texts:?}");
        }
        for texts in [
            ["38.80", "-5", "1e3"],
            ["38,80", "1.238,50", "0,5"],
            ["$38.50", "-$5", "EUR 7"],
            ["38 %", "12%", "7.5 percent"],
            ["(38.50)", "12", "(7)"],
            ["38 kg", "500 g", "1.5t"],
            ["3 apples", "5 apples", "7 apples"],
            ["CHF 38.80", "CHF 7", "CHF 1'200"],
            ["12 kWh", "7 kWh", "3.5 kWh"],
            ["1/2", "½", "1 1/2"],
            ["48/2 = 24\n#### 24", "#### 7", "1+1=2 #### 2"],
            ["5 million", "$3 billion", "7"],
        ] {
            check(&texts, ColumnKind::Numbers);
        }
        for texts in [["01038", "1038", "04711"], ["007", "012", "100"], ["REF 0123", "REF 4711", "REF 1"]] {
            check(&texts, ColumnKind::Codes);
        }
        for texts in [
            ["Room 5", "Hall 5", "Room 7"],
            ["12A", "12B", "7A"],
            ["3 apples", "3 pears", "5 apples"],
            ["He ate 5", "It is 7 now", "3"],
            ["2024-05-01", "05.01.2024", "12:30"],
            ["5-7", "<5", "3 or 5"],
            ["5", "seven", "Paris"],
            ["", "none", "a"],
        ] {
            check(&texts, ColumnKind::Texts);
        }
        check(&[], ColumnKind::Texts);
        // One mistake among many numbers keeps the column numeric; reading the data then names its line.
        check(&["1", "2", "3", "4", "5", "6", "7", "8", "9", "n/a"], ColumnKind::Numbers);
    }
}
