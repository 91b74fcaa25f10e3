//! The command lines of krill and of SkillRL in Rust: `--env`, `--mock`, JSON configurations; experts, and runs as
//! episodes.

use crate::context::{TestContext, code, parsed, set};
use crate::import::{KRILL, KRILL_KEY};
use crate::said::assert_names;
use crate::server::{closed_address, model_at};
use serde_json::Value;
use skillrl::core::ItemId;
use skillrl::pipeline::RunReader;
use skillrl::pipeline::bank::{RolloutUse, run_episodes};
use skillrl::pipeline::run_dir::EvaluationDir;
use std::collections::BTreeSet;

/// A household whose models cannot be reached, of few games and a short memory.
fn household() -> TestContext {
    let context = TestContext::new();
    let model = model_at(&closed_address(), "nobody");
    let text = format!(
        "[run]\ndir = \"run\"\n\n[models]\ntarget = {model}\noptimizer = {model}\n\n[env]\nkind = \"alfworld\"\n\
         max_train = 12\nmax_val = 6\nmax_test = 6\nhistory_turns = 4\n\n[retry]\nmax_attempts = 1\n"
    );
    context.write("household.toml", &text);
    context
}

/// A bank that is distilled and not evolved, with one short trial.
const SHORT: [&str; 7] = [
    "env.max_train=12",
    "env.max_val=6",
    "env.max_test=6",
    "evolution.rounds=0",
    "evolution.max_trials=1",
    "evolution.max_trial_rollouts=64",
    "env.max_turns=30",
];

fn episodes(context: &TestContext, file: &str) -> Vec<Value> {
    context.read(file).lines().map(parsed).collect()
}

/// The messages of the request of a turn.
fn request(episode: &Value, turn: usize) -> Vec<Value> {
    let trajectory = &episode["trajectory"];
    let places = trajectory["turns"][turn]["request"].as_array().unwrap();
    places.iter().map(|at| trajectory["messages"][at.as_u64().unwrap() as usize].clone()).collect()
}

#[test]
fn an_expert_walks_through_the_prompts_of_an_agent_without_a_model() {
    let context = household();
    let collect = ["collect", "household.toml", "--out", "demos.jsonl", "--json", "--quiet"];
    context.run(&collect).assert_code(code::OUTAGE);
    let made = context.succeed_json(&[&collect[..], &["--expert"]].concat());
    assert_eq!((&made["episodes"], &made["successes"]), (&12.into(), &12.into()), "{made}");
    assert_eq!(made["agent"]["kind"], "expert");
    assert_eq!(made["simulated_models"], serde_json::json!([]));
    let walks = episodes(&context, "demos.jsonl");
    let again = ["collect", "household.toml", "--expert", "--out", "again.jsonl"];
    let said = context.succeed(&again);
    assert_names(&said, &[made["agent"]["model"].as_str().unwrap()]);
    assert_eq!(context.read("again.jsonl"), context.read("demos.jsonl"));
    assert!(!context.path("again.jsonl.calls").exists(), "there are no calls to keep");

    // The same games by an agent: before its first move it has seen the same.
    let mock = ["collect", "household.toml", "--mock", "--out", "agent.jsonl", "--quiet"];
    context.succeed(&mock);
    let played = episodes(&context, "agent.jsonl");
    assert_eq!(played.len(), walks.len());
    let mut is_longer_than_memory = false;
    for (walk, other) in walks.iter().zip(&played) {
        assert_eq!(walk["item"], other["item"]);
        assert_eq!(
            (&walk["agent"]["kind"], &other["agent"]["kind"]),
            (&"expert".into(), &"simulated".into())
        );
        assert_eq!(request(walk, 0), request(other, 0));
        assert_eq!(walk["skill"], other["skill"]);
        let turns = walk["trajectory"]["turns"].as_array().unwrap();
        assert_eq!(turns.len(), walk["steps"].as_array().unwrap().len());
        for (number, turn) in turns.iter().enumerate() {
            let said = &walk["trajectory"]["messages"][turn["reply"].as_u64().unwrap() as usize];
            let action = turn["action"].as_str().unwrap();
            assert_eq!(
                (&said["role"], &walk["steps"][number]["action"]),
                (&"assistant".into(), &action.into())
            );
            assert!(
                said["content"].as_str().unwrap().contains(&format!("<action>{action}</action>")),
                "{said}"
            );
            assert_eq!(turn["understood"], true, "{turn}");
            // The system, the opening, and four turns with what came after each: the memory that is configured.
            let n_messages = request(walk, number).len();
            assert!(n_messages <= 2 + 2 * 4, "{n_messages} messages in turn {number}");
            is_longer_than_memory |= number > 4;
        }
    }
    assert!(is_longer_than_memory, "every walk fits into the prompt");
}

#[test]
fn a_shop_has_an_expert_and_questions_have_none() {
    let context = TestContext::with_demo();
    let shop =
        ["collect", "--env", "webshop", "--expert", "--episodes", "12", "--out", "shop.jsonl", "--json"];
    let made = context.succeed_json(&shop);
    assert_eq!((&made["episodes"], &made["agent"]["kind"]), (&12.into(), &"expert".into()));
    assert!(made["successes"].as_u64().unwrap() >= 6, "{made}");
    context
        .run(&["collect", "demo/skillrl.toml", "--expert", "--out", "x.jsonl"])
        .refused(code::USAGE, &["\"qa\""]);
    assert!(!context.path("x.jsonl").exists());
}

#[test]
fn mock_models_stand_in_for_all_others_and_every_result_says_so() {
    let context = household();
    let simulated = |value: &Value| value["simulated_models"].clone();
    let target = serde_json::json!(["target"]);
    let collect = ["collect", "household.toml", "--mock", "--out", "episodes.jsonl"];
    assert_names(&context.succeed(&collect), &["simulated models: target"]);
    assert_eq!(simulated(&context.succeed_json(&[&collect[..], &["--json"]].concat())), target);
    let distill =
        ["distill", "episodes.jsonl", "--config", "household.toml", "--mock", "--admit", "unmeasured"];
    assert_names(
        &context.succeed(&[&distill[..], &["--out", "bank"]].concat()),
        &["simulated models: teacher"],
    );
    let made = context.succeed_json(&[&distill[..], &["--out", "other", "--json"]].concat());
    assert_eq!(simulated(&made), serde_json::json!(["teacher"]));
    for bank in [&["--bank", "bank"][..], &[]] {
        let eval = [&["eval", "household.toml", "--mock"][..], bank].concat();
        assert_names(&context.succeed(&eval), &["simulated models: target"]);
        assert_eq!(simulated(&context.succeed_json(&[&eval[..], &["--json"]].concat())), target);
    }

    let train = [&["train", "household.toml", "--set", "train.mode=bank"][..], &set(&SHORT)].concat();
    let mock = [&train[..], &["--mock", "--quiet"]].concat();
    assert_names(&context.succeed(&mock), &["simulated models: target, teacher"]);
    let both = serde_json::json!(["target", "teacher"]);
    for record in ["run/config.json", "run/bank_summary.json"] {
        assert_eq!(simulated(&context.json(record)), both, "{record}");
    }
    assert!(!context.read("run/config.toml").contains("nobody"), "the text of what was run");
    // They are part of what the run is.
    context.run(&train).fails(code::OTHER_RUN, &["models.target"]);

    // The records of a document say it too, and its report.
    let document = ["train", "household.toml", "--mock", "--quiet", "--set", "run.dir=document"];
    let short = ["--set", "env.max_train=4", "--set", "env.max_val=2", "--set", "env.max_test=2"];
    let epoch = ["--set", "train.epochs=1", "--set", "train.batch_size=4"];
    context.succeed(&[&document[..], &short, &epoch].concat());
    for record in ["document/config.json", "document/summary.json"] {
        assert_eq!(simulated(&context.json(record)), serde_json::json!(["target", "optimizer"]), "{record}");
    }
    assert!(context.read("document/report.html").contains("Models were simulated"));
}

#[test]
fn mock_is_refused_where_no_simulated_model_knows_the_tasks() {
    let context = TestContext::with_demo();
    context.write("exec.toml", "[env]\nkind = \"exec\"\nprogram = [\"true\"]\n");
    let files = context.files(".");
    for command in [
        &["collect", "exec.toml", "--out", "x.jsonl", "--mock"][..],
        &["train", "exec.toml", "--mock"],
        &["eval", "exec.toml", "--mock"],
    ] {
        context.run(command).refused(code::USAGE, &["`env.kind`", "\"exec\"", "alfworld"]);
    }
    context
        .run(&["train", "demo/skillrl.toml", "--env", "alfworld"])
        .refused(code::USAGE, &["`env.kind`", "\"qa\"", "\"alfworld\""]);
    assert_eq!(context.files("."), files);
}

/// `krill train --env alfworld --mock`, in a directory without a configuration that could be read.
#[test]
fn a_world_needs_no_configuration_file() {
    let context = TestContext::new();
    context.write("skillrl.toml", "this is not TOML");
    let world = ["--env", "alfworld", "--mock"];
    let bank = set(&["train.mode=bank"]);
    let outcome = context.run(&[&["train"][..], &world, &set(&SHORT), &bank].concat());
    outcome.assert_code(code::SUCCESS);
    assert_names(&outcome.stderr, &["household games", "simulated models"]);
    let run = "runs/alfworld-mock";
    assert_names(&outcome.stderr, &[run]);
    assert!(context.path(&format!("{run}/bank/bank.json")).exists());
    let here = std::fs::read_dir(context.path(".")).unwrap().map(|entry| entry.unwrap().file_name());
    let here: BTreeSet<_> = here.map(|name| name.into_string().unwrap()).collect();
    assert_eq!(here, BTreeSet::from(["runs".to_owned(), "skillrl.toml".to_owned()]), "nothing but the run");
    // The run is complete without the arguments it was started with.
    assert_eq!(context.json(&format!("{run}/config.json"))["config"]["env"]["kind"], "alfworld");
    context.succeed(&["check", run]);

    let few = ["--set", "env.max_train=6", "--set", "env.max_val=3", "--quiet"];
    context.succeed(&[&["eval", "--split", "val"][..], &world, &few].concat());
    let collect = ["collect", "--episodes", "6", "--output", "trajectories.jsonl"];
    context.succeed(&[&collect[..], &world, &few].concat());
    // Without a model there is nobody to ask.
    context.run(&["train", "--env", "alfworld"]).refused(code::USAGE, &["models.target.model", "--mock"]);

    // The episodes name their world.
    context.remove("skillrl.toml");
    let distill = ["distill", "--trajectories", "trajectories.jsonl", "--output", "bank.json", "--mock"];
    context.succeed(&distill);
    context.succeed(&["inspect", "bank.json"]);
}

#[test]
fn a_configuration_of_krill_is_read_where_ours_is() {
    let context = TestContext::new();
    context.write("krill.json", KRILL);
    let shown = |args: &[&str]| {
        let outcome = context.run(args);
        outcome.assert_code(code::SUCCESS);
        assert_names(
            &outcome.stderr,
            &[
                "skill_retrieval.top_k -> retrieval.total",
                "rl.clip_epsilon -> rl.clip_epsilon",
                "model.teacher_api_key:",
            ],
        );
        assert!(!format!("{}{}", outcome.stdout, outcome.stderr).contains(KRILL_KEY), "a key is shown");
        assert!(!outcome.stderr.contains("warning"), "{}", outcome.stderr);
        outcome.stdout
    };
    let config = shown(&["config", "show", "krill.json", "--set", "env.kind=alfworld"]);
    let names =
        ["total = 7 ", "model = \"policy-7b\"", "api_key_env = \"OPENAI_API_KEY\"", "mode = \"bank\""];
    assert_names(&config, &names);
    shown(&["estimate", "krill.json", "--set", "env.kind=alfworld"]);
    let collect = ["--env", "alfworld", "--mock", "--episodes", "6", "--output", "episodes.jsonl"];
    shown(&[&["collect", "--config", "krill.json"][..], &collect].concat());
    let distill =
        ["--trajectories", "episodes.jsonl", "--output", "bank.json", "--env", "alfworld", "--mock"];
    shown(&[&["distill", "--config", "krill.json"][..], &distill].concat());
    // With local models it is a run of all phases, and the limits of the file are not those of the small decoder.
    let short = ["sft.examples=8", "rl.iterations=1", "rl.tasks=1", "rl.group_size=2", "env.max_turns=4"];
    let train = ["train", "--config", "krill.json", "--env", "alfworld", "--mock"];
    shown(&[&train[..], &set(&SHORT), &set(&short)].concat());
    for (path, bytes) in context.files(".") {
        let is_source = path.ends_with("krill.json");
        assert!(is_source || !String::from_utf8_lossy(&bytes).contains(KRILL_KEY), "{}", path.display());
    }
    // Such a file names no environment, and households are what its program plays then.
    let of_default = shown(&["config", "show", "krill.json"]);
    assert!(of_default.contains("kind = \"alfworld\""), "{of_default}");
}

#[test]
fn a_task_for_trials_is_there_for_each_type_or_the_run_is_refused_before_it_begins() {
    let context = TestContext::new();
    let train = ["train", "--env", "alfworld", "--mock", "--quiet", "--set", "train.mode=bank"];
    // Of twelve tasks two are of each type, and a tenth of two is none.
    context.succeed(
        &[&train[..], &set(&SHORT), &["--set", "bank.trial_share=0.1", "--set", "run.dir=small"]].concat(),
    );
    let one_of_each =
        [&train[..], &set(&SHORT), &["--set", "env.max_train=6", "--set", "run.dir=tiny"]].concat();
    context
        .run(&one_of_each)
        .fails(code::DATA, &["0.5", "1 of look_at_obj_in_light", "`bank.trial_share`", "`bank.admit"]);
    assert!(!context.path("tiny").exists(), "nothing was paid for");
    context.succeed(&[&one_of_each[..], &["--set", "bank.admit=unmeasured"]].concat());
}

#[test]
fn json_of_something_else_is_refused_by_name() {
    let context = TestContext::new();
    let fault = KRILL.replace("\"top_k\": 7", "\"top_k\": \"sk-live-much\"");
    for (name, text) in [
        ("bank.json", r#"{"general_skills": [], "task_specific_skills": {}, "common_mistakes": []}"#),
        ("list.json", "[1, 2]"),
        ("prose.json", "no JSON at all"),
        ("half.json", KRILL.get(..KRILL.len() / 2).unwrap()),
        ("fault.json", &fault),
    ] {
        context.write(name, text);
        for command in [&["train", name][..], &["config", "show", name], &["doctor", name, "--offline"]] {
            let outcome = context.run(command);
            assert_ne!(outcome.code, Some(code::SUCCESS), "{name}");
            assert_names(&format!("{}{}", outcome.stdout, outcome.stderr), &[name]);
        }
        context.run(&["eval", "--config", name]).refused(code::USAGE, &[name]);
    }
    assert!(!context.path("run").exists());
}

#[test]
fn rollouts_of_training_tasks_of_a_run_become_skills() {
    let context = TestContext::new();
    let world = ["--env", "alfworld", "--mock"];
    let more = set(&["run.dir=run", "train.mode=bank", "evolution.rounds=1"]);
    context.succeed(&[&["train", "--quiet"][..], &world, &set(&SHORT), &more].concat());
    let read = run_episodes(&context.path("run")).unwrap();
    assert!(read.left_out[&RolloutUse::Trial] > 0 && read.left_out[&RolloutUse::Val] > 0);
    // Those for the teacher, once before the bank and once after: two samples of six tasks.
    assert_eq!(read.episodes.len(), 2 * 2 * 6);
    let taught: BTreeSet<&ItemId> = read.episodes.iter().map(|episode| &episode.item).collect();
    for round in 0..2 {
        let record = context.json(&format!("run/rounds/round_000{round}/record.json"));
        for trial in record["trials"].as_array().unwrap() {
            let items = trial["items"].as_array().unwrap().iter();
            let tried: Vec<ItemId> = items.map(|item| ItemId::new(item.as_str().unwrap())).collect();
            assert!(tried.iter().all(|item| !taught.contains(item)), "{tried:?}");
        }
    }
    let ids: BTreeSet<&str> = read.episodes.iter().map(|episode| episode.id.as_str()).collect();
    assert_eq!(ids.len(), read.episodes.len());

    let journal = context.succeed(&["journal", "stats", "run", "--json"]);
    let outcome = context.run(&[&["distill", "run", "--out", "bank"][..], &world].concat());
    outcome.assert_code(code::SUCCESS);
    let left_out = |of: RolloutUse| format!("{} of {}", read.left_out[&of], of.as_str());
    assert_names(
        &outcome.stderr,
        &[
            "24 rollouts",
            &left_out(RolloutUse::Trial),
            &left_out(RolloutUse::Val),
            &left_out(RolloutUse::Test),
        ],
    );
    let blame = context.succeed_json(&["bank", "blame", "bank", "--json"]);
    for skill in blame["skills"].as_array().unwrap() {
        let items = skill["versions"][0]["evidence"]["items"].as_array().unwrap().iter();
        for item in items.map(|item| ItemId::new(item.as_str().unwrap())) {
            assert!(taught.contains(&item), "{item} is not a task for the teacher");
        }
    }
    assert_eq!(context.succeed(&["journal", "stats", "run", "--json"]), journal, "the run is only read");
}

#[test]
fn an_episode_of_a_run_names_the_skill_that_the_agent_was_shown() {
    let context = TestContext::with_finished_demo();
    let run = context.path("demo/run");
    let read = run_episodes(&run).unwrap();
    let reader = RunReader::open(&run).unwrap();
    let history = reader.history().unwrap();
    let skills = reader.skills(&history).unwrap();
    let held_out: BTreeSet<ItemId> = [EvaluationDir::Baseline, EvaluationDir::TestBaseline]
        .into_iter()
        .flat_map(|dir| reader.results(dir).unwrap().unwrap())
        .map(|result| result.id)
        .collect();
    assert!(!held_out.is_empty());
    let mut n_of_steps = 0;
    for record in &history {
        let place = format!("step {} / rollout", record.step);
        let before = skills.after(skillrl::core::StepIdx(record.step.0 - 1)).unwrap().hash().to_string();
        for item in &record.batch_item_ids {
            let of_item =
                read.episodes.iter().filter(|episode| episode.place == place && episode.item == *item);
            // What was begun ahead with a skill that was replaced is there too.
            assert!(of_item.clone().any(|episode| episode.skill == before), "{place} / {item}");
            n_of_steps += of_item.count();
        }
    }
    assert!(n_of_steps > 0);
    for episode in &read.episodes {
        assert!(!held_out.contains(&episode.item), "{} is held out", episode.item);
        assert!((0.0..=1.0).contains(&episode.soft) && !episode.skill.is_empty(), "{}", episode.id);
    }
    // A directory without a run, and one without its journal.
    std::fs::create_dir(context.path("empty")).unwrap();
    for run in ["empty", "demo"] {
        context
            .run(&["distill", run, "--config", "demo/skillrl.toml", "--out", "bank"])
            .fails(code::RUN_DIR, &[run]);
        assert!(!context.path("bank").exists());
    }
    context.remove("demo/run/journal.sqlite");
    let outcome = context.run(&["distill", "demo/run", "--config", "demo/skillrl.toml", "--out", "bank"]);
    assert_ne!(outcome.code, Some(code::SUCCESS));
    assert_names(&outcome.stderr, &["journal.sqlite"]);
}
