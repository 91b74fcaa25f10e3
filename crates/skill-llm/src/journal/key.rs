//! What identifies a call: the digest of everything that produced it.

use crate::call::CallPlace;
use crate::chat::{ChatModel, ChatRequest, ContentPart, Message};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use skill_core::canonical::canonical_json;

/// What the keys of a journal's calls are made with; a journal keeps to the one that it began with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyHash {
    /// SHA-256: journals that were begun with version 1 of the tables.
    Sha256,
    /// BLAKE3: a prompt of some kilobytes takes a tenth of the time on a processor without instructions for SHA-256.
    Blake3,
}

impl KeyHash {
    /// By the name that stands in the table `keys`.
    pub(super) fn from_name(name: &str) -> Option<Self> {
        match name {
            "sha256" => Some(Self::Sha256),
            "blake3" => Some(Self::Blake3),
            _ => None,
        }
    }
}

/// Identifies a call: model, request, place and occurrence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallKey(pub(super) [u8; 32]);

/// Identifies a result that is no call: whatever its maker says produced it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ResultKey(pub(super) [u8; 32]);

impl ResultKey {
    /// The key of what these parts produced; their order counts.
    pub fn new(kind: &str, parts: &[&str]) -> Self {
        // Its parts are short, so one hash does for journals of every version.
        let mut hasher = Hasher::new(KeyHash::Sha256, "skillrl result 1");
        hasher.part(kind.as_bytes());
        for part in parts {
            hasher.part(part.as_bytes());
        }
        Self(hasher.finish())
    }
}

/// What of a model is a part of the key of its calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ModelPart {
    pub(super) provider: String,
    pub(super) name: String,
    /// Canonical JSON.
    pub(super) parameters: String,
}

impl ModelPart {
    pub(crate) fn of(model: &dyn ChatModel) -> Self {
        let (id, parameters) = (model.id(), model.parameters());
        Self {
            provider: id.provider.clone(),
            name: id.model.clone(),
            parameters: canonical_json(&parameters),
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
    hash: KeyHash,
}

impl RequestDigest {
    pub(crate) fn of(model: &ModelPart, request: &ChatRequest, place: &CallPlace, hash: KeyHash) -> Self {
        let messages: Vec<[u8; 32]> =
            request.messages.iter().map(|message| message_digest(message, hash)).collect();
        let rest = canonical_json(&rest_of(request));
        let mut hasher = Hasher::new(hash, "skillrl call 1");
        for part in [&model.provider, &model.name, &model.parameters, &rest] {
            hasher.part(part.as_bytes());
        }
        hasher.part(place.as_str().as_bytes());
        for digest in &messages {
            hasher.part(digest);
        }
        Self { bytes: hasher.finish(), messages, rest, hash }
    }

    pub(crate) fn key(&self, occurrence: u32) -> CallKey {
        let mut hasher = Hasher::new(self.hash, "skillrl occurrence 1");
        hasher.part(&self.bytes);
        hasher.part(&occurrence.to_be_bytes());
        CallKey(hasher.finish())
    }
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
        [ContentPart::Text(text)] if message.tool_calls.is_empty() && message.tool_call_id.is_none() => {
            Some(text)
        }
        _ => None,
    }
}

fn message_digest(message: &Message, hash: KeyHash) -> [u8; 32] {
    let mut hasher = Hasher::new(hash, "skillrl message 1");
    hasher.part(message.role.as_str().as_bytes());
    match plain_text(message) {
        Some(text) => hasher.part(text.as_bytes()),
        // The fields of a message have one order, and there is no map in it.
        None => {
            hasher.part(b"");
            hasher.part(serde_json::to_string(message).unwrap_or_default().as_bytes());
        }
    }
    hasher.finish()
}

/// A hash over parts, each with its length, so that no two lists of parts are the same bytes.
enum Hasher {
    Sha256(Sha256),
    Blake3(Box<blake3::Hasher>),
}

impl Hasher {
    fn new(hash: KeyHash, purpose: &str) -> Self {
        let mut hasher = match hash {
            KeyHash::Sha256 => Self::Sha256(Sha256::new()),
            KeyHash::Blake3 => Self::Blake3(Box::default()),
        };
        hasher.part(purpose.as_bytes());
        hasher
    }

    fn part(&mut self, bytes: &[u8]) {
        self.update(&(bytes.len() as u64).to_be_bytes());
        self.update(bytes);
    }

    fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Sha256(hasher) => hasher.update(bytes),
            Self::Blake3(hasher) => drop(hasher.update(bytes)),
        }
    }

    fn finish(self) -> [u8; 32] {
        match self {
            Self::Sha256(hasher) => hasher.finalize().into(),
            Self::Blake3(hasher) => hasher.finalize().into(),
        }
    }
}
