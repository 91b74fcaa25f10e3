//! Runs in one process and over workers come to the same files.

use crate::all_files::all_files;
use parking_lot::Mutex;
use serde_json::json;
use skill_nats::fake::{FakeConnect, FakeServer};
use skillrl::config::{Config, LoadedConfig, ModelRole};
use skillrl::engine::{Engine, RunModels};
use skillrl::nats::{
    ConfigWorkshop, Times, Worker, WorkerConfig, WorkerEvent, WorkerOptions, WorkerStop, runner,
};
use skillrl::pipeline::{NoEvents, StopSignal};
use skillrl::trainer::document_with;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

/// Files that say when something happened; `xtask/src/run_files.rs` has those of all kinds of runs.
const MAY_DIFFER: [&str; 5] = ["events.jsonl", "timings.json", "timings.jsonl", "report.html", "run.lock"];

fn files(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut files = all_files(dir);
    files.retain(|path, _| {
        let name = path.rsplit('/').next().unwrap();
        !MAY_DIFFER.contains(&name) && !name.starts_with("journal.sqlite")
    });
    files
}

/// Generated households, played by simulated models.
fn household(dir: &Path) -> LoadedConfig {
    let text = "[models]\ntarget = { kind = \"simulated\", sim_seed = 7 }\n\
                optimizer = { kind = \"simulated\", sim_seed = 24 }\n\n\
                [env]\nkind = \"alfworld\"\nmax_train = 4\nmax_val = 4\nmax_test = 3\nhistory_turns = 30\n\
                max_turns = 20\n\n[train]\nepochs = 1\nbatch_size = 4\nminibatch_size = 2\n";
    std::fs::write(dir.join("skillrl.toml"), text).unwrap();
    Config::load(&dir.join("skillrl.toml"), &[]).unwrap()
}

/// Questions from a file, with replies from another one.
fn questions(dir: &Path) -> LoadedConfig {
    for (split, n_items) in [("train", 4), ("val", 4), ("test", 3)] {
        let line = |n: usize| {
            format!("{{\"id\": \"{split}{n}\", \"question\": \"What is {n}?\", \"answers\": [\"{n}\"]}}\n")
        };
        std::fs::create_dir_all(dir.join("data")).unwrap();
        std::fs::write(dir.join(format!("data/{split}.jsonl")), (0..n_items).map(line).collect::<String>())
            .unwrap();
    }
    let replies = r#"{"version": 1, "rules": [{"when": {"user_contains": ["What is 1"]}, "reply": "<answer>1</answer>"}], "otherwise": {"reply": "<answer>no</answer>"}}"#;
    std::fs::write(dir.join("replies.json"), replies).unwrap();
    let text = "[models]\ntarget = { kind = \"scripted\", file = \"replies.json\" }\n\
                optimizer = { kind = \"simulated\" }\n\n[env]\nkind = \"qa\"\ndata = \"data\"\n\n\
                [train]\nepochs = 1\nbatch_size = 4\n";
    std::fs::write(dir.join("skillrl.toml"), text).unwrap();
    Config::load(&dir.join("skillrl.toml"), &[]).unwrap()
}

const WORKBOOKS: &str = include_str!("../../../skill-cli/tests/cli/workbooks.py");

/// Workbooks, with programs from a file: right for those whose number begins with 1.
fn workbooks(dir: &Path) -> LoadedConfig {
    let made = Command::new("/usr/bin/python3").args(["-c", WORKBOOKS]).current_dir(dir).status();
    assert!(made.unwrap().success());
    let program = |line: &str| {
        let text = format!(
            "import openpyxl\nbook = openpyxl.load_workbook(INPUT_PATH)\nsheet = book.active\n\
             for row in range(2, 5):\n    {line}\nbook.save(OUTPUT_PATH)\n"
        );
        format!("```python\n{text}```")
    };
    let [right, wrong] =
        ["sheet.cell(row, 3).value = 2 * sheet.cell(row, 2).value", "sheet.cell(row, 3).value = row"]
            .map(program);
    let replies = json!({
        "version": 1,
        "rules": [{"when": {"user_contains": ["of sheet 1"]}, "reply": right}],
        "otherwise": {"reply": wrong},
    });
    std::fs::write(dir.join("replies.json"), replies.to_string()).unwrap();
    let text = "[models]\ntarget = { kind = \"scripted\", file = \"replies.json\" }\n\
                optimizer = { kind = \"simulated\" }\n\n[env]\nkind = \"spreadsheet\"\ndata = \"sheets\"\n\
                mode = \"single\"\nrecalculate = \"never\"\n\n[train]\nepochs = 1\nbatch_size = 4\n";
    std::fs::write(dir.join("skillrl.toml"), text).unwrap();
    Config::load(&dir.join("skillrl.toml"), &[]).unwrap()
}

fn models(loaded: &LoadedConfig) -> RunModels {
    let mut engine = Engine::new(loaded);
    RunModels {
        target: engine.model(ModelRole::Target).unwrap(),
        optimizer: engine.model(ModelRole::Optimizer).unwrap(),
        judge: engine.judge().unwrap(),
    }
}

async fn train(loaded: &LoadedConfig, out: &Path, server: Option<&FakeServer>) {
    let trainer = document_with(loaded, models(loaded), Arc::new(NoEvents), StopSignal::default()).unwrap();
    let trainer = match server {
        Some(server) => {
            let connect = Arc::new(FakeConnect(server.client()));
            trainer.with_runner(Arc::new(runner(loaded, connect, Times::default()).unwrap()))
        }
        None => trainer,
    };
    trainer.train(out).await.unwrap();
}

/// Starts a worker with a cache and a directory of its own; returns what is in its way.
fn start(server: &FakeServer, dir: &Path, id: usize, slots: u32) -> (WorkerStop, Arc<Mutex<Vec<String>>>) {
    let options = WorkerOptions {
        cache: dir.join(format!("cache{id}")),
        base: dir.to_owned(),
        overrides: vec!["run.workers=3".to_owned()],
    };
    let config = WorkerConfig {
        name: "skillrl".to_owned(),
        id: format!("w{id}"),
        title: format!("host/{id}"),
        version: skillrl::nats::VERSION.to_owned(),
        slots,
        times: Times::default(),
    };
    let problems = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&problems);
    let events = Arc::new(move |event| {
        if let WorkerEvent::CannotWork { problems, .. } = event {
            seen.lock().extend(problems);
        }
    });
    let connect = Arc::new(FakeConnect(server.client()));
    let worker = Worker::new(config, connect, Arc::new(ConfigWorkshop::new(options)), events);
    let stop = WorkerStop::default();
    let until = stop.clone();
    tokio::spawn(async move { worker.run(until).await.unwrap() });
    (stop, problems)
}

async fn check(make: fn(&Path) -> LoadedConfig) {
    let dir = tempfile::tempdir().unwrap();
    let loaded = make(dir.path());
    let here = dir.path().join("here");
    train(&loaded, &here, None).await;
    for (n_workers, slots) in [(1, 1), (3, 2), (2, 16)] {
        let server = FakeServer::default();
        let workers: Vec<_> = (0..n_workers).map(|id| start(&server, dir.path(), id, slots)).collect();
        let there = dir.path().join(format!("there{n_workers}-{slots}"));
        train(&loaded, &there, Some(&server)).await;
        assert_eq!(files(&here), files(&there), "{n_workers} workers");
        for (stop, problems) in workers {
            assert_eq!(*problems.lock(), [] as [String; 0]);
            stop.abort.cancel();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_in_households_writes_the_same_files_for_any_number_of_workers() {
    check(household).await;
}

#[tokio::test(start_paused = true)]
async fn a_run_on_data_from_files_writes_the_same_files_for_any_number_of_workers() {
    check(questions).await;
}

/// In real time, since the programs take some.
#[tokio::test]
#[ignore = "needs bwrap and openpyxl: cargo xtask check sandbox"]
async fn workbooks_in_the_sandbox_of_any_number_of_workers_come_to_the_same_files() {
    check(workbooks).await;
}

#[tokio::test(start_paused = true)]
async fn a_worker_without_the_program_of_the_environment_says_so() {
    let (there, here) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let loaded = questions(there.path());
    std::fs::write(there.path().join("score.py"), "print('score')").unwrap();
    let text = loaded
        .source_text
        .replace("kind = \"qa\"", "kind = \"tasks\"\nscorer = \"command\"\ncommand = [\"sh\", \"score.py\"]");
    let path = there.path().join("skillrl.toml");
    std::fs::write(&path, text).unwrap();
    let loaded = Config::load(&path, &[]).unwrap();
    let server = FakeServer::default();
    let (_stop, problems) = start(&server, here.path(), 0, 1);
    let out = there.path().join("run");
    let training = train(&loaded, &out, Some(&server));
    drop(tokio::time::timeout(Duration::from_secs(20), training).await);
    let problems = problems.lock();
    assert!(problems.iter().any(|problem| problem.contains("score.py")), "{problems:?}");
}
