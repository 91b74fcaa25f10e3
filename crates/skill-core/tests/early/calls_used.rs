//! How many calls an edit without effect costs, against the simulations that the design rests on.

use skill_core::{
    EarlyRejection, EarlyVerdict, FlipCounts, Gate, ItemId, ItemScore, PrefixFold, PyRandom, evaluation_order,
};

const N_ITEMS: usize = 200;
const N_RUNS: u64 = 200;
const IN_FLIGHT: usize = 24;

/// How the items are ordered.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Order {
    FailFirst,
    Random,
}

/// Mean shares of the items.
#[derive(Debug, Clone, Copy)]
struct Shares {
    /// In the prefix that is needed.
    seen: f64,
    /// Started with [`IN_FLIGHT`] calls in flight that end in random order.
    started: f64,
}

/// Measures a candidate whose outcome on each item is the current skill's, but for a flip with probability
/// `flip_rate`, which is what a target at temperature 0 does when the words of its skill change and nothing else.
fn simulate(accuracy: f64, flip_rate: f64, order: Order) -> Shares {
    let (mut n_seen, mut n_started) = (0, 0);
    for seed in 0..N_RUNS {
        let mut random = PyRandom::new(seed);
        let n_failed = (N_ITEMS as f64 * (1.0 - accuracy)).round() as usize;
        let ids: Vec<ItemId> = (0..N_ITEMS).map(|item_idx| ItemId::new(format!("{item_idx:03}"))).collect();
        let mut outcomes: Vec<bool> = (0..N_ITEMS).map(|item_idx| item_idx >= n_failed).collect();
        random.shuffle(&mut outcomes);
        let score = |is_solved: bool| ItemScore { hard: f64::from(u8::from(is_solved)), soft: 0.0 };
        let current: Vec<ItemScore> = outcomes.iter().map(|&is_solved| score(is_solved)).collect();
        let candidate: Vec<ItemScore> =
            outcomes.iter().map(|&is_solved| score(is_solved != (random.random() < flip_rate))).collect();
        let order = match order {
            Order::FailFirst => evaluation_order(&ids, &current, &FlipCounts::default()),
            Order::Random => {
                let mut order: Vec<usize> = (0..N_ITEMS).collect();
                random.shuffle(&mut order);
                order
            }
        };

        let mut rejection = EarlyRejection::new(Gate::default(), &current);
        for &item_idx in &order {
            rejection.push(candidate[item_idx]);
        }
        n_seen += rejection.n_seen();

        let mut fold = PrefixFold::new(EarlyRejection::new(Gate::default(), &current));
        let (mut started, mut open) = (0, Vec::new());
        while fold.rejection().verdict() == EarlyVerdict::Open && fold.rejection().n_seen() < N_ITEMS {
            while open.len() < IN_FLIGHT && started < fold.n_startable(IN_FLIGHT) {
                open.push(started);
                started += 1;
            }
            let position: usize = open.swap_remove(random.randbelow(open.len() as u64) as usize);
            fold.push(position, candidate[order[position]]);
        }
        assert_eq!(fold.rejection().n_seen(), rejection.n_seen());
        assert!(started < rejection.n_seen() + IN_FLIGHT, "{started} for {}", rejection.n_seen());
        n_started += started;
    }
    let share = |count: usize| count as f64 / (N_ITEMS as f64 * N_RUNS as f64);
    Shares { seen: share(n_seen), started: share(n_started) }
}

/// Checks the shares of [`Shares`] to three digits behind the point, and how near the first is to the design's table, which was
/// simulated with other random numbers.
#[track_caller]
fn check(accuracy: f64, flip_rate: f64, order: Order, (seen, started): (f64, f64), design: f64) {
    let found = simulate(accuracy, flip_rate, order);
    let is_near = |found: f64, expect: f64| (found - expect).abs() < 0.0005;
    assert!(
        is_near(found.seen, seen) && is_near(found.started, started),
        "{accuracy} with {flip_rate} flips, {order:?}: {found:?} instead of {seen} and {started}"
    );
    assert!((found.seen - design).abs() < 0.03, "{found:?} instead of {design}");
}

#[test]
fn without_a_flip_the_failed_items_decide() {
    check(0.9, 0.0, Order::FailFirst, (0.1, 0.172), 0.1);
    check(0.7, 0.0, Order::FailFirst, (0.3, 0.3426), 0.3);
    check(0.5, 0.0, Order::FailFirst, (0.5, 0.5391), 0.5);
}

/// The goals for a current skill at 0.9 are at most 0.25 one by one and 0.32 with 24 in flight.
#[test]
fn with_a_few_flips_the_shares_are_those_of_the_design() {
    check(0.9, 0.02, Order::FailFirst, (0.2159, 0.2876), 0.19);
    check(0.7, 0.02, Order::FailFirst, (0.564, 0.6189), 0.55);
    check(0.5, 0.02, Order::FailFirst, (0.7957, 0.8389), 0.80);
    check(0.9, 0.02, Order::Random, (0.8456, 0.9153), 0.83);
}
