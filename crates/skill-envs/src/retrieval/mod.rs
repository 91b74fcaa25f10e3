//! Full-text search over documents, with Lucene's English analyzer and its BM25 (k1 0.9, b 0.4).
//!
//! [`SearchIndex`] is an index in memory, which knows documents by their numbers; [`StoredIndex`] is one on the disk, with
//! its passages. Neither knows an environment.
//!
//! # Invariants
//!
//! - Terms and rankings are those of Lucene. Held by `conformance_with_the_recordings` of the shop, which was recorded
//!   from it.

mod analyzer;
mod bm25;
mod index;
mod porter;
mod segment;
#[cfg(feature = "search-agent")]
mod stored;

pub use analyzer::terms;
pub use index::{Hit, SearchIndex};
#[cfg(feature = "search-agent")]
pub use stored::{BuildError, Passage, StoreError, StoredIndex};
