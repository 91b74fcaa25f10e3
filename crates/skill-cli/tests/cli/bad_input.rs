//! Wrong input of every kind: one clear sentence with a hint, a documented exit code, and nothing lost.

use crate::context::{Files, Outcome, TestContext, code};
use crate::server::{self, GOOD_RULE, Server, model_at, reply};
use serde_json::json;
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
    /// What is wrong, where, and what to do.
    stderr: &'static [&'static str],
}

const TRAIN: &[&str] = &["train", CONFIG];
const RELATIVE_PATHS: &str =
    "hint: paths in the file are relative to the file, paths given by --set to the current directory\n";
const MEND_DATA: &str = "hint: mend the data, then start the same command again\n";

const ROWS: &[Row] = &[
    Row {
        name: "missing data directory",
        arrange: |context, _| std::fs::remove_dir_all(context.path("task/data")).unwrap(),
        args: TRAIN,
        code: code::USAGE,
        stderr: &[
            "error: task/skillrl.toml:10:1: `env.data` names task/data, which does not exist\n",
            RELATIVE_PATHS,
        ],
    },
    Row {
        name: "missing data file",
        arrange: |context, _| context.remove("task/data/val.jsonl"),
        args: TRAIN,
        code: code::DATA,
        stderr: &[
            "task/data: has no part for the split `val`; expected val.jsonl, val.json, val.csv or a directory val\n",
            MEND_DATA,
        ],
    },
    Row {
        name: "malformed data",
        arrange: |context, _| context.append("task/data/train.jsonl", "{\"id\": \"x\", \"question\": \n"),
        args: TRAIN,
        code: code::DATA,
        stderr: &[
            "task/data/train.jsonl, line 5: is not JSON",
            "holds one whole object on each line",
            MEND_DATA,
        ],
    },
    Row {
        name: "empty split",
        arrange: |context, _| context.write("task/data/test.jsonl", "\n"),
        args: TRAIN,
        code: code::DATA,
        stderr: &["task/data/test.jsonl: holds no items, so the split `test` is empty\n", MEND_DATA],
    },
    Row {
        name: "ids that occur twice",
        arrange: |context, _| context.append("task/data/val.jsonl", &context.read("task/data/train.jsonl")),
        args: TRAIN,
        code: code::DATA,
        stderr: &[
            "task/data/val.jsonl, line 3: the id `train-1` is taken by task/data/train.jsonl, line 1",
            MEND_DATA,
        ],
    },
    Row {
        name: "item without an answer",
        arrange: |context, _| {
            context.append("task/data/test.jsonl", "{\"id\": \"x\", \"question\": \"Why?\"}\n");
        },
        args: TRAIN,
        code: code::DATA,
        stderr: &["task/data/test.jsonl, line 3: has no answer; expected `answers`", MEND_DATA],
    },
    Row {
        name: "unknown split",
        arrange: |_, _| (),
        args: &["eval", CONFIG, "--split", "tset"],
        code: code::USAGE,
        stderr: &[
            "error: there is no split `tset`; the splits are train, val and test\n",
            "hint: name one of the three\n",
        ],
    },
    Row {
        name: "key variable that is not set",
        arrange: |context, _| {
            context.replace(CONFIG, "/v1\" }", "/v1\", api_key_env = \"SKILLRL_TEST_KEY\" }");
        },
        args: TRAIN,
        code: code::PROVIDER_REFUSED,
        stderr: &[
            "error: cannot set up the target model: the environment variable SKILLRL_TEST_KEY with the key for http://127.0.0.1:",
            "/v1 is not set\n",
            "hint: set the variable, or name another one with `api_key_env`\n",
        ],
    },
    Row {
        name: "server that does not accept the key",
        arrange: |_, server| {
            let body = json!({"error": {"message": "Incorrect API key provided."}});
            server.answer_with(move |_, _| ResponseTemplate::new(401).set_body_json(&body));
        },
        args: TRAIN,
        code: code::PROVIDER_REFUSED,
        stderr: &[
            "error: stopped at step 2 / rollout / train-",
            "does not accept the key (HTTP 401): Incorrect API key provided.\n",
            "hint: check the key in the variable that `api_key_env` names\n",
        ],
    },
    Row {
        name: "reply that is not JSON",
        arrange: |_, server| {
            let page = "<html><body>Welcome to the hotel's network</body></html>";
            server.answer_with(move |_, _| ResponseTemplate::new(200).set_body_raw(page, "text/html"));
        },
        args: TRAIN,
        code: code::OUTAGE,
        stderr: &[
            "error: stopped at step 2 / rollout / train-",
            "cannot be read: it is not JSON (",
            "<html><body>Welcome to the hotel's network",
            "hint: check that `base_url` is an endpoint of the model's `kind`, usually ending in /v1\n",
        ],
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
        stderr: &[
            "error: stopped at step 2 / reflect / success 1: http://127.0.0.1:",
            "failed (HTTP 500): out of memory\n",
            "hint: start the same command again later\n",
        ],
    },
    Row {
        name: "run directory below a regular file",
        arrange: |context, _| context.write("task/file", ""),
        args: &["train", CONFIG, "--set", "run.dir=task/file/run"],
        code: code::RUN_DIR,
        stderr: &[
            "error: cannot create task/file/run: ",
            "hint: a file stands where a directory is to be: name another place (of a run that is `run.dir`), or move the file\n",
        ],
    },
    Row {
        name: "run of other settings",
        arrange: |_, _| (),
        args: &["train", CONFIG, "--set", "train.batch_size=1", "--set", "run.seed=3"],
        code: code::OTHER_RUN,
        stderr: &[
            "error: the run in task/run was started with other settings: `run.seed` was 42, is 3; `train.batch_size` was 2, is 1\n",
            "hint: set these back to go on with this run, or start a new one with another `run.dir`\n",
        ],
    },
    Row {
        name: "run of another task",
        arrange: |context, _| context.replace("task/data/train.jsonl", "Repeat", "Say"),
        args: TRAIN,
        code: code::OTHER_RUN,
        stderr: &[
            "error: the run in task/run was started with other settings: the data of the train split has changed\n",
        ],
    },
    Row {
        name: "run of a newer format",
        arrange: |context, _| context.replace("task/run/config.json", "\"2.0\"", "\"3.3\""),
        args: TRAIN,
        code: code::RUN_DIR,
        stderr: &[
            "error: task/run/config.json has format version 3.3, this program reads up to 2.0\n",
            "hint: use the version of skillrl that wrote the run\n",
        ],
    },
    Row {
        name: "damaged run",
        arrange: |context, _| context.append("task/run/skills/skill_v0001.md", "edited\n"),
        args: TRAIN,
        code: code::RUN_DIR,
        stderr: &[
            "error: task/run/skills/skill_v0001.md: has the hash ",
            ", but the run left it with ",
            "hint: restore the file, or start a new run in another directory\n",
        ],
    },
    Row {
        name: "unknown key",
        arrange: |context, _| context.append(CONFIG, "min_edit_bugdet = 3\n"),
        args: TRAIN,
        code: code::USAGE,
        stderr: &[
            "error: task/skillrl.toml:21:1: unknown key `train.min_edit_bugdet`; did you mean `train.min_edit_budget`?\n",
            "hint: `skillrl init` writes a file with every key and what it does\n",
        ],
    },
    Row {
        name: "unknown key on the command line",
        arrange: |_, _| (),
        args: &["train", CONFIG, "--set", "train.bach_size=8"],
        code: code::USAGE,
        stderr: &["error: --set: unknown key `train.bach_size`; did you mean `train.batch_size`?\n"],
    },
    Row {
        name: "override that is none",
        arrange: |_, _| (),
        args: &["train", CONFIG, "--set", "nonsense"],
        code: code::USAGE,
        stderr: &[
            "error: --set: `nonsense` does not have the form KEY=VALUE\n",
            "hint: write an override like `--set train.batch_size=8`\n",
        ],
    },
    Row {
        name: "value of another kind",
        arrange: |_, _| (),
        args: &["train", CONFIG, "--set", "train.batch_size=many"],
        code: code::USAGE,
        stderr: &["error: --set: `train.batch_size` takes a whole number from 1 to 1000000, not \"many\"\n"],
    },
    Row {
        name: "missing configuration",
        arrange: |context, _| context.remove(CONFIG),
        args: TRAIN,
        code: code::USAGE,
        stderr: &[
            "error: cannot read the configuration file task/skillrl.toml: ",
            "hint: `skillrl init` writes a configuration file to start from\n",
        ],
    },
    Row {
        name: "missing skill in the configuration",
        arrange: |context, _| context.remove("task/skill.md"),
        args: TRAIN,
        code: code::USAGE,
        stderr: &[
            "error: task/skillrl.toml:13:1: `skill.initial` names task/skill.md, which does not exist\n",
            RELATIVE_PATHS,
        ],
    },
    Row {
        name: "missing skill on the command line",
        arrange: |_, _| (),
        args: &["eval", CONFIG, "--skill", "none.md"],
        code: code::USAGE,
        stderr: &[
            "error: cannot read the skill none.md: ",
            "hint: check the path; in the configuration it is relative to its file\n",
        ],
    },
    Row {
        name: "prompt with an undefined variable",
        arrange: |context, _| {
            context.succeed(&["prompts", "export", "prompts"]);
            context.replace("prompts/analyst_error.md", "{{ trajectories }}", "{{ trajektories }}");
        },
        args: &["train", CONFIG, "--set", "prompts.dir=prompts"],
        code: code::USAGE,
        stderr: &[
            "error: cannot render a prompt: prompt `prompts/analyst_error.md`: line ",
            ": undefined value: `trajektories` is undefined\n",
            "hint: mend the file in the directory that `prompts.dir` names\n",
        ],
    },
    Row {
        name: "prompt of the environment with an undefined variable",
        arrange: |context, _| {
            context.succeed(&["prompts", "export", "prompts"]);
            context.replace("prompts/rollout_qa.md", "{{ question }}", "{{ qestion }}");
        },
        args: &["train", CONFIG, "--set", "prompts.dir=prompts"],
        code: code::USAGE,
        stderr: &[
            "error: cannot use the prompts: prompt `prompts/rollout_qa.md`: line ",
            "undefined value: `qestion` is undefined\n",
            "hint: mend the file; `skillrl prompts export DIR` writes the built-in ones\n",
        ],
    },
    Row {
        name: "prompt of an unknown name",
        arrange: |context, _| context.write("prompts/rankin.md", "text"),
        args: &["train", CONFIG, "--set", "prompts.dir=prompts"],
        code: code::USAGE,
        stderr: &[
            "error: cannot use the prompts: no prompt is called like the file `prompts/rankin.md`: did you mean `ranking.md`?\n",
            "hint: mend the file; `skillrl prompts export DIR` writes the built-in ones\n",
        ],
    },
];

#[test]
fn every_kind_of_bad_input_says_what_is_wrong_and_loses_nothing() {
    let server = Server::start();
    let stopped = after_step_1(&server);
    for row in ROWS {
        let context = stopped.copy();
        server.answer_with(|_, _| ResponseTemplate::new(500).set_body_string("nobody expected this call"));
        (row.arrange)(&context, &server);
        let before = context.files("task/run");
        let outcome = context.run(row.args);
        check(row, &outcome.stderr, outcome.code);
        assert_eq!(outcome.stdout, "", "{}", row.name);
        assert_kept(&before, &context.files("task/run"), row.name);
    }
}

#[track_caller]
fn check(row: &Row, stderr: &str, code: Option<i32>) {
    let name = row.name;
    assert_eq!(code, Some(row.code), "{name}: {stderr}");
    for part in row.stderr {
        assert!(stderr.contains(part), "{name}: {part:?} is not part of\n{stderr}");
    }
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
    let context = TestContext::with_task(&server.model("target"), &server.model("optimizer"));
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
            Some("timings.json" | "report.html" | "journal.sqlite") => true,
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
        let outcome = context.run(args);
        outcome.assert_code(code::OUTAGE);
        let expect = format!(": cannot reach {address}/v1: ");
        assert!(outcome.stderr.contains(&expect), "{}", outcome.stderr);
        assert!(outcome.stderr.contains("hint: check `base_url` and that the server is running\n"));
    }
    // What the log says of it is the whole sentence, not its beginning.
    let log = context.read("task/run/events.jsonl");
    let stopped = log.lines().last().unwrap();
    assert!(stopped.contains("\"run_stopped\"") && stopped.contains("cannot reach"), "{stopped}");
    assert_eq!(context.read("task/run/.notes.txt"), "a person's own file");
    assert!(!context.path("task/run/summary.json").exists());
}

#[test]
fn a_target_reply_that_is_cut_is_scored_and_said_so() {
    let server = Server::start();
    let context = TestContext::with_task(&server.model("target"), &server.model("optimizer"));
    server.answer_with(|_, request| match server::is_optimizer(&server::body(request)) {
        true => server::healthy(request),
        false => reply("Good day to", "length"),
    });
    context.succeed(TRAIN);
    let results = context.json("task/run/steps/step_0001/rollout_results.json");
    for result in results.as_array().unwrap() {
        assert_eq!(result["hard"], 0.0, "{result}");
        let reason = result["fail_reason"].as_str().unwrap();
        assert!(reason.ends_with("; the reply was cut at its token limit"), "{reason}");
        assert_eq!(result["trajectory"]["turns"][0]["finish"], "length", "{result}");
    }
}

#[test]
fn an_optimizer_reply_that_is_cut_keeps_what_is_whole() {
    let server = Server::start();
    let context = TestContext::with_task(&server.model("target"), &server.model("optimizer"));
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
    let expect = "warning: step 1: analyst failure 1: the reply was cut off at its length limit (";
    assert!(outcome.stderr.contains(expect), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("raise `limits.max_reply_tokens`"), "{}", outcome.stderr);
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
    let said = "warning: SKILLRL_LOG is no filter for a log and has no effect: ";
    assert!(outcome.stderr.starts_with(said), "{}", outcome.stderr);
    assert!(outcome.stdout.starts_with('{'));
}

#[test]
fn what_the_system_refuses_ends_with_what_to_do() {
    let context = TestContext::new();
    context.write("file", "a file and no directory");
    std::fs::write(context.path("bytes"), [0xff, 0xfe, 0x00]).unwrap();
    for (args, expect_code, hint) in [
        (
            &["inspect", "nowhere"][..],
            code::USAGE,
            "name a skill, a skill's folder, the directory of a run, or a journal.sqlite",
        ),
        (
            &["inspect", "bytes"],
            code::USAGE,
            "name a skill, a skill's folder, the directory of a run, or a journal.sqlite",
        ),
        (&["man", "file/man"], 1, "check the path, and that it can be read and written"),
        (&["prompts", "export", "file/prompts"], 1, "check the path, and that it can be read and written"),
        (&["serve", "--token-env", "NO_SUCH_TOKEN"], code::USAGE, "set NO_SUCH_TOKEN to the token"),
        (
            &["serve", "--listen", "7878"],
            code::USAGE,
            "expected an IP address and a port, like 127.0.0.1:7878",
        ),
    ] {
        let outcome = context.run(args);
        outcome.assert_code(expect_code);
        assert!(outcome.stderr.contains(hint), "{args:?}: {}", outcome.stderr);
    }
}

#[test]
fn a_directory_of_runs_or_of_data_is_not_taken_for_a_run() {
    let context = TestContext::with_demo();
    let refused = |dir: &str, found: &str| {
        let (before, run_dir) = (context.files("."), format!("run.dir={dir}"));
        for command in ["train", "noise"] {
            let outcome = context.run(&[command, "demo/skillrl.toml", "--set", &run_dir]);
            outcome.assert_code(code::RUN_DIR);
            let said =
                format!("{dir} is not empty and is no run: it holds {found}\nhint: take another `run.dir`");
            assert!(outcome.stderr.contains(&said), "{}", outcome.stderr);
        }
        let doctor = context.run(&["doctor", "demo/skillrl.toml", "--offline", "--set", &run_dir]).stdout;
        assert!(doctor.contains(&format!("is not empty and is no run: it holds {found}")), "{doctor}");
        assert_eq!(context.files("."), before);
    };
    refused("demo/data", "test.jsonl, train.jsonl, val.jsonl");
    context.succeed(&[
        "train",
        "demo/skillrl.toml",
        "--quiet",
        "--set",
        "run.dir=runs/a",
        "--set",
        "train.epochs=1",
    ]);
    refused("runs", "the run a");
    context.write("hidden/.gitignore", "*\n");
    context.succeed(&[
        "train",
        "demo/skillrl.toml",
        "--quiet",
        "--set",
        "run.dir=hidden",
        "--set",
        "train.epochs=1",
    ]);
}
