//! What a model is shown of a data file: said first, on a terminal seen first, and never what a person did not agree to.

use crate::context::{TestContext, code};
use crate::said::assert_names;
use crate::server::{Server, body, is_optimizer, reply};
#[cfg(target_os = "linux")]
use crate::terminal::on_terminal;
use parking_lot::Mutex;
use serde_json::json;
use std::sync::Arc;

const QUEUES: [&str; 3] = ["Billing", "Shipping", "Refund"];

/// Tickets as a help desk exports them: two texts, a person's address, a date, the team that dealt with them.
fn tickets(context: &TestContext) {
    let row = |n: usize| {
        let queue = QUEUES[n % 3];
        let spelled = if n == 4 { "SHIPPING " } else { queue };
        format!(
            "T-{n},My order {n} is not right,Please look at order {n} as I wait since May,a{n}@mail.example,2026-11-01,team {queue},{spelled}\n"
        )
    };
    let rows: String = (0..60).map(row).collect();
    let head = "\u{feff}Ticket ID,\"Subject \",Body,Customer E-Mail,Created,assigned_team,Queue (final)\n";
    context.write("tickets.csv", &format!("{head}{rows}"));
}

/// What the target was asked, request by request.
fn listened(server: &Server) -> Arc<Mutex<Vec<String>>> {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&asked);
    server.answer_with(move |n, request| {
        let body = body(request);
        if is_optimizer(&body) {
            return reply(&json!({"patch": {"reasoning": "none", "edits": []}}).to_string(), "stop");
        }
        heard.lock().push(body["messages"].to_string());
        reply(QUEUES[n % 3], "stop")
    });
    asked
}

fn args<'a>(url: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let all = [
        "train",
        "tickets.csv",
        "--answer",
        "queue",
        "--target",
        "t",
        "--optimizer",
        "optimizer",
        "--base-url",
        url,
    ];
    [&all[..], &["--set", "budget.calls=200"], more].concat()
}

#[test]
fn only_free_text_is_sent_and_what_is_shown_and_not_shown_is_said() {
    let (context, server) = (TestContext::new(), Server::start());
    tickets(&context);
    let asked = listened(&server);
    let outcome = context.run(&args(&server.address(), &[]));
    outcome.assert_code(code::SUCCESS);
    let names = [
        "shown to the model: Subject, Body",
        "not shown: Customer E-Mail, Created, assigned_team (add with --input)",
        "labels: 3 classes; case and blanks do not count: `SHIPPING` is `Shipping`",
    ];
    assert_names(&outcome.stderr, &names);
    // What the checks before the run found is kept with it.
    let checks = context.json("runs/tickets/checks.json");
    assert!(
        checks["warnings"].as_array().unwrap().iter().any(|found| found["check"] == "selection"),
        "{checks}"
    );
    let asked = asked.lock();
    assert!(!asked.is_empty());
    for request in asked.iter() {
        assert!(request.contains("My order") && request.contains("I wait since May"), "{request}");
        assert!(
            !request.contains("@mail") && !request.contains("2026-11") && !request.contains("team "),
            "{request}"
        );
        assert!(!request.contains("SHIPPING"), "one spelling of a label is offered: {request}");
    }
}

#[test]
fn fields_that_are_named_are_sent_whatever_they_hold() {
    let (context, server) = (TestContext::new(), Server::start());
    tickets(&context);
    let asked = listened(&server);
    // Case and the blank do not matter.
    let outcome = context.run(&args(&server.address(), &["--input", "subject,customer e-mail"]));
    outcome.assert_code(code::SUCCESS);
    let asked = asked.lock();
    assert!(asked.iter().all(|request| request.contains("@mail") && !request.contains("since May")));
}

#[test]
fn a_dry_run_shows_everything_and_sends_and_writes_nothing() {
    let (context, server) = (TestContext::new(), Server::start());
    tickets(&context);
    let url = server.address();
    let shown = context.succeed(&args(&url, &["--dry-run"]));
    let names = ["My order", "Answer with one of these", "splits", "cost", "baseline", "nothing was sent"];
    assert_names(&shown, &names);
    let shown = context.succeed_json(&args(&url, &["--dry-run", "--json"]));
    assert!(shown["prompt"].to_string().contains("My order"));
    assert!(shown["findings"].as_array().unwrap().len() > 3 && shown["estimate"]["items"].is_array());
    for command in [
        &["doctor", "tickets.csv", "--offline"][..],
        &["estimate", "tickets.csv"],
        &["env", "check", "tickets.csv"],
    ] {
        let options = ["--answer", "queue", "--model", "m", "--base-url", &url];
        context.succeed(&[command, &options].concat());
    }
    assert_eq!(server.n_calls(), 0);
    assert_eq!(context.files(".").len(), 1, "only the data is there");
}

#[test]
fn rows_that_ask_the_same_are_in_one_split() {
    let (context, server) = (TestContext::new(), Server::start());
    let row = |n: usize| format!("Where is my order {} that I have paid,{}\n", n % 20, QUEUES[n % 3]);
    let rows: String = (0..60).map(row).collect();
    context.write("tickets.csv", &format!("body,queue\n{rows}"));
    let url = server.address();
    let options = ["--answer", "queue", "--model", "m", "--base-url", &url];
    let same = |more: &[&str]| {
        let checked = [&["env", "check", "tickets.csv", "--json"][..], &options, more].concat();
        let report = context.succeed_json(&checked);
        report["same_prompts"].as_array().unwrap().len()
    };
    assert_eq!(same(&[]), 0);
    assert_eq!(same(&["--set", "env.split_ratio=[1,1,1]"]), 0);
    // The paper's protocol splits as it always did.
    assert!(same(&["--set", "train.protocol=paper"]) > 0);
}

#[cfg(target_os = "linux")]
#[test]
fn on_a_terminal_the_first_prompt_is_seen_before_it_is_sent() {
    let (context, server) = (TestContext::new(), Server::start());
    tickets(&context);
    let asked = listened(&server);
    let url = server.address();
    let screen = on_terminal(&context, &args(&url, &[]), 200, "n\n");
    assert_eq!(screen.code, Some(code::DATA), "{}", screen.text);
    let names = ["as it will be sent", "My order", "Send this to 127.0.0.1:", "nothing was sent"];
    assert_names(&screen.text, &names);
    assert_eq!(server.n_calls(), 0);
    assert!(!context.path("skillrl.toml").exists());
    let screen = on_terminal(&context, &args(&url, &[]), 200, "y\n");
    assert_eq!(screen.code, Some(code::SUCCESS), "{}", screen.text);
    assert!(!asked.lock().is_empty());
}

#[cfg(target_os = "linux")]
#[test]
fn what_a_field_holds_is_a_question_that_yes_does_not_answer() {
    let context = TestContext::new();
    let row = |n: usize| format!("Call me at +49 30 12345{n:02} about the order,{}\n", QUEUES[n % 3]);
    let rows: String = (0..60).map(row).collect();
    context.write("tickets.csv", &format!("body,queue\n{rows}"));
    let args = args("http://127.0.0.1:9/v1", &["--yes", "--set", "retry.max_attempts=1"]);
    let screen = on_terminal(&context, &args, 200, "n\n");
    assert_eq!(screen.code, Some(code::DATA), "{}", screen.text);
    assert_names(&screen.text, &["a telephone number in 60 rows", "[y/N]"]);
    // The answer leads on to the server, which is not there.
    assert_eq!(on_terminal(&context, &args, 200, "y\n").code, Some(code::OUTAGE));
}

#[test]
fn a_run_without_an_answer_is_corrected_and_one_with_answers_is_kept() {
    let (context, server) = (TestContext::new(), Server::start());
    tickets(&context);
    let wrong = args("http://127.0.0.1:9/v1", &["--set", "retry.max_attempts=1", "--set", "train.round=2"]);
    context.run(&wrong).assert_code(code::OUTAGE);
    assert!(context.path("skillrl.toml").exists() && context.path("runs/tickets").exists());
    drop(listened(&server));
    let url = server.address();
    // What `--set` says is in the file, so that the next command repeats the run.
    context.run(&args(&url, &["--set", "train.epochs=2"])).assert_code(code::SUCCESS);
    let file = context.read("skillrl.toml");
    assert_names(&file, &["epochs = 2", "calls = 200"]);
    assert!(file.lines().count() < 45, "{file}");
    let n_calls = server.n_calls();
    context.succeed(&["train"]);
    assert_eq!(server.n_calls(), n_calls);
    context
        .run(&args(&url, &["--set", "train.epochs=3"]))
        .fails(code::USAGE, &["train.epochs: 2, now 3", "--config tickets-2.toml --out runs/tickets-2"]);
    let second = ["--set", "train.epochs=3", "--config", "tickets-2.toml", "--out", "runs/tickets-2"];
    context.run(&args(&url, &second)).assert_code(code::SUCCESS);
    assert!(context.path("tickets-2.toml").exists() && context.path("runs/tickets-2").exists());
    // A run is taken where a configuration is.
    for command in ["doctor", "estimate", "eval"] {
        let offline: &[&str] = if command == "doctor" { &["--offline"] } else { &[] };
        context.run(&[&[command, "runs/tickets-2"], offline].concat()).assert_code(code::SUCCESS);
    }
}

#[test]
fn a_prompt_and_a_rubric_are_enough_without_right_answers() {
    let (context, server) = (TestContext::new(), Server::start());
    let rows: String =
        (0..30).map(|n| format!("Write a release note for version {n} of the tool\n")).collect();
    context.write("prompts.csv", &format!("prompt\n{rows}"));
    context
        .write("skills/notes/SKILL.md", "---\nname: notes\ndescription: Writes notes.\n---\n- Be short.\n");
    server.answer_with(|_, request| {
        let body = body(request);
        let said = body["messages"].to_string();
        match () {
            () if said.contains("<rubric>") => {
                reply(&json!({"reason": "r", "points": 5}).to_string(), "stop")
            }
            () if is_optimizer(&body) => {
                reply(&json!({"patch": {"reasoning": "n", "edits": []}}).to_string(), "stop")
            }
            () if said.contains("Be short.") => reply("A note.", "stop"),
            () => reply("no skill", "stop"),
        }
    });
    let url = server.address();
    let outcome = context.run(&[
        "train",
        "prompts.csv",
        "--skill",
        "skills/notes",
        "--rubric",
        "It is short.",
        "--model",
        "optimizer",
        "--target",
        "t",
        "--base-url",
        &url,
        "--set",
        "budget.calls=300",
        "--yes",
    ]);
    outcome.assert_code(code::SUCCESS);
    let file = context.read("skillrl.toml");
    let names = [
        "scorer = \"rubric\"",
        "rubric = \"It is short.\"",
        "judge = \"optimizer\"",
        "initial = \"skills/notes\"",
    ];
    assert_names(&file, &names);
}

#[test]
fn data_can_be_tried_without_a_model() {
    let context = TestContext::new();
    tickets(&context);
    let outcome = context.run(&["train", "tickets.csv", "--answer", "queue", "--mock"]);
    outcome.assert_code(code::SUCCESS);
    assert!(outcome.stdout.contains("simulated models"), "{}", outcome.stdout);
    assert!(context.path("runs/tickets-mock/summary.json").exists());
    let rows: String = (0..24).map(|n| format!("Write a note on release {n} of the tool\n")).collect();
    context.write("prompts.csv", &format!("prompt\n{rows}"));
    let judged =
        ["train", "prompts.csv", "--rubric", "It is short.", "--mock", "--config", "judged.toml", "--yes"];
    context.run(&judged).assert_code(code::SUCCESS);
}

#[test]
fn a_first_skill_that_solves_nothing_stops_the_run_until_somebody_agrees() {
    let (context, server) = (TestContext::new(), Server::start());
    tickets(&context);
    server.answer_with(|_, request| match is_optimizer(&body(request)) {
        true => reply(&json!({"patch": {"reasoning": "n", "edits": []}}).to_string(), "stop"),
        false => reply("I do not know", "stop"),
    });
    let url = server.address();
    context.run(&args(&url, &[])).fails(code::DATA, &["none of the validation items", "--yes"]);
    let n_calls = server.n_calls();
    assert_eq!(n_calls, 20, "the validation items are measured once, and nothing else is");
    context.run(&args(&url, &[])).fails(code::DATA, &["none of the validation items", "--yes"]);
    assert_eq!(server.n_calls(), n_calls, "the same command stops again");
    context.run(&args(&url, &["--yes"])).assert_code(code::SUCCESS);
}

#[test]
fn rows_without_the_text_that_is_shown_are_counted() {
    let context = TestContext::new();
    let row = |n: usize| {
        let text =
            if n % 20 == 7 { " ".to_owned() } else { format!("My order {n} is not right since {n} May") };
        format!("{text},{}\n", QUEUES[n % 3])
    };
    let rows: String = (0..60).map(row).collect();
    context.write("tickets.csv", &format!("Body,queue\n{rows}"));
    let said = context.run(&["train", "tickets.csv", "--answer", "queue", "--mock", "--dry-run"]);
    said.assert_code(code::SUCCESS);
    let all = format!("{}{}", said.stdout, said.stderr);
    let warned = all.lines().find(|line| line.starts_with("warning: `Body`")).unwrap();
    assert!(warned.contains("3 of 60"), "{warned}");
}
