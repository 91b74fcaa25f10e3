//! `skillrl eval --against`: a measurement beside an earlier one, item by item.

use crate::args::EvalArgs;
use crate::error::CommandError;
use crate::exit_code;
use crate::measuring::warn_of_missing_hashes;
use skillrl::measurement::Earlier;
use skillrl::reports::words::percent;
use skillrl::reports::{Comparison, LEVEL};
use std::path::Path;

/// Reads the directory that `eval --out` wrote, before anything is paid for.
pub(crate) fn read(dir: &Path) -> crate::Result<Earlier> {
    let earlier = Earlier::read(dir)?;
    let dir = if dir.is_dir() { Some(dir) } else { dir.parent() };
    dir.into_iter().for_each(warn_of_missing_hashes);
    Ok(earlier)
}

/// The comparison in a line or two.
pub(crate) fn describe(compared: &Comparison) -> String {
    let [low, high] = compared.difference_interval;
    let points = |difference: f64| format!("{:+.1}", difference * 100.0);
    format!(
        "against {} before, on {} items of both: {} points ({:.0} % interval {} to {}); {} improved, {} regressed\n",
        percent(compared.before),
        compared.n,
        points(compared.difference),
        LEVEL * 100.0,
        points(low),
        points(high),
        compared.counts.wins,
        compared.counts.losses,
    )
}

/// What a measurement has to reach so as not to be a failure.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Limits {
    /// No drop that is more than chance would give.
    pub(crate) fail_on_drop: bool,
    /// A larger drop than this has to be excluded.
    pub(crate) max_drop: Option<f64>,
    /// The least score.
    pub(crate) min_score: Option<f64>,
}

impl Limits {
    /// The limits that were given on the command line.
    pub(crate) fn of(args: &EvalArgs) -> Self {
        Self {
            fail_on_drop: args.measurement.fail_on_drop,
            max_drop: args.max_drop,
            min_score: args.min_score,
        }
    }

    /// Each limit that a score, or its comparison with an earlier one, does not keep, in words.
    pub(crate) fn broken(self, hard: f64, compared: Option<&Comparison>) -> Vec<String> {
        let mut broken = Vec::new();
        if let Some(least) = self.min_score.filter(|least| hard < *least) {
            broken.push(format!("the score is {}, below {}", percent(hard), percent(least)));
        }
        let Some(compared) = compared else { return broken };
        let [low, high] = compared.difference_interval;
        if self.fail_on_drop && high < 0.0 {
            broken.push("the skill scores significantly less than before".to_owned());
        }
        if let Some(most) = self.max_drop.filter(|most| low < -most) {
            broken.push(format!(
                "a loss of more than {} points cannot be excluded: the interval begins at {:+.1}",
                100.0 * most,
                100.0 * low
            ));
        }
        broken
    }
}

/// Limits that were not kept, as a failure.
pub(crate) fn check(broken: &[String], compared: Option<&Comparison>) -> Result<(), CommandError> {
    if broken.is_empty() {
        return Ok(());
    }
    let against = compared.map(|compared| format!("; {}", describe(compared).trim_end())).unwrap_or_default();
    Err(CommandError::new(format!("{}{against}", broken.join("; "))).with_code(exit_code::REGRESSED))
}

#[cfg(test)]
mod tests {
    use super::*;
    use skillrl::core::{Gate, ItemId, RolloutResult};

    fn result(id: usize, is_solved: bool) -> RolloutResult {
        let score = f64::from(u8::from(is_solved));
        RolloutResult::new(ItemId::new(id.to_string()), score, score)
    }

    /// Of 40 items, those from 0 to `before` were solved and those from 0 to `now` are.
    fn compared(before: usize, now: usize) -> Comparison {
        let results = |n: usize| (0..40).map(|id| result(id, id < n)).collect::<Vec<_>>();
        Comparison::of(Gate::default(), &results(before), &results(now)).unwrap()
    }

    #[test]
    fn each_limit_fails_for_its_own_reason() {
        let drop = Limits { fail_on_drop: true, ..Limits::default() };
        let most = |points: f64| Limits { max_drop: Some(points / 100.0), ..Limits::default() };
        let least = Limits { min_score: Some(0.8), ..Limits::default() };
        for (limits, before, now, n_broken) in [
            (drop, 36, 30, 1),
            (drop, 36, 35, 0),
            // A loss that is not significant, but that cannot be excluded either.
            (most(3.0), 36, 35, 1),
            (most(15.0), 36, 35, 0),
            (most(3.0), 30, 38, 0),
            (least, 30, 31, 1),
            (least, 36, 32, 0),
        ] {
            let broken = limits.broken(now as f64 / 40.0, Some(&compared(before, now)));
            assert_eq!(broken.len(), n_broken, "{limits:?} {before} {now}: {broken:?}");
            assert_eq!(check(&broken, None).is_err(), n_broken > 0);
        }
        assert!(least.broken(0.5, None).len() == 1 && drop.broken(0.5, None).is_empty());
    }
}
