//! The command line, as clap reads it.

use clap::{Args, Parser, Subcommand};
use mock_openai::fault::FaultRate;
use mock_openai::workload::{DataSize, Workload};
use mock_openai::{FaultPlan, Latency, Replies, ServerConfig};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

/// A fast Chat Completions server for tests and benchmarks.
///
/// It prints `listening on http://ADDRESS:PORT` once it accepts connections, and stops on ctrl-c or a termination
/// signal. POST /v1/chat/completions, GET /v1/models, GET /stats, POST /stats/reset.
#[derive(Debug, Parser)]
#[command(version, args_conflicts_with_subcommands = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    #[command(flatten)]
    pub(crate) serve: ServeArgs,
}

/// What else the program does.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Writes the data of the training world that --workload plays, for the environment `qa`.
    Data(DataArgs),
}

/// What a server is made from.
#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// The port; 0 lets the system choose.
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// The address to listen at.
    #[arg(long, default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    host: IpAddr,
    /// Threads that serve.
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Decides faults, latencies and what the workload gets right.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Stops when standard input ends, so that the server does not outlive the program that started it.
    #[arg(long)]
    pub(crate) until_stdin_closes: bool,

    /// Every reply takes this long, in milliseconds.
    #[arg(long, value_name = "MS", conflicts_with = "latency")]
    latency_ms: Option<u64>,
    /// How long replies take: fixed:MS, or lognormal:MEDIAN_MS:SIGMA.
    #[arg(long)]
    latency: Option<Latency>,

    /// The share of requests that get this fault instead of a reply; may be given for several kinds.
    ///
    /// Kinds: rate-limit, rate-limit-retry-after, rate-limit-retry-after-ms, rate-limit-reset, internal-error,
    /// bad-gateway, unavailable, hang, reset, truncated, empty-choices, null-content, invalid-utf8, oversized, html.
    #[arg(long = "fault", value_name = "KIND=RATE")]
    faults: Vec<FaultRate>,
    /// A request that got so many faults is answered.
    #[arg(long, value_name = "N")]
    max_faults_per_request: Option<u64>,
    /// What Retry-After says, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 1)]
    retry_after: u32,
    /// What retry-after-ms and x-ratelimit-reset-requests say, in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 20)]
    retry_after_ms: u64,

    /// Every reply is this text.
    #[arg(long, value_name = "TEXT", default_value = "OK", conflicts_with = "workload")]
    fixed: String,
    /// Plays both models of a training run on the data of `mock-openai data`.
    #[arg(long)]
    workload: bool,
    /// Workload: the share of items that are right under a skill without markers.
    #[arg(long, default_value_t = 0.7, requires = "workload")]
    accuracy: f64,
    /// Workload: by how much a marker in the skill raises the accuracy.
    #[arg(long, default_value_t = 0.05, requires = "workload")]
    accuracy_step: f64,
    /// Workload: about one of so many analyst replies improves the skill; 0 is none.
    #[arg(long, value_name = "K", default_value_t = 10, requires = "workload")]
    improve_every: u64,
    /// Workload: analyst replies that do not improve the skill make it worse.
    #[arg(long, requires = "workload")]
    harm: bool,
}

impl ServeArgs {
    pub(crate) fn config(&self) -> ServerConfig {
        let fixed = || Latency::Fixed(Duration::from_millis(self.latency_ms.unwrap_or(0)));
        let replies = if self.workload {
            Replies::Workload(Workload {
                seed: self.seed,
                accuracy: self.accuracy,
                accuracy_step: self.accuracy_step,
                improve_every: self.improve_every,
                harm: self.harm,
            })
        } else {
            Replies::Fixed(self.fixed.clone())
        };
        ServerConfig {
            address: SocketAddr::new(self.host, self.port),
            threads: self.threads,
            seed: self.seed,
            replies,
            latency: self.latency.unwrap_or_else(fixed),
            faults: FaultPlan {
                rates: self.faults.clone(),
                max_per_request: self.max_faults_per_request,
                retry_after_s: self.retry_after,
                retry_after: Duration::from_millis(self.retry_after_ms),
            },
        }
    }
}

/// How much data to write, and where.
#[derive(Debug, Args)]
pub(crate) struct DataArgs {
    /// The directory, made if it is not there.
    pub(crate) dir: PathBuf,
    /// Items to train on.
    #[arg(long, value_name = "N")]
    train: usize,
    /// Items to choose skills by.
    #[arg(long, value_name = "N")]
    val: usize,
    /// Items to measure the result by.
    #[arg(long, value_name = "N")]
    test: usize,
    /// About how long the context of each item is.
    #[arg(long, value_name = "BYTES", default_value_t = 5_000)]
    context_bytes: usize,
}

impl DataArgs {
    pub(crate) fn size(&self) -> DataSize {
        DataSize { train: self.train, val: self.val, test: self.test, context_bytes: self.context_bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;
    use mock_openai::Fault;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_help_names_every_fault() {
        let help = Cli::command().render_long_help().to_string();
        let words: Vec<&str> = help.split([' ', ',', '.', '\n']).collect();
        for fault in Fault::ALL {
            assert!(words.contains(&fault.as_str()), "{fault} in {help}");
        }
    }

    #[test]
    fn without_options_a_server_is_the_default_one() {
        let cli = Cli::parse_from(["mock-openai"]);
        assert_eq!(cli.serve.config(), ServerConfig::default());
    }

    #[track_caller]
    fn check_refused(args: &[&str], expect: &str) {
        let error = Cli::try_parse_from([&["mock-openai"], args].concat()).unwrap_err().to_string();
        assert!(error.contains(expect), "{error}");
    }

    #[test]
    fn options_that_mean_nothing_together_are_refused() {
        check_refused(&["--latency-ms", "5", "--latency", "fixed:5"], "cannot be used with");
        check_refused(&["--workload", "--fixed", "x"], "cannot be used with");
        check_refused(&["--harm"], "--workload");
        check_refused(&["--fault", "resets=1"], "no fault is `resets=1`");
        check_refused(&["--latency", "50"], "no latency is `50`");
    }
}
