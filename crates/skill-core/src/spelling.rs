//! Suggestions for misspelled names.

/// Below this similarity (0 to 1) a name is not taken for a misspelling of another one.
const MIN_SIMILARITY: f64 = 0.55;

/// A shorter text is not taken for a part of a name.
const MIN_PART_CHARS: usize = 3;

/// The most similar candidate, or `None` if none is similar enough.
///
/// ```
/// use skill_core::spelling::nearest;
///
/// assert_eq!(nearest("bach_size", ["batch_size", "epochs"]), Some("batch_size"));
/// assert_eq!(nearest("colour", ["batch_size", "epochs"]), None);
/// ```
pub fn nearest<'a>(name: &str, words: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let name = folded(name);
    let mut best: Option<(f64, &'a str)> = None;
    for word in words {
        let candidate = folded(word);
        let similarity = similarity(&name, &candidate);
        if similarity >= MIN_SIMILARITY && best.is_none_or(|(score, _)| similarity > score) {
            best = Some((similarity, word));
        }
    }
    best.map(|(_, word)| word)
}

/// 0 to 1, and more for names that are the same but for case and underscores.
fn similarity(name: &str, candidate: &str) -> f64 {
    if name == candidate {
        return 2.0;
    }
    let similarity = strsim::normalized_damerau_levenshtein(name, candidate);
    if name.chars().count() >= MIN_PART_CHARS && candidate.contains(name) {
        return similarity.max(MIN_SIMILARITY + similarity / 4.0);
    }
    similarity
}

/// A name without what people get wrong first: case, hyphens and underscores.
pub fn folded(name: &str) -> String {
    name.chars().filter(|letter| !matches!(letter, '_' | '-' | ' ')).flat_map(char::to_lowercase).collect()
}
