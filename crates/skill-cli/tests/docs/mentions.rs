//! What the pages say in passing: commands and options within a sentence, and pieces of configuration.

use crate::markdown::{Part, pages, root};
use crate::sandbox::Sandbox;
use regex::Regex;
use std::collections::BTreeMap;
use std::sync::LazyLock;

static SPAN: LazyLock<Regex> = LazyLock::new(|| Regex::new("`([^`]+)`").unwrap());

/// The help of every command, by its name.
fn help() -> BTreeMap<String, String> {
    let pages = pages();
    let commands = pages.iter().find(|page| page.name == "docs/reference/cli.md").unwrap();
    let mut help: BTreeMap<String, String> = BTreeMap::new();
    let mut name = String::new();
    for line in &commands.lines {
        if let Some(heading) = line.strip_prefix("## `") {
            name = heading.trim_end_matches('`').to_owned();
        }
        help.entry(name.clone()).or_default().push_str(&format!("{line}\n"));
    }
    help
}

/// What is wrong with a command that is mentioned.
fn mistake(span: &str, help: &BTreeMap<String, String>) -> Option<String> {
    let words: Vec<&str> = span.split_whitespace().collect();
    let is_name = |word: &&&str| word.bytes().all(|byte| byte.is_ascii_lowercase());
    let n_names = words.iter().take_while(is_name).count();
    // The longest name that is a command; what follows it are arguments.
    let known = (1..=n_names).rev().map(|n| words[..n].join(" ")).find(|name| help.contains_key(name));
    let known = known.unwrap_or_default();
    if known == "skillrl" && n_names > 1 {
        return Some(format!("`{span}`: there is no such command"));
    }
    let text = help.get(&known)?;
    let option = |word: &&&str| word.starts_with("--");
    let is_of_option = |letter: char| letter == '-' || letter.is_ascii_alphanumeric();
    let known_options: Vec<&str> = text.split(|letter| !is_of_option(letter)).collect();
    let is_known = |word: &str| known_options.contains(&word.split(['=', '`']).next().unwrap_or_default());
    let unknown = words.iter().filter(option).find(|word| !is_known(word))?;
    Some(format!("`{span}`: `{known}` has no {unknown}"))
}

#[test]
fn commands_that_are_mentioned_exist() {
    let help = help();
    let (mut failures, mut n_mentions) = (Vec::new(), 0);
    for page in pages() {
        for (line, text) in page.prose() {
            for span in SPAN.captures_iter(text).map(|found| found[1].to_owned()) {
                if span.starts_with("skillrl ") {
                    n_mentions += 1;
                    failures.extend(mistake(&span, &help).map(|text| format!("{}: {text}", page.at(line))));
                }
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(n_mentions > 100, "{n_mentions}");
    assert!(mistake("skillrl trian x.toml", &help).is_some());
    assert!(mistake("skillrl journal list RUN --nowhere", &help).is_some());
    assert!(
        mistake("skillrl mcp --max", &help).is_some()
            && mistake("skillrl mcp --max-calls=5", &help).is_none()
    );
}

/// A piece of a configuration may lack what every configuration has; all that is in it has to be right.
#[test]
fn pieces_of_configuration_are_read() {
    let sandbox = Sandbox::new(&root());
    let (mut failures, mut n_pieces) = (Vec::new(), 0);
    for page in pages() {
        for part in page.parts() {
            let Part::Block(block) = part else { continue };
            if block.language != "toml" || block.attributes.contains_key("other") {
                continue;
            }
            n_pieces += 1;
            let text = block.lines.join("\n") + "\n";
            let has_section = text.lines().any(|line| line.starts_with('['));
            sandbox.write("piece.toml", &if has_section { text } else { format!("[models.target]\n{text}") });
            let output = sandbox.run("skillrl config show piece.toml", None).output;
            // What is in another section of a whole configuration.
            let is_elsewhere = |line: &str| line.ends_with(" is missing") || line.contains("needs prices");
            let is_mistake = |line: &&str| {
                (line.starts_with("error: ") || line.starts_with("piece.toml:")) && !is_elsewhere(line)
            };
            let mistakes = output.lines().filter(is_mistake);
            failures.extend(mistakes.map(|line| format!("{}: {line}", page.at(block.line))));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(n_pieces > 20, "{n_pieces}");
}
