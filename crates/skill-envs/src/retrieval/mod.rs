//! Full-text search over documents, with Lucene's English analyzer and its BM25 (k1 0.9, b 0.4).
//!
//! [`SearchIndex`] is an index in memory. It knows documents by their numbers and no environment.
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

pub use analyzer::terms;
pub use index::{Hit, SearchIndex};
