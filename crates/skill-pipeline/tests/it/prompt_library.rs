//! The prompt library: what is built in, what replaces it, what is refused, and the reply schemas.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use serde_json::Value;
use skill_core::SourceType;
use skill_core::rewrite::UpdateMode;
use skill_pipeline::Protocol;
use skill_pipeline::prompts::schema::{
    analyst_schema, appendix_schema, budget_schema, merge_schema, meta_skill_schema, ranking_schema,
    rewrite_schema, slow_update_schema,
};
use skill_pipeline::prompts::{PromptLibrary, PromptLibraryError, PromptName, embedded_sources};
use std::collections::BTreeSet;
use std::error::Error as _;
use std::path::Path;

const SHORT: &str =
    "{% block system %}Choose.{% endblock %}{% block user %}{{ edit_budget }} of\n{{ edits }}{% endblock %}";

fn directory_of(files: &[(&str, &str)]) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    for (name, text) in files {
        std::fs::write(directory.path().join(name), text).unwrap();
    }
    directory
}

fn library() -> PromptLibrary {
    PromptLibrary::embedded().unwrap()
}

#[test]
fn what_is_built_in_is_valid() {
    library().validate().unwrap();
    let names: Vec<&str> = embedded_sources().iter().map(|(name, _)| *name).collect();
    assert_eq!(
        names,
        [
            "analyst_error",
            "propose",
            "analyst_success",
            "analyst_rewrite",
            "analyst_full_rewrite",
            "merge_failure",
            "merge_success",
            "merge_final",
            "merge_rewrite",
            "merge_full_rewrite",
            "lr_autonomous",
            "ranking",
            "ranking_rewrite",
            "rewrite_skill",
            "appendix_consolidate",
            "slow_update",
            "meta_skill"
        ]
    );
    for name in PromptName::ALL {
        assert_eq!(PromptName::parse(name.as_str()), Some(name));
        assert_eq!(library().template(name).source(), name.embedded_source());
        assert_eq!(name.file_name(), format!("{name}.md"));
    }
    assert_eq!(PromptName::parse("ranking.md"), None);
}

#[test]
fn the_copies_at_the_top_of_the_workspace_are_the_same() {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    if !workspace.join("xtask").exists() {
        // The packaged crate is alone.
        return;
    }
    for (name, source) in embedded_sources() {
        let copy = std::fs::read_to_string(workspace.join("prompts").join(format!("{name}.md"))).unwrap();
        assert_eq!(copy.replace("\r\n", "\n"), source.replace("\r\n", "\n"), "{name}");
    }
}

#[test]
fn every_prompt_says_what_a_reply_needs() {
    for (name, source) in embedded_sources() {
        let key = match name {
            "ranking" | "ranking_rewrite" => "selected_indices",
            "rewrite_skill" => "new_skill",
            "lr_autonomous" => "learning_rate",
            "appendix_consolidate" => "appendix_notes",
            "slow_update" => "slow_update_content",
            "meta_skill" => "meta_skill_content",
            _ => "support_count",
        };
        assert!(source.contains(key), "{name} does not explain {key}");
        if ["support_count", "new_skill"].contains(&key) {
            for marker in ["SLOW_UPDATE_START", "SLOW_UPDATE_END", "APPENDIX_START", "APPENDIX_END"] {
                assert!(source.contains(&format!("<!-- {marker} -->")), "{name} does not name {marker}");
            }
        }
    }
}

/// The JSON objects and lists in the examples can be read: a model copies their shape.
#[test]
fn the_examples_are_valid_json_of_the_reply_shape() {
    use UpdateMode::{FullRewriteMinibatch as Full, Patch, RewriteFromSuggestions as Suggest};
    let schemas = |protocol| {
        [
            analyst_schema(Patch, SourceType::Failure, false, Protocol::Paper),
            analyst_schema(Patch, SourceType::Failure, false, Protocol::Auto),
            analyst_schema(Patch, SourceType::Success, false, protocol),
            analyst_schema(Suggest, SourceType::Failure, false, protocol),
            analyst_schema(Full, SourceType::Success, false, protocol),
            merge_schema(Patch),
            merge_schema(Patch),
            merge_schema(Patch),
            merge_schema(Suggest),
            merge_schema(Full),
            budget_schema(),
            ranking_schema(),
            ranking_schema(),
            rewrite_schema(),
            appendix_schema(),
            slow_update_schema(),
            meta_skill_schema(),
        ]
    };
    for protocol in Protocol::ALL {
        assert_eq!(embedded_sources().len(), schemas(protocol).len());
        for ((name, source), schema) in embedded_sources().into_iter().zip(schemas(protocol)) {
            let replies: Vec<&str> = source.lines().filter(|line| line.starts_with("{\"")).collect();
            assert_eq!(replies.len(), 2, "{name}: a shape and an example");
            for reply in replies {
                let reply = said(reply, protocol);
                let reply: Value =
                    serde_json::from_str(&reply).unwrap_or_else(|error| panic!("{name}: {error}"));
                check_against(&schema.schema, &reply, name);
            }
        }
    }
}

/// A line of a prompt as it is said by a protocol: `{{ 'one' if planned else 'the other' }}` is one of both.
fn said(line: &str, protocol: Protocol) -> String {
    let mut parts = line.split("{{ '");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |said, part| {
        let (choice, rest) = part.split_once("' }}").unwrap();
        let (planned, other) = choice.split_once("' if planned else '").unwrap();
        said + if protocol == Protocol::Auto { planned } else { other } + rest
    })
}

/// As much of JSON schema as ours use; objects in strict style have all properties and no other.
#[track_caller]
fn check_against(schema: &Value, value: &Value, place: &str) {
    let kind = schema["type"].as_str().unwrap();
    match (kind, value) {
        ("object", Value::Object(fields)) => {
            let properties = schema["properties"].as_object().unwrap();
            let (known, found): (Vec<_>, Vec<_>) = (properties.keys().collect(), fields.keys().collect());
            assert_eq!(known, found, "{place}");
            assert_eq!(schema["additionalProperties"], Value::Bool(false), "{place}");
            assert_eq!(schema["required"], serde_json::json!(known), "{place}");
            for (key, field) in fields {
                check_against(&properties[key], field, &format!("{place}.{key}"));
            }
        }
        ("array", Value::Array(items)) => {
            items.iter().for_each(|item| check_against(&schema["items"], item, place));
        }
        ("string", Value::String(_)) => {
            let allowed = schema.get("enum").and_then(Value::as_array);
            assert!(allowed.is_none_or(|allowed| allowed.contains(value)), "{place}: {value}");
        }
        ("integer", Value::Number(number)) => assert!(number.is_u64(), "{place}"),
        ("boolean", Value::Bool(_)) => (),
        (kind, value) => panic!("{place}: {value} is no {kind}"),
    }
}

#[test]
fn planned_searches_take_failures_of_eight_types() {
    let schema = |protocol| analyst_schema(UpdateMode::Patch, SourceType::Failure, false, protocol).schema;
    let types = |schema: Value| {
        let summary = &schema["properties"]["failure_summary"]["items"]["properties"]["failure_type"];
        summary["enum"].as_array().map(Vec::len)
    };
    assert_eq!([Protocol::Paper, Protocol::Auto].map(|protocol| types(schema(protocol))), [None, Some(8)]);
}

#[test]
fn reply_schemas() {
    let schemas = [
        analyst_schema(UpdateMode::Patch, SourceType::Failure, false, Protocol::Paper),
        analyst_schema(UpdateMode::Patch, SourceType::Success, false, Protocol::Paper),
        merge_schema(UpdateMode::Patch),
        ranking_schema(),
        slow_update_schema(),
        meta_skill_schema(),
    ];
    insta::assert_snapshot!(serde_json::to_string_pretty(&schemas).unwrap());
}

#[test]
fn a_directory_replaces_the_prompts_that_it_has() {
    let directory = directory_of(&[
        ("ranking.md", SHORT),
        ("rollout_qa.md", "not ours"),
        ("notes.txt", "not a prompt"),
        (".#ranking.md", "an editor's"),
    ]);
    let library = library().with_directory(directory.path(), &["rollout_qa"]).unwrap();
    library.validate().unwrap();
    assert_eq!(library.template(PromptName::Ranking).source(), SHORT);
    let edits = [skill_core::Edit::append("- Be exact."), skill_core::Edit::append("- Be brief.")];
    let messages = library.ranking(&"# S".into(), &edits, 1).unwrap();
    insta::assert_snapshot!(format!("{}\n----\n{}", messages[0].text(), messages[1].text()));
    let changed: Vec<&str> = library
        .hashes()
        .into_iter()
        .filter(|(name, hash)| self::library().hashes()[name] != *hash)
        .map(|(name, _)| name)
        .collect();
    assert_eq!(changed, ["ranking"]);
    assert_ne!(library.fingerprint(), self::library().fingerprint());
}

#[test]
fn an_exported_directory_changes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    for (name, source) in embedded_sources() {
        std::fs::write(directory.path().join(format!("{name}.md")), source).unwrap();
    }
    let read = library().with_directory(directory.path(), &[]).unwrap();
    assert_eq!(read.fingerprint(), library().fingerprint());
}

#[test]
fn a_plain_text_is_the_system_message_of_its_prompt() {
    let directory = directory_of(&[("ranking.md", "Choose {{ well }}.")]);
    let library = library().with_directory(directory.path(), &[]).unwrap();
    library.validate().unwrap();
    let edits = [skill_core::Edit::append("- Be exact."), skill_core::Edit::append("- Be brief.")];
    let built_in = self::library().ranking(&"# S".into(), &edits, 1).unwrap();
    let messages = library.ranking(&"# S".into(), &edits, 1).unwrap();
    assert_eq!(messages[0].text(), "Choose {{ well }}.");
    assert_eq!(messages[1].text(), built_in[1].text());
}

#[test]
fn what_is_given_last_counts() {
    let other = SHORT.replace("Choose.", "Choose well.");
    let directory = directory_of(&[("ranking.md", SHORT)]);
    let library = library().with_override(PromptName::Ranking, &other).unwrap();
    assert_eq!(library.template(PromptName::Ranking).source(), other);
    let library = library.with_directory(directory.path(), &[]).unwrap();
    assert_eq!(library.template(PromptName::Ranking).source(), SHORT);
}

/// Loading `files` fails with a text that has all of `parts`; the directory's own path is written `DIR`.
#[track_caller]
fn check_directory_error(files: &[(&str, &str)], parts: &[&str]) {
    let directory = directory_of(files);
    let loaded = library().with_directory(directory.path(), &["rollout_qa.md"]);
    let error = match loaded {
        Err(error) => error,
        Ok(library) => library.validate().unwrap_err().into(),
    };
    check_error(&error, directory.path(), parts);
}

#[track_caller]
fn check_error(error: &PromptLibraryError, directory: &Path, parts: &[&str]) {
    let source = error.source().map(|source| format!(" | {source}")).unwrap_or_default();
    let text = format!("{error}{source}").replace(&directory.display().to_string(), "DIR").replace('\\', "/");
    for part in parts {
        assert!(text.contains(part), "no {part:?} in: {text}");
    }
}

#[test]
fn errors_name_the_file_and_what_to_do() {
    let check = check_directory_error;
    check(&[("analist_error.md", SHORT)], &["`DIR/analist_error.md`", "did you mean `analyst_error.md`?"]);
    check(&[("Ranking.md", SHORT)], &["did you mean `ranking.md`?"]);
    check(&[("merge.md", SHORT)], &["did you mean `merge_"]);
    check(&[("rollout_q.md", SHORT)], &["did you mean `rollout_qa.md`?"]);
    check(&[("README.md", SHORT)], &["no prompt is called like the file `DIR/README.md`"]);
    check(&[("ranking.MD", SHORT), ("raking.md", SHORT)], &["raking.md`: did you mean `ranking.md`?"]);
    check(&[("ranking.md", "{% block system %}{% endblock %}")], &["`DIR/ranking.md`", "block user"]);
    check(&[("ranking.md", "\n{% if %}")], &["`DIR/ranking.md`: line 2: "]);
    // An undefined variable is found by the validation, also where only some data reach it.
    check(&[("ranking.md", &SHORT.replace("edits", "edit_list"))], &["DIR/ranking.md", "undefined value"]);
    for condition in ["edit_budget == 1", "edit_budget > 1", "'empty' in skill", "'Be exact' in skill"] {
        let branch = format!("{{% if {condition} %}}{{{{ nothing }}}}{{% endif %}}{{{{ edits }}}}");
        check(&[("ranking.md", &SHORT.replace("{{ edits }}", &branch))], &["line 2: undefined value"]);
    }
}

#[test]
fn every_prompt_is_validated() {
    for name in PromptName::ALL {
        let source = SHORT.replace("edit_budget", "nothing");
        let library = library().with_override(name, &source).unwrap();
        let error = library.validate().unwrap_err();
        assert_eq!(error.prompt, format!("{name} of the environment"));
    }
    let error = library().with_override(PromptName::MergeFinal, "{{").unwrap_err();

    assert_eq!(error.prompt, "merge_final of the environment");
    assert!(error.message.starts_with("line 1: "), "{error}");
}

#[test]
fn a_directory_or_file_that_cannot_be_read_is_named() {
    let directory = directory_of(&[("file", "")]);
    for name in ["none", "file"] {
        let path = directory.path().join(name);
        let error = library().with_directory(&path, &[]).unwrap_err();
        assert!(matches!(error, PromptLibraryError::Directory { .. }), "{error}");
        check_error(&error, directory.path(), &[&format!("cannot read the prompt directory `DIR/{name}`")]);
    }
    std::fs::write(directory.path().join("ranking.md"), [0xc3, 0x28]).unwrap();
    let error = library().with_directory(directory.path(), &[]).unwrap_err();
    check_error(&error, directory.path(), &["cannot read the prompt file `DIR/ranking.md`", "UTF-8"]);
}

#[test]
fn passages_that_prompts_share_are_worded_alike() {
    #[track_caller]
    fn check(from: &str, to: &str, n_prompts: usize) {
        let passages: Vec<&str> = embedded_sources()
            .iter()
            .filter_map(|(_, source)| Some(source.split_once(from)?.1.split_once(to)?.0))
            .collect();
        assert_eq!(passages.len(), n_prompts, "{from:?}");
        assert_eq!(passages.into_iter().collect::<BTreeSet<_>>().len(), 1, "{from:?}");
    }
    check("\nA skill is ", "\n\n", 16);
    check("\n## Operations\n", "<!-- APPENDIX_END -->", 6);
    check("\n- the front matter ", "<!-- APPENDIX_END -->", 11);
    check("\n## Reply\n\n", "\n\n{", 17);
    check("\n`failure_type` ", "\n", 4);
}
