//! Which kind of run a command works on, so that a run of another kind is refused in its own words, and what a
//! measurement of a run without a document is of.

use crate::args::{EvalArgs, as_word};
use crate::error::CommandError;
use skillrl::pipeline::kind::RunKind;
use skillrl::pipeline::records::bank::BANK_DIR;
use skillrl::pipeline::records::phases::Phase;
use std::path::Path;

/// Runs that a command works on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Takes {
    /// Runs that train a document.
    Documents,
    /// These, and runs that train a bank.
    DocumentsAndBanks,
}

/// Refuses a run that has nothing for the command.
///
/// # Errors
///
/// A run of another kind; what is not a run is left to the command.
pub(crate) fn check(run: &Path, takes: Takes) -> Result<(), CommandError> {
    let shown = as_word(&run.display().to_string());
    let (trains, hint) = match (RunKind::of(run), takes) {
        (None | Some(RunKind::Document), _) | (Some(RunKind::Bank), Takes::DocumentsAndBanks) => {
            return Ok(());
        }
        (Some(RunKind::Bank), Takes::Documents) => (
            "a bank",
            format!(
                "`skillrl bank show {shown}/{BANK_DIR}` lists its skills, `skillrl bank export` writes them for others"
            ),
        ),
        (Some(RunKind::Sft | RunKind::Rl), _) => (
            "weights",
            format!("`skillrl show {shown}` shows what it came to, `skillrl report {shown}` its curves"),
        ),
        (Some(RunKind::Phases), _) => (
            "weights and a bank",
            format!(
                "`skillrl show {shown}` shows what it came to; its phases are the runs {shown}/sft and {shown}/rl"
            ),
        ),
    };
    let needed = match takes {
        Takes::Documents => "a run of a document is needed",
        Takes::DocumentsAndBanks => "a run of a document or of a bank is needed",
    };
    Err(CommandError::new(format!("{} trains {trains}, and {needed}", run.display())).with_hint(hint))
}

/// Has `skillrl eval RUN` measure what the run has trained, where nothing else is named: a bank, or a policy with its bank.
///
/// # Errors
///
/// Options that are for skills alone.
pub(crate) fn measure_result(args: &mut EvalArgs) -> Result<(), CommandError> {
    let is_named =
        args.skill.is_some() || args.bank.is_some() || args.policy.is_some() || args.targets.is_some();
    let Some(run) = args.config.start().file.filter(|_| !is_named) else { return Ok(()) };
    let dir = match RunKind::of(&run) {
        None | Some(RunKind::Document) => return Ok(()),
        Some(RunKind::Bank | RunKind::Sft | RunKind::Rl) => run.clone(),
        Some(RunKind::Phases) => Phase::Rl.dir(&run),
    };
    let existing = |name: &str| Some(dir.join(name)).filter(|path| path.is_dir());
    (args.policy, args.bank) = (existing("policy"), existing(BANK_DIR));
    let measured: Vec<String> =
        [&args.policy, &args.bank].into_iter().flatten().map(|path| path.display().to_string()).collect();
    if measured.is_empty() && RunKind::Phases.is_at(&run) {
        let message = format!("{} has not reached the phase that trains its policy", run.display());
        let hint = format!(
            "`skillrl train {}` goes on; what a phase before it has made is measured by name, as `--policy` or `--bank`",
            as_word(&run.display().to_string())
        );
        return Err(CommandError::new(message).with_hint(hint));
    }
    if measured.is_empty() {
        return Ok(());
    }
    if let (Some(_), true) = (&args.bank, args.min_score.is_some() || args.markdown) {
        let message =
            format!("{} trains a bank, and `--min-score` and `--markdown` are for skills", run.display());
        return Err(CommandError::new(message).with_hint("leave them out, or name a skill with `--skill`"));
    }
    if !args.quiet {
        crate::output::say(&format!("measured: {}", measured.join(" with ")));
    }
    Ok(())
}
