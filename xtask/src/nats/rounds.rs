//! Rounds of kills: workers, server and driver, alone and together.

use super::scene::{Guarded, IN_FLIGHT, SLOTS, Scene, kill, log_of};
use anyhow::{Context as _, bail, ensure};
use std::thread::sleep;
use std::time::{Duration, Instant};

const N_WORKERS: usize = 3;
/// A round takes no longer.
const PATIENCE: Duration = Duration::from_secs(400);

/// Numbers by chance, the same for each seed.
struct Chance(u64);

impl Chance {
    /// From 0 to below 1.
    fn share(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// What was killed and what it cost.
#[derive(Default)]
struct Cost {
    killed_workers: u64,
    killed_drivers: u64,
    killed_servers: u64,
    twice: u64,
}

pub(super) fn run(scene: &Scene, rounds: u64) -> anyhow::Result<()> {
    let mut all = Cost::default();
    for seed in 0..rounds {
        let begun = Instant::now();
        let cost = round(scene, seed).with_context(|| format!("round {seed}"))?;
        eprintln!(
            "round {seed}: {} workers, {} servers, {} drivers killed; the same files, {} calls sent twice; {:.0} s",
            cost.killed_workers,
            cost.killed_servers,
            cost.killed_drivers,
            cost.twice,
            begun.elapsed().as_secs_f64()
        );
        all.killed_workers += cost.killed_workers;
        all.killed_servers += cost.killed_servers;
        all.killed_drivers += cost.killed_drivers;
        all.twice += cost.twice;
    }
    eprintln!(
        "{rounds} rounds: {} workers ({} slots), {} servers and {} drivers killed, {} calls sent twice",
        all.killed_workers,
        all.killed_workers * SLOTS,
        all.killed_servers,
        all.killed_drivers,
        all.twice
    );
    Ok(())
}

fn round(scene: &Scene, seed: u64) -> anyhow::Result<Cost> {
    let mut chance = Chance(seed);
    // Each of the three by itself, and each of their combinations.
    let victims = seed % 7 + 1;
    let place = scene.place(&format!("round-{seed}"))?;
    let mut server = scene.server(&format!("round-{seed}"), "")?;
    let url = server.url();
    let start_worker = || Ok::<_, anyhow::Error>(Guarded(scene.worker(&place, &url, &[], &[])?));
    let mut workers = (0..N_WORKERS).map(|_| start_worker()).collect::<Result<Vec<_>, _>>()?;
    let mut driver = Guarded(scene.train(&place, Some(&url), &[])?);
    let mut cost = Cost::default();
    let begun = Instant::now();
    for _ in 0..2 {
        sleep(Duration::from_secs_f64(0.5 + chance.share() * scene.seconds * 0.6));
        if driver.0.try_wait()?.is_some() {
            break;
        }
        if victims & 1 != 0 {
            let index = (chance.share() * workers.len() as f64) as usize;
            let mut victim = workers.swap_remove(index);
            kill(&mut victim.0)?;
            cost.killed_workers += 1;
        }
        if victims & 2 != 0 {
            server.kill()?;
            cost.killed_servers += 1;
        }
        if victims & 4 != 0 {
            kill(&mut driver.0)?;
            cost.killed_drivers += 1;
        }
        sleep(Duration::from_secs_f64(chance.share() * 2.0));
        if victims & 2 != 0 {
            server.restart(chance.share() < 0.7)?;
        }
        if victims & 1 != 0 {
            workers.push(start_worker()?);
        }
        if victims & 4 != 0 {
            driver = Guarded(scene.train(&place, Some(&url), &[])?);
        }
    }
    while driver.0.try_wait()?.is_none() {
        if begun.elapsed() > PATIENCE {
            bail!("the run does not end: {}\n{}", log_of(&place, "driver"), log_of(&place, "worker"));
        }
        sleep(Duration::from_millis(50));
    }
    scene.end(&place, &mut driver.0)?;
    drop(workers);
    scene.compare(&place)?;
    let n_requests = scene.requests()?;
    cost.twice = n_requests.checked_sub(scene.n_requests).context("the run has sent fewer requests")?;
    // The calls of the optimizer are those of the driver, and are lost with it.
    let most = cost.killed_workers * SLOTS + cost.killed_drivers * IN_FLIGHT;
    ensure!(cost.twice <= most, "{} calls were sent twice, at most {most} were out", cost.twice);
    Ok(cost)
}
