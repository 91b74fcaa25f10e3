//! What an import cannot read: a value that decides something is an error with its file, all else is listed by its name.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::import::{check_bad, copy_dir, data, import_text, import_to, named, read_history};
use serde_json::{Map, Value, json};
use skillrl::error::ImportError;
use skillrl::import::Imported;
use skillrl::pipeline::RunReader;
use skillrl::pipeline::run_dir::seal;
use std::collections::BTreeSet;
use std::fs;
use tempfile::TempDir;

/// A copy of a run with these files; `None` takes one away, or a directory.
fn run_with(name: &str, files: &[(&str, Option<&str>)]) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    copy_dir(&data(name), dir.path());
    for (file, text) in files {
        let path = dir.path().join(file);
        match text {
            Some(text) => fs::write(path, text).unwrap(),
            None if path.is_dir() => fs::remove_dir_all(path).unwrap(),
            None => fs::remove_file(path).unwrap(),
        }
    }
    dir
}

/// Imports such a run; returns where it is, and the lists.
fn imported_with(name: &str, files: &[(&str, Option<&str>)]) -> (TempDir, Imported) {
    let (from, to) = (run_with(name, files), tempfile::tempdir().unwrap());
    let imported = import_to(from.path(), &to.path().join("run")).unwrap();
    (to, imported)
}

/// The keys of what was listed as lost, with their values.
fn lost(imported: &Imported) -> BTreeSet<(&str, &str)> {
    imported.unmapped.iter().map(|entry| (entry.key.as_str(), entry.value.as_str())).collect()
}

#[test]
fn a_value_of_another_type_in_a_run_is_an_error_with_its_file() {
    const RESULTS: &str = "steps/step_0001/rollout/results.jsonl";
    let cases: [(&str, &str, &str, &[&str]); 16] = [
        ("skillopt-run", RESULTS, r#"{"id": "t1", "hard": "1", "soft": 1}"#, &["`t1`", "`hard`"]),
        ("skillopt-run", RESULTS, r#"{"id": "t1", "hard": 1, "soft": [1]}"#, &["`t1`", "`soft`"]),
        (
            "skillopt-run",
            "steps/step_0001/selection_eval/results.jsonl",
            r#"{"id": 7, "hard": {}}"#,
            &["`7`", "`hard`"],
        ),
        (
            "skillopt-run",
            "selection_eval_baseline/results.jsonl",
            r#"{"id": "v", "hard": "?"}"#,
            &["`v`", "`hard`"],
        ),
        (
            "skillrl-1.0",
            "steps/step_0001/rollout_results.json",
            r#"[{"id": "t", "hard": "?"}]"#,
            &["`t`", "`hard`"],
        ),
        ("skillopt-run", "config.json", "[]", &[]),
        ("skillopt-run", "config.json", r#"{"gate_metric": 7}"#, &["`gate_metric`"]),
        ("skillopt-run", "config.json", r#"{"gate_metric": "median"}"#, &["`gate_metric`", "median"]),
        ("skillopt-run", "config.json", r#"{"gate_mixed_weight": "half"}"#, &["`gate_mixed_weight`", "half"]),
        ("skillopt-run", "config.json", r#"{"gate_mixed_weight": []}"#, &["`gate_mixed_weight`"]),
        ("skillopt-run", "config.json", r#"{"seed": "x"}"#, &["`seed`"]),
        ("skillopt-run", "runtime_state.json", "[]", &[]),
        ("skillopt-run", "runtime_state.json", r#"{"current_score": "high"}"#, &["`current_score`"]),
        ("skillopt-run", "summary.json", r#"{"test_hard": "high"}"#, &["`test_hard`"]),
        ("skillopt-run", "summary.json", r#"{"env": ["searchqa"]}"#, &["`env`"]),
        (
            "skillopt-run",
            "summary.json",
            r#"{"token_summary": {"rollout": {"calls": "two"}}}"#,
            &["token_summary.rollout", "`calls`"],
        ),
    ];
    for (run, file, text, names) in cases {
        let from = run_with(run, &[(file, Some(text))]);
        check_bad(from.path(), &[&[file], names].concat());
    }
    let summary = r#"{"baseline_selection_hard": "low"}"#;
    let from =
        run_with("skillopt-run", &[("selection_eval_baseline", None), ("summary.json", Some(summary))]);
    check_bad(from.path(), &["summary.json", "`baseline_selection_hard`"]);
    // Without it nobody knows which skill was the best one.
    let from = run_with("skillopt-run", &[("best_skill.md", None), ("skills", None)]);
    check_bad(from.path(), &["best_skill.md"]);
}

/// Words and numbers of the gate as SkillOpt reads them.
#[test]
fn the_gate_of_a_run_is_read_in_any_case_and_from_text() {
    for (config, expect) in [
        (json!({"gate_metric": " Soft "}), 0.25),
        (json!({"gate_metric": "MIXED", "gate_mixed_weight": " 0.2 "}), 0.05),
        (json!({"gate_metric": null, "gate_mixed_weight": null}), 0.0),
    ] {
        let (to, _) = imported_with("skillopt-run", &[("config.json", Some(&config.to_string()))]);
        assert_eq!(read_history(&to.path().join("run"))[0]["score_before"], expect, "{config}");
    }
}

#[test]
fn rows_without_an_id_or_a_score_are_listed_and_can_be_read() {
    const ROWS: &str = r#"{"id": "t1", "hard": 1}|{"id": "t2"}|{"hard": 1, "soft": 1}"#;
    let lines = ROWS.replace('|', "\n");
    let list = format!("[{}]", ROWS.replace('|', ","));
    for (run, file, text) in [
        ("skillopt-run", "steps/step_0001/rollout/results.jsonl", &lines),
        ("skillrl-1.0", "steps/step_0001/rollout_results.json", &list),
    ] {
        let (to, imported) = imported_with(run, &[(file, Some(text))]);
        let lost = lost(&imported);
        for (score, n_rows) in [("id", "1"), ("hard", "1"), ("soft", "2")] {
            let key = format!("{file}, rows without `{score}`");
            assert!(lost.contains(&(key.as_str(), n_rows)), "{key}: {lost:?}");
        }
        let run = RunReader::open(&to.path().join("run")).unwrap();
        assert_eq!(run.training_answers(skillrl::core::StepIdx(1)).unwrap().len(), 2, "{file}");
    }
}

#[test]
fn malformed_rows_of_the_history_are_named_and_left_out() {
    let rows: Vec<Map<String, Value>> =
        serde_json::from_slice(&fs::read(data("skillopt-run/history.json")).unwrap()).unwrap();
    let with = |key: &str, value: Value| {
        let mut row = rows[1].clone();
        row.insert(key.to_owned(), value);
        Value::Object(row)
    };
    for (row, key) in [
        (json!(7), "history.json"),
        (json!({"epoch": 1}), "history.json step without a number"),
        (with("step", json!("2")), "history.json step \"2\""),
        (with("rollout_hard", json!("high")), "history.json step 2"),
        (with("action", json!(7)), "history.json step 2"),
        (with("gate_metric", json!("median")), "history.json step 2"),
        (with("tokens", json!({"rollout": [1]})), "history.json step 2"),
        (with("edit_apply_summary", json!({"total": "two"})), "history.json step 2"),
        (with("accumulation_batches", json!([{"batch_seed": "x"}])), "history.json step 2"),
        (with("accumulation_batches", json!([{"batch_idx": 0}, {}])), "history.json step 2"),
        (with("edit_budget", json!("four")), "history.json step 2"),
    ] {
        let text = json!([rows[0], row]).to_string();
        let (to, imported) = imported_with("skillopt-run", &[("history.json", Some(&text))]);
        assert_eq!(named(&imported.unmapped, key).len(), 1, "{row}: {:?}", lost(&imported));
        assert_eq!(read_history(&to.path().join("run")).len(), 1, "{row}");
    }
    // Numbers that are missing are those of the step before, which is listed.
    let text = json!([rows[0], {"step": 2}]).to_string();
    let (to, imported) = imported_with("skillopt-run", &[("history.json", Some(&text))]);
    let last = read_history(&to.path().join("run")).pop().unwrap();
    assert_eq!([&last["current_score"], &last["best_score"]], [0.5, 0.5]);
    assert_eq!((&last["best_step"], &last["gate_metric"]), (&json!(1), &json!("mixed")));
    let [reason] = named(&imported.unmapped, "history.json step 2")[..] else { panic!("{imported:?}") };
    assert!(["`epoch`", "`rollout_hard`", "`best_step`"].iter().all(|key| reason.contains(key)), "{reason}");
}

/// Takes away files of a run: what is listed then, and which evaluation is not there.
#[test]
fn evaluations_of_an_unknown_skill_are_left_out_and_listed() {
    let mut rows: Vec<Map<String, Value>> =
        serde_json::from_slice(&fs::read(data("skillopt-run/history.json")).unwrap()).unwrap();
    rows[0].remove("candidate_hash");
    let history = serde_json::to_string(&rows).unwrap();
    let first = "skills/skill_v0000.md";
    let candidate = "steps/step_0001/candidate_skill.md";
    let no_hash = ("history.json", Some(history.as_str()));
    let check = |files: &[(&str, Option<&str>)], listed: &[&str], left_out: &[&str]| {
        let (to, imported) = imported_with("skillopt-run", files);
        for key in [
            "selection_eval_baseline",
            "test_eval_baseline",
            "steps/step_0001/selection_eval",
            "current skill",
        ] {
            let n_listed = usize::from(listed.contains(&key));
            assert_eq!(named(&imported.unmapped, key).len(), n_listed, "{files:?}: {:?}", lost(&imported));
        }
        for dir in [
            "baseline_selection_eval",
            "test_eval_baseline",
            "test_eval_best",
            "steps/step_0001/selection_eval",
        ] {
            let is_there = to.path().join("run").join(dir).join("results.json").is_file();
            assert_eq!(is_there, !left_out.contains(&dir), "{files:?}: {dir}");
        }
    };
    check(&[], &[], &[]);
    // The file of the candidate says which skill it was.
    check(&[no_hash], &[], &[]);
    check(
        &[no_hash, (candidate, None)],
        &["steps/step_0001/selection_eval"],
        &["steps/step_0001/selection_eval"],
    );
    let of_first = ["selection_eval_baseline", "test_eval_baseline"];
    check(&[(first, None)], &of_first, &["baseline_selection_eval", "test_eval_baseline"]);
    let skills = ["selection_eval_baseline", "test_eval_baseline", "current skill"];
    check(&[("skills", None)], &skills, &["baseline_selection_eval", "test_eval_baseline"]);
}

#[test]
fn a_baseline_without_the_scores_that_the_gate_needs_is_listed() {
    for (metric, summary, is_listed) in [
        ("hard", r#"{"baseline_selection_hard": 0.5}"#, false),
        ("soft", r#"{"baseline_selection_hard": 0.5}"#, true),
        ("mixed", r#"{"baseline_selection_hard": 0.5}"#, true),
        ("hard", "{}", true),
    ] {
        let config = json!({"gate_metric": metric}).to_string();
        let (_to, imported) = imported_with(
            "skillopt-run",
            &[
                ("selection_eval_baseline", None),
                ("config.json", Some(&config)),
                ("summary.json", Some(summary)),
            ],
        );
        assert_eq!(named(&imported.unmapped, "baseline").len(), usize::from(is_listed), "{metric} {summary}");
    }
}

/// A report does not take a gate that it cannot read for the usual one.
#[test]
fn a_report_names_the_gate_of_an_imported_run_that_it_cannot_read() {
    let (to, _) = imported_with("skillopt-run", &[]);
    let run = to.path().join("run");
    let mut config = RunReader::open(&run).unwrap().config().clone();
    config.config["settings"]["gate_metric"] = json!(7);
    let path = run.join("config.json");
    fs::write(&path, seal::sealed_json_bytes(&path, &config).unwrap()).unwrap();
    let error = skillrl::report::read(&run).unwrap_err();
    let skillrl::Error::Import(ImportError::Bad { path, message, .. }) = &error else { panic!("{error:?}") };
    assert_eq!(path.file_name(), Some("config.json".as_ref()));
    assert!(message.contains("`gate_metric`"), "{message}");
}

/// A value that is not what its key takes is listed, and nothing is set by it.
#[test]
fn a_value_of_another_type_in_a_configuration_is_listed_and_not_mapped() {
    for (text, key, unset) in [
        ("model: {backend: [qwen_chat], target: t}", "model.backend", ""),
        ("model: {target_backend: [codex], target: t}", "model.target_backend", "models.target.agent"),
        ("model: {target: [t]}", "model.target", "models.target.model"),
        (
            "model: {target: t, reasoning_effort: [high]}",
            "model.reasoning_effort",
            "models.target.reasoning_effort",
        ),
        (
            "model: {backend: openai_compatible, target: t, openai_compatible_temperature: hot}",
            "model.openai_compatible_temperature",
            "models.target.temperature",
        ),
        (
            "model: {backend: openai_compatible, target: t, openai_compatible_base_url: [u]}",
            "model.openai_compatible_base_url",
            "",
        ),
        (
            "model: {backend: qwen_chat, target: t, qwen_chat_enable_thinking: maybe}",
            "model.qwen_chat_enable_thinking",
            "models.target.extra_body",
        ),
        (
            "model: {backend: qwen_chat, target: t, qwen_chat_max_tokens: many}",
            "model.qwen_chat_max_tokens",
            "",
        ),
        (
            "model: {backend: qwen_chat, target: t, qwen_chat_timeout_seconds: [9]}",
            "model.qwen_chat_timeout_seconds",
            "",
        ),
        (
            "model: {backend: minimax_chat, minimax_max_tokens: many}",
            "model.minimax_max_tokens",
            "models.target.max_tokens",
        ),
        (
            "model: {backend: codex, codex_exec_path: [codex]}",
            "model.codex_exec_path",
            "models.target.command",
        ),
        (
            "model: {backend: codex, codex_exec_sandbox: none}",
            "model.codex_exec_sandbox",
            "models.target.sandbox",
        ),
        ("env: {name: searchqa, data_path: [d.json]}", "env.data_path", "env.data"),
        ("env: {name: searchqa, split_dir: [d]}", "env.split_dir", "env.data"),
        ("env: {name: searchqa, skill_init: [s.md]}", "env.skill_init", "skill.initial"),
        ("env: {name: searchqa, split_mode: random}", "env.split_mode", ""),
        ("env: {name: officeqa, data_dirs: [[docs]]}", "env.data_dirs", "env.files_dir"),
        ("env: {name: spreadsheetbench, mode: multi, max_turns: many}", "env.max_turns", "env.max_rounds"),
    ] {
        let (written, imported) = import_text("c.yaml", text);
        assert_eq!(named(&imported.unmapped, key).len(), 1, "{text}: {:?}", lost(&imported));
        assert!(!imported.mapped.iter().any(|mapped| mapped.key == key), "{text}: {:?}", imported.mapped);
        let place =
            unset.split('.').try_fold(&toml::Value::Table(written.clone()), |at, name| at.get(name)).cloned();
        assert_eq!(place, None, "{text}: {unset}");
    }
    // A number may be a text there.
    let text = "model: {backend: minimax_chat, minimax_temperature: '0.5', minimax_max_tokens: '9'}";
    let (written, _) = import_text("c.yaml", text);
    let target = &written["models"]["target"];
    assert_eq!((target["temperature"].as_float(), target["max_tokens"].as_integer()), (Some(0.5), Some(9)));
    let (written, imported) = import_text("c.yaml", "model: {backend: copilot, copilot_exec_path: /bin/c}");
    assert_eq!(written["models"]["target"]["command"][0].as_str(), Some("/bin/c"));
    assert!(imported.mapped.iter().any(|mapped| mapped.key == "model.copilot_exec_path"));
}

#[test]
fn a_missing_file_is_needed_by_the_key_that_names_it() {
    for (key, there) in
        [("data_path", "env.data"), ("skill_init", "skill.initial"), ("data_dirs", "env.files_dir")]
    {
        let (_, imported) = import_text("c.yaml", &format!("env: {{name: officeqa, {key}: missing.md}}"));
        let needed = imported.missing.iter().filter(|line| line.contains("missing.md"));
        let keys: Vec<_> = needed.filter_map(|line| line.split_once(':')).map(|(key, _)| key).collect();
        assert_eq!(keys, [there], "{key}");
    }
}

#[test]
fn a_list_of_a_split_that_cannot_be_read_is_an_error_with_its_file() {
    for name in ["searchqa", "alfworld"] {
        for fault in ["not JSON", "not UTF-8", "a directory"] {
            let dir = tempfile::tempdir().unwrap();
            let items = dir.path().join("splits/val/items.json");
            fs::create_dir_all(items.parent().unwrap()).unwrap();
            match fault {
                "not JSON" => fs::write(&items, "[{").unwrap(),
                "not UTF-8" => fs::write(&items, [b'"', 0xff, b'"']).unwrap(),
                _ => fs::create_dir(&items).unwrap(),
            }
            let config = dir.path().join("c.yaml");
            fs::write(&config, format!("env: {{name: {name}, split_dir: splits}}\n")).unwrap();
            check_bad(&config, &["items.json"]);
        }
    }
}

#[test]
fn items_without_a_game_are_counted_and_left_out() {
    let dir = tempfile::tempdir().unwrap();
    for (split, items) in [
        ("train", json!([{"gamefile": "a"}, {"gamefile": 7, "id": "b"}, {"task_type": "pick"}, 7])),
        ("val", json!([{"gamefile": "c"}])),
        ("test", json!({"items": []})),
    ] {
        fs::create_dir_all(dir.path().join("splits").join(split)).unwrap();
        fs::write(dir.path().join("splits").join(split).join("items.json"), items.to_string()).unwrap();
    }
    fs::write(dir.path().join("c.yaml"), "env: {name: alfworld, split_dir: splits}\n").unwrap();
    let to = dir.path().join("new");
    let imported = import_to(&dir.path().join("c.yaml"), &to).unwrap();
    let of_splits: Vec<_> =
        lost(&imported).into_iter().filter(|(key, _)| key.starts_with("env.split_dir")).collect();
    assert_eq!(of_splits, [("env.split_dir, test", "0"), ("env.split_dir, train", "3")]);
    let games = |split: &str| fs::read_to_string(to.join(format!("games_{split}.txt"))).ok();
    assert_eq!(["train", "val", "test"].map(games), [Some("a\n".to_owned()), Some("c\n".to_owned()), None]);
}
