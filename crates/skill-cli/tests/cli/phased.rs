//! `skillrl train` where `train.mode` is "weights".

use crate::context::{CHAT_TINY, TestContext, code};
use serde_json::json;

/// A run of all phases in small households, as the lines of its sections say.
fn task(context: &TestContext, dir: &str, more: &str) -> String {
    let file = format!("{dir}.toml");
    context.write(
        &file,
        &format!(
            "[run]\ndir = \"{dir}\"\nworkers = 4\n\
             [models.target]\nkind = \"local\"\npath = \"{CHAT_TINY}\"\ncontext = 1024\nmax_tokens = 4\n\
             [models.optimizer]\nkind = \"simulated\"\n[models.teacher]\nkind = \"simulated\"\n\
             [env]\nkind = \"alfworld\"\nrooms = \"small\"\ntask_types = [\"pick_and_place_simple\"]\n\
             max_train = 8\nmax_val = 1\nmax_test = 1\nmax_turns = 6\nthink = false\n\
             show_admissible = false\nhistory_turns = 100\naction_format = \"tags\"\n\
             [train]\nmode = \"weights\"\n[bank]\nadmit = \"unmeasured\"\n[collect]\nagent = \"expert\"\n\
             [sft]\nepochs = 1\nbatch_size = 2\nlora_rank = 2\nlearning_rate = 0.001\n\
             [rl]\niterations = 1\ntasks = 1\ngroup_size = 2\nlora_rank = 2\nmax_reply_tokens = 4\n{more}"
        ),
    );
    file
}

#[test]
fn an_estimate_names_what_each_phase_plays() {
    let context = TestContext::new();
    let file = task(&context, "run", "validation_interval = 1\ngames = 1\n");
    let estimate = context.succeed_json(&["estimate", &file, "--json"]);
    assert_eq!(estimate["items"], json!([8, 1, 1]));
    let of = |place: usize| (&estimate["phases"][place]["stage"], &estimate["phases"][place]["rollouts"]);
    // The expert collects, without the policy.
    assert_eq!(of(0), (&json!("collect"), &json!({"low": 0, "high": 0})));
    assert_eq!(of(2), (&json!("rl"), &json!({"low": 2, "high": 5})));
    assert!(estimate["teacher_calls"]["high"].as_u64() >= Some(3), "{estimate}");
}

#[test]
fn the_ablations_of_all_phases_are_planned_with_each_of_their_switches() {
    let context = TestContext::new();
    context.copy_example("household-ablation", ".", &["weights.toml"]);
    let estimate =
        |switch: &str| context.succeed_json(&["estimate", "weights.toml", "--json", "--set", switch]);
    for switch in ["retrieval.total=0", "evolution.max_new_skills=0", "bank.show=skills"] {
        assert!(estimate(switch)["teacher_calls"]["low"].as_u64() > Some(0), "{switch}");
    }
    // Nothing is distilled.
    assert_eq!(estimate("bank.show=episodes")["teacher_calls"], json!({"low": 0, "high": 0}));
    #[cfg(feature = "weights")]
    context.succeed(&[
        "train",
        "weights.toml",
        "--seeds",
        "2",
        "--grid",
        "bank.show=skills,episodes",
        "--dry-run",
    ]);
}

#[test]
fn only_a_target_on_this_machine_is_trained() {
    let context = TestContext::new();
    let file = task(&context, "run", "");
    let text = context.read(&file);
    let local = format!("kind = \"local\"\npath = \"{CHAT_TINY}\"\ncontext = 1024\n");
    context.write("served.toml", &text.replace(&local, "model = \"m\"\n"));
    context.run(&["train", "served.toml"]).fails(code::USAGE, &["`train.mode` is \"weights\""]);
    // A simulated target is replaced by the decoder in ALFWorld only.
    let simulated = text.replace(&local, "kind = \"simulated\"\n").replace("max_tokens = 4\n", "");
    let shop = simulated.replace(
        "[env]\nkind = \"alfworld\"\nrooms = \"small\"\ntask_types = [\"pick_and_place_simple\"]\n",
        "[env]\nkind = \"webshop\"\n",
    );
    context.write("shop.toml", &shop);
    context.run(&["train", "shop.toml"]).fails(code::USAGE, &["`train.mode` is \"weights\""]);
    let text = text.replace("mode = \"weights\"", "mode = \"bank\"");
    context.write(&file, &text);
    context.run(&["train", &file]).fails(code::USAGE, &["`collect.agent`"]);
}

#[cfg(not(feature = "weights"))]
#[test]
fn a_program_without_local_models_says_how_to_get_them() {
    let context = TestContext::new();
    context.run(&["train", &task(&context, "run", "")]).fails(code::USAGE, &["--features full"]);
}

#[cfg(feature = "weights")]
mod built_in {
    use super::{TestContext, code, json, task};
    use crate::context::set;
    use serde_json::Value;
    use skillrl::pipeline::run_dir::check::check;

    fn phases(context: &TestContext, run: &str) -> Vec<(String, String, bool)> {
        let phases = context.json(&format!("{run}/phases.json"));
        let finished = phases["finished"].as_array().unwrap();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let of = |record: &Value| {
            (text(&record["phase"]), text(&record["result"]), record["is_reused"] == json!(true))
        };
        finished.iter().map(of).collect()
    }

    /// Flips a bit of each checked file, cuts it, adds to it, and removes it.
    fn assert_every_damage_is_named(context: &TestContext, run: &str) {
        let dir = context.path(run);
        let whole = check(&dir).unwrap();
        assert_eq!(whole.damage, []);
        assert_eq!(whole.not_checked, [""; 0]);
        let mut n_damaged = 0;
        for (path, bytes) in context.files(run) {
            let (path, file) = (dir.join(&path), path.to_string_lossy().replace('\\', "/"));
            let is_of_sqlite = ["-wal", "-shm"].iter().any(|end| file.ends_with(end));
            if bytes.is_empty()
                || is_of_sqlite
                || whole.not_checked.contains(&file)
                || file.ends_with("timings.jsonl")
            {
                continue;
            }
            let mut flipped = bytes.clone();
            flipped[bytes.len() / 2] ^= 1;
            let cut = bytes[..bytes.len() / 2].to_vec();
            // A killed process may leave an unfinished line at the end of a log of events, but not a whole one.
            let more: &[u8] = if file.ends_with("events.jsonl") { b"x\n" } else { b"x" };
            let longer = [&bytes[..], more].concat();
            // A run is as good without its page.
            let may_be_missing = file.ends_with("report.html");
            for damaged in [Some(flipped), Some(cut), Some(longer), None] {
                if damaged.is_none() && may_be_missing {
                    continue;
                }
                match damaged {
                    Some(damaged) => std::fs::write(&path, damaged).unwrap(),
                    None => std::fs::remove_file(&path).unwrap(),
                }
                let found = check(&dir).unwrap();
                assert!(found.damage.iter().any(|damage| damage.file == file), "{file}: {:?}", found.damage);
                n_damaged += 1;
            }
            std::fs::write(&path, bytes).unwrap();
        }
        assert!(n_damaged > 120, "{n_damaged}");
        assert_eq!(check(&dir).unwrap().damage, []);
    }

    #[test]
    fn a_run_goes_through_all_phases_and_others_take_them_over() {
        let context = TestContext::new();
        let file = task(&context, "one", "");
        let said = context.succeed(&["train", &file, "--quiet"]);
        assert!(said.contains("one/rl/policy") && said.contains("before training"), "{said}");
        let done = phases(&context, "one");
        let names: Vec<&str> = done.iter().map(|(name, ..)| name.as_str()).collect();
        assert_eq!(names, ["collect", "distill", "sft", "rl", "test"]);
        assert!(done.iter().all(|(.., is_reused)| !is_reused));
        for path in
            ["collect/trajectories.jsonl", "distill/bank/log.jsonl", "sft/policy", "rl/bank/log.jsonl"]
        {
            assert!(context.path(&format!("one/{path}")).exists(), "{path}");
        }
        let status = context.succeed_json(&["status", "one", "--json"]);
        assert_eq!((&status["phase"], &status["n_steps"]), (&json!("finished"), &json!(5)));
        assert_eq!(status["phases"]["phases"][2]["state"], "finished");
        assert!(status["phases"]["test"].as_array().unwrap().len() >= 3, "{status}");
        let page = context.read("one/report.html");
        assert!(page.contains("Games of the test split") && page.contains("sft/report.html"), "{page}");
        assert!(context.path("one/rl/report.html").is_file());

        assert_every_damage_is_named(&context, "one");

        // The same command does nothing again.
        let before = context.read("one/phases.json");
        context.succeed(&["train", &file, "--quiet"]);
        assert_eq!(context.read("one/phases.json"), before);

        // More iterations extend the run, and its policy is measured again.
        let games = context.read("one/test/games.json");
        context.succeed(&["train", &file, "--quiet", "--set", "rl.iterations=2"]);
        assert_eq!(context.read("one/rl/iterations.jsonl").lines().count(), 2);
        let again = context.read("one/test/games.json");
        let policy = |games: &str| serde_json::from_str::<Value>(games).unwrap()["policy"].clone();
        let of_rl = phases(&context, "one").iter().find(|(name, ..)| name == "rl").unwrap().1.clone();
        assert_eq!(policy(&again), json!(of_rl), "{games}");

        // Another learning rate of reinforcement learning leaves the phases before it as they are.
        let other = task(&context, "two", "learning_rate = 0.01\n");
        context.succeed(&["train", &other, "--quiet", "--reuse", "one"]);
        let taken: Vec<bool> = phases(&context, "two").iter().map(|(.., is_reused)| *is_reused).collect();
        // Games are played again only with another policy, and here nothing was ever won that it could learn from.
        assert_eq!(taken[..4], [true, true, true, false]);
        assert_eq!(
            phases(&context, "two")[..3].iter().map(|(_, result, _)| result).collect::<Vec<_>>(),
            done[..3].iter().map(|(_, result, _)| result).collect::<Vec<_>>()
        );

        // A longer run is not taken over by a shorter one, a shorter one is extended.
        for (run, iterations, expected) in [("shorter", 1, false), ("longer", 3, false), ("equal", 2, true)] {
            let file = task(&context, run, "");
            let set = format!("rl.iterations={iterations}");
            context.succeed(&["train", &file, "--quiet", "--reuse", "one", "--set", &set]);
            assert_eq!(phases(&context, run)[3].2, expected, "{run}");
            let n_lines = context.read(&format!("{run}/rl/iterations.jsonl")).lines().count();
            assert_eq!(n_lines, iterations, "{run}");
        }

        // Files that were changed by hand are not taken over.
        let trajectories = context.read("one/collect/trajectories.jsonl");
        context.write("one/collect/trajectories.jsonl", &format!("{trajectories}\n"));
        let damaged = context.run(&["train", &task(&context, "four", ""), "--quiet", "--reuse", "one"]);
        damaged.assert_code(code::RUN_DIR);
        assert!(!context.path("four/collect").exists());
        context.write("one/collect/trajectories.jsonl", &trajectories);

        // A finished phase with other settings is another run.
        context
            .run(&["train", &file, "--quiet", "--set", "sft.learning_rate=0.5"])
            .fails(code::OTHER_RUN, &["sft.learning_rate"]);
        let absent = context.run(&["train", &task(&context, "three", ""), "--reuse", "nowhere"]);
        absent.assert_code(code::RUN_DIR);
    }

    #[test]
    fn what_the_last_phases_cannot_do_is_refused_before_the_first() {
        let context = TestContext::new();
        let file = task(&context, "run", "");
        let server = "tinker.base_url=http://127.0.0.1:1";
        for (settings, key) in [
            (&["rl.max_reply_tokens=100000"][..], "rl.max_reply_tokens"),
            (&[server, "sft.lora_rank=0"], "lora_rank"),
            (&[server, "rl.lora_rank=0"], "lora_rank"),
            (&[server, "rl.temperature=0.5"], "rl.temperature"),
        ] {
            let train = ["train", &file, "--quiet"];
            context.run(&[&train[..], &set(settings)].concat()).fails(code::USAGE, &[key]);
            assert!(!context.path("run/collect").exists(), "{settings:?}");
        }
        context.succeed(&["train", &file, "--quiet"]);
    }

    #[test]
    fn a_cap_is_one_over_all_phases() {
        let context = TestContext::new();
        let agent = |file: &str| {
            let text = context.read(file).replace("agent = \"expert\"", "agent = \"target\"\nepisodes = 2");
            context.write(file, &text);
        };
        let requests = |run: &str, phase: &str| {
            context.succeed_json(&["journal", "stats", &format!("{run}/{phase}.calls"), "--json"])["totals"]["requests"].as_u64().unwrap()
        };
        let whole = task(&context, "whole", "");
        agent(&whole);
        context.succeed(&["train", &whole, "--quiet"]);
        let collected = requests("whole", "collect/trajectories.jsonl");
        let distilled = requests("whole", "distill/bank");
        assert!(collected >= 2 && distilled >= 2, "{collected} {distilled}");

        let file = task(&context, "run", "");
        agent(&file);
        let train = |calls: u64| {
            let cap = format!("budget.calls={calls}");
            let outcome = context.run(&["train", &file, "--quiet", "--set", &cap]);
            outcome.assert_code(code::BUDGET);
            phases(&context, "run").into_iter().map(|(name, ..)| name).collect::<Vec<_>>()
        };
        // What collecting has used is gone for the teacher, in this process and in the next one.
        assert_eq!(train(collected + 1), ["collect"]);
        assert_eq!(requests("run", "distill/bank"), 1);
        assert_eq!(train(collected + 1), ["collect"]);
        assert_eq!(requests("run", "distill/bank"), 1);
        context.succeed(&["train", &file, "--quiet"]);
        assert_eq!(phases(&context, "run").len(), 5);
    }

    #[test]
    fn a_run_that_a_cap_ended_goes_on_in_its_phase() {
        let context = TestContext::new();
        let file = task(&context, "run", "");
        let capped = context.run(&["train", &file, "--quiet", "--set", "budget.calls=1"]);
        capped.assert_code(code::BUDGET);
        let begun: Vec<String> = phases(&context, "run").into_iter().map(|(name, ..)| name).collect();
        assert_eq!(begun, ["collect"]);
        let status = context.succeed_json(&["status", "run", "--json"]);
        assert_eq!((&status["phase"], &status["n_steps"]), (&json!("stopped"), &json!(1)));
        context.succeed(&["train", &file, "--quiet"]);
        assert_eq!(phases(&context, "run").len(), 5);
        // What an undisturbed run leaves is the same.
        let whole = task(&context, "whole", "");
        context.succeed(&["train", &whole, "--quiet"]);
        assert_eq!(phases(&context, "run"), phases(&context, "whole"));
        assert_eq!(context.read("run/phases.json"), context.read("whole/phases.json"));
    }
}
