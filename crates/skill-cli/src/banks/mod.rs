//! Banks of skills: read, and described in words.

pub(crate) mod blame;
pub(crate) mod diff;
pub(crate) mod listed;

use crate::error::CommandError;
use crate::output::say;
use crate::table::harmless;
use skillrl::bank::format::{BankFormat, ReadBank};
use skillrl::bank::{Bank, Evidence, Skill, SkillRef, State, Tier, Utility};
use skillrl::config::nearest_name;
use skillrl::core::SkillPartId;
#[cfg(feature = "weights")]
use skillrl::error::MeasurementError;
use skillrl::reports::words::points;
use skillrl::skills::read_named_bank;
use std::path::Path;

/// Reads a bank, and says on standard error what a person should know about its file.
pub(crate) fn read(path: &Path) -> crate::Result<ReadBank> {
    let read = read_named_bank(path)?;
    for note in &read.notes {
        say(&format!("note: {}", harmless(&note.to_string())));
    }
    Ok(read)
}

/// A skill of the bank by its id.
pub(crate) fn skill<'bank>(bank: &'bank Bank, path: &Path, id: &str) -> Result<&'bank Skill, CommandError> {
    bank.skill(&SkillPartId::new(id)).ok_or_else(|| unknown_skill(bank, path, id))
}

pub(crate) fn unknown_skill(bank: &Bank, path: &Path, id: &str) -> CommandError {
    let error = CommandError::new(format!("{} has no skill `{}`", path.display(), harmless(id)));
    let ids = bank.skills().map(|skill| skill.id.as_str());
    let hint = match nearest_name(id, ids) {
        Some(nearest) => format!("did you mean `{}`?", harmless(nearest)),
        None => format!("`skillrl bank show {}` lists the skills", path.display()),
    };
    error.with_hint(hint)
}

/// A skill with the number of a version, if the text names one, as in `gen_003@1`.
pub(crate) fn skill_and_version<'bank>(
    bank: &'bank Bank,
    path: &Path,
    text: &str,
) -> Result<(&'bank Skill, Option<u32>), CommandError> {
    if let Some(skill) = bank.skill(&SkillPartId::new(text)) {
        return Ok((skill, None));
    }
    let named = text.rsplit_once('@').and_then(|(id, number)| Some((id, number.parse::<u32>().ok()?)));
    let Some((id, number)) = named else { return Err(unknown_skill(bank, path, text)) };
    let skill = skill(bank, path, id)?;
    if skill.version(number).is_none() {
        let n_versions = skill.versions.len();
        let has = match n_versions {
            1 => "1 version".to_owned(),
            n_versions => format!("versions 1 to {n_versions}"),
        };
        let message = format!("`{}` has no version {number}", harmless(id));
        return Err(CommandError::new(message).with_hint(format!("it has {has}")));
    }
    Ok((skill, Some(number)))
}

/// A tier for people.
pub(crate) fn tier_name(tier: &Tier) -> String {
    match tier {
        Tier::TaskType(task_type) => format!("type {}", harmless(task_type).replace(['\n', '\t'], " ")),
        other => other.to_string(),
    }
}

/// The state of a skill, and whether it is pinned.
pub(crate) fn state_name(skill: &Skill) -> String {
    let state = skill.state().as_str();
    if skill.is_pinned { format!("{state}, pinned") } else { state.to_owned() }
}

/// The worth of a version.
pub(crate) fn utility_name(utility: Option<&Utility>) -> String {
    utility.map_or_else(
        || "not measured".to_owned(),
        |utility| {
            let [low, high] = utility.interval.map(|bound| 100.0 * bound);
            format!("{} ({low:+.1} to {high:+.1})", points(utility.difference))
        },
    )
}

/// The same with the rollouts that it was measured on.
pub(crate) fn measurement(utility: &Utility) -> String {
    let ([with_won, with], [without_won, without]) = (utility.with, utility.without);
    format!(
        "{}, won {with_won} of {with} with it and {without_won} of {without} without it",
        utility_name(Some(utility))
    )
}

/// A title in one line.
pub(crate) fn one_line(text: &str) -> String {
    harmless(text).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A title in one line, cut where it is much longer than titles are.
pub(crate) fn title_line(text: &str) -> String {
    const MAX_TITLE: usize = 100;
    let line = one_line(text);
    match line.char_indices().nth(MAX_TITLE) {
        Some((end, _)) => format!("{}…", line.get(..end).unwrap_or_default().trim_end()),
        None => line,
    }
}

/// Names in one line.
pub(crate) fn names<'a>(ids: impl IntoIterator<Item = &'a SkillRef>) -> String {
    ids.into_iter().map(|id| harmless(&id.to_string())).collect::<Vec<_>>().join(", ")
}

/// What a version was made from, in a few words.
pub(crate) fn evidence_name(evidence: &Evidence) -> String {
    let mut parts = Vec::new();
    for (count, noun) in [(evidence.items.len(), "task"), (evidence.trajectories.len(), "trajectory")] {
        match (count, noun) {
            (0, _) => {}
            (1, noun) => parts.push(format!("1 {noun}")),
            (count, "trajectory") => parts.push(format!("{count} trajectories")),
            (count, noun) => parts.push(format!("{count} {noun}s")),
        }
    }
    parts.join(", ")
}

/// Whether agents are shown nothing of the skill now.
pub(crate) fn is_out_of_use(skill: &Skill) -> bool {
    skill.state() == State::Retired
}

/// A format for people.
pub(crate) fn format_name(format: BankFormat) -> &'static str {
    match format {
        BankFormat::Paper => "a bank of the SkillRL paper",
        BankFormat::Krill => "a bank of krill",
        BankFormat::Log => "a bank",
    }
}

/// Refuses a bank that cannot be read, and warns of one without an active skill.
#[cfg(feature = "weights")]
pub(crate) fn check_named(path: &Path) -> crate::Result {
    match skillrl::skills::read_shown_bank(path) {
        Err(skillrl::Error::Measurement(nothing @ MeasurementError::NoActiveSkill { .. })) => {
            say(&format!("warning: {}", harmless(&nothing.to_string())));
            Ok(())
        }
        outcome => Ok(outcome.map(drop)?),
    }
}
