//! Memory that training takes, predicted from the shape of a model before its weights are read.
//!
//! It needs no tensor library. Everything is computed in f32; what is not trained may be kept in fewer bytes.

use crate::model_config::ModelConfig;

/// Bytes of a number.
const BYTES: u64 = 4;
/// Moments of AdamW for each trained parameter.
const MOMENTS: u64 = 2;
/// Gradients of a parameter that exist at a time: that of the batch, and that of the pass that is added to it.
const GRADIENTS: u64 = 2;
/// Logits that exist at a time, see `model/head.rs`, with their gradient.
const LOGITS_BYTES: u64 = 2 * (128 << 20);
/// Rows of the stream and of the feed-forward layer that a layer holds while it is computed.
const STREAM_ROWS: u64 = 10;
const INNER_ROWS: u64 = 4;

/// Memory of training, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct TrainingMemory {
    /// All weights, trained or not.
    pub weights: u64,
    /// Gradients of the trained weights.
    pub gradients: u64,
    /// Moments of the trained weights.
    pub optimizer: u64,
    /// What the backward pass needs of the forward pass, the logits of a chunk of positions, and work of one layer.
    pub activations: u64,
}

impl TrainingMemory {
    /// The memory for passes of at most `n_tokens`, with an adapter of rank `lora_rank` on all linear layers; rank 0
    /// trains all weights.
    pub fn of(config: &ModelConfig, lora_rank: usize, n_tokens: usize) -> Self {
        let n_weights = config.n_parameters() as u64;
        let n_adapter = n_adapter_values(config, lora_rank);
        let n_trained = if lora_rank == 0 { n_weights } else { n_adapter };
        let bytes = |count: u64| count.saturating_mul(BYTES);
        let of_tokens = |width: u64| bytes(width.saturating_mul(n_tokens as u64));
        let [hidden, queries, keys, inner] = widths(config);
        // Input, queries, keys, values, attended values, the stream between the blocks, gate and up.
        let kept = 2 * hidden + 2 * queries + 2 * keys + 2 * inner;
        let work = hidden * STREAM_ROWS + inner * INNER_ROWS;
        let logits = bytes((config.vocab_size as u64).saturating_mul(n_tokens as u64)).saturating_mul(2);
        Self {
            weights: bytes(n_weights + n_adapter),
            gradients: bytes(n_trained).saturating_mul(GRADIENTS),
            optimizer: bytes(n_trained).saturating_mul(MOMENTS),
            activations: of_tokens(kept)
                .saturating_mul(config.n_layers as u64)
                .saturating_add(of_tokens(work))
                .saturating_add(logits.min(LOGITS_BYTES)),
        }
    }

    /// The same with a base that is not trained and kept in `base_bytes`: one matrix at a time is converted to f32.
    #[must_use]
    pub fn with_frozen_base(mut self, config: &ModelConfig, base_bytes: u64) -> Self {
        let [hidden, _, _, inner] = widths(config);
        let largest = hidden.saturating_mul(inner.max(config.vocab_size as u64)).saturating_mul(BYTES);
        let floats = (config.n_parameters() as u64).saturating_mul(BYTES);
        self.weights = self.weights.saturating_sub(floats).saturating_add(base_bytes.min(floats));
        self.activations = self.activations.saturating_add(largest);
        self
    }

    /// All of it.
    pub fn total(&self) -> u64 {
        let parts = [self.weights, self.gradients, self.optimizer, self.activations];
        parts.into_iter().fold(0, u64::saturating_add)
    }
}

/// Parameters of the largest model that this much memory trains, in full and with an adapter, where a quarter of the
/// memory is left for activations; an adapter is taken to have a hundredth of the model's parameters.
pub fn largest_models(available: u64) -> [u64; 2] {
    const SHARE: [u64; 2] = [3, 4];
    const ADAPTER_SHARE: u64 = 100;
    let for_parameters = available / SHARE[1] * SHARE[0];
    let trained = BYTES * (1 + GRADIENTS + MOMENTS);
    [for_parameters / trained, for_parameters * ADAPTER_SHARE / (BYTES * ADAPTER_SHARE + trained)]
}

/// Widths of the stream, of all queries, of all keys, and of the feed-forward layer.
fn widths(config: &ModelConfig) -> [u64; 4] {
    let sizes = [
        config.hidden_size,
        config.n_heads * config.head_dim,
        config.n_kv_heads * config.head_dim,
        config.intermediate_size,
    ];
    sizes.map(|size| size as u64)
}

/// Numbers of an adapter on the seven linear layers: `rank * (in + out)` each.
fn n_adapter_values(config: &ModelConfig, rank: usize) -> u64 {
    let [hidden, queries, keys, inner] = widths(config);
    let sides = 2 * (hidden + queries) + 2 * (hidden + keys) + 3 * (hidden + inner);
    sides.saturating_mul(rank as u64).saturating_mul(config.n_layers as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The shape of SmolLM2-135M.
    fn shape() -> ModelConfig {
        let text = r#"{"model_type": "llama", "vocab_size": 49152, "hidden_size": 576, "intermediate_size": 1536,
            "num_hidden_layers": 30, "num_attention_heads": 9, "num_key_value_heads": 3, "rope_theta": 100000.0,
            "rms_norm_eps": 1e-5, "max_position_embeddings": 8192, "tie_word_embeddings": true}"#;
        ModelConfig::from_json(text).unwrap()
    }

    #[test]
    fn all_weights_take_their_gradients_and_two_moments_and_an_adapter_takes_its_own() {
        let shape = shape();
        let n_weights = 134_515_008;
        let full = TrainingMemory::of(&shape, 0, 512);
        assert_eq!([full.weights, full.gradients, full.optimizer], [4, 8, 8].map(|bytes| bytes * n_weights));
        // peft counts 4,884,480 trainable parameters for rank 16 on these layers.
        let adapter = TrainingMemory::of(&shape, 16, 512);
        assert_eq!(adapter.optimizer, 8 * 4_884_480);
        assert_eq!(adapter.weights, 4 * (n_weights + 4_884_480));
        assert_eq!(adapter.activations, full.activations);
        let frozen = adapter.with_frozen_base(&shape, 2 * n_weights);
        assert_eq!(frozen.weights, 2 * n_weights + 4 * 4_884_480);
        // The largest matrix is the embedding.
        assert_eq!(frozen.activations, adapter.activations + 4 * 49_152 * 576);
        let longer = TrainingMemory::of(&shape, 16, 1024);
        assert!(longer.activations > adapter.activations && longer.weights == adapter.weights);
    }

    #[test]
    fn what_fits_in_full_fits_as_an_adapter_and_the_prediction_agrees() {
        let [full, adapter] = largest_models(16_000_000_000);
        assert_eq!(full, 600_000_000);
        assert!(adapter > 4 * full, "{adapter}");
    }
}
