//! The end of a run's log of events: what the run is at, and its last lines in words.

use crate::bank::{self, Told, text};
use serde::Serialize;
use serde_json::Value;
use skill_pipeline::kind::RunKind;
use skill_pipeline::records::document::StepAction;
use skill_pipeline::run_dir::bank_progress::BankProgress;
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

/// The name of the log in the directory of a run.
const FILE: &str = "events.jsonl";
/// How much of the end of a log is read when somebody begins to look: what is before it is old.
const TAIL_BYTES: u64 = 256 * 1024;
/// The most bytes that are read at once; the rest is read the next time.
const MAX_BYTES: u64 = 4 * 1024 * 1024;
/// The most lines that are kept for those who come later.
const MAX_LINES: usize = 300;
/// The most characters of a line.
const MAX_CHARACTERS: usize = 600;

/// A line of the log, in words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Line {
    /// Milliseconds since 1970.
    pub unix_ms: u64,
    /// `warning`, `good`, `bad` or nothing.
    pub tone: &'static str,
    /// The event's name in the log.
    #[serde(skip)]
    pub event: String,
    /// The event in words.
    pub text: String,
}

/// Where a run is, by its events.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Position {
    pub total_steps: Option<u32>,
    pub step: Option<u32>,
    pub epoch: Option<u32>,
    pub stage: Option<StageAt>,
    /// For a run that trains a bank, whose rounds are its steps.
    pub bank: Option<Box<BankProgress>>,
}

/// A stage that is under way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StageAt {
    pub step: Option<u32>,
    pub name: String,
    pub total: u64,
    pub began_unix_ms: u64,
}

/// A log that is read as it grows.
#[derive(Debug)]
pub(crate) struct Log {
    path: PathBuf,
    /// How much of the file is read, up to the end of a line; `None` before the first time.
    offset: Option<u64>,
    pub position: Position,
    /// The last lines, each with where it ends in the file.
    pub lines: VecDeque<(u64, Line)>,
    /// Where the part of the file begins whose lines are all kept.
    pub kept_from: u64,
}

impl Log {
    pub(crate) fn new(run: &Path) -> Self {
        Self {
            path: run.join(FILE),
            offset: None,
            position: Position::default(),
            lines: VecDeque::new(),
            kept_from: 0,
        }
    }

    /// Reads what is new; says whether anything was.
    ///
    /// A log that cannot be read has nothing new: all that it tells is in other files too.
    pub(crate) fn read(&mut self) -> bool {
        self.read_new().unwrap_or_default()
    }

    fn read_new(&mut self) -> io::Result<bool> {
        let mut file = File::open(&self.path)?;
        let length = file.metadata()?.len();
        let is_first = self.offset.is_none_or(|offset| offset > length);
        let from = if is_first { length.saturating_sub(TAIL_BYTES) } else { self.offset.unwrap_or_default() };
        if from == length {
            return Ok(false);
        }
        file.seek(SeekFrom::Start(from))?;
        let mut bytes = Vec::new();
        file.take(MAX_BYTES).read_to_end(&mut bytes)?;
        let Some(end) = bytes.iter().rposition(|byte| *byte == b'\n') else {
            // A line of that length is none of ours: it is passed over.
            let is_long = u64::try_from(bytes.len()).is_ok_and(|n| n >= MAX_BYTES);
            self.offset = if is_long { Some(from + MAX_BYTES) } else { self.offset };
            return Ok(false);
        };
        bytes.truncate(end + 1);
        self.offset = Some(from + u64::try_from(bytes.len()).unwrap_or_default());
        if is_first {
            self.position = Position { bank: self.bank(), ..Position::default() };
            self.lines.clear();
            self.kept_from = from;
        }
        // What is read from its middle begins with the end of a line.
        let mut is_whole = !is_first || from == 0;
        let mut end = from;
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            end += u64::try_from(line.len()).unwrap_or_default();
            if !is_whole {
                (is_whole, self.kept_from) = (true, end);
            } else if let Ok(event) = serde_json::from_slice::<Value>(line) {
                self.take(&event, end);
            }
        }
        Ok(true)
    }

    /// Where the training of a bank begins, if this is such a run.
    fn bank(&self) -> Option<Box<BankProgress>> {
        self.path.parent().is_some_and(|dir| RunKind::Bank.is_at(dir)).then(Box::default)
    }

    fn take(&mut self, event: &Value, end: u64) {
        // The bank of a run is there before its process says that it has begun.
        if name_of(event) == "run_started" {
            self.position.bank = self.bank();
        }
        self.position.take(event);
        if let Some(line) = in_words(event, self.position.bank.is_some()) {
            self.lines.push_back((end, line));
            if self.lines.len() > MAX_LINES {
                self.kept_from = self.lines.pop_front().map_or(self.kept_from, |(end, _)| end);
            }
        }
    }
}

/// How many steps the run will have, by the end of its log.
pub(crate) fn last_known_length(run: &Path) -> Option<u32> {
    let mut log = Log::new(run);
    log.read();
    log.position.total_steps
}

impl Position {
    fn take(&mut self, event: &Value) {
        let number = |name: &str| event.get(name).and_then(Value::as_u64).and_then(|n| u32::try_from(n).ok());
        if let Some(bank) = &mut self.bank {
            bank.apply_logged(event);
        }
        match name_of(event) {
            "run_started" => {
                let bank = self.bank.take();
                *self = Self { total_steps: number("total_steps"), bank, ..Self::default() };
            }
            "round_started" => {
                self.total_steps = number("rounds").or(self.total_steps);
                (self.step, self.stage) = (number("round"), None);
            }
            "step_started" => {
                self.total_steps = number("total_steps").or(self.total_steps);
                (self.step, self.epoch, self.stage) = (number("step"), number("epoch"), None);
            }
            "stage_started" => {
                self.stage = Some(StageAt {
                    step: number("step"),
                    name: text(event, "stage").to_owned(),
                    total: event.get("total").and_then(Value::as_u64).unwrap_or_default(),
                    began_unix_ms: unix_ms(event),
                });
            }
            "stage_finished" | "step_finished" | "sft_step_finished" | "rl_iteration_finished" => {
                self.stage = None;
            }
            "round_finished" => (self.step, self.stage) = (None, None),
            "run_finished" | "bank_finished" | "sft_finished" | "rl_finished" | "run_stopped" => {
                (self.step, self.stage) = (None, None);
            }
            // What is told besides these changes no place; later versions may tell more.
            _ => {}
        }
    }
}

fn name_of(event: &Value) -> &str {
    text(event, "event")
}

fn unix_ms(event: &Value) -> u64 {
    event.get("unix_ms").and_then(Value::as_u64).unwrap_or_default()
}

/// An event as a line; `None` for those that only mark the beginning of what is told when it ends.
fn in_words(event: &Value, is_bank: bool) -> Option<Line> {
    let number = |pointer: &str| event.pointer(pointer).and_then(Value::as_f64).unwrap_or_default();
    let step = event.get("step").and_then(Value::as_u64);
    let unit = if is_bank { "round" } else { "step" };
    let place = step.map(|step| format!("{unit} {step}: ")).unwrap_or_default();
    let stage = text(event, "stage").replace('_', " ");
    let (tone, text) = match name_of(event) {
        "run_started" => {
            let after = number("/finished_steps");
            let after = if after > 0.0 { format!(", resumed after {unit} {after}") } else { String::new() };
            let (total, workers) = (number("/total_steps"), number("/workers"));
            ("", format!("a process took up the run: {total} {unit}s, {workers} calls at once{after}"))
        }
        "baseline_measured" => {
            let what = if is_bank { "without a bank" } else { "first skill" };
            ("", format!("{what}: {:.4} on the selection split", number("/gate_score")))
        }
        "step_started" => ("", format!("{place}begins, {} items", number("/batch_size"))),
        "stage_started" => return None,
        "stage_finished" => ("", format!("{place}{stage} took {:.1} s", number("/seconds"))),
        "step_finished" => finished_step(event.get("record")?),
        "epoch_ended" => ended_epoch(event),
        "test_measured" => {
            let split = if stage.starts_with("test") { "test" } else { "selection" };
            ("", format!("{stage}: {:.4} on the {split} split", number("/score/hard")))
        }
        "sft_step_finished" => ("", sft_step(event)),
        "sft_validated" => ("", sft_validation(event)),
        "sft_finished" => ("good", "the model is fine-tuned".to_owned()),
        "rl_iteration_finished" => ("", rl_iteration(event)),
        "rl_validated" => ("", rl_games(event)),
        "rl_finished" => ("good", "the policy is trained".to_owned()),
        "warning" => ("warning", format!("{place}{}", text(event, "message"))),
        "run_finished" => ("good", "the run is finished".to_owned()),
        "run_stopped" => ("warning", format!("the process ended: {}", text(event, "reason"))),
        name => match bank::in_words(name, event) {
            Told::Line(tone, text) => (tone, text),
            Told::Nothing => return None,
            // What a later version tells is shown as it stands.
            Told::Unknown => ("", event.to_string()),
        },
    };
    Some(Line {
        unix_ms: unix_ms(event),
        tone,
        event: name_of(event).to_owned(),
        text: clip(&text, MAX_CHARACTERS),
    })
}

fn sft_step(event: &Value) -> String {
    let number = |pointer: &str| event.pointer(pointer).and_then(Value::as_f64).unwrap_or_default();
    let speed = number("/record/tokens") / number("/seconds").max(1e-9);
    format!(
        "step {}: loss {:.4}, rate {:.2e}, gradient norm {:.3}, {speed:.0} tokens/s",
        number("/record/step"),
        number("/record/loss"),
        number("/record/learning_rate"),
        number("/record/grad_norm")
    )
}

fn sft_validation(event: &Value) -> String {
    let number = |pointer: &str| event.pointer(pointer).and_then(Value::as_f64);
    let loss = number("/record/loss").map(|loss| format!(" loss {loss:.4}")).unwrap_or_default();
    let games = number("/record/games/won").zip(number("/record/games/played"));
    let games = games.map(|(won, played)| format!(", {won} of {played} games won")).unwrap_or_default();
    format!("validation after step {}:{loss}{games}", number("/record/step").unwrap_or_default())
}

fn rl_iteration(event: &Value) -> String {
    let number = |pointer: &str| event.pointer(pointer).and_then(Value::as_f64).unwrap_or_default();
    let speed = number("/record/sampled_tokens") / number("/seconds").max(1e-9);
    format!(
        "iteration {}: {} of {} won, return {:.3}, {:.0} % of groups without signal, KL {:.4}, entropy {:.2}, \
         clipped {:.1} %, gradient norm {:.3}, {speed:.0} tokens/s",
        number("/record/iteration"),
        number("/record/won"),
        number("/record/episodes"),
        number("/record/reward"),
        100.0 * number("/record/groups_without_signal"),
        number("/record/kl"),
        number("/record/entropy"),
        100.0 * number("/record/clipped"),
        number("/record/grad_norm")
    )
}

fn rl_games(event: &Value) -> String {
    let number = |pointer: &str| event.pointer(pointer).and_then(Value::as_f64).unwrap_or_default();
    format!(
        "games after iteration {}: {} of {} won",
        number("/record/iteration"),
        number("/record/games/won"),
        number("/record/games/played")
    )
}

fn finished_step(record: &Value) -> (&'static str, String) {
    let number = |name: &str| record.get(name).and_then(Value::as_f64);
    let action = text(record, "action");
    let known: Option<StepAction> = serde_json::from_value(Value::from(action)).ok();
    let tone = match known {
        Some(action) if action.is_accept() => "good",
        Some(StepAction::Reject) => "bad",
        Some(_) | None => "",
    };
    // A later version may know more actions.
    let words = known.map_or_else(|| action.replace('_', " "), |action| action.words().to_owned());
    let step = number("step").unwrap_or_default();
    let score = number("candidate_gate_score");
    let scores = match (number("score_before"), score) {
        (Some(before), Some(score)) => format!(", {before:.4} → {score:.4}"),
        (Some(before), None) => format!(", the score stays {before:.4}"),
        (None, _) => String::new(),
    };
    (tone, format!("step {step}: {words}{scores}"))
}

fn ended_epoch(event: &Value) -> (&'static str, String) {
    let epoch = event.get("epoch").and_then(Value::as_u64).unwrap_or_default();
    let action = |part: &str| {
        let action = text(event.get(part)?, "action");
        let words = match action {
            "" => return None,
            "inject_placeholder" | "skip_first_epoch" => {
                "not yet, as the first epoch has nothing to compare with"
            }
            "accept_new_best" => "accepted, a new best",
            "accept" => "accepted",
            "reject" => "rejected",
            "indecisive" => "indecisive",
            "force_accept" => "kept without a gate",
            "no_content" => "none",
            "skip_no_op" => "as it was",
            "write_meta_skill" => "written",
            // What a later version tells is shown as it stands.
            other => other,
        };
        Some(words.to_owned())
    };
    let (guidance, notes) = (action("slow_update"), action("meta_skill"));
    let is_accepted = guidance.as_ref().is_some_and(|action| action.starts_with("accepted"));
    let parts = [
        guidance.map(|action| format!("guidance: {action}")),
        notes.map(|action| format!("notes: {action}")),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    let told = if parts.is_empty() { String::new() } else { format!("; {}", parts.join("; ")) };
    (if is_accepted { "good" } else { "" }, format!("epoch {epoch} has ended{told}"))
}

/// The beginning of a text, with a mark where it was cut.
pub(crate) fn clip(text: &str, max_characters: usize) -> String {
    match text.char_indices().nth(max_characters) {
        Some((end, _)) => format!("{} […]", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use skill_pipeline::SlowUpdateAction;
    use skill_pipeline::records::epoch::MetaSkillAction;

    #[track_caller]
    fn check(event: &Value, expect: &str) {
        assert_eq!(in_words(event, false).unwrap().text, expect);
    }

    #[test]
    fn ends_of_epochs_and_measurements_are_told_in_words() {
        check(&json!({"event": "epoch_ended", "epoch": 1}), "epoch 1 has ended");
        let both = json!({
            "event": "epoch_ended",
            "epoch": 2,
            "slow_update": {"action": SlowUpdateAction::AcceptNewBest},
            "meta_skill": {"action": MetaSkillAction::WriteMetaSkill},
        });
        check(&both, "epoch 2 has ended; guidance: accepted, a new best; notes: written");
        let first = json!({
            "event": "epoch_ended",
            "epoch": 1,
            "slow_update": {"action": SlowUpdateAction::InjectPlaceholder},
            "meta_skill": {"action": MetaSkillAction::SkipFirstEpoch},
        });
        let not_yet = "not yet, as the first epoch has nothing to compare with";
        check(&first, &format!("epoch 1 has ended; guidance: {not_yet}; notes: {not_yet}"));
        for (stage, split) in
            [("test_best", "test"), ("fresh_best", "selection"), ("final_selection", "selection")]
        {
            let event = json!({"event": "test_measured", "stage": stage, "score": {"hard": 0.5}});
            check(&event, &format!("{}: 0.5000 on the {split} split", stage.replace('_', " ")));
        }
    }
}
