//! Marks that people and models put around what they say, and how they are taken off.
//!
//! One place for all readers: the scorers read references and replies with it, so that what is a mark to one is a mark to the
//! next. A reader tries a text as it is first, and without its marks only where that fails.

use html_escape::decode_html_entities;
use std::borrow::Cow;

/// How far apart the two marks of an emphasis may be: whoever emphasizes more than this emphasizes nothing.
const MAX_EMPHASIS_CHARACTERS: usize = 2000;

/// The longest run of one mark: `***` is both emphases.
const MAX_RUN: usize = 3;

/// The text without the marks of emphasis in it (`**42**`, `_42_`), and without what is struck out (`~~41~~`).
///
/// Marks that are signs of an expression or parts of a name stay: an emphasis begins behind nothing that is counted or called
/// and ends before nothing of the kind, so `2**3`, `3*4*5`, `2 * 3`, `snake_case_name` and `a**b` are as before.
///
/// ```
/// use skill_core::decoration::without_emphasis;
///
/// assert_eq!(without_emphasis("6 * 7 = **42**"), "6 * 7 = 42");
/// assert_eq!(without_emphasis("2**3 and a_b_c"), "2**3 and a_b_c");
/// ```
pub fn without_emphasis(text: &str) -> String {
    if !text.contains(['*', '_', '~']) {
        return text.to_owned();
    }
    let text: Vec<char> = text.chars().collect();
    let runs = runs(&text);
    let mut is_left_out = vec![false; text.len()];
    let mut leave_out = |range: std::ops::Range<usize>| {
        is_left_out.get_mut(range).into_iter().flatten().for_each(|place| *place = true);
    };
    let mut closed = vec![false; runs.len()];
    for (run_idx, open) in runs.iter().enumerate() {
        if closed.get(run_idx) == Some(&true) || !open.opens(&text) {
            continue;
        }
        let later = runs.iter().enumerate().skip(run_idx + 1);
        let mut near = later.take_while(|(_, close)| close.start - open.end() <= MAX_EMPHASIS_CHARACTERS);
        let close = near.find(|(close_idx, close)| {
            (close.mark, close.length) == (open.mark, open.length)
                && closed.get(*close_idx) == Some(&false)
                && close.closes(&text)
        });
        let Some((close_idx, close)) = close else { continue };
        if let Some(closed) = closed.get_mut(close_idx) {
            *closed = true;
        }
        match open.mark {
            '~' => leave_out(open.start..close.end()),
            _ => {
                leave_out(open.start..open.end());
                leave_out(close.start..close.end());
            }
        }
    }
    let kept = text.iter().zip(is_left_out).filter(|(_, is_left_out)| !is_left_out);
    kept.map(|(character, _)| *character).collect()
}

/// Tags of HTML that only change how a text looks.
const TAGS: [&str; 9] = ["b", "i", "em", "strong", "u", "mark", "code", "p", "span"];

/// True if a text has an entity of HTML, such as `&amp;` or `&#39;`.
pub fn has_entities(text: &str) -> bool {
    text.contains('&') && decode_html_entities(text) != text
}

/// The text that a cell of a table means: entities of HTML read, and Excel's `="00123"` without its formula.
///
/// ```
/// use skill_core::decoration::of_cell;
///
/// assert_eq!(of_cell("Billing &amp; Payments"), "Billing & Payments");
/// assert_eq!(of_cell("Caf&eacute; &#8211; Bar"), "Café – Bar");
/// assert_eq!(of_cell("=\"00123\""), "00123");
/// ```
pub fn of_cell(text: &str) -> Cow<'_, str> {
    let trimmed = text.trim();
    let formula = trimmed
        .strip_prefix("=\"")
        .and_then(|rest| rest.strip_suffix('"'))
        .filter(|inner| !inner.contains('"'));
    let text = formula.unwrap_or(text);
    if !has_entities(text) {
        return Cow::Borrowed(text);
    }
    // A no-break space is a space to readers.
    Cow::Owned(decode_html_entities(text).replace('\u{a0}', " "))
}

/// A text without the emphasis, the code marks and the one full stop around it; `None` if there is nothing of the kind, or
/// nothing else.
///
/// ```
/// use skill_core::decoration::undecorated;
///
/// assert_eq!(undecorated("**Billing**.").as_deref(), Some("Billing"));
/// assert_eq!(undecorated("Billing"), None);
/// assert_eq!(undecorated("**"), None);
/// ```
pub fn undecorated(text: &str) -> Option<String> {
    let before = text.trim();
    let plain = of_cell(before);
    let plain = without_emphasis(&plain);
    let plain = without_stop(without_code(without_stop(plain.trim())));
    let plain = without_tags(plain);
    let plain = plain.trim();
    (!plain.is_empty() && plain != before).then(|| plain.to_owned())
}

/// A text without quotes, brackets, a list mark and a lead such as `Answer:` besides, in lower case: what is left of two texts
/// that say the same.
pub fn folded(text: &str) -> String {
    let plain = undecorated(text).unwrap_or_else(|| text.trim().to_owned());
    let plain = plain.trim_start_matches(['-', '•', '*', '#', '>']).trim();
    let lower = plain.to_lowercase();
    let lead = ["final answer:", "answer:", "label:", "category:", "class:"];
    let lower = lead.iter().find_map(|lead| lower.strip_prefix(lead)).unwrap_or(&lower);
    let is_mark = |sign: char| sign.is_whitespace() || "\"'`“”‘’«»()[]{}<>.!*_".contains(sign);
    let bare = lower.trim_matches(is_mark);
    if bare.is_empty() { lower.to_owned() } else { bare.to_owned() }
}

fn without_stop(text: &str) -> &str {
    match text.strip_suffix(['.', '。', '．']) {
        Some(rest) if !rest.is_empty() && !rest.ends_with(['.', '。', '．']) => rest,
        Some(_) | None => text,
    }
}

/// A text without the code marks around it as a whole, with the name of a language or without.
fn without_code(text: &str) -> &str {
    if let Some(inner) = text.strip_prefix("```").and_then(|rest| rest.strip_suffix("```")) {
        let (first, rest) = inner.split_once('\n').unwrap_or(("", inner));
        let is_language = first.chars().all(|letter| letter.is_ascii_alphanumeric());
        return if is_language { rest.trim() } else { inner.trim() };
    }
    let inner = text.strip_prefix('`').and_then(|rest| rest.strip_suffix('`'));
    inner.filter(|inner| !inner.is_empty() && !inner.contains('`')).unwrap_or(text)
}

/// A text without the tags around it as a whole that only change how it looks.
fn without_tags(text: &str) -> &str {
    let inner = TAGS
        .iter()
        .find_map(|tag| text.strip_prefix(&format!("<{tag}>"))?.strip_suffix(&format!("</{tag}>")));
    inner.unwrap_or(text)
}

/// The same mark several times in a row.
struct Run {
    mark: char,
    start: usize,
    length: usize,
}

impl Run {
    fn end(&self) -> usize {
        self.start + self.length
    }

    fn before(&self, text: &[char]) -> Option<char> {
        text.get(self.start.checked_sub(1)?).copied()
    }

    /// True where an emphasis may begin: not behind a name, a number or what is in brackets.
    fn opens(&self, text: &[char]) -> bool {
        let binds = |before: char| is_of_name(before) || ")]}%^\\".contains(before);
        !self.before(text).is_some_and(binds)
            && text.get(self.end()).is_some_and(|inside| !inside.is_whitespace())
    }

    /// True where an emphasis may end: not before a name, a number or a bracket, but for a heading such as `**Answer:**42`.
    fn closes(&self, text: &[char]) -> bool {
        let Some(inside) = self.before(text).filter(|inside| !inside.is_whitespace()) else { return false };
        let is_heading = self.mark == '*' && ":.!?".contains(inside);
        let binds = |behind: &char| is_of_name(*behind) || "([{^".contains(*behind);
        is_heading || !text.get(self.end()).is_some_and(binds)
    }
}

/// True for a character of a name or a number in an expression: a digit, or a letter of a script that has capitals. Scripts
/// without capitals, such as Chinese and Thai, have no blanks between words, so emphasis lies directly beside letters.
fn is_of_name(character: char) -> bool {
    character.is_ascii_digit() || character.is_lowercase() || character.is_uppercase()
}

/// The runs of marks of a text, in order.
fn runs(text: &[char]) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for (place, character) in text.iter().enumerate().filter(|(_, character)| "*_~".contains(**character)) {
        match runs.last_mut() {
            Some(run) if run.mark == *character && run.end() == place => run.length += 1,
            _ => runs.push(Run { mark: *character, start: place, length: 1 }),
        }
    }
    runs.retain(|run| run.length <= MAX_RUN && (run.mark != '~' || run.length == 2));
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_around_a_text_are_taken_off_and_never_all_of_it() {
        for text in [
            "**Billing**",
            "Billing.",
            "`Billing`",
            "**Billing.**",
            "**Billing**.",
            "*Billing*",
            "```\nBilling\n```",
            "<b>Billing</b>",
            "=\"Billing\"",
            "`Billing`.",
            "Billing。",
            "<strong>Billing</strong>.",
        ] {
            assert_eq!(undecorated(text).as_deref(), Some("Billing"), "{text:?}");
        }
        for text in ["Billing", "", ".", "**", "``", "...", "e.g..", "a_b", "2**3"] {
            assert_eq!(undecorated(text), None, "{text:?}");
        }
        assert_eq!(undecorated("A &amp; B").as_deref(), Some("A & B"));
        for text in ["\"Billing\"", "billing", "- Billing", "Answer: **Billing**", "(Billing)", "BILLING!"] {
            assert_eq!(folded(text), "billing", "{text:?}");
        }
        assert_eq!(of_cell("AT&T"), "AT&T");
    }

    #[test]
    fn entities_are_read_once_and_nothing_else_is() {
        for (text, expect) in [
            ("Caf&eacute;", "Café"),
            ("It&#8217;s", "It’s"),
            ("It&#x27;s", "It's"),
            ("42&nbsp;km", "42 km"),
            ("&#160;42", " 42"),
            ("&euro;42", "€42"),
            ("&amp;lt;", "&lt;"),
            ("&amp;&amp;", "&&"),
            ("ä&amp;ö", "ä&ö"),
        ] {
            assert!(has_entities(text), "{text}");
            assert_eq!(of_cell(text), expect, "{text}");
        }
        for text in ["AT&T", "a & b; c", "&unknown;", "&#;", "&#x;", "&#99999999;", "&#0;", "&", "&;", "&amp"]
        {
            assert!(!has_entities(text), "{text}");
            assert_eq!(of_cell(text), text, "{text}");
        }
    }

    #[test]
    fn emphasis_is_taken_off_and_expressions_stay() {
        #[track_caller]
        fn check(text: &str, expect: &str) {
            assert_eq!(without_emphasis(text), expect, "{text:?}");
        }
        for text in ["**42**", "*42*", "_42_", "__42__", "***42***", "**_42_**", "*__42__*"] {
            check(text, "42");
        }
        check("The answer is **42**.", "The answer is 42.");
        check("**3** + **4** = **7**", "3 + 4 = 7");
        check("**Answer:** B", "Answer: B");
        check("**Answer:**42", "Answer:42");
        check("(**42**)", "(42)");
        check("~~41~~ 42", " 42");
        check("über **größe**", "über größe");
        check("答案是**42**。", "答案是42。");
        check("**答案**是42", "答案是42");
        check("정답은 **42**입니다", "정답은 42입니다");
        check("_**42**_", "42");
        check("größe_ä_öl", "größe_ä_öl");
        for text in [
            "2**3",
            "3*4*5",
            "2 * 3 * 4",
            "2 ** 3",
            "a_b_c",
            "x_1",
            "a**b",
            "f(*args, **kwargs)",
            "2*(3)*4",
            "* 42",
            "**",
            "****",
            "_",
            "5*",
            "~5~",
            "10^*",
            "snake_case_ name",
            "** 42 **",
        ] {
            check(text, text);
        }
        let many = "*a ".repeat(500);
        check(&many, &many);
    }
}
