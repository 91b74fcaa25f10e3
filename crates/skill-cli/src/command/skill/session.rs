//! What the commands that start agents share: skills, queries, the program, the directory, and how they end.

use super::ended;
use super::optimizer::Optimizer;
use crate::args::skill::MeasureArgs;
use crate::coding_agent::{check_outside, located, named, usual_place};
use crate::command::{CommandError, say};
use crate::error::OfFile as _;
use crate::table::{counted, grouped};
use skill_agents::home::Moved;
use skill_agents::kept::Inputs;
use skill_agents::measure::{
    Caps, Launcher, Notice, Setup, Store, StoreError, named_files, prepare_plain, servers,
};
use skill_agents::query::{Query, beginning, read_queries, resolve, warnings};
use skill_agents::{Agent, DescriptionVisibility, MEASURED_WINDOW, SameName, Skill, agents, listed};
use skillrl::core::package::MAIN_FILE;
use skillrl::llm::agent::ProgramLauncher;
use skillrl::llm::regular_file;
use skillrl::reports::words::dollars;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Seconds that a run on a query may take where nothing says another limit.
const RUN_SECONDS: u64 = 180;
/// Where plugins have their skills.
const IN_PLUGINS: &str = "skills";
/// The most characters of a query in a line of progress.
const MAX_QUERY_CHARS: usize = 50;

/// All that a measurement needs.
pub(crate) struct Session {
    pub(crate) setup: Setup,
    pub(crate) queries: Vec<Query>,
    pub(crate) repetitions: usize,
    pub(crate) store: Store,
    pub(crate) launcher: ProgramLauncher,
    pub(crate) caps: Caps,
    pub(crate) optimizer: Optimizer,
    pub(crate) is_quiet: bool,
}

/// The skills of a folder; those that cannot be read are an error that names them all.
pub(crate) fn skills_at(dir: &Path) -> crate::Result<Vec<Skill>> {
    let folders = skill_folders(dir)?;
    let (mut skills, mut faults) = (Vec::new(), Vec::new());
    for folder in folders.iter().filter_map(|copies| copies.first()) {
        let package = skillrl::envs::folder::read_folder(folder)?;
        match Skill::new(skillrl::export::folder_name(folder), package) {
            Ok(skill) => skills.push(skill),
            Err(fault) => faults.push((folder.parent().unwrap_or(folder), fault)),
        }
    }
    let Some((_, first)) = faults.first() else { return Ok(skills) };
    let all: Vec<String> =
        faults.iter().map(|(at, fault)| at.join(fault.to_string()).display().to_string()).collect();
    let hint = match folders.len() {
        1 => first.hint().to_owned(),
        _ => format!("{}; or name the folder of one skill", first.hint()),
    };
    Err(CommandError::new(all.join("\n")).with_hint(hint).into())
}

/// The folders with a skill, each with its copies: this one, those in it, or those where agents and plugins have their
/// skills below it.
pub(super) fn skill_folders(dir: &Path) -> crate::Result<Vec<Vec<PathBuf>>> {
    if dir.join(MAIN_FILE).is_file() {
        return Ok(vec![vec![dir.to_owned()]]);
    }
    let in_it = folders_in(dir).reading(dir.display())?;
    if !in_it.is_empty() {
        return Ok(in_it.into_iter().map(|folder| vec![folder]).collect());
    }
    let mut places = vec![PathBuf::from(IN_PLUGINS)];
    places.extend(agents()?.iter().map(|agent| PathBuf::from(&agent.project_skills)));
    places.dedup();
    let mut folders: Vec<Vec<PathBuf>> = Vec::new();
    for place in places.iter().map(|place| dir.join(place)).filter(|place| place.is_dir()) {
        for found in folders_in(&place).reading(place.display())? {
            // A skill that lies where several agents look, as a link or a copy, is one skill.
            let known =
                folders.iter_mut().find(|copies| copies.first().is_some_and(|known| is_same(known, &found)));
            match known {
                Some(copies) => copies.push(found),
                None => folders.push(vec![found]),
            }
        }
    }
    if folders.is_empty() {
        let places: BTreeSet<String> = places.iter().map(|place| place.display().to_string()).collect();
        let looked = places.into_iter().collect::<Vec<_>>().join(", ");
        let message = format!("{} has no SKILL.md, no folder with one, and none in {looked}", dir.display());
        return Err(CommandError::new(message).into());
    }
    Ok(folders)
}

/// The folders directly in this one that have a skill.
fn folders_in(dir: &Path) -> std::io::Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(dir)?;
    let mut folders: Vec<PathBuf> =
        entries.flatten().map(|entry| entry.path()).filter(|path| path.join(MAIN_FILE).is_file()).collect();
    folders.sort();
    Ok(folders)
}

/// Whether two folders of one name have the same skill.
fn is_same(one: &Path, other: &Path) -> bool {
    let main = |folder: &Path| std::fs::read(folder.join(MAIN_FILE)).ok();
    one.file_name() == other.file_name() && main(one) == main(other)
}

/// Two skills of one name would be one to the agent.
pub(crate) fn check_names(agent: &skill_agents::Agent, skills: &[&Skill]) -> Result<(), CommandError> {
    let mut names: BTreeMap<&str, &str> = BTreeMap::new();
    for skill in skills {
        if let Some(other) = names.insert(skill.listed_name(agent), &skill.folder) {
            let name = skill.listed_name(agent);
            let message =
                format!("two skills are called {name:?} by {}: {other} and {}", agent.title, skill.folder);
            return Err(CommandError::new(message).with_hint("give one of them another name"));
        }
    }
    Ok(())
}

/// The file of queries where none is named.
pub(crate) fn queries_file(args: &MeasureArgs) -> PathBuf {
    let name = skillrl::export::folder_name(&args.skills);
    args.queries.clone().unwrap_or_else(|| usual_place(&format!("{name}-queries.jsonl")))
}

impl Session {
    /// Reads skills and queries, finds the program, opens the directory; nothing is asked of a model.
    pub(crate) fn open(args: &MeasureArgs, with_queries: bool) -> crate::Result<Self> {
        let starts = !args.replay;
        let agent = named(&args.agent)?;
        args.dir.iter().try_for_each(|dir| check_outside("--dir", dir))?;
        let skills = skills_at(&args.skills)?;
        let mut competitors = Vec::new();
        for dir in &args.beside {
            competitors.extend(skills_at(dir)?);
        }
        let all: Vec<&Skill> = skills.iter().chain(&competitors).collect();
        check_names(agent, &all)?;
        warn_of_listing(agent, &all, args.common.model.as_deref());
        let home = std::env::home_dir()
            .ok_or_else(|| CommandError::new("no home directory").with_hint("set HOME"))?;
        let mut setup = Setup {
            agent,
            program: args.common.program.iter().map(|program| located(program)).collect(),
            version: String::new(),
            model: args.common.model.clone(),
            turns: args.turns.max(1),
            deadline: Duration::from_secs(args.timeout.unwrap_or(RUN_SECONDS)),
            skills,
            competitors,
            project: args.project.clone(),
            moved: Moved::of(agent, |name| std::env::var_os(name).map(PathBuf::from)),
            named_files: named_files(agent, |name| std::env::var_os(name).map(PathBuf::from)),
            with_mcp: args.with_mcp,
            home,
        };
        if args.with_mcp && starts {
            say(&servers_line(&setup)?);
        }
        for note in same_names(&setup) {
            say(&format!("warning: {note}"));
        }
        let queries = if with_queries { queries(args, &setup)? } else { Vec::new() };
        let launcher =
            ProgramLauncher { pass_env: args.common.pass_env.clone(), ..ProgramLauncher::default() };
        if starts {
            crate::coding_agent::check_needs(setup.agent)?;
            setup.version = version(&setup, &launcher)?;
            warn_of_version(agent, &setup.version);
        }
        let mut store = opened(args, &setup)?;
        if starts {
            store.claim().map_err(|error| store_error(&error))?;
        }
        let caps = Caps {
            // Without a start nothing but the record is read.
            calls: if args.replay {
                Some(0)
            } else {
                args.calls.map(|calls| calls.try_into().unwrap_or(usize::MAX))
            },
            budget: args.budget,
            prices: args.common.price.map(|price| [price.input, price.output]),
            concurrency: args.common.concurrency.clamp(1, 32),
            only_first: false,
        };
        let is_quiet = args.common.quiet || args.common.json;
        let optimizer = Optimizer::of(args.optimizer.as_deref())?;
        Ok(Self {
            optimizer,
            setup,
            queries,
            repetitions: usize::from(args.runs),
            store,
            launcher,
            caps,
            is_quiet,
        })
    }

    /// Writes down what the runs are of, so that their report can be made from the directory alone.
    pub(crate) fn keep_inputs(&self) -> crate::Result<Inputs> {
        let inputs = Inputs::new(&self.setup, &self.queries, self.repetitions);
        self.store.keep_inputs(&inputs).map_err(|error| store_error(&error))?;
        Ok(inputs)
    }

    /// Says what happens.
    pub(crate) fn notify(&self, notice: &Notice<'_>) {
        if self.is_quiet {
            return;
        }
        match notice {
            Notice::Of(what) => say(&format!("{what}:")),
            Notice::Planned { n_runs, n_known } if n_runs == n_known => {}
            Notice::Planned { n_runs, n_known } => {
                say(&format!(
                    "{n_runs} runs, {n_known} of them on record in {}",
                    self.store.directory().display()
                ));
            }
            // The time and cost of a failed run do not predict those of the others.
            Notice::Estimate { first, .. } if first.failed.is_some() => {}
            Notice::Estimate { n_left, first } => {
                let seconds =
                    first.milliseconds as f64 / 1000.0 * *n_left as f64 / self.caps.concurrency as f64;
                let tokens = first.input.unwrap_or(0).saturating_add(first.output.unwrap_or(0));
                let cost = first
                    .cost
                    .map(|cost| format!(", {}", dollars(cost * *n_left as f64)))
                    .unwrap_or_default();
                let n_tokens = tokens.saturating_mul(*n_left as u64);
                let time = match seconds {
                    seconds if seconds < 90.0 => format!("{seconds:.0} seconds"),
                    seconds => format!("{:.0} minutes", (seconds / 60.0).ceil()),
                };
                let left = counted(*n_left as u64, "run");
                let n_tokens = grouped(n_tokens);
                say(&format!(
                    "{left} left; if they are like the first: about {time}, {n_tokens} tokens{cost}"
                ));
            }
            Notice::Run { n_done, n_runs, record } => {
                let what = match &record.failed {
                    Some(why) => {
                        let said: String = record.message.chars().take(200).collect();
                        format!("failed: {why}{}{said}", if said.is_empty() { "" } else { ": " })
                    }
                    None if record.loaded.is_empty() => "nothing loaded".to_owned(),
                    None => {
                        format!("loaded {}", record.loaded.keys().cloned().collect::<Vec<_>>().join(", "))
                    }
                };
                let query = self.queries.iter().find(|query| query.id == record.query);
                let query = query.map_or(&record.query, |query| &query.query);
                let query = beginning(query, MAX_QUERY_CHARS);
                say(&format!("{n_done} of {n_runs}: {query} (run {}): {what}", record.repetition));
            }
        }
    }
}

/// Warns of skills that the agent does not list as they are.
fn warn_of_listing(agent: &Agent, all: &[&Skill], model: Option<&str>) {
    let window = agent.window(model).unwrap_or(MEASURED_WINDOW);
    for row in listed(agent, all, false, window) {
        let what = match row.shown {
            DescriptionVisibility::Whole => continue,
            DescriptionVisibility::Cut(n) => {
                format!("lists {n} characters of the description of {:?}", row.name)
            }
            DescriptionVisibility::NameOnly => {
                format!("lists {:?} by its name only: the descriptions together are too long", row.name)
            }
            DescriptionVisibility::TooLong => {
                format!("does not list {:?}: its description is too long", row.name)
            }
            DescriptionVisibility::ForPeople => {
                format!("does not list {:?}: its front matter forbids that", row.name)
            }
        };
        say(&format!("warning: {} {what}", agent.title));
    }
}

/// Warns of a version that nobody has tried.
fn warn_of_version(agent: &Agent, version: &str) {
    if !agent.is_tried(version) {
        say(&format!(
            "warning: {} says that its version is {:?}; this program was tried with {}",
            agent.title,
            version.lines().next().unwrap_or_default(),
            agent.versions.join(", ")
        ));
    }
}

/// The directory of the measurement, which has to be of the same agent and settings.
fn opened(args: &MeasureArgs, setup: &Setup) -> crate::Result<Store> {
    let agent = &setup.agent.name;
    let name = skillrl::export::folder_name(&args.skills);
    let dir = args.dir.clone().unwrap_or_else(|| usual_place(&format!("{name}-triggers-{agent}")));
    let project = args.project.as_ref().map(|path| path.display().to_string());
    let mut settings = BTreeMap::from([
        ("agent".to_owned(), agent.clone()),
        ("model".to_owned(), args.common.model.clone().unwrap_or_default()),
        ("turns".to_owned(), setup.turns.to_string()),
        ("project".to_owned(), project.unwrap_or_default()),
    ]);
    if args.with_mcp {
        settings.insert("with_mcp".to_owned(), "true".to_owned());
    }
    Store::open(&dir, &settings).map_err(|error| store_error(&error))
}

/// The tool servers that runs will have, named before anything is started.
fn servers_line(setup: &Setup) -> crate::Result<String> {
    let found = servers(setup).reading("the agent's settings")?;
    let names: Vec<&str> = found.keys().map(String::as_str).collect();
    Ok(match names.is_empty() {
        true => format!("{} has no tool servers (MCP) in your settings", setup.agent.title),
        false => format!("runs can call your tool servers (MCP): {}", names.join(", ")),
    })
}

pub(crate) fn store_error(error: &StoreError) -> crate::CliError {
    ended::of_store(error).into()
}

fn queries(args: &MeasureArgs, setup: &Setup) -> crate::Result<Vec<Query>> {
    let path = queries_file(args);
    let text = match regular_file::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let message = format!("no queries: {} is not there", path.display());
            return Err(CommandError::new(message)
                .with_hint("write some, name them with --queries, or have a first set drafted with `skillrl skill triggers DIR --agent NAME --draft 20`")
                .into());
        }
        Err(error) => return Err(error).reading(path.display()),
    };
    let first = setup.skills.first().map(|skill| skill.listed_name(setup.agent)).unwrap_or_default();
    let mut queries = read_queries(&text, &path.display().to_string(), first)
        .map_err(|fault| CommandError::new(fault.to_string()).with_hint(fault.hint()))?;
    if let Err(name) = resolve(&mut queries, &setup.skills, setup.agent) {
        let known: Vec<&str> = setup.skills.iter().map(|skill| skill.listed_name(setup.agent)).collect();
        let message =
            format!("a query asks for the skill {name:?}, and the skills here are {}", known.join(", "));
        return Err(CommandError::new(message)
            .with_hint("correct `should`, or name the folder with all skills")
            .into());
    }
    for warning in warnings(&queries) {
        say(&format!("warning: {warning}"));
    }
    Ok(queries)
}

/// Skills of the user's that have the name of one that is measured: outside of a measurement they may run instead.
fn same_names(setup: &Setup) -> Vec<String> {
    let mut notes = Vec::new();
    for skill in &setup.skills {
        let path = super::check::user_copy(setup.agent, &setup.home, &setup.moved, skill);
        if let Some(path) = path {
            let which = match setup.agent.same_name {
                SameName::Project => continue,
                SameName::User => "runs in its place",
                SameName::Both => "is listed beside it",
                SameName::Either => "may run in its place",
            };
            notes.push(format!(
                "{} has the same name, and {which} in other projects; the measurement keeps it out",
                path.display()
            ));
        }
    }
    notes
}

/// What the program says of its version.
fn version(setup: &Setup, launcher: &ProgramLauncher) -> crate::Result<String> {
    let workspace = launcher.workspace().trying_to("make a workspace")?;
    let mut prepared = prepare_plain(setup, "", workspace.path()).trying_to("prepare a workspace")?;
    prepared.launch.command.truncate(setup.program.len().max(1));
    prepared.launch.command.extend(setup.agent.version_arguments.iter().cloned());
    prepared.launch.stdin.clear();
    let launch = launcher.launch(&prepared.launch);
    let launched = super::super::block_on(skillrl::pipeline::StopSignal::default(), "stopping", launch)?;
    match launched {
        Ok(launched) => Ok(launched.stdout.trim().to_owned()),
        Err(error) => {
            let hint = format!(
                "install it (`npm install --global {}`), or name its program with --program",
                setup.agent.package
            );
            Err(CommandError::new(error.to_string()).with_hint(hint).into())
        }
    }
}
