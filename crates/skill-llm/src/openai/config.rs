//! How to reach a model that speaks the dialect.

use crate::chat::{ModelId, Sampling};
use crate::error::LlmError;
use crate::secret::ApiKey;
use crate::transport::MAX_RESPONSE_BYTES;
use reqwest::Url;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::fmt;
use std::time::Duration;

/// How long a call may take unless the configuration or the caller says otherwise.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(300);
/// The host where `max_tokens` has given way to `max_completion_tokens`.
const OPENAI_HOST: &str = "api.openai.com";
/// What the dialect writes itself: in the extra body these would change a request behind its back.
const OWN_KEYS: [&str; 11] = [
    "model",
    "messages",
    "stream",
    "n",
    "temperature",
    "top_p",
    "seed",
    "max_tokens",
    "max_completion_tokens",
    "tools",
    "response_format",
];
/// Headers that the dialect and HTTP itself write.
const OWN_HEADERS: [&str; 4] = ["authorization", "content-type", "content-length", "host"];
/// A header with one of these words in its name holds a secret.
const SECRET_HEADER_WORDS: [&str; 5] = ["key", "token", "auth", "secret", "cookie"];

/// Whether an address is OpenAI's own, over `https`: the only one that a key may be sent to without being asked.
pub fn is_openai_address(base_url: &str) -> bool {
    Url::parse(base_url).is_ok_and(|url| {
        let is_host = url.host_str().is_some_and(|host| host.eq_ignore_ascii_case(OPENAI_HOST));
        url.scheme() == "https" && is_host && url.port().is_none()
    })
}

/// The name of the limit on the reply's tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MaxTokensField {
    /// `max_completion_tokens` at api.openai.com, `max_tokens` elsewhere.
    #[default]
    Auto,
    /// `max_tokens`.
    MaxTokens,
    /// `max_completion_tokens`.
    MaxCompletionTokens,
}

/// How a response schema is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResponseFormat {
    /// The schema itself, strictly.
    #[default]
    JsonSchema,
    /// The schema inside a `json_object` format, as llama.cpp's servers and some others take it.
    JsonObjectSchema,
    /// Any JSON object, for servers that take no schema.
    JsonObject,
    /// Not at all: the prompt alone asks for it.
    Off,
}

/// How to reach a model that speaks the Chat Completions dialect.
///
/// `Debug` shows neither the key, nor values of extra headers, nor the address's credentials and query.
#[derive(Clone)]
pub struct OpenAiConfig {
    /// Where `/chat/completions` is found, such as `https://api.openai.com/v1`; a query is kept.
    pub base_url: String,
    /// The model's name at the provider.
    pub model: String,
    /// Sent as `Authorization: Bearer`; `None` for servers without keys.
    pub api_key: Option<ApiKey>,
    /// How long a call may take when the caller does not say.
    pub timeout: Duration,
    /// What a request leaves open.
    pub sampling: Sampling,
    /// The name of the limit on the reply's tokens.
    pub max_tokens_field: MaxTokensField,
    /// How a response schema is asked for.
    pub response_format: ResponseFormat,
    /// Further parameters of the body, such as `reasoning_effort`.
    pub extra_body: Map<String, Value>,
    /// Further headers: names and values.
    pub extra_headers: Vec<(String, String)>,
    /// The most bytes that a response may have.
    pub max_response_bytes: usize,
}

impl OpenAiConfig {
    /// A model at an address, without a key, with the defaults of this crate.
    pub fn new(base_url: impl Into<String>, model: impl Into<String>) -> Self {
        Self {
            base_url: base_url.into(),
            model: model.into(),
            api_key: None,
            timeout: DEFAULT_TIMEOUT,
            sampling: Sampling::default(),
            max_tokens_field: MaxTokensField::default(),
            response_format: ResponseFormat::default(),
            extra_body: Map::new(),
            extra_headers: Vec::new(),
            max_response_bytes: MAX_RESPONSE_BYTES,
        }
    }

    /// The identity of the model in records.
    ///
    /// # Errors
    ///
    /// [`LlmError::Configuration`] for an address that cannot be one.
    pub fn model_id(&self) -> Result<ModelId, LlmError> {
        Ok(ModelId::new(Endpoint::parse(&self.base_url)?.provider, self.model.clone()))
    }

    /// Whether the limit on the reply's tokens is called `max_completion_tokens` at `host`.
    pub(super) fn says_max_completion_tokens(&self, host: &str) -> bool {
        match self.max_tokens_field {
            MaxTokensField::Auto => host == OPENAI_HOST,
            MaxTokensField::MaxTokens => false,
            MaxTokensField::MaxCompletionTokens => true,
        }
    }

    /// What is wrong with everything but the address.
    pub(super) fn check(&self) -> Result<(), LlmError> {
        if self.model.trim().is_empty() {
            return Err(wrong("the name of the model is empty"));
        }
        if let Some(key) = self.extra_body.keys().find(|key| OWN_KEYS.contains(&key.as_str())) {
            return Err(wrong(format!("`{key}` cannot stand in `extra_body`: it has a setting of its own")));
        }
        let own_header = |name: &str| OWN_HEADERS.iter().any(|own| own.eq_ignore_ascii_case(name));
        for (name, value) in &self.extra_headers {
            if own_header(name) {
                return Err(wrong(format!("the header `{name}` cannot be set: it is written from the key")));
            }
            if reqwest::header::HeaderName::from_bytes(name.as_bytes()).is_err() {
                return Err(wrong(format!("`{}` cannot be the name of a header", name.escape_debug())));
            }
            if reqwest::header::HeaderValue::from_str(value).is_err() {
                return Err(wrong(format!("the value of the header `{name}` cannot be sent")));
            }
        }
        Ok(())
    }

    /// Everything that must not be shown when a server sends it back.
    pub(super) fn secrets(&self) -> Vec<ApiKey> {
        let is_secret = |name: &str| {
            let name = name.to_ascii_lowercase();
            SECRET_HEADER_WORDS.iter().any(|word| name.contains(word))
        };
        let headers = self.extra_headers.iter().filter(|(name, _)| is_secret(name));
        let headers = headers.filter_map(|(_, value)| ApiKey::new(value).ok());
        self.api_key.iter().cloned().chain(headers).collect()
    }
}

impl fmt::Debug for OpenAiConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.extra_headers.iter().map(|(name, _)| name.as_str()).collect();
        let address =
            Url::parse(&self.base_url).map_or_else(|_| "not an address".to_owned(), |url| shown(&url));
        f.debug_struct("OpenAiConfig")
            .field("base_url", &address)
            .field("model", &self.model)
            .field("api_key", &self.api_key)
            .field("timeout", &self.timeout)
            .field("sampling", &self.sampling)
            .field("max_tokens_field", &self.max_tokens_field)
            .field("response_format", &self.response_format)
            .field("extra_body", &self.extra_body)
            .field("extra_headers", &names)
            .field("max_response_bytes", &self.max_response_bytes)
            .finish()
    }
}

/// The address of a model, taken apart.
#[derive(Clone)]
pub(super) struct Endpoint {
    /// The whole address of the completions, which may hold a secret in its query.
    pub(super) url: String,
    /// The base address as it may be shown.
    pub(super) provider: String,
    /// The host, in lower case.
    pub(super) host: String,
}

impl Endpoint {
    /// Takes a base address apart; texts of errors show no credentials.
    pub(super) fn parse(base_url: &str) -> Result<Self, LlmError> {
        let parsed = Url::parse(base_url.trim()).map_err(|error| {
            wrong(format!("`base_url` is not an address ({error}): it looks like https://host/v1"))
        });
        let mut url = parsed?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(wrong(format!(
                "`base_url` begins with `{}:`, not with http: or https:",
                url.scheme()
            )));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(wrong("`base_url` holds credentials: put the key into an environment variable"));
        }
        let host = url.host_str().unwrap_or_default().to_ascii_lowercase();
        url.set_fragment(None);
        let provider = shown(&url);
        url.path_segments_mut()
            .map_err(|()| wrong("`base_url` has no path"))?
            .pop_if_empty()
            .push("chat")
            .push("completions");
        Ok(Self { url: url.into(), provider, host })
    }

    /// The address of the completions as it may be shown.
    pub(super) fn shown_url(&self) -> String {
        format!("{}/chat/completions", self.provider)
    }
}

/// Scheme, host, port and path: what may be shown of an address.
fn shown(url: &Url) -> String {
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    let path = url.path().trim_end_matches('/');
    format!("{}://{}{port}{path}", url.scheme(), url.host_str().unwrap_or_default())
}

pub(super) fn wrong(message: impl Into<String>) -> LlmError {
    LlmError::Configuration { message: message.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_endpoint(base_url: &str, expect_url: &str, expect_provider: &str) {
        let endpoint = Endpoint::parse(base_url).unwrap();
        assert_eq!((endpoint.url.as_str(), endpoint.provider.as_str()), (expect_url, expect_provider));
    }

    #[test]
    fn any_base_address_leads_to_the_completions() {
        check_endpoint("http://h/v1", "http://h/v1/chat/completions", "http://h/v1");
        check_endpoint("http://h/v1/", "http://h/v1/chat/completions", "http://h/v1");
        check_endpoint("http://h", "http://h/chat/completions", "http://h");
        check_endpoint(" http://h/ ", "http://h/chat/completions", "http://h");
        check_endpoint("https://H:8080/a/b", "https://h:8080/a/b/chat/completions", "https://h:8080/a/b");
        check_endpoint("https://h:443/v1", "https://h/v1/chat/completions", "https://h/v1");
        check_endpoint(
            "http://[::1]:8000/v1",
            "http://[::1]:8000/v1/chat/completions",
            "http://[::1]:8000/v1",
        );
        check_endpoint(
            "https://h/d?api-version=1",
            "https://h/d/chat/completions?api-version=1",
            "https://h/d",
        );
        check_endpoint("https://h/v1#part", "https://h/v1/chat/completions", "https://h/v1");
    }

    #[track_caller]
    fn check_refused(base_url: &str, expect: &str) {
        let error = Endpoint::parse(base_url).err().unwrap();
        assert!(matches!(error, LlmError::Configuration { .. }), "{error:?}");
        assert!(error.to_string().contains(expect), "{error}");
        assert!(!error.to_string().contains("hunter2"), "{error}");
    }

    #[test]
    fn other_addresses_are_errors_of_the_configuration() {
        check_refused("", "is not an address");
        check_refused("localhost/v1", "is not an address");
        check_refused("localhost:8080/v1", "begins with `localhost:`");
        check_refused("ftp://h/v1", "begins with `ftp:`");
        check_refused("file:///etc/hosts", "begins with `file:`");
        check_refused("https://me:hunter2@h/v1", "holds credentials");
        check_refused("https://hunter2@h/v1", "holds credentials");
        check_refused("https://:hunter2@h/v1", "holds credentials");
        check_refused("https://me:hunter2@h:port/v1", "is not an address");
        check_refused("http://", "is not an address");
    }

    #[test]
    fn only_openai_is_openai() {
        #[track_caller]
        fn check(base_url: &str, expect: bool) {
            assert_eq!(is_openai_address(base_url), expect, "{base_url}");
        }
        check("https://api.openai.com/v1", true);
        check("https://API.OpenAI.com/v1", true);
        check("https://api.openai.com", true);
        check("https://api.openai.com.evil.invalid/v1", false);
        check("https://api.openai.com@evil.invalid/v1", false);
        check("https://api.openai.com:8443/v1", false);
        check("http://api.openai.com/v1", false);
        check("https://evil.invalid/https://api.openai.com", false);
        check("api.openai.com", false);
    }

    #[test]
    fn the_name_of_the_token_limit_depends_on_the_host() {
        let named = |field, host| {
            let config = OpenAiConfig { max_tokens_field: field, ..OpenAiConfig::new("http://h", "m") };
            config.says_max_completion_tokens(host)
        };
        assert!(named(MaxTokensField::Auto, "api.openai.com"));
        assert!(!named(MaxTokensField::Auto, "localhost"));
        assert!(!named(MaxTokensField::MaxTokens, "api.openai.com"));
        assert!(named(MaxTokensField::MaxCompletionTokens, "localhost"));
    }

    #[track_caller]
    fn check_config(change: impl FnOnce(&mut OpenAiConfig), expect: &str) {
        let mut config = OpenAiConfig::new("http://h/v1", "m");
        change(&mut config);
        assert_eq!(config.check().unwrap_err().to_string(), expect);
    }

    #[test]
    fn what_cannot_be_sent_is_refused() {
        check_config(|config| config.model = " ".into(), "the name of the model is empty");
        check_config(
            |config| drop(config.extra_body.insert("stream".into(), true.into())),
            "`stream` cannot stand in `extra_body`: it has a setting of its own",
        );
        check_config(
            |config| config.extra_headers.push(("Authorization".into(), "hunter2".into())),
            "the header `Authorization` cannot be set: it is written from the key",
        );
        check_config(
            |config| config.extra_headers.push(("a\n".into(), "x".into())),
            "`a\\n` cannot be the name of a header",
        );
        check_config(
            |config| config.extra_headers.push(("x-key".into(), "hunter2\n".into())),
            "the value of the header `x-key` cannot be sent",
        );
    }

    #[test]
    fn debug_shows_no_secret() {
        let mut config = OpenAiConfig::new("https://me:hunter2@h/v1?key=hunter2", "m");
        config.api_key = Some(ApiKey::new("hunter2").unwrap());
        config.extra_headers.push(("x-api-key".into(), "hunter2".into()));
        let shown = format!("{config:?}");
        assert!(shown.contains("https://h/v1") && !shown.contains("hunter2"), "{shown}");
    }
}
