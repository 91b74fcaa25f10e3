//! Runs in words, for the terminal.

pub(crate) mod bank;
pub(crate) mod bank_record;
pub(crate) mod phases;
pub(crate) mod rl;
pub(crate) mod sft;
pub(crate) mod step;
pub(crate) mod workers;

use crate::table::{counted, grouped, harmless, seconds};
use skillrl::core::usage::dollars;
use skillrl::pipeline::kind::RunKind;
use skillrl::pipeline::run_dir::live::{LiveState, Spend};
use skillrl::reports::{RunOverview, RunPhase};
use std::fmt::Write as _;
use step::metric_words;

/// One run in a few lines.
pub(crate) fn described(status: &RunOverview) -> String {
    let what = steps_of(status);
    let mut text = format!("{}: {}, {what}\n", status.path.display(), status.phase.as_str());
    // Steps that train weights have no stages.
    let trains_weights = status.sft.is_some() || status.rl.is_some() || status.phases.is_some();
    if let Some(live) = status.live.as_ref().filter(|live| !trains_weights || live.stage.is_some()) {
        let _ = writeln!(text, "  now    {}", now(live));
        if let Some(trial) = live.bank.as_ref().and_then(|bank| bank.trial.as_ref()) {
            let _ = writeln!(text, "  trial  {}", bank::trial_now(trial));
        }
    }
    if status.is_stop_requested {
        text.push_str(
            "  asked  to stop when the step under way is done, or the evaluation after the last step\n",
        );
    }
    if let (Some(baseline), Some(best), Some(step)) = (status.baseline, status.best, status.best_step) {
        let origin = if step == 0 { "the first skill".to_owned() } else { format!("step {step}") };
        let metric = metric_words(status.metric);
        let n_accepted = status.n_accepted;
        let _ =
            writeln!(text, "  score  {baseline:.4} → {best:.4}{metric} ({origin}), {n_accepted} accepted");
    }
    for (name, words) in status.bank.iter().flat_map(|bank| bank::brief(bank)) {
        let _ = writeln!(text, "  {name:<6} {words}");
    }
    if status.is_best_changed {
        text.push_str("  note   best_skill.md was changed after the run wrote it\n");
    }
    if let (Some([before, after]), None) = (status.test, &status.bank) {
        let _ = writeln!(text, "  test   {before:.4} → {after:.4}{}", metric_words(status.metric));
    }
    for (name, words) in status.phases.iter().flat_map(|phases| phases::brief(phases)) {
        let _ = writeln!(text, "  {name:<7} {words}");
    }
    let current = status.phases.iter().filter_map(|phases| Some(&phases.current()?.dir));
    for run in current.filter_map(|dir| skillrl::report::overview(dir).ok()) {
        let _ = writeln!(text, "  {}", described(&run).trim_end().replace('\n', "\n  "));
    }
    for (name, words) in status.sft.iter().flat_map(|sft| sft::brief(sft)) {
        let _ = writeln!(text, "  {name:<6} {words}");
    }
    for (name, words) in status.rl.iter().flat_map(|rl| rl::brief(rl)) {
        let _ = writeln!(text, "  {name:<6} {words}");
    }
    for (name, words) in status.rl.iter().flat_map(|rl| rl::signs(rl)) {
        let _ = writeln!(text, "  {name:<6} {words}");
    }
    match &status.live {
        // A run that trains weights has said it, and sends nothing.
        _ if trains_weights => {}
        Some(live) => {
            let _ = writeln!(text, "  spent  {}", spent(&live.pulse.spend));
        }
        None => {
            let _ = writeln!(text, "  spent  {}", sent(status));
        }
    }
    for (index, line) in status.live.iter().flat_map(workers::lines).enumerate() {
        let name = if index == 0 { "workers" } else { "" };
        let _ = writeln!(text, "  {name:<7}{line}");
    }
    if let Some(left) = status.live.as_ref().and_then(LiveState::run_seconds_left) {
        let _ = writeln!(text, "  left   about {}", seconds(left));
    }
    if let Some(reason) = &status.reason {
        let _ = writeln!(text, "  why    {}", harmless(reason));
    }
    if let Some(next) = next(status) {
        let _ = writeln!(text, "  next   {}", harmless(&next));
    }
    text
}

/// How to go on with a run that stands still.
fn next(status: &RunOverview) -> Option<String> {
    const GOES_ON: &str = "the command that started it resumes from here";
    match (status.phase, &status.hint) {
        // What stopped it would stop it again: the hint says what to change first.
        (RunPhase::Stopped, Some(hint)) if hint.contains("same command") || hint.contains("`run.dir`") => {
            Some(hint.clone())
        }
        (RunPhase::Stopped, Some(hint)) => Some(format!("{hint}; then {GOES_ON}")),
        (RunPhase::Stopped, None) => Some(GOES_ON.to_owned()),
        (RunPhase::Interrupted, _) => Some(format!("{GOES_ON}; what was answered is not asked again")),
        (RunPhase::Training | RunPhase::Finished | RunPhase::Damaged, _) => None,
    }
}

fn steps_of(status: &RunOverview) -> String {
    if let (Some(_), Some(total)) = (&status.phases, status.total_steps) {
        return format!("weights and bank, {} of {total} phases", status.n_steps);
    }
    let (unit, what) = match (RunKind::Bank.is_at(&status.path), &status.sft, &status.rl) {
        (true, ..) => ("round", "a bank, "),
        (false, Some(_), _) => ("step", "fine-tuning, "),
        (false, None, Some(_)) => ("iteration", "reinforcement learning, "),
        (false, None, None) => ("step", ""),
    };
    match status.total_steps {
        Some(total) => format!("{what}{}/{total} {unit}s", status.n_steps),
        None => format!("{what}{}", counted(u64::from(status.n_steps), unit)),
    }
}

/// What the process is at, in one line.
pub(crate) fn now(live: &LiveState) -> String {
    let stage = live.stage.as_deref().unwrap_or("between stages");
    let mut text = match &live.bank {
        Some(bank) => bank::place(bank, stage),
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
    // A pass of a trial is not the trial, and nobody knows how many passes decide it.
    let left = live.stage_seconds_left().filter(|_| live.done < live.total && trial.is_none());
    if let Some(left) = left {
        let _ = write!(text, ", {} left", seconds(left));
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

/// What a run has sent that nobody works on.
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

/// What a run has used, each against its cap where there is one.
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
