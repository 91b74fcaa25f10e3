//! The rules of a skill: the pieces that can be taken out of it one by one.
//!
//! A rule is an item of a list with everything that is nested in it, a paragraph with the code that belongs to it, or a
//! table. Headings are no rules; one goes with the last rule of its section. Protected regions, and the lines that
//! separate the files of a package, are never part of a rule and never go.

use crate::region::{RegionKind, protected_regions};
use crate::skill::SkillDoc;
use std::ops::Range;

/// What the lines that separate the files of a package begin with.
const BOUNDARY: &str = "<!-- SKILL_";

/// A line that is indented by so many columns more than an item belongs to it.
const NESTED_INDENT: usize = 2;

/// A piece of a skill that can be taken out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkillRule {
    /// Its lines, counted from 0.
    pub lines: Range<usize>,
    /// Its text, without the line break at its end.
    pub text: String,
}

/// The rules of a skill, in order.
///
/// ```
/// use skill_core::SkillDoc;
/// use skill_core::rules::{skill_rules, without_rules};
///
/// let skill = SkillDoc::new("# Clerk\n\nBe brief.\n\n## Dates\n\n- Write years first.\n  - Always.\n");
/// let rules = skill_rules(&skill);
/// let texts: Vec<&str> = rules.iter().map(|rule| rule.text.as_str()).collect();
/// assert_eq!(texts, ["Be brief.", "- Write years first.\n  - Always."]);
/// assert_eq!(without_rules(&skill, &rules, |rule_idx| rule_idx == 1).source_text(), "# Clerk\n\nBe brief.\n");
/// ```
pub fn skill_rules(skill: &SkillDoc) -> Vec<SkillRule> {
    let text = skill.source_text();
    let texts: Vec<&str> = text.lines().collect();
    let mut found: Vec<Found> = Vec::new();
    let mut open: Option<Found> = None;
    let mut is_after_blank = false;
    for (line_idx, kind) in line_kinds(text).into_iter().enumerate() {
        if kind == LineKind::Blank {
            is_after_blank = true;
            continue;
        }
        let continues = open.as_ref().is_some_and(|rule| rule.takes(kind, is_after_blank));
        is_after_blank = false;
        match &mut open {
            Some(rule) if continues => rule.lines.end = line_idx + 1,
            _ => {
                found.extend(open.take());
                open = Found::begins(kind, line_idx);
            }
        }
    }
    found.extend(open);
    let text_of =
        |lines: &Range<usize>| texts.get(lines.clone()).expect("rules are lines of the skill").join("\n");
    found.into_iter().map(|rule| SkillRule { text: text_of(&rule.lines), lines: rule.lines }).collect()
}

/// The skill without the rules of these indices, where `rules` are those of [`skill_rules`].
///
/// A heading goes with the last rule of its section; the title of the skill and of each file stays. No two blank lines
/// come together where something was taken out.
///
/// # Panics
///
/// Rules of another skill, whose lines this one does not have.
pub fn without_rules(skill: &SkillDoc, rules: &[SkillRule], is_taken: impl Fn(usize) -> bool) -> SkillDoc {
    let text = skill.source_text();
    let kinds = line_kinds(text);
    let mut is_gone = vec![false; kinds.len()];
    for (_, rule) in rules.iter().enumerate().filter(|(rule_idx, _)| is_taken(*rule_idx)) {
        is_gone.get_mut(rule.lines.clone()).expect("the rules are those of this skill").fill(true);
    }
    for heading_idx in empty_headings(&kinds, &is_gone) {
        if let Some(place) = is_gone.get_mut(heading_idx) {
            *place = true;
        }
    }
    let mut left = String::with_capacity(text.len());
    // Whether something was taken out since the last line that stayed, and whether that line is blank.
    let (mut is_gap, mut is_after_blank) = (false, true);
    for ((line, kind), is_gone) in text.split_inclusive('\n').zip(&kinds).zip(&is_gone) {
        let is_blank = *kind == LineKind::Blank;
        if *is_gone || (is_blank && is_gap && is_after_blank) {
            is_gap = true;
            continue;
        }
        left.push_str(line);
        is_gap &= is_blank;
        is_after_blank = is_blank;
    }
    if is_gap {
        // What is left ends as a text does.
        let end = left.trim_end_matches(['\n', '\r']).len();
        let rest = left.split_off(end);
        left.push_str(if rest.starts_with("\r\n") {
            "\r\n"
        } else if rest.is_empty() {
            ""
        } else {
            "\n"
        });
    }
    let has_front_matter =
        |text: &str| protected_regions(text).iter().any(|region| region.kind == RegionKind::FrontMatter);
    if has_front_matter(&left) && !has_front_matter(text) {
        // A line that separated sections must not come to open what a loader reads.
        left.insert(0, '\n');
    }
    SkillDoc::new(left).with_carried(skill.carried().clone())
}

/// What a line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LineKind {
    Blank,
    /// A heading with its level.
    Heading(usize),
    /// A line of an item that starts with its mark, and the column of the mark.
    Item(usize),
    /// Code, or the line above or below it.
    Code,
    /// Any other line, with its indent.
    Text(usize),
    /// Protected, or between two files.
    Barrier,
    /// A line that separates sections.
    Break,
}

/// A rule that is being read.
struct Found {
    lines: Range<usize>,
    /// The column of the item's mark; none for a paragraph.
    item: Option<usize>,
}

impl Found {
    fn begins(kind: LineKind, line_idx: usize) -> Option<Self> {
        let item = match kind {
            LineKind::Item(column) => Some(column),
            LineKind::Code | LineKind::Text(_) => None,
            LineKind::Blank | LineKind::Heading(_) | LineKind::Barrier | LineKind::Break => return None,
        };
        Some(Self { lines: line_idx..line_idx + 1, item })
    }

    /// Whether a line belongs to the rule.
    fn takes(&self, kind: LineKind, is_after_blank: bool) -> bool {
        match (kind, self.item) {
            (LineKind::Blank | LineKind::Heading(_) | LineKind::Barrier | LineKind::Break, _) => false,
            (LineKind::Code, _) => true,
            (LineKind::Item(column), Some(item)) => column >= item + NESTED_INDENT,
            (LineKind::Item(_), None) => false,
            (LineKind::Text(_), _) if !is_after_blank => true,
            (LineKind::Text(indent), Some(item)) => indent >= item + NESTED_INDENT,
            (LineKind::Text(_), None) => false,
        }
    }
}

fn line_kinds(text: &str) -> Vec<LineKind> {
    let regions = protected_regions(text);
    let mut fence: Option<char> = None;
    let mut at = 0;
    let mut kinds = Vec::new();
    for line in text.split_inclusive('\n') {
        let range = at..at + line.len();
        at = range.end;
        let is_protected =
            regions.iter().any(|region| region.range.start < range.end && range.start < region.range.end);
        let trimmed = line.trim();
        let mark = trimmed.chars().next().filter(|mark| matches!(mark, '`' | '~'));
        let is_fence =
            mark.is_some_and(|mark| trimmed.chars().take_while(|letter| *letter == mark).count() >= 3);
        kinds.push(if is_protected || (fence.is_none() && trimmed.starts_with(BOUNDARY)) {
            LineKind::Barrier
        } else if let Some(open) = fence {
            if is_fence && mark == Some(open) {
                fence = None;
            }
            LineKind::Code
        } else if is_fence {
            fence = mark;
            LineKind::Code
        } else {
            kind_of(line, trimmed)
        });
    }
    kinds
}

/// What a line is that is neither protected nor code.
fn kind_of(line: &str, trimmed: &str) -> LineKind {
    if trimmed.is_empty() {
        return LineKind::Blank;
    }
    let indent = line
        .chars()
        .take_while(|letter| letter.is_whitespace())
        .map(|letter| if letter == '\t' { 4 } else { 1 });
    let indent: usize = indent.sum();
    let level = trimmed.chars().take_while(|letter| *letter == '#').count();
    let is_heading = (1..=6).contains(&level) && trimmed.chars().nth(level).is_none_or(char::is_whitespace);
    if is_heading && indent < 4 {
        return LineKind::Heading(level);
    }
    let is_break = trimmed.len() >= 3
        && ['-', '*', '_', '=']
            .iter()
            .any(|sign| trimmed.chars().all(|letter| letter == *sign || letter == ' '));
    if is_break {
        return LineKind::Break;
    }
    if is_item(trimmed) { LineKind::Item(indent) } else { LineKind::Text(indent) }
}

/// Whether a line starts with the mark of an item: a sign, or a number with a full stop or a bracket.
fn is_item(trimmed: &str) -> bool {
    let after_sign = trimmed.strip_prefix(['-', '*', '+', '•']);
    let n_digits = trimmed.chars().take_while(char::is_ascii_digit).count();
    let after_number = (1..=9).contains(&n_digits).then(|| trimmed.get(n_digits..)).flatten();
    let after_number = after_number.and_then(|rest| rest.strip_prefix(['.', ')']));
    [after_sign, after_number]
        .into_iter()
        .flatten()
        .any(|rest| rest.starts_with([' ', '\t']) || rest.is_empty())
}

/// The headings whose sections held rules and hold nothing any more.
fn empty_headings(kinds: &[LineKind], is_gone: &[bool]) -> Vec<usize> {
    let mut empty = Vec::new();
    // The first heading of the skill and of each file is its title.
    let mut is_title_open = true;
    for (line_idx, kind) in kinds.iter().enumerate() {
        match kind {
            LineKind::Barrier => is_title_open = true,
            LineKind::Heading(_) if is_title_open => is_title_open = false,
            LineKind::Heading(level) => {
                let below = kinds.iter().zip(is_gone).skip(line_idx + 1);
                let section = below.take_while(|(kind, _)| {
                    !matches!(kind, LineKind::Heading(other) if other <= level) && **kind != LineKind::Barrier
                });
                let (mut n_gone, mut n_left) = (0, 0);
                for (kind, is_gone) in section {
                    match kind {
                        LineKind::Blank | LineKind::Heading(_) | LineKind::Break => {}
                        _ if *is_gone => n_gone += 1,
                        _ => n_left += 1,
                    }
                }
                if n_gone > 0 && n_left == 0 {
                    empty.push(line_idx);
                }
            }
            LineKind::Blank | LineKind::Item(_) | LineKind::Code | LineKind::Text(_) | LineKind::Break => {}
        }
    }
    empty
}
