//! `skillrl collect`: episodes of an environment, as data.

use crate::args::{CollectArgs, Start};
use crate::error::{CommandError, OfFile as _};
use crate::measuring::described_spend;
use crate::progress::{Progress, Show};
use crate::start::{Started, is_json, load_started, simulated_line};
use crate::table::counted;
use serde_json::{Value, json};
use skillrl::bank::episode::{Episode, episode_line, krill_trajectories};
use skillrl::call_cache::CallCache;
use skillrl::collect::{CollectRequest, Collecting};
use skillrl::config::{LoadedConfig, ModelRole, OptimizerUse, simulated_models};
use skillrl::core::SkillDoc;
use skillrl::core::canonical::canonical_hash;
use skillrl::engine::Engine;
use skillrl::envs::Split;
use skillrl::llm::regular_file;
use skillrl::pipeline::StopSignal;
use skillrl::world;
use std::collections::BTreeMap;
use std::path::Path;

/// Episodes where no configuration file says how many.
const DEFAULT_EPISODES: usize = 64;

pub(crate) fn run(args: &CollectArgs) -> crate::Result {
    let start = Start {
        is_without_models: args.expert,
        is_phase: true,
        optimizer: OptimizerUse::Nothing,
        ..args.config.start()
    };
    let Started { loaded, is_without_run_dir } = load_started(&start, args.quiet)?;
    let split = world::split(&args.split)?;
    if args.out.is_dir() {
        let message = format!("{} is a directory, and episodes are one file", args.out.display());
        return Err(CommandError::new(message).with_hint("name a file, such as trajectories.jsonl").into());
    }
    let mut engine = Engine::new(&loaded);
    let env = world::environment(&loaded, engine.judge()?)?;
    let (_, skill) = skillrl::skills::chosen(&loaded, args.skill.as_deref(), env.as_ref())?;
    let n_episodes = args.episodes.or(is_without_run_dir.then_some(DEFAULT_EPISODES));
    let inputs = inputs(&loaded, args, n_episodes, &skill);
    let request = CollectRequest { split, n_episodes, expert: args.expert, skill };
    let collecting = Collecting::new(&loaded, &mut engine, env, request)?;
    let agent = collecting.agent().clone();
    let simulated = match args.expert {
        true => Vec::new(),
        false => simulated_models(&loaded.config, &[ModelRole::Target]),
    };
    // An expert has no calls to keep.
    let kept = (!args.expert)
        .then(|| CallCache::beside(&args.out))
        .transpose()
        .map_err(skillrl::Error::of_output)?;
    if let Some(kept) = &kept {
        // A process that died after it had written the file has not noted that it is finished.
        let is_own = kept.is_made_from(&inputs) || kept.is_being_made_from(&inputs);
        if args.out.exists() && !is_own && !args.force {
            return Err(crate::files::is_there_already(&args.out).into());
        }
        kept.count_spent_on(&inputs, &engine)?;
    }
    let n_before = engine.budget().spent().calls;
    let stop = StopSignal::default();
    let progress = Progress::new(if args.json || args.quiet { Show::Quiet } else { Show::Progress });
    let work = collecting.collect(kept.as_ref(), &progress, &stop);
    let collected = crate::runtime::block_on(stop.clone(), "stopping", work)??;
    if let Some(warning) = collected.warning {
        crate::output::say(&format!("warning: {warning}"));
    }
    let episodes = collected.episodes;
    write(args, &episodes, kept.as_ref().map(|kept| (kept, inputs.as_str())))?;

    let counts = Collected::of(&episodes);
    if args.json {
        let value = json!({
            "out": args.out,
            "split": split,
            "episodes": episodes.len(),
            "successes": counts.n_won(),
            "by_task_type": counts.by_type_json(),
            "agent": agent,
            "simulated_models": simulated,
        });
        return crate::output::print(&format!("{value}\n"));
    }
    let mut text = counts.described(&args.out, split);
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
    crate::output::print_wrapped(&text)
}

/// Writes the episodes, and notes beside the kept calls what they were made from.
fn write(args: &CollectArgs, episodes: &[Episode], kept: Option<(&CallCache, &str)>) -> crate::Result {
    let text = match is_json(&args.out) {
        true => krill_trajectories(episodes),
        false => episodes.iter().map(episode_line).collect(),
    };
    let Some((kept, inputs)) = kept else {
        // An expert makes no calls, so the inputs of its file were never recorded: compare the contents.
        if !args.force {
            let found = regular_file::read_if_there(&args.out).reading(args.out.display())?;
            if found.is_some_and(|found| found != text.as_bytes()) {
                return Err(crate::files::is_there_already(&args.out).into());
            }
        }
        return crate::files::write_with_parents(&args.out, text.as_bytes());
    };
    kept.note_begun(inputs)?;
    crate::files::write_with_parents(&args.out, text.as_bytes())?;
    Ok(kept.note_made(inputs)?)
}

/// Episodes by type: how many were won, of how many.
struct Collected<'a> {
    by_type: BTreeMap<&'a str, (usize, usize)>,
}

impl<'a> Collected<'a> {
    fn of(episodes: &'a [Episode]) -> Self {
        let mut by_type: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
        for episode in episodes {
            let (n_won, n) = by_type.entry(&episode.task_type).or_default();
            *n += 1;
            *n_won += usize::from(episode.success);
        }
        Self { by_type }
    }

    fn n_won(&self) -> usize {
        self.by_type.values().map(|(n_won, _)| n_won).sum()
    }

    fn by_type_json(&self) -> BTreeMap<&str, Value> {
        let types = self.by_type.iter();
        types.map(|(name, (n_won, n))| (*name, json!({"episodes": n, "successes": n_won}))).collect()
    }

    fn described(&self, out: &Path, split: Split) -> String {
        let n: usize = self.by_type.values().map(|(_, n)| n).sum();
        let mut text = format!(
            "{}: {} of the {split} split, {} of them successes\n",
            out.display(),
            counted(n as u64, "episode"),
            self.n_won()
        );
        for (name, (n_won, n)) in &self.by_type {
            let name = if name.is_empty() { "without a type" } else { name };
            text.push_str(&format!("  {name}: {n_won} of {n}\n"));
        }
        text
    }
}

/// The hash of everything that decides the episodes.
fn inputs(loaded: &LoadedConfig, args: &CollectArgs, n_episodes: Option<usize>, skill: &SkillDoc) -> String {
    canonical_hash(&json!({
        "config": loaded.config.decisive_json(),
        "episodes": n_episodes,
        "expert": args.expert,
        "skill": skill.hash().to_string(),
        "split": args.split,
    }))
}
