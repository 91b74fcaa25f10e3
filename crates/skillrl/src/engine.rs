//! From a configuration to models with their layers, and what the models of a run share.

use crate::assemble::ModelRole;
use crate::config::{
    Config, EnvConfig, LoadedConfig, MaxTokensField, ModelConfig, OpenAiConfig, ResponseFormat, RetryConfig,
    TasksJudge, TasksScorer,
};
use crate::cost::prices;
use crate::error::Error;
use skill_llm::secret::ApiKey;
use skill_llm::{
    Budget, BudgetCaps, Budgeted, ChatModel, LlmError, ModelId, PaceConfig, Paced, Pacer, Prices,
    ReqwestTransport, Retried, RetryBudget, RetryPolicy, Sampling, Traced, Transport, openai, scripted,
    simulated,
};
use skill_pipeline::run_dir::live::{Pulse, ReadPulse, Spend};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Where everybody keeps the key of the one server that never answers without one.
const OPENAI_KEY_VARIABLE: &str = "OPENAI_API_KEY";

/// How many calls are in flight at first where more are allowed: a server that takes them gets twice as many in each
/// round of replies.
const START_IN_FLIGHT: u32 = 64;

/// What the models of a run share: the caps of the run, and for each provider its pace and its retries.
pub struct Engine<'config> {
    loaded: &'config LoadedConfig,
    budget: Arc<Budget>,
    providers: BTreeMap<String, Provider>,
    transport: Option<Arc<dyn Transport>>,
    has_keys: bool,
}

struct Provider {
    pacer: Arc<Pacer>,
    retries: Arc<RetryBudget>,
}

impl<'config> Engine<'config> {
    /// Nothing is built, looked up or sent before a model is asked for.
    pub fn new(loaded: &'config LoadedConfig) -> Self {
        let asked = loaded.config.budget;
        let budget = Budget::new(BudgetCaps {
            calls: asked.calls,
            tokens: asked.tokens,
            money: asked.money,
            time: asked.time_s.map(seconds),
        });
        Self { loaded, budget, providers: BTreeMap::new(), transport: None, has_keys: true }
    }

    /// An engine whose models are never sent anything, and so need no key.
    pub fn without_keys(loaded: &'config LoadedConfig) -> Self {
        Self { has_keys: false, ..Self::new(loaded) }
    }

    /// The caps of the run.
    pub fn budget(&self) -> Arc<Budget> {
        Arc::clone(&self.budget)
    }

    /// What the models that were asked for until now do at a moment, all together.
    pub fn pulse(&self) -> ReadPulse {
        let budget = self.budget();
        let pacers: Vec<Arc<Pacer>> =
            self.providers.values().map(|provider| Arc::clone(&provider.pacer)).collect();
        Arc::new(move || {
            let spend = Spend::new(budget.spent(), budget.caps());
            pacers.iter().map(|pacer| pacer.snapshot()).fold(
                Pulse { spend, ..Pulse::default() },
                |sum, pace| Pulse {
                    in_flight: sum.in_flight + pace.in_flight,
                    limit: sum.limit + pace.limit,
                    waiting: sum.waiting + pace.waiting,
                    spend,
                },
            )
        })
    }

    /// One of the models, with all layers but the journal.
    ///
    /// # Errors
    ///
    /// A key that is not in the environment, a scripted file that cannot be read, an address that cannot be one.
    pub fn model(&mut self, role: ModelRole) -> Result<Arc<dyn ChatModel>, Error> {
        let loaded = self.loaded;
        let failed = |source: LlmError| Error::Model { role: role.as_str(), source };
        let config = match role {
            ModelRole::Target => &loaded.config.models.target,
            ModelRole::Optimizer => &loaded.config.models.optimizer,
            ModelRole::Judge => loaded.config.models.judge.as_ref().ok_or_else(|| {
                let message = "there is no section [models.judge] in the configuration".to_owned();
                failed(LlmError::Configuration { message })
            })?,
        };
        let plain: Arc<dyn ChatModel> = match config {
            ModelConfig::OpenAi(asked) => return self.over_http(asked).map_err(failed),
            ModelConfig::Scripted(asked) => {
                let path = loaded.resolve(&asked.file);
                Arc::new(scripted::ScriptedModel::from_file(&path).map_err(failed)?)
            }
            ModelConfig::Simulated(asked) => match role {
                ModelRole::Target | ModelRole::Judge => {
                    Arc::new(simulated::SimulatedTarget::new(asked.sim_seed))
                }
                ModelRole::Optimizer => {
                    let optimizer = simulated::SimulatedOptimizer::new(asked.sim_seed);
                    Arc::new(match asked.flaw_rate {
                        Some(rate) => optimizer.with_flaw_rate(rate),
                        None => optimizer,
                    })
                }
            },
        };
        // Nothing is in the way of these models, so they need neither patience nor pace.
        Ok(Arc::new(Budgeted::new(plain, self.budget(), Prices::default())))
    }

    fn over_http(&mut self, asked: &OpenAiConfig) -> Result<Arc<dyn ChatModel>, LlmError> {
        let config = openai_config(asked, self.has_keys)?;
        let transport = match &self.transport {
            Some(transport) => Arc::clone(transport),
            None => {
                let made = ReqwestTransport::new().map_err(|error| LlmError::Configuration {
                    message: format!("no HTTP client can be made: {error}"),
                })?;
                let made: Arc<dyn Transport> = Arc::new(made);
                self.transport = Some(Arc::clone(&made));
                made
            }
        };
        let dialect = Arc::new(openai::OpenAiChat::with_transport(config, transport)?);
        let name = dialect.id().provider.clone();
        if !self.providers.contains_key(&name) {
            let provider = self.provider(&name);
            self.providers.insert(name.clone(), provider);
        }
        let Some(provider) = self.providers.get(&name) else {
            return Err(LlmError::Configuration { message: format!("no provider at {name}") });
        };
        let paced = Arc::new(Paced::new(dialect, Arc::clone(&provider.pacer)));
        let budgeted = Arc::new(Budgeted::new(paced, Arc::clone(&self.budget), prices(asked)));
        let policy = retry_policy(&self.loaded.config.retry, self.loaded.config.run.seed);
        let retried = Arc::new(Retried::new(budgeted, policy, Arc::clone(&provider.retries)));
        Ok(Arc::new(Traced::new(retried)))
    }

    /// What all models of a provider share; the configuration has one rate for each.
    fn provider(&self, name: &str) -> Provider {
        let config = &self.loaded.config;
        let mut rates = (None, None);
        for model in models(config) {
            if let ModelConfig::OpenAi(model) = model
                && model_id(model).is_some_and(|id| id.provider == name)
            {
                rates.0 = rates.0.or(model.requests_per_minute);
                rates.1 = rates.1.or(model.tokens_per_minute);
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

    /// What the tokens of each model cost.
    pub fn prices(&self) -> Vec<(ModelId, Prices)> {
        let config = &self.loaded.config;
        let of = |model: &ModelConfig| match model {
            ModelConfig::OpenAi(asked) => Some((model_id(asked)?, prices(asked))),
            ModelConfig::Scripted(_) | ModelConfig::Simulated(_) => None,
        };
        models(config).filter_map(of).collect()
    }

    /// The model that grades answers, if the environment has one.
    ///
    /// # Errors
    ///
    /// As [`Engine::model`].
    pub fn judge(&mut self) -> Result<Option<Arc<dyn ChatModel>>, Error> {
        judge_role(&self.loaded.config).map(|role| self.model(role)).transpose()
    }
}

/// All models that are configured.
fn models(config: &Config) -> impl Iterator<Item = &ModelConfig> {
    [&config.models.target, &config.models.optimizer].into_iter().chain(&config.models.judge)
}

/// Which model grades answers; `None` if none does.
pub fn judge_role(config: &Config) -> Option<ModelRole> {
    match &config.env {
        EnvConfig::Tasks(tasks) if tasks.scorer == TasksScorer::Rubric => Some(match tasks.judge {
            TasksJudge::Judge => ModelRole::Judge,
            TasksJudge::Optimizer => ModelRole::Optimizer,
            TasksJudge::Target => ModelRole::Target,
        }),
        EnvConfig::Tasks(_)
        | EnvConfig::Qa(_)
        | EnvConfig::Alfworld(_)
        | EnvConfig::Webshop(_)
        | EnvConfig::Exec(_) => None,
    }
}

/// How records name a model; `None` for an address that cannot be one, which is refused when the model is built.
fn model_id(asked: &OpenAiConfig) -> Option<ModelId> {
    openai::OpenAiConfig::new(&asked.base_url, &asked.model).model_id().ok()
}

fn retry_policy(asked: &RetryConfig, seed: u64) -> RetryPolicy {
    RetryPolicy {
        max_attempts: asked.max_attempts,
        first_delay: seconds(asked.first_delay_s),
        max_delay: seconds(asked.max_delay_s),
        call_timeout: seconds(asked.call_timeout_s),
        max_server_wait: seconds(asked.max_server_wait_s),
        seed,
    }
}

fn seconds(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
}

fn openai_config(asked: &OpenAiConfig, has_key: bool) -> Result<openai::OpenAiConfig, LlmError> {
    let is_openai = openai::is_openai_address(&asked.base_url);
    let variable = asked.api_key_env.as_deref().or(is_openai.then_some(OPENAI_KEY_VARIABLE));
    let api_key = variable
        .filter(|_| has_key)
        .map(|variable| ApiKey::from_env(variable, &asked.base_url))
        .transpose()?;
    let mut config = openai::OpenAiConfig::new(&asked.base_url, &asked.model);
    config.api_key = api_key;
    config.timeout = asked.timeout();
    config.sampling = Sampling {
        temperature: asked.temperature,
        top_p: asked.top_p,
        max_tokens: asked.max_tokens,
        seed: asked.seed,
    };
    config.max_tokens_field = match asked.max_tokens_field {
        MaxTokensField::Auto => openai::MaxTokensField::Auto,
        MaxTokensField::MaxTokens => openai::MaxTokensField::MaxTokens,
        MaxTokensField::MaxCompletionTokens => openai::MaxTokensField::MaxCompletionTokens,
    };
    config.response_format = match asked.response_format {
        ResponseFormat::JsonSchema => openai::ResponseFormat::JsonSchema,
        ResponseFormat::JsonObjectSchema => openai::ResponseFormat::JsonObjectSchema,
        ResponseFormat::JsonObject => openai::ResponseFormat::JsonObject,
        ResponseFormat::Off => openai::ResponseFormat::Off,
    };
    config.extra_body = asked.extra_body.clone();
    config.extra_headers =
        asked.extra_headers.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
    Ok(config)
}
