//! The journal as people use it: lists, filters, export, pruning.

use crate::support::{Bench, Counting, ask, at, journaled, request};
use serde_json::Value;
use skill_llm::ChatModel as _;
use skill_llm::journal::{
    CallFilter, JournalReader, Pruned, ResultKey, StageCalls, StoredResult, prune, requests_written,
};
use skill_llm::{Journal, JournalOptions};
use std::sync::Arc;

/// Six calls and two results over three places.
async fn filled() -> (Bench, Arc<Counting>) {
    let (bench, model) = (Bench::new(), Arc::new(Counting::new()));
    let journal = bench.open();
    let journaled = journaled(&model, &journal);
    for place in ["step 3 / rollout / q1", "step 3 / reflect / failure 1", "step 30 / rollout / q1"] {
        ask(&journaled, "a", &at(place)).await;
        journaled.chat(&request("fail"), &at(place)).await.unwrap_err();
    }
    for place in ["step 3 / rollout / q1", "step 30 / rollout / q1"] {
        let stored = StoredResult { place: place.to_owned(), content: "{\"hard\":1}".to_owned() };
        journal.record_result(ResultKey::new("rollout", &[place]), "rollout", "q1", stored);
    }
    (bench, model)
}

fn place(place: &str) -> CallFilter {
    CallFilter { place: Some(place.to_owned()), ..CallFilter::default() }
}

fn outcome(outcome: &str) -> CallFilter {
    CallFilter { outcome: Some(outcome.to_owned()), ..CallFilter::default() }
}

#[tokio::test]
async fn calls_are_filtered() {
    let (bench, _) = filled().await;
    let reader = bench.reader();
    let ids = |filter: CallFilter| -> Vec<i64> {
        reader.calls(&filter).unwrap().into_iter().map(|call| call.id).collect()
    };
    assert_eq!(ids(CallFilter::default()), [1, 2, 3, 4, 5, 6]);
    for (asked, expect) in [
        ("step 3", &[1, 2, 3, 4][..]),
        ("step 3 / rollout / q1", &[1, 2]),
        ("rollout", &[1, 2, 5, 6]),
        ("rollout / q1", &[1, 2, 5, 6]),
        ("step", &[]),
        ("step 3 ' OR 1 --", &[]),
    ] {
        assert_eq!(ids(place(asked)), expect, "{asked}");
    }
    assert_eq!(ids(outcome("failed")), [2, 4, 6]);
    assert_eq!(ids(outcome("server_error")), [2, 4, 6]);
    assert_eq!(ids(outcome("reply")), [1, 3, 5]);
    assert_eq!(ids(CallFilter { last: Some(2), ..CallFilter::default() }), [5, 6]);
    assert_eq!(ids(CallFilter { model: Some("m".to_owned()), ..place("step 30") }), [5, 6]);
    assert_eq!(ids(CallFilter { model: Some("other".to_owned()), ..CallFilter::default() }), [] as [i64; 0]);
}

#[tokio::test]
async fn an_export_holds_everything() {
    let (bench, _) = filled().await;
    let mut out = Vec::new();
    let n_lines = bench.reader().export(&CallFilter::default(), &mut out).unwrap().unwrap();
    let lines: Vec<Value> =
        String::from_utf8(out).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((n_lines, lines.len()), (8, 8));
    insta::assert_json_snapshot!([&lines[0], &lines[1], &lines[7]], {
        "[].finished_at" => "TIME", "[].attempts[].started_at" => "TIME", "[].attempts[].took_us" => "TIME",
    });
    let mut out = Vec::new();
    let n_lines = bench.reader().export(&place("step 30"), &mut out).unwrap().unwrap();
    assert_eq!(n_lines, 2, "with a filter calls alone");
}

#[tokio::test]
async fn the_calls_are_counted_by_stage_and_model() {
    let (bench, _) = filled().await;
    let rows = bench.reader().by_stage().unwrap();
    let shown: Vec<_> = rows
        .iter()
        .map(|row| (row.stage.as_str(), row.replies, row.copied, row.failed, row.requests))
        .collect();
    assert_eq!(shown, [("rollout", 2, 0, 2, 4), ("reflect", 1, 0, 1, 2)]);
    let totals = bench.reader().totals().unwrap();
    let mut sum = StageCalls::default();
    rows.iter().for_each(|row| sum.add(row));
    assert_eq!((sum.replies, sum.failed, sum.requests), (totals.replies, totals.failed, totals.requests));
    assert_eq!(sum.usage, totals.usage);
}

#[tokio::test]
async fn a_stage_outside_of_steps_is_the_first_part_of_its_place() {
    let (bench, model) = (Bench::new(), Arc::new(Counting::new()));
    let journal = bench.open();
    let journaled = journaled(&model, &journal);
    for place in
        ["baseline / q1", "baseline / q / 2", "test_best", "step 1", "step 1 / select / ranking", "steps / x"]
    {
        ask(&journaled, "a", &at(place)).await;
    }
    journal.flush().await.unwrap();
    let rows = bench.reader().by_stage().unwrap();
    let stages: Vec<_> = rows.iter().map(|row| (row.stage.as_str(), row.replies)).collect();
    assert_eq!(stages, [("baseline", 2), ("test_best", 1), ("step 1", 1), ("select", 1), ("steps", 1)]);
}

#[tokio::test]
async fn what_a_filter_means_is_counted_without_its_limit() {
    let (bench, _) = filled().await;
    let reader = bench.reader();
    assert_eq!(reader.count(&CallFilter { last: Some(2), ..CallFilter::default() }).unwrap(), 6);
    assert_eq!(reader.count(&CallFilter { last: Some(1), ..place("step 3") }).unwrap(), 4);
    assert_eq!(reader.count(&outcome("timeout")).unwrap(), 0);
}

#[tokio::test]
async fn what_would_be_pruned_is_what_is_pruned() {
    let model = |model: &str| CallFilter { model: Some(model.to_owned()), ..CallFilter::default() };
    for filter in [
        CallFilter::default(),
        place("step 3"),
        place("step 30 / rollout"),
        place("nowhere"),
        outcome("failed"),
        outcome("server_error"),
        outcome("timeout"),
        outcome("reply"),
        model("m"),
        model("other"),
        CallFilter { outcome: Some("reply".to_owned()), ..place("step 3") },
    ] {
        let (bench, _) = filled().await;
        let expect = bench.reader().prunable(&filter).unwrap();
        assert_eq!(prune(&bench.path(), &filter).unwrap(), expect, "{filter:?}");
    }
}

/// Caps are on the whole run, and what was paid is not unpaid by forgetting the reply.
#[tokio::test]
async fn what_pruned_calls_had_cost_stays_counted() {
    let (bench, _) = filled().await;
    let before = bench.reader().spent().unwrap();
    assert!(before[0].requests >= 6 && before[0].usage.input > 0, "{before:?}");
    for filter in [outcome("server_error"), place("step 3"), CallFilter::default()] {
        prune(&bench.path(), &filter).unwrap();
        assert_eq!(bench.reader().spent().unwrap(), before, "{filter:?}");
        assert_eq!(bench.reader().spent_since(0).unwrap().spent, before, "{filter:?}");
        assert_eq!(bench.open().spent_before(), before, "{filter:?}");
    }
    let totals = bench.reader().totals().unwrap();
    assert_eq!((totals.requests, totals.usage), (0, skill_llm::Usage::default()));
    assert_eq!((totals.pruned_requests, totals.pruned_usage), (before[0].requests, before[0].usage));
}

#[tokio::test]
async fn a_journal_was_written_from_the_first_entry_on_or_from_the_moment_that_it_begins() {
    let (bench, model) = (Bench::new(), Arc::new(Counting::new()));
    let written = || requests_written(&bench.path()).unwrap();
    assert!(written().is_none() && !bench.path().exists(), "it is not made");
    std::fs::write(bench.path(), "").unwrap();
    assert_eq!(written(), None);
    drop(bench.open());
    assert_eq!(written(), None);
    let journal = bench.open();
    ask(&journaled(&model, &journal), "a", &at("step 1")).await;
    journal.flush().await.unwrap();
    assert_eq!((written(), journal.requests_committed()), (Some(1), 1));
    drop(journal);
    prune(&bench.path(), &CallFilter::default()).unwrap();
    assert_eq!(written(), Some(1), "what was pruned was there");
    let journal = bench.open();
    ask(&journaled(&model, &journal), "a", &at("step 1")).await;
    ask(&journaled(&model, &journal), "a", &at("step 1")).await;
    journal.flush().await.unwrap();
    assert_eq!((written(), journal.requests_committed()), (Some(2), 2), "what is answered sends nothing");

    let bench = Bench::new();
    let options = JournalOptions { begins_at_once: true, ..JournalOptions::default() };
    drop(Journal::open(&bench.path(), options).unwrap());
    assert_eq!(requests_written(&bench.path()).unwrap(), Some(0));
}

#[tokio::test]
async fn a_look_at_a_journal_at_rest_leaves_nothing_beside_it() {
    let (bench, _) = filled().await;
    let beside = || std::fs::read_dir(bench.path().parent().unwrap()).unwrap().count();
    let before = (beside(), bench.reader().spent().unwrap());
    for odd in ["50 %.sqlite", "what?.sqlite", "no#1.sqlite"] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(odd);
        std::fs::copy(bench.path(), &path).unwrap();
        assert_eq!(JournalReader::open_at_rest(&path).unwrap().spent().unwrap(), before.1, "{odd}");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "{odd}");
    }
    // Somebody works with it: what is in the log counts.
    let (journal, model) = (bench.open(), Arc::new(Counting::new()));
    ask(&journaled(&model, &journal), "new", &at("step 9")).await;
    journal.flush().await.unwrap();
    let seen = JournalReader::open_at_rest(&bench.path()).unwrap().spent().unwrap();
    assert_eq!(seen[0].requests, before.1[0].requests + 1);
}

/// SQLite takes away the log of an empty database, and that may be all that is left of one that was cut.
#[test]
fn looking_at_an_empty_journal_takes_its_log_away_from_nobody() {
    let bench = Bench::new();
    let log = bench.path().with_extension("sqlite-wal");
    std::fs::write(bench.path(), "").unwrap();
    std::fs::write(&log, "paid for").unwrap();
    assert!(JournalReader::open(&bench.path()).is_err());
    assert_eq!(requests_written(&bench.path()).unwrap(), None);
    assert_eq!(std::fs::read(&log).unwrap(), b"paid for");
}

#[tokio::test]
async fn pruned_calls_are_made_again_and_others_are_not() {
    let (bench, model) = filled().await;
    let pruned = prune(&bench.path(), &place("step 3")).unwrap();
    assert_eq!(pruned, Pruned { calls: 4, results: 1, messages: 0, embeddings: 0 });
    let journal = bench.open();
    let journaled = journaled(&model, &journal);
    let before = model.n_requests();
    ask(&journaled, "a", &at("step 30 / rollout / q1")).await;
    assert_eq!(model.n_requests(), before);
    ask(&journaled, "a", &at("step 3 / rollout / q1")).await;
    assert_eq!(model.n_requests(), before + 1);
}

#[tokio::test]
async fn pruning_failures_keeps_every_reply_and_result() {
    for outcome_name in ["failed", "server_error"] {
        let (bench, _) = filled().await;
        let pruned = prune(&bench.path(), &outcome(outcome_name)).unwrap();
        assert_eq!(pruned, Pruned { calls: 3, results: 0, messages: 1, embeddings: 0 });
        let totals = bench.reader().totals().unwrap();
        assert_eq!((totals.replies, totals.failed, totals.results, totals.requests), (3, 0, 2, 3));
    }
}
