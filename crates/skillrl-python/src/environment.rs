//! An environment in Python.

use crate::agent::PyAgent;
use crate::callback::{Failure, Rollout, Shared, call};
use crate::client::Extras;
use crate::json;
use crate::threads::{InTurn, start};
use async_trait::async_trait;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use serde_json::Value;
use skillrl::core::{ItemId, RolloutResult, SkillDoc};
use skillrl::env::{AgentRecord, play};
use skillrl::envs::{Env, EnvError, Item, RolloutCtx, SkillSource, Split, Splits};
use skillrl::llm::{ChatModel, LlmError, PromptTemplate};
use skillrl::pipeline::prompts::PromptName;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What every environment in Python has.
pub(crate) struct Described {
    pub(crate) name: String,
    pub(crate) settings: Value,
    pub(crate) initial_skill: Option<SkillDoc>,
    pub(crate) prompts: HashMap<String, String>,
    pub(crate) splits: Splits<Vec<Item>>,
    /// The items as the environment has them, by their ids.
    objects: Arc<HashMap<ItemId, Py<PyAny>>>,
}

/// An object of Python with a method `rollout_one`.
pub(crate) struct PyEnv {
    described: Described,
    /// `rollout(item, skill, agent)`, which returns a result as JSON or a coroutine that does.
    rollout: Arc<Py<PyAny>>,
    is_async: bool,
    timeout: Duration,
    extras: Option<Arc<Extras>>,
    shared: Arc<Shared>,
}

/// An item of a description: id, type of task, data as JSON where it is not that of the object, and the object.
type DescribedItem<'py> = (String, String, Option<String>, Bound<'py, PyAny>);

impl Described {
    /// Reads the description of an environment that `skillrl._bridge` makes.
    pub(crate) fn new(described: &Bound<'_, PyAny>) -> PyResult<Self> {
        let text = |name: &str| described.getattr(name)?.extract::<String>();
        let mut objects = HashMap::new();
        let mut splits = [Vec::new(), Vec::new(), Vec::new()];
        for (split, items) in Split::ALL.into_iter().zip(&mut splits) {
            for item in described.getattr("items")?.get_item(split.as_str())?.try_iter()? {
                let (id, task_type, data, object): DescribedItem = item?.extract()?;
                let data = match data {
                    None => json::of_object(&object)?,
                    Some(data) => serde_json::from_str(&data).map_err(|error| unreadable(&id, &error))?,
                };
                let item = Item { task_type, ..Item::new(id, data) };
                objects.insert(item.id.clone(), object.unbind());
                items.push(item);
            }
        }
        let settings = serde_json::from_str(&text("settings")?).unwrap_or(Value::Null);
        Ok(Self {
            name: text("name")?,
            settings,
            initial_skill: described
                .getattr("initial_skill")?
                .extract::<Option<String>>()?
                .map(SkillDoc::new),
            prompts: templates(described.getattr("prompts")?.extract()?)?,
            splits: splits.into(),
            objects: Arc::new(objects),
        })
    }
}

impl PyEnv {
    /// Reads the description of an environment that `skillrl._bridge` makes.
    pub(crate) fn new(
        described: &Bound<'_, PyAny>,
        timeout: Duration,
        extras: Option<Arc<Extras>>,
        shared: Arc<Shared>,
    ) -> PyResult<Self> {
        Ok(Self {
            rollout: Arc::new(described.getattr("rollout")?.unbind()),
            is_async: described.getattr("is_async")?.extract()?,
            described: Described::new(described)?,
            timeout,
            extras,
            shared,
        })
    }

    /// Waits until a rollout has taken longer than it may, from when its function was called.
    async fn late(&self, turn: &InTurn) {
        let mut began = Instant::now();
        loop {
            let Some(late) = began.checked_add(self.timeout) else { return std::future::pending().await };
            tokio::time::sleep_until(late.into()).await;
            match turn.began() {
                Some(at) if !self.is_async && at > began => began = at,
                None if !self.is_async => began = Instant::now(),
                _ => return,
            }
        }
    }

    /// Waits until nothing further is begun, if the function of the rollout was not called before.
    async fn halted(&self, turn: &InTurn, ctx: &RolloutCtx) {
        ctx.call.halt.cancelled().await;
        if self.is_async || turn.began().is_some() {
            std::future::pending::<()>().await;
        }
    }

    /// Why there is no result of an item.
    fn failed(&self, item: &Item, why: &str) -> EnvError {
        EnvError::Program {
            message: format!("item {}: `rollout_one` of {} {why}", item.id, self.described.name),
        }
    }
}

/// Prompts as templates: a text without blocks is the system message of the built-in prompt of its name, as in skillrl
/// 1.0, and the rest of that prompt stays.
pub(crate) fn templates(prompts: HashMap<String, String>) -> PyResult<HashMap<String, String>> {
    let template = |(name, text): (String, String)| {
        let Some(prompt) = PromptName::parse(&name) else {
            let names: Vec<&str> = PromptName::ALL.into_iter().map(PromptName::as_str).collect();
            let text = format!("unknown prompt {name:?}; the prompts are {}", names.join(", "));
            return Err(PyValueError::new_err(text));
        };
        let text = PromptTemplate::in_place_of(prompt.embedded_source(), text);
        Ok((name, text))
    };
    prompts.into_iter().map(template).collect()
}

fn unreadable(id: &str, error: &serde_json::Error) -> PyErr {
    PyValueError::new_err(format!("the item {id:?} cannot be written as JSON: {error}"))
}

#[async_trait]
impl Env for PyEnv {
    fn name(&self) -> &str {
        &self.described.name
    }

    fn items(&self, split: Split) -> &[Item] {
        &self.described.splits[split]
    }

    fn settings(&self) -> Value {
        self.described.settings.clone()
    }

    fn initial_skill(&self) -> Option<SkillDoc> {
        self.described.initial_skill.clone()
    }

    fn ahead(&self) -> usize {
        if self.is_async { 0 } else { self.shared.threads().ahead() }
    }

    fn prompt_override(&self, name: &str) -> Option<&str> {
        self.described.prompts.get(name).map(String::as_str)
    }

    async fn rollout(
        &self,
        item: &Item,
        source: &dyn SkillSource,
        target: &dyn ChatModel,
        ctx: &RolloutCtx,
    ) -> Result<RolloutResult, EnvError> {
        let threads = Arc::new(Rollout::default());
        let of_agent = Arc::clone(&threads);
        let turn = &self.shared.threads().turn();
        let work = |agent: skillrl::env::Agent| async move {
            let (objects, rollout, id) =
                (Arc::clone(&self.described.objects), Arc::clone(&self.rollout), item.id.clone());
            let skill = agent.skill();
            let agent = PyAgent::new(agent, self.extras.clone(), of_agent, Arc::clone(&self.shared));
            let start = start(move |py| {
                let arguments = (objects.get(&id), skill, Py::new(py, agent)?);
                Ok((rollout.bind(py).clone(), arguments.into_pyobject(py)?))
            });
            let made =
                call(&self.shared, self.is_async, Some(turn), start, |result| result.extract::<String>());
            match made.await {
                Ok(result) => Ok(result),
                Err(Failure::Raised(message)) => Err(self.failed(item, &format!("raised {message}"))),
                Err(Failure::Ended) => Err(EnvError::Model(LlmError::Cancelled)),
            }
        };
        let late = self.late(turn);
        let (result, record) = tokio::select! {
            biased;
            made = play(item, source, target, ctx, work) => made?,
            // A function that blocks its thread never ends by itself: the thread is left to it.
            () = ctx.call.cancel.cancelled() => return Err(EnvError::Model(LlmError::Cancelled)),
            () = self.halted(turn, ctx) => return Err(EnvError::Model(LlmError::Cancelled)),
            after = threads.late() => {
                let provider = target.id().to_string();
                return Err(EnvError::Model(LlmError::Timeout { provider, after }));
            }
            () = late => {
                let limit = self.timeout.as_secs_f64();
                return Err(self.failed(item, &format!("did not return within {limit} s (`rollout_timeout`)")));
            }
        };
        let result: RolloutResult = serde_json::from_str(&result)
            .map_err(|error| self.failed(item, &format!("returned a result that cannot be read: {error}")))?;
        Ok(completed(result, record))
    }
}

/// The result of an environment, with what it leaves open from the record of its agent.
fn completed(mut result: RolloutResult, record: AgentRecord) -> RolloutResult {
    result.usage = record.usage;
    if record.n_calls == 0 {
        return result;
    }
    let fill = |text: &mut String, recorded: String| {
        if text.is_empty() {
            *text = recorded;
        }
    };
    fill(&mut result.target_system_prompt, record.system);
    fill(&mut result.target_user_prompt, record.user.clone());
    if result.task_description.is_empty() {
        fill(&mut result.question, record.user);
    }
    fill(&mut result.predicted_answer, record.last_reply);
    if result.n_turns == 0 {
        result.n_turns = record.n_calls;
    }
    // The record has the exact requests; an environment that tells more than its calls knows better.
    let n_told = result.trajectory.conversation().count();
    if n_told <= record.trajectory.conversation().count() {
        result.trajectory = record.trajectory;
    }
    result
}
