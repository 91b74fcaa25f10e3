//! Requests are on record before they are sent: what a process that is killed had in flight is counted.

use crate::support::{Bench, Counting, USAGE, ask, at, request};
use skill_llm::journal::{CallFilter, ModelSpent, prune, requests_written};
use skill_llm::{
    Budget, BudgetCaps, Budgeted, ChatModel, Journal, JournalOptions, Journaled, PaceConfig, Paced, Pacer,
    Prices, Usage,
};
use std::sync::Arc;
use std::time::Duration;

/// What is reserved for the messages `be brief` and a letter, and a reply without a limit: 9 bytes, 64 for the server's
/// own and 8 for each message.
const RESERVED: Usage = Usage { input: 89, cached: 0, cache_written: 0, output: 4_096, reasoning: 0 };

/// All layers that a request passes.
fn sending(model: &Arc<Counting>, journal: &Journal, budget: &Arc<Budget>) -> Journaled {
    let paced = Paced::new(Arc::clone(model) as Arc<dyn ChatModel>, Pacer::new(PaceConfig::default()));
    let budgeted = Budgeted::new(Arc::new(paced), Arc::clone(budget), Prices::default());
    Journaled::new(Arc::new(budgeted), journal.clone())
}

fn no_caps() -> Arc<Budget> {
    Budget::new(BudgetCaps::default())
}

#[track_caller]
fn assert_spent(spent: &[ModelSpent], n_requests: u64, usage: Usage) {
    assert_eq!(
        spent.iter().map(|spent| (spent.requests, spent.usage)).collect::<Vec<_>>(),
        [(n_requests, usage)]
    );
}

fn names(bench: &Bench) -> Vec<String> {
    let entries = std::fs::read_dir(bench.dir()).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Waits until a request has reached the model.
async fn sent(model: &Counting, n_requests: usize) {
    while model.n_requests() < n_requests {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_request_in_flight_is_counted_after_a_kill() {
    let (bench, (model, gate)) = (Bench::new(), Counting::new().gated());
    let journal = bench.open();
    let journaled = sending(&model, &journal, &no_caps());
    let asking = tokio::spawn(async move { ask(&journaled, "a", &at("step 1")).await });
    sent(&model, 1).await;
    let dead = bench.killed();
    assert_spent(&bench.reader().spent().unwrap(), 1, RESERVED);

    // While nobody works on it, and by the next process, however often that happens.
    let totals = dead.reader().totals().unwrap();
    assert_eq!((totals.requests, totals.unanswered_requests, totals.unanswered_usage), (0, 1, RESERVED));
    for _ in 0..2 {
        assert_spent(&dead.reader().spent().unwrap(), 1, RESERVED);
        assert_spent(dead.open().spent_before(), 1, RESERVED);
        assert_eq!(names(&dead), ["journal.sqlite", "journal.sqlite-sum"]);
    }
    assert_eq!(requests_written(&dead.path()).unwrap(), Some(1), "no journal that nobody has written to");
    let since = dead.reader().spent_since(0).unwrap();
    assert_spent(&since.unanswered, 1, RESERVED);
    assert!(since.spent.is_empty());
    // The same call is sent again, and both count.
    let (again, resumed) = (Arc::new(Counting::new()), dead.open());
    ask(&sending(&again, &resumed, &no_caps()), "a", &at("step 1")).await;
    resumed.flush().await.unwrap();
    assert_eq!(resumed.requests_committed(), 2);
    drop(resumed);
    let both = Usage { input: 99, cached: 4, cache_written: 2, output: 4_099, reasoning: 1 };
    assert_spent(dead.open().spent_before(), 2, both);
    assert_eq!(requests_written(&dead.path()).unwrap(), Some(2));

    // Where nobody was killed, the request counts once, with what it used.
    gate.add_permits(1);
    asking.await.unwrap();
    drop(journal);
    assert_spent(bench.open().spent_before(), 1, USAGE);
    assert_eq!(names(&bench), ["journal.sqlite", "journal.sqlite-sum"]);
}

#[tokio::test]
async fn a_reply_that_is_not_committed_is_counted_with_what_it_used() {
    let (bench, model) = (Bench::new(), Arc::new(Counting::new()));
    let an_hour = Duration::from_secs(3_600);
    let options = JournalOptions { group_window: an_hour, ..JournalOptions::default() };
    let journal = Journal::open(&bench.path(), options).unwrap();
    ask(&sending(&model, &journal, &no_caps()), "a", &at("step 1")).await;
    let Usage { input, output, cache_written, .. } = USAGE;
    let counted = Usage { input, output, cache_written, ..Usage::default() };
    assert_spent(bench.killed().open().spent_before(), 1, counted);
    // Committed, and its slot not free yet: it counts once.
    let slots = std::fs::read(bench.killed().dir().join("journal.sqlite-sent")).unwrap();
    journal.flush().await.unwrap();
    let dead = bench.killed();
    std::fs::write(dead.dir().join("journal.sqlite-sent"), slots).unwrap();
    assert_spent(&dead.reader().spent().unwrap(), 1, USAGE);
    assert_eq!(prune(&dead.path(), &CallFilter::default()).unwrap().calls, 1);
    assert_spent(dead.open().spent_before(), 1, USAGE);
}

#[tokio::test]
async fn what_failed_is_not_reserved_any_more_and_what_was_not_sent_is_not_recorded() {
    let (bench, model) = (Bench::new(), Arc::new(Counting::new()));
    let journal = bench.open();
    let caps = BudgetCaps { calls: Some(1), ..BudgetCaps::default() };
    let journaled = sending(&model, &journal, &Budget::new(caps));
    journaled.chat(&request("fail"), &at("step 1")).await.unwrap_err();
    assert_spent(bench.killed().open().spent_before(), 1, Usage::default());
    journaled.chat(&request("a"), &at("step 1")).await.unwrap_err();
    assert_eq!(model.n_requests(), 1, "the cap is reached");
    drop((journaled, journal));
    assert_spent(bench.open().spent_before(), 1, Usage::default());
    assert_eq!(names(&bench), ["journal.sqlite", "journal.sqlite-sum"]);
}

/// A loss of power may leave any part of what was written last.
#[tokio::test]
async fn damaged_slots_are_not_read() {
    let (bench, (model, _gate)) = (Bench::new(), Counting::new().gated());
    let journal = bench.open();
    let journaled = Arc::new(sending(&model, &journal, &no_caps()));
    for text in ["a", "b"] {
        let journaled = Arc::clone(&journaled);
        tokio::spawn(async move { ask(journaled.as_ref(), text, &at("step 1")).await });
    }
    sent(&model, 2).await;
    let path = |bench: &Bench| bench.dir().join("journal.sqlite-sent");
    let whole = std::fs::read(path(&bench)).unwrap();
    let damaged = |change: fn(&mut Vec<u8>)| {
        let dead = bench.killed();
        let mut bytes = whole.clone();
        change(&mut bytes);
        std::fs::write(path(&dead), bytes).unwrap();
        dead.open().spent_before().iter().map(|spent| spent.requests).sum::<u64>()
    };
    assert_eq!(damaged(|_| ()), 2);
    assert_eq!(damaged(|bytes| bytes.truncate(95)), 1);
    assert_eq!(damaged(|bytes| bytes[30] ^= 1), 1);
    assert_eq!(damaged(|bytes| bytes.fill(0)), 0);
    assert_eq!(damaged(Vec::clear), 0);
}

#[tokio::test]
async fn what_replies_have_shown_is_read_again() {
    let (bench, model) = (Bench::new(), Arc::new(Counting::new()));
    {
        let journal = bench.open();
        let journaled = sending(&model, &journal, &no_caps());
        for text in ["a", "b", "c"] {
            ask(&journaled, text, &at("step 1")).await;
        }
        for text in ["fail", "fail again"] {
            journaled.chat(&request(text), &at("step 1")).await.unwrap_err();
        }
    }
    let journal = bench.open();
    let [seen] = journal.seen_before() else { panic!("one model: {:?}", journal.seen_before()) };
    assert_eq!((seen.model.as_str(), seen.longest_reply, seen.latest.len()), ("m", 3, 3));
    let last = seen.latest.last().unwrap();
    assert_eq!((last.prompt_bytes, last.n_messages, last.usage.input), (9, 2, 10));
    assert_eq!((seen.attempts.n_replied, seen.attempts.n_failed), (3, 2));
    assert_eq!(
        seen.attempts.replied_tokens,
        seen.latest.iter().map(|reply| reply.usage.input + reply.usage.output).sum::<u64>()
    );
}
