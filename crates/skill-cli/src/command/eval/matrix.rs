//! `skillrl eval --model A,B`, `--skill X,Y` and `--targets`: skills × models on one split, in one journal.

mod models;
mod shown;

use crate::against::{self, Limits};
use crate::args::{DataArgs, EvalArgs, Start};
use crate::command::CommandError;
use crate::consent::agree_to_passes;
use crate::data_start::{self, Use};
use crate::measuring::{warn_of_missing_hashes, warn_of_other_data, warn_of_test_split};
use crate::progress::{Progress, Show};
use skillrl::call_cache::CallCache;
use skillrl::config::LoadedConfig;
use skillrl::core::RolloutResult;
use skillrl::engine::Engine;
use skillrl::envs::Split;
use skillrl::matrix::{Cells, MatrixPlan, NamedModel, NamedSkill, OfRun};
use skillrl::measurement::Earlier;
use skillrl::pipeline::identity::check_not_empty;
use skillrl::pipeline::run_dir::is_run;
use skillrl::pipeline::run_dir::measurement::is_measurement;
use skillrl::pipeline::{OWN_TARGET, StopSignal};
use skillrl::reports::Matrix;
use skillrl::transfer::{Transfer, TransferOptions, named_targets, usual_out};
use skillrl::{skills, world};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// True if a command asks for more than one measurement, or for what only a matrix has.
pub(super) fn is_requested(args: &EvalArgs) -> bool {
    let start = args.config.start();
    let is_of_config = || !start.file.as_deref().is_some_and(data_start::may_be_data);
    args.targets.is_some()
        || args.csv
        || args.html.is_some()
        || args.skill.as_deref().is_some_and(|named| skill_paths(args) != [named])
        || args.data.model.as_deref().is_some_and(|model| model.contains(',') || is_of_config())
}

/// What a matrix is of.
struct Prepared {
    start: Start,
    loaded: LoadedConfig,
    models: Vec<NamedModel>,
    /// `None` for the best skill of the run, or the initial one.
    skills: Option<Vec<NamedSkill>>,
    of_run: OfRun,
    /// Where it is kept unless a directory is named.
    usual_out: Option<PathBuf>,
    /// True for the skills of a run.
    is_transfer: bool,
}

pub(super) fn run(args: &EvalArgs) -> crate::Result {
    check_args(args)?;
    let is_quiet = args.quiet || args.json || args.markdown || args.csv;
    let named = skill_paths(args);
    let files = named.iter().map(|path| path.canonicalize().unwrap_or_else(|_| path.clone()));
    check_once(named.iter().map(|path| path.display().to_string()).zip(files), "skill")?;
    let prepared = prepare(args, &named, is_quiet)?;
    check_once(prepared.models.iter().map(|model| (model.name.clone(), &model.target)), "model")?;
    let limits = Limits::of(args);
    let earlier = args.measurement.against.as_deref().map(against::read).transpose()?;
    let Prepared { start, loaded, models, skills, of_run, usual_out, is_transfer } = prepared;
    let mut engine = Engine::new(&loaded);
    let asked = args.split.as_deref().map(world::split).transpose()?;
    let env = world::environment_to_measure(&loaded, engine.judge()?, asked)?;
    let split = asked.unwrap_or_else(|| match args.targets {
        Some(_) => Split::Test,
        None => skillrl::measurement::usual_split(env.as_ref()),
    });
    check_not_empty(env.as_ref(), split)?;
    let skills = match skills {
        Some(skills) => skills,
        None => {
            let (name, skill) = skills::chosen(&loaded, None, env.as_ref())?;
            vec![NamedSkill { name, skill }]
        }
    };
    let plan = MatrixPlan { loaded: &loaded, env, split, models, skills, of_run };
    check_earlier(&plan, &mut engine, earlier.as_ref(), limits)?;
    if let Some(first) = plan.skills.first() {
        let n_cells = (plan.models.len() * plan.skills.len()) as u64;
        let start = Start { agrees: args.yes, ..start };
        agree_to_passes(&start, &loaded, (plan.env.as_ref(), &first.skill), (split, n_cells))?;
    }
    warn_of_test_split(&loaded, split);
    let (unsaved, out) = match args.measurement.out.clone().or(usual_out) {
        Some(out) => (None, out),
        None => {
            let dir = tempfile::tempdir()
                .map_err(|error| CommandError::new(format!("no directory for the calls: {error}")))?;
            let out = dir.path().to_owned();
            (Some(dir), out)
        }
    };
    check_free(&out)?;
    // Where nobody names a directory, results of other settings are replaced: their calls stay.
    let force = args.measurement.force || args.measurement.out.is_none();
    let cells = Cells::of(&plan, &mut engine, &out, force)?;
    if !force {
        cells.dirs().for_each(warn_of_missing_hashes);
    }
    let calls = CallCache::in_dir(&out)?;
    let progress = Progress::new(if is_quiet { Show::Quiet } else { Show::Progress });
    let stop = StopSignal::default();
    let measuring = plan.measure(&mut engine, &calls, &cells, (&progress, &stop));
    let measured = crate::command::block_on(stop.clone(), "stopping", measuring)?;
    if unsaved.is_some() && !measured.as_ref().is_ok_and(|(_, failed)| failed.is_empty()) {
        crate::command::say(
            "note: this measurement was not saved; with `--out DIR` the same command resumes it",
        );
    }
    let (mut matrix, failed) = measured?;
    if let Some(earlier) = &earlier {
        compare(&mut matrix, &loaded, earlier)?;
    }
    skillrl::matrix::write(&matrix, &out)?;
    if let Some(path) = &args.html {
        skillrl::matrix::write_page(&matrix, path)?;
    }
    let broken = broken(&matrix, limits);
    shown::print(&matrix, args, (&broken, is_transfer))?;
    against::check(&broken, None)?;
    match failed.into_iter().next() {
        Some(error) => Err(error.into()),
        None => Ok(()),
    }
}

/// The skills that are named; a path that exists is one, whatever is in its name.
fn skill_paths(args: &EvalArgs) -> Vec<PathBuf> {
    let Some(named) = &args.skill else { return Vec::new() };
    match named.to_str() {
        Some(text) if !named.exists() => {
            text.split(',').map(str::trim).filter(|path| !path.is_empty()).map(PathBuf::from).collect()
        }
        Some(_) | None => vec![named.clone()],
    }
}

/// Refuses what is named twice, by names for people and what they stand for.
fn check_once<T: Ord>(named: impl Iterator<Item = (String, T)>, what: &str) -> Result<(), CommandError> {
    let mut seen = BTreeSet::new();
    for (name, of) in named {
        if !seen.insert(of) {
            return Err(CommandError::new(format!("the {what} `{name}` is named twice"))
                .with_hint("name each once: a cell of the matrix is one measurement"));
        }
    }
    Ok(())
}

/// Refuses options that exclude each other, and a page that cannot be written, before anything is paid for.
fn check_args(args: &EvalArgs) -> Result<(), CommandError> {
    if args.bank.is_some() || args.policy.is_some() {
        return Err(CommandError::new(
            "`--model`, `--targets`, `--csv` and `--html` measure skills, and no bank or policy",
        )
        .with_hint("name the skill with `--skill`, or leave these options out"));
    }
    let is_unnamed = |names: &str| names.split(',').all(|name| name.trim().is_empty());
    if args.data.model.as_deref().is_some_and(is_unnamed) {
        return Err(
            CommandError::new("`--model` names no model").with_hint("name models with commas between them")
        );
    }
    let Some(page) = &args.html else { return Ok(()) };
    let folder = page.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let problem = match () {
        () if page.is_dir() => format!("{} is a directory, and not a file for the page", page.display()),
        () if !folder.is_dir() => format!("the directory {} of the page does not exist", folder.display()),
        () => return Ok(()),
    };
    Err(CommandError::new(problem).with_hint("name a file in an existing directory with `--html`"))
}

fn prepare(args: &EvalArgs, named: &[PathBuf], is_quiet: bool) -> crate::Result<Prepared> {
    let read = |path: &PathBuf| -> crate::Result<NamedSkill> {
        Ok(NamedSkill { name: path.display().to_string(), skill: skills::read_skill(path)? })
    };
    let skills = named.iter().map(read).collect::<crate::Result<Vec<NamedSkill>>>()?;
    let skills = (!skills.is_empty()).then_some(skills);
    let targets = args.targets.as_ref();
    let targets =
        targets.map(|names| names.iter().filter(|name| !name.is_empty()).cloned().collect::<Vec<_>>());
    let start = args.config.start();
    let run = start.file.clone().filter(|file| start.config.as_ref() != Some(file));
    if let Some(targets) = &targets
        && skills.is_none()
        && run.as_deref().is_none_or(|run| !data_start::may_be_data(run) && !is_config(run))
    {
        let run = run.map_or_else(crate::newest::newest, Ok)?;
        let options = TransferOptions {
            run: run.clone(),
            config: start.config.clone(),
            overrides: start.overrides.clone(),
            targets: targets.clone(),
            split: args.split.as_deref().map_or(Ok(Split::Test), world::split)?,
        };
        let Transfer { loaded, models, skills, of_run } = Transfer::prepare(&options)?;
        let usual_out = Some(usual_out(&run));
        return Ok(Prepared {
            start,
            loaded,
            models,
            skills: Some(skills),
            of_run,
            usual_out,
            is_transfer: true,
        });
    }
    let usual_out = run.filter(|run| is_run(run)).map(|run| usual_out(&run));
    let names: Vec<String> = args
        .data
        .model
        .iter()
        .flat_map(|names| names.split(','))
        .map(str::trim)
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
        .collect();
    check_once(names.iter().map(|name| (name.clone(), name)), "model")?;
    let is_data = start.file.as_deref().is_some_and(data_start::may_be_data);
    // The first model of data is the target; a configuration has its own.
    let data = DataArgs { model: names.first().filter(|_| is_data).cloned(), ..args.data.clone() };
    let start = Start { agrees: args.yes, ..start };
    let (start, loaded) = data_start::load(&data, start, Use::Measures, is_quiet)?;
    let (start, loaded, models) = match (targets, names.as_slice()) {
        (Some(targets), _) => {
            let models = named_targets(&loaded, &targets)?;
            (start, loaded, models)
        }
        (None, []) => (start, loaded, vec![models::own(OWN_TARGET)]),
        (None, [first, others @ ..]) if is_data => {
            models::add((start, loaded), vec![models::own(first)], others, &data)?
        }
        (None, names) => models::add((start, loaded), Vec::new(), names, &data)?,
    };
    Ok(Prepared { start, loaded, models, skills, of_run: OfRun::new(), usual_out, is_transfer: false })
}

/// True for a configuration, which has no skills of a run.
fn is_config(path: &Path) -> bool {
    !is_run(path) && (path.is_file() || path.join(skillrl::config::FILE_NAME).is_file())
}

/// Refuses a directory of a run or of a single measurement.
fn check_free(out: &Path) -> Result<(), CommandError> {
    let what = match () {
        () if is_run(out) => "a run",
        () if is_measurement(out) => "a measurement",
        () => return Ok(()),
    };
    Err(CommandError::new(format!("{} is the directory of {what}, which this would damage", out.display()))
        .with_hint("name another directory with `--out`"))
}

fn check_earlier(
    plan: &MatrixPlan<'_>,
    engine: &mut Engine<'_>,
    earlier: Option<&Earlier>,
    limits: Limits,
) -> crate::Result {
    let target = engine.target(plan.models.first().map_or(OWN_TARGET, |model| &model.target))?;
    let settings = skillrl::measurement::identity(plan.loaded, plan.env.as_ref(), plan.split, target.id());
    warn_of_other_data(plan.loaded, plan.split, &settings);
    let (Some(earlier), items) = (earlier, plan.env.items(plan.split)) else { return Ok(()) };
    earlier.check_items(items, &settings, plan.split).map_err(skillrl::Error::from)?;
    limits.max_drop.map_or(Ok(()), |most| earlier.check_loss(plan.loaded, items, most))?;
    Ok(())
}

/// Compares each cell with the earlier measurement.
fn compare(matrix: &mut Matrix, loaded: &LoadedConfig, earlier: &Earlier) -> crate::Result {
    let results: Vec<Vec<RolloutResult>> =
        (0..matrix.cells.len()).map(|place| matrix.results(place)).collect();
    for (cell, results) in matrix.cells.iter_mut().zip(results) {
        if !results.is_empty() {
            cell.against = Some(earlier.compare(loaded, &results)?);
        }
    }
    Ok(())
}

/// Each limit that a cell does not keep.
fn broken(matrix: &Matrix, limits: Limits) -> Vec<String> {
    let of_cell = matrix.cells.iter().filter_map(|cell| {
        let broken = limits.broken(cell.hard?, cell.against.as_ref());
        Some(broken.into_iter().map(|limit| format!("{} / {}: {limit}", cell.model, cell.skill)))
    });
    of_cell.flatten().collect()
}
