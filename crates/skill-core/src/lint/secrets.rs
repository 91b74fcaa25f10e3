//! Keys and passwords. A finding never shows what it found.

use super::{Finding, Severity, numbered};
use crate::secret::{bits, key_owner};

/// Names in front of `=` or `:` whose values are secrets.
const SECRET_NAMES: [&str; 11] = [
    "password",
    "passwd",
    "api_key",
    "apikey",
    "api-key",
    "secret",
    "access_token",
    "auth_token",
    "private_key",
    "client_secret",
    "secret_key",
];

/// Parts of values that stand for a secret.
const PLACEHOLDERS: [&str; 17] = [
    "your",
    "example",
    "xxxx",
    "****",
    "....",
    "placeholder",
    "changeme",
    "dummy",
    "redacted",
    "<",
    "${",
    "{{",
    "env",
    "getenv",
    "todo",
    "insert",
    "abc123",
];

/// A run of characters that is at least this long may be a key by its looks alone.
const MIN_RANDOM_CHARS: usize = 32;
/// Bits per character from which text of letters and digits looks random.
const MIN_RANDOM_BITS: f64 = 4.2;
/// This many small letters in a row are a part of a word.
const MIN_WORD_CHARS: usize = 3;
/// Of random letters and digits no more than this share is in such rows.
const MAX_WORD_SHARE: f64 = 0.4;
/// The least characters of the value of a password.
const MIN_VALUE_CHARS: usize = 8;

const ADVICE: &str = "take it out and have it withdrawn; name an environment variable instead";

pub(super) fn check(path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (line, content) in numbered(text) {
        let place = (path, line);
        if content.contains("-----BEGIN ") && content.contains("PRIVATE KEY") {
            findings.push(Finding::new(
                "secret-private-key",
                Severity::Error,
                place,
                "a private key",
                ADVICE,
            ));
            continue;
        }
        let known = runs(content).find_map(|run| known_key(run).map(|owner| (run, owner)));
        if let Some((run, owner)) = known {
            let message = format!("a key of {owner}, {} characters long", run.chars().count());
            findings.push(Finding::new("secret-key", Severity::Error, place, message, ADVICE));
        } else if let Some(name) = assigned_secret(content) {
            let message = format!("a value for `{name}`");
            findings.push(Finding::new("secret-value", Severity::Warning, place, message, ADVICE));
        } else if let Some(run) = runs(content).find(|run| looks_random(run)) {
            let message = format!("{} characters that look random, as keys do", run.chars().count());
            findings.push(Finding::new("secret-random", Severity::Warning, place, message, ADVICE));
        }
    }
    findings
}

/// The longest runs of characters that keys are made of.
fn runs(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '+' | '/' | '=')))
        .flat_map(|run| run.split('=').map(|run| run.trim_matches(['.', '-', '/'])))
        .filter(|run| run.len() >= MIN_VALUE_CHARS)
}

fn known_key(run: &str) -> Option<&'static str> {
    if is_placeholder(run) {
        return None;
    }
    key_owner(run)
}

fn assigned_secret(line: &str) -> Option<&'static str> {
    let lower = line.to_ascii_lowercase();
    for name in SECRET_NAMES {
        let Some(at) = lower.find(name) else { continue };
        let rest = line.get(at + name.len()..).unwrap_or_default().trim_start_matches(['"', '\'', '`', ' ']);
        let Some(value) = rest.strip_prefix(['=', ':']) else { continue };
        let value = value.trim_start_matches(['"', '\'', '`', ' ', '=']);
        let value = value.split(['"', '\'', '`', ' ', ',', ';', ')']).next().unwrap_or_default();
        let is_mixed = value.bytes().any(|byte| byte.is_ascii_digit())
            && value.bytes().any(|byte| byte.is_ascii_alphabetic());
        let is_code = value.contains(['(', '[', '$', '/']);
        if value.len() >= MIN_VALUE_CHARS && is_mixed && !is_code && !is_placeholder(value) {
            return Some(name);
        }
    }
    None
}

fn looks_random(run: &str) -> bool {
    let has = |is: fn(&u8) -> bool| run.as_bytes().iter().any(is);
    let is_mixed = has(u8::is_ascii_digit) && has(u8::is_ascii_lowercase) && has(u8::is_ascii_uppercase);
    // A path or a file name has words in it.
    let n_in_words: usize = run
        .split(|c: char| !c.is_ascii_lowercase())
        .map(str::len)
        .filter(|length| *length >= MIN_WORD_CHARS)
        .sum();
    let is_path =
        run.matches(['/', '.']).count() > 2 || n_in_words as f64 > MAX_WORD_SHARE * run.len() as f64;
    run.len() >= MIN_RANDOM_CHARS
        && is_mixed
        && !is_path
        && !is_placeholder(run)
        && bits(run) >= MIN_RANDOM_BITS
}

fn is_placeholder(value: &str) -> bool {
    let lower = value.to_ascii_lowercase();
    PLACEHOLDERS.iter().any(|part| lower.contains(part))
}
