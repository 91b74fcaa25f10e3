//! Patterns of file names.

use regex::Regex;

/// A pattern as in shells: `*` stands for any characters but `/`, `**` for any, `?` for one but `/`.
///
/// A pattern without `/` is held against the last part of a name too.
pub(super) struct Glob {
    whole: Regex,
    is_plain: bool,
}

impl Glob {
    pub(super) fn new(pattern: &str) -> Result<Self, String> {
        let mut text = String::from("(?s)^");
        let mut rest = pattern;
        while let Some(character) = rest.chars().next() {
            let (length, part) = match character {
                '*' if rest.starts_with("**/") => (3, "(?:.*/)?".to_owned()),
                '*' if rest.starts_with("**") => (2, ".*".to_owned()),
                '*' => (1, "[^/]*".to_owned()),
                '?' => (1, "[^/]".to_owned()),
                other => (other.len_utf8(), regex::escape(&other.to_string())),
            };
            text.push_str(&part);
            rest = rest.get(length..).unwrap_or_default();
        }
        text.push('$');
        Ok(Self { whole: crate::score::pattern(&text)?, is_plain: !pattern.contains('/') })
    }

    pub(super) fn matches(&self, name: &str) -> bool {
        let last = name.rsplit('/').next().filter(|_| self.is_plain);
        self.whole.is_match(name) || last.is_some_and(|last| self.whole.is_match(last))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pattern: &str, name: &str, expect: bool) {
        assert_eq!(Glob::new(pattern).unwrap().matches(name), expect, "{pattern} {name}");
    }

    #[test]
    fn globs() {
        check("*", "a/b.txt", true);
        check("*.txt", "a/b.txt", true);
        check("a/*.txt", "a/b.txt", true);
        check("*/*.txt", "a/b/c.txt", false);
        check("**/c.txt", "a/b/c.txt", true);
        check("**/c.txt", "c.txt", true);
        check("a/**", "a/b/c.txt", true);
        check("?.txt", "ä.txt", true);
        check("[a].txt", "a.txt", false);
        check("", "a", false);
    }
}
