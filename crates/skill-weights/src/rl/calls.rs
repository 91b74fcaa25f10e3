//! Numbers of the calls of an iteration.

/// Batches and passes below these have short numbers, which are those of earlier versions.
const SHORT_BATCHES: u64 = 1_000;
const SHORT_PASSES: u64 = 10_000;
/// Numbers of more batches or passes: a mark above all short ones, then kind, batch and pass. They are exact as numbers of
/// JSON.
const LONG: u64 = 1 << 52;
const KIND_BITS: u32 = 50;
const BATCH_BITS: u32 = 24;

/// What a call of a batch is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Call {
    Train,
    Reference,
    Optimize,
}

impl Call {
    /// The number of a call of this kind, batch and pass, each from 0: no two calls of an iteration share one.
    pub(super) fn number(self, batch: u64, pass: u64) -> u64 {
        let (kind, first, per_batch) = match self {
            Self::Train => (0, 0, SHORT_PASSES),
            Self::Reference => (1, 10_000_000, SHORT_PASSES),
            Self::Optimize => (2, 20_000_000, 1),
        };
        if batch < SHORT_BATCHES && pass < SHORT_PASSES {
            return first + batch * per_batch + pass;
        }
        LONG | kind << KIND_BITS | batch << BATCH_BITS | pass
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn no_two_calls_of_an_iteration_share_a_number() {
        let mut numbers = HashSet::new();
        // Those of the saved and the loaded state.
        numbers.extend([30_000_000, 30_000_001]);
        for batch in (0..3_000).chain([9_999, 10_000, 1_000_000]) {
            for pass in [0, 1, 9_999, 10_000, 10_001, 1_000_000] {
                for kind in [Call::Train, Call::Reference] {
                    assert!(numbers.insert(kind.number(batch, pass)), "{kind:?} {batch} {pass}");
                }
            }
            assert!(numbers.insert(Call::Optimize.number(batch, 0)), "{batch}");
        }
        assert!(numbers.iter().all(|number| *number < 1 << 53));
    }

    #[test]
    fn small_iterations_keep_their_numbers() {
        let numbers = [Call::Train.number(3, 2), Call::Reference.number(3, 2), Call::Optimize.number(3, 0)];
        assert_eq!(numbers, [30_002, 10_030_002, 20_000_003]);
    }
}
