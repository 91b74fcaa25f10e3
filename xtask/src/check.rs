//! The checks besides `cargo xtask ci`: `cargo xtask check NAME` runs one, `cargo xtask ci --external` those that CI runs.
//!
//! They need more than the toolchain (Python and its packages, a browser) or more than a few minutes. Nothing is
//! skipped here: a missing program is a failure. `.ci/run` installs what the external checks need.

use crate::ci::{self, step};
use crate::python::{python, python_of_trainers};
use crate::workspace;
use anyhow::{Context as _, bail, ensure};
use std::path::Path;
use xshell::{Shell, cmd};

/// A check that a person can run by its name.
struct Check {
    name: &'static str,
    about: &'static str,
    is_external: IsExternal,
    run: fn(&Shell) -> anyhow::Result<()>,
}

/// Whether `cargo xtask ci --external` runs a check.
#[derive(Clone, Copy, PartialEq, Eq)]
enum IsExternal {
    Yes,
    /// It takes too long, and is run by hand.
    No,
}

/// Every check, in the order in which CI runs them.
const CHECKS: &[Check] = &[
    Check {
        name: "circles",
        about: "finds modules that import one another in a circle, as `cargo xtask ci` does",
        is_external: IsExternal::No,
        run: |sh| crate::circles::check(&sh.current_dir()),
    },
    Check {
        name: "sentences",
        about: "counts sentences in assertions, as `cargo xtask ci` does",
        is_external: IsExternal::No,
        run: crate::assertions::check,
    },
    Check {
        name: "python",
        about: "plays the examples in examples/exec-python/ and runs the documented commands that need Python",
        is_external: IsExternal::Yes,
        run: python_programs,
    },
    Check {
        name: "agent-sdks",
        about: "talks to the endpoint for agents by the packages openai and anthropic",
        is_external: IsExternal::Yes,
        run: agent_sdks,
    },
    Check {
        name: "agents",
        about: "measures which skills the real programs of coding agents load, with a scripted model (npm, minutes)",
        is_external: IsExternal::No,
        run: coding_agents,
    },
    Check {
        name: "mcp",
        about: "trains the demo through `skillrl mcp` by the official SDK's client",
        is_external: IsExternal::Yes,
        run: mcp_client,
    },
    Check {
        name: "wheel",
        about: "builds the Python package, and tests it in a fresh virtual environment (minutes)",
        is_external: IsExternal::No,
        run: crate::dist::check_wheel,
    },
    Check {
        name: "default-build",
        about: "builds the program without the features of the tests, and compares two demos",
        is_external: IsExternal::Yes,
        run: default_build,
    },
    Check {
        name: "alfworld",
        about: "plays recorded games on the original engine of ALFWorld, which pip compiles (minutes)",
        is_external: IsExternal::No,
        run: original_alfworld,
    },
    Check {
        name: "pages",
        about: "opens the pages of `serve` and `report` in a headless Chromium",
        is_external: IsExternal::Yes,
        run: pages,
    },
    Check {
        name: "features",
        about: "builds the libraries without their environments and without the journal, and the facade with each feature alone",
        is_external: IsExternal::No,
        run: features,
    },
    Check {
        name: "packages",
        about: "packs each published crate with every file that it needs, and builds the packages",
        is_external: IsExternal::No,
        run: packages,
    },
    Check {
        name: "bench",
        about: "runs every part of the benchmark once, briefly and unoptimized",
        is_external: IsExternal::No,
        run: brief_benchmark,
    },
    Check {
        name: "api",
        about: "compares the lists in api/ with the code, where cargo-public-api can run",
        is_external: IsExternal::Yes,
        run: public_interface,
    },
    Check {
        name: "crash",
        about: "kills runs of the demo, with a document and with a bank, around appends to their journals (minutes)",
        is_external: IsExternal::No,
        run: crate::crash,
    },
    Check {
        name: "sim",
        about: "makes 1,000 simulated runs in virtual time (minutes)",
        is_external: IsExternal::No,
        run: simulated_runs,
    },
    Check {
        name: "trials",
        about: "judges skills of known effect in 1,000 simulated trials each",
        is_external: IsExternal::No,
        run: simulated_trials,
    },
    Check {
        name: "weights",
        about: "builds local models in release, and tests them against recorded data (minutes)",
        is_external: IsExternal::No,
        run: weights,
    },
    Check {
        name: "seeds",
        about: "builds the full program and types what READMEs of krill and SkillRL say, with small sizes where weights are trained",
        is_external: IsExternal::Yes,
        run: seeds,
    },
    Check {
        name: "seeds-full",
        about: "the same as they are printed, in a release build (minutes)",
        is_external: IsExternal::No,
        run: seeds_as_printed,
    },
    Check {
        name: "rl-kills",
        about: "kills a run of all phases 20 times, and compares its files with an undisturbed run (minutes)",
        is_external: IsExternal::No,
        run: crate::weights::kills,
    },
    Check {
        name: "exports",
        about: "writes training data and fine-tuned models, and loads them with torch, transformers, peft and TRL (minutes)",
        is_external: IsExternal::No,
        run: exports,
    },
    Check {
        name: "trainers",
        about: "validates `skillrl env serve`, plays every world by OpenEnv's clients, and trains two steps by TRL (minutes)",
        is_external: IsExternal::No,
        run: trainers,
    },
    Check {
        name: "tinker",
        about: "trains and samples on `skillrl train-server` by the SDK of Tinker (minutes)",
        is_external: IsExternal::No,
        run: tinker_sdk,
    },
    Check {
        name: "nats",
        about: "trains over a real server of NATS, and kills workers, server and driver (an hour; CI makes 3 rounds)",
        is_external: IsExternal::No,
        run: crate::nats::check,
    },
    Check {
        name: "nats-brief",
        about: "the same with 3 rounds, and without what is measured in a release build",
        is_external: IsExternal::Yes,
        run: crate::nats::check_briefly,
    },
    Check {
        name: "demos",
        about: "makes every bundled command, demo and example at full size, and looks at its report (minutes)",
        is_external: IsExternal::No,
        run: demos,
    },
    Check {
        name: "sandbox",
        about: "runs hostile programs in bwrap, as root too where it is started by root, and tasks of spreadsheets in it",
        is_external: IsExternal::No,
        run: sandboxes,
    },
    Check {
        name: "caps",
        about: "makes 78 runs up to a cap, half of them killed again and again (minutes)",
        is_external: IsExternal::No,
        run: caps,
    },
];

/// Runs the check of this name; without a name, lists them.
pub(crate) fn run(sh: &Shell, name: Option<&str>) -> anyhow::Result<()> {
    let Some(name) = name else {
        for Check { name, about, .. } in CHECKS {
            eprintln!("{name:12} {about}");
        }
        return Ok(());
    };
    let Some(check) = CHECKS.iter().find(|check| check.name == name) else {
        let names: Vec<&str> = CHECKS.iter().map(|check| check.name).collect();
        bail!("unknown check `{name}`: use one of {}", names.join(", "));
    };
    step(check.name, || (check.run)(sh))
}

/// Runs every check that CI runs besides `cargo xtask ci`.
pub(crate) fn external(sh: &Shell) -> anyhow::Result<()> {
    for check in CHECKS.iter().filter(|check| check.is_external == IsExternal::Yes) {
        step(check.name, || (check.run)(sh))?;
    }
    eprintln!("ci: every external check passed");
    Ok(())
}

/// The programs in Python: environments played by the engine, and the pages of the documentation that run one.
fn python_programs(sh: &Shell) -> anyhow::Result<()> {
    cmd!(sh, "python3 --version").run().context("these checks need Python 3 as `python3`")?;
    for package in ["skill-envs", "skill-cli"] {
        let test = format!("crates/{package}/tests/external_python.rs");
        ensure!(sh.path_exists(&test), "{test} is missing, and nothing else runs its tests");
    }
    // The pages without such a command have been run by `cargo xtask test`.
    let sh = &ci::linting(sh)?;
    let _programs = sh.push_env("SKILLRL_DOCS_PROGRAMS", "only");
    let as_tested = workspace::as_tested(sh)?;
    Ok(cmd!(sh, "cargo test {as_tested...} --test external_python --test docs --quiet").run()?)
}

/// Programs that mean harm in a real sandbox; what is missing for it is a failure here.
fn sandboxes(sh: &Shell) -> anyhow::Result<()> {
    cmd!(sh, "bwrap --version").run().context("this check needs bubblewrap 0.8 or later")?;
    cmd!(sh, "/usr/bin/python3 --version").run().context("this check needs the system's Python")?;
    cmd!(sh, "/usr/bin/python3 -c 'import openpyxl'").run().context("this check needs openpyxl")?;
    cmd!(sh, "soffice --version").run().context("this check needs LibreOffice")?;
    // One after the other, since the programs of a test take all processors.
    let words = ["--include-ignored", "--test-threads=1", "--nocapture"];
    cmd!(sh, "cargo test --quiet --package skill-sandbox --test hostile -- {words...}").run()?;
    // Real tasks are worked on where `SKILLRL_CONFORMANCE` says where they lie.
    let skipped: &[&str] = if crate::ci::recorded() { &[] } else { &["--skip", "real_tasks"] };
    for filter in ["spreadsheet_env", "in_the_sandbox"] {
        cmd!(sh, "cargo test --quiet --package skill-envs --features spreadsheets --test it {filter} -- --include-ignored {skipped...}")
            .run()?;
    }
    Ok(())
}

/// The SDKs that agents are built on, as clients of the endpoint for agents.
fn agent_sdks(sh: &Shell) -> anyhow::Result<()> {
    let python = python(sh, "crates/skill-envs/tests/agent_sdks/requirements.txt")?;
    crate::build_as_tested(sh)?;
    let example = crate::built(sh, "debug/examples", "agent_endpoint");
    Ok(cmd!(sh, "{python} crates/skill-envs/tests/agent_sdks/check.py {example}").run()?)
}

/// The real engine of ALFWorld behind a server: recorded games played on it, natively, and as they were recorded.
fn original_alfworld(sh: &Shell) -> anyhow::Result<()> {
    /// One for each kind of task; the engine takes seconds for a game.
    const N_GAMES: &str = "6";
    let python = python(sh, "examples/alfworld-live/requirements.txt")?;
    let skillrl = crate::default_program(sh)?;
    let script = "examples/alfworld-live/compare.py";
    Ok(cmd!(sh, "{python} {script} --skillrl {skillrl} --games {N_GAMES}").run()?)
}

/// The pages of `serve` and `report` in a headless Chromium, which the standard library of Python drives.
fn pages(sh: &Shell) -> anyhow::Result<()> {
    const DIRECTORY: &str = "crates/skill-serve/tests/browser";
    let program = crate::default_program(sh)?;
    cmd!(sh, "python3 {DIRECTORY}/check.py {program}").run()?;
    Ok(cmd!(sh, "python3 {DIRECTORY}/measure.py {program}").run()?)
}

/// The official SDK's client of the Model Context Protocol, which trains the demo by `skillrl mcp`.
fn mcp_client(sh: &Shell) -> anyhow::Result<()> {
    let python = python(sh, "crates/skill-mcp/tests/sdk/requirements.txt")?;
    crate::build_as_tested(sh)?;
    let program = crate::built(sh, "debug", "skillrl");
    Ok(cmd!(sh, "{python} crates/skill-mcp/tests/sdk/check.py {program}").run()?)
}

/// The lists in `api/`, where the tool that makes them is installed; it needs a nightly toolchain.
fn public_interface(sh: &Shell) -> anyhow::Result<()> {
    crate::api::run(sh, true)
}

/// Each environment is a feature that can be left out, and so is the journal; the facade has features of its own.
fn features(sh: &Shell) -> anyhow::Result<()> {
    for package in ["skill-llm", "skill-envs", "skill-sim", "skillrl"] {
        checked(sh, package, "")?;
    }
    checked(sh, "skill-envs", "endpoint")?;
    for feature in facade_features(sh)? {
        checked(sh, "skillrl", &feature)?;
    }
    // What is left out is named to anyone who configures it.
    Ok(cmd!(sh, "cargo test --package skillrl --no-default-features --lib --quiet -- left_out").run()?)
}

/// Checks a library with these features alone; a warning is a failure.
fn checked(sh: &Shell, package: &str, features: &str) -> anyhow::Result<()> {
    let told = cmd!(sh, "cargo check --package {package} --no-default-features --features={features}")
        .read_stderr()?;
    ensure!(!told.contains("warning:"), "{package} with the features `{features}` has warnings:\n{told}");
    Ok(())
}

/// The cargo features of the facade, from its manifest.
fn facade_features(sh: &Shell) -> anyhow::Result<Vec<String>> {
    let manifest = sh.read_file("crates/skillrl/Cargo.toml")?;
    let features = manifest.split_once("[features]\n").map_or("", |(_, rest)| rest);
    let lines = features.lines().take_while(|line| !line.starts_with('['));
    let names: Vec<String> =
        lines.filter_map(|line| line.split_once(" = ")).map(|(name, _)| name.to_owned()).collect();
    ensure!(names.len() > 2, "the features of the facade were not found");
    Ok(names)
}

/// What would be published has all files that it needs: each package is built from itself.
fn packages(sh: &Shell) -> anyhow::Result<()> {
    let unpublished = ["xtask", "skillrl-bench", "skillrl-python", "exec-lights", "fuzz-targets"];
    let unpublished = unpublished.map(|name| format!("--exclude={name}"));
    let options = ["--allow-dirty", "--quiet"];
    Ok(cmd!(sh, "cargo package --workspace {unpublished...} {options...}").run()?)
}

fn brief_benchmark(sh: &Shell) -> anyhow::Result<()> {
    crate::bench(sh, true, &[])
}

/// The long form of tests that `cargo xtask test` runs with fewer seeds.
fn simulated_trials(sh: &Shell) -> anyhow::Result<()> {
    let _seeds = sh.push_env("SKILLRL_TRIAL_SEEDS", "1000");
    cmd!(sh, "cargo test --release --package skill-core --test stats trials:: -- --nocapture").run()?;
    Ok(())
}

fn simulated_runs(sh: &Shell) -> anyhow::Result<()> {
    crate::sim(sh, crate::DEFAULT_SEEDS, 0)
}

/// Every bundled command, demo and example, as a person types it, and the page of its run.
fn demos(sh: &Shell) -> anyhow::Result<()> {
    // What stands where a section of a page was left out.
    const LEFT_OUT: &str = "data-left-out";
    cmd!(sh, "cargo build --release --package skill-cli --bin skillrl --features full").run()?;
    let program = crate::built(sh, "release", "skillrl");
    let root = sh.current_dir();
    let room = sh.create_temp_dir()?;
    for example in ["own-data", "exec-shell"] {
        let (from, to) = (root.join("examples").join(example), room.path());
        cmd!(sh, "cp -R {from} {to}").run()?;
    }
    let _inside = sh.push_dir(room.path());
    let commands: [(&[&str], &str); 8] = [
        (&["train", "--env", "alfworld", "--mock"], "runs/alfworld-mock"),
        (
            &[
                "train",
                "--env",
                "alfworld",
                "--mock",
                "--set",
                "train.mode=bank",
                "--set",
                "run.dir=household-bank",
            ],
            "household-bank",
        ),
        (&["train", "--env", "webshop", "--mock"], "runs/webshop-mock"),
        (&["demo", "--dir", "notes"], "notes/run"),
        (&["demo", "--world", "alfworld", "--dir", "household"], "household/run"),
        (&["demo", "--world", "webshop", "--dir", "shop"], "shop/run"),
        (&["train", "own-data/skillrl.toml"], "own-data/run"),
        (&["train", "exec-shell/skillrl.toml"], "exec-shell/run"),
    ];
    for (command, run) in commands {
        cmd!(sh, "{program} {command...}").ignore_stdout().run()?;
        cmd!(sh, "{program} report {run} --output page.html").ignore_stdout().run()?;
        let page = sh.read_file("page.html")?;
        ensure!(page.contains("</html>") && !page.contains(LEFT_OUT), "the report of {run} lacks a section");
    }
    Ok(())
}

/// Every command that has a budget, under each cap, at 1, 64 and 256 workers.
fn caps(sh: &Shell) -> anyhow::Result<()> {
    let sh = &ci::linting(sh)?;
    let _runs = sh.push_env("SKILLRL_CAPS_RUNS", "78");
    let as_tested = workspace::as_tested(sh)?;
    Ok(cmd!(sh, "cargo test {as_tested...} --test cli -- caps::").run()?)
}

/// What compiles the tensor library, which `cargo xtask ci` leaves out.
fn weights(sh: &Shell) -> anyhow::Result<()> {
    cmd!(sh, "cargo clippy --package skill-train --features candle,parquet --all-targets -- -D warnings")
        .run()?;
    let program =
        ["--package", "skillrl", "--package", "skill-cli", "--features", "skillrl/weights,skill-cli/weights"];
    cmd!(sh, "cargo clippy {program...} --all-targets -- -D warnings").run()?;
    // A model of embeddings is no part of the recorded data.
    let has_model = std::env::var_os("SKILLRL_MINILM").is_some();
    let recorded = if crate::ci::recorded() { &["--include-ignored"][..] } else { &[] };
    let left_out = if has_model { &[][..] } else { &["--skip", "conformance_of_embeddings"] };
    cmd!(
        sh,
        "cargo test --release --package skill-train --features candle,parquet -- {recorded...} {left_out...}"
    )
    .run()?;
    cmd!(sh, "cargo test --release --package skill-tinker --features server -- {recorded...}").run()?;
    Ok(cmd!(
        sh,
        "cargo test --release --package skill-cli --features weights --test cli -- env_export:: local:: phased:: rl:: sft:: train_server::"
    )
    .run()?)
}

/// What krill and SkillRL in Rust say in their READMEs, in this order and in one directory.
const SEEDS: [&str; 7] = [
    "train --env alfworld --mock",
    "train --env webshop --mock",
    "collect --episodes 64 --output data/trajectories.json",
    "distill --trajectories data/trajectories.json --output data/skill_bank.json",
    "sft --skill-bank data/skill_bank.json --num-examples 7500",
    "rl --skill-bank data/skill_bank.json",
    "inspect data/skill_bank.json",
];

fn seeds(sh: &Shell) -> anyhow::Result<()> {
    const SMALL: [&str; 10] = [
        "env.max_train=64",
        "env.max_val=6",
        "env.max_test=6",
        "sft.epochs=1",
        "rl.iterations=1",
        "rl.tasks=2",
        "rl.group_size=2",
        "evolution.rounds=1",
        "evolution.max_trials=1",
        "evolution.max_trial_rollouts=64",
    ];
    cmd!(sh, "cargo build --quiet --package skill-cli --bin skillrl --features full").run()?;
    let small: Vec<&str> = SMALL.iter().flat_map(|setting| ["--set", *setting]).collect();
    type_seeds(sh, "debug", &|command| match command.split_once(' ') {
        // What takes no configuration, and what takes seconds.
        Some(("inspect", _)) => &[],
        _ => &small,
    })
}

fn seeds_as_printed(sh: &Shell) -> anyhow::Result<()> {
    cmd!(sh, "cargo build --release --package skill-cli --bin skillrl --features full").run()?;
    type_seeds(sh, "release", &|_| &[])
}

/// Types each command, with further arguments, and the quick start of krill; each leaves what it says.
fn type_seeds<'a>(sh: &Shell, profile: &str, further: &dyn Fn(&str) -> &'a [&'a str]) -> anyhow::Result<()> {
    let skillrl = crate::built(sh, profile, "skillrl");
    let folder = sh.current_dir().join("target/seeds");
    sh.remove_path(&folder)?;
    sh.create_dir(&folder)?;
    let _in = sh.push_dir(&folder);
    for command in SEEDS {
        let began = std::time::Instant::now();
        let words = command.split(' ').chain(further(command).iter().copied());
        cmd!(sh, "{skillrl} {words...}").ignore_stderr().run()?;
        eprintln!("seeds: `skillrl {command}` took {:.0} s", began.elapsed().as_secs_f64());
    }
    for made in [
        "runs/alfworld-mock/report.html",
        "runs/alfworld-mock/rl/policy/model.safetensors",
        "runs/webshop-mock/report.html",
        "data/sft/report.html",
        "data/rl/report.html",
    ] {
        anyhow::ensure!(folder.join(made).is_file(), "{made} was not made");
    }
    // The configuration of krill's quick start; its servers are public, so that models are simulated here.
    let models = "{\"model\": {\"policy_api_base\": \"https://api.openai.com/v1\", \"policy_model_id\": \"gpt-4o-mini\", \
                  \"teacher_api_base\": \"https://api.openai.com/v1\", \"teacher_model_id\": \"gpt-4o\", \
                  \"embedding_api_base\": \"https://api.openai.com/v1\", \"embedding_model_id\": \"text-embedding-3-small\"}}";
    sh.write_file("config.demo.json", models)?;
    let quick =
        "--trajectories data/trajectories.json --output data/demo_bank.json --config config.demo.json --mock";
    let words = quick.split(' ');
    cmd!(sh, "{skillrl} distill {words...}").ignore_stderr().run()?;
    Ok(cmd!(sh, "{skillrl} inspect data/demo_bank.json").run()?)
}

/// What other trainers read: data in every format, by the checkers here and by the packages themselves, and the policies of
/// two short runs of fine-tuning, which transformers and peft load.
fn exports(sh: &Shell) -> anyhow::Result<()> {
    const LOADERS: &str = "crates/skill-train/tests/loaders";
    const BASE: &str = "crates/skill-train/tests/data/own/chat-tiny";
    let folder = sh.current_dir().join("target/exports");
    sh.remove_path(&folder)?;
    sh.create_dir(&folder)?;
    let data = folder.join("data");
    cmd!(sh, "cargo run --quiet --package skill-train --features parquet --example write_exports -- {data}")
        .run()?;
    cmd!(sh, "cargo build --quiet --package skill-cli --bin skillrl --features weights").run()?;
    let skillrl = crate::built(sh, "debug", "skillrl");
    let base = sh.current_dir().join(BASE);
    let config = folder.join("household.toml");
    let path = base.display();
    let text = format!(
        "[models.target]\nkind = \"local\"\npath = '{path}'\n\n[models.optimizer]\nkind = \"simulated\"\n\n\
         [env]\nkind = \"alfworld\"\nmax_train = 3\nmax_val = 1\nmax_test = 1\n\n\
         [sft]\nexamples = 8\nbatch_size = 4\nlearning_rate = 0.01\n"
    );
    sh.write_file(&config, text)?;
    for (run, rank) in [("adapter", "4"), ("full", "0")] {
        let out = folder.join(run);
        cmd!(sh, "{skillrl} sft {config} --lora-rank {rank} --out {out} --quiet").run()?;
    }
    let python = python(sh, &format!("{LOADERS}/requirements.txt"))?;
    let [adapter, full] = ["adapter", "full"].map(|run| folder.join(run).join("policy"));
    Ok(cmd!(sh, "{python} {LOADERS}/check.py {data} {base} {adapter} {full}").run()?)
}

/// What other trainers do with `skillrl env serve`, and its figures, in a release build: the packages openenv and
/// openenv-core, whose modules have the same names, and TRL on a tiny model that is made on the spot.
fn trainers(sh: &Shell) -> anyhow::Result<()> {
    const SCRIPTS: &str = "crates/skill-openenv/tests/trainers";
    const CORE: &str = "target/external/openenv-core";
    let python = python_of_trainers(sh)?;
    let wanted = format!("{SCRIPTS}/requirements-core.txt");
    let core = sh.current_dir().join(CORE);
    if !sh.path_exists(core.join("openenv_core")) {
        let quiet = ["--quiet", "--disable-pip-version-check", "--no-deps"];
        cmd!(sh, "{python} -m pip install {quiet...} --target {core} --requirement {wanted}").run()?;
    }
    cmd!(sh, "cargo build --quiet --release --package skill-cli --features openenv").run()?;
    let program = crate::built(sh, "release", "skillrl");
    Ok(cmd!(sh, "{python} {SCRIPTS}/check.py {program} {core}").run()?)
}

/// Installs the pinned programs of coding agents with npm, and drives them with a scripted model on loopback.
fn coding_agents(sh: &Shell) -> anyhow::Result<()> {
    const SCRIPT: &str = "crates/skill-agents/tests/programs/check.py";
    cmd!(sh, "cargo build --package skill-cli").run()?;
    let programs = sh.current_dir().join("target/external/agents");
    sh.create_dir(&programs)?;
    let program = crate::built(sh, "debug", "skillrl");
    Ok(cmd!(sh, "python3 {SCRIPT} {program} {programs}").run()?)
}

/// What the SDK of Tinker does with `skillrl train-server`, in a release build. Most of what it needs is in the
/// environment of the trainers; its own requirements name a build of torch for graphics cards.
fn tinker_sdk(sh: &Shell) -> anyhow::Result<()> {
    const SCRIPTS: &str = "crates/skill-tinker/tests/sdk";
    const MODEL: &str = "crates/skill-train/tests/data/own/chat-tiny";
    let python = python_of_trainers(sh)?;
    let sdk = sh.current_dir().join("target/external/tinker");
    if !sh.path_exists(sdk.join("tinker")) {
        let quiet = ["--quiet", "--disable-pip-version-check", "--no-deps"];
        let wanted = format!("{SCRIPTS}/requirements.txt");
        cmd!(sh, "{python} -m pip install {quiet...} --target {sdk} --requirement {wanted}").run()?;
    }
    cmd!(sh, "cargo build --quiet --release --package skill-cli --features weights").run()?;
    let program = crate::built(sh, "release", "skillrl");
    Ok(cmd!(sh, "{python} {SCRIPTS}/check.py {program} {MODEL}").env("PYTHONPATH", sdk).run()?)
}

/// The program as most people build it, without the features of the tests: it builds without a warning, and its demo
/// gives the same bytes every time.
fn default_build(sh: &Shell) -> anyhow::Result<()> {
    let built = cmd!(sh, "cargo build --package skill-cli --bin skillrl").quiet().read_stderr()?;
    if built.lines().any(|line| line.starts_with("warning:")) {
        bail!("the default program builds with warnings:\n{built}");
    }
    let program = crate::built(sh, "debug", "skillrl");
    let once = || cmd!(sh, "{program} demo").quiet().read();
    if once()? != once()? {
        bail!("two demos printed different texts");
    }
    left_out(sh, &program)
}

/// A program without traces warns anyone who configured a collector for them.
fn left_out(sh: &Shell, program: &Path) -> anyhow::Result<()> {
    let is_told = |command: &[&str], is_disabled: &str| -> anyhow::Result<bool> {
        let command = cmd!(sh, "{program} {command...}")
            .env("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
            .env("OTEL_SDK_DISABLED", is_disabled)
            .env_remove("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
            .env_remove("OTEL_TRACES_EXPORTER");
        Ok(command.quiet().ignore_stdout().read_stderr()?.contains("built without the feature `otel`"))
    };
    if !is_told(&["demo"], "false")? {
        bail!("a demo without traces said nothing of the collector that was named");
    }
    if is_told(&["demo"], "true")? || is_told(&["completions", "bash"], "false")? {
        bail!("it was said that no traces are sent, where nobody waits for any");
    }
    Ok(())
}
