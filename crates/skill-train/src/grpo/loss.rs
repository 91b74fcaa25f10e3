//! The loss of a batch of rows, and its gradient by the log-probs.

use super::ratio::{ClippedLoss, PolicyClip, Ratio, RatioLevel};
use super::{Aggregation, GrpoError, KlOfToken, KlPenalty, KlWeight, count};

/// The loss of GRPO: clipped policy loss, plus KL penalty, minus entropy bonus.
///
/// The default is that of the SkillRL paper: clip 0.2, dual clip 3, k3 times 0.01, the mean over all tokens.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GrpoLoss {
    /// The ratio and its clipping.
    pub clip: PolicyClip,
    /// The penalty for leaving the reference policy; `None` needs no log-probs of the reference.
    pub kl: Option<KlPenalty>,
    /// Factor of the entropy that is subtracted; 0 needs no entropies. It has no gradient here: its
    /// gradient goes by the logits, not by the sampled token's log-prob.
    pub entropy_coefficient: f64,
    /// The aggregation of tokens.
    pub aggregation: Aggregation,
}

impl Default for GrpoLoss {
    fn default() -> Self {
        Self {
            clip: PolicyClip::default(),
            kl: Some(KlPenalty::default()),
            entropy_coefficient: 0.0,
            aggregation: Aggregation::default(),
        }
    }
}

/// The tokens of a row: an episode, or a step of one. All lists have one number per token, in nats.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LossRow<'a> {
    /// Log-probs under the policy that is trained.
    pub log_probs: &'a [f64],
    /// Log-probs under the policy that sampled, as they were sampled.
    pub old_log_probs: &'a [f64],
    /// Log-probs under the reference policy; needed with a KL penalty.
    pub reference_log_probs: Option<&'a [f64]>,
    /// Entropies under the policy that is trained; needed with an entropy coefficient.
    pub entropies: Option<&'a [f64]>,
    /// True for tokens that the policy sampled; prompts, observations and padding are false.
    pub mask: &'a [bool],
    /// The advantage of the row.
    pub advantage: f64,
}

/// A loss, its parts, and what is worth watching. Means are over the tokens of the mask; 0 without tokens.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct LossReport {
    /// `policy + kl coefficient * kl - entropy coefficient * entropy`.
    pub loss: f64,
    /// The clipped policy loss, aggregated.
    pub policy: f64,
    /// The KL estimate, aggregated like the loss; 0 without a penalty.
    pub kl: f64,
    /// The entropy, aggregated like the loss; 0 where it is not given.
    pub entropy: f64,
    /// d loss / d log-prob for each row and token; 0 outside the mask.
    pub gradients: Vec<Vec<f64>>,
    /// Tokens of the mask.
    pub n_tokens: usize,
    /// The share of tokens whose clipped loss is the larger one.
    pub clip_fraction: f64,
    /// The share of tokens whose loss dual clip cuts.
    pub dual_clip_fraction: f64,
    /// The share of tokens with a negative advantage and a ratio below the clip range.
    pub low_fraction: f64,
    /// The share of tokens with a positive advantage and a ratio above the clip range.
    pub high_fraction: f64,
    /// The mean of `old - new` log-prob (of the clamped difference): how far the policy has moved.
    pub approximate_kl: f64,
    /// The mean KL estimate over tokens, weighted as in the loss.
    pub mean_kl: f64,
    /// The mean entropy over tokens.
    pub mean_entropy: f64,
}

impl GrpoLoss {
    /// The loss of these rows and its gradient.
    ///
    /// # Errors
    ///
    /// Lists of different lengths, numbers that the settings need and a row lacks, and numbers of masked tokens that
    /// are NaN or infinite: a loss is finite or an error. [`GrpoError::Setting`] for settings outside their range.
    pub fn compute(&self, rows: &[LossRow<'_>]) -> Result<LossReport, GrpoError> {
        self.clip.check()?;
        for (row_idx, row) in rows.iter().enumerate() {
            self.check_row(row_idx, row)?;
        }
        let counts: Vec<usize> = rows.iter().map(LossRow::n_tokens).collect();
        let weights = self.aggregation.weights(&counts)?;
        let mut report = LossReport { n_tokens: counts.iter().sum(), ..LossReport::default() };
        for (row, weight) in rows.iter().zip(weights) {
            let gradients = self.add_row(row, weight, &mut report);
            report.gradients.push(gradients);
        }
        let kl = self.kl.map_or(0.0, |kl| kl.coefficient * report.kl);
        report.loss = report.policy + kl - self.entropy_coefficient * report.entropy;
        let n = count(report.n_tokens.max(1));
        for sum in [
            &mut report.clip_fraction,
            &mut report.dual_clip_fraction,
            &mut report.low_fraction,
            &mut report.high_fraction,
            &mut report.approximate_kl,
            &mut report.mean_kl,
            &mut report.mean_entropy,
        ] {
            *sum /= n;
        }
        Ok(report)
    }

    /// Adds a row to the sums and gives its gradients.
    fn add_row(&self, row: &LossRow<'_>, weight: f64, report: &mut LossReport) -> Vec<f64> {
        let tokens = self.tokens(row);
        let n = count(row.n_tokens().max(1));
        // The derivative of the row's loss by a ratio that its tokens share.
        let shared: f64 = tokens.iter().flatten().map(|token| token.by_ratio).sum();
        let gradient = |token: &Option<Token>| {
            let Some(token) = token else { return 0.0 };
            let through_ratio = match self.clip.level {
                RatioLevel::Token => token.ratio.through(token.by_ratio),
                RatioLevel::Sequence => token.ratio.through(shared) / n,
            };
            weight * (through_ratio + token.direct)
        };
        for token in tokens.iter().flatten() {
            report.add(token, weight);
        }
        tokens.iter().map(gradient).collect()
    }

    /// The terms of each token of a row; `None` outside the mask.
    fn tokens(&self, row: &LossRow<'_>) -> Vec<Option<Token>> {
        let log_ratios = row.log_probs.iter().zip(row.old_log_probs).map(|(new, old)| new - old);
        let masked = log_ratios.clone().zip(row.mask).filter(|(_, counts)| **counts);
        let of_row = masked.map(|(log, _)| log).sum::<f64>() / count(row.n_tokens().max(1));
        let all = log_ratios.enumerate().zip(row.mask);
        let token = |((place, log), counts): ((usize, f64), &bool)| {
            let of_level = match self.clip.level {
                RatioLevel::Token => log,
                RatioLevel::Sequence => of_row,
            };
            counts.then(|| self.token(row, place, log, self.clip.ratio(of_level)))
        };
        all.map(token).collect()
    }

    fn token(&self, row: &LossRow<'_>, place: usize, log_ratio: f64, ratio: Ratio) -> Token {
        let at = |list: Option<&[f64]>| list.and_then(|list| list.get(place)).copied();
        let policy = self.clip.loss(row.advantage, ratio);
        let log_prob = at(Some(row.log_probs)).unwrap_or_default();
        let kl = self.kl.zip(at(row.reference_log_probs));
        let kl = kl.map(|(kl, reference)| (kl, kl.estimator.per_token(log_prob, reference)));
        let (mut by_ratio, mut direct, mut weighted_kl) = (policy.slope, 0.0, 0.0);
        if let Some((KlPenalty { coefficient, weight, .. }, KlOfToken { value, gradient })) = kl {
            let (factor, slope) = match weight {
                KlWeight::One => (1.0, 0.0),
                KlWeight::Ratio => (ratio.uncapped(), value),
            };
            weighted_kl = value * factor;
            by_ratio += coefficient * slope;
            direct += coefficient * gradient * factor;
        }
        Token {
            policy,
            ratio,
            moved: -self.clip.ratio(log_ratio).clamped_log,
            by_ratio,
            direct,
            weighted_kl,
            entropy: at(row.entropies).unwrap_or_default(),
        }
    }

    fn check_row(&self, row_idx: usize, row: &LossRow<'_>) -> Result<(), GrpoError> {
        let expected = row.log_probs.len();
        let needs_reference = self.kl.is_some();
        let needs_entropy = self.entropy_coefficient != 0.0;
        if needs_reference && row.reference_log_probs.is_none() {
            return Err(GrpoError::Missing { row: row_idx, what: "reference log-probs" });
        }
        if needs_entropy && row.entropies.is_none() {
            return Err(GrpoError::Missing { row: row_idx, what: "entropies" });
        }
        if row.mask.len() != expected {
            let n = row.mask.len();
            return Err(GrpoError::Lengths { row: row_idx, what: "the mask", n, expected });
        }
        let lists = [
            ("the log-probs", Some(row.log_probs)),
            ("the old log-probs", Some(row.old_log_probs)),
            ("the reference log-probs", row.reference_log_probs.filter(|_| needs_reference)),
            ("the entropies", row.entropies),
        ];
        for (what, list) in lists.into_iter().filter_map(|(what, list)| list.map(|list| (what, list))) {
            if list.len() != expected {
                return Err(GrpoError::Lengths { row: row_idx, what, n: list.len(), expected });
            }
            let masked = list.iter().zip(row.mask).enumerate().filter(|(_, (_, counts))| **counts);
            let mut values = masked.map(|(token, (value, _))| (token, *value));
            if let Some((token, value)) = values.find(|(_, value)| !value.is_finite()) {
                return Err(GrpoError::NotFinite { row: row_idx, token, what, value });
            }
        }
        if !row.advantage.is_finite() {
            let value = row.advantage;
            return Err(GrpoError::NotFinite { row: row_idx, token: 0, what: "the advantage", value });
        }
        Ok(())
    }
}

impl LossRow<'_> {
    /// Tokens of the mask.
    fn n_tokens(&self) -> usize {
        self.mask.iter().filter(|counts| **counts).count()
    }
}

/// The terms of one token.
struct Token {
    policy: ClippedLoss,
    ratio: Ratio,
    /// `old - new`, clamped.
    moved: f64,
    /// The derivative of the token's loss by its ratio, and by its log-prob otherwise.
    by_ratio: f64,
    direct: f64,
    weighted_kl: f64,
    entropy: f64,
}

impl LossReport {
    /// Adds a token; shares and means are sums until the end.
    fn add(&mut self, token: &Token, weight: f64) {
        let one = |holds: bool| if holds { 1.0 } else { 0.0 };
        self.policy += weight * token.policy.value;
        self.kl += weight * token.weighted_kl;
        self.entropy += weight * token.entropy;
        self.clip_fraction += one(token.policy.clipped);
        self.dual_clip_fraction += one(token.policy.dual_clipped);
        self.low_fraction += one(token.policy.low);
        self.high_fraction += one(token.policy.high);
        self.approximate_kl += token.moved;
        self.mean_kl += token.weighted_kl;
        self.mean_entropy += token.entropy;
    }
}
