//! Adapters of a decoder: attached to its linear layers, read, written and merged.

use std::path::Path;

use skill_core::random::PyRandom;

use super::params::{Adapter, Value};
use super::tensor::{Floats, add_in_place, tensor, values};
use super::{Decoder, host};
use crate::error::{TensorFault, TrainError};
use crate::lora::{CONFIG_FILE, LoraConfig, WEIGHTS_FILE, tensor_name};
use crate::weights::{HostTensor, TensorView, WeightFiles, encode};

type Result<T> = std::result::Result<T, TrainError>;

impl Decoder {
    /// The configuration of the adapter, if there is one.
    pub fn lora(&self) -> Option<&LoraConfig> {
        self.lora.as_ref()
    }

    /// Attaches a new adapter that changes nothing yet, and freezes the base model.
    ///
    /// As in peft, `A` is uniform in ±1/sqrt(in) and `B` is zero. An adapter that was there before is dropped.
    ///
    /// # Errors
    /// [`TrainError::Compute`] if the tensor library fails.
    pub fn attach_new(&mut self, lora: LoraConfig, seed: u64) -> Result<()> {
        let mut random = PyRandom::new(seed);
        self.attach(lora, |name, shape| {
            let n_values: usize = shape.iter().product();
            let bound = 1.0 / (shape.last().copied().unwrap_or(1) as f64).sqrt();
            let values = if name.ends_with("lora_B.weight") {
                vec![0.0; n_values]
            } else {
                (0..n_values).map(|_| ((2.0 * random.random() - 1.0) * bound) as f32).collect()
            };
            Ok(HostTensor { shape: shape.to_vec(), values })
        })
    }

    /// Attaches the adapter of a directory that peft, or [`Decoder::adapter_files`], has written.
    ///
    /// # Errors
    /// [`TrainError::Model`] for a configuration that is not implemented, [`TrainError::Tensor`] for a matrix that is
    /// missing, superfluous, or of another shape: the adapter of another base model.
    pub fn attach_from(&mut self, directory: &Path) -> Result<()> {
        let lora = LoraConfig::open(directory)?;
        let files = WeightFiles::open_file(&directory.join(WEIGHTS_FILE))?;
        let mut attached = self.clone();
        attached.attach(lora, |name, shape| files.read(name, shape))?;
        let known: Vec<String> = attached.trainable()?.into_iter().map(|(name, _)| name).collect();
        if let Some(name) = files.names().find(|name| !known.iter().any(|known| known == name)) {
            return Err(TrainError::Tensor {
                path: files.path_of(name).to_path_buf(),
                tensor: name.to_owned(),
                fault: TensorFault::Unexpected,
            });
        }
        *self = attached;
        Ok(())
    }

    fn attach(
        &mut self,
        lora: LoraConfig,
        mut weight: impl FnMut(&str, &[usize]) -> Result<HostTensor>,
    ) -> Result<()> {
        self.params.truncate(self.n_base);
        self.params.iter_mut().for_each(|(_, parameter)| parameter.is_trainable = false);
        for (index, layer) in self.layers.iter_mut().enumerate() {
            for (name, linear) in layer.linears_mut() {
                linear.adapter = None;
                if !lora.targets(name) {
                    continue;
                }
                let (out, input) = self.params.shape(linear.weight)?;
                let mut matrix = |part: &str, shape: [usize; 2]| -> Result<_> {
                    let name = tensor_name(index, name, part);
                    let found = weight(&name, &shape)?;
                    Ok(self.params.push(name, Value::Floats(tensor(found.values, &shape)?)))
                };
                let a = matrix("lora_A", [lora.rank(), input])?;
                let b = matrix("lora_B", [out, lora.rank()])?;
                linear.adapter = Some(Adapter { a, b, scale: lora.scale() });
            }
        }
        self.lora = Some(lora);
        Ok(())
    }

    /// The files of the adapter by name, as peft writes them; none without an adapter.
    ///
    /// # Errors
    /// [`TrainError::Compute`] if the tensor library fails.
    pub fn adapter_files(&self) -> Result<Vec<(&'static str, Vec<u8>)>> {
        let Some(lora) = &self.lora else { return Ok(Vec::new()) };
        let tensors = self.trainable()?;
        let views: Vec<TensorView<'_>> = tensors
            .iter()
            .map(|(name, tensor)| TensorView { name, shape: &tensor.shape, values: &tensor.values })
            .collect();
        Ok(vec![(CONFIG_FILE, lora.to_json().into_bytes()), (WEIGHTS_FILE, encode(&views))])
    }

    /// The model without adapter whose weights include it: `W + scale * B A`. All of its parameters are trainable.
    ///
    /// # Errors
    /// [`TrainError::Compute`] if the tensor library fails.
    pub fn merged(&self) -> Result<Self> {
        let mut merged = self.clone();
        for layer in &mut merged.layers {
            for (_, linear) in layer.linears_mut() {
                let Some(adapter) = linear.adapter.take() else { continue };
                let weight = &self.params.get(linear.weight)?;
                let change = self.params.get(adapter.b)?.matmul(&self.params.get(adapter.a)?)?;
                let factor = adapter.scale as f32;
                let change = Floats::of(&change)?.slice()?.iter().map(|value| value * factor).collect();
                let sum = tensor(values(weight)?, weight.dims())?;
                add_in_place(&sum, &tensor(change, weight.dims())?)?;
                if let Some((_, parameter)) = merged.params.iter_mut().find(|(id, _)| *id == linear.weight) {
                    parameter.set(host(&sum)?)?;
                }
            }
        }
        merged.params.truncate(merged.n_base);
        merged.params.expand()?;
        merged.params.iter_mut().for_each(|(_, parameter)| parameter.is_trainable = true);
        merged.lora = None;
        Ok(merged)
    }

    /// The weights of the base model as one safetensors file.
    ///
    /// # Errors
    /// [`TrainError::Compute`] if the tensor library fails.
    pub fn base_file(&self) -> Result<Vec<u8>> {
        let tensors = self
            .params
            .iter()
            .take(self.n_base)
            .map(|(_, parameter)| Ok((parameter.name.as_str(), host(&parameter.floats()?)?)))
            .collect::<Result<Vec<_>>>()?;
        let views: Vec<TensorView<'_>> = tensors
            .iter()
            .map(|(name, tensor)| TensorView { name, shape: &tensor.shape, values: &tensor.values })
            .collect();
        Ok(encode(&views))
    }
}
