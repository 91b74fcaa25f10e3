//! Work on rows, split over the threads of the pool that products of matrices use.
//!
//! A row is computed as a whole by one thread, so results do not depend on the number of threads.
//!
//! # Invariants
//!
//! - Results are the same bytes for any number of threads: one thread computes a row or a sequence as a whole. Held
//!   by `tests/it/threads.rs`.

use rayon::prelude::*;

/// The number of threads for products of matrices: `RAYON_NUM_THREADS`, or the number of physical cores, at most as many
/// as this process may use.
///
/// Without the variable candle counts the cores before each product. On Linux it reads `/proc/cpuinfo` for that, which
/// takes as long as a product of a small model, so a program that computes a lot should set the variable before it starts.
pub fn n_threads() -> usize {
    let allowed = std::thread::available_parallelism().map_or(usize::MAX, std::num::NonZero::get);
    candle_core::utils::get_num_threads().min(allowed)
}

/// Numbers that a thread works on at least: fewer are done sooner than another thread wakes up.
const MIN_NUMBERS: usize = 16_384;

/// Rows of this width that a thread takes at least.
pub(crate) fn min_rows(width: usize) -> usize {
    MIN_NUMBERS.div_ceil(width.max(1))
}

/// The rows of a matrix of this width, for reading.
pub(crate) fn rows(values: &[f32], width: usize) -> impl IndexedParallelIterator<Item = &[f32]> {
    values.par_chunks_exact(width.max(1)).with_min_len(min_rows(width))
}

/// The rows of a matrix of this width, for writing.
pub(crate) fn rows_mut(values: &mut [f32], width: usize) -> impl IndexedParallelIterator<Item = &mut [f32]> {
    values.par_chunks_exact_mut(width.max(1)).with_min_len(min_rows(width))
}

/// Splits a matrix into pieces of these many numbers, one behind the other.
pub(crate) fn pieces(
    values: &mut [f32],
    sizes: impl Iterator<Item = usize>,
) -> impl Iterator<Item = &mut [f32]> {
    sizes.scan(values, |rest, size| {
        let (piece, others) = std::mem::take(rest).split_at_mut_checked(size)?;
        *rest = others;
        Some(piece)
    })
}
