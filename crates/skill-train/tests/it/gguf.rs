//! GGUF files: written with the names and the order of rows of llama.cpp, and read back.

use std::path::Path;

use candle_core::quantized::gguf_file::{self, Value};
use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{Device, Tensor};
use serde_json::json;
use skill_train::chat_model::{LocalModel, LocalModelOptions};
use skill_train::lora::LoraConfig;
use skill_train::model::{
    Adapters, Batch, Cache, Coefficients, Continued, Decoder, Gradients, Keep, Scores, Target,
};
use skill_train::optim::AdamW;
use skill_train::seam::AdamSettings;
use skill_train::weights::HostTensor;
use skill_train::{TensorFault, TrainError};

use crate::small;

/// The names of llama.cpp, by hand.
fn gguf_name(name: &str) -> String {
    let names = [
        ("model.embed_tokens", "token_embd"),
        ("model.norm", "output_norm"),
        ("lm_head", "output"),
        ("model.layers.", "blk."),
        ("input_layernorm", "attn_norm"),
        ("post_attention_layernorm", "ffn_norm"),
        ("self_attn.q_norm", "attn_q_norm"),
        ("self_attn.k_norm", "attn_k_norm"),
        ("self_attn.q_proj", "attn_q"),
        ("self_attn.k_proj", "attn_k"),
        ("self_attn.v_proj", "attn_v"),
        ("self_attn.o_proj", "attn_output"),
        ("mlp.gate_proj", "ffn_gate"),
        ("mlp.up_proj", "ffn_up"),
        ("mlp.down_proj", "ffn_down"),
    ];
    names.iter().fold(name.to_owned(), |name, (from, to)| name.replace(from, to))
}

/// `permute` of llama.cpp's converter: reshape to [heads, 2, half, rest], swap the middle axes.
fn permuted(tensor: &HostTensor, n_heads: usize) -> HostTensor {
    let width = tensor.values.len() / tensor.shape[0];
    let half = tensor.shape[0] / n_heads / 2;
    let row = |index: usize| &tensor.values[index * width..(index + 1) * width];
    let mut values = Vec::new();
    for head in 0..n_heads {
        for pair in 0..half {
            for part in 0..2 {
                values.extend_from_slice(row(head * 2 * half + part * half + pair));
            }
        }
    }
    HostTensor { shape: tensor.shape.clone(), values }
}

fn write(path: &Path, architecture: &str, model: &Decoder, dtype: GgmlDType, skipped: &str) {
    let config = model.config();
    let size = |size: usize| Value::U32(u32::try_from(size).unwrap());
    let metadata: Vec<(String, Value)> = [
        ("embedding_length", size(config.hidden_size)),
        ("feed_forward_length", size(config.intermediate_size)),
        ("block_count", size(config.n_layers)),
        ("attention.head_count", size(config.n_heads)),
        ("attention.head_count_kv", size(config.n_kv_heads)),
        ("attention.key_length", size(config.head_dim)),
        ("context_length", size(config.max_positions)),
        ("attention.layer_norm_rms_epsilon", Value::F32(config.rms_norm_eps as f32)),
        ("rope.freq_base", Value::F32(config.rope_theta as f32)),
    ]
    .into_iter()
    .map(|(key, value)| (format!("{architecture}.{key}"), value))
    .chain([
        ("general.architecture".to_owned(), Value::String(architecture.to_owned())),
        ("tokenizer.ggml.eos_token_id".to_owned(), Value::U32(2)),
    ])
    .collect();
    let tensors: Vec<(String, QTensor)> = model
        .base()
        .unwrap()
        .into_iter()
        .filter(|(name, _)| gguf_name(name) != skipped)
        .map(|(name, tensor)| {
            let tensor = match name.as_str() {
                name if architecture == "llama" && name.contains("q_proj") => {
                    permuted(&tensor, config.n_heads)
                }
                name if architecture == "llama" && name.contains("k_proj") => {
                    permuted(&tensor, config.n_kv_heads)
                }
                _ => tensor,
            };
            let dtype = if tensor.shape.len() == 1 { GgmlDType::F32 } else { dtype };
            let values = Tensor::from_vec(tensor.values, tensor.shape, &Device::Cpu).unwrap();
            (gguf_name(&name), QTensor::quantize(&values, dtype).unwrap())
        })
        .collect();
    let metadata: Vec<(&str, &Value)> = metadata.iter().map(|(key, value)| (key.as_str(), value)).collect();
    let tensors: Vec<(&str, &QTensor)> =
        tensors.iter().map(|(name, tensor)| (name.as_str(), tensor)).collect();
    let mut file = std::fs::File::create(path).unwrap();
    gguf_file::write(&mut file, &metadata, &tensors).unwrap();
}

#[test]
fn a_model_comes_back_from_gguf() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    for (family, is_tied) in [("llama", true), ("qwen2", false), ("qwen3", true)] {
        let model = small::model(family, &[("tie_word_embeddings", json!(is_tied))]);
        write(&path, family, &model, GgmlDType::F32, "");
        let read = Decoder::open_gguf(&path).unwrap();
        assert_eq!(read.config(), model.config());
        assert_eq!(read.base().unwrap(), model.base().unwrap(), "{family}");
    }
}

#[test]
fn a_part_of_a_model_is_told_to_be_one_of_several() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model-00002-of-00002.gguf");
    let (architecture, count, number) = (Value::String("llama".to_owned()), Value::U16(2), Value::U16(1));
    let metadata = [("general.architecture", &architecture), ("split.count", &count), ("split.no", &number)];
    gguf_file::write(&mut std::fs::File::create(&path).unwrap(), &metadata, &[]).unwrap();
    for opened in [Decoder::open_gguf(&path), Decoder::open_gguf_frozen(&path)] {
        let error = opened.err().unwrap().to_string();
        assert!(error.contains("file 2 of 2"), "{error}");
    }
}

#[test]
fn quantized_weights_give_nearly_the_same_logits() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    let wide = [("hidden_size", json!(32)), ("intermediate_size", json!(64)), ("head_dim", json!(8))];
    let model = small::model("llama", &wide);
    let logits = |model: &Decoder| model.next_logits(&[1, 2, 3, 4, 5], Adapters::On).unwrap();
    write(&path, "llama", &model, GgmlDType::Q8_0, "");
    let read = Decoder::open_gguf(&path).unwrap();
    let errors = logits(&model).into_iter().zip(logits(&read)).map(|(a, b)| (a - b).abs());
    let largest = errors.fold(0.0, f32::max);
    assert!(largest > 0.0 && largest < 0.1, "the largest error is {largest}");
}

/// A model that stays quantized says nearly what the dequantized one says: the kernels round its inputs to 8 bits.
#[test]
fn a_model_that_stays_quantized_agrees_with_the_dequantized_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    let size = |size: usize| {
        [("hidden_size", json!(size)), ("intermediate_size", json!(2 * size)), ("head_dim", json!(size / 4))]
    };
    // Tied embeddings, an output matrix of its own, and rows that llama.cpp reorders.
    let cases = [
        ("llama", true, GgmlDType::Q8_0, 32),
        ("llama", false, GgmlDType::Q5_0, 64),
        ("qwen2", false, GgmlDType::Q4_0, 64),
        ("qwen3", true, GgmlDType::Q4K, 256),
        ("llama", true, GgmlDType::Q6K, 256),
        ("qwen2", true, GgmlDType::F16, 32),
    ];
    for (family, is_tied, dtype, width) in cases {
        let mut changes = size(width).to_vec();
        changes.push(("tie_word_embeddings", json!(is_tied)));
        write(&path, family, &small::model(family, &changes), dtype, "");
        let floats = Decoder::open_gguf(&path).unwrap();
        let quantized = Decoder::open_gguf_quantized(&path).unwrap();
        let prompt = [1, 2, 3, 4, 5, 9, 7];
        let expected = floats.next_logits(&prompt, Adapters::On).unwrap();
        // A whole prompt at once, and its end token by token behind a cache.
        let mut cache = Cache::default();
        quantized.extend(&mut [Continued { cache: &mut cache, tokens: &prompt[..4] }], Adapters::On).unwrap();
        let mut by_token = Vec::new();
        for token in &prompt[4..] {
            let row = Continued { cache: &mut cache, tokens: std::slice::from_ref(token) };
            by_token = quantized.extend(&mut [row], Adapters::On).unwrap();
        }
        for found in [quantized.next_logits(&prompt, Adapters::On).unwrap(), by_token] {
            let spread = expected.iter().fold(0.0_f32, |largest, value| largest.max(value.abs()));
            let error =
                expected.iter().zip(&found).fold(0.0_f32, |largest, (a, b)| largest.max((a - b).abs()));
            assert!(error <= 0.06 * spread, "{family} {dtype:?}: {error} of {spread}");
        }
        let n_floats = 4 * floats.config().n_parameters() as u64;
        assert_eq!(floats.n_weight_bytes(), n_floats);
        assert_eq!(quantized.n_weight_bytes() < n_floats / 2, dtype != GgmlDType::F16, "{dtype:?}");
    }
}

#[test]
fn a_frozen_base_takes_fewer_bytes_and_changes_no_bit() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    let wide = [("hidden_size", json!(32)), ("intermediate_size", json!(64)), ("head_dim", json!(8))];
    let lora = LoraConfig::new(4, 64.0, &["q_proj", "v_proj", "down_proj"], "").unwrap();
    let trained = |mut model: Decoder| {
        let base = model.n_weight_bytes();
        model.attach_new(lora.clone(), 3).unwrap();
        let mut adam = AdamW::default();
        for _ in 0..2 {
            let batch = Batch::new([&[1, 2, 3, 4, 5, 9, 7][..], &[3, 1, 4]]);
            let forward = model.forward(batch, Adapters::On, Keep::Activations).unwrap();
            let targets = [(0, 2), (4, 9), (7, 1)];
            let targets = targets.map(|(position, token)| Target { position, token });
            let mut gradients = Gradients::default();
            let loss = |_, scores: &Scores| {
                let one = Coefficients { by_logprob: -1.0, by_entropy: 0.0 };
                Ok(vec![one; scores.logprobs.len()])
            };
            let (_, hidden) = model.score(&forward, &targets, 1.0, &mut gradients, loss).unwrap();
            model.backward(forward, hidden, &mut gradients).unwrap();
            model.step(&mut adam, &AdamSettings::default(), &gradients).unwrap();
        }
        (base, model.adapter_files().unwrap(), model.merged().unwrap().base_file().unwrap())
    };
    for (is_tied, dtype) in
        [(true, GgmlDType::Q8_0), (false, GgmlDType::Q5_0), (false, GgmlDType::F16), (true, GgmlDType::BF16)]
    {
        let mut changes = wide.to_vec();
        changes.push(("tie_word_embeddings", json!(is_tied)));
        write(&path, "llama", &small::model("llama", &changes), dtype, "");
        let floats = trained(Decoder::open_gguf(&path).unwrap());
        let frozen = trained(Decoder::open_gguf_frozen(&path).unwrap());
        assert!((floats.1, floats.2) == (frozen.1, frozen.2), "{dtype:?}");
        assert!(frozen.0 < 2 * floats.0 / 3, "{dtype:?}: {} of {}", frozen.0, floats.0);
    }
    // The same as safetensors: values that bf16 holds.
    let text = small::config_text("llama", &wide);
    write(&path, "llama", &small::model("llama", &wide), GgmlDType::BF16, "");
    let weights = Decoder::open_gguf(&path).unwrap().base_file().unwrap();
    std::fs::write(folder.path().join("config.json"), text).unwrap();
    std::fs::write(folder.path().join("model.safetensors"), weights).unwrap();
    let floats = trained(Decoder::open(folder.path()).unwrap());
    let frozen = trained(Decoder::open_frozen(folder.path()).unwrap());
    assert!((floats.1, floats.2) == (frozen.1, frozen.2) && frozen.0 < 2 * floats.0 / 3);
}

#[test]
fn a_quantized_model_has_an_adapter_beside_it_and_is_not_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    let wide = [("hidden_size", json!(32)), ("intermediate_size", json!(64)), ("head_dim", json!(8))];
    write(&path, "llama", &small::model("llama", &wide), GgmlDType::Q8_0, "");
    let lora = LoraConfig::new(4, 64.0, &["q_proj", "v_proj", "down_proj"], "").unwrap();
    let attach = |mut model: Decoder| {
        model.attach_new(lora.clone(), 3).unwrap();
        let changed: Vec<_> = model
            .trainable()
            .unwrap()
            .into_iter()
            .map(|(name, mut tensor)| {
                tensor
                    .values
                    .iter_mut()
                    .enumerate()
                    .for_each(|(at, value)| *value = ((at % 7) as f32 - 3.0) / 20.0);
                (name, tensor)
            })
            .collect();
        model.replace(&changed).unwrap();
        model
    };
    let quantized = attach(Decoder::open_gguf_quantized(&path).unwrap());
    let floats = attach(Decoder::open_gguf(&path).unwrap());
    let logits = |model: &Decoder, adapters| model.next_logits(&[1, 2, 3, 4, 5], adapters).unwrap();
    let difference =
        |a: Vec<f32>, b: Vec<f32>| a.iter().zip(&b).fold(0.0_f32, |most, (a, b)| most.max((a - b).abs()));
    let by_adapter = difference(logits(&floats, Adapters::On), logits(&floats, Adapters::Off));
    let by_rounding = difference(logits(&quantized, Adapters::On), logits(&floats, Adapters::On));
    assert!(by_rounding < 0.1 * by_adapter, "{by_rounding} of {by_adapter}");
    assert!(matches!(quantized.base(), Err(TrainError::Model { .. })));
    assert!(matches!(quantized.merged(), Err(TrainError::Model { .. })));
}

#[test]
fn the_adapter_of_another_base_is_refused_by_its_tensor() {
    let folder = tempfile::tempdir().unwrap();
    let lora = |rank| LoraConfig::new(rank, 8.0, &["q_proj", "down_proj"], "").unwrap();
    let mut other = small::model("llama", &[("hidden_size", json!(32)), ("head_dim", json!(8))]);
    other.attach_new(lora(4), 3).unwrap();
    for (name, bytes) in other.adapter_files().unwrap() {
        std::fs::write(folder.path().join(name), bytes).unwrap();
    }
    let mut model = small::model("llama", &[]);
    let refused = model.attach_from(folder.path());
    let is_shape = |fault: &TensorFault| matches!(fault, TensorFault::Shape { .. });
    assert!(
        matches!(&refused, Err(TrainError::Tensor { tensor, fault, .. }) if tensor.contains("q_proj") && is_shape(fault)),
        "{refused:?}"
    );
    assert!(model.lora().is_none(), "the model is what it was");
}

#[test]
fn faulty_files_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    let model = small::model("llama", &[]);
    write(&path, "mamba", &model, GgmlDType::F32, "");
    assert!(
        matches!(Decoder::open_gguf(&path), Err(TrainError::Model { field, .. }) if field == "model_type")
    );
    write(&path, "llama", &model, GgmlDType::F32, "blk.1.attn_k.weight");
    let missing = Decoder::open_gguf(&path);
    let is_missing =
        |tensor: &str, fault: &TensorFault| tensor == "blk.1.attn_k.weight" && *fault == TensorFault::Missing;
    assert!(matches!(missing, Err(TrainError::Tensor { tensor, fault, .. }) if is_missing(&tensor, &fault)));
    write(&path, "llama", &model, GgmlDType::F32, "");
    let bytes = std::fs::read(&path).unwrap();
    for length in [0, 3, 11, 200, bytes.len() / 2, bytes.len() - 1] {
        std::fs::write(&path, &bytes[..length]).unwrap();
        let result = Decoder::open_gguf(&path);
        assert!(
            matches!(result, Err(TrainError::File { .. })),
            "{length} of {} bytes: {result:?}",
            bytes.len()
        );
    }
    assert!(matches!(Decoder::open_gguf(&folder.path().join("none")), Err(TrainError::Io { .. })));
    // The type of a tensor follows its name, the number of its dimensions and their sizes.
    let name = b"token_embd.weight";
    let at = bytes.windows(name.len()).position(|window| window == name).unwrap() + name.len() + 4 + 2 * 8;
    let mut unknown = bytes.clone();
    // IQ4_NL, which the library does not know, and a number of no type.
    for (number, name) in [(20_u32, "IQ4_NL"), (99, "number 99")] {
        unknown[at..at + 4].copy_from_slice(&number.to_le_bytes());
        std::fs::write(&path, &unknown).unwrap();
        let error = Decoder::open_gguf(&path).unwrap_err();
        let TrainError::Tensor { tensor, fault: TensorFault::Quantization { found, .. }, .. } = error else {
            panic!("{error}");
        };
        assert_eq!((tensor.as_str(), found.as_str()), ("token_embd.weight", name));
    }
}

/// Damages a file at places and by bytes that a generator of numbers chooses, always in the same way.
fn damaged(bytes: &[u8], n_header: usize, round: u64) -> Vec<u8> {
    let mut state = round.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = move |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state % below.max(1) as u64).unwrap()
    };
    let mut damaged = bytes.to_vec();
    for _ in 0..=next(3) {
        let at = next(n_header);
        match next(4) {
            0 => damaged[at] = 0,
            1 => damaged[at] = 0xff,
            2 => damaged[at] ^= 1 << next(8),
            _ => {
                let end = (at + 8).min(damaged.len());
                damaged[at..end].fill([0, 0x7f, 0xff][next(3)]);
            }
        }
    }
    damaged
}

#[test]
fn a_damaged_header_is_an_error_or_a_model_and_never_a_panic() {
    const N_ROUNDS: u64 = 3_000;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    let wide = [("hidden_size", json!(32)), ("intermediate_size", json!(64)), ("head_dim", json!(8))];
    write(&path, "qwen2", &small::model("qwen2", &wide), GgmlDType::Q8_0, "");
    let bytes = std::fs::read(&path).unwrap();
    let last = b"output_norm.weight";
    let n_header = bytes.windows(last.len()).rposition(|window| window == last).unwrap() + 64;
    let (mut n_models, mut n_errors) = (0, 0);
    for round in 1..=N_ROUNDS {
        std::fs::write(&path, damaged(&bytes, n_header, round)).unwrap();
        match Decoder::open_gguf_quantized(&path) {
            Ok(_) => n_models += 1,
            Err(_) => n_errors += 1,
        }
        drop(LocalModel::open(LocalModelOptions::new(&path)));
    }
    assert!(n_models > 0 && n_errors > n_models, "{n_models} models, {n_errors} errors");
}

#[test]
fn an_alignment_of_0_and_a_shape_without_bounds_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    let architecture = Value::String("llama".to_owned());
    for none in [Value::U8(0), Value::U16(0), Value::I16(0), Value::U32(0), Value::I32(0)] {
        let metadata = [("general.architecture", &architecture), ("general.alignment", &none)];
        gguf_file::write(&mut std::fs::File::create(&path).unwrap(), &metadata, &[]).unwrap();
        let refused = Decoder::open_gguf(&path);
        assert!(matches!(refused, Err(TrainError::File { .. })), "{none:?}");
    }
    write(&path, "llama", &small::model("llama", &[]), GgmlDType::F32, "");
    let mut bytes = std::fs::read(&path).unwrap();
    let name = b"token_embd.weight";
    let at = bytes.windows(name.len()).position(|window| window == name).unwrap() + name.len() + 4;
    bytes[at..at + 16].fill(0x7f);
    std::fs::write(&path, &bytes).unwrap();
    assert!(matches!(Decoder::open_gguf(&path), Err(TrainError::File { .. })));
}
