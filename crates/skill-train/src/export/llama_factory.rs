//! Data sets for LLaMA-Factory: `dataset_info.json` and a file in the sharegpt format.
//!
//! The system message is a column; turns of user and agent alternate and are even in number, or the row is skipped with
//! a warning. All turns of the agent are learnt.

use super::rules::{Row, path};
use super::{Checked, ExportError, FieldFault, Kind, Turn, messages_value};
use serde_json::{Map, Value, json};

/// The file that names the data sets of a folder.
pub const INFO_FILE: &str = "dataset_info.json";

/// A data set as files of one folder.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Files {
    /// The content of [`INFO_FILE`].
    pub info: String,
    /// The name of the file with the rows.
    pub data_name: String,
    /// Its content.
    pub data: String,
}

/// A data set of this name, which becomes the name of its file.
///
/// # Errors
///
/// The errors of [`check`]: a conversation in which user and agent do not alternate, that does not end with the agent, or
/// that has a system message in the middle or tool results.
pub fn write(name: &str, conversations: &[Vec<Turn>]) -> Result<Files, ExportError> {
    let rows = conversations.iter().enumerate().map(|(place, turns)| row_value(Row(place), turns));
    let rows = rows.collect::<Result<Vec<Value>, _>>()?;
    let data_name = format!("{name}.json");
    let mut info = Map::new();
    info.insert(
        name.to_owned(),
        json!({
            "file_name": data_name,
            "formatting": "sharegpt",
            "columns": {"messages": "conversations", "system": "system"},
            "tags": {"role_tag": "from", "content_tag": "value", "user_tag": "human", "assistant_tag": "gpt"},
        }),
    );
    let files = Files { info: pretty(&Value::Object(info)), data_name, data: pretty(&Value::Array(rows)) };
    check(&files.info, |file| (file == files.data_name).then(|| files.data.clone()))?;
    Ok(files)
}

fn pretty(value: &Value) -> String {
    format!("{value:#}\n")
}

fn row_value(row: Row, turns: &[Turn]) -> Result<Value, ExportError> {
    let messages = messages_value(turns);
    let messages = row.messages("messages", &messages, super::rules::END_OF_REPLY)?;
    let system = messages.iter().find(|(role, _)| *role == "system").map(|(_, content)| *content);
    let said = messages.iter().enumerate().filter(|(_, (role, _))| *role != "system");
    let turn = |(place, (role, content)): (usize, &(&str, &str))| {
        let from = match *role {
            "user" => "human",
            "assistant" => "gpt",
            other => {
                let fault =
                    FieldFault::MisplacedRole { role: other.to_owned(), expected: "user or assistant" };
                return Err(row.fault(format!("messages[{place}].role"), fault));
            }
        };
        Ok(json!({"from": from, "value": content}))
    };
    let turns = said.map(turn).collect::<Result<Vec<Value>, _>>()?;
    Ok(json!({"conversations": turns, "system": system.unwrap_or_default()}))
}

/// Checks all data sets that a `dataset_info.json` names; `read` gives the content of a file beside it, if it exists.
///
/// # Errors
///
/// The first entry, or row and field, that LLaMA-Factory would refuse, skip, or learn nothing from. Only data sets in
/// the sharegpt format are known.
pub fn check(info: &str, read: impl Fn(&str) -> Option<String>) -> Result<Vec<Checked>, ExportError> {
    let unreadable = |file: &str, error: serde_json::Error| {
        ExportError::file(file, FieldFault::Unreadable(error.to_string()))
    };
    let info: Map<String, Value> =
        serde_json::from_str(info).map_err(|error| unreadable(INFO_FILE, error))?;
    if info.is_empty() {
        return Err(ExportError::file(INFO_FILE, FieldFault::Empty));
    }
    let mut checked = Vec::new();
    for (name, entry) in &info {
        let layout = Layout::of(name, entry)?;
        let data = read(&layout.file).ok_or_else(|| ExportError::file(&layout.file, FieldFault::Missing))?;
        let rows: Vec<Value> =
            serde_json::from_str(&data).map_err(|error| unreadable(&layout.file, error))?;
        if rows.is_empty() {
            return Err(ExportError::file(&layout.file, FieldFault::Empty));
        }
        for (place, row) in rows.iter().enumerate() {
            layout.check_row(Row(place), row)?;
        }
        checked.push(Checked { kind: Kind::Messages, n_rows: rows.len(), columns: Vec::new() });
    }
    Ok(checked)
}

/// The names in a data set's rows, with LLaMA-Factory's defaults.
struct Layout {
    file: String,
    messages: String,
    system: Option<String>,
    role_tag: String,
    content_tag: String,
    /// Tags of the user's side, of the agent's side, and of a system turn.
    asks: [String; 2],
    says: [String; 2],
    system_tag: String,
}

impl Layout {
    fn of(name: &str, entry: &Value) -> Result<Self, ExportError> {
        let text = |group: &str, key: &str| {
            let group = if group.is_empty() { Some(entry) } else { entry.get(group) };
            group.and_then(|group| group.get(key)).and_then(Value::as_str).map(str::to_owned)
        };
        let missing = |key: &str, fault| ExportError::file(path(name, key), fault);
        let file = text("", "file_name").ok_or_else(|| missing("file_name", FieldFault::Missing))?;
        match text("", "formatting").as_deref() {
            Some("sharegpt") => {}
            other => {
                let value = other.unwrap_or("alpaca").to_owned();
                return Err(missing("formatting", FieldFault::Unknown { value, expected: "sharegpt" }));
            }
        }
        let tag = |key: &str, default: &str| text("tags", key).unwrap_or_else(|| default.to_owned());
        Ok(Self {
            file,
            messages: text("columns", "messages").unwrap_or_else(|| "conversations".to_owned()),
            system: text("columns", "system"),
            role_tag: tag("role_tag", "from"),
            content_tag: tag("content_tag", "value"),
            asks: [tag("user_tag", "human"), tag("observation_tag", "observation")],
            says: [tag("assistant_tag", "gpt"), tag("function_tag", "function_call")],
            system_tag: tag("system_tag", "system"),
        })
    }

    fn check_row(&self, row: Row, value: &Value) -> Result<(), ExportError> {
        let object = row.object(value)?;
        if let Some(system) = &self.system
            && object.get(system).is_some_and(|value| !value.is_null())
        {
            row.text(object, "", system)?;
        }
        let field = self.messages.as_str();
        let turns = row.field(object, "", field)?;
        let turns = turns.as_array().ok_or_else(|| row.fault(field, FieldFault::NotA("a list of turns")))?;
        let mut said = turns.iter().enumerate().map(|(place, turn)| self.turn(row, place, turn));
        let mut said = said.by_ref().collect::<Result<Vec<(&str, &str)>, _>>()?;
        let leads = said.first().is_some_and(|(tag, _)| *tag == self.system_tag);
        if leads {
            said.remove(0);
        }
        for (place, (tag, _)) in said.iter().enumerate() {
            let (tags, expected) = match place % 2 {
                0 => (&self.asks, "a turn of the user's side"),
                _ => (&self.says, "a turn of the agent's side"),
            };
            if !tags.iter().any(|known| known == tag) {
                let place = place + usize::from(leads);
                let fault = FieldFault::MisplacedRole { role: (*tag).to_owned(), expected };
                return Err(row.fault(format!("{field}[{place}].{}", self.role_tag), fault));
            }
        }
        match said.last() {
            None => Err(row.fault(field, FieldFault::Empty)),
            Some(_) if said.len() % 2 == 1 => Err(row.fault(field, FieldFault::OddTurns(said.len()))),
            Some((_, content)) if content.trim().is_empty() => {
                let place = turns.len() - 1;
                Err(row.fault(format!("{field}[{place}].{}", self.content_tag), FieldFault::NothingToLearn))
            }
            Some(_) => Ok(()),
        }
    }

    /// Tag and content of a turn.
    fn turn<'a>(&self, row: Row, place: usize, turn: &'a Value) -> Result<(&'a str, &'a str), ExportError> {
        let at = format!("{}[{place}]", self.messages);
        let object = turn.as_object().ok_or_else(|| row.fault(&at, FieldFault::NotA("an object")))?;
        Ok((row.text(object, &at, &self.role_tag)?, row.text(object, &at, &self.content_tag)?))
    }
}
