//! Which marks of emphasis, code and quotation belong together.

use super::{Token, TokenKind};
use std::collections::BTreeMap;
use std::ops::Range;

/// How many open marks of emphasis are remembered: more are never nested in text that a person can read.
const MAX_OPEN: usize = 16;

/// Pairs the marks of a block; a mark without a partner is a sign of the text.
pub(super) fn pair(tokens: &mut [Token], block: Range<usize>, text_of: impl Fn(&Token) -> (char, usize)) {
    let mut pairs: Vec<(usize, usize)> = Vec::new();
    let code = pair_code(tokens, &block, &text_of, &mut pairs);
    let mut open: Vec<(usize, (char, usize))> = Vec::new();
    let mut quotes: [Option<usize>; 2] = [None, None];
    let mut code_ranges = code.iter().peekable();
    for token_idx in block {
        while code_ranges.next_if(|(_, end)| *end < token_idx).is_some() {}
        let is_code = code_ranges.peek().is_some_and(|(start, end)| (*start..=*end).contains(&token_idx));
        let Some(token) = tokens.get(token_idx) else { continue };
        match token.kind {
            TokenKind::Quote => {
                let kind = usize::from(text_of(token).0 == '\'');
                if let Some(place) = quotes.get_mut(kind) {
                    match place.take() {
                        Some(opening) => pairs.push((opening, token_idx)),
                        None => *place = Some(token_idx),
                    }
                }
            }
            TokenKind::Emphasis if !is_code => {
                let touches_before = touches(tokens, token_idx.checked_sub(1), token_idx);
                let touches_after = touches(tokens, Some(token_idx), token_idx + 1);
                let mark = text_of(token);
                let opening = open.iter().rposition(|(_, other)| *other == mark).filter(|_| touches_before);
                if let Some(opening) = opening {
                    pairs.extend(open.get(opening).map(|(at, _)| (*at, token_idx)));
                    open.truncate(opening);
                } else if touches_after && open.len() < MAX_OPEN {
                    open.push((token_idx, mark));
                }
            }
            _ => {}
        }
    }
    for (opening, closing) in pairs {
        if let Some(token) = tokens.get_mut(opening) {
            token.pair = Some(closing);
        }
        if let Some(token) = tokens.get_mut(closing) {
            token.pair = Some(opening);
        }
    }
}

/// Pairs runs of backticks of the same length, and gives the ranges between them.
fn pair_code(
    tokens: &[Token],
    block: &Range<usize>,
    text_of: &impl Fn(&Token) -> (char, usize),
    pairs: &mut Vec<(usize, usize)>,
) -> Vec<(usize, usize)> {
    let mut open: BTreeMap<usize, usize> = BTreeMap::new();
    let mut code = Vec::new();
    for token_idx in block.clone() {
        let Some(token) = tokens.get(token_idx).filter(|token| token.kind == TokenKind::Code) else {
            continue;
        };
        let (_, length) = text_of(token);
        match open.remove(&length) {
            Some(opening) => {
                pairs.push((opening, token_idx));
                code.push((opening, token_idx));
                open.clear();
            }
            None => drop(open.insert(length, token_idx)),
        }
    }
    code
}

/// Whether no space is between two neighbours.
fn touches(tokens: &[Token], before: Option<usize>, after: usize) -> bool {
    let (Some(before), Some(after)) = (before.and_then(|before| tokens.get(before)), tokens.get(after))
    else {
        return false;
    };
    before.range.end == after.range.start && before.kind != TokenKind::Barrier
}
