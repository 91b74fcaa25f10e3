//! The command line.

use std::path::PathBuf;

xflags::xflags! {
    /// Tasks of this repository.
    cmd xtask {
        /// Trains on the bundled task with simulated models: no network, no key.
        cmd demo {
            /// What it is played on, as `skillrl demo --world`; `notes` without it.
            optional --world world: String
            /// Trains a bank of skills; for `--world alfworld`.
            optional --bank
            /// Fine-tunes a small decoder and trains it by GRPO with a bank in the loop, in a release build; for
            /// `--world alfworld`. Ten minutes.
            optional --weights
        }
        /// Runs everything that CI runs.
        cmd ci {
            /// Runs the checks that need more than the toolchain instead, such as Python; `.ci/run` installs what they need.
            optional --external
        }
        /// Runs one of the checks that `ci` leaves out; without a name, lists them.
        cmd check {
            /// The check.
            optional name: String
            /// How many rounds, for `nats`: 100 by default, and 3 in CI.
            optional --rounds rounds: u64
        }
        /// Runs the tests and the doctests.
        cmd test {}
        /// Kills a run of the demo at every append to its journal, in turn, and resumes it each time.
        cmd crash {}
        /// Runs whole training runs in virtual time, more of them than CI does; names the seed that fails.
        cmd sim {
            /// How many seeds; 1000 by default.
            optional --seeds seeds: u64
            /// The first seed; 0 by default.
            optional --from from: u64
        }
        /// Measures skillrl against a mock server in a release build and prints the table of `benches/README.md`.
        cmd bench {
            /// Measures everything once, briefly and unoptimized: shows that the benchmark works, and nothing else.
            optional --quick
            /// Times functions of the core instead.
            optional --micro
            /// Measures the worlds alone.
            optional --worlds
            /// Measures large runs and journals alone.
            optional --runs
            /// Measures on three seeds instead what `demo --weights` reaches. Half an hour.
            optional --weights
            /// Compares ways of searching in simulated environments instead, with the packages of GEPA and SkillOpt
            /// in a virtual environment; continues where it was stopped. Up to six hours; with `--quick` two
            /// environments.
            optional --search
            /// With `--search`: the seeds, `judged` by default; `search-bench seeds` lists them. With `--real`: how many.
            optional --seeds seeds: String
            /// Compares ways of searching instead on public tasks with a real target and a scripted optimizer; estimates the
            /// time first, and resumes after an interruption. Needs `--url` and `--model`.
            optional --real
            /// With `--real`: a server with Chat Completions, such as `http://127.0.0.1:8080/v1`.
            optional --url url: String
            /// With `--real`: the name of its model.
            optional --model model: String
            /// With `--real`: `chain-sum` (the default), `bfcl-simple` or `bbh`.
            optional --task task: String
            /// With `--real --task bbh`: the file of a task, as the repository of BIG-Bench Hard has it.
            optional --data data: PathBuf
            /// A Python that has the packages alfworld and textworld: their engine is measured beside ours.
            optional --alfworld-python python: PathBuf
        }
        /// Writes the lists of the public interface in `api/`.
        cmd api {
            /// Compares them with the code instead.
            optional --check
        }
        /// Builds what people install into `target/dist/`: a static program for Linux with completions, manuals and
        /// checksums, and the wheel of the Python package. Release builds: minutes.
        cmd dist {
            /// Builds the program alone.
            optional --program
            /// Builds the wheel alone.
            optional --wheel
        }
        /// Writes the files that are copies of others.
        cmd gen {
            /// Fails if one is not current, instead of writing it.
            optional --check
        }
    }
}
