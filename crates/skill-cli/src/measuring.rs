//! What commands that measure a skill have in common: which skill and which items, and what is said of them.

use crate::args::EvalArgs;
use crate::coding_agent::check_outside;
use crate::error::CommandError;
use crate::output::say;
use crate::table::counted;
use skillrl::config::LoadedConfig;
use skillrl::core::RolloutResult;
use skillrl::core::stats::score_interval;
use skillrl::core::usage::dollars;
use skillrl::envs::{Env, Item, Split};
use skillrl::hint::CommandHints;
use skillrl::measurement;
use skillrl::pipeline::identity::data_of;
use skillrl::pipeline::kind::has_phases;
use skillrl::pipeline::records::RunIdentity;
use skillrl::pipeline::records::evaluation::Activations;
use skillrl::pipeline::run_dir::{RunStatus, run_status};
use skillrl::pipeline::stage::silence::{
    answers_without_number, cut_replies, empty_replies, never_activated, reach_warnings,
};
use skillrl::pipeline::{Advice as _, PipelineError, RunReader, Warning};
use skillrl::reports::words::percent;
use skillrl::reports::{LEVEL, PhasesBrief};
use skillrl::world;
use std::path::Path;

/// So many items are named where one is not found.
const MAX_NAMED_ITEMS: usize = 3;

/// The split that is measured, where nobody names one.
const USUAL_SPLIT: Split = Split::Val;

/// Refuses a directory for a measurement inside of a skill, and warns of one without hashes unless it is replaced.
pub(crate) fn check_out(path: &Path, force: bool) -> Result<(), CommandError> {
    check_outside("--out", path)?;
    if !force {
        warn_of_missing_hashes(path);
    }
    Ok(())
}

/// Warns of a measurement of an earlier version, in which damage is not detected.
pub(crate) fn warn_of_missing_hashes(dir: &Path) {
    if measurement::lacks_hashes(dir) {
        say(&format!(
            "warning: {} was written by an earlier version, without hashes: damage to it is not found",
            dir.display()
        ));
    }
}

/// The split that is asked for.
pub(crate) fn split_of(args: &EvalArgs) -> Result<Split, skillrl::Error> {
    args.split.as_deref().map_or(Ok(USUAL_SPLIT), world::split)
}

/// A score with its interval, and the graded one where it differs.
pub(crate) fn score_words(hard: f64, soft: f64, n: usize) -> String {
    let [low, high] = score_interval(hard, n, LEVEL);
    let soft = if (soft - hard).abs() > 1e-5 { format!("; soft {}", percent(soft)) } else { String::new() };
    format!(
        "{} ({} % interval {:.1} to {:.1}){soft}",
        percent(hard),
        LEVEL * 100.0,
        100.0 * low,
        100.0 * high
    )
}

/// Warns of a measurement on the test split of a run that is not finished.
pub(crate) fn warn_of_test_split(loaded: &LoadedConfig, split: Split) {
    let run_dir = loaded.run_dir();
    if split == Split::Test && run_status(&run_dir) == RunStatus::Unfinished && !is_through(&run_dir) {
        say(&format!(
            "warning: this is the test split of the run in {}, which is not finished: a skill that is chosen by its test score makes the run's test score worth nothing",
            run_dir.display()
        ));
    }
}

/// True for a run of several phases that has none left.
fn is_through(run: &Path) -> bool {
    has_phases(run)
        && RunReader::open(run).and_then(|run| PhasesBrief::read(&run)).is_ok_and(|phases| phases.is_finished)
}

/// Warns of a split whose items are others than when the run of the configuration began: the run may have learnt from
/// them.
pub(crate) fn warn_of_other_data(loaded: &LoadedConfig, split: Split, settings: &RunIdentity) {
    let (run_dir, data) = (loaded.run_dir(), data_of(split.as_str()));
    let Ok(run) = RunReader::open(&run_dir) else { return };
    if run.config().identity.get(&data).is_some_and(|of_run| settings.get(&data) != Some(of_run)) {
        let learnt = match split {
            Split::Train => "",
            Split::Val | Split::Test => {
                ", and some of its items may be what a skill of the run was trained on"
            }
        };
        say(&format!(
            "warning: the {split} split is not that of the run in {}, since the data have changed: scores of the run are of other items{learnt}",
            run_dir.display()
        ));
    }
}

/// How often a coding agent loaded the skill.
pub(crate) fn activation_words(activations: Activations) -> String {
    format!("the skill, in {} of {}", activations.loaded, counted(activations.runs as u64, "run"))
}

/// Why a measurement ended early; where nothing of it is kept, that is said.
pub(crate) fn unkept(error: skillrl::Error, is_kept: bool) -> skillrl::Error {
    let skillrl::Error::Pipeline(of_run) = &error else { return error };
    if !is_kept && of_run.is_stop() {
        return PipelineError::StoppedUnkept.into();
    }
    if !is_kept && !matches!(of_run, PipelineError::StoppedUnkept) {
        say("note: this measurement was not saved; with `--out DIR` the same command resumes it");
    }
    error
}

/// Says how many replies were cut, were empty or held no number where one is expected: they are scored as they stand,
/// and say little of the skill.
pub(crate) fn warn_of_replies(results: &[RolloutResult]) {
    let of_replies = [
        cut_replies(results),
        empty_replies(results),
        answers_without_number(results),
        never_activated(results),
    ];
    for warning in of_replies.into_iter().chain(reach_warnings(results)).flatten() {
        // What is advised about empty replies names a journal, which not every measurement has.
        let is_of_empty = matches!(warning, Warning::EmptyReplies { .. });
        let advice = CommandHints.on_warning(&warning).filter(|_| !is_of_empty);
        let advice = advice.map(|advice| format!("; {advice}")).unwrap_or_default();
        say(&format!("warning: {warning}{advice}"));
    }
}

/// The item that was asked for, or the first one of the training split.
pub(crate) fn find_item<'a>(env: &'a dyn Env, asked: Option<&str>) -> crate::Result<(Split, &'a Item)> {
    let mut all =
        Split::ALL.into_iter().flat_map(|split| env.items(split).iter().map(move |item| (split, item)));
    match asked {
        None => all.next().ok_or_else(|| CommandError::new("the environment has no items").into()),
        Some(id) => all.find(|(_, item)| item.id.as_str() == id).ok_or_else(|| {
            let named: Vec<String> = env
                .items(Split::Train)
                .iter()
                .take(MAX_NAMED_ITEMS)
                .map(|item| format!("`{}`", item.id))
                .collect();
            let hint = format!("ids of the training split are {} ..", named.join(", "));
            CommandError::new(format!("item `{id}` not found")).with_hint(hint).into()
        }),
    }
}

/// What a command has sent, for its last line.
pub(crate) fn described_spend(
    loaded: &LoadedConfig,
    engine: &skillrl::engine::Engine<'_>,
    n_before: u64,
) -> String {
    let spent = engine.budget().spent();
    let n_sent = spent.calls.saturating_sub(n_before);
    let money = skillrl::cost::has_prices(&loaded.config.models.target).then_some(spent.money);
    let money = money.map(|money| format!(", {} in all", dollars(money))).unwrap_or_default();
    match n_sent {
        0 => "no request was sent now, all replies were kept".to_owned(),
        1 => format!("1 request was sent now{money}"),
        n_sent => format!("{n_sent} requests were sent now{money}"),
    }
}
