//! What a report reads of a run: each file once, however many parts of the report are based on it.

use super::epochs::Maker;
use skill_core::{RolloutResult, StepIdx};
use skill_pipeline::records::document::{RuntimeState, StepRecord};
use skill_pipeline::records::epoch::EpochRecords;
use skill_pipeline::records::summary::Summary;
use skill_pipeline::run_dir::EvaluationDir;
use skill_pipeline::{PipelineError, RunReader};

/// A run whose initial skill is measured.
pub(super) struct Source<'run> {
    pub(super) run: &'run RunReader,
    pub(super) history: Vec<StepRecord>,
    pub(super) summary: Option<Summary>,
    pub(super) ends: Vec<EpochRecords>,
    /// What made the best skill.
    pub(super) maker: Maker,
    /// The first and the best skill on the validation split.
    pub(super) selection: Pair,
    /// The same on the test split; `None` before the end of the run, and where it was not read.
    pub(super) test: Option<Pair>,
    /// The test split with no skill at all, where it was measured.
    pub(super) no_skill: Option<Vec<RolloutResult>>,
    /// The test split with the one-shot skill, where it was measured.
    pub(super) one_shot: Option<Vec<RolloutResult>>,
}

/// Results of the first and of the best skill on the same items.
pub(super) struct Pair {
    pub(super) before: Vec<RolloutResult>,
    best: Best,
}

/// Results of the best skill.
enum Best {
    /// It is the first one, which was measured once.
    Initial,
    Measured(Vec<RolloutResult>),
    /// The program that an imported run is of did not keep them.
    NotKept,
}

impl Pair {
    pub(super) fn after(&self) -> &[RolloutResult] {
        match &self.best {
            Best::Measured(results) => results,
            Best::Initial | Best::NotKept => &self.before,
        }
    }

    /// True if the results of the initial skill take the place of those of the best one.
    pub(super) fn lacks_best(&self) -> bool {
        matches!(self.best, Best::NotKept)
    }
}

impl Best {
    /// Reads them where the skill was measured; `initial` is where the initial one was.
    fn read(run: &RunReader, place: EvaluationDir, initial: EvaluationDir) -> Result<Self, PipelineError> {
        if place == initial {
            return Ok(Self::Initial);
        }
        Ok(measured(run, place)?.map_or(Self::NotKept, Self::Measured))
    }
}

/// The results of an evaluation that the run has made; `None` only for an imported run.
fn measured(run: &RunReader, dir: EvaluationDir) -> Result<Option<Vec<RolloutResult>>, PipelineError> {
    run.check_measured(dir)?;
    run.results(dir)
}

impl<'run> Source<'run> {
    pub(super) fn read(run: &'run RunReader, state: &RuntimeState) -> Result<Self, PipelineError> {
        let (history, summary) = (run.history()?, run.summary()?);
        let maker = Maker::of_best(state, summary.as_ref());
        let selection = Pair {
            before: measured(run, EvaluationDir::Baseline)?.unwrap_or_default(),
            best: Best::read(run, maker.measured(&history), EvaluationDir::Baseline)?,
        };
        let before = match &summary {
            Some(summary) if summary.test().is_some() => measured(run, EvaluationDir::TestBaseline)?,
            Some(_) => run.results(EvaluationDir::TestBaseline)?,
            None => None,
        };
        let test = match before {
            Some(before) => {
                let best = Best::read(run, maker.tested(&history), EvaluationDir::TestBaseline)?;
                Some(Pair { before, best })
            }
            None => None,
        };
        let no_skill = match &summary {
            Some(summary) if summary.test_no_skill.is_some() => measured(run, EvaluationDir::TestNoSkill)?,
            Some(_) | None => None,
        };
        let one_shot = match &summary {
            Some(summary) if summary.test_one_shot.is_some() => measured(run, EvaluationDir::TestOneShot)?,
            Some(_) | None => None,
        };
        let ends = run.epoch_ends()?;
        Ok(Self { run, ends, maker, selection, test, no_skill, one_shot, history, summary })
    }

    /// The tokens of each result of an evaluation, from what was read already where it was.
    pub(super) fn tokens(&self, dir: EvaluationDir) -> Result<Option<Vec<u64>>, PipelineError> {
        let known = match dir {
            EvaluationDir::Baseline => Some(&self.selection.before),
            dir if dir == self.maker.measured(&self.history) => match &self.selection.best {
                Best::Measured(results) => Some(results),
                Best::Initial | Best::NotKept => None,
            },
            _ => None,
        };
        match known {
            Some(results) => Ok(Some(results.iter().map(|result| result.usage.tokens()).collect())),
            None => self.run.tokens(dir),
        }
    }

    /// True if the best skill is the one that the run began with.
    pub(super) fn is_unchanged(&self) -> bool {
        self.maker.step() == StepIdx(0)
    }
}
