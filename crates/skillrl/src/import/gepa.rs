//! A candidate of GEPA: texts by the name of their component.
//!
//! GEPA writes candidates as a mapping, as a list of mappings (`candidates.json` of its run directory), or in
//! `GEPAResult.to_dict()`, which has their scores too.

use super::Outcome;
use crate::error::ImportError;
use serde_json::{Map, Value};
use skill_core::SkillPackage;
use skill_core::member;
use skill_core::package::front_matter::name_of;
use skill_core::package::{MAIN_FILE, check_path, is_reference};

/// Names of components that are the instructions themselves, the likeliest first.
const MAIN_NAMES: [&str; 8] = [
    "skill.md",
    "skill",
    "system_prompt",
    "instructions",
    "instruction",
    "prompt",
    "main",
    "current_candidate",
];

/// The folder of the skill.
const SKILL_DIR: &str = "skill";

/// What `GEPAResult.to_dict()` holds besides its candidates.
const ABOUT_THE_SEARCH: &str = "is about the search of GEPA, not about the text that it found";

/// `document` is the file that a candidate of one text becomes; without it, and for several texts, it is a folder.
pub(super) fn import(
    value: &Value,
    asked: Option<usize>,
    document: Option<&str>,
) -> Result<Outcome, ImportError> {
    let mut outcome = Outcome::default();
    let candidate = chosen(value, asked, &mut outcome)?;
    let texts: Vec<(&str, &str)> = candidate
        .iter()
        .filter_map(|(name, text)| match text.as_str() {
            Some(text) => Some((name.as_str(), text)),
            None => {
                outcome.mapping.unmapped.push(super::Unmapped::new(name.as_str(), "", "is not a text"));
                None
            }
        })
        .collect();
    if texts.is_empty() {
        return Err(ImportError::Candidate { message: "the candidate holds no text".to_owned() });
    }
    let n_others = candidate.len() - texts.len();
    if n_others >= texts.len() {
        let message = format!(
            "the file holds no candidate: {n_others} of its {} members are not texts",
            candidate.len()
        );
        return Err(ImportError::Candidate { message });
    }
    let is_main = |wanted: &str| texts.iter().position(|(name, _)| name.eq_ignore_ascii_case(wanted));
    let main_idx = MAIN_NAMES.iter().find_map(|name| is_main(name)).unwrap_or_default();
    let mut package = SkillPackage::default();
    for (text_idx, (name, text)) in texts.iter().enumerate() {
        if text_idx == main_idx {
            (*text).clone_into(&mut package.main);
            outcome.mapping.map(*name, MAIN_FILE);
            continue;
        }
        let path = reference_path(name, &package);
        outcome.mapping.map(*name, path.as_str());
        package.references.insert(path, (*text).to_owned());
    }
    if !package.references.is_empty() {
        let reason = "GEPA puts each component where its program wants it; here the agent reads SKILL.md first, so say \
                      there when to read the others";
        outcome.mapping.lose("components", texts.len().to_string(), reason);
    }
    if let Err(fault) = package.document() {
        return Err(ImportError::Candidate { message: format!("the candidate cannot be a skill: {fault}") });
    }
    let files: Vec<(&str, Vec<u8>)> =
        package.files().map(|(path, bytes, _)| (path, bytes.to_vec())).collect();
    let place = |path: &str| match (document, files.len()) {
        (Some(document), 1) => document.to_owned(),
        (Some(document), _) => format!("{}/{path}", document.trim_end_matches(".md")),
        (None, _) => format!("{SKILL_DIR}/{path}"),
    };
    outcome.files = files.iter().map(|(path, bytes)| (place(path), bytes.clone())).collect();
    Ok(outcome)
}

/// The candidate that was asked for, or the best one.
fn chosen(
    value: &Value,
    asked: Option<usize>,
    outcome: &mut Outcome,
) -> Result<Map<String, Value>, ImportError> {
    let wrong = |message: String| ImportError::Candidate { message };
    let (candidates, scores) = match value {
        Value::Array(candidates) => (candidates, None),
        Value::Object(result) => match result.get("candidates") {
            Some(Value::Array(candidates)) => {
                for key in result.keys().filter(|key| *key != "candidates") {
                    outcome.mapping.unmapped.push(super::Unmapped::new(key.as_str(), "", ABOUT_THE_SEARCH));
                }
                (
                    candidates,
                    member::list(result, "val_aggregate_scores").map_err(|error| wrong(error.to_string()))?,
                )
            }
            Some(_) | None => return Ok(result.clone()),
        },
        Value::String(text) => {
            return Ok([("skill".to_owned(), Value::from(text.as_str()))].into_iter().collect());
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {
            return Err(wrong(
                "the file holds no candidate: neither texts by name nor a list of such".to_owned(),
            ));
        }
    };
    let number = match (asked, scores, candidates.as_slice()) {
        (Some(asked), ..) => asked,
        (None, _, [_]) => 0,
        (None, Some(scores), _) => best(scores)
            .map_err(wrong)?
            .ok_or_else(|| wrong(format!("none of the {} candidates has a score", candidates.len())))?,
        (None, None, _) => {
            return Err(wrong(format!(
                "there are {} candidates, and nothing says which is best",
                candidates.len()
            )));
        }
    };
    match candidates.get(number) {
        Some(Value::Object(candidate)) => {
            let others = candidates.len() - 1;
            if others > 0 {
                let plural = if others == 1 { "" } else { "s" };
                let reason = format!(
                    "candidate {number} was taken; {others} other{plural} can be had with --candidate"
                );
                outcome.mapping.lose("candidates", candidates.len().to_string(), reason);
            }
            Ok(candidate.clone())
        }
        Some(_) => Err(wrong(format!("candidate {number} is not texts by name"))),
        None => Err(wrong(format!("candidate {number} not found; the file has {}", candidates.len()))),
    }
}

/// The first of the highest scores; `null` is the score of a candidate that has none.
fn best(scores: &[Value]) -> Result<Option<usize>, String> {
    let mut best: Option<(usize, f64)> = None;
    for (number, value) in scores.iter().enumerate() {
        let Some(score) = value.as_f64() else {
            if value.is_null() {
                continue;
            }
            return Err(format!("the score of candidate {number} is {value}; expected a number"));
        };
        if best.is_none_or(|(_, highest)| score > highest) {
            best = Some((number, score));
        }
    }
    Ok(best.map(|(number, _)| number))
}

/// A path of its own for a component.
fn reference_path(name: &str, package: &SkillPackage) -> String {
    if is_reference(name) && check_path(name).is_ok() && !package.references.contains_key(name) {
        return name.to_owned();
    }
    let stem = name_of(name.strip_suffix(".md").unwrap_or(name));
    let stem = if stem.is_empty() { "component".to_owned() } else { stem };
    let numbered = std::iter::once(String::new()).chain((2..).map(|number| format!("-{number}")));
    numbered
        .map(|number| format!("references/{stem}{number}.md"))
        .find(|path| !package.references.contains_key(path))
        .expect("there are more numbers than references")
}
