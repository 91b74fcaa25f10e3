//! Clauses of a skill: a line cut into statements, a statement cut where its polarity may change.

/// A part of a clause with one polarity.
#[derive(Debug)]
pub(super) struct Segment {
    words: Words,
    /// Whether it says what not to do.
    pub(super) negated: bool,
}

impl Segment {
    /// Whether one of these phrases is in it, word for word.
    pub(super) fn has(&self, phrases: &[&str]) -> bool {
        self.words.has(phrases)
    }

    /// Whether one of these is at the beginning of one of its words.
    pub(super) fn has_stem(&self, stems: &[&str]) -> bool {
        self.words.has_stem(stems)
    }

    /// Its words.
    pub(super) fn words(&self) -> &Words {
        &self.words
    }
}

/// A statement of a skill.
#[derive(Debug)]
pub(super) struct Clause {
    /// All its words.
    pub(super) words: Words,
    /// Its parts, in order.
    pub(super) segments: Vec<Segment>,
}

/// Words in lower case, without punctuation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Words(String);

impl Words {
    /// The words of a text; `24-hour` is two, `don't` is one.
    pub(super) fn of(text: &str) -> Self {
        let text = text.to_lowercase().replace('’', "'");
        let mut words = String::with_capacity(text.len() + 2);
        words.push(' ');
        for word in text.split(|c: char| !c.is_alphanumeric() && c != '\'') {
            let word = word.trim_matches('\'');
            if !word.is_empty() {
                words.push_str(word);
                words.push(' ');
            }
        }
        Self(words)
    }

    /// The words, one by one.
    pub(super) fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.split_whitespace()
    }

    /// The words, with a blank between them and at both ends.
    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether one of these phrases is in them, word for word.
    pub(super) fn has(&self, phrases: &[&str]) -> bool {
        let stands_alone = |phrase: &&str, at: usize| {
            let end = at + phrase.len();
            let before = at.checked_sub(1).and_then(|before| self.0.as_bytes().get(before));
            before == Some(&b' ') && self.0.as_bytes().get(end) == Some(&b' ')
        };
        phrases.iter().any(|phrase| self.0.match_indices(*phrase).any(|(at, _)| stands_alone(phrase, at)))
    }

    /// Whether one of these is at the beginning of a word.
    pub(super) fn has_stem(&self, stems: &[&str]) -> bool {
        let begins = |at: usize| at.checked_sub(1).and_then(|b| self.0.as_bytes().get(b)) == Some(&b' ');
        stems.iter().any(|stem| self.0.match_indices(*stem).any(|(at, _)| begins(at)))
    }

    /// Where the first of these words stands, counted in words.
    pub(super) fn position(&self, words: &[&str]) -> Option<usize> {
        self.iter().position(|word| words.contains(&word))
    }
}

/// Words and phrases that turn the sense of a part round.
pub(super) const NEGATIONS: &[&str] = &[
    "not",
    "never",
    "no",
    "don't",
    "avoid",
    "without",
    "nor",
    "cannot",
    "stop",
    "drop",
    "omit",
    "skip",
    "leave out",
    "strip",
    "refrain",
    "dispense",
    "neither",
];
/// Phrases with a negation in them that do not turn the sense round.
const NO_NEGATIONS: &[&str] =
    &["never forget", "not forget", "don't forget", "never fail", "no matter", "not only"];
/// What begins a part whose sense is turned round.
const TURNS: &[&str] = &[" instead of ", " rather than "];
const BORDERS: &[&str] = &[", ", " but ", " (", ") ", ": ", " - ", " – ", " — ", "—", " so that "];
const STATEMENT_ENDS: &[&str] = &[". ", "; ", "! ", "? "];
/// Abbreviations whose full stops end no statement.
const ABBREVIATIONS: &[(&str, &str)] =
    &[("a.m.", "am"), ("p.m.", "pm"), ("A.M.", "AM"), ("P.M.", "PM"), ("e.g.", "eg"), ("i.e.", "ie")];

impl Clause {
    fn new(text: &str) -> Self {
        const MARK: char = '\u{1}';
        let mut cut = text.replace("nothing but", "only").replace("Nothing but", "Only");
        for turn in TURNS {
            cut = cut.replace(turn, &format!("{MARK}not "));
        }
        for border in BORDERS {
            cut = cut.replace(border, &MARK.to_string());
        }
        let segments = cut.split(MARK).map(|part| {
            let words = Words::of(part);
            let negated = words.has(NEGATIONS) && !words.has(NO_NEGATIONS);
            Segment { words, negated }
        });
        Self { words: Words::of(&cut), segments: segments.collect() }
    }
}

/// What a line says is a mistake, where a skill bank shows it as one: `- **Don't**: leaves drawers closed`.
pub(super) fn mistake_of_line(line: &str) -> Option<&str> {
    line.trim().strip_prefix("- **Don't**:").map(str::trim)
}

/// Whether a line names no deed: a bank's headings, which hold names of task types, and the occasion of a skill.
fn is_label(line: &str) -> bool {
    let line = line.trim();
    let is_heading = line.starts_with("### ") && line.ends_with(" Skills");
    is_heading || line.starts_with("_Apply when: ")
}

/// The clauses of one line of Markdown.
pub(super) fn clauses(line: &str) -> Vec<Clause> {
    const MARK: char = '\u{2}';
    if is_label(line) {
        return Vec::new();
    }
    let mistake = mistake_of_line(line).map(|mistake| format!("Do not {mistake}"));
    let line = mistake.as_deref().unwrap_or(line);
    let mut text = line.trim().trim_start_matches(['#', '-', '*', '+', '>', ' ']).replace("**", "");
    for (abbreviation, plain) in ABBREVIATIONS {
        text = text.replace(abbreviation, plain);
    }
    for end in STATEMENT_ENDS {
        text = text.replace(end, &MARK.to_string());
    }
    text.split(MARK).filter(|part| !part.trim().is_empty()).map(Clause::new).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, expect: &str) {
        let shown: Vec<String> = clauses(line)
            .iter()
            .map(|clause| {
                let parts = clause.segments.iter().map(|segment| {
                    let words: Vec<&str> = segment.words.iter().collect();
                    format!("{}{}", if segment.negated { "!" } else { "" }, words.join(" "))
                });
                parts.collect::<Vec<_>>().join(" | ")
            })
            .collect();
        assert_eq!(shown.join(" || "), expect);
    }

    #[test]
    fn lines_become_clauses_and_segments() {
        check("- Write dates as YYYY-MM-DD.", "write dates as yyyy mm dd");
        check("**Times**: 24-hour, never a.m. or p.m. forms", "times | 24 hour | !never am or pm forms");
        check("Give kilograms instead of tonnes; be brief", "give kilograms | !not tonnes || be brief");
        check("Don’t explain. Just answer.", "!don't explain || just answer");
        check("Never forget the surname", "never forget the surname");
        check("- **Don't**: write dates in words", "!do not write dates in words");
        check("  **Instead**: write dates in digits", "instead | write dates in digits");
        check("  _Apply when: a date is wanted_", "");
        check("### Heat Then Place Skills", "");
        check("", "");
    }
}
