//! The bench of search: builds skillrl and the bench, and starts it with the packages of other systems.

use crate::{build_as_tested, built, memory, python};
use std::ffi::OsString;
use std::path::Path;
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

/// Everything that the documentation shows; what the results have already is not run again.
pub(crate) fn compare(sh: &Shell, seeds: Option<&str>) -> anyhow::Result<()> {
    let packages = ["--package=skillrl-bench", "--package=skill-cli"];
    let programs = ["--bin=search-bench", "--bin=skillrl"];
    cmd!(sh, "cargo build --release --quiet {packages...} {programs...}").run()?;
    let label = cmd!(sh, "git describe --always --dirty").quiet().read()?;
    let program = built(sh, "release", "skillrl");
    let python = python::python_of_searches(sh)?;
    let programs: [OsString; 6] = [
        "--program".into(),
        program.into(),
        "--python".into(),
        python.into(),
        "--label".into(),
        label.into(),
    ];
    let programs = &programs;
    in_memory(sh);
    let bench = built(sh, "release", "search-bench");
    let judged = format!("--seeds={}", seeds.unwrap_or("judged"));
    cmd!(sh, "{bench} run {programs...} {judged} {TABLE...}").quiet().run()?;
    if seeds.is_none() {
        let seeds = format!("--seeds={WEAK_SEEDS}");
        cmd!(sh, "{bench} run {programs...} {seeds} {WEAKNESSES...}").quiet().run()?;
    }
    Ok(())
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
