//! What a run came to: one function decides it and words it, for the terminal, pages, Python and notebooks.
//!
//! [`Verdict::of_arms`] decides by numbers alone; whoever reads files brings them. A skill that is better than the one
//! that the run began with and worse than none has failed.

mod arm;
mod caution;

pub use arm::{MissingArm, TestArm, arm_title};
pub use caution::{Caution, CautionKind};

use crate::words::{counted, percent, points, sentence};
use serde::Serialize;
use std::fmt::Write as _;

skill_core::named_enum! {
    /// What a run came to, in a few words.
    pub enum Outcome {
        /// What was trained is better on the test split than what the run began with, by more than chance.
        Better = "better",
        /// It is worse there, by more than chance.
        Worse = "worse",
        /// It is worse there than no skill at all, by more than chance.
        WorseThanNone = "worse than no skill",
        /// The test split does not tell.
        Unclear = "cannot tell",
        /// No candidate took the place of what the run began with.
        Unchanged = "no better skill",
        /// The test split was not read.
        Untested = "not tested",
        /// The run has not come to its end.
        Unfinished = "not finished",
        /// Weights were trained, and nothing measures what they are worth.
        Trained = "trained",
        /// Training changed no weight.
        NothingLearned = "nothing learned",
    }
}

impl Outcome {
    /// The class of its colour in pages: `good`, `bad`, `warm` or nothing.
    pub fn tone(self) -> &'static str {
        match self {
            Self::Better => "good",
            Self::Worse | Self::WorseThanNone | Self::NothingLearned => "bad",
            Self::Unclear | Self::Untested => "warm",
            Self::Unchanged | Self::Unfinished | Self::Trained => "",
        }
    }
}

/// A run in one line, with what to know before the numbers are trusted.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Verdict {
    /// The decision.
    pub outcome: Outcome,
    /// Its numbers with items and interval; no full stop.
    pub words: String,
    /// How much more what was trained scores than what it is compared with, in [-1, 1]; `None` where nothing decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub difference: Option<f64>,
    /// The 95 % interval of the difference, by which the outcome was decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval: Option<[f64; 2]>,
    /// The skills that were measured on the test split, in the order none, initial, one-shot, trained; of a run that trains
    /// a document.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub arms: Vec<TestArm>,
    /// Those of them that were left out.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub missing_arms: Vec<MissingArm>,
    /// What a reader should know before trusting the numbers, the weightiest first.
    pub cautions: Vec<Caution>,
}

/// A measured score beside the one of the trained skill, on the same items.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Versus {
    /// The score, in [0, 1].
    pub score: f64,
    /// The trained skill's score less this one, in [-1, 1].
    pub difference: f64,
    /// The 95 % interval of the difference; `None` where only the scores are known.
    pub interval: Option<[f64; 2]>,
}

impl Versus {
    pub(crate) fn is_below_0(&self) -> bool {
        self.interval.is_some_and(|[_, high]| high < 0.0)
    }

    fn is_above_0(&self) -> bool {
        self.interval.is_some_and(|[low, _]| low > 0.0)
    }

    /// `+5.0 points, 95 % interval -3.2 to +12.7`.
    fn in_words(&self) -> String {
        let mut words = points(self.difference);
        if let Some([low, high]) = self.interval {
            let _ = write!(words, ", 95 % interval {:+.1} to {:+.1}", low * 100.0, high * 100.0);
        }
        words
    }
}

/// What a verdict on skills follows from.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Arms<'a> {
    /// The split: `test`, or `validation` where that is all there is.
    pub split: &'a str,
    /// Its items.
    pub n_items: usize,
    /// The score of what was trained.
    pub trained: f64,
    /// What the run began with.
    pub first: Versus,
    /// No skill at all, where that was measured.
    pub none: Option<Versus>,
    /// What `first` is called where it is no skill of the run, such as `without the bank`; else empty.
    pub first_name: &'a str,
    /// The metric of the scores, such as `soft`; empty for the usual one.
    pub metric: &'a str,
}

impl Verdict {
    /// A verdict without cautions.
    pub fn new(outcome: Outcome, words: impl Into<String>) -> Self {
        Self {
            outcome,
            words: words.into(),
            difference: None,
            interval: None,
            arms: Vec::new(),
            missing_arms: Vec::new(),
            cautions: Vec::new(),
        }
    }

    /// With the difference that decided it.
    pub(crate) fn decided_by(self, difference: f64, interval: Option<[f64; 2]>) -> Self {
        Self { difference: Some(difference), interval, ..self }
    }

    /// The verdict on a trained skill that takes the place of another one.
    pub fn of_arms(arms: &Arms<'_>) -> Self {
        // No skill at all is left out where its numbers are those of the initial skill, as they are if that is empty.
        let measured_none = arms.none.filter(|none| *none != arms.first);
        let (first, none) = (arms.first, measured_none.unwrap_or(arms.first));
        let items = counted(arms.n_items as u64, &format!("{} item", arms.split));
        let by =
            if arms.metric.is_empty() { String::new() } else { format!(" by the {} metric", arms.metric) };
        if none.is_below_0() && measured_none.is_some() {
            let words = format!(
                "{} with the trained skill and {} with no skill at all on {items}{by} ({}); the initial skill has {}",
                percent(arms.trained),
                percent(none.score),
                none.in_words(),
                percent(first.score)
            );
            return Self::new(Outcome::WorseThanNone, words).decided_by(none.difference, none.interval);
        }
        let outcome = match first {
            _ if first.is_below_0() => Outcome::Worse,
            // An improvement that no skill at all beats is none.
            _ if first.is_above_0() && none.difference >= 0.0 => Outcome::Better,
            _ => Outcome::Unclear,
        };
        let mut words = format!(
            "{} instead of {}{}{} on {items}{by} ({})",
            percent(arms.trained),
            percent(first.score),
            if arms.first_name.is_empty() { "" } else { " " },
            arms.first_name,
            first.in_words()
        );
        if measured_none.is_some() {
            let _ = write!(words, "; no skill at all has {} ({})", percent(none.score), none.in_words());
        }
        Self::new(outcome, words).decided_by(first.difference, first.interval)
    }

    /// With these cautions, the weightiest first.
    pub(crate) fn with_cautions(mut self, cautions: impl IntoIterator<Item = Caution>) -> Self {
        self.cautions.extend(cautions);
        self.cautions.sort_by_key(|caution| caution.kind.weight());
        self
    }

    /// Adds a caution, in its place by weight.
    pub fn add_caution(&mut self, caution: Caution) {
        self.cautions.push(caution);
        self.cautions.sort_by_key(|caution| caution.kind.weight());
    }

    /// The verdict in one line, such as `Cannot tell: 92.5 % instead of 87.5 % on 40 test items (…)`.
    pub fn line(&self) -> String {
        format!("{}: {}", self.title(), self.words)
    }

    /// The decision as the beginning of a sentence.
    pub fn title(&self) -> String {
        sentence(self.outcome.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn versus(score: f64, trained: f64, interval: [f64; 2]) -> Versus {
        Versus { score, difference: trained - score, interval: Some(interval) }
    }

    #[track_caller]
    fn check(first: [f64; 2], none: Option<(f64, [f64; 2])>, expect: Outcome) {
        let arms = Arms {
            split: "test",
            n_items: 40,
            trained: 0.7,
            first: versus(0.6, 0.7, first),
            none: none.map(|(score, interval)| versus(score, 0.7, interval)),
            first_name: "",
            metric: "",
        };
        let verdict = Verdict::of_arms(&arms);
        assert_eq!(verdict.outcome, expect, "{}", verdict.line());
        // Whatever is decided, all scores, the items and an interval are said, once each.
        for said in ["70.0 %", "60.0 %", "40 test items", "95 % interval"] {
            assert!(verdict.words.contains(said), "{said}: {}", verdict.words);
        }
        assert_eq!(verdict.words.matches("70.0 %").count(), 1, "{}", verdict.words);
        if let Some((score, _)) = none {
            assert!(verdict.words.contains(&percent(score)), "{}", verdict.words);
        }
    }

    #[test]
    fn an_interval_decides_and_no_skill_at_all_is_a_bar_too() {
        check([0.01, 0.2], None, Outcome::Better);
        check([-0.05, 0.2], None, Outcome::Unclear);
        check([0.0, 0.2], None, Outcome::Unclear);
        check([-0.2, -0.01], None, Outcome::Worse);
        check([0.01, 0.2], Some((0.5, [0.1, 0.3])), Outcome::Better);
        check([0.01, 0.2], Some((0.68, [-0.1, 0.1])), Outcome::Better);
        // Better than the initial skill, and worse than none: by more than chance, and by what may be chance.
        check([0.01, 0.2], Some((0.9, [-0.3, -0.1])), Outcome::WorseThanNone);
        check([0.01, 0.2], Some((0.8, [-0.3, 0.1])), Outcome::Unclear);
        check([-0.2, -0.01], Some((0.9, [-0.3, -0.1])), Outcome::WorseThanNone);
    }

    #[test]
    fn no_skill_at_all_is_not_said_where_it_comes_out_as_the_first_skill() {
        let first = versus(0.6, 0.7, [0.01, 0.2]);
        let arms =
            |none| Arms { split: "test", n_items: 40, trained: 0.7, first, none, first_name: "", metric: "" };
        assert_eq!(Verdict::of_arms(&arms(Some(first))), Verdict::of_arms(&arms(None)));
        let other = versus(0.6, 0.7, [0.02, 0.2]);
        assert_ne!(Verdict::of_arms(&arms(Some(other))), Verdict::of_arms(&arms(None)));
    }

    #[test]
    fn a_difference_without_an_interval_decides_nothing() {
        let first = Versus { score: 0.2, difference: 0.7, interval: None };
        let arms = Arms {
            split: "test",
            n_items: 1,
            trained: 0.9,
            first,
            none: None,
            first_name: "without the bank",
            metric: "soft",
        };
        let verdict = Verdict::of_arms(&arms);
        assert_eq!(verdict.outcome, Outcome::Unclear);
        assert_eq!(
            verdict.line(),
            "Cannot tell: 90.0 % instead of 20.0 % without the bank on 1 test item by the soft metric (+70.0 points)"
        );
    }

    #[test]
    fn what_weighs_more_comes_first() {
        let kinds =
            [CautionKind::BestOf, CautionKind::Noise, CautionKind::Simulated, CautionKind::DoubtfulLabels];
        let cautions = kinds.map(|kind| Caution::new(kind, ""));
        let found = Verdict::new(Outcome::Better, "").with_cautions(cautions);
        let found: Vec<CautionKind> = found.cautions.iter().map(|caution| caution.kind).collect();
        assert_eq!(
            found,
            [CautionKind::Simulated, CautionKind::Noise, CautionKind::DoubtfulLabels, CautionKind::BestOf]
        );
    }
}
