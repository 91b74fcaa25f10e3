//! The parameters of a model, their gradients, and linear layers with or without an adapter.

use candle_core::Tensor;

use super::frozen::FrozenMatrix;
use super::ops::{add_bias, gather, sum_rows};
use super::quantized::QuantizedMatrix;
use super::tensor::{Floats, add_in_place, edit, tensor};
use crate::error::TrainError;
use crate::optim::squared_norm;
use crate::weights::HostTensor;

type Result<T> = std::result::Result<T, TrainError>;

/// Index of a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ParamId(usize);

/// One parameter of a model.
#[derive(Debug, Clone)]
pub(crate) struct Parameter {
    pub(crate) name: String,
    value: Value,
    pub(crate) is_trainable: bool,
}

/// How the values of a parameter are kept.
#[derive(Debug, Clone)]
pub(crate) enum Value {
    /// In f32; such a parameter can be trained.
    Floats(Tensor),
    /// In fewer bytes, with the same values.
    Frozen(FrozenMatrix),
    /// In blocks that are multiplied as they are, with an input of 8 bits.
    Quantized(QuantizedMatrix),
}

impl Parameter {
    /// The values in f32; computed for a frozen matrix, an error for a quantized one.
    pub(crate) fn floats(&self) -> Result<Tensor> {
        match &self.value {
            Value::Floats(values) => Ok(values.clone()),
            Value::Frozen(matrix) => matrix.floats(),
            Value::Quantized(_) => Err(is_quantized()),
        }
    }

    /// Whether these are the sizes of its dimensions.
    pub(crate) fn has_shape(&self, shape: &[usize]) -> Result<bool> {
        let matrix = match &self.value {
            Value::Floats(values) => return Ok(values.dims() == shape),
            Value::Frozen(matrix) => matrix.shape()?,
            Value::Quantized(matrix) => matrix.shape()?,
        };
        Ok(shape == [matrix.0, matrix.1])
    }

    /// Replaces the values; they are kept in f32 from now on.
    pub(crate) fn set(&mut self, value: HostTensor) -> Result<()> {
        self.value = Value::Floats(tensor(value.values, &value.shape)?);
        Ok(())
    }
}

/// All parameters of a model, in a fixed order.
#[derive(Debug, Clone, Default)]
pub(crate) struct Parameters {
    all: Vec<Parameter>,
}

/// What needs the values of weights is refused for quantized ones.
pub(crate) fn is_quantized() -> TrainError {
    TrainError::model("weights", "they are quantized: they answer, and are not trained or written")
}

fn unknown() -> TrainError {
    TrainError::model("parameters", "a parameter of the layers does not exist")
}

impl Parameters {
    /// Adds a parameter; it is trainable if it is kept in f32.
    pub(crate) fn push(&mut self, name: String, value: Value) -> ParamId {
        let is_trainable = matches!(value, Value::Floats(_));
        self.all.push(Parameter { name, value, is_trainable });
        ParamId(self.all.len() - 1)
    }

    fn find(&self, id: ParamId) -> Result<&Parameter> {
        self.all.get(id.0).ok_or_else(unknown)
    }

    /// The values of a parameter that is not quantized; those of a frozen matrix are converted with each call.
    pub(crate) fn get(&self, id: ParamId) -> Result<Tensor> {
        self.find(id)?.floats()
    }

    /// `[out, in]` of a matrix.
    pub(crate) fn shape(&self, id: ParamId) -> Result<(usize, usize)> {
        match &self.find(id)?.value {
            Value::Floats(values) => Ok(values.dims2()?),
            Value::Frozen(matrix) => matrix.shape(),
            Value::Quantized(matrix) => matrix.shape(),
        }
    }

    /// `[tokens, in]` times the transposed matrix `[out, in]`.
    pub(crate) fn product(&self, id: ParamId, input: &Tensor) -> Result<Tensor> {
        let parameter = self.find(id)?;
        match &parameter.value {
            Value::Quantized(matrix) => matrix.product(input),
            Value::Floats(_) | Value::Frozen(_) => Ok(input.matmul(&parameter.floats()?.t()?)?),
        }
    }

    /// Some rows of a matrix, `[rows, width]`.
    pub(crate) fn rows(&self, id: ParamId, rows: &[u32]) -> Result<Tensor> {
        match &self.find(id)?.value {
            Value::Floats(values) => gather(values, rows.iter().map(|row| *row as usize)),
            Value::Frozen(matrix) => matrix.rows(rows),
            Value::Quantized(matrix) => matrix.rows(rows),
        }
    }

    /// Bytes of all values as they are kept.
    pub(crate) fn n_bytes(&self) -> u64 {
        let bytes = |parameter: &Parameter| match &parameter.value {
            Value::Floats(values) => (values.elem_count() * size_of::<f32>()) as u64,
            Value::Frozen(matrix) => matrix.n_bytes(),
            Value::Quantized(matrix) => matrix.n_bytes(),
        };
        self.all.iter().map(bytes).sum()
    }

    pub(crate) fn has_quantized(&self) -> bool {
        self.all.iter().any(|parameter| matches!(parameter.value, Value::Quantized(_)))
    }

    pub(crate) fn is_trainable(&self, id: ParamId) -> bool {
        self.all.get(id.0).is_some_and(|parameter| parameter.is_trainable)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (ParamId, &Parameter)> {
        self.all.iter().enumerate().map(|(index, parameter)| (ParamId(index), parameter))
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (ParamId, &mut Parameter)> {
        self.all.iter_mut().enumerate().map(|(index, parameter)| (ParamId(index), parameter))
    }

    /// Keeps all frozen matrices in f32 from now on.
    pub(crate) fn expand(&mut self) -> Result<()> {
        for parameter in &mut self.all {
            if let Value::Frozen(matrix) = &parameter.value {
                parameter.value = Value::Floats(matrix.floats()?);
            }
        }
        Ok(())
    }

    pub(crate) fn truncate(&mut self, n_parameters: usize) {
        self.all.truncate(n_parameters);
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }
}

/// The gradient of a model, added up over passes.
#[derive(Debug, Default)]
pub struct Gradients {
    all: Vec<Option<Tensor>>,
}

impl Gradients {
    /// Adds to the gradient of a parameter. The tensor must be contiguous and shared with nothing.
    pub(crate) fn add(&mut self, id: ParamId, gradient: Tensor) -> Result<()> {
        if self.all.len() <= id.0 {
            self.all.resize_with(id.0 + 1, || None);
        }
        match self.all.get_mut(id.0) {
            Some(Some(sum)) => add_in_place(sum, &gradient),
            Some(empty) => {
                *empty = Some(gradient);
                Ok(())
            }
            None => Err(unknown()),
        }
    }

    pub(crate) fn get(&self, id: ParamId) -> Option<&Tensor> {
        self.all.get(id.0).and_then(Option::as_ref)
    }

    /// Adds all of another gradient.
    pub(crate) fn merge(&mut self, other: Self) -> Result<()> {
        for (index, gradient) in other.all.into_iter().enumerate() {
            if let Some(gradient) = gradient {
                self.add(ParamId(index), gradient)?;
            }
        }
        Ok(())
    }

    /// The norm over all parameters, added up in f64.
    ///
    /// # Errors
    /// [`TrainError::Compute`] if the tensor library fails.
    pub fn norm(&self) -> Result<f64> {
        let mut sum = 0.0;
        for gradient in self.all.iter().flatten() {
            sum += squared_norm(Floats::of(gradient)?.slice()?);
        }
        Ok(sum.sqrt())
    }
}

/// The low-rank adapter of a linear layer (LoRA, Hu et al., 2021): adds `scale * B A x`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Adapter {
    /// `[r, in]`.
    pub(crate) a: ParamId,
    /// `[out, r]`.
    pub(crate) b: ParamId,
    pub(crate) scale: f64,
}

/// A linear layer `W x + bias`, with `W` of shape `[out, in]`.
#[derive(Debug, Clone)]
pub(crate) struct Linear {
    pub(crate) weight: ParamId,
    pub(crate) bias: Option<ParamId>,
    pub(crate) adapter: Option<Adapter>,
}

/// True parts of a model in a pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Adapters {
    /// Adapters take part, if the model has any.
    On,
    /// The model without its adapter.
    Off,
}

impl Linear {
    /// `[tokens, in]` to `[tokens, out]`.
    pub(crate) fn forward(&self, params: &Parameters, input: &Tensor, adapters: Adapters) -> Result<Tensor> {
        let output = params.product(self.weight, input)?;
        if let Some(bias) = self.bias {
            add_bias(&output, &params.get(bias)?)?;
        }
        if let (Some(adapter), Adapters::On) = (self.adapter, adapters) {
            let low = input.matmul(&params.get(adapter.a)?.t()?)?;
            let high = low.matmul(&params.get(adapter.b)?.t()?)?;
            scale(&high, adapter.scale)?;
            add_in_place(&output, &high)?;
        }
        Ok(output)
    }

    /// The gradient by the input; those by the parameters that are trainable are added to `gradients`.
    pub(crate) fn backward(
        &self,
        params: &Parameters,
        input: &Tensor,
        gradient: &Tensor,
        gradients: &mut Gradients,
    ) -> Result<Tensor> {
        let by_input = gradient.matmul(&params.get(self.weight)?)?;
        if params.is_trainable(self.weight) {
            gradients.add(self.weight, gradient.t()?.matmul(input)?)?;
        }
        if let Some(bias) = self.bias.filter(|bias| params.is_trainable(*bias)) {
            gradients.add(bias, sum_rows(gradient)?)?;
        }
        if let Some(adapter) = self.adapter {
            let by_low = gradient.matmul(&params.get(adapter.b)?)?;
            scale(&by_low, adapter.scale)?;
            if params.is_trainable(adapter.b) {
                let low = input.matmul(&params.get(adapter.a)?.t()?)?;
                scale(&low, adapter.scale)?;
                gradients.add(adapter.b, gradient.t()?.matmul(&low)?)?;
            }
            if params.is_trainable(adapter.a) {
                gradients.add(adapter.a, by_low.t()?.matmul(input)?)?;
            }
            add_in_place(&by_input, &by_low.matmul(&params.get(adapter.a)?)?)?;
        }
        Ok(by_input)
    }
}

fn scale(matrix: &Tensor, factor: f64) -> Result<()> {
    let factor = factor as f32;
    edit(matrix, |values| values.iter_mut().for_each(|value| *value *= factor))
}
