//! Matrices that are not trained, kept in the bytes of their file where these say the same as f32.
//!
//! A base model under an adapter is read in every pass and never changes. Its matrices are kept as bf16, f16 or
//! quantized blocks, and one at a time is converted for its product, so that results are those of f32 to the last bit.

use std::sync::Arc;

use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{DType, Device, Tensor};

use super::tensor::Floats;
use crate::error::TrainError;

type Result<T> = std::result::Result<T, TrainError>;

/// A matrix in fewer bytes than f32, with the same values; a clone shares it.
#[derive(Debug, Clone)]
pub(crate) enum FrozenMatrix {
    /// In bf16 or f16.
    Half(Tensor),
    /// In blocks, as GGUF files have them.
    Blocks(Arc<QTensor>),
}

impl FrozenMatrix {
    /// A matrix whose values all are numbers of bf16, or all of f16; `None` for any other.
    pub(crate) fn of_floats(matrix: &Tensor) -> Result<Option<Self>> {
        for dtype in [DType::BF16, DType::F16] {
            let half = matrix.to_dtype(dtype)?;
            let back = half.to_dtype(DType::F32)?;
            let (before, after) = (Floats::of(matrix)?, Floats::of(&back)?);
            let is_same = |(before, after): (&f32, &f32)| before.to_bits() == after.to_bits();
            if before.slice()?.iter().zip(after.slice()?).all(is_same) {
                return Ok(Some(Self::Half(half)));
            }
        }
        Ok(None)
    }

    /// The blocks of a GGUF tensor; `None` if it is one of floats.
    pub(crate) fn of_blocks(values: Arc<QTensor>) -> Option<Self> {
        let is_float = matches!(values.dtype(), GgmlDType::F32 | GgmlDType::F16 | GgmlDType::BF16);
        (!is_float).then(|| Self::Blocks(values))
    }

    /// All values in f32.
    pub(crate) fn floats(&self) -> Result<Tensor> {
        Ok(match self {
            Self::Half(values) => values.to_dtype(DType::F32)?,
            Self::Blocks(values) => values.dequantize(&Device::Cpu)?,
        })
    }

    /// Some rows in f32.
    pub(crate) fn rows(&self, rows: &[u32]) -> Result<Tensor> {
        let (n_rows, _) = self.shape()?;
        if rows.iter().any(|row| *row as usize >= n_rows) {
            return Err(TrainError::request("tokens", "an index is out of range"));
        }
        let rows = Tensor::from_vec(rows.to_vec(), rows.len(), &Device::Cpu)?;
        Ok(match self {
            Self::Half(values) => values.index_select(&rows, 0)?.to_dtype(DType::F32)?,
            Self::Blocks(values) => values.embedding(&rows)?,
        })
    }

    /// `[out, in]`.
    pub(crate) fn shape(&self) -> Result<(usize, usize)> {
        Ok(match self {
            Self::Half(values) => values.dims2()?,
            Self::Blocks(values) => values.shape().dims2()?,
        })
    }

    /// Bytes of the values.
    pub(crate) fn n_bytes(&self) -> u64 {
        let bytes = match self {
            Self::Half(values) => values.elem_count() * values.dtype().size_in_bytes(),
            Self::Blocks(values) => values.storage_size_in_bytes(),
        };
        bytes as u64
    }
}
