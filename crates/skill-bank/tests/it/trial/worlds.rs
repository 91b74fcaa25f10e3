//! Whole trials in simulated worlds: few useless candidates are admitted, useful ones are, and it says at what cost.

use super::with_settings;
use skill_bank::TrialVerdict;
use skill_bank::trial::{Half, TrialSettings, TrialState};
use skill_core::PyRandom;
use skill_core::stats::stratified::{TaskPrior, TrialRule};

const N_ITEMS: usize = 16;

/// The verdict on a candidate that shifts all tasks by this much, and the rollouts that it took.
fn run(rule: TrialRule, shift: f64, seed: u64) -> (TrialVerdict, u64) {
    let mut random = PyRandom::new(seed);
    let logits: Vec<f64> = (0..N_ITEMS)
        .map(|_| {
            // The sum of twelve uniform numbers is near enough to a normal one.
            let z = (0..12).map(|_| random.random()).sum::<f64>() - 6.0;
            0.4 + 2.0 * z
        })
        .collect();
    let mut state =
        TrialState::new(with_settings(N_ITEMS, &TrialSettings { rule, ..TrialSettings::default() }));
    for place in 0.. {
        let planned = state.design().group(place).unwrap();
        let logit = logits[place as usize % N_ITEMS];
        let successes: Vec<Option<bool>> = planned
            .halves
            .iter()
            .map(|half| {
                let logit = logit + if *half == Half::With { shift } else { 0.0 };
                Some(random.random() < 1.0 / (1.0 + (-logit).exp()))
            })
            .collect();
        let result = planned.of_results(&successes).unwrap();
        if let Some(decision) = state.push(place, result).unwrap() {
            return (decision.verdict, 8 * decision.n_groups);
        }
    }
    panic!("no decision");
}

/// Shares admitted and rejected, and rollouts on average.
fn outcomes(rule: TrialRule, points: f64, n_seeds: u64) -> (f64, f64, f64) {
    let shift = TaskPrior::default().shift_for(points).unwrap();
    let runs: Vec<(TrialVerdict, u64)> = (0..n_seeds).map(|seed| run(rule, shift, seed)).collect();
    let share = |verdict| runs.iter().filter(|(found, _)| *found == verdict).count() as f64 / n_seeds as f64;
    let rollouts = runs.iter().map(|(_, rollouts)| *rollouts as f64).sum::<f64>() / n_seeds as f64;
    println!(
        "{rule:?} {:+.0} points: admitted {:.3}, rejected {:.3}, {rollouts:.0} rollouts on average",
        100.0 * points,
        share(TrialVerdict::Admit),
        share(TrialVerdict::Reject)
    );
    (share(TrialVerdict::Admit), share(TrialVerdict::Reject), rollouts)
}

fn n_seeds() -> u64 {
    std::env::var("SKILLRL_TRIAL_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(20)
}

#[test]
fn useful_skills_pass_and_useless_ones_do_not() {
    let any_time = TrialSettings::default().rule;
    for rule in [any_time, TrialRule::FixedEnd { alpha: 0.05 }] {
        let (useful, _, cost_of_useful) = outcomes(rule, 0.20, n_seeds());
        let (useless, _, cost_of_useless) = outcomes(rule, 0.0, n_seeds());
        let (harmful, rejected, cost_of_harmful) = outcomes(rule, -0.20, n_seeds());
        if n_seeds() >= 100 {
            // For the table of docs/trials.md.
            outcomes(rule, 0.10, n_seeds());
            outcomes(rule, 0.05, n_seeds());
        }
        assert!(useful >= 0.95 && useless <= 0.10 && harmful == 0.0 && rejected >= 0.95, "{rule:?}");
        // What is decided ends.
        assert!(cost_of_useless < 640.0 && cost_of_harmful < 400.0, "{rule:?}");
        assert!(rule != any_time || cost_of_useful < 320.0);
    }
}
