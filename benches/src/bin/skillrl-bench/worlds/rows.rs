//! The rows of the worlds.

use super::WorldReports;
use crate::row::{Goal, Row, Unit, median};

/// Shown instead of the real engine's figure if no Python with that engine was given.
const NO_REAL_ENGINE: &str = "the real engine: not measured (`--alfworld-python PATH`)";

/// What was measured beside what is to be reached.
pub(crate) fn rows(reports: &WorldReports) -> Vec<Row> {
    let row = |what: &str, goal, unit, value, more| Row { what: what.to_owned(), goal, unit, value, more };
    let WorldReports { alfworld, webshop, rollouts, exec, real_alfworld } = reports;
    let real = |figure: &dyn Fn(&super::RealAlfworld) -> String| {
        let shown = real_alfworld.as_ref().map(|real| format!("{} ({})", figure(real), real.packages));
        shown.map_or_else(|| NO_REAL_ENGINE.to_owned(), |shown| format!("the real engine: {shown}"))
    };
    vec![
        row(
            "ALFWorld: load and reset of a game",
            Goal::AtMost(1.0),
            Unit::Milliseconds,
            median(alfworld.iter().map(|report| report.load_reset_ms)),
            real(&|real| format!("{:.0} ms", real.load_reset_ms)),
        ),
        row(
            "ALFWorld: steps per second on one core, with admissible commands",
            Goal::AtLeast(100_000.0),
            Unit::PerSecond,
            median(alfworld.iter().map(|report| report.steps_per_second)),
            real(&|real| format!("{:.1}/s", real.steps_per_second)),
        ),
        row(
            "ALFWorld: memory per idle episode, its game included",
            Goal::AtMost(50.0),
            Unit::Kilobytes,
            median(alfworld.iter().map(|report| report.episode_bytes / 1e3)),
            real(&|real| format!("a process of {:.0} MB for each", real.peak_memory as f64 / 1e6)),
        ),
        row(
            "ALFWorld: rollouts per second of a simulated agent, over one task that polls all",
            Goal::AtLeast(1.7),
            Unit::Ratio,
            median(rollouts.iter().map(|report| report.computing_ratio)),
            format!(
                "{:.0}/s on {:.0} threads",
                median(rollouts.iter().map(|report| report.per_second)),
                median(rollouts.iter().map(|report| report.threads as f64)),
            ),
        ),
        row(
            "the same where each reply takes 5 ms",
            Goal::AtLeast(0.97),
            Unit::Ratio,
            median(rollouts.iter().map(|report| report.waiting_ratio)),
            String::new(),
        ),
        row(
            "WebShop: index of 1,000 products",
            Goal::AtMost(1.0),
            Unit::Seconds,
            median(webshop.iter().map(|report| report.index_s)),
            String::new(),
        ),
        row(
            "WebShop: search by a whole instruction",
            Goal::AtMost(1.0),
            Unit::Milliseconds,
            median(webshop.iter().map(|report| report.search_ms)),
            format!(
                "the slowest of 100: {:.3} ms; {:.0} steps/s, half of them searches",
                median(webshop.iter().map(|report| report.slow_search_ms)),
                median(webshop.iter().map(|report| report.steps_per_second)),
            ),
        ),
        row(
            "WebShop: memory per idle episode",
            Goal::AtMost(50.0),
            Unit::Kilobytes,
            median(webshop.iter().map(|report| report.episode_bytes / 1e3)),
            "on the page of a product, with two earlier pages".to_owned(),
        ),
        row(
            "exec: steps per second of one Python process",
            Goal::AtLeast(5_000.0),
            Unit::PerSecond,
            median(exec.iter().map(|report| report.steps_per_second)),
            if exec.is_empty() { "there is no `python3`" } else { "`examples/exec-python/guess.py`" }
                .to_owned(),
        ),
    ]
}
