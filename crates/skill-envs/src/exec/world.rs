//! A program that is stepped through.

use super::pool::Lease;
use super::program::Inner;
use super::protocol::{ObservationAnswer, Request, RequestItem};
use crate::episode::{Episode, Observation, World};
use crate::error::EnvError;
use crate::item::{Item, Split};
use async_trait::async_trait;
use serde_json::Value;
use skill_core::SkillDoc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A world whose episodes are played by a program.
#[derive(Clone)]
pub struct ExecWorld {
    inner: Arc<Inner>,
    next_episode: Arc<AtomicU64>,
}

impl ExecWorld {
    pub(super) fn new(inner: Arc<Inner>) -> Self {
        Self { inner, next_episode: Arc::default() }
    }
}

impl World for ExecWorld {
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

    fn instructions(&self) -> &str {
        &self.inner.hello.instructions
    }

    fn episode(&self, item: &Item) -> Result<Box<dyn Episode>, EnvError> {
        Ok(Box::new(ExecEpisode {
            inner: Arc::clone(&self.inner),
            item: item.clone(),
            number: self.next_episode.fetch_add(1, Ordering::Relaxed),
            lease: None,
            task: None,
        }))
    }
}

/// One play; it holds a process from its reset to its end.
struct ExecEpisode {
    inner: Arc<Inner>,
    item: Item,
    /// What the program knows it by.
    number: u64,
    lease: Option<Lease>,
    task: Option<String>,
}

impl ExecEpisode {
    fn broken(&self, message: &str) -> EnvError {
        EnvError::Broken { item: self.item.id.clone(), message: message.to_owned() }
    }

    /// Lets go of the process.
    fn close(&mut self) {
        if let Some(lease) = self.lease.take() {
            lease.process.tell(&Request::Close { episode: self.number });
        }
    }

    /// What an answer shows; an episode that is over no longer needs a process.
    fn observe(&mut self, answer: ObservationAnswer) -> Result<Observation, EnvError> {
        let Some(lease) = &self.lease else { return Err(self.broken("the episode has no process")) };
        lease.has_answered();
        if answer.done {
            self.close();
        }
        Ok(answer.into())
    }
}

#[async_trait]
impl Episode for ExecEpisode {
    async fn reset(&mut self) -> Result<Observation, EnvError> {
        self.reset_with_seed(self.inner.seed(&self.item.id)).await
    }

    async fn reset_with_seed(&mut self, seed: u64) -> Result<Observation, EnvError> {
        // A process of its own for every play, or one that has died: either way not the one of before.
        if self.inner.config.process_per_rollout
            || self.lease.as_ref().is_some_and(|lease| lease.process.failure().is_some())
        {
            self.lease = None;
        }
        let lease = match self.lease.take() {
            Some(lease) => lease,
            None => self.inner.pool.lease(&[]).await.map_err(|fault| fault.at(&self.item.id))?,
        };
        let lease = self.lease.insert(lease);
        let (number, item) = (self.number, &self.item);
        let make = |id| Request::Reset { id, episode: number, item: RequestItem::of(item), seed };
        let deadline = self.inner.deadline(self.inner.config.deadlines.reset_seconds);
        let answer = lease.process.ask::<ObservationAnswer>(make, deadline).await;
        let mut answer = answer.map_err(|fault| fault.at(&self.item.id))?;
        self.task = answer.task.take();
        self.observe(answer)
    }

    async fn step(&mut self, action: &str) -> Result<Observation, EnvError> {
        let Some(lease) = &self.lease else {
            return Err(self.broken("a step was taken outside of an episode; it begins with a reset"));
        };
        let number = self.number;
        let make = |id| Request::Step { id, episode: number, action };
        let deadline = self.inner.deadline(self.inner.config.deadlines.step_seconds);
        let answer = lease.process.ask::<ObservationAnswer>(make, deadline).await;
        let answer = answer.map_err(|fault| fault.at(&self.item.id))?;
        self.observe(answer)
    }

    fn task(&self) -> Option<&str> {
        self.task.as_deref()
    }
}

impl Drop for ExecEpisode {
    fn drop(&mut self) {
        self.close();
    }
}
