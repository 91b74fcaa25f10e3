//! A player that reads what a game shows, as a person would, and solves it: for demonstrations, and to show that
//! a game can be solved without seeing behind closed doors.

use super::rules::TASK_PREFIX;
use std::collections::{BTreeMap, BTreeSet};

/// How many places somebody searches who does not search all of them.
const FEW_PLACES: usize = 5;

/// A scripted player of one game.
///
/// It knows the observations and the admissible commands, nothing else: it goes from place to place until it sees
/// what it needs. Without one of its habits it is less than an expert, and solves fewer games.
#[derive(Debug, Clone)]
pub struct Expert {
    task: Task,
    habits: BTreeSet<HouseholdHabit>,
    /// The receptacles of the room, and which of them it has looked into.
    places: Vec<String>,
    searched: BTreeSet<String>,
    /// Where it has been, whether it has looked into the place or not; and how often it has gone anywhere.
    visited: BTreeSet<String>,
    n_ways: usize,
    /// Where it last saw each object.
    seen: BTreeMap<String, String>,
    at: String,
    holding: Option<String>,
    /// Whether what it holds was cleaned, heated or cooled.
    is_treated: bool,
    /// What it has placed, and where.
    placed: BTreeMap<String, String>,
}

/// A habit that makes an [`Expert`]; without one of them it is less than an expert.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HouseholdHabit {
    /// To open what is closed and look inside.
    OpenClosed,
    /// To search every place, each once.
    SearchEverywhere,
    /// To heat what is wanted hot.
    Heat,
    /// To cool what is wanted cool.
    Cool,
    /// To clean what is wanted clean.
    Clean,
    /// To use the lamp under which something is to be looked at.
    UseLamp,
    /// To fetch the second object where two are asked for.
    FetchBoth,
}

impl HouseholdHabit {
    /// All of them.
    pub const ALL: &'static [Self] = &[
        Self::OpenClosed,
        Self::SearchEverywhere,
        Self::Heat,
        Self::Cool,
        Self::Clean,
        Self::UseLamp,
        Self::FetchBoth,
    ];
}

/// What a sentence asks for; classes in lower case.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Task {
    object: String,
    /// The receptacle that the object goes to, or the lamp that it is looked at under.
    target: String,
    /// `clean`, `heat` or `cool`.
    treatment: Option<&'static str>,
    is_light: bool,
    is_two: bool,
}

impl Task {
    fn parse(sentence: &str) -> Self {
        let words: Vec<&str> =
            sentence.trim_end_matches('.').split_ascii_whitespace().filter(|word| !is_filler(word)).collect();
        let treatment = words.iter().find_map(|word| match *word {
            "clean" => Some("clean"),
            "hot" | "heat" => Some("heat"),
            "cool" => Some("cool"),
            _ => None,
        });
        let is_light = sentence.starts_with("look at ") || sentence.starts_with("examine ");
        let nouns: Vec<&str> =
            words.into_iter().filter(|word| !matches!(*word, "clean" | "hot" | "heat" | "cool")).collect();
        Self {
            object: nouns.first().copied().unwrap_or_default().to_owned(),
            target: nouns.last().copied().unwrap_or_default().to_owned(),
            treatment,
            is_light,
            is_two: sentence.split_ascii_whitespace().any(|word| word == "two"),
        }
    }

    /// The habit that it takes to treat the object.
    fn treating(&self) -> Option<HouseholdHabit> {
        self.treatment.map(|treatment| match treatment {
            "clean" => HouseholdHabit::Clean,
            "heat" => HouseholdHabit::Heat,
            _ => HouseholdHabit::Cool,
        })
    }
}

/// A word of a task that is neither a thing nor something to be done to it.
fn is_filler(word: &str) -> bool {
    let fillers = "a an some two the it them and put find look examine at in on under with";
    fillers.split_ascii_whitespace().any(|filler| filler == word)
}

impl Expert {
    /// A player with all habits who has seen the first observation.
    pub fn new(opening: &str) -> Self {
        Self::with_habits(opening, HouseholdHabit::ALL.iter().copied().collect())
    }

    /// A player with these habits who has seen the first observation.
    pub fn with_habits(opening: &str, habits: BTreeSet<HouseholdHabit>) -> Self {
        let task = opening.rsplit_once(TASK_PREFIX).map_or("", |(_, task)| task);
        let room = opening.split(TASK_PREFIX).next().unwrap_or_default();
        Self {
            task: Task::parse(task),
            habits,
            places: listed(room),
            searched: BTreeSet::new(),
            visited: BTreeSet::new(),
            n_ways: 0,
            seen: BTreeMap::new(),
            at: String::new(),
            holding: None,
            is_treated: false,
            placed: BTreeMap::new(),
        }
    }

    /// The next command, after this observation and with these commands possible.
    pub fn act(&mut self, observation: &str, admissible: &[String]) -> String {
        if self.places.is_empty() {
            // Who starts before a receptacle is told of the others by the commands alone.
            let places = admissible.iter().filter_map(|command| command.strip_prefix("go to "));
            self.places = places.map(str::to_owned).collect();
        }
        self.learn(observation);
        let command = self.decide(admissible);
        self.note(&command);
        command
    }

    /// The next command where nobody says which commands are possible.
    pub fn act_unaided(&mut self, observation: &str) -> String {
        self.learn(observation);
        let command = self.decide(&self.imaginable(observation));
        self.note(&command);
        command
    }

    /// Takes in a turn that is over; without a command, that nothing is known to have been done.
    pub fn remember(&mut self, observation: &str, command: Option<&str>) {
        self.learn(observation);
        if let Some(command) = command {
            self.note(command);
        }
    }

    /// The commands that may be possible, from what was seen.
    fn imaginable(&self, observation: &str) -> Vec<String> {
        let at = &self.at;
        let ways = self.places.iter().filter(|place| *place != at).map(|place| format!("go to {place}"));
        let mut commands: Vec<String> = ways.collect();
        if observation.contains(&format!("The {at} is closed.")) {
            commands.push(format!("open {at}"));
        }
        for (object, _) in self.seen.iter().filter(|(_, place)| *place == at) {
            commands.extend([format!("take {object} from {at}"), format!("use {object}")]);
        }
        if let Some(object) = &self.holding {
            commands.push(format!("move {object} to {at}"));
            let treatments = [("clean", "sinkbasin"), ("heat", "microwave"), ("cool", "fridge")];
            let here = treatments.into_iter().filter(|(_, class)| is_of(at, class));
            commands.extend(here.map(|(treatment, _)| format!("{treatment} {object} with {at}")));
        }
        commands
    }

    fn has(&self, habit: HouseholdHabit) -> bool {
        self.habits.contains(&habit)
    }

    /// Whether it takes the task for done, or does not know what else to do, which is wrong.
    fn believes_to_be_done(&self) -> bool {
        let is_careless = self.task.treating().is_some_and(|habit| !self.has(habit))
            || self.task.is_two && !self.has(HouseholdHabit::FetchBoth);
        is_careless && !self.placed.is_empty()
    }

    /// Takes in what is seen at the place where it is.
    fn learn(&mut self, observation: &str) {
        if !observation.contains(", you see ") || observation.contains("You are ") {
            return;
        }
        self.seen.retain(|_, place| *place != self.at);
        for object in listed(observation) {
            self.seen.insert(object, self.at.clone());
        }
        self.searched.insert(self.at.clone());
    }

    fn decide(&self, admissible: &[String]) -> String {
        if self.believes_to_be_done() {
            return "look".to_owned();
        }
        let chosen = match &self.holding {
            Some(_) if self.task.is_light && !self.has(HouseholdHabit::UseLamp) => None,
            Some(_) if self.task.is_light => self.light(admissible).or_else(|| self.search(admissible)),
            Some(object) => self.treat(object, admissible).or_else(|| self.place(object, admissible)),
            None => self.fetch(admissible).or_else(|| self.search(admissible)),
        };
        chosen.unwrap_or_else(|| "look".to_owned())
    }

    /// Remembers what a command will have done.
    fn note(&mut self, command: &str) {
        let place = ["go to ", "open ", "examine "].iter().find_map(|verb| command.strip_prefix(verb));
        if let Some(place) = place {
            self.at = place.to_owned();
            self.visited.insert(place.to_owned());
            self.n_ways += usize::from(command.starts_with("go to "));
        } else if let Some(object) = object_of(command, "take ", " from ") {
            self.seen.remove(object);
            self.holding = Some(object.to_owned());
            self.is_treated = false;
        } else if let Some(object) = put_object(command) {
            self.placed.insert(object.to_owned(), self.at.clone());
            self.holding = None;
        } else if self.task.treatment.is_some_and(|treatment| command.starts_with(treatment)) {
            self.is_treated = true;
        }
    }

    /// Uses a lamp that is here, or goes to one that was seen.
    fn light(&self, admissible: &[String]) -> Option<String> {
        let use_lamp = format!("use {} ", self.task.target);
        let here = admissible.iter().find(|command| command.starts_with(&use_lamp));
        here.cloned().or_else(|| {
            let lamp = self.seen.iter().find(|(object, _)| is_of(object, &self.task.target))?;
            self.go_to(lamp.1, admissible)
        })
    }

    /// Cleans, heats or cools what it holds, where the task asks for it and it was not done yet.
    fn treat(&self, object: &str, admissible: &[String]) -> Option<String> {
        let has_habit = self.task.treating().is_some_and(|habit| self.has(habit));
        let treatment = self.task.treatment.filter(|_| has_habit && !self.is_treated)?;
        let here = format!("{treatment} {object} with ");
        if let Some(command) = admissible.iter().find(|command| command.starts_with(&here)) {
            return Some(command.clone());
        }
        let class = match treatment {
            "clean" => "sinkbasin",
            "heat" => "microwave",
            _ => "fridge",
        };
        let place = self.places.iter().find(|place| is_of(place, class))?;
        self.go_to(place, admissible)
    }

    /// Puts down what it holds: where the first of two is, or at any place of the right class.
    fn place(&self, object: &str, admissible: &[String]) -> Option<String> {
        let first = self.placed.values().next();
        let is_right = |place: &str| match first {
            Some(first) => first == place,
            None => is_of(place, &self.task.target),
        };
        let puts = |command: &&String| {
            put_object(command) == Some(object) && is_right(&self.at) && command.ends_with(&self.at)
        };
        admissible.iter().find(puts).cloned().or_else(|| {
            if is_right(&self.at) {
                return self.open(admissible);
            }
            let place = self.places.iter().find(|place| is_right(place))?;
            self.go_to(place, admissible)
        })
    }

    /// Takes what the task is about, where it was seen and not yet placed.
    fn fetch(&self, admissible: &[String]) -> Option<String> {
        let (object, place) = self
            .seen
            .iter()
            .find(|(object, _)| is_of(object, &self.task.object) && !self.placed.contains_key(*object))?;
        let take = format!("take {object} from {place}");
        if admissible.contains(&take) {
            return Some(take);
        }
        self.go_to(place, admissible)
    }

    /// Opens what is closed here, or goes to the next place that it has not looked into.
    fn search(&self, admissible: &[String]) -> Option<String> {
        let opens = self.has(HouseholdHabit::OpenClosed);
        if opens
            && !self.searched.contains(&self.at)
            && let Some(command) = self.open(admissible)
        {
            return Some(command);
        }
        // Whatever the light is needed for, or the object: open places take no second command.
        let mut places: Vec<&String> = self.places.iter().collect();
        places.sort_by_key(|place| is_usually_closed(place));
        if !self.has(HouseholdHabit::SearchEverywhere) {
            places.truncate(FEW_PLACES);
        }
        let known = if opens { &self.searched } else { &self.visited };
        let is_new = |place: &&&String| !known.contains(**place) && ***place != self.at;
        let new = places.iter().filter(is_new).find_map(|place| self.go_to(place, admissible));
        if new.is_some() || self.has(HouseholdHabit::SearchEverywhere) {
            return new;
        }
        // Round and round, where everything has been seen.
        let n_before = self.n_ways.checked_rem(places.len()).unwrap_or(0);
        places
            .iter()
            .cycle()
            .skip(n_before)
            .take(places.len())
            .find_map(|place| self.go_to(place, admissible))
    }

    fn open(&self, admissible: &[String]) -> Option<String> {
        let open = format!("open {}", self.at);
        admissible.contains(&open).then_some(open)
    }

    /// The way to a place; one that shares its location with this one needs none, but a look at it.
    fn go_to(&self, place: &str, admissible: &[String]) -> Option<String> {
        let ways = [format!("go to {place}"), format!("examine {place}")];
        ways.into_iter().find(|command| admissible.contains(command))
    }
}

/// Whether a name is one of a class: `mug 2` of `mug`.
fn is_of(name: &str, class: &str) -> bool {
    name.split(' ').next() == Some(class)
}

fn is_usually_closed(place: &str) -> bool {
    ["cabinet", "drawer", "fridge", "microwave", "safe"].iter().any(|class| is_of(place, class))
}

fn object_of<'a>(command: &'a str, verb: &str, between: &str) -> Option<&'a str> {
    Some(command.strip_prefix(verb)?.split_once(between)?.0)
}

/// What a command puts somewhere, in either wording.
fn put_object(command: &str) -> Option<&str> {
    object_of(command, "move ", " to ").or_else(|| object_of(command, "put ", " in/on "))
}

/// The names in a list such as `you see a mug 1, and a pen 2.`
fn listed(text: &str) -> Vec<String> {
    let Some((_, list)) = text.split_once("you see ") else { return Vec::new() };
    let list = list.split(".").next().unwrap_or_default();
    list.split(", ")
        .map(|name| name.strip_prefix("and ").unwrap_or(name))
        .filter_map(|name| name.strip_prefix("a "))
        .map(str::to_owned)
        .collect()
}
