//! One layer of a decoder: attention and feed-forward, each behind an RMS norm and added to the residual stream.

use candle_core::Tensor;

use super::attention::{Heads, SequenceTape};
use super::batch::{Batch, Rotation};
use super::ops::{rms_norm, rms_norm_backward, swiglu, swiglu_backward};
use super::params::{Adapters, Gradients, Linear, ParamId, Parameters};
use super::tensor::add_in_place;
use crate::error::TrainError;

type Result<T> = std::result::Result<T, TrainError>;

/// The parameters of a layer.
#[derive(Debug, Clone)]
pub(crate) struct Layer {
    pub(crate) heads: Heads,
    pub(crate) eps: f64,
    pub(crate) input_norm: ParamId,
    pub(crate) query: Linear,
    pub(crate) key: Linear,
    pub(crate) value: Linear,
    pub(crate) output: Linear,
    /// Norms of each head's queries and keys (Qwen3).
    pub(crate) head_norms: Option<[ParamId; 2]>,
    pub(crate) inner_norm: ParamId,
    pub(crate) gate: Linear,
    pub(crate) up: Linear,
    pub(crate) down: Linear,
}

/// What the backward pass of a layer needs of its forward pass.
#[derive(Debug)]
pub(crate) struct LayerTape {
    input: Tensor,
    /// Queries and keys before the norms of the heads; only where the layer has such norms.
    unnormed: Option<[Tensor; 2]>,
    sequences: Vec<SequenceTape>,
    attended: Tensor,
    middle: Tensor,
    gate: Tensor,
    up: Tensor,
}

impl LayerTape {
    pub(crate) fn sequences(&self) -> &[SequenceTape] {
        &self.sequences
    }
}

/// What all layers of a pass share.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pass<'a> {
    pub(crate) params: &'a Parameters,
    pub(crate) batch: &'a Batch,
    pub(crate) rotation: &'a Rotation,
    pub(crate) adapters: Adapters,
}

impl Layer {
    /// The linear layers with the names that published checkpoints give them.
    pub(crate) fn linears_mut(&mut self) -> [(&'static str, &mut Linear); 7] {
        [
            ("self_attn.q_proj", &mut self.query),
            ("self_attn.k_proj", &mut self.key),
            ("self_attn.v_proj", &mut self.value),
            ("self_attn.o_proj", &mut self.output),
            ("mlp.gate_proj", &mut self.gate),
            ("mlp.up_proj", &mut self.up),
            ("mlp.down_proj", &mut self.down),
        ]
    }

    /// The residual stream behind the layer, `[tokens, hidden]`.
    pub(crate) fn forward(&self, pass: Pass<'_>, input: &Tensor) -> Result<(Tensor, LayerTape)> {
        let Pass { params, batch, rotation, adapters } = pass;
        let normed = rms_norm(input, &params.get(self.input_norm)?, self.eps)?;
        let mut query = self.query.forward(params, &normed, adapters)?;
        let mut key = self.key.forward(params, &normed, adapters)?;
        let value = self.value.forward(params, &normed, adapters)?;
        let mut unnormed = None;
        if let Some([query_norm, key_norm]) = self.head_norms {
            let normed_query = self.norm_heads(&query, &params.get(query_norm)?)?;
            let normed_key = self.norm_heads(&key, &params.get(key_norm)?)?;
            unnormed = Some([query, key]);
            (query, key) = (normed_query, normed_key);
        }
        let (attended, sequences) = self.heads.forward(batch, rotation, &query, &key, &value)?;
        let middle = self.output.forward(params, &attended, adapters)?;
        add_in_place(&middle, input)?;
        let normed = rms_norm(&middle, &params.get(self.inner_norm)?, self.eps)?;
        let gate = self.gate.forward(params, &normed, adapters)?;
        let up = self.up.forward(params, &normed, adapters)?;
        let output = self.down.forward(params, &swiglu(&gate, &up)?, adapters)?;
        add_in_place(&output, &middle)?;
        let input = input.clone();
        Ok((output, LayerTape { input, unnormed, sequences, attended, middle, gate, up }))
    }

    /// The gradient by the layer's input, from the one by its output. Adapters take part.
    pub(crate) fn backward(
        &self,
        pass: Pass<'_>,
        tape: &LayerTape,
        gradient: &Tensor,
        gradients: &mut Gradients,
    ) -> Result<Tensor> {
        let params = pass.params;
        let by_middle = self.feed_forward_backward(params, tape, gradient, gradients)?;
        let by_attended = self.output.backward(params, &tape.attended, &by_middle, gradients)?;
        let [mut by_query, mut by_key, by_value] =
            self.heads.backward(pass.batch, pass.rotation, &tape.sequences, &by_attended)?;
        if let (Some(ids), Some(unnormed)) = (self.head_norms, &tape.unnormed) {
            let [query, key] = unnormed;
            let [query_norm, key_norm] = ids;
            by_query = self.norm_heads_backward(params, query_norm, query, &by_query, gradients)?;
            by_key = self.norm_heads_backward(params, key_norm, key, &by_key, gradients)?;
        }
        let weight = &params.get(self.input_norm)?;
        let normed = rms_norm(&tape.input, weight, self.eps)?;
        let by_normed = self.query.backward(params, &normed, &by_query, gradients)?;
        add_in_place(&by_normed, &self.key.backward(params, &normed, &by_key, gradients)?)?;
        add_in_place(&by_normed, &self.value.backward(params, &normed, &by_value, gradients)?)?;
        let (by_input, by_weight) =
            rms_norm_backward(&tape.input, weight, self.eps, &by_normed, Some(&by_middle))?;
        if params.is_trainable(self.input_norm) {
            gradients.add(self.input_norm, by_weight)?;
        }
        Ok(by_input)
    }

    /// The gradient by the residual stream between attention and feed-forward.
    fn feed_forward_backward(
        &self,
        params: &Parameters,
        tape: &LayerTape,
        gradient: &Tensor,
        gradients: &mut Gradients,
    ) -> Result<Tensor> {
        let activated = swiglu(&tape.gate, &tape.up)?;
        let by_activated = self.down.backward(params, &activated, gradient, gradients)?;
        drop(activated);
        let (by_gate, by_up) = swiglu_backward(&tape.gate, &tape.up, &by_activated)?;
        let weight = &params.get(self.inner_norm)?;
        let normed = rms_norm(&tape.middle, weight, self.eps)?;
        let by_normed = self.gate.backward(params, &normed, &by_gate, gradients)?;
        add_in_place(&by_normed, &self.up.backward(params, &normed, &by_up, gradients)?)?;
        let (by_middle, by_weight) =
            rms_norm_backward(&tape.middle, weight, self.eps, &by_normed, Some(gradient))?;
        if params.is_trainable(self.inner_norm) {
            gradients.add(self.inner_norm, by_weight)?;
        }
        Ok(by_middle)
    }

    /// RMS norm of each head on its own: the same function over rows as wide as a head.
    fn norm_heads(&self, heads: &Tensor, weight: &Tensor) -> Result<Tensor> {
        rms_norm(heads, weight, self.eps)
    }

    fn norm_heads_backward(
        &self,
        params: &Parameters,
        id: ParamId,
        input: &Tensor,
        gradient: &Tensor,
        gradients: &mut Gradients,
    ) -> Result<Tensor> {
        let (by_input, by_weight) = rms_norm_backward(input, &params.get(id)?, self.eps, gradient, None)?;
        if params.is_trainable(id) {
            gradients.add(id, by_weight)?;
        }
        Ok(by_input)
    }
}
