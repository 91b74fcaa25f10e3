//! Empty replies of a model: they are not scores of a skill, and they stop the run.

use crate::context::{TestContext, assert_same_files, code};
use crate::said::assert_names;
use crate::server::{self, Server};

fn saying_nothing(finish: &str) -> wiremock::ResponseTemplate {
    wiremock::ResponseTemplate::new(200).set_body_json(serde_json::json!({
        "choices": [{"message": {"role": "assistant", "content": ""}, "finish_reason": finish}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 0}
    }))
}

#[test]
fn a_target_that_says_nothing_ends_the_run_before_its_first_step() {
    for (finish, name) in [("stop", "empty"), ("length", "empty_and_cut")] {
        let (server, context) = Server::start_with_task();
        server.answer_with(move |_, _| saying_nothing(finish));
        for args in [["train", "task/skillrl.toml"].as_slice(), &["doctor", "--measure", "task/skillrl.toml"]]
        {
            let stopped = context.run(args);
            stopped.assert_code(code::PROVIDER_REFUSED);
            insta::allow_duplicates!(insta::assert_snapshot!(name, error_of(&stopped.stderr)));
        }
        assert!(!context.path("task/run/runtime_state.json").exists());

        // The replies are kept, and taken out where the server was at fault.
        server.answer_with(|_, request| server::healthy(request));
        context.run(&["train", "task/skillrl.toml"]).assert_code(code::PROVIDER_REFUSED);
        assert_eq!(server.n_calls(), 0);
        context.run(&["journal", "prune", "task/run", "--place", "baseline"]).assert_code(code::SUCCESS);
        context.run(&["train", "task/skillrl.toml"]).assert_code(code::SUCCESS);
    }
}

/// Answers so many calls of the target, and then says nothing to it.
fn silent_after(n_calls: usize) -> impl Fn(usize, &wiremock::Request) -> wiremock::ResponseTemplate + Send {
    let n_answered = std::sync::atomic::AtomicUsize::new(0);
    move |_, request| {
        let is_optimizer = server::is_optimizer(&server::body(request));
        let count = || n_answered.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        if is_optimizer || count() < n_calls { server::healthy(request) } else { saying_nothing("stop") }
    }
}

#[test]
fn a_target_that_falls_silent_later_ends_the_run_and_nothing_is_scored() {
    let train =
        |context: &TestContext| context.run(&["train", "task/skillrl.toml", "--set", "run.workers=1"]);
    let server = Server::start();
    let expect = server.task();
    server.answer_with(|_, request| server::healthy(request));
    train(&expect).assert_code(code::SUCCESS);
    for (n_calls, place) in [(2, "step 1 / rollout"), (4, "step 1 / evaluate")] {
        let context = server.task();
        server.answer_with(silent_after(n_calls));
        for _ in 0..2 {
            train(&context).fails(code::PROVIDER_REFUSED, &["error: the target ", "2 items", place]);
        }
        server.answer_with(|_, request| server::healthy(request));
        context.run(&["journal", "prune", "task/run", "--place", place]).assert_code(code::SUCCESS);
        train(&context).assert_code(code::SUCCESS);
        assert_same_files(&context.untimed_files("task/run"), &expect.untimed_files("task/run"));
    }
}

#[test]
fn a_measurement_of_silence_is_no_drop() {
    let (server, context) = Server::start_with_task();
    server.answer_with(|_, request| server::healthy(request));
    context.succeed(&["eval", "task/skillrl.toml", "--out", "before"]);
    server.answer_with(|_, _| saying_nothing("stop"));
    let args = ["eval", "task/skillrl.toml", "--out", "after", "--against", "before", "--fail-on-drop"];
    context.run(&args).assert_code(code::PROVIDER_REFUSED);
    assert!(!context.path("after/summary.json").exists());
    // Where the server was at fault its replies are taken out, and the measurement is made.
    server.answer_with(|_, request| server::healthy(request));
    context.run(&args).assert_code(code::PROVIDER_REFUSED);
    context.run(&["journal", "prune", "after", "--place", "evaluate"]).assert_code(code::SUCCESS);
    context.run(&args).assert_code(code::SUCCESS);
}

#[test]
fn single_items_without_a_word_are_said() {
    let (server, context) = Server::start_with_task();
    server.answer_with(|call, request| match call {
        1 => saying_nothing("stop"),
        _ => server::healthy(request),
    });
    let outcome = context.run(&["train", "task/skillrl.toml", "--set", "run.workers=1"]);
    outcome.assert_code(code::SUCCESS);
    assert_names(&outcome.stderr, &["warning: ", "the target ", " on 1 of "]);
}

#[test]
fn a_measurement_with_empty_replies_says_so() {
    let (server, context) = Server::start_with_task();
    server.answer_with(|call, request| match call % 2 {
        1 => saying_nothing("stop"),
        _ => server::healthy(request),
    });
    for args in [
        &["eval", "task/skillrl.toml", "--quiet"][..],
        &["doctor", "task/skillrl.toml", "--measure", "--quiet"],
    ] {
        let outcome = context.run(args);
        outcome.assert_code(code::SUCCESS);
        assert_names(&outcome.stderr, &["warning: the target ", "1 of 2 items"]);
    }
}

/// A reply without its end scores as it stands, which says more of the limit than of the skill.
#[test]
fn a_measurement_with_cut_replies_says_so() {
    let (server, context) = Server::start_with_task();
    server.answer_with(|_, _| server::reply("The word is", "length"));
    for form in ["--quiet", "--json", "--markdown"] {
        let outcome = context.run(&["eval", "task/skillrl.toml", form]);
        outcome.assert_code(code::SUCCESS);
        assert_names(&outcome.stderr, &["warning: 2 of 2 replies ", "cut", "`env.max_tokens`"]);
    }
    let outcome = context.run(&["collect", "task/skillrl.toml", "--out", "episodes.jsonl", "--quiet"]);
    outcome.assert_code(code::SUCCESS);
    assert_names(&outcome.stderr, &["warning: 4 of 4 replies "]);
}

/// Rollouts that nobody reads are not worth their price.
#[test]
fn an_optimizer_that_says_nothing_ends_the_run() {
    for finish in ["stop", "length"] {
        let (server, context) = Server::start_with_task();
        let mute = move |_, request: &wiremock::Request| match server::is_optimizer(&server::body(request)) {
            true => saying_nothing(finish),
            false => server::healthy(request),
        };
        server.answer_with(mute);
        let train = || context.run(&["train", "task/skillrl.toml"]);
        let stopped = train();
        stopped.assert_code(code::PROVIDER_REFUSED);
        insta::assert_snapshot!(format!("a_silent_optimizer_{finish}"), error_of(&stopped.stderr));
        let n_calls = server.n_calls();
        train().assert_code(code::PROVIDER_REFUSED);
        assert_eq!(server.n_calls(), n_calls, "what is known is not asked again");

        // Where the server was at fault, its replies are taken out, and the run goes on.
        server.answer_with(|_, request| server::healthy(request));
        context
            .run(&["journal", "prune", "task/run", "--place", "step 1 / reflect"])
            .assert_code(code::SUCCESS);
        train().assert_code(code::SUCCESS);
    }
}

#[test]
fn an_optimizer_without_a_single_edit_is_said() {
    let (server, context) = Server::start_with_task();
    server.answer_with(|_, request| match server::is_optimizer(&server::body(request)) {
        true => server::reply("I would change nothing.", "stop"),
        false => server::healthy(request),
    });
    let outcome = context.run(&["train", "task/skillrl.toml"]);
    outcome.assert_code(code::SUCCESS);
    let warning = "warning: none of the 2 steps produced an edit; ";
    assert!(outcome.stderr.contains(warning), "{}", outcome.stderr);
    let quiet = context.run(&["train", "task/skillrl.toml", "--quiet"]);
    assert!(quiet.stderr.contains(warning), "{}", quiet.stderr);
}

/// What is said after the progress.
fn error_of(stderr: &str) -> &str {
    stderr.split_once("error: ").map_or(stderr, |(_, error)| error)
}

/// The fewest items by which rules are judged.
const N_VAL: usize = 20;

/// A rule is not worthless because nobody answers.
#[test]
fn nothing_is_pruned_by_silence() {
    let (server, context) = Server::start_with_task();
    context.write("rules.md", "# Repeating\n\n- Be polite.\n- Be brief.\n");
    context.write_items("val", N_VAL);
    let args = ["prune", "task/skillrl.toml", "--skill", "rules.md", "--out", "pruned"];
    // From the beginning, and once the skill itself is measured.
    for n_answered in [0, N_VAL] {
        server.answer_with(silent_after(n_answered));
        context.run(&args).assert_code(code::PROVIDER_REFUSED);
        assert!(!context.path("pruned/skill.md").exists());
        context.run(&["journal", "prune", "task/run", "--all"]).assert_code(code::SUCCESS);
    }
}

/// What silences the target is the candidate: it is rejected, and the run goes on.
#[test]
fn a_candidate_that_silences_the_target_is_rejected() {
    let server = Server::start();
    let silencing = |_, request: &wiremock::Request| {
        let body = server::body(request);
        match body["messages"].to_string().contains(server::GOOD_RULE) && !server::is_optimizer(&body) {
            true => saying_nothing("stop"),
            false => server::healthy(request),
        }
    };
    let train = |context: &TestContext, cap: &str| {
        let cap = format!("budget.calls={cap}");
        context.run(&["train", "task/skillrl.toml", "--set", &cap, "--set", "run.workers=1"])
    };
    server.answer_with(silencing);
    let whole = server.task();
    train(&whole, "1000").assert_code(code::SUCCESS);
    assert_eq!(whole.json("task/run/summary.json")["total_accepts"], 0);
    let n_whole = server.n_calls();
    let asked_again = whole.succeed(&["journal", "list", "task/run", "--place", "step 1 / evaluate"]);
    assert!(asked_again.contains("again"), "{asked_again}");
    // Stopped wherever it may be, it comes to the same, and asks nothing twice.
    for cap in 1..n_whole {
        server.answer_with(silencing);
        let half = server.task();
        train(&half, &cap.to_string()).assert_code(code::BUDGET);
        train(&half, "1000").assert_code(code::SUCCESS);
        assert_eq!(server.n_calls(), n_whole, "{cap}");
        assert_same_files(&half.untimed_files("task/run"), &whole.untimed_files("task/run"));
    }
}

#[test]
fn one_empty_reply_of_the_optimizer_may_be_chance() {
    let (server, context) = Server::start_with_task();
    let n_asked = std::sync::atomic::AtomicUsize::new(0);
    server.answer_with(move |_, request| {
        let is_first = || n_asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed) == 0;
        if server::is_optimizer(&server::body(request)) && is_first() {
            return saying_nothing("stop");
        }
        server::healthy(request)
    });
    context.run(&["train", "task/skillrl.toml"]).assert_code(code::SUCCESS);
    assert_eq!(context.json("task/run/history.json")[0]["action"], "skip_no_patches");
}
