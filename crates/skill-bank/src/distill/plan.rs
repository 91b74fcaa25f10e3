//! Which episodes reach which call of a distillation, decided before the first call.

use super::DistillSettings;
use crate::episode::{Episode, TrainEpisode, render_episode};
use crate::skill::Tier;
use skill_core::estimate_tokens;
use std::collections::{BTreeMap, BTreeSet};

/// The chunks of a distillation.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DistillPlan {
    /// The calls that read episodes: general ones, then those of each type in alphabetical order, then mistakes.
    pub calls: Vec<PlannedCall>,
    /// The ids of the episodes over the configured limit, which no call reads.
    pub over_limit: Vec<String>,
    /// The ids of the episodes whose type is not known; the general call reads them, and none of a type.
    pub untyped: Vec<String>,
    /// What each chosen episode was promised.
    promised: BTreeSet<(Tier, String)>,
    merge_width: usize,
}

/// A call that reads episodes.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PlannedCall {
    /// The tier of the skills that it asks for.
    pub tier: Tier,
    /// Its number among the chunks of the tier, from 1.
    pub chunk: usize,
    /// The places of its episodes in the list.
    pub places: Vec<usize>,
    /// Their ids.
    pub episodes: Vec<String>,
    /// The tokens of their texts, estimated.
    pub tokens: u64,
}

impl PlannedCall {
    /// True if its episodes lie at their places.
    pub(super) fn is_of(&self, episodes: &[TrainEpisode]) -> bool {
        let found = self.places.iter().map(|place| episodes.get(*place).map(|episode| episode.id.as_str()));
        found.eq(self.episodes.iter().map(|id| Some(id.as_str())))
    }
}

impl DistillPlan {
    /// The plan for these episodes.
    ///
    /// Every chosen episode reaches a general call and a call of its type, if it is known; failures reach a call for
    /// mistakes. Chunks have equal shares of each type and outcome, at most `episodes_per_call` episodes, and fit
    /// `max_prompt_tokens` unless a single episode does not.
    pub fn new(episodes: &[TrainEpisode], settings: &DistillSettings) -> Self {
        let costs: Vec<u64> = episodes
            .iter()
            .map(|episode| estimate_tokens(&render_episode(episode, 1, settings.max_episode_tokens)))
            .collect();
        let limit = settings.max_episodes.unwrap_or(usize::MAX);
        let order = round_robin(episodes);
        let (chosen, over) = order.split_at(limit.min(order.len()));
        let id_of = |place: &usize| episodes.get(*place).map(|episode| episode.id.clone());
        let mut tiers: BTreeMap<Tier, Vec<usize>> = BTreeMap::new();
        let (mut promised, mut untyped) = (BTreeSet::new(), Vec::new());
        let mut sorted: Vec<usize> = chosen.to_vec();
        sorted.sort_unstable();
        for place in sorted {
            let Some(episode) = episodes.get(place) else { continue };
            let of_type = episode.has_type().then(|| Tier::of_type(episode.task_type.clone()));
            if of_type.is_none() {
                untyped.push(episode.id.clone());
            }
            let mistakes = (!episode.success).then_some(Tier::Mistakes);
            for tier in [Some(Tier::General), of_type, mistakes].into_iter().flatten() {
                promised.insert((tier.clone(), episode.id.clone()));
                tiers.entry(tier).or_default().push(place);
            }
        }
        let cost_of = |places: &[usize]| places.iter().filter_map(|place| costs.get(*place)).sum();
        let calls = tiers.into_iter().flat_map(|(tier, places)| {
            let chunks = chunks(episodes, &places, &costs, settings);
            (1..)
                .zip(chunks)
                .map(|(chunk, places)| PlannedCall {
                    tier: tier.clone(),
                    chunk,
                    episodes: places.iter().filter_map(id_of).collect(),
                    tokens: cost_of(&places),
                    places,
                })
                .collect::<Vec<_>>()
        });
        Self {
            calls: calls.collect(),
            over_limit: over.iter().filter_map(id_of).collect(),
            untyped,
            promised,
            merge_width: settings.merge_width.max(2),
        }
    }

    /// The tiers, in the order of their calls.
    pub fn tiers(&self) -> impl Iterator<Item = &Tier> {
        let firsts = self.calls.iter().filter(|call| call.chunk == 1);
        firsts.map(|call| &call.tier)
    }

    /// How many chunks a tier has.
    pub fn n_chunks(&self, tier: &Tier) -> usize {
        self.calls.iter().filter(|call| call.tier == *tier).count()
    }

    /// How many calls merge the chunks of a tier, at most.
    pub(crate) fn n_merges(&self, tier: &Tier) -> usize {
        let (mut n_lists, mut n_calls) = (self.n_chunks(tier), 0);
        while n_lists > 1 {
            n_calls += merge_groups(n_lists, self.merge_width).iter().filter(|size| **size > 1).count();
            n_lists = n_lists.div_ceil(self.merge_width);
        }
        n_calls
    }

    /// How many calls the distillation takes, at most and without repairs.
    pub fn n_calls(&self) -> usize {
        self.calls.len() + self.tiers().map(|tier| self.n_merges(tier)).sum::<usize>()
    }

    /// The episodes that were promised to a tier and reach none of its calls.
    pub fn missing(&self) -> Vec<(Tier, String)> {
        let reached: BTreeSet<(&Tier, &str)> = self
            .calls
            .iter()
            .flat_map(|call| call.episodes.iter().map(|id| (&call.tier, id.as_str())))
            .collect();
        let missing = self.promised.iter().filter(|(tier, id)| !reached.contains(&(tier, id.as_str())));
        missing.cloned().collect()
    }
}

/// The sizes of the groups in which so many lists are merged.
pub(super) fn merge_groups(n_lists: usize, width: usize) -> Vec<usize> {
    let width = width.max(2);
    let (n_whole, rest) = (n_lists / width, n_lists % width);
    std::iter::repeat_n(width, n_whole).chain((rest > 0).then_some(rest)).collect()
}

type Stratum<'a> = (&'a str, bool);

fn strata<'a>(
    episodes: &'a [TrainEpisode],
    places: impl IntoIterator<Item = usize>,
) -> BTreeMap<Stratum<'a>, Vec<usize>> {
    let mut strata: BTreeMap<Stratum<'a>, Vec<usize>> = BTreeMap::new();
    for place in places {
        if let Some(episode) = episodes.get(place).map(|episode| -> &Episode { episode }) {
            strata.entry((&episode.task_type, episode.success)).or_default().push(place);
        }
    }
    strata
}

/// All places, one of each type and outcome in turn.
fn round_robin(episodes: &[TrainEpisode]) -> Vec<usize> {
    let strata = strata(episodes, 0..episodes.len());
    let longest = strata.values().map(Vec::len).max().unwrap_or(0);
    let turns = (0..longest).flat_map(|turn| strata.values().filter_map(move |places| places.get(turn)));
    turns.copied().collect()
}

/// Chunks that have equal shares of each type and outcome.
fn chunks(
    episodes: &[TrainEpisode],
    places: &[usize],
    costs: &[u64],
    settings: &DistillSettings,
) -> Vec<Vec<usize>> {
    let by_stratum: Vec<usize> = strata(episodes, places.iter().copied()).into_values().flatten().collect();
    let cost = |places: &[usize]| places.iter().filter_map(|place| costs.get(*place)).sum::<u64>();
    let by_tokens = cost(places).div_ceil(settings.max_prompt_tokens.max(1));
    let by_tokens = usize::try_from(by_tokens).unwrap_or(usize::MAX);
    let by_count = places.len().div_ceil(settings.episodes_per_call.max(1));
    let mut n_chunks = by_count.max(by_tokens).clamp(1, places.len().max(1));
    loop {
        let mut chunks = vec![Vec::new(); n_chunks];
        for (at, place) in by_stratum.iter().enumerate() {
            if let Some(chunk) = chunks.get_mut(at % n_chunks) {
                chunk.push(*place);
            }
        }
        let fits = |chunk: &Vec<usize>| chunk.len() < 2 || cost(chunk) <= settings.max_prompt_tokens;
        if n_chunks >= places.len() || chunks.iter().all(fits) {
            for chunk in &mut chunks {
                chunk.sort_unstable();
            }
            return chunks;
        }
        n_chunks = (n_chunks + n_chunks.div_ceil(8)).min(places.len());
    }
}
