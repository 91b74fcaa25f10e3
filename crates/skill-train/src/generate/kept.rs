//! Sequences of the last call, kept for prompts that continue them.

use crate::model::{Cache, Decoder};

/// Keys and values of the sequences that the last call has sampled: an episode's next prompt continues its last one, so
/// that only what is new has to be computed.
///
/// They are valid for the weights that computed them: call [`KeptSequences::clear`] after changing the weights.
#[derive(Debug)]
pub struct KeptSequences {
    all: Vec<(Vec<u32>, Cache)>,
    max_bytes: u64,
}

impl Default for KeptSequences {
    /// At most 1 GiB.
    fn default() -> Self {
        Self::new(1 << 30)
    }
}

impl KeptSequences {
    /// Nothing yet; at most about this many bytes later.
    pub fn new(max_bytes: u64) -> Self {
        Self { all: Vec::new(), max_bytes }
    }

    /// Forgets all sequences.
    pub fn clear(&mut self) {
        self.all.clear();
    }

    /// The number of kept sequences.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// True if nothing is kept.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The longest kept sequence that this prompt continues.
    pub(super) fn find(&mut self, prompt: &[u32]) -> Option<Cache> {
        let continued = |tokens: &[u32]| tokens.len() < prompt.len() && prompt.starts_with(tokens);
        let found = self.all.iter_mut().filter(|(tokens, _)| continued(tokens));
        found.max_by_key(|(tokens, _)| tokens.len()).map(|(_, cache)| cache.fork())
    }

    /// Keeps these sequences in place of all others; those that have no room are left out.
    pub(super) fn replace(&mut self, model: &Decoder, sequences: impl Iterator<Item = (Vec<u32>, Cache)>) {
        let config = model.config();
        let numbers = 2 * config.n_layers * config.n_kv_heads * config.head_dim;
        let token_bytes = (numbers * size_of::<f32>()) as u64;
        self.all.clear();
        let mut n_bytes = 0_u64;
        for (tokens, cache) in sequences {
            // What sequences share is counted for each of them.
            n_bytes += token_bytes.saturating_mul(tokens.len() as u64);
            if n_bytes > self.max_bytes {
                break;
            }
            self.all.push((tokens, cache));
        }
    }
}
