//! Results as skill-creator's viewer opens them: `benchmark.json`, and for each run `grading.json` and `timing.json`.

use super::check::CheckRow;
use serde_json::{Map, Value, json};
use std::io;
use std::path::Path;

/// One run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RunRow {
    /// The case.
    pub case: String,
    /// Its prompt.
    pub prompt: String,
    /// The repetition, from 1.
    pub run: usize,
    /// What became of each check.
    pub checks: Vec<CheckRow>,
    /// How long it took.
    pub seconds: f64,
    /// Tokens of prompts and replies.
    pub tokens: u64,
    /// Calls of tools.
    pub tool_calls: u64,
}

/// The runs of one arm under its name, such as `with_skill`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ArmRows {
    /// The name.
    pub name: String,
    /// Its runs.
    pub runs: Vec<RunRow>,
}

impl RunRow {
    fn counts(&self) -> (usize, usize) {
        let counted = || self.checks.iter().filter(|row| !row.is_shown_only);
        (counted().filter(|row| row.passed).count(), counted().count())
    }

    fn pass_rate(&self) -> f64 {
        let (n_passed, n) = self.counts();
        if n == 0 { 0.0 } else { n_passed as f64 / n as f64 }
    }

    fn expectations(&self) -> Vec<Value> {
        let row = |row: &CheckRow| json!({"text": row.text, "passed": row.passed, "evidence": row.evidence});
        self.checks.iter().map(row).collect()
    }

    fn summary(&self) -> Value {
        let (n_passed, n) = self.counts();
        json!({"passed": n_passed, "failed": n - n_passed, "total": n, "pass_rate": self.pass_rate()})
    }
}

/// Mean, standard deviation, least and most; `None` without values.
fn spread(values: &[f64]) -> Option<Value> {
    let n = values.len() as f64;
    let least = values.iter().copied().reduce(f64::min)?;
    let most = values.iter().copied().reduce(f64::max)?;
    let mean = values.iter().sum::<f64>() / n;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1.0).max(1.0);
    Some(json!({"mean": mean, "stddev": variance.sqrt(), "min": least, "max": most}))
}

/// `benchmark.json` of these arms; the difference is that of the first arm to the second, as texts such as "+0.50".
pub fn benchmark(skill: &str, arms: &[ArmRows]) -> Value {
    let runs: Vec<Value> = arms
        .iter()
        .flat_map(|arm| {
            arm.runs.iter().map(|run| {
                let mut result = run.summary();
                if let Some(fields) = result.as_object_mut() {
                    fields.insert("time_seconds".to_owned(), json!(run.seconds));
                    fields.insert("tokens".to_owned(), json!(run.tokens));
                    fields.insert("tool_calls".to_owned(), json!(run.tool_calls));
                    fields.insert("errors".to_owned(), json!(0));
                }
                json!({
                    "eval_id": run.case, "eval_name": run.case, "configuration": arm.name, "run_number": run.run,
                    "result": result, "expectations": run.expectations(), "notes": [],
                })
            })
        })
        .collect();
    type Measure = (&'static str, fn(&RunRow) -> f64);
    const MEASURES: [Measure; 3] = [
        ("pass_rate", |run| run.pass_rate()),
        ("time_seconds", |run| run.seconds),
        ("tokens", |run| run.tokens as f64),
    ];
    let values = |arm: &ArmRows, of: fn(&RunRow) -> f64| arm.runs.iter().map(of).collect::<Vec<f64>>();
    let mut summary = Map::new();
    for arm in arms {
        let fields =
            MEASURES.iter().filter_map(|(name, of)| Some(((*name).to_owned(), spread(&values(arm, *of))?)));
        summary.insert(arm.name.clone(), Value::Object(fields.collect()));
    }
    if let [first, second, ..] = arms {
        let mean = |arm: &ArmRows, of: fn(&RunRow) -> f64| {
            let values = values(arm, of);
            (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
        };
        let delta = MEASURES.iter().filter_map(|(name, of)| {
            let difference = mean(first, *of)? - mean(second, *of)?;
            let text =
                if *name == "pass_rate" { format!("{difference:+.2}") } else { format!("{difference:+.1}") };
            Some(((*name).to_owned(), Value::String(text)))
        });
        summary.insert("delta".to_owned(), Value::Object(delta.collect()));
    }
    json!({"metadata": {"skill_name": skill}, "runs": runs, "run_summary": summary, "notes": []})
}

/// Writes `benchmark.json` and a folder for each run.
///
/// # Errors
///
/// A file that cannot be written.
pub fn write_workspace(dir: &Path, skill: &str, arms: &[ArmRows]) -> io::Result<()> {
    let write = |path: &Path, value: &Value| {
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent)?;
        }
        std::fs::write(path, format!("{value:#}\n"))
    };
    write(&dir.join("benchmark.json"), &benchmark(skill, arms))?;
    for arm in arms {
        for run in &arm.runs {
            let case = dir.join(format!("eval-{}", file_name(&run.case)));
            let assertions: Vec<&str> = run.checks.iter().map(|row| row.text.as_str()).collect();
            let metadata = json!({"eval_id": run.case, "eval_name": run.case, "prompt": run.prompt, "assertions": assertions});
            write(&case.join("eval_metadata.json"), &metadata)?;
            let at = case.join(&arm.name).join(format!("run-{}", run.run));
            let grading = json!({"expectations": run.expectations(), "summary": run.summary()});
            write(&at.join("grading.json"), &grading)?;
            let milliseconds = (run.seconds * 1000.0).round();
            let timing = json!({
                "total_tokens": run.tokens, "duration_ms": milliseconds, "total_duration_seconds": run.seconds,
            });
            write(&at.join("timing.json"), &timing)?;
        }
    }
    Ok(())
}

/// An id as a part of a path.
fn file_name(id: &str) -> String {
    const MAX_CHARS: usize = 64;
    let is_safe = |sign: char| sign.is_ascii_alphanumeric() || matches!(sign, '-' | '_');
    id.chars().take(MAX_CHARS).map(|sign| if is_safe(sign) { sign } else { '-' }).collect()
}
