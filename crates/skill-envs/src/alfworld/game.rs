//! A game: one room with its things, its rules and its goal, ready to be played any number of times.

use super::bits::BitTable;
use super::build::build;
use super::error::GameError;
use super::goal::Goal;
use super::pddl::read_problem;
use super::plan;
use super::rules::{Rules, TASK_PREFIX};
use super::state::State;
use super::task::TaskType;

/// The number of a location.
pub(super) type LocationIdx = u16;
/// The number of a receptacle, in the order in which lists name them.
pub(super) type ReceptacleIdx = u16;
/// The number of an object, in the order in which lists name them.
pub(super) type ObjectIdx = u16;

/// A game that can be played: see [`Play`](super::Play).
#[derive(Debug, PartialEq, Eq)]
pub struct Game {
    pub(super) rules: Rules,
    pub(super) task: Box<str>,
    pub(super) task_type: TaskType,
    pub(super) receptacles: Box<[Receptacle]>,
    pub(super) objects: Box<[Thing]>,
    /// The names of the locations.
    pub(super) locations: Box<[Box<str>]>,
    /// The receptacles in the order of their locations, and where those of each location begin.
    pub(super) receptacles_at: Box<[ReceptacleIdx]>,
    pub(super) location_starts: Box<[u16]>,
    /// All receptacles by name, for commands.
    pub(super) receptacles_by_name: Box<[ReceptacleIdx]>,
    /// All objects by name.
    pub(super) objects_by_name: Box<[ObjectIdx]>,
    /// A row for each object: the receptacles that it may be put in or on.
    pub(super) fits: BitTable,
    /// What is inside of objects, by the outer one and then by the inner.
    pub(super) insides: Box<[(ObjectIdx, ObjectIdx)]>,
    pub(super) start: State,
    pub(super) goal: Goal,
}

/// A place for objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Receptacle {
    pub(super) name: Box<str>,
    /// Where one has to be to use it; some are out of reach.
    pub(super) location: Option<LocationIdx>,
    pub(super) is_openable: bool,
    pub(super) cleans: bool,
    pub(super) heats: bool,
    pub(super) cools: bool,
}

/// An object, and what can be done with it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Thing {
    pub(super) name: Box<str>,
    pub(super) is_pickupable: bool,
    pub(super) is_cleanable: bool,
    pub(super) is_heatable: bool,
    pub(super) is_coolable: bool,
    pub(super) is_toggleable: bool,
    pub(super) is_sliceable: bool,
    /// Whether other objects are cut with it.
    pub(super) is_knife: bool,
    /// Whether other objects can be in it.
    pub(super) is_container: bool,
}

impl Game {
    /// A game from the text of its problem.
    ///
    /// `task` is the sentence that the player is told, such as `put a clean mug in desk.`
    ///
    /// # Errors
    ///
    /// A text that is not a problem of the domain, or a room that cannot be played. That a plan reaches the goal is not
    /// checked here, see [`Self::plan`].
    pub fn from_problem(rules: Rules, task: &str, problem: &str) -> Result<Self, GameError> {
        build(rules, task, read_problem(problem)?)
    }

    /// What is to be done, as the player is told: `put a clean mug in desk.`
    pub fn task(&self) -> &str {
        &self.task
    }

    /// The kind of task, told by the goal.
    pub fn task_type(&self) -> TaskType {
        self.task_type
    }

    /// The rules of the game.
    pub fn rules(&self) -> Rules {
        self.rules
    }

    /// Commands that reach the goal, found with full knowledge of the room and tried.
    ///
    /// # Errors
    ///
    /// [`GameError::Unsolvable`] if none are found. The planner knows the data set's kinds of goals; it may miss plans
    /// for other goals.
    pub fn plan(&self) -> Result<Vec<String>, GameError> {
        plan::plan(self)
    }

    /// How many bytes the game takes.
    pub fn memory_bytes(&self) -> usize {
        let names = self.receptacles.iter().map(|receptacle| receptacle.name.len()).sum::<usize>()
            + self.objects.iter().map(|object| object.name.len()).sum::<usize>()
            + self.locations.iter().map(|name| name.len()).sum::<usize>();
        size_of::<Self>()
            + self.task.len()
            + names
            + size_of_val(self.receptacles.as_ref())
            + size_of_val(self.objects.as_ref())
            + size_of_val(self.locations.as_ref())
            + size_of_val(self.receptacles_at.as_ref())
            + size_of_val(self.location_starts.as_ref())
            + size_of_val(self.receptacles_by_name.as_ref())
            + size_of_val(self.objects_by_name.as_ref())
            + size_of_val(self.insides.as_ref())
            + self.fits.heap_bytes()
            + self.start.heap_bytes()
            + self.goal.heap_bytes()
    }

    /// The task with what comes before it in the first observation.
    pub(super) fn task_line(&self) -> String {
        format!("{TASK_PREFIX}{}", self.task)
    }

    pub(super) fn receptacle(&self, receptacle: ReceptacleIdx) -> Option<&Receptacle> {
        self.receptacles.get(usize::from(receptacle))
    }

    pub(super) fn object(&self, object: ObjectIdx) -> Option<&Thing> {
        self.objects.get(usize::from(object))
    }

    /// The name of a receptacle; empty for a number that is none.
    pub(super) fn receptacle_name(&self, receptacle: ReceptacleIdx) -> &str {
        self.receptacle(receptacle).map_or("", |receptacle| &receptacle.name)
    }

    /// The name of an object; empty for a number that is none.
    pub(super) fn object_name(&self, object: ObjectIdx) -> &str {
        self.object(object).map_or("", |object| &object.name)
    }

    /// The receptacles at a location, in the order of lists.
    pub(super) fn receptacles_at(&self, location: LocationIdx) -> &[ReceptacleIdx] {
        let location = usize::from(location);
        let start = self.location_starts.get(location).copied().unwrap_or_default();
        let end = self.location_starts.get(location + 1).copied().unwrap_or(start);
        self.receptacles_at.get(usize::from(start)..usize::from(end)).unwrap_or_default()
    }

    pub(super) fn receptacle_named(&self, name: &str) -> Option<ReceptacleIdx> {
        let order = &self.receptacles_by_name;
        let place = order.binary_search_by(|receptacle| self.receptacle_name(*receptacle).cmp(name)).ok()?;
        order.get(place).copied()
    }

    pub(super) fn object_named(&self, name: &str) -> Option<ObjectIdx> {
        let order = &self.objects_by_name;
        let place = order.binary_search_by(|object| self.object_name(*object).cmp(name)).ok()?;
        order.get(place).copied()
    }

    /// The numbers of all objects.
    pub(super) fn object_numbers(&self) -> impl Iterator<Item = ObjectIdx> + use<> {
        0..u16::try_from(self.objects.len()).unwrap_or(u16::MAX)
    }

    /// The numbers of all receptacles.
    pub(super) fn receptacle_numbers(&self) -> impl Iterator<Item = ReceptacleIdx> + use<> {
        0..u16::try_from(self.receptacles.len()).unwrap_or(u16::MAX)
    }
}
