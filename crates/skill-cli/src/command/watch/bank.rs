//! What `skillrl watch` draws of a run that trains a bank: rounds with their trials, or the skills.

use super::screen::{LOW, SCALE, WIDE, draw_gauges, head};
use crate::run_text::bank::{brief, known, one_line, percent, short_trial_line, tried};
use crate::run_text::bank_record::{round_line, trial_line};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Block, Borders, Paragraph, Sparkline};
use skillrl::bank::{Bank, State, Utility, Verdict};
use skillrl::pipeline::bank_dir::read_bank;
use skillrl::pipeline::records::bank::{BANK_DIR, RoundRecord, TrialRecord};
use skillrl::reports::{RunOverview, bank_records};
use std::path::Path;

/// What is known of a bank's run; read again only where its files have changed.
#[derive(Default)]
pub(super) struct BankWatched {
    rounds: Vec<RoundRecord>,
    skills: Vec<SkillRow>,
    shows_skills: bool,
}

/// A skill in the view of skills.
struct SkillRow {
    id: String,
    tier: String,
    state: State,
    is_pinned: bool,
    utility: Option<Utility>,
    /// Items of the last validation that were shown it, and all items of that; `None` before the first one.
    shown: Option<[usize; 2]>,
    n_versions: usize,
    n_evidence: usize,
    title: String,
}

/// What there is to draw.
pub(super) struct View<'a> {
    pub(super) overview: &'a RunOverview,
    pub(super) bank: &'a BankWatched,
}

impl BankWatched {
    /// Reads the rounds and the bank; a file that is being replaced is there the next time.
    pub(super) fn read(&mut self, run: &Path) {
        if let Ok(rounds) = bank_records(run) {
            self.rounds = rounds;
        }
        if let Ok(read) = read_bank(&run.join(BANK_DIR)) {
            self.skills = rows(&read.bank, &self.rounds);
        }
    }

    pub(super) fn toggle(&mut self) {
        self.shows_skills = !self.shows_skills;
    }
}

fn rows(bank: &Bank, rounds: &[RoundRecord]) -> Vec<SkillRow> {
    let last = rounds.iter().rev().find_map(|round| round.validation.as_ref());
    let rows = bank.skills().filter_map(|skill| {
        let version = skill.current()?;
        let is_shown = |parts: &Vec<String>| {
            let id = skill.id.as_str();
            parts.iter().any(|part| part.split('@').next() == Some(id))
        };
        Some(SkillRow {
            id: skill.id.to_string(),
            tier: skill.tier.to_string(),
            state: skill.state(),
            is_pinned: skill.is_pinned,
            utility: version.utility,
            shown: last
                .map(|last| [last.shown.values().filter(|parts| is_shown(parts)).count(), last.shown.len()]),
            n_versions: skill.versions.len(),
            n_evidence: version.evidence.items.len(),
            title: version.content.title().to_owned(),
        })
    });
    let mut rows: Vec<SkillRow> = rows.collect();
    // Stable: what agents are shown comes first, and inside a state the order is that of the bank.
    rows.sort_by_key(|row| match row.state {
        State::Active => 0,
        State::Trial => 1,
        State::Candidate => 2,
        State::Retired => 3,
    });
    rows
}

impl View<'_> {
    /// Lines that can be scrolled through.
    pub(super) fn n_lines(&self) -> usize {
        if self.bank.shows_skills { self.bank.skills.len() } else { self.round_lines(0).len() }
    }

    /// The trials of finished rounds and of the one under way, each round with a line after its trials.
    fn round_lines(&self, width: usize) -> Vec<Line<'static>> {
        let trial = |round: u32, record: &TrialRecord| {
            // What was decided is at the end of the long line.
            let long = one_line(&trial_line(round, record));
            let text = if long.chars().count() <= width { long } else { short_trial_line(record) };
            Line::from(text).style(style_of(record))
        };
        let mut lines = Vec::new();
        for record in &self.bank.rounds {
            lines.extend(record.trials.iter().map(|each| trial(record.round, each)));
            let style = Style::new().add_modifier(Modifier::BOLD);
            lines.push(Line::from(one_line(&round_line(record))).style(style));
        }
        let now = self.overview.live.as_ref().and_then(|live| live.bank.as_ref());
        // The record of a round is there a moment before its process says that it has ended.
        let is_new = |round: &u32| self.bank.rounds.iter().all(|record| record.round != *round);
        if let Some((now, round)) = now.and_then(|now| Some((now, now.round.filter(is_new)?))) {
            lines.extend(now.trials.iter().map(|each| trial(round, each)));
        }
        lines
    }
}

pub(super) fn draw(frame: &mut Frame<'_>, view: &View<'_>, scrolled: usize) {
    let is_low = frame.area().height < LOW;
    let width = usize::from(frame.area().width);
    let head_lines = head(view.overview, &scores(view.overview), width);
    let n_head = u16::try_from(head_lines.len()).unwrap_or(u16::MAX);
    let has_scores = view.bank.rounds.iter().any(|round| round.validation.is_some());
    let n_scores = if is_low || !has_scores { 0 } else { 4 };
    let live = view.overview.live.as_ref().and_then(|live| live.bank.as_ref());
    let trial = live.and_then(|bank| bank.trial.as_ref());
    let [head, gauges, trial_area, scores, list, keys] = Layout::vertical([
        Constraint::Length(n_head),
        Constraint::Length(2),
        Constraint::Length(if trial.is_some() { 2 } else { 0 }),
        Constraint::Length(n_scores),
        Constraint::Min(3),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    frame.render_widget(Paragraph::new(head_lines), head);
    draw_gauges(frame, gauges, view.overview);
    if let Some(trial) = trial {
        let lines = vec![Line::from(tried(trial)), Line::from(format!("  {}", known(trial)))];
        frame.render_widget(Paragraph::new(lines), trial_area);
    }
    draw_scores(frame, scores, &view.bank.rounds);
    let other = if view.bank.shows_skills {
        draw_skills(frame, list, view, scrolled);
        "rounds"
    } else {
        draw_rounds(frame, list, view, scrolled);
        "skills"
    };
    let help = format!("q quits, the run continues    up and down scroll    s shows {other}");
    frame.render_widget(Paragraph::new(help).style(Style::new().add_modifier(Modifier::DIM)), keys);
}

fn scores(overview: &RunOverview) -> Vec<String> {
    let Some(bank) = &overview.bank else { return Vec::new() };
    let said = brief(bank);
    if !said.is_empty() {
        return said.into_iter().map(|(_, words)| words).collect();
    }
    // The run is finished.
    let score = |before: f64, after: f64| format!("{} → {}", percent(before), percent(after));
    let interval =
        |[low, high]: [f64; 2], n: usize| format!(" ({:.1} to {}, {n} items)", low * 100.0, percent(high));
    let validation = bank.baseline.zip(bank.validation).map(|(before, after)| {
        format!("validation {}{}", score(before.hard, after.hard), interval(after.interval, after.n))
    });
    let test = bank.test.map(|[before, after]| {
        format!("test {}{}", score(before.hard, after.hard), interval(after.interval, after.n))
    });
    validation.into_iter().chain(test).chain([crate::run_text::bank::counts(bank)]).collect()
}

/// The score on the selection split after each round that was measured, the last ones where there is no room for all.
fn draw_scores(frame: &mut Frame<'_>, area: Rect, rounds: &[RoundRecord]) {
    let scores: Vec<u64> = rounds
        .iter()
        .filter_map(|round| round.validation.as_ref())
        .map(|validation| (validation.score.hard.max(0.0) * SCALE) as u64)
        .collect();
    let skipped = scores.len().saturating_sub(usize::from(area.width));
    let block = Block::new().borders(Borders::TOP).title("score of each validation, from 0 to 1");
    let shown = scores.into_iter().skip(skipped).collect::<Vec<_>>();
    frame.render_widget(Sparkline::default().data(shown).max(SCALE as u64).block(block), area);
}

fn draw_rounds(frame: &mut Frame<'_>, area: Rect, view: &View<'_>, scrolled: usize) {
    let lines = view.round_lines(usize::from(area.width));
    let last = lines.len().saturating_sub(scrolled);
    let n_shown = usize::from(area.height.saturating_sub(1));
    let shown = lines.get(last.saturating_sub(n_shown)..last).unwrap_or_default().to_vec();
    let block = Block::new().borders(Borders::TOP).title("trials and rounds");
    frame.render_widget(Paragraph::new(shown).block(block), area);
}

fn style_of(record: &TrialRecord) -> Style {
    match record.decision.as_ref().map(|decision| decision.verdict) {
        Some(Verdict::Admit) => Style::new().fg(Color::Green),
        Some(Verdict::Reject | Verdict::Undecided) | None => Style::new().add_modifier(Modifier::DIM),
    }
}

fn draw_skills(frame: &mut Frame<'_>, area: Rect, view: &View<'_>, scrolled: usize) {
    let block = Block::new().borders(Borders::TOP).title("skills");
    let n_shown = usize::from(area.height.saturating_sub(2));
    // Scrolled from the top, where the active ones are.
    let n_skills = view.bank.skills.len();
    let first = scrolled.min(n_skills.saturating_sub(n_shown));
    let is_wide = area.width >= WIDE;
    let widest = |of: fn(&SkillRow) -> &str, most: usize| {
        view.bank.skills.iter().map(|row| of(row).chars().count()).max().unwrap_or_default().clamp(5, most)
    };
    let widths = [widest(|row| &row.id, 16), widest(|row| &row.tier, if is_wide { 30 } else { 12 })];
    let cells = |id: &str, tier: &str, rest: [&str; 6]| {
        let [id_width, tier_width] = widths;
        let tier: String = tier.chars().take(tier_width).collect();
        let [state, worth, shown, versions, evidence, title] = rest;
        let known = format!("{id:<id_width$}  {tier:<tier_width$}  {state:<9}  {worth:<17}  {shown:>5}");
        match is_wide {
            true => format!("{known}  {versions:>8}  {evidence:>8}  {title}"),
            false => format!("{known}  {title}"),
        }
    };
    let heading =
        cells("skill", "tier", ["state", "worth, points", "shown", "versions", "evidence", "title"]);
    let mut lines = vec![Line::from(heading).style(Style::new().add_modifier(Modifier::BOLD))];
    for row in view.bank.skills.iter().skip(first).take(n_shown) {
        let points = |share: f64| format!("{:+.0}", share * 100.0);
        let worth = row.utility.map_or_else(
            || "not measured".to_owned(),
            |found| {
                let [low, high] = found.interval;
                format!("{} ({} to {})", points(found.difference), points(low), points(high))
            },
        );
        let state = if row.is_pinned {
            format!("{}, pin", row.state.as_str())
        } else {
            row.state.as_str().to_owned()
        };
        let shown = row.shown.map(|[n, of]| format!("{n}/{of}")).unwrap_or_default();
        let (versions, evidence) = (row.n_versions.to_string(), row.n_evidence.to_string());
        let style = match row.state {
            State::Active => Style::new().fg(Color::Green),
            State::Trial => Style::new().fg(Color::Cyan),
            State::Candidate => Style::new(),
            State::Retired => Style::new().add_modifier(Modifier::DIM),
        };
        let rest = [state.as_str(), &worth, &shown, &versions, &evidence, &row.title];
        lines.push(Line::from(one_line(&cells(&row.id, &row.tier, rest))).style(style));
    }
    frame.render_widget(Paragraph::new(lines).block(block), area);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::watch::screen::tests::{live, overview};
    use crate::run_text::bank::made;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use serde_json::{Value, json};
    use skillrl::bank::{Author, BankEvent, Basis, Content, Evidence, Occasion, Source, Tier};
    use skillrl::core::MeanScore;
    use skillrl::pipeline::run_dir::live::LiveState;
    use skillrl::reports::{BankBrief, BankScore};

    fn trial(number: u32, skill: &str, title: &str, verdict: &str) -> Value {
        json!({
            "trial": number, "skill": skill, "title": title, "tier": "heat", "items": [],
            "preflight": null, "rollouts": 96, "fresh": null,
            "decision": {"verdict": verdict, "ground": "limit", "n_groups": 12, "numbers": made::trial()["numbers"]},
        })
    }

    fn round(number: u32, hard: f64) -> RoundRecord {
        serde_json::from_value(json!({
            "format_version": "1.0", "round": number, "rates": [], "weak": ["heat"],
            "proposed": ["hea_001"], "left_out": [], "notes": [],
            "trials": [
                trial(1, "hea_001", "Heat food before you put it down, and look \u{1b}[31m twice", "admit"),
                trial(2, "gen_001", "Be calm", "reject"),
            ],
            "admitted": ["hea_001"], "retired": [], "waiting": [], "n_active": 1,
            "validation": {
                "bank_version": "v", "score": {"hard": hard, "soft": hard}, "n": 4, "by_task_type": {},
                "shown": {"a": ["hea_001"], "b": ["hea_001"], "c": [], "d": []},
            },
            "tokens": {},
        }))
        .unwrap()
    }

    fn skills(rounds: &[RoundRecord]) -> Vec<SkillRow> {
        let mut bank = Bank::new();
        for (tier, title) in [(Tier::General, "Be calm"), (Tier::of_type("heat"), "Heat food first")] {
            let skill = bank.next_skill(&tier);
            let content = Content::Principle {
                title: title.to_owned(),
                principle: String::new(),
                when_to_apply: String::new(),
            };
            let (parents, evidence) = (Vec::new(), Evidence::default());
            let proposed =
                BankEvent::Proposed { skill, tier, content, source: Source::Person, parents, evidence };
            bank.record(0, Author::Person, proposed).unwrap();
        }
        let heat = bank.next_skill(&Tier::of_type("heat")).skill.as_str().replace("002", "001");
        let skill: skillrl::bank::SkillRef = serde_json::from_value(json!(heat)).unwrap();
        let utility = serde_json::from_value(json!({
            "difference": 0.125, "interval": [-0.03, 0.28], "with": [30, 48], "without": [24, 48], "informative_groups": 7,
        }));
        let admitted = BankEvent::Admitted { skill: skill.clone(), basis: Basis::Person };
        let measured = BankEvent::Measured {
            skill,
            occasion: Occasion::AfterAdmission,
            utility: Some(utility.unwrap()),
            verdict: None,
            e_better: None,
            e_worse: None,
            p_better: None,
        };
        for event in [admitted, measured] {
            bank.record(0, Author::Person, event).unwrap();
        }
        rows(&bank, rounds)
    }

    fn drawn(width: u16, height: u16, scrolled: usize, shows_skills: bool) -> String {
        let mut progress = made::bank();
        progress.round = Some(2);
        progress.trials.push(serde_json::from_value(trial(7, "heat_003", "Wait", "undecided")).unwrap());
        let live = LiveState { total_steps: 3, bank: Some(Box::new(progress)), ..live() };
        let mut brief = BankBrief::default();
        (brief.last_round, brief.skills.active, brief.trials.admitted) = (Some(1), 1, 2);
        let score = |hard: f64| Some(BankScore::of(MeanScore { hard, soft: hard }, 4));
        (brief.baseline, brief.validation, brief.validation_round) = (score(0.25), score(0.5), Some(1));
        let overview = RunOverview {
            n_steps: 1,
            total_steps: Some(3),
            live: Some(live),
            bank: Some(Box::new(brief)),
            ..overview()
        };
        let rounds = vec![round(0, 0.25), round(1, 0.5)];
        let skills = skills(&rounds);
        let bank = BankWatched { rounds, skills, shows_skills };
        let view = View { overview: &overview, bank: &bank };
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, &view, scrolled)).unwrap();
        terminal.backend().to_string()
    }

    #[test]
    fn a_run_of_a_bank_fills_a_terminal_with_rounds_or_with_skills() {
        insta::assert_snapshot!("watch_bank_120x24", drawn(120, 24, 0, false));
        insta::assert_snapshot!("watch_bank_80x24", drawn(80, 24, 0, false));
        insta::assert_snapshot!("watch_bank_skills_120x20", drawn(120, 20, 0, true));
        insta::assert_snapshot!("watch_bank_skills_80x20", drawn(80, 20, 0, true));
    }

    #[test]
    fn nothing_is_too_small_for_a_bank_and_nothing_steers_the_terminal() {
        for (width, height) in [(1, 1), (5, 3), (40, 12), (200, 2)] {
            for shows_skills in [false, true] {
                assert!(!drawn(width, height, 0, shows_skills).contains('\u{1b}'));
            }
        }
        // Earlier trials come into view.
        assert!(
            !drawn(80, 20, 0, false).contains("  1 hea_001")
                || drawn(80, 20, 5, false).contains("  1 hea_001")
        );
    }
}
