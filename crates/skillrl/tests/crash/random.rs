//! Death at random moments of a longer run, from outside.

use crate::child::Said;
use crate::world::{Size, Start, World};

/// Kills for each number of workers.
const N_KILLS: usize = 15;

/// A child that is killed early has sent at most so many requests.
const FEW_REQUESTS: u64 = 4;

/// SplitMix64: seeds of ours, so that a failure can be had again.
struct Random(u64);

impl Random {
    /// A number from 0 to `limit - 1`.
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit
    }
}

/// When a child is killed.
#[derive(Debug)]
enum Moment {
    /// After so many requests, but only those of this child count, not what the journal answers.
    Requests(u64),
    /// After so many events, which an early number makes a moment of the resume.
    Events(u64),
}

fn moment(random: &mut Random, n_requests: u64) -> Moment {
    match random.below(4) {
        0 => Moment::Events(1 + random.below(3)),
        1 => Moment::Events(1 + random.below(40)),
        2 => Moment::Requests(1 + random.below(FEW_REQUESTS)),
        // On average the run is through after all kills.
        _ => Moment::Requests(1 + random.below(4 * n_requests / N_KILLS as u64)),
    }
}

fn check(n_workers: usize, seed: u64) {
    let undisturbed = World::undisturbed(Size::Long);
    let n_requests = undisturbed.requests.len() as u64;
    let mut random = Random(seed);
    let mut world = World::new(Size::Long, n_workers);
    let mut n_kills = 0;
    while n_kills < N_KILLS {
        let moment = moment(&mut random, n_requests);
        let (mut requests, mut events) = (0, 0);
        let is_killed = world.kill_when(&Start::default(), |said| match (said, &moment) {
            (Said::Request, Moment::Requests(limit)) => {
                requests += 1;
                requests >= *limit
            }
            (Said::Event(_), Moment::Events(limit)) => {
                events += 1;
                events >= *limit
            }
            _ => false,
        });
        if is_killed {
            n_kills += 1;
        } else {
            // The run came to its end before its last death: the next one starts again.
            world.assert_is(&undisturbed);
            world = World::new(Size::Long, n_workers);
        }
    }
    world.finish(&Start::default());
    world.assert_is(&undisturbed);
}

#[test]
fn a_long_run_with_one_worker_dies_at_random() {
    check(1, 1);
}

#[test]
fn a_long_run_with_64_workers_dies_at_random() {
    check(64, 2);
}
