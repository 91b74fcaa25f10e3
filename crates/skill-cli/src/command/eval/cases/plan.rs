//! What is measured: the configuration of one agent, and what it takes.

use crate::args::skill::EvalSkillArgs;
use crate::coding_agent::located;
use crate::command::CommandError;
use crate::command::data_start::judge_settings;
use skill_agents::Agent;
use skillrl::config::{Config, LoadedConfig};
use skillrl::envs::evals::{CaseSet, Check};
use skillrl::llm::agent::{AgentKind, DEFAULT_MODEL};
use std::path::{Path, PathBuf};

/// Where the cases of a skill are.
pub(super) fn cases_place(args: &EvalSkillArgs) -> Result<PathBuf, CommandError> {
    args.cases.clone().or_else(|| CaseSet::usual_place(&args.skill)).ok_or_else(|| {
        CommandError::new(format!(
            "{} has no cases: no evals/evals.json, and no case folders in evals/",
            args.skill.display()
        ))
        .with_hint("write evals/evals.json, or name a file or a folder of cases with --cases")
    })
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
        add("timeout_s", &args.timeout.max(1).to_string());
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
    if let Some(calls) = args.calls {
        settings.push(format!("budget.calls={calls}"));
    }
    if let Some(budget) = args.budget {
        settings.push(format!("budget.money={budget}"));
    }
    Ok(Config::parse("", "the options", &settings).map_err(skillrl::Error::Config)?)
}
