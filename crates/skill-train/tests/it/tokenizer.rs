//! Decoding while tokens arrive, and tokenizers from files.

use crate::byte_codec::{ByteCodec, IM_END};
use proptest::prelude::*;
use skill_train::tokenizer::{StreamDecoder, TokenCodec, TokenizerError};

/// The texts that a stream of tokens gives, and the rest.
fn streamed(codec: &dyn TokenCodec, ids: &[u32]) -> (Vec<String>, String) {
    let mut decoder = StreamDecoder::new(true);
    let texts = ids.iter().map(|id| decoder.push(codec, *id).unwrap()).collect();
    (texts, decoder.finish(codec).unwrap())
}

#[test]
fn unfinished_characters_are_held_back() {
    let codec = ByteCodec::new();
    let ids = codec.encode("a日😀").unwrap();
    let (texts, rest) = streamed(&codec, &ids);
    assert_eq!(texts, ["a", "", "", "日", "", "", "", "😀"]);
    assert_eq!(rest, "");
    let (texts, rest) = streamed(&codec, &ids[..6]);
    assert_eq!(texts, ["a", "", "", "日", "", ""]);
    assert_eq!(rest, "\u{fffd}");
}

#[test]
fn bytes_that_never_become_a_character_do_not_hold_the_text_back() {
    let codec = ByteCodec::new();
    let (texts, rest) = streamed(&codec, &[0xff, 0xff, 0xff, 0xff, u32::from(b'a'), IM_END]);
    assert_eq!(texts.concat() + &rest, "\u{fffd}\u{fffd}\u{fffd}\u{fffd}a<|im_end|>");
    assert_eq!(texts[3], "\u{fffd}");
    let (texts, _) = streamed(&codec, &[128, 128, 224, 160, 128]);
    assert_eq!(texts[4], "\u{fffd}\u{fffd}ࠀ");
}

#[test]
fn special_tokens_are_found_by_their_text() {
    let codec = ByteCodec::new();
    assert_eq!(codec.special_id("<|im_end|>"), Ok(IM_END));
    assert_eq!(codec.special_id("<eos>"), Err(TokenizerError::UnknownToken { text: "<eos>".to_owned() }));
}

proptest! {
    #[test]
    fn a_stream_gives_the_whole_text(text in "\\PC{0,80}") {
        let codec = ByteCodec::new();
        let ids = codec.encode(&text).unwrap();
        let (texts, rest) = streamed(&codec, &ids);
        let n_marks = |text: &str| text.matches('\u{fffd}').count();
        prop_assert!(n_marks(&texts.concat()) <= n_marks(&text));
        prop_assert_eq!(texts.concat() + &rest, text);
    }

    #[test]
    fn any_bytes_come_out_as_one_decoding_gives_them(ids in prop::collection::vec(0_u32..256, 0..120)) {
        let codec = ByteCodec::new();
        let (texts, rest) = streamed(&codec, &ids);
        prop_assert_eq!(texts.concat() + &rest, codec.decode(&ids, true).unwrap());
    }
}

#[cfg(feature = "tokenizer")]
mod files {
    use super::streamed;
    use proptest::prelude::*;
    use skill_train::tokenizer::{GgufVocabulary, JsonTokenizer, TokenCodec, TokenizerError};
    use std::path::Path;

    fn tiny() -> JsonTokenizer {
        JsonTokenizer::from_bytes(include_bytes!("../data/weights/tokenizers/tiny/tokenizer.json")).unwrap()
    }

    #[test]
    fn files_that_are_no_tokenizer_are_named() {
        let missing = JsonTokenizer::from_file(Path::new("/nowhere/tokenizer.json")).unwrap_err();
        assert!(
            matches!(&missing, TokenizerError::Unreadable { place: Some(place), .. } if place == "/nowhere/tokenizer.json"),
            "{missing}"
        );
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokenizer.json");
        std::fs::write(&path, "{\"model\": {\"type\": \"BPE\"").unwrap();
        assert!(matches!(JsonTokenizer::from_file(&path), Err(TokenizerError::Unreadable { .. })));
        assert!(matches!(
            JsonTokenizer::from_bytes(b"{}"),
            Err(TokenizerError::Unreadable { place: None, .. })
        ));
    }

    #[test]
    fn special_tokens_are_special_in_rendered_texts_only() {
        let tiny = tiny();
        assert_eq!(tiny.n_tokens(), 433);
        let end = tiny.special_id("<|im_end|>").unwrap();
        assert_eq!(tiny.encode("a<|im_end|>").unwrap(), [67, end]);
        let ordinary = tiny.encode_ordinary("a<|im_end|>").unwrap();
        assert!(!ordinary.contains(&end));
        assert_eq!(tiny.decode(&ordinary, false).unwrap(), "a<|im_end|>");
        assert_eq!(tiny.decode(&[67, end], false).unwrap(), "a");
        assert_eq!(tiny.decode(&[67, end], true).unwrap(), "a<|im_end|>");
    }

    #[test]
    fn truncation_and_padding_of_the_file_are_off() {
        let mut file: serde_json::Value =
            serde_json::from_slice(include_bytes!("../data/weights/tokenizers/tiny/tokenizer.json")).unwrap();
        file["truncation"] = serde_json::json!({
            "direction": "Right", "max_length": 2, "strategy": "LongestFirst", "stride": 0,
        });
        file["padding"] = serde_json::json!({
            "strategy": {"Fixed": 9}, "direction": "Right", "pad_to_multiple_of": null, "pad_id": 0,
            "pad_type_id": 0, "pad_token": "<|endoftext|>",
        });
        let bounded = JsonTokenizer::from_bytes(file.to_string().as_bytes()).unwrap();
        assert_eq!(bounded.encode("a?b!").unwrap(), tiny().encode("a?b!").unwrap());
        assert_eq!(bounded.encode("a?b!").unwrap().len(), 4);
    }

    /// A vocabulary of a few tokens: letters, a space, `ab`, one control, one user-defined and one unused token.
    fn letters(pre: &str) -> GgufVocabulary {
        let tokens = ["a", "b", "1", "2", "Ġ", "ab", "12", "<|end|>", "<call>", "[PAD]"].map(str::to_owned);
        GgufVocabulary {
            model: "gpt2".to_owned(),
            pre: pre.to_owned(),
            tokens: tokens.to_vec(),
            token_types: vec![1, 1, 1, 1, 1, 1, 1, 3, 4, 5],
            merges: vec!["a b".to_owned(), "1 2".to_owned()],
        }
    }

    #[test]
    fn vocabularies_of_gguf_files_become_tokenizers() {
        let encoded =
            |pre: &str| JsonTokenizer::from_gguf(&letters(pre)).unwrap().encode("ab 12<|end|><call>");
        assert_eq!(encoded("gpt-2").unwrap(), [5, 4, 6, 7, 8]);
        assert_eq!(encoded("smollm").unwrap(), [5, 4, 2, 3, 7, 8]);
        assert_eq!(encoded("qwen2").unwrap(), [5, 4, 2, 3, 7, 8]);
        assert_eq!(encoded("llama-bpe").unwrap(), [5, 4, 6, 7, 8]);
        let tokenizer = JsonTokenizer::from_gguf(&letters("smollm")).unwrap();
        assert_eq!((tokenizer.n_tokens(), tokenizer.special_tokens().len()), (9, 1));
        assert_eq!(tokenizer.decode(&[5, 7, 8, 9], false).unwrap(), "ab<call>");
        assert!(!tokenizer.encode("[PAD]").unwrap().contains(&9));
    }

    #[track_caller]
    fn gguf_refused(vocabulary: &GgufVocabulary, names: &str) {
        match JsonTokenizer::from_gguf(vocabulary) {
            Err(TokenizerError::Unreadable { place: None, message }) => {
                assert!(message.contains(names), "{message}");
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn vocabularies_with_unknown_rules_are_refused() {
        gguf_refused(&letters("tekken"), "`tekken`");
        gguf_refused(&GgufVocabulary { model: "llama".to_owned(), ..letters("qwen2") }, "`llama`");
        gguf_refused(&GgufVocabulary { token_types: vec![1], ..letters("qwen2") }, "10 tokens have 1 types");
        gguf_refused(&GgufVocabulary { merges: vec!["a z".to_owned()], ..letters("qwen2") }, "");
    }

    proptest! {
        #[test]
        fn texts_come_back_and_stream_whole(text in "\\PC{0,20}") {
            let tiny = tiny();
            for ids in [tiny.encode(&text).unwrap(), tiny.encode_ordinary(&text).unwrap()] {
                prop_assert_eq!(&tiny.decode(&ids, true).unwrap(), &text);
                let (texts, rest) = streamed(&tiny, &ids);
                prop_assert_eq!(&(texts.concat() + &rest), &text);
            }
        }
    }
}
