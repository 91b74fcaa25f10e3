//! `skillrl eval SKILL --agent NAME`: arms, controls, verdicts.
#![cfg(unix)]

use crate::context::{TestContext, code};
use crate::fake_pi;
use serde_json::json;

/// What `pi.sh` does: the task if the skill is there, which it loads unless told otherwise.
const AGENT: &str = r#"echo start >> "LAB/starts"
cat > /dev/null
begins
if [ -f .pi/skills/my-skill/SKILL.md ]; then
  cat numbers.txt > total.txt
  if [ ! -f "LAB/never-loads" ]; then loads .pi/skills/my-skill; fi
fi
says Done.
ends
"#;

fn lab() -> TestContext {
    let context = TestContext::new();
    let lab = context.path("").display().to_string();
    fake_pi::install(&context, &AGENT.replace("LAB", lab.trim_end_matches('/')));
    context.write("my-skill/SKILL.md", "---\nname: my-skill\ndescription: Adds up.\n---\n# A\n\nDo it.\n");
    context.write("my-skill/evals/files/numbers.txt", "42\n");
    let check = json!([{"type": "file", "path": "total.txt", "contains": "42"}]);
    let mut cases: Vec<_> = (0..6)
        .map(|idx| json!({"id": idx, "prompt": "Add up.", "files": ["files/numbers.txt"], "checks": check}))
        .collect();
    cases.push(json!({"id": "idle", "prompt": "Look.", "checks": [{"type": "diff", "max_files": 5}]}));
    cases.push(json!({"id": "named", "prompt": "Use the my-skill skill.", "files": ["files/numbers.txt"], "checks": check}));
    context
        .write("my-skill/evals/evals.json", &json!({"skill_name": "my-skill", "evals": cases}).to_string());
    context
}

const EVAL: [&str; 9] = ["eval", "my-skill", "--agent", "pi", "--program", "./pi.sh", "--runs", "2", "--yes"];

fn with<'a>(more: &[&'a str]) -> Vec<&'a str> {
    EVAL.into_iter().chain(more.iter().copied()).collect()
}

#[test]
fn a_skill_that_helps_is_better_and_what_tests_nothing_is_excluded() {
    let context = lab();
    let found = context.succeed_json(&with(&["--out", "measured", "--json"]));
    let agent = &found["agents"][0];
    let arms = agent["arms"].as_array().unwrap();
    let rates: Vec<_> = arms.iter().map(|arm| (arm["name"].clone(), arm["pass_rate"].clone())).collect();
    assert_eq!(rates, [(json!("none"), json!(0.0)), (json!("current"), json!(1.0))]);
    assert_eq!(arms[1]["activations"], json!({"loaded": 12, "runs": 12}));
    assert_eq!(arms[1]["dollars"], json!(0.5));
    let difference = &agent["differences"][0];
    assert_eq!((&difference["verdict"], &difference["comparison"]["n"]), (&json!("better"), &json!(6)));
    let excluded = |id: &str| {
        let cases = agent["cases"].as_array().unwrap();
        cases.iter().find(|case| case["id"] == id).unwrap()["excluded"].clone()
    };
    assert_eq!((excluded("idle"), excluded("named")), (json!("tests_nothing"), json!("names_the_method")));
    assert!(excluded("0").is_null());
    let benchmark: serde_json::Value =
        serde_json::from_str(&context.read("measured/pi/workspace/benchmark.json")).unwrap();
    assert_eq!(benchmark["run_summary"]["with_skill"]["pass_rate"]["mean"], json!(1.0));
    let grading = context.read("measured/pi/workspace/eval-0/with_skill/run-1/grading.json");
    assert!(grading.contains("evidence"), "{grading}");
    // What is kept is shown and checked again.
    assert_eq!(context.succeed_json(&["show", "measured", "--json"])["agents"], found["agents"]);
    assert!(context.succeed(&["show", "measured/pi"]).contains("better: +100.0"));
    let page = context.read("measured/report.html");
    assert!(page.contains("2 of 2 runs") && page.contains("- failed: total.txt has"), "{page}");
    let checked = context.succeed_json(&["check", "measured", "--json"]);
    assert_eq!(checked["checked"].as_array().unwrap().len(), 3, "{checked}");
    // The same again starts nothing, and compares with itself.
    let starts = context.read("starts").lines().count();
    // Two arms, six cases that count, two runs.
    assert_eq!(starts, 24);
    let left = context.succeed_json(&with(&["--out", "measured", "--dry-run", "--json"]));
    assert_eq!(left["starts"], 0);
    let against = ["--against", "measured", "--fail-on-drop"];
    let same = |more: &[&'static str]| [["--out", "measured"].as_slice(), against.as_slice(), more].concat();
    let mut again = context.succeed_json(&with(&same(&["--json"])));
    let compared = again["agents"][0].as_object_mut().unwrap().remove("against").unwrap();
    assert_eq!((&compared["n"], &compared["difference"]), (&json!(6), &json!(0.0)));
    assert_eq!((&again["agents"], context.read("starts").lines().count()), (&found["agents"], starts));
    let text = context.succeed(&with(&same(&["--quiet"])));
    assert!(text.contains("\nagainst 100.0 %"), "{text}");
    // Other numbers of runs cannot be paired, which is said before a start.
    let once = ["eval", "my-skill", "--agent", "pi", "--program", "./pi.sh", "--runs", "1", "--yes"];
    let outcome = context.run(&[once.as_slice(), against.as_slice()].concat());
    assert_eq!(outcome.code, Some(code::USAGE), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("--runs 2"), "{}", outcome.stderr);
    assert_eq!(context.read("starts").lines().count(), starts);
    // A skill that helps no longer.
    context.replace("pi.sh", "cat numbers.txt > total.txt", ":");
    let outcome = context.run(&with(&[against.as_slice(), &["--json"]].concat()));
    assert_eq!(outcome.code, Some(code::REGRESSED), "{}", outcome.stderr);
    let worse: serde_json::Value = serde_json::from_str(&outcome.stdout).unwrap();
    assert_eq!(worse["agents"][0]["against"]["difference"], json!(-1.0));
}

/// What is in no verdict is not paid for.
#[test]
fn cases_that_are_excluded_are_not_run() {
    let context = lab();
    let text = context.read("my-skill/evals/evals.json");
    let mut evals: serde_json::Value = serde_json::from_str(&text).unwrap();
    let cases = evals["evals"].as_array_mut().unwrap();
    cases.retain(|case| ["idle", "named"].iter().any(|id| case["id"] == *id));
    context.write("my-skill/evals/evals.json", &evals.to_string());
    let text = context.succeed(&with(&["--out", "measured"]));
    assert!(text.contains("0 of 2 cases") && text.contains("no case counts"), "{text}");
    assert!(!context.path("starts").exists());
    let checked = context.succeed_json(&["check", "measured", "--json"]);
    assert_eq!(checked["checked"].as_array().unwrap().len(), 3, "{checked}");
    // More cases are run, and nothing that was excluded.
    context.write("my-skill/evals/evals.json", &lab().read("my-skill/evals/evals.json"));
    let found = context.succeed_json(&with(&["--out", "measured", "--json"]));
    assert_eq!(found["agents"][0]["differences"][0]["verdict"], "better");
    assert_eq!(context.read("starts").lines().count(), 24);
    // An excluded case that now tests something is announced.
    let tests = r#"{"type":"file","path":"total.txt"}"#;
    context.replace("my-skill/evals/evals.json", r#"{"type":"diff","max_files":5}"#, tests);
    let left = context.succeed_json(&with(&["--out", "measured", "--dry-run", "--json"]));
    assert_eq!(left["starts"], 4);
}

#[test]
fn a_skill_that_was_never_loaded_has_no_verdict() {
    let context = lab();
    context.write("never-loads", "");
    let found = context.succeed_json(&with(&["--json"]));
    let agent = &found["agents"][0];
    assert_eq!(agent["arms"][1]["activations"], json!({"loaded": 0, "runs": 12}));
    assert_eq!(agent["differences"][0]["verdict"], "not_tested");
}

#[test]
fn what_cannot_be_measured_is_said_before_anything_is_started() {
    let context = lab();
    let dry = context.succeed(&with(&["--dry-run"]));
    // That one prompt names the skill is seen without a start.
    assert!(dry.contains("28"), "{dry}");
    let missing = context.run(&["eval", "my-skill", "--agent", "pi", "--program", "./no.sh", "--dry-run"]);
    assert_eq!(missing.code, Some(code::SUCCESS), "{}", missing.stderr);
    assert!(missing.stderr.contains("no.sh"), "{}", missing.stderr);
    let fails = |more: &[&str], code: i32| {
        let outcome = context.run(&with(more));
        assert_eq!(outcome.code, Some(code), "{more:?}: {}", outcome.stderr);
    };
    fails(&["--previous", "no-such-revision"], code::USAGE);
    context.write("empty/SKILL.md", "---\nname: empty\ndescription: x\n---\n# A\n");
    let outcome = context.run(&["eval", "empty", "--agent", "pi"]);
    assert_eq!(outcome.code, Some(code::USAGE), "{}", outcome.stderr);
    let outcome = context.run(&["eval", "my-skill", "--agent", "clod"]);
    assert_eq!(outcome.code, Some(code::USAGE), "{}", outcome.stderr);
    assert!(!context.path("starts").exists());
}

/// What cannot be used is said before a person is asked: cases with their place, the grader, the agent's program.
#[test]
fn what_cannot_be_used_ends_the_command_before_the_question() {
    let context = lab();
    let fails = |cases: &serde_json::Value, more: &[&str], code: i32| {
        context.write("my-skill/evals/evals.json", &cases.to_string());
        let args = [&["eval", "my-skill", "--agent", "pi", "--yes"], more].concat();
        let outcome = context.run(&args);
        assert_eq!(outcome.code, Some(code), "{cases} {more:?}: {}", outcome.stderr);
        assert!(!outcome.stderr.contains("at most "), "{}", outcome.stderr);
        // The command has no configuration file, so hints name its options.
        assert!(!outcome.stderr.contains("`env`"), "{}", outcome.stderr);
    };
    let pi = ["--program", "./pi.sh"];
    let check = json!([{"type": "diff", "max_files": 1}]);
    let case = |more: serde_json::Value| {
        let mut case = json!({"prompt": "Do.", "checks": check});
        case.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!([case])
    };
    fails(&case(json!({"checks": []})), &pi, code::DATA);
    fails(&case(json!({"files": ["gone.csv"]})), &pi, code::DATA);
    fails(&case(json!({"checks": [{"type": "baseline"}]})), &pi, code::DATA);
    fails(&case(json!({"reviewed": false})), &pi, code::DATA);
    fails(&case(json!({})), &["--program", "./no-such-program"], code::USAGE);
    let graded = case(json!({"expectations": ["It is done"]}));
    fails(&graded, &[pi.as_slice(), &["--judge", "gpt-5-mini"]].concat(), code::PROVIDER_REFUSED);
    assert!(!context.path("starts").exists());
}

/// An existing `--out` is extended by more cases and more runs; the cost estimate comes from its earlier runs.
#[test]
fn more_cases_and_more_runs_are_all_that_is_paid_for() {
    let context = lab();
    let check = json!([{"type": "file", "path": "total.txt", "contains": "42"}]);
    let eval = |n_cases: usize, more: &[&str]| {
        let case = |idx: usize| json!({"id": idx, "prompt": "Add up.", "files": ["files/numbers.txt"], "checks": check});
        let cases: Vec<_> = (0..n_cases).map(case).collect();
        context.write("my-skill/evals/evals.json", &json!(cases).to_string());
        let args =
            ["eval", "my-skill", "--agent", "pi", "--program", "./pi.sh", "--yes", "--out", "measured"];
        context.run(&[args.as_slice(), more].concat())
    };
    let starts = || context.read("starts").lines().count();
    for (n_cases, runs, n_starts) in [(1, "2", 4), (2, "2", 8), (2, "3", 12), (2, "3", 12)] {
        // The cap is on starts: the control, which starts nothing, takes none of it after a resume.
        let outcome = eval(n_cases, &["--runs", runs, "--json", "--calls", "8"]);
        assert_eq!((outcome.code, starts()), (Some(0), n_starts), "{}", outcome.stderr);
    }
    let dry: serde_json::Value =
        serde_json::from_str(&eval(4, &["--runs", "3", "--dry-run", "--json"]).stdout).unwrap();
    // Twelve runs are on record.
    assert_eq!(dry, json!({"starts": 12, "grader_calls": 0, "dollars": 6.0}));
    // Fewer of them would replace what was paid for.
    assert_eq!(eval(1, &["--runs", "3"]).code, Some(code::USAGE));
    assert_eq!(eval(2, &["--runs", "2"]).code, Some(code::USAGE));
    assert_eq!(starts(), 12);
    // Nor is a case with another check under the same id a part of what was measured.
    let cases =
        context.read("my-skill/evals/evals.json").replace("\"contains\":\"42\"", "\"contains\":\"43\"");
    context.write("my-skill/evals/evals.json", &cases);
    let args = ["eval", "my-skill", "--agent", "pi", "--program", "./pi.sh", "--yes", "--out", "measured"];
    let changed = context.run(&[&args[..], &["--runs", "3"]].concat());
    assert_eq!((changed.code, starts()), (Some(code::USAGE), 12), "{}", changed.stderr);
}

/// What is kept inside of a skill would be a part of it, so results are kept elsewhere or in a hidden folder.
#[test]
fn results_are_kept_outside_of_the_skill() {
    let context = lab();
    for (words, option) in [
        (vec!["eval", "my-skill", "--agent", "pi", "--out", "my-skill/measured"], "--out"),
        (vec!["skill", "triggers", "my-skill", "--agent", "pi", "--dir", "my-skill/x/y"], "--dir"),
        (vec!["train", "my-skill", "--agent", "pi", "--only", "body", "--dir", "my-skill/run"], "--dir"),
    ] {
        let outcome = context.run(&words);
        assert!(!context.path("starts").exists());
        assert_eq!(outcome.code, Some(code::USAGE), "{}", outcome.stderr);
        assert!(
            outcome.stderr.contains(option) && outcome.stderr.contains(".skillrl/"),
            "{}",
            outcome.stderr
        );
    }
    // In the skill's own folder, named by its file.
    let skill = context.path("my-skill");
    let program = context.path("pi.sh").display().to_string();
    let inside = |words: &[&str]| {
        let more = ["--agent", "pi", "--program", program.as_str(), "--yes"];
        let outcome = context.run_in(&skill, &[words, &more].concat());
        assert_eq!(outcome.code, Some(code::SUCCESS), "{}", outcome.stderr);
    };
    inside(&["eval", "SKILL.md", "--runs", "1", "--out", ".skillrl/measured"]);
    std::fs::create_dir_all(skill.join(".skillrl")).unwrap();
    let queries: Vec<String> =
        (0..4).map(|n| json!({"query": format!("add {n}"), "should": true}).to_string()).collect();
    context.write("my-skill/.skillrl/my-skill-queries.jsonl", &queries.join("\n"));
    inside(&["skill", "triggers", ".", "--runs", "1"]);
    assert!(skill.join(".skillrl/my-skill-triggers-pi/triggers.json").exists());
    let there: Vec<_> = std::fs::read_dir(&skill).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(there.len(), 3, "SKILL.md, evals and .skillrl: {there:?}");
}

#[test]
fn dollars_are_counted_as_reported_or_by_prices_or_refused() {
    let context = lab();
    // Codex reports tokens and no dollars.
    let codex = ["eval", "my-skill", "--agent", "codex", "--budget", "5", "--dry-run"];
    let capped = |more: &[&str]| context.run(&[&codex[..], more].concat());
    capped(&[]).fails(code::USAGE, &["--price", "--model", "--calls"]);
    capped(&["--model", "haiku"]).fails(code::USAGE, &["haiku", "--price"]);
    capped(&["--model", "claude-haiku-4-5"]).assert_code(code::SUCCESS);
    capped(&["--model", "haiku", "--price", "1,5"]).assert_code(code::SUCCESS);
    // An optimizer of its own has prices of its own.
    let body = ["train", "my-skill", "--agent", "codex", "--only", "body", "--dry-run"];
    let capped = ["--budget", "5", "--model", "claude-haiku-4-5", "--optimizer", "opus"];
    context.run(&[&body[..], &capped].concat()).fails(code::USAGE, &["opus"]);
    // The cap holds: a run takes 100 tokens of prompts, a hundredth of a cent.
    let stopped = ["--budget", "0.00005", "--model", "claude-haiku-4-5"];
    context.run(&with(&stopped)).fails(code::BUDGET, &["--budget"]);
    // Pi reports half a dollar for a run, which counts without prices and after a resume.
    for (budget, n_starts) in [("1.1", 2), ("1.1", 2), ("2.1", 4)] {
        let outcome = context.run(&with(&["--budget", budget, "--out", "measured"]));
        let outcome = outcome.fails(code::BUDGET, &["--budget"]);
        assert_eq!(context.read("starts").lines().count(), n_starts, "{budget}: {}", outcome.stderr);
    }
}

/// The agent writes cases with their files; nothing uses them before a person has reviewed them.
#[test]
fn an_agent_drafts_cases_which_a_person_reviews() {
    let context = lab();
    std::fs::remove_dir_all(context.path("my-skill/evals")).unwrap();
    let case = json!({"id": "sum", "prompt": "Add up in.csv.", "files": {"in.csv": "42\n"},
        "checks": [{"type": "file", "path": "total.txt", "contains": "42"}]});
    let reply = json!(format!("{case}\n{}", json!({"id": "bare", "prompt": "Do."}))).to_string();
    // The script quotes the reply with apostrophes, so the reply contains none.
    let says = format!(
        r#"cat > prompt
begins
line '{{"type": "message_end", "message": {{"role": "assistant", "responseId": "2", "stopReason": "stop", "content": [{{"type": "text", "text": {reply}}}], "usage": {{"input": 100, "output": 5}}}}}}'
ends
"#
    );
    fake_pi::install(&context, &says);
    let draft = ["eval", "my-skill", "--agent", "pi", "--program", "./pi.sh", "--draft", "2", "--json"];
    let found = context.succeed_json(&draft);
    assert_eq!(found["drafts"], json!(1), "{found}");
    assert_eq!(context.read("my-skill/evals/files/in.csv"), "42\n");
    // A draft replaces no cases, and is neither measured nor trained on.
    assert_eq!(context.run(&draft).code, Some(code::USAGE));
    assert_eq!(context.run(&with(&[])).code, Some(code::DATA));
    let train = ["train", "my-skill", "--agent", "pi", "--program", "./pi.sh", "--only", "body", "--yes"];
    assert_eq!(context.run(&train).code, Some(code::DATA));
    fake_pi::install(&context, &AGENT.replace("LAB", &context.path("").display().to_string()));
    context.replace("my-skill/evals/evals.json", "\"reviewed\": false", "\"reviewed\": true");
    context.replace("pi.sh", "cat numbers.txt", "cat in.csv");
    let measured = context.succeed_json(&with(&["--json"]));
    assert_eq!(measured["agents"][0]["arms"][1]["pass_rate"], json!(1.0), "{measured}");
}

/// The body is trained on some of the cases and compared on the others; front matter and cases stay.
#[test]
fn a_body_is_trained_on_cases_behind_the_gate() {
    let context = lab();
    let check = json!([{"type": "file", "path": "total.txt", "contains": "42"}]);
    let case = |idx: usize| json!({"id": idx, "prompt": format!("Add up {idx}."), "files": ["files/numbers.txt"], "checks": check});
    let cases = |n: usize| json!((0..n).map(case).collect::<Vec<_>>()).to_string();
    let edit = json!({"failure_summary": [], "patch": {"reasoning": "x", "edits":
        [{"op": "append", "target": "", "content": "- Write the sum into total.txt.", "support_count": 1, "for": []}]}});
    let edit = json!(edit.to_string());
    let skill = ".pi/skills/my-skill";
    fake_pi::install(
        &context,
        &format!(
            r#"last=$(cat)
begins
if [ -f {skill}/SKILL.md ]; then
  loads {skill}
  if grep -q total.txt {skill}/SKILL.md; then cat numbers.txt > total.txt; fi
  says Done.
else
  line '{{"type": "message_end", "message": {{"role": "assistant", "responseId": "2", "stopReason": "stop", "content": [{{"type": "text", "text": {edit}}}], "usage": {{"input": 100, "output": 5}}}}}}'
fi
ends
"#
        ),
    );
    // Without a price the dollars that Pi reports cap a planned number of calls.
    context.write("my-skill/evals/evals.json", &cases(20));
    let budget = ["train", "my-skill", "--agent", "pi", "--program", "./pi.sh", "--only", "body"];
    let planned = context.succeed_json(&[&budget[..], &["--budget", "5", "--dry-run", "--json"]].concat());
    assert_eq!(
        planned["estimate"]["total"]["calls"]["high"].as_u64().map(|n| n <= 100),
        Some(true),
        "{planned}"
    );
    let train = |more: &[&str]| {
        let args = [
            "train",
            "my-skill",
            "--agent",
            "pi",
            "--program",
            "./pi.sh",
            "--only",
            "body",
            "--calls",
            "150",
        ];
        context.run(&[args.as_slice(), more].concat())
    };
    context.write("my-skill/evals/evals.json", &cases(6));
    assert_eq!(train(&[]).code, Some(code::DATA));
    context.write("my-skill/evals/evals.json", &cases(20));
    assert_eq!(train(&["--queries", "x.jsonl"]).code, Some(code::USAGE));
    // Advice names options that the command has.
    let args = ["train", "my-skill", "--agent", "pi", "--program", "./pi.sh", "--only", "body"];
    let capped = context.run(&[&args[..], &["--calls", "3"]].concat());
    assert!(capped.code == Some(code::USAGE) && !capped.stderr.contains("--set"), "{}", capped.stderr);
    let dry = train(&["--dry-run", "--json"]);
    let dry: serde_json::Value = serde_json::from_str(&dry.stdout).unwrap();
    assert!(dry["estimate"]["total"]["calls"]["high"].as_u64().unwrap() <= 150, "{dry}");
    assert!(!context.path("my-skill-body-pi").exists());
    let outcome = train(&["--quiet"]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    let best = context.read("my-skill-body-pi/best_skill/SKILL.md");
    let front_matter = |text: &str| text.split("---\n").nth(1).map(str::to_owned);
    assert_eq!(front_matter(&best), front_matter(&context.read("my-skill/SKILL.md")));
    assert!(best.contains("total.txt") && !context.read("my-skill/SKILL.md").contains("total.txt"));
    assert!(context.path("my-skill-body-pi/best_skill/evals/evals.json").exists());
    // A second score that falls: with the edit, what must not be written is.
    context.replace(
        "pi.sh",
        "then cat numbers.txt > total.txt",
        "then touch notes.txt; cat numbers.txt > total.txt",
    );
    let guard = json!({"type": "file", "path": "notes.txt", "exists": false, "guard": true});
    let guarded: Vec<_> = (0..20)
        .map(|idx| {
            let mut case = case(idx);
            case["checks"].as_array_mut().unwrap().push(guard.clone());
            case
        })
        .collect();
    context.write("my-skill/evals/evals.json", &json!(guarded).to_string());
    let outcome = train(&["--quiet", "--dir", "guarded"]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    assert!(!context.read("guarded/best_skill/SKILL.md").contains("total.txt"));
    let history = context.read("guarded/history.jsonl");
    let records = history.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let found: Vec<_> = records.filter(|record| !record["guard"].is_null()).collect();
    assert!(!found.is_empty(), "{history}");
    for record in found {
        let expect = json!({"n": 8, "current": 1.0, "candidate": 0.0, "falls": true});
        assert_eq!((&record["guard"], &record["action"]), (&expect, &json!("reject")), "{record}");
    }
}

/// Drafts are left out by name, and large files of cases are none of the skill's.
#[test]
fn drafts_and_files_of_cases_are_no_part_of_what_is_measured() {
    let context = lab();
    let check = json!([{"type": "file", "path": "total.txt", "contains": "42"}]);
    let case =
        |id: &str| json!({"id": id, "prompt": "Add up.", "files": ["files/numbers.txt"], "checks": check});
    let mut draft = case("draft");
    draft["reviewed"] = json!(false);
    context.write("my-skill/evals/evals.json", &json!([case("one"), draft]).to_string());
    let large = std::fs::File::create(context.path("my-skill/evals/files/large.bin")).unwrap();
    large.set_len(1 << 30).unwrap();
    let outcome = context.run(&with(&["--json"]));
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("draft"), "{}", outcome.stderr);
    let found: serde_json::Value = serde_json::from_str(&outcome.stdout).unwrap();
    let ids: Vec<_> =
        found["agents"][0]["cases"].as_array().unwrap().iter().map(|case| &case["id"]).collect();
    assert_eq!(ids, ["one"]);
    // A case that names it is refused by its size.
    let mut large = case("large");
    large["files"] = json!(["files/large.bin"]);
    context.write("my-skill/evals/evals.json", &json!([large]).to_string());
    assert_eq!(context.run(&with(&[])).code, Some(code::DATA));
}

/// The caps are for all agents together, and an agent that is named twice is measured once.
/// Cases go from one form to another and back, and are refused where another file would be replaced.
#[test]
fn cases_are_listed_and_written_in_other_forms() {
    let context = lab();
    let listed = |skill: &str, more: &[&str]| {
        context.succeed_json(&[&["skill", "cases", skill, "--json"], more].concat())["cases"].clone()
    };
    let cases = listed("my-skill", &[]);
    assert_eq!(cases.as_array().unwrap().len(), 8);
    context.succeed(&["skill", "cases", "my-skill", "--out", "folders"]);
    assert!(context.read("folders/0/case.yaml").contains("total.txt"));
    assert_eq!(context.read("folders/0/fixture/numbers.txt"), "42\n");
    assert_eq!(listed("my-skill", &["--cases", "folders"]), cases);
    context.succeed(&["skill", "cases", "my-skill", "--cases", "folders", "--out", "back/evals.jsonl"]);
    assert_eq!(listed("my-skill", &["--cases", "back/evals.jsonl"]), cases);
    let again = ["skill", "cases", "my-skill", "--cases", "folders", "--out", "back/evals.jsonl"];
    context.run(&again).fails(code::USAGE, &["--out"]);
    assert!(context.succeed(&["skill", "cases", "my-skill"]).contains("Add up."));
}

#[test]
fn a_cap_holds_over_all_agents() {
    let context = lab();
    let eval = ["eval", "my-skill", "--agent", "pi,pi,gemini-cli", "--program", "./pi.sh", "--runs", "2"];
    let outcome = context.run(&[eval.as_slice(), &["--calls", "32"]].concat());
    assert_eq!(outcome.code, Some(code::BUDGET), "{}", outcome.stderr);
    assert!(
        outcome.stderr.contains("--calls 32") && outcome.stderr.contains("--budget"),
        "{}",
        outcome.stderr
    );
    assert_eq!(context.read("starts").lines().count(), 32);
}

#[test]
fn cases_that_change_make_no_previous_version() {
    let context = lab();
    let git = |words: &[&str]| {
        let mut command = std::process::Command::new("git");
        command.current_dir(context.path("my-skill")).args(["-c", "user.name=a", "-c", "user.email=a@b.c"]);
        let output = command.args(words).output().unwrap();
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    };
    git(&["init", "--quiet"]);
    git(&["add", "."]);
    git(&["commit", "--quiet", "--message", "first"]);
    context.write("my-skill/evals/files/numbers.txt", "42 \n");
    let dry = context.succeed(&with(&["--dry-run"]));
    assert!(dry.contains("none, current"), "{dry}");
    context.write("my-skill/SKILL.md", "---\nname: my-skill\ndescription: Adds.\n---\n# A\n\nDo it.\n");
    let dry = context.succeed(&with(&["--dry-run"]));
    assert!(dry.contains("none, previous, current"), "{dry}");
}

/// `env check` has no agent, so nothing is changed and no check passes.
#[test]
fn cases_of_a_configuration_are_checked_without_an_agent() {
    let context = lab();
    context.write(
        "cases.toml",
        "[models]\noptimizer = { kind = \"simulated\" }\n\
         target = { kind = \"agent\", agent = \"claude\", model = \"default\", skill_as = \"package\", sandbox = \"workspace\" }\n\
         [env]\nkind = \"evals\"\ncases = \"my-skill/evals/evals.json\"\n",
    );
    let said = context.succeed(&["env", "check", "cases.toml"]);
    assert!(said.contains("Add up."), "{said}");
}
