//! Tokenizers of published models: texts, rendered conversations, and the spans of what the agent says.

use super::chat;
use crate::recorded::{self, Counted, ids};
use serde_json::Value;
use skill_train::chat::{ChatEncoder, ChatError, SpecialText};
use skill_train::tokenizer::{GgufVocabulary, JsonTokenizer, StreamDecoder, TokenCodec};
use std::collections::BTreeMap;
use std::ops::Range;

/// A tokenizer of the recorded data; a large one is not among them, see `SOURCES` there.
fn tokenizer(name: &str) -> Option<JsonTokenizer> {
    let path = recorded::path(&format!("tokenizers/{name}/tokenizer.json"));
    if !path.exists() {
        println!("{name}: nothing compared, {} does not exist", path.display());
        return None;
    }
    Some(JsonTokenizer::from_file(&path).unwrap())
}

#[test]
#[ignore = "compares with recorded data: set SKILLRL_CONFORMANCE"]
fn conformance_of_tokenizers() {
    let recorded = recorded::json("tokenizers/vectors.json");
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

/// The vocabulary of a `tokenizer.json` as a GGUF file has it, padded by unused tokens.
fn as_gguf(path: &std::path::Path, pre: &str) -> GgufVocabulary {
    let file: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let mut tokens: BTreeMap<u64, (String, u32)> = BTreeMap::new();
    for (text, id) in file["model"]["vocab"].as_object().unwrap() {
        tokens.insert(id.as_u64().unwrap(), (text.clone(), 1));
    }
    for added in file["added_tokens"].as_array().unwrap() {
        let of_type = if added["special"].as_bool().unwrap() { 3 } else { 4 };
        tokens
            .insert(added["id"].as_u64().unwrap(), (added["content"].as_str().unwrap().to_owned(), of_type));
    }
    assert_eq!(tokens.keys().copied().collect::<Vec<_>>(), (0..tokens.len() as u64).collect::<Vec<_>>());
    let unused = (0..7).map(|n| (format!("[PAD{n}]"), 5));
    let (tokens, token_types) = tokens.into_values().chain(unused).unzip();
    let merge = |merge: &Value| match merge.as_array() {
        Some(pair) => format!("{} {}", pair[0].as_str().unwrap(), pair[1].as_str().unwrap()),
        None => merge.as_str().unwrap().to_owned(),
    };
    let merges = file["model"]["merges"].as_array().unwrap().iter().map(merge).collect();
    GgufVocabulary { model: "gpt2".to_owned(), pre: pre.to_owned(), tokens, token_types, merges }
}

/// The name by which GGUF files call the rules of a tokenizer.
fn pre_of(tokenizer: &str) -> Option<&'static str> {
    match tokenizer {
        "tiny" | "smollm2" => Some("smollm"),
        "qwen2.5" => Some("qwen2"),
        _ => None,
    }
}

#[test]
#[ignore = "compares with recorded data: set SKILLRL_CONFORMANCE"]
fn conformance_of_tokenizers_of_gguf_files() {
    let recorded = recorded::json("tokenizers/vectors.json");
    for (name, of_tokenizer) in recorded["tokenizers"].as_object().unwrap() {
        let path = recorded::path(&format!("tokenizers/{name}/tokenizer.json"));
        let Some(pre) = pre_of(name).filter(|_| path.exists()) else {
            println!("{name} as GGUF: nothing compared");
            continue;
        };
        let tokenizer = JsonTokenizer::from_gguf(&as_gguf(&path, pre)).unwrap();
        let mut counted = Counted::new(format!("tokenizer {name} as GGUF"));
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
#[ignore = "compares with recorded data: set SKILLRL_CONFORMANCE"]
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
