//! The calls of work outside of training, kept so that the same work goes on where it ended: in the directory of a run,
//! or beside the one file that is made.
//!
//! # Invariants
//!
//! - A command that writes one result keeps its calls beside it: the same command sends nothing twice, and one that
//!   fails writes no result. Held by `episodes_are_collected_once`,
//!   `a_collection_that_an_outage_ended_asks_only_for_what_is_missing`, `a_dead_teacher_leaves_no_bank`,
//!   `a_bank_is_measured_against_none`, `a_measurement_of_a_bank_is_replaced_only_where_that_is_asked`.
//! - A cap is for one result: calls of the one that it replaces do not count. Held by
//!   `a_cap_is_for_what_is_measured_and_not_for_what_it_replaces`.

use crate::engine::Engine;
use crate::error::Error;
use serde::{Deserialize, Serialize};
use skill_envs::Env;
use skill_llm::journal::ModelSpent;
use skill_llm::regular_file;
use skill_llm::{ChatModel, EmbeddingModel, Journal, JournalOptions, Journaled, Metered, ModelId};
use skill_pipeline::run_dir::measurement::SPENT_FILE;
use skill_pipeline::run_dir::seal::write_sealed_json;
use skill_pipeline::run_dir::{RunDir, atomic};
use skill_pipeline::shell::{count_spent, count_spent_since};
use skill_pipeline::stage::rollout::Rollouts;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// What the finished file was made from, beside its calls.
const MADE_FILE: &str = "made_from";

/// What comes before the hash while the file is not finished.
const BEGUN: &str = "begun ";

/// What is in [`SPENT_FILE`].
#[derive(Serialize, Deserialize)]
struct SpentBefore {
    /// The hash of what decides the result of the work.
    work: String,
    time: Duration,
    models: Vec<ModelSpent>,
}

/// Tells the caps what was spent before on this work, named by the hash of what decides its result; its calls are kept
/// in this journal of this directory.
///
/// What other work there had spent is not counted, though its replies are still found: caps are for what is made now.
/// `replaces_other` is true if the result of other work is there. The calls of `free`, a control, cost nothing and are not
/// counted.
///
/// # Errors
///
/// A file that cannot be written.
pub fn count_spent_on(
    work: &str,
    replaces_other: bool,
    (dir, journal): (&Path, &Journal),
    engine: &Engine<'_>,
    free: Option<&ModelId>,
) -> Result<(), Error> {
    let path = dir.join(SPENT_FILE);
    let all = || SpentBefore {
        work: work.to_owned(),
        time: journal.elapsed_before(),
        models: journal.spent_before().to_vec(),
    };
    let bytes = regular_file::read(&path).ok();
    let n_requests =
        |of: &SpentBefore| of.models.iter().map(|model| model.requests).fold(0, u64::saturating_add);
    let found = bytes.and_then(|bytes| serde_json::from_slice::<SpentBefore>(&bytes).ok());
    // A journal that holds less is not the one that it was written for.
    let found = found.filter(|found| n_requests(found) <= n_requests(&all()));
    let before = match found {
        Some(before) if before.work == work => before,
        Some(_) => all(),
        // Earlier versions did not write it.
        None if replaces_other => all(),
        None => SpentBefore { work: work.to_owned(), time: Duration::ZERO, models: Vec::new() },
    };
    write_sealed_json(&path, &before)?;
    let is_free =
        |spent: &ModelSpent| free.is_some_and(|id| id.provider == spent.provider && id.model == spent.model);
    let models = before.models.into_iter().filter(|spent| !is_free(spent));
    let models: Vec<ModelSpent> =
        models.chain(journal.spent_before().iter().filter(|spent| is_free(spent)).cloned()).collect();
    count_spent_since(&engine.budget(), &engine.prices(), journal, (&models, before.time));
    Ok(())
}

/// Kept calls, held by this process.
pub struct CallCache {
    /// The replies.
    pub journal: Journal,
    dir: RunDir,
}

impl CallCache {
    /// Takes the calls of the run, or of the work, in this directory.
    ///
    /// # Errors
    ///
    /// A directory that cannot be made, or that another process works in.
    pub fn in_dir(dir: &Path) -> Result<Self, Error> {
        let dir = RunDir::open(dir)?;
        let journal = dir.open_journal(JournalOptions::default(), false)?;
        Ok(Self { journal, dir })
    }

    /// Takes the calls beside `out`, in a directory of its name with `.calls` at the end.
    ///
    /// # Errors
    ///
    /// As [`CallCache::in_dir`].
    pub fn beside(out: &Path) -> Result<Self, Error> {
        Self::in_dir(&calls_of(out))
    }

    /// The calls beside `out`, if there are any.
    ///
    /// # Errors
    ///
    /// As [`CallCache::in_dir`].
    pub fn existing(out: &Path) -> Result<Option<Self>, Error> {
        calls_of(out).is_dir().then(|| Self::beside(out)).transpose()
    }

    /// Tells the caps what was spent here before.
    pub fn count_spent(&self, engine: &Engine<'_>) {
        count_spent(&engine.budget(), &engine.prices(), &self.journal);
    }

    /// Tells the caps what was spent before on what is made from these inputs: see [`count_spent_on`].
    ///
    /// # Errors
    ///
    /// A file that cannot be written.
    pub fn count_spent_on(&self, inputs: &str, engine: &Engine<'_>) -> Result<(), Error> {
        let replaces_other = self.dir.path().join(MADE_FILE).exists()
            && !self.is_made_from(inputs)
            && !self.is_being_made_from(inputs);
        count_spent_on(inputs, replaces_other, (self.dir.path(), &self.journal), engine, None)
    }

    /// Tells the caps what was spent on earlier work, beside these files: it is a part of the same run.
    ///
    /// # Errors
    ///
    /// As [`CallCache::in_dir`].
    pub fn count_earlier(made: &[PathBuf], engine: &Engine<'_>) -> Result<(), Error> {
        for out in made {
            if let Some(kept) = Self::existing(out)? {
                kept.count_spent(engine);
            }
        }
        Ok(())
    }

    /// The model with its replies kept.
    pub fn chat(&self, model: Arc<dyn ChatModel>) -> Arc<dyn ChatModel> {
        Arc::new(Metered::new(Arc::new(Journaled::new(model, self.journal.clone()))))
    }

    /// Rollouts of this agent in this process, its replies and those of the judge kept.
    pub fn rollouts(&self, env: &Arc<dyn Env>, target: Arc<dyn ChatModel>) -> Rollouts {
        let judge = env.judge().map(|judge| self.chat(Arc::clone(judge)));
        Rollouts::local(Arc::clone(env), self.chat(target), judge)
    }

    /// The model with its vectors kept.
    pub fn embedding(&self, model: Arc<dyn EmbeddingModel>) -> Arc<dyn EmbeddingModel> {
        Arc::new(Journaled::embedding(model, self.journal.clone()))
    }

    /// True if the file beside which the calls are was finished from these inputs.
    pub fn is_made_from(&self, inputs: &str) -> bool {
        regular_file::read_to_string(&self.dir.path().join(MADE_FILE)).is_ok_and(|made| made.trim() == inputs)
    }

    /// True if a process was making the file from these inputs and died: what is there of it is its own.
    pub fn is_being_made_from(&self, inputs: &str) -> bool {
        self.is_made_from(&format!("{BEGUN}{inputs}"))
    }

    /// Notes that the file is about to be made from these inputs.
    ///
    /// # Errors
    ///
    /// A note that cannot be written.
    pub fn note_begun(&self, inputs: &str) -> Result<(), Error> {
        self.note_made(&format!("{BEGUN}{inputs}"))
    }

    /// Notes that the file is finished, and the hash of what it was made from.
    ///
    /// # Errors
    ///
    /// A note that cannot be written.
    pub fn note_made(&self, inputs: &str) -> Result<(), Error> {
        Ok(atomic::write(&self.dir.path().join(MADE_FILE), format!("{inputs}\n").as_bytes())?)
    }

    /// Where they are.
    pub fn path(&self) -> &Path {
        self.dir.path()
    }
}

fn calls_of(out: &Path) -> PathBuf {
    let mut name: OsString = out.file_name().unwrap_or_default().to_owned();
    name.push(".calls");
    out.with_file_name(name)
}
