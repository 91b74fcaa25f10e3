//! Addresses of servers: taken apart once, and shown without what may be a secret.

use crate::error::{LlmError, wrong};
use reqwest::Url;

/// The name under which an address carries the version of an interface, as Azure wants it.
const API_VERSION: &str = "api-version";

/// The address that a dialect asks.
#[derive(Clone)]
pub(crate) struct Endpoint {
    /// The whole address, which may hold a secret in its query.
    pub(crate) url: String,
    /// The base address as it may be shown.
    pub(crate) provider: String,
    /// The host, in lower case.
    pub(crate) host: String,
    /// What comes after the base address.
    path: String,
}

impl Endpoint {
    /// Takes a base address apart and puts the dialect's path behind it; texts of errors show no credentials.
    pub(crate) fn parse(base_url: &str, path: &[&str], api_version: Option<&str>) -> Result<Self, LlmError> {
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
        url.path_segments_mut().map_err(|()| wrong("`base_url` has no path"))?.pop_if_empty().extend(path);
        if let Some(version) = api_version {
            if url.query_pairs().any(|(name, _)| name == API_VERSION) {
                return Err(wrong("`base_url` has an `api-version` already: leave `api_version` out"));
            }
            url.query_pairs_mut().append_pair(API_VERSION, version);
        }
        Ok(Self { url: url.into(), provider, host, path: path.join("/") })
    }

    /// The address that is asked as it may be shown.
    pub(crate) fn shown_url(&self) -> String {
        format!("{}/{}", self.provider, self.path)
    }
}

/// The address without credentials, or a placeholder if it is not a URL.
pub(crate) fn shown_address(base_url: &str) -> String {
    Url::parse(base_url).map_or_else(|_| "not an address".to_owned(), |url| shown(&url))
}

/// Scheme, host, port and path: what may be shown of an address.
fn shown(url: &Url) -> String {
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    let path = url.path().trim_end_matches('/');
    format!("{}://{}{port}{path}", url.scheme(), url.host_str().unwrap_or_default())
}

/// Whether an address is `https` on the standard port of one of these hosts, or of a host under one that begins with a
/// dot.
pub(crate) fn is_https_at(base_url: &str, hosts: &[&str]) -> bool {
    Url::parse(base_url.trim()).is_ok_and(|url| {
        let host = url.host_str().unwrap_or_default().to_ascii_lowercase();
        let is_host = hosts
            .iter()
            .any(|known| if known.starts_with('.') { host.ends_with(known) } else { host == **known });
        url.scheme() == "https" && is_host && url.port().is_none()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHAT: &[&str] = &["chat", "completions"];

    #[track_caller]
    fn check_endpoint(base_url: &str, expect_url: &str, expect_provider: &str) {
        let endpoint = Endpoint::parse(base_url, CHAT, None).unwrap();
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

    #[test]
    fn a_version_is_a_part_of_the_query() {
        let parse = |base_url, version| Endpoint::parse(base_url, CHAT, Some(version));
        let endpoint = parse("https://h/d", "2024-10-21").unwrap();
        assert_eq!(endpoint.url, "https://h/d/chat/completions?api-version=2024-10-21");
        assert_eq!(endpoint.shown_url(), "https://h/d/chat/completions");
        let endpoint = parse("https://h/d?a=1", "x&y").unwrap();
        assert_eq!(endpoint.url, "https://h/d/chat/completions?a=1&api-version=x%26y");
        let error = parse("https://h/d?api-version=1", "2").err().unwrap();
        assert!(matches!(error, LlmError::Configuration { .. }), "{error:?}");
        assert!(
            ["`base_url`", "`api_version`"].iter().all(|name| error.to_string().contains(name)),
            "{error}"
        );
    }

    #[track_caller]
    fn check_refused(base_url: &str, expect: &str) {
        let error = Endpoint::parse(base_url, CHAT, None).err().unwrap();
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
    fn a_host_is_who_it_says_only_over_https() {
        #[track_caller]
        fn check(base_url: &str, expect: bool) {
            assert_eq!(is_https_at(base_url, &["api.openai.com", ".azure.com"]), expect, "{base_url}");
        }
        check("https://api.openai.com/v1", true);
        check("https://API.OpenAI.com/v1", true);
        check("https://api.openai.com", true);
        check("https://me.openai.azure.com/openai/v1", true);
        check("https://azure.com", false);
        check("https://evilazure.com", false);
        check("https://api.openai.com.evil.invalid/v1", false);
        check("https://api.openai.com@evil.invalid/v1", false);
        check("https://api.openai.com:8443/v1", false);
        check("http://api.openai.com/v1", false);
        check("https://evil.invalid/https://api.openai.com", false);
        check("api.openai.com", false);
    }
}
