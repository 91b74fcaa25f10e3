//! The filters of sampling, on the tokens that are left; none of them ever drops the best token.

/// A token that may still be sampled.
#[derive(Debug, Clone, Copy)]
pub(super) struct Candidate {
    pub(super) token: u32,
    /// Its logit after penalty and temperature.
    pub(super) score: f64,
}

pub(super) fn penalize(scores: &mut [f64], previous: &[u32], penalty: f64) {
    if penalty == 1.0 {
        return;
    }
    let mut seen = previous.to_vec();
    seen.sort_unstable();
    seen.dedup();
    for token in seen {
        if let Some(score) = usize::try_from(token).ok().and_then(|token| scores.get_mut(token)) {
            *score = if *score < 0.0 { *score * penalty } else { *score / penalty };
        }
    }
}

/// The tokens with a finite score, by ascending id.
pub(super) fn finite(scores: &[f64]) -> Vec<Candidate> {
    let all = (0_u32..).zip(scores).map(|(token, score)| Candidate { token, score: *score });
    all.filter(|candidate| candidate.score.is_finite()).collect()
}

/// The token with the highest score, with the smallest id among equals.
pub(super) fn best(left: Vec<Candidate>) -> Vec<Candidate> {
    let best = left.into_iter().reduce(|best, other| if other.score > best.score { other } else { best });
    best.into_iter().collect()
}

pub(super) fn top_k(left: &mut Vec<Candidate>, k: usize) {
    if k == 0 || k >= left.len() {
        return;
    }
    let mut scores: Vec<f64> = left.iter().map(|candidate| candidate.score).collect();
    let (_, border, _) = scores.select_nth_unstable_by(k - 1, |a, b| b.total_cmp(a));
    let border = *border;
    left.retain(|candidate| candidate.score >= border);
}

/// Drops the least probable tokens as long as what was dropped adds up to at most `1 - p`.
pub(super) fn top_p(left: &mut Vec<Candidate>, p: f64) {
    let allowed = 1.0 - p;
    let mut tokens = probabilities(left);
    // All tokens below this together weigh less than what may be dropped, so only the others need an order.
    let border = allowed / count(tokens.len());
    let mut dropped: f64 = tokens.iter().map(|(_, share)| *share).filter(|share| *share < border).sum();
    tokens.retain(|(_, share)| *share >= border);
    // A stable sort: equal probabilities stay by ascending id.
    tokens.sort_by(|(_, a), (_, b)| a.total_cmp(b));
    let last = tokens.len().saturating_sub(1);
    let n_dropped = tokens.iter().take(last).take_while(|(_, share)| {
        dropped += share;
        dropped <= allowed
    });
    let n_dropped = n_dropped.count();
    let mut kept: Vec<u32> = tokens.into_iter().skip(n_dropped).map(|(token, _)| token).collect();
    kept.sort_unstable();
    left.retain(|candidate| kept.binary_search(&candidate.token).is_ok());
}

pub(super) fn min_p(left: &mut Vec<Candidate>, p: f64) {
    // The best probability cancels: p_i < min_p * p_best exactly if exp(score_i - best) < min_p.
    let best = highest(left);
    left.retain(|candidate| (candidate.score - best).exp() >= p);
}

/// Softmax over the tokens that are left.
pub(super) fn probabilities(left: &[Candidate]) -> Vec<(u32, f64)> {
    let best = highest(left);
    let mut tokens: Vec<(u32, f64)> =
        left.iter().map(|candidate| (candidate.token, (candidate.score - best).exp())).collect();
    let sum: f64 = tokens.iter().map(|(_, weight)| weight).sum();
    tokens.iter_mut().for_each(|(_, weight)| *weight /= sum);
    tokens
}

fn highest(left: &[Candidate]) -> f64 {
    left.iter().map(|candidate| candidate.score).fold(f64::NEG_INFINITY, f64::max)
}

/// A count as a divisor: exact below 2^32, which no vocabulary reaches.
fn count(n: usize) -> f64 {
    f64::from(u32::try_from(n).unwrap_or(u32::MAX))
}
