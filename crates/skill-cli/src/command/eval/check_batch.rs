//! `skillrl eval --policy DIR --check-batch`: what the number of replies that are decoded together does to a greedy score.

use crate::args::EvalArgs;
use crate::progress::{Progress, Show};
use crate::start::load_start;
use serde::Serialize;
use serde_json::json;
use skillrl::config::{LoadedConfig, ModelConfig, ModelRole};
use skillrl::core::{RolloutResult, SkillDoc};
use skillrl::engine::Engine;
use skillrl::envs::Split;
use skillrl::envs::source::document;
use skillrl::measurement::Measurement;
use skillrl::pipeline::StopSignal;
use skillrl::world;
use std::fmt::Write as _;
use std::path::Path;

/// Replies that are decoded together.
const BATCHES: [u32; 5] = [1, 8, 64, 128, 140];

/// A measurement of the split.
#[derive(Debug, Serialize)]
struct Row {
    batch_rows: u32,
    n: usize,
    hard: f64,
    soft: f64,
    /// Tasks whose score is another than with one reply at a time.
    n_scored_otherwise: usize,
    /// Tasks whose conversation is another than with one reply at a time.
    n_said_otherwise: usize,
}

pub(super) fn run(args: &EvalArgs, policy: &Path) -> crate::Result {
    let loaded = crate::command::with_policy(load_start(&args.config.start(), args.quiet)?, Some(policy))?;
    let split = crate::measuring::split_of(args)?;
    let mut chosen = None;
    let mut alone = Vec::new();
    let mut rows: Vec<Row> = Vec::new();
    for batch_rows in BATCHES {
        // More than there are tasks changes nothing.
        if rows.last().is_some_and(|row| row.n <= row.batch_rows as usize) {
            break;
        }
        let results = measure(&decoded_together(&loaded, batch_rows)?, split, &mut chosen, args)?;
        let n = results.len();
        let mean =
            |score: fn(&RolloutResult) -> f64| results.iter().map(score).sum::<f64>() / n.max(1) as f64;
        let (hard, soft) = (mean(|result| result.hard), mean(|result| result.soft));
        if rows.is_empty() {
            alone.clone_from(&results);
        }
        let differ = |is_other: fn(&RolloutResult, &RolloutResult) -> bool| {
            results.iter().zip(&alone).filter(|(one, other)| is_other(one, other)).count()
        };
        rows.push(Row {
            batch_rows,
            n,
            hard,
            soft,
            n_scored_otherwise: differ(|one, other| one.soft != other.soft || one.hard != other.hard),
            n_said_otherwise: differ(|one, other| one.trajectory != other.trajectory),
        });
    }
    let name = chosen.map(|(name, _)| name).unwrap_or_default();
    let text = match args.json {
        true => format!("{}\n", json!({"split": split, "skill": name, "batches": rows})),
        false => table(&name, split, &rows),
    };
    crate::command::print(&text)
}

/// The same configuration with greedy replies, this many of them at once.
fn decoded_together(loaded: &LoadedConfig, batch_rows: u32) -> crate::Result<LoadedConfig> {
    let mut loaded = loaded.clone();
    if let ModelConfig::Local(local) = &mut loaded.config.models.target {
        local.batch_rows = batch_rows;
        local.temperature = Some(0.0);
    }
    loaded.config.run.workers = batch_rows;
    Ok(loaded)
}

/// Measures the skill, which the first call chooses.
fn measure(
    loaded: &LoadedConfig,
    split: Split,
    chosen: &mut Option<(String, SkillDoc)>,
    args: &EvalArgs,
) -> crate::Result<Vec<RolloutResult>> {
    let mut engine = Engine::new(loaded);
    let env = world::environment(loaded, engine.judge()?)?;
    let (_, skill) = match chosen {
        Some(chosen) => chosen,
        None => chosen.insert(skillrl::skills::chosen(loaded, args.skill.as_deref(), env.as_ref())?),
    };
    let target = engine.model(ModelRole::Target)?;
    let measurement = Measurement::new(loaded, &env, split, target, None)?;
    let stop = StopSignal::default();
    let progress = Progress::new(if args.json || args.quiet { Show::Quiet } else { Show::Progress });
    let source = document(skill);
    let measuring = measurement.scores(&source, (&progress, &stop));
    let (measured, _) = crate::command::block_on(stop.clone(), "stopping", measuring)??;
    Ok(measured.evaluation.results)
}

fn table(name: &str, split: Split, rows: &[Row]) -> String {
    let mut text = format!("skill  {name}\nsplit  {split}, greedy\n\n");
    let _ = writeln!(text, "together   score   scored otherwise   said otherwise");
    for row in rows {
        let _ = writeln!(
            text,
            "{:>8}  {:>5.1} %  {:>9} of {:<4}  {:>8} of {}",
            row.batch_rows,
            row.hard * 100.0,
            row.n_scored_otherwise,
            row.n,
            row.n_said_otherwise,
            row.n
        );
    }
    let moved = rows.iter().map(|row| row.n_scored_otherwise).max().unwrap_or_default();
    let _ = match moved {
        0 => writeln!(text, "\nno score depends on `batch_rows` here"),
        1 => writeln!(
            text,
            "\none task depends on `batch_rows`: compare scores that were measured with the same number"
        ),
        _ => writeln!(
            text,
            "\nup to {moved} tasks depend on `batch_rows`: compare scores that were measured with the same number"
        ),
    };
    text
}
