//! Which path means what.

use crate::App;
use crate::metrics;
use crate::note_form;
use crate::report::Made;
use axum::Router;
use axum::body::Body;
use axum::extract::{DefaultBodyLimit, Path, Request, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, LOCATION, REFERRER_POLICY, SET_COOKIE,
    WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::{HeaderName, HeaderValue, StatusCode, Uri};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{Html, IntoResponse as _, Response};
use axum::routing::{get, post};
use bytes::Bytes;
use futures_util::stream::{self, Stream, StreamExt as _};
use skill_http_server::access::{Entry, Refusal};
use skill_pipeline::RunReader;
use skill_pipeline::run_dir::notes::add_note;
use skill_pipeline::run_dir::{request_stop, withdraw_stop};
use skill_report::RunPhase;
use skill_report::watch::{Found, News, Row, Told};
use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The most streams of news that are open at once: one for each page that somebody looks at.
const MAX_STREAMS: usize = 128;
/// The most bytes of a note that is sent: each of its characters may take several, and each of these three more.
const MAX_NOTE_BYTES: usize = 64 * 1024;
/// How often the list of runs is looked at while somebody looks at it.
const LIST_PERIOD: Duration = Duration::from_secs(1);
/// What the pages may load and do: nothing but what this server sends, and no script or style inside a page.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

/// The most runs of a comparison.
const MAX_COMPARED: usize = 200;

/// The files of the pages, with their types.
const ASSETS: [(&str, &str, &str); 6] = [
    ("report.css", "text/css", skill_report::STYLE),
    ("report.js", "text/javascript", skill_report::SCRIPT),
    ("serve.css", "text/css", include_str!("../assets/serve.css")),
    ("list.js", "text/javascript", include_str!("../assets/list.js")),
    ("run.js", "text/javascript", include_str!("../assets/run.js")),
    ("icon.svg", "image/svg+xml", include_str!("../assets/icon.svg")),
];

/// All routes, behind the door.
pub(crate) fn router(app: Arc<App>) -> Router {
    Router::new()
        .route("/", get(list))
        .route("/news", get(list_news))
        .route("/run/{*name}", get(run))
        .route("/report/{*name}", get(report))
        .route("/compare", get(compare))
        .route("/news/{*name}", get(run_news))
        .route("/stop/{*name}", post(stop))
        .route("/continue/{*name}", post(go_on))
        .route("/note/{*name}", post(note).layer(DefaultBodyLimit::max(MAX_NOTE_BYTES)))
        .route("/metrics", get(metrics))
        .route("/assets/{name}", get(asset))
        .fallback(unknown)
        .layer(from_fn_with_state(Arc::clone(&app), door))
        // Without authentication: health checks have no token, and the answer says nothing about runs.
        .route("/healthz", get(healthz))
        .with_state(app)
}

/// Lets in who may ask, and marks every answer.
async fn door(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let mut response = match app.access.check(&request) {
        Ok(Entry::Open) => next.run(request).await,
        Ok(Entry::SetCookie { cookie, to }) => see_other(&to, Some(&cookie)),
        Err(refusal) => refuse(&app, refusal),
    };
    let headers = response.headers_mut();
    let fixed: [(HeaderName, &'static str); 6] = [
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, "DENY"),
        // With `no-referrer` a form of our own would come with the origin `null`.
        (REFERRER_POLICY, "same-origin"),
        (CACHE_CONTROL, "no-store"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ];
    for (name, value) in fixed {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

fn refuse(app: &App, refusal: Refusal) -> Response {
    let (status, title, text) = match refusal {
        Refusal::Host => (
            StatusCode::FORBIDDEN,
            "Not this host",
            "This server answers requests for localhost and addresses of loopback alone.",
        ),
        Refusal::Token => (
            StatusCode::UNAUTHORIZED,
            "The token is missing or wrong",
            "Open the address that `skillrl serve` printed when it was started; programs send \
             `Authorization: Bearer TOKEN`.",
        ),
        Refusal::Origin => (
            StatusCode::FORBIDDEN,
            "Not from here",
            "What changes something must be asked from a page of this server, with an `Origin` that is its host.",
        ),
    };
    let mut response = say(app, status, title, text);
    if refusal == Refusal::Token {
        response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    response
}

fn say(app: &App, status: StatusCode, title: &str, text: &str) -> Response {
    (status, Html(app.pages.message(title, text))).into_response()
}

fn see_other(to: &str, cookie: Option<&str>) -> Response {
    let mut response = StatusCode::SEE_OTHER.into_response();
    let values = [(LOCATION, Some(to)), (SET_COOKIE, cookie)];
    for (name, value) in values {
        if let Some(Ok(value)) = value.map(HeaderValue::from_str) {
            response.headers_mut().insert(name, value);
        }
    }
    response
}

async fn unknown(State(app): State<Arc<App>>) -> Response {
    say(&app, StatusCode::NOT_FOUND, "Nothing is here", "The list of runs is at /.")
}

fn no_run(app: &App) -> Response {
    say(app, StatusCode::NOT_FOUND, "Run not found", "Only the runs of the list can be opened.")
}

async fn asset(State(app): State<Arc<App>>, Path(name): Path<String>) -> Response {
    match ASSETS.into_iter().find(|(known, _, _)| *known == name) {
        Some((_, kind, text)) => ([(CONTENT_TYPE, format!("{kind}; charset=utf-8"))], text).into_response(),
        None => unknown(State(app)).await,
    }
}

async fn list(State(app): State<Arc<App>>) -> Response {
    let listing = app.runs.listing().await;
    Html(app.pages.list(&app.runs.root().display().to_string(), &listing)).into_response()
}

/// The health check.
async fn healthz() -> &'static str {
    "ok\n"
}

async fn metrics(State(app): State<Arc<App>>) -> Response {
    let known = app.runs.listing().await;
    // Anyone who counts takes a run that is not there for one that has ended.
    let listing = if known.is_read { known } else { app.runs.fresh().await };
    let written = tokio::task::spawn_blocking(move || metrics::write(&listing)).await;
    match written {
        Ok(text) => ([(CONTENT_TYPE, metrics::CONTENT_TYPE)], text).into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

/// The run of a name, by comparing the name with those of the list.
async fn find(app: &App, name: &str) -> Option<(Found, Row)> {
    let known = app.runs.listing().await;
    let listing = if known.find(name).is_some() { known } else { app.runs.fresh().await };
    listing.find(name).map(|(found, row)| (found.clone(), row.clone()))
}

/// The page of a run: what is known at once is sent at once, the report when it is made.
async fn run(State(app): State<Arc<App>>, Path(name): Path<String>) -> Response {
    let Some((mut found, mut row)) = find(&app, &name).await else { return no_run(&app) };
    let has_ended = |row: &Row, found: &Found| {
        row.state == RunPhase::Training && RunPhase::of(&found.path, false) != RunPhase::Training
    };
    if has_ended(&row, &found) {
        // The listing is that of before the run ended, with the state and the scores of then.
        let fresh = app.runs.fresh().await;
        let Some((now, of_now)) = fresh.find(&name) else { return no_run(&app) };
        (found, row) = (now.clone(), of_now.clone());
    }
    let (before, after) = app.pages.run(&row);
    let report = async move {
        let made = app.reports.of(app.runs.root(), &found).await;
        let content = content(&app, &made);
        format!("{content}<template id=\"version\" data-version=\"{}\"></template>{after}", made.version)
    };
    let parts = stream::iter([before]).chain(stream::once(report));
    let body = Body::from_stream(parts.map(|part| Ok::<_, Infallible>(Bytes::from(part))));
    Html(body).into_response()
}

/// The report of a run, to be put into its page.
async fn report(State(app): State<Arc<App>>, Path(name): Path<String>) -> Response {
    let Some((found, _)) = find(&app, &name).await else { return no_run(&app) };
    let made = app.reports.of(app.runs.root(), &found).await;
    Html(content(&app, &made)).into_response()
}

/// Two runs side by side, or a table of more: `?run=A&run=B`, as the form of the list asks.
async fn compare(State(app): State<Arc<App>>, uri: Uri) -> Response {
    let names: Vec<String> = url::form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes())
        .filter(|(key, _)| key == "run")
        .map(|(_, name)| name.into_owned())
        .collect();
    if names.len() < 2 || names.len() > MAX_COMPARED {
        let text =
            "Choose two or more runs in the list; the address of a comparison is /compare?run=A&run=B.";
        return say(&app, StatusCode::BAD_REQUEST, "Runs are compared with each other", text);
    }
    let mut runs = Vec::new();
    for name in &names {
        match find(&app, name).await {
            Some((found, _)) => runs.push(found),
            None => return no_run(&app),
        }
    }
    match app.reports.comparison(app.runs.root(), runs).await {
        Ok(content) => Html(app.pages.comparison(&names, content)).into_response(),
        Err(problem) => say(&app, StatusCode::CONFLICT, "These runs cannot be compared", &problem),
    }
}

fn content(app: &App, made: &Made) -> String {
    match &made.content {
        Ok(content) => content.to_string(),
        Err(problem) => app.pages.problem(problem),
    }
}

/// Asks the process that trains to end after the step under way.
async fn stop(State(app): State<Arc<App>>, Path(name): Path<String>) -> Response {
    change(app, name, |found, row| match row.state {
        RunPhase::Training => request_stop(&found.path).map_err(|error| error.to_string()),
        RunPhase::Stopped | RunPhase::Interrupted | RunPhase::Finished | RunPhase::Damaged => {
            Err("No process works on this run, so there is nothing to stop.".to_owned())
        }
    })
    .await
}

/// Takes back what [`stop`] asked.
async fn go_on(State(app): State<Arc<App>>, Path(name): Path<String>) -> Response {
    change(app, name, |found, _| withdraw_stop(&found.path).map_err(|error| error.to_string())).await
}

/// Adds a note of a person to a run, or pins or forbids an edit: the next step that begins reads it.
async fn note(State(app): State<Arc<App>>, Path(name): Path<String>, body: Bytes) -> Response {
    let asked = match note_form::read(&body) {
        Ok(asked) => asked,
        Err(problem) => return say(&app, StatusCode::BAD_REQUEST, "That is not a note", problem),
    };
    let listing = app.runs.fresh().await;
    let found = listing.find(&name).map(|(found, _)| found).filter(|found| found.leaving.is_none());
    let Some(path) = found.map(|found| found.path.clone()) else { return no_run(&app) };
    let added = tokio::task::spawn_blocking(move || add_note(&RunReader::open(&path)?, &asked)).await;
    match added {
        Ok(Ok(_)) => see_other(&format!("/run/{}#notes", crate::page::percent_encode(&name)), None),
        Ok(Err(error)) => {
            let text = format!("{error}. To fix it: {}.", skillrl::hint::of_pipeline(&error));
            say(&app, StatusCode::CONFLICT, "The note was not taken", &text)
        }
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

async fn change(app: Arc<App>, name: String, how: fn(&Found, &Row) -> Result<(), String>) -> Response {
    let listing = app.runs.fresh().await;
    let Some((found, row)) = listing.find(&name) else { return no_run(&app) };
    if found.leaving.is_some() {
        return no_run(&app);
    }
    match how(found, row) {
        Ok(()) => see_other(&format!("/run/{}", crate::page::percent_encode(&name)), None),
        Err(problem) => say(&app, StatusCode::CONFLICT, "That cannot be done", &problem),
    }
}

/// A stream of news that is counted while it is open.
struct Slot(Arc<App>);

impl Slot {
    fn take(app: &Arc<App>) -> Option<Self> {
        let is_free = app
            .n_streams
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| (n < MAX_STREAMS).then_some(n + 1))
            .is_ok();
        is_free.then(|| Self(Arc::clone(app)))
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.n_streams.fetch_sub(1, Ordering::Relaxed);
    }
}

fn too_many(app: &App) -> Response {
    let text = "Close some of the pages that show runs live.";
    say(app, StatusCode::SERVICE_UNAVAILABLE, "Too many pages are open", text)
}

fn news(app: &App, events: impl Stream<Item = Event> + Send + 'static) -> Response {
    let ending = app.stop.clone().cancelled_owned();
    let events = events.map(Ok::<_, Infallible>).take_until(ending);
    Sse::new(events).keep_alive(KeepAlive::default()).into_response()
}

fn json(name: &str, value: &impl serde::Serialize) -> Option<Event> {
    let text = serde_json::to_string(value);
    let text = text.inspect_err(|error| tracing::error!(%error, name, "news could not be written")).ok()?;
    Some(Event::default().event(name).data(text))
}

/// The rows of the list whenever they have changed.
async fn list_news(State(app): State<Arc<App>>) -> Response {
    let Some(slot) = Slot::take(&app) else { return too_many(&app) };
    let events = stream::unfold((slot, None::<Arc<str>>), |(slot, told)| async move {
        let mut is_first = told.is_none();
        loop {
            if !is_first {
                tokio::time::sleep(LIST_PERIOD).await;
            }
            is_first = false;
            let listing = slot.0.runs.listing().await;
            let rows = slot.0.pages.rows(&listing);
            if told.as_ref() != Some(&rows) {
                let event = Event::default().event("rows").data(&rows);
                return Some((event, (slot, Some(rows))));
            }
        }
    });
    news(&app, events)
}

/// What happens in a run, as it happens.
async fn run_news(State(app): State<Arc<App>>, Path(name): Path<String>) -> Response {
    let Some((found, _)) = find(&app, &name).await else { return no_run(&app) };
    let Some(slot) = Slot::take(&app) else { return too_many(&app) };
    let (watch, receiver) = app.watches.watch(&app.runs, &name, &found.path, &app.stop);
    let first = (slot, watch, receiver, Told::default(), VecDeque::new());
    let events = stream::unfold(first, |(slot, watch, mut receiver, mut told, mut waiting)| async move {
        loop {
            if let Some(event) = waiting.pop_front() {
                return Some((event, (slot, watch, receiver, told, waiting)));
            }
            // Marked as seen before it is looked at: what comes meanwhile is looked at the next time.
            receiver.mark_unchanged();
            let News { now, lines, rollouts, has_lost_lines: _ } = watch.news(&mut told);
            waiting.extend(now.and_then(|now| json("now", &now.tell())));
            waiting.extend((!lines.is_empty()).then(|| json("log", &lines)).flatten());
            waiting.extend((!rollouts.is_empty()).then(|| json("rollouts", &rollouts)).flatten());
            if waiting.is_empty() && receiver.changed().await.is_err() {
                return None;
            }
        }
    });
    news(&app, events)
}
