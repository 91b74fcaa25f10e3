//! The bench of search: builds skillrl and the bench, and starts it with the packages of other systems.

use crate::{build_as_tested, built, flags, memory, path_from_here, python};
use anyhow::Context as _;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use xshell::{Shell, cmd};

/// Environments of a comparison: the table as it is.
const TABLE: [&str; 1] = ["--variants=base"];
/// The same with each weakness of search turned up; a fifth of the seeds is enough for a row of a table.
const WEAKNESSES: [&str; 3] = [
    "--variants=diffuse,few-tasks,length,misread,wrong-names,many-rules,defective,harmful",
    "--systems=auto,gepa",
    "--repetitions=1",
];
/// Seeds of the judged set that are run with the weaknesses.
const WEAK_SEEDS: &str = "20000..20030";

/// The package that has the data of `bfcl-simple`.
const BFCL: &str = "bfcl-eval==2026.3.23";
/// Where it is kept.
const DATA: &str = "target/search-bench/data";

/// Public tasks with a real target.
pub(crate) fn real(sh: &Shell, args: flags::Bench) -> anyhow::Result<()> {
    let takes = "`--real` takes `--url` and `--model` of a server with Chat Completions";
    let (url, model) = (args.url.context(takes)?, args.model.context(takes)?);
    let task = args.task.unwrap_or_else(|| "chain-sum".to_owned());
    let python = python::python_of_searches(sh)?;
    let data = match args.data {
        Some(data) => Some(path_from_here(data)?),
        None if task == "bfcl-simple" => Some(bfcl(sh, &python)?),
        None => None,
    };
    let (programs, bench) = built_for_release(sh, &python)?;
    let seeds = args.seeds.unwrap_or_else(|| "1".to_owned());
    let what = ["--url", &url, "--model", &model, "--tasks", &task, "--seeds", &seeds];
    let data = data.map(|data| [OsString::from("--data"), data.into()]).into_iter().flatten();
    Ok(cmd!(sh, "{bench} real {programs...} {what...} {data...}").quiet().run()?)
}

/// The wheel with the data, which is not installed: it takes a hundred packages with it.
fn bfcl(sh: &Shell, python: &Path) -> anyhow::Result<PathBuf> {
    let wheels = || -> anyhow::Result<Option<PathBuf>> {
        let known = if sh.path_exists(DATA) { sh.read_dir(DATA)? } else { Vec::new() };
        Ok(known.into_iter().find(|path| path.extension().is_some_and(|extension| extension == "whl")))
    };
    if wheels()?.is_none() {
        cmd!(sh, "{python} -m pip download --quiet --no-deps --dest {DATA} {BFCL}").run()?;
    }
    wheels()?.context("pip has left no wheel")
}

/// Everything that the documentation shows; what the results have already is not run again.
pub(crate) fn compare(sh: &Shell, seeds: Option<&str>) -> anyhow::Result<()> {
    let python = python::python_of_searches(sh)?;
    let (programs, bench) = built_for_release(sh, &python)?;
    let programs = &programs;
    let judged = format!("--seeds={}", seeds.unwrap_or("judged"));
    cmd!(sh, "{bench} run {programs...} {judged} {TABLE...}").quiet().run()?;
    if seeds.is_none() {
        let seeds = format!("--seeds={WEAK_SEEDS}");
        cmd!(sh, "{bench} run {programs...} {seeds} {WEAKNESSES...}").quiet().run()?;
    }
    Ok(())
}

/// The arguments for the programs, and the bench.
fn built_for_release(sh: &Shell, python: &Path) -> anyhow::Result<([OsString; 6], PathBuf)> {
    let packages = ["--package=skillrl-bench", "--package=skill-cli"];
    let programs = ["--bin=search-bench", "--bin=skillrl"];
    cmd!(sh, "cargo build --release --quiet {packages...} {programs...}").run()?;
    let label = cmd!(sh, "git describe --always --dirty").quiet().read()?;
    let program = built(sh, "release", "skillrl");
    let programs = [
        "--program".into(),
        program.into(),
        "--python".into(),
        python.into(),
        "--label".into(),
        label.into(),
    ];
    in_memory(sh);
    Ok((programs, built(sh, "release", "search-bench")))
}

/// Two environments with every system, unoptimized: shows that all of it works.
pub(crate) fn brief(sh: &Shell) -> anyhow::Result<()> {
    build_as_tested(sh)?;
    let [bench, program] = ["search-bench", "skillrl"].map(|name| built(sh, "debug", name));
    let python = python::python_of_searches(sh)?;
    let seeds = ["--seeds=10000..10002", "--repetitions=1", "--results=target/search-bench/brief.jsonl"];
    sh.remove_path("target/search-bench/brief.jsonl")?;
    in_memory(sh);
    Ok(cmd!(sh, "{bench} run --program {program} --python {python} {seeds...}").quiet().run()?)
}

/// Compares the planned search with stored results of GEPA, by programs that are built.
pub(crate) fn check(sh: &Shell) -> anyhow::Result<()> {
    let [bench, program] = ["search-bench", "skillrl"].map(|name| built(sh, "debug", name));
    let sh = sh.clone();
    in_memory(&sh);
    Ok(cmd!(sh, "{bench} check --program {program} --jobs 2").quiet().run()?)
}

/// The runs flush thousands of small files, which takes ten times as long on a disk as in memory.
fn in_memory(sh: &Shell) {
    if memory::has_room_in_memory(sh) && sh.var_os("TMPDIR").is_none() {
        sh.set_var("TMPDIR", Path::new(memory::SHARED_MEMORY));
    }
}
