//! The shapes of the optimizer's replies, for providers that can enforce one.
//!
//! They keep to what OpenAI's strict mode takes: every object lists all of its properties as required and allows
//! no others. The properties are in the order in which a model should write them: the argument before the edits.

use crate::records::memory::FailureType;
use crate::settings::Protocol;
use serde_json::{Value, json};
use skill_core::autonomous::LEARNING_RATE;
use skill_core::rewrite::UpdateMode;
use skill_core::{EditOp, SourceType};
use skill_llm::ResponseSchema;

/// The reply of an analyst: what went wrong, or for successes what worked, and a patch.
///
/// `writes_notes` adds the notes for the appendix. In the rewriting modes there is one reply for both kinds of
/// trajectories.
pub fn analyst_schema(
    mode: UpdateMode,
    source: SourceType,
    writes_notes: bool,
    protocol: Protocol,
) -> ResponseSchema {
    let failures = || {
        list(object(vec![
            ("failure_type", failure_type(protocol)),
            ("count", integer()),
            ("description", string()),
        ]))
    };
    let (name, summary_key, summary) = match (mode, source) {
        (UpdateMode::Patch, SourceType::Failure) => ("analyst_error", "failure_summary", failures()),
        (UpdateMode::Patch, SourceType::Success) => ("analyst_success", "success_patterns", list(string())),
        (UpdateMode::RewriteFromSuggestions, _) => ("analyst_rewrite", "failure_summary", failures()),
        (UpdateMode::FullRewriteMinibatch, _) => ("analyst_full_rewrite", "failure_summary", failures()),
    };
    let proposed = match (mode, source, protocol) {
        (UpdateMode::Patch, SourceType::Failure, Protocol::Auto) => edit_for_tasks(),
        _ => proposal(mode),
    };
    let patch = object(vec![("reasoning", string()), (mode.key(), list(proposed))]);
    let notes = writes_notes.then(|| (APPENDIX_NOTES, list(string())));
    response(
        name,
        object([(summary_key, summary)].into_iter().chain(notes).chain([("patch", patch)]).collect()),
    )
}

/// The reply of a merge, final or not: a patch, and whether the skill should stay as it is.
pub fn merge_schema(mode: UpdateMode) -> ResponseSchema {
    let proposals = (mode.key(), list(proposal(mode)));
    let properties = vec![("reasoning", string()), proposals, ("no_change", json!({"type": "boolean"}))];
    response("merge", object(properties))
}

/// The reply of the ranking: indices of edits, the most important first.
pub fn ranking_schema() -> ResponseSchema {
    let properties = vec![("reasoning", string()), ("selected_indices", list(integer()))];
    response("ranking", object(properties))
}

/// The reply of a rewrite by suggestions.
pub fn rewrite_schema() -> ResponseSchema {
    let properties =
        vec![("reasoning", string()), ("change_summary", list(string())), ("new_skill", string())];
    response("rewrite_skill", object(properties))
}

/// The key of a reply that holds notes for the appendix.
pub(crate) const APPENDIX_NOTES: &str = "appendix_notes";

/// The reply of a consolidation: fewer notes.
pub fn appendix_schema() -> ResponseSchema {
    response("appendix_consolidate", object(vec![(APPENDIX_NOTES, list(string()))]))
}

/// The reply where the optimizer chooses the edit budget: a number of edits.
pub fn budget_schema() -> ResponseSchema {
    response("lr_autonomous", object(vec![("reasoning", string()), (LEARNING_RATE, integer())]))
}

/// The reply of a slow update: the guidance.
pub fn slow_update_schema() -> ResponseSchema {
    response("slow_update", object(vec![("reasoning", string()), ("slow_update_content", string())]))
}

/// The reply with the optimizer's own notes.
pub fn meta_skill_schema() -> ResponseSchema {
    response("meta_skill", object(vec![("reasoning", string()), ("meta_skill_content", string())]))
}

fn response(name: &str, schema: Value) -> ResponseSchema {
    ResponseSchema::new(name, schema)
}

/// What is proposed: an edit, a suggestion or a whole skill.
fn proposal(mode: UpdateMode) -> Value {
    let titled = |text: &'static str| {
        object(vec![("title", string()), (text, string()), ("support_count", integer())])
    };
    match mode {
        UpdateMode::Patch => edit(),
        UpdateMode::RewriteFromSuggestions => titled("instruction"),
        UpdateMode::FullRewriteMinibatch => titled("new_skill"),
    }
}

fn failure_type(protocol: Protocol) -> Value {
    match protocol {
        Protocol::Paper => string(),
        Protocol::Auto => json!({"type": "string", "enum": FailureType::ALL.map(FailureType::as_str)}),
    }
}

fn edit() -> Value {
    object(edit_properties())
}

/// An edit that names the tasks that it is for.
fn edit_for_tasks() -> Value {
    object(edit_properties().into_iter().chain([("for", list(string()))]).collect())
}

fn edit_properties() -> Vec<(&'static str, Value)> {
    let ops = [EditOp::Append, EditOp::InsertAfter, EditOp::Replace, EditOp::Delete];
    let names: Vec<&str> = ops.iter().map(EditOp::as_str).collect();
    vec![
        ("op", json!({"type": "string", "enum": names})),
        ("target", string()),
        ("content", string()),
        ("support_count", integer()),
    ]
}

fn object(properties: Vec<(&str, Value)>) -> Value {
    let required: Vec<&str> = properties.iter().map(|(name, _)| *name).collect();
    let properties: serde_json::Map<String, Value> =
        properties.iter().map(|(name, schema)| ((*name).to_owned(), schema.clone())).collect();
    json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
}

fn list(items: Value) -> Value {
    json!({"type": "array", "items": items})
}

fn string() -> Value {
    json!({"type": "string"})
}

fn integer() -> Value {
    json!({"type": "integer"})
}
