//! A model's trainable weights and its optimizer's moments as the files of a saved state.

use std::path::Path;

use crate::checkpoint::StateFile;
use crate::error::TrainError;
use crate::model::Decoder;
use crate::optim::{AdamW, Moments};
use crate::seam::SavedState;
use crate::weights::{HostTensor, TensorFile, TensorView, encode};

type Result<T> = std::result::Result<T, TrainError>;

const WEIGHTS: &str = "weights.safetensors";
const OPTIMIZER: &str = "optimizer.safetensors";
const FIRST: &str = "first.";
const SECOND: &str = "second.";

/// The files of a state: the trainable weights (for LoRA those of the adapter) and the moments of AdamW.
pub(crate) fn files(model: &Decoder, optimizer: &AdamW) -> Result<Vec<StateFile>> {
    let weights = model.trainable()?;
    let views: Vec<TensorView<'_>> = weights
        .iter()
        .map(|(name, tensor)| TensorView { name, shape: &tensor.shape, values: &tensor.values })
        .collect();
    let moments: Vec<(String, [usize; 1], &[f32])> = optimizer
        .moments
        .iter()
        .flat_map(|(name, Moments { first, second })| {
            [
                (format!("{FIRST}{name}"), [first.len()], first.as_slice()),
                (format!("{SECOND}{name}"), [second.len()], second.as_slice()),
            ]
        })
        .collect();
    let moment_views: Vec<TensorView<'_>> =
        moments.iter().map(|(name, shape, values)| TensorView { name, shape, values }).collect();
    Ok(vec![
        StateFile { name: WEIGHTS.to_owned(), bytes: encode(&views) },
        StateFile { name: OPTIMIZER.to_owned(), bytes: encode(&moment_views) },
    ])
}

/// Reads the files of a state.
pub(crate) fn read(saved: &SavedState, files: &[StateFile]) -> Result<(Vec<(String, HostTensor)>, AdamW)> {
    let tensors = |name: &str| -> Result<Vec<(String, HostTensor)>> {
        let file = files.iter().find(|file| file.name == name).ok_or_else(|| TrainError::State {
            hash: saved.hash.clone(),
            fault: format!("{name} is missing"),
        })?;
        let file = TensorFile::from_bytes(Path::new(name), &file.bytes)?;
        file.names().map(|name| Ok((name.to_owned(), file.read(name)?))).collect()
    };
    let mut optimizer = AdamW { n_steps: saved.n_steps, ..AdamW::default() };
    for (name, tensor) in tensors(OPTIMIZER)? {
        if let Some(name) = name.strip_prefix(FIRST) {
            optimizer.moments.entry(name.to_owned()).or_default().first = tensor.values;
        } else if let Some(name) = name.strip_prefix(SECOND) {
            optimizer.moments.entry(name.to_owned()).or_default().second = tensor.values;
        }
    }
    Ok((tensors(WEIGHTS)?, optimizer))
}
