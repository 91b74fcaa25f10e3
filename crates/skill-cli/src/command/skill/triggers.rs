//! `skillrl skill triggers`: how often an agent loads a skill.

use super::described::described;
use super::ended::Ended;
use super::session::{Session, queries_file, skills_at, store_error};
use super::wait::through_limits;
use crate::args::skill::TriggersArgs;
use crate::command::{UsageError, block_on, print, print_wrapped, say};
use skill_agents::measure::{Caps, Measured, Stop, measure};
use skill_agents::query::read_queries;
use skill_agents::report::{Report, report};
use skill_agents::train::Writer as _;
use skillrl::pipeline::StopSignal;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// How the first Ctrl-C is answered.
const STOPPING: &str = "stopping; the runs that are complete stay on record";

pub(crate) fn run(args: &TriggersArgs) -> anyhow::Result<()> {
    if let Some(n) = args.draft {
        return draft(args, n);
    }
    let mut session = Session::open(&args.measure, true, !args.replay)?;
    session.caps.only_first = args.estimate;
    if args.replay {
        // No start is allowed, so nothing but the record is read.
        session.caps = Caps { calls: Some(0), ..session.caps };
    }
    let measured = measured(&session, args.measure.wait)?;
    let found = made(&session, &measured);
    let text = serde_json::to_string_pretty(&found)?;
    let path = session.store.directory().join("triggers.json");
    session.store.write(&path, text.as_bytes()).map_err(|error| store_error(&error))?;
    let text = described(&found);
    let path = session.store.directory().join("report.txt");
    session.store.write(&path, text.as_bytes()).map_err(|error| store_error(&error))?;
    match args.measure.json {
        true => print(&format!("{}\n", serde_json::to_string(&found)?))?,
        false => print_wrapped(&text)?,
    }
    match measured.stop {
        Some(Stop::Calls(_)) if args.replay => Ok(()),
        Some(Stop::Estimated) | None => match (found.counted, found.failed.first()) {
            (0, Some(run)) => Err(Ended::without_a_run(&run.said()).into()),
            _ => Ok(()),
        },
        Some(stop) => Err(Ended::of(&stop).into()),
    }
}

/// Measures while Ctrl-C is listened to.
pub(crate) fn measured(session: &Session, waits: bool) -> anyhow::Result<Measured> {
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

/// The report of what was measured.
pub(crate) fn made(session: &Session, measured: &Measured) -> Report {
    let agent = session.setup.agent;
    let entry = |skill: &skill_agents::Skill| {
        let n_chars = skill.listed_name(agent).chars().count() + skill.listed_text(agent).chars().count();
        (skill.listed_name(agent).to_owned(), n_chars)
    };
    let skills: BTreeMap<String, usize> = session.setup.skills.iter().map(entry).collect();
    report(&agent.name, &session.queries, session.repetitions, &skills, measured)
}

/// Has the agent write queries, which a person edits.
fn draft(args: &TriggersArgs, n: u16) -> anyhow::Result<()> {
    let path = queries_file(&args.measure);
    if path.exists() {
        let message = format!("{} is there already", path.display());
        return Err(UsageError::new(message).with_hint("name another file with --queries").into());
    }
    let session = Session::open(&args.measure, false, true)?;
    let skills = skills_at(&args.measure.skills)?;
    let prompt = draft_prompt(&session, &skills, n);
    let stop = StopSignal::default();
    let write = async || session.write(&prompt).await;
    let work = through_limits(args.measure.wait, &stop, &session.launcher.cancel, write);
    let reply = block_on(stop.clone(), STOPPING, work)?.map_err(|error| store_error(&error))?;
    let reply = reply.map_err(|stop| Ended::of(&stop))?;
    let lines: Vec<&str> = reply.lines().map(str::trim).filter(|line| line.starts_with('{')).collect();
    let first = skills.first().map(|skill| skill.listed_name(session.setup.agent)).unwrap_or_default();
    let queries = read_queries(&lines.join("\n"), "the reply", first).map_err(|fault| {
        UsageError::new(format!("the draft cannot be used: {fault}"))
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

fn draft_prompt(session: &Session, skills: &[skill_agents::Skill], n: u16) -> String {
    let agent = session.setup.agent;
    let n_should = n.div_ceil(2);
    let n_near = n.saturating_sub(n_should).div_ceil(2);
    let n_far = n.saturating_sub(n_should).saturating_sub(n_near);
    let mut text = format!(
        "Write requests that people might type to the coding agent {}, to test whether it loads the right skill.\n\n",
        agent.title
    );
    for skill in skills {
        let _ = writeln!(text, "Skill {}: {}\n", skill.listed_name(agent), skill.description);
    }
    let _ = writeln!(
        text,
        "Write {n_should} requests for which a skill should be loaded, {n_near} near misses (they share words with a \
         skill and need something else), and {n_far} requests about other things. Write as people do: concrete, with \
         file names and details, of different length, without the name of the skill and without words copied from its \
         description. Reply with one JSON object in each line and nothing else: \
         {{\"query\": \"..\", \"should\": \"NAME OF THE SKILL\" or false, \"near_miss\": true or false}}"
    );
    text
}
