//! What is measured: the configuration of one agent, and what it takes.

use crate::args::skill::EvalSkillArgs;
use crate::coding_agent::located;
use crate::command::data_start::judge_settings;
use crate::command::{CommandError, say};
use skill_agents::Agent;
use skillrl::config::{Config, LoadedConfig};
use skillrl::envs::evals::{CaseSet, Check};
use skillrl::llm::agent::{AgentKind, DEFAULT_MODEL};
use std::path::{Path, PathBuf};

/// What to do about drafts.
const REVIEW: &str = "review them, and set `\"reviewed\": true`";
/// Seconds that a call may take with all its attempts, besides the time limit of a run.
const CALL_SECONDS: u64 = 1_800;

/// Where the cases of a skill are.
pub(super) fn cases_place(args: &EvalSkillArgs) -> Result<PathBuf, CommandError> {
    args.cases.clone().or_else(|| CaseSet::usual_place(&args.skill)).ok_or_else(|| {
        CommandError::new(format!(
            "{} has no cases: no evals/evals.json, and no case folders in evals/",
            args.skill.display()
        ))
        .with_hint(
            "write evals/evals.json, have a first set drafted with --draft 8, or name a file or a folder of cases with --cases",
        )
    })
}

/// Takes out the cases that no person has reviewed, by name.
pub(super) fn leave_out_drafts(set: &mut CaseSet, place: &Path) -> Result<(), CommandError> {
    let drafts = set.drafts();
    if drafts.is_empty() {
        return Ok(());
    }
    let names = drafts.join(", ");
    if drafts.len() == set.cases.len() {
        let message = format!("all cases of {} are drafts: {names}", place.display());
        return Err(CommandError::of_data(message).with_hint(REVIEW));
    }
    say(&format!("left out as drafts: {names}; {REVIEW}"));
    set.cases.retain(|case| case.is_reviewed);
    Ok(())
}

/// Looks for the program of an agent and for what it cannot do without.
pub(super) fn check_program(args: &EvalSkillArgs, agent: &Agent) -> Result<(), CommandError> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_there = |program: &str| match Path::new(program).components().count() {
        1 => std::env::split_paths(&path).any(|folder| folder.join(program).is_file()),
        _ => Path::new(program).is_file(),
    };
    let program = args.common.program.as_ref().map_or_else(|| agent.program.clone(), |named| located(named));
    if !is_there(&program) {
        let message = format!("the program of {} is not there: {program}", agent.title);
        return Err(CommandError::new(message).with_hint(format!(
            "install it (`npm install --global {}`), or name its program with --program",
            agent.package
        )));
    }
    match agent.needs.iter().find(|program| !is_there(program)) {
        None => Ok(()),
        Some(needed) => {
            let message = format!("{} needs the program {needed:?}, and it is not on the PATH", agent.title);
            Err(CommandError::new(message).with_hint("install it: without it no skill is loaded"))
        }
    }
}

/// The kind of model that an agent is.
pub(super) fn kind_of(agent: &Agent) -> Result<AgentKind, CommandError> {
    let is_it = |kind: &&AgentKind| kind.row().ok().flatten().is_some_and(|row| row.name == agent.name);
    AgentKind::ALL
        .iter()
        .find(is_it)
        .copied()
        .ok_or_else(|| CommandError::new(format!("{} cannot work on cases", agent.title)))
}

/// The variables that the agent gets: those of its sign-in that are set, and those that are named.
fn passed(args: &EvalSkillArgs, agent: &Agent) -> Vec<String> {
    let start = &agent.start;
    let is_of_sign_in = |name: &String| {
        start.pass_env.iter().any(|prefix| name.starts_with(prefix.as_str()))
            && !start.hidden_env.contains(name)
    };
    let set = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok()).filter(is_of_sign_in);
    let mut passed: Vec<String> = set.chain(args.common.pass_env.iter().cloned()).collect();
    passed.sort();
    passed.dedup();
    passed
}

/// The configuration of a measurement with one agent.
pub(super) fn loaded(
    args: &EvalSkillArgs,
    (agent, kind): (&Agent, AgentKind),
    cases: &Path,
    set: &CaseSet,
) -> crate::Result<LoadedConfig> {
    let mut settings: Vec<String> = Vec::new();
    let mut add = |key: &str, value: &str| settings.push(format!("{key}={value}"));
    let absolute = std::path::absolute(cases).unwrap_or_else(|_| cases.to_owned());
    add("env.kind", "evals");
    add("env.cases", &absolute.display().to_string());
    add("env.measure_only", "true");
    let is_graded = set.cases.iter().any(|case| case.checks.iter().any(Check::needs_grader));
    if is_graded {
        add("env.grader", "judge");
    }
    let model = args.common.model.as_deref().unwrap_or(DEFAULT_MODEL);
    let mut roles = vec![("target", true), ("optimizer", false)];
    if is_graded && args.judge.is_none() {
        roles.push(("judge", false));
    }
    for (role, is_target) in roles {
        let mut add = |key: &str, value: &str| settings.push(format!("models.{role}.{key}={value}"));
        add("kind", "agent");
        add("agent", kind.as_str());
        add("model", model);
        add("traces", "false");
        add("timeout_s", &args.timeout.to_string());
        if let Some(program) = &args.common.program {
            add("command", &serde_json::json!([located(program)]).to_string());
        }
        let passed = passed(args, agent);
        if !passed.is_empty() {
            add("pass_env", &serde_json::json!(passed).to_string());
        }
        if let Some(price) = args.common.price {
            add("price_input", &format!("{:?}", price.input));
            add("price_output", &format!("{:?}", price.output));
        }
        if is_target {
            add("skill_as", "package");
            add("sandbox", "workspace");
        }
    }
    if let (true, Some(judge)) = (is_graded, &args.judge) {
        settings.extend(judge_settings(judge)?);
    }
    settings.push(format!("run.workers={}", args.common.concurrency.clamp(1, 32)));
    settings.push(format!("retry.call_timeout_s={}", args.timeout + CALL_SECONDS));
    if args.wait {
        settings.push("retry.wait_for_account=true".to_owned());
    }
    if let Some(calls) = args.calls {
        settings.push(format!("budget.calls={calls}"));
    }
    if let Some(budget) = args.budget {
        settings.push(format!("budget.money={budget}"));
    }
    Ok(Config::parse("", "the options", &settings).map_err(skillrl::Error::Config)?)
}
