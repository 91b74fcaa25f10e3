//! Servers, drivers and workers as processes, and the run without any of them.

use crate::run_files::comparable_files;
use anyhow::{Context as _, bail, ensure};
use serde_json::Value;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Rollouts at a time of one worker.
pub(super) const SLOTS: u64 = 4;
/// Rollouts, and calls of the optimizer, that a driver has under way.
pub(super) const IN_FLIGHT: u64 = 12;
/// How long a model takes.
const LATENCY_MS: &str = "120";
/// No run takes longer.
const PATIENCE: Duration = Duration::from_secs(300);
/// A process is there after this time, or it never is.
const START: Duration = Duration::from_secs(20);
/// The variables with the keys: that of the agent is set for workers alone.
const TARGET_KEY: &str = "SKILLRL_CHECK_TARGET_KEY";
const OPTIMIZER_KEY: &str = "SKILLRL_CHECK_OPTIMIZER_KEY";

pub(super) struct Scene {
    pub(super) dir: PathBuf,
    skillrl: PathBuf,
    mock_program: PathBuf,
    mock: Mock,
    /// The files of a run in one process.
    reference: BTreeMap<PathBuf, Vec<u8>>,
    /// The requests of that run.
    pub(super) n_requests: u64,
    pub(super) seconds: f64,
    /// The variable with the secret of a login.
    secret: RefCell<Option<(&'static str, String)>>,
}

impl Scene {
    pub(super) fn new(dir: PathBuf, skillrl: PathBuf, mock_program: PathBuf) -> anyhow::Result<Self> {
        Self::with_mock_at(dir, skillrl, mock_program, "127.0.0.1")
    }

    fn with_mock_at(
        dir: PathBuf,
        skillrl: PathBuf,
        mock_program: PathBuf,
        host: &str,
    ) -> anyhow::Result<Self> {
        let mock = Mock::start(&mock_program, host)?;
        let sizes = ["--train", "12", "--val", "16", "--test", "12", "--context-bytes", "400"];
        let made = Command::new(&mock_program).arg("data").arg(dir.join("data")).args(sizes).status()?;
        ensure!(made.success(), "the data could not be written");
        let mut scene = Self {
            dir,
            skillrl,
            mock_program,
            mock,
            reference: BTreeMap::new(),
            n_requests: 0,
            seconds: 0.0,
            secret: RefCell::default(),
        };
        let place = scene.place("reference")?;
        let begun = Instant::now();
        let mut local = scene.train(&place, None, &[])?;
        let status = wait(&mut local, PATIENCE)?;
        ensure!(status == Some(0), "the run in one process failed: {}", log_of(&place, "driver"));
        scene.seconds = begun.elapsed().as_secs_f64();
        scene.n_requests = scene.requests()?;
        scene.reference = comparable_files(&place.join("run"))?;
        eprintln!("a run in one process: {} requests, {:.1} s", scene.n_requests, scene.seconds);
        Ok(scene)
    }

    /// The same scene with models that are reached at another address of this machine.
    pub(super) fn at(&self, name: &str, host: &str) -> anyhow::Result<Self> {
        let dir = self.dir.join(name);
        fs::create_dir_all(&dir)?;
        Self::with_mock_at(dir, self.skillrl.clone(), self.mock_program.clone(), host)
    }

    /// A directory with a configuration.
    pub(super) fn place(&self, name: &str) -> anyhow::Result<PathBuf> {
        let place = self.dir.join(name);
        if place.exists() {
            fs::remove_dir_all(&place)?;
        }
        fs::create_dir_all(&place)?;
        let (address, data) = (&self.mock.address, self.dir.join("data"));
        let model = |key: &str| {
            format!(
                "kind = \"openai\"\nmodel = \"small\"\nbase_url = \"http://{address}/v1\"\napi_key_env = \"{key}\"\n"
            )
        };
        let text = format!(
            "[run]\ndir = \"run\"\nworkers = {IN_FLIGHT}\n\n[models.target]\n{}\n[models.optimizer]\n{}\n\
             [env]\nkind = \"qa\"\ndata = '{}'\n\n[train]\nepochs = 2\nbatch_size = 6\nminibatch_size = 3\n\
             slow_update = \"off\"\nmeta_skill = false\n\n[gate]\nearly_stop = \"off\"\n",
            model(TARGET_KEY),
            model(OPTIMIZER_KEY),
            data.display()
        );
        fs::write(place.join("skillrl.toml"), text)?;
        Ok(place)
    }

    /// Starts a process that trains; with a broker it has no key of the agent.
    pub(super) fn train(
        &self,
        place: &Path,
        broker: Option<&str>,
        settings: &[&str],
    ) -> anyhow::Result<Child> {
        let mut command = self.skillrl(place, "driver")?;
        command.args(["train", "skillrl.toml", "--quiet"]).env(OPTIMIZER_KEY, "optimizer-key-1234");
        match broker {
            Some(url) => {
                command.args(["--set", "run.runner=nats", "--set", &format!("run.nats.url={url}")]);
            }
            None => {
                command.env(TARGET_KEY, "target-key-1234");
            }
        }
        for setting in settings {
            command.args(["--set", setting]);
        }
        command.spawn().context("the driver cannot be started")
    }

    /// Starts a worker; `before` are words in front of its own.
    pub(super) fn worker(
        &self,
        place: &Path,
        broker: &str,
        options: &[&str],
        before: &[&str],
    ) -> anyhow::Result<Child> {
        let cache = self.dir.join("cache").display().to_string();
        let slots = SLOTS.to_string();
        let words = ["worker", "--nats", broker, "--workers", &slots, "--quiet", "--cache", &cache];
        let mut command = match before.split_first() {
            None => self.skillrl(place, "worker")?,
            Some((program, rest)) => {
                let mut command = logged(Command::new(program), place, "worker")?;
                command.args(rest).arg(&self.skillrl);
                self.add_secret(&mut command);
                command
            }
        };
        command.args(words).args(options).env(TARGET_KEY, "target-key-1234");
        command.spawn().context("a worker cannot be started")
    }

    fn skillrl(&self, place: &Path, log: &str) -> anyhow::Result<Command> {
        let mut command = logged(Command::new(&self.skillrl), place, log)?;
        self.add_secret(&mut command);
        Ok(command)
    }

    fn add_secret(&self, command: &mut Command) {
        if let Some((variable, secret)) = self.secret.borrow().as_ref() {
            command.env(variable, secret);
        }
    }

    /// Drivers and workers that are started from now on find this secret in this variable.
    pub(super) fn set_secret(&self, secret: Option<(&'static str, String)>) {
        self.secret.replace(secret);
    }

    /// The secret of drivers and workers.
    pub(super) fn secret(&self) -> Option<String> {
        self.secret.borrow().as_ref().map(|(_, secret)| secret.clone())
    }

    /// Starts a server of NATS with these lines in its configuration.
    pub(super) fn server(&self, name: &str, lines: &str) -> anyhow::Result<Server> {
        self.server_with(name, Streams::Unlimited, lines)
    }

    /// The same with these streams.
    pub(super) fn server_with(&self, name: &str, streams: Streams, lines: &str) -> anyhow::Result<Server> {
        Server::start(&self.dir.join(format!("server-{name}")), "127.0.0.1", streams, lines)
    }

    /// Requests that the models have got since this was last asked.
    pub(super) fn requests(&self) -> anyhow::Result<u64> {
        self.mock.take_requests()
    }

    /// Holds the files of a run against those of the run in one process.
    pub(super) fn compare(&self, place: &Path) -> anyhow::Result<()> {
        let made = comparable_files(&place.join("run"))?;
        let names = |files: &BTreeMap<PathBuf, Vec<u8>>| files.keys().cloned().collect::<Vec<_>>();
        ensure!(names(&made) == names(&self.reference), "the runs in {} have other files", place.display());
        let other = made.iter().find(|(name, content)| self.reference.get(*name) != Some(content));
        match other {
            Some((name, _)) => bail!("{} differs in {}", name.display(), place.display()),
            None => Ok(()),
        }
    }

    /// Waits until a run has ended.
    pub(super) fn end(&self, place: &Path, driver: &mut Child) -> anyhow::Result<()> {
        let status = wait(driver, PATIENCE)?;
        ensure!(status == Some(0), "the run failed: {}", log_of(place, "driver"));
        Ok(())
    }
}

/// A command with a log file for all that it says.
fn logged(mut command: Command, place: &Path, log: &str) -> anyhow::Result<Command> {
    let log = fs::OpenOptions::new().create(true).append(true).open(place.join(format!("{log}.log")))?;
    command.current_dir(place).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    command.env_remove(TARGET_KEY).env_remove(OPTIMIZER_KEY);
    Ok(command)
}

/// The end of a log.
pub(super) fn log_of(place: &Path, name: &str) -> String {
    let text = fs::read_to_string(place.join(format!("{name}.log"))).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines.get(lines.len().saturating_sub(12)..).unwrap_or_default().join("\n")
}

/// The exit code of a process; one that does not end in time is killed.
pub(super) fn wait(child: &mut Child, patience: Duration) -> anyhow::Result<Option<i32>> {
    let begun = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status.code());
        }
        if begun.elapsed() > patience {
            child.kill()?;
            child.wait()?;
            bail!("a process did not end within {} s", patience.as_secs());
        }
        sleep(Duration::from_millis(20));
    }
}

/// Kills a process as `kill -9` does.
pub(super) fn kill(child: &mut Child) -> anyhow::Result<()> {
    child.kill()?;
    child.wait()?;
    Ok(())
}

/// The server that plays the models.
struct Mock {
    child: Child,
    address: String,
}

impl Mock {
    fn start(program: &Path, host: &str) -> anyhow::Result<Self> {
        let options =
            ["serve", "--workload", "--latency-ms", LATENCY_MS, "--improve-every", "3", "--host", host];
        let mut child = Command::new(program).args(options).stdout(Stdio::piped()).spawn()?;
        let stdout = child.stdout.take().context("the mock server has no output")?;
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line)?;
        let address = line.trim().strip_prefix("listening on ").context("the mock server says no address")?;
        let address = address.trim_start_matches("http://").trim_end_matches('/').to_owned();
        Ok(Self { address, child })
    }

    fn ask(&self, method: &str, path: &str) -> anyhow::Result<String> {
        let mut stream = TcpStream::connect(&self.address)?;
        let host = &self.address;
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nhost: {host}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
        )?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default())
    }

    fn take_requests(&self) -> anyhow::Result<u64> {
        let stats: Value = serde_json::from_str(&self.ask("GET", "/stats")?)?;
        self.ask("POST", "/stats/reset")?;
        stats.get("requests").and_then(Value::as_u64).context("the mock server counts no requests")
    }
}

impl Drop for Mock {
    fn drop(&mut self) {
        drop(kill(&mut self.child));
    }
}

/// The streams that a server keeps.
#[derive(Clone, Copy)]
pub(super) enum Streams {
    /// None: it has no JetStream.
    Off,
    /// So many bytes of them.
    Limited(u64),
    /// Any.
    Unlimited,
}

/// A server of NATS.
pub(super) struct Server {
    child: Child,
    dir: PathBuf,
    host: String,
    port: u16,
    lines: String,
}

impl Server {
    /// Starts one that listens at this address, and waits until it takes connections.
    pub(super) fn start(dir: &Path, host: &str, streams: Streams, lines: &str) -> anyhow::Result<Self> {
        fs::create_dir_all(dir)?;
        let port = TcpListener::bind((host, 0))?.local_addr()?.port();
        let lines = format!("listen: {host}:{port}\n{lines}\n");
        configure(dir, streams, &lines)?;
        let child = Self::spawn(dir)?;
        let server = Self { child, dir: dir.to_owned(), host: host.to_owned(), port, lines };
        server.wait()?;
        Ok(server)
    }

    fn spawn(dir: &Path) -> anyhow::Result<Child> {
        let mut command = logged(Command::new("nats-server"), dir, "server")?;
        command.arg("-c").arg(dir.join("server.conf")).spawn().context("nats-server cannot be started")
    }

    fn wait(&self) -> anyhow::Result<()> {
        let begun = Instant::now();
        while TcpStream::connect((self.host.as_str(), self.port)).is_err() {
            ensure!(begun.elapsed() < START, "nats-server does not start: {}", log_of(&self.dir, "server"));
            sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    pub(super) fn url(&self) -> String {
        format!("nats://{}:{}", self.host, self.port)
    }

    pub(super) fn tls_url(&self) -> String {
        format!("tls://{}:{}", self.host, self.port)
    }

    pub(super) fn kill(&mut self) -> anyhow::Result<()> {
        kill(&mut self.child)
    }

    /// After a restart it has these streams.
    pub(super) fn set_streams(&self, streams: Streams) -> anyhow::Result<()> {
        configure(&self.dir, streams, &self.lines)
    }

    /// Starts it again, with its files or without them.
    pub(super) fn restart(&mut self, has_files: bool) -> anyhow::Result<()> {
        if !has_files {
            fs::remove_dir_all(self.dir.join("store"))?;
        }
        self.child = Self::spawn(&self.dir)?;
        self.wait()
    }
}

/// Writes the configuration of a server.
fn configure(dir: &Path, streams: Streams, lines: &str) -> anyhow::Result<()> {
    let store = dir.join("store").display().to_string();
    let jetstream = match streams {
        Streams::Off => String::new(),
        Streams::Limited(bytes) => format!("jetstream {{ store_dir: '{store}', max_file_store: {bytes} }}\n"),
        Streams::Unlimited => format!("jetstream {{ store_dir: '{store}' }}\n"),
    };
    Ok(fs::write(dir.join("server.conf"), format!("{lines}{jetstream}"))?)
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(kill(&mut self.child));
    }
}

/// A process that ends with the check.
pub(super) struct Guarded(pub(super) Child);

impl Drop for Guarded {
    fn drop(&mut self) {
        drop(kill(&mut self.0));
    }
}
