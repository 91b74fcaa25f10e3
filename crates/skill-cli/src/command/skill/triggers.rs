//! `skillrl skill triggers`: how often an agent loads a skill.

use super::ended;
use super::session::{Session, queries_file, skills_at, store_error};
use crate::args::skill::TriggersArgs;
use crate::command::{CommandError, print_json, print_wrapped, say};
use crate::consent::confirm;
use crate::exit_code;
use crate::table::grouped;
use skill_agents::gate::ALPHA;
use skill_agents::kept::Kept;
use skill_agents::measure::{Measured, Stop, measure};
use skill_agents::query::read_queries;
use skill_agents::report::TriggerReport;
use skill_agents::train::{Writer as _, draft_prompt};
use skillrl::reports::TriggersView;
use std::fmt::Write as _;
use std::path::Path;

pub(crate) fn run(args: &TriggersArgs) -> crate::Result {
    if let Some(n) = args.draft {
        return draft(args, n);
    }
    let earlier = args.against.as_deref().map(earlier).transpose()?;
    let mut session = Session::open(&args.measure, true)?;
    session.caps.only_first = args.estimate;
    agreed(args, &session)?;
    let inputs = session.keep_inputs()?;
    let measured = measured(&session, args.measure.wait)?;
    let found = inputs.report(&measured);
    let text = crate::output::pretty_json(&found);
    let path = session.store.directory().join("triggers.json");
    session.store.write(&path, text.as_bytes()).map_err(|error| store_error(&error))?;
    match args.measure.common.json {
        true => print_json(&found)?,
        // What one run shows is in its line.
        false if measured.stop == Some(Stop::Estimated) => {}
        false => {
            let n_starts = session.store.n_starts().map_err(|error| store_error(&error))?;
            let view = TriggersView::of(&found, n_starts).with_inputs(&inputs, None);
            print_wrapped(&view.text())?;
        }
    }
    write_report(&session);
    check(args, &found, earlier.as_ref(), measured.stop.as_ref())?;
    match measured.stop {
        Some(Stop::Calls(_)) if args.measure.replay => Ok(()),
        Some(Stop::Estimated) | None => match (found.counted, found.failed.first()) {
            (0, Some(run)) => Err(ended::without_a_run(&run.said()).into()),
            _ => Ok(()),
        },
        Some(stop) => Err(ended::of(&stop).into()),
    }
}

/// Says what the first measurement in a directory takes, and asks a person at a terminal.
fn agreed(args: &TriggersArgs, session: &Session) -> crate::Result {
    let measure = &args.measure;
    let n_made = session.store.n_starts().map_err(|error| store_error(&error))?;
    if n_made > 0 || measure.replay {
        return Ok(());
    }
    let n_queries = session.queries.len();
    let n_starts = if args.estimate { 1 } else { n_queries * session.repetitions };
    if !session.is_quiet {
        say(&format!(
            "at most {} starts of {} ({n_queries} queries, {} runs each), the cost is known after the first run",
            grouped(n_starts as u64),
            session.setup.agent.title,
            session.repetitions,
        ));
    }
    confirm(args.yes || args.estimate || measure.calls.is_some() || measure.budget.is_some())
}

/// The report of an earlier measurement.
fn earlier(dir: &Path) -> crate::Result<TriggerReport> {
    let kept = Kept::read(dir).map_err(|error| ended::of_store(&error))?;
    Ok(kept.report())
}

/// Says how recall has changed, and fails where a limit is not kept; a measurement that is not complete decides nothing.
fn check(
    args: &TriggersArgs,
    found: &TriggerReport,
    earlier: Option<&TriggerReport>,
    stop: Option<&Stop>,
) -> crate::Result<()> {
    let percent = |share: f64| format!("{:.0} %", share * 100.0);
    let mut broken = Vec::new();
    for (name, rates) in &found.skills {
        if let Some(change) = earlier.and_then(|earlier| found.recall_change(earlier, name)) {
            let words = format!(
                "the recall of {name} was {} and is {}, on {} queries of both (p {:.3})",
                percent(change.before),
                percent(change.now),
                change.queries,
                change.p
            );
            match args.fail_on_drop && change.has_dropped(ALPHA) {
                true => broken.push(words),
                false => say(&words),
            }
        } else if earlier.is_some() && rates.recall.is_some() {
            say(&format!("warning: the earlier measurement has no query of {name}"));
        }
        let recall = rates.recall.as_ref().map(|rate| rate.rate);
        if let (Some(least), Some(recall)) = (args.min_recall, recall)
            && recall < least
        {
            broken.push(format!("the recall of {name} is {}, below {}", percent(recall), percent(least)));
        }
    }
    let is_whole = stop.is_none_or(|stop| matches!(stop, Stop::Calls(_)) && args.measure.replay);
    if broken.is_empty() || !is_whole {
        return Ok(());
    }
    Err(CommandError::new(broken.join("; ")).with_code(exit_code::REGRESSED).into())
}

/// Measures while Ctrl-C is listened to.
pub(crate) fn measured(session: &Session, waits: bool) -> crate::Result<Measured> {
    let notify = |notice: &skill_agents::measure::Notice<'_>| session.notify(notice);
    let runs = async || {
        measure(
            &session.setup,
            &session.queries,
            session.repetitions,
            &session.store,
            &session.launcher,
            &session.caps,
            &notify,
        )
        .await
    };
    session.through_limits(waits, |measured: &Measured| measured.stop.as_ref(), runs)
}

/// Writes the page of the directory; one that cannot be written takes nothing from the runs.
pub(crate) fn write_report(session: &Session) {
    let directory = session.store.directory();
    match skillrl::report::write(directory, None) {
        Ok(path) if !session.is_quiet => say(&format!("report: {}", path.display())),
        Ok(_) => {}
        Err(error) => tracing::warn!(%error, "the report could not be written; `skillrl report` writes it"),
    }
}

/// Has the agent write queries, which a person edits.
fn draft(args: &TriggersArgs, n: u16) -> crate::Result {
    let path = queries_file(&args.measure);
    if path.exists() {
        let message = format!("{} is there already", path.display());
        return Err(CommandError::new(message).with_hint("name another file with --queries").into());
    }
    let session = Session::open(&args.measure, false)?;
    let skills = skills_at(&args.measure.skills)?;
    let prompt = draft_prompt(session.setup.agent, &skills, usize::from(n));
    let write = async || session.write(&prompt).await;
    let reply = session
        .through_limits(args.measure.wait, |reply: &Result<String, Stop>| reply.as_ref().err(), write)?
        .map_err(|stop| ended::of(&stop))?;
    let lines: Vec<&str> = reply.lines().map(str::trim).filter(|line| line.starts_with('{')).collect();
    let first = skills.first().map(|skill| skill.listed_name(session.setup.agent)).unwrap_or_default();
    let queries = read_queries(&lines.join("\n"), "the reply", first).map_err(|fault| {
        CommandError::new(format!("the draft cannot be used: {fault}"))
            .with_hint("run the command again with another number")
    })?;
    let mut text = String::new();
    for query in &queries {
        let should = match (&query.skill, skills.len()) {
            (None, _) => serde_json::Value::Bool(false),
            (Some(_), 1) => serde_json::Value::Bool(true),
            (Some(name), _) => serde_json::Value::String(name.clone()),
        };
        let line = serde_json::json!({"query": query.query, "should": should, "near_miss": query.near_miss, "reviewed": false});
        let _ = writeln!(text, "{line}");
    }
    session.store.write(&path, text.as_bytes()).map_err(|error| store_error(&error))?;
    say(&format!(
        "{} queries are in {}: read and edit them, and set \"reviewed\": true; training uses no others",
        queries.len(),
        path.display()
    ));
    Ok(())
}
