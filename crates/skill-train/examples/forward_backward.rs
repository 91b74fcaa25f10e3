//! CPU seconds of a forward and backward pass with random weights, to set beside `forward_backward.py`.
//!
//! ```sh
//! RAYON_NUM_THREADS=1 cargo run --release -p skill-train --features candle --example forward_backward -- large 3
//! ```
//!
//! The sizes are `large` (the shape of SmolLM2-135M, one row of 512 tokens) and `small` (3.15 million parameters, 16 rows
//! of 256 tokens); the second argument is the number of passes. Each pass is a line with its loss and CPU seconds.

#![expect(clippy::print_stdout, reason = "the example prints what it measures")]

use std::error::Error;

use skill_train::model::{Adapters, Batch, Coefficients, Decoder, Gradients, Keep, Target};
use skill_train::model_config::ModelConfig;

const LARGE: &str = r#"{"model_type": "llama", "vocab_size": 49152, "hidden_size": 576, "intermediate_size": 1536,
    "num_hidden_layers": 30, "num_attention_heads": 9, "num_key_value_heads": 3, "tie_word_embeddings": true}"#;
const SMALL: &str = r#"{"model_type": "llama", "vocab_size": 512, "hidden_size": 256, "intermediate_size": 640,
    "num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 8, "tie_word_embeddings": true}"#;

/// Seconds that this thread has run, as Linux counts them.
fn cpu_seconds() -> Result<f64, Box<dyn Error>> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    let nanoseconds: f64 = text.split_whitespace().next().unwrap_or_default().parse()?;
    Ok(nanoseconds / 1e9)
}

/// The most memory that the process has held, in MiB.
fn peak_memory() -> Result<u64, Box<dyn Error>> {
    let text = std::fs::read_to_string("/proc/self/status")?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
    Ok(line.trim().trim_end_matches(" kB").parse::<u64>()? / 1024)
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let size = arguments.next().unwrap_or_else(|| "small".to_owned());
    let n_passes: usize = arguments.next().unwrap_or_else(|| "3".to_owned()).parse()?;
    let keep =
        if arguments.next().as_deref() == Some("recompute") { Keep::LayerInputs } else { Keep::Activations };
    let (config, n_rows, n_tokens) = if size == "large" { (LARGE, 1, 512) } else { (SMALL, 16, 256) };
    let config = ModelConfig::from_json(config)?;
    let vocabulary = u32::try_from(config.vocab_size)?;
    println!("{size}: {} parameters, {n_rows} rows of {n_tokens} tokens", config.n_parameters());
    let model = Decoder::random(config, 1)?;
    let rows: Vec<Vec<u32>> = (0..n_rows)
        .map(|row| (0..n_tokens).map(|token| (row * 31 + token * 7919) % vocabulary).collect())
        .collect();
    let batch = Batch::new(rows.iter().map(Vec::as_slice));
    let mut targets = Vec::new();
    for (row_idx, row) in rows.iter().enumerate() {
        let predictions = row.iter().skip(1).enumerate();
        targets.extend(
            predictions.map(|(index, token)| Target { position: row_idx * row.len() + index, token: *token }),
        );
    }
    for _ in 0..n_passes {
        let start = cpu_seconds()?;
        let mut gradients = Gradients::default();
        let forward = model.forward(batch.clone(), Adapters::On, keep)?;
        let forward_end = cpu_seconds()?;
        let by_logprob = -1.0 / targets.len() as f32;
        let (scores, hidden) = model.score(&forward, &targets, 1.0, &mut gradients, |_, scores| {
            Ok(vec![Coefficients { by_logprob, by_entropy: 0.0 }; scores.logprobs.len()])
        })?;
        let score_end = cpu_seconds()?;
        model.backward(forward, hidden, &mut gradients)?;
        let end = cpu_seconds()?;
        let loss = -scores.logprobs.iter().sum::<f32>() / scores.logprobs.len() as f32;
        println!(
            "loss {loss:.5}, {:.3} CPU seconds (layers {:.3}, loss {:.3}, back {:.3}), {} MiB",
            end - start,
            forward_end - start,
            score_end - forward_end,
            end - score_end,
            peak_memory()?
        );
    }
    Ok(())
}
