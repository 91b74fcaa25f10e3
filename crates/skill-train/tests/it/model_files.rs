//! Configurations and weights of models: both spellings, and every fault by its name.

use serde_json::{Value, json};
use skill_train::model_config::{Family, ModelConfig};
use skill_train::weights::{HostTensor, TensorFile, TensorView, WeightFiles, encode};
use skill_train::{TensorFault, TrainError};

fn config(changes: Value) -> Result<ModelConfig, TrainError> {
    let mut config = json!({
        "model_type": "llama", "vocab_size": 23, "hidden_size": 16, "intermediate_size": 20,
        "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    });
    for (key, value) in changes.as_object().unwrap() {
        config[key] = value.clone();
    }
    ModelConfig::from_json(&config.to_string())
}

#[test]
fn both_spellings_of_the_rotation_are_read() {
    let theta = |changes: Value| config(changes).unwrap().rope_theta;
    assert_eq!(theta(json!({})), 1e4);
    assert_eq!(theta(json!({"rope_theta": 5e5, "rope_scaling": null})), 5e5);
    assert_eq!(theta(json!({"rope_parameters": {"rope_theta": 1e6, "rope_type": "default"}})), 1e6);
}

#[test]
fn families_have_their_biases_and_norms() {
    let names = |changes: Value| -> Vec<String> {
        config(changes).unwrap().parameters().into_iter().map(|(name, _)| name).collect()
    };
    let has = |names: &[String], part: &str| names.iter().any(|name| name.contains(part));
    let llama = names(json!({"tie_word_embeddings": true}));
    assert!(!has(&llama, "bias") && !has(&llama, "lm_head") && llama.len() == 2 * 9 + 2);
    let qwen2 = names(json!({"model_type": "qwen2"}));
    assert!(has(&qwen2, "q_proj.bias") && !has(&qwen2, "o_proj.bias") && has(&qwen2, "lm_head"));
    let qwen3 = names(json!({"model_type": "qwen3"}));
    assert!(has(&qwen3, "k_norm") && !has(&qwen3, "bias"));
    assert_eq!(config(json!({"model_type": "qwen3"})).unwrap().family, Family::Qwen3);
    assert_eq!(config(json!({"eos_token_id": [2, 5]})).unwrap().eos_tokens, [2, 5]);
}

#[test]
fn a_model_that_cannot_be_run_is_named_by_its_key() {
    let cases = [
        ("model_type", json!({"model_type": "gpt2"})),
        ("model_type", json!({"model_type": null})),
        ("vocab_size", json!({"vocab_size": 0})),
        ("vocab_size", json!({"vocab_size": "many"})),
        ("hidden_size", json!({"hidden_size": null})),
        ("num_hidden_layers", json!({"num_hidden_layers": 1_u64 << 40})),
        ("num_hidden_layers", json!({"num_hidden_layers": 100_000})),
        ("num_key_value_heads", json!({"num_key_value_heads": 3})),
        ("head_dim", json!({"head_dim": 5})),
        ("hidden_act", json!({"hidden_act": "gelu"})),
        ("use_sliding_window", json!({"use_sliding_window": true})),
        ("rope_type", json!({"rope_scaling": {"rope_type": "llama3"}})),
        ("rope_type", json!({"rope_parameters": {"rope_theta": 1e4, "rope_type": "yarn"}})),
        ("rope_parameters", json!({"rope_parameters": {"full_attention": {"rope_theta": 1e4}}})),
        ("layer_types", json!({"layer_types": ["full_attention", "sliding_attention"]})),
        ("partial_rotary_factor", json!({"partial_rotary_factor": 0.5})),
        ("partial_rotary_factor", json!({"rope_parameters": {"partial_rotary_factor": 0.25}})),
        ("rope_theta", json!({"rope_theta": -1})),
        ("rope_scaling", json!({"rope_scaling": {"factor": 4.0}})),
        ("rope_scaling", json!({"rope_scaling": "linear"})),
        ("rope_type", json!({"rope_scaling": {"type": "dynamic", "factor": 2.0}})),
        ("use_sliding_window", json!({"use_sliding_window": "true"})),
        ("hidden_activation", json!({"hidden_activation": "gelu_pytorch_tanh"})),
        ("final_logit_softcapping", json!({"final_logit_softcapping": 30.0})),
        ("attn_logit_softcapping", json!({"attn_logit_softcapping": 50.0})),
        ("query_pre_attn_scalar", json!({"query_pre_attn_scalar": 256})),
        ("embedding_multiplier", json!({"embedding_multiplier": 12.0})),
        ("logits_scaling", json!({"logits_scaling": 8.0})),
        ("dual_chunk_attention_config", json!({"dual_chunk_attention_config": {"chunk_size": 262144}})),
        ("num_experts", json!({"num_experts": 128})),
        ("no_rope_layers", json!({"no_rope_layers": [1, 1, 1, 0]})),
        ("is_causal", json!({"is_causal": false})),
        ("quantization_config", json!({"quantization_config": {"quant_method": "fp8"}})),
        ("tie_word_embeddings", json!({"tie_word_embeddings": 1})),
        ("eos_token_id", json!({"eos_token_id": "end"})),
    ];
    for (key, changes) in cases {
        match config(changes.clone()) {
            Err(TrainError::Model { field, .. }) => assert_eq!(field, key, "{changes}"),
            other => panic!("{changes}: {other:?}"),
        }
    }
    assert!(matches!(ModelConfig::from_json("{"), Err(TrainError::Model { .. })));
    // What published checkpoints say that changes nothing.
    for neutral in [
        json!({"sliding_window": 32768, "max_window_layers": 28, "use_sliding_window": false}),
        json!({"rope_scaling": null, "attention_dropout": 0.0, "pretraining_tp": 1, "hidden_act": "silu"}),
        json!({"rope_parameters": {"rope_type": "default", "rope_theta": 1e6}, "layer_types": ["full_attention"]}),
        json!({"embedding_multiplier": 1.0, "final_logit_softcapping": null, "quantization_config": null}),
    ] {
        assert!(config(neutral.clone()).is_ok(), "{neutral}");
    }
}

fn sample() -> Vec<u8> {
    encode(&[
        TensorView { name: "b", shape: &[2, 2], values: &[1.0, -2.0, 0.5, 3.25] },
        TensorView { name: "a", shape: &[3], values: &[0.0, f32::MIN_POSITIVE, 7.0] },
    ])
}

fn open(bytes: &[u8]) -> Result<TensorFile, TrainError> {
    TensorFile::from_bytes(std::path::Path::new("sample"), bytes)
}

#[test]
fn tensors_come_back_as_they_were() {
    let file = open(&sample()).unwrap();
    assert_eq!(file.names().collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(file.metadata()["format"], "pt");
    let expected = HostTensor { shape: vec![2, 2], values: vec![1.0, -2.0, 0.5, 3.25] };
    assert_eq!(file.read("b").unwrap(), expected);
    assert_eq!(open(&encode(&[])).unwrap().names().count(), 0);
}

#[test]
fn a_file_that_is_cut_off_or_longer_is_refused_at_every_length() {
    let bytes = sample();
    for length in 0..bytes.len() {
        let error = open(&bytes[..length]).unwrap_err();
        assert!(matches!(error, TrainError::File { .. }), "{length} bytes: {error:?}");
    }
    let mut longer = bytes.clone();
    longer.push(0);
    assert!(matches!(open(&longer), Err(TrainError::File { .. })));
    assert!(matches!(open(b"GGUF\x03\0\0\0\0\0\0\0\0\0\0\0"), Err(TrainError::File { .. })));
}

#[test]
fn a_damaged_byte_is_an_error_or_other_values_and_never_a_panic() {
    let bytes = sample();
    let (mut n_open, mut n_errors) = (0, 0);
    for at in 0..bytes.len() {
        for value in [0, 0x7f, 0xff, b'"', b'9', b'-', bytes[at] ^ 1] {
            let mut damaged = bytes.clone();
            damaged[at] = value;
            match open(&damaged) {
                Ok(file) => {
                    n_open += 1;
                    let names: Vec<String> = file.names().map(str::to_owned).collect();
                    names.iter().for_each(|name| drop(file.read(name)));
                }
                Err(_) => n_errors += 1,
            }
        }
    }
    assert!(n_open > 0 && n_errors > 0, "{n_open} open, {n_errors} errors");
}

/// A file with this header and this many bytes behind it.
fn raw(header: &str, n_bytes: usize) -> Vec<u8> {
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend_from_slice(header.as_bytes());
    bytes.resize(bytes.len() + n_bytes, 0x7f);
    bytes
}

#[test]
fn faults_name_the_tensor() {
    let fault = |bytes: &[u8], name: &str| match open(bytes).unwrap().read(name) {
        Err(TrainError::Tensor { tensor, fault, .. }) => {
            assert_eq!(tensor, name);
            fault
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(fault(&sample(), "c"), TensorFault::Missing);
    let unknown = raw(r#"{"x":{"dtype":"I64","shape":[1],"data_offsets":[0,8]}}"#, 8);
    assert_eq!(fault(&unknown, "x"), TensorFault::ElementType("I64".to_owned()));
    let not_finite = encode(&[TensorView { name: "x", shape: &[3], values: &[1.0, f32::NAN, 2.0] }]);
    assert_eq!(fault(&not_finite, "x"), TensorFault::NotFinite { index: 1 });
    let wrong_size = raw(r#"{"x":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}}"#, 8);
    assert!(matches!(open(&wrong_size).unwrap().read("x"), Err(TrainError::File { .. })));
    let gap = raw(r#"{"x":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}"#, 8);
    assert!(matches!(open(&gap), Err(TrainError::File { .. })));
}

#[test]
fn several_files_are_one_model_by_their_index() {
    let folder = tempfile::tempdir().unwrap();
    let tensor = |name: &'static str| encode(&[TensorView { name, shape: &[2], values: &[1.0, 2.0] }]);
    std::fs::write(folder.path().join("one.safetensors"), tensor("a")).unwrap();
    std::fs::write(folder.path().join("two.safetensors"), tensor("b")).unwrap();
    let index = folder.path().join("model.safetensors.index.json");
    let map = |b: &str| json!({"weight_map": {"a": "one.safetensors", "b": b}}).to_string();
    std::fs::write(&index, map("two.safetensors")).unwrap();
    let files = WeightFiles::open(folder.path()).unwrap();
    assert_eq!(files.read("b", &[2]).unwrap().values, [1.0, 2.0]);
    let wrong = files.read("a", &[1, 2]);
    let expected = TensorFault::Shape { expected: vec![1, 2], found: vec![2] };
    assert!(matches!(wrong, Err(TrainError::Tensor { fault, .. }) if fault == expected));
    std::fs::write(&index, map("../outside.safetensors")).unwrap();
    assert!(matches!(WeightFiles::open(folder.path()), Err(TrainError::File { .. })));
    std::fs::write(&index, map("three.safetensors")).unwrap();
    assert!(matches!(WeightFiles::open(folder.path()), Err(TrainError::Io { .. })));
}

#[cfg(feature = "candle")]
mod decoders {
    use skill_train::model::Decoder;
    use skill_train::weights::{TensorView, WeightFiles, encode};
    use skill_train::{TensorFault, TrainError};

    use crate::small;

    fn load(
        change: impl FnOnce(&mut Vec<(String, skill_train::weights::HostTensor)>),
    ) -> Result<Decoder, TrainError> {
        let mut tensors = small::model("llama", &[]).base().unwrap();
        change(&mut tensors);
        let views: Vec<TensorView<'_>> = tensors
            .iter()
            .map(|(name, tensor)| TensorView { name, shape: &tensor.shape, values: &tensor.values })
            .collect();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("weights.safetensors");
        std::fs::write(&path, encode(&views)).unwrap();
        Decoder::load(small::config("llama", &[]), &WeightFiles::open_file(&path).unwrap())
    }

    #[test]
    fn weights_of_another_model_are_refused_by_tensor() {
        let fault = |result: Result<Decoder, TrainError>| match result {
            Err(TrainError::Tensor { tensor, fault, .. }) => (tensor, fault),
            other => panic!("{other:?}"),
        };
        let original = small::model("llama", &[]).base().unwrap();
        assert_eq!(load(|_| {}).unwrap().base().unwrap(), original);
        let bare = load(|tensors| {
            for (name, _) in tensors {
                *name = name.trim_start_matches("model.").to_owned();
            }
        });
        assert_eq!(bare.unwrap().base().unwrap(), original);
        let (name, found) = fault(load(|tensors| tensors[3].1.shape.reverse()));
        assert_eq!(name, original[3].0);
        assert!(matches!(found, TensorFault::Shape { .. }));
        let (name, found) = fault(load(|tensors| drop(tensors.remove(5))));
        assert_eq!((name, found), (original[5].0.clone(), TensorFault::Missing));
        let extra = fault(load(|tensors| {
            let mut bias = tensors[1].clone();
            bias.0 = "model.layers.0.self_attn.q_proj.bias".to_owned();
            tensors.push(bias);
        }));
        assert_eq!(extra, ("model.layers.0.self_attn.q_proj.bias".to_owned(), TensorFault::Unexpected));
        // A second copy of a tied embedding is harmless.
        let tied = load(|tensors| {
            let mut head = tensors[0].clone();
            head.0 = "lm_head.weight".to_owned();
            tensors.push(head);
        });
        assert_eq!(tied.unwrap().base().unwrap(), original);
        // One of its own is not: nobody knows which of the two the model was trained with.
        let untied = load(|tensors| {
            let mut head = tensors[0].clone();
            head.0 = "lm_head.weight".to_owned();
            head.1.values[0] += 1.0;
            tensors.push(head);
        });
        assert!(
            matches!(&untied, Err(TrainError::Model { field, .. }) if field == "tie_word_embeddings"),
            "{untied:?}"
        );
    }
}
