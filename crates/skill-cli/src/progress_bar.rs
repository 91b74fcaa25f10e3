//! The lines at the foot of the terminal while a stage works: how far it is, and what the run does and has spent; while
//! a bank is trained also the trial under way, and the bank so far.
//!
//! What the models do comes from the run's `live.json`, as for everybody who looks on; without a run there is one line.

use crate::run_text::workers;
use crate::table::seconds;
use crate::table::{counted, grouped, harmless};
use console::{Term, measure_text_width, truncate_str};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use parking_lot::Mutex;
use skillrl::pipeline::RunReader;
use skillrl::pipeline::run_dir::bank_progress::BankProgress;
use skillrl::pipeline::run_dir::live::{AT_ONCE, LEAST_RATED, LiveState, Spend};
use skillrl::reports::lines::progress;
use skillrl::reports::words::{seconds_left, validation};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often the lines are redrawn while no work is finished; the run writes what it does as often.
const PERIOD: Duration = Duration::from_millis(500);
/// The width where the terminal does not say its own.
const USUAL_WIDTH: usize = 80;
/// A bar that is shorter says nothing.
const SHORTEST_BAR: usize = 8;
const LONGEST_BAR: usize = 30;
/// Between the parts of a line.
const GAP: &str = "  ";
/// Stands where the end of a line was cut off.
const CUT: &str = "…";

/// The bar that is on the terminal, for what else is written there: there is one terminal.
static ON_SCREEN: Mutex<Option<ProgressBar>> = Mutex::new(None);

/// Writes to the terminal while no bar is on it, so that nothing of the bar stays behind.
pub(crate) fn beside_bar<T>(write: impl FnOnce() -> T) -> T {
    match ON_SCREEN.lock().clone() {
        Some(bar) => bar.suspend(write),
        None => write(),
    }
}

/// The lines of one stage; they go when it is dropped.
pub(crate) struct StageBar {
    shared: Arc<Shared>,
    /// Gone when the bar is: that ends the thread.
    still_there: Option<Sender<()>>,
    ticker: Option<JoinHandle<()>>,
}

struct Shared {
    bar: ProgressBar,
    run: Option<RunReader>,
    began: Instant,
    stage: Mutex<StageView>,
}

/// What is known of a stage.
#[derive(Debug, Clone)]
struct StageView {
    /// Such as `step 3/12 rollout`.
    place: String,
    done: usize,
    total: usize,
    /// As many were done at once: they come from the journal, and say nothing of how long the others take.
    at_once: usize,
    /// For how long it has worked.
    elapsed: Duration,
    live: Option<LiveState>,
    /// Where the training of a bank is.
    bank: Option<BankProgress>,
}

impl StageBar {
    /// Shows a stage that begins now, of the run in this directory if there is one.
    pub(crate) fn start(place: String, total: usize, run_dir: Option<&Path>) -> Self {
        let bar = ProgressBar::with_draw_target(Some(total as u64), ProgressDrawTarget::stderr());
        let style = ProgressStyle::with_template("{prefix}\n{msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
        let stage =
            StageView { place, done: 0, total, at_once: 0, elapsed: Duration::ZERO, live: None, bank: None };
        *ON_SCREEN.lock() = Some(bar.clone());
        let run = run_dir.and_then(|dir| RunReader::open(dir).ok());
        let shared = Arc::new(Shared { bar, run, began: Instant::now(), stage: Mutex::new(stage) });
        let (still_there, gone) = channel::<()>();
        let of_thread = Arc::clone(&shared);
        let tick = move || {
            loop {
                of_thread.refresh();
                if gone.recv_timeout(PERIOD) != Err(RecvTimeoutError::Timeout) {
                    return;
                }
            }
        };
        // Without a thread the lines are drawn when work is finished.
        let ticker = std::thread::Builder::new().name("progress".to_owned()).spawn(tick).ok();
        Self { shared, still_there: Some(still_there), ticker }
    }

    pub(crate) fn set_done(&self, done: usize) {
        self.shared.stage.lock().set_done(done, self.shared.began.elapsed());
        self.shared.draw();
    }

    /// Says where the training of a bank is: a bar of a trial has as many units as the trial has rollouts.
    pub(crate) fn set_bank(&self, bank: &BankProgress) {
        {
            let mut stage = self.shared.stage.lock();
            if let Some(trial) = &bank.trial {
                let done = usize::try_from(trial.rollouts).unwrap_or(usize::MAX);
                stage.set_done(done, self.shared.began.elapsed());
            }
            stage.bank = Some(bank.clone());
        }
        self.shared.draw();
    }

    /// Does something with the terminal while the lines are away.
    pub(crate) fn suspend<T>(&self, work: impl FnOnce() -> T) -> T {
        self.shared.bar.suspend(work)
    }
}

impl Drop for StageBar {
    fn drop(&mut self) {
        self.still_there = None;
        if let Some(ticker) = self.ticker.take() {
            // It cannot panic; and if it did, there would be nothing to save.
            let _ = ticker.join();
        }
        self.shared.bar.finish_and_clear();
        *ON_SCREEN.lock() = None;
    }
}

impl Shared {
    /// Looks at what the run does, and draws.
    fn refresh(&self) {
        let live = self.run.as_ref().and_then(RunReader::live);
        {
            let mut stage = self.stage.lock();
            (stage.elapsed, stage.live) = (self.began.elapsed(), live);
        }
        self.draw();
    }

    fn draw(&self) {
        let size = Term::stderr().size_checked();
        // A character in the last column would make some terminals begin a new line.
        let width = size.map_or(USUAL_WIDTH, |(_, columns)| usize::from(columns)).saturating_sub(1);
        let (first, second) = {
            let stage = self.stage.lock();
            let below = stage.live.as_ref().map(|live| second_line(live, width));
            let bank = stage.bank.as_ref().map(|bank| bank_lines(bank, width)).unwrap_or_default();
            (stage.first_line(width), bank.into_iter().chain(below).collect::<Vec<_>>())
        };
        self.bar.set_prefix(first);
        self.bar.set_message(second.join("\n"));
    }
}

impl StageView {
    fn set_done(&mut self, done: usize, elapsed: Duration) {
        if elapsed <= AT_ONCE {
            self.at_once = done;
        }
        (self.done, self.elapsed) = (done, elapsed);
    }

    /// Where the stage is: its place, a bar, its rate and the time that it still takes.
    fn first_line(&self, width: usize) -> String {
        let head = format!("{} {}/{}", self.place, self.done, self.total);
        let n_worked = self.done.saturating_sub(self.at_once);
        let rate = n_worked as f64 / self.elapsed.as_secs_f64();
        let mut parts = Vec::new();
        if n_worked > 0 && self.elapsed >= LEAST_RATED {
            parts.push((1, format!("{rate:.1}/s")));
            let n_left = self.total.saturating_sub(self.done);
            if n_left > 0 {
                // A trial may be decided before its last rollout.
                let is_trial = self.bank.as_ref().is_some_and(|bank| bank.trial.is_some());
                let at_most = if is_trial { "at most " } else { "" };
                parts.push((2, format!("{at_most}{} left", seconds(n_left as f64 / rate))));
            }
        }
        let tail = fitting(parts, width.saturating_sub(measure_text_width(&head) + GAP.len()));
        let text = if tail.is_empty() { head.clone() } else { format!("{head}{GAP}{tail}") };
        let room = width.saturating_sub(measure_text_width(&text) + GAP.len()).min(LONGEST_BAR);
        if room < SHORTEST_BAR {
            return truncate_str(&text, width, CUT).into_owned();
        }
        let n_full = (room * self.done).checked_div(self.total).unwrap_or(0).min(room);
        let bar = format!("{}{}", "━".repeat(n_full), "─".repeat(room - n_full));
        if tail.is_empty() { format!("{head}{GAP}{bar}") } else { format!("{head}{GAP}{bar}{GAP}{tail}") }
    }
}

/// The trial under way, and the bank so far.
fn bank_lines(bank: &BankProgress, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(trial) = &bank.trial {
        let known = progress::known(trial);
        let room = width.saturating_sub(measure_text_width(&known) + GAP.len());
        let tried = progress::tried(trial);
        let tried = truncate_str(&tried, room, CUT);
        lines.push(truncate_str(&format!("{tried}{GAP}{known}"), width, CUT).into_owned());
    }
    let mut parts = Vec::new();
    if let Some(found) = &bank.validation {
        let words = validation(bank.baseline, found.score, found.n_items);
        parts.push((3, format!("validation {words}")));
    }
    parts.push((2, format!("{} active, {} waiting", counted(bank.n_active as u64, "skill"), bank.n_waiting)));
    let trials = counted(u64::from(bank.n_trials), "trial");
    parts.push((1, format!("{trials}, {} admitted", bank.n_admitted)));
    lines.push(fitting(parts, width));
    lines
}

/// What the run does and has spent, each against its cap where there is one.
fn second_line(live: &LiveState, width: usize) -> String {
    let pulse = &live.pulse;
    let Spend { calls, tokens, money, cap_calls, cap_tokens, cap_money, cap_seconds, .. } = pulse.spend;
    let of = |cap: Option<String>| cap.map(|cap| format!(" of {cap}")).unwrap_or_default();
    let mut parts = vec![(4, format!("{} in flight", pulse.in_flight))];
    if pulse.waiting > 0 {
        parts.push((3, format!("{} waiting", pulse.waiting)));
    }
    if let Some(workers) = workers::short(live) {
        parts.push((4, workers));
    }
    if let Some(trouble) = &pulse.trouble {
        if pulse.retrying > 0 {
            parts.push((8, format!("{} retrying", pulse.retrying)));
        }
        parts.push((0, format!("({})", harmless(trouble))));
    }
    // What has a cap may stop the run, so it is worth more room than what has none.
    let capped = |cap: bool, usual: u8| if cap { 5 } else { usual };
    parts.push((
        capped(cap_calls.is_some(), 2),
        format!("{}{} calls", grouped(calls), of(cap_calls.map(grouped))),
    ));
    let tokens = format!("{}{} tokens", short(tokens), of(cap_tokens.map(short)));
    parts.push((capped(cap_tokens.is_some(), 1), tokens));
    if money > 0.0 || cap_money.is_some() {
        let cap = of(cap_money.map(|cap| format!("${cap:.2}")));
        parts.push((6, format!("${money:.2}{cap} spent")));
    }
    if let Some(cap) = cap_seconds {
        parts.push((5, format!("{} of {}", seconds(pulse.spend.seconds), seconds(cap))));
    }
    if let Some(left) = live.run_seconds_left() {
        parts.push((7, format!("run {} left", seconds_left(left))));
    }
    fitting(parts, width)
}

/// The parts in their order, of which those that matter least (with the lowest number) go until the others fit.
fn fitting(mut parts: Vec<(u8, String)>, width: usize) -> String {
    loop {
        let line = parts.iter().map(|(_, part)| part.as_str()).collect::<Vec<_>>().join(GAP);
        if measure_text_width(&line) <= width {
            return line;
        }
        let least = parts.iter().enumerate().min_by_key(|(_, (matters, _))| *matters).map(|(place, _)| place);
        match least {
            Some(place) => drop(parts.remove(place)),
            None => return String::new(),
        }
    }
}

/// A large number in few characters.
fn short(number: u64) -> String {
    match number {
        ..=9_999 => grouped(number),
        10_000..=999_999 => format!("{} k", number / 1_000),
        1_000_000.. => format!("{:.1} M", number as f64 / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run_text::made;
    use skillrl::core::StepIdx;
    use skillrl::pipeline::run_dir::live::Pulse;

    fn live(spend: Spend) -> LiveState {
        LiveState {
            format_version: "1.0".to_owned(),
            pid: 1,
            started_unix_ms: 0,
            updated_unix_ms: 120_000,
            total_steps: 12,
            finished_at_start: 0,
            finished_steps: 2,
            step: Some(StepIdx(3)),
            stage: Some("rollout".to_owned()),
            stage_started_unix_ms: 100_000,
            done: 23,
            done_at_once: 0,
            total: 40,
            bank: None,
            pulse: Pulse { in_flight: 12, limit: 64, waiting: 3, spend, ..Pulse::default() },
        }
    }

    fn stage(done: usize) -> StageView {
        let (place, elapsed) = ("step 3/12 rollout".to_owned(), Duration::from_secs(20));
        StageView { place, done, total: 40, at_once: 0, elapsed, live: None, bank: None }
    }

    #[track_caller]
    fn check(line: &str, width: usize, expect: &str) {
        assert_eq!(line, expect);
        assert!(measure_text_width(line) <= width, "{line:?} in {width}");
    }

    #[test]
    fn a_stage_has_its_bar_where_there_is_room() {
        let expect = "step 3/12 rollout 23/40  ━━━━━━━━━━━━━━━━━─────────────  1.1/s  14.8 s left";
        check(&stage(23).first_line(100), 100, expect);
        let expect = "step 3/12 rollout 23/40  ━━━━━━━━━━━━━━━━────────────  1.1/s  14.8 s left";
        check(&stage(23).first_line(73), 73, expect);
        check(&stage(23).first_line(39), 39, "step 3/12 rollout 23/40  14.8 s left");
        check(&stage(23).first_line(30), 30, "step 3/12 rollout 23/40");
        check(&stage(23).first_line(12), 12, "step 3/12 r…");
        check(&stage(0).first_line(39), 39, "step 3/12 rollout 0/40  ───────────────");
        check(&stage(40).first_line(39), 39, "step 3/12 rollout 40/40  2.0/s");
        let empty = StageView { total: 0, ..stage(0) };
        check(&empty.first_line(39), 39, "step 3/12 rollout 0/0  ────────────────");
    }

    #[test]
    fn a_stage_that_has_just_begun_has_no_rate_and_what_was_kept_is_not_counted() {
        let mut stage = stage(0);
        stage.set_done(20, Duration::from_millis(1));
        check(&stage.first_line(39), 39, "step 3/12 rollout 20/40  ━━━━━━━───────");
        stage.set_done(21, Duration::from_millis(999));
        check(&stage.first_line(39), 39, "step 3/12 rollout 21/40  ━━━━━━━───────");
        stage.set_done(22, Duration::from_secs(2));
        check(&stage.first_line(49), 49, "step 3/12 rollout 22/40  1.0/s  18.0 s left");
    }

    #[test]
    fn a_trial_says_what_is_known_of_it_where_there_is_room() {
        let bank = made::bank();
        let stage =
            StageView { place: "round 1/3 trial 8".to_owned(), bank: Some(bank.clone()), ..stage(20) };
        check(
            &stage.first_line(79),
            79,
            "round 1/3 trial 8 20/40  ━━━━━━━━━━━━━─────────────  1.0/s  at most 20.0 s left",
        );
        let lines = |width| bank_lines(&bank, width);
        let [trial, so_far] = &lines(119)[..] else { panic!("{:?}", lines(119)) };
        check(
            trial,
            119,
            "heat_002 \"Open the microwave before you heat\" (heat)  +12 points (-3 to +28), e 3.21, admits at 20",
        );
        check(
            so_far,
            119,
            "validation 41.7 % → 58.3 % (42.2 to 72.9 %, 36 items)  4 skills active, 2 waiting  7 trials, 3 admitted",
        );
        let [trial, so_far] = &lines(79)[..] else { panic!("{:?}", lines(79)) };
        check(trial, 79, "heat_002 \"Open the microwave bef…  +12 points (-3 to +28), e 3.21, admits at 20");
        check(so_far, 79, "validation 41.7 % → 58.3 % (42.2 to 72.9 %, 36 items)");
        for width in [1, 20] {
            assert!(lines(width).iter().all(|line| measure_text_width(line) <= width), "{:?}", lines(width));
        }
    }

    #[test]
    fn what_is_tried_again_is_said_and_why_where_there_is_room() {
        let mut live = live(Spend { calls: 7, tokens: 12_000, ..Spend::default() });
        (live.pulse.retrying, live.pulse.trouble) = (2, Some("HTTP 500: boom; attempt 3 of 8".to_owned()));
        let expect = "12 in flight  3 waiting  2 retrying  (HTTP 500: boom; attempt 3 of 8)  7 calls  12 k tokens  run 10 min left";
        check(&second_line(&live, 150), 150, expect);
        check(
            &second_line(&live, 79),
            79,
            "12 in flight  3 waiting  2 retrying  7 calls  12 k tokens  run 10 min left",
        );
        check(&second_line(&live, 20), 20, "2 retrying");
    }

    #[test]
    fn what_a_run_spends_stands_against_its_caps_and_what_matters_stays() {
        let spend = Spend {
            calls: 1_412,
            tokens: 2_345_678,
            money: 0.4213,
            seconds: 120.0,
            cap_calls: Some(5_000),
            cap_money: Some(2.0),
            ..Spend::default()
        };
        let expect = "12 in flight  3 waiting  1,412 of 5,000 calls  2.3 M tokens  $0.42 of $2.00 spent  run 10 min left";
        check(&second_line(&live(spend), 110), 110, expect);
        let expect = "12 in flight  1,412 of 5,000 calls  $0.42 of $2.00 spent  run 10 min left";
        check(&second_line(&live(spend), 79), 79, expect);
        check(&second_line(&live(spend), 41), 41, "$0.42 of $2.00 spent  run 10 min left");
        check(&second_line(&live(spend), 5), 5, "");
        let first =
            LiveState { finished_steps: 0, ..live(Spend { calls: 7, tokens: 12_000, ..Spend::default() }) };
        check(&second_line(&first, 79), 79, "12 in flight  3 waiting  7 calls  12 k tokens");
        let capped = Spend { cap_seconds: Some(3_600.0), seconds: 120.0, ..Spend::default() };
        let expect = "12 in flight  2.0 min of 1.0 h  run 10 min left";
        check(&second_line(&live(capped), 50), 50, expect);
    }
}
