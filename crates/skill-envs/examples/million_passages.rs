//! Times of an index of passages and of queries: 100 words a passage, sampled by Zipf's law from 200,000 words.
//!
//! `cargo run --release -p skill-envs --features search-agent --example million_passages -- 1000000`
#![expect(clippy::print_stdout, reason = "the measurement")]

use skill_core::random::PyRandom;
use skill_envs::retrieval::{Passage, StoredIndex};
use std::convert::Infallible;
use std::time::{Duration, Instant};

const N_WORDS: f64 = 200_000.0;
const WORDS_OF_A_PASSAGE: usize = 100;
const N_QUERIES: usize = 500;
const WORDS_OF_A_QUERY: usize = 8;

/// Words whose frequency falls with their rank.
fn words(random: &mut PyRandom, n: usize) -> String {
    let word = |_| format!("w{:05x}", N_WORDS.powf(random.random()) as u32);
    (0..n).map(word).collect::<Vec<_>>().join(" ")
}

/// The same passages for the same number of them.
fn passages(n: usize) -> impl Iterator<Item = Passage> {
    let mut random = PyRandom::new(1);
    (0..n).map(move |number| Passage {
        id: number.to_string(),
        title: words(&mut random, 3),
        text: words(&mut random, WORDS_OF_A_PASSAGE),
    })
}

fn peak_memory() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.map_or_else(|| "unknown".to_owned(), |line| line.trim().to_owned())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let n: usize = std::env::args().nth(1).map_or(Ok(1_000_000), |number| number.parse())?;
    let dir = tempfile::tempdir()?;
    let began = Instant::now();
    passages(n).for_each(drop);
    let making = began.elapsed();
    let began = Instant::now();
    let corpus = || passages(n).map(Ok::<_, Infallible>);
    let index = StoredIndex::open_or_build(dir.path(), "made-up", corpus, &mut |_| {})
        .map_err(|error| format!("{error:?}"))?;
    let built = began.elapsed();
    println!(
        "{} passages in {:.0} s, {:.0} s of them to generate the passages; peak memory {}",
        index.len(),
        built.as_secs_f64(),
        making.as_secs_f64(),
        peak_memory()
    );
    let mut times: Vec<Duration> = Vec::new();
    let mut random = PyRandom::new(2);
    for _ in 0..N_QUERIES {
        let query = words(&mut random, WORDS_OF_A_QUERY);
        let began = Instant::now();
        index.search(&query, 3)?;
        times.push(began.elapsed());
    }
    times.sort();
    let at = |share: f64| times.get((share * N_QUERIES as f64) as usize).copied().unwrap_or_default();
    println!("queries: median {:.1?}, nine of ten below {:.1?}", at(0.5), at(0.9));
    Ok(())
}
