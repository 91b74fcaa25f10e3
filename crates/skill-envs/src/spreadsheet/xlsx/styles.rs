//! What number formats make of a number: a date, a duration, a percentage.

use super::text::{attribute, reader};
use super::{XlsxError, damaged};
use quick_xml::events::Event;
use std::collections::BTreeMap;

/// What a format makes of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Format {
    /// A date or a time, as openpyxl sees it.
    pub(super) is_date: bool,
    pub(super) is_duration: bool,
    pub(super) is_percent: bool,
}

/// The formats of a workbook, by the numbers of styles.
#[derive(Debug, Default)]
pub(super) struct Styles(Vec<Format>);

impl Styles {
    pub(super) fn format(&self, style: usize) -> Format {
        self.0.get(style).copied().unwrap_or_default()
    }

    pub(super) fn read(text: &str, part: &str) -> Result<Self, XlsxError> {
        let mut xml = reader(text);
        let mut custom: BTreeMap<u32, String> = BTreeMap::new();
        let mut ids: Vec<u32> = Vec::new();
        let mut is_in_cells = false;
        loop {
            match xml.read_event().map_err(|error| damaged(part, error))? {
                Event::Start(element) => {
                    let id = |name| attribute(&element, name).and_then(|id| id.trim().parse().ok());
                    match element.local_name().as_ref() {
                        "numFmt" => {
                            if let (Some(id), Some(code)) =
                                (id("numFmtId"), attribute(&element, "formatCode"))
                            {
                                custom.insert(id, code);
                            }
                        }
                        "cellXfs" => is_in_cells = true,
                        "xf" if is_in_cells => ids.push(id("numFmtId").unwrap_or(0)),
                        _ => {}
                    }
                }
                Event::End(element) if element.local_name().as_ref() == "cellXfs" => is_in_cells = false,
                Event::Eof => break,
                _ => {}
            }
        }
        let format = |id: &u32| match custom.get(id) {
            Some(code) => of_code(code),
            None => of_code(built_in(*id)),
        };
        Ok(Self(ids.iter().map(format).collect()))
    }
}

/// The codes of formats that files refer to by number alone, as far as they are dates or percentages.
fn built_in(id: u32) -> &'static str {
    match id {
        9 => "0%",
        10 => "0.00%",
        14 => "mm-dd-yy",
        15 => "d-mmm-yy",
        16 => "d-mmm",
        17 => "mmm-yy",
        18 => "h:mm AM/PM",
        19 => "h:mm:ss AM/PM",
        20 => "h:mm",
        21 => "h:mm:ss",
        22 => "m/d/yy h:mm",
        45 => "mm:ss",
        46 => "[h]:mm:ss",
        47 => "mmss.0",
        _ => "General",
    }
}

/// The rules of openpyxl, of which the official comparison sees the outcome: the first section of the code, without
/// texts in quotes and brackets other than those of elapsed times, has a letter of dates that is not escaped.
fn of_code(code: &str) -> Format {
    let code = code.split(';').next().unwrap_or_default();
    let stripped = stripped(code);
    let mut is_escaped = false;
    let mut is_date = false;
    for char in stripped.chars() {
        is_date |= !is_escaped && matches!(char.to_ascii_lowercase(), 'd' | 'm' | 'h' | 'y' | 's');
        is_escaped = matches!(char, '_' | '\\');
    }
    Format { is_date, is_duration: has_elapsed(code), is_percent: stripped.contains('%') }
}

/// True for brackets of elapsed hours, minutes or seconds.
fn is_elapsed(inner: &str) -> bool {
    matches!(inner.to_ascii_lowercase().as_str(), "h" | "hh" | "m" | "mm" | "s" | "ss")
}

fn has_elapsed(code: &str) -> bool {
    let inside = code.split('[').skip(1).filter_map(|rest| rest.split_once(']'));
    inside.into_iter().any(|(inner, _)| is_elapsed(inner))
}

/// A code without its texts in quotes, and without brackets of colors, conditions and languages.
fn stripped(code: &str) -> String {
    let mut stripped = String::new();
    let mut rest = code;
    while let Some(char) = rest.chars().next() {
        let after = rest.get(char.len_utf8()..).unwrap_or_default();
        let skipped = match char {
            '"' => after.split_once('"').map(|(_, behind)| behind),
            // Here, other than above, capital letters are no elapsed times.
            '[' => match after.split_once(']') {
                Some(("h" | "hh" | "m" | "mm" | "s" | "ss", _)) => None,
                Some((_, behind)) => Some(behind),
                None => None,
            },
            _ => None,
        };
        match skipped {
            Some(behind) => rest = behind,
            None => {
                stripped.push(char);
                rest = after;
            }
        }
    }
    stripped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_read_as_openpyxl_reads_them() {
        let kind = |code| match of_code(code) {
            Format { is_duration: true, .. } => "duration",
            Format { is_date: true, .. } => "date",
            Format { is_percent: true, .. } => "percent",
            Format { .. } => "number",
        };
        for (code, expect) in [
            ("General", "number"),
            ("0.00", "number"),
            ("0.0%", "percent"),
            ("0\"%\"", "number"),
            ("yyyy-mm-dd", "date"),
            ("h:mm", "date"),
            ("[h]:mm", "duration"),
            ("[$-409]d. mmm", "date"),
            ("[Red]0.00", "number"),
            ("[$USD]0", "number"),
            ("0.00\\d", "number"),
            ("0.00_d", "number"),
            ("0.00*d", "date"),
            ("Standard", "date"),
            ("0 \"days\"", "number"),
            ("0;d", "number"),
        ] {
            assert_eq!(kind(code), expect, "{code}");
        }
    }
}
