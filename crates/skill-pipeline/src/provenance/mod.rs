//! Where each line of a skill comes from: which step and which edit put it there, what the analyst had seen, and which
//! items the step won and lost.
//!
//! Everything is read from the run directory, so it can be asked of any run, also of one in progress. Lines are
//! followed through the run by applying its edits again, one at a time ([`lines`]); what no edit explains (a rewrite,
//! the slow update, notes in the appendix, a change by hand) is found by comparing the texts.

pub mod lines;

mod evidence;

pub use evidence::{EditEvidence, PatchSource, StepEvidence};

use crate::error::PipelineError;
use crate::run_dir::RunReader;
use lines::TrackedSkill;
use serde::Serialize;
use skill_core::{RegionKind, SkillDoc, SkillHash, StepIdx};

/// What put a line into a skill.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Origin {
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
    /// The guidance of the slow update after a step.
    SlowUpdate {
        /// The step after which it was written.
        step: StepIdx,
    },
    /// A note in the appendix.
    Appendix {
        /// The step that noted it.
        step: StepIdx,
    },
    /// Neither the run nor its first skill has it: somebody changed the text afterwards.
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
    pub origin: Origin,
}

/// A skill whose lines know where they come from.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Blame {
    /// The skill.
    pub skill_hash: SkillHash,
    /// Every line, in order.
    pub lines: Vec<BlamedLine>,
    /// What each step that has a line in the skill stands on, in the order of the steps.
    pub steps: Vec<StepEvidence>,
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
        let message = "the run has not measured its first skill yet, so no line has a history".to_owned();
        return Err(PipelineError::Corrupt { path: run.path().to_owned(), message });
    };
    let (last, text) = match version {
        Version::Best => (state.best_step, None),
        Version::After(step) if step > state.last_completed_step => {
            let message =
                format!("the run has no step {step} yet; the last one is {}", state.last_completed_step);
            return Err(PipelineError::Settings { message });
        }
        Version::After(step) => (step, None),
        Version::Text(text) => (state.last_completed_step, Some(text)),
    };
    let versions = follow(run, last)?;
    let tracked = match text {
        None => versions.into_iter().next_back().unwrap_or_default(),
        Some(text) => closest(versions, text),
    };
    let mut steps: Vec<StepIdx> = tracked.origins().iter().filter_map(|origin| origin.step()).collect();
    steps.sort_unstable();
    steps.dedup();
    let history = run.history()?;
    let evidence = steps.into_iter().map(|step| evidence::of_step(run, &history, step));
    Ok(Blame {
        skill_hash: tracked.skill().hash(),
        lines: tracked.lines(),
        steps: evidence.collect::<Result<_, _>>()?,
    })
}

impl Origin {
    /// The step that it names.
    pub fn step(self) -> Option<StepIdx> {
        match self {
            Self::Edit { step, .. }
            | Self::Rewrite { step }
            | Self::SlowUpdate { step }
            | Self::Appendix { step } => Some(step),
            Self::Initial | Self::ByHand => None,
        }
    }
}

/// The current skill after each step from 0 to `last`, with the origins of its lines.
fn follow(run: &RunReader, last: StepIdx) -> Result<Vec<TrackedSkill>, PipelineError> {
    let mut versions = vec![TrackedSkill::new(run.skill_after(StepIdx(0))?, Origin::Initial)];
    for step in (1..=last.0).map(StepIdx) {
        let after = run.skill_after(step)?;
        let before = versions.last().cloned().unwrap_or_default();
        versions.push(if before.skill() == &after { before } else { through(run, before, after, step)? });
    }
    Ok(versions)
}

/// A skill that a step has changed.
fn through(
    run: &RunReader,
    before: TrackedSkill,
    after: SkillDoc,
    step: StepIdx,
) -> Result<TrackedSkill, PipelineError> {
    let mut tracked = before;
    // Whether the candidate was taken shows in what comes after it: another text has other lines.
    if let (Some(candidate), Some(patch)) = (run.candidate(step)?, run.ranked_patch(step)?) {
        let mut edited = tracked.clone();
        for (edit, index) in patch.edits.iter().zip(1..) {
            edited = edited.edited(edit, Origin::Edit { step, index });
        }
        let edited = edited.changed(candidate, |_| Origin::Rewrite { step });
        if edited.resembles(&after, &tracked) {
            tracked = edited;
        }
    }
    Ok(tracked.changed(after, |region| match region {
        Some(RegionKind::SlowUpdate) => Origin::SlowUpdate { step },
        Some(RegionKind::Appendix) => Origin::Appendix { step },
        Some(RegionKind::FrontMatter) | None => Origin::Rewrite { step },
    }))
}

/// The version with most lines of a text, as that text; the last one of equals.
fn closest(versions: Vec<TrackedSkill>, text: &SkillDoc) -> TrackedSkill {
    let best = versions.into_iter().max_by_key(|version| version.n_lines_in_common(text));
    best.unwrap_or_default().changed(text.clone(), |_| Origin::ByHand)
}
