//! What a rollout is worth.

/// What a rollout came to: the return of a function that [`super::from_fn`] takes.
///
/// ```
/// use skillrl::env::Score;
///
/// assert_eq!(Score::from(true), Score::right());
/// assert_eq!((Score::from(0.5).hard, Score::from(0.5).soft), (0.0, 0.5));
/// assert_eq!(Score::exact(" Paris\n", "Paris").hard, 1.0);
/// ```
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct Score {
    /// The strict score in [0, 1]; 0 is a failure.
    pub hard: f64,
    /// The graded score in [0, 1].
    pub soft: f64,
    /// Why the task failed, for the optimizer; empty for a success.
    pub reason: String,
    /// The answer that was scored; `None` takes the agent's last reply.
    pub answer: Option<String>,
    /// A right answer, which the optimizer is shown and the agent is not; empty if there is none to show.
    pub reference: String,
}

impl Score {
    /// These scores.
    pub fn new(hard: f64, soft: f64) -> Self {
        Self { hard, soft, ..Self::default() }
    }

    /// Full marks.
    pub fn right() -> Self {
        Self::new(1.0, 1.0)
    }

    /// No marks, for this reason.
    pub fn wrong(reason: impl Into<String>) -> Self {
        Self::new(0.0, 0.0).with_reason(reason)
    }

    /// Full marks for an answer that is the expected one, spaces around them aside.
    pub fn exact(answer: &str, expected: &str) -> Self {
        let (answer, expected) = (answer.trim(), expected.trim());
        let score = if answer == expected {
            Self::right()
        } else {
            Self::wrong(format!("the answer is {answer:?}; expected {expected:?}"))
        };
        score.with_answer(answer).with_reference(expected)
    }

    /// The same with a reason.
    #[must_use]
    pub fn with_reason(self, reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), ..self }
    }

    /// The same with the answer that was scored.
    #[must_use]
    pub fn with_answer(self, answer: impl Into<String>) -> Self {
        Self { answer: Some(answer.into()), ..self }
    }

    /// The same with a right answer.
    #[must_use]
    pub fn with_reference(self, reference: impl Into<String>) -> Self {
        Self { reference: reference.into(), ..self }
    }
}

impl From<bool> for Score {
    fn from(is_right: bool) -> Self {
        if is_right { Self::right() } else { Self::default() }
    }
}

/// A graded score; full marks alone are a success.
impl From<f64> for Score {
    fn from(soft: f64) -> Self {
        Self::new(if soft >= 1.0 { 1.0 } else { 0.0 }, soft)
    }
}
