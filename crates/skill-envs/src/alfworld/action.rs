//! What a player can do: commands as text and as data, and which of them do something now.

use super::game::{Game, ObjectIdx, ReceptacleIdx};
use super::rules::Wording;
use super::state::State;

/// A command that the rules know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Action {
    Clean(ObjectIdx, ReceptacleIdx),
    Close(ReceptacleIdx),
    Cool(ObjectIdx, ReceptacleIdx),
    ExamineObject(ObjectIdx),
    ExamineReceptacle(ReceptacleIdx),
    GoTo(ReceptacleIdx),
    Heat(ObjectIdx, ReceptacleIdx),
    Help,
    Inventory,
    Look,
    Put(ObjectIdx, ReceptacleIdx),
    Open(ReceptacleIdx),
    /// What is cut, and what it is cut with.
    Slice(ObjectIdx, ObjectIdx),
    Take(ObjectIdx, ReceptacleIdx),
    Use(ObjectIdx),
}

impl Wording {
    /// The words around the two names of a command that puts something somewhere.
    fn put(self) -> (&'static str, &'static str) {
        match self {
            Self::Move => ("move ", " to "),
            Self::Put => ("put ", " in/on "),
        }
    }
}

impl Action {
    /// The action that a command means, whether or not it can be done now; the text has no blanks around it.
    pub(super) fn parse(game: &Game, state: &State, command: &str) -> Option<Self> {
        match command {
            "look" => return Some(Self::Look),
            "inventory" => return Some(Self::Inventory),
            "help" => return game.rules.has_help.then_some(Self::Help),
            _ => {}
        }
        let (put, put_into) = game.rules.wording.put();
        if let Some(names) = command.strip_prefix(put) {
            return object_and_receptacle(game, names, put_into).map(|(object, at)| Self::Put(object, at));
        }
        let (verb, names) = command.split_once(' ')?;
        match verb {
            "go" => game.receptacle_named(names.strip_prefix("to ")?).map(Self::GoTo),
            "open" => game.receptacle_named(names).map(Self::Open),
            "close" => game.receptacle_named(names).map(Self::Close),
            "use" => game.object_named(names).map(Self::Use),
            "examine" => {
                let object = game.object_named(names).map(Self::ExamineObject);
                let receptacle = game.receptacle_named(names).map(Self::ExamineReceptacle);
                receptacle.filter(|action| action.is_possible(game, state)).or(object).or(receptacle)
            }
            "take" => {
                object_and_receptacle(game, names, " from ").map(|(object, from)| Self::Take(object, from))
            }
            "clean" => {
                object_and_receptacle(game, names, " with ").map(|(object, at)| Self::Clean(object, at))
            }
            "heat" => object_and_receptacle(game, names, " with ").map(|(object, at)| Self::Heat(object, at)),
            "cool" => object_and_receptacle(game, names, " with ").map(|(object, at)| Self::Cool(object, at)),
            "slice" => {
                let (object, knife) = names.split_once(" with ")?;
                Some(Self::Slice(game.object_named(object)?, game.object_named(knife)?))
            }
            _ => None,
        }
    }

    /// Whether the domain's precondition holds.
    pub(super) fn is_possible(self, game: &Game, state: &State) -> bool {
        let receptacle = |number: ReceptacleIdx| game.receptacle(number);
        let is_here = |number| receptacle(number).is_some_and(|found| found.location == Some(state.at));
        let is_held = |object: ObjectIdx| state.holding == Some(object);
        let object = |number: ObjectIdx| game.object(number);
        match self {
            Self::Look | Self::Inventory => true,
            Self::Help => game.rules.has_help,
            // Going where one is changes nothing, and what changes nothing is not an action of the original's planner.
            Self::GoTo(to) => receptacle(to)
                .is_some_and(|found| found.location.is_some_and(|location| location != state.at)),
            Self::Open(at) => {
                is_here(at)
                    && receptacle(at).is_some_and(|found| found.is_openable)
                    && !state.opened.get(0, at)
            }
            Self::Close(at) => {
                is_here(at)
                    && receptacle(at).is_some_and(|found| found.is_openable)
                    && state.opened.get(0, at)
            }
            Self::ExamineReceptacle(at) => is_here(at),
            // The domain means to allow more, but writes `location,` for a type, of which there is nothing.
            Self::ExamineObject(number) => is_held(number),
            Self::Take(number, from) => {
                is_here(from)
                    && is_accessible(game, state, from)
                    && state.holding.is_none()
                    && object(number).is_some_and(|found| found.is_pickupable)
                    && state.contents.get(from, number)
            }
            Self::Put(number, to) => {
                is_here(to) && is_held(number) && is_accessible(game, state, to) && game.fits.get(number, to)
            }
            Self::Clean(number, at) => {
                is_here(at)
                    && is_held(number)
                    && receptacle(at).is_some_and(|found| found.cleans)
                    && object(number).is_some_and(|found| found.is_cleanable)
            }
            Self::Heat(number, at) => {
                is_here(at)
                    && is_held(number)
                    && receptacle(at).is_some_and(|found| found.heats)
                    && object(number).is_some_and(|found| found.is_heatable)
            }
            Self::Cool(number, at) => {
                is_here(at)
                    && is_held(number)
                    && receptacle(at).is_some_and(|found| found.cools)
                    && object(number).is_some_and(|found| found.is_coolable)
            }
            Self::Use(number) => {
                object(number).is_some_and(|found| found.is_toggleable)
                    && game.receptacles_at(state.at).iter().any(|at| state.contents.get(*at, number))
            }
            Self::Slice(number, knife) => {
                is_held(knife)
                    && object(knife).is_some_and(|found| found.is_knife)
                    && object(number).is_some_and(|found| found.is_sliceable)
                    && state.object_at.get(state.at, number)
            }
        }
    }

    /// Writes the command.
    pub(super) fn write(self, game: &Game, text: &mut String) {
        let (put, put_into) = game.rules.wording.put();
        let receptacle = |number| game.receptacle_name(number);
        let object = |number| game.object_name(number);
        let parts: [&str; 4] = match self {
            Self::Look => ["look", "", "", ""],
            Self::Inventory => ["inventory", "", "", ""],
            Self::Help => ["help", "", "", ""],
            Self::GoTo(to) => ["go to ", receptacle(to), "", ""],
            Self::Open(at) => ["open ", receptacle(at), "", ""],
            Self::Close(at) => ["close ", receptacle(at), "", ""],
            Self::ExamineReceptacle(at) => ["examine ", receptacle(at), "", ""],
            Self::ExamineObject(number) => ["examine ", object(number), "", ""],
            Self::Use(number) => ["use ", object(number), "", ""],
            Self::Take(number, from) => ["take ", object(number), " from ", receptacle(from)],
            Self::Put(number, to) => [put, object(number), put_into, receptacle(to)],
            Self::Clean(number, at) => ["clean ", object(number), " with ", receptacle(at)],
            Self::Heat(number, at) => ["heat ", object(number), " with ", receptacle(at)],
            Self::Cool(number, at) => ["cool ", object(number), " with ", receptacle(at)],
            Self::Slice(number, knife) => ["slice ", object(number), " with ", object(knife)],
        };
        text.reserve(parts.iter().map(|part| part.len()).sum());
        parts.iter().for_each(|part| text.push_str(part));
    }

    /// The command.
    pub(super) fn command(self, game: &Game) -> String {
        let mut text = String::new();
        self.write(game, &mut text);
        text
    }
}

/// Whether nothing closed is around what is in a receptacle.
pub(super) fn is_accessible(game: &Game, state: &State, receptacle: ReceptacleIdx) -> bool {
    game.receptacle(receptacle).is_some_and(|found| !found.is_openable) || state.opened.get(0, receptacle)
}

fn object_and_receptacle(game: &Game, names: &str, between: &str) -> Option<(ObjectIdx, ReceptacleIdx)> {
    let (object, receptacle) = names.split_once(between)?;
    Some((game.object_named(object)?, game.receptacle_named(receptacle)?))
}

/// Everything that can be done now, nearly in the order of the commands.
pub(super) fn possible(game: &Game, state: &State, mut found: impl FnMut(Action)) {
    let here = game.receptacles_at(state.at);
    let held = state.holding;
    let mut if_possible = |action: Action| {
        if action.is_possible(game, state) {
            found(action);
        }
    };
    for at in here {
        held.into_iter().for_each(|object| if_possible(Action::Clean(object, *at)));
    }
    here.iter().for_each(|at| if_possible(Action::Close(*at)));
    for at in here {
        held.into_iter().for_each(|object| if_possible(Action::Cool(object, *at)));
    }
    held.into_iter().for_each(|object| if_possible(Action::ExamineObject(object)));
    here.iter().for_each(|at| if_possible(Action::ExamineReceptacle(*at)));
    game.receptacles_by_name.iter().for_each(|to| if_possible(Action::GoTo(*to)));
    for at in here {
        held.into_iter().for_each(|object| if_possible(Action::Heat(object, *at)));
    }
    if_possible(Action::Help);
    if_possible(Action::Inventory);
    if_possible(Action::Look);
    for at in here {
        held.into_iter().for_each(|object| if_possible(Action::Put(object, *at)));
    }
    here.iter().for_each(|at| if_possible(Action::Open(*at)));
    if let Some(knife) = held.filter(|object| game.object(*object).is_some_and(|held| held.is_knife)) {
        state.object_at.columns(state.at).for_each(|object| if_possible(Action::Slice(object, knife)));
    }
    if held.is_none() {
        for from in here {
            state.contents.columns(*from).for_each(|object| if_possible(Action::Take(object, *from)));
        }
    }
    for at in here {
        state.contents.columns(*at).for_each(|object| if_possible(Action::Use(object)));
    }
}
