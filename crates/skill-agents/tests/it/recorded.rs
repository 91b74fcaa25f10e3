//! Cases that were recorded from the real programs, where `SKILLRL_CONFORMANCE` names them.

use serde_json::{Value, json};
use skill_agents::{
    Agent, ReadOptions, agent,
    home::{Moved, session_files},
    read_case, sessions_of,
};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

const OWN: [&str; 2] = ["invoice-format", "release-notes"];

fn cases() -> Option<Vec<PathBuf>> {
    let Some(folder) = std::env::var_os("SKILLRL_CONFORMANCE") else {
        println!("SKILLRL_CONFORMANCE is not set: no recorded case of a coding agent is compared");
        return None;
    };
    let mut cases = Vec::new();
    for agent in PathBuf::from(folder).join("coding-agents").read_dir().unwrap().flatten() {
        if agent.path().is_dir() {
            cases.extend(agent.path().read_dir().unwrap().flatten().map(|case| case.path()));
        }
    }
    cases.sort();
    assert!(!cases.is_empty());
    Some(cases)
}

fn json_file(path: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn streams(case: &Path) -> Vec<String> {
    (1..)
        .map_while(|run| std::fs::read_to_string(case.join(format!("run-{run}.stdout.jsonl"))).ok())
        .collect()
}

/// A request that is not in the conversation and that the recorder counted as one of its replies: a cancelled summary,
/// a memory that is extracted, a reply with the words of a summary.
const OTHER_COUNTS: [&str; 3] =
    ["copilot-cli/compaction", "qwen-code/no-approval-flag", "opencode/compaction-in-run"];

/// A case, as it is expected and as it is found.
struct Case {
    row: &'static Agent,
    expected: Value,
    found: Value,
    with_home: bool,
    n_streams: usize,
}

impl Case {
    fn read(folder: &Path, with_home: bool) -> Self {
        let expected = json_file(&folder.join("expected.json"));
        let row = agent(expected["agent"].as_str().unwrap()).unwrap().unwrap();
        let streams = streams(folder);
        let home = folder.join("home");
        let files = match with_home && home.is_dir() {
            true => session_files(row, &home, &Moved::default(), &sessions_of(row, &streams), None).unwrap(),
            false => Vec::new(),
        };
        let options = ReadOptions { skills: OWN.map(str::to_owned).to_vec(), ..ReadOptions::default() };
        let found = serde_json::to_value(read_case(row, &streams, &files, &options)).unwrap();
        Self { row, expected, found, with_home, n_streams: streams.len() }
    }

    /// The output says that records cannot show this.
    fn hides(&self, what: &str) -> bool {
        self.found["not_visible"].as_array().unwrap().iter().any(|hidden| hidden == what)
    }

    /// True if a load is of a kind that the records cannot show.
    fn is_hidden(&self, load: &Value) -> bool {
        (load["how"] == "person" && self.hides("loads_by_person"))
            || (load["subagent"] == true && self.hides("loads_by_subagents"))
    }

    fn rows(&self, side: &Value, field: &str) -> Vec<Value> {
        let mut rows: Vec<Value> = side[field]
            .as_array()
            .into_iter()
            .flatten()
            .filter(|load| !self.is_hidden(load))
            .cloned()
            .collect();
        if self.hides("programs") {
            for load in &mut rows {
                if load["how"] == "program" {
                    load["how"] = json!("shell");
                }
            }
        }
        rows
    }

    fn runs_failed(side: &Value) -> BTreeSet<u64> {
        side["failed"].as_array().into_iter().flatten().map(|row| row["run"].as_u64().unwrap()).collect()
    }

    fn differences(&self, name: &str) -> Vec<String> {
        let (found, expected) = (&self.found, &self.expected);
        let mut differences = Vec::new();
        let mut compare = |what: &str, found: &Value, expected: &Value| {
            if found != expected {
                differences.push(format!("  {what}\n    found    {found}\n    expected {expected}"));
            }
        };
        for field in ["loads", "loads_that_failed"] {
            compare(field, &json!(self.rows(found, field)), &json!(self.rows(expected, field)));
        }
        // Of a command that left no item, and of what a sub-agent's end is answered with, a stream shows nothing.
        let hides_replies =
            self.hides("failed_commands") && (name.contains("denied") || name.contains("subagent"));
        if !OTHER_COUNTS.contains(&name) && !hides_replies {
            compare("replies", &found["replies"], &expected["replies"]);
        }
        let is_refusal = expected["failed"][0]["why"] == "model refused" && self.hides("refusals");
        if !is_refusal && self.n_streams > 0 {
            compare("failed", &json!(Self::runs_failed(found)), &json!(Self::runs_failed(expected)));
        }
        let has_listing = !self.hides("skills_offered") && expected["replies"] != json!(0);
        if has_listing && !self.hides("descriptions_dropped") {
            self.compare_listings(&mut compare);
        }
        for skill in OWN {
            let outcome = &expected["trigger"][skill]["outcome"];
            let is_hidden = match outcome.as_str().unwrap() {
                "failed" => is_refusal,
                "not offered" => !has_listing,
                "offered without description" => !has_listing || self.hides("descriptions_dropped"),
                "called by the person" => self.hides("loads_by_person"),
                "triggered" => {
                    let loads = expected["loads"].as_array().unwrap();
                    loads.iter().filter(|load| load["skill"] == skill).all(|load| self.is_hidden(load))
                }
                _ => false,
            };
            if !is_hidden {
                compare(skill, &found["trigger"][skill]["outcome"], outcome);
            }
        }
        // What fails at once is not always written, and a prompt is not where its skill's text takes its place.
        let has_prompts = self.with_home && self.n_streams > 0 && expected["failed"].is_null();
        if has_prompts && name != "qwen-code/slash" {
            compare("prompts", &found["prompts"], &expected["prompts"]);
        }
        differences
    }

    fn compare_listings(&self, compare: &mut impl FnMut(&str, &Value, &Value)) {
        let names = |side: &Value, field: &str| -> Vec<Value> {
            let is_own = |name: &&Value| OWN.iter().any(|own| name.as_str().unwrap().ends_with(own));
            side[field].as_array().into_iter().flatten().filter(is_own).cloned().collect()
        };
        for field in ["skills_offered", "skills_offered_without_description"] {
            compare(field, &json!(names(&self.found, field)), &json!(names(&self.expected, field)));
        }
        // Long listings are cut in the recordings.
        let field = "skills_offered_by_the_agent_itself";
        let expected = self.expected[field].as_array().unwrap();
        for name in self.found[field].as_array().unwrap() {
            assert!(expected.contains(name), "{name} is not the agent's own");
        }
        assert!(self.row.bundled.len() >= expected.len());
    }
}

fn check(with_home: bool) {
    let Some(cases) = cases() else { return };
    let (mut wrong, mut n_compared) = (Vec::new(), 0);
    for folder in cases {
        let case = Case::read(&folder, with_home);
        // At a terminal nothing is printed that could be read.
        if case.n_streams == 0 && !with_home {
            continue;
        }
        n_compared += 1;
        let name: PathBuf = folder.components().rev().take(2).collect::<Vec<_>>().into_iter().rev().collect();
        let name = name.display().to_string();
        let differences = case.differences(&name);
        if !differences.is_empty() {
            wrong.push(format!("{name}\n{}", differences.join("\n")));
        }
    }
    println!("{n_compared} cases compared");
    assert!(wrong.is_empty(), "{} of {n_compared} cases differ:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn conformance_with_session_files() {
    check(true);
}

#[test]
fn conformance_of_streams() {
    check(false);
}

#[test]
fn conformance_of_databases_and_compressed_files() {
    let Some(folder) = std::env::var_os("SKILLRL_CONFORMANCE") else {
        println!("SKILLRL_CONFORMANCE is not set: no database and no compressed file is compared");
        return;
    };
    for (name, from, to) in [
        ("opencode", "database", ".local/share/opencode"),
        ("codex", "compressed", ".codex/sessions/2026/11/26"),
    ] {
        let case = PathBuf::from(&folder).join("coding-agents").join(name).join("load-a");
        let home = tempfile::tempdir().unwrap();
        let target = home.path().join(to);
        std::fs::create_dir_all(&target).unwrap();
        let mut n_files = 0;
        for file in case.join(from).read_dir().unwrap().flatten() {
            std::fs::copy(file.path(), target.join(file.file_name())).unwrap();
            n_files += 1;
        }
        assert!(n_files > 0, "{name}");
        let row = agent(name).unwrap().unwrap();
        let files = session_files(row, home.path(), &Moved::default(), &BTreeSet::new(), None).unwrap();
        let found = serde_json::to_value(read_case(row, &[], &files, &ReadOptions::default())).unwrap();
        let expected = json_file(&case.join("expected.json"));
        assert_eq!(
            (&found["loads"], &found["replies"]),
            (&expected["loads"], &expected["replies"]),
            "{name}"
        );
    }
}

/// What a stream says of loads, without the lines that were passed over.
fn said(row: &'static Agent, streams: &[String]) -> Value {
    let options = ReadOptions { skills: OWN.map(str::to_owned).to_vec(), ..ReadOptions::default() };
    let mut found = serde_json::to_value(read_case(row, streams, &[], &options)).unwrap();
    found.as_object_mut().unwrap().remove("lines_passed_over");
    found
}

/// The stream with what versions to come, hooks and terminals may put between its records.
fn with_strangers(stream: &str) -> String {
    const STRANGERS: [&str; 6] = [
        r#"{"type": "telemetry.v9", "data": {"name": "SKILL.md", "text": "<skill>"}, "id": "x-1"}"#,
        "Update available: run `npm install`",
        "",
        "[1, 2, 3]",
        r#"{"torn": "#,
        "null",
    ];
    let lines = stream.lines().enumerate().flat_map(|(idx, line)| {
        let stranger = STRANGERS.iter().cycle().nth(idx).unwrap();
        [(*stranger).to_owned(), line.to_owned()]
    });
    lines.collect::<Vec<_>>().join("\r\n")
}

#[test]
fn conformance_of_streams_with_unknown_records_and_cut_ends() {
    let Some(cases) = cases() else { return };
    for folder in cases {
        let expected = json_file(&folder.join("expected.json"));
        let row = agent(expected["agent"].as_str().unwrap()).unwrap().unwrap();
        let mut streams = streams(&folder);
        if streams.is_empty() {
            continue;
        }
        let name = folder.display();
        let whole = said(row, &streams);
        let strange: Vec<String> = streams.iter().map(|stream| with_strangers(stream)).collect();
        assert_eq!(said(row, &strange), whole, "{name}");
        let last = streams.pop().unwrap();
        let n_lines = last.lines().count();
        for n_kept in (0..n_lines).step_by(n_lines.div_ceil(7).max(1)) {
            let mut cut: String = last.lines().take(n_kept).map(|line| format!("{line}\n")).collect();
            let torn = last.lines().nth(n_kept).unwrap_or_default();
            cut.push_str(&torn.chars().take(torn.chars().count() / 2).collect::<String>());
            let mut streams = streams.clone();
            streams.push(cut);
            let found = said(row, &streams);
            let all = whole["loads"].as_array().unwrap();
            for load in found["loads"].as_array().unwrap() {
                assert!(all.contains(load), "{name} cut at {n_kept}: {load}");
            }
        }
    }
}
