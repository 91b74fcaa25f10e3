//! Death at every append to the journal, in turn.

use crate::child::{Commits, Death, DeathPoint};
use crate::world::{Size, World};

/// If this is set, a child of the demo's chain dies at its first append, as `cargo xtask crash` wants it.
const FULL_VARIABLE: &str = "SKILLRL_CRASH_FULL";

/// Without it a child of the demo's chain dies at this append of its own, which makes about 40 children.
///
/// It is odd, so that calls and rollouts, which take turns, are both died at.
const DEMO_STRIDE: u64 = 29;

/// A child that trains a bank dies at this append of its own; in the long form at the other one.
const BANK_STRIDE: u64 = 41;
const BANK_STRIDE_FULL: u64 = 3;

/// The first append of the small run is died at, and so many more up to the last, each in a run of its own.
const N_SINGLE_POINTS: u64 = 4;

/// What a chain came to.
struct Chain {
    n_kills_before: u64,
    n_kills_after: u64,
    n_requests: usize,
    n_repeats: usize,
}

impl std::fmt::Display for Chain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { n_kills_before, n_kills_after, n_requests, n_repeats } = self;
        write!(
            f,
            "died {n_kills_before} times before a commit and {n_kills_after} times after one; \
             {n_requests} requests, {n_repeats} of them again"
        )
    }
}

/// Child after child dies at its append number `stride`, alternately before and after the commit, until the run is
/// finished.
fn chain(size: Size, stride: u64) -> Chain {
    let undisturbed = World::undisturbed(size);
    if size == Size::Bank {
        let log = String::from_utf8_lossy(&undisturbed.files["bank/log.jsonl"]);
        assert!(log.contains("trial_opened"), "no candidate was tried: {log}");
    }
    let mut world = World::new(size, 1);
    let (mut n_kills_before, mut n_kills_after, mut n_entries) = (0_u64, 0_u64, 0);
    loop {
        let n_lost_before = world.n_lost;
        let is_before = world.n_children().is_multiple_of(2);
        let point = if is_before { DeathPoint::Before } else { DeathPoint::After };
        if !world.kill_at(Death { point, entry: stride }, Commits::Paced) {
            break;
        }
        if is_before {
            n_kills_before += 1;
        } else {
            n_kills_after += 1;
        }
        let n_entries_before = std::mem::replace(&mut n_entries, world.n_entries());
        assert_eq!(
            n_entries - n_entries_before,
            stride - u64::from(is_before),
            "committed by a child that died {point:?}"
        );
        let n_lost = world.n_lost - n_lost_before;
        assert!(n_lost <= 1, "one call is in flight at most, and {n_lost} are lost");
    }
    world.assert_is(&undisturbed);
    assert_eq!(world.n_entries(), undisturbed.n_entries, "everything is in the journal once");
    if stride == 1 {
        assert_eq!(n_kills_after, undisturbed.n_entries, "each append was the last one of a process");
    }
    let n_requests = world.requests().len();
    Chain { n_kills_before, n_kills_after, n_requests, n_repeats: n_requests - undisturbed.requests.len() }
}

#[test]
fn a_small_run_dies_at_every_append() {
    println!("{}", chain(Size::Small, 1));
}

#[test]
fn the_demo_dies_along_the_way() {
    let began = std::time::Instant::now();
    let is_full = std::env::var_os(FULL_VARIABLE).is_some();
    let chain = chain(Size::Demo, if is_full { 1 } else { DEMO_STRIDE });
    println!("{chain} in {:.0} s", began.elapsed().as_secs_f64());
    assert!(chain.n_kills_after >= 10, "{chain}");
}

#[test]
fn the_demo_dies_training_a_bank() {
    let is_full = std::env::var_os(FULL_VARIABLE).is_some();
    let chain = chain(Size::Bank, if is_full { BANK_STRIDE_FULL } else { BANK_STRIDE });
    println!("{chain}");
    assert!(chain.n_kills_before > 1 && chain.n_kills_after > 1, "{chain}");
}

#[test]
fn a_run_dies_once() {
    let undisturbed = World::undisturbed(Size::Small);
    for point_idx in 0..=N_SINGLE_POINTS {
        let entry = 1 + (undisturbed.n_entries - 1) * point_idx / N_SINGLE_POINTS;
        for point in [DeathPoint::Before, DeathPoint::After] {
            let mut world = World::new(Size::Small, 1);
            assert!(world.kill_at(Death { point, entry }, Commits::Paced), "{point:?} {entry}");
            let n_expected = if point == DeathPoint::Before { entry - 1 } else { entry };
            assert_eq!(world.n_entries(), n_expected, "{point:?} {entry}");
            world.finish(&Default::default());
            world.assert_is(&undisturbed);
        }
    }
}
