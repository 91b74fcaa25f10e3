//! Whole training runs in virtual time, each with what one seed decides: faults, tails, bursts and outages at the
//! provider, kills, Ctrl-C and caps in the run.
//!
//! Whatever happens, the run ends after some restarts with the files of an undisturbed one, no reply that was kept is
//! asked for again, no outage becomes a score, and no cap is passed. A seed that fails
//! is run alone with `cargo xtask sim --seeds 1 --from SEED`.
#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]
#![expect(clippy::print_stderr, reason = "a seed that fails is named")]

#[path = "../../../skill-core/tests/support/all_files.rs"]
mod all_files;
mod life;
mod process;
mod provider;
#[path = "../support/run_files.rs"]
mod run_files;
mod story;
mod world;

use life::{Life, live_seed};
use std::panic::{catch_unwind, resume_unwind};
use std::time::Instant;

/// How many seeds CI runs.
const N_SEEDS: u64 = 60;
/// The tests among which the seeds are dealt, so that they run side by side.
const N_TESTS: u64 = 2;
/// With fewer seeds in a test, chance may leave something out.
const MIN_SEEDS_TO_SEE_EVERYTHING: u64 = 30;
/// A provider that fails so long that a process ends is rare.
const MIN_SEEDS_TO_SEE_A_FAULT: u64 = 100;

/// How many seeds are run, where it is not [`N_SEEDS`]; `cargo xtask sim` sets it.
const SEEDS_VARIABLE: &str = "SKILLRL_SIM_SEEDS";
/// The first seed, where it is not 0; `cargo xtask sim` sets it.
const FROM_VARIABLE: &str = "SKILLRL_SIM_FROM";

fn variable(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

fn live_named(seed: u64) -> Life {
    catch_unwind(|| live_seed(seed)).unwrap_or_else(|payload| {
        eprintln!("seed {seed} failed; alone: cargo xtask sim --seeds 1 --from {seed}");
        resume_unwind(payload)
    })
}

/// Lives its share of the seeds, one after the other.
fn seeds(test_idx: u64) {
    let (from, n_seeds) = (variable(FROM_VARIABLE, 0), variable(SEEDS_VARIABLE, N_SEEDS));
    let begun = Instant::now();
    let (mut all, mut n_lived) = (Life::default(), 0);
    let share = n_seeds.div_ceil(N_TESTS);
    let first = from + (test_idx * share).min(n_seeds);
    for seed in first..(first + share).min(from + n_seeds) {
        let life = live_named(seed);
        n_lived += 1;
        all.processes += life.processes;
        all.kills += life.kills;
        all.stops += life.stops;
        all.capped += life.capped;
        all.faults += life.faults;
        all.lost += life.lost;
        all.requests += life.requests;
        all.max_in_flight = all.max_in_flight.max(life.max_in_flight);
        all.took += life.took;
    }
    eprintln!("{n_lived} seeds in {:.1} s: {all:?}", begun.elapsed().as_secs_f64());
    if n_lived >= MIN_SEEDS_TO_SEE_EVERYTHING {
        for count in [all.kills, all.stops, all.capped, all.lost] {
            assert!(count > 0, "the seeds see everything: {all:?}");
        }
        assert!(all.faults > 0 || n_lived < MIN_SEEDS_TO_SEE_A_FAULT, "{all:?}");
        assert!(all.max_in_flight > 16, "{all:?}");
    }
}

#[test]
fn seeds_0() {
    seeds(0);
}

#[test]
fn seeds_1() {
    seeds(1);
}

#[test]
fn a_life_is_the_same_again() {
    for seed in 1_000..1_005 {
        assert_eq!(live_seed(seed), live_seed(seed), "seed {seed}");
    }
}
