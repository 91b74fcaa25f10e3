//! The journal as people use it: lists, filters, export, pruning.

use crate::support::{Bench, Counting, ask, at, journaled, request};
use serde_json::Value;
use skill_llm::ChatModel as _;
use skill_llm::journal::{CallFilter, Pruned, ResultKey, StoredResult, prune};
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
    assert_eq!(ids(place("step 3")), [1, 2, 3, 4]);
    assert_eq!(ids(place("step 3 / rollout / q1")), [1, 2]);
    assert_eq!(ids(place("step")), [] as [i64; 0]);
    assert_eq!(ids(place("step 3 ' OR 1 --")), [] as [i64; 0]);
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
async fn pruned_calls_are_made_again_and_others_are_not() {
    let (bench, model) = filled().await;
    let pruned = prune(&bench.path(), &place("step 3")).unwrap();
    assert_eq!(pruned, Pruned { calls: 4, results: 1, messages: 0 });
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
    let (bench, _) = filled().await;
    let pruned = prune(&bench.path(), &outcome("failed")).unwrap();
    assert_eq!(pruned, Pruned { calls: 3, results: 0, messages: 1 });
    let totals = bench.reader().totals().unwrap();
    assert_eq!((totals.replies, totals.failed, totals.results, totals.requests), (3, 0, 2, 3));
}
