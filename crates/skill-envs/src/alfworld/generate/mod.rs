//! Makes games where there are no files of the data set: seeded, in the same vocabulary, and known to be solvable.

mod problem;
mod vocabulary;

pub use vocabulary::RoomKind;

use self::problem::{Placed, RoomPlan, goal};
use self::vocabulary::{LAMP, is_cleanable, is_coolable, is_heatable, takes, takes_lamp};
use super::error::GameError;
use super::files::{GameFile, RulesName, task_sentence};
use super::game::Game;
use super::rules::Rules;
use super::task::TaskType;
use crate::item::Split;
use skill_core::{PyRandom, SkillHash};
use std::borrow::Cow;

/// How many rooms are tried until a plan reaches the goal in one.
const MAX_ATTEMPTS: u32 = 64;
/// The chance that a receptacle shares the location of the one of its class before it.
const SHARED_LOCATION: f64 = 0.1;
/// The chance that a class of objects is in a room that may have it.
const CLASS_IS_THERE: f64 = 0.7;

/// A game that was made here.
#[derive(Debug)]
pub struct GeneratedGame {
    /// The game.
    pub game: Game,
    /// The kind of room.
    pub room: RoomKind,
    /// The problem that the game was made from.
    pub problem: String,
    /// Commands that reach the goal.
    pub plan: Vec<String>,
}

impl GeneratedGame {
    /// The game as a file that [`load`](super::load) reads again.
    pub fn file(&self) -> GameFile<'_> {
        GameFile {
            pddl_domain: None,
            grammar: None,
            rules: Some(RulesName::Alfworld04),
            task: Some(Cow::Borrowed(self.game.task())),
            pddl_problem: Cow::Borrowed(&self.problem),
            solvable: Some(true),
            walkthrough: Some(self.plan.clone()),
        }
    }
}

/// Limits of a room, for small worlds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoomLimits {
    /// The largest number of receptacles. Those that a task heats, cools or cleans with remain.
    pub max_receptacles: usize,
    /// The largest number of classes of objects besides the one that the task is about and the lamp.
    pub max_other_classes: usize,
}

impl RoomLimits {
    /// Up to six receptacles, and up to five classes of objects besides the task's.
    pub const SMALL: Self = Self { max_receptacles: 6, max_other_classes: 5 };
}

/// What is between the room and the task in the first observation.
const BEFORE_TASK: &str = "\n\nYour task is to: ";

/// The split to which a room belongs, by its first observation, where no two splits may share one: decided by a hash of
/// the receptacles in it, in any order. One room of eight is for `test`, one for `val`.
pub fn split_of_room(opening: &str) -> Split {
    let room = opening.split(BEFORE_TASK).next().unwrap_or_default();
    let (_, receptacles) = room.rsplit_once(" you see ").unwrap_or_default();
    let names = receptacles.trim_end_matches('.').split(", ");
    let mut names: Vec<&str> = names.map(|name| name.trim_start_matches("and ")).collect();
    names.sort_unstable();
    let digits = SkillHash::of(&names.join(", "));
    match u64::from_str_radix(digits.as_str(), 16).map(|number| number % 8) {
        Ok(0) => Split::Test,
        Ok(1) => Split::Val,
        Ok(_) | Err(_) => Split::Train,
    }
}

/// Makes the game that a seed and a key stand for, such as `train/7`.
///
/// # Errors
///
/// [`GameError::Unsolvable`] if no room of many has a plan for this kind of task.
pub fn generate(seed: u64, key: &str, task: TaskType) -> Result<GeneratedGame, GameError> {
    generate_within(seed, key, task, None)
}

/// Makes the game that a seed and a key stand for in a room within these limits, in which each class of objects besides
/// the task's occurs once.
///
/// # Errors
///
/// As [`generate`].
pub fn generate_small(
    seed: u64,
    key: &str,
    task: TaskType,
    limits: RoomLimits,
) -> Result<GeneratedGame, GameError> {
    generate_within(seed, key, task, Some(limits))
}

fn generate_within(
    seed: u64,
    key: &str,
    task: TaskType,
    limits: Option<RoomLimits>,
) -> Result<GeneratedGame, GameError> {
    let mut last = None;
    for attempt in 0..MAX_ATTEMPTS {
        let digits = SkillHash::of(&format!("alfworld/{seed}/{key}/{task}/{attempt}"));
        let mut random = PyRandom::new(
            u64::from_str_radix(digits.as_str(), 16)
                .expect("the hash of a skill has up to 16 hexadecimal digits"),
        );
        let Some(sketch) = Sketch::draw(&mut random, task, limits) else { continue };
        let problem = sketch.room.problem(&mut random, &goal(task, sketch.object, sketch.place, LAMP));
        let (object, place) = (sketch.object.to_lowercase(), sketch.place.to_lowercase());
        let sentence = task_sentence(task, &object, &place, &LAMP.to_lowercase(), false);
        let game = Game::from_problem(Rules::CURRENT, &sentence, &problem)?;
        match game.plan() {
            Ok(plan) if !plan.is_empty() => {
                return Ok(GeneratedGame { game, room: sketch.kind, problem, plan });
            }
            Ok(_) => {}
            Err(error) => last = Some(error),
        }
    }
    let message = format!("no room was found in which {task} can be solved");
    Err(last.unwrap_or(GameError::Unsolvable { message }))
}

/// The kinds of room in which a task is given.
fn rooms_for(task: TaskType) -> &'static [RoomKind] {
    match task {
        TaskType::PickAndPlace | TaskType::PickTwoAndPlace => &RoomKind::ALL,
        TaskType::LookInLight => &[RoomKind::Bedroom, RoomKind::LivingRoom],
        TaskType::CleanAndPlace => &[RoomKind::Kitchen, RoomKind::Bathroom],
        TaskType::HeatAndPlace | TaskType::CoolAndPlace => &[RoomKind::Kitchen],
    }
}

/// A room and what is to be done in it.
struct Sketch {
    kind: RoomKind,
    room: RoomPlan,
    object: &'static str,
    /// The class of the receptacle that the object goes to; empty where it goes to none.
    place: &'static str,
}

impl Sketch {
    /// Draws a room; `None` if what the task needs has no place in it.
    fn draw(random: &mut PyRandom, task: TaskType, limits: Option<RoomLimits>) -> Option<Self> {
        let kind = *pick(random, rooms_for(task))?;
        let mut receptacles = draw_receptacles(random, kind);
        if let Some(limits) = limits {
            remove_receptacles(random, &mut receptacles, task, limits.max_receptacles);
        }
        let mut room = RoomPlan { receptacles, objects: Vec::new() };
        let (object, place) = draw_target(random, task, kind, &room)?;
        let n_targets = match task {
            TaskType::PickTwoAndPlace => 2 + random.randbelow(2),
            _ => 1 + random.randbelow(3),
        };
        for _ in 0..n_targets {
            // What is to be placed is not there yet.
            room.put(random, object, place)?;
        }
        let others = kind.objects().filter(|class| *class != object);
        match limits {
            None => {
                for class in others {
                    if random.random() < CLASS_IS_THERE {
                        for _ in 0..=random.randbelow(2) {
                            room.put(random, class, "")?;
                        }
                    }
                }
            }
            Some(limits) => {
                let mut others: Vec<&'static str> = others.collect();
                random.shuffle(&mut others);
                // Rooms with few receptacles have no place for some classes.
                let placed = others.into_iter().filter(|class| room.put(random, class, "").is_some());
                placed.take(limits.max_other_classes).for_each(drop);
            }
        }
        if task == TaskType::LookInLight {
            let places: Vec<usize> = room.receptacles_where(takes_lamp);
            let receptacle = *pick(random, &places)?;
            room.objects.push(Placed { class: LAMP, receptacle });
        }
        Some(Self { kind, room, object, place })
    }
}

/// Removes receptacles by chance until at most so many remain besides the one that the task treats its object with.
fn remove_receptacles(
    random: &mut PyRandom,
    receptacles: &mut Vec<(&'static str, bool)>,
    task: TaskType,
    max_receptacles: usize,
) {
    let treats = |class: &str| treated_with(task).1 == class;
    while receptacles.len() > max_receptacles.max(2) {
        let removable = receptacles.iter().enumerate().filter(|(_, (class, _))| !treats(class));
        let removable: Vec<usize> = removable.map(|(number, _)| number).collect();
        let Some(number) = pick(random, &removable) else { return };
        receptacles.remove(*number);
    }
    // Each has its own location, so that every place is one to go to.
    receptacles.iter_mut().for_each(|(_, shares_location)| *shares_location = false);
}

/// The receptacles of a room: their classes, each with whether it shares the location of the one before it.
fn draw_receptacles(random: &mut PyRandom, kind: RoomKind) -> Vec<(&'static str, bool)> {
    let mut receptacles = Vec::new();
    for (class, least, most) in kind.receptacles() {
        let n_receptacles = least + random.randbelow(most - least + 1);
        for number in 0..n_receptacles {
            receptacles.push((*class, number > 0 && random.random() < SHARED_LOCATION));
        }
    }
    receptacles
}

/// The class of the object and that of the receptacle that it goes to.
fn draw_target(
    random: &mut PyRandom,
    task: TaskType,
    kind: RoomKind,
    room: &RoomPlan,
) -> Option<(&'static str, &'static str)> {
    let (can_be, treated_at) = treated_with(task);
    let mut classes: Vec<&'static str> = room.receptacles.iter().map(|(class, _)| *class).collect();
    classes.dedup();
    let has_other_place =
        |object: &str, place: &str| classes.iter().any(|class| *class != place && takes(class, object));
    let mut targets = Vec::new();
    for object in kind.objects().filter(|object| can_be(object)) {
        if task == TaskType::LookInLight {
            targets.push((object, ""));
            continue;
        }
        let places = classes.iter().copied().filter(|place| *place != treated_at && takes(place, object));
        targets.extend(places.filter(|place| has_other_place(object, place)).map(|place| (object, place)));
    }
    pick(random, &targets).copied()
}

/// The classes of objects that a task can be about, and the class of receptacle that it treats them with.
fn treated_with(task: TaskType) -> (fn(&str) -> bool, &'static str) {
    match task {
        TaskType::PickAndPlace | TaskType::LookInLight | TaskType::PickTwoAndPlace => (|_| true, ""),
        TaskType::CleanAndPlace => (is_cleanable, "SinkBasin"),
        TaskType::HeatAndPlace => (is_heatable, "Microwave"),
        TaskType::CoolAndPlace => (is_coolable, "Fridge"),
    }
}

/// One of several, all alike likely.
fn pick<'a, T>(random: &mut PyRandom, choices: &'a [T]) -> Option<&'a T> {
    let drawn = random.randbelow(choices.len() as u64);
    choices.get(usize::try_from(drawn).ok()?)
}
