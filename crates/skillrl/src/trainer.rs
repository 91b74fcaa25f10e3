//! Makes the trainers of a configuration.

mod elsewhere;

use crate::config::key::declare::{Carry as _, Fill as _};
use crate::config::recorded::needed_overrides;
use crate::config::{
    Anchors, Config, GateConfig, LoadedConfig, ModelRole, Schedule, ValueSource, simulated_models,
};
use crate::cost::prices;
use crate::engine::{Engine, RunModels};
use crate::error::Error;
use crate::hint::CommandHints;
use crate::{prompts, skills, world};
use elsewhere::{elsewhere, with_runner, with_their_trouble, with_workers};
use serde_json::{Map, Value};
use skill_core::package::FrontMatterEdits;
use skill_core::schedule::{BudgetControl, EditBudget};
use skill_core::search_plan::SearchBudget;
use skill_core::{GateKind, GateMode, TokenSaving};
use skill_envs::EnvError;
use skill_llm::EmbeddingModel;
use skill_pipeline::bank::{BankSettings, BankTrainer, Show};
use skill_pipeline::run_dir::live::LiveEvents;
use skill_pipeline::{
    Acceptance, Event, EventSink, RunConfig, SkillAware, StopSignal, TrainSettings, Trainer, Warning,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The trainer of a document that a configuration describes, with everything it needs, and the directory of its run.
///
/// # Errors
///
/// Data, prompts, a skill or models that are not what the configuration says; nothing is sent.
pub fn document(
    loaded: &LoadedConfig,
    events: Arc<dyn EventSink>,
    stop: StopSignal,
) -> Result<(Trainer, PathBuf), Error> {
    let mut engine = Engine::new(loaded).for_training();
    let models = engine.run_models(ModelRole::Optimizer)?;
    let targets = engine.evaluation_targets()?;
    let trainer = of_engine(&engine, models, events, stop)?
        .with_targets(loaded.config.train.targets_score.unwrap_or_default(), targets);
    Ok((trainer, loaded.run_dir()))
}

/// The trainer of a bank that a configuration describes, and the directory of its run.
///
/// # Errors
///
/// Data, prompts, a bank or models that are not what the configuration says; nothing is sent.
pub fn bank(
    loaded: &LoadedConfig,
    events: Arc<dyn EventSink>,
    stop: StopSignal,
) -> Result<(BankTrainer, PathBuf), Error> {
    let mut engine = Engine::new(loaded).for_training();
    let models = engine.run_models(ModelRole::Teacher)?;
    let embedding = engine.retrieval_model()?;
    if let Some(message) = told_of_episodes(loaded) {
        events.emit(&Event::warning(None, Warning::Note { message }, None));
    }
    let base = of_engine(&engine, models, events, stop)?;
    Ok((bank_over(&loaded.config, base, embedding)?, loaded.run_dir()))
}

/// The trainer with these models of an engine; `run.runner` decides where its rollouts run.
fn of_engine(
    engine: &Engine<'_>,
    models: RunModels,
    events: Arc<dyn EventSink>,
    stop: StopSignal,
) -> Result<Trainer, Error> {
    let elsewhere = elsewhere(engine.loaded())?;
    let pulse = with_workers(engine.pulse(), elsewhere.as_ref());
    let events: Arc<dyn EventSink> = Arc::new(LiveEvents::new(events, pulse));
    let trainer = document_with(engine.loaded(), models, events, stop)?
        .with_budget(engine.budget(), engine.prices())
        .with_trouble(with_their_trouble(engine.lasting_trouble(), elsewhere.as_ref()));
    Ok(with_runner(trainer, elsewhere))
}

/// The trainer of a document that a configuration describes, with other models.
///
/// # Errors
///
/// Data, prompts or a skill that are not what the configuration says.
pub fn document_with(
    loaded: &LoadedConfig,
    models: RunModels,
    events: Arc<dyn EventSink>,
    stop: StopSignal,
) -> Result<Trainer, Error> {
    let config = &loaded.config;
    let env = world::environment(loaded, models.judge)?;
    let prompts = prompts::library(&config.prompts, env.as_ref())?;
    let simulated = simulated_models(config, &ModelRole::of_training(config));
    let told = Arc::clone(&events);
    let mut trainer = Trainer::new(env, models.target, models.optimizer)
        .with_settings(settings(config)?)
        .with_prompts(prompts)
        .with_events(events)
        .with_advice(Arc::new(CommandHints))
        .with_stop(stop)
        .with_config(run_config(loaded, config.identity_entries(), &simulated));
    if let Some(dir) = &config.prompts.dir {
        for path in prompts::unsent(&dir.to_path(), config.train.protocol) {
            let message = prompts::unsent_text(&path, config.train.protocol);
            told.emit(&Event::warning(None, Warning::Note { message }, None));
        }
    }
    if let Some(skill) = skills::configured_skill(&config.skill)? {
        if let Some(message) = skills::told_of_fixed_texts(&skill) {
            told.emit(&Event::warning(None, Warning::Note { message }, None));
        }
        trainer = trainer.with_initial_skill(skill);
    }
    Ok(trainer)
}

/// The trainer of a bank over a trainer that has the models, the teacher as its optimizer; `embedding` is the model of
/// retrieval, if that needs one.
///
/// # Errors
///
/// Prompts or a bank that are not what the configuration says.
pub(crate) fn bank_over(
    config: &Config,
    base: Trainer,
    embedding: Option<Arc<dyn EmbeddingModel>>,
) -> Result<BankTrainer, Error> {
    let retrieval = skills::retrieval(config.retrieval.as_ref(), embedding.as_deref())?;
    let prompts = prompts::of_teacher(&config.prompts)?;
    let mut trainer = BankTrainer::new(base, retrieval, prompts).with_settings(bank_settings(config));
    if let Some(model) = embedding {
        trainer = trainer.with_embedding(model);
    }
    if let Some((bank, source)) = skills::initial_bank(config.bank.as_ref())? {
        trainer = trainer.with_initial_bank(bank, source);
    }
    Ok(trainer)
}

/// The configuration as the run directory keeps it; `identity` decides whether a run can be resumed.
pub(crate) fn run_config(
    loaded: &LoadedConfig,
    identity: Vec<(String, Value)>,
    simulated_models: &[&'static str],
) -> RunConfig {
    RunConfig {
        source_text: Some(loaded.source_text.clone()),
        set: needed_overrides(&loaded.source_text, &loaded.config.decisive_json()),
        resolved: loaded.config.decisive_json(),
        identity,
        dir: loaded.path.as_ref().map(|_| Path::new(".").join(loaded.base_dir())),
        simulated_models: simulated_models.iter().map(|role| (*role).to_owned()).collect(),
        named: Map::new(),
    }
}

/// Names the settings that are asked for and do nothing, since episodes are shown in place of skills.
pub(crate) fn told_of_episodes(loaded: &LoadedConfig) -> Option<String> {
    if bank_settings(&loaded.config).show == Show::Skills {
        return None;
    }
    // How often a training task is attempted decides what is on record.
    let is_idle =
        |key: &str| key == "bank.admit" || (key.starts_with("evolution.") && key != "evolution.samples");
    let is_set = |origin: &ValueSource| matches!(origin, ValueSource::File { .. } | ValueSource::Set);
    let idle = loaded.origins.iter().filter(|(key, origin)| is_idle(key) && is_set(origin));
    let idle: Vec<String> = idle.map(|(key, _)| format!("`{key}`")).collect();
    (!idle.is_empty()).then(|| {
        format!(
            "without effect with `bank.show = \"episodes\"`, which distils and tries nothing: {}",
            idle.join(", ")
        )
    })
}

/// How a bank is made and kept, as `[bank]` and `[evolution]` say.
pub fn bank_settings(config: &Config) -> BankSettings {
    let mut settings = BankSettings::default();
    config.bank.clone().unwrap_or_default().fill(&mut settings);
    config.evolution.clone().unwrap_or_default().fill(&mut settings);
    settings.effective()
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
        Schedule::Constant => (skill_core::EditBudgetSchedule::Constant, BudgetControl::Fixed),
        Schedule::Linear => (skill_core::EditBudgetSchedule::Linear, BudgetControl::Fixed),
        Schedule::Cosine => (skill_core::EditBudgetSchedule::Cosine, BudgetControl::Fixed),
        // Nothing falls: the maximum is what an analyst may propose.
        Schedule::Autonomous => (skill_core::EditBudgetSchedule::Constant, BudgetControl::Autonomous),
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
    settings.evidence.is_guarded = gate.guard.is_some();
    settings.evidence.saving =
        gate.token_saving.map(|least| TokenSaving { least, margin: gate.score_margin.unwrap_or_default() });
    settings.max_reply_tokens =
        config.models.optimizer.max_tokens().unwrap_or(config.limits.max_reply_tokens);
    Ok(settings)
}
