//! `skillrl worker`: rollouts of runs on other machines.

#[cfg(not(feature = "nats"))]
pub(crate) fn run(_: &crate::args::WorkerArgs) -> crate::Result {
    Err(super::not_built_in("workers"))
}

#[cfg(feature = "nats")]
pub(crate) use with_broker::run;

#[cfg(feature = "nats")]
mod with_broker {
    use crate::args::WorkerArgs;
    use crate::command::{CommandError, heeding_signals, print_wrapped, runtime, say};
    use parking_lot::Mutex;
    use skillrl::config::{ConfigPath, NatsConfig};
    use skillrl::nats::{
        ConfigWorkshop, Times, VERSION, Worker, WorkerConfig, WorkerEvent, WorkerEvents, WorkerOptions,
        WorkerStop, connect, host_name, session_name,
    };
    use skillrl::pipeline::StopSignal;
    use std::collections::BTreeMap;
    use std::path::PathBuf;
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    /// A check waits so long for runs to be announced.
    const CHECK_PATIENCE: Duration = Duration::from_secs(10);
    /// After the last run that was set up, so long for further ones.
    const CHECK_MORE: Duration = Duration::from_secs(3);

    pub(crate) fn run(args: &WorkerArgs) -> crate::Result {
        let asked = broker(args);
        let title = format!("{}/{}", host_name(), std::process::id());
        let connect = connect(&asked, &format!("skillrl worker {title}"))?;
        let workshop = Arc::new(ConfigWorkshop::new(WorkerOptions {
            cache: cache(args)?,
            base: args.base.clone(),
            overrides: args.overrides.clone(),
        }));
        let config = WorkerConfig {
            name: args.name.clone(),
            id: session_name(),
            title: title.clone(),
            version: VERSION.to_owned(),
            // A check takes no job.
            slots: if args.check { 0 } else { args.workers },
            times: Times::default(),
        };
        let seen = Arc::new(Seen::default());
        let events = events(Arc::clone(&seen), args);
        let worker = Worker::new(config, connect, Arc::clone(&workshop) as _, events);
        let stop = WorkerStop::default();
        let signal = StopSignal::default();
        let work = async {
            let until = stop.clone();
            let (drain, now) = (signal.soon.clone(), signal.now.clone());
            let watching = async {
                tokio::select! {
                    () = drain.cancelled() => {}
                    () = seen.is_over(args) => {}
                }
                until.drain.cancel();
                now.cancelled().await;
                until.abort.cancel();
                std::future::pending::<()>().await;
            };
            tokio::select! {
                ended = worker.run(stop) => ended,
                () = watching => Ok(()),
            }
        };
        let stopping = "ending when the rollouts under way are done; press Ctrl-C again to end at once";
        let runtime = runtime()?;
        let ended = runtime.block_on(heeding_signals(signal.clone(), stopping, work));
        runtime.shutdown_background();
        ended.map_err(skillrl::Error::Broker)?;
        if args.check { checked(&seen, &workshop) } else { Ok(()) }
    }

    fn broker(args: &WorkerArgs) -> NatsConfig {
        let path =
            |path: &Option<PathBuf>| path.as_ref().map(|path| ConfigPath::from(path.display().to_string()));
        NatsConfig {
            url: args.nats.clone(),
            name: args.name.clone(),
            user: args.user.clone(),
            password_env: args.password_env.clone(),
            nkey_env: args.nkey_env.clone(),
            ca_file: path(&args.ca_file),
            client_cert: path(&args.client_cert),
            client_key: path(&args.client_key),
        }
    }

    /// Where files are kept: as asked, else where the user's caches are.
    fn cache(args: &WorkerArgs) -> crate::Result<PathBuf> {
        if let Some(cache) = &args.cache {
            return Ok(cache.clone());
        }
        skillrl::caches::cache_dir("worker").ok_or_else(|| {
            CommandError::new(
                "no cache directory: neither XDG_CACHE_HOME nor HOME is set; name one with --cache",
            )
            .into()
        })
    }

    /// What a worker has come to.
    #[derive(Default)]
    struct Seen {
        state: Mutex<SeenState>,
    }

    #[derive(Default)]
    struct SeenState {
        /// The runs that were announced, with what is in the way.
        runs: BTreeMap<String, Vec<String>>,
        attached: usize,
        changed: Option<Instant>,
    }

    impl Seen {
        fn change(&self, change: impl FnOnce(&mut SeenState)) {
            let mut state = self.state.lock();
            change(&mut state);
            state.changed = Some(Instant::now());
        }

        /// Waits until nobody needs the worker.
        async fn is_over(&self, args: &WorkerArgs) {
            let begun = Instant::now();
            loop {
                tokio::time::sleep(Duration::from_millis(200)).await;
                let state = self.state.lock();
                let changed = state.changed.unwrap_or(begun).elapsed();
                let idle = args.idle.map(Duration::from_secs);
                let is_over = if args.check {
                    changed >= if state.runs.is_empty() { CHECK_PATIENCE } else { CHECK_MORE }
                } else {
                    idle.is_some_and(|idle| state.attached == 0 && changed >= idle)
                };
                if is_over {
                    return;
                }
            }
        }
    }

    fn events(seen: Arc<Seen>, args: &WorkerArgs) -> WorkerEvents {
        let (is_check, is_quiet) = (args.check, args.quiet);
        let slots = args.workers;
        Arc::new(move |event| match event {
            WorkerEvent::Connected if !is_check => say(&format!("connected; {slots} rollouts at a time")),
            WorkerEvent::Connected => {}
            WorkerEvent::Attached { run } => {
                if !is_check {
                    say(&format!("works for the run {run}"));
                }
                seen.change(|state| {
                    state.runs.insert(run, Vec::new());
                    state.attached += 1;
                });
            }
            WorkerEvent::CannotWork { run, problems } => {
                if !is_check {
                    say(&format!("cannot work for the run {run}: {}", problems.join("; ")));
                }
                seen.change(|state| {
                    state.runs.insert(run, problems);
                });
            }
            WorkerEvent::Detached { run } => {
                if !is_check {
                    say(&format!("the run {run} is over, or its driver is gone"));
                }
                seen.change(|state| state.attached = state.attached.saturating_sub(1));
            }
            WorkerEvent::JobStarted { .. } => {}
            WorkerEvent::JobFinished { item, took, error } => {
                let seconds = took.as_secs_f64();
                match error {
                    Some(error) => say(&format!("{item} could not be made: {error}")),
                    None if is_quiet => {}
                    None => say(&format!("{item}  {seconds:.1} s")),
                }
            }
        })
    }

    /// Says what a check has found.
    fn checked(seen: &Seen, workshop: &ConfigWorkshop) -> crate::Result {
        let state = seen.state.lock();
        if state.runs.is_empty() {
            let message = "no run was announced: start the run first, under the same `run.nats.name`";
            return Err(CommandError::new(message).into());
        }
        let mut text = format!("skillrl {VERSION}\n");
        for version in workshop.versions() {
            text.push_str(&format!("other version: {version}\n"));
        }
        let mut n_problems = 0;
        for (run, problems) in &state.runs {
            match problems.as_slice() {
                [] => text.push_str(&format!("{run}: this worker can work for it\n")),
                problems => {
                    n_problems += problems.len();
                    for problem in problems {
                        text.push_str(&format!("{run}: {problem}\n"));
                    }
                }
            }
        }
        print_wrapped(&text)?;
        if n_problems > 0 {
            let message = format!("{n_problems} problems are in the way of this worker");
            return Err(CommandError::new(message)
                .with_hint("install what is missing, and check again")
                .into());
        }
        Ok(())
    }
}
