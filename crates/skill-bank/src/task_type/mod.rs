//! The type of a task: from its environment, else from whole words of its goal.
//!
//! One [`TypeTable`] serves distilling and retrieving, so that a skill is looked up under the type that it was learned
//! from. It guesses nothing silently: [`Detected`] says how the type was found, and that it was not.
//!
//! # Invariants
//!
//! - Distilling and retrieving use one table of types, and a type that is guessed or unknown is reported as such.
//!   Held by `a_guess_says_that_it_is_one`.

mod words;

use crate::error::BankError;
use serde::{Deserialize, Serialize};
use skill_core::python_json;
use std::collections::{BTreeMap, BTreeSet};
use words::{Lexicon, forms_of_name, plain, tokens};

/// The table that is built in: the types of ALFWorld, WebShop and question answering by search.
const BUILT_IN: &str = include_str!("../../data/task_types.json");

/// The type of a task, and how it was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Detected {
    /// The type, under the bank's own name where the bank has it; `None` if it is unknown.
    pub task_type: Option<String>,
    /// How it was found.
    pub found: Found,
}

/// How the type of a task was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "by", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Found {
    /// The environment names it.
    Environment,
    /// These words of the goal belong to it.
    Words {
        /// The words as the table has them, those of a rule that requires several joined by ` + `.
        word: String,
    },
    /// A guess: these words are all that is known of the goal, and goals of other types have them too.
    Guess {
        /// The words as the table has them.
        word: String,
    },
    /// No word of the goal is known, so it is the type that its family uses then.
    Fallback,
    /// Nothing fits: the task is shown general skills and mistakes only.
    Unknown,
}

impl Detected {
    /// A type that the environment names.
    pub fn environment(task_type: impl Into<String>) -> Self {
        Self { task_type: Some(task_type.into()), found: Found::Environment }
    }

    /// A type that is not known.
    pub fn unknown() -> Self {
        Self { task_type: None, found: Found::Unknown }
    }

    fn words(task_type: String, word: String) -> Self {
        Self { task_type: Some(task_type), found: Found::Words { word } }
    }
}

/// How the types of tasks are named and which words they are known by, by families of types.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TypeTable {
    /// The families; of two that fit equally well, the first one counts.
    pub families: Vec<TypeFamily>,
}

/// Types of task that occur together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TypeFamily {
    /// Its name, for messages.
    pub name: String,
    /// Its types.
    pub types: Vec<NamedType>,
    /// Names that an environment uses for several types.
    #[serde(default)]
    pub sources: Vec<MixedSource>,
    /// Phrases that end the part of a goal in which words are looked up; what follows them are details.
    #[serde(default)]
    pub until: Vec<String>,
    /// The words of the types.
    pub words: Vec<WordRule>,
    /// Which of two rules counts that match equally many words.
    #[serde(default)]
    pub prefer: Prefer,
    /// The type of a goal without any of the words; `None` leaves it unknown.
    pub fallback: Option<String>,
}

/// A type of task and its other names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NamedType {
    /// Its name.
    pub name: String,
    /// Names of the same type in environments and in banks of other systems.
    #[serde(default)]
    pub names: Vec<String>,
    /// Types whose skills serve for it in a bank that does not have it, in this order.
    #[serde(default)]
    pub substitutes: Vec<String>,
}

/// A name that an environment uses for several types, such as a collection of questions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MixedSource {
    /// Its names.
    pub names: Vec<String>,
    /// The type of its tasks.
    #[serde(rename = "type")]
    pub task_type: String,
    /// The types that it has too, by the words of the goal.
    #[serde(default)]
    pub unless: Vec<String>,
}

/// Words that tell a type.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WordRule {
    /// The type.
    #[serde(rename = "type")]
    pub task_type: String,
    /// Phrases of which each is enough. They match whole words in any letter case, also in the plural.
    #[serde(default)]
    pub any: Vec<String>,
    /// Phrases that are all required; used instead of `any`.
    #[serde(default)]
    pub all: Vec<String>,
    /// True if the rule counts only where no other matches: what it finds is a guess.
    #[serde(default)]
    pub weak: bool,
}

skill_core::named_enum! {
    /// Which of two rules counts that match equally many words; one that matches more words always counts first.
    #[derive(Default)]
    pub enum Prefer {
        /// The one that comes first in the table.
        #[default]
        FirstRule = "first_rule",
        /// The one whose words come first in the goal.
        FirstWord = "first_word",
    }
}

/// Finds the types of tasks for banks with given types.
#[derive(Debug, Clone)]
pub struct TypeDetector {
    /// The types of the bank.
    types: Vec<String>,
    /// Every name of a type, as [`plain`] has it, with the bank's own name of the type.
    names: BTreeMap<String, String>,
    /// The families whose words are looked up, the best one first.
    families: Vec<KnownFamily>,
    /// The words of the bank's own names, for types that no family knows.
    own_words: Vec<(BTreeSet<String>, String)>,
}

#[derive(Debug, Clone)]
struct KnownFamily {
    lexicon: Lexicon,
    sources: Vec<MixedSource>,
    fallback: Option<String>,
    /// The bank's own name of each type.
    own_names: BTreeMap<String, String>,
}

impl Default for TypeTable {
    /// The built-in table.
    fn default() -> Self {
        serde_json::from_str(BUILT_IN).expect("the table is a constant, and tests read it")
    }
}

impl TypeTable {
    /// A table from JSON, in the form of the built-in one.
    ///
    /// # Errors
    ///
    /// [`BankError::BadTypeTable`]: text that is not such a table, or a table that uses a type that it does not define.
    pub fn from_json(text: &str) -> Result<Self, BankError> {
        let bad = |message: String| BankError::BadTypeTable { message };
        let table: Self = python_json::read(text).map_err(|error| bad(error.to_string()))?;
        table.families.iter().try_for_each(|family| match family.undefined() {
            Some(name) => Err(bad(format!("the family `{}` does not define the type `{name}`", family.name))),
            None => Ok(()),
        })?;
        Ok(table)
    }

    /// A detector for the types of a bank.
    ///
    /// Without any types, as when a first bank is distilled, all families are known by their names, and words of a goal
    /// are looked up in the family of the environment's name.
    pub fn detector<'a>(&self, types: impl IntoIterator<Item = &'a str>) -> TypeDetector {
        let types: Vec<String> = types.into_iter().map(str::to_owned).collect();
        let mut names = BTreeMap::new();
        let mut ranked = Vec::new();
        for family in &self.families {
            let known = family.known_names(&types);
            let n_known = types.iter().filter(|own| known.values().any(|name| name == *own)).count();
            if n_known == 0 && !types.is_empty() {
                continue;
            }
            for named in &family.types {
                let own = known.get(&named.name).unwrap_or(&named.name);
                for name in std::iter::once(&named.name).chain(&named.names) {
                    names.entry(plain(name)).or_insert_with(|| own.clone());
                }
            }
            ranked.push((n_known, family.prepared(known)));
        }
        // A bank's own name says exactly what it means.
        names.extend(types.iter().map(|own| (plain(own), own.clone())));
        ranked.sort_by_key(|(n_known, _)| std::cmp::Reverse(*n_known));
        let families: Vec<KnownFamily> = ranked.into_iter().map(|(_, family)| family).collect();
        let is_known =
            |own: &String| families.iter().any(|family| family.own_names.values().any(|name| name == own));
        let strange = types.iter().filter(|own| !is_known(own));
        let own_words = strange.map(|own| (forms_of_name(own), own.clone())).collect();
        TypeDetector { types, names, families, own_words }
    }
}

impl TypeFamily {
    /// A type that is used and not defined.
    fn undefined(&self) -> Option<&String> {
        let used = self.words.iter().map(|rule| &rule.task_type);
        let used = used
            .chain(self.sources.iter().flat_map(|source| source.unless.iter().chain([&source.task_type])));
        let used = used.chain(self.types.iter().flat_map(|named| &named.substitutes)).chain(&self.fallback);
        used.into_iter().find(|used| !self.types.iter().any(|named| named.name == **used))
    }

    /// The names that a bank with these types uses for the types of the family: its own name of the type, else that of
    /// the first substitute that it has.
    fn known_names(&self, types: &[String]) -> BTreeMap<String, String> {
        let of = |named: &NamedType| {
            let known = |own: &&String| {
                let own = plain(own);
                own == plain(&named.name) || named.names.iter().any(|name| plain(name) == own)
            };
            types.iter().find(known).cloned()
        };
        let named = |name: &String| self.types.iter().find(|named| named.name == *name);
        let own = self.types.iter().filter_map(|kind| {
            let substitute = || kind.substitutes.iter().find_map(|name| of(named(name)?));
            Some((kind.name.clone(), of(kind).or_else(substitute)?))
        });
        own.collect()
    }

    fn prepared(&self, own_names: BTreeMap<String, String>) -> KnownFamily {
        KnownFamily {
            lexicon: Lexicon::new(&self.words, &self.until, self.prefer),
            sources: self.sources.clone(),
            fallback: self.fallback.clone(),
            own_names,
        }
    }
}

impl KnownFamily {
    fn own(&self, name: &str) -> String {
        self.own_names.get(name).map_or(name, String::as_str).to_owned()
    }

    /// The type by the words of the goal, among these types only unless there are none.
    fn by_words(&self, goal: &[String], among: &[String]) -> Option<Detected> {
        let is_wanted = |name: &str| among.is_empty() || among.iter().any(|wanted| wanted == name);
        let (name, word, is_weak) = self.lexicon.find(goal, is_wanted)?;
        let found = if is_weak { Found::Guess { word } } else { Found::Words { word } };
        Some(Detected { task_type: Some(self.own(name)), found })
    }
}

impl TypeDetector {
    /// The type of a task: by the environment's name for it, else by the words of the goal, else the fall-back of the
    /// family that the bank's types belong to, else unknown.
    ///
    /// A name of the environment that neither the bank nor its families know is kept as the type unless the goal has
    /// words of a type; the bank has no skills for it.
    pub fn detect(&self, environment_type: &str, goal: &str) -> Detected {
        let environment_type = environment_type.trim();
        let goal = tokens(goal);
        if !environment_type.is_empty() {
            if let Some(own) = self.types.iter().find(|own| *own == environment_type) {
                return Detected::environment(own);
            }
            let name = plain(environment_type);
            if let Some(own) = self.names.get(&name) {
                return Detected::environment(own);
            }
            if let Some(found) = self.families.iter().find_map(|family| by_source(family, &name, &goal)) {
                return found;
            }
        }
        // Without a bank nothing says which family a goal belongs to.
        if !self.types.is_empty()
            && let Some(found) = self.families.iter().find_map(|family| family.by_words(&goal, &[]))
        {
            return found;
        }
        if let Some(found) = self.by_own_words(&goal) {
            return found;
        }
        let fallback = self.families.first().filter(|_| !self.types.is_empty());
        match fallback.and_then(|family| Some(family.own(family.fallback.as_ref()?))) {
            _ if !environment_type.is_empty() => Detected::environment(environment_type),
            Some(task_type) => Detected { task_type: Some(task_type), found: Found::Fallback },
            None => Detected::unknown(),
        }
    }

    /// The type whose own name has the most words in the goal; none if two have equally many.
    fn by_own_words(&self, goal: &[String]) -> Option<Detected> {
        let goal: BTreeSet<String> = goal.iter().flat_map(|token| forms_of_name(token)).collect();
        let counts =
            self.own_words.iter().map(|(words, own)| (words.intersection(&goal).count(), words, own));
        let best = counts.clone().max_by_key(|(count, ..)| *count).filter(|(count, ..)| *count > 0)?;
        if counts.filter(|(count, ..)| *count == best.0).count() > 1 {
            return None;
        }
        let words: Vec<&str> = best.1.intersection(&goal).map(String::as_str).collect();
        Some(Detected::words(best.2.clone(), words.join(" + ")))
    }
}

/// The type of a task of a source with several types.
fn by_source(family: &KnownFamily, name: &str, goal: &[String]) -> Option<Detected> {
    let is_named = |source: &&MixedSource| source.names.iter().any(|own| plain(own) == name);
    let source = family.sources.iter().find(is_named)?;
    let by_words = (!source.unless.is_empty()).then(|| family.by_words(goal, &source.unless)).flatten();
    Some(by_words.unwrap_or_else(|| Detected::environment(family.own(&source.task_type))))
}
