//! Trials of skills in simulated worlds: how often a useless one is admitted, and a useful one found.
//!
//! 16 tasks with 8 rollouts each per policy step, whose logits are normal around 0.4 with a standard deviation of 2.
//! A candidate shifts all of them. The policy may drift: it improves by so many logits over the trial.

use skill_core::PyRandom;
use skill_core::stats::stratified::{
    GroupShape, OddsEProcess, Stratified, TaskPrior, TaskStratum, TrialPower, TrialRule, has_reached,
    is_at_most,
};

const N_TASKS: usize = 16;
/// Rollouts of a task in one step.
const ROLLOUTS: usize = 8;
const ALPHA: f64 = 0.05;
const THRESHOLD: f64 = 20.0;

#[derive(Debug, Clone, Copy)]
pub(crate) struct World {
    /// What the candidate adds to every logit.
    pub(crate) shift: f64,
    /// What the policy gains over the trial, in logits.
    pub(crate) drift: f64,
    pub(crate) n_steps: usize,
}

impl Default for World {
    fn default() -> Self {
        Self { shift: 0.0, drift: 0.0, n_steps: 5 }
    }
}

impl World {
    /// The logits of the tasks without the candidate, at the start.
    fn logits(&self, random: &mut PyRandom) -> Vec<f64> {
        (0..N_TASKS).map(|_| 0.4 + 2.0 * normal(random)).collect()
    }

    /// The true mean difference on the tasks of the first so many groups, without drift.
    pub(crate) fn difference(&self, seed: u64, n_groups: usize) -> f64 {
        let logits = self.logits(&mut PyRandom::new(seed));
        let of = |logit: &f64| logistic(logit + self.shift) - logistic(*logit);
        logits.iter().cycle().take(n_groups).map(of).sum::<f64>() / n_groups as f64
    }

    /// The groups of one trial, step by step.
    pub(crate) fn trial(&self, seed: u64) -> impl Iterator<Item = TaskStratum> {
        let world = *self;
        let mut random = PyRandom::new(seed);
        let logits = self.logits(&mut random);
        (0..world.n_steps).flat_map(move |step| {
            let gained = world.drift * step as f64 / (world.n_steps.max(2) - 1) as f64;
            let groups: Vec<TaskStratum> =
                logits.iter().map(|logit| world.group(logit + gained, &mut random)).collect();
            groups
        })
    }

    /// The rollouts of one task: chance says which half sees the candidate.
    fn group(&self, logit: f64, random: &mut PyRandom) -> TaskStratum {
        let mut halves = [true, true, true, true, false, false, false, false];
        random.shuffle(&mut halves);
        let mut group = TaskStratum::default();
        for is_new in halves {
            let logit = logit + if is_new { self.shift } else { 0.0 };
            let is_success = random.random() < logistic(logit);
            if is_new { group.new.add(is_success) } else { group.old.add(is_success) }
        }
        group
    }
}

fn logistic(logit: f64) -> f64 {
    1.0 / (1.0 + (-logit).exp())
}

/// A number of the standard normal distribution, by Box and Muller.
fn normal(random: &mut PyRandom) -> f64 {
    let radius = (-2.0 * (1.0 - random.random()).ln()).sqrt();
    radius * (2.0 * std::f64::consts::PI * random.random()).cos()
}

/// The shares of trials that admit their candidate.
#[derive(Debug, Default)]
struct Admitted {
    /// By the exact test at the end.
    fixed_end: f64,
    /// By the e-value after any step, and after any group.
    any_time: f64,
    any_group: f64,
    /// By the e-value at the end.
    e_at_end: f64,
    /// By a higher mean at the end.
    mean: f64,
}

fn admitted(world: World, seeds: u64) -> Admitted {
    let mut found = Admitted::default();
    let share = 1.0 / seeds as f64;
    for seed in 0..seeds {
        let (mut groups, mut process) = (Stratified::default(), OddsEProcess::default());
        let (mut was_reached, mut highest) = (false, f64::NEG_INFINITY);
        for (group, n_seen) in world.trial(seed).zip(1..) {
            groups.push(group);
            process.push(group);
            highest = highest.max(process.ln_better());
            was_reached |= n_seen % N_TASKS == 0 && has_reached(process.ln_better(), THRESHOLD);
        }
        let add = |rate: &mut f64, is_admitted: bool| *rate += if is_admitted { share } else { 0.0 };
        add(&mut found.fixed_end, is_at_most(groups.p_better(), ALPHA));
        add(&mut found.any_time, was_reached);
        add(&mut found.any_group, has_reached(highest, THRESHOLD));
        add(&mut found.e_at_end, has_reached(process.ln_better(), THRESHOLD));
        add(&mut found.mean, groups.difference() > 0.0);
    }
    found
}

/// 1,000 by `cargo xtask check trials`.
#[expect(clippy::disallowed_methods, reason = "a variable says how many seeds a person wants")]
fn seeds() -> u64 {
    std::env::var("SKILLRL_TRIAL_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(300)
}

#[expect(clippy::print_stdout, reason = "the table of docs/results.md is made of these lines")]
fn report(what: &str, rollouts: usize, found: &Admitted) {
    let Admitted { fixed_end, any_time, any_group, e_at_end, mean } = found;
    println!(
        "{what:>16} {rollouts:>5} rollouts: fixed end {fixed_end:.3}, any step {any_time:.3}, any group \
         {any_group:.3}, e at the end {e_at_end:.3}, higher mean {mean:.3}"
    );
}

/// Standard errors that a share may be off by chance, on top of what 1,000 seeds are held to.
fn slack(share: f64, seeds: u64) -> f64 {
    if seeds >= 1_000 { 0.0 } else { 2.0 * (share * (1.0 - share) / seeds as f64).sqrt() }
}

#[test]
fn useless_candidates_are_seldom_admitted() {
    let seeds = seeds();
    for n_steps in [1, 5, 10] {
        for drift in [0.0, 2.0] {
            let world = World { drift, n_steps, ..World::default() };
            let found = admitted(world, seeds);
            let what = if drift > 0.0 { "useless, drift" } else { "useless" };
            report(what, n_steps * N_TASKS * ROLLOUTS, &found);
            assert!(found.fixed_end <= 0.064 + slack(0.05, seeds), "{world:?}: {found:?}");
            assert!(found.any_time <= 0.03 + slack(0.02, seeds), "{world:?}: {found:?}");
            assert!(found.any_group <= 1.0 / THRESHOLD + slack(0.05, seeds), "{world:?}: {found:?}");
            // The rule of others: as good as a coin.
            assert!(n_steps == 1 || found.mean > 0.35, "{world:?}: {found:?}");
        }
    }
}

#[test]
fn a_gain_of_20_points_is_found_within_640_rollouts() {
    let seeds = seeds();
    let shift = TaskPrior::default().shift_for(0.20).unwrap();
    for drift in [0.0, 2.0] {
        let found = admitted(World { shift, drift, n_steps: 5 }, seeds);
        report(if drift > 0.0 { "+20, drift" } else { "+20" }, 640, &found);
        assert!(found.fixed_end >= 0.95 && found.any_time >= 0.95, "drift {drift}: {found:?}");
    }
}

#[test]
fn what_smaller_effects_take_is_as_the_page_says() {
    let seeds = seeds();
    for points in [-0.10, 0.05, 0.10, 0.20] {
        let shift = TaskPrior::default().shift_for(points).unwrap();
        for n_steps in [1, 5, 10] {
            let found = admitted(World { shift, drift: 0.0, n_steps }, seeds);
            report(&format!("{:+.0} points", 100.0 * points), n_steps * N_TASKS * ROLLOUTS, &found);
            if points < 0.0 {
                assert!(found.fixed_end <= 0.01 && found.any_time <= 0.01, "{points}: {found:?}");
            }
        }
    }
}

/// The table of docs/trials.md: rollouts for a chance of 0.8 to see +5, +10 and +20 points.
#[test]
fn the_rollouts_that_effects_take_are_as_the_page_says() {
    let all = TaskPrior::default();
    let end = TrialRule::FixedEnd { alpha: ALPHA };
    let any = TrialRule::AnyTime { threshold: THRESHOLD, groups_per_look: 16 };
    for (rollouts, rule, expect) in [
        (8, end, [1552, 408, 120]),
        (8, any, [3328, 768, 256]),
        (4, end, [1548, 408, 112]),
        (4, any, [3200, 640, 192]),
        (2, end, [1550, 408, 114]),
        (2, any, [3008, 672, 160]),
    ] {
        let power = TrialPower {
            prior: all,
            shape: GroupShape::halves(rollouts),
            rule,
            max_informative_groups: None,
            seed: 1,
        };
        let found = [0.05, 0.10, 0.20].map(|points| power.rollouts_needed(points, 0.8).unwrap());
        println!("groups of {rollouts}, {rule:?}: {found:?}");
        // A look is after 16 groups, and a mathematical library may differ in the last digit.
        let is_near = |(found, expect): (u32, u32)| found.abs_diff(expect) <= 16 * rollouts;
        assert!(found.into_iter().zip(expect).all(is_near), "{rollouts} {rule:?}: {found:?}");
    }
    // The same skill on tasks whose success rates are near 1/2.
    let near_half = TaskPrior { mean: 0.0, deviation: 1.0 };
    for (rule, expect) in [(end, [1112, 296, 80]), (any, [2304, 640, 128])] {
        let power = TrialPower {
            prior: near_half,
            shape: GroupShape::halves(8),
            rule,
            max_informative_groups: None,
            seed: 1,
        };
        let found = [0.05, 0.10, 0.20].map(|points| {
            let shift = all.shift_for(points).unwrap();
            let gained = near_half.success_rate(shift) - near_half.success_rate(0.0);
            (100.0 * gained, power.rollouts_needed(gained, 0.8).unwrap())
        });
        println!("near 1/2, {rule:?}: {found:?}");
        let is_near = |((_, found), expect): ((f64, u32), u32)| found.abs_diff(expect) <= 128;
        assert!(found.into_iter().zip(expect).all(is_near), "{rule:?}: {found:?}");
    }
}
