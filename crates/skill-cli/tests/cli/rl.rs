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
    fn the_section_configures_a_run_and_options_override_it() {
        let context = task();
        let section = "\n[rl]\niterations = 1\ntasks = 2\ngroup_size = 3\nmax_reply_tokens = 6\nlora_rank = 2\nkl_coeff = 0.0\n";
        let text = context.read("task/skillrl.toml") + section;
        context.write("task/skillrl.toml", &text);
        let run = ["rl", "task/skillrl.toml", "--quiet", "--out"];
        context.run(&[&run[..], &["run", "--group-size", "2"]].concat()).assert_code(code::SUCCESS);
        let recorded = context.json("run/config.json");
        let (asked, identity) = (&recorded["config"]["rl"], &recorded["identity"]);
        let found = [&asked["group_size"], &asked["tasks"], &asked["batch_size"], &identity["rl.group_size"]];
        assert_eq!(found, [&json!(2), &json!(2), &json!(64), &json!(2)]);
        assert_eq!(identity["rl.method"], json!({"lora": {"rank": 2, "alpha": 4.0}}));
        context.run(&[&run[..], &["run"]].concat()).assert_code(code::OTHER_RUN);

        // A JSON file names no local model; the policy does.
        let seeds = json!({
            "model": {"policy_model_id": "p", "policy_api_base": "http://localhost:8000/v1", "teacher_model_id": "t"},
            "evolution": {"evolution_threshold": 0.4},
            "rl": {"group_size": 3, "training_epochs": 1, "max_response_length": 6, "kl_coeff": 0.0,
                   "learning_rate": 0.001, "batch_size": 4, "clip_epsilon": 0.3},
        });
        context.write("task/config.json", &seeds.to_string());
        let data = text.lines().find(|line| line.starts_with("data = ")).unwrap();
        let data =
            format!("env.{}", data.replace(" = ", "=").replace('"', "").replace("data=", "data=task/"));
        let json = ["rl", "task/config.json", "--set", &data, "--policy", "run/policy", "--quiet"];
        let sizes = ["--tasks", "2", "--out", "of-json"];
        context.run(&[&json[..], &sizes].concat()).assert_code(code::SUCCESS);
        let identity = &context.json("of-json/config.json")["identity"];
        let names = ["group_size", "batch_size", "max_reply_tokens", "clip_epsilon", "tasks"];
        let found = names.map(|name| identity[&format!("rl.{name}")].clone());
        assert_eq!(found, [json!(3), json!(4), json!(6), json!(0.3), json!(2)]);
        let alone = context.run(&[&json[..], &["--out", "x", "--group-size", "1"]].concat());
        alone.assert_code(code::USAGE);
        assert!(alone.stderr.contains("`rl.group_size`"), "{}", alone.stderr);
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
