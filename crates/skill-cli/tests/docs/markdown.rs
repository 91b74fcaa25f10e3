//! Markdown as far as these tests look into it: fenced blocks, hidden commands, headings, links, spans of code.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// What begins a comment whose commands are run and not shown.
const HIDDEN: &str = "<!-- run:";

/// What differs from the reference systems, and the tests that hold it.
pub(crate) const DIFFERENCES: &str = "crates/skill-pipeline/tests/conformance/README.md";

/// A file of the documentation.
pub(crate) struct Page {
    /// The path from the root of the repository.
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    pub(crate) lines: Vec<String>,
}

/// What a page asks for, in order.
pub(crate) enum Part {
    /// A fenced block.
    Block(Block),
    /// A command in a comment, which makes what the page takes for granted.
    Hidden { line: usize, command: String },
}

/// A fenced block.
pub(crate) struct Block {
    /// The index of the line with the opening fence.
    pub(crate) line: usize,
    /// The first word behind the fence.
    pub(crate) language: String,
    /// The other words, which forges and mdbook do not look at: `name=value`, or a name.
    pub(crate) attributes: BTreeMap<String, String>,
    /// What is between the fences, without the indentation of the fence.
    pub(crate) lines: Vec<String>,
    /// How far the fence is indented.
    pub(crate) indent: usize,
}

/// A command of a block, with what the page shows of its output.
pub(crate) struct Command {
    pub(crate) text: String,
    /// The index of the line that it begins in.
    pub(crate) line: usize,
    /// What is shown; nothing is shown of a command whose output is not compared.
    pub(crate) output: Vec<String>,
    /// The index of the first line behind the command.
    pub(crate) output_line: usize,
}

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Every page that a user reads, in the order of their names.
pub(crate) fn pages() -> Vec<Page> {
    let root = root();
    let mut paths: Vec<PathBuf> =
        ["README.md", "COMPARE.md", "CONTRIBUTING.md", "ARCHITECTURE.md", "benches/README.md"]
            .into_iter()
            .chain(["benches/search.md", "benches/weights.md", DIFFERENCES])
            .map(|name| root.join(name))
            .collect();
    for dir in ["docs", "examples", "crates/skillrl/demo"] {
        collect(&root.join(dir), &mut paths);
    }
    paths.sort();
    paths.into_iter().map(|path| Page::read(&root, path)).collect()
}

fn collect(dir: &Path, pages: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if path.is_dir() {
            // What a build or a run leaves in an example is no documentation.
            if !["target", "run", "book"].iter().any(|name| path.ends_with(name)) {
                collect(&path, pages);
            }
        } else if path.extension().is_some_and(|extension| extension == "md") && is_page(&path) {
            pages.push(path);
        }
    }
}

/// Skills of the examples are Markdown too, and are told to a model rather than to a reader.
fn is_page(path: &Path) -> bool {
    !path.file_name().is_some_and(|name| name.to_string_lossy().ends_with("skill.md"))
}

impl Page {
    fn read(root: &Path, path: PathBuf) -> Self {
        let text = std::fs::read_to_string(&path).unwrap();
        let name = path.strip_prefix(root).unwrap().to_string_lossy().into_owned();
        Self { name, path, lines: text.lines().map(str::to_owned).collect() }
    }

    /// Where a line is, for a message.
    pub(crate) fn at(&self, line: usize) -> String {
        format!("{}:{}", self.name, line + 1)
    }

    /// True if a command of the page needs a program that not every machine has.
    pub(crate) fn needs_a_program(&self) -> bool {
        self.parts().iter().any(|part| match part {
            Part::Block(block) => block.attributes.get("external").is_some_and(|why| why == "program"),
            Part::Hidden { .. } => false,
        })
    }

    pub(crate) fn parts(&self) -> Vec<Part> {
        let mut parts = Vec::new();
        let mut lines = self.lines.iter().enumerate();
        while let Some((line, text)) = lines.next() {
            if let Some(comment) = text.strip_prefix(HIDDEN) {
                let command = comment.strip_suffix("-->").unwrap_or_else(|| {
                    panic!("{}: a hidden command stands in one line, with its end", self.at(line))
                });
                parts.push(Part::Hidden { line, command: command.trim().to_owned() });
                continue;
            }
            let Some(info) = text.trim_start().strip_prefix("```") else { continue };
            let indent = text.len() - text.trim_start().len();
            let mut words = info.split(' ').filter(|word| !word.is_empty());
            let language = words.next().unwrap_or_default().to_owned();
            let attributes = words
                .map(|word| word.split_once('=').unwrap_or((word, "")))
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .collect();
            let inside = lines
                .by_ref()
                .map(|(_, text)| text.get(indent..).unwrap_or_default())
                .take_while(|text| !text.starts_with("```"))
                .map(str::to_owned)
                .collect();
            parts.push(Part::Block(Block { line, language, attributes, lines: inside, indent }));
        }
        parts
    }

    /// The lines outside of fenced blocks and comments, with their indices.
    pub(crate) fn prose(&self) -> Vec<(usize, &str)> {
        let (mut is_fenced, mut is_comment) = (false, false);
        let mut prose = Vec::new();
        for (line, text) in self.lines.iter().enumerate() {
            if text.trim_start().starts_with("```") {
                is_fenced = !is_fenced;
                continue;
            }
            is_comment |= text.starts_with("<!--");
            if !is_fenced && !is_comment {
                prose.push((line, text.as_str()));
            }
            is_comment &= !text.contains("-->");
        }
        prose
    }
}

impl Block {
    /// Whether it holds what a person types, and not a file.
    pub(crate) fn has_commands(&self) -> bool {
        !self.attributes.contains_key("include")
            && ["sh", "console", "bash", "shell"].contains(&self.language.as_str())
    }

    /// The commands of a `sh` block, one a line, or those behind the prompts of a `console` block.
    pub(crate) fn commands(&self) -> Vec<Command> {
        let mut commands: Vec<Command> = Vec::new();
        let mut goes_on = false;
        for (idx, text) in self.lines.iter().enumerate() {
            let line = self.line + 1 + idx;
            let typed = match self.language.as_str() {
                "console" if goes_on => Some(text.strip_prefix("> ").unwrap_or(text)),
                "console" => text.strip_prefix("$ "),
                _ => Some(text.as_str()).filter(|text| !text.trim().is_empty() && !text.starts_with('#')),
            };
            let Some(typed) = typed else {
                if let Some(command) = commands.last_mut().filter(|_| self.language == "console") {
                    command.output.push(text.clone());
                }
                continue;
            };
            let (part, more) = typed.strip_suffix('\\').map_or((typed, false), |part| (part, true));
            match commands.last_mut().filter(|_| goes_on) {
                Some(command) => {
                    command.text.push_str(part.trim_start());
                    command.output_line = line + 1;
                }
                None => commands.push(Command {
                    text: part.to_owned(),
                    line,
                    output: Vec::new(),
                    output_line: line + 1,
                }),
            }
            goes_on = more;
        }
        commands
    }
}
