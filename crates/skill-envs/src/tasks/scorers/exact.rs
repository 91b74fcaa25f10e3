//! Equality.

use super::{ANY_FORM, Answer, References, Scored, ScorerSpec, TaskScorer};
use crate::score::{exact, is_equal};
use skill_core::decoration::folded;
use skill_core::rollout::MARKS_KEY;

pub(super) const SPEC: ScorerSpec = ScorerSpec {
    keys: &["ignore_case"],
    summary: Some("the same text, such as a class label"),
    ..ScorerSpec::new(References::Words, ANY_FORM, "The answer has to equal a reference to the letter.")
};

#[derive(Debug)]
pub(super) struct Exact {
    pub(super) ignore_case: bool,
}

impl TaskScorer for Exact {
    fn score(&self, answer: &Answer<'_>) -> Scored<'_> {
        let (text, references) = (answer.text, &answer.task.answers);
        let verdict = answer.compared(exact(text, references, self.ignore_case));
        let differs_in_marks = !is_equal(text, references, self.ignore_case)
            && references.iter().any(|reference| folded(reference) == folded(text));
        Scored::Known(if differs_in_marks { verdict.with(MARKS_KEY, true) } else { verdict })
    }

    fn own_reward(&self) -> Option<String> {
        self.ignore_case.then(|| "The answer has to equal a reference; case does not count.".to_owned())
    }
}
