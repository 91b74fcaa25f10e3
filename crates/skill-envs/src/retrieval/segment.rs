//! A part of an index: the documents that follow each other in a corpus, with their terms.
//!
//! A segment is built in memory and never changes. Its parts are flat lists, so that it is written and read as it is:
//! terms in their order, and for each one the documents that have it, as differences in as few bytes as they take.

use super::analyzer::{term, words};
use super::bm25::length_byte;
use std::collections::HashMap;

/// The most documents of a segment; the scores of so many fit into a processor's cache.
/// Tests have smaller ones.
pub(super) const MAX_DOCUMENTS: usize = if cfg!(test) { 1 << 11 } else { 1 << 16 };
/// So many postings lie between two places from which they can be read.
const SKIPPED: usize = 128;
/// A segment whose postings take more bytes takes no further document, so that places in it are 32 bits.
const MAX_POSTING_BYTES: usize = 1 << 30;

/// The terms of documents that follow each other, numbered from 0 in each segment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Segment {
    /// The length of each document, as its byte.
    pub(super) lengths: Vec<u8>,
    /// Terms of all documents.
    pub(super) n_terms: u64,
    /// The terms in the order of their bytes, one after the other.
    pub(super) term_bytes: Vec<u8>,
    /// Where each term ends.
    pub(super) term_ends: Vec<u32>,
    /// How many documents have each term.
    pub(super) frequencies: Vec<u32>,
    /// Where the postings of each term end.
    pub(super) posting_ends: Vec<u32>,
    /// Postings, one term after the other.
    pub(super) postings: Vec<u8>,
}

impl Segment {
    /// How many documents it has.
    pub(super) fn len(&self) -> usize {
        self.lengths.len()
    }

    /// The place of a term.
    pub(super) fn find(&self, term: &str) -> Option<usize> {
        let wanted = term.as_bytes();
        let (mut low, mut high) = (0, self.term_ends.len());
        while low < high {
            let middle = low + (high - low) / 2;
            match self.term(middle)?.cmp(wanted) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
                std::cmp::Ordering::Equal => return Some(middle),
            }
        }
        None
    }

    fn term(&self, place: usize) -> Option<&[u8]> {
        self.term_bytes.get(span(&self.term_ends, place)?)
    }

    /// The documents that have the term of this place, in their order, and how often.
    pub(super) fn postings(&self, place: usize) -> Postings<'_> {
        let found = span(&self.posting_ends, place).and_then(|span| self.postings.get(span));
        Postings { rest: found.unwrap_or_default().iter(), document: 0 }
    }
}

/// Where postings can be read from without those before them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Skip {
    /// The document before them.
    document: u32,
    /// Their place among the bytes of their term.
    offset: u32,
}

/// The places in a segment from which the postings of frequent terms can be read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Skips {
    all: Vec<Skip>,
    /// Where those of each term end.
    ends: Vec<u32>,
}

impl Skips {
    /// Those of a segment.
    pub(super) fn of(segment: &Segment) -> Self {
        let mut skips = Self::default();
        for place in 0..segment.term_ends.len() {
            let mut postings = segment.postings(place);
            let n_bytes = postings.rest.len();
            let mut n_read = 0_usize;
            while let Some((document, _)) = postings.next() {
                n_read += 1;
                if n_read.is_multiple_of(SKIPPED) {
                    skips.all.push(Skip { document, offset: (n_bytes - postings.rest.len()) as u32 });
                }
            }
            skips.ends.push(skips.all.len() as u32);
        }
        skips
    }
}

/// The postings of one term, for documents in their order.
pub(super) struct Seeker<'a> {
    bytes: &'a [u8],
    skips: &'a [Skip],
    postings: Postings<'a>,
    current: Option<(u32, u32)>,
}

impl<'a> Seeker<'a> {
    /// Of the term at this place.
    pub(super) fn new(segment: &'a Segment, skips: &'a Skips, place: usize) -> Self {
        let bytes = span(&segment.posting_ends, place).and_then(|span| segment.postings.get(span));
        let skips = span(&skips.ends, place).and_then(|span| skips.all.get(span)).unwrap_or_default();
        let mut postings = segment.postings(place);
        let current = postings.next();
        Self { bytes: bytes.unwrap_or_default(), skips, postings, current }
    }

    /// How often a document has the term; it is asked for documents in their order.
    pub(super) fn frequency(&mut self, document: u32) -> u32 {
        let n_passed = self.skips.partition_point(|skip| skip.document < document);
        if let Some(skip) = n_passed.checked_sub(1).and_then(|last| self.skips.get(last)) {
            if self.current.is_some_and(|(current, _)| current <= skip.document) {
                let rest = self.bytes.get(skip.offset as usize..).unwrap_or_default();
                self.postings = Postings { rest: rest.iter(), document: skip.document };
                self.current = self.postings.next();
            }
            self.skips = self.skips.get(n_passed..).unwrap_or_default();
        }
        while let Some((current, frequency)) = self.current {
            if current >= document {
                return if current == document { frequency } else { 0 };
            }
            self.current = self.postings.next();
        }
        0
    }
}

/// The range whose end is at this place.
fn span(ends: &[u32], place: usize) -> Option<std::ops::Range<usize>> {
    let end = *ends.get(place)? as usize;
    let start = place.checked_sub(1).and_then(|before| ends.get(before)).map_or(0, |end| *end as usize);
    Some(start..end)
}

/// Documents with a term, and how often each has it.
pub(super) struct Postings<'a> {
    rest: std::slice::Iter<'a, u8>,
    document: u32,
}

impl Iterator for Postings<'_> {
    type Item = (u32, u32);

    #[inline]
    fn next(&mut self) -> Option<(u32, u32)> {
        let code = read_number(&mut self.rest)?;
        self.document = self.document.wrapping_add(code >> 1);
        let frequency = if code & 1 == 1 { 1 } else { read_number(&mut self.rest)? };
        Some((self.document, frequency))
    }
}

/// A number of seven bits a byte, the lowest first.
#[inline]
fn read_number(bytes: &mut std::slice::Iter<'_, u8>) -> Option<u32> {
    let (mut number, mut shift) = (0_u32, 0);
    loop {
        let byte = *bytes.next()?;
        number |= u32::from(byte & 0x7f).checked_shl(shift)?;
        if byte < 0x80 {
            return Some(number);
        }
        shift += 7;
    }
}

fn write_number(mut number: u32, bytes: &mut Vec<u8>) {
    while number >= 0x80 {
        bytes.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// A segment that is being built.
#[derive(Debug, Default)]
pub(super) struct SegmentBuilder {
    /// The place of each word's term: most words occur many times, and a word is always the same term.
    words: HashMap<Box<str>, Option<u32>>,
    places: HashMap<Box<str>, u32>,
    lists: Vec<List>,
    lengths: Vec<u8>,
    n_terms: u64,
    n_bytes: usize,
}

/// The postings of one term so far.
#[derive(Debug, Default)]
struct List {
    bytes: Vec<u8>,
    n_documents: u32,
    /// The last document that is in the bytes.
    written: u32,
    /// The document under way, and how often it has the term so far; 0 before the first one.
    document: u32,
    frequency: u32,
}

impl List {
    /// Writes the document under way; returns the bytes that it takes.
    fn flush(&mut self) -> usize {
        if self.frequency == 0 {
            return 0;
        }
        let before = self.bytes.len();
        let difference = self.document - self.written;
        write_number(difference << 1 | u32::from(self.frequency == 1), &mut self.bytes);
        if self.frequency != 1 {
            write_number(self.frequency, &mut self.bytes);
        }
        (self.written, self.n_documents) = (self.document, self.n_documents + 1);
        self.frequency = 0;
        self.bytes.len() - before
    }
}

impl SegmentBuilder {
    /// True if no further document fits.
    pub(super) fn is_full(&self) -> bool {
        self.lengths.len() >= MAX_DOCUMENTS || self.n_bytes >= MAX_POSTING_BYTES
    }

    /// True if it has no document.
    pub(super) fn is_empty(&self) -> bool {
        self.lengths.is_empty()
    }

    /// Adds a document.
    pub(super) fn add(&mut self, text: &str) {
        let document = self.lengths.len() as u32;
        let mut length = 0_u32;
        for word in words(text) {
            let place = match self.words.get(word) {
                Some(place) => *place,
                None => {
                    let place = term(word).map(|term| self.place_of(term));
                    self.words.insert(word.into(), place);
                    place
                }
            };
            if let Some(place) = place {
                length += 1;
                self.count(place, document);
            }
        }
        self.n_terms += u64::from(length);
        self.lengths.push(length_byte(length));
    }

    fn place_of(&mut self, term: String) -> u32 {
        let n_places = self.lists.len() as u32;
        let place = *self.places.entry(term.into()).or_insert(n_places);
        if place == n_places {
            self.lists.push(List::default());
        }
        place
    }

    fn count(&mut self, place: u32, document: u32) {
        let Some(list) = self.lists.get_mut(place as usize) else { return };
        if list.frequency > 0 && list.document == document {
            list.frequency += 1;
            return;
        }
        self.n_bytes += list.flush();
        (list.document, list.frequency) = (document, 1);
    }

    /// The segment of all documents.
    pub(super) fn finish(self) -> Segment {
        let Self { places, mut lists, lengths, n_terms, .. } = self;
        let mut terms: Vec<(Box<str>, u32)> = places.into_iter().collect();
        terms.sort_unstable();
        let mut made = Segment { lengths, n_terms, ..Segment::default() };
        for (term, place) in terms {
            let Some(list) = lists.get_mut(place as usize) else { continue };
            list.flush();
            made.term_bytes.extend_from_slice(term.as_bytes());
            made.term_ends.push(made.term_bytes.len() as u32);
            made.frequencies.push(list.n_documents);
            made.postings.append(&mut list.bytes);
            made.posting_ends.push(made.postings.len() as u32);
        }
        made
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn postings_come_back_as_they_were_counted() {
        let mut builder = SegmentBuilder::default();
        let texts: Vec<String> =
            (0..400).map(|n| format!("{} {} rare{n}", "common ".repeat(n % 3), "x".repeat(n % 5))).collect();
        texts.iter().for_each(|text| builder.add(text));
        let segment = builder.finish();
        let place = segment.find("common").unwrap();
        let found: Vec<(u32, u32)> = segment.postings(place).collect();
        let expect: Vec<(u32, u32)> = (0..400_u32).filter(|n| n % 3 > 0).map(|n| (n, n % 3)).collect();
        assert_eq!(found, expect);
        assert_eq!(segment.frequencies[place] as usize, expect.len());
        let skips = Skips::of(&segment);
        let mut seeker = Seeker::new(&segment, &skips, place);
        for document in [0, 1, 2, 200, 201, 270, 271, 398, 399] {
            assert_eq!(seeker.frequency(document), document % 3, "{document}");
        }
        assert_eq!(segment.find("absent"), None);
        let rare = segment.find("rare399").unwrap();
        assert_eq!(segment.postings(rare).collect::<Vec<_>>(), [(399, 1)]);
    }

    #[test]
    fn numbers_of_any_size_are_read_as_they_were_written() {
        for number in [0, 1, 127, 128, 300, 1 << 14, 1 << 21, u32::MAX] {
            let mut bytes = Vec::new();
            write_number(number, &mut bytes);
            assert_eq!(read_number(&mut bytes.iter()), Some(number));
        }
        // Bytes that are not a number are the end and no panic.
        assert_eq!(read_number(&mut [0xff_u8; 9].iter()), None);
        assert_eq!(read_number(&mut [0x80_u8].iter()), None);
    }
}
