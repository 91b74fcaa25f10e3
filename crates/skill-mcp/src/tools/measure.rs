//! `measure`.

mod answer;
mod source;

pub(crate) use answer::Output;

use crate::caps::Caps;
use crate::error::ToolError;
use crate::measuring::{Asked, Measurement, RESERVED_ENDINGS};
use crate::places;
use crate::shared::Shared;
use crate::start::settings;
use answer::{Split, answer};
use schemars::JsonSchema;
use serde::Deserialize;
use skill_pipeline::run_dir::is_run;
use skill_report::watch::Found;
use skillrl::config::LoadedConfig;
use source::Sources;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

pub(super) const DESCRIPTION: &str = "\
Measures a skill, or a bank against no bank, on one split of the tasks of a configuration, without training. With \
`against` it also compares with an earlier measurement, item by item. THIS SPENDS MONEY: one rollout for each item, two \
with a bank; agree on a cap with the person whom you work for. Without a cap on calls or money, here or in the \
configuration, it is refused; a maximum of the server holds for all measurements together. It answers with the scores, or \
with the state `measuring` when the time is up: call it again with the same arguments, which pays for nothing twice.";

/// Seconds that are waited where nobody says how long: clients give up on calls after a minute, as a rule.
const DEFAULT_WAIT_S: u32 = 45;
const MAX_WAIT_S: u32 = 600;
/// Where measurements are, in the directory of the runs.
const MEASUREMENTS: &str = "measurements";
const MAX_NAME: usize = 64;

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    /// The name of the measurement: letters, digits, `-`, `_` and `.`. Another skill needs another name.
    name: String,
    /// The configuration file, as list_configurations gives it.
    config: String,
    /// The skill: a Markdown file or a folder with SKILL.md below the directory of configurations, or the name of a run,
    /// whose best skill it is. By default the best skill of the configuration's run, else its initial one.
    #[serde(default)]
    skill: Option<String>,
    /// A bank to measure against no bank: a folder, .json or .jsonl below the directory of configurations, or the name of
    /// a run that trains one. `skill` is then the document around its skills.
    #[serde(default)]
    bank: Option<String>,
    /// The split; `val` by default.
    #[serde(default)]
    split: Split,
    /// The name of an earlier measurement of a skill on the same split, to compare with.
    #[serde(default)]
    against: Option<String>,
    /// Settings to change, such as `gate.metric=soft`: keys of [train], [gate] and [eval].
    #[serde(default)]
    set: Vec<String>,
    /// The most requests that the measurement may send, over all its processes. A lower cap of the configuration holds.
    #[serde(default)]
    #[schemars(range(min = 1))]
    max_calls: Option<u64>,
    /// The most money by the prices of the configuration, likewise.
    #[serde(default)]
    max_money: Option<f64>,
    /// The most seconds to wait, up to 600; 45 by default. Stay below the time after which your client gives up.
    #[serde(default)]
    #[schemars(range(max = 600))]
    wait_s: Option<u32>,
}

pub(super) async fn run(shared: Arc<Shared>, input: Input) -> Result<Output, ToolError> {
    let wait_s = input.wait_s.unwrap_or(DEFAULT_WAIT_S).min(MAX_WAIT_S);
    let until = Instant::now() + Duration::from_secs(wait_s.into());
    let asked = Caps { calls: input.max_calls, money: input.max_money, ..Caps::default() };
    asked.check_money()?;
    let listing = shared.listing().await?;
    let (of_thread, of_input) = (Arc::clone(&shared), input.clone());
    let (measurement, args) = super::blocking(move || {
        let (shared, input) = (of_thread, of_input);
        let dir = directory(&shared, &input.name)?;
        let (path, loaded) = shared.configs.load(&input.config, &input.set)?;
        loaded.check_paths()?;
        let caps = Caps::from(loaded.config.budget).and(asked);
        caps.and(shared.caps()).check()?;
        let named = (input.skill.as_deref(), input.bank.as_deref());
        let sources = Sources::find(&shared, &listing, named, &loaded)?;
        let against = input.against.as_ref().map(|against| directory(&shared, against)).transpose()?;
        let args = arguments(&input, (&path, &dir), &sources, against.as_deref());
        let LoadedConfig { config, .. } = loaded;
        let asked = Asked {
            config: input.config,
            skill: input.skill,
            bank: input.bank,
            split: input.split.as_str().to_owned(),
            set: input.set,
            content: sources.content,
            against: input.against,
            caps: asked,
        };
        let config = Arc::new(config);
        Ok((Measurement { name: input.name, dir, asked, config, caps }, args))
    })
    .await?;
    let waited = measurement.wait(&shared.measurements, &args, until).await?;
    super::blocking(move || answer(&measurement, input.split, waited)).await
}

/// The directory of a measurement.
fn directory(shared: &Shared, name: &str) -> Result<PathBuf, ToolError> {
    let is_safe = |sign: char| sign.is_ascii_alphanumeric() || matches!(sign, '-' | '_' | '.');
    let is_reserved = RESERVED_ENDINGS.iter().any(|ending| name.ends_with(ending));
    if name.is_empty()
        || name.len() > MAX_NAME
        || name.starts_with('.')
        || is_reserved
        || !name.chars().all(is_safe)
    {
        let hint = format!(
            "take letters, digits, `-`, `_` and `.`, at most {MAX_NAME} of them; begin with a letter or a digit, and do not \
             end with {}",
            RESERVED_ENDINGS.join(", ")
        );
        return Err(ToolError::new("this is not the name of a measurement", hint));
    }
    let root = shared.runs.root();
    let dir = root.join(MEASUREMENTS).join(name);
    let place = places::name_of_run(root, &dir);
    if is_run(root) || place.is_none_or(|place| place != format!("{MEASUREMENTS}/{name}")) {
        return Err(ToolError::new(
            format!("{} is not a place for a measurement in {}", dir.display(), root.display()),
            "a person has to start this server with a directory of runs as --runs, without links out of it",
        ));
    }
    if dir.is_dir() {
        // What it writes would go where the link leads, and what it reads would come from there.
        let found = Found { name: name.to_owned(), path: dir.clone(), leaving: None };
        places::refuse_leaving(root, &found)?;
    }
    Ok(dir)
}

/// The arguments of the program, without caps.
fn arguments(
    input: &Input,
    (config, dir): (&Path, &Path),
    sources: &Sources,
    against: Option<&Path>,
) -> Vec<OsString> {
    let mut args: Vec<OsString> = vec!["eval".into(), config.into()];
    args.extend(settings(&input.set));
    args.extend(["--split".into(), input.split.as_str().into(), "--out".into(), dir.into(), "--json".into()]);
    let paths =
        [("--skill", sources.skill.as_deref()), ("--bank", sources.bank.as_deref()), ("--against", against)];
    for (option, path) in paths {
        args.extend(path.into_iter().flat_map(|path| [OsString::from(option), path.into()]));
    }
    args
}
