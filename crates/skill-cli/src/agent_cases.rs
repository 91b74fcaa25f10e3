//! Runs of a coding agent on the cases of a skill: their configuration, prices and checks before a start.

use crate::args::Price;
use crate::args::skill::{AgentArgs, EvalSkillArgs};
use crate::coding_agent::{check_needs, is_installed, kind_of, located};
use crate::data_start::of_role;
use crate::error::CommandError;
use crate::output::say;
use skill_agents::Agent;
use skillrl::config::{Config, LoadedConfig};
use skillrl::envs::evals::{CaseSet, Check};
use skillrl::llm::Prices;
use skillrl::llm::agent::DEFAULT_MODEL;
use skillrl::llm::price_table::{ListPrices, list_prices_of};
use std::path::Path;

/// What to do about drafts.
const REVIEW: &str = "review them, and set `\"reviewed\": true`";
/// Seconds that a call may take with all its attempts, besides the time limit of a run.
const CALL_SECONDS: u64 = 1_800;

/// Takes out the cases that no person has reviewed, by name.
pub(crate) fn leave_out_drafts(set: &mut CaseSet, place: &Path) -> Result<(), CommandError> {
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

/// Looks for the program of an agent and for those that it needs.
pub(crate) fn check_program(common: &AgentArgs, agent: &Agent) -> Result<(), CommandError> {
    let program = common.program.as_ref().map_or_else(|| agent.program.clone(), |named| located(named));
    if !is_installed(&program) {
        let message = format!("the program of {} is not found: {program}", agent.title);
        return Err(CommandError::new(message).with_hint(format!(
            "install it (`npm install --global {}`), or name its program with --program",
            agent.package
        )));
    }
    check_needs(agent)
}

/// What a run on cases with an agent is configured by.
pub(crate) struct Asked<'a> {
    pub(crate) common: &'a AgentArgs,
    pub(crate) agent: &'a Agent,
    pub(crate) cases: &'a Path,
    /// Whether a model grades expectations.
    pub(crate) is_graded: bool,
    pub(crate) judge: Option<&'a str>,
    /// The optimizer's model, as the agent names it.
    pub(crate) optimizer: Option<&'a str>,
    /// Seconds that a run may take.
    pub(crate) timeout: u64,
    pub(crate) waits: bool,
    pub(crate) calls: Option<u64>,
    pub(crate) budget: Option<f64>,
}

/// Whether a model has to grade any check of these cases.
pub(crate) fn needs_grader(set: &CaseSet) -> bool {
    set.cases.iter().any(|case| case.checks.iter().any(Check::needs_grader))
}

/// The variables that the agent gets: those of its sign-in that are set, and those that are named.
fn passed(common: &AgentArgs, agent: &Agent) -> Vec<String> {
    let start = &agent.start;
    let is_of_sign_in = |name: &String| {
        start.pass_env.iter().any(|prefix| name.starts_with(prefix.as_str()))
            && !start.hidden_env.contains(name)
    };
    let set = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok()).filter(is_of_sign_in);
    let mut passed: Vec<String> = set.chain(common.pass_env.iter().cloned()).collect();
    passed.sort();
    passed.dedup();
    passed
}

/// The prices of the agent's model: those of `--price`, else the list prices of `--model`.
pub(crate) fn prices_of(common: &AgentArgs) -> Option<Prices> {
    prices(common, common.model.as_deref())
}

/// The prices of a model that an agent uses: those of `--price`, else its list prices.
fn prices(common: &AgentArgs, model: Option<&str>) -> Option<Prices> {
    let given = common.price.map(|Price { input, output }| ListPrices { input, cached: None, output });
    given.or_else(|| list_prices_of(model?)).map(Prices::from)
}

/// Refuses a cap in dollars where the calls of a model cannot be counted, by prices or as the agent reports them;
/// `optimizer` is another model than the agent's.
pub(crate) fn check_budget(
    common: &AgentArgs,
    agent: &Agent,
    optimizer: Option<&str>,
    budget: Option<f64>,
) -> Result<(), CommandError> {
    let unpriced = [common.model.as_deref()].into_iter().chain(optimizer.map(Some));
    let Some(unpriced) = unpriced.into_iter().find(|model| prices(common, *model).is_none()) else {
        return Ok(());
    };
    if budget.is_none() || agent.reports_cost() {
        return Ok(());
    }
    let message = match unpriced {
        Some(model) => format!("--budget needs prices, and {model} has no list price here"),
        None => {
            format!("--budget needs prices: {} reports no cost, and its own model is not known", agent.title)
        }
    };
    Err(CommandError::new(message).with_hint(
        "give --price IN,OUT, or --model with the full name of a model such as claude-haiku-4-5, or cap the starts with \
         --calls",
    ))
}

/// The configuration of a measurement with one agent; without a set, that of the agent which writes the cases.
pub(crate) fn loaded(
    args: &EvalSkillArgs,
    agent: &Agent,
    cases: &Path,
    set: Option<&CaseSet>,
) -> crate::Result<LoadedConfig> {
    let mut settings = settings(&Asked {
        common: &args.common,
        agent,
        cases,
        is_graded: set.is_some_and(needs_grader),
        judge: args.judge.as_deref(),
        optimizer: None,
        timeout: args.timeout,
        waits: args.wait,
        calls: args.calls,
        budget: args.budget,
    })?;
    settings.push("env.measure_only=true".to_owned());
    Ok(Config::parse("", "the options", &settings)?)
}

/// The settings of a run on cases with one agent.
pub(crate) fn settings(asked: &Asked<'_>) -> crate::Result<Vec<String>> {
    let Asked { common, agent, .. } = asked;
    let kind = kind_of(agent)?;
    let mut settings: Vec<String> = Vec::new();
    let mut add = |key: &str, value: &str| settings.push(format!("{key}={value}"));
    let absolute = std::path::absolute(asked.cases).unwrap_or_else(|_| asked.cases.to_owned());
    add("env.kind", "evals");
    add("env.cases", &absolute.display().to_string());
    if asked.is_graded {
        add("env.grader", "judge");
    }
    let model = common.model.as_deref().unwrap_or(DEFAULT_MODEL);
    let mut roles = vec![("target", model, true), ("optimizer", asked.optimizer.unwrap_or(model), false)];
    if asked.is_graded && asked.judge.is_none() {
        roles.push(("judge", model, false));
    }
    for (role, model, is_target) in roles {
        let mut add = |key: &str, value: &str| settings.push(format!("models.{role}.{key}={value}"));
        add("kind", "agent");
        add("agent", kind.as_str());
        add("model", model);
        add("traces", "false");
        add("timeout_s", &asked.timeout.to_string());
        if let Some(program) = &common.program {
            add("command", &serde_json::json!([located(program)]).to_string());
        }
        let passed = passed(common, agent);
        if !passed.is_empty() {
            add("pass_env", &serde_json::json!(passed).to_string());
        }
        if let Some(price) = prices(common, Some(model)) {
            add("price_input", &format!("{:?}", price.input));
            add("price_cached", &format!("{:?}", price.cached));
            add("price_output", &format!("{:?}", price.output));
        }
        if is_target {
            add("skill_as", "package");
            add("sandbox", "workspace");
        }
    }
    if let (true, Some(judge)) = (asked.is_graded, asked.judge) {
        settings.extend(of_role("judge", judge, (None, None))?);
    }
    settings.push(format!("run.workers={}", common.concurrency.clamp(1, 32)));
    settings.push(format!("retry.call_timeout_s={}", asked.timeout + CALL_SECONDS));
    if asked.waits {
        settings.push("retry.wait_for_account=true".to_owned());
    }
    if let Some(calls) = asked.calls {
        settings.push(format!("budget.calls={calls}"));
    }
    if let Some(budget) = asked.budget {
        settings.push(format!("budget.money={budget}"));
    }
    Ok(settings)
}
