//! `skillrl eval`.

use crate::context::{TestContext, assert_same_files, code, parsed, without_tokens};
use crate::said::assert_names;
use crate::server::{self, Server};
use serde_json::Value;

const CONFIG: &str = "task/skillrl.toml";

#[test]
fn eval_measures_a_skill_on_a_split() {
    let context = TestContext::with_demo();
    let config = "demo/skillrl.toml";
    insta::assert_snapshot!("eval_val", without_tokens(&context.succeed(&["eval", config])));
    context.succeed(&["train", config, "--quiet"]);
    let text = context.succeed(&["eval", config, "--split", "test"]);
    insta::assert_snapshot!("eval_test", without_tokens(&text));

    let summary = context.json("demo/run/summary.json");
    for (skill, score) in
        [("demo/run/best_skill.md", "test_hard"), ("demo/initial_skill.md", "baseline_test_hard")]
    {
        let args = ["eval", config, "--skill", skill, "--split", "test", "--json", "--out", "out", "--force"];
        let text = context.succeed(&args);
        assert_eq!(text.lines().count(), 1, "{text}");
        let value = parsed(&text);
        assert_eq!(value["hard"], summary[score], "{skill}");
        assert_eq!(
            (&value["split"], &value["skill"], &value["n"]),
            (&"test".into(), &skill.into(), &40.into())
        );
        assert_eq!(context.json("out/summary.json")["hard"], value["hard"]);
        assert_eq!(context.json("out/results.json").as_array().unwrap().len(), 40);
    }
}

/// Replies of a server that leaves thoughts in the text: the answer behind them is scored, and that is said once.
#[test]
fn thoughts_in_replies_are_not_scored_and_told_of_once() {
    let measured = |said: &str, tags: &str| {
        let context = TestContext::new();
        let scripted =
            |reply: &str| serde_json::json!({"version": 1, "rules": [], "otherwise": {"reply": reply}});
        context.write("target.json", &scripted(said).to_string());
        context.write("optimizer.json", &scripted("{}").to_string());
        let items = (0..12).map(|number| {
            format!("{{\"question\": \"Question {number}{tags}?\", \"answer\": \"shipping\"}}\n")
        });
        context.write("data.jsonl", &items.collect::<String>());
        context.write(
            "skillrl.toml",
            "[models]\ntarget = { kind = \"scripted\", file = \"target.json\" }\n\
             optimizer = { kind = \"scripted\", file = \"optimizer.json\" }\n\
             [env]\nkind = \"tasks\"\ndata = \"data.jsonl\"\nscorer = \"exact\"\n",
        );
        let outcome = context.run(&["eval", "skillrl.toml", "--split", "test", "--json"]);
        outcome.assert_code(code::SUCCESS);
        let hard = parsed(&outcome.stdout)["hard"].as_f64();
        (hard, outcome.stderr.matches("leaves what the model thinks").count())
    };
    assert_eq!(measured("It is late.\n</think>\n\nshipping", ""), (Some(1.0), 1));
    assert_eq!(measured("<think>It is late.</think>shipping", ""), (Some(1.0), 1));
    assert_eq!(measured("<think>shipping", ""), (Some(0.0), 1));
    assert_eq!(measured("shipping", ""), (Some(1.0), 0));
    // Who asks for a thought in the text wants it there.
    assert_eq!(measured("<think>It is late.</think>shipping", " (think in <think> first)"), (Some(1.0), 0));
}

/// What cannot be compared with is refused before anything is paid for, and listed where the data are looked at.
#[test]
fn references_that_are_not_numbers_are_refused_and_answers_without_one_counted() {
    let context = TestContext::new();
    let scripted = serde_json::json!({"version": 1, "rules": [], "otherwise": {"reply": "between 3 and 5"}});
    context.write("model.json", &scripted.to_string());
    context.write(
        "skillrl.toml",
        "[models]\ntarget = { kind = \"scripted\", file = \"model.json\" }\n\
         optimizer = { kind = \"scripted\", file = \"model.json\" }\n\
         [env]\nkind = \"tasks\"\ndata = \"data.jsonl\"\nscorer = \"numeric\"\n",
    );
    let data = |reference: &str| {
        let answer = |number: usize| if number == 9 { reference } else { "5" };
        let item = |number| {
            format!(
                "{{\"id\": \"i{number}\", \"question\": \"Question {number}?\", \"answer\": \"{}\"}}\n",
                answer(number)
            )
        };
        context.write("data.jsonl", &(0..12).map(item).collect::<String>());
    };
    for reference in ["12:30", "5-7", "3:2", "42 ± 1", "none"] {
        data(reference);
        for command in [
            &["eval", "skillrl.toml"][..],
            &["train", "skillrl.toml", "-y"],
            &["env", "check", "skillrl.toml"],
        ] {
            context.run(command).fails(code::DATA, &["data.jsonl, line 10", reference]);
        }
        // An item that is as it should be can still be tried.
        let outcome =
            context.run(&["env", "check", "skillrl.toml", "--item", "i0", "--answer", "5.0", "--json"]);
        outcome.assert_code(code::DATA);
        assert_eq!(parsed(&outcome.stdout)["tries"][0]["hard"], 1.0);
    }
    data("5");
    let outcome = context.run(&["eval", "skillrl.toml", "--split", "test", "--json"]);
    outcome.assert_code(code::SUCCESS);
    let summary = parsed(&outcome.stdout);
    assert_eq!((&summary["hard"], &summary["n_without_number"]), (&0.0.into(), &summary["n"]));
    assert!(outcome.stderr.contains("hold no number"), "{}", outcome.stderr);
}

/// Its summary would be replaced, and nothing could read the run any more.
#[test]
fn an_evaluation_is_not_written_into_a_run() {
    let context = TestContext::with_finished_demo();
    let before = context.files("demo/run");
    let outcome = context.run(&["eval", "demo/skillrl.toml", "--split", "test", "--out", "demo/run"]);
    outcome.assert_code(code::USAGE);
    let said =
        "error: demo/run is the directory of a run, which this would damage\nhint: name another directory";
    assert!(outcome.stderr.contains(said), "{}", outcome.stderr);
    assert_same_files(&before, &context.files("demo/run"));
}

#[test]
fn the_test_split_of_an_unfinished_run_comes_with_a_warning() {
    let warning = "warning: this is the test split of the run in task/run, which is not finished";
    let (server, context) = Server::start_with_task();
    let warns = |split: &str| {
        let outcome = context.run(&["eval", CONFIG, "--split", split, "--quiet"]);
        outcome.assert_code(code::SUCCESS);
        outcome.stderr.contains(warning)
    };
    assert!(!warns("test"), "there is no run");
    server.answer_with(server::outage_after(7));
    context.run(&["train", CONFIG]).assert_code(code::OUTAGE);
    server.answer_with(|_, request| server::healthy(request));
    assert!(warns("test"));
    assert!(!warns("val"), "the selection split may be looked at");
    context.succeed(&["train", CONFIG]);
    assert!(!warns("test"), "the run is finished");
}

#[test]
fn an_evaluation_with_a_directory_goes_on_where_it_stopped() {
    let (server, context) = Server::start_with_task();
    let eval = ["eval", CONFIG, "--split", "train", "--out", "out", "--json", "--set", "run.workers=1"];
    server.answer_with(server::outage_after(3));
    context.run(&eval).assert_code(code::OUTAGE);
    assert!(!context.path("out/summary.json").exists(), "there is no score over a part of a split");
    server.answer_with(|_, request| server::healthy(request));
    let first = context.succeed(&eval);
    assert_eq!(server.n_calls(), 1, "three of four were measured before");
    assert_eq!(context.json("out/summary.json")["tokens"]["calls"], 4);
    assert_eq!(context.succeed(&eval), first);
    assert_eq!(server.n_calls(), 1);
}

#[test]
fn what_cannot_be_compared_is_not_measured() {
    let (server, context) = Server::start_with_task();
    context.succeed(&["eval", CONFIG, "--out", "val"]);
    let n_before = server.n_calls();
    context
        .run(&["eval", CONFIG, "--split", "test", "--out", "test", "--against", "val"])
        .fails(code::USAGE, &["val/results.json"]);
    assert_eq!(server.n_calls(), n_before);
}

/// A measurement is evidence: another one takes its place only where that is asked.
#[test]
fn a_measurement_is_not_replaced_by_another_one_unasked() {
    let (server, context) = Server::start_with_task();
    context.write("other.md", "# Other\n");
    let out = ["eval", CONFIG, "--out", "out"];
    context.succeed(&out);
    let again = context.succeed(&out);
    assert_names(&again, &["used 2 replies, ", "no request was sent"]);
    let (before, n_before) = (context.files("out"), server.n_calls());
    for (more, what) in [
        (["--skill", "other.md"], "the measurement of another skill ("),
        (["--split", "test"], "a measurement on other items"),
    ] {
        let args = [out.as_slice(), &more].concat();
        context.run(&args).fails(code::USAGE, &[&format!("error: out holds {what}")]);
        assert!(context.files("out") == before && server.n_calls() == n_before);
    }
    let other_model = [out.as_slice(), &["--set", "models.target.temperature=0.5"]].concat();
    let refused = context.run(&other_model);
    refused.assert_code(code::USAGE);
    let what = "out holds a measurement with other settings (`models.target.temperature` was ";
    assert!(refused.stderr.contains(what), "{}", refused.stderr);
    context.succeed(&[out.as_slice(), &["--set", "run.workers=3", "--quiet"]].concat());
    assert!(server.n_calls() == n_before);
    let replaced = [out.as_slice(), &["--skill", "other.md", "--force"]].concat();
    context.succeed(&replaced);
    assert_ne!(context.json("out/summary.json")["skill_hash"], "");
    assert!(context.files("out") != before);
}

#[test]
fn a_skill_is_measured_against_an_earlier_one_and_a_drop_can_fail() {
    let context = TestContext::with_finished_demo();
    let eval = |skill: &str, more: &[&str]| {
        let skill = format!("demo/run/skills/skill_v{skill}.md");
        context.run(&[&["eval", "demo/skillrl.toml", "--quiet", "--skill", &skill], more].concat())
    };
    eval("0012", &["--out", "good"]).assert_code(0);
    eval("0000", &["--out", "bad"]).assert_code(0);
    let against_itself = eval("0012", &["--against", "good", "--fail-on-drop"]);
    against_itself.assert_code(0);
    assert!(against_itself.stdout.contains("+0.0 points"), "{}", against_itself.stdout);
    eval("0012", &["--against", "bad", "--fail-on-drop"]).assert_code(0);
    eval("0000", &["--against", "good"]).assert_code(0);
    let dropped = eval("0000", &["--against", "good", "--fail-on-drop", "--json"])
        .fails(code::REGRESSED, &["significantly less"]);
    let value = parsed(&dropped.stdout);
    assert!(value["against"]["difference"].as_f64().unwrap() < -0.5, "{value}");

    // So few items exclude no small loss, which is found before anything is measured.
    let hopeless = eval("0012", &["--against", "good", "--max-drop", "1", "--out", "unpaid"]);
    hopeless.fails(code::USAGE, &["--max-drop "]);
    assert!(!context.path("unpaid").exists());
    eval("0012", &["--against", "good", "--max-drop", "20", "--min-score", "80"]).assert_code(0);
    // A directory of several measurements names one.
    eval("0012", &["--against", "."]).fails(code::USAGE, &["./bad"]);
    // A number below 0 is a wrong value, and no option.
    eval("0012", &["--min-score", "-1"]).fails(code::USAGE, &["from 0 to 100"]);
    for limit in [&["--against", "good", "--max-drop", "20"][..], &["--min-score", "80 %"]] {
        let broken = eval("0000", &[limit, &["--markdown"]].concat());
        broken.assert_code(code::REGRESSED);
        assert_names(&broken.stdout, &["**Failed:**", "| all | "]);
        let value = parsed(&eval("0000", &[limit, &["--json"]].concat()).stdout);
        assert_eq!(value["broken_limits"].as_array().map(Vec::len), Some(1), "{value}");
    }

    // What is not a measurement is found before anything is measured.
    eval("0000", &["--against", "nowhere", "--out", "unpaid"]).fails(code::USAGE, &["nowhere"]);
    assert!(!context.path("unpaid").exists());
    eval("0000", &["--fail-on-drop"]).assert_code(code::USAGE);
    eval("0000", &["--max-drop", "3"]).assert_code(code::USAGE);
}

#[test]
fn a_measurement_has_its_interval_and_what_the_run_measured() {
    let context = TestContext::with_finished_demo();
    let eval = ["eval", "demo/skillrl.toml", "--split", "test"];
    let measured = context.succeed_json(&[&eval[..], &["--json", "--quiet"]].concat());
    let (hard, interval) = (measured["hard"].as_f64().unwrap(), &measured["interval"]);
    assert!(interval[0].as_f64().unwrap() < hard && hard <= interval[1].as_f64().unwrap(), "{measured}");
    // These models always answer the same.
    assert_eq!(
        (&measured["in_run"]["hard"], &measured["in_run"]["flip_rate"]),
        (&measured["hard"], &0.0.into())
    );
    let other = context.succeed_json(&[&eval[..], &["--skill", "demo/initial_skill.md", "--json"]].concat());
    assert_eq!(other["in_run"]["hard"], context.json("demo/run/summary.json")["baseline_test_hard"]);
    let another = [&eval[..], &["--skill", "other.md", "--json"]].concat();
    context.write("other.md", "# Another skill\n");
    assert_eq!(context.succeed_json(&another)["in_run"], Value::Null);
}

/// An item is the same where its text, its label and its scorer are: an id may be the number of a row.
#[test]
fn only_the_same_items_with_the_same_labels_and_scorer_are_compared() {
    let (server, context) = Server::start_with_task();
    let data = "task/data/val.jsonl";
    let eval =
        |more: &[&str]| context.run(&[&["eval", CONFIG, "--against", "before", "--json"], more].concat());
    context.succeed(&["eval", CONFIG, "--out", "before"]);
    // Another model or another question to it does not make the items others.
    for more in [&[][..], &["--set", "models.target.temperature=0.5"], &["--set", "env.max_tokens=99"]] {
        let outcome = eval(more);
        outcome.assert_code(code::SUCCESS);
        assert_eq!(parsed(&outcome.stdout)["against"]["n"], 2, "{}", outcome.stdout);
    }
    let (n_calls, text) = (server.n_calls(), context.read(data));
    eval(&["--set", "env.scorer=contains"]).fails(code::USAGE, &["before/results.json", "`env.scorer`"]);
    context.replace(data, "[\"valword1\"]", "[\"another\"]");
    eval(&["--out", "after"]).fails(code::USAGE, &["before/results.json", "the data of the val split"]);
    assert!(server.n_calls() == n_calls && !context.path("after").exists());
    context.write(data, &text);
    // An earlier version wrote neither these nor hashes.
    context.remove("before/measured_with.json");
    context.remove("before/SHA256SUMS");
    eval(&[]).fails(code::USAGE, &["before/results.json", "not recorded"]);

    // An evaluation of a run is of the data of the run.
    context.succeed(&["train", CONFIG]);
    let against_run = ["eval", CONFIG, "--split", "test", "--against", "task/run/test_eval_best", "--json"];
    assert_eq!(context.succeed_json(&against_run)["against"]["n"], 2);
    context.replace("task/data/test.jsonl", "[\"testword1\"]", "[\"another\"]");
    context.run(&against_run).fails(code::USAGE, &["the data of the test split"]);
}

/// After the data have changed, a score of the run is not comparable, and the run may have trained on the test items.
#[test]
fn a_split_that_is_not_that_of_the_run_is_told_and_not_compared() {
    let context = TestContext::with_finished_demo();
    let eval = || {
        let outcome = context.run(&["eval", "demo/run", "--split", "test", "--json"]);
        outcome.assert_code(code::SUCCESS);
        let is_warned = outcome.stderr.contains("warning: the test split is not that of the run in ");
        (is_warned, parsed(&outcome.stdout)["in_run"].is_null())
    };
    assert_eq!(eval(), (false, false));
    let other_scorer = ["eval", "demo/run", "--split", "test", "--json", "--set", "env.scorer=contains"];
    assert_eq!(context.succeed_json(&other_scorer)["in_run"], Value::Null);
    let rows = context.read("demo/data/test.jsonl");
    context.write("demo/data/test.jsonl", rows.split_once('\n').unwrap().1);
    assert_eq!(eval(), (true, true));
}

/// A cap is for what is measured now: what other skills had cost in the directory is another matter, and what a process
/// that ended early had cost is not.
#[test]
fn a_cap_is_for_what_is_measured_and_not_for_what_it_replaces() {
    let (server, context) = Server::start_with_task();
    let measure = |skill: &str, n_calls: u64| {
        let (path, cap) = (format!("{skill}.md"), format!("budget.calls={n_calls}"));
        context.write(&path, &format!("# {skill}\n"));
        let before = server.n_calls();
        let args =
            ["eval", CONFIG, "--split", "train", "--skill", &path, "--out", "out", "--force", "--set", &cap];
        let outcome = context.run(&args);
        (outcome.code.unwrap(), server.n_calls() - before)
    };
    for skill in ["first", "second", "third"] {
        assert_eq!(measure(skill, 5), (code::SUCCESS, 4), "{skill}");
    }
    // One that was begun goes on by what it has sent, also at a cap that is its own calls.
    assert_eq!(measure("fourth", 3), (code::BUDGET, 3));
    assert_eq!(measure("fourth", 3), (code::BUDGET, 0));
    assert_eq!(measure("fourth", 4), (code::SUCCESS, 1));
    assert_eq!(measure("fourth", 4), (code::SUCCESS, 0));
    // What an earlier version left has no note of whose calls these are.
    context.remove("out/spent_before.json");
    assert_eq!(measure("fifth", 5), (code::SUCCESS, 4));
    assert_eq!(measure("first", 1), (code::SUCCESS, 0), "its replies are kept");
}

#[test]
fn a_cap_is_for_the_episodes_that_are_collected_now() {
    let (server, context) = Server::start_with_task();
    let collect = |skill: &str, n_calls: &str| {
        context.write("other.md", &format!("# {skill}\n"));
        let before = server.n_calls();
        let args =
            ["collect", CONFIG, "--out", "episodes.jsonl", "--quiet", "--force", "--skill", "other.md"];
        let outcome = context.run(&[&args[..], &["--set", n_calls]].concat());
        (outcome.code.unwrap(), server.n_calls() - before)
    };
    assert_eq!(collect("first", "budget.calls=5"), (code::SUCCESS, 4));
    assert_eq!(collect("second", "budget.calls=3"), (code::BUDGET, 3));
    assert_eq!(collect("second", "budget.calls=4"), (code::SUCCESS, 1));
    assert_eq!(collect("third", "budget.calls=5"), (code::SUCCESS, 4));
}

#[test]
fn a_damaged_measurement_is_named_and_compared_with_nothing() {
    let context = TestContext::with_scripted_task();
    let eval = ["eval", "task/skillrl.toml", "--skill", "task/skill.md", "--json"];
    let with = |more: &[&'static str]| [&eval[..], more].concat();
    context.succeed(&with(&["--out", "m"]));
    context.succeed(&["check", "m"]);
    for file in ["results.json", "summary.json", "measured_with.json"] {
        let text = context.read(&format!("m/{file}"));
        context.write(&format!("m/{file}"), &text.replacen('0', "1", 1));
        context.run(&["check", "m"]).assert_code(code::DAMAGED);
        context.run(&with(&["--against", "m"])).fails(code::RUN_DIR, &[file]);
        context.run(&with(&["--out", "m"])).fails(code::RUN_DIR, &[file]);
        context.write(&format!("m/{file}"), &text);
    }
    context.succeed(&with(&["--against", "m"]));
    // One of an earlier version has no hashes, and gets them when it is written again.
    context.remove("m/SHA256SUMS");
    let outcome = context.run(&with(&["--against", "m"]));
    outcome.assert_code(code::SUCCESS);
    assert!(outcome.stderr.contains("warning: "), "{}", outcome.stderr);
    context.succeed(&with(&["--out", "m"]));
    context.succeed(&["check", "m"]);
    assert!(context.path("m/SHA256SUMS").is_file());
}

#[test]
fn runs_whose_results_were_changed_are_not_compared() {
    let context = TestContext::with_scripted_task();
    context.succeed(&["train", "task/skillrl.toml", "--quiet", "--set", "run.dir=run"]);
    context.copy_dir("run", "other");
    context.succeed(&["compare", "run", "other"]);
    let file = "other/test_eval_best/results.json";
    let text = context.read(file);
    context.write(file, &text.replacen("\"hard\": 1", "\"hard\": 0", 1));
    assert_ne!(context.read(file), text);
    context.run(&["compare", "run", "other"]).fails(code::RUN_DIR, &["results.json"]);
}
