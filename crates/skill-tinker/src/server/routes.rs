//! Who may ask, and which path means what.

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, LOCATION};
use http::request::Parts;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use skill_http_server::Incoming;
use skill_http_server::access::{self, Access};
use skill_train::lora::{LINEAR_LAYERS, MAX_RANK};
use skill_train::seam::GenerationSettings;
use std::sync::Arc;
use tokio::sync::OwnedSemaphorePermit;

use super::checkpoints::{Address, Checkpoints, Kind, is_name};
use super::futures::{Content, Found};
use super::loss::{LOSSES, adam_of, loss_of, rows_of};
use super::work::{Job, SampleJob, Weights};
use super::{Shared, futures};
use crate::wire::{self, PREFIX};

/// The most bytes of a request.
const MAX_BODY_BYTES: usize = 256 << 20;
/// How long a body may take to arrive.
const BODY_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(120);
/// Sessions that are known; those that were not heard of for the longest time are forgotten first.
const MAX_SESSIONS: usize = 1_024;
/// The most samples of one request.
const MAX_SAMPLES: usize = 256;
/// The most tokens of a sample.
const MAX_TOKENS: usize = 1 << 20;
/// The matrices of attention, and those of MLPs, among the linear layers.
const N_ATTENTION_LAYERS: usize = 4;

type Answer = Response<Full<Bytes>>;

/// A refusal: its status, and what is written as `detail`.
struct Refusal(u16, Value);

impl Refusal {
    fn new(status: u16, detail: impl Into<String>) -> Self {
        Self(status, Value::String(detail.into()))
    }

    fn of_access(refused: access::Refusal) -> Self {
        match refused {
            access::Refusal::Host => Self::new(403, "name this server as 127.0.0.1 or localhost"),
            access::Refusal::Origin => Self::new(403, "pages of other origins may not use this server"),
            access::Refusal::Token => Self::new(401, "the key is missing or wrong: send it as `x-api-key`"),
        }
    }

    /// A field of the body that is wrong, in the form of the interface.
    fn field(place: &[&str], message: impl Into<String>) -> Self {
        let mut loc = vec!["body"];
        loc.extend(place);
        Self(422, json!([{"type": "value_error", "loc": loc, "msg": message.into()}]))
    }
}

type Answered = Result<Answer, Refusal>;

impl Shared {
    pub(super) async fn answer(&self, request: Request<Incoming>, access: &Access) -> Answer {
        let answered = match access.check(&request) {
            Ok(_) => {
                let (head, body) = request.into_parts();
                self.route(&head, body).await
            }
            Err(refused) => Err(Refusal::of_access(refused)),
        };
        answered.unwrap_or_else(|Refusal(status, detail)| json_answer(status, &json!({"detail": detail})))
    }

    async fn route(&self, head: &Parts, body: Incoming) -> Answered {
        let path = head.uri.path();
        let Some(call) = path.strip_prefix(PREFIX) else {
            return Err(Refusal::new(404, format!("no such path; calls are below {PREFIX}")));
        };
        if head.method == Method::GET {
            return self.read(call).await;
        }
        if head.method != Method::POST {
            return Err(Refusal::new(405, "GET and POST alone"));
        }
        let (body, seat) = self.collect(head, body).await?;
        match call {
            "/create_session" => self.create_session(&body),
            "/session_heartbeat" => self.heartbeat(&body),
            "/telemetry" => Ok(json_answer(200, &json!({"status": "accepted"}))),
            "/create_model" => self.create_model(&body),
            "/unload_model" => {
                let model_id = self.known_model(&body)?;
                self.pending(Job::Unload { model_id })
            }
            "/get_info" => self.info(&body),
            "/forward" => {
                let asked: wire::ForwardRequest = parse(&body)?;
                let rows = self.rows(&asked.model_id, &asked.forward_input, "forward_input")?.0;
                Ok(queued(self.open(Job::Forward { model_id: asked.model_id, rows }, Some(seat))?))
            }
            "/forward_backward" => {
                let asked: wire::ForwardBackwardRequest = parse(&body)?;
                let input = &asked.forward_backward_input;
                let (rows, loss) = self.rows(&asked.model_id, input, "forward_backward_input")?;
                let model_id = asked.model_id.clone();
                let job = Job::ForwardBackward { model_id, rows, loss };
                self.once(asked.model_id, asked.seq_id, job, Some(seat))
            }
            "/optim_step" => {
                let asked: wire::OptimStepRequest = parse(&body)?;
                self.check_model(&asked.model_id)?;
                let model_id = asked.model_id.clone();
                let settings = adam_of(&asked.adam_params)
                    .map_err(|(field, fault)| Refusal::field(&["adam_params", &field], fault))?;
                let job = Job::OptimStep { model_id, settings };
                self.once(asked.model_id, asked.seq_id, job, None)
            }
            "/save_weights" => {
                let asked: wire::WeightsRequest = parse(&body)?;
                self.save(asked.model_id, asked.path, Kind::Training)
            }
            "/save_weights_for_sampler" => self.save_for_sampler(&body),
            "/create_sampling_session" => self.create_sampling_session(&body),
            "/load_weights" => {
                let asked: wire::WeightsRequest = parse(&body)?;
                self.check_model(&asked.model_id)?;
                let address = self.saved(&asked.path, Kind::Training)?;
                let model_id = asked.model_id.clone();
                self.once(asked.model_id, asked.seq_id, Job::Load { model_id, address }, None)
            }
            "/asample" => self.sample(&body, seat),
            "/retrieve_future" => self.retrieve(&body).await,
            _ => Err(Refusal::new(404, "no such call")),
        }
    }

    async fn read(&self, call: &str) -> Answered {
        let parts: Vec<&str> = call.trim_matches('/').split('/').collect();
        match parts.as_slice() {
            ["healthz"] => Ok(json_answer(200, &json!({"status": "ok"}))),
            ["get_server_capabilities"] => {
                let models = self.bases.keys();
                let supported_models =
                    models.map(|name| wire::SupportedModel { model_name: Some(name.clone()) });
                Ok(json_answer(200, &wire::Capabilities { supported_models: supported_models.collect() }))
            }
            ["training_runs", model_id] => self.training_run(model_id),
            ["training_runs", model_id, "checkpoints", rest @ ..] => {
                let (name, is_download) = match rest {
                    [name, "archive"] | ["sampler_weights", name, "archive"] => (*name, false),
                    [name, "download"] => (*name, true),
                    _ => return Err(Refusal::new(404, "no such call")),
                };
                let address = self.saved(&format!("tinker://{model_id}/{name}"), Kind::Sampler)?;
                if is_download { self.download(address).await } else { Ok(redirect(&address)) }
            }
            _ => Err(Refusal::new(404, "no such call")),
        }
    }

    fn create_session(&self, body: &Bytes) -> Answered {
        let _: wire::CreateSession = parse(body)?;
        let session_id = format!("session_{}", random_id()?);
        let mut state = self.state.lock();
        state.sessions.push(session_id.clone());
        if state.sessions.len() > MAX_SESSIONS {
            state.sessions.remove(0);
        }
        let session = json!({
            "type": "create_session", "session_id": session_id,
            "info_message": null, "warning_message": null, "error_message": null,
        });
        Ok(json_answer(200, &session))
    }

    /// Checks that a session is known; it is then the one that was heard of last.
    fn check_session(&self, session_id: &str) -> Result<(), Refusal> {
        let sessions = &mut self.state.lock().sessions;
        let place = sessions.iter().position(|known| known == session_id);
        let place = place.ok_or_else(|| Refusal::new(404, "Session not found"))?;
        if let Some(rest) = sessions.get_mut(place..) {
            rest.rotate_left(1);
        }
        Ok(())
    }

    fn heartbeat(&self, body: &Bytes) -> Answered {
        self.check_session(&text_of(body, "session_id")?)?;
        Ok(json_answer(200, &json!({"type": "session_heartbeat"})))
    }

    fn create_model(&self, body: &Bytes) -> Answered {
        let asked: wire::CreateModel = parse(body)?;
        self.check_session(&asked.session_id)?;
        if !self.bases.contains_key(&asked.base_model) {
            let known: Vec<&str> = self.bases.keys().map(String::as_str).collect();
            let message =
                format!("base model {} not found; available are {}", asked.base_model, known.join(", "));
            return Err(Refusal::field(&["base_model"], message));
        }
        let lora = &asked.lora_config;
        if !(1..=MAX_RANK).contains(&lora.rank) {
            let message = format!("a rank is between 1 and {MAX_RANK}");
            return Err(Refusal::field(&["lora_config", "rank"], message));
        }
        // Clients that follow the defaults of the interface say true; the matrix is tied to the embeddings in most models.
        let (attention, mlp) = LINEAR_LAYERS.split_at(N_ATTENTION_LAYERS);
        let mut targets = Vec::new();
        for (layers, is_trained) in [(attention, lora.train_attn), (mlp, lora.train_mlp)] {
            if is_trained.unwrap_or(true) {
                targets.extend_from_slice(layers);
            }
        }
        if targets.is_empty() {
            return Err(Refusal::field(&["lora_config"], "neither train_attn nor train_mlp is true"));
        }
        let model_id = format!("model_{}", random_id()?);
        let (rank, seed) = (lora.rank, lora.seed.unwrap_or(0));
        let base_model = asked.base_model.clone();
        let number =
            self.open(Job::Create { model_id: model_id.clone(), base_model, rank, seed, targets }, None)?;
        let made = json!({
            "model_id": model_id, "base_model": asked.base_model,
            "lora_config": {"rank": rank, "seed": lora.seed},
            "status": "created", "request_id": number.to_string(),
        });
        Ok(json_answer(200, &made))
    }

    fn info(&self, body: &Bytes) -> Answered {
        let model_id = self.known_model(body)?;
        let trained = self.model(&model_id).ok_or_else(not_found)?;
        let info = json!({
            "type": "get_info", "model_id": model_id, "is_lora": true, "lora_rank": trained.rank,
            "model_name": trained.base_model,
            "model_data": {"model_name": trained.base_model, "lora_rank": trained.rank},
        });
        Ok(json_answer(200, &info))
    }

    fn check_model(&self, model_id: &str) -> Result<(), Refusal> {
        self.model(model_id).map(|_| ()).ok_or_else(not_found)
    }

    fn known_model(&self, body: &Bytes) -> Result<String, Refusal> {
        let model_id = text_of(body, "model_id")?;
        self.check_model(&model_id)?;
        Ok(model_id)
    }

    fn rows(
        &self,
        model_id: &str,
        input: &wire::ForwardBackwardInput,
        place: &str,
    ) -> Result<(Vec<skill_train::seam::Row>, skill_train::seam::Loss), Refusal> {
        if !LOSSES.contains(&input.loss_fn.as_str()) {
            let known = LOSSES.map(|loss| format!("'{loss}'")).join(", ");
            let fault = json!([{
                "type": "literal_error", "loc": ["body", place, "loss_fn"], "input": input.loss_fn,
                "msg": format!("Input should be one of {known}"), "ctx": {"expected": known},
            }]);
            return Err(Refusal(422, fault));
        }
        self.check_model(model_id)?;
        let loss = loss_of(input).map_err(|fault| Refusal::field(&[place, "loss_fn_config"], fault))?;
        let rows = rows_of(&input.data, &loss).map_err(|fault| Refusal::field(&[place, "data"], fault))?;
        loss.check(&rows).map_err(|error| Refusal::field(&[place, "data"], format!("cannot {error}")))?;
        Ok((rows, loss))
    }

    /// The model of saved weights, or one that is trained now.
    fn training_run(&self, model_id: &str) -> Answered {
        let trained = self.model(model_id).map(|trained| (trained.base_model, trained.rank));
        let (base_model, rank) = match trained {
            Some(trained) => trained,
            None => {
                let saved = self.checkpoints.any_of(model_id).map_err(|error| {
                    Refusal::new(500, format!("failed to {}", skill_llm::error::with_causes(&error)))
                })?;
                saved.map(|saved| (saved.base_model, saved.rank)).ok_or_else(not_found)?
            }
        };
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let seconds = i64::try_from(now.as_secs()).unwrap_or_default();
        let now = jiff::Timestamp::from_second(seconds).unwrap_or_default();
        let run = json!({
            "training_run_id": model_id, "base_model": base_model, "model_owner": "skillrl",
            "is_lora": true, "lora_rank": rank, "corrupted": false, "last_request_time": now.to_string(),
        });
        Ok(json_answer(200, &run))
    }

    fn create_sampling_session(&self, body: &Bytes) -> Answered {
        let asked: wire::CreateSamplingSession = parse(body)?;
        self.check_session(&asked.session_id)?;
        let weights = self.weights(asked.base_model.as_ref(), asked.model_path.as_deref())?;
        if let Weights::Saved(address) = &weights
            && !self.checkpoints.exists(address, Kind::Sampler)
        {
            return Err(Refusal::new(404, "Checkpoint not found"));
        }
        let id = self.open_sampler(|_| weights)?;
        Ok(json_answer(200, &json!({"type": "create_sampling_session", "sampling_session_id": id})))
    }

    /// Remembers what a new sampling session samples from.
    fn open_sampler(&self, weights: impl FnOnce(&str) -> Weights) -> Result<String, Refusal> {
        let id = format!("sampling_{}", random_id()?);
        let mut state = self.state.lock();
        let weights = weights(&id);
        state.samplers.push((id.clone(), weights));
        if state.samplers.len() > MAX_SESSIONS {
            state.samplers.remove(0);
        }
        Ok(id)
    }

    fn save_for_sampler(&self, body: &Bytes) -> Answered {
        let asked: wire::SaveForSamplerRequest = parse(body)?;
        if let Some(path) = asked.path {
            return self.save(asked.model_id, path, Kind::Sampler);
        }
        self.check_model(&asked.model_id)?;
        let sampling_session = self.open_sampler(|id| Weights::Snapshot(id.to_owned()))?;
        let model_id = asked.model_id.clone();
        self.once(asked.model_id, asked.seq_id, Job::Snapshot { model_id, sampling_session }, None)
    }

    fn save(&self, model_id: String, name: String, kind: Kind) -> Answered {
        self.check_model(&model_id)?;
        if !is_name(&name) {
            return Err(Refusal::field(&["path"], "a name has letters, digits, '-', '_' and '.' alone"));
        }
        let address = Address { model_id, name };
        if self.checkpoints.exists(&address, kind) {
            return Err(Refusal::new(409, format!("Checkpoint '{}' already exists", address.name)));
        }
        self.pending(Job::Save { address, kind })
    }

    /// The address in a path, if weights have been saved there.
    fn saved(&self, path: &str, kind: Kind) -> Result<Address, Refusal> {
        let address = Checkpoints::parse(path, kind)
            .ok_or_else(|| Refusal::new(400, "the path is not one that saving has returned"))?;
        match self.checkpoints.exists(&address, kind) {
            true => Ok(address),
            false => Err(Refusal::new(404, format!("Checkpoint not found: {path}"))),
        }
    }

    fn sample(&self, body: &Bytes, seat: OwnedSemaphorePermit) -> Answered {
        let asked: wire::SampleRequest = parse(body)?;
        let weights = match &asked.sampling_session_id {
            Some(id) => {
                let state = self.state.lock();
                let found = state.samplers.iter().find(|(known, _)| known == id);
                found.map(|(_, weights)| weights.clone())
            }
            .ok_or_else(|| Refusal::new(404, "Sampling session not found"))?,
            None => self.weights(asked.base_model.as_ref(), asked.model_path.as_deref())?,
        };
        if !(1..=MAX_SAMPLES).contains(&asked.num_samples) {
            return Err(Refusal::field(&["num_samples"], format!("not between 1 and {MAX_SAMPLES}")));
        }
        let settings = generation(&asked.sampling_params)?;
        let job = SampleJob {
            weights,
            prompt: asked.prompt.tokens(),
            n_samples: asked.num_samples,
            settings,
            has_prompt_logprobs: asked.prompt_logprobs == Some(true),
        };
        Ok(queued(self.open(Job::Sample(job), Some(seat))?))
    }

    /// What a client names to sample from.
    fn weights(&self, base_model: Option<&String>, model_path: Option<&str>) -> Result<Weights, Refusal> {
        match (base_model, model_path) {
            (Some(name), None) if self.bases.contains_key(name) => Ok(Weights::Base(name.clone())),
            (Some(_), None) => Err(Refusal::field(&["base_model"], "base model not found")),
            // Weights whose saving waits in the queue are there when the job's turn comes.
            (None, Some(path)) => Checkpoints::parse(path, Kind::Sampler)
                .map(Weights::Saved)
                .ok_or_else(|| Refusal::new(400, "model_path is not one that saving has returned")),
            _ => Err(Refusal::field(&[], "exactly one of base_model and model_path is expected")),
        }
    }

    async fn retrieve(&self, body: &Bytes) -> Answered {
        let asked: wire::Retrieve = parse(body)?;
        let unknown = || Refusal::new(404, "Future not found");
        let number = asked.request_id.parse().map_err(|_| unknown())?;
        match self.futures.result(number).await {
            Found::Unknown => Err(unknown()),
            Found::Pending => {
                let pending =
                    json!({"type": "try_again", "request_id": asked.request_id, "queue_state": "active"});
                Ok(json_answer(200, &pending))
            }
            Found::Finished(outcome) => content(outcome),
        }
    }

    async fn download(&self, address: Address) -> Answered {
        let number = self.open(Job::Archive { address }, None)?;
        loop {
            match self.futures.result(number).await {
                Found::Unknown => return Err(Refusal::new(500, "the archive was not made")),
                Found::Pending => {}
                Found::Finished(outcome) => return content(outcome),
            }
        }
    }

    /// Queues a job; the bytes of its body count until it has a result.
    fn open(&self, job: Job, seat: Option<OwnedSemaphorePermit>) -> Result<u64, Refusal> {
        let permit = self.jobs.try_reserve().map_err(|_| Refusal::new(429, "too many calls are waiting"))?;
        let number = self.futures.open(seat);
        permit.send((number, job));
        Ok(number)
    }

    fn pending(&self, job: Job) -> Answered {
        Ok(queued(self.open(job, None)?))
    }

    /// Queues a job that changes a model, unless a call of this number was queued already.
    fn once(
        &self,
        model_id: String,
        sequence: Option<u64>,
        job: Job,
        seat: Option<OwnedSemaphorePermit>,
    ) -> Answered {
        let queue = || self.open(job, seat);
        let number = match sequence {
            Some(sequence) => self.state.lock().once((model_id, sequence), queue)?,
            None => queue()?,
        };
        Ok(queued(number))
    }

    /// The body of a request, and what it takes of the bytes that may wait.
    async fn collect(&self, head: &Parts, body: Incoming) -> Result<(Bytes, OwnedSemaphorePermit), Refusal> {
        let length = head.headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
        let kib = length.unwrap_or(MAX_BODY_BYTES).min(MAX_BODY_BYTES) / 1_024 + 1;
        let kib = u32::try_from(kib).unwrap_or(u32::MAX);
        let seat = Arc::clone(&self.body_kib).try_acquire_many_owned(kib);
        let seat = seat.map_err(|_| Refusal::new(429, "too many bytes are waiting"))?;
        Ok((collect(body).await?, seat))
    }
}

fn not_found() -> Refusal {
    Refusal::new(404, "Model not found")
}

fn queued(number: u64) -> Answer {
    let number = number.to_string();
    json_answer(200, &json!({"future_id": number, "status": "pending", "request_id": number}))
}

fn content(outcome: futures::Outcome) -> Answered {
    match outcome {
        Ok(Content::Json(bytes)) => Ok(answer(200, "application/json", bytes)),
        Ok(Content::Archive(bytes)) => Ok(answer(200, "application/gzip", bytes)),
        Err((status, detail)) => Err(Refusal::new(status, detail)),
    }
}

/// Clients of the interface are sent to the archive by a redirect.
fn redirect(address: &Address) -> Answer {
    let to = format!("{PREFIX}/training_runs/{}/checkpoints/{}/download", address.model_id, address.name);
    let mut moved = json_answer(302, &json!({"url": to}));
    if let Ok(to) = to.parse() {
        moved.headers_mut().insert(LOCATION, to);
    }
    moved
}

fn json_answer(status: u16, body: &impl Serialize) -> Answer {
    answer(status, "application/json", serde_json::to_vec(body).expect("an answer serializes").into())
}

fn answer(status: u16, content_type: &'static str, body: Bytes) -> Answer {
    let mut answer = Response::new(Full::new(body));
    *answer.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    answer.headers_mut().insert(CONTENT_TYPE, http::HeaderValue::from_static(content_type));
    answer
}

async fn collect(body: Incoming) -> Result<Bytes, Refusal> {
    let collected = tokio::time::timeout(BODY_TIMEOUT, Limited::new(body, MAX_BODY_BYTES).collect()).await;
    match collected {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            Err(Refusal::new(413, format!("a body has at most {MAX_BODY_BYTES} bytes")))
        }
        Ok(Err(_)) => Err(Refusal::new(400, "the body broke off")),
        Err(_) => Err(Refusal::new(408, "the body did not arrive in time")),
    }
}

fn parse<T: DeserializeOwned>(body: &Bytes) -> Result<T, Refusal> {
    serde_json::from_slice(body).map_err(|error| Refusal::field(&[], error.to_string()))
}

fn text_of(body: &Bytes, key: &str) -> Result<String, Refusal> {
    let fields: Map<String, Value> = parse(body)?;
    let text = fields.get(key).and_then(Value::as_str).map(str::to_owned);
    text.ok_or_else(|| Refusal::field(&[key], "a text is expected"))
}

fn generation(asked: &wire::SamplingParams) -> Result<GenerationSettings, Refusal> {
    let place = |key: &'static str| ["sampling_params", key];
    let max_tokens = asked.max_tokens.filter(|n| (1..=MAX_TOKENS).contains(n));
    let max_tokens = max_tokens
        .ok_or_else(|| Refusal::field(&place("max_tokens"), format!("not between 1 and {MAX_TOKENS}")))?;
    let stop_tokens = match &asked.stop {
        None | Some(Value::Null) => Some(Vec::new()),
        Some(stop) => serde_json::from_value(stop.clone()).ok(),
    };
    let stop_tokens =
        stop_tokens.ok_or_else(|| Refusal::field(&place("stop"), "a list of token ids is expected"))?;
    Ok(GenerationSettings {
        temperature: asked.temperature,
        top_k: usize::try_from(asked.top_k).ok().filter(|top_k| *top_k > 0),
        top_p: asked.top_p,
        max_tokens,
        stop_tokens,
        seed: asked.seed.unwrap_or(0),
        ..GenerationSettings::default()
    })
}

/// Sixteen random hexadecimal digits.
fn random_id() -> Result<String, Refusal> {
    use ring::rand::{SecureRandom as _, SystemRandom};

    let mut bytes = [0; 8];
    SystemRandom::new()
        .fill(&mut bytes)
        .map_err(|_| Refusal::new(500, "the system has no random numbers"))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
