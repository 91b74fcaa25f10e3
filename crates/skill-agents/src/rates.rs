//! Rates over queries, each asked several times, with intervals for these queries.
//!
//! A rate is the mean over queries of the share of runs. Its interval is about these queries and other runs of them:
//! the queries are strata, so differences between them do not widen it.

use serde::Serialize;

/// The level of intervals.
pub const LEVEL: f64 = 0.95;

/// Runs of one query.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stratum {
    /// Runs that count.
    pub n: usize,
    /// Those with the outcome.
    pub hits: usize,
}

/// A rate with its interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Rate {
    /// The mean over queries.
    pub rate: f64,
    /// The interval at [`LEVEL`].
    pub low: f64,
    /// Its upper end.
    pub high: f64,
    /// Queries.
    pub queries: usize,
    /// Runs.
    pub runs: usize,
}

/// The rate over strata; `None` where no run counts.
///
/// The interval is the exact one of a share, with the number of runs divided by the part of the variance that is within
/// queries. That part is estimated without bias from the repetitions and drawn towards 1, as if eight more queries of
/// pure noise had been seen, so that agreement in few runs does not pass for certainty. With one run a query it is the
/// exact interval itself.
pub fn rate(strata: &[Stratum]) -> Option<Rate> {
    /// The variance of eight queries of pure noise.
    const PRIOR: f64 = 2.0;
    let strata: Vec<Stratum> = strata.iter().copied().filter(|stratum| stratum.n > 0).collect();
    if strata.is_empty() {
        return None;
    }
    let n_queries = strata.len() as f64;
    let share = |stratum: &Stratum| stratum.hits as f64 / stratum.n as f64;
    let mean = strata.iter().map(share).sum::<f64>() / n_queries;
    // The number of runs that would have this variance if all queries had the same number of them.
    let n_runs = n_queries * n_queries / strata.iter().map(|stratum| 1.0 / stratum.n as f64).sum::<f64>();
    let total = mean * (1.0 - mean);
    let is_stratified = strata.iter().all(|stratum| stratum.n > 1) && total > 0.0;
    let within = |stratum: &Stratum| {
        let (n, share) = (stratum.n as f64, share(stratum));
        share * (1.0 - share) * n / (n - 1.0)
    };
    let part = match is_stratified {
        true => (strata.iter().map(within).sum::<f64>() + PRIOR) / (n_queries * total + PRIOR),
        false => 1.0,
    };
    let [low, high] = exact(mean, n_runs / part.clamp(1e-9, 1.0));
    let runs = strata.iter().map(|stratum| stratum.n).sum();
    Some(Rate { rate: mean, low, high, queries: strata.len(), runs })
}

/// The exact interval of a share of so many runs, which need not be a whole number.
///
/// Source: C. J. Clopper and E. S. Pearson, "The use of confidence or fiducial limits", 1934, by quantiles of the beta
/// distribution.
fn exact(mean: f64, n: f64) -> [f64; 2] {
    let (hits, tail) = (mean * n, (1.0 - LEVEL) / 2.0);
    let low = if hits < 1e-9 { 0.0 } else { beta_quantile(hits, n - hits + 1.0, tail) };
    let high = if n - hits < 1e-9 { 1.0 } else { beta_quantile(hits + 1.0, n - hits, 1.0 - tail) };
    [low.min(mean), high.max(mean)]
}

fn beta_quantile(a: f64, b: f64, probability: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..50 {
        let middle = (low + high) / 2.0;
        match beta_share(a, b, middle) < probability {
            true => low = middle,
            false => high = middle,
        }
    }
    (low + high) / 2.0
}

/// The regularized incomplete beta function, by its continued fraction.
fn beta_share(a: f64, b: f64, x: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return x.clamp(0.0, 1.0);
    }
    let front = (ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b) + a * x.ln() + b * (1.0 - x).ln()).exp();
    match x < (a + 1.0) / (a + b + 2.0) {
        true => front * beta_fraction(a, b, x) / a,
        false => 1.0 - front * beta_fraction(b, a, 1.0 - x) / b,
    }
}

fn beta_fraction(a: f64, b: f64, x: f64) -> f64 {
    const LEAST: f64 = 1e-300;
    let held = |value: f64| if value.abs() < LEAST { LEAST } else { value };
    let mut c = 1.0;
    let mut d = 1.0 / held(1.0 - (a + b) * x / (a + 1.0));
    let mut fraction = d;
    for term in 1..300 {
        let m = f64::from(term);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        let before = fraction;
        for factor in [even, odd] {
            d = 1.0 / held(1.0 + factor * d);
            c = held(1.0 + factor / c);
            fraction *= d * c;
        }
        if (fraction - before).abs() < 1e-13 * fraction.abs() {
            break;
        }
    }
    fraction
}

/// The logarithm of the gamma function, by Stirling's series above 10.
fn ln_gamma(x: f64) -> f64 {
    let (mut x, mut shift) = (x, 0.0);
    while x < 10.0 {
        shift += x.ln();
        x += 1.0;
    }
    let square = x * x;
    let series = (1.0 / 12.0 - (1.0 / 360.0 - 1.0 / (1260.0 * square)) / square) / x;
    (x - 0.5) * x.ln() - x + 0.5 * std::f64::consts::TAU.ln() + series - shift
}

#[cfg(test)]
mod tests {
    use super::{Stratum, rate};

    fn strata(hits: &[usize], n: usize) -> Vec<Stratum> {
        hits.iter().map(|hits| Stratum { n, hits: *hits }).collect()
    }

    #[test]
    fn rates_are_means_over_queries() {
        let found =
            rate(&[Stratum { n: 1, hits: 1 }, Stratum { n: 4, hits: 0 }, Stratum { n: 0, hits: 0 }]).unwrap();
        assert!((found.rate - 0.5).abs() < 1e-12 && (found.queries, found.runs) == (2, 5));
        assert!(rate(&[]).is_none() && rate(&[Stratum::default()]).is_none());
    }

    #[test]
    fn one_run_a_query_gives_the_exact_interval() {
        let found = rate(&strata(&[1, 1, 1, 1, 1, 1, 1, 0, 0, 0], 1)).unwrap();
        // Clopper and Pearson's interval for 7 of 10.
        assert!((found.low - 0.347_547).abs() < 1e-5 && (found.high - 0.933_260).abs() < 1e-5, "{found:?}");
    }

    #[test]
    fn what_differs_between_queries_is_no_noise() {
        let mixed = rate(&strata(&[3, 3, 3, 0, 0, 0], 3)).unwrap();
        let noisy = rate(&strata(&[2, 1, 2, 1, 2, 1], 3)).unwrap();
        assert!((mixed.rate - noisy.rate).abs() < 1e-12);
        assert!(mixed.high - mixed.low < noisy.high - noisy.low);
        let none = rate(&strata(&[0, 0, 0], 3)).unwrap();
        assert!(none.low == 0.0 && none.high > 0.2, "{none:?}");
    }
}
