//! From a configuration to models with their layers, and what the models of a run share.

mod agent;
mod local;
mod served;
mod simulated;
mod thoughts;

pub(crate) use local::findings as local_findings;

use crate::config::key::declare::Fill as _;
use crate::config::{
    Config, EmbeddingConfig, EmbeddingKind, LoadedConfig, ModelConfig, ModelRole, RetryConfig, Runner,
    ServedConfig, TrainMode,
};
use crate::cost::prices;
use crate::error::Error;
use crate::secrets;
use served::Access;
use skill_bank::retrieve::RetrievalMode;
use skill_llm::listing::ModelList;
use skill_llm::{
    ApiKey, Budget, BudgetCaps, Budgeted, ChatModel, EmbeddingModel, LlmError, ModelId, PaceConfig, Paced,
    Pacer, Prices, ReqwestTransport, Retried, RetryBudget, RetryPolicy, Secrets, Traced, Transport, Trouble,
    scripted,
};
use skill_pipeline::NamedModels;
use skill_pipeline::run_dir::live::{Pulse, ReadPulse, Spend};
use skill_pipeline::shell::ReadTrouble;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// How many calls are in flight at first where more are allowed: a server that takes them gets twice as many in each
/// round of replies.
const START_IN_FLIGHT: u32 = 64;

/// The part of the model that gives vectors, beside those of [`ModelRole`].
pub(crate) const EMBEDDING: &str = "embedding";

/// From this attempt on a call's failures are told, and from this wait.
const LASTING_TURN: u32 = 3;
const LASTING_WAIT: Duration = Duration::from_secs(30);

/// What the models of a run share: the caps of the run, and for each provider its pace and its retries.
pub struct Engine<'config> {
    loaded: &'config LoadedConfig,
    budget: Arc<Budget>,
    providers: BTreeMap<String, Provider>,
    transport: Option<Arc<dyn Transport>>,
    has_keys: bool,
    has_workers: bool,
    own_keys: BTreeMap<&'static str, ApiKey>,
    secrets: Secrets,
    locals: local::Locals,
    thoughts: thoughts::Thoughts,
}

/// The model with requests that a worker sends, where the call is one of a worker.
fn sent_by_workers(model: Arc<dyn ChatModel>) -> Arc<dyn ChatModel> {
    #[cfg(feature = "nats")]
    let model = Arc::new(skill_nats::RemoteModel::new(model));
    model
}

#[derive(Clone)]
struct Provider {
    pacer: Arc<Pacer>,
    retries: Arc<RetryBudget>,
}

impl<'config> Engine<'config> {
    /// Nothing is built, looked up or sent before a model is asked for.
    pub fn new(loaded: &'config LoadedConfig) -> Self {
        let mut caps = BudgetCaps::default();
        loaded.config.budget.fill(&mut caps);
        let budget = Budget::new(caps);
        let secrets = secrets::known(loaded);
        Self {
            loaded,
            budget,
            providers: BTreeMap::new(),
            transport: None,
            has_keys: true,
            has_workers: false,
            own_keys: BTreeMap::new(),
            secrets,
            locals: local::Locals::default(),
            thoughts: thoughts::Thoughts::default(),
        }
    }

    /// The same with this key for the model that plays a part, for programs that hold a key themselves; the
    /// configuration then need not name the variable of one.
    #[must_use]
    pub fn with_key(mut self, role: ModelRole, key: ApiKey) -> Self {
        self.secrets.add(&key);
        self.own_keys.insert(role.as_str(), key);
        self
    }

    /// An engine whose models are never sent anything, and so need no key.
    pub fn without_keys(loaded: &'config LoadedConfig) -> Self {
        Self { has_keys: false, ..Self::new(loaded) }
    }

    /// The engine of a run whose rollouts are where `run.runner` says: workers bring the keys of the models that they ask.
    #[must_use]
    pub(crate) fn for_training(self) -> Self {
        let config = &self.loaded.config;
        let has_workers = config.run.runner == Runner::Nats && config.train.mode != TrainMode::Weights;
        Self { has_workers, ..self }
    }

    /// The configuration whose models these are.
    pub(crate) fn loaded(&self) -> &'config LoadedConfig {
        self.loaded
    }

    /// The caps of the run.
    pub fn budget(&self) -> Arc<Budget> {
        Arc::clone(&self.budget)
    }

    /// What the models that were asked for until now do at a moment, all together.
    pub fn pulse(&self) -> ReadPulse {
        let budget = self.budget();
        let providers: Vec<Provider> = self.providers.values().cloned().collect();
        Arc::new(move || {
            let mut pulse = Pulse { spend: Spend::new(budget.spent(), budget.caps()), ..Pulse::default() };
            for provider in &providers {
                let pace = provider.pacer.snapshot();
                pulse.in_flight += pace.in_flight;
                pulse.limit += pace.limit;
                pulse.waiting += pace.waiting;
            }
            if let Some((retrying, worst)) = trouble_of(&providers) {
                (pulse.retrying, pulse.trouble) = (retrying, Some(worst.to_string()));
            }
            pulse
        })
    }

    /// What is wrong with a provider whose calls go on failing, in words; it is asked for now and then.
    pub(crate) fn lasting_trouble(&self) -> ReadTrouble {
        let providers: Vec<Provider> = self.providers.values().cloned().collect();
        Arc::new(move || {
            let (retrying, worst) = trouble_of(&providers)?;
            let is_lasting =
                worst.turn >= LASTING_TURN || worst.wait().is_some_and(|wait| wait >= LASTING_WAIT);
            let calls = if retrying == 1 { "1 call is".to_owned() } else { format!("{retrying} calls are") };
            is_lasting.then(|| format!("{calls} being retried after failures: {worst}"))
        })
    }

    /// One of the models, with all layers but the journal.
    ///
    /// # Errors
    ///
    /// A key that is not in the environment, a scripted file that cannot be read, an address that cannot be one.
    pub fn model(&mut self, role: ModelRole) -> Result<Arc<dyn ChatModel>, Error> {
        let loaded = self.loaded;
        if let Some(config @ (ModelConfig::Served { .. } | ModelConfig::Agent(_))) =
            role.config(&loaded.config)
        {
            let paid = self.paid(role, config);
            return paid.map_err(|source| Error::Model { role: role.as_str(), source });
        }
        let plain = self.plain(role)?;
        Ok(self.own(plain))
    }

    /// A model that does the tasks in the target's place, by its name in `[models.targets]`; `target` is the target itself.
    ///
    /// # Errors
    ///
    /// As [`Engine::model`], and a name that is not configured.
    pub fn target(&mut self, name: &str) -> Result<Arc<dyn ChatModel>, Error> {
        let role = ModelRole::Target;
        if name == role.as_str() {
            return self.model(role);
        }
        let loaded = self.loaded;
        let failed = |source: LlmError| Error::NamedTarget { name: name.to_owned(), source };
        match loaded.config.models.targets.get(name) {
            Some(config @ (ModelConfig::Served { .. } | ModelConfig::Agent(_))) => {
                self.paid(role, config).map_err(failed)
            }
            Some(config) => {
                let plain = self.plain_of(role, config).map_err(|error| match error {
                    Error::Model { source, .. } => failed(source),
                    other => other,
                })?;
                Ok(self.own(plain))
            }
            None => {
                let known: Vec<&str> = loaded.config.models.targets.keys().map(String::as_str).collect();
                Err(Error::UnknownTarget { name: name.to_owned(), known: known.join(", ") })
            }
        }
    }

    /// The models of a run that trains, the optimizer in this role.
    ///
    /// # Errors
    ///
    /// As [`Engine::model`].
    pub(crate) fn run_models(&mut self, optimizer: ModelRole) -> Result<RunModels, Error> {
        let target = self.model(ModelRole::Target)?;
        Ok(RunModels { target, optimizer: self.model(optimizer)?, judge: self.judge()? })
    }

    /// The targets that do the selection and the test split, where these are not the target alone.
    ///
    /// # Errors
    ///
    /// As [`Engine::target`].
    pub(crate) fn evaluation_targets(&mut self) -> Result<NamedModels, Error> {
        let names = self.loaded.config.train.targets();
        names.iter().map(|name| Ok((name.clone(), self.target(name)?))).collect()
    }

    /// A model of this process or of the caller, with the caps of the run and a span for each call.
    ///
    /// Nothing is in the way of such a model, so it gets neither patience nor pace: whatever it returns as an error ends
    /// the call.
    pub fn own(&self, model: Arc<dyn ChatModel>) -> Arc<dyn ChatModel> {
        let budgeted = Budgeted::new(sent_by_workers(model), self.budget(), Prices::default());
        self.thoughts.watch(Arc::new(Traced::new(Arc::new(budgeted))))
    }

    /// A model that nobody is paid for, without any layer.
    fn plain(&mut self, role: ModelRole) -> Result<Arc<dyn ChatModel>, Error> {
        let loaded = self.loaded;
        match role.config(&loaded.config) {
            Some(config) => self.plain_of(role, config),
            None => {
                let section = role.as_str();
                let message = format!("there is no section [models.{section}] in the configuration");
                Err(Error::Model { role: section, source: LlmError::Configuration { message } })
            }
        }
    }

    /// The same by these settings.
    fn plain_of(&mut self, role: ModelRole, config: &ModelConfig) -> Result<Arc<dyn ChatModel>, Error> {
        let loaded = self.loaded;
        let failed = |source: LlmError| Error::Model { role: role.as_str(), source };
        Ok(match config {
            ModelConfig::Local(asked) => self.locals.model(role, asked, loaded.config.run.seed)?,
            ModelConfig::Scripted(asked) => {
                Arc::new(scripted::ScriptedModel::from_file(asked.file.to_path()).map_err(failed)?)
            }
            ModelConfig::Simulated(asked) => simulated::model(role, &loaded.config.env, asked)?,
            ModelConfig::Served { .. } | ModelConfig::Agent(_) => {
                let message = format!("a model of kind \"{}\" is paid for", config.kind());
                return Err(failed(LlmError::Configuration { message }));
            }
        })
    }

    /// True for a model whose requests workers send, where this machine has no key for it.
    pub(crate) fn is_asked_elsewhere_alone(&self, role: ModelRole) -> bool {
        let config = &self.loaded.config;
        let is_elsewhere = self.has_workers
            && (role == ModelRole::Target || ModelRole::of_judge(config) == Some(role))
            && role != ModelRole::Optimizer;
        let variable = role.config(config).and_then(ModelConfig::served).and_then(ServedConfig::key_variable);
        is_elsewhere && variable.is_some_and(|variable| std::env::var_os(variable).is_none())
    }

    /// One of the models as a worker of a run has it: it sends requests with the keys and at the pace of this machine,
    /// and has none of the other layers.
    ///
    /// # Errors
    ///
    /// As [`Engine::model`].
    pub fn sender(&mut self, role: ModelRole) -> Result<Arc<dyn ChatModel>, Error> {
        let loaded = self.loaded;
        let failed = |source: LlmError| Error::Model { role: role.as_str(), source };
        match role.config(&loaded.config) {
            Some(config @ (ModelConfig::Served { .. } | ModelConfig::Agent(_))) => {
                let dialect = self.dialect(role, config, self.has_keys).map_err(failed)?;
                let provider = self.provider_of(&dialect.id().provider);
                Ok(Arc::new(Paced::new(dialect, provider.pacer)))
            }
            _ => self.plain(role),
        }
    }

    /// The expert of the configured world in the place of its agent: it reads the prompts of an agent and answers in its
    /// form, without a model call. It remembers turns that are no longer in its prompt; its choices among equals follow
    /// from `run.seed`.
    ///
    /// # Errors
    ///
    /// [`Error::NoExpert`] for an environment without one.
    pub fn expert(&self) -> Result<Arc<dyn ChatModel>, Error> {
        let Config { env, run, sft, .. } = &self.loaded.config;
        let mistakes = sft.as_ref().map_or(0.0, |sft| sft.mistakes);
        simulated::expert(env, run.seed, mistakes)?.ok_or(Error::NoExpert { env: env.kind() })
    }

    /// The list of models that the server of one of the models keeps; `None` for a model that no server answers for.
    ///
    /// # Errors
    ///
    /// As [`Engine::model`].
    pub fn list(&mut self, role: ModelRole) -> Result<Option<ModelList>, Error> {
        let loaded = self.loaded;
        let failed = |source: LlmError| Error::Model { role: role.as_str(), source };
        match role.config(&loaded.config) {
            Some(ModelConfig::Served { dialect, config }) => {
                let transport = self.transport().map_err(failed)?;
                served::list(*dialect, config, transport, self.access(role)).map(Some).map_err(failed)
            }
            Some(
                ModelConfig::Agent(_)
                | ModelConfig::Local(_)
                | ModelConfig::Scripted(_)
                | ModelConfig::Simulated(_),
            )
            | None => Ok(None),
        }
    }

    /// What a server or a program that plays a model is asked by.
    fn dialect(
        &mut self,
        role: ModelRole,
        config: &ModelConfig,
        has_key: bool,
    ) -> Result<Arc<dyn ChatModel>, LlmError> {
        match config {
            ModelConfig::Agent(asked) => {
                Ok(Arc::new(agent::model(asked, &self.loaded.run_dir(), &self.secrets)?))
            }
            ModelConfig::Served { dialect, config } => {
                let transport = self.transport()?;
                served::model(*dialect, config, transport, Access { has_key, ..self.access(role) })
            }
            ModelConfig::Local(_) | ModelConfig::Scripted(_) | ModelConfig::Simulated(_) => {
                let message = format!("no server answers for kind \"{}\"", config.kind());
                Err(LlmError::Configuration { message })
            }
        }
    }

    /// What all models of a provider share.
    fn provider_of(&mut self, name: &str) -> Provider {
        if let Some(provider) = self.providers.get(name) {
            return provider.clone();
        }
        let provider = self.provider(name);
        self.providers.insert(name.to_owned(), provider.clone());
        provider
    }

    /// A model that costs money, in all its layers: pace, caps, retries and traces.
    fn paid(&mut self, role: ModelRole, config: &ModelConfig) -> Result<Arc<dyn ChatModel>, LlmError> {
        let has_key = self.has_keys && !self.is_asked_elsewhere_alone(role);
        let dialect = self.dialect(role, config, has_key)?;
        let provider = self.provider_of(&dialect.id().provider);
        let paced = Arc::new(Paced::new(sent_by_workers(dialect), provider.pacer));
        let budgeted = Arc::new(Budgeted::new(paced, Arc::clone(&self.budget), prices(config)));
        let policy = retry_policy(&self.loaded.config.retry, self.loaded.config.run.seed);
        let retried = Arc::new(Retried::new(budgeted, policy, provider.retries));
        Ok(self.thoughts.watch(Arc::new(Traced::new(retried))))
    }

    fn access(&self, role: ModelRole) -> Access<'_> {
        Access { own_key: self.own_keys.get(role.as_str()), ..self.access_of_configuration() }
    }

    fn access_of_configuration(&self) -> Access<'_> {
        Access { has_key: self.has_keys, own_key: None, secrets: &self.secrets }
    }

    /// The connections that all models share.
    fn transport(&mut self) -> Result<Arc<dyn Transport>, LlmError> {
        if let Some(transport) = &self.transport {
            return Ok(Arc::clone(transport));
        }
        let made = ReqwestTransport::new().map_err(|error| LlmError::Configuration {
            message: format!("no HTTP client can be made: {error}"),
        })?;
        let made: Arc<dyn Transport> = Arc::new(made);
        self.transport = Some(Arc::clone(&made));
        Ok(made)
    }

    /// The model that gives vectors to texts, with all layers but the journal; `None` where none is configured.
    ///
    /// # Errors
    ///
    /// A key that is not in the environment, an address that cannot be one.
    pub fn embedding(&mut self) -> Result<Option<Arc<dyn EmbeddingModel>>, Error> {
        let Some(asked) = &self.loaded.config.models.embedding else { return Ok(None) };
        if asked.kind == EmbeddingKind::Local {
            let plain = local::embedding(asked)?;
            let budgeted = Arc::new(Budgeted::embedding(plain, self.budget(), Prices::default()));
            return Ok(Some(Arc::new(Traced::embedding(budgeted))));
        }
        let failed = |source: LlmError| Error::Model { role: EMBEDDING, source };
        let transport = self.transport().map_err(failed)?;
        let plain = served::embedding(asked, transport, self.access_of_configuration()).map_err(failed)?;
        let provider = self.provider_of(&plain.id().provider);
        let prices = embedding_prices(asked);
        let paced = Arc::new(Paced::embedding(plain, provider.pacer));
        let budgeted = Arc::new(Budgeted::embedding(paced, Arc::clone(&self.budget), prices));
        let policy = retry_policy(&self.loaded.config.retry, self.loaded.config.run.seed);
        let retried = Arc::new(Retried::embedding(budgeted, policy, provider.retries));
        Ok(Some(Arc::new(Traced::embedding(retried))))
    }

    /// The list of models that the server of the embedding model keeps; `None` where no server gives vectors.
    ///
    /// # Errors
    ///
    /// Those of [`Engine::embedding`].
    pub(crate) fn embedding_list(&mut self) -> Result<Option<ModelList>, Error> {
        let served = self.loaded.config.models.embedding.as_ref();
        let Some(asked) = served.filter(|asked| asked.kind == EmbeddingKind::OpenAi) else { return Ok(None) };
        let failed = |source: LlmError| Error::Model { role: EMBEDDING, source };
        let transport = self.transport().map_err(failed)?;
        served::embedding_list(asked, transport, self.access_of_configuration()).map(Some).map_err(failed)
    }

    /// The model that embeds goals and skills, if retrieval needs one.
    ///
    /// # Errors
    ///
    /// Those of [`Engine::embedding`].
    pub fn retrieval_model(&mut self) -> Result<Option<Arc<dyn EmbeddingModel>>, Error> {
        match self.loaded.config.retrieval.as_ref().map(|retrieval| retrieval.mode) {
            Some(RetrievalMode::Embedding) => self.embedding(),
            Some(RetrievalMode::Template) | None => Ok(None),
        }
    }

    /// What all models of a provider share; the configuration has one rate for each.
    fn provider(&self, name: &str) -> Provider {
        let config = &self.loaded.config;
        let mut rates = (None, None);
        for model in config.models.all() {
            if model_id(model).is_some_and(|id| id.provider == name) {
                let (requests, tokens) = model.rates();
                rates.0 = rates.0.or(requests);
                rates.1 = rates.1.or(tokens);
            }
        }
        let pace = PaceConfig {
            requests_per_minute: rates.0.map(|rate| u32::try_from(rate).unwrap_or(u32::MAX)),
            tokens_per_minute: rates.1,
            start_in_flight: config.run.workers.min(START_IN_FLIGHT),
            max_in_flight: config.run.workers,
            ..PaceConfig::default()
        };
        Provider { pacer: Pacer::new(pace), retries: Arc::new(RetryBudget::default()) }
    }

    /// What the tokens of each model cost, that of embeddings included.
    pub fn prices(&self) -> Vec<(ModelId, Prices)> {
        let config = &self.loaded.config;
        let of = |model: &ModelConfig| Some((model_id(model)?, prices(model)));
        let served = config.models.embedding.as_ref().filter(|asked| asked.kind == EmbeddingKind::OpenAi);
        let embedding = served.and_then(|asked| {
            let provider = skill_llm::Server::new(&asked.base_url).provider().ok()?;
            Some((ModelId::new(provider, &asked.model), embedding_prices(asked)))
        });
        config.models.all().filter_map(of).chain(embedding).collect()
    }

    /// The model that grades answers, if the environment has one.
    ///
    /// # Errors
    ///
    /// As [`Engine::model`].
    pub fn judge(&mut self) -> Result<Option<Arc<dyn ChatModel>>, Error> {
        ModelRole::of_judge(&self.loaded.config).map(|role| self.model(role)).transpose()
    }
}

/// The models of a run.
#[derive(Clone)]
pub struct RunModels {
    /// The agent.
    pub target: Arc<dyn ChatModel>,
    /// What proposes edits.
    pub optimizer: Arc<dyn ChatModel>,
    /// What grades answers, where the environment has it done.
    pub judge: Option<Arc<dyn ChatModel>>,
}

/// The calls of all providers that are retried, and the one of them that has failed most often.
fn trouble_of(providers: &[Provider]) -> Option<(usize, Trouble)> {
    let troubles = providers.iter().filter_map(|provider| provider.retries.trouble());
    troubles.reduce(|(count, worst), (other_count, other)| {
        (count + other_count, if other.turn > worst.turn { other } else { worst })
    })
}

/// How records name a model; `None` for an address that cannot be one, which is refused when the model is built, and
/// for models that nobody pays for.
fn model_id(model: &ModelConfig) -> Option<ModelId> {
    match model {
        ModelConfig::Served { config, .. } => {
            let provider = skill_llm::Server::new(&config.base_url).provider().ok()?;
            Some(ModelId::new(provider, &config.model))
        }
        ModelConfig::Agent(asked) => Some(agent::model_id(asked)),
        ModelConfig::Local(_) | ModelConfig::Scripted(_) | ModelConfig::Simulated(_) => None,
    }
}

/// What the tokens of an embedding model cost; nothing where the configuration does not say.
fn embedding_prices(asked: &EmbeddingConfig) -> Prices {
    let price = asked.price_input.unwrap_or(0.0);
    Prices { input: price, cached: price, cache_write: price, output: 0.0 }
}

fn retry_policy(asked: &RetryConfig, seed: u64) -> RetryPolicy {
    let mut policy = RetryPolicy { seed, ..RetryPolicy::default() };
    asked.fill(&mut policy);
    policy
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_training_with_workers_goes_without_the_key_of_the_agent() {
        let key = |name: &str| {
            format!(
                "model = \"m\"\nbase_url = \"http://localhost:1/v1\"\napi_key_env = \"SKILLRL_TEST_{name}\"\n"
            )
        };
        let text = |runner: &str| {
            let (target, optimizer) = (key("TARGET"), key("OPTIMIZER"));
            format!(
                "[run]\nrunner = \"{runner}\"\n[env]\nkind = \"qa\"\ndata = \"d\"\n\
                 [models.target]\n{target}[models.optimizer]\n{optimizer}"
            )
        };
        let has_model = |runner: &str, is_training: bool, role: ModelRole| {
            let loaded = Config::parse(&text(runner), "test", &[]).unwrap();
            let engine = Engine::new(&loaded);
            let mut engine = if is_training { engine.for_training() } else { engine };
            engine.model(role).is_ok()
        };
        assert!(has_model("nats", true, ModelRole::Target));
        assert!(!has_model("nats", true, ModelRole::Optimizer));
        assert!(!has_model("nats", false, ModelRole::Target));
        assert!(!has_model("local", true, ModelRole::Target));
    }

    #[test]
    fn the_prices_of_a_run_have_its_embedding_model() {
        let text = "[env]\nkind = \"qa\"\ndata = \"d\"\n[models]\noptimizer = { kind = \"simulated\" }\n\
                    target = { kind = \"simulated\" }\n[models.embedding]\nmodel = \"vectors\"\n\
                    base_url = \"http://localhost:1/v1\"\nprice_input = 0.5\n";
        let loaded = Config::parse(text, "test", &[]).unwrap();
        let found = Engine::new(&loaded).prices();
        let [(id, prices)] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!((id.model.as_str(), prices.input, prices.cached), ("vectors", 0.5, 0.5));
    }
}
