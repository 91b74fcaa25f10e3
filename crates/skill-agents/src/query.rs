//! Queries: what a person would ask, and whether a skill should be loaded for it.
//!
//! Read are JSON Lines of this program and the files of others: skill-creator's list, `evals.json`, Skill Lab's
//! `triggers.yaml`, waza's `trigger_tests.yaml`.

use crate::skill::Skill;
use crate::table::Agent;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use skill_core::member::{self, WrongType, kind_of};
use skill_core::spelling::nearest;
use std::collections::BTreeMap;

/// Which half of the queries a query is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Half {
    /// The optimizer sees its failures.
    Train,
    /// The gate compares candidates on it.
    Heldout,
}

/// A query.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Query {
    /// Its name: unique, and a name for files.
    pub id: String,
    /// What the agent is asked.
    pub query: String,
    /// The skill that should be loaded; `None` for none.
    pub skill: Option<String>,
    /// It is close to a skill's subject, and none should be loaded.
    pub near_miss: bool,
    /// The half that it was put in; `None` leaves that to [`halves`].
    pub half: Option<Half>,
    /// A person has read it; drafts begin without.
    pub reviewed: bool,
}

/// A file that has no queries.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum QueryFault {
    /// It is neither JSON, JSON Lines nor YAML.
    #[error("{place} cannot be read: {what}")]
    Syntax {
        /// File and line.
        place: String,
        /// What is wrong.
        what: String,
    },
    /// An entry is not a query.
    #[error("{place} {what}")]
    Entry {
        /// File and line or number.
        place: String,
        /// What is wrong.
        what: String,
    },
    /// The file has no queries.
    #[error("{place} has no queries")]
    Empty {
        /// The file.
        place: String,
    },
}

impl QueryFault {
    /// What to do about it.
    pub const fn hint(&self) -> &'static str {
        match self {
            Self::Syntax { .. } | Self::Entry { .. } => concat!(
                "one JSON object in each line: {\"query\": \"..\", \"should\": true}; see ",
                skill_core::book_page!(skill_triggers)
            ),
            Self::Empty { .. } => "write some, or have a first set drafted with `--draft 20`",
        }
    }
}

/// Reads a file of queries; `true` means the skill named `skill`, and `file` is the name that errors show.
///
/// # Errors
///
/// A file that is none, an entry without a text, two labels for one text.
pub fn read_queries(text: &str, file: &str, skill: &str) -> Result<Vec<Query>, QueryFault> {
    let text = text.trim_start_matches('\u{feff}');
    let entries = entries(text, file)?;
    let mut queries: Vec<Query> = Vec::with_capacity(entries.len());
    for (place, entry) in entries {
        let query = query(&entry, &place, skill)?;
        if let Some(known) = queries.iter().find(|known| known.query == query.query) {
            if known.skill == query.skill {
                continue;
            }
            let what = format!("has the text of {:?} with another label", known.id);
            return Err(QueryFault::Entry { place, what });
        }
        if queries.iter().any(|known| known.id == query.id) {
            let what = format!("has the id {:?} of another query", query.id);
            return Err(QueryFault::Entry { place, what });
        }
        queries.push(query);
    }
    if queries.is_empty() {
        return Err(QueryFault::Empty { place: file.to_owned() });
    }
    Ok(queries)
}

/// Gives the skills that queries name the names by which an agent lists them, so that one file serves all agents; the
/// first name that no skill has is the error.
///
/// # Errors
///
/// The name that is not known.
pub fn resolve(queries: &mut [Query], skills: &[Skill], agent: &Agent) -> Result<(), String> {
    for query in queries {
        let Some(name) = &query.skill else { continue };
        let by_list = skills.iter().find(|skill| skill.listed_name(agent) == name);
        let skill = by_list.or_else(|| skills.iter().find(|skill| skill.is_called(name)));
        query.skill = Some(skill.ok_or_else(|| name.clone())?.listed_name(agent).to_owned());
    }
    Ok(())
}

/// The entries of a file, each with its place.
fn entries(text: &str, file: &str) -> Result<Vec<(String, Value)>, QueryFault> {
    let syntax = |place: String, what: String| QueryFault::Syntax { place, what };
    let numbered = |entries: &[Value]| -> Vec<(String, Value)> {
        let place = |idx: usize| format!("{file}, entry {}", idx + 1);
        entries.iter().enumerate().map(|(idx, entry)| (place(idx), entry.clone())).collect()
    };
    let whole: Option<Value> = if file.ends_with(".yaml") || file.ends_with(".yml") {
        let value =
            serde_saphyr::from_str(text).map_err(|error| syntax(file.to_owned(), error.to_string()))?;
        Some(value)
    } else {
        serde_json::from_str(text).ok()
    };
    match whole {
        Some(Value::Array(entries)) => Ok(numbered(&entries)),
        Some(Value::Object(fields)) if fields.contains_key("query") => {
            Ok(vec![(file.to_owned(), fields.into())])
        }
        Some(Value::Object(fields)) => {
            let fault = |what: String| QueryFault::Entry { place: file.to_owned(), what };
            if let Some(what) = fields.iter().find_map(|(name, value)| unread_list(name, value)) {
                return Err(fault(what));
            }
            let mut all = Vec::new();
            for (name, label) in LISTS {
                let entries = member::list(&fields, name).map_err(|error| fault(has_wrong(error)))?;
                for (place, entry) in numbered(entries.unwrap_or_default()) {
                    all.push((place, labelled(entry, label)));
                }
            }
            Ok(all)
        }
        Some(_) => Err(syntax(file.to_owned(), "it is neither a list nor an object".to_owned())),
        None => {
            let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
            lines
                .map(|(idx, line)| {
                    let place = format!("{file}:{}", idx + 1);
                    let value = serde_json::from_str(line)
                        .map_err(|error| syntax(place.clone(), error.to_string()))?;
                    Ok((place, value))
                })
                .collect()
        }
    }
}

/// Fields that hold lists, and what an entry of them is if it does not say so itself.
const LISTS: [(&str, Option<bool>); 8] = [
    ("queries", None),
    ("evals", Some(true)),
    ("test_cases", None),
    ("trigger_tests", None),
    ("should_trigger_prompts", Some(true)),
    ("shouldTriggerPrompts", Some(true)),
    ("should_not_trigger_prompts", Some(false)),
    ("shouldNotTriggerPrompts", Some(false)),
];

/// What is wrong with a list of queries whose name is not among [`LISTS`]; `None` for a field of another kind, such as the
/// tags and settings of the files of others.
fn unread_list(name: &str, value: &Value) -> Option<String> {
    if LISTS.iter().any(|(known, _)| *known == name) {
        return None;
    }
    let entries = value.as_array()?;
    let is_query = |entry: &Value| QUERY.iter().any(|name| entry.get(*name).is_some());
    let meant = nearest(name, LISTS.iter().map(|(known, _)| *known));
    if entries.is_empty()
        || !entries.iter().all(|entry| is_query(entry) || entry.is_string() && meant.is_some())
    {
        return None;
    }
    let advice = match meant {
        Some(meant) => format!("did you mean `{meant}`?"),
        None => format!("valid are {}", LISTS.map(|(known, _)| known).join(", ")),
    };
    Some(format!("has queries in `{name}`, which is not read; {advice}"))
}

fn labelled(entry: Value, label: Option<bool>) -> Value {
    let mut entry = match entry {
        Value::String(text) => json!({ "query": text }),
        other => other,
    };
    if let (Some(label), Value::Object(fields)) = (label, &mut entry)
        && !SHOULD.iter().any(|name| fields.contains_key(*name))
    {
        fields.insert("should".to_owned(), Value::Bool(label));
    }
    entry
}

/// Names of the text.
const QUERY: [&str; 2] = ["query", "prompt"];

/// Names of the label in the files of others.
const SHOULD: [&str; 5] =
    ["should", "should_trigger", "skill_should_trigger", "expected", "expected_trigger"];

fn query(entry: &Value, place: &str, skill: &str) -> Result<Query, QueryFault> {
    let fault = |what: &str| QueryFault::Entry { place: place.to_owned(), what: what.to_owned() };
    let Value::Object(fields) = entry else { return Err(fault("is not an object")) };
    let wrong = |error: WrongType| fault(&has_wrong(error));
    let text = |names: [&str; 2]| {
        let [first, second] = names.map(|name| member::text(fields, name).map_err(wrong));
        let filled =
            |text: Option<&str>| text.map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned);
        let (first, second) = (filled(first?), filled(second?));
        Ok::<_, QueryFault>(first.or(second))
    };
    let query = text(QUERY)?.ok_or_else(|| fault("has no text in `query`"))?;
    let kind = text(["type", "kind"])?.unwrap_or_default();
    let expected = match SHOULD.iter().find_map(|name| fields.get(*name)) {
        Some(Value::Bool(true)) => Some(skill.to_owned()),
        Some(Value::Bool(false) | Value::Null) => None,
        Some(Value::String(name)) => match name.as_str() {
            "trigger" | "true" | "yes" => Some(skill.to_owned()),
            "no_trigger" | "false" | "no" | "none" | "" => None,
            name => Some(name.to_owned()),
        },
        Some(_) => return Err(fault("has a label that is neither true, false nor the name of a skill")),
        None if kind == "negative" => None,
        None if !kind.is_empty() && ["explicit", "implicit", "contextual"].contains(&kind.as_str()) => {
            Some(skill.to_owned())
        }
        None => return Err(fault("does not say in `should` whether the skill should be loaded")),
    };
    let half = match text(["split", "half"])?.as_deref() {
        None => None,
        Some("train") => Some(Half::Train),
        Some("heldout" | "held_out" | "val" | "validation" | "test") => Some(Half::Heldout),
        Some(_) => return Err(fault("has a `split` that is neither train nor heldout")),
    };
    let given = match fields.get("id") {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(id)) => id.clone(),
        Some(Value::Number(id)) => id.to_string(),
        // YAML reads `y` and `no` as booleans.
        Some(Value::Bool(id)) => id.to_string(),
        Some(other) => {
            return Err(fault(&format!("has {} as `id`; expected a text or a number", kind_of(other))));
        }
    };
    let is_marked = member::flag(fields, "near_miss").map_err(wrong)?.unwrap_or(false);
    let near_miss = is_marked || kind == "near_miss";
    Ok(Query {
        id: id(&given, &query),
        near_miss: near_miss && expected.is_none(),
        // Only drafts are marked as not reviewed.
        reviewed: member::flag(fields, "reviewed").map_err(wrong)?.unwrap_or(true),
        skill: expected,
        half,
        query,
    })
}

/// A member of the wrong type, as the end of "queries.jsonl, entry 2 ...".
fn has_wrong(error: WrongType) -> String {
    let WrongType { key, found, expected } = error;
    format!("has {found} as `{key}`; expected {expected}")
}

/// A name for files: what was given, as far as it can be one, or the hash of the text.
fn id(given: &str, query: &str) -> String {
    let is_safe = |sign: char| sign.is_ascii_alphanumeric() || matches!(sign, '-' | '_');
    if !given.is_empty() && given.len() <= 64 && given.chars().all(is_safe) {
        return given.to_owned();
    }
    let digest = Sha256::digest(query.as_bytes());
    format!("q-{}", crate::skill::hex(digest.get(..4).expect("a SHA-256 has 32 bytes")))
}

/// How many of ten queries are held out.
pub const HELDOUT_TENTHS: usize = 4;

/// The halves of queries: as they say, and else 40 % are held out, rounded up, the same share of each label.
pub fn halves(queries: &[Query], seed: u64) -> BTreeMap<String, Half> {
    type Label<'a> = (Option<&'a str>, bool);
    let mut halves = BTreeMap::new();
    let mut groups: BTreeMap<Label<'_>, Vec<(u64, &Query)>> = BTreeMap::new();
    for query in queries {
        match query.half {
            Some(half) => drop(halves.insert(query.id.clone(), half)),
            None => {
                let digest = Sha256::digest(format!("{seed}\n{}", query.query).as_bytes());
                let dice = digest.iter().take(8).fold(0_u64, |sum, byte| (sum << 8) | u64::from(*byte));
                groups.entry((query.skill.as_deref(), query.near_miss)).or_default().push((dice, query));
            }
        }
    }
    for group in groups.values_mut() {
        group.sort_by(|one, other| one.0.cmp(&other.0).then_with(|| one.1.id.cmp(&other.1.id)));
        let n_heldout = (group.len() * HELDOUT_TENTHS).div_ceil(10).min(group.len().saturating_sub(1));
        let n_train = group.len() - n_heldout;
        for (idx, (_, query)) in group.iter().enumerate() {
            let half = if idx < n_train { Half::Train } else { Half::Heldout };
            halves.insert(query.id.clone(), half);
        }
    }
    halves
}

/// The beginning of a query in one line, of at most so many characters before an ellipsis.
pub fn beginning(query: &str, max_chars: usize) -> String {
    let line = query.split_whitespace().collect::<Vec<_>>().join(" ");
    let shown: String = line.chars().take(max_chars).collect();
    if shown.len() < line.len() { format!("{shown}…") } else { line }
}

/// What is wrong with a set of queries without making it useless.
pub fn warnings(queries: &[Query]) -> Vec<String> {
    let n_should = queries.iter().filter(|query| query.skill.is_some()).count();
    let mut warnings = Vec::new();
    if n_should == queries.len() {
        warnings.push(
            "no query is one for which the skill should not be loaded, so false positives are not measured: add \
             some, near misses above all"
                .to_owned(),
        );
    } else if !queries.iter().any(|query| query.near_miss) {
        warnings.push(
            "no query is marked as a near miss (`\"near_miss\": true`), so the false positives say little"
                .to_owned(),
        );
    }
    if n_should == 0 {
        warnings.push(
            "no query is one for which the skill should be loaded, so recall is not measured".to_owned(),
        );
    }
    warnings
}
