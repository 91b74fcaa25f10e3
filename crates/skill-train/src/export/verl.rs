//! Parquet files for verl.
//!
//! - SFT: a column `messages`, `list<struct<role, content>>`;
//! - RL: `data_source`, `prompt` (as `messages`), `ability`, `reward_model` (`style`, `ground_truth`) and `extra_info`
//!   (`index` as int64, `split`, `task_id`). A `data_source` that verl does not know needs a reward function of one's
//!   own in its configuration.
//!
//! Files are written without compression and without arrow; the checker reads those of pyarrow too.

use super::rules::{END_OF_REPLY, Ending, Row, path};
use super::{Checked, ExportError, FieldFault, Kind, TaskPrompt, Turn, messages_value};
use bytes::Bytes;
use parquet::basic::Compression;
use parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::record::Field;
use parquet::schema::parser::parse_message_type;
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// The roles that may end a prompt for RL; verl appends the generation prompt to it.
const END_OF_PROMPT: Ending = Ending { roles: &["user", "tool"], names: "user or tool" };

const SFT_SCHEMA: &str = "message schema {
    REQUIRED GROUP messages (LIST) { REPEATED GROUP list { REQUIRED GROUP element {
        REQUIRED BYTE_ARRAY role (STRING);
        REQUIRED BYTE_ARRAY content (STRING);
    } } }
}";

const RL_SCHEMA: &str = "message schema {
    REQUIRED BYTE_ARRAY data_source (STRING);
    REQUIRED GROUP prompt (LIST) { REPEATED GROUP list { REQUIRED GROUP element {
        REQUIRED BYTE_ARRAY role (STRING);
        REQUIRED BYTE_ARRAY content (STRING);
    } } }
    REQUIRED BYTE_ARRAY ability (STRING);
    REQUIRED GROUP reward_model {
        REQUIRED BYTE_ARRAY style (STRING);
        REQUIRED BYTE_ARRAY ground_truth (STRING);
    }
    REQUIRED GROUP extra_info {
        REQUIRED INT64 index;
        REQUIRED BYTE_ARRAY split (STRING);
        REQUIRED BYTE_ARRAY task_id (STRING);
    }
}";

/// Columns with one value for all rows of a file for RL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// The data set's name, by which verl finds a reward function.
    pub data_source: String,
    /// The kind of task, for statistics.
    pub ability: String,
    /// The part of the data, such as `train`.
    pub split: String,
}

/// Conversations for verl's SFT trainer.
///
/// # Errors
///
/// The errors of [`check`]: a conversation that is empty, has a system message in the middle, or does not end with the
/// agent.
pub fn messages(conversations: &[Vec<Turn>]) -> Result<Vec<u8>, ExportError> {
    let rows: Vec<Value> =
        conversations.iter().map(|turns| json!({"messages": messages_value(turns)})).collect();
    check_rows(&rows)?;
    let lists: Vec<&[Turn]> = conversations.iter().map(Vec::as_slice).collect();
    file(SFT_SCHEMA, |group| write_messages(group, &lists))
}

/// Prompts for verl's RL trainers; the reward's style is `rule`.
///
/// # Errors
///
/// The errors of [`check`]: a prompt that is empty or does not end with user or tool, or a data source without a name.
pub fn prompts(tasks: &[TaskPrompt], source: &Source) -> Result<Vec<u8>, ExportError> {
    let index = |place: usize| i64::try_from(place).unwrap_or(i64::MAX);
    let row = |(place, task): (usize, &TaskPrompt)| {
        json!({
            "data_source": source.data_source,
            "prompt": messages_value(&task.turns),
            "ability": source.ability,
            "reward_model": {"style": "rule", "ground_truth": task.ground_truth},
            "extra_info": {"index": index(place), "split": source.split, "task_id": task.task_id},
        })
    };
    check_rows(&tasks.iter().enumerate().map(row).collect::<Vec<Value>>())?;
    let lists: Vec<&[Turn]> = tasks.iter().map(|task| task.turns.as_slice()).collect();
    let same = |text: &str| vec![ByteArray::from(text); tasks.len()];
    file(RL_SCHEMA, |group| {
        write_texts(group, &same(&source.data_source))?;
        write_messages(group, &lists)?;
        write_texts(group, &same(&source.ability))?;
        write_texts(group, &same("rule"))?;
        write_texts(group, &texts(tasks.iter().map(|task| task.ground_truth.as_str())))?;
        let indices: Vec<i64> = (0..tasks.len()).map(index).collect();
        if let Some(mut column) = group.next_column()? {
            column.typed::<Int64Type>().write_batch(&indices, None, None)?;
            column.close()?;
        }
        write_texts(group, &same(&source.split))?;
        write_texts(group, &texts(tasks.iter().map(|task| task.task_id.as_str())))
    })
}

fn texts<'a>(texts: impl Iterator<Item = &'a str>) -> Vec<ByteArray> {
    texts.map(ByteArray::from).collect()
}

/// A file of one row group.
fn file(
    schema: &str,
    columns: impl FnOnce(&mut SerializedRowGroupWriter<'_, Vec<u8>>) -> Result<(), ParquetError>,
) -> Result<Vec<u8>, ExportError> {
    let write = || {
        let properties = WriterProperties::builder().set_compression(Compression::UNCOMPRESSED).build();
        let schema = Arc::new(parse_message_type(schema)?);
        let mut writer = SerializedFileWriter::new(Vec::new(), schema, Arc::new(properties))?;
        let mut group = writer.next_row_group()?;
        columns(&mut group)?;
        group.close()?;
        writer.into_inner()
    };
    write().map_err(|error| ExportError::file("the file", FieldFault::Unreadable(error.to_string())))
}

fn write_texts(
    group: &mut SerializedRowGroupWriter<'_, Vec<u8>>,
    values: &[ByteArray],
) -> Result<(), ParquetError> {
    if let Some(mut column) = group.next_column()? {
        column.typed::<ByteArrayType>().write_batch(values, None, None)?;
        column.close()?;
    }
    Ok(())
}

/// The columns of roles and of contents, which are lists: no list is empty, so that every level of definition is 1,
/// and a level of repetition is 0 where a list begins.
fn write_messages(
    group: &mut SerializedRowGroupWriter<'_, Vec<u8>>,
    lists: &[&[Turn]],
) -> Result<(), ParquetError> {
    let all = || lists.iter().flat_map(|turns| turns.iter());
    let defined = vec![1_i16; all().count()];
    let repeated = lists.iter().flat_map(|turns| (0..turns.len()).map(|place| i16::from(place > 0)));
    let repeated: Vec<i16> = repeated.collect();
    for values in
        [texts(all().map(|turn| turn.role.as_str())), texts(all().map(|turn| turn.content.as_str()))]
    {
        if let Some(mut column) = group.next_column()? {
            column.typed::<ByteArrayType>().write_batch(&values, Some(&defined), Some(&repeated))?;
            column.close()?;
        }
    }
    Ok(())
}

/// Checks a file of either kind.
///
/// # Errors
///
/// The first row, and its field, that verl would refuse or learn nothing from.
pub fn check(file: &[u8]) -> Result<Checked, ExportError> {
    let unreadable =
        |error: ParquetError| ExportError::file("the file", FieldFault::Unreadable(error.to_string()));
    let reader = SerializedFileReader::new(Bytes::copy_from_slice(file)).map_err(unreadable)?;
    let rows = reader.get_row_iter(None).map_err(unreadable)?;
    let rows = rows.map(|row| row.map(|row| group_value(&row)).map_err(unreadable));
    check_rows(&rows.collect::<Result<Vec<Value>, _>>()?)
}

fn group_value(group: &parquet::record::Row) -> Value {
    let fields = group.get_column_iter().map(|(name, field)| (name.clone(), field_value(field)));
    Value::Object(fields.collect())
}

/// A field as JSON; what these formats have no place for is null.
fn field_value(field: &Field) -> Value {
    match field {
        Field::Str(text) => Value::String(text.clone()),
        Field::Bool(value) => Value::Bool(*value),
        Field::Int(value) => Value::from(*value),
        Field::Long(value) => Value::from(*value),
        Field::Double(value) => Value::from(*value),
        Field::Group(group) => group_value(group),
        Field::ListInternal(list) => list.elements().iter().map(field_value).collect(),
        _ => Value::Null,
    }
}

fn check_rows(rows: &[Value]) -> Result<Checked, ExportError> {
    let first = rows.first().ok_or_else(|| ExportError::file("the file", FieldFault::Empty))?;
    let kind = match (first.get("messages"), first.get("prompt")) {
        (Some(_), _) => Kind::Messages,
        (None, Some(_)) => Kind::Prompts,
        (None, None) => return Err(Row(0).fault("messages", FieldFault::Missing)),
    };
    for (place, value) in rows.iter().enumerate() {
        let row = Row(place);
        let object = row.object(value)?;
        match kind {
            Kind::Messages | Kind::PromptCompletion => {
                let said = row.messages("messages", row.field(object, "", "messages")?, END_OF_REPLY)?;
                row.something_to_learn("messages", &said)?;
            }
            Kind::Prompts => check_prompt(row, object)?,
        }
    }
    Ok(Checked { kind, n_rows: rows.len(), columns: Vec::new() })
}

fn check_prompt(row: Row, object: &Map<String, Value>) -> Result<(), ExportError> {
    if row.text(object, "", "data_source")?.is_empty() {
        return Err(row.fault("data_source", FieldFault::Empty));
    }
    row.messages("prompt", row.field(object, "", "prompt")?, END_OF_PROMPT)?;
    row.field(object, "", "ability")?;
    let group = |name: &str| {
        let group = row.field(object, "", name)?.as_object();
        group.ok_or_else(|| row.fault(name, FieldFault::NotA("a struct")))
    };
    let reward = group("reward_model")?;
    row.field(reward, "reward_model", "ground_truth")?;
    let style = row.text(reward, "reward_model", "style")?;
    if !["rule", "model"].contains(&style) {
        let fault = FieldFault::Unknown { value: style.to_owned(), expected: "rule or model" };
        return Err(row.fault(path("reward_model", "style"), fault));
    }
    let index = row.field(group("extra_info")?, "extra_info", "index")?;
    match index.is_i64() {
        true => Ok(()),
        false => Err(row.fault(path("extra_info", "index"), FieldFault::NotA("a whole number"))),
    }
}
