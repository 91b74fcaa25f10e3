//! `skillrl diff`: what changed between two skills of a run.

use super::CommandError;
use crate::args::DiffArgs;
use crate::skill_diff::skill_diff;
use crate::table::harmless;
use skillrl::core::{SkillOrigin, StepIdx};
use skillrl::pipeline::RunReader;
use skillrl::pipeline::kind::trains_bank;

/// How a skill that a step tried is named.
const CANDIDATE: &str = "candidate-";

pub(crate) fn run(args: &DiffArgs) -> crate::Result {
    if trains_bank(&args.run) {
        return crate::bank_run::diff(args);
    }
    let run = RunReader::open(&args.run)?;
    let (from, from_name) = skill(&run, &args.from)?;
    let (to, to_name) = skill(&run, &args.to)?;
    let diff = skill_diff(&harmless(&from), &harmless(&to), (&from_name, &to_name));
    if diff.is_empty() {
        return super::print(&format!("{from_name} and {to_name} are the same skill\n"));
    }
    super::print(&diff)
}

/// A skill of the run by its name on the command line: its text, and what to call it.
fn skill(run: &RunReader, name: &str) -> crate::Result<(String, String)> {
    let last = run.state()?.map_or((StepIdx(0), SkillOrigin::Initial), |state| {
        (state.last_completed_step, state.best_skill.origin)
    });
    let (last, best) = last;
    let no_step = |number: &str| {
        let message = format!("`{number}` is not a finished step of {}", run.path().display());
        CommandError::new(message).with_hint(format!(
            "the steps are 0 (the initial skill) to {last}; `best` is step {}",
            best.step()
        ))
    };
    let number =
        |text: &str| text.parse().ok().map(StepIdx).filter(|step| *step <= last).ok_or_else(|| no_step(text));
    if let Some(step) = name.strip_prefix(CANDIDATE) {
        let step = number(step)?;
        let candidate = run.candidate(step)?;
        let candidate = candidate.ok_or_else(|| {
            CommandError::new(format!("step {step} had no candidate"))
                .with_hint(format!("`skillrl show {} --step {step}` says why", run.path().display()))
        })?;
        return Ok((candidate.source_text().to_owned(), format!("candidate of step {step}")));
    }
    if name == "best" {
        // That of the run, also where the end of its epoch has made another one current after it.
        let skill = run.kept_best_skill()?;
        let maker = match best {
            SkillOrigin::Initial => "the first one".to_owned(),
            SkillOrigin::Step { .. }
            | SkillOrigin::EpochEnd { .. }
            | SkillOrigin::Import
            | SkillOrigin::Trial => {
                format!("of {best}")
            }
        };
        return Ok((skill.source_text().to_owned(), format!("best skill ({maker})")));
    }
    let step = number(name)?;
    let skill = run.skill_after(step)?;
    let shown =
        if step == StepIdx(0) { "initial skill".to_owned() } else { format!("skill after step {step}") };
    Ok((skill.source_text().to_owned(), shown))
}
