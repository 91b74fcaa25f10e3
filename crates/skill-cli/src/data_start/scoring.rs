//! Data for which a right reply could not score: a question with the option that settles it.

use crate::args::Start;
use crate::consent::asked;
use crate::error::CommandError;
use crate::output::say;
use crate::runtime::block_on_unwarned;
use crate::table::harmless;
use skillrl::config::Config;
use skillrl::doctor::answer_finding;
use skillrl::engine::Engine;
use skillrl::envs::answerable::AnswerFinding;
use skillrl::{skills, world};

/// Asks whether to go on although right replies would not score.
///
/// # Errors
///
/// Nobody can be asked, or nobody agreed.
pub(super) fn agree(text: &str, start: &Start, quiet: bool) -> crate::Result {
    let loaded = Config::parse(text, "the options", &[])?;
    // What is wrong with the data is said by the command that reads it next.
    let reading = async {
        let judge = Engine::without_keys(&loaded).judge().ok()?;
        let Ok(env) = world::environment_to_measure(&loaded, judge.clone(), None) else {
            let env = world::environment_to_check(&loaded, judge).ok()?;
            return Some(Err(env.faults().iter().map(ToString::to_string).collect::<Vec<_>>()));
        };
        let skill = skills::first_skill(&loaded.config.skill, env.as_ref()).ok()?.unwrap_or_default();
        Some(Ok(env.answerable(&skill)))
    };
    let is_chosen = start.overrides.iter().any(|set| set.starts_with("env.scorer"));
    let findings = match block_on_unwarned(reading)? {
        // A scorer that was set explicitly is the user's decision.
        Some(Ok(mut findings)) => {
            findings
                .retain(|finding| !is_chosen || !matches!(finding, AnswerFinding::ReferencesProse { .. }));
            findings
        }
        Some(Err(faults)) => return unscored(&faults),
        None => Vec::new(),
    };
    let Some(first) = findings.first() else { return Ok(()) };
    let messages: Vec<String> =
        findings.iter().map(|finding| harmless(&answer_finding(finding).message)).collect();
    if start.agrees {
        if !quiet {
            messages.iter().for_each(|message| say(&format!("warning: {message}")));
        }
        return Ok(());
    }
    let message = messages.join("; ");
    let hint = format!("{}; `--yes` goes on all the same", option_for(first));
    if asked(&format!("{message}.\n{hint}.\nGo on? [y/N]"))? == Some(true) {
        return Ok(());
    }
    Err(CommandError::of_data(format!("{message}; nothing was sent")).with_hint(hint).into())
}

/// Refuses right answers that the scorer cannot read.
fn unscored(faults: &[String]) -> crate::Result {
    let Some(first) = faults.first() else { return Ok(()) };
    let message = match faults.len() {
        1 => harmless(first),
        n => format!("{n} right answers cannot be scored, such as: {}", harmless(first)),
    };
    let hint = "`--set env.scorer=em_f1` compares words and `--set env.scorer=exact` the whole text; or correct them";
    Err(CommandError::of_data(message).with_hint(hint).into())
}

/// The option that settles a finding.
fn option_for(finding: &AnswerFinding) -> String {
    let prompt = "`--set env.user_prompt='..'`";
    match finding {
        AnswerFinding::ReferenceRejected { .. } => {
            "correct these answers, or have a judge grade by `--rubric TEXT`".to_owned()
        }
        AnswerFinding::ChoicesHidden { .. } => format!("show them: {prompt} with `{{{{ choice_list }}}}`"),
        AnswerFinding::ClassesUnnamed { .. } => format!("list them in {prompt}"),
        AnswerFinding::ReferencesProse { .. } => "have a judge grade them by `--rubric TEXT`".to_owned(),
        AnswerFinding::FormUnnamed { .. } => format!("name them in {prompt}"),
        AnswerFinding::AnswerAloneUnstated { .. } => {
            format!("request it in {prompt}, or accept sentences with `--set env.scorer=contains`")
        }
    }
}
