//! Pages of data that lack something: a section may be left out, the page never is.

use super::{environment, with_code};
use crate::{BankReport, Report, ReportOptions};
use minijinja::value::Serde;
use minijinja::{Value, context};
use serde_json::json;
use skill_pipeline::RunReader;
use skillrl_bench::runs::{BankRunSize, RunSize, make_bank_run, make_run};

/// What stands where a section was left out.
const LEFT_OUT: &str = "data-left-out";

fn rendered(template: &str, report: &serde_json::Value) -> String {
    let environment = environment().unwrap();
    let page = environment.get_template(template).unwrap().render(context! {
        is_page => true,
        report => Value::from(Serde(report)),
        style => "", script => "", scores => "", budgets => "", by_calls => "", by_money => "", curves => Vec::<String>::new(), type_curves => Vec::<String>::new(),
    });
    page.unwrap_or_else(|error| panic!("{template}: {error}"))
}

/// The paths of all members of objects, as pointers.
fn members(value: &serde_json::Value, at: &str, found: &mut Vec<String>) {
    match value {
        serde_json::Value::Object(of) => {
            for (name, value) in of {
                let path = format!("{at}/{}", name.replace('~', "~0").replace('/', "~1"));
                members(value, &path, found);
                found.push(path);
            }
        }
        // The first element of a list stands for all.
        serde_json::Value::Array(of) => {
            for (place, value) in of.iter().enumerate().take(1) {
                members(value, &format!("{at}/{place}"), found);
            }
        }
        _ => {}
    }
}

/// Takes out one member after the other, and demands the page each time; a report without a name is
/// none.
fn check_without(template: &str, report: &serde_json::Value) {
    assert!(!rendered(template, report).contains(LEFT_OUT), "{template} is whole");
    let mut paths = Vec::new();
    members(report, "", &mut paths);
    assert!(paths.len() > 20, "{}", paths.len());
    let mut n_left_out = 0;
    for path in paths {
        let (parent, name) = path.rsplit_once('/').unwrap();
        if path == "/name" {
            continue;
        }
        let mut less = report.clone();
        let name = name.replace("~1", "/").replace("~0", "~");
        less.pointer_mut(parent).unwrap().as_object_mut().unwrap().remove(&name);
        n_left_out += usize::from(rendered(template, &less).contains(LEFT_OUT));
    }
    assert!(n_left_out > 5, "{template}: {n_left_out}");
}

#[test]
fn what_is_missing_leaves_out_its_section_and_never_the_page() {
    let dir = skillrl_bench::runs::temporary_dir().unwrap();
    let (bank, document) = (dir.path().join("bank"), dir.path().join("document"));
    make_bank_run(&bank, &BankRunSize { n_rounds: 2, n_selection: 6, n_test: 6, is_finished: true }).unwrap();
    let bank = BankReport::read(&RunReader::open(&bank).unwrap(), &ReportOptions::default()).unwrap();
    check_without("bank.html", &serde_json::to_value(&bank).unwrap());
    let size =
        RunSize { n_steps: 3, steps_per_epoch: 3, batch: 2, n_selection: 3, n_test: 2, reply_characters: 20 };
    make_run(&document, &size).unwrap();
    let document = Report::read(&RunReader::open(&document).unwrap(), &ReportOptions::default()).unwrap();
    check_without("report.html", &serde_json::to_value(&document).unwrap());
}

#[test]
fn what_is_between_backticks_is_code_and_all_else_is_text() {
    for (text, html) in [
        ("none", "none"),
        ("see `a <b>` and `c`.", "see <code>a &lt;b&gt;</code> and <code>c</code>."),
        ("one ` alone", "one ` alone"),
        ("`a` and ` alone", "<code>a</code> and ` alone"),
        ("", ""),
    ] {
        assert_eq!(with_code(text), html);
    }
}

#[test]
fn an_empty_best_skill_is_said_to_be_empty() {
    let dir = skillrl_bench::runs::temporary_dir().unwrap();
    let run = dir.path().join("run");
    let size =
        RunSize { n_steps: 1, steps_per_epoch: 1, batch: 1, n_selection: 2, n_test: 1, reply_characters: 20 };
    make_run(&run, &size).unwrap();
    let report = Report::read(&RunReader::open(&run).unwrap(), &ReportOptions::default()).unwrap();
    let mut report = serde_json::to_value(&report).unwrap();
    for (skill, has_lines) in [(report["skill"].clone(), true), (json!([]), false)] {
        report["skill"] = skill;
        assert_eq!(rendered("report.html", &report).contains("<div class=\"lines\">"), has_lines);
    }
}

#[test]
fn a_run_of_all_phases_has_its_games_gains_and_skills_in_tiles() {
    let games = |won: u32| json!({"won": won, "played": 100, "score": won, "interval": [0.0, 1.0]});
    let phase = json!({"phase": "sft", "dir": "sft", "state": "finished", "figures": {"loss": 0.5},
        "seconds": 2.0, "key": "0123456789abcdef"});
    let report = json!({
        "name": "p", "env": "alfworld", "phase": "finished", "reason": null, "hint": null,
        "brief": {"phases": [phase], "is_finished": true, "test": [
            {"policy": null, "has_skills": false, "games": games(3)},
            {"policy": "sft", "has_skills": true, "games": games(53)},
        ]},
        "setup": {"started_unix_ms": 1, "seconds": 2.0, "models": [], "asked": [], "prompt": null},
        "sent": {"requests": 7, "tokens": 1200, "money": 0.5, "is_replay": false},
        "verdict": {"outcome": "better", "words": "53 of 100", "cautions": []},
        "gains": [[{"phase": "sft", "difference": 0.5, "interval": [0.4, 0.6], "verdict": "better"}, "Better."]],
        "results": ["loss 0.5000"], "skills": [["Be calm", "general"]], "runs": [],
    });
    check_without("phases.html", &report);
    let page = rendered("phases.html", &report);
    for part in [
        "3 → 53 of 100",
        "+50.0 points",
        "1 skill<",
        "1 of 1<",
        "Be calm",
        "loss 0.5000",
        "7 requests, 1,200 tokens",
    ] {
        assert!(page.contains(part), "{part}\n{page}");
    }
    let verdict_at = page.find("lead verdict").unwrap();
    let [tiles, change, phases] =
        ["class=\"tiles\"", "id=\"change\"", "id=\"phases\""].map(|part| page.find(part).unwrap());
    assert!(verdict_at < tiles && tiles < change && change < phases);
}

#[test]
fn reports_of_weights_with_nothing_but_their_head_are_pages() {
    let head = json!({"name": "<b>", "env": "alfworld", "phase": "interrupted", "reason": null, "hint": null,
        "sentence": null, "brief": {"iteration": 0, "step": 0, "total_iterations": null, "total_steps": null,
        "signs": []}, "runs": {}});
    for template in ["sft.html", "rl.html", "phases.html"] {
        let page = rendered(template, &head);
        assert!(page.contains(LEFT_OUT) && page.contains("</html>"), "{template}");
        assert!(!page.contains("<b>") || !page.contains("<h1><b>"), "{template}");
    }
}
