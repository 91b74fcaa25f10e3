//! One process of the program, and the requests that it is at work on.

use super::config::{ExecConfig, seconds};
use super::fault::{Fault, FaultKind};
use super::protocol::{self, HelloAnswer, Line, PROTOCOL_VERSION, Reported, Request, excerpt};
use super::stderr::Tail;
use super::{spawn, supervise};
use indexmap::IndexMap;
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use skill_llm::Secrets;
use skill_llm::process::{Passed, ProcessGroup};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

/// How this program is introduced to the environment.
const ENGINE: &str = concat!("skillrl ", env!("CARGO_PKG_VERSION"));
/// How long after an answer is waited for what explains it on the standard error.
const STDERR_DELAY: Duration = Duration::from_millis(50);
/// How long is waited for the end of a process that was killed: longer than anyone who looks after it takes for that.
const END_WAIT: Duration = Duration::from_secs(10);

/// A process that has said hello; it is ended when this is dropped.
pub(super) struct Process {
    shared: Arc<Shared>,
    requests: mpsc::UnboundedSender<Vec<u8>>,
    /// How many things it works on at once.
    pub(super) parallel: u32,
}

/// What a process, those who wait for it, and the task that looks after it know of each other.
pub(super) struct Shared {
    /// The program and the number of the process, for messages.
    pub(super) label: String,
    pub(super) group: ProcessGroup,
    /// What it was passed, which no message and no log about it shows.
    passed: Passed,
    /// What nobody sees of what it prints.
    secrets: Secrets,
    pub(super) tail: Tail,
    /// Asks the task that looks after the process to end it now.
    pub(super) stop: CancellationToken,
    /// The process is gone.
    pub(super) ended: CancellationToken,
    next_id: AtomicU64,
    state: Mutex<State>,
    /// Whether its death has been counted; several may have waited for it.
    is_counted: AtomicBool,
}

#[derive(Default)]
struct State {
    pending: IndexMap<u64, Pending>,
    failure: Option<Fault>,
}

/// Who waits for the answer to a request.
enum Pending {
    Somebody(oneshot::Sender<Line>),
    /// Nobody any more; the answer is dropped.
    Nobody,
}

impl Shared {
    pub(super) fn new(
        label: String,
        group: ProcessGroup,
        (passed, secrets): (Passed, Secrets),
        stderr_bytes: usize,
    ) -> Self {
        Self {
            label,
            group,
            passed,
            secrets,
            tail: Tail::new(stderr_bytes),
            stop: CancellationToken::new(),
            ended: CancellationToken::new(),
            next_id: AtomicU64::new(0),
            state: Mutex::default(),
            is_counted: AtomicBool::new(false),
        }
    }

    /// Hands a line to anyone who waits for it.
    pub(super) fn deliver(&self, line: Line) -> Result<(), String> {
        let line = Line { bytes: self.secrets.scrub_bytes(line.bytes), ..line };
        let shown =
            |what: &str| format!("line {} of its stdout {what}: {}", line.number, excerpt(&line.bytes));
        let id = match protocol::header(&line.bytes) {
            Ok(protocol::Header { id: Some(id), .. }) => id,
            Ok(protocol::Header { id: None, .. }) => return Err(shown("has no `id`")),
            Err(error) => return Err(shown(&format!("is not an answer ({})", json_fault(&error)))),
        };
        let mut state = self.state.lock();
        match state.pending.swap_remove(&id) {
            Some(Pending::Somebody(waiter)) => {
                // Anyone who waited may have gone in this moment, and then the answer is nobody's.
                drop(waiter.send(line));
                Ok(())
            }
            Some(Pending::Nobody) => Ok(()),
            None => {
                let asked: Vec<String> = state.pending.keys().map(u64::to_string).collect();
                let asked = match asked.as_slice() {
                    [] => "nothing is being asked".to_owned(),
                    [one] => format!("the request is {one}"),
                    several => format!("the requests are {}", several.join(", ")),
                };
                Err(shown(&format!("answers the request {id}, but {asked}")))
            }
        }
    }

    /// A message about the process without what it was passed, and without the secrets of the run.
    pub(super) fn scrub(&self, text: &str) -> String {
        self.secrets.scrub(&self.passed.scrub(text)).into_owned()
    }

    /// Whether a request is under way.
    pub(super) fn is_asked(&self) -> bool {
        !self.state.lock().pending.is_empty()
    }

    /// Writes down why the process is no longer usable; the first reason stays.
    pub(super) fn fail(&self, kind: FaultKind, message: String) {
        self.fail_with(Fault::new(kind, message));
    }

    /// As [`Self::fail`].
    pub(super) fn fail_with(&self, fault: Fault) {
        self.state.lock().failure.get_or_insert(fault);
    }

    /// Lets everybody go who still waits.
    fn release(&self) {
        self.state.lock().pending.clear();
    }

    /// Ends the process at once.
    fn end(&self, kind: FaultKind, message: String) {
        self.fail(kind, message);
        self.group.kill();
        self.stop.cancel();
    }

    /// Why the process is no longer usable, with what it said last.
    fn fault(&self) -> Fault {
        let failure = self.state.lock().failure.clone();
        let fault = failure.unwrap_or_else(|| Fault::broken("it ended"));
        self.describe(fault)
    }

    fn describe(&self, fault: Fault) -> Fault {
        let message = format!("{}: {}{}", self.label, fault.message, self.tail.shown());
        Fault { message: self.scrub(&message), ..fault }
    }
}

impl Process {
    /// Starts a process and greets it.
    pub(super) async fn start(
        config: &ExecConfig,
        number: u64,
        own_env: &[(&'static str, String)],
        with_items: bool,
    ) -> Result<(Self, HelloAnswer), Fault> {
        let (shared, requests) = spawn::spawn(config, number, own_env)?;
        let mut process = Self { shared, requests, parallel: 1 };
        let make = |id| Request::Hello {
            id,
            protocol: PROTOCOL_VERSION,
            engine: ENGINE,
            settings: &config.settings,
            items: with_items,
        };
        let line = process.answer(make, seconds(config.deadlines.start_seconds)).await?;
        // Another version may have another shape, so that it is looked for by itself.
        if let Some(theirs) = protocol::hello_protocol(&line.bytes)
            && theirs != u64::from(PROTOCOL_VERSION)
        {
            let message = format!(
                "line {} of its stdout says that it speaks version {theirs} of the protocol, and this is version \
                 {PROTOCOL_VERSION}",
                line.number
            );
            return Err(process.shared.describe(Fault::program(message)));
        }
        let hello: HelloAnswer = process.body("hello", &line).await?;
        process.parallel = hello.capabilities.parallel;
        Ok((process, hello))
    }

    /// Asks for something and reads the answer; whoever does not wait for it to the end spoils the process, unless it
    /// can tell several things apart.
    pub(super) async fn ask<'a, T: DeserializeOwned>(
        &self,
        make: impl FnOnce(u64) -> Request<'a>,
        deadline: Duration,
    ) -> Result<T, Fault> {
        let mut method = "";
        let make = |id| {
            let request = make(id);
            method = request.method();
            request
        };
        let line = self.answer(make, deadline).await?;
        self.body(method, &line).await
    }

    /// Tells something that is not answered; only a program that works on several things at once is told.
    pub(super) fn tell(&self, request: &Request<'_>) {
        if self.parallel > 1
            && let Ok(line) = request.to_line()
        {
            // Where the process is gone there is nobody to be told.
            drop(self.requests.send(line));
        }
    }

    async fn answer<'a>(
        &self,
        make: impl FnOnce(u64) -> Request<'a>,
        deadline: Duration,
    ) -> Result<Line, Fault> {
        let id = self.shared.next_id.fetch_add(1, Ordering::Relaxed);
        let request = make(id);
        let method = request.method();
        let line = request
            .to_line()
            .map_err(|error| Fault::program(format!("`{method}` cannot be written as JSON: {error}")))?;
        let (sender, receiver) = oneshot::channel();
        {
            let mut state = self.shared.state.lock();
            if state.failure.is_some() {
                drop(state);
                return Err(self.shared.fault());
            }
            state.pending.insert(id, Pending::Somebody(sender));
        }
        let waiting = Waiting { process: self, id, is_over: false };
        // Where the process is gone, so is the sender for which we wait.
        drop(self.requests.send(line));
        let outcome = tokio::time::timeout(deadline, receiver).await;
        waiting.finish();
        match outcome {
            Ok(Ok(line)) => self.reported(method, line).await,
            Ok(Err(_)) => {
                self.ended().await;
                Err(self.shared.fault())
            }
            Err(_) => {
                let message = format!(
                    "gave no answer to `{method}` within {} s and was killed",
                    deadline.as_secs_f64()
                );
                self.shared.end(FaultKind::Broken, message);
                self.ended().await;
                Err(self.shared.fault())
            }
        }
    }

    /// Whether the answer is an error.
    async fn reported(&self, method: &str, line: Line) -> Result<Line, Fault> {
        let error = match protocol::header(&line.bytes) {
            Ok(protocol::Header { error: Some(error), .. }) => error,
            Ok(protocol::Header { error: None, .. }) | Err(_) => return Ok(line),
        };
        match Reported::of(&error) {
            Ok(Reported { message, retry }) => {
                let message = format!("`{method}` failed: {message}");
                let fault = if retry { Fault::broken(message) } else { Fault::program(message) };
                Err(self.settled(Fault { may_be_the_agents: true, ..fault }).await)
            }
            Err(what) => Err(self.misshapen(method, &line, &what).await),
        }
    }

    async fn body<T: DeserializeOwned>(&self, method: &str, line: &Line) -> Result<T, Fault> {
        match protocol::body(&line.bytes) {
            Ok(body) => Ok(body),
            Err(error) => Err(self.misshapen(method, line, &json_fault(&error)).await),
        }
    }

    /// The fault of an answer that is not what it should be.
    async fn misshapen(&self, method: &str, line: &Line, what: &str) -> Fault {
        let message = format!(
            "line {} of its stdout is not an answer to `{method}` ({what}): {}",
            line.number,
            excerpt(&line.bytes)
        );
        self.settled(Fault::program(message)).await
    }

    /// A fault of a process that lives on, with what it has said about it: that may come a moment after the answer.
    async fn settled(&self, fault: Fault) -> Fault {
        tokio::time::sleep(STDERR_DELAY).await;
        self.shared.describe(fault)
    }

    /// The fault of an answer that has the right shape, and says what cannot be.
    pub(super) fn absurd(&self, method: &str, what: &str) -> Fault {
        self.shared.describe(Fault::program(format!("the answer to `{method}` says that {what}")))
    }

    /// Why the process is no longer usable; `None` if it is.
    pub(super) fn failure(&self) -> Option<FaultKind> {
        self.shared.state.lock().failure.as_ref().map(|fault| fault.kind)
    }

    /// What the process died of, the first time that somebody asks.
    pub(super) fn count_failure(&self) -> Option<String> {
        let is_first = !self.shared.is_counted.swap(true, Ordering::Relaxed);
        is_first.then(|| self.shared.fault().message)
    }

    /// Waits until the process is gone, if it is about to go.
    ///
    /// Where nobody looks after it any more, as in a runtime that stands still, it was killed and is not waited for.
    pub(super) async fn ended(&self) {
        drop(tokio::time::timeout(END_WAIT, self.shared.ended.cancelled()).await);
    }

    /// A token that says when the process is gone.
    pub(super) fn end_token(&self) -> CancellationToken {
        self.shared.ended.clone()
    }
}

/// Somebody who waits for an answer, and may go away.
struct Waiting<'a> {
    process: &'a Process,
    id: u64,
    is_over: bool,
}

impl Waiting<'_> {
    fn finish(mut self) {
        self.is_over = true;
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        if self.process.parallel > 1 {
            if let Some(pending) = self.process.shared.state.lock().pending.get_mut(&self.id) {
                *pending = Pending::Nobody;
            }
            self.process.tell(&Request::Cancel { id: self.id });
        } else {
            self.process
                .shared
                .end(FaultKind::Ended, "was killed, since its answer was no longer awaited".to_owned());
        }
    }
}

/// Says that a process is gone when it is no longer supervised.
///
/// The task that does may never get that far: it goes with the runtime that it was started in, even before it has
/// begun.
pub(super) struct Watch(Arc<Shared>);

impl Watch {
    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.0
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.0.group.kill();
        // Where the task has come to its end, it has written down a reason, which stays.
        self.0.fail(FaultKind::Ended, "was ended with the runtime that it was started in".to_owned());
        self.0.release();
        self.0.ended.cancel();
    }
}

/// Looks after a process until its end.
pub(super) fn look_after(
    shared: &Arc<Shared>,
    child: tokio::process::Child,
    pipes: supervise::Pipes,
    line_bytes: usize,
) -> mpsc::UnboundedSender<Vec<u8>> {
    let (sender, requests) = mpsc::unbounded_channel();
    let watch = Watch(Arc::clone(shared));
    tokio::spawn(supervise::supervise(watch, child, pipes, requests, line_bytes));
    sender
}

/// What the parser says; the line is known better by the caller.
fn json_fault(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let position = format!(" at line {} column {}", error.line(), error.column());
    match text.strip_suffix(&position) {
        Some(what) => format!("{what} at column {}", error.column()),
        None => text,
    }
}
