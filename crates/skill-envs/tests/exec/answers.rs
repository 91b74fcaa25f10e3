//! What a program may write for a score, and how what is none is named.

use skill_envs::exec::protocol::{RolloutAnswer, body, header};

fn read(fields: &str) -> Result<RolloutAnswer, String> {
    let line = format!("{{\"id\": 1, {fields}}}");
    assert_eq!(header(line.as_bytes()).map(|header| header.id).ok(), Some(Some(1)), "{line}");
    body(line.as_bytes()).map_err(|error| error.to_string())
}

#[test]
fn a_score_is_a_number_or_whether_the_task_is_solved() {
    for (fields, hard) in [
        ("\"hard\": 1", Some(1.0)),
        ("\"hard\": 0.25", Some(0.25)),
        ("\"hard\": true", Some(1.0)),
        ("\"hard\": false", Some(0.0)),
        ("\"hard\": null", None),
        ("\"answer\": \"x\"", None),
        ("\"hard\": 1, \"extras\": {\"loss\": NaN, \"text\": \"a \\\"NaN\\\" b\"}", Some(1.0)),
    ] {
        assert_eq!(read(fields).unwrap().hard, hard, "{fields}");
    }
    let text = read("\"hard\": 1, \"reason\": \"NaN \\\\\\\" Infinity\"").unwrap().reason;
    assert_eq!(text, "NaN \\\" Infinity");
}

#[test]
fn what_is_no_score_is_named_with_its_field() {
    for (fields, named) in [
        ("\"hard\": NaN", ["`hard`", "NaN"]),
        ("\"hard\": 1, \"soft\": -Infinity", ["`soft`", "-Infinity"]),
        ("\"hard\": \"yes\"", ["`hard`", "a string"]),
        ("\"hard\": [1]", ["`hard`", "number"]),
        ("\"hard\": 1, \"reason\": 7", ["`reason`", "string"]),
        ("\"hard\": 1, \"n_turns\": NaN", ["`n_turns`", "NaN"]),
        ("\"hard\": 1, \"usage\": {\"input\": \"x\"}", ["`usage", "u64"]),
        ("\"hard\": 1, \"conversation\": [{\"role\": \"robot\"}]", ["conversation[0]", "robot"]),
        ("\"hrad\": 1", ["hrad", "unknown field"]),
    ] {
        let error = read(fields).unwrap_err();
        assert!(named.iter().all(|part| error.contains(part)), "{fields}: {error}");
    }
}
