//! A program that has said what it is.

use super::config::{ExecConfig, SkillDelivery, identity, seconds};
use super::env::ExecEnv;
use super::fault::{Fault, FaultKind};
use super::items;
use super::pool::{Pool, backoff};
use super::process::Process;
use super::protocol::{HelloAnswer, Mode};
use super::world::ExecWorld;
use crate::endpoint::{Endpoint, EndpointLimits};
use crate::env::{SCORING_VERSION, SCORING_VERSION_KEY};
use crate::error::EnvError;
use crate::item::{Item, Split, Splits};
use serde_json::{Map, Value};
use skill_core::canonical::hex_sha256;
use skill_core::{ItemId, SkillDoc};
use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

/// The most things that one process may work on at once.
const MAX_PARALLEL: u32 = 10_000;
/// How many hexadecimal digits of a digest are a seed: 52 bits, which every language holds exactly.
const SEED_DIGITS: usize = 13;

/// A program whose first process has been started and has said what it is.
///
/// It needs a tokio runtime with I/O and time, in which its processes are looked after; they end with it.
pub struct ExecProgram {
    inner: Arc<Inner>,
}

/// What worlds, environments and episodes share.
pub(super) struct Inner {
    pub(super) config: Arc<ExecConfig>,
    pub(super) hello: HelloAnswer,
    pub(super) pool: Arc<Pool>,
    /// Serves the agents of all rollouts, where the configuration says so.
    pub(super) endpoint: Option<Endpoint>,
    splits: Splits<Vec<Item>>,
    /// What the agent's prompt holds where the skill takes its place.
    pub(super) held: String,
    /// Kept for [`ExecProgram::start_with_guard`]; the last field, because fields drop in order.
    _guard: Arc<dyn Any + Send + Sync>,
}

impl ExecProgram {
    /// Starts the first process, asks it what it is, and gets the items.
    ///
    /// # Errors
    ///
    /// A configuration or data that cannot be used, a program that cannot be started, that dies before it has answered,
    /// or whose answer is not what the protocol wants.
    pub async fn start(config: ExecConfig) -> Result<Self, EnvError> {
        Self::start_with_guard(config, Arc::new(())).await
    }

    /// As [`Self::start`], and keeps `guard`, such as the runtime of its processes, until everything made from this
    /// program is dropped.
    ///
    /// # Errors
    ///
    /// Those of [`Self::start`].
    pub async fn start_with_guard(
        config: ExecConfig,
        guard: Arc<dyn Any + Send + Sync>,
    ) -> Result<Self, EnvError> {
        config.check()?;
        // Bad data is found before anything is started.
        let from_files = config.data.as_deref().map(|data| items::of_files(data, &config)).transpose()?;
        let (process, mut hello) = first_process(&config, from_files.is_none()).await?;
        let absurd = |what: &str| process.absurd("hello", what).at_start();
        if hello.name.trim().is_empty() {
            return Err(absurd("its `name` is blank"));
        }
        if hello.capabilities.parallel == 0 || hello.capabilities.parallel > MAX_PARALLEL {
            let parallel = hello.capabilities.parallel;
            return Err(absurd(&format!(
                "`capabilities.parallel` is {parallel}; expected 1 to {MAX_PARALLEL}"
            )));
        }
        let splits = match (from_files, hello.items.take()) {
            (Some(splits), _) => splits,
            (None, Some(lists)) => items::of_program(lists, &config).map_err(|what| absurd(&what))?,
            (None, None) => {
                return Err(absurd("it has no `items`, and the configuration names no `data` either"));
            }
        };
        if config.endpoint && hello.mode == Mode::Step {
            let name = &hello.name;
            let message =
                format!("`endpoint` is for programs that run their own agent; `{name}` is stepped through");
            return Err(EnvError::Configuration { message });
        }
        let held = held(&config, &hello)?;
        let endpoint = if config.endpoint {
            let limits = EndpointLimits::default();
            Some(Endpoint::start_scrubbing(limits, config.secrets.clone()).await?)
        } else {
            None
        };
        let config = Arc::new(config);
        let pool = Arc::new(Pool::new(Arc::clone(&config), process, hello.clone()));
        Ok(Self { inner: Arc::new(Inner { config, hello, pool, endpoint, splits, held, _guard: guard }) })
    }

    /// The short name that the program gives itself.
    pub fn name(&self) -> &str {
        &self.inner.hello.name
    }

    /// How it is played.
    pub fn mode(&self) -> Mode {
        self.inner.hello.mode
    }

    /// The skill to start from, where the program has one.
    pub fn initial_skill(&self) -> Option<SkillDoc> {
        self.inner.initial_skill()
    }

    /// The program as a world that is stepped through.
    ///
    /// # Errors
    ///
    /// The program runs its own agent, see [`Self::mode`].
    pub fn world(&self) -> Result<ExecWorld, EnvError> {
        self.expect(Mode::Step)?;
        Ok(ExecWorld::new(Arc::clone(&self.inner)))
    }

    /// The program as an environment that runs its own agent.
    ///
    /// # Errors
    ///
    /// The program is to be stepped through, see [`Self::mode`].
    pub fn env(&self) -> Result<ExecEnv, EnvError> {
        self.expect(Mode::Rollout)?;
        Ok(ExecEnv::new(Arc::clone(&self.inner)))
    }

    fn expect(&self, mode: Mode) -> Result<(), EnvError> {
        if self.mode() == mode {
            return Ok(());
        }
        let message = format!(
            "`{}` says that its mode is `{}`; here `{}` is needed",
            self.name(),
            self.mode().as_str(),
            mode.as_str()
        );
        Err(EnvError::Configuration { message })
    }

    /// Ends every process that nobody works with, and waits until they are gone; nothing can be begun afterwards.
    ///
    /// Without it they end when everything that was made from this program is dropped.
    pub async fn close(&self) {
        self.inner.pool.close().await;
    }
}

impl Inner {
    pub(super) fn items(&self, split: Split) -> &[Item] {
        &self.splits[split]
    }

    pub(super) fn initial_skill(&self) -> Option<SkillDoc> {
        self.hello.initial_skill.as_deref().map(SkillDoc::new)
    }

    /// Everything that decides results besides the items.
    pub(super) fn settings(&self) -> Map<String, Value> {
        let mut settings = identity(&self.config, self.hello.mode);
        if self.config.endpoint {
            // Its agent is given replies without what the model thought.
            settings.insert(SCORING_VERSION_KEY.to_owned(), SCORING_VERSION.into());
        }
        settings.insert("name".to_owned(), self.hello.name.clone().into());
        settings.insert("version".to_owned(), self.hello.version.clone().into());
        settings.insert("instructions".to_owned(), self.hello.instructions.clone().into());
        settings
    }

    /// The seed of an item: the same for each of its rollouts.
    pub(super) fn seed(&self, item: &ItemId) -> u64 {
        let digest = hex_sha256(format!("{}\u{0}{item}", self.config.seed).as_bytes());
        let digits: String = digest.chars().take(SEED_DIGITS).collect();
        u64::from_str_radix(&digits, 16).expect("hexadecimal digits that fit")
    }

    pub(super) fn deadline(&self, deadline: f64) -> Duration {
        seconds(deadline)
    }
}

/// The text that the skill takes the place of; empty where it takes the place of none.
fn held(config: &ExecConfig, hello: &HelloAnswer) -> Result<String, EnvError> {
    if config.skill != SkillDelivery::Replace {
        return Ok(String::new());
    }
    let held = config.initial_skill.as_deref().or(hello.initial_skill.as_deref()).map(SkillDoc::new);
    let held = held.map(|skill| skill.agent_view().as_str().trim().to_owned());
    held.filter(|text| !text.is_empty()).ok_or_else(|| EnvError::Configuration {
        message: "`skill_delivery` is `replace` without an initial skill: it is the text of the agent's prompt that \
                  is trained"
            .to_owned(),
    })
}

/// How often the first process of a run is started again: anyone who started the run is still there to fix it.
const FIRST_RESTARTS: u32 = 1;

/// Starts the first process, again if it dies.
async fn first_process(config: &ExecConfig, with_items: bool) -> Result<(Process, HelloAnswer), EnvError> {
    let mut n_failures = 0;
    loop {
        match Process::start(config, 1, &[], with_items).await {
            Ok(started) => return Ok(started),
            Err(fault) if fault.kind == FaultKind::Program => return Err(fault.at_start()),
            Err(fault) => {
                n_failures += 1;
                if n_failures > config.limits.restarts.min(FIRST_RESTARTS) {
                    return Err(Fault::given_up(n_failures, &fault.message).at_start());
                }
                tracing::warn!(message = fault.message, "the program died at its start and is started again");
                tokio::time::sleep(backoff(config, n_failures)).await;
            }
        }
    }
}
