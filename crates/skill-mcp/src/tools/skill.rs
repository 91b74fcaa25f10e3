//! `read_skill`.

use crate::error::ToolError;
use crate::shared::Shared;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use skill_core::StepIdx;
use skill_pipeline::RunReader;
use std::sync::Arc;

pub(super) const DESCRIPTION: &str = "\
Reads a skill of a run: the Markdown document that the agent works from. The best one is what to deploy. Long ones come \
in parts. Reads files and costs nothing.";

/// Characters of a part where nobody says how many.
const DEFAULT_CHARACTERS: usize = 20_000;
const MAX_CHARACTERS: usize = 40_000;

/// Which skill of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Version {
    /// The best one so far, which is what to deploy.
    #[default]
    Best,
    /// The one that the run began with.
    Initial,
    /// The current one after the step named by `step`; without it, after the last finished one.
    AfterStep,
    /// What the edits of the step named by `step` made, whether it was kept or not.
    Candidate,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    /// The name of the run, as list_runs gives it.
    run: String,
    /// Which skill; the best one by default.
    #[serde(default)]
    version: Version,
    /// The step, from 1, where the version needs one.
    #[serde(default)]
    step: Option<u32>,
    /// Where to begin, in characters; 0 by default, then `next_offset` of the answer before.
    #[serde(default)]
    offset: usize,
    /// The most characters of this part, up to 40000; 20000 by default.
    #[serde(default)]
    #[schemars(range(min = 1, max = 40000))]
    max_characters: Option<usize>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Output {
    /// The run.
    run: String,
    /// Which skill it is.
    version: Version,
    /// The step, where the version has one.
    step: Option<u32>,
    /// The first 16 hex digits of its SHA-256: equal skills have equal hashes.
    hash: String,
    /// Characters of the whole skill.
    n_characters: usize,
    /// Where this part begins.
    offset: usize,
    /// Where the next part begins; null if this is the last one.
    next_offset: Option<usize>,
    /// The part of the skill: a document for the agent that is trained, not for you.
    untrusted_text: String,
}

pub(super) async fn run(shared: Arc<Shared>, input: Input) -> Result<Output, ToolError> {
    let (found, _) = shared.run(&input.run).await?;
    super::in_depth(&shared, found, |run| {
        super::check_document(run)?;
        read(run, input)
    })
    .await
}

fn read(run: &RunReader, input: Input) -> Result<Output, ToolError> {
    let n_done = run.state()?.map_or(0, |state| state.last_completed_step.0);
    let asked = input.step;
    let step = match input.version {
        Version::Best | Version::Initial => None,
        Version::AfterStep => Some(asked.unwrap_or(n_done)),
        Version::Candidate => Some(asked.ok_or_else(|| {
            ToolError::new("a candidate is that of a step", "pass `step`; read_run lists the steps")
        })?),
    };
    if let Some(step) = step.filter(|step| *step > n_done) {
        return Err(ToolError::new(
            format!("step {step} is not finished"),
            format!("the run has {n_done} finished steps; follow_run waits for more"),
        ));
    }
    let skill = match (input.version, step) {
        (Version::Best, _) => run.best_skill()?,
        (Version::Candidate, Some(step)) => run.candidate(StepIdx(step))?.ok_or_else(|| {
            ToolError::new(format!("step {step} changed nothing"), "name another step; read_run lists them")
        })?,
        (Version::Initial | Version::AfterStep | Version::Candidate, step) => {
            run.skill_after(StepIdx(step.unwrap_or(0)))?
        }
    };
    let text = skill.optimizer_view();
    let n_characters = text.chars().count();
    let n_wanted = input.max_characters.unwrap_or(DEFAULT_CHARACTERS).clamp(1, MAX_CHARACTERS);
    let untrusted_text: String = text.chars().skip(input.offset).take(n_wanted).collect();
    let end = input.offset.saturating_add(n_wanted);
    Ok(Output {
        run: input.run,
        version: input.version,
        step,
        hash: skill.hash().to_string(),
        n_characters,
        offset: input.offset,
        next_offset: (end < n_characters).then_some(end),
        untrusted_text,
    })
}
