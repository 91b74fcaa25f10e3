//! AdamW with parameter groups and clipping, over plain slices.
//!
//! It knows no tensors: a back end hands each parameter with its gradient to [`AdamW::update`] and puts back what it
//! changed. A parameter without a gradient keeps its value and its moments.

use indexmap::IndexMap;

use crate::TrainError;
use crate::seam::{AdamSettings, Decayed};

impl AdamSettings {
    /// Checks that a step by these settings moves finite weights to finite ones.
    ///
    /// # Errors
    /// [`TrainError::Request`] with the name of the setting and its range.
    pub fn check(&self) -> Result<(), TrainError> {
        let decay = self.learning_rate * self.weight_decay;
        let faults = [
            ("learning_rate", (0.0..=10.0).contains(&self.learning_rate), "not from 0 to 10"),
            ("beta1", (0.0..1.0).contains(&self.beta1), "not at least 0 and below 1"),
            ("beta2", (0.0..1.0).contains(&self.beta2), "not at least 0 and below 1"),
            ("epsilon", self.epsilon as f32 > 0.0 && self.epsilon <= 1.0, "not above 1e-45 and at most 1"),
            ("weight_decay", (0.0..=1.0).contains(&decay), "times the learning rate not from 0 to 1"),
            ("max_grad_norm", self.max_grad_norm.is_none_or(|norm| norm >= 0.0), "not at least 0"),
        ];
        match faults.into_iter().find(|(_, is_sound, _)| !is_sound) {
            Some((field, _, fault)) => Err(TrainError::request(field, fault)),
            None => Ok(()),
        }
    }
}

/// First and second moment of one parameter's gradient, row-major like the parameter.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Moments {
    /// Running mean of the gradient.
    pub first: Vec<f32>,
    /// Running mean of the squared gradient.
    pub second: Vec<f32>,
}

/// The state of AdamW: the number of steps taken and the moments of each parameter by name.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct AdamW {
    /// Steps taken.
    pub n_steps: u64,
    /// Moments of the parameters that have had a gradient, in the order in which they first had one.
    pub moments: IndexMap<String, Moments>,
}

/// The factors of one step, computed once for all parameters.
#[derive(Debug, Clone, Copy)]
pub struct StepFactors {
    clip: f32,
    first: Blend,
    second: Blend,
    /// Learning rate over the bias correction of the first moment.
    step_size: f32,
    /// Root of the bias correction of the second moment.
    root_correction: f32,
    epsilon: f32,
    keep: f32,
    decayed: Decayed,
}

/// How a running mean takes a new value in.
#[derive(Debug, Clone, Copy)]
struct Blend {
    /// The weight of what was there.
    kept: f32,
    /// The weight of the new value. It is rounded from the exact one: `1.0 - kept` has the rounding error of `kept`, which
    /// is many times as large beside it.
    new: f32,
}

impl Blend {
    fn of(beta: f64) -> Self {
        Self { kept: beta as f32, new: (1.0 - beta) as f32 }
    }

    /// `kept * mean + new * value`, computed from the smaller weight, so that the weights used add up to 1.
    fn take(self, mean: f32, value: f32) -> f32 {
        if self.new < 0.5 { mean + self.new * (value - mean) } else { value - self.kept * (value - mean) }
    }
}

/// The factor that scales gradients of this norm down to `max_norm`, as `torch.nn.utils.clip_grad_norm_` computes it.
pub(crate) fn clip_factor(grad_norm: f64, max_norm: Option<f64>) -> f64 {
    max_norm.map_or(1.0, |max_norm| (max_norm / (grad_norm + 1e-6)).min(1.0))
}

/// The square of the norm of a gradient, added up in f64.
pub fn squared_norm(values: &[f32]) -> f64 {
    const N_LANES: usize = 8;
    let mut lanes = [0.0_f64; N_LANES];
    let chunks = values.chunks_exact(N_LANES);
    let rest: f64 = chunks.remainder().iter().map(|value| f64::from(*value).powi(2)).sum();
    for chunk in chunks {
        for (lane, value) in lanes.iter_mut().zip(chunk) {
            *lane += f64::from(*value) * f64::from(*value);
        }
    }
    lanes.iter().sum::<f64>() + rest
}

impl AdamW {
    /// Counts a step and returns its factors for [`AdamW::update`].
    pub fn begin_step(&mut self, settings: &AdamSettings, grad_norm: f64) -> StepFactors {
        self.n_steps += 1;
        let n_steps = i32::try_from(self.n_steps).unwrap_or(i32::MAX);
        let correction1 = 1.0 - settings.beta1.powi(n_steps);
        let correction2 = 1.0 - settings.beta2.powi(n_steps);
        StepFactors {
            clip: clip_factor(grad_norm, settings.max_grad_norm) as f32,
            first: Blend::of(settings.beta1),
            second: Blend::of(settings.beta2),
            step_size: (settings.learning_rate / correction1) as f32,
            root_correction: correction2.sqrt() as f32,
            epsilon: settings.epsilon as f32,
            keep: (1.0 - settings.learning_rate * settings.weight_decay) as f32,
            decayed: settings.decayed,
        }
    }

    /// Moves one parameter in place by its gradient.
    ///
    /// `rank` is the number of dimensions of the parameter: norms and biases have one and decay only with
    /// [`Decayed::All`]. `parameter` and `gradient` have the same length.
    pub fn update(
        &mut self,
        factors: &StepFactors,
        name: &str,
        rank: usize,
        parameter: &mut [f32],
        gradient: &[f32],
    ) {
        let moments = match self.moments.get_mut(name) {
            Some(moments) => moments,
            None => self.moments.entry(name.to_owned()).or_default(),
        };
        moments.first.resize(parameter.len(), 0.0);
        moments.second.resize(parameter.len(), 0.0);
        let keep = match factors.decayed {
            Decayed::All => factors.keep,
            Decayed::Matrices => {
                if rank > 1 {
                    factors.keep
                } else {
                    1.0
                }
            }
        };
        let StepFactors { clip, step_size, root_correction, epsilon, .. } = *factors;
        let values = parameter.iter_mut().zip(gradient);
        let state = moments.first.iter_mut().zip(moments.second.iter_mut());
        for ((value, gradient), (first, second)) in values.zip(state) {
            let gradient = gradient * clip;
            *first = factors.first.take(*first, gradient);
            *second = factors.second.take(*second, gradient * gradient);
            let denominator = second.sqrt() / root_correction + epsilon;
            *value = *value * keep - step_size * *first / denominator;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Steps of one parameter from 0, whose gradient is always 1: each is one learning rate down, whatever the betas.
    #[track_caller]
    fn check([beta1, beta2]: [f64; 2], n_steps: u32) {
        let settings = AdamSettings {
            learning_rate: 1.0,
            beta1,
            beta2,
            epsilon: 0.0,
            weight_decay: 0.0,
            max_grad_norm: None,
            ..AdamSettings::default()
        };
        let mut adam = AdamW::default();
        for step in 1..=n_steps {
            let factors = adam.begin_step(&settings, 1.0);
            let mut value = [0.0_f32];
            adam.update(&factors, "w", 1, &mut value, &[1.0]);
            let error = (f64::from(value[0]) + 1.0).abs();
            // Roundings of the moments add up over the steps, and are a few units in the last place.
            assert!(error < 2e-7 + 2e-8 * f64::from(step), "beta2 {beta2}, step {step}: off by {error:e}");
        }
    }

    #[test]
    fn settings_that_make_weights_infinite_are_refused_by_name() {
        let sound = AdamSettings::default;
        for (field, settings) in [
            ("learning_rate", AdamSettings { learning_rate: 1e38, ..sound() }),
            ("learning_rate", AdamSettings { learning_rate: -1e-4, ..sound() }),
            ("learning_rate", AdamSettings { learning_rate: f64::NAN, ..sound() }),
            ("beta1", AdamSettings { beta1: 1.0, ..sound() }),
            ("beta2", AdamSettings { beta2: -0.1, ..sound() }),
            ("epsilon", AdamSettings { epsilon: 0.0, ..sound() }),
            ("epsilon", AdamSettings { epsilon: 1e-60, ..sound() }),
            ("weight_decay", AdamSettings { weight_decay: 1e30, ..sound() }),
            ("max_grad_norm", AdamSettings { max_grad_norm: Some(-1.0), ..sound() }),
        ] {
            match settings.check() {
                Err(TrainError::Request { field: found, .. }) => assert_eq!(found, field),
                other => panic!("{field}: {other:?}"),
            }
        }
        for settings in [sound(), AdamSettings { learning_rate: 0.0, max_grad_norm: None, ..sound() }] {
            settings.check().unwrap();
        }
    }

    #[test]
    fn a_step_of_a_constant_gradient_is_the_learning_rate() {
        for beta2 in [0.0, 0.3, 0.5, 0.9, 0.95, 0.98, 0.99, 0.999, 0.9995, 0.9999, 0.99999] {
            check([0.9, beta2], 10);
        }
        for beta1 in [0.0, 0.4, 0.5, 0.8, 0.95, 0.999] {
            check([beta1, 0.999], 10);
        }
    }
}
