//! Requests of a training loop that show no tasks: merging and ranking of edits, and notes at the end of an epoch.

use super::text::Line;
use serde_json::{Value, json};

/// The reply to such a request.
pub(crate) fn reply(user: &str) -> Option<String> {
    if user.contains("<pair ") || user.contains("Longitudinal Comparison") {
        return Some(epoch_notes());
    }
    if let Some(patches) = patches_in(user) {
        return Some(merged(&patches));
    }
    user.lines().any(|line| line.starts_with("[0] ")).then(|| ranked(user))
}

/// Guidance without a rule: it neither helps nor harms.
fn epoch_notes() -> String {
    let notes = "- Keep to the rules above.";
    json!({"reasoning": "the pairs", "slow_update_content": notes, "meta_skill_content": notes}).to_string()
}

/// The edits of all patches that a prompt asks to merge.
fn patches_in(user: &str) -> Option<Vec<Value>> {
    let lists = user.match_indices("\n[").filter_map(|(at, _)| {
        let rest = user.get(at + 1..)?;
        serde_json::Deserializer::from_str(rest).into_iter::<Vec<Value>>().next()?.ok()
    });
    let edits_of = |patch: &Value| patch.get("edits").and_then(Value::as_array).cloned();
    let mut edits = lists.filter_map(|list| list.iter().map(edits_of).collect::<Option<Vec<_>>>());
    edits.find(|edits| !edits.is_empty()).map(|edits| edits.into_iter().flatten().collect())
}

/// One patch of all edits: of equal ones the first stays with the support of all, of contradictory ones the better
/// supported.
fn merged(edits: &[Value]) -> String {
    let mut kept: Vec<Value> = Vec::new();
    for edit in edits {
        let key = |edit: &Value| ["op", "content", "target"].map(|key| text(edit, key));
        if let Some(same) = kept.iter_mut().find(|kept| key(kept) == key(edit)) {
            let sum = support(same) + support(edit);
            if let Some(count) = same.get_mut("support_count") {
                *count = json!(sum);
            }
            continue;
        }
        let own = place(edit);
        match kept.iter_mut().find(|kept| own.is_some() && place(kept) == own) {
            Some(rival) if support(rival) >= support(edit) => {}
            Some(rival) => *rival = edit.clone(),
            None => kept.push(edit.clone()),
        }
    }
    kept.sort_by_key(|edit| std::cmp::Reverse(support(edit)));
    json!({"reasoning": "merged", "edits": kept, "no_change": kept.is_empty()}).to_string()
}

fn text(edit: &Value, key: &str) -> String {
    edit.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn support(edit: &Value) -> u64 {
    edit.get("support_count").and_then(Value::as_u64).unwrap_or(1)
}

/// What a rule is about.
fn place(edit: &Value) -> Option<(usize, Option<usize>)> {
    match Line::all_in(&text(edit, "content")).into_iter().next()? {
        Line::Rule { field, kind, .. } => Some((field, kind)),
        Line::Harm(_) | Line::Idle(_) | Line::Answer(_) => None,
    }
}

/// The numbers of the edits, the best supported first.
fn ranked(user: &str) -> String {
    let mut rows: Vec<(u64, usize)> = user
        .lines()
        .filter_map(|line| line.strip_prefix('[')?.split_once("] "))
        .filter_map(|(number, edit)| Some((support_in(edit), number.parse().ok()?)))
        .collect();
    rows.sort_by_key(|(support, number)| (u64::MAX - support, *number));
    let indices: Vec<usize> = rows.into_iter().map(|(_, number)| number).collect();
    json!({"reasoning": "by support", "selected_indices": indices}).to_string()
}

fn support_in(edit: &str) -> u64 {
    let after = ["\"support_count\":", "support="].iter().find_map(|key| edit.split_once(key));
    let digits =
        after.map(|(_, rest)| rest.trim_start().chars().take_while(char::is_ascii_digit).collect::<String>());
    digits.and_then(|digits| digits.parse().ok()).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edit(content: &str, support: u64) -> Value {
        json!({"op": "append", "target": "", "content": content, "support_count": support})
    }

    #[test]
    fn patches_become_one_and_the_better_supported_rule_stays() {
        let patches = json!([
            {"edits": [edit("- x {f01=v2}", 1), edit("- y {!h1}", 1)]},
            {"edits": [edit("- x {f01=v3}", 2), edit("- y {!h1}", 1)]},
        ]);
        for prompt in [
            format!("# Patches to merge (2)\n\n```json\n{patches}\n```"),
            format!("## Patches to merge\n{patches:#}"),
        ] {
            let merged: Value = serde_json::from_str(&reply(&prompt).unwrap()).unwrap();
            let contents: Vec<_> =
                merged["edits"].as_array().unwrap().iter().map(|edit| text(edit, "content")).collect();
            assert_eq!(contents, ["- x {f01=v3}", "- y {!h1}"]);
        }
    }

    #[test]
    fn the_best_supported_edits_come_first() {
        let ranking = "# Edits\n\n[0] {\"op\":\"append\",\"support_count\":1}\n[1] {\"op\":\"append\",\"support_count\":3}\n";
        assert!(reply(ranking).unwrap().contains("[1,0]"));
        assert_eq!(reply("# Failed trajectories (1)"), None);
    }
}
