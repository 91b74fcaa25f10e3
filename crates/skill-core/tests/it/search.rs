//! The decisions of a planned search.

use proptest::prelude::*;
use skill_core::search::{
    Adopted, Allowance, Due, Estimates, FailureSelection, KnownTasks, Pick, RandomOrder, Regression,
    ScreenTask, Screening, SearchRules, Sequential, SequentialDecision, TaskScore,
};
use skill_core::{EarlyRejection, EarlyVerdict, Gate, ItemScore};
use std::collections::BTreeSet;

const RULES: SearchRules = SearchRules { seed: 7, is_deterministic: false };
const USUAL: Estimates = Estimates { eps: 0.06, luck: 0.06, solved: 0.5, stale: 0.5 };

fn outcome(is_solved: bool) -> TaskScore {
    TaskScore { score: f64::from(u8::from(is_solved)) }
}

/// Plays a screening; returns the verdict and how many plays it took.
fn screened(
    fails: u32,
    estimates: Estimates,
    n_tasks: usize,
    outcomes: &[bool],
) -> (SequentialDecision, usize) {
    let mut screening = Screening::new(&vec![ScreenTask { before: 0.0, fails }; n_tasks], estimates);
    let mut n = 0;
    while screening.verdict() == SequentialDecision::Open {
        let Some(is_solved) = outcomes.get(n) else { break };
        screening.push(outcome(*is_solved));
        n += 1;
    }
    (screening.verdict(), n)
}

#[test]
fn a_proposal_is_screened_on_its_own_failures() {
    #[track_caller]
    fn check(fails: u32, outcomes: &str, expect: SequentialDecision) {
        let played: Vec<bool> = outcomes.chars().map(|letter| letter == '+').collect();
        assert_eq!(screened(fails, USUAL, 4, &played), (expect, outcomes.len()), "{outcomes}");
    }
    // A failure that is certain tells much; one that may be noise tells little.
    check(3, "+", SequentialDecision::Passed);
    check(3, "---", SequentialDecision::Failed);
    check(3, "-++", SequentialDecision::Passed);
    check(3, "-+--+", SequentialDecision::Passed);
    check(3, "-+---", SequentialDecision::Failed);
}

#[test]
fn an_undecided_proposal_has_to_solve_again_what_it_solved() {
    let noisy = Estimates { eps: 0.3, luck: 0.1, solved: 0.9, stale: 0.5 };
    let (verdict, n) = screened(1, noisy, 2, &[true, false, true, true]);
    assert!(n > 2, "{verdict:?} after {n}");
    assert_eq!(screened(1, noisy, 2, &[true, false, false, false]).0, SequentialDecision::Failed);
}

#[test]
fn graded_gains_count_in_part_and_a_loss_of_score_never_passes() {
    let task = ScreenTask { before: 0.5, fails: 3 };
    let after = |score| {
        let mut screening = Screening::new(&[task], USUAL);
        screening.push(TaskScore { score });
        screening.odds()
    };
    assert!(after(1.0) > after(0.7) && after(0.7) > 0.0);
    assert!(after(0.5) < 0.0 && after(0.2) < 0.0);
}

#[test]
fn the_more_tasks_are_solved_the_more_a_proposal_has_to_show() {
    let plays = |solved| {
        let mut check = Regression::new(Estimates { solved, ..USUAL }, 40);
        let mut n = 0;
        while check.verdict() == SequentialDecision::Open {
            check.push(outcome(true));
            n += 1;
        }
        assert_eq!(check.verdict(), SequentialDecision::Passed);
        n
    };
    assert_eq!(plays(0.3), 0);
    assert!(plays(0.85) < plays(0.97), "{} {}", plays(0.85), plays(0.97));
    let mut harmful = Regression::new(Estimates { solved: 0.9, ..USUAL }, 40);
    harmful.push(outcome(false));
    harmful.push(outcome(false));
    assert_eq!(harmful.verdict(), SequentialDecision::Failed);
}

#[test]
fn a_comparison_is_due_after_the_search_has_spent_several_times_as_much() {
    #[track_caller]
    fn check(n_pending: usize, since: f64, left: f64, expect: Due) {
        let allowance = Allowance { left, confirm: 40.0, n_pending, since };
        assert_eq!(allowance.due(), expect);
    }
    check(0, 1_000.0, 100.0, Due::Proposal);
    check(4, 143.0, 100.0, Due::Proposal);
    check(4, 144.0, 100.0, Due::Comparison);
    check(1, 287.0, 100.0, Due::Proposal);
    check(1, 288.0, 100.0, Due::Comparison);
    check(1, 288.0, 64.0, Due::Nothing);
    // Nothing is proposed that could not be compared.
    check(0, 288.0, 64.0, Due::Nothing);
    check(0, 288.0, 65.0, Due::Proposal);
}

#[test]
fn a_comparison_in_random_order_ends_early_against_the_candidate_alone() {
    let order = RandomOrder::new(40, 3);
    let run = |candidate: f64, incumbent: f64| {
        let score = |hard| ItemScore { hard, soft: hard };
        let current = vec![score(incumbent); 40];
        let mut early = EarlyRejection::in_random_order(Gate::default(), &current, &order, 0.1);
        let mut n = 0;
        while n < 40 && early.verdict() == EarlyVerdict::Open {
            early.push(score(candidate));
            n += 1;
        }
        (early.verdict(), n)
    };
    assert_eq!(run(0.0, 0.4), (EarlyVerdict::Rejected, 11));
    assert_eq!(run(1.0, 0.0), (EarlyVerdict::Open, 40));
    let mut sorted = order.items().to_vec();
    sorted.sort_unstable();
    assert_eq!(sorted, (0..40).collect::<Vec<_>>());
}

/// Plays until there is a group; `solves` says what comes of a play.
fn group_of(
    known: &mut KnownTasks,
    group: &mut FailureSelection,
    mut solves: impl FnMut(usize) -> bool,
) -> Vec<usize> {
    let mut n_plays = 0;
    loop {
        match known.pick(group) {
            Pick::Group(tasks) => return tasks,
            Pick::Play(tasks) => {
                assert!(!tasks.is_empty());
                n_plays += tasks.len();
                assert!(n_plays < 1_000, "no end");
                for task in tasks {
                    known.played(task, outcome(solves(task)), "");
                }
            }
        }
    }
}

#[test]
fn an_analyst_reads_four_failures_and_no_task_is_played_in_vain() {
    let mut known = KnownTasks::new(40, RULES);
    let mut played = BTreeSet::new();
    let tasks = group_of(&mut known, &mut FailureSelection::new(1, BTreeSet::new()), |task| {
        played.insert(task);
        false
    });
    assert_eq!(tasks.len(), 4);
    assert_eq!(played.len(), 4);
    // The same failures are read twice, others come before a third time.
    known.aimed_at(&tasks);
    known.dropped(&[Adopted { task: tasks[0], outcome: outcome(false) }]);
    let next = group_of(&mut known, &mut FailureSelection::new(2, BTreeSet::new()), |_| false);
    assert_eq!(next.len(), 4);
}

#[test]
fn other_analysts_of_a_round_read_other_failures() {
    let mut known = KnownTasks::new(12, RULES);
    let first = group_of(&mut known, &mut FailureSelection::new(1, BTreeSet::new()), |_| false);
    let busy: BTreeSet<usize> = first.iter().copied().collect();
    let second = group_of(&mut known, &mut FailureSelection::new(2, busy.clone()), |_| false);
    assert_eq!(second.len(), 4);
    assert!(second.iter().all(|task| !busy.contains(task)));
}

#[test]
fn a_search_ends_where_everything_is_solved() {
    let mut known = KnownTasks::new(9, RULES);
    assert!(group_of(&mut known, &mut FailureSelection::new(1, BTreeSet::new()), |_| true).is_empty());
    assert!(
        group_of(&mut KnownTasks::new(0, RULES), &mut FailureSelection::new(1, BTreeSet::new()), |_| true)
            .is_empty()
    );
}

#[test]
fn a_lost_task_is_evidence_of_noise_and_a_taken_proposal_begins_anew() {
    let mut known = KnownTasks::new(4, RULES);
    for task in 0..4 {
        known.played(task, outcome(task > 0), "");
    }
    let before = known.estimates();
    known.set_most_tries(8);
    known.aimed_at(&[0]);
    known.taken(&[Adopted { task: 0, outcome: outcome(true) }, Adopted { task: 1, outcome: outcome(false) }]);
    assert!(known.estimates().eps > before.eps);
    assert_eq!(known.most_tries(), 2);
    let lost = known.get(1).unwrap();
    assert_eq!((lost.fails, lost.tries, lost.version), (1, 0, 1));
    assert_eq!(known.to_check(&[0], 1).len(), 2);
}

proptest! {
    #[test]
    fn what_is_certain_to_be_needed_is_used(
        outcomes in prop::collection::vec(any::<bool>(), 64),
        fails in 1_u32..5,
        solved in 0.0..1.0_f64,
        eps in 0.01..0.45_f64,
        n_tasks in 1_usize..5,
        alpha in 0.01..0.5_f64,
    ) {
        let estimates = Estimates { eps, luck: 0.05, solved, stale: 0.5 };
        let tasks = vec![ScreenTask { before: 0.0, fails }; n_tasks];
        let mut screening = Screening::new(&tasks, estimates);
        let mut left = outcomes.iter();
        while screening.verdict() == SequentialDecision::Open {
            let n_certain = screening.certain().len();
            prop_assert!(n_certain > 0);
            for _ in 0..n_certain {
                prop_assert_eq!(screening.verdict(), SequentialDecision::Open);
                screening.push(outcome(*left.next().unwrap()));
            }
        }
        let mut check = Regression::new(estimates, 20);
        let mut left = outcomes.iter();
        while check.verdict() == SequentialDecision::Open {
            for _ in 0..check.n_certain() {
                prop_assert_eq!(check.verdict(), SequentialDecision::Open);
                check.push(outcome(*left.next().unwrap()));
            }
        }
        let order = RandomOrder::new(20, 1);
        let mut comparison = Sequential::new(&order, alpha, &[0.5; 20]);
        let mut left = outcomes.iter();
        for _ in 0..20 {
            let n_certain = comparison.n_certain();
            if comparison.is_lost() {
                break;
            }
            for n in 0..n_certain.saturating_sub(1) {
                comparison.push(outcome(*left.next().unwrap()).score);
                prop_assert!(!comparison.is_lost(), "{n} of {n_certain}");
            }
            match left.next() {
                Some(solved) if n_certain > 0 => comparison.push(outcome(*solved).score),
                _ => break,
            }
        }
    }

    #[test]
    fn every_group_ends(
        n_tasks in 0_usize..20,
        is_deterministic in any::<bool>(),
        rounds in prop::collection::vec((any::<u64>(), 0_u8..3), 1..30),
    ) {
        let mut known = KnownTasks::new(n_tasks, SearchRules { seed: 1, is_deterministic });
        for ((luck, end), number) in rounds.into_iter().zip(1..) {
            let mut n = 0_u32;
            let tasks = group_of(&mut known, &mut FailureSelection::new(number, BTreeSet::new()), |_| {
                n += 1;
                luck >> (n % 64) & 1 == 1
            });
            prop_assert!(tasks.len() <= 4);
            let beside = tasks.iter().copied().collect();
            let others = group_of(&mut known, &mut FailureSelection::new(number, beside), |_| false);
            prop_assert!(tasks.is_empty() || others.iter().all(|task| !tasks.contains(task)));
            known.aimed_at(&tasks);
            let seen: Vec<Adopted> =
                tasks.iter().map(|task| Adopted { task: *task, outcome: outcome(end == 2) }).collect();
            match end {
                0 => known.dropped(&seen),
                1 => known.rejected(),
                _ => known.taken(&seen),
            }
            let estimates = known.estimates();
            prop_assert!((0.01..=0.45).contains(&estimates.eps) && (0.01..=0.1).contains(&estimates.luck));
            prop_assert!((0.0..=1.0).contains(&estimates.noise(1)) && estimates.solved.is_finite());
        }
    }
}
