//! `skillrl skill check`: what agents will see of a skill.

use super::session::{check_names, skill_folders};
use crate::CliError;
use crate::args::skill::SkillCheckArgs;
use crate::command::{CommandError, print, print_wrapped};
use crate::exit_code;
use crate::table::grouped;
use serde_json::json;
use skill_agents::home::Moved;
use skill_agents::{
    Agent, DescriptionVisibility, Listed, MEASURED_WINDOW, NamedBy, SameName, Skill, agents, listed,
};
use skillrl::core::lint::{Finding, Form, Severity, lint};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// How the rules of an upload to Claude begin.
const UPLOAD_RULES: &str = "upload-";

/// A skill, and where it is.
struct Found {
    /// Its folders, below the directory that is looked at: more than one where it was copied.
    places: Vec<PathBuf>,
    skill: Skill,
}

/// What one agent sees.
struct Seen {
    agent: &'static Agent,
    /// The context window of its model, in tokens.
    window: u64,
    /// A row for each skill; none for one in a place of other agents.
    rows: Vec<Option<Listed>>,
    beside_own: Vec<Option<Listed>>,
    notes: Vec<String>,
    has_clash: bool,
}

pub(crate) fn run(args: &SkillCheckArgs) -> crate::Result {
    let chosen: Vec<&'static Agent> = match &args.agent {
        Some(name) => vec![crate::coding_agent::named(name)?],
        None => agents()?.iter().collect(),
    };
    let (mut skills, mut findings) = (Vec::new(), Vec::new());
    for copies in skill_folders(&args.dir)? {
        let Some(path) = copies.first() else { continue };
        let folder = skillrl::export::folder_name(path);
        let package = skillrl::envs::folder::read_folder(path)?;
        let found = lint(&package, Form::Package { folder: Some(&folder) }, &[]);
        findings.extend(found.into_iter().map(|finding| (folder.clone(), as_installed(finding))));
        // What makes a skill unreadable is a finding, and no agent lists such a skill.
        let below = |path: &PathBuf| path.strip_prefix(&args.dir).unwrap_or(path).to_owned();
        let places = copies.iter().map(below).collect();
        skills.extend(Skill::new(folder, package).map(|skill| Found { places, skill }));
    }
    let windows = windows(args, &chosen)?;
    let known: Vec<&Agent> = agents()?.iter().collect();
    let seen: Vec<Seen> =
        chosen.into_iter().zip(windows).map(|(agent, window)| seen(agent, window, &skills, &known)).collect();
    let has_errors = findings.iter().any(|(_, finding)| finding.severity == Severity::Error);
    let has_clash = seen.iter().any(|seen| seen.has_clash);
    if args.json {
        let rows: Vec<_> = seen
            .iter()
            .map(|seen| {
                let rows = |rows: &[Option<Listed>]| rows.iter().flatten().cloned().collect::<Vec<_>>();
                json!({"agent": seen.agent.name, "context": seen.window, "listed": rows(&seen.rows),
                    "listed_beside_its_own": rows(&seen.beside_own), "notes": seen.notes})
            })
            .collect();
        let findings: Vec<_> =
            findings.iter().map(|(folder, finding)| json!({"skill": folder, "finding": finding})).collect();
        print(&format!("{}\n", json!({"path": args.dir, "findings": findings, "agents": rows})))?;
    } else {
        print_wrapped(&format!("{}{}", described(&findings), in_agents(&skills, &seen)))?;
    }
    if !has_errors && !has_clash { Ok(()) } else { Err(CliError::Reported { code: exit_code::LINT }) }
}

/// The context window of the model of each agent, in tokens.
fn windows(args: &SkillCheckArgs, agents: &[&'static Agent]) -> Result<Vec<u64>, CommandError> {
    if let Some(window) = args.context {
        return Ok(vec![window; agents.len()]);
    }
    let model = args.model.as_deref();
    let found: Vec<Option<u64>> = agents.iter().map(|agent| agent.window(model)).collect();
    if let Some(model) = model.filter(|_| found.iter().all(Option::is_none)) {
        let known: Vec<&str> =
            agents.iter().flat_map(|agent| &agent.windows).map(|(part, _)| part.as_str()).collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        return Err(CommandError::new(format!(
            "the context window of the model {model:?} is not known; known are names with {known}"
        ))
        .with_hint("give it in tokens with --context"));
    }
    // The others run their usual models.
    Ok(agents
        .iter()
        .zip(found)
        .map(|(agent, window)| window.or(agent.window(None)).unwrap_or(MEASURED_WINDOW))
        .collect())
}

/// A finding on a skill that agents read from a folder: what only an upload to Claude refuses is a warning.
fn as_installed(finding: Finding) -> Finding {
    match finding.rule.starts_with(UPLOAD_RULES) {
        true => Finding { severity: Severity::Warning, ..finding },
        false => finding,
    }
}

fn seen(agent: &'static Agent, window: u64, all: &[Found], known: &[&Agent]) -> Seen {
    let mut notes = Vec::new();
    let is_read = |found: &Found| {
        let mut folders = found.places.iter().map(|place| place.parent().unwrap_or(place));
        folders.any(|folder| agent.reads_skills_in(folder, known))
    };
    let skills: Vec<&Skill> = all.iter().filter(|found| is_read(found)).map(|found| &found.skill).collect();
    let clash = check_names(agent, &skills).err();
    notes.extend(clash.iter().map(|error| format!("error: {error}")));
    let home = std::env::home_dir().unwrap_or_default();
    let moved = Moved::of(agent, |name| std::env::var_os(name).map(PathBuf::from));
    for skill in &skills {
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
    let of_all = |rows: Vec<Listed>| -> Vec<Option<Listed>> {
        let mut rows = rows.into_iter();
        all.iter().map(|found| if is_read(found) { rows.next() } else { None }).collect()
    };
    let rows = of_all(listed(agent, &skills, false, window));
    let beside_own = of_all(listed(agent, &skills, true, window));
    Seen { agent, window, rows, beside_own, notes, has_clash: clash.is_some() }
}

/// The user's skill of the same folder name, if there is one.
pub(super) fn user_copy(agent: &Agent, home: &Path, moved: &Moved, skill: &Skill) -> Option<PathBuf> {
    let places = agent.user_skills.iter().map(|folder| moved.place(home, folder).join(&skill.folder));
    places.into_iter().find(|path| path.join("SKILL.md").is_file())
}

fn described(findings: &[(String, Finding)]) -> String {
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
    text
}

/// A row for each skill with what most agents list of it; agents only where they list something else.
fn in_agents(skills: &[Found], seen: &[Seen]) -> String {
    let mut text = String::new();
    for (idx, Found { places, skill }) in skills.iter().enumerate() {
        let of_agents: Vec<(String, Vec<&Seen>)> =
            seen.iter().filter_map(|seen| Some((listing(seen, idx)?, seen))).fold(Vec::new(), with);
        let most = of_agents.iter().map(|(_, agents)| agents.len()).max().unwrap_or(0);
        let Some(usual) = of_agents.iter().find(|(_, agents)| agents.len() == most) else { continue };
        let is_twice = skills.iter().filter(|other| other.skill.folder == skill.folder).count() > 1;
        let place = places.first().filter(|_| is_twice);
        let name = place.map_or_else(|| skill.folder.clone(), |place| place.display().to_string());
        let _ = writeln!(text, "{name}: {}{}", mark(&usual.1, idx), usual.0);
        for (what, agents) in of_agents.iter().filter(|(what, _)| *what != usual.0) {
            let _ = writeln!(text, "  {}{}: {what}", mark(agents, idx), titles(agents));
        }
    }
    let notes: Vec<(String, Vec<&Seen>)> = {
        let all = seen.iter().flat_map(|seen| seen.notes.iter().map(move |note| (note.clone(), seen)));
        all.fold(Vec::new(), with)
    };
    if !notes.is_empty() {
        text.push('\n');
    }
    for (note, agents) in notes {
        let _ = writeln!(text, "{}: {note}", titles(&agents));
    }
    text
}

/// What an agent lists of a skill, in words; `None` for a skill that it does not find.
fn listing(seen: &Seen, idx: usize) -> Option<String> {
    let (row, beside) = (seen.rows.get(idx)?.as_ref()?, seen.beside_own.get(idx)?.as_ref()?);
    let own = match (row.shown, beside.shown) {
        (one, other) if one == other => String::new(),
        (_, other) => format!("; beside the agent's own skills: {}", words(other)),
    };
    let chars = if row.shown.is_whole() { format!(", {} characters", row.chars) } else { String::new() };
    Some(format!("{}{chars}{own}", words(row.shown)))
}

/// `warning: ` where an agent does not list the whole description.
fn mark(agents: &[&Seen], idx: usize) -> &'static str {
    let is_whole = |rows: &[Option<Listed>]| {
        rows.get(idx).and_then(Option::as_ref).is_none_or(|row| row.shown.is_whole())
    };
    match agents.iter().all(|seen| is_whole(&seen.rows) && is_whole(&seen.beside_own)) {
        true => "",
        false => "warning: ",
    }
}

/// The agents with the context windows on which their listings depend.
fn titles(agents: &[&Seen]) -> String {
    let title = |seen: &&Seen| match seen.agent.budget {
        Some(budget) if budget.is_share_of_window => {
            format!("{} (context {})", seen.agent.title, grouped(seen.window))
        }
        Some(_) | None => seen.agent.title.clone(),
    };
    agents.iter().map(title).collect::<Vec<_>>().join(", ")
}

fn with<'a>(
    mut groups: Vec<(String, Vec<&'a Seen>)>,
    (what, seen): (String, &'a Seen),
) -> Vec<(String, Vec<&'a Seen>)> {
    match groups.iter_mut().find(|(known, _)| *known == what) {
        Some((_, agents)) => agents.push(seen),
        None => groups.push((what, vec![seen])),
    }
    groups
}

fn words(shown: DescriptionVisibility) -> String {
    match shown {
        DescriptionVisibility::Whole => "the whole description".to_owned(),
        DescriptionVisibility::Cut(n) => format!("the first {n} characters of the description"),
        DescriptionVisibility::NameOnly => "the name only".to_owned(),
        DescriptionVisibility::TooLong => "not listed, since the description is too long".to_owned(),
        DescriptionVisibility::ForPeople => "not listed, since the front matter forbids it".to_owned(),
    }
}
