//! Sampling with a cache: the tokens and log-probabilities of passes over whole sequences.

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;
use skill_train::TrainError;
use skill_train::generate::{KeptSequences, generate};
use skill_train::lora::{LINEAR_LAYERS, LoraConfig};
use skill_train::model::{Adapters, Batch, Cache, Continued, Decoder, Keep, Target};
use skill_train::seam::{Ended, GenerationSettings, Sample};

use crate::small;

fn all(model: &Decoder, prompts: &[Vec<u32>], settings: &GenerationSettings) -> Vec<Sample> {
    generate(model, prompts, settings, Adapters::On, &mut KeptSequences::default(), &|| false).unwrap()
}

fn settings(temperature: f64, max_tokens: usize) -> GenerationSettings {
    GenerationSettings { temperature, max_tokens, seed: 3, ..GenerationSettings::default() }
}

/// Prompts with a common beginning, two of them equal, and one of another length.
fn prompts() -> Vec<Vec<u32>> {
    let common: Vec<u32> = (0..12).map(|index| index % 23).collect();
    let ends: [&[u32]; 4] = [&[1, 2], &[5], &[1, 2], &[9, 9, 9, 4]];
    ends.iter().map(|end| [common.as_slice(), end].concat()).collect()
}

#[test]
fn samples_have_the_log_probabilities_of_a_whole_pass() {
    for (family, temperature) in [("llama", 0.0), ("llama", 0.8), ("qwen2", 1.0), ("qwen3", 1.3)] {
        let mut model = small::model(family, &[("head_dim", json!(6))]);
        if family == "qwen2" {
            model.attach_new(LoraConfig::new(2, 4.0, &LINEAR_LAYERS, "small").unwrap(), 4).unwrap();
        }
        for (prompt, sample) in prompts().iter().zip(all(&model, &prompts(), &settings(temperature, 9))) {
            let tokens = [prompt.as_slice(), &sample.tokens].concat();
            let targets: Vec<Target> = (prompt.len()..tokens.len())
                .map(|index| Target { position: index - 1, token: tokens[index] })
                .collect();
            let forward =
                model.forward(Batch::new([tokens.as_slice()]), Adapters::On, Keep::Nothing).unwrap();
            let divisor = if temperature == 0.0 { 1.0 } else { temperature as f32 };
            let scores = model.log_probs(&forward, &targets, divisor).unwrap();
            assert_eq!(sample.logprobs.len(), 9);
            for (found, expected) in sample.logprobs.iter().zip(&scores.logprobs) {
                assert!((found - expected).abs() < 2e-5, "{family}: {found}, not {expected}");
            }
            if temperature == 0.0 {
                for target in &targets {
                    let logits = model.logits(&forward, &[target.position]).unwrap();
                    let best = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
                    assert!(
                        best - logits[target.token as usize] < 1e-4,
                        "a greedy token is not the best one"
                    );
                }
            }
        }
    }
}

#[test]
fn a_sample_does_not_depend_on_its_neighbours() {
    let model = small::model("llama", &[]);
    let together = all(&model, &prompts(), &settings(1.0, 12));
    let first = all(&model, &prompts()[..1], &settings(1.0, 12));
    assert_eq!(together[0].tokens, first[0].tokens);
    assert_ne!(together[0].tokens, together[2].tokens, "equal prompts must have random numbers of their own");
    let greedy = all(&model, &prompts(), &settings(0.0, 12));
    assert_eq!(greedy[0].tokens, greedy[2].tokens);
    let many: Vec<Vec<u32>> = (0..70).map(|index| vec![1, 2, index % 23]).collect();
    let samples = all(&model, &many, &settings(0.0, 2));
    assert_eq!(samples.len(), 70);
    assert_eq!(samples[69].tokens, all(&model, &many[69..], &settings(0.0, 2))[0].tokens);
}

#[test]
fn an_episode_goes_on_from_what_was_computed() {
    let mut model = small::model("llama", &[]);
    model.attach_new(LoraConfig::new(2, 4.0, &LINEAR_LAYERS, "small").unwrap(), 4).unwrap();
    for temperature in [0.0, 1.0] {
        let settings = settings(temperature, 6);
        let mut kept = KeptSequences::default();
        let mut sample = |prompts: &[Vec<u32>]| {
            generate(&model, prompts, &settings, Adapters::On, &mut kept, &|| false).unwrap()
        };
        let mut episodes = prompts();
        for turn in 0..3_u32 {
            let samples = sample(&episodes);
            // The same without a memory: every prompt is computed as a whole.
            let expected = all(&model, &episodes, &settings);
            for (found, expected) in samples.iter().zip(&expected) {
                assert_eq!(found.tokens, expected.tokens, "turn {turn} at {temperature}");
                let pairs = found.logprobs.iter().zip(&expected.logprobs);
                assert!(pairs.into_iter().all(|(found, expected)| (found - expected).abs() < 2e-5));
            }
            // The first episode ends; the others are shown one token or more.
            episodes = episodes
                .iter()
                .zip(&samples)
                .skip(1)
                .enumerate()
                .map(|(at, (prompt, sample))| {
                    let shown = vec![turn + 3; at + 1];
                    [prompt.as_slice(), &sample.tokens, &shown].concat()
                })
                .collect();
        }
        assert_eq!(kept.len(), 2);
    }
    // A memory without room keeps nothing and changes nothing.
    let mut kept = KeptSequences::new(0);
    generate(&model, &prompts(), &settings(1.0, 3), Adapters::On, &mut kept, &|| false).unwrap();
    assert!(kept.is_empty());
}

#[test]
fn samples_end_at_stop_tokens_and_at_the_limit() {
    let model = small::model("llama", &[("max_position_embeddings", json!(20))]);
    let mut greedy = settings(0.0, 4);
    let free = all(&model, &prompts(), &greedy);
    assert!(free.iter().all(|sample| sample.tokens.len() == 4 && sample.ended == Ended::Length));
    greedy.stop_tokens = vec![free[0].tokens[1]];
    let stopped = all(&model, &prompts(), &greedy);
    let n_tokens = 1 + free[0].tokens.iter().position(|token| *token == free[0].tokens[1]).unwrap();
    assert_eq!((stopped[0].tokens.len(), stopped[0].ended), (n_tokens, Ended::Stop));
    assert_eq!(stopped[0].tokens, free[0].tokens[..n_tokens]);
    // The context has room for six tokens behind the first prompt.
    let full = all(&model, &prompts()[..1], &settings(0.0, 100));
    assert_eq!((full[0].tokens.len(), full[0].ended), (6, Ended::Length));
    assert!(all(&model, &prompts(), &settings(0.0, 0)).iter().all(|sample| sample.tokens.is_empty()));
    assert!(all(&model, &[], &settings(0.0, 4)).is_empty());
}

#[test]
fn a_cancelled_call_ends_at_the_next_token() {
    let model = small::model("llama", &[]);
    let n_asked = AtomicUsize::new(0);
    let is_cancelled = || n_asked.fetch_add(1, Ordering::Relaxed) >= 7;
    let mut kept = KeptSequences::default();
    let result = generate(&model, &prompts(), &settings(1.0, 100), Adapters::On, &mut kept, &is_cancelled);
    assert!(matches!(result, Err(TrainError::Cancelled)), "{result:?}");
    assert_eq!(n_asked.into_inner(), 8);
}

#[test]
fn faulty_prompts_are_refused_by_name() {
    let model = small::model("llama", &[("max_position_embeddings", json!(20))]);
    let field = |prompts: &[Vec<u32>], settings: &GenerationSettings| match generate(
        &model,
        prompts,
        settings,
        Adapters::On,
        &mut KeptSequences::default(),
        &|| false,
    ) {
        Err(TrainError::Request { field, .. }) => field,
        other => panic!("{other:?}"),
    };
    assert_eq!(field(&[vec![1], vec![]], &settings(1.0, 4)), "prompts[1]");
    assert_eq!(field(&[vec![1; 20]], &settings(1.0, 4)), "prompts[0]");
    assert_eq!(field(&[vec![23]], &settings(1.0, 4)), "tokens");
    assert_eq!(field(&[vec![1]], &settings(-1.0, 4)), "settings");
}

#[test]
fn a_cache_continues_where_it_was_forked() {
    let model = small::model("qwen2", &[]);
    let mut first = Cache::default();
    let extend = |cache: &mut Cache, tokens: &[u32]| {
        model.extend(&mut [Continued { cache, tokens }], Adapters::On).unwrap()
    };
    extend(&mut first, &[1, 2, 3]);
    let mut second = first.fork();
    extend(&mut first, &[4]);
    extend(&mut first, &[5, 6]);
    let logits = extend(&mut second, &[7, 8]);
    assert_eq!((first.n_tokens(), second.n_tokens()), (6, 5));
    let whole = model.next_logits(&[1, 2, 3, 7, 8], Adapters::On).unwrap();
    for (found, expected) in logits.iter().zip(whole) {
        assert!((found - expected).abs() < 1e-5);
    }
}
