//! `skillrl train DIR --agent NAME`: trains the description of a skill.

use super::ended;
use super::session::{Session, store_error};
use super::triggers::write_report;
use crate::args::skill::{Only, TrainSkillArgs};
use crate::command::{CommandError, print, print_json, print_wrapped, say};
use crate::consent::confirm;
use crate::error::OfFile as _;
use crate::table::grouped;
use parking_lot::Mutex;
use skill_agents::Skill;
use skill_agents::gate::least_queries;
use skill_agents::measure::Stop;
use skill_agents::query::{HELDOUT_TENTHS, Half, Query, halves};
use skill_agents::train::{Fate, Step, TrainedSkill, Training, TrainingRecord, TrainingResult};
use skillrl::reports::words::dollars;
use skillrl::reports::{fate_in_words, training_of};
use std::fmt::Write as _;

/// A skill and what its training has come to.
struct OfSkill {
    initial: Skill,
    name: String,
    best: Skill,
    steps: Vec<Step>,
    answered_without: Vec<String>,
}

pub(crate) fn run(args: &TrainSkillArgs) -> crate::Result {
    match args.only {
        Only::Description => {}
        Only::Body => return super::body::run(args),
    }
    let mut session = Session::open(&args.measure, true)?;
    let chosen = chosen(args, &session)?;
    for skill_idx in &chosen {
        check_queries(&session, *skill_idx, args.seed)?;
    }
    if !agreed(args, &session, &chosen)? {
        return Ok(());
    }
    session.keep_inputs()?;
    let (mut all, mut stop) = (Vec::new(), None);
    for skill_idx in chosen {
        let Some(initial) = session.setup.skills.get(skill_idx).cloned() else { continue };
        let name = initial.listed_name(session.setup.agent).to_owned();
        let best = initial.clone();
        all.push(OfSkill { initial, name, best, steps: Vec::new(), answered_without: Vec::new() });
        let all = Mutex::new(&mut all);
        let trained = trained(args, &session, skill_idx, &all)?;
        // Skills that are trained later lie beside the new one.
        if let Some(skill) = session.setup.skills.get_mut(skill_idx) {
            skill.clone_from(&trained.skill);
        }
        let all = all.into_inner();
        if let Some(last) = all.last_mut() {
            (last.best, last.steps) = (trained.skill, trained.steps);
            last.answered_without = trained.answered_without;
        }
        stop = trained.stop;
        if stop.is_some() {
            break;
        }
    }
    finish(args, &session, &all, stop.as_ref())
}

/// The places of the skills that are trained.
fn chosen(args: &TrainSkillArgs, session: &Session) -> Result<Vec<usize>, CommandError> {
    let skills = &session.setup.skills;
    if args.trained.is_empty() {
        return Ok((0..skills.len()).collect());
    }
    let place = |name: &String| {
        let known: Vec<&str> = skills.iter().map(|skill| skill.folder.as_str()).collect();
        skills.iter().position(|skill| skill.is_called(name)).ok_or_else(|| {
            CommandError::new(format!("--skill names {name:?}, and the skills here are {}", known.join(", ")))
        })
    };
    args.trained.iter().map(place).collect()
}

fn trained(
    args: &TrainSkillArgs,
    session: &Session,
    skill_idx: usize,
    all: &Mutex<&mut Vec<OfSkill>>,
) -> crate::Result<TrainingResult> {
    let notify = |notice: &skill_agents::measure::Notice<'_>| session.notify(notice);
    let on_step = |step: &Step| {
        let mut all = all.lock();
        if let Some(last) = all.last_mut() {
            last.steps.push(step.clone());
            if step.fate == Fate::Accepted {
                last.best = last.best.with_texts(&step.texts).unwrap_or_else(|_| last.best.clone());
            }
        }
        // What is shown while it works is of no use for its result.
        if let Err(error) = keep(session, &all, false) {
            tracing::warn!(%error, "the state of the training could not be written");
        }
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
    let run = async || training.run().await;
    let trained = session.through_limits(
        args.measure.wait,
        |ended: &Option<TrainingResult>| ended.as_ref()?.stop.as_ref(),
        run,
    )?;
    trained.ok_or_else(|| CommandError::new("no skill to train was found").into())
}

/// Too few queries to accept anything are told before the first run; how many come out wrong is known after it.
fn check_queries(session: &Session, skill_idx: usize, seed: u64) -> Result<(), CommandError> {
    let halves = halves(&session.queries, seed);
    let name = session.setup.skills.get(skill_idx).map(|skill| skill.listed_name(session.setup.agent));
    // Those of other skills can only speak against a description.
    let is_for = |query: &&Query| query.skill.is_none() || query.skill.as_deref() == name;
    let concerned: Vec<&Query> = session.queries.iter().filter(is_for).collect();
    let is_heldout = |query: &&&Query| query.reviewed && halves.get(&query.id) == Some(&Half::Heldout);
    let n_heldout = concerned.iter().filter(is_heldout).count();
    if n_heldout >= least_queries() {
        return Ok(());
    }
    let name = name.unwrap_or_default();
    let n_mine = concerned.iter().filter(|query| query.skill.is_some()).count();
    let unread = match concerned.iter().filter(|query| !query.reviewed).count() {
        0 => String::new(),
        n => format!("; {n} drafted ones are not used before \"reviewed\" is true"),
    };
    let message = format!(
        "{n_mine} of your {} queries should load {name}, {} should load no skill, and {n_heldout} of these are held out; \
         with fewer than {} that come out wrong now, no description can be accepted{unread}",
        session.queries.len(),
        concerned.len() - n_mine,
        least_queries()
    );
    let n_needed = (least_queries() * 10).div_ceil(HELDOUT_TENTHS);
    let hint = format!(
        "write at least {n_needed} queries that should load {name} and come out wrong now, or mark more of them \
         `\"split\": \"heldout\"`"
    );
    Err(CommandError::new(message).with_hint(hint))
}

/// What the training takes at most: starts, and dollars as far as runs on record say what one costs.
fn totals(session: &Session, chosen: &[usize], steps: usize, seed: u64) -> Result<String, CommandError> {
    let halves = halves(&session.queries, seed);
    let n_queries =
        session.queries.iter().filter(|query| query.reviewed && halves.contains_key(&query.id)).count();
    let n_of_one = n_queries * session.repetitions;
    // Each proposal is one more start, and measured on all queries at most.
    let n_starts = chosen.len() * (n_of_one * (steps + 1) + steps);
    let spending = session.store.spending().map_err(|error| super::ended::of_store(&error))?;
    let n_made = session.store.n_starts().map_err(|error| super::ended::of_store(&error))?;
    let n_known = n_made.saturating_sub(spending.n_unknown);
    let cost = match n_known {
        0 => "the cost is known after the first run".to_owned(),
        n => format!(
            "about {} at the mean of {n} runs on record",
            dollars(spending.known / n as f64 * n_starts as f64)
        ),
    };
    let least = least_queries();
    Ok(format!(
        "at most {} starts of {} ({} queries, {} runs each, {steps} proposals), {cost}; a description is accepted only if at \
         least {least} held-out queries come out better",
        grouped(n_starts as u64),
        session.setup.agent.title,
        n_queries,
        session.repetitions,
    ))
}

/// Says what it takes, and asks a person at a terminal; true if it begins.
fn agreed(args: &TrainSkillArgs, session: &Session, chosen: &[usize]) -> crate::Result<bool> {
    let totals = totals(session, chosen, args.steps, args.seed)?;
    if args.dry_run {
        print(&format!("{totals}\nnothing was started\n"))?;
        return Ok(false);
    }
    if args.measure.replay {
        return Ok(true);
    }
    if !session.is_quiet {
        say(&totals);
    }
    let is_capped = args.measure.calls.is_some() || args.measure.budget.is_some();
    confirm(args.yes || is_capped)?;
    Ok(true)
}

fn step_line(step: &Step) -> String {
    let share = |share: f64| format!("{:.0} %", share * 100.0);
    let train = step.train.map(|train| format!(", {} of training queries right", share(train)));
    let gate = step.gate.map(|gate| {
        format!(", held-out {} → {} (p {:.3})", share(gate.current), share(gate.candidate), gate.p)
    });
    let when = step.texts.when_to_use.as_ref().map(|when| format!(" - {when}")).unwrap_or_default();
    let (train, gate) = (train.unwrap_or_default(), gate.unwrap_or_default());
    format!("step {}: {}{train}{gate}: {}{when}", step.step, fate_in_words(step), step.texts.description)
}

/// Writes down how far the training is; the last skill is under way unless that is over.
fn keep(session: &Session, all: &[OfSkill], is_finished: bool) -> crate::Result<TrainingRecord> {
    let agent = session.setup.agent;
    let skill = |of: &OfSkill| TrainedSkill {
        name: of.name.clone(),
        initial: of.initial.texts(agent),
        best: of.best.texts(agent),
        steps: of.steps.clone(),
        answered_without_any_skill: of.answered_without.clone(),
    };
    let skills = all.iter().map(skill).collect();
    let record = TrainingRecord { agent: agent.name.clone(), skills, is_finished };
    session.store.keep_training(&record).map_err(|error| store_error(&error))?;
    Ok(record)
}

fn finish(args: &TrainSkillArgs, session: &Session, all: &[OfSkill], stop: Option<&Stop>) -> crate::Result {
    let record = keep(session, all, stop.is_none())?;
    let best = |skill: &Skill| session.store.directory().join("best").join(&skill.folder);
    for of in all {
        skillrl::envs::folder::write_folder(&best(&of.best), &of.best.package).writing(&best(&of.best))?;
    }
    if args.measure.common.json {
        print_json(&record)?;
    } else {
        let mut text = String::new();
        for (of, skill) in all.iter().zip(&record.skills) {
            let table = training_of(skill, &session.queries, stop.is_none());
            let _ = writeln!(text, "{}\n{}", table.title, table.about);
            let _ =
                writeln!(text, "the skill is in {}; the original is unchanged\n", best(&of.best).display());
        }
        print_wrapped(text.trim_end_matches('\n'))?;
        print("\n")?;
    }
    write_report(session);
    stop.map_or(Ok(()), |stop| Err(ended::of(stop).into()))
}
