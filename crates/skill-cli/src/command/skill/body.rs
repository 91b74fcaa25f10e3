//! `skillrl train SKILL --agent NAME --only body`: a planned search on the cases of a skill, behind the gate.
//!
//! It is the run that `skillrl train` makes of a configuration with `kind = "evals"`; nothing here trains.

use crate::agent_cases::{
    Asked, check_budget, check_program, leave_out_drafts, needs_grader, prices_of, settings,
};
use crate::args::skill::TrainSkillArgs;
use crate::args::{MadeConfig, Start};
use crate::coding_agent::{cases_place, check_outside, named, usual_place};
use crate::consent::confirm;
use crate::error::CommandError;
use crate::output::say;
use crate::runtime::block_on_unwarned;
use crate::table::grouped;
use crate::{dry_run, training};
use skillrl::core::usage::dollars;
use skillrl::envs::Split;
use skillrl::envs::evals::CaseSet;
use skillrl::estimate::Prepared;
use std::path::PathBuf;

/// Seconds that a run on a case may take where nothing says another limit.
const RUN_SECONDS: u64 = 600;
/// US dollars of a start for which a cap in dollars is planned where no price is known before the first reply.
const PLANNED_DOLLARS: f64 = 0.05;
/// Fewer cases leave nothing to train on or nothing to compare on.
const LEAST_CASES: usize = 10;

pub(super) fn run(args: &TrainSkillArgs) -> crate::Result {
    let measure = &args.measure;
    let agent = named(&measure.agent)?;
    refuse_options_of_queries(args)?;
    measure.dir.iter().try_for_each(|dir| check_outside("--dir", dir))?;
    check_budget(&measure.common, agent, measure.optimizer.as_deref(), measure.budget)?;
    let place = cases_place(&measure.skills, args.cases.as_deref())?;
    let mut set = CaseSet::read(&place).map_err(skillrl::Error::Env)?;
    leave_out_drafts(&mut set, &place)?;
    if set.cases.len() < LEAST_CASES {
        let message = format!(
            "{} has {} cases, and {LEAST_CASES} are the least: some are trained on, and a candidate is compared on the others",
            place.display(),
            set.cases.len()
        );
        return Err(CommandError::of_data(message)
            .with_hint("write more cases; 20 and more are usual")
            .into());
    }
    let name = skillrl::export::folder_name(&measure.skills);
    let dir = measure.dir.clone().unwrap_or_else(|| usual_place(&format!("{name}-body-{}", agent.name)));
    let calls = planned_calls(args);
    let mut settings = settings(&Asked {
        common: &measure.common,
        agent,
        cases: &place,
        is_graded: needs_grader(&set),
        judge: args.judge.as_deref(),
        optimizer: measure.optimizer.as_deref(),
        timeout: measure.timeout.unwrap_or(RUN_SECONDS),
        waits: measure.wait,
        calls,
        budget: measure.budget,
    })?;
    let has_test = set.cases.iter().any(|case| case.split == Some(Split::Test));
    let absolute = |path: &PathBuf| std::path::absolute(path).unwrap_or_else(|_| path.clone());
    settings.extend([
        format!("skill.initial={}", absolute(&measure.skills).display()),
        format!("run.dir={}", absolute(&dir).display()),
        format!("run.seed={}", args.seed),
        format!("eval.test={has_test}"),
        "train.protocol=auto".to_owned(),
    ]);
    if set.cases.iter().any(|case| !case.guards.is_empty()) {
        settings.push("gate.guard=checks".to_owned());
    }
    let start = Start {
        overrides: settings,
        is_training: true,
        agrees: args.yes,
        made: Some(MadeConfig { text: String::new(), origin: "the options".to_owned() }),
        ..Start::default()
    };
    if args.dry_run {
        return dry_run::show(&start, measure.common.json);
    }
    check_program(&measure.common, agent)?;
    agreed(args, &start, &agent.title)?;
    training::train_made(start, &measure.common, args.yes)?;
    if !measure.common.quiet && !measure.common.json {
        let cases = args.cases.as_ref().map(|cases| format!(" --cases {}", cases.display()));
        say(&format!(
            "`skillrl eval {} --agent {} --previous {}{}` measures it beside the skill that it came from",
            dir.join("best_skill").display(),
            agent.name,
            measure.skills.display(),
            cases.unwrap_or_default()
        ));
    }
    Ok(())
}

/// The cap on calls by which the search is planned: without a price, dollars alone leave the number of steps open.
fn planned_calls(args: &TrainSkillArgs) -> Option<u64> {
    let measure = &args.measure;
    let budget = measure.budget.filter(|_| prices_of(&measure.common).is_none());
    let (None, Some(budget)) = (measure.calls, budget) else { return measure.calls };
    let calls = (budget / PLANNED_DOLLARS).ceil().max(1.0) as u64;
    if !measure.common.quiet && !measure.common.json {
        say(&format!(
            "planned with {} calls, at {} each; --calls plans with another number",
            grouped(calls),
            dollars(PLANNED_DOLLARS)
        ));
    }
    Some(calls)
}

/// Options that are about queries would do nothing.
fn refuse_options_of_queries(args: &TrainSkillArgs) -> Result<(), CommandError> {
    let measure = &args.measure;
    let given = [
        ("--queries", measure.queries.is_some()),
        ("--beside", !measure.beside.is_empty()),
        ("--project", measure.project.is_some()),
        ("--with-mcp", measure.with_mcp),
        ("--replay", measure.replay),
        ("--skill", !args.trained.is_empty()),
    ];
    match given.iter().find(|(_, is_given)| *is_given) {
        None => Ok(()),
        Some((option, _)) => {
            Err(CommandError::new(format!("{option} is about queries, and --only body has cases"))
                .with_hint("leave it out; the files of a project belong to a case"))
        }
    }
}

/// Says what the run takes at most, and asks a person at a terminal.
fn agreed(args: &TrainSkillArgs, start: &Start, title: &str) -> crate::Result {
    let measure = &args.measure;
    let loaded = crate::start::read(start)?;
    let estimating = async { Prepared::new(&loaded)?.estimate().await };
    let total = block_on_unwarned(estimating)??.total;
    let cost = total.cost.map_or_else(
        || "the cost is known with --price, or a --model with a list price".to_owned(),
        |[_, most]| format!("at most {}", dollars(most)),
    );
    if !measure.common.quiet {
        say(&format!(
            "at most {} starts of {title}, as agent, optimizer and grader together; {cost}",
            grouped(total.calls.high)
        ));
    }
    confirm(args.yes || measure.calls.is_some() || measure.budget.is_some())
}
