//! Functions of slices in the inner loops, written so that the compiler vectorizes them.
//!
//! The exponential is our own: the one of the C library is a call for each number, and differs between systems, which
//! would change the bytes of a trained model.

/// Functions whose bodies are compiled for several widths of registers; a call takes the widest that the processor has.
///
/// What they call must be marked as always inlined. Neither the order of sums nor their rounding depends on the width.
macro_rules! vectorized {
    ($($(#[$meta:meta])* $visibility:vis fn $name:ident<$life:lifetime>($($argument:ident: $type:ty),*) -> $output:ty $body:block)*) => {$(
        $(#[$meta])*
        $visibility fn $name<$life>($($argument: $type),*) -> $output {
            struct Arguments<$life> {
                $($argument: $type),*
            }
            impl<$life> pulp::WithSimd for Arguments<$life> {
                type Output = $output;

                #[inline(always)]
                fn with_simd<S: pulp::Simd>(self, _: S) -> $output {
                    let Self { $($argument),* } = self;
                    $body
                }
            }
            pulp::Arch::new().dispatch(Arguments { $($argument),* })
        }
    )*};
}
pub(crate) use vectorized;

/// Independent partial results in a reduction: enough to fill vector registers.
const N_LANES: usize = 8;

/// The exponential of `x`, with a relative error below 2e-7; arguments are limited to ±87.
///
/// Range reduction and polynomial are those of Cephes' `expf` (S. Moshier).
#[inline(always)]
pub(crate) fn exp(x: f32) -> f32 {
    /// Adding it rounds to an integer, which then lies in the low bits.
    const ROUND: f32 = 12_582_912.0;
    const LN_2_HIGH: f32 = 0.693_359_4;
    const LN_2_LOW: f32 = -2.121_944_4e-4;
    let x = if x > 87.0 { 87.0 } else { x };
    let x = if x < -87.0 { -87.0 } else { x };
    let shifted = x * std::f32::consts::LOG2_E + ROUND;
    let n = shifted - ROUND;
    let r = x - n * LN_2_HIGH - n * LN_2_LOW;
    let mut polynomial = 1.987_569_2e-4;
    polynomial = polynomial * r + 1.398_2e-3;
    polynomial = polynomial * r + 8.333_452e-3;
    polynomial = polynomial * r + 4.166_579_6e-2;
    polynomial = polynomial * r + 1.666_666_5e-1;
    polynomial = polynomial * r + 0.5;
    let value = polynomial * r * r + r + 1.0;
    let power = shifted.to_bits().wrapping_sub(ROUND.to_bits()).wrapping_add(127) << 23;
    value * f32::from_bits(power)
}

/// The logistic function.
#[inline(always)]
pub(crate) fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + exp(-x))
}

/// The sum of `f` over pairs of values, in independent lanes.
#[inline(always)]
pub(crate) fn sum2(a: &[f32], b: &[f32], f: impl Fn(f32, f32) -> f32) -> f32 {
    let mut lanes = [0.0_f32; N_LANES];
    let (a_chunks, b_chunks) = (a.chunks_exact(N_LANES), b.chunks_exact(N_LANES));
    let rest = a_chunks.remainder().iter().zip(b_chunks.remainder()).map(|(a, b)| f(*a, *b)).sum::<f32>();
    for (a, b) in a_chunks.zip(b_chunks) {
        for ((lane, a), b) in lanes.iter_mut().zip(a).zip(b) {
            *lane += f(*a, *b);
        }
    }
    lanes.iter().sum::<f32>() + rest
}

/// The sum of `f` over values, in independent lanes.
#[inline(always)]
pub(crate) fn sum(a: &[f32], f: impl Fn(f32) -> f32) -> f32 {
    sum2(a, a, |a, _| f(a))
}

/// The scalar product.
#[inline(always)]
pub(crate) fn dot(a: &[f32], b: &[f32]) -> f32 {
    sum2(a, b, |a, b| a * b)
}

/// The largest value; minus infinity for none. NaN is passed over.
#[inline(always)]
pub(crate) fn max(values: &[f32]) -> f32 {
    let mut lanes = [f32::NEG_INFINITY; N_LANES];
    let larger = |a: f32, b: f32| if b > a { b } else { a };
    let chunks = values.chunks_exact(N_LANES);
    let rest = chunks.remainder().iter().copied().fold(f32::NEG_INFINITY, larger);
    for chunk in chunks {
        for (lane, value) in lanes.iter_mut().zip(chunk) {
            *lane = larger(*lane, *value);
        }
    }
    lanes.iter().copied().fold(rest, larger)
}

vectorized! {
    /// Over `x = (value - largest) * factor`: the sum of `exp(x)` and that of `x exp(x)`.
    pub(crate) fn exponential_sums<'a>(values: &'a [f32], largest: f32, factor: f32) -> (f32, f32) {
        let (mut sums, mut weighted) = ([0.0_f32; N_LANES], [0.0_f32; N_LANES]);
        let chunks = values.chunks_exact(N_LANES);
        let rest = chunks.remainder();
        for chunk in chunks.chain(std::iter::once(rest)) {
            for ((sum, weighted), value) in sums.iter_mut().zip(weighted.iter_mut()).zip(chunk) {
                let exponent = (value - largest) * factor;
                let power = exp(exponent);
                *sum += power;
                *weighted += power * exponent;
            }
        }
        (sums.iter().sum(), weighted.iter().sum())
    }

    /// Softmax of `scale * values`, in place; returns the logarithm of the sum of exponentials.
    pub(crate) fn softmax<'a>(values: &'a mut [f32], scale: f32) -> f32 {
        let largest = max(values) * scale;
        for value in values.iter_mut() {
            *value = exp(*value * scale - largest);
        }
        let sum = sum(values, |value| value);
        let inverse = 1.0 / sum;
        for value in values.iter_mut() {
            *value *= inverse;
        }
        largest + sum.ln()
    }

    /// The scalar products of a vector with the rows of a matrix that is as wide.
    pub(crate) fn products<'a>(vector: &'a [f32], matrix: &'a [f32], products: &'a mut [f32]) -> () {
        for (product, row) in products.iter_mut().zip(matrix.chunks_exact(vector.len().max(1))) {
            *product = dot(vector, row);
        }
    }

    /// Adds the rows of a matrix, each with its weight, to a vector that is as wide.
    pub(crate) fn add_rows<'a>(target: &'a mut [f32], weights: &'a [f32], matrix: &'a [f32]) -> () {
        for (weight, row) in weights.iter().zip(matrix.chunks_exact(target.len().max(1))) {
            add_scaled(target, *weight, row);
        }
    }
}

/// `target += factor * source`.
#[inline(always)]
pub(crate) fn add_scaled(target: &mut [f32], factor: f32, source: &[f32]) {
    for (target, source) in target.iter_mut().zip(source) {
        *target += factor * source;
    }
}

#[cfg(test)]
mod tests {
    use super::{exp, max, sum};

    #[test]
    fn the_exponential_is_exact_to_rounding() {
        for step in -8_600..=8_600 {
            let x = step as f32 / 100.0;
            let exact = f64::from(x).exp();
            let error = (f64::from(exp(x)) / exact - 1.0).abs();
            assert!(error < 2e-7, "exp({x}) is off by {error}");
        }
        assert!(exp(-1e30) > 0.0 && exp(-1e30) < 1e-37);
        assert!(exp(1e30).is_finite());
    }

    #[test]
    fn reductions_reach_the_values_behind_the_last_full_lane() {
        let values: Vec<f32> = (0..19).map(|value| value as f32).collect();
        assert_eq!(max(&values), 18.0);
        assert_eq!(sum(&values, |value| value), 171.0);
        assert_eq!(max(&[]), f32::NEG_INFINITY);
    }
}
