//! Idempotency of a back end: a repeated call gets the first answer.

use std::collections::BTreeMap;

use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::error::TrainError;
use crate::seam::CallId;

/// Steps whose answers are kept: the current one and the one before.
const N_STEPS: u64 = 2;
/// Answers that are kept at most; the oldest calls go first.
const MAX_ANSWERS: usize = 4096;

/// Answers by call; a call is identified by run, step and sequence number, and compared by its whole content.
#[derive(Debug)]
pub struct IdempotencyCache<T> {
    kept: BTreeMap<CallId, Kept<T>>,
    /// How many answers were kept until now.
    n_kept: u64,
    /// For each run the first step whose answers are kept.
    first_steps: BTreeMap<String, u64>,
}

/// An answer.
#[derive(Debug)]
struct Kept<T> {
    request: [u8; 32],
    answer: T,
    number: u64,
}

impl<T> Default for IdempotencyCache<T> {
    fn default() -> Self {
        Self { kept: BTreeMap::new(), n_kept: 0, first_steps: BTreeMap::new() }
    }
}

impl<T: Clone> IdempotencyCache<T> {
    /// The answer to a repeated call; `None` for a new one.
    ///
    /// # Errors
    /// [`TrainError::CallConflict`] if the id was used for another request, [`TrainError::CallTooOld`] if the answers
    /// of its step are no longer kept.
    pub fn find<R: Serialize>(&self, call: &CallId, request: &R) -> Result<Option<T>, TrainError> {
        match self.kept.get(call) {
            Some(kept) if kept.request == digest_of(request)? => Ok(Some(kept.answer.clone())),
            Some(_) => Err(TrainError::CallConflict { call: call.to_string() }),
            None if self.first_steps.get(&call.run).is_some_and(|first| call.step < *first) => {
                Err(TrainError::CallTooOld { call: call.to_string() })
            }
            None => Ok(None),
        }
    }

    /// Keeps an answer, and forgets those of steps before the last one.
    ///
    /// # Errors
    /// [`TrainError::Request`] for a request that has no JSON form, such as one with NaN.
    pub fn keep<R: Serialize>(&mut self, call: &CallId, request: &R, answer: T) -> Result<(), TrainError> {
        let request = digest_of(request)?;
        let first = self.first_steps.entry(call.run.clone()).or_default();
        *first = (*first).max((call.step + 1).saturating_sub(N_STEPS));
        let first = *first;
        self.kept.retain(|kept, _| kept.run != call.run || kept.step >= first);
        self.n_kept += 1;
        self.kept.insert(call.clone(), Kept { request, answer, number: self.n_kept });
        while self.kept.len() > MAX_ANSWERS
            && let Some(oldest) = self.kept.iter().min_by_key(|(_, kept)| kept.number)
        {
            let oldest = oldest.0.clone();
            self.kept.remove(&oldest);
        }
        Ok(())
    }
}

fn digest_of<R: Serialize>(request: &R) -> Result<[u8; 32], TrainError> {
    let bytes =
        serde_json::to_vec(request).map_err(|error| TrainError::request("request", error.to_string()))?;
    Ok(Sha256::digest(bytes).into())
}

#[cfg(test)]
mod tests {
    use super::{IdempotencyCache, MAX_ANSWERS};
    use crate::error::TrainError;
    use crate::seam::CallId;

    #[test]
    fn a_repeated_call_gets_its_answer_and_a_changed_one_an_error() {
        let mut answers = IdempotencyCache::default();
        let call = |step| CallId::new("run", step, 0);
        assert_eq!(answers.find(&call(3), &"question").unwrap(), None);
        answers.keep(&call(3), &"question", 7).unwrap();
        assert_eq!(answers.find(&call(3), &"question").unwrap(), Some(7));
        assert!(matches!(answers.find(&call(3), &"other"), Err(TrainError::CallConflict { .. })));
        assert_eq!(answers.find(&CallId::new("another", 0, 0), &"question").unwrap(), None);
    }

    #[test]
    fn the_oldest_answers_go_first_whatever_their_run_is_called() {
        let mut answers = IdempotencyCache::default();
        let call = |run: &str, sequence| CallId::new(run, 0, sequence);
        answers.keep(&call("z", 0), &"question", 0).unwrap();
        for sequence in 0..MAX_ANSWERS as u64 {
            answers.keep(&call("a", sequence), &"question", 1).unwrap();
        }
        assert_eq!(answers.find(&call("z", 0), &"question").unwrap(), None);
        assert_eq!(answers.find(&call("a", 0), &"question").unwrap(), Some(1));
    }

    #[test]
    fn answers_of_older_steps_are_forgotten() {
        let mut answers = IdempotencyCache::default();
        let call = |step| CallId::new("run", step, 0);
        for step in 0..3 {
            answers.keep(&call(step), &"question", step).unwrap();
        }
        assert!(matches!(answers.find(&call(0), &"question"), Err(TrainError::CallTooOld { .. })));
        assert_eq!(answers.find(&call(1), &"question").unwrap(), Some(1));
        assert_eq!(answers.find(&call(2), &"question").unwrap(), Some(2));
    }
}
