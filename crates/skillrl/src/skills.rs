//! From a configuration to the skills that agents are shown: a document, or a selection of a bank.

#[cfg(feature = "weights")]
mod shown;

#[cfg(feature = "weights")]
pub(crate) use shown::source;

use crate::config::key::declare::Fill as _;
use crate::config::{BankConfig, LoadedConfig, RetrievalConfig, SkillConfig};
use crate::error::{Error, MeasurementError};
use crate::identify::{PathError, PathKind};
use crate::not_a_skill::NotASkill;
use skill_bank::format::{BankFormat, ReadBank};
use skill_bank::retrieve::{Retrieval, RetrievalSettings, Threshold};
use skill_bank::task_type::TypeTable;
use skill_bank::{Bank, BankError, BankSource, BankView, State};
use skill_core::carried::{CarriedFile, CarriedFiles};
use skill_core::package::SkillPackage;
use skill_core::{SkillDoc, encoding};
use skill_envs::folder::{FolderError, is_executable, read_folder};
use skill_envs::{Env, EnvError};
use skill_llm::regular_file;
use skill_llm::{EmbeddingModel, text_file};
use skill_pipeline::bank::Show;
use skill_pipeline::bank_dir::{is_bank, read_bank, read_source};
use skill_pipeline::records::bank::BANK_DIR;
use skill_pipeline::run_dir::CARRIED_DIR;
use skill_pipeline::{PipelineError, RunReader};
use std::path::Path;
use std::sync::Arc;

/// The skill that the configuration names, if any.
///
/// # Errors
///
/// A file that cannot be read.
pub fn configured_skill(skill: &SkillConfig) -> Result<Option<SkillDoc>, Error> {
    let Some(path) = &skill.initial else { return Ok(None) };
    with_editable(read_skill(&path.to_path())?, &skill.editable).map(Some)
}

/// Reads a bank that a person names.
///
/// # Errors
///
/// A bank that cannot be read.
pub fn read_named_bank(path: &Path) -> Result<ReadBank, Error> {
    if let Err(source) = std::fs::metadata(path) {
        return Err(Error::Read { what: "bank", path: path.to_owned(), source });
    }
    let of_run = path.join(BANK_DIR);
    if path.is_dir() && !is_bank(path) && is_bank(&of_run) {
        let hint = format!("its bank is {}", of_run.display());
        let (path, kind) = (path.to_owned(), PathKind::Run);
        return Err(Error::Path(PathError::Other { path, kind, expected: "a bank", hint }));
    }
    Ok(read_bank(path)?)
}

/// Reads a bank whose skills agents are to be shown.
///
/// # Errors
///
/// A bank that cannot be read, or has no active skill.
pub fn read_shown_bank(path: &Path) -> Result<ReadBank, Error> {
    let read = read_named_bank(path)?;
    if read.bank.view().skills().is_empty() {
        let n_waiting = read.bank.skills().filter(|skill| skill.state() == State::Candidate).count();
        return Err(MeasurementError::NoActiveSkill { path: path.to_owned(), n_waiting }.into());
    }
    Ok(read)
}

/// The skill of this path, else the best one of the run, else the one that a run would start from; with its name.
///
/// The environment is the caller's own: some read thousands of games, or start a program.
///
/// # Errors
///
/// A skill that cannot be read.
pub fn chosen(
    loaded: &LoadedConfig,
    asked: Option<&Path>,
    env: &dyn Env,
) -> Result<(String, SkillDoc), Error> {
    if let Some(path) = asked {
        return Ok((path.display().to_string(), read_skill(path)?));
    }
    let best = loaded.run_dir().join("best_skill.md");
    if best.is_file() {
        return Ok((best.display().to_string(), best_skill(&loaded.run_dir())?));
    }
    if let Some(skill) = configured_skill(&loaded.config.skill)? {
        return Ok(("the initial skill".to_owned(), skill));
    }
    let skill = env.initial_skill().unwrap_or_default();
    Ok(("the environment's initial skill".to_owned(), skill))
}

/// The skill with these further files as texts that are edited.
fn with_editable(skill: SkillDoc, editable: &[String]) -> Result<SkillDoc, Error> {
    if editable.is_empty() {
        return Ok(skill);
    }
    let wrong = |message: String| Error::Env(EnvError::Configuration { message });
    let mut package = SkillPackage::of(&skill);
    for named in editable {
        let named = named.trim_end_matches('/');
        let is_named = |path: &&String| path.as_str() == named || path.starts_with(&format!("{named}/"));
        let paths: Vec<String> = package.carried.keys().filter(is_named).cloned().collect();
        if paths.is_empty() && !package.references.keys().any(|path| is_named(&path)) {
            let files: Vec<&str> = package.carried.keys().map(String::as_str).collect();
            let files = if files.is_empty() { "none".to_owned() } else { files.join(", ") };
            return Err(wrong(format!(
                "`skill.editable` names `{named}`, which is no file of the skill; files that are not edited: {files}"
            )));
        }
        for path in paths {
            let bytes = package.contents.get(&path).map(|file| file.bytes().to_vec());
            let bytes =
                bytes.ok_or_else(|| wrong(format!("the file `{path}` of the skill is not at hand")))?;
            let text = encoding::decode(bytes)
                .map_err(|fault| wrong(format!("`skill.editable` names `{path}`, which {fault}")))?;
            package.carried.remove(&path);
            package.references.insert(path, text);
        }
    }
    let mut contents = CarriedFiles::default();
    for (path, file) in package.contents.iter().filter(|(path, _)| package.carried.contains_key(*path)) {
        contents.insert(path.to_owned(), file.clone());
    }
    package.contents = contents;
    package.document().map_err(|fault| wrong(format!("`skill.editable`: {fault}")))
}

/// Names of files that are texts for people or models, and that somebody may expect to be edited.
const TEXT_ENDINGS: [&str; 5] = [".md", ".txt", ".prompt", ".j2", ".jinja"];

/// The cases of a skill, which agents do not get.
const CASES: &str = "evals/";

/// What to tell a person of texts of a skill that no edit changes; `None` where there is none.
pub(crate) fn told_of_fixed_texts(skill: &SkillDoc) -> Option<String> {
    let package = SkillPackage::of(skill);
    let is_text = |path: &&String| {
        let name = path.to_ascii_lowercase();
        !name.starts_with(CASES) && TEXT_ENDINGS.iter().any(|ending| name.ends_with(ending))
    };
    let fixed: Vec<&str> = package.carried.keys().filter(is_text).map(String::as_str).collect();
    (!fixed.is_empty()).then(|| {
        format!(
            "no edit changes these files of the skill: {}; `skill.editable` names those that may",
            fixed.join(", ")
        )
    })
}

/// The skill that a run starts from: the configured one, or else that of the environment, if either has one.
///
/// # Errors
///
/// A file that cannot be read.
pub fn first_skill(skill: &SkillConfig, env: &dyn Env) -> Result<Option<SkillDoc>, Error> {
    Ok(configured_skill(skill)?.or_else(|| env.initial_skill()))
}

/// Reads a skill from a Markdown file, or from a folder with a `SKILL.md` in it.
///
/// # Errors
///
/// A file that cannot be read, is not UTF-8 or is a configuration or data, a folder that is not a skill package.
pub fn read_skill(path: &Path) -> Result<SkillDoc, Error> {
    if path.is_dir() {
        let package = read_folder(path).map_err(Error::SkillFolder)?;
        return package
            .document()
            .map_err(|source| Error::SkillFolder(FolderError::Package { path: path.to_owned(), source }));
    }
    let skill = read_document(path)?;
    match NotASkill::of(path, skill.source_text()) {
        Some(what) => Err(Error::NotASkill { path: path.to_owned(), what }),
        None => Ok(skill),
    }
}

fn read_document(path: &Path) -> Result<SkillDoc, Error> {
    text_file::read(path).map(SkillDoc::new).map_err(|source| match text_file::fault_of(&source) {
        Some(fault) => Error::NotASkill { path: path.to_owned(), what: NotASkill::NoText(fault) },
        None => Error::Read { what: "skill", path: path.to_owned(), source },
    })
}

/// The best skill of a run, with the files that it carries along.
///
/// # Errors
///
/// Files that cannot be read, and a skill that is not as the run left it.
pub fn best_skill(run: &Path) -> Result<SkillDoc, Error> {
    // Whatever a model made of it, it is the skill of the run.
    let skill = match RunReader::open(run) {
        Ok(reader) => reader.best_skill()?,
        Err(PipelineError::NoRun { .. }) => read_document(&run.join("best_skill.md"))?,
        Err(error) => return Err(error.into()),
    };
    let kept = run.join(CARRIED_DIR);
    let mut carried = CarriedFiles::default();
    for path in SkillPackage::of(&skill).carried.into_keys() {
        let file = kept.join(&path);
        let bytes = regular_file::read(&file).map_err(|source| Error::Read {
            what: "skill",
            path: file.clone(),
            source,
        })?;
        carried.insert(path, CarriedFile::new(bytes, is_executable(&file)));
    }
    Ok(skill.with_carried(carried))
}

/// How skills are selected, as `[retrieval]` says; without the section, by its defaults.
///
/// `embedding` is the model that a threshold belongs to.
///
/// # Errors
///
/// A table of types that cannot be read, or a setting that cannot work.
pub fn retrieval(
    config: Option<&RetrievalConfig>,
    embedding: Option<&dyn EmbeddingModel>,
) -> Result<Retrieval, Error> {
    let config = config.cloned().unwrap_or_default();
    let mut settings = RetrievalSettings::default();
    config.fill(&mut settings);
    settings.task_top_k = usize::try_from(config.task_top_k).ok();
    settings.token_budget = (config.token_budget > 0).then_some(config.token_budget);
    settings.threshold = config
        .threshold
        .zip(embedding)
        .map(|(value, model)| Threshold { model: model.id().to_string(), value });
    let retrieval =
        Retrieval::new(settings).map_err(|source| bank_error(Path::new("[retrieval]"), source))?;
    let Some(table) = &config.task_types else { return Ok(retrieval) };
    let path = table.to_path();
    let text = text_file::read(&path).map_err(|source| Error::Read {
        what: "table of task types",
        path: path.clone(),
        source,
    })?;
    let types = TypeTable::from_json(&text).map_err(|source| bank_error(&path, source))?;
    Ok(retrieval.with_types(types))
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

/// The bank to start from, with the text that it was read from where that is of another system.
///
/// # Errors
///
/// A bank, or the text that it was imported from, that cannot be read.
#[expect(clippy::type_complexity, reason = "a bank and where it came from")]
pub(crate) fn initial_bank(
    config: Option<&BankConfig>,
) -> Result<Option<(Bank, Option<(BankFormat, String)>)>, Error> {
    let Some(path) = config.and_then(|bank| bank.initial.as_ref()) else { return Ok(None) };
    let path = path.to_path();
    let ReadBank { bank, format, .. } = read_bank(&path)?;
    check_contents(&path, &bank, config.map_or(Show::Skills, |config| config.show))?;
    // A log by itself has no text of another system beside it.
    let source = match format {
        BankFormat::Log if !path.is_dir() => None,
        _ => read_source(&path, &bank)?,
    };
    Ok(Some((bank, source)))
}

/// Refuses a bank of skills where episodes are shown, and one of episodes where skills are.
///
/// # Errors
///
/// A bank with something else, or with nothing where nothing can be added.
pub(crate) fn check_contents(path: &Path, bank: &Bank, show: Show) -> Result<(), Error> {
    let (n_episodes, n_skills) = bank.contents();
    let found = match show {
        Show::Skills if n_episodes > 0 => {
            format!("{n_episodes} recorded episodes, and no skills are shown beside them")
        }
        Show::Episodes if n_skills > 0 => format!("{n_skills} skills, and no episodes are shown beside them"),
        Show::Episodes if n_episodes == 0 => "no episodes on record".to_owned(),
        Show::Skills | Show::Episodes => return Ok(()),
    };
    Err(bank_error(path, BankError::OtherContents { found }))
}

fn bank_error(path: &Path, source: BankError) -> Error {
    Error::Pipeline(PipelineError::Bank { path: path.to_owned(), source })
}
