//! `skillrl eval SKILL --agent NAME`: whether the work of a coding agent is better with a skill than without.
//!
//! Cases are the environment `evals`, and arms are skills; each arm is a measurement as `skillrl eval --out` keeps it.

mod arms;
mod outcome;
mod plan;
mod previous;

use super::against::{self, Earlier, Limits};
use crate::args::skill::EvalSkillArgs;
use crate::command::{CommandError, data_start, print, print_wrapped, say};
use crate::error::OfFile as _;
use crate::table::grouped;
use arms::{Arm, Bench, DoesNothing, Measured, SPLIT};
use outcome::Outcome;
use serde_json::json;
use skill_agents::Agent;
use skillrl::config::LoadedConfig;
use skillrl::core::{SkillDoc, SkillPackage};
use skillrl::engine::Engine;
use skillrl::envs::evals::{CaseSet, Check, write_workspace};
use skillrl::world;
use std::collections::BTreeMap;
use std::path::Path;

/// The names of arms.
const NONE: &str = "none";
const PREVIOUS: &str = "previous";
const CURRENT: &str = "current";
/// The control: an agent that does nothing.
const IDLE: &str = "does-nothing";

pub(crate) fn run(args: &EvalSkillArgs) -> crate::Result<()> {
    let mut agents = Vec::new();
    for name in &args.agents {
        agents.push(crate::coding_agent::named(name)?);
    }
    let skill = skillrl::skills::read_skill(&args.skill)?;
    let place = plan::cases_place(args)?;
    let set = CaseSet::read(&place).map_err(skillrl::Error::Env)?;
    let arms = chosen_arms(args, &skill)?;
    let mut benches = Vec::new();
    for agent in &agents {
        let kind = plan::kind_of(agent)?;
        benches.push((*agent, plan::loaded(args, (agent, kind), &place, &set)?));
    }
    if !agreed(args, &set, &arms, &agents)? {
        return Ok(());
    }
    let (mut outcomes, mut broken) = (Vec::new(), Vec::new());
    for (agent, loaded) in &benches {
        let (outcome, of_agent) = of_agent(args, agent, loaded, &set, &arms)?;
        if !args.json {
            print_wrapped(&format!("{}\n", outcome.text()))?;
        }
        outcomes.push(outcome);
        broken.extend(of_agent);
    }
    if args.json {
        print(&format!("{}\n", json!({"agents": outcomes, "broken_limits": broken})))?;
    }
    against::check(&broken, None)?;
    Ok(())
}

/// The arms, the one without a skill first.
fn chosen_arms(args: &EvalSkillArgs, skill: &SkillDoc) -> crate::Result<Vec<Arm>> {
    let mut arms = vec![Arm { name: NONE, title: NONE.to_owned(), skill: SkillDoc::default() }];
    match previous::previous(&args.skill, skill, args.previous.as_deref())? {
        Some(previous) => arms.push(Arm { name: PREVIOUS, title: previous.name, skill: previous.skill }),
        None if !args.quiet => {
            say("note: no previous version of the skill found; the only baseline is no skill");
        }
        None => {}
    }
    arms.push(Arm { name: CURRENT, title: CURRENT.to_owned(), skill: skill.clone() });
    Ok(arms)
}

/// Says what it takes, and asks a person at a terminal; true if it begins.
fn agreed(args: &EvalSkillArgs, set: &CaseSet, arms: &[Arm], agents: &[&Agent]) -> crate::Result<bool> {
    let (n_cases, runs) = (set.cases.len(), usize::from(args.runs));
    let n_starts = n_cases * runs * arms.len() * agents.len();
    let n_graded = set.cases.iter().filter(|case| case.checks.iter().any(Check::needs_grader)).count();
    // The control is graded once.
    let n_calls = n_graded * (runs * arms.len() + 1) * agents.len();
    let titles: Vec<&str> = agents.iter().map(|agent| agent.title.as_str()).collect();
    let names: Vec<&str> = arms.iter().map(|arm| arm.name).collect();
    let words = format!(
        "at most {} starts of {} ({n_cases} cases, {runs} runs, arms {}) and {} calls of the grader; what they cost is what \
         the agent reports, and is said afterwards",
        grouped(n_starts as u64),
        titles.join(", "),
        names.join(", "),
        grouped(n_calls as u64),
    );
    if args.dry_run {
        print(&format!("{words}\nnothing was started\n"))?;
        return Ok(false);
    }
    if !args.quiet {
        say(&words);
        if runs == 1 {
            say("note: with one run per case the interval does not cover variation between runs");
        }
    }
    let is_capped = args.calls.is_some() || args.budget.is_some();
    if args.yes || is_capped || data_start::asked("Start? [y/N]")? != Some(false) {
        return Ok(true);
    }
    Err(CommandError::new("nothing was started")
        .with_hint("`--calls N` or `--budget USD` caps it, `--yes` agrees")
        .into())
}

/// Measures all arms with one agent; the limits that it does not keep come with its outcome.
fn of_agent(
    args: &EvalSkillArgs,
    agent: &Agent,
    loaded: &LoadedConfig,
    set: &CaseSet,
    arms: &[Arm],
) -> crate::Result<(Outcome, Vec<String>)> {
    let runs = usize::from(args.runs);
    let mut engine = Engine::new(loaded);
    let env = world::environment(loaded, engine.judge()?)?;
    let out = args.out.as_ref().map(|out| out.join(&agent.name));
    let is_quiet = args.quiet || args.json;
    let target = engine.model(skillrl::config::ModelRole::Target)?;
    let id = target.id().clone();
    let bench = Bench {
        loaded,
        engine: &engine,
        env: &env,
        target,
        out: out.as_deref(),
        force: args.force,
        is_quiet,
    };
    let earlier =
        args.against.as_ref().map(|dir| Earlier::read(&dir.join(&agent.name).join(CURRENT))).transpose()?;
    if let Some(earlier) = &earlier {
        let settings = super::out::deciding(loaded, env.as_ref(), SPLIT, &id);
        earlier.check_items(env.items(SPLIT), &settings, SPLIT)?;
    }
    let idle = Arm { name: IDLE, title: IDLE.to_owned(), skill: SkillDoc::default() };
    let control = bench.measure(&idle, 1, Some(DoesNothing::shared()))?;
    let mut measured: Vec<Measured> = Vec::new();
    for arm in arms {
        if !is_quiet {
            say(&format!("{}, {}:", agent.title, arm.title));
        }
        measured.push(bench.measure(arm, runs, None)?);
    }
    let Some(current) = measured.last() else {
        return Err(CommandError::new("no arm to measure").into());
    };
    let compared = earlier.map(|earlier| earlier.compare(loaded, &current.results)).transpose()?;
    if let Some(compared) = &compared
        && !is_quiet
    {
        print_wrapped(&against::describe(compared))?;
    }
    let limits = Limits { fail_on_drop: args.fail_on_drop, ..Limits::default() };
    let broken = limits.broken(current.summary.hard, compared.as_ref());
    let package = SkillPackage::of(arms.last().map(|arm| &arm.skill).unwrap_or(&idle.skill));
    let prompts: BTreeMap<String, String> =
        set.cases.iter().map(|case| (case.id.clone(), case.prompt.clone())).collect();
    let folder = skillrl::export::folder_name(&args.skill);
    let named = skill_agents::Skill::new(folder.clone(), package.clone()).map(|skill| skill.name);
    let name = named.unwrap_or_default();
    let files: Vec<&str> = package.files().map(|(path, ..)| path).collect();
    let cases = outcome::cases(&control, &measured, &prompts, (&[folder.as_str(), name.as_str()], &files));
    if let Some(out) = &out {
        write_files(out, &folder, &measured)?;
    }
    Ok((Outcome::of(&agent.name, runs, cases, &measured), broken))
}

/// Writes what skill-creator's viewer opens.
fn write_files(out: &Path, skill: &str, measured: &[Measured]) -> crate::Result<()> {
    let viewed = |name: &str| match name {
        CURRENT => "with_skill",
        NONE => "without_skill",
        _ => "old_skill",
    };
    let rows = measured.iter().rev().map(|arm| arm.rows(viewed(arm.name))).collect::<Vec<_>>();
    // The difference is that of the skill to none.
    let mut rows = rows;
    rows.sort_by_key(|arm| match arm.name.as_str() {
        "with_skill" => 0,
        "without_skill" => 1,
        _ => 2,
    });
    let workspace = out.join("workspace");
    write_workspace(&workspace, skill, &rows).writing(&workspace)
}
