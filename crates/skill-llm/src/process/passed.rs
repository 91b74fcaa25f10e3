//! The variables that a program is passed by their names, and what must not be shown of them.

use super::environment::{inherited, variable};
use crate::secret::{ApiKey, Secrets};
use skill_core::secret::{begins_like_key, is_secret_header};
use std::cmp::Reverse;
use std::ffi::OsString;

/// Shorter values of variables, and shorter lines of longer ones, are words rather than secrets.
const MIN_SECRET_CHARS: usize = 8;
/// What marks in a text that something was cut off there.
const CUT: char = '…';

/// What `pass_env` names.
#[derive(Debug, Clone)]
pub struct Passed {
    names: Vec<String>,
    /// Longest first, since one may be a part of another.
    secrets: Vec<ApiKey>,
}

impl Passed {
    /// The variables with these names; those that are not set here are not passed, see [`super::check_passed`].
    pub fn new(names: &[String]) -> Self {
        // As what a program prints is read, bytes that are no UTF-8 are replaced.
        let values = names.iter().filter_map(|name| Some(variable(name)?.to_string_lossy().into_owned()));
        Self { names: names.to_vec(), secrets: secrets_of(values) }
    }

    /// Adds the values that are secrets to those of the run: those of variables with the name of a secret, and those that
    /// look like a key. Others, such as paths, may be a part of what a program rightly says.
    pub fn tell(&self, secrets: &Secrets) {
        for name in &self.names {
            let Some(value) = variable(name) else { continue };
            let value = value.to_string_lossy();
            if is_secret_header(name) || begins_like_key(&value) {
                let lines = secrets_of(std::iter::once(value.into_owned()));
                lines.iter().for_each(|line| secrets.add(line));
            }
        }
    }

    /// All that the program finds in its environment: these variables and [`super::BASE_VARIABLES`].
    pub fn environment(&self) -> impl Iterator<Item = (OsString, OsString)> {
        inherited(self.names.iter().map(String::as_str))
    }

    /// The text with `[key]` for the values of these variables: for each line of a value that has 8 characters or more.
    ///
    /// Where the text has `…`, the mark of a cut, this goes for what the cut has left of a value.
    pub fn scrub(&self, text: &str) -> String {
        self.scrub_parts(text, false)
    }

    /// As [`Passed::scrub`], for the end of what a program said, of which at most so many bytes were kept.
    pub fn scrub_tail(&self, bytes: &[u8], max_bytes: usize) -> String {
        let text = String::from_utf8_lossy(bytes);
        let is_cut = bytes.len() >= max_bytes;
        // A character that was cut through is not a part of any value.
        let text = if is_cut { text.trim_start_matches(char::REPLACEMENT_CHARACTER) } else { &text };
        self.scrub_parts(text, is_cut)
    }

    fn scrub_parts(&self, text: &str, is_cut_in_front: bool) -> String {
        let text = self.secrets.iter().fold(text.to_owned(), |text, secret| secret.scrub(&text));
        let last_idx = text.matches(CUT).count();
        let parts = text.split(CUT).enumerate().map(|(part_idx, part)| {
            let (in_front, at_end) = (is_cut_in_front || part_idx > 0, part_idx < last_idx);
            let scrub = |part: String, secret: &ApiKey| secret.scrub_cut(&part, in_front, at_end);
            self.secrets.iter().fold(part.to_owned(), scrub)
        });
        parts.collect::<Vec<_>>().join("…")
    }
}

/// What of these values must not be shown.
fn secrets_of(values: impl Iterator<Item = String>) -> Vec<ApiKey> {
    let values: Vec<String> = values.collect();
    let lines = values.iter().flat_map(|value| value.split(char::is_control)).map(str::trim);
    let mut lines: Vec<&str> = lines.filter(|line| line.chars().count() >= MIN_SECRET_CHARS).collect();
    lines.sort_by_key(|line| (Reverse(line.len()), *line));
    lines.dedup();
    lines.into_iter().filter_map(|line| ApiKey::new(line).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Cargo sets these, and no test may set others: a process has one environment.
    #[test]
    fn values_of_passed_variables_are_not_shown() {
        let long = env!("CARGO_MANIFEST_DIR");
        let passed = Passed::new(&["CARGO_MANIFEST_DIR".to_owned(), "NO_SUCH_VARIABLE".to_owned()]);
        let text = format!("it says {long}, twice {long}");
        assert_eq!(passed.scrub(&text), text.replace(long, "[key]"));
        assert!(!format!("{passed:?}").contains(long));
        assert!(passed.environment().any(|(name, _)| name == "CARGO_MANIFEST_DIR"));
        assert!(!passed.environment().any(|(name, _)| name == "NO_SUCH_VARIABLE"));
    }

    #[test]
    fn short_values_are_words() {
        let passed = Passed::new(&["CARGO_PKG_VERSION_MAJOR".to_owned()]);
        let text = format!("version {}", env!("CARGO_PKG_VERSION_MAJOR"));
        assert_eq!(passed.scrub(&text), text);
    }

    fn holding(values: &[&str]) -> Passed {
        let values = values.iter().map(|&value| value.to_owned());
        Passed { names: Vec::new(), secrets: secrets_of(values) }
    }

    #[test]
    fn a_value_that_is_a_part_of_another_leaves_nothing_of_it() {
        let passed = holding(&["db.example", "postgres://app:hunter2@db.example/x", "db.example"]);
        assert_eq!(passed.scrub("at postgres://app:hunter2@db.example/x, db.example"), "at [key], [key]");
    }

    #[test]
    fn of_a_value_of_several_lines_each_line_counts() {
        let passed = holding(&["-----BEGIN KEY-----\nMIIEvQIBADAN\r\nQ==\n"]);
        let text = "found MIIEvQIBADAN and Q== there";
        assert_eq!(passed.scrub(text), text.replace("MIIEvQIBADAN", "[key]"));
    }

    #[test]
    fn what_a_cut_leaves_of_a_value_goes_too() {
        let passed = holding(&["sk-0123456789abcdef"]);
        assert_eq!(passed.scrub("`{\"a\": sk-01234567…`"), "`{\"a\": [key]…`");
        assert_eq!(passed.scrub("…9abcdef: wrong key…"), "…[key]: wrong key…");
        let whole = "of sk-0123 nothing was cut";
        assert_eq!(passed.scrub(whole), whole);
        assert_eq!(passed.scrub_tail(b"\x9f9abcdef is wrong", 17), "[key] is wrong");
        assert_eq!(passed.scrub_tail(b"9abcdef is whole", 100), "9abcdef is whole");
    }
}
