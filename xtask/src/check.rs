//! The checks besides `cargo xtask ci`: `cargo xtask check NAME` runs one, `cargo xtask ci --external` those that CI runs.
//!
//! They need more than the toolchain (Python and its packages, a browser) or more than a few minutes. A missing
//! program is a failure, and nothing is skipped but the feature `cuda` without nvcc, which is said. `.ci/run` installs
//! what the external checks need.

mod builds;
mod programs;

use crate::ci::{self, step};
use crate::workspace;
use anyhow::{bail, ensure};
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
        name: "docs",
        about: "looks up what pages claim: commands, options, keys, defaults, exit codes, files, measurements, outputs",
        is_external: IsExternal::No,
        run: documented_claims,
    },
    Check {
        name: "long",
        about: "runs the tests that take long, which `cargo xtask ci` leaves out (minutes)",
        is_external: IsExternal::Yes,
        run: ci::long_tests,
    },
    Check {
        name: "python",
        about: "plays the examples in examples/exec-python/ and runs the documented commands that need Python",
        is_external: IsExternal::Yes,
        run: programs::python_programs,
    },
    Check {
        name: "agent-sdks",
        about: "talks to the endpoint for agents by the packages openai and anthropic",
        is_external: IsExternal::Yes,
        run: programs::agent_sdks,
    },
    Check {
        name: "agents",
        about: "measures which skills the real programs of coding agents load, with a scripted model (npm, minutes)",
        is_external: IsExternal::No,
        run: programs::coding_agents,
    },
    Check {
        name: "mcp",
        about: "trains the demo through `skillrl mcp` by the official SDK's client",
        is_external: IsExternal::Yes,
        run: programs::mcp_client,
    },
    Check {
        name: "python-package",
        about: "compiles the Python package, which a build of the workspace leaves out",
        is_external: IsExternal::Yes,
        run: builds::python_package,
    },
    Check {
        name: "wheel",
        about: "builds the Python package, and tests it in a fresh virtual environment (minutes)",
        is_external: IsExternal::No,
        run: crate::dist::check_wheel,
    },
    Check {
        name: "frameworks",
        about: "trains the agents of docs/train-your-agent.md by their real frameworks, on a scripted model (npm, minutes)",
        is_external: IsExternal::No,
        run: crate::dist::check_frameworks,
    },
    Check {
        name: "default-build",
        about: "builds the program without the features of the tests, and compares two demos",
        is_external: IsExternal::Yes,
        run: builds::default_build,
    },
    Check {
        name: "alfworld",
        about: "plays recorded games on the original engine of ALFWorld, which pip compiles (minutes)",
        is_external: IsExternal::No,
        run: programs::original_alfworld,
    },
    Check {
        name: "documentation",
        about: "writes the documentation of every crate, with warnings denied",
        is_external: IsExternal::Yes,
        run: crate::ci::documentation,
    },
    Check {
        name: "pages",
        about: "opens the pages of `serve` and `report` in a headless Chromium",
        is_external: IsExternal::Yes,
        run: programs::pages,
    },
    Check {
        name: "features",
        about: "checks the libraries without their environments and without the journal, and the facade with each feature alone (minutes)",
        is_external: IsExternal::No,
        run: builds::features,
    },
    Check {
        name: "no-features",
        about: "checks the libraries and the facade without any feature",
        is_external: IsExternal::Yes,
        run: builds::no_features,
    },
    Check {
        name: "packages",
        about: "packs each published crate with every file that it needs, and builds the packages",
        is_external: IsExternal::No,
        run: builds::packages,
    },
    Check {
        name: "bench",
        about: "runs every part of the benchmark once, briefly and unoptimized",
        is_external: IsExternal::Yes,
        run: brief_benchmark,
    },
    Check {
        name: "search",
        about: "compares search with stored results of GEPA, as `cargo xtask ci` does",
        is_external: IsExternal::No,
        run: |sh| {
            crate::build_as_tested(sh)?;
            crate::search::check(sh)
        },
    },
    Check {
        name: "api",
        about: "compares the lists of public items in api/ with the code",
        is_external: IsExternal::Yes,
        run: builds::public_interface,
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
        run: builds::weights,
    },
    Check {
        name: "full",
        about: "builds the full program, and runs the tests that need models on this machine",
        is_external: IsExternal::Yes,
        run: builds::full_program,
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
        about: "writes training data, fine-tuned and merged models, and loads them with torch, transformers, peft and TRL (minutes)",
        is_external: IsExternal::No,
        run: programs::exports,
    },
    Check {
        name: "trainers",
        about: "validates `skillrl env serve`, plays every world by OpenEnv's clients, and trains two steps by TRL (minutes)",
        is_external: IsExternal::No,
        run: programs::trainers,
    },
    Check {
        name: "tinker",
        about: "trains and samples on `skillrl train-server` by the SDK of Tinker (minutes)",
        is_external: IsExternal::No,
        run: programs::tinker_sdk,
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
        run: programs::sandboxes,
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

/// The tests of the pages, which `cargo xtask ci` runs too.
fn documented_claims(sh: &Shell) -> anyhow::Result<()> {
    let sh = &ci::linting(sh)?;
    let as_tested = workspace::as_tested(sh)?;
    Ok(cmd!(sh, "cargo test {as_tested...} --test docs").run()?)
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
    workspace::build_full(sh)?;
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
