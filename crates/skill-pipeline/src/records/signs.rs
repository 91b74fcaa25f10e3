//! Signs of a run that goes wrong, read from the records of its iterations.
//!
//! Detection reads numbers alone: no file, no clock. [`TrainingAlerts`] takes the iterations one by one, so that a run warns
//! when a sign first appears; [`signs_of`] reads the iterations of a run that is looked at.

use super::rl::RlIteration;
use serde::Serialize;
use skill_core::named_enum;
use std::collections::{BTreeMap, VecDeque};

/// The number of recent iterations that a sign is judged by, since a single one is too noisy.
pub const WINDOW: usize = 3;
/// The entropy, in nats per token, below which a policy always says the same.
pub(crate) const LEAST_ENTROPY: f64 = 0.02;
/// The share of the first entropy below which it has collapsed.
pub(crate) const LEAST_ENTROPY_SHARE: f64 = 0.1;
/// The divergence, in nats per token, that is a sign in itself.
pub(crate) const MOST_KL: f64 = 0.5;
/// The divergence from which growth is a sign.
pub(crate) const GROWING_KL: f64 = 0.1;
/// The growth of the divergence over [`KL_SPAN`] iterations that is a sign.
pub(crate) const KL_GROWTH: f64 = 10.0;
/// Iterations with an optimizer step over which the growth of the divergence is measured.
pub const KL_SPAN: usize = 4;
/// The share of clipped tokens that is a sign.
pub(crate) const MOST_CLIPPED: f64 = 0.2;
/// The change of the mean length of an episode that is a sign, if no more episodes are won.
pub(crate) const LENGTH_CHANGE: f64 = 2.0;
/// Invalid actions of an episode that are a sign, if they have not become half as many.
pub(crate) const MOST_INVALID: f64 = 1.0;
/// The fall of the mean return below its best that is a sign.
pub(crate) const RETURN_FALL: f64 = 0.2;
/// How many standard errors of the difference it must be besides: the best of many means is a lucky one.
pub(crate) const RETURN_FALL_ERRORS: f64 = 3.0;

named_enum! {
    /// Something that commonly goes wrong.
    #[derive(PartialOrd, Ord)]
    #[non_exhaustive]
    pub enum TrainingAlert {
        /// No group has a signal, as every episode is lost.
        AllLost = "all_lost",
        /// No group has a signal, as every episode is won.
        AllWon = "all_won",
        /// No group has a signal, for other reasons.
        NoSignal = "no_signal",
        /// No episode of the run was won.
        NeverWon = "never_won",
        /// The policy always says the same.
        EntropyCollapse = "entropy_collapse",
        /// The policy moves away from the first one fast.
        KlExplosion = "kl_explosion",
        /// Many tokens are clipped.
        ManyClipped = "many_clipped",
        /// Episodes become longer without more wins.
        LengthGrowth = "length_growth",
        /// Episodes become shorter without more wins.
        LengthCollapse = "length_collapse",
        /// Many actions mean nothing to the world.
        InvalidActions = "invalid_actions",
        /// The mean return is lower than it was.
        ReturnFalls = "return_falls",
    }
}

impl TrainingAlert {
    /// The sign in words.
    pub fn title(self) -> &'static str {
        match self {
            Self::AllLost => "no group has a signal: every episode is lost",
            Self::AllWon => "no group has a signal: every episode is won",
            Self::NoSignal => "no group has a signal: the episodes of each task have equal returns",
            Self::NeverWon => "no episode was ever won",
            Self::EntropyCollapse => "the entropy is near 0: the policy always says the same",
            Self::KlExplosion => "the KL divergence from the reference policy is large or grows fast",
            Self::ManyClipped => "many tokens are clipped",
            Self::LengthGrowth => "episodes become longer without more wins",
            Self::LengthCollapse => "episodes become shorter without more wins",
            Self::InvalidActions => "many actions are invalid, and they do not become fewer",
            Self::ReturnFalls => "the mean return is lower than it was",
        }
    }

    /// What to try, as one phrase.
    pub fn advice(self) -> &'static str {
        match self {
            Self::AllLost => {
                "fine-tune on demonstrations first, take easier tasks, or raise the group size and the number of tasks"
            }
            Self::AllWon => "take harder tasks, or stop: these have nothing left to teach",
            Self::NoSignal => "raise the group size, the number of tasks or the temperature",
            Self::NeverWon => "fine-tune on demonstrations first, or take easier tasks",
            Self::EntropyCollapse => {
                "lower the learning rate or raise the KL coefficient, and start again from an earlier policy"
            }
            Self::KlExplosion => "lower the learning rate, or raise the KL coefficient",
            Self::ManyClipped => "lower the learning rate, or raise the batch size",
            Self::LengthGrowth => "lower the limit on tokens of a reply, or the learning rate",
            Self::LengthCollapse => "lower the learning rate, or raise the KL coefficient",
            Self::InvalidActions => {
                "fine-tune on demonstrations first, have prompts show the admissible actions, or raise the penalty"
            }
            Self::ReturnFalls => {
                "take the policy of an earlier checkpoint, and lower the learning rate or raise the KL coefficient"
            }
        }
    }
}

/// A sign that iterations of a run showed.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct RlFinding {
    /// The sign.
    pub sign: TrainingAlert,
    /// The first iteration after which it showed.
    pub first_iteration: u64,
    /// The last one.
    pub last_iteration: u64,
    /// The sign in words, with the numbers of the last time.
    pub message: String,
    /// What to try, as one phrase.
    pub advice: &'static str,
}

impl RlFinding {
    /// True if the sign shows after this iteration, and is not one that has gone since.
    pub fn holds_at(&self, iteration: u64) -> bool {
        self.last_iteration == iteration
    }
}

/// All signs that the iterations of a run showed, in the order of [`TrainingAlert::ALL`].
pub fn signs_of(iterations: &[RlIteration]) -> Vec<RlFinding> {
    let mut signs = TrainingAlerts::default();
    for record in iterations {
        signs.add(record);
    }
    signs.found()
}

/// What counts of an iteration.
#[derive(Debug, Clone, Copy)]
struct Sample {
    /// The mean return.
    reward: f64,
    n_episodes: usize,
    n_won: usize,
    has_signal: bool,
    /// Sampled tokens of an episode.
    length: f64,
    /// Invalid actions of an episode.
    invalid: f64,
}

impl Sample {
    fn of(record: &RlIteration) -> Self {
        let per_episode = |number: u64| number as f64 / record.episodes.max(1) as f64;
        Self {
            reward: record.reward,
            n_episodes: record.episodes,
            n_won: record.won,
            has_signal: record.groups_without_signal < 1.0,
            length: per_episode(record.sampled_tokens),
            invalid: per_episode(record.invalid_actions),
        }
    }
}

/// The returns of [`WINDOW`] iterations in a row.
#[derive(Debug, Clone, Copy)]
struct Span {
    /// The mean return.
    reward: f64,
    n_won: usize,
    n_episodes: usize,
}

impl Span {
    /// The standard error of the difference of two shares of won episodes.
    fn error_of_difference(&self, other: &Self) -> f64 {
        let [one, two] = [self.n_episodes, other.n_episodes].map(|number| number.max(1) as f64);
        let share = (self.n_won + other.n_won) as f64 / (one + two);
        (share * (1.0 - share) * (1.0 / one + 1.0 / two)).sqrt()
    }
}

/// What an iteration with an optimizer step measures.
#[derive(Debug, Clone, Copy)]
struct Update {
    entropy: f64,
    /// `None` where the run does not compute it.
    kl: Option<f64>,
    clipped: f64,
}

/// The signs of a run whose iterations come one by one. It keeps no more than it compares.
#[derive(Debug, Clone, Default)]
pub struct TrainingAlerts {
    n_iterations: u64,
    n_won: u64,
    first: Vec<Sample>,
    recent: VecDeque<Sample>,
    /// Returns of the last spans that still share an iteration with the recent one.
    spans: VecDeque<Span>,
    /// The best of those before.
    best: Option<Span>,
    first_entropy: Option<f64>,
    updates: VecDeque<Update>,
    /// True if the last iteration had an optimizer step.
    is_updated: bool,
    found: BTreeMap<TrainingAlert, RlFinding>,
}

impl TrainingAlerts {
    /// Takes the next iteration, and returns the signs that it is the first to show.
    pub fn add(&mut self, record: &RlIteration) -> Vec<RlFinding> {
        let sample = Sample::of(record);
        self.n_iterations += 1;
        self.n_won += record.won as u64;
        if self.first.len() < WINDOW {
            self.first.push(sample);
        }
        let _ = push(&mut self.recent, sample, WINDOW);
        let span = self.recent_span();
        if let Some(past) = push(&mut self.spans, span, WINDOW) {
            // The spans before the first whole one have fewer iterations.
            let is_whole = self.n_iterations >= 2 * WINDOW as u64;
            if is_whole && self.best.is_none_or(|best| past.reward > best.reward) {
                self.best = Some(past);
            }
        }
        self.is_updated = false;
        if record.steps > 0
            && let RlIteration { entropy: Some(entropy), kl, clipped: Some(clipped), .. } = *record
        {
            self.is_updated = true;
            self.first_entropy.get_or_insert(entropy);
            let _ = push(&mut self.updates, Update { entropy, kl, clipped }, KL_SPAN + 1);
        }
        let mut new = Vec::new();
        for sign in TrainingAlert::ALL {
            let Some(numbers) = self.numbers(sign) else { continue };
            let message = format!("{} ({numbers})", sign.title());
            if let Some(known) = self.found.get_mut(&sign) {
                (known.last_iteration, known.message) = (record.iteration, message);
                continue;
            }
            let (first_iteration, last_iteration) = (record.iteration, record.iteration);
            let finding = RlFinding { sign, first_iteration, last_iteration, message, advice: sign.advice() };
            new.push(finding.clone());
            self.found.insert(sign, finding);
        }
        new
    }

    /// All signs that showed until now, in the order of [`TrainingAlert::ALL`].
    pub fn found(&self) -> Vec<RlFinding> {
        self.found.values().cloned().collect()
    }

    /// The numbers by which a sign shows after the last iteration; `None` where it does not.
    fn numbers(&self, sign: TrainingAlert) -> Option<String> {
        if self.recent.len() < WINDOW {
            return None;
        }
        match sign {
            TrainingAlert::AllLost => self.without_signal(|sample| sample.n_won == 0),
            TrainingAlert::AllWon => self.without_signal(|sample| sample.n_won == sample.n_episodes),
            TrainingAlert::NoSignal => {
                let is_said = self
                    .numbers(TrainingAlert::AllLost)
                    .or_else(|| self.numbers(TrainingAlert::AllWon))
                    .is_some();
                self.without_signal(|_| true).filter(|_| !is_said)
            }
            TrainingAlert::NeverWon => {
                (self.n_won == 0).then(|| format!("in {} iterations", self.n_iterations))
            }
            TrainingAlert::EntropyCollapse => {
                let (first, mean) = (self.first_entropy?, self.mean_update(|update| update.entropy)?);
                (mean < LEAST_ENTROPY || mean < first * LEAST_ENTROPY_SHARE)
                    .then(|| format!("{mean:.3} nats per token, {first:.3} at first"))
            }
            TrainingAlert::KlExplosion => self.kl_numbers(),
            TrainingAlert::ManyClipped => {
                let mean = self.mean_update(|update| update.clipped)?;
                (mean >= MOST_CLIPPED).then(|| format!("{:.0} %", 100.0 * mean))
            }
            TrainingAlert::LengthGrowth => self.length_numbers(|change| change >= LENGTH_CHANGE),
            TrainingAlert::LengthCollapse => self.length_numbers(|change| change <= 1.0 / LENGTH_CHANGE),
            TrainingAlert::InvalidActions => {
                let (first, mean) = (self.mean_first(|of| of.invalid), self.mean_recent(|of| of.invalid));
                (mean >= MOST_INVALID && mean > first / 2.0)
                    .then(|| format!("{mean:.1} in an episode, {first:.1} at first"))
            }
            TrainingAlert::ReturnFalls => self.return_numbers(),
        }
    }

    fn without_signal(&self, also: impl Fn(&Sample) -> bool) -> Option<String> {
        let holds = self.recent.iter().all(|sample| !sample.has_signal && also(sample));
        holds.then(|| format!("in the last {WINDOW} iterations"))
    }

    fn kl_numbers(&self) -> Option<String> {
        let last = self.updates.back().filter(|_| self.is_updated)?.kl?;
        if last >= MOST_KL {
            return Some(format!("{last:.3} nats per token"));
        }
        let before = self.updates.front().filter(|_| self.updates.len() > KL_SPAN)?.kl?;
        (last >= GROWING_KL && last >= before * KL_GROWTH)
            .then(|| format!("{before:.3} to {last:.3} nats per token in {KL_SPAN} updates"))
    }

    fn length_numbers(&self, is_sign: impl Fn(f64) -> bool) -> Option<String> {
        let (first, mean) = (self.mean_first(|of| of.length), self.mean_recent(|of| of.length));
        let won = |samples: &mut dyn Iterator<Item = &Sample>| {
            let (won, all) = samples.fold((0, 0), |(won, all), of| (won + of.n_won, all + of.n_episodes));
            won as f64 / all.max(1) as f64
        };
        let has_improved = won(&mut self.recent.iter()) > won(&mut self.first.iter());
        // Iterations are not compared with themselves.
        let has_passed = self.n_iterations >= 2 * WINDOW as u64;
        (has_passed && !has_improved && first > 0.0 && is_sign(mean / first))
            .then(|| format!("{first:.0} to {mean:.0} sampled tokens"))
    }

    /// The returns of the recent iterations.
    fn recent_span(&self) -> Span {
        let sum = |value: fn(&Sample) -> usize| self.recent.iter().map(value).sum();
        let (n_won, n_episodes) = (sum(|of| of.n_won), sum(|of| of.n_episodes));
        Span { reward: self.mean_recent(|of| of.reward), n_won, n_episodes }
    }

    fn return_numbers(&self) -> Option<String> {
        let (best, now) = (self.best?, self.recent_span());
        let fall = best.reward - now.reward;
        let is_fall = fall >= RETURN_FALL && fall >= RETURN_FALL_ERRORS * best.error_of_difference(&now);
        is_fall.then(|| format!("{:.2}, {:.2} at its best", now.reward, best.reward))
    }

    fn mean_first(&self, value: impl Fn(&Sample) -> f64) -> f64 {
        self.first.iter().map(value).sum::<f64>() / self.first.len().max(1) as f64
    }

    fn mean_recent(&self, value: impl Fn(&Sample) -> f64) -> f64 {
        self.recent.iter().map(value).sum::<f64>() / self.recent.len().max(1) as f64
    }

    /// The mean of the last updates, if the last iteration had one and there are enough.
    fn mean_update(&self, value: impl Fn(&Update) -> f64) -> Option<f64> {
        let is_measured = self.is_updated && self.updates.len() >= WINDOW;
        let sum: f64 = self.updates.iter().rev().take(WINDOW).map(value).sum();
        is_measured.then(|| sum / WINDOW as f64)
    }
}

/// Adds a value; returns the one that makes room for it.
fn push<T>(queue: &mut VecDeque<T>, value: T, most: usize) -> Option<T> {
    queue.push_back(value);
    (queue.len() > most).then(|| queue.pop_front()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use indexmap::IndexMap;

    /// An iteration with nothing wrong: half of eight episodes are won.
    fn healthy(iteration: u64) -> RlIteration {
        RlIteration {
            iteration,
            tasks: 2,
            episodes: 8,
            won: 4,
            reward: 0.5,
            invalid_actions: 0,
            groups_without_signal: 0.5,
            rows: 4,
            tokens: 1_000,
            sampled_tokens: 160,
            entropy: Some(1.0),
            kl: Some(0.01),
            clipped: Some(0.02),
            loss: Some(0.0),
            grad_norm: Some(1.0),
            steps: 1,
            by_task_type: IndexMap::new(),
            bank: None,
        }
    }

    /// Changes these iterations of a run and compares the signs that show at its end.
    #[track_caller]
    fn check(n_iterations: u64, change: impl Fn(&mut RlIteration), expect: &[TrainingAlert]) {
        let mut records: Vec<RlIteration> = (1..=n_iterations).map(healthy).collect();
        records.iter_mut().for_each(change);
        let found = signs_of(&records).into_iter().filter(|found| found.holds_at(n_iterations));
        assert_eq!(found.map(|found| found.sign).collect::<Vec<_>>(), expect);
    }

    /// What no group of an iteration with these wins teaches.
    fn without_signal(record: &mut RlIteration, won: usize) {
        (record.won, record.groups_without_signal, record.steps) = (won, 1.0, 0);
        (record.entropy, record.kl, record.clipped) = (None, None, None);
    }

    #[test]
    fn a_healthy_run_has_no_sign() {
        check(0, |_| {}, &[]);
        check(1, |_| {}, &[]);
        check(40, |_| {}, &[]);
        // It wins more, in shorter episodes, with less entropy.
        check(
            20,
            |record| {
                let at = record.iteration as f64;
                record.won = (record.iteration as usize / 4 + 1).min(7);
                record.sampled_tokens = (400.0 / at) as u64 + 30;
                record.entropy = Some(2.0 / at.sqrt());
                record.kl = Some(0.004 * at);
            },
            &[],
        );
    }

    #[test]
    fn groups_without_a_signal_are_told_apart() {
        check(3, |record| without_signal(record, 8), &[TrainingAlert::AllWon]);
        check(3, |record| without_signal(record, 0), &[TrainingAlert::AllLost, TrainingAlert::NeverWon]);
        check(3, |record| without_signal(record, 4), &[TrainingAlert::NoSignal]);
        // It has won before.
        let lost_later = |record: &mut RlIteration| {
            if record.iteration > 4 {
                without_signal(record, 0);
            }
        };
        check(7, lost_later, &[TrainingAlert::AllLost]);
        check(6, lost_later, &[]);
        // Penalties tell episodes apart that are all lost.
        check(5, |record| record.won = 0, &[TrainingAlert::NeverWon]);
        check(2, |record| without_signal(record, 0), &[]);
    }

    #[test]
    fn entropy_collapses_in_itself_and_by_its_share() {
        check(3, |record| record.entropy = Some(0.01), &[TrainingAlert::EntropyCollapse]);
        let falls = |record: &mut RlIteration| {
            record.entropy = Some(if record.iteration > 2 { 0.09 } else { 1.0 });
        };
        check(5, falls, &[TrainingAlert::EntropyCollapse]);
        check(4, falls, &[]);
        // An iteration without an optimizer step has none.
        check(6, |record| record.steps = 0, &[]);
    }

    #[test]
    fn divergence_explodes_in_itself_and_by_its_growth() {
        check(3, |record| record.kl = Some(0.6), &[TrainingAlert::KlExplosion]);
        check(
            8,
            |record| record.kl = Some(1e-4 * 3_f64.powf(record.iteration as f64)),
            &[TrainingAlert::KlExplosion],
        );
        check(8, |record| record.kl = Some(0.02 * record.iteration as f64), &[]);
        check(8, |record| record.kl = Some(0.0), &[]);
        check(8, |record| record.kl = None, &[]);
    }

    #[test]
    fn clipped_tokens_and_invalid_actions_are_counted_over_several_iterations() {
        check(3, |record| record.clipped = Some(0.25), &[TrainingAlert::ManyClipped]);
        check(4, |record| record.clipped = Some(if record.iteration == 4 { 0.4 } else { 0.02 }), &[]);
        check(3, |record| record.invalid_actions = 16, &[TrainingAlert::InvalidActions]);
        check(9, |record| record.invalid_actions = if record.iteration > 4 { 16 } else { 40 }, &[]);
    }

    #[test]
    fn a_return_falls_if_it_is_far_below_its_best() {
        let falls = |episodes: usize, before: f64, after: f64| {
            move |record: &mut RlIteration| {
                let reward = if record.iteration > 6 { after } else { before };
                record.episodes = episodes;
                record.sampled_tokens = 20 * episodes as u64;
                (record.reward, record.won) = (reward, (reward * episodes as f64) as usize);
            }
        };
        check(9, falls(64, 0.75, 0.25), &[TrainingAlert::ReturnFalls]);
        check(6, falls(64, 0.75, 0.25), &[]);
        // Within the noise of few episodes, too small, or a rise.
        check(9, falls(8, 0.75, 0.5), &[]);
        check(9, falls(640, 0.75, 0.625), &[]);
        check(9, falls(64, 0.25, 0.75), &[]);
    }

    #[test]
    fn lengths_drift_only_where_no_more_is_won() {
        let grows = |record: &mut RlIteration| record.sampled_tokens = 100 * record.iteration;
        check(7, grows, &[TrainingAlert::LengthGrowth]);
        check(5, grows, &[]);
        let shrinks = |record: &mut RlIteration| record.sampled_tokens = 800 / record.iteration;
        check(8, shrinks, &[TrainingAlert::LengthCollapse]);
        check(
            8,
            |record| {
                shrinks(record);
                record.won = record.iteration as usize;
            },
            &[],
        );
    }

    #[test]
    fn a_sign_is_new_once_and_keeps_its_first_and_last_iteration() {
        let mut signs = TrainingAlerts::default();
        let mut record = healthy(1);
        record.clipped = Some(0.5);
        let new: Vec<usize> = (1..=6)
            .map(|iteration| {
                record.iteration = iteration;
                signs.add(&record).len()
            })
            .collect();
        assert_eq!(new, [0, 0, 1, 0, 0, 0]);
        for iteration in 7..=12 {
            assert!(signs.add(&healthy(iteration)).is_empty());
        }
        let found = signs.found();
        assert_eq!(
            (found.len(), found[0].first_iteration, found[0].sign),
            (1, 3, TrainingAlert::ManyClipped)
        );
        assert!(found[0].last_iteration < 12 && !found[0].holds_at(12), "{found:?}");
        assert!(found[0].message.starts_with(TrainingAlert::ManyClipped.title()));
    }

    #[test]
    fn the_page_names_every_sign_with_what_to_try() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reinforcement-learning.md");
        let page = std::fs::read_to_string(page).unwrap();
        let rows: Vec<&str> = page.lines().filter(|line| line.starts_with("| `")).collect();
        let row =
            |sign: TrainingAlert| format!("| `{}` | {} | {} |", sign.as_str(), sign.title(), sign.advice());
        for sign in TrainingAlert::ALL {
            assert!(rows.contains(&row(sign).as_str()), "{}", row(sign));
        }
    }
}
