//! The directory of a run, and how the agent is started in it.

use super::Setup;
use super::sign_in::{server_arguments, take_over};
use crate::home::{HomeError, Moved, SessionFile, session_files};
use crate::read::sessions_of;
use crate::skill::Skill;
use crate::table::{Agent, Home, Rights, agents};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// The largest file of a project that is copied.
const MAX_FILE_BYTES: u64 = 32 << 20;
const MAX_DEPTH: usize = 16;

/// How an agent is started.
#[derive(Debug, Clone)]
pub struct Launch {
    /// The program with its arguments.
    pub command: Vec<String>,
    /// Where it runs.
    pub directory: PathBuf,
    /// Variables that it gets besides those of the caller that the table names.
    pub env: BTreeMap<String, String>,
    /// Beginnings of the names of variables of the caller that it gets.
    pub pass_env: Vec<String>,
    /// Names of variables that it does not get.
    pub hidden_env: Vec<String>,
    /// What it reads on standard input.
    pub stdin: String,
    /// How long it may take.
    pub deadline: Duration,
    /// Replies after which it is stopped.
    pub turns: usize,
    /// The agent.
    pub agent: &'static Agent,
}

/// A run that is ready to start.
#[derive(Debug, Clone)]
pub struct Prepared {
    /// How it is started.
    pub launch: Launch,
    /// The home directory in which its session files will be.
    pub home: PathBuf,
    /// The project.
    pub project: PathBuf,
}

/// How an agent plays a model in one call.
#[derive(Debug, Clone, Copy)]
pub struct CallOptions<'a> {
    /// What it may do.
    pub rights: &'a Rights,
    /// How much the model thinks, for agents that can be told.
    pub effort: Option<&'a str>,
    /// The file with the schema of the reply, for agents that take one.
    pub schema: Option<&'a str>,
    /// Further arguments.
    pub arguments: &'a [String],
}

impl Prepared {
    /// The session files of the run, which printed this; in the user's own home only those that are new.
    ///
    /// # Errors
    ///
    /// Files and folders that cannot be read; a home that is not there has none.
    pub fn session_files(
        &self,
        setup: &Setup,
        stdout: &str,
        since: SystemTime,
    ) -> Result<Vec<SessionFile>, HomeError> {
        let ids = sessions_of(setup.agent, &[stdout.to_owned()]);
        let (moved, since) = match setup.agent.start.home {
            Home::Own if ids.is_empty() => return Ok(Vec::new()),
            Home::Own => (setup.moved.clone(), Some(since)),
            Home::Fresh => (Moved::default(), None),
        };
        match session_files(setup.agent, &self.home, &moved, &ids, since) {
            Err(HomeError::NotADirectory { .. }) => Ok(Vec::new()),
            found => found,
        }
    }
}

/// The directory in which an agent works, in that of its run.
pub fn project_of(run: &Path) -> PathBuf {
    run.join("project")
}

/// Writes the project and, where the agent needs one, the home directory of a run.
///
/// Nothing in it points at a skill besides the agent's own listing.
///
/// # Errors
///
/// A file that cannot be written or copied.
pub fn prepare(setup: &Setup, query: &str, at: &Path) -> io::Result<Prepared> {
    let project = project_of(at);
    make_repository(&project)?;
    if let Some(from) = &setup.project {
        copy_tree(from, &project, &settings_of_projects()?, 0)?;
    }
    let skills = project.join(&setup.agent.project_skills);
    for skill in setup.skills.iter().chain(&setup.competitors) {
        write_skill(&skills.join(&skill.folder), skill)?;
    }
    let start = &setup.agent.start;
    write_settings(setup, start.settings.as_ref(), &project)?;
    let filled = |word: &String| {
        word.replace("{turns}", &setup.turns.to_string()).replace("{skills}", &skills.display().to_string())
    };
    started(setup, start.arguments.iter().map(filled), query, at, project)
}

/// Writes the directory of a call of an agent that plays a model. What the caller wrote into its project is left there.
///
/// # Errors
///
/// A file that cannot be written or copied.
pub fn prepare_play(
    setup: &Setup,
    options: &CallOptions<'_>,
    prompt: &str,
    at: &Path,
) -> io::Result<Prepared> {
    let (project, play) = (project_of(at), &setup.agent.play);
    make_repository(&project)?;
    write_settings(setup, options.rights.settings.as_ref(), &project)?;
    let skills = project.join(&setup.agent.project_skills);
    if play.arguments.iter().any(|word| word == "{skills}") {
        std::fs::create_dir_all(&skills)?;
    }
    let effort = options.effort.map(|effort| (&play.effort, "{effort}", effort));
    let schema = options.schema.map(|schema| (&play.schema, "{schema}", schema));
    let told = effort.into_iter().chain(schema);
    let told =
        told.flat_map(|(words, place, value)| words.iter().map(move |word| word.replace(place, value)));
    let fixed = play.arguments.iter().chain(&options.rights.arguments);
    let fixed = fixed.map(|word| word.replace("{skills}", &skills.display().to_string()));
    let arguments = fixed.chain(told).chain(options.arguments.iter().cloned());
    let mut prepared = started(setup, arguments, prompt, at, project)?;
    prepared.launch.env.extend(options.rights.env.clone());
    Ok(prepared)
}

/// An empty directory without skills, for an agent that only writes a text.
///
/// # Errors
///
/// A file that cannot be written or copied.
pub fn prepare_plain(setup: &Setup, prompt: &str, at: &Path) -> io::Result<Prepared> {
    let project = project_of(at);
    make_repository(&project)?;
    let start = &setup.agent.start;
    write_settings(setup, start.plain_settings.as_ref(), &project)?;
    let mut prepared = started(setup, start.plain_arguments.iter().cloned(), prompt, at, project)?;
    prepared.launch.env.extend(start.plain_env.clone());
    Ok(prepared)
}

fn write_settings(setup: &Setup, settings: Option<&Value>, project: &Path) -> io::Result<()> {
    match (&setup.agent.start.settings_file, settings) {
        (Some(path), Some(settings)) => {
            let settings = filled_value(settings, setup.turns);
            write(&project.join(path), settings.to_string().as_bytes())
        }
        _ => Ok(()),
    }
}

fn started(
    setup: &Setup,
    arguments: impl Iterator<Item = String>,
    prompt: &str,
    at: &Path,
    project: PathBuf,
) -> io::Result<Prepared> {
    let start = &setup.agent.start;
    let mut command = setup.program.clone();
    if command.is_empty() {
        command.push(setup.agent.program.clone());
    }
    command.extend(arguments);
    if let Some(model) = &setup.model {
        command.extend(start.model.iter().map(|word| word.replace("{model}", model)));
    }
    let mut env = start.env.clone();
    let home = match start.home {
        Home::Own => setup.home.clone(),
        Home::Fresh => fresh_home(setup, at, &mut env)?,
    };
    env.insert("HOME".to_owned(), home.display().to_string());
    command.extend(server_arguments(setup, at)?);
    command.extend(start.prompt_argument.clone());
    let launch = Launch {
        command,
        directory: project.clone(),
        env,
        pass_env: start.pass_env.clone(),
        hidden_env: start.hidden_env.clone(),
        stdin: prompt.to_owned(),
        deadline: setup.deadline,
        turns: setup.turns,
        agent: setup.agent,
    };
    Ok(Prepared { launch, home, project })
}

/// A home directory with the sign-in alone, so that the user's skills are not found.
fn fresh_home(setup: &Setup, at: &Path, env: &mut BTreeMap<String, String>) -> io::Result<PathBuf> {
    let home = at.join("home");
    // Below the home, so that the home is not below the temporary directory: Codex needs that.
    let temporary = home.join("tmp");
    std::fs::create_dir_all(&temporary)?;
    env.insert("TMPDIR".to_owned(), temporary.display().to_string());
    for (name, folder) in setup.agent.moved_by() {
        let own = home.join(folder);
        std::fs::create_dir_all(&own)?;
        env.insert(name.to_owned(), own.display().to_string());
    }
    take_over(setup, &home)?;
    Ok(home)
}

/// A repository of its own: agents look for skills up to its root, and no further.
fn make_repository(project: &Path) -> io::Result<()> {
    for folder in [".git/objects", ".git/refs/heads"] {
        std::fs::create_dir_all(project.join(folder))?;
    }
    write(&project.join(".git/HEAD"), b"ref: refs/heads/main\n")?;
    let config = b"[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n";
    write(&project.join(".git/config"), config)
}

/// Whether an agent gets this file of a package: queries and expected answers would tell it what is tested.
pub fn is_delivered(path: &str) -> bool {
    !path.starts_with("evals/")
}

fn write_skill(folder: &Path, skill: &Skill) -> io::Result<()> {
    let files = skill.package.files().filter(|(path, ..)| is_delivered(path));
    for (path, bytes, is_executable) in files {
        write_file(&folder.join(path), bytes, is_executable)?;
    }
    Ok(())
}

/// Writes a file and makes its folder.
///
/// # Errors
///
/// A file that cannot be written.
pub fn write_file(path: &Path, bytes: &[u8], is_executable: bool) -> io::Result<()> {
    write(path, bytes)?;
    if is_executable {
        make_executable(path)?;
    }
    Ok(())
}

#[cfg(unix)]
fn make_executable(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755))
}

#[cfg(not(unix))]
fn make_executable(_path: &Path) -> io::Result<()> {
    Ok(())
}

fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent)?;
    }
    std::fs::write(path, bytes)
}

/// Files and folders that configure any agent in a project, and could have it start programs; an agent may read those of
/// another.
///
/// # Errors
///
/// A table of agents that cannot be read.
pub fn settings_of_projects() -> io::Result<BTreeSet<&'static Path>> {
    let rows = agents().map_err(io::Error::other)?;
    Ok(rows.iter().flat_map(|row| &row.start.project_settings).map(Path::new).collect())
}

/// Copies files without links, repositories, and the skills and settings of agents.
fn copy_tree(from: &Path, to: &Path, without: &BTreeSet<&Path>, depth: usize) -> io::Result<()> {
    if depth > MAX_DEPTH {
        return Err(io::Error::other(format!(
            "{} has more than {MAX_DEPTH} folders in each other",
            from.display()
        )));
    }
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let (name, kind) = (entry.file_name(), entry.file_type()?);
        // Skills of agents lie in hidden folders; another folder of this name is a part of the project.
        let is_of_agents = name == "skills"
            && from.file_name().is_some_and(|folder| folder.to_string_lossy().starts_with('.'));
        if without.iter().any(|path| entry.path().ends_with(path)) {
            // It could start programs, which a query must not do unasked.
        } else if kind.is_dir() && name != ".git" && name != "node_modules" && !is_of_agents {
            copy_tree(&entry.path(), &to.join(&name), without, depth + 1)?;
        } else if kind.is_file() && entry.metadata()?.len() <= MAX_FILE_BYTES {
            std::fs::copy(entry.path(), to.join(&name))?;
        }
    }
    Ok(())
}

fn filled_value(value: &Value, turns: usize) -> Value {
    match value {
        Value::String(text) if text == "{turns}" => Value::from(turns),
        Value::Array(items) => items.iter().map(|item| filled_value(item, turns)).collect(),
        Value::Object(fields) => {
            fields.iter().map(|(name, value)| (name.clone(), filled_value(value, turns))).collect()
        }
        other => other.clone(),
    }
}
