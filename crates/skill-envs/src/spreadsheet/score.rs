//! From a program to a verdict: it is run for every case in a directory of its own, and its workbooks are compared.

use super::config::SpreadsheetConfig;
use super::feedback::failure;
use super::judge::{Got, WorkbookComparison};
use super::lab::{Lab, Ran, wrong};
use super::office;
use super::task::{Case, Task};
use crate::choices::Recalculate;
use crate::error::EnvError;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// What a program came to in one case.
#[derive(Debug)]
pub(super) struct Judged {
    pub(super) ran: Ran,
    pub(super) is_right: bool,
    /// What is wrong, with the right values.
    pub(super) reason: String,
    /// The same without them.
    pub(super) feedback: String,
}

/// How workbooks are judged.
pub(super) struct Judge<'a> {
    pub(super) lab: &'a Lab,
    pub(super) config: &'a SpreadsheetConfig,
    pub(super) task: &'a Task,
    pub(super) cancel: &'a CancellationToken,
}

impl Judge<'_> {
    /// Runs a program on the input of a case.
    pub(super) async fn run(&self, code: &str, case: &Case) -> Result<Ran, EnvError> {
        let input = case.read_input().map_err(|error| wrong(&error))?;
        self.lab.run(code, &input, self.cancel).await
    }

    /// Runs a program for a case and judges what it wrote.
    pub(super) async fn judge(&self, code: &str, case: &Case) -> Result<Judged, EnvError> {
        let ran = self.run(code, case).await?;
        if let Some(why) = failure(&ran) {
            return Ok(Judged { ran, is_right: false, feedback: why.clone(), reason: why });
        }
        let verdict = self.compare(case, &ran).await?;
        Ok(Judged { ran, is_right: verdict.is_right, reason: verdict.reason(), feedback: verdict.feedback() })
    }

    async fn compare(&self, case: &Case, ran: &Ran) -> Result<WorkbookComparison, EnvError> {
        let compare = self.config.compare;
        let gold = self.task.gold(case).map_err(|error| wrong(&error))?;
        let output = Arc::clone(ran.output().unwrap_or(&Arc::from(&b""[..])));
        let mut got: Got = match gold.read_answer(Arc::clone(&output), compare) {
            Ok(got) => got,
            Err(error) => return Ok(WorkbookComparison::unreadable(error)),
        };
        if self.config.recalculate == Recalculate::Auto && got.has_formulas() {
            match self.lab.office() {
                Some(office) => {
                    let (sandbox, cache) = (self.lab.sandbox(), self.lab.cache());
                    match office.calculate(sandbox, cache, output, self.cancel).await? {
                        Ok(bytes) => {
                            if let Err(error) = got.calculate(&gold, bytes) {
                                return Ok(WorkbookComparison::unreadable(format!(
                                    "cannot be calculated: it {error}"
                                )));
                            }
                        }
                        Err(why) => {
                            return Ok(WorkbookComparison::unreadable(format!(
                                "cannot be calculated: {why}"
                            )));
                        }
                    }
                }
                None => {
                    let n_open = gold.judge(&got, compare).n_uncalculated;
                    if n_open > 0 {
                        return Err(office::missing(n_open));
                    }
                }
            }
        }
        Ok(gold.judge(&got, compare))
    }
}
