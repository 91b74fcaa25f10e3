//! The tasks of a world, by split and by id, and which of them an episode is about.

use crate::wire::Fault;
use serde_json::{Map, Value, json};
use skill_core::random::Dice;
use skill_envs::{Item, Split, Splits, World};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The most characters of an episode's id that a client chooses.
const MAX_EPISODE_ID: usize = 128;
/// How many ids a message names where one is not found.
const MAX_NAMED: usize = 3;

/// The tasks of a world.
pub(crate) struct Tasks {
    world: Arc<dyn World>,
    by_id: HashMap<String, (Split, usize)>,
    /// How many episodes of each split were about no task in particular: these take turns.
    turns: Splits<AtomicUsize>,
}

/// What a reset asks for besides skills.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Asked {
    pub(crate) task: Option<String>,
    pub(crate) split: Option<Split>,
    pub(crate) index: Option<usize>,
    pub(crate) seed: Option<u64>,
    pub(crate) episode_id: Option<String>,
}

impl Asked {
    /// Reads the parameters of a reset. Others are none of ours: trainers send all columns of a row.
    pub(crate) fn read(data: &Map<String, Value>) -> Result<Self, Fault> {
        let text = |name: &str| match given(data, name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            // Tables of data make numbers of ids that look like some.
            Some(Value::Number(number)) => Ok(Some(number.to_string())),
            Some(other) => {
                Err(Fault::field("string_type", name, format!("`{name}` is not a text"), other.clone()))
            }
        };
        let number = |name: &str| match given(data, name) {
            None => Ok(None),
            Some(value) => value.as_u64().map(Some).ok_or_else(|| {
                let message = format!("`{name}` is not a whole number from 0 on");
                Fault::field("int_type", name, message, value.clone())
            }),
        };
        let split = match text("split")? {
            Some(name) => Some(split(&name)?),
            None => None,
        };
        let episode_id = text("episode_id")?;
        if let Some(id) = &episode_id
            && (id.is_empty() || id.chars().count() > MAX_EPISODE_ID || id.chars().any(char::is_control))
        {
            let message = format!("`episode_id` is not a line of 1 to {MAX_EPISODE_ID} characters");
            return Err(Fault::field("value_error", "episode_id", message, json!(id)));
        }
        Ok(Self {
            task: text("task_id")?.map_or_else(|| text("task"), |id| Ok(Some(id)))?,
            split,
            index: number("index")?.map(|index| usize::try_from(index).unwrap_or(usize::MAX)),
            seed: number("seed")?,
            episode_id,
        })
    }
}

/// A parameter that is there; `null` counts as missing, as tables of data have it for empty cells.
pub(crate) fn given<'a>(data: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    data.get(name).filter(|value| !value.is_null())
}

/// The split of this name.
pub(crate) fn split(name: &str) -> Result<Split, Fault> {
    Split::parse(name).ok_or_else(|| {
        let message = format!("unknown split `{name}`; expected train, val or test");
        Fault::field("value_error", "split", message, json!(name))
    })
}

impl Tasks {
    pub(crate) fn new(world: Arc<dyn World>) -> Self {
        let ids = Split::ALL.into_iter().flat_map(|split| {
            let items = world.items(split).iter().enumerate();
            items.map(move |(idx, item)| (item.id.as_str().to_owned(), (split, idx)))
        });
        let by_id = ids.collect();
        Self { world, by_id, turns: Default::default() }
    }

    pub(crate) fn world(&self) -> &Arc<dyn World> {
        &self.world
    }

    pub(crate) fn of(&self, split: Split) -> &[Item] {
        self.world.items(split)
    }

    /// The task that is asked for; without one, the task that the seed picks, or the next one of the split.
    pub(crate) fn choose(&self, asked: &Asked) -> Result<(Split, &Item), Fault> {
        if let Some(id) = &asked.task {
            return self.named(id, asked.split);
        }
        let split = asked.split.unwrap_or(Split::Train);
        let items = self.of(split);
        if items.is_empty() {
            let message = format!("the split `{split}` has no tasks");
            return Err(Fault::field("value_error", "split", message, json!(split.as_str())));
        }
        let found = match (asked.index, asked.seed) {
            (Some(index), _) => {
                let found = items.get(index);
                return found.map(|item| (split, item)).ok_or_else(|| {
                    let message = format!("the split `{split}` has {} tasks, and no {index}", items.len());
                    Fault::field("value_error", "index", message, json!(index))
                });
            }
            (None, Some(seed)) => Dice::new(seed, &["task"]).pick(split.as_str(), items),
            (None, None) => {
                let turn = self.turn(split).fetch_add(1, Ordering::Relaxed);
                turn.checked_rem(items.len()).and_then(|idx| items.get(idx))
            }
        };
        found.map(|item| (split, item)).ok_or_else(|| Fault::invalid(Vec::new()))
    }

    fn turn(&self, split: Split) -> &AtomicUsize {
        &self.turns[split]
    }

    fn named(&self, id: &str, split: Option<Split>) -> Result<(Split, &Item), Fault> {
        let wrong = |message: String| Fault::field("value_error", "task_id", message, json!(id));
        let found = self.by_id.get(id).and_then(|(of, idx)| Some((*of, self.of(*of).get(*idx)?)));
        match (found, split) {
            (Some((of, _)), Some(split)) if of != split => {
                Err(wrong(format!("the task `{id}` belongs to the split `{of}`, not to `{split}`")))
            }
            (Some(found), _) => Ok(found),
            (None, _) => {
                let first = self.of(split.unwrap_or(Split::Train)).iter().take(MAX_NAMED);
                let first: Vec<String> = first.map(|item| format!("`{}`", item.id)).collect();
                Err(wrong(format!("task `{id}` not found; the first ones are {}", first.join(", "))))
            }
        }
    }

    /// A task as the task API shows it.
    pub(crate) fn shown(&self, item: &Item) -> Map<String, Value> {
        let mut shown = Map::new();
        shown.insert("task_id".to_owned(), json!(item.id));
        if !item.task_type.is_empty() {
            shown.insert("task_type".to_owned(), json!(item.task_type));
        }
        if let Some(goal) = self.world.goal(item) {
            shown.insert("goal".to_owned(), json!(goal));
        }
        shown
    }
}
