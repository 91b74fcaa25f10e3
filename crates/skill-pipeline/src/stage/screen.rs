//! Screening: several candidates of a step on tasks of its batch, so that one of them goes to the gate.
//!
//! The candidates are tried one after the other on the same tasks, each at a place of its own. A candidate is given up
//! at the shortest prefix of the tasks at which it can no longer solve more than the best one before it; what was in
//! flight beyond that prefix counts for nothing, so that the outcome does not depend on the number of workers.
//!
//! # Invariants
//!
//! - One of several candidates of a step goes to the gate, the screening is in the step's record, and a run that
//!   screens keeps the promises on workers and resume. Held by `tests/training/screening.rs`.

use super::StageCtx;
use super::rollout::{Agent, Rollout, Rollouts};
use crate::error::PipelineError;
use skill_core::{Patch, SkillDoc};
use skill_envs::source::document;
use skill_envs::{Item, Split};
use std::ops::ControlFlow;

/// What a candidate did in the screening.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Screened {
    /// Tasks until it was given up, or all of them.
    pub n_seen: usize,
    /// Those of them that it solved.
    pub n_solved: usize,
}

/// Parts of a patch that may be candidates: the whole, and less and less of its edits, the best supported first.
pub fn parts(patch: &Patch) -> Vec<Patch> {
    let mut by_support: Vec<usize> = (0..patch.edits.len()).collect();
    by_support
        .sort_by_key(|&edit_idx| std::cmp::Reverse(patch.edits.get(edit_idx).map(|edit| edit.support_count)));
    let n_edits = by_support.len();
    let of = |range: std::ops::Range<usize>| {
        let kept = by_support.get(range).unwrap_or_default();
        let edits = patch.edits.iter().enumerate().filter(|(edit_idx, _)| kept.contains(edit_idx));
        Patch { edits: edits.map(|(_, edit)| edit.clone()).collect(), ..patch.clone() }
    };
    let half = n_edits.div_ceil(2);
    let ranges = [0..n_edits, 0..half, 0..(3 * n_edits).div_ceil(4), half..n_edits, 0..n_edits.div_ceil(4)];
    ranges.into_iter().map(of).filter(|part| !part.edits.is_empty()).collect()
}

/// Tries the candidates on the tasks; one row for each, in order.
///
/// # Errors
///
/// An attempt that cannot be made ends the screening.
pub async fn screen(
    rollouts: &Rollouts,
    items: &[&Item],
    candidates: &[SkillDoc],
    ctx: &StageCtx<'_>,
) -> Result<Vec<Screened>, PipelineError> {
    let mut rows: Vec<Screened> = Vec::with_capacity(candidates.len());
    for (candidate_idx, candidate) in candidates.iter().enumerate() {
        let to_beat = rows.iter().map(|row| row.n_solved).max();
        let ctx = ctx.at_batch(Some(candidate_idx));
        rows.push(try_one(rollouts, items, candidate, to_beat, &ctx).await?);
    }
    Ok(rows)
}

/// Which candidate of a screening goes on: the first of those that solved most.
pub(crate) fn winner(rows: &[Screened]) -> Option<usize> {
    let most = rows.iter().map(|row| row.n_solved).max()?;
    rows.iter().position(|row| row.n_solved == most)
}

async fn try_one(
    rollouts: &Rollouts,
    items: &[&Item],
    candidate: &SkillDoc,
    to_beat: Option<usize>,
    ctx: &StageCtx<'_>,
) -> Result<Screened, PipelineError> {
    let mut prefix = Prefix::new(items.len(), to_beat);
    if prefix.is_lost() {
        return Ok(prefix.screened());
    }
    let source = document(candidate);
    let agent = Agent::new(rollouts, &source, ctx).of_batch(Split::Train, None, items.to_vec());
    let work = async |item_idx: usize, item: &Item| Ok((item_idx, agent.work_on(item, 0).await?));
    let first = prefix.n_startable();
    let watch = |_, (item_idx, rollout): &(usize, Rollout)| {
        prefix.push(*item_idx, rollout.result.is_success());
        match prefix.is_lost() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(prefix.n_startable()),
        }
    };
    let made = ctx.map_until(items.to_vec(), first, work, watch).await?;
    // What was dropped gives back what it has reserved before anything else is begun.
    rollouts.settle().await;
    let screened = prefix.screened();
    for (_, rollout) in made.into_iter().take(screened.n_seen).flatten() {
        ctx.used.add(rollout.used);
    }
    Ok(screened)
}

/// The outcomes of one candidate as they arrive, and what follows from those without a gap.
struct Prefix {
    outcomes: Vec<Option<bool>>,
    to_beat: Option<usize>,
    seen: Screened,
}

impl Prefix {
    fn new(n_items: usize, to_beat: Option<usize>) -> Self {
        Self { outcomes: vec![None; n_items], to_beat, seen: Screened { n_seen: 0, n_solved: 0 } }
    }

    fn push(&mut self, item_idx: usize, is_solved: bool) {
        if let Some(outcome) = self.outcomes.get_mut(item_idx) {
            *outcome = Some(is_solved);
        }
        while let Some(Some(is_solved)) = self.outcomes.get(self.seen.n_seen)
            && !self.is_lost()
        {
            self.seen.n_seen += 1;
            self.seen.n_solved += usize::from(*is_solved);
        }
    }

    /// Failures that it can still have and win.
    fn spare(&self) -> Option<usize> {
        let open = self.outcomes.len().saturating_sub(self.seen.n_seen);
        match self.to_beat {
            Some(to_beat) => (self.seen.n_solved + open).checked_sub(to_beat + 1),
            None => Some(usize::MAX),
        }
    }

    fn is_lost(&self) -> bool {
        self.spare().is_none()
    }

    /// Tasks that are needed in any case, whatever they come to.
    fn n_startable(&self) -> usize {
        let needed = self.spare().unwrap_or_default().saturating_add(1);
        self.seen.n_seen.saturating_add(needed)
    }

    fn screened(&self) -> Screened {
        self.seen
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use skill_core::Edit;

    fn after(n_items: usize, to_beat: Option<usize>, outcomes: &[(usize, bool)]) -> Prefix {
        let mut prefix = Prefix::new(n_items, to_beat);
        outcomes.iter().for_each(|(item_idx, is_solved)| prefix.push(*item_idx, *is_solved));
        prefix
    }

    #[test]
    fn a_candidate_is_given_up_at_the_first_task_after_which_it_cannot_win() {
        // Of 4 tasks it has to solve 3.
        let lost = after(4, Some(2), &[(0, true), (1, false), (2, false)]);
        assert!(lost.is_lost());
        assert_eq!(lost.screened(), Screened { n_seen: 3, n_solved: 1 });
        assert!(!after(4, Some(2), &[(0, false), (1, true), (2, true)]).is_lost());
        assert!(after(4, Some(4), &[]).is_lost(), "more than all tasks is out of reach");
        assert!(!after(4, None, &[(0, false), (1, false), (2, false), (3, false)]).is_lost());
    }

    #[test]
    fn the_order_in_which_outcomes_arrive_changes_nothing() {
        let in_order = [(0, false), (1, true), (2, false), (3, true)];
        let outcome = after(4, Some(2), &in_order).screened();
        for order in [[3, 2, 1, 0], [2, 0, 3, 1], [1, 3, 0, 2]] {
            assert_eq!(after(4, Some(2), &order.map(|at: usize| in_order[at])).screened(), outcome);
        }
    }

    #[test]
    fn no_task_is_begun_that_may_not_be_needed() {
        assert_eq!(after(4, Some(2), &[]).n_startable(), 2);
        assert_eq!(after(4, Some(2), &[(0, true)]).n_startable(), 3);
        assert_eq!(after(4, Some(2), &[(0, false)]).n_startable(), 2);
    }

    #[test]
    fn the_first_of_the_best_goes_on() {
        let rows = [(4, 1), (4, 3), (4, 3)].map(|(n_seen, n_solved)| Screened { n_seen, n_solved });
        assert_eq!(winner(&rows), Some(1));
        assert_eq!(winner(&[]), None);
    }

    #[test]
    fn parts_keep_the_best_supported_edits_in_their_order() {
        let edit =
            |content: &str, support: u32| Edit { support_count: Some(support), ..Edit::append(content) };
        let patch =
            Patch { edits: vec![edit("a", 1), edit("b", 3), edit("c", 2), edit("d", 2)], ..Patch::default() };
        let parts: Vec<String> = parts(&patch)
            .iter()
            .map(|part| part.edits.iter().map(|edit| edit.content.as_str()).collect())
            .collect();
        assert_eq!(parts, ["abcd", "bc", "bcd", "ad", "b"]);
    }
}
