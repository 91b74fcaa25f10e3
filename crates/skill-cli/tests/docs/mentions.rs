//! What the pages say in passing: commands, options, keys and exit codes within a sentence, and pieces of configuration.

use crate::markdown::{Part, pages, root};
use crate::sandbox::Sandbox;
use regex::Regex;
use std::collections::{BTreeMap, BTreeSet};
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

/// The keys of the reference pages, each as `section.key`.
fn keys() -> BTreeSet<String> {
    let lines = pages().into_iter().filter(|page| page.name.starts_with("docs/reference/configuration/"));
    let lines = lines.flat_map(|page| page.lines);
    let key = |line: String| Some(line.strip_prefix("## `")?.strip_suffix('`')?.to_owned());
    lines.filter_map(key).collect()
}

/// What looks like a key and is none: files, fields of Python objects and keys of other programs.
const OTHER_NAMES: [&str; 6] = [
    "run.spent",
    "run.history",
    "run.best_skill",
    "train.num_epochs",
    "rl.max_prompt_length",
    "limits.restarts",
];
const FILES: [&str; 10] = ["md", "lock", "txt", "csv", "json", "jsonl", "py", "rs", "html", "toml"];

/// An error for a name in code that starts with a section and is not a configuration key.
fn unknown_key(span: &str, keys: &BTreeSet<String>) -> Option<String> {
    let name = span.split([' ', '=']).next().unwrap_or_default();
    let is_part =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'_' | b'.');
    let (section, key) = name.split_once('.')?;
    let of_section = |known: &&String| known.split('.').next() == Some(section);
    let is_key =
        |name: &str| keys.iter().any(|known| known == name || known.starts_with(&format!("{name}.")));
    if !name.bytes().all(is_part)
        || !keys.iter().any(|known| of_section(&known))
        || FILES.contains(&key)
        || OTHER_NAMES.contains(&name)
    {
        return None;
    }
    // A model is named by its role.
    let of_role = section == "models" && {
        let key = key.split_once('.').map(|(_, key)| key);
        key.is_none_or(|key| is_key(&format!("models.ROLE.{key}")))
    };
    // Some sections stand in the reference as a whole, such as `[run.nats]`.
    let of_part = name.rsplit_once('.').is_some_and(|(part, _)| keys.contains(&format!("[{part}]")));
    (!is_key(name) && !of_role && !of_part).then(|| format!("`{span}`: unknown key {name}"))
}

#[test]
fn keys_that_are_mentioned_exist() {
    let keys = keys();
    let (mut failures, mut n_mentions) = (Vec::new(), 0);
    // Pages for people who come from another program name its keys.
    for page in pages().iter().filter(|page| !page.name.starts_with("docs/coming-from")) {
        for (line, text) in page.prose() {
            for span in SPAN.captures_iter(text).map(|found| found[1].to_owned()) {
                n_mentions +=
                    usize::from(span.split([' ', '=']).next().is_some_and(|name| keys.contains(name)));
                failures.extend(unknown_key(&span, &keys).map(|text| format!("{}: {text}", page.at(line))));
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(n_mentions > 200, "{n_mentions}");
    for wrong in ["train.batchsize", "gate.mode_ = \"strict\"", "models.target.modle"] {
        assert!(unknown_key(wrong, &keys).is_some(), "{wrong}");
    }
}

#[test]
fn exit_codes_that_are_mentioned_are_in_the_table_and_in_the_help() {
    let pages = pages();
    let in_table = {
        let running = pages.iter().find(|page| page.name == "docs/running.md").unwrap();
        let lines = running.lines.iter().skip_while(|line| !line.starts_with("## Exit codes"));
        let code = |line: &String| line.strip_prefix("| ")?.split(' ').next()?.parse::<u8>().ok();
        lines.filter_map(code).collect::<BTreeSet<u8>>()
    };
    let help = Sandbox::new(&root()).run("skillrl help", None).output;
    let lines = help.lines().skip_while(|line| !line.starts_with("Exit codes:")).skip(1);
    let lines = lines.take_while(|line| !line.trim().is_empty());
    let in_help: BTreeSet<u8> =
        lines.filter_map(|line| line.split_whitespace().next()?.parse().ok()).collect();
    assert_eq!(in_table, in_help);
    let mention = Regex::new(r"[Ee]xit code `?(\d+)").unwrap();
    let (mut failures, mut n_mentions) = (Vec::new(), 0);
    for page in &pages {
        for (line, text) in page.prose() {
            for code in mention.captures_iter(text).map(|found| found[1].to_owned()) {
                n_mentions += 1;
                if !code.parse().is_ok_and(|code: u8| in_table.contains(&code)) {
                    failures.push(format!("{}: unknown exit code {code}", page.at(line)));
                }
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(n_mentions > 20, "{n_mentions}");
}
