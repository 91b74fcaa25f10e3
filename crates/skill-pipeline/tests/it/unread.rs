//! Files of a run that exist and cannot be read: an error with the file, or damage with its name, and never an absent one.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use serde_json::{Value, json};
use skill_bank::{Author, Bank, BankError, BankEvent};
use skill_core::canonical::hex_sha256;
use skill_core::{Gate, GateMetric};
use skill_pipeline::bank_dir::{SOURCE_FILE, read_source};
use skill_pipeline::noise::flip_rate_at;
use skill_pipeline::records::bank::LOG_FILE;
use skill_pipeline::records::{ConfigFile, RunIdentity};
use skill_pipeline::run_dir::check::{Fault, check};
use skill_pipeline::run_dir::timings::Timings;
use skill_pipeline::run_dir::{EvaluationDir, RunDir, read_text};
use skill_pipeline::{PipelineError, RunReader};
use std::fs;
use std::path::Path;
use tempfile::TempDir;

/// A run of nothing but this configuration.
fn run_of(config: Value, identity: &[(&str, Value)]) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let identity: RunIdentity =
        identity.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    RunDir::open(dir.path()).unwrap().write_config(&ConfigFile::new(config, identity), None).unwrap();
    dir
}

/// Puts a file into a run; without bytes a directory.
fn put(run: &Path, name: &str, bytes: Option<&[u8]>) {
    let path = run.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    match bytes {
        Some(bytes) => fs::write(path, bytes).unwrap(),
        None => fs::create_dir(path).unwrap(),
    }
}

/// The file that an error is about.
fn file_of(error: &PipelineError) -> Option<&str> {
    let (PipelineError::Corrupt { path, .. } | PipelineError::RunDir { path, .. }) = error else {
        return None;
    };
    path.file_name()?.to_str()
}

/// The damage to files whose names begin so.
fn damage_of(run: &Path, start: &str) -> Vec<(String, Fault)> {
    let damage = check(run).unwrap().damage.into_iter();
    damage.filter(|damage| damage.file.starts_with(start)).map(|damage| (damage.file, damage.fault)).collect()
}

#[test]
fn a_gate_that_is_recorded_and_is_none_is_an_error() {
    let soft = Gate { metric: GateMetric::Soft, ..Gate::default() };
    let mixed = Gate { metric: GateMetric::Mixed, mixed_weight: 0.25 };
    for (config, identity, expect) in [
        (json!(null), vec![], Some(None)),
        (json!({"gate": {"metric": "soft"}}), vec![], Some(Some(soft))),
        (json!({"gate": {"metric": "mixed", "mixed_weight": 0.25}}), vec![], Some(Some(mixed))),
        (json!({"gate": {"metric": "mixed"}}), vec![("gate.mixed_weight", json!(0.25))], Some(Some(mixed))),
        (json!({"gate": {"metric": "hard"}}), vec![("gate.metric", json!("soft"))], Some(Some(soft))),
        (json!({"gate": {"metric": "median"}}), vec![], None),
        (json!({"gate": {"metric": null}}), vec![], None),
        (json!({"gate": {"metric": "soft", "mixed_weight": "half"}}), vec![], None),
    ] {
        let run = run_of(config.clone(), &identity);
        let gate = RunReader::open(run.path()).unwrap().gate();
        assert_eq!(
            gate.as_ref().err().and_then(file_of),
            expect.is_none().then_some("config.json"),
            "{config}"
        );
        assert_eq!(gate.ok(), expect, "{config}");
    }
}

/// Whether they are empty, or which file is wrong: by the results, the summary, and whether the run must have them.
#[test]
fn results_that_are_lost_or_cannot_be_read_are_not_absent() {
    const DIR: &str = "baseline_selection_eval";
    for (results, has_summary, scores, measured) in [
        (None, false, None, Some("results.json")),
        (None, true, Some("results.json"), Some("results.json")),
        (Some(None), false, Some("results.json"), None),
        (Some(Some(&b"[{"[..])), false, Some("results.json"), None),
        (Some(Some(b"[]")), true, None, None),
    ] {
        let run = run_of(Value::Null, &[]);
        if let Some(bytes) = results {
            put(run.path(), &format!("{DIR}/results.json"), bytes);
        }
        if has_summary {
            put(run.path(), &format!("{DIR}/summary.json"), Some(b"{}"));
        }
        let run = RunReader::open(run.path()).unwrap();
        let read = [
            run.results(EvaluationDir::Baseline).map(drop),
            run.scores(EvaluationDir::Baseline).map(drop),
            run.tokens(EvaluationDir::Baseline).map(drop),
            run.answers(EvaluationDir::Baseline).map(drop),
        ];
        for read in read {
            assert_eq!(read.as_ref().err().and_then(file_of), scores, "{results:?} {read:?}");
        }
        let found = run.check_measured(EvaluationDir::Baseline);
        assert_eq!(found.as_ref().err().and_then(file_of), measured, "{results:?} {found:?}");
    }
    let imported = run_of(Value::Null, &[("imported_from", json!("SkillOpt"))]);
    RunReader::open(imported.path()).unwrap().check_measured(EvaluationDir::Baseline).unwrap();
}

#[test]
fn a_text_that_cannot_be_read_is_not_absent() {
    let dir = tempfile::tempdir().unwrap();
    put(dir.path(), "text", Some("é".as_bytes()));
    put(dir.path(), "bytes", Some(&[0xff]));
    put(dir.path(), "folder", None);
    for (name, expect) in [
        ("none", Ok(None)),
        ("text/below", Ok(None)),
        ("text", Ok(Some("é"))),
        ("bytes", Err("bytes")),
        ("folder", Err("folder")),
    ] {
        let read = read_text(&dir.path().join(name));
        assert_eq!(read.as_ref().map(Option::as_deref).map_err(|error| file_of(error).unwrap()), expect);
    }
}

/// What is damaged holds nothing of worth; what cannot be read may.
#[test]
fn timings_that_cannot_be_read_are_an_error_and_damage_with_their_name() {
    for (name, bytes, is_error, fault) in [
        ("timings.json", Some(&b"{"[..]), false, Fault::Changed),
        ("timings.jsonl", Some(b"{\n"), false, Fault::Changed),
        ("timings.jsonl", Some(&[0xff, b'\n']), false, Fault::Changed),
        ("timings.json", None, true, Fault::Changed),
        ("timings.jsonl", None, true, Fault::Unreadable),
    ] {
        let run = run_of(Value::Null, &[]);
        put(run.path(), name, bytes);
        let read = Timings::read_or_new(run.path());
        assert_eq!(read.as_ref().err().and_then(file_of), is_error.then_some(name), "{read:?}");
        assert_eq!(damage_of(run.path(), "timings."), [(name.to_owned(), fault)]);
    }
}

#[test]
fn a_run_that_cannot_be_read_is_not_one_without_a_flip_rate() {
    for (files, expect) in [
        (&[][..], Ok(None)),
        (&[("config.json", "{")], Err(Some("config.json"))),
        // The kind of run is known by its files.
        (&[("config.json", "{"), ("bank/log.jsonl", "")], Ok(None)),
        (&[("config.json", "{"), ("checkpoint.json", "")], Ok(None)),
    ] {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            put(dir.path(), name, Some(text.as_bytes()));
        }
        let rate = flip_rate_at(dir.path());
        assert_eq!(rate.as_ref().map_err(file_of), expect.as_ref().map_err(|file| *file), "{files:?}");
    }
    let run = run_of(Value::Null, &[]);
    assert_eq!(flip_rate_at(run.path()).unwrap(), None);
    put(run.path(), "fresh_eval_baseline/results.json", Some(b"[{"));
    assert_eq!(flip_rate_at(run.path()).as_ref().err().and_then(file_of), Some("results.json"));
}

/// A bank that was imported from a text of this format, which its directory keeps.
fn imported_bank(dir: &Path, format: &str, text: &str) -> Bank {
    let mut bank = Bank::new();
    let event = BankEvent::Imported { format: format.to_owned(), sha256: hex_sha256(text.as_bytes()) };
    bank.record(0, Author::Process, event).unwrap();
    put(dir, LOG_FILE, Some(bank.log_text().as_bytes()));
    put(dir, SOURCE_FILE, Some(text.as_bytes()));
    bank
}

#[test]
fn a_source_of_a_format_that_is_not_known_is_not_an_absent_one() {
    let dir = tempfile::tempdir().unwrap();
    let bank = imported_bank(dir.path(), "newer", "{}");
    let error = read_source(dir.path(), &bank).unwrap_err();
    let PipelineError::Bank { source: BankError::BadLog { line, .. }, path } = &error else {
        panic!("{error:?}")
    };
    assert_eq!((*line, path.as_path()), (2, &*dir.path().join(LOG_FILE)));
}

#[test]
fn a_bank_that_no_file_can_be_written_from_is_damage() {
    for (format, text, file) in [
        ("newer", "{}", "bank/log.jsonl"),
        ("skillrl", "[[", "bank/source.json"),
        ("krill", "[[", "bank/source.json"),
    ] {
        let run = run_of(Value::Null, &[]);
        imported_bank(&run.path().join("bank"), format, text);
        let unreadable: Vec<_> = damage_of(run.path(), "bank/");
        assert!(unreadable.contains(&(file.to_owned(), Fault::Unreadable)), "{format}: {unreadable:?}");
    }
}

/// Names of states and of their files, and what is noted about them.
#[test]
fn a_state_that_cannot_be_read_is_damage_in_the_file_that_names_it() {
    const OBJECT: &str = "weights";
    let object = hex_sha256(OBJECT.as_bytes());
    let of_files = |hash: &str| json!({"files": [{"hash": hash}]}).to_string();
    let place = |manifest: &str| format!("checkpoints/states/{}", hex_sha256(manifest.as_bytes()));
    let checked = |state: &str, manifest: Option<&str>| {
        let run = run_of(Value::Null, &[]);
        put(
            run.path(),
            "checkpoint.json",
            Some(json!({"format_version": "2.0", "step": 1, "state": state}).to_string().as_bytes()),
        );
        put(run.path(), &format!("checkpoints/objects/{object}"), Some(OBJECT.as_bytes()));
        if let Some(manifest) = manifest {
            put(run.path(), &place(manifest), Some(manifest.as_bytes()));
        }
        damage_of(run.path(), "checkpoint")
    };
    let checkpoint = ("checkpoint.json".to_owned(), Fault::Changed);
    assert_eq!(checked("../../weights", None), [checkpoint]);
    for (manifest, expect) in [
        (of_files(&object), None),
        ("{".to_owned(), Some((place("{"), Fault::Changed))),
        ("{}".to_owned(), Some((place("{}"), Fault::Changed))),
        (of_files("../weights"), Some((place(&of_files("../weights")), Fault::Changed))),
        (of_files("00"), Some(("checkpoints/objects/00".to_owned(), Fault::Missing))),
    ] {
        let found = checked(&hex_sha256(manifest.as_bytes()), Some(&manifest));
        assert_eq!(found, Vec::from_iter(expect), "{manifest}");
    }
    let missing = hex_sha256(b"no manifest");
    assert_eq!(checked(&missing, None), [(format!("checkpoints/states/{missing}"), Fault::Missing)]);
}
