//! The rules that repair a class of failure, each in several phrasings.

use crate::diagnosis::Finding;
use skill_core::random::Dice;

/// Rules for what still goes wrong where the skill already asks for the bare answer. Which of them a model heeds
/// differs from model to model, so none comes first.
pub(super) const WORDY_STILL: &[&str] = &[
    "Answer in one word, one name or one number wherever that is possible.",
    "Examples of the right form: `Question: What colour is a ripe strawberry? -> red` and \
     `Question: How many wheels does a tricycle have? -> 3`.",
    "The answer is a name, a number or a word or two: stop after it, without a full stop.",
    "Never begin with words of the question.",
];

/// Everything that can be said against this failure; one phrasing is enough.
pub(super) fn phrasings(finding: &Finding) -> Vec<String> {
    let fixed: &[&str] = match finding {
        Finding::Wordy => &[
            "Reply with the answer only, no sentence around it.",
            "Give the bare value and nothing else.",
            "Write just the answer: no preamble, no explanation, no full sentence.",
        ],
        Finding::DateForm => &[
            "Write dates as YYYY-MM-DD.",
            "Give every date in ISO form: year first, then month and day with two digits each (YYYY-MM-DD).",
        ],
        Finding::ClockForm => &[
            "Give times on the 24-hour clock, as HH:MM.",
            "Convert times of day to 24-hour form (HH:MM), never a.m. or p.m.",
        ],
        Finding::WrongUnit(unit) => {
            return vec![
                format!(
                    "Give every {} in {}.",
                    measure(unit.symbol()),
                    written(unit.symbol(), unit.plural())
                ),
                format!(
                    "Convert each {} to {}.",
                    measure(unit.symbol()),
                    written(unit.symbol(), unit.plural())
                ),
            ];
        }
        Finding::NameOrder => &[
            "Write people as `Surname, Given`.",
            "Names of persons begin with the surname, then a comma and the given name.",
        ],
        Finding::MadeUp(word) => {
            return vec![
                format!("If the record does not say, answer `{word}`."),
                format!(
                    "Where the asked entry is missing or illegible, answer `{word}` and make nothing up."
                ),
            ];
        }
        Finding::OverAbstained => &[
            "Answer whenever the record has an answer: `unknown` is for entries that are missing.",
            "Say `unknown` for missing entries alone.",
        ],
        Finding::Word { word, code, field } => return glossary_rules(field, &[(word.clone(), code.clone())]),
        Finding::PlaceInWords(example) => {
            return vec![
                format!(
                    "Write a berth as its quay's initial letter and a number of two digits, such as `{example}`."
                ),
                format!("Shorten berths to the initial of the quay and two digits (`{example}`)."),
            ];
        }
        Finding::ListForm => &[
            "Put the entries of a list in alphabetical order, separated by semicolons.",
            "Sort lists alphabetically and join the entries with `; `.",
        ],
        Finding::Casing => &["Keep capital and small letters exactly as is usual for the term."],
        Finding::Punctuation => &["End the answer without a full stop or other punctuation."],
    };
    fixed.iter().map(|rule| (*rule).to_owned()).collect()
}

/// One phrasing.
pub(super) fn phrase(finding: &Finding, dice: Dice) -> String {
    dice.pick(finding.name(), &phrasings(finding)).cloned().unwrap_or_default()
}

/// A rule that gives codes for words of a field.
pub(super) fn glossary_rules(field: &str, pairs: &[(String, String)]) -> Vec<String> {
    let list = |sign: &str| {
        let entries: Vec<String> =
            pairs.iter().map(|(word, code)| format!("`{word}` {sign} `{code}`")).collect();
        entries.join(", ")
    };
    vec![
        format!("Give the {field} by its house code: {}.", list("is")),
        format!("House codes for the {field}: {}.", list("->")),
    ]
}

fn measure(symbol: &str) -> &'static str {
    match symbol {
        "kg" | "t" | "lb" | "g" => "weight",
        "m" | "ft" | "fm" | "km" | "mi" => "length or depth",
        _ => "duration",
    }
}

fn written(symbol: &str, plural: &str) -> String {
    match symbol {
        "kg" => format!("whole {plural}, such as `850 kg`"),
        "m" => format!("{plural} with one decimal, such as `3.5 m`"),
        _ => format!("{plural} ({symbol})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conventions::{HouseRules, Stance, statements};
    use crate::values::UNITS;

    fn findings() -> Vec<Finding> {
        let word = |word: &str, code: &str, field: &str| Finding::Word {
            word: word.to_owned(),
            code: code.to_owned(),
            field: field.to_owned(),
        };
        let mut findings = vec![
            Finding::Wordy,
            Finding::DateForm,
            Finding::ClockForm,
            Finding::NameOrder,
            Finding::MadeUp("unknown".to_owned()),
            Finding::OverAbstained,
            word("under repair", "UR", "state"),
            Finding::PlaceInWords("W03".to_owned()),
            Finding::ListForm,
        ];
        findings
            .extend(UNITS.iter().map(Finding::WrongUnit).filter(|finding| finding.convention().is_some()));
        findings
    }

    /// The target understands every phrasing of every rule, and as nothing else.
    #[test]
    fn every_phrasing_is_recognised() {
        for finding in findings() {
            for rule in phrasings(&finding) {
                let read = statements(&format!("- {rule}"));
                assert!(!read.is_empty(), "{rule}");
                for statement in read {
                    assert_eq!(Some(statement.convention), finding.convention(), "{rule}");
                    assert_eq!(statement.stance, Stance::Wanted, "{rule}");
                }
            }
        }
    }

    #[test]
    fn all_rules_together_do_not_contradict_each_other() {
        for turn in 0..3 {
            let rules: Vec<String> =
                findings().iter().filter_map(|f| phrasings(f).into_iter().cycle().nth(turn)).collect();
            let read = HouseRules::read(&rules.join("\n"));
            for finding in findings() {
                assert!(finding.convention().is_some_and(|c| read.wants(c)), "{finding:?} in {rules:#?}");
            }
            assert_eq!(read.code("Under repair"), Some("UR"));
        }
    }
}
