//! A recorded run beside the directory of ours.

use crate::recorded::is_same;
use crate::world::scores;
use serde_json::{Value, json};
use skill_core::SkillDoc;
use skill_core::appendix::inject_appendix;
use skill_core::gate::{Gate, GateAction};
use skill_pipeline::{Acceptance, EarlyStop, SlowUpdate, TrainSettings};
use std::path::{Path, PathBuf};

/// Where the reference is wrong and a run of ours differs for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Difference {
    /// Defect 9: a candidate equal to the current skill is a no-op here; the reference evaluates and rejects it.
    NoOp,
    /// Early rejection: a rejected candidate has no mean here, and a range instead.
    EarlyRejection,
    /// Defect 13: after a forced slow update the reference goes on with the score of the skill before it.
    ForcedScore,
    /// A skill that is found to be the best at the end keeps the step that made it.
    PromotedStep,
    /// The last skill is not measured on the test split: nobody deploys it.
    FinalTest,
}

impl Difference {
    fn why(self) -> &'static str {
        match self {
            Self::NoOp => {
                "defect 9: a candidate equal to the current skill is a no-op, neither evaluated nor rejected"
            }
            Self::EarlyRejection => "a candidate that was rejected early has a range instead of a mean",
            Self::ForcedScore => "defect 13: the score of a forced slow update is measured, not guessed",
            Self::PromotedStep => "the best skill's step is the one that made it, not the last one",
            Self::FinalTest => "the last skill is not measured on the test split",
        }
    }
}

pub(crate) struct Comparison {
    dir: PathBuf,
    gate: Gate,
    early_stop: EarlyStop,
    /// The current skill and the best one as ours has them, before the step that is compared.
    current: String,
    best: String,
    /// What the reference called its no-ops.
    no_ops: Vec<Value>,
    steps_per_epoch: u64,
    is_forced: bool,
    has_gate: bool,
    /// The current score of the reference is a guess.
    is_score_apart: bool,
    /// Decisions have come apart, for a reason: what follows is another run.
    is_over: bool,
    differences: Vec<String>,
    failures: Vec<String>,
}

impl Comparison {
    pub(crate) fn new(dir: &Path, initial: &str, settings: &TrainSettings) -> Self {
        let current = SkillDoc::new(initial);
        // The region for notes is there from the start, though not in what the baseline measures.
        let current = if settings.skill_aware.is_some() { inject_appendix(&current) } else { current };
        Self {
            dir: dir.to_owned(),
            gate: settings.gate,
            early_stop: settings.early_stop,
            current: current.source_text().to_owned(),
            best: initial.to_owned(),
            no_ops: Vec::new(),
            steps_per_epoch: 10_u64.div_ceil((settings.batch_size * settings.accumulation) as u64),
            is_forced: settings.epoch_end.slow_update == SlowUpdate::Force,
            has_gate: settings.acceptance == Acceptance::Gate,
            is_score_apart: false,
            is_over: false,
            differences: Vec::new(),
            failures: Vec::new(),
        }
    }

    pub(crate) fn finish(self) -> Result<Vec<String>, Vec<String>> {
        if self.failures.is_empty() { Ok(self.differences) } else { Err(self.failures) }
    }

    pub(crate) fn run(&mut self, run: &Value, asked: &[String], stopped: Option<String>) {
        for step in run["steps"].as_array().unwrap() {
            if self.is_over {
                return;
            }
            self.step(step);
            let number = step["step"].as_u64().unwrap();
            if number.is_multiple_of(self.steps_per_epoch) {
                self.epoch_end(number / self.steps_per_epoch, &run["slow_updates"]);
            }
        }
        if self.is_over {
            return;
        }
        self.same("the run", "error", json!(stopped), &Value::Null);
        self.same("the run", "calls_by_stage", json!(asked), &run["calls_by_stage"]);
        self.same("the run", "best_skill", self.text("best_skill.md"), &run["best_skill"]);
        self.summary(&run["summary"]);
        for key in run.as_object().unwrap().keys() {
            const KNOWN: [&str; 7] =
                ["config", "steps", "slow_updates", "calls_by_stage", "replies", "best_skill", "summary"];
            if !KNOWN.contains(&key.as_str()) {
                self.failures.push(format!("the run has a key `{key}` that the test does not know"));
            }
        }
    }

    fn step(&mut self, recorded: &Value) {
        let number = recorded["step"].as_u64().unwrap();
        let place = format!("step {number}");
        let step_dir = format!("steps/step_{number:04}");
        let ours = self.json(&format!("{step_dir}/step_record.json"));
        if ours.is_null() {
            self.failures.push(format!("{place}: the run did not come so far"));
            self.is_over = true;
            return;
        }
        let candidate = self.text(&format!("{step_dir}/candidate_skill.md"));
        let is_no_op = candidate.as_str() == Some(self.current.as_str());
        if is_no_op {
            self.note(&place, Difference::NoOp);
            self.no_ops.push(recorded["action"].clone());
        }
        let has_gate = self.has_gate;
        if has_gate && candidate.is_string() && !is_no_op && ours["action"] != recorded["action"] {
            self.decision_for_a_reason(&place, candidate.as_str().unwrap(), &ours, recorded);
            return;
        }
        for (key, theirs) in recorded.as_object().unwrap() {
            let mine = match key.as_str() {
                "action" if is_no_op => json!("skip_no_op"),
                // What the current skill really gives, which a later acceptance makes known to both.
                "current_score" if self.is_score_apart => {
                    self.is_score_apart = !is_accept(&ours["action"]);
                    continue;
                }
                "batch_item_ids" => flat(&ours[key]),
                "edit_apply_summary" => apply_summary(&ours, theirs),
                "candidate_skill" => candidate.clone(),
                "current_skill_after" => self.current_after(number),
                "selection_hard" | "selection_soft" | "candidate_gate_score" if ours.get(key).is_none() => {
                    let is_early = self.early_stop == EarlyStop::Exact && ours["action"] == "reject";
                    match (is_no_op, is_early) {
                        (true, _) => {}
                        (false, true) => self.note(&place, Difference::EarlyRejection),
                        (false, false) => self.failures.push(format!("{place}: `{key}` is missing")),
                    }
                    continue;
                }
                _ => ours.get(key).cloned().unwrap_or(Value::Null),
            };
            let theirs = match key.as_str() {
                "action" if is_no_op => &ours["action"],
                "batch_item_ids" => &flat(theirs),
                _ => theirs,
            };
            self.same(&place, key, mine, theirs);
        }
        self.current = self.current_after(number).as_str().unwrap_or_default().to_owned();
        let is_new_best = ours["best_step"] == number && is_accept(&ours["action"]);
        if is_new_best {
            self.best = candidate.as_str().unwrap_or_default().to_owned();
        }
    }

    /// The two decide otherwise: ours has to be what the strict gate says of what the world really gives.
    fn decision_for_a_reason(&mut self, place: &str, candidate: &str, ours: &Value, recorded: &Value) {
        let [of_candidate, of_current, of_best] = [candidate, &self.current, &self.best].map(scores);
        let right = self.gate.decide(&of_candidate, &of_current, &of_best);
        if self.is_forced && self.is_score_apart && ours["action"] == GateAction::as_str(right) {
            self.note(place, Difference::ForcedScore);
        } else {
            let message =
                format!("{place}: `action` is {}, recorded is {}", ours["action"], recorded["action"]);
            self.failures.push(message);
        }
        self.is_over = true;
    }

    /// The slow update at the end of an epoch, from 1.
    fn epoch_end(&mut self, epoch: u64, recorded: &Value) {
        let Some(recorded) = recorded.get(usize::try_from(epoch - 1).unwrap()) else { return };
        let place = format!("slow update {epoch}");
        let dir = format!("slow_update/epoch_{epoch:02}");
        let ours = self.json(&format!("{dir}/slow_result.json"));
        let is_no_op = ours["action"] == "skip_no_op";
        for (key, theirs) in recorded.as_object().unwrap() {
            match key.as_str() {
                // Words of the reference that say the same for every update.
                "update_origin" | "update_target" | "time_s" => {}
                "action" if is_no_op => self.note(&place, Difference::NoOp),
                "selection_hard" | "selection_soft" if ours.get(key).is_none() => {
                    if ours["action"] == "reject" && self.early_stop == EarlyStop::Exact {
                        self.note(&place, Difference::EarlyRejection);
                    } else if !is_no_op {
                        self.failures.push(format!("{place}: `{key}` is missing"));
                    }
                }
                _ => self.same(&place, key, ours.get(key).cloned().unwrap_or(Value::Null), theirs),
            }
        }
        match ours["action"].as_str().unwrap_or_default() {
            "accept_new_best" => self.best.clone_from(&self.current),
            "force_accept" if ours["current_score"] != ours["score_before"] => {
                self.note(&place, Difference::ForcedScore);
                self.is_score_apart = true;
            }
            _ => {}
        }
    }

    fn summary(&mut self, recorded: &Value) {
        const ACCEPTS: [&str; 3] = ["accept_new_best", "accept", "force_accept"];
        let no_ops = |this: &Self, actions: &[&str]| -> i64 {
            let counted = this.no_ops.iter().filter(|action| actions.iter().any(|name| *action == name));
            i64::try_from(counted.count()).unwrap()
        };
        let ours = self.json("summary.json");
        let is_promoted =
            ours.get("best_slow_epoch").is_some() || ours.get("is_best_measured_last").is_some();
        for (key, theirs) in recorded.as_object().unwrap() {
            let (mine, theirs) = match key.as_str() {
                "total_rejects" => {
                    (ours[key].clone(), json!(theirs.as_i64().unwrap() - no_ops(self, &["reject"])))
                }
                "total_accepts" => {
                    (ours[key].clone(), json!(theirs.as_i64().unwrap() - no_ops(self, &ACCEPTS)))
                }
                "total_skips" => {
                    let all = i64::try_from(self.no_ops.len()).unwrap();
                    (ours[key].clone(), json!(theirs.as_i64().unwrap() + all))
                }
                "best_step" if !is_same(&ours[key], theirs) && is_promoted => {
                    self.note("the summary", Difference::PromotedStep);
                    continue;
                }
                "best_selection_hard" => (ours["best_selection_score"].clone(), theirs.clone()),
                "final_selection_hard" => (self.measured_hard(), theirs.clone()),
                "final_test_hard" if ours.get(key).is_none() => {
                    self.note("the summary", Difference::FinalTest);
                    continue;
                }
                _ => (ours.get(key).cloned().unwrap_or(Value::Null), theirs.clone()),
            };
            self.same("the summary", key, mine, &theirs);
        }
    }

    /// The mean `hard` of the current skill on the selection split, from the file of the run in which it was measured.
    fn measured_hard(&self) -> Value {
        let state = self.json("runtime_state.json");
        if let Some(epoch) = state.get("current_slow_epoch").and_then(Value::as_u64) {
            return self.json(&format!("slow_update/epoch_{epoch:02}/slow_result.json"))["selection_hard"]
                .clone();
        }
        match state["current_step"].as_u64().unwrap() {
            0 => state["baseline"]["hard"].clone(),
            step => self.json(&format!("steps/step_{step:04}/step_record.json"))["selection_hard"].clone(),
        }
    }

    /// The current skill after a step, and after the end of its epoch if it was the last one of it.
    fn current_after(&self, step: u64) -> Value {
        let epoch = step / self.steps_per_epoch;
        let of_epoch = self.text(&format!("skills/skill_epoch_{epoch:02}.md"));
        if step.is_multiple_of(self.steps_per_epoch) && of_epoch.is_string() {
            return of_epoch;
        }
        self.text(&format!("skills/skill_v{step:04}.md"))
    }

    fn same(&mut self, place: &str, key: &str, ours: Value, recorded: &Value) {
        if !is_same(&ours, recorded) {
            self.failures.push(format!("{place}: `{key}`\n    recorded {recorded}\n        ours {ours}"));
        }
    }

    fn note(&mut self, place: &str, difference: Difference) {
        self.differences.push(format!("{place}: differs on purpose: {}", difference.why()));
    }

    fn text(&self, path: &str) -> Value {
        std::fs::read_to_string(self.dir.join(path)).map_or(Value::Null, Value::String)
    }

    fn json(&self, path: &str) -> Value {
        std::fs::read(self.dir.join(path))
            .map_or(Value::Null, |bytes| serde_json::from_slice(&bytes).unwrap())
    }
}

fn is_accept(action: &Value) -> bool {
    action.as_str().is_some_and(|action| action.contains("accept"))
}

/// The items of all micro-batches.
fn flat(ids: &Value) -> Value {
    let list = ids.as_array().map(Vec::as_slice).unwrap_or_default();
    list.iter().flat_map(|id| id.as_array().cloned().unwrap_or_else(|| vec![id.clone()])).collect()
}

/// The counts that both have, under the names of the reference.
fn apply_summary(ours: &Value, theirs: &Value) -> Value {
    let mut mine = ours["apply_report"].clone();
    if mine.is_object() && theirs.get("errors").is_some() {
        mine["errors"] = json!(0);
    }
    mine
}
