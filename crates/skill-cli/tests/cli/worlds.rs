//! Worlds with several turns: played by hand, and trained on.

use crate::context::{Outcome, TestContext, assert_same_files, code};
use crate::said::assert_names;
use serde_json::Value;
use skillrl::envs::alfworld::{GameFile, RulesName, TaskType, generate};
use std::io::Write as _;
use std::process::Stdio;

/// Runs `env play` with these actions on its standard input.
fn play(context: &TestContext, args: &[&str], actions: &str) -> Outcome {
    let args: Vec<&str> = ["env", "play"].iter().chain(args).copied().collect();
    let mut child = context
        .command(&args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // A program that has ended with an error reads nothing.
    let _ = stdin.write_all(actions.as_bytes());
    drop(stdin);
    Outcome::of(child.wait_with_output().unwrap())
}

fn lines(outcome: &Outcome) -> Vec<Value> {
    outcome.assert_code(code::SUCCESS);
    outcome.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_household_is_played_by_hand() {
    let context = TestContext::new();
    let outcome = play(&context, &["alfworld"], "look\nfly away\n");
    outcome.assert_code(code::SUCCESS);
    insta::assert_snapshot!(outcome.stdout);
    let turns = lines(&play(&context, &["alfworld", "--json"], "inventory\n"));
    assert_eq!(turns.len(), 2);
    let keys: Vec<&String> = turns[1].as_object().unwrap().keys().collect();
    assert_eq!(keys, ["observation", "admissible", "reward", "done", "won"]);
    assert_eq!(turns[1]["observation"], "You are not carrying anything.");
    assert!(turns[1]["admissible"].as_array().unwrap().contains(&"look".into()));
    // Other games by another seed and kind.
    let other = play(&context, &["alfworld", "--set", "env.task_types=[\"look_at_obj_in_light\"]"], "");
    assert!(other.stdout.contains("under the desklamp"), "{}", other.stdout);
}

#[test]
fn a_shop_is_played_by_hand() {
    let context = TestContext::new();
    let turns = lines(&play(&context, &["--goal", "3", "--json"], "search[soap]\nclick[back to search]\n"));
    let page = |turn: usize| turns[turn]["observation"].as_str().unwrap();
    assert!(page(0).starts_with("WebShop [SEP] Instruction: [SEP] "), "{}", page(0));
    assert!(page(1).contains("[SEP] Page 1 (Total results: "), "{}", page(1));
    assert_eq!(page(2), page(0));
    play(&context, &["webshop", "--goal", "100000"], "").fails(code::USAGE, &["goal 100000"]);
}

#[test]
fn a_question_is_played_by_hand() {
    let context = TestContext::with_demo();
    let outcome = play(&context, &["demo/skillrl.toml"], "");
    outcome.assert_code(code::SUCCESS);
    assert!(outcome.stdout.contains("Question:"), "{}", outcome.stdout);
}

#[test]
fn what_cannot_be_played_is_said() {
    let context = TestContext::new();
    context.write("game.tw-pddl", "{\"pddl_domain\": \"");
    play(&context, &["--game", "game.tw-pddl"], "").fails(code::DATA, &["game.tw-pddl, line 1: "]);
    play(&context, &["alfworld", "--item", "x"], "")
        .fails(code::USAGE, &["item `x`", "hint: the first one is `"]);
}

/// A run in a world, with an agent that looks around until it has read how to do better, which is no help.
fn household() -> TestContext {
    let context = TestContext::new();
    context.write(
        "house/target.json",
        r#"{"version": 1, "rules": [{"when": {"system_contains": ["Look into drawers"]},
            "reply": "<think>Drawers.</think><action>inventory</action>"}],
            "otherwise": {"reply": "<action>look</action>"}}"#,
    );
    context.write(
        "house/optimizer.json",
        r#"{"version": 1, "otherwise": {"reply": "{\"patch\": {\"reasoning\": \"It never looks.\", \"edits\": [{\"op\": \"append\", \"content\": \"- Look into drawers.\"}]}}"}}"#,
    );
    context.write(
        "house/skillrl.toml",
        "[run]\ndir = \"run\"\n[models]\ntarget = { kind = \"scripted\", file = \"target.json\" }\n\
         optimizer = { kind = \"scripted\", file = \"optimizer.json\" }\n[env]\nkind = \"alfworld\"\nmax_train = 4\n\
         max_val = 2\nmax_test = 2\nmax_turns = 4\n[train]\nepochs = 1\nbatch_size = 4\n",
    );
    context
}

#[test]
fn a_skill_is_trained_in_a_world() {
    let context = household();
    context.succeed(&["train", "house/skillrl.toml", "--quiet"]);
    let results = context.json("house/run/steps/step_0001/rollout_results.json");
    let result = &results[0];
    assert_eq!((&result["n_turns"], &result["hard"]), (&4.into(), &0.into()));
    assert_names(result["fail_reason"].as_str().unwrap(), &["4 turns"]);
    assert_eq!(result["trajectory"]["turns"][0]["action"], "look");
    assert!(result["trajectory"]["messages"][1]["content"].as_str().unwrap().contains("Your task is to: "));
    // The task stands once in what the agent reads.
    let prompt = result["target_user_prompt"].as_str().unwrap();
    let task = result["task_description"].as_str().unwrap();
    assert_eq!(prompt.matches(task).count(), 1, "{prompt}");
    assert!(prompt.contains("Possible actions:\n- "), "{prompt}");
    // The same again, by a process that has nothing to do.
    let files = context.untimed_files("house/run");
    context.succeed(&["train", "house/skillrl.toml", "--quiet"]);
    assert_same_files(&files, &context.untimed_files("house/run"));
    // And from the journal alone.
    let replayed = context.succeed(&["replay", "house/run"]);
    assert!(replayed.contains("identical"), "{replayed}");
}

#[test]
fn servers_are_asked_for_their_tasks_or_choose_them() {
    let context = household();
    context
        .run(&["train", "house/skillrl.toml", "--set", "env.servers=[\"http://127.0.0.1:1\"]"])
        .fails(code::OUTAGE, &["`env.server_tasks`", "http://127.0.0.1:1/reset"]);
    context.write("house/ids/train.txt", "a\nb\n");
    context.write("house/ids/val.txt", "c\n");
    context.write("house/ids/test.txt", "d\n");
    let set = ["--set", "env.servers=[\"http://127.0.0.1:1\"]", "--set", "env.server_tasks=house/ids"];
    let args: Vec<&str> = ["train", "house/skillrl.toml"].into_iter().chain(set).collect();
    context.run(&args).fails(code::OUTAGE, &["gave no answer: ", "is the server running?"]);
}

/// Tasks of a server without its address are played where such a server usually is, and never here.
#[test]
fn servers_are_looked_for_where_they_usually_listen() {
    let context = household();
    for (split, id) in [("train", "a"), ("val", "b"), ("test", "c")] {
        context.write(&format!("house/ids/{split}.txt"), &format!("{id}\n"));
    }
    for (world, address) in [("alfworld", "http://localhost:3000"), ("webshop", "http://localhost:3001")] {
        let args =
            ["env", "play", world, "--set", "env.server_tasks=house/ids", "--set", "env.server_timeout_s=5"];
        // Whatever else may listen there is no such world.
        let outcome = context.run(&args);
        assert!(outcome.stderr.contains(address), "{}", outcome.stderr);
    }
}

/// Two games for each split, one file each, in the data set's own directories.
fn games(context: &TestContext) {
    for (number, split) in ["train", "valid_seen", "valid_unseen"].into_iter().enumerate() {
        for game in 0..2 {
            let made = generate(1, &format!("{split}/{game}"), TaskType::ALL[2 * number + game]).unwrap();
            let file = GameFile {
                pddl_domain: None,
                grammar: None,
                rules: Some(RulesName::Alfworld04),
                task: Some(made.game.task().into()),
                pddl_problem: made.problem.as_str().into(),
                solvable: Some(true),
                walkthrough: None,
            };
            let text = serde_json::to_string(&file).unwrap();
            context.write(&format!("house/games/{split}/game-{game}/game.tw-pddl"), &text);
        }
    }
}

/// A game's text without the facts that begin so.
fn without(game: &str, fact: &str) -> String {
    let mut pieces = game.split(fact);
    let first = pieces.next().unwrap_or_default().to_owned();
    pieces.filter_map(|piece| piece.split_once(')')).fold(first, |text, (_, rest)| text + rest)
}

/// A game that is broken while a run is stopped, and one that never was whole: the run says which file and where in
/// it, loses nothing, and goes on when the file is mended.
#[test]
fn a_broken_game_is_named_with_its_place_and_the_run_goes_on_when_it_is_mended() {
    let context = household();
    games(&context);
    context.replace("house/skillrl.toml", "kind = \"alfworld\"", "kind = \"alfworld\"\ngames = \"games\"");
    let train = ["train", "house/skillrl.toml", "--quiet"];
    let undisturbed = context.copy();
    undisturbed.succeed(&train);
    // A cap stops the run in its first step.
    let outcome = context.run(&[&train[..], &["--set", "budget.calls=11"]].concat());
    outcome.assert_code(code::BUDGET);
    let game = "house/games/train/game-1/game.tw-pddl";
    let whole = context.read(game);
    let place = "game-1/game.tw-pddl";
    for (broken, expect) in [
        (whole.get(..whole.len() / 2).unwrap().to_owned(), "line 1: "),
        (whole.replace("(pickupable ", "(edible "), "unknown predicate `edible`"),
        (without(&without(&whole, "(inReceptacle "), "(objectAtLocation "), "has no place"),
        (whole.replace("(pickupable ", "(pickupable Nothing "), "`Nothing`"),
    ] {
        assert_ne!(broken, whole);
        context.write(game, &broken);
        let kept = context.files("house/run");
        context.run(&train).fails(code::DATA, &[place, expect, "hint: "]);
        let skip = |path: &std::path::Path| {
            path.to_string_lossy().starts_with("journal.sqlite") || path.ends_with("events.jsonl")
        };
        for (path, bytes) in kept.iter().filter(|(path, _)| !skip(path)) {
            assert_eq!(Some(bytes), context.files("house/run").get(path), "{}", path.display());
        }
    }
    context.write(game, &whole);
    context.succeed(&train);
    assert_same_files(&undisturbed.untimed_files("house/run"), &context.untimed_files("house/run"));
}

/// A program as the environment, in the language of the shell: an item whose file is there ends it in its own way.
#[cfg(unix)]
const PROGRAM: &str = r#"
while IFS= read -r line; do
  id=${line#*\"id\":}; id=${id%%,*}
  case $line in
  *'"method":"hello"'*)
    version=1; [ -e version ] && version=2
    echo "{\"id\":$id,\"protocol\":$version,\"name\":\"shell\",\"version\":\"1\",\"mode\":\"rollout\",\"items\":{\"train\":[{\"id\":\"one\",\"data\":{}},{\"id\":\"two\",\"data\":{}},{\"id\":\"three\",\"data\":{}}],\"val\":[{\"id\":\"four\",\"data\":{}}],\"test\":[{\"id\":\"five\",\"data\":{}}]}}" ;;
  *'"method":"rollout"'*)
    case $line in *'"id":"two"'*) item=two ;; *) item=other ;; esac
    if [ $item = two ] && [ -e dies ]; then echo "no more" >&2; exit 3; fi
    if [ $item = two ] && [ -e floods ]; then while :; do echo "still at it"; done; fi
    if [ $item = two ] && [ -e wrong ]; then id=$((id + 100)); fi
    echo "$line" | cut -c1-60 >> played
    echo "{\"id\":$id,\"hard\":0,\"reason\":\"$item\"}" ;;
  esac
done
"#;

/// What a program does wrong in the middle of a batch stops the run; the rest of the batch is kept, and the run goes
/// on when the program is mended.
#[cfg(unix)]
#[test]
fn a_program_that_breaks_in_the_middle_stops_the_run_which_goes_on_when_it_is_mended() {
    for (trick, in_code, expect) in [
        ("dies", code::OUTAGE, &["exit code 3", "no more", "item two"][..]),
        ("floods", code::OUTAGE, &["line 2 ", "still at it", "item two"]),
        ("wrong", code::OUTAGE, &["line 2 ", "request 1", "item two"]),
        ("version", code::DATA, &["version 2 ", "version 1"]),
    ] {
        let context = household();
        context.write("house/world.sh", PROGRAM);
        let config = context.read("house/skillrl.toml");
        let (models, _) = config.split_once("[env]").unwrap();
        let env = "[env]\nkind = \"exec\"\nprogram = [\"sh\", \"world.sh\"]\nprogram_dir = \".\"\n[train]\nepochs = 1\nbatch_size = 3\n[eval]\nfresh = false\n";
        context.write("house/skillrl.toml", &format!("{models}{env}"));
        let train = ["train", "house/skillrl.toml", "--quiet", "--set", "run.workers=1"];
        context.write(&format!("house/{trick}"), "");
        context.run(&train).fails(in_code, expect);
        context.remove(&format!("house/{trick}"));
        context.succeed(&train);
        let played = context.read("house/played");
        for item in ["one", "three", "four", "five"] {
            let n_times = played.lines().filter(|line| line.contains(&format!("\"id\":\"{item}\""))).count();
            // The test item is played by the first skill and the best one, which are the same here.
            assert!(n_times <= 2, "{trick}: {item} was played {n_times} times:\n{played}");
        }
        let results = context.json("house/run/steps/step_0001/rollout_results.json");
        assert_eq!(results.as_array().map(Vec::len), Some(3), "{trick}");
    }
}

/// Documents beside a question, looked at by a person as the agent does.
#[test]
fn a_task_with_files_is_checked_and_played_by_hand() {
    let context = TestContext::with_task("{ kind = \"simulated\" }", "{ kind = \"simulated\" }");
    context.replace("task/skillrl.toml", "kind = \"qa\"", "kind = \"tasks\"\nfiles_dir = \"docs\"");
    context.write("task/docs/notes.txt", "The word is\ntrainword1.\n");
    let config = "task/skillrl.toml";
    let shown = context.succeed(&["env", "check", config]);
    assert!(
        shown.contains("## Files") && shown.contains("- notes.txt") && shown.contains("score  100.0 %"),
        "{shown}"
    );
    let list = "{\"tool\": \"list\"}\n{\"tool\": \"grep\", \"pattern\": \"word1\"}\ntrainword1\n";
    let turns = lines(&play(&context, &[config, "--item", "train-1", "--json"], list));
    let seen: Vec<&str> = turns.iter().map(|turn| turn["observation"].as_str().unwrap()).collect();
    assert!(seen[0].contains("Repeat: trainword1."), "{}", seen[0]);
    assert_eq!(seen[1..], ["notes.txt (24 bytes)", "notes.txt:2: trainword1.", "hard 1, soft 1: right"]);
    assert_eq!((&turns[3]["done"], &turns[3]["won"]), (&true.into(), &true.into()));
    for (set, expect) in [
        ("env.files_dir=nowhere", "nowhere"),
        ("env.file_tools=[\"write\"]", "`env.file_tools` names \"write\"; expected \"list\""),
        ("env.files_field=docs", "`docs`"),
    ] {
        let outcome = context.run(&["env", "check", config, "--set", set]);
        assert!(outcome.code != Some(0) && outcome.stderr.contains(expect), "{set}: {}", outcome.stderr);
    }
}
