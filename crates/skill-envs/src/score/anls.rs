//! Average normalized Levenshtein similarity, as document questions are scored.

use super::Score;
use super::text::collapsed;
use skill_core::text::composed;

/// From this similarity on an answer counts as right, as SkillOpt has it for DocVQA.
const RIGHT_FROM: f64 = 0.999;

/// ANLS of one answer (Biten et al. 2019, "Scene Text Visual Question Answering", equation 1).
///
/// For each reference the similarity is `1 - d / max(|prediction|, |reference|)` with the Levenshtein distance `d` in
/// characters; where the normalized distance reaches the threshold, it is 0.
/// `soft` is the best similarity, `hard` is 1 from 0.999 on.
/// Case, white space and the form of composed characters do not count; without a reference only an empty answer is right.
///
/// ```
/// use skill_envs::score::anls;
///
/// assert_eq!(anls("ITC Limted", &["ITC Limited"], 0.5).soft, 1.0 - 1.0 / 11.0);
/// assert_eq!(anls("itc limited", &["ITC Limited"], 0.5).hard, 1.0);
/// ```
pub fn anls(prediction: &str, answers: &[impl AsRef<str>], threshold: f64) -> Score {
    let best = if answers.is_empty() {
        anls_similarity(prediction, "", threshold)
    } else {
        answers
            .iter()
            .map(|answer| anls_similarity(prediction, answer.as_ref(), threshold))
            .fold(0.0, f64::max)
    };
    if best >= RIGHT_FROM { Score::RIGHT } else { Score { hard: 0.0, soft: best } }
}

/// The similarity of two texts in [0, 1]; see [`anls`].
pub(crate) fn anls_similarity(prediction: &str, reference: &str, threshold: f64) -> f64 {
    let plain = |text: &str| collapsed(&composed(text).to_lowercase()).chars().collect::<Vec<char>>();
    let (prediction, reference) = (plain(prediction), plain(reference));
    let longest = prediction.len().max(reference.len());
    if longest == 0 {
        return 1.0;
    }
    // Lengths stay far below 2^53, where f64 is exact.
    let distance = strsim::generic_levenshtein(&prediction, &reference) as f64 / longest as f64;
    if distance < threshold { 1.0 - distance } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(prediction: &str, answers: &[&str], soft: f64) {
        let score = anls(prediction, answers, 0.5);
        assert!((score.soft - soft).abs() < 1e-12, "{prediction:?} {answers:?}: {score:?}");
        assert_eq!(score.hard, f64::from(u8::from(soft == 1.0)), "{prediction:?} {answers:?}");
    }

    #[test]
    fn similarity_of_texts() {
        // Measured on the reference's evaluator.
        check("0.28", &["0.28"], 1.0);
        check("ITC Limted", &["ITC Limited", "itc"], 0.9090909090909091);
        check("", &[""], 1.0);
        check("x", &[], 0.0);
        check("a</answer>b<answer>c", &["c"], 0.0);

        check("e\u{301}quipe", &["\u{e9}quipe"], 1.0);
        check("Straße", &["STRASSE"], 1.0 - 2.0 / 7.0);
        check("  new \n york", &["New York"], 1.0);
        // A distance of exactly the threshold is nothing.
        check("ab", &["ax"], 0.0);
        check("abc", &["abx"], 1.0 - 1.0 / 3.0);
        check("kitten", &["sitting"], 1.0 - 3.0 / 7.0);
        check("", &["x"], 0.0);
        check("日本", &["日本語"], 1.0 - 1.0 / 3.0);
    }

    #[test]
    fn the_threshold_is_a_setting() {
        assert_eq!(anls("ab", &["ax"], 0.6).soft, 0.5);
        assert_eq!(anls("flaw", &["lawn"], 0.6).soft, 0.5);
        assert_eq!(anls("intention", &["execution"], 0.6).soft, 1.0 - 5.0 / 9.0);
        assert_eq!(anls("abc", &["abx"], 0.3).soft, 0.0);
        assert_eq!(anls("same", &["same"], 0.0).soft, 0.0);
    }
}
