//! Runs in words, for the terminal.

#[cfg(test)]
pub(crate) mod made;
pub(crate) mod provenance;
mod runs;
pub(crate) mod summary;
pub(crate) mod trajectory;
pub(crate) mod workers;

pub(crate) use runs::runs_tables;

use crate::table::{counted, grouped, harmless, seconds};
use skillrl::core::usage::dollars;
use skillrl::pipeline::run_dir::live::{LiveState, Spend};
use skillrl::reports::lines::progress;
use skillrl::reports::words::seconds_left;
use skillrl::reports::{Fact, RunOverview, RunPhase};
use std::fmt::Write as _;

/// The width of the names of facts, where none is wider.
const NAME_WIDTH: usize = 6;

/// One run in a few lines.
pub(crate) fn described(status: &RunOverview) -> String {
    let mut text = format!("{}: {}, {}\n", status.path.display(), status.phase.as_str(), steps_of(status));
    text.push_str(&fact_lines(&facts_of(status), "  "));
    let current = status.phases().into_iter().filter_map(|phases| Some(&phases.current()?.dir));
    for run in current.filter_map(|dir| skillrl::report::overview(dir).ok()) {
        let _ = writeln!(text, "  {}", described(&run).trim_end().replace('\n', "\n  "));
    }
    text
}

/// A line for each fact.
pub(crate) fn fact_lines(facts: &[Fact], indent: &str) -> String {
    let width = facts.iter().map(|fact| fact.name.len()).fold(NAME_WIDTH, usize::max);
    let line = |fact: &Fact| format!("{indent}{:<width$} {}\n", fact.name, harmless(&fact.words));
    facts.iter().map(line).collect()
}

/// Current stage, results and spend of a run, and how to resume it.
fn facts_of(status: &RunOverview) -> Vec<Fact> {
    let mut facts = Vec::new();
    // Steps that train weights have no stages.
    let trains_weights = status.trains_weights();
    if let Some(live) = status.live.as_ref().filter(|live| !trains_weights || live.stage.is_some()) {
        facts.push(Fact::new("now", now(live)));
        if let Some(trial) = live.bank.as_ref().and_then(|bank| bank.trial.as_ref()) {
            facts.push(Fact::new("trial", progress::trial_now(trial)));
        }
    }
    if status.is_stop_requested {
        let words = "to stop when the step under way is done, or the evaluation after the last step";
        facts.push(Fact::new("asked", words));
    }
    facts.extend(status.facts());
    if status.is_best_changed {
        facts.push(Fact::new("note", "best_skill.md was changed after the run wrote it"));
    }
    match &status.live {
        // Runs that train weights show it already, and send no requests.
        _ if trains_weights => {}
        Some(live) => facts.push(Fact::new("spent", spent(&live.pulse.spend))),
        None => facts.push(Fact::new("spent", sent(status))),
    }
    for (index, line) in status.live.iter().flat_map(workers::lines).enumerate() {
        facts.push(Fact::new(if index == 0 { "workers" } else { "" }, line));
    }
    if let Some(left) = status.live.as_ref().and_then(LiveState::run_seconds_left).filter(|_| !trains_weights)
    {
        facts.push(Fact::new("left", format!("about {}", seconds_left(left))));
    }
    facts.extend(status.reason.as_ref().map(|reason| Fact::new("why", reason)));
    facts.extend(next(status).map(|next| Fact::new("next", next)));
    facts
}

/// How to go on with a run that stands still.
fn next(status: &RunOverview) -> Option<String> {
    const GOES_ON: &str = "the command that started it resumes from here";
    match (status.phase, &status.hint) {
        // Resuming alone would stop it again: the hint names what to change first.
        (RunPhase::Stopped, Some(hint)) if hint.contains("same command") || hint.contains("`run.dir`") => {
            Some(hint.clone())
        }
        (RunPhase::Stopped, Some(hint)) => Some(format!("{hint}; then {GOES_ON}")),
        (RunPhase::Stopped, None) => Some(GOES_ON.to_owned()),
        (RunPhase::Interrupted, _) => Some(format!("{GOES_ON}; what was answered is not asked again")),
        (RunPhase::Training | RunPhase::Finished | RunPhase::Damaged, _) => None,
    }
}

/// The kind of the run, and its progress.
pub(crate) fn steps_of(status: &RunOverview) -> String {
    let what = status.kind_words().map(|what| format!("{what}, ")).unwrap_or_default();
    match status.total_steps {
        Some(total) => format!("{what}{}/{total} {}s", status.n_steps, status.unit()),
        None => format!("{what}{}", counted(u64::from(status.n_steps), status.unit())),
    }
}

/// What the process is at, in one line.
pub(crate) fn now(live: &LiveState) -> String {
    let stage = live.stage.as_deref().unwrap_or("between stages");
    let mut text = match &live.bank {
        Some(bank) => progress::place(bank, stage),
        None => {
            let place = live.step.map(|step| format!("step {step} ")).unwrap_or_default();
            format!("{place}{stage}")
        }
    };
    let trial = live.bank.as_ref().and_then(|bank| bank.trial.as_ref());
    match trial {
        Some(trial) => {
            let _ = write!(text, " {}/{} rollouts", trial.rollouts, trial.max_rollouts);
        }
        None if live.total > 0 => {
            let _ = write!(text, " {}/{}", live.done, live.total);
        }
        None => {}
    }
    if let Some(rate) = live.rate() {
        let _ = write!(text, ", {rate:.1}/s");
    }
    // The number of passes until a trial is decided is unknown, so a pass has no bar of its own.
    let left = live.stage_seconds_left().filter(|_| live.done < live.total && trial.is_none());
    if let Some(left) = left {
        let _ = write!(text, ", {} left", seconds_left(left));
    }
    let pulse = &live.pulse;
    if pulse.limit > 0 {
        let _ = write!(text, "; {} in flight of {}", pulse.in_flight, pulse.limit);
    }
    if pulse.waiting > 0 {
        let _ = write!(text, ", {} waiting", pulse.waiting);
    }
    if let Some(workers) = workers::short(live) {
        let _ = write!(text, "; {workers}");
    }
    match &pulse.trouble {
        Some(trouble) if pulse.retrying == 0 => {
            let _ = write!(text, "; {}", harmless(trouble));
        }
        Some(trouble) => {
            let _ = write!(text, "; {} retrying: {}", pulse.retrying, harmless(trouble));
        }
        None => {}
    }
    text
}

/// Requests of a run without a process.
pub(crate) fn sent(status: &RunOverview) -> String {
    if status.is_replay {
        return "0 calls, as the replies come from a recording".to_owned();
    }
    let known = |is_known: bool, number: u64, noun: &str| {
        if is_known { counted(number, noun) } else { format!("unknown {noun}s") }
    };
    let calls = known(status.knows_calls(), status.calls, "call");
    let tokens = known(status.knows_tokens(), status.tokens, "token");
    let money = status.money.map(|money| format!(", {}", dollars(money))).unwrap_or_default();
    format!("{calls}, {tokens}{money}")
}

/// Usage of a run, with caps where they are set.
pub(crate) fn spent(spend: &Spend) -> String {
    let of = |cap: Option<String>| cap.map(|cap| format!(" of {cap}")).unwrap_or_default();
    let calls = counted(spend.calls, "call");
    let tokens = counted(spend.tokens, "token");
    let mut text =
        format!("{calls}{}, {tokens}{}", of(spend.cap_calls.map(grouped)), of(spend.cap_tokens.map(grouped)));
    if spend.money > 0.0 || spend.cap_money.is_some() {
        let cap = of(spend.cap_money.map(dollars));
        let _ = write!(text, ", {}{cap}", dollars(spend.money));
    }
    let _ = write!(text, ", {}{}", seconds(spend.seconds), of(spend.cap_seconds.map(seconds)));
    text
}
