//! Fine-tunes a decoder of 0.5 million parameters, from nothing, on an expert's walks through generated households, and
//! measures the games that it wins in households that it never saw, before and after.
//!
//! ```sh
//! cargo xtask demo --world alfworld --sft
//! ```
//!
//! The arguments of the program are the optimizer steps of training (1400), the test games (200), a directory that the
//! model is written to, and the seed (7). Equal arguments give equal weights on any machine with the same instructions,
//! however busy it is.
#![expect(clippy::print_stdout, reason = "the example prints what it measures")]

mod model;
mod play;
mod rows;

use anyhow::{Context as _, Result};
use skill_core::PyRandom;
use skill_core::stats::score_interval;
use skill_sim::demonstrations::{Demonstration, EpisodePrompt, Part, SmallHouseholds};
use skill_train::checkpoint::StateStore;
use skill_train::local::LocalBackend;
use skill_train::model::Keep;
use skill_train::seam::{
    AdamSettings, CallId, ForwardBackward, Loss, OptimStep, Pass, Row, TrainBackend as _,
};
use skill_train::tokenizer::{JsonTokenizer, TokenCodec as _};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Demonstrations to train on.
const N_TRAIN: usize = 16_000;
/// Demonstrations whose words the tokenizer learns.
const N_VOCABULARY: usize = 4_000;
/// Rows of an optimizer step.
const N_ROWS: usize = 8;
/// Steps of the warm-up.
const N_WARMUP: u64 = 50;
/// Steps of the whole run, unless another number is given.
const N_STEPS: u64 = 1_400;
const LEARNING_RATE: f64 = 3e-3;
const SEED: u64 = 7;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let n_steps: u64 = arguments.next().map_or(Ok(N_STEPS), |text| text.parse()).context("the steps")?;
    let n_games: usize = arguments.next().map_or(Ok(200), |text| text.parse()).context("the games")?;
    let directory = arguments.next().map_or_else(|| PathBuf::from("target/household-sft"), PathBuf::from);

    let seed: u64 = arguments.next().map_or(Ok(SEED), |text| text.parse()).context("the seed")?;

    let start = Instant::now();
    let households = SmallHouseholds { seed, ..SmallHouseholds::default() };
    let prompt = EpisodePrompt::new()?;
    let train: Vec<Demonstration> = households.demonstrations(Part::Train).take(N_TRAIN).collect();
    let test: Vec<Demonstration> = households.demonstrations(Part::Test).take(n_games).collect();
    let vocabulary: Result<Vec<_>, _> =
        train.iter().take(N_VOCABULARY).map(|demonstration| prompt.conversation(demonstration)).collect();
    let tokenizer_json = model::learn_tokenizer(vocabulary?.into_iter().flatten())?;
    let tokenizer = JsonTokenizer::from_bytes(tokenizer_json.as_bytes())?;
    let config = model::config_json(&tokenizer);
    for demonstration in train.iter().take(20) {
        rows::check(&tokenizer, &prompt.conversation(demonstration)?)?;
    }
    let rows: Result<Vec<Row>> =
        train.iter().map(|demonstration| rows::row(&tokenizer, &prompt, demonstration)).collect();
    let rows = rows?;
    let n_tokens: usize = rows.iter().map(|row| row.tokens.len()).sum();
    let untrained = model::untrained(&config, seed)?;
    println!(
        "{} walks of the expert, {} tokens each on average; {} words; {} parameters; {:.0} s",
        rows.len(),
        n_tokens / rows.len().max(1),
        tokenizer.n_tokens(),
        untrained.config().n_parameters(),
        start.elapsed().as_secs_f64(),
    );

    let score = |decoder: &_| play::games_won(decoder, &tokenizer, &prompt, &test, households.max_turns);
    report("before", score(&untrained)?, test.len());
    let backend =
        LocalBackend::new(untrained, None, Keep::Activations, StateStore::new(directory.join("states")));
    fine_tune(&backend, &rows, n_steps, seed).await?;
    let trained = backend.model();
    report("after", score(&trained)?, test.len());
    write(&directory, &trained, &tokenizer_json, &config)?;
    println!(
        "{:.0} s in all, {:.0} CPU seconds, {} MiB of memory; the model is in {}",
        start.elapsed().as_secs_f64(),
        cpu_seconds(),
        peak_memory(),
        directory.display(),
    );
    Ok(())
}

/// Takes so many optimizer steps. The rate falls along half a cosine over them, so that the run ends with small steps.
async fn fine_tune(backend: &LocalBackend, rows: &[Row], n_steps: u64, seed: u64) -> Result<()> {
    let start = Instant::now();
    let mut order = Batches::new(rows, seed);
    let mut shown = 0.0;
    for step in 0..n_steps {
        let progress = step as f64 / n_steps as f64;
        let warmup = ((step + 1) as f64 / N_WARMUP as f64).min(1.0);
        let learning_rate = LEARNING_RATE * warmup * 0.5 * (1.0 + (std::f64::consts::PI * progress).cos());
        let batch = order.next_batch();
        let denominator = batch.iter().flat_map(|row| &row.weights).map(|weight| f64::from(*weight)).sum();
        let pass = Pass::Gradient { loss: Loss::CrossEntropy, denominator };
        let call = CallId::new("household-sft", step, 0);
        let output =
            backend.forward_backward(ForwardBackward { call, rows: batch, temperature: 1.0, pass }).await?;
        let settings = AdamSettings { learning_rate, beta2: 0.99, ..AdamSettings::default() };
        backend.optim_step(OptimStep { call: CallId::new("household-sft", step, 1), settings }).await?;
        shown = if step == 0 { output.metrics.loss } else { 0.95 * shown + 0.05 * output.metrics.loss };
        if (step + 1) % 50 == 0 {
            println!(
                "step {:4}  loss {shown:.3}  rate {learning_rate:.5}  {:.0} s",
                step + 1,
                start.elapsed().as_secs_f64()
            );
        }
    }
    Ok(())
}

/// Rows in a new order each time that all were learnt.
struct Batches<'a> {
    rows: &'a [Row],
    order: Vec<usize>,
    random: PyRandom,
}

impl<'a> Batches<'a> {
    fn new(rows: &'a [Row], seed: u64) -> Self {
        Self { rows, order: Vec::new(), random: PyRandom::new(seed) }
    }

    fn next_batch(&mut self) -> Vec<Row> {
        if self.order.len() < N_ROWS {
            self.order = (0..self.rows.len()).collect();
            self.random.shuffle(&mut self.order);
        }
        let places = self.order.split_off(self.order.len().saturating_sub(N_ROWS));
        places.into_iter().filter_map(|place| self.rows.get(place).cloned()).collect()
    }
}

/// Prints a number of games with its 95 % interval.
fn report(when: &str, n_won: usize, n_games: usize) {
    let mean = n_won as f64 / n_games.max(1) as f64;
    let [low, high] = score_interval(mean, n_games, 0.95);
    println!(
        "{when}: {n_won} of {n_games} unseen games won: {:.1} % (95 % interval {:.1} to {:.1})",
        100.0 * mean,
        100.0 * low,
        100.0 * high
    );
}

/// Writes a model directory that other programs load.
fn write(directory: &Path, model: &skill_train::model::Decoder, tokenizer: &str, config: &str) -> Result<()> {
    std::fs::create_dir_all(directory)?;
    std::fs::write(directory.join("model.safetensors"), model.base_file()?)?;
    std::fs::write(directory.join("tokenizer.json"), tokenizer)?;
    std::fs::write(directory.join("config.json"), config)?;
    let settings = serde_json::json!({ "chat_template": model::CHAT_TEMPLATE, "eos_token": "<|end|>" });
    std::fs::write(directory.join("tokenizer_config.json"), settings.to_string())?;
    Ok(())
}

/// CPU seconds of the process, as Linux counts them; 0 elsewhere.
fn cpu_seconds() -> f64 {
    const TICKS_PER_SECOND: f64 = 100.0;
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = text.rsplit_once(") ").map(|(_, fields)| fields).unwrap_or_default();
    let ticks = fields.split(' ').skip(11).take(2).filter_map(|field| field.parse::<f64>().ok());
    ticks.sum::<f64>() / TICKS_PER_SECOND
}

/// The most memory in MiB that the process has held, as Linux counts it; 0 elsewhere.
fn peak_memory() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
    line.trim().trim_end_matches(" kB").parse::<u64>().map_or(0, |kibibytes| kibibytes / 1024)
}
