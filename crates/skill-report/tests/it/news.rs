//! What is new in a run, for those who look on, who go away, and who come back.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use skill_core::{ItemId, RolloutResult};
use skill_llm::journal::{ResultKey, StoredResult};
use skill_llm::{Journal, JournalOptions};
use skill_report::RunPhase;
use skill_report::watch::{NewRollouts, News, Runs, Told, Watches};
use skillrl_bench::runs::{RunSize, make_run};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

/// Far longer than anything takes; only a failed test waits so long.
const PATIENCE: Duration = Duration::from_secs(60);

/// A directory with the finished run `one`, and the log of its events.
fn with_run() -> (TempDir, PathBuf) {
    let dir = skillrl_bench::runs::temporary_dir().unwrap();
    let run = dir.path().join("one");
    let size = RunSize { n_steps: 2, batch: 1, n_selection: 2, n_test: 1, ..RunSize::RUN_OF_10_000_STEPS };
    make_run(&run, &size).unwrap();
    (dir, run.join("events.jsonl"))
}

fn append(log: &Path, numbers: std::ops::Range<u32>, padding: &str) {
    let mut text = std::fs::read_to_string(log).unwrap_or_default();
    for number in numbers {
        let event = serde_json::json!({
            "event": "warning", "message": format!("warning {number}{padding}"), "unix_ms": number,
        });
        text.push_str(&format!("{event}\n"));
    }
    std::fs::write(log, text).unwrap();
}

/// What is new to somebody who begins to look.
async fn look(dir: &Path, told: &mut Told) -> News {
    let (runs, watches, stop) =
        (Arc::new(Runs::open(dir, |_| Ok(None)).unwrap()), Watches::default(), CancellationToken::new());
    let listing = runs.fresh().await;
    let (found, row) = listing.find("one").unwrap();
    assert_eq!(row.state, RunPhase::Finished, "{:?}", row.problem);
    let (watch, mut changes) = watches.watch(&runs, "one", &found.path, &stop);
    tokio::time::timeout(PATIENCE, changes.changed()).await.unwrap().unwrap();
    let news = watch.news(told);
    assert!(news.now.is_some());
    stop.cancel();
    news
}

fn texts(news: &News) -> Vec<&str> {
    news.lines.iter().map(|line| line.text.as_str()).collect()
}

#[tokio::test]
async fn whoever_comes_back_is_told_what_came_since_and_nothing_twice() {
    let (dir, log) = with_run();
    append(&log, 0..3, "");
    let mut told = Told::default();
    let news = look(dir.path(), &mut told).await;
    assert_eq!((texts(&news), news.has_lost_lines), (vec!["warning 0", "warning 1", "warning 2"], false));
    // Half a line is told when it is whole.
    append(&log, 3..5, "");
    let whole = std::fs::read_to_string(&log).unwrap();
    std::fs::write(&log, &whole.as_bytes()[..whole.len() - 4]).unwrap();
    let mut later = Told::after(told.line());
    assert_eq!(texts(&look(dir.path(), &mut later).await), ["warning 3"]);
    std::fs::write(&log, &whole).unwrap();
    let mut last = Told::after(later.line());
    assert_eq!(texts(&look(dir.path(), &mut last).await), ["warning 4"]);
    let news = look(dir.path(), &mut Told::after(last.line())).await;
    assert_eq!((news.lines.len(), news.has_lost_lines), (0, false));
    // A log that has become shorter is another one.
    std::fs::write(&log, "").unwrap();
    append(&log, 9..10, "");
    assert_eq!(texts(&look(dir.path(), &mut Told::after(last.line())).await), ["warning 9"]);
}

#[tokio::test]
async fn rollouts_are_new_once() {
    let dir = skillrl_bench::runs::temporary_dir().unwrap();
    let mut rollouts = NewRollouts::default();
    assert_eq!(rollouts.read(dir.path()), [], "without a journal");
    let journal = Journal::open(&dir.path().join("journal.sqlite"), JournalOptions::default()).unwrap();
    for item in ["a", "b"] {
        let made = RolloutResult::new(ItemId::new(item), 0.0, 0.0);
        let content = serde_json::json!({"result": made}).to_string();
        let result = StoredResult { place: "rollout".to_owned(), content };
        journal.record_result(ResultKey::new("test", &[item]), "rollout", item, result);
        journal.flush().await.unwrap();
        let new: Vec<String> = rollouts.read(dir.path()).into_iter().map(|shown| shown.item).collect();
        assert_eq!(new, [item]);
    }
    assert_eq!(rollouts.read(dir.path()), []);
}

#[tokio::test]
async fn what_is_not_kept_any_more_is_said_to_be_lost() {
    let (dir, log) = with_run();
    append(&log, 0..2, "");
    let mut told = Told::default();
    look(dir.path(), &mut told).await;
    // More lines than are kept, in less than is read of the end of a log.
    append(&log, 2..400, "");
    let news = look(dir.path(), &mut Told::after(told.line())).await;
    assert_eq!((news.lines.len(), news.has_lost_lines), (300, true));
    assert_eq!(texts(&news).last(), Some(&"warning 399"));
    // More than is read.
    append(&log, 400..600, &" ".repeat(4_000));
    let mut since = Told::after(told.line());
    let news = look(dir.path(), &mut since).await;
    assert!(news.has_lost_lines && news.lines.len() < 100, "{}", news.lines.len());
    assert!(news.lines.iter().all(|line| line.text.chars().count() < 700));
    // Who has seen the end has lost nothing.
    append(&log, 600..601, "");
    let news = look(dir.path(), &mut Told::after(since.line())).await;
    assert_eq!((texts(&news), news.has_lost_lines), (vec!["warning 600"], false));
}

/// As one that another process holds for a moment when it closes it.
#[tokio::test]
async fn a_journal_that_could_not_be_read_is_looked_at_again() {
    let (dir, _) = with_run();
    let (made, journal) = (dir.path().join("made.sqlite"), dir.path().join("one/journal.sqlite"));
    skillrl_bench::runs::make_journal(&made, 2, 10).await.unwrap();
    let bytes = std::fs::read(&made).unwrap();
    let time = made.metadata().unwrap().modified().unwrap();
    let put = |bytes: &[u8]| {
        std::fs::write(&journal, bytes).unwrap();
        std::fs::File::options().write(true).open(&journal).unwrap().set_modified(time).unwrap();
    };
    put(&vec![0xff; bytes.len()]);
    let (runs, watches, stop) = (
        Arc::new(Runs::open(dir.path(), |_| Ok(None)).unwrap()),
        Watches::default(),
        CancellationToken::new(),
    );
    let listing = runs.fresh().await;
    let (found, _) = listing.find("one").unwrap();
    let (watch, mut changes) = watches.watch(&runs, "one", &found.path, &stop);
    let mut told = Told::default();
    tokio::time::timeout(PATIENCE, changes.changed()).await.unwrap().unwrap();
    assert_eq!(watch.news(&mut told).now.unwrap().spent, None);
    put(&bytes);
    tokio::time::timeout(PATIENCE, changes.changed()).await.unwrap().unwrap();
    let spent = watch.news(&mut told).now.unwrap().spent.unwrap();
    assert_eq!(spent.requests, 2);
    stop.cancel();
}
