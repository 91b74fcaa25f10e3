//! The journal: every reply once, whatever happens in between.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod embedding;
mod files;
mod people;
mod sent;
mod support;

use serde_json::json;
use skill_llm::journal::{CommitPoint, ResultKey, StoredResult};
use skill_llm::{
    CallCtx, ChatModel, ChatReply, ChatRequest, ContentPart, ErrorClass, FinishReason, ImageSource, Journal,
    JournalOptions, Journaled, LlmError, Message, Metered, NotInRecording, PaceConfig, Paced, Pacer,
    Recording, ReplyTokens, Retried, RetryPolicy, Role, ScriptedModel, TokenLogprob, ToolCall,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use support::{Bench, Counting, USAGE, ask, at, journaled, request};
use tokio_util::sync::CancellationToken;

#[tokio::test]
async fn a_recorded_reply_is_never_asked_for_again() {
    let (bench, model) = (Bench::new(), Arc::new(Counting::new()));
    assert_eq!(ask(&journaled(&model, &bench.open()), "a", &at("step 1")).await, "reply 1 to a");
    let call = at("step 1");
    let metered = Metered::new(Arc::new(journaled(&model, &bench.open())));
    assert_eq!(ask(&metered, "a", &call).await, "reply 1 to a");
    assert_eq!(model.n_requests(), 1);
    // What a resumed run adds up is what the undisturbed one did.
    assert_eq!((call.scope.used().calls, call.scope.used().usage), (1, USAGE));
}

#[tokio::test]
async fn a_reply_is_known_before_it_is_committed() {
    let (bench, model) = (Bench::new(), Arc::new(Counting::new()));
    let journal = bench.open();
    let journaled = journaled(&model, &journal);
    for _ in 0..3 {
        assert_eq!(ask(&journaled, "a", &at("step 1")).await, "reply 1 to a");
    }
    journal.flush().await.unwrap();
    assert_eq!(ask(&journaled, "a", &at("step 1")).await, "reply 1 to a");
    assert_eq!(model.n_requests(), 1);
}

#[tokio::test]
async fn concurrent_flushes_do_not_wait_for_the_group_window() {
    let (bench, model) = (Bench::new(), Arc::new(Counting::new()));
    let (reached, mut is_reached) = tokio::sync::mpsc::unbounded_channel();
    let (release, released) = std::sync::mpsc::channel();
    let released = parking_lot::Mutex::new(released);
    let journal = Journal::open(
        &bench.path(),
        JournalOptions {
            group_window: std::time::Duration::from_secs(3_600),
            on_commit: Some(Arc::new(move |point, n| {
                if (point, n) == (CommitPoint::Before, 1) {
                    reached.send(()).unwrap();
                    released.lock().recv().unwrap();
                }
            })),
            ..JournalOptions::default()
        },
    )
    .unwrap();
    let journaled = journaled(&model, &journal);
    ask(&journaled, "first", &at("step 1")).await;
    let flush = || Box::pin(journal.flush());
    let (mut first, mut second, mut third) = (flush(), flush(), flush());
    tokio::select! { biased; _ = &mut first => panic!("it is not committed"), _ = is_reached.recv() => {} }
    // While the first group is written, two more replies arrive, each followed by a flush.
    for (text, waiting) in [("second", &mut second), ("third", &mut third)] {
        ask(&journaled, text, &at("step 1")).await;
        assert!(futures_util::poll!(waiting).is_pending());
    }
    release.send(()).unwrap();
    let all = async { tokio::try_join!(first, second, third) };
    tokio::time::timeout(std::time::Duration::from_secs(60), all).await.expect("nobody waits").unwrap();
}

#[tokio::test]
async fn a_unit_of_work_that_asks_again_gets_another_reply_and_the_same_ones_after_a_restart() {
    let (bench, model) = (Bench::new(), Arc::new(Counting::new()));
    for _ in 0..2 {
        let (journaled, unit) = (journaled(&model, &bench.open()), at("step 1 / rollout / q7"));
        let mut replies = Vec::new();
        for _ in 0..3 {
            replies.push(ask(&journaled, "a", &unit).await);
        }
        assert_eq!(replies, ["reply 1 to a", "reply 2 to a", "reply 3 to a"]);
    }
    assert_eq!(model.n_requests(), 3);
}

#[tokio::test]
async fn repeats_of_an_item_have_an_index_of_their_own_and_never_share() {
    let bench = Bench::new();
    let (model, gate) = Counting::new().gated();
    gate.add_permits(3);
    let journaled = journaled(&model, &bench.open());
    let repeats = [1, 2, 3].map(|repeat| at("step 1 / rollout / q7").child(format_args!("repeat {repeat}")));
    let [one, two, three] = &repeats;
    let mut replies =
        tokio::join!(ask(&journaled, "a", one), ask(&journaled, "a", two), ask(&journaled, "a", three));
    assert_eq!(model.n_requests(), 3);
    let again = repeats.clone().map(|repeat| CallCtx::new(repeat.place));
    let [one, two, three] = &again;
    let kept =
        (ask(&journaled, "a", one).await, ask(&journaled, "a", two).await, ask(&journaled, "a", three).await);
    assert_eq!(std::mem::take(&mut replies), kept);
    assert_eq!(model.n_requests(), 3);
}

#[tokio::test]
async fn everything_that_produces_a_reply_tells_calls_apart() {
    let (bench, model) = (Bench::new(), Arc::new(Counting::new()));
    let journal = bench.open();
    let base = journaled(&model, &journal);
    ask(&base, "a", &at("step 1")).await;
    ask(&base, "b", &at("step 1")).await;
    ask(&base, "a", &at("step 2")).await;
    let other = Arc::new(Counting::new().with_parameters(json!({"temperature": 1.0})));
    ask(&journaled(&other, &journal), "a", &at("step 1")).await;
    let mut cold = request("a");
    cold.sampling.temperature = Some(0.0);
    base.chat(&cold, &at("step 1")).await.unwrap();
    let mut split = request("a");
    split.messages = vec![Message::system("be brief\n\na"), Message::user("")];
    base.chat(&split, &at("step 1")).await.unwrap();
    assert_eq!((model.n_requests(), other.n_requests()), (5, 1));
}

#[tokio::test]
async fn equal_calls_at_once_share_one_request() {
    let bench = Bench::new();
    let (model, gate) = Counting::new().gated();
    let journaled = Arc::new(journaled(&model, &bench.open()));
    let calls: Vec<_> = (0..50)
        .map(|_| {
            let journaled = Arc::clone(&journaled);
            tokio::spawn(async move { ask(journaled.as_ref(), "a", &at("step 1")).await })
        })
        .collect();
    while model.n_requests() == 0 {
        tokio::task::yield_now().await;
    }
    gate.add_permits(50);
    for call in calls {
        assert_eq!(call.await.unwrap(), "reply 1 to a");
    }
    assert_eq!(model.n_requests(), 1);
}

#[tokio::test]
async fn who_waits_for_a_call_that_is_given_up_makes_it() {
    for leader_is_dropped in [true, false] {
        let bench = Bench::new();
        let (model, gate) = Counting::new().gated();
        let journaled = Arc::new(journaled(&model, &bench.open()));
        let cancel = CancellationToken::new();
        let leader = tokio::spawn({
            let (journaled, call) =
                (Arc::clone(&journaled), CallCtx { cancel: cancel.clone(), ..at("step 1") });
            async move { journaled.chat(&request("a"), &call).await }
        });
        while model.n_requests() == 0 {
            tokio::task::yield_now().await;
        }
        let follower = tokio::spawn({
            let journaled = Arc::clone(&journaled);
            async move { ask(journaled.as_ref(), "a", &at("step 1")).await }
        });
        tokio::task::yield_now().await;
        if leader_is_dropped {
            leader.abort();
        } else {
            cancel.cancel();
        }
        drop(leader.await);
        gate.add_permits(1);
        assert_eq!(follower.await.unwrap(), "reply 2 to a");
    }
}

/// A candidate that is given up takes its calls with it; what was sent of them may be billed.
#[tokio::test]
async fn what_was_sent_for_a_call_whose_caller_went_away_is_recorded_and_counted() {
    let bench = Bench::new();
    let (model, gate) = Counting::new().gated();
    let paced =
        Arc::new(Paced::new(Arc::clone(&model) as Arc<dyn ChatModel>, Pacer::new(PaceConfig::fixed(1))));
    let retried = Arc::new(Retried::new(paced, RetryPolicy::default(), Arc::default()));
    let journal = bench.open();
    let journaled = Arc::new(Journaled::new(retried, journal.clone()));
    let calls: Vec<_> = ["a", "b"]
        .into_iter()
        .map(|text| {
            let journaled = Arc::clone(&journaled);
            tokio::spawn(async move { ask(journaled.as_ref(), text, &at("step 1")).await })
        })
        .collect();
    while model.n_requests() == 0 {
        tokio::task::yield_now().await;
    }
    for call in calls.into_iter().rev() {
        call.abort();
        drop(call.await);
    }
    journal.flush().await.unwrap();
    let rows = bench.rows();
    assert_eq!(rows.len(), 1, "what only waited for its turn was not sent: {rows:?}");
    assert_eq!((rows[0].outcome.as_str(), rows[0].attempts), ("cancelled", 1));
    assert_eq!(bench.open().spent_before()[0].requests, 1);
    // It is not a reply, so the same call is made.
    gate.add_permits(1);
    let text = ask(journaled.as_ref(), "a", &at("step 1")).await;
    assert_eq!(text, "reply 2 to a");
}

#[tokio::test]
async fn a_failure_is_recorded_and_answers_nobody() {
    let (bench, model) = (Bench::new(), Arc::new(Counting::new()));
    let journal = bench.open();
    for _ in 0..2 {
        let error = journaled(&model, &journal).chat(&request("fail"), &at("step 1")).await.unwrap_err();
        assert_eq!(error.class(), ErrorClass::ServerError);
    }
    journal.flush().await.unwrap();
    let rows = bench.rows();
    assert_eq!(rows.len(), 2);
    for row in rows {
        assert_eq!((row.outcome.as_str(), row.attempts), ("server_error", 1));
    }
    drop(journal);
    let spent = &bench.open().spent_before().to_vec()[0];
    assert_eq!((spent.requests, spent.usage.input), (2, 0));
}

#[tokio::test]
async fn what_was_spent_and_how_long_is_summed_over_processes() {
    let (bench, model) = (Bench::new(), Arc::new(Counting::new()));
    for text in ["a", "b"] {
        ask(&journaled(&model, &bench.open()), text, &at("step 1")).await;
    }
    let journal = bench.open();
    let spent = journal.spent_before();
    assert_eq!(spent.len(), 1);
    assert_eq!((spent[0].model.as_str(), spent[0].requests, spent[0].usage.input), ("m", 2, 20));
    let totals = bench.reader().totals().unwrap();
    assert_eq!(
        (totals.replies, totals.requests, totals.processes),
        (2, 2, 2),
        "a process that writes nothing leaves no trace"
    );
}

#[tokio::test]
async fn every_part_of_a_reply_and_of_a_request_is_kept() {
    let bench = Bench::new();
    let call = ToolCall { id: "1".to_owned(), name: "find".to_owned(), arguments: "{\"a\":".to_owned() };
    let tokens =
        ReplyTokens::new(vec![7, 8], vec![TokenLogprob::new("I look", -0.25)]).with_prompt_ids(vec![1]);
    let reply = ChatReply::new("I look\u{0}it up\u{fffd}", USAGE, FinishReason::Other("tired".to_owned()))
        .with_tool_calls(vec![call])
        .with_reasoning(Some("Where is it?".to_owned()))
        .with_tokens(Some(tokens))
        .with_provider_state("dialect", Some(json!({"signature": "s"})));
    let answer = reply.clone();
    let inner = Arc::new(ScriptedModel::from_fn("m", move |_, _| Ok(answer.clone())));
    let mut asked = request("look");
    asked.messages.push(Message::new(
        Role::User,
        vec![
            ContentPart::Text("this".into()),
            ContentPart::Image(ImageSource::from_bytes("image/png", b"x")),
        ],
    ));
    asked.messages.push(Message::reply(&reply));
    for is_recorded in [false, true] {
        let journaled = Journaled::new(inner.clone(), bench.open());
        let mut got = journaled.chat(&asked, &at("step 1")).await.unwrap();
        assert_eq!(std::mem::take(&mut got.is_recorded), is_recorded);
        assert_eq!(got, reply);
    }
    let whole = bench.reader().call(1).unwrap().unwrap();
    assert_eq!(whole["messages"][2]["content"][1]["image"]["base64"]["media_type"], "image/png");
    assert_eq!(whole["tool_calls"][0]["arguments"], "{\"a\":");
}

#[tokio::test]
async fn a_message_is_kept_once_however_many_calls_have_it() {
    let (bench, model) = (Bench::new(), Arc::new(Counting::new()));
    {
        let journaled = journaled(&model, &bench.open());
        for text in ["a", "b", "c"] {
            ask(&journaled, text, &at("step 1")).await;
        }
    }
    let database = rusqlite::Connection::open(bench.path()).unwrap();
    let count: i64 = database.query_row("SELECT count(*) FROM messages", [], |row| row.get(0)).unwrap();
    assert_eq!(count, 4);
    let text: String = database
        .query_row("SELECT text FROM call_messages WHERE call = 2 AND position = 1", [], |row| row.get(0))
        .unwrap();
    assert_eq!(text, "b");
}

#[tokio::test]
async fn results_are_kept_once() {
    let bench = Bench::new();
    let key = ResultKey::new("rollout", &["skill", "item", "model"]);
    let stored = |content: &str| StoredResult { place: "step 1".to_owned(), content: content.to_owned() };
    {
        let journal = bench.open();
        assert_eq!(journal.result(key).unwrap(), None);
        journal.record_result(key, "rollout", "item", stored("1"));
        journal.record_result(key, "rollout", "item", stored("2"));
        assert_eq!(journal.result(key).unwrap().unwrap().content, "1");
        journal.flush().await.unwrap();
        assert_eq!(journal.result(key).unwrap().unwrap().content, "1");
    }
    let journal = bench.open();
    assert_eq!(*journal.result(key).unwrap().unwrap(), stored("1"));
    assert_eq!(journal.result(ResultKey::new("rollout", &["skill", "itemmodel"])).unwrap(), None);
}

#[tokio::test]
async fn everything_is_committed_without_being_asked_for() {
    let (bench, model) = (Bench::new(), Arc::new(Counting::new()));
    let (sender, mut committed) = tokio::sync::mpsc::unbounded_channel();
    let options = JournalOptions {
        on_commit: Some(Arc::new(move |point, count| {
            if point == CommitPoint::After {
                sender.send(count).unwrap_or_default();
            }
        })),
        ..JournalOptions::default()
    };
    let journal = Journal::open(&bench.path(), options).unwrap();
    ask(&journaled(&model, &journal), "a", &at("step 1")).await;
    assert_eq!(committed.recv().await, Some(1));
    assert_eq!(bench.rows().len(), 1);
}

#[tokio::test]
async fn many_replies_are_committed_together() {
    let (bench, model) = (Bench::new(), Arc::new(Counting::new()));
    let n_commits = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&n_commits);
    let options = JournalOptions {
        // Longer than the calls take, so that they fall into one group.
        group_window: std::time::Duration::from_secs(600),
        on_commit: Some(Arc::new(move |point, _| {
            if point == CommitPoint::After {
                counter.fetch_add(1, Ordering::SeqCst);
            }
        })),
        ..JournalOptions::default()
    };
    let journal = Journal::open(&bench.path(), options).unwrap();
    let journaled = journaled(&model, &journal);
    for number in 0..500 {
        ask(&journaled, &number.to_string(), &at("step 1")).await;
    }
    journal.flush().await.unwrap();
    assert_eq!((n_commits.load(Ordering::SeqCst), bench.rows().len()), (1, 500));
}

#[tokio::test]
async fn a_recording_answers_without_a_request_and_is_copied() {
    let (old, new, model) = (Bench::new(), Bench::new(), Arc::new(Counting::new()));
    ask(&journaled(&model, &old.open()), "a", &at("step 1")).await;
    let recording = |otherwise| Recording { journal: Arc::new(old.reader()), otherwise };

    let strict = journaled(&model, &new.open()).with_recording(recording(NotInRecording::Fail));
    assert_eq!(ask(&strict, "a", &at("step 1")).await, "reply 1 to a");
    let error = strict.chat(&request("b"), &at("step 1")).await.unwrap_err();
    assert!(matches!(error, LlmError::NotRecorded { place } if place == "step 1"));
    drop(strict);
    assert_eq!(model.n_requests(), 1);

    let sending = journaled(&model, &new.open()).with_recording(recording(NotInRecording::Send));
    assert_eq!(ask(&sending, "b", &at("step 1")).await, "reply 2 to b");
    drop(sending);
    let rows = new.rows();
    assert_eq!(rows.iter().map(|row| row.attempts).collect::<Vec<_>>(), [0, 1]);
    // What was copied costs nothing.
    assert_eq!(new.open().spent_before()[0].requests, 1);
}

#[tokio::test]
async fn a_call_that_was_never_sent_leaves_nothing() {
    let bench = Bench::new();
    let cancelled =
        Arc::new(ScriptedModel::from_fn("m", |_: &ChatRequest, _: &CallCtx| Err(LlmError::Cancelled)));
    Journaled::new(cancelled, bench.open()).chat(&request("a"), &at("step 1")).await.unwrap_err();
    assert!(bench.rows().is_empty());
}
