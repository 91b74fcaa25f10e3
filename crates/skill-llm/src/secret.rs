//! Keys that cannot be printed.
//!
//! [`ApiKey`] has no `Serialize` and a `Debug` without its content: a key cannot reach a file, a log or an error
//! by accident. [`Secrets`] are all keys of a run, and take them out of everything that comes in.
//!
//! # Invariants
//!
//! - No error, log or `Debug` output shows a key. Held by `nothing_shows_the_key`, `debug_hides_the_key`.

mod known;

pub use known::{SESSION_TOKEN_PREFIX, Secrets};

use crate::error::{LlmError, wrong};
use secrecy::{ExposeSecret as _, SecretString};
use std::ffi::OsString;
use std::fmt;

/// What is in a text where a key stood.
const SCRUBBED: &str = "[key]";
/// Shorter keys are given to servers that take any key; scrubbing them would tear words apart.
const MIN_SCRUBBED_CHARS: usize = 4;

/// The key of an account.
#[derive(Clone)]
pub struct ApiKey(SecretString);

impl ApiKey {
    /// A key from its text; white space around it is dropped.
    ///
    /// # Errors
    ///
    /// [`LlmError::Configuration`] if the key is empty or holds control characters, which no header can carry.
    /// The key is not part of the message.
    pub fn new(key: &str) -> Result<Self, LlmError> {
        let key = key.trim();
        if key.is_empty() {
            return Err(wrong("the key is empty"));
        }
        if key.chars().any(char::is_control) {
            return Err(wrong("the key holds control characters"));
        }
        Ok(Self(SecretString::from(key)))
    }

    /// The key in an environment variable; white space around it is dropped.
    ///
    /// # Errors
    ///
    /// [`LlmError::MissingKey`] if the variable is not set or empty, [`LlmError::Configuration`] if its value cannot
    /// be a key. The value is never part of the message.
    pub fn from_env(variable: &str, provider: &str) -> Result<Self, LlmError> {
        // These names would make the look-up panic on some platforms.
        let value = if variable.is_empty() || variable.contains(['=', '\0']) {
            None
        } else {
            std::env::var_os(variable)
        };
        Self::from_variable(value, variable, provider)
    }

    fn from_variable(value: Option<OsString>, variable: &str, provider: &str) -> Result<Self, LlmError> {
        let missing =
            || LlmError::MissingKey { provider: provider.to_owned(), variable: variable.to_owned() };
        let value = value.ok_or_else(missing)?;
        let Some(value) = value.to_str() else {
            return Err(wrong(format!("the environment variable {variable} is not valid UTF-8")));
        };
        if value.trim().is_empty() {
            return Err(missing());
        }
        Self::new(value).map_err(|_| {
            wrong(format!(
                "the environment variable {variable} with the key for {provider} holds control characters"
            ))
        })
    }

    /// The text with every occurrence of the key replaced, as it stands and as JSON would write it.
    ///
    /// Keys of fewer than 4 characters are left alone: they are no secrets, and parts of words.
    pub fn scrub(&self, text: &str) -> String {
        self.forms().iter().fold(text.to_owned(), |text, form| text.replace(form, SCRUBBED))
    }

    /// A text that was cut off, without what the cut has left of the key: its end in front, or its beginning at the end.
    #[cfg(feature = "process")]
    pub(crate) fn scrub_cut(&self, text: &str, is_cut_in_front: bool, is_cut_at_end: bool) -> String {
        let mut text = text.to_owned();
        let is_long = |part: &&str| part.chars().count() >= MIN_SCRUBBED_CHARS;
        for form in self.forms() {
            let parts = || form.char_indices().map(|(byte_idx, _)| form.split_at(byte_idx));
            let ends = || parts().map(|(_, end)| end).filter(is_long);
            let beginnings = || parts().rev().map(|(beginning, _)| beginning).filter(is_long);
            if is_cut_in_front && let Some(rest) = ends().find_map(|end| text.strip_prefix(end)) {
                text = format!("{SCRUBBED}{rest}");
            }
            if is_cut_at_end && let Some(rest) = beginnings().find_map(|part| text.strip_suffix(part)) {
                text = format!("{rest}{SCRUBBED}");
            }
        }
        text
    }

    /// How the key is written: as it stands, and as JSON has it; nothing of one that is too short.
    fn forms(&self) -> Vec<String> {
        let key = self.0.expose_secret();
        if key.chars().count() < MIN_SCRUBBED_CHARS {
            return Vec::new();
        }
        written_forms(key)
    }

    /// The key itself, for clients of other protocols that authenticate by it: never for a text or a file.
    pub fn expose(&self) -> &str {
        self.0.expose_secret()
    }

    /// Whether both are the same key.
    pub(crate) fn is(&self, other: &Self) -> bool {
        self.0.expose_secret() == other.0.expose_secret()
    }

    /// The secret with `prefix` in front of it, such as `Bearer `.
    pub(crate) fn with_prefix(&self, prefix: &str) -> SecretString {
        SecretString::from(format!("{prefix}{}", self.0.expose_secret()))
    }
}

/// A key as it is, and as JSON has it.
fn written_forms(key: &str) -> Vec<String> {
    let quoted = serde_json::Value::from(key).to_string();
    // Without the quotation marks of the text itself; those of the key are escaped.
    let escaped = quoted.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    let escaped = escaped.expect("JSON has texts in quotation marks").to_owned();
    let mut forms = vec![key.to_owned(), escaped.replace('/', "\\/"), escaped];
    forms.dedup();
    forms
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApiKey(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "sk-very/secret\"0123456789";

    #[test]
    fn debug_hides_the_key() {
        let key = ApiKey::new(KEY).unwrap();
        assert_eq!(format!("{key:?} {:?}", Some(&key)), "ApiKey(..) Some(ApiKey(..))");
    }

    #[track_caller]
    fn check_variable(value: Option<&str>, expect: &str) {
        let outcome = ApiKey::from_variable(value.map(OsString::from), "QA_KEY", "https://api.example/v1");
        let shown = match outcome {
            Ok(key) => format!("key of {} characters", key.0.expose_secret().chars().count()),
            Err(error) => format!("{:?}: {error}", error.class()),
        };
        assert_eq!(shown, expect);
    }

    #[test]
    fn a_key_comes_from_a_variable() {
        const MISSING: &str = "Authentication: the environment variable QA_KEY with the key for https://api.example/v1 is not set";
        const CONTROL: &str = "Configuration: the environment variable QA_KEY with the key for \
                               https://api.example/v1 holds control characters";
        check_variable(Some("sk-1234"), "key of 7 characters");
        check_variable(Some("  sk-1234\r\n"), "key of 7 characters");
        check_variable(None, MISSING);
        check_variable(Some(""), MISSING);
        check_variable(Some(" \t\n"), MISSING);
        check_variable(Some("sk-12\n34"), CONTROL);
        check_variable(Some("sk-\u{7f}1"), CONTROL);
    }

    #[test]
    fn a_variable_that_is_not_set_is_a_missing_key() {
        for name in ["SKILL_LLM_TEST_VARIABLE_THAT_NOBODY_SETS", "", "A=B", "A\0B"] {
            let error = ApiKey::from_env(name, "nobody").unwrap_err();
            assert!(matches!(error, LlmError::MissingKey { .. }), "{name:?}: {error}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_variable_that_is_not_text_is_an_error_without_its_value() {
        use std::os::unix::ffi::OsStringExt as _;
        let value = OsString::from_vec(b"sk-secret\xff".to_vec());
        let error = ApiKey::from_variable(Some(value), "QA_KEY", "x").unwrap_err();
        assert!(matches!(error, LlmError::Configuration { .. }), "{error:?}");
        let message = error.to_string();
        assert!(message.contains("QA_KEY") && message.contains("UTF-8"), "{message}");
        assert!(!message.contains("sk-secret"), "{message}");
    }

    #[track_caller]
    fn check_scrub(key: &str, text: &str, expect: &str) {
        assert_eq!(ApiKey::new(key).unwrap().scrub(text), expect);
    }

    #[test]
    fn scrubbing_replaces_every_form() {
        check_scrub("sk-12345", "wrong key sk-12345, sk-12345!", "wrong key [key], [key]!");
        check_scrub(KEY, &format!("x{KEY}y"), "x[key]y");
        check_scrub(KEY, r#"{"k": "sk-very/secret\"0123456789"}"#, r#"{"k": "[key]"}"#);
        check_scrub(KEY, r#"{"k": "sk-very\/secret\"0123456789"}"#, r#"{"k": "[key]"}"#);
        check_scrub("sk-12345", "nothing here", "nothing here");
        check_scrub("x", "an example", "an example");
    }
}
