//! Which conventions a skill lays down, in whatever words it does so.
//!
//! Every line is read clause by clause; where two clauses contradict each other, the last one holds. The reading is
//! tolerant on purpose: rules come from optimizers, and no two of them phrase a rule alike.

use crate::clause::{Clause, Segment, Words, clauses};

/// A convention about answers that a skill can lay down or speak against.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Convention {
    /// The bare value, with no sentence around it.
    BareValue,
    /// Dates as `YYYY-MM-DD`.
    IsoDates,
    /// Times of day on the 24-hour clock.
    Clock24,
    /// Weights in kilograms.
    Kilograms,
    /// Lengths in metres.
    Metres,
    /// People as `Surname, Given`.
    SurnameFirst,
    /// `unknown` where the record is silent.
    Unknown,
    /// Codes in place of words, from a glossary in the skill.
    Codes,
    /// Berths as a letter and two digits.
    BerthCodes,
    /// Lists in alphabetical order, with semicolons.
    SortedLists,
}

impl Convention {
    /// The conventions about how a value is written.
    const OF_FORM: [Self; 8] = [
        Self::IsoDates,
        Self::Clock24,
        Self::Kilograms,
        Self::Metres,
        Self::SurnameFirst,
        Self::Codes,
        Self::BerthCodes,
        Self::SortedLists,
    ];
}

/// What a clause says about a convention.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stance {
    /// Keep to it.
    Wanted,
    /// Do the opposite.
    Unwanted,
    /// Keep to it where it does not belong: `unknown` at the least doubt.
    Overdone,
}

/// One thing that a skill says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Statement {
    /// About what.
    pub(super) convention: Convention,
    /// In which sense.
    pub(super) stance: Stance,
}

/// A skill as the simulated target understands it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct HouseRules {
    stances: Vec<Statement>,
    /// Words and the codes that stand for them, in lower case and as written.
    codes: Vec<(String, String)>,
}

impl HouseRules {
    /// Reads a skill.
    pub(super) fn read(skill: &str) -> Self {
        let mut rules = Self::default();
        for line in skill.lines() {
            let statements = statements(line);
            for statement in statements {
                rules.stances.retain(|earlier| earlier.convention != statement.convention);
                rules.stances.push(statement);
                if statement.convention == Convention::Codes && statement.stance == Stance::Unwanted {
                    rules.codes.clear();
                }
            }
            for (word, code) in glossary(line) {
                rules.codes.retain(|(earlier, _)| *earlier != word);
                rules.codes.push((word, code));
            }
        }
        rules
    }

    /// What the skill says last about this convention.
    pub(super) fn stance(&self, convention: Convention) -> Option<Stance> {
        self.stances.iter().find(|statement| statement.convention == convention).map(|found| found.stance)
    }

    /// Whether the skill lays this convention down.
    pub(super) fn wants(&self, convention: Convention) -> bool {
        self.stance(convention) == Some(Stance::Wanted)
    }

    /// The code that stands for this value.
    pub(super) fn code(&self, value: &str) -> Option<&str> {
        let value = value.trim().to_lowercase();
        self.codes.iter().find(|(word, _)| *word == value).map(|(_, code)| code.as_str())
    }
}

/// Says what a clause says about one convention.
type Reader = fn(&Clause) -> Option<Stance>;

/// Everything that one line says about conventions, in order.
pub(super) fn statements(line: &str) -> Vec<Statement> {
    let mut statements = Vec::new();
    for clause in clauses(line) {
        let before = statements.len();
        let readers: [(Convention, Reader); 9] = [
            (Convention::BareValue, bare_value),
            (Convention::IsoDates, iso_dates),
            (Convention::Clock24, clock_24),
            (Convention::Kilograms, kilograms),
            (Convention::Metres, metres),
            (Convention::SurnameFirst, surname_first),
            (Convention::Unknown, unknown),
            (Convention::BerthCodes, berth_codes),
            (Convention::SortedLists, sorted_lists),
        ];
        for (convention, read) in readers {
            statements.extend(read(&clause).map(|stance| Statement { convention, stance }));
        }
        if clause.words.has(&["status", "statuses", "code", "codes"])
            && against(&clause, &|s| {
                s.has(&["in full", "in words", "spell", "spelled", "plain words"]) || as_written(s)
            })
        {
            statements.push(Statement { convention: Convention::Codes, stance: Stance::Unwanted });
        }
        let about_something = statements
            .iter()
            .skip(before)
            .any(|statement| Convention::OF_FORM.contains(&statement.convention));
        if !about_something && clause.segments.iter().any(|s| !s.negated && as_written(s)) {
            let unwanted = |convention| Statement { convention, stance: Stance::Unwanted };
            statements.extend(Convention::OF_FORM.map(unwanted));
        }
    }
    if !glossary(line).is_empty() {
        statements.push(Statement { convention: Convention::Codes, stance: Stance::Wanted });
    }
    statements
}

fn as_written(segment: &Segment) -> bool {
    segment.has(&[
        "as written",
        "as it is written",
        "as they are written",
        "as recorded",
        "as it stands",
        "as they stand",
        "as in the record",
        "the way the record",
        "verbatim",
        "word for word",
        "unchanged",
        "as found",
    ])
}

fn against(clause: &Clause, contra: &dyn Fn(&Segment) -> bool) -> bool {
    clause.segments.iter().any(|segment| !segment.negated && contra(segment))
}

/// The stance of a clause: what speaks for the convention outweighs what speaks against it.
fn decide(
    clause: &Clause,
    pro: impl Fn(&Segment) -> bool,
    contra: impl Fn(&Segment) -> bool,
) -> Option<Stance> {
    let mut refused = false;
    for segment in clause.segments.iter().filter(|segment| pro(segment)) {
        if !segment.negated {
            return Some(Stance::Wanted);
        }
        refused = true;
    }
    (refused || against(clause, &contra)).then_some(Stance::Unwanted)
}

fn bare_value(clause: &Clause) -> Option<Stance> {
    let mut stance = None;
    for segment in &clause.segments {
        if segment.has(&["if", "when", "unless", "unknown", "where"]) {
            continue;
        }
        let wordy = segment.has_stem(&[
            "sentence",
            "explain",
            "explanation",
            "reasoning",
            "preamble",
            "commentary",
            "greeting",
            "pleasantr",
            "restat",
            "filler",
            "introduct",
            "justif",
        ]) || segment.has(&[
            "repeat the question",
            "step by step",
            "show your work",
            "extra words",
            "other words",
            "more words",
            "anything else",
            "anything more",
            "words around it",
            "words around the answer",
            "further words",
        ]);
        let about_answer = segment.has(&[
            "answer", "answers", "value", "values", "reply", "respond", "fact", "entry", "write", "give",
            "return",
        ]);
        let exclusive =
            segment.has(&["only", "just", "solely", "alone", "bare", "nothing but", "nothing else"])
                && segment.has(&["answer", "value", "values", "answers", "fact", "entry"])
                || about_answer
                    && segment.has(&[
                        "nothing else",
                        "nothing more",
                        "fewest words",
                        "few words as possible",
                    ])
                || segment.has(&["and nothing else", "nothing else", "nothing more"]);
        if wordy && segment.negated || exclusive && !segment.negated {
            stance = Some(Stance::Wanted);
        } else if wordy || exclusive {
            stance = Some(Stance::Unwanted);
        }
    }
    stance
}

fn iso_dates(clause: &Clause) -> Option<Stance> {
    let topic = clause.words.has(&["date", "dates", "day", "days"]);
    if clause.words.has(&["year month day", "year month and day"])
        && topic
        && clause.segments.iter().all(|s| !s.negated)
    {
        return Some(Stance::Wanted);
    }
    decide(
        clause,
        |s| {
            s.has(&["yyyy mm dd", "iso 8601"])
                || topic && (s.has(&["iso", "year first"]) || has_iso_sample(s.words()))
        },
        |s| {
            topic
                && (as_written(s)
                    || s.has(&[
                        "in words",
                        "long form",
                        "day first",
                        "month name",
                        "month names",
                        "spelled out",
                    ]))
        },
    )
}

fn has_iso_sample(words: &Words) -> bool {
    let digits = |word: Option<&str>, count| {
        word.is_some_and(|w| w.len() == count && w.bytes().all(|b| b.is_ascii_digit()))
    };
    let all: Vec<&str> = words.iter().collect();
    all.windows(3).any(|w| {
        digits(w.first().copied(), 4) && digits(w.get(1).copied(), 2) && digits(w.get(2).copied(), 2)
    })
}

fn clock_24(clause: &Clause) -> Option<Stance> {
    let topic = clause.words.has(&["time", "times", "clock", "hour", "hours", "o'clock"]);
    let halves = |s: &Segment| s.has(&["am", "pm", "12 hour", "twelve hour"]);
    let stance = decide(
        clause,
        |s| s.has(&["24 hour", "24 hours", "24h", "twenty four hour", "hh mm", "military time"]),
        |s| topic && (as_written(s) || halves(s)),
    );
    let refuses_halves = topic && clause.segments.iter().any(|s| s.negated && halves(s));
    stance.or(refuses_halves.then_some(Stance::Wanted))
}

fn kilograms(clause: &Clause) -> Option<Stance> {
    let topic = &["weight", "weights", "weigh", "weighs", "mass", "tonnage"];
    unit(
        clause,
        topic,
        &["kilogram", "kilograms", "kilos", "kg"],
        &["tonne", "tonnes", "tons", "ton", "pounds", "lb", "stone"],
    )
}

fn metres(clause: &Clause) -> Option<Stance> {
    let topic =
        &["length", "lengths", "depth", "depths", "draught", "draughts", "draft", "drafts", "measure"];
    unit(
        clause,
        topic,
        &["metre", "metres", "meter", "meters"],
        &["feet", "foot", "ft", "fathom", "fathoms", "yards"],
    )
}

/// A unit that is asked for stands after `in`, `to` or `into`; else the mention of the good one is enough.
fn unit(clause: &Clause, topic: &[&str], good: &[&str], bad: &[&str]) -> Option<Stance> {
    const BETWEEN: &[&str] = &["whole", "plain", "full", "metric", "the", "bare", "decimal"];
    let asked = |segment: &Segment| {
        let mut asked = None;
        let mut expecting = false;
        for word in segment.words().iter() {
            if expecting && (good.contains(&word) || bad.contains(&word)) {
                asked = Some(good.contains(&word));
            }
            expecting = ["in", "to", "into"].contains(&word) || expecting && BETWEEN.contains(&word);
        }
        asked
    };
    decide(
        clause,
        |s| asked(s).unwrap_or_else(|| s.has(good)),
        |s| asked(s) == Some(false) || clause.words.has(topic) && as_written(s),
    )
}

fn surname_first(clause: &Clause) -> Option<Stance> {
    const FAMILY: &[&str] = &["surname", "surnames", "family", "last"];
    const GIVEN: &[&str] = &["given", "forename", "forenames", "first", "christian"];
    let people = clause.words.has(&["name", "names", "people", "person", "persons", "surname", "surnames"]);
    let negated = clause.segments.iter().any(|s| s.negated && s.words().position(FAMILY).is_some());
    let turned = |wanted: bool| Some(if wanted == negated { Stance::Unwanted } else { Stance::Wanted });
    match (clause.words.position(FAMILY), clause.words.position(GIVEN)) {
        (Some(family), Some(given)) if people => turned(family < given),
        (Some(_), None) if people && clause.words.has_stem(&["before", "begin", "start", "lead"]) => {
            turned(true)
        }
        (None, Some(_)) if clause.words.has(&["given name first", "given names first"]) => {
            Some(Stance::Unwanted)
        }
        _ if people && against(clause, &as_written) => Some(Stance::Unwanted),
        _ => None,
    }
}

fn unknown(clause: &Clause) -> Option<Stance> {
    if against(clause, &|s| {
        s.has_stem(&["guess"]) && s.has(&["always", "best", "educated", "plausible", "rather"])
    }) {
        return Some(Stance::Unwanted);
    }
    let at = clause.words.position(&["unknown"])?;
    let before: Vec<&str> = clause.words.iter().take(at).collect();
    let forbids = before.iter().rev().take(4).any(|word| ["never", "don't", "avoid"].contains(word))
        || before.windows(2).any(|pair| pair == ["do", "not"])
        || before.first() == Some(&"not");
    let doubt = clause.words.has_stem(&["doubt", "unsure", "uncertain", "hesita", "slightest"])
        || clause.words.has(&[
            "not sure",
            "not certain",
            "not completely",
            "not entirely",
            "less than certain",
        ]);
    let absence = clause
        .words
        .has_stem(&["missing", "absent", "silent", "lack", "blank", "illegib", "nowhere", "empty", "unread"])
        || clause.words.has(&["not", "no", "nothing", "without", "doesn't", "isn't", "never", "fails"]);
    match (forbids, doubt, absence) {
        (true, _, _) => Some(Stance::Unwanted),
        (false, true, _) => Some(Stance::Overdone),
        (false, false, true) => Some(Stance::Wanted),
        (false, false, false) => None,
    }
}

fn berth_codes(clause: &Clause) -> Option<Stance> {
    if !clause.words.has(&["berth", "berths", "quay", "quays", "pier", "piers"]) {
        return None;
    }
    decide(
        clause,
        |s| {
            s.has(&["letter", "initial", "two digit", "two digits", "two figures"])
                || s.words().iter().any(is_berth_code)
        },
        |s| as_written(s) || s.has(&["in full", "spell", "spelled", "in words"]),
    )
}

fn is_berth_code(word: &str) -> bool {
    word.len() == 3
        && word.starts_with(|c: char| c.is_ascii_alphabetic())
        && word.bytes().skip(1).all(|b| b.is_ascii_digit())
}

fn sorted_lists(clause: &Clause) -> Option<Stance> {
    let topic = clause.words.has(&["list", "lists", "several", "items", "entries", "values"]);
    decide(
        clause,
        |s| s.has_stem(&["alphabetic"]) || s.has(&["a to z"]) || topic && s.has(&["sort", "sorted"]),
        |s| {
            topic
                && (as_written(s)
                    || s.has(&["same order", "order of the record", "order in which", "order given"]))
        },
    )
}

/// The words that a line gives codes for, such as `` `at anchor` is `AN` `` or `at anchor = AN`.
pub(super) fn glossary(line: &str) -> Vec<(String, String)> {
    let quoted: Vec<&str> = line.split(['`', '"', '“', '”']).skip(1).step_by(2).collect();
    let mut pairs: Vec<(String, String)> = quoted
        .windows(2)
        .filter_map(|pair| match pair {
            [word, code] if is_code(code) && !is_code(word) => {
                Some((word.trim().to_lowercase(), (*code).to_owned()))
            }
            _ => None,
        })
        .collect();
    if !pairs.is_empty() {
        return pairs;
    }
    for part in line.split([',', ';', '|']) {
        let found = ["->", "→", "=", ": ", " as ", " is "].iter().find_map(|sign| part.rsplit_once(sign));
        let Some((word, code)) = found else { continue };
        let word = word.rsplit(": ").next().unwrap_or(word).trim_matches(|c: char| !c.is_alphanumeric());
        let code = code.trim_matches(|c: char| !c.is_alphanumeric());
        if is_code(code) && !is_code(word) && (1..=4).contains(&word.split_whitespace().count()) {
            pairs.push((word.to_lowercase(), code.to_owned()));
        }
    }
    pairs
}

/// Whether this has the shape of a code: two to four capital letters.
pub(super) fn is_code(text: &str) -> bool {
    (2..=4).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_uppercase())
}
