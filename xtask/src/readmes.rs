//! The README of each crate that can be taken alone: its front page in the documentation, as plain Markdown.

use anyhow::Context as _;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Where the project is.
const PROJECT: &str = "https://github.com/skillrl/skillrl";

/// The pages, by their paths.
pub(crate) fn pages(root: &Path) -> anyhow::Result<BTreeMap<PathBuf, String>> {
    let mut pages = BTreeMap::new();
    for entry in fs::read_dir(root.join("crates"))? {
        let folder = entry?.path();
        let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap_or_default();
        if manifest.is_empty() || manifest.lines().any(|line| line == "publish = false") {
            continue;
        }
        let source = folder.join("src/lib.rs");
        let text =
            fs::read_to_string(&source).with_context(|| format!("cannot read {}", source.display()))?;
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        pages.insert(folder.join("README.md"), page(&name, &text));
    }
    Ok(pages)
}

fn page(name: &str, source: &str) -> String {
    let documented = source.lines().map_while(|line| line.strip_prefix("//!"));
    let documented = documented.map(|line| line.strip_prefix(' ').unwrap_or(line));
    // What follows is for those who change the crate.
    let documented = documented.take_while(|line| *line != "# Invariants");
    let mut page = format!("# {name}\n\n");
    let mut is_code = false;
    for line in documented {
        if let Some(language) = line.strip_prefix("```") {
            is_code = !is_code;
            let is_rust = is_code && ["", "no_run", "ignore", "should_panic"].contains(&language);
            page.push_str(if is_rust { "```rust" } else { line });
        } else if !is_code {
            page.push_str(if line.starts_with("# ") { "#" } else { "" });
            page.push_str(&without_links(line));
        } else if line == "#" || line.starts_with("# ") {
            // Hidden in the documentation too.
            continue;
        } else {
            page.push_str(line);
        }
        page.push('\n');
    }
    format!("{}\n\nA part of [skillrl]({PROJECT}).\n", page.trim_end())
}

/// A line without the links that only rustdoc knows: to items, in brackets, with or without a path behind them.
fn without_links(line: &str) -> String {
    let mut plain = String::new();
    let mut rest = line;
    while let Some((before, tail)) = rest.split_once('[') {
        plain.push_str(before);
        let Some((text, after)) = tail.split_once(']') else {
            plain.push('[');
            rest = tail;
            continue;
        };
        let path = after.strip_prefix('(').and_then(|after| after.split_once(')'));
        rest = match path {
            Some((path, after)) if !path.contains('/') => {
                plain.push_str(text);
                after
            }
            None if text.starts_with('`') => {
                plain.push_str(text);
                after
            }
            _ => {
                plain.push_str(&format!("[{text}]"));
                after
            }
        };
    }
    plain + rest
}

#[cfg(test)]
mod tests {
    use super::{page, without_links};

    #[test]
    fn links_to_items_are_plain_text() {
        for (line, plain) in [
            ("[`Env`](envs::Env) or [`World`]s", "`Env` or `World`s"),
            (
                "the sum of its [events](BankEvent): [a page](https://example.org/a)",
                "the sum of its events: [a page](https://example.org/a)",
            ),
            ("a [list], and `[models.ROLE]` [open", "a [list], and `[models.ROLE]` [open"),
        ] {
            assert_eq!(without_links(line), plain);
        }
    }

    #[test]
    fn a_page_has_the_code_that_people_see() {
        let source = "//! Says it.\n//!\n//! # Example\n//!\n//! ```\n//! # fn main() {\n//! #[test]\n//! go();\n//! # }\n//! ```\n//!\n//! # Invariants\n//!\n//! - One.\n\nmod a;\n//! not this\n";
        let expect = "# skill-x\n\nSays it.\n\n## Example\n\n```rust\n#[test]\ngo();\n```\n\nA part of [skillrl](https://github.com/skillrl/skillrl).\n";
        assert_eq!(page("skill-x", source), expect);
    }
}
