//! Errors in terms of this command's options: it has no configuration file whose keys a hint could name.

use crate::args::skill::EvalSkillArgs;
use crate::command::CommandError;
use crate::error::CliError;
use crate::exit_code;
use skillrl::envs::EnvError;
use skillrl::llm::{ErrorClass, LlmError};
use std::error::Error;

/// The error of a measurement, with the options that help against it.
pub(super) fn worded(args: &EvalSkillArgs, error: CliError) -> CliError {
    if error.code() == exit_code::BUDGET {
        return at_cap(args);
    }
    let CliError::Run(run) = &error else { return error };
    let hint = match (run.as_ref(), in_environment(run.as_ref())) {
        (skillrl::Error::Model { role: "judge", .. }, _) => {
            Some("set the variable, or name another grader with --judge".to_owned())
        }
        (_, Some(EnvError::Model(error))) => of_model(args, error),
        (_, Some(EnvError::Configuration { .. })) => {
            Some("fix what it names, or measure other --cases".to_owned())
        }
        (_, Some(EnvError::NoPoints { .. })) => {
            Some(format!("name another grader with --judge; {}", resumes(args)))
        }
        (_, Some(_) | None) => None,
    };
    match hint {
        Some(hint) => CommandError::of(run).with_code(error.code()).with_hint(hint).into(),
        None => error,
    }
}

/// The error of an environment among the causes.
fn in_environment(error: &skillrl::Error) -> Option<&EnvError> {
    let mut cause: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(found) = cause {
        if let Some(found) = found.downcast_ref::<EnvError>() {
            return Some(found);
        }
        cause = found.source();
    }
    None
}

fn of_model(args: &EvalSkillArgs, error: &LlmError) -> Option<String> {
    match error {
        LlmError::GaveUp { last, .. } => of_model(args, last),
        LlmError::Timeout { .. } => Some(format!("raise --timeout; {}", resumes(args))),
        LlmError::Program { class, .. } => match class {
            ErrorClass::Authentication => {
                Some("sign in with the program, or name the variable with its key with --pass-env".to_owned())
            }
            ErrorClass::Configuration => Some("install the program, or name it with --program".to_owned()),
            ErrorClass::RateLimited | ErrorClass::QuotaExhausted => {
                Some(format!("when the limit has reset, {}; --wait waits for that", resumes(args)))
            }
            _ => None,
        },
        _ => None,
    }
}

/// What the same command does later.
fn resumes(args: &EvalSkillArgs) -> &'static str {
    match args.measurement.out {
        Some(_) => "the same command resumes, and pays for nothing twice",
        None => "run the same command again: with --out DIR it would resume",
    }
}

/// A cap that is reached, by the options that set it.
fn at_cap(args: &EvalSkillArgs) -> CliError {
    let calls = args.calls.map(|cap| format!("--calls {cap}"));
    let money = args.budget.map(|cap| format!("--budget {cap}"));
    let caps: Vec<String> = calls.into_iter().chain(money).collect();
    CommandError::new(format!("the cap is reached: {}", caps.join(", ")))
        .with_code(exit_code::BUDGET)
        .with_hint("raise --calls or --budget, then run the same command again")
        .into()
}
