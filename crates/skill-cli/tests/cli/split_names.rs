//! The splits that the names of files say: nothing of a test split is trained on.

use crate::context::{Outcome, TestContext, code};
use crate::said::assert_names;
use crate::server::{Server, reply};
use crate::train_data::QUEUES;

/// Tickets as CSV, from one number to another.
fn tickets(from: usize, to: usize) -> String {
    let row = |n: usize| format!("{} in order {n} of May,{}\n", QUEUES[n % 3].1, QUEUES[n % 3].0);
    format!("body,queue\n{}", (from..to).map(row).collect::<String>())
}

fn plan(context: &TestContext, data: &str, more: &[&str]) -> Outcome {
    context.run(&[&["train", data, "--answer", "queue", "--mock", "--dry-run"], more].concat())
}

#[test]
fn a_file_that_is_a_test_split_by_its_name_is_not_trained_on_unasked() {
    for name in ["test.csv", "gsm8k_test.csv", "test-00000-of-00001.csv", "Tickets-Holdout.csv"] {
        let context = TestContext::new();
        context.write(name, &tickets(0, 40));
        plan(&context, name, &[]).fails(code::DATA, &["test split", "--yes"]);
        let agreed = plan(&context, name, &["--yes"]);
        assert_eq!(agreed.code, Some(code::SUCCESS), "{}", agreed.stderr);
    }
    for name in ["tests.csv", "latest.csv", "train.csv", "dev.csv", "contest_results.csv"] {
        let context = TestContext::new();
        context.write(name, &tickets(0, 40));
        plan(&context, name, &[]).assert_code(code::SUCCESS);
    }
}

#[test]
fn a_file_that_is_a_test_split_is_measured_whole() {
    let (context, server) = (TestContext::new(), Server::start());
    server.answer_with(|_, _| reply("billing", "stop"));
    let url = server.address();
    for (name, n_calls) in [("test.csv", 40), ("tickets.csv", 13)] {
        context.write(name, &tickets(0, 40));
        let before = server.n_calls();
        context.succeed(&["eval", name, "--answer", "queue", "--model", "m", "--base-url", &url]);
        assert_eq!(server.n_calls() - before, n_calls, "{name}");
    }
}

#[test]
fn parts_have_the_names_that_people_give_them() {
    #[track_caller]
    fn check(files: &[(&str, usize, usize)], names: &[&str]) {
        let context = TestContext::new();
        files.iter().for_each(|(name, from, to)| context.write(&format!("set/{name}"), &tickets(*from, *to)));
        let outcome = plan(&context, "set", &[]);
        assert_eq!(outcome.code, Some(code::SUCCESS), "{files:?}: {}", outcome.stderr);
        assert_names(&format!("{}{}", outcome.stdout, outcome.stderr), names);
    }
    check(&[("train.csv", 0, 40), ("test.csv", 40, 60)], &["20 train, 20 val, 20 test"]);
    check(&[("train/a.csv", 0, 40), ("holdout/b.csv", 40, 60)], &["20 train, 20 val, 20 test"]);
    check(&[("Train.csv", 0, 30), ("Dev.csv", 30, 50), ("Tickets-Test.csv", 50, 70)], &["30 train"]);
    // Without a test split, a run ends with the validation score.
    check(&[("train.csv", 0, 40), ("dev.csv", 40, 60)], &["40 train, 20 val, 0 test", "eval.test = false"]);
    check(
        &[("train.csv", 0, 30), ("validation_matched.csv", 30, 50), ("test_matched.csv", 50, 70)],
        &["30 train, 20 val, 20 test"],
    );
    // A folder without data of its own is something else.
    let context = TestContext::new();
    context.write("set/train.csv", &tickets(0, 40));
    context.write("set/test.csv", &tickets(40, 60));
    context.write("set/eval/run.py", "print(1)\n");
    plan(&context, "set", &[]).assert_code(code::SUCCESS);
}

#[test]
fn files_of_one_name_in_two_splits_have_ids_of_their_own() {
    let context = TestContext::new();
    context.write("set/train/a.csv", &tickets(0, 40));
    context.write("set/test/a.csv", &tickets(40, 60));
    context.write("set/val/a.csv", &tickets(60, 80));
    let outcome = plan(&context, "set", &[]);
    assert_eq!(outcome.code, Some(code::SUCCESS), "{}", outcome.stderr);
    assert_names(&format!("{}{}", outcome.stdout, outcome.stderr), &["40 train, 20 val, 20 test"]);
    // The same file in two formats is not the same id either.
    let context = TestContext::new();
    context.write("set/a.csv", &tickets(0, 40));
    context.write("set/a.tsv", &tickets(40, 80).replace(',', "\t"));
    plan(&context, "set", &[]).assert_code(code::SUCCESS);
}

#[test]
fn what_is_not_read_beside_the_parts_is_named() {
    let set = |more: &[(&str, &str)]| {
        let context = TestContext::new();
        context.write("set/train.csv", &tickets(0, 40));
        more.iter().for_each(|(name, text)| context.write(&format!("set/{name}"), text));
        context
    };
    let rows = tickets(40, 60);
    for name in ["extra.csv", "more/extra.csv"] {
        let context = set(&[("test.csv", &rows), (name, &rows)]);
        let outcome = plan(&context, "set", &[]);
        outcome.assert_code(code::SUCCESS);
        let named = name.split('/').next().unwrap();
        assert!(outcome.stderr.contains(&format!(": {named}")), "{}", outcome.stderr);
    }
    let context = set(&[("test.csv", &rows), ("dataset_infos.json", "{}"), ("README.md", "# Set")]);
    let outcome = plan(&context, "set", &[]);
    outcome.assert_code(code::SUCCESS);
    assert!(!outcome.stderr.contains("dataset_infos"), "{}", outcome.stderr);
    // A part that has to be unpacked is none of the others.
    for name in ["test.csv.gz", "test-00000-of-00001.csv.zip", "gsm8k_test.jsonl.zst"] {
        plan(&set(&[(name, "x")]), "set", &[]).fails(code::DATA, &[name]);
    }
    // It may lie unpacked beside it.
    plan(&set(&[("test.csv.gz", "x"), ("test.csv", &rows)]), "set", &[]).assert_code(code::SUCCESS);
}
