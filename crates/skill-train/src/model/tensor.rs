//! The little that is needed of the tensor library: products of matrices, and values as slices.
//!
//! Gradients are computed by hand in this crate and never by the library's tape, which loses them silently in fused
//! operations; see the tests by finite differences.

use std::cell::Cell;

use candle_core::{CpuStorage, DType, Device, InplaceOp1, Layout, Storage, StorageRef, Tensor};
use rayon::prelude::*;

use crate::error::TrainError;

type Result<T> = std::result::Result<T, TrainError>;

/// The values of a contiguous f32 tensor on the CPU, locked for reading.
pub(crate) struct Floats<'a> {
    storage: StorageRef<'a>,
    start: usize,
    end: usize,
}

fn unreadable(what: &str) -> TrainError {
    candle_core::Error::Msg(format!("{what} is not a contiguous f32 tensor on the CPU")).into()
}

impl<'a> Floats<'a> {
    pub(crate) fn of(tensor: &'a Tensor) -> Result<Self> {
        let (storage, layout) = tensor.storage_and_layout();
        let (start, end) = layout.contiguous_offsets().ok_or_else(|| unreadable("the argument"))?;
        Ok(Self { storage, start, end })
    }

    pub(crate) fn slice(&self) -> Result<&[f32]> {
        let Storage::Cpu(CpuStorage::F32(values)) = &*self.storage else {
            return Err(unreadable("the argument"));
        };
        values.get(self.start..self.end).ok_or_else(|| unreadable("the argument"))
    }
}

/// A tensor that owns these values.
pub(crate) fn tensor(values: Vec<f32>, shape: &[usize]) -> Result<Tensor> {
    Ok(Tensor::from_vec(values, shape, &Device::Cpu)?)
}

/// A tensor of zeros.
pub(crate) fn zeros(shape: &[usize]) -> Result<Tensor> {
    Ok(Tensor::zeros(shape, DType::F32, &Device::Cpu)?)
}

/// A copy of a tensor's values.
pub(crate) fn values(tensor: &Tensor) -> Result<Vec<f32>> {
    Ok(Floats::of(tensor)?.slice()?.to_vec())
}

struct Edit<F, R> {
    function: Cell<Option<F>>,
    result: Cell<Option<R>>,
}

impl<R, F: FnOnce(&mut [f32]) -> R> InplaceOp1 for Edit<F, R> {
    fn name(&self) -> &'static str {
        "edit"
    }

    fn cpu_fwd(&self, storage: &mut CpuStorage, layout: &Layout) -> candle_core::Result<()> {
        let bad = || candle_core::Error::Msg("the edited tensor is not contiguous f32".to_owned());
        let (start, end) = layout.contiguous_offsets().ok_or_else(bad)?;
        let CpuStorage::F32(values) = storage else { return Err(bad()) };
        let values = values.get_mut(start..end).ok_or_else(bad)?;
        if let Some(function) = self.function.take() {
            self.result.set(Some(function(values)));
        }
        Ok(())
    }
}

/// Changes a tensor's values in place; all tensors that share them see it. No [`Floats`] of it may be alive.
pub(crate) fn edit<R>(tensor: &Tensor, function: impl FnOnce(&mut [f32]) -> R) -> Result<R> {
    let op = Edit { function: Cell::new(Some(function)), result: Cell::new(None) };
    tensor.inplace_op1(&op)?;
    op.result.take().ok_or_else(|| unreadable("the edited tensor"))
}

/// `target += source`, in place.
pub(crate) fn add_in_place(target: &Tensor, source: &Tensor) -> Result<()> {
    /// Numbers that a thread takes at a time.
    const PIECE: usize = 32_768;
    let source = Floats::of(source)?;
    let source = source.slice()?;
    edit(target, |target| {
        let pieces = target.par_chunks_mut(PIECE).zip(source.par_chunks(PIECE));
        pieces.for_each(|(target, source)| {
            for (target, source) in target.iter_mut().zip(source) {
                *target += source;
            }
        });
    })
}
