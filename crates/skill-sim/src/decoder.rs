//! A decoder of 0.5 million parameters for small households, before training: tokenizer, chat template, configuration and
//! weights.
//!
//! It is what a simulated target stands for where weights are trained. The tokenizer knows the words of the prompts in
//! small rooms and those of the simulated teacher's skills; other words are one unknown token. Fixed sentences of the
//! world are one token each, and so is a name with its number (` desk 2`), so that a name is copied in one step.
//!
//! # Invariants
//!
//! - The files of the small decoder are the same bytes for a seed. Held by
//!   `a_seed_gives_the_same_decoder_which_knows_the_words_of_small_households`.

use crate::teacher::household_texts;
use regex::Regex;
use serde_json::{Value, json};
use skill_core::PyRandom;
use skill_envs::agent::ROLLOUT_PROMPT;
use skill_envs::alfworld::{Expert, INSTRUCTIONS, Play, RoomLimits, TaskType, generate_small};
use skill_train::TrainError;
use skill_train::model::Decoder;
use skill_train::model_config::ModelConfig;
use skill_train::weights::HostTensor;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Generated games whose words the tokenizer knows.
const N_GAMES: usize = 4_000;
/// The most commands of such a game.
const MAX_TURNS: usize = 20;
/// Headings of skills, as banks show them.
const HEADINGS: &str = "### General Principles\n### Pick And Place Skills\n### Look At Obj In Light Skills\n\
    ### Mistakes to Avoid\n- **Don't**: \n  **Instead**: \n  _Apply when: ._";

/// Special tokens: their ids are their places.
const SPECIAL: [&str; 6] = ["<|unknown|>", "<|system|>", "<|user|>", "<|assistant|>", "<|end|>", "<|pad|>"];
/// The end of a turn.
const END: usize = 4;
/// What every conversation is written as.
const CHAT_TEMPLATE: &str = "{% for message in messages %}<|{{ message.role }}|>{{ message.content }}<|end|>\
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
/// (`benches/weights.md`).
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

/// The words of small households and of what is taught about them.
fn words(seed: u64) -> Result<BTreeSet<String>, TrainError> {
    let fault =
        |error: regex::Error| TrainError::Compute { what: "the words of a tokenizer", source: error.into() };
    let cutter = Regex::new(&pattern()).map_err(fault)?;
    let mut words: BTreeSet<String> = PHRASES.iter().map(|phrase| (*phrase).to_owned()).collect();
    let mut learn = |text: &str| words.extend(cutter.find_iter(text).map(|found| found.as_str().to_owned()));
    [ROLLOUT_PROMPT, INSTRUCTIONS, HEADINGS].into_iter().for_each(&mut learn);
    household_texts().iter().for_each(|text| learn(text));
    let tasks = [TaskType::PickAndPlace, TaskType::LookInLight].into_iter().cycle();
    for (number, task_type) in tasks.take(N_GAMES).enumerate() {
        let made = generate_small(seed, &format!("words/{number}"), task_type, RoomLimits::SMALL);
        // A room without place for the task has no words.
        let Ok(made) = made else { continue };
        let mut play = Play::new(Arc::new(made.game));
        let mut observation = play.reset().observation.to_owned();
        let mut expert = Expert::new(&observation);
        for _ in 0..MAX_TURNS {
            learn(&observation);
            let command = expert.act(&observation, &play.admissible());
            learn(&format!("<action>{command}</action>"));
            let turn = play.step(&command);
            observation = turn.observation.to_owned();
            if turn.won {
                break;
            }
        }
    }
    Ok(words)
}

/// The `config.json`: a Qwen3 decoder, whose norms of queries and keys let it learn at a high rate.
fn config_json(n_tokens: usize) -> String {
    let config = json!({
        "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "vocab_size": n_tokens,
        "hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 3, "num_attention_heads": 4,
        "num_key_value_heads": 4, "head_dim": 32, "max_position_embeddings": 1024, "rms_norm_eps": 1e-6,
        "rope_theta": 10000.0, "tie_word_embeddings": true, "hidden_act": "silu", "eos_token_id": END,
    });
    config.to_string()
}

/// The weights before training: the same for a seed.
fn untrained(config: &str, seed: u64) -> Result<Decoder, TrainError> {
    let mut random = PyRandom::new(seed);
    let mut normal = move || {
        let radius = (-2.0 * (1.0 - random.random()).ln()).sqrt();
        radius * (2.0 * std::f64::consts::PI * random.random()).cos()
    };
    Decoder::build(ModelConfig::from_json(config)?, |_, shape| {
        let n_values: usize = shape.iter().product();
        let values = match shape {
            [_] => vec![1.0; n_values],
            _ => (0..n_values).map(|_| (normal() * STANDARD_DEVIATION) as f32).collect(),
        };
        Ok(HostTensor { shape: shape.to_vec(), values })
    })
}

/// The files of the decoder's folder, by name; the same bytes for a seed.
///
/// # Errors
///
/// The tensor library fails.
pub fn household_decoder(seed: u64) -> Result<Vec<(&'static str, Vec<u8>)>, TrainError> {
    let words = words(seed)?;
    let config = config_json(SPECIAL.len() + words.len());
    let weights = untrained(&config, seed)?.base_file()?;
    let settings = json!({ "chat_template": CHAT_TEMPLATE, "eos_token": SPECIAL.get(END) });
    Ok(vec![
        ("config.json", config.into_bytes()),
        ("tokenizer.json", tokenizer_json(&words).to_string().into_bytes()),
        ("tokenizer_config.json", settings.to_string().into_bytes()),
        ("model.safetensors", weights),
    ])
}
