//! What all sessions of a server share.

use crate::limits::Limits;
use crate::skills::{Picked, Skills, TeacherOptions};
use crate::tasks::Tasks;
use crate::wire::Fault;
use ring::rand::{SecureRandom as _, SystemRandom};
use skill_bank::episode::EpisodeStep;
use skill_core::random::Dice;
use skill_envs::{Episode, Item, Observation, Split};
use skill_http_server::access::Access;
use skill_pipeline::bank::outside::{EpisodeEnd, EpisodeStart, OutsideError};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use tokio_util::task::TaskTracker;

/// What all sessions share.
pub(crate) struct App {
    pub(crate) tasks: Tasks,
    pub(crate) description: String,
    pub(crate) skills: Skills,
    pub(crate) teacher: Option<TeacherOptions>,
    pub(crate) access: Access,
    pub(crate) limits: Limits,
    pub(crate) max_steps: Option<u32>,
    pub(crate) n_sessions: AtomicUsize,
    /// The sessions, until their clients have been told of the end.
    pub(crate) talking: TaskTracker,
    pub(crate) ids: EpisodeIds,
}

/// Ids that no other process gives.
pub(crate) struct EpisodeIds {
    process: String,
    next: AtomicU64,
}

impl EpisodeIds {
    pub(crate) fn new() -> Self {
        let mut bytes = [0; 8];
        if SystemRandom::new().fill(&mut bytes).is_err() {
            // Without random numbers the clock tells processes apart.
            let since = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
            let dice = Dice::new(u64::from(since.subsec_nanos()), &[&since.as_secs().to_string()]);
            bytes = dice.unit("process").to_bits().to_be_bytes();
        }
        let process = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        Self { process, next: AtomicU64::new(1) }
    }

    fn next(&self) -> String {
        format!("{}-{}", self.process, self.next.fetch_add(1, Ordering::Relaxed))
    }
}

impl App {
    pub(crate) fn name(&self) -> &str {
        self.tasks.world().name()
    }

    /// The id that a client has chosen, or a new one.
    pub(crate) fn episode_id(&self, chosen: Option<String>) -> Result<String, Fault> {
        match (chosen, self.skills.bank()) {
            (None, _) => Ok(self.ids.next()),
            (Some(id), None) => Ok(id),
            (Some(id), Some(bank)) => match bank.lock().check_new(&id) {
                Ok(()) => Ok(id),
                Err(error) => Err(taken(&error, &id)),
            },
        }
    }

    /// What is to be done: as the episode says it, as the data do, or as it is seen first.
    pub(crate) fn goal(&self, item: &Item, episode: &dyn Episode, seen: &Observation) -> String {
        let told = episode.task().map(str::trim).filter(|task| !task.is_empty());
        match told {
            Some(task) => task.to_owned(),
            None => self.tasks.world().goal(item).unwrap_or_else(|| seen.text.trim().to_owned()),
        }
    }

    /// Remembers an episode that begins; its steps are collected where a teacher may read them.
    pub(crate) fn begin(
        &self,
        id: &str,
        item: &Item,
        split: Split,
        goal: &str,
        picked: &Picked,
    ) -> Result<Option<Vec<EpisodeStep>>, Fault> {
        let Some(bank) = self.skills.bank() else { return Ok(None) };
        let start = EpisodeStart {
            id: id.to_owned(),
            item: item.id.clone(),
            split,
            task_type: item.task_type.clone(),
            goal: goal.to_owned(),
            skill_version: picked.version.clone(),
            parts: picked.parts.clone(),
            trial: picked.trial.clone(),
        };
        let mut bank = bank.lock();
        bank.begin(start).map_err(|error| taken(&error, id))?;
        Ok((self.teacher.is_some() && bank.wants_steps(&item.id, split)).then(Vec::new))
    }

    /// Takes note of how an episode ended.
    pub(crate) fn end(&self, (id, end): (String, EpisodeEnd)) {
        if let Some(bank) = self.skills.bank() {
            bank.lock().end(&id, end);
        }
    }
}

fn taken(error: &OutsideError, id: &str) -> Fault {
    Fault::field("value_error", "episode_id", error.to_string(), serde_json::json!(id))
}
