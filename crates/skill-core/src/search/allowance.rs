//! Whether there is room for another proposal, and when a comparison is due.

/// Pending proposals from which on a comparison may be due.
const PENDING: usize = 4;
/// Plays of the search for each play of the comparison, before it is due with as many pending, and with fewer.
const SPENT: [f64; 2] = [3.6, 7.2];
/// What is kept beyond the items of the last comparison, for the proposal before it.
const LAST_MARGIN: f64 = 25.0;

/// What may be spent, in plays of one task.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Allowance {
    /// What is left after the end of the run is paid for.
    pub left: f64,
    /// Plays of the next comparison: items whose outcome with the working skill is not known. Where none is pending, those
    /// of a skill of which nothing is known.
    pub confirm: f64,
    /// Proposals that were taken and not compared yet.
    pub n_pending: usize,
    /// Plays and replies since the last comparison.
    pub since: f64,
}

/// What is to be done next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    /// Another proposal.
    Proposal,
    /// The working skill against the incumbent.
    Comparison,
    /// Nothing: the budget has no room.
    Nothing,
}

impl Allowance {
    /// What is kept for the last comparison.
    pub fn last(&self) -> f64 {
        self.confirm + LAST_MARGIN
    }

    /// What may be spent on proposals now.
    pub fn for_proposals(&self) -> f64 {
        self.left - self.last()
    }

    /// What is to be done next.
    pub fn due(&self) -> Due {
        let [with_many, with_few] = SPENT.map(|times| self.since >= times * self.confirm);
        match () {
            // A strict comparison that does not fit is not begun.
            () if self.left < self.last() => Due::Nothing,
            () if self.n_pending >= PENDING && with_many || self.n_pending > 0 && with_few => Due::Comparison,
            () => Due::Proposal,
        }
    }
}
