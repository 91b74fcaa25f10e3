//! `skillrl eval --targets`: the skills of a run under other targets.

use crate::context::{TestContext, code};
use crate::said::assert_names;
use crate::server::{Server, closed_address, healthy};
use serde_json::Value;

/// A finished run of the task, whose configuration has these further targets.
fn trained(server: &Server, targets: &str) -> TestContext {
    let context = server.task();
    context.append("task/skillrl.toml", targets);
    context.succeed(&["train", "task/skillrl.toml", "--quiet"]);
    context
}

fn served(name: &str, address: &str, model: &str) -> String {
    format!(
        "\n[models.targets.{name}]\nkind = \"openai\"\nbase_url = \"{address}/v1\"\nmodel = \"{model}\"\n"
    )
}

fn matrix(context: &TestContext, args: &[&str]) -> Value {
    context.succeed_json(&[&["eval", "task/run", "--targets", "--json"], args].concat())
}

#[test]
fn the_skills_of_a_run_are_measured_under_other_targets_once() {
    let server = Server::start();
    let context = trained(&server, &served("small", &server.address(), "target-small"));
    server.answer_with(|_, request| healthy(request));
    let first = matrix(&context, &[]);
    let rows = first["rows"].as_array().unwrap();
    let names: Vec<&str> = rows.iter().map(|row| row["target"].as_str().unwrap()).collect();
    assert_eq!(names, ["target", "small"]);
    for row in rows {
        assert_eq!(
            (&row["compared"]["before"], &row["compared"]["after"]),
            (&0.0.into(), &1.0.into()),
            "{row}"
        );
        assert_eq!(row["problem"], Value::Null);
    }
    assert_eq!(rows[0]["used"]["calls"], 0, "the run has these results");
    // Two skills on two tasks.
    assert_eq!((server.n_calls(), &rows[1]["used"]["calls"]), (4, &4.into()));
    assert_eq!((&first["mean_difference"], &first["worst"]), (&1.0.into(), &"target".into()));
    let text = context.succeed(&["eval", "task/run", "--targets", "--quiet"]);
    assert_names(&text, &["small", "target-small", "+100.0 points", "in the run"]);
    assert_eq!(server.n_calls(), 4, "nothing is paid for twice");
    let file = context.json("task/run/transfer/matrix.json");
    let mut printed = matrix(&context, &["--quiet"]);
    let limits = printed.as_object_mut().and_then(|fields| fields.remove("broken_limits"));
    assert_eq!((file, limits), (printed, Some(Value::Array(Vec::new()))));
    assert!(context.read("task/run/transfer/small/best/results.json").contains("test-1"));
    // It is none of the files of the run.
    context.succeed(&["check", "task/run"]);
    context.succeed(&["replay", "task/run", "--quiet"]);
}

#[test]
fn a_target_that_does_not_answer_is_named_and_takes_nothing_from_the_others() {
    let server = Server::start();
    let targets =
        [served("gone", &closed_address(), "m"), served("small", &server.address(), "target-small")];
    let context = trained(&server, &targets.concat());
    let outcome = context.run(&["eval", "task/run", "--targets", "--quiet"]).fails(code::OUTAGE, &["`gone`"]);
    assert_names(&outcome.stdout, &["gone was not measured", "+100.0 points"]);
    assert!(context.read("task/run/transfer/small/best/results.json").contains("test-1"));
    // The same command resumes the measurement.
    server.answer_with(|_, request| healthy(request));
    let address = format!("models.targets.gone.base_url={}/v1", server.address());
    let whole = matrix(&context, &["--set", &address]);
    assert_eq!(whole["rows"][1]["compared"]["after"], 1.0, "{whole}");
    assert_eq!(server.n_calls(), 4, "only what was not measured");
}

#[test]
fn targets_that_are_not_configured_or_badly_are_refused_by_name() {
    let server = Server::start();
    let context = trained(&server, &served("small", &server.address(), "target-small"));
    context
        .run(&["eval", "task/run", "--targets=large"])
        .fails(code::USAGE, &["`large`", "small", "[models.targets.NAME]"]);
    for (table, names) in [
        ("[models.targets.large]\nmodle = \"m\"\n", &["modle", "[models.targets.large]"][..]),
        ("[models.targets.large]\nkind = \"scripted\"\n", &["[models.targets.large]", "file"]),
        ("[models.targets.\"a/b\"]\nmodel = \"m\"\n", &["a/b"]),
        ("[models.targets.target]\nmodel = \"m\"\n", &["[models.targets.target]"]),
        ("[models.targets]\nlarge = 3\n", &["models.targets.large"]),
    ] {
        let text = context.read("task/skillrl.toml");
        context.write("task/other.toml", &format!("{text}\n{table}"));
        let outcome = context.run(&["eval", "task/run", "--targets", "--config", "task/other.toml"]);
        outcome.assert_code(code::USAGE);
        assert_names(&outcome.stderr, names);
        assert_names(&outcome.stderr, &["task/other.toml:"]);
    }
}

#[test]
fn a_run_gates_on_several_targets_and_names_the_one_that_does_not_answer() {
    let (server, context) = Server::start_with_task();
    let gone = served("small", &closed_address(), "target-small");
    let text = context
        .read("task/skillrl.toml")
        .replace("[train]\n", "[train]\ntargets = [\"target\", \"small\"]\n");
    context.write("task/skillrl.toml", &format!("{text}{gone}"));
    let examined = context.run(&["doctor", "task/skillrl.toml"]);
    assert_names(&examined.stdout, &["target `small` does not answer"]);
    context.run(&["train", "task/skillrl.toml", "--quiet"]).fails(code::OUTAGE, &["target small"]);
    // Everything that the target has done is kept.
    context
        .write("task/skillrl.toml", &format!("{text}{}", served("small", &server.address(), "target-small")));
    context.succeed(&["train", "task/skillrl.toml", "--quiet"]);
    let best = context.json("task/run/test_eval_best/results.json");
    assert_eq!((&best[0]["hard"], &best[0]["extras"]["targets"]["small"]["hard"]), (&1.into(), &1.0.into()));
    context.succeed(&["replay", "task/run", "--quiet"]);
    // And what it is without the other one is another run.
    let alone = text.replace("targets = [\"target\", \"small\"]\n", "");
    context.write("task/skillrl.toml", &alone);
    context.run(&["train", "task/skillrl.toml", "--quiet"]).assert_code(code::OTHER_RUN);
}
