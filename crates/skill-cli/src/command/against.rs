//! `skillrl eval --against`: a measurement beside an earlier one, item by item.

use super::{Regression, UsageError};
use skillrl::config::LoadedConfig;
use skillrl::core::{ItemId, RolloutResult};
use skillrl::envs::Item;
use skillrl::pipeline::run_dir::RESULTS_FILE;
use skillrl::reports::words::percent;
use skillrl::reports::{Comparison, LEVEL};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The results of an earlier measurement.
pub(super) struct Earlier {
    path: PathBuf,
    results: Vec<RolloutResult>,
}

impl Earlier {
    /// Reads the directory that `eval --out` wrote, before anything is paid for.
    pub(super) fn read(dir: &Path) -> anyhow::Result<Self> {
        let path = if dir.is_dir() { dir.join(RESULTS_FILE) } else { dir.to_owned() };
        let wrong = |message: String| {
            UsageError::new(message).with_hint("name a directory that `skillrl eval --out DIR` has written")
        };
        let bytes = std::fs::read(&path)
            .map_err(|error| wrong(format!("cannot read {}: {error}", path.display())))?;
        let results: Vec<RolloutResult> = serde_json::from_slice(&bytes)
            .map_err(|error| wrong(format!("{} holds no results: {error}", path.display())))?;
        let results = results.into_iter().map(RolloutResult::without_trajectory).collect();
        Ok(Self { path, results })
    }

    /// Looks whether there is anything to compare, before anything is paid for.
    pub(super) fn check_items(&self, items: &[Item]) -> Result<(), UsageError> {
        let asked: BTreeSet<&ItemId> = items.iter().map(|item| &item.id).collect();
        match self.results.iter().any(|result| asked.contains(&result.id)) {
            true => Ok(()),
            false => Err(self.no_item()),
        }
    }

    fn no_item(&self) -> UsageError {
        UsageError::new(format!("{} has no item of this split", self.path.display()))
            .with_hint("measure both skills on the same split of the same data")
    }

    /// Compares item by item, by the metric of the configuration's gate.
    pub(super) fn compare(&self, loaded: &LoadedConfig, now: &[RolloutResult]) -> anyhow::Result<Comparison> {
        let gate = skillrl::trainer::settings(&loaded.config)?.gate;
        Comparison::of(gate, &self.results, now).ok_or_else(|| self.no_item().into())
    }
}

/// The comparison in a line or two.
pub(super) fn describe(compared: &Comparison) -> String {
    let [low, high] = compared.difference_interval;
    let points = |difference: f64| format!("{:+.1}", difference * 100.0);
    format!(
        "against {} before, on {} items of both: {} points ({:.0} % interval {} to {}); {} won, {} lost\n",
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

/// A drop that is more than chance would give is an error; one that may be chance is not.
pub(super) fn check(compared: &Comparison) -> Result<(), Regression> {
    let [_, high] = compared.difference_interval;
    if high >= 0.0 {
        return Ok(());
    }
    Err(Regression {
        message: format!(
            "the skill scores significantly less than before: {}",
            describe(compared).trim_end()
        ),
    })
}
