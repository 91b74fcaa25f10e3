//! Which path means what.
//!
//! # Invariants
//!
//! - Except on loopback nothing is answered without a token, and no page of another origin opens a session. Held by
//!   `tests/openenv/access.rs`.

use crate::app::App;
use crate::rejection::{Answer, Rejection, fields, refused};
use crate::session::Session;
use crate::skills::SkillsAsked;
use crate::socket::talk;
use crate::tasks::{given, split};
use crate::wire::{Fault, command, no_mcp};
use crate::{bank, schema};
use axum::body::Bytes;
use axum::extract::ws::WebSocketUpgrade;
use axum::extract::{DefaultBodyLimit, Path, Request, State};
use axum::http::header::{CACHE_CONTROL, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS};
use axum::http::{HeaderValue, StatusCode};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse as _, Json, Response};
use axum::routing::{get, post};
use axum::{Extension, Router};
use serde_json::{Map, Value, json};
use skill_envs::{Item, Split, TaskView};
use skill_http_server::HeldSeat;
use skill_http_server::access::Refusal;
use std::sync::Arc;

/// Bytes that a session reads at once; one that waits has so many.
const READ_BYTES: usize = 4 * 1024;

pub(crate) fn router(app: Arc<App>) -> Router {
    let mut router = Router::new()
        .route("/ws", get(session))
        .route("/health", get(async || Json(json!({"status": "healthy"}))))
        .route("/metadata", get(metadata))
        .route("/schema", get(async || Json(schema::schema())))
        .route("/state", get(async || Json(json!({"episode_id": null, "step_count": 0}))))
        .route("/openapi.json", get(openapi))
        .route("/reset", post(reset))
        .route("/step", post(step))
        .route("/mcp", post(mcp))
        .route("/list_environments", get(environments))
        .route("/{env_name}/splits", get(splits))
        .route("/{env_name}/tasks", post(tasks))
        .route("/{env_name}/num_tasks", post(num_tasks))
        .route("/{env_name}/task", post(task))
        .route("/{env_name}/task_range", post(task_range));
    if app.skills.bank().is_some() {
        router = router
            .route("/bank", get(bank::show))
            .route("/bank/results", post(bank::report))
            .route("/bank/evolve", post(bank::evolve));
    }
    router
        .fallback(async || refused(StatusCode::NOT_FOUND, json!("Not Found")))
        .layer(DefaultBodyLimit::max(app.limits.message_bytes))
        .layer(from_fn_with_state(Arc::clone(&app), admit))
        .with_state(app)
}

/// Keeps out who may not ask.
async fn admit(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let mut answer = match app.access.check(&request) {
        Ok(_) => next.run(request).await,
        Err(Refusal::Host) => refused(
            StatusCode::FORBIDDEN,
            json!("this server is for this machine: name it as 127.0.0.1 or localhost"),
        )
        .into_response(),
        Err(Refusal::Origin) => {
            refused(StatusCode::FORBIDDEN, json!("pages of other origins may not use this server"))
                .into_response()
        }
        Err(Refusal::Token) => {
            let detail = json!("the token is missing or wrong: send `Authorization: Bearer TOKEN`");
            let mut answer = refused(StatusCode::UNAUTHORIZED, detail).into_response();
            answer.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            answer
        }
    };
    let headers = answer.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    answer
}

/// Begins a session.
async fn session(
    State(app): State<Arc<App>>,
    Extension(seat): Extension<HeldSeat>,
    upgrade: WebSocketUpgrade,
) -> Response {
    let most = app.limits.message_bytes;
    upgrade
        .read_buffer_size(READ_BYTES)
        .write_buffer_size(0)
        .max_message_size(most)
        .max_frame_size(most)
        .on_upgrade(move |socket| {
            let talking = app.talking.clone();
            talking.track_future(talk(socket, app, seat))
        })
}

async fn metadata(State(app): State<Arc<App>>) -> Json<Value> {
    Json(schema::metadata(app.name(), &app.description, app.tasks.world().instructions()))
}

async fn openapi(State(app): State<Arc<App>>) -> Json<Value> {
    Json(schema::openapi(app.name(), app.skills.bank().is_some()))
}

async fn mcp(body: Bytes) -> Json<Value> {
    let id = fields(&body).ok().and_then(|mut fields| fields.remove("id"));
    Json(no_mcp(id.unwrap_or_default()))
}

/// Begins an episode that nobody can go on with, as OpenEnv's own server does.
async fn reset(State(app): State<Arc<App>>, body: Bytes) -> Answer {
    let data = fields(&body)?;
    let begun = Session::new(app).reset(&data).await?;
    let mut message: Map<String, Value> =
        serde_json::from_str(&begun).expect("it was written as a JSON object");
    Ok(Json(message.remove("data").expect("the beginning of an episode has data")))
}

/// A request has no episode, so that nothing can be done.
async fn step(body: Bytes) -> Answer {
    let mut data = fields(&body)?;
    let action = match data.remove("action") {
        Some(Value::Object(action)) => action,
        _ => Map::new(),
    };
    command(action)?;
    Err(refused(StatusCode::CONFLICT, json!("HTTP requests are stateless: play over the WebSocket at /ws")))
}

async fn environments(State(app): State<Arc<App>>) -> Json<Value> {
    Json(json!([app.name()]))
}

async fn splits(State(app): State<Arc<App>>, Path(name): Path<String>) -> Answer {
    named(&app, &name)?;
    let kind = |split: Split| match split {
        Split::Train => "train",
        Split::Val => "validation",
        Split::Test => "test",
    };
    let splits: Vec<Value> = Split::ALL
        .into_iter()
        .filter(|split| !app.tasks.of(*split).is_empty())
        .map(|split| json!({"name": split.as_str(), "type": kind(split)}))
        .collect();
    Ok(Json(json!(splits)))
}

fn named(app: &App, name: &str) -> Result<(), Rejection> {
    if name == app.name() {
        return Ok(());
    }
    Err(refused(StatusCode::NOT_FOUND, json!(format!("unknown environment '{name}'"))))
}

/// The split of a request of the task API, with the other fields.
fn of_split(app: &App, name: &str, body: &Bytes) -> Result<(Split, Map<String, Value>), Rejection> {
    named(app, name)?;
    let fields = fields(body)?;
    let found = match given(&fields, "split") {
        Some(Value::String(name)) => split(name),
        other => {
            let input = other.cloned().unwrap_or_default();
            Err(Fault::field("missing", "split", "Field required", input))
        }
    };
    Ok((found?, fields))
}

async fn tasks(State(app): State<Arc<App>>, Path(name): Path<String>, body: Bytes) -> Answer {
    let (split, _) = of_split(&app, &name, &body)?;
    let tasks: Vec<_> = app.tasks.of(split).iter().map(|item| app.tasks.shown(item)).collect();
    Ok(Json(json!({"tasks": tasks, "env_name": app.name()})))
}

async fn num_tasks(State(app): State<Arc<App>>, Path(name): Path<String>, body: Bytes) -> Answer {
    let (split, _) = of_split(&app, &name, &body)?;
    Ok(Json(json!({"num_tasks": app.tasks.of(split).len()})))
}

/// A place in a split.
fn place(fields: &Map<String, Value>, name: &str) -> Result<usize, Fault> {
    let value = given(fields, name).cloned().unwrap_or_default();
    value.as_u64().and_then(|place| usize::try_from(place).ok()).ok_or_else(|| {
        Fault::field("int_type", name, format!("`{name}` is not a whole number from 0 on"), value)
    })
}

async fn task(State(app): State<Arc<App>>, Path(name): Path<String>, body: Bytes) -> Answer {
    let (split, fields) = of_split(&app, &name, &body)?;
    let index = place(&fields, "index")?;
    let item = app.tasks.of(split).get(index).ok_or_else(|| {
        let detail = format!("the split '{split}' has {} tasks", app.tasks.of(split).len());
        refused(StatusCode::NOT_FOUND, json!(detail))
    })?;
    let task = with_prompt(&app, split, item, &fields).await?;
    Ok(Json(json!({ "task": task })))
}

/// A task; where skills are asked for, with the text that an agent is shown of them, for trainers that make prompts.
async fn with_prompt(
    app: &App,
    split: Split,
    item: &Item,
    fields: &Map<String, Value>,
) -> Result<Map<String, Value>, Fault> {
    let mut task = app.tasks.shown(item);
    if given(fields, "skills").is_none() && given(fields, "skill_version").is_none() {
        return Ok(task);
    }
    let asked = SkillsAsked::read(fields)?;
    let goal = app.tasks.world().goal(item).unwrap_or_default();
    let picked = app.skills.pick(&asked, &TaskView::new(item, &goal), split).await?;
    task.insert("system_prompt".to_owned(), json!(picked.text));
    task.insert("skills".to_owned(), picked.metadata());
    Ok(task)
}

async fn task_range(State(app): State<Arc<App>>, Path(name): Path<String>, body: Bytes) -> Answer {
    let (split, fields) = of_split(&app, &name, &body)?;
    let items = app.tasks.of(split);
    let end = match given(&fields, "stop") {
        Some(_) => place(&fields, "stop")?.min(items.len()),
        None => items.len(),
    };
    let start = match given(&fields, "start") {
        Some(_) => place(&fields, "start")?.min(end),
        None => 0,
    };
    let tasks: Vec<_> = items.iter().take(end).skip(start).map(|item| app.tasks.shown(item)).collect();
    Ok(Json(json!({ "tasks": tasks })))
}
