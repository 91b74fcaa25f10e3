//! The secrets of a run, and how they are taken out of everything that comes in.

use super::ApiKey;
use crate::chat::{ChatReply, FinishReason};
use aho_corasick::{AhoCorasick, MatchKind};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use parking_lot::RwLock;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

/// What replaces a secret.
const SCRUBBED: &str = "[key]";
/// Shorter secrets are words: taking them out would tear texts apart.
const MIN_SECRET_CHARS: usize = 6;
/// A secret of digits alone that is shorter than this would be found in numbers.
const MIN_DIGITS: usize = 16;
/// A part of an encoded secret that is shorter than this tells nothing of it.
const MIN_ENCODED_CHARS: usize = 8;
/// The fewest characters of a truncated copy of a secret that are found.
const PART_CHARS: usize = 16;
/// The longest secret of which truncated copies are found: the searched texts grow with the square of its length.
const MAX_CHARS_WITH_PARTS: usize = 256;
/// The characters escaped in an address: all but the unreserved ones of RFC 3986.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
/// What is written into the configuration of a local server that takes any key; compared in lower case.
const PLACEHOLDERS: [&str; 18] = [
    "anything",
    "api-key",
    "api_key",
    "apikey",
    "changeme",
    "lm-studio",
    "local-key",
    "lmstudio",
    "no-key",
    "no-key-required",
    "not-needed",
    "ollama",
    "password",
    "placeholder",
    "secret",
    "sk-no-key-required",
    "unused",
    "whatever",
];
/// What the tokens of an endpoint for agents begin with.
pub const SESSION_TOKEN_PREFIX: &str = "sk-skillrl-";
/// The hexadecimal digits that follow.
const SESSION_TOKEN_DIGITS: usize = 64;

/// The secrets of a run: one list for all its models, programs and servers, since any of them may show the key of
/// another.
///
/// Anyone who reads what comes from outside scrubs it before anything else sees it. A secret is found as it is, as JSON
/// has it, percent-encoded, and in base 64 wherever it begins there. Truncated copies of a secret of 32 to 256 characters
/// are found if they have 16 or more of its first or of its last characters. Secrets of fewer than 6 characters, digits
/// alone of fewer than 16, and the placeholders that local servers are given for a key are left alone. Tokens of the
/// endpoint for agents are always found.
///
/// Clones share one list. `Debug` shows nothing of it.
#[derive(Clone)]
pub struct Secrets(Arc<RwLock<Known>>);

struct Known {
    keys: Vec<ApiKey>,
    forms: Vec<String>,
    matcher: Arc<AhoCorasick>,
}

impl Default for Secrets {
    fn default() -> Self {
        let forms = vec![SESSION_TOKEN_PREFIX.to_owned()];
        let matcher = matcher(&forms);
        Self(Arc::new(RwLock::new(Known { keys: Vec::new(), forms, matcher })))
    }
}

impl Secrets {
    /// Adds a secret; one that is there already changes nothing.
    pub fn add(&self, key: &ApiKey) {
        let is_known = |known: &Known| known.keys.iter().any(|there| there.is(key));
        if is_known(&self.0.read()) {
            return;
        }
        let mut known = self.0.write();
        if is_known(&known) {
            return;
        }
        known.keys.push(key.clone());
        let forms = forms(key.expose());
        if !forms.is_empty() {
            known.forms.extend(forms);
            known.matcher = matcher(&known.forms);
        }
    }

    /// The text without secrets.
    pub fn scrub<'text>(&self, text: &'text str) -> Cow<'text, str> {
        match scrubbed(&self.matcher(), text.as_bytes()) {
            // Whole texts were cut out of a text and a text was put in, so it is one still.
            Some(bytes) => Cow::Owned(String::from_utf8_lossy(&bytes).into_owned()),
            None => Cow::Borrowed(text),
        }
    }

    /// Bytes that may be a text, without secrets.
    pub fn scrub_bytes(&self, bytes: Vec<u8>) -> Vec<u8> {
        scrubbed(&self.matcher(), &bytes).unwrap_or(bytes)
    }

    /// Takes secrets out of all texts and names of a JSON value.
    pub(crate) fn scrub_value(&self, value: &mut Value) {
        scrub_value(&self.matcher(), value);
    }

    /// Takes secrets out of all texts and names of a JSON object.
    pub fn scrub_map(&self, fields: &mut Map<String, Value>) {
        scrub_map(&self.matcher(), fields);
    }

    /// Takes secrets out of everything that a reply says.
    pub(crate) fn scrub_reply(&self, reply: &mut ChatReply) {
        let matcher = self.matcher();
        scrub_string(&matcher, &mut reply.text);
        for call in &mut reply.tool_calls {
            scrub_string(&matcher, &mut call.id);
            scrub_string(&matcher, &mut call.name);
            scrub_string(&matcher, &mut call.arguments);
        }
        if let FinishReason::Other(reason) = &mut reply.finish {
            scrub_string(&matcher, reason);
        }
        if let Some(reasoning) = &mut reply.reasoning {
            scrub_string(&matcher, reasoning);
        }
        for logprob in reply.tokens.iter_mut().flat_map(|tokens| &mut tokens.logprobs) {
            scrub_string(&matcher, &mut logprob.token);
            logprob.top.iter_mut().for_each(|top| scrub_string(&matcher, &mut top.token));
        }
        if let Some(state) = &mut reply.provider_state {
            self.scrub_value(&mut Arc::make_mut(state).value);
        }
    }

    fn matcher(&self) -> Arc<AhoCorasick> {
        Arc::clone(&self.0.read().matcher)
    }
}

/// A handle is not a setting: two configurations that differ in nothing else are equal.
impl PartialEq for Secrets {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Secrets {}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secrets(..)")
    }
}

fn matcher(forms: &[String]) -> Arc<AhoCorasick> {
    // Where several forms begin at one place, the longest leaves nothing of the secret.
    let matcher = AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(forms);
    // Without it every secret would go through.
    Arc::new(matcher.expect("the forms of all secrets are fewer bytes than 2^31"))
}

fn scrubbed(matcher: &AhoCorasick, text: &[u8]) -> Option<Vec<u8>> {
    let mut clean = Vec::new();
    let mut n_copied = 0;
    for found in matcher.find_iter(text) {
        let mut end = found.end();
        // The first form is what tokens begin with.
        if found.pattern().as_usize() == 0 {
            let digits = text.get(end..end + SESSION_TOKEN_DIGITS).unwrap_or_default();
            if digits.is_empty() || !digits.iter().all(u8::is_ascii_hexdigit) {
                continue;
            }
            end += SESSION_TOKEN_DIGITS;
        }
        // A known key in the digits of a token is gone with the token.
        if found.start() < n_copied {
            n_copied = n_copied.max(end);
            continue;
        }
        clean.extend_from_slice(
            text.get(n_copied..found.start()).expect("it begins where nothing is copied yet"),
        );
        clean.extend_from_slice(SCRUBBED.as_bytes());
        n_copied = end;
    }
    if n_copied == 0 {
        return None;
    }
    clean.extend_from_slice(text.get(n_copied..).expect("matches end in the text"));
    Some(clean)
}

fn scrub_string(matcher: &AhoCorasick, text: &mut String) {
    if let Some(bytes) = scrubbed(matcher, text.as_bytes()) {
        *text = String::from_utf8_lossy(&bytes).into_owned();
    }
}

fn scrub_value(matcher: &AhoCorasick, value: &mut Value) {
    match value {
        Value::String(text) => scrub_string(matcher, text),
        Value::Array(items) => items.iter_mut().for_each(|item| scrub_value(matcher, item)),
        Value::Object(fields) => scrub_map(matcher, fields),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn scrub_map(matcher: &AhoCorasick, fields: &mut Map<String, Value>) {
    if fields.keys().any(|name| scrubbed(matcher, name.as_bytes()).is_some()) {
        let taken = std::mem::take(fields);
        fields.extend(taken.into_iter().map(|(mut name, value)| {
            scrub_string(matcher, &mut name);
            (name, value)
        }));
    }
    fields.values_mut().for_each(|value| scrub_value(matcher, value));
}

/// How a secret is written; nothing of one that may be a word.
fn forms(secret: &str) -> Vec<String> {
    let n_chars = secret.chars().count();
    let is_number = n_chars < MIN_DIGITS && secret.bytes().all(|byte| byte.is_ascii_digit());
    if n_chars < MIN_SECRET_CHARS || is_number || PLACEHOLDERS.contains(&secret.to_ascii_lowercase().as_str())
    {
        return Vec::new();
    }
    let mut forms = super::written_forms(secret);
    // Arguments of tools, and patches, are JSON inside of JSON.
    let nested: Vec<String> = forms.iter().flat_map(|form| super::written_forms(form)).collect();
    forms.extend(nested);
    forms.push(utf8_percent_encode(secret, ESCAPED).to_string());
    if secret.is_ascii() && (2 * PART_CHARS..=MAX_CHARS_WITH_PARTS).contains(&secret.len()) {
        let first = (PART_CHARS..secret.len()).filter_map(|n_chars| secret.get(..n_chars));
        let last = (1..=secret.len() - PART_CHARS).filter_map(|start| secret.get(start..));
        forms.extend(first.chain(last).map(str::to_owned));
    }
    // Characters that also depend on what is in front of the secret, or behind it, are not a part of the form.
    for (before, n_front) in [0, 2, 3].into_iter().enumerate() {
        let mut bytes = vec![0; before];
        bytes.extend_from_slice(secret.as_bytes());
        let n_behind = usize::from(!bytes.len().is_multiple_of(3));
        for encoded in [STANDARD_NO_PAD.encode(&bytes), URL_SAFE_NO_PAD.encode(&bytes)] {
            let inner = encoded
                .get(n_front..encoded.len() - n_behind)
                .expect("six characters and more are encoded in more ASCII than is cut off");
            if inner.len() >= MIN_ENCODED_CHARS {
                forms.push(inner.to_owned());
            }
        }
    }
    forms.sort();
    forms.dedup();
    forms
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const KEY: &str = "sk-very/secret\"0123456789";

    fn knowing(keys: &[&str]) -> Secrets {
        let secrets = Secrets::default();
        for key in keys {
            secrets.add(&ApiKey::new(key).unwrap());
        }
        secrets
    }

    #[track_caller]
    fn check(key: &str, text: &str, expect: &str) {
        let secrets = knowing(&[key]);
        assert_eq!(secrets.scrub(text), expect);
        assert_eq!(secrets.scrub_bytes(text.as_bytes().to_vec()), expect.as_bytes());
    }

    #[test]
    fn a_key_in_the_digits_of_a_token_goes_with_the_token() {
        let key = "0123456789abcdef";
        let token = format!("{SESSION_TOKEN_PREFIX}{}", key.repeat(4));
        check(key, &format!("a {token} b"), "a [key] b");
        // A key that begins in a token and ends behind it.
        check("cdefghijk", &format!("{token}ghijk l"), "[key] l");
    }

    #[test]
    fn every_form_of_a_secret_goes() {
        check(KEY, &format!("Bearer {KEY}, {KEY}!"), "Bearer [key], [key]!");
        check(KEY, r#"{"k": "sk-very/secret\"0123456789"}"#, r#"{"k": "[key]"}"#);
        check(KEY, r#"{"k": "sk-very\/secret\"0123456789"}"#, r#"{"k": "[key]"}"#);
        let nested = serde_json::to_string(r#"{"k": "sk-very\/secret\"0123456789"}"#).unwrap();
        check(KEY, &nested, r#""{\"k\": \"[key]\"}""#);
        check(KEY, "?key=sk-very%2Fsecret%220123456789&x", "?key=[key]&x");
        check(KEY, "nothing here", "nothing here");
        check(KEY, "äöü", "äöü");
    }

    #[test]
    fn a_secret_in_base_64_goes_wherever_it_begins() {
        for before in ["", "a", "ab", "abc", "user:"] {
            for behind in ["", "x", "xy", "xyz"] {
                let text = format!("{before}{KEY}{behind}");
                for encoded in [STANDARD_NO_PAD.encode(&text), URL_SAFE_NO_PAD.encode(&text)] {
                    let clean = knowing(&[KEY]).scrub(&encoded).into_owned();
                    assert!(clean.contains("[key]"), "{before} {behind}: {clean}");
                    // What is left are the characters that the neighbours share with the secret.
                    assert!(clean.len() <= before.len() * 2 + behind.len() * 2 + 12, "{clean}");
                }
            }
        }
    }

    #[test]
    fn words_and_numbers_are_no_secrets() {
        for word in ["EMPTY", "none", "ollama", "Not-Needed", "123456", "2026"] {
            let text = format!("the {word} of 1234567");
            check(word, &text, &text);
        }
        check("s3cret", "my s3cret", "my [key]");
    }

    #[test]
    fn a_truncated_copy_of_a_long_secret_does_not_stay() {
        let key = "sk-proj-0123456789abcdefghijklmnopq";
        check(key, "key sk-proj-0123456789abcdef..", "key [key]..");
        check(key, "..abcdefghijklmnopq", "..[key]");
        check(key, &format!("{key} whole"), "[key] whole");
        check(key, "sk-proj-0123456", "sk-proj-0123456");
        let longest = "0123456789abcdef".repeat(17);
        check(&longest, &longest, "[key]");
        let cut = longest.get(..100).unwrap();
        check(&longest, cut, cut);
    }

    #[test]
    fn of_two_secrets_the_longer_one_goes_whole() {
        let secrets = knowing(&["sk-0123", "sk-0123456789", "sk-0123"]);
        assert_eq!(secrets.scrub("sk-0123456789 and sk-0123"), "[key] and [key]");
    }

    #[test]
    fn clones_share_one_list() {
        let secrets = Secrets::default();
        let clone = secrets.clone();
        secrets.add(&ApiKey::new(KEY).unwrap());
        assert_eq!(clone.scrub(KEY), "[key]");
        assert!(!format!("{clone:?}").contains("secret"));
    }

    #[test]
    fn tokens_of_the_endpoint_are_always_known() {
        let token = format!("{SESSION_TOKEN_PREFIX}{}", "0a".repeat(32));
        assert_eq!(Secrets::default().scrub(&format!("I use {token}.")), "I use [key].");
        let short = format!("{SESSION_TOKEN_PREFIX}{}", "0a".repeat(31));
        assert_eq!(Secrets::default().scrub(&short), short);
        assert_eq!(Secrets::default().scrub("sk-skillrl-xyz"), "sk-skillrl-xyz");
    }

    #[test]
    fn values_are_scrubbed_to_their_names() {
        let mut value = json!({"a": [KEY, 1, null], KEY: {"b": format!("x{KEY}")}});
        knowing(&[KEY]).scrub_value(&mut value);
        assert_eq!(value, json!({"a": ["[key]", 1, null], "[key]": {"b": "x[key]"}}));
    }
}
