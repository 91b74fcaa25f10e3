//! From a configuration to what selects skills of a bank.

use super::elsewhere::{elsewhere, with_runner, with_their_trouble, with_workers};
use super::{ModelRole, RunModels, replaced_prompt, run_dir, trainer_of};
use crate::config::LoadedConfig;
use crate::config::keys::declare::Fill as _;
use crate::engine::Engine;
use crate::error::Error;
use skill_bank::distill::{TeacherPrompt, TeacherPrompts};
use skill_bank::format::{BankFormat, ReadBank};
use skill_bank::retrieve::{Retrieval, RetrievalMode, RetrievalSettings, Threshold};
use skill_bank::task_type::TypeTable;
use skill_bank::{Bank, BankError, BankSource, BankView};
use skill_core::SkillDoc;
use skill_llm::{EmbeddingModel, text_file};
use skill_pipeline::bank::{BankSettings, BankTrainer};
use skill_pipeline::bank_dir::{read_bank, read_source};
use skill_pipeline::run_dir::live::LiveEvents;
use skill_pipeline::{EventSink, PipelineError, StopSignal, Trainer};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How skills are selected, as `[retrieval]` says; without the section, by its defaults.
///
/// `embedding` is the model that a threshold belongs to.
///
/// # Errors
///
/// A table of types that cannot be read, or a setting that cannot work.
pub fn retrieval(loaded: &LoadedConfig, embedding: Option<&dyn EmbeddingModel>) -> Result<Retrieval, Error> {
    let asked = loaded.config.retrieval.clone().unwrap_or_default();
    let mut settings = RetrievalSettings::default();
    asked.fill(&mut settings);
    settings.task_top_k = usize::try_from(asked.task_top_k).ok();
    settings.token_budget = (asked.token_budget > 0).then_some(asked.token_budget);
    settings.threshold = asked
        .threshold
        .zip(embedding)
        .map(|(value, model)| Threshold { model: model.id().to_string(), value });
    let retrieval =
        Retrieval::new(settings).map_err(|source| bank_error(Path::new("[retrieval]"), source))?;
    let Some(table) = &asked.task_types else { return Ok(retrieval) };
    let path = loaded.resolve(table);
    let text = text_file::read(&path).map_err(|source| Error::Read {
        what: "table of task types",
        path: path.clone(),
        source,
    })?;
    let types = TypeTable::from_json(&text).map_err(|source| bank_error(&path, source))?;
    Ok(retrieval.with_types(types))
}

/// The model that embeds goals and skills, if retrieval needs one.
///
/// # Errors
///
/// Those of [`Engine::embedding`].
pub fn retrieval_model(
    loaded: &LoadedConfig,
    engine: &mut Engine<'_>,
) -> Result<Option<Arc<dyn EmbeddingModel>>, Error> {
    match loaded.config.retrieval.as_ref().map(|retrieval| retrieval.mode) {
        Some(RetrievalMode::Embedding) => engine.embedding(),
        Some(RetrievalMode::Template) | None => Ok(None),
    }
}

/// A view of a bank as what agents are shown; `frame` is shown before the selected skills.
///
/// # Errors
///
/// A threshold of another model.
pub fn bank_source(
    view: BankView,
    retrieval: &Retrieval,
    embedding: Option<Arc<dyn EmbeddingModel>>,
    frame: Option<SkillDoc>,
) -> Result<BankSource, Error> {
    let source = BankSource::new(view, retrieval, embedding)
        .map_err(|source| bank_error(Path::new("[retrieval]"), source))?;
    Ok(match frame {
        Some(frame) => source.with_frame(frame),
        None => source,
    })
}

/// The trainer of a bank that a configuration describes, and the directory of its run.
///
/// # Errors
///
/// Data, prompts, a bank or models that are not what the configuration says; nothing is sent.
pub fn bank_trainer(
    loaded: &LoadedConfig,
    events: Arc<dyn EventSink>,
    stop: StopSignal,
) -> Result<(BankTrainer, PathBuf), Error> {
    let mut engine = Engine::new(loaded).for_training();
    let target = engine.model(ModelRole::Target)?;
    let teacher = engine.model(ModelRole::Teacher)?;
    let embedding = retrieval_model(loaded, &mut engine)?;
    let models = RunModels { target, optimizer: teacher, judge: engine.judge()? };
    let elsewhere = elsewhere(loaded)?;
    let pulse = with_workers(engine.pulse(), elsewhere.as_ref());
    let events: Arc<dyn EventSink> = Arc::new(LiveEvents::new(events, pulse));
    let base = trainer_of(loaded, models, events, stop)?
        .with_budget(engine.budget(), engine.prices())
        .with_trouble(with_their_trouble(engine.lasting_trouble(), elsewhere.as_ref()));
    let base = with_runner(base, elsewhere);
    Ok((bank_trainer_of(loaded, base, embedding)?, run_dir(loaded)))
}

/// The trainer of a bank over a trainer that has the models, the teacher as its optimizer; `embedding` is the model of
/// retrieval, if that needs one.
///
/// # Errors
///
/// Prompts or a bank that are not what the configuration says.
pub fn bank_trainer_of(
    loaded: &LoadedConfig,
    base: Trainer,
    embedding: Option<Arc<dyn EmbeddingModel>>,
) -> Result<BankTrainer, Error> {
    let retrieval = retrieval(loaded, embedding.as_deref())?;
    let mut trainer =
        BankTrainer::new(base, retrieval, teacher_prompts(loaded)?).with_settings(bank_settings(loaded));
    if let Some(model) = embedding {
        trainer = trainer.with_embedding(model);
    }
    if let Some((bank, source)) = initial_bank(loaded)? {
        trainer = trainer.with_initial_bank(bank, source);
    }
    Ok(trainer)
}

/// How a bank is made and kept, as `[bank]` and `[evolution]` say.
pub fn bank_settings(loaded: &LoadedConfig) -> BankSettings {
    let mut settings = BankSettings::default();
    loaded.config.bank.clone().unwrap_or_default().fill(&mut settings);
    loaded.config.evolution.clone().unwrap_or_default().fill(&mut settings);
    settings
}

/// The bank to start from, with the text that it was read from where that is of another system.
///
/// # Errors
///
/// A bank, or the text that it was imported from, that cannot be read.
#[expect(clippy::type_complexity, reason = "a bank and where it came from")]
pub fn initial_bank(loaded: &LoadedConfig) -> Result<Option<(Bank, Option<(BankFormat, String)>)>, Error> {
    let Some(asked) = loaded.config.bank.as_ref().and_then(|bank| bank.initial.as_ref()) else {
        return Ok(None);
    };
    let path = loaded.resolve(asked);
    let ReadBank { bank, format, .. } = read_bank(&path)?;
    // A log by itself has no text of another system beside it.
    let source = match format {
        BankFormat::Log if !path.is_dir() => None,
        _ => read_source(&path, &bank)?,
    };
    Ok(Some((bank, source)))
}

/// The prompts of the teacher: built in, replaced by `prompts.dir`.
///
/// # Errors
///
/// A file that is not a template.
pub fn teacher_prompts(loaded: &LoadedConfig) -> Result<TeacherPrompts, Error> {
    let mut prompts = TeacherPrompts::embedded().map_err(Error::Prompt)?;
    for name in TeacherPrompt::ALL {
        if let Some(text) = replaced_prompt(loaded, name.as_str())? {
            prompts = prompts.with_source(name, name.as_str(), &text).map_err(Error::Prompt)?;
        }
    }
    Ok(prompts)
}

fn bank_error(path: &Path, source: BankError) -> Error {
    Error::Pipeline(PipelineError::Bank { path: path.to_owned(), source })
}
