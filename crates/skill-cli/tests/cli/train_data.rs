//! `skillrl train DATA`: from a file with answers to a trained skill, without a configuration.

use crate::context::{TestContext, code};
use crate::said::assert_names;
use crate::server::{Server, body, is_optimizer, reply};
use serde_json::json;
use wiremock::Request;

pub(crate) const QUEUES: [(&str, &str); 3] =
    [("billing", "Charged twice"), ("shipping", "The parcel is late"), ("refund", "Money back")];

/// Sixty tickets, with the delimiter that spreadsheets write where a comma is the decimal sign.
fn tickets(context: &TestContext) {
    let row = |number: usize| {
        let (queue, text) = QUEUES[number % 3];
        format!("T-{number};{text}, order {number};{queue}\n")
    };
    let rows: String = (0..60).map(row).collect();
    context.write("tickets.csv", &format!("ticket_id;body;queue\n{rows}"));
}

/// The target knows billing at once, and the others only with the rule that the optimizer proposes.
pub(crate) fn answer(_: usize, request: &Request) -> wiremock::ResponseTemplate {
    let body = body(request);
    if is_optimizer(&body) {
        let edit = json!({"op": "append", "target": "", "content": "- Parcels go to shipping, money back is a refund."});
        let patch = json!({"reasoning": "rule missing", "edits": [edit]});
        return reply(&json!({"patch": patch}).to_string(), "stop");
    }
    let said = body.to_string();
    let knows = said.contains("Parcels go to shipping");
    let queue = match () {
        () if said.contains("Charged twice") => "billing",
        () if knows && said.contains("parcel is late") => "shipping",
        () if knows && said.contains("Money back") => "refund",
        () => "I do not know",
    };
    reply(queue, "stop")
}

#[test]
fn a_data_file_is_enough_and_the_file_that_is_left_repeats_the_run() {
    let (context, server) = (TestContext::new(), Server::start());
    server.answer_with(answer);
    tickets(&context);
    let url = server.address();
    let args = [
        "train",
        "tickets.csv",
        "--answer",
        "queue",
        "--target",
        "target",
        "--optimizer",
        "optimizer",
        "--base-url",
        &url,
    ];
    let outcome = context.run(&args);
    outcome.assert_code(code::SUCCESS);
    let said = &outcome.stderr;
    let names = [
        "env.scorer = exact",
        "env.id_field = ticket_id",
        "env.type_field = queue",
        "Answer with one of these",
        "target target, optimizer optimizer",
    ];
    assert_names(said, &names);
    assert!(!said.contains("ticket_id }}"), "an id tells nothing of the task: {said}");
    assert!(outcome.stdout.contains("\nBetter: 100.0 % instead of"), "{}", outcome.stdout);
    assert!(context.read("runs/tickets/best_skill.md").contains("Parcels go to shipping"));
    let n_calls = server.n_calls();
    let again = context.run(&args);
    again.assert_code(code::SUCCESS);
    assert_eq!(server.n_calls(), n_calls, "the same command finds its run");
    context.succeed(&["train"]);
    assert_eq!(server.n_calls(), n_calls, "and so does the configuration that it left");
    // Caps and prices are not of the result: the same run goes on with others, and the file has them.
    for budget in ["5", "9"] {
        let capped = [args.as_slice(), &["--price", "1,2", "--budget", budget]].concat();
        context.run(&capped).assert_code(code::SUCCESS);
        assert!(context.read("skillrl.toml").contains(&format!("money = {budget}")));
    }
    assert!(!context.path("runs/tickets-2").exists());
    context.replace("skillrl.toml", "money = 9", "money = 8");
    context.run(&args).fails(code::USAGE, &["--set"]);
    let other =
        context.run(&["train", "tickets.csv", "--answer", "body", "--model", "m", "--base-url", &url]);
    other.assert_code(code::USAGE);
    assert!(other.stderr.contains("skillrl.toml"), "{}", other.stderr);
}

#[test]
fn a_command_that_starts_no_run_leaves_no_file_in_the_way_of_the_next() {
    let (context, server) = (TestContext::new(), Server::start());
    server.answer_with(answer);
    tickets(&context);
    // No key is set, so no run can begin.
    context
        .run(&["train", "tickets.csv", "--answer", "queue", "--model", "gpt-5"])
        .fails(code::PROVIDER_REFUSED, &["OPENAI_API_KEY"]);
    assert!(!context.path("skillrl.toml").exists());
    let url = server.address();
    context.succeed(&["train", "tickets.csv", "--answer", "queue", "--model", "m", "--base-url", &url]);
    assert!(context.path("skillrl.toml").exists());
}

/// Every surface says the same of a run whose optimizer writes no edits.
#[test]
fn an_optimizer_without_edits_is_the_reason_everywhere() {
    let (context, server) = (TestContext::new(), Server::start());
    server.answer_with(|n, request| match is_optimizer(&body(request)) {
        true => reply("I am sorry.", "stop"),
        false => answer(n, request),
    });
    tickets(&context);
    let url = server.address();
    let models = ["--target", "target", "--optimizer", "optimizer", "--base-url", &url];
    let args =
        [&["train", "tickets.csv", "--answer", "queue", "--set", "budget.calls=200"], &models[..]].concat();
    let trained = context.succeed(&args);
    assert_names(&trained, &["no optimizer reply held", "next: `skillrl doctor`"]);
    let status = context.succeed_json(&["status", "runs/tickets", "--json"]);
    let words = status["verdict"]["words"].as_str().unwrap();
    assert!(trained.contains(words), "{words}\n{trained}");
    assert!(context.succeed(&["show", "runs/tickets"]).contains(words));
}

#[test]
fn a_file_of_weights_is_a_model_of_this_machine() {
    let context = TestContext::new();
    tickets(&context);
    context.write("small.gguf", "no weights");
    let outcome = context.run(&["train", "tickets.csv", "--answer", "queue", "--model", "small.gguf"]);
    // The file is none, or the build reads none; both are known before a call.
    assert_ne!(outcome.code, Some(code::SUCCESS));
    assert_names(&outcome.stderr, &["models.target.kind = local", "models.target.path = small.gguf"]);
}

#[test]
fn list_prices_say_what_a_run_costs_and_let_a_cap_hold() {
    let context = TestContext::new();
    tickets(&context);
    let args = ["train", "tickets.csv", "--answer", "queue", "--model", "gpt-5-mini", "--budget", "2"];
    let outcome = context.run(&args);
    // Nothing can be sent without a key; what would be is known.
    assert_ne!(outcome.code, Some(code::SUCCESS));
    let names = ["gpt-5-mini: ", " to $", "list prices of", "budget.money = 2.0", "stops at $2"];
    assert_names(&outcome.stderr, &names);
    let unknown = context.run(&["train", "tickets.csv", "--answer", "queue", "--model", "gpt-5-minii"]);
    assert!(unknown.stderr.contains("cost unknown") && unknown.stderr.contains("did you mean gpt-5-mini?"));
}

#[test]
fn a_try_with_simulated_models_is_not_in_the_way_of_the_real_run() {
    let (context, server) = (TestContext::new(), Server::start());
    server.answer_with(answer);
    tickets(&context);
    context
        .run(&["train", "tickets.csv", "--answer", "queue", "--mock", "--quiet"])
        .assert_code(code::SUCCESS);
    let tried = context.read("skillrl.toml");
    assert!(tried.contains("runs/tickets-mock"));
    // A command that fails before its run leaves the file as it was.
    context
        .run(&["train", "tickets.csv", "--answer", "queue", "--mock", "--skill", "nope.md"])
        .fails(code::USAGE, &["nope.md"]);
    assert_eq!(context.read("skillrl.toml"), tried);
    let url = server.address();
    let real = |more: &[&str]| {
        let args =
            ["train", "tickets.csv", "--answer", "queue", "--model", "target", "--base-url", &url, "--quiet"];
        context.run(&[&args[..], more].concat())
    };
    real(&["--optimizer", "optimizer"]).assert_code(code::SUCCESS);
    assert!(context.path("runs/tickets-mock/summary.json").exists());
    // What real models were asked for is not forgotten.
    let kept = context.read("skillrl.toml");
    real(&["--optimizer", "other"]).assert_code(code::USAGE);
    assert_eq!(context.read("skillrl.toml"), kept);
}
