//! Class labels: what `env check` and `doctor` doubt before a run, and what the report shows of classes after it.

use crate::context::{TestContext, code, parsed};
use crate::said::assert_names;
use crate::server::Server;
use crate::train_data::{QUEUES, answer};
use serde_json::{Value, json};

/// Whether a ticket is about billing and labelled as another queue.
fn is_mislabelled(number: usize) -> bool {
    number % 9 == 4
}

/// Sixty tickets; some have the text of one queue and the label of another one.
fn tickets(last_rows: &str) -> String {
    let row = |number: usize| {
        let (queue, text) = QUEUES[number % 3];
        let text = if is_mislabelled(number) { QUEUES[0].1 } else { text };
        format!("T-{number},\"{text}, order {number}\",{queue}\n")
    };
    let rows: String = (0..60).map(row).collect();
    format!("id,body,queue\n{rows}{last_rows}")
}

fn trained(data: &str) -> TestContext {
    trained_saying(data).0
}

/// A trained directory, and what was said before anything was sent.
fn trained_saying(data: &str) -> (TestContext, String) {
    let (context, server) = (TestContext::new(), Server::start());
    server.answer_with(answer);
    context.write("tickets.csv", data);
    let url = server.address();
    let models = ["--target", "target", "--optimizer", "optimizer", "--base-url", &url];
    let args = [&["train", "tickets.csv", "--answer", "queue"], &models[..]].concat();
    let outcome = context.run(&args);
    outcome.assert_code(code::SUCCESS);
    (context, outcome.stderr.clone())
}

#[test]
fn the_report_shows_classes_confusions_and_doubtful_labels() {
    let context = trained(&tickets(""));
    let report = context.succeed_json(&["report", "--json", "runs/tickets"]);
    let classes = &report["classes"];
    assert_eq!(
        (&classes["split"], &classes["after"]["labels"]),
        (&json!("test"), &json!(["billing", "refund", "shipping"]))
    );
    let rows = classes["rows"].as_array().unwrap();
    let n_test: u64 = rows.iter().map(|row| row["n"].as_u64().unwrap()).sum();
    assert_eq!(n_test, report["headline"]["test"]["n"].as_u64().unwrap());
    let refund = rows.iter().find(|row| row["label"] == "refund").unwrap();
    assert_eq!(
        (&refund["before"], &refund["after"], &refund["precision"]),
        (&json!(0.0), &json!(1.0), &json!(1.0))
    );
    // With the first skill a refund got an answer that is not a label.
    assert_eq!(classes["before"]["rows"][1], json!([0, 0, 0, refund["n"]]));
    // Several items with one label and one other answer are a rule that is missing, and none of them is doubtful.
    let [rule] = classes["missing_rules"].as_array().unwrap().as_slice() else { panic!("{classes}") };
    assert_eq!((&rule["label"], &rule["answered"]), (&json!("shipping"), &json!("billing")));
    for id in rule["examples"].as_array().unwrap() {
        let number: usize = id.as_str().unwrap().trim_start_matches("T-").parse().unwrap();
        assert!(is_mislabelled(number), "{id}");
    }
    assert_eq!(classes["doubtful"], json!([]));
    let said = context.succeed(&["report", "runs/tickets", "--doubtful", "doubtful.csv"]);
    assert_names(&said, &["shipping answered as billing"]);
    assert_eq!(context.read("doubtful.csv").lines().count(), 1);
    let page = context.read("runs/tickets/report.html");
    assert_names(&page, &["<h2 id=\"classes\">", "<table class=\"matrix\">", "<h3 id=\"missing-rules\">"]);
}

#[test]
fn a_report_of_a_run_without_class_labels_has_no_classes() {
    let rows: String = (0..60).map(|number| format!("\"What is {number}?\",answer {number}\n")).collect();
    let (context, server) = (TestContext::new(), Server::start());
    server.answer_with(answer);
    context.write("data.csv", &format!("question,answer\n{rows}"));
    let args = ["train", "data.csv", "--model", "m", "--base-url", &server.address(), "--yes"];
    context.run(&args).assert_code(code::SUCCESS);
    assert_eq!(context.succeed_json(&["report", "--json", "runs/data"])["classes"], Value::Null);
    assert!(!context.read("runs/data/report.html").contains("id=\"classes\""));
    assert_eq!(context.succeed_json(&["env", "check", "--json"]).get("labels"), None);
}

#[test]
fn misspelt_contradicting_and_rare_labels_are_named_before_a_run() {
    let (context, said) = trained_saying(&tickets(
        "T-90,\"Charged twice, order 3\",biling\nT-91,\"Charged twice, order 3\",billing\n",
    ));
    // The pair is said once, beside what conflicts.
    let warned = said.lines().filter(|line| line.starts_with("warning: ") && line.contains("`biling` (1 "));
    assert_eq!(warned.count(), 1, "{said}");
    let labels = &context.succeed_json(&["env", "check", "--json"])["labels"];
    let classes = labels["classes"].as_array().unwrap();
    let n_items: u64 = classes
        .iter()
        .flat_map(|class| ["train", "val", "test"].map(|split| class[split].as_u64().unwrap()))
        .sum();
    assert_eq!((classes.len(), n_items), (4, 62));
    let similar = labels["similar"].as_array().unwrap();
    assert_eq!(similar.len(), 1);
    assert_eq!((&similar[0]["rare"], &similar[0]["usual"]), (&json!("biling"), &json!("billing")));
    let conflicts = labels["conflicts"].as_array().unwrap();
    let ids: Vec<&str> = conflicts
        .iter()
        .flat_map(|pair| ["first", "second"].map(|of| pair[of]["id"].as_str().unwrap()))
        .collect();
    assert!(!conflicts.is_empty() && ids.contains(&"T-90"), "{ids:?}");

    let found = context.run(&["doctor", "--json", "--offline"]);
    let findings = parsed(&found.stdout);
    let of_labels =
        findings["findings"].as_array().unwrap().iter().filter(|finding| finding["check"] == "labels");
    // One warning for the misspelled class, which is not reported as missing from a split too, and one for the
    // contradiction.
    assert_eq!(of_labels.filter(|finding| finding["status"] == "warning").count(), 2, "{findings}");
    let shown = context.succeed(&["env", "check"]);
    assert!(shown.contains("`biling`") && shown.contains("T-90"), "{shown}");
}

#[test]
fn a_misspelt_label_is_folded_by_the_option_that_the_warning_names() {
    let (context, said) = trained_saying(&tickets(
        "T-90,\"Charged twice, order 99\",biling\nT-0,\"Charged twice, order 0\",billing\n",
    ));
    assert_names(
        &said,
        &["1 row repeats another one", "env.drop_duplicates = true", "--label biling=billing"],
    );
    let dry = |more: &[&str]| {
        context.run(
            &[&["train", "tickets.csv", "--answer", "queue", "--mock", "--dry-run", "--json"], more].concat(),
        )
    };
    let folded = dry(&["--label", "biling=billing"]);
    folded.assert_code(code::SUCCESS);
    let shown = parsed(&folded.stdout);
    assert!(!shown["prompt"].to_string().contains("biling"), "{shown}");
    let is_similar = |finding: &Value| finding["hint"].to_string().contains("--label");
    assert!(!shown["findings"].as_array().unwrap().iter().any(is_similar), "{shown}");
    dry(&["--label", "bilign=billing"]).fails(code::USAGE, &["`bilign`", "`biling`"]);
    dry(&["--label", "biling"]).fails(code::USAGE, &["`biling`", "FROM=TO"]);
}
