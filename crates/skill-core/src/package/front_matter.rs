//! The YAML front matter of `SKILL.md`, as the Agent Skills specification has it: read, checked, and set.

use super::strict_yaml::check_style;
use crate::region::front_matter_end;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use unicode_normalization::UnicodeNormalization as _;

/// The most characters of a name.
pub const MAX_NAME_CHARS: usize = 64;
/// Words that no name of a package may have where Claude reads it.
const RESERVED_WORDS: [&str; 2] = ["anthropic", "claude"];
/// The most characters of a description.
pub(crate) const MAX_DESCRIPTION_CHARS: usize = 1024;
/// The most characters of what is said about compatibility.
pub(crate) const MAX_COMPATIBILITY_CHARS: usize = 500;

/// The fields that the specification knows.
const FIELDS: [&str; 6] = ["name", "description", "license", "compatibility", "metadata", "allowed-tools"];

/// What the front matter of a skill says; only what has the right form.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FrontMatter {
    /// What the skill is called.
    pub name: Option<String>,
    /// What it does and when to use it.
    pub description: Option<String>,
    /// Its licence, or the file with it.
    pub license: Option<String>,
    /// What it needs around it.
    pub compatibility: Option<String>,
    /// Anything else, by name.
    pub metadata: BTreeMap<String, String>,
    /// The tools that it may use without asking.
    pub allowed_tools: Vec<String>,
    /// Fields that the specification does not know.
    pub other: Vec<String>,
}

/// Something that the specification forbids, or warns of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FrontMatterFault {
    /// The name of the rule, such as `spec-name`.
    pub rule: &'static str,
    /// The line of `SKILL.md`, from 1.
    pub line: usize,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub advice: String,
    /// Whether a reader that keeps to the specification would refuse the skill.
    pub is_error: bool,
}

impl FrontMatter {
    /// Reads the front matter of a `SKILL.md`; `None` where there is none.
    ///
    /// # Errors
    ///
    /// Text between the two `---` lines that is not YAML, or not a mapping.
    pub fn read(main: &str) -> Result<Option<Self>, FrontMatterFault> {
        let Some(fields) = read_fields(main)? else { return Ok(None) };
        let text = |name: &str| fields.get(name).and_then(Value::as_str).map(str::to_owned);
        let metadata = fields.get("metadata").and_then(Value::as_object);
        let pairs = metadata.into_iter().flatten();
        Ok(Some(Self {
            name: text("name"),
            description: text("description"),
            license: text("license"),
            compatibility: text("compatibility"),
            metadata: pairs.map(|(name, value)| (name.clone(), plain(value))).collect(),
            allowed_tools: tools(fields.get("allowed-tools")),
            other: fields.keys().filter(|name| !FIELDS.contains(&name.as_str())).cloned().collect(),
        }))
    }
}

/// Checks the front matter of a `SKILL.md` by the specification; `folder` is the name of the folder that it is in.
pub fn check_front_matter(main: &str, folder: Option<&str>) -> Vec<FrontMatterFault> {
    let fields = match read_fields(main) {
        Ok(Some(_)) if main.starts_with('\u{feff}') => return vec![byte_order_mark()],
        Ok(Some(fields)) => fields,
        Ok(None) => {
            let advice = "begin SKILL.md with a line `---`, `name: ..`, `description: ..` and a line `---`";
            return vec![error("spec-front-matter", 1, "SKILL.md has no front matter", advice)];
        }
        Err(fault) => return vec![fault],
    };
    let line_of = |name: &str| line_of_field(main, name);
    let mut faults = Vec::new();
    match required(&fields, "name", "spec-name", line_of("name")) {
        Ok(name) => check_name(name, folder, line_of("name"), &mut faults),
        Err(fault) => faults.push(fault),
    }
    match required(&fields, "description", "spec-description", line_of("description")) {
        Ok(description) => {
            let line = line_of("description");
            check_length(
                description,
                "description",
                MAX_DESCRIPTION_CHARS,
                "spec-description",
                line,
                &mut faults,
            );
        }
        Err(fault) => faults.push(fault),
    }
    check_optional(&fields, &line_of, &mut faults);
    faults.extend(check_upload(&fields, &line_of));
    faults.extend(check_style(main));
    for name in fields.keys().filter(|name| !FIELDS.contains(&name.as_str())) {
        let message = format!("the specification has no field `{name}`, and its validator refuses it");
        faults.push(warning(
            "spec-field",
            line_of(name),
            message,
            "put it under `metadata`, if the agent allows that",
        ));
    }
    faults
}

/// What Claude refuses when a package is uploaded to it, although the specification allows it: tags in name or description,
/// and names with a word of its maker's.
fn check_upload(fields: &Map<String, Value>, line_of: &impl Fn(&str) -> usize) -> Vec<FrontMatterFault> {
    let text = |field: &str| fields.get(field).and_then(Value::as_str).unwrap_or_default();
    let tagged = ["name", "description"].into_iter().filter(|field| has_tag(text(field))).map(|field| {
        let message = format!("`{field}` holds a tag such as `<name>`, and Claude refuses such a package");
        error("upload-tag", line_of(field), message, "write it without angle brackets")
    });
    let name = text("name").to_lowercase();
    let reserved = RESERVED_WORDS.into_iter().find(|word| name.split('-').any(|part| part == *word));
    let reserved = reserved.map(|word| {
        let message = format!("the name has the word `{word}`, which Claude reserves and refuses");
        error("upload-name", line_of("name"), message, "take another name")
    });
    tagged.chain(reserved).collect()
}

/// What Claude would refuse of a document if it became a package as it is; nothing for one without front matter.
pub(crate) fn check_upload_of_document(main: &str) -> Vec<FrontMatterFault> {
    let Ok(Some(fields)) = read_fields(main) else { return Vec::new() };
    let faults = check_upload(&fields, &|name: &str| line_of_field(main, name));
    faults.into_iter().map(|fault| FrontMatterFault { is_error: false, ..fault }).collect()
}

/// True for `<name>`, `</name>` and the like; `a < b` has none.
fn has_tag(text: &str) -> bool {
    text.match_indices('<').any(|(at, _)| {
        let inside = text.get(at + 1..).unwrap_or_default();
        let inside = inside.strip_prefix('/').unwrap_or(inside);
        inside.starts_with(|first: char| first.is_ascii_alphabetic()) && inside.contains('>')
    })
}

/// That `SKILL.md` begins with a byte-order mark, which is in the file and in no text that was read from it.
pub(crate) fn byte_order_mark() -> FrontMatterFault {
    let message = "SKILL.md begins with a byte-order mark, and agents see no front matter behind it";
    error("spec-front-matter", 1, message, "save the file as UTF-8 without a mark")
}

/// A `SKILL.md` with this name and this description in its front matter, which is made if there is none.
///
/// Everything else stays to the byte.
pub fn with_fields(main: &str, name: Option<&str>, description: Option<&str>) -> String {
    let line_end = if main.contains("\r\n") { "\r\n" } else { "\n" };
    let Some(end) = front_matter_end(main) else {
        let fields: Vec<String> = [("name", name), ("description", description)]
            .into_iter()
            .filter_map(|(field, value)| value.map(|value| format!("{field}: {}{line_end}", scalar(value))))
            .collect();
        return [&["---", line_end].concat(), fields.concat().as_str(), "---", line_end, main].concat();
    };
    let (head, rest) = main.split_at(end);
    let mut lines: Vec<String> = head.split_inclusive('\n').map(str::to_owned).collect();
    for (field, value) in [("description", description), ("name", name)] {
        if let Some(value) = value {
            set_field(&mut lines, field, value, line_end, 1);
        }
    }
    lines.concat() + rest
}

/// A `SKILL.md` with this text in a field of its front matter, such as one that only some agents read. A field that was
/// not there comes last; without front matter nothing changes.
///
/// Everything else stays to the byte.
pub fn with_field(main: &str, field: &str, value: &str) -> String {
    let line_end = if main.contains("\r\n") { "\r\n" } else { "\n" };
    let Some(end) = front_matter_end(main) else { return main.to_owned() };
    let (head, rest) = main.split_at(end);
    let mut lines: Vec<String> = head.split_inclusive('\n').map(str::to_owned).collect();
    let last = lines.iter().rposition(|line| line.trim_end() == "---").unwrap_or(lines.len());
    set_field(&mut lines, field, value, line_end, last);
    lines.concat() + rest
}

fn set_field(lines: &mut Vec<String>, field: &str, value: &str, line_end: &str, new_at: usize) {
    let line = format!("{field}: {}{line_end}", scalar(value));
    match field_range(lines, field) {
        Some(range) => drop(lines.splice(range, [line])),
        None => lines.insert(new_at.min(lines.len()), line),
    }
}

/// A name that the specification takes, made of any text; empty where nothing of the text can be in one.
pub fn name_of(text: &str) -> String {
    let mut name = String::new();
    for letter in text.chars().flat_map(char::to_lowercase) {
        if letter.is_ascii_lowercase() || letter.is_ascii_digit() {
            name.push(letter);
        } else if !name.is_empty() && !name.ends_with('-') {
            name.push('-');
        }
        if name.len() == MAX_NAME_CHARS {
            break;
        }
    }
    name.trim_end_matches('-').to_owned()
}

fn read_fields(main: &str) -> Result<Option<Map<String, Value>>, FrontMatterFault> {
    const ADVICE: &str = "fix the YAML; a text with `: ` or `#` in it needs quotes";
    let Some(end) = front_matter_end(main) else { return Ok(None) };
    let head = main.split_at(end).0;
    let yaml =
        head.split_once('\n').map(|(_, rest)| rest).unwrap_or_default().trim_end().trim_end_matches('-');
    if yaml.trim().is_empty() {
        return Ok(Some(Map::new()));
    }
    match serde_saphyr::from_str::<Value>(yaml) {
        Ok(Value::Object(fields)) => Ok(Some(fields)),
        Ok(Value::Null) => Ok(Some(Map::new())),
        Ok(_) => {
            Err(error("spec-front-matter", 2, "the front matter is not a mapping of names to values", ADVICE))
        }
        Err(fault) => {
            let place = fault.location();
            let line = place.and_then(|at| usize::try_from(at.line()).ok()).unwrap_or(1);
            if let Some(key) = repeated_key(yaml) {
                let message = format!("the front matter has `{key}` twice");
                return Err(error("spec-front-matter", line + 1, message, "keep one of them"));
            }
            // The place counts from the first line of the YAML, and is told apart.
            let text = fault.without_snippet().to_string();
            let text = text.lines().next().unwrap_or_default();
            let text = text.split_once(" at line ").map_or(text, |(text, _)| text);
            let text = text
                .split_once(": ")
                .filter(|(place, _)| place.starts_with("line "))
                .map_or(text, |(_, text)| text);
            let column = place.map(|at| format!(" (column {})", at.column())).unwrap_or_default();
            let message = format!("the front matter is not YAML: {text}{column}");
            Err(error("spec-front-matter", line + 1, message, ADVICE))
        }
    }
}

/// A key of the top level that is there twice.
fn repeated_key(yaml: &str) -> Option<&str> {
    let keys = yaml.lines().filter(|line| !line.starts_with([' ', '\t', '#', '-']));
    let keys = keys.filter_map(|line| Some(line.split_once(':')?.0.trim().trim_matches(['"', '\''])));
    let mut seen = BTreeSet::new();
    keys.into_iter().find(|key| !seen.insert(*key))
}

fn check_name(name: &str, folder: Option<&str>, line: usize, faults: &mut Vec<FrontMatterFault>) {
    const ADVICE: &str = "take lower-case letters, digits and single hyphens, such as `pdf-forms`";
    // As the validator of the specification does: systems of files keep names in other forms of Unicode.
    let name: &str = &name.trim().nfkc().collect::<String>();
    let n_chars = name.chars().count();
    if n_chars > MAX_NAME_CHARS {
        let message = format!("the name has {n_chars} characters, at most {MAX_NAME_CHARS} are allowed");
        faults.push(error("spec-name", line, message, "shorten it"));
    }
    let is_letter = |c: char| c == '-' || (c.is_alphanumeric() && c.to_lowercase().eq([c]));
    if let Some(bad) = name.chars().find(|c| !is_letter(*c)) {
        faults.push(error("spec-name", line, format!("the name has {bad:?} in it"), ADVICE));
    } else if !name.is_ascii() {
        let message = "the name has letters beyond a to z, which not every agent takes";
        faults.push(warning("spec-name", line, message.to_owned(), ADVICE));
    }
    if name.starts_with('-') || name.ends_with('-') || name.contains("--") {
        let message = "the name has a hyphen at an end, or two in a row";
        faults.push(error("spec-name", line, message, ADVICE));
    }
    let is_other = |folder: &&str| !folder.nfkc().eq(name.chars());
    if let Some(folder) = folder.filter(is_other) {
        let message = format!("the name is `{name}`, but the folder is called `{folder}`");
        faults.push(error("spec-folder", line, message, "give both the same name"));
    }
}

fn check_optional(
    fields: &Map<String, Value>,
    line_of: &impl Fn(&str) -> usize,
    faults: &mut Vec<FrontMatterFault>,
) {
    if let Some(license) = fields.get("license") {
        text_of(license, "license", "spec-license", line_of("license"), faults);
    }
    if let Some(value) = fields.get("compatibility") {
        let line = line_of("compatibility");
        if let Some(text) = text_of(value, "compatibility", "spec-compatibility", line, faults) {
            check_length(text, "compatibility", MAX_COMPATIBILITY_CHARS, "spec-compatibility", line, faults);
        }
    }
    match fields.get("metadata") {
        None => {}
        Some(Value::Object(pairs)) => {
            for (name, _) in pairs.iter().filter(|(_, value)| !value.is_string()) {
                let message = format!("`metadata.{name}` is not a text");
                faults.push(warning(
                    "spec-metadata",
                    line_of("metadata"),
                    message,
                    "put the value in quotes",
                ));
            }
        }
        Some(_) => {
            let advice = "write one `name: \"value\"` a line below it, indented";
            faults.push(error("spec-metadata", line_of("metadata"), "`metadata` is not a mapping", advice));
        }
    }
    match fields.get("allowed-tools") {
        None | Some(Value::String(_)) => {}
        Some(Value::Array(tools)) if tools.iter().all(Value::is_string) => {}
        Some(_) => {
            let message = "`allowed-tools` is neither a text nor a list of texts";
            let advice = "write the tools with spaces between them, such as `Read Bash(git:*)`";
            faults.push(error("spec-allowed-tools", line_of("allowed-tools"), message, advice));
        }
    }
}

fn required<'f>(
    fields: &'f Map<String, Value>,
    name: &str,
    rule: &'static str,
    line: usize,
) -> Result<&'f str, FrontMatterFault> {
    match fields.get(name) {
        Some(Value::String(text)) if !text.trim().is_empty() => Ok(text),
        Some(Value::String(_) | Value::Null) => {
            Err(error(rule, line, format!("`{name}` is empty"), "fill it in"))
        }
        Some(_) => Err(error(rule, line, format!("`{name}` is not a text"), "put the value in quotes")),
        None => Err(error(rule, line, format!("there is no `{name}`"), format!("add a line `{name}: ..`"))),
    }
}

fn text_of<'f>(
    value: &'f Value,
    name: &str,
    rule: &'static str,
    line: usize,
    faults: &mut Vec<FrontMatterFault>,
) -> Option<&'f str> {
    let text = value.as_str().filter(|text| !text.trim().is_empty());
    if text.is_none() {
        faults.push(error(
            rule,
            line,
            format!("`{name}` is not a text, or is empty"),
            "leave it out, or quote it",
        ));
    }
    text
}

fn check_length(
    text: &str,
    name: &str,
    most: usize,
    rule: &'static str,
    line: usize,
    faults: &mut Vec<FrontMatterFault>,
) {
    let n_chars = text.chars().count();
    if n_chars > most {
        let message = format!("`{name}` has {n_chars} characters, at most {most} are allowed");
        faults.push(error(rule, line, message, "shorten it"));
    }
}

fn tools(value: Option<&Value>) -> Vec<String> {
    match value {
        Some(Value::String(text)) => text.split_whitespace().map(str::to_owned).collect(),
        Some(Value::Array(tools)) => tools.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        Some(_) | None => Vec::new(),
    }
}

/// A value as text; what is no text as JSON has it.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// A text as YAML: as it is where that means the same, else in quotes.
fn scalar(text: &str) -> String {
    let is_plain = serde_saphyr::from_str::<Value>(text).is_ok_and(|read| read.as_str() == Some(text))
        && serde_saphyr::from_str::<Value>(&format!("a: {text}"))
            .is_ok_and(|read| read.get("a").and_then(Value::as_str) == Some(text));
    if is_plain && !text.contains('\n') { text.to_owned() } else { Value::from(text).to_string() }
}

/// The lines of a field at the top level: its own, and those below it that are indented or blank.
fn field_range(lines: &[String], field: &str) -> Option<std::ops::Range<usize>> {
    let start = lines.iter().position(|line| is_field(line, field))?;
    let is_below = |line: &String| line.starts_with([' ', '\t']) || line.trim().is_empty();
    let n_below = lines.iter().skip(start + 1).take_while(|line| is_below(line)).count();
    Some(start..start + 1 + n_below)
}

fn is_field(line: &str, field: &str) -> bool {
    let unquoted = line.trim_start_matches(['"', '\'']);
    let rest = unquoted.strip_prefix(field).map(|rest| rest.trim_start_matches(['"', '\'']).trim_start());
    rest.is_some_and(|rest| rest.starts_with(':'))
}

/// The line of a field in `SKILL.md`, from 1; that of the opening line where it is not found.
fn line_of_field(main: &str, field: &str) -> usize {
    let head = main.split_at(front_matter_end(main).unwrap_or_default()).0;
    head.lines().zip(1..).find(|(line, _)| is_field(line, field)).map_or(1, |(_, number)| number)
}

fn error(
    rule: &'static str,
    line: usize,
    message: impl Into<String>,
    advice: impl Into<String>,
) -> FrontMatterFault {
    FrontMatterFault { rule, line, message: message.into(), advice: advice.into(), is_error: true }
}

pub(super) fn warning(rule: &'static str, line: usize, message: String, advice: &str) -> FrontMatterFault {
    FrontMatterFault { rule, line, message, advice: advice.to_owned(), is_error: false }
}
