//! One session: an environment of its own, one episode at a time.
//!
//! # Invariants
//!
//! - Only `close` and a message above the size limit end a session, and no message of one session affects another.
//!   Held by `messages_that_are_wrong_are_answered_and_the_session_goes_on`,
//!   `a_message_of_10_mb_ends_its_session_and_no_other`,
//!   `ten_thousand_messages_at_once_are_answered_in_order_while_others_play`.
//! - A world that breaks is an error and never a reward. Held by `a_world_that_breaks_is_an_error_and_no_score`.

use crate::app::App;
use crate::skills::{Picked, SkillsAsked};
use crate::tasks::Asked;
use crate::wire::{ErrorCode, Fault, Incoming, Observed, Outgoing, Seen, State, command, no_mcp};
use serde_json::{Map, Value, json};
use skill_bank::episode::EpisodeStep;
use skill_envs::{EnvError, Episode, Item, Observation, Split, TaskView};
use skill_llm::error::with_causes;
use skill_pipeline::bank::outside::EpisodeEnd;
use std::sync::Arc;

/// The most characters of an observation or an action that a teacher reads.
const MAX_SHOWN: usize = 2_000;

/// What becomes of a session after a message.
#[derive(Debug, PartialEq)]
pub(crate) enum Answer {
    /// The session continues after this reply.
    Reply(String),
    /// The client has ended it.
    Closed,
}

/// A session.
pub(crate) struct Session {
    app: Arc<App>,
    playing: Option<Playing>,
}

/// An episode under way, or over.
struct Playing {
    episode: Box<dyn Episode>,
    id: String,
    task: String,
    split: Split,
    skills: Picked,
    n_steps: u64,
    total_reward: f64,
    done: bool,
    won: bool,
    /// The steps, where a teacher may read them.
    steps: Option<Vec<EpisodeStep>>,
    /// What was seen last.
    seen: String,
}

impl Session {
    pub(crate) fn new(app: Arc<App>) -> Self {
        Self { app, playing: None }
    }

    /// Answers a message; whatever is wrong with it, the session goes on.
    pub(crate) async fn answer(&mut self, message: &str) -> Answer {
        let reply = match Incoming::read(message) {
            Ok(Incoming::Close) => return Answer::Closed,
            Ok(Incoming::Reset(data)) => self.reset(&data).await,
            Ok(Incoming::Step(action)) => self.step(action).await,
            Ok(Incoming::State) => Ok(Outgoing::State(self.state()).text()),
            Ok(Incoming::Mcp(id)) => Ok(Outgoing::Mcp(no_mcp(id)).text()),
            Err(fault) => Err(fault),
        };
        Answer::Reply(reply.unwrap_or_else(|fault| Outgoing::Error(fault).text()))
    }

    /// Begins an episode. Parameters that are wrong leave the one before as it was.
    pub(crate) async fn reset(&mut self, data: &Map<String, Value>) -> Result<String, Fault> {
        let asked = Asked::read(data)?;
        let skills = SkillsAsked::read(data)?;
        let app = Arc::clone(&self.app);
        let (split, item) = app.tasks.choose(&asked)?;
        let id = app.episode_id(asked.episode_id)?;
        // The world of the episode before may be the only one that there is.
        self.leave();
        let world = app.tasks.world();
        let mut episode =
            world.episode(item).map_err(|error| Fault::new(ErrorCode::FactoryError, with_causes(&error)))?;
        let begun = match asked.seed {
            Some(seed) => tokio::time::timeout(app.limits.reset, episode.reset_with_seed(seed)).await,
            None => tokio::time::timeout(app.limits.reset, episode.reset()).await,
        };
        let seen = begun
            .map_err(|_| {
                let seconds = app.limits.reset.as_secs();
                let message = format!("the environment was not ready within {seconds} seconds");
                Fault::new(ErrorCode::FactoryError, message)
            })?
            .map_err(broken)?;
        let goal = app.goal(item, episode.as_ref(), &seen);
        let task = TaskView::new(item, &goal);
        let skills = app.skills.pick(&skills, &task, split).await?;
        let steps = app.begin(&id, item, split, &goal, &skills)?;
        let playing = Playing {
            episode,
            id,
            task: item.id.to_string(),
            split,
            skills,
            n_steps: 0,
            total_reward: seen.reward,
            done: seen.done,
            won: seen.won,
            steps,
            seen: seen.text.clone(),
        };
        let metadata = playing.metadata(item, &goal);
        let reply = observed(&first_text(&playing, &seen), &seen, None, &metadata);
        self.playing = Some(playing);
        Ok(reply)
    }

    async fn step(&mut self, action: Map<String, Value>) -> Result<String, Fault> {
        let command = command(action)?;
        let Some(playing) = &mut self.playing else {
            let message = "no episode has begun: send `reset` before the first `step`";
            return Err(Fault::new(ErrorCode::ExecutionError, message));
        };
        if playing.done {
            let message = "the episode is over: send `reset` to begin another one";
            return Err(Fault::new(ErrorCode::ExecutionError, message));
        }
        let seen = match playing.episode.step(&command).await {
            Ok(seen) => seen,
            Err(error) => {
                // A broken environment ends the episode, and does not count as a failure of the agent.
                self.playing = None;
                return Err(broken(error));
            }
        };
        if let Some(steps) = &mut playing.steps {
            let before = std::mem::replace(&mut playing.seen, clipped(&seen.text));
            let mut step = EpisodeStep::new(before, clipped(&command));
            step.reward = Some(seen.reward);
            steps.push(step);
        }
        playing.n_steps += 1;
        playing.total_reward += seen.reward;
        (playing.done, playing.won) = (seen.done || seen.won, seen.won);
        let most = self.app.max_steps.filter(|_| !playing.done);
        let is_cut = most.is_some_and(|most| playing.n_steps >= u64::from(most));
        playing.done |= is_cut;
        if playing.done {
            self.app.end(playing.end(true));
        }
        let mut metadata = Map::new();
        if is_cut {
            metadata.insert("truncated".to_owned(), json!(true));
        }
        if !seen.understood {
            metadata.insert("understood".to_owned(), json!(false));
        }
        if playing.done {
            metadata.insert("won".to_owned(), json!(playing.won));
            metadata.insert("total_reward".to_owned(), json!(playing.total_reward.clamp(0.0, 1.0)));
        }
        let seen = Observation { done: playing.done, ..seen };
        Ok(observed(&seen.text, &seen, Some(seen.reward), &metadata))
    }

    pub(crate) fn state(&self) -> State<'_> {
        let Some(playing) = &self.playing else { return State::default() };
        State {
            episode_id: Some(&playing.id),
            step_count: playing.n_steps,
            task_id: Some(&playing.task),
            split: Some(playing.split.as_str()),
            skill_version: Some(&playing.skills.version),
            total_reward: Some(playing.total_reward),
            done: Some(playing.done),
            won: Some(playing.won),
        }
    }

    /// Ends the episode under way, if there is one.
    pub(crate) fn leave(&mut self) {
        if let Some(mut playing) = self.playing.take().filter(|playing| !playing.done) {
            self.app.end(playing.end(false));
        }
    }
}

/// What the agent reads first: the skills, the task where the world does not show it, and what is seen.
fn first_text(playing: &Playing, seen: &Observation) -> String {
    let skills = playing.skills.text.trim();
    let task = playing.episode.task().unwrap_or_default().trim();
    let task =
        if task.is_empty() || seen.text.contains(task) { String::new() } else { format!("Task: {task}") };
    let parts = [skills, &task, &seen.text].into_iter().filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join("\n\n")
}

impl Drop for Session {
    fn drop(&mut self) {
        self.leave();
    }
}

impl Playing {
    /// How it ended: by the world or its limit of steps, or since its client left.
    fn end(&mut self, is_over: bool) -> (String, EpisodeEnd) {
        let end = EpisodeEnd {
            is_over,
            won: self.won,
            reward: self.total_reward.clamp(0.0, 1.0),
            steps: self.steps.take().unwrap_or_default(),
            last_observation: clipped(&self.seen),
        };
        (self.id.clone(), end)
    }

    /// What a reset tells besides the observation.
    fn metadata(&self, item: &Item, goal: &str) -> Map<String, Value> {
        let mut metadata = Map::new();
        metadata.insert("episode_id".to_owned(), json!(self.id));
        metadata.insert("task_id".to_owned(), json!(self.task));
        metadata.insert("split".to_owned(), json!(self.split.as_str()));
        if !item.task_type.is_empty() {
            metadata.insert("task_type".to_owned(), json!(item.task_type));
        }
        if !goal.is_empty() {
            metadata.insert("goal".to_owned(), json!(goal));
        }
        metadata.insert("skills".to_owned(), self.skills.metadata());
        metadata
    }
}

fn observed(text: &str, seen: &Observation, reward: Option<f64>, metadata: &Map<String, Value>) -> String {
    let admissible_commands = seen.admissible.as_deref().unwrap_or_default();
    let observation = Seen { metadata, text, admissible_commands };
    Outgoing::Observation(Observed { observation, reward, done: seen.done, metadata }).text()
}

/// A text as a teacher reads it at most.
fn clipped(text: &str) -> String {
    text.chars().take(MAX_SHOWN).collect()
}

fn broken(error: EnvError) -> Fault {
    Fault::new(ErrorCode::ExecutionError, with_causes(&error))
}
