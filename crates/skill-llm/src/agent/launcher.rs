//! Starts coding agents for measurements of which skills they load.

use super::MAX_OUTPUT_BYTES;
use crate::error::ErrorClass;
use crate::http::{class_of_report, is_account_limit};
use crate::process::{self, Daemons, Ending, Passed, Run, temporary_dir};
use async_trait::async_trait;
use skill_agents::LiveReplies;
use skill_agents::measure::{Ended, Launch, LaunchError, Launched, Launcher, Trouble, Workspace};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};
use tokio_util::sync::CancellationToken;

/// Bytes of output that are stored of a program that was killed because it printed too much.
const STORED_BYTES_OF_ENDLESS: usize = 64 * 1024;
const MAX_STDERR_BYTES: usize = 64 * 1024;

/// Starts programs, each in a temporary directory that is gone afterwards.
#[derive(Debug, Clone, Default)]
pub struct ProgramLauncher {
    /// Variables of this process that programs get besides those of the table.
    pub pass_env: Vec<String>,
    /// Ends what is running.
    pub cancel: CancellationToken,
}

/// How long to wait before an agent is started again whose account has reached a limit, by its words: until the time that
/// they tell, or a quarter of an hour.
pub fn account_wait(message: &str, now: SystemTime) -> Duration {
    crate::layer::account_wait(message, now)
}

/// What a program finds: variables that are set for it, and those that it is passed.
pub(super) fn environment(passed: &Passed, set: &BTreeMap<String, String>) -> Vec<(OsString, OsString)> {
    let is_set = |name: &OsString| name.to_str().is_some_and(|name| set.contains_key(name));
    let inherited = passed.environment().filter(|(name, _)| !is_set(name));
    inherited.chain(set.iter().map(|(name, value)| (OsString::from(name), OsString::from(value)))).collect()
}

struct Folder(process::TemporaryDir);

impl Workspace for Folder {
    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl ProgramLauncher {
    /// The variables that a program is passed: those that are named, and those that begin as the table says.
    fn passed(&self, launch: &Launch) -> Passed {
        let mut names = self.pass_env.clone();
        for (name, _) in std::env::vars_os() {
            let Some(name) = name.to_str() else { continue };
            let is_hidden = launch.hidden_env.iter().any(|hidden| hidden == name);
            if !is_hidden && launch.pass_env.iter().any(|prefix| name.starts_with(prefix.as_str())) {
                names.push(name.to_owned());
            }
        }
        Passed::new(&names)
    }
}

#[async_trait]
impl Launcher for ProgramLauncher {
    fn workspace(&self) -> io::Result<Box<dyn Workspace>> {
        Ok(Box::new(Folder(temporary_dir("trigger-")?)))
    }

    async fn launch(&self, launch: &Launch) -> Result<Launched, LaunchError> {
        let passed = self.passed(launch);
        let run = Run {
            command: &launch.command,
            directory: Some(&launch.directory),
            environment: Some(environment(&passed, &launch.env)),
            stdin: launch.stdin.as_bytes(),
            deadline: launch.deadline,
            max_output_bytes: MAX_OUTPUT_BYTES,
            max_stderr_bytes: MAX_STDERR_BYTES,
            daemons: Daemons::End,
        };
        let mut replies = LiveReplies::new(launch.agent);
        let mut is_over = false;
        let mut watch = |bytes: &[u8]| {
            replies.take(bytes);
            is_over = replies.count() > launch.turns;
            is_over
        };
        let started = Instant::now();
        let outcome = tokio::select! {
            biased;
            () = self.cancel.cancelled() => return Err(LaunchError::Stopped),
            outcome = process::run_watched(&run, &mut watch) => outcome,
        };
        let outcome = outcome.map_err(|error| LaunchError::Start {
            program: launch.command.first().cloned().unwrap_or_default(),
            what: error.to_string(),
        })?;
        let ended = match outcome.ending {
            Ending::Exited(status) => Ended::Exited(status.code()),
            Ending::Cut if is_over => Ended::TurnLimit,
            Ending::Cut => Ended::TooMuch,
            Ending::Deadline => Ended::Deadline,
        };
        let mut printed = outcome.stdout;
        if ended == Ended::TooMuch {
            printed.truncate(STORED_BYTES_OF_ENDLESS);
        }
        Ok(Launched {
            stdout: passed.scrub(&String::from_utf8_lossy(&printed)),
            stderr: passed.scrub_tail(&outcome.stderr, MAX_STDERR_BYTES),
            ended,
            elapsed: started.elapsed(),
        })
    }

    fn trouble(&self, message: &str, status: Option<u16>) -> Trouble {
        if is_account_limit(&message.to_lowercase()) {
            return Trouble::Limited;
        }
        match class_of_report(message, status) {
            ErrorClass::Authentication => Trouble::Refused,
            ErrorClass::QuotaExhausted => Trouble::Limited,
            ErrorClass::RateLimited => Trouble::Busy,
            _ => Trouble::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(message: &str, status: Option<u16>, expect: Trouble) {
        assert_eq!(ProgramLauncher::default().trouble(message, status), expect, "{message}");
    }

    #[test]
    fn limits_of_accounts_are_told_from_load_and_from_a_missing_sign_in_for_all_agents() {
        // Claude Code.
        check("You've hit your limit \u{b7} resets 3pm (UTC)", Some(429), Trouble::Limited);
        check("Not logged in \u{b7} Please run /login", None, Trouble::Refused);
        check("API Error: 500 Internal server error", Some(500), Trouble::Other);
        // Codex, and Pi behind the same service.
        check(
            "You've hit your usage limit. Upgrade to Pro or try again in 2 days 17 hours.",
            None,
            Trouble::Limited,
        );
        check("{\"type\":\"usage_limit_reached\",\"resets_in_seconds\":13872}", Some(429), Trouble::Limited);
        check(
            "No API key found for the selected model. Use /login to log into a provider.",
            None,
            Trouble::Refused,
        );
        check("Missing environment variable: `MY_KEY`.", None, Trouble::Refused);
        // Gemini CLI.
        check(
            "You have exhausted your capacity on this model. Your quota will reset after 3h20m.",
            None,
            Trouble::Limited,
        );
        check("You have exhausted your daily quota on this model.", Some(429), Trouble::Limited);
        check(
            "Please set an Auth method in your settings.json or specify GEMINI_API_KEY",
            None,
            Trouble::Refused,
        );
        // Copilot CLI.
        check("Execution failed: 402 You have no quota", Some(402), Trouble::Limited);
        check("You have exceeded your premium request allowance.", None, Trouble::Limited);
        check("Error: No authentication information found.", None, Trouble::Refused);
        // OpenCode.
        check("Free usage exceeded, subscribe to Go", Some(429), Trouble::Limited);
        check("weekly usage limit reached. It will reset in 5 days 10 hours.", None, Trouble::Limited);
        // Qwen Code.
        check("[API Error: 429 Free allocated quota exceeded.]", Some(429), Trouble::Limited);
        check("No auth type is selected. Please configure an auth type", None, Trouble::Refused);
        // An overloaded server, in the words of several agents.
        check("429 Too Many Requests", Some(429), Trouble::Busy);
        check("Rate limit exceeded. Please retry in 20s.", Some(429), Trouble::Busy);
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn of_endless_output_the_beginning_is_stored() {
        let dir = tempfile::tempdir().unwrap();
        let launch = Launch {
            command: vec!["yes".to_owned(), "all work and no play".to_owned()],
            directory: dir.path().to_owned(),
            env: BTreeMap::new(),
            pass_env: vec!["PATH".to_owned()],
            hidden_env: Vec::new(),
            stdin: String::new(),
            deadline: Duration::from_secs(300),
            turns: 1,
            agent: skill_agents::agent("claude-code").unwrap().unwrap(),
        };
        let launched = ProgramLauncher::default().launch(&launch).await.unwrap();
        assert_eq!(launched.ended, Ended::TooMuch);
        assert_eq!(launched.stdout.len(), STORED_BYTES_OF_ENDLESS);
    }
}
