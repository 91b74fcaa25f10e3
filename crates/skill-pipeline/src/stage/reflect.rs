//! Stage 2, reflect: analysts read minibatches of trajectories and propose edits.

use super::own::Proposal;
use super::{Optimizer, StageCtx, finish_note};
use crate::error::PipelineError;
use crate::prompts::PromptLibrary;
use crate::prompts::files::naming_files;
use crate::prompts::schema::{APPENDIX_NOTES, analyst_schema};
use crate::records::memory::FailurePattern;
use crate::settings::AppendixSource;
use crate::stage::appendix::notes_in;
use serde_json::Value;
use skill_core::json::read_object;
use skill_core::plan::plan_minibatches;
use skill_core::rewrite::UpdateMode;
use skill_core::{ItemId, RawPatch, RolloutResult, SkillDoc, SourceType};
use skill_llm::{ChatReply, FinishReason, LlmError};

/// How trajectories are grouped and how much an analyst may propose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReflectSettings {
    /// Trajectories per analyst call.
    pub minibatch_size: usize,
    /// The most edits that one analyst may propose: the maximum of the schedule, as the reference has it.
    pub edit_budget: u32,
    /// Whether trajectories that succeeded are passed over.
    pub failure_only: bool,
    /// Which analysts may write notes for the appendix; `None` for none.
    pub appendix_source: Option<AppendixSource>,
    /// Whether an optimizer that says nothing at all is an error: where the step before came to an edit, it is not yet.
    pub ends_in_silence: bool,
}

/// A micro-batch's results, which are grouped by themselves.
#[derive(Debug, Clone, Copy)]
pub struct ReflectBatch<'run> {
    /// Its number in the step, from 0; none where a step has one.
    pub batch_idx: Option<usize>,
    /// Its seed; failures are shuffled by it, successes by the next one.
    pub seed: u64,
    /// What the agent did.
    pub results: &'run [RolloutResult],
}

/// What the analysts of a micro-batch came up with.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Reflection {
    /// The patches of the analysts whose reply had one: failures first, each in minibatch order.
    pub patches: Vec<RawPatch>,
    /// How tasks failed, in the words of the analysts, in the same order.
    pub failure_patterns: Vec<FailurePattern>,
    /// Notes for the appendix, in the same order.
    pub appendix_notes: Vec<String>,
    /// What was wrong with replies, one sentence each.
    pub notes: Vec<String>,
    /// Replies that were empty.
    pub n_empty: usize,
}

/// Asks one analyst per minibatch of failures and of successes, in all micro-batches of a step: one reflection for
/// each, in order.
///
/// # Errors
///
/// An analyst that cannot be reached ends the stage, and so does an optimizer that says nothing at all, also when it is
/// asked once more. A reply that holds no patch does not: it is noted.
pub async fn reflect(
    batches: &[ReflectBatch<'_>],
    skill: &SkillDoc,
    settings: ReflectSettings,
    prompts: &PromptLibrary,
    optimizer: &Optimizer<'_>,
    ctx: &StageCtx<'_>,
) -> Result<Vec<Reflection>, PipelineError> {
    let minibatches: Vec<Minibatch<'_>> = batches
        .iter()
        .enumerate()
        .flat_map(|(list_idx, batch)| minibatches(list_idx, *batch, settings))
        .collect();
    let analysts = Analysts { skill, settings, prompts, optimizer };
    let replies = ctx
        .map_ordered(minibatches.clone(), async |_, minibatch| {
            let (analysis, spoken) = analysts.read(&minibatch, ctx).await?;
            Ok((minibatch.list_idx, analysis, spoken))
        })
        .await?;
    let spoken: Vec<Spoken> = replies.iter().map(|(_, _, spoken)| *spoken).collect();
    if let Some(first) = minibatches.first()
        && settings.ends_in_silence
        && spoken.iter().all(Spoken::is_silent)
        && !analysts.speak_when_asked_again(first, ctx).await?
    {
        let n_cut = spoken.iter().filter(|spoken| **spoken == Spoken::Cut).count();
        return Err(PipelineError::SilentOptimizer {
            place: ctx.place().to_string(),
            n: spoken.len(),
            n_cut,
        });
    }

    let mut reflections = vec![Reflection::default(); batches.len()];
    for (list_idx, analysis, spoken) in replies {
        if let Some(reflection) = reflections.get_mut(list_idx) {
            reflection.n_empty += usize::from(spoken.is_silent());
            reflection.patches.extend(analysis.patch);
            reflection.failure_patterns.extend(analysis.failure_patterns);
            reflection.appendix_notes.extend(analysis.appendix_notes);
            reflection.notes.extend(analysis.notes);
        }
    }
    Ok(reflections)
}

/// What the analyst of a proposal is shown.
pub(crate) struct Material<'run> {
    /// The failures.
    pub(crate) failures: Vec<&'run RolloutResult>,
    /// Solved tasks of the same kind.
    pub(crate) solved: Vec<&'run RolloutResult>,
    /// Patterns in the failures of all tasks.
    pub(crate) patterns: &'run str,
}

/// Asks one analyst for a proposal from these failures, with solved tasks beside them.
///
/// An edit that names no failure that was shown is for all of them.
///
/// # Errors
///
/// As [`reflect`].
pub(crate) async fn propose(
    shown: &Material<'_>,
    skill: &SkillDoc,
    settings: ReflectSettings,
    prompts: &PromptLibrary,
    optimizer: &Optimizer<'_>,
    ctx: &StageCtx<'_>,
) -> Result<Reflection, PipelineError> {
    let analysts = Analysts { skill, settings, prompts, optimizer };
    let minibatch = Minibatch {
        list_idx: 0,
        batch_idx: None,
        source: SourceType::Failure,
        number: 1,
        trajectories: shown.failures.clone(),
        solved: shown.solved.clone(),
        patterns: shown.patterns,
    };
    let (analysis, spoken) = analysts.read(&minibatch, ctx).await?;
    if settings.ends_in_silence
        && spoken.is_silent()
        && !analysts.speak_when_asked_again(&minibatch, ctx).await?
    {
        let n_cut = usize::from(spoken == Spoken::Cut);
        return Err(PipelineError::SilentOptimizer { place: ctx.place().to_string(), n: 1, n_cut });
    }
    let Analysis { patch, failure_patterns, appendix_notes, notes } = analysis;
    let is_shown = |id: &ItemId| shown.failures.iter().any(|failure| failure.id == *id);
    let mut patches: Vec<RawPatch> = patch.into_iter().collect();
    for edit in patches.iter_mut().flat_map(|raw| &mut raw.patch.edits) {
        edit.tasks.retain(is_shown);
    }
    let n_empty = usize::from(spoken.is_silent());
    Ok(Reflection { patches, failure_patterns, appendix_notes, notes, n_empty })
}

/// Whether a reply says anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Spoken {
    Something,
    Nothing,
    /// Nothing, up to the limit on its length.
    Cut,
}

impl Spoken {
    fn of(reply: &ChatReply) -> Self {
        match &reply.finish {
            _ if !reply.text.trim().is_empty() => Self::Something,
            FinishReason::Length => Self::Cut,
            // A provider that withholds a reply is there, and so is the model.
            FinishReason::ContentFilter => Self::Something,
            FinishReason::Stop | FinishReason::ToolCalls | FinishReason::Other(_) => Self::Nothing,
        }
    }

    fn is_silent(&self) -> bool {
        *self != Self::Something
    }
}

/// What analysts are asked with.
struct Analysts<'run> {
    skill: &'run SkillDoc,
    settings: ReflectSettings,
    prompts: &'run PromptLibrary,
    optimizer: &'run Optimizer<'run>,
}

impl Analysts<'_> {
    /// Whether those who read such trajectories write notes for the appendix.
    fn writes_notes(&self, source: SourceType) -> bool {
        self.settings.appendix_source.is_some_and(|writers| writers.has(source))
    }

    /// Asks about a minibatch, and reads what is said.
    async fn read(
        &self,
        minibatch: &Minibatch<'_>,
        ctx: &StageCtx<'_>,
    ) -> Result<(Analysis, Spoken), PipelineError> {
        let Minibatch { batch_idx, source, trajectories, .. } = minibatch;
        let name = minibatch.name();
        let reply = self.ask(minibatch, &name, ctx).await?;
        let mode = self.prompts.update_mode();
        let finish = finish_note(&reply, self.optimizer.max_tokens);
        let mut analysis =
            read_analysis(&reply.text, mode, *source, trajectories, self.settings.edit_budget, finish);
        if self.writes_notes(*source) {
            analysis.appendix_notes = read_object(&reply.text, APPENDIX_NOTES)
                .map(|read| notes_in(&read.value))
                .unwrap_or_default();
            if !analysis.appendix_notes.is_empty() && analysis.patch.is_none() {
                // Lapses alone need no patch.
                analysis.notes.clear();
            }
        }
        let batch = batch_idx.map(|batch_idx| format!("batch {} ", batch_idx + 1)).unwrap_or_default();
        for note in &mut analysis.notes {
            *note = format!("analyst {batch}{name}: {note}");
        }
        Ok((analysis, Spoken::of(&reply)))
    }

    async fn ask(
        &self,
        minibatch: &Minibatch<'_>,
        name: &str,
        ctx: &StageCtx<'_>,
    ) -> Result<ChatReply, PipelineError> {
        let Self { skill, settings, prompts, optimizer } = self;
        let Minibatch { batch_idx, source, trajectories, solved, patterns, .. } = minibatch;
        let writes_notes = self.writes_notes(*source);
        let messages = match writes_notes {
            _ if !solved.is_empty() || !patterns.is_empty() => {
                let budget = settings.edit_budget;
                prompts.analyst_beside(skill, budget, trajectories, solved, patterns, writes_notes)?
            }
            false => prompts.analyst(*source, skill, settings.edit_budget, trajectories)?,
            true => prompts.skill_aware_analyst(*source, skill, settings.edit_budget, trajectories)?,
        };
        let schema = naming_files(
            analyst_schema(prompts.update_mode(), *source, writes_notes, prompts.protocol()),
            skill,
        );
        optimizer.ask(messages, schema, name, &ctx.at_batch(*batch_idx)).await
    }

    /// Whether the optimizer, which has said nothing in a whole step, says something to the first question when it is
    /// asked once more: rollouts that nobody reads are not worth their price, and a few empty replies may be chance.
    async fn speak_when_asked_again(
        &self,
        minibatch: &Minibatch<'_>,
        ctx: &StageCtx<'_>,
    ) -> Result<bool, PipelineError> {
        match self.ask(minibatch, &format!("{} again", minibatch.name()), ctx).await {
            Ok(reply) => Ok(!Spoken::of(&reply).is_silent()),
            // A recording of before nobody asked again.
            Err(PipelineError::Optimizer { source: LlmError::NotRecorded { .. }, .. }) => Ok(true),
            Err(error) => Err(error),
        }
    }
}

/// Trajectories of one kind that one analyst reads.
#[derive(Clone)]
struct Minibatch<'run> {
    list_idx: usize,
    batch_idx: Option<usize>,
    source: SourceType,
    /// Its number among those of its kind, from 1.
    number: usize,
    trajectories: Vec<&'run RolloutResult>,
    /// Tasks of the same kind that were solved, of failures where they are to be shown.
    solved: Vec<&'run RolloutResult>,
    /// Patterns in the failures of all tasks; empty without any.
    patterns: &'run str,
}

impl Minibatch<'_> {
    /// What the question about it is called.
    fn name(&self) -> String {
        format!("{} {}", self.source.as_str(), self.number)
    }
}

/// The minibatches of a micro-batch: failures first.
fn minibatches(list_idx: usize, batch: ReflectBatch<'_>, settings: ReflectSettings) -> Vec<Minibatch<'_>> {
    let is_success: Vec<bool> = batch.results.iter().map(RolloutResult::is_success).collect();
    let groups = plan_minibatches(&is_success, settings.minibatch_size, Some(batch.seed));
    let of_source = |source: SourceType, groups: Vec<Vec<usize>>| {
        (1..).zip(groups).map(move |(number, group)| {
            let trajectories: Vec<&RolloutResult> =
                group.iter().filter_map(|&result_idx| batch.results.get(result_idx)).collect();
            let (batch_idx, solved) = (batch.batch_idx, Vec::new());
            Minibatch { list_idx, batch_idx, source, number, trajectories, solved, patterns: "" }
        })
    };
    let successes = if settings.failure_only { Vec::new() } else { groups.successes };
    of_source(SourceType::Failure, groups.failures).chain(of_source(SourceType::Success, successes)).collect()
}

/// What one analyst came up with.
struct Analysis {
    patch: Option<RawPatch>,
    failure_patterns: Vec<FailurePattern>,
    appendix_notes: Vec<String>,
    notes: Vec<String>,
}

/// Reads an analyst's reply: the patch if there is one, how tasks failed, and what was wrong with it.
fn read_analysis(
    text: &str,
    mode: UpdateMode,
    source: SourceType,
    trajectories: &[&RolloutResult],
    edit_budget: u32,
    finish: Option<String>,
) -> Analysis {
    let reply = mode.read(text);
    let failure_patterns = failure_patterns(reply.value.as_ref(), trajectories.len());
    let mut notes: Vec<String> = finish.into_iter().chain(reply.notes).collect();
    let Some(mut patch) = reply.patch else {
        notes.push("the reply holds no patch; this minibatch gives no edits".to_owned());
        return Analysis { patch: None, failure_patterns, appendix_notes: Vec::new(), notes };
    };
    let n_proposed = patch.edits.len();
    let budget = usize::try_from(edit_budget).unwrap_or(usize::MAX);
    if n_proposed > budget {
        patch.edits.truncate(budget);
        let what = match mode {
            UpdateMode::Patch => "edits",
            UpdateMode::RewriteFromSuggestions => "suggestions",
            UpdateMode::FullRewriteMinibatch => "skills",
        };
        notes.push(format!("{n_proposed} {what} were proposed where {edit_budget} were asked for; the first {edit_budget} stay"));
    }
    let batch_size = u32::try_from(trajectories.len()).unwrap_or(u32::MAX);
    for edit in &mut patch.edits {
        edit.support_count.get_or_insert(batch_size);
        edit.source_type = Some(source);
    }
    let item_ids = trajectories.iter().map(|result| result.id.clone()).collect();
    let patch = RawPatch { patch, source_type: source, batch_size, item_ids, notes: notes.clone() };
    Analysis { patch: Some(patch), failure_patterns, appendix_notes: Vec::new(), notes }
}

/// Reads a proposal of an environment as the reply of an analyst: its edits are not cut to a budget.
pub(super) fn read_proposal(
    proposal: &Proposal,
    mode: UpdateMode,
    trajectories: &[&RolloutResult],
) -> (Option<RawPatch>, Vec<FailurePattern>, Vec<String>) {
    let Analysis { patch, failure_patterns, notes, .. } =
        read_analysis(&proposal.json, mode, proposal.source_type, trajectories, u32::MAX, None);
    let patch =
        patch.map(|raw| RawPatch { batch_size: proposal.batch_size.unwrap_or(raw.batch_size), ..raw });
    (patch, failure_patterns, notes)
}

/// The rows of a reply's `failure_summary`; what has no name is left out, and a count is at most the minibatch's size.
fn failure_patterns(reply: Option<&Value>, n_trajectories: usize) -> Vec<FailurePattern> {
    let rows = reply.and_then(|reply| reply.get("failure_summary")).and_then(Value::as_array);
    let text = |row: &Value, key: &str| row.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    rows.into_iter()
        .flatten()
        .map(|row| FailurePattern {
            failure_type: text(row, "failure_type"),
            count: row
                .get("count")
                .and_then(Value::as_u64)
                .and_then(|count| usize::try_from(count).ok())
                .unwrap_or(1)
                .clamp(1, n_trajectories.max(1)),
            description: text(row, "description"),
        })
        .filter(|pattern| !pattern.failure_type.trim().is_empty())
        .collect()
}
