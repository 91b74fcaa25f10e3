//! A small decoder that is fine-tuned and then trained by GRPO with a bank in the loop.

use crate::built;
use crate::run_files::comparable_files;
use anyhow::Context as _;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use xshell::{Shell, cmd};

/// What the demo trains.
const EXAMPLE: &str = "examples/household-weights/household.toml";
/// The seeds of a benchmark.
const SEEDS: [&str; 3] = ["1", "2", "3"];

pub(crate) fn demo(sh: &Shell, world: Option<&str>, bank: bool) -> anyhow::Result<()> {
    if bank || world != Some("alfworld") {
        anyhow::bail!("--weights goes with --world alfworld, and without --bank");
    }
    build(sh)?;
    let dir = sh.current_dir().join("target/household-weights");
    let (took, games) = run(sh, &dir, SEEDS[0])?;
    eprintln!("GRPO: {}", Gain::of(&[games]).describe());
    eprintln!("all of it took {took} s after the build; the run is in {}", dir.join("run").display());
    Ok(())
}

/// The same from three seeds, each and together.
pub(crate) fn bench(sh: &Shell) -> anyhow::Result<()> {
    build(sh)?;
    let mut all = Vec::new();
    for seed in SEEDS {
        eprintln!("\nseed {seed}");
        let dir = sh.current_dir().join(format!("target/household-weights-{seed}"));
        let (took, games) = run(sh, &dir, seed)?;
        eprintln!("seed {seed} took {took} s; GRPO: {}", Gain::of(&[games]).describe());
        all.push(games);
    }
    eprintln!("\n{} seeds together; GRPO: {}", all.len(), Gain::of(&all).describe());
    Ok(())
}

/// Test games with the bank that were won before and after GRPO, and how many were played each time.
#[derive(Debug, Clone, Copy)]
struct Games {
    won: [f64; 2],
    played: f64,
}

/// What GRPO added to the share of won games.
struct Gain {
    won: [f64; 2],
    played: f64,
    interval: [f64; 2],
}

impl Gain {
    /// The gain of all games together with its 95 % interval: Agresti and Caffo (2000), which takes the two measurements
    /// for independent and so is wider than the truth, since both play the same games.
    fn of(all: &[Games]) -> Self {
        let sum = |of: fn(&Games) -> f64| all.iter().map(of).sum::<f64>();
        let (won, played) =
            ([sum(|games| games.won[0]), sum(|games| games.won[1])], sum(|games| games.played));
        let share = |won: f64| (won + 1.0) / (played + 2.0);
        let variance = |won: f64| share(won) * (1.0 - share(won)) / (played + 2.0);
        let half = 1.959_964 * (variance(won[0]) + variance(won[1])).sqrt();
        let difference = share(won[1]) - share(won[0]);
        Self { won, played, interval: [difference - half, difference + half] }
    }

    fn describe(&self) -> String {
        let [before, after] = self.won.map(|won| 100.0 * won / self.played);
        let [low, high] = self.interval.map(|share| 100.0 * share);
        format!(
            "{before:.1} to {after:.1} % of {} test games, {:+.1} points (95 % interval {low:+.1} to {high:+.1})",
            self.played,
            after - before
        )
    }
}

/// How often a run is killed.
const KILLS: u32 = 20;

/// Kills a run of all phases at random moments, and compares what it ends with with an undisturbed one.
pub(crate) fn kills(sh: &Shell) -> anyhow::Result<()> {
    build(sh)?;
    let program = built(sh, "release", "skillrl");
    let dir = sh.current_dir().join("target/household-kills");
    let _in = emptied(sh, &dir)?;
    let sizes = [
        "env.max_train=240",
        "env.max_val=8",
        "env.max_test=8",
        "collect.episodes=24",
        "sft.epochs=2",
        "sft.checkpoint_interval=5",
        "rl.tasks=4",
        "rl.group_size=4",
        "rl.batch_size=8",
        "rl.iterations=20",
        "rl.games=4",
    ];
    let sizes = sizes.iter().flat_map(|size| ["--set", *size]);
    let asked: Vec<&str> =
        ["train", "--env", "alfworld", "--mock", "--quiet"].into_iter().chain(sizes).collect();
    let asked = &asked;
    // Both runs have the same directory, since configurations of later phases name the policies in it.
    cmd!(sh, "{program} {asked...} --set run.dir=run").run()?;
    std::fs::rename(dir.join("run"), dir.join("whole"))?;
    let start = || {
        let mut command = std::process::Command::new(&program);
        command.args(asked).args(["--set", "run.dir=run"]).current_dir(&dir);
        command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null()).spawn()
    };
    // The moments differ from run to run: what counts is that none of them matters.
    let mut random = std::time::SystemTime::UNIX_EPOCH.elapsed()?.subsec_nanos();
    let (mut n_killed, mut phases) = (0, BTreeSet::new());
    while n_killed < KILLS {
        let mut child = start()?;
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        std::thread::sleep(std::time::Duration::from_millis(300 + u64::from(random >> 16) % 4_000));
        if child.try_wait()?.is_some() {
            break;
        }
        child.kill()?;
        child.wait()?;
        let begun = ["test", "rl", "sft", "distill", "collect"].into_iter();
        phases.extend(begun.filter(|phase| dir.join("run").join(phase).is_dir()).take(1));
        n_killed += 1;
    }
    cmd!(sh, "{program} {asked...} --set run.dir=run").run()?;
    let (whole, killed) = (comparable_files(&dir.join("whole"))?, comparable_files(&dir.join("run"))?);
    let names: BTreeSet<&PathBuf> = whole.keys().chain(killed.keys()).collect();
    let differing: Vec<&PathBuf> =
        names.into_iter().filter(|name| whole.get(*name) != killed.get(*name)).collect();
    eprintln!(
        "{n_killed} kills, the phases under way were {phases:?}; {} files compared, {} differ",
        whole.len(),
        differing.len()
    );
    anyhow::ensure!(n_killed == KILLS, "the run was finished after {n_killed} kills");
    anyhow::ensure!(differing.is_empty(), "these files differ: {differing:?}");
    Ok(())
}

fn build(sh: &Shell) -> anyhow::Result<()> {
    Ok(cmd!(sh, "cargo build --release --package skill-cli --features weights").run()?)
}

/// Empties the directory, and goes there.
fn emptied<'shell>(sh: &'shell Shell, dir: &Path) -> anyhow::Result<xshell::PushDir<'shell>> {
    sh.remove_path(dir)?;
    sh.create_dir(dir)?;
    Ok(sh.push_dir(dir))
}

/// Trains in this directory, after it is emptied. Returns the seconds that all of it took, and the test games with the
/// bank before and after GRPO.
fn run(sh: &Shell, dir: &Path, seed: &str) -> anyhow::Result<(u64, Games)> {
    let start = std::time::Instant::now();
    let (program, example) = (built(sh, "release", "skillrl"), sh.current_dir().join(EXAMPLE));
    let _in = emptied(sh, dir)?;
    sh.copy_file(example, dir)?;
    let config = ["household.toml", "--quiet", "--set", &format!("run.seed={seed}")].map(str::to_owned);
    cmd!(sh, "{program} train {config...}").run()?;
    let read = |file: &str| -> anyhow::Result<serde_json::Value> {
        Ok(serde_json::from_str(&std::fs::read_to_string(sh.current_dir().join(file))?)?)
    };
    let tested = read("run/test/games.json")?;
    let games = tested.pointer("/games").and_then(serde_json::Value::as_array).context("no test games")?;
    let of = |policy: &str| {
        let is_wanted = |found: &&serde_json::Value| {
            let named = found.get("policy").and_then(serde_json::Value::as_str);
            named == Some(policy)
                && found.get("has_skills").and_then(serde_json::Value::as_bool) == Some(true)
        };
        let found = games.iter().find(is_wanted);
        ["/games/won", "/games/played"]
            .map(|path| found.and_then(|found| found.pointer(path)?.as_f64()).unwrap_or_default())
    };
    let ([before, played], [after, _]) = (of("sft"), of("rl"));
    eprintln!("\n{}", of_bank(&read("run/rl/rl_summary.json")?));
    Ok((start.elapsed().as_secs(), Games { won: [before, after], played }))
}

/// What the bank did during the run: trials, admissions, and the effect of each skill where it was hidden.
fn of_bank(summary: &serde_json::Value) -> String {
    let number = |value: &serde_json::Value, path: &str| {
        value.pointer(path).and_then(serde_json::Value::as_f64).unwrap_or_default()
    };
    let counts = ["/bank/active", "/bank/trials/0", "/bank/trials/1"].map(|path| number(summary, path));
    let [active, tried, admitted] = counts;
    let mut said =
        format!("the bank: {active} active skills; {tried} candidates were tried, {admitted} admitted");
    let measured = summary.pointer("/bank/measured").and_then(serde_json::Value::as_array);
    for skill in measured.into_iter().flatten() {
        let name = skill.pointer("/skill").and_then(serde_json::Value::as_str).unwrap_or_default();
        let paths = ["/numbers/difference", "/numbers/interval/0", "/numbers/interval/1"];
        let [gain, low, high] = paths.map(|path| 100.0 * number(skill, path));
        let groups = number(skill, "/numbers/groups");
        said.push_str(&format!(
            "\n  {name}: {gain:+.1} points (95 % interval {low:+.1} to {high:+.1}) in {groups} groups that half of the time did not see it"
        ));
    }
    said
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_bank_did_is_told_by_skill() {
        let numbers =
            serde_json::json!({ "groups": 26, "difference": 0.0867, "interval": [-0.0142, 0.1873] });
        let measured = [serde_json::json!({ "skill": "gen_001", "numbers": numbers })];
        let summary = serde_json::json!({ "bank": { "active": 4, "trials": [2, 1], "measured": measured } });
        let said = of_bank(&summary);
        let found: Vec<bool> = ["4 active", "2 candidates", "1 admitted", "gen_001", "+8.7", "-1.4 to +18.7"]
            .iter()
            .map(|part| said.contains(part))
            .collect();
        assert_eq!(found, [true; 6], "{said}");
    }

    #[test]
    fn the_gain_of_two_seeds_has_the_interval_of_both() {
        let games = |before: f64, after: f64| Games { won: [before, after], played: 200.0 };
        let gain = Gain::of(&[games(128.0, 144.0), games(128.0, 141.0)]);
        assert_eq!((gain.won, gain.played), ([256.0, 285.0], 400.0));
        assert!(
            (gain.interval[0] - 0.0077).abs() < 5e-4 && (gain.interval[1] - 0.1366).abs() < 5e-4,
            "{:?}",
            gain.interval
        );
    }
}
