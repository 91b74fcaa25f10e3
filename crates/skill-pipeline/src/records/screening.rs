//! What a step records of candidates that were screened.

use serde::{Deserialize, Serialize};

/// The candidates of a step that were tried on tasks of its batch which the current skill had failed: one of them went
/// to the gate, and the others went nowhere.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ScreeningRecord {
    /// Tasks that they were tried on.
    pub n_items: usize,
    /// The candidates, in the order in which they were tried.
    pub candidates: Vec<ScreenedRecord>,
    /// Which of them went to the gate, from 0.
    pub chosen: usize,
}

/// One candidate of a screening.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ScreenedRecord {
    /// Edits that it was made of.
    pub n_edits: usize,
    /// Tasks that it was tried on until it could no longer win.
    pub n_seen: usize,
    /// Those that it solved.
    pub n_solved: usize,
}
