//! A small decoder that is fine-tuned and then trained by GRPO with a bank in the loop.

use crate::built;
use anyhow::Context as _;
use std::path::{Path, PathBuf};
use xshell::{Shell, cmd};

/// Optimizer steps of fine-tuning.
const SFT_STEPS: &str = "1500";
/// Test games.
const GAMES: &str = "200";
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
/// The files that say when something happened, and those that a process holds.
const TIMES: [&str; 4] = ["events.jsonl", "rl_times.json", "report.html", "run.lock"];

/// Kills a run of GRPO with a bank at random moments, and compares what it ends with with an undisturbed one.
pub(crate) fn kills(sh: &Shell) -> anyhow::Result<()> {
    build(sh)?;
    let (program, example) = (built(sh, "release", "skillrl"), example(sh));
    let dir = sh.current_dir().join("target/household-kills");
    sh.remove_path(&dir)?;
    sh.create_dir(&dir)?;
    for name in ["household.toml", "skills.json"] {
        sh.copy_file(Path::new("examples/household-weights").join(name), &dir)?;
    }
    let _in = sh.push_dir(&dir);
    cmd!(sh, "{example} 40 10 sft 1").run()?;
    cmd!(sh, "{program} bank import skills.json --out bank").run()?;
    let sizes =
        ["--tasks", "4", "--group-size", "4", "--batch-size", "8", "--iterations", "30", "--games", "4"];
    let asked = ["rl", "household.toml", "--validation-interval", "5", "--quiet"];
    cmd!(sh, "{program} {asked...} {sizes...} --out whole").run()?;
    let start = |out: &str| {
        let mut command = std::process::Command::new(&program);
        command.args(asked).args(sizes).args(["--out", out]).current_dir(&dir);
        command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null()).spawn()
    };
    // The moments differ from run to run: what counts is that none of them matters.
    let mut random = std::time::SystemTime::UNIX_EPOCH.elapsed()?.subsec_nanos();
    let mut n_killed = 0;
    while n_killed < KILLS {
        let mut child = start("killed")?;
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        std::thread::sleep(std::time::Duration::from_millis(150 + u64::from(random >> 16) % 1_350));
        if child.try_wait()?.is_some() {
            break;
        }
        child.kill()?;
        child.wait()?;
        n_killed += 1;
    }
    cmd!(sh, "{program} {asked...} {sizes...} --out killed").run()?;
    let (whole, killed) = (files(&dir.join("whole"))?, files(&dir.join("killed"))?);
    let names: std::collections::BTreeSet<&String> = whole.keys().chain(killed.keys()).collect();
    let differing: Vec<&String> =
        names.into_iter().filter(|name| whole.get(*name) != killed.get(*name)).collect();
    eprintln!("{n_killed} kills, {} files compared, {} differ", whole.len(), differing.len());
    anyhow::ensure!(n_killed == KILLS, "the run was finished after {n_killed} kills");
    anyhow::ensure!(differing.is_empty(), "these files differ: {differing:?}");
    Ok(())
}

/// The files of a run by name, without those of times and of the calls, whose order in the journal may differ.
fn files(dir: &Path) -> anyhow::Result<std::collections::BTreeMap<String, Vec<u8>>> {
    let mut found = std::collections::BTreeMap::new();
    let mut open = vec![dir.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(&folder)? {
            let path = entry?.path();
            let name = path.strip_prefix(dir)?.display().to_string();
            if path.is_dir() {
                open.push(path);
            } else if !TIMES.contains(&name.as_str()) && !name.starts_with("journal.sqlite") {
                found.insert(name, std::fs::read(&path)?);
            }
        }
    }
    Ok(found)
}

fn build(sh: &Shell) -> anyhow::Result<()> {
    cmd!(sh, "cargo build --release --package skill-cli --features weights").run()?;
    let example = ["--package", "skill-sim", "--features", "weights", "--example", "household_sft"];
    Ok(cmd!(sh, "cargo build --release {example...}").run()?)
}

/// Trains in this directory, after it is emptied, and plays the test games before and after GRPO. Returns the seconds
/// that all of it took, and the games with the bank.
fn run(sh: &Shell, dir: &Path, seed: &str) -> anyhow::Result<(u64, Games)> {
    let start = std::time::Instant::now();
    let (program, example) = (built(sh, "release", "skillrl"), example(sh));
    sh.remove_path(dir)?;
    sh.create_dir(dir)?;
    for name in ["household.toml", "skills.json"] {
        sh.copy_file(Path::new("examples/household-weights").join(name), dir)?;
    }
    let _in = sh.push_dir(dir);
    // Where the variable is missing, the number is found out again before each product of matrices.
    let threads = std::thread::available_parallelism()?.to_string();
    cmd!(sh, "{example} {SFT_STEPS} {GAMES} sft {seed}").env("RAYON_NUM_THREADS", threads).run()?;
    cmd!(sh, "{program} bank import skills.json --out bank").run()?;
    let config = ["household.toml", "--set", &format!("run.seed={seed}")].map(str::to_owned);
    let config = &config;
    let test = |policy: &str, bank: &str| {
        eprintln!("\nthe test games with {policy}, without the bank and with it:");
        let measured = ["--policy", policy, "--bank", bank, "--split", "test", "--json"];
        let found = cmd!(sh, "{program} eval {config...} {measured...}").read()?;
        let found: serde_json::Value = serde_json::from_str(&found).context("eval printed something else")?;
        let number = |path: &str| found.pointer(path).and_then(serde_json::Value::as_f64).unwrap_or_default();
        let played = number("/with/n");
        let [without, with] = ["/without/hard", "/with/hard"].map(|path| number(path) * played);
        eprintln!("without it {}\nwith it    {}", share(without, played), share(with, played));
        anyhow::Ok((with, played))
    };
    let (before, played) = test("sft", "bank")?;
    cmd!(sh, "{program} rl {config...} --quiet").run()?;
    let (after, _) = test("run/policy", "run/bank")?;
    let summary = std::fs::read_to_string(sh.current_dir().join("run/rl_summary.json"))?;
    eprintln!("\n{}", of_bank(&serde_json::from_str(&summary)?));
    Ok((start.elapsed().as_secs(), Games { won: [before, after], played }))
}

/// Won games with the 95 % interval of their share: E. B. Wilson (1927).
fn share(won: f64, played: f64) -> String {
    let (mean, z) = (won / played, 1.959_964_f64);
    let spread = 1.0 + z * z / played;
    let middle = (mean + z * z / (2.0 * played)) / spread;
    let half = z * (mean * (1.0 - mean) / played + z * z / (4.0 * played * played)).sqrt() / spread;
    let [mean, low, high] = [mean, middle - half, middle + half].map(|share| 100.0 * share);
    format!("{won} of {played} games ({mean:.1} %, 95 % interval {low:.1} to {high:.1})")
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

/// The example, where the build has put it.
fn example(sh: &Shell) -> PathBuf {
    let program = built(sh, "release", "household_sft");
    let name = program.file_name().unwrap_or_default().to_owned();
    program.parent().map(|parent| parent.join("examples").join(name)).unwrap_or(program)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_has_its_interval() {
        assert_eq!(share(133.0, 200.0), "133 of 200 games (66.5 %, 95 % interval 59.7 to 72.7)");
    }

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
