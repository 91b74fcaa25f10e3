//! What `skillrl train DATA` makes of answers and fields in the forms that files have them.

use crate::context::{Outcome, TestContext, code};
use crate::said::assert_names;
use serde_json::{Value, json};

/// What a dry run says of sixty rows with these fields.
fn dry_run(row: impl Fn(usize) -> Value, more: &[&str]) -> Outcome {
    let context = TestContext::new();
    let lines: String = (0..60).map(|n| format!("{}\n", row(n))).collect();
    context.write("rows.jsonl", &lines);
    context.run(&[&["train", "rows.jsonl", "--answer", "a", "--mock", "--dry-run"], more].concat())
}

fn body(n: usize) -> String {
    format!("This is the text of the case with the number {n}")
}

/// The settings that are guessed for answers like these.
#[track_caller]
fn check(answer: impl Fn(usize) -> Value, expect: &[&str]) {
    let outcome = dry_run(|n| json!({"body": body(n), "a": answer(n)}), &[]);
    outcome.assert_code(code::SUCCESS);
    assert_names(&outcome.stderr, expect);
}

#[test]
fn the_scorer_fits_all_answers() {
    let numeric = ["env.scorer = numeric"];
    check(|n| json!(format!("{},{}0", 38 + n, n % 10)), &numeric);
    check(|n| json!(format!("$ {}.50", 38 + n)), &numeric);
    check(|n| json!(format!("({n}.5)")), &numeric);
    check(|n| json!(format!("{n} kg")), &numeric);
    check(|n| json!(format!("{:05}", 1000 + 77 * n)), &["env.scorer = exact"]);
    check(|n| json!(if n == 0 { "7".to_owned() } else { format!("the city {n}") }), &["env.scorer = em_f1"]);
}

#[test]
fn a_field_that_rows_lack_is_an_empty_cell() {
    let row = |n: usize| match n % 3 {
        0 => json!({"body": body(n)}),
        1 => json!({"body": body(n), "subject": "My order with a subject", "a": "one"}),
        _ => json!({"body": body(n), "a": "two"}),
    };
    let outcome = dry_run(row, &["--input", "subject,body"]);
    outcome.assert_code(code::SUCCESS);
    let names =
        ["20 rows have no answer", "env.skip_unanswered = true", "env.type_field = a", "labels: 2 classes"];
    assert_names(&outcome.stderr, &names);
}

#[test]
fn null_is_empty_and_lists_and_objects_are_json_in_the_guessed_prompt() {
    let row = |n: usize| {
        let turns = json!([{"content": body(n), "urgent": null}]);
        let mut row =
            json!({"two words": null, "turns": turns, "a": if n.is_multiple_of(2) { "one" } else { "two" }});
        if n.is_multiple_of(2) {
            row["gone"] = Value::Null;
        }
        row
    };
    let outcome = dry_run(row, &["--input", "two words,gone,turns"]);
    outcome.assert_code(code::SUCCESS);
    assert_names(&outcome.stdout, &[r#"[{"content":"This is the text"#, r#","urgent":null}]"#]);
    assert!(!outcome.stdout.contains("None"), "{}", outcome.stdout);
}

#[test]
fn the_prompt_names_what_the_scorer_compares() {
    let list = |n: usize| {
        if n.is_multiple_of(2) { json!(["sales", "urgent"]) } else { json!("[\"billing\", \"late\"]") }
    };
    let named = "with commas between them, and nothing else: billing, late, sales, urgent";
    check(list, &["labels: 4 classes", "several labels belong to a row", named, "env.scorer = label_set"]);
    // Labels of one cell; one of them stands alone only.
    let cell = |n: usize| json!(["a, b", "b, a", "c", "c, b", "d"][n % 5]);
    check(cell, &["labels: 4 classes", "and nothing else: a, b, c, d", "env.scorer = label_set"]);
    check(
        |n: usize| json!(n.is_multiple_of(2)),
        &["labels: 2 classes", "nothing else: false, true", "env.scorer = exact"],
    );
    let outcome = dry_run(|n| json!({"body": body(n), "a": [format!("label {}", n % 3), "urgent"]}), &[]);
    outcome.fails(code::DATA, &["`urgent` is right in all 60 rows"]);
}

#[test]
fn a_file_that_is_neither_data_nor_a_configuration_is_told_what_is() {
    let context = TestContext::new();
    context.write("rows.csv.gz", "");
    context.write("rows.txt", "body,a\nb,c\n");
    std::fs::write(context.path("rows.csv"), b"\x1f\x8b\x08\0\0").unwrap();
    std::fs::write(context.path("export"), b"PK\x03\x04\x14").unwrap();
    for more in [&[][..], &["--answer", "a"]] {
        let run = |file: &str| context.run(&[&["train", file], more].concat());
        for (file, named) in [("rows.csv.gz", ".gz"), ("export", "ZIP"), ("rows.csv", "gzip")] {
            let outcome = run(file);
            assert_ne!(outcome.code, Some(code::SUCCESS));
            if file != "rows.csv" || !more.is_empty() {
                assert_names(&outcome.stderr, &[file, named, "unpack it first"]);
            }
        }
        run("rows.txt").fails(code::USAGE, &["rows.txt", ".jsonl", ".csv", ".xlsx"]);
    }
}

#[test]
fn a_command_that_fails_leaves_the_configuration_of_the_one_before() {
    let context = TestContext::new();
    let row = |n: usize| json!({"body": body(n), "a": (["red", "green", "blue"][n % 3])});
    context.write("rows.jsonl", &(0..60).map(|n| format!("{}\n", row(n))).collect::<String>());
    let train = ["train", "rows.jsonl", "--answer", "a", "--mock", "--yes", "--quiet"];
    context.run(&[&train[..], &["--out", "runs/first"]].concat());
    let before = context.read("skillrl.toml");
    assert!(before.contains("runs/first"), "{before}");
    context.run(&[&train[..], &["--skill", "nope.md"]].concat()).assert_code(code::USAGE);
    assert_eq!(context.read("skillrl.toml"), before);
}
