//! Before data goes for the first time to an address that no configuration here names, a person at a terminal is asked.

use crate::context::{TestContext, code};
use crate::said::assert_names;
use crate::server::{Server, model_at, reply};
use crate::terminal::{on_terminal, signalled_at};
use crate::train_data::QUEUES;

/// Thirty tickets, and a server of which one answer is right.
fn tickets() -> (TestContext, Server) {
    let (context, server) = (TestContext::new(), Server::start());
    server.answer_with(|_, _| reply("billing", "stop"));
    let row = |n: usize| format!("{} in order {n} of May,{}\n", QUEUES[n % 3].1, QUEUES[n % 3].0);
    let rows: String = (0..30).map(row).collect();
    context.write("tickets.csv", &format!("body,queue\n{rows}"));
    (context, server)
}

fn eval<'a>(url: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&["eval", "tickets.csv", "--answer", "queue", "--model", "m", "--base-url", url], more].concat()
}

#[test]
fn eval_of_data_asks_once_and_yes_answers() {
    let (context, server) = tickets();
    let url = server.address();
    let screen = on_terminal(&context, &eval(&url, &[]), 200, "n\n");
    assert_eq!(screen.code, Some(code::DATA), "{}", screen.text);
    assert_names(
        &screen.text,
        &["as it will be sent", "10 calls", "Send this to 127.0.0.1:", "nothing was sent"],
    );
    assert_eq!(server.n_calls(), 0);
    let agreed = on_terminal(&context, &eval(&url, &["--yes"]), 200, "");
    assert_eq!(agreed.code, Some(code::SUCCESS), "{}", agreed.text);
    assert!(!agreed.text.contains("[y/N]") && server.n_calls() == 10);
    // Without a terminal nothing is asked.
    context.succeed(&eval(&url, &[]));
    // A configuration here that names the address has been agreed to.
    let model = model_at(&url, "m");
    let text = format!(
        "[models]\ntarget = {model}\noptimizer = {model}\n[env]\nkind = \"tasks\"\ndata = \"tickets.csv\"\n\
         answer_field = \"queue\"\n[run]\ndir = \"run\"\n"
    );
    context.write("skillrl.toml", &text);
    let again = on_terminal(&context, &eval(&url, &[]), 200, "");
    assert!(!again.text.contains("Send this to"), "{}", again.text);
}

#[test]
fn every_command_that_sends_data_to_a_new_address_asks() {
    let (context, server) = tickets();
    let url = server.address();
    let measure =
        ["doctor", "tickets.csv", "--answer", "queue", "--model", "m", "--base-url", &url, "--measure"];
    let screen = on_terminal(&context, &measure, 200, "n\n");
    assert_eq!(screen.code, Some(code::DATA), "{}", screen.text);
    assert_names(&screen.text, &["Send this to 127.0.0.1:"]);
    context.run(&["train", "tickets.csv", "--answer", "queue", "--mock", "--set", "budget.calls=200"]);
    let base_url = format!("models.target.base_url={url}");
    let settings = [
        "models.target.kind=openai",
        &base_url,
        "models.target.model=m",
        "models.target.price_input=1",
        "models.target.price_output=2",
    ];
    let mut attempt = vec!["try", "tickets-1", "--mock=false"];
    attempt.extend(settings.iter().flat_map(|setting| ["--set", *setting]));
    let item = on_terminal(&context, &attempt, 200, "n\n");
    assert_eq!(item.code, Some(code::DATA), "{}", item.text);
    assert_names(
        &item.text,
        &["as it will be sent", "1 call, $", "Send this to 127.0.0.1:", "nothing was sent"],
    );
    assert_eq!(server.n_calls(), 0, "{}", item.text);
    let agreed = on_terminal(&context, &[&attempt[..], &["--yes"]].concat(), 200, "");
    assert!(!agreed.text.contains("[y/N]"), "{}", agreed.text);
    assert_eq!((agreed.code, server.n_calls()), (Some(code::SUCCESS), 1), "{}", agreed.text);
}

#[test]
fn an_address_that_an_option_names_is_asked_about_by_commands_on_runs_too() {
    let (context, server) = tickets();
    context.run(&["train", "tickets.csv", "--answer", "queue", "--mock", "--set", "budget.calls=200"]);
    let url = server.address();
    let base_url = format!("models.target.base_url={url}");
    let settings = ["models.target.kind=openai", &base_url, "models.target.model=m"];
    let mut prune = vec!["prune", "--mock=false", "--margin", "0.5"];
    prune.extend(settings.iter().flat_map(|setting| ["--set", *setting]));
    let screen = on_terminal(&context, &prune, 200, "n\n");
    assert_eq!(screen.code, Some(code::DATA), "{}", screen.text);
    assert_names(&screen.text, &["Send data to 127.0.0.1:", "nothing was sent"]);
    assert_eq!(server.n_calls(), 0);
}

#[test]
fn a_signal_at_a_question_ends_the_program_and_leaves_nothing() {
    for signal in ["-INT", "-TERM"] {
        let (context, server) = tickets();
        let url = server.address();
        let train = ["train", "tickets.csv", "--answer", "queue", "--model", "m", "--base-url", &url];
        let screen = signalled_at(&context, &train, "[y/N]", signal);
        assert_eq!(screen.code, Some(code::STOPPED), "{signal}: {}", screen.text);
        assert_eq!(server.n_calls(), 0);
        assert!(!context.path("skillrl.toml").exists() && !context.path("runs").exists(), "{signal}");
    }
}

#[test]
fn this_machine_is_not_asked_through_a_proxy() {
    let (context, server) = tickets();
    let url = server.address();
    let outcome = context
        .command(&eval(&url, &[]))
        .env("HTTP_PROXY", "http://127.0.0.1:9")
        .env("ALL_PROXY", "http://127.0.0.1:9")
        .output()
        .unwrap();
    assert!(outcome.status.success(), "{}", String::from_utf8_lossy(&outcome.stderr));
    assert_eq!(server.n_calls(), 10);
    let doctor = [
        "doctor",
        "tickets.csv",
        "--answer",
        "queue",
        "--model",
        "m",
        "--base-url",
        "http://models.invalid/v1",
        "--json",
    ];
    let outcome = context.command(&doctor).env("HTTP_PROXY", "http://127.0.0.1:9").output().unwrap();
    let report: serde_json::Value = serde_json::from_slice(&outcome.stdout).unwrap();
    let findings = report["findings"].as_array().unwrap();
    let is_proxy =
        |finding: &&serde_json::Value| finding["message"].as_str().unwrap_or_default().contains("HTTP_PROXY");
    assert!(findings.iter().filter(is_proxy).any(|finding| finding["status"] == "warning"), "{report}");
}
