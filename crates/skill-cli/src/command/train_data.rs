//! `skillrl train DATA`: what is missing of a configuration is guessed from the data, said, and written to a file.

use super::UsageError;
use crate::args::{DataArgs, Start};
use skillrl::config::FILE_NAME;
use skillrl::core::labels::similar_labels;
use skillrl::envs::tasks::{DataSample, DataSurvey};
use skillrl::llm::{PROVIDERS, Provider};
use skillrl::pipeline::run_dir::{RunStatus, run_status};
use std::path::{Component, Path, PathBuf};

/// The default model of a provider whose key is set.
const USUAL_MODELS: [(&str, &str); 2] = [("openai", "gpt-5-mini"), ("anthropic", "claude-haiku-4-5")];

/// How the names of models begin, and whose they are.
const BEGINNINGS: [(&str, &str); 7] = [
    ("gpt-", "openai"),
    ("o1", "openai"),
    ("o3", "openai"),
    ("o4", "openai"),
    ("claude-", "anthropic"),
    ("gemini-", "gemini"),
    ("deepseek-", "deepseek"),
];

/// A configuration file that this command wrote.
pub(super) struct WrittenConfig {
    file: PathBuf,
    text: String,
    run: PathBuf,
}

impl WrittenConfig {
    /// Removes the file, unless a run has started from it or it was edited. It would refuse the next command, which differs
    /// from this one in what was wrong.
    pub(super) fn remove_if_unused(self, quiet: bool) {
        let is_unchanged = std::fs::read_to_string(&self.file).is_ok_and(|found| found == self.text);
        if run_status(&self.run) != RunStatus::Absent || !is_unchanged {
            return;
        }
        if std::fs::remove_file(&self.file).is_ok() && !quiet {
            super::say(&format!("removed {}: the run did not start", self.file.display()));
        }
    }
}

/// The start of a run on data: writes a configuration that repeats it, and says what was guessed.
///
/// The same command again finds the same file, and continues the run.
pub(super) fn start(
    data: &Path,
    args: &DataArgs,
    start: Start,
    quiet: bool,
) -> anyhow::Result<(Start, Option<WrittenConfig>)> {
    let fetched = match is_of_hub(data) {
        true => Some(fetched(data)?),
        false => None,
    };
    let run = data.file_stem().and_then(|stem| stem.to_str()).unwrap_or("run");
    let (data, run) = match &fetched {
        Some((path, name)) => (path.as_path(), name.as_str()),
        None => (data, run),
    };
    let run = format!("runs/{run}");
    let settings = settings((data, &run), args, start.mock == Some(true), &|name| {
        std::env::var_os(name).is_some_and(|value| !value.is_empty())
    })?;
    let text = skillrl::config::default_file(&settings).map_err(skillrl::Error::Config)?;
    let path = PathBuf::from(FILE_NAME);
    let is_new = match std::fs::read_to_string(&path) {
        Ok(found) if found == text => false,
        Ok(_) => {
            let message = format!("{FILE_NAME} is there already, and says something else than these options");
            let hint = format!(
                "train with it: `skillrl train`; or move it away, since this command writes {FILE_NAME}"
            );
            return Err(UsageError::new(message).with_hint(hint).into());
        }
        Err(_) => true,
    };
    if is_new {
        super::write_files(Path::new(""), [(FILE_NAME, text.as_str())], false)?;
    }
    if !quiet {
        let lines: String =
            settings.iter().map(|setting| format!("\n  {}", setting.replacen('=', " = ", 1))).collect();
        let written = if is_new { "wrote" } else { "as in" };
        super::say(&format!("{written} {FILE_NAME}; beside the defaults it says:{lines}"));
    }
    let written = WrittenConfig { file: path.clone(), text, run: run.into() };
    // With another `run.dir` than the written one, a run may have started there.
    let is_elsewhere = start.overrides.iter().any(|setting| setting.trim_start().starts_with("run.dir"));
    Ok((Start { file: Some(path), ..start }, Some(written).filter(|_| is_new && !is_elsewhere)))
}

/// True for a data set of the Hugging Face Hub.
fn is_of_hub(data: &Path) -> bool {
    data.to_str().is_some_and(|path| path.starts_with("hf://"))
}

/// True for a path of the form `OWNER/NAME` where neither exists: probably a data set of the Hub.
pub(super) fn looks_like_a_name_of_the_hub(path: &Path) -> bool {
    let mut parts = path.components();
    let is_pair = [parts.next(), parts.next()].iter().all(|part| matches!(part, Some(Component::Normal(_))))
        && parts.next().is_none();
    is_pair && path.extension().is_none() && path.parent().is_some_and(|owner| !owner.exists())
}

/// Downloads a data set of the Hub, unless this revision is there; returns where it is, and the name of the run.
#[cfg(feature = "tables")]
fn fetched(data: &Path) -> anyhow::Result<(PathBuf, String)> {
    use skillrl::hub::{HUB_ENDPOINT, Hub, HubName};
    let text = data.to_str().unwrap_or_default();
    let Some(name) = HubName::parse(text) else {
        let message = format!("`{text}` does not name a data set of the Hugging Face Hub");
        return Err(UsageError::new(message)
            .with_hint("write hf://OWNER/NAME, hf://OWNER/NAME/CONFIG or hf://OWNER/NAME:SPLIT")
            .into());
    };
    let asked = std::env::var(skillrl::env_vars::HUB_ENDPOINT).ok().filter(|asked| !asked.trim().is_empty());
    let endpoint = asked.unwrap_or_else(|| HUB_ENDPOINT.to_owned());
    let transport = skillrl::llm::ReqwestTransport::new()?;
    let hub = Hub::new(&endpoint, &transport);
    let fetching = hub.fetch(&name, Path::new("data"));
    let path = super::block_on(skillrl::pipeline::StopSignal::default(), "stopping", fetching)?
        .map_err(|error| UsageError::new(skillrl::llm::error::with_causes(&error)).with_hint(error.hint()))?;
    Ok((path, name.short().to_owned()))
}

/// That this build does not read such data.
#[cfg(not(feature = "tables"))]
fn fetched(data: &Path) -> anyhow::Result<(PathBuf, String)> {
    let message = format!(
        "{} is read by builds with the cargo feature `tables`, which this build does not have",
        data.display()
    );
    let hint = "install with `--features full`, or write the data by `datasets.load_dataset(..).to_json(..)`";
    Err(UsageError::new(message).with_hint(hint).into())
}

/// The settings that the data and the options come to, in the form `KEY=VALUE`.
fn settings(
    (data, run): (&Path, &str),
    args: &DataArgs,
    is_mock: bool,
    is_set: &dyn Fn(&str) -> bool,
) -> anyhow::Result<Vec<String>> {
    if data.to_str().is_some_and(|path| path.contains("://")) {
        let message = format!("{} is an address, and data are read from files", data.display());
        let hint = "download it first; a data set of Hugging Face is named `hf://OWNER/NAME`";
        return Err(UsageError::new(message).with_hint(hint).into());
    }
    let sample = DataSample::read(data).map_err(skillrl::Error::Env)?;
    let names = || {
        let names: Vec<String> = sample.fields.keys().map(|name| format!("`{name}`")).collect();
        names.join(", ")
    };
    let answer = match (&args.answer, sample.answer_field) {
        (Some(asked), _) if sample.fields.contains_key(asked) => asked.as_str(),
        (Some(asked), _) => {
            let message = format!("the data has no field `{asked}`");
            return Err(UsageError::new(message).with_hint(format!("its fields are {}", names())).into());
        }
        (None, Some(usual)) => usual,
        (None, None) => {
            let message = format!("no field of {} has a usual name of an answer", data.display());
            let hint = format!("name it with `--answer`: one of {}", names());
            return Err(UsageError::new(message).with_hint(hint).into());
        }
    };
    let mut settings = vec![setting("env.kind", "tasks"), setting("env.data", &data.display().to_string())];
    settings.push(setting("env.answer_field", answer));
    settings.push(setting("run.dir", run));
    let survey = DataSurvey::read(data, answer).map_err(skillrl::Error::Env)?;
    if let Some(id) = &survey.id_field {
        settings.push(setting("env.id_field", id));
    }
    let labels = survey.labels.filter(|_| !sample.has_choices);
    for pair in labels.iter().flat_map(similar_labels) {
        let (rare, usual) = (&pair.rare, &pair.usual);
        tracing::warn!(
            "the labels `{rare}` ({}) and `{usual}` ({}) may be one: correct the data if `{rare}` is a misspelling",
            pair.n_rare,
            pair.n_usual
        );
    }
    // A split by labels has items of each class in every part.
    if labels.is_some() && !sample.has_task_type() {
        settings.push(setting("env.type_field", answer));
    }
    // Labels are the same text or not; words in common with another label say nothing.
    let scorer = if labels.is_some() { "exact" } else { sample.scorer(answer) };
    settings.push(setting("env.scorer", scorer));
    let asked = sample.prompt(answer);
    let prompt = match (&labels, asked) {
        (Some(labels), Some(asked)) => {
            let labels: Vec<&str> = labels.keys().map(String::as_str).collect();
            Some(format!("{asked}\n\nAnswer with one of these and nothing else: {}", labels.join(", ")))
        }
        (None, asked) => asked.filter(|_| !sample.has_usual_fields()),
        (Some(_), None) => None,
    };
    if let Some(prompt) = prompt {
        settings.push(setting("env.user_prompt", &serde_json::to_string(&prompt)?));
    }
    if !is_mock || args.model.is_some() || args.target.is_some() {
        settings.extend(models(args, is_set)?);
    }
    settings.push(super::init::PLANNED.to_owned());
    if let Some(budget) = args.budget {
        if !budget.is_finite() || budget <= 0.0 {
            return Err(UsageError::new("--budget takes an amount above 0, such as 2 or 0.5").into());
        }
        settings.push(setting("budget.money", &format!("{budget:?}")));
    }
    Ok(settings)
}

fn models(args: &DataArgs, is_set: &dyn Fn(&str) -> bool) -> anyhow::Result<Vec<String>> {
    let usual = || {
        let has_key = |provider: &&str| {
            Provider::find(provider).and_then(|found| found.key_variable).is_some_and(is_set)
        };
        let found = USUAL_MODELS.iter().find(|(provider, _)| has_key(provider));
        found.map(|(provider, model)| format!("{provider}/{model}"))
    };
    let both = args.model.clone().or_else(|| usual().filter(|_| args.base_url.is_none()));
    let target = args.target.as_ref().or(both.as_ref());
    let optimizer = args.optimizer.as_ref().or(both.as_ref()).or(target);
    let (Some(target), Some(optimizer)) = (target, optimizer) else {
        let hint = "name one with `--model`, such as `--model gpt-5-mini`; `--mock` tries the command without a model";
        let message = match args.base_url {
            Some(_) => "which model does the server have that `--base-url` names?",
            None => "no model is named, and neither OPENAI_API_KEY nor ANTHROPIC_API_KEY is set",
        };
        return Err(UsageError::new(message).with_hint(hint).into());
    };
    let mut settings = Vec::new();
    for (role, name) in [("target", target), ("optimizer", optimizer)] {
        let mut add = |key: &str, value: &str| settings.push(setting(&format!("models.{role}.{key}"), value));
        if args.base_url.is_none() && is_local(name) {
            add("kind", "local");
            add("path", name);
            // A local model refuses schemas unless told to ignore them; JSON is found in any text.
            if role == "optimizer" {
                add("response_schema", "ignore");
            }
            continue;
        }
        if let Some(url) = &args.base_url {
            add("base_url", url);
            add("model", name);
            // Many small servers know no schemas, and JSON is read from any text.
            if role == "optimizer" {
                add("response_format", "off");
            }
            continue;
        }
        let (provider, model) = provider_of(name)?;
        add("provider", provider);
        add("model", model);
    }
    Ok(settings)
}

/// True for the weights of a model on this machine: a GGUF file, or a folder of a model.
fn is_local(name: &str) -> bool {
    let path = Path::new(name);
    let is_gguf = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("gguf"));
    is_gguf || path.join("config.json").is_file()
}

/// The provider and the model of a name such as `openai/gpt-5-mini` or `gpt-5-mini`.
fn provider_of(name: &str) -> Result<(&str, &str), UsageError> {
    if let Some((provider, model)) = name.split_once('/')
        && Provider::find(provider).is_some()
    {
        return Ok((provider, model));
    }
    let known = BEGINNINGS.into_iter().find(|(beginning, _)| name.starts_with(beginning));
    known.map(|(_, provider)| (provider, name)).ok_or_else(|| {
        let providers: Vec<&str> = PROVIDERS.iter().map(|provider| provider.name).collect();
        UsageError::new(format!("it is not known who serves the model `{name}`")).with_hint(format!(
            "write `PROVIDER/{name}` with one of {}, or name the address of your server with `--base-url`",
            providers.join(", ")
        ))
    })
}

fn setting(key: &str, value: &str) -> String {
    format!("{key}={value}")
}
