//! Keys and passwords. A finding never shows what it found.

use super::{Finding, Severity, numbered, words};
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
/// A name has so many parts at least, this share of it is words and numbers, and a number has so many digits at most.
const MIN_NAME_PARTS: usize = 3;
const MIN_NAME_SHARE: f64 = 0.6;
const MAX_NUMBER_DIGITS: usize = 4;
/// How hashes are called directly before them, within so many characters.
const HASH_NAMES: [&str; 9] =
    ["h1:", "sha1", "sha256", "sha384", "sha512", "md5", "integrity", "checksum", "digest"];
const MAX_HASH_NAME_CHARS: usize = 20;
/// The least characters of the value of a password.
const MIN_VALUE_CHARS: usize = 8;

/// The least characters of a value that follows `Bearer`.
const MIN_HEADER_CHARS: usize = 12;
/// The least characters of a password with a digit that a sentence tells.
const MIN_SAID_CHARS: usize = 4;
/// How a password is called.
const PASSWORDS: [&str; 4] = ["password", "passwd", "passphrase", "passcode"];
/// How words end that say something of a password, such as `required` or `optional`.
const DESCRIBING_ENDINGS: [&str; 15] =
    ["ed", "ing", "ble", "ive", "al", "ory", "ent", "ant", "ary", "ous", "less", "ful", "ly", "en", "rect"];

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
        } else if let Some(name) = assigned_secret(content)
            .or_else(|| in_address(content))
            .or_else(|| in_header(content))
            .or_else(|| in_words(content))
        {
            let message = format!("a value for `{name}`");
            findings.push(Finding::new("secret-value", Severity::Warning, place, message, ADVICE));
        } else if let Some(run) = runs(content).find(|run| looks_random(run) && !is_named_hash(content, run))
        {
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

/// The password in an address: `https://name:password@host`.
fn in_address(line: &str) -> Option<&'static str> {
    line.match_indices("://").find_map(|(at, scheme)| {
        let rest = line.get(at + scheme.len()..)?;
        let authority = rest.split(['/', ' ', '"', '\'', '`', ')', '>', '?', '#']).next()?;
        let (user, _) = authority.rsplit_once('@')?;
        let (_, password) = user.split_once(':')?;
        let is_name = ["password", "pass", "passwd", "pwd", "secret", "token"]
            .iter()
            .any(|name| password.eq_ignore_ascii_case(name));
        (!password.is_empty() && !is_name && !password.starts_with('$') && !is_placeholder(password))
            .then_some("the password of an address")
    })
}

/// What follows `Bearer` or `Basic` in a header.
fn in_header(line: &str) -> Option<&'static str> {
    let lower = line.to_ascii_lowercase();
    ["bearer ", "basic "].iter().find_map(|scheme| {
        let at = lower.find(scheme)?;
        let value = line.get(at + scheme.len()..)?.trim_start();
        let value = value.split(['"', '\'', '`', ' ', ',', ';', ')']).next()?;
        let is_key = value.len() >= MIN_HEADER_CHARS
            && value.bytes().any(|byte| byte.is_ascii_digit())
            && value.bytes().any(|byte| byte.is_ascii_alphabetic());
        (is_key && !is_placeholder(value)).then_some("the header `authorization`")
    })
}

/// A password that a sentence tells: `the password is correcthorse`, `password hunter2`.
fn in_words(line: &str) -> Option<&'static str> {
    line.split_inclusive(['.', '!', '?', ';', ',']).find_map(|sentence| {
        let words: Vec<String> = words(sentence).collect();
        let at = words.iter().position(|word| PASSWORDS.contains(&word.as_str()))?;
        let said = usize::from(matches!(words.get(at + 1).map(String::as_str), Some("is" | "of" | "was")));
        let value = words.get(at + 1 + said)?;
        let n_chars = value.chars().count();
        let has_digit = value.bytes().any(|byte| byte.is_ascii_digit());
        // A word alone is a password where it ends what is said and is no description.
        let is_last = said == 1 && at + 2 + said == words.len() && n_chars >= MIN_VALUE_CHARS;
        let is_description = DESCRIBING_ENDINGS.iter().any(|ending| value.ends_with(ending));
        let is_value = n_chars >= MIN_SAID_CHARS && has_digit || is_last && !is_description;
        (is_value && !is_placeholder(value)).then_some("password")
    })
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
        && !is_name(run)
        && !is_integrity(run)
        && !is_placeholder(run)
        && bits(run) >= MIN_RANDOM_BITS
}

/// True for a constant, a date in a name and the like: most of it is words and short numbers with a mark between them.
fn is_name(run: &str) -> bool {
    let parts: Vec<&str> = run.split(['_', '-', '.', '/', '+']).filter(|part| !part.is_empty()).collect();
    let is_word = |part: &&&str| {
        let is_of = |is: fn(&u8) -> bool| part.bytes().all(|byte| is(&byte));
        let is_capitalised =
            part.get(1..).is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_lowercase()));
        is_of(u8::is_ascii_uppercase)
            || is_of(u8::is_ascii_lowercase)
            || is_capitalised && is_of(u8::is_ascii_alphabetic)
            || part.len() <= MAX_NUMBER_DIGITS && is_of(u8::is_ascii_digit)
    };
    let n_chars: usize = parts.iter().map(|part| part.len()).sum();
    let n_in_words: usize = parts.iter().filter(is_word).map(|part| part.len()).sum();
    parts.len() >= MIN_NAME_PARTS && n_in_words as f64 >= MIN_NAME_SHARE * n_chars as f64
}

/// True for the hash of a file that a page or a lock file names.
fn is_integrity(run: &str) -> bool {
    ["sha1-", "sha256-", "sha384-", "sha512-"].iter().any(|prefix| run.starts_with(prefix))
}

/// True for a run behind the word for a hash: `h1:`, `"integrity":`, `digest =`.
fn is_named_hash(line: &str, run: &str) -> bool {
    let before = line.split_once(run).map_or("", |(before, _)| before).to_ascii_lowercase();
    let before: String =
        before.chars().rev().take(MAX_HASH_NAME_CHARS).collect::<Vec<_>>().into_iter().rev().collect();
    HASH_NAMES.iter().any(|name| before.contains(name))
}

fn is_placeholder(value: &str) -> bool {
    let lower = value.to_ascii_lowercase();
    PLACEHOLDERS.iter().any(|part| lower.contains(part))
}
