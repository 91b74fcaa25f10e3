//! Sampling: what is refused, what is sampled, and that throws are reproducible.

use proptest::prelude::*;
use skill_train::sampling::{SamplingError, SamplingSettings, TokenDice, log_prob_of};

const PLAIN: SamplingSettings =
    SamplingSettings { repetition_penalty: 1.0, temperature: 1.0, top_k: None, top_p: 1.0, min_p: 0.0 };

#[track_caller]
fn refused(settings: SamplingSettings, expect: &str) {
    match settings.check() {
        Err(SamplingError::Setting { setting, .. }) => assert_eq!(setting, expect),
        other => panic!("{settings:?}: {other:?}"),
    }
    assert!(settings.distribution(&[0.0, 1.0], &[]).is_err());
}

#[test]
fn settings_outside_their_range_are_refused() {
    refused(SamplingSettings { repetition_penalty: 0.0, ..PLAIN }, "repetition_penalty");
    refused(SamplingSettings { repetition_penalty: f64::NAN, ..PLAIN }, "repetition_penalty");
    refused(SamplingSettings { temperature: -0.1, ..PLAIN }, "temperature");
    refused(SamplingSettings { temperature: f64::INFINITY, ..PLAIN }, "temperature");
    refused(SamplingSettings { top_k: Some(0), ..PLAIN }, "top_k");
    refused(SamplingSettings { top_p: 1.1, ..PLAIN }, "top_p");
    refused(SamplingSettings { top_p: f64::NAN, ..PLAIN }, "top_p");
    refused(SamplingSettings { min_p: -1.0, ..PLAIN }, "min_p");
    assert_eq!(PLAIN.check(), Ok(()));
    assert_eq!(SamplingSettings::greedy().check(), Ok(()));
}

#[test]
fn logits_of_a_broken_model_are_errors() {
    let sample = |logits: &[f32]| PLAIN.sample(logits, &[], 0.5);
    let not_finite = sample(&[0.0, f32::NAN]);
    assert!(matches!(not_finite, Err(SamplingError::NotFinite { token: 1, .. })), "{not_finite:?}");
    let infinite = sample(&[f32::INFINITY, 0.0]);
    assert!(matches!(infinite, Err(SamplingError::NotFinite { token: 0, .. })), "{infinite:?}");
    let nothing = sample(&[f32::NEG_INFINITY; 3]);
    assert_eq!(nothing, Err(SamplingError::NothingLeft { n_tokens: 3 }));
    assert_eq!(sample(&[]), Err(SamplingError::NothingLeft { n_tokens: 0 }));
    assert!(matches!(log_prob_of(&[f32::NAN], 0), Err(SamplingError::NotFinite { token: 0, .. })));
}

#[test]
fn an_excluded_token_is_never_sampled() {
    let logits = [f32::NEG_INFINITY, 1.0, f32::NEG_INFINITY, 0.0];
    let tokens = PLAIN.distribution(&logits, &[]).unwrap();
    assert_eq!(tokens.tokens().iter().map(|(token, _)| *token).collect::<Vec<_>>(), [1, 3]);
    assert_eq!(tokens.at(0.0).0, 1);
    assert_eq!(tokens.at(0.999_999).0, 3);
    assert_eq!(tokens.probability(0), 0.0);
    assert_eq!(log_prob_of(&logits, 0).unwrap(), f64::NEG_INFINITY);
}

#[test]
fn greedy_takes_the_best_token_and_keeps_its_plain_log_prob() {
    let logits = [0.5, 2.0, 2.0, -1.0];
    let sampled = SamplingSettings::greedy().sample(&logits, &[], 0.99).unwrap();
    assert_eq!((sampled.token, sampled.log_prob), (1, 0.0));
    let sum: f64 = logits.iter().map(|logit| f64::from(*logit).exp()).sum();
    assert!((sampled.log_prob_plain - (2.0 - sum.ln())).abs() < 1e-12);
}

#[test]
fn log_probs_are_of_the_sampling_distribution_and_of_temperature_1() {
    let logits = [0.0, 1.0, 2.0];
    let settings = SamplingSettings { temperature: 0.5, top_k: Some(2), ..PLAIN };
    let sampled = settings.sample(&logits, &[], 0.0).unwrap();
    assert_eq!(sampled.token, 1);
    // At temperature 0.5 tokens 1 and 2 weigh exp(2) and exp(4).
    assert!((sampled.log_prob - (2.0 - (2_f64.exp() + 4_f64.exp()).ln())).abs() < 1e-12);
    assert!((sampled.log_prob_plain - log_prob_of(&logits, 1).unwrap()).abs() < 1e-12);
    assert!(
        (log_prob_of(&logits, 1).unwrap() - (1.0 - (1.0 + 1_f64.exp() + 2_f64.exp()).ln())).abs() < 1e-12
    );
}

#[test]
fn throws_depend_on_seed_sequence_and_position_alone() {
    let dice = TokenDice::new(7, "task 1, rollout 0");
    assert_eq!(dice.throw(12), TokenDice::new(7, "task 1, rollout 0").throw(12));
    assert_ne!(dice.throw(12), dice.throw(13));
    assert_ne!(dice.throw(12), TokenDice::new(8, "task 1, rollout 0").throw(12));
    assert_ne!(dice.throw(12), TokenDice::new(7, "task 1, rollout 1").throw(12));
    let throws: Vec<f64> = (0..4_000).map(|position| dice.throw(position)).collect();
    assert!(throws.iter().all(|throw| (0.0..1.0).contains(throw)));
    let mean = throws.iter().sum::<f64>() / 4_000.0;
    assert!((0.48..0.52).contains(&mean), "{mean}");
}

#[test]
fn tokens_come_as_often_as_their_probability_says() {
    let logits = [0.0, 1.0, 2.0, -1.0];
    let tokens = PLAIN.distribution(&logits, &[]).unwrap();
    let dice = TokenDice::new(1, "frequencies");
    let mut counts = [0_u32; 4];
    for position in 0..20_000 {
        counts[usize::try_from(tokens.at(dice.throw(position)).0).unwrap()] += 1;
    }
    for (token, count) in (0_u32..).zip(counts) {
        let share = f64::from(count) / 20_000.0;
        assert!((share - tokens.probability(token)).abs() < 0.015, "token {token}: {share}");
    }
}

proptest! {
    #[test]
    fn every_distribution_adds_up_to_1_and_keeps_the_best(
        logits in prop::collection::vec(-20_f32..20.0, 1..60),
        previous in prop::collection::vec(0_u32..80, 0..5),
        temperature in 0.05_f64..3.0,
        top_k in prop::option::of(1_usize..70),
        top_p in 0.0_f64..=1.0,
        min_p in 0.0_f64..=1.0,
        throw in 0.0_f64..1.0,
    ) {
        let settings = SamplingSettings { repetition_penalty: 1.0, temperature, top_k, top_p, min_p };
        let tokens = settings.distribution(&logits, &previous).unwrap();
        let sum: f64 = tokens.tokens().iter().map(|(_, probability)| probability).sum();
        prop_assert!((sum - 1.0).abs() < 1e-9);
        let best = logits.iter().copied().fold(f32::MIN, f32::max);
        let sampled = settings.sample(&logits, &previous, throw).unwrap();
        prop_assert!(sampled.log_prob <= 0.0 && tokens.probability(sampled.token) > 0.0);
        prop_assert!(tokens.tokens().iter().any(|(token, _)| logits[*token as usize] == best));
    }
}
