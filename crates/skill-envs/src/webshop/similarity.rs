//! How much two short texts have in common: the token set ratio of fuzzy string matching.

use std::collections::BTreeSet;

/// Above this ratio two texts count as the same.
const SAME_ABOVE: u32 = 85;

/// Whether two texts count as the same.
pub(super) fn is_similar(a: &str, b: &str) -> bool {
    token_set_ratio(a, b) > SAME_ABOVE
}

/// The token set ratio in per cent, rounded half to even; 100 if the words of one are among those of the other.
pub fn token_set_ratio(a: &str, b: &str) -> u32 {
    let (a, b) = (processed(a), processed(b));
    let (a, b) = (words(&a), words(&b));
    if a.is_empty() || b.is_empty() {
        return 0;
    }
    let common: Vec<&str> = a.intersection(&b).copied().collect();
    let only_a = joined(a.difference(&b));
    let only_b = joined(b.difference(&a));
    if !common.is_empty() && (only_a.is_empty() || only_b.is_empty()) {
        return 100;
    }
    let n_common =
        common.iter().map(|word| word.chars().count()).sum::<usize>() + common.len().saturating_sub(1);
    let blank = usize::from(n_common > 0);
    let length_a = n_common + blank + only_a.len();
    let length_b = n_common + blank + only_b.len();
    let distance = only_a.len() + only_b.len() - 2 * longest_common_subsequence(&only_a, &only_b);
    let mut best = share(distance, length_a + length_b);
    if n_common > 0 {
        best = best.max(share(blank + only_a.len(), n_common + length_a));
        best = best.max(share(blank + only_b.len(), n_common + length_b));
    }
    // The ratio lies between 0 and 100.
    best.round_ties_even() as u32
}

/// What is left of 100 per cent after this distance.
fn share(distance: usize, length: usize) -> f64 {
    100.0 - 100.0 * distance as f64 / length as f64
}

/// Without the characters of Latin-1 beyond ASCII; everything that is not a letter and no digit is a blank.
fn processed(text: &str) -> String {
    let kept = text.chars().filter(|character| !matches!(character, '\u{80}'..='\u{ff}'));
    let blanked = kept.map(|character| if character.is_alphanumeric() { character } else { ' ' });
    blanked.collect::<String>().to_lowercase()
}

fn words(text: &str) -> BTreeSet<&str> {
    text.split_whitespace().collect()
}

fn joined<'a>(words: impl Iterator<Item = &'a &'a str>) -> Vec<char> {
    let words: Vec<&str> = words.copied().collect();
    words.join(" ").chars().collect()
}

fn longest_common_subsequence(a: &[char], b: &[char]) -> usize {
    let mut row = vec![0_usize; b.len() + 1];
    for left in a {
        // The value above and to the left of the one that is being found.
        let mut diagonal = 0;
        let mut before = 0;
        for (right, cell) in b.iter().zip(row.iter_mut().skip(1)) {
            let above = *cell;
            *cell = if left == right { diagonal + 1 } else { above.max(before) };
            (diagonal, before) = (above, *cell);
        }
    }
    row.last().copied().unwrap_or_default()
}
