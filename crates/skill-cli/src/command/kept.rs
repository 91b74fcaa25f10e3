//! The calls of a command that writes one file: they are kept beside it, so that the same command goes on where it ended.

use skillrl::config::LoadedConfig;
use skillrl::engine::Engine;
use skillrl::llm::{ChatModel, EmbeddingModel, Journal, JournalOptions, Journaled, Metered};
use skillrl::pipeline::run_dir::RunDir;
use skillrl::pipeline::trainer::count_spent;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The calls beside a file that is being made, held by this process.
pub(super) struct KeptCalls {
    pub(super) journal: Journal,
    dir: RunDir,
}

impl KeptCalls {
    /// Takes the calls beside `out`, in a directory of its name with `.calls` at the end.
    ///
    /// # Errors
    ///
    /// A directory that cannot be made, or that another process works in.
    pub(super) fn beside(out: &Path) -> anyhow::Result<Self> {
        let dir = RunDir::open(&calls_of(out)).map_err(skillrl::Error::Pipeline)?;
        let journal = dir.open_journal(JournalOptions::default(), false).map_err(skillrl::Error::Pipeline)?;
        Ok(Self { journal, dir })
    }

    /// Tells the caps what was spent here before.
    pub(super) fn count_spent(&self, engine: &Engine<'_>) {
        count_spent(&engine.budget(), &engine.prices(), &self.journal);
    }

    /// The model with its replies kept.
    pub(super) fn chat(&self, model: Arc<dyn ChatModel>) -> Arc<dyn ChatModel> {
        Arc::new(Metered::new(Arc::new(Journaled::new(model, self.journal.clone()))))
    }

    /// The model with its vectors kept.
    pub(super) fn embedding(&self, model: Arc<dyn EmbeddingModel>) -> Arc<dyn EmbeddingModel> {
        Arc::new(Journaled::embedding(model, self.journal.clone()))
    }

    /// Where they are.
    pub(super) fn path(&self) -> &Path {
        self.dir.path()
    }
}

fn calls_of(out: &Path) -> PathBuf {
    let mut name: OsString = out.file_name().unwrap_or_default().to_owned();
    name.push(".calls");
    out.with_file_name(name)
}

/// What a command has sent, for its last line.
pub(super) fn described_spend(loaded: &LoadedConfig, engine: &Engine<'_>, n_before: u64) -> String {
    let spent = engine.budget().spent();
    let n_sent = spent.calls.saturating_sub(n_before);
    let money = skillrl::cost::has_prices(&loaded.config.models.target).then_some(spent.money);
    let money = money.map(|money| format!(", {money:.4} in all")).unwrap_or_default();
    match n_sent {
        0 => "no request was sent now, all replies were kept".to_owned(),
        1 => format!("1 request was sent now{money}"),
        n_sent => format!("{n_sent} requests were sent now{money}"),
    }
}
