//! Reads games from the files of the data set.
//!
//! A game is a directory with `game.tw-pddl` and `traj_data.json`, or with `initial_state.pddl` and `traj_data.json`
//! where the game file was not made yet.

use super::error::GameError;
use super::game::Game;
use super::pddl::MAX_PROBLEM_BYTES;
use super::rules::{Rules, task_of};
use super::task::TaskType;
use crate::error::{EnvError, read_error};
use serde::{Deserialize, Serialize};
use skill_llm::text_file;
use std::borrow::Cow;
use std::path::{Path, PathBuf};

/// The name of a game file.
pub(crate) const GAME_FILE: &str = "game.tw-pddl";
/// The name of the file that tells how a game came about.
const TRAJECTORY_FILE: &str = "traj_data.json";
/// The name of the file with the problem alone.
const PROBLEM_FILE: &str = "initial_state.pddl";
/// The largest game file that is read.
const MAX_FILE_BYTES: u64 = 4 * MAX_PROBLEM_BYTES as u64;

/// What a game file holds, as far as it is read.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct GameFile<'a> {
    /// The domain; a file without one is played by the domain that belongs to its rules.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub pddl_domain: Option<Cow<'a, str>>,
    /// The grammar with the task in it, as in the data set.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub grammar: Option<Cow<'a, str>>,
    /// The name of the rules where domain and grammar are not written out, as in files that were written here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rules: Option<RulesName>,
    /// The task where there is no grammar to hold it.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub task: Option<Cow<'a, str>>,
    /// The problem.
    #[serde(borrow)]
    pub pddl_problem: Cow<'a, str>,
    /// Whether a plan is known to reach the goal; `None` where nobody has looked.
    pub solvable: Option<bool>,
    /// Commands that reach the goal.
    pub walkthrough: Option<Vec<String>>,
}

/// The names of known rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum RulesName {
    /// [`Rules::FIRST`].
    #[serde(rename = "alfworld-0.2")]
    Alfworld02,
    /// [`Rules::CURRENT`].
    #[serde(rename = "alfworld-0.4")]
    Alfworld04,
}

impl RulesName {
    /// The rules of this name.
    pub fn rules(self) -> Rules {
        match self {
            Self::Alfworld02 => Rules::FIRST,
            Self::Alfworld04 => Rules::CURRENT,
        }
    }
}

impl GameFile<'_> {
    /// The game of this file.
    ///
    /// # Errors
    ///
    /// Unknown rules, or a problem that cannot be played.
    pub fn game(&self) -> Result<Game, GameError> {
        let missing = |message: &str| GameError::Rules { message: message.to_owned() };
        match (&self.grammar, self.rules) {
            (Some(grammar), None) => {
                let rules = Rules::recognise(self.pddl_domain.as_deref(), grammar)?;
                Game::from_problem(rules, &task_of(grammar)?, &self.pddl_problem)
            }
            (None, Some(name)) => {
                let task = self.task.as_deref().ok_or_else(|| missing("`task` is missing beside `rules`"))?;
                Game::from_problem(name.rules(), task, &self.pddl_problem)
            }
            (None, None) => Err(missing("`grammar` is missing, so it is not known how the game speaks")),
            (Some(_), Some(_)) => Err(missing("`grammar` and `rules` exclude each other")),
        }
    }
}

/// What `traj_data.json` tells about a game.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct TrajectoryData {
    /// The name of the kind of task; the data set has more kinds than games are made of.
    pub task_type: String,
    /// What the task is about.
    #[serde(default)]
    pub pddl_params: TaskParameters,
}

/// What a task is about; classes as in `Mug`, empty where there is none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct TaskParameters {
    /// The class of the object.
    pub object_target: String,
    /// The class of the receptacle.
    pub parent_target: String,
    /// The class of the lamp.
    pub toggle_target: String,
    /// Whether the object is to be sliced.
    pub object_sliced: bool,
}

impl TrajectoryData {
    /// The sentence of the task, in the first of the original's two wordings of each kind.
    pub fn task(&self) -> Option<String> {
        let TaskParameters { object_target, parent_target, toggle_target, object_sliced } = &self.pddl_params;
        let (object, place) = (object_target.to_lowercase(), parent_target.to_lowercase());
        let task = TaskType::parse(&self.task_type)?;
        Some(task_sentence(task, &object, &place, &toggle_target.to_lowercase(), *object_sliced))
    }
}

/// The sentence in which the original states a task.
pub(super) fn task_sentence(
    task: TaskType,
    object: &str,
    place: &str,
    lamp: &str,
    is_sliced: bool,
) -> String {
    let slice = if is_sliced { "slice of " } else { "" };
    let sliced = if is_sliced { "sliced " } else { "" };
    match task {
        TaskType::PickAndPlace if is_sliced => format!("slice {object} and put in {place}."),
        TaskType::PickAndPlace => format!("put a {object} in {place}."),
        TaskType::LookInLight => format!("look at {sliced}{object} under the {lamp}."),
        TaskType::CleanAndPlace => format!("put a clean {slice}{object} in {place}."),
        TaskType::HeatAndPlace => format!("put a hot {slice}{object} in {place}."),
        TaskType::CoolAndPlace => format!("put a cool {slice}{object} in {place}."),
        TaskType::PickTwoAndPlace => format!("put two {sliced}{object} in {place}."),
    }
}

/// A game as it was found, with what its files say of it.
#[derive(Debug)]
pub struct LoadedGame {
    /// The game.
    pub game: Game,
    /// The file that it came from.
    pub file: PathBuf,
    /// Whether a plan is known to reach the goal; `None` where nobody has looked.
    pub solvable: Option<bool>,
}

/// Loads the game at a path: a game file, a problem file, or a directory of the data set.
///
/// # Errors
///
/// A file that cannot be read or is not a game; the error names it, and the place in it.
pub fn load(path: &Path) -> Result<LoadedGame, EnvError> {
    if path.is_dir() {
        let file = path.join(GAME_FILE);
        return if file.is_file() {
            load_game_file(&file)
        } else {
            load_problem_file(&path.join(PROBLEM_FILE))
        };
    }
    if path.extension().is_some_and(|extension| extension == "pddl") {
        load_problem_file(path)
    } else {
        load_game_file(path)
    }
}

fn load_game_file(path: &Path) -> Result<LoadedGame, EnvError> {
    let text = read_text(path)?;
    let file: GameFile<'_> =
        serde_json::from_str(&text).map_err(|error| bad_json(path, "game file", &error))?;
    let game = file.game().map_err(|error| error.in_file(path))?;
    Ok(LoadedGame { game, file: path.to_path_buf(), solvable: file.solvable })
}

/// A game that was not made into a game file is played by the current rules.
fn load_problem_file(path: &Path) -> Result<LoadedGame, EnvError> {
    let problem = read_text(path)?;
    let trajectory_file = path.with_file_name(TRAJECTORY_FILE);
    let trajectory = load_trajectory(&trajectory_file)?;
    let task = trajectory.task().ok_or_else(|| EnvError::BadData {
        path: trajectory_file,
        message: format!("`task_type` is `{}`, of which no games are made", trajectory.task_type),
    })?;
    let game =
        Game::from_problem(Rules::CURRENT, &task, &problem).map_err(|error| error.in_problem_file(path))?;
    Ok(LoadedGame { game, file: path.to_path_buf(), solvable: None })
}

/// Reads what is beside a game.
///
/// # Errors
///
/// A file that cannot be read or says no kind of task.
pub(super) fn load_trajectory(path: &Path) -> Result<TrajectoryData, EnvError> {
    let text = read_text(path)?;
    serde_json::from_str(&text).map_err(|error| bad_json(path, "trajectory", &error))
}

/// The trajectory that is beside a game file, if there is one.
///
/// # Errors
///
/// A file that is there and cannot be read.
pub(crate) fn trajectory_beside(game_file: &Path) -> Result<Option<TrajectoryData>, EnvError> {
    let path = game_file.with_file_name(TRAJECTORY_FILE);
    if path.is_file() { load_trajectory(&path).map(Some) } else { Ok(None) }
}

pub(super) fn read_text(path: &Path) -> Result<String, EnvError> {
    text_file::read_up_to(path, MAX_FILE_BYTES).map_err(|source| read_error(path, source))
}

fn bad_json(path: &Path, what: &str, error: &serde_json::Error) -> EnvError {
    let cut = if error.is_eof() { "; the file is cut" } else { "" };
    EnvError::BadLine {
        path: path.to_path_buf(),
        line: error.line().max(1),
        message: format!("is no {what}: {error}{cut}"),
    }
}
