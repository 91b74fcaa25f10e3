//! The files of a run's steps: trajectories, what the analysts proposed, and what became of it.

use super::run::{Reader, bad};
use super::run_record;
use super::source::{read_json, read_json_lines};
use crate::error::ImportError;
use serde_json::Value;
use skill_core::{
    ItemId, Patch, RawPatch, Role, RolloutResult, SkillHash, SourceType, Trajectory, TrajectoryMessage,
};
use std::collections::BTreeMap;

/// Files of a step that have our form under another name, or under their own.
const STEP_FILES: [(&str, &str); 6] = [
    ("candidate_skill.md", "candidate_skill.md"),
    ("raw_patches.json", "raw_patches.json"),
    ("merged_patch.json", "merged_patch.json"),
    ("ranked_patch.json", "ranked_patch.json"),
    ("ranked_edits.json", "ranked_patch.json"),
    ("edit_apply_report.json", "edit_apply_report.json"),
];

/// How minibatches of each kind are called there.
const MINIBATCHES: [(&str, SourceType); 2] =
    [("minibatch_fail_", SourceType::Failure), ("minibatch_succ_", SourceType::Success)];

/// What the files of a step say beyond its row of the history.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct StepFacts {
    /// The items of its batch, in order.
    pub(super) batch_item_ids: Vec<String>,
    /// How many items the candidate was measured on; `None` if it was not measured in this step.
    pub(super) n_selection: Option<usize>,
}

impl Reader<'_> {
    /// Files of the steps; returns what they say beyond the history.
    pub(super) fn steps(&mut self, rows: &[Value]) -> Result<BTreeMap<u64, StepFacts>, ImportError> {
        let mut steps = BTreeMap::new();
        for row in rows {
            // The history names the rows without a number, and leaves them out.
            let Some(step) = row.get("step").and_then(Value::as_u64) else { continue };
            let dir = format!("steps/step_{step:04}");
            let mut ids = self.batch(&dir)?;
            for batch_idx in 0.. {
                let micro = format!("{dir}/batch_{batch_idx}");
                let own = format!("{micro}/");
                if !self.left.range(own.clone()..).next().is_some_and(|path| path.starts_with(&own)) {
                    break;
                }
                ids.extend(self.batch(&micro)?);
            }
            for (from, to) in STEP_FILES {
                self.copy(&format!("{dir}/{from}"), &format!("{dir}/{to}"))?;
            }
            let evaluation = format!("{dir}/selection_eval");
            let n_selection = match self.candidate_hash(row, &dir) {
                Some(hash) => self.evaluation(&evaluation, &evaluation, &hash)?,
                None if self.results(&evaluation, false)?.is_some() => {
                    let reason = "neither a file nor the history names the skill that was evaluated, so the \
                                  evaluation was left out";
                    self.outcome.mapping.lose(evaluation, "", reason);
                    None
                }
                None => None,
            };
            steps.insert(step, StepFacts { batch_item_ids: ids, n_selection });
            self.left.remove(&format!("{dir}/step_record.json"));
        }
        Ok(steps)
    }

    /// The hash of a step's candidate, from the history or of its file, which was taken before.
    fn candidate_hash(&self, row: &Value, dir: &str) -> Option<SkillHash> {
        let named = row.get("candidate_hash").filter(|hash| !hash.is_null());
        let named = named.and_then(|hash| serde_json::from_value(hash.clone()).ok());
        let path = format!("{dir}/candidate_skill.md");
        let file = self.outcome.files.iter().find(|(taken, _)| *taken == path);
        named.or_else(|| file.map(|(_, bytes)| SkillHash::of(&String::from_utf8_lossy(bytes))))
    }

    /// The trajectories and the patches of a micro-batch; returns the ids of its items.
    fn batch(&mut self, dir: &str) -> Result<Vec<String>, ImportError> {
        let own = format!("{dir}/rollout_results.json");
        let results = match self.results(&format!("{dir}/rollout"), true)? {
            Some(results) => {
                self.left.remove(&format!("{dir}/rollout/summary.json"));
                self.write(&own, &results);
                self.outcome.mapping.map(format!("{dir}/rollout"), own);
                results
            }
            None if self.left.contains(&own) => {
                let rows = read_json(&self.dir.join(&own))?;
                let Value::Array(rows) = rows else {
                    return Err(bad(self.dir, &own, "is not a list of results"));
                };
                let results = self.read_rows(&own, &rows, true)?;
                if serde_json::from_value::<Vec<RolloutResult>>(Value::Array(rows)).is_ok() {
                    self.copy(&own, &own)?;
                } else {
                    // Rows that our readers refuse, such as one without an id, were listed above.
                    self.left.remove(&own);
                    self.write(&own, &results);
                    self.outcome.mapping.map(own.as_str(), own.as_str());
                }
                results
            }
            None => Vec::new(),
        };
        self.patches(dir, &results)?;
        Ok(results.iter().map(|result| result.id.to_string()).collect())
    }

    /// What the analysts proposed, from a file for each.
    fn patches(&mut self, dir: &str, results: &[RolloutResult]) -> Result<(), ImportError> {
        let mut patches = Vec::new();
        let whole = format!("{dir}/raw_patches.json");
        if self.left.contains(&whole)
            && let Value::Array(rows) = read_json(&self.dir.join(&whole))?
        {
            let read = |row: &Value| {
                let kind = serde_json::from_value(row.get("source_type")?.clone()).ok()?;
                raw_patch(row, kind, results)
            };
            // What is not in our form as a whole is copied as it is.
            if let Some(read) = rows.iter().map(read).collect::<Option<Vec<RawPatch>>>() {
                self.left.remove(&whole);
                self.outcome.mapping.map(whole.as_str(), whole.as_str());
                patches = read;
            }
        }
        for (start, kind) in MINIBATCHES {
            let start = format!("{dir}/patches/{start}");
            let paths: Vec<String> = self
                .left
                .range(start.clone()..)
                .take_while(|path| path.starts_with(&start))
                .cloned()
                .collect();
            for path in paths {
                let file = read_json(&self.dir.join(&path))?;
                let Some(patch) = raw_patch(&file, kind, results) else {
                    self.outcome.mapping.lose(&path, "", "holds no edits, such as suggestions for a rewrite");
                    self.left.remove(&path);
                    continue;
                };
                self.left.remove(&path);
                self.outcome.mapping.map(path, whole.as_str());
                patches.push(patch);
            }
        }
        if !patches.is_empty() {
            self.write(&whole, &patches);
        }
        Ok(())
    }

    /// The results of an evaluation, from `results.json` or `results.jsonl`; the files are taken if that is asked.
    pub(super) fn results(
        &mut self,
        dir: &str,
        takes: bool,
    ) -> Result<Option<Vec<RolloutResult>>, ImportError> {
        for name in ["results.json", "results.jsonl"] {
            let path = format!("{dir}/{name}");
            if !self.left.contains(&path) {
                continue;
            }
            let place = self.dir.join(&path);
            let (rows, torn) = if name.ends_with('l') {
                read_json_lines(&place)?
            } else {
                match read_json(&place)? {
                    Value::Array(rows) => (rows, None),
                    _ => return Err(bad(self.dir, &path, "is not a list of results")),
                }
            };
            let mut results = self.read_rows(&path, &rows, takes)?;
            if takes {
                if let Some(number) = torn {
                    let reason = "was being written when the run ended, and was left out";
                    self.outcome.mapping.lose(format!("{path}, line {number}"), "", reason);
                }
                self.left.remove(&path);
                self.conversations(dir, &mut results)?;
            }
            return Ok(Some(results));
        }
        Ok(None)
    }

    /// The results in the rows of a file; missing ids and scores are reported if `takes`.
    fn read_rows(
        &mut self,
        path: &str,
        rows: &[Value],
        takes: bool,
    ) -> Result<Vec<RolloutResult>, ImportError> {
        let read = run_record::results(rows).map_err(|fault| bad(self.dir, path, &fault))?;
        if !takes {
            return Ok(read.results);
        }
        let mapping = &mut self.outcome.mapping;
        if read.n_nameless > 0 {
            let reason = "an item without an id cannot be compared, and was left out";
            mapping.lose(format!("{path}, rows without `id`"), read.n_nameless.to_string(), reason);
        }
        for (score, items) in read.without_score {
            let reason = match items.as_slice() {
                [item] => format!("counts as 0: item `{item}`"),
                [first, .., last] => format!("count as 0, as in SkillOpt: items `{first}` to `{last}`"),
                [] => continue,
            };
            mapping.lose(format!("{path}, rows without `{score}`"), items.len().to_string(), reason);
        }
        Ok(read.results)
    }

    /// Gives results the trajectories that lie beside them.
    fn conversations(&mut self, dir: &str, results: &mut [RolloutResult]) -> Result<(), ImportError> {
        for result in results.iter_mut().filter(|result| result.trajectory.is_empty()) {
            let path = format!("{dir}/predictions/{}/conversation.json", result.id);
            if !self.left.remove(&path) {
                continue;
            }
            let Value::Array(turns) = read_json(&self.dir.join(&path))? else {
                return Err(bad(self.dir, &path, "is not a list of turns"));
            };
            result.trajectory = Trajectory::of_messages(turns.iter().flat_map(turns_of));
            self.outcome
                .mapping
                .map(format!("{dir}/predictions/*/conversation.json"), "conversation of the results");
        }
        Ok(())
    }
}

/// An analyst's file; `None` if it holds no edits.
fn raw_patch(file: &Value, kind: SourceType, results: &[RolloutResult]) -> Option<RawPatch> {
    let patch: Patch = serde_json::from_value(file.get("patch")?.clone()).ok()?;
    let of_kind: Vec<ItemId> = results
        .iter()
        .filter(|result| result.is_success() == (kind == SourceType::Success))
        .map(|result| result.id.clone())
        .collect();
    let n_seen = file.get("batch_size").and_then(Value::as_u64).unwrap_or_default();
    // The file does not say which items the analyst saw. Where it saw as many as there are, it saw them all.
    let is_all = usize::try_from(n_seen).is_ok_and(|n_seen| n_seen == of_kind.len());
    let notes = match is_all {
        true => Vec::new(),
        false => vec!["which of the items the analyst saw is not in the files".to_owned()],
    };
    Some(RawPatch {
        patch,
        source_type: kind,
        batch_size: u32::try_from(n_seen).unwrap_or(u32::MAX),
        item_ids: if is_all { of_kind } else { Vec::new() },
        notes,
    })
}

/// A turn in our form: what is one record there, the agent's part and the world's, are two turns here.
fn turns_of(turn: &Value) -> Vec<TrajectoryMessage> {
    let text = |key: &str| match turn.get(key) {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    };
    if !turn.is_object() {
        let content = turn.as_str().map_or_else(|| turn.to_string(), str::to_owned);
        return vec![TrajectoryMessage::new(Role::Assistant, content)];
    }
    if turn.get("type").and_then(Value::as_str) == Some("tool_call") {
        return vec![
            TrajectoryMessage::new(Role::Assistant, text("cmd")),
            TrajectoryMessage::new(Role::Tool, text("obs")),
        ];
    }
    if turn.get("action").is_some() && turn.get("env_feedback").is_some() {
        let said = [text("reasoning"), text("action")];
        let said: Vec<&str> = said.iter().map(String::as_str).filter(|text| !text.is_empty()).collect();
        return vec![
            TrajectoryMessage::new(Role::Assistant, said.join("\n\n")),
            TrajectoryMessage::new(Role::User, text("env_feedback")),
        ];
    }
    let role = match turn.get("role").and_then(Value::as_str) {
        Some("system") => Role::System,
        Some("user") => Role::User,
        Some("tool") => Role::Tool,
        Some(_) | None => Role::Assistant,
    };
    vec![TrajectoryMessage::new(role, text("content"))]
}
