//! The elementwise layers of a decoder, forward and backward: RMS norm, SwiGLU, embedding, bias.
//!
//! Matrices are `[tokens, width]`, row-major. Each backward function recomputes what is cheap to recompute, so that
//! only the inputs of a layer are kept.

use candle_core::Tensor;

use super::math;
use super::tensor::{Floats, edit, tensor};
use crate::error::TrainError;

type Result<T> = std::result::Result<T, TrainError>;

/// One over the root of the mean square of a row.
fn inverse_root(row: &[f32], eps: f32) -> f32 {
    1.0 / (math::dot(row, row) / row.len().max(1) as f32 + eps).sqrt()
}

/// RMS norm over the last dimension (Zhang and Sennrich, 2019): `x / sqrt(mean(x^2) + eps) * weight`.
pub(crate) fn rms_norm(input: &Tensor, weight: &Tensor, eps: f64) -> Result<Tensor> {
    let (input_values, weight) = (Floats::of(input)?, Floats::of(weight)?);
    let (values, weight) = (input_values.slice()?, weight.slice()?);
    let mut output = Vec::with_capacity(values.len());
    for row in values.chunks_exact(weight.len().max(1)) {
        let scale = inverse_root(row, eps as f32);
        output.extend(row.iter().zip(weight).map(|(value, weight)| value * scale * weight));
    }
    tensor(output, input.dims())
}

/// Gradients of [`rms_norm`] by input and weight; `residual` is added to the gradient by the input.
pub(crate) fn rms_norm_backward(
    input: &Tensor,
    weight: &Tensor,
    eps: f64,
    gradient: &Tensor,
    residual: Option<&Tensor>,
) -> Result<(Tensor, Tensor)> {
    let (input_values, weight_values, gradient) =
        (Floats::of(input)?, Floats::of(weight)?, Floats::of(gradient)?);
    let (values, weights, gradient) = (input_values.slice()?, weight_values.slice()?, gradient.slice()?);
    let width = weights.len().max(1);
    let mut by_weight = vec![0.0_f32; weights.len()];
    let mut by_input = match residual {
        Some(residual) => super::tensor::values(residual)?,
        None => vec![0.0; values.len()],
    };
    let mut scaled = vec![0.0_f32; width];
    let rows = values.chunks_exact(width).zip(gradient.chunks_exact(width));
    for ((row, gradient), target) in rows.zip(by_input.chunks_exact_mut(width)) {
        let scale = inverse_root(row, eps as f32);
        for ((sum, value), gradient) in by_weight.iter_mut().zip(row).zip(gradient) {
            *sum += value * scale * gradient;
        }
        for ((scaled, weight), gradient) in scaled.iter_mut().zip(weights).zip(gradient) {
            *scaled = weight * gradient;
        }
        let pull = math::dot(&scaled, row) * scale * scale * scale / width as f32;
        for ((target, scaled), value) in target.iter_mut().zip(&scaled).zip(row) {
            *target += scaled * scale - value * pull;
        }
    }
    Ok((tensor(by_input, input.dims())?, tensor(by_weight, weight.dims())?))
}

/// SwiGLU (Shazeer, 2020): `gate * sigmoid(gate) * up`.
pub(crate) fn swiglu(gate: &Tensor, up: &Tensor) -> Result<Tensor> {
    let (gates, ups) = (Floats::of(gate)?, Floats::of(up)?);
    let pairs = gates.slice()?.iter().zip(ups.slice()?);
    tensor(pairs.map(|(gate, up)| gate * math::sigmoid(*gate) * up).collect(), gate.dims())
}

/// The output of [`swiglu`] again, with its gradients by gate and by up.
pub(crate) fn swiglu_backward(gate: &Tensor, up: &Tensor, gradient: &Tensor) -> Result<(Tensor, Tensor)> {
    let (gates, ups, gradients) = (Floats::of(gate)?, Floats::of(up)?, Floats::of(gradient)?);
    let (gates, ups, gradients) = (gates.slice()?, ups.slice()?, gradients.slice()?);
    let mut by_gate = vec![0.0_f32; gates.len()];
    let mut by_up = vec![0.0_f32; gates.len()];
    let targets = by_gate.iter_mut().zip(by_up.iter_mut());
    for (((by_gate, by_up), (gate, up)), gradient) in targets.zip(gates.iter().zip(ups)).zip(gradients) {
        let sigmoid = math::sigmoid(*gate);
        *by_up = gradient * gate * sigmoid;
        *by_gate = gradient * up * sigmoid * (1.0 + gate * (1.0 - sigmoid));
    }
    Ok((tensor(by_gate, gate.dims())?, tensor(by_up, gate.dims())?))
}

/// The rows of a matrix with these indices.
pub(crate) fn gather(matrix: &Tensor, rows: impl ExactSizeIterator<Item = usize>) -> Result<Tensor> {
    let width = matrix.dim(1)?;
    let values = Floats::of(matrix)?;
    let values = values.slice()?;
    let n_rows = rows.len();
    let mut output = Vec::with_capacity(n_rows * width);
    for row in rows {
        let row = values.get(row * width..(row + 1) * width);
        output
            .extend_from_slice(row.ok_or_else(|| TrainError::request("tokens", "an index is out of range"))?);
    }
    tensor(output, &[n_rows, width])
}

/// Adds the rows of `source` to the rows of `target` with these indices, in place.
pub(crate) fn scatter_add(
    target: &Tensor,
    rows: impl ExactSizeIterator<Item = usize>,
    source: &Tensor,
) -> Result<()> {
    let width = target.dim(1)?.max(1);
    let source = Floats::of(source)?;
    let source = source.slice()?;
    edit(target, |target| {
        for (row, source) in rows.zip(source.chunks_exact(width)) {
            if let Some(target) = target.get_mut(row * width..(row + 1) * width) {
                math::add_scaled(target, 1.0, source);
            }
        }
    })
}

/// Adds a bias to each row, in place.
pub(crate) fn add_bias(matrix: &Tensor, bias: &Tensor) -> Result<()> {
    let bias = Floats::of(bias)?;
    let bias = bias.slice()?;
    edit(matrix, |matrix| {
        matrix.chunks_exact_mut(bias.len().max(1)).for_each(|row| math::add_scaled(row, 1.0, bias));
    })
}

/// The sum of the rows of a matrix: the gradient of a bias.
pub(crate) fn sum_rows(matrix: &Tensor) -> Result<Tensor> {
    let width = matrix.dim(1)?;
    let mut sum = vec![0.0_f32; width];
    let values = Floats::of(matrix)?;
    values.slice()?.chunks_exact(width.max(1)).for_each(|row| math::add_scaled(&mut sum, 1.0, row));
    tensor(sum, &[width])
}
