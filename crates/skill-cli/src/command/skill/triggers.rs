//! `skillrl skill triggers`: how often an agent loads a skill.

use super::ended;
use super::session::{Session, queries_file, skills_at, store_error};
use super::wait::through_limits;
use crate::args::skill::TriggersArgs;
use crate::command::{CommandError, block_on, print_json, print_wrapped, say};
use skill_agents::measure::{Measured, Stop, measure};
use skill_agents::query::read_queries;
use skill_agents::train::{Writer as _, draft_prompt};
use skillrl::pipeline::StopSignal;
use skillrl::reports::TriggersView;
use std::fmt::Write as _;

/// How the first Ctrl-C is answered.
const STOPPING: &str = "stopping; the runs that are complete stay on record";

pub(crate) fn run(args: &TriggersArgs) -> crate::Result {
    if let Some(n) = args.draft {
        return draft(args, n);
    }
    let mut session = Session::open(&args.measure, true)?;
    session.caps.only_first = args.estimate;
    let inputs = session.keep_inputs()?;
    let measured = measured(&session, args.measure.wait)?;
    let found = inputs.report(&measured);
    let text = crate::output::pretty_json(&found);
    let path = session.store.directory().join("triggers.json");
    session.store.write(&path, text.as_bytes()).map_err(|error| store_error(&error))?;
    match args.measure.json {
        true => print_json(&found)?,
        // What one run shows is in its line.
        false if measured.stop == Some(Stop::Estimated) => {}
        false => {
            let n_starts = session.store.n_starts().map_err(|error| store_error(&error))?;
            print_wrapped(&TriggersView::of(&found, n_starts).text())?;
        }
    }
    write_report(&session);
    match measured.stop {
        Some(Stop::Calls(_)) if args.measure.replay => Ok(()),
        Some(Stop::Estimated) | None => match (found.counted, found.failed.first()) {
            (0, Some(run)) => Err(ended::without_a_run(&run.said()).into()),
            _ => Ok(()),
        },
        Some(stop) => Err(ended::of(&stop).into()),
    }
}

/// Measures while Ctrl-C is listened to.
pub(crate) fn measured(session: &Session, waits: bool) -> crate::Result<Measured> {
    let stop = StopSignal::default();
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
    let work = through_limits(waits, &stop, &session.launcher.cancel, runs);
    block_on(stop.clone(), STOPPING, work)?.map_err(|error| store_error(&error))
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
    let stop = StopSignal::default();
    let write = async || session.write(&prompt).await;
    let work = through_limits(args.measure.wait, &stop, &session.launcher.cancel, write);
    let reply = block_on(stop.clone(), STOPPING, work)?.map_err(|error| store_error(&error))?;
    let reply = reply.map_err(|stop| ended::of(&stop))?;
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
