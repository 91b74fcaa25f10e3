//! `skillrl eval --against`: a measurement beside an earlier one, item by item.

use crate::args::EvalArgs;
use crate::error::CommandError;
use crate::exit_code;
use crate::measuring::warn_of_missing_hashes;
use crate::table::counted;
use skillrl::config::LoadedConfig;
use skillrl::core::{ItemId, RolloutResult};
use skillrl::envs::{Item, Split};
use skillrl::llm::regular_file;
use skillrl::measurement::{check_whole, measured_with};
use skillrl::pipeline::error::describe_changes;
use skillrl::pipeline::identity::scoring_changes;
use skillrl::pipeline::records::RunIdentity;
use skillrl::pipeline::run_dir::RESULTS_FILE;
use skillrl::reports::words::percent;
use skillrl::reports::{Comparison, LEVEL};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The results of an earlier measurement.
pub(crate) struct Earlier {
    path: PathBuf,
    results: Vec<RolloutResult>,
    /// What it was made with, where that is recorded.
    settings: Option<RunIdentity>,
}

impl Earlier {
    /// Reads the directory that `eval --out` wrote, before anything is paid for.
    pub(crate) fn read(dir: &Path) -> crate::Result<Self> {
        let path = if dir.is_dir() { dir.join(RESULTS_FILE) } else { dir.to_owned() };
        let wrong = |message: String| {
            CommandError::new(message).with_hint("name a directory that `skillrl eval --out DIR` has written")
        };
        if let Some(dir) = path.parent() {
            check_whole(dir)?;
            warn_of_missing_hashes(dir);
        }
        let bytes = regular_file::read(&path)
            .map_err(|error| wrong(format!("cannot read {}: {error}", path.display())))?;
        let results: Vec<RolloutResult> = serde_json::from_slice(&bytes)
            .map_err(|error| wrong(format!("{} holds no results: {error}", path.display())))?;
        let results = results.into_iter().map(RolloutResult::without_trajectory).collect();
        let settings = path.parent().and_then(measured_with);
        Ok(Self { path, results, settings })
    }

    /// Looks whether there is anything to compare, before anything is paid for: the same items with the same labels,
    /// and the same scorer. An id alone does not make an item the same: in a data file it may be the number of a row.
    pub(crate) fn check_items(
        &self,
        items: &[Item],
        settings: &RunIdentity,
        split: Split,
    ) -> Result<(), CommandError> {
        let asked: BTreeSet<&ItemId> = items.iter().map(|item| &item.id).collect();
        if !self.results.iter().any(|result| asked.contains(&result.id)) {
            return Err(self.no_item());
        }
        let changes =
            self.settings.as_ref().map(|earlier| scoring_changes(earlier, settings, split.as_str()));
        let why = match changes {
            Some(changes) if changes.is_empty() => return Ok(()),
            Some(changes) => describe_changes(&changes),
            None => "its data and its scorer are not recorded".to_owned(),
        };
        let message = format!("{} cannot be compared with item by item: {why}", self.path.display());
        let hint = "measure the earlier skill again with the data and the scorer of now: `skillrl eval .. --out DIR --force`";
        Err(CommandError::new(message).with_hint(hint))
    }

    /// Looks whether a limit can be kept at all, before anything is paid for: few items exclude no small loss, even if
    /// each comes out as before.
    pub(crate) fn check_max_drop(
        &self,
        loaded: &LoadedConfig,
        items: &[Item],
        limits: Limits,
    ) -> crate::Result {
        let Some(most) = limits.max_drop else { return Ok(()) };
        let asked: BTreeSet<&ItemId> = items.iter().map(|item| &item.id).collect();
        let same: Vec<RolloutResult> =
            self.results.iter().filter(|result| asked.contains(&result.id)).cloned().collect();
        let [low, _] = self.compare(loaded, &same)?.difference_interval;
        if low >= -most {
            return Ok(());
        }
        let (n, points) = (same.len(), -100.0 * low);
        let message = format!(
            "{n} items cannot exclude a loss of {} points, even if each comes out as before",
            100.0 * most
        );
        let hint = format!("measure more items, or take `--max-drop {:.0}` or more", points.ceil());
        Err(CommandError::new(message).with_hint(hint).into())
    }

    /// Looks whether each case was run as often as it will be now, before anything is paid for: only as many runs are
    /// paired.
    pub(crate) fn check_runs(&self, runs: usize) -> Result<(), CommandError> {
        let mut of_case: BTreeMap<&ItemId, usize> = BTreeMap::new();
        for result in &self.results {
            *of_case.entry(&result.id).or_default() += 1;
        }
        let Some(earlier) = of_case.into_values().find(|earlier| *earlier != runs) else { return Ok(()) };
        let earlier_runs = counted(earlier as u64, "run");
        Err(CommandError::new(format!(
            "the earlier measurement has {earlier_runs} of each case, this one {runs}"
        ))
        .with_hint(format!("use --runs {earlier}")))
    }

    fn no_item(&self) -> CommandError {
        CommandError::new(format!("{} has no item of this split", self.path.display()))
            .with_hint("measure both skills on the same split of the same data")
    }

    /// Compares item by item, by the metric of the configuration's gate.
    pub(crate) fn compare(&self, loaded: &LoadedConfig, now: &[RolloutResult]) -> crate::Result<Comparison> {
        let gate = skillrl::trainer::settings(&loaded.config)?.gate;
        Comparison::of(gate, &self.results, now).ok_or_else(|| self.no_item().into())
    }
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
    use skillrl::core::Gate;

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
