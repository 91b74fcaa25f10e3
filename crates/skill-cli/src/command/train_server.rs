//! `skillrl train-server`: weights of other runs are trained on this machine.

#[cfg(feature = "weights")]
pub(crate) use built_in::run;

#[cfg(not(feature = "weights"))]
pub(crate) fn run(_: &crate::args::TrainServerArgs) -> crate::Result {
    Err(super::not_built_in("local models"))
}

#[cfg(feature = "weights")]
mod built_in {
    use crate::args::TrainServerArgs;
    use crate::command::{CommandError, heeding_signals, print, runtime, say};
    use crate::error::OfFile as _;
    use crate::served;
    use skillrl::llm::error::with_causes;
    use skillrl::pipeline::StopSignal;
    use skillrl::tinker::server::{ServerSettings, TinkerServer};
    use std::path::{Path, PathBuf};
    use tokio::net::TcpListener;

    pub(crate) fn run(args: &TrainServerArgs) -> crate::Result {
        let token = served::token(args.listen, args.key_env.as_deref(), ["key", "--key-env"])?;
        let is_made_up = args.key_env.is_none();
        let shown = token.as_ref().filter(|_| is_made_up).map(|token| token.as_str().to_owned());
        let models: Vec<(String, PathBuf)> = args.models.iter().map(|text| named(text)).collect();
        let names: Vec<String> = models.iter().map(|(name, _)| name.clone()).collect();
        let settings = ServerSettings { models, directory: args.dir.clone(), token };
        let server = TinkerServer::open(settings)
            .map_err(|error| CommandError::new(format!("failed to {}", with_causes(&error))))?;
        let stop = StopSignal::default();
        let until = stop.soon.clone();
        let runtime = runtime()?;
        let serving = async move {
            let listener = TcpListener::bind(args.listen).await;
            let listener = listener.trying_to(format_args!("listen at {}", args.listen))?;
            // Written out at once: a program that starts this one waits for it.
            print(&format!(
                "http://{}\n",
                listener.local_addr().trying_to("learn the address of the listener")?
            ))?;
            say(&format!("trains {}; Ctrl-C ends the server", names.join(", ")));
            if let Some(key) = shown {
                say(&format!("clients show this key: {key}"));
            }
            tokio::select! {
                served = server.serve(listener) => served.trying_to("serve clients")?,
                () = until.cancelled() => {}
            }
            crate::Result::Ok(())
        };
        let outcome = runtime.block_on(heeding_signals(stop, "stopping", serving));
        // What a job computes is in no file yet, and files are written whole or not at all: nobody waits for it.
        runtime.shutdown_background();
        outcome
    }

    /// The name and the path of `NAME=PATH`, or of a path alone.
    fn named(text: &str) -> (String, PathBuf) {
        match text.split_once('=') {
            Some((name, path)) if !name.is_empty() && !name.contains(['/', '\\']) => {
                (name.to_owned(), PathBuf::from(path))
            }
            _ => {
                let path = Path::new(text);
                let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
                (absolute.file_name().unwrap_or_default().to_string_lossy().into_owned(), path.to_owned())
            }
        }
    }

    #[cfg(test)]
    mod tests {
        use super::named;

        #[test]
        fn a_model_has_the_name_that_is_given_or_that_of_its_file() {
            let found = |text: &str| {
                let (name, path) = named(text);
                (name, path.display().to_string())
            };
            let expect = |name: &str, path: &str| (name.to_owned(), path.to_owned());
            assert_eq!(found("models/tiny"), expect("tiny", "models/tiny"));
            assert_eq!(found("small=models/tiny"), expect("small", "models/tiny"));
            assert_eq!(found("models/a=b"), expect("a=b", "models/a=b"));
        }
    }
}
