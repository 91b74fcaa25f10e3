//! Local embeddings: a small encoder with random weights, and all-MiniLM-L6-v2 where its folder is named.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use skill_core::random::PyRandom;
use skill_llm::{CallCtx, EmbeddingModel, EmbeddingRequest, ErrorClass};
use skill_train::TrainError;
use skill_train::embedding::LocalEmbedding;
use skill_train::weights::{TensorView, encode};

/// The environment variable with the folder of all-MiniLM-L6-v2.
const FOLDER: &str = "SKILLRL_MINILM";
const TOLERANCE: f64 = 1e-4;

/// A small encoder: its files are a function of the seed.
fn write(folder: &Path, seed: u64) {
    let config = json!({
        "model_type": "bert", "hidden_act": "gelu", "hidden_size": 12, "num_hidden_layers": 2,
        "num_attention_heads": 3, "intermediate_size": 20, "vocab_size": 12, "type_vocab_size": 2,
        "max_position_embeddings": 16, "layer_norm_eps": 1e-12,
    });
    let words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "wash", "the", "plate", "##s", "cool", "it", ".", "and"];
    let vocabulary: serde_json::Map<String, Value> =
        words.iter().enumerate().map(|(id, word)| ((*word).to_owned(), json!(id))).collect();
    let special = |id: usize| {
        json!({"id": id, "content": words[id], "special": true, "single_word": false, "lstrip": false,
               "rstrip": false, "normalized": false})
    };
    let tokenizer = json!({
        "version": "1.0", "truncation": null, "padding": null,
        "added_tokens": [special(0), special(1), special(2), special(3)],
        "normalizer": {"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true,
                       "strip_accents": null, "lowercase": true},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
                       {"SpecialToken": {"id": "[SEP]", "type_id": 0}}],
            "pair": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
                     {"SpecialToken": {"id": "[SEP]", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}},
                     {"SpecialToken": {"id": "[SEP]", "type_id": 1}}],
            "special_tokens": {"[CLS]": {"id": "[CLS]", "ids": [2], "tokens": ["[CLS]"]},
                               "[SEP]": {"id": "[SEP]", "ids": [3], "tokens": ["[SEP]"]}},
        },
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": true},
        "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
                  "max_input_chars_per_word": 100, "vocab": vocabulary},
    });
    let mut shapes: Vec<(String, Vec<usize>)> = vec![
        ("embeddings.word_embeddings.weight".to_owned(), vec![12, 12]),
        ("embeddings.position_embeddings.weight".to_owned(), vec![16, 12]),
        ("embeddings.token_type_embeddings.weight".to_owned(), vec![2, 12]),
    ];
    let mut norms = vec!["embeddings.LayerNorm".to_owned()];
    for layer in 0..2 {
        let name = |part: &str| format!("encoder.layer.{layer}.{part}");
        for (part, input, output) in [
            ("attention.self.query", 12, 12),
            ("attention.self.key", 12, 12),
            ("attention.self.value", 12, 12),
            ("attention.output.dense", 12, 12),
            ("intermediate.dense", 12, 20),
            ("output.dense", 20, 12),
        ] {
            shapes.push((name(&format!("{part}.weight")), vec![output, input]));
            shapes.push((name(&format!("{part}.bias")), vec![output]));
        }
        norms.extend([name("attention.output.LayerNorm"), name("output.LayerNorm")]);
    }
    for norm in norms {
        shapes.push((format!("{norm}.weight"), vec![12]));
        shapes.push((format!("{norm}.bias"), vec![12]));
    }
    let mut random = PyRandom::new(seed);
    let values: Vec<Vec<f32>> = shapes
        .iter()
        .map(|(_, shape)| {
            (0..shape.iter().product()).map(|_| (3.0 * (random.random() - 0.5)) as f32).collect()
        })
        .collect();
    let views: Vec<TensorView<'_>> = shapes
        .iter()
        .zip(&values)
        .map(|((name, shape), values)| TensorView { name, shape, values })
        .collect();
    std::fs::create_dir_all(folder.join("1_Pooling")).unwrap();
    std::fs::write(folder.join("model.safetensors"), encode(&views)).unwrap();
    std::fs::write(folder.join("config.json"), config.to_string()).unwrap();
    std::fs::write(folder.join("tokenizer.json"), tokenizer.to_string()).unwrap();
    std::fs::write(folder.join("sentence_bert_config.json"), "{\"max_seq_length\": 8}").unwrap();
    std::fs::write(folder.join("1_Pooling/config.json"), "{\"pooling_mode_mean_tokens\": true}").unwrap();
}

fn cosine(a: &[f32], b: &[f32]) -> f64 {
    a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
}

#[tokio::test]
async fn each_text_has_its_own_vector_of_length_one() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), 3);
    let model = LocalEmbedding::open(folder.path()).unwrap();
    let texts = ["Wash the plates.", "cool it", "wash the plates."];
    let reply = model.embed(&EmbeddingRequest::new(texts), &CallCtx::default()).await.unwrap();
    assert_eq!((reply.vectors.len(), model.dimensions()), (3, 12));
    for (text, vector) in texts.iter().zip(&reply.vectors) {
        assert_eq!(vector.len(), 12);
        assert!((cosine(vector, vector) - 1.0).abs() < 1e-6);
        assert_eq!(&model.embed_text(text).unwrap().0, vector, "alone and among others");
    }
    assert_eq!(reply.vectors[0], reply.vectors[2], "case is folded");
    assert!(cosine(&reply.vectors[0], &reply.vectors[1]) < 0.9999);
    // [CLS] wash the plate ##s . [SEP], twice, and [CLS] cool it [SEP].
    assert_eq!(reply.usage.input, 7 + 4 + 7);
}

#[tokio::test]
async fn long_texts_are_cut_and_empty_ones_refused() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), 3);
    let model = LocalEmbedding::open(folder.path()).unwrap();
    let kept = "wash it and wash it and";
    let (long, n_tokens) = model.embed_text(&format!("{kept} cool the plates")).unwrap();
    assert_eq!(n_tokens, 8);
    assert_eq!(long, model.embed_text(kept).unwrap().0);
    let empty = model.embed(&EmbeddingRequest::new(["it", " "]), &CallCtx::default()).await.unwrap_err();
    assert_eq!(empty.class(), ErrorClass::BadRequest);
}

#[test]
fn the_id_has_the_hash_of_the_weights() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), 3);
    let revision = || LocalEmbedding::open(folder.path()).unwrap().id().revision.clone();
    let first = revision();
    assert_eq!(first, revision());
    write(folder.path(), 4);
    assert_ne!(first, revision());
}

#[test]
fn folders_that_cannot_be_used_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let fault = |name: &str, content: &str| {
        write(folder.path(), 3);
        std::fs::write(folder.path().join(name), content).unwrap();
        LocalEmbedding::open(folder.path()).unwrap_err()
    };
    assert!(
        matches!(fault("config.json", "{\"model_type\": \"llama\"}"), TrainError::Model { field, .. } if field == "model_type")
    );
    assert!(matches!(
        fault("1_Pooling/config.json", "{\"pooling_mode_cls_token\": true}"),
        TrainError::File { .. }
    ));
    assert!(matches!(fault("sentence_bert_config.json", "{\"max_seq_length\": 2}"), TrainError::File { .. }));
    assert!(matches!(fault("tokenizer.json", "{}"), TrainError::File { .. }));
    assert!(matches!(fault("model.safetensors", "x"), TrainError::File { .. }));
}

#[test]
#[ignore = "compares with recorded data and needs a model: set SKILLRL_CONFORMANCE and SKILLRL_MINILM"]
fn conformance_of_embeddings() {
    let [recorded, folder] = ["SKILLRL_CONFORMANCE", FOLDER].map(|name| std::env::var_os(name).unwrap());
    let path = PathBuf::from(recorded).join("skillbank/embedding.json");
    let recorded: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let model = LocalEmbedding::open(Path::new(&folder)).unwrap();
    let mut by_id = std::collections::BTreeMap::new();
    let (mut n_compared, mut largest) = (0, 0.0_f64);
    for text in recorded["texts"].as_array().unwrap() {
        // Texts by a recipe are repetitions of one.
        let Some(said) = text["text"].as_str() else { continue };
        let (vector, n_tokens) = model.embed_text(said).unwrap();
        assert_eq!(Some(n_tokens as u64), text["tokens"].as_u64(), "{said}");
        let parts = [("first8", &vector[..8]), ("last4", &vector[vector.len() - 4..])];
        for (part, found) in parts {
            for (found, expect) in found.iter().zip(text[part].as_array().unwrap()) {
                largest = largest.max((f64::from(*found) - expect.as_f64().unwrap()).abs());
            }
        }
        n_compared += 1;
        by_id.insert(text["id"].as_str().unwrap().to_owned(), vector);
    }
    let ids: Vec<&str> =
        recorded["cosine"]["ids"].as_array().unwrap().iter().map(|id| id.as_str().unwrap()).collect();
    for (row, id) in recorded["cosine"]["rows"].as_array().unwrap().iter().zip(&ids) {
        for (expect, other) in row.as_array().unwrap().iter().zip(&ids) {
            let (Some(one), Some(other)) = (by_id.get(*id), by_id.get(*other)) else { continue };
            let found = cosine(one, other);
            largest = largest.max((found - expect.as_f64().unwrap()).abs());
            n_compared += 1;
        }
    }
    println!("embeddings: {n_compared} vectors and cosines compared, largest difference {largest:.2e}");
    assert!(n_compared > 0 && largest <= TOLERANCE, "{largest}");
}
