//! A run of SkillOpt or skillrl 1.0 as a run directory that our commands read.
//!
//! What is there in our form is written in it: skills, records of steps, results of evaluations, the summary. The run
//! cannot go on, since its calls were not recorded, and `config.json` says where it came from. Files without a
//! counterpart are listed, and stay where they are.

use super::run_record::{self, Baseline};
use super::source::{read, read_json, read_text};
use super::{IMPORTED_FROM, IMPORTED_SETTINGS, ImportKind, Mapped, Outcome, gate_of};
use crate::error::ImportError;
use serde_json::{Map, Value, json};
use skill_core::{MeanScore, SkillHash, SkillId};
use skill_pipeline::records::document::{RuntimeState, StepRecord};
use skill_pipeline::records::evaluation::EvaluationSummary;
use skill_pipeline::records::summary::Summary;
use skill_pipeline::records::{ConfigFile, StageTokens};
use skill_pipeline::run_dir::seal;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Folders in folders, at most, of a run that is looked at.
const MAX_DEPTH: usize = 8;
/// The most files of a run that are looked at.
const MAX_FILES: usize = 200_000;

/// Evaluations of the whole run, there and here.
const EVALUATIONS: [(&str, &str); 5] = [
    ("baseline_selection_eval", "baseline_selection_eval"),
    ("selection_eval_baseline", "baseline_selection_eval"),
    ("test_eval_baseline", "test_eval_baseline"),
    ("test_eval_best", "test_eval_best"),
    ("test_eval", "test_eval_best"),
];

/// A run that is read.
pub(super) struct Reader<'a> {
    pub(super) dir: &'a Path,
    /// The files that nobody has taken, below the directory.
    pub(super) left: BTreeSet<String>,
    pub(super) outcome: Outcome,
}

pub(super) fn import(dir: &Path, kind: ImportKind) -> Result<Outcome, ImportError> {
    let mut left = BTreeSet::new();
    list(dir, Path::new(""), 0, &mut left)?;
    let mut reader = Reader { dir, left, outcome: Outcome::default() };
    let config = reader.json("config.json")?.unwrap_or(Value::Null);
    let rows = match reader.json("history.json")? {
        Some(Value::Array(rows)) => rows,
        Some(_) => return Err(bad(dir, "history.json", "is not a list of steps")),
        None => Vec::new(),
    };
    let state = reader.json("runtime_state.json")?.unwrap_or_default();
    let summary = reader.json("summary.json")?;

    let skills = reader.skills()?;
    let baseline = reader.baseline(summary.as_ref(), &config)?;
    let mut notes = Vec::new();
    let facts = reader.steps(&rows)?;
    let history = run_record::history(&rows, &config, baseline, &facts, &mut notes);
    for (key, reason) in notes {
        reader.outcome.mapping.lose(key, "", reason);
    }
    let state = reader.state(&state, &history, &skills, baseline);
    reader.evaluations(&state, &skills)?;
    reader.write("history.json", &history);
    reader.write_sealed("runtime_state.json", &state);
    let settings = run_record::without_secrets(&config);
    let from = match kind {
        ImportKind::SkilloptRun => "SkillOpt",
        ImportKind::SkillrlRun
        | ImportKind::SkillrlConfig
        | ImportKind::SkilloptConfig
        | ImportKind::KrillConfig
        | ImportKind::GepaCandidate => "skillrl 1.0",
    };
    let config = json!({IMPORTED_FROM: from, IMPORTED_SETTINGS: settings});
    if let Some(summary) = summary {
        let summary = reader.summary(&summary, &config, &history, &state, baseline);
        reader.write("summary.json", &summary);
    }
    reader.write_sealed(
        "config.json",
        // No run has this setting, so nothing goes on with this one by accident.
        &ConfigFile::new(config, [(IMPORTED_FROM.to_owned(), json!(from))].into_iter().collect()),
    );
    reader.outcome.mapping.lose(
        "journal",
        "",
        "calls were not recorded there, so the run can be read, but neither resumed nor replayed",
    );
    reader.list_what_is_left();
    reader.group_what_is_taken();
    Ok(reader.outcome)
}

/// A skill of the run by the step after which it was current.
type Skills = BTreeMap<u32, String>;

impl Reader<'_> {
    /// A JSON file, which is taken.
    fn json(&mut self, path: &str) -> Result<Option<Value>, ImportError> {
        if !self.left.remove(path) {
            return Ok(None);
        }
        self.outcome.mapping.map(path, path);
        read_json(&self.dir.join(path)).map(Some)
    }

    pub(super) fn write(&mut self, path: &str, value: &impl serde::Serialize) {
        let mut bytes = serde_json::to_vec_pretty(value).expect("the keys of records are texts");
        bytes.push(b'\n');
        self.outcome.files.push((path.to_owned(), bytes));
    }

    /// As [`write`](Self::write), with the checksum that state and configuration carry.
    fn write_sealed(&mut self, path: &str, value: &impl serde::Serialize) {
        let bytes = seal::sealed_json_bytes(Path::new(path), value).expect("the keys of records are texts");
        self.outcome.files.push((path.to_owned(), bytes));
    }

    /// Takes a file as it is.
    pub(super) fn copy(&mut self, from: &str, to: &str) -> Result<(), ImportError> {
        if self.left.remove(from) {
            self.outcome.files.push((to.to_owned(), read(&self.dir.join(from))?));
            self.outcome.mapping.map(from, to);
        }
        Ok(())
    }

    /// The skills after each step, and the two that are in the run itself.
    fn skills(&mut self) -> Result<Skills, ImportError> {
        let mut skills = Skills::new();
        let paths: Vec<String> =
            self.left.iter().filter(|path| path.starts_with("skills/skill_v")).cloned().collect();
        for path in paths {
            let number = path.trim_start_matches("skills/skill_v").trim_end_matches(".md").parse::<u32>();
            let Ok(step) = number else { continue };
            let text = read_text(&self.dir.join(&path))?;
            self.copy(&path, &path)?;
            skills.insert(step, text);
        }
        self.copy("best_skill.md", "best_skill.md")?;
        if self.left.contains("current_skill.md") {
            self.copy("current_skill.md", "current_skill.md")?;
        } else if let Some((_, current)) = skills.last_key_value() {
            self.outcome.files.push(("current_skill.md".to_owned(), current.clone().into_bytes()));
        }
        Ok(skills)
    }

    /// The initial skill on the validation split.
    fn baseline(&mut self, summary: Option<&Value>, config: &Value) -> Result<Baseline, ImportError> {
        for dir in ["baseline_selection_eval", "selection_eval_baseline"] {
            if let Some(results) = self.results(dir, false)? {
                return Ok(Baseline::new(MeanScore::of_results(&results), config));
            }
        }
        let hard = summary.and_then(|summary| summary.get("baseline_selection_hard")).and_then(Value::as_f64);
        if hard.is_none() {
            let reason =
                "the initial skill's score on the validation split is not in the files; 0 is used instead";
            self.outcome.mapping.lose("baseline", "", reason);
        }
        Ok(Baseline::new(MeanScore { hard: hard.unwrap_or_default(), soft: 0.0 }, config))
    }

    /// Writes an evaluation in our form; returns the number of its items.
    pub(super) fn evaluation(
        &mut self,
        from: &str,
        to: &str,
        skill: &str,
    ) -> Result<Option<usize>, ImportError> {
        let Some(results) = self.results(from, true)? else { return Ok(None) };
        self.left.remove(&format!("{from}/summary.json"));
        let mean = MeanScore::of_results(&results);
        let hash = serde_json::from_value(Value::from(skill)).unwrap_or_else(|_| SkillHash::of(""));
        let summary = EvaluationSummary::new(hash, mean, results.len(), StageTokens::default());
        self.write(&format!("{to}/results.json"), &results);
        self.write(&format!("{to}/summary.json"), &summary);
        self.outcome.mapping.map(from, to);
        Ok(Some(results.len()))
    }

    fn evaluations(&mut self, state: &RuntimeState, skills: &Skills) -> Result<(), ImportError> {
        let initial =
            skills.get(&0).map(|text| SkillHash::of(text)).unwrap_or_else(|| state.best_skill_hash.clone());
        for (from, to) in EVALUATIONS {
            let hash = if to == "test_eval_best" { &state.best_skill_hash } else { &initial };
            self.evaluation(from, to, hash.as_str())?;
        }
        Ok(())
    }

    fn state(
        &mut self,
        asked: &Value,
        history: &[StepRecord],
        skills: &Skills,
        baseline: Baseline,
    ) -> RuntimeState {
        let number = |key: &str| asked.get(key).and_then(Value::as_f64);
        let last = history.last();
        let best = last.map_or(skill_core::StepIdx(0), |record| record.best_step);
        let made = history.iter().rev().find(|record| record.action.is_accept()).map(|record| record.step);
        let hash = |step: u32| skills.get(&step).map(|text| SkillHash::of(text));
        let in_file = |files: &[(String, Vec<u8>)], name: &str| {
            let file = files.iter().find(|(path, _)| path == name);
            file.map(|(_, bytes)| SkillHash::of(&String::from_utf8_lossy(bytes)))
        };
        let files = &self.outcome.files;
        let current_hash = skills.last_key_value().map(|(_, text)| SkillHash::of(text));
        let mut state = RuntimeState::after_baseline(SkillHash::of(""), baseline.mean, baseline.score);
        state.last_completed_step = last.map_or(skill_core::StepIdx(0), |record| record.step);
        state.current_score =
            number("current_score").or(last.map(|record| record.current_score)).unwrap_or(baseline.score);
        state.current_skill_hash =
            in_file(files, "current_skill.md").or(current_hash).unwrap_or_else(|| SkillHash::of(""));
        state.current_step = made.unwrap_or_default();
        state.best_score =
            number("best_score").or(last.map(|record| record.best_score)).unwrap_or(baseline.score);
        state.best_skill_hash =
            in_file(files, "best_skill.md").or_else(|| hash(best.0)).unwrap_or_else(|| SkillHash::of(""));
        state.best_step = best;
        state.current_skill = SkillId::of_step(made.unwrap_or_default());
        state.best_skill = SkillId::of_step(best);
        state
    }

    fn summary(
        &mut self,
        asked: &Value,
        config: &Value,
        history: &[StepRecord],
        state: &RuntimeState,
        baseline: Baseline,
    ) -> Summary {
        const KNOWN: [&str; 18] = [
            "version",
            "config",
            "env",
            "total_steps",
            "total_accepts",
            "total_rejects",
            "total_skips",
            "best_step",
            "baseline_selection_hard",
            "best_selection_hard",
            "best_selection_score",
            "current_selection_score",
            "baseline_test_hard",
            "baseline_test_soft",
            "test_hard",
            "test_soft",
            "test_delta_hard",
            "token_summary",
        ];
        let number = |key: &str| asked.get(key).and_then(Value::as_f64);
        let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
        let gate = gate_of(config).unwrap_or_default();
        let test_score =
            |hard: &str, soft: &str| Some(gate.score(MeanScore { hard: number(hard)?, soft: number(soft)? }));
        let count = |is: fn(&StepRecord) -> bool| history.iter().filter(|record| is(record)).count();
        let env = asked
            .get("env")
            .or_else(|| config.get(IMPORTED_SETTINGS).and_then(|settings| settings.get("env")));
        let extras: Map<String, Value> = asked
            .as_object()
            .into_iter()
            .flatten()
            .filter(|(key, _)| !KNOWN.contains(&key.as_str()))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        let mut summary = Summary::of_state(state, baseline.score);
        summary.version = text(asked.get("version"));
        summary.env = text(env);
        summary.config = config.clone();
        summary.total_steps = history.len();
        summary.total_accepts = count(|record| record.action.is_accept());
        summary.total_rejects = count(|record| record.action == skill_pipeline::StepAction::Reject);
        summary.total_skips = count(|record| record.action.is_skip());
        summary.best_of = 1 + count(|record| record.selection_n_seen.is_some());
        // Without both means nobody can say what the gate's metric would be.
        summary.gate_metric = test_score("test_hard", "test_soft").map(|_| gate.metric);
        summary.baseline_test_score = test_score("baseline_test_hard", "baseline_test_soft");
        summary.test_score = test_score("test_hard", "test_soft");
        summary.baseline_test_hard = number("baseline_test_hard");
        summary.baseline_test_soft = number("baseline_test_soft");
        summary.test_hard = number("test_hard");
        summary.test_soft = number("test_soft");
        summary.test_delta_hard = number("test_delta_hard");
        summary.token_summary = run_record::tokens(asked.get("token_summary"));
        summary.extras = extras;
        summary
    }

    /// Files that differ in a number alone stand for each other in the list of what was taken.
    fn group_what_is_taken(&mut self) {
        let mut groups: BTreeSet<(String, String)> = BTreeSet::new();
        for Mapped { key, to } in std::mem::take(&mut self.outcome.mapping.mapped) {
            let (key, to) = (pattern_of(&key), pattern_of(&to));
            if groups.insert((key.clone(), to.clone())) {
                self.outcome.mapping.map(key, to);
            }
        }
    }

    /// Names what has no counterpart: files that differ in a number alone stand for each other.
    fn list_what_is_left(&mut self) {
        let mut groups: BTreeMap<String, usize> = BTreeMap::new();
        for path in &self.left {
            *groups.entry(pattern_of(path)).or_default() += 1;
        }
        for (pattern, n_files) in groups {
            let plural = if n_files == 1 { "1 file".to_owned() } else { format!("{n_files} files") };
            let reason = match pattern.rsplit('/').next().unwrap_or_default() {
                name if name.starts_with("slow_result") || pattern.starts_with("slow_update") => {
                    "the slow update's own records"
                }
                _ if pattern.starts_with("meta_skill") => "the optimizer's memory",
                _ if pattern.starts_with("test_eval_final") => {
                    "the last skill on the test split; only the first and the best are kept here"
                }
                _ => "has no counterpart, and stays where it is",
            };
            self.outcome.mapping.lose(pattern, plural, reason);
        }
    }
}

/// A path with a sign in place of each number.
fn pattern_of(path: &str) -> String {
    let mut pattern = String::new();
    for letter in path.chars() {
        let letter = if letter.is_ascii_digit() { '#' } else { letter };
        if !(letter == '#' && pattern.ends_with('#')) {
            pattern.push(letter);
        }
    }
    pattern
}

fn list(root: &Path, below: &Path, depth: usize, files: &mut BTreeSet<String>) -> Result<(), ImportError> {
    let dir: PathBuf = root.join(below);
    let cannot = |source| ImportError::Read { path: dir.clone(), source };
    for entry in std::fs::read_dir(&dir).map_err(cannot)? {
        let entry = entry.map_err(cannot)?;
        let path = below.join(entry.file_name());
        let kind = entry.file_type().map_err(cannot)?;
        if kind.is_dir() && depth < MAX_DEPTH {
            list(root, &path, depth + 1, files)?;
        } else if kind.is_file() {
            if files.len() >= MAX_FILES {
                return Err(bad(root, "", "has more files than a run is taken to have"));
            }
            let names: Vec<_> = path.components().map(|part| part.as_os_str().to_string_lossy()).collect();
            files.insert(names.join("/"));
        }
    }
    Ok(())
}

pub(super) fn bad(dir: &Path, file: &str, message: &str) -> ImportError {
    ImportError::bad(&dir.join(file), message, "fix the file, or remove it from the run")
}
