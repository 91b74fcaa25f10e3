//! The file: damaged, full, foreign, old, new.

use crate::embedding::{Embedder, journaled as embedder, vector};
use crate::support::{Bench, Counting, ask, at, journaled, request};
use skill_llm::journal::{CallFilter, Closed, compare_with_sum, prune, sum_path};
use skill_llm::{
    ChatModel, EmbeddingModel as _, EmbeddingRequest, ErrorClass, Journal, JournalError, JournalOptions,
    JournalReader, NotInRecording, Recording,
};
use std::path::Path;
use std::sync::Arc;

#[track_caller]
fn check_refused(prepare: impl FnOnce(&Path), expect: fn(&JournalError) -> bool) -> String {
    let bench = Bench::new();
    prepare(&bench.path());
    let before = std::fs::read(bench.path()).ok();
    let errors = [
        Journal::open(&bench.path(), JournalOptions::default()).err().unwrap(),
        JournalReader::open(&bench.path()).err().unwrap(),
    ];
    for error in &errors {
        assert!(expect(error), "{error:?}");
        assert!(error.to_string().contains(&bench.path().display().to_string()), "{error}");
        assert!(!error.hint().is_empty());
    }
    assert_eq!(std::fs::read(bench.path()).ok(), before);
    errors[0].to_string()
}

fn with_pragma(path: &Path, name: &str, value: i64) {
    drop(Journal::open(path, JournalOptions::default()).unwrap());
    rusqlite::Connection::open(path).unwrap().pragma_update(None, name, value).unwrap();
}

#[test]
fn what_is_no_journal_is_refused_and_left_alone() {
    let is_foreign = |error: &JournalError| matches!(error, JournalError::NotAJournal { .. });
    check_refused(|path| std::fs::write(path, "Dear diary, ".repeat(1000)).unwrap(), is_foreign);
    check_refused(
        |path| {
            let database = rusqlite::Connection::open(path).unwrap();
            database.execute_batch("CREATE TABLE calls (id INTEGER)").unwrap();
        },
        is_foreign,
    );
    check_refused(|path| with_pragma(path, "application_id", 7), is_foreign);
    for version in [-1, 0, 4, 99] {
        let error = check_refused(
            |path| with_pragma(path, "user_version", version),
            |error| matches!(error, JournalError::OtherSchema { .. }),
        );
        assert!(error.contains(&format!("version {version},")) && error.contains("version 5"), "{error}");
    }
}

#[tokio::test]
async fn every_changed_byte_of_a_closed_journal_is_seen() {
    let bench = Bench::new();
    let state = || compare_with_sum(&bench.path()).unwrap();
    let journal = bench.open();
    assert_eq!(state(), Closed::Open);
    let model = journaled(&Arc::new(Counting::new()), &journal);
    ask(&model, "one", &at("here")).await;
    drop((model, journal));
    assert_eq!(state(), Closed::Same);
    // A reader changes nothing.
    assert!(JournalReader::open(&bench.path()).unwrap().faults().unwrap().is_empty());
    assert_eq!(state(), Closed::Same);
    let (bytes, sum) =
        (std::fs::read(bench.path()).unwrap(), std::fs::read(sum_path(&bench.path())).unwrap());
    for at in (0..bytes.len()).step_by(997) {
        let mut changed = bytes.clone();
        changed[at] ^= 1;
        std::fs::write(bench.path(), changed).unwrap();
        assert_eq!(state(), Closed::Changed, "byte {at}");
    }
    std::fs::write(bench.path(), [&bytes[..], b"x"].concat()).unwrap();
    assert_eq!(state(), Closed::Changed);
    std::fs::write(bench.path(), &bytes).unwrap();
    for at in 0..sum.len() {
        let mut changed = sum.clone();
        changed[at] ^= 1;
        std::fs::write(sum_path(&bench.path()), changed).unwrap();
        assert_eq!(state(), Closed::Damaged, "byte {at} of the hash");
    }
    std::fs::remove_file(sum_path(&bench.path())).unwrap();
    assert_eq!(state(), Closed::Missing);
    // Who writes it next notes it again.
    prune(&bench.path(), &CallFilter { place: Some("there".to_owned()), ..CallFilter::default() }).unwrap();
    assert_eq!(state(), Closed::Same);
}

#[test]
fn a_journal_that_is_not_there_is_not_made_by_reading() {
    let bench = Bench::new();
    assert!(matches!(JournalReader::open(&bench.path()), Err(JournalError::Missing { .. })));
    assert!(!bench.path().exists());
}

/// A process that died before its first commit leaves this.
#[test]
fn an_empty_file_becomes_a_journal() {
    let bench = Bench::new();
    std::fs::write(bench.path(), "").unwrap();
    drop(bench.open());
    assert!(bench.rows().is_empty());
}

/// A server counts what it likes.
#[tokio::test]
async fn sums_that_no_number_holds_stop_at_the_greatest_one() {
    let (bench, model) = (Bench::new(), Arc::new(Counting::new()));
    for question in ["a", "b"] {
        ask(&journaled(&model, &bench.open()), question, &at("step 1")).await;
    }
    let most = i64::MAX;
    let database = rusqlite::Connection::open(bench.path()).unwrap();
    database.execute("UPDATE attempts SET input_tokens = ?1, waited_us = ?1", [most]).unwrap();
    database.execute("UPDATE processes SET elapsed_ms = ?1", [most]).unwrap();
    drop(database);

    let journal = bench.open();
    assert_eq!(journal.spent_before()[0].usage.input, most.unsigned_abs());
    assert_eq!(journal.elapsed_before().as_millis(), u128::from(most.unsigned_abs()));
    let reader = JournalReader::open(&bench.path()).unwrap();
    assert_eq!(reader.totals().unwrap().usage.input, most.unsigned_abs());
    assert_eq!(reader.calls(&CallFilter::default()).unwrap()[0].waited_ms, most / 1000);
    let stage = &reader.by_stage().unwrap()[0];
    assert_eq!((stage.usage.input, stage.waited_ms), (most.unsigned_abs(), most / 1000));
}

#[tokio::test]
async fn a_closed_journal_is_one_file_and_its_hash() {
    let (bench, model) = (Bench::new(), Arc::new(Counting::new()));
    ask(&journaled(&model, &bench.open()), "a", &at("step 1")).await;
    drop(bench.open());
    let mut names: Vec<_> =
        std::fs::read_dir(bench.dir()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["journal.sqlite", "journal.sqlite-sum"]);
}

/// A journal that an earlier build of this version wrote.
fn open_golden() -> Bench {
    let bench = Bench::new();
    let dump = include_str!("../data/journal/v5.sql");
    rusqlite::Connection::open(bench.path()).unwrap().execute_batch(dump).unwrap();
    bench
}

#[tokio::test]
async fn a_recorded_journal_loads() {
    let bench = open_golden();
    let rows = bench.rows();
    assert_eq!(rows[0].place, "step 1");
    let model = Arc::new(Counting::new());
    for _ in 0..2 {
        let journal = bench.open();
        assert_eq!(ask(&journaled(&model, &journal), "a", &at("step 1")).await, "an old reply");
        assert_eq!(model.n_requests(), 0);
        // With two of pruned calls, and one that was in flight when its process was killed.
        let spent = &journal.spent_before()[0];
        assert_eq!((spent.usage.input, spent.requests), (12, 4));
    }
    assert_eq!(bench.rows(), rows);
}

#[tokio::test]
async fn a_recorded_journal_goes_on() {
    let (bench, model) = (open_golden(), Arc::new(Counting::new()));
    for _ in 0..2 {
        let journaled = journaled(&model, &bench.open());
        for question in ["a", "b", "c"] {
            ask(&journaled, question, &at("step 1")).await;
        }
        assert_eq!(model.n_requests(), 2);
    }
    let mut rows = bench.rows();
    rows.retain(|row| row.kind == "chat");
    assert_eq!(rows.len(), 3);
    for row in rows {
        let call = bench.reader().call(row.id).unwrap().unwrap();
        assert_eq!(call["messages"][0]["text"], "be brief");
    }
}

#[tokio::test]
async fn recorded_embeddings_are_answered() {
    let texts = ["heat an egg", "cool a cup"];
    let (bench, model) = (open_golden(), Arc::new(Embedder::new()));
    let recording = Recording { journal: Arc::new(bench.reader()), otherwise: NotInRecording::Fail };
    let from_recording = embedder(&model, &Bench::new().open()).with_recording(recording);
    from_recording.embed(&EmbeddingRequest::new(texts), &at("step 9")).await.unwrap();
    for place in ["step 1", "step 2"] {
        let kept = embedder(&model, &bench.open());
        let reply = kept.embed(&EmbeddingRequest::new(texts), &at(place)).await.unwrap();
        assert_eq!(reply.vectors, texts.map(|text| vector(text, 2)));
        assert_eq!((reply.usage.input, model.n_requests()), (21, 0));
    }
    assert_eq!(bench.reader().totals().unwrap().embeddings, 2);
}

#[tokio::test]
async fn a_recording_answers_and_nothing_else_does() {
    let (old, new, model) = (open_golden(), Bench::new(), Arc::new(Counting::new()));
    let recording = Recording { journal: Arc::new(old.reader()), otherwise: NotInRecording::Fail };
    let journaled = journaled(&model, &new.open()).with_recording(recording);
    assert_eq!(ask(&journaled, "a", &at("step 1")).await, "an old reply");
    assert!(journaled.chat(&request("b"), &at("step 1")).await.is_err());
    assert_eq!(model.n_requests(), 0);
}

#[tokio::test]
async fn a_reply_of_other_weights_answers_for_none() {
    let bench = Bench::new();
    for (revision, n_requests) in [("", 1), ("step-1", 1), ("step-2", 1), ("step-1", 0), ("", 0)] {
        let model = Arc::new(Counting::new().with_revision(revision));
        let journal = bench.open();
        ask(&journaled(&model, &journal), "a", &at("step 1")).await;
        assert_eq!(model.n_requests(), n_requests, "{revision:?}");
    }
    let reader = bench.reader();
    let revisions: Vec<_> = bench
        .rows()
        .iter()
        .map(|row| reader.call(row.id).unwrap().unwrap()["model"]["revision"].as_str().map(str::to_owned))
        .collect();
    assert_eq!(revisions, [None, Some("step-1".to_owned()), Some("step-2".to_owned())]);
}

#[test]
fn keys_of_an_unknown_hash_are_refused() {
    let bench = Bench::new();
    drop(bench.open());
    rusqlite::Connection::open(bench.path()).unwrap().execute("UPDATE keys SET hash = 'crc32'", []).unwrap();
    let opened = Journal::open(&bench.path(), JournalOptions::default()).err();
    for error in [opened, JournalReader::open(&bench.path()).err()] {
        let error = error.unwrap();
        assert!(
            matches!(&error, JournalError::Corrupt { message, .. } if message.contains("`crc32`")),
            "{error:?}"
        );
    }
}

/// What is answered faster than it is written waits in memory, but not without end.
#[tokio::test]
async fn what_waits_to_be_committed_is_bounded() {
    let (bench, model) = (Bench::new(), Arc::new(Counting::new()));
    let an_hour = std::time::Duration::from_secs(3600);
    let options = JournalOptions { group_window: an_hour, ..JournalOptions::default() };
    let journal = Journal::open(&bench.path(), options).unwrap();
    let journaled = journaled(&model, &journal);
    let long = "x".repeat(1024 * 1024);
    for number in 0..3 {
        ask(&journaled, &format!("{number} {long}"), &at("step 1")).await;
    }
    // Two mebibytes may wait. Two calls pass them by a few bytes, and were written before the third was sent.
    assert_eq!(bench.rows().len(), 2);
}

#[tokio::test]
async fn a_full_disk_stops_calls_before_they_are_sent_and_loses_nothing() {
    let (bench, model) = (Bench::new(), Arc::new(Counting::new()));
    let long = "x".repeat(20_000);
    let text = |number: usize| format!("{number} {long}");
    let mut n_recorded = 0;
    {
        let options = JournalOptions { max_bytes: 400_000, ..JournalOptions::default() };
        let journal = Journal::open(&bench.path(), options).unwrap();
        let journaled = journaled(&model, &journal);
        let error = loop {
            match journaled.chat(&request(&text(n_recorded)), &at("step 1")).await {
                Ok(_) => n_recorded += 1,
                Err(error) => break error,
            }
            if let Err(error) = journal.flush().await {
                assert!(matches!(error, JournalError::Sqlite { is_full: true, .. }), "{error}");
            }
        };
        assert_eq!(error.class(), ErrorClass::Journal);
        // The reply that did not fit is lost; nothing was sent after it.
        assert_eq!(model.n_requests(), n_recorded);
    }
    assert!(n_recorded > 5, "{n_recorded}");
    let journaled = journaled(&model, &bench.open());
    for number in 0..n_recorded + 3 {
        ask(&journaled, &text(number), &at("step 1")).await;
    }
    assert_eq!(model.n_requests(), n_recorded + 1 + 3);
}

/// What a kill or a loss of power may leave: any part of the write-ahead log.
#[tokio::test]
async fn a_torn_log_loses_its_end_and_no_more() {
    let (bench, model) = (Bench::new(), Arc::new(Counting::new()));
    let options = JournalOptions { max_group: 1, ..JournalOptions::default() };
    let journal = Journal::open(&bench.path(), options).unwrap();
    let journaled_model = journaled(&model, &journal);
    for number in 0..20 {
        ask(&journaled_model, &number.to_string(), &at("step 1")).await;
        journal.flush().await.unwrap();
    }
    let database = std::fs::read(bench.path()).unwrap();
    let log = std::fs::read(bench.dir().join("journal.sqlite-wal")).unwrap();
    let mut kept_before = 0;
    for cut in (0..log.len()).step_by(4093).chain([log.len() - 1, log.len()]) {
        let torn = Bench::new();
        std::fs::write(torn.path(), &database).unwrap();
        std::fs::write(torn.dir().join("journal.sqlite-wal"), &log[..cut]).unwrap();
        let again = Arc::new(Counting::new());
        let journal = torn.open();
        let resumed = journaled(&again, &journal);
        let mut kept = 0;
        for number in 0..20 {
            let reply = ask(&resumed, &number.to_string(), &at("step 1")).await;
            if again.n_requests() == 0 {
                assert_eq!(reply, format!("reply {} to {number}", number + 1));
                kept += 1;
            }
        }
        assert_eq!(again.n_requests(), 20 - kept, "what is kept is a beginning");
        assert!(kept >= kept_before);
        kept_before = kept;
    }
    assert_eq!(kept_before, 20);
}
