//! `skillrl sft`, and policies that play.

use crate::context::{TestContext, code};

#[cfg(not(feature = "weights"))]
#[test]
fn a_program_without_local_models_says_how_to_get_fine_tuning() {
    let context = TestContext::with_task("{ kind = \"simulated\" }", "{ kind = \"simulated\" }");
    for args in [
        &["sft", "task/skillrl.toml", "--demos", "demos.jsonl"][..],
        &["eval", "task/skillrl.toml", "--policy", "policy"],
    ] {
        let outcome = context.run(args);
        outcome.assert_code(code::USAGE);
        assert!(outcome.stderr.contains("--features weights"), "{}", outcome.stderr);
    }
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
        let context = TestContext::with_task(&model, &model);
        let demo = |number: usize, word: &str| {
            let step = json!({"action": word});
            let demo = json!({
                "episode_version": 1, "id": format!("demo-{number}-{word}"), "item": format!("train-{number}"),
                "goal": "Repeat.", "success": true, "soft": 1.0, "steps": [step],
            });
            format!("{demo}\n")
        };
        let mut demos: String = (1..=4).map(|number| demo(number, &format!("trainword{number}"))).collect();
        demos.push_str(&demo(1, "wrong"));
        context.write("task/demos.jsonl", &demos);
        context
    }

    fn sft<'a>(out: &'a str, more: &[&'a str]) -> Vec<&'a str> {
        let fixed = ["sft", "task/skillrl.toml", "--demos", "task/demos.jsonl", "--out", out];
        let settings = ["--batch-size", "2", "--epochs", "6", "--learning-rate", "0.01"];
        let often = ["--validation-interval", "3", "--checkpoint-interval", "2"];
        [&fixed[..], &settings, &often, more].concat()
    }

    #[test]
    fn a_model_learns_from_demonstrations_and_its_policy_plays() {
        for (out, rank) in [("adapter", "4"), ("full", "0")] {
            let context = task();
            let outcome = context.run(&sft(out, &["--lora-rank", rank, "--games", "1"]));
            outcome.assert_code(code::SUCCESS);
            let summary: Value =
                serde_json::from_str(&context.read(&format!("{out}/sft_summary.json"))).unwrap();
            assert_eq!((&summary["counts"]["used"], &summary["counts"]["lost"]), (&json!(4), &json!(1)));
            let loss = |place: usize| summary["loss"][place].as_f64().unwrap();
            assert!(loss(1) < loss(0), "{summary}");
            assert_eq!(summary["after"]["games"]["played"], 1);
            let policy = format!("{out}/policy");
            let eval = ["eval", "task/skillrl.toml", "--policy", &policy, "--split", "test", "--json"];
            let measured: Value = serde_json::from_str(&context.succeed(&eval)).unwrap();
            assert_eq!(measured["n"], 2, "{measured}");
        }
    }

    #[test]
    fn a_capped_run_continues_to_the_same_weights() {
        let context = task();
        context.run(&sft("whole", &["--quiet"])).assert_code(code::SUCCESS);
        let capped = context.run(&sft("capped", &["--set", "budget.tokens=700"]));
        capped.assert_code(code::BUDGET);
        context.run(&sft("capped", &["--resume"])).assert_code(code::SUCCESS);
        for name in ["policy/adapter_model.safetensors", "steps.jsonl", "validation.jsonl", "checkpoint.json"]
        {
            let read = |run: &str| std::fs::read(context.path(&format!("{run}/{name}"))).unwrap();
            assert!(read("whole") == read("capped"), "{name}");
        }
    }

    #[test]
    fn an_estimate_measures_a_step_and_writes_nothing() {
        let context = task();
        let outcome = context.run(&sft("run", &["--estimate", "--json"]));
        outcome.assert_code(code::SUCCESS);
        let cost: Value = serde_json::from_str(&outcome.stdout).unwrap();
        assert!(cost["steps"].as_u64() > Some(0) && cost["step_seconds"].as_f64() > Some(0.0), "{cost}");
        assert!(!context.path("run").exists());
    }

    #[test]
    fn the_expert_of_a_world_demonstrates_and_options_override_the_section() {
        let context = TestContext::new();
        let text = format!(
            "[run]\ndir = \"run\"\n\n[models.target]\nkind = \"local\"\npath = \"{MODEL}\"\n\n\
             [models.optimizer]\nkind = \"simulated\"\n\n[env]\nkind = \"alfworld\"\nmax_train = 3\nmax_val = 1\n\
             max_test = 1\n\n[sft]\nepochs = 1\nbatch_size = 4\nexamples = 8\nmax_tokens = 2048\nlora_rank = 2\n"
        );
        context.write("household.toml", &text);
        let said = context.run(&["sft", "household.toml", "--batch-size", "2", "--learning-rate", "0.001"]);
        said.assert_code(code::SUCCESS);
        let summary: Value = serde_json::from_str(&context.read("run/sft_summary.json")).unwrap();
        assert!(summary["counts"]["used"].as_u64() > Some(0), "{summary}");
        let recorded: Value = serde_json::from_str(&context.read("run/config.json")).unwrap();
        let sft = &recorded["config"]["sft"];
        assert_eq!(
            [&sft["batch_size"], &sft["learning_rate"], &sft["epochs"]],
            [&json!(2), &json!(0.001), &json!(1)]
        );
        // Another setting is another run, and what is no number of examples is refused.
        context.run(&["sft", "household.toml", "--epochs", "2"]).assert_code(code::OTHER_RUN);
        context.run(&["sft", "household.toml", "--num-examples", "0"]).assert_code(code::USAGE);
    }

    #[test]
    fn what_cannot_be_trained_is_refused() {
        let context = task();
        let cases = [
            (vec!["sft", "task/skillrl.toml"], code::USAGE),
            (sft("run", &["--resume"]), code::RUN_DIR),
            (sft("run", &["--skill-bank", "nothing"]), code::RUN_DIR),
            (vec!["eval", "task/skillrl.toml", "--policy", "task"], code::USAGE),
        ];
        for (args, expected) in cases {
            context.run(&args).assert_code(expected);
        }
    }
}
