//! `skillrl sft`, and policies that play.

use crate::context::{TestContext, code};
use crate::said::assert_names;
use crate::serve::{Serving, get, wait_for};
use serde_json::json;

#[cfg(not(feature = "weights"))]
#[test]
fn a_program_without_local_models_says_how_to_get_fine_tuning() {
    let context = TestContext::with_task("{ kind = \"simulated\" }", "{ kind = \"simulated\" }");
    for args in [
        &["sft", "task/skillrl.toml", "--demos", "demos.jsonl"][..],
        &["eval", "task/skillrl.toml", "--policy", "policy"],
        &["export", "run", "--policy", "served"],
    ] {
        context.run(args).fails(code::USAGE, &["--features full"]);
    }
}

/// The files of a run that was killed after four of eight steps.
fn killed_run(context: &TestContext) {
    let write = |name: &str, text: &str| context.write(&format!("runs/tuned/{name}"), text);
    let identity = json!({"sft.epochs": 2, "sft.method": {"lora": {"rank": 4, "alpha": 8.0}}});
    let config =
        json!({"format_version": "2.0", "config": {"env": {"kind": "alfworld"}}, "identity": identity});
    write("config.json", &config.to_string());
    write("examples.jsonl", "");
    let step = |number: u32| {
        json!({"step": number, "epoch": 1, "loss": 2.0 / f64::from(number), "learning_rate": 1e-4,
               "grad_norm": 0.5, "examples": 4, "tokens": 100, "targets": 10})
    };
    let lines: String = (1..=4).map(|number| format!("{}\n", step(number))).collect();
    // The end of a line that was being written.
    write("steps.jsonl", &format!("{lines}{{\"step\": 5, "));
    let games = |won: u32| json!({"won": won, "played": 10, "score": 0.3, "interval": [0.11, 0.6]});
    let validation = |step: u32, loss: f64, won: u32| json!({"step": step, "loss": loss, "targets": 9, "games": games(won)});
    write("validation.jsonl", &format!("{}\n{}\n", validation(0, 2.5, 0), validation(4, 0.75, 3)));
    let started = json!({"event": "run_started", "total_steps": 8, "finished_steps": 0});
    let finished = json!({"event": "sft_step_finished", "record": step(4), "seconds": 0.5,
                          "peak_memory": 2_000_000_000_u64});
    write("events.jsonl", &format!("{started}\n{finished}\n"));
}

#[test]
fn a_run_that_fine_tunes_is_shown_by_every_program() {
    let context = TestContext::new();
    killed_run(&context);
    let status = context.succeed_json(&["status", "runs/tuned", "--json"]);
    assert_eq!(
        (&status["phase"], &status["n_steps"], &status["total_steps"]),
        (&json!("interrupted"), &json!(4), &json!(8))
    );
    let sft = &status["sft"];
    assert_eq!((&sft["loss"], &sft["validation_loss"]), (&json!(0.5), &json!(0.75)));
    assert_eq!((&sft["tokens_per_second"], &sft["games"]["won"]), (&json!(200.0), &json!(3)));
    let said = context.succeed(&["status", "runs/tuned"]);
    for part in
        ["fine-tuning, 4/8 steps", "2.0000 → 0.5000", "3 of 10 won (11 to 60 %)", "200 tokens/s, 2.00 GB"]
    {
        assert!(said.contains(part), "{part}\n{said}");
    }
    let report = context.succeed_json(&["report", "runs/tuned", "--json"]);
    assert_eq!(report["steps"].as_array().map(Vec::len), Some(4));
    context.succeed(&["report", "runs/tuned", "--output", "page.html"]);
    let page = context.read("page.html");
    let shown = [
        "Loss by step",
        "Games won by step",
        "Learning rate by step",
        "Norm of the gradient",
        "0.7500",
        "lora",
    ];
    assert_names(&page, &shown);
    context.run(&["compare", "runs/tuned", "runs/tuned"]).fails(code::RUN_DIR, &["weights"]);

    let (_serving, url) = Serving::start(&context, &["serve", "runs", "--listen", "127.0.0.1:0"]);
    wait_for(&url, "tuned");
    assert!(get(&url, "/").contains("fine-tuning") && get(&url, "/report/tuned").contains("Loss by step"));
    let metrics = get(&url, "/metrics");
    let lines = [
        "skillrl_run_loss{run=\"tuned\",part=\"train\"} 0.5",
        "skillrl_run_loss{run=\"tuned\",part=\"validation\"} 0.75",
        "skillrl_run_steps_total{run=\"tuned\"} 4",
        "skillrl_run_games{run=\"tuned\",what=\"won\"} 3",
    ];
    assert_names(&metrics, &lines);
}

#[cfg(feature = "weights")]
mod built_in {
    use super::{TestContext, code};
    use crate::context::{CHAT_TINY, local_model};
    use serde_json::{Value, json};

    fn task() -> TestContext {
        let model = local_model(", temperature = 0.0");
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
            let summary = context.json(&format!("{out}/sft_summary.json"));
            assert_eq!((&summary["counts"]["used"], &summary["counts"]["lost"]), (&json!(4), &json!(1)));
            let loss = |place: usize| summary["loss"][place].as_f64().unwrap();
            assert!(loss(1) < loss(0), "{summary}");
            assert_eq!(summary["after"]["games"]["played"], 1);
            let policy = format!("{out}/policy");
            let eval = ["eval", "task/skillrl.toml", "--policy", &policy, "--split", "test", "--json"];
            let measured = context.succeed_json(&eval);
            assert_eq!(measured["n"], 2, "{measured}");
            let by_batch = [&eval[..], &["--check-batch"]].concat();
            let by_batch = context.succeed_json(&by_batch);
            let rows = by_batch["batches"].as_array().unwrap();
            let batches: Vec<&Value> = rows.iter().map(|row| &row["batch_rows"]).collect();
            // Two tasks are never more than eight together.
            assert_eq!(batches, [1, 8], "{by_batch}");
            for row in rows {
                let found = ["n", "n_scored_otherwise", "n_said_otherwise"].map(|field| &row[field]);
                assert_eq!(found, [2, 0, 0], "{by_batch}");
            }
        }
    }

    /// The replies of a policy on the test split.
    fn replies(context: &TestContext, policy: &str, out: &str) -> Vec<Value> {
        let eval = ["eval", "task/skillrl.toml", "--policy", policy, "--split", "test", "--out", out];
        context.run(&eval).assert_code(code::SUCCESS);
        let results = context.json(&format!("{out}/results.json"));
        let results = results.as_array().unwrap();
        results.iter().map(|result| result["predicted_answer"].clone()).collect()
    }

    #[test]
    fn a_policy_is_exported_as_a_model_that_answers_as_it_does() {
        let context = task();
        for (out, rank) in [("adapter", "4"), ("full", "0")] {
            context.run(&sft(out, &["--lora-rank", rank])).assert_code(code::SUCCESS);
            let served = format!("{out}-served");
            let merged = context.succeed_json(&["export", out, "--policy", &served, "--json"]);
            assert_eq!(merged["n_merged"].as_u64() > Some(0), rank == "4", "{merged}");
            let file = std::fs::read(context.path(&format!("{served}/model.safetensors"))).unwrap();
            assert_eq!(merged["bytes"], file.len());
            assert_eq!(context.json(&format!("{served}/config.json"))["torch_dtype"], "float16");
            let sums = context.read(&format!("{served}/SHA256SUMS"));
            for name in ["model.safetensors", "config.json", "tokenizer.json", "chat_template.jinja"] {
                assert!(sums.lines().any(|line| line.ends_with(&format!("  {name}"))), "{name}: {sums}");
            }
            let policy = format!("{out}/policy");
            let [trained, exported] =
                [&policy, &served].map(|policy| replies(&context, policy, &format!("{policy}-measured")));
            assert_eq!((&exported, exported.len()), (&trained, 2));
            // The weights of the base answer otherwise.
            assert_ne!(exported, replies(&context, CHAT_TINY, &format!("{out}-base")));
        }
        context
            .run(&["export", "adapter", "--policy", "adapter-served"])
            .refused(code::USAGE, &["adapter-served"]);
        context.succeed(&["export", "adapter/policy", "--policy", "adapter-served", "--force"]);
    }

    #[test]
    fn what_no_server_can_load_is_not_exported() {
        let context = task();
        let export = |from: &str, more: &[&str]| {
            context.run(&[&["export", from, "--policy", "served"][..], more].concat())
        };
        export("nowhere", &[]).refused(code::RUN_DIR, &["nowhere"]);
        context.run(&sft("run", &[])).assert_code(code::SUCCESS);
        // The base has moved.
        let config = context.read("run/policy/adapter_config.json").replace(CHAT_TINY, "/gone");
        context.remove("run/policy/SHA256SUMS");
        context.write("run/policy/adapter_config.json", &config);
        export("run", &[]).refused(code::USAGE, &["/gone"]);
        context.write("model.gguf", "");
        export("run", &["--base", "model.gguf"]).refused(code::USAGE, &["GGUF"]);
        export("run", &["--base", CHAT_TINY]).assert_code(code::SUCCESS);
        // An adapter of another model.
        let other = config.replace("\"r\": 16", "\"r\": 8");
        assert_ne!(other, config);
        context.write("run/policy/adapter_config.json", &other);
        export("run", &["--base", CHAT_TINY, "--force"]).refused(code::USAGE, &["lora_A"]);
        assert!(!context.path("served/model.safetensors.part").exists());
        // Neither what is merged nor a run is written into; an index of another model in the folder goes.
        context.write("run/policy/adapter_config.json", &config);
        for place in ["run", "run/policy", CHAT_TINY] {
            let into = ["export", "run", "--policy", place, "--base", CHAT_TINY, "--force"];
            context.run(&into).fails(code::USAGE, &[place]);
        }
        context.write("served/model.safetensors.index.json", "{}");
        export("run", &["--base", CHAT_TINY, "--force"]).assert_code(code::SUCCESS);
        assert!(!context.path("served/model.safetensors.index.json").exists());
        // The small decoder of simulated targets, and weights that a server has.
        context.write("simulated/initial_policy/config.json", "{}");
        context.write("simulated/policy/config.json", "{}");
        context.write("simulated/policy/model.safetensors", "");
        export("simulated", &["--force"]).refused(code::USAGE, &["decoder"]);
        context.write("remote/policy/tinker.json", "{}");
        export("remote", &["--force"]).refused(code::USAGE, &["server"]);
    }

    #[test]
    fn batches_are_not_compared_on_an_empty_split() {
        let context = task();
        context.remove("task/data/test.jsonl");
        let by_batch =
            ["eval", "task/skillrl.toml", "--policy", CHAT_TINY, "--split", "test", "--check-batch"];
        let no_test = ["--set", "eval.test=false"];
        context.run(&[&by_batch[..], &no_test].concat()).refused(code::DATA, &["the test split", "no items"]);
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
        let cost = context.succeed_json(&sft("run", &["--dry-run", "--json"]));
        assert!(cost["steps"].as_u64() > Some(0) && cost["step_seconds"].as_f64() > Some(0.0), "{cost}");
        assert!(!context.path("run").exists());
    }

    /// A household with few games, whose optimizer is scripted: it says the same whatever it is asked.
    fn household(sft: &str) -> TestContext {
        let context = TestContext::new();
        let text = format!(
            "[run]\ndir = \"run\"\n\n[models.target]\nkind = \"local\"\npath = \"{CHAT_TINY}\"\n\n\
             [models.optimizer]\nkind = \"scripted\"\nfile = \"teacher.json\"\n\n[env]\nkind = \"alfworld\"\nmax_train = 3\n\
             max_val = 1\nmax_test = 1\n\n[sft]\nepochs = 1\nbatch_size = 4\nexamples = 8\nlora_rank = 2\n{sft}"
        );
        context.write("household.toml", &text);
        let reason = json!({"reason": "I do the next thing that the task needs."}).to_string();
        let script = json!({"version": 1, "rules": [], "otherwise": {"reply": reason}});
        context.write("teacher.json", &script.to_string());
        context
    }

    #[test]
    fn a_teacher_writes_reasons_that_are_kept_and_one_that_refuses_ends_the_run() {
        let context = household("reasoning = \"teacher\"\n");
        context.run(&["sft", "household.toml"]).assert_code(code::SUCCESS);
        let summary = context.json("run/sft_summary.json");
        let counts = &summary["counts"];
        assert!(counts["reasons"].as_u64() > Some(10), "{summary}");
        assert_eq!(counts["reasons_refused"], 0);
        assert!(context.path("run.calls/journal.sqlite").is_file());
        let recorded = context.json("run/config.json");
        assert!(recorded["identity"]["sft.reasons"].is_string(), "{recorded}");
        let script = json!({"version": 1, "rules": [], "otherwise": {"error": {"class": "authentication", "message": "no"}}});
        context.write("teacher.json", &script.to_string());
        context.run(&["sft", "household.toml", "--out", "other"]).assert_code(code::PROVIDER_REFUSED);
        context
            .run(&["sft", "household.toml", "--set", "env.think=false"])
            .fails(code::USAGE, &["sft.reasoning"]);
    }

    #[test]
    fn the_expert_of_a_world_demonstrates_and_options_override_the_section() {
        let context = household("");
        let said = context.run(&["sft", "household.toml", "--batch-size", "2", "--learning-rate", "0.001"]);
        said.assert_code(code::SUCCESS);
        let summary = context.json("run/sft_summary.json");
        assert!(summary["counts"]["used"].as_u64() > Some(0), "{summary}");
        let recorded = context.json("run/config.json");
        let sft = &recorded["config"]["sft"];
        assert_eq!(
            [&sft["batch_size"], &sft["learning_rate"], &sft["epochs"]],
            [&json!(2), &json!(0.001), &json!(1)]
        );
        // A changed setting needs another run directory, and an invalid number of examples is refused.
        context.run(&["sft", "household.toml", "--epochs", "2"]).assert_code(code::OTHER_RUN);
        context.run(&["sft", "household.toml", "--num-examples", "0"]).assert_code(code::USAGE);
    }

    #[test]
    fn memory_is_predicted_and_a_measured_step_is_used() {
        let context = task();
        let config = ["task/skillrl.toml", "--set", "sft.epochs=6", "--set", "run.dir=whole"];
        let doctor = context.run(&[&["doctor"][..], &config, &["--offline", "--json"]].concat());
        let found: Value = serde_json::from_str(&doctor.stdout).unwrap();
        let of_training = |finding: &&Value| finding["check"] == "training" && finding["status"] == "ok";
        let said: Vec<&Value> = found["findings"].as_array().unwrap().iter().filter(of_training).collect();
        assert_eq!(said.len(), 2, "{found}");
        let estimate = || context.run(&[&["estimate"][..], &config].concat()).stderr;
        let before = estimate();
        assert!(before.contains("of memory") && before.contains("skillrl sft --dry-run"), "{before}");
        context.run(&sft("whole", &["--quiet"])).assert_code(code::SUCCESS);
        let after = estimate();
        assert!(after.contains("a step of the run in"), "{after}");
    }

    #[test]
    fn what_cannot_be_trained_is_refused() {
        let context = task();
        let cases = [
            (vec!["sft", "task/skillrl.toml"], code::USAGE),
            (sft("run", &["--resume"]), code::RUN_DIR),
            (sft("run", &["--skill-bank", "nothing"]), code::USAGE),
            (vec!["eval", "task/skillrl.toml", "--policy", "task"], code::USAGE),
        ];
        for (args, expected) in cases {
            context.run(&args).assert_code(expected);
        }
    }
}
