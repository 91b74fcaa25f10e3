//! How commands that start agents end early.

use crate::command::CommandError;
use crate::exit_code;
use skill_agents::gate::least_queries;
use skill_agents::measure::{Stop, StoreError};
use skillrl::reports::words::dollars;

/// What to do about runs that failed.
const LOOK: &str = "look at stream.jsonl and stderr.txt of these runs; the same command retries them";

/// A directory that cannot be used.
pub(crate) fn of_store(error: &StoreError) -> CommandError {
    let (code, hint) = match error {
        StoreError::OtherSettings { .. } => {
            (exit_code::OTHER_RUN, "use the same settings, or another directory with --dir")
        }
        StoreError::InUse { .. } => {
            (exit_code::RUN_DIR, "wait until it has ended, or name another directory with --dir")
        }
        StoreError::Damaged { .. } => {
            (exit_code::RUN_DIR, "remove the folder of this run: the same command repeats it")
        }
        // A file that cannot be written or read.
        _ => (exit_code::RUN_DIR, "name another directory with --dir"),
    };
    CommandError::of(error).with_hint(hint).with_code(code)
}

/// A measurement in which every run failed; `said` is the message of one of them.
pub(crate) fn without_a_run(said: &str) -> CommandError {
    CommandError::new(format!("no run counted: {said}")).with_hint(LOOK).with_code(exit_code::OUTAGE)
}

/// A measurement that ended early; the text says why and what to do.
pub(crate) fn of(stop: &Stop) -> CommandError {
    let (message, hint, code) = match stop {
        Stop::Calls(n) => (
            format!("the cap of {n} starts is reached"),
            "raise --calls to measure the remaining runs",
            exit_code::BUDGET,
        ),
        Stop::Budget(spent) => (
            format!("the budget is reached after {}", dollars(*spent)),
            "raise --budget to measure the remaining runs",
            exit_code::BUDGET,
        ),
        Stop::NoCost => (
            "the agent does not report what it costs, so --budget cannot be kept".to_owned(),
            "name its prices with --price IN,OUT, or cap its starts with --calls",
            exit_code::USAGE,
        ),
        Stop::NoRoom { skill, n_wrong, n_measured, n_to_add } => {
            let message = format!(
                "{skill}: {n_wrong} of {n_measured} held-out queries come out wrong now, and a description is accepted only \
                 if it puts at least {} right: nothing was proposed",
                least_queries()
            );
            let hint = format!("add about {n_to_add} queries like those that come out wrong");
            return CommandError::new(message).with_hint(hint).with_code(exit_code::USAGE);
        }
        Stop::NotStarted(what) => {
            (what.clone(), "install the agent, or name its program with --program", exit_code::USAGE)
        }
        Stop::Refused(what) => (
            format!("the agent's account refuses: {what}"),
            "sign in with the agent's own program, then run the same command again",
            exit_code::PROVIDER_REFUSED,
        ),
        Stop::Limited(what) => (
            format!("the agent's account has reached a limit: {what}"),
            "run the same command when it is over, or add --wait: nothing that was measured is run again",
            exit_code::PROVIDER_REFUSED,
        ),
        Stop::Busy(what) => (
            format!("the model's server takes no more requests at the moment: {what}"),
            "run the same command again, with a lower --concurrency or with --wait",
            exit_code::OUTAGE,
        ),
        Stop::KeepsFailing(what) => {
            (format!("the agent failed three times in a row: {what}"), LOOK, exit_code::OUTAGE)
        }
        Stop::Stopped => {
            ("stopped".to_owned(), "run the same command again for the remaining runs", exit_code::STOPPED)
        }
        Stop::Estimated => (
            "only the first run was made".to_owned(),
            "without --estimate the others follow",
            exit_code::SUCCESS,
        ),
    };
    CommandError::new(message).with_hint(hint).with_code(code)
}
