//! Arguments of `skillrl eval`.

use super::{DataArgs, StartArgs};
use clap::Args;
use std::path::PathBuf;

/// Where a measurement is kept, and the one that it is compared with.
#[derive(Debug, Args)]
pub(crate) struct MeasurementArgs {
    /// Write the result and its calls to this directory; the same command resumes.
    ///
    /// Nothing is measured twice. With `--agent`, a directory for each agent and arm.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,

    /// Overwrite the result in `--out` even if it is of another skill, bank, item set or settings.
    #[arg(long, requires = "out")]
    pub(crate) force: bool,

    /// Compare with an earlier measurement, item by item: a directory that `eval --out` has written.
    #[arg(long, value_name = "DIR")]
    pub(crate) against: Option<PathBuf>,

    /// Fail with exit code 11 if the score drops by more than chance (interval below 0).
    #[arg(long, requires = "against")]
    pub(crate) fail_on_drop: bool,
}

#[derive(Debug, Args)]
pub(crate) struct EvalArgs {
    #[command(flatten)]
    pub(crate) config: StartArgs,

    #[command(flatten)]
    pub(crate) data: DataArgs,

    /// The skill to measure; without it, the best skill of the run, else the initial one.
    ///
    /// A Markdown file, or a folder with a SKILL.md; several with commas between them make a matrix, as do
    /// several models in `--model`.
    #[arg(long, value_name = "PATH,..")]
    pub(crate) skill: Option<PathBuf>,

    /// Measure the split without and with this bank, item by item: a directory, or a file.
    ///
    /// The skill is shown in both cases.
    #[arg(long, value_name = "BANK")]
    pub(crate) bank: Option<PathBuf>,

    /// Have this policy play in the place of the target: the folder `policy` of a run of `skillrl sft`.
    #[arg(long, value_name = "DIR")]
    pub(crate) policy: Option<PathBuf>,

    /// Measure how far greedy scores depend on `batch_rows` (1, 8, 64, 128 and 140).
    #[arg(long, requires = "policy", conflicts_with_all = ["bank", "out", "against"])]
    pub(crate) check_batch: bool,

    /// Measure a run's first and best skill under the models of [models.targets], or these.
    ///
    /// `target` is the run's own model. With `--skill`, measure those skills.
    #[arg(long, value_name = "NAME,..", num_args = 0..=1, require_equals = true, value_delimiter = ',', conflicts_with_all = ["model", "bank", "policy"])]
    pub(crate) targets: Option<Vec<String>>,

    /// The split to measure it on: train, val or test. By default val, and test with `--targets`.
    #[arg(long)]
    pub(crate) split: Option<String>,

    #[command(flatten)]
    pub(crate) measurement: MeasurementArgs,

    /// Fail with exit code 11 unless the interval excludes a loss of POINTS.
    #[arg(long, value_name = "POINTS", requires = "against", value_parser = in_percent)]
    pub(crate) max_drop: Option<f64>,

    /// Fail with exit code 11 if the score is below PERCENT.
    #[arg(long, value_name = "PERCENT", value_parser = in_percent, conflicts_with_all = ["bank", "check_batch"])]
    pub(crate) min_score: Option<f64>,

    /// Write the result to standard output as Markdown, such as for the summary of a job.
    #[arg(long, conflicts_with_all = ["json", "bank", "check_batch"])]
    pub(crate) markdown: bool,

    /// Write a line for each item to standard output as CSV, with the scores and the replies side by side.
    #[arg(long, conflicts_with_all = ["json", "markdown", "bank", "check_batch"])]
    pub(crate) csv: bool,

    /// Write the scores and every item's replies side by side as one HTML page.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["bank", "check_batch"])]
    pub(crate) html: Option<PathBuf>,

    /// Write the result to standard output as one JSON object.
    #[arg(long)]
    pub(crate) json: bool,

    /// Agree to the cost, and to send data to an address that no configuration here names: nothing is asked.
    #[arg(short, long)]
    pub(crate) yes: bool,

    /// Print only errors, warnings and the result.
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

/// A share that is typed in percent, or a difference in points.
pub(super) fn in_percent(text: &str) -> Result<f64, String> {
    match text.trim().trim_end_matches('%').trim_end().parse::<f64>() {
        Ok(percent) if (0.0..=100.0).contains(&percent) => Ok(percent / 100.0),
        Ok(_) | Err(_) => Err("a number from 0 to 100, such as 3 or 85".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::in_percent;

    #[test]
    fn limits_are_in_percent() {
        assert_eq!(in_percent("3"), Ok(0.03));
        assert_eq!(in_percent("85 %"), Ok(0.85));
        for wrong in ["-1", "101", "nan", "many", ""] {
            assert!(in_percent(wrong).is_err(), "{wrong}");
        }
    }
}
