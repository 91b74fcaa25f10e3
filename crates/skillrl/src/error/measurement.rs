//! Errors of the directory of a measurement.

use std::path::PathBuf;

/// Why a directory cannot keep a measurement.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MeasurementError {
    /// It is that of a run, whose summary and journal would become those of the measurement.
    #[error("{} is the directory of a run, which this would damage", path.display())]
    OfARun {
        /// The directory.
        path: PathBuf,
    },
    /// It holds something else.
    #[error("{} holds {what}, which this would replace", path.display())]
    Other {
        /// The directory, or the file in it.
        path: PathBuf,
        /// What it holds.
        what: String,
    },
    /// Its journal is empty or missing.
    #[error("{} is empty or missing, so the requests of {} would be paid for again", journal.display(), path.display())]
    LostCalls {
        /// The directory.
        path: PathBuf,
        /// The journal.
        journal: PathBuf,
    },
    /// No skill of a bank is active.
    #[error(
        "{} has no active skill, so no task would be shown anything; {n_waiting} candidates wait for a trial",
        path.display()
    )]
    NoActiveSkill {
        /// The bank.
        path: PathBuf,
        /// Candidates.
        n_waiting: usize,
    },
    /// An earlier measurement cannot be read.
    #[error("cannot read {}", path.display())]
    Unread {
        /// The file with its results.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// A directory of several measurements, such as a matrix.
    #[error("{} holds several measurements", path.display())]
    Several {
        /// The directory.
        path: PathBuf,
        /// One of them.
        example: PathBuf,
    },
    /// A file is no list of results.
    #[error("{} holds no results", path.display())]
    NoResults {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: serde_json::Error,
    },
    /// An earlier measurement has other data or another scorer, or it is not known which.
    #[error("{} cannot be compared with item by item: {why}", path.display())]
    NotComparable {
        /// The file with its results.
        path: PathBuf,
        /// What differs.
        why: String,
    },
    /// An earlier measurement has none of the items.
    #[error("{} has no item of this split", path.display())]
    NoItem {
        /// The file with its results.
        path: PathBuf,
    },
    /// An earlier measurement has another number of runs, of which only as many are paired.
    #[error("the earlier measurement has {earlier} of each case, this one {now}", earlier = runs(*.earlier))]
    OtherRuns {
        /// Runs of each case then.
        earlier: usize,
        /// Runs of each case now.
        now: usize,
    },
    /// The items are too few to exclude a loss.
    #[error("{n} items cannot exclude a loss of {most} points, even if each comes out as before")]
    FewItems {
        /// Items.
        n: usize,
        /// The loss that may be left, in points.
        most: f64,
        /// The loss that these items can exclude, in points.
        possible: f64,
    },
}

fn runs(n: usize) -> String {
    if n == 1 { "1 run".to_owned() } else { format!("{n} runs") }
}

impl MeasurementError {
    /// What a person can do about it.
    pub fn hint(&self) -> String {
        let hint = match self {
            Self::OfARun { .. } => "name another directory with `--out`",
            Self::Other { .. } => "name another directory with `--out`, or replace it with --force",
            Self::LostCalls { .. } => {
                "bring it back from a copy, name another directory, or measure again with --force"
            }
            Self::NoActiveSkill { .. } => {
                "`skillrl train` tries them with `bank.initial`, and `skillrl distill --admit unmeasured` makes a bank without trials"
            }
            Self::Unread { .. } | Self::NoResults { .. } => {
                "name a directory that `skillrl eval --out DIR` has written"
            }
            Self::Several { example, .. } => {
                return format!("name one of them, such as {}", example.display());
            }
            Self::NotComparable { .. } => {
                "measure the earlier skill again with the data and the scorer of now: `skillrl eval .. --out DIR --force`"
            }
            Self::NoItem { .. } => "measure both skills on the same split of the same data",
            Self::OtherRuns { earlier, .. } => return format!("use --runs {earlier}"),
            Self::FewItems { possible, .. } => {
                return format!("measure more items, or take `--max-drop {:.0}` or more", possible.ceil());
            }
        };
        hint.to_owned()
    }
}
