//! Which types are weak, and which of their failures a teacher reads.

use super::EvolveSettings;
use crate::episode::{Episode, TrainEpisode, render_episode};
use serde::{Deserialize, Serialize};
use skill_core::estimate_tokens;
use skill_core::stats::score_interval;
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// How often tasks of a type were solved in training rollouts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TypeRate {
    /// The type.
    pub task_type: String,
    /// How many rollouts of the round solved their task.
    pub successes: usize,
    /// How many rollouts of the round there are.
    pub rollouts: usize,
    /// Both numbers with those of earlier rounds in which tasks of the type were shown the same skills.
    #[serde(default)]
    pub pooled: Pooled,
    /// The interval of the pooled rate, see [`score_interval`].
    pub interval: [f64; 2],
    /// True if there are enough rollouts and the upper bound is below the threshold.
    pub is_weak: bool,
}

/// Rollouts of a type over rounds in which its tasks were shown the same skills.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Pooled {
    /// How many solved their task.
    pub successes: usize,
    /// How many there are.
    pub rollouts: usize,
}

impl TypeRate {
    /// The share of pooled rollouts that solved their task.
    pub fn rate(&self) -> f64 {
        let Pooled { successes, rollouts } = self.pooled;
        if rollouts == 0 { 0.0 } else { successes as f64 / rollouts as f64 }
    }
}

/// A failure that a teacher reads, by its place among the episodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ShownFailure {
    /// The place of the failure.
    pub failure: usize,
    /// The place of a success at the same task, where there is one and room for it.
    pub success: Option<usize>,
}

/// What a round of evolution looks at, decided before the call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct EvolvePlan {
    /// The rate below which a type is weak.
    pub threshold: f64,
    /// The rates of all types, in alphabetical order.
    pub rates: Vec<TypeRate>,
    /// The weak types that have a failure, the weakest first.
    pub weak: Vec<String>,
    /// The failures that the teacher reads, in order.
    pub shown: Vec<ShownFailure>,
}

impl EvolvePlan {
    /// The plan for these training rollouts, without earlier ones.
    pub fn new(episodes: &[TrainEpisode], settings: &EvolveSettings) -> Self {
        Self::with_earlier(episodes, &BTreeMap::new(), settings)
    }

    /// The plan for these training rollouts, where some types have earlier ones that were shown the same skills: a
    /// type that one round is too small to show as weak is found over several.
    ///
    /// Failures come from weak types alone, from each type and each kind of failure in turn, and from `episodes` only.
    pub fn with_earlier(
        episodes: &[TrainEpisode],
        earlier: &BTreeMap<String, Pooled>,
        settings: &EvolveSettings,
    ) -> Self {
        let rates = type_rates(episodes, earlier, settings);
        let mut weak: Vec<&TypeRate> = rates.iter().filter(|rate| rate.is_weak).collect();
        weak.sort_by(|left, right| {
            left.rate().total_cmp(&right.rate()).then_with(|| left.task_type.cmp(&right.task_type))
        });
        let worst = weak.first().map_or(1.0, |rate| rate.rate());
        let limit = if worst < settings.deep_below {
            settings.max_analysis_deep
        } else {
            settings.max_analysis_shallow
        };
        let queues: Vec<Vec<usize>> =
            weak.iter().map(|rate| failures_of_type(episodes, &rate.task_type)).collect();
        let turns: Vec<usize> = in_turns(&queues).into_iter().take(limit).collect();
        let mut has_failure: Vec<String> = Vec::new();
        for (rate, queue) in weak.iter().zip(&queues) {
            if !queue.is_empty() {
                has_failure.push(rate.task_type.clone());
            }
        }
        let shown = within_budget(episodes, turns, settings);
        Self { threshold: settings.threshold, weak: has_failure, shown, rates }
    }

    /// True if a teacher has something to read.
    pub fn is_needed(&self) -> bool {
        !self.shown.is_empty()
    }

    /// The places of the episodes that the teacher reads: each success follows its failure.
    pub fn places(&self) -> impl Iterator<Item = usize> + '_ {
        self.shown.iter().flat_map(|shown| std::iter::once(shown.failure).chain(shown.success))
    }
}

fn type_rates(
    episodes: &[TrainEpisode],
    earlier: &BTreeMap<String, Pooled>,
    settings: &EvolveSettings,
) -> Vec<TypeRate> {
    let mut counts: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for episode in episodes.iter().filter(|episode| episode.has_type()) {
        let (successes, rollouts) = counts.entry(&episode.task_type).or_default();
        *successes += usize::from(episode.success);
        *rollouts += 1;
    }
    let rate = |(task_type, (successes, rollouts)): (&str, (usize, usize))| {
        let earlier = earlier.get(task_type).copied().unwrap_or_default();
        let pooled =
            Pooled { successes: earlier.successes + successes, rollouts: earlier.rollouts + rollouts };
        let rate = pooled.successes as f64 / pooled.rollouts as f64;
        let interval = score_interval(rate, pooled.rollouts, settings.confidence);
        TypeRate {
            task_type: task_type.to_owned(),
            successes,
            rollouts,
            pooled,
            interval,
            is_weak: pooled.rollouts >= settings.min_rollouts && interval[1] < settings.threshold,
        }
    };
    counts.into_iter().map(rate).collect()
}

/// The failures of a type: one of each kind in turn, the most frequent kind first.
fn failures_of_type(episodes: &[TrainEpisode], task_type: &str) -> Vec<usize> {
    let mut kinds: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (place, episode) in episodes.iter().enumerate() {
        if episode.task_type == task_type && !episode.success {
            kinds.entry(signature(episode)).or_default().push(place);
        }
    }
    let mut queues: Vec<Vec<usize>> = kinds.into_values().map(|places| ranked(episodes, places)).collect();
    // Stable, so kinds of one size stay in the order of their names.
    queues.sort_by_key(|queue| std::cmp::Reverse(queue.len()));
    in_turns(&queues)
}

/// Failures of one kind: each task once before any a second time, the lowest score first.
fn ranked(episodes: &[TrainEpisode], places: Vec<usize>) -> Vec<usize> {
    let mut times: BTreeMap<&str, usize> = BTreeMap::new();
    let mut ranked: Vec<(usize, f64, usize)> = Vec::with_capacity(places.len());
    for place in places {
        let Some(episode) = episodes.get(place) else { continue };
        let time = times.entry(episode.item.as_str()).or_default();
        ranked.push((*time, episode.soft, place));
        *time += 1;
    }
    ranked.sort_by(|left, right| {
        let by_score = || left.1.total_cmp(&right.1);
        let order: Ordering = left.0.cmp(&right.0).then_with(by_score);
        order.then_with(|| left.2.cmp(&right.2))
    });
    ranked.into_iter().map(|(_, _, place)| place).collect()
}

/// The kind of a failure: what the environment or the memory says of it, else the last action; numbers do not count.
fn signature(episode: &Episode) -> String {
    let mistake = || episode.mistakes.first().map(|mistake| mistake.trigger_condition.as_str());
    let last = || episode.steps.last().map(|step| step.action.as_str());
    let told = Some(episode.fail_reason.as_str()).filter(|reason| !reason.trim().is_empty());
    let text = told.or_else(mistake).or_else(last).unwrap_or_default();
    let words = text.split(|letter: char| !letter.is_alphabetic()).filter(|word| !word.is_empty());
    words.map(str::to_lowercase).collect::<Vec<_>>().join(" ")
}

/// The first of each queue, then the second of each, and so on.
fn in_turns(queues: &[Vec<usize>]) -> Vec<usize> {
    let longest = queues.iter().map(Vec::len).max().unwrap_or(0);
    let turns = (0..longest).flat_map(|turn| queues.iter().filter_map(move |queue| queue.get(turn)));
    turns.copied().collect()
}

/// The failures that fit the budget, the first in any case, each with a success at the same task where that fits too.
fn within_budget(
    episodes: &[TrainEpisode],
    failures: Vec<usize>,
    settings: &EvolveSettings,
) -> Vec<ShownFailure> {
    let cost = |place: usize| {
        let episode = episodes.get(place);
        episode.map_or(0, |episode| estimate_tokens(&render_episode(episode, 1, settings.max_episode_tokens)))
    };
    let mut left = settings.max_prompt_tokens;
    let mut shown: Vec<ShownFailure> = Vec::new();
    for failure in failures {
        let own = cost(failure);
        if own > left && !shown.is_empty() {
            continue;
        }
        left = left.saturating_sub(own);
        shown.push(ShownFailure { failure, success: None });
    }
    let mut used: Vec<usize> = Vec::new();
    for one in &mut shown {
        let item = episodes.get(one.failure).map(|episode| &episode.item);
        let success = episodes
            .iter()
            .enumerate()
            .find(|(place, episode)| episode.success && Some(&episode.item) == item && !used.contains(place));
        if let Some((place, _)) = success {
            let own = cost(place);
            if own <= left {
                left -= own;
                used.push(place);
                one.success = Some(place);
            }
        }
    }
    shown
}
