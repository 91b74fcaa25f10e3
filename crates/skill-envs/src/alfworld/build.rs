//! From a problem to a game: numbers and names of things, the state at the start, the settled goal.

use super::bits::BitTable;
use super::error::GameError;
use super::game::{Game, LocationIdx, ObjectIdx, Receptacle, ReceptacleIdx, Thing};
use super::goal::{GoalBuilder, Meaning};
use super::pddl::{Fact, Formula, Kind, NameIdx, Problem};
use super::predicate::Predicate;
use super::rules::Rules;
use super::state::{Mark, State};
use super::task::TaskType;
use std::collections::BTreeMap;

/// Makes a game of a problem.
pub(super) fn build(rules: Rules, task: &str, mut problem: Problem) -> Result<Game, GameError> {
    let task_type = task_type(&problem.goal);
    problem.facts.sort_unstable();
    problem.facts.dedup();
    let mut room = Room::new(&problem);
    for fact in &problem.facts {
        room.take(*fact)?;
    }
    room.check()?;
    let goal = GoalBuilder {
        meanings: &room.meanings,
        facts: &problem.facts,
        names_of: &room.names_of,
        bound: vec![None; problem.n_variables],
        n_steps: 0,
    }
    .build(&problem.goal)?;
    room.game(rules, task, task_type, goal)
}

/// A room that facts are taken into.
struct Room<'a> {
    names: &'a [(String, Kind)],
    meanings: Vec<Meaning>,
    names_of: [Vec<NameIdx>; 6],
    receptacles: Vec<Receptacle>,
    objects: Vec<Thing>,
    locations: Vec<Box<str>>,
    /// The types of receptacles and objects, and which object types a receptacle type takes.
    receptacle_types: Vec<(NameIdx, ReceptacleIdx)>,
    object_types: Vec<(NameIdx, ObjectIdx)>,
    takes: Vec<(NameIdx, NameIdx)>,
    insides: Vec<(ObjectIdx, ObjectIdx)>,
    at: Option<LocationIdx>,
    holds_any: bool,
    state: State,
}

impl<'a> Room<'a> {
    fn new(problem: &'a Problem) -> Self {
        // Lists name things by their raw ids, so that numbers in that order make lists that need no sorting.
        let mut order: Vec<usize> = (0..problem.names.len()).collect();
        order.sort_unstable_by_key(|name_idx| problem.names.get(*name_idx).map(|(name, _)| name));
        let shown = shown_names(problem, &order);
        let mut meanings = vec![Meaning::Type; problem.names.len()];
        let mut names_of: [Vec<NameIdx>; 6] = Default::default();
        let (mut receptacles, mut objects, mut locations) = (Vec::new(), Vec::new(), Vec::new());
        for name_idx in order {
            let (Some((_, kind)), Some(name)) = (problem.names.get(name_idx), shown.get(name_idx)) else {
                continue;
            };
            let name: Box<str> = name.as_str().into();
            let meaning = match kind {
                Kind::Agent => Meaning::Agent,
                Kind::Location => {
                    locations.push(name);
                    Meaning::Location(last_number(&locations))
                }
                Kind::Receptacle => {
                    receptacles.push(Receptacle {
                        name,
                        location: None,
                        is_openable: false,
                        cleans: false,
                        heats: false,
                        cools: false,
                    });
                    Meaning::Receptacle(last_number(&receptacles))
                }
                Kind::Object => {
                    objects.push(Thing { name, ..Thing::default() });
                    Meaning::Object(last_number(&objects))
                }
                Kind::ReceptacleType | Kind::ObjectType => Meaning::Type,
            };
            if let Some(place) = meanings.get_mut(name_idx) {
                *place = meaning;
            }
            if let (Some(names), Ok(number)) = (names_of.get_mut(*kind as usize), NameIdx::try_from(name_idx))
            {
                names.push(number);
            }
        }
        let (n_receptacles, n_objects) = (receptacles.len(), objects.len());
        let state = State {
            at: 0,
            holding: None,
            opened: BitTable::new(1, n_receptacles),
            contents: BitTable::new(n_receptacles, n_objects),
            taken_from: BitTable::new(n_receptacles, n_objects),
            object_at: BitTable::new(locations.len(), n_objects),
            marks: vec![0; n_objects].into(),
        };
        Self {
            names: &problem.names,
            meanings,
            names_of,
            receptacles,
            objects,
            locations,
            receptacle_types: Vec::new(),
            object_types: Vec::new(),
            takes: Vec::new(),
            insides: Vec::new(),
            at: None,
            holds_any: false,
            state,
        }
    }

    fn take(&mut self, fact: Fact) -> Result<(), GameError> {
        match fact.predicate {
            Predicate::AtLocation => {
                self.agent(fact, fact.first)?;
                let at = self.location(fact, fact.second)?;
                if self.at.is_some_and(|before| before != at) {
                    return Err(room("the player is at two locations"));
                }
                self.at = Some(at);
            }
            Predicate::ReceptacleAtLocation => {
                let location = self.location(fact, fact.second)?;
                let receptacle = self.receptacle(fact, fact.first)?;
                if receptacle.location.is_some_and(|before| before != location) {
                    return Err(room(&format!(
                        "the receptacle `{}` is at two locations",
                        self.name(fact.first)
                    )));
                }
                receptacle.location = Some(location);
            }
            Predicate::ObjectAtLocation => {
                let (object, location) = (self.object(fact, fact.first)?, self.location(fact, fact.second)?);
                self.state.object_at.set(location, object, true);
            }
            Predicate::InReceptacle => {
                let object = self.object(fact, fact.first)?;
                let receptacle = self.receptacle_number(fact, fact.second)?;
                self.state.contents.set(receptacle, object, true);
            }
            Predicate::InReceptacleObject => {
                let (inner, outer) = (self.object(fact, fact.first)?, self.object(fact, fact.second)?);
                self.insides.push((outer, inner));
            }
            Predicate::Openable => self.receptacle(fact, fact.first)?.is_openable = true,
            Predicate::Opened => {
                let receptacle = self.receptacle_number(fact, fact.first)?;
                self.state.opened.set(0, receptacle, true);
            }
            Predicate::ReceptacleType => {
                let type_name = self.name(fact.second);
                let receptacle = self.receptacle(fact, fact.first)?;
                match type_name {
                    "sinkbasintype" => receptacle.cleans = true,
                    "microwavetype" => receptacle.heats = true,
                    "fridgetype" => receptacle.cools = true,
                    _ => {}
                }
                let receptacle = self.receptacle_number(fact, fact.first)?;
                self.receptacle_types.push((fact.second, receptacle));
            }
            Predicate::ObjectType => {
                let object = self.object(fact, fact.first)?;
                let is_knife = matches!(self.name(fact.second), "knifetype" | "butterknifetype");
                if is_knife {
                    self.thing(fact)?.is_knife = true;
                }
                self.object_types.push((fact.second, object));
            }
            Predicate::CanContain => self.takes.push((fact.first, fact.second)),
            Predicate::Holds => {
                self.agent(fact, fact.first)?;
                let object = self.object(fact, fact.second)?;
                if self.state.holding.is_some_and(|before| before != object) {
                    return Err(room("the player holds two objects"));
                }
                self.state.holding = Some(object);
            }
            Predicate::HoldsAny => self.holds_any = true,
            Predicate::IsReceptacleObject => {
                // The original's generator may say this of receptacles too, where it means nothing.
                if let Ok(thing) = self.thing(fact) {
                    thing.is_container = true;
                }
            }
            _ => self.take_quality(fact)?,
        }
        Ok(())
    }

    /// What an object is, or can become.
    fn take_quality(&mut self, fact: Fact) -> Result<(), GameError> {
        let mark = match fact.predicate {
            Predicate::IsClean => Mark::Clean,
            Predicate::IsHot => Mark::Hot,
            Predicate::IsCool => Mark::Cool,
            Predicate::IsSliced => Mark::Sliced,
            Predicate::IsToggled => Mark::Toggled,
            Predicate::IsOn => Mark::On,
            Predicate::Pickupable => return self.thing(fact).map(|thing| thing.is_pickupable = true),
            Predicate::Cleanable => return self.thing(fact).map(|thing| thing.is_cleanable = true),
            Predicate::Heatable => return self.thing(fact).map(|thing| thing.is_heatable = true),
            Predicate::Coolable => return self.thing(fact).map(|thing| thing.is_coolable = true),
            Predicate::Toggleable => return self.thing(fact).map(|thing| thing.is_toggleable = true),
            Predicate::Sliceable => return self.thing(fact).map(|thing| thing.is_sliceable = true),
            // No action reads them; goals do, from the facts.
            _ => return Ok(()),
        };
        let object = self.object(fact, fact.first)?;
        self.state.mark(object, mark, true);
        Ok(())
    }

    /// What makes a room unplayable although each of its facts is in order.
    fn check(&mut self) -> Result<(), GameError> {
        match self.names_of.get(Kind::Agent as usize).map_or(0, Vec::len) {
            1 => {}
            n_agents => return Err(room(&format!("there are {n_agents} agents; expected one"))),
        }
        self.state.at =
            self.at.ok_or_else(|| room("the player is nowhere; a fact `(atLocation ..)` is missing"))?;
        if self.holds_any != self.state.holding.is_some() {
            return Err(room("`holds` and `holdsAny` do not agree"));
        }
        for (object, number) in self.objects.iter().zip(0..) {
            let is_somewhere = self.state.holding == Some(number)
                || self.state.contents.any_row(number, self.receptacles.len())
                || self.state.object_at.any_row(number, self.locations.len())
                || self.insides.iter().any(|(_, inner)| *inner == number);
            if (object.is_pickupable || object.is_toggleable) && !is_somewhere {
                return Err(room(&format!(
                    "the object `{}` ({}) has no place; expected `inReceptacle`, `inReceptacleObject`, \
                     `objectAtLocation` or `holds`",
                    self.raw_object_name(number),
                    object.name
                )));
            }
        }
        Ok(())
    }

    fn game(
        mut self,
        rules: Rules,
        task: &str,
        task_type: TaskType,
        goal: super::goal::Goal,
    ) -> Result<Game, GameError> {
        self.insides.sort_unstable();
        self.insides.dedup();
        let mut fits = BitTable::new(self.objects.len(), self.receptacles.len());
        self.object_types.sort_unstable();
        self.receptacle_types.sort_unstable();
        for (receptacle_type, object_type) in &self.takes {
            for (_, object) in of_type(&self.object_types, *object_type) {
                for (_, receptacle) in of_type(&self.receptacle_types, *receptacle_type) {
                    fits.set(*object, *receptacle, true);
                }
            }
        }
        let mut placed: Vec<(LocationIdx, ReceptacleIdx)> = self
            .receptacles
            .iter()
            .zip(0..)
            .filter_map(|(receptacle, number)| Some((receptacle.location?, number)))
            .collect();
        placed.sort_unstable();
        let n_locations = u16::try_from(self.locations.len()).unwrap_or(u16::MAX);
        let location_starts = (0..=n_locations)
            .map(|location| placed.partition_point(|(other, _)| *other < location))
            .map(|start| u16::try_from(start).unwrap_or(u16::MAX))
            .collect();
        Ok(Game {
            rules,
            task: task.into(),
            task_type,
            receptacles_at: placed.into_iter().map(|(_, receptacle)| receptacle).collect(),
            location_starts,
            receptacles_by_name: by_name(self.receptacles.iter().map(|receptacle| receptacle.name.as_ref())),
            objects_by_name: by_name(self.objects.iter().map(|object| object.name.as_ref())),
            receptacles: self.receptacles.into(),
            objects: self.objects.into(),
            locations: self.locations.into(),
            fits,
            insides: self.insides.into(),
            start: self.state,
            goal,
        })
    }

    fn name(&self, name: NameIdx) -> &'a str {
        self.names.get(usize::from(name)).map_or("", |(name, _)| name.as_str())
    }

    fn raw_object_name(&self, object: ObjectIdx) -> &'a str {
        let names = self.names_of.get(Kind::Object as usize);
        names.and_then(|names| names.get(usize::from(object))).map_or("", |name| self.name(*name))
    }

    fn meaning(&self, name: NameIdx) -> Meaning {
        self.meanings.get(usize::from(name)).copied().unwrap_or(Meaning::Type)
    }

    fn agent(&self, fact: Fact, name: NameIdx) -> Result<(), GameError> {
        match self.meaning(name) {
            Meaning::Agent => Ok(()),
            _ => Err(self.wrong(fact, name, "agent")),
        }
    }

    fn location(&self, fact: Fact, name: NameIdx) -> Result<LocationIdx, GameError> {
        match self.meaning(name) {
            Meaning::Location(location) => Ok(location),
            _ => Err(self.wrong(fact, name, "location")),
        }
    }

    fn receptacle_number(&self, fact: Fact, name: NameIdx) -> Result<ReceptacleIdx, GameError> {
        match self.meaning(name) {
            Meaning::Receptacle(receptacle) => Ok(receptacle),
            _ => Err(self.wrong(fact, name, "receptacle")),
        }
    }

    fn receptacle(&mut self, fact: Fact, name: NameIdx) -> Result<&mut Receptacle, GameError> {
        let number = self.receptacle_number(fact, name)?;
        self.receptacles.get_mut(usize::from(number)).ok_or_else(|| room("a receptacle has no number"))
    }

    fn object(&self, fact: Fact, name: NameIdx) -> Result<ObjectIdx, GameError> {
        match self.meaning(name) {
            Meaning::Object(object) => Ok(object),
            _ => Err(self.wrong(fact, name, "object")),
        }
    }

    fn thing(&mut self, fact: Fact) -> Result<&mut Thing, GameError> {
        let number = self.object(fact, fact.first)?;
        self.objects.get_mut(usize::from(number)).ok_or_else(|| room("an object has no number"))
    }

    fn wrong(&self, fact: Fact, name: NameIdx, expected: &str) -> GameError {
        room(&format!(
            "`{}` is said of `{}`, which is no {expected}",
            fact.predicate.as_str(),
            self.name(name)
        ))
    }
}

fn room(message: &str) -> GameError {
    GameError::Room { message: message.to_owned() }
}

/// The things of one type, where all are sorted by their types.
fn of_type(typed: &[(NameIdx, u16)], wanted: NameIdx) -> &[(NameIdx, u16)] {
    let start = typed.partition_point(|(of, _)| *of < wanted);
    let end = typed.partition_point(|(of, _)| *of <= wanted);
    typed.get(start..end).unwrap_or_default()
}

/// The number of what was pushed last.
fn last_number<T>(things: &[T]) -> u16 {
    u16::try_from(things.len().saturating_sub(1)).unwrap_or(u16::MAX)
}

fn by_name<'a>(names: impl Iterator<Item = &'a str>) -> Box<[u16]> {
    let mut numbered: Vec<(&str, u16)> = names.zip(0..).collect();
    numbered.sort_unstable();
    numbered.into_iter().map(|(_, number)| number).collect()
}

/// The names that a player sees, by the number of the raw name.
///
/// The class is what comes before the first `_bar_`. Within a class, and over all kinds of things that a fact is
/// about, numbers are given out from the highest down, in the order of the raw names.
fn shown_names(problem: &Problem, order: &[usize]) -> Vec<String> {
    let mut is_in_fact = vec![false; problem.names.len()];
    for fact in &problem.facts {
        for name in [fact.first, fact.second] {
            if let Some(is_in_fact) = is_in_fact.get_mut(usize::from(name)) {
                *is_in_fact = true;
            }
        }
    }
    let named: Vec<(usize, &str)> = order
        .iter()
        .filter(|name_idx| is_in_fact.get(**name_idx) == Some(&true))
        .filter_map(|name_idx| Some((*name_idx, problem.names.get(*name_idx)?.0.as_str())))
        .collect();
    let mut n_left: BTreeMap<(&str, bool), usize> = BTreeMap::new();
    for (_, name) in &named {
        if let Some(class) = class_of(name) {
            *n_left.entry(class).or_default() += 1;
        }
    }
    let mut shown = vec![String::new(); problem.names.len()];
    for (name_idx, name) in named {
        let Some(shown) = shown.get_mut(name_idx) else { continue };
        let class = class_of(name);
        let Some((class, left)) = class.and_then(|class| Some((class, n_left.get_mut(&class)?))) else {
            *shown = format!("{name} ");
            continue;
        };
        let (class_name, is_basin) = class;
        *shown = format!("{class_name}{} {left}", if is_basin { "basin" } else { "" });
        *left -= 1;
    }
    shown
}

/// The class of a raw name, and whether it is that of a basin; `None` for a name without a position.
fn class_of(name: &str) -> Option<(&str, bool)> {
    let (class, _) = name.split_once("_bar_")?;
    Some((class, name.contains("basin")))
}

/// The kind of task that a goal is about, told by what it mentions.
fn task_type(goal: &Formula) -> TaskType {
    let mut mentioned = Mentioned::default();
    mention(goal, &mut mentioned);
    if mentioned.toggled {
        TaskType::LookInLight
    } else if mentioned.clean {
        TaskType::CleanAndPlace
    } else if mentioned.hot {
        TaskType::HeatAndPlace
    } else if mentioned.cool {
        TaskType::CoolAndPlace
    } else if mentioned.difference {
        TaskType::PickTwoAndPlace
    } else {
        TaskType::PickAndPlace
    }
}

#[derive(Default)]
struct Mentioned {
    toggled: bool,
    clean: bool,
    hot: bool,
    cool: bool,
    difference: bool,
}

fn mention(formula: &Formula, mentioned: &mut Mentioned) {
    match formula {
        Formula::And(parts) | Formula::Or(parts) => parts.iter().for_each(|part| mention(part, mentioned)),
        Formula::Not(inner) => {
            mentioned.difference |= matches!(**inner, Formula::Equal(..));
            mention(inner, mentioned);
        }
        Formula::Exists(_, inner) | Formula::Forall(_, inner) => mention(inner, mentioned),
        Formula::Equal(..) => {}
        Formula::Atom(predicate, ..) => {
            mentioned.toggled |= *predicate == Predicate::IsToggled;
            mentioned.clean |= *predicate == Predicate::IsClean;
            mentioned.hot |= *predicate == Predicate::IsHot;
            mentioned.cool |= *predicate == Predicate::IsCool;
        }
    }
}
