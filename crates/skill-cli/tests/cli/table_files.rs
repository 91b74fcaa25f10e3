//! Rows as files in the formats that people have: each as the programs write it that export data.

use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use serde_json::{Map, Value};
use std::io::{Cursor, Write as _};
use std::sync::Arc;
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

/// A format of data files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileFormat {
    /// One object a line.
    JsonLines,
    /// One array.
    Json,
    /// Commas; what is nested is the source text of Python, as pandas writes it.
    Csv,
    /// Semicolons, a byte-order mark and CRLF, as Excel writes it in Europe.
    ExcelCsv,
    /// Tabs.
    Tsv,
    /// Columns of numbers, of texts and of lists of texts.
    Parquet,
    /// A workbook.
    Xlsx,
}

use FileFormat::{Csv, ExcelCsv, Json, JsonLines, Parquet, Tsv, Xlsx};

/// Those of tables, whose cells are texts and numbers.
pub(crate) const TABLES: [FileFormat; 5] = [JsonLines, Csv, ExcelCsv, Tsv, Xlsx];
/// Those of the Hub.
pub(crate) const OF_HUB: [FileFormat; 4] = [JsonLines, Json, Csv, Parquet];
/// Those that hold objects.
pub(crate) const NESTED: [FileFormat; 3] = [JsonLines, Json, Csv];
/// Those of programs that trace calls.
pub(crate) const OF_TRACES: [FileFormat; 2] = [JsonLines, Json];

impl FileFormat {
    /// The name of a file of this format.
    pub(crate) fn file_name(self) -> &'static str {
        match self {
            JsonLines => "rows.jsonl",
            Json => "rows.json",
            Csv | ExcelCsv => "rows.csv",
            Tsv => "rows.tsv",
            Parquet => "rows.parquet",
            Xlsx => "rows.xlsx",
        }
    }

    /// The bytes of a file with these rows, which all have the fields of the first one.
    pub(crate) fn bytes(self, rows: &[Value]) -> Vec<u8> {
        let objects: Vec<&Map<String, Value>> = rows.iter().map(|row| row.as_object().unwrap()).collect();
        let names: Vec<&str> = objects[0].keys().map(String::as_str).collect();
        match self {
            JsonLines => rows.iter().map(|row| format!("{row}\n")).collect::<String>().into_bytes(),
            Json => serde_json::to_vec_pretty(rows).unwrap(),
            Csv => table(&names, &objects, ',', "\n").into_bytes(),
            ExcelCsv => format!("\u{feff}{}", table(&names, &objects, ';', "\r\n")).into_bytes(),
            Tsv => table(&names, &objects, '\t', "\n").into_bytes(),
            Parquet => parquet(&names, &objects),
            Xlsx => workbook(&names, &objects),
        }
    }
}

fn table(names: &[&str], rows: &[&Map<String, Value>], delimiter: char, line_end: &str) -> String {
    let quoted = |text: String| match text.contains([delimiter, '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text,
    };
    let line = |cells: Vec<String>| {
        let cells: Vec<String> = cells.into_iter().map(quoted).collect();
        cells.join(&delimiter.to_string()) + line_end
    };
    let header = line(names.iter().map(|name| (*name).to_owned()).collect());
    let rows = rows.iter().map(|row| line(names.iter().map(|name| cell(&row[*name])).collect()));
    header + &rows.collect::<String>()
}

/// A value as pandas writes it into a cell.
fn cell(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        value => python(value),
    }
}

fn python(value: &Value) -> String {
    let listed = |parts: Vec<String>| parts.join(", ");
    match value {
        Value::Null => "None".to_owned(),
        Value::Bool(flag) => if *flag { "True" } else { "False" }.to_owned(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'")),
        Value::Array(values) => format!("[{}]", listed(values.iter().map(python).collect())),
        Value::Object(fields) => {
            let members = fields.iter().map(|(name, value)| format!("'{name}': {}", python(value)));
            format!("{{{}}}", listed(members.collect()))
        }
    }
}

/// Columns of whole numbers, numbers, texts, and lists of texts.
fn parquet(names: &[&str], rows: &[&Map<String, Value>]) -> Vec<u8> {
    let fields = names.iter().map(|name| match &rows[0][*name] {
        Value::Number(number) if number.is_f64() => format!("required double {name};"),
        Value::Number(_) => format!("required int64 {name};"),
        Value::Array(_) => format!(
            "required group {name} (LIST) {{ repeated group list {{ required binary element (STRING); }} }}"
        ),
        _ => format!("required binary {name} (STRING);"),
    });
    let message = format!("message schema {{ {} }}", fields.collect::<String>());
    let schema = Arc::new(parse_message_type(&message).unwrap());
    let mut file = SerializedFileWriter::new(Vec::new(), schema, Arc::new(WriterProperties::new())).unwrap();
    let mut group = file.next_row_group().unwrap();
    let text = |value: &Value| ByteArray::from(value.as_str().unwrap());
    for name in names {
        let mut column = group.next_column().unwrap().unwrap();
        let values = || rows.iter().map(|row| &row[*name]);
        match &rows[0][*name] {
            Value::Number(number) if number.is_f64() => {
                let values: Vec<f64> = values().map(|value| value.as_f64().unwrap()).collect();
                column.typed::<DoubleType>().write_batch(&values, None, None).unwrap();
            }
            Value::Number(_) => {
                let values: Vec<i64> = values().map(|value| value.as_i64().unwrap()).collect();
                column.typed::<Int64Type>().write_batch(&values, None, None).unwrap();
            }
            Value::Array(_) => {
                let lists: Vec<&Vec<Value>> = values().map(|value| value.as_array().unwrap()).collect();
                let texts: Vec<ByteArray> = lists.iter().flat_map(|list| list.iter().map(text)).collect();
                let repetitions: Vec<i16> =
                    lists.iter().flat_map(|list| (0..list.len()).map(|at| i16::from(at > 0))).collect();
                let definitions = vec![1; texts.len()];
                let levels = (Some(definitions.as_slice()), Some(repetitions.as_slice()));
                column.typed::<ByteArrayType>().write_batch(&texts, levels.0, levels.1).unwrap();
            }
            _ => {
                let texts: Vec<ByteArray> = values().map(text).collect();
                column.typed::<ByteArrayType>().write_batch(&texts, None, None).unwrap();
            }
        }
        column.close().unwrap();
    }
    group.close().unwrap();
    file.into_inner().unwrap()
}

fn workbook(names: &[&str], rows: &[&Map<String, Value>]) -> Vec<u8> {
    const PARTS: &str = "http://schemas.openxmlformats.org/package/2006";
    const MAIN: &str = "http://schemas.openxmlformats.org/spreadsheetml/2006/main";
    const LINKS: &str = "http://schemas.openxmlformats.org/officeDocument/2006/relationships";
    const TYPE: &str = "application/vnd.openxmlformats-officedocument.spreadsheetml";
    let text = |text: &str| {
        let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        format!("<c t=\"inlineStr\"><is><t xml:space=\"preserve\">{text}</t></is></c>")
    };
    let shown = |value: &Value| match value {
        Value::Number(number) => format!("<c><v>{number}</v></c>"),
        Value::Bool(flag) => format!("<c t=\"b\"><v>{}</v></c>", u8::from(*flag)),
        value => text(&cell(value)),
    };
    let row = |cells: String| format!("<row>{cells}</row>");
    let header = row(names.iter().map(|name| text(name)).collect());
    let body: String =
        rows.iter().map(|fields| row(names.iter().map(|name| shown(&fields[*name])).collect())).collect();
    let parts = [
        (
            "[Content_Types].xml",
            format!(
                "<Types xmlns=\"{PARTS}/content-types\"><Default Extension=\"rels\" ContentType=\"application/vnd.openxmlformats-package.relationships+xml\"/>\
                 <Override PartName=\"/xl/workbook.xml\" ContentType=\"{TYPE}.sheet.main+xml\"/>\
                 <Override PartName=\"/xl/worksheets/sheet1.xml\" ContentType=\"{TYPE}.worksheet+xml\"/></Types>"
            ),
        ),
        (
            "_rels/.rels",
            format!(
                "<Relationships xmlns=\"{PARTS}/relationships\"><Relationship Id=\"r1\" Type=\"{LINKS}/officeDocument\" Target=\"xl/workbook.xml\"/></Relationships>"
            ),
        ),
        (
            "xl/workbook.xml",
            format!(
                "<workbook xmlns=\"{MAIN}\" xmlns:r=\"{LINKS}\"><sheets><sheet name=\"Data\" sheetId=\"1\" r:id=\"r1\"/></sheets></workbook>"
            ),
        ),
        (
            "xl/_rels/workbook.xml.rels",
            format!(
                "<Relationships xmlns=\"{PARTS}/relationships\"><Relationship Id=\"r1\" Type=\"{LINKS}/worksheet\" Target=\"worksheets/sheet1.xml\"/></Relationships>"
            ),
        ),
        (
            "xl/worksheets/sheet1.xml",
            format!("<worksheet xmlns=\"{MAIN}\"><sheetData>{header}{body}</sheetData></worksheet>"),
        ),
    ];
    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, text) in parts {
        archive.start_file(name, SimpleFileOptions::default()).unwrap();
        archive.write_all(format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>{text}").as_bytes()).unwrap();
    }
    archive.finish().unwrap().into_inner()
}
