//! `skillrl train DIR --agent NAME`: trains the description of a skill.

use super::ended::Ended;
use super::session::{Session, store_error};
use super::wait::through_limits;
use crate::args::skill::{Only, TrainSkillArgs};
use crate::command::{UsageError, block_on, print, print_wrapped, say};
use serde_json::json;
use skill_agents::Skill;
use skill_agents::gate::least_queries;
use skill_agents::query::{Half, Query, halves};
use skill_agents::train::{Fate, Step, Trained, Training};
use skillrl::pipeline::StopSignal;
use std::fmt::Write as _;

const STOPPING: &str = "stopping; the runs that are complete stay on record";

/// A skill and what its training came to.
struct OfSkill {
    initial: Skill,
    name: String,
    trained: Trained,
}

pub(crate) fn run(args: &TrainSkillArgs) -> anyhow::Result<()> {
    let Only::Description = args.only;
    let mut session = Session::open(&args.measure, true, true)?;
    let chosen = chosen(args, &session)?;
    for skill_idx in &chosen {
        check_queries(&session, *skill_idx, args.seed)?;
    }
    let mut all = Vec::new();
    for skill_idx in chosen {
        let Some(initial) = session.setup.skills.get(skill_idx).cloned() else { continue };
        let name = initial.listed_name(session.setup.agent).to_owned();
        let trained = trained(args, &session, skill_idx)?;
        // Skills that are trained later lie beside the new one.
        if let Some(skill) = session.setup.skills.get_mut(skill_idx) {
            skill.clone_from(&trained.skill);
        }
        let has_stopped = trained.stop.is_some();
        all.push(OfSkill { initial, name, trained });
        if has_stopped {
            break;
        }
    }
    finish(args, &session, &all)
}

/// The places of the skills that are trained.
fn chosen(args: &TrainSkillArgs, session: &Session) -> Result<Vec<usize>, UsageError> {
    let skills = &session.setup.skills;
    if args.trained.is_empty() {
        return Ok((0..skills.len()).collect());
    }
    let place = |name: &String| {
        let known: Vec<&str> = skills.iter().map(|skill| skill.folder.as_str()).collect();
        skills.iter().position(|skill| skill.is_called(name)).ok_or_else(|| {
            UsageError::new(format!("--skill names {name:?}, and the skills here are {}", known.join(", ")))
        })
    };
    args.trained.iter().map(place).collect()
}

fn trained(args: &TrainSkillArgs, session: &Session, skill_idx: usize) -> anyhow::Result<Trained> {
    let notify = |notice: &skill_agents::measure::Notice<'_>| session.notify(notice);
    let on_step = |step: &Step| {
        if !session.is_quiet {
            say(&step_line(step));
        }
    };
    let training = Training {
        setup: &session.setup,
        skill_idx,
        queries: &session.queries,
        repetitions: session.repetitions,
        seed: args.seed,
        max_steps: args.steps,
        store: &session.store,
        launcher: &session.launcher,
        writer: session,
        caps: session.caps,
        notify: &notify,
        on_step: &on_step,
    };
    let stop = StopSignal::default();
    let run = async || training.run().await;
    let work = through_limits(args.measure.wait, &stop, &session.launcher.cancel, run);
    let trained = block_on(stop.clone(), STOPPING, work)?.map_err(|error| store_error(&error))?;
    trained.ok_or_else(|| UsageError::new("no skill to train was found").into())
}

/// Too few queries to accept anything are told before the first run.
fn check_queries(session: &Session, skill_idx: usize, seed: u64) -> Result<(), UsageError> {
    let halves = halves(&session.queries, seed);
    let name = session.setup.skills.get(skill_idx).map(|skill| skill.listed_name(session.setup.agent));
    let n_unread = session.queries.iter().filter(|query| !query.reviewed).count();
    // Those of other skills can only speak against a description.
    let is_for = |query: &&Query| query.skill.is_none() || query.skill.as_deref() == name;
    let held_out = session.queries.iter().filter(is_for);
    let n_heldout =
        held_out.filter(|query| query.reviewed && halves.get(&query.id) == Some(&Half::Heldout)).count();
    if n_heldout < least_queries() {
        let unread = match n_unread {
            0 => String::new(),
            n => format!("; {n} drafted ones are not used before \"reviewed\" is true"),
        };
        let message = format!(
            "{}: {n_heldout} held-out queries, and with fewer than {} nothing can be accepted{unread}",
            name.unwrap_or_default(),
            least_queries()
        );
        return Err(UsageError::new(message).with_hint("add queries; 20 and more are usual"));
    }
    Ok(())
}

fn step_line(step: &Step) -> String {
    let train = step
        .train
        .map(|train| format!(", {:.0} % of training queries right", train * 100.0))
        .unwrap_or_default();
    let gate = step
        .gate
        .map(|gate| {
            format!(
                ", held-out {:.0} % -> {:.0} % (p {:.3})",
                gate.current * 100.0,
                gate.candidate * 100.0,
                gate.p
            )
        })
        .unwrap_or_default();
    let fate = match step.fate {
        Fate::Invalid => "invalid",
        Fate::Repeated => "tried before",
        Fate::NotBetter => "not better on training queries",
        Fate::Rejected => "rejected",
        Fate::Accepted => "accepted",
    };
    let why = step.why.as_ref().map(|why| format!(" ({why})")).unwrap_or_default();
    let when = step.texts.when_to_use.as_ref().map(|when| format!(" - {when}")).unwrap_or_default();
    format!("step {}: {fate}{why}{train}{gate}: {}{when}", step.step, step.texts.description)
}

fn finish(args: &TrainSkillArgs, session: &Session, all: &[OfSkill]) -> anyhow::Result<()> {
    let dir = session.store.directory();
    let agent = session.setup.agent;
    let rows: Vec<_> = all
        .iter()
        .map(|of| {
            let (initial, best) = (of.initial.texts(agent), of.trained.skill.texts(agent));
            json!({
                "name": of.name, "initial": initial, "best": best, "steps": of.trained.steps,
                "answered_without_any_skill": of.trained.answered_without,
            })
        })
        .collect();
    let value = json!({"agent": agent.name, "skills": rows});
    let text = serde_json::to_string_pretty(&value)?;
    session.store.write(&dir.join("train.json"), text.as_bytes()).map_err(|error| store_error(&error))?;
    for of in all {
        let best = dir.join("best").join(&of.trained.skill.folder);
        skillrl::envs::folder::write_folder(&best, &of.trained.skill.package)?;
    }
    match args.measure.json {
        true => print(&format!("{value}\n"))?,
        false => print_wrapped(&described(session, all))?,
    }
    match all.last().and_then(|of| of.trained.stop.as_ref()) {
        Some(stop) => Err(Ended::of(stop).into()),
        None => Ok(()),
    }
}

fn described(session: &Session, all: &[OfSkill]) -> String {
    let mut text = String::new();
    for OfSkill { name, trained, .. } in all {
        if all.len() > 1 {
            let _ = writeln!(text, "{name}:");
        }
        let n_accepted = trained.steps.iter().filter(|step| step.fate == Fate::Accepted).count();
        let _ = writeln!(text, "{n_accepted} of {} proposals accepted", trained.steps.len());
        let accepted = trained.steps.iter().filter_map(|step| step.gate.filter(|gate| gate.is_accepted));
        let gates: Vec<_> = accepted.collect();
        if let (Some(first), Some(last)) = (gates.first(), gates.last()) {
            let _ = writeln!(
                text,
                "held-out queries right: {:.0} % -> {:.0} % (p {:.3}, {} queries)",
                first.current * 100.0,
                last.candidate * 100.0,
                last.p,
                last.queries
            );
        }
        if !trained.answered_without.is_empty() {
            let _ = writeln!(
                text,
                "answered at once and without any skill, so no description helps: {}",
                trained.answered_without.join(", ")
            );
        }
        let texts = trained.skill.texts(session.setup.agent);
        let _ = writeln!(text, "description: {}", texts.description);
        if let Some(when) = texts.when_to_use {
            let _ = writeln!(text, "when_to_use: {when}");
        }
        let best = session.store.directory().join("best").join(&trained.skill.folder);
        let _ = writeln!(text, "the skill is in {}; the original is unchanged", best.display());
    }
    text
}
