//! The files of a small decoder that is trained from nothing: tokenizer, chat template, configuration and weights.
//!
//! The tokenizer knows the words of its training texts. Fixed sentences of the world are one token each, and so is a
//! name with its number (` desk 2`), so that a name is copied in one step; the words of skills and tasks are tokens.

use anyhow::Result;
use serde_json::{Value, json};
use skill_core::PyRandom;
use skill_llm::{Message, Role};
use skill_train::model::Decoder;
use skill_train::model_config::ModelConfig;
use skill_train::tokenizer::{JsonTokenizer, TokenCodec as _};
use skill_train::weights::HostTensor;
use std::collections::{BTreeMap, BTreeSet};

/// Special tokens: their ids are their places.
const SPECIAL: [&str; 6] = ["<|unknown|>", "<|system|>", "<|user|>", "<|assistant|>", "<|end|>", "<|pad|>"];
/// The end of a turn.
pub(crate) const END: u32 = 4;
/// What every conversation is written as.
pub(crate) const CHAT_TEMPLATE: &str = "{% for message in messages %}<|{{ message.role }}|>{{ message.content }}<|end|>\
    {% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}";

/// Words of the world that are one token, longest first.
const PHRASES: &[&str] = &[
    "You act in a household by text commands, one at a time.",
    " A command is written exactly as the admissible commands are; any other does nothing.",
    " The episode ends when the task is done.",
    "In each turn, write one action, between <action> and </action>, and nothing else.",
    "-= Welcome to TextWorld, ALFRED! =-\n\nYou are in the middle of a room. Looking quickly around you, you see",
    "\n\nYour task is to:",
    "You arrive at",
    "You pick up the",
    "You open the",
    "You turn on the",
    "You move the",
    "Nothing happens.",
    " is closed.",
    " is open. In it, you see",
    ", you see",
    ", and a",
    ", a",
    " from the",
    " to the",
    " On the",
    " The",
    "</action>",
    "<action>",
    "### ",
    "- **",
    "**: ",
    "\n\n",
];

/// The standard deviation of the first matrices: larger than the customary 0.02, at which a model this small starts slowly
/// (`docs/measurements.md`).
const STANDARD_DEVIATION: f64 = 0.06;

/// How a text is cut: phrases, names with numbers, words, digits, and whatever else by characters.
fn pattern() -> String {
    let escaped = PHRASES.iter().map(|phrase| {
        phrase.chars().fold(String::new(), |mut text, character| {
            if !character.is_alphanumeric() && !character.is_whitespace() {
                text.push('\\');
            }
            text.push(character);
            text
        })
    });
    let phrases: Vec<String> = escaped.collect();
    format!(r"{}| ?[a-z]+ \d+| ?[A-Za-z]+| ?\d|[\s\S]", phrases.join("|"))
}

/// The text of a `tokenizer.json` with these words.
fn tokenizer_json(words: &BTreeSet<String>) -> Value {
    let named = SPECIAL.iter().map(|name| (*name).to_owned());
    let vocabulary: BTreeMap<String, usize> = named.chain(words.iter().cloned()).zip(0..).collect();
    let added: Vec<Value> = SPECIAL
        .iter()
        .enumerate()
        .map(|(id, content)| {
            json!({"id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false,
                "normalized": false, "special": true})
        })
        .collect();
    json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": added, "normalizer": null,
        "pre_tokenizer": {"type": "Split", "pattern": {"Regex": pattern()}, "behavior": "Isolated", "invert": false},
        "post_processor": null, "decoder": {"type": "Fuse"},
        "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": SPECIAL[0]},
    })
}

/// The text of a `tokenizer.json` whose words are those of these messages.
///
/// # Errors
///
/// A pattern that does not compile.
pub(crate) fn learn_tokenizer(messages: impl IntoIterator<Item = Message>) -> Result<String> {
    let cutter = regex::Regex::new(&pattern())?;
    let mut words = BTreeSet::new();
    for message in messages {
        words.extend(cutter.find_iter(&message.text()).map(|found| found.as_str().to_owned()));
    }
    Ok(serde_json::to_string_pretty(&tokenizer_json(&words))?)
}

/// The `config.json`: a Qwen3 decoder, whose norms of queries and keys let it learn at a high rate.
pub(crate) fn config_json(tokenizer: &JsonTokenizer) -> String {
    let config = json!({
        "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "vocab_size": tokenizer.n_tokens(),
        "hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 3, "num_attention_heads": 4,
        "num_key_value_heads": 4, "head_dim": 32, "max_position_embeddings": 1024, "rms_norm_eps": 1e-6,
        "rope_theta": 10000.0, "tie_word_embeddings": true, "hidden_act": "silu", "eos_token_id": END,
    });
    config.to_string()
}

/// The decoder before training: the same for a seed.
///
/// # Errors
///
/// The tensor library fails.
pub(crate) fn untrained(config: &str, seed: u64) -> Result<Decoder> {
    let mut random = PyRandom::new(seed);
    let mut normal = move || {
        let radius = (-2.0 * (1.0 - random.random()).ln()).sqrt();
        radius * (2.0 * std::f64::consts::PI * random.random()).cos()
    };
    let model = Decoder::build(ModelConfig::from_json(config)?, |_, shape| {
        let n_values: usize = shape.iter().product();
        let values = match shape {
            [_] => vec![1.0; n_values],
            _ => (0..n_values).map(|_| (normal() * STANDARD_DEVIATION) as f32).collect(),
        };
        Ok(HostTensor { shape: shape.to_vec(), values })
    })?;
    Ok(model)
}

/// The token that begins the message of a role.
pub(crate) fn role_token(role: Role) -> u32 {
    match role {
        Role::System => 1,
        Role::User | Role::Tool => 2,
        Role::Assistant => 3,
    }
}
