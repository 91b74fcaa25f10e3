//! The commands of single phases as krill and SkillRL have them: without a configuration, each takes what the one before
//! it wrote, and the same command again resumes or says that it is done.

use crate::context::{Outcome, TestContext, code, parsed};
use crate::said::assert_names;
use crate::server::{Server, reply};
use serde_json::{Value, json};
use wiremock::ResponseTemplate;

/// Thousands of games are made for a decoder to learn from; these tests need few.
const FEW: [&str; 6] = ["--set", "env.max_train=16", "--set", "env.max_val=2", "--set", "env.max_test=2"];

fn few<'a>(command: &[&'a str]) -> Vec<&'a str> {
    [command, &FEW].concat()
}

/// A directory in which a few episodes are collected and distilled, by the defaults of both commands.
fn distilled() -> TestContext {
    let context = TestContext::new();
    context.succeed(&few(&["collect", "--episodes", "8"]));
    context.succeed(&few(&["distill"]));
    context
}

#[test]
fn phases_find_what_the_one_before_has_left() {
    let context = TestContext::new();
    let outcome = context.run(&few(&["--mock", "true", "collect", "--episodes", "8"]));
    outcome.assert_code(code::SUCCESS);
    assert_names(&outcome.stderr, &["small rooms", "simulated models"]);
    assert_eq!(outcome.stderr.lines().filter(|line| line.starts_with("no configuration")).count(), 1);
    let episodes = context.json("data/trajectories.json");
    assert_eq!(episodes.as_array().map(Vec::len), Some(8), "a list, as krill writes it");
    context.succeed(&few(&["distill"]));
    let bank = context.json("data/skill_bank.json");
    assert!(bank["general_skills"].is_array(), "{bank}");
    assert_names(&context.succeed(&["inspect"]), &["data/skill_bank.json"]);
    assert_names(&context.succeed(&["--env", "alfworld", "inspect", "--mock", "true"]), &["skill_bank.json"]);
}

#[test]
fn the_same_command_again_is_done_and_another_one_is_refused() {
    let context = distilled();
    let files = context.files("data");
    for again in [&["collect", "--episodes", "8"][..], &["distill"]] {
        context.succeed(&few(again));
        assert_eq!(context.files("data"), files, "{again:?}");
    }
    // Programs that read the result get it in one shape.
    let told = |more: &[&str]| context.succeed_json(&few(&[&["distill", "--json"][..], more].concat()));
    let (resumed, forced) = (told(&[]), told(&["--force"]));
    let names = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&resumed), names(&forced));
    assert_eq!((&resumed["skills"], &resumed["by_tier"]), (&forced["skills"], &forced["by_tier"]));
    assert_eq!(resumed["calls"], 0);
    for other in [&["collect", "--episodes", "9"][..], &["distill", "--max", "3"]] {
        context.run(&few(other)).fails(code::USAGE, &["--force", "data/"]);
        assert_eq!(context.read("data/trajectories.json").as_bytes(), files_of(&files, "trajectories.json"));
        assert_eq!(context.read("data/skill_bank.json").as_bytes(), files_of(&files, "skill_bank.json"));
    }
    context.succeed(&few(&["distill", "--max", "3", "--force"]));
    context.succeed(&few(&["distill", "--max", "3"]));
    context.succeed(&few(&["collect", "--episodes", "9", "--force"]));
    assert_eq!(context.json("data/trajectories.json").as_array().map(Vec::len), Some(9));
    // A file that no command has made is not ours to replace.
    context.write("mine.json", "[]");
    for made in
        [&["collect", "--episodes", "2", "--output", "mine.json"][..], &["distill", "--output", "mine.json"]]
    {
        context.run(&few(made)).assert_code(code::USAGE);
        assert_eq!(context.read("mine.json"), "[]");
    }
}

fn files_of<'a>(files: &'a crate::context::Files, name: &str) -> &'a [u8] {
    files.iter().find(|(path, _)| path.ends_with(name)).map(|(_, bytes)| bytes.as_slice()).unwrap()
}

#[test]
fn files_of_another_kind_are_named() {
    let context = distilled();
    context.write("empty.json", "[]");
    context.write("prose.md", "# Notes\n\nNo data at all.\n");
    for wrong in ["data/skill_bank.json", "empty.json", "prose.md", "absent.json"] {
        let outcome = context.run(&few(&["distill", "--trajectories", wrong, "--output", "x.json"]));
        assert_ne!(outcome.code, Some(code::SUCCESS), "{wrong}");
        assert_names(&outcome.stderr, &[wrong]);
        assert!(!context.path("x.json").exists(), "{wrong}");
    }
    for wrong in ["data/trajectories.json", "absent.json"] {
        let outcome = context.run(&["inspect", wrong]);
        assert_ne!(outcome.code, Some(code::SUCCESS), "{wrong}");
        assert_names(&outcome.stderr, &[wrong]);
    }
}

/// A key in the environment configures nothing, and a configuration that is here is used.
#[test]
fn a_configuration_that_is_here_is_used_and_a_key_is_none() {
    let context = TestContext::new();
    let outcome = context
        .command(&few(&["collect", "--episodes", "2", "--out", "few.jsonl", "--json"]))
        .env("OPENAI_API_KEY", "sk-never")
        .output()
        .unwrap();
    let made = parsed(&String::from_utf8(outcome.stdout).unwrap());
    assert_eq!(made["agent"]["kind"], "simulated", "{made}");
    context.write(
        "skillrl.toml",
        "[models]\ntarget = { kind = \"simulated\" }\n[env]\nkind = \"webshop\"\nmax_train = 4\n",
    );
    // Neither of these asks an optimizer, and the configuration names none.
    for command in [
        &["collect", "--episodes", "2", "--out", "shop.jsonl"][..],
        &["collect", "--expert", "--episodes", "2", "--out", "expert.jsonl"],
        &["env", "check"],
    ] {
        context.succeed(command);
    }
    assert_names(&context.read("shop.jsonl"), &["\"environment\":\"webshop\""]);
    context.run(&["train"]).assert_code(code::USAGE);
}

/// krill's `config.demo.json` as its README prints it, with the address of a server on this machine in the place of the
/// provider's, and a key in the environment as its quick start has it.
#[test]
fn the_quick_start_of_krill_distils_by_its_own_configuration() {
    let server = Server::start();
    server.answer_with(|_, request| {
        let texts = json!({
            "skills": [{"title": "Open what is closed", "principle": "Open closed doors and look inside.",
                        "when_to_apply": "a receptacle is closed"}],
            "mistakes": [{"description": "leaves drawers closed", "why_it_happens": "haste",
                          "how_to_avoid": "open them"}],
        });
        match request.url.path().ends_with("/embeddings") {
            true => {
                let body: Value = serde_json::from_slice(&request.body).unwrap();
                let n_texts = body["input"].as_array().map_or(1, Vec::len);
                let data = |at: usize| json!({"index": at, "embedding": [1.0, at as f64, 0.5]});
                let data: Vec<Value> = (0..n_texts).map(data).collect();
                ResponseTemplate::new(200)
                    .set_body_json(json!({"data": data, "usage": {"prompt_tokens": 3, "total_tokens": 3}}))
            }
            false => reply(&texts.to_string(), "stop"),
        }
    });
    let context = TestContext::new();
    let address = format!("{}/v1", server.address());
    context.write(
        "config.demo.json",
        &json!({"model": {
            "policy_api_base": address, "policy_model_id": "gpt-4o-mini",
            "teacher_api_base": address, "teacher_model_id": "gpt-4o",
            "embedding_api_base": address, "embedding_model_id": "text-embedding-3-small",
        }})
        .to_string(),
    );
    context.succeed(&few(&["collect", "--episodes", "6", "--output", "data/alfworld_trajectories.json"]));
    let distill =
        ["distill", "--trajectories", "data/alfworld_trajectories.json", "--output", "data/skill_bank.json"];
    let distill = [&distill[..], &["--config", "config.demo.json"]].concat();
    let mut command = context.command(&distill);
    let outcome = Outcome::of(command.env("OPENAI_API_KEY", "sk-of-quick-start").output().unwrap());
    outcome.assert_code(code::SUCCESS);
    assert!(server.n_calls() > 0);
    let bank = context.json("data/skill_bank.json");
    assert_eq!(bank["general_skills"][0]["title"], "Open what is closed", "{bank}");
    assert_names(&context.succeed(&["inspect", "data/skill_bank.json"]), &["general"]);
    // Simulated models need no server, and every phase takes the same file.
    context.succeed(&[
        "collect",
        "--mock",
        "--config",
        "config.demo.json",
        "--episodes",
        "4",
        "--out",
        "few.jsonl",
    ]);
}

#[cfg(not(feature = "weights"))]
#[test]
fn a_program_without_local_models_says_what_it_leaves_out() {
    let context = TestContext::new();
    for phase in [&["sft", "--num-examples", "4"][..], &["rl", "--skill-bank", "data/skill_bank.json"]] {
        context.run(phase).fails(code::USAGE, &["--features full"]);
    }
    let short =
        ["--set", "evolution.rounds=0", "--set", "evolution.max_trials=0", "--set", "env.max_turns=6"];
    for (world, named) in [("alfworld", "--features full"), ("webshop", "households only")] {
        let outcome = context.run(&[&["train", "--env", world, "--mock"][..], &FEW, &short].concat());
        outcome.assert_code(code::SUCCESS);
        let first = outcome.stderr.lines().next().unwrap_or_default();
        assert_names(first, &["fine-tuning", "GRPO", named]);
        assert_names(&context.read(&format!("runs/{world}-mock/report.html")), &["fine-tuning", "GRPO"]);
    }
}

#[cfg(feature = "weights")]
mod built_in {
    use super::{FEW, TestContext, assert_names, code, distilled, json, parsed};
    use crate::context::set;

    const SFT: [&str; 5] = ["sft", "--num-examples", "12", "--epochs", "1"];
    const RL: [&str; 7] = ["rl", "--tasks", "1", "--group-size", "2", "--iterations", "1"];

    #[test]
    fn fine_tuning_and_grpo_take_what_the_phases_before_have_left() {
        let context = distilled();
        let outcome = context.run(&RL);
        assert_names(&outcome.stderr, &["data/sft/policy", "skillrl sft"]);
        std::fs::remove_dir_all(context.path("data/rl")).unwrap();

        let sft = [&SFT[..], &FEW, &["--skill-bank", "data/skill_bank.json"]].concat();
        context.succeed(&sft);
        assert!(context.path("data/sft/policy/model.safetensors").is_file());
        assert!(context.path("data/sft/report.html").is_file());
        let lines = context.read("data/sft/examples.jsonl");
        assert!(lines.lines().all(|line| !parsed(line)["skills"].as_array().unwrap().is_empty()));
        let policy = std::fs::read(context.path("data/sft/policy/model.safetensors")).unwrap();
        context.succeed(&sft);
        assert_eq!(policy, std::fs::read(context.path("data/sft/policy/model.safetensors")).unwrap());

        let rl = [&RL[..], &FEW].concat();
        context.succeed(&rl);
        let before = context.json("data/rl/config.json")["identity"]["models.policy"].clone();
        let initial = context.json("data/sft/config.json")["identity"]["models.policy"].clone();
        assert_ne!(before, initial, "it begins with the fine-tuned policy");
        context.succeed(&rl);
        assert_eq!(context.read("data/rl/iterations.jsonl").lines().count(), 1);
        // Neither is a run of the other kind, and nothing takes it away.
        let files = context.untimed_files("data/rl");
        context.run(&[&RL[..], &["--out", "data/sft"]].concat()).assert_code(code::OTHER_RUN);
        context.run(&["train", "data/rl"]).assert_code(code::OTHER_RUN);
        crate::context::assert_same_files(&files, &context.untimed_files("data/rl"));
        // What the end of each says to type, in the world that it was trained in.
        for (phase, said) in [("data/sft", context.succeed(&sft)), ("data/rl", context.succeed(&rl))] {
            assert_names(&said, &[&format!("`skillrl eval {phase}`")]);
            let measured = context.run(&["eval", phase]);
            measured.assert_code(code::SUCCESS);
            assert_names(&measured.stdout, &["2 items"]);
        }
        // Another directory by the setting that hints name.
        let elsewhere = ["--resume", "--set", "run.dir=elsewhere"];
        context.run(&[&sft[..], &elsewhere].concat()).fails(code::RUN_DIR, &["elsewhere"]);
    }

    #[test]
    fn all_phases_begin_with_the_small_decoder() {
        let context = TestContext::new();
        let sizes =
            ["collect.episodes=8", "sft.epochs=1", "rl.iterations=1", "rl.tasks=1", "rl.group_size=2"];
        let train = [&["train", "--env", "alfworld", "--mock"][..], &FEW, &set(&sizes)].concat();
        let outcome = context.run(&train);
        outcome.assert_code(code::SUCCESS);
        let run = "runs/alfworld-mock";
        assert!(context.path(&format!("{run}/initial_policy/model.safetensors")).is_file());
        let games = context.json(&format!("{run}/test/games.json"));
        let policies: Vec<_> =
            games["games"].as_array().unwrap().iter().map(|found| &found["policy"]).collect();
        assert_eq!(policies, [&json!(null), &json!("sft"), &json!("rl"), &json!("rl")]);
        assert_names(&outcome.stdout, &["Fine-tuning", "GRPO", "95 % interval"]);
        let page = context.read(&format!("{run}/report.html"));
        assert_names(&page, &["Games of the test split", "Fine-tuning shows no gain", "GRPO shows no gain"]);
        let files = context.untimed_files(run);
        // It is estimated, shown and measured as what it is.
        let estimate = context.succeed_json(&[&["estimate", "--json"][..], &train[1..]].concat());
        assert_eq!((&estimate["items"], &estimate["phases"][2]["stage"]), (&json!([16, 2, 2]), &json!("rl")));
        let test = context.run(&["eval", run, "--split", "test"]);
        assert!(!test.stderr.contains("not finished"), "{}", test.stderr);
        for phase in ["sft", "rl"] {
            let measured = context.run(&["eval", &format!("{run}/{phase}")]);
            measured.assert_code(code::SUCCESS);
            assert_names(&measured.stdout, &["2 items"]);
        }
        // The run of all phases is what a person starts again.
        let other = context.run(&[&train[..], &["--set", "env.max_turns=7"]].concat());
        other.fails(code::OTHER_RUN, &["run.dir=runs/alfworld-mock-2"]);
        context.succeed(&train);
        crate::context::assert_same_files(&files, &context.untimed_files(run));
        // A bank of its own, as before, is another run.
        let bank =
            [&["train", "--env", "alfworld", "--mock"][..], &FEW, &["--set", "train.mode=bank"]].concat();
        context.run(&bank).assert_code(code::OTHER_RUN);
    }
}
