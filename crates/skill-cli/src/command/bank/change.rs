//! `skillrl bank pin`, `unpin`, `retire` and `restore`: what a person decides about skills.

use crate::args::bank::BankSkillsArgs;
use crate::banks::{self, is_out_of_use, skill_and_version, title_line};
use crate::error::CommandError;
use crate::table::harmless;
use skillrl::bank::{Author, Bank, BankEvent, Reason, Skill, SkillRef, State, Version};
use skillrl::pipeline::bank_dir::BankDir;
use std::path::Path;

/// What a person does with skills.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    /// Keeps them as they are.
    Pin,
    /// Lets runs change them again.
    Unpin,
    /// Takes them out of use.
    Retire,
    /// Puts them back into use.
    Restore,
}

/// An event, and the sentence that says what it does.
type Change = (BankEvent, String);

pub(super) fn run(args: &BankSkillsArgs, action: Action) -> crate::Result {
    let path = &args.bank;
    check_is_dir(path, action)?;
    banks::read(path)?;
    let mut dir = BankDir::open(path)?;
    let round = dir.bank().round();
    // Each change is checked against what those before it make of the bank.
    let mut bank = dir.bank().clone();
    let (mut events, mut said) = (Vec::new(), String::new());
    for id in &args.ids {
        let (event, sentence) = change(&bank, path, id, action)?;
        let refused = |source| skillrl::pipeline::PipelineError::Bank { path: path.clone(), source };
        bank.record(round, Author::Person, event.clone()).map_err(refused)?;
        events.push(event);
        said.push_str(&(sentence + "\n"));
    }
    dir.record(round, Author::Person, events)?;
    crate::output::print_wrapped(&said)
}

/// A bank that is a file has no place for what people decide.
fn check_is_dir(path: &Path, action: Action) -> Result<(), CommandError> {
    if !path.is_file() {
        return Ok(());
    }
    let verb = match action {
        Action::Pin => "pinned",
        Action::Unpin => "unpinned",
        Action::Retire => "retired",
        Action::Restore => "restored",
    };
    let message = format!("{} is a file, in which no skill can be {verb}", path.display());
    let hint = format!("`skillrl bank import {} --out DIR` makes a bank of it", path.display());
    Err(CommandError::new(message).with_hint(hint))
}

fn change(bank: &Bank, path: &Path, text: &str, action: Action) -> Result<Change, CommandError> {
    let (skill, number) = skill_and_version(bank, path, text)?;
    match action {
        Action::Pin | Action::Unpin if number.is_some() => {
            let message = format!("`{}` is a version; a skill is pinned as a whole", harmless(text));
            Err(CommandError::new(message).with_hint(format!("name it as `{}`", harmless(skill.id.as_str()))))
        }
        Action::Pin if skill.is_pinned => Err(already(skill, "pinned")),
        Action::Pin => Ok((BankEvent::Pinned { skill: skill.id.clone() }, sentence("pinned", skill, None))),
        Action::Unpin if !skill.is_pinned => Err(CommandError::new(format!(
            "`{}` is not pinned, so it cannot be unpinned",
            harmless(skill.id.as_str())
        ))),
        Action::Unpin => {
            Ok((BankEvent::Unpinned { skill: skill.id.clone() }, sentence("unpinned", skill, None)))
        }
        Action::Retire => retire(skill, number),
        Action::Restore => restore(skill, number),
    }
}

fn retire(skill: &Skill, number: Option<u32>) -> Result<Change, CommandError> {
    let version = number.map_or_else(|| skill.current(), |number| skill.version(number));
    let Some(version) = version.filter(|version| version.state != State::Retired) else {
        return Err(already(skill, "retired"));
    };
    let retired = SkillRef::new(skill.id.clone(), version.number);
    let event = BankEvent::Retired { skill: retired, reason: Reason::Person };
    Ok((event, sentence("retired", skill, Some(version))))
}

fn restore(skill: &Skill, number: Option<u32>) -> Result<Change, CommandError> {
    let name = harmless(skill.id.as_str());
    let version = match number {
        Some(number) => skill.version(number),
        None if is_out_of_use(skill) => last_in_use(skill),
        None => None,
    };
    let Some(version) = version.filter(|version| version.state == State::Retired) else {
        let state = match number.and_then(|number| skill.version(number)) {
            Some(version) => format!("version {} of `{name}` is {}", version.number, in_words(version.state)),
            None => format!("`{name}` is {}", in_words(skill.state())),
        };
        let error = CommandError::new(format!("{state}, and only what is retired can be restored"));
        let retired: Vec<String> = skill
            .versions
            .iter()
            .filter(|version| version.state == State::Retired)
            .map(|version| format!("{name}@{}", version.number))
            .collect();
        return Err(if retired.is_empty() {
            error
        } else {
            error.with_hint(format!("retired versions are {}", retired.join(", ")))
        });
    };
    let restored = SkillRef::new(skill.id.clone(), version.number);
    let mut said = sentence("restored", skill, Some(version));
    if let Some(active) = skill.active() {
        said.push_str(&format!("; version {} is retired", active.number));
    }
    Ok((BankEvent::Restored { skill: restored }, said))
}

fn in_words(state: State) -> &'static str {
    match state {
        State::Candidate => "a candidate",
        State::Trial => "in a trial",
        State::Active | State::Retired => state.as_str(),
    }
}

/// The newest version that is retired.
fn last_in_use(skill: &Skill) -> Option<&Version> {
    skill.versions.iter().rev().find(|version| version.state == State::Retired)
}

fn already(skill: &Skill, state: &str) -> CommandError {
    CommandError::new(format!("`{}` is {state} already", harmless(skill.id.as_str())))
}

fn sentence(verb: &str, skill: &Skill, version: Option<&Version>) -> String {
    let shown = version.or_else(|| skill.current());
    let title = shown.map(|version| title_line(version.content.title())).unwrap_or_default();
    let id = harmless(skill.id.as_str());
    match version {
        Some(version) if skill.versions.len() > 1 => format!("{verb} {id}@{}: {title}", version.number),
        _ => format!("{verb} {id}: {title}"),
    }
}
