//! Which skills an agent loads, as all media show it: facts and tables of texts.

use super::Fact;
use crate::ReportError;
use crate::lines::Tone;
use crate::words::{counted, dollars, grouped, harmless, p_words};
use serde::Serialize;
use skill_agents::kept::{Inputs, Kept, is_measurement};
use skill_agents::query::{Query, beginning};
use skill_agents::rates::Rate;
use skill_agents::report::{NO_SKILL, QueryRow, SkillRates, TriggerReport, beginnings};
use skill_agents::train::{Fate, Step, TrainedSkill, TrainingRecord};
use std::fmt::Write as _;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// The most characters of a query in a table.
const MAX_QUERY_CHARS: usize = 70;

/// A measurement of which skills an agent loads, with the training of descriptions that was made of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TriggersView {
    /// The agent, with its versions and models.
    pub title: String,
    /// Runs, starts, tokens and cost.
    pub facts: Vec<Fact>,
    /// The tables.
    pub tables: Vec<TriggersTable>,
    /// What to know before the numbers are trusted.
    pub warnings: Vec<String>,
}

/// A table: the first column is named by the title.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TriggersTable {
    /// What it is of.
    pub title: String,
    /// A sentence below the title; empty where it needs none.
    pub about: String,
    /// The names of its columns.
    pub columns: Vec<String>,
    /// Its rows, each with a text for each column.
    pub rows: Vec<TriggersRow>,
}

/// A row of a table.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TriggersRow {
    /// Its tone.
    #[serde(serialize_with = "as_class")]
    pub tone: Tone,
    /// A text for each column.
    pub cells: Vec<String>,
}

/// The runs of a coding agent in a directory; `None` where it has none.
///
/// # Errors
///
/// A file that cannot be read or is damaged.
pub fn triggers_at(directory: &Path) -> Result<Option<Kept>, ReportError> {
    Ok(is_measurement(directory).then(|| Kept::read(directory)).transpose()?)
}

impl TriggersView {
    /// A directory of runs, also of those in progress.
    pub fn read(kept: &Kept) -> Self {
        let found = kept.report();
        let mut view = Self::of(&found, kept.n_starts).with_inputs(&kept.inputs, kept.measured_at);
        if kept.training.is_some() {
            // The training has measured other descriptions, and its table says which queries no description helps.
            let of_one = found.answered_at_once();
            view.warnings.retain(|warning| Some(warning) != of_one.as_ref());
            view.facts.push(Fact::new("rates", "of the descriptions before the training"));
        }
        let training = kept.training.iter().flat_map(|training| trainings(training, &kept.inputs.queries));
        view.tables.splice(0..0, training);
        view
    }

    /// A measurement.
    pub fn of(found: &TriggerReport, n_starts: usize) -> Self {
        let about: Vec<&str> = found.versions.iter().chain(&found.models).map(String::as_str).collect();
        let about = if about.is_empty() { String::new() } else { format!(" ({})", about.join(", ")) };
        let mut facts: Vec<Fact> =
            found.skills.iter().filter_map(|(name, rates)| verdict(name, rates)).collect();
        facts.extend(found.taken().into_iter().map(|(taker, wanted, n, of)| {
            Fact::new(
                "taken",
                format!("{} takes {n} of {of} requests of {}", harmless(taker), harmless(wanted)),
            )
        }));
        facts.push(Fact::new("runs", format!("{} of {} counted", found.counted, found.planned)));
        if !found.failed.is_empty() {
            facts.push(Fact::new("failed", counted(found.failed.len() as u64, "run")));
        }
        let cost = found.cost.map(|cost| format!(", {}", dollars(cost))).unwrap_or_default();
        let tokens = format!("{} tokens in, {} out{cost}", grouped(found.input), grouped(found.output));
        facts.push(Fact::new("spent", format!("{}, {tokens}", counted(n_starts as u64, "start"))));
        let rates = found.skills.iter().map(|(name, rates)| rates_of(name, rates));
        let names: Vec<&String> = found.skills.keys().collect();
        let queries =
            names.iter().copied().map(Some).chain([None]).filter_map(|name| queries_of(name, found));
        let confusions = (names.len() > 1).then(|| confusions(found));
        Self {
            title: format!("{}{about}", found.agent),
            facts,
            tables: rates.chain(queries).chain(confusions).chain(failures(found)).collect(),
            warnings: found.warnings.clone(),
        }
    }

    /// The same with the descriptions that were measured, and the date of the last run.
    #[must_use]
    pub fn with_inputs(mut self, inputs: &Inputs, measured_at: Option<SystemTime>) -> Self {
        for (name, description) in &inputs.descriptions {
            self.facts.push(Fact::new("listed", format!("{}: {}", harmless(name), harmless(description))));
        }
        let seconds = measured_at.and_then(|at| at.duration_since(UNIX_EPOCH).ok());
        let seconds = seconds.and_then(|since| i64::try_from(since.as_secs()).ok());
        let date = seconds.and_then(|seconds| jiff::Timestamp::from_second(seconds).ok());
        if let Some(date) = date {
            self.facts.push(Fact::new("date", date.strftime("%Y-%m-%d").to_string()));
        }
        self
    }

    /// All of it as text, with its columns in line.
    pub fn text(&self) -> String {
        let mut text = format!("{}\n", self.title);
        for fact in &self.facts {
            let _ = writeln!(text, "{:<7} {}", fact.name, fact.words);
        }
        for table in &self.tables {
            let _ = writeln!(text, "\n{}", table.title);
            if !table.about.is_empty() {
                let _ = writeln!(text, "{}", table.about);
            }
            table.write(&mut text);
        }
        if !self.warnings.is_empty() {
            text.push('\n');
        }
        for warning in &self.warnings {
            let _ = writeln!(text, "warning: {warning}");
        }
        text
    }
}

impl TriggersTable {
    fn new(title: impl Into<String>, columns: &[&str]) -> Self {
        let columns = columns.iter().map(|name| (*name).to_owned()).collect();
        Self { title: title.into(), about: String::new(), columns, rows: Vec::new() }
    }

    fn push<const N: usize>(&mut self, tone: Tone, cells: [String; N]) {
        let cells = cells.iter().map(|cell| harmless(cell)).collect();
        self.rows.push(TriggersRow { tone, cells });
    }

    /// The last column is as wide as it is.
    fn write(&self, text: &mut String) {
        let lines = || std::iter::once(&self.columns).chain(self.rows.iter().map(|row| &row.cells));
        let width = |column: usize| {
            lines().filter_map(|cells| cells.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.columns.len()).map(width).collect();
        for cells in lines() {
            let padded = cells.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
            let _ = writeln!(text, "  {}", padded.collect::<Vec<_>>().join("  ").trim_end());
        }
    }
}

/// What the rates of a skill come to, in a sentence.
fn verdict(name: &str, rates: &SkillRates) -> Option<Fact> {
    let percent = |share: f64| format!("{:.0} %", share * 100.0);
    let recall = rates.recall.as_ref().map(|rate| {
        let (low, high) = (percent(rate.low), percent(rate.high));
        format!("for {} of the requests that need it ({low} to {high})", percent(rate.rate))
    });
    let false_positives =
        rates.false_positives.as_ref().map(|rate| format!("for {} of the others", percent(rate.rate)));
    let both: Vec<String> = recall.into_iter().chain(false_positives).collect();
    (!both.is_empty())
        .then(|| Fact::new("verdict", format!("{} is loaded {}", harmless(name), both.join(", and "))))
}

fn rates_of(name: &str, rates: &SkillRates) -> TriggersTable {
    let title = format!("{name} (about {} in the listing)", counted(rates.listing_tokens as u64, "token"));
    let mut table = TriggersTable::new(title, &["", "rate", "95 % interval", "queries", "runs"]);
    let of = [
        ("recall", &rates.recall),
        ("false positives", &rates.false_positives),
        ("near misses", &rates.near_misses),
    ];
    for (what, rate) in of {
        table.push(Tone::Plain, row_of(what, rate.as_ref()));
    }
    if rates.attempted > 0 {
        table.about = format!("requested and not loaded in {}", counted(rates.attempted as u64, "run"));
    }
    table
}

fn row_of(what: &str, rate: Option<&Rate>) -> [String; 5] {
    let percent = |share: f64| format!("{:.0}", share * 100.0);
    let cells = match rate {
        Some(rate) => [
            format!("{} %", percent(rate.rate)),
            format!("{} to {} %", percent(rate.low), percent(rate.high)),
            rate.queries.to_string(),
            rate.runs.to_string(),
        ],
        None => ["not measured", "", "", ""].map(str::to_owned),
    };
    let [rate, interval, queries, runs] = cells;
    [what.to_owned(), rate, interval, queries, runs]
}

/// The queries of a skill, or of none; `None` where there are none.
fn queries_of(skill: Option<&String>, found: &TriggerReport) -> Option<TriggersTable> {
    let rows: Vec<&QueryRow> = found.queries.iter().filter(|row| row.skill.as_ref() == skill).collect();
    if rows.is_empty() {
        return None;
    }
    let title = match skill {
        Some(name) => format!("Queries that should load {name}"),
        None => "Queries that should load no skill".to_owned(),
    };
    let mut table = TriggersTable::new(title, &["loaded", "query", "notes"]);
    for row in rows {
        let (n_loaded, cells) = query(row, found);
        let is_right = if skill.is_some() { n_loaded == row.runs } else { n_loaded == 0 };
        let tone = match row.runs {
            0 => Tone::Faint,
            _ if is_right => Tone::Plain,
            _ => Tone::Bad,
        };
        table.push(tone, cells);
    }
    Some(table)
}

/// Runs in which a skill was loaded, and the cells of a query.
fn query(row: &QueryRow, found: &TriggerReport) -> (usize, [String; 3]) {
    // No run has more than one load of a skill, and with one skill that should not be loaded this is their number.
    let n_loaded = match &row.skill {
        Some(name) => row.loaded.get(name).copied().unwrap_or(0),
        None => {
            let measured = row.loaded.iter().filter(|(name, _)| found.skills.contains_key(*name));
            measured.map(|(_, n)| *n).max().unwrap_or(0)
        }
    };
    let of = if row.runs == 0 { "not measured".to_owned() } else { format!("{n_loaded} of {}", row.runs) };
    let mut notes = Vec::new();
    if row.near_miss {
        notes.push("near miss".to_owned());
    }
    if row.solved_without {
        notes.push("answered without any skill".to_owned());
    }
    if let Some(turn) = row.first_turn.filter(|turn| *turn > 1.0) {
        notes.push(format!("first in turn {turn:.1}"));
    }
    notes.extend(
        row.outcomes
            .iter()
            .filter(|(outcome, _)| !outcome.counts())
            .map(|(outcome, n)| format!("{} {n}", outcome.as_str())),
    );
    let is_told =
        |name: &str| row.skill.as_deref() == Some(name) || (row.skill.is_none() && found.skills.len() == 1);
    let others = row.loaded.iter().filter(|(name, _)| *name != NO_SKILL);
    notes.extend(
        others
            .filter(|(name, _)| !is_told(name) || !found.skills.contains_key(*name))
            .map(|(name, n)| format!("{name} loaded in {n}")),
    );
    (n_loaded, [of, beginning(&row.query, MAX_QUERY_CHARS), notes.join(", ")])
}

/// Which skill was loaded for the queries of which.
fn confusions(found: &TriggerReport) -> TriggersTable {
    let loaded = found.confusions.values().flat_map(|row| row.keys()).filter(|name| *name != NO_SKILL);
    let mut names: Vec<&String> = found.skills.keys().chain(loaded).collect();
    names.sort();
    names.dedup();
    let mut table = TriggersTable::new("Loaded skills, in runs", &["queries of"]);
    table.columns.extend(names.iter().map(|name| (*name).clone()).chain(["no skill".to_owned()]));
    for (wanted, row) in &found.confusions {
        let number = |name: &str| row.get(name).map_or_else(|| "0".to_owned(), ToString::to_string);
        let shown = if wanted == NO_SKILL { "no skill" } else { wanted.as_str() };
        let numbers = names.iter().map(|name| number(name)).chain([number(NO_SKILL)]);
        let cells = std::iter::once(shown.to_owned()).chain(numbers).collect();
        table.rows.push(TriggersRow { tone: Tone::Plain, cells });
    }
    table
}

fn failures(found: &TriggerReport) -> Option<TriggersTable> {
    let mut table = TriggersTable::new("Failed runs, which are in no rate", &["query", "run", "why"]);
    for run in &found.failed {
        table.push(Tone::Bad, [run.query.clone(), run.repetition.to_string(), run.said()]);
    }
    (!found.failed.is_empty()).then_some(table)
}

fn trainings(training: &TrainingRecord, queries: &[Query]) -> Vec<TriggersTable> {
    let last = training.skills.len().saturating_sub(1);
    let is_over = |idx: usize| training.is_finished || idx < last;
    let skills = training.skills.iter().enumerate();
    skills.map(|(idx, skill)| training_of(skill, queries, is_over(idx))).collect()
}

/// The training of a description: its result, and a row for each proposal.
pub fn training_of(skill: &TrainedSkill, queries: &[Query], is_finished: bool) -> TriggersTable {
    let title = format!("Training the description of {}", harmless(&skill.name));
    let columns = ["step", "result", "training queries", "held-out queries", "p", "proposal"];
    let mut table = TriggersTable::new(title, &columns);
    let shown = |share: f64| format!("{:.0} %", share * 100.0);
    for step in &skill.steps {
        let when = step.texts.when_to_use.as_ref().map(|when| format!(" - {when}")).unwrap_or_default();
        let gate = step.gate.map(|gate| format!("{} → {}", shown(gate.current), shown(gate.candidate)));
        let p = step.gate.map(|gate| p_words(gate.p).trim_start_matches("= ").to_owned()).unwrap_or_default();
        table.push(
            tone_of(step.fate),
            [
                step.step.to_string(),
                fate_in_words(step),
                step.train.map(shown).unwrap_or_default(),
                gate.unwrap_or_default(),
                p,
                format!("{}{when}", step.texts.description),
            ],
        );
    }
    let n_accepted = skill.steps.iter().filter(|step| step.fate == Fate::Accepted).count();
    let _ = write!(table.about, "{n_accepted} of {} accepted", counted(skill.steps.len() as u64, "proposal"));
    let gates: Vec<_> =
        skill.steps.iter().filter_map(|step| step.gate.filter(|gate| gate.is_accepted)).collect();
    if let (Some(first), Some(last)) = (gates.first(), gates.last()) {
        let (before, after) = (shown(first.current), shown(last.candidate));
        let _ =
            write!(table.about, "; held-out queries right: {before} → {after} ({} queries)", last.queries);
    }
    if !is_finished {
        table.about.push_str("; not finished");
    }
    if !skill.answered_without_any_skill.is_empty() {
        let is_one = |query: &&Query| skill.answered_without_any_skill.contains(&query.id);
        let texts: Vec<&str> = queries.iter().filter(is_one).map(|query| query.query.as_str()).collect();
        let texts = harmless(&beginnings(&texts));
        // Before a proposal is measured, only one description is known not to.
        let is_compared = skill.steps.iter().any(|step| step.train.is_some());
        let so = if is_compared {
            " under every description, so none helps"
        } else {
            ", so a description may not help"
        };
        let _ = write!(table.about, "\nanswered at once and without any tool{so}: {texts}");
    }
    let _ = write!(table.about, "\ndescription: {}", harmless(&skill.best.description));
    if let Some(when) = &skill.best.when_to_use {
        let _ = write!(table.about, "\nwhen_to_use: {}", harmless(when));
    }
    if table.rows.is_empty() {
        table.columns.clear();
    }
    table
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn as_class<S: serde::Serializer>(tone: &Tone, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(match tone {
        Tone::Plain => "",
        Tone::Good => "good",
        Tone::Bad => "bad",
        Tone::Warning => "warm",
        Tone::Faint => "faint",
    })
}

const fn tone_of(fate: Fate) -> Tone {
    match fate {
        Fate::Accepted => Tone::Good,
        Fate::Rejected => Tone::Bad,
        Fate::Invalid | Fate::Repeated | Fate::NotBetter => Tone::Faint,
    }
}

/// What became of a proposal.
pub fn fate_in_words(step: &Step) -> String {
    let fate = match step.fate {
        Fate::Invalid => "invalid",
        Fate::Repeated => "tried before",
        Fate::NotBetter => "not better on training queries",
        Fate::Rejected => "rejected",
        Fate::Accepted => "accepted",
    };
    match &step.why {
        Some(why) => format!("{fate}: {why}"),
        None => fate.to_owned(),
    }
}
