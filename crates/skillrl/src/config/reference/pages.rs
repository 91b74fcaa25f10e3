//! The table of keys as pages of Markdown: an index, and a page for each section of the configuration.
//!
//! The sections of models that share their keys, such as `[models.target]` and `[models.judge]`, are one section
//! `[models.ROLE]`.

use crate::config::key::{Effect, KeyDefault, KeySpec};
use crate::config::keys::{SectionSpec, sections};
use std::fmt::Write as _;

/// The index, below the directory of the reference.
pub const INDEX: &str = "configuration.md";
/// The directory of the sections' pages, beside the index.
pub const DIRECTORY: &str = "configuration";
/// The first role of a model; sections with the same keys are further roles.
const FIRST_ROLE: &str = "models.target";
/// What stands for the name of a role.
const ANY_ROLE: &str = "models.ROLE";

/// A page of the reference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// The path below the directory of the reference, with `/`.
    pub path: String,
    /// The text, in Markdown.
    pub text: String,
}

/// The index first, then a page for each section in the order of the file; a section `[run.nats]` is on the page of
/// `[run]`.
pub fn pages() -> Vec<Page> {
    let mut names: Vec<&str> = Vec::new();
    for section in sections() {
        let name = page_of(section);
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let index = Page { path: INDEX.to_owned(), text: index(&names) };
    let sections = names.iter().map(|name| Page { path: path_of(name), text: page(name) });
    std::iter::once(index).chain(sections).collect()
}

/// The name of the page that a section is on: the first part of its path.
fn page_of(section: &SectionSpec) -> &'static str {
    section.path.split('.').next().unwrap_or(section.path)
}

fn path_of(name: &str) -> String {
    format!("{DIRECTORY}/{name}.md")
}

fn index(names: &[&str]) -> String {
    let mut text = String::from(
        "# Configuration\n\n\
         These pages are made from the program's own table of keys by `cargo xtask gen`.\n\
         `skillrl init --full` writes a commented file, `skillrl config show` says what holds and where it comes from, \
         `skillrl config schema` prints a JSON schema for editors.\n\
         Any key can be set on the command line: `--set train.batch_size=8`.\n\
         Paths are relative to the configuration file.\n\n\
         | section | |\n|---|---|\n",
    );
    for name in names {
        for (title, doc) in blocks(name).iter().map(|block| (block.title, block.doc)) {
            let _ = writeln!(text, "| [`[{title}]`]({}) | {doc} |", path_of(name));
        }
    }
    text
}

/// Keys below one heading.
struct Block {
    /// The path of the section, or of all roles of a model.
    title: &'static str,
    doc: &'static str,
    sections: Vec<&'static SectionSpec>,
}

impl Block {
    /// The different keys of its sections, each with the sections that have it.
    fn keys(&self) -> Vec<(&'static KeySpec, Vec<&'static SectionSpec>)> {
        let mut keys: Vec<(&KeySpec, Vec<&SectionSpec>)> = Vec::new();
        for section in &self.sections {
            for key in section.keys() {
                match keys.iter_mut().find(|(known, _)| *known == key) {
                    Some((_, holders)) => holders.push(section),
                    None => keys.push((key, vec![section])),
                }
            }
        }
        keys
    }
}

/// What is on a page.
fn blocks(name: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    for section in sections().iter().filter(|section| page_of(section) == name) {
        if !is_role(section) {
            blocks.push(Block { title: section.path, doc: section.doc, sections: vec![section] });
        } else if let Some(roles) = blocks.iter_mut().find(|block| block.title == ANY_ROLE) {
            roles.sections.push(section);
        } else {
            let doc = "A model, by its role: `target`, `optimizer` and others.";
            blocks.push(Block { title: ANY_ROLE, doc, sections: vec![section] });
        }
    }
    blocks
}

/// True for a section with the keys that all models have.
fn is_role(section: &SectionSpec) -> bool {
    let first = sections().iter().find(|section| section.path == FIRST_ROLE);
    let shares = |first: &SectionSpec| {
        first.key("provider").is_some() && first.key("provider") == section.key("provider")
    };
    section.path.starts_with("models.") && first.is_some_and(shares)
}

fn page(name: &str) -> String {
    let mut text = String::new();
    for (idx, block) in blocks(name).iter().enumerate() {
        let level = if idx == 0 { "#" } else { "\n##" };
        let _ = write!(text, "{level} `[{}]`\n\n{}\n", block.title, block.doc);
        let roles = block.title == ANY_ROLE;
        if roles {
            text.push_str("\n| role | |\n|---|---|\n");
            for section in &block.sections {
                let _ = writeln!(text, "| `[{}]` | {} |", section.path, section.doc);
            }
            text.push_str(
                "\n`[models.targets.NAME]` has the same keys: a further model that may do the tasks.\n",
            );
        }
        for (key, holders) in block.keys() {
            let heading = if idx == 0 { "##" } else { "###" };
            let _ = write!(text, "\n{heading} `{}.{}`\n\n", block.title, key.name);
            let only = (holders.len() < block.sections.len()).then_some(holders.as_slice());
            key_markdown(&mut text, key, only);
        }
    }
    text
}

/// What a key does, then a line with what it takes; `only` are the sections that have it, if not all of the heading.
fn key_markdown(text: &mut String, key: &KeySpec, only: Option<&[&SectionSpec]>) {
    for sentence in key.doc().lines() {
        let _ = writeln!(text, "{sentence}");
    }
    let _ = write!(text, "\n- Takes {}.", key.value.expectation().replace('|', "\\|"));
    let _ = match key.default {
        KeyDefault::Required { example } => write!(text, " Required, such as `{example}`."),
        KeyDefault::Value(default) => write!(text, " Default: `{default}`."),
        KeyDefault::Absent { example } | KeyDefault::Suggested { example } => {
            write!(text, " No default; an example is `{example}`.")
        }
    };
    if key.effect != Effect::Result {
        text.push_str(" May change when a run is resumed.");
    }
    text.push('\n');
    if let Some(only) = only {
        let _ =
            writeln!(text, "- Only in {}.", spans(only.iter().map(|section| format!("[{}]", section.path))));
    }
    if !key.kinds.names().is_empty() {
        let _ = writeln!(text, "- Of kind {}.", spans(key.kinds.names().iter().map(ToString::to_string)));
    }
}

/// Names as code, with commas.
fn spans(names: impl Iterator<Item = String>) -> String {
    names.map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text_of(path: &str) -> String {
        pages().into_iter().find(|page| page.path == path).unwrap().text
    }

    #[test]
    fn every_key_is_on_the_page_of_its_section_once() {
        for section in sections() {
            let page = text_of(&path_of(page_of(section)));
            let title = if is_role(section) { ANY_ROLE } else { section.path };
            for key in section.keys() {
                let heading = format!("# `{title}.{}`\n", key.name);
                assert_eq!(page.matches(&heading).count(), 1, "{}: {}", section.path, key.name);
            }
        }
    }

    #[test]
    fn keys_of_some_roles_name_them() {
        let models = text_of("configuration/models.md");
        let flaws = models.split("## `models.ROLE.flaw_rate`").nth(1).unwrap();
        let flaws = flaws.split("\n## ").next().unwrap();
        assert!(
            flaws.contains("`[models.optimizer]`, `[models.teacher]`") && !flaws.contains("judge"),
            "{flaws}"
        );
    }
}
