//! The tools: what a model is told of each, and what a call comes to.
//!
//! Whatever a call says, what comes of it is a text for the agent.

use super::folder::Folder;
use super::glob::Glob;
use crate::error::EnvError;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use skill_llm::ToolSpec;
use std::borrow::Cow;

/// What ends a page of a text, as `pdftotext` writes it.
const PAGE_END: char = '\u{c}';
/// The most bytes of what a call comes to.
const MAX_RESULT_BYTES: usize = 24_000;
/// The most files that a list shows.
const MAX_LISTED: usize = 200;
/// The most lines that a search finds.
const MAX_FOUND: usize = 50;
/// The most characters of a line that a search shows.
const MAX_LINE_CHARACTERS: usize = 300;
/// The most lines around a found one.
const MAX_AROUND: u64 = 5;
/// How many names a message shows.
const MAX_NAMED: usize = 5;

/// A tool over the files of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileTool {
    /// Which files there are.
    List,
    /// A part of a file.
    Read,
    /// Lines in which a pattern is found.
    Grep,
}

impl FileTool {
    /// All tools.
    pub const ALL: [Self; 3] = [Self::List, Self::Read, Self::Grep];

    /// The name by which it is called.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::List => "list",
            Self::Read => "read",
            Self::Grep => "grep",
        }
    }

    /// The tool of this name; `glob` is another name of `list`.
    ///
    /// # Errors
    ///
    /// There is no such tool.
    pub fn parse(name: &str) -> Result<Self, EnvError> {
        let found = Self::ALL.into_iter().find(|tool| tool.as_str() == name);
        found.or((name == "glob").then_some(Self::List)).ok_or_else(|| EnvError::Configuration {
            message: format!("`file_tools` names `{name}`; expected list, read or grep"),
        })
    }

    /// What a model is told of it.
    pub(in crate::tasks) fn spec(self) -> ToolSpec {
        let text = |description: &str| json!({"type": "string", "description": description});
        let number = |description: &str| json!({"type": "integer", "minimum": 0, "description": description});
        let (description, properties, required) = match self {
            Self::List => (
                "Lists the files of this task with their sizes.",
                json!({"pattern": text("only matching names, such as *.txt or 1941/**; default: all")}),
                json!([]),
            ),
            Self::Read => (
                "Reads a file or a part of it. Long parts are cut, and the result says where to continue.",
                json!({
                    "path": text("the name of the file, as shown by `list`"),
                    "first_line": number("the first line, from 1"),
                    "last_line": number("the last line"),
                    "first_page": number("the first page, from 1, instead of lines"),
                    "last_page": number("the last page"),
                    "max_bytes": number("the most bytes of the result"),
                }),
                json!(["path"]),
            ),
            Self::Grep => (
                "Finds the lines that match a regular expression, with their numbers.",
                json!({
                    "pattern": text("a regular expression"),
                    "path": text("only in files with matching names, such as *.txt; default: all"),
                    "ignore_case": {"type": "boolean", "description": "true to ignore case"},
                    "context": number("how many lines to show around each match, up to 5"),
                }),
                json!(["pattern"]),
            ),
        };
        ToolSpec {
            name: self.as_str().to_owned(),
            description: description.to_owned(),
            parameters: json!({
                "type": "object",
                "properties": properties,
                "required": required,
                "additionalProperties": false,
            }),
        }
    }

    /// What a call comes to; an error is told to the agent too.
    pub(in crate::tasks) fn run(
        self,
        arguments: &Map<String, Value>,
        folder: &Folder,
        files: &[String],
    ) -> String {
        let spec = self.spec();
        let known = spec.parameters.get("properties").and_then(Value::as_object);
        let unknown = arguments.keys().find(|name| known.is_none_or(|known| !known.contains_key(*name)));
        let arguments = Arguments(arguments);
        let done = match (self, unknown) {
            (_, Some(name)) => {
                let known: Vec<&str> = known.into_iter().flat_map(Map::keys).map(String::as_str).collect();
                Err(format!("there is no argument `{name}`; expected {}", known.join(", ")))
            }
            (Self::List, None) => list(&arguments, folder, files),
            (Self::Read, None) => read(&arguments, folder, files),
            (Self::Grep, None) => grep(&arguments, folder, files),
        };
        let text = done.unwrap_or_else(|fault| format!("error: {fault}"));
        match cut(&text, MAX_RESULT_BYTES) {
            (_, true) => text,
            (kept, false) => format!("{kept}\n(The rest is not shown; ask for less.)"),
        }
    }
}

/// The arguments of a call.
struct Arguments<'a>(&'a Map<String, Value>);

impl Arguments<'_> {
    fn given(&self, name: &str) -> Option<&Value> {
        self.0.get(name).filter(|value| !value.is_null())
    }

    fn text(&self, name: &str) -> Result<Option<&str>, String> {
        let text = |value: &Value| format!("`{name}` is {value}; expected a text");
        self.given(name).map(|value| value.as_str().ok_or_else(|| text(value))).transpose()
    }

    fn number(&self, name: &str) -> Result<Option<u64>, String> {
        let Some(value) = self.given(name) else { return Ok(None) };
        // Some models write numbers as texts, or with a point.
        let whole = |number: f64| (number.fract() == 0.0 && (0.0..1e15).contains(&number)).then_some(number);
        let number = match value {
            Value::String(text) => text.trim().parse().ok(),
            value => value.as_u64().or_else(|| whole(value.as_f64()?)?.to_string().parse().ok()),
        };
        let number = number.ok_or_else(|| format!("`{name}` is {value}; expected a whole number"))?;
        Ok(Some(number))
    }

    fn flag(&self, name: &str) -> Result<bool, String> {
        match self.given(name) {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(Value::String(text)) if matches!(text.as_str(), "true" | "false") => Ok(text == "true"),
            Some(value) => Err(format!("`{name}` is {value}; expected true or false")),
        }
    }
}

fn list(arguments: &Arguments<'_>, folder: &Folder, files: &[String]) -> Result<String, String> {
    let pattern = arguments.text("pattern")?;
    let glob = pattern.map(Glob::new).transpose()?;
    let found: Vec<&String> =
        files.iter().filter(|name| glob.as_ref().is_none_or(|glob| glob.matches(name))).collect();
    if found.is_empty() {
        return Ok(match pattern {
            Some(pattern) => format!("None of the {} files matches {pattern:?}.", files.len()),
            None => "There are no files.".to_owned(),
        });
    }
    let mut text = String::new();
    for name in found.iter().take(MAX_LISTED) {
        match folder.size(name) {
            Ok(size) => text.push_str(&format!("{name} ({size} bytes)\n")),
            Err(fault) => text.push_str(&format!("{name} ({fault})\n")),
        }
    }
    if found.len() > MAX_LISTED {
        text.push_str(&format!("({} more files match.)\n", found.len() - MAX_LISTED));
    }
    Ok(text.trim_end().to_owned())
}

fn read(arguments: &Arguments<'_>, folder: &Folder, files: &[String]) -> Result<String, String> {
    let name = arguments.text("path")?.ok_or("`path` is missing; expected the name of a file")?;
    let name = known(name, files)?;
    let number = |name| arguments.number(name);
    let (first_line, last_line) = (number("first_line")?, number("last_line")?);
    let (first_page, last_page) = (number("first_page")?, number("last_page")?);
    let max_bytes = number("max_bytes")?.and_then(|number| usize::try_from(number).ok());
    // What the heading and the last remark need is left.
    let max_bytes = max_bytes.unwrap_or(usize::MAX).clamp(1, MAX_RESULT_BYTES - 500);
    let text = folder.text(name).map_err(|fault| format!("{name:?} {fault}"))?;
    let by_pages = first_page.is_some() || last_page.is_some();
    if by_pages && (first_line.is_some() || last_line.is_some()) {
        return Err("lines and pages are both given; expected one of them".to_owned());
    }
    let (unit, separator, first, last) = match by_pages {
        true => ("page", PAGE_END, first_page, last_page),
        false => ("line", '\n', first_line, last_line),
    };
    let text = text.strip_suffix(separator).unwrap_or(&text);
    let parts: Vec<&str> = text.split(separator).collect();
    let at = |number: u64| usize::try_from(number).unwrap_or(usize::MAX).max(1);
    let (first, last) = (at(first.unwrap_or(1)), at(last.unwrap_or(u64::MAX)).min(parts.len()));
    if first > last {
        let n_parts = parts.len();
        return Err(format!("{name:?} has {n_parts} {unit}s, and there is none from {first} to {last}"));
    }
    let wanted = parts.get(first - 1..last).unwrap_or_default();
    let joined = wanted.join(&separator.to_string());
    let (kept, is_whole) = cut(&joined, max_bytes);
    let heading = |last: usize| format!("{name}, {unit}s {first} to {last} of {}", parts.len());
    if is_whole {
        return Ok(format!("{}:\n{kept}", heading(last)));
    }
    let cut_in = first + kept.matches(separator).count();
    Ok(format!(
        "{}:\n{kept}\n(Cut in {unit} {cut_in}; read on from there, or fewer {unit}s.)",
        heading(cut_in)
    ))
}

fn grep(arguments: &Arguments<'_>, folder: &Folder, files: &[String]) -> Result<String, String> {
    let pattern = arguments.text("pattern")?.ok_or("`pattern` is missing; expected a regular expression")?;
    let spelt =
        if arguments.flag("ignore_case")? { Cow::from(format!("(?i){pattern}")) } else { pattern.into() };
    let regex = crate::score::pattern(&spelt)
        .map_err(|fault| format!("`pattern` is no regular expression: {fault}"))?;
    let around = usize::try_from(arguments.number("context")?.unwrap_or(0).min(MAX_AROUND)).unwrap_or(0);
    let path = arguments.text("path")?;
    let glob = path.map(Glob::new).transpose()?;
    let is_meant =
        |name: &&String| glob.as_ref().is_none_or(|glob| glob.matches(name)) || path == Some(name.as_str());
    let (mut shown, mut n_found, mut n_files) = (String::new(), 0_usize, 0_usize);
    for name in files.iter().filter(is_meant) {
        n_files += 1;
        let text = match folder.text(name) {
            Ok(text) => text,
            Err(fault) => {
                shown.push_str(&format!("{name}: {fault}\n"));
                continue;
            }
        };
        let lines: Vec<&str> = text.split('\n').collect();
        let mut page = 1;
        for (line_idx, line) in lines.iter().enumerate() {
            // A page's first line begins with the form feed that ends the page before it.
            let line_of_page = line.trim_start_matches(PAGE_END);
            page += line.len() - line_of_page.len();
            if regex.is_match(line_of_page) {
                n_found += 1;
                if n_found <= MAX_FOUND {
                    let near =
                        lines.get(line_idx.saturating_sub(around)..(line_idx + around + 1).min(lines.len()));
                    let place =
                        Place { name, page: text.contains(PAGE_END).then_some(page), line_idx, around };
                    show(&mut shown, &place, near.unwrap_or_default());
                }
            }
            page += line_of_page.matches(PAGE_END).count();
        }
    }
    if n_files == 0 {
        return Err(format!("no file matches {:?}; `list` shows their names", path.unwrap_or_default()));
    }
    if n_found == 0 {
        return Ok(format!("{shown}No line of {n_files} files matches {pattern:?}."));
    }
    if n_found > MAX_FOUND {
        shown.push_str(&format!("({} more lines match.)\n", n_found - MAX_FOUND));
    }
    Ok(shown.trim_end().to_owned())
}

/// Where a line was found.
struct Place<'a> {
    name: &'a str,
    /// Where the file has pages.
    page: Option<usize>,
    line_idx: usize,
    around: usize,
}

/// Shows a line that was found with those around it.
fn show(shown: &mut String, place: &Place<'_>, near: &[&str]) {
    let Place { name, page, line_idx, around } = place;
    let page = page.map_or_else(String::new, |page| format!(" (page {page})"));
    let first = line_idx.saturating_sub(*around);
    for (number, line) in (first + 1..).zip(near) {
        let line = line.trim_start_matches(PAGE_END);
        let mut text: String = line.chars().take(MAX_LINE_CHARACTERS).collect();
        if text.len() < line.len() {
            text.push_str(" ..");
        }
        let mark = if number == line_idx + 1 { ':' } else { '-' };
        shown.push_str(&format!("{name}{mark}{number}{page}{mark} {}\n", text.trim_end()));
    }
}

/// The file of this name among those of the item; a last part that only one of them has will do.
fn known<'a>(name: &str, files: &'a [String]) -> Result<&'a str, String> {
    if let Some(found) = files.iter().find(|file| *file == name) {
        return Ok(found);
    }
    let mut ending = files.iter().filter(|file| file.rsplit('/').next() == Some(name));
    if let (Some(found), None) = (ending.next(), ending.next()) {
        return Ok(found);
    }
    let named: Vec<&str> = files.iter().take(MAX_NAMED).map(String::as_str).collect();
    let more = if files.len() > MAX_NAMED { ", .." } else { "" };
    Err(format!("this task has no file {name:?}; it has {}{more}", named.join(", ")))
}

/// The beginning of a text, cut between characters, and whether that is all of it.
fn cut(text: &str, max_bytes: usize) -> (&str, bool) {
    if text.len() <= max_bytes {
        return (text, true);
    }
    let end = (0..=max_bytes).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    (text.get(..end).unwrap_or_default(), false)
}
