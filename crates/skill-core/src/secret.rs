//! How secrets look: one table of keys for everybody who looks for them.
//!
//! [`key_owner`] finds keys in text that a person wrote, where a false alarm costs attention; [`begins_like_key`] judges
//! a single value in a place where keys get pasted by mistake, where a missed one costs the key.

/// How the keys of a provider look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyShape {
    /// What the keys begin with.
    pub prefix: &'static str,
    /// How many characters follow in a key, at least.
    pub n_least: usize,
    /// After so many characters a value of a configuration is taken for a key, or for a part of one.
    ///
    /// Prefixes that are also the beginning of words, names of packages or regions need more than others.
    pub n_telling: usize,
    /// Whose keys they are.
    pub owner: &'static str,
}

const fn shape(prefix: &'static str, n_least: usize, n_telling: usize, owner: &'static str) -> KeyShape {
    KeyShape { prefix, n_least, n_telling, owner }
}

/// The keys of known providers; a longer prefix is before a shorter one.
pub const KEY_SHAPES: [KeyShape; 40] = [
    shape("sk-ant-", 20, 0, "Anthropic"),
    shape("sk-proj-", 20, 0, "OpenAI"),
    shape("sk-svcacct-", 20, 0, "OpenAI"),
    shape("sk-or-", 20, 0, "OpenRouter"),
    shape("sk-", 20, 0, "OpenAI or a server like it"),
    shape("AKIA", 16, 8, "AWS"),
    shape("ASIA", 16, 12, "AWS"),
    shape("AIza", 35, 0, "Google"),
    shape("ya29.", 20, 4, "Google"),
    shape("ghp_", 36, 0, "GitHub"),
    shape("gho_", 36, 4, "GitHub"),
    shape("ghs_", 36, 4, "GitHub"),
    shape("ghu_", 36, 4, "GitHub"),
    shape("ghr_", 36, 4, "GitHub"),
    shape("github_pat_", 22, 0, "GitHub"),
    shape("glpat-", 20, 0, "GitLab"),
    shape("hf_", 30, 0, "Hugging Face"),
    shape("gsk_", 40, 0, "Groq"),
    shape("xai-", 40, 0, "xAI"),
    shape("nvapi-", 40, 4, "NVIDIA"),
    shape("pplx-", 40, 4, "Perplexity"),
    shape("r8_", 37, 4, "Replicate"),
    shape("fw_", 20, 16, "Fireworks"),
    shape("tgp_v1_", 20, 4, "Together"),
    shape("xoxb-", 20, 4, "Slack"),
    shape("xoxp-", 20, 4, "Slack"),
    shape("xoxa-", 20, 4, "Slack"),
    shape("xapp-", 20, 8, "Slack"),
    shape("sk_live_", 20, 0, "Stripe"),
    shape("rk_live_", 20, 4, "Stripe"),
    shape("sk_", 40, 0, "ElevenLabs or a server like it"),
    shape("pk-", 32, 0, "Langfuse or a server like it"),
    shape("whsec_", 24, 4, "Stripe"),
    shape("SG.", 40, 16, "SendGrid"),
    shape("npm_", 36, 20, "npm"),
    shape("pypi-", 40, 24, "PyPI"),
    shape("dop_v1_", 60, 4, "DigitalOcean"),
    shape("dapi", 32, 16, "Databricks"),
    shape("lin_api_", 30, 8, "Linear"),
    shape("tvly-", 20, 4, "Tavily"),
];

/// What a JSON web token begins with: `{"` in base 64.
const WEB_TOKEN_PREFIX: &str = "eyJ";
/// The least characters of the signature of a JSON web token.
const MIN_SIGNATURE_CHARS: usize = 16;
/// Bits per character from which what follows a known prefix is a key and no word.
const MIN_KEY_BITS: f64 = 3.0;

/// Of so many characters behind its prefix on a key may be of letters alone.
const MIN_LETTERS: usize = 30;

/// Parts of names whose values are secrets; compared in lower case without `-` and `_`.
const SECRET_NAMES: [&str; 13] = [
    "authorization",
    "apikey",
    "secret",
    "password",
    "passwd",
    "cookie",
    "credential",
    "accesstoken",
    "authtoken",
    "privatekey",
    "subscriptionkey",
    "accesskey",
    "bearer",
];

/// The provider whose key a run of characters is; `None` unless it is a whole key.
///
/// ```
/// use skill_core::secret::key_owner;
///
/// assert_eq!(key_owner("gsk_4fK9aZ1tYq7LmN3bVx8RwS2uJe6HdC5pGo0TiAyB"), Some("Groq"));
/// assert_eq!(key_owner("sk-learn"), None);
/// ```
pub fn key_owner(run: &str) -> Option<&'static str> {
    if is_web_token(run) {
        return Some("a JSON web token");
    }
    // A key may be at the end of a path or an address.
    let part = run.rsplit('/').next().unwrap_or(run);
    let shape = KEY_SHAPES.iter().find(|shape| part.starts_with(shape.prefix))?;
    let rest = part.get(shape.prefix.len()..)?;
    let has = |is: fn(&u8) -> bool| rest.as_bytes().iter().any(is);
    // A long key may be of letters alone; in a name of that length these would be small ones.
    let is_mixed = shape.n_least >= MIN_LETTERS && has(u8::is_ascii_uppercase) && has(u8::is_ascii_lowercase);
    let is_key =
        rest.len() >= shape.n_least && (has(u8::is_ascii_digit) || is_mixed) && bits(rest) >= MIN_KEY_BITS;
    is_key.then_some(shape.owner)
}

/// Whether a value begins like a key, or has a whole key as one of its words.
///
/// ```
/// use skill_core::secret::begins_like_key;
///
/// assert!(begins_like_key("nvapi-0123") && begins_like_key("Token r8_Abcd"));
/// assert!(!begins_like_key("a tale of sk-learn") && !begins_like_key("ASIA-PACIFIC"));
/// ```
pub fn begins_like_key(text: &str) -> bool {
    let text = text.trim();
    let (first, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let rest = rest.trim_start();
    let is_scheme = ["bearer", "basic"].iter().any(|scheme| first.eq_ignore_ascii_case(scheme));
    let has_scheme = ["token", "key"].iter().any(|scheme| first.eq_ignore_ascii_case(scheme));
    (is_scheme && !rest.is_empty())
        || has_prefix(first)
        || (has_scheme && has_prefix(rest))
        || text.split_whitespace().any(|word| key_owner(word).is_some())
}

fn has_prefix(text: &str) -> bool {
    let is_key_char =
        |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-' | '.' | '+' | '/' | '=');
    let tells = |shape: &KeyShape| {
        let rest = text.strip_prefix(shape.prefix)?;
        Some(rest.chars().take_while(|letter| is_key_char(*letter)).count() >= shape.n_telling)
    };
    text.starts_with(WEB_TOKEN_PREFIX) || KEY_SHAPES.iter().any(|shape| tells(shape) == Some(true))
}

/// Whether a field of this name holds a secret.
pub fn is_secret_name(name: &str) -> bool {
    let folded: String =
        name.chars().filter(|letter| !matches!(letter, '-' | '_')).flat_map(char::to_lowercase).collect();
    SECRET_NAMES.iter().any(|secret| folded.contains(secret))
}

/// Whether a header or an environment variable of this name holds a secret: more names than [`is_secret_name`] has, as
/// a request body has harmless ones like `max_tokens`.
pub fn is_secret_header(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    let ends = ["token", "-key", "_key", "-auth", "_auth", "_pat", "_pass", "_pwd"];
    is_secret_name(name) || ends.iter().any(|end| lower.ends_with(end))
}

/// Three parts in base 64, of which the first two are JSON objects.
fn is_web_token(run: &str) -> bool {
    let parts: Vec<&str> = run.split('.').collect();
    matches!(parts.as_slice(), [head, body, signature]
        if head.starts_with(WEB_TOKEN_PREFIX)
            && body.starts_with(WEB_TOKEN_PREFIX)
            && signature.len() >= MIN_SIGNATURE_CHARS)
}

/// Shannon's entropy of the characters, in bits per character.
pub(crate) fn bits(text: &str) -> f64 {
    let mut counts = std::collections::BTreeMap::new();
    for c in text.chars() {
        *counts.entry(c).or_insert(0_u32) += 1;
    }
    let n_chars = f64::from(counts.values().sum::<u32>());
    let terms = counts.values().map(|count| f64::from(*count) / n_chars);
    -terms.map(|share| share * share.log2()).sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_longer_prefix_is_before_a_shorter_one() {
        for (at, shape) in KEY_SHAPES.iter().enumerate() {
            for later in &KEY_SHAPES[at + 1..] {
                assert!(!later.prefix.starts_with(shape.prefix), "{} hides {}", shape.prefix, later.prefix);
            }
            assert!(shape.n_telling <= shape.n_least, "{}", shape.prefix);
        }
    }

    #[test]
    fn every_key_of_the_table_is_found_by_both() {
        const RANDOM: &str = "4fK9aZ1tYq7LmN3bVx8RwS2uJe6HdC5pGo0TiAyBkQ9zXc1vM7nW3rE8sD2fU6hP";
        for shape in KEY_SHAPES {
            let key = format!("{}{}", shape.prefix, RANDOM.split_at(shape.n_least).0);
            let owner = key_owner(&key);
            assert!(owner.is_some(), "{}", shape.prefix);
            for text in [format!("the key is {key} as you know"), key] {
                assert!(begins_like_key(&text), "{}", shape.prefix);
            }
        }
    }

    #[test]
    fn words_and_names_are_no_keys() {
        for text in [
            "ASIA-PACIFIC",
            "ASIA",
            "npm_package_name",
            "pypi-internal",
            "fw_version",
            "SG.east",
            "dapi-gateway",
            "basic",
            "token",
            "a tale of sk-learn",
            "tokens of pk-",
            "gpt-5-mini",
            "",
        ] {
            assert!(!begins_like_key(text), "{text}");
        }
    }

    #[test]
    fn names_of_secrets() {
        for name in ["Authorization", "x-api-key", "OPENAI_API_KEY", "client_secret"] {
            assert!(is_secret_name(name) && is_secret_header(name), "{name}");
        }
        for name in ["HF_TOKEN", "x-goog-key", "DB_PASS"] {
            assert!(is_secret_header(name), "{name}");
        }
        for name in ["max_tokens", "HOME", "x-title", "KEYBOARD"] {
            assert!(!is_secret_header(name), "{name}");
        }
    }
}
