//! Workbooks that tests write.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{Cursor, Write as _};
use std::sync::Arc;
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

const MAIN: &str = "http://schemas.openxmlformats.org/spreadsheetml/2006/main";
const PARTS: &str = "http://schemas.openxmlformats.org/package/2006";
const LINKS: &str = "http://schemas.openxmlformats.org/officeDocument/2006/relationships";
const TYPES: &str = "application/vnd.openxmlformats-officedocument.spreadsheetml";

/// A workbook: names of sheets with the XML of their rows.
pub(crate) struct Book<'a> {
    pub(crate) sheets: Vec<(&'a str, &'a str)>,
    /// Codes of number formats; a cell has the first one by `s="1"`.
    pub(crate) formats: Vec<&'a str>,
}

impl<'a> Book<'a> {
    pub(crate) fn of(sheets: Vec<(&'a str, &'a str)>) -> Self {
        Self { sheets, formats: Vec::new() }
    }

    pub(crate) fn bytes(&self) -> Arc<[u8]> {
        let escaped = |text: &str| text.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;");
        let numbered = || (1..).zip(&self.sheets);
        let of_sheets = |line: &dyn Fn(usize, &str) -> String| -> String {
            numbered().map(|(number, (name, _))| line(number, name)).collect()
        };
        let sheets = of_sheets(&|number, name| {
            format!(r#"<sheet name="{}" sheetId="{number}" r:id="s{number}"/>"#, escaped(name))
        });
        let links = of_sheets(&|number, _| {
            format!(
                r#"<Relationship Id="s{number}" Type="{LINKS}/worksheet" Target="worksheets/sheet{number}.xml"/>"#
            )
        });
        let types = of_sheets(&|number, _| {
            format!(
                r#"<Override PartName="/xl/worksheets/sheet{number}.xml" ContentType="{TYPES}.worksheet+xml"/>"#
            )
        });
        let codes: String = (164..)
            .zip(&self.formats)
            .map(|(id, code)| format!(r#"<numFmt numFmtId="{id}" formatCode="{}"/>"#, escaped(code)))
            .collect();
        let styles: String = (164..)
            .zip(&self.formats)
            .map(|(id, _)| {
                format!(r#"<xf numFmtId="{id}" fontId="0" fillId="0" borderId="0" applyNumberFormat="1"/>"#)
            })
            .collect();
        let mut parts = vec![
            (
                "[Content_Types].xml".to_owned(),
                format!(
                    r#"<Types xmlns="{PARTS}/content-types"><Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/><Override PartName="/xl/workbook.xml" ContentType="{TYPES}.sheet.main+xml"/><Override PartName="/xl/styles.xml" ContentType="{TYPES}.styles+xml"/>{types}</Types>"#
                ),
            ),
            (
                "_rels/.rels".to_owned(),
                format!(
                    r#"<Relationships xmlns="{PARTS}/relationships"><Relationship Id="r1" Type="{LINKS}/officeDocument" Target="xl/workbook.xml"/></Relationships>"#
                ),
            ),
            (
                "xl/workbook.xml".to_owned(),
                format!(r#"<workbook xmlns="{MAIN}" xmlns:r="{LINKS}"><sheets>{sheets}</sheets></workbook>"#),
            ),
            (
                "xl/_rels/workbook.xml.rels".to_owned(),
                format!(
                    r#"<Relationships xmlns="{PARTS}/relationships"><Relationship Id="st" Type="{LINKS}/styles" Target="styles.xml"/>{links}</Relationships>"#
                ),
            ),
            (
                "xl/styles.xml".to_owned(),
                format!(
                    r#"<styleSheet xmlns="{MAIN}"><numFmts count="{}">{codes}</numFmts><fonts count="1"><font/></fonts><fills count="1"><fill><patternFill patternType="none"/></fill></fills><borders count="1"><border/></borders><cellStyleXfs count="1"><xf numFmtId="0" fontId="0" fillId="0" borderId="0"/></cellStyleXfs><cellXfs count="{}"><xf numFmtId="0" fontId="0" fillId="0" borderId="0"/>{styles}</cellXfs><cellStyles count="1"><cellStyle name="Normal" xfId="0" builtinId="0"/></cellStyles></styleSheet>"#,
                    self.formats.len(),
                    self.formats.len() + 1
                ),
            ),
        ];
        for (number, (_, rows)) in numbered() {
            let text = format!(r#"<worksheet xmlns="{MAIN}"><sheetData>{rows}</sheetData></worksheet>"#);
            parts.push((format!("xl/worksheets/sheet{number}.xml"), text));
        }
        let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
        for (name, text) in parts {
            archive.start_file(name, SimpleFileOptions::default()).unwrap();
            archive
                .write_all(format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>{text}").as_bytes())
                .unwrap();
        }
        archive.finish().unwrap().into_inner().into()
    }
}
