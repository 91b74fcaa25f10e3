//! `skillrl env play`: a person, or a program, in the place of the agent.

use crate::args::{EnvPlayArgs, Start, StartArgs};
use crate::command::{CommandError, block_on, print, print_json};
use crate::error::OfFile as _;
use crate::start::load_start;
use crate::table::harmless;
use serde::Serialize;
use skillrl::config::{Config, EnvKind, FILE_NAME, LoadedConfig, OptimizerUse};
use skillrl::envs::alfworld::{self, AlfworldEpisode};
use skillrl::envs::{Episode, Item, Observation, Split, World};
use skillrl::pipeline::StopSignal;
use skillrl::world;
use std::io::{BufRead as _, IsTerminal as _};
use std::path::Path;
use std::sync::Arc;

/// A configuration for anyone who has none: nothing of it is asked but the world.
const WORLD_ALONE: &str =
    "[models]\ntarget = { kind = \"simulated\" }\noptimizer = { kind = \"simulated\" }\n[env]\nkind = ";

/// One line of `--json`.
#[derive(Serialize)]
struct Line<'a> {
    observation: &'a str,
    admissible: Option<&'a [String]>,
    reward: f64,
    done: bool,
    won: bool,
}

pub(crate) fn play(args: &EnvPlayArgs) -> crate::Result {
    let mut episode: Box<dyn Episode> = match &args.game {
        Some(file) => {
            let loaded = alfworld::load(file).map_err(skillrl::Error::Env)?;
            Box::new(AlfworldEpisode::new(Arc::new(loaded.game)))
        }
        None => {
            let loaded = configuration(&args.config, args.goal)?;
            let world = world::playable(&loaded, None)?.ok_or_else(|| {
                let kind = loaded.config.env.kind();
                CommandError::new(format!("the environment `{kind}` has no turns to be played"))
                    .with_hint("`skillrl env check --answer TEXT` tries an answer")
            })?;
            let item = item(world.as_ref(), args)?;
            world.episode(&item).map_err(skillrl::Error::Attempt)?
        }
    };
    block_on(StopSignal::default(), "stopping", turns(episode.as_mut(), args.json))?
}

/// The configuration file, or that of a world alone.
pub(super) fn configuration(args: &StartArgs, goal: Option<usize>) -> crate::Result<LoadedConfig> {
    let start = Start { optimizer: OptimizerUse::Teaching, ..args.start() };
    let path = start.file.as_deref().unwrap_or(Path::new(FILE_NAME));
    // A world can be named in the place of a configuration file.
    let world = path.to_str().and_then(EnvKind::parse).filter(|kind| kind.is_built_in_world());
    let named = world.filter(|_| !path.exists()).or(start.env.filter(|_| start.file.is_none()));
    // Only the shop has goals, so nobody has to say which world is meant.
    let meant = (goal.is_some() && !path.exists()).then_some(EnvKind::Webshop);
    let Some(kind) = named.or(meant) else { return load_start(&start, true) };
    let mut overrides = start.overrides.clone();
    let splits = "env.goal_split=";
    if goal.is_some() && !overrides.iter().any(|setting| setting.starts_with(splits)) {
        // Who plays a goal by its number needs no splits, and small files have too few goals for the paper's.
        overrides.push(format!("{splits}ratio"));
    }
    let loaded =
        Config::parse(&format!("{WORLD_ALONE}\"{}\"\n", kind.as_str()), "the command line", &overrides)?;
    loaded.check_paths()?;
    Ok(loaded)
}

/// The item that was asked for, or the first one that there is.
fn item(world: &dyn World, args: &EnvPlayArgs) -> crate::Result<Item> {
    if let Some(goal) = args.goal {
        return Ok(Item::new(format!("goal-{goal}"), serde_json::json!({"goal": goal})));
    }
    let mut all = Split::ALL.into_iter().flat_map(|split| world.items(split));
    let found = match &args.item {
        None => all.next(),
        Some(id) => all.find(|item| item.id.as_str() == id),
    };
    found.cloned().ok_or_else(|| {
        let what = args.item.as_deref().map_or_else(String::new, |id| format!(" `{id}`"));
        let first = Split::ALL.into_iter().flat_map(|split| world.items(split)).next();
        let error = CommandError::new(format!("item{what} not found"));
        match first {
            Some(first) => error.with_hint(format!("the first one is `{}`", first.id)).into(),
            None => error.into(),
        }
    })
}

/// Reads actions from standard input until there are none.
async fn turns(episode: &mut dyn Episode, json: bool) -> crate::Result {
    // A person is let go at the end; a program may go on, as it may with the original.
    let is_person = std::io::stdin().is_terminal();
    let mut seen = episode.reset().await.map_err(skillrl::Error::Attempt)?;
    let mut reward = seen.reward;
    show(&seen, json)?;
    if is_person && !json {
        eprint_hint(&seen);
    }
    let mut lines = std::io::stdin().lock().lines();
    while !(is_person && seen.done) {
        let Some(action) = lines.next().transpose().reading("standard input")? else { break };
        seen = episode.step(action.trim_end_matches('\r')).await.map_err(skillrl::Error::Attempt)?;
        reward += seen.reward;
        show(&seen, json)?;
    }
    if !json && seen.done {
        let outcome = if seen.won { "won" } else { "not won" };
        print(&format!("\n{outcome}; reward {}\n", reward.clamp(0.0, 1.0)))?;
    }
    Ok(())
}

/// What a person can write first.
#[expect(
    clippy::print_stderr,
    reason = "it is for the person at the terminal, and no part of what the world shows"
)]
fn eprint_hint(seen: &Observation) {
    let actions = seen.admissible.as_deref().unwrap_or_default();
    if let Some(action) = actions.first() {
        eprintln!("(one action a line, such as `{}`; Ctrl-D ends)", harmless(action));
    }
}

fn show(seen: &Observation, json: bool) -> crate::Result {
    if json {
        let Observation { text, admissible, reward, done, won, .. } = seen;
        let line = Line {
            observation: text,
            admissible: admissible.as_deref(),
            reward: *reward,
            done: *done,
            won: *won,
        };
        return print_json(&line);
    }
    print(&format!("{}\n", harmless(seen.text.trim_end())))
}
