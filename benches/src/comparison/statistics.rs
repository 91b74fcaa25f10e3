//! Means with intervals, and quantiles.

/// The normal quantile of an interval of 95 %.
const Z: f64 = 1.96;

/// A mean with half the width of its interval of 95 %.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Mean {
    pub(super) mean: f64,
    pub(super) half: f64,
}

impl Mean {
    pub(super) fn of(numbers: &[f64]) -> Self {
        let n = numbers.len().max(1) as f64;
        let mean = numbers.iter().sum::<f64>() / n;
        let squares: f64 = numbers.iter().map(|number| (number - mean).powi(2)).sum();
        Self { mean, half: Z * (squares / (n - 1.0).max(1.0) / n).sqrt() }
    }

    /// In points, with a sign.
    pub(super) fn points(self) -> String {
        format!("{:+.1} ± {:.1}", 100.0 * self.mean, 100.0 * self.half)
    }

    /// In points.
    pub(super) fn score(self) -> String {
        format!("{:.1} ± {:.1}", 100.0 * self.mean, 100.0 * self.half)
    }
}

/// The number below which this share of the sorted numbers lies.
pub(super) fn quantile(sorted: &[f64], share: f64) -> f64 {
    let at = (sorted.len().saturating_sub(1) as f64 * share).round() as usize;
    sorted.get(at).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_is_that_of_a_mean() {
        let Mean { mean, half } = Mean::of(&[0.1, -0.1]);
        assert!(mean.abs() < 1e-12 && (half - 0.196).abs() < 1e-9, "{half}");
        assert_eq!(quantile(&[1.0, 2.0, 3.0], 0.5), 2.0);
    }
}
