//! `skillrl rl`.

use crate::context::{TestContext, code};

#[cfg(not(feature = "weights"))]
#[test]
fn a_program_without_local_models_says_how_to_get_reinforcement_learning() {
    let context = TestContext::with_task("{ kind = \"simulated\" }", "{ kind = \"simulated\" }");
    let outcome = context.run(&["rl", "task/skillrl.toml"]);
    outcome.assert_code(code::USAGE);
    assert!(outcome.stderr.contains("--features weights"), "{}", outcome.stderr);
}

#[cfg(feature = "weights")]
mod built_in {
    use super::{TestContext, code};
    use serde_json::{Value, json};

    /// A model with random weights.
    const MODEL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../skill-train/tests/data/own/chat-tiny");

    fn task() -> TestContext {
        let model = format!(
            "{{ kind = \"local\", path = \"{MODEL}\", context = 512, max_tokens = 8, prefix_cache_mb = 1, \
             temperature = 0.0, response_schema = \"ignore\" }}"
        );
        TestContext::with_task(&model, &model)
    }

    fn rl<'a>(out: &'a str, more: &[&'a str]) -> Vec<&'a str> {
        let fixed = ["rl", "task/skillrl.toml", "--out", out, "--max-response-length", "6", "--quiet"];
        let sizes = ["--tasks", "2", "--group-size", "3", "--learning-rate", "0.001"];
        [&fixed[..], &sizes, more].concat()
    }

    #[test]
    fn a_policy_is_trained_extended_and_played() {
        let context = task();
        for rank in ["4", "0"] {
            let out = format!("of-{rank}");
            let train = rl(&out, &["--lora-rank", rank, "--games", "1", "--iterations", "2"]);
            context.run(&train).assert_code(code::SUCCESS);
            let summary = context.json(&format!("{out}/rl_summary.json"));
            assert_eq!((&summary["iterations"], &summary["after"]["played"]), (&json!(2), &json!(1)));
            let lines = context.read(&format!("{out}/iterations.jsonl"));
            let first: Value = serde_json::from_str(lines.lines().next().unwrap()).unwrap();
            assert_eq!((&first["tasks"], &first["episodes"]), (&json!(2), &json!(6)));
            // A finished run is extended, and its first iterations stay.
            let longer = rl(&out, &["--lora-rank", rank, "--games", "1", "--iterations", "3", "--resume"]);
            context.run(&longer).assert_code(code::SUCCESS);
            let longer = context.read(&format!("{out}/iterations.jsonl"));
            assert!(longer.starts_with(&lines) && longer.lines().count() == 3);
            let policy = format!("{out}/policy");
            let eval = ["eval", "task/skillrl.toml", "--policy", &policy, "--split", "test", "--json"];
            let measured: Value = serde_json::from_str(&context.succeed(&eval)).unwrap();
            assert_eq!(measured["n"], 2, "{measured}");
            // It can be trained further, in a run of its own.
            let further = format!("{out}-further");
            let further = rl(&further, &["--policy", &policy, "--lora-rank", rank, "--iterations", "1"]);
            context.run(&further).assert_code(code::SUCCESS);
        }
    }

    #[test]
    fn what_cannot_be_trained_is_refused() {
        let context = task();
        let of =
            |more: &[&'static str]| [&["rl", "task/skillrl.toml", "--out", "run", "--quiet"], more].concat();
        let cases = [
            (of(&["--group-size", "1", "--max-response-length", "6"]), code::USAGE, "group_size"),
            (of(&["--resume"]), code::RUN_DIR, "run"),
            (of(&["--policy", "task"]), code::USAGE, "no adapter and no model"),
            (of(&["--max-response-length", "100000"]), code::USAGE, "max_reply_tokens"),
        ];
        for (args, expected, part) in cases {
            let outcome = context.run(&args);
            outcome.assert_code(expected);
            assert!(outcome.stderr.contains(part), "{args:?}: {}", outcome.stderr);
        }
    }
}
