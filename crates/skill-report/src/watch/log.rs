//! The end of a run's log of events: what the run is at, and its last lines in words.

use crate::data::conversation::clip;
use crate::lines::EventLines;
use serde::{Deserialize as _, Serialize};
use serde_json::Value;
use skill_llm::regular_file;
use skill_pipeline::Event;
use skill_pipeline::kind::trains_bank;
use skill_pipeline::run_dir::bank_progress::BankProgress;
use std::collections::VecDeque;
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
    words: EventLines,
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
            words: EventLines::default(),
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
        let mut file = regular_file::open(&self.path)?;
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
            self.words = EventLines::default();
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
        self.path.parent().is_some_and(trains_bank).then(Box::default)
    }

    fn take(&mut self, event: &Value, end: u64) {
        // The bank of a run is there before its process says that it has begun.
        if name_of(event) == "run_started" {
            self.position.bank = self.bank();
        }
        self.position.take(event);
        if let Some(line) = self.line(event) {
            self.lines.push_back((end, line));
            if self.lines.len() > MAX_LINES {
                self.kept_from = self.lines.pop_front().map_or(self.kept_from, |(end, _)| end);
            }
        }
    }

    /// An event as a line; `None` if another line covers it.
    fn line(&mut self, event: &Value) -> Option<Line> {
        self.words.is_bank = self.position.bank.is_some();
        let (tone, text) = match Event::deserialize(event) {
            Ok(known) => self.words.line(&known).map(|line| (line.tone.as_str(), line.text))?,
            // Events of later versions are shown as JSON.
            Err(_) => ("", event.to_string()),
        };
        Some(Line {
            unix_ms: unix_ms(event),
            tone,
            event: name_of(event).to_owned(),
            text: clip(&text, MAX_CHARACTERS),
        })
    }
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

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn unix_ms(event: &Value) -> u64 {
    event.get("unix_ms").and_then(Value::as_u64).unwrap_or_default()
}
