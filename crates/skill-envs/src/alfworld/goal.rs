//! The goal of a game, with everything settled that no action changes.

use super::error::GameError;
use super::game::{LocationIdx, ObjectIdx, ReceptacleIdx};
use super::pddl::{Fact, Formula, Kind, NameIdx, Term, VariableIdx};
use super::predicate::Predicate;
use super::state::{Mark, State};

/// The most steps that settling a goal takes: some hundred times those of the data set's goals.
const MAX_STEPS: usize = 4_000_000;
/// The most conditions of a settled goal.
const MAX_NODES: usize = 100_000;
/// The most ways to reach a goal that are listed.
const MAX_WAYS: usize = 2048;

/// A condition that actions change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fluent {
    At(LocationIdx),
    In(ObjectIdx, ReceptacleIdx),
    ObjectAt(ObjectIdx, LocationIdx),
    Holds(ObjectIdx),
    HoldsAny,
    Opened(ReceptacleIdx),
    Marked(ObjectIdx, Mark),
}

impl Fluent {
    pub(super) fn holds(self, state: &State) -> bool {
        match self {
            Self::At(location) => state.at == location,
            Self::In(object, receptacle) => state.contents.get(receptacle, object),
            Self::ObjectAt(object, location) => state.object_at.get(location, object),
            Self::Holds(object) => state.holding == Some(object),
            Self::HoldsAny => state.holding.is_some(),
            Self::Opened(receptacle) => state.opened.get(0, receptacle),
            Self::Marked(object, mark) => state.is_marked(object, mark),
        }
    }
}

/// A node of a settled goal; those that have parts are followed by them, up to `end`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Node {
    All { end: u32 },
    Any { end: u32 },
    Not { end: u32 },
    Fluent(Fluent),
}

impl Node {
    fn combined(is_all: bool, end: u32) -> Self {
        if is_all { Self::All { end } } else { Self::Any { end } }
    }
}

/// What must be true in the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Goal(Box<[Node]>);

impl Goal {
    pub(super) fn is_reached(&self, state: &State) -> bool {
        self.holds(0, state).0
    }

    /// Whether the node at this place holds, and where the next one begins.
    fn holds(&self, place: usize, state: &State) -> (bool, usize) {
        match self.0.get(place) {
            None => (false, place + 1),
            Some(Node::Fluent(fluent)) => (fluent.holds(state), place + 1),
            Some(Node::Not { end }) => (!self.holds(place + 1, state).0, *end as usize),
            Some(Node::All { end }) => (self.parts_are(true, place + 1, *end as usize, state), *end as usize),
            Some(Node::Any { end }) => {
                (!self.parts_are(false, place + 1, *end as usize, state), *end as usize)
            }
        }
    }

    fn parts_are(&self, expected: bool, mut place: usize, end: usize, state: &State) -> bool {
        while place < end {
            let (holds, next) = self.holds(place, state);
            if holds != expected {
                return false;
            }
            place = next;
        }
        true
    }

    /// Sets of conditions each of which reaches the goal, as far as it is made of those; at most [`MAX_WAYS`].
    pub(super) fn ways(&self) -> Vec<Vec<Fluent>> {
        self.ways_at(0).0
    }

    fn ways_at(&self, place: usize) -> (Vec<Vec<Fluent>>, usize) {
        match self.0.get(place) {
            None => (Vec::new(), place + 1),
            Some(Node::Fluent(fluent)) => (vec![vec![*fluent]], place + 1),
            // What must not be is checked by playing the plan.
            Some(Node::Not { end }) => (vec![Vec::new()], *end as usize),
            Some(Node::All { end }) => {
                let (mut ways, mut next) = (vec![Vec::new()], place + 1);
                while next < *end as usize {
                    let (parts, after) = self.ways_at(next);
                    ways = ways
                        .iter()
                        .flat_map(|way| parts.iter().map(|part| [way.as_slice(), part.as_slice()].concat()))
                        .take(MAX_WAYS)
                        .collect();
                    next = after;
                }
                (ways, *end as usize)
            }
            Some(Node::Any { end }) => {
                let (mut ways, mut next) = (Vec::new(), place + 1);
                while next < *end as usize {
                    let (parts, after) = self.ways_at(next);
                    ways.extend(parts);
                    next = after;
                }
                ways.truncate(MAX_WAYS);
                (ways, *end as usize)
            }
        }
    }

    /// Bytes on the heap.
    pub(super) fn heap_bytes(&self) -> usize {
        size_of_val(self.0.as_ref())
    }
}

/// What a name stands for in the game.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meaning {
    Agent,
    Location(LocationIdx),
    Receptacle(ReceptacleIdx),
    Object(ObjectIdx),
    Type,
}

/// Settles a goal.
pub(super) struct GoalBuilder<'a> {
    /// What each name means.
    pub(super) meanings: &'a [Meaning],
    /// All that is true at the start, sorted.
    pub(super) facts: &'a [Fact],
    /// The names of each kind, in the order of the kinds.
    pub(super) names_of: &'a [Vec<NameIdx>; 6],
    /// What each variable stands for now.
    pub(super) bound: Vec<Option<NameIdx>>,
    /// How many steps were taken.
    pub(super) n_steps: usize,
}

/// A settled condition while it is being built.
enum Ground {
    Known(bool),
    Fluent(Fluent),
    Not(Box<Ground>),
    /// All of the parts, or any.
    Combined {
        parts: Vec<Ground>,
        is_all: bool,
    },
}

impl<'a> GoalBuilder<'a> {
    pub(super) fn build(mut self, formula: &Formula) -> Result<Goal, GameError> {
        let ground = self.ground(formula)?;
        let mut nodes = Vec::new();
        flatten(ground, &mut nodes);
        if nodes.len() > MAX_NODES {
            return Err(too_large());
        }
        Ok(Goal(nodes.into()))
    }

    fn ground(&mut self, formula: &Formula) -> Result<Ground, GameError> {
        self.n_steps += 1;
        if self.n_steps > MAX_STEPS {
            return Err(too_large());
        }
        match formula {
            Formula::And(parts) => self.joined(parts, true),
            Formula::Or(parts) => self.joined(parts, false),
            Formula::Not(inner) => Ok(match self.ground(inner)? {
                Ground::Known(value) => Ground::Known(!value),
                other => Ground::Not(Box::new(other)),
            }),
            Formula::Exists(variables, inner) => {
                let (mut variables, mut inner) = (variables.clone(), inner.as_ref());
                // Nested quantifiers are one, so that each variable is checked as soon as it is bound.
                while let Formula::Exists(more, within) = inner {
                    variables.extend_from_slice(more);
                    inner = within.as_ref();
                }
                let mut conditions = Vec::new();
                collect_conditions(inner, &mut conditions);
                let mut found = Vec::new();
                self.exists(&variables, &conditions, &mut found)?;
                Ok(any_of(found))
            }
            Formula::Forall(variables, inner) => {
                let mut found = Vec::new();
                self.forall(variables, inner, &mut found)?;
                Ok(all_of(found))
            }
            Formula::Equal(left, right) => Ok(Ground::Known(self.name(*left) == self.name(*right))),
            Formula::Atom(predicate, first, second) => self.atom(*predicate, *first, *second),
        }
    }

    fn joined(&mut self, parts: &[Formula], is_all: bool) -> Result<Ground, GameError> {
        let mut grounds = Vec::with_capacity(parts.len());
        for part in parts {
            match self.ground(part)? {
                Ground::Known(value) if value == is_all => {}
                Ground::Known(value) => return Ok(Ground::Known(value)),
                other => grounds.push(other),
            }
        }
        Ok(combined(grounds, is_all))
    }

    fn exists(
        &mut self,
        variables: &[(VariableIdx, Kind)],
        conditions: &[&Formula],
        found: &mut Vec<Ground>,
    ) -> Result<(), GameError> {
        let Some(((variable, kind), rest)) = variables.split_first() else {
            let mut parts = Vec::new();
            for condition in conditions {
                match self.ground(condition)? {
                    Ground::Known(true) => {}
                    Ground::Known(false) => return Ok(()),
                    other => parts.push(other),
                }
            }
            found.push(all_of(parts));
            return Ok(());
        };
        for name in self.candidates(*variable, *kind, conditions) {
            self.bind(*variable, Some(name));
            self.n_steps += 1;
            if !conditions.iter().any(|condition| self.is_settled_false(condition)) {
                self.exists(rest, conditions, found)?;
            }
        }
        self.bind(*variable, None);
        Ok(())
    }

    fn forall(
        &mut self,
        variables: &[(VariableIdx, Kind)],
        inner: &Formula,
        found: &mut Vec<Ground>,
    ) -> Result<(), GameError> {
        let Some(((variable, kind), rest)) = variables.split_first() else {
            let ground = self.ground(inner)?;
            if !matches!(ground, Ground::Known(true)) {
                found.push(ground);
            }
            return Ok(());
        };
        for name in self.names(*kind) {
            self.bind(*variable, Some(*name));
            self.forall(rest, inner, found)?;
        }
        self.bind(*variable, None);
        Ok(())
    }

    /// What a variable may stand for: the things of the type that a condition names, or else all of its kind.
    ///
    /// Nearly every goal names types, and there are few things of one among all.
    fn candidates(&self, variable: VariableIdx, kind: Kind, conditions: &[&Formula]) -> Vec<NameIdx> {
        let named_type = conditions.iter().find_map(|condition| match condition {
            Formula::Atom(
                predicate @ (Predicate::ObjectType | Predicate::ReceptacleType),
                Term::Variable(typed),
                Term::Name(of),
            ) if *typed == variable => Some((*predicate, *of)),
            _ => None,
        });
        let Some((predicate, of)) = named_type else { return self.names(kind).to_vec() };
        let start = self.facts.partition_point(|fact| fact.predicate < predicate);
        let facts = self.facts.get(start..).unwrap_or_default();
        let typed =
            facts.iter().take_while(|fact| fact.predicate == predicate).filter(|fact| fact.second == of);
        let is_of_kind = |name: &NameIdx| match self.meanings.get(usize::from(*name)) {
            Some(Meaning::Object(_)) => kind == Kind::Object,
            Some(Meaning::Receptacle(_)) => kind == Kind::Receptacle,
            _ => false,
        };
        typed.map(|fact| fact.first).filter(is_of_kind).collect()
    }

    fn names(&self, kind: Kind) -> &'a [NameIdx] {
        self.names_of.get(kind as usize).map(Vec::as_slice).unwrap_or_default()
    }

    fn bind(&mut self, variable: VariableIdx, name: Option<NameIdx>) {
        if let Some(place) = self.bound.get_mut(usize::from(variable)) {
            *place = name;
        }
    }

    fn name(&self, term: Term) -> Option<NameIdx> {
        match term {
            Term::Name(name) => Some(name),
            Term::Variable(variable) => self.bound.get(usize::from(variable)).copied().flatten(),
        }
    }

    /// Whether a condition is false whatever happens, as far as its variables are bound.
    fn is_settled_false(&self, condition: &Formula) -> bool {
        match condition {
            Formula::Atom(predicate, first, second) if !is_changed(*predicate) => {
                match (self.name(*first), self.name(*second)) {
                    (Some(first), Some(second)) => !self.is_fact(*predicate, first, second),
                    _ => false,
                }
            }
            _ => false,
        }
    }

    fn is_fact(&self, predicate: Predicate, first: NameIdx, second: NameIdx) -> bool {
        self.facts.binary_search(&Fact { predicate, first, second }).is_ok()
    }

    fn atom(&self, predicate: Predicate, first: Term, second: Term) -> Result<Ground, GameError> {
        if predicate == Predicate::Checked {
            let message = "the goal asks for `checked`, which is not followed".to_owned();
            return Err(GameError::Room { message });
        }
        let (Some(first), Some(second)) = (self.name(first), self.name(second)) else {
            return Ok(Ground::Known(false));
        };
        if !is_changed(predicate) {
            return Ok(Ground::Known(self.is_fact(predicate, first, second)));
        }
        let meaning = |name: NameIdx| self.meanings.get(usize::from(name)).copied().unwrap_or(Meaning::Type);
        let fluent = fluent(predicate, meaning(first), meaning(second));
        Ok(fluent.map_or(Ground::Known(false), Ground::Fluent))
    }
}

/// Whether an action changes what this says.
fn is_changed(predicate: Predicate) -> bool {
    matches!(
        predicate,
        Predicate::AtLocation
            | Predicate::ObjectAtLocation
            | Predicate::Opened
            | Predicate::InReceptacle
            | Predicate::Checked
            | Predicate::Holds
            | Predicate::HoldsAny
            | Predicate::IsClean
            | Predicate::IsHot
            | Predicate::IsCool
            | Predicate::IsOn
            | Predicate::IsToggled
            | Predicate::IsSliced
    )
}

/// The condition that a predicate is about these things; `None` if it can never hold for them.
fn fluent(predicate: Predicate, first: Meaning, second: Meaning) -> Option<Fluent> {
    let marked = |mark| match first {
        Meaning::Object(object) => Some(Fluent::Marked(object, mark)),
        _ => None,
    };
    match (predicate, first, second) {
        (Predicate::AtLocation, Meaning::Agent, Meaning::Location(location)) => Some(Fluent::At(location)),
        (Predicate::ObjectAtLocation, Meaning::Object(object), Meaning::Location(location)) => {
            Some(Fluent::ObjectAt(object, location))
        }
        (Predicate::InReceptacle, Meaning::Object(object), Meaning::Receptacle(receptacle)) => {
            Some(Fluent::In(object, receptacle))
        }
        (Predicate::Holds, Meaning::Agent, Meaning::Object(object)) => Some(Fluent::Holds(object)),
        (Predicate::HoldsAny, Meaning::Agent, _) => Some(Fluent::HoldsAny),
        (Predicate::Opened, Meaning::Receptacle(receptacle), _) => Some(Fluent::Opened(receptacle)),
        (Predicate::IsClean, ..) => marked(Mark::Clean),
        (Predicate::IsHot, ..) => marked(Mark::Hot),
        (Predicate::IsCool, ..) => marked(Mark::Cool),
        (Predicate::IsOn, ..) => marked(Mark::On),
        (Predicate::IsToggled, ..) => marked(Mark::Toggled),
        (Predicate::IsSliced, ..) => marked(Mark::Sliced),
        _ => None,
    }
}

/// The parts of a conjunction, and of those in it.
fn collect_conditions<'a>(formula: &'a Formula, conditions: &mut Vec<&'a Formula>) {
    match formula {
        Formula::And(parts) => parts.iter().for_each(|part| collect_conditions(part, conditions)),
        other => conditions.push(other),
    }
}

fn all_of(parts: Vec<Ground>) -> Ground {
    combined(parts, true)
}

fn any_of(parts: Vec<Ground>) -> Ground {
    combined(parts, false)
}

/// The conjunction of the parts, or their disjunction, without what is known.
fn combined(mut parts: Vec<Ground>, is_all: bool) -> Ground {
    if parts.iter().any(|part| matches!(part, Ground::Known(value) if *value != is_all)) {
        return Ground::Known(!is_all);
    }
    parts.retain(|part| !matches!(part, Ground::Known(_)));
    match parts.len() {
        0 => Ground::Known(is_all),
        1 => parts.pop().unwrap_or(Ground::Known(is_all)),
        _ => Ground::Combined { parts, is_all },
    }
}

fn flatten(ground: Ground, nodes: &mut Vec<Node>) {
    let place = nodes.len();
    let end_of = |nodes: &Vec<Node>| u32::try_from(nodes.len()).unwrap_or(u32::MAX);
    match ground {
        Ground::Fluent(fluent) => nodes.push(Node::Fluent(fluent)),
        // Nothing in all of it: true; nothing in any of it: false.
        Ground::Known(value) => nodes.push(Node::combined(value, end_of(nodes) + 1)),
        Ground::Not(inner) => {
            nodes.push(Node::Not { end: 0 });
            flatten(*inner, nodes);
            let end = end_of(nodes);
            set(nodes, place, Node::Not { end });
        }
        Ground::Combined { parts, is_all } => {
            nodes.push(Node::combined(is_all, 0));
            parts.into_iter().for_each(|part| flatten(part, nodes));
            let end = end_of(nodes);
            set(nodes, place, Node::combined(is_all, end));
        }
    }
}

fn set(nodes: &mut [Node], place: usize, node: Node) {
    if let Some(slot) = nodes.get_mut(place) {
        *slot = node;
    }
}

fn too_large() -> GameError {
    GameError::Room { message: "the goal ranges over too many things to be settled".to_owned() }
}
