//! `skillrl eval SKILL --agent NAME`: whether the work of a coding agent is better with a skill than without.
//!
//! Cases are the environment `evals`, and arms are skills; each arm is a measurement as `skillrl eval --out` keeps it.

mod arms;
mod cost;
mod draft;
mod ended;
mod kept;
mod outcome;
mod previous;

use crate::against::{self, Limits};
use crate::agent_cases;
use crate::args::skill::EvalSkillArgs;
use crate::coding_agent::{cases_place, check_outside};
use crate::command::{CommandError, print, print_wrapped, say};
use crate::consent::confirm;
use crate::error::OfFile as _;
use crate::table::counted;
use arms::{Arm, Bench, Measured, SPLIT, does_nothing};
use cost::Known;
use outcome::{Naming, Outcome};
use serde_json::json;
use skill_agents::Agent;
use skillrl::config::LoadedConfig;
use skillrl::core::usage::dollars;
use skillrl::core::{SkillDoc, SkillPackage};
use skillrl::engine::Engine;
use skillrl::envs::Env;
use skillrl::envs::evals::{CaseSet, Check, write_workspace};
use skillrl::llm::Spent;
use skillrl::measurement::Earlier;
use skillrl::world;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

/// The names of arms.
const NONE: &str = "none";
const PREVIOUS: &str = "previous";
const CURRENT: &str = "current";
/// The control: an agent that does nothing.
const IDLE: &str = "does-nothing";

/// An agent that is measured, with its configuration and the measurement that it is compared with.
struct Planned {
    agent: &'static Agent,
    loaded: LoadedConfig,
    earlier: Option<Earlier>,
}

pub(crate) fn run(args: &EvalSkillArgs) -> crate::Result<()> {
    let mut agents: Vec<&'static Agent> = Vec::new();
    for name in &args.agents {
        let agent = crate::coding_agent::named(name)?;
        if agents.iter().all(|known| known.name != agent.name) {
            agents.push(agent);
        }
    }
    agents.iter().try_for_each(|agent| agent_cases::check_budget(&args.common, agent, None, args.budget))?;
    args.measurement.out.iter().try_for_each(|out| check_outside("--out", out))?;
    let skill = previous::delivered(&args.skill)?;
    if let Some(n) = args.draft {
        return draft::run(args, &agents, &skill, n);
    }
    let place = cases_place(&args.skill, args.cases.as_deref())?;
    let mut set = CaseSet::read(&place).map_err(skillrl::Error::Env)?;
    agent_cases::leave_out_drafts(&mut set, &place)?;
    let arms = chosen_arms(args, &skill)?;
    let naming = Naming::of(skillrl::export::folder_name(&args.skill), &SkillPackage::of(&skill));
    let mut planned = Vec::new();
    for agent in agents.iter().copied() {
        let loaded = agent_cases::loaded(args, agent, &place, Some(&set))?;
        let earlier = earlier(args, agent, &loaded)?;
        planned.push(Planned { agent, loaded, earlier });
    }
    if !args.dry_run {
        planned.iter().try_for_each(|planned| agent_cases::check_program(&args.common, planned.agent))?;
    }
    let env = match check_ready(&planned).map_err(|error| ended::worded(args, error)) {
        Err(error) if args.dry_run => {
            say(&format!("warning: {}", error.text().unwrap_or_default()));
            None
        }
        ready => ready?,
    };
    let items = env.as_ref().map(|env| env.items(SPLIT)).unwrap_or_default();
    if !agreed(&cost::Plan { args, set: &set, naming: &naming, items }, &arms, &agents)? {
        return Ok(());
    }
    let (mut outcomes, mut broken, mut spent) = (Vec::new(), Vec::new(), Spent::default());
    let mut shown = Vec::new();
    for mut planned in planned {
        // The caps hold for all agents together.
        let caps = &mut planned.loaded.config.budget;
        caps.calls = args.calls.map(|cap| cap.saturating_sub(spent.calls));
        caps.money = args.budget.map(|cap| (cap - spent.money).max(0.0));
        let (outcome, of_agent, page) = of_agent(args, &planned, (&set, &naming, &arms), &mut spent)
            .map_err(|error| ended::worded(args, error))?;
        shown.push(page);
        if !args.common.json {
            print_wrapped(&format!("{}\n", outcome.text()))?;
        }
        outcomes.push(outcome);
        broken.extend(of_agent.into_iter().map(|limit| match agents.len() {
            1 => limit,
            _ => format!("{}: {limit}", planned.agent.title),
        }));
    }
    if let Some(out) = &args.measurement.out {
        kept::write_page(out, &shown)?;
    }
    if args.common.json {
        print(&format!("{}\n", json!({"agents": outcomes, "broken_limits": broken})))?;
    }
    let compared = match outcomes.as_slice() {
        [only] => only.against.as_ref(),
        _ => None,
    };
    Ok(against::check(&broken, compared)?)
}

/// The earlier measurement of an agent, which can be compared with.
fn earlier(args: &EvalSkillArgs, agent: &Agent, loaded: &LoadedConfig) -> crate::Result<Option<Earlier>> {
    let Some(dir) = &args.measurement.against else { return Ok(None) };
    let earlier = against::read(&dir.join(&agent.name).join(CURRENT))?;
    let mut engine = Engine::new(loaded);
    let env = world::environment(loaded, engine.judge()?)?;
    let target = engine.model(skillrl::config::ModelRole::Target)?;
    let settings = skillrl::measurement::identity(loaded, env.as_ref(), SPLIT, target.id());
    earlier.check_items(env.items(SPLIT), &settings, SPLIT).map_err(skillrl::Error::from)?;
    earlier.check_runs(usize::from(args.runs)).map_err(skillrl::Error::from)?;
    Ok(Some(earlier))
}

/// Looks whether cases, grader, sandbox and agents can be used, before a person is asked; returns the cases.
fn check_ready(planned: &[Planned]) -> crate::Result<Option<Arc<dyn Env>>> {
    let mut env = None;
    for planned in planned {
        let mut engine = Engine::new(&planned.loaded);
        let judge = engine.judge()?;
        engine.model(skillrl::config::ModelRole::Target)?;
        // The projects of the cases are the same for all agents.
        if env.is_none() {
            env = Some(world::environment(&planned.loaded, judge)?);
        }
    }
    Ok(env)
}

/// The arms, the one without a skill first.
fn chosen_arms(args: &EvalSkillArgs, skill: &SkillDoc) -> crate::Result<Vec<Arm>> {
    let mut arms = vec![Arm { name: NONE, title: NONE.to_owned(), skill: SkillDoc::default() }];
    match previous::previous(&args.skill, skill, args.previous.as_deref())? {
        Some(previous) => arms.push(Arm { name: PREVIOUS, title: previous.name, skill: previous.skill }),
        None if !args.common.quiet => {
            say("note: git has no previous version of the skill, so it is compared with no skill only");
        }
        None => {}
    }
    arms.push(Arm { name: CURRENT, title: CURRENT.to_owned(), skill: skill.clone() });
    Ok(arms)
}

/// Says what it takes, and asks a person at a terminal; true if it begins.
fn agreed(plan: &cost::Plan<'_>, arms: &[Arm], agents: &[&Agent]) -> crate::Result<bool> {
    let cost::Plan { args, set, .. } = plan;
    let runs = usize::from(args.runs);
    let counting: Vec<BTreeSet<&str>> = agents.iter().map(|agent| plan.counting(agent)).collect();
    let n_left = |(agent, counting): (&&Agent, &BTreeSet<&str>)| -> usize {
        arms.iter().map(|arm| plan.n_left(agent, arm, counting)).sum()
    };
    let n_left: Vec<usize> = agents.iter().zip(&counting).map(n_left).collect();
    let n_starts: usize = n_left.iter().sum();
    let graded = || set.cases.iter().filter(|case| case.checks.iter().any(Check::needs_grader));
    // The control is graded once, on all cases.
    let n_of_runs = |counting: &BTreeSet<&str>| {
        graded().filter(|case| counting.contains(case.id.as_str())).count() * runs * arms.len()
    };
    let n_calls: usize = counting.iter().map(|counting| graded().count() + n_of_runs(counting)).sum();
    let known: Vec<Known> = agents.iter().map(|agent| Known::on_record(args, agent)).collect();
    let dollars: Option<f64> = known.iter().zip(&n_left).map(|(known, n_left)| known.of_runs(*n_left)).sum();
    if args.dry_run && args.common.json {
        let found = json!({"starts": n_starts, "grader_calls": n_calls, "dollars": dollars});
        print(&format!("{found}\n"))?;
        return Ok(false);
    }
    let titles: Vec<&str> = agents.iter().map(|agent| agent.title.as_str()).collect();
    let names: Vec<&str> = arms.iter().map(|arm| arm.name).collect();
    let cost_of = |((agent, known), n_left): ((&&Agent, &Known), &usize)| {
        let unknown = || "the cost is known after the first arm".to_owned();
        let words = known.words(*n_left).unwrap_or_else(unknown);
        if agents.len() == 1 { words } else { format!("{}: {words}", agent.title) }
    };
    let costs: Vec<String> = agents.iter().zip(&known).zip(&n_left).map(cost_of).collect();
    let n_all: usize = counting.iter().map(|counting| counting.len() * runs * arms.len()).sum();
    let n_cases = counting.iter().map(BTreeSet::len).max().unwrap_or_default();
    let cases = match set.cases.len() - n_cases {
        0 => counted(n_cases as u64, "case"),
        _ => format!("{n_cases} of {}", counted(set.cases.len() as u64, "case")),
    };
    let on_record = match n_all - n_starts {
        0 => String::new(),
        n => format!("; {} on record", counted(n as u64, "further run")),
    };
    let words = format!(
        "at most {} of {} ({}, {} each, arms {}{on_record}) and {} of the grader; {}",
        counted(n_starts as u64, "start"),
        titles.join(", "),
        cases,
        counted(runs as u64, "run"),
        names.join(", "),
        counted(n_calls as u64, "call"),
        costs.join("; "),
    );
    if args.dry_run {
        print(&format!("{words}\nnothing was started\n"))?;
        for missing in agents.iter().filter_map(|agent| agent_cases::check_program(&args.common, agent).err())
        {
            say(&format!("warning: {missing}"));
        }
        return Ok(false);
    }
    if !args.common.quiet {
        say(&words);
        if let Some(cap) = args.calls.filter(|cap| *cap < (n_starts + n_calls) as u64) {
            say(&format!("note: --calls {cap} stops before the end; with --out the same command goes on"));
        }
        if runs == 1 {
            say("note: with one run per case the interval does not cover variation between runs");
        }
    }
    confirm(args.yes || n_starts == 0 || args.calls.is_some() || args.budget.is_some())?;
    Ok(true)
}

/// Measures all arms with one agent and adds what that took to `spent`; the limits that the agent does not keep come with
/// its outcome.
fn of_agent(
    args: &EvalSkillArgs,
    planned: &Planned,
    (set, naming, arms): (&CaseSet, &Naming, &[Arm]),
    spent: &mut Spent,
) -> crate::Result<(Outcome, Vec<String>, kept::OfAgent)> {
    let Planned { agent, loaded, earlier } = planned;
    let runs = usize::from(args.runs);
    let mut engine = Engine::new(loaded);
    let env = world::environment(loaded, engine.judge()?)?;
    let out = args.measurement.out.as_ref().map(|out| out.join(&agent.name));
    let is_quiet = args.common.quiet || args.common.json;
    let target = engine.model(skillrl::config::ModelRole::Target)?;
    let model = target.id().to_string();
    let bench = Bench {
        loaded,
        engine: &engine,
        env: &env,
        target,
        out: out.as_deref(),
        force: args.measurement.force,
        is_quiet,
    };
    let idle = Arm { name: IDLE, title: IDLE.to_owned(), skill: SkillDoc::default() };
    let control = bench.measure(&idle, (1, &BTreeMap::new()), Some(does_nothing()))?;
    let excluded = outcome::excluded(&control, set, naming);
    if !is_quiet && !excluded.is_empty() {
        let names: Vec<&str> = excluded.keys().map(|id| id.as_str()).collect();
        say(&format!("{}: excluded, and not run: {}", agent.title, names.join(", ")));
    }
    let (mut measured, mut known): (Vec<Measured>, Known) = (Vec::new(), Known::default());
    for (idx, arm) in arms.iter().enumerate() {
        if !is_quiet {
            say(&format!("{}, {}:", agent.title, arm.title));
        }
        let found = bench.measure(arm, (runs, &excluded), None)?;
        let cost = known.add_results(&found.results, agent_cases::prices_of(&args.common));
        let n_left = found.results.len() * (arms.len() - idx - 1);
        if !is_quiet && let Some(left) = known.of_runs(n_left) {
            let left =
                if n_left > 0 { format!("; the other arms: about {}", dollars(left)) } else { String::new() };
            say(&format!("{} cost {}{left}", counted(found.results.len() as u64, "run"), dollars(cost)));
        }
        measured.push(found);
    }
    let Some(current) = measured.last() else {
        return Err(CommandError::new("no arm to measure").into());
    };
    let of_agent = engine.budget().spent();
    spent.calls = spent.calls.saturating_add(of_agent.calls);
    spent.money += of_agent.money;
    let cases = outcome::cases(&control, &measured, &excluded);
    let against = match earlier {
        Some(earlier) if !current.results.is_empty() => Some(earlier.compare(loaded, &current.results)?),
        Some(_) | None => None,
    };
    let limits = Limits { fail_on_drop: args.measurement.fail_on_drop, ..Limits::default() };
    let broken = limits.broken(current.summary.hard, against.as_ref());
    if let Some(out) = &out {
        write_files(out, &skillrl::export::folder_name(&args.skill), &measured)?;
    }
    let of_arms: Vec<_> = measured.iter().zip(arms.iter().map(|arm| arm.skill.hash())).collect();
    let page = kept::OfAgent::new((&agent.title, &model), &of_arms);
    let outcome = Outcome { against, ..Outcome::of(&agent.name, runs, cases, &measured) };
    if let Some(out) = &out {
        kept::write_outcome(out, &outcome)?;
    }
    Ok((outcome, broken, page))
}

/// Writes what skill-creator's viewer opens.
fn write_files(out: &Path, skill: &str, measured: &[Measured]) -> crate::Result<()> {
    let viewed = |name: &str| match name {
        CURRENT => "with_skill",
        NONE => "without_skill",
        _ => "old_skill",
    };
    let mut rows: Vec<_> = measured.iter().map(|arm| arm.rows(viewed(arm.name))).collect();
    // The difference is that of the skill to none.
    rows.sort_by_key(|arm| match arm.name.as_str() {
        "with_skill" => 0,
        "without_skill" => 1,
        _ => 2,
    });
    let workspace = out.join("workspace");
    write_workspace(&workspace, skill, &rows).writing(&workspace)
}
