//! What identifies a call: the digest of everything that produced it.
//!
//! # Invariants
//!
//! - A reply of one revision of a model's weights never answers for another. Held by
//!   `a_reply_of_other_weights_answers_for_none`.

use crate::agent_work::AgentProject;
use crate::call::CallCtx;
use crate::chat::{ChatModel, ChatRequest, ContentPart, Message, ModelId};
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};
use skill_core::SkillDoc;
use skill_core::canonical::canonical_json;
use std::cell::RefCell;
use std::fmt;

/// The parameter of a model that says how it gets its skill, and the values with which that is a package.
const SKILL_AS: &str = "skill_as";
const PACKAGES: [&str; 2] = ["package", "package_with_hint"];

/// Identifies a call: model, request, place and occurrence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallKey(pub(super) [u8; 32]);

/// Identifies a result that is not a call: whatever its maker says produced it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ResultKey(pub(super) [u8; 32]);

impl ResultKey {
    /// The key of what these parts produced; their order counts.
    pub fn new(kind: &str, parts: &[&str]) -> Self {
        let mut hasher = Sha256::new();
        for (length, part) in
            pieces("skillrl result 1", std::iter::once(&kind).chain(parts).map(|part| part.as_bytes()))
        {
            hasher.update(length);
            hasher.update(part);
        }
        Self(hasher.finalize().into())
    }
}

/// As 64 hexadecimal digits.
impl fmt::Display for ResultKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Identifies a text that is embedded: model and text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct TextKey(pub(super) [u8; 32]);

impl TextKey {
    /// An embedding of a text is a fact about the model, so no place is in its key.
    pub(crate) fn of(model: &ModelPart, text: &str) -> Self {
        let parts = [&model.provider, &model.name, &model.parameters, text].map(str::as_bytes);
        let (purpose, revision) = model.purpose(["skillrl embedding 1", "skillrl embedding 2"]);
        Self(digest(purpose, revision.into_iter().chain(parts)))
    }

    /// The key of a call that embeds these texts, for its row in the journal; nobody looks for it.
    pub(super) fn of_call(texts: impl Iterator<Item = Self>) -> CallKey {
        let texts: Vec<Self> = texts.collect();
        CallKey(digest("skillrl embedding call 1", texts.iter().map(|text| text.0.as_slice())))
    }
}

/// What of a model is a part of the key of its calls.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct ModelPart {
    pub(super) provider: String,
    pub(super) name: String,
    /// Of its weights; empty where they do not change.
    pub(super) revision: String,
    /// Canonical JSON.
    pub(super) parameters: String,
}

impl ModelPart {
    pub(crate) fn of(id: &ModelId, parameters: &Value) -> Self {
        Self {
            provider: id.provider.clone(),
            name: id.model.clone(),
            revision: id.revision.clone(),
            parameters: canonical_json(parameters),
        }
    }

    /// Whether it finds files that decide its replies besides the request.
    fn finds_files(&self) -> bool {
        gets_package(&serde_json::from_str(&self.parameters).expect("it was written as JSON"))
    }

    /// The purpose of a key and the part that its revision is: without a revision the first purpose and no part, so that
    /// keys stay those of older journals.
    fn purpose(&self, [plain, revised]: [&'static str; 2]) -> (&'static str, Option<&[u8]>) {
        match self.revision.as_bytes() {
            [] => (plain, None),
            revision => (revised, Some(revision)),
        }
    }
}

/// A request at a place, reduced to digests.
#[derive(Debug, Clone)]
pub(crate) struct RequestDigest {
    /// Of model, request and place.
    pub(crate) bytes: [u8; 32],
    /// Of each message.
    pub(super) messages: Vec<[u8; 32]>,
    /// The request without its messages, as canonical JSON.
    pub(super) rest: String,
}

impl RequestDigest {
    pub(crate) fn of(model: &ModelPart, request: &ChatRequest, call: &CallCtx) -> Self {
        let messages: Vec<[u8; 32]> = request.messages.iter().map(message_digest).collect();
        let mut rest = rest_of(request);
        if let (true, Some(fields)) = (model.finds_files(), rest.as_object_mut()) {
            fields.extend(found_files(call));
        }
        let rest = canonical_json(&rest);
        let parts =
            [&model.provider, &model.name, &model.parameters, &rest, call.place.as_str()].map(str::as_bytes);
        let parts = parts.into_iter().chain(messages.iter().map(<[u8; 32]>::as_slice));
        let (purpose, revision) = model.purpose(["skillrl call 1", "skillrl call 2"]);
        let bytes = digest(purpose, revision.into_iter().chain(parts));
        Self { bytes, messages, rest }
    }

    pub(crate) fn key(&self, occurrence: u32) -> CallKey {
        let occurrence = occurrence.to_be_bytes();
        CallKey(digest("skillrl occurrence 1", [self.bytes.as_slice(), &occurrence]))
    }
}

/// Numbers a request among the equal ones of its unit of work, as the journal of a run numbers them: for a process that
/// makes calls of a run whose journal is elsewhere. Each call of it counts.
pub fn next_occurrence(model: &dyn ChatModel, request: &ChatRequest, call: &CallCtx) -> u32 {
    let part = ModelPart::of(model.id(), &model.parameters());
    call.scope.next_occurrence(RequestDigest::of(&part, request, call).bytes)
}

fn rest_of(request: &ChatRequest) -> Value {
    let mut rest = json!({ "sampling": request.sampling });
    if let Some(fields) = rest.as_object_mut() {
        if !request.tools.is_empty() {
            fields.insert("tools".to_owned(), json!(request.tools));
        }
        // What a request does not say is left out, so that the keys of older journals stay as they are.
        if let Some(choice) = &request.tool_choice {
            fields.insert("tool_choice".to_owned(), json!(choice));
        }
        if let Some(parallel) = request.parallel_tool_calls {
            fields.insert("parallel_tool_calls".to_owned(), json!(parallel));
        }
        if !request.stop.is_empty() {
            fields.insert("stop".to_owned(), json!(request.stop));
        }
        if let Some(schema) = &request.response_schema {
            fields.insert("response_schema".to_owned(), json!(schema));
        }
    }
    rest
}

/// The text of a message that is nothing but text.
pub(super) fn plain_text(message: &Message) -> Option<&str> {
    match message.content.as_slice() {
        [ContentPart::Text(text)]
            if message.tool_calls.is_empty()
                && message.tool_call_id.is_none()
                && message.provider_state.is_none() =>
        {
            Some(text)
        }
        _ => None,
    }
}

pub(super) fn message_digest(message: &Message) -> [u8; 32] {
    let role = message.role.as_str();
    let purpose = "skillrl message 1";
    match plain_text(message) {
        Some(text) => digest(purpose, [role, text].map(str::as_bytes)),
        // The fields of a message have one order, and there is no map in it.
        None => {
            let whole = serde_json::to_string(message).expect("a message serializes");
            digest(purpose, [role, "", &whole].map(str::as_bytes))
        }
    }
}

/// The most that is kept of [`GATHERED`] from one digest to the next.
const MAX_GATHERED_BYTES: usize = 1 << 20;

thread_local! {
    /// What is hashed at once, and empty in between: BLAKE3 works on several blocks of one piece side by side, and the
    /// state of a hash of parts is too large for what allocators are quick at.
    static GATHERED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// A purpose and parts, each with its length, so that no two lists of parts are the same bytes.
fn pieces<'a>(
    purpose: &'a str,
    parts: impl IntoIterator<Item = &'a [u8]>,
) -> impl Iterator<Item = ([u8; 8], &'a [u8])> {
    let parts = std::iter::once(purpose.as_bytes()).chain(parts);
    parts.map(|part| ((part.len() as u64).to_be_bytes(), part))
}

/// The BLAKE3 hash of these pieces: a prompt of some kilobytes takes a tenth of the time of SHA-256 on a processor without
/// instructions for that.
fn digest<'a>(purpose: &'a str, parts: impl IntoIterator<Item = &'a [u8]>) -> [u8; 32] {
    GATHERED.with_borrow_mut(|gathered| {
        for (length, part) in pieces(purpose, parts) {
            gathered.extend_from_slice(&length);
            gathered.extend_from_slice(part);
        }
        let digest = blake3::hash(gathered).into();
        gathered.clear();
        gathered.shrink_to(MAX_GATHERED_BYTES);
        digest
    })
}

/// True if a model of these parameters gets its skill as a package.
fn gets_package(parameters: &Value) -> bool {
    parameters.get(SKILL_AS).and_then(Value::as_str).is_some_and(|value| PACKAGES.contains(&value))
}

/// What decides the reply of a model that gets packages besides its request, for the key of a call.
fn found_files(call: &CallCtx) -> Map<String, Value> {
    let skill = call.get::<SkillDoc>().filter(|skill| !skill.is_blank()).map(SkillDoc::source_sha256);
    let project = call.get::<AgentProject>().map(AgentProject::digest);
    let named = [("skill", skill), ("project", project)];
    named.into_iter().filter_map(|(name, value)| Some((name.to_owned(), Value::String(value?)))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write as _;

    /// What an independent program makes of the same bytes; another value would make every journal miss its calls.
    #[test]
    fn keys_are_those_of_older_journals() {
        let digest = message_digest(&Message::user("x".repeat(5_000)));
        let hex = digest.iter().fold(String::new(), |mut hex, byte| {
            let _ = write!(hex, "{byte:02x}");
            hex
        });
        assert_eq!(hex, "9becdc7728c2bd6b19afaac13a72841bda2f9083150f6098b1e8af2e7c256c33");
    }

    #[test]
    fn parts_do_not_run_into_each_other() {
        let of = |parts: &[&str]| digest("test", parts.iter().map(|part| part.as_bytes()));
        assert_ne!(of(&["ab", "c"]), of(&["a", "bc"]));
        assert_ne!(of(&["ab", ""]), of(&["ab"]));
    }
}
