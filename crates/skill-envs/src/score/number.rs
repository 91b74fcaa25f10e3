//! The numbers in a text, as people and models write them.
//!
//! A number is understood as a whole or not at all: a range, a ratio, a time or a sum is one [`Item::Compound`], and never
//! one of the numbers that it is made of.

mod math;

use std::ops::Range;

/// A number in a text, or what is made of several and is none.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Item {
    Number {
        value: f64,
        /// The characters of the number with its sign.
        range: Range<usize>,
    },
    Compound {
        range: Range<usize>,
    },
}

impl Item {
    pub(super) fn range(&self) -> &Range<usize> {
        match self {
            Self::Number { range, .. } | Self::Compound { range } => range,
        }
    }
}

/// A text in plain characters, with its numbers.
#[derive(Debug)]
pub(super) struct Numbers {
    pub(super) text: Vec<char>,
    pub(super) items: Vec<Item>,
}

/// What multiplies the power of ten behind it.
const TIMES: [char; 5] = ['×', 'x', 'X', '*', '·'];
/// What is between the parts of a fraction.
const SLASHES: [char; 3] = ['/', '⁄', '∕'];
/// Signs of an expression: a number next to one, with something else on the other side, is a part of something.
const OPERATORS: [char; 8] = ['/', '⁄', '∕', '×', '*', '·', '√', '±'];
/// What is between two numbers that are one range, ratio, time, sum or choice.
const CONNECTORS: &[&str] = &[
    "-", "—", ":", "/", "⁄", "∕", "×", "x", "*", "·", "+", "±", "÷", "..", "...", "…", "~", "^", "'", "\"",
    "′", "″", "to", "or", "vs", "of", "out of", "h", "per", "minus", "plus", "times",
];

/// How far before a number the word `between` may be.
const MAX_BETWEEN_CHARACTERS: usize = 12;

/// Finds the numbers of a text; `is_unit` tells the words that may stand behind a number.
pub(super) fn numbers(text: &str, is_unit: impl Fn(&str) -> bool) -> Numbers {
    let text: Vec<char> = math::plain(text.trim()).chars().collect();
    let reader = Reader { text: &text };
    let mut found: Vec<Item> = Vec::new();
    let mut at = 0;
    while at < text.len() {
        let is_start = reader.is_digit(at) || reader.at(at) == Some('.') && reader.is_digit(at + 1);
        if !is_start {
            at += 1;
        } else if reader.is_in_word(at) {
            // The digits of a name, and exponents of variables and units.
            at = reader.digits_end(at).max(at + 1);
        } else {
            let item = reader.item(at);
            at = item.range().end.max(at + 1);
            found.push(item);
        }
    }
    let mut items: Vec<Item> = Vec::new();
    for item in found {
        match items.last() {
            Some(last) if reader.are_joined(last.range(), item.range(), &is_unit) => {
                let range = last.range().start..item.range().end;
                items.pop();
                items.push(Item::Compound { range });
            }
            _ => items.push(item),
        }
    }
    Numbers { text, items }
}

/// Reads numbers at places of a text.
struct Reader<'a> {
    text: &'a [char],
}

/// A number without its sign.
#[derive(Debug, Clone, Copy)]
struct Numeral {
    /// `None` for digits and marks that are no number together, such as `1.2.3`.
    value: Option<f64>,
    is_whole: bool,
    end: usize,
}

impl Reader<'_> {
    fn at(&self, place: usize) -> Option<char> {
        self.text.get(place).copied()
    }

    fn before(&self, place: usize) -> Option<char> {
        self.at(place.checked_sub(1)?)
    }

    fn is_digit(&self, place: usize) -> bool {
        self.at(place).is_some_and(|character| character.is_ascii_digit())
    }

    fn digits_end(&self, start: usize) -> usize {
        (start..).find(|place| !self.is_digit(*place)).unwrap_or(start)
    }

    fn blanks_end(&self, start: usize) -> usize {
        (start..).find(|place| !self.at(*place).is_some_and(is_blank)).unwrap_or(start)
    }

    /// True for digits that are a part of a word or an exponent of one.
    fn is_in_word(&self, place: usize) -> bool {
        self.before(place).is_some_and(|before| before.is_alphanumeric() || matches!(before, '_' | '^'))
            || self.before(place) == Some('-') && place.checked_sub(2).and_then(|at| self.at(at)) == Some('^')
    }

    /// The number whose digits begin here, with its sign.
    fn item(&self, start: usize) -> Item {
        let (sign, begin) = self.sign_before(start);
        let (value, end) = self.unsigned(start);
        let (value, end) = match self.rest_of_word(end) {
            Some(end) => (None, end),
            None => (value, end),
        };
        let range = begin..end;
        let is_part = self.before(begin).is_some_and(|before| OPERATORS.contains(&before))
            || matches!(self.at(end), Some('π' | '√'));
        match value.map(|value| sign * value).filter(|value| value.is_finite() && !is_part) {
            Some(value) => Item::Number { value, range },
            None => Item::Compound { range },
        }
    }

    /// A numeral with what makes one number with it: a power, a fraction, a power of ten.
    fn unsigned(&self, start: usize) -> (Option<f64>, usize) {
        let first = self.numeral(start);
        let Some(value) = first.value else { return (None, first.end) };
        if let Some((power, end)) = self.power(first.end) {
            return (Some(value.powf(power)), end);
        }
        if let Some((divisor, end)) = self.divisor(first.end) {
            let is_longer = self.divisor(end).is_some();
            return (
                divisor.filter(|divisor| *divisor != 0.0 && !is_longer).map(|divisor| value / divisor),
                end,
            );
        }
        if first.is_whole
            && let Some((part, end)) = self.fraction_behind(first.end)
        {
            return (Some(value + part), end);
        }
        if let Some((factor, end)) = self.power_of_ten(first.end) {
            return (Some(value * factor), end);
        }
        (Some(value), first.end)
    }

    /// The exponent behind `^` or `**`.
    fn power(&self, place: usize) -> Option<(f64, usize)> {
        let start = match (self.at(place)?, self.at(place + 1)) {
            ('^', _) => place + 1,
            ('*', Some('*')) => place + 2,
            _ => return None,
        };
        let (sign, start) = match self.at(start)? {
            '-' => (-1.0, start + 1),
            '+' => (1.0, start + 1),
            _ => (1.0, start),
        };
        let exponent = self.is_digit(start).then(|| self.numeral(start))?;
        Some((sign * exponent.value?, exponent.end))
    }

    /// `× 10^3` and its like.
    fn power_of_ten(&self, place: usize) -> Option<(f64, usize)> {
        let times = self.blanks_end(place);
        if !TIMES.contains(&self.at(times)?) {
            return None;
        }
        let ten = self.blanks_end(times + 1);
        if self.at(ten) != Some('1') || self.at(ten + 1) != Some('0') {
            return None;
        }
        let (power, end) = self.power(ten + 2)?;
        Some((10_f64.powf(power), end))
    }

    /// What a number is divided by, behind a slash; an inner `None` is no number.
    fn divisor(&self, place: usize) -> Option<(Option<f64>, usize)> {
        let slash = self.blanks_end(place);
        if !SLASHES.contains(&self.at(slash)?) {
            return None;
        }
        let start = self.blanks_end(slash + 1);
        let numeral = self.is_digit(start).then(|| self.numeral(start))?;
        Some((numeral.value, numeral.end))
    }

    /// The fraction of a mixed number, such as the `1/2` of `1 1/2`.
    fn fraction_behind(&self, place: usize) -> Option<(f64, usize)> {
        let mut start = self.blanks_end(place);
        let word: String = self.text.get(start..start + 4).unwrap_or_default().iter().collect();
        if word == "and " {
            start = self.blanks_end(start + 4);
        }
        if start == place || !self.is_digit(start) {
            return None;
        }
        let over = self.numeral(start);
        let (under, end) = self.divisor(over.end)?;
        let (over, under) = (over.value.filter(|_| over.is_whole)?, under?);
        (over < under && self.divisor(end).is_none()).then_some((over / under, end))
    }

    /// Digits with the marks between them, read as one number where they are one.
    fn numeral(&self, start: usize) -> Numeral {
        let mut groups: Vec<String> = Vec::new();
        let mut marks: Vec<char> = Vec::new();
        let mut end = self.digits_end(start);
        groups.push(self.text.get(start..end).unwrap_or_default().iter().collect());
        while let Some(mark) = self.at(end).and_then(mark).filter(|_| self.is_digit(end + 1)) {
            let next = self.digits_end(end + 1);
            let is_group = next - end == 4
                && groups.first().is_some_and(|first| (1..=3).contains(&first.len()))
                && !marks.iter().any(|mark| matches!(mark, '.' | ','));
            if !matches!(mark, '.' | ',') && !is_group {
                break;
            }
            marks.push(mark);
            groups.push(self.text.get(end + 1..next).unwrap_or_default().iter().collect());
            end = next;
        }
        let mut digits = joined(&groups, &marks);
        if matches!(self.at(end), Some('e' | 'E')) {
            let sign = usize::from(matches!(self.at(end + 1), Some('-' | '+')));
            if self.is_digit(end + 1 + sign) {
                let behind = self.digits_end(end + 1 + sign);
                let exponent: String = self.text.get(end..behind).unwrap_or_default().iter().collect();
                digits = digits.map(|digits| digits + &exponent);
                end = behind;
            }
        }
        let is_whole = digits.as_ref().is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
        Numeral { value: digits.and_then(|digits| digits.parse().ok()), is_whole, end }
    }

    /// The sign of the number whose digits begin here, and where number and sign begin.
    fn sign_before(&self, start: usize) -> (f64, usize) {
        let sign_at = |place: Option<usize>| {
            let place = place?;
            match self.at(place)? {
                '-' => Some((-1.0, place)),
                '+' => Some((1.0, place)),
                _ => None,
            }
        };
        let no_sign = (1.0, start);
        // `-$5`, `- $ 5` and `$-5`.
        let last = |end: usize| {
            let head = self.text.get(..end).unwrap_or_default();
            head.iter().rposition(|character| !is_blank(*character))
        };
        let currency = last(start).filter(|place| self.at(*place).is_some_and(is_currency));
        let begin = currency.unwrap_or(start);
        if let Some((sign, place)) = sign_at(begin.checked_sub(1)) {
            let binds_left =
                self.before(place).is_some_and(|before| before.is_alphanumeric() || ")%]-+".contains(before));
            return if binds_left { no_sign } else { (sign, place) };
        }
        if !self.before(begin).is_some_and(is_blank) {
            return no_sign;
        }
        let head = self.text.get(..begin).unwrap_or_default();
        let end = last(begin);
        if let Some((sign, place)) = sign_at(end) {
            let front = head.get(..place).unwrap_or_default();
            let before = front.iter().rev().find(|character| !is_blank(**character));
            let begins = before.is_none_or(|before| "=≈~($€£¥[:,<>≤≥".contains(*before));
            return if begins { (sign, place) } else { no_sign };
        }
        let word_start = |word: &str| {
            let length = word.chars().count();
            let place = (end? + 1).checked_sub(length)?;
            let found: String = head.get(place..place + length)?.iter().collect::<String>().to_lowercase();
            let is_word = found == word && !self.before(place).is_some_and(char::is_alphanumeric);
            // Behind a number the word is an operation.
            let is_behind = last(place).is_some_and(|before| self.is_digit(before));
            (is_word && !is_behind).then_some(place)
        };
        let negative = word_start("minus").or_else(|| word_start("negative"));
        match (negative, word_start("plus")) {
            (Some(place), _) => (-1.0, place),
            (None, Some(place)) => (1.0, place),
            (None, None) => no_sign,
        }
    }

    /// The end of a word that goes on behind a number with more digits, as in `12h30`; `None` for units such as `m2`.
    fn rest_of_word(&self, end: usize) -> Option<usize> {
        let is_part = |place: usize| self.at(place).is_some_and(|character| character.is_alphanumeric());
        let word_end = (end..).find(|place| !is_part(*place))?;
        let word: String = self.text.get(end..word_end)?.iter().collect();
        let letters = word.trim_end_matches(['2', '3']);
        let is_unit =
            word.len() - letters.len() <= 1 && !letters.contains(|letter: char| letter.is_ascii_digit());
        (word.contains(|letter: char| letter.is_ascii_digit()) && !is_unit).then_some(word_end)
    }

    /// True if what is between two numbers makes one of them.
    fn are_joined(
        &self,
        first: &Range<usize>,
        second: &Range<usize>,
        is_unit: &impl Fn(&str) -> bool,
    ) -> bool {
        let gap: String = self.text.get(first.end..second.start).unwrap_or_default().iter().collect();
        if gap.contains('\n') || gap.is_empty() {
            return gap.is_empty();
        }
        let gap = gap.trim_matches(is_blank).to_lowercase();
        let gap = gap.trim_end_matches(|character: char| is_currency(character) || is_blank(character));
        if CONNECTORS.contains(&gap) {
            return true;
        }
        if gap == "and" {
            let words = first.start.saturating_sub(MAX_BETWEEN_CHARACTERS)..first.start;
            let head: String = self.text.get(words).unwrap_or_default().iter().collect();
            return head.trim_end().to_lowercase().ends_with("between");
        }
        let word_end =
            gap.find(|character: char| !(character.is_alphabetic() || character == '%')).unwrap_or(gap.len());
        let (word, rest) = gap.split_at(word_end);
        // `5 km - 7 km`, and `1 h 30 min`.
        is_unit(word) && (rest.is_empty() || CONNECTORS.contains(&rest.trim_matches(is_blank)))
    }
}

/// A mark between digits, in one spelling for each kind.
fn mark(character: char) -> Option<char> {
    match character {
        '.' | ',' | '_' => Some(character),
        '\'' | '’' => Some('\''),
        blank if is_blank(blank) => Some(' '),
        _ => None,
    }
}

/// The digits of a number with a decimal point; `None` where the marks are not those of one number.
///
/// A mark that groups has three digits behind it, or two as in India; a comma that cannot be one is a decimal comma. A
/// lone point is a decimal point.
fn joined(groups: &[String], marks: &[char]) -> Option<String> {
    let (whole, decimals) = match marks {
        [] => (groups, None),
        ['.'] => split_last(groups)?,
        [',', ..] if marks.iter().all(|mark| *mark == ',') => {
            let groups_thousands = is_grouped(groups, true) && !groups.first()?.starts_with('0');
            match (groups_thousands, marks.len()) {
                (true, _) => (groups, None),
                (false, 1) => split_last(groups)?,
                (false, _) => return None,
            }
        }
        [first, .., last] if first != last => {
            let (before, decimals) = split_last(groups)?;
            let is_decimal =
                matches!(last, '.' | ',') && marks.iter().filter(|mark| *mark == last).count() == 1;
            let has_one_mark = marks.iter().rev().skip(1).all(|mark| mark == first);
            if !is_decimal || !has_one_mark || !is_grouped(before, *first == ',') {
                return None;
            }
            (before, decimals)
        }
        _ if is_grouped(groups, false) => (groups, None),
        _ => return None,
    };
    let whole = whole.concat();
    Some(match decimals {
        Some(decimals) => format!("{whole}.{decimals}"),
        None => whole,
    })
}

fn split_last(groups: &[String]) -> Option<(&[String], Option<&str>)> {
    let (last, before) = groups.split_last()?;
    Some((before, Some(last)))
}

/// True for groups of three digits, or of two with three at the end.
fn is_grouped(groups: &[String], may_be_indian: bool) -> bool {
    let Some((first, later)) = groups.split_first() else { return false };
    let Some((last, middle)) = later.split_last() else { return true };
    let has = |digits: usize| middle.iter().all(|group| group.len() == digits) && last.len() == 3;
    (1..=3).contains(&first.len()) && has(3) || may_be_indian && (1..=2).contains(&first.len()) && has(2)
}

fn is_blank(character: char) -> bool {
    character.is_whitespace() && character != '\n'
}

pub(super) fn is_currency(character: char) -> bool {
    "$€£¥".contains(character)
}
