//! Where each line of a skill comes from: which step and which edit put it there, what the analyst had seen, and which
//! items the step won and lost.
//!
//! Everything is read from the run directory, so it can be asked of any run, also of one in progress. Lines are
//! followed through the run by applying its edits again, one at a time ([`lines`]); what no edit explains (a rewrite,
//! the slow update, notes in the appendix, a change by hand) is found by comparing the texts.

pub mod lines;

mod evidence;
mod slow_update;

pub use evidence::{EditEvidence, PatchSource, StepEvidence};
pub use slow_update::SlowUpdateEvidence;

use crate::error::PipelineError;
use crate::records::document::StepRecord;
use crate::records::epoch::EpochRecords;
use crate::run_dir::RunReader;
use lines::TrackedSkill;
use serde::Serialize;
use skill_core::{EpochIdx, Gate, RegionKind, SkillDoc, SkillHash, StepIdx};
use std::fmt;

/// What put a line into a skill.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum LineOrigin {
    /// It stood in the skill that the run began with.
    Initial,
    /// An edit of a step.
    Edit {
        /// The step.
        step: StepIdx,
        /// The edit's number in the step's patch, from 1.
        index: usize,
    },
    /// A step that rewrote the skill, or whose edits do not give what it wrote.
    Rewrite {
        /// The step.
        step: StepIdx,
    },
    /// The guidance of the slow update at an epoch's end, or the region for it.
    SlowUpdate {
        /// The epoch.
        epoch: EpochIdx,
        /// The last step of the epoch, after which it was written.
        step: StepIdx,
    },
    /// A note in the appendix.
    Appendix {
        /// The step that noted it.
        step: StepIdx,
    },
    /// Neither the run nor its initial skill has it: somebody changed the text afterwards.
    ByHand,
}

/// A line of a skill, and what put it there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BlamedLine {
    /// The line's number, from 1.
    pub number: usize,
    /// The line, without its end.
    pub text: String,
    /// What put it there.
    pub origin: LineOrigin,
}

/// A skill whose lines know where they come from.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Blame {
    /// The skill.
    pub skill_hash: SkillHash,
    /// Every line, in order.
    pub lines: Vec<BlamedLine>,
    /// What each step that has a line in the skill is based on, in the order of the steps.
    pub steps: Vec<StepEvidence>,
    /// What each slow update that has a line in the skill is based on, in the order of the epochs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub slow_updates: Vec<SlowUpdateEvidence>,
}

/// Which skill of a run is asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version<'a> {
    /// The best one so far.
    Best,
    /// The one that was current after a step; 0 is the initial one.
    After(StepIdx),
    /// A text, such as a file that was a skill of the run once.
    Text(&'a SkillDoc),
}

/// Says of every line of a skill where it comes from.
///
/// # Errors
///
/// Files of the run that are missing, cannot be read, or are not what they should be, and a step that is not there.
pub fn blame(run: &RunReader, version: Version<'_>) -> Result<Blame, PipelineError> {
    let Some(state) = run.state()? else {
        return Err(PipelineError::NotMeasured { path: run.path().to_owned() });
    };
    let best = match version {
        Version::Best => Some(run.best_skill()?),
        Version::After(_) | Version::Text(_) => None,
    };
    let (last, text) = match version {
        // It may lack what the end of an epoch put into the skill of its step.
        Version::Best => (state.last_completed_step, best.as_ref()),
        Version::After(step) if step > state.last_completed_step => {
            return Err(PipelineError::NoStep { step, last_step: state.last_completed_step });
        }
        Version::After(step) => (step, None),
        Version::Text(text) => (state.last_completed_step, Some(text)),
    };
    let course = Course::of(run)?;
    let tracked = match text {
        None => follow(run, &course.history, last, |_| {})?,
        Some(text) => {
            let mut closest = Closest { text, version: TrackedSkill::default(), n_in_common: 0 };
            follow(run, &course.history, last, |version| closest.meet(version))?;
            closest.version.changed(text.clone(), |_| LineOrigin::ByHand)
        }
    };
    let (mut steps, mut epochs): (Vec<StepIdx>, Vec<EpochIdx>) = (Vec::new(), Vec::new());
    for origin in tracked.origins() {
        steps.extend(origin.step().filter(|_| origin.epoch().is_none()));
        epochs.extend(origin.epoch());
    }
    steps.sort_unstable();
    steps.dedup();
    epochs.sort_unstable();
    epochs.dedup();
    let steps: Result<_, PipelineError> =
        steps.into_iter().map(|step| evidence::of_step(&course, step)).collect();
    let slow_updates =
        epochs.into_iter().filter_map(|epoch| slow_update::of_epoch(&course, epoch).transpose());
    Ok(Blame {
        skill_hash: tracked.skill().hash(),
        lines: tracked.lines(),
        steps: steps?,
        slow_updates: slow_updates.collect::<Result<_, _>>()?,
    })
}

/// A run and what it came to, step by step and epoch by epoch.
struct Course<'a> {
    run: &'a RunReader,
    history: Vec<StepRecord>,
    ends: Vec<EpochRecords>,
    /// By its score an item counts as won or lost.
    gate: Gate,
}

impl<'a> Course<'a> {
    fn of(run: &'a RunReader) -> Result<Self, PipelineError> {
        let gate = run.gate()?.unwrap_or_default();
        Ok(Self { run, history: run.history()?, ends: run.epoch_ends()?, gate })
    }
}

impl LineOrigin {
    /// The step that it names.
    pub fn step(self) -> Option<StepIdx> {
        match self {
            Self::Edit { step, .. }
            | Self::Rewrite { step }
            | Self::SlowUpdate { step, .. }
            | Self::Appendix { step } => Some(step),
            Self::Initial | Self::ByHand => None,
        }
    }

    /// The epoch whose slow update it is.
    pub fn epoch(self) -> Option<EpochIdx> {
        match self {
            Self::SlowUpdate { epoch, .. } => Some(epoch),
            Self::Initial
            | Self::Edit { .. }
            | Self::Rewrite { .. }
            | Self::Appendix { .. }
            | Self::ByHand => None,
        }
    }
}

/// In words, as blame and reports say it.
impl fmt::Display for LineOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Initial => f.write_str("initial skill"),
            Self::Edit { step, index } => write!(f, "step {step}, edit {index}"),
            Self::Rewrite { step } => write!(f, "step {step}, rewritten"),
            Self::SlowUpdate { epoch, .. } => write!(f, "slow update, epoch {}", epoch.0),
            Self::Appendix { step } => write!(f, "note of step {step}"),
            Self::ByHand => f.write_str("by hand"),
        }
    }
}

/// The current skill after a step, with the origins of its lines; each version on the way there is shown once.
fn follow(
    run: &RunReader,
    history: &[StepRecord],
    last: StepIdx,
    mut meet: impl FnMut(&TrackedSkill),
) -> Result<TrackedSkill, PipelineError> {
    let skills = run.skills(history)?;
    let mut tracked = TrackedSkill::new(skills.after(StepIdx(0))?, LineOrigin::Initial);
    meet(&tracked);
    let records = history.iter().take_while(|record| record.step <= last);
    for record in records {
        let after = skills.after(record.step)?;
        if *tracked.skill() != after {
            tracked = through(run, tracked, after, (record.epoch, record.step))?;
            meet(&tracked);
        }
    }
    Ok(tracked)
}

/// A skill that a step has changed.
fn through(
    run: &RunReader,
    before: TrackedSkill,
    after: SkillDoc,
    (epoch, step): (EpochIdx, StepIdx),
) -> Result<TrackedSkill, PipelineError> {
    let mut tracked = before;
    // Whether the candidate was taken shows in what comes after it: another text has other lines.
    if let (Some(candidate), Some(patch)) = (run.candidate(step)?, run.ranked_patch(step)?) {
        let mut edited = tracked.clone();
        let rows = run.apply_report(step)?.unwrap_or_default();
        for (edit, index) in patch.edits.iter().zip(1..) {
            let status = rows.iter().find(|row| row.index == index).map(|row| row.status);
            edited = edited.edited(edit, status, LineOrigin::Edit { step, index });
        }
        let edited = edited.changed(candidate, |_| LineOrigin::Rewrite { step });
        if edited.resembles(&after, &tracked) {
            tracked = edited;
        }
    }
    Ok(tracked.changed(after, |region| match region {
        Some(RegionKind::SlowUpdate) => LineOrigin::SlowUpdate { epoch, step },
        Some(RegionKind::Appendix) => LineOrigin::Appendix { step },
        Some(RegionKind::FrontMatter) | None => LineOrigin::Rewrite { step },
    }))
}

/// The version of a run's skill that has most lines of a text; the last one of equals.
struct Closest<'a> {
    text: &'a SkillDoc,
    version: TrackedSkill,
    n_in_common: usize,
}

impl Closest<'_> {
    fn meet(&mut self, version: &TrackedSkill) {
        let n_in_common = version.n_lines_in_common(self.text);
        if n_in_common >= self.n_in_common {
            (self.version, self.n_in_common) = (version.clone(), n_in_common);
        }
    }
}
