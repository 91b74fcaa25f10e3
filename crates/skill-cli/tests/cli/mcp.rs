//! `skillrl mcp`, as a client starts it; runs that it starts are programs of their own.

use crate::context::TestContext;
use crate::context::code;

#[cfg(not(feature = "mcp"))]
#[test]
fn a_program_without_the_server_says_how_to_get_one_with_it() {
    let outcome = TestContext::new().run(&["mcp"]);
    outcome.assert_code(code::USAGE);
    assert_eq!(
        outcome.stderr,
        "error: this program was built without the MCP server\n\
         hint: build it in: `cargo install --path crates/skill-cli --features mcp`\n"
    );
}

#[cfg(feature = "mcp")]
mod served {
    use super::{TestContext, code};
    use crate::server::{self, Server};
    use parking_lot::{Condvar, Mutex};
    use serde_json::{Value, json};
    use std::io::{BufRead as _, BufReader, Read as _, Write as _};
    use std::process::{Child, ChildStdin, ChildStdout, Stdio};
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    /// Far longer than anything takes; only a failed test waits so long.
    const PATIENCE: Duration = Duration::from_secs(60);

    /// A client that reads and writes lines.
    struct Client {
        server: Child,
        input: Option<ChildStdin>,
        output: BufReader<ChildStdout>,
        last_id: u64,
    }

    impl Client {
        fn start(context: &TestContext, args: &[&str]) -> Self {
            let args: Vec<&str> = ["-vv", "mcp"].iter().chain(args).copied().collect();
            let mut command = context.command(&args);
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
            let mut server = command.spawn().unwrap();
            let (input, output) = (server.stdin.take(), BufReader::new(server.stdout.take().unwrap()));
            let mut client = Self { server, input, output, last_id: 0 };
            let client_info = json!({"name": "test", "version": "1"});
            let hello =
                json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client_info});
            client.ask("initialize", hello);
            client.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
            client
        }

        fn send(&mut self, message: &Value) {
            writeln!(self.input.as_mut().unwrap(), "{message}").unwrap();
        }

        fn ask(&mut self, method: &str, params: Value) -> Value {
            self.last_id += 1;
            self.send(&json!({"jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params}));
            loop {
                let mut line = String::new();
                self.output.read_line(&mut line).unwrap();
                // Whatever is logged, standard output holds messages of the protocol alone.
                let message: Value = serde_json::from_str(&line).unwrap();
                assert_eq!(message["jsonrpc"], "2.0");
                if message["id"] == self.last_id {
                    return message["result"].clone();
                }
            }
        }

        fn call(&mut self, tool: &str, arguments: Value) -> Value {
            let result = self.ask("tools/call", json!({"name": tool, "arguments": arguments}));
            assert_ne!(result["isError"], true, "{tool}: {result}");
            result["structuredContent"].clone()
        }

        /// Follows a run until it is in this state.
        fn follow(&mut self, run: &str, state: &str) -> Value {
            let (began, mut cursor) = (Instant::now(), Value::Null);
            while began.elapsed() < PATIENCE {
                let asked = json!({"run": run, "cursor": cursor, "wait_s": 10, "until": "end"});
                let news = self.call("follow_run", asked);
                if news["now"]["state"] == state {
                    return news;
                }
                cursor = news["next_cursor"].clone();
            }
            panic!("{run} did not become {state}");
        }

        /// Leaves, as a client does that closes the pipe; the server has to end by itself.
        fn leave(mut self) {
            drop(self.input.take());
            let mut rest = String::new();
            self.output.read_to_string(&mut rest).unwrap();
            assert_eq!((rest.as_str(), self.server.wait().unwrap().code()), ("", Some(code::SUCCESS)));
        }
    }

    impl Drop for Client {
        fn drop(&mut self) {
            self.server.kill().unwrap_or_default();
            self.server.wait().unwrap();
        }
    }

    #[test]
    fn the_demo_is_estimated_started_followed_and_read() {
        let context = TestContext::with_demo();
        let mut client = Client::start(&context, &[]);
        let estimate = client.call("estimate_run", json!({"config": "demo/skillrl.toml"}));
        let started = client.call("start_run", json!({"config": "demo/skillrl.toml", "max_calls": 100_000}));
        assert_eq!((&started["run"], &started["has_resumed"]), (&"demo/run".into(), &false.into()));
        client.follow("demo/run", "finished");
        let run = client.call("read_run", json!({"run": "demo/run"}));
        let n_calls = run["now"]["spend"]["calls"].as_u64();
        let calls = &estimate["total"]["calls"];
        assert!(calls["low"].as_u64() <= n_calls && n_calls <= calls["high"].as_u64(), "{calls} {n_calls:?}");
        // The process writes the report, and takes away what says that it is there, after the run's end.
        let began = Instant::now();
        let is_over =
            || context.path("demo/run/report.html").exists() && !context.path("demo/run/live.json").exists();
        while !is_over() {
            assert!(began.elapsed() < PATIENCE, "the process goes on");
        }
        let again = client.call("start_run", json!({"config": "demo/skillrl.toml", "max_calls": 100_000}));
        assert_eq!(
            (&again["state"], &again["has_resumed"], &again["pid"]),
            (&"finished".into(), &false.into(), &Value::Null)
        );
        // It is the run that the command makes, to the byte.
        let same = TestContext::with_finished_demo();
        let mut files = context.untimed_files("demo/run");
        let mut expected = same.untimed_files("demo/run");
        // A directory of its own, and its cap.
        for files in [&mut files, &mut expected] {
            assert!(files.remove(std::path::Path::new("config.json")).is_some());
        }
        crate::context::assert_same_files(&files, &expected);
        client.leave();
    }

    #[test]
    fn a_skill_is_measured_as_the_command_measures_it() {
        let context = TestContext::with_demo();
        let mut client = Client::start(&context, &["--max-calls", "1000"]);
        let asked = |name: &str, skill: &str| json!({"name": name, "config": "demo/skillrl.toml", "skill": skill, "split": "test", "wait_s": 60});
        let first = client.call("measure", asked("first", "demo/initial_skill.md"));
        context
            .write("better.md", &context.read("demo/initial_skill.md").replacen('\n', "\n\nBe brief.\n", 1));
        let mut second = asked("second", "better.md");
        second["against"] = "first".into();
        let second = client.call("measure", second);
        let args =
            ["eval", "demo/skillrl.toml", "--skill", "demo/initial_skill.md", "--split", "test", "--json"];
        let outcome = context.run(&args);
        outcome.assert_code(code::SUCCESS);
        let printed: Value = serde_json::from_str(&outcome.stdout).unwrap();
        let of = |value: &Value, names: [&str; 3]| names.map(|name| value[name].clone());
        assert_eq!(of(&first["score"], ["hard", "soft", "n_items"]), of(&printed, ["hard", "soft", "n"]));
        assert_eq!(second["difference"]["n_items"], first["score"]["n_items"]);
        // The same name is not taken for another skill.
        let answer =
            client.ask("tools/call", json!({"name": "measure", "arguments": asked("first", "better.md")}));
        assert_eq!(answer["isError"], true, "{answer}");
        // What is there is not paid for again.
        let again = client.call("measure", asked("first", "demo/initial_skill.md"));
        assert_eq!((&again["score"], &again["spent"]["requests_now"]), (&first["score"], &0.into()));
        client.leave();
    }

    #[test]
    fn a_bank_is_measured_as_the_command_measures_it() {
        let context = crate::bank_training::household();
        let skill = json!({"skill_id": "g", "title": "Look first", "principle": "Look before you act."});
        let bank = json!({"general_skills": [skill], "task_specific_skills": {}, "common_mistakes": []});
        context.write("bank.json", &bank.to_string());
        let mut client = Client::start(&context, &["--max-calls", "100000"]);
        let asked = json!({"name": "bank", "config": "household.toml", "bank": "bank.json", "wait_s": 60});
        let measured = client.call("measure", asked.clone());
        let args = ["eval", "household.toml", "--bank", "bank.json", "--split", "val", "--json"];
        let outcome = context.run(&args);
        outcome.assert_code(code::SUCCESS);
        let printed: Value = serde_json::from_str(&outcome.stdout).unwrap();
        let of = |value: &Value, names: [&str; 3]| names.map(|name| value[name].clone());
        for (ours, theirs) in [("score", "with"), ("without_bank", "without")] {
            let theirs = of(&printed[theirs], ["hard", "soft", "n"]);
            assert_eq!(of(&measured[ours], ["hard", "soft", "n_items"]), theirs);
        }
        let (ours, theirs) = (&measured["difference"], &printed["difference"]);
        let names = ["difference", "difference_interval", "n"];
        assert_eq!(of(ours, ["difference", "interval", "n_items"]), of(theirs, names));
        let counts = [&theirs["counts"]["wins"], &theirs["counts"]["losses"]];
        assert_eq!([&ours["n_improved"], &ours["n_regressed"]], counts);
        let sent = &measured["spent"]["requests"];
        assert!(sent.as_u64() > Some(0) && measured["spent"]["requests_now"] == *sent, "{measured}");
        // What is kept is told from what is paid for.
        let again = client.call("measure", asked);
        assert_eq!(again["score"], measured["score"]);
        assert_eq!((&again["spent"]["requests_now"], &again["spent"]["requests"]), (&0.into(), sent));
        client.leave();
    }

    #[test]
    fn the_maximum_of_the_server_is_for_all_measurements_together() {
        let context = TestContext::with_demo();
        let asked =
            |name: &str| json!({"name": name, "config": "demo/skillrl.toml", "split": "test", "wait_s": 60});
        let mut client = Client::start(&context, &["--max-calls", "1000"]);
        let first = client.call("measure", asked("first"));
        let n_sent = first["spent"]["requests"].as_u64().unwrap();
        client.leave();
        let refused = |client: &mut Client, name: &str| {
            let answer = client.ask("tools/call", json!({"name": "measure", "arguments": asked(name)}));
            assert_eq!(answer["isError"], true, "{answer}");
            answer["content"][0]["text"].as_str().unwrap().to_owned()
        };
        let cap = (n_sent + 3).to_string();
        let mut client = Client::start(&context, &["--max-calls", &cap]);
        assert!(refused(&mut client, "second").contains("a cap is reached"));
        assert!(refused(&mut client, "third").contains("nothing is left"));
        // What is finished is read, however little is left.
        assert_eq!(client.call("measure", asked("first"))["score"], first["score"]);
        client.leave();
    }

    #[test]
    fn a_run_that_trains_a_bank_is_estimated_and_read_as_one() {
        let context = crate::bank_training::household();
        let settings = ["train.mode=bank", "evolution.rounds=0", "bank.admit=unmeasured"];
        let settings: Vec<&str> = settings.iter().flat_map(|setting| ["--set", setting]).collect();
        context.append("household.toml", "[train]\nmode = \"bank\"\n[evolution]\nrounds = 0\n");
        let mut client = Client::start(&context, &[]);
        let estimate = client.call("estimate_run", json!({"config": "household.toml"}));
        let outcome = context.run(&["estimate", "household.toml", "--json"]);
        outcome.assert_code(code::SUCCESS);
        let printed: Value = serde_json::from_str(&outcome.stdout).unwrap();
        assert_eq!(estimate["trains"], "bank");
        for field in ["calls", "rollouts", "input_tokens", "output_tokens"] {
            assert_eq!(estimate["total"][field], printed["total"][field], "{field}");
        }
        let stages = |value: &Value| {
            let stages = value["stages"].as_array().unwrap().iter();
            stages.map(|stage| stage["stage"].clone()).collect::<Vec<_>>()
        };
        assert_eq!(stages(&estimate), stages(&printed));

        context.succeed(&[&["train", "household.toml", "--quiet"][..], &settings].concat());
        let outcome = context.run(&["status", "run", "--json"]);
        let printed: Value = serde_json::from_str(&outcome.stdout).unwrap();
        let run = client.call("read_run", json!({"run": "run"}));
        assert_eq!((&run["trains"], &run["summary"]["state"]), (&"a bank".into(), &"finished".into()));
        assert_eq!(run["verdict"], printed["verdict"]["outcome"]);
        assert_eq!([&run["test"]["before"], &run["test"]["after"]], [0, 1].map(|at| &printed["test"][at]));
        assert_eq!(
            [&run["selection"]["before"], &run["selection"]["after"]],
            [&printed["baseline"], &printed["best"]]
        );
        let bank = &run["bank"];
        assert_eq!(bank["n_active"], printed["bank"]["skills"]["active"]);
        assert_eq!(bank["active"].as_array().unwrap().len() as u64, bank["n_active"].as_u64().unwrap());
        assert!(
            bank["active"][0]["untrusted_title"].as_str().is_some_and(|title| !title.is_empty()),
            "{run}"
        );
        for tool in ["read_skill", "read_trajectories"] {
            let answer = client.ask("tools/call", json!({"name": tool, "arguments": {"run": "run"}}));
            let said = answer["content"][0]["text"].as_str().unwrap();
            assert!(answer["isError"] == true && said.contains("trains a bank"), "{tool}: {said}");
        }
        client.leave();
    }

    /// A gate that calls of models wait at.
    #[derive(Default)]
    struct Gate {
        is_open: Mutex<bool>,
        opened: Condvar,
    }

    impl Gate {
        fn open(&self) {
            *self.is_open.lock() = true;
            self.opened.notify_all();
        }

        fn wait(&self) {
            self.opened.wait_while_for(&mut self.is_open.lock(), |is_open| !*is_open, PATIENCE);
        }
    }

    #[test]
    fn a_run_lives_on_when_its_server_and_the_servers_group_end() {
        let (models, context) = Server::start_with_task();
        let gate = Arc::new(Gate::default());
        let of_server = Arc::clone(&gate);
        models.answer_with(move |_, request| {
            of_server.wait();
            server::healthy(request)
        });
        let mut client = Client::start(&context, &["--max-calls", "500"]);
        let started = client.call("start_run", json!({"config": "task/skillrl.toml"}));
        assert_eq!((&started["state"], &started["caps"]["calls"]), (&"training".into(), &500.into()));
        // Killed, as impatient clients do.
        drop(client);
        gate.open();
        let mut client = Client::start(&context, &["--read-only"]);
        let news = client.follow("task/run", "finished");
        assert_eq!(news["now"]["steps_done"], 2);
        client.leave();
        assert!(context.read("task/run.mcp.log").contains("step"));
    }

    #[test]
    fn a_run_that_is_resumed_is_training_when_start_run_has_answered() {
        let (models, context) = Server::start_with_task();
        let gate = Arc::new(Gate::default());
        let of_server = Arc::clone(&gate);
        models.answer_with(move |n, request| {
            if n > 5 {
                of_server.wait();
            }
            server::healthy(request)
        });
        let start = |max_calls: u64| json!({"config": "task/skillrl.toml", "max_calls": max_calls});
        let follow = json!({"run": "task/run", "wait_s": 0});
        let mut client = Client::start(&context, &[]);
        client.ask("tools/call", json!({"name": "start_run", "arguments": start(5)}));
        client.follow("task/run", "stopped");
        assert_eq!(client.call("start_run", start(500))["state"], "training");
        assert_eq!(client.call("follow_run", follow)["now"]["state"], "training");
        assert_eq!(client.call("read_run", json!({"run": "task/run"}))["now"]["state"], "training");
        gate.open();
        client.follow("task/run", "finished");
        client.leave();
    }

    #[test]
    fn directories_that_are_not_there_and_clients_that_are_none_are_refused() {
        let context = TestContext::new();
        let outcome = context.run(&["mcp", "--runs", "absent/runs"]);
        outcome.assert_code(code::USAGE);
        assert!(
            outcome.stderr.starts_with("error: cannot read the directory absent/runs: "),
            "{}",
            outcome.stderr
        );
        let outcome = context.run(&["mcp", "--max-money", "0"]);
        outcome.assert_code(code::USAGE);
        // Standard input is empty: the client has left before it has said anything.
        let outcome = context.run(&["mcp"]);
        outcome.assert_code(code::SUCCESS);
        assert_eq!(outcome.stdout, "");
    }
}
