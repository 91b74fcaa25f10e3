//! What `skillrl watch` draws. It is a function of what is known of the run, so that tests can look at it.

use crate::run_text::step::{metric_words, short_step_line, step_line};
use crate::run_text::workers;
use crate::run_text::{now, sent, spent};
use crate::table::{harmless, seconds};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, LineGauge, Paragraph, Sparkline};
use skillrl::pipeline::records::document::StepRecord;
use skillrl::pipeline::run_dir::live::LiveState;
use skillrl::reports::{RunOverview, RunPhase};

/// The most lines of the chart of scores, with its title.
const MAX_SCORES: u16 = 14;
/// The most columns of one step in it.
const MAX_COLUMNS: usize = 12;
/// Below this height, what matters least is left out.
pub(super) const LOW: u16 = 16;

/// From this width, the line of a step has room for its decision, which is at its end.
pub(super) const WIDE: u16 = 110;

/// The most lines of what the head says of scores, and of what was spent.
const HEAD_LINES: usize = 3;

/// The best score of the scale that the sparkline is drawn on.
pub(super) const SCALE: f64 = 1000.0;

/// What there is to draw.
pub(super) struct View<'a> {
    pub(super) overview: &'a RunOverview,
    pub(super) history: &'a [StepRecord],
    pub(super) warnings: &'a [String],
    /// Steps from the last one back that are below the screen.
    pub(super) scrolled: usize,
}

pub(super) fn draw(frame: &mut Frame<'_>, view: &View<'_>) {
    let is_low = frame.area().height < LOW;
    let n_warnings = if is_low || view.warnings.is_empty() { 0 } else { 4 };
    let n_scores =
        if is_low || view.history.is_empty() { 0 } else { (frame.area().height / 4).clamp(4, MAX_SCORES) };
    let head_lines = head_lines(view.overview, usize::from(frame.area().width));
    let n_head = u16::try_from(head_lines.len()).unwrap_or(u16::MAX);
    let [head, gauges, scores, steps, warnings, keys] = Layout::vertical([
        Constraint::Length(n_head),
        Constraint::Length(2),
        Constraint::Length(n_scores),
        Constraint::Min(3),
        Constraint::Length(n_warnings),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    frame.render_widget(Paragraph::new(head_lines), head);
    draw_gauges(frame, gauges, view.overview);
    draw_scores(frame, scores, view.history);
    draw_steps(frame, steps, view);
    let block = Block::new().borders(Borders::TOP).title("warnings");
    let lines: Vec<Line<'_>> = view.warnings.iter().map(|warning| Line::from(harmless(warning))).collect();
    frame.render_widget(Paragraph::new(lines).block(block), warnings);
    let help = Line::from("q quits, the run continues    up and down scroll")
        .style(Style::new().add_modifier(Modifier::DIM));
    frame.render_widget(Paragraph::new(help), keys);
}

fn head_lines(overview: &RunOverview, width: usize) -> Vec<Line<'static>> {
    let scores = match (overview.baseline, overview.best, overview.best_step) {
        (Some(first), Some(best), Some(step)) => {
            let metric = metric_words(overview.metric);
            format!("score {first:.4} → {best:.4}{metric} (step {step}), {} accepted", overview.n_accepted)
        }
        _ => "the first skill is being measured".to_owned(),
    };
    let scores = match overview.test {
        Some([before, after]) => {
            format!("{scores}; test {before:.4} → {after:.4}{}", metric_words(overview.metric))
        }
        None => scores,
    };
    head(overview, &[scores], width)
}

/// What the run is doing, and where and what it is.
pub(super) fn title(overview: &RunOverview) -> Line<'static> {
    let style = match overview.phase {
        RunPhase::Training => Style::new().fg(Color::Cyan),
        RunPhase::Finished => Style::new().fg(Color::Green),
        RunPhase::Stopped | RunPhase::Interrupted => Style::new().fg(Color::Yellow),
        RunPhase::Damaged => Style::new().fg(Color::Red),
    };
    Line::from(vec![
        Span::styled(overview.phase.as_str(), style.add_modifier(Modifier::BOLD)),
        Span::raw(format!(
            "  {}  {}",
            harmless(&overview.path.display().to_string()),
            harmless(&overview.env)
        )),
    ])
}

/// What the run is, what it has come to, and what it has spent.
pub(super) fn head(overview: &RunOverview, scores: &[String], width: usize) -> Vec<Line<'static>> {
    let last = match (&overview.live, &overview.reason) {
        (Some(live), _) => format!("spent {}", spent(&live.pulse.spend)),
        (None, Some(reason)) => harmless(reason).replace('\n', " "),
        (None, None) => {
            format!("spent {}", sent(overview))
        }
    };
    let workers = overview.live.as_ref().map(workers::lines).unwrap_or_default();
    let said = scores.iter().chain([&last]).chain(&workers);
    let said = said.flat_map(|text| broken(text, width)).map(Line::from);
    std::iter::once(title(overview)).chain(said).collect()
}

/// A text on lines of at most this width, broken between its words; what has no room on [`HEAD_LINES`] is cut.
fn broken(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let n_lines = lines.len();
        let Some(line) = lines.last_mut() else { break };
        let is_full = line.chars().count() + 1 + word.chars().count() > width;
        if !line.is_empty() && is_full && n_lines < HEAD_LINES {
            lines.push(word.to_owned());
        } else {
            let space = if line.is_empty() { "" } else { " " };
            line.push_str(space);
            line.push_str(word);
        }
    }
    lines
}

pub(super) fn draw_gauges(frame: &mut Frame<'_>, area: Rect, overview: &RunOverview) {
    let [run, stage] = Layout::vertical([Constraint::Length(1), Constraint::Length(1)]).areas(area);
    let unit = if overview.bank.is_some() { "rounds" } else { "steps" };
    let total = overview.total_steps.unwrap_or(overview.n_steps);
    let left = overview.live.as_ref().and_then(LiveState::run_seconds_left);
    let left = left.map(|left| format!(", about {} left", seconds(left))).unwrap_or_default();
    gauge(
        frame,
        run,
        format!("{}/{total} {unit}{left}", overview.n_steps),
        share(overview.n_steps as usize, total as usize),
    );
    if let Some(live) = &overview.live {
        let trial = live.bank.as_ref().and_then(|bank| bank.trial.as_ref());
        let done = trial.map_or_else(
            || share(live.done, live.total),
            |trial| share(trial.rollouts as usize, trial.max_rollouts as usize),
        );
        gauge(frame, stage, now(live), done);
    }
}

fn gauge(frame: &mut Frame<'_>, area: Rect, label: String, ratio: f64) {
    let gauge = LineGauge::default()
        .label(label)
        .ratio(ratio)
        .filled_symbol("━")
        .unfilled_symbol("─")
        .filled_style(Style::new().fg(Color::Cyan));
    frame.render_widget(gauge, area);
}

fn share(done: usize, total: usize) -> f64 {
    if total == 0 { 0.0 } else { (done as f64 / total as f64).clamp(0.0, 1.0) }
}

/// The score of the current skill after each step, the last ones where there is no room for all.
fn draw_scores(frame: &mut Frame<'_>, area: Rect, history: &[StepRecord]) {
    let n_shown = usize::from(area.width);
    let skipped = history.len().saturating_sub(n_shown);
    // A short run fills a wide screen.
    let n_columns = (n_shown / history.len().max(1)).clamp(1, MAX_COLUMNS);
    let scores = history.iter().skip(skipped).map(|record| (record.current_score.max(0.0) * SCALE) as u64);
    let scores: Vec<u64> = scores.flat_map(|score| std::iter::repeat_n(score, n_columns)).collect();
    let block = Block::new().borders(Borders::TOP).title("score of the current skill, from 0 to 1");
    frame.render_widget(Sparkline::default().data(scores).max(SCALE as u64).block(block), area);
}

fn draw_steps(frame: &mut Frame<'_>, area: Rect, view: &View<'_>) {
    let total = view.overview.total_steps.unwrap_or(view.overview.n_steps);
    let last = view.history.len().saturating_sub(view.scrolled);
    let n_lines = usize::from(area.height.saturating_sub(1));
    let shown = view.history.get(last.saturating_sub(n_lines)..last).unwrap_or_default();
    let is_wide = area.width >= WIDE;
    let line = |record| if is_wide { step_line(record, total) } else { short_step_line(record, total) };
    let lines: Vec<Line<'_>> =
        shown.iter().map(|record| Line::from(line(record)).style(style_of(record))).collect();
    frame.render_widget(Paragraph::new(lines).block(Block::new().borders(Borders::TOP).title("steps")), area);
}

fn style_of(record: &StepRecord) -> Style {
    if record.action.is_accept() {
        Style::new().fg(Color::Green)
    } else if record.action.is_skip() {
        Style::new().add_modifier(Modifier::DIM)
    } else {
        Style::new()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use serde_json::json;
    use skillrl::pipeline::run_dir::live::{Pulse, Spend};

    fn record(step: u32, action: &str, score: f64) -> StepRecord {
        serde_json::from_value(json!({
            "step": step, "epoch": 1, "step_in_epoch": step - 1, "batch_seed": 1, "batch_item_ids": ["a"],
            "rollout_hard": 0.5, "rollout_soft": 0.5, "rollout_n": 8, "n_failure_patches": 1,
            "n_success_patches": 1, "n_edits_merged": 3, "n_edits_ranked": 2, "edit_budget": 4,
            "apply_report": {"total": 2, "applied": 2, "skipped": 0}, "gate_metric": "hard",
            "candidate_gate_score": score, "action": action, "score_before": 0.4, "current_score": score,
            "best_score": score, "best_step": step, "tokens": {},
        }))
        .unwrap()
    }

    pub(in crate::command::watch) fn live() -> LiveState {
        let spend = Spend {
            calls: 1234,
            tokens: 567_890,
            money: 0.5,
            cap_money: Some(2.0),
            seconds: 90.0,
            ..Spend::default()
        };
        LiveState {
            format_version: "1.0".to_owned(),
            pid: 1,
            started_unix_ms: 0,
            updated_unix_ms: 60_000,
            total_steps: 12,
            finished_at_start: 0,
            finished_steps: 3,
            step: Some(skillrl::core::StepIdx(4)),
            stage: Some("evaluate".to_owned()),
            stage_started_unix_ms: 50_000,
            done: 20,
            done_at_once: 0,
            total: 40,
            bank: None,
            pulse: Pulse { in_flight: 8, limit: 16, waiting: 2, spend, ..Pulse::default() },
        }
    }

    pub(in crate::command::watch) fn overview() -> RunOverview {
        RunOverview {
            name: "demo".to_owned(),
            path: "demo/run".into(),
            phase: RunPhase::Training,
            env: "qa".to_owned(),
            n_steps: 3,
            total_steps: Some(12),
            baseline: Some(0.225),
            current: Some(0.6),
            best: Some(0.6),
            best_step: Some(3),
            n_accepted: 2,
            test: None,
            metric: skillrl::core::GateMetric::Hard,
            is_best_changed: false,
            calls: 0,
            tokens: 0,
            money: None,
            is_replay: false,
            sent: None,
            live: Some(live()),
            is_stop_requested: false,
            reason: None,
            hint: None,
            bank: None,
            sft: None,
            phases: None,
            rl: None,
        }
    }

    fn drawn(width: u16, height: u16, scrolled: usize) -> String {
        let history =
            [record(1, "accept_new_best", 0.4), record(2, "reject", 0.4), record(3, "accept_new_best", 0.6)];
        let warnings = ["step 2: \u{1b}[31mred".to_owned()];
        let view = View { overview: &overview(), history: &history, warnings: &warnings, scrolled };
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, &view)).unwrap();
        terminal.backend().to_string()
    }

    #[test]
    fn a_run_fills_a_terminal() {
        insta::assert_snapshot!("watch_120x24", drawn(120, 24, 0));
        insta::assert_snapshot!("watch_80x24", drawn(80, 24, 0));
        insta::assert_snapshot!("watch_200x50", drawn(200, 50, 0));
    }

    #[test]
    fn a_narrow_terminal_shows_what_matters() {
        insta::assert_snapshot!("watch_40x12", drawn(40, 12, 0));
        // Nothing is too small.
        for (width, height) in [(1, 1), (5, 3), (200, 2)] {
            drawn(width, height, 0);
        }
    }

    #[test]
    fn earlier_steps_come_into_view() {
        assert!(drawn(100, 24, 2).contains(" 1/12  ") && !drawn(100, 24, 2).contains(" 3/12  "));
    }
}
