//! Matrices that stay quantized in memory: products and rows of them, for models that answer and are not trained.
//!
//! The library's kernels quantize the input to 8 bits as llama.cpp does, so a product differs from that with the
//! dequantized matrix by the rounding of the input. They choose instructions (AVX2, AVX-512 with VNNI, NEON) when the
//! program runs, so one build serves all machines of an architecture.

use std::borrow::Cow;
use std::sync::Arc;

use candle_core::quantized::{GgmlDType, QMatMul, QStorage, QTensor};
use candle_core::{Device, Module as _, Tensor};

use super::device;
use super::tensor::Floats;
use crate::error::TrainError;

type Result<T> = std::result::Result<T, TrainError>;

/// Rows that are dequantized at a time where all values are looked at.
const CHECKED_ROWS: usize = 1024;

/// A quantized matrix `[out, in]`; a clone shares it.
#[derive(Debug, Clone)]
pub(crate) struct QuantizedMatrix {
    /// On the processor.
    values: Arc<QTensor>,
    /// On the device.
    product: QMatMul,
    device: Device,
}

impl QuantizedMatrix {
    /// The matrix of a tensor; `None` for types that the kernels do not multiply with (plain floats) and for widths
    /// that are not whole blocks.
    ///
    /// Of some types the library has no vectorized product. Where `is_factor`, such a matrix becomes one of type
    /// `Q8_0`: exactly for `Q5_0`, whose 5 bits fit into 8, and by rounding to 8 bits for those with an offset.
    pub(crate) fn of(values: QTensor, is_factor: bool) -> Result<Option<Self>> {
        let is_float = matches!(values.dtype(), GgmlDType::F32 | GgmlDType::F16 | GgmlDType::BF16);
        let (_, width) = values.shape().dims2()?;
        if is_float || width % values.dtype().block_size() != 0 {
            return Ok(None);
        }
        let values = match values.dtype() {
            GgmlDType::Q5_0 if is_factor => widened(&values)?,
            dtype if is_factor && kept_type(dtype) == GgmlDType::Q8_0 && dtype != GgmlDType::Q8_0 => {
                QTensor::quantize(&values.dequantize(&Device::Cpu)?, GgmlDType::Q8_0)?
            }
            _ => values,
        };
        let values = Arc::new(values);
        let device = device::of_products()?;
        let factor = if device.is_cpu() || !is_factor {
            Arc::clone(&values)
        } else {
            let storage = QStorage::from_data(values.data()?, &device, values.dtype())?;
            Arc::new(QTensor::new(storage, values.shape().clone())?)
        };
        Ok(Some(Self { values, product: QMatMul::QTensor(factor), device }))
    }

    /// `[out, in]`.
    pub(crate) fn shape(&self) -> Result<(usize, usize)> {
        Ok(self.values.shape().dims2()?)
    }

    /// `[tokens, in]` times the transposed matrix.
    pub(crate) fn product(&self, input: &Tensor) -> Result<Tensor> {
        // Both copies are none where the device is the processor.
        let input = input.to_device(&self.device)?;
        Ok(self.product.forward(&input)?.to_device(&Device::Cpu)?)
    }

    /// Some rows, dequantized.
    pub(crate) fn rows(&self, rows: &[u32]) -> Result<Tensor> {
        let n_rows = self.shape()?.0;
        if rows.iter().any(|row| *row as usize >= n_rows) {
            return Err(TrainError::request("tokens", "an index is out of range"));
        }
        let rows = Tensor::from_vec(rows.to_vec(), rows.len(), &Device::Cpu)?;
        Ok(self.values.embedding(&rows)?)
    }

    /// The index of the first value that is not finite.
    pub(crate) fn first_not_finite(&self) -> Result<Option<usize>> {
        let (n_rows, width) = self.shape()?;
        let rows: Vec<u32> = (0..u32::try_from(n_rows).unwrap_or(u32::MAX)).collect();
        for (chunk_idx, chunk) in rows.chunks(CHECKED_ROWS).enumerate() {
            let values = self.rows(chunk)?;
            let values = Floats::of(&values)?;
            if let Some(index) = values.slice()?.iter().position(|value| !value.is_finite()) {
                return Ok(Some(chunk_idx * CHECKED_ROWS * width + index));
            }
        }
        Ok(None)
    }

    /// Bytes of the blocks.
    pub(crate) fn n_bytes(&self) -> u64 {
        self.values.storage_size_in_bytes() as u64
    }
}

/// The type in which a matrix of this type is kept for products.
pub(crate) fn kept_type(dtype: GgmlDType) -> GgmlDType {
    match dtype {
        GgmlDType::Q4_1 | GgmlDType::Q5_0 | GgmlDType::Q5_1 | GgmlDType::Q8_1 => GgmlDType::Q8_0,
        other => other,
    }
}

/// The same values as `Q8_0`: both types have blocks of 32 values with one scale, and 5 bits fit into 8.
///
/// A block of `Q5_0` is the scale (2 bytes), the fifth bits (4 bytes) and the low four bits, two values a byte, the
/// second half of the block in the high ones; a value is `scale * (bits - 16)`.
fn widened(values: &QTensor) -> Result<QTensor> {
    const NARROW: usize = 22;
    const WIDE: usize = 34;
    let narrow = values.data()?;
    let mut wide = Vec::with_capacity(narrow.len() / NARROW * WIDE);
    for block in narrow.chunks_exact(NARROW) {
        let (scale, rest) = block.split_at(2);
        let (fifth, low) = rest.split_at(4);
        let fifth = fifth.iter().rev().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte));
        let value = |four: u8, at: usize| (four | ((fifth >> at & 1) << 4) as u8).wrapping_sub(16);
        wide.extend_from_slice(scale);
        wide.extend(low.iter().enumerate().map(|(at, byte)| value(byte & 15, at)));
        wide.extend(low.iter().enumerate().map(|(at, byte)| value(byte >> 4, at + 16)));
    }
    let storage = QStorage::from_data(Cow::Owned(wide), &Device::Cpu, GgmlDType::Q8_0)?;
    Ok(QTensor::new(storage, values.shape().clone())?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::tensor::values;

    #[test]
    fn five_bits_become_eight_without_a_change() {
        let floats: Vec<f32> = (0..256).map(|at| ((at * 37 % 101) as f32 - 50.0) / 7.0).collect();
        let floats = Tensor::from_vec(floats, (4, 64), &Device::Cpu).unwrap();
        let narrow = QTensor::quantize(&floats, GgmlDType::Q5_0).unwrap();
        let wide = widened(&narrow).unwrap();
        let read = |tensor: &QTensor| values(&tensor.dequantize(&Device::Cpu).unwrap()).unwrap();
        assert_eq!(wide.dtype(), GgmlDType::Q8_0);
        assert_eq!(read(&wide), read(&narrow));
    }
}
