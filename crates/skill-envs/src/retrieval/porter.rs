//! The stemmer of M. F. Porter, "An algorithm for suffix stripping", 1980, with the two departures that its author
//! made in his own implementations (`bli` for `abli`, and `logi`), as Lucene has it.
//!
//! A letter that is none of `a e i o u y` counts as a consonant, whatever its script.

/// The stem of a word in lower case; words of one or two letters stay as they are.
pub(super) fn stem(word: &str) -> String {
    let letters: Vec<char> = word.chars().collect();
    if letters.len() <= 2 {
        return word.to_owned();
    }
    let mut word = Word { letters };
    word.plurals_and_participles();
    word.y_after_a_vowel();
    word.double_suffixes();
    word.ic_full_ness();
    word.ant_ence();
    word.final_e_and_l();
    word.letters.into_iter().collect()
}

/// Suffixes that are replaced where what is before them has a measure above 0, by their last letter but one.
const DOUBLE_SUFFIXES: [(&str, &str); 21] = [
    ("ational", "ate"),
    ("tional", "tion"),
    ("enci", "ence"),
    ("anci", "ance"),
    ("izer", "ize"),
    ("bli", "ble"),
    ("alli", "al"),
    ("entli", "ent"),
    ("eli", "e"),
    ("ousli", "ous"),
    ("ization", "ize"),
    ("ation", "ate"),
    ("ator", "ate"),
    ("alism", "al"),
    ("iveness", "ive"),
    ("fulness", "ful"),
    ("ousness", "ous"),
    ("aliti", "al"),
    ("iviti", "ive"),
    ("biliti", "ble"),
    ("logi", "log"),
];

/// The same for the third step.
const THIRD_SUFFIXES: [(&str, &str); 7] = [
    ("icate", "ic"),
    ("ative", ""),
    ("alize", "al"),
    ("iciti", "ic"),
    ("ical", "ic"),
    ("ful", ""),
    ("ness", ""),
];

/// Suffixes that go where what is before them has a measure above 1; a longer one comes before its ending.
const FOURTH_SUFFIXES: [&str; 19] = [
    "al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent", "ion", "ou", "ism",
    "ate", "iti", "ous", "ive", "ize",
];

struct Word {
    letters: Vec<char>,
}

impl Word {
    fn letter(&self, place: usize) -> Option<char> {
        self.letters.get(place).copied()
    }

    fn is_consonant(&self, place: usize) -> bool {
        match self.letter(place) {
            Some('a' | 'e' | 'i' | 'o' | 'u') => false,
            Some('y') => place == 0 || !self.is_consonant(place - 1),
            _ => true,
        }
    }

    /// How many times a consonant follows a vowel in the first `length` letters.
    fn measure(&self, length: usize) -> usize {
        (1..length).filter(|place| self.is_consonant(*place) && !self.is_consonant(place - 1)).count()
    }

    fn has_vowel(&self, length: usize) -> bool {
        (0..length).any(|place| !self.is_consonant(place))
    }

    fn ends_in_double_consonant(&self, length: usize) -> bool {
        length >= 2 && self.letter(length - 1) == self.letter(length - 2) && self.is_consonant(length - 1)
    }

    /// Whether the first `length` letters end in consonant, vowel, consonant, and the last is none of `w x y`.
    fn ends_in_short_syllable(&self, length: usize) -> bool {
        length >= 3
            && self.is_consonant(length - 1)
            && !self.is_consonant(length - 2)
            && self.is_consonant(length - 3)
            && !matches!(self.letter(length - 1), Some('w' | 'x' | 'y'))
    }

    /// How many letters come before this suffix, if the word has it and something before it.
    fn before(&self, suffix: &str) -> Option<usize> {
        let length = self.letters.len().checked_sub(suffix.chars().count())?;
        let tail = self.letters.get(length..)?;
        tail.iter().copied().eq(suffix.chars()).then_some(length)
    }

    fn replace(&mut self, length: usize, ending: &str) {
        self.letters.truncate(length);
        self.letters.extend(ending.chars());
    }

    fn plurals_and_participles(&mut self) {
        if let Some(length) = self.before("sses").or_else(|| self.before("ies")) {
            let kept = if self.before("sses").is_some() { length + 2 } else { length + 1 };
            self.letters.truncate(kept);
        } else if self.before("s").is_some() && self.before("ss").is_none() {
            self.letters.pop();
        }
        if let Some(length) = self.before("eed") {
            if self.measure(length) > 0 {
                self.letters.pop();
            }
        } else if let Some(length) = self.before("ed").or_else(|| self.before("ing"))
            && self.has_vowel(length)
        {
            self.letters.truncate(length);
            self.mend_after_participle();
        }
    }

    fn mend_after_participle(&mut self) {
        let length = self.letters.len();
        if ["at", "bl", "iz"].iter().any(|ending| self.before(ending).is_some()) {
            self.letters.push('e');
        } else if self.ends_in_double_consonant(length) {
            if !matches!(self.letter(length - 1), Some('l' | 's' | 'z')) {
                self.letters.pop();
            }
        } else if self.measure(length) == 1 && self.ends_in_short_syllable(length) {
            self.letters.push('e');
        }
    }

    fn y_after_a_vowel(&mut self) {
        if let Some(length) = self.before("y")
            && self.has_vowel(length)
        {
            self.replace(length, "i");
        }
    }

    fn double_suffixes(&mut self) {
        self.replace_first(&DOUBLE_SUFFIXES);
    }

    fn ic_full_ness(&mut self) {
        self.replace_first(&THIRD_SUFFIXES);
    }

    /// Looks for the first suffix of a table that the word has, and replaces it if its rest has a measure.
    fn replace_first(&mut self, table: &[(&str, &str)]) {
        for (suffix, ending) in table {
            if let Some(length) = self.before(suffix) {
                if self.measure(length) > 0 {
                    self.replace(length, ending);
                }
                return;
            }
        }
    }

    fn ant_ence(&mut self) {
        for suffix in FOURTH_SUFFIXES {
            let Some(length) = self.before(suffix) else {
                continue;
            };
            // `ion` is a suffix behind `s` and `t` alone.
            if suffix == "ion" && !(length > 0 && matches!(self.letter(length - 1), Some('s' | 't'))) {
                continue;
            }
            if self.measure(length) > 1 {
                self.letters.truncate(length);
            }
            return;
        }
    }

    fn final_e_and_l(&mut self) {
        if let Some(length) = self.before("e") {
            let measure = self.measure(length);
            if measure > 1 || (measure == 1 && !self.ends_in_short_syllable(length)) {
                self.letters.truncate(length);
            }
        }
        let length = self.letters.len();
        if self.letter(length.saturating_sub(1)) == Some('l')
            && self.ends_in_double_consonant(length)
            && self.measure(length) > 1
        {
            self.letters.pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(words: &str, stems: &str) {
        let found: Vec<_> = words.split(' ').map(stem).collect();
        assert_eq!(found.join(" "), stems);
    }

    #[test]
    fn the_examples_of_the_paper() {
        check("caresses ponies ties caress cats", "caress poni ti caress cat");
        check("feed agreed plastered bled motoring sing", "feed agre plaster bled motor sing");
        check("conflated troubled sized hopping tanned falling", "conflat troubl size hop tan fall");
        check("hissing fizzed failing filing happy sky", "hiss fizz fail file happi sky");
        check("relational conditional rational valenci hesitanci", "relat condit ration valenc hesit");
        check("digitizer conformabli radicalli differentli vileli", "digit conform radic differ vile");
        check("analogousli vietnamization predication operator", "analog vietnam predic oper");
        check("feudalism decisiveness hopefulness callousness", "feudal decis hope callous");
        check("formaliti sensitiviti sensibiliti", "formal sensit sensibl");
        check("triplicate formative formalize electriciti electrical", "triplic form formal electr electr");
        check("hopeful goodness revival allowance inference airliner", "hope good reviv allow infer airlin");
        check("gyroscopic adjustable defensible irritant replacement", "gyroscop adjust defens irrit replac");
        check("adjustment dependent adoption homologou communism", "adjust depend adopt homolog commun");
        check("activate angulariti homologous effective bowdlerize", "activ angular homolog effect bowdler");
        check("probate rate cease controll roll", "probat rate ceas control roll");
        check("apology by is yes", "apolog by is ye");
    }
}
