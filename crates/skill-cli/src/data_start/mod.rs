//! Commands on a data file: what is missing of a configuration is guessed from the data and said. What would be sent is
//! shown first, and `skillrl train` writes the guesses to a file that repeats the run.

mod fields;
mod guess;
mod models;
mod scoring;
mod traces;
mod written;

pub(crate) use guess::Proposal;
pub(crate) use models::{further_settings, of_role, setting};
pub(crate) use written::{WrittenConfig, has_answered_call};

use crate::args::{DataArgs, MadeConfig, Start, as_word};
use crate::consent::asked;
use crate::error::CommandError;
use crate::start::load_start;
use fields::Shown;
use guess::Guess;
use skillrl::config::key::ValueType;
use skillrl::config::{Config, ConfigError, FILE_NAME, LoadedConfig, Problem, ProblemKind};
use skillrl::envs::Split;
use skillrl::envs::tasks::split_of_file;
use skillrl::identify::{PathError, PathKind, identify};
use std::borrow::Cow;
use std::path::{Component, Path, PathBuf};
use traces::Rows;

/// What a new file says of the search: a plan serves people better than the sizes of the paper.
pub(crate) const PLANNED: &str = "train.protocol=auto";

/// What a command does with data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    /// It trains: the guesses are written to a file.
    Trains,
    /// It sends items to models, and writes no configuration.
    Sends,
    /// It measures on one split, and writes no configuration.
    Measures,
    /// It shows what training would send, and refuses what training would ask about.
    Plans,
    /// It sends nothing.
    Looks,
}

impl Use {
    fn sends(self) -> bool {
        match self {
            Self::Trains | Self::Sends | Self::Measures => true,
            Self::Plans | Self::Looks => false,
        }
    }
}

/// What a command starts from.
pub(crate) struct DataStart {
    pub(crate) start: Start,
    /// The file with the guesses, for a command that trains.
    pub(crate) written: Option<WrittenConfig>,
    /// True if it is data.
    pub(crate) is_data: bool,
}

/// The start of a command that takes data in the place of a configuration.
///
/// # Errors
///
/// A path that is neither, options for data beside a configuration, data that cannot be used as it is, and what nobody
/// agreed to send.
pub(crate) fn resolve(args: &DataArgs, start: Start, used: Use, quiet: bool) -> crate::Result<DataStart> {
    let is_config = start.config.is_some() && start.config == start.file;
    let data = match &start.file {
        Some(path) if !is_config && is_data(path, args)? => path.clone(),
        file => {
            return match args.given() {
                Some(option) => Err(without_data(option, file.as_deref()).into()),
                None => Ok(DataStart { start, written: None, is_data: false }),
            };
        }
    };
    let (data, run) = match is_of_hub(&data) {
        true => fetched(&data)?,
        false => {
            let stem = data.file_stem().and_then(|stem| stem.to_str()).unwrap_or("run").to_owned();
            (data, stem)
        }
    };
    let rows = traces::rows_of(&data, args)?;
    let (data, start, args) = match rows {
        Some(rows) => {
            let (start, args) = with_rows(&rows, start, args);
            if !quiet {
                crate::output::say(&rows.said.join("\n"));
            }
            (rows.data, start, Cow::Owned(args))
        }
        None => (data, start, Cow::Borrowed(args)),
    };
    let args = args.as_ref();
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let guess = Guess::of((&data, &run), args, &start, used, &is_set)?;
    if !quiet {
        crate::output::say(&guess.said.join("\n"));
    }
    if matches!(used, Use::Trains | Use::Plans) {
        agree_to_test(&data, &start, quiet)?;
    }
    if used.sends() {
        agree(&guess.shown)?;
    } else if !quiet {
        guess.shown.concerns.iter().for_each(|concern| crate::output::say(&format!("warning: {concern}")));
    }
    let key = |setting: &str| setting.split_once('=').map(|(key, _)| key.trim().to_owned());
    let mut settings = guess.settings;
    // What a person sets is said in the place of the guess.
    settings.retain(|guessed| !start.overrides.iter().any(|set| key(set) == key(guessed)));
    settings.extend(start.overrides.iter().cloned());
    let head = format!(
        "Written by `skillrl train {}`; `skillrl train` repeats the run.\n\
         Every other setting: `skillrl config show`, `skillrl init --full other.toml`.",
        as_word(&data.display().to_string())
    );
    let file = start.config.clone().unwrap_or_else(|| PathBuf::from(FILE_NAME));
    let settings = reaching(settings, if used == Use::Trains { &file } else { Path::new(FILE_NAME) });
    let text = skillrl::config::short_file(&settings, &head).map_err(|error| without_prices(error, args))?;
    if used != Use::Looks {
        scoring::agree(&text, &start, quiet)?;
    }
    let written = match used {
        Use::Trains => {
            let loaded = Config::parse(&text, "the options", &[])?;
            Some(WrittenConfig::put(&file, &loaded, &text)?)
        }
        Use::Sends | Use::Measures | Use::Plans | Use::Looks => None,
    };
    if !quiet && !matches!(used, Use::Sends | Use::Measures) {
        let lines: String =
            settings.iter().map(|setting| format!("\n  {}", setting.replacen('=', " = ", 1))).collect();
        let place = match &written {
            Some(_) => format!(" (change it in {})", file.display()),
            None => String::new(),
        };
        crate::output::say(&format!("Inferred settings{place}:{lines}"));
    }
    let made = written.is_none().then(|| MadeConfig { text, origin: data.display().to_string() });
    // The file holds what was set, and the next command reads it there.
    let start = Start { file: Some(file), config: None, overrides: Vec::new(), made, ..start };
    Ok(DataStart { start, written, is_data: true })
}

/// What a command starts from where the rows of traces are the data: their answers, and their prompt as the initial skill.
fn with_rows(rows: &Rows, mut start: Start, args: &DataArgs) -> (Start, DataArgs) {
    const INITIAL: &str = "skill.initial";
    let is_initial = |set: &String| set.split('=').next().is_some_and(|key| key.trim() == INITIAL);
    if let Some(prompt) = &rows.prompt
        && !start.overrides.iter().any(is_initial)
    {
        start.overrides.push(setting(INITIAL, &prompt.display().to_string()));
    }
    let is_scored = rows.has_answers && args.rubric.is_none();
    let answer = args.answer.clone().or_else(|| is_scored.then(|| traces::ANSWER.to_owned()));
    (start, DataArgs { answer, ..args.clone() })
}

/// Where a cap on money lacks prices, the option that names them.
fn without_prices(error: ConfigError, args: &DataArgs) -> crate::CliError {
    let lacks = |problem: &Problem| matches!(problem.kind, ProblemKind::Unpriced { .. });
    if args.budget.is_none() || !error.problems().iter().any(lacks) {
        return error.into();
    }
    CommandError::new("`--budget` needs the prices of these models, which have no list price here")
        .with_hint(
            "name dollars per million tokens of prompts and of replies, such as `--price 0.25,2` (`--price 0,0` where \
             nothing is paid), or cap the calls in place of the money: `--set budget.calls=800`",
        )
        .into()
}

/// Settings for a file in this directory; those with a path lead there from any other directory too.
fn reaching(settings: Vec<String>, file: &Path) -> Vec<String> {
    if file.parent().is_none_or(|dir| dir.as_os_str().is_empty() || dir == Path::new(".")) {
        return settings;
    }
    let reach = |text: String| match text.split_once('=') {
        Some((key, path)) if is_path(key.trim()) && !path.contains("://") => {
            let path = std::path::absolute(path.trim()).unwrap_or_else(|_| PathBuf::from(path));
            setting(key.trim(), &path.display().to_string())
        }
        Some(_) | None => text,
    };
    settings.into_iter().map(reach).collect()
}

fn is_path(key: &str) -> bool {
    skillrl::config::keys::find(key).is_some_and(|(_, key)| matches!(key.value, ValueType::Path(_)))
}

/// Asks whether to train on a file that is a test split by its name.
///
/// # Errors
///
/// Nobody can be asked, or nobody agreed.
fn agree_to_test(data: &Path, start: &Start, quiet: bool) -> crate::Result {
    if split_of_file(data) != Some(Split::Test) {
        return Ok(());
    }
    let message =
        format!("{} is a test split by its name, and a part of it would be trained on", data.display());
    if start.agrees {
        if !quiet {
            crate::output::say(&format!("warning: {message}"));
        }
        return Ok(());
    }
    let hint = "name the folder that has its training split beside it; `skillrl eval` measures on this file; `--yes` trains \
                on it all the same";
    if asked(&format!("{message}.\n{hint}.\nGo on? [y/N]"))? == Some(true) {
        return Ok(());
    }
    Err(CommandError::of_data(format!("{message}; nothing was sent")).with_hint(hint).into())
}

/// Asks whether fields may be sent that hold what a person may not want to send.
///
/// # Errors
///
/// Nobody can be asked, or nobody agreed.
fn agree(shown: &Shown) -> crate::Result {
    if shown.concerns.is_empty() {
        return Ok(());
    }
    let hint = format!(
        "name the fields that the model is shown: `--input {}` shows these all the same",
        shown.as_input()
    );
    let concerns = shown.concerns.join("; ");
    if asked(&format!("{concerns}.\nShow it to the model all the same? [y/N]"))? == Some(true) {
        return Ok(());
    }
    Err(CommandError::of_data(format!("{concerns}; nothing was sent")).with_hint(hint).into())
}

/// True for what is data without looking at options.
pub(crate) fn may_be_data(path: &Path) -> bool {
    is_data(path, &DataArgs::default()).unwrap_or(false)
}

/// True if a path names data; a run, a configuration or a directory with one is none.
fn is_data(path: &Path, args: &DataArgs) -> crate::Result<bool> {
    if path.to_str().is_some_and(|path| path.contains("://")) {
        return Ok(true);
    }
    match identify(path) {
        Ok(PathKind::Data) => Ok(true),
        Ok(PathKind::Config) => {
            // JSON may be either, and an option for data says which.
            let is_json = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("json"));
            Ok(is_json && args.given().is_some())
        }
        Ok(PathKind::Run) => Ok(false),
        Ok(
            kind @ (PathKind::Skill | PathKind::Bank | PathKind::Tasks | PathKind::Evals | PathKind::Session),
        ) => {
            let hint = crate::start::instead_of(path, kind);
            let expected = "data or a configuration";
            Err(skillrl::Error::Path(PathError::Other { path: path.to_owned(), kind, expected, hint }).into())
        }
        // The reader of configurations says what is wrong with another file.
        Err(PathError::Unknown { .. }) if path.is_file() && may_be_config(path) => Ok(false),
        Err(PathError::Missing { .. }) if looks_like_a_name_of_the_hub(path) && args.given().is_some() => {
            Ok(false)
        }
        Err(PathError::Missing { .. }) if path.extension().is_some_and(|extension| extension == "toml") => {
            Ok(false)
        }
        Err(error) => Err(skillrl::Error::Path(error).into()),
    }
}

/// True for a file whose first line that says something is one of TOML, for YAML, and for one that cannot be read.
fn may_be_config(path: &Path) -> bool {
    if path
        .extension()
        .is_some_and(|ending| ["yaml", "yml"].iter().any(|name| ending.eq_ignore_ascii_case(name)))
    {
        return true;
    }
    let text = match skillrl::llm::text_file::read(path) {
        Ok(text) => text,
        Err(error) => return skillrl::llm::text_file::fault_of(&error).is_none(),
    };
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let is_key =
        |key: &str| key.trim().chars().all(|sign| sign.is_ascii_alphanumeric() || "_-.\"".contains(sign));
    lines
        .next()
        .is_none_or(|line| line.starts_with('[') || line.split_once('=').is_some_and(|(key, _)| is_key(key)))
}

/// An option for data, without a path that names data.
fn without_data(option: &str, path: Option<&Path>) -> CommandError {
    if let Some(name) = path.filter(|path| looks_like_a_name_of_the_hub(path)) {
        let message = format!("{} does not exist", name.display());
        let hint = format!("a data set of the Hugging Face Hub is named `hf://{}`", name.display());
        return CommandError::new(message).with_hint(hint);
    }
    let message = format!("{option} is for a data file: `skillrl train DATA {option} ..`");
    CommandError::new(message)
        .with_hint("set the key of the configuration instead, such as `--set models.target.model=NAME`")
}

/// True for a data set of the Hugging Face Hub.
fn is_of_hub(data: &Path) -> bool {
    data.to_str().is_some_and(|path| path.starts_with("hf://"))
}

/// True for a path of the form `OWNER/NAME` where neither exists: probably a data set of the Hub.
fn looks_like_a_name_of_the_hub(path: &Path) -> bool {
    let mut parts = path.components();
    let is_pair = [parts.next(), parts.next()].iter().all(|part| matches!(part, Some(Component::Normal(_))))
        && parts.next().is_none();
    is_pair && path.extension().is_none() && path.parent().is_some_and(|owner| !owner.exists())
}

/// Downloads a data set of the Hub, unless this revision is there; returns where it is, and the name of the run.
#[cfg(feature = "tables")]
fn fetched(data: &Path) -> crate::Result<(PathBuf, String)> {
    use skillrl::hub::{HUB_ENDPOINT, Hub, HubName};
    let text = data.to_str().unwrap_or_default();
    let Some(name) = HubName::parse(text) else {
        let message = format!("`{text}` does not name a data set of the Hugging Face Hub");
        return Err(CommandError::new(message)
            .with_hint("write hf://OWNER/NAME, hf://OWNER/NAME/CONFIG or hf://OWNER/NAME:SPLIT")
            .into());
    };
    let asked = std::env::var(skillrl::env_vars::HUB_ENDPOINT).ok().filter(|asked| !asked.trim().is_empty());
    let endpoint = asked.unwrap_or_else(|| HUB_ENDPOINT.to_owned());
    let transport = skillrl::llm::ReqwestTransport::new()
        .map_err(|error| CommandError::of(&error).with_code(crate::exit_code::OTHER))?;
    let hub = Hub::new(&endpoint, &transport);
    let fetching = hub.fetch(&name, Path::new("data"));
    let path = crate::runtime::block_on(skillrl::pipeline::StopSignal::default(), "stopping", fetching)?
        .map_err(|error| CommandError::of(&error).with_hint(error.hint()))?;
    Ok((path, name.short().to_owned()))
}

/// That this build does not read such data.
#[cfg(not(feature = "tables"))]
fn fetched(data: &Path) -> crate::Result<(PathBuf, String)> {
    let message = format!(
        "{} is read by builds with the cargo feature `tables`, which this build does not have",
        data.display()
    );
    let hint = "install the program with `--features full`, or write the data by `datasets.load_dataset(..).to_json(..)`";
    Err(CommandError::new(message).with_hint(hint).into())
}

/// The configuration of a command on data or on a configuration.
pub(crate) fn load(
    args: &DataArgs,
    start: Start,
    used: Use,
    quiet: bool,
) -> crate::Result<(Start, LoadedConfig)> {
    let DataStart { start, .. } = resolve(args, start, used, quiet)?;
    let loaded = load_start(&start, quiet)?;
    Ok((start, loaded))
}
