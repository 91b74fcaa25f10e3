//! Whether there is room for another proposal, and when a comparison is due.

/// Pending proposals from which on a comparison may be due.
const PENDING: usize = 4;
/// Plays of the search for each play of the comparison, before it is due with as many pending, and with fewer.
const SPENT: [f64; 2] = [3.6, 7.2];
/// The fewest plays that a proposal needs.
const LEAST: f64 = 12.0;
/// The most of the budget that is kept for the last sequential comparison.
const LAST_SHARE: f64 = 0.25;
/// What is kept beyond the items of the last comparison where it has no early acceptance.
const LAST_MARGIN: f64 = 25.0;

/// What may be spent, in plays of one task.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Allowance {
    /// What is left after the end of the run is paid for.
    pub left: f64,
    /// What the run may spend, its end excluded.
    pub whole: f64,
    /// Plays of a comparison: items whose outcome with the working skill or with the incumbent is not known.
    pub confirm: f64,
    /// True if a comparison can accept early.
    pub is_sequential: bool,
    /// Proposals that were taken and not compared yet.
    pub n_pending: usize,
    /// True if a proposal was ever taken.
    pub has_taken: bool,
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
        match () {
            () if self.n_pending == 0 && self.has_taken => 0.0,
            () if self.is_sequential => self.confirm.min(LAST_SHARE * self.whole.max(0.0)),
            () => self.confirm + LAST_MARGIN,
        }
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
            () if self.left < self.last().max(LEAST) => Due::Nothing,
            () if self.n_pending >= PENDING && with_many || self.n_pending > 0 && with_few => Due::Comparison,
            () => Due::Proposal,
        }
    }
}
