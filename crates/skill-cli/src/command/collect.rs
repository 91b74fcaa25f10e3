//! `skillrl collect`: episodes of an environment, as data.

use super::UsageError;
use super::eval::choose_skill;
use super::kept::{KeptCalls, described_spend};
use crate::args::CollectArgs;
use crate::progress::{Progress, Show};
use crate::table::counted;
use serde_json::json;
use skillrl::assemble::{self, ModelRole};
use skillrl::bank::episode::episode_line;
use skillrl::engine::Engine;
use skillrl::envs::Item;
use skillrl::envs::source::document;
use skillrl::pipeline::bank::collect::{attempts, collect};
use skillrl::pipeline::run_dir::atomic;
use skillrl::pipeline::stage::StageCtx;
use skillrl::pipeline::stage::rollout::Rollouts;
use skillrl::pipeline::stage::silence::empty_replies;
use skillrl::pipeline::{PipelineError, Stage, StopSignal};
use std::collections::BTreeMap;
use std::sync::Arc;

pub(crate) fn run(args: &CollectArgs) -> anyhow::Result<()> {
    let loaded = super::load_to_run(&args.config)?;
    let split = assemble::split(&args.split)?;
    let (_, skill) = choose_skill(&loaded, args.skill.as_deref())?;
    if args.out.is_dir() {
        let message = format!("{} is a directory, and episodes are one file", args.out.display());
        return Err(UsageError::new(message).with_hint("name a file, such as trajectories.jsonl").into());
    }
    let mut engine = Engine::new(&loaded);
    let env = assemble::environment_with(&loaded, engine.judge()?)?;
    let target = engine.model(ModelRole::Target)?;
    let items: Vec<&Item> = env.items(split).iter().collect();
    if items.is_empty() {
        let error = PipelineError::EmptySplit { env: env.name().to_owned(), split };
        return Err(skillrl::Error::Pipeline(error).into());
    }
    let attempts = attempts(&items, args.episodes.unwrap_or(items.len()));
    let kept = KeptCalls::beside(&args.out)?;
    kept.count_spent(&engine);
    let n_before = engine.budget().spent().calls;
    let judge = env.judge().map(|judge| kept.chat(Arc::clone(judge)));
    let rollouts = Rollouts::local(Arc::clone(&env), kept.chat(target), judge);
    let stop = StopSignal::default();
    let progress = Progress::new(if args.json || args.quiet { Show::Quiet } else { Show::Progress });
    let ctx = StageCtx {
        workers: assemble::settings(&loaded.config)?.workers,
        halt: stop.soon.clone(),
        cancel: stop.now.clone(),
        journal: Some(kept.journal.clone()),
        ..StageCtx::new(Stage::Collect, &progress)
    };
    let source = document(&skill);
    let collecting = collect(&rollouts, &attempts, &source, &ctx);
    let collected = super::block_on(stop, "stopping", collecting)?.map_err(skillrl::Error::Pipeline)?;
    let (episodes, results): (Vec<_>, Vec<_>) = collected.into_iter().unzip();
    if let Some(warning) = empty_replies(&results) {
        super::say(&format!("warning: {warning}"));
    }
    let text: String = episodes.iter().map(episode_line).collect();
    atomic::write(&args.out, text.as_bytes()).map_err(skillrl::Error::Pipeline)?;

    let mut by_type: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for episode in &episodes {
        let (n_won, n) = by_type.entry(&episode.task_type).or_default();
        *n += 1;
        *n_won += usize::from(episode.success);
    }
    let n_won: usize = by_type.values().map(|(n_won, _)| n_won).sum();
    if args.json {
        let types: BTreeMap<_, _> = by_type
            .iter()
            .map(|(name, (n_won, n))| (*name, json!({"episodes": n, "successes": n_won})))
            .collect();
        let value = json!({
            "out": args.out,
            "split": split,
            "episodes": episodes.len(),
            "successes": n_won,
            "by_task_type": types,
        });
        return super::print(&format!("{value}\n"));
    }
    let mut text = format!(
        "{}: {} of the {split} split, {n_won} of them successes\n",
        args.out.display(),
        counted(episodes.len() as u64, "episode"),
    );
    for (name, (n_won, n)) in by_type {
        let name = if name.is_empty() { "without a type" } else { name };
        text.push_str(&format!("  {name}: {n_won} of {n}\n"));
    }
    text.push_str(&format!(
        "calls are kept in {}; {}\n",
        kept.path().display(),
        described_spend(&loaded, &engine, n_before)
    ));
    super::print_wrapped(&text)
}
