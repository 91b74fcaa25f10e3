//! Results are the same bytes for any number of threads.

use serde_json::json;
use skill_train::generate::{KeptSequences, generate};
use skill_train::model::{Adapters, Batch, Coefficients, Decoder, Gradients, Keep, Target};
use skill_train::seam::{GenerationSettings, Sample};
use skill_train::weights::HostTensor;

use crate::small;

/// Wide enough for rows to be split over threads.
fn model() -> Decoder {
    let sizes = [("hidden_size", json!(64)), ("intermediate_size", json!(96))];
    small::model("qwen3", &sizes)
}

fn with_threads<T: Send>(n_threads: usize, work: impl FnOnce() -> T + Send) -> T {
    rayon::ThreadPoolBuilder::new().num_threads(n_threads).build().unwrap().install(work)
}

fn sequences(n: u32, length: u32) -> Vec<Vec<u32>> {
    (0..n)
        .map(|row| (0..length + row % 5).map(|index| (index * 7 + index / 3 + row) % 23).collect())
        .collect()
}

#[test]
fn a_pass_and_its_gradient() {
    let (model, rows) = (model(), sequences(24, 140));
    let pass = || -> (Vec<f32>, Vec<f32>, Vec<(String, HostTensor)>) {
        let batch = Batch::new(rows.iter().map(Vec::as_slice));
        let position_of = |row: usize| batch.lengths().iter().take(row).sum::<usize>();
        let targets: Vec<Target> = (0..rows.len())
            .flat_map(|row| (1..rows[row].len()).map(move |index| (row, index)))
            .map(|(row, index)| Target { position: position_of(row) + index - 1, token: rows[row][index] })
            .collect();
        let forward = model.forward(batch, Adapters::On, Keep::Activations).unwrap();
        let mut gradients = Gradients::default();
        let loss = |_: usize, scores: &skill_train::model::Scores| {
            Ok(vec![Coefficients { by_logprob: -0.01, by_entropy: 0.002 }; scores.logprobs.len()])
        };
        let (scores, hidden) = model.score(&forward, &targets, 0.9, &mut gradients, loss).unwrap();
        model.backward(forward, hidden, &mut gradients).unwrap();
        (scores.logprobs, scores.entropies, model.named_gradients(&gradients).unwrap())
    };
    let alone = with_threads(1, pass);
    assert!(alone.2.iter().any(|(_, gradient)| gradient.values.iter().any(|value| *value != 0.0)));
    assert_eq!(with_threads(4, pass), alone);
}

#[test]
fn samples_of_more_prompts_than_are_decoded_together() {
    let (model, prompts) = (model(), sequences(150, 20));
    let settings = GenerationSettings { max_tokens: 6, seed: 3, ..GenerationSettings::default() };
    let two_turns = |n_threads: usize| -> Vec<Vec<Sample>> {
        let mut kept = KeptSequences::default();
        let first = sample(n_threads, &model, &prompts, &settings, &mut kept);
        let next: Vec<Vec<u32>> = prompts
            .iter()
            .zip(&first)
            .map(|(prompt, sample)| [prompt.as_slice(), &sample.tokens, &[4, 5, 6]].concat())
            .collect();
        let second = sample(n_threads, &model, &next, &settings, &mut kept);
        vec![first, second]
    };
    let alone = two_turns(1);
    assert_eq!(two_turns(4), alone);
}

fn sample(
    n_threads: usize,
    model: &Decoder,
    prompts: &[Vec<u32>],
    settings: &GenerationSettings,
    kept: &mut KeptSequences,
) -> Vec<Sample> {
    with_threads(n_threads, || generate(model, prompts, settings, Adapters::On, kept, &|| false).unwrap())
}

/// How far apart the log-probability of a token may be in two batches: sums of f32 in another order.
const ROUNDING: f32 = 1e-4;

/// The number of threads changes no byte. The number of prompts that are decoded together changes the last bits of
/// log-probabilities, and so the reply where two tokens are as good as equal; here are none.
#[test]
fn greedy_replies_by_batch_and_threads() {
    let (model, prompts) = (model(), sequences(140, 20));
    let settings = GenerationSettings { max_tokens: 6, temperature: 0.0, ..GenerationSettings::default() };
    let by_batch = |n_rows: usize, n_threads: usize| -> Vec<Sample> {
        let reply = |prompts: &[Vec<u32>]| {
            sample(n_threads, &model, prompts, &settings, &mut KeptSequences::default())
        };
        prompts.chunks(n_rows).flat_map(reply).collect()
    };
    let alone = by_batch(1, 1);
    for n_rows in [1, 8, 64, 128, 140] {
        let found = by_batch(n_rows, 1);
        assert_eq!(by_batch(n_rows, 4), found, "{n_rows} together");
        for (found, alone) in found.iter().zip(&alone) {
            assert_eq!(found.tokens, alone.tokens, "{n_rows} together");
            let pairs = found.logprobs.iter().zip(&alone.logprobs);
            assert!(pairs.clone().all(|(one, other)| (one - other).abs() < ROUNDING), "{n_rows} together");
        }
    }
}
