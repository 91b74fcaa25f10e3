//! What looks like a secret. The configuration is copied into the run directory, so it may hold none.
//!
//! # Invariants
//!
//! - No configuration with a key in it is accepted, and no message quotes one. Held by the tests in
//!   `src/config/tests/secrets.rs`.

pub(super) use skill_core::secret::{begins_like_key as looks_like_key, is_secret_header, is_secret_name};

use url::{Url, form_urlencoded};

/// Parameters of an address that hold keys at well-known providers.
const SECRET_PARAMETERS: &[&str] = &["key", "code", "sig", "signature", "token"];

/// No name of a variable is this long without an underscore.
const LONG_WORD: usize = 32;

/// Whether this can be the name of an environment variable rather than a key.
pub(super) fn is_variable_name(name: &str) -> bool {
    let mut letters = name.chars();
    let starts_well = letters.next().is_some_and(|first| first.is_ascii_alphabetic() || first == '_');
    let goes_on_well = letters.all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
    let random = name.len() >= LONG_WORD
        && !name.contains('_')
        && name.chars().any(|letter| letter.is_ascii_digit())
        && name.chars().any(|letter| letter.is_ascii_alphabetic());
    starts_well && goes_on_well && !random && !looks_like_key(name)
}

/// Why an address is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UrlFault {
    /// It is not an `http` address with a host.
    Malformed,
    /// It has a user, a password or a key in it.
    Credentials,
}

/// Checks that an address can be used and written to files.
pub(super) fn check_url(text: &str) -> Result<(), UrlFault> {
    // Before it is taken apart: a key is one in a broken address too.
    if looks_like_key(text) || text.split('/').any(looks_like_key) {
        return Err(UrlFault::Credentials);
    }
    let lower = text.to_ascii_lowercase();
    let has_scheme = ["http://", "https://"].iter().any(|scheme| lower.starts_with(scheme));
    let url = match Url::parse(text) {
        Ok(url) if has_scheme => url,
        // Credentials may be anywhere before the host.
        Ok(_) | Err(_)
            if text.contains('@') || has_secret_parameter(text.split_once('?').map(|(_, rest)| rest)) =>
        {
            return Err(UrlFault::Credentials);
        }
        Ok(_) | Err(_) => return Err(UrlFault::Malformed),
    };
    let has_user = !url.username().is_empty() || url.password().is_some();
    if has_user || has_secret_parameter(url.query()) || has_secret_parameter(url.fragment()) {
        return Err(UrlFault::Credentials);
    }
    // The URL parser removes line breaks and escapes spaces, so an address with them would silently become another one.
    if text.chars().any(|letter| letter.is_whitespace() || letter.is_control()) {
        return Err(UrlFault::Malformed);
    }
    Ok(())
}

/// True if one of the parameters is a key by its name or by its value.
fn has_secret_parameter(parameters: Option<&str>) -> bool {
    parameters.unwrap_or_default().split(['&', ';', '#']).any(|pair| {
        form_urlencoded::parse(pair.as_bytes()).any(|(name, value)| {
            SECRET_PARAMETERS.contains(&name.to_ascii_lowercase().as_str())
                || is_secret_name(&name)
                || looks_like_key(&value)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        #[track_caller]
        fn check(url: &str, expect: Result<(), UrlFault>) {
            assert_eq!(check_url(url), expect, "{url}");
        }
        let (malformed, credentials) = (Err(UrlFault::Malformed), Err(UrlFault::Credentials));
        for url in [
            "http://localhost:8080/v1",
            "http://[::1]:8080/v1",
            "HTTPS://host",
            "https://host/v1?api-version=2024-10-21",
            "https://host/a@b/v1",
            "https://host",
            "https://host/v1/?x=#y",
        ] {
            check(url, Ok(()));
        }
        for url in [
            "",
            "http://",
            "https:///",
            "http:host",
            "localhost:8080",
            "host/v1",
            "ftp://host",
            "file:///etc",
            "http://a b",
            "http://a\tb",
            "http://host:port",
            "http://host:99999",
            "http://[::1",
            " http://host",
        ] {
            check(url, malformed);
        }
        for url in [
            "https://me:pw@host/v1",
            "https://me@host",
            "https://me:pw@host:port",
            "me:pw@host/v1",
            "https://host/v1?key=x",
            "https://host/v1?KEY=x",
            "https://host/v1?a=1&api_key=x",
            "https://host/v1?a=1;token=x",
            "https://host/v1?k%65y=x",
            "https://host/v1#token=x",
            "https://host/v1?x=sk-DoNotShow",
            "https://host/v1?x=%73k-DoNotShow",
            "https://host/sk-DoNotShow/v1",
            "host?key=x",
        ] {
            check(url, credentials);
        }
    }
}
