//! BM25 as Lucene computes it.
//!
//! S. Robertson and H. Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond", 2009, with k1 0.9 and b
//! 0.4; a document's length is kept in one byte, and scores are single precision, so that what ties there ties here.

const K1: f32 = 0.9;
const B: f32 = 0.4;

/// Lengths below this are exact in their byte.
const N_EXACT_LENGTHS: u32 = 24;

/// What a term adds to a document's score.
pub(super) fn contribution(weight: f32, frequency: u32, norm: f32) -> f32 {
    weight - weight / (1.0 + frequency as f32 * norm)
}

/// How rare a term is: `ln(1 + (N - n + 0.5) / (n + 0.5))`.
pub(super) fn inverse_frequency(n_with_term: usize, n_documents: usize) -> f32 {
    let (n_with_term, n_documents) = (n_with_term as f64, n_documents as f64);
    (1.0 + (n_documents - n_with_term + 0.5) / (n_with_term + 0.5)).ln() as f32
}

/// For each byte of a length, `1 / (k1 * (1 - b + b * length / average))`.
pub(super) fn norms(n_terms: u64, n_documents: usize) -> Vec<f32> {
    let average = (n_terms as f64 / n_documents.max(1) as f64) as f32;
    (0..=u8::MAX).map(|byte| 1.0 / (K1 * ((1.0 - B) + B * length_of_byte(byte) as f32 / average))).collect()
}

/// A length in one byte: exact below 24, then as a number with four significant bits.
pub(super) fn length_byte(length: u32) -> u8 {
    let Some(rest) = length.checked_sub(N_EXACT_LENGTHS) else {
        return u8::try_from(length).unwrap_or(u8::MAX);
    };
    let n_bits = u32::BITS - rest.leading_zeros();
    let code = match n_bits.checked_sub(4) {
        None => rest,
        Some(shift) => ((rest >> shift) & 0x07) | ((shift + 1) << 3),
    };
    u8::try_from(N_EXACT_LENGTHS + code).unwrap_or(u8::MAX)
}

/// The greatest length that is not above those of this byte.
fn length_of_byte(byte: u8) -> u64 {
    let Some(code) = u32::from(byte).checked_sub(N_EXACT_LENGTHS) else {
        return u64::from(byte);
    };
    let (bits, exponent) = (u64::from(code & 0x07), code >> 3);
    let rest = match exponent.checked_sub(1) {
        None => bits,
        Some(shift) => (bits | 0x08) << shift,
    };
    u64::from(N_EXACT_LENGTHS) + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_up_to_forty_are_exact_then_rounded_down() {
        for length in 0..=40 {
            assert_eq!(length_of_byte(length_byte(length)), u64::from(length));
        }
        for length in 41..100_000 {
            let kept = length_of_byte(length_byte(length));
            assert!(kept <= u64::from(length) && u64::from(length) < kept + kept / 8, "{length}: {kept}");
        }
        assert_eq!(length_byte(u32::MAX), u8::MAX);
    }
}
