//! Causal attention with shared heads of keys and values, forward and backward.
//!
//! Each sequence of a batch is computed on its own. Queries are taken in blocks, and a block multiplies only with the
//! keys that it may see. The probabilities are not kept: the backward pass recomputes them from the kept logarithm of
//! their sum (as in FlashAttention, Dao et al., 2022), so that memory grows with the number of tokens, not with its
//! square.

use candle_core::Tensor;
use rayon::prelude::*;

use super::batch::{Batch, Direction, Rotation, masked_softmax};
use super::math;
use super::tensor::{Floats, add_in_place, edit, tensor, zeros};
use crate::error::TrainError;
use crate::parallel::pieces;

type Result<T> = std::result::Result<T, TrainError>;

/// Queries of one block, in tokens.
const N_BLOCK_TOKENS: usize = 128;

/// The heads of an attention layer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Heads {
    /// Heads of keys and values.
    pub(crate) n_shared: usize,
    /// Heads of queries for each of them.
    pub(crate) group: usize,
    /// Width of a head.
    pub(crate) width: usize,
}

/// What the backward pass needs of one sequence.
#[derive(Debug)]
pub(crate) struct SequenceTape {
    /// Rotated queries, `[n_shared, tokens * group, width]`.
    queries: Tensor,
    /// Rotated keys, `[n_shared, tokens, width]`.
    keys: Tensor,
    /// Values, `[n_shared, tokens, width]`.
    values: Tensor,
    /// Logarithm of the sum of exponentials of each row of scores, `[n_shared, tokens * group]`.
    log_sums: Vec<f32>,
}

impl SequenceTape {
    /// Rotated keys and values, each `[n_shared, tokens, width]`.
    pub(crate) fn keys_and_values(&self) -> (&Tensor, &Tensor) {
        (&self.keys, &self.values)
    }
}

/// Where some tokens of a sequence lie, and how their heads are rotated.
struct Place<'a> {
    /// The first token of the sequence, in the batch.
    start: usize,
    /// The first of these tokens, in the sequence.
    first: usize,
    n_tokens: usize,
    n_shared: usize,
    group: usize,
    width: usize,
    rotation: Option<(&'a Rotation, Direction)>,
}

impl Place<'_> {
    /// Calls `copy(token of the batch, range in the sequence's [tokens, heads * width], range in
    /// [n_shared, tokens * group, width])` for each head.
    fn for_each_head(&self, mut copy: impl FnMut(usize, std::ops::Range<usize>, std::ops::Range<usize>)) {
        let row = self.n_shared * self.group * self.width;
        for token in 0..self.n_tokens {
            for shared in 0..self.n_shared {
                for member in 0..self.group {
                    let flat = (self.first + token) * row + (shared * self.group + member) * self.width;
                    let by_head = ((shared * self.n_tokens + token) * self.group + member) * self.width;
                    let token = self.start + self.first + token;
                    copy(token, flat..flat + self.width, by_head..by_head + self.width);
                }
            }
        }
    }

    /// From `[tokens, heads * width]` of the batch to one matrix for each shared head.
    fn split(&self, batch: &[f32]) -> Result<Tensor> {
        let flat = batch.get(self.start * self.n_shared * self.group * self.width..).unwrap_or_default();
        let mut output = vec![0.0; self.n_shared * self.n_tokens * self.group * self.width];
        self.for_each_head(|token, from, to| {
            if let (Some(source), Some(target)) = (flat.get(from), output.get_mut(to)) {
                match self.rotation {
                    Some((rotation, direction)) => rotation.turn(token, direction, source, target),
                    None => target.copy_from_slice(source),
                }
            }
        });
        tensor(output, &[self.n_shared, self.n_tokens * self.group, self.width])
    }

    /// The inverse of [`Place::split`], into `[tokens, heads * width]` of the sequence.
    fn merge(&self, by_head: &Tensor, flat: &mut [f32]) -> Result<()> {
        let by_head = Floats::of(by_head)?;
        let by_head = by_head.slice()?;
        self.for_each_head(|token, to, from| {
            if let (Some(source), Some(target)) = (by_head.get(from), flat.get_mut(to)) {
                match self.rotation {
                    Some((rotation, direction)) => rotation.turn(token, direction, source, target),
                    None => target.copy_from_slice(source),
                }
            }
        });
        Ok(())
    }
}

impl Heads {
    fn queries<'a>(self, at: (usize, usize), rotation: Option<(&'a Rotation, Direction)>) -> Place<'a> {
        let (start, n_tokens) = at;
        let Self { n_shared, group, width } = self;
        Place { start, first: 0, n_tokens, n_shared, group, width, rotation }
    }

    fn keys<'a>(self, at: (usize, usize), rotation: Option<(&'a Rotation, Direction)>) -> Place<'a> {
        Place { group: 1, ..self.queries(at, rotation) }
    }

    pub(crate) fn scale(self) -> f32 {
        1.0 / (self.width as f32).sqrt()
    }

    /// Attention over each sequence of the batch.
    ///
    /// `queries` is `[tokens, heads * width]`, `keys` and `values` are `[tokens, n_shared * width]`, none of them
    /// rotated; the output is like `queries`.
    pub(crate) fn forward(
        self,
        batch: &Batch,
        rotation: &Rotation,
        queries: &Tensor,
        keys: &Tensor,
        values: &Tensor,
    ) -> Result<(Tensor, Vec<SequenceTape>)> {
        let (query_values, key_values, value_values) =
            (Floats::of(queries)?, Floats::of(keys)?, Floats::of(values)?);
        let (query_values, key_values, value_values) =
            (query_values.slice()?, key_values.slice()?, value_values.slice()?);
        let mut output = vec![0.0; query_values.len()];
        let sizes = batch.lengths().iter().map(|length| length * self.n_shared * self.group * self.width);
        let mut sequences: Vec<_> = batch.ranges().zip(pieces(&mut output, sizes)).collect();
        let tapes = sequences.par_iter_mut().map(|(at, output)| {
            let turned = Some((rotation, Direction::Forward));
            let tape = SequenceTape {
                queries: self.queries(*at, turned).split(query_values)?,
                keys: self.keys(*at, turned).split(key_values)?,
                values: self.keys(*at, None).split(value_values)?,
                log_sums: vec![0.0; self.n_shared * self.group * at.1],
            };
            self.attend(at.1, tape, output)
        });
        let tapes = tapes.collect::<Result<_>>()?;
        Ok((tensor(output, queries.dims())?, tapes))
    }

    fn attend(self, n_tokens: usize, mut tape: SequenceTape, output: &mut [f32]) -> Result<SequenceTape> {
        let n_rows = n_tokens * self.group;
        for first in (0..n_tokens).step_by(N_BLOCK_TOKENS) {
            let n_seen = (first + N_BLOCK_TOKENS).min(n_tokens);
            let queries = self.block(&tape.queries, first, n_seen)?;
            let scores = queries.matmul(&tape.keys.narrow(1, 0, n_seen)?.t()?)?;
            let n_block_rows = (n_seen - first) * self.group;
            let log_sums = &mut tape.log_sums;
            edit(&scores, |scores| {
                for (row, scores) in scores.chunks_exact_mut(n_seen).enumerate() {
                    let (shared, row) = (row / n_block_rows, row % n_block_rows);
                    let log_sum = masked_softmax(scores, first + row / self.group + 1, self.scale());
                    if let Some(kept) = log_sums.get_mut(shared * n_rows + first * self.group + row) {
                        *kept = log_sum;
                    }
                }
            })?;
            let attended = scores.matmul(&tape.values.narrow(1, 0, n_seen)?)?;
            let place = Place { first, ..self.queries((0, n_seen - first), None) };
            place.merge(&attended, output)?;
        }
        Ok(tape)
    }

    /// Rows of a block of queries; contiguous for each shared head.
    fn block(self, queries: &Tensor, first: usize, end: usize) -> Result<Tensor> {
        Ok(queries.narrow(1, first * self.group, (end - first) * self.group)?)
    }

    /// Gradients by queries, keys and values, in the layout of [`Heads::forward`]'s arguments.
    pub(crate) fn backward(
        self,
        batch: &Batch,
        rotation: &Rotation,
        tapes: &[SequenceTape],
        gradient: &Tensor,
    ) -> Result<[Tensor; 3]> {
        let gradient_values = Floats::of(gradient)?;
        let gradient_values = gradient_values.slice()?;
        let n_tokens = batch.tokens().len();
        let key_width = self.n_shared * self.width;
        let mut by_queries = vec![0.0; gradient_values.len()];
        let mut by_keys = vec![0.0; n_tokens * key_width];
        let mut by_values = vec![0.0; n_tokens * key_width];
        let sizes = |width: usize| batch.lengths().iter().map(move |length| length * width);
        let by_query = pieces(&mut by_queries, sizes(key_width * self.group));
        let by_key = pieces(&mut by_keys, sizes(key_width));
        let by_value = pieces(&mut by_values, sizes(key_width));
        let outputs = by_query.zip(by_key).zip(by_value);
        let mut sequences: Vec<_> = batch.ranges().zip(tapes).zip(outputs).collect();
        sequences.par_iter_mut().try_for_each(|((at, tape), ((by_query, by_key), by_value))| {
            let outer = self.queries(*at, None).split(gradient_values)?;
            let [queries, keys, values] = self.sequence_backward(at.1, tape, &outer)?;
            let turned = Some((rotation, Direction::Back));
            self.queries(*at, turned).merge(&queries, by_query)?;
            self.keys(*at, turned).merge(&keys, by_key)?;
            self.keys(*at, None).merge(&values, by_value)
        })?;
        Ok([
            tensor(by_queries, gradient.dims())?,
            tensor(by_keys, &[n_tokens, key_width])?,
            tensor(by_values, &[n_tokens, key_width])?,
        ])
    }

    fn sequence_backward(self, n_tokens: usize, tape: &SequenceTape, outer: &Tensor) -> Result<[Tensor; 3]> {
        let n_rows = n_tokens * self.group;
        let by_keys = zeros(tape.keys.dims())?;
        let by_values = zeros(tape.values.dims())?;
        let mut by_queries = Vec::new();
        for first in (0..n_tokens).step_by(N_BLOCK_TOKENS) {
            let n_seen = (first + N_BLOCK_TOKENS).min(n_tokens);
            let queries = self.block(&tape.queries, first, n_seen)?;
            let outer = self.block(outer, first, n_seen)?;
            let keys = tape.keys.narrow(1, 0, n_seen)?;
            let values = tape.values.narrow(1, 0, n_seen)?;
            let probabilities = queries.matmul(&keys.t()?)?;
            let n_block_rows = (n_seen - first) * self.group;
            let log_sum_of = |row: usize| {
                let (shared, row) = (row / n_block_rows, row % n_block_rows);
                tape.log_sums.get(shared * n_rows + first * self.group + row).copied().unwrap_or(0.0)
            };
            edit(&probabilities, |scores| {
                for (row, scores) in scores.chunks_exact_mut(n_seen).enumerate() {
                    let n_valid = first + row % n_block_rows / self.group + 1;
                    let (valid, masked) = scores.split_at_mut(n_valid.min(n_seen));
                    masked.fill(0.0);
                    recompute_probabilities(valid, self.scale(), log_sum_of(row));
                }
            })?;
            let by_scores = outer.matmul(&values.t()?)?;
            {
                let probabilities = Floats::of(&probabilities)?;
                let probabilities = probabilities.slice()?;
                edit(&by_scores, |by_scores| {
                    let rows = probabilities.chunks_exact(n_seen).zip(by_scores.chunks_exact_mut(n_seen));
                    for (row, by_scores) in rows {
                        softmax_backward(row, by_scores, self.scale());
                    }
                })?;
            }
            by_queries.push(by_scores.matmul(&keys)?);
            self.add_prefix(&by_keys, &by_scores.t()?.matmul(&queries)?)?;
            self.add_prefix(&by_values, &probabilities.t()?.matmul(&outer)?)?;
        }
        let by_queries = match by_queries.as_slice() {
            [] => zeros(tape.queries.dims())?,
            [one] => one.clone(),
            several => Tensor::cat(several, 1)?,
        };
        Ok([by_queries, by_keys, by_values])
    }

    /// Adds `[n_shared, seen, width]` to the first tokens of `[n_shared, tokens, width]`.
    fn add_prefix(self, target: &Tensor, source: &Tensor) -> Result<()> {
        if target.dims() == source.dims() {
            return add_in_place(target, source);
        }
        let (n_target, n_source) = (target.dim(1)? * self.width, source.dim(1)? * self.width);
        let source = Floats::of(source)?;
        let source = source.slice()?;
        edit(target, |target| {
            let targets = target.chunks_exact_mut(n_target.max(1));
            for (target, source) in targets.zip(source.chunks_exact(n_source.max(1))) {
                math::add_scaled(target, 1.0, source);
            }
        })
    }
}

math::vectorized! {
    /// Probabilities of a row of scores, in place, from the kept logarithm of the sum.
    fn recompute_probabilities<'a>(row: &'a mut [f32], scale: f32, log_sum: f32) -> () {
        for value in row {
            *value = math::exp(*value * scale - log_sum);
        }
    }

    /// From the gradient by probabilities to the one by scores before the scale, in place.
    fn softmax_backward<'a>(probabilities: &'a [f32], gradient: &'a mut [f32], scale: f32) -> () {
        let mean = math::dot(probabilities, gradient);
        for (gradient, probability) in gradient.iter_mut().zip(probabilities) {
            *gradient = probability * (*gradient - mean) * scale;
        }
    }
}
