//! A world of doors: the door that the goal names is opened by its colour, after one look around.

use async_trait::async_trait;
use serde_json::json;
use skill_bank::Episode;
use skill_bank::episode::EpisodeStep;
use skill_envs::{AgentSettings, EnvError, Item, Observation, Split, World, WorldEnv};
use std::sync::Arc;

const COLOURS: [&str; 3] = ["red", "blue", "green"];

pub(crate) struct Doors {
    items: [Vec<Item>; 3],
}

impl Doors {
    pub(crate) fn new(n_train: usize) -> Self {
        let items = |prefix: &str, n: usize| {
            let item = |place: usize| {
                let mut item = Item::new(format!("{prefix}-{place}"), json!(COLOURS[place % COLOURS.len()]));
                item.task_type = "open".to_owned();
                item
            };
            (0..n).map(item).collect()
        };
        Self { items: [items("train", n_train), items("val", 3), items("test", 3)] }
    }

    pub(crate) fn env(n_train: usize, settings: AgentSettings) -> Arc<WorldEnv> {
        Arc::new(WorldEnv::new(Arc::new(Self::new(n_train)), settings, None).unwrap())
    }
}

/// The whole history is in the prompt, so an episode is one example.
pub(crate) fn whole_history() -> AgentSettings {
    AgentSettings {
        think: false,
        show_admissible: false,
        history_turns: None,
        max_tokens: Some(40),
        max_invalid_actions: Some(2),
        ..AgentSettings::default()
    }
}

impl World for Doors {
    fn name(&self) -> &str {
        "doors"
    }

    fn items(&self, split: Split) -> &[Item] {
        match split {
            Split::Train => &self.items[0],
            Split::Val => &self.items[1],
            Split::Test => &self.items[2],
        }
    }

    fn goal(&self, item: &Item) -> Option<String> {
        Some(format!("open the {} door", item.data.as_str().unwrap()))
    }

    fn instructions(&self) -> &str {
        "Actions: look, open COLOUR."
    }

    fn episode(&self, item: &Item) -> Result<Box<dyn skill_envs::Episode>, EnvError> {
        let task = self.goal(item).unwrap();
        Ok(Box::new(Play {
            task,
            answer: format!("open {}", item.data.as_str().unwrap()),
            has_looked: false,
        }))
    }
}

struct Play {
    task: String,
    answer: String,
    has_looked: bool,
}

#[async_trait]
impl skill_envs::Episode for Play {
    async fn reset(&mut self) -> Result<Observation, EnvError> {
        self.has_looked = false;
        Ok(self.seen("It is dark."))
    }

    async fn step(&mut self, action: &str) -> Result<Observation, EnvError> {
        if action == "look" {
            self.has_looked = true;
            return Ok(self.seen("Three doors."));
        }
        if self.has_looked && action == self.answer {
            return Ok(Observation { won: true, done: true, reward: 1.0, ..self.seen("It opens.") });
        }
        Ok(Observation { understood: action.starts_with("open"), ..self.seen("Nothing happens.") })
    }

    fn task(&self) -> Option<&str> {
        Some(&self.task)
    }
}

impl Play {
    fn seen(&self, text: &str) -> Observation {
        let admissible = COLOURS.iter().map(|colour| format!("open {colour}")).chain(["look".to_owned()]);
        Observation { admissible: Some(admissible.collect()), ..Observation::new(text) }
    }
}

/// The walk of an agent through a task of this id.
pub(crate) fn walk(item: &str, actions: &[&str]) -> Episode {
    let mut episode = Episode::new(format!("walk of {item}"), item.into(), "open a door", true, 1.0);
    episode.steps = actions.iter().map(|action| EpisodeStep::new("", *action)).collect();
    episode
}

/// Walks that win, through so many training tasks.
pub(crate) fn wins(n: usize) -> Vec<Episode> {
    let won = |place: usize| {
        walk(&format!("train-{place}"), &["look", &format!("open {}", COLOURS[place % COLOURS.len()])])
    };
    (0..n).map(won).collect()
}
