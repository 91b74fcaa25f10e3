//! Arguments of `skillrl eval`.

use super::{DataArgs, StartArgs};
use clap::Args;
use std::path::PathBuf;

/// Where a measurement is kept, and the one that it is compared with.
#[derive(Debug, Args)]
pub(crate) struct MeasurementArgs {
    /// Writes the result with every item to this directory, and keeps the calls there: the same command resumes after
    /// it was stopped, and measures nothing twice. With `--agent`, a directory for each agent and arm.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,

    /// Overwrites the result in `--out` even if it is of another skill, bank, item set or settings.
    #[arg(long, requires = "out")]
    pub(crate) force: bool,

    /// Compares with an earlier measurement, item by item: a directory that `eval --out` has written.
    #[arg(long, value_name = "DIR")]
    pub(crate) against: Option<PathBuf>,

    /// Fails with exit code 11 if the score has dropped by more than chance would give: the interval is below 0.
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
    /// A Markdown file, or a folder with a SKILL.md; several with commas between them make a matrix, as do several
    /// models in `--model`.
    #[arg(long, value_name = "PATH,..")]
    pub(crate) skill: Option<PathBuf>,

    /// Measures the split without this bank and with it, and compares item by item: a directory, or a file of any
    /// format. The skill is shown in both cases.
    #[arg(long, value_name = "BANK")]
    pub(crate) bank: Option<PathBuf>,

    /// Has this policy play in the place of the target: the folder `policy` of a run of `skillrl sft`.
    #[arg(long, value_name = "DIR")]
    pub(crate) policy: Option<PathBuf>,

    /// Measures greedy replies of the policy in batches of 1, 8, 64, 128 and 140, and prints how far scores depend on
    /// `batch_rows`.
    #[arg(long, requires = "policy", conflicts_with_all = ["bank", "out", "against"])]
    pub(crate) check_batch: bool,

    /// Measures the first and the best skill of a run under further models, those of [models.targets]: all of them, or
    /// these, with `target` for the run's own. With `--skill`, measures those skills.
    #[arg(long, value_name = "NAME,..", num_args = 0..=1, require_equals = true, value_delimiter = ',', conflicts_with_all = ["model", "bank", "policy"])]
    pub(crate) targets: Option<Vec<String>>,

    /// The split to measure it on: train, val or test. By default val, and test with `--targets`.
    #[arg(long)]
    pub(crate) split: Option<String>,

    #[command(flatten)]
    pub(crate) measurement: MeasurementArgs,

    /// Fails with exit code 11 unless a loss of so many points can be excluded: the interval reaches below minus POINTS.
    #[arg(long, value_name = "POINTS", requires = "against", value_parser = in_percent)]
    pub(crate) max_drop: Option<f64>,

    /// Fails with exit code 11 if the score is below PERCENT.
    #[arg(long, value_name = "PERCENT", value_parser = in_percent, conflicts_with_all = ["bank", "check_batch"])]
    pub(crate) min_score: Option<f64>,

    /// Writes the result to standard output as Markdown, such as for the summary of a job.
    #[arg(long, conflicts_with_all = ["json", "bank", "check_batch"])]
    pub(crate) markdown: bool,

    /// Writes a line for each item to standard output as CSV, with the scores and the replies side by side.
    #[arg(long, conflicts_with_all = ["json", "markdown", "bank", "check_batch"])]
    pub(crate) csv: bool,

    /// Writes the scores and every item's replies side by side as one HTML page.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["bank", "check_batch"])]
    pub(crate) html: Option<PathBuf>,

    /// Writes the result to standard output as one JSON object.
    #[arg(long)]
    pub(crate) json: bool,

    /// Agrees to the cost, and to send data to an address that no configuration here names: nothing is asked.
    #[arg(short, long)]
    pub(crate) yes: bool,

    /// Prints only errors, warnings and the result.
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
