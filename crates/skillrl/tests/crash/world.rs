//! A task with its run, the children that work on it, and what has to hold after each of them.

use crate::all_files::all_files;
use crate::child::{Commits, Death, MARK, PLAN_VARIABLE, Plan, Said};
use crate::served::{Request, requests};
use skillrl::demo::{self, DemoFile, DemoWorld};
use skillrl::llm::JournalReader;
use skillrl::llm::journal::CallFilter;
use skillrl::pipeline::run_dir::timings::Timings;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use tempfile::TempDir;

/// The files of a run that no promise is about.
const OTHER_FILES: [&str; 10] = [
    "journal.sqlite",
    "journal.sqlite-wal",
    "journal.sqlite-shm",
    "journal.sqlite-sent",
    "journal.sqlite-sum",
    "events.jsonl",
    "timings.json",
    "timings.jsonl",
    "report.html",
    "run.lock",
];

/// What is done at an epoch's end; its places name the last step of the epoch.
const EPOCH_END_STAGES: [&str; 5] =
    ["rollout_prev", "rollout_curr", "slow_update", "slow_evaluate", "meta_skill"];

/// The contents of files by their path.
pub(crate) type Files = BTreeMap<String, Vec<u8>>;

/// How much there is to train on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Size {
    /// Six steps on a few items of the demo, in three epochs.
    Small,
    /// The demo with all that the ends of epochs add.
    Demo,
    /// The demo with more epochs.
    Long,
    /// A bank on a few games of the household: distilled, tried and evolved once.
    Bank,
}

impl Size {
    /// Items of train, val and test; `None` takes all.
    fn n_items(self, split: &str) -> Option<usize> {
        match (self, split) {
            (Self::Small, "data/train.jsonl") => Some(8),
            (Self::Small, _) => Some(5),
            (Self::Demo | Self::Long | Self::Bank, _) => None,
        }
    }

    fn overrides(self) -> &'static [&'static str] {
        match self {
            // Ends of epochs too: the second one writes guidance and the notes that the third one's prompts show.
            Self::Small => &[
                "train.epochs=3",
                "train.batch_size=4",
                "train.slow_update=gated",
                "train.slow_update_samples=4",
                "train.meta_skill=true",
            ],
            Self::Demo => &["train.slow_update=gated", "train.meta_skill=true"],
            Self::Long => &["train.epochs=5", "train.slow_update=gated", "train.meta_skill=true"],
            Self::Bank => &[
                "env.max_train=8",
                "env.max_val=2",
                "env.max_test=2",
                "env.task_types=[\"pick_and_place_simple\"]",
                "evolution.rounds=1",
                "evolution.samples=1",
                "evolution.min_rollouts=1",
                "evolution.max_trials=1",
                "evolution.trial_samples=2",
                "evolution.max_trial_rollouts=16",
            ],
        }
    }

    /// The files of the demo, and which of them is the configuration.
    fn demo(self) -> (&'static [DemoFile], &'static str) {
        match self {
            Self::Small | Self::Demo | Self::Long => (&demo::FILES, demo::CONFIG_FILE),
            Self::Bank => (DemoWorld::Alfworld.files(), demo::BANK_CONFIG_FILE),
        }
    }
}

/// A directory with a task and its run.
pub(crate) struct World {
    dir: TempDir,
    size: Size,
    n_workers: usize,
    n_children: u32,
    /// The last child that [`World::audit`] has looked at.
    n_audited: u32,
    /// Places whose reply the journal held after the last child.
    committed: BTreeSet<String>,
    /// The requests whose reply was not committed when their child died.
    pub(crate) n_lost: usize,
}

/// What a run comes to that nobody disturbs.
pub(crate) struct Undisturbed {
    pub(crate) files: Files,
    pub(crate) requests: Vec<Request>,
    /// Calls and results in its journal.
    pub(crate) n_entries: u64,
}

/// What a child is started with besides its world.
#[derive(Debug, Clone)]
pub(crate) struct Start<'a> {
    pub(crate) death: Option<Death>,
    pub(crate) commits: Commits,
    pub(crate) max_bytes: Option<u64>,
    /// A line for `bash` that is run before the child is; it may lower limits.
    pub(crate) shell: Option<&'a str>,
}

impl Default for Start<'_> {
    fn default() -> Self {
        Self { death: None, commits: Commits::InGroups, max_bytes: None, shell: None }
    }
}

/// A child that works.
pub(crate) struct Working {
    child: Child,
    lines: std::io::Lines<BufReader<ChildStdout>>,
}

/// How a child ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    /// The last thing that it said.
    pub(crate) last: Option<Said>,
}

impl World {
    pub(crate) fn new(size: Size, n_workers: usize) -> Self {
        let dir = tempfile::tempdir().unwrap();
        for file in size.demo().0 {
            let path = dir.path().join(file.path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            let n_lines = match size.n_items(file.path) {
                Some(n_items) if file.path.starts_with("data/") => n_items,
                Some(_) | None => usize::MAX,
            };
            let text: String = file.text.split_inclusive('\n').take(n_lines).collect();
            let text = text.replace("\"bank-run\"", "\"run\"");
            std::fs::write(path, text).unwrap();
        }
        Self { dir, size, n_workers, n_children: 0, n_audited: 0, committed: BTreeSet::new(), n_lost: 0 }
    }

    /// A run that nobody disturbs.
    pub(crate) fn undisturbed(size: Size) -> Undisturbed {
        let mut world = Self::new(size, 1);
        world.finish(&Start::default());
        let requests = world.requests();
        let places: BTreeSet<&str> = requests.iter().map(|request| request.place.as_str()).collect();
        assert_eq!(places.len(), requests.len(), "each place makes one request, so a place names a request");
        Undisturbed { files: world.files(), n_entries: world.n_entries(), requests }
    }

    /// Another world that stands where this one does.
    pub(crate) fn copy(&self) -> Self {
        let dir = tempfile::tempdir().unwrap();
        for (path, bytes) in all_files(self.dir.path()) {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, bytes).unwrap();
        }
        Self { dir, committed: self.committed.clone(), ..*self }
    }

    pub(crate) fn run_dir(&self) -> PathBuf {
        self.dir.path().join("run")
    }

    pub(crate) fn requests(&self) -> Vec<Request> {
        requests(self.dir.path())
    }

    pub(crate) fn n_children(&self) -> u32 {
        self.n_children
    }

    /// The files of the run that have to be those of an undisturbed one.
    pub(crate) fn files(&self) -> Files {
        let mut files = all_files(&self.run_dir());
        files.retain(|path, _| !OTHER_FILES.contains(&path.as_str()));
        files
    }

    pub(crate) fn start(&mut self, start: &Start<'_>) -> Working {
        self.n_children += 1;
        let mut overrides: Vec<String> = self.size.overrides().iter().map(ToString::to_string).collect();
        overrides.push(format!("run.workers={}", self.n_workers));
        let plan = Plan {
            number: self.n_children,
            home: self.dir.path().to_owned(),
            config: self.size.demo().1.to_owned(),
            overrides,
            death: start.death,
            commits: start.commits,
            max_bytes: start.max_bytes,
        };
        let mut command = match start.shell {
            None => Command::new(std::env::current_exe().unwrap()),
            Some(line) => {
                let mut bash = Command::new("bash");
                bash.args(["-c", &format!("{line}; exec \"$0\" \"$@\"")]);
                bash.arg(std::env::current_exe().unwrap());
                bash
            }
        };
        let mut child = command
            .args(["--exact", "child::crash_child", "--nocapture", "--test-threads=1"])
            .env(PLAN_VARIABLE, serde_json::to_string(&plan).unwrap())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Working { child, lines }
    }

    /// Runs a child until it holds still at its death, and kills it; `false` if it came to its end before.
    pub(crate) fn kill_at(&mut self, death: Death, commits: Commits) -> bool {
        let start = Start { death: Some(death), commits, ..Start::default() };
        self.kill_when(&start, |said| *said == Said::Dying)
    }

    /// Runs a child until it has said something, and kills it; `false` if it came to its end before.
    pub(crate) fn kill_when(&mut self, start: &Start<'_>, is_time: impl FnMut(&Said) -> bool) -> bool {
        let mut working = self.start(start);
        if working.wait_until(is_time) {
            working.kill();
            self.audit();
            return true;
        }
        let ended = working.end();
        assert!(ended.status.success(), "{ended:?}");
        self.audit();
        false
    }

    /// Runs a child to the end of the run.
    pub(crate) fn finish(&mut self, start: &Start<'_>) {
        let ended = self.start(start).end();
        assert!(ended.status.success() && matches!(ended.last, Some(Said::Finished { .. })), "{ended:?}");
        self.audit();
    }

    /// Compares what the server saw since the last audit with what was committed then and is committed now.
    pub(crate) fn audit(&mut self) {
        let committed = self.committed_now();
        let gone: Vec<&String> = self.committed.difference(&committed).collect();
        assert!(gone.is_empty(), "replies are gone from the journal: {gone:?}");
        self.assert_nothing_committed_was_asked_again();
        let sent = self.sent_since_audit();
        let mut missing = self.places_asked();
        missing.retain(|place| self.is_of_finished(place) && !committed.contains(place));
        assert!(missing.is_empty(), "what is finished stands on replies that are not committed: {missing:?}");
        self.n_lost += sent.difference(&committed).count();
        self.committed = committed;
        self.n_audited = self.n_children;
    }

    /// Nobody has sent a request since the last audit whose reply was committed then.
    #[track_caller]
    pub(crate) fn assert_nothing_committed_was_asked_again(&self) {
        let sent = self.sent_since_audit();
        let again: Vec<&String> = sent.intersection(&self.committed).collect();
        assert!(again.is_empty(), "asked again although the reply was committed: {again:?}");
    }

    /// Takes the journal as it is now for all that was ever committed.
    pub(crate) fn forget_what_was_cut(&mut self) {
        let committed = self.committed_now();
        self.n_lost += self.committed.difference(&committed).count();
        self.committed = committed;
    }

    /// The places that requests were sent from since the last audit.
    fn sent_since_audit(&self) -> BTreeSet<String> {
        let recent = self.requests().into_iter().filter(|request| request.child > self.n_audited);
        recent.map(|request| request.place).collect()
    }

    /// The places whose reply is in the journal.
    pub(crate) fn committed_now(&self) -> BTreeSet<String> {
        let filter = CallFilter { outcome: Some("reply".to_owned()), ..CallFilter::default() };
        let rows = self.read_journal(|journal| journal.calls(&filter).unwrap());
        rows.into_iter().map(|call| call.place).collect()
    }

    /// Calls and results in the journal.
    pub(crate) fn n_entries(&self) -> u64 {
        self.read_journal(|journal| {
            let totals = journal.totals().unwrap();
            totals.replies + totals.failed + totals.results
        })
    }

    /// Requests in the journal.
    pub(crate) fn requests_in_journal(&self) -> u64 {
        self.read_journal(|journal| journal.totals().unwrap().requests)
    }

    /// Requests that the journal is known to have held.
    pub(crate) fn requests_noted(&self) -> u64 {
        Timings::read_or_new(&self.run_dir()).unwrap().requests.unwrap()
    }

    /// Reads a copy of the journal, so that it stays as the dead left it.
    fn read_journal<T: Default>(&self, read: impl FnOnce(&JournalReader) -> T) -> T {
        let copy = tempfile::tempdir().unwrap();
        for name in ["journal.sqlite", "journal.sqlite-wal"] {
            let (from, to) = (self.run_dir().join(name), copy.path().join(name));
            if from.exists() {
                std::fs::copy(from, to).unwrap();
            }
        }
        match JournalReader::open(&copy.path().join("journal.sqlite")) {
            Ok(reader) => read(&reader),
            // A process that died before it had made the tables leaves nothing to read.
            Err(_) => T::default(),
        }
    }

    /// Whether a place belongs to what the run directory says is finished: baseline, steps, evaluations at the end.
    fn is_of_finished(&self, place: &str) -> bool {
        let stage = place.split(" / ").next().unwrap();
        if let Some(test) = stage.strip_prefix("test_") {
            return self.run_dir().join(format!("test_eval_{test}/summary.json")).exists();
        }
        if stage == "final_selection" {
            return self.run_dir().join("final_selection_eval/summary.json").exists();
        }
        if let Some(fresh) = stage.strip_prefix("fresh_") {
            return self.run_dir().join(format!("fresh_eval_{fresh}/summary.json")).exists();
        }
        if self.size == Size::Bank {
            let round = match (stage, stage.strip_prefix("step ")) {
                (_, Some(round)) => round.parse().unwrap(),
                ("baseline" | "collect" | "distill", None) => 0_u32,
                // A bank is measured in any round.
                (_, None) => return false,
            };
            return self.run_dir().join(format!("rounds/round_{round:04}/record.json")).exists();
        }
        let Ok(state) = std::fs::read(self.run_dir().join("runtime_state.json")) else { return false };
        let state: serde_json::Value = serde_json::from_slice(&state).unwrap();
        let Some(step) = stage.strip_prefix("step ") else { return true };
        let step: u64 = step.parse().unwrap();
        if step > state["last_completed_step"].as_u64().unwrap() {
            return false;
        }
        if self.is_given_up(place, step) {
            return false;
        }
        !place.split(" / ").any(|part| EPOCH_END_STAGES.contains(&part)) || self.has_ended(&state, step)
    }

    /// Whether a rollout of a finished evaluation was not needed: its candidate was rejected while the rollout was under
    /// way, and its results do not hold it.
    fn is_given_up(&self, place: &str, step: u64) -> bool {
        let parts: Vec<&str> = place.split(" / ").collect();
        let [_, "evaluate", item] = parts.as_slice() else { return false };
        let results = self.run_dir().join(format!("steps/step_{step:04}/selection_eval/results.json"));
        let Ok(results) = std::fs::read_to_string(results) else { return false };
        !results.contains(&format!("\"{item}\""))
    }

    /// Whether the end of a step's epoch is done, by a state of the run.
    fn has_ended(&self, state: &serde_json::Value, step: u64) -> bool {
        let history = std::fs::read_to_string(self.run_dir().join("history.jsonl")).unwrap();
        // The last line may be torn, or of a step that is not finished.
        let mut history =
            history.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
        let record = history.find(|record| record["step"] == step).unwrap();
        record["epoch"].as_u64() <= state["epoch_end"]["epoch"].as_u64()
    }

    /// Holds the finished run against an undisturbed one.
    #[track_caller]
    pub(crate) fn assert_is(&self, undisturbed: &Undisturbed) {
        assert_same_files(&self.files(), &undisturbed.files);
        let digests: BTreeMap<&str, &str> = undisturbed
            .requests
            .iter()
            .map(|request| (request.place.as_str(), request.digest.as_str()))
            .collect();
        let requests = self.requests();
        for request in &requests {
            let expect = digests.get(request.place.as_str());
            // With more workers more may be begun than is needed in the end.
            if self.n_workers == 1 || expect.is_some() {
                assert_eq!(Some(&request.digest.as_str()), expect, "{}", request.place);
            }
        }
        let n_repeats = requests.len() - self.places_asked().len();
        assert!(n_repeats <= self.n_lost, "{n_repeats} asked again, {} lost", self.n_lost);
    }

    pub(crate) fn places_asked(&self) -> BTreeSet<String> {
        self.requests().into_iter().map(|request| request.place).collect()
    }
}

impl Working {
    /// Waits until the child says something; `false` if it came to its end before.
    pub(crate) fn wait_until(&mut self, mut is_time: impl FnMut(&Said) -> bool) -> bool {
        while let Some(said) = self.next_said() {
            if matches!(said, Said::Finished { .. }) {
                return false;
            }
            if let Said::Stopped { .. } = said {
                panic!("{said:?}");
            }
            if is_time(&said) {
                return true;
            }
        }
        panic!("the child died: {:?}", self.child.wait());
    }

    fn next_said(&mut self) -> Option<Said> {
        loop {
            let line = self.lines.next()?.unwrap();
            if let Some(said) = line.strip_prefix(MARK) {
                return Some(serde_json::from_str(said).unwrap());
            }
        }
    }

    /// SIGKILL, at once and from outside; the child can do nothing about it.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        let status = self.child.wait().unwrap();
        assert!(!status.success());
    }

    /// Waits for the end.
    pub(crate) fn end(mut self) -> Ended {
        let mut last = None;
        while let Some(said) = self.next_said() {
            last = Some(said);
        }
        Ended { status: self.child.wait().unwrap(), last }
    }
}

/// A test that fails leaves no process behind.
impl Drop for Working {
    fn drop(&mut self) {
        // Most have ended and been waited for by now, which is not an error here.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Compares two sets of files and names the first that differs, rather than showing all bytes of both.
#[track_caller]
fn assert_same_files(left: &Files, right: &Files) {
    let names = |files: &Files| files.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(left), names(right));
    for (path, bytes) in left {
        let (left, right) = (String::from_utf8_lossy(bytes), String::from_utf8_lossy(&right[path]));
        assert_eq!(left, right, "{path} differs");
    }
}
