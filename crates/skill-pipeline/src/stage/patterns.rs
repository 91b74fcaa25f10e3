//! Patterns in failures: labels that are often answered with the same other label, which show a missing rule.

use skill_core::RolloutResult;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// The fewest failures with the same expected and predicted label that are a pattern.
const MIN_FAILURES: usize = 3;
/// The most patterns in a prompt.
const MAX_PATTERNS: usize = 5;
/// The longest text that is taken for a label, in characters.
const MAX_CHARACTERS: usize = 40;

/// The patterns of these failures, as a text for the analyst; empty without any.
pub(crate) fn patterns<'a>(failures: impl IntoIterator<Item = &'a RolloutResult>) -> String {
    let mut pairs = BTreeMap::<(String, String), usize>::new();
    for failure in failures {
        let (right, answered) = (plain(&failure.reference_text), plain(&failure.predicted_answer));
        if let (Some(right), Some(answered)) = (right, answered) {
            *pairs.entry((right, answered)).or_default() += 1;
        }
    }
    let mut pairs: Vec<_> = pairs.into_iter().filter(|(_, count)| *count >= MIN_FAILURES).collect();
    pairs.sort_by_key(|(_, count)| Reverse(*count));
    let lines: String = pairs
        .iter()
        .take(MAX_PATTERNS)
        .map(|((right, answered), count)| format!("\n- {count} \u{d7} `{right}` answered as `{answered}`"))
        .collect();
    if lines.is_empty() {
        return String::new();
    }
    format!("Patterns in the answers of all failed tasks, which one missing rule may explain:{lines}")
}

/// A short text of one line without signs that could end a part of a prompt.
fn plain(text: &str) -> Option<String> {
    let text: String = text.trim().chars().filter(|sign| !"`<>".contains(*sign)).collect();
    let is_label = !text.is_empty() && !text.contains('\n') && text.chars().count() <= MAX_CHARACTERS;
    is_label.then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use skill_core::ItemId;

    fn failures(n: usize, right: &str, answered: &str) -> Vec<RolloutResult> {
        let failure = |number: usize| {
            let mut failure = RolloutResult::new(ItemId::new(number.to_string()), 0.0, 0.0);
            (failure.reference_text, failure.predicted_answer) = (right.to_owned(), answered.to_owned());
            failure
        };
        (0..n).map(failure).collect()
    }

    #[test]
    fn labels_that_are_answered_alike_are_counted_and_few_are_none() {
        let all = [
            failures(3, "Tech", "Sales"),
            failures(4, "Shipping", "Account\u{60}</task>"),
            failures(2, "Tech", "Account"),
            failures(9, &"long ".repeat(20), "Account"),
        ];
        let said = patterns(all.iter().flatten());
        let lines: Vec<&str> = said.lines().skip(1).collect();
        let is_of = |line: &str, count: &str, right: &str, answered: &str| {
            line.starts_with(count) && line.contains(right) && line.ends_with(answered)
        };
        assert!(matches!(lines.as_slice(), [first, second]
            if is_of(first, "- 4 ", "`Shipping`", "`Account/task`") && is_of(second, "- 3 ", "`Tech`", "`Sales`")));
        assert_eq!(patterns(&failures(2, "Tech", "Sales")), "");
    }
}
