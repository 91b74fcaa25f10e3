//! The program `mock-openai`: the server, and the data of its training world.

mod args;

use args::{Cli, Command, DataArgs, ServeArgs};
use clap::Parser as _;
use mock_openai::{MockServer, StartError, workload};
use std::io::{self, Write as _};
use std::process::ExitCode;
use tokio::sync::oneshot;

/// Why the program ended early.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Start(#[from] StartError),
    #[error("cannot write the data to `{}`", .0.dir.display())]
    Data(DataArgs, #[source] io::Error),
    #[error("cannot wait for a signal")]
    Signal(#[source] io::Error),
    #[error("cannot write to standard output")]
    Stdout(#[source] io::Error),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let outcome = match cli.command {
        Some(Command::Data(args)) => {
            workload::write_data(&args.dir, &args.size()).map_err(|error| Failure::Data(args, error))
        }
        None => serve(&cli.serve),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let mut text = format!("error: {error}");
            let mut source = std::error::Error::source(&error);
            while let Some(cause) = source {
                text.push_str(&format!(": {cause}"));
                source = cause.source();
            }
            // Standard error may be closed; the exit code still says it.
            writeln!(anstream::stderr(), "{text}").unwrap_or_default();
            ExitCode::FAILURE
        }
    }
}

fn serve(args: &ServeArgs) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(Failure::Signal)?;
    // Before anybody can know of the server: from then on a signal stops it in order.
    let signalled = {
        let _entered = runtime.enter();
        signalled().map_err(Failure::Signal)?
    };
    let server = MockServer::start_blocking(args.config())?;
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "listening on {}", server.address())
        .and_then(|()| stdout.flush())
        .map_err(Failure::Stdout)?;
    drop(stdout);
    runtime.block_on(stopped(signalled, args.until_stdin_closes)).map_err(Failure::Signal)
}

/// Waits for a signal or, if asked to, the end of standard input.
async fn stopped(signalled: impl Future<Output = ()>, until_stdin_closes: bool) -> io::Result<()> {
    let (sender, closed) = oneshot::channel::<()>();
    if until_stdin_closes {
        // A thread, since reading standard input cannot be called off.
        let read = move || {
            drop(io::copy(&mut io::stdin().lock(), &mut io::sink()));
            drop(sender);
        };
        std::thread::Builder::new().name("stdin".to_owned()).spawn(read)?;
    }
    tokio::select! {
        () = signalled => {}
        _ = closed, if until_stdin_closes => {}
    }
    Ok(())
}

/// A future that ends with the next ctrl-c or termination signal; signals are caught from this call on.
#[cfg(unix)]
fn signalled() -> io::Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    })
}

/// A future that ends with the next ctrl-c; there is no termination signal here.
#[cfg(not(unix))]
fn signalled() -> io::Result<impl Future<Output = ()>> {
    Ok(async { drop(tokio::signal::ctrl_c().await) })
}
