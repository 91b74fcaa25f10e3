//! The default directory of `serve` and `mcp`, and the token of servers.

use crate::error::CommandError;
use skill_serve::{AccessError, Token};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// The usual directory of runs.
const RUNS: &str = "runs";

/// The token of most servers in messages, and its option.
pub(crate) const TOKEN: [&str; 2] = ["token", "--token-env"];

pub(crate) fn directory(asked: Option<&Path>) -> PathBuf {
    match asked {
        Some(dir) => dir.to_owned(),
        None if Path::new(RUNS).is_dir() => PathBuf::from(RUNS),
        None => PathBuf::from("."),
    }
}

/// The token of the environment, or a random one where other machines can ask; `what` is its name in messages, and
/// `option` names the variable.
pub(crate) fn token(
    listen: SocketAddr,
    variable: Option<&str>,
    [what, option]: [&str; 2],
) -> crate::Result<Option<Token>> {
    if let Some(name) = variable {
        let text = std::env::var(name).map_err(|_| {
            CommandError::new(format!("the environment variable {name} holds no {what}"))
                .with_hint(format!("set {name} to the {what}, or leave `{option}` out"))
        })?;
        let unusable = |error: AccessError| {
            let message = format!("cannot use the environment variable {name}: {error}");
            CommandError::new(message).with_hint(error.hint())
        };
        return Ok(Some(Token::new(&text).map_err(unusable)?));
    }
    if listen.ip().is_loopback() {
        return Ok(None);
    }
    let random = Token::random();
    Ok(Some(random.map_err(|error| CommandError::of(&error).with_hint(error.hint()))?))
}
