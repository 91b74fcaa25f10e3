//! Plays a game.

use super::action::{Action, is_accessible, possible};
use super::game::{Game, ObjectIdx, ReceptacleIdx};
use super::rules::Wording;
use super::state::{Mark, State};
use skill_core::text::is_python_space;
use std::sync::Arc;

/// What is answered to a command that does nothing.
const NOTHING_HAPPENS: &str = "Nothing happens.";

/// One play of a game.
///
/// Nothing ends a play: a goal that was reached can be lost again, and anyone who plays stops when
/// [`Turn::done`] says so.
#[derive(Debug, Clone)]
pub struct Play {
    game: Arc<Game>,
    state: State,
    /// What is shown; kept, so that a step need not ask for memory.
    text: String,
}

/// What came of a reset or a command.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Turn<'a> {
    /// What the player sees.
    pub observation: &'a str,
    /// Whether the goal is reached now.
    pub won: bool,
    /// 1 where the goal is reached, else 0.
    pub reward: f64,
    /// Whether the play is over: after a step that reached the goal.
    pub done: bool,
    /// Whether the command did something.
    pub understood: bool,
}

impl Play {
    /// A play that begins at the start; [`Self::reset`] tells what is seen there.
    pub fn new(game: Arc<Game>) -> Self {
        let state = game.start.clone();
        Self { game, state, text: String::new() }
    }

    /// The game that is played.
    pub fn game(&self) -> &Game {
        &self.game
    }

    /// Restarts.
    pub fn reset(&mut self) -> Turn<'_> {
        self.state.copy_from(&self.game.start);
        self.text.clear();
        self.text.push_str("-= Welcome to TextWorld, ALFRED! =-\n\n");
        Describer { game: &self.game, state: &self.state, text: &mut self.text }.intro();
        self.text.push_str("\n\n");
        self.text.push_str(&self.game.task_line());
        let won = self.is_won();
        Turn { observation: &self.text, won, reward: 0.0, done: false, understood: true }
    }

    /// Does what a command says, if that can be done now.
    pub fn step(&mut self, command: &str) -> Turn<'_> {
        self.text.clear();
        let action = Action::parse(&self.game, &self.state, command.trim_matches(is_python_space))
            .filter(|action| action.is_possible(&self.game, &self.state));
        match action {
            Some(action) => {
                apply(action, &self.game, &mut self.state);
                Describer { game: &self.game, state: &self.state, text: &mut self.text }.answer(action);
            }
            None => self.text.push_str(NOTHING_HAPPENS),
        }
        let won = self.is_won();
        Turn {
            observation: &self.text,
            won,
            reward: f64::from(u8::from(won)),
            done: won,
            understood: action.is_some(),
        }
    }

    /// Whether the goal is reached now.
    pub fn is_won(&self) -> bool {
        self.game.goal.is_reached(&self.state)
    }

    /// All commands that do something now, sorted, each once.
    pub fn admissible(&self) -> Vec<String> {
        // Some thirty places to go to, and what is here.
        let mut commands = Vec::with_capacity(self.game.receptacles.len() + 24);
        possible(&self.game, &self.state, |action| commands.push(action.command(&self.game)));
        commands.sort_unstable();
        commands.dedup();
        commands
    }

    /// How many bytes the play takes, without the game.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.state.heap_bytes() + self.text.capacity()
    }
}

/// Changes the state as the domain says.
pub(super) fn apply(action: Action, game: &Game, state: &mut State) {
    match action {
        Action::Look
        | Action::Inventory
        | Action::Help
        | Action::ExamineObject(_)
        | Action::ExamineReceptacle(_) => {}
        Action::GoTo(to) => {
            if let Some(location) = game.receptacle(to).and_then(|receptacle| receptacle.location) {
                state.at = location;
            }
        }
        Action::Open(at) => state.opened.set(0, at, true),
        Action::Close(at) => state.opened.set(0, at, false),
        Action::Take(object, from) => {
            state.contents.set(from, object, false);
            state.taken_from.set(from, object, true);
            state.object_at.set(state.at, object, false);
            state.holding = Some(object);
        }
        Action::Put(object, to) => {
            state.contents.set(to, object, true);
            state.taken_from.set(to, object, false);
            state.object_at.set(state.at, object, true);
            state.holding = None;
        }
        Action::Clean(object, _) => state.mark(object, Mark::Clean, true),
        Action::Heat(object, _) => {
            state.mark(object, Mark::Hot, true);
            state.mark(object, Mark::Cool, false);
        }
        Action::Cool(object, _) => {
            state.mark(object, Mark::Cool, true);
            state.mark(object, Mark::Hot, false);
        }
        Action::Use(object) => {
            state.mark(object, Mark::On, !state.is_marked(object, Mark::On));
            state.mark(object, Mark::Toggled, true);
        }
        Action::Slice(object, _) => state.mark(object, Mark::Sliced, true),
    }
}

/// Writes what the player sees.
struct Describer<'a> {
    game: &'a Game,
    state: &'a State,
    text: &'a mut String,
}

impl Describer<'_> {
    /// The room at the start: all of it, or what is in front of the player.
    fn intro(&mut self) {
        if self.game.receptacles_at(self.state.at).is_empty() {
            let placed = self.game.receptacle_numbers().filter(|number| {
                self.game.receptacle(*number).is_some_and(|receptacle| receptacle.location.is_some())
            });
            self.middle_of_the_room(&placed.collect::<Vec<_>>());
        } else {
            self.look();
        }
    }

    fn answer(&mut self, action: Action) {
        let game = self.game;
        match action {
            Action::Look => self.look(),
            Action::Inventory => match self.state.holding {
                Some(object) => self.write(&["You are carrying: a ", game.object_name(object), "."]),
                None => self.write(&["You are not carrying anything."]),
            },
            Action::Help => self.write(&[HELP]),
            Action::GoTo(to) => {
                let place = match game.rules.wording {
                    Wording::Move => game.receptacle_name(to),
                    Wording::Put => game.locations.get(usize::from(self.state.at)).map_or("", |name| name),
                };
                self.write(&["You arrive at ", place, ". "]);
                self.receptacle(to);
            }
            Action::Open(at) => {
                self.write(&["You open the ", game.receptacle_name(at), ". "]);
                self.receptacle(at);
            }
            Action::Close(at) => self.write(&["You close the ", game.receptacle_name(at), "."]),
            Action::ExamineReceptacle(at) => self.receptacle(at),
            Action::ExamineObject(object) => self.object(object),
            Action::Take(object, from) => self.write(&[
                "You pick up the ",
                game.object_name(object),
                " from the ",
                game.receptacle_name(from),
                ".",
            ]),
            Action::Put(object, to) => {
                let (did, into) = match game.rules.wording {
                    Wording::Move => ("You move the ", " to the "),
                    Wording::Put => ("You put the ", " in/on the "),
                };
                self.write(&[did, game.object_name(object), into, game.receptacle_name(to), "."]);
            }
            Action::Clean(object, at) => self.used("You clean the ", object, at),
            Action::Heat(object, at) => self.used("You heat the ", object, at),
            Action::Cool(object, at) => self.used("You cool the ", object, at),
            // What was used once counts as on for good, so nothing is ever said to be turned off.
            Action::Use(object) => self.write(&["You turn on the ", game.object_name(object), "."]),
            Action::Slice(object, knife) => self.write(&[
                "You sliced the ",
                game.object_name(object),
                " with the ",
                game.object_name(knife),
                ".",
            ]),
        }
    }

    fn look(&mut self) {
        let (game, state) = (self.game, self.state);
        let here = game.receptacles_at(state.at);
        if here.is_empty() {
            // The original lists the receptacles at the player's location, which are none here.
            self.middle_of_the_room(&[]);
            return;
        }
        self.write(&["You are facing the "]);
        self.list("", here.iter().map(|at| game.receptacle_name(*at)));
        self.write(&[". Next to it, you see "]);
        // What is at this location and was taken out of a receptacle of this location, once for each such receptacle.
        let astray = state.object_at.columns(state.at).flat_map(|object| {
            let left = here.iter().filter(move |at| state.taken_from.get(**at, object));
            left.map(move |_| game.object_name(object))
        });
        self.list("a ", astray);
        self.write(&["."]);
    }

    fn middle_of_the_room(&mut self, receptacles: &[ReceptacleIdx]) {
        let game = self.game;
        self.write(&["You are in the middle of a room. Looking quickly around you, you see "]);
        self.list("a ", receptacles.iter().map(|receptacle| game.receptacle_name(*receptacle)));
        self.write(&["."]);
    }

    fn receptacle(&mut self, at: ReceptacleIdx) {
        let (game, state) = (self.game, self.state);
        let name = game.receptacle_name(at);
        if !is_accessible(game, state, at) {
            self.write(&["The ", name, " is closed."]);
            return;
        }
        if game.receptacle(at).is_some_and(|receptacle| receptacle.is_openable) {
            self.write(&["The ", name, " is open. In it, you see "]);
        } else {
            self.write(&["On the ", name, ", you see "]);
        }
        self.list("a ", state.contents.columns(at).map(|object| game.object_name(object)));
        self.write(&["."]);
    }

    fn object(&mut self, number: ObjectIdx) {
        let (game, state) = (self.game, self.state);
        let name = game.object_name(number);
        let object = game.object(number);
        let is_marked = |mark| state.is_marked(number, mark);
        if object.is_some_and(|object| object.is_container) {
            self.write(&["This is a normal ", name, ". In it, you see "]);
            let insides = game.insides.iter().filter(|(outer, _)| *outer == number);
            self.list("a ", insides.map(|(_, inner)| game.object_name(*inner)));
            self.write(&["."]);
            return;
        }
        let (clean, hot, cool, sliced) =
            (is_marked(Mark::Clean), is_marked(Mark::Hot), is_marked(Mark::Cool), is_marked(Mark::Sliced));
        // What is said first is said alone.
        let quality = match (clean, hot, cool) {
            (true, true, _) => Some("hot and clean "),
            (true, false, true) => Some("cool and clean "),
            (true, false, false) => Some("clean "),
            (false, true, _) => Some("hot "),
            (false, false, true) => Some(if sliced { "cool " } else { "cold " }),
            (false, false, false) => None,
        };
        let cut = if sliced { "sliced " } else { "" };
        if let Some(quality) = quality {
            self.write(&["This is a ", quality, cut, name, "."]);
        } else if object.is_some_and(|object| object.is_toggleable) && is_marked(Mark::Toggled) {
            self.write(&["This ", name, " is on."]);
        } else if object.is_some_and(|object| object.is_sliceable) && sliced {
            self.write(&["This is a sliced ", name, "."]);
        } else {
            self.write(&["There's nothing special about ", name, "."]);
        }
    }

    fn used(&mut self, did: &str, object: ObjectIdx, at: ReceptacleIdx) {
        let game = self.game;
        self.write(&[did, game.object_name(object), " using the ", game.receptacle_name(at), "."]);
    }

    fn write(&mut self, parts: &[&str]) {
        parts.iter().for_each(|part| self.text.push_str(part));
    }

    /// Names with `, ` between them and `, and ` before the last; `nothing` if there are none.
    fn list<'n>(&mut self, article: &str, names: impl Iterator<Item = &'n str>) {
        let mut names = names.peekable();
        let mut is_first = true;
        while let Some(name) = names.next() {
            let separator = match (is_first, names.peek().is_some()) {
                (true, _) => "",
                (false, true) => ", ",
                (false, false) => ", and ",
            };
            self.write(&[separator, article, name]);
            is_first = false;
        }
        if is_first {
            self.write(&["nothing"]);
        }
    }
}

/// The answer to `help`.
const HELP: &str = "Available commands:
  look:                             look around your current location
  inventory:                        check your current inventory
  go to (receptacle):               move to a receptacle
  open (receptacle):                open a receptacle
  close (receptacle):               close a receptacle
  take (object) from (receptacle):  take an object from a receptacle
  move (object) to (receptacle):  place an object in or on a receptacle
  examine (something):              examine a receptacle or an object
  use (object):                     use an object
  heat (object) with (receptacle):  heat an object using a receptacle
  clean (object) with (receptacle): clean an object using a receptacle
  cool (object) with (receptacle):  cool an object using a receptacle
  slice (object) with (object):     slice an object using a sharp object
";
