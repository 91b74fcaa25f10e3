//! `follow_run`: what happens in a run, without asking again and again.

use crate::answer::Position;
use crate::error::ToolError;
use crate::room::Room;
use crate::shared::Shared;
use rmcp::RoleServer;
use rmcp::model::ProgressNotificationParam;
use rmcp::service::RequestContext;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use skill_report::RunPhase;
use skill_report::watch::{Found, Line, Now, Told};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

pub(super) const DESCRIPTION: &str = "\
Waits until something happens in a training run, and says what: pass `next_cursor` of the last answer, and you get \
each event once. Without a cursor it answers at once with the latest news. It returns when what you \
wait for has happened, when the run is not training any more, or when the time is up. Costs nothing; waiting costs you \
less than asking often.";

/// Seconds that are waited where nobody says how long: clients give up on calls after a minute, as a rule.
const DEFAULT_WAIT_S: u32 = 45;
const MAX_WAIT_S: u32 = 600;
/// The most lines of one answer; the latest are the ones that are told.
const MAX_LINES: usize = 40;
const MAX_LINE: usize = 600;

/// What is waited for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Until {
    /// Anything that the log tells: every stage too.
    Anything,
    /// The next decision, measurement or warning.
    #[default]
    Step,
    /// The end of the run, or its stop.
    End,
}

impl Until {
    fn is_met_by(self, line: &Line) -> bool {
        const OF_STEPS: [&str; 6] =
            ["baseline_measured", "step_finished", "test_measured", "warning", "run_finished", "run_stopped"];
        match self {
            Self::Anything => true,
            Self::Step => OF_STEPS.contains(&line.event.as_str()),
            Self::End => false,
        }
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    /// The name of the run, as list_runs gives it.
    run: String,
    /// `next_cursor` of the answer before.
    #[serde(default)]
    cursor: Option<String>,
    /// What to wait for: the next step by default.
    #[serde(default)]
    until: Until,
    /// The most seconds to wait, up to 600; 45 by default. Stay below the time after which your client gives up.
    #[serde(default)]
    #[schemars(range(max = 600))]
    wait_s: Option<u32>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Output {
    /// The run.
    run: String,
    /// Whether anything has happened since the cursor.
    has_changed: bool,
    /// Where the run is now and what it has spent.
    now: Position,
    /// What has happened since the cursor, in order.
    events: Vec<Event>,
    /// Events since the cursor that are left out here, the oldest ones; null if that is no longer known.
    n_events_left_out: Option<usize>,
    /// Pass it as `cursor` the next time.
    next_cursor: String,
    /// What to do next.
    note: String,
}

/// Something that has happened.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Event {
    /// When, in milliseconds since 1970.
    unix_ms: u64,
    /// What kind of event it is; null for one that this version does not know.
    event: Option<&'static str>,
    /// What has happened, as the run's log says it.
    untrusted_text: String,
}

impl Event {
    fn of(line: &Line, room: &mut Room) -> Self {
        const KNOWN: [&str; 9] = [
            "run_started",
            "baseline_measured",
            "step_started",
            "stage_finished",
            "step_finished",
            "test_measured",
            "warning",
            "run_finished",
            "run_stopped",
        ];
        Self {
            unix_ms: line.unix_ms,
            event: KNOWN.into_iter().find(|known| *known == line.event),
            untrusted_text: room.take(&line.text, MAX_LINE),
        }
    }
}

/// What a client was told: how much of the log, and how the run was.
struct Cursor {
    line: u64,
    state: String,
}

impl Cursor {
    fn parse(text: &str) -> Result<Self, ToolError> {
        let parts = text.split_once('-').and_then(|(line, state)| Some((line.parse().ok()?, state)));
        let (line, state) = parts.ok_or_else(|| {
            ToolError::new(
                "this is not a cursor of follow_run",
                "pass `next_cursor` of an earlier answer as it is, or no cursor for the latest news",
            )
        })?;
        Ok(Self { line, state: state.to_owned() })
    }

    fn write(told: &Told, now: &Now) -> String {
        format!("{}-{}", told.line(), now.state.as_str())
    }
}

pub(super) async fn run(
    shared: Arc<Shared>,
    input: Input,
    context: &RequestContext<RoleServer>,
) -> Result<Output, ToolError> {
    let cursor = input.cursor.as_deref().map(Cursor::parse).transpose()?;
    let (found, _) = shared.run(&input.run).await?;
    let wait = Duration::from_secs(u64::from(input.wait_s.unwrap_or(DEFAULT_WAIT_S).min(MAX_WAIT_S)));
    let following = follow(&shared, &input, &found, cursor, wait, context);
    match context.ct.run_until_cancelled(following).await {
        Some(outcome) => outcome,
        None => Err(ToolError::new("the client no longer waits", "call it again with the same cursor")),
    }
}

async fn follow(
    shared: &Shared,
    input: &Input,
    found: &Found,
    cursor: Option<Cursor>,
    wait: Duration,
    context: &RequestContext<RoleServer>,
) -> Result<Output, ToolError> {
    let began = Instant::now();
    let (watch, mut changes) =
        shared.watches.watch(shared.runs.runs().ok_or_else(gone)?, &input.run, &found.path, &shared.stop);
    let mut told = Told::after(cursor.as_ref().map_or(0, |cursor| cursor.line));
    let (mut lines, mut n_left_out) = (Vec::new(), 0);
    let (mut has_lost_lines, mut is_met) = (false, cursor.is_none());
    let mut now = None;
    let mut progress = Progress::new(context, wait);
    loop {
        // Marked as seen before it is looked at: what comes meanwhile is looked at the next time.
        changes.mark_unchanged();
        let news = watch.news(&mut told);
        has_lost_lines |= news.has_lost_lines && cursor.is_some();
        is_met |= news.lines.iter().any(|line| input.until.is_met_by(line));
        lines.extend(news.lines);
        let n_over = lines.len().saturating_sub(MAX_LINES);
        lines.drain(..n_over);
        n_left_out += n_over;
        now = news.now.or(now);
        let mut waits_for_look = false;
        if let Some(now) = &now {
            let is_other = cursor.as_ref().is_some_and(|cursor| cursor.state != now.state.as_str());
            if is_met || is_other || now.state != RunPhase::Training || began.elapsed() >= wait {
                if !is_behind(shared, &input.run, now, began).await {
                    break;
                }
                waits_for_look = true;
            } else {
                progress.tell(began.elapsed(), now).await;
            }
        }
        // Before the first look there is nothing to tell, however little time there is.
        let rest = wait.saturating_sub(began.elapsed());
        let rest = match &now {
            None => rest.max(LOOK),
            Some(_) if waits_for_look => LAG.saturating_sub(began.elapsed()),
            Some(_) => rest,
        };
        match tokio::time::timeout(rest, changes.changed()).await {
            Ok(Ok(())) => {}
            Err(_) if now.is_some() => {}
            Ok(Err(_)) | Err(_) => return Err(gone()),
        }
    }
    let now = now.ok_or_else(gone)?;
    let is_other = cursor.as_ref().is_none_or(|cursor| cursor.state != now.state.as_str());
    let has_changed = is_other || !lines.is_empty();
    let mut room = Room::default();
    Ok(Output {
        run: input.run.clone(),
        has_changed,
        events: lines.into_iter().map(|line| Event::of(&line, &mut room)).collect(),
        n_events_left_out: (!has_lost_lines).then_some(n_left_out),
        next_cursor: Cursor::write(&told, &now),
        note: next(&now).to_owned(),
        now: Position::from(&now),
    })
}

/// How long a first look may take.
const LOOK: Duration = Duration::from_secs(30);
/// How long it may take until a run that somebody watches is looked at again.
const LAG: Duration = Duration::from_secs(2);

/// True if the run has been resumed or has ended since the watch has looked at it: a watch outlives its last viewer for a
/// moment, and knows what it saw then.
async fn is_behind(shared: &Shared, name: &str, now: &Now, began: Instant) -> bool {
    began.elapsed() < LAG && shared.run(name).await.is_ok_and(|(_, row)| row.state != now.state)
}

fn gone() -> ToolError {
    ToolError::new(
        "the run could not be looked at",
        "call list_runs to see whether it is there, and try again",
    )
}

/// Where a run is, as somebody who looks once sees it.
pub(super) async fn now(
    shared: &Shared,
    name: &str,
    found: &Found,
    told: &mut Told,
) -> Result<Now, ToolError> {
    let (watch, mut changes) =
        shared.watches.watch(shared.runs.runs().ok_or_else(gone)?, name, &found.path, &shared.stop);
    let (began, mut now) = (Instant::now(), None);
    loop {
        changes.mark_unchanged();
        now = watch.news(told).now.or(now);
        let rest = match &now {
            Some(seen) if is_behind(shared, name, seen, began).await => LAG.saturating_sub(began.elapsed()),
            Some(seen) => return Ok(seen.clone()),
            None => LOOK,
        };
        match tokio::time::timeout(rest, changes.changed()).await {
            Ok(Ok(())) => {}
            Err(_) if now.is_some() => {}
            Ok(Err(_)) | Err(_) => return Err(gone()),
        }
    }
}

fn next(now: &Now) -> &'static str {
    match now.state {
        RunPhase::Training => "the run continues: call follow_run again with next_cursor",
        RunPhase::Finished => "run finished: call read_run for the result, read_skill for the skill",
        RunPhase::Stopped | RunPhase::Interrupted => {
            "no process works on the run; start_run with the same configuration resumes it"
        }
        RunPhase::Damaged => "the files of the run cannot be read: tell the person whom you work for",
    }
}

/// What a client is told that gave a token for it.
struct Progress<'a> {
    context: &'a RequestContext<RoleServer>,
    wait: Duration,
    last: f64,
    words: String,
}

impl<'a> Progress<'a> {
    fn new(context: &'a RequestContext<RoleServer>, wait: Duration) -> Self {
        Self { context, wait, last: -1.0, words: String::new() }
    }

    /// Tells how long is waited, of how long, and where the run is; nothing while it stays where it is.
    async fn tell(&mut self, waited: Duration, now: &Now) {
        let Some(token) = self.context.meta.get_progress_token() else { return };
        let (seconds, words) = (waited.as_secs_f64(), Position::from(now).in_words());
        if seconds <= self.last || words == self.words {
            return;
        }
        let progress = ProgressNotificationParam::new(token, seconds)
            .with_total(self.wait.as_secs_f64())
            .with_message(words.clone());
        (self.last, self.words) = (seconds, words);
        if let Err(error) = self.context.peer.notify_progress(progress).await {
            tracing::debug!(%error, "progress could not be told");
        }
    }
}
