//! Content that travels once, by its hash.

use bytes::Bytes;

/// The content that a driver has for its workers.
pub trait Contents: Send + Sync {
    /// The content with this SHA-256, in hexadecimal digits; `None` if there is none.
    fn content(&self, hash: &str) -> Option<Bytes>;
}

/// Content in memory.
impl Contents for std::collections::BTreeMap<String, Bytes> {
    fn content(&self, hash: &str) -> Option<Bytes> {
        self.get(hash).cloned()
    }
}
