//! The search engine: an inverted index, ranked by BM25 as Lucene computes it.
//!
//! S. Robertson and H. Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond", 2009, with k1 0.9 and b
//! 0.4; a document's length is kept in one byte, and scores are single precision, so that what ties there ties here.

use super::analyzer::{term, terms, words};
use std::cmp::Ordering;
use std::collections::HashMap;

const K1: f32 = 0.9;
const B: f32 = 0.4;

/// Lengths below this are exact in their byte.
const N_EXACT_LENGTHS: u32 = 24;

/// An inverted index over documents that are numbered from 0.
#[derive(Debug, Clone, Default)]
pub struct SearchIndex {
    /// The place of each term's postings.
    terms: HashMap<Box<str>, usize>,
    postings: Vec<Vec<Posting>>,
    /// The length of each document, as its byte.
    lengths: Vec<u8>,
    /// What divides a term's frequency, by the byte of the document's length.
    norms: Vec<f32>,
}

#[derive(Debug, Clone, Copy)]
struct Posting {
    document: u32,
    frequency: u32,
}

/// A document that was found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Hit {
    /// Its number.
    pub document: usize,
    /// How well it fits; above 0.
    pub score: f32,
}

impl SearchIndex {
    /// Indexes documents in their order.
    pub fn new<T: AsRef<str>>(documents: impl IntoIterator<Item = T>) -> Self {
        let mut index = Self::default();
        // Most words occur many times, and a word is always the same term.
        let mut known: HashMap<Box<str>, Option<usize>> = HashMap::new();
        let mut n_terms = 0_u64;
        for (number, text) in (0_u32..).zip(documents) {
            let mut length = 0_u32;
            for word in words(text.as_ref()) {
                let place = match known.get(word) {
                    Some(place) => *place,
                    None => {
                        let place = term(word).map(|term| index.place_of(term));
                        known.insert(word.into(), place);
                        place
                    }
                };
                if let Some(place) = place {
                    length += 1;
                    index.count(place, number);
                }
            }
            n_terms += u64::from(length);
            index.lengths.push(length_byte(length));
        }
        index.postings.iter_mut().for_each(Vec::shrink_to_fit);
        index.norms = norms(n_terms, index.lengths.len());
        index
    }

    /// The place of a term's postings, which are made if it is new.
    fn place_of(&mut self, term: String) -> usize {
        let n_places = self.postings.len();
        let place = *self.terms.entry(term.into()).or_insert(n_places);
        if place == n_places {
            self.postings.push(Vec::new());
        }
        place
    }

    fn count(&mut self, place: usize, document: u32) {
        let Some(list) = self.postings.get_mut(place) else {
            return;
        };
        match list.last_mut() {
            Some(last) if last.document == document => last.frequency += 1,
            _ => list.push(Posting { document, frequency: 1 }),
        }
    }

    /// How many documents there are.
    pub fn len(&self) -> usize {
        self.lengths.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.lengths.is_empty()
    }

    /// The best `n_hits` documents; equal scores are put in order by `tie`.
    pub fn search(&self, query: &str, n_hits: usize, tie: impl Fn(usize, usize) -> Ordering) -> Vec<Hit> {
        let mut scores = vec![0.0_f64; self.lengths.len()];
        let mut found = Vec::new();
        for (term, n_times) in distinct(terms(query)) {
            let Some(list) = self.terms.get(term.as_str()).and_then(|place| self.postings.get(*place)) else {
                continue;
            };
            let weight = n_times * inverse_frequency(list.len(), self.lengths.len());
            for posting in list {
                let document = posting.document as usize;
                let Some(score) = scores.get_mut(document) else {
                    continue;
                };
                if *score == 0.0 {
                    found.push(document);
                }
                *score += f64::from(self.contribution(weight, *posting));
            }
        }
        let mut hits: Vec<Hit> = found
            .into_iter()
            .filter_map(|document| Some(Hit { document, score: *scores.get(document)? as f32 }))
            .collect();
        let order = |a: &Hit, b: &Hit| b.score.total_cmp(&a.score).then_with(|| tie(a.document, b.document));
        if hits.len() > n_hits && n_hits > 0 {
            hits.select_nth_unstable_by(n_hits - 1, order);
        }
        hits.truncate(n_hits);
        hits.sort_unstable_by(order);
        hits
    }

    /// What a term adds to a document's score.
    fn contribution(&self, weight: f32, posting: Posting) -> f32 {
        let length = self.lengths.get(posting.document as usize).copied().unwrap_or_default();
        let norm = self.norms.get(usize::from(length)).copied().unwrap_or_default();
        weight - weight / (1.0 + posting.frequency as f32 * norm)
    }
}

/// Each term once, in the order of its first place, with how many times it is there.
fn distinct(terms: impl Iterator<Item = String>) -> Vec<(String, f32)> {
    let mut counted: Vec<(String, f32)> = Vec::new();
    for term in terms {
        match counted.iter_mut().find(|(known, _)| *known == term) {
            Some((_, n_times)) => *n_times += 1.0,
            None => counted.push((term, 1.0)),
        }
    }
    counted
}

/// How rare a term is: `ln(1 + (N - n + 0.5) / (n + 0.5))`.
fn inverse_frequency(n_with_term: usize, n_documents: usize) -> f32 {
    let (n_with_term, n_documents) = (n_with_term as f64, n_documents as f64);
    (1.0 + (n_documents - n_with_term + 0.5) / (n_with_term + 0.5)).ln() as f32
}

/// For each byte of a length, `1 / (k1 * (1 - b + b * length / average))`.
fn norms(n_terms: u64, n_documents: usize) -> Vec<f32> {
    let average = (n_terms as f64 / n_documents.max(1) as f64) as f32;
    (0..=u8::MAX).map(|byte| 1.0 / (K1 * ((1.0 - B) + B * length_of_byte(byte) as f32 / average))).collect()
}

/// A length in one byte: exact below 24, then as a number with four significant bits.
fn length_byte(length: u32) -> u8 {
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
