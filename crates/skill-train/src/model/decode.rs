//! Token by token, with the keys and values of what came before.
//!
//! A [`Cache`] is a list of segments that can be shared and a tail of its own: prompts that begin alike share the
//! segments of their beginning, and samples of one prompt share the whole prompt.

use std::sync::Arc;

use candle_core::Tensor;
use rayon::prelude::*;

use super::attention::{Heads, SequenceTape};
use super::batch::{Batch, Direction, Rotation, masked_softmax};
use super::layer::{Layer, Pass};
use super::math;
use super::ops::{gather, rms_norm, swiglu};
use super::params::{Adapters, Parameters};
use super::tensor::{Floats, add_in_place, tensor, values};
use super::{Decoder, Keep};
use crate::error::TrainError;
use crate::parallel::pieces;

type Result<T> = std::result::Result<T, TrainError>;

/// Keys and values of some tokens in one layer: for each shared head `[tokens, width]`.
#[derive(Debug, Clone, Default)]
struct LayerSegment {
    keys: Vec<Vec<f32>>,
    values: Vec<Vec<f32>>,
}

/// Keys and values of some tokens in all layers.
#[derive(Debug, Clone, Default)]
struct Segment {
    layers: Vec<LayerSegment>,
    n_tokens: usize,
}

/// What a sequence has computed so far: rotated keys, and values, of all its tokens.
#[derive(Debug, Clone, Default)]
pub struct Cache {
    shared: Vec<Arc<Segment>>,
    tail: Segment,
}

impl Cache {
    /// Tokens that the cache holds.
    pub fn n_tokens(&self) -> usize {
        self.shared.iter().map(|segment| segment.n_tokens).sum::<usize>() + self.tail.n_tokens
    }

    /// A cache that continues from here; what there is so far is shared by both.
    pub fn fork(&mut self) -> Self {
        if self.tail.n_tokens > 0 {
            self.shared.push(Arc::new(std::mem::take(&mut self.tail)));
        }
        self.clone()
    }

    fn segments(&self) -> impl Iterator<Item = &Segment> {
        self.shared.iter().map(Arc::as_ref).chain(std::iter::once(&self.tail))
    }

    fn tail_layer(&mut self, index: usize, n_shared: usize) -> Option<&mut LayerSegment> {
        let layers = &mut self.tail.layers;
        if layers.len() <= index {
            layers.resize_with(index + 1, LayerSegment::default);
        }
        let layer = layers.get_mut(index)?;
        layer.keys.resize_with(n_shared, Vec::new);
        layer.values.resize_with(n_shared, Vec::new);
        Some(layer)
    }
}

/// A sequence that is continued by some tokens.
#[derive(Debug)]
pub struct Continued<'a> {
    /// What came before; the new tokens are added.
    pub cache: &'a mut Cache,
    /// The new tokens, at least one.
    pub tokens: &'a [u32],
}

impl Decoder {
    /// Continues sequences and returns for each the logits behind its last token, `[rows, vocabulary]` row-major.
    ///
    /// # Errors
    /// [`TrainError::Request`] for a row without tokens, an unknown token, or a sequence that becomes longer than the
    /// model's context. The caches are of no use then.
    pub fn extend(&self, rows: &mut [Continued<'_>], adapters: Adapters) -> Result<Vec<f32>> {
        let mut batch = Batch::default();
        for (index, row) in rows.iter().enumerate() {
            let (first, limit) = (row.cache.n_tokens(), self.config.max_positions);
            if row.tokens.is_empty() || first + row.tokens.len() > limit {
                let fault = format!(
                    "{first} tokens are followed by {}, where {limit} are possible",
                    row.tokens.len()
                );
                return Err(TrainError::request(format!("rows[{index}].tokens"), fault));
            }
            let first = u32::try_from(first).unwrap_or(u32::MAX);
            batch.push(row.tokens, first..);
        }
        batch.check(self.config.vocab_size)?;
        let is_fresh = rows.iter().all(|row| row.cache.n_tokens() == 0);
        let rotation = Rotation::of(&batch, self.config.head_dim, self.config.rope_theta);
        let pass = Pass { params: &self.params, batch: &batch, rotation: &rotation, adapters };
        let mut hidden = self.params.rows(self.embedding, batch.tokens())?;
        for (index, layer) in self.layers.iter().enumerate() {
            hidden = if is_fresh {
                let (output, tape) = layer.forward(pass, &hidden)?;
                for (row, sequence) in rows.iter_mut().zip(tape.sequences()) {
                    remember(row.cache, index, layer.heads, sequence)?;
                }
                output
            } else {
                layer.extend(pass, index, rows, &hidden)?
            };
        }
        for row in rows.iter_mut() {
            row.cache.tail.n_tokens += row.tokens.len();
        }
        let last = batch.ranges().map(|(start, length)| start + length - 1).collect::<Vec<_>>();
        let hidden = gather(&hidden, last.into_iter())?;
        let hidden = rms_norm(&hidden, &self.params.get(self.norm)?, self.config.rms_norm_eps)?;
        values(&self.params.product(self.head, &hidden)?)
    }

    /// The logits behind the last token of a whole sequence, without a cache; for comparison.
    ///
    /// # Errors
    /// As [`Decoder::forward`].
    pub fn next_logits(&self, tokens: &[u32], adapters: Adapters) -> Result<Vec<f32>> {
        let forward = self.forward(Batch::new([tokens]), adapters, Keep::Nothing)?;
        self.logits(&forward, &[tokens.len().saturating_sub(1)])
    }
}

/// Adds keys and values of a pass over a fresh sequence to its cache.
fn remember(cache: &mut Cache, layer: usize, heads: Heads, sequence: &SequenceTape) -> Result<()> {
    let (keys, values) = sequence.keys_and_values();
    let (keys, values) = (Floats::of(keys)?, Floats::of(values)?);
    let (keys, values) = (keys.slice()?, values.slice()?);
    let size = (keys.len() / heads.n_shared.max(1)).max(1);
    if let Some(tail) = cache.tail_layer(layer, heads.n_shared) {
        for (head, source) in tail.keys.iter_mut().zip(keys.chunks_exact(size)) {
            head.extend_from_slice(source);
        }
        for (head, source) in tail.values.iter_mut().zip(values.chunks_exact(size)) {
            head.extend_from_slice(source);
        }
    }
    Ok(())
}

impl Layer {
    fn extend(
        &self,
        pass: Pass<'_>,
        index: usize,
        rows: &mut [Continued<'_>],
        input: &Tensor,
    ) -> Result<Tensor> {
        let Pass { params, adapters, .. } = pass;
        let normed = rms_norm(input, &params.get(self.input_norm)?, self.eps)?;
        let query = self.normed_heads(params, 0, self.query.forward(params, &normed, adapters)?)?;
        let key = self.normed_heads(params, 1, self.key.forward(params, &normed, adapters)?)?;
        let value = self.value.forward(params, &normed, adapters)?;
        let attended = self.heads.attend_cached(pass, index, rows, [&query, &key, &value])?;
        let middle = self.output.forward(params, &attended, adapters)?;
        add_in_place(&middle, input)?;
        let normed = rms_norm(&middle, &params.get(self.inner_norm)?, self.eps)?;
        let gate = self.gate.forward(params, &normed, adapters)?;
        let up = self.up.forward(params, &normed, adapters)?;
        let output = self.down.forward(params, &swiglu(&gate, &up)?, adapters)?;
        add_in_place(&output, &middle)?;
        Ok(output)
    }

    fn normed_heads(&self, params: &Parameters, which: usize, heads: Tensor) -> Result<Tensor> {
        match self.head_norms.as_ref().and_then(|norms| norms.get(which)) {
            Some(norm) => rms_norm(&heads, &params.get(*norm)?, self.eps),
            None => Ok(heads),
        }
    }
}

impl Heads {
    /// Attention of new tokens over the caches of their sequences, to which their keys and values are added.
    fn attend_cached(
        self,
        pass: Pass<'_>,
        layer: usize,
        rows: &mut [Continued<'_>],
        [query, key, value]: [&Tensor; 3],
    ) -> Result<Tensor> {
        let (queries, keys, values) = (Floats::of(query)?, Floats::of(key)?, Floats::of(value)?);
        let (queries, keys, values) = (queries.slice()?, keys.slice()?, values.slice()?);
        let key_width = (self.n_shared * self.width).max(1);
        let mut output = vec![0.0; queries.len()];
        let sizes = pass.batch.lengths().iter().map(|length| length * key_width * self.group);
        let outputs = pieces(&mut output, sizes);
        let starts = pass.batch.ranges().map(|(start, _)| start);
        let mut rows: Vec<_> = rows.iter_mut().zip(starts).zip(outputs).collect();
        rows.par_iter_mut().for_each(|((row, start), output)| {
            self.attend_row(pass.rotation, layer, row.cache, *start, [queries, keys, values], output);
        });
        tensor(output, query.dims())
    }

    /// The same for one sequence, whose new tokens are those of the batch from `start` on.
    fn attend_row(
        self,
        rotation: &Rotation,
        layer: usize,
        cache: &mut Cache,
        start: usize,
        of_batch: [&[f32]; 3],
        output: &mut [f32],
    ) {
        let key_width = (self.n_shared * self.width).max(1);
        let query_width = (key_width * self.group).max(1);
        let [queries, keys, values] = of_batch;
        let of_row = [(queries, query_width), (keys, key_width), (values, key_width)];
        let of_row = of_row.map(|(all, width)| all.get(start * width..).unwrap_or_default());
        let [queries, keys, values] = of_row;
        let mut turned = vec![0.0; self.width];
        let mut scores = Vec::new();
        let shared = keys.chunks_exact(key_width).zip(values.chunks_exact(key_width));
        let tokens = queries.chunks_exact(query_width).zip(shared);
        let tokens = tokens.zip(output.chunks_exact_mut(query_width));
        for (token, ((query, (key, value)), output)) in (start..).zip(tokens) {
            if let Some(tail) = cache.tail_layer(layer, self.n_shared) {
                let heads = key.chunks_exact(self.width).zip(value.chunks_exact(self.width));
                let cached = tail.keys.iter_mut().zip(tail.values.iter_mut());
                for ((key, value), (cached_keys, cached_values)) in heads.zip(cached) {
                    rotation.turn(token, Direction::Forward, key, &mut turned);
                    cached_keys.extend_from_slice(&turned);
                    cached_values.extend_from_slice(value);
                }
            }
            let heads = query.chunks_exact(self.width).zip(output.chunks_exact_mut(self.width));
            for (head, (query, output)) in heads.enumerate() {
                rotation.turn(token, Direction::Forward, query, &mut turned);
                self.attend_one(cache, layer, head / self.group, &turned, &mut scores, output);
            }
        }
    }

    /// Attention of one head of one token over all that its cache holds.
    fn attend_one(
        self,
        cache: &Cache,
        layer: usize,
        shared: usize,
        query: &[f32],
        scores: &mut Vec<f32>,
        output: &mut [f32],
    ) {
        let segments = || cache.segments().filter_map(|segment| segment.layers.get(layer));
        let keys = || segments().filter_map(|layer| layer.keys.get(shared));
        let values = segments().filter_map(|layer| layer.values.get(shared));
        let n_each = || keys().map(|keys| keys.len() / self.width.max(1));
        let n_keys = n_each().sum();
        scores.resize(n_keys, 0.0);
        for (keys, scores) in keys().zip(pieces(scores, n_each())) {
            math::products(query, keys, scores);
        }
        masked_softmax(scores, n_keys, self.scale());
        for (values, weights) in values.zip(pieces(scores, n_each())) {
            math::add_rows(output, weights, values);
        }
    }
}
