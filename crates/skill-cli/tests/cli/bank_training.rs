//! `skillrl collect`, `distill`, `eval --bank`, and `train` where a bank is trained.

use crate::context::{TestContext, assert_same_files, code, parsed, set};
use crate::said::assert_names;
use crate::server::{self, Server, model_at};
use serde_json::{Value, json};
use std::path::Path;
use wiremock::ResponseTemplate;

/// A small household with simulated models.
const HOUSEHOLD: &str = r#"[run]
dir = "run"

[models]
target = { kind = "simulated", sim_seed = 7 }
optimizer = { kind = "simulated", sim_seed = 7 }

[env]
kind = "alfworld"
max_train = 12
max_val = 6
max_test = 6
history_turns = 30
max_turns = 30
max_repetitions = 3
"#;

/// What the last line of a command says when all replies were kept.
const NOTHING_SENT: &str = "no request was sent now";

pub(crate) fn household() -> TestContext {
    let context = TestContext::new();
    context.write("household.toml", HOUSEHOLD);
    context
}

/// A household with episodes of its training games in `episodes.jsonl`.
fn with_episodes() -> TestContext {
    let context = household();
    context.succeed(&["collect", "household.toml", "--out", "episodes.jsonl", "--quiet"]);
    context
}

fn distill<'args>(file: &'args str, out: &'args str, more: &[&'args str]) -> Vec<&'args str> {
    [&["distill", file, "--config", "household.toml", "--out", out, "--quiet"], more].concat()
}

/// The command that trains a bank in one round of evolution, with short trials and these settings.
fn train<'a>(settings: &[&'a str]) -> Vec<&'a str> {
    let short = [
        "train.mode=bank",
        "evolution.rounds=1",
        "evolution.max_trials=2",
        "evolution.max_trial_rollouts=64",
    ];
    [&["train", "household.toml", "--quiet"][..], &set(&short), &set(settings)].concat()
}

/// Episodes by their ids, as a file of `collect` has them.
fn ids(text: &str) -> Vec<String> {
    text.lines().map(|line| parsed(line)["id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn episodes_are_collected_once() {
    let context = household();
    let collect = ["collect", "household.toml", "--out", "episodes.jsonl"];
    let first = context.succeed(&collect);
    assert!(!first.contains(NOTHING_SENT), "{first}");
    let episodes = context.read("episodes.jsonl");
    assert_eq!(ids(&episodes).len(), 12);
    let again = context.succeed(&collect);
    assert_names(&again, &[NOTHING_SENT]);
    assert_eq!(context.read("episodes.jsonl"), episodes, "the same file");
    // A process that died before it had noted that its file is finished.
    let made = context.read("episodes.jsonl.calls/made_from");
    context.write("episodes.jsonl.calls/made_from", &format!("begun {made}"));
    assert_names(&context.succeed(&collect), &[NOTHING_SENT]);
    assert_eq!(context.read("episodes.jsonl.calls/made_from"), made);

    let value = context.succeed_json(&[&collect[..], &["--json"]].concat());
    assert_eq!((&value["episodes"], &value["split"]), (&12.into(), &"train".into()));
    let types = value["by_task_type"].as_object().unwrap();
    assert_eq!(types.len(), 6, "{types:?}");
    let sum = |name: &str| types.values().map(|of_type| of_type[name].as_u64().unwrap()).sum::<u64>();
    assert_eq!(sum("episodes"), 12);
    assert_eq!(value["successes"], sum("successes"));
}

#[test]
fn a_distillation_that_died_behind_its_bank_is_finished_by_the_same_command() {
    let context = with_episodes();
    let command = distill("episodes.jsonl", "bank", &[]);
    context.succeed(&command);
    let log = context.read("bank/log.jsonl");
    // It dies before it has noted that the bank is finished.
    let made = context.read("bank.calls/made_from");
    context.write("bank.calls/made_from", &format!("begun {made}"));
    context.remove("bank/measurements.json");
    context.succeed(&command);
    assert_eq!((context.read("bank/log.jsonl"), context.read("bank.calls/made_from")), (log, made.clone()));
    assert!(context.path("bank/measurements.json").is_file());
    // What a person made of the bank meanwhile is not taken for it.
    context.write("bank.calls/made_from", &format!("begun {made}"));
    let first = parsed(context.read("bank/log.jsonl").lines().nth(1).unwrap());
    let id = first["skill"].as_str().unwrap().to_owned();
    context.succeed(&["bank", "pin", "bank", &id]);
    context.run(&command).assert_code(code::RUN_DIR);
}

#[test]
fn each_task_is_tried_once_before_any_is_tried_again() {
    let context = household();
    for (n_episodes, out) in [(5, "few.jsonl"), (15, "many.jsonl")] {
        let n = n_episodes.to_string();
        context.succeed(&["collect", "household.toml", "--episodes", &n, "--output", out, "--quiet"]);
        assert_eq!(ids(&context.read(out)).len(), n_episodes, "{out}");
    }
    let (few, many) = (ids(&context.read("few.jsonl")), ids(&context.read("many.jsonl")));
    assert_eq!(few, many[..5]);
    let sample = |id: &String| id.rsplit_once('/').unwrap().1.to_owned();
    let samples: Vec<String> = many.iter().map(sample).collect();
    assert_eq!(samples, [["0"; 12].as_slice(), &["1"; 3]].concat());
    context
        .run(&["collect", "household.toml", "--split", "dev", "--out", "x.jsonl"])
        .refused(code::USAGE, &["dev"]);
    std::fs::create_dir(context.path("dir")).unwrap();
    context.run(&["collect", "household.toml", "--out", "dir"]).refused(code::USAGE, &["dir"]);
}

/// Counted where the requests arrive.
#[test]
fn a_collection_that_an_outage_ended_asks_only_for_what_is_missing() {
    let (server, context) = Server::start_with_task();
    let collect =
        ["collect", "task/skillrl.toml", "--out", "episodes.jsonl", "--quiet", "--set", "run.workers=1"];
    server.answer_with(server::outage_after(3));
    context.run(&collect).assert_code(code::OUTAGE);
    assert!(!context.path("episodes.jsonl").exists());
    server.answer_with(|_, request| server::healthy(request));
    context.succeed(&collect);
    assert_eq!((server.n_calls(), ids(&context.read("episodes.jsonl")).len()), (1, 4));
    context.succeed(&collect);
    assert_eq!(server.n_calls(), 1, "all replies were kept");
}

#[test]
fn a_directory_gets_candidates_and_a_file_active_skills() {
    let context = with_episodes();
    let made = context.succeed_json(&distill("episodes.jsonl", "bank", &["--json"]));
    let n_skills = made["skills"].as_u64().unwrap();
    let summary = context.succeed_json(&["inspect", "bank", "--json"])["summary"].clone();
    assert_eq!((&summary["skills"], &summary["measured"]), (&n_skills.into(), &0.into()), "{summary}");
    let states = |bank: &str| {
        let shown = context.succeed_json(&["bank", "show", bank, "--json"]);
        let tiers = shown["tiers"].as_array().unwrap().clone();
        let skills = tiers.iter().flat_map(|tier| tier["skills"].as_array().unwrap());
        skills.map(|skill| skill["state"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert!(states("bank").iter().all(|state| state == "candidate"));
    let by_tier = made["by_tier"].as_object().unwrap();
    assert_eq!(by_tier.values().map(|n| n.as_u64().unwrap()).sum::<u64>(), n_skills);
    assert!(by_tier.contains_key("general") && by_tier.contains_key("mistakes"), "{by_tier:?}");
    assert!(made["calls"].as_u64().unwrap() > 0);
    // What a skill was made from is kept.
    let blame = context.succeed_json(&["bank", "blame", "bank", "--json"]);
    let versions = &blame["skills"][0]["versions"][0];
    assert_eq!(versions["source"], "distilled");
    assert!(!versions["evidence"]["items"].as_array().unwrap().is_empty(), "{versions}");

    context.succeed(&distill("episodes.jsonl", "bank.json", &[]));
    let paper = context.json("bank.json");
    let n_general = paper["general_skills"].as_array().unwrap().len() as u64;
    assert_eq!(by_tier["general"], n_general);
    assert!(paper["task_specific_skills"].is_object() && paper["common_mistakes"].is_array());
    assert!(states("bank.json").iter().all(|state| state == "active"));

    context.succeed(&distill("episodes.jsonl", "active", &["--admit", "unmeasured"]));
    assert!(states("active").iter().all(|state| state == "active"));
    // The seeds' names of the arguments.
    let seeds = ["distill", "--trajectories", "episodes.jsonl", "--output", "seeds.json", "--config"];
    context.succeed(&[&seeds[..], &["household.toml", "--quiet"]].concat());
    assert_eq!(context.read("seeds.json"), context.read("bank.json"));

    // The same again is done, and nothing is written over unasked.
    for (out, expect) in [("bank", code::RUN_DIR), ("bank.json", code::USAGE)] {
        let files = context.files(".");
        context.succeed(&distill("episodes.jsonl", out, &[]));
        assert_same_files(&context.files("."), &files);
        let other = distill("episodes.jsonl", out, &["--max", "3"]);
        context.run(&other).refused(expect, &[out]);
        assert_same_files(&context.files("."), &files);
    }
    let forced = context.succeed(&distill("episodes.jsonl", "bank.json", &["--force"]));
    assert_names(&forced, &[NOTHING_SENT]);
}

#[test]
fn files_that_hold_no_or_half_an_episode_are_said() {
    let context = with_episodes();
    let episodes = context.read("episodes.jsonl");
    let whole: Vec<&str> = episodes.lines().collect();
    let last = whole[7].get(..whole[7].len() / 2).unwrap();
    context.write("cut.jsonl", &format!("{}\n{last}", whole[..7].join("\n")));
    let outcome = context.run(&distill("cut.jsonl", "of-a-cut-file", &[]));
    outcome.assert_code(code::SUCCESS);
    assert_names(&outcome.stderr, &["cut.jsonl", "line 8", "7 episodes"]);
    assert_names(&outcome.stdout, &["from 7 episodes"]);

    context.write("prose.jsonl", "The agent went to the kitchen.\nIt found a mug.\n");
    context.write("empty.jsonl", "");
    for file in ["prose.jsonl", "empty.jsonl", "nowhere.jsonl"] {
        context.run(&distill(file, "bank", &[])).refused(code::USAGE, &[file]);
        assert!(!context.path("bank").exists(), "{file}");
    }
    let outcome = context.run(&["distill", "--config", "household.toml", "--out", "bank"]);
    outcome.assert_code(code::USAGE);
}

#[test]
fn a_dead_teacher_leaves_no_bank() {
    let context = with_episodes();
    context.replace(
        "household.toml",
        "optimizer = { kind = \"simulated\", sim_seed = 7 }",
        &format!("optimizer = {}", model_at(&server::closed_address(), "teacher")),
    );
    let patience = ["--set", "retry.max_attempts=2", "--set", "retry.first_delay_s=0.001"];
    for out in ["bank", "bank.json"] {
        context
            .run(&distill("episodes.jsonl", out, &patience))
            .refused(code::OUTAGE, &["distill", "`base_url`"]);
        assert!(!context.path(out).exists(), "{out}");
    }
}

/// Prose and an empty list; one object instead of a list is a skill all the same.
#[test]
fn a_teacher_whose_replies_cannot_be_used_leaves_no_bank() {
    let context = with_episodes();
    let server = Server::start();
    context.replace(
        "household.toml",
        "optimizer = { kind = \"simulated\", sim_seed = 7 }",
        &format!("optimizer = {}", server.model("teacher")),
    );
    server.answer_with(|_, _| server::reply("They should look around first.", "stop"));
    context.run(&distill("episodes.jsonl", "prose", &[])).refused(code::OUTAGE, &["distill"]);
    assert!(!context.path("prose").exists());
    // To propose nothing is a result.
    server.answer_with(|_, _| server::reply("{\"skills\": []}", "stop"));
    let made = context.succeed_json(&distill("episodes.jsonl", "nothing", &["--json"]));
    assert_eq!(made["skills"], 0, "{made}");
    assert_names(&made.to_string(), &["`general`", "`mistakes`"]);
    let one = r#"{"title": "Look first", "principle": "Look around before you act.", "when_to_apply": "Always.",
        "description": "Acting blindly", "why_it_happens": "Haste.", "how_to_avoid": "Look around first."}"#;
    server.answer_with(move |_, _| server::reply(one, "stop"));
    let made = context.succeed_json(&distill("episodes.jsonl", "one", &["--json"]));
    assert!(made["skills"].as_u64().unwrap() > 0, "{made}");
}

#[test]
fn a_bank_is_measured_against_none() {
    let context = with_episodes();
    context.succeed(&distill("episodes.jsonl", "candidates", &[]));
    let eval = |bank: &str, more: &[&str]| {
        context.run(&[&["eval", "household.toml", "--bank", bank, "--quiet"], more].concat())
    };
    eval("candidates", &[]).refused(code::USAGE, &["candidates", "no active skill"]);

    context.succeed(&distill("episodes.jsonl", "active", &["--admit", "unmeasured"]));
    let outcome = eval("active", &["--split", "val", "--json", "--out", "measured"]);
    outcome.assert_code(code::SUCCESS);
    let value = parsed(&outcome.stdout);
    assert_eq!(value["split"], "val");
    assert_eq!(value["skills"], value["unmeasured"], "none was tried");
    for half in ["with", "without"] {
        let hard = value[half]["hard"].as_f64().unwrap();
        assert!((0.0..=1.0).contains(&hard));
        assert_eq!(value[half]["n"], 6);
    }
    assert_eq!(value["items"].as_object().unwrap().len(), 6);
    let shown = value["items"].as_object().unwrap().values();
    let n_shown: usize = shown.map(|ids| ids.as_array().unwrap().len()).sum();
    let counts = value["shown"].as_object().unwrap().values();
    assert_eq!(counts.map(|n| n.as_u64().unwrap()).sum::<u64>(), n_shown as u64);
    assert_eq!(value["types"].as_object().unwrap().len(), 6, "{value}");
    assert_eq!(context.json("measured/bank_evaluation.json"), value);

    let again = eval("active", &["--split", "val", "--out", "measured"]);
    assert_names(&again.stdout, &[NOTHING_SENT]);
    assert_eq!(context.json("measured/bank_evaluation.json"), value);
    eval("active", &["--against", "skill.md"]).refused(code::USAGE, &["--against"]);
    eval("nowhere", &[]).refused(code::USAGE, &["nowhere"]);
}

#[test]
fn a_run_that_trains_a_bank_is_the_same_each_time() {
    let context = household();
    context.succeed(&train(&[]));
    let files = context.untimed_files("run");
    for file in
        ["bank/log.jsonl", "bank/bank.json", "bank/measurements.json", "rounds/round_0000/record.json"]
    {
        assert!(files.contains_key(Path::new(file)), "{file}");
    }
    let summary = context.json("run/bank_summary.json");
    assert_eq!((&summary["rounds"], &summary["n_items"]), (&1.into(), &serde_json::json!([6, 6])));
    let records: Vec<Value> =
        (0..2).map(|round| context.json(&format!("run/rounds/round_000{round}/record.json"))).collect();
    let n_trials: usize = records.iter().map(|record| record["trials"].as_array().unwrap().len()).sum();
    assert_eq!(summary["trials"][0], n_trials);
    assert!(n_trials > 0);
    for record in &records {
        let trials = record["trials"].as_array().unwrap();
        assert!(trials.len() <= 2, "{} trials", trials.len());
        for trial in trials {
            // The fresh measurement after an admission comes on top.
            let is_fresh = !trial["fresh"].is_null();
            assert!(is_fresh || trial["rollouts"].as_u64().unwrap() <= 64, "{trial}");
        }
    }
    // The bank of a run is a bank for every command.
    context.succeed(&["inspect", "run/bank"]);
    // Training has written the report, which has the results of single items.
    assert!(context.read("run/report.html").contains("Test split, without"));
    let report = context.succeed_json(&["report", "run", "--json"]);
    for split in ["selection", "test"] {
        assert_eq!((&report[split]["after"]["n"], &report[split]["paired"]["n"]), (&6.into(), &6.into()));
        let after = if split == "test" { "test" } else { "score" };
        assert_eq!(report[split]["after"]["hard"], summary[after]["hard"]);
    }
    let n_rollouts: u64 =
        records[1]["rates"].as_array().unwrap().iter().map(|rate| rate["rollouts"].as_u64().unwrap()).sum();
    for (skill, n_shown) in records[1]["shown"].as_object().unwrap() {
        assert!(n_shown.as_u64().unwrap() <= n_rollouts, "{skill}");
    }

    let kept = |context: &TestContext| context.succeed(&["journal", "stats", "run", "--json"]);
    let before = kept(&context);
    context.succeed(&train(&[]));
    assert_same_files(&context.untimed_files("run"), &files);
    assert_eq!(kept(&context), before, "nothing is sent");

    // One worker, and a cap on the way, come to the same files.
    let other = household();
    let args = train(&["run.workers=1"]);
    other.run(&[&args[..], &["--set", "budget.calls=400"]].concat()).assert_code(code::BUDGET);
    other.succeed(&args);
    assert_same_files(&other.untimed_files("run"), &files);

    // Other rounds are another run.
    context.run(&train(&["evolution.rounds=2"])).fails(code::OTHER_RUN, &["evolution.rounds"]);
}

#[test]
fn rollouts_count_for_later_rounds_while_their_type_is_shown_the_same() {
    let rates = |context: &TestContext, round: u32| {
        let record = context.json(&format!("run/rounds/round_000{round}/record.json"));
        record["rates"].as_array().unwrap().clone()
    };
    let counts =
        |rate: &Value| (rate["rollouts"].as_u64().unwrap(), rate["pooled"]["rollouts"].as_u64().unwrap());
    // Without trials nothing is admitted, so nothing that is shown changes.
    let still = household();
    still.succeed(&train(&["evolution.max_trials=0", "evolution.rounds=2"]));
    for rate in rates(&still, 2) {
        let (rollouts, pooled) = counts(&rate);
        assert_eq!(pooled, 3 * rollouts, "{rate}");
    }
    // Without measuring, round 0 admits all that was distilled.
    let changed = household();
    changed.succeed(&train(&["bank.admit=unmeasured"]));
    let restarted =
        rates(&changed, 1).iter().map(counts).filter(|(rollouts, pooled)| rollouts == pooled).count();
    assert!(restarted > 0);
}

#[test]
fn doctor_says_what_the_training_of_a_bank_takes() {
    let context = household();
    let settings = ["--set", "train.mode=bank", "--set", "evolution.rounds=2", "--set", "budget.calls=10"];
    let report =
        context.succeed_json(&[&["doctor", "household.toml", "--offline", "--json"][..], &settings].concat());
    let estimate = context.succeed_json(&[&["estimate", "household.toml", "--json"][..], &settings].concat());
    let findings = report["findings"].as_array().unwrap();
    let cost: Vec<&Value> = findings.iter().filter(|finding| finding["check"] == "cost").collect();
    let calls = |bound: &str| estimate["total"]["calls"][bound].to_string();
    let expected = format!("{} to {} calls", calls("low"), calls("high"));
    assert_names(cost[0]["message"].as_str().unwrap(), &["2 rounds", &expected, "teacher"]);
    // The cap is compared with the bank's calls, not with those of a document.
    assert_eq!(cost[1]["status"], "warning");
    assert_names(cost[1]["message"].as_str().unwrap(), &["`budget.calls`", &calls("low")]);
}

#[test]
fn a_run_that_trains_a_bank_takes_what_was_estimated() {
    let context = household();
    let settings = ["evolution.rounds=0", "evolution.max_trials=1", "evolution.max_trial_rollouts=32"];
    let estimate = ["estimate", "household.toml", "--json", "--set", "train.mode=bank"];
    let estimate = context.succeed_json(&[&estimate[..], &set(&settings)].concat());
    context.succeed(&train(&settings));
    let stats = context.succeed_json(&["journal", "stats", "run", "--json"]);
    let of_stage = |name: &Value| {
        let stages = stats["by_stage_and_model"].as_array().unwrap();
        stages.iter().find(|stage| stage["stage"] == *name).cloned().unwrap_or_default()
    };
    for stage in estimate["stages"].as_array().unwrap() {
        let found = of_stage(&stage["stage"]);
        for (bound, taken) in [
            ("calls", &found["replies"]),
            ("input_tokens", &found["usage"]["input"]),
            ("output_tokens", &found["usage"]["output"]),
        ] {
            assert!(taken.as_u64() <= stage[bound]["high"].as_u64(), "{bound} {stage} {found}");
        }
    }
}

#[test]
fn a_run_that_trains_a_bank_is_replayed_without_a_call() {
    let context = household();
    context.succeed(&train(&["evolution.rounds=0", "evolution.max_trials=1"]));
    let files = context.untimed_files("run");
    let text = context.succeed(&["replay", "run", "--quiet"]);
    assert_names(&text, &["run-replay/bank:", ", 0 sent", "identical:"]);
    assert_same_files(&context.untimed_files("run-replay"), &files);
    // What the recording does not hold ends a strict replay, and is sent by a live one.
    let longer = ["replay", "run", "--into", "longer", "--set", "evolution.rounds=1", "--quiet"];
    context.run(&longer).fails(code::DIVERGED, &["1 finished step", "--live"]);
    let text = context.succeed(&[&longer[..], &["--live"]].concat());
    assert_names(&text, &["changed:", "evolution.rounds", "The recorded run's result:"]);
    assert!(!text.contains(", 0 sent"), "{text}");
    // A change of the recorded bank is found.
    let log = context.read("run/bank/log.jsonl");
    context.write("run/bank/log.jsonl", &log.replacen("process", "person", 1));
    context.run(&["replay", "run", "--quiet"]).fails(code::DIVERGED, &["bank/log.jsonl is the first file"]);
}

/// A distilled bank is where a run begins; tasks that its skills were made from try none of them.
#[test]
fn a_run_of_a_bank_is_measured_with_its_bank() {
    let context = household();
    context.succeed(&train(&[]));
    let named = context.run(&["eval", "run", "--bank", "run/bank", "--split", "test"]);
    let alone = context.run(&["eval", "run", "--split", "test"]);
    assert_eq!((alone.code, &alone.stdout), (named.code, &named.stdout));
    assert_names(&alone.stderr, &["run/bank"]);
    context
        .run(&["eval", "run", "--min-score", "50"])
        .refused(code::USAGE, &["trains a bank", "--min-score"]);
}

#[test]
fn candidates_of_a_distilled_bank_are_tried_on_other_tasks() {
    let context = household();
    for (n_episodes, is_tried) in [("6", true), ("12", false)] {
        let (episodes, bank, run) =
            (format!("{n_episodes}.jsonl"), format!("of-{n_episodes}"), format!("run-{n_episodes}"));
        let collect = ["collect", "household.toml", "--quiet", "--episodes", n_episodes, "--out", &episodes];
        context.succeed(&collect);
        context.succeed(&distill(&episodes, &bank, &[]));
        let (initial, dir) = (format!("bank.initial={bank}"), format!("run.dir={run}"));
        context.succeed(&train(&[&initial, &dir]));
        let record = context.json(&format!("{run}/rounds/round_0000/record.json"));
        assert_eq!(record["proposed"], serde_json::json!([]), "the bank is there already");
        let trials = record["trials"].as_array().unwrap();
        assert_eq!(trials.len(), 2);
        let read: Vec<String> = ids(&context.read(&episodes));
        for trial in trials {
            let items = trial["items"].as_array().unwrap();
            assert_eq!(!items.is_empty(), is_tried, "{trial}");
            assert_eq!(trial["problem"].is_null(), is_tried, "{trial}");
            for item in items {
                let is_read = |id: &String| id.rsplit_once('/').unwrap().0 == item.as_str().unwrap();
                assert!(!read.iter().any(is_read), "{item} is what the skill was made from");
            }
        }
    }
}

#[test]
fn skills_that_people_wrote_are_tried_and_reported_without_evidence() {
    let context = household();
    let skill = serde_json::json!({"skill_id": "gen_001", "title": "Open what is closed", "principle": "Open it.",
        "when_to_apply": "Always."});
    let bank =
        serde_json::json!({"general_skills": [skill], "task_specific_skills": {}, "common_mistakes": []});
    context.write("own.json", &bank.to_string());
    context.succeed(&["bank", "import", "own.json", "--out", "own", "--admit", "measured"]);
    let outcome = context.run(&train(&["bank.initial=own", "evolution.rounds=0"]));
    outcome.assert_code(code::SUCCESS);
    assert!(!outcome.stderr.contains("warning"), "{}", outcome.stderr);
    assert_names(&context.read("run/report.html"), &["Open what is closed", "none recorded"]);
}

#[test]
fn keys_that_mean_nothing_for_what_is_trained_are_refused_by_name() {
    let context = household();
    for (setting, in_bank_mode) in [
        ("train.edit_budget=2", true),
        ("gate.metric=soft", true),
        ("evolution.rounds=2", false),
        ("bank.admit=unmeasured", false),
    ] {
        let check = |mode: &str, expect: i32| {
            let mode = format!("train.mode={mode}");
            let outcome =
                context.run(&["config", "show", "household.toml", "--set", setting, "--set", &mode]);
            outcome.assert_code(expect);
            outcome.stderr
        };
        let (refused_in, taken_in) = if in_bank_mode { ("bank", "document") } else { ("document", "bank") };
        let (key, _) = setting.split_once('=').unwrap();
        assert_names(&check(refused_in, code::USAGE), &[&format!("`{key}`"), "`train.mode`"]);
        check(taken_in, code::SUCCESS);
    }
    assert!(!context.path("run").exists());
}

#[test]
fn a_bank_is_not_trained_on_with_a_new_journal() {
    let context = household();
    context
        .run(&[&train(&[])[..], &["--new-journal"]].concat())
        .refused(code::USAGE, &["--new-journal", "`run.dir`"]);
    assert!(!context.path("run").exists());
}

#[test]
fn a_distillation_says_whose_items_it_cannot_keep_out_of_skills() {
    let context = with_episodes();
    for split in ["train", "val", "test"] {
        context.write(&format!("data/{split}.jsonl"), "this is not JSON\n");
    }
    let config = context.read("household.toml");
    let (models, _) = config.split_once("[env]").unwrap();
    context.write("other.toml", &format!("{models}[env]\nkind = \"qa\"\ndata = \"data\"\n"));
    let args = ["distill", "episodes.jsonl", "--config", "other.toml", "--out", "bank", "--quiet"];
    let outcome = context.run(&args);
    outcome.assert_code(code::SUCCESS);
    assert_names(&outcome.stderr, &["warning", "`[env]`", "train.jsonl"]);
}

#[test]
fn a_measurement_of_a_bank_is_replaced_only_where_that_is_asked() {
    let context = with_episodes();
    for (out, settings) in [("one", ""), ("other", "run.seed=2")] {
        let settings: &[&str] = if settings.is_empty() { &[] } else { &["--set", settings] };
        context
            .succeed(&[&distill("episodes.jsonl", out, &["--admit", "unmeasured"])[..], settings].concat());
    }
    let first = context.json("one/measurements.json")["skills"][0]["id"].as_str().unwrap().to_owned();
    context.succeed(&["bank", "retire", "other", &first]);
    let eval = |bank: &str, more: &[&str]| {
        let args = ["eval", "household.toml", "--bank", bank, "--out", "measured", "--quiet"];
        context.run(&[&args[..], more].concat())
    };
    eval("one", &[]).assert_code(code::SUCCESS);
    let kept = context.json("measured/bank_evaluation.json");
    for (bank, more, name) in [
        ("other", vec![], "bank.version"),
        ("one", vec!["--split", "train"], "data"),
        ("one", vec!["--set", "env.max_turns=20"], "max_turns"),
        ("one", vec!["--set", "retrieval.top_k=1"], "retrieval"),
    ] {
        eval(bank, &more).refused(code::USAGE, &["measured", name, "--force"]);
        assert_eq!(context.json("measured/bank_evaluation.json"), kept, "{name}");
    }
    eval("other", &["--force"]).assert_code(code::SUCCESS);
    assert_ne!(context.json("measured/bank_evaluation.json"), kept);
    context.write("measured/bank_evaluation.json", "{}");
    eval("one", &[]).refused(code::RUN_DIR, &["bank_evaluation.json"]);
    // An earlier version wrote no hashes.
    context.remove("measured/SHA256SUMS");
    eval("one", &[]).refused(code::USAGE, &["measured", "--force"]);
}

#[test]
fn a_measurement_of_a_bank_warns_as_that_of_a_skill_does() {
    let context = with_episodes();
    context.succeed(&distill("episodes.jsonl", "bank", &["--admit", "unmeasured"]));
    context.run(&train(&["budget.calls=20"])).assert_code(code::BUDGET);
    let eval = ["eval", "household.toml", "--bank", "bank", "--quiet"];
    let warned = context.run(&[&eval[..], &["--split", "test", "--json"]].concat());
    warned.assert_code(code::SUCCESS);
    assert_names(&warned.stderr, &["warning", "test split"]);
    // What was shown is what the results say.
    let value = parsed(&warned.stdout);
    let n_shown: usize =
        value["items"].as_object().unwrap().values().map(|ids| ids.as_array().unwrap().len()).sum();
    assert!(n_shown > 0);
    // Without a directory nothing is kept, which is said.
    let capped = context.run(&[&eval[..], &["--set", "budget.calls=5"]].concat());
    assert_names(&capped.stderr, &["--out DIR"]);
}

#[test]
fn a_model_that_gives_no_vectors_is_found_before_a_rollout_is_made() {
    let server = Server::start();
    server.answer_with(|_, request| match request.url.path().ends_with("/models") {
        true => ResponseTemplate::new(200).set_body_json(json!({"data": [{"id": "vectors"}]})),
        false => ResponseTemplate::new(404).set_body_json(json!({"error": {"message": "no such model"}})),
    });
    let context = household();
    context.succeed(&train(&["evolution.rounds=0", "bank.admit=unmeasured", "run.dir=by_type"]));
    let model = format!("base_url = \"{}/v1\"\nmodel = \"vector\"\n", server.address());
    context
        .append("household.toml", &format!("[retrieval]\nmode = \"embedding\"\n[models.embedding]\n{model}"));

    let doctor = ["doctor", "household.toml", "--json", "--set", "train.mode=bank"];
    let outcome = context.run(&doctor);
    let report = parsed(&outcome.stdout);
    let findings = report["findings"].as_array().unwrap();
    let of_vectors = findings.iter().filter(|finding| finding["role"] == "embedding");
    let found: Vec<_> = of_vectors.map(|finding| (&finding["check"], &finding["status"])).collect();
    assert_eq!(found.last(), Some(&(&json!("answer"), &json!("error"))), "{report}");
    assert_eq!(report["ok"], false);
    // A document is trained without a bank.
    let of_document = parsed(&context.run(&["doctor", "household.toml", "--json"]).stdout);
    assert!(of_document["findings"].as_array().unwrap().iter().all(|found| found["role"] != "embedding"));

    context.run(&train(&[])).fails(code::PROVIDER_REFUSED, &["HTTP 404"]);
    assert!(!context.path("run/baseline_selection_eval").exists());
    let eval = ["eval", "household.toml", "--bank", "by_type/bank", "--out", "measured", "--quiet"];
    context.run(&eval).fails(code::PROVIDER_REFUSED, &["HTTP 404"]);
    let calls = context.succeed_json(&["journal", "stats", "measured/bank_evaluation.json.calls", "--json"]);
    assert_eq!(calls["totals"]["requests"], 1, "{calls}");
}

#[test]
fn a_bank_is_not_distilled_onto_a_file_that_is_no_bank() {
    let context = with_episodes();
    context.write("mine.txt", "mine");
    context.run(&distill("episodes.jsonl", "mine.txt", &[])).fails(code::USAGE, &["mine.txt", ".json"]);
    assert!(!context.path("mine.txt.calls").exists());
    assert_eq!(context.read("mine.txt"), "mine");
}

#[test]
fn a_bank_that_is_missing_or_shows_nothing_is_named() {
    let context = with_episodes();
    let eval = |bank: &str| context.run(&["eval", "household.toml", "--bank", bank]);
    eval("none.json").fails(code::USAGE, &["none.json"]);
    context.succeed(&distill("episodes.jsonl", "candidates", &[]));
    eval("candidates").fails(code::USAGE, &["candidates", "--admit"]);
}

#[test]
fn the_journals_of_a_run_of_phases_are_named() {
    let context = household();
    context.write("phased/config.json", "{}");
    context.write("phased/phases.json", "{\"format\": 1, \"finished\": []}");
    let stats = ["journal", "stats", "phased"];
    context.run(&stats).fails(code::USAGE, &["no phase"]);
    context.succeed(&train(&["evolution.rounds=0", "bank.admit=unmeasured", "run.dir=phased/rl"]));
    context.copy_dir("phased/rl", "phased/collect/trajectories.jsonl.calls");
    context.run(&stats).fails(code::USAGE, &["phased/collect/trajectories.jsonl.calls", "phased/rl"]);
    context.succeed(&["journal", "stats", "phased/rl"]);
}

#[test]
fn a_report_has_the_tokens_of_episodes_against_those_of_the_skills() {
    let context = household();
    context.run(&train(&["bank.admit=unmeasured"])).assert_code(code::SUCCESS);
    let record = context.json("run/rounds/round_0000/record.json");
    assert!(record["episode_tokens"].as_u64() > Some(0), "{record}");
    let report = context.succeed_json(&["report", "run", "--json"]);
    let [episodes, skills, ratio] = ["episode_tokens", "skill_tokens", "ratio"]
        .map(|field| report["compression"][field].as_f64().unwrap());
    assert!(episodes > skills && skills > 0.0 && (ratio - episodes / skills).abs() < 1e-9, "{report}");
    context.succeed(&["report", "run", "--output", "page.html"]);
    assert!(context.read("page.html").contains(&format!("{ratio:.1} : 1")), "{ratio}");
}

#[test]
fn a_run_with_episodes_in_place_of_skills_says_so_and_is_replayed() {
    let context = household();
    let episodes = train(&["bank.show=episodes", "evolution.max_trials=2"]);
    let output = context.run(&episodes);
    output.assert_code(code::SUCCESS);
    let idle = "`evolution.max_trial_rollouts`, `evolution.max_trials`, `evolution.rounds`";
    assert_names(&context.succeed(&[&["doctor", "household.toml"][..], &episodes[3..]].concat()), &[idle]);
    let record = context.json("run/rounds/round_0000/record.json");
    assert_eq!((&record["n_episodes"], &record["n_active"]), (&json!(12), &json!(12)), "{record}");
    assert!(record["tokens"].get("distill").is_none(), "{record}");
    let report = context.succeed_json(&["report", "run", "--json"]);
    assert_names(&report["verdict"].to_string(), &["12 recorded episodes", "bank.show"]);
    assert_names(&context.succeed(&["status", "run"]), &["12 recorded episodes"]);
    context.succeed(&["replay", "run"]);
    context.succeed(&["check", "run"]);
    context.run(&train(&[])).fails(code::OTHER_RUN, &["`bank.show`", "episodes"]);
    // The bank measures as any other, and trains only where episodes are shown.
    context.succeed(&["eval", "household.toml", "--bank", "run/bank"]);
    let initial = |show: &'static str| train(&["bank.initial=run/bank", show, "run.dir=next"]);
    context.run(&initial("bank.show=skills")).fails(code::DATA, &["12 recorded episodes", "bank.show"]);
    context.succeed(&initial("bank.show=episodes"));
}

#[test]
fn what_cannot_be_shown_in_place_of_skills_is_named() {
    let context = with_episodes();
    context
        .run(&train(&["bank.show=raw"]))
        .fails(code::USAGE, &["`bank.show`", "\"skills\"", "\"episodes\""]);
    context.succeed(&distill("episodes.jsonl", "skills", &[]));
    let shown = |bank: &'static str| train(&["bank.show=episodes", bank]);
    context.run(&shown("bank.initial=skills")).fails(code::DATA, &["skills", "no episodes are shown"]);
    let raw = ["--set", "train.mode=bank", "--set", "bank.show=episodes"];
    let from = |file: &'static str| distill(file, "raw", &raw);
    context.write("damaged.jsonl", "{\"episode_version\": 1, \"id\": ");
    context.run(&from("damaged.jsonl")).fails(code::USAGE, &["damaged.jsonl", "cut off"]);
    context.write("none.jsonl", "");
    context.run(&from("none.jsonl")).fails(code::USAGE, &["none.jsonl", "no episodes"]);
    let file = distill("episodes.jsonl", "raw.json", &raw);
    context.run(&file).fails(code::USAGE, &["file of skills"]);
    assert_names(&context.succeed(&from("episodes.jsonl")), &["12 recorded episodes"]);
}
