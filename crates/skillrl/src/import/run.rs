//! A run of SkillOpt or skillrl 1.0 as a run directory that our commands read.
//!
//! What is there in our form is written in it: skills, records of steps, results of evaluations, the summary. The run
//! cannot go on, since its calls were not recorded, and `config.json` says where it came from. Files without a
//! counterpart are listed, and stay where they are.

use super::run_record::{self, Baseline, Settings};
use super::source::{read, read_json, read_text};
use super::{IMPORTED_FROM, IMPORTED_SETTINGS, ImportKind, Mapped, Outcome};
use crate::error::ImportError;
use serde_json::{Map, Value, json};
use skill_core::{Gate, GateMetric, MeanScore, SkillHash, SkillId, StepIdx, member};
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
    let decided = Settings::of(&config).map_err(|fault| bad(dir, "config.json", &fault))?;
    let rows = match reader.json("history.json")? {
        Some(Value::Array(rows)) => rows,
        Some(_) => return Err(bad(dir, "history.json", "is not a list of steps")),
        None => Vec::new(),
    };
    let state = reader.json("runtime_state.json")?.unwrap_or_default();
    let summary = reader.json("summary.json")?;

    let skills = reader.skills()?;
    let baseline = reader.baseline(summary.as_ref(), decided.gate)?;
    let mut notes = Vec::new();
    let facts = reader.steps(&rows)?;
    let history = run_record::history(&rows, decided, baseline, &facts, &mut notes);
    for (key, reason) in notes {
        reader.outcome.mapping.lose(key, "", reason);
    }
    let state = reader.state(&state, &history, &skills, baseline)?;
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
        let summary = summary_of(&summary, &config, (&history, &state, baseline), decided.gate)
            .map_err(|fault| bad(dir, "summary.json", &fault))?;
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
    fn baseline(&mut self, summary: Option<&Value>, gate: Gate) -> Result<Baseline, ImportError> {
        for dir in ["baseline_selection_eval", "selection_eval_baseline"] {
            if let Some(results) = self.results(dir, false)? {
                return Ok(Baseline::new(MeanScore::of_results(&results), gate));
            }
        }
        let hard = run_record::object(summary.unwrap_or(&Value::Null)).and_then(|summary| {
            member::number(summary, "baseline_selection_hard").map_err(run_record::wrong)
        });
        let hard = hard.map_err(|fault| bad(self.dir, "summary.json", &fault))?;
        let reason = match (hard, gate.metric) {
            (None, _) => Some(
                "the initial skill's score on the validation split is not in the files; 0 is used instead",
            ),
            (Some(_), GateMetric::Soft | GateMetric::Mixed) => Some(
                "the initial skill's soft score, which the gate needs, is not in the files; 0 is used instead",
            ),
            (Some(_), GateMetric::Hard) => None,
        };
        if let Some(reason) = reason {
            self.outcome.mapping.lose("baseline", "", reason);
        }
        Ok(Baseline::new(MeanScore { hard: hard.unwrap_or_default(), soft: 0.0 }, gate))
    }

    /// Writes an evaluation in our form; returns the number of its items.
    pub(super) fn evaluation(
        &mut self,
        from: &str,
        to: &str,
        skill: &SkillHash,
    ) -> Result<Option<usize>, ImportError> {
        let Some(results) = self.results(from, true)? else { return Ok(None) };
        self.left.remove(&format!("{from}/summary.json"));
        let mean = MeanScore::of_results(&results);
        let summary = EvaluationSummary::new(skill.clone(), mean, results.len(), StageTokens::default());
        self.write(&format!("{to}/results.json"), &results);
        self.write(&format!("{to}/summary.json"), &summary);
        self.outcome.mapping.map(from, to);
        Ok(Some(results.len()))
    }

    fn evaluations(&mut self, state: &RuntimeState, skills: &Skills) -> Result<(), ImportError> {
        let is_best_initial = state.best_step == StepIdx(0);
        let initial = match skills.get(&0) {
            Some(text) => Some(SkillHash::of(text)),
            None => is_best_initial.then(|| state.best_skill_hash.clone()),
        };
        for (from, to) in EVALUATIONS {
            let hash = if to == "test_eval_best" { Some(&state.best_skill_hash) } else { initial.as_ref() };
            match hash {
                Some(hash) => drop(self.evaluation(from, to, hash)?),
                None if self.results(from, false)?.is_some() => {
                    let reason = "the initial skill is not in skills/, so its evaluation was left out";
                    self.outcome.mapping.lose(from, "", reason);
                }
                None => {}
            }
        }
        Ok(())
    }

    fn state(
        &mut self,
        asked: &Value,
        history: &[StepRecord],
        skills: &Skills,
        baseline: Baseline,
    ) -> Result<RuntimeState, ImportError> {
        let wrong = |fault: String| bad(self.dir, "runtime_state.json", &fault);
        let fields = run_record::object(asked).map_err(wrong)?;
        let number = |key: &str| member::number(fields, key).map_err(|error| wrong(run_record::wrong(error)));
        let (current_score, best_score) = (number("current_score")?, number("best_score")?);
        let last = history.last();
        let best = last.map_or(StepIdx(0), |record| record.best_step);
        let made = history.iter().rev().find(|record| record.action.is_accept()).map(|record| record.step);
        let hash = |step: u32| skills.get(&step).map(|text| SkillHash::of(text));
        let in_file = |name: &str| {
            let file = self.outcome.files.iter().find(|(path, _)| path == name);
            file.map(|(_, bytes)| SkillHash::of(&String::from_utf8_lossy(bytes)))
        };
        let last_hash = skills.last_key_value().map(|(_, text)| SkillHash::of(text));
        let current_hash = in_file("current_skill.md").or(last_hash);
        let best_hash = in_file("best_skill.md").or_else(|| hash(best.0)).ok_or_else(|| {
            let message = format!("is missing, and so is the skill of step {best} in skills/");
            ImportError::bad(&self.dir.join("best_skill.md"), message, "put one of both back into the run")
        })?;
        if current_hash.is_none() {
            let reason = "is in none of the files; the best skill is used instead";
            self.outcome.mapping.lose("current skill", "", reason);
        }
        let mut state = RuntimeState::after_baseline(best_hash, baseline.mean, baseline.score);
        state.last_completed_step = last.map_or(StepIdx(0), |record| record.step);
        state.current_score =
            current_score.or(last.map(|record| record.current_score)).unwrap_or(baseline.score);
        if let Some(current_hash) = current_hash {
            state.current_skill_hash = current_hash;
        }
        state.current_step = made.unwrap_or_default();
        state.best_score = best_score.or(last.map(|record| record.best_score)).unwrap_or(baseline.score);
        state.best_step = best;
        state.current_skill = SkillId::of_step(made.unwrap_or_default());
        state.best_skill = SkillId::of_step(best);
        Ok(state)
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

/// The summary in our form; the error is what is wrong with the one that is there.
fn summary_of(
    asked: &Value,
    config: &Value,
    (history, state, baseline): (&[StepRecord], &RuntimeState, Baseline),
    gate: Gate,
) -> Result<Summary, String> {
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
    let fields = run_record::object(asked)?;
    let number = |key: &str| member::number(fields, key).map_err(run_record::wrong);
    let text = |fields: &Map<String, Value>, key: &str| {
        Ok::<_, String>(member::text(fields, key).map_err(run_record::wrong)?.map(str::to_owned))
    };
    let [test_hard, test_soft] = [number("test_hard")?, number("test_soft")?];
    let [before_hard, before_soft] = [number("baseline_test_hard")?, number("baseline_test_soft")?];
    let score =
        |hard: Option<f64>, soft: Option<f64>| Some(gate.score(MeanScore { hard: hard?, soft: soft? }));
    let count = |is: fn(&StepRecord) -> bool| history.iter().filter(|record| is(record)).count();
    let settings = config.get(IMPORTED_SETTINGS).unwrap_or(&Value::Null);
    let env = match text(fields, "env")? {
        Some(env) => Some(env),
        None => text(run_record::object(settings)?, "env")?,
    };
    let extras = fields.iter().filter(|(key, _)| !KNOWN.contains(&key.as_str()));
    let mut summary = Summary::of_state(state, baseline.score);
    // Absent is unknown, and these two are names for people.
    summary.version = text(fields, "version")?.unwrap_or_default();
    summary.env = env.unwrap_or_default();
    summary.config = config.clone();
    summary.total_steps = history.len();
    summary.total_accepts = count(|record| record.action.is_accept());
    summary.total_rejects = count(|record| record.action == skill_pipeline::StepAction::Reject);
    summary.total_skips = count(|record| record.action.is_skip());
    summary.best_of = 1 + count(|record| record.selection_n_seen.is_some());
    // The gate's metric needs both means.
    summary.gate_metric = score(test_hard, test_soft).map(|_| gate.metric);
    summary.baseline_test_score = score(before_hard, before_soft);
    summary.test_score = score(test_hard, test_soft);
    summary.baseline_test_hard = before_hard;
    summary.baseline_test_soft = before_soft;
    summary.test_hard = test_hard;
    summary.test_soft = test_soft;
    summary.test_delta_hard = number("test_delta_hard")?;
    summary.token_summary = run_record::tokens(fields, "token_summary").map_err(run_record::wrong)?;
    summary.extras = extras.map(|(key, value)| (key.clone(), value.clone())).collect();
    Ok(summary)
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
