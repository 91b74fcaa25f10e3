//! ALFWorld: a recorded game from its file, played through the seam that agents play through.

use crate::Failure;
use crate::plan::WorldArgs;
use crate::process::memory_per;
use crate::row::median;
use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use skillrl::envs::Episode;
use skillrl::envs::alfworld::{AlfworldEpisode, Rules, load};
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

/// A transcript of the largest of the recorded games.
const RECORDED: &str = include_str!(concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../crates/skill-envs/tests/data/alfworld/pick_clean_then_place_in_recep-DishSponge-None-Drawer-49.json"
));
/// Steps of an episode, after which it restarts.
const EPISODE: u32 = 50;

/// Which game to play, and how much of it.
#[derive(Debug, Clone, Args)]
pub(crate) struct AlfworldArgs {
    /// A game file.
    game: PathBuf,
    #[command(flatten)]
    how_much: WorldArgs,
}

/// What the game took.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct AlfworldReport {
    /// From the file to the first observation, in milliseconds.
    pub(crate) load_reset_ms: f64,
    pub(crate) steps_per_second: f64,
    /// Of an idle episode with a game of its own.
    pub(crate) episode_bytes: f64,
}

/// The text of a game file with the recorded game; it holds a grammar and no domain.
pub(crate) fn recorded_game() -> Result<String, Failure> {
    let transcript: Value = serde_json::from_str(RECORDED)?;
    let game = transcript.get("game").ok_or("the transcript holds no game")?;
    Ok(game.to_string())
}

/// Plays the game.
pub(crate) async fn run(args: &AlfworldArgs) -> Result<AlfworldReport, Failure> {
    let WorldArgs { loads, rounds, steps, episodes } = args.how_much;
    // A file without a domain is quicker to read; what a domain costs is paid with a text as long as the data set's,
    // which is not known and refused.
    let file: Value = serde_json::from_str(&std::fs::read_to_string(&args.game)?)?;
    let grammar = file.get("grammar").and_then(Value::as_str).ok_or("the game has no grammar")?;
    let padding = file
        .get("pddl_domain")
        .is_none()
        .then(|| "(:action look :parameters (?a - agent ?l - location))\n".repeat(310));
    let mut times = Vec::new();
    for _ in 0..loads {
        let began = Instant::now();
        if let Some(domain) = &padding {
            black_box(Rules::recognise(Some(domain), grammar).is_err());
        }
        let mut episode = opened(&args.game)?;
        black_box(episode.reset().await?);
        times.push(began.elapsed().as_secs_f64() * 1e3);
    }
    let mut episode = opened(&args.game)?;
    let mut rates = Vec::new();
    for _ in 0..rounds {
        rates.push(walk(&mut episode, steps).await?);
    }
    drop(episode);
    let mut idle = Vec::new();
    let episode_bytes = memory_per(episodes, async || {
        let mut episode: Box<dyn Episode> = Box::new(opened(&args.game)?);
        let seen = episode.reset().await?;
        let command = seen.admissible.unwrap_or_default().into_iter().next().unwrap_or_default();
        episode.step(&command).await?;
        idle.push(episode);
        Ok(())
    })
    .await?;
    Ok(AlfworldReport { load_reset_ms: median(times), steps_per_second: median(rates), episode_bytes })
}

fn opened(game: &Path) -> Result<AlfworldEpisode, Failure> {
    Ok(AlfworldEpisode::new(Arc::new(load(game)?.game)))
}

/// Steps per second of a random walk among the admissible commands, which are asked for after each.
async fn walk(episode: &mut dyn Episode, steps: u32) -> Result<f64, Failure> {
    let began = Instant::now();
    let mut seen = episode.reset().await?;
    let mut number = 1_u64;
    for step in 1..=steps {
        // A walk that is the same each time, and goes everywhere.
        number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let admissible = seen.admissible.unwrap_or_default();
        let place = usize::try_from(number >> 33)? % admissible.len().max(1);
        seen = episode.step(admissible.get(place).ok_or("there is nothing to do")?).await?;
        if seen.done || step % EPISODE == 0 {
            seen = episode.reset().await?;
        }
    }
    Ok(f64::from(steps) / began.elapsed().as_secs_f64())
}
