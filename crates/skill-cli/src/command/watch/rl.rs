//! What `skillrl watch` draws of a run of reinforcement learning: its numbers, the curves of the return and of the
//! games, and the last iterations.

use super::screen::title;
use crate::run_text::rl;
use crate::table::duration;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style};
use ratatui::symbols::Marker;
use ratatui::text::Line;
use ratatui::widgets::{Axis, Block, Borders, Chart, Dataset, GraphType, Paragraph};
use skillrl::reports::{RlReport, RunOverview};

/// Lines of the head.
const HEAD: u16 = 2;
/// The fewest rows of a curve.
const LEAST_CURVE: u16 = 6;

/// What there is to draw.
pub(super) struct View<'a> {
    pub(super) overview: &'a RunOverview,
    pub(super) report: &'a RlReport,
    /// Iterations that are scrolled back.
    pub(super) scrolled: usize,
}

pub(super) fn draw(frame: &mut Frame<'_>, view: &View<'_>) {
    let mut lines: Vec<Line<'_>> = rl::brief(&view.report.brief)
        .into_iter()
        .map(|(name, words)| Line::from(format!("{name:<6} {words}")))
        .collect();
    for (name, words) in rl::signs(&view.report.brief) {
        lines.push(Line::styled(format!("{name:<6} {words}"), Style::new().fg(Color::Yellow)));
    }
    if let Some(reason) = &view.overview.reason {
        lines.push(Line::styled(crate::table::harmless(reason), Style::new().fg(Color::Yellow)));
    }
    let n_lines = u16::try_from(lines.len()).unwrap_or(u16::MAX);
    let rows =
        [Constraint::Length(HEAD), Constraint::Length(n_lines), Constraint::Fill(2), Constraint::Fill(1)];
    let [top, numbers, curve, iterations] = Layout::vertical(rows).areas(frame.area());
    frame.render_widget(Paragraph::new(vec![title(view.overview), progress(view.report)]), top);
    frame.render_widget(Paragraph::new(lines), numbers);
    if curve.height >= LEAST_CURVE {
        draw_curve(frame, curve, view.report);
    }
    let shown = usize::from(iterations.height.saturating_sub(1));
    let lines: Vec<Line<'_>> = view
        .report
        .iterations
        .iter()
        .rev()
        .skip(view.scrolled)
        .take(shown)
        .map(|row| {
            let record = &row.record;
            Line::from(format!(
                "{:>6}  {}/{} won  return {:.3}  KL {:.4}  entropy {:.3}  clipped {:.1} %  norm {:.3}  {:.0} tokens",
                record.iteration,
                record.won,
                record.episodes,
                record.reward,
                record.kl,
                record.entropy,
                100.0 * record.clipped,
                record.grad_norm,
                row.reply_tokens
            ))
        })
        .collect();
    let block = Block::new().borders(Borders::TOP).title("iterations");
    frame.render_widget(Paragraph::new(lines).block(block), iterations);
}

/// Iterations, and the time that is left.
fn progress(report: &RlReport) -> Line<'static> {
    let brief = &report.brief;
    let total = brief.total_iterations.map(|total| format!("/{total}")).unwrap_or_default();
    let left = brief.seconds_left.map(|left| format!(", about {} left", duration((left * 1000.0) as i64)));
    let left = left.unwrap_or_default();
    Line::from(format!("reinforcement learning, {}{total} iterations{left}", brief.iteration))
}

fn draw_curve(frame: &mut Frame<'_>, area: Rect, report: &RlReport) {
    let returns: Vec<(f64, f64)> =
        report.iterations.iter().map(|row| (row.record.iteration as f64, row.record.reward)).collect();
    let won: Vec<(f64, f64)> =
        report.iterations.iter().map(|row| (row.record.iteration as f64, row.won)).collect();
    let games: Vec<(f64, f64)> = report
        .validations
        .iter()
        .map(|found| (found.iteration as f64, found.games.won as f64 / found.games.played.max(1) as f64))
        .collect();
    let values =
        || returns.iter().chain(&won).chain(&games).map(|(_, value)| *value).filter(|v| v.is_finite());
    let (low, high) = (values().fold(f64::INFINITY, f64::min), values().fold(f64::NEG_INFINITY, f64::max));
    if low > high {
        return frame.render_widget(Paragraph::new("no iteration is finished yet"), area);
    }
    let room = ((high - low) * 0.05).max(1e-2);
    let (low, high) = (low - room, high + room);
    let last = report.brief.total_iterations.unwrap_or_default().max(report.brief.iteration).max(1);
    let line = |name: &'static str, color: Color, marker: Marker| {
        Dataset::default().name(name).marker(marker).style(Style::new().fg(color))
    };
    let datasets = vec![
        line("return", Color::Cyan, Marker::Braille).graph_type(GraphType::Line).data(&returns),
        line("episodes won", Color::Magenta, Marker::Braille).graph_type(GraphType::Line).data(&won),
        line("games won", Color::Green, Marker::Dot).graph_type(GraphType::Scatter).data(&games),
    ];
    let steps = Axis::default().bounds([0.0, last as f64]).labels(["0".to_owned(), last.to_string()]);
    let shares = Axis::default().bounds([low, high]).labels([low, high].map(|value| format!("{value:.2}")));
    let chart = Chart::new(datasets)
        .x_axis(steps)
        .y_axis(shares)
        .block(Block::new().borders(Borders::TOP).title("return, and shares won, by iteration"));
    frame.render_widget(chart, area);
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use serde_json::json;
    use skillrl::pipeline::RunReader;

    #[test]
    fn a_run_of_reinforcement_learning_is_drawn_with_its_numbers_and_its_curve() {
        let dir = tempfile::tempdir().unwrap();
        let run = dir.path().join("rl");
        std::fs::create_dir(&run).unwrap();
        let write = |name: &str, text: String| std::fs::write(run.join(name), text).unwrap();
        let config =
            json!({"format_version": "2.0", "config": {"env": {"kind": "alfworld"}}, "identity": {}});
        write("config.json", config.to_string());
        let iteration = |number: u32| {
            json!({"iteration": number, "tasks": 2, "episodes": 8, "won": number, "reward": f64::from(number) / 8.0,
                   "invalid_actions": 4, "groups_without_signal": 0.5, "rows": 4, "tokens": 900,
                   "sampled_tokens": 160, "entropy": 1.0, "kl": 0.0125, "clipped": 0.3, "loss": 0.1,
                   "grad_norm": 0.75, "steps": 1, "by_task_type": {"heat": [number, 8]}})
        };
        write("iterations.jsonl", (1..=4).map(|n| format!("{}\n", iteration(n))).collect());
        let games = json!({"won": 3, "played": 10, "score": 0.3, "interval": [0.11, 0.6]});
        write("validation.jsonl", format!("{}\n", json!({"iteration": 4, "games": games})));
        let event = json!({"event": "rl_iteration_finished", "record": iteration(4), "seconds": 2.0});
        write("events.jsonl", format!("{event}\n"));
        let overview = skillrl::report::overview(&run).unwrap();
        let report = RlReport::read(&RunReader::open(&run).unwrap()).unwrap();
        let mut terminal = Terminal::new(TestBackend::new(110, 30)).unwrap();
        let view = View { overview: &overview, report: &report, scrolled: 0 };
        terminal.draw(|frame| draw(frame, &view)).unwrap();
        let shown = terminal.backend().to_string();
        for part in [
            "0.125 → 0.500",
            "1 of 8 → 4 of 8",
            "3 of 10 won (11 to 60 %)",
            "50 % of groups without signal",
            "80 tokens/s",
            "sign   many_clipped: ",
            "try    lower the learning rate",
            "by iteration",
            "     4  4/8 won",
        ] {
            assert!(shown.contains(part), "{part}\n{shown}");
        }
    }
}
