//! What a path holds.

use crate::config::mapping::krill;
use crate::error::ImportError;
use serde_json::{Map, Value};
use skill_core::{encoding, python_json};
use std::path::{Path, PathBuf};

/// Files of GEPA's run directory.
const GEPA_STATE: &str = "gepa_state.bin";
const GEPA_CANDIDATES: &str = "candidates.json";

/// Settings that each run of skillrl 1.0 writes, and no configuration of SkillOpt has all of.
const SKILLRL_KEYS: [&str; 4] = ["num_epochs", "lr_scheduler", "selection_split", "save_every_step"];

/// The most bytes of a file that is read whole.
const MAX_FILE_BYTES: u64 = 256 * 1024 * 1024;

/// What a path holds.
pub(super) enum Source {
    /// A YAML file.
    Config(PathBuf),
    /// The settings of a run of skillrl 1.0, in JSON.
    SkillrlConfig(PathBuf),
    /// A run directory.
    Run { dir: PathBuf, is_skillopt: bool },
    /// The settings of krill or of SkillRL in Rust, in JSON.
    KrillConfig { path: PathBuf, members: Map<String, Value> },
    /// JSON of GEPA.
    Gepa(Value),
}

impl Source {
    pub(super) fn of(path: &Path) -> Result<Self, ImportError> {
        let unknown = || ImportError::Unknown { path: path.to_owned() };
        if path.is_dir() {
            return Self::of_directory(path).transpose().unwrap_or_else(|| Err(unknown()));
        }
        let ending = path.extension().unwrap_or_default().to_string_lossy().to_lowercase();
        match ending.as_str() {
            "yaml" | "yml" => Ok(Self::Config(path.to_owned())),
            "json" => match read_json(path)? {
                Value::Object(members) if members.contains_key("format_version") => {
                    let advice = "name the run's directory: skillrl report, blame and export read it";
                    Err(ImportError::bad(path, "is a file of this program already", advice))
                }
                // The flat form of a configuration, as a run keeps it.
                Value::Object(members)
                    if members.contains_key("env") && members.contains_key("target_model") =>
                {
                    Ok(Self::Config(path.to_owned()))
                }
                // What skillrl 1.0 keeps of the configuration of a run.
                Value::Object(members) if SKILLRL_KEYS.iter().all(|key| members.contains_key(*key)) => {
                    Ok(Self::SkillrlConfig(path.to_owned()))
                }
                Value::Object(members) if krill::is_one(&members) => {
                    Ok(Self::KrillConfig { path: path.to_owned(), members })
                }
                value => Ok(Self::Gepa(value)),
            },
            _ if !path.exists() => {
                Err(ImportError::Read { path: path.to_owned(), source: std::io::ErrorKind::NotFound.into() })
            }
            _ => Err(unknown()),
        }
    }

    fn of_directory(dir: &Path) -> Result<Option<Self>, ImportError> {
        let has = |name: &str| dir.join(name).is_file();
        if has("history.json") || has("runtime_state.json") {
            let config = if has("config.json") { read_json(&dir.join("config.json"))? } else { Value::Null };
            if config.get("format_version").is_some() {
                let advice = "use it as it is: skillrl report, blame, export";
                return Err(ImportError::bad(dir, "is a run of this program already", advice));
            }
            // Each of them alone has these.
            let is_skillopt = config.get("optimizer_model").is_some()
                || config.get("skill_update_mode").is_some()
                || dir.join("selection_eval_baseline").is_dir();
            return Ok(Some(Self::Run { dir: dir.to_owned(), is_skillopt }));
        }
        if has(GEPA_CANDIDATES) {
            return Ok(Some(Self::Gepa(read_json(&dir.join(GEPA_CANDIDATES))?)));
        }
        if has(GEPA_STATE) {
            return Err(ImportError::Pickle { path: dir.to_owned() });
        }
        Ok(None)
    }
}

pub(super) fn read(path: &Path) -> Result<Vec<u8>, ImportError> {
    let cannot = |source| ImportError::Read { path: path.to_owned(), source };
    let length = std::fs::metadata(path).map_err(cannot)?.len();
    if length > MAX_FILE_BYTES {
        let message = format!("has more than {MAX_FILE_BYTES} bytes");
        return Err(ImportError::bad(path, message, "import what is smaller"));
    }
    std::fs::read(path).map_err(cannot)
}

/// The text of a file.
pub(super) fn read_text(path: &Path) -> Result<String, ImportError> {
    encoding::decode(read(path)?).map_err(|fault| {
        let advice = "save it as UTF-8, or use an undamaged copy of it";
        ImportError::bad(path, fault.to_string(), advice)
    })
}

pub(super) fn read_json(path: &Path) -> Result<Value, ImportError> {
    python_json::read(&read_text(path)?).map_err(|error| {
        let advice = "fix the file at that place, or use an undamaged copy of it";
        ImportError::bad(path, format!("is not JSON: {error}"), advice)
    })
}

/// The values of a file of JSON Lines, and the number of its last line if that was being written when the writer ended.
pub(super) fn read_json_lines(path: &Path) -> Result<(Vec<Value>, Option<usize>), ImportError> {
    let text = read_text(path)?;
    let mut values = Vec::new();
    let mut lines = text.lines().zip(1..).filter(|(line, _)| !line.trim().is_empty()).peekable();
    while let Some((line, number)) = lines.next() {
        match python_json::read(line) {
            Ok(value) => values.push(value),
            Err(_) if lines.peek().is_none() && !text.ends_with('\n') => return Ok((values, Some(number))),
            Err(error) => {
                // The position within the line says enough; the number of the line is that of the file.
                let message =
                    format!("is not JSON Lines: line {number}, column {}: {}", error.column, error.message);
                return Err(ImportError::bad(
                    path,
                    message,
                    "fix that line, or delete it and lose its result",
                ));
            }
        }
    }
    Ok((values, None))
}
