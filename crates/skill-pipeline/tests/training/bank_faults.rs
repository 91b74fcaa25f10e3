//! Runs that train a bank and are stopped, killed or changed by a person between two processes.

use crate::banks::{Run, opens};
use crate::run_files::files;
use crate::world::{Counted, Job, changed, counted};
use serde_json::Value;
use skill_llm::scripted::ScriptedModel;
use skill_llm::{JournalOptions, JournalReader};
use skill_pipeline::{Event, PipelineError};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A journal that commits nothing before somebody waits for it.
fn lazy_journal() -> JournalOptions {
    JournalOptions {
        group_window: Duration::from_secs(3600),
        max_group: usize::MAX,
        ..JournalOptions::default()
    }
}

/// A kill at a moment when the log has an event leaves a journal with everything that led to it.
#[test]
fn an_event_of_the_bank_comes_after_the_replies_that_it_follows_from() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_owned();
    let n_answered = Arc::new(AtomicUsize::new(0));
    let n_seen = Arc::clone(&n_answered);
    let target = ScriptedModel::answering("target", move |request| {
        n_seen.fetch_add(1, Ordering::Relaxed);
        opens(request)
    });
    let found: Arc<Mutex<Vec<(u64, u64)>>> = Arc::default();
    let seen = Arc::clone(&found);
    let run = Run {
        target: counted(target, usize::MAX, Value::Null),
        base: Box::new(move |base| {
            let (path, seen, n_answered) = (path.clone(), Arc::clone(&seen), Arc::clone(&n_answered));
            let sink = move |event: &Event| {
                if matches!(event, Event::TrialStarted { .. }) {
                    let journal = JournalReader::open(&path.join("journal.sqlite")).unwrap();
                    let kept = journal.totals().unwrap().replies;
                    let n_target = n_answered.load(Ordering::Relaxed) as u64;
                    seen.lock().unwrap().push((kept, n_target));
                }
            };
            base.with_journal_options(lazy_journal()).with_events(Arc::new(sink))
        }),
        ..Run::default()
    };
    run.run(dir.path()).unwrap();
    let found = found.lock().unwrap();
    assert!(found.len() > 2);
    for (kept, n_target) in found.iter() {
        // The calls of the teacher are kept too.
        assert!(kept > n_target, "{kept} of more than {n_target}");
    }
}

/// A target that answers so many calls.
fn breaking_target(n_replies: usize) -> Arc<Counted> {
    counted(ScriptedModel::answering("target", opens), n_replies, Value::Null)
}

/// A run that an outage ended after its first replies, before any round was finished.
fn begun(dir: &Path) {
    let run = Run { target: breaking_target(3), ..Run::default() };
    run.run(dir).unwrap_err();
    assert!(dir.join("bank/log.jsonl").exists() && !dir.join("rounds").exists());
}

#[test]
fn other_settings_are_refused_before_the_first_round_is_finished() {
    let dir = tempfile::tempdir().unwrap();
    begun(dir.path());
    let before = files(dir.path());
    let error = Run { seed: 43, ..Run::default() }.run(dir.path()).unwrap_err();
    assert!(matches!(error, PipelineError::Mismatch { .. }), "{error}");
    assert_eq!(files(dir.path()), before);
    Run::default().run(dir.path()).unwrap();
}

#[test]
fn a_bank_is_not_trained_where_a_document_is_nor_the_other_way_around() {
    let dir = tempfile::tempdir().unwrap();
    begun(dir.path());
    let before = files(dir.path());
    let PipelineError::Mismatch { changes, .. } = Job::default().run(dir.path()).unwrap_err() else {
        panic!()
    };
    assert_eq!(changes, [changed("train.mode", "bank", "document")]);
    // By the names of the files alone, where a run does not say what it trains.
    let config = dir.path().join("config.json");
    let text = std::fs::read_to_string(&config).unwrap();
    let mut value: Value = serde_json::from_str(&text).unwrap();
    value["identity"].as_object_mut().unwrap().remove("train.mode").unwrap();
    std::fs::write(&config, value.to_string()).unwrap();
    let error = Job::default().run(dir.path()).unwrap_err();
    assert!(matches!(error, PipelineError::Mismatch { .. }), "{error}");
    std::fs::write(&config, text).unwrap();
    assert_eq!(files(dir.path()), before);

    let dir = tempfile::tempdir().unwrap();
    Job { stop_after: 1, ..Job::default() }.run(dir.path()).unwrap_err();
    let before = files(dir.path());
    let PipelineError::Mismatch { changes, .. } = Run::default().run(dir.path()).unwrap_err() else {
        panic!()
    };
    assert_eq!(changes, [changed("train.mode", "document", "bank")]);
    assert_eq!(files(dir.path()), before);
}
