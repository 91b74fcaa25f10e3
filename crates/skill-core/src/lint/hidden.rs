//! Characters that cannot be seen, or that make text look like another: a way to hide orders from people.

use super::{Finding, Severity, numbered};

/// The most characters of hidden text that a finding shows.
const MAX_SHOWN: usize = 60;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Direction,
    Tag,
    Invisible,
    Control,
}

impl Kind {
    fn of(c: char) -> Option<Self> {
        match c {
            '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}' | '\u{200E}' | '\u{200F}' | '\u{061C}' => {
                Some(Self::Direction)
            }
            '\u{E0000}'..='\u{E007F}' | '\u{E0100}'..='\u{E01EF}' => Some(Self::Tag),
            '\u{200B}'..='\u{200D}'
            | '\u{2060}'..='\u{2064}'
            | '\u{206A}'..='\u{206F}'
            | '\u{FEFF}'
            | '\u{180E}'
            | '\u{00AD}'
            | '\u{034F}'
            | '\u{115F}'
            | '\u{1160}'
            | '\u{3164}'
            | '\u{FFA0}' => Some(Self::Invisible),
            '\t' | '\n' | '\r' | '\u{c}' => None,
            c if c.is_control() => Some(Self::Control),
            _ => None,
        }
    }

    fn describe(self) -> &'static str {
        match self {
            Self::Direction => {
                "characters that turn the direction of writing, so that text looks like another"
            }
            Self::Tag => "tag characters, which nobody sees and a model reads as letters",
            Self::Invisible => "characters of no width",
            Self::Control => "control characters",
        }
    }

    fn severity(self) -> Severity {
        match self {
            Self::Direction | Self::Tag => Severity::Error,
            Self::Invisible | Self::Control => Severity::Warning,
        }
    }
}

pub(super) fn check(path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (line, content) in numbered(text) {
        if content.is_ascii() && !content.bytes().any(|byte| byte.is_ascii_control() && byte != b'\t') {
            continue;
        }
        let letters: Vec<char> = content.chars().collect();
        for kind in [Kind::Direction, Kind::Tag, Kind::Invisible, Kind::Control] {
            let found: Vec<char> = letters
                .iter()
                .enumerate()
                .filter(|(at, c)| Kind::of(**c) == Some(kind) && !is_in_place(&letters, *at, line))
                .map(|(_, c)| *c)
                .collect();
            let Some(first) = found.first() else { continue };
            let mut message =
                format!("{}: {} (the first is U+{:04X})", kind.describe(), found.len(), u32::from(*first));
            let spelled = spelled(&found);
            if !spelled.is_empty() {
                message.push_str(&format!("; they spell {spelled:?}"));
            }
            let advice =
                "take them out; if the text was copied from elsewhere, look for what else came with it";
            findings.push(Finding::new("hidden-characters", kind.severity(), (path, line), message, advice));
        }
    }
    findings
}

/// Whether a character has a meaning that people see where it is.
fn is_in_place(letters: &[char], at: usize, line: usize) -> bool {
    let near = |at: Option<usize>| at.and_then(|at| letters.get(at)).copied();
    let (Some(c), before, after) =
        (letters.get(at).copied(), near(at.checked_sub(1)), near(at.checked_add(1)))
    else {
        return false;
    };
    let is_pictograph = |c: Option<char>| {
        c.is_some_and(|c| matches!(c, '\u{2190}'..='\u{2BFF}' | '\u{FE0F}' | '\u{1F000}'..='\u{1FAFF}'))
    };
    let joins =
        |c: Option<char>| c.is_some_and(|c| matches!(c, '\u{0600}'..='\u{0DFF}' | '\u{FB50}'..='\u{FEFC}'));
    match c {
        // A byte order mark.
        '\u{FEFF}' => line == 1 && at == 0,
        '\u{200D}' => (is_pictograph(before) && is_pictograph(after)) || (joins(before) && joins(after)),
        '\u{200C}' => joins(before) && joins(after),
        // The flags of parts of countries are a black flag with tags behind it.
        '\u{E0020}'..='\u{E007F}' => {
            let is_tag = |c: &char| ('\u{E0020}'..='\u{E007F}').contains(c);
            let flag = letters.get(..at).unwrap_or_default().iter().rev().find(|c| !is_tag(c));
            flag == Some(&'\u{1F3F4}')
        }
        _ => false,
    }
}

/// What tag characters spell.
fn spelled(found: &[char]) -> String {
    found
        .iter()
        .filter_map(|c| u32::from(*c).checked_sub(0xE0000).and_then(char::from_u32))
        .filter(|c| c.is_ascii_graphic() || *c == ' ')
        .take(MAX_SHOWN)
        .collect()
}
