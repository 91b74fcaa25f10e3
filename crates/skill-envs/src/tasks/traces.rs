//! Recorded conversations and traces as tasks: the last user message is the input, the reply the reference.
//!
//! Read are JSON and JSON Lines: `messages` of chats, conversations of ShareGPT, stored completions and samples of evals of
//! OpenAI, exports of Langfuse and LangSmith, and spans of OpenTelemetry's conventions for generative AI (OTLP as JSON). The
//! shapes are those of their documentation.

use super::foreign::{ForeignLayout, foreign_layout};
use crate::data::bad_data;
use crate::error::{EnvError, read_error};
use indexmap::IndexMap;
use serde::Serialize;
use serde_json::{Map, Value};
use skill_core::{member, python_json};
use skill_llm::text_file;
use std::collections::BTreeSet;
use std::path::Path;

/// The largest file that is read: 1 GiB.
const MAX_FILE_BYTES: u64 = 1 << 30;
/// A shorter answer is found in an input by chance.
const MIN_ANSWER_CHARS: usize = 12;
/// How deep messages may be nested in lists and objects.
const MAX_DEPTH: usize = 16;

/// What a message's author is called, and who that is.
const ROLES: [(&str, Role); 18] = [
    ("system", Role::System),
    ("developer", Role::System),
    ("SystemMessage", Role::System),
    ("user", Role::User),
    ("human", Role::User),
    ("prompter", Role::User),
    ("HumanMessage", Role::User),
    ("assistant", Role::Assistant),
    ("ai", Role::Assistant),
    ("model", Role::Assistant),
    ("gpt", Role::Assistant),
    ("bot", Role::Assistant),
    ("chatbot", Role::Assistant),
    ("AIMessage", Role::Assistant),
    ("tool", Role::Tool),
    ("function", Role::Tool),
    ("observation", Role::Tool),
    ("ToolMessage", Role::Tool),
];
/// Members of a record with the input messages; the first one present counts.
const ASKED: [&str; 9] = [
    "messages",
    "chat_messages",
    "conversations",
    "conversation",
    "dialog",
    "dialogue",
    "contents",
    "inputs",
    "input",
];
/// Members of a record with the reply.
const ANSWERED: [&str; 5] = ["outputs", "output", "choices", "completion", "ideal"];

/// Who wrote a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Role {
    System,
    User,
    Assistant,
    Tool,
}

/// A message before the last question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TraceMessage {
    role: Role,
    content: String,
}

/// One trace as a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TraceTask {
    /// The trace's own id, or its number; no two are the same.
    pub id: String,
    /// The last question.
    pub text: String,
    /// The conversation before it, without the system prompt.
    pub messages: Vec<TraceMessage>,
    /// The recorded answer; empty if there is none.
    pub reference: String,
}

impl TraceTask {
    /// The question, with the conversation before it in front.
    pub fn prompt(&self) -> String {
        if self.messages.is_empty() {
            return self.text.clone();
        }
        let line = |role: Role, text: &str| {
            let who = match role {
                Role::System => "System",
                Role::User => "User",
                Role::Assistant => "Assistant",
                Role::Tool => "Tool",
            };
            format!("{who}: {text}")
        };
        let before = self.messages.iter().map(|message| line(message.role, &message.content));
        before.chain([line(Role::User, &self.text)]).collect::<Vec<_>>().join("\n\n")
    }

    /// True if the recorded answer is a part of the input: a score on such a task tells nothing.
    pub fn contains_answer(&self) -> bool {
        let answer = self.reference.trim();
        let is_in = |text: &str| text.contains(answer);
        answer.chars().count() >= MIN_ANSWER_CHARS
            && (is_in(&self.text) || self.messages.iter().any(|message| is_in(&message.content)))
    }
}

/// What a file of traces holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Traces {
    /// The tasks, in the order of the file.
    pub tasks: Vec<TraceTask>,
    /// The system prompt of most traces: the initial skill; empty if no trace has one.
    pub system: String,
    /// Records without a question.
    pub n_left_out: usize,
}

impl Traces {
    /// Reads the traces of a file.
    ///
    /// # Errors
    ///
    /// A file that cannot be read, is neither JSON nor JSON Lines, or holds no question.
    pub fn read(path: &Path) -> Result<Self, EnvError> {
        let mut systems = IndexMap::<String, usize>::new();
        let mut ids = BTreeSet::new();
        let mut traces = Self { tasks: Vec::new(), system: String::new(), n_left_out: 0 };
        for (record_idx, record) in records(path)?.iter().enumerate() {
            let said = conversation(record);
            let is_question = |(role, text): &(Role, String)| *role == Role::User && !text.is_empty();
            let Some((before, [(_, question), after @ ..])) =
                said.iter().rposition(is_question).map(|at| said.split_at(at))
            else {
                traces.n_left_out += 1;
                continue;
            };
            let (of_system, messages): (Vec<_>, Vec<_>) =
                before.iter().partition(|(role, _)| *role == Role::System);
            for (_, text) in of_system {
                *systems.entry(text.clone()).or_default() += 1;
            }
            let reply = after.iter().rfind(|(role, text)| *role == Role::Assistant && !text.is_empty());
            traces.tasks.push(TraceTask {
                id: new_id(record, record_idx + 1, &mut ids),
                text: question.clone(),
                messages: messages
                    .into_iter()
                    .map(|(role, content)| TraceMessage { role: *role, content: content.clone() })
                    .collect(),
                reference: reply.map(|(_, text)| text.clone()).unwrap_or_default(),
            });
        }
        if traces.tasks.is_empty() {
            let message = "holds no conversation with a question; read are chat messages, ShareGPT, stored completions, \
                           Langfuse, LangSmith and OpenTelemetry";
            return Err(bad_data(path, message.to_owned()));
        }
        // Of those that are as frequent the first.
        let most = systems.values().max().copied();
        let common = systems.into_iter().find(|(_, count)| Some(*count) == most);
        traces.system = common.map(|(text, _)| text).unwrap_or_default();
        Ok(traces)
    }
}

/// The layout of a file of JSON whose first record is a trace.
///
/// # Errors
///
/// A file that cannot be read.
pub fn trace_layout(path: &Path) -> Result<Option<&'static ForeignLayout>, EnvError> {
    let fault = |source| read_error(path, source);
    let is_of = |name: &str| path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case(name));
    if !is_of("json") && !is_of("jsonl") && !is_of("ndjson") {
        return Ok(None);
    }
    let first_line = || -> Result<Option<Value>, EnvError> {
        let mut lines = text_file::Lines::open(path, MAX_FILE_BYTES).map_err(fault)?;
        while let Some((_, line)) = lines.next_line().map_err(fault)? {
            if !line.trim().is_empty() {
                return Ok(python_json::read(&line).ok());
            }
        }
        Ok(None)
    };
    let first = match is_of("json") {
        true => match python_json::read(&text_file::read_up_to(path, MAX_FILE_BYTES).map_err(fault)?) {
            Ok(value) => Some(value),
            Err(_) => first_line()?,
        },
        false => first_line()?,
    };
    let layout = first.as_ref().and_then(first_record).and_then(foreign_layout);
    Ok(layout.filter(|layout| layout.is_trace))
}

/// The first object of lists and pages of lists.
fn first_record(value: &Value) -> Option<&Map<String, Value>> {
    match value {
        Value::Array(values) => first_record(values.first()?),
        Value::Object(record) => match record.get("data") {
            Some(Value::Array(values)) if foreign_layout(record).is_none() => first_record(values.first()?),
            Some(_) | None => Some(record),
        },
        _ => None,
    }
}

/// An id that no other trace has.
fn new_id(record: &Map<String, Value>, number: usize, ids: &mut BTreeSet<String>) -> String {
    let own = ["id", "span_id", "spanId", "uuid"].iter().find_map(|name| match record.get(*name)? {
        Value::String(id) if !id.trim().is_empty() => Some(id.clone()),
        Value::Number(id) => Some(id.to_string()),
        _ => None,
    });
    let first = own.unwrap_or_else(|| format!("trace-{number}"));
    let mut id = first.clone();
    let mut n_same = 1;
    while !ids.insert(id.clone()) {
        n_same += 1;
        id = format!("{first}-{n_same}");
    }
    id
}

/// Every object of a file that may be a trace.
fn records(path: &Path) -> Result<Vec<Map<String, Value>>, EnvError> {
    let text = text_file::read_up_to(path, MAX_FILE_BYTES).map_err(|source| read_error(path, source))?;
    let mut found = Vec::new();
    if let Ok(value) = python_json::read(&text) {
        collect(value, &mut found).map_err(|what| bad_data(path, what))?;
        return Ok(found);
    }
    for (line_idx, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let value = python_json::read(line).map_err(|fault| EnvError::BadLine {
            path: path.to_path_buf(),
            line: line_idx + 1,
            message: format!("is not JSON: {} at column {}", fault.message, fault.column),
        })?;
        collect(value, &mut found).map_err(|message| EnvError::BadLine {
            path: path.to_path_buf(),
            line: line_idx + 1,
            message,
        })?;
    }
    Ok(found)
}

/// The traces within a value: spans in the envelope of OTLP, the calls of a trace of Langfuse, pages of lists. The error is
/// a part of an envelope that cannot be opened.
fn collect(value: Value, found: &mut Vec<Map<String, Value>>) -> Result<(), String> {
    let mut record = match value {
        Value::Object(record) => record,
        Value::Array(values) => return values.into_iter().try_for_each(|value| collect(value, found)),
        _ => return Ok(()),
    };
    let has_list = |record: &Map<String, Value>, name: &str| {
        record.get(name).and_then(Value::as_array).is_some_and(|values| !values.is_empty())
    };
    if let Some(resources) = objects(&record, "resourceSpans")? {
        for resource in resources {
            for scope in objects(resource, "scopeSpans")?.into_iter().flatten() {
                let spans = objects(scope, "spans")?.into_iter().flatten();
                found.extend(spans.filter(|span| !attributes(span).is_empty()).cloned());
            }
        }
    } else if has_list(&record, "observations") {
        // The last call has the whole conversation.
        let id = record.remove("id");
        let Some(Value::Array(observations)) = record.remove("observations") else { return Ok(()) };
        let is_call = |call: &&Value| call.get("type").and_then(Value::as_str) == Some("GENERATION");
        let call = observations.iter().rfind(is_call).or(observations.last()).and_then(Value::as_object);
        found.extend(call.cloned().map(|mut call| {
            call.extend(id.map(|id| ("id".to_owned(), id)));
            call
        }));
    } else if has_list(&record, "data") && !record.contains_key("messages") {
        collect(record.remove("data").unwrap_or_default(), found)?;
    } else if has_list(&record, "runs") {
        collect(record.remove("runs").unwrap_or_default(), found)?;
    } else {
        found.push(record);
    }
    Ok(())
}

/// The objects of a list; `None` if the value is not a list of objects.
fn objects<'a>(
    fields: &'a Map<String, Value>,
    name: &str,
) -> Result<Option<Vec<&'a Map<String, Value>>>, String> {
    let listed = member::list(fields, name).map_err(|error| error.to_string())?;
    let object = |value: &'a Value| {
        value
            .as_object()
            .ok_or_else(|| format!("`{name}` holds {}; expected objects", member::kind_of(value)))
    };
    listed.map(|listed| listed.iter().map(object).collect()).transpose()
}

/// The attributes of a span that are of generative AI.
fn attributes(span: &Map<String, Value>) -> Map<String, Value> {
    let mut all = Map::new();
    match span.get("attributes") {
        Some(Value::Object(plain)) => all.extend(plain.clone()),
        Some(Value::Array(listed)) => {
            let pairs = listed.iter().filter_map(|attribute| {
                let value = attribute.get("value").and_then(Value::as_object)?.values().next()?;
                Some((attribute.get("key")?.as_str()?.to_owned(), value.clone()))
            });
            all.extend(pairs);
        }
        _ => all.extend(span.clone()),
    }
    all.retain(|name, _| name.starts_with("gen_ai."));
    all
}

/// Who said what, the reply last.
fn conversation(record: &Map<String, Value>) -> Vec<(Role, String)> {
    let of_span = attributes(record);
    let first = |record: &Map<String, Value>, names: &[&str]| {
        names.iter().find_map(|name| record.get(*name).filter(|value| !value.is_null())).cloned()
    };
    let mut said = Vec::new();
    if !of_span.is_empty() {
        let system = of_span.get("gen_ai.system_instructions").cloned().map(parsed);
        let system = system.as_ref().map(text_of).unwrap_or_default();
        said.extend((!system.is_empty()).then_some((Role::System, system)));
        add(first(&of_span, &["gen_ai.input.messages", "gen_ai.prompt"]), Role::User, &mut said);
        add(first(&of_span, &["gen_ai.output.messages", "gen_ai.completion"]), Role::Assistant, &mut said);
        return said;
    }
    let inner = |name: &str| record.get(name).and_then(Value::as_object);
    let (request, response) = (inner("request"), inner("response"));
    let instructions = request.unwrap_or(record).get("instructions").and_then(Value::as_str);
    let system = instructions.or_else(|| record.get("system")?.as_str()).filter(|text| !text.is_empty());
    said.extend(system.map(|text| (Role::System, text.to_owned())));
    let of_request = || first(request?, &["messages", "input"]);
    // What is asked and what is answered, each a list of messages, as TRL has them.
    let of_prompt = || record.get("prompt").filter(|prompt| prompt.is_array()).cloned();
    add(first(record, &ASKED).or_else(of_request).or_else(of_prompt), Role::User, &mut said);
    let of_response = || first(response?, &["choices", "output"]);
    add(first(record, &ANSWERED).or_else(of_response), Role::Assistant, &mut said);
    said
}

fn add(value: Option<Value>, role: Role, said: &mut Vec<(Role, String)>) {
    if let Some(value) = value {
        messages(&parsed(value), role, MAX_DEPTH, said);
    }
}

/// The value of a text that is JSON.
fn parsed(value: Value) -> Value {
    match &value {
        Value::String(text) => super::python_literal::structured(text).unwrap_or(value),
        _ => value,
    }
}

/// The messages in a value of any of these shapes; a plain text is one of this role.
fn messages(value: &Value, role: Role, depth: usize, said: &mut Vec<(Role, String)>) {
    let Some(depth) = depth.checked_sub(1) else { return };
    let message = match value {
        Value::Null => return,
        Value::Array(values) => {
            return values.iter().for_each(|value| messages(value, role, depth, said));
        }
        Value::Object(message) => message,
        plain => return said.push((role, text_of(plain))),
    };
    let author = ["role", "from", "sender", "author", "type"].iter().find_map(|name| {
        let author = message.get(*name)?;
        // An export of ChatGPT has the role in an object.
        author.as_str().or_else(|| author.get("role")?.as_str())
    });
    // A reply of Chat Completions, a generation of LangChain, a serialised message of LangChain.
    for name in ["message", "kwargs"] {
        if let Some(inner) = message.get(name).filter(|inner| inner.is_object()) {
            let class = message.get("id").and_then(Value::as_array).and_then(|names| names.last()?.as_str());
            let role = class.and_then(role_of).unwrap_or(role);
            return messages(inner, role, depth, said);
        }
    }
    if author.is_none_or(|author| role_of(author).is_none()) && !message.contains_key("content") {
        let nested = ["messages", "generations", "choices", "input", "question", "output", "answer"];
        if let Some(inner) =
            nested.iter().find_map(|name| message.get(*name).filter(|value| !value.is_null()))
        {
            return messages(inner, role, depth, said);
        }
    }
    let content = ["content", "parts", "value", "text"]
        .iter()
        .find_map(|name| message.get(*name).filter(|value| !value.is_null()));
    let text = content.map(text_of).unwrap_or_default();
    said.push((author.and_then(role_of).unwrap_or(role), text));
}

fn role_of(name: &str) -> Option<Role> {
    ROLES.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, role)| *role)
}

/// The text of a content or of its parts.
fn text_of(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            let texts = parts.iter().map(text_of).filter(|text| !text.is_empty());
            texts.collect::<Vec<_>>().join("\n")
        }
        Value::Object(part) => {
            let text =
                ["text", "content"].iter().find_map(|name| part.get(*name).filter(|text| !text.is_null()));
            text.map(text_of).unwrap_or_default()
        }
        plain => plain.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(name: &str, text: &str) -> Result<Traces, EnvError> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        Traces::read(&path)
    }

    /// A question, its answer and the system prompt, in the form of each system that keeps traces.
    #[test]
    fn each_form_has_question_answer_and_system_prompt() {
        let of_langchain = |class: &str, text: &str| json!({"lc": 1, "type": "constructor", "id": ["langchain", "schema", class], "kwargs": {"content": text}});
        let chat = |names: [&str; 2], roles: [&str; 3]| {
            let texts = ["You help a shop.", "Where is order 7?", "It left on Monday."];
            let messages =
                roles.iter().zip(texts).map(|(role, text)| json!({names[0]: role, names[1]: text}));
            messages.collect::<Vec<_>>()
        };
        let open = chat(["role", "content"], ["system", "user", "assistant"]);
        let forms = [
            json!({"messages": open}),
            json!({"messages": Value::from(open.clone()).to_string()}),
            json!({"conversations": chat(["from", "value"], ["system", "human", "gpt"])}),
            json!({"system": "You help a shop.", "conversations": chat(["from", "value"], ["x", "human", "gpt"])[1..]}),
            json!({"prompt": open[..2], "completion": open[2..]}),
            json!({"input": open[..2], "ideal": "It left on Monday."}),
            json!({"request": {"messages": open[..2]}, "choices": [{"message": open[2]}]}),
            json!({"object": "list", "data": [{"request": {"instructions": "You help a shop.", "input": "Where is order 7?"},
                "response": {"output": [{"type": "message", "role": "assistant",
                    "content": [{"type": "output_text", "text": "It left on Monday."}]}]}}]}),
            json!({"id": "t", "observations": [{"type": "SPAN", "input": {"order": 7}},
                {"type": "GENERATION", "input": open[..2], "output": open[2]}]}),
            json!({"run_type": "llm",
                "inputs": {"messages": [[of_langchain("SystemMessage", "You help a shop."),
                    of_langchain("HumanMessage", "Where is order 7?")]]},
                "outputs": {"generations": [[{"message": of_langchain("AIMessage", "It left on Monday.")}]]}}),
            json!({"resourceSpans": [{"scopeSpans": [{"spans": [
                {"spanId": "1", "attributes": [{"key": "http.method", "value": {"stringValue": "GET"}}]},
                {"spanId": "2", "attributes": [
                    {"key": "gen_ai.system_instructions", "value": {"stringValue":
                        r#"[{"type": "text", "content": "You help a shop."}]"#}},
                    {"key": "gen_ai.input.messages", "value": {"stringValue":
                        r#"[{"role": "user", "parts": [{"type": "text", "content": "Where is order 7?"}]}]"#}},
                    {"key": "gen_ai.output.messages", "value": {"stringValue":
                        r#"[{"role": "assistant", "parts": [{"type": "text", "content": "It left on Monday."}]}]"#}},
                ]},
            ]}]}]}),
        ];
        for form in forms {
            let traces = read("a.json", &form.to_string()).unwrap();
            let [task] = traces.tasks.as_slice() else { panic!("{form}: {traces:?}") };
            let found = (task.text.as_str(), task.reference.as_str(), traces.system.as_str());
            assert_eq!(found, ("Where is order 7?", "It left on Monday.", "You help a shop."), "{form}");
            assert!(task.messages.is_empty() && !task.contains_answer());
        }
    }

    #[test]
    fn a_conversation_ends_at_its_last_question() {
        let answer = "It left the shop on Monday.";
        let said = [
            ("user", "Where?"),
            ("assistant", answer),
            ("user", "Again."),
            ("tool", "x"),
            ("assistant", answer),
        ];
        let messages = said.map(|(role, content)| json!({"role": role, "content": content}));
        let line = json!({"id": 7, "messages": messages}).to_string();
        let traces = read("a.jsonl", &format!("{line}\n{line}\n{{\"level\": \"info\"}}\n")).unwrap();
        let [first, second] = traces.tasks.as_slice() else { panic!("{traces:?}") };
        assert_eq!((first.id.as_str(), second.id.as_str(), traces.n_left_out), ("7", "7-2", 1));
        assert_eq!(
            (first.text.as_str(), first.reference.as_str(), first.messages.len()),
            ("Again.", answer, 2)
        );
        let lines = ["User: Where?", &format!("Assistant: {answer}"), "User: Again."];
        assert_eq!(first.prompt(), lines.join("\n\n"));
        assert!(first.contains_answer());
    }

    #[test]
    fn the_most_frequent_system_prompt_is_the_initial_skill() {
        let line = |system: &str| {
            let said = json!([{"role": "system", "content": system}, {"role": "user", "content": "q"}]);
            json!({"messages": said}).to_string()
        };
        let lines = ["a", "b", "b", "c"].map(line).join("\n");
        assert_eq!(read("a.jsonl", &lines).unwrap().system, "b");
    }

    #[test]
    fn what_holds_no_question_is_refused() {
        for text in [r#"{"level": "info"}"#, "[]", r#"{"messages": [{"role": "assistant", "content": "a"}]}"#]
        {
            assert!(matches!(read("a.json", text), Err(EnvError::BadData { .. })), "{text}");
        }
        let cut = read("a.jsonl", "{\"messages\": []}\n{\"messages\"");
        assert!(matches!(cut, Err(EnvError::BadLine { line: 2, .. })), "{cut:?}");
    }
}
