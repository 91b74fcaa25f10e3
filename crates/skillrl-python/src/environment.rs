//! An environment in Python.

use crate::agent::{Address, PyAgent};
use crate::callback::{Failure, Rollout, Shared, call};
use crate::client::Extras;
use crate::json;
use crate::package::of_texts;
use crate::threads::{InTurn, start};
use async_trait::async_trait;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use serde_json::{Map, Value};
use skillrl::core::{ItemId, RolloutResult, SkillDoc, Trajectory};
use skillrl::env::{AgentRecord, play};
use skillrl::envs::endpoint::{Endpoint, EndpointSession, SessionRecord, SessionSettings, SkillInPrompt};
use skillrl::envs::reach;
use skillrl::envs::record::conversation;
use skillrl::envs::{Env, EnvError, Item, RolloutCtx, SkillSource, Split, Splits};
use skillrl::llm::{ChatModel, LlmError, PromptTemplate};
use skillrl::pipeline::prompts::PromptName;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::OnceCell;

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
    /// The model as a server, once the first rollout needs it; None where the environment asks through its client.
    endpoint: Option<OnceCell<Endpoint>>,
    /// The share of a stage's rollouts that may raise and count as failures; None ends the run.
    max_errors: Option<f64>,
    /// Whether a rollout without a call is a fault of the environment, such as where a cap would not hold for it.
    needs_calls: bool,
}

/// What became of the function of a rollout.
struct Made {
    /// Its result as JSON, or what it raised.
    result: Result<String, String>,
    /// What its agent asked at the endpoint.
    session: Option<SessionRecord>,
}

/// The skill to start from: a text, or several with names.
fn initial_skill(described: &Bound<'_, PyAny>) -> PyResult<Option<SkillDoc>> {
    let skill = described.getattr("initial_skill")?;
    if skill.is_none() {
        return Ok(None);
    }
    match skill.extract::<String>() {
        Ok(text) => Ok(Some(SkillDoc::new(text))),
        Err(_) => of_texts(skill.extract()?).map(Some),
    }
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
        let settings = json::read("the settings of an environment", &text("settings")?)?;
        Ok(Self {
            name: text("name")?,
            settings,
            initial_skill: initial_skill(described)?,
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
            endpoint: described.getattr("serves")?.extract::<bool>()?.then(OnceCell::new),
            max_errors: described.getattr("max_errors")?.extract()?,
            needs_calls: described.getattr("needs_calls")?.extract()?,
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

    /// A session of the endpoint for one rollout, with what the agent is told of it.
    async fn session(
        &self,
        skill: &str,
        target: &dyn ChatModel,
    ) -> Result<Option<(EndpointSession, Address)>, EnvError> {
        let Some(cell) = &self.endpoint else { return Ok(None) };
        let endpoint = cell.get_or_try_init(Endpoint::start).await?;
        let model = target.id().model.clone();
        let skill = SkillInPrompt::Expected(skill.to_owned());
        let settings = SessionSettings { skill, models: vec![model.clone()], ..SessionSettings::default() };
        let session = endpoint.session(settings);
        let (openai, anthropic) = (session.base_url_openai(), session.base_url_anthropic());
        let address = (openai, anthropic, session.token().to_owned(), model);
        Ok(Some((session, address)))
    }

    /// A rollout whose function raised or did not return, as a failure; None where that ends the run.
    fn failure(&self, item: &Item, what: &str, session: Option<&SessionRecord>) -> Option<RolloutResult> {
        let refusal = session.and_then(SessionRecord::last_refusal);
        if refusal.is_none() && self.max_errors.is_none() {
            return None;
        }
        // What was raised is not what ends the run, should it end.
        self.shared.set_aside();
        let mut result = RolloutResult::new(item.id.clone(), 0.0, 0.0);
        // An optimizer learns from what was raised, and not from where in the program.
        let what = what.split("\nTraceback ").next().unwrap_or_default();
        let what: String = what.chars().take(MAX_RAISED).collect();
        result.fail_reason = match refusal {
            Some(refusal) => format!("the agent gave up: {refusal}; {what}"),
            None => format!("the agent {what}"),
        };
        if refusal.is_none() {
            result.extras.insert(reach::BROKEN_KEY.to_owned(), true.into());
        }
        Some(result)
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

    fn max_broken_share(&self) -> f64 {
        self.max_errors.unwrap_or_default()
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
            let (session, address) = self.session(&skill, target).await?.unzip();
            let agent = PyAgent::new(agent, self.extras.clone(), of_agent, Arc::clone(&self.shared));
            let agent = agent.served_at(address);
            let start = start(move |py| {
                let arguments = (objects.get(&id), skill, Py::new(py, agent)?);
                Ok((rollout.bind(py).clone(), arguments.into_pyobject(py)?))
            });
            let made =
                call(&self.shared, self.is_async, Some(turn), start, |result| result.extract::<String>());
            let (made, session) = match session {
                None => (made.await, None),
                Some(mut session) => {
                    let failed = session.failed();
                    let made = tokio::select! {
                        biased;
                        made = made => made,
                        // Without its model the agent cannot come to a score any more.
                        () = failed.cancelled() => Err(Failure::Ended),
                        never = session.serve(target, ctx) => match never {},
                    };
                    (made, Some(session.finish()?))
                }
            };
            match made {
                Ok(result) => Ok(Made { result: Ok(result), session }),
                Err(Failure::Raised(message)) => Ok(Made { result: Err(message), session }),
                Err(Failure::Ended) => Err(EnvError::Model(LlmError::Cancelled)),
            }
        };
        let late = self.late(turn);
        let made = tokio::select! {
            biased;
            made = play(item, source, target, ctx, work) => Some(made?),
            // A function that blocks its thread never ends by itself: the thread is left to it.
            () = ctx.call.cancel.cancelled() => return Err(EnvError::Model(LlmError::Cancelled)),
            () = self.halted(turn, ctx) => return Err(EnvError::Model(LlmError::Cancelled)),
            after = threads.late() => {
                let provider = target.id().to_string();
                return Err(EnvError::Model(LlmError::Timeout { provider, after }));
            }
            () = late => {
                None
            }
        };
        let Some((Made { result, session }, record)) = made else {
            let limit = self.timeout.as_secs_f64();
            let what = format!("did not return within {limit} s");
            let failure = self.failure(item, &what, None);
            return failure.ok_or_else(|| self.failed(item, &format!("{what} (`rollout_timeout`)")));
        };
        let result = match result {
            Ok(result) => self.read(item, &result)?,
            Err(raised) => {
                let what = format!("raised {raised}");
                let failure = self.failure(item, &what, session.as_ref());
                failure.ok_or_else(|| self.failed(item, &what))?
            }
        };
        Ok(self.completed(result, record, session))
    }
}

impl PyEnv {
    /// Reads the result of the function.
    fn read(&self, item: &Item, result: &str) -> Result<RolloutResult, EnvError> {
        let unreadable =
            |what: String| self.failed(item, &format!("returned a result that cannot be read: {what}"));
        let mut fields: Map<String, Value> =
            serde_json::from_str(result).map_err(|error| unreadable(error.to_string()))?;
        if let Some(wrong) = fields.get("wrong").and_then(Value::as_str) {
            return Err(EnvError::Program { message: format!("item {}: {wrong}", item.id) });
        }
        // Messages are taken as agents keep them.
        let told = match fields.remove("conversation") {
            Some(Value::Array(told)) => conversation(&told).map_err(unreadable)?,
            Some(_) | None => Vec::new(),
        };
        let mut result: RolloutResult =
            serde_json::from_value(fields.into()).map_err(|error| unreadable(error.to_string()))?;
        if !told.is_empty() {
            result.trajectory = Trajectory::of_messages(told);
        }
        Ok(result)
    }

    /// The result with what it leaves open from the calls of its agent, at its client or at the endpoint.
    fn completed(
        &self,
        result: RolloutResult,
        record: AgentRecord,
        session: Option<SessionRecord>,
    ) -> RolloutResult {
        let n_requests = session.as_ref().map_or(0, |session| session.reach.n_requests);
        let is_mute = record.n_calls == 0 && n_requests == 0;
        let of_client = record.usage;
        let mut result = match &session {
            Some(session) if session.n_calls > 0 => {
                let of_session = AgentRecord::of_session(session);
                let mut result = completed(result, of_session);
                result.usage += of_client;
                result
            }
            Some(_) | None => completed(result, record),
        };
        let mut tell = |key: &str, value: Value| {
            result.extras.insert(key.to_owned(), value);
        };
        if is_mute && !self.needs_calls {
            tell(reach::MAYBE_ELSEWHERE_KEY, true.into());
        }
        if is_mute && self.needs_calls {
            tell(reach::NO_REQUEST_KEY, true.into());
        }
        if let Some(session) = session {
            if session.reach.n_without_skill > 0 {
                tell(reach::WITHOUT_SKILL_KEY, session.reach.n_without_skill.into());
            }
            if session.reach.is_twice {
                tell(reach::SKILL_TWICE_KEY, true.into());
            }
        }
        result
    }
}

/// The most characters of what an agent raised that are its reason.
const MAX_RAISED: usize = 2_000;

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
