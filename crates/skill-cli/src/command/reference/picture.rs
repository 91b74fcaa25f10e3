//! The picture of the README: the validation scores of the demo, drawn from the files of a run of it.

use crate::error::OfFile as _;
use skillrl::config::Config;
use skillrl::demo::{CONFIG_FILE, DemoWorld};
use skillrl::pipeline::{NoEvents, RunReader, StepRecord, StopSignal};
use skillrl::reports::words::percent;
use std::fmt::Write as _;
use std::sync::Arc;

/// Where the picture is, below the directory of the documentation.
pub(super) const PATH: &str = "images/demo.svg";

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 60.0;
const RIGHT: f64 = 700.0;
const TOP: f64 = 50.0;
const BOTTOM: f64 = 230.0;
const ACCEPTED: &str = "#1a7f37";
const REJECTED: &str = "#cf222e";

/// Trains on the bundled task, and draws the run.
pub(super) fn svg() -> crate::Result<String> {
    let folder = tempfile::tempdir().reading("a temporary directory")?;
    let dir = folder.path().join("demo");
    let files = DemoWorld::Notes.files();
    crate::command::write_files(&dir, files.iter().map(|file| (file.path, file.text)), false)?;
    let loaded = Config::load(&dir.join(CONFIG_FILE), &[])?;
    let (run_dir, stop) = (loaded.run_dir(), StopSignal::default());
    let (trainer, _) = skillrl::trainer::document(&loaded, Arc::new(NoEvents), stop)?;
    crate::command::block_on_unwarned(trainer.train(&run_dir))??;
    let steps = RunReader::open(&run_dir)?.history()?;
    let verdict = skillrl::report::verdict(&run_dir)?;
    Ok(draw(&steps, &verdict.line()))
}

/// The current score as a line, and a point for each candidate that was measured.
fn draw(steps: &[StepRecord], verdict: &str) -> String {
    let n_steps = f64::from(steps.last().map_or(1, |record| record.step.0));
    let x = |step: f64| LEFT + (RIGHT - LEFT) * step / n_steps;
    let y = |score: f64| BOTTOM - (BOTTOM - TOP) * score;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         font-family=\"sans-serif\" font-size=\"13\">\n\
         <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#ffffff\"/>\n\
         <text x=\"{LEFT}\" y=\"26\" font-size=\"15\">Validation score by step of `skillrl demo` \
         (simulated models)</text>\n"
    );
    for share in [0.0, 0.25, 0.5, 0.75, 1.0] {
        let (height, base) = (y(share), y(share) + 4.0);
        let _ = writeln!(
            svg,
            "<line x1=\"{LEFT}\" x2=\"{RIGHT}\" y1=\"{height:.1}\" y2=\"{height:.1}\" stroke=\"#d0d7de\"/>\n\
             <text x=\"{:.1}\" y=\"{base:.1}\" text-anchor=\"end\">{:.0} %</text>",
            LEFT - 8.0,
            100.0 * share
        );
    }
    let mut line = steps
        .first()
        .map_or_else(String::new, |first| format!("M{:.1} {:.1}", x(0.0), y(first.score_before)));
    let mut points = String::new();
    for record in steps {
        let at = x(f64::from(record.step.0));
        let _ =
            write!(line, " L{at:.1} {:.1} L{at:.1} {:.1}", y(record.score_before), y(record.current_score));
        let _ = writeln!(
            points,
            "<text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            BOTTOM + 18.0,
            record.step.0
        );
        let Some(score) = record.candidate_gate_score else { continue };
        let is_accepted = record.action.is_accept();
        let (color, word) = if is_accepted { (ACCEPTED, "accepted") } else { (REJECTED, "rejected") };
        let _ = writeln!(
            points,
            "<circle cx=\"{at:.1}\" cy=\"{:.1}\" r=\"5\" fill=\"{color}\"><title>step {}: {}, {word}</title></circle>",
            y(score),
            record.step.0,
            percent(score)
        );
    }
    let _ = write!(
        svg,
        "<path d=\"{line}\" fill=\"none\" stroke=\"#0969da\" stroke-width=\"2\"/>\n{points}\
         <text x=\"{LEFT}\" y=\"272\">{verdict}</text>\n</svg>\n"
    );
    svg
}
