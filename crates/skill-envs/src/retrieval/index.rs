//! The search engine: an inverted index in segments, ranked by BM25 over all of them together.

use super::analyzer::terms;
use super::bm25::{contribution, inverse_frequency, norms};
use super::segment::{Segment, SegmentBuilder};
use std::cmp::Ordering;

/// Before so many hits are gathered, none is dropped.
const MIN_GATHERED: usize = 4096;

/// An inverted index over documents that are numbered from 0.
#[derive(Debug, Clone, Default)]
pub struct SearchIndex {
    segments: Vec<Segment>,
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
        Self { segments, n_documents, norms: norms(n_terms, n_documents) }
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
    pub fn search(&self, query: &str, n_hits: usize, tie: impl Fn(usize, usize) -> Ordering) -> Vec<Hit> {
        let wanted: Vec<Wanted> = distinct(terms(query))
            .into_iter()
            .filter_map(|(term, n_times)| self.wanted(&term, n_times))
            .collect();
        let order = |a: &Hit, b: &Hit| b.score.total_cmp(&a.score).then_with(|| tie(a.document, b.document));
        let largest = self.segments.iter().map(Segment::len).max().unwrap_or_default();
        let mut scores = vec![0.0_f64; largest];
        let (mut found, mut hits, mut first) = (Vec::new(), Vec::new(), 0);
        // Below this no document can be among the best.
        let mut least = 0.0_f32;
        for (number, segment) in self.segments.iter().enumerate() {
            for term in &wanted {
                self.add(segment, number, term, &mut scores, &mut found);
            }
            for document in found.drain(..) {
                let Some(score) = scores.get_mut(document as usize) else { continue };
                let score = std::mem::take(score) as f32;
                if score >= least {
                    hits.push(Hit { document: first + document as usize, score });
                }
            }
            if n_hits > 0 && hits.len() > MIN_GATHERED.max(4 * n_hits) {
                hits.select_nth_unstable_by(n_hits - 1, order);
                hits.truncate(n_hits);
                least = hits.last().map_or(least, |last| last.score);
            }
            first += segment.len();
        }
        if hits.len() > n_hits && n_hits > 0 {
            hits.select_nth_unstable_by(n_hits - 1, order);
        }
        hits.truncate(n_hits);
        hits.sort_unstable_by(order);
        hits
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
            let at = document as usize;
            let (Some(score), Some(length)) = (scores.get_mut(at), segment.lengths.get(at)) else { continue };
            if *score == 0.0 {
                found.push(document);
            }
            let norm = self.norms.get(usize::from(*length)).copied().unwrap_or_default();
            *score += f64::from(contribution(term.weight, frequency, norm));
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
