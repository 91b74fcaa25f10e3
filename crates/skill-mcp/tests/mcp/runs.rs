//! Runs to look at; the tests of `skill-serve` look at them too.

use crate::HOSTILE;
use skillrl::llm::scripted::ScriptedModel;
use skillrl::pipeline::{PipelineError, Summary, TrainSettings, Trainer};
use skillrl::prelude::*;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use tokio::sync::Semaphore;

/// A task whose rollouts wait until they may go on.
struct Shout {
    items: Vec<Item>,
    may_go_on: Arc<Semaphore>,
    /// How often an answer says it all.
    n_times: usize,
}

#[async_trait]
impl Env for Shout {
    fn name(&self) -> &str {
        "shout"
    }

    fn items(&self, split: Split) -> &[Item] {
        &self.items[split as usize * 4..][..4]
    }

    async fn rollout(
        &self,
        item: &Item,
        source: &dyn SkillSource,
        target: &dyn ChatModel,
        ctx: &RolloutCtx,
    ) -> Result<RolloutResult, EnvError> {
        self.may_go_on.acquire().await.unwrap().forget();
        let (skill, ctx) = ctx.show(source, item, "").await?;
        let prompt = vec![Message::system(skill.agent_view()), Message::user(item.data.to_string())];
        let answer = target.chat(&ChatRequest::new(prompt), &ctx.call).await?.text;
        let hard = if answer.starts_with("HELLO") { 1.0 } else { 0.0 };
        let turns = [(Role::User, HOSTILE.to_owned()), (Role::Assistant, answer.repeat(self.n_times))];
        let mut result = RolloutResult::new(item.id.clone(), hard, hard);
        result.predicted_answer = answer;
        result.fail_reason = if hard < 1.0 { HOSTILE.to_owned() } else { String::new() };
        result.target_user_prompt = item.data.to_string();
        result.reference_text = HOSTILE.to_owned();
        result.task_type = HOSTILE.to_owned();
        result.trajectory =
            Trajectory::of_messages(turns.map(|(role, text)| TrajectoryMessage::new(role, text)));
        Ok(result)
    }
}

/// Trains in 2 steps: 4 rollouts for the baseline, then 2 for a batch and, where there is a candidate, 4 for it; at the
/// end those of the fresh draws and of the test split. The first candidate is accepted, the second is a no-op.
pub(crate) fn train(dir: &Path, may_go_on: Arc<Semaphore>, n_times: usize) -> Result<Summary, PipelineError> {
    let items = (0..12).map(|n| Item::new(format!("item-{n} {HOSTILE}").as_str(), HOSTILE.into())).collect();
    let target = ScriptedModel::answering("target", |request| {
        let is_told = request.text_of(Role::System).contains("capitals");
        format!("{} {HOSTILE}", if is_told { "HELLO" } else { "hello" })
    });
    let content = format!("- Answer in capitals. {HOSTILE}");
    let edit = serde_json::json!({"reasoning": HOSTILE, "edits": [{"op": "append", "content": content}]});
    let optimizer = ScriptedModel::answering("optimizer", move |_| edit.to_string());
    let trainer =
        Trainer::new(Arc::new(Shout { items, may_go_on, n_times }), Arc::new(target), Arc::new(optimizer))
            .with_settings(TrainSettings {
                epochs: 1,
                batch_size: 2,
                workers: 1,
                ..TrainSettings::default()
            });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(trainer.train(dir))
}

/// A run that goes on when it is told to.
pub(crate) struct Training {
    pub(crate) may_go_on: Arc<Semaphore>,
    thread: JoinHandle<Result<Summary, PipelineError>>,
}

impl Training {
    pub(crate) fn start(dir: PathBuf) -> Self {
        let may_go_on = Arc::new(Semaphore::new(0));
        let of_thread = Arc::clone(&may_go_on);
        Self { may_go_on, thread: std::thread::spawn(move || train(&dir, of_thread, 1)) }
    }

    pub(crate) fn end(self) -> Result<Summary, PipelineError> {
        self.may_go_on.add_permits(1_000);
        self.thread.join().unwrap()
    }
}

/// A run that has come to its end.
pub(crate) fn finished(dir: &Path) {
    finished_with(dir, 1);
}

/// One whose agent says everything so many times.
pub(crate) fn finished_with(dir: &Path, n_times: usize) {
    let dir = dir.to_owned();
    let training = std::thread::spawn(move || train(&dir, Arc::new(Semaphore::new(1_000)), n_times));
    training.join().unwrap().unwrap();
}
