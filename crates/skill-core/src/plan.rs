//! Plans: which items an epoch runs in which order, and how a batch falls into minibatches for the analysts.
//!
//! A plan is a list of indices. It is fixed by the seed alone, so that a resumed run makes the same one.

use crate::ids::EpochIdx;
use crate::random::PyRandom;

/// One micro-batch: the items that one rollout stage runs together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BatchPlan {
    /// The batch's own seed; minibatches are shuffled by it.
    pub seed: u64,
    /// Indices into the training split, in running order.
    pub item_idx: Vec<usize>,
}

/// All micro-batches of one epoch, grouped by step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EpochPlan {
    /// Which epoch it is.
    pub epoch: EpochIdx,
    /// How many micro-batches make a step.
    pub accumulation: usize,
    /// The micro-batches of [`plan_train_epoch`].
    pub batches: Vec<BatchPlan>,
}

impl EpochPlan {
    /// The plan of a training epoch that runs each of `n_items` items once, in as many steps as that takes.
    ///
    /// `seed` is the run's. An `accumulation` or a `batch_size` of 0 counts as 1.
    pub fn train(n_items: usize, epoch: EpochIdx, accumulation: usize, batch_size: usize, seed: u64) -> Self {
        let accumulation = accumulation.max(1);
        let steps = steps_per_epoch(n_items, batch_size, accumulation);
        let batches = plan_train_epoch(n_items, epoch, steps, accumulation, batch_size, seed);
        Self { epoch, accumulation, batches }
    }

    /// The micro-batches of each step, in order.
    pub fn steps(&self) -> impl ExactSizeIterator<Item = &[BatchPlan]> {
        self.batches.chunks(self.accumulation.max(1))
    }
}

/// How many steps an epoch has: `ceil(n_train / (batch_size * accumulation))`; a factor of 0 counts as 1.
pub fn steps_per_epoch(n_train: usize, batch_size: usize, accumulation: usize) -> usize {
    n_train.div_ceil(batch_size.max(1).saturating_mul(accumulation.max(1)))
}

/// The `steps * accumulation` micro-batches of a training epoch.
///
/// The items are shuffled by CPython's `Random(seed + 1000 * epoch)` and cut into consecutive slices of
/// `batch_size`; the last slice may be short. Micro-batch `k`, counted from 0 over the epoch, has the seed
/// `seed + 1000 * epoch + k + 1`. One for which no items are left (accumulation on little data) gets the first
/// `batch_size` items of another shuffle of the epoch's order, by its own seed. Seeds wrap at 64 bits; a `batch_size`
/// of 0 counts as 1; without items every micro-batch is empty.
pub fn plan_train_epoch(
    n_items: usize,
    epoch: EpochIdx,
    steps: usize,
    accumulation: usize,
    batch_size: usize,
    seed: u64,
) -> Vec<BatchPlan> {
    let batch_size = batch_size.max(1);
    let epoch_seed = seed.wrapping_add(u64::from(epoch.0).wrapping_mul(1000));
    let epoch_order = shuffled((0..n_items).collect(), epoch_seed);
    let mut slices = epoch_order.chunks(batch_size);
    (0..steps.saturating_mul(accumulation))
        .map(|batch_idx| {
            let seed = epoch_seed.wrapping_add(batch_idx as u64).wrapping_add(1);
            let item_idx = match slices.next() {
                Some(slice) => slice.to_vec(),
                None => {
                    let mut refill = shuffled(epoch_order.clone(), seed);
                    refill.truncate(batch_size);
                    refill
                }
            };
            BatchPlan { seed, item_idx }
        })
        .collect()
}

/// A batch of an epoch whose batches differ in size: `size` items from `offset` on in the order of
/// [`plan_train_epoch`], or what is left of the epoch where less than half a batch would be left behind it.
///
/// `batch_idx` counts the batches of the epoch from 0 and gives the seed; past the end of the epoch the batch is empty.
pub fn batch_at(
    n_items: usize,
    epoch: EpochIdx,
    offset: usize,
    size: usize,
    batch_idx: usize,
    seed: u64,
) -> BatchPlan {
    let epoch_seed = seed.wrapping_add(u64::from(epoch.0).wrapping_mul(1000));
    let order = shuffled((0..n_items).collect(), epoch_seed);
    let left = n_items.saturating_sub(offset);
    let size = size.max(1);
    let n_taken = if left < size.saturating_add(size.div_ceil(2)) { left } else { size };
    BatchPlan {
        seed: epoch_seed.wrapping_add(batch_idx as u64).wrapping_add(1),
        item_idx: order.into_iter().skip(offset).take(n_taken).collect(),
    }
}

/// A batch's trajectories, as the analysts get them: indices into the batch.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Minibatches {
    /// Groups of trajectories that failed.
    pub failures: Vec<Vec<usize>>,
    /// Groups of trajectories that succeeded.
    pub successes: Vec<Vec<usize>>,
}

/// Groups a batch's results into minibatches of at most `minibatch_size`, failures and successes apart.
///
/// Failures are shuffled by CPython's `Random(batch_seed)`, successes by `Random(batch_seed + 1)`; without a
/// seed they keep their order. A `minibatch_size` of 0 counts as 1.
pub fn plan_minibatches(is_success: &[bool], minibatch_size: usize, batch_seed: Option<u64>) -> Minibatches {
    let (successes, failures): (Vec<usize>, Vec<usize>) =
        (0..is_success.len()).partition(|item| *is_success.get(*item).expect("it is one of these"));
    let group = |items: Vec<usize>, seed: Option<u64>| -> Vec<Vec<usize>> {
        let items = match seed {
            Some(seed) => shuffled(items, seed),
            None => items,
        };
        items.chunks(minibatch_size.max(1)).map(<[usize]>::to_vec).collect()
    };
    Minibatches {
        failures: group(failures, batch_seed),
        successes: group(successes, batch_seed.map(|seed| seed.wrapping_add(1))),
    }
}

fn shuffled(mut items: Vec<usize>, seed: u64) -> Vec<usize> {
    PyRandom::new(seed).shuffle(&mut items);
    items
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rollout::RolloutResult;
    use proptest::prelude::*;

    #[track_caller]
    fn check_plan(
        (n, epoch, steps, accumulation, batch_size, seed): (usize, u32, usize, usize, usize, u64),
        expect: &[(u64, &[usize])],
    ) {
        let plan = plan_train_epoch(n, EpochIdx(epoch), steps, accumulation, batch_size, seed);
        let expect: Vec<BatchPlan> =
            expect.iter().map(|(seed, items)| BatchPlan { seed: *seed, item_idx: items.to_vec() }).collect();
        assert_eq!(plan, expect);
    }

    #[test]
    fn plans_are_those_of_the_reference() {
        check_plan((10, 2, 3, 1, 4, 42), &[(2043, &[1, 4, 6, 9]), (2044, &[8, 0, 7, 2]), (2045, &[3, 5])]);
        check_plan((10, 1, 1, 1, 40, 42), &[(1043, &[6, 4, 1, 9, 7, 8, 0, 5, 2, 3])]);
    }

    #[test]
    fn an_empty_micro_batch_is_refilled_from_the_epochs_order() {
        // The third one: random.Random(1045).shuffle([1, 2, 0])[:2] in CPython.
        check_plan((3, 1, 1, 3, 2, 42), &[(1043, &[1, 2]), (1044, &[0]), (1045, &[2, 1])]);
        check_plan((0, 1, 1, 2, 4, 42), &[(1043, &[]), (1044, &[])]);
        check_plan((3, 1, 0, 2, 4, 42), &[]);
    }

    #[test]
    fn steps_cover_the_training_split() {
        for (n_train, batch_size, accumulation, expect) in
            [(400, 40, 1, 10), (401, 40, 1, 11), (10, 40, 1, 1), (10, 2, 2, 3), (0, 4, 1, 0), (3, 0, 0, 3)]
        {
            assert_eq!(steps_per_epoch(n_train, batch_size, accumulation), expect, "{n_train} items");
        }
    }

    #[test]
    fn an_epoch_plan_groups_micro_batches_by_step() {
        let plan = EpochPlan::train(10, EpochIdx(1), 2, 3, 42);
        let sizes: Vec<Vec<usize>> =
            plan.steps().map(|step| step.iter().map(|batch| batch.item_idx.len()).collect()).collect();
        assert_eq!(sizes, [vec![3, 3], vec![3, 1]]);
    }

    #[test]
    fn batches_of_any_size_go_through_the_epoch_once_and_leave_no_small_rest() {
        let epoch = EpochIdx(3);
        let (mut offset, mut seen, mut sizes) = (0, Vec::new(), Vec::new());
        for batch_idx in 0.. {
            let batch = batch_at(40, epoch, offset, 12, batch_idx, 42);
            if batch.item_idx.is_empty() {
                break;
            }
            offset += batch.item_idx.len();
            sizes.push(batch.item_idx.len());
            seen.extend(batch.item_idx);
        }
        assert_eq!(sizes, [12, 12, 16]);
        let whole = plan_train_epoch(40, epoch, 1, 1, 40, 42);
        assert_eq!(
            (seen, batch_at(40, epoch, 0, 12, 0, 42).seed),
            (whole[0].item_idx.clone(), whole[0].seed)
        );
    }

    #[track_caller]
    fn check_minibatches(seed: Option<u64>, failures: &[&[usize]], successes: &[&[usize]]) {
        let hard = [0.0, 1.0, 0.0, 0.3, 0.0, 1.0, 0.0, 0.0, 1e-12, 1.0];
        let is_success = hard.map(|hard| RolloutResult::new("t".into(), hard, 0.0).is_success());
        let found = plan_minibatches(&is_success, 3, seed);
        assert_eq!(found.failures, failures, "seed {seed:?}");
        assert_eq!(found.successes, successes, "seed {seed:?}");
    }

    /// The reference has an item with a `hard` of 1e-12 (number 8) among the successes too; here it only failed,
    /// so that the successes are [1, 3, 5, 9].
    #[test]
    fn minibatches_are_those_of_the_reference_without_the_doubled_item() {
        check_minibatches(None, &[&[0, 2, 4], &[6, 7, 8]], &[&[1, 3, 5], &[9]]);
        check_minibatches(Some(1043), &[&[6, 0, 2], &[8, 4, 7]], &[&[1, 5, 9], &[3]]);
        check_minibatches(Some(43), &[&[8, 7, 6], &[2, 4, 0]], &[&[3, 1, 5], &[9]]);
    }

    #[test]
    fn minibatches_of_nothing_are_none() {
        assert_eq!(plan_minibatches(&[], 8, Some(1)), Minibatches::default());
        assert_eq!(plan_minibatches(&[true, true], 0, None).successes, [[0], [1]]);
        assert_eq!(plan_minibatches(&[true], 8, Some(u64::MAX)).successes, [[0]]);
    }

    proptest! {
        #[test]
        fn an_epoch_covers_each_item_exactly_once(
            n_items in 0_usize..400, batch_size in 1_usize..50, accumulation in 1_usize..5, epoch in 1_u32..9, seed: u64,
        ) {
            let plan = EpochPlan::train(n_items, EpochIdx(epoch), accumulation, batch_size, seed);
            prop_assert_eq!(plan.batches.len(), plan.steps().len() * accumulation);
            let mut covered: Vec<usize> =
                plan.batches.iter().take(n_items.div_ceil(batch_size)).flat_map(|batch| batch.item_idx.clone()).collect();
            covered.sort_unstable();
            prop_assert_eq!(covered, (0..n_items).collect::<Vec<_>>());
            for batch in &plan.batches {
                prop_assert!(n_items == 0 || (1..=batch_size).contains(&batch.item_idx.len()));
            }
        }

        #[test]
        fn minibatches_hold_each_result_exactly_once(
            is_success: Vec<bool>, minibatch_size in 1_usize..9, seed: Option<u64>,
        ) {
            let Minibatches { failures, successes } = plan_minibatches(&is_success, minibatch_size, seed);
            for group in failures.iter().chain(&successes) {
                prop_assert!((1..=minibatch_size).contains(&group.len()));
            }
            prop_assert!(failures.iter().flatten().all(|item| !is_success[*item]));
            prop_assert!(successes.iter().flatten().all(|item| is_success[*item]));
            let mut all: Vec<usize> = failures.into_iter().chain(successes).flatten().collect();
            all.sort_unstable();
            prop_assert_eq!(all, (0..is_success.len()).collect::<Vec<_>>());
        }
    }
}
