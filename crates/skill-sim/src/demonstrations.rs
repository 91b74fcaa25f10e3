//! Demonstrations in small households: generated games, the expert's walk through each, and the skills for its task.
//!
//! They are what a small model is fine-tuned on. The parts for training and for tests share no room, whatever the seed
//! and the number of games: a hash of what the room consists of decides where it belongs.

use serde_json::json;
use skill_core::{PyRandom, Role};
use skill_envs::Split;
use skill_envs::agent::{ROLLOUT_PROMPT, ROLLOUT_PROMPT_NAME};
use skill_envs::alfworld::{
    Expert, Game, GameError, INSTRUCTIONS, Play, RoomLimits, TaskType, generate_small, split_of_room,
};
use skill_llm::Message;
use skill_llm::prompt::{PromptError, PromptTemplate};
use std::sync::Arc;

/// Skills for every task.
const GENERAL_SKILLS: &str = "### General Principles\n\
- **Search every place**: Go to one place after the other, each once, and open what is closed.\n\
- **Take what the task names**: As soon as you see the object, take it.";

/// Skills for tasks of one kind, under the heading that banks give them.
fn task_skills(task_type: TaskType) -> &'static str {
    match task_type {
        TaskType::PickAndPlace => {
            "### Pick And Place Skills\n\
             - **Put it down**: With the object in hand go to the place that the task names and put it there."
        }
        TaskType::LookInLight => {
            "### Look At Obj In Light Skills\n\
             - **Use the lamp**: With the object in hand go to the lamp and use it."
        }
        TaskType::CleanAndPlace => {
            "### Clean Skills\n\
             - **Clean first**: With the object in hand go to the sinkbasin and clean it, then put it at its place."
        }
        TaskType::HeatAndPlace => {
            "### Heat Skills\n\
             - **Heat first**: With the object in hand go to the microwave and heat it, then put it at its place."
        }
        TaskType::CoolAndPlace => {
            "### Cool Skills\n\
             - **Cool first**: With the object in hand go to the fridge and cool it, then put it at its place."
        }
        TaskType::PickTwoAndPlace => {
            "### Pick Two Skills\n\
             - **One after the other**: Put the first object at its place, then find the second one."
        }
    }
}

/// A world of small rooms in which an expert plays.
#[derive(Debug, Clone)]
pub struct SmallHouseholds {
    /// Seed of all games.
    pub seed: u64,
    /// The kinds of task, which take turns.
    pub task_types: Vec<TaskType>,
    /// How large a room is.
    pub limits: RoomLimits,
    /// The most commands of a game. A game that takes the expert more is left out.
    pub max_turns: usize,
    /// The probability that a command which does nothing comes before a command of the expert. Who learns from walks
    /// without any never sees how to go on after one.
    pub slips: f64,
}

/// The part of the rooms that a game is from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Rooms to learn in.
    Train,
    /// Rooms that are never learnt in.
    Test,
}

impl Part {
    /// The part of the room that this is the first observation of: decided by a hash of the receptacles in it, in any
    /// order.
    pub fn of(opening: &str) -> Self {
        match split_of_room(opening) {
            Split::Test => Self::Test,
            Split::Train | Split::Val => Self::Train,
        }
    }
}

/// A game with the expert's walk through it.
#[derive(Debug, Clone)]
pub struct Demonstration {
    /// The number of the game among all that the seed gives, of both parts.
    pub number: u64,
    /// The kind of task.
    pub task_type: TaskType,
    /// The game.
    pub game: Arc<Game>,
    /// What was seen and done, in order; the last command wins.
    pub walk: Vec<Turn>,
}

/// A turn of a walk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Turn {
    /// What the game says.
    pub observation: String,
    /// What answers it.
    pub command: String,
    /// A command that does nothing: shown, and not to be learnt.
    pub is_slip: bool,
}

impl Default for SmallHouseholds {
    /// Two kinds of task, up to six receptacles, and up to five classes of objects besides the task's; 20 turns, and a
    /// slip before one command in eight.
    fn default() -> Self {
        Self {
            seed: 7,
            task_types: vec![TaskType::PickAndPlace, TaskType::LookInLight],
            limits: RoomLimits::SMALL,
            max_turns: 20,
            slips: 0.125,
        }
    }
}

impl SmallHouseholds {
    /// Demonstrations of a part, without end; the kinds of task take turns as far as the rooms allow.
    pub fn demonstrations(&self, part: Part) -> impl Iterator<Item = Demonstration> {
        let tasks = self.task_types.iter().copied().cycle();
        (0..).zip(tasks).filter_map(move |(number, task_type)| self.demonstration(number, task_type, part))
    }

    /// The demonstration of this number; none if its room is of the other part, or the expert does not win in time.
    fn demonstration(&self, number: u64, task_type: TaskType, part: Part) -> Option<Demonstration> {
        let made: Result<_, GameError> =
            generate_small(self.seed, &format!("small/{number}"), task_type, self.limits);
        let game = Arc::new(made.ok()?.game);
        let mut play = Play::new(Arc::clone(&game));
        let mut observation = play.reset().observation.to_owned();
        if Part::of(&observation) != part {
            return None;
        }
        let mut expert = Expert::new(&observation);
        let mut slips = Slips::new(self.slips, self.seed, number);
        let mut walk = Vec::new();
        while walk.len() < self.max_turns {
            let admissible = play.admissible();
            // A slip changes nothing, so what the expert would have done it does next.
            let command = expert.act(&observation, &admissible);
            if let Some(slip) = slips.next(&observation, &admissible) {
                let said = play.step(&slip);
                if said.understood {
                    return None;
                }
                let seen = std::mem::replace(&mut observation, said.observation.to_owned());
                walk.push(Turn { observation: seen, command: slip, is_slip: true });
            }
            let turn = play.step(&command);
            let won = turn.won;
            let seen = std::mem::replace(&mut observation, turn.observation.to_owned());
            walk.push(Turn { observation: seen, command, is_slip: false });
            if won {
                return Some(Demonstration { number, task_type, game, walk })
                    .filter(|made| made.walk.len() <= self.max_turns);
            }
        }
        None
    }
}

/// Commands that do nothing: well formed, with names that were seen, and not possible.
struct Slips {
    probability: f64,
    random: PyRandom,
    /// Names with their numbers that observations held.
    names: Vec<String>,
}

impl Slips {
    /// The slips in a game, the same for a seed and a number.
    fn new(probability: f64, seed: u64, number: u64) -> Self {
        let random = PyRandom::new(seed.wrapping_mul(1_000_003).wrapping_add(number));
        Self { probability, random, names: Vec::new() }
    }

    /// Reads an observation; a command that comes to nothing there, where chance asks for one.
    fn next(&mut self, observation: &str, admissible: &[String]) -> Option<String> {
        for name in names(observation) {
            if !self.names.contains(&name) {
                self.names.push(name);
            }
        }
        if self.names.is_empty() || self.random.random() >= self.probability {
            return None;
        }
        let slip = match self.random.randbelow(6) {
            0 | 1 => format!("take {} from {}", self.name(), self.name()),
            2 | 3 => format!("move {} to {}", self.name(), self.name()),
            4 => format!("go to {}", self.name()),
            _ => format!("use {}", self.name()),
        };
        Some(slip).filter(|slip| !admissible.contains(slip))
    }

    fn name(&mut self) -> String {
        let place = self.random.randbelow(self.names.len() as u64) as usize;
        self.names.get(place).cloned().unwrap_or_default()
    }
}

/// The names with a number (`desk 2`) in a text, in order.
fn names(text: &str) -> Vec<String> {
    let words: Vec<&str> = text.split(|character: char| !character.is_ascii_alphanumeric()).collect();
    let is_noun = |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase());
    let pairs = words.windows(2).filter_map(|pair| <[&str; 2]>::try_from(pair).ok());
    pairs
        .filter(|[noun, number]| is_noun(noun) && number.parse::<u32>().is_ok())
        .map(|[noun, number]| format!("{noun} {number}"))
        .collect()
}

/// The messages of an episode, as the agent loop shows them to a model that is not told which actions are possible.
#[derive(Debug)]
pub struct EpisodePrompt {
    template: PromptTemplate,
}

impl EpisodePrompt {
    /// The built-in prompt.
    ///
    /// # Errors
    ///
    /// None but a template that does not parse.
    pub fn new() -> Result<Self, PromptError> {
        Ok(Self { template: PromptTemplate::parse(ROLLOUT_PROMPT_NAME, ROLLOUT_PROMPT)? })
    }

    /// The system message with the skills for the task, and the first observation.
    ///
    /// # Errors
    ///
    /// A template that asks for variables which the agent loop does not have.
    pub fn opening(
        &self,
        task_type: TaskType,
        game: &Game,
        observation: &str,
    ) -> Result<Vec<Message>, PromptError> {
        let skill = format!("{GENERAL_SKILLS}\n\n{}", task_skills(task_type));
        // The agent loop adds the task only if the observation does not name it.
        let task = if observation.contains(game.task()) { "" } else { game.task() };
        self.render(&skill, true, task, observation)
    }

    /// The message of a later observation.
    ///
    /// # Errors
    ///
    /// As [`EpisodePrompt::opening`].
    pub fn later(&self, observation: &str) -> Result<Option<Message>, PromptError> {
        let messages = self.render("", false, "", observation)?;
        Ok(messages.into_iter().find(|message| message.role == Role::User))
    }

    /// The reply with a command.
    pub fn reply(command: &str) -> Message {
        Message::assistant(format!("<action>{command}</action>"))
    }

    /// The command of a reply.
    pub fn command(reply: &str) -> Option<&str> {
        reply.trim().strip_prefix("<action>")?.strip_suffix("</action>")
    }

    /// All messages of a demonstration.
    ///
    /// # Errors
    ///
    /// As [`EpisodePrompt::opening`].
    pub fn conversation(&self, demonstration: &Demonstration) -> Result<Vec<Message>, PromptError> {
        let mut messages = Vec::new();
        for Turn { observation, command, .. } in &demonstration.walk {
            if messages.is_empty() {
                messages = self.opening(demonstration.task_type, &demonstration.game, observation)?;
            } else {
                messages.extend(self.later(observation)?);
            }
            messages.push(Self::reply(command));
        }
        Ok(messages)
    }

    fn render(
        &self,
        skill: &str,
        is_first: bool,
        task: &str,
        observation: &str,
    ) -> Result<Vec<Message>, PromptError> {
        let admissible: Option<&[String]> = None;
        self.template.render(json!({
            "instructions": INSTRUCTIONS,
            "skill": skill,
            "format": "tags",
            "think": false,
            "first": is_first,
            "task": task,
            "observation": observation,
            "admissible": admissible,
            "remark": "",
        }))
    }
}
