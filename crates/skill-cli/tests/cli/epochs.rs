//! The demo with all that the ends of epochs add: told, estimated, blamed, reported and replayed.

use crate::context::{TestContext, assert_same_files};
use crate::estimate::{check, estimated};
use serde_json::Value;

/// Guidance is kept in any case, so that the current skill has some whatever the optimizer writes.
const WITH_EPOCH_ENDS: [&str; 4] = ["--set", "train.slow_update=force", "--set", "train.meta_skill=true"];

#[test]
fn the_demo_can_show_the_ends_of_epochs() {
    let context = TestContext::with_demo();
    let estimate = estimated(&context, &WITH_EPOCH_ENDS);
    let told = context.succeed(&[&["demo", "--dir", "told"], WITH_EPOCH_ENDS.as_slice()].concat());
    for said in ["\nepoch 1 done\n", "\nepoch 2 ends  ", "\nepoch 3 ends  "] {
        assert!(told.contains(said), "{told}");
    }
    let summary = context.json("told/run/summary.json");
    assert!(summary["epoch_ends"]["meta_skills"].as_u64().unwrap() >= 1, "{summary}");
    check(&estimate, &summary);

    context.succeed(&[&["train", "demo/skillrl.toml", "--quiet"], WITH_EPOCH_ENDS.as_slice()].concat());
    assert_same_files(&context.untimed_files("demo/run"), &context.untimed_files("told/run"));
    let replayed = context.succeed(&["replay", "demo/run", "--quiet"]);
    assert!(replayed.contains(", 0 sent\n") && replayed.contains("\nidentical:  "), "{replayed}");

    lines_of_guidance_name_their_epoch(&context);
    the_report_has_the_ends_of_epochs(&context);
}

fn lines_of_guidance_name_their_epoch(context: &TestContext) {
    let args = ["blame", "demo/run", "--step", "12"];
    let blame = context.succeed_json(&[args.as_slice(), &["--json"]].concat());
    let lines: Vec<&Value> =
        blame["lines"].as_array().unwrap().iter().filter(|line| is_guidance(&line["origin"])).collect();
    let text = |line: &Value| line["text"].as_str().unwrap().to_owned();
    let is_marker = |line: &&&Value| text(line).contains("SLOW_UPDATE");
    assert_eq!(lines.iter().filter(is_marker).count(), 2, "{blame}");
    let written: Vec<&&Value> = lines.iter().filter(|line| !is_marker(line)).collect();
    assert!(!written.is_empty(), "{blame}");
    let shown = context.succeed(&args);
    for line in written {
        let epoch = &line["origin"]["epoch"];
        assert!(epoch.as_u64().unwrap() >= 2, "the first epoch writes nothing: {line}");
        let mut evidence = blame["slow_updates"].as_array().unwrap().iter();
        let evidence = evidence.find(|evidence| evidence["epoch"] == *epoch).unwrap();
        assert_eq!(evidence["action"], "force_accept");
        let pairs = evidence["pairs"].as_object().unwrap().values();
        assert_eq!(pairs.map(|ids| ids.as_array().unwrap().len()).sum::<usize>(), 20, "{evidence}");
        let record = context.json(&format!("demo/run/slow_update/epoch_0{epoch}/slow_result.json"));
        assert_eq!(evidence["score_after"], record["candidate_gate_score"]);
        assert!(record["slow_update_content"].as_str().unwrap().contains(text(line).trim()), "{line}");
        assert!(shown.lines().any(|shown| shown.contains(&format!("slow update, epoch {epoch}"))), "{shown}");
        assert!(shown.contains(&format!("\nslow update of epoch {epoch}, after step ")), "{shown}");
    }
    // The steps that are named are those of edits.
    let mut steps = blame["steps"].as_array().unwrap().iter();
    assert!(steps.all(|step| !step["edits"].as_array().unwrap().is_empty()), "{blame}");
}

fn is_guidance(origin: &Value) -> bool {
    origin["kind"] == "slow_update"
}

fn the_report_has_the_ends_of_epochs(context: &TestContext) {
    let page = context.read("demo/run/report.html");
    for epoch in 1..=3 {
        assert!(page.contains(&format!("<details id=\"epoch-{epoch}\">")), "{epoch}");
    }
    let report = context.succeed_json(&["report", "demo/run", "--json"]);
    let summary = context.json("demo/run/summary.json");
    let calls = summary["token_summary"].as_object().unwrap().values();
    let n_calls: u64 = calls.map(|used| used["calls"].as_u64().unwrap()).sum();
    assert_eq!(report["headline"]["n_calls"].as_u64(), Some(n_calls));
    let best = |name: &str| report.pointer(&format!("/headline/selection/{name}")).unwrap().as_f64().unwrap();
    assert!((best("after") - summary["best_selection_score"].as_f64().unwrap()).abs() < 1e-9, "{summary}");
    let ends: Vec<&Value> =
        report["steps"].as_array().unwrap().iter().map(|step| &step["epoch_end"]).collect();
    assert_eq!(ends.iter().filter(|end| !end.is_null()).count(), 3);
    assert!(!ends[7]["slow_update"]["diff"].as_array().unwrap().is_empty(), "{}", ends[7]);
}
