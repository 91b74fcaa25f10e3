//! Whether a skill already says what an edit would add.

use super::draft::Draft;
use crate::fold::{Block, BlockKind, FoldedText, Level, TokenKind};
use memchr::memmem;

/// How many places of a content's longest word are looked at before the content is compared in full.
const MAX_SEEDS: usize = 2048;

/// Whether every rule of a content is in the skill: each of its items and paragraphs, compared as a reader sees
/// them (see [`crate::fold`]).
///
/// The same words under another heading can mean something else. So below a heading that the content brings along, a
/// rule counts only if the skill has it below the same heading; and for an insertion at the place `at`, only if it
/// is in the section of that place, or in what is said for all: above the first heading or below the title. Text
/// in protected regions does not count, since it may be rewritten.
pub(super) fn is_said(draft: &mut Draft, content: &str, at: Option<usize>) -> bool {
    if !could_be_said(draft.text(), content) {
        return false;
    }
    let content = FoldedText::new(content);
    let rules = Rules::of(&content);
    if !rules.0.iter().any(|rule| !rule.is_heading) {
        return false;
    }
    let (_, skill) = draft.folded();
    let said = Rules::of(skill);
    let place = at.map(|at| section_at(skill, at));
    rules.0.iter().all(|rule| {
        said.0.iter().any(|other| {
            let fits = match (rule.is_heading, rule.section.as_deref(), &place) {
                (true, _, _) => other.is_heading,
                (false, Some(heading), _) => other.section.as_deref() == Some(heading),
                (false, None, Some(place)) => other.is_for_all || other.section == *place,
                (false, None, None) => true,
            };
            fits && rule.text == other.text
        })
    })
}

/// An item, a paragraph or a heading.
struct Rule {
    text: String,
    is_heading: bool,
    /// The heading that it is below.
    section: Option<String>,
    /// It is above all headings, or below the title alone.
    is_for_all: bool,
}

struct Rules(Vec<Rule>);

impl Rules {
    fn of(text: &FoldedText) -> Self {
        let mut rules = Vec::new();
        let mut section: Option<String> = None;
        let mut is_for_all = true;
        for block in text.blocks().iter().filter(|block| has_words(text, block)) {
            let is_heading = block.kind == BlockKind::Heading;
            let key = key_of(text, block);
            if is_heading {
                is_for_all = section.is_none() && is_title(text, block);
                section = Some(key.clone());
            }
            rules.push(Rule { text: key, is_heading, section: section.clone(), is_for_all });
        }
        Self(rules)
    }
}

/// Whether a heading is one of the first level: as the first of a document it is the title.
fn is_title(text: &FoldedText, heading: &Block) -> bool {
    let marker = text.tokens().get(heading.tokens.clone()).and_then(<[_]>::first);
    marker.is_some_and(|marker| text.text_of(marker) == "#")
}

fn has_words(text: &FoldedText, block: &Block) -> bool {
    let tokens = text.tokens().get(block.tokens.clone()).expect("the tokens of a block are the text's");
    tokens.iter().any(|token| token.kind == TokenKind::Word)
}

/// What a block says: its words, without the sign that ends it.
fn key_of(text: &FoldedText, block: &Block) -> String {
    let rendered = text.render(block.tokens.clone(), Level::Words).text;
    rendered.trim_matches([' ', '.', ',', ';', ':', '!']).to_owned()
}

/// The heading above a place.
fn section_at(text: &FoldedText, at: usize) -> Option<String> {
    let is_above = |block: &&Block| block.kind == BlockKind::Heading && block.range.start < at;
    text.blocks().iter().rfind(is_above).map(|block| key_of(text, block))
}

/// Whether the letters and digits of some line of the content follow each other somewhere in the text, whatever stands
/// between them: most contents are new, and this shows it without taking the skill apart.
fn could_be_said(text: &str, content: &str) -> bool {
    let longest = |line: &str| {
        line.split(|char: char| !char.is_ascii_alphanumeric())
            .max_by_key(|word| word.len())
            .filter(|word| word.len() > 1)
            .map(str::to_owned)
    };
    let Some((line, word)) =
        content.lines().filter_map(|line| Some((line, longest(line)?))).max_by_key(|(_, word)| word.len())
    else {
        return true;
    };
    let Some(at) = line.find(&word) else { return true };
    // A word's first letter may be a capital in one place and not in the other.
    let Some(rest) = line.get(at + 1..) else { return true };
    let seed = word.get(1..).unwrap_or_default();
    let bytes = text.as_bytes();
    let mut n_seen = 0;
    for found in memmem::find_iter(bytes, seed) {
        n_seen += 1;
        if n_seen > MAX_SEEDS
            || follows(bytes.get(found..).expect("the seed was found there"), rest.as_bytes())
        {
            return true;
        }
    }
    false
}

/// Whether all letters and digits of `wanted` come next in `text`, in order, with nothing but other characters between,
/// and end with a word.
fn follows(text: &[u8], wanted: &[u8]) -> bool {
    let mut rest = text.iter();
    let mut wanted = wanted.iter().filter(|byte| byte.is_ascii_alphanumeric());
    wanted.all(|wanted| {
        rest.find(|byte| byte.is_ascii_alphanumeric()).is_some_and(|byte| byte.eq_ignore_ascii_case(wanted))
    }) && !rest.next().is_some_and(u8::is_ascii_alphanumeric)
}
