//! A simulated agent with a known trigger curve, and what is measured with it.

use async_trait::async_trait;
use parking_lot::Mutex;
use serde_json::{Value, json};
use skill_agents::gate::{ALPHA, compare, least_queries};
use skill_agents::home::Moved;
use skill_agents::measure::{
    Caps, Ended, Launch, LaunchError, Launched, Launcher, Notice, Setup, Stop, Store, StoreError, Trouble,
    Workspace, measure,
};
use skill_agents::query::{Query, read_queries};
use skill_agents::rates::{Stratum, rate};
use skill_agents::report::report;
use skill_agents::{Skill, TriggerOutcome, agent};
use skill_core::SkillPackage;
use skill_core::carried::CarriedFile;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Numbers between 0 and 1 by a seed.
pub(crate) struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }
}

struct Folder(tempfile::TempDir);

impl Workspace for Folder {
    fn path(&self) -> &Path {
        self.0.path()
    }
}

/// How likely a skill is loaded, by its description and the query.
pub(crate) type Curve = fn(description: &str, query: &str) -> f64;

/// An agent that prints what Pi prints.
pub(crate) struct Simulated {
    curve: Curve,
    dice: Mutex<Dice>,
    seen: Mutex<Vec<Launch>>,
    /// What every run ends with instead of an answer.
    fault: Mutex<Option<String>>,
}

impl Simulated {
    pub(crate) fn new(seed: u64, curve: Curve) -> Self {
        Self { curve, dice: Mutex::new(Dice(seed)), seen: Mutex::default(), fault: Mutex::default() }
    }

    pub(crate) fn n_starts(&self) -> usize {
        self.seen.lock().len()
    }
}

fn assistant(id: usize, content: Value) -> Value {
    json!({"type": "message_end", "message": {"role": "assistant", "responseId": format!("r{id}"), "stopReason": "stop",
        "content": [content], "usage": {"input": 1000, "output": 10, "cost": {"total": 0.01}}}})
}

#[async_trait]
impl Launcher for Simulated {
    fn workspace(&self) -> io::Result<Box<dyn Workspace>> {
        Ok(Box::new(Folder(tempfile::tempdir()?)))
    }

    fn trouble(&self, _message: &str, status: Option<u16>) -> Trouble {
        match status {
            Some(401) => Trouble::Refused,
            Some(402) => Trouble::Limited,
            Some(429) => Trouble::Busy,
            _ => Trouble::Other,
        }
    }

    async fn launch(&self, launch: &Launch) -> Result<Launched, LaunchError> {
        self.seen.lock().push(launch.clone());
        let query = launch.stdin.clone();
        let skills = launch.directory.join(".pi/skills");
        let (mut listing, mut lines) = (String::new(), Vec::new());
        let mut names: Vec<PathBuf> = skills.read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
        names.sort();
        lines.push(json!({"type": "session", "id": "s"}));
        let mut calls = Vec::new();
        for folder in names {
            let text = std::fs::read_to_string(folder.join("SKILL.md")).unwrap();
            let line = text.lines().find(|line| line.starts_with("description: ")).unwrap();
            let description = line.trim_start_matches("description: ").trim_matches(['"', '\'']).to_owned();
            let name = folder.file_name().unwrap().to_string_lossy().into_owned();
            listing.push_str(&format!("<name>{name}</name>\n<description>{description}</description>\n"));
            if self.dice.lock().roll() < (self.curve)(&description, &query) {
                calls.push((name, folder.join("SKILL.md").display().to_string()));
            }
        }
        let system = json!({"role": "system", "sections": {"skills": listing}});
        lines.push(json!({"type": "message_end", "message": system}));
        if let Some(fault) = self.fault.lock().clone() {
            lines.push(json!({"type": "message_end", "message": {"role": "assistant", "stopReason": "error", "errorMessage": fault}}));
        } else {
            for (idx, (name, path)) in calls.iter().enumerate() {
                let call =
                    json!({"type": "toolCall", "id": name, "name": "read", "arguments": {"path": path}});
                lines.push(assistant(idx, call));
                let text = json!([{"type": "text", "text": "# A\n\nDo it."}]);
                lines.push(json!({"type": "message_end", "message": {"role": "toolResult", "toolCallId": name, "isError": false, "content": text}}));
            }
            lines.push(assistant(calls.len(), json!({"type": "text", "text": "Done."})));
        }
        lines.push(json!({"type": "agent_settled"}));
        let lines: Vec<String> = lines.iter().map(Value::to_string).collect();
        let (stdout, stderr) = (lines.join("\n"), String::new());
        Ok(Launched { stdout, stderr, ended: Ended::Exited(Some(0)), elapsed: Duration::from_millis(5) })
    }
}

pub(crate) fn skill(folder: &str, description: &str) -> Skill {
    let mut package = SkillPackage {
        main: format!("---\nname: {folder}\ndescription: {description}\n---\n# A\n\nDo it.\n"),
        ..SkillPackage::default()
    };
    package.carry("scripts/total.sh", CarriedFile::new(b"#!/bin/sh\n".to_vec(), true));
    Skill::new(folder, package).unwrap()
}

pub(crate) fn setup(skills: Vec<Skill>) -> Setup {
    Setup {
        agent: agent("pi").unwrap().unwrap(),
        program: Vec::new(),
        version: "1.5.2".to_owned(),
        model: None,
        turns: 6,
        deadline: Duration::from_secs(60),
        skills,
        competitors: Vec::new(),
        project: None,
        home: PathBuf::from("/no/home"),
        moved: Moved::default(),
        named_files: std::collections::BTreeMap::new(),
        with_mcp: false,
    }
}

pub(crate) const CAPS: Caps =
    Caps { calls: None, budget: None, prices: None, concurrency: 1, only_first: false };

pub(crate) fn queries(n_should: usize, n_should_not: usize) -> Vec<Query> {
    let line = |idx: usize, should: bool| {
        let subject = if should { "invoice" } else { "weather" };
        json!({"query": format!("{subject} number {idx}"), "should": should, "near_miss": !should})
            .to_string()
    };
    let lines: Vec<String> = (0..n_should)
        .map(|idx| line(idx, true))
        .chain((0..n_should_not).map(|idx| line(idx, false)))
        .collect();
    read_queries(&lines.join("\n"), "queries.jsonl", "invoice").unwrap()
}

pub(crate) fn store(dir: &Path) -> Store {
    Store::open(dir, &BTreeMap::from([("agent".to_owned(), "pi".to_owned())])).unwrap()
}

pub(crate) fn quiet(_notice: &Notice<'_>) {}

pub(crate) fn by_subject(description: &str, query: &str) -> f64 {
    let is_named = query.split(' ').next().is_some_and(|subject| description.contains(subject));
    if is_named { 1.0 } else { 0.0 }
}

#[tokio::test]
async fn rates_and_confusions_are_those_of_the_agent() {
    let dir = tempfile::tempdir().unwrap();
    let agent = Simulated::new(1, by_subject);
    let skills = vec![skill("invoice", "Does invoice and weather."), skill("other", "Does weather.")];
    let setup = setup(skills);
    let queries = queries(4, 2);
    let measured = measure(&setup, &queries, 3, &store(dir.path()), &agent, &CAPS, &quiet).await.unwrap();
    assert_eq!((measured.stop.clone(), measured.records.len(), agent.n_starts()), (None, 18, 18));
    let skills = BTreeMap::from([("invoice".to_owned(), 40), ("other".to_owned(), 20)]);
    let found = report("pi", &queries, 3, &skills, &measured);
    let invoice = &found.skills["invoice"];
    assert_eq!(invoice.recall.unwrap().rate, 1.0);
    assert_eq!(invoice.false_positives.unwrap().rate, 1.0);
    assert_eq!(invoice.near_misses.unwrap().runs, 6);
    assert_eq!(found.skills["other"].recall, None);
    assert_eq!(found.confusions["invoice"], BTreeMap::from([("invoice".to_owned(), 12)]));
    let none = BTreeMap::from([("invoice".to_owned(), 6), ("other".to_owned(), 6)]);
    assert_eq!(found.confusions["none"], none);
    assert!((found.cost.unwrap() - (12.0 * 0.02 + 6.0 * 0.03)).abs() < 1e-9, "{:?}", found.cost);
}

#[tokio::test]
async fn nothing_but_the_listing_points_at_the_skill() {
    let dir = tempfile::tempdir().unwrap();
    let agent = Simulated::new(1, |_, _| 0.0);
    let setup = setup(vec![skill("invoice", "Does it.")]);
    let queries = queries(1, 0);
    // The project is looked at while it is there.
    struct Looking(Simulated);
    #[async_trait]
    impl Launcher for Looking {
        fn workspace(&self) -> io::Result<Box<dyn Workspace>> {
            self.0.workspace()
        }
        fn trouble(&self, message: &str, status: Option<u16>) -> Trouble {
            self.0.trouble(message, status)
        }
        async fn launch(&self, launch: &Launch) -> Result<Launched, LaunchError> {
            assert_eq!(launch.stdin, "invoice number 0");
            assert!(!launch.command.iter().any(|word| word.contains("invoice number")));
            let skill = launch.directory.join(".pi/skills/invoice");
            assert!(skill.join("scripts/total.sh").is_file());
            let names: Vec<String> = launch
                .directory
                .read_dir()
                .unwrap()
                .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
                .collect();
            assert!(names.iter().all(|name| name == ".git" || name == ".pi"), "{names:?}");
            #[cfg(unix)]
            {
                use std::os::unix::fs::PermissionsExt as _;
                let mode = skill.join("scripts/total.sh").metadata().unwrap().permissions().mode();
                assert_eq!(mode & 0o111, 0o111);
            }
            self.0.launch(launch).await
        }
    }
    let agent = Looking(agent);
    let measured = measure(&setup, &queries, 1, &store(dir.path()), &agent, &CAPS, &quiet).await.unwrap();
    let record = measured.records.values().next().unwrap();
    assert_eq!(record.outcomes["invoice"], TriggerOutcome::NotTriggered);
}

#[tokio::test]
async fn what_is_on_record_is_not_run_again_and_failures_are() {
    let dir = tempfile::tempdir().unwrap();
    let agent = Simulated::new(1, by_subject);
    let setup = setup(vec![skill("invoice", "Does invoice.")]);
    let queries = queries(3, 2);
    let capped = Caps { calls: Some(4), ..CAPS };
    let first = measure(&setup, &queries, 2, &store(dir.path()), &agent, &capped, &quiet).await.unwrap();
    assert_eq!((first.stop, first.records.len(), agent.n_starts()), (Some(Stop::Calls(4)), 4, 4));
    // The cap counts the starts of all processes.
    let same = measure(&setup, &queries, 2, &store(dir.path()), &agent, &capped, &quiet).await.unwrap();
    assert_eq!((same.records.len(), agent.n_starts()), (4, 4));
    let rest = measure(&setup, &queries, 2, &store(dir.path()), &agent, &CAPS, &quiet).await.unwrap();
    assert_eq!((rest.stop.clone(), rest.records.len(), agent.n_starts()), (None, 10, 10));
    let again = measure(&setup, &queries, 2, &store(dir.path()), &agent, &CAPS, &quiet).await.unwrap();
    assert_eq!((again, agent.n_starts()), (rest, 10));
    // Another description is another measurement, beside it.
    let other = super::simulated::setup(vec![skill("invoice", "Does nothing.")]);
    let agent = Simulated::new(1, by_subject);
    *agent.fault.lock() = Some("500".to_owned());
    let failed = measure(&other, &queries, 2, &store(dir.path()), &agent, &CAPS, &quiet).await.unwrap();
    assert!(matches!(failed.stop, Some(Stop::KeepsFailing(_))), "{:?}", failed.stop);
    assert_eq!(agent.n_starts(), 3);
    assert!(failed.records.values().all(|record| record.outcomes["invoice"] == TriggerOutcome::Failed));
    *agent.fault.lock() = None;
    let fixed = measure(&other, &queries, 2, &store(dir.path()), &agent, &CAPS, &quiet).await.unwrap();
    assert_eq!((fixed.stop, fixed.records.len(), agent.n_starts()), (None, 10, 13));
}

#[tokio::test]
async fn an_account_that_refuses_or_is_used_up_stops_the_measurement_at_once() {
    for (fault, expect) in
        [("401: invalid key", "refused"), ("402: usage limit", "limited"), ("429: too many requests", "busy")]
    {
        let dir = tempfile::tempdir().unwrap();
        let agent = Simulated::new(1, by_subject);
        *agent.fault.lock() = Some(fault.to_owned());
        let setup = setup(vec![skill("invoice", "Does it.")]);
        let measured =
            measure(&setup, &queries(3, 2), 2, &store(dir.path()), &agent, &CAPS, &quiet).await.unwrap();
        assert_eq!(agent.n_starts(), 1);
        let found = match measured.stop {
            Some(Stop::Refused(_)) => "refused",
            Some(Stop::Limited(_)) => "limited",
            Some(Stop::Busy(_)) => "busy",
            other => panic!("{other:?}"),
        };
        assert_eq!(found, expect);
    }
}

#[tokio::test]
async fn an_estimate_makes_one_run_and_a_budget_needs_costs() {
    let dir = tempfile::tempdir().unwrap();
    let agent = Simulated::new(1, by_subject);
    let setup = setup(vec![skill("invoice", "Does it.")]);
    let notices = Mutex::new(Vec::new());
    let notify = |notice: &Notice<'_>| notices.lock().push(format!("{notice:?}"));
    let caps = Caps { only_first: true, ..CAPS };
    let measured =
        measure(&setup, &queries(2, 2), 3, &store(dir.path()), &agent, &caps, &notify).await.unwrap();
    assert_eq!((measured.stop, agent.n_starts()), (Some(Stop::Estimated), 1));
    let notices = notices.into_inner();
    assert!(notices[0].contains("n_runs: 12") && notices[2].contains("n_left: 11"), "{notices:?}");
    // Each run costs a cent, so a budget of five cents is kept.
    let caps = Caps { budget: Some(0.05), ..CAPS };
    let measured =
        measure(&setup, &queries(2, 2), 3, &store(dir.path()), &agent, &caps, &quiet).await.unwrap();
    assert!(matches!(measured.stop, Some(Stop::Budget(spent)) if spent <= 0.05), "{:?}", measured.stop);
    assert_eq!(agent.n_starts(), 5);
}

#[test]
fn a_directory_with_other_settings_is_refused_by_their_names() {
    let dir = tempfile::tempdir().unwrap();
    store(dir.path());
    let other = BTreeMap::from([("agent".to_owned(), "codex".to_owned())]);
    // Nothing was measured with the first ones.
    Store::open(dir.path(), &other).unwrap();
    Store::open(dir.path(), &BTreeMap::from([("agent".to_owned(), "pi".to_owned())])).unwrap();
    std::fs::create_dir(dir.path().join("runs")).unwrap();
    match Store::open(dir.path(), &other) {
        Err(StoreError::OtherSettings { differences, .. }) => assert_eq!(differences, ["agent"]),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_query_with_another_text_is_another_run() {
    let dir = tempfile::tempdir().unwrap();
    let agent = Simulated::new(1, by_subject);
    let setup = setup(vec![skill("invoice", "Does invoice.")]);
    let query = |text: &str| {
        let line = json!({"id": "one", "query": text, "should": true}).to_string();
        read_queries(&line, "queries.jsonl", "invoice").unwrap()
    };
    let mut found = Vec::new();
    for text in ["invoice 1", "weather 1", "invoice 1"] {
        let measured =
            measure(&setup, &query(text), 1, &store(dir.path()), &agent, &CAPS, &quiet).await.unwrap();
        found.push((measured.records[&("one".to_owned(), 1)].outcomes["invoice"], agent.n_starts()));
    }
    assert_eq!(
        found,
        [(TriggerOutcome::Triggered, 1), (TriggerOutcome::NotTriggered, 2), (TriggerOutcome::Triggered, 2)]
    );
}

#[tokio::test]
async fn a_run_without_any_reply_is_a_failure_and_no_miss() {
    let dir = tempfile::tempdir().unwrap();
    /// Prints records of kinds that are not known, and the end that is.
    struct Changed(Simulated);
    #[async_trait]
    impl Launcher for Changed {
        fn workspace(&self) -> io::Result<Box<dyn Workspace>> {
            self.0.workspace()
        }
        fn trouble(&self, message: &str, status: Option<u16>) -> Trouble {
            self.0.trouble(message, status)
        }
        async fn launch(&self, launch: &Launch) -> Result<Launched, LaunchError> {
            let launched = self.0.launch(launch).await?;
            let stdout = launched.stdout.replace("message_end", "message_done");
            Ok(Launched { stdout, ..launched })
        }
    }
    let agent = Changed(Simulated::new(1, by_subject));
    let setup = setup(vec![skill("invoice", "Does it.")]);
    let measured =
        measure(&setup, &queries(1, 0), 1, &store(dir.path()), &agent, &CAPS, &quiet).await.unwrap();
    let record = measured.records.values().next().unwrap();
    assert!(record.failed.is_some(), "{record:?}");
    assert_eq!(record.outcomes["invoice"], TriggerOutcome::Failed);
}

#[tokio::test]
async fn a_budget_holds_over_processes_and_counts_starts_of_unknown_cost() {
    let dir = tempfile::tempdir().unwrap();
    let agent = Simulated::new(1, |_, _| 0.0);
    let setup = setup(vec![skill("invoice", "Does it.")]);
    let caps = Caps { budget: Some(0.035), ..CAPS };
    let first = measure(&setup, &queries(2, 2), 3, &store(dir.path()), &agent, &caps, &quiet).await.unwrap();
    assert!(matches!(first.stop, Some(Stop::Budget(_))), "{:?}", first.stop);
    assert_eq!(agent.n_starts(), 3);
    // Another description has the same money.
    let other = super::simulated::setup(vec![skill("invoice", "Does that.")]);
    let second = measure(&other, &queries(2, 2), 3, &store(dir.path()), &agent, &caps, &quiet).await.unwrap();
    assert!(matches!(second.stop, Some(Stop::Budget(_))), "{:?}", second.stop);
    assert_eq!(agent.n_starts(), 3);
    // A start that was killed may have cost as much as the largest.
    store(dir.path()).note_start("killed").unwrap();
    let spending = store(dir.path()).spending().unwrap();
    assert_eq!(spending.n_unknown, 1);
    assert!((spending.total() - 0.04).abs() < 1e-9, "{spending:?}");
}

#[test]
fn a_directory_is_used_by_one_process_at_a_time() {
    let dir = tempfile::tempdir().unwrap();
    let mut first = store(dir.path());
    first.claim().unwrap();
    assert!(matches!(store(dir.path()).claim(), Err(StoreError::InUse { .. })));
    drop(first);
    store(dir.path()).claim().unwrap();
}

/// Repetitions of 400 in which an interval holds the true rate.
fn n_covered(probabilities: &[f64], k: usize, seed: u64) -> usize {
    let mut dice = Dice(seed);
    let truth = probabilities.iter().sum::<f64>() / probabilities.len() as f64;
    (0..400)
        .filter(|_| {
            let strata: Vec<Stratum> = probabilities
                .iter()
                .map(|p| Stratum { n: k, hits: (0..k).filter(|_| dice.roll() < *p).count() })
                .collect();
            let found = rate(&strata).unwrap();
            found.low <= truth && truth <= found.high
        })
        .count()
}

#[test]
fn intervals_cover_for_these_queries() {
    let curves: [&[f64]; 6] = [
        &[0.9; 10],
        &[0.5; 12],
        &[0.98; 12],
        &[1.0, 1.0, 1.0, 1.0, 0.1, 0.1, 0.5, 0.9, 0.9, 0.8],
        &[0.05, 0.05, 0.05, 0.3, 0.0, 0.0, 0.0, 0.0],
        &[0.95, 0.95, 0.95, 0.95, 0.05, 0.05, 0.05, 0.05, 0.6, 0.4, 0.3, 0.7],
    ];
    for (idx, curve) in curves.iter().enumerate() {
        for k in [1, 3, 5, 10] {
            let n = n_covered(curve, k, 7 + idx as u64);
            // As 184 of 200; the coverage of each is above 0.95.
            assert!(n >= 368, "curve {idx}, {k} runs a query: {n} of 400");
        }
    }
}

/// How often a candidate of this curve is accepted in 200 comparisons with a current one.
fn n_accepted(current: &[f64], candidate: &[f64], k: usize, seed: u64) -> usize {
    let mut dice = Dice(seed);
    let queries = queries(current.len(), 0);
    let mut draw = |curve: &[f64]| -> BTreeMap<String, f64> {
        let share = |p: &f64, dice: &mut Dice| (0..k).filter(|_| dice.roll() < *p).count() as f64 / k as f64;
        queries.iter().zip(curve).map(|(query, p)| (query.id.clone(), share(p, &mut dice))).collect()
    };
    (0..200)
        .filter(|_| {
            let (current, candidate) = (draw(current), draw(candidate));
            compare(&queries, "invoice", &current, &candidate, 3).is_accepted
        })
        .count()
}

#[test]
fn an_idle_description_is_seldom_accepted_and_a_better_one_often() {
    for (n, k) in [(8, 3), (12, 3), (20, 5)] {
        let idle = vec![0.4; n];
        let accepted = n_accepted(&idle, &idle, k, 11);
        assert!(accepted <= 16, "{n} queries, {k} runs: {accepted} of 200");
        let better = n_accepted(&idle, &vec![0.9; n], k, 12);
        assert!(better >= 150, "{n} queries, {k} runs: {better} of 200");
    }
    assert_eq!((least_queries(), ALPHA), (5, 0.05));
}

#[test]
fn a_description_that_takes_queries_of_others_is_rejected() {
    let lines: Vec<String> = (0..8)
        .map(|idx| json!({"query": format!("mine {idx}"), "should": true}).to_string())
        .chain((0..8).map(|idx| json!({"query": format!("theirs {idx}"), "should": "other"}).to_string()))
        .collect();
    let queries = read_queries(&lines.join("\n"), "q.jsonl", "invoice").unwrap();
    let value = |mine: f64, theirs: f64| -> BTreeMap<String, f64> {
        queries
            .iter()
            .map(|query| {
                (query.id.clone(), if query.skill.as_deref() == Some("other") { theirs } else { mine })
            })
            .collect()
    };
    let greedy = compare(&queries, "invoice", &value(0.0, 1.0), &value(1.0, 0.5), 1);
    assert!(!greedy.others_keep && !greedy.is_accepted);
    let fair = compare(&queries, "invoice", &value(0.0, 1.0), &value(1.0, 1.0), 1);
    assert!(fair.others_keep && fair.is_accepted && fair.p <= ALPHA);
}

/// Codex runs no command if its home is below the temporary directory; a user's own place for it keeps the sign-in.
#[test]
fn a_fresh_home_is_not_below_the_temporary_directory_and_has_the_sign_in() {
    use skill_agents::measure::{prepare, prepare_plain};
    let (dir, own) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::write(own.path().join("auth.json"), "{}").unwrap();
    let row = agent("codex").unwrap().unwrap();
    let moved = Moved::of(row, |name| (name == "CODEX_HOME").then(|| own.path().to_owned()));
    let setup = Setup { agent: row, moved, ..setup(vec![skill("invoice", "Does it.")]) };
    let prepared = prepare(&setup, "x", dir.path()).unwrap();
    let env = &prepared.launch.env;
    let (home, temporary) = (Path::new(&env["CODEX_HOME"]), Path::new(&env["TMPDIR"]));
    assert!(home.is_dir() && temporary.is_dir() && !home.starts_with(temporary), "{env:?}");
    assert!(home.starts_with(dir.path()) && home.join("auth.json").is_file());
    for name in ["XDG_CONFIG_HOME", "XDG_DATA_HOME", "HOME"] {
        assert!(Path::new(&env[name]).starts_with(dir.path()), "{name}: {env:?}");
    }
    // A text is written without any skill.
    let plain = tempfile::tempdir().unwrap();
    let prepared = prepare_plain(&setup, "x", plain.path()).unwrap();
    assert!(!prepared.project.join(".agents").exists());
}
