//! `skillrl serve`: runs in a browser, live.

use super::CommandError;
use crate::args::ServeArgs;
use crate::served;
use skill_serve::{ServeOptions, Server};
use skillrl::pipeline::StopSignal;

pub(crate) fn run(args: &ServeArgs) -> crate::Result {
    let token = served::token(args.listen, args.token_env.as_deref(), served::TOKEN)?;
    let options = ServeOptions { dir: served::directory(args.dir.as_deref()), listen: args.listen, token };
    let stop = StopSignal::default();
    let until = stop.soon.clone();
    super::block_on(stop, "stopping", async move {
        let server =
            Server::bind(options).await.map_err(|error| CommandError::of(&error).with_hint(error.hint()))?;
        // Written out at once: a program that starts this one waits for it.
        super::print(&format!("{}\n", server.url()))?;
        super::say("open it in a browser; Ctrl-C ends the server and no run");
        server.run(until).await;
        crate::Result::Ok(())
    })?
}
