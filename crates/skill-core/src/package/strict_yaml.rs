//! YAML that agents read otherwise than its author means, or that the reference validator refuses.
//!
//! The validator of the Agent Skills specification reads front matter by StrictYAML: without flow style, anchors, tags
//! and repeated keys. It looks at lines, since a parser of YAML gives the values and not how they were written.

use super::front_matter::{FrontMatterFault, warning};
use crate::region::front_matter_end;

/// What a line of front matter lies within.
enum Within {
    Nothing,
    /// A text in `|` or `>`, whose lines are indented deeper than this.
    Block(usize),
    /// A text that this quote ends.
    Quotes(char),
}

/// Looks at how the front matter of a `SKILL.md` is written.
pub(super) fn check_style(main: &str) -> Vec<FrontMatterFault> {
    let head = main.split_at(front_matter_end(main).unwrap_or_default()).0;
    let lines: Vec<&str> = head.lines().collect();
    let n_inner = lines.len().saturating_sub(1);
    let mut faults = Vec::new();
    let (mut within, mut field) = (Within::Nothing, "");
    for (number, line) in (1..).zip(lines).take(n_inner).skip(1) {
        let content = line.trim();
        let indent = line.len() - line.trim_start().len();
        if content.contains("---") {
            let message =
                "the front matter has `---` within a line, where the specification's validator ends it";
            faults.push(warning("spec-yaml", number, message.to_owned(), "take another dash"));
        }
        match within {
            Within::Block(above) if indent > above || content.is_empty() => continue,
            Within::Quotes(quote) => {
                if content.ends_with(quote) {
                    within = Within::Nothing;
                }
                continue;
            }
            Within::Nothing | Within::Block(_) => within = Within::Nothing,
        }
        if content.is_empty() || content.starts_with('#') {
            continue;
        }
        let content = content.trim_start_matches("- ").trim_start();
        let value = match key_and_value(content) {
            Some((key, value)) => {
                field = key;
                value
            }
            None => content,
        };
        match value.chars().next() {
            Some('|' | '>') => within = Within::Block(indent),
            Some(quote @ ('"' | '\'')) if !is_closed(value, quote) => within = Within::Quotes(quote),
            Some('"' | '\'') => {}
            Some('[' | '{') => faults.push(warning(
                "spec-yaml",
                number,
                format!("`{field}` is in flow style, which the specification's validator refuses"),
                match field {
                    "allowed-tools" => "write the tools with blanks between them, such as `Read Bash(git:*)`",
                    _ => "write one entry a line, indented",
                },
            )),
            Some('&' | '*' | '!') => faults.push(warning(
                "spec-yaml",
                number,
                format!(
                    "`{field}` has an anchor, an alias or a tag, which the specification's validator refuses"
                ),
                "write the value itself, in quotes if it begins with such a character",
            )),
            Some(_) => {
                if let Some((kept, _)) = value.split_once(" #") {
                    let message = format!("`{field}` is cut at the `#`: agents read `{}`", kept.trim_end());
                    let advice = "put the value in quotes, or the comment on a line of its own";
                    faults.push(warning("spec-cut", number, message, advice));
                }
            }
            None => {}
        }
    }
    faults
}

/// The key of a line and what comes after it.
fn key_and_value(content: &str) -> Option<(&str, &str)> {
    if content.starts_with(['"', '\'', '[', '{']) && !content.contains(": ") {
        return None;
    }
    let (key, value) = content.split_once(": ").or_else(|| Some((content.strip_suffix(':')?, "")))?;
    let key = key.trim_matches(['"', '\'']);
    let is_key = !key.is_empty() && !key.contains(['"', '\'', '[', '{']);
    is_key.then_some((key, value.trim()))
}

/// True if a value in quotes ends in its line, with or without a comment behind it.
fn is_closed(value: &str, quote: char) -> bool {
    let inner = value.get(1..).unwrap_or_default();
    let mut is_escaped = false;
    inner.chars().any(|char| {
        let ends = char == quote && !is_escaped;
        is_escaped = quote == '"' && char == '\\' && !is_escaped;
        ends
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rules and lines of the faults of front matter with a name in its second line.
    #[track_caller]
    fn check(yaml: &str, expect: &[(&str, usize)]) {
        let main = format!("---\nname: a\n{yaml}\n---\n# A [link] # here\n");
        let found: Vec<(&str, usize)> =
            check_style(&main).iter().map(|fault| (fault.rule, fault.line)).collect();
        assert_eq!(found, expect, "{yaml}");
    }

    #[test]
    fn values_that_are_not_what_they_look_like_are_named() {
        check("description: Sorts tickets such as #4711 into queues.", &[("spec-cut", 3)]);
        check("description: Sorts tickets\n  such as #4711 into queues.", &[("spec-cut", 4)]);
        check("metadata:\n  note: one #2", &[("spec-cut", 4)]);
        check("allowed-tools: [Read, Write]", &[("spec-yaml", 3)]);
        check("metadata: {a: b}", &[("spec-yaml", 3)]);
        check("metadata:\n  list:\n    - [a]", &[("spec-yaml", 5)]);
        check("description: &text Sorts.\nlicense: *text", &[("spec-yaml", 3), ("spec-yaml", 4)]);
        check("description: !!str Sorts.", &[("spec-yaml", 3)]);
        check("description: Sorts --- tickets.", &[("spec-yaml", 3)]);
    }

    #[test]
    fn what_is_meant_as_it_is_written_is_left_alone() {
        for yaml in [
            "description: Sorts tickets.",
            "description: \"Sorts tickets such as #4711 [now].\"",
            "description: 'It''s for #4711' # a comment",
            "description: \"Sorts\n  tickets such as #4711\"\nlicense: MIT",
            "description: |\n  Sorts # tickets\n\n  [and] more",
            "description: >-\n  Sorts # tickets",
            "# a comment\nlicense: MIT",
            "description: C# and F#",
            "allowed-tools: Read Bash(git:*)",
            "metadata:\n  a: \"1\"\n  b: two",
            "description: a - b",
        ] {
            check(yaml, &[]);
        }
    }
}
