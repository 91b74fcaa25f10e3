//! Episodes that were begun here, and what became of them.

use super::OutsideBank;
use super::error::OutsideError;
use super::file::Line;
use super::trial::{TrialPlace, TrialReport};
use skill_bank::Episode;
use skill_bank::episode::EpisodeStep;
use skill_bank::trial::{TrialOutcome, TrialResult};
use skill_core::{ItemId, SkillPartId};
use skill_envs::Split;
use std::collections::{HashMap, VecDeque};

/// Episodes that are remembered at most; of more, those that began first are forgotten.
const MAX_EPISODES: usize = 50_000;
/// Finished episodes that a teacher has not read yet, at most.
const MAX_UNREAD: usize = 2_000;

/// An episode that begins.
#[derive(Debug, Clone, PartialEq)]
pub struct EpisodeStart {
    /// Its id.
    pub id: String,
    /// Its task.
    pub item: ItemId,
    /// The split of the task.
    pub split: Split,
    /// The type of the task; empty if it has none.
    pub task_type: String,
    /// What is to be done.
    pub goal: String,
    /// The version of the bank that it is shown.
    pub skill_version: String,
    /// The skills of it.
    pub parts: Vec<SkillPartId>,
    /// Its place in the trial under way.
    pub trial: Option<TrialPlace>,
}

/// An episode that has ended.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct EpisodeEnd {
    /// Whether the world ended it; else its client left.
    pub is_over: bool,
    /// Whether its goal was reached.
    pub won: bool,
    /// The sum of its rewards.
    pub reward: f64,
    /// Its steps, where somebody wants them, see [`OutsideBank::wants_steps`].
    pub steps: Vec<EpisodeStep>,
    /// What was seen last.
    pub last_observation: String,
}

/// What became of a result.
#[derive(Debug, Clone, PartialEq)]
pub struct Recorded {
    /// False where the same result was recorded before.
    pub is_new: bool,
    /// Whether it counts for the trial under way.
    pub is_counted: bool,
    /// The trial under way, or the one that this result has decided.
    pub trial: Option<TrialReport>,
}

/// The episodes that are remembered.
#[derive(Default)]
pub(super) struct Episodes {
    known: HashMap<String, Known>,
    /// Their ids, the oldest first.
    order: VecDeque<String>,
    /// Episodes that their clients left, and that have no result yet.
    left: VecDeque<Episode>,
    /// What a teacher may read.
    unread: VecDeque<Episode>,
}

struct Known {
    /// None for an episode of an earlier process.
    start: Option<EpisodeStart>,
    has_ended: bool,
    won: bool,
    result: Option<Reported>,
}

#[derive(Clone)]
struct Reported {
    skill_version: String,
    trial: Option<TrialPlace>,
    reward: f64,
    is_counted: bool,
}

impl Episodes {
    fn insert(&mut self, id: String, known: Known) {
        if self.known.insert(id.clone(), known).is_none() {
            self.order.push_back(id);
        }
        while self.order.len() > MAX_EPISODES {
            if let Some(oldest) = self.order.pop_front() {
                self.known.remove(&oldest);
            }
        }
    }

    /// A result of an earlier process.
    pub(super) fn recall(
        &mut self,
        id: String,
        skill_version: String,
        trial: Option<TrialPlace>,
        reward: f64,
    ) {
        let result = Some(Reported { skill_version, trial, reward, is_counted: false });
        self.insert(id, Known { start: None, has_ended: true, won: false, result });
    }

    /// What a teacher has not read yet.
    pub(super) fn take_unread(&mut self) -> Vec<Episode> {
        std::mem::take(&mut self.unread).into()
    }

    /// Puts back what a teacher could not read.
    pub(super) fn put_back(&mut self, episodes: Vec<Episode>) {
        for episode in episodes.into_iter().rev() {
            self.unread.push_front(episode);
        }
        limit(&mut self.unread);
    }

    pub(super) fn n_unread(&self) -> usize {
        self.unread.len()
    }
}

fn limit(episodes: &mut VecDeque<Episode>) {
    while episodes.len() > MAX_UNREAD {
        episodes.pop_front();
    }
}

impl OutsideBank {
    /// Refuses the id of an episode that was begun before.
    ///
    /// # Errors
    ///
    /// [`OutsideError::EpisodeTaken`].
    pub fn check_new(&self, id: &str) -> Result<(), OutsideError> {
        match self.episodes.known.contains_key(id) {
            true => Err(OutsideError::EpisodeTaken { id: id.to_owned() }),
            false => Ok(()),
        }
    }

    /// Remembers an episode that begins.
    ///
    /// # Errors
    ///
    /// [`OutsideError::EpisodeTaken`].
    pub fn begin(&mut self, start: EpisodeStart) -> Result<(), OutsideError> {
        self.check_new(&start.id)?;
        let id = start.id.clone();
        self.episodes.insert(id, Known { start: Some(start), has_ended: false, won: false, result: None });
        Ok(())
    }

    /// True if a teacher may read the steps of an episode about this task.
    pub fn wants_steps(&self, item: &ItemId, split: Split) -> bool {
        split == Split::Train && self.sets.as_ref().is_some_and(|sets| sets.train().contains(item))
    }

    /// Takes over how an episode ended. One that its client left is read by a teacher only if it has a result.
    pub fn end(&mut self, id: &str, end: EpisodeEnd) {
        let Some(known) = self.episodes.known.get_mut(id).filter(|known| !known.has_ended) else { return };
        (known.has_ended, known.won) = (true, end.won);
        let counts = end.is_over || known.result.is_some();
        let episode = known.start.as_ref().filter(|_| !end.steps.is_empty());
        let Some(episode) = episode.map(|start| read_by_teacher(start, end, self.env.name())) else { return };
        let waiting = if counts { &mut self.episodes.unread } else { &mut self.episodes.left };
        waiting.push_back(episode);
        limit(waiting);
    }

    /// Records what an episode was worth to a trainer. The same result twice is one result.
    ///
    /// # Errors
    ///
    /// An episode or a version that is not known, another version than the episode was shown, another result than was
    /// recorded, and a bank that cannot be written.
    pub fn report(&mut self, id: &str, skill_version: &str, reward: f64) -> Result<Recorded, OutsideError> {
        if !reward.is_finite() {
            return Err(OutsideError::BadReward);
        }
        self.refresh()?;
        let Some(known) = self.episodes.known.get(id) else {
            return Err(OutsideError::UnknownEpisode { id: id.to_owned() });
        };
        let (won, start) = (known.won, known.start.clone());
        if let Some(Reported { skill_version: shown, trial, reward: recorded, is_counted }) =
            known.result.clone()
        {
            self.check_version(id, &shown, trial.as_ref(), skill_version)?;
            if recorded.to_bits() != reward.to_bits() {
                return Err(OutsideError::OtherResult { id: id.to_owned(), recorded, reward });
            }
            return Ok(Recorded { is_new: false, is_counted, trial: self.trial_report() });
        }
        let start = start.ok_or_else(|| OutsideError::UnknownEpisode { id: id.to_owned() })?;
        let EpisodeStart { item, skill_version: shown, trial: place, .. } = start;
        self.check_version(id, &shown, place.as_ref(), skill_version)?;
        let outcome = TrialResult { is_success: won || reward >= 1.0, score: reward.clamp(0.0, 1.0) };
        self.results.append(&Line::Result {
            episode: id.to_owned(),
            item: item.clone(),
            skill_version: shown.clone(),
            reward,
            outcome,
            trial: place.clone(),
        })?;
        let is_counted = self.count(&item, outcome, place.as_ref())?;
        let result = Reported { skill_version: shown, trial: place, reward, is_counted };
        if let Some(known) = self.episodes.known.get_mut(id) {
            known.result = Some(result);
        }
        let was_left = self.episodes.left.iter().position(|episode| episode.id == id);
        if let Some(episode) = was_left.and_then(|place| self.episodes.left.remove(place)) {
            self.episodes.unread.push_back(episode);
            limit(&mut self.episodes.unread);
        }
        let trial = self.after_result()?;
        Ok(Recorded { is_new: true, is_counted, trial })
    }

    /// Counts what an episode came to; returns whether it is one of the trial under way.
    pub(super) fn count(
        &mut self,
        item: &ItemId,
        outcome: TrialResult,
        place: Option<&TrialPlace>,
    ) -> Result<bool, OutsideError> {
        let is_partial = TrialOutcome::of_scores([outcome.score]) == TrialOutcome::Score;
        if is_partial && place.is_none() {
            self.scores = TrialOutcome::Score;
        }
        if place.is_none_or(|place| !place.has_candidate()) {
            self.rates.count(item, outcome.is_success);
        }
        match (&mut self.trial, place) {
            (Some(trial), Some(place)) => trial.take_result(place, outcome),
            _ => Ok(false),
        }
    }

    /// Compares the version that a trainer names with what the episode was shown.
    fn check_version(
        &mut self,
        id: &str,
        shown: &str,
        trial: Option<&TrialPlace>,
        named: &str,
    ) -> Result<(), OutsideError> {
        let is_candidate =
            trial.is_some_and(|trial| trial.has_candidate() && trial.candidate.to_string() == named);
        if named == shown || is_candidate {
            return Ok(());
        }
        if named != "off" {
            self.version(named)?;
        }
        let (id, shown, version) = (id.to_owned(), shown.to_owned(), named.to_owned());
        Err(OutsideError::OtherVersion { id, shown, version })
    }
}

/// An episode as a teacher reads it.
fn read_by_teacher(start: &EpisodeStart, end: EpisodeEnd, environment: &str) -> Episode {
    let mut episode = Episode::new(&start.id, start.item.clone(), &start.goal, end.won, end.reward);
    episode.task_type.clone_from(&start.task_type);
    episode.steps = end.steps;
    episode.last_observation = end.last_observation;
    episode.environment = environment.to_lowercase();
    episode.skills_shown.clone_from(&start.parts);
    episode
}
