//! What the ends of epochs will take: the same tasks under two skills, guidance, its evaluation, and notes.

use super::probe::Probe;
use super::{Assumptions, Sent, Span, Step, rollouts, trajectory, up_to};
use skill_core::PairPolicy;
use skill_pipeline::{SlowUpdate, Stage, TrainSettings};

/// Bytes of the two markers with nothing between them.
const REGION_BYTES: u64 = 60;

/// The most bytes of guidance in the skill, and of notes in a prompt, with what is around them.
const WRITTEN_BYTES: u64 = 1_500;

/// Bytes of what is around a task and its trajectories.
const PAIR_BYTES: u64 = 80;

/// Bytes of the region for guidance in the skill during an epoch, from 1.
pub(super) fn guidance(epoch: u64, settings: &TrainSettings) -> Span {
    match epoch {
        _ if settings.epoch_end.slow_update == SlowUpdate::Off => Span::default(),
        0 | 1 => Span::default(),
        2 => Span::exactly(REGION_BYTES),
        _ => Span::new(REGION_BYTES, REGION_BYTES + WRITTEN_BYTES),
    }
}

/// Bytes of the optimizer's notes in each of its prompts during an epoch, from 1.
pub(super) fn notes(epoch: u64, settings: &TrainSettings) -> Span {
    if settings.epoch_end.meta_skill && epoch > 2 { Span::new(0, WRITTEN_BYTES) } else { Span::default() }
}

/// The stages at the ends of epochs, in the order in which they run; the first epoch has nothing to compare with.
pub(super) fn stages(
    probe: &Probe,
    settings: &TrainSettings,
    steps: &[Step],
    assumptions: Assumptions,
    repeats: u64,
) -> Vec<(Stage, Sent)> {
    let end = settings.epoch_end;
    if !end.is_due() || settings.epochs < 2 {
        return Vec::new();
    }
    let per_epoch = steps.len() / usize::try_from(settings.epochs).unwrap_or(usize::MAX);
    let per_epoch = per_epoch.max(1);
    let over_ends = |sent: &dyn Fn(&Step) -> Sent| {
        // The last step of every epoch but the first.
        let ends = steps.iter().skip(2 * per_epoch - 1).step_by(per_epoch);
        ends.fold(Sent::default(), |sum, step| sum.plus(sent(step)))
    };
    let [train, val, _] = &probe.splits;
    let sample = train.n_items.min(end.samples as u64);
    // Tasks are drawn until enough have changed, which may take all of them.
    let drawn = if end.pair_policy == PairPolicy::Changed { train.n_items } else { sample };
    let of_side = |step: &Step, least: u64| {
        let (low, high) = (rollouts(train, least, step.growth[1]), rollouts(train, drawn, step.growth[1]));
        let between = |low: Span, high: Span| Span { low: low.low, high: high.high };
        Sent {
            calls: between(low.calls, high.calls),
            messages: between(low.messages, high.messages),
            bytes: between(low.bytes, high.bytes),
        }
    };
    let pairs = Span::new(0, sample)
        .times(Span::exactly(2).times(trajectory(probe, assumptions)).plus(Span::exactly(PAIR_BYTES)));
    let asked = |bytes: Span, step: &Step| {
        // Where nothing is left to look at, nobody is asked.
        let calls = Span::new(u64::from(end.pair_policy == PairPolicy::Mixed), 1);
        let skills = step.growth[1].plus(step.growth[1]);
        Sent::optimizer(calls, calls.times(bytes.plus(skills).plus(step.notes)).plus(pairs))
    };
    let mut stages = vec![
        (Stage::RolloutPrev, over_ends(&|step| of_side(step, sample))),
        // Where the skill is still the same, nothing is done twice.
        (Stage::RolloutCurr, over_ends(&|step| of_side(step, 0))),
    ];
    if end.slow_update != SlowUpdate::Off {
        let guided = |step: &Step| step.growth[1].plus(Span::new(0, WRITTEN_BYTES));
        stages.push((Stage::SlowUpdate, over_ends(&|step| asked(probe.slow_update_bytes, step))));
        let n_draws = val.n_items.saturating_mul(repeats);
        let evaluated = |step: &Step| up_to(rollouts(val, n_draws, guided(step)));
        stages.push((Stage::SlowEvaluate, over_ends(&evaluated)));
    }
    if end.meta_skill {
        stages.push((Stage::MetaSkill, over_ends(&|step| asked(probe.meta_skill_bytes, step))));
    }
    stages
}
