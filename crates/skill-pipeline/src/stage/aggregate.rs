//! Stage 3, aggregate: many patches become one, failures first.

use super::{Optimizer, StageCtx, finish_note};
use crate::error::PipelineError;
use crate::prompts::PromptLibrary;
use crate::prompts::files::naming_files;
use crate::prompts::schema::merge_schema;
use serde_json::Value;
use skill_core::json::PatchReply;
use skill_core::{Edit, Patch, RawPatch, SkillDoc, SourceType};
use skill_llm::Message;

/// The smallest number of patches that a merge call takes: with fewer the tree would never end.
const MIN_MERGE_BATCH: usize = 2;

/// The merged patch and what was wrong with merge replies.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Aggregation {
    /// All edits that are left, in order.
    pub patch: Patch,
    /// One sentence each.
    pub notes: Vec<String>,
}

/// Merges the patches of failures and of successes, each by a tree of merge calls, then both with failures first.
///
/// A single patch passes without a call. A merge reply that cannot be used falls back to all edits of its group.
///
/// # Errors
///
/// A merge call that cannot be made ends the stage.
pub async fn aggregate(
    raw_patches: &[RawPatch],
    skill: &SkillDoc,
    merge_batch_size: usize,
    prompts: &PromptLibrary,
    optimizer: &Optimizer<'_>,
    ctx: &StageCtx<'_>,
) -> Result<Aggregation, PipelineError> {
    let patches_of = |source: SourceType| -> Vec<Patch> {
        raw_patches
            .iter()
            .filter(|raw| raw.source_type == source && !raw.patch.edits.is_empty())
            .map(|raw| raw.patch.clone())
            .collect()
    };
    let merger = Merger { skill, batch_size: merge_batch_size.max(MIN_MERGE_BATCH), prompts, optimizer, ctx };
    let mut failure = Tree::new(SourceType::Failure, patches_of(SourceType::Failure));
    let mut success = Tree::new(SourceType::Success, patches_of(SourceType::Success));
    merger.merge_trees([&mut failure, &mut success]).await?;
    let mut notes = failure.notes;
    notes.extend(success.notes);
    let left = |patches: Vec<Patch>| patches.into_iter().next().filter(|patch| !patch.edits.is_empty());
    let (failure, success) = (left(failure.patches), left(success.patches));
    let patch = match (failure, success) {
        (None, None) => Patch { reasoning: "no updates from either group".to_owned(), ..Patch::default() },
        (Some(patch), None) | (None, Some(patch)) => patch,
        (Some(failure), Some(success)) => merger.merge_final(&failure, &success, &mut notes).await?,
    };
    Ok(Aggregation { patch, notes })
}

/// The patches of one source that are still to be merged.
struct Tree {
    source: SourceType,
    patches: Vec<Patch>,
    notes: Vec<String>,
}

impl Tree {
    fn new(source: SourceType, patches: Vec<Patch>) -> Self {
        Self { source, patches, notes: Vec::new() }
    }
}

struct Merger<'stage> {
    skill: &'stage SkillDoc,
    batch_size: usize,
    prompts: &'stage PromptLibrary,
    optimizer: &'stage Optimizer<'stage>,
    ctx: &'stage StageCtx<'stage>,
}

impl Merger<'_> {
    /// Merges level by level until each tree has one patch left; groups of one pass to the next level as they are.
    ///
    /// The trees do not wait for each other: their groups of one level are merged at the same time.
    async fn merge_trees(&self, mut trees: [&mut Tree; 2]) -> Result<(), PipelineError> {
        let mut level = 0_u32;
        while trees.iter().any(|tree| tree.patches.len() > 1) {
            level += 1;
            let mut groups = Vec::new();
            for (tree_idx, tree) in trees.iter_mut().enumerate().filter(|(_, tree)| tree.patches.len() > 1) {
                let patches = std::mem::take(&mut tree.patches);
                let chunks = patches.chunks(self.batch_size).map(<[Patch]>::to_vec).enumerate();
                groups.extend(chunks.map(|(group_idx, group)| (tree_idx, tree.source, group_idx, group)));
            }
            let merged = self
                .ctx
                .map_ordered(groups, async |_, (tree_idx, source, group_idx, group)| {
                    Ok((tree_idx, self.merge_group(source, level, group_idx, group).await?))
                })
                .await?;
            for (tree_idx, (patch, notes)) in merged {
                if let Some(tree) = trees.get_mut(tree_idx) {
                    tree.patches.push(patch);
                    tree.notes.extend(notes);
                }
            }
        }
        Ok(())
    }

    async fn merge_group(
        &self,
        source: SourceType,
        level: u32,
        group_idx: usize,
        group: Vec<Patch>,
    ) -> Result<(Patch, Vec<String>), PipelineError> {
        if let [_] = group.as_slice() {
            return Ok((group.into_iter().next().unwrap_or_default(), Vec::new()));
        }
        let name = format!("{} level {level} group {}", source.as_str(), group_idx + 1);
        let messages = self.prompts.merge(source, self.skill, &group, level)?;
        let concatenation = || {
            let edits = group.iter().flat_map(|patch| patch.edits.clone()).map(|mut edit| {
                edit.merge_level.get_or_insert(level);
                edit
            });
            Patch {
                reasoning: "fallback concatenation".to_owned(),
                edits: edits.collect(),
                ranking_details: None,
            }
        };
        let known: Vec<&Edit> = group.iter().flat_map(|patch| &patch.edits).collect();
        let (mut patch, notes, is_fallback) = self.ask(messages, &name, &known, concatenation).await?;
        if !is_fallback {
            for edit in &mut patch.edits {
                edit.merge_level = Some(level);
            }
        }
        Ok((patch, notes))
    }

    async fn merge_final(
        &self,
        failure: &Patch,
        success: &Patch,
        notes: &mut Vec<String>,
    ) -> Result<Patch, PipelineError> {
        let messages = self.prompts.merge_final(self.skill, failure, success)?;
        let both = || Patch {
            reasoning: "fallback: failure first, then success".to_owned(),
            edits: failure.edits.iter().chain(&success.edits).cloned().collect(),
            ranking_details: None,
        };
        let known: Vec<&Edit> = failure.edits.iter().chain(&success.edits).collect();
        let merged = self
            .ctx
            .map_ordered(vec![messages], async |_, messages| self.ask(messages, "final", &known, both).await)
            .await?;
        let Some((patch, merge_notes, _)) = merged.into_iter().next() else { return Ok(both()) };
        notes.extend(merge_notes);
        Ok(patch)
    }

    /// Asks for a merge; the flag says that the reply could not be used and the fallback is in.
    async fn ask(
        &self,
        messages: Vec<Message>,
        name: &str,
        known: &[&Edit],
        fallback: impl Fn() -> Patch,
    ) -> Result<(Patch, Vec<String>, bool), PipelineError> {
        let mode = self.prompts.update_mode();
        let schema = naming_files(merge_schema(mode), self.skill);
        let reply = self.optimizer.ask(messages, schema, name, self.ctx).await?;
        let read = mode.read(&reply.text);
        let argues_for_nothing = argues_for_no_change(&read);
        let mut notes: Vec<String> =
            finish_note(&reply, self.optimizer.max_tokens).into_iter().chain(read.notes).collect();
        let outcome = match read.patch {
            Some(mut patch) if !patch.edits.is_empty() => {
                for edit in &mut patch.edits {
                    inherit_source(edit, known);
                }
                (patch, false)
            }
            Some(patch) if argues_for_nothing => (patch, false),
            Some(_) => {
                notes.push("the merge is empty without a reason; all edits of the group stay".to_owned());
                (fallback(), true)
            }
            None => {
                notes.push("the reply holds no patch; all edits of the group stay".to_owned());
                (fallback(), true)
            }
        };
        let notes = notes.into_iter().map(|note| format!("merge {name}: {note}")).collect();
        Ok((outcome.0, notes, outcome.1))
    }
}

/// A merged edit whose text one of the merged ones had keeps that one's source, if all who had it agree.
fn inherit_source(edit: &mut Edit, known: &[&Edit]) {
    if edit.source_type.is_some() {
        return;
    }
    let mut sources = known
        .iter()
        .filter(|other| {
            other.op == edit.op
                && other.file == edit.file
                && other.content == edit.content
                && other.target == edit.target
        })
        .map(|other| other.source_type);
    if let Some(first) = sources.next()
        && sources.all(|source| source == first)
    {
        edit.source_type = first;
    }
}

/// Whether a merge reply without edits says that nothing should change, rather than just having lost them.
fn argues_for_no_change(reply: &PatchReply) -> bool {
    const ARGUMENTS: [&str; 14] = [
        "no change",
        "no edit",
        "no update",
        "nothing",
        "not change",
        "unchanged",
        "already",
        "redundant",
        "not needed",
        "unnecessary",
        "no need",
        "not necessary",
        "contradict",
        "none of",
    ];
    let says_so = reply.value.as_ref().and_then(|value| value.get("no_change")).and_then(|flag| match flag {
        Value::Bool(flag) => Some(*flag),
        Value::String(text) => Some(text.eq_ignore_ascii_case("true")),
        Value::Null | Value::Number(_) | Value::Array(_) | Value::Object(_) => None,
    });
    if let Some(says_so) = says_so {
        return says_so;
    }
    let reasoning = reply.patch.as_ref().map(|patch| patch.reasoning.to_lowercase()).unwrap_or_default();
    ARGUMENTS.iter().any(|argument| reasoning.contains(argument))
}
