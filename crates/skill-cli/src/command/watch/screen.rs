//! What `skillrl watch` draws. It is a function of what is known of the run, so that tests can look at it.

use crate::run_text::{now, sent, spent, workers};
use crate::table::harmless;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::symbols::Marker;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Axis, Block, Borders, Chart, Dataset, GraphType, LineGauge, Paragraph};
use skillrl::pipeline::run_dir::live::LiveState;
use skillrl::reports::lines::Tone;
use skillrl::reports::lines::progress::{known, tried};
use skillrl::reports::words::seconds_left;
use skillrl::reports::{Chart as Curves, Look, RunOverview, RunPhase, RunView, ViewRow};
use std::collections::VecDeque;

/// The fewest and the most lines of the curves.
const CURVES: [u16; 2] = [7, 16];
/// The fewest columns of a picture with curves.
const LEAST_COLUMNS: u16 = 40;
/// Below this height, what matters least is left out.
const LOW: u16 = 16;
/// From this width, a table has room for all of its columns.
const WIDE: u16 = 110;
/// From this height, there is room for the rollouts that failed last.
const HIGH: u16 = 30;
/// The lines of what failed last, with their title.
const FAILURES: u16 = 6;
/// The most lines of a fact in the head.
const HEAD_LINES: usize = 3;
/// The colours of the series of a picture.
const COLOURS: [Color; 3] = [Color::Cyan, Color::Green, Color::Magenta];

/// The points of a series, as the terminal draws them.
type Points = Vec<(f64, f64)>;

/// What there is to draw.
pub(super) struct Screen<'a> {
    pub(super) view: &'a RunView,
    /// The rollouts that failed last, the latest first.
    pub(super) failures: &'a VecDeque<String>,
    /// True if the skills of the bank take the place of the rows.
    pub(super) shows_skills: bool,
    /// Rows that are scrolled back; of skills, those above the screen.
    pub(super) scrolled: usize,
}

impl Screen<'_> {
    pub(super) fn draw(&self, frame: &mut Frame<'_>) {
        let (view, overview) = (self.view, &self.view.overview);
        let area = frame.area();
        let is_low = area.height < LOW;
        let head_lines = head(overview, usize::from(area.width));
        let trial = overview.live.as_ref().and_then(|live| live.bank.as_ref()?.trial.as_ref());
        let [least, most] = CURVES;
        let n_curves =
            if is_low || view.charts.is_empty() { 0 } else { (area.height / 3).clamp(least, most) };
        let n_failures = if area.height < HIGH || self.failures.is_empty() { 0 } else { FAILURES };
        let [top, gauges, trial_area, curves, list, failed, warnings, keys] = Layout::vertical([
            Constraint::Length(u16::try_from(head_lines.len()).unwrap_or(u16::MAX)),
            Constraint::Length(2),
            Constraint::Length(if trial.is_some() { 2 } else { 0 }),
            Constraint::Length(n_curves),
            Constraint::Min(3),
            Constraint::Length(n_failures),
            Constraint::Length(if is_low || view.warnings.is_empty() { 0 } else { 4 }),
            Constraint::Length(1),
        ])
        .areas(area);
        frame.render_widget(Paragraph::new(head_lines), top);
        draw_gauges(frame, gauges, overview);
        if let Some(trial) = trial {
            let lines = vec![Line::from(tried(trial)), Line::from(format!("  {}", known(trial)))];
            frame.render_widget(Paragraph::new(lines), trial_area);
        }
        draw_curves(frame, curves, &view.charts);
        self.draw_list(frame, list);
        draw_texts(frame, failed, "failed last", self.failures);
        draw_texts(frame, warnings, "warnings", &view.warnings);
        let other = match (view.skills.is_empty(), self.shows_skills) {
            (true, _) => "",
            (false, true) => "    s shows rounds",
            (false, false) => "    s shows skills",
        };
        let help = format!("q quits, the run continues    up and down scroll{other}");
        frame.render_widget(Paragraph::new(help).style(Style::new().add_modifier(Modifier::DIM)), keys);
    }

    /// The rows, the latest at the bottom; or the skills below the names of their columns.
    fn draw_list(&self, frame: &mut Frame<'_>, area: Rect) {
        let n_shown = usize::from(area.height.saturating_sub(1));
        let (title, rows) = if self.shows_skills {
            let (names, skills) = self.view.skills.split_at(self.view.skills.len().min(1));
            // Scrolled from the top, where the active ones are.
            let n_skills = n_shown.saturating_sub(names.len());
            let first = self.scrolled.min(skills.len().saturating_sub(n_skills));
            ("skills", names.iter().chain(skills.iter().skip(first).take(n_skills)).cloned().collect())
        } else {
            let mut rows = self.view.rows();
            rows.truncate(rows.len().saturating_sub(self.scrolled));
            (self.view.rows_title, rows.split_off(rows.len().saturating_sub(n_shown)))
        };
        let width =
            if self.shows_skills && area.width >= WIDE { usize::MAX } else { usize::from(area.width) };
        let is_short = rows.iter().any(|row: &ViewRow| row.text.chars().count() > width);
        let lines: Vec<Line<'_>> = rows.into_iter().map(|row| line_of(row, is_short)).collect();
        let block = Block::new().borders(Borders::TOP).title(title);
        frame.render_widget(Paragraph::new(lines).block(block), area);
    }

    /// Lines that can be scrolled through.
    pub(super) fn n_lines(&self) -> usize {
        if self.shows_skills { self.view.skills.len() } else { self.view.rows().len() }
    }
}

/// Texts of models and data below a title, a line for each.
fn draw_texts<'a>(
    frame: &mut Frame<'_>,
    area: Rect,
    title: &str,
    texts: impl IntoIterator<Item = &'a String>,
) {
    let one_line = |text: &String| Line::from(harmless(text).replace('\n', " "));
    let lines: Vec<Line<'_>> = texts.into_iter().map(one_line).collect();
    let block = Block::new().borders(Borders::TOP).title(title);
    frame.render_widget(Paragraph::new(lines).block(block), area);
}

/// A row in the form of all rows: whole where there is room for each of them.
fn line_of(row: ViewRow, is_short: bool) -> Line<'static> {
    let is_short = is_short && !row.short.is_empty();
    let style = match row.tone {
        Tone::Plain => Style::new(),
        Tone::Good => Style::new().fg(Color::Green),
        Tone::Bad => Style::new().fg(Color::Red),
        Tone::Warning => Style::new().fg(Color::Yellow),
        Tone::Faint => Style::new().add_modifier(Modifier::DIM),
    };
    let style = if row.is_strong { style.add_modifier(Modifier::BOLD) } else { style };
    Line::from(if is_short { row.short } else { row.text }).style(style)
}

/// Status, kind, results and spend of a run.
fn head(overview: &RunOverview, width: usize) -> Vec<Line<'static>> {
    let style = match overview.phase {
        RunPhase::Training => Style::new().fg(Color::Cyan),
        RunPhase::Finished => Style::new().fg(Color::Green),
        RunPhase::Stopped | RunPhase::Interrupted => Style::new().fg(Color::Yellow),
        RunPhase::Damaged => Style::new().fg(Color::Red),
    };
    let what = overview.kind_words().map(|what| format!("  {what}")).unwrap_or_default();
    let title = Line::from(vec![
        Span::styled(overview.phase.as_str(), style.add_modifier(Modifier::BOLD)),
        Span::raw(format!(
            "  {}  {}{what}",
            harmless(&overview.path.display().to_string()),
            harmless(&overview.env)
        )),
    ]);
    let mut said: Vec<String> =
        overview.facts().iter().map(|fact| format!("{} {}", fact.name, fact.words)).collect();
    match (&overview.live, &overview.reason) {
        (None, Some(reason)) => said.push(reason.clone()),
        // Runs that train weights show it already, and send no requests.
        _ if overview.trains_weights() => {}
        (Some(live), _) => said.push(format!("spent {}", spent(&live.pulse.spend))),
        (None, None) => said.push(format!("spent {}", sent(overview))),
    }
    said.extend(overview.live.iter().flat_map(workers::lines));
    let said = said.iter().flat_map(|text| broken(&harmless(text).replace('\n', " "), width));
    std::iter::once(title).chain(said.map(Line::from)).collect()
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

fn draw_gauges(frame: &mut Frame<'_>, area: Rect, overview: &RunOverview) {
    let [run, stage] = Layout::vertical([Constraint::Length(1), Constraint::Length(1)]).areas(area);
    let total = overview.total_steps.unwrap_or(overview.n_steps);
    let left = overview.live.as_ref().and_then(LiveState::run_seconds_left);
    let left = left.map(|left| format!(", about {} left", seconds_left(left))).unwrap_or_default();
    gauge(
        frame,
        run,
        format!("{}/{total} {}s{left}", overview.n_steps, overview.unit()),
        share(overview.n_steps as usize, total as usize),
    );
    // Steps that train weights have no stages.
    let live = overview.live.as_ref().filter(|live| !overview.trains_weights() || live.stage.is_some());
    if let Some(live) = live {
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

/// The curves side by side: as many of the first ones as there is room for.
fn draw_curves(frame: &mut Frame<'_>, area: Rect, charts: &[Curves]) {
    let n_charts = charts.len().min(usize::from((area.width / LEAST_COLUMNS).max(1)));
    let areas = Layout::horizontal(vec![Constraint::Fill(1); n_charts]).split(area);
    for (curves, area) in charts.iter().zip(areas.iter()) {
        draw_chart(frame, *area, curves);
    }
}

fn draw_chart(frame: &mut Frame<'_>, area: Rect, curves: &Curves) {
    let points = |points: &[(u64, f64)]| points.iter().map(|(step, value)| (*step as f64, *value)).collect();
    let mut series: Vec<(&str, Look, Points)> =
        curves.series.iter().map(|series| (series.name, series.look, points(&series.points))).collect();
    let games: Vec<(u64, f64)> = curves.games_won().collect();
    if !games.is_empty() {
        series.push(("games", Look::Marks, points(&games)));
    }
    let [low, high] = curves.bounds().unwrap_or([0.0, 1.0]);
    let datasets = series.iter().zip(COLOURS.iter().cycle()).map(|((name, look, points), colour)| {
        let (graph, marker) = match look {
            Look::Line => (GraphType::Line, Marker::Braille),
            Look::Marks => (GraphType::Scatter, Marker::Dot),
        };
        Dataset::default()
            .name(*name)
            .graph_type(graph)
            .marker(marker)
            .style(Style::new().fg(*colour))
            .data(points)
    });
    let steps =
        Axis::default().bounds([0.0, curves.last as f64]).labels(["0".to_owned(), curves.last.to_string()]);
    let values = Axis::default()
        .bounds([low, high])
        .labels([low, high].map(|value| curves.words(value, (high - low) / 10.0)));
    let chart = Chart::new(datasets.collect())
        .x_axis(steps)
        .y_axis(values)
        .block(Block::new().borders(Borders::TOP).title(curves.name));
    frame.render_widget(chart, area);
}

#[cfg(test)]
mod tests;
