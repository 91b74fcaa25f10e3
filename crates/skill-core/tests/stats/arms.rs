//! Two arms of an agent on the same cases, several runs each: the paired interval on an agent with known effects.

use skill_core::stats::{Paired, difference_interval};
use skill_core::{Gate, ItemScore, PyRandom};

const CASES: usize = 20;
const RUNS: usize = 3;
const LEVEL: f64 = 0.95;

/// What repetitions of a measurement come to.
struct Found {
    /// The share of intervals that hold the true difference.
    coverage: f64,
    /// The share that call the skill better.
    better: f64,
}

/// An agent that passes a case with the probability `base` without the skill, and with one that is higher by `effect` on
/// average, `spread` being the standard deviation between cases.
fn repeated(repetitions: usize, base: f64, effect: f64, spread: f64) -> Found {
    let mut random = PyRandom::new(7);
    // The sum of twelve uniform numbers is close enough to normal.
    let normal = |random: &mut PyRandom| (0..12).map(|_| random.random()).sum::<f64>() - 6.0;
    let mut measured = Vec::with_capacity(repetitions);
    let mut true_sum = 0.0;
    for _ in 0..repetitions {
        let (mut without, mut with) = (Vec::new(), Vec::new());
        for _ in 0..CASES {
            let shifted = (base + effect + spread * normal(&mut random)).clamp(0.0, 1.0);
            true_sum += (shifted - base) / CASES as f64;
            let mut run = |p: f64| ItemScore { hard: f64::from(u8::from(random.random() < p)), soft: 0.0 };
            without.extend((0..RUNS).map(|_| run(base)));
            with.extend((0..RUNS).map(|_| run(shifted)));
        }
        let paired = Paired::of(Gate::default(), RUNS, &with, &without).unwrap();
        measured.push(difference_interval(&paired, LEVEL));
    }
    let truth = true_sum / repetitions as f64;
    let share = |is: &dyn Fn(&[f64; 2]) -> bool| {
        measured.iter().filter(|interval| is(interval)).count() as f64 / repetitions as f64
    };
    Found {
        coverage: share(&|[low, high]| *low <= truth && truth <= *high),
        better: share(&|[low, _]| *low > 0.0),
    }
}

#[test]
fn a_skill_without_effect_is_seldom_called_better_and_an_effect_of_30_points_is_found() {
    for base in [0.05, 0.3, 0.5, 0.7] {
        let idle = repeated(4_000, base, 0.0, 0.0);
        assert!(idle.coverage >= 0.93, "{base}: {}", idle.coverage);
        assert!(idle.better <= 0.035, "{base}: {}", idle.better);
    }
    for base in [0.3, 0.5] {
        let better = repeated(4_000, base, 0.3, 0.2);
        assert!(better.coverage >= 0.93, "{base}: {}", better.coverage);
        assert!(better.better >= 0.80, "{base}: {}", better.better);
    }
    // No effect on average, which differs between cases by 20 points.
    for base in [0.3, 0.5, 0.7] {
        let mixed = repeated(4_000, base, 0.0, 0.2);
        assert!(mixed.coverage >= 0.93, "{base}: {}", mixed.coverage);
        assert!(mixed.better <= 0.035, "{base}: {}", mixed.better);
    }
}
