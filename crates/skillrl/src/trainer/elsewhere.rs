//! From `run.runner` to the runner of the rollouts.

use crate::config::{LoadedConfig, Runner};
use crate::error::Error;
use skill_pipeline::Trainer;
use skill_pipeline::run_dir::live::{ReadPulse, WorkerPulse};
use skill_pipeline::shell::ReadTrouble;
use std::sync::Arc;

/// Says what workers do now, and what is wrong on the way to them.
type ReadWorkers = Arc<dyn Fn() -> (Vec<WorkerPulse>, Option<String>) + Send + Sync>;

/// What makes the rollouts of a run that are not made in this process.
pub(super) struct Elsewhere {
    runner: Arc<dyn skill_envs::RolloutRunner>,
    read: ReadWorkers,
}

/// The runner that a configuration names; `None` for rollouts in this process.
pub(super) fn elsewhere(loaded: &LoadedConfig) -> Result<Option<Elsewhere>, Error> {
    match loaded.config.run.runner {
        Runner::Local => Ok(None),
        Runner::Nats => nats(loaded).map(Some),
    }
}

#[cfg(feature = "nats")]
fn nats(loaded: &LoadedConfig) -> Result<Elsewhere, Error> {
    use crate::nats;
    let connect = nats::connect(&nats::asked(loaded), "skillrl driver")?;
    let runner = nats::runner(loaded, connect, nats::Times::default())?;
    let watch = runner.watch();
    let read = Arc::new(move || {
        let now = watch();
        (nats::pulse_of(&now), now.trouble)
    });
    Ok(Elsewhere { runner: Arc::new(runner), read })
}

#[cfg(not(feature = "nats"))]
fn nats(_: &LoadedConfig) -> Result<Elsewhere, Error> {
    Err(Error::LeftOut { what: "`run.runner = \"nats\"`".to_owned(), feature: "nats" })
}

/// The same pulse with what workers do.
pub(super) fn with_workers(pulse: ReadPulse, elsewhere: Option<&Elsewhere>) -> ReadPulse {
    let Some(Elsewhere { read, .. }) = elsewhere else { return pulse };
    let read = Arc::clone(read);
    Arc::new(move || {
        let (workers, trouble) = read();
        let mut pulse = pulse();
        pulse.trouble = pulse.trouble.or(trouble);
        pulse.workers = workers;
        pulse
    })
}

/// The trouble of the models, else that on the way to workers.
pub(super) fn with_their_trouble(trouble: ReadTrouble, elsewhere: Option<&Elsewhere>) -> ReadTrouble {
    let Some(Elsewhere { read, .. }) = elsewhere else { return trouble };
    let read = Arc::clone(read);
    Arc::new(move || trouble().or_else(|| read().1))
}

/// The same trainer with the configured runner.
pub(super) fn with_runner(trainer: Trainer, elsewhere: Option<Elsewhere>) -> Trainer {
    match elsewhere {
        Some(Elsewhere { runner, .. }) => trainer.with_runner(runner),
        None => trainer,
    }
}
