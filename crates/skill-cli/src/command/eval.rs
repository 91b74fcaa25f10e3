//! `skillrl eval`: what a skill is worth on one split.

use super::UsageError;
use super::against::Earlier;
use crate::args::EvalArgs;
use crate::progress::{Progress, Show};
use serde_json::json;
use skillrl::assemble::{self, ModelRole};
use skillrl::config::LoadedConfig;
use skillrl::core::SkillDoc;
use skillrl::engine::Engine;
use skillrl::envs::Split;
use skillrl::llm::{ChatModel, Journal, JournalOptions, Journaled, Metered};
use skillrl::pipeline::run_dir::format::{EvaluationSummary, StageTokens};
use skillrl::pipeline::run_dir::{RunDir, RunStatus, atomic, is_run, run_status, summarise};
use skillrl::pipeline::stage::StageCtx;
use skillrl::pipeline::stage::evaluate::evaluate;
use skillrl::pipeline::{PipelineError, Stage, StopSignal};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;

pub(crate) fn run(args: &EvalArgs) -> anyhow::Result<()> {
    let loaded = super::load_to_run(&args.config)?;
    let split = assemble::split(&args.split)?;
    let earlier = args.against.as_deref().map(Earlier::read).transpose()?;
    let (name, skill) = choose_skill(&loaded, args.skill.as_deref())?;
    let mut engine = Engine::new(&loaded);
    let env = assemble::environment_with(&loaded, engine.judge()?)?;
    let target = engine.model(ModelRole::Target)?;
    if env.items(split).is_empty() {
        let error = PipelineError::EmptySplit { env: env.name().to_owned(), split };
        return Err(skillrl::Error::Pipeline(error).into());
    }
    let run_dir = assemble::run_dir(&loaded);
    if split == Split::Test && run_status(&run_dir) == RunStatus::Unfinished {
        writeln!(
            anstream::stderr(),
            "warning: this is the test split of the run in {}, which is not finished: a skill that is chosen by its test score makes the run's test score worth nothing",
            run_dir.display()
        )
        .unwrap_or_default();
    }

    if let Some(out) = args.out.as_deref().filter(|out| is_run(out)) {
        // Its summary and its journal would become those of this evaluation.
        let message = format!("{} is the directory of a run, which this would damage", out.display());
        return Err(UsageError::new(message).with_hint("name another directory with `--out`").into());
    }
    // A place that cannot be written is found before anything is paid for, and what is paid for is kept there.
    let kept = args.out.as_deref().map(open_kept).transpose().map_err(skillrl::Error::Pipeline)?;
    let journal = kept.as_ref().map(|(_, journal)| journal.clone());
    let layered = |model: Arc<dyn ChatModel>| {
        Metered::new(match &journal {
            Some(journal) => Arc::new(Journaled::new(model, journal.clone())),
            None => model,
        })
    };
    let judge = env.judge().map(|judge| Arc::new(layered(Arc::clone(judge))) as Arc<dyn ChatModel>);
    let target = layered(target);
    let stop = StopSignal::default();
    let progress = Progress::new(if args.json || args.quiet { Show::Quiet } else { Show::Progress });
    let used = Arc::default();
    let ctx = StageCtx {
        workers: assemble::settings(&loaded.config)?.workers,
        halt: stop.soon.clone(),
        cancel: stop.now.clone(),
        journal: journal.clone(),
        judge,
        used: Arc::clone(&used),
        ..StageCtx::new(Stage::Evaluate, &progress)
    };
    let evaluation = super::block_on(stop, "stopping", evaluate(env.as_ref(), split, &skill, &target, &ctx))?
        .map_err(skillrl::Error::Pipeline)?;
    evaluation.check_spoken().map_err(skillrl::Error::Pipeline)?;
    let tokens = StageTokens::from(used.snapshot());
    let summary = summarise(&skill.hash(), &evaluation, tokens);
    let compared = earlier.map(|earlier| earlier.compare(&loaded, &evaluation.results)).transpose()?;
    if args.json {
        let mut value = serde_json::to_value(&summary)?;
        if let Some(fields) = value.as_object_mut() {
            fields.insert("split".to_owned(), json!(split));
            fields.insert("skill".to_owned(), json!(name));
            if let Some(compared) = &compared {
                fields.insert("against".to_owned(), serde_json::to_value(compared)?);
            }
        }
        super::print(&format!("{value}\n"))?;
    } else {
        let against = compared.as_ref().map(super::against::describe).unwrap_or_default();
        super::print(&(describe(&name, split, &summary) + &against))?;
    }
    if let Some(out) = &args.out {
        atomic::write_json(&out.join("results.json"), &evaluation.results)
            .and_then(|()| atomic::write_json(&out.join("summary.json"), &summary))
            .map_err(skillrl::Error::Pipeline)?;
    }
    if let Some(compared) = compared.filter(|_| args.fail_on_drop) {
        super::against::check(&compared)?;
    }
    Ok(())
}

/// Takes the lock of the directory and opens the journal in it: what was measured there before is not measured again.
fn open_kept(out: &Path) -> Result<(RunDir, Journal), PipelineError> {
    let dir = RunDir::open(out)?;
    let journal = dir.open_journal(JournalOptions::default(), false)?;
    Ok((dir, journal))
}

/// The skill that was asked for, else the best one of the run, else the one that a run would start from.
pub(super) fn choose_skill(
    loaded: &LoadedConfig,
    asked: Option<&Path>,
) -> anyhow::Result<(String, SkillDoc)> {
    if let Some(path) = asked {
        return Ok((path.display().to_string(), assemble::read_skill(path)?));
    }
    let best = assemble::run_dir(loaded).join("best_skill.md");
    if best.is_file() {
        return Ok((best.display().to_string(), assemble::best_skill(&assemble::run_dir(loaded))?));
    }
    if let Some(skill) = assemble::initial_skill(loaded)? {
        return Ok(("the initial skill".to_owned(), skill));
    }
    let skill = assemble::environment(loaded)?.initial_skill().unwrap_or_default();
    Ok(("the environment's initial skill".to_owned(), skill))
}

fn describe(name: &str, split: Split, summary: &EvaluationSummary) -> String {
    let mut text = format!(
        "skill  {name} ({})\nsplit  {split}, {} items\nhard   {:.4}\nsoft   {:.4}\n",
        summary.skill_hash, summary.n, summary.hard, summary.soft
    );
    for (task_type, score) in &summary.by_task_type {
        let _ = writeln!(
            text,
            "  {task_type}: hard {:.4}, soft {:.4}, {} items",
            score.hard, score.soft, score.n
        );
    }
    let tokens = &summary.tokens;
    let _ = writeln!(
        text,
        "used   {} calls, {} prompt tokens, {} reply tokens",
        tokens.calls, tokens.prompt_tokens, tokens.completion_tokens
    );
    text
}
