//! The search engine: an inverted index in segments, ranked by BM25 over all of them together.

use super::analyzer::terms;
use super::bm25::{contribution, inverse_frequency, norms};
use super::segment::{Seeker, Segment, SegmentBuilder, Skips};
use std::cmp::Ordering;

/// What rounding may take from a bound.
const ROUNDING: f64 = 1.0 - 1e-6;

/// An inverted index over documents that are numbered from 0.
#[derive(Debug, Clone, Default)]
pub struct SearchIndex {
    segments: Vec<Segment>,
    skips: Vec<Skips>,
    n_documents: usize,
    /// What divides a term's frequency, by the byte of the document's length.
    norms: Vec<f32>,
}

/// A document that was found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Hit {
    /// Its number.
    pub document: usize,
    /// How well it fits; above 0.
    pub score: f32,
}

/// A term of a query: its weight, and its place in each segment that has it.
struct Wanted {
    weight: f32,
    places: Vec<Option<usize>>,
}

impl SearchIndex {
    /// Indexes documents in their order.
    pub fn new<T: AsRef<str>>(documents: impl IntoIterator<Item = T>) -> Self {
        let (mut segments, mut builder) = (Vec::new(), SegmentBuilder::default());
        for text in documents {
            if builder.is_full() {
                segments.push(std::mem::take(&mut builder).finish());
            }
            builder.add(text.as_ref());
        }
        if !builder.is_empty() {
            segments.push(builder.finish());
        }
        Self::of_segments(segments)
    }

    /// The index of segments in the order of their documents.
    pub(super) fn of_segments(segments: Vec<Segment>) -> Self {
        let n_documents = segments.iter().map(Segment::len).sum();
        let n_terms = segments.iter().map(|segment| segment.n_terms).sum();
        let skips = segments.iter().map(Skips::of).collect();
        Self { segments, skips, n_documents, norms: norms(n_terms, n_documents) }
    }

    /// How many documents there are.
    pub fn len(&self) -> usize {
        self.n_documents
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.n_documents == 0
    }

    /// The best `n_hits` documents; equal scores are put in order by `tie`.
    ///
    /// A term adds no more than its weight, so in a segment after the first one only the rarest terms are read whole:
    /// documents that have none of them cannot be among the best, nor can those that stay below the least of the best
    /// however much the other terms add. A score is a sum of single precision in double precision, which is exact in
    /// any order.
    pub fn search(&self, query: &str, n_hits: usize, tie: impl Fn(usize, usize) -> Ordering) -> Vec<Hit> {
        let mut wanted: Vec<Wanted> = distinct(terms(query))
            .into_iter()
            .filter_map(|(term, n_times)| self.wanted(&term, n_times))
            .collect();
        wanted.sort_by(|a, b| b.weight.total_cmp(&a.weight));
        // The most that each term and those behind it add.
        let mut rest: Vec<f64> = vec![0.0; wanted.len() + 1];
        for place in (0..wanted.len()).rev() {
            let behind = rest.get(place + 1).copied().unwrap_or_default();
            if let (Some(sum), Some(term)) = (rest.get_mut(place), wanted.get(place)) {
                *sum = behind + f64::from(term.weight);
            }
        }
        let order = |a: &Hit, b: &Hit| b.score.total_cmp(&a.score).then_with(|| tie(a.document, b.document));
        let largest = self.segments.iter().map(Segment::len).max().unwrap_or_default();
        let mut scores = vec![0.0_f64; largest];
        let (mut found, mut hits, mut first) = (Vec::new(), Vec::new(), 0);
        // Below this no document can be among the best.
        let mut least = 0.0_f64;
        for (number, segment) in self.segments.iter().enumerate() {
            let bound = least * ROUNDING;
            let n_read = rest.iter().position(|rest| *rest < bound).unwrap_or(wanted.len());
            // The most frequent first: most documents are found by it, in their order, which a processor foresees.
            for term in wanted.iter().take(n_read).rev() {
                self.add(segment, number, term, &mut scores, &mut found);
            }
            let at =
                |scores: &[f64], document: u32| scores.get(document as usize).copied().unwrap_or_default();
            let mut candidates = found.clone();
            if n_read < wanted.len() {
                candidates.sort_unstable();
            }
            for (term, rest) in wanted.iter().zip(&rest).skip(n_read) {
                candidates.retain(|document| at(&scores, *document) + rest >= bound);
                self.add_to(segment, number, term, &candidates, &mut scores);
            }
            for document in candidates {
                let score = at(&scores, document);
                if score >= bound {
                    hits.push(Hit { document: first + document as usize, score: score as f32 });
                }
            }
            for document in found.drain(..) {
                if let Some(score) = scores.get_mut(document as usize) {
                    *score = 0.0;
                }
            }
            if n_hits > 0 && hits.len() > n_hits {
                hits.select_nth_unstable_by(n_hits - 1, order);
                hits.truncate(n_hits);
            }
            if n_hits > 0 && hits.len() == n_hits {
                least = hits.iter().map(|hit| f64::from(hit.score)).fold(f64::INFINITY, f64::min);
            }
            first += segment.len();
        }
        hits.truncate(n_hits);
        hits.sort_unstable_by(order);
        hits
    }

    /// Adds what a term is worth to these documents of a segment, which are in their order.
    fn add_to(&self, segment: &Segment, number: usize, term: &Wanted, documents: &[u32], scores: &mut [f64]) {
        let (Some(Some(place)), Some(skips)) = (term.places.get(number), self.skips.get(number)) else {
            return;
        };
        let mut seeker = Seeker::new(segment, skips, *place);
        for document in documents {
            let frequency = seeker.frequency(*document);
            if let (1.., Some(score)) = (frequency, scores.get_mut(*document as usize)) {
                *score += self.worth(segment, *document, frequency, term.weight);
            }
        }
    }

    /// What a term with this frequency adds to the score of a document.
    fn worth(&self, segment: &Segment, document: u32, frequency: u32, weight: f32) -> f64 {
        let length = segment.lengths.get(document as usize).copied().unwrap_or_default();
        let norm = self.norms.get(usize::from(length)).copied().unwrap_or_default();
        f64::from(contribution(weight, frequency, norm))
    }

    /// What is known of a term; `None` if no document has it.
    fn wanted(&self, term: &str, n_times: f32) -> Option<Wanted> {
        let places: Vec<Option<usize>> = self.segments.iter().map(|segment| segment.find(term)).collect();
        let frequency = |(segment, place): (&Segment, &Option<usize>)| {
            let n_documents = place.and_then(|place| segment.frequencies.get(place).copied());
            n_documents.map_or(0, |n_documents| n_documents as usize)
        };
        let n_with_term: usize = self.segments.iter().zip(&places).map(frequency).sum();
        let weight = n_times * inverse_frequency(n_with_term, self.n_documents);
        (n_with_term > 0).then_some(Wanted { weight, places })
    }

    /// Adds what a term is worth to the documents of a segment; those that had no score before are `found`.
    fn add(&self, segment: &Segment, number: usize, term: &Wanted, scores: &mut [f64], found: &mut Vec<u32>) {
        let Some(place) = term.places.get(number).copied().flatten() else { return };
        for (document, frequency) in segment.postings(place) {
            let Some(score) = scores.get_mut(document as usize) else { continue };
            if *score == 0.0 {
                found.push(document);
            }
            *score += self.worth(segment, document, frequency, term.weight);
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Documents in which words are as frequent as in a language.
    fn texts(n: usize) -> Vec<String> {
        let mut state = 7_u64;
        let mut next = move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as f64 / f64::from(1_u32 << 31)
        };
        let mut word = move || format!("w{}", 2000_f64.powf(next()) as u32);
        (0..n).map(|_| (0..20).map(|_| word()).collect::<Vec<_>>().join(" ")).collect()
    }

    /// What is found in segments of a few documents is what one segment gives, to the last bit.
    #[test]
    fn pruning_changes_no_ranking_and_no_score() {
        let texts = texts(2000);
        let whole = SearchIndex::new(&texts);
        let segment = |part: &[String]| {
            let mut builder = SegmentBuilder::default();
            part.iter().for_each(|text| builder.add(text));
            builder.finish()
        };
        let parts = SearchIndex::of_segments(texts.chunks(150).map(segment).collect());
        for query in
            ["w1 w2 w900", "w3 w4 w5 w6 w7 w1500", "w1", "w1 w1 w2", "w400 w401 w402 w1 w2 w3", "absent w9"]
        {
            for n_hits in [1, 3, 50, 5000] {
                let found = parts.search(query, n_hits, |a, b| a.cmp(&b));
                assert_eq!(found, whole.search(query, n_hits, |a, b| a.cmp(&b)), "{query} {n_hits}");
                assert!(found.len() <= n_hits && !found.is_empty());
            }
        }
    }
}
