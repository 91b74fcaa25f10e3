//! From a configuration to models, an environment and a trainer.

#[cfg(feature = "alfworld")]
mod alfworld;
mod bank;
mod elsewhere;
#[cfg(feature = "exec")]
mod exec;
mod live;
mod tasks;
#[cfg(feature = "webshop")]
mod webshop;
mod worlds;

pub use bank::{
    bank_settings, bank_source, bank_trainer, bank_trainer_of, initial_bank, retrieval, retrieval_model,
    teacher_prompts,
};
pub use worlds::{max_turns, world, world_with};

use crate::config::keys::declare::{Carry as _, Fill as _};
use crate::config::{
    Anchors, Config, EnvConfig, GateConfig, LoadedConfig, ModelConfig, QaConfig, Schedule, TrainMode,
};
use crate::cost::prices;
use crate::engine::{Engine, simulated_models};
use crate::error::Error;
use crate::hint::CommandHints;
use crate::not_a_skill::NotASkill;
use elsewhere::{elsewhere, with_runner, with_their_trouble, with_workers};
use skill_core::carried::{CarriedFile, CarriedFiles};
use skill_core::package::{FrontMatterEdits, SkillPackage};
use skill_core::schedule::{BudgetControl, EditBudget};
use skill_core::search_plan::SearchBudget;
use skill_core::{GateKind, GateMode, SkillDoc, TokenSaving};
use skill_envs::folder::{FolderError, is_executable, read_folder};
use skill_envs::{Env, EnvError, Split, qa};
use skill_llm::{ChatModel, PromptError, PromptTemplate, text_file};
use skill_pipeline::prompts::PromptLibrary;
use skill_pipeline::run_dir::CARRIED_DIR;
use skill_pipeline::run_dir::live::LiveEvents;
use skill_pipeline::trainer::environment_prompts;
use skill_pipeline::{
    Acceptance, EventSink, NamedModels, PipelineError, RunConfig, RunReader, SkillAware, StopSignal,
    TrainSettings, Trainer,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Which part a model plays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ModelRole {
    /// The agent that works from the skill.
    Target,
    /// The model that proposes edits.
    Optimizer,
    /// The model that grades answers.
    Judge,
    /// The model that writes the skills of a bank.
    Teacher,
}

impl ModelRole {
    /// The models that training asks, besides a judge.
    pub fn of_training(config: &Config) -> [Self; 2] {
        match config.train.mode {
            TrainMode::Document => [Self::Target, Self::Optimizer],
            TrainMode::Bank | TrainMode::Weights => [Self::Target, Self::Teacher],
        }
    }

    /// The name in the configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Target => "target",
            Self::Optimizer => "optimizer",
            Self::Judge => "judge",
            Self::Teacher => "teacher",
        }
    }

    /// The section of the configuration; a judge need not have one, and without a teacher the optimizer is it.
    pub fn config(self, config: &Config) -> Option<&ModelConfig> {
        match self {
            Self::Target => Some(&config.models.target),
            Self::Optimizer => Some(&config.models.optimizer),
            Self::Judge => config.models.judge.as_ref(),
            Self::Teacher => Some(config.models.teacher.as_ref().unwrap_or(&config.models.optimizer)),
        }
    }
}

/// The trainer that a configuration describes, with everything it needs.
///
/// # Errors
///
/// Data, prompts, a skill or models that are not what the configuration says; nothing is sent.
pub fn trainer(
    loaded: &LoadedConfig,
    events: Arc<dyn EventSink>,
    stop: StopSignal,
) -> Result<(Trainer, PathBuf), Error> {
    let mut engine = Engine::new(loaded).for_training();
    let target = engine.model(ModelRole::Target)?;
    let optimizer = engine.model(ModelRole::Optimizer)?;
    let models = RunModels { target, optimizer, judge: engine.judge()? };
    let targets = evaluation_targets(&mut engine)?;
    let elsewhere = elsewhere(loaded)?;
    let pulse = with_workers(engine.pulse(), elsewhere.as_ref());
    let events: Arc<dyn EventSink> = Arc::new(LiveEvents::new(events, pulse));
    let trainer = trainer_of(loaded, models, events, stop)?
        .with_targets(loaded.config.train.targets_score.unwrap_or_default(), targets)
        .with_budget(engine.budget(), engine.prices())
        .with_trouble(with_their_trouble(engine.lasting_trouble(), elsewhere.as_ref()));
    Ok((with_runner(trainer, elsewhere), run_dir(loaded)))
}

/// The targets that do the selection and the test split, where these are not the target alone.
///
/// # Errors
///
/// As [`Engine::target`].
pub fn evaluation_targets(engine: &mut Engine<'_>) -> Result<NamedModels, Error> {
    let names = engine.loaded().config.train.targets();
    names.iter().map(|name| Ok((name.clone(), engine.target(name)?))).collect()
}

/// The models of a run.
#[derive(Clone)]
pub struct RunModels {
    /// The agent.
    pub target: Arc<dyn ChatModel>,
    /// What proposes edits.
    pub optimizer: Arc<dyn ChatModel>,
    /// What grades answers, where the environment has it done.
    pub judge: Option<Arc<dyn ChatModel>>,
}

/// The trainer that a configuration describes, with other models.
///
/// # Errors
///
/// Data, prompts or a skill that are not what the configuration says.
pub fn trainer_of(
    loaded: &LoadedConfig,
    models: RunModels,
    events: Arc<dyn EventSink>,
    stop: StopSignal,
) -> Result<Trainer, Error> {
    let config = &loaded.config;
    let env = environment_with(loaded, models.judge)?;
    let prompts = prompts(loaded, env.as_ref())?;
    let mut trainer = Trainer::new(env, models.target, models.optimizer)
        .with_settings(settings(config)?)
        .with_prompts(prompts)
        .with_events(events)
        .with_advice(Arc::new(CommandHints))
        .with_stop(stop)
        .with_config(RunConfig {
            source_text: Some(loaded.source_text.clone()),
            resolved: config.decisive_json(),
            identity: config.identity_entries(),
            dir: loaded.path.as_ref().map(|_| Path::new(".").join(loaded.base_dir())),
            simulated_models: simulated_models(config, &ModelRole::of_training(config))
                .into_iter()
                .map(str::to_owned)
                .collect(),
        });
    if let Some(skill) = initial_skill(loaded)? {
        trainer = trainer.with_initial_skill(skill);
    }
    Ok(trainer)
}

/// The run directory.
pub fn run_dir(loaded: &LoadedConfig) -> PathBuf {
    loaded.resolve(&loaded.config.run.dir)
}

/// The environment, without a judge: for those who only look at its items, or have no rubric.
///
/// # Errors
///
/// Data that is not what it should be.
pub fn environment(loaded: &LoadedConfig) -> Result<Arc<dyn Env>, Error> {
    environment_with(loaded, None)
}

/// The environment with the model that grades answers, see [`Engine::judge`].
///
/// # Errors
///
/// Data that is not what it should be.
pub fn environment_with(
    loaded: &LoadedConfig,
    judge: Option<Arc<dyn ChatModel>>,
) -> Result<Arc<dyn Env>, Error> {
    worlds::environment(loaded, judge)
}

/// The same for those who look at its data alone: faults of single items that a run is refused for are in
/// [`Env::faults`].
///
/// # Errors
///
/// As [`environment_with`], for all other faults.
pub fn environment_to_check(
    loaded: &LoadedConfig,
    judge: Option<Arc<dyn ChatModel>>,
) -> Result<Arc<dyn Env>, Error> {
    if let EnvConfig::Tasks(asked) = &loaded.config.env {
        return tasks::environment_to_check(loaded, asked, judge);
    }
    environment_with(loaded, judge)
}

fn qa_environment(loaded: &LoadedConfig, asked: &QaConfig) -> Result<Arc<dyn Env>, Error> {
    let scorer = asked.scorer.as_str();
    let config = qa::QaConfig {
        data: loaded.resolve(&asked.data),
        split_ratio: asked.split_ratio,
        split_rule: asked.split_rule,
        test_is_optional: !loaded.config.eval.test,
        split_seed: asked.split_seed,
        scorer: qa::QaScorer::parse(scorer).ok_or_else(|| {
            // The configuration's own check comes first.
            let message = format!("`env.scorer` \"{scorer}\" is not one of kind \"qa\"");
            Error::Env(EnvError::Configuration { message })
        })?,
        max_tokens: asked.max_tokens,
        prompt: replaced_prompt(loaded, qa::ROLLOUT_PROMPT_NAME)?,
    };
    Ok(Arc::new(qa::QaEnv::load(&config).map_err(|error| env_error(loaded, error))?))
}

/// What to say of an environment that cannot be set up.
fn env_error(loaded: &LoadedConfig, error: EnvError) -> Error {
    match error {
        // The environment knows the prompt's text, not the file that it comes from.
        EnvError::Prompt(error) => {
            let path = replaced_prompt_path(loaded, &error.prompt).filter(|path| path.is_file());
            Error::Prompt(match path {
                Some(path) => PromptError { prompt: path.display().to_string(), ..error },
                None => error,
            })
        }
        error => Error::Env(error),
    }
}

/// The text of a prompt that `prompts.dir` replaces and that is not the trainer's.
pub(crate) fn replaced_prompt(loaded: &LoadedConfig, name: &str) -> Result<Option<String>, Error> {
    let Some(path) = replaced_prompt_path(loaded, name) else { return Ok(None) };
    let text = match text_file::read(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(Error::Read { what: "prompt", path, source }),
    };
    PromptTemplate::warn_of_unused_text(&path, &text);
    let built_in = crate::built_in_prompts().find(|(built_in, _)| *built_in == name);
    let embedded = built_in.map(|(_, source)| source).unwrap_or_default();
    Ok(Some(PromptTemplate::in_place_of(embedded, text)))
}

/// Where `prompts.dir` would hold a prompt of the environment.
fn replaced_prompt_path(loaded: &LoadedConfig, name: &str) -> Option<PathBuf> {
    let dir = loaded.config.prompts.dir.as_ref()?;
    Some(loaded.resolve(dir).join(format!("{name}.md")))
}

/// The prompts of the optimizer: built in, replaced by the environment, replaced by `prompts.dir`.
///
/// # Errors
///
/// A file in `prompts.dir` that is not a template or has the name of no prompt.
pub fn prompts(loaded: &LoadedConfig, env: &dyn Env) -> Result<PromptLibrary, Error> {
    let library = environment_prompts(env).map_err(Error::Prompt)?;
    match &loaded.config.prompts.dir {
        Some(dir) => {
            let others: Vec<&str> = crate::other_prompts().map(|(name, _)| name).collect();
            library.with_directory(&loaded.resolve(dir), &others).map_err(Error::Prompts)
        }
        None => Ok(library),
    }
}

/// The skill to start from, if the configuration names one.
///
/// # Errors
///
/// A file that cannot be read.
pub fn initial_skill(loaded: &LoadedConfig) -> Result<Option<SkillDoc>, Error> {
    match &loaded.config.skill.initial {
        Some(path) => read_skill(&loaded.resolve(path)).map(Some),
        None => Ok(None),
    }
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
        let bytes = std::fs::read(&file).map_err(|source| Error::Read {
            what: "skill",
            path: file.clone(),
            source,
        })?;
        carried.insert(path, CarriedFile::new(bytes, is_executable(&file)));
    }
    Ok(skill.with_carried(carried))
}

/// The split of this name.
///
/// # Errors
///
/// A name that no split has.
pub fn split(name: &str) -> Result<Split, Error> {
    Split::parse(name).ok_or_else(|| Error::UnknownSplit { name: name.to_owned() })
}

/// One of the models, for those who need no other.
///
/// # Errors
///
/// A key that is not in the environment, a scripted file that cannot be read, an address that cannot be one.
pub fn model(loaded: &LoadedConfig, role: ModelRole) -> Result<Arc<dyn ChatModel>, Error> {
    Engine::new(loaded).model(role)
}

/// One of the models without its key, for those who only want to know what identifies it.
///
/// # Errors
///
/// As [`model`], less the key.
pub fn model_without_key(loaded: &LoadedConfig, role: ModelRole) -> Result<Arc<dyn ChatModel>, Error> {
    Engine::without_keys(loaded).model(role)
}

/// What a candidate must show, with the setting of its mode.
fn gate_mode(gate: &GateConfig) -> GateMode {
    match gate.mode {
        GateKind::Strict => GateMode::Strict,
        GateKind::Paired => GateMode::Paired { standard_errors: gate.standard_errors },
        GateKind::Mcnemar => GateMode::Mcnemar { alpha: gate.alpha },
        GateKind::EProcess => GateMode::EProcess { alpha: gate.alpha },
        GateKind::NoRegression => GateMode::NoRegression { max_losses: gate.max_losses.carry() },
    }
}

/// The settings of training: those of the rows of [`crate::config::types`] that name one, and here those that several
/// keys make.
///
/// # Errors
///
/// A combination that cannot work.
pub fn settings(config: &Config) -> Result<TrainSettings, Error> {
    let Config { run, task, train, gate, eval, .. } = config;
    let mut settings = TrainSettings::default();
    run.fill(&mut settings);
    task.fill(&mut settings);
    train.fill(&mut settings);
    gate.fill(&mut settings);
    eval.fill(&mut settings);
    let (schedule, budget_control) = match train.schedule {
        Schedule::Constant => (skill_core::Schedule::Constant, BudgetControl::Fixed),
        Schedule::Linear => (skill_core::Schedule::Linear, BudgetControl::Fixed),
        Schedule::Cosine => (skill_core::Schedule::Cosine, BudgetControl::Fixed),
        // Nothing falls: the maximum is what an analyst may propose.
        Schedule::Autonomous => (skill_core::Schedule::Constant, BudgetControl::Autonomous),
    };
    settings.edit_budget = EditBudget::new(schedule, train.edit_budget, train.min_edit_budget)
        .map_err(|error| Error::Env(EnvError::Configuration { message: error.to_string() }))?;
    settings.budget_control = budget_control;
    settings.edit_rules.fold_anchors = match train.anchors {
        Anchors::Folded => true,
        Anchors::Exact => false,
    };
    settings.edit_rules.max_tokens = Some(train.max_skill_tokens).filter(|max| *max > 0);
    settings.skill_aware = train.skill_aware.then(|| SkillAware {
        source: train.appendix_source,
        consolidate_above: train.appendix_limit.carry(),
    });
    settings.front_matter = match config.skill.edit_front_matter {
        #[cfg(feature = "yaml")]
        true => FrontMatterEdits::Sound,
        #[cfg(not(feature = "yaml"))]
        true => {
            let what = "`skill.edit_front_matter = true`".to_owned();
            return Err(Error::LeftOut { what, feature: "yaml" });
        }
        false => FrontMatterEdits::Never,
    };
    settings.search.budget = SearchBudget {
        calls: config.budget.calls.map(|calls| calls as f64),
        tokens: config.budget.tokens.map(|tokens| tokens as f64),
        money: config.budget.money,
    };
    settings.search.target_prices = prices(&config.models.target);
    settings.search.optimizer_prices = prices(&config.models.optimizer);
    settings.acceptance = if gate.enabled { Acceptance::Gate } else { Acceptance::Always };
    settings.evidence.mode = gate_mode(gate);
    settings.evidence.saving =
        gate.token_saving.map(|least| TokenSaving { least, margin: gate.score_margin.unwrap_or_default() });
    settings.max_reply_tokens =
        config.models.optimizer.max_tokens().unwrap_or(config.limits.max_reply_tokens);
    Ok(settings)
}
