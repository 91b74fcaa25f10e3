//! A directory of runs, and a server for it.

use crate::client::{Answer, News, send, send_with};
use skill_serve::{ServeOptions, Server, Token};
use skillrl::llm::scripted::ScriptedModel;
use skillrl::pipeline::{PipelineError, Summary, TrainSettings, Trainer};
use skillrl::prelude::*;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

/// What models and data say in these tests: a page that renders it runs it.
pub(crate) const HOSTILE: &str = "</script><script>alert(1)</script><img src=x onerror=alert(2)>&lt;b&gt;";

/// A task whose rollouts wait until they may go on.
struct Shout {
    items: Vec<Item>,
    may_go_on: Arc<Semaphore>,
}

#[async_trait]
impl Env for Shout {
    fn name(&self) -> &str {
        "shout"
    }

    fn items(&self, split: Split) -> &[Item] {
        &self.items[split as usize * 4..][..4]
    }

    async fn rollout(
        &self,
        item: &Item,
        source: &dyn SkillSource,
        target: &dyn ChatModel,
        ctx: &RolloutCtx,
    ) -> Result<RolloutResult, EnvError> {
        self.may_go_on.acquire().await.unwrap().forget();
        let (skill, ctx) = ctx.show(source, item, "").await?;
        let prompt = vec![Message::system(skill.agent_view()), Message::user(item.data.to_string())];
        let answer = target.chat(&ChatRequest::new(prompt), &ctx.call).await?.text;
        let hard = if answer.starts_with("HELLO") { 1.0 } else { 0.0 };
        let mut result = RolloutResult::new(item.id.clone(), hard, hard);
        result.predicted_answer = answer;
        result.fail_reason = if hard < 1.0 { HOSTILE.to_owned() } else { String::new() };
        result.target_user_prompt = item.data.to_string();
        Ok(result)
    }
}

/// Trains in 2 steps: 4 rollouts for the baseline, then 2 for a batch and, where there is a candidate, 4 for it; at the
/// end 8 on the test split. The first candidate is accepted, the second is a no-op.
pub(crate) fn train(dir: &Path, may_go_on: Arc<Semaphore>) -> Result<Summary, PipelineError> {
    let items = (0..12).map(|n| Item::new(format!("item-{n}{HOSTILE}").as_str(), HOSTILE.into())).collect();
    let target = ScriptedModel::answering("target", |request| {
        let is_told = request.text_of(Role::System).contains("capitals");
        format!("{}{HOSTILE}", if is_told { "HELLO" } else { "hello" })
    });
    let edit = serde_json::json!({"edits": [{"op": "append", "content": format!("- Answer in capitals. {HOSTILE}")}]});
    let optimizer = ScriptedModel::answering("optimizer", move |_| edit.to_string());
    let trainer = Trainer::new(Arc::new(Shout { items, may_go_on }), Arc::new(target), Arc::new(optimizer))
        .with_settings(TrainSettings { epochs: 1, batch_size: 2, workers: 1, ..TrainSettings::default() });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(trainer.train(dir))
}

/// A run that goes on when it is told to.
pub(crate) struct Training {
    pub(crate) may_go_on: Arc<Semaphore>,
    thread: JoinHandle<Result<Summary, PipelineError>>,
}

impl Training {
    pub(crate) fn start(dir: PathBuf) -> Self {
        let may_go_on = Arc::new(Semaphore::new(0));
        let of_thread = Arc::clone(&may_go_on);
        Self { may_go_on, thread: std::thread::spawn(move || train(&dir, of_thread)) }
    }

    pub(crate) fn end(self) -> Result<Summary, PipelineError> {
        self.may_go_on.add_permits(100);
        self.thread.join().unwrap()
    }
}

/// A server for a directory of its own.
pub(crate) struct Site {
    dir: TempDir,
    pub(crate) address: SocketAddr,
    stop: CancellationToken,
    runtime: Option<Runtime>,
    serving: Option<tokio::task::JoinHandle<()>>,
}

impl Site {
    /// Serves the directory `runs` after it was filled.
    pub(crate) fn new(fill: impl FnOnce(&Path)) -> Self {
        Self::with_token(None, fill)
    }

    pub(crate) fn with_token(token: Option<&str>, fill: impl FnOnce(&Path)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let runs = dir.path().join("runs");
        std::fs::create_dir(&runs).unwrap();
        fill(&runs);
        let options = ServeOptions {
            listen: "127.0.0.1:0".parse().unwrap(),
            token: token.map(|token| Token::new(token).unwrap()),
            ..ServeOptions::on_loopback(&runs)
        };
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let server = runtime.block_on(Server::bind(options)).unwrap();
        let (address, stop) = (server.address(), CancellationToken::new());
        let serving = runtime.spawn(server.run(stop.clone()));
        let site = Self { dir, address, stop, runtime: Some(runtime), serving: Some(serving) };
        if token.is_none() {
            site.until("/", |list| !list.contains("are being read"));
        }
        site
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        send(self.address, &format!("GET {path}"), &[("Host", &self.address.to_string())])
    }

    /// The body of an answer that must be good.
    #[track_caller]
    pub(crate) fn body(&self, path: &str) -> String {
        let answer = self.get(path);
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        answer.body
    }

    /// Asks as a form of one of the pages does.
    pub(crate) fn post(&self, path: &str) -> Answer {
        let host = self.address.to_string();
        let origin = format!("http://{host}");
        send(self.address, &format!("POST {path}"), &[("Host", &host), ("Origin", &origin)])
    }

    /// Sends a form of one of the pages.
    pub(crate) fn post_form(&self, path: &str, form: &str) -> Answer {
        let host = self.address.to_string();
        let origin = format!("http://{host}");
        let headers = [
            ("Host", host.as_str()),
            ("Origin", origin.as_str()),
            ("Content-Type", "application/x-www-form-urlencoded"),
        ];
        send_with(self.address, &format!("POST {path}"), &headers, form)
    }

    pub(crate) fn news(&self, path: &str) -> News {
        News::open(self.address, path)
    }

    /// Asks until this holds: what takes long to read is shown when it is there.
    pub(crate) fn until(&self, path: &str, is_it: impl Fn(&str) -> bool) -> String {
        loop {
            let body = self.body(path);
            if is_it(&body) {
                return body;
            }
        }
    }

    /// Ends the server, which has to end by itself.
    pub(crate) fn end(mut self) {
        self.stop.cancel();
        let (runtime, serving) = (self.runtime.take().unwrap(), self.serving.take().unwrap());
        runtime.block_on(serving).unwrap();
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.stop.cancel();
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Trains a run to its end.
pub(crate) fn finished(dir: &Path) {
    train(dir, Arc::new(Semaphore::new(100))).unwrap();
}
