//! Weights for model servers: an adapter merged into its base, or fully trained weights, as one file in F16.
//!
//! One tensor at a time is in memory, so that a model of any size is merged on a machine that cannot train it.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::Path;

use half::f16;

use crate::error::{TensorFault, TrainError};
use crate::lora::{self, LoraConfig};
use crate::weights::{HostTensor, TensorFile, WeightFiles, header};

/// The bytes of a value.
const F16_BYTES: usize = 2;

/// A low-rank adapter as peft writes it: its settings and its matrices.
#[derive(Debug)]
pub struct Adapter {
    config: LoraConfig,
    file: TensorFile,
}

impl Adapter {
    /// Opens the directory of an adapter.
    ///
    /// # Errors
    /// As [`LoraConfig::open`] and [`TensorFile::open`].
    pub fn open(directory: &Path) -> Result<Self, TrainError> {
        let config = LoraConfig::open(directory)?;
        Ok(Self { config, file: TensorFile::open(&directory.join(lora::WEIGHTS_FILE))? })
    }

    /// The names of the two matrices by the tensor of the base that they change.
    fn matrices(&self) -> Result<BTreeMap<String, [String; 2]>, TrainError> {
        let mut matrices: BTreeMap<String, [String; 2]> = BTreeMap::new();
        for name in self.file.names() {
            let unknown = || TrainError::Tensor {
                path: self.file.path().to_owned(),
                tensor: name.to_owned(),
                fault: TensorFault::Unexpected,
            };
            let of_base = name.strip_prefix("base_model.model.").ok_or_else(unknown)?;
            let (layer, part) = [".lora_A.weight", ".lora_B.weight"]
                .iter()
                .enumerate()
                .find_map(|(part, end)| Some((of_base.strip_suffix(end)?, part)))
                .ok_or_else(unknown)?;
            let pair = matrices.entry(format!("{layer}.weight")).or_default();
            if let Some(place) = pair.get_mut(part) {
                name.clone_into(place);
            }
        }
        Ok(matrices)
    }

    /// Adds the product of both matrices to a weight of shape `[out, in]`: `W + scale * B A`.
    fn add_to(&self, weight: &mut HostTensor, name: &str, [a, b]: &[String; 2]) -> Result<(), TrainError> {
        let [n_out, n_in] = weight.shape[..] else {
            return Err(
                self.fault(name, TensorFault::Shape { expected: vec![0; 2], found: weight.shape.clone() })
            );
        };
        let rank = self.config.rank();
        let down = self.matrix(a, [rank, n_in])?;
        let up = self.matrix(b, [n_out, rank])?;
        let scale = self.config.scale() as f32;
        let mut product = vec![0.0; n_in];
        for (row, coefficients) in weight.values.chunks_exact_mut(n_in).zip(up.values.chunks_exact(rank)) {
            // The product first, then the scale, then the sum, as peft does.
            product.fill(0.0);
            for (coefficient, basis) in coefficients.iter().zip(down.values.chunks_exact(n_in)) {
                for (sum, direction) in product.iter_mut().zip(basis) {
                    *sum += coefficient * direction;
                }
            }
            for (value, sum) in row.iter_mut().zip(&product) {
                *value += scale * sum;
            }
        }
        Ok(())
    }

    fn matrix(&self, name: &str, shape: [usize; 2]) -> Result<HostTensor, TrainError> {
        let tensor = self.file.read(name)?;
        if tensor.shape != shape {
            let fault = TensorFault::Shape { expected: shape.to_vec(), found: tensor.shape };
            return Err(self.fault(name, fault));
        }
        Ok(tensor)
    }

    fn fault(&self, name: &str, fault: TensorFault) -> TrainError {
        TrainError::Tensor { path: self.file.path().to_owned(), tensor: name.to_owned(), fault }
    }
}

/// Writes the tensors of a base as F16 into one safetensors file; those that an adapter changes are merged with it.
///
/// The names are those of the base, sorted; values are rounded to the nearest. Returns how many tensors were merged.
///
/// # Errors
/// [`TrainError::Tensor`] for a tensor that cannot be read, an adapter of another base, and a value beyond F16
/// (65504); [`TrainError::Io`] if nothing can be written to `out`, whose path is for errors.
pub fn write_f16(
    base: &WeightFiles,
    adapter: Option<&Adapter>,
    out: &mut dyn Write,
    path: &Path,
) -> Result<usize, TrainError> {
    let matrices = adapter.map(Adapter::matrices).transpose()?.unwrap_or_default();
    let names: BTreeSet<&str> = base.names().collect();
    if let (Some(adapter), Some((_, [name, _]))) =
        (adapter, matrices.iter().find(|(name, _)| !names.contains(name.as_str())))
    {
        return Err(adapter.fault(name, TensorFault::Unexpected));
    }
    let failed = |source| TrainError::io(path, source);
    let shapes = names.iter().map(|name| (*name, base.shape_of(name)));
    out.write_all(&header(shapes, "F16", F16_BYTES)).map_err(failed)?;
    for name in &names {
        let shape = base.shape_of(name);
        let mut tensor = base.read(name, shape)?;
        if let Some((adapter, pair)) = adapter.zip(matrices.get(*name)) {
            adapter.add_to(&mut tensor, name, pair)?;
        }
        let mut bytes = Vec::with_capacity(tensor.values.len() * F16_BYTES);
        for (index, value) in tensor.values.iter().enumerate() {
            let value = f16::from_f32(*value);
            if !value.is_finite() {
                let path = base.path_of(name).to_owned();
                let fault = TensorFault::BeyondF16 { index };
                return Err(TrainError::Tensor { path, tensor: (*name).to_owned(), fault });
            }
            bytes.extend_from_slice(&value.to_le_bytes());
        }
        out.write_all(&bytes).map_err(failed)?;
    }
    Ok(matrices.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lora::LINEAR_LAYERS;
    use crate::weights::{TensorView, encode};

    const LAYER: &str = "model.layers.0.self_attn.q_proj";

    struct Files(tempfile::TempDir);

    impl Files {
        /// A base with two tensors, and an adapter of rank 2 for the layer of this name.
        fn new(weight: &[f32], adapted: &str) -> Self {
            let files = Self(tempfile::tempdir().unwrap());
            let tensor = |name, shape, values| TensorView { name, shape, values };
            let name = format!("{LAYER}.weight");
            let base = [tensor(&name, &[2, 3], weight), tensor("model.norm.weight", &[3], &[1.0, 2.0, 3.0])];
            std::fs::write(files.0.path().join("model.safetensors"), encode(&base)).unwrap();
            let [a, b] = ["A", "B"].map(|part| format!("base_model.model.{adapted}.lora_{part}.weight"));
            let adapter = [
                tensor(&a, &[2, 3], &[1.0, 0.0, 2.0, 0.0, 1.0, 1.0]),
                tensor(&b, &[2, 2], &[1.0, 2.0, -1.0, 0.5]),
            ];
            std::fs::write(files.0.path().join(lora::WEIGHTS_FILE), encode(&adapter)).unwrap();
            let config = LoraConfig::new(2, 4.0, &LINEAR_LAYERS, "base").unwrap();
            std::fs::write(files.0.path().join(lora::CONFIG_FILE), config.to_json()).unwrap();
            files
        }

        fn merged(&self, has_adapter: bool) -> Result<(usize, TensorFile), TrainError> {
            let base = WeightFiles::open(self.0.path())?;
            let adapter = has_adapter.then(|| Adapter::open(self.0.path())).transpose()?;
            let (mut bytes, path) = (Vec::new(), Path::new("out"));
            let n_merged = write_f16(&base, adapter.as_ref(), &mut bytes, path)?;
            Ok((n_merged, TensorFile::from_bytes(path, &bytes)?))
        }
    }

    #[test]
    fn the_product_of_the_matrices_is_added_and_the_rest_stays() {
        let files = Files::new(&[1.0, 1.0, 1.0, 0.0, 0.0, 0.1], LAYER);
        let (n_merged, file) = files.merged(true).unwrap();
        assert_eq!((n_merged, file.names().count()), (1, 2));
        let weight = file.read(&format!("{LAYER}.weight")).unwrap();
        // Twice the product (alpha / rank is 2): rows (1, 2, 4) and (-1, 0.5, -1.5).
        let expected = [3.0, 5.0, 9.0, -2.0, 1.0, f16::from_f32(0.1 - 3.0).to_f32()];
        assert_eq!((&weight.shape[..], &weight.values[..]), (&[2, 3][..], &expected[..]));
        assert_eq!(file.read("model.norm.weight").unwrap().values, [1.0, 2.0, 3.0]);
        let (n_merged, file) = files.merged(false).unwrap();
        assert_eq!((n_merged, file.read(&format!("{LAYER}.weight")).unwrap().values[0]), (0, 1.0));
    }

    #[test]
    fn an_adapter_of_another_base_and_values_beyond_the_format_are_refused_by_name() {
        let other = Files::new(&[0.0; 6], "model.layers.9.self_attn.q_proj").merged(true).unwrap_err();
        assert!(
            matches!(&other, TrainError::Tensor { tensor, fault: TensorFault::Unexpected, .. } if tensor.contains("layers.9")),
            "{other}"
        );
        let large = Files::new(&[0.0, 0.0, 0.0, 0.0, 7e4, 0.0], LAYER).merged(true).unwrap_err();
        assert!(
            matches!(large, TrainError::Tensor { fault: TensorFault::BeyondF16 { index: 4 }, .. }),
            "{large}"
        );
    }
}
