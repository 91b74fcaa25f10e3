//! A program that runs its own agent.

use super::agent::{self, Address};
use super::config::{OnError, SkillDelivery};
use super::fault::{Fault, FaultKind};
use super::pool::Lease;
use super::program::Inner;
use super::protocol::{Request, RequestItem, RolloutAnswer};
use crate::endpoint::SessionRecord;
use crate::env::{Env, RolloutCtx};
use crate::error::EnvError;
use crate::folder::write_folder;
use crate::item::{Item, Split};
use crate::judged::UNSCORED_KEY;
use crate::reach;
use crate::source::SkillSource;
use async_trait::async_trait;
use serde_json::Value;
use skill_core::package::{AgentText, MAIN_FILE};
use skill_core::{Role, RolloutResult, SkillDoc, SkillPackage, Trajectory};
use skill_llm::process::{TemporaryDir, temporary_dir};
use skill_llm::{ChatModel, LlmError};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::time::Instant;

/// An environment whose rollouts are made by a program.
#[derive(Clone)]
pub struct ExecEnv {
    inner: Arc<Inner>,
}

impl ExecEnv {
    pub(super) fn new(inner: Arc<Inner>) -> Self {
        Self { inner }
    }

    async fn play(
        &self,
        item: &Item,
        source: &dyn SkillSource,
        target: &dyn ChatModel,
        ctx: &RolloutCtx,
    ) -> Result<RolloutResult, EnvError> {
        // The program alone knows the goal, and has to be given the skill first.
        let (skill, ctx) = &ctx.show(source, item, "").await?;
        let delivery = self.inner.config.skill;
        let delivered = Delivered::new(delivery, skill)?;
        let at_item = |fault: Fault| fault.at(&item.id);
        let Some(endpoint) = &self.inner.endpoint else {
            let made = match self.ask(item, &delivered, None).await {
                Ok((lease, answered)) => {
                    answered.and_then(|answer| result(item, answer, &lease, self.inner.config.has_judge))
                }
                Err(fault) => Err(fault),
            };
            return made.or_else(|fault| self.broken(item, fault, ctx));
        };
        let (mut session, address) = agent::open(endpoint, (delivery, &self.inner.held), skill, target);
        let failed = session.failed();
        let asked = tokio::select! {
            biased;
            answered = self.ask(item, &delivered, Some(&address)) => answered,
            // Without its model the agent cannot come to a score any more, and its process goes with this.
            () = failed.cancelled() => Err(Fault::broken("the agent has lost its model")),
            never = session.serve(target, ctx) => match never {},
        };
        // Where the model has failed, that is what has happened, whatever the program made of it.
        let record = session.finish()?;
        let (lease, answered) = match asked {
            Ok(asked) => asked,
            Err(fault) => return self.broken_at(item, fault, ctx, record),
        };
        let answer = match (answered, record.last_refusal()) {
            (Ok(mut answer), refusal) => {
                if let Some(refusal) =
                    refusal.filter(|_| answer.hard == Some(0.0) && answer.reason.is_empty())
                {
                    answer.reason = format!("the agent's last request was refused: {refusal}");
                }
                answer
            }
            // An agent that ends since its model would not answer it has failed its task.
            (Err(fault), Some(refusal)) if fault.may_be_the_agents => {
                let reason = format!("the agent gave up: {refusal}; {}", fault.message);
                RolloutAnswer { hard: Some(0.0), reason, ..RolloutAnswer::default() }
            }
            (Err(fault), _) => return self.broken_at(item, fault, ctx, record),
        };
        let (has_turns, has_usage) = (answer.n_turns.is_some(), answer.usage.is_some());
        let mut result = result(item, answer, &lease, self.inner.config.has_judge).map_err(at_item)?;
        let is_replacing = delivery == SkillDelivery::Replace;
        agent::complete(&mut result, record, is_replacing, (has_turns, has_usage));
        Ok(result)
    }

    /// What an attempt that broke is: an error, or a failure where that is configured and no further try is made.
    fn broken(&self, item: &Item, fault: Fault, ctx: &RolloutCtx) -> Result<RolloutResult, EnvError> {
        let is_failure = self.inner.config.on_error == OnError::Fail && ctx.is_last_attempt;
        if !is_failure || fault.kind != FaultKind::Broken {
            return Err(fault.at(&item.id));
        }
        let mut result = RolloutResult::new(item.id.clone(), 0.0, 0.0);
        result.fail_reason = format!("the agent broke: {}", fault.message);
        result.extras.insert(reach::BROKEN_KEY.to_owned(), true.into());
        Ok(result)
    }

    /// The same, with what the agent did at the endpoint.
    fn broken_at(
        &self,
        item: &Item,
        fault: Fault,
        ctx: &RolloutCtx,
        record: SessionRecord,
    ) -> Result<RolloutResult, EnvError> {
        let mut result = self.broken(item, fault, ctx)?;
        agent::complete(&mut result, record, false, (false, false));
        Ok(result)
    }

    /// Has a process make the rollout; the error is that there is no process.
    async fn ask(
        &self,
        item: &Item,
        delivered: &Delivered,
        address: Option<&Address>,
    ) -> Result<(Lease, Result<RolloutAnswer, Fault>), Fault> {
        let config = &self.inner.config;
        let own_env = match address {
            Some(address) if config.process_per_rollout => address.variables(),
            Some(_) | None => Vec::new(),
        };
        let lease = self.inner.pool.lease(&own_env).await?;
        let seed = self.inner.seed(&item.id);
        let make = |id| Request::Rollout {
            id,
            item: RequestItem::of(item),
            seed,
            skill: delivered.text(),
            skill_file: delivered.file(),
            directory: delivered.directory(),
            endpoint: address.map(Address::as_request),
        };
        let deadline = self.inner.deadline(config.deadlines.rollout_seconds);
        let answered = lease.process.ask(make, deadline).await;
        Ok((lease, answered))
    }
}

#[async_trait]
impl Env for ExecEnv {
    fn name(&self) -> &str {
        &self.inner.hello.name
    }

    fn items(&self, split: Split) -> &[Item] {
        self.inner.items(split)
    }

    fn settings(&self) -> Value {
        Value::Object(self.inner.settings())
    }

    fn initial_skill(&self) -> Option<SkillDoc> {
        self.inner.initial_skill()
    }

    fn max_broken_share(&self) -> f64 {
        self.inner.config.max_errors
    }

    async fn rollout(
        &self,
        item: &Item,
        source: &dyn SkillSource,
        target: &dyn ChatModel,
        ctx: &RolloutCtx,
    ) -> Result<RolloutResult, EnvError> {
        let late = async {
            match ctx.call.deadline {
                Some(deadline) => tokio::time::sleep_until(deadline).await,
                None => std::future::pending().await,
            }
        };
        let began = Instant::now();
        // What is left unfinished here takes its process with it.
        tokio::select! {
            biased;
            () = ctx.call.cancel.cancelled() => Err(EnvError::Model(LlmError::Cancelled)),
            result = self.play(item, source, target, ctx) => result,
            () = late => Err(EnvError::Model(LlmError::Timeout {
                provider: self.inner.hello.name.clone(),
                after: began.elapsed(),
            })),
        }
    }
}

/// The skill as the program gets it; its directory is removed with this.
enum Delivered {
    Inline(AgentText),
    /// By the endpoint.
    Elsewhere,
    File {
        path: PathBuf,
        directory: TemporaryDir,
    },
}

impl Delivered {
    fn new(delivery: SkillDelivery, skill: &SkillDoc) -> Result<Self, EnvError> {
        match delivery {
            SkillDelivery::Inline => Ok(Self::Inline(skill.agent_view())),
            SkillDelivery::SystemPrompt | SkillDelivery::Replace => Ok(Self::Elsewhere),
            SkillDelivery::File => {
                let cannot = |error: std::io::Error| EnvError::Configuration {
                    message: format!("cannot write the skill to a temporary directory: {error}"),
                };
                let directory = temporary_dir("skill-").map_err(cannot)?;
                let package = SkillPackage::of(skill);
                if let Some(missing) = package.missing_content() {
                    let message =
                        format!("the file {missing:?} of the skill is not at hand; start from its folder");
                    return Err(EnvError::Configuration { message });
                }
                write_folder(directory.path(), &package).map_err(cannot)?;
                let path = directory.path().join(MAIN_FILE);
                Ok(Self::File { path, directory })
            }
        }
    }

    fn text(&self) -> Option<&str> {
        match self {
            Self::Inline(text) => Some(text),
            Self::Elsewhere | Self::File { .. } => None,
        }
    }

    fn file(&self) -> Option<&str> {
        match self {
            Self::Inline(_) | Self::Elsewhere => None,
            Self::File { path, .. } => path.to_str(),
        }
    }

    fn directory(&self) -> Option<&str> {
        match self {
            Self::Inline(_) | Self::Elsewhere => None,
            Self::File { directory, .. } => Path::to_str(directory.path()),
        }
    }
}

/// The result that an answer means.
fn result(
    item: &Item,
    answer: RolloutAnswer,
    lease: &Lease,
    has_judge: bool,
) -> Result<RolloutResult, Fault> {
    if answer.hard.is_none() && !has_judge {
        let what =
            "there is no `hard`; expected a number from 0 to 1, which only a judge (`rubric`) can give";
        return Err(lease.process.absurd("rollout", what));
    }
    let hard = answer.hard.unwrap_or_default();
    let soft = answer.soft.unwrap_or(hard);
    for (name, score) in [("hard", hard), ("soft", soft)] {
        if !(0.0..=1.0).contains(&score) {
            let what = format!("`{name}` is {score}; expected 0 to 1");
            return Err(lease.process.absurd("rollout", &what));
        }
    }
    lease.has_answered();
    let is_unscored = answer.hard.is_none();
    let mut result = RolloutResult::new(item.id.clone(), hard, soft);
    let spoke = answer.conversation.iter().filter(|message| message.role == Role::Assistant).count();
    result.n_turns = answer.n_turns.unwrap_or(u32::try_from(spoke).unwrap_or(u32::MAX));
    result.fail_reason = answer.reason;
    if !is_unscored && !result.is_success() && result.fail_reason.is_empty() {
        "the program gave no reason".clone_into(&mut result.fail_reason);
    }
    result.task_type = if answer.task_type.is_empty() { item.task_type.clone() } else { answer.task_type };
    result.task_description = answer.task;
    result.predicted_answer = answer.answer;
    result.reference_text = answer.reference;
    let first = |role: Role| answer.conversation.iter().find(|message| message.role == role);
    let text = |role: Role| first(role).map(|message| message.content.clone()).unwrap_or_default();
    (result.target_system_prompt, result.target_user_prompt) = (text(Role::System), text(Role::User));
    result.trajectory = Trajectory::of_messages(answer.conversation);
    result.usage = answer.usage.unwrap_or_default();
    result.extras = answer.extras;
    if is_unscored {
        result.extras.insert(UNSCORED_KEY.to_owned(), true.into());
    }
    Ok(result)
}
