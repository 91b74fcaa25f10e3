//! WebShop: a catalogue that is indexed, searched and visited.

use crate::Failure;
use crate::plan::WorldArgs;
use crate::process::memory_per;
use crate::row::median;
use serde::{Deserialize, Serialize};
use skillrl::envs::webshop::{Product, SearchIndex, Shop, WebshopConfig, WebshopWorld};
use skillrl::envs::{Episode, Split, World};
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

const N_PRODUCTS: usize = 1_000;

/// What the shop took.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct WebshopReport {
    /// Indexing 1,000 products, in seconds.
    pub(crate) index_s: f64,
    /// A search with a whole instruction, in milliseconds: the median.
    pub(crate) search_ms: f64,
    /// The slowest of 100 searches, in milliseconds.
    pub(crate) slow_search_ms: f64,
    /// Steps per second: a search, a product, and back.
    pub(crate) steps_per_second: f64,
    /// Of an idle episode on the page of a product.
    pub(crate) episode_bytes: f64,
}

/// Visits the shop.
pub(crate) async fn run(args: &WorldArgs) -> Result<WebshopReport, Failure> {
    let WorldArgs { loads, rounds, steps, episodes } = *args;
    let config = WebshopConfig {
        n_products: Some(N_PRODUCTS),
        split_ratio: Some([1, 1, 1].into()),
        previous_observations: 2,
        previous_actions: 2,
        ..WebshopConfig::default()
    };
    let shop = Arc::new(Shop::load(&config)?);
    let texts: Vec<String> = shop.catalogue().products().iter().map(Product::indexed_text).collect();
    let mut index_times = Vec::new();
    for _ in 0..loads.min(10) {
        let began = Instant::now();
        black_box(SearchIndex::new(&texts));
        index_times.push(began.elapsed().as_secs_f64());
    }
    let queries: Vec<&str> = shop.goals().iter().map(|goal| goal.instruction.as_str()).collect();
    let mut search_times: Vec<f64> = (0..steps)
        .zip(queries.iter().cycle())
        .map(|(_, query)| {
            let began = Instant::now();
            black_box(shop.search(black_box(query)));
            began.elapsed().as_secs_f64() * 1e3
        })
        .collect();
    search_times.sort_by(f64::total_cmp);
    let slow_search_ms = search_times.get(search_times.len() * 99 / 100).copied().unwrap_or(f64::NAN);
    let world = WebshopWorld::new(Arc::clone(&shop), &config)?;
    let mut rates = Vec::new();
    for _ in 0..rounds {
        rates.push(visits(&world, steps).await?);
    }
    let mut items = world.items(Split::Train).iter().cycle();
    let mut idle = Vec::new();
    let episode_bytes = memory_per(episodes, async || {
        let mut episode = world.episode(items.next().ok_or("there are no goals")?)?;
        visit(episode.as_mut()).await?;
        idle.push(episode);
        Ok(())
    })
    .await?;
    Ok(WebshopReport {
        index_s: median(index_times),
        search_ms: median(search_times),
        slow_search_ms,
        steps_per_second: median(rates),
        episode_bytes,
    })
}

/// Searches by the whole instruction, as an agent that does not know better, and opens the first product.
async fn visit(episode: &mut dyn Episode) -> Result<u32, Failure> {
    episode.reset().await?;
    let instruction = episode.task().unwrap_or_default().to_owned();
    let found = episode.step(&format!("search[{instruction}]")).await?;
    let is_product = |action: &&String| {
        let name = action.strip_prefix("click[").and_then(|rest| rest.strip_suffix(']'));
        name.is_some_and(|name| name.len() == 10 && name.starts_with(['b', 'B']))
    };
    let actions = found.admissible.unwrap_or_default();
    let product = actions.iter().find(is_product).ok_or("a search has found nothing")?;
    let seen = episode.step(product).await?;
    if !seen.understood {
        return Err(format!("{product} meant nothing").into());
    }
    Ok(2)
}

async fn visits(world: &WebshopWorld, steps: u32) -> Result<f64, Failure> {
    let began = Instant::now();
    let mut n_steps = 0;
    for item in world.items(Split::Train).iter().cycle() {
        if n_steps >= steps {
            break;
        }
        n_steps += visit(world.episode(item)?.as_mut()).await?;
    }
    Ok(f64::from(n_steps) / began.elapsed().as_secs_f64())
}
