//! Whole words: how goals and phrases are split into them, and which phrase of a table a goal contains.

use super::{Prefer, WordRule};
use std::collections::{BTreeMap, BTreeSet};

/// The words of a text, in lower case.
pub(super) fn tokens(text: &str) -> Vec<String> {
    crate::words::words(text).collect()
}

/// A name of a type in the form in which names are compared: lower-case letters and digits.
pub(super) fn plain(name: &str) -> String {
    tokens(name).concat()
}

/// The words of a type's name without their endings, so that `writing` is in a goal that says `write`.
pub(super) fn forms_of_name(name: &str) -> BTreeSet<String> {
    // Shorter stems fit everything.
    const SHORTEST_STEM: usize = 3;
    let stem = |word: String| {
        let cut = ["ing", "ed", "es", "s", "e"].iter().find_map(|ending| word.strip_suffix(ending));
        let cut = cut.filter(|stem| stem.chars().count() >= SHORTEST_STEM).map(str::to_owned);
        cut.unwrap_or(word)
    };
    tokens(name).into_iter().map(stem).filter(|word| word.chars().count() >= SHORTEST_STEM).collect()
}

/// True if `token` is the word or its plural.
fn is_form(token: &str, word: &str) -> bool {
    match token.strip_prefix(word) {
        Some(rest) => matches!(rest, "" | "s" | "es"),
        None => match (token.strip_suffix("ies"), word.strip_suffix('y')) {
            (Some(token), Some(word)) => token == word,
            _ => false,
        },
    }
}

/// The words of which a token may be a form.
fn words_of(token: &str) -> impl Iterator<Item = std::borrow::Cow<'_, str>> {
    let cut = ["", "s", "es"].into_iter().filter_map(|ending| token.strip_suffix(ending)).map(Into::into);
    cut.chain(token.strip_suffix("ies").map(|stem| format!("{stem}y").into()))
}

/// Where a phrase begins in a goal.
fn position(goal: &[String], phrase: &[String]) -> Option<usize> {
    let fits = |window: &[String]| window.iter().zip(phrase).all(|(token, word)| is_form(token, word));
    goal.windows(phrase.len().max(1)).position(fits)
}

/// The word rules of a family, prepared for looking goals up.
#[derive(Debug, Clone)]
pub(super) struct Lexicon {
    types: Vec<String>,
    is_weak: Vec<bool>,
    /// Phrases of which each is enough, by their first word: the other words and the rule.
    any: BTreeMap<String, Vec<(Vec<String>, usize)>>,
    /// Phrases that are all required, with their rule.
    all: Vec<(Vec<Vec<String>>, usize)>,
    until: Vec<Vec<String>>,
    prefer: Prefer,
}

/// A rule that matches; a smaller one counts first.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Match {
    is_weak: bool,
    n_words: std::cmp::Reverse<usize>,
    preference: [usize; 2],
    rule: usize,
    word: String,
}

impl Lexicon {
    pub(super) fn new(rules: &[WordRule], until: &[String], prefer: Prefer) -> Self {
        let phrases = |texts: &[String]| -> Vec<Vec<String>> {
            texts.iter().map(|text| tokens(text)).filter(|words| !words.is_empty()).collect()
        };
        let mut any: BTreeMap<String, Vec<(Vec<String>, usize)>> = BTreeMap::new();
        let mut all = Vec::new();
        for (rule_idx, rule) in rules.iter().enumerate() {
            for mut words in rule.any.iter().map(|text| tokens(text)) {
                if !words.is_empty() {
                    let first = words.remove(0);
                    any.entry(first).or_default().push((words, rule_idx));
                }
            }
            let required = phrases(&rule.all);
            if !required.is_empty() {
                all.push((required, rule_idx));
            }
        }
        Self {
            types: rules.iter().map(|rule| rule.task_type.clone()).collect(),
            is_weak: rules.iter().map(|rule| rule.weak).collect(),
            any,
            all,
            until: phrases(until),
            prefer,
        }
    }

    /// The type of the best match of a goal among the wanted types, the words that matched, and whether these are weak.
    pub(super) fn find(
        &self,
        goal: &[String],
        is_wanted: impl Fn(&str) -> bool,
    ) -> Option<(&str, String, bool)> {
        let end = self.until.iter().filter_map(|phrase| position(goal, phrase)).min();
        let goal = goal.get(..end.unwrap_or(goal.len())).unwrap_or(goal);
        let found =
            self.matches(goal).filter(|found| self.type_of(found.rule).is_some_and(&is_wanted)).min()?;
        Some((self.type_of(found.rule)?, found.word, found.is_weak))
    }

    fn type_of(&self, rule: usize) -> Option<&str> {
        self.types.get(rule).map(String::as_str)
    }

    fn matches<'a>(&'a self, goal: &'a [String]) -> impl Iterator<Item = Match> + 'a {
        let any = goal.iter().enumerate().flat_map(move |(at, token)| {
            let following = goal.get(at + 1..).unwrap_or_default();
            words_of(token).flat_map(move |first| {
                let phrases = self.any.get(first.as_ref()).map(Vec::as_slice).unwrap_or_default();
                let fits = |rest: &[String]| {
                    rest.len() <= following.len()
                        && rest.iter().zip(following).all(|(word, token)| is_form(token, word))
                };
                let fitting = phrases.iter().filter(move |(rest, _)| fits(rest));
                let found = fitting.map(move |(rest, rule)| {
                    let word = std::iter::once(first.as_ref()).chain(rest.iter().map(String::as_str));
                    self.matched(*rule, rest.len() + 1, at, word.collect::<Vec<&str>>().join(" "))
                });
                found.collect::<Vec<Match>>()
            })
        });
        let all = self.all.iter().filter_map(move |(phrases, rule)| {
            let places: Option<Vec<usize>> = phrases.iter().map(|phrase| position(goal, phrase)).collect();
            let at = places?.into_iter().min()?;
            let words: Vec<String> = phrases.iter().map(|phrase| phrase.join(" ")).collect();
            Some(self.matched(*rule, phrases.iter().map(Vec::len).sum(), at, words.join(" + ")))
        });
        any.chain(all)
    }

    fn matched(&self, rule: usize, n_words: usize, at: usize, word: String) -> Match {
        let preference = match self.prefer {
            Prefer::FirstRule => [rule, at],
            Prefer::FirstWord => [at, rule],
        };
        let is_weak = self.is_weak.get(rule).copied().unwrap_or_default();
        Match { is_weak, n_words: std::cmp::Reverse(n_words), preference, rule, word }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_whole_and_may_be_plurals() {
        for (token, word, expect) in [
            ("lamp", "lamp", true),
            ("lamps", "lamp", true),
            ("dresses", "dress", true),
            ("batteries", "battery", true),
            ("clamp", "lamp", false),
            ("cleaning", "clean", false),
            ("heating", "heat", false),
            ("wheat", "heat", false),
            ("tie", "tie", true),
            ("ties", "ty", true),
        ] {
            assert_eq!(is_form(token, word), expect, "{token} {word}");
            assert_eq!(words_of(token).any(|found| found == word), expect, "{token} {word}");
        }
    }

    #[test]
    fn names_are_compared_without_case_and_signs() {
        assert_eq!(plain("pick_two_obj"), plain("Pick-Two Obj"));
        assert_eq!(tokens("  Women's T-shirt, 20''"), ["women", "s", "t", "shirt", "20"]);
        assert!(forms_of_name("writing").contains("writ") && forms_of_name("write").contains("writ"));
        assert!(forms_of_name("a").is_empty());
    }
}
