//! Wrong input of every kind: one clear sentence with a hint, a documented exit code, and nothing lost.

use crate::context::{Files, Outcome, TestContext, code};
use crate::said::{Said, assert_names};
use crate::server::{self, GOOD_RULE, Server, model_at, reply};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use wiremock::ResponseTemplate;

const CONFIG: &str = "task/skillrl.toml";

/// Calls of a run of the task up to the end of its first step.
const N_CALLS_OF_STEP_1: usize = 7;

/// One kind of bad input, met while a run that has made its first step goes on.
struct Row {
    name: &'static str,
    arrange: fn(&TestContext, &Server),
    /// The command line behind the binary's name.
    args: &'static [&'static str],
    code: i32,
    /// What the message names: keys, places, numbers. Its words are in the snapshot.
    names: &'static [&'static str],
}

const TRAIN: &[&str] = &["train", CONFIG];

const ROWS: &[Row] = &[
    Row {
        name: "missing data directory",
        arrange: |context, _| std::fs::remove_dir_all(context.path("task/data")).unwrap(),
        args: TRAIN,
        code: code::USAGE,
        names: &["task/skillrl.toml:10:1", "`env.data`", "task/data"],
    },
    Row {
        name: "missing data file",
        arrange: |context, _| context.remove("task/data/train.jsonl"),
        args: TRAIN,
        code: code::DATA,
        names: &["task/data", "`train`", "train.jsonl"],
    },
    Row {
        // Without such a file the split is a part of the training data, which are other data.
        name: "missing validation file",
        arrange: |context, _| context.remove("task/data/val.jsonl"),
        args: TRAIN,
        code: code::OTHER_RUN,
        names: &["task/run", "the train split", "the val split"],
    },
    Row {
        name: "malformed data",
        arrange: |context, _| context.append("task/data/train.jsonl", "{\"id\": \"x\", \"question\": \n"),
        args: TRAIN,
        code: code::DATA,
        names: &["task/data/train.jsonl, line 5"],
    },
    Row {
        name: "empty split",
        arrange: |context, _| context.write("task/data/test.jsonl", "\n"),
        args: TRAIN,
        code: code::DATA,
        names: &["task/data/test.jsonl", "`test`"],
    },
    Row {
        name: "ids that occur twice",
        arrange: |context, _| context.append("task/data/val.jsonl", &context.read("task/data/train.jsonl")),
        args: TRAIN,
        code: code::DATA,
        names: &["task/data/val.jsonl, line 3", "`train-1`", "task/data/train.jsonl, line 1"],
    },
    Row {
        name: "item without an answer",
        arrange: |context, _| {
            context.append("task/data/test.jsonl", "{\"id\": \"x\", \"question\": \"Why?\"}\n");
        },
        args: TRAIN,
        code: code::DATA,
        names: &["task/data/test.jsonl, line 3", "`answers`"],
    },
    Row {
        name: "unknown split",
        arrange: |_, _| (),
        args: &["eval", CONFIG, "--split", "tset"],
        code: code::USAGE,
        names: &["`tset`"],
    },
    Row {
        name: "key variable that is not set",
        arrange: |context, _| {
            context.replace(CONFIG, "/v1\" }", "/v1\", api_key_env = \"SKILLRL_TEST_KEY\" }");
        },
        args: TRAIN,
        code: code::PROVIDER_REFUSED,
        names: &["SKILLRL_TEST_KEY", "`api_key_env`"],
    },
    Row {
        name: "server that does not accept the key",
        arrange: |_, server| {
            let body = json!({"error": {"message": "Incorrect API key provided."}});
            server.answer_with(move |_, _| ResponseTemplate::new(401).set_body_json(&body));
        },
        args: TRAIN,
        code: code::PROVIDER_REFUSED,
        names: &["step 2 / rollout / train-", "HTTP 401", "Incorrect API key provided.", "`api_key_env`"],
    },
    Row {
        name: "reply that is not JSON",
        arrange: |_, server| {
            let page = "<html><body>Welcome to the hotel's network</body></html>";
            server.answer_with(move |_, _| ResponseTemplate::new(200).set_body_raw(page, "text/html"));
        },
        args: TRAIN,
        code: code::OUTAGE,
        names: &["step 2 / rollout / train-", "<html><body>Welcome to the hotel's network", "`base_url`"],
    },
    Row {
        name: "optimizer that fails",
        arrange: |_, server| {
            server.answer_with(|_, request| match server::is_optimizer(&server::body(request)) {
                true => ResponseTemplate::new(500).set_body_string("out of memory"),
                false => server::healthy(request),
            });
        },
        args: TRAIN,
        code: code::OUTAGE,
        names: &["step 2 / reflect / success 1", "HTTP 500", "out of memory"],
    },
    Row {
        name: "run directory below a regular file",
        arrange: |context, _| context.write("task/file", ""),
        args: &["train", CONFIG, "--set", "run.dir=task/file/run"],
        code: code::RUN_DIR,
        names: &["task/file/run", "`run.dir`"],
    },
    Row {
        name: "run of other settings",
        arrange: |_, _| (),
        args: &["train", CONFIG, "--set", "train.batch_size=1", "--set", "run.seed=3"],
        code: code::OTHER_RUN,
        names: &["task/run", "`run.seed` was 42, is 3", "`train.batch_size` was 2, is 1"],
    },
    Row {
        name: "run of another task",
        arrange: |context, _| context.replace("task/data/train.jsonl", "Repeat", "Say"),
        args: TRAIN,
        code: code::OTHER_RUN,
        names: &["task/run", "train split"],
    },
    Row {
        name: "run of another format",
        arrange: |context, _| context.replace("task/run/config.json", "\"2.0\"", "\"3.3\""),
        args: TRAIN,
        code: code::RUN_DIR,
        names: &["task/run/config.json", "3.3", "2.0"],
    },
    Row {
        name: "damaged run",
        arrange: |context, _| context.append("task/run/skills/skill_v0001.md", "edited\n"),
        args: TRAIN,
        code: code::RUN_DIR,
        names: &["task/run/skills/skill_v0001.md", "hash"],
    },
    Row {
        name: "unknown key",
        arrange: |context, _| context.append(CONFIG, "min_edit_bugdet = 3\n"),
        args: TRAIN,
        code: code::USAGE,
        names: &["task/skillrl.toml:21:1", "`train.min_edit_bugdet`", "`train.min_edit_budget`"],
    },
    Row {
        name: "unknown key on the command line",
        arrange: |_, _| (),
        args: &["train", CONFIG, "--set", "train.bach_size=8"],
        code: code::USAGE,
        names: &["--set", "`train.bach_size`", "`train.batch_size`"],
    },
    Row {
        name: "override that is none",
        arrange: |_, _| (),
        args: &["train", CONFIG, "--set", "nonsense"],
        code: code::USAGE,
        names: &["--set", "`nonsense`"],
    },
    Row {
        name: "value of another kind",
        arrange: |_, _| (),
        args: &["train", CONFIG, "--set", "train.batch_size=many"],
        code: code::USAGE,
        names: &["`train.batch_size`", "1000000", "\"many\""],
    },
    Row {
        name: "missing configuration",
        arrange: |context, _| context.remove(CONFIG),
        args: TRAIN,
        code: code::USAGE,
        names: &["task/skillrl.toml", "`skillrl init`"],
    },
    Row {
        name: "missing skill in the configuration",
        arrange: |context, _| context.remove("task/skill.md"),
        args: TRAIN,
        code: code::USAGE,
        names: &["task/skillrl.toml:13:1", "`skill.initial`", "task/skill.md"],
    },
    Row {
        name: "missing skill on the command line",
        arrange: |_, _| (),
        args: &["eval", CONFIG, "--skill", "none.md"],
        code: code::USAGE,
        names: &["none.md"],
    },
    Row {
        name: "prompt with an undefined variable",
        arrange: |context, _| {
            context.succeed(&["config", "prompts", "prompts"]);
            context.replace("prompts/analyst_error.md", "{{ trajectories }}", "{{ trajektories }}");
        },
        args: &["train", CONFIG, "--set", "prompts.dir=prompts"],
        code: code::USAGE,
        names: &["`prompts/analyst_error.md`", "`trajektories`", "`prompts.dir`"],
    },
    Row {
        name: "prompt of the environment with an undefined variable",
        arrange: |context, _| {
            context.succeed(&["config", "prompts", "prompts"]);
            context.replace("prompts/rollout_qa.md", "{{ question }}", "{{ qestion }}");
        },
        args: &["train", CONFIG, "--set", "prompts.dir=prompts"],
        code: code::USAGE,
        names: &["`prompts/rollout_qa.md`", "`qestion`", "`skillrl config prompts DIR`"],
    },
    Row {
        name: "prompt of an unknown name",
        arrange: |context, _| context.write("prompts/rankin.md", "text"),
        args: &["train", CONFIG, "--set", "prompts.dir=prompts"],
        code: code::USAGE,
        names: &["`prompts/rankin.md`", "`ranking.md`"],
    },
];

#[test]
fn every_kind_of_bad_input_says_what_is_wrong_and_loses_nothing() {
    let server = Server::start();
    let stopped = after_step_1(&server);
    let mut said = Said::default();
    for row in ROWS {
        let context = stopped.copy();
        server.answer_with(|_, _| ResponseTemplate::new(500).set_body_string("nobody expected this call"));
        (row.arrange)(&context, &server);
        let before = context.files("task/run");
        let outcome = context.run(row.args);
        check(row, &outcome.stderr, outcome.code);
        assert_eq!(outcome.stdout, "", "{}", row.name);
        assert_kept(&before, &context.files("task/run"), row.name);
        said.add(row.name, &outcome);
    }
    insta::assert_snapshot!("bad_input", said.text());
}

#[track_caller]
fn check(row: &Row, stderr: &str, code: Option<i32>) {
    let name = row.name;
    assert_eq!(code, Some(row.code), "{name}: {stderr}");
    assert_names(stderr, row.names);
    // One error, one hint, nothing said twice.
    let lines: Vec<&str> = stderr.lines().collect();
    let n_lines = |start: &str| lines.iter().filter(|line| line.starts_with(start)).count();
    assert_eq!((n_lines("error: "), n_lines("hint: ")), (1, 1), "{name}: {stderr}");
    assert!(lines.iter().all(|line| !line.contains("panicked")), "{name}: {stderr}");
    for line in lines {
        let mut parts: Vec<&str> = line.split(": ").collect();
        parts.sort_unstable();
        assert!(parts.windows(2).all(|pair| pair[0] != pair[1]), "{name}: said twice: {line}");
    }
}

/// A run of the task that an outage stopped between its first and its second step.
fn after_step_1(server: &Server) -> TestContext {
    let context = server.task();
    server.answer_with(server::outage_after(N_CALLS_OF_STEP_1));
    context.run(TRAIN).assert_code(code::OUTAGE);
    assert_eq!(context.json("task/run/runtime_state.json")["last_completed_step"], 1);
    context
}

/// Every file that was there is there, unchanged but for the logs, which may only grow.
#[track_caller]
fn assert_kept(before: &Files, after: &Files, name: &str) {
    assert!(before.contains_key(Path::new("steps/step_0001/step_record.json")), "{name}: nothing to keep");
    for (path, bytes) in before {
        let now = after.get(path).unwrap_or_else(|| panic!("{name}: {} is gone", path.display()));
        let is_kept = match path.to_str() {
            Some("events.jsonl" | "timings.jsonl") => now.starts_with(bytes),
            // A call that was refused is recorded.
            Some("timings.json" | "report.html" | "journal.sqlite" | "journal.sqlite-sum") => true,
            _ => now == bytes,
        };
        assert!(is_kept, "{name}: {} has changed", path.display());
    }
}

#[test]
fn an_unreachable_server_is_an_outage() {
    let address = server::closed_address();
    let context = TestContext::with_task(&model_at(&address, "target"), &model_at(&address, "optimizer"));
    context.write("task/run/.notes.txt", "a person's own file");
    for args in [TRAIN, &["eval", CONFIG]] {
        context.run(args).fails(code::OUTAGE, &[&format!("{address}/v1"), "`base_url`"]);
    }
    // What the log says of it is the whole sentence, not its beginning.
    let log = context.read("task/run/events.jsonl");
    let stopped: Value = serde_json::from_str(log.lines().last().unwrap()).unwrap();
    assert_eq!(stopped["event"], "run_stopped");
    assert!(stopped["reason"].as_str().unwrap().contains(&format!("{address}/v1")), "{stopped}");
    assert_eq!(context.read("task/run/.notes.txt"), "a person's own file");
    assert!(!context.path("task/run/summary.json").exists());
}

#[test]
fn a_target_reply_that_is_cut_is_scored_and_said_so() {
    let (server, context) = Server::start_with_task();
    server.answer_with(|_, request| match server::is_optimizer(&server::body(request)) {
        true => server::healthy(request),
        false => reply("Good day to", "length"),
    });
    context.succeed(TRAIN);
    let results = context.json("task/run/steps/step_0001/rollout_results.json");
    for result in results.as_array().unwrap() {
        assert_eq!(result["hard"], 0.0, "{result}");
        let reason = result["fail_reason"].as_str().unwrap();
        assert!(reason.contains("token limit"), "{reason}");
        assert_eq!(result["trajectory"]["turns"][0]["finish"], "length", "{result}");
    }
}

#[test]
fn an_optimizer_reply_that_is_cut_keeps_what_is_whole() {
    let (server, context) = Server::start_with_task();
    server.answer_with(|_, request| match server::is_optimizer(&server::body(request)) {
        true => {
            let whole = json!({"op": "append", "target": "", "content": GOOD_RULE});
            let text = format!(
                "{{\"patch\": {{\"reasoning\": \"it talks\", \"edits\": [{whole}, {{\"op\": \"append\", \"content\": \"- Half a ru"
            );
            reply(&text, "length")
        }
        false => server::healthy(request),
    });
    let outcome = context.run(TRAIN);
    outcome.assert_code(code::SUCCESS);
    assert_names(&outcome.stderr, &["warning: step 1: analyst failure 1: ", "`max_reply_tokens`"]);
    let best = context.read("task/run/best_skill.md");
    assert!(best.contains(GOOD_RULE) && !best.contains("Half a ru"), "{best}");
}

#[test]
fn a_wrong_command_line_is_a_usage_error() {
    let context = TestContext::new();
    for args in [&["trian"][..], &["train", "--jsno"], &["init", "a", "--demo", "b"], &[]] {
        let outcome = context.run(args);
        outcome.assert_code(code::USAGE);
        assert!(outcome.stderr.contains("Usage: skillrl"), "{args:?}: {}", outcome.stderr);
    }
    assert_eq!(context.files("."), Files::from([] as [(PathBuf, Vec<u8>); 0]));
}

#[test]
fn a_filter_that_is_none_is_said_and_stops_nothing() {
    let context = TestContext::new();
    let mut command = context.command(&["config", "schema"]);
    let outcome = Outcome::of(command.env("SKILLRL_LOG", "skill_llm=loud").output().unwrap());
    outcome.assert_code(code::SUCCESS);
    assert!(outcome.stderr.starts_with("warning: SKILLRL_LOG "), "{}", outcome.stderr);
    assert!(outcome.stdout.starts_with('{'));
}

#[test]
fn what_the_system_refuses_ends_with_what_to_do() {
    let context = TestContext::new();
    context.write("file", "a file and no directory");
    std::fs::write(context.path("bytes"), [0xff, 0xfe, 0x00]).unwrap();
    let mut said = Said::default();
    for (args, expect_code, name) in [
        (&["inspect", "nowhere"][..], code::USAGE, "nowhere"),
        (&["inspect", "bytes"], code::USAGE, "bytes"),
        (&["man", "file/man"], 1, "file/man"),
        (&["config", "prompts", "file/prompts"], 1, "file/prompts"),
        (&["serve", "--token-env", "NO_SUCH_TOKEN"], code::USAGE, "NO_SUCH_TOKEN"),
        (&["serve", "--listen", "7878"], code::USAGE, "7878"),
    ] {
        let outcome = context.run(args).fails(expect_code, &[name]);
        said.add(&args.join(" "), &outcome);
    }
    insta::assert_snapshot!("what_the_system_refuses", said.text());
}

#[test]
fn a_directory_of_runs_or_of_data_is_not_taken_for_a_run() {
    let context = TestContext::with_demo();
    let refused = |dir: &str, found: &str| {
        let (before, run_dir) = (context.files("."), format!("run.dir={dir}"));
        for command in [&["train"][..], &["doctor", "--measure"]] {
            context
                .run(&[command, &["demo/skillrl.toml", "--set", &run_dir]].concat())
                .fails(code::RUN_DIR, &[&format!("{dir} "), found, "`run.dir`"]);
        }
        let doctor = context.run(&["doctor", "demo/skillrl.toml", "--offline", "--set", &run_dir]).stdout;
        assert_names(&doctor, &[&format!("{dir} "), found]);
        assert_eq!(context.files("."), before);
    };
    let train = |dir: &str| {
        context.succeed(&["train", "demo/skillrl.toml", "--quiet", "--set", dir, "--set", "train.epochs=1"]);
    };
    refused("demo/data", "test.jsonl, train.jsonl, val.jsonl");
    train("run.dir=runs/a");
    refused("runs", "the run a");
    context.write("hidden/.gitignore", "*\n");
    train("run.dir=hidden");
}
