//! The configuration that a run was started with, put together again from its directory.

use super::starts::Starts;
use super::{ReplayOptions, files};
use crate::config::recorded::recorded_overrides;
use crate::config::{Config, FILE_NAME, LoadedConfig};
use crate::error::{Error, ReplayError};
use skill_llm::regular_file;
use skill_pipeline::PipelineError;
use skill_pipeline::records::ConfigFile;
use skill_pipeline::run_dir::read_config;
use std::path::{Component, Path, PathBuf};

/// The configuration of a recorded run, for what can be said of it without reading a file beside it; `None` if the
/// run has none or it is not what it should be.
pub fn recorded_config(run: &Path) -> Option<Config> {
    let text = regular_file::read_to_string(&run.join("config.toml")).ok()?;
    let recorded = read_config(run).ok()??;
    let overrides = recorded_overrides(&text, &recorded.config);
    Config::parse(&text, "config.toml", &overrides).ok().map(|loaded| loaded.config)
}

/// The configuration of a recorded run, with the files that it names.
///
/// # Errors
///
/// No run, a configuration that cannot be put together, files that are not where they were.
pub fn recorded_loaded(run: &Path) -> Result<LoadedConfig, Error> {
    recorded_amended(run, None, &[])
}

/// Where the configuration of a recorded run lies, and the files that it names, by their keys.
#[cfg(feature = "report")]
#[derive(Debug, Default)]
pub(crate) struct BesideConfig {
    /// Its directory; `None` where nobody knows.
    pub(crate) base: Option<PathBuf>,
    /// Files by their paths from there.
    pub(crate) files: Vec<(String, PathBuf)>,
    /// Files of other places: absolute paths, and those that an override has set.
    pub(crate) elsewhere: Vec<(String, PathBuf)>,
}

/// Finds the files that the configuration of a run names.
///
/// # Errors
///
/// As [`recorded_loaded`], but for files that are missing.
#[cfg(feature = "report")]
pub(crate) fn beside_config(run: &Path) -> Result<BesideConfig, Error> {
    let copy = run.join("config.toml");
    let recorded = read_config(run).map_err(Error::Pipeline)?;
    let (true, Some(recorded)) = (copy.is_file(), recorded) else { return Ok(BesideConfig::default()) };
    let text = read_text(&copy)?;
    let overrides = recorded_overrides(&text, &recorded.config);
    let loaded = Config::parse(&text, &copy.display().to_string(), &overrides)?;
    let files = loaded.files_beside_config();
    let base = base_of(run, &loaded, &files, &Starts::of(run));
    Ok(BesideConfig { base, files, elsewhere: loaded.files_elsewhere() })
}

/// Where the configuration of a run lay: where its files are.
fn base_of(
    run: &Path,
    loaded: &LoadedConfig,
    files: &[(String, PathBuf)],
    starts: &Starts,
) -> Option<PathBuf> {
    let kept = starts.config_dir.as_ref().and_then(|dir| run.join(dir).canonicalize().ok());
    let guessed = config_dir(run, loaded.config.run.dir.as_str());
    let has_all = |base: &PathBuf| files.iter().all(|(_, file)| base.join(file).exists());
    let base = [&kept, &guessed].into_iter().flatten().find(|base| has_all(base)).cloned();
    base.or(kept).or(guessed)
}

/// As [`recorded_loaded`], with further overrides, and with the run itself as `run.dir` wherever it lies by now.
///
/// # Errors
///
/// As [`recorded_loaded`].
pub fn recorded_with(run: &Path, overrides: &[String]) -> Result<LoadedConfig, Error> {
    let mut all = overrides.to_vec();
    if !all.iter().any(|setting| setting.trim_start().starts_with("run.dir")) {
        all.push(format!("run.dir={}", run.display()));
    }
    recorded_amended(run, None, &all)
}

/// As [`recorded_loaded`], from this configuration file if one is given, and with further overrides.
///
/// # Errors
///
/// As [`recorded_loaded`].
pub(crate) fn recorded_amended(
    run: &Path,
    config: Option<&Path>,
    overrides: &[String],
) -> Result<LoadedConfig, Error> {
    let recorded = read_config(run)
        .map_err(Error::Pipeline)?
        .ok_or_else(|| ReplayError::NotARun { path: run.to_owned() })?;
    let (config, overrides) = (config.map(Path::to_owned), overrides.to_vec());
    let options = ReplayOptions { run: run.to_owned(), into: None, overrides, config };
    recorded_configuration(run, &recorded, &options, &Starts::of(run))
}

/// Puts the configuration of a run together again, with what its starts say about where it lay.
pub(super) fn recorded_configuration(
    run: &Path,
    recorded: &ConfigFile,
    options: &ReplayOptions,
    starts: &Starts,
) -> Result<LoadedConfig, Error> {
    let copy = run.join("config.toml");
    let text = if copy.is_file() { Some(read_text(&copy)?) } else { None };
    let mut overrides =
        text.as_deref().map_or_else(Vec::new, |text| recorded_overrides(text, &recorded.config));
    overrides.extend(options.overrides.iter().cloned());
    if let Some(file) = &options.config {
        return Ok(Config::load(file, &overrides)?);
    }
    let text = text.ok_or_else(|| ReplayError::NoConfig { path: run.to_owned() })?;
    let origin = copy.display().to_string();
    let loaded = Config::parse(&text, &origin, &overrides)?;
    let files = loaded.files_beside_config();
    let base = base_of(run, &loaded, &files, starts);
    let is_there = |file: &Path| base.as_ref().is_some_and(|base| base.join(file).exists());
    if let Some((key, file)) = files.into_iter().find(|(_, file)| !is_there(file)) {
        return Err(ReplayError::UnknownPlace { run: run.to_owned(), key, file }.into());
    }
    match base {
        Some(base) => Ok(Config::parse_of_file(&text, &origin, &base.join(FILE_NAME), &overrides)?),
        None => Ok(loaded),
    }
}

/// Where the configuration lay, if `run.dir` was relative to it and leads to where the run lies.
fn config_dir(run: &Path, asked: &str) -> Option<PathBuf> {
    let mut dir = run.canonicalize().ok()?;
    for component in Path::new(asked).components().rev() {
        match component {
            Component::CurDir => {}
            Component::Normal(name) if dir.file_name() == Some(name) => {
                dir.pop();
            }
            Component::Normal(_) | Component::ParentDir | Component::RootDir | Component::Prefix(_) => {
                return None;
            }
        }
    }
    Some(dir)
}

fn read_text(path: &Path) -> Result<String, Error> {
    String::from_utf8(files::read(path)?).map_err(|_| {
        let message = "is not UTF-8".to_owned();
        Error::Pipeline(PipelineError::Corrupt { path: path.to_owned(), message })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_the_configuration_lay_follows_from_where_the_run_lies() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        let run = root.join("project/runs/qa");
        std::fs::create_dir_all(&run).unwrap();
        for (asked, expect) in [
            ("runs/qa", Some(root.join("project"))),
            ("./runs/./qa/", Some(root.join("project"))),
            ("qa", Some(root.join("project/runs"))),
            (".", Some(run.clone())),
            ("runs/other", None),
            ("../project/runs/qa", None),
            ("/runs/qa", None),
        ] {
            assert_eq!(config_dir(&run, asked), expect, "{asked}");
        }
        assert_eq!(config_dir(&root.join("nowhere"), "nowhere"), None);
    }
}
