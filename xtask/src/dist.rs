//! What people install: a static program for Linux, and the wheel of the Python package.

use crate::ci::step;
use crate::python::python;
use anyhow::{Context as _, ensure};
use std::path::{Path, PathBuf};
use std::time::Instant;
use xshell::{Shell, cmd};

/// What people get besides the default program.
const FEATURES: &str = "full";
/// Where everything goes.
const DIRECTORY: &str = "target/dist";
/// The crate of the Python package.
const PYTHON: &str = "crates/skillrl-python";
/// What builds and tests the package, and what its tests talk to.
const REQUIREMENTS: &str = "crates/skillrl-python/tests/requirements.txt";
/// The package whose interface this one has.
const REFERENCE: &str = "skillrl==1.0.0";
/// The package whose adapters train here.
const SKILLOPT: &str = "skillopt==0.2.0";
/// A larger wheel has something in it by mistake.
const MAX_WHEEL_BYTES: u64 = 60 * 1000 * 1000;
/// The shells whose completions are written, with the names of the files.
const COMPLETIONS: [(&str, &str); 3] =
    [("bash", "skillrl.bash"), ("zsh", "_skillrl"), ("fish", "skillrl.fish")];

/// Builds the program, the wheel, or both if neither is requested alone.
pub(crate) fn run(sh: &Shell, program: bool, wheel: bool) -> anyhow::Result<()> {
    let directory = sh.current_dir().join(DIRECTORY);
    sh.remove_path(&directory)?;
    sh.create_dir(&directory)?;
    if program || !wheel {
        step("static program", || static_program(sh, &directory))?;
    }
    if wheel || !program {
        step("wheel", || release_wheel(sh, &directory))?;
    }
    let _directory = sh.push_dir(&directory);
    let names: Vec<PathBuf> = files(sh, &directory)?;
    let sums = cmd!(sh, "sha256sum {names...}").read()?;
    sh.write_file("SHA256SUMS", format!("{sums}\n"))?;
    eprintln!("{sums}\ndist: everything is in {DIRECTORY}");
    Ok(())
}

/// The names of the files of a directory, in order.
fn files(sh: &Shell, directory: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let paths = sh.read_dir(directory)?.into_iter().filter(|path| path.is_file());
    let mut names: Vec<PathBuf> = paths.filter_map(|path| path.file_name().map(PathBuf::from)).collect();
    names.sort();
    Ok(names)
}

/// An archive with the program, its completions and its manuals.
fn static_program(sh: &Shell, directory: &Path) -> anyhow::Result<()> {
    let host = cmd!(sh, "rustc --print host-tuple").quiet().read()?;
    let target = host.replace("-gnu", "-musl");
    ensure!(target.ends_with("-musl"), "static programs are built on Linux; this is {host}");
    let libraries = cmd!(sh, "rustc --print target-libdir --target {target}").quiet().read()?;
    ensure!(sh.path_exists(&libraries), "the target is not installed: rustup target add {target}");
    let has_compiler = cmd!(sh, "musl-gcc --version").quiet().ignore_stdout().ignore_stderr().run().is_ok();
    ensure!(has_compiler, "SQLite is C: install musl-gcc (musl-tools in Debian)");
    let variable = format!("CC_{}", target.replace('-', "_"));
    let build = ["--profile", "dist", "--package", "skill-cli", "--bin", "skillrl", "--target", &target];
    let nameless = without_paths(sh)?;
    cmd!(nameless, "cargo build {build...} --features {FEATURES}").env(variable, "musl-gcc").run()?;
    let built = sh.current_dir().join("target").join(&target).join("dist/skillrl");
    // ldd says so on both of its streams, depending on the version, and fails for some static programs.
    let linked = cmd!(sh, "ldd {built}").quiet().ignore_status().output()?;
    let said =
        [linked.stdout, linked.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    let is_static = said.contains("statically linked") || said.contains("not a dynamic executable");
    ensure!(is_static, "the program is not static: {said}");

    let version = cmd!(sh, "{built} --version").quiet().read()?.replace(' ', "-");
    let name = format!("{version}-{target}");
    let folder = directory.join(&name);
    sh.create_dir(folder.join("completions"))?;
    sh.copy_file(&built, folder.join("skillrl"))?;
    for file in ["LICENSE", "README.md"] {
        sh.copy_file(file, folder.join(file))?;
    }
    for (shell, file) in COMPLETIONS {
        let script = cmd!(sh, "{built} completions {shell}").quiet().read()?;
        sh.write_file(folder.join("completions").join(file), script + "\n")?;
    }
    let manuals = folder.join("man");
    cmd!(sh, "{built} man {manuals}").quiet().ignore_stdout().run()?;
    let archive = directory.join(format!("{name}.tar.gz"));
    cmd!(sh, "tar --create --gzip --file {archive} --directory {directory} {name}").run()?;
    Ok(sh.remove_path(&folder)?)
}

/// A shell whose builds name no directory of this machine: those of its user and of this checkout are left out of what
/// compilers write into programs.
fn without_paths(sh: &Shell) -> anyhow::Result<Shell> {
    let home = sh.var("HOME").context("HOME is not set")?;
    let cargo = sh.var("CARGO_HOME").unwrap_or_else(|_| format!("{home}/.cargo"));
    let root = sh.current_dir();
    // Of several prefixes that fit, the last one is taken.
    let prefixes = [(home, "~"), (cargo, "cargo"), (root.display().to_string(), ".")];
    let rust = prefixes.each_ref().map(|(from, to)| format!("--remap-path-prefix={from}={to}"));
    let c = prefixes.each_ref().map(|(from, to)| format!("-ffile-prefix-map={from}={to}"));
    let nameless = sh.clone();
    nameless.set_var("CARGO_ENCODED_RUSTFLAGS", rust.join("\u{1f}"));
    nameless.set_var("CFLAGS", c.join(" "));
    Ok(nameless)
}

/// An error if a file of an archive names the checkout or the packages of this machine.
fn check_without_paths(sh: &Shell, python: &Path, wheel: &Path) -> anyhow::Result<()> {
    const CHECK: &str = "import sys, zipfile\n\
                         wheel = zipfile.ZipFile(sys.argv[1])\n\
                         found = [(name, path) for name in wheel.namelist() for path in sys.argv[2:] \
                         if path.encode() in wheel.read(name)]\n\
                         sys.exit(f'paths of this machine: {found}' if found else 0)";
    let home = sh.var("HOME").context("HOME is not set")?;
    let cargo = sh.var("CARGO_HOME").unwrap_or_else(|_| format!("{home}/.cargo"));
    let root = sh.current_dir();
    Ok(cmd!(sh, "{python} -c {CHECK} {wheel} {cargo}/registry {root}").run()?)
}

/// The wheel as it is given away.
fn release_wheel(sh: &Shell, directory: &Path) -> anyhow::Result<()> {
    let wheel = wheel(
        &without_paths(sh)?,
        directory,
        &["--profile", "dist", "--features", &format!("extension,{FEATURES}")],
    )?;
    check_without_paths(sh, &python(sh, REQUIREMENTS)?, &wheel)?;
    let bytes = std::fs::metadata(&wheel)?.len();
    eprintln!("dist: the wheel has {bytes} bytes");
    ensure!(bytes < MAX_WHEEL_BYTES, "{} has {bytes} bytes, more than {MAX_WHEEL_BYTES}", wheel.display());
    Ok(())
}

/// Builds the wheel into a directory that holds no other one.
fn wheel(sh: &Shell, directory: &Path, options: &[&str]) -> anyhow::Result<PathBuf> {
    let python = python(sh, REQUIREMENTS)?;
    cmd!(sh, "{python} -m maturin build --manifest-path {PYTHON}/Cargo.toml --out {directory} {options...}")
        .run()?;
    let is_wheel = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "whl");
    sh.read_dir(directory)?.into_iter().find(is_wheel).context("maturin has built no wheel")
}

/// Trains the agents of `docs/train-your-agent.md` by the packages of their frameworks, on a scripted model.
pub(crate) fn check_frameworks(sh: &Shell) -> anyhow::Result<()> {
    let tests = sh.current_dir().join(PYTHON).join("tests/frameworks");
    let python = crate::python::python_of_frameworks(sh)?;
    let directory = sh.current_dir().join("target/frameworks");
    sh.remove_path(&directory)?;
    let wheel = wheel(sh, &directory, &["--features", "extension"])?;
    let quiet = ["--quiet", "--disable-pip-version-check", "--force-reinstall", "--no-deps"];
    cmd!(sh, "{python} -m pip install {quiet...} {wheel}").run()?;
    let program = python.with_file_name("skillrl");
    let (check, page) = (tests.join("check.py"), "docs/train-your-agent.md");
    let helper = "examples/exec-javascript/skillrl_env.mjs";
    Ok(cmd!(sh, "{python} {check} {page} {helper} {program}").run()?)
}

/// Builds the wheel unoptimized, and tests it as people get it: installed by pip into a fresh virtual environment.
pub(crate) fn check_wheel(sh: &Shell) -> anyhow::Result<()> {
    cmd!(sh, "cargo clippy --package skillrl-python --features extension -- -D warnings").run()?;
    let directory = sh.current_dir().join("target/wheel");
    sh.remove_path(&directory)?;
    // Local models take minutes to compile, and have checks of their own.
    let wheel = wheel(sh, &directory, &["--features", "extension"])?;
    let began = Instant::now();
    let environment = directory.join("environment");
    cmd!(sh, "python3 -m venv {environment}").run()?;
    let (python, skillrl) = (environment.join("bin/python"), environment.join("bin/skillrl"));
    let quiet = ["--quiet", "--disable-pip-version-check"];
    cmd!(sh, "{python} -m pip install {quiet...} {wheel}").run()?;
    let demo = directory.join("demo");
    cmd!(sh, "{skillrl} demo --out {demo}").quiet().ignore_stdout().run()?;
    eprintln!("wheel: from nothing to a trained skill in {:.0} s", began.elapsed().as_secs_f64());
    cmd!(sh, "{python} -m pip install {quiet...} --requirement {REQUIREMENTS}").run()?;
    // Elsewhere, so that the package is the installed one.
    let root = sh.current_dir();
    let _elsewhere = sh.push_dir(&directory);
    let (tests, package) = (root.join(PYTHON).join("tests"), root.join(PYTHON).join("python/skillrl"));
    cmd!(sh, "{python} -m pytest --quiet -p no:cacheprovider {tests}").run()?;
    cmd!(sh, "{python} -m mypy --strict --cache-dir=mypy {package}").run()?;
    // Beside skillrl 1.0, whose module has the same name.
    let (reference, values) = (directory.join("reference"), tests.join("values.py"));
    cmd!(sh, "{python} -m pip install {quiet...} --no-deps --target {reference} {REFERENCE}").run()?;
    let ours = cmd!(sh, "{python} {values}").quiet().read()?;
    let theirs = cmd!(sh, "{python} {values}").env("PYTHONPATH", &reference).quiet().read()?;
    ensure!(ours == theirs, "{} prints something else by {REFERENCE}", values.display());
    // With the adapters of SkillOpt itself, which bring the SDK of OpenAI along.
    let adapters = tests.join("with_skillopt.py");
    cmd!(sh, "{python} -m pip install {quiet...} {SKILLOPT}").run()?;
    cmd!(sh, "{python} -m pytest --quiet -p no:cacheprovider {adapters}").run()?;
    Ok(cmd!(sh, "{python} -m mypy.stubtest skillrl._native").run()?)
}
