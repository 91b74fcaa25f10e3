//! A gate that goes by another metric than `hard`: every score on a screen is by that one, and it is named.

use crate::context::{TestContext, code};
use crate::said::assert_names;
use crate::server::{self, Server};

/// A task whose answers become nearly right: the strict score stays 0, and the graded one does not.
fn nearly_right(server: &Server, metric: &str, dir: &str) -> (TestContext, String) {
    let context = server.task();
    let stdout = train(&context, server, metric, dir);
    (context, stdout)
}

fn train(context: &TestContext, server: &Server, metric: &str, dir: &str) -> String {
    server.answer_with(|_, request| server::nearly_right(request));
    let (metric, dir) = (format!("gate.metric=\"{metric}\""), format!("run.dir={dir}"));
    let outcome = context.run(&["train", "task/skillrl.toml", "--quiet", "--set", &metric, "--set", &dir]);
    outcome.assert_code(code::SUCCESS);
    outcome.stdout
}

#[test]
fn every_score_of_a_run_is_by_the_metric_of_its_gate() {
    let server = Server::start();
    let (context, stdout) = nearly_right(&server, "mixed", "run");
    insta::assert_snapshot!("train", crate::context::without_tokens(&stdout));
    insta::assert_snapshot!("status", crate::context::without_tokens(&context.succeed(&["status", "run"])));
    let shown = context.succeed(&["show", "run"]);
    assert_names(&shown, &["by the mixed metric", "95 % interval"]);
    let summary = context.json("run/summary.json");
    assert_eq!((&summary["test_hard"], &summary["gate_metric"]), (&0.0.into(), &"mixed".into()));
    let (difference, scores) =
        (&summary["test_paired"]["difference"], [&summary["baseline_test_score"], &summary["test_score"]]);
    let [before, after] = scores.map(|score| score.as_f64().unwrap());
    assert!((difference.as_f64().unwrap() - (after - before)).abs() < 1e-6, "{summary}");
    let page = context.read("run/report.html");
    assert!(page.contains("Test split (mixed)") && page.contains("by the mixed metric"));
}

#[test]
fn two_runs_are_compared_by_one_metric() {
    let server = Server::start();
    let (context, _) = nearly_right(&server, "soft", "soft");
    train(&context, &server, "hard", "hard");
    let compared = |first: &str, second: &str| context.succeed(&["compare", first, second]);
    insta::assert_snapshot!("soft_and_hard", crate::context::without_tokens(&compared("soft", "hard")));
    let by_hard = compared("hard", "soft");
    assert_names(&by_hard, &["The gate of soft went by the soft metric", "by the hard metric"]);
    assert!(!by_hard.contains("test (soft)"), "{by_hard}");
}
