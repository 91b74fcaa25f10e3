//! The steps of a run and the skills of a bank as rows.

use crate::data::rl::{RL_METRICS, RlRow};
use crate::lines::Tone;
use crate::lines::bank::{round_line, short_trial_line, trial_line};
use crate::lines::step::{self, StepTotal, short_step_line, step_line};
use crate::words::{one_line, whole_points};
use skill_bank::{Bank, Skill, State, TrialVerdict, Version};
use skill_pipeline::records::bank::{RoundRecord, TrialRecord};
use skill_pipeline::records::document::StepRecord;
use skill_pipeline::records::sft::SftStep;

/// The widest columns of a skill's id and of its tier.
const WIDEST: [usize; 2] = [16, 20];

/// A row of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ViewRow {
    /// Its tone.
    pub tone: Tone,
    /// True for a row that sums up those before it, and for the names of columns.
    pub is_strong: bool,
    /// The whole row.
    pub text: String,
    /// What matters most of it, for those who have little room; empty if that is the beginning of the whole row.
    pub short: String,
}

impl ViewRow {
    fn new(tone: Tone, text: &str, short: &str) -> Self {
        Self { tone, is_strong: false, text: one_line(text), short: one_line(short) }
    }

    fn strong(text: &str, short: &str) -> Self {
        Self { is_strong: true, ..Self::new(Tone::Plain, text, short) }
    }
}

pub(super) fn of_step(record: &StepRecord, total: StepTotal) -> ViewRow {
    ViewRow::new(step::tone(record.action), &step_line(record, total), &short_step_line(record, total))
}

pub(super) fn of_trial(round: u32, record: &TrialRecord) -> ViewRow {
    let is_admitted =
        record.decision.as_ref().is_some_and(|decision| matches!(decision.verdict, TrialVerdict::Admit));
    let tone = if is_admitted { Tone::Good } else { Tone::Faint };
    ViewRow::new(tone, &trial_line(round, record), &short_trial_line(record))
}

pub(super) fn of_round(record: &RoundRecord) -> ViewRow {
    ViewRow::strong(&round_line(record), "")
}

pub(super) fn of_sft_step(step: &SftStep) -> ViewRow {
    let text = format!(
        "{:>6}  loss {:.4}  rate {:.2e}  norm {:.3}  {} tokens",
        step.step, step.loss, step.learning_rate, step.grad_norm, step.tokens
    );
    ViewRow::new(Tone::Plain, &text, "")
}

pub(super) fn of_iteration(row: &RlRow) -> ViewRow {
    let record = &row.record;
    let numbers = RL_METRICS.iter().map(|metric| format!("  {}", metric.named(row)));
    let numbers: String = numbers.collect();
    let text = format!("{:>6}  {}/{} won{numbers}", record.iteration, record.won, record.episodes);
    ViewRow::new(Tone::Plain, &text, "")
}

/// The skills below the names of their columns: what agents are shown comes first, and inside a state the order is that
/// of the bank.
pub(super) fn of_skills(bank: &Bank, rounds: &[RoundRecord]) -> Vec<ViewRow> {
    let mut skills: Vec<(&Skill, &Version)> =
        bank.skills().filter_map(|skill| Some((skill, skill.current()?))).collect();
    skills.sort_by_key(|(skill, _)| match skill.state() {
        State::Active => 0,
        State::Trial => 1,
        State::Candidate => 2,
        State::Retired => 3,
    });
    let tiers: Vec<String> = skills.iter().map(|(skill, _)| skill.tier.to_string()).collect();
    let widest =
        |lengths: &mut dyn Iterator<Item = usize>, most: usize| lengths.max().unwrap_or(0).clamp(5, most);
    let [most_id, most_tier] = WIDEST;
    let id_width = widest(&mut skills.iter().map(|(skill, _)| skill.id.as_str().chars().count()), most_id);
    let tier_width = widest(&mut tiers.iter().map(|tier| tier.chars().count()), most_tier);
    let row = |id: &str, tier: &str, [state, worth, shown, versions, evidence, title]: [&str; 6]| {
        let tier: String = tier.chars().take(tier_width).collect();
        let known = format!("{id:<id_width$}  {tier:<tier_width$}  {state:<9}  {worth:<17}  {shown:>5}");
        (format!("{known}  {versions:>8}  {evidence:>8}  {title}"), format!("{known}  {title}"))
    };
    let titles = ["state", "worth, points", "shown", "versions", "evidence", "title"];
    let (text, short) = row("skill", "tier", titles);
    let mut rows = vec![ViewRow::strong(&text, &short)];
    let last = rounds.iter().rev().find_map(|round| round.validation.as_ref());
    for ((skill, version), tier) in skills.iter().zip(&tiers) {
        let id = skill.id.as_str();
        let worth = version.utility.map_or_else(
            || "not measured".to_owned(),
            |found| {
                let [low, high] = found.interval.map(whole_points);
                format!("{} ({low} to {high})", whole_points(found.difference))
            },
        );
        let pinned = if skill.is_pinned { ", pin" } else { "" };
        let state = format!("{}{pinned}", skill.state().as_str());
        let is_shown = |parts: &&Vec<String>| parts.iter().any(|part| part.split('@').next() == Some(id));
        let shown =
            last.map(|last| format!("{}/{}", last.shown.values().filter(is_shown).count(), last.shown.len()));
        let (versions, evidence) =
            (skill.versions.len().to_string(), version.evidence.items.len().to_string());
        let cells =
            [&state, &worth, &shown.unwrap_or_default(), &versions, &evidence, version.content.title()];
        let (text, short) = row(id, tier, cells);
        let tone = match skill.state() {
            State::Active => Tone::Good,
            State::Trial | State::Candidate => Tone::Plain,
            State::Retired => Tone::Faint,
        };
        rows.push(ViewRow::new(tone, &text, &short));
    }
    rows
}
