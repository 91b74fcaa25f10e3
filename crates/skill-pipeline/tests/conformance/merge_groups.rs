//! Groups about the merge tree.

use super::Verdict::{self, Ours};
use async_trait::async_trait;
use serde_json::{Value, json};
use skill_core::{Edit, Patch, RawPatch, SkillDoc, SourceType, Usage};
use skill_llm::{CallCtx, ChatModel, ChatReply, ChatRequest, LlmError, ModelId};
use skill_pipeline::stage::aggregate::aggregate;
use skill_pipeline::stage::{Optimizer, StageCtx};
use skill_pipeline::{NoEvents, PromptLibrary, Stage};
use std::sync::atomic::{AtomicUsize, Ordering};

const MERGED: &str = r#"{"reasoning": "m", "edits": [{"op": "append", "content": "M"}]}"#;

/// Answers every call alike and counts them.
struct Parrot {
    id: ModelId,
    reply: &'static str,
    n_calls: AtomicUsize,
}

#[async_trait]
impl ChatModel for Parrot {
    fn id(&self) -> &ModelId {
        &self.id
    }

    async fn chat(&self, _: &ChatRequest, _: &CallCtx) -> Result<ChatReply, LlmError> {
        self.n_calls.fetch_add(1, Ordering::Relaxed);
        Ok(ChatReply::text(self.reply, Usage::default()))
    }
}

pub(crate) fn merge_patches(input: &Value, _: &Value) -> Verdict {
    merge(input, MERGED)
}

pub(crate) fn merge_bad_json(input: &Value, _: &Value) -> Verdict {
    merge(input, "I could not decide, sorry.")
}

fn merge(input: &Value, reply: &'static str) -> Verdict {
    let [n_failures, n_successes, batch] =
        [0, 1, 2].map(|idx| usize::try_from(input[idx].as_u64().unwrap()).unwrap());
    let patches = |source: SourceType, prefix: &str, n: usize| -> Vec<RawPatch> {
        let raw_patch = |idx: usize| {
            let name = format!("{prefix}{idx}");
            let edits = vec![Edit::append(&name)];
            let patch = Patch { reasoning: name, edits, ranking_details: None };
            RawPatch { patch, source_type: source, batch_size: 1, item_ids: Vec::new(), notes: Vec::new() }
        };
        (0..n).map(raw_patch).collect()
    };
    let mut raw_patches = patches(SourceType::Failure, "f", n_failures);
    raw_patches.extend(patches(SourceType::Success, "s", n_successes));
    let model = Parrot { id: ModelId::new("test", "parrot"), reply, n_calls: AtomicUsize::new(0) };
    let prompts = PromptLibrary::embedded().unwrap();
    let ctx = StageCtx { workers: 4, ..StageCtx::new(Stage::Aggregate, &NoEvents) };
    let optimizer = Optimizer { model: &model, max_tokens: 100 };
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let skill = SkillDoc::new("# Skill\n");
    let merged =
        runtime.block_on(aggregate(&raw_patches, &skill, batch, &prompts, &optimizer, &ctx)).unwrap();
    Ours(json!({"result": merged.patch, "n_calls": model.n_calls.load(Ordering::Relaxed)}))
}
