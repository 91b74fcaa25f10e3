//! The optimizer of the scripted world: it reads what skillrl asks and replies in the shapes that skillrl asks for.

use super::dice::hash;
use super::workload::{BETTER, Workload, numbers};
use serde_json::{Value, json};

/// What the optimizer is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Task {
    AnalyseFailures,
    AnalyseSuccesses,
    Merge,
    Rank,
    Guide,
    Note,
}

/// The text of the reply to one of the optimizer's requests.
pub(super) fn reply(workload: &Workload, request: &[u8]) -> String {
    let body: Value = serde_json::from_slice(request).unwrap_or_default();
    let prompt = prompt(&body);
    let reply = match task(&body, prompt) {
        Task::AnalyseFailures => {
            let failure =
                json!({"failure_type": "unknown code", "count": 1, "description": "The code was not found."});
            json!({"failure_summary": [failure], "patch": patch(workload, request, prompt)})
        }
        Task::AnalyseSuccesses => {
            json!({"success_patterns": ["The code was found."], "patch": patch(workload, request, prompt)})
        }
        Task::Merge => merge(prompt),
        Task::Rank => rank(prompt),
        Task::Guide => json!({"reasoning": "", "slow_update_content": "- Look at each code twice."}),
        Task::Note => json!({"reasoning": "", "meta_skill_content": "- Single lines are followed."}),
    };
    reply.to_string()
}

/// The last message of the user.
fn prompt(body: &Value) -> &str {
    let messages = body.get("messages").and_then(Value::as_array);
    let mut users = messages
        .into_iter()
        .flatten()
        .rev()
        .filter(|message| message.get("role").is_some_and(|role| role == "user"));
    users.next().and_then(|message| message.get("content")?.as_str()).unwrap_or_default()
}

/// By the name of the schema; where the format has none, by the headings of the prompt.
fn task(body: &Value, prompt: &str) -> Task {
    let name = body.pointer("/response_format/json_schema/name").and_then(Value::as_str);
    match name {
        Some("analyst_error") => Task::AnalyseFailures,
        Some("analyst_success") => Task::AnalyseSuccesses,
        Some("merge") => Task::Merge,
        Some("ranking") => Task::Rank,
        Some("slow_update") => Task::Guide,
        Some("meta_skill") => Task::Note,
        _ if prompt.contains("\n# Present guidance\n") => Task::Guide,
        _ if prompt.contains("\n# Your present notes\n") => Task::Note,
        _ if prompt.contains("\n# Patches to merge (")
            || prompt.contains("\n# Patch groups to combine\n") =>
        {
            Task::Merge
        }
        _ if prompt.contains("\n# Edits\n") => Task::Rank,
        _ if prompt.contains("\n# Successful trajectories (") => Task::AnalyseSuccesses,
        _ => Task::AnalyseFailures,
    }
}

/// One line for the skill: an improvement, or words that are new and change nothing.
fn patch(workload: &Workload, request: &[u8], prompt: &str) -> Value {
    let skill = prompt.split_once("<skill>").and_then(|(_, rest)| rest.split_once("</skill>"));
    let skill = skill.map_or("", |(skill, _)| skill);
    let next = |marker| numbers(skill.as_bytes(), marker).last().map_or(1, |last| last.saturating_add(1));
    let note = hash(workload.seed, request);
    let content = if workload.improves(request) {
        // The number alone, so that two analysts of a step who find it find the same.
        let number = next(BETTER);
        format!("- {BETTER}{number}: look at the code in the item before you answer.")
    } else {
        format!("- Note {note:016x}: read the question twice.")
    };
    let edit = json!({"op": "append", "target": "", "content": content, "support_count": 1});
    json!({"reasoning": "one rule for what was seen", "edits": [edit]})
}

fn is_improvement(edit: &Value) -> bool {
    edit.get("content").and_then(Value::as_str).is_some_and(|content| content.contains(BETTER))
}

/// Only the improvements if there are any, else everything; what is said twice is said once.
fn merge(prompt: &str) -> Value {
    // In JSON no string holds a line break, so the last opening fence and the first closing one are the right ones.
    let json = prompt.rsplit_once("`json\n").and_then(|(_, rest)| rest.split_once("\n```"));
    let patches: Value = json.and_then(|(json, _)| serde_json::from_str(json).ok()).unwrap_or_default();
    let of_patch = |patch: &Value| patch.get("edits").and_then(Value::as_array).cloned().unwrap_or_default();
    let all: Vec<Value> = patches.as_array().into_iter().flatten().flat_map(of_patch).collect();
    let has_improvement = all.iter().any(is_improvement);
    let mut edits: Vec<Value> = Vec::new();
    for edit in all {
        let is_known = edits.iter().any(|known| known.get("content") == edit.get("content"));
        if !is_known && (is_improvement(&edit) || !has_improvement) {
            edits.push(edit);
        }
    }
    for edit in &mut edits {
        // The schema wants a count, and the prompt leaves out one that is not known.
        if edit.get("support_count").is_none_or(Value::is_null)
            && let Some(fields) = edit.as_object_mut()
        {
            fields.insert("support_count".to_owned(), 1.into());
        }
    }
    let no_change = edits.is_empty();
    json!({"reasoning": "improvements first, each once", "edits": edits, "no_change": no_change})
}

/// As many edits as were asked for, improvements first.
fn rank(prompt: &str) -> Value {
    let edits = prompt.rsplit_once("\n# Edits\n").map_or("", |(_, edits)| edits);
    let mut indices: Vec<(bool, u64)> = Vec::new();
    for line in edits.lines() {
        let read = || {
            let (index, edit) = line.strip_prefix('[')?.split_once("] ")?;
            let edit: Value = serde_json::from_str(edit).ok()?;
            Some((!is_improvement(&edit), index.parse().ok()?))
        };
        indices.extend(read());
    }
    indices.sort_unstable();
    let wanted = budget(prompt).unwrap_or(indices.len());
    let selected: Vec<u64> = indices.into_iter().take(wanted).map(|(_, index)| index).collect();
    json!({"reasoning": "improvements first", "selected_indices": selected})
}

/// How many edits are asked for.
fn budget(prompt: &str) -> Option<usize> {
    let (_, rest) = prompt.rsplit_once("\nChoose the ")?;
    rest.split_once(' ')?.0.parse().ok()
}
