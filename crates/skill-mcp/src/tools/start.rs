//! `start_run`.

use crate::answer::State;
use crate::caps::Caps;
use crate::error::ToolError;
use crate::places;
use crate::shared::Shared;
use crate::start::{Begun, Training};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use skill_pipeline::run_dir::{RunStatus, is_held, run_status};
use skill_report::watch::Found;
use std::sync::Arc;

pub(super) const DESCRIPTION: &str = "\
Starts the training run of a configuration, or goes on with it if it was stopped; nothing is paid for twice. THIS SPENDS \
MONEY: every call of a model is paid for by the person whom you work for, so call estimate_run first and agree on a cap \
with them. Without a cap on calls or money, here or in the configuration, it is refused. The run works in a process of \
its own, which goes on when this server ends; it takes minutes to days, so follow it with follow_run.";

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    /// The configuration file, as list_configurations gives it.
    config: String,
    /// Settings to change, such as `train.epochs=2`: keys of [train], [gate] and [eval]. A run that has begun takes those
    /// alone that do not change its result.
    #[serde(default)]
    set: Vec<String>,
    /// The most requests that the run may send, over all its processes. A lower cap of the configuration holds.
    #[serde(default)]
    #[schemars(range(min = 1))]
    max_calls: Option<u64>,
    /// The most tokens, prompts and replies, likewise.
    #[serde(default)]
    #[schemars(range(min = 1))]
    max_tokens: Option<u64>,
    /// The most money by the prices of the configuration, likewise.
    #[serde(default)]
    max_money: Option<f64>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Output {
    /// The run, whose name the other tools take.
    run: String,
    /// How it is now.
    state: State,
    /// Whether it had begun before and was not finished.
    has_resumed: bool,
    /// The process that works on it; null if it has come to its end already.
    pid: Option<u32>,
    /// The file that what it prints is added to.
    log: String,
    /// What it may spend, over all its processes; at a cap it stops, and goes on with a higher one.
    caps: Caps,
    /// What to do next.
    note: String,
}

pub(super) async fn run(shared: Arc<Shared>, input: Input) -> Result<Output, ToolError> {
    let asked =
        Caps { calls: input.max_calls, tokens: input.max_tokens, money: input.max_money, seconds: None };
    asked.check_money()?;
    let _turn = shared.starting.lock().await;
    let (of_thread, config, set) = (Arc::clone(&shared), input.config.clone(), input.set.clone());
    let (path, dir, caps) = super::blocking(move || {
        let (path, loaded) = of_thread.configs.load(&config, &set)?;
        loaded.check_paths()?;
        let caps = Caps::from(loaded.config.budget).and(asked).and(of_thread.caps());
        caps.check()?;
        // The caps may need what the configuration does not have, such as prices.
        let all: Vec<String> = set.iter().cloned().chain(caps.overrides()).collect();
        let loaded = skillrl::config::Config::load(&path, &all)?;
        Ok((path, loaded.run_dir(), caps))
    })
    .await?;
    let root = shared.runs.root();
    let run = places::name_of_run(root, &dir).ok_or_else(|| {
        ToolError::new(
            places::outside(root, &dir),
            "a person has to change `run.dir` in the configuration, or start this server with another --runs",
        )
    })?;
    if dir.is_dir() {
        // What the run writes would go where the link leads.
        let found = Found { name: run.clone(), path: dir.clone(), leaving: None };
        let root = root.to_owned();
        super::blocking(move || places::refuse_leaving(&root, &found)).await?;
    }
    if is_held(&dir) {
        return Err(ToolError::new(
            format!("a process works on `{run}` already"),
            "follow it with follow_run; stop_run stops it after its step",
        ));
    }
    let status = run_status(&dir);
    let training = Training {
        program: &shared.options.program,
        config: &path,
        overrides: input.set.iter().cloned().chain(caps.overrides()).collect(),
        run_dir: &dir,
        status,
    };
    let Begun { pid, log } = training.begin().await?;
    let state = match (pid, run_status(&dir)) {
        (Some(_), _) => State::Training,
        (None, RunStatus::Finished) => State::Finished,
        (None, RunStatus::Unfinished | RunStatus::Absent) => State::Stopped,
    };
    Ok(Output {
        run,
        state,
        has_resumed: status == RunStatus::Unfinished,
        pid,
        log: log.display().to_string(),
        caps,
        note: match state {
            State::Finished => "run finished: call read_run".to_owned(),
            State::Stopped => "no process works on the run: follow_run reports what it came to".to_owned(),
            State::Training | State::Interrupted | State::Damaged => {
                "the run continues by itself: follow_run reports its events, stop_run stops it".to_owned()
            }
        },
    })
}
