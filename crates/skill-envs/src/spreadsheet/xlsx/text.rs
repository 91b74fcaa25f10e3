//! Texts in the XML of a workbook.

use super::{XlsxError, damaged};
use quick_xml::Reader;
use quick_xml::XmlVersion;
use quick_xml::events::{BytesRef, BytesStart, Event};
use std::sync::Arc;

/// The most texts of a workbook.
const MAX_STRINGS: usize = 5_000_000;

/// A reader that makes two events of an empty element.
pub(super) fn reader(text: &str) -> Reader<&[u8]> {
    let mut reader = Reader::from_str(text);
    reader.config_mut().expand_empty_elements = true;
    // Files of many programs have small faults that others ignore too.
    reader.config_mut().check_end_names = false;
    reader
}

/// The value of an attribute, whatever its prefix.
pub(super) fn attribute(element: &BytesStart<'_>, name: &str) -> Option<String> {
    let found = element
        .attributes()
        .with_checks(false)
        .filter_map(Result::ok)
        .find(|attribute| attribute.key.local_name().as_ref() == name)?;
    Some(found.normalized_value(XmlVersion::default()).ok()?.into_owned())
}

/// What an entity stands for.
pub(super) fn entity(reference: &BytesRef<'_>, part: &str) -> Result<char, XlsxError> {
    match reference.as_ref() {
        "lt" => return Ok('<'),
        "gt" => return Ok('>'),
        "amp" => return Ok('&'),
        "apos" => return Ok('\''),
        "quot" => return Ok('"'),
        _ => {}
    }
    let resolved = reference.resolve_char_ref().map_err(|error| damaged(part, error))?;
    resolved.ok_or_else(|| damaged(part, format!("the entity &{}; is not known", reference.as_ref())))
}

/// The text of an element up to its end, without those of elements inside.
pub(super) fn content(xml: &mut Reader<&[u8]>, part: &str) -> Result<String, XlsxError> {
    let mut text = String::new();
    let mut depth = 0_u32;
    loop {
        match xml.read_event().map_err(|error| damaged(part, error))? {
            Event::Start(_) => depth += 1,
            Event::End(_) if depth == 0 => return Ok(text),
            Event::End(_) => depth -= 1,
            Event::Text(piece) if depth == 0 => text.push_str(&piece.xml10_content()),
            Event::CData(piece) if depth == 0 => text.push_str(&piece.xml10_content()),
            Event::GeneralRef(reference) if depth == 0 => text.push(entity(&reference, part)?),
            Event::Eof => return Err(damaged(part, "the text ends in the middle")),
            _ => {}
        }
    }
}

/// A text of plain and formatted pieces, up to the end of its element; reading aids (`rPh`) are left out.
pub(super) fn rich(xml: &mut Reader<&[u8]>, part: &str) -> Result<String, XlsxError> {
    let mut text = String::new();
    // Inside of how many elements; pieces are in `r` or here.
    let mut path: Vec<bool> = Vec::new();
    loop {
        match xml.read_event().map_err(|error| damaged(part, error))? {
            Event::Start(element) => match element.local_name().as_ref() {
                "t" if path.iter().all(|is_piece| *is_piece) => text.push_str(&content(xml, part)?),
                name => path.push(name == "r"),
            },
            Event::End(_) if path.pop().is_none() => return Ok(text),
            Event::Eof => return Err(damaged(part, "the text ends in the middle")),
            _ => {}
        }
    }
}

/// The texts that cells refer to by number.
pub(super) fn shared_strings(text: &str, part: &str) -> Result<Vec<Arc<str>>, XlsxError> {
    let mut xml = reader(text);
    let mut strings = Vec::new();
    loop {
        match xml.read_event().map_err(|error| damaged(part, error))? {
            Event::Start(element) if element.local_name().as_ref() == "si" => {
                let text = rich(&mut xml, part)?;
                // As openpyxl undoes the escape of an escape.
                strings.push(Arc::from(text.replace("x005F_", "")));
                if strings.len() > MAX_STRINGS {
                    return Err(XlsxError::TooManyCells { max_cells: MAX_STRINGS });
                }
            }
            Event::Eof => return Ok(strings),
            _ => {}
        }
    }
}
