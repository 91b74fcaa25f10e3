//! ALFWorld as a data set of episodes.

use super::config::{AlfworldConfig, Rooms, Unplayable};
use super::error::GameError;
use super::files::{load, read_text, trajectory_beside};
use super::game::Game;
use super::generate::{GeneratedGame, RoomLimits, generate, generate_small, split_of_room};
use super::list::{games, split_directory};
use super::play::{Play, Turn};
use super::task::TaskType;
use crate::episode::{Episode, Observation, World};
use crate::error::EnvError;
use crate::item::{Item, Split, Splits};
use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use skill_core::{ItemId, SkillHash};
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What an agent has to know to act in a household.
pub const INSTRUCTIONS: &str = "You act in a household by text commands, one at a time. A command is written \
exactly as the admissible commands are; any other does nothing. The episode ends when the task is done.";

/// The games of a data set, or generated ones.
///
/// Each game is read and checked when the world is made, and read again when it is played: a data set of thousands
/// of games takes no memory but for its list.
#[derive(Debug)]
pub struct AlfworldWorld {
    data: PathBuf,
    splits: Splits<Vec<Item>>,
    /// What is to be done in each game.
    goals: HashMap<ItemId, String>,
    left_out: Vec<String>,
    settings: Value,
}

/// What an item says of its game.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum GameSource {
    /// A file, relative to the data directory where it is below it, and the hash of its text: a run does not go on
    /// with a game that has changed.
    Game { file: String, content: SkillHash },
    /// A game that is regenerated from its seed.
    Generated {
        seed: u64,
        key: String,
        task_type: TaskType,
        #[serde(default, skip_serializing_if = "Rooms::is_full")]
        rooms: Rooms,
    },
}

/// The game of a seed and a key in rooms of this size.
fn made(rooms: Rooms, seed: u64, key: &str, task_type: TaskType) -> Result<GeneratedGame, GameError> {
    match rooms {
        Rooms::Full => generate(seed, key, task_type),
        Rooms::Small => generate_small(seed, key, task_type, RoomLimits::SMALL),
    }
}

impl AlfworldWorld {
    /// Finds the games, and checks each: that it can be read, has known rules, and that a plan reaches its goal.
    ///
    /// # Errors
    ///
    /// Data that cannot be read, a split without games, a game in two splits, and, unless they are left out, games
    /// that cannot be played; with the file and what is wrong.
    pub fn new(config: &AlfworldConfig) -> Result<Self, EnvError> {
        let mut world = Self {
            data: config.data.clone().unwrap_or_default(),
            splits: Default::default(),
            goals: HashMap::new(),
            left_out: Vec::new(),
            settings: serde_json::json!({ "world": "alfworld", "format": 1 }),
        };
        let mut seen = HashSet::new();
        for split in Split::ALL {
            let items = match &config.data {
                Some(data) => world.find(config, data, split)?,
                None => world.generate(config, split)?,
            };
            for item in &items {
                if !seen.insert(item.id.clone()) {
                    let message = format!("the game `{}` is in two splits", item.id);
                    return Err(EnvError::Configuration { message });
                }
            }
            world.splits[split] = items;
        }
        Ok(world)
    }

    /// The games that were left out, each with its file and the reason.
    pub fn left_out(&self) -> &[String] {
        &self.left_out
    }

    /// The game of an item.
    ///
    /// # Errors
    ///
    /// The item is not one of this world's, or its game cannot be read any more.
    pub fn game(&self, item: &Item) -> Result<Game, EnvError> {
        let broken = |message: String| EnvError::Broken { item: item.id.clone(), message };
        let source = GameSource::deserialize(item.data.as_ref())
            .map_err(|error| broken(format!("is not a game of ALFWorld: {error}")))?;
        match source {
            GameSource::Game { file, .. } => Ok(load(&self.data.join(file))?.game),
            GameSource::Generated { seed, key, task_type, rooms } => made(rooms, seed, &key, task_type)
                .map(|generated| generated.game)
                .map_err(|error| broken(error.to_string())),
        }
    }

    /// The games of a split of the data.
    fn find(&mut self, config: &AlfworldConfig, data: &Path, split: Split) -> Result<Vec<Item>, EnvError> {
        let source = match &config.splits[split] {
            Some(source) => [data.join(source), source.clone()]
                .into_iter()
                .find(|path| path.exists())
                .ok_or_else(|| EnvError::Configuration {
                    message: format!(
                        "there is nothing at {}, named for the split `{split}`",
                        source.display()
                    ),
                })?,
            None => {
                let name = directory_name(split);
                split_directory(data, name).ok_or_else(|| EnvError::BadData {
                    path: data.to_path_buf(),
                    message: format!("has no directory `{name}` for the split `{split}`"),
                })?
            }
        };
        let mut items = Vec::new();
        for file in games(&source, data)? {
            if items.len() >= config.limit(split) {
                break;
            }
            match checked(&file, &config.task_types) {
                Ok(Some((task_type, goal))) => {
                    let item = self.item(&file, task_type)?;
                    self.goals.insert(item.id.clone(), goal);
                    items.push(item);
                }
                Ok(None) => {}
                Err(error) => match config.unplayable {
                    Unplayable::Refuse => return Err(error),
                    Unplayable::LeaveOut => self.left_out.push(error.to_string()),
                },
            }
        }
        if items.is_empty() && config.limit(split) > 0 {
            let message = format!("has no game that can be played, so the split `{split}` is empty");
            return Err(EnvError::BadData { path: source, message });
        }
        Ok(items)
    }

    /// The games of a split that are made; the kinds of task take turns.
    fn generate(&mut self, config: &AlfworldConfig, split: Split) -> Result<Vec<Item>, EnvError> {
        let tasks = if config.task_types.is_empty() { &TaskType::ALL } else { config.task_types.as_slice() };
        let n_games = config.generated.of(split).min(config.limit(split));
        let (seed, rooms) = (config.generated.seed, config.generated.rooms);
        let mut items = Vec::with_capacity(n_games);
        let mut numbers = 1_usize..;
        for task_type in tasks.iter().copied().cycle().take(n_games) {
            let (key, goal) = next_game(&mut numbers, split, (rooms, seed, task_type))?;
            let size = if rooms.is_full() { "" } else { "small/" };
            let id = format!("generated-{seed}/{size}{key}-{task_type}");
            let item = item(id, task_type, &GameSource::Generated { seed, key, task_type, rooms });
            self.goals.insert(item.id.clone(), goal);
            items.push(item);
        }
        Ok(items)
    }

    fn item(&self, path: &Path, task_type: TaskType) -> Result<Item, EnvError> {
        let file = path.strip_prefix(&self.data).unwrap_or(path).to_string_lossy().replace('\\', "/");
        let id = file.strip_suffix("/game.tw-pddl").unwrap_or(&file).to_owned();
        let content = SkillHash::of(&read_text(path)?);
        Ok(item(id, task_type, &GameSource::Game { file, content }))
    }
}

/// Key and goal of the next game of a split. Small rooms are few enough to come twice: each belongs to one split.
fn next_game(
    numbers: &mut std::ops::RangeFrom<usize>,
    split: Split,
    (rooms, seed, task_type): (Rooms, u64, TaskType),
) -> Result<(String, String), EnvError> {
    for number in numbers {
        let key = format!("{split}/{number}");
        let generated = made(rooms, seed, &key, task_type).map_err(|error| EnvError::Configuration {
            message: format!("game {key} cannot be made: {error}"),
        })?;
        let goal = generated.game.task().to_owned();
        let mut play = Play::new(Arc::new(generated.game));
        if rooms.is_full() || split_of_room(play.reset().observation) == split {
            return Ok((key, goal));
        }
    }
    Err(EnvError::Configuration { message: format!("no room of the split `{split}` was found") })
}

/// The data set's own name for a split.
fn directory_name(split: Split) -> &'static str {
    match split {
        Split::Train => "train",
        Split::Val => "valid_seen",
        Split::Test => "valid_unseen",
    }
}

/// The kind of task of a game that can be played, and its goal; `None` for one that is not to be played here.
fn checked(file: &Path, task_types: &[TaskType]) -> Result<Option<(TaskType, String)>, EnvError> {
    let is_wanted = |task: &TaskType| task_types.is_empty() || task_types.contains(task);
    let said = match trajectory_beside(file)? {
        Some(trajectory) => match TaskType::parse(&trajectory.task_type).filter(is_wanted) {
            Some(task) => Some(task),
            // A kind of which no games are played, or that is not asked for: the file need not be read.
            None => return Ok(None),
        },
        None => None,
    };
    let loaded = load(file)?;
    let task = said.unwrap_or_else(|| loaded.game.task_type());
    if !is_wanted(&task) || loaded.solvable == Some(false) {
        return Ok(None);
    }
    let playable = (task, loaded.game.task().to_owned());
    match loaded.game.plan() {
        Ok(_) => Ok(Some(playable)),
        // The planner does not know every goal, and somebody has solved this one.
        Err(GameError::Unsolvable { .. }) if loaded.solvable == Some(true) => Ok(Some(playable)),
        Err(error) => Err(error.in_file(file)),
    }
}

fn item(id: String, task_type: TaskType, source: &GameSource) -> Item {
    Item {
        id: id.into(),
        task_type: task_type.as_str().to_owned(),
        // A string or a number in an object always becomes JSON.
        data: Arc::new(serde_json::to_value(source).expect("a source serializes")),
    }
}

impl World for AlfworldWorld {
    fn name(&self) -> &str {
        "alfworld"
    }

    fn items(&self, split: Split) -> &[Item] {
        &self.splits[split]
    }

    fn settings(&self) -> Value {
        self.settings.clone()
    }

    fn goal(&self, item: &Item) -> Option<String> {
        self.goals.get(&item.id).cloned()
    }

    fn instructions(&self) -> &str {
        INSTRUCTIONS
    }

    fn episode(&self, item: &Item) -> Result<Box<dyn Episode>, EnvError> {
        Ok(Box::new(AlfworldEpisode::new(Arc::new(self.game(item)?))))
    }
}

/// A game as an episode: each observation lists the admissible commands.
#[derive(Debug, Clone)]
pub struct AlfworldEpisode {
    play: Play,
    /// The reward that was given so far: reaching the goal is worth 1, once.
    is_rewarded: bool,
}

impl AlfworldEpisode {
    /// An episode of this game.
    pub fn new(game: Arc<Game>) -> Self {
        Self { play: Play::new(game), is_rewarded: false }
    }

    /// The play behind it.
    pub fn play(&self) -> &Play {
        &self.play
    }
}

fn observed(turn: Turn<'_>) -> Observation {
    Observation {
        text: turn.observation.to_owned(),
        admissible: None,
        reward: turn.reward,
        done: turn.done,
        won: turn.won,
        understood: turn.understood,
    }
}

#[async_trait]
impl Episode for AlfworldEpisode {
    async fn reset(&mut self) -> Result<Observation, EnvError> {
        self.is_rewarded = false;
        let observation = observed(self.play.reset());
        Ok(Observation { admissible: Some(self.play.admissible()), ..observation })
    }

    async fn step(&mut self, action: &str) -> Result<Observation, EnvError> {
        let observation = observed(self.play.step(action));
        // The original says 1 at every step at which the goal holds; here rewards add up to the score.
        let reward = if self.is_rewarded { 0.0 } else { observation.reward };
        self.is_rewarded |= observation.won;
        Ok(Observation { admissible: Some(self.play.admissible()), reward, ..observation })
    }

    fn task(&self) -> Option<&str> {
        Some(self.play.game().task())
    }
}
