//! Tokenizers of published models: texts, rendered conversations, and the spans of what the agent says.

use super::chat;
use crate::recorded::{self, Counted, ids};
use serde_json::Value;
use skill_train::chat::{ChatEncoder, ChatError, SpecialText};
use skill_train::tokenizer::{JsonTokenizer, StreamDecoder, TokenCodec};
use std::collections::BTreeMap;
use std::ops::Range;

/// A tokenizer of the recorded data; a large one is not among them, see `SOURCES` there.
fn tokenizer(name: &str) -> Option<JsonTokenizer> {
    let path = recorded::path(&format!("tokenizers/{name}/tokenizer.json"))?;
    if !path.exists() {
        println!("{name}: nothing compared, {} does not exist", path.display());
        return None;
    }
    Some(JsonTokenizer::from_file(&path).unwrap())
}

#[test]
fn conformance_of_tokenizers() {
    let Some(recorded) = recorded::json("tokenizers/vectors.json") else { return };
    for (name, of_tokenizer) in recorded["tokenizers"].as_object().unwrap() {
        let Some(tokenizer) = tokenizer(name) else { continue };
        let mut counted = Counted::new(format!("tokenizer {name}"));
        assert_eq!(
            Some(tokenizer.n_tokens()),
            of_tokenizer["vocabulary"].as_u64().map(|n| n.try_into().unwrap())
        );
        for vector in of_tokenizer["vectors"].as_array().unwrap() {
            let (text, recorded) = (vector["text"].as_str().unwrap(), ids(&vector["ids"]));
            assert_eq!(tokenizer.encode(text).unwrap(), recorded, "{name}: {text:?}");
            assert_eq!(tokenizer.decode(&recorded, true).unwrap(), vector["decoded"], "{name}: {text:?}");
            assert_eq!(
                tokenizer.decode(&recorded, false).unwrap(),
                vector["decoded_skip"],
                "{name}: {text:?}"
            );
            let mut stream = StreamDecoder::new(true);
            let mut streamed: String =
                recorded.iter().map(|id| stream.push(&tokenizer, *id).unwrap()).collect();
            streamed += &stream.finish(&tokenizer).unwrap();
            assert_eq!(streamed, vector["decoded"], "{name}, streamed: {text:?}");
            counted.add();
        }
        for partial in of_tokenizer["partial_decodes"].as_array().unwrap() {
            partial_decode(&tokenizer, partial, name);
            counted.add();
        }
    }
}

fn partial_decode(tokenizer: &JsonTokenizer, partial: &Value, name: &str) {
    let decoded = tokenizer.decode(&ids(&partial["ids"]), true).unwrap();
    assert_eq!(decoded, partial["decoded"], "{name}: {partial}");
}

fn span(recorded: &Value) -> Range<usize> {
    let place = |place: usize| usize::try_from(recorded[place].as_u64().unwrap()).unwrap();
    place(0)..place(1)
}

/// True if a conversation holds the text of a special token, which is refused here.
fn is_refused(case: &chat::Rendering<'_>, codec: &dyn TokenCodec) -> bool {
    let said = Value::Array(case.conversation.messages.clone()).to_string();
    codec.special_tokens().iter().any(|token| said.contains(&token.text))
}

#[test]
fn conformance_of_chat_tokens() {
    let mut tokenizers: BTreeMap<String, Option<JsonTokenizer>> = BTreeMap::new();
    chat::each("chat, tokens and spans", |case| {
        let Some(codec) = tokenizers.entry(case.name.to_owned()).or_insert_with(|| tokenizer(case.name))
        else {
            return false;
        };
        let Some(text) = case.recorded.get("text").and_then(Value::as_str) else { return false };
        let recorded = ids(&case.recorded["ids"]);
        assert_eq!(codec.encode(text).unwrap(), recorded, "{}", case.what);
        let encoder = ChatEncoder::new(case.template, codec);
        let ours = encoder.encode(&case.conversation, &case.options);
        if is_refused(case, codec) {
            assert!(matches!(ours, Err(ChatError::SpecialText { .. })), "{}: {ours:?}", case.what);
            let escaped = encoder.with_special_text(SpecialText::Escape);
            let escaped = escaped.encode(&case.conversation, &case.options).unwrap();
            assert_ne!(escaped.ids, recorded, "{}", case.what);
            assert_eq!(codec.decode(&escaped.ids, true).as_deref(), Ok(text), "{}", case.what);
            return true;
        }
        assert_eq!(ours.unwrap().ids, recorded, "{}", case.what);
        if let Some(completion) = case.recorded.get("completion_only") {
            let (whole, ours) = encoder.completion(&case.conversation, &case.options).unwrap();
            assert_eq!(ours, span(&completion["trained_span"]), "{}: completion", case.what);
            assert_eq!(
                codec.decode(&whole.ids[ours], true).unwrap(),
                completion["trained_text"],
                "{}",
                case.what
            );
        }
        if let Some(turns) = case.recorded.get("assistant_spans_by_difference") {
            let (_, ours) = encoder.assistant_spans(&case.conversation, &case.options).unwrap();
            let turns: Vec<Range<usize>> = turns.as_array().unwrap().iter().map(span).collect();
            assert_eq!(ours, turns, "{}: turns", case.what);
        }
        true
    });
}
