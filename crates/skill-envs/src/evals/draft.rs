//! A first set of cases, written by a model: nothing uses them before a person has reviewed them.
//!
//! Main functions: [`draft_prompt`], [`drafted`].

use super::check_form;
use super::fixture::{check_path, without_dots};
use serde_json::{Map, Value, json};
use skill_core::SkillPackage;
use skill_core::json::extract_answer;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// Characters of the skill's text that the model is shown.
const MAX_BODY_CHARS: usize = 12_000;
/// Files of the skill that are named to it.
const MAX_NAMES: usize = 60;
/// The most bytes of one input file that it may write.
const MAX_FILE_BYTES: usize = 64 << 10;

/// What a model has drafted.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Draft {
    /// The cases as JSON objects, each a draft.
    pub cases: Vec<Value>,
    /// The texts of their input files, by the paths that the cases name.
    pub files: BTreeMap<String, String>,
    /// Why others are left out, one line each.
    pub left_out: Vec<String>,
}

/// A case and its input files.
type Drafted = (Map<String, Value>, BTreeMap<String, String>);

/// Asks for `n` cases of a skill.
pub fn draft_prompt(name: &str, skill: &SkillPackage, n: usize) -> String {
    let body: String = skill.body().chars().take(MAX_BODY_CHARS).collect();
    let mut text = format!(
        "Write {n} test cases for the skill {name:?} of a coding agent. They measure whether the agent's work is better \
         with the skill than without: each is run in a fresh project with the skill and without it.\n\n# Skill\n\n{}\n\n{}\n",
        skill.front_matter().unwrap_or_default().trim(),
        body.trim_end(),
    );
    let names: Vec<&str> = skill.files().map(|(path, ..)| path).filter(|path| *path != "SKILL.md").collect();
    if !names.is_empty() {
        text.push_str("\nIts other files:\n");
        names.iter().take(MAX_NAMES).for_each(|name| {
            let _ = writeln!(text, "- {name}");
        });
    }
    text.push_str(
        "\n# Cases\n\nEach case is a task that a person would ask for, with what the task needs and without advice on how to \
         do it: name neither the skill nor its files, steps or rules. Most are everyday tasks, some have unusual input.\n\n\
         Each case has checks of the result. A check must fail if nothing was done, must pass for every good result \
         however it was made, and must not ask for wording. Prefer files and commands to sentences:\n\
         - {\"type\": \"file\", \"path\": \"out.txt\", \"contains\": \"..\"}, or \"matches\" with a regular expression, \"equals\", \
         \"exists\"\n\
         - {\"type\": \"command\", \"command\": \"python3 check.py\", \"files\": {\"check.py\": \"..\"}, \"exit_code\": 0}\n\
         - {\"type\": \"reply\", \"matches\": \"..\"} for the agent's last reply\n\
         - a sentence, which a model judges by the files and the reply\n\n\
         Reply with one JSON object per line and nothing else:\n\
         {\"id\": \"short-name\", \"prompt\": \"what the person types\", \"files\": {\"input.csv\": \"its text\"}, \
         \"expected_output\": \"what a good result is\", \"checks\": [..]}\n\
         Names of input files differ between cases.\n",
    );
    text
}

/// The cases in a model's reply; what cannot be a case is left out with the reason.
pub fn drafted(reply: &str) -> Draft {
    let mut draft = Draft::default();
    let mut ids = BTreeSet::new();
    for (idx, value) in objects(reply).into_iter().enumerate() {
        match case(&value, &draft.files) {
            Ok((mut case, files)) => {
                let id = case.get("id").and_then(Value::as_str).unwrap_or_default().to_owned();
                let id = if id.is_empty() || ids.contains(&id) { format!("draft-{}", idx + 1) } else { id };
                case.insert("id".to_owned(), json!(id));
                ids.insert(id);
                draft.files.extend(files);
                draft.cases.push(Value::Object(case));
            }
            Err(why) => draft.left_out.push(format!("case {}: {why}", idx + 1)),
        }
    }
    draft
}

/// The objects of a reply: one for each line, or those of a list.
fn objects(reply: &str) -> Vec<Value> {
    let lines = reply.lines().map(|line| line.trim().trim_end_matches(','));
    let lines: Vec<Value> = lines
        .filter(|line| line.starts_with('{'))
        .filter_map(|line| serde_json::from_str(line).ok())
        // In pretty-printed JSON, a check can be an object on a line of its own.
        .filter(|value: &Value| value.get("prompt").is_some())
        .collect();
    if !lines.is_empty() {
        return lines;
    }
    let is_cases = |value: &Value| match value {
        Value::Array(list) => list.iter().any(Value::is_object),
        Value::Object(fields) => fields.contains_key("evals") || fields.contains_key("prompt"),
        _ => false,
    };
    match extract_answer(reply, is_cases).map(|answer| answer.value) {
        Some(Value::Array(list)) => list,
        Some(Value::Object(fields)) => match fields.get("evals").and_then(Value::as_array) {
            Some(list) => list.clone(),
            None => vec![Value::Object(fields)],
        },
        Some(_) | None => Vec::new(),
    }
}

/// One case and its files, or why it cannot be one.
fn case(value: &Value, known: &BTreeMap<String, String>) -> Result<Drafted, String> {
    let fields = value.as_object().ok_or("is not an object")?;
    let text = |name: &str| fields.get(name).and_then(Value::as_str).unwrap_or_default().trim().to_owned();
    let prompt = text("prompt");
    if prompt.is_empty() {
        return Err("has no text in `prompt`".to_owned());
    }
    let checks = fields.get("checks").or_else(|| fields.get("expectations")).and_then(Value::as_array);
    let checks = checks.filter(|checks| !checks.is_empty()).ok_or("has no checks")?;
    for (idx, check) in checks.iter().enumerate() {
        check_form::check(check).map_err(|what| format!("check {} {what}", idx + 1))?;
    }
    let mut files = BTreeMap::new();
    for (path, content) in fields.get("files").and_then(Value::as_object).into_iter().flatten() {
        check_path(path)?;
        let content = content.as_str().ok_or_else(|| format!("the file {path:?} has no text"))?;
        if content.len() > MAX_FILE_BYTES {
            return Err(format!("the file {path:?} has more than {MAX_FILE_BYTES} bytes"));
        }
        let path = format!("files/{}", without_dots(path));
        if known.get(&path).is_some_and(|known| known != content) {
            return Err(format!("another case has other text in {path:?}"));
        }
        files.insert(path, content.to_owned());
    }
    let mut case = Map::new();
    case.insert("id".to_owned(), json!(text("id")));
    case.insert("reviewed".to_owned(), json!(false));
    case.insert("prompt".to_owned(), json!(prompt));
    let expected = text("expected_output");
    if !expected.is_empty() {
        case.insert("expected_output".to_owned(), json!(expected));
    }
    if !files.is_empty() {
        case.insert("files".to_owned(), json!(files.keys().collect::<Vec<_>>()));
    }
    case.insert("checks".to_owned(), json!(checks));
    Ok((case, files))
}

#[cfg(test)]
mod tests {
    use super::{draft_prompt, drafted};
    use crate::evals::CaseSet;
    use serde_json::json;
    use skill_core::{SkillDoc, SkillPackage};

    #[test]
    fn the_prompt_has_the_skill_and_not_its_cases() {
        let skill = SkillDoc::new("---\nname: adding\ndescription: Adds.\n---\n# Adding\n\nAdd it up.\n");
        let text = draft_prompt("adding", &SkillPackage::of(&skill), 8);
        for part in ["8 test cases", "description: Adds.", "Add it up.", "\"checks\""] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    /// Whatever form a reply has, its sound cases are drafts that can be read back.
    #[test]
    fn sound_cases_of_a_reply_are_drafts_and_others_are_left_out() {
        let sound = json!({"id": "sum", "prompt": "Add up in.csv.", "files": {"in.csv": "1\n2\n"},
            "checks": [{"type": "file", "path": "out.txt", "contains": "3"}]});
        let twice = json!({"id": "sum", "prompt": "Count.", "checks": ["The count is right"]});
        let bare = json!({"id": "bare", "prompt": "Do."});
        let other = json!({"prompt": "Add.", "files": {"in.csv": "9"}, "checks": ["It is right"]});
        let outside = json!({"prompt": "Add.", "files": {"../x": "9"}, "checks": ["It is right"]});
        let lines = [&sound, &twice, &bare, &other, &outside].map(ToString::to_string).join("\n");
        let draft = drafted(&format!("Here they are:\n{lines}\nThat is all."));
        let ids: Vec<_> = draft.cases.iter().map(|case| case["id"].as_str().unwrap()).collect();
        assert_eq!((ids, draft.left_out.len()), (vec!["sum", "draft-2"], 3), "{:?}", draft.left_out);
        assert_eq!(draft.files, [("files/in.csv".to_owned(), "1\n2\n".to_owned())].into());
        for list in [json!([sound]), json!({"evals": [sound]})] {
            assert_eq!(drafted(&format!("```json\n{list:#}\n```")).cases.len(), 1, "{list}");
        }
        assert_eq!(drafted("I cannot do that."), super::Draft::default());

        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("files")).unwrap();
        for (path, text) in &draft.files {
            std::fs::write(dir.path().join(path), text).unwrap();
        }
        let path = dir.path().join("evals.json");
        std::fs::write(&path, json!({"evals": draft.cases}).to_string()).unwrap();
        let set = CaseSet::read(&path).unwrap();
        assert_eq!(set.drafts(), ["sum", "draft-2"]);
        assert_eq!(set.cases[0].files.keys().collect::<Vec<_>>(), ["in.csv"]);
    }
}
