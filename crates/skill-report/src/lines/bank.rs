//! The events of a bank's training in words.

use super::{EventLine, Tone};
use crate::words::{
    counted, difference, e_value, grouped, one_line, p_value, percent, validation, whole_points,
};
use skill_bank::trial::{Preflight, PreflightRow};
use skill_bank::{Reason, TrialVerdict};
use skill_pipeline::event::{Event, NamedSkill};
use skill_pipeline::records::bank::{RoundRecord, TrialRecord};
use std::fmt::Write as _;

/// The line for a trial.
pub fn trial_line(round: u32, record: &TrialRecord) -> String {
    let TrialRecord { trial, skill, title, tier, rollouts, decision, problem, .. } = record;
    let of = if record.is_retirement { "retirement of " } else { "" };
    let head = match trial {
        0 => format!("round {round}, no trial: {of}{skill} \"{title}\" ({tier})"),
        trial => format!("round {round}, trial {trial}: {of}{skill} \"{title}\" ({tier})"),
    };
    let Some(decision) = decision else {
        let problem = problem.as_deref().unwrap_or("no task shows it");
        return format!("{head}: undecided, {problem}; {}", counted(*rollouts, "rollout"));
    };
    let verdict = verdict_words(decision.verdict, record.is_retirement);
    // A person may have come in between.
    let verdict = match problem {
        Some(problem) => format!("would be {verdict}, but {problem}"),
        None => verdict.to_owned(),
    };
    let before = match record.e_before {
        Some(before) => format!(" ({} with earlier trials)", e_value(before * decision.numbers.e_better)),
        None => String::new(),
    };
    let fresh = match &record.fresh {
        Some(fresh) => format!("; re-evaluated {} points", whole_points(fresh.difference)),
        None => String::new(),
    };
    format!(
        "{head}: {verdict}, {}, e {}{before}, {}, {}{fresh}",
        difference(&decision.numbers),
        e_value(decision.numbers.e_better),
        p_value(decision.numbers.p_better),
        counted(*rollouts, "rollout"),
    )
}

/// The line for a round.
pub fn round_line(record: &RoundRecord) -> String {
    let mut line = match record.round {
        0 if record.n_episodes > 0 => {
            format!("recorded: {} in place of skills", counted(record.proposed.len() as u64, "episode"))
        }
        0 => format!("distilled: {} proposed", counted(record.proposed.len() as u64, "skill")),
        round if record.weak.is_empty() => {
            format!("round {round}: no task type is clearly below the threshold")
        }
        round => format!(
            "round {round}: weak {}; {} proposed",
            record.weak.join(", "),
            counted(record.proposed.len() as u64, "change")
        ),
    };
    let _ = write!(
        line,
        ", {} admitted, {} retired, {} waiting, {} active",
        record.admitted.len(),
        record.retired.len(),
        record.waiting.len(),
        record.n_active
    );
    if !record.left_out.is_empty() {
        let _ = write!(line, "; {} of the teacher's were left out", record.left_out.len());
    }
    if let Some(validation) = &record.validation {
        let _ = write!(line, "; validation {}", percent(validation.score.hard));
    }
    line
}

/// A finished trial on half a terminal's width; the title, which may be cut, is at the end.
pub(crate) fn short_trial_line(record: &TrialRecord) -> String {
    let decided = record.decision.as_ref();
    let verdict =
        decided.map_or("not decided", |decision| verdict_words(decision.verdict, record.is_retirement));
    let known = match decided {
        Some(decision) => {
            format!("{}, e {}", difference(&decision.numbers), e_value(decision.numbers.e_better))
        }
        None => record.problem.clone().unwrap_or_default(),
    };
    let rollouts = counted(record.rollouts, "rollout");
    one_line(&format!(
        "  {:>3} {} {verdict}, {known}, {rollouts}  {}",
        record.trial, record.skill, record.title
    ))
}

/// What became of a skill by its trial.
fn verdict_words(verdict: TrialVerdict, is_retirement: bool) -> &'static str {
    match verdict {
        TrialVerdict::Admit if is_retirement => "kept",
        TrialVerdict::Admit => "admitted",
        TrialVerdict::Reject if is_retirement => "retired",
        TrialVerdict::Reject => "rejected",
        TrialVerdict::Undecided => "undecided",
    }
}

/// The line of an event of a bank's training alone.
pub(super) fn line(event: &Event) -> Option<EventLine> {
    let line = match event {
        Event::RoundStarted { round, n_active, n_waiting, .. } => {
            let what = if *round == 0 { "begins with the distillation" } else { "begins" };
            let active = counted(*n_active as u64, "skill");
            EventLine::detail(format!("round {round}: {what}: {active} active, {n_waiting} waiting"))
        }
        Event::SkillsProposed { round, skills, n_left_out, weak, .. } => {
            let weak = if weak.is_empty() { String::new() } else { format!(" for {}", weak.join(", ")) };
            let left_out = match n_left_out {
                0 => String::new(),
                n => format!(", {n} left out"),
            };
            let proposed = counted(skills.len() as u64, "skill");
            EventLine::new(format!("round {round}: the teacher proposed {proposed}{weak}{left_out}"))
        }
        Event::TrialStarted {
            round,
            trial,
            skill,
            title,
            tier,
            is_retirement,
            n_items,
            max_rollouts,
            preflight,
            ..
        } => {
            let what = if *is_retirement { "retirement of " } else { "" };
            EventLine::new(format!(
                "round {round}, trial {trial} of {what}{skill} \"{title}\" ({tier}): {}, up to {} rollouts; {}",
                counted(*n_items as u64, "task"),
                grouped(*max_rollouts),
                power(preflight)
            ))
        }
        // A pass of many is told by those who show the trial.
        Event::TrialMeasured { round, trial, rollouts, max_rollouts, is_look: true, numbers, .. } => {
            EventLine::detail(format!(
                "round {round}, trial {trial}: {rollouts} of {max_rollouts} rollouts, {}, e {}, {}",
                difference(numbers),
                e_value(numbers.e_better),
                p_value(numbers.p_better)
            ))
        }
        Event::FreshStarted { round, trial, skill, n_rollouts } => EventLine::detail(format!(
            "round {round}, trial {trial}: {skill} is measured once more, on {n_rollouts} rollouts"
        )),
        Event::SkillAdmitted { round, skill, how, n_active, .. } => {
            let NamedSkill { skill, title, tier } = skill;
            let text = format!(
                "round {round}: {skill} \"{title}\" ({tier}) is active ({}), {n_active} in all",
                how.as_str()
            );
            EventLine { tone: Tone::Good, ..EventLine::detail(text) }
        }
        Event::SkillRetired { round, skill, reason, n_active, .. } => {
            let NamedSkill { skill, title, tier } = skill;
            let why = match reason {
                Reason::Trial => "its trial decided against it",
                Reason::Proposed => "the teacher proposed to retire it",
                Reason::Harmful => "the standing check showed that it harms",
                Reason::Internalized => "the policy succeeds as often without it",
                Reason::OverCap => "its tier held too many skills",
                Reason::Revised => "a later version took its place",
                Reason::Merged => "it was merged into another skill",
                Reason::Person => "a person retired it",
            };
            let text =
                format!("round {round}: {skill} \"{title}\" ({tier}) retired, {why}; {n_active} active");
            // The end of a trial says what it came to.
            let is_detail = matches!(reason, Reason::Trial | Reason::Proposed);
            EventLine { tone: Tone::Bad, is_detail, ..EventLine::new(text) }
        }
        Event::StandingChecked { round, skills } => EventLine::detail(format!(
            "round {round}: the standing check has numbers of {}",
            counted(skills.len() as u64, "skill")
        )),
        Event::BankValidated { round, score, n_items, .. } => {
            EventLine::detail(format!("round {round}: validation {}", validation(None, *score, *n_items)))
        }
        Event::TrialFinished { round, record } => {
            let verdict = record.decision.as_ref().map(|decision| decision.verdict);
            let is_admitted = verdict == Some(TrialVerdict::Admit) && !record.is_retirement;
            let tone = if is_admitted { Tone::Good } else { Tone::Plain };
            EventLine { tone, ..EventLine::new(trial_line(*round, record)) }
        }
        Event::RoundFinished { record } => EventLine::new(round_line(record)),
        _ => return None,
    };
    Some(EventLine { text: one_line(&line.text), ..line })
}

/// What a trial can show, such as `a skill worth +5, +10, +20 points is admitted with 2, 8, 48 % probability`.
fn power(preflight: &Preflight) -> String {
    let list = |of: fn(&PreflightRow) -> String| preflight.rows.iter().map(of).collect::<Vec<_>>().join(", ");
    format!(
        "a skill worth {} points is admitted with {} % probability",
        list(|row| whole_points(row.difference)),
        list(|row| format!("{:.0}", row.chance * 100.0))
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn line(verdict: &str, change: Value) -> String {
        let mut record = json!({
            "trial": 3,
            "skill": "gen_001",
            "title": "Look",
            "tier": "general",
            "items": [],
            "rollouts": 16,
            "decision": {
                "verdict": verdict,
                "ground": "limit",
                "n_groups": 4,
                "numbers": {
                    "groups": 4, "informative_groups": 2, "with": [4, 8], "without": [2, 8],
                    "p_better": 0.1, "p_worse": 0.9, "e_better": 3.0, "e_worse": 0.5,
                    "difference": 0.25, "interval": [-0.1, 0.6], "odds": 3.0, "odds_interval": {"low": 0.5, "high": 9.0},
                },
            },
        });
        record.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        trial_line(1, &serde_json::from_value(record).unwrap())
    }

    #[test]
    fn a_trial_names_what_becomes_of_its_skill() {
        let retirement = json!({"is_retirement": true});
        for (verdict, change, expect) in [
            ("admit", json!({}), ": admitted,"),
            ("reject", json!({}), ": rejected,"),
            ("undecided", json!({}), ": undecided,"),
            ("admit", retirement.clone(), ": kept,"),
            ("reject", retirement.clone(), ": retired,"),
            ("undecided", retirement, ": undecided,"),
            ("admit", json!({"e_before": 7.0}), "e 3.00 (21 with earlier trials)"),
            ("reject", json!({"problem": "it is pinned"}), "would be rejected, but it is pinned"),
            ("admit", json!({"decision": null, "trial": 0, "problem": "no task"}), "no trial: gen_001"),
        ] {
            let line = line(verdict, change);
            assert!(line.contains(expect), "{expect}: {line}");
        }
    }
}
