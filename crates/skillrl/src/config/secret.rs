//! What looks like a secret. The configuration is copied into the run directory, so it may hold none.

pub(super) use skill_core::secret::{begins_like_key as looks_like_key, is_secret_header, is_secret_name};

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

/// What is wrong with an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UrlFault {
    /// It is no `http` address with a host.
    Malformed,
    /// It has a user, a password or a key in it.
    Credentials,
}

/// Whether an address can be used and written to files.
pub(super) fn check_url(url: &str) -> Result<(), UrlFault> {
    let lower = url.to_ascii_lowercase();
    let scheme = ["http://", "https://"].into_iter().find(|scheme| lower.starts_with(scheme));
    let rest = scheme.and_then(|scheme| url.get(scheme.len()..));
    let authority = rest.unwrap_or(url).split(['/', '?', '#']).next().unwrap_or_default();
    // Without a scheme the credentials may stand anywhere before the host.
    if authority.contains('@') || (rest.is_none() && url.contains('@')) || looks_like_key(url) {
        return Err(UrlFault::Credentials);
    }
    let query = url.split_once('?').map(|(_, query)| query).unwrap_or_default();
    let has_key = query.split(['&', ';', '#']).any(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        SECRET_PARAMETERS.contains(&name.to_ascii_lowercase().as_str())
            || is_secret_name(name)
            || looks_like_key(value)
    });
    if has_key || url.split('/').any(looks_like_key) {
        return Err(UrlFault::Credentials);
    }
    let host = authority.split(':').next().unwrap_or_default();
    let is_clean = !url.chars().any(|letter| letter.is_whitespace() || letter.is_control());
    if rest.is_none() || (host.is_empty() && !authority.starts_with('[')) || !is_clean {
        return Err(UrlFault::Malformed);
    }
    Ok(())
}
