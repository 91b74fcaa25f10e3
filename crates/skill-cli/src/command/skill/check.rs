//! `skillrl skill check`: what agents will see of a skill.

use super::session::{check_names, skill_folders};
use crate::CliError;
use crate::args::skill::SkillCheckArgs;
use crate::command::{print, print_wrapped};
use crate::exit_code;
use serde_json::json;
use skill_agents::home::Moved;
use skill_agents::{Agent, Listed, NamedBy, SameName, Shown, Skill, agents, listed};
use skillrl::core::lint::{Finding, Form, Severity, lint};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// How the rules of an upload to Claude begin.
const UPLOAD_RULES: &str = "upload-";

/// What one agent sees.
struct Seen {
    agent: &'static Agent,
    rows: Vec<Listed>,
    beside_own: Vec<Listed>,
    notes: Vec<String>,
}

pub(crate) fn run(args: &SkillCheckArgs) -> crate::Result {
    let chosen: Vec<&'static Agent> = match &args.agent {
        Some(name) => vec![crate::coding_agent::named(name)?],
        None => agents()?.iter().collect(),
    };
    let (mut skills, mut findings) = (Vec::new(), Vec::new());
    for path in skill_folders(&args.dir)? {
        let folder = skillrl::export::folder_name(&path);
        let package = skillrl::envs::folder::read_folder(&path)?;
        let found = lint(&package, Form::Package { folder: Some(&folder) }, &[]);
        findings.extend(found.into_iter().map(|finding| (folder.clone(), as_installed(finding))));
        // What makes a skill unreadable is a finding, and no agent lists such a skill.
        skills.extend(Skill::new(folder, package));
    }
    let all: Vec<&Skill> = skills.iter().collect();
    let seen: Vec<Seen> = chosen.into_iter().map(|agent| seen(agent, &all)).collect();
    let has_errors = findings.iter().any(|(_, finding)| finding.severity == Severity::Error);
    let has_notes = seen.iter().any(|seen| check_names(seen.agent, &all).is_err());
    if args.json {
        let rows: Vec<_> = seen
            .iter()
            .map(|seen| {
                json!({"agent": seen.agent.name, "listed": seen.rows, "listed_beside_its_own": seen.beside_own,
                    "notes": seen.notes})
            })
            .collect();
        let findings: Vec<_> =
            findings.iter().map(|(folder, finding)| json!({"skill": folder, "finding": finding})).collect();
        print(&format!("{}\n", json!({"path": args.dir, "findings": findings, "agents": rows})))?;
    } else {
        print_wrapped(&described(&findings, &seen))?;
    }
    if !has_errors && !has_notes { Ok(()) } else { Err(CliError::Reported { code: exit_code::LINT }) }
}

/// A finding on a skill that agents read from a folder: what only an upload to Claude refuses is a warning.
fn as_installed(finding: Finding) -> Finding {
    match finding.rule.starts_with(UPLOAD_RULES) {
        true => Finding { severity: Severity::Warning, ..finding },
        false => finding,
    }
}

fn seen(agent: &'static Agent, skills: &[&Skill]) -> Seen {
    let mut notes = Vec::new();
    if let Err(error) = check_names(agent, skills) {
        notes.push(format!("error: {error}"));
    }
    let home = std::env::home_dir().unwrap_or_default();
    let moved = Moved::of(agent, |name| std::env::var_os(name).map(PathBuf::from));
    for skill in skills {
        if !skill.name.is_empty() && skill.name != skill.folder {
            let by = match agent.named_by {
                NamedBy::Folder => format!("its folder {:?}", skill.folder),
                NamedBy::FrontMatter => format!("`name` {:?}", skill.name),
            };
            notes.push(format!("lists the skill by {by}, and folder and `name` differ"));
        }
        if let Some(path) = user_copy(agent, &home, &moved, skill) {
            let which = match agent.same_name {
                SameName::User => "the user's wins over the project's",
                SameName::Project => "the project's wins over the user's",
                SameName::Both => "both are listed",
                SameName::Either => "which of both is listed changes from run to run",
            };
            notes.push(format!("{} has the same name: {which}", path.display()));
        }
    }
    let (rows, beside_own) = (listed(agent, skills, false), listed(agent, skills, true));
    Seen { agent, rows, beside_own, notes }
}

/// The user's skill of the same folder name, if there is one.
pub(super) fn user_copy(agent: &Agent, home: &Path, moved: &Moved, skill: &Skill) -> Option<PathBuf> {
    let places = agent.user_skills.iter().map(|folder| moved.place(home, folder).join(&skill.folder));
    places.into_iter().find(|path| path.join("SKILL.md").is_file())
}

fn described(findings: &[(String, Finding)], seen: &[Seen]) -> String {
    let mut text = String::new();
    for (folder, finding) in findings {
        let _ = writeln!(
            text,
            "{folder}/{}:{}: {} [{}] {}",
            finding.file,
            finding.line,
            finding.severity.as_str(),
            finding.rule,
            finding.message
        );
        let _ = writeln!(text, "  {}", finding.advice);
    }
    if !findings.is_empty() {
        text.push('\n');
    }
    for seen in seen {
        let _ = writeln!(text, "{} ({})", seen.agent.title, seen.agent.project_skills);
        for (row, beside) in seen.rows.iter().zip(&seen.beside_own) {
            let own = match (row.shown, beside.shown) {
                (one, other) if one == other => String::new(),
                (_, other) => format!("; beside the agent's own skills: {}", words(other)),
            };
            let is_whole = row.shown.is_whole() && beside.shown.is_whole();
            let mark = if is_whole { "" } else { "warning: " };
            let _ =
                writeln!(text, "  {mark}{}: {}, {} characters{own}", row.name, words(row.shown), row.chars);
        }
        for note in &seen.notes {
            let _ = writeln!(text, "  {note}");
        }
    }
    text
}

fn words(shown: Shown) -> String {
    match shown {
        Shown::Whole => "the whole description".to_owned(),
        Shown::Cut(n) => format!("the first {n} characters of the description"),
        Shown::NameOnly => "the name only".to_owned(),
        Shown::TooLong => "not listed, since the description is too long".to_owned(),
        Shown::ForPeople => "not listed, since the front matter forbids it".to_owned(),
    }
}
