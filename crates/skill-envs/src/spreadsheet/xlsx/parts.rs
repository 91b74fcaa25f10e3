//! The archive: its parts, and how they refer to one another.

use super::text::{attribute, reader};
use super::{Sheet, XlsxError, damaged};
use quick_xml::events::Event;
use std::collections::BTreeMap;
use std::io::{Cursor, Read as _};
use std::sync::Arc;
use zip::ZipArchive;

/// The most bytes that all parts may have when they are unpacked.
pub(super) const MAX_UNPACKED_BYTES: u64 = 256 << 20;
/// How the containers of Office's old formats, and of encrypted files, begin.
const COMPOUND_FILE: [u8; 8] = [0xd0, 0xcf, 0x11, 0xe0, 0xa1, 0xb1, 0x1a, 0xe1];

/// The parts of a workbook.
#[derive(Debug)]
pub(super) struct Parts {
    archive: ZipArchive<Cursor<Arc<[u8]>>>,
}

/// What the part with the list of sheets says.
#[derive(Debug, Default)]
pub(super) struct Book {
    pub(super) sheets: Vec<Sheet>,
    pub(super) styles_part: Option<String>,
    pub(super) strings_part: Option<String>,
    pub(super) is_1904: bool,
}

/// A reference from one part to another.
#[derive(Debug)]
struct Link {
    /// The last word of its kind, such as `worksheet`.
    kind: String,
    target: String,
}

impl Parts {
    pub(super) fn open(bytes: Arc<[u8]>) -> Result<Self, XlsxError> {
        if bytes.starts_with(&COMPOUND_FILE) {
            // Names are in UTF-16 there.
            let wanted: Vec<u8> = "EncryptedPackage".encode_utf16().flat_map(u16::to_le_bytes).collect();
            let is_encrypted = bytes.windows(wanted.len()).any(|window| window == wanted);
            let kind = if is_encrypted { "encrypted" } else { "an old binary workbook (.xls)" };
            return Err(XlsxError::Binary { kind });
        }
        let mut archive =
            ZipArchive::new(Cursor::new(bytes)).map_err(|error| XlsxError::Archive(error.to_string()))?;
        let mut n_bytes = 0_u64;
        for index in 0..archive.len() {
            n_bytes = n_bytes.saturating_add(archive.by_index_raw(index).map_or(0, |part| part.size()));
        }
        if n_bytes > MAX_UNPACKED_BYTES {
            return Err(XlsxError::TooLarge { n_bytes, max_bytes: MAX_UNPACKED_BYTES });
        }
        Ok(Self { archive })
    }

    /// The text of a part; names differ by case in files of some programs.
    pub(super) fn text(&mut self, name: &str) -> Result<String, XlsxError> {
        let index = self.index(name).ok_or_else(|| damaged(name, "the part is missing"))?;
        let part = self.archive.by_index(index).map_err(|error| damaged(name, error))?;
        let mut bytes = Vec::new();
        part.take(MAX_UNPACKED_BYTES).read_to_end(&mut bytes).map_err(|error| damaged(name, error))?;
        decoded(bytes).ok_or_else(|| damaged(name, "the text is neither UTF-8 nor UTF-16"))
    }

    fn index(&self, name: &str) -> Option<usize> {
        let mut names = self.archive.file_names();
        names.position(|other| other.is_ok_and(|other| other.eq_ignore_ascii_case(name)))
    }

    fn has(&self, name: &str) -> bool {
        self.index(name).is_some()
    }

    /// What a part refers to, by the ids of the references.
    fn links(&mut self, part: &str) -> Result<BTreeMap<String, Link>, XlsxError> {
        let (folder, file) = part.rsplit_once('/').unwrap_or(("", part));
        let name = if folder.is_empty() {
            format!("_rels/{file}.rels")
        } else {
            format!("{folder}/_rels/{file}.rels")
        };
        let mut links = BTreeMap::new();
        if !self.has(&name) {
            return Ok(links);
        }
        let text = self.text(&name)?;
        let mut xml = reader(&text);
        loop {
            match xml.read_event().map_err(|error| damaged(&name, error))? {
                Event::Start(element) if element.local_name().as_ref() == "Relationship" => {
                    let value = |key| attribute(&element, key);
                    let (Some(id), Some(kind), Some(target)) = (value("Id"), value("Type"), value("Target"))
                    else {
                        continue;
                    };
                    let kind = kind.rsplit('/').next().unwrap_or_default().to_owned();
                    links.insert(id, Link { kind, target: resolved(folder, &target) });
                }
                Event::Eof => return Ok(links),
                _ => {}
            }
        }
    }

    /// The list of sheets, and where styles and texts are.
    pub(super) fn workbook(&mut self) -> Result<Book, XlsxError> {
        let roots = self.links("")?;
        let named = roots.into_values().find(|link| link.kind == "officeDocument").map(|link| link.target);
        let part = named.unwrap_or_else(|| "xl/workbook.xml".to_owned());
        if !self.has(&part) {
            return Err(XlsxError::Archive(format!("the archive has no part {part}")));
        }
        let text = self.text(&part)?;
        let links = self.links(&part)?;
        let of_kind =
            |kind: &str| links.values().find(|link| link.kind == kind).map(|link| link.target.clone());
        let mut book = Book {
            styles_part: of_kind("styles").filter(|part| self.has(part)),
            strings_part: of_kind("sharedStrings").filter(|part| self.has(part)),
            ..Book::default()
        };
        let mut xml = reader(&text);
        loop {
            match xml.read_event().map_err(|error| damaged(&part, error))? {
                Event::Start(element) => match element.local_name().as_ref() {
                    "workbookPr" => {
                        let value = attribute(&element, "date1904");
                        book.is_1904 = value.is_some_and(|value| matches!(value.as_str(), "1" | "true"));
                    }
                    "sheet" => {
                        let name = attribute(&element, "name").unwrap_or_default();
                        // The attribute has a prefix of its own.
                        let Some(link) = attribute(&element, "id").and_then(|id| links.get(&id)) else {
                            return Err(damaged(&part, format!("the sheet {name:?} refers to no part")));
                        };
                        let has_cells = link.kind == "worksheet";
                        book.sheets.push(Sheet { name, has_cells, part: link.target.clone() });
                    }
                    _ => {}
                },
                Event::Eof => break,
                _ => {}
            }
        }
        Ok(book)
    }
}

/// The name of a part that is named relative to a folder, or from the root.
fn resolved(folder: &str, target: &str) -> String {
    let from = if target.starts_with('/') { "" } else { folder };
    let mut path: Vec<&str> = Vec::new();
    for word in from.split('/').chain(target.split('/')) {
        match word {
            "" | "." => {}
            ".." => drop(path.pop()),
            word => path.push(word),
        }
    }
    path.join("/")
}

fn decoded(bytes: Vec<u8>) -> Option<String> {
    let units = |bytes: &[u8], unit: fn([u8; 2]) -> u16| {
        let pairs = bytes.chunks_exact(2).filter_map(|pair| pair.try_into().ok()).map(unit);
        String::from_utf16(&pairs.collect::<Vec<u16>>()).ok()
    };
    match bytes.as_slice() {
        [0xff, 0xfe, rest @ ..] => units(rest, u16::from_le_bytes),
        [0xfe, 0xff, rest @ ..] => units(rest, u16::from_be_bytes),
        [0xef, 0xbb, 0xbf, rest @ ..] => String::from_utf8(rest.to_vec()).ok(),
        _ => String::from_utf8(bytes).ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_relative_to_their_folder_or_to_the_root() {
        for (folder, target, expect) in [
            ("xl", "worksheets/sheet1.xml", "xl/worksheets/sheet1.xml"),
            ("xl", "/xl/styles.xml", "xl/styles.xml"),
            ("xl/worksheets", "../sharedStrings.xml", "xl/sharedStrings.xml"),
            ("", "xl/workbook.xml", "xl/workbook.xml"),
        ] {
            assert_eq!(resolved(folder, target), expect);
        }
    }

    #[test]
    fn a_binary_workbook_is_told_from_an_encrypted_one() {
        let kind = |tail: &[u8]| match Parts::open([&COMPOUND_FILE[..], tail].concat().into()) {
            Err(XlsxError::Binary { kind }) => kind,
            other => panic!("{other:?}"),
        };
        let name: Vec<u8> = "EncryptedPackage".encode_utf16().flat_map(u16::to_le_bytes).collect();
        assert_eq!(kind(&name), "encrypted");
        assert!(kind(b"Workbook").contains(".xls"));
        assert!(matches!(Parts::open(b"a,b\n1,2\n"[..].into()), Err(XlsxError::Archive(_))));
    }

    /// Sizes are declared in the list of parts at the end of an archive, and nothing is unpacked where they are too large.
    #[test]
    fn an_archive_that_unpacks_to_too_much_is_not_unpacked() {
        use std::io::Write as _;
        let mut archive = zip::ZipWriter::new(Cursor::new(Vec::new()));
        archive.start_file("xl/workbook.xml", zip::write::SimpleFileOptions::default()).unwrap();
        archive.write_all(b"<workbook/>").unwrap();
        let mut bytes = archive.finish().unwrap().into_inner();
        let entry = bytes.windows(4).rposition(|window| window == b"PK\x01\x02").unwrap();
        bytes[entry + 24..entry + 28].copy_from_slice(&u32::try_from(300 << 20).unwrap().to_le_bytes());
        assert!(matches!(
            Parts::open(bytes.into()),
            Err(XlsxError::TooLarge { n_bytes: 314_572_800, max_bytes: MAX_UNPACKED_BYTES })
        ));
    }
}
