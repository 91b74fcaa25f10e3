//! The critical path of a run, from the calls that it has made.
//!
//! Calls of one stage do not wait for each other, so `n` of them with `w` in flight take `n / w` rounds, rounded up:
//! its waves. A merge waits for those below it, so each level of merges is a part of its own; the merges of failures
//! and of successes of one level wait for each other no more than other calls do.

use std::collections::BTreeMap;

/// How many calls each part of a run has made; a part is what has to be over before the next can begin.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Waves(BTreeMap<String, usize>);

impl Waves {
    /// Counts a call by its place, such as `step 3 / reflect / failure 2`.
    pub(crate) fn count(&mut self, place: &str) {
        *self.0.entry(part(place)).or_default() += 1;
    }

    /// All calls.
    pub(crate) fn n_calls(&self) -> usize {
        self.0.values().sum()
    }

    /// The calls of a stage, in all steps.
    pub(crate) fn n_calls_of(&self, stage: &str) -> usize {
        let is_of = |part: &str| part.split(" / ").any(|name| name == stage);
        self.0.iter().filter(|(part, _)| is_of(part)).map(|(_, n_calls)| n_calls).sum()
    }

    /// How many rounds of calls have to follow each other.
    pub(crate) fn n_waves(&self, in_flight: usize) -> usize {
        self.0.values().map(|n_calls| n_calls.div_ceil(in_flight.max(1))).sum()
    }
}

fn part(place: &str) -> String {
    let (stage, unit) = place.rsplit_once(" / ").unwrap_or((place, ""));
    let level = unit.split_once(" level ").and_then(|(_, level)| level.split(' ').next());
    match (level, unit) {
        (Some(level), _) if stage.ends_with("aggregate") => format!("{stage} / level {level}"),
        (None, "final") if stage.ends_with("aggregate") => format!("{stage} / final"),
        (Some(_) | None, _) => stage.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(calls: &[(&str, usize)], in_flight: usize, expect: usize) {
        let mut waves = Waves::default();
        for (place, n_calls) in calls {
            (0..*n_calls).for_each(|n| waves.count(&place.replace("{n}", &n.to_string())));
        }
        assert_eq!(waves.n_waves(in_flight), expect, "{waves:?}");
    }

    #[test]
    fn calls_of_a_stage_share_waves_and_stages_do_not() {
        check(&[], 64, 0);
        check(&[("baseline / val-{n}", 64)], 64, 1);
        check(&[("baseline / val-{n}", 65)], 64, 2);
        check(&[("step 1 / rollout / train-{n}", 40), ("step 1 / reflect / failure {n}", 6)], 64, 2);
        check(&[("step 1 / rollout / train-{n}", 40), ("step 2 / rollout / train-{n}", 40)], 64, 2);
    }

    #[test]
    fn levels_of_merges_follow_each_other_and_groups_of_a_level_do_not() {
        let level = ("step 1 / aggregate / failure level 1 group {n}", 3);
        check(&[level, ("step 1 / aggregate / success level 1 group {n}", 2)], 64, 1);
        check(&[level, ("step 1 / aggregate / failure level 2 group {n}", 1)], 64, 2);
        check(&[level, ("step 1 / aggregate / final", 1)], 64, 2);
    }

    #[test]
    fn stages_are_counted_over_steps() {
        let mut waves = Waves::default();
        for place in ["step 1 / evaluate / a", "step 2 / evaluate / a", "step 2 / rollout / a"] {
            waves.count(place);
        }
        assert_eq!((waves.n_calls_of("evaluate"), waves.n_calls_of("reflect"), waves.n_calls()), (2, 0, 3));
    }
}
