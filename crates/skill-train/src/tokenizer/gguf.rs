//! Tokenizers of GGUF files, which hold a vocabulary and the names of the rest.

use super::{JsonTokenizer, TokenizerError};
use serde_json::{Map, Value, json};

/// The pattern by which Llama 3 and Qwen2 split texts before merging; they differ in the digits that stay together.
const WORDS: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|DIGITS| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
/// The only kind of tokenizer that is known: byte-level BPE.
const MODEL: &str = "gpt2";
/// The known names of these rules, for errors.
const KNOWN_PRE: &str = "gpt-2, llama-bpe, qwen2 or smollm";

/// The tokenizer of a GGUF file, as its metadata has it; the keys are those behind `tokenizer.ggml.`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GgufVocabulary {
    /// `model`, the kind of tokenizer; only `gpt2` is known, which is byte-level BPE.
    pub model: String,
    /// `pre`, the name of the rules that split texts before merging.
    pub pre: String,
    /// `tokens`, whose places are their ids.
    pub tokens: Vec<String>,
    /// `token_type` of each token: 1 normal, 2 unknown, 3 control, 4 user-defined, 5 unused, 6 byte.
    pub token_types: Vec<u32>,
    /// `merges`, pairs of tokens with a space between them, the most frequent first.
    pub merges: Vec<String>,
}

impl JsonTokenizer {
    /// The tokenizer of a GGUF file, equal to the one from which the file was made.
    ///
    /// Control tokens become special tokens. Unused ones, by which vocabularies are padded, are left out.
    ///
    /// # Errors
    ///
    /// [`TokenizerError::Unreadable`] for kinds of tokenizers and rules that are not known (a wrong guess would
    /// silently split texts differently than in training), and for lists that do not fit together.
    pub fn from_gguf(vocabulary: &GgufVocabulary) -> Result<Self, TokenizerError> {
        let unreadable = |message: String| TokenizerError::Unreadable { place: None, message };
        let GgufVocabulary { model, pre, tokens, token_types, .. } = vocabulary;
        if model != MODEL {
            return Err(unreadable(format!("a tokenizer of the kind `{model}`, expected `{MODEL}`")));
        }
        if tokens.len() != token_types.len() {
            let (n, types) = (tokens.len(), token_types.len());
            return Err(unreadable(format!("{n} tokens have {types} types")));
        }
        let rules = Rules::of(pre)
            .ok_or_else(|| unreadable(format!("texts are split by rules `{pre}`, expected {KNOWN_PRE}")))?;
        Self::from_bytes(file(vocabulary, &rules).to_string().as_bytes())
    }
}

/// Steps before merging.
struct Rules {
    normalizer: Value,
    pre_tokenizer: Value,
    /// A piece that is a token is not merged from its parts.
    ignore_merges: bool,
}

impl Rules {
    /// The rules of a name, as the tokenizers of these models have them.
    fn of(pre: &str) -> Option<Self> {
        let sequence = |steps: [Value; 2]| json!({"type": "Sequence", "pretokenizers": steps});
        let split = |digits: &str| {
            let pattern = json!({"Regex": WORDS.replace("DIGITS", digits)});
            json!({"type": "Split", "pattern": pattern, "behavior": "Isolated", "invert": false})
        };
        let plain = |pre_tokenizer| Self { normalizer: Value::Null, pre_tokenizer, ignore_merges: false };
        match pre {
            "gpt-2" | "gpt2" => Some(plain(byte_level(true))),
            "smollm" => {
                let digits = json!({"type": "Digits", "individual_digits": true});
                Some(plain(sequence([digits, byte_level(true)])))
            }
            "llama-bpe" | "llama3" => {
                let pre_tokenizer = sequence([split(r"\p{N}{1,3}"), byte_level(false)]);
                Some(Self { ignore_merges: true, ..plain(pre_tokenizer) })
            }
            "qwen2" => {
                let pre_tokenizer = sequence([split(r"\p{N}"), byte_level(false)]);
                Some(Self { normalizer: json!({"type": "NFC"}), ..plain(pre_tokenizer) })
            }
            _ => None,
        }
    }
}

fn byte_level(use_regex: bool) -> Value {
    json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": use_regex})
}

/// The `tokenizer.json` that says the same.
fn file(vocabulary: &GgufVocabulary, rules: &Rules) -> Value {
    let mut ids = Map::new();
    let mut added = Vec::new();
    for (id, (text, of_type)) in vocabulary.tokens.iter().zip(&vocabulary.token_types).enumerate() {
        let (is_control, is_user_defined, is_unused) = (*of_type == 3, *of_type == 4, *of_type == 5);
        if is_unused {
            continue;
        }
        ids.insert(text.clone(), Value::from(id));
        if is_control || is_user_defined {
            added.push(json!({
                "id": id, "content": text, "special": is_control,
                "single_word": false, "lstrip": false, "rstrip": false, "normalized": false,
            }));
        }
    }
    json!({
        "version": "1.0",
        "truncation": null,
        "padding": null,
        "added_tokens": added,
        "normalizer": rules.normalizer,
        "pre_tokenizer": rules.pre_tokenizer,
        "post_processor": null,
        "decoder": byte_level(true),
        "model": {
            "type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false,
            "ignore_merges": rules.ignore_merges, "vocab": ids, "merges": vocabulary.merges,
        },
    })
}
