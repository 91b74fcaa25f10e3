//! One seed: a run with all that befalls it, process after process, and what must hold whatever befell.

use crate::process::{End, Process};
use crate::provider::{Answered, Billed, PRICES, Witness};
use crate::run_files::files;
use crate::story::{Disturbance, Story};
use crate::world::{World, answer};
use skill_llm::journal::CallFilter;
use skill_llm::testbed::SimProvider;
use skill_llm::{JournalReader, Spent};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::time::Instant;

/// A run is finished after at most this many processes, the last one included.
const MAX_PROCESSES: usize = 40;
/// How long a person waits after a fault before the run is started again.
const PATIENCE: Duration = Duration::from_secs(60);
/// A reply is committed at most so long after it came; what a kill takes with it is not older.
const COMMIT_WINDOW: Duration = Duration::from_millis(20);

/// What a seed was like.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Life {
    pub(crate) processes: usize,
    pub(crate) kills: usize,
    pub(crate) stops: usize,
    pub(crate) capped: usize,
    pub(crate) faults: usize,
    /// Replies that kills took with them.
    pub(crate) lost: usize,
    pub(crate) requests: u64,
    pub(crate) max_in_flight: usize,
    pub(crate) took: Duration,
}

/// What a run leaves behind.
#[derive(Debug, PartialEq)]
pub(crate) struct Remains {
    /// Every file that has to be the same whenever the run is made, by path.
    pub(crate) files: BTreeMap<String, String>,
    /// What the journal says of each finished rollout, by its place.
    results: BTreeMap<String, String>,
}

/// What the journal of a run holds between two processes.
#[derive(Default)]
struct Kept {
    replies: BTreeSet<String>,
    spent: Spent,
}

/// Where runs are made: in memory if there is such a place, since nothing here is about the disk.
fn run_dir() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { tempfile::tempdir_in(memory).unwrap() } else { tempfile::tempdir().unwrap() }
}

pub(crate) fn in_virtual_time<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    runtime.unwrap().block_on(future)
}

/// What a run leaves if nothing happens to it.
fn undisturbed(world: World) -> &'static Remains {
    static REMAINS: [OnceLock<Remains>; World::ALL.len()] = [const { OnceLock::new() }; World::ALL.len()];
    REMAINS[world as usize].get_or_init(|| {
        let (life, remains) = in_virtual_time(live(&Story::undisturbed(world)));
        assert_eq!(life.processes, 1);
        remains
    })
}

/// Lives a seed and checks what must hold.
pub(crate) fn live_seed(seed: u64) -> Life {
    let story = Story::new(seed);
    let expect = undisturbed(story.world);
    let (life, remains) = in_virtual_time(live(&story));
    let names = |remains: &Remains| remains.files.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&remains), names(expect));
    for (name, text) in &remains.files {
        assert_eq!(*text, expect.files[name], "{name} is not that of an undisturbed run");
    }
    for (place, result) in &remains.results {
        // What was measured beyond the deciding prefix depends on time.
        let expect = expect.results.get(place).unwrap_or(result);
        assert_eq!(result, expect, "{place} came to something else");
    }
    life
}

async fn live(story: &Story) -> (Life, Remains) {
    let (dir, begun) = (run_dir(), Instant::now());
    let provider = SimProvider::new(story.provider.clone(), answer);
    let witness = Witness::new(Arc::clone(&provider));
    let (mut life, mut kept, mut n_raised) = (Life::default(), Kept::default(), 0);
    // How often each place was answered whole, and how often that was lost.
    let (mut n_answered, mut n_lost) = (BTreeMap::<String, usize>::new(), BTreeMap::<String, usize>::new());
    loop {
        assert!(life.processes < MAX_PROCESSES, "not finished after {life:?}");
        let process = Process { story, process_idx: life.processes, n_raised, witness: &witness };
        let end = process.run(dir.path()).await;
        life.processes += 1;
        check_what_was_sent(&process, &kept);
        let answered = witness.seen().answered.clone();
        life.max_in_flight = life.max_in_flight.max(witness.seen().max_in_flight);
        kept = Kept::read(dir.path());
        let billed = witness.seen().billed;
        assert!(
            kept.spent.calls >= billed.calls && kept.spent.tokens >= billed.tokens,
            "{billed:?} {:?}",
            kept.spent
        );
        for reply in &answered {
            assert!(kept.replies.contains(&reply.place), "the reply to {} was lost by {end:?}", reply.place);
            *n_answered.entry(reply.place.clone()).or_default() += 1;
        }
        match &end {
            End::Finished => break,
            End::Killed { last_flush } => {
                life.kills += 1;
                if let Some(Disturbance::Kill { loses: true, .. }) = process.disturbance() {
                    let lost = lose(dir.path(), &answered, *last_flush);
                    life.lost += lost.len();
                    for place in lost {
                        *n_lost.entry(place).or_default() += 1;
                    }
                    kept = Kept::read(dir.path());
                }
            }
            End::Stopped => life.stops += 1,
            End::Capped => {
                life.capped += 1;
                n_raised += 1;
            }
            End::Faulted(error) => {
                assert!(!story.is_calm, "nothing failed, and the run did: {error:?}");
                life.faults += 1;
                tokio::time::sleep(PATIENCE).await;
            }
        }
    }
    for (place, n_answered) in n_answered {
        let n_lost = n_lost.get(&place).copied().unwrap_or(0);
        assert!(n_answered <= 1 + n_lost, "{place} was paid {n_answered} times and lost {n_lost} times");
    }
    life.requests = provider.report().requests;
    life.took = begun.elapsed();
    (life, Remains { files: files(dir.path()), results: results(dir.path()) })
}

/// No reply that was kept was asked for again, and no cap was passed, whatever earlier processes died of.
fn check_what_was_sent(process: &Process<'_>, before: &Kept) {
    let seen = process.witness.seen();
    for (place, _) in &seen.arrived {
        assert!(!before.replies.contains(place), "{place} was asked again, and its reply was there");
    }
    let workers = process.story.workers(process.process_idx);
    assert!(seen.max_in_flight <= workers, "{} requests of {workers} workers", seen.max_in_flight);
    let caps = process.story.caps(process.n_raised);
    if let Some(cap) = caps.time {
        // What was let through before may still have waited for its turn.
        let n_late = seen.arrived.iter().filter(|(_, since)| *since > cap).count();
        assert!(n_late <= workers, "{n_late} requests after {cap:?}, by {workers} workers");
    }
    let Billed { calls, tokens, money } = seen.billed;
    let before = before.spent;
    assert!(caps.calls.is_none_or(|cap| calls <= cap), "{calls} calls of {caps:?}, after {before:?}");
    assert!(caps.tokens.is_none_or(|cap| tokens <= cap), "{tokens} tokens of {caps:?}, after {before:?}");
    assert!(caps.money.is_none_or(|cap| money <= cap + 1e-9), "{money} of {caps:?}, after {before:?}");
}

impl Kept {
    fn read(dir: &Path) -> Self {
        let path = dir.join("journal.sqlite");
        if !path.exists() {
            return Self::default();
        }
        let reader = JournalReader::open(&path).unwrap();
        let replies = CallFilter { outcome: Some("reply".to_owned()), ..CallFilter::default() };
        let calls = reader.calls(&replies).unwrap();
        let replies: BTreeSet<String> = calls.iter().map(|call| call.place.clone()).collect();
        assert_eq!(replies.len(), calls.len(), "a place has two replies");
        let mut spent = Spent::default();
        for model in reader.spent().unwrap() {
            spent.calls += model.requests;
            spent.tokens += model.usage.input + model.usage.output;
            spent.money += PRICES.cost(model.usage);
        }
        let totals = reader.totals().unwrap();
        assert_eq!(spent.calls, totals.requests + totals.unanswered_requests);
        Self { replies, spent }
    }
}

/// Takes out of the journal what a process that was killed now may not have committed; the places of the calls.
///
/// The journal's thread writes in real time and so has always committed everything here; how much it had not is for
/// the seed to say. What was flushed before a step was written is never lost.
fn lose(dir: &Path, answered: &[Answered], last_flush: Option<Instant>) -> Vec<String> {
    let now = Instant::now();
    let is_young = |at: Instant| now - at < COMMIT_WINDOW && last_flush.is_none_or(|flush| at > flush);
    let lost: Vec<String> =
        answered.iter().filter(|reply| is_young(reply.at)).map(|reply| reply.place.clone()).collect();
    if lost.is_empty() {
        return lost;
    }
    let journal = rusqlite::Connection::open(dir.join("journal.sqlite")).unwrap();
    journal.pragma_update(None, "foreign_keys", true).unwrap();
    for place in &lost {
        // What a kill leaves of them: the slots of their requests, which become these rows.
        let left = "INSERT INTO unanswered (number, model, started_at, input_tokens, output_tokens) SELECT sent, model, started_at, attempts.input_tokens, \
                    attempts.output_tokens FROM attempts JOIN calls ON calls.id = attempts.call \
                    WHERE place = ?1 AND calls.outcome = 'reply'";
        assert!(journal.execute(left, [place]).unwrap() > 0, "{place} was not recorded before it was sent");
        let unit = place.rsplit_once(" / turn ").map_or(place.as_str(), |(unit, _)| unit);
        let n_calls =
            journal.execute("DELETE FROM calls WHERE place = ?1 AND outcome = 'reply'", [place]).unwrap();
        assert_eq!(n_calls, 1);
        // A result is recorded after its calls.
        journal.execute("DELETE FROM results WHERE place = ?1", [unit]).unwrap();
    }
    lost
}

fn results(dir: &Path) -> BTreeMap<String, String> {
    let journal = rusqlite::Connection::open(dir.join("journal.sqlite")).unwrap();
    let mut statement = journal.prepare("SELECT place, content FROM results").unwrap();
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    rows.map(Result::unwrap).collect()
}
