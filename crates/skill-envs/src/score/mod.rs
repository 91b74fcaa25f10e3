//! Scores of an answer: pure functions, usable alone.
//!
//! Each says in its documentation by which formula it counts and where that comes from. None of them reads a file, a
//! clock or a model; the scorers that do (a judge, a program) belong to the environment.
//!
//! White space is what Python's `str.split()` takes for it, and lower case is Unicode's full mapping as in
//! Python's `str.lower()`; the two languages may differ for characters that only one of their Unicode
//! versions knows.

mod anls;
mod choice;
#[cfg(feature = "tasks")]
mod column;
mod json_fields;
mod number;
mod numeric;
#[cfg(feature = "tasks")]
mod rules;
mod text;
mod units;

pub use anls::anls;
#[cfg(feature = "tasks")]
pub(crate) use choice::up_to_brace;
pub use choice::{Choice, ChoiceBy, choice, chosen, named_choice, shuffled_choices, texts_that_are_labels};
#[cfg(feature = "tasks")]
pub(crate) use column::{ColumnKind, column_kind};
#[cfg(feature = "tasks")]
pub(crate) use json_fields::member;
pub use json_fields::{FieldVerdict, JsonFieldsVerdict, json_fields, parse_json_answer};
pub use numeric::{
    NumericOptions, PercentRule, Quantity, UnitRule, numeric, parse_quantity, parse_reference,
};
#[cfg(feature = "tasks")]
pub(crate) use rules::pattern;
#[cfg(feature = "tasks")]
pub use rules::{Rule, RuleError, RuleVerdict, apply_rules};
pub use text::{contains, em_f1, exact, label_set, office_qa, substring_match};
#[cfg(feature = "tasks")]
pub(crate) use text::{is_equal, labels_of};

/// How good one reply is.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Score {
    /// 1 for a right answer, else 0.
    pub hard: f64,
    /// How close the answer is, in [0, 1]; 1 wherever the functions here give a `hard` of 1.
    pub soft: f64,
}

impl Score {
    /// The score of a right answer.
    pub const RIGHT: Self = Self { hard: 1.0, soft: 1.0 };
}

/// `part / whole`; 0 where there is nothing.
fn share(part: usize, whole: usize) -> f64 {
    if whole == 0 {
        return 0.0;
    }
    // Counts stay far below 2^53, where f64 is exact.
    part as f64 / whole as f64
}
