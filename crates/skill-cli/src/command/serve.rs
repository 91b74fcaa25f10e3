//! `skillrl serve`: runs in a browser, live.

use super::CommandError;
use crate::args::ServeArgs;
use skill_serve::{AccessError, ServeError, ServeOptions, Server, Token};
use skillrl::pipeline::StopSignal;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// Where runs stand, as a rule.
const RUNS: &str = "runs";

pub(crate) fn run(args: &ServeArgs) -> crate::Result {
    let token = token(args.listen, args.token_env.as_deref())?;
    let options = ServeOptions { dir: directory(args.dir.as_deref()), listen: args.listen, token };
    let stop = StopSignal::default();
    let until = stop.soon.clone();
    super::block_on(stop, "stopping", async move {
        let server = Server::bind(options).await.map_err(of_serve)?;
        // Written out at once: a program that starts this one waits for it.
        super::print(&format!("{}\n", server.url()))?;
        super::say("open it in a browser; Ctrl-C ends the server and no run");
        server.run(until).await;
        crate::Result::Ok(())
    })?
}

pub(super) fn directory(asked: Option<&Path>) -> PathBuf {
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

fn of_serve(error: ServeError) -> CommandError {
    let hint = error.hint();
    CommandError::new(skillrl::llm::error::with_causes(&error)).with_hint(hint)
}
