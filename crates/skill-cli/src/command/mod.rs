//! One module per command.

mod against;
pub(crate) mod bank;
mod bank_run;
mod before_train;
pub(crate) mod blame;
pub(crate) mod check;
#[cfg(feature = "weights")]
mod check_batch;
pub(crate) mod collect;
pub(crate) mod compare;
pub(crate) mod config;
mod data_start;
pub(crate) mod demo;
mod demo_bank;
pub(crate) mod diff;
pub(crate) mod distill;
pub(crate) mod doctor;
mod dry_run;
pub(crate) mod env;
pub(crate) mod estimate;
pub(crate) mod eval;
mod eval_bank;
mod eval_markdown;
mod eval_out;
pub(crate) mod export;
pub(crate) mod help;
pub(crate) mod import;
pub(crate) mod init;
pub(crate) mod inspect;
mod inspect_bank;
pub(crate) mod journal;
mod kinds;
pub(crate) mod lint;
pub(crate) mod mcp;
mod named_bank;
pub(crate) mod newest;
mod noise;
pub(crate) mod note;
pub(crate) mod prompts;
pub(crate) mod prune;
pub(crate) mod reference;
pub(crate) mod replay;
pub(crate) mod report;
pub(crate) mod rl;
pub(crate) mod serve;
pub(crate) mod sft;
pub(crate) mod shell;
pub(crate) mod show;
pub(crate) mod skill;
mod start;
pub(crate) mod status;
pub(crate) mod stop;
pub(crate) mod train;
pub(crate) mod train_server;
mod trajectory;
mod transfer;
pub(crate) mod try_item;
pub(crate) mod watch;
pub(crate) mod worker;

use crate::exit_code;
use crate::progress::{Progress, Show};
use crate::table::terminal_width;
use crate::wrap::{stderr_width, wrapped};
use anyhow::Context as _;
use before_train::{Beginning, Watched};
use skillrl::config::LoadedConfig;
use skillrl::core::usage::dollars;
use skillrl::llm::Spent;
use skillrl::pipeline::kind::RunKind;
use skillrl::pipeline::records::bank::BankSummary;
use skillrl::pipeline::run_dir::atomic;
#[cfg(feature = "weights")]
use skillrl::pipeline::run_dir::policy_hashes::HASHES_FILE;
use skillrl::pipeline::{StopSignal, Summary};
use std::future::Future;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What the first Ctrl-C of a run is answered with.
const STOPPING_RUN: &str =
    "stopping when the calls under way are answered; press Ctrl-C again to stop at once";

/// A failure in this program's own words, with its exit code and a hint.
#[derive(Debug)]
pub(crate) struct CommandError {
    message: String,
    /// The exit code.
    pub(crate) code: u8,
    /// What a person can do about it, where the message does not say it already.
    pub(crate) hint: Option<String>,
}

impl CommandError {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), code: exit_code::USAGE, hint: None }
    }

    /// The same of data that cannot be used as they are.
    pub(crate) fn of_data(message: impl Into<String>) -> Self {
        Self::new(message).with_code(exit_code::DATA)
    }

    pub(crate) fn with_code(self, code: u8) -> Self {
        Self { code, ..self }
    }

    pub(crate) fn with_hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }
}

impl std::fmt::Display for CommandError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for CommandError {}

/// A failure that the command's output already reports; only the exit code remains.
#[derive(Debug)]
pub(crate) struct Reported {
    pub(crate) code: u8,
}

impl std::fmt::Display for Reported {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the output reports the failure")
    }
}

impl std::error::Error for Reported {}

/// The command that installs the program with everything that builds everywhere.
pub(crate) const INSTALL_FULL: &str = "cargo install --path crates/skill-cli --features full";

/// The message where a feature is missing from this build.
#[cfg(not(all(
    feature = "mcp",
    feature = "nats",
    feature = "openenv",
    feature = "parquet",
    feature = "weights"
)))]
pub(crate) fn not_built_in(part: &str) -> anyhow::Error {
    let hint = format!(
        "install the program with everything: `{INSTALL_FULL}`, or with Python `pip install ./crates/skillrl-python`, \
         both in a checkout"
    );
    CommandError::new(format!("this program was built without {part}")).with_hint(hint).into()
}

/// The configuration with a trained policy as its target, where one is named.
#[cfg(feature = "weights")]
pub(crate) fn with_policy(loaded: LoadedConfig, policy: Option<&Path>) -> anyhow::Result<LoadedConfig> {
    let Some(policy) = policy else { return Ok(loaded) };
    let loaded = skillrl::policy::with_policy(&loaded, policy)?;
    if !policy.join(HASHES_FILE).exists() {
        say(&format!("note: {} has no {HASHES_FILE}, so its files are not verified", policy.display()));
    }
    Ok(loaded)
}

/// The configuration, in a program that can run no policy.
#[cfg(not(feature = "weights"))]
pub(crate) fn with_policy(loaded: LoadedConfig, policy: Option<&Path>) -> anyhow::Result<LoadedConfig> {
    match policy {
        Some(_) => Err(not_built_in("local models")),
        None => Ok(loaded),
    }
}

/// Trains as configured; returns the summary, what the run has spent over all its processes, and its directory.
fn train(
    loaded: &LoadedConfig,
    show: Show,
    new_journal: bool,
    beginning: Beginning,
) -> anyhow::Result<(Summary, Option<Spent>, PathBuf)> {
    let stop = StopSignal::default();
    let watched = Arc::new(Watched::new(Progress::new(show), beginning, stop.clone()));
    let (trainer, dir) = skillrl::trainer::document(loaded, Arc::clone(&watched) as _, stop.clone())?;
    let trainer = if new_journal { trainer.with_lost_journal() } else { trainer };
    let outcome = block_on(stop, STOPPING_RUN, trainer.train(&dir))?;
    report::write_after_document(&dir, &outcome);
    if let (Err(error), Some(stopped)) = (&outcome, watched.stopped())
        && error.is_stop()
    {
        return Err(stopped.into());
    }
    Ok((outcome.map_err(skillrl::Error::Pipeline)?, trainer.spent(), dir))
}

/// Trains a bank as configured; returns what the run came to, and its directory.
pub(crate) fn train_bank(loaded: &LoadedConfig, show: Show) -> anyhow::Result<(BankSummary, PathBuf)> {
    let stop = StopSignal::default();
    let (trainer, dir) = skillrl::trainer::bank(loaded, Arc::new(Progress::new(show)), stop.clone())?;
    let outcome = block_on(stop, STOPPING_RUN, trainer.train(&dir))?;
    report::write_after(&dir, RunKind::Bank, &outcome);
    Ok((outcome.map_err(skillrl::Error::Pipeline)?, dir))
}

/// Runs a future to its end while Ctrl-C is listened to: once finishes the calls under way, twice ends at once.
///
/// `stopping` is what the first Ctrl-C is answered with.
pub(crate) fn block_on<T>(
    stop: StopSignal,
    stopping: &'static str,
    work: impl Future<Output = T>,
) -> anyhow::Result<T> {
    Ok(runtime()?.block_on(heeding_signals(stop, stopping, work)))
}

/// As [`block_on`], without the warnings of environments: they are about replies that were never requested.
pub(crate) fn block_on_unwarned<T>(work: impl Future<Output = T>) -> anyhow::Result<T> {
    let unwarned = || block_on(StopSignal::default(), "stopping", work);
    tracing::subscriber::with_default(tracing::subscriber::NoSubscriber::default(), unwarned)
}

fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().context("cannot start the runtime")
}

async fn heeding_signals<T>(stop: StopSignal, stopping: &'static str, work: impl Future<Output = T>) -> T {
    // Caught before the work begins: anyone who reads its first line may press Ctrl-C at once.
    let listener =
        Interrupts::catch().ok().map(|interrupts| tokio::spawn(listen(interrupts, stop, stopping)));
    let output = work.await;
    if let Some(listener) = listener {
        listener.abort();
    }
    output
}

async fn listen(mut interrupts: Interrupts, stop: StopSignal, stopping: &'static str) {
    if interrupts.next().await.is_none() {
        return;
    }
    say(stopping);
    stop.soon.cancel();
    if interrupts.next().await.is_some() {
        say("stopping at once");
        stop.now.cancel();
    }
}

/// Ctrl-C, and the signal with which a system ends its programs; both are caught from the moment it is made.
#[cfg(unix)]
struct Interrupts {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Interrupts {
    fn catch() -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    /// Waits for the next one; `None` if none can come.
    async fn next(&mut self) -> Option<()> {
        tokio::select! {
            pressed = self.interrupt.recv() => pressed,
            asked = self.terminate.recv() => asked,
        }
    }
}

/// Ctrl-C.
#[cfg(not(unix))]
struct Interrupts;

#[cfg(not(unix))]
impl Interrupts {
    fn catch() -> std::io::Result<Self> {
        Ok(Self)
    }

    /// Waits for the next one; `None` if none can come.
    async fn next(&mut self) -> Option<()> {
        tokio::signal::ctrl_c().await.ok()
    }
}

/// Writes text to standard output.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    let mut stdout = anstream::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()?;
    Ok(())
}

/// Writes sentences and tables for people to standard output: on a terminal, long lines are broken between words.
pub(crate) fn print_wrapped(text: &str) -> anyhow::Result<()> {
    print(&wrapped(text, terminal_width()))
}

/// Writes a sentence for people to standard error; a closed stream is not a failure.
pub(crate) fn say(text: &str) {
    let write = || writeln!(anstream::stderr(), "{}", wrapped(text, stderr_width()));
    crate::progress_bar::beside_bar(write).unwrap_or_default();
}

/// An error if a file is there that nobody asked to replace.
pub(crate) fn check_absent(path: &Path, force: bool) -> Result<(), CommandError> {
    if path.exists() && !force {
        return Err(CommandError::new(format!("{} is there already; --force replaces it", path.display())));
    }
    Ok(())
}

/// Writes files into a directory, all or none: nothing is replaced unless that is asked.
pub(crate) fn write_files<'a>(
    dir: &Path,
    files: impl IntoIterator<Item = (&'a str, &'a str)>,
    force: bool,
) -> anyhow::Result<Vec<PathBuf>> {
    let files: Vec<(PathBuf, &str)> = files.into_iter().map(|(path, text)| (dir.join(path), text)).collect();
    files.iter().try_for_each(|(path, _)| check_absent(path, force))?;
    let mut written = Vec::with_capacity(files.len());
    for (path, text) in files {
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        std::fs::create_dir_all(parent).with_context(|| format!("cannot create {}", parent.display()))?;
        crate::whole_file::write(&path, |out| {
            out.write_all(text.as_bytes()).with_context(|| format!("cannot write {}", path.display()))
        })?;
        written.push(path);
    }
    Ok(written)
}

/// Refuses to replace what another command has made.
fn is_there_already(out: &Path) -> CommandError {
    let message = format!("{} is there already, and was made by another command", out.display());
    CommandError::new(message).with_hint("name another file as `--output`, or replace it with `--force`")
}

/// Writes a file that a command was asked for, and makes the directories above it.
fn write_with_parents(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        atomic::create_dir(parent).map_err(skillrl::Error::Pipeline)?;
    }
    Ok(atomic::write(path, bytes).map_err(skillrl::Error::Pipeline)?)
}

/// What a command has sent, for its last line.
fn described_spend(loaded: &LoadedConfig, engine: &skillrl::engine::Engine<'_>, n_before: u64) -> String {
    let spent = engine.budget().spent();
    let n_sent = spent.calls.saturating_sub(n_before);
    let money = skillrl::cost::has_prices(&loaded.config.models.target).then_some(spent.money);
    let money = money.map(|money| format!(", {} in all", dollars(money))).unwrap_or_default();
    match n_sent {
        0 => "no request was sent now, all replies were kept".to_owned(),
        1 => format!("1 request was sent now{money}"),
        n_sent => format!("{n_sent} requests were sent now{money}"),
    }
}
