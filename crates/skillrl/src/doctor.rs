//! What is between a configuration and a run that is worth its money: everything that can be found out before.
//!
//! [`examine`] reads the configuration, the data and the skill, looks for the keys, and unless it is told to stay
//! offline asks each model once. Each [`Finding`] says what was looked at and how it is, and every one that is not well
//! ends with what to do about it. Nothing is written, and no run is begun or changed.

mod answers;
mod broker;
mod data;
mod labels;
mod models;
mod plan;
mod training;

pub use answers::answer_finding;
pub use labels::{choice_finding, label_findings};

use crate::config::{ConfigError, LoadedConfig, ModelRole, TrainMode};
use crate::error::Error;
use crate::{prompts, skills, trainer};
use serde::Serialize;
use skill_llm::error::with_causes;
use std::time::Duration;

/// The difference that is hoped for, unless somebody says otherwise: five points of a hundred.
pub const DEFAULT_EFFECT: f64 = 0.05;

/// The flip rate: the share of items whose outcome changes when the same skill is measured again, where nobody has measured it.
pub const DEFAULT_FLIP_RATE: f64 = 0.1;

/// Request timeout of a model.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(120);

/// How a configuration is examined.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Examination {
    /// Whether anything may be sent.
    pub network: Network,
    /// Gain on the validation split to detect, 0 to 1. `None` states the items that [`DEFAULT_EFFECT`] needs, and is a warning
    /// only where hardly an edit could be detected.
    pub effect: Option<f64>,
    /// The flip rate: the share of items whose outcome changes when the same skill is measured again, 0 to 1; `None` is what the run
    /// has measured, or [`DEFAULT_FLIP_RATE`].
    pub flip_rate: Option<f64>,
    /// Request timeout of a model.
    pub timeout: Duration,
}

impl Default for Examination {
    fn default() -> Self {
        Self { network: Network::Allowed, effect: None, flip_rate: None, timeout: DEFAULT_TIMEOUT }
    }
}

/// Whether anything may be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Network {
    /// Each model is asked once.
    Allowed,
    /// Nothing is sent, and no program is started that could.
    Offline,
}

skill_core::named_enum! {
    /// What a finding is about.
    #[non_exhaustive]
    pub enum Check {
        /// The configuration file.
        Configuration = "configuration",
        /// The run directory.
        Run = "run",
        /// The data of the environment.
        Data = "data",
        /// What programs that a model wrote run in.
        Programs = "programs",
        /// Whether the splits have nothing in common.
        Splits = "splits",
        /// Whether a right reply can score.
        Answerable = "answerable",
        /// Class labels that are misspelt, contradict each other, or are too rare.
        Labels = "labels",
        /// Whether the validation split can show what is hoped for.
        Selection = "selection",
        /// The skill to start from.
        Skill = "skill",
        /// The prompts.
        Prompts = "prompts",
        /// Whether the run makes enough decisions to find anything.
        Decisions = "decisions",
        /// What the run will take.
        Cost = "cost",
        /// Whether this machine can fine-tune the target.
        Training = "training",
        /// The broker between the run and its workers.
        Broker = "broker",
        /// A model's key.
        Key = "key",
        /// A model's server, or the program that plays it.
        Endpoint = "endpoint",
        /// Whether the server has the model.
        Model = "model",
        /// A model's answer.
        Answer = "answer",
        /// Whether the model's replies follow a schema.
        Schema = "schema",
    }
}

impl Check {
    /// The reasons for a warning or an error.
    pub fn about(self) -> &'static str {
        match self {
            Self::Configuration => "a key, a value or a path is wrong",
            Self::Run => "the run directory cannot be created or used, or contains a run with other settings",
            Self::Data => "the data does not load, or a split is empty",
            Self::Programs => "the sandbox for programs of a model does not work on this machine",
            Self::Splits => "an id occurs twice; items of two splits have the same input",
            Self::Answerable => "the prompt lacks the choices, the labels or the form of the answer",
            Self::Labels => "labels are misspelled, contradict each other, or are missing in a split",
            Self::Selection => "the validation split cannot detect the expected gain",
            Self::Skill => "the skill cannot be read, or is longer than `train.max_skill_tokens`",
            Self::Prompts => "a prompt template does not render",
            Self::Decisions => "fewer than ten decisions are planned",
            Self::Cost => {
                "a cap is below the cheapest possible run; one model has a price and another has none; \
                 replies have no limit"
            }
            Self::Training => "this machine cannot fine-tune the target",
            Self::Broker => "the NATS server does not answer, or has no workers",
            Self::Key => "the API key is missing or refused",
            Self::Endpoint => "the server or the program does not answer",
            Self::Model => "the model is not in the server's list",
            Self::Answer => "the reply is missing, empty or truncated",
            Self::Schema => "the optimizer's reply cannot be read as edits",
        }
    }
}

skill_core::named_enum! {
    /// How something is.
    #[derive(PartialOrd, Ord)]
    pub enum Status {
        /// As it should be.
        Ok = "ok",
        /// It was not looked at.
        Skipped = "skipped",
        /// A run works, but not as well as it could.
        Warning = "warning",
        /// A run would not begin, or would stop.
        Error = "error",
    }
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What it is about.
    pub check: Check,
    /// Which model it is about, if it is about one: `target`, `optimizer`, `teacher`, `judge` or `embedding`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<&'static str>,
    /// How it is.
    pub status: Status,
    /// What was found, as one line.
    pub message: String,
    /// What to do; there is something for everything that is not as it should be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl Finding {
    fn ok(check: Check, message: impl Into<String>) -> Self {
        Self { check, role: None, status: Status::Ok, message: message.into(), hint: None }
    }

    fn bad(check: Check, status: Status, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { check, role: None, status, message: message.into(), hint: Some(hint.into()) }
    }

    fn error(check: Check, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::bad(check, Status::Error, message, hint)
    }

    fn warning(check: Check, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::bad(check, Status::Warning, message, hint)
    }

    fn skipped(check: Check, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::bad(check, Status::Skipped, message, hint)
    }

    fn of_error(check: Check, error: &Error) -> Self {
        Self::error(check, with_causes(error), error.hint())
    }

    fn about(self, role: ModelRole) -> Self {
        Self { role: Some(role.as_str()), ..self }
    }
}

/// One noun with its number.
fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// A name from the data between backticks, which it cannot end: pages show what is between them as code.
fn in_code(name: &str) -> String {
    format!("`{}`", name.replace('`', "'"))
}

/// Everything that was looked at, in order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DoctorReport {
    /// Whether a run can begin.
    pub ok: bool,
    /// What was found.
    pub findings: Vec<Finding>,
}

impl DoctorReport {
    fn of(findings: Vec<Finding>) -> Self {
        Self { ok: findings.iter().all(|finding| finding.status != Status::Error), findings }
    }

    /// How many findings have this status.
    pub fn count(&self, status: Status) -> usize {
        self.findings.iter().filter(|finding| finding.status == status).count()
    }
}

/// Examines a configuration, or why it cannot be read.
///
/// Whatever is wrong is a finding and no error. With the network, each model is asked once: a few hundred tokens.
pub async fn examine(loaded: Result<LoadedConfig, ConfigError>, asked: &Examination) -> DoctorReport {
    let loaded = match loaded {
        Ok(loaded) => loaded,
        Err(error) => return DoctorReport::of(of_config(&error)),
    };
    let mut findings = vec![Finding::ok(Check::Configuration, format!("{} is valid", loaded.origin))];
    findings.extend(loaded.mapping.as_ref().map(of_mapping));
    findings.extend(trainer::told_of_episodes(&loaded).map(|message| {
        Finding::warning(Check::Configuration, message, "remove these keys, or set `bank.show = \"skills\"`")
    }));
    let paths = loaded.check_paths();
    let first_request = match &paths {
        Ok(()) => {
            findings.push(plan::run_dir(&loaded));
            findings.extend(data::programs(&loaded));
            task(&loaded, asked, &mut findings).await
        }
        Err(error) => {
            findings = of_config(error);
            let hint = "put the paths right, then run this again";
            findings.push(Finding::skipped(Check::Data, "the data was not checked without its files", hint));
            None
        }
    };
    findings.extend(training::examine(&loaded));
    findings.extend(training::server(&loaded, asked).await);
    broker::examine(&loaded, asked.network, &mut findings).await;
    models::examine(&loaded, first_request, asked, &mut findings).await;
    DoctorReport::of(findings)
}

/// What the agent is asked first in a run, with its initial skill; `None` where that is not known without starting a
/// program. Nothing is sent.
///
/// # Errors
///
/// Data, a skill or a prompt that a run would not begin with.
pub async fn first_request(loaded: &LoadedConfig) -> Result<Option<skill_llm::ChatRequest>, Error> {
    let env = data::environment(loaded)?;
    let skill = skills::first_skill(&loaded.config.skill, env.as_ref())?.unwrap_or_default();
    Ok(data::first_request(loaded, env.as_ref(), &skill).await)
}

/// The keys of a file of another system.
fn of_mapping(mapping: &crate::config::Mapping) -> Finding {
    let lost: Vec<&str> = mapping.without_counterpart().map(|lost| lost.key.as_str()).collect();
    let lost = if lost.is_empty() { "none".to_owned() } else { lost.join(", ") };
    let n_mapped = mapping.mapped.len();
    Finding::ok(Check::Configuration, format!("{n_mapped} keys were mapped; without a counterpart: {lost}"))
}

fn of_config(error: &crate::config::ConfigError) -> Vec<Finding> {
    let of_problem = |problem: &crate::config::Problem| {
        Finding::error(Check::Configuration, problem.to_string(), problem.kind.hint())
    };
    match error.problems() {
        [] => vec![Finding::error(Check::Configuration, with_causes(error), error.hint())],
        problems => problems.iter().map(of_problem).collect(),
    }
}

/// Looks at the task, the skill and the plan; returns what the agent would be asked first.
async fn task(
    loaded: &LoadedConfig,
    asked: &Examination,
    findings: &mut Vec<Finding>,
) -> Option<skill_llm::ChatRequest> {
    let settings = trainer::settings(&loaded.config)
        .and_then(|settings| settings.validate().map(|()| settings).map_err(Error::Pipeline));
    if let Err(error) = &settings {
        findings.push(Finding::of_error(Check::Configuration, error));
    }
    let env = match data::environment(loaded) {
        Ok(env) => env,
        Err(error) => {
            findings.push(Finding::of_error(Check::Data, &error));
            return None;
        }
    };
    let env = env.as_ref();
    findings.push(data::items(loaded, env));
    let skill = data::skill(loaded, env, findings)?;
    let inputs = data::inputs(loaded, env, &skill).await;
    findings.extend(data::longest(&inputs));
    findings.extend(data::splits(env, &inputs));
    findings.extend(answers::findings(env, &skill));
    findings.extend(labels::findings(env, &inputs));
    let (flip_rate, unread) = plan::flip_rate(asked, &loaded.run_dir());
    findings.extend(unread);
    findings.push(plan::selection(env, asked, settings.as_ref().ok(), flip_rate));
    let prompts = match prompts::library(&loaded.config.prompts, env) {
        Ok(prompts) => {
            findings.push(match prompts.validate() {
                Ok(()) => Finding::ok(Check::Prompts, "all prompt templates render"),
                Err(error) => Finding::of_error(Check::Prompts, &Error::Prompt(error)),
            });
            Some(prompts)
        }
        Err(error) => {
            findings.push(Finding::of_error(Check::Prompts, &error));
            None
        }
    };
    if let (Some(dir), TrainMode::Document) = (&loaded.config.prompts.dir, loaded.config.train.mode) {
        let protocol = loaded.config.train.protocol;
        findings.extend(prompts::unsent(&dir.to_path(), protocol).into_iter().map(|path| {
            let hint = "remove the file, or replace a prompt that is sent";
            Finding::warning(Check::Prompts, prompts::unsent_text(&path, protocol), hint)
        }));
    }
    if let (Some(prompts), Ok(settings)) = (&prompts, &settings) {
        findings.extend(plan::decisions(&loaded.config, env, settings));
        findings.extend(plan::cost(loaded, env, prompts, &skill, settings).await);
    }
    data::first_request(loaded, env, &skill).await
}

#[cfg(test)]
mod tests {
    use super::in_code;

    #[test]
    fn a_name_from_the_data_cannot_end_its_backticks() {
        for name in ["T-1", "T`1", "``", ""] {
            assert_eq!(in_code(name).matches('`').count(), 2, "{name}");
        }
    }
}
