//! YAML front matter: where it ends. Nothing here reads the YAML.

use memchr::memchr;

/// The byte after the closing line's `---` and before its line end, where the text begins with front matter.
///
/// The first line is `---`, and the next line `---` closes it; blanks at the end of either line, a carriage return
/// and a byte order mark in front are passed over. Without a closing line there is no front matter.
pub(crate) fn front_matter_end(text: &str) -> Option<usize> {
    let body = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut at = text.len() - body.len();
    let mut is_first = true;
    let mut rest = body.as_bytes();
    loop {
        let (line, next) = match memchr(b'\n', rest) {
            Some(line_end) => (rest.get(..line_end)?, rest.get(line_end + 1..)),
            None => (rest, None),
        };
        let content = line.trim_ascii_end();
        let is_fence = content == b"---";
        if is_first && !is_fence {
            return None;
        }
        if is_fence && !is_first {
            return Some(at + content.len());
        }
        is_first = false;
        at += line.len() + 1;
        rest = next?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expect: Option<&str>) {
        let found = front_matter_end(text).map(|end| text.get(..end).unwrap());
        assert_eq!(found, expect, "{text:?}");
    }

    #[test]
    fn front_matter_ends_at_the_next_fence() {
        check("---\nname: x\n---\n# S", Some("---\nname: x\n---"));
        check("---\n---\n", Some("---\n---"));
        check("---\nname: x\n---", Some("---\nname: x\n---"));
        check("---\r\nname: x\r\n---\r\n# S", Some("---\r\nname: x\r\n---"));
        check("--- \nname: x\n---\t\nb\n---\n", Some("--- \nname: x\n---"));
        check("\u{feff}---\nname: ä\n---\n", Some("\u{feff}---\nname: ä\n---"));
    }

    #[test]
    fn everything_else_is_none() {
        for text in [
            "",
            "-",
            "---",
            "---\n",
            "---\nname: x\n",
            "\n---\na\n---\n",
            " ---\na\n---\n",
            "----\na\n----\n",
            "# S\n---\na\n---\n",
            "---\n ---\n",
        ] {
            check(text, None);
        }
    }
}
