//! Lines into tokens and blocks.

use super::glyph;
use super::{Block, BlockKind, FoldedText, Glyph, Token, TokenKind, is_closing_sign, markup};
use std::ops::Range;

/// How many markers a line may start with, such as a quotation, an item and a check box.
const MAX_MARKERS: usize = 8;

/// The longest number of an item, in digits.
const MAX_NUMBER_DIGITS: usize = 9;

/// What stands for text that cannot be touched; no other token has this character.
const BARRIER: &str = "\u{1f}";

/// Reads a text, one open part after the other.
pub(super) struct Reader<'a> {
    text: &'a str,
    folded: FoldedText,
    glyphs: Vec<Glyph>,
    is_in_code: bool,
    /// The next line may continue the last block.
    is_block_open: bool,
}

/// What a line starts with.
#[derive(Default)]
struct Markers {
    is_heading: bool,
    is_item: bool,
    /// How many tokens they are.
    n_tokens: usize,
}

impl<'a> Reader<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self {
            text,
            folded: FoldedText::default(),
            glyphs: Vec::new(),
            is_in_code: false,
            is_block_open: false,
        }
    }

    /// Notes that something that cannot be touched starts here.
    pub(super) fn barrier(&mut self, at: usize) {
        self.close_block();
        let start = self.folded.pool.len();
        self.folded.pool.push_str(BARRIER);
        let block = self.folded.blocks.len();
        self.push(TokenKind::Barrier, at..at, start);
        let tokens = self.folded.tokens.len() - 1..self.folded.tokens.len();
        debug_assert_eq!(block, self.folded.blocks.len());
        self.folded.blocks.push(Block { kind: BlockKind::Code, tokens, range: at..at });
    }

    pub(super) fn finish(mut self) -> FoldedText {
        self.close_block();
        self.folded
    }

    /// Reads the lines of one open part.
    pub(super) fn read(&mut self, part: Range<usize>) {
        let Some(text) = self.text.get(part.clone()) else { return };
        let mut at = part.start;
        for line in text.split_inclusive('\n') {
            let before = at.checked_sub(1).and_then(|before| self.text.as_bytes().get(before));
            let starts_line = before.is_none_or(|byte| *byte == b'\n');
            let ends_line = line.ends_with('\n') || at + line.len() == self.text.len();
            self.line(line, at, starts_line, ends_line);
            at += line.len();
        }
        self.close_block();
    }

    fn line(&mut self, line: &str, at: usize, starts_line: bool, ends_line: bool) {
        let content = line.trim_end_matches(['\n', '\r']);
        let range = at..at + content.len();
        let trimmed = content.trim();
        if trimmed.is_empty() {
            self.close_block();
            return;
        }
        let is_fence = trimmed.starts_with("```") || trimmed.starts_with("~~~");
        let is_code = is_fence || self.is_in_code;
        self.is_in_code ^= is_fence;

        let mut glyphs = std::mem::take(&mut self.glyphs);
        glyph::read_line(content, at, &mut glyphs);
        let first_token = self.folded.tokens.len();
        let (markers, from) =
            if is_code || !starts_line { (Markers::default(), 0) } else { self.markers(&glyphs) };
        let kind = match (is_code, markers.is_heading, markers.is_item) {
            (true, _, _) => BlockKind::Code,
            (_, true, _) => BlockKind::Heading,
            (_, _, true) => BlockKind::Item,
            _ => BlockKind::Plain,
        };
        let continues = self.is_block_open && kind == BlockKind::Plain;
        if !continues {
            self.close_before(first_token);
            self.folded.blocks.push(Block { kind, tokens: first_token..first_token, range: range.clone() });
        }
        let first_content = self.folded.tokens.len();
        self.words(glyphs.get(from..).unwrap_or_default());
        self.glyphs = glyphs;
        self.mark_line(first_content, &markers, starts_line, ends_line);
        let (end, block_idx) = (self.folded.tokens.len(), self.folded.blocks.len().saturating_sub(1));
        for token in self.folded.tokens.get_mut(first_token..).unwrap_or_default() {
            token.block = block_idx;
        }
        if let Some(block) = self.folded.blocks.last_mut() {
            block.tokens.end = end;
            block.range.end = range.end;
        }
        self.is_block_open = true;
        if matches!(kind, BlockKind::Code | BlockKind::Heading) {
            self.close_block();
        }
    }

    /// Says of the tokens of a line which come first and last.
    fn mark_line(&mut self, from: usize, markers: &Markers, starts_line: bool, ends_line: bool) {
        let pool = &self.folded.pool;
        let Some(tokens) = self.folded.tokens.get_mut(from..) else { return };
        if markers.is_heading {
            // A heading may be closed by signs like those that open it.
            if let Some(last) =
                tokens.last_mut().filter(|last| pool.get(last.text.clone()).is_some_and(is_hashes))
            {
                last.kind = TokenKind::Marker;
            }
        }
        let is_edge = |token: &Token| {
            !matches!(
                token.kind,
                TokenKind::Emphasis | TokenKind::Code | TokenKind::Quote | TokenKind::Marker
            )
        };
        if let Some(first_idx) = tokens.iter().position(is_edge).filter(|_| starts_line) {
            for token in tokens.iter_mut().take(first_idx + 1) {
                token.is_first = true;
                token.is_marked = markers.n_tokens > 0;
            }
        }
        if !ends_line {
            return;
        }
        let closing_sign = |token: &Token| pool.get(token.text.clone()).is_some_and(is_closing_sign);
        let mut is_nearly_last_only = false;
        for token in tokens.iter_mut().rev() {
            token.is_last = !is_nearly_last_only;
            token.is_nearly_last = true;
            if is_edge(token) {
                if is_nearly_last_only || !closing_sign(token) {
                    break;
                }
                is_nearly_last_only = true;
            }
        }
    }

    /// Reads the markers that a line starts with, and gives the place of the first glyph behind them.
    fn markers(&mut self, glyphs: &[Glyph]) -> (Markers, usize) {
        let mut markers = Markers::default();
        let mut at = skip_spaces(glyphs, 0);
        for _ in 0..MAX_MARKERS {
            let rest = glyphs.get(at..).unwrap_or_default();
            let (length, is_heading, is_item) = if let Some(length) = heading_len(rest) {
                (length, true, false)
            } else if let Some(length) =
                item_len(rest).or_else(|| check_box_len(rest).filter(|_| markers.is_item))
            {
                (length, false, true)
            } else if rest.first().is_some_and(|glyph| glyph.char == '>') {
                (1, false, false)
            } else {
                break;
            };
            let first_token = self.folded.tokens.len();
            self.words(rest.get(..length).unwrap_or_default());
            for token in self.folded.tokens.get_mut(first_token..).unwrap_or_default() {
                token.kind = TokenKind::Marker;
                markers.n_tokens += 1;
            }
            markers.is_heading |= is_heading;
            markers.is_item |= is_item;
            at = skip_spaces(glyphs, at + length);
            if is_heading {
                break;
            }
        }
        (markers, at)
    }

    /// Reads words and signs.
    fn words(&mut self, glyphs: &[Glyph]) {
        let mut at = 0;
        while let Some(glyph) = glyphs.get(at) {
            let rest = glyphs.get(at..).unwrap_or_default();
            let (length, kind) = match glyph.char {
                ' ' => {
                    at += 1;
                    continue;
                }
                _ if glyph.is_ideograph() => (1, TokenKind::Word),
                _ if glyph.is_word() => {
                    let length = word_len(rest);
                    self.word(rest.get(..length).unwrap_or_default());
                    at += length;
                    continue;
                }
                '"' | '\'' => (1, TokenKind::Quote),
                '*' => (run_len(rest), TokenKind::Emphasis),
                '`' => (run_len(rest), TokenKind::Code),
                '#' | '=' | '~' if run_len(rest) > 1 => (run_len(rest), TokenKind::Sign),
                _ => {
                    let (folded, length) = sign(rest);
                    self.token(TokenKind::Sign, &[folded], rest.get(..length).unwrap_or_default());
                    at += length;
                    continue;
                }
            };
            let run = rest.get(..length).unwrap_or_default();
            self.token_of(kind, run);
            at += length;
        }
    }

    /// A word; underscores at its ends are marks of emphasis.
    fn word(&mut self, run: &[Glyph]) {
        let is_underscore = |glyph: &&Glyph| glyph.char == '_';
        let n_before = run.iter().take_while(is_underscore).count();
        if n_before == run.len() {
            self.token_of(TokenKind::Emphasis, run);
            return;
        }
        let n_after = run.iter().rev().take_while(is_underscore).count();
        let inner = n_before..run.len() - n_after;
        if n_before > 0 {
            self.token_of(TokenKind::Emphasis, run.get(..n_before).unwrap_or_default());
        }
        self.token_of(TokenKind::Word, run.get(inner.clone()).unwrap_or_default());
        if n_after > 0 {
            self.token_of(TokenKind::Emphasis, run.get(inner.end..).unwrap_or_default());
        }
    }

    fn token_of(&mut self, kind: TokenKind, run: &[Glyph]) {
        let start = self.folded.pool.len();
        self.folded.pool.extend(run.iter().map(|glyph| glyph.char));
        self.push_run(kind, run, start);
    }

    fn token(&mut self, kind: TokenKind, folded: &[char], run: &[Glyph]) {
        let start = self.folded.pool.len();
        self.folded.pool.extend(folded);
        self.push_run(kind, run, start);
    }

    fn push_run(&mut self, kind: TokenKind, run: &[Glyph], text_start: usize) {
        if let (Some(first), Some(last)) = (run.first(), run.last()) {
            self.push(kind, first.range.start..last.range.end, text_start);
        }
    }

    fn push(&mut self, kind: TokenKind, range: Range<usize>, text_start: usize) {
        self.folded.tokens.push(Token {
            range,
            kind,
            text: text_start..self.folded.pool.len(),
            pair: None,
            block: self.folded.blocks.len(),
            is_first: false,
            is_marked: false,
            is_last: false,
            is_nearly_last: false,
        });
    }

    fn close_block(&mut self) {
        self.close_before(self.folded.tokens.len());
    }

    /// Ends the open block in front of this token, and finds out what belongs together in it.
    fn close_before(&mut self, token_idx: usize) {
        if !std::mem::replace(&mut self.is_block_open, false) {
            return;
        }
        let FoldedText { pool, tokens, blocks } = &mut self.folded;
        let Some(block) = blocks.last() else { return };
        markup::pair(tokens, block.tokens.start..token_idx, |token| {
            let text = pool.get(token.text.clone()).unwrap_or_default();
            (text.chars().next().unwrap_or_default(), text.len())
        });
    }
}

fn skip_spaces(glyphs: &[Glyph], at: usize) -> usize {
    let rest = glyphs.get(at..).unwrap_or_default();
    at + rest.iter().take_while(|glyph| glyph.is_space()).count()
}

fn run_len(rest: &[Glyph]) -> usize {
    let first = rest.first().map(|glyph| glyph.char);
    rest.iter().take_while(|glyph| Some(glyph.char) == first).count()
}

/// The length of a word: an apostrophe between two letters is part of it.
fn word_len(rest: &[Glyph]) -> usize {
    let mut length = rest.iter().take_while(|glyph| glyph.char.is_ascii_alphanumeric()).count();
    loop {
        match (rest.get(length), rest.get(length + 1)) {
            (Some(glyph), _) if glyph.is_word() && !glyph.is_ideograph() => length += 1,
            (Some(quote), Some(next)) if quote.char == '\'' && next.is_letter() && length > 0 => length += 1,
            _ => return length,
        }
    }
}

/// A sign that is written with several characters, or the one that is here; and how many glyphs it takes.
fn sign(rest: &[Glyph]) -> (char, usize) {
    let char = |offset: usize| rest.get(offset).map(|glyph| glyph.char);
    let first = char(0).unwrap_or_default();
    match (first, char(1), char(2)) {
        ('.', Some('.'), Some('.')) => ('…', 3),
        ('<', Some('='), _) => ('≤', 2),
        ('>', Some('='), _) => ('≥', 2),
        ('!', Some('='), _) => ('≠', 2),
        ('-' | '=', Some('>'), _) => ('→', 2),
        ('-', Some('-'), Some('-')) => ('-', 3),
        ('-', Some('-'), _) => ('-', 2),
        _ => (first, 1),
    }
}

/// Whether a marker of this length is followed by a space or nothing.
fn ends_marker(rest: &[Glyph], length: usize) -> bool {
    rest.get(length).is_none_or(Glyph::is_space)
}

fn heading_len(rest: &[Glyph]) -> Option<usize> {
    let length = run_len(rest);
    let is_heading = rest.first().is_some_and(|glyph| glyph.char == '#') && length <= 6;
    (is_heading && ends_marker(rest, length)).then_some(length)
}

fn item_len(rest: &[Glyph]) -> Option<usize> {
    let char = |offset: usize| rest.get(offset).map(|glyph| glyph.char);
    let is_digit = |offset: usize| char(offset).is_some_and(|char| char.is_ascii_digit());
    let length = match char(0)? {
        '-' | '*' | '+' | '•' | '‣' | '◦' | '▪' | '·' => 1,
        '(' if char(2) == Some(')') && char(1).is_some_and(|char| char.is_ascii_alphanumeric()) => 3,
        'a'..='z' if matches!(char(1), Some('.' | ')')) => 2,
        'A'..='Z' if char(1) == Some(')') => 2,
        '0'..='9' => {
            let n_digits = (0..=MAX_NUMBER_DIGITS).take_while(|offset| is_digit(*offset)).count();
            let is_item = n_digits <= MAX_NUMBER_DIGITS && matches!(char(n_digits), Some('.' | ')'));
            is_item.then_some(n_digits + 1)?
        }
        _ => return None,
    };
    ends_marker(rest, length).then_some(length)
}

fn check_box_len(rest: &[Glyph]) -> Option<usize> {
    let char = |offset: usize| rest.get(offset).map(|glyph| glyph.char);
    let is_box = char(0) == Some('[') && matches!(char(1), Some(' ' | 'x' | 'X')) && char(2) == Some(']');
    (is_box && ends_marker(rest, 3)).then_some(3)
}

fn is_hashes(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte == b'#')
}
