//! What `skillrl watch` draws of a run that fine-tunes: its numbers, the curve of the loss, and the last steps.

use super::screen::title;
use crate::run_text::sft;
use crate::table::duration;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style};
use ratatui::symbols::Marker;
use ratatui::text::Line;
use ratatui::widgets::{Axis, Block, Borders, Chart, Dataset, GraphType, Paragraph};
use skillrl::reports::{RunOverview, SftReport};

/// Lines around the curve: the head, and the numbers of a run.
const HEAD: u16 = 2;
const NUMBERS: u16 = 7;
/// The fewest rows of a curve.
const LEAST_CURVE: u16 = 6;

/// What there is to draw.
pub(super) struct View<'a> {
    pub(super) overview: &'a RunOverview,
    pub(super) report: &'a SftReport,
    /// Steps that are scrolled back.
    pub(super) scrolled: usize,
}

pub(super) fn draw(frame: &mut Frame<'_>, view: &View<'_>) {
    let rows =
        [Constraint::Length(HEAD), Constraint::Length(NUMBERS), Constraint::Fill(2), Constraint::Fill(1)];
    let [top, numbers, curve, steps] = Layout::vertical(rows).areas(frame.area());
    frame.render_widget(Paragraph::new(vec![title(view.overview), progress(view.report)]), top);
    let mut lines: Vec<Line<'_>> = sft::brief(&view.report.brief)
        .into_iter()
        .map(|(name, words)| Line::from(format!("{name:<6} {words}")))
        .collect();
    if let Some(reason) = &view.overview.reason {
        lines.push(Line::styled(crate::table::harmless(reason), Style::new().fg(Color::Yellow)));
    }
    frame.render_widget(Paragraph::new(lines), numbers);
    if curve.height >= LEAST_CURVE {
        draw_curve(frame, curve, view.report);
    }
    let shown = usize::from(steps.height.saturating_sub(1));
    let lines: Vec<Line<'_>> = view
        .report
        .steps
        .iter()
        .rev()
        .skip(view.scrolled)
        .take(shown)
        .map(|step| {
            Line::from(format!(
                "{:>6}  loss {:.4}  rate {:.2e}  norm {:.3}  {} tokens",
                step.step, step.loss, step.learning_rate, step.grad_norm, step.tokens
            ))
        })
        .collect();
    frame
        .render_widget(Paragraph::new(lines).block(Block::new().borders(Borders::TOP).title("steps")), steps);
}

/// Steps, the epoch, and the time that is left.
fn progress(report: &SftReport) -> Line<'static> {
    let brief = &report.brief;
    let total = brief.total_steps.map(|total| format!("/{total}")).unwrap_or_default();
    let epoch = brief.epoch.map(|epoch| format!(", epoch {epoch}")).unwrap_or_default();
    let left = brief.seconds_left.map(|left| format!(", about {} left", duration((left * 1000.0) as i64)));
    Line::from(format!("fine-tuning, {}{total} steps{epoch}{}", brief.step, left.unwrap_or_default()))
}

fn draw_curve(frame: &mut Frame<'_>, area: Rect, report: &SftReport) {
    let training: Vec<(f64, f64)> = report.steps.iter().map(|step| (step.step as f64, step.loss)).collect();
    let validation: Vec<(f64, f64)> =
        report.validations.iter().filter_map(|found| Some((found.step as f64, found.loss?))).collect();
    let values = || training.iter().chain(&validation).map(|(_, loss)| *loss).filter(|loss| loss.is_finite());
    let (low, high) = (values().fold(f64::INFINITY, f64::min), values().fold(f64::NEG_INFINITY, f64::max));
    if low > high {
        return frame.render_widget(Paragraph::new("no step is finished yet"), area);
    }
    let room = ((high - low) * 0.05).max(1e-3);
    let (low, high) = ((low - room).max(0.0), high + room);
    let last = report.brief.total_steps.unwrap_or(report.brief.step).max(report.brief.step).max(1);
    let line = |name: &'static str, color: Color, marker: Marker| {
        Dataset::default().name(name).marker(marker).style(Style::new().fg(color))
    };
    let datasets = vec![
        line("training", Color::Cyan, Marker::Braille).graph_type(GraphType::Line).data(&training),
        line("validation", Color::Green, Marker::Dot).graph_type(GraphType::Scatter).data(&validation),
    ];
    let steps = Axis::default().bounds([0.0, last as f64]).labels(["0".to_owned(), last.to_string()]);
    let losses = Axis::default().bounds([low, high]).labels([low, high].map(|loss| format!("{loss:.3}")));
    let chart = Chart::new(datasets)
        .x_axis(steps)
        .y_axis(losses)
        .block(Block::new().borders(Borders::TOP).title("loss by step"));
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
    fn a_run_that_fine_tunes_is_drawn_with_its_numbers_and_its_curve() {
        let dir = tempfile::tempdir().unwrap();
        let run = dir.path().join("sft");
        std::fs::create_dir(&run).unwrap();
        let write = |name: &str, text: String| std::fs::write(run.join(name), text).unwrap();
        let config =
            json!({"format_version": "2.0", "config": {"env": {"kind": "alfworld"}}, "identity": {}});
        write("config.json", config.to_string());
        write("examples.jsonl", String::new());
        let step = |step: u32| {
            json!({"step": step, "epoch": 1, "loss": 2.0 / f64::from(step), "learning_rate": 1e-4,
                   "grad_norm": 0.5, "examples": 4, "tokens": 100, "targets": 10})
        };
        write("steps.jsonl", (1..=4).map(|n| format!("{}\n", step(n))).collect());
        let games = json!({"won": 3, "played": 10, "score": 0.3, "interval": [0.11, 0.6]});
        let validation = json!({"step": 4, "loss": 0.75, "targets": 10, "games": games});
        write("validation.jsonl", format!("{validation}\n"));
        let event = json!({"event": "sft_step_finished", "record": step(4), "seconds": 0.5,
                           "peak_memory": 2_000_000_000_u64});
        write("events.jsonl", format!("{event}\n"));
        let overview = skillrl::report::overview(&run).unwrap();
        assert_eq!(overview.sft.as_ref().map(|sft| sft.step), Some(4));
        let report = SftReport::read(&RunReader::open(&run).unwrap()).unwrap();
        let mut terminal = Terminal::new(TestBackend::new(80, 30)).unwrap();
        let view = View { overview: &overview, report: &report, scrolled: 0 };
        terminal.draw(|frame| draw(frame, &view)).unwrap();
        let shown = terminal.backend().to_string();
        for part in [
            "2.0000 → 0.5000",
            "3 of 10 won (11 to 60 %)",
            "200 tokens/s, 2.00 GB",
            "loss by step",
            "     4  loss",
        ] {
            assert!(shown.contains(part), "{part}\n{shown}");
        }
    }
}
