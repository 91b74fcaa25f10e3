//! `skillrl collect`: episodes of an environment, as data.

use super::UsageError;
use super::eval::choose_skill;
use super::kept::{KeptCalls, described_spend};
use super::start::{load_start, simulated_line};
use crate::args::CollectArgs;
use crate::progress::{Progress, Show};
use crate::table::counted;
use serde_json::json;
use skillrl::assemble::{self, ModelRole};
use skillrl::bank::episode::{AgentKind, Episode, EpisodeAgent, episode_line};
use skillrl::engine::{Engine, simulated_models};
use skillrl::envs::Item;
use skillrl::envs::source::document;
use skillrl::llm::ChatModel;
use skillrl::pipeline::bank::collect::{attempts, collect};
use skillrl::pipeline::run_dir::atomic;
use skillrl::pipeline::stage::StageCtx;
use skillrl::pipeline::stage::rollout::Rollouts;
use skillrl::pipeline::stage::silence::empty_replies;
use skillrl::pipeline::{PipelineError, Stage, StopSignal};
use std::collections::BTreeMap;
use std::sync::Arc;

pub(crate) fn run(args: &CollectArgs) -> anyhow::Result<()> {
    let mut start = args.config.start();
    start.is_without_models = args.expert;
    let loaded = load_start(&start, args.quiet)?;
    let split = assemble::split(&args.split)?;
    let (_, skill) = choose_skill(&loaded, args.skill.as_deref())?;
    if args.out.is_dir() {
        let message = format!("{} is a directory, and episodes are one file", args.out.display());
        return Err(UsageError::new(message).with_hint("name a file, such as trajectories.jsonl").into());
    }
    let mut engine = Engine::new(&loaded);
    let env = assemble::environment_with(&loaded, engine.judge()?)?;
    let target = match args.expert {
        true => engine.expert()?,
        false => engine.model(ModelRole::Target)?,
    };
    let simulated = match args.expert {
        true => Vec::new(),
        false => simulated_models(&loaded.config, &[ModelRole::Target]),
    };
    let kind = match (args.expert, simulated.is_empty()) {
        (true, _) => AgentKind::Expert,
        (false, true) => AgentKind::Model,
        (false, false) => AgentKind::Simulated,
    };
    let name = if args.expert { target.id().model.clone() } else { target.id().to_string() };
    let agent = EpisodeAgent::new(kind, name);
    let items: Vec<&Item> = env.items(split).iter().collect();
    if items.is_empty() {
        let error = PipelineError::EmptySplit { env: env.name().to_owned(), split };
        return Err(skillrl::Error::Pipeline(error).into());
    }
    let attempts = attempts(&items, args.episodes.unwrap_or(items.len()));
    // An expert has no calls to keep.
    let kept = (!args.expert).then(|| KeptCalls::beside(&args.out)).transpose()?;
    if let Some(kept) = &kept {
        kept.count_spent(&engine);
    }
    let n_before = engine.budget().spent().calls;
    let chat = |model: Arc<dyn ChatModel>| match &kept {
        Some(kept) => kept.chat(model),
        None => model,
    };
    let judge = env.judge().map(|judge| chat(Arc::clone(judge)));
    let rollouts = Rollouts::local(Arc::clone(&env), chat(target), judge);
    let stop = StopSignal::default();
    let progress = Progress::new(if args.json || args.quiet { Show::Quiet } else { Show::Progress });
    let ctx = StageCtx {
        workers: assemble::settings(&loaded.config)?.workers,
        halt: stop.soon.clone(),
        cancel: stop.now.clone(),
        journal: kept.as_ref().map(|kept| kept.journal.clone()),
        ..StageCtx::new(Stage::Collect, &progress)
    };
    let source = document(&skill);
    let collecting = collect(&rollouts, &attempts, &source, &ctx);
    let collected = super::block_on(stop, "stopping", collecting)?.map_err(skillrl::Error::Pipeline)?;
    let (mut episodes, results): (Vec<Episode>, Vec<_>) = collected.into_iter().unzip();
    if let Some(warning) = empty_replies(&results) {
        super::say(&format!("warning: {warning}"));
    }
    for (episode, result) in episodes.iter_mut().zip(results) {
        episode.agent = Some(agent.clone());
        episode.skill = skill.hash().to_string();
        episode.trajectory = Some(result.trajectory);
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
            "agent": agent,
            "simulated_models": simulated,
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
    match &kept {
        Some(kept) => {
            let spend = described_spend(&loaded, &engine, n_before);
            text.push_str(&format!("calls are kept in {}; {spend}\n", kept.path().display()));
        }
        None => text.push_str(&format!("played by the expert {}, without model calls\n", agent.model)),
    }
    if !args.expert {
        text.push_str(&simulated_line(&start, &loaded, &[ModelRole::Target]));
    }
    super::print_wrapped(&text)
}
