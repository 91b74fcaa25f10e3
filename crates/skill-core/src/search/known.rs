//! What is known of the training tasks, and which failures the next analyst reads.

use super::{Estimates, GROUP, SHOWN_SOLVED, TaskScore, share};
use crate::random::Dice;
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// Proposals that may be aimed at a task before others have had as many, and the most of all.
const FIRST_TRIES: u32 = 2;
const MOST_TRIES: u32 = 20;
/// Tasks with the oldest outcomes that are played again before the same failures are read a fourth time.
const OLDEST: usize = 4;
/// Solved tasks that are looked at again where none fails, and how often in a row.
const LOOKED_AT: usize = 6;
const LOOKS: u32 = 3;
/// Failures are played again if so many of them come out otherwise, or if one is noise with this probability.
const STALE: f64 = 0.1;
const NOISE: f64 = 0.35;
/// A task whose failures are noise with a lower probability tells how often tasks are solved by luck.
const CERTAIN: f64 = 0.1;
/// The fewest failures of an analyst who is not the first of a round.
const LEAST_BESIDE: usize = 2;

/// What the decisions go by besides the outcomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SearchRules {
    /// The seed of choices among equals.
    pub seed: u64,
    /// True if the same skill has the same outcome on the same task every time.
    pub is_deterministic: bool,
}

/// What is known of a task.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct KnownTask {
    /// The last outcome under a working skill.
    pub outcome: Option<TaskScore>,
    /// Its kind; empty where kinds have no names.
    pub kind: String,
    /// The version of the working skill that it was played with.
    pub version: u32,
    /// Failures in a row that are evidence.
    pub fails: u32,
    /// Proposals aimed at it since one that was taken.
    pub tries: u32,
    /// When it was played last, in plays of the run.
    pub last_play: u32,
}

impl KnownTask {
    fn is_failing(&self) -> bool {
        self.outcome.is_some_and(|outcome| !outcome.is_solved())
    }

    fn is_solved(&self) -> bool {
        self.outcome.is_some_and(TaskScore::is_solved)
    }
}

/// An outcome of a proposal that was taken.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Adopted {
    /// The task.
    pub task: usize,
    /// What came of it.
    pub outcome: TaskScore,
}

/// What is to be done for the failures of the next analyst.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pick {
    /// These tasks are played with the working skill, in this order; all of them are certain to be needed.
    Play(Vec<usize>),
    /// The analyst reads these failures; none if there are none to read.
    Group(Vec<usize>),
}

/// Failures that are being chosen.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FailureSelection {
    /// The number of the proposal, which decides among equals.
    pub number: u32,
    /// Tasks of other analysts of the same round; with any, only failures that need no further play are read.
    pub busy: BTreeSet<usize>,
    /// Tasks that were played again for it.
    replayed: BTreeSet<usize>,
    looks: u32,
    looked_at: Vec<usize>,
}

impl FailureSelection {
    /// The choice for a proposal.
    pub fn new(number: u32, busy: BTreeSet<usize>) -> Self {
        Self { number, busy, ..Self::default() }
    }
}

/// The training tasks as a search knows them.
#[derive(Debug, Clone, PartialEq)]
pub struct KnownTasks {
    rules: SearchRules,
    tasks: Vec<KnownTask>,
    /// Tasks in the order of their first plays.
    order: Vec<usize>,
    /// The version of the working skill.
    version: u32,
    /// The tries that a task may have had to be read.
    most_tries: u32,
    n_plays: u32,
    /// Plays of tasks that were solved before, and those of them that were lost.
    solved_before: [u32; 2],
    /// Plays of dropped proposals on tasks that fail for certain, and those of them that were won.
    dropped: [u32; 2],
    /// Failures with an older working skill that were played again, and those of them that were solved.
    replayed: [u32; 2],
}

impl KnownTasks {
    /// So many tasks of which nothing is known.
    pub fn new(n_tasks: usize, rules: SearchRules) -> Self {
        let mut order: Vec<usize> = (0..n_tasks).collect();
        order.sort_by(|a, b| throw(rules.seed, "first", *a).total_cmp(&throw(rules.seed, "first", *b)));
        Self {
            rules,
            tasks: vec![KnownTask::default(); n_tasks],
            order,
            version: 0,
            most_tries: FIRST_TRIES,
            n_plays: 0,
            solved_before: [0; 2],
            dropped: [0; 2],
            replayed: [0; 2],
        }
    }

    /// What is known of a task.
    pub fn get(&self, task: usize) -> Option<&KnownTask> {
        self.tasks.get(task)
    }

    /// The tries that a task may have had to be read.
    pub fn most_tries(&self) -> u32 {
        self.most_tries
    }

    /// Takes that number from a record.
    pub fn set_most_tries(&mut self, most_tries: u32) {
        self.most_tries = most_tries;
    }

    /// The estimates.
    pub fn estimates(&self) -> Estimates {
        let [n, lost] = self.solved_before;
        let eps = share(lost, n, [0.01, 0.45]);
        let [n_dropped, won] = self.dropped;
        let [n_replayed, solved_again] = self.replayed;
        let n_played = self.tasks.iter().filter(|task| task.outcome.is_some()).count() as f64;
        let n_solved = self.tasks.iter().filter(|task| task.is_solved()).count() as f64;
        Estimates {
            eps,
            luck: share(won, n_dropped, [0.01, 0.1]),
            solved: (n_solved + 0.5) / (n_played + 1.0) / (1.0 - eps),
            stale: (1.0 + f64::from(solved_again)) / (2.0 + f64::from(n_replayed)),
        }
    }

    /// A task was played with the working skill.
    pub fn played(&mut self, task_idx: usize, outcome: TaskScore, kind: &str) {
        self.n_plays += 1;
        let (version, n_plays) = (self.version, self.n_plays);
        let Some(task) = self.tasks.get_mut(task_idx) else { return };
        let is_same = self.rules.is_deterministic && task.version == version;
        if task.is_solved() {
            count(&mut self.solved_before, !outcome.is_solved());
        } else if task.is_failing() && task.version < version {
            count(&mut self.replayed, outcome.is_solved());
        }
        task.fails = match outcome.is_solved() {
            true => 0,
            false if task.is_failing() => task.fails + u32::from(!is_same),
            false => 1,
        };
        task.outcome = Some(outcome);
        kind.clone_into(&mut task.kind);
        (task.version, task.last_play) = (version, n_plays);
    }

    /// A proposal was aimed at these tasks.
    pub fn aimed_at(&mut self, group: &[usize]) {
        for &task in group {
            if let Some(task) = self.tasks.get_mut(task) {
                task.tries += 1;
            }
        }
    }

    /// A proposal was dropped by these plays of its screening.
    pub fn dropped(&mut self, seen: &[Adopted]) {
        let estimates = self.estimates();
        for Adopted { task, outcome } in seen {
            let Some(task) = self.tasks.get_mut(*task) else { continue };
            if estimates.noise(task.fails) < CERTAIN {
                count(&mut self.dropped, outcome.is_solved());
            }
        }
        for Adopted { task, .. } in seen.iter().filter(|seen| !seen.outcome.is_solved()) {
            if let Some(task) = self.tasks.get_mut(*task) {
                task.fails += 1;
            }
        }
        self.n_plays += n_of(seen);
    }

    /// A solved task was played for a check: it is used, whatever came of it.
    pub fn checked(&mut self, task: usize) {
        self.n_plays += 1;
        let n_plays = self.n_plays;
        if let Some(task) = self.tasks.get_mut(task) {
            task.last_play = n_plays;
        }
    }

    /// A proposal was taken: its outcomes are those of the new working skill.
    pub fn taken(&mut self, seen: &[Adopted]) {
        self.most_tries = FIRST_TRIES;
        self.version += 1;
        for Adopted { task, outcome } in seen {
            self.n_plays += 1;
            let (version, n_plays) = (self.version, self.n_plays);
            let Some(task) = self.tasks.get_mut(*task) else { continue };
            let was_solved = task.is_solved();
            if was_solved {
                count(&mut self.solved_before, !outcome.is_solved());
            }
            if outcome.is_solved() {
                task.fails = 0;
            } else {
                task.fails = if was_solved { 1 } else { task.fails + 1 };
                task.tries = 0;
            }
            task.outcome = Some(*outcome);
            (task.version, task.last_play) = (version, n_plays);
        }
    }

    /// A comparison was accepted; so many validation tasks were solved before, and so many of them are lost.
    pub fn accepted(&mut self, n_solved: u32, n_lost: u32) {
        let [n, lost] = &mut self.solved_before;
        (*n, *lost) = (*n + n_solved, *lost + n_lost.min(n_solved));
    }

    /// A comparison was rejected: the working skill is another one.
    pub fn rejected(&mut self) {
        self.version += 1;
    }

    /// Solved tasks for the check of a proposal, the longest unused first; those of its group are left out.
    pub fn to_check(&self, group: &[usize], number: u32) -> Vec<usize> {
        let solved = self.indices(|task| task.is_solved()).into_iter().filter(|task| !group.contains(task));
        self.longest_unused(solved.collect(), number)
    }

    /// All tasks that failed when they were played last, in the order of the data.
    pub fn failing(&self) -> Vec<usize> {
        let numbered = self.tasks.iter().enumerate();
        numbered.filter(|(_, task)| task.is_failing()).map(|(index, _)| index).collect()
    }

    /// Solved tasks of the kind of a group's first, to be shown beside it.
    pub fn shown_solved(&self, group: &[usize], number: u32) -> Vec<usize> {
        let Some(first) = group.first().and_then(|first| self.tasks.get(*first)) else { return Vec::new() };
        let mut solved = self.indices(|task| task.is_solved() && task.kind == first.kind);
        self.mix(&mut solved, &format!("shown {number}"));
        solved.truncate(SHOWN_SOLVED);
        solved
    }

    /// What is to be done next for the failures of an analyst.
    pub fn pick(&mut self, group: &mut FailureSelection) -> Pick {
        if !group.busy.is_empty() {
            return self.pick_beside(group);
        }
        loop {
            let most_tries = self.most_tries;
            let mut eligible = self.indices(|task| task.is_failing() && task.tries < most_tries);
            let unplayed = self.unplayed(GROUP.saturating_sub(eligible.len()));
            if !unplayed.is_empty() {
                return Pick::Play(unplayed);
            }
            if !eligible.is_empty() {
                self.by_kind(&mut eligible, group.number);
                return self.choose(eligible, group);
            }
            if self.tasks.iter().any(KnownTask::is_failing) && self.most_tries < MOST_TRIES {
                self.most_tries += 2;
                let oldest = if self.most_tries.is_multiple_of(4) { self.oldest() } else { Vec::new() };
                if !oldest.is_empty() {
                    return Pick::Play(oldest);
                }
                continue;
            }
            return self.look_again(group);
        }
    }

    /// Where nothing is left to read: tasks that were lost, or solved by luck.
    fn look_again(&self, group: &mut FailureSelection) -> Pick {
        if group.looks >= LOOKS {
            return Pick::Group(Vec::new());
        }
        group.looks += 1;
        // What deterministic targets have solved with this skill they solve again.
        let is_worth = |task: &KnownTask| {
            task.tries < MOST_TRIES && !(self.rules.is_deterministic && task.version == self.version)
        };
        let mut tasks = self.longest_unused(self.indices(is_worth), group.number);
        tasks.retain(|task| !group.looked_at.contains(task));
        tasks.truncate(LOOKED_AT);
        group.looked_at.extend(&tasks);
        if tasks.is_empty() { Pick::Group(Vec::new()) } else { Pick::Play(tasks) }
    }

    /// Up to four of these, in their order; some of them are played again before.
    fn choose(&self, eligible: Vec<usize>, group: &mut FailureSelection) -> Pick {
        let chosen = eligible.get(..GROUP.min(eligible.len())).expect("no more than there are");
        let again: Vec<usize> =
            chosen.iter().copied().filter(|task| self.is_doubtful(*task, &group.replayed)).collect();
        group.replayed.extend(&again);
        if again.is_empty() { Pick::Group(chosen.to_vec()) } else { Pick::Play(again) }
    }

    /// Whether a failure is played again before it is read.
    fn is_doubtful(&self, task_idx: usize, replayed: &BTreeSet<usize>) -> bool {
        let Some(task) = self.tasks.get(task_idx).filter(|_| !replayed.contains(&task_idx)) else {
            return false;
        };
        let estimates = self.estimates();
        let is_old = task.version < self.version;
        let is_same = self.rules.is_deterministic && !is_old;
        is_old && estimates.stale > STALE || !is_same && estimates.noise(task.fails) > NOISE
    }

    /// Failures for another analyst of a round: those that are fresh enough, or first plays.
    fn pick_beside(&self, group: &FailureSelection) -> Pick {
        let none = BTreeSet::new();
        let mut eligible = self.indices(|task| task.is_failing() && task.tries < FIRST_TRIES);
        eligible.retain(|task| !group.busy.contains(task) && !self.is_doubtful(*task, &none));
        let unplayed = self.unplayed(GROUP.saturating_sub(eligible.len()));
        if !unplayed.is_empty() {
            return Pick::Play(unplayed);
        }
        if eligible.len() < LEAST_BESIDE {
            return Pick::Group(Vec::new());
        }
        self.by_kind(&mut eligible, group.number);
        eligible.truncate(GROUP);
        Pick::Group(eligible)
    }

    fn indices(&self, is_one: impl Fn(&KnownTask) -> bool) -> Vec<usize> {
        (0..).zip(&self.tasks).filter(|(_, task)| is_one(task)).map(|(task_idx, _)| task_idx).collect()
    }

    fn unplayed(&self, most: usize) -> Vec<usize> {
        let is_unplayed = |task: &&usize| self.get(**task).is_some_and(|task| task.outcome.is_none());
        self.order.iter().filter(is_unplayed).take(most).copied().collect()
    }

    /// Tasks with the oldest outcomes, where these are of an older working skill.
    fn oldest(&self) -> Vec<usize> {
        let mut old = self.indices(|task| task.outcome.is_some() && task.version < self.version);
        old.sort_by_key(|task| self.get(*task).map(|task| task.version));
        old.truncate(OLDEST);
        old
    }

    /// Fewest tries first, then those of the kind of the first one.
    fn by_kind(&self, tasks: &mut [usize], number: u32) {
        self.mix(tasks, &format!("group {number}"));
        let tries = |task: &usize| self.get(*task).map(|task| task.tries);
        tasks.sort_by_key(tries);
        let kind = tasks.first().and_then(|first| self.get(*first)).map(|first| first.kind.clone());
        let is_other = |task: &usize| self.get(*task).map(|task| &task.kind) != kind.as_ref();
        if let Some((_, rest)) = tasks.split_first_mut() {
            rest.sort_by_key(|task| (is_other(task), tries(task)));
        }
    }

    fn longest_unused(&self, mut tasks: Vec<usize>, number: u32) -> Vec<usize> {
        self.mix(&mut tasks, &format!("unused {number}"));
        tasks.sort_by_key(|task| self.get(*task).map(|task| (task.version == self.version, task.last_play)));
        tasks
    }

    /// Puts tasks in an order that the seed and a label give.
    fn mix(&self, tasks: &mut [usize], label: &str) {
        tasks.sort_by(|a, b| {
            let throws = [a, b].map(|task| throw(self.rules.seed, label, *task));
            let [of_a, of_b] = throws;
            of_a.total_cmp(&of_b).then(Reverse(b).cmp(&Reverse(a)))
        });
    }
}

fn throw(seed: u64, label: &str, task: usize) -> f64 {
    Dice::new(seed, &["search", label]).unit(&task.to_string())
}

fn count([n, of_these]: &mut [u32; 2], is_one: bool) {
    *n += 1;
    *of_these += u32::from(is_one);
}

fn n_of(seen: &[Adopted]) -> u32 {
    u32::try_from(seen.len()).unwrap_or(u32::MAX)
}
