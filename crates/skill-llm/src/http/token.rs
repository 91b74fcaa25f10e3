//! Keys that a command prints, such as `az account get-access-token`: held in memory until they expire, never stored.

use super::wait;
use crate::error::LlmError;
use crate::process::{self, Daemons, Ending, Run, ended_with};
use crate::secret::ApiKey;
use base64::Engine as _;
use serde_json::Value;
use std::time::{Duration, SystemTime};
use tokio::sync::Mutex;

/// How long the command may take.
const DEADLINE: Duration = Duration::from_secs(60);
const MAX_OUTPUT_BYTES: usize = 64 * 1024;
const MAX_STDERR_BYTES: usize = 1024;
/// How long a key is held that does not say when it expires.
const LIFETIME_OF_UNKNOWN: Duration = Duration::from_secs(5 * 60);
/// A key is renewed this long before it expires, or after three quarters of its life if that is later.
const MARGIN: Duration = Duration::from_secs(5 * 60);

/// A command that prints a key.
///
/// It runs with the environment of this program and without a shell. What it prints is the key itself, or a JSON object
/// with the key as `accessToken`, `access_token` or `token`. When it expires is read from `expires_on` (seconds since
/// 1970), `expires_in` (seconds), `token_expiry`, `expiresOn` or `expiry` (RFC 3339), or from the key if that is a JSON
/// web token; else the key is held for 5 minutes.
#[derive(Debug)]
pub struct TokenCommand {
    command: Vec<String>,
    held: Mutex<Option<Held>>,
}

#[derive(Debug, Clone)]
struct Held {
    key: ApiKey,
    renew_at: SystemTime,
    expires_at: SystemTime,
}

impl TokenCommand {
    /// A command of these words; it is not run before the first call.
    ///
    /// # Errors
    ///
    /// [`LlmError::Configuration`] if it names no program.
    pub fn new(command: Vec<String>) -> Result<Self, LlmError> {
        if command.first().is_none_or(|program| program.trim().is_empty()) {
            return Err(super::wrong("the command that prints the key names no program"));
        }
        Ok(Self { command, held: Mutex::new(None) })
    }

    /// The key to show now, and whether it was held already; calls that come while it is renewed wait for the new one.
    pub(super) async fn token(&self, provider: &str) -> Result<(ApiKey, bool), LlmError> {
        let mut held = self.held.lock().await;
        let now = SystemTime::now();
        if let Some(held) = held.as_ref().filter(|held| now < held.renew_at) {
            return Ok((held.key.clone(), true));
        }
        match self.fetch(provider).await {
            Ok(fresh) => {
                let key = fresh.key.clone();
                *held = Some(fresh);
                Ok((key, false))
            }
            Err(error) => match held.as_ref().filter(|held| now < held.expires_at) {
                // It was to be renewed early, and the old one still works.
                Some(held) => {
                    tracing::warn!(%error, "the key is not renewed yet");
                    Ok((held.key.clone(), true))
                }
                None => Err(error),
            },
        }
    }

    /// Forgets the key, unless it has been renewed already.
    pub(super) async fn forget(&self, key: &ApiKey) {
        let mut held = self.held.lock().await;
        if held.as_ref().is_some_and(|held| held.key.is(key)) {
            *held = None;
        }
    }

    async fn fetch(&self, provider: &str) -> Result<Held, LlmError> {
        let failed = |message: String| LlmError::NoToken {
            provider: provider.to_owned(),
            message: format!("the command `{}` {message}", self.command.join(" ")),
        };
        let run = Run {
            command: &self.command,
            directory: None,
            environment: None,
            stdin: b"",
            deadline: DEADLINE,
            max_output_bytes: MAX_OUTPUT_BYTES,
            max_stderr_bytes: MAX_STDERR_BYTES,
            daemons: Daemons::Stay,
        };
        let outcome = process::run(&run).await.map_err(|error| failed(error.to_string()))?;
        match outcome.ending {
            Ending::Exited(status) if status.success() => {
                // What it prints is a secret, and so no part of any message.
                read(&outcome.stdout, SystemTime::now()).map_err(failed)
            }
            Ending::Exited(status) => {
                // A script that traces itself (`set -x`) prints the key on its standard error too. Errors are stored with
                // the run, so it is shown where the command would show it, and nowhere else.
                let printed = String::from_utf8_lossy(&outcome.stderr);
                let printed: String = printed.chars().filter(|letter| !letter.is_control()).collect();
                tracing::warn!("the command `{}` printed: {}", self.command.join(" "), printed.trim());
                Err(failed(ended_with(status)))
            }
            Ending::Cut => Err(failed(format!("printed more than {MAX_OUTPUT_BYTES} bytes"))),
            Ending::Deadline => Err(failed(format!("did not end within {} s", DEADLINE.as_secs()))),
        }
    }
}

/// Reads what the command printed; an error is the end of "the command ...".
fn read(stdout: &[u8], now: SystemTime) -> Result<Held, String> {
    let text = std::str::from_utf8(stdout).map_err(|_| "printed what is not UTF-8".to_owned())?.trim();
    let (token, expires_at) = if text.starts_with('{') {
        let object: Value = serde_json::from_str(text)
            .map_err(|_| "printed something that is not a JSON object".to_owned())?;
        let token =
            ["accessToken", "access_token", "token"].iter().find_map(|name| object.get(*name)?.as_str());
        let token = token.ok_or("printed an object without `accessToken`, `access_token` or `token`")?;
        (token.to_owned(), expiry(&object, now))
    } else {
        if text.split_whitespace().nth(1).is_some() {
            return Err("printed several words; expected a key and nothing else".to_owned());
        }
        (text.to_owned(), None)
    };
    let key = ApiKey::new(&token).map_err(|error| format!("printed no key: {error}"))?;
    let expires_at = expires_at.or_else(|| expiry_of_web_token(&token));
    let expires_at = expires_at.or_else(|| now.checked_add(LIFETIME_OF_UNKNOWN)).unwrap_or(now);
    let life = expires_at.duration_since(now).unwrap_or_default();
    let renewed_after = life.saturating_sub(MARGIN).max(life * 3 / 4);
    Ok(Held { key, renew_at: now.checked_add(renewed_after).unwrap_or(now), expires_at })
}

fn expiry(object: &Value, now: SystemTime) -> Option<SystemTime> {
    let number = |name: &str| match object.get(name)? {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.trim().parse().ok(),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    };
    let instant = |name: &str| wait::instant(object.get(name)?.as_str()?.trim());
    let absolute = number("expires_on")
        .or_else(|| ["token_expiry", "expiresOn", "expiry"].iter().find_map(|name| instant(name)));
    let from_now = || now.checked_add(Duration::try_from_secs_f64(number("expires_in")?).ok()?);
    absolute.and_then(since_1970).or_else(from_now)
}

/// The claim `exp` of a JSON web token; its signature is the server's business.
fn expiry_of_web_token(token: &str) -> Option<SystemTime> {
    let mut parts = token.split('.');
    let (_, claims, _) = (parts.next()?, parts.next()?, parts.next()?);
    let bytes = base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(claims.trim_end_matches('=')).ok()?;
    since_1970(serde_json::from_slice::<Value>(&bytes).ok()?.get("exp")?.as_f64()?)
}

fn since_1970(seconds: f64) -> Option<SystemTime> {
    SystemTime::UNIX_EPOCH.checked_add(Duration::try_from_secs_f64(seconds).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seconds since 1970 that the tests take for now.
    const NOW: u64 = 1_800_000_000;

    /// When the key expires and when it is renewed, in seconds from now.
    #[track_caller]
    fn check(printed: &str, expect: &str) {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(NOW);
        let shown = match read(printed.as_bytes(), now) {
            Ok(held) => {
                let after = |time: SystemTime| time.duration_since(now).unwrap_or_default().as_secs();
                assert!(held.key.is(&ApiKey::new("secret-token").unwrap()) || printed.contains('.'));
                format!("{} {}", after(held.expires_at), after(held.renew_at))
            }
            Err(error) => {
                assert!(!error.contains("secret") && error.contains(expect), "{error}");
                return;
            }
        };
        assert_eq!(shown, expect, "{printed}");
    }

    fn web_token(claims: &str) -> String {
        let claims = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(claims);
        format!("eyJhbGciOiJub25lIn0.{claims}.signature")
    }

    #[test]
    fn what_a_command_prints() {
        check("secret-token\n", "300 225");
        check(r#"{"accessToken": "secret-token", "expires_on": 1800003600}"#, "3600 3300");
        check(r#"{"accessToken": "secret-token", "expires_on": "1800003600"}"#, "3600 3300");
        check(r#"{"access_token": "secret-token", "expires_in": 600}"#, "600 450");
        check(r#"{"token": "secret-token", "expiry": "2027-01-15T09:00:00Z"}"#, "3600 3300");
        check(r#"{"accessToken": "secret-token", "expiresOn": "2027-01-15 09:00:00.000000"}"#, "300 225");
        check(r#"{"token": "secret-token", "expires_on": 5}"#, "0 0");
        check(&web_token(r#"{"exp": 1800001000}"#), "1000 750");
        check(&web_token(r#"{"exp": "soon"}"#), "300 225");
        check("a.!.c", "300 225");
        check("", "empty");
        check("ERROR: please secret", "several words");
        check("{secret", "JSON");
        check(r#"{"secret": 1}"#, "`accessToken`, `access_token` or `token`");
        check("secret\u{7}token", "control characters");
    }
}
