//! A scripted training world: a target that knows some answers, and an optimizer that sometimes finds more.
//!
//! # The target
//!
//! An item's prompt holds `<item id="train-17">`, and the right answer to `What is the code of train-17?` is
//! `code-train-17`. Every item has a threshold, drawn from the seed and its id, and is right where the accuracy is
//! above it; so an item that a better skill makes right stays right. The accuracy is [`Workload::accuracy`], plus
//! [`ACCURACY_STEP`] for each different `BETTER-n` in front of the item.
//!
//! # The optimizer
//!
//! A request with a `response_format` is the optimizer's. An analyst's reply appends one line to the skill. About
//! one of [`Workload::improve_every`] of these lines holds the next `BETTER-n`, which the seed and the items that the
//! analyst reads about decide; each other is new text that changes nothing. A merge keeps only improvements if there are any and all edits otherwise, and a ranking puts improvements
//! first, so a candidate is better if and only if one of the step's analysts found an improvement.

use super::data::{self, answer};
use super::dice::{hash, throw, unit};
use super::optimizer;
use memchr::memmem;
use std::collections::BTreeSet;

/// Where an item's id is in a prompt, as it is written inside a JSON string.
const ITEM_MARKER: &[u8] = br#"<item id=\""#;

/// The key that tells the optimizer's requests; inside a string its quotes would be escaped.
const RESPONSE_FORMAT: &[u8] = br#""response_format":"#;

/// In front of the number of an improvement.
pub(super) const BETTER: &str = "BETTER-";

/// What an improvement adds to the accuracy.
const ACCURACY_STEP: f64 = 0.05;

/// What the target says where it does not know better.
const WRONG_ANSWER: &str = "unknown";

/// The scripted training world.
#[derive(Debug, Clone, Copy)]
pub(super) struct Workload {
    /// Decides which items are right and which analysts find an improvement.
    pub(super) seed: u64,
    /// The share of items that are right under a skill without improvements.
    pub(super) accuracy: f64,
    /// About one of so many analyst replies improves the skill; 0 is none, 1 is all.
    pub(super) improve_every: u64,
}

impl Workload {
    /// The text of the reply to a request.
    pub(super) fn reply(&self, request: &[u8]) -> String {
        if memmem::find(request, RESPONSE_FORMAT).is_some() {
            optimizer::reply(self, request)
        } else {
            self.target_reply(request)
        }
    }

    /// Whether this item is right under a skill with so many different improvements.
    fn is_right(&self, id: &str, n_better: usize) -> bool {
        let threshold = unit(throw(self.seed, hash(0, id.as_bytes()), 0, "item"));
        // A threshold is below 1, so that an accuracy of 1 is every item.
        threshold < self.accuracy + ACCURACY_STEP * n_better as f64
    }

    fn target_reply(&self, request: &[u8]) -> String {
        let Some((skill, id)) = item(request) else { return WRONG_ANSWER.to_owned() };
        if self.is_right(id, numbers(skill, BETTER).len()) { answer(id) } else { WRONG_ANSWER.to_owned() }
    }

    /// Whether the analyst with this request finds an improvement.
    ///
    /// The items that it reads about decide, and not how the prompt is worded: a benchmark keeps its candidates.
    pub(super) fn improves(&self, request: &[u8]) -> bool {
        let key = asked_items(request).fold(0, hash);
        let thrown = throw(self.seed, key, 0, "improve");
        thrown.checked_rem(self.improve_every) == Some(0)
    }
}

/// What is in front of the item, and its id. Skills come before items, so the last marker is the item's.
fn item(request: &[u8]) -> Option<(&[u8], &str)> {
    let at = memmem::rfind(request, ITEM_MARKER)?;
    let (skill, rest) = request.split_at_checked(at)?;
    let rest = rest.strip_prefix(ITEM_MARKER)?;
    let id = rest.get(..memchr::memchr(b'\\', rest)?)?;
    Some((skill, std::str::from_utf8(id).ok()?))
}

/// The ids of the items whose questions a request holds, in its order.
fn asked_items(request: &[u8]) -> impl Iterator<Item = &[u8]> {
    let [before, after] = data::QUESTION;
    memmem::find_iter(request, before).filter_map(move |at| {
        let rest = request.get(at + before.len()..)?;
        rest.get(..memmem::find(rest, after.as_bytes())?)
    })
}

/// The different numbers behind a marker.
pub(super) fn numbers(text: &[u8], marker: &str) -> BTreeSet<u64> {
    memmem::find_iter(text, marker.as_bytes())
        .filter_map(|at| {
            let rest = text.get(at + marker.len()..)?;
            let n_digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
            std::str::from_utf8(rest.get(..n_digits)?).ok()?.parse().ok()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::data::{context, question};
    use super::*;
    use serde_json::json;

    const USUAL: Workload = Workload { seed: 0, accuracy: 0.7, improve_every: 10 };

    fn request(skill: &str, id: &str) -> Vec<u8> {
        let user = format!("Context:\n{}\n\nQuestion: {}\n\nAnswer:", context(id, 200), question(id));
        let messages = json!([{"role": "system", "content": skill}, {"role": "user", "content": user}]);
        json!({"model": "target", "messages": messages}).to_string().into_bytes()
    }

    /// How many of 1,000 items are right.
    fn n_right(workload: &Workload, skill: &str) -> usize {
        let is_right = |id: &String| workload.reply(&request(skill, id)) == answer(id);
        (0..1_000).map(|n| format!("val-{n}")).filter(is_right).count()
    }

    #[track_caller]
    fn check_right(workload: &Workload, skill: &str, expect: usize) {
        let found = n_right(workload, skill);
        assert!(found.abs_diff(expect) <= 30, "{found} under {skill:?}, expected about {expect}");
    }

    #[test]
    fn the_accuracy_is_what_was_asked_for_and_moves_with_the_markers() {
        let workload = Workload { seed: 3, ..USUAL };
        check_right(&workload, "", 700);
        check_right(&workload, "- Be quick.\n- Rule of 5.", 700);
        check_right(&workload, "- BETTER-1: x", 750);
        check_right(&workload, "- BETTER-1: x\n- BETTER-2: y\n- BETTER-2: y", 800);
        let all = "- BETTER-1\n- BETTER-2\n- BETTER-3\n- BETTER-4\n- BETTER-5\n- BETTER-6";
        assert_eq!(n_right(&workload, all), 1_000);
        assert_eq!(n_right(&Workload { accuracy: 0.0, ..workload }, ""), 0);
    }

    #[test]
    fn an_item_that_is_right_stays_right_under_a_better_skill() {
        let workload = USUAL;
        for n in 0..1_000 {
            let id = format!("val-{n}");
            assert!(!workload.is_right(&id, 0) || workload.is_right(&id, 1), "{id}");
        }
    }

    #[test]
    fn another_seed_gets_other_items_right() {
        let right = |seed| {
            let workload = Workload { seed, ..USUAL };
            (0..100).map(|n| workload.is_right(&format!("val-{n}"), 0)).collect::<Vec<bool>>()
        };
        assert_eq!(right(1), right(1));
        assert_ne!(right(1), right(2));
    }

    #[test]
    fn a_request_that_asks_for_no_item_gets_a_wrong_answer() {
        let workload = Workload { accuracy: 1.0, ..USUAL };
        for request in ["", "{}", r#"<item id=\""#, r#"<item id=\"cut"#] {
            assert_eq!(workload.reply(request.as_bytes()), WRONG_ANSWER);
        }
    }

    #[test]
    fn what_an_analyst_finds_depends_on_its_items_and_not_on_the_wording() {
        let workload = Workload { improve_every: 4, ..USUAL };
        let improves = |wording: &str, ids: [usize; 2]| {
            let questions = ids.map(|n| question(&format!("train-{n}"))).join("\n");
            workload.improves(format!("{wording}\n{questions}").as_bytes())
        };
        let found = |wording| (0..400).map(|n| improves(wording, [n, n + 1])).collect::<Vec<bool>>();
        let first = found("Read these.");
        assert_eq!(first, found("Look at these and say what went wrong."));
        let n_improved = first.iter().filter(|improves| **improves).count();
        assert!((60..140).contains(&n_improved), "{n_improved} of 400");
        assert!((0..50).any(|n| improves("", [n, n + 1]) != improves("", [n, n + 2])));
    }

    #[test]
    fn markers_count_only_with_a_number() {
        for (text, expect) in
            [("BETTER-", vec![]), ("BETTER-x BETTER-7", vec![7]), ("BETTER-3BETTER-3", vec![3])]
        {
            assert_eq!(numbers(text.as_bytes(), BETTER).into_iter().collect::<Vec<u64>>(), expect);
        }
    }
}
