//! The elementwise layers of a decoder, forward and backward: RMS norm, SwiGLU, embedding, bias.
//!
//! Matrices are `[tokens, width]`, row-major. Each backward function recomputes what is cheap to recompute, so that
//! only the inputs of a layer are kept.

use candle_core::Tensor;
use rayon::prelude::*;

use super::math;
use super::tensor::{Floats, edit, tensor};
use crate::error::TrainError;
use crate::parallel::{min_rows, rows, rows_mut};

type Result<T> = std::result::Result<T, TrainError>;

/// One over the root of the mean square of a row.
#[inline(always)]
fn inverse_root(row: &[f32], eps: f32) -> f32 {
    1.0 / (math::dot(row, row) / row.len().max(1) as f32 + eps).sqrt()
}

math::vectorized! {
    fn norm_row<'a>(row: &'a [f32], weight: &'a [f32], eps: f32, output: &'a mut [f32]) -> () {
        let scale = inverse_root(row, eps);
        for ((output, value), weight) in output.iter_mut().zip(row).zip(weight) {
            *output = value * scale * weight;
        }
    }

    /// `scaled` is a buffer, so that a thread allocates one for all of its rows.
    fn norm_row_backward<'a>(
        inputs: [&'a [f32]; 3],
        scale: f32,
        scaled: &'a mut [f32],
        target: &'a mut [f32]
    ) -> () {
        let [row, gradient, weights] = inputs;
        for ((scaled, weight), gradient) in scaled.iter_mut().zip(weights).zip(gradient) {
            *scaled = weight * gradient;
        }
        let pull = math::dot(scaled, row) * scale * scale * scale / row.len() as f32;
        for ((target, scaled), value) in target.iter_mut().zip(&*scaled).zip(row) {
            *target += scaled * scale - value * pull;
        }
    }

    fn swiglu_row<'a>(gates: &'a [f32], ups: &'a [f32], output: &'a mut [f32]) -> () {
        for ((output, gate), up) in output.iter_mut().zip(gates).zip(ups) {
            *output = gate * math::sigmoid(*gate) * up;
        }
    }

    fn swiglu_row_backward<'a>(inputs: [&'a [f32]; 3], by_gates: &'a mut [f32], by_ups: &'a mut [f32]) -> () {
        let [gates, ups, gradients] = inputs;
        let targets = by_gates.iter_mut().zip(by_ups);
        for ((by_gate, by_up), ((gate, up), gradient)) in targets.zip(gates.iter().zip(ups).zip(gradients)) {
            let sigmoid = math::sigmoid(*gate);
            *by_up = gradient * gate * sigmoid;
            *by_gate = gradient * up * sigmoid * (1.0 + gate * (1.0 - sigmoid));
        }
    }
}

/// RMS norm over the last dimension (Zhang and Sennrich, 2019): `x / sqrt(mean(x^2) + eps) * weight`.
pub(crate) fn rms_norm(input: &Tensor, weight: &Tensor, eps: f64) -> Result<Tensor> {
    let (input_values, weight) = (Floats::of(input)?, Floats::of(weight)?);
    let (values, weight) = (input_values.slice()?, weight.slice()?);
    let mut output = vec![0.0; values.len()];
    rows_mut(&mut output, weight.len()).zip(rows(values, weight.len())).for_each(|(output, row)| {
        norm_row(row, weight, eps as f32, output);
    });
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
    let inverse_roots: Vec<f32> = rows(values, width).map(|row| inverse_root(row, eps as f32)).collect();
    let inputs = rows(values, width).zip(rows(gradient, width)).zip(&inverse_roots);
    rows_mut(&mut by_input, width).zip(inputs).for_each_init(
        || vec![0.0_f32; width],
        |scaled, (target, ((row, gradient), scale))| {
            norm_row_backward([row, gradient, weights], *scale, scaled, target);
        },
    );
    // Each thread adds up the rows of some columns, in the order of the rows.
    let n_columns = width.div_ceil(rayon::current_num_threads()).max(min_rows(inverse_roots.len()));
    by_weight.par_chunks_mut(n_columns.max(1)).enumerate().for_each(|(chunk_idx, sums)| {
        let first = chunk_idx * n_columns;
        let rows = values.chunks_exact(width).zip(gradient.chunks_exact(width)).zip(&inverse_roots);
        for ((row, gradient), scale) in rows {
            let columns = row.iter().zip(gradient).skip(first);
            for (sum, (value, gradient)) in sums.iter_mut().zip(columns) {
                *sum += value * scale * gradient;
            }
        }
    });
    Ok((tensor(by_input, input.dims())?, tensor(by_weight, weight.dims())?))
}

/// SwiGLU (Shazeer, 2020): `gate * sigmoid(gate) * up`.
pub(crate) fn swiglu(gate: &Tensor, up: &Tensor) -> Result<Tensor> {
    let (gates, ups) = (Floats::of(gate)?, Floats::of(up)?);
    let (gates, ups) = (gates.slice()?, ups.slice()?);
    let width = gate.dims().last().copied().unwrap_or(1);
    let mut output = vec![0.0; gates.len()];
    let inputs = rows(gates, width).zip(rows(ups, width));
    rows_mut(&mut output, width).zip(inputs).for_each(|(output, (gates, ups))| {
        swiglu_row(gates, ups, output);
    });
    tensor(output, gate.dims())
}

/// The output of [`swiglu`] again, with its gradients by gate and by up.
pub(crate) fn swiglu_backward(gate: &Tensor, up: &Tensor, gradient: &Tensor) -> Result<(Tensor, Tensor)> {
    let (gates, ups, gradients) = (Floats::of(gate)?, Floats::of(up)?, Floats::of(gradient)?);
    let (gates, ups, gradients) = (gates.slice()?, ups.slice()?, gradients.slice()?);
    let mut by_gate = vec![0.0_f32; gates.len()];
    let mut by_up = vec![0.0_f32; gates.len()];
    let width = gate.dims().last().copied().unwrap_or(1);
    let targets = rows_mut(&mut by_gate, width).zip(rows_mut(&mut by_up, width));
    let inputs = rows(gates, width).zip(rows(ups, width)).zip(rows(gradients, width));
    targets.zip(inputs).for_each(|((by_gate, by_up), ((gates, ups), gradients))| {
        swiglu_row_backward([gates, ups, gradients], by_gate, by_up);
    });
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
