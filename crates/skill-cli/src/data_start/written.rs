//! The file that `skillrl train DATA` leaves: it repeats the run, and until a model has answered it may be replaced.

use crate::args::as_word;
use crate::error::CommandError;
use serde_json::Value;
use skillrl::config::{Config, LoadedConfig, ModelConfig};
use skillrl::core::canonical::hex_sha256;
use skillrl::llm::journal::{CallFilter, JournalReader};
use skillrl::pipeline::run_dir::JOURNAL_FILE;
use skillrl::reports::flattened;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The beginning of the line that tells whether anybody has edited the file.
const CHECKSUM: &str = "# checksum ";
/// What a run has after answers, whatever became of its journal.
const RESULTS: [&str; 7] = [
    "runtime_state.json",
    "history.json",
    "history.jsonl",
    "steps",
    "rounds",
    "summary.json",
    "baseline_selection_eval",
];
/// What a run records of its configuration.
const CONFIG_FILE: &str = "config.json";
/// So many differences are named.
const MAX_NAMED: usize = 8;

/// A configuration that stands in a file, or will.
pub(crate) struct WrittenConfig {
    file: PathBuf,
    text: String,
    run: PathBuf,
    /// True if this command wrote it.
    is_new: bool,
    /// The text that it replaced.
    before: Option<String>,
    /// The record of the run that was in its directory before.
    run_before: Option<Vec<u8>>,
}

impl WrittenConfig {
    /// Writes these settings, unless the file says the same already.
    ///
    /// # Errors
    ///
    /// A file that says something else, and that somebody has edited, or whose run has an answered call.
    pub(super) fn put(file: &Path, loaded: &LoadedConfig, text: &str) -> crate::Result<Self> {
        let text = sealed(text);
        let written = |is_new, before| Self {
            file: file.to_owned(),
            text: text.clone(),
            run: loaded.run_dir(),
            is_new,
            before,
            run_before: std::fs::read(loaded.run_dir().join(CONFIG_FILE)).ok(),
        };
        let Ok(found) = std::fs::read_to_string(file) else {
            write(file, &text)?;
            return Ok(written(true, None));
        };
        let before = Config::load(file, &[])?;
        let differences = differences(&before, loaded);
        if differences.is_empty() {
            return Ok(written(false, None));
        }
        // What simulated models answered was a try, and its run stays in a directory of its own.
        if is_unedited(&found) && (is_simulated(&before) || !has_answered_call(&before.run_dir())) {
            write(file, &text)?;
            return Ok(written(true, Some(found)));
        }
        let shown = file.display();
        // The run goes on with other caps, prices or workers.
        let is_same_run = before.config.decisive_json() == loaded.config.decisive_json();
        if is_same_run && is_unedited(&found) {
            write(file, &text)?;
            crate::output::say(&format!("changed in {shown}: {}", differences.join("; ")));
            return Ok(written(false, None));
        }
        let n_more = differences.len().saturating_sub(MAX_NAMED);
        let more = if n_more > 0 { format!("\n  and {n_more} more") } else { String::new() };
        let named: String =
            differences.iter().take(MAX_NAMED).map(|difference| format!("\n  {difference}")).collect();
        let message = format!("{shown} says something else than these options:{named}{more}");
        let (config, out) = free_names(file, &loaded.run_dir());
        let [shown, config, out] = [file, &config, &out].map(|path| as_word(&path.display().to_string()));
        let hint = match is_same_run {
            true => {
                format!("resume the run with `skillrl train {shown} --set KEY=VALUE`, or change the file")
            }
            false => format!(
                "train as it says: `skillrl train {shown}`; or keep it and add `--config {config} --out {out}` to this command"
            ),
        };
        Err(CommandError::new(message).with_hint(hint).into())
    }

    /// Undoes what this command wrote, if no run has started from it: a replaced file is restored.
    pub(crate) fn remove_if_unused(&self) {
        let is_unchanged = std::fs::read_to_string(&self.file).is_ok_and(|found| found == self.text);
        let is_of_before = std::fs::read(self.run.join(CONFIG_FILE)).ok() == self.run_before;
        if self.is_new && is_unchanged && is_of_before {
            // Nobody needs it; the next command writes its own.
            let _ = match &self.before {
                Some(before) => std::fs::write(&self.file, before),
                None => std::fs::remove_file(&self.file),
            };
        }
    }
}

/// True if a model has answered a call of the run: then its journal is worth money.
pub(crate) fn has_answered_call(run: &Path) -> bool {
    if RESULTS.iter().any(|name| run.join(name).exists()) {
        return true;
    }
    let journal = run.join(JOURNAL_FILE);
    if !journal.is_file() {
        // A run without its journal has lost it.
        return run.join("config.json").is_file();
    }
    let answered = CallFilter { outcome: Some("reply".to_owned()), ..CallFilter::default() };
    // What cannot be read may hold anything.
    JournalReader::open(&journal).and_then(|journal| journal.count(&answered)).map_or(true, |count| count > 0)
}

fn write(file: &Path, text: &str) -> crate::Result {
    crate::files::write_with_parents(file, text.as_bytes())
}

/// The text with a checksum of its settings at the end of its head.
fn sealed(text: &str) -> String {
    let (head, body) = text.split_at(text.find("\n[").unwrap_or(0));
    format!("{head}{CHECKSUM}{}\n{body}", checksum(body))
}

fn is_unedited(text: &str) -> bool {
    let Some((_, rest)) = text.split_once(CHECKSUM) else { return false };
    rest.split_once('\n').is_some_and(|(sum, body)| checksum(body) == sum.trim())
}

fn checksum(body: &str) -> String {
    hex_sha256(body.as_bytes()).chars().take(12).collect()
}

/// True if no model of a configuration is a real one.
fn is_simulated(loaded: &LoadedConfig) -> bool {
    let models = &loaded.config.models;
    [&models.target, &models.optimizer].iter().all(|model| matches!(model, ModelConfig::Simulated(_)))
}

/// The settings in which two configurations differ, each with both values.
fn differences(before: &LoadedConfig, now: &LoadedConfig) -> Vec<String> {
    let mut all: BTreeMap<String, [Option<Value>; 2]> = BTreeMap::new();
    let [before, now] = [before, now].map(|loaded| loaded.config.to_json());
    flattened(&before, "", &mut |key, value| all.entry(key).or_default()[0] = Some(value.clone()));
    flattened(&now, "", &mut |key, value| all.entry(key).or_default()[1] = Some(value.clone()));
    // A key that is not there is another thing than one that is null.
    let shown = |value: &Option<Value>| value.as_ref().map_or("not set".to_owned(), ToString::to_string);
    let differ = all.iter().filter(|(_, [before, now])| before != now);
    differ.map(|(key, [before, now])| format!("{key}: {}, now {}", shown(before), shown(now))).collect()
}

/// Names for another experiment that nothing has yet.
fn free_names(file: &Path, run: &Path) -> (PathBuf, PathBuf) {
    let stem = run.file_name().map_or_else(|| "run".to_owned(), |name| name.to_string_lossy().into_owned());
    let numbers = 2_u32..10_000;
    let mut pairs = numbers.map(|number| {
        let name = format!("{stem}-{number}");
        (file.with_file_name(format!("{name}.toml")), run.with_file_name(name))
    });
    pairs
        .find(|(config, out)| !config.exists() && !out.exists())
        .unwrap_or_else(|| (file.to_owned(), run.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_edit_breaks_the_seal() {
        let text = sealed("# Made by a command.\n\n[run]\ndir = \"r\"\n");
        assert!(is_unedited(&text) && text.starts_with("# Made by a command.\n# checksum "), "{text}");
        assert!(!is_unedited(&text.replace("\"r\"", "\"s\"")));
        assert!(!is_unedited("[run]\ndir = \"r\"\n"));
    }
}
