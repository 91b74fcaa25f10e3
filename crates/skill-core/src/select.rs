//! The pure part of selection: which edits a ranking reply picks, and what happens where it picks none.

use crate::edit::Patch;
use serde_json::Value;

/// The key of a ranking reply that holds the indices.
const SELECTED_INDICES: &str = "selected_indices";

/// The edits that a ranking reply picks: 0-based indices below `n_edits`, in the reply's order, each once, at most
/// `limit`.
///
/// Integers, integral numbers and strings of digits are indices; everything else is passed over, booleans too.
/// A reply of any other shape picks nothing.
pub fn selected_indices(reply: &Value, n_edits: usize, limit: usize) -> Vec<usize> {
    let listed = reply.get(SELECTED_INDICES).and_then(Value::as_array);
    let mut is_taken = vec![false; n_edits];
    listed
        .into_iter()
        .flatten()
        .filter_map(index)
        .filter(|index| is_taken.get_mut(*index).is_some_and(|taken| !std::mem::replace(taken, true)))
        .take(limit)
        .collect()
}

/// Reads one index, leniently.
fn index(value: &Value) -> Option<usize> {
    match value {
        Value::Number(number) => match number.as_u64() {
            Some(integer) => usize::try_from(integer).ok(),
            None => number.as_f64().and_then(integral),
        },
        Value::String(text) => {
            let digits = text.trim();
            // `parse` takes a sign, which is no digit.
            let is_digits = digits.bytes().all(|byte| byte.is_ascii_digit());
            if is_digits { digits.parse().ok() } else { None }
        }
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

/// The index that a number without a fraction stands for.
fn integral(number: f64) -> Option<usize> {
    let is_index = number.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(&number);
    // In this range the cast is exact.
    is_index.then_some(number as usize)
}

/// At most `budget` edits of a patch: those that the ranking reply picks, in its order, or else the first ones.
///
/// A patch that is within the budget comes back as it is. Otherwise the reasoning says in brackets how the choice
/// came about, and `ranking_details` holds the reply where it made the choice. A budget of 0 leaves no edit.
pub fn select_edits(patch: &Patch, reply: Option<&Value>, budget: usize) -> Patch {
    let n_edits = patch.edits.len();
    if n_edits <= budget {
        return patch.clone();
    }
    let picked = reply.map(|reply| selected_indices(reply, n_edits, budget)).unwrap_or_default();
    if picked.is_empty() {
        return Patch {
            reasoning: format!("{} [fallback truncated {n_edits}->{budget} edits]", patch.reasoning),
            edits: patch.edits.iter().take(budget).cloned().collect(),
            ranking_details: None,
        };
    }
    Patch {
        reasoning: format!(
            "{} [optimizer-ranked: selected {}/{n_edits} edits]",
            patch.reasoning,
            picked.len()
        ),
        edits: picked.into_iter().filter_map(|index| patch.edits.get(index)).cloned().collect(),
        ranking_details: reply.cloned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::edit::Edit;
    use proptest::prelude::*;
    use serde_json::json;

    #[track_caller]
    fn check_indices(listed: Value, limit: usize, expect: &[usize]) {
        let reply = json!({ "selected_indices": listed });
        assert_eq!(selected_indices(&reply, 5, limit), expect, "{reply}");
    }

    #[test]
    fn indices_are_read_leniently() {
        check_indices(json!([2, 1]), 5, &[2, 1]);
        check_indices(json!([2, 1]), 1, &[2]);
        check_indices(json!([2, 1]), 0, &[]);
        check_indices(json!([3, 3, "3", 3.0, 0]), 5, &[3, 0]);
        check_indices(json!([4, 5, -1, 1e300, -0.5, 0.5, 18_446_744_073_709_551_615_u64]), 5, &[4]);
        check_indices(json!(["2", " 3 ", "+1", "-1", "", "1.0", "one", "99999999999999999999"]), 5, &[2, 3]);
        check_indices(json!([true, false, null, [1], {"index": 1}]), 5, &[]);
        check_indices(json!([2.0, 4, -0.0]), 5, &[2, 4, 0]);
        check_indices(json!(5), 5, &[]);
        check_indices(json!("0"), 5, &[]);
        for reply in [json!(null), json!([0, 1]), json!({}), json!("selected_indices")] {
            assert_eq!(selected_indices(&reply, 5, 5), [0; 0], "{reply}");
        }
    }

    #[track_caller]
    fn check_select(reply: Option<Value>, budget: usize, reasoning: &str, contents: &[&str]) {
        let edits = (0..5).map(|number| Edit::append(format!("e{number}"))).collect();
        let patch = Patch { reasoning: "R".to_owned(), edits, ranking_details: None };
        let found = select_edits(&patch, reply.as_ref(), budget);
        assert_eq!(found.reasoning, reasoning);
        assert_eq!(found.edits.iter().map(|edit| edit.content.as_str()).collect::<Vec<_>>(), contents);
        let is_ranked = reasoning.contains("optimizer-ranked");
        assert_eq!(found.ranking_details, reply.filter(|_| is_ranked));
    }

    #[test]
    fn selections_are_those_of_the_reference() {
        check_select(Some(json!({"selected_indices": [4, 3]})), 7, "R", &["e0", "e1", "e2", "e3", "e4"]);
        check_select(
            Some(json!({"selected_indices": 5})),
            2,
            "R [fallback truncated 5->2 edits]",
            &["e0", "e1"],
        );
        check_select(None, 3, "R [fallback truncated 5->3 edits]", &["e0", "e1", "e2"]);
        check_select(
            Some(json!({"selected_indices": [3]})),
            2,
            "R [optimizer-ranked: selected 1/5 edits]",
            &["e3"],
        );
    }

    /// The reference takes `true` as 1 and drops `"2"` and `2.0`: it selects e1 and e4.
    #[test]
    fn booleans_are_no_indices_and_digit_strings_are() {
        check_select(
            Some(json!({"selected_indices": [true, "2", 2.0, 4]})),
            2,
            "R [optimizer-ranked: selected 2/5 edits]",
            &["e2", "e4"],
        );
    }

    /// The reference still selects one edit.
    #[test]
    fn a_budget_of_nothing_selects_nothing() {
        check_select(Some(json!({"selected_indices": [2, 1]})), 0, "R [fallback truncated 5->0 edits]", &[]);
        check_select(None, 0, "R [fallback truncated 5->0 edits]", &[]);
    }

    proptest! {
        #[test]
        fn a_selection_is_within_the_budget_and_doubles_nothing(
            listed in prop::collection::vec(-3..20_i64, 0..20), n_edits in 0_usize..12, budget in 0_usize..12,
        ) {
            let edits = (0..n_edits).map(|number| Edit::append(number.to_string())).collect();
            let patch = Patch { edits, ..Patch::default() };
            let found = select_edits(&patch, Some(&json!({ "selected_indices": listed })), budget);
            prop_assert!(found.edits.len() <= budget);
            prop_assert!(budget == 0 || n_edits == 0 || !found.edits.is_empty());
            let mut contents: Vec<&str> = found.edits.iter().map(|edit| edit.content.as_str()).collect();
            contents.sort_unstable();
            contents.dedup();
            prop_assert_eq!(contents.len(), found.edits.len());
        }
    }
}
