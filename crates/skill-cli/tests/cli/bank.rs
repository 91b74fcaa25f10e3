//! `skillrl bank`, and `skillrl inspect` of banks.

use crate::context::{TestContext, code};
use crate::said::{Said, assert_names};
use serde_json::Value;
use skillrl::bank::{
    Author, Bank, BankEvent, Basis, Content, Evidence, Occasion, Reason, SkillProvenance, SkillRef, Tier,
    Utility,
};
use skillrl::core::SkillPartId;
use std::fs::File;

/// A bank in the paper's format.
const PAPER: &str = r#"{
  "general_skills": [
    {"skill_id": "gen_001", "title": "Look first", "principle": "Look around before you act.", "when_to_apply": "Always."},
    {"skill_id": "gen_002", "title": "First, looks", "principle": "Look at everything."}
  ],
  "task_specific_skills": {
    "heat": [{"skill_id": "hea_001", "title": "Use the microwave", "principle": "Open it, put the thing in, heat it."}]
  },
  "common_mistakes": [{"mistake_id": "err_001", "description": "Looking twice", "how_to_avoid": "Remember."}],
  "metadata": {"source": "a test"}
}
"#;

/// A bank in krill's format, with an empty tier.
const KRILL: &str = r#"{
  "general_skills": [{"id": "u-1", "name": "Look first", "principle": "Look.", "when_to_apply": "Always.", "category": "General", "embedding": null}],
  "task_specific_skills": {"heat": []},
  "history": [{"skill_id": "u-1", "added_at": "2026-01-01T00:00:00Z", "evolution_cycle": 0}],
  "current_cycle": 1
}
"#;

fn part(id: &str) -> SkillPartId {
    SkillPartId::new(id)
}

fn principle(title: &str, principle: &str) -> Content {
    Content::principle(title, principle, "")
}

/// A bank with everything that a bank can have: an active skill with an earlier version, a measurement, a candidate, a
/// retired skill, a merged one, evidence.
fn lived() -> Bank {
    let mut bank = Bank::new();
    let mut record = |round, event| {
        bank.record(round, Author::Process, event).unwrap();
    };
    let mut evidence = Evidence::default();
    evidence.items = ["game-1", "game-2"].map(Into::into).to_vec();
    evidence.trajectories = vec!["t-1".to_owned()];
    evidence.teacher = Some("openai/teacher".to_owned());
    evidence.calls = 1;
    let proposed = |skill: &str, tier: Tier, content: Content, parents: &[&str]| BankEvent::Proposed {
        skill: SkillRef::of_part(&part(skill)),
        tier,
        content,
        source: SkillProvenance::Distilled,
        parents: parents.iter().map(|id| SkillRef::of_part(&part(id))).collect(),
        evidence: evidence.clone(),
    };
    let admitted = |skill: &str| BankEvent::Admitted {
        skill: SkillRef::of_part(&part(skill)),
        basis: Basis::Unmeasured,
    };
    let heat = || Tier::of_type("heat");
    record(0, proposed("gen_001", Tier::General, principle("Look first", "Look before you act."), &[]));
    record(0, admitted("gen_001"));
    record(0, proposed("hea_001", heat(), principle("Open it", "Open the microwave."), &[]));
    record(0, admitted("hea_001"));
    record(0, proposed("hea_002", heat(), principle("Close it", "Close the microwave."), &[]));
    record(0, admitted("hea_002"));
    record(
        1,
        proposed(
            "gen_001@2",
            Tier::General,
            principle("Look first", "Look twice before you act."),
            &["gen_001"],
        ),
    );
    record(1, BankEvent::Revised { skill: SkillRef::new(part("gen_001"), 2), from: 1, basis: Basis::Person });
    let utility = Utility {
        difference: 0.2,
        interval: [0.05, 0.35],
        with: [30, 40],
        without: [22, 40],
        informative_groups: 9,
    };
    record(
        1,
        BankEvent::Measured {
            skill: SkillRef::new(part("gen_001"), 2),
            occasion: Occasion::AfterAdmission,
            utility: Some(utility),
            verdict: None,
            e_better: Some(21.0),
            e_worse: None,
            p_better: None,
        },
    );
    record(2, proposed("hea_003", heat(), principle("Open, then close", "Both."), &["hea_001", "hea_002"]));
    record(
        2,
        BankEvent::Merged {
            skill: SkillRef::new(part("hea_003"), 1),
            from: vec![part("hea_001"), part("hea_002")],
            basis: Basis::Person,
        },
    );
    record(2, proposed("gen_002", Tier::General, principle("Wait", "Wait a moment."), &[]));
    record(2, BankEvent::Pinned { skill: part("hea_003") });
    bank
}

fn with_banks() -> TestContext {
    let context = TestContext::new();
    context.write("paper.json", PAPER);
    context.write("krill.json", KRILL);
    context.write("lived/log.jsonl", &lived().chained_log_text().0);
    context
}

#[test]
fn a_bank_is_looked_at() {
    let context = with_banks();
    let before = context.files("lived");
    for (name, args) in [
        ("show", ["show", "lived"].as_slice()),
        ("show_skill", &["show", "lived", "gen_001"]),
        ("log", &["log", "lived"]),
        ("blame", &["blame", "lived"]),
        ("blame_skill", &["blame", "lived", "hea_001"]),
        ("diff_versions", &["diff", "lived", "gen_001@1", "gen_001@2"]),
        ("show_file", &["show", "paper.json"]),
    ] {
        let text = context.succeed(&[&["bank"], args].concat());
        insta::assert_snapshot!(format!("bank_{name}"), text);
    }
    assert_eq!(context.files("lived"), before, "looking changes nothing");
}

#[test]
fn everything_about_a_bank_is_in_the_json() {
    let context = with_banks();
    let shown = context.succeed_json(&["bank", "show", "lived", "--json"]);
    let tiers: Vec<&Value> = shown["tiers"].as_array().unwrap().iter().map(|tier| &tier["tier"]).collect();
    assert_eq!(tiers, [&Value::from("general"), &serde_json::json!({"task_type": "heat"})]);
    let general = &shown["tiers"][0]["skills"];
    assert_eq!((&general[0]["measured"], &general[0]["versions"]), (&true.into(), &2.into()));
    assert_eq!(general[0]["utility"]["interval"], serde_json::json!([0.05, 0.35]));
    assert_eq!((&general[1]["state"], &general[1]["measured"]), (&"candidate".into(), &false.into()));
    let heat = &shown["tiers"][1]["skills"];
    assert_eq!((&heat[0]["state"], &heat[2]["pinned"]), (&"retired".into(), &true.into()));

    let skill = context.succeed_json(&["bank", "show", "lived", "hea_003", "--json"]);
    assert_eq!(skill["versions"][0]["parents"], serde_json::json!(["hea_001", "hea_002"]));
    assert_eq!(skill["versions"][0]["evidence"]["items"], serde_json::json!(["game-1", "game-2"]));
    let events: Vec<&str> =
        skill["events"].as_array().unwrap().iter().map(|event| event["event"].as_str().unwrap()).collect();
    assert_eq!(events, ["proposed", "merged", "pinned"]);

    let log = context.succeed(&["bank", "log", "lived", "--json"]);
    assert!(log.lines().eq(lived().log_text().lines().skip(1)));
    let blame = context.succeed_json(&["bank", "blame", "lived", "gen_001", "--json"]);
    let versions = &blame["skills"][0]["versions"];
    assert_eq!((&versions[1]["parents"][0], &versions[1]["round"]), (&"gen_001".into(), &1.into()));
    let diff = context.succeed_json(&["bank", "diff", "lived", "gen_001@1", "gen_001", "--json"]);
    assert_eq!(diff["to"]["version"], "gen_001@2");
    assert_eq!(diff["to"]["content"]["principle"], "Look twice before you act.");
}

#[test]
fn banks_are_imported_changed_compared_and_written_back() {
    let context = with_banks();
    for (file, format) in [("paper.json", "skillrl"), ("krill.json", "krill")] {
        let dir = format!("from-{format}");
        let said = context.succeed(&["bank", "import", file, "--out", &dir]);
        assert_names(&said, &["none was measured"]);
        assert!(!said.contains("no skills") || format != "skillrl", "{said}");
        let back = format!("back-{format}.json");
        context.succeed(&["bank", "export", &dir, "--format", format, "--out", &back]);
        assert_eq!(context.read(&back), context.read(file), "byte for byte");
        assert_eq!(context.read(&format!("{dir}/bank.json")), context.read(file));
    }
    context.succeed(&["bank", "import", "paper.json", "--admit", "measured", "--out", "waiting"]);
    let value = context.succeed_json(&["inspect", "waiting", "--json"]);
    let tiers = value["summary"]["tiers"].as_array().unwrap();
    let counts = |state: &str| tiers.iter().map(|tier| tier[state].as_u64().unwrap()).sum::<u64>();
    assert_eq!((counts("candidate"), counts("active")), (4, 0), "they wait for trials");
    let value = context.succeed_json(&["inspect", "from-skillrl", "--json"]);
    assert_eq!((&value["summary"]["measured"], &value["summary"]["unmeasured"]), (&0.into(), &4.into()));

    context.copy_dir("from-skillrl", "changed");
    let said = context.succeed(&["bank", "pin", "changed", "gen_001", "hea_001"]);
    assert_names(&said, &["pinned gen_001: Look first", "pinned hea_001"]);
    context.succeed(&["bank", "retire", "changed", "gen_002", "err_001"]);
    context.succeed(&["bank", "unpin", "changed", "hea_001"]);
    context.succeed(&["bank", "restore", "changed", "err_001"]);
    let events: Vec<String> = context
        .succeed(&["bank", "log", "changed", "--json"])
        .lines()
        .skip(9)
        .map(|line| {
            let event: Value = serde_json::from_str(line).unwrap();
            assert_eq!(event["by"], "person");
            format!("{} {}", event["event"].as_str().unwrap(), event["skill"].as_str().unwrap())
        })
        .collect();
    let expect = [
        "pinned gen_001",
        "pinned hea_001",
        "retired gen_002",
        "retired err_001",
        "unpinned hea_001",
        "restored err_001",
    ];
    assert_eq!(events, expect);
    assert!(!context.read("changed/bank.json").contains("gen_002"), "the file for others follows");
    insta::assert_snapshot!("bank_diff", context.succeed(&["bank", "diff", "from-skillrl", "changed"]));
    let diff = context.succeed_json(&["bank", "diff", "from-skillrl", "changed", "--json"]);
    assert_eq!(diff["changed"][0]["pinned"]["after"], true);
    assert_eq!(diff["changed"][1]["state"]["after"], "retired");
    assert_eq!(diff["changed"].as_array().unwrap().len(), 2);
    let same = context.succeed(&["bank", "diff", "paper.json", "from-skillrl"]);
    assert_names(&same, &["the same skills"]);
}

#[test]
fn a_version_is_restored_in_the_place_of_the_active_one() {
    let context = with_banks();
    let said = context.succeed(&["bank", "restore", "lived", "gen_001@1"]);
    assert_names(&said, &["restored gen_001@1", "version 2 is retired"]);
    let skill = context.succeed_json(&["bank", "show", "lived", "gen_001", "--json"]);
    let states: Vec<&Value> = skill["versions"].as_array().unwrap().iter().map(|v| &v["state"]).collect();
    assert_eq!(states, ["active", "retired"]);
    // A candidate that a person does not want, and a pinned skill that a person gives up all the same.
    context.succeed(&["bank", "retire", "lived", "gen_002", "hea_003"]);
    let skill = context.succeed_json(&["bank", "show", "lived", "hea_003", "--json"]);
    assert_eq!((&skill["state"], &skill["pinned"]), (&"retired".into(), &true.into()));
}

#[test]
fn what_an_export_has_no_place_for_is_listed() {
    let context = with_banks();
    let export = |bank: &str, format: &str, out: &str| {
        let value =
            context.succeed_json(&["bank", "export", bank, "--format", format, "--out", out, "--json"]);
        (value["skills"].as_u64().unwrap(), value["left_out"].clone())
    };
    let (n_skills, left_out) = export("lived", "skillrl", "lived.json");
    assert_eq!(n_skills, 2);
    assert_eq!(left_out["inactive"], serde_json::json!(["hea_001", "hea_002", "gen_002"]));
    let counts =
        ["versions", "measurements", "pins", "evidence"].map(|name| left_out[name].as_u64().unwrap());
    assert_eq!(counts, [1, 1, 1, 2]);
    let again = context.succeed_json(&["bank", "show", "lived.json", "--json"]);
    assert_eq!(again["tiers"].as_array().unwrap().len(), 2, "it is a bank of the paper");

    let (n_skills, left_out) = export("paper.json", "krill", "out.krill.json");
    assert_eq!((n_skills, &left_out["skills"]), (3, &serde_json::json!(["err_001"])));
    let (n_skills, _) = export("paper.json", "agent-skills", "folders");
    assert_eq!(n_skills, 4);
    let folders: Vec<_> = context.files("folders").into_keys().collect();
    assert_eq!(folders.len(), 4);
    for folder in ["look-first", "first-looks", "use-the-microwave", "looking-twice"] {
        context.succeed(&["lint", &format!("folders/{folder}")]);
    }
    insta::assert_snapshot!(
        "bank_export",
        context.succeed(&["bank", "export", "lived", "--format", "agent-skills", "--out", "other"])
    );
    // Equal banks give equal bytes.
    export("lived", "krill", "a.json");
    export("lived", "krill", "b.json");
    assert_eq!(context.read("a.json"), context.read("b.json"));
}

#[test]
fn inspect_knows_banks() {
    let context = with_banks();
    insta::assert_snapshot!("bank_inspect", context.succeed(&["inspect", "lived"]));
    insta::assert_snapshot!("bank_inspect_file", context.succeed(&["inspect", "paper.json"]));
    for (path, format) in [("paper.json", "skillrl"), ("krill.json", "krill"), ("lived", "log")] {
        let value = context.succeed_json(&["inspect", path, "--json"]);
        assert_eq!((&value["kind"], &value["format"]), (&"bank".into(), &format.into()), "{path}");
    }
    let value = context.succeed_json(&["inspect", "paper.json", "--json"]);
    assert_eq!(value["summary"]["near_duplicates"], serde_json::json!([["gen_001", "gen_002"]]));
    assert_eq!(value["summary"]["longest"]["id"], "hea_001");
    let value = context.succeed_json(&["inspect", "lived/log.jsonl", "--json"]);
    assert_eq!(value["summary"]["pinned"], 1);
}

/// Each gets one clear sentence with the place and the exit code for bad data.
#[test]
fn banks_that_cannot_be_used_are_refused() {
    let context = with_banks();
    let log = lived().log_text();
    let mut lines: Vec<&str> = log.lines().collect();
    let last = lines.pop().unwrap();
    lines.push(last.get(..last.len() / 2).unwrap());
    lines.push(last);
    let damaged = lines.join("\n") + "\n";
    let cases: [(&str, String, &[&str]); 10] = [
        (
            "no title",
            PAPER.replace("\"title\": \"Look first\", ", ""),
            &["general_skills[0] (gen_001)", "`title`"],
        ),
        (
            "two of one id",
            PAPER.replace("hea_001", "gen_001"),
            &["`gen_001`", "task_specific_skills.heat[0]"],
        ),
        ("another key", PAPER.replace("general_skills", "skills"), &["`skills`", "`general_skills`"]),
        ("cut", PAPER.get(..PAPER.len() / 2).unwrap().to_owned(), &["JSON", "line "]),
        (
            "a number",
            PAPER.replace("\"Look first\"", "7"),
            &["general_skills[0] (gen_001)", "`title` is a number"],
        ),
        ("a list", format!("[{}]", PAPER.trim()), &["a list where an object was expected"]),
        (
            "texts in a list",
            r#"{"general_skills": ["Look first."]}"#.to_owned(),
            &["general_skills[0]", "a text"],
        ),
        ("a version as id", PAPER.replace("gen_001", "gen_001@2"), &["general_skills[0]", "`gen_001@2`"]),
        ("a damaged log", damaged, &["line 14"]),
        ("a later log", log.replace("\"version\":1}", "\"version\":9}"), &["version 9"]),
    ];
    let mut said = Said::default();
    for (what, text, names) in &cases {
        context.write("bad.json", text);
        for args in [["bank", "show", "bad.json"].as_slice(), &["bank", "import", "bad.json", "--out", "new"]]
        {
            let outcome = context.run(args);
            outcome.assert_code(code::DATA);
            assert_names(&outcome.stderr, names);
            assert_names(&outcome.stderr, &["bad.json", "hint: "]);
        }
        let outcome = context.run(&["inspect", "bad.json"]);
        outcome.assert_code(code::DATA);
        said.add(what, &outcome);
        assert!(!context.path("new").exists(), "{what}: nothing is left behind");
    }
    context.write("empty/notes.txt", "");
    for args in [["bank", "show", "empty"].as_slice(), &["bank", "pin", "empty", "gen_001"]] {
        let outcome = context.run(args).fails(code::DATA, &["empty", "log.jsonl"]);
        said.add("a directory that is no bank", &outcome);
    }
    context.run(&["bank", "show", "nowhere"]).fails(code::USAGE, &["nowhere"]);
    insta::assert_snapshot!("bank_bad", said.text());
}

/// What a killed process left of a line is not an event; the ones before it are whole.
#[test]
fn a_log_that_was_cut_within_a_line_is_read_to_the_line_before() {
    let context = with_banks();
    let log = context.read("lived/log.jsonl");
    context.write("lived/log.jsonl", log.get(..log.len() - 5).unwrap());
    let outcome = context.run(&["bank", "show", "lived", "hea_003", "--json"]);
    outcome.assert_code(code::SUCCESS);
    assert_names(&outcome.stderr, &["note: the log ends within a line"]);
    let skill: Value = serde_json::from_str(&outcome.stdout).unwrap();
    assert_eq!(skill["pinned"], false, "the last event did not happen");
    let value = context.succeed_json(&["inspect", "lived", "--json"]);
    assert_eq!(value["notes"].as_array().unwrap().len(), 1);
    // A change goes on from there.
    context.succeed(&["bank", "pin", "lived", "hea_003"]);
    assert_eq!(context.read("lived/log.jsonl").lines().count(), log.lines().count());
    let outcome = context.run(&["bank", "log", "lived"]);
    assert_eq!(outcome.stderr, "", "nothing is wrong any longer");
}

#[test]
fn changes_that_make_no_sense_are_refused_and_change_nothing() {
    let context = with_banks();
    context.succeed(&["bank", "import", "paper.json", "--out", "bank"]);
    let files = context.files("lived");
    let mut said = Said::default();
    for (what, args, names) in [
        ("an unknown id", ["pin", "lived", "gen_01"].as_slice(), ["`gen_01`", "`gen_001`"].as_slice()),
        ("one of several is unknown", &["retire", "lived", "gen_001", "x"], &["`x`"]),
        ("pinned already", &["pin", "lived", "hea_003"], &["`hea_003`", "already"]),
        ("twice in one command", &["pin", "lived", "gen_001", "gen_001"], &["`gen_001`", "already"]),
        ("a version is pinned", &["pin", "lived", "gen_001@2"], &["`gen_001@2`", "`gen_001`"]),
        ("not pinned", &["unpin", "lived", "gen_001"], &["`gen_001`", "not pinned"]),
        ("retired already", &["retire", "lived", "hea_001"], &["`hea_001`", "already"]),
        ("an unknown version", &["restore", "lived", "gen_001@7"], &["version 7", "1 to 2"]),
        ("active", &["restore", "lived", "gen_001"], &["active", "gen_001@1"]),
        ("a candidate", &["restore", "lived", "gen_002"], &["candidate"]),
        ("a file", &["pin", "paper.json", "gen_001"], &["paper.json", "bank import"]),
        ("one version alone", &["diff", "lived", "gen_001@1"], &["gen_001@1", "bank diff"]),
        ("an unknown skill", &["show", "lived", "hea_03"], &["`hea_03`", "`hea_0"]),
        ("import over something", &["import", "paper.json", "--out", "bank"], &["bank exists already"]),
        ("import of a bank", &["import", "lived", "--out", "copy"], &["lived", "already"]),
        (
            "export over something",
            &["export", "lived", "--format", "krill", "--out", "paper.json"],
            &["paper.json exists already"],
        ),
    ] {
        let outcome = context.run(&[&["bank"], args].concat()).fails(code::USAGE, names);
        assert_eq!(outcome.stdout, "", "{what}");
        said.add(what, &outcome);
    }
    assert_eq!(context.files("lived"), files);
    assert_eq!(context.read("paper.json"), PAPER);
    insta::assert_snapshot!("bank_refused", said.text());
}

#[test]
fn a_bank_that_another_process_changes_is_read_and_not_changed() {
    let context = with_banks();
    let log = File::open(context.path("lived/log.jsonl")).unwrap();
    log.lock().unwrap();
    context.run(&["bank", "pin", "lived", "gen_001"]).fails(code::RUN_DIR, &["lived", "another process"]);
    context.succeed(&["bank", "show", "lived"]);
    context.succeed(&["inspect", "lived"]);
    drop(log);
    context.succeed(&["bank", "pin", "lived", "gen_001"]);
}

#[test]
fn ten_thousand_skills_are_listed_imported_and_changed() {
    let context = TestContext::new();
    let skill = |number: usize| {
        format!(
            r#"{{"skill_id": "gen_{number:03}", "title": "Skill {number}", "principle": "Do {number}."}}"#
        )
    };
    let skills: Vec<String> = (1..=10_000).map(skill).collect();
    context.write("large.json", &format!(r#"{{"general_skills": [{}]}}"#, skills.join(", ")));
    let value = context.succeed_json(&["inspect", "large.json", "--json"]);
    assert_eq!(value["summary"]["skills"], 10_000);
    assert_eq!(context.succeed(&["bank", "show", "large.json"]).lines().count(), 10_002);
    context.succeed(&["bank", "import", "large.json", "--out", "bank"]);
    assert_eq!(context.succeed(&["bank", "retire", "bank", "gen_9999"]), "retired gen_9999: Skill 9999\n");
    context.run(&["bank", "pin", "bank", "gen_99999"]).fails(code::USAGE, &["did you mean `gen_9999"]);
}

#[test]
fn a_skill_of_a_hundred_kilobytes_is_kept_whole_and_noted() {
    let context = TestContext::new();
    let text = "Read on. ".repeat(11_500);
    let title = "Long ".repeat(200);
    let long = PAPER.replace("Look at everything.", &text).replace("Look first", title.trim());
    context.write("long.json", &long);
    let value = context.succeed_json(&["inspect", "long.json", "--json"]);
    assert_eq!(value["summary"]["longest"]["id"], "gen_002");
    let notes = value["notes"].as_array().unwrap();
    assert!(notes.iter().any(|note| note.as_str().unwrap().contains("`gen_002`")), "{notes:?}");
    let shown = context.succeed(&["bank", "show", "long.json"]);
    assert!(shown.lines().all(|line| line.chars().count() < 200), "titles are cut in lists");
    let skill = context.succeed_json(&["bank", "show", "long.json", "gen_002", "--json"]);
    assert_eq!(skill["versions"][0]["content"]["principle"], text);
    context.succeed(&["bank", "import", "long.json", "--out", "bank"]);
    assert_eq!(context.read("bank/bank.json"), long);
}

/// Text of a bank comes from others: it cannot steer the terminal.
#[test]
fn a_bank_cannot_steer_the_terminal() {
    let context = TestContext::new();
    let steering = "\\u001b[2J\\u202e";
    context.write("bad.json", &PAPER.replace("Look", steering).replace("gen_001", "gen\\u001b[31m"));
    for args in [
        ["bank", "show", "bad.json"].as_slice(),
        &["bank", "show", "bad.json", "gen_002"],
        &["bank", "log", "bad.json"],
        &["bank", "blame", "bad.json"],
        &["bank", "diff", "bad.json", "bad.json"],
        &["inspect", "bad.json"],
        &["bank", "import", "bad.json", "--out", "bank"],
        &["bank", "pin", "bank", "gen_002"],
    ] {
        let outcome = context.run(args);
        outcome.assert_code(code::SUCCESS);
        for text in [&outcome.stdout, &outcome.stderr] {
            assert!(!text.contains(['\u{1b}', '\u{202e}']), "{args:?}: {text:?}");
        }
    }
}

#[test]
fn reason_of_a_person_is_recorded() {
    let context = with_banks();
    context.succeed(&["bank", "retire", "lived", "gen_002"]);
    let log = context.succeed(&["bank", "log", "lived", "--json"]);
    let last: Value = serde_json::from_str(log.lines().last().unwrap()).unwrap();
    let reason = Reason::Person.as_str();
    assert_eq!((&last["reason"], &last["round"]), (&reason.into(), &2.into()), "in the round of the bank");
}

#[test]
fn what_a_task_would_be_shown_is_explained() {
    let context = with_banks();
    let goal = ["bank", "show", "paper.json", "--goal", "put a hot egg in the fridge"];
    insta::assert_snapshot!("bank_goal", context.succeed(&goal));
    let shown = |args: &[&str]| {
        let value = context.succeed_json(&[args, &["--json"]].concat());
        let shown = value["selection"]["shown"].as_array().unwrap();
        shown.iter().map(|skill| skill["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(shown(&goal), ["gen_001", "gen_002", "hea_001", "err_001"]);
    // What nobody is shown is not considered, and the environment's type decides before words do.
    let lived = ["bank", "show", "lived", "--goal", "look around"];
    assert_eq!(shown(&[&lived[..], &["--task-type", "heat"]].concat()), ["gen_001@2", "hea_003"]);
    let unknown = context.succeed(&[&lived[..], &["--task-type", "no such type"]].concat());
    assert!(unknown.contains("gen_001@2") && !unknown.contains("hea_003  "), "{unknown}");
}

#[test]
fn what_an_item_of_a_configuration_would_be_shown_is_explained() {
    let demo = TestContext::with_demo();
    demo.write("paper.json", PAPER);
    let checked = demo.succeed_json(&["env", "check", "demo/skillrl.toml", "--json"]);
    let item = checked["item"]["id"].as_str().unwrap();
    let args = ["bank", "show", "paper.json", "--config", "demo/skillrl.toml", "--item"];
    let value = demo.succeed_json(&[&args[..], &[item, "--json"]].concat());
    assert!(!value["goal"].as_str().unwrap().is_empty(), "{value}");
    assert_eq!(value["selection"]["shown"][0]["id"], "gen_001");
    demo.run(&[&args[..], &["no-such-item"]].concat()).fails(code::USAGE, &["no-such-item"]);
    demo.run(&["bank", "show", "paper.json", "--item", item]).assert_code(code::USAGE);
}
