//! Formulas and signs of other scripts in plain characters.

use skill_core::decoration::without_emphasis;

/// Digits of other scripts: their zeros.
const ZEROS: [char; 8] =
    ['\u{660}', '\u{6f0}', '\u{966}', '\u{9e6}', '\u{e50}', '\u{1d7ce}', '\u{1d7d8}', '\u{1d7ec}'];

/// Fractions that are one character.
const FRACTIONS: [(char, &str); 19] = [
    ('½', "1⁄2"),
    ('⅓', "1⁄3"),
    ('⅔', "2⁄3"),
    ('¼', "1⁄4"),
    ('¾', "3⁄4"),
    ('⅕', "1⁄5"),
    ('⅖', "2⁄5"),
    ('⅗', "3⁄5"),
    ('⅘', "4⁄5"),
    ('⅙', "1⁄6"),
    ('⅚', "5⁄6"),
    ('⅐', "1⁄7"),
    ('⅛', "1⁄8"),
    ('⅜', "3⁄8"),
    ('⅝', "5⁄8"),
    ('⅞', "7⁄8"),
    ('⅑', "1⁄9"),
    ('⅒', "1⁄10"),
    ('↉', "0⁄3"),
];

/// Raised digits and signs.
const RAISED: [(char, char); 12] = [
    ('⁰', '0'),
    ('¹', '1'),
    ('²', '2'),
    ('³', '3'),
    ('⁴', '4'),
    ('⁵', '5'),
    ('⁶', '6'),
    ('⁷', '7'),
    ('⁸', '8'),
    ('⁹', '9'),
    ('⁻', '-'),
    ('⁺', '+'),
];

/// Commands of LaTeX that stand for a sign.
const SIGNS: [(&str, &str); 18] = [
    ("times", "×"),
    ("cdot", "·"),
    ("pm", "±"),
    ("sqrt", "√"),
    ("pi", "π"),
    ("circ", "°"),
    ("degree", "°"),
    ("div", "÷"),
    ("le", "≤"),
    ("leq", "≤"),
    ("ge", "≥"),
    ("geq", "≥"),
    ("lt", "<"),
    ("gt", ">"),
    ("approx", "≈"),
    ("colon", ":"),
    ("dots", "…"),
    ("ldots", "…"),
];

/// The most characters of an argument: numbers are short.
const MAX_ARGUMENT_CHARACTERS: usize = 200;

/// How deep fractions may be nested.
const MAX_DEPTH: usize = 4;

/// The text with its numbers in plain characters: without emphasis and LaTeX around and in them, with one kind of minus, and with powers
/// and fractions as they are typed.
pub(super) fn plain(text: &str) -> String {
    let typed = typed(&without_emphasis(text));
    let text = match typed.contains(['\\', '$', '^', '{']) {
        true => without_latex(&without_math_marks(&typed), MAX_DEPTH),
        false => typed,
    };
    text.replace("^°", "°").replace("per cent", "percent")
}

/// The text with the digits, fractions and signs of other scripts as they are typed.
fn typed(text: &str) -> String {
    let mut typed = String::with_capacity(text.len());
    let mut is_raised = false;
    for character in text.chars() {
        if character.is_ascii() {
            is_raised = false;
            typed.push(character);
            continue;
        }
        let raised = RAISED.iter().find(|(raised, _)| *raised == character).map(|(_, plain)| *plain);
        if let Some(plain) = raised {
            if !std::mem::replace(&mut is_raised, true) {
                typed.push('^');
            }
            typed.push(plain);
            continue;
        }
        is_raised = false;
        if let Some((_, fraction)) = FRACTIONS.iter().find(|(fraction, _)| *fraction == character) {
            if typed.ends_with(|before: char| before.is_ascii_digit()) {
                typed.push(' ');
            }
            typed.push_str(fraction);
            continue;
        }
        match character {
            '\u{200b}' | '\u{2060}' | '\u{feff}' | '\u{ad}' => {}
            '−' | '–' | '‐' | '‑' | '‒' | '﹣' | '－' => typed.push('-'),
            '٫' => typed.push(','),
            '٬' => typed.push('\''),
            '٪' => typed.push('%'),
            '\u{ff01}'..='\u{ff5e}' => typed.extend(char::from_u32(u32::from(character) - 0xfee0)),
            other => typed.push(digit(other).unwrap_or(other)),
        }
    }
    typed
}

/// The digit that a digit of another script is.
fn digit(character: char) -> Option<char> {
    if character.is_ascii() {
        return None;
    }
    ZEROS.iter().find_map(|zero| {
        let value = u32::from(character).checked_sub(u32::from(*zero)).filter(|value| *value < 10)?;
        char::from_digit(value, 10)
    })
}

/// The text without the marks of formulas; a dollar sign that is an amount's stays.
fn without_math_marks(text: &str) -> String {
    let text = text.replace("$$", " ");
    let mut plain = String::with_capacity(text.len());
    let mut rest = text.as_str();
    while let Some(open) = rest.find('$') {
        let (head, tail) = rest.split_at(open);
        plain.push_str(head);
        let inside = tail.get(1..).unwrap_or_default();
        let is_escaped = head.ends_with('\\');
        let close = inside.find('$').filter(|close| {
            let formula = inside.get(..*close).unwrap_or_default();
            let behind = inside.get(close + 1..).unwrap_or_default();
            let is_formula =
                !formula.is_empty() && !formula.ends_with([' ', '\\']) && !formula.contains('\n');
            is_formula && !behind.starts_with(|next: char| next.is_ascii_digit())
        });
        match close.filter(|_| !is_escaped) {
            Some(close) => {
                plain.push_str(inside.get(..close).unwrap_or_default());
                rest = inside.get(close + 1..).unwrap_or_default();
            }
            None => {
                plain.push('$');
                rest = inside;
            }
        }
    }
    plain.push_str(rest);
    plain
}

/// The text without the commands of LaTeX and without braces.
fn without_latex(text: &str, depth: usize) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(['\\', '{', '}']) {
        let (head, tail) = rest.split_at(at);
        plain.push_str(head);
        let Some(command) = tail.strip_prefix('\\') else {
            rest = tail.get(1..).unwrap_or_default();
            continue;
        };
        let length = command.find(|letter: char| !letter.is_ascii_alphabetic()).unwrap_or(command.len());
        if length == 0 {
            let sign = command.chars().next();
            match sign {
                Some('%' | '$' | '#' | '&' | '_') => plain.extend(sign),
                Some(',' | ';' | ':' | ' ') => plain.push('\u{2009}'),
                Some('!') | None => {}
                Some(_) => plain.push(' '),
            }
            rest = command.get(sign.map_or(0, char::len_utf8)..).unwrap_or_default();
            continue;
        }
        let (name, behind) = command.split_at(length);
        rest = behind;
        if matches!(name, "frac" | "dfrac" | "tfrac" | "cfrac")
            && depth > 0
            && let Some((over, behind)) = argument(behind)
            && let Some((under, behind)) = argument(behind)
        {
            if plain.ends_with(|before: char| before.is_ascii_digit()) {
                plain.push(' ');
            }
            plain.push_str(&without_latex(over, depth - 1));
            plain.push('⁄');
            plain.push_str(&without_latex(under, depth - 1));
            rest = behind;
        } else if let Some((_, sign)) = SIGNS.iter().find(|(known, _)| *known == name) {
            plain.push_str(sign);
        } else if !matches!(name, "left" | "right" | "boxed") {
            plain.push(' ');
        }
    }
    plain.push_str(rest);
    plain
}

/// The argument that a text begins with, in braces or one character, and what follows it.
fn argument(text: &str) -> Option<(&str, &str)> {
    let text = text.trim_start();
    if !text.starts_with('{') {
        let length = text.chars().next()?.len_utf8();
        return text.split_at_checked(length);
    }
    let mut depth = 0_usize;
    for (at, character) in text.char_indices().take(MAX_ARGUMENT_CHARACTERS) {
        match character {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            _ => continue,
        }
        if depth == 0 {
            return Some((text.get(1..at)?, text.get(at + 1..)?));
        }
    }
    None
}
