//! Reproducible dice: FNV-1a over the inputs, mixed by SplitMix64.
//!
//! Both are written out here because recorded results depend on their output, such as what the demo prints: it may
//! never change with a version of the standard library or of a crate.

/// Dice that are thrown by a seed and texts; each throw is independent of the order of the others.
#[derive(Debug, Clone, Copy)]
pub struct Dice {
    state: u64,
}

impl Dice {
    /// Dice for this seed and these texts; the texts' borders count.
    pub fn new(seed: u64, texts: &[&str]) -> Self {
        // FNV-1a: http://www.isthe.com/chongo/tech/comp/fnv/.
        let mut state: u64 = 0xcbf2_9ce4_8422_2325;
        let mut eat = |byte: u8| state = (state ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        seed.to_le_bytes().into_iter().for_each(&mut eat);
        for text in texts {
            text.bytes().for_each(&mut eat);
            eat(0xff);
        }
        Self { state }
    }

    /// The throw that this label names.
    fn throw(self, label: &str) -> u64 {
        // SplitMix64: Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014.
        let mut mixed = Self::new(self.state, &[label]).state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// True with this probability; never at 0, always at 1.
    pub fn chance(self, label: &str, probability: f64) -> bool {
        const RESOLUTION: f64 = 1_000_000.0;
        let thrown = u32::try_from(self.throw(label) % 1_000_000).expect("it is below a million");
        f64::from(thrown) < probability * RESOLUTION
    }

    /// A number from 0 up to, but not including, 1.
    pub fn unit(self, label: &str) -> f64 {
        // The upper 32 bits are exact in an f64.
        let upper = u32::try_from(self.throw(label) >> 32).expect("they are 32 bits");
        f64::from(upper) / (f64::from(u32::MAX) + 1.0)
    }

    /// One of these, or nothing if there is none.
    pub fn pick<'a, T>(self, label: &str, choices: &'a [T]) -> Option<&'a T> {
        let index = self.throw(label).checked_rem(choices.len() as u64)?;
        choices.get(usize::try_from(index).expect("it is below the number of choices"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn throws_never_change() {
        let dice = Dice::new(7, &["a", "b"]);
        assert_eq!((dice.throw("x") % 1_000, dice.throw("y") % 1_000), THROWN);
    }

    /// Measured once; a change here changes what the demo prints and how simulated providers fail.
    const THROWN: (u64, u64) = (251, 845);

    #[test]
    fn the_borders_of_texts_count() {
        assert_ne!(Dice::new(7, &["ab", "c"]).state, Dice::new(7, &["a", "bc"]).state);
    }

    #[test]
    fn chances_are_about_right_and_exact_at_the_ends() {
        let hits =
            |p: f64| (0..1_000).filter(|n| Dice::new(1, &[&format!("q{n}")]).chance("slip", p)).count();
        assert_eq!(hits(0.0), 0);
        assert_eq!(hits(1.0), 1_000);
        assert!((200..300).contains(&hits(0.25)), "{}", hits(0.25));
    }

    #[test]
    fn units_lie_from_0_to_1() {
        let units: Vec<f64> = (0..1_000).map(|n| Dice::new(n, &[]).unit("x")).collect();
        assert!(units.iter().all(|unit| (0.0..1.0).contains(unit)));
        let mean = units.iter().sum::<f64>() / 1_000.0;
        assert!((0.47..0.53).contains(&mean), "{mean}");
    }

    #[test]
    fn nothing_is_picked_from_nothing() {
        assert_eq!(Dice::new(1, &[]).pick::<u8>("x", &[]), None);
        assert_eq!(Dice::new(1, &[]).pick("x", &[5]), Some(&5));
    }
}
