//! The default directory of `serve` and `mcp`, and the token of servers.

use crate::error::CommandError;
use skill_serve::{AccessError, Token};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// The usual directory of runs.
const RUNS: &str = "runs";

pub(crate) fn directory(asked: Option<&Path>) -> PathBuf {
    match asked {
        Some(dir) => dir.to_owned(),
        None if Path::new(RUNS).is_dir() => PathBuf::from(RUNS),
        None => PathBuf::from("."),
    }
}

/// The token of the environment, or a random one where other machines can ask.
pub(crate) fn token(listen: SocketAddr, token_env: Option<&str>) -> crate::Result<Option<Token>> {
    if let Some(name) = token_env {
        let text = std::env::var(name).map_err(|_| {
            CommandError::new(format!("the environment variable {name} holds no token"))
                .with_hint(format!("set {name} to the token, or leave `--token-env` out"))
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
    Ok(Some(Token::random().map_err(of_access)?))
}

fn of_access(error: AccessError) -> CommandError {
    CommandError::new(error.to_string()).with_hint(error.hint())
}
