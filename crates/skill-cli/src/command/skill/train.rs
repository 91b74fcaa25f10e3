//! `skillrl train DIR --agent NAME`: trains the description of a skill.

use super::session::{Ended, Session, store_error};
use crate::args::skill::{Only, TrainSkillArgs};
use crate::command::{UsageError, block_on, print, print_wrapped, say};
use async_trait::async_trait;
use serde_json::json;
use skill_agents::gate::least_queries;
use skill_agents::measure::Stop;
use skill_agents::query::{Half, halves};
use skill_agents::train::{Fate, Step, Trained, Training, Writer};
use skillrl::pipeline::StopSignal;
use std::fmt::Write as _;

const STOPPING: &str = "stopping; the runs that are complete stay on record";

#[async_trait]
impl Writer for Session {
    async fn write(&self, prompt: &str) -> Result<String, Stop> {
        Self::write(self, prompt).await
    }
}

pub(crate) fn run(args: &TrainSkillArgs) -> anyhow::Result<()> {
    let Only::Description = args.only;
    let session = Session::open(&args.measure, true, true)?;
    check_queries(&session, args.seed)?;
    let notify = |notice: &skill_agents::measure::Notice<'_>| session.notify(notice);
    let on_step = |step: &Step| {
        if !session.is_quiet {
            say(&step_line(step));
        }
    };
    let training = Training {
        setup: &session.setup,
        queries: &session.queries,
        repetitions: session.repetitions,
        seed: args.seed,
        max_steps: args.steps,
        store: &session.store,
        launcher: &session.launcher,
        writer: &session,
        caps: session.caps,
        notify: &notify,
        on_step: &on_step,
    };
    let stop = StopSignal::default();
    let (soon, cancel) = (stop.soon.clone(), session.launcher.cancel.clone());
    let work = async {
        let run = training.run();
        tokio::pin!(run);
        tokio::select! {
            trained = &mut run => trained,
            () = soon.cancelled() => {
                cancel.cancel();
                run.await
            }
        }
    };
    let trained = block_on(stop, STOPPING, work)?.map_err(|error| store_error(&error))?;
    let Some(trained) = trained else { return Err(UsageError::new("there is no skill to train").into()) };
    finish(args, &session, &trained)
}

/// Too few queries to accept anything are told before the first run.
fn check_queries(session: &Session, seed: u64) -> Result<(), UsageError> {
    let halves = halves(&session.queries, seed);
    let n_unread = session.queries.iter().filter(|query| !query.reviewed).count();
    let n_heldout = session
        .queries
        .iter()
        .filter(|query| query.reviewed && halves.get(&query.id) == Some(&Half::Heldout))
        .count();
    if n_heldout < least_queries() {
        let unread = match n_unread {
            0 => String::new(),
            n => format!("; {n} drafted ones are not used before \"reviewed\" is true"),
        };
        let message = format!(
            "{n_heldout} held-out queries, and with fewer than {} nothing can be accepted{unread}",
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
    format!("step {}: {fate}{why}{train}{gate}: {}", step.step, step.description)
}

fn finish(args: &TrainSkillArgs, session: &Session, trained: &Trained) -> anyhow::Result<()> {
    let dir = session.store.directory();
    let value = json!({
        "agent": session.setup.agent.name, "description": trained.skill.description,
        "initial": session.setup.skills.first().map(|skill| &skill.description), "steps": trained.steps,
    });
    let text = serde_json::to_string_pretty(&value)?;
    let write = |name: &str, bytes: &[u8]| {
        session.store.write(&dir.join(name), bytes).map_err(|error| store_error(&error))
    };
    write("train.json", text.as_bytes())?;
    let best = dir.join("best").join(&trained.skill.folder);
    skillrl::envs::folder::write_folder(&best, &trained.skill.package)?;
    if args.measure.json {
        print(&format!("{value}\n"))?;
    } else {
        let n_accepted = trained.steps.iter().filter(|step| step.fate == Fate::Accepted).count();
        let mut text = String::new();
        let _ = writeln!(text, "{n_accepted} of {} proposals accepted", trained.steps.len());
        if let Some(gate) =
            trained.steps.iter().rev().find_map(|step| step.gate.filter(|gate| gate.is_accepted))
        {
            let _ = writeln!(
                text,
                "held-out queries right: {:.0} % -> {:.0} % (p {:.3}, {} queries)",
                gate.current * 100.0,
                gate.candidate * 100.0,
                gate.p,
                gate.queries
            );
        }
        let _ = writeln!(text, "description: {}", trained.skill.description);
        let _ = writeln!(text, "the skill is in {}; the original is unchanged", best.display());
        print_wrapped(&text)?;
    }
    match &trained.stop {
        Some(stop) => Err(Ended::of(stop).into()),
        None => Ok(()),
    }
}
