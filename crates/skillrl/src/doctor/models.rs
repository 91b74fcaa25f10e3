//! The models: keys, servers, and one question to each.

use super::{Check, Examination, Finding, Network, Status, counted};
use crate::config::{
    AgentConfig, EmbeddingKind, LoadedConfig, ModelConfig, ModelRole, ResponseFormat, ServedConfig,
};
use crate::cost::{has_prices, prices};
use crate::engine::{EMBEDDING, Engine, local_findings};
use crate::error::Error;
use crate::hint;
use skill_core::SourceType;
use skill_core::json::read_patch;
use skill_core::rewrite::UpdateMode;
use skill_llm::anomaly::{Anomaly, anomalies};
use skill_llm::error::with_causes;
use skill_llm::listing::{ModelList, is_listed_as};
use skill_llm::{
    CallCtx, CallPlace, ChatModel, ChatReply, ChatRequest, Dialect, EmbeddingModel, EmbeddingRequest,
    ErrorClass, FinishReason, LlmError, Message, Sampling,
};
use skill_pipeline::prompts::schema::analyst_schema;
use skill_pipeline::{OWN_TARGET, Protocol};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;
use tracing::instrument::WithSubscriber as _;
use tracing::subscriber::NoSubscriber;

/// How many names of a server's list a message holds.
const MAX_NAMED_MODELS: usize = 5;

/// What every model but the optimizer is asked, where the task says nothing else.
const QUESTION: &str = "Reply with the word ready and nothing else.";

/// What the optimizer is asked: a reply of the shape that training wants, with nothing in it.
const OPTIMIZER_SYSTEM: &str =
    "This is a check before the training of an agent. Nothing has to be improved yet.";
const OPTIMIZER_USER: &str = "Reply with this JSON object and nothing else:\n\
    {\"failure_summary\": [], \"patch\": {\"reasoning\": \"This is a check.\", \"edits\": []}}";

/// What is known of a server after its list was asked for.
enum Reached {
    /// It lists these models.
    Listed(Vec<String>),
    /// It answers, and shows no list.
    Answers,
    /// It does not answer.
    No,
}

/// Looks at every model that the run has.
pub(super) async fn examine(
    loaded: &LoadedConfig,
    first_request: Option<ChatRequest>,
    asked: &Examination,
    findings: &mut Vec<Finding>,
) {
    let mut loaded = loaded.clone();
    // A doctor tells what is wrong at once and does not wait until it is over.
    loaded.config.retry.max_attempts = 1;
    let mut engine = Engine::new(&loaded).for_training();
    let mut servers = BTreeMap::new();
    for role in roles(&loaded) {
        let Some(config) = role.config(&loaded.config) else { continue };
        let mut found = Vec::new();
        if let Some(model) = built(&mut engine, role, config, &mut found) {
            let is_reached = match config.served() {
                Some(served) => {
                    found.extend(proxy(&served.base_url));
                    let (base_url, model) = (&served.base_url, &served.model);
                    let server = AskedServer { base_url, model, key: key_text(served) };
                    reach(&server, || engine.list(role), asked, &mut servers, &mut found).await
                }
                None => true,
            };
            if config.is_paid() || matches!(config, ModelConfig::Local(_)) {
                let model = (asked.network == Network::Allowed && is_reached).then_some(model);
                let max_reply_tokens = config.max_tokens().unwrap_or(loaded.config.limits.max_reply_tokens);
                let (skill_aware, protocol) = (loaded.config.train.skill_aware, loaded.config.train.protocol);
                let examined = Examined { role, config, asked, max_reply_tokens, skill_aware, protocol };
                examined.answers(model.as_deref(), first_request.as_ref(), &mut found).await;
            }
        }
        findings.extend(found.into_iter().map(|finding| finding.about(role)));
    }
    findings.extend(embedding(&mut engine, asked, &mut servers).await);
    for name in loaded.config.train.targets().iter().filter(|name| *name != OWN_TARGET) {
        findings.push(named_target(&mut engine, name, first_request.as_ref(), asked).await);
    }
}

/// Looks at the model of vectors, where a run retrieves skills by it, and requests one vector.
async fn embedding(
    engine: &mut Engine<'_>,
    asked: &Examination,
    servers: &mut BTreeMap<(String, String), Reached>,
) -> Vec<Finding> {
    let config = &engine.loaded().config;
    let has_bank =
        config.train.mode.has_bank() || config.bank.as_ref().is_some_and(|bank| bank.initial.is_some());
    let Some(configured) = config.models.embedding.as_ref().filter(|_| has_bank) else { return Vec::new() };
    let mut found = Vec::new();
    match engine.retrieval_model() {
        Ok(None) => return Vec::new(),
        Err(error) => found.push(Finding::of_error(check_of(&error), &error)),
        Ok(Some(model)) => {
            let is_reached = match configured.kind {
                EmbeddingKind::Local => true,
                EmbeddingKind::OpenAi => {
                    let key = variable_text(configured.key_variable());
                    found.push(Finding::ok(Check::Key, key.clone()));
                    let (base_url, model) = (&configured.base_url, &configured.model);
                    let server = AskedServer { base_url, model, key };
                    reach(&server, || engine.embedding_list(), asked, servers, &mut found).await
                }
            };
            found.push(match is_reached && asked.network == Network::Allowed {
                true => vector(model.as_ref(), asked).await,
                false => not_asked(),
            });
        }
    }
    found.into_iter().map(|finding| Finding { role: Some(EMBEDDING), ..finding }).collect()
}

/// Requests one vector.
async fn vector(model: &dyn EmbeddingModel, asked: &Examination) -> Finding {
    let started = Instant::now();
    match model.embed(&EmbeddingRequest::new([QUESTION]), &call(asked, EMBEDDING)).await {
        Ok(reply) => {
            let length = reply.vectors.first().map_or(0, Vec::len);
            let seconds = started.elapsed().as_secs_f64();
            let numbers = counted(length, "number");
            Finding::ok(Check::Answer, format!("it gave a vector of {numbers} after {seconds:.1} s"))
        }
        Err(error) if error.class() == ErrorClass::BadRequest => {
            let hint = "correct `models.embedding.model`, or set `retrieval.mode = \"template\"`";
            Finding::error(Check::Answer, with_causes(&error), hint)
        }
        Err(error) => of_call(&error),
    }
}

/// Why a model does not answer.
fn of_call(error: &LlmError) -> Finding {
    let status = match error.class() {
        ErrorClass::RateLimited => Status::Warning,
        _ => Status::Error,
    };
    Finding::bad(Check::Answer, status, with_causes(error), hint::of_model(error))
}

fn not_asked() -> Finding {
    Finding::skipped(Check::Answer, "the model was not tested", "fix the other errors of this model first")
}

/// What an error of a model that cannot be built is about.
fn check_of(error: &Error) -> Check {
    match error {
        Error::Model { source, .. } if source.class() == ErrorClass::Authentication => Check::Key,
        _ => Check::Model,
    }
}

/// Asks a further target of evaluations what the target is asked.
async fn named_target(
    engine: &mut Engine<'_>,
    name: &str,
    first_request: Option<&ChatRequest>,
    asked: &Examination,
) -> Finding {
    let model = match engine.target(name) {
        Ok(model) => model,
        Err(error) => return Finding::of_error(Check::Model, &error),
    };
    if asked.network != Network::Allowed {
        let message = format!("the target `{name}` was not tested");
        return Finding::skipped(Check::Answer, message, "leave out --offline");
    }
    let request = first_request.cloned().unwrap_or_else(|| ChatRequest::new(vec![Message::user(QUESTION)]));
    match model.chat(&request, &call(asked, &format!("target {name}"))).await {
        Ok(reply) if reply.text.trim().is_empty() && reply.tool_calls.is_empty() => {
            let hint = format!("raise `models.targets.{name}.max_tokens`, or have it think less");
            Finding::error(Check::Answer, format!("the target `{name}` said nothing"), hint)
        }
        Ok(reply) => match left_in(&reply, &request) {
            Some(finding) => finding,
            None => Finding::ok(Check::Answer, format!("the target `{name}` answers")),
        },
        Err(error) => {
            let message = format!("the target `{name}` does not answer: {}", with_causes(&error));
            Finding::error(Check::Answer, message, hint::of_model(&error))
        }
    }
}

/// Anomalies of the server as findings: prompts that are cut, marks in the text, an unknown finish reason, partial usage.
fn anomalies_found(reply: &ChatReply, request: &ChatRequest) -> Vec<Finding> {
    let finding =
        |found: &Anomaly| Finding::warning(Check::Answer, format!("the server {found}"), found.hint());
    anomalies(request, reply).iter().map(finding).collect()
}

/// Whether the server leaves what the model thinks in the text of its replies.
fn left_in(reply: &ChatReply, request: &ChatRequest) -> Option<Finding> {
    let what = "the server leaves what the model thinks in the text of its replies";
    reply
        .holds_thoughts(request)
        .then(|| Finding::warning(Check::Answer, what.to_owned(), hint::THOUGHTS_IN_TEXT))
}

fn roles(loaded: &LoadedConfig) -> Vec<ModelRole> {
    let mut roles = ModelRole::of_training(&loaded.config).to_vec();
    roles.extend(ModelRole::of_judge(&loaded.config).filter(|role| *role == ModelRole::Judge));
    roles
}

/// Builds a model, which looks up its key and checks its settings.
fn built(
    engine: &mut Engine<'_>,
    role: ModelRole,
    config: &ModelConfig,
    found: &mut Vec<Finding>,
) -> Option<std::sync::Arc<dyn ChatModel>> {
    let model = match engine.model(role) {
        Ok(model) => model,
        Err(error) => {
            found.push(Finding::of_error(check_of(&error), &error));
            return None;
        }
    };
    if engine.is_asked_elsewhere_alone(role) {
        let message = "this machine has no key: workers ask the model, each with its own".to_owned();
        let hint = "set the variable here too to have the model asked once";
        found.push(Finding::skipped(Check::Key, message, hint));
        return None;
    }
    match config {
        ModelConfig::Served { config, .. } => found.push(Finding::ok(Check::Key, key_text(config))),
        ModelConfig::Agent(agent) => found.push(program(agent)),
        ModelConfig::Local(local) => {
            let said = local_findings(local);
            found.extend(said.into_iter().map(|line| Finding::ok(Check::Model, line)));
        }
        ModelConfig::Scripted(_) | ModelConfig::Simulated(_) => {
            found.push(Finding::ok(Check::Model, format!("{}: no external requests", config.kind())));
        }
    }
    Some(model)
}

fn key_text(served: &ServedConfig) -> String {
    match &served.api_key_command {
        Some(command) => {
            format!("printed by `{}`", command.first().map(String::as_str).unwrap_or_default())
        }
        None => variable_text(served.key_variable()),
    }
}

fn variable_text(variable: Option<&str>) -> String {
    variable.map_or_else(
        || "none is configured".to_owned(),
        |variable| format!("in the environment variable {variable}"),
    )
}

/// Whether the program that plays a model is there.
fn program(agent: &AgentConfig) -> Finding {
    let default = || agent.agent.row().ok().flatten().map_or("", |row| row.program.as_str());
    let name = agent.command.as_ref().and_then(|command| command.first());
    let name = name.map_or_else(default, String::as_str);
    let is_there = if Path::new(name).components().count() > 1 {
        Path::new(name).is_file()
    } else {
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path).any(|dir| dir.join(name).is_file())
    };
    if is_there {
        Finding::ok(Check::Endpoint, format!("the program `{name}` is there"))
    } else {
        let hint = "install it, or name it with `command`, by its whole path";
        Finding::error(Check::Endpoint, format!("program `{name}` not found"), hint)
    }
}

/// The proxy of the environment that requests go through.
fn proxy(base_url: &str) -> Option<Finding> {
    let variable = skill_llm::proxy_variable(base_url)?;
    let message = format!("requests go through the proxy that {variable} names");
    Some(match base_url.starts_with("https://") {
        true => Finding::ok(Check::Endpoint, message),
        false => {
            let hint = "unset it, or add the host to `NO_PROXY`, unless the proxy may read them; or use an `https` address";
            Finding::warning(Check::Endpoint, format!("{message}: it can read prompts and keys"), hint)
        }
    })
}

/// A model as a server is asked for it.
struct AskedServer<'run> {
    base_url: &'run str,
    model: &'run str,
    /// Where the key is, in words.
    key: String,
}

/// Asks a server for its models, once for all models of a server; returns whether a call makes sense.
async fn reach(
    server: &AskedServer<'_>,
    list: impl FnOnce() -> Result<Option<ModelList>, Error>,
    asked: &Examination,
    servers: &mut BTreeMap<(String, String), Reached>,
    found: &mut Vec<Finding>,
) -> bool {
    if asked.network == Network::Offline {
        let message = format!("{} is not asked: --offline", server.base_url);
        found.push(Finding::skipped(Check::Endpoint, message, "leave out --offline"));
        return false;
    }
    // Two models of a server may have two keys.
    let key = (server.base_url.to_owned(), server.key.clone());
    if !servers.contains_key(&key) {
        let reached = match list() {
            Ok(Some(list)) => read_list(&list, asked, found).await,
            Ok(None) => Reached::Answers,
            Err(error) => {
                found.push(Finding::of_error(Check::Endpoint, &error));
                Reached::No
            }
        };
        servers.insert(key.clone(), reached);
    }
    match servers.get(&key) {
        Some(Reached::Listed(names)) => {
            found.extend(in_list(server.model, names));
            true
        }
        Some(Reached::Answers) => true,
        Some(Reached::No) | None => {
            if found.iter().all(|finding| finding.status != Status::Error) {
                let message = format!("{} was not reached", server.base_url);
                found.push(Finding::skipped(
                    Check::Endpoint,
                    message,
                    "fix the other model's endpoint first",
                ));
            }
            false
        }
    }
}

async fn read_list(list: &ModelList, asked: &Examination, found: &mut Vec<Finding>) -> Reached {
    let call = call(asked, "models");
    let provider = list.provider();
    match list.read(&call).await {
        Ok(Some(names)) => {
            let message = format!("{provider} answers, and lists {}", counted(names.len(), "model"));
            found.push(Finding::ok(Check::Endpoint, message));
            Reached::Listed(names)
        }
        Ok(None) => {
            found.push(Finding::ok(
                Check::Endpoint,
                format!("{provider} answers, and shows no list of models"),
            ));
            Reached::Answers
        }
        Err(error) => match error.class() {
            ErrorClass::Connection | ErrorClass::Configuration | ErrorClass::Timeout => {
                found.push(Finding::error(Check::Endpoint, with_causes(&error), hint::of_model(&error)));
                Reached::No
            }
            ErrorClass::Authentication => {
                found.push(Finding::error(Check::Key, with_causes(&error), hint::of_model(&error)));
                Reached::No
            }
            // It may answer calls all the same; the one call tells.
            _ => {
                let message = format!("{provider} gives no list of models: {}", with_causes(&error));
                let hint = "go by the model's answer below";
                found.push(Finding::skipped(Check::Endpoint, message, hint));
                Reached::Answers
            }
        },
    }
}

/// Whether the server has the model; nothing is said of an empty list.
fn in_list(model: &str, names: &[String]) -> Option<Finding> {
    if names.is_empty() {
        return None;
    }
    if names.iter().any(|name| is_listed_as(model, name)) {
        return Some(Finding::ok(Check::Model, format!("the server lists `{model}`")));
    }
    let nearest = crate::config::nearest_name(model, names.iter().map(String::as_str));
    let hint = match nearest {
        Some(name) => format!("did you mean `{name}`? Some servers take models that they do not list"),
        None => {
            let some: Vec<&str> = names.iter().take(MAX_NAMED_MODELS).map(String::as_str).collect();
            let more = if names.len() > some.len() { ", .." } else { "" };
            format!("take one that it lists: {}{more}", some.join(", "))
        }
    };
    Some(Finding::warning(Check::Model, format!("the server does not list `{model}`"), hint))
}

fn call(asked: &Examination, what: &str) -> CallCtx {
    CallCtx {
        timeout: Some(asked.timeout),
        deadline: Some(tokio::time::Instant::now() + asked.timeout),
        ..CallCtx::new(CallPlace::new("doctor").child(what))
    }
}

/// A model that is asked once.
struct Examined<'run> {
    role: ModelRole,
    config: &'run ModelConfig,
    asked: &'run Examination,
    /// As many as the optimizer may reply with in the run.
    max_reply_tokens: u32,
    /// Whether the schema has notes for the appendix.
    skill_aware: bool,
    protocol: Protocol,
}

impl Examined<'_> {
    /// Asks the model once, and says what came of it; nobody is asked without a model.
    async fn answers(
        &self,
        model: Option<&dyn ChatModel>,
        first_request: Option<&ChatRequest>,
        found: &mut Vec<Finding>,
    ) {
        let is_optimizer = self.role == ModelRole::Optimizer;
        let Some(model) = model else {
            found.push(not_asked());
            return;
        };
        let request = match (self.role, first_request) {
            (ModelRole::Optimizer, _) => {
                optimizer_request(self.max_reply_tokens, self.skill_aware, self.protocol)
            }
            (ModelRole::Target, Some(request)) => request.clone(),
            (ModelRole::Target, None) | (ModelRole::Judge | ModelRole::Teacher, _) => {
                ChatRequest::new(vec![Message::user(QUESTION)])
            }
        };
        let started = Instant::now();
        let outcome = self.ask(model, &request).await;
        match outcome {
            Ok(reply) => {
                found.push(self.answer(&reply, &request, started.elapsed().as_secs_f64()));
                found.extend(anomalies_found(&reply, &request));
                if is_optimizer {
                    found.push(self.schema(&reply));
                }
            }
            Err(error) => {
                let is_refused = matches!(error.class(), ErrorClass::BadRequest | ErrorClass::ServerError);
                if is_optimizer && is_refused && self.sends_schema() {
                    let plain = ChatRequest { response_schema: None, ..request };
                    if let Ok(reply) = self.ask(model, &plain).await {
                        found.push(self.answer(&reply, &plain, started.elapsed().as_secs_f64()));
                        found.extend(anomalies_found(&reply, &plain));
                        found.push(Finding::error(Check::Schema, with_causes(&error), self.schema_hint()));
                        return;
                    }
                }
                found.push(of_call(&error));
            }
        }
    }

    async fn ask(&self, model: &dyn ChatModel, request: &ChatRequest) -> Result<ChatReply, LlmError> {
        let call = call(self.asked, self.role.as_str());
        // Anomalies of the reply become findings, so they are not logged as well.
        model.chat(request, &call).with_subscriber(NoSubscriber::default()).await
    }

    fn answer(&self, reply: &ChatReply, request: &ChatRequest, seconds: f64) -> Finding {
        let usage = reply.usage;
        let money = if has_prices(self.config) {
            format!(", ${:.6}", prices(self.config).cost(usage))
        } else {
            String::new()
        };
        let said =
            format!("after {seconds:.1} s, with {} tokens in and {} out{money}", usage.input, usage.output);
        let is_empty = reply.text.trim().is_empty() && reply.tool_calls.is_empty();
        let key = format!("models.{}.max_tokens", self.role.as_str());
        if is_empty || reply.finish == FinishReason::Length {
            let what = if is_empty { "it said nothing" } else { "its reply was cut" };
            let hint = format!(
                "raise `{key}` and `env.max_tokens`, or have it think less: what it thinks counts as tokens out"
            );
            return Finding::warning(Check::Answer, format!("{what}, {said}"), hint);
        }
        if (usage.input == 0) != (usage.output == 0) {
            let what = if usage.input == 0 { "prompts" } else { "replies" };
            let hint = "go by `budget.calls`: caps on tokens and money see a part of this model's tokens";
            let message = format!("the server reports no tokens of {what}; it answered {said}");
            return Finding::warning(Check::Answer, message, hint);
        }
        if usage.input == 0 && usage.output == 0 {
            let hint = "go by `budget.calls`: caps on tokens and money do not see this model";
            return Finding::warning(Check::Answer, format!("it answered {said}"), hint);
        }
        if let Some(finding) = left_in(reply, request) {
            return finding;
        }
        Finding::ok(Check::Answer, format!("it answered {said}"))
    }

    fn sends_schema(&self) -> bool {
        self.config.served().is_some_and(|served| served.response_format != ResponseFormat::Off)
    }

    fn schema(&self, reply: &ChatReply) -> Finding {
        let read = read_patch(&reply.text);
        let is_json = serde_json::from_str::<serde_json::Value>(reply.text.trim()).is_ok();
        let asked_for = match self.config.served() {
            Some(served) if served.response_format != ResponseFormat::Off => {
                format!("`response_format = \"{}\"`", served.response_format.as_str())
            }
            Some(_) | None => "the prompt alone".to_owned(),
        };
        if read.patch.is_none() {
            let came = if is_json { "its JSON holds none" } else { "did not answer in JSON" };
            let message = format!("it was asked for edits with {asked_for}, and {came}");
            return Finding::warning(Check::Schema, message, self.schema_hint());
        }
        if is_json {
            return Finding::ok(
                Check::Schema,
                format!("its reply to {asked_for} is the JSON that was asked for"),
            );
        }
        let message = format!("its reply to {asked_for} can be read as edits, and has more around it");
        Finding::ok(Check::Schema, message)
    }

    fn schema_hint(&self) -> String {
        // Servers of one kind alone take the schema inside of a JSON object.
        let others = self.config.dialect().map_or(&[][..], Dialect::response_formats);
        let others = others.iter().filter(|name| **name != ResponseFormat::JsonObjectSchema.as_str());
        let present = self.config.served().map(|served| served.response_format.as_str());
        let others: Vec<String> =
            others.filter(|name| Some(**name) != present).map(|name| format!("\"{name}\"")).collect();
        if others.is_empty() {
            return "take another model for the optimizer".to_owned();
        }
        let others = others.join(" or ");
        format!("set `models.optimizer.response_format` to {others}, or take another model for the optimizer")
    }
}

fn optimizer_request(max_reply_tokens: u32, skill_aware: bool, protocol: Protocol) -> ChatRequest {
    ChatRequest {
        sampling: Sampling { max_tokens: Some(max_reply_tokens), ..Sampling::default() },
        // What is said to it asks for edits, whatever the run asks for.
        response_schema: Some(analyst_schema(UpdateMode::Patch, SourceType::Failure, skill_aware, protocol)),
        ..ChatRequest::new(vec![Message::system(OPTIMIZER_SYSTEM), Message::user(OPTIMIZER_USER)])
    }
}
