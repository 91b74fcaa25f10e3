//! `skillrl estimate`: what a run will take, before anything is sent.

use crate::args::{EstimateArgs, Start};
use crate::data_start::{self, Use};
use crate::estimates;
use skillrl::config::LoadedConfig;
use skillrl::estimate::approximate_caps;
use skillrl::pipeline::run_dir::{RunStatus, run_status};
use skillrl::reports::RunOverview;

pub(crate) fn run(args: &EstimateArgs) -> crate::Result {
    let start = Start { is_training: true, ..args.config.start() };
    let (_, loaded) = data_start::load(&args.data, start, Use::Looks, args.json)?;
    let text = estimates::described(&loaded, args.json)?;
    if args.json {
        super::print(&format!("{text}\n"))?;
    } else {
        super::print_wrapped(&text)?;
    }
    for cap in approximate_caps(&loaded.config) {
        super::say(&format!("note: {}", cap.message()));
    }
    for note in fine_tuning(&loaded) {
        super::say(&format!("fine-tuning: {note}"));
    }
    let dir = loaded.run_dir();
    if run_status(&dir) != RunStatus::Absent {
        let dir = dir.display();
        super::say(&format!(
            "note: there is a run in {dir} already; what is in its journal is not paid for again"
        ));
    }
    Ok(())
}

/// What `skillrl sft` takes, where it is configured: by the run in `run.dir`, else by measuring a step.
fn fine_tuning(loaded: &LoadedConfig) -> Vec<String> {
    if loaded.config.sft.is_none() {
        return Vec::new();
    }
    let dir = loaded.run_dir();
    let run = skillrl::report::overview(&dir).ok();
    let brief = run.as_ref().and_then(RunOverview::sft);
    let time = match brief.and_then(|brief| Some((brief.step_seconds?, brief.total_steps?, brief.step))) {
        Some((seconds, total, done)) => {
            let time = |steps: u64| crate::table::seconds(seconds * steps as f64);
            format!(
                "a step of the run in {} took {seconds:.2} s: {total} steps take about {}, of which {} are left",
                dir.display(),
                time(total),
                time(total.saturating_sub(done))
            )
        }
        None => "measure one step with `skillrl sft --dry-run`".to_owned(),
    };
    forecast(loaded).into_iter().chain([time]).collect()
}

/// The memory that it takes.
#[cfg(feature = "weights")]
fn forecast(loaded: &LoadedConfig) -> Option<String> {
    let forecast = skillrl::sft::MemoryForecast::of_config(loaded).ok()?;
    let verdict = if forecast.is_too_much() { ", which is too little" } else { "" };
    Some(format!("{}{verdict}", forecast.describe()))
}

/// Nothing: this build reads no models.
#[cfg(not(feature = "weights"))]
fn forecast(_: &LoadedConfig) -> Option<String> {
    None
}
