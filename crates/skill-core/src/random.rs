//! Random numbers: CPython's, so that a shuffle here is the shuffle of the reference systems, and dice for choices that
//! do not depend on the order in which they are made.
//!
//! [`PyRandom`] is `random.Random(seed)` of CPython 3 for seeds that fit 64 bits; [`Dice`] hash a seed and texts.
//! Neither is a source of secrets or has global state: a seed is derived from a logical key (the run's seed, the
//! epoch, the batch), and each key has a generator of its own.
//!
//! # Invariants
//!
//! - Shuffles are those of CPython's `random.Random(seed)`. Held by `shuffles_are_those_of_cpython`.

mod dice;

pub use dice::Dice;

/// Words of state of MT19937.
const N_WORDS: usize = 624;
/// Distance between the words that the recurrence combines.
const MIDDLE: usize = 397;

/// CPython's `random.Random(seed)`: the Mersenne Twister MT19937, seeded by `init_by_array`.
///
/// The recurrence, the seeding and the tempering are those of M. Matsumoto and T. Nishimura, "Mersenne Twister:
/// A 623-dimensionally equidistributed uniform pseudorandom number generator", 1998, with their 2002 seeding.
#[derive(Debug, Clone)]
pub struct PyRandom {
    state: Box<[u32; N_WORDS]>,
    /// How many words of the state have been handed out; [`N_WORDS`] asks for the next generation.
    used: usize,
}

impl PyRandom {
    /// The generator for a seed: CPython cuts the integer into 32-bit words, lowest first.
    pub fn new(seed: u64) -> Self {
        let low = low_word(seed);
        let high = low_word(seed >> 32);
        let state = if high == 0 { seeded_state(&[low]) } else { seeded_state(&[low, high]) };
        Self { state: Box::new(state), used: N_WORDS }
    }

    /// A number in [0, 1) with 53 random bits.
    pub fn random(&mut self) -> f64 {
        let high = f64::from(self.next_word() >> 5);
        let low = f64::from(self.next_word() >> 6);
        (high * 67_108_864.0 + low) / 9_007_199_254_740_992.0
    }

    /// A number of `k` random bits; `k` counts as 64 where it is more, and 0 bits are 0.
    pub fn getrandbits(&mut self, k: u32) -> u64 {
        match k.min(64) {
            0 => 0,
            bits @ 1..=32 => u64::from(self.next_word() >> (32 - bits)),
            bits => {
                let low = u64::from(self.next_word());
                let high = u64::from(self.next_word() >> (64 - bits));
                (high << 32) | low
            }
        }
    }

    /// A number below `n`, drawn as CPython draws it: as many bits as `n` has, again until they fit.
    ///
    /// Below 0 there is nothing, so that `n = 0` gives 0 and draws nothing.
    pub fn randbelow(&mut self, n: u64) -> u64 {
        if n == 0 {
            return 0;
        }
        let bits = u64::BITS - n.leading_zeros();
        loop {
            let drawn = self.getrandbits(bits);
            if drawn < n {
                return drawn;
            }
        }
    }

    /// Puts the items in the order that CPython's `shuffle` gives a list of this length.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let partner = self.randbelow(last as u64 + 1);
            items.swap(last, usize::try_from(partner).expect("it is at most the last place"));
        }
    }

    fn next_word(&mut self) -> u32 {
        if self.used >= N_WORDS {
            next_generation(&mut self.state);
            self.used = 0;
        }
        let word = *self.state.get(self.used).expect("it is below the number of words");
        self.used += 1;
        tempered(word)
    }
}

/// The 32 lowest bits.
fn low_word(value: u64) -> u32 {
    u32::try_from(value & u64::from(u32::MAX)).expect("they are 32 bits")
}

/// `init_genrand`: the state that a single word seeds.
#[expect(
    clippy::indexing_slicing,
    reason = "every index is below the constant length that the loop runs over"
)]
fn plain_state(seed: u32) -> [u32; N_WORDS] {
    let mut state = [0_u32; N_WORDS];
    let mut previous = seed;
    state[0] = seed;
    for (place, counter) in (1..N_WORDS).zip(1_u32..) {
        previous = 1_812_433_253_u32.wrapping_mul(previous ^ (previous >> 30)).wrapping_add(counter);
        state[place] = previous;
    }
    state
}

/// `init_by_array`: the state that several words seed. There are at most [`N_WORDS`] of them.
#[expect(clippy::indexing_slicing, reason = "every index is below the constant length that it is wrapped at")]
fn seeded_state(key: &[u32]) -> [u32; N_WORDS] {
    let mut state = plain_state(19_650_218);
    let mut place = 1;
    for (word, counter) in key.iter().zip(0_u32..).cycle().take(N_WORDS) {
        let previous = state[place - 1];
        let mixed = state[place] ^ (previous ^ (previous >> 30)).wrapping_mul(1_664_525);
        state[place] = mixed.wrapping_add(*word).wrapping_add(counter);
        place += 1;
        if place == N_WORDS {
            state[0] = state[N_WORDS - 1];
            place = 1;
        }
    }
    for _ in 1..N_WORDS {
        let previous = state[place - 1];
        let mixed = state[place] ^ (previous ^ (previous >> 30)).wrapping_mul(1_566_083_941);
        state[place] = mixed.wrapping_sub(u32::try_from(place).expect("it is below the number of words"));
        place += 1;
        if place == N_WORDS {
            state[0] = state[N_WORDS - 1];
            place = 1;
        }
    }
    state[0] = 0x8000_0000;
    state
}

/// Replaces all words by the next ones of the recurrence.
#[expect(clippy::indexing_slicing, reason = "every index is taken modulo the constant length")]
fn next_generation(state: &mut [u32; N_WORDS]) {
    for place in 0..N_WORDS {
        let joined = (state[place] & 0x8000_0000) | (state[(place + 1) % N_WORDS] & 0x7fff_ffff);
        let twisted = if joined & 1 == 0 { joined >> 1 } else { (joined >> 1) ^ 0x9908_b0df };
        state[place] = state[(place + MIDDLE) % N_WORDS] ^ twisted;
    }
}

fn tempered(word: u32) -> u32 {
    let mut word = word;
    word ^= word >> 11;
    word ^= (word << 7) & 0x9d2c_5680;
    word ^= (word << 15) & 0xefc6_0000;
    word ^ (word >> 18)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check_shuffle(seed: u64, expect: &[usize]) {
        let mut items: Vec<usize> = (0..expect.len()).collect();
        PyRandom::new(seed).shuffle(&mut items);
        assert_eq!(items, expect, "seed {seed}");
    }

    #[test]
    fn shuffles_are_those_of_cpython() {
        check_shuffle(42, &[7, 3, 2, 8, 5, 6, 9, 4, 0, 1]);
        check_shuffle(1042, &[5, 0, 15, 3, 17, 9, 16, 8, 12, 2, 13, 6, 19, 18, 14, 10, 1, 11, 4, 7]);
        check_shuffle(1, &[0]);
        check_shuffle(2042, &[1, 4, 6, 11, 10, 0, 7, 2, 8, 3, 9, 5, 12]);
        check_shuffle(7, &[]);
    }

    #[track_caller]
    fn check_raw(seed: u64, floats: [f64; 3], bits: [u64; 3], below_ten: [u64; 5]) {
        let mut random = PyRandom::new(seed);
        assert_eq!([random.random(), random.random(), random.random()], floats, "seed {seed}");
        assert_eq!([0; 3].map(|_| random.getrandbits(32)), bits, "seed {seed}");
        assert_eq!([0; 5].map(|_| random.randbelow(10)), below_ten, "seed {seed}");
    }

    #[test]
    fn draws_are_those_of_cpython() {
        check_raw(
            42,
            [0.639_426_798_457_883_7, 0.025_010_755_222_666_936, 0.275_029_318_369_119_26],
            [958_682_846, 599_310_825, 3_163_119_785],
            [1, 8, 1, 9, 6],
        );
        check_raw(
            0,
            [0.844_421_851_525_048_1, 0.757_954_402_940_302_5, 0.420_571_580_830_845],
            [1_112_038_970, 4_146_640_122, 2_195_908_194],
            [7, 6, 4, 7, 5],
        );
        check_raw(
            1042,
            [0.249_510_758_714_099_1, 0.355_161_473_564_355_1, 0.935_116_598_983_996_3],
            [3_799_564_699, 1_286_508_089, 2_101_518_642],
            [6, 4, 2, 7, 7],
        );
    }

    #[track_caller]
    fn check_wide(seed: u64, bits: [u64; 4], below: u64) {
        let mut random = PyRandom::new(seed);
        assert_eq!([1, 33, 48, 64].map(|k| random.getrandbits(k)), bits, "seed {seed}");
        assert_eq!(random.randbelow(1_000_000_000_000_000), below, "seed {seed}");
    }

    #[test]
    fn seeds_of_two_words_and_wide_draws_are_those_of_cpython() {
        check_wide(4294967296, [0, 1508871100, 4694118884562, 11284269182920140557], 907079380870035);
        check_wide(1099511627793, [1, 3282848423, 194495264574323, 2053417188782071234], 921542978625216);
        check_wide(
            18446744073709551615,
            [0, 1068495656, 59664048225043, 11347071888800127570],
            417762452937670,
        );
    }

    #[test]
    fn widths_outside_the_range_are_harmless() {
        assert_eq!(PyRandom::new(3).getrandbits(0), 0);
        assert_eq!(PyRandom::new(3).getrandbits(99), PyRandom::new(3).getrandbits(64));
        assert_eq!(PyRandom::new(3).randbelow(0), 0);
        assert_eq!(PyRandom::new(3).randbelow(1), 0);
    }

    proptest! {
        #[test]
        fn a_shuffle_is_a_permutation(seed: u64, n in 0_usize..300) {
            let mut items: Vec<usize> = (0..n).collect();
            PyRandom::new(seed).shuffle(&mut items);
            items.sort_unstable();
            prop_assert_eq!(items, (0..n).collect::<Vec<_>>());
        }

        #[test]
        fn draws_stay_in_their_range(seed: u64, n in 1_u64.., k in 1_u32..=64) {
            let mut random = PyRandom::new(seed);
            prop_assert!((0.0..1.0).contains(&random.random()));
            prop_assert!(random.randbelow(n) < n);
            prop_assert_eq!(random.getrandbits(k).checked_shr(k).unwrap_or_default(), 0);
        }
    }
}
