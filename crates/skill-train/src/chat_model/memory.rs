//! Memory that a model needs, computed from the headers of its files, and memory that the machine has.

use crate::model_config::ModelConfig;

/// Bytes of a number in memory: all but quantized weights is f32.
const BYTES: u64 = 4;
/// Rows of activations of a layer that are held at a time, in widths of the feed-forward layer and of the stream.
const INNER_ROWS: u64 = 4;
const STREAM_ROWS: u64 = 10;

/// Memory of a model that answers, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryNeed {
    /// The weights as they are computed with.
    pub weights: u64,
    /// Keys and values of replies that are decoded together, each as long as the context.
    pub replies: u64,
    /// Keys and values of beginnings that are kept for other prompts.
    pub prefixes: u64,
    /// Activations and logits of one pass.
    pub work: u64,
}

impl MemoryNeed {
    /// All of it.
    pub fn total(&self) -> u64 {
        let parts = [self.weights, self.replies, self.prefixes, self.work];
        parts.into_iter().fold(0, u64::saturating_add)
    }

    pub(super) fn of(
        config: &ModelConfig,
        n_weight_bytes: u64,
        n_adapter_values: u64,
        context: usize,
        n_rows: usize,
        prefix_cache_bytes: u64,
        pass_tokens: usize,
    ) -> Self {
        let times =
            |factors: &[usize]| factors.iter().map(|factor| *factor as u64).fold(BYTES, u64::saturating_mul);
        let inner = times(&[config.intermediate_size, pass_tokens]).saturating_mul(INNER_ROWS);
        let stream = times(&[config.hidden_size, pass_tokens]).saturating_mul(STREAM_ROWS);
        let logits = times(&[config.vocab_size, n_rows]).saturating_mul(2);
        Self {
            weights: n_weight_bytes.saturating_add(n_adapter_values.saturating_mul(BYTES)),
            replies: token_bytes(config).saturating_mul(context as u64).saturating_mul(n_rows as u64),
            prefixes: prefix_cache_bytes,
            work: inner.saturating_add(stream).saturating_add(logits),
        }
    }
}

/// Bytes of the keys and values of one token in all layers.
pub(super) fn token_bytes(config: &ModelConfig) -> u64 {
    let heads = [config.n_layers, 2, config.n_kv_heads, config.head_dim];
    heads.into_iter().map(|size| size as u64).fold(BYTES, u64::saturating_mul)
}

/// Memory that this machine can give to the process without swapping, in bytes; `None` where nothing tells.
///
/// On Linux the smaller one of `MemAvailable` in `/proc/meminfo` and what the control group of the process leaves.
pub fn available_memory() -> Option<u64> {
    let read = |path: &str| std::fs::read_to_string(path).ok();
    let machine = read("/proc/meminfo").and_then(|text| mem_available(&text));
    let number = |path: &str| read(path).and_then(|text| text.trim().parse::<u64>().ok());
    let group = number("/sys/fs/cgroup/memory.max")
        .zip(number("/sys/fs/cgroup/memory.current"))
        .map(|(limit, used)| limit.saturating_sub(used));
    machine.into_iter().chain(group).min()
}

fn mem_available(text: &str) -> Option<u64> {
    const KIBIBYTE: u64 = 1024;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(KIBIBYTE)
}

/// Bytes for people, such as `1.9 GB`.
pub fn shown_bytes(bytes: u64) -> String {
    const STEP: f64 = 1000.0;
    let mut size = bytes as f64;
    for unit in ["B", "kB", "MB"] {
        if size < STEP {
            let digits = usize::from(unit != "B" && size < 10.0);
            return format!("{size:.digits$} {unit}");
        }
        size /= STEP;
    }
    format!("{size:.1} GB")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_machine_has_is_read_in_kibibytes() {
        let text = "MemTotal: 16 kB\nMemFree: 1 kB\nMemAvailable:    12 kB\n";
        assert_eq!(mem_available(text), Some(12 * 1024));
        assert_eq!(mem_available("MemFree: 1 kB\n"), None);
        assert_eq!(mem_available("MemAvailable: x kB\n"), None);
    }

    #[test]
    fn bytes_are_shown_with_a_unit() {
        let cases = [
            (0, "0 B"),
            (999, "999 B"),
            (1_500, "1.5 kB"),
            (491_400_064, "491 MB"),
            (1_976_000_000, "2.0 GB"),
        ];
        for (bytes, expect) in cases {
            assert_eq!(shown_bytes(bytes), expect);
        }
    }
}
