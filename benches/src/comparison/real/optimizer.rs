//! The scripted optimizer of real tasks: it adds planted lines that the skill lacks, and now and then takes one out.

use super::RealTasks;
use super::planted::Planted;
use crate::generator::patches;
use crate::generator::prompt::{Form, Parts};
use crate::generator::stream::Stream;
use serde_json::{Value, json};
use skill_core::random::Dice;

/// How often a reply takes a line out instead of adding one.
const DELETES: f64 = 0.2;
/// How often a reply has two edits.
const SECOND: f64 = 0.4;
/// How often a line that failed before is left alone.
const HEEDS: f64 = 0.7;

enum Edit {
    Add(&'static str),
    Delete(String),
}

pub(super) fn reply(tasks: &RealTasks, seed: u64, user: &str, number: u32) -> String {
    if let Some(reply) = patches::reply(user) {
        return reply;
    }
    let parts = Parts::read(user);
    let mut stream = Stream::new(Dice::new(seed, &["real optimizer", user, &number.to_string()]));
    let edits = edits(tasks.task.planted(), &parts, &mut stream);
    match parts.form {
        Form::Text => new_text(parts.skill, &edits),
        Form::Edits => {
            let shown = tasks.splits()[0].1.iter().filter_map(|row| row["id"].as_str());
            let shown: Vec<&str> = shown.filter(|id| parts.body.contains(*id)).collect();
            let named: Vec<&str> = shown.into_iter().filter(|_| stream.chance(0.5)).collect();
            as_json(&edits, &named)
        }
    }
}

fn edits(planted: &[Planted], parts: &Parts<'_>, stream: &mut Stream) -> Vec<Edit> {
    let present: Vec<&str> =
        parts.skill.lines().filter(|line| planted.iter().any(|(_, text)| line.contains(text))).collect();
    if !present.is_empty() && stream.chance(DELETES) {
        let line = present.get(stream.below(present.len())).copied().unwrap_or_default();
        return vec![Edit::Delete(line.trim().to_owned())];
    }
    let mut free: Vec<&'static str> =
        planted.iter().map(|(_, text)| *text).filter(|text| !parts.skill.contains(text)).collect();
    free.retain(|text| !parts.memory.contains(text) || !stream.chance(HEEDS));
    let n = 1 + usize::from(stream.chance(SECOND));
    let mut edits = Vec::new();
    for _ in 0..n.min(parts.most_edits()) {
        if free.is_empty() {
            break;
        }
        edits.push(Edit::Add(free.swap_remove(stream.below(free.len()))));
    }
    edits
}

fn new_text(skill: &str, edits: &[Edit]) -> String {
    let mut lines: Vec<String> = skill.lines().map(str::to_owned).collect();
    for edit in edits {
        match edit {
            Edit::Add(text) => lines.push(format!("- {text}")),
            Edit::Delete(line) => lines.retain(|other| other.trim() != line),
        }
    }
    format!("```\n{}\n```", lines.join("\n"))
}

fn as_json(edits: &[Edit], named: &[&str]) -> String {
    let json = |edit: &Edit| -> Value {
        let (op, target, content) = match edit {
            Edit::Add(text) => ("append", "", format!("- {text}")),
            Edit::Delete(line) => ("delete", line.as_str(), String::new()),
        };
        json!({"op": op, "target": target, "content": content, "support_count": 1, "for": named})
    };
    let edits: Vec<Value> = edits.iter().map(json).collect();
    let patch = json!({"reasoning": "a line that may help", "edits": edits});
    json!({"failure_summary": [], "success_patterns": [], "patch": patch}).to_string()
}

#[cfg(test)]
mod tests {
    use super::super::planted::RealTask;
    use super::*;

    fn edits_of(user: &str, number: u32) -> Vec<String> {
        let mut stream = Stream::new(Dice::new(1, &["test", &number.to_string()]));
        let edits = edits(RealTask::ChainSum.planted(), &Parts::read(user), &mut stream);
        let text = |edit| match edit {
            Edit::Add(text) => format!("+{text}"),
            Edit::Delete(line) => format!("-{line}"),
        };
        edits.into_iter().map(text).collect()
    }

    #[test]
    fn lines_that_the_skill_has_are_taken_out_and_others_added() {
        let [(_, first), (_, second), ..] = RealTask::ChainSum.planted() else { panic!() };
        let user = format!("<skill>\n- {first}\n- {second}\n</skill>\nAt most 1 edit.");
        let all: Vec<String> = (0..60).flat_map(|number| edits_of(&user, number)).collect();
        assert_eq!(all.len(), 60, "the budget is kept");
        let n_deleted = all.iter().filter(|edit| edit.starts_with('-')).count();
        assert!((5..20).contains(&n_deleted), "{n_deleted}");
        assert!(
            all.iter().all(|edit| edit.starts_with('-') == (edit.contains(first) || edit.contains(second)))
        );
    }

    #[test]
    fn what_failed_is_mostly_left_alone() {
        let planted = RealTask::ChainSum.planted();
        let memory: String = planted.iter().skip(1).map(|(_, text)| format!("- Tried {text}\n")).collect();
        let user = format!("<skill>\n# Arithmetic\n</skill>\n<memory>\n{memory}\n</memory>\nAt most 1 edit.");
        let heeded = (0..100).flat_map(|number| edits_of(&user, number));
        let n_new = heeded.filter(|edit| edit.contains(planted[0].1)).count();
        assert!(n_new > 15, "{n_new} of 100; 8 by chance");
    }
}
