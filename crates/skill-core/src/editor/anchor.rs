//! Where an anchor is that a model did not copy to the letter.
//!
//! The skill and the anchor are compared as a reader sees them (see [`crate::fold`]), first strictly and then more
//! loosely. The first level at which the anchor occurs decides: in one place, that is the place; in several, there is
//! none, since a looser level finds those too. An anchor that stands for more than it quotes ("Read the table ...")
//! means the whole item that starts so. Other words are never the same words: what is merely similar is another rule.

use crate::fold::{BlockKind, FoldedText, Level, Rendered, Token, TokenKind, is_closing_sign};
use memchr::memmem;
use std::borrow::Cow;
use std::ops::Range;

/// How many occurrences are looked at: an anchor that occurs more often has no single place.
const MAX_OCCURRENCES: usize = 64;

/// How many words a quotation must have that leaves the rest of its item out.
const MIN_WORDS_BEFORE_DOTS: usize = 2;

/// What an anchor may end or go on with where it leaves something out.
const DOTS: [&str; 6] = ["[...]", "(...)", "[…]", "(…)", "...", "…"];

/// What the search for an anchor came to.
#[derive(Debug)]
pub(super) enum Folded {
    /// One place fits.
    At(Place),
    /// Several places fit at the same level.
    Several,
    /// No place fits.
    Nowhere,
}

/// The tokens that an anchor stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    /// The first and the last of them.
    pub(super) tokens: (usize, usize),
    level: Level,
    /// The anchor has a marker of an item or heading in front.
    is_marked: bool,
    /// The anchor has marks of emphasis, code or quotation at its start.
    is_wrapped: bool,
}

/// What is to become of a place, as far as its edges depend on that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Use<'c> {
    /// This content comes into its stead.
    Replace(&'c str),
    /// It goes.
    Delete,
}

/// Looks for the only place where the anchor can stand.
pub(super) fn find(skill: &FoldedText, anchor: &str) -> Folded {
    let readings = readings(anchor);
    for level in Level::ALL {
        let whole = skill.render(0..skill.tokens().len(), level);
        for reading in &readings {
            match (Search { skill, whole: &whole, level }).find(reading) {
                Folded::Nowhere => {}
                found => return found,
            }
        }
    }
    Folded::Nowhere
}

/// An anchor, taken apart; `None` for what stands after the dots if there are none.
struct Reading {
    head: FoldedText,
    tail: Option<FoldedText>,
}

/// The ways in which an anchor can be meant: as it is; with its escaped line breaks as line breaks; without quotation
/// marks around it; with its dots for what it leaves out.
fn readings(anchor: &str) -> Vec<Reading> {
    let plain: Cow<'_, str> = if anchor.contains("\\n") {
        Cow::Owned(anchor.replace("\\r", "").replace("\\n", "\n").replace("\\t", "\t"))
    } else {
        Cow::Borrowed(anchor)
    };
    let whole = |text: &str| Reading { head: FoldedText::new(text), tail: None };
    let mut readings = vec![whole(anchor)];
    if plain != anchor {
        readings.push(whole(&plain));
    }
    let trimmed = plain.trim();
    if let Some(inner) = without_quotes(trimmed) {
        readings.push(whole(inner));
    }
    let cut = DOTS.iter().filter_map(|dots| trimmed.find(dots).map(|at| (at, dots.len())));
    // The first dots; of those that start there the longest, as a bracket belongs to them.
    if let Some((at, length)) = cut.min_by_key(|(at, length)| (*at, usize::MAX - length)) {
        let (head, tail) = trimmed.split_at(at);
        let tail = tail.get(length..).expect("the dots are there");
        let head = FoldedText::new(head.trim_end().trim_end_matches([',', ';', ':']));
        let tail = Some(FoldedText::new(tail)).filter(|tail| n_words(tail, tail.tokens().len()) > 0);
        readings.push(Reading { tail: Some(tail.unwrap_or_default()), head });
    }
    readings
}

fn without_quotes(text: &str) -> Option<&str> {
    const PAIRS: [(char, char); 5] = [('"', '"'), ('\'', '\''), ('`', '`'), ('“', '”'), ('«', '»')];
    PAIRS.iter().find_map(|(opening, closing)| text.strip_prefix(*opening)?.strip_suffix(*closing))
}

fn n_words(text: &FoldedText, end: usize) -> usize {
    let tokens = text.tokens().get(..end).expect("the end is one of these tokens");
    tokens.iter().filter(|token| token.kind == TokenKind::Word).count()
}

/// A search at one level.
struct Search<'s> {
    skill: &'s FoldedText,
    whole: &'s Rendered,
    level: Level,
}

impl Search<'_> {
    fn find(&self, reading: &Reading) -> Folded {
        match &reading.tail {
            None => self.find_whole(&reading.head),
            Some(tail) => self.find_item(&reading.head, tail),
        }
    }

    /// The only place where all of the anchor stands.
    fn find_whole(&self, anchor: &FoldedText) -> Folded {
        let mut end = anchor.tokens().len();
        if self.level == Level::Words {
            // Whether a sentence has its full stop says nothing.
            let last = anchor.kept(0..end, self.level).last();
            end = last
                .filter(|(_, token)| is_closing_sign(anchor.text_of(token)))
                .map_or(end, |(token_idx, _)| token_idx);
        }
        let n_words = n_words(anchor, end);
        if n_words == 0 {
            return Folded::Nowhere;
        }
        let whole_lines = n_words == 1 && self.level > Level::Looks;
        self.only(anchor, end, |tokens| {
            (self.fits(anchor, end, tokens) && (!whole_lines || self.is_whole_lines(tokens)))
                .then_some(tokens)
        })
    }

    /// The only item that starts like this and ends like that.
    fn find_item(&self, head: &FoldedText, tail: &FoldedText) -> Folded {
        let end = head.tokens().len();
        if n_words(head, end) < MIN_WORDS_BEFORE_DOTS {
            return Folded::Nowhere;
        }
        let mut tail_end = tail.tokens().len();
        if let Some((last_idx, last)) = tail.kept(0..tail_end, self.level).last()
            && is_closing_sign(tail.text_of(last))
        {
            tail_end = last_idx;
        }
        let tail = tail.render(0..tail_end, self.level).text;
        self.only(head, end, |(first, last)| {
            let starts_line = self.token(first).is_some_and(|token| token.is_first);
            if !starts_line || !self.fits(head, end, (first, last)) {
                return None;
            }
            let block = self.skill.blocks().get(self.token(first)?.block)?;
            if self.token(last)?.block != self.token(first)?.block {
                return None;
            }
            let rest = last + 1..block.tokens.end;
            let end = self.skill.kept(first..block.tokens.end, self.level).last()?.0;
            let text = self.skill.render(rest, self.level).text;
            let text = text.trim_end_matches(['.', ',', ';', ':', '!', '?', ' ']);
            (tail.trim().is_empty() || format!("{text} ").ends_with(&tail)).then_some((first, end))
        })
    }

    fn token(&self, token_idx: usize) -> Option<&Token> {
        self.skill.tokens().get(token_idx)
    }

    /// The only place that `accept` takes, of all where the first tokens of the anchor stand.
    fn only(
        &self,
        anchor: &FoldedText,
        end: usize,
        accept: impl Fn((usize, usize)) -> Option<(usize, usize)>,
    ) -> Folded {
        let needle = anchor.render(0..end, self.level).text;
        if needle.len() < 2 {
            return Folded::Nowhere;
        }
        let finder = memmem::Finder::new(&needle);
        let mut only = None;
        let mut from = 0;
        let mut n_seen = 0;
        while let Some(offset) = self.whole.text.as_bytes().get(from..).and_then(|rest| finder.find(rest)) {
            let at = from + offset;
            from = at + 1;
            n_seen += 1;
            if n_seen > MAX_OCCURRENCES {
                return Folded::Several;
            }
            let (Some(first), Some(last)) =
                (self.whole.token_at(at), self.whole.token_before(at + needle.len() - 1))
            else {
                continue;
            };
            let Some(tokens) = accept((first, last)) else { continue };
            if only.is_some_and(|only| only != tokens) {
                return Folded::Several;
            }
            only = Some(tokens);
        }
        let Some(tokens) = only else { return Folded::Nowhere };
        let first = anchor.tokens().iter().find(|token| !token.is_dropped(self.level));
        let edge = anchor.tokens().iter().find(|token| token.kind != TokenKind::Marker);
        Folded::At(Place {
            tokens,
            level: self.level,
            is_marked: first.is_some_and(|token| token.is_marked || token.kind == TokenKind::Marker),
            is_wrapped: edge.is_some_and(Token::is_pairing),
        })
    }

    /// Whether what comes after a marker in the anchor starts a line here, and what is a heading there is a whole
    /// line that could be one.
    fn fits(&self, anchor: &FoldedText, end: usize, (first, last): (usize, usize)) -> bool {
        if self.level == Level::Looks {
            return true;
        }
        let here = self.skill.kept(first..last + 1, self.level);
        anchor.kept(0..end, self.level).zip(here).all(|((_, there), (_, here))| {
            let in_heading =
                anchor.blocks().get(there.block).is_some_and(|block| block.kind == BlockKind::Heading);
            if !in_heading {
                return !(there.is_first && there.is_marked) || here.is_first;
            }
            let kind = self.skill.blocks().get(here.block).map(|block| block.kind);
            let is_last = if self.level == Level::Words { there.is_nearly_last } else { there.is_last };
            let ends = if self.level == Level::Words { here.is_nearly_last } else { here.is_last };
            matches!(kind, Some(BlockKind::Heading | BlockKind::Plain))
                && (!there.is_first || here.is_first)
                && (!is_last || ends)
        })
    }

    fn is_whole_lines(&self, (first, last): (usize, usize)) -> bool {
        self.token(first).is_some_and(|token| token.is_first)
            && self.token(last).is_some_and(|token| token.is_nearly_last)
    }
}

impl Place {
    /// The bytes that a person would take for the anchor: whole words, no half marks of emphasis or quotation, the
    /// marker where the anchor has one, and what else of a whole line is left. `None` if there is no such range.
    pub(super) fn range(&self, text: &str, skill: &FoldedText, used: Use<'_>) -> Option<Range<usize>> {
        let (first, last) = self.with_pairs(skill, used)?;
        let tokens = skill.tokens();
        let (first_token, last_token) = (tokens.get(first)?, tokens.get(last)?);
        let mut range = first_token.range.start..last_token.range.end;
        if first_token.is_first && last_token.is_nearly_last {
            range.end = line_content_end(text, range.end, tokens, last);
        }
        let is_whole = first_token.is_first && (last_token.is_nearly_last || last_token.is_last);
        let wants_marker = match used {
            Use::Delete => self.is_marked || is_whole,
            Use::Replace(content) => self.is_marked || starts_with_marker(content),
        };
        if first_token.is_first && wants_marker {
            let mut markers =
                tokens.get(..first).expect("the first token of the place is one of the skill's").iter().rev();
            // A quotation's sign stays: it belongs to the lines around as well.
            while let Some(marker) = markers.next().filter(|token| {
                token.kind == TokenKind::Marker
                    && token.block == first_token.block
                    && skill.text_of(token) != ">"
            }) {
                range.start = marker.range.start;
            }
        }
        match used {
            Use::Replace(_) => Some(range),
            Use::Delete => Some(whole_lines(text, range)),
        }
    }

    /// The place with the other halves of its marks; `None` if one of them is out of reach.
    fn with_pairs(&self, skill: &FoldedText, used: Use<'_>) -> Option<(usize, usize)> {
        let tokens = skill.tokens();
        let (mut first, mut last) = self.tokens;
        let is_mark = |token: &Token| token.is_pairing() && token.is_dropped(self.level);
        let touching = |before: usize, after: usize| -> Option<bool> {
            Some(tokens.get(before)?.range.end == tokens.get(after)?.range.start)
        };
        loop {
            let before = first.checked_sub(1).filter(|before| touching(*before, first) == Some(true));
            let before = before.and_then(|before| {
                Some((before, tokens.get(before).filter(|token| token.is_pairing())?.pair?))
            });
            let after = Some(last + 1).filter(|after| touching(last, *after) == Some(true));
            let after = after
                .and_then(|after| Some((after, tokens.get(after).filter(|token| token.is_pairing())?.pair?)));
            let wraps = match used {
                Use::Delete => true,
                Use::Replace(content) => self.is_wrapped || content.starts_with(['*', '_', '`', '"']),
            };
            match (before, after) {
                (Some((before, pair)), _) if (first..=last).contains(&pair) => first = before,
                (_, Some((after, pair))) if (first..=last).contains(&pair) => last = after,
                (Some((before, pair)), Some((after, _))) if pair == after && wraps => {
                    (first, last) = (before, after);
                }
                _ => break,
            }
        }
        let is_whole = tokens
            .get(first..=last)?
            .iter()
            .filter(|token| is_mark(token))
            .all(|token| token.pair.is_none_or(|pair| (first..=last).contains(&pair)));
        is_whole.then_some((first, last))
    }

    /// Where the block ends in which the place ends: below it is where a new item goes.
    pub(super) fn block_end(&self, skill: &FoldedText) -> usize {
        let last =
            skill.tokens().get(self.tokens.1).expect("the last token of the place is one of the skill's");
        skill.blocks().get(last.block).map_or(last.range.end, |block| block.range.end)
    }
}

/// The end of a line's last token, where that is the token at hand or the only one behind it.
fn line_content_end(text: &str, end: usize, tokens: &[Token], last: usize) -> usize {
    let mut end = end;
    for token in tokens.get(last + 1..).expect("the last token is one of these").iter().take(4) {
        let between = text.get(end..token.range.start).unwrap_or("\n");
        if between.contains('\n') || !token.is_nearly_last || token.kind == TokenKind::Barrier {
            break;
        }
        end = token.range.end;
    }
    end
}

/// The lines of a range with their line end, if nothing else is in them; the range itself otherwise.
fn whole_lines(text: &str, range: Range<usize>) -> Range<usize> {
    let before = text.get(..range.start).expect("places are on character boundaries");
    let start = before.rfind('\n').map_or(0, |line_end| line_end + 1);
    let after = text.get(range.end..).expect("places are on character boundaries");
    let end = after.find('\n').map_or(text.len(), |line_end| range.end + line_end + 1);
    let is_blank = |range: Range<usize>| text.get(range).is_some_and(|text| text.trim().is_empty());
    if is_blank(start..range.start) && is_blank(range.end..end) { start..end } else { range }
}

/// Whether a content starts with the marker of an item or a heading.
fn starts_with_marker(content: &str) -> bool {
    let line = content.lines().next().unwrap_or_default();
    FoldedText::new(line).tokens().first().is_some_and(|token| token.kind == TokenKind::Marker)
}
