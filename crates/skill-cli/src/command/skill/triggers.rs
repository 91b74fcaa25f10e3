//! `skillrl skill triggers`: how often an agent loads a skill.

use super::session::{Ended, Session, queries_file, skills_at, store_error};
use crate::args::skill::TriggersArgs;
use crate::command::{UsageError, block_on, print, print_wrapped, say};
use skill_agents::measure::{Caps, Measured, Stop, measure};
use skill_agents::query::read_queries;
use skill_agents::rates::Rate;
use skill_agents::report::{Report, SkillRates, report};
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
    let measured = measured(&session)?;
    let found = made(&session, &measured);
    let text = serde_json::to_string_pretty(&found)?;
    let path = session.store.directory().join("triggers.json");
    session.store.write(&path, text.as_bytes()).map_err(|error| store_error(&error))?;
    match args.measure.json {
        true => print(&format!("{}\n", serde_json::to_string(&found)?))?,
        false => print_wrapped(&described(&found))?,
    }
    match measured.stop {
        Some(Stop::Calls(_)) if args.replay => Ok(()),
        Some(Stop::Estimated) | None => Ok(()),
        Some(stop) => Err(Ended::of(&stop).into()),
    }
}

/// Measures while Ctrl-C is listened to.
pub(crate) fn measured(session: &Session) -> anyhow::Result<Measured> {
    let stop = StopSignal::default();
    let soon = stop.soon.clone();
    let cancel = session.launcher.cancel.clone();
    let notify = |notice: &skill_agents::measure::Notice<'_>| session.notify(notice);
    let work = async {
        let runs = measure(
            &session.setup,
            &session.queries,
            session.repetitions,
            &session.store,
            &session.launcher,
            &session.caps,
            &notify,
        );
        tokio::pin!(runs);
        tokio::select! {
            measured = &mut runs => measured,
            () = soon.cancelled() => {
                cancel.cancel();
                runs.await
            }
        }
    };
    block_on(stop, STOPPING, work)?.map_err(|error| store_error(&error))
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

fn shown(rate: Option<&Rate>) -> String {
    match rate {
        Some(rate) => format!(
            "{:.0} % [{:.0}, {:.0}] ({} queries, {} runs)",
            rate.rate * 100.0,
            rate.low * 100.0,
            rate.high * 100.0,
            rate.queries,
            rate.runs
        ),
        None => "not measured".to_owned(),
    }
}

/// The report for people.
pub(crate) fn described(found: &Report) -> String {
    let mut text = String::new();
    let versions = found.versions.join(", ");
    let models = found.models.join(", ");
    let _ = writeln!(
        text,
        "{} {versions} {models}: {} of {} runs counted",
        found.agent, found.counted, found.planned
    );
    for (name, rates) in &found.skills {
        let SkillRates { recall, false_positives, near_misses, attempted, listing_tokens } = rates;
        let _ = writeln!(text, "\n{name} (about {listing_tokens} tokens in the listing)");
        let _ = writeln!(text, "  recall           {}", shown(recall.as_ref()));
        let _ = writeln!(text, "  false positives  {}", shown(false_positives.as_ref()));
        let _ = writeln!(text, "  near misses      {}", shown(near_misses.as_ref()));
        if *attempted > 0 {
            let _ = writeln!(text, "  asked for and not loaded in {attempted} runs");
        }
    }
    text.push('\n');
    for row in &found.queries {
        let wanted = row.skill.as_deref().unwrap_or("none");
        let loaded: Vec<String> = row.loaded.iter().map(|(name, n)| format!("{name} {n}")).collect();
        let loaded = if loaded.is_empty() { "nothing".to_owned() } else { loaded.join(", ") };
        let turn = row.first_turn.map(|turn| format!(", turn {turn:.1}")).unwrap_or_default();
        let query: String = row.query.chars().take(60).collect();
        let _ = writeln!(
            text,
            "{}: should load {wanted}; loaded {loaded} of {} runs{turn}: {query}",
            row.id, row.runs
        );
    }
    if found.skills.len() > 1 {
        text.push_str("\nloaded (runs) for queries of\n");
        for (wanted, row) in &found.confusions {
            let row: Vec<String> = row.iter().map(|(name, n)| format!("{name} {n}")).collect();
            let _ = writeln!(text, "  {wanted}: {}", row.join(", "));
        }
    }
    for run in &found.failed {
        let _ = writeln!(text, "failed: {} ({}): {}", run.query, run.repetition, run.why);
    }
    for warning in &found.warnings {
        let _ = writeln!(text, "warning: {warning}");
    }
    let cost = found.cost.map(|cost| format!(", ${cost:.2}")).unwrap_or_default();
    let _ = writeln!(text, "{} tokens in, {} out{cost}", found.input, found.output);
    text
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
    let reply = block_on(StopSignal::default(), STOPPING, session.write(&prompt))?;
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
