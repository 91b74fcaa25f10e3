//! Vectors recorded from the reference system, against ours.
//!
//! Every file of `tests/data/conformance/` is read: an object of groups, each a list of `{"in": .., "out": ..}`.
//! More files of the same shape can be dropped in. A group has a handler or a reason why it is not ours yet; one that
//! the table does not know fails the test. Where the reference is known to be wrong the handler holds our value and
//! says why.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]
#![expect(clippy::print_stdout, reason = "what is not compared is said in the test's output")]

mod core_groups;
mod edit_groups;
mod merge_groups;
#[path = "../support/recorded.rs"]
mod recorded;
mod scorer_groups;
mod slow_groups;

use recorded::{is_same, read_files};
use serde_json::Value;
use std::collections::BTreeMap;

/// What a handler made of a case.
pub(crate) enum Verdict {
    /// Our output, which must be the recorded one.
    Ours(Value),
    /// The reference is wrong here: ours was checked against this, which names the difference.
    Differs(&'static str),
}

/// Makes one case again.
type Group = fn(&Value, &Value) -> Verdict;

/// Every group of the recordings.
const GROUPS: [(&str, Group); 29] = [
    ("scheduler", core_groups::scheduler),
    ("py_shuffle", core_groups::py_shuffle),
    ("py_random_raw", core_groups::py_random_raw),
    ("select_gate_score", core_groups::select_gate_score),
    ("evaluate_gate", core_groups::evaluate_gate),
    ("skill_hash", core_groups::skill_hash),
    ("compute_score", core_groups::compute_score),
    ("extract_json", core_groups::extract_json),
    ("apply_edit", edit_groups::apply_edit),
    ("rank_and_select", edit_groups::rank_and_select),
    ("merge_patches", merge_groups::merge_patches),
    ("merge_bad_json", merge_groups::merge_bad_json),
    ("minibatch_groups", core_groups::minibatch_groups),
    ("split_counts", core_groups::split_counts),
    ("plan_train_epoch", core_groups::plan_train_epoch),
    ("appendix_inject", edit_groups::appendix_inject),
    ("appendix_append", edit_groups::appendix_append),
    ("slow_inject", slow_groups::slow_inject),
    ("slow_replace", slow_groups::slow_replace),
    ("slow_extract", slow_groups::slow_extract),
    ("comparison_pairs", slow_groups::comparison_pairs),
    ("longitudinal_policy", slow_groups::longitudinal_policy),
    ("update_mode", core_groups::update_mode),
    ("lr_autonomous", core_groups::lr_autonomous),
    ("lr_control_mode", core_groups::lr_control_mode),
    ("searchqa", scorer_groups::searchqa),
    ("officeqa", scorer_groups::officeqa),
    ("docvqa", scorer_groups::docvqa),
    ("livemath_shuffle", scorer_groups::livemath_shuffle),
];

#[test]
fn conformance_with_the_recorded_vectors() {
    let mut failures = Vec::new();
    let mut n_checked = BTreeMap::new();
    for (file, groups) in read_files("conformance") {
        for (name, cases) in groups.as_object().unwrap() {
            let Some((_, group)) = GROUPS.iter().find(|(known, _)| known == name) else {
                failures.push(format!("{file}: the table has no group `{name}`"));
                continue;
            };
            for (case_idx, case) in cases.as_array().unwrap().iter().enumerate() {
                *n_checked.entry(name.clone()).or_insert(0) += 1;
                failures.extend(check(&format!("{file}: {name}[{case_idx}]"), case, *group));
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    let untried: Vec<_> = GROUPS
        .iter()
        .filter(|(name, group)| matches!(group, _) && !n_checked.contains_key(*name))
        .map(|(name, _)| name)
        .collect();
    assert!(untried.is_empty(), "no case was read of {untried:?}");
}

fn check(place: &str, case: &Value, handler: fn(&Value, &Value) -> Verdict) -> Option<String> {
    match handler(&case["in"], &case["out"]) {
        Verdict::Ours(ours) if is_same(&ours, &case["out"]) => None,
        Verdict::Ours(ours) => {
            Some(format!("{place}\n      in: {}\nrecorded: {}\n    ours: {ours}", case["in"], case["out"]))
        }
        Verdict::Differs(difference) => {
            println!("{place}: differs on purpose: {difference}");
            None
        }
    }
}

#[test]
fn conformance_comparison_sees_differences() {
    let value = |text: &str| serde_json::from_str::<Value>(text).unwrap();
    let ours = serde_json::json!([1, { "a": 0.300_000_000_000_000_04, "b": null }]);
    let recorded = serde_json::json!([1.0, { "b": null, "a": 0.3 }]);
    assert!(is_same(&ours, &recorded));
    assert!(!is_same(&value("[1, 2]"), &value("[1]")));
    assert!(!is_same(&value("{\"a\": 1}"), &value("{\"a\": 1, \"b\": 2}")));
    assert!(!is_same(&value("0.3"), &value("0.300001")));
    assert!(!is_same(&value("\"1\""), &value("1")));
}
