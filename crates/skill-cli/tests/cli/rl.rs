//! `skillrl rl`.

use crate::context::{TestContext, code};
use crate::said::assert_names;
use crate::serve::{Serving, get, wait_for};
use serde_json::{Value, json};

#[cfg(not(feature = "weights"))]
#[test]
fn a_program_without_local_models_says_how_to_get_reinforcement_learning() {
    let context = TestContext::with_task("{ kind = \"simulated\" }", "{ kind = \"simulated\" }");
    context.run(&["rl", "task/skillrl.toml"]).fails(code::USAGE, &["--features full"]);
}

/// An iteration of two groups of four episodes.
fn iteration(number: u32, won: u32, entropy: f64) -> Value {
    json!({"iteration": number, "tasks": 2, "episodes": 8, "won": won, "reward": f64::from(won) / 8.0 - 0.05,
           "invalid_actions": 4, "groups_without_signal": 0.5, "rows": 4, "tokens": 900, "sampled_tokens": 160,
           "entropy": entropy, "kl": 0.0125, "clipped": 0.02, "loss": 0.1, "grad_norm": 0.75, "steps": 1,
           "by_task_type": {"heat": [won, 4], "look": [0, 4]}})
}

/// The files of a run that was killed in its fourth of eight iterations.
fn killed_run(context: &TestContext) {
    let write = |name: &str, text: &str| context.write(&format!("runs/grpo/{name}"), text);
    let identity = json!({"rl.group_size": 4, "rl.method": {"lora": {"rank": 4, "alpha": 8.0}}});
    let config =
        json!({"format_version": "2.0", "config": {"env": {"kind": "alfworld"}}, "identity": identity});
    write("config.json", &config.to_string());
    let mut done = [iteration(1, 1, 1.5), iteration(2, 2, 1.25), iteration(3, 3, 1.0)];
    let numbers = json!({"groups": 8, "informative_groups": 5, "with": [9, 16], "without": [6, 16], "p_better": 0.2,
        "p_worse": 0.9, "e_better": 1.5, "e_worse": 0.4, "difference": 0.1875, "interval": [-0.1, 0.45],
        "odds": 2.0, "odds_interval": {"low": 0.5, "high": 9.0}});
    done[1]["bank"] = json!({"version": "v1", "active": 1, "trial": "hea_001", "admitted": ["hea_001"]});
    done[2]["bank"] = json!({"version": "v1", "active": 1,
        "measured": [{"skill": "hea_001", "occasion": "after_admission", "numbers": numbers}]});
    let lines: String = done.iter().map(|record| format!("{record}\n")).collect();
    // The end of a line that was being written.
    write("iterations.jsonl", &format!("{lines}{{\"iteration\": 4, "));
    let games = |won: u32| json!({"won": won, "played": 10, "score": 0.3, "interval": [0.11, 0.6]});
    let validation = |iteration: u32, won: u32| json!({"iteration": iteration, "games": games(won)});
    write("validation.jsonl", &format!("{}\n{}\n", validation(0, 1), validation(3, 3)));
    let started = json!({"event": "run_started", "total_steps": 8, "finished_steps": 0});
    let finished =
        |record: &Value| json!({"event": "rl_iteration_finished", "record": record, "seconds": 2.0});
    let events: String = done.iter().map(|record| format!("{}\n", finished(record))).collect();
    write("events.jsonl", &format!("{started}\n{events}"));
}

#[test]
fn a_run_of_reinforcement_learning_is_shown_by_every_program() {
    let context = TestContext::new();
    killed_run(&context);
    let status = context.succeed_json(&["status", "runs/grpo", "--json"]);
    assert_eq!(
        (&status["phase"], &status["n_steps"], &status["total_steps"]),
        (&json!("interrupted"), &json!(3), &json!(8))
    );
    let rl = &status["rl"];
    let found =
        [&rl["reward"], &rl["kl"], &rl["clipped"], &rl["entropy"], &rl["reply_tokens"], &rl["grad_norm"]];
    assert_eq!(found, [0.325, 0.0125, 0.02, 1.0, 20.0, 0.75].map(Value::from).each_ref());
    assert_eq!((&rl["groups_without_signal"], &rl["tokens_per_second"]), (&json!(0.5), &json!(80.0)));
    assert_eq!((&rl["episodes"], &rl["by_task_type"]["heat"]), (&json!([3, 8]), &json!([3, 4])));
    assert_eq!((&rl["first_games"]["won"], &rl["games"]["won"]), (&json!(1), &json!(3)));
    let said = context.succeed(&["status", "runs/grpo"]);
    let names = [
        "3/8 iterations",
        "0.075 → 0.325",
        "1 of 8 → 3 of 8",
        "heat 3 of 4",
        "3 of 10 won (11 to 60 %)",
        "80 tokens/s",
    ];
    assert_names(&said, &names);
    let report = context.succeed_json(&["report", "runs/grpo", "--json"]);
    assert_eq!(report["iterations"].as_array().map(Vec::len), Some(3));
    assert_eq!(report["task_types"][0]["won"], json!([[1, 0.25], [2, 0.5], [3, 0.75]]));
    context.succeed(&["report", "runs/grpo", "--output", "page.html"]);
    let page = context.read("page.html");
    let curves = [
        "Mean return",
        "Episodes won",
        "Games won by iteration",
        "Groups without a signal",
        "Divergence",
        "Entropy",
        "Clipped tokens",
        "Reply length",
        "Invalid actions",
        "Gradient norm",
        "Speed",
    ];
    for part in curves {
        assert!(page.contains(&format!("aria-label=\"{part}\"")), "{part}");
    }
    assert!(page.contains("rl.group_size") && page.contains("<summary>heat</summary>"));
    assert_eq!(report["bank"]["changes"], json!([1, 0, 0]));
    assert!(page.contains("hea_001") && page.contains("after admission"), "the bank is shown");
    context.succeed(&["report", "runs/grpo", "--tensorboard", "tb"]);
    let events = std::fs::read(context.path("tb/events.out.tfevents.skillrl")).unwrap();
    let n_returns = events.windows(12).filter(|part| part == b"train/return").count();
    assert_eq!(n_returns, 3);
    context.run(&["compare", "runs/grpo", "runs/grpo"]).fails(code::RUN_DIR, &["weights"]);

    let (_serving, url) = Serving::start(&context, &["serve", "runs", "--listen", "127.0.0.1:0"]);
    wait_for(&url, "grpo");
    assert!(get(&url, "/").contains("reinforcement learning"));
    assert!(get(&url, "/report/grpo").contains("aria-label=\"Mean return\""));
    let metrics = get(&url, "/metrics");
    let lines = [
        "skillrl_run_return{run=\"grpo\"} 0.325",
        "skillrl_run_episodes{run=\"grpo\",task_type=\"heat\",what=\"won\"} 3",
        "skillrl_run_kl{run=\"grpo\"} 0.0125",
        "skillrl_run_clipped_share{run=\"grpo\"} 0.02",
        "skillrl_run_entropy{run=\"grpo\"} 1",
        "skillrl_run_reply_tokens{run=\"grpo\"} 20",
        "skillrl_run_groups_without_signal{run=\"grpo\"} 0.5",
        "skillrl_run_grad_norm{run=\"grpo\"} 0.75",
        "skillrl_run_tokens_per_second{run=\"grpo\"} 80",
        "skillrl_run_steps_total{run=\"grpo\"} 3",
        "skillrl_run_games{run=\"grpo\",what=\"won\"} 3",
    ];
    assert_names(&metrics, &lines);
}

#[test]
fn signs_of_a_failing_run_are_named_with_what_to_try() {
    let context = TestContext::new();
    killed_run(&context);
    let lost = |number: u32| {
        let mut record = iteration(number, 0, 0.0);
        (record["groups_without_signal"], record["steps"]) = (json!(1.0), json!(0));
        format!("{record}\n")
    };
    let lost: String = (4..=6).map(lost).collect();
    let before = (1..=3).map(|number| format!("{}\n", iteration(number, number, 1.0)));
    context.write("runs/grpo/iterations.jsonl", &(before.collect::<String>() + &lost));
    let status = context.succeed_json(&["status", "runs/grpo", "--json"]);
    let signs = status["rl"]["signs"].as_array().unwrap();
    assert_eq!(signs.len(), 1, "{status}");
    assert_eq!((&signs[0]["sign"], &signs[0]["first_iteration"]), (&json!("all_lost"), &json!(6)));
    let [message, advice] = ["message", "advice"].map(|name| signs[0][name].as_str().unwrap());
    let said = context.succeed(&["status", "runs/grpo"]).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains(&format!("sign {message}")) && said.contains(advice), "{said}");
    context.succeed(&["report", "runs/grpo", "--output", "page.html"]);
    let page = context.read("page.html");
    assert!(page.contains("id=\"signs\"") && page.contains(advice), "{page}");
    let (_serving, url) = Serving::start(&context, &["serve", "runs", "--listen", "127.0.0.1:0"]);
    wait_for(&url, "grpo");
    assert!(get(&url, "/metrics").contains("skillrl_run_sign{run=\"grpo\",sign=\"all_lost\"} 1"));
    assert!(get(&url, "/").contains("<span class=\"tag\">all lost</span>"));
}

#[test]
fn a_finished_run_that_is_extended_is_not_finished() {
    let context = TestContext::new();
    killed_run(&context);
    let summary = |iterations: u32| {
        let summary = json!({"format_version": "2.0", "iterations": iterations, "tokens": 900,
                             "first": iteration(1, 1, 1.5), "last": iteration(3, 3, 1.0), "policy_state": "x"});
        context.write("runs/grpo/rl_summary.json", &summary.to_string());
        let status = context.succeed_json(&["status", "runs/grpo", "--json"]);
        status["phase"].clone()
    };
    assert_eq!([summary(3), summary(2)], [json!("finished"), json!("interrupted")]);
}

#[cfg(feature = "weights")]
mod built_in {
    use super::{TestContext, code};
    use crate::context::{Outcome, local_model};
    use serde_json::{Value, json};

    fn task() -> TestContext {
        let model = local_model(", temperature = 0.0");
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
            let status = context.succeed_json(&["status", &out, "--json"]);
            assert_eq!((&status["phase"], &status["rl"]["iteration"]), (&json!("finished"), &json!(2)));
            assert!(status["rl"]["tokens_per_second"].as_f64() > Some(0.0), "{status}");
            assert!(context.read(&format!("{out}/report.html")).contains("Games won by iteration"));
            // A finished run is extended, and its first iterations stay.
            let longer = rl(&out, &["--lora-rank", rank, "--games", "1", "--iterations", "3", "--resume"]);
            context.run(&longer).assert_code(code::SUCCESS);
            let longer = context.read(&format!("{out}/iterations.jsonl"));
            assert!(longer.starts_with(&lines) && longer.lines().count() == 3);
            let policy = format!("{out}/policy");
            let eval = ["eval", "task/skillrl.toml", "--policy", &policy, "--split", "test", "--json"];
            let measured = context.succeed_json(&eval);
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
        // Without a kind the tasks of such a file are households.
        let tasks = ["--set", "env.kind=qa", "--set", &data];
        let json = [&["rl", "task/config.json", "--policy", "run/policy", "--quiet"][..], &tasks].concat();
        let sizes = ["--tasks", "2", "--out", "of-json"];
        // Such a file trains a bank, whose teacher needs a key; without a validation before the end nobody is asked.
        let of_json = [&json[..], &sizes].concat();
        let outcome = Outcome::of(context.command(&of_json).env("OPENAI_API_KEY", "k").output().unwrap());
        outcome.assert_code(code::SUCCESS);
        assert!(context.path("of-json/bank/log.jsonl").is_file());
        let identity = &context.json("of-json/config.json")["identity"];
        let names = ["group_size", "batch_size", "max_reply_tokens", "clip_epsilon", "tasks"];
        let found = names.map(|name| identity[&format!("rl.{name}")].clone());
        assert_eq!(found, [json!(3), json!(4), json!(6), json!(0.3), json!(2)]);
        context
            .run(&[&json[..], &["--out", "x", "--group-size", "1"]].concat())
            .fails(code::USAGE, &["`rl.group_size`"]);
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
