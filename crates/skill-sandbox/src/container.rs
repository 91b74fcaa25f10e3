//! The command line of a container engine, for systems without `bwrap`.

use crate::Limits;
use std::ffi::OsString;
use std::path::PathBuf;

/// A container engine whose command line is that of `docker` (`podman` has the same).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerConfig {
    /// The engine's program.
    pub engine: String,
    /// The image, which has `sh`, `tar` and what the programs need.
    pub image: String,
    /// The runtime, such as `runsc`; none for the engine's own.
    pub runtime: Option<String>,
    /// Further flags of `run`.
    pub flags: Vec<String>,
}

/// The processes of a container besides those of the program: the script, what it starts, and what waits for the end of
/// the caller.
const OWN_PROCESSES: u32 = 6;
/// The size of `/dev/shm`.
const SHARED_MEMORY: u64 = 16 << 20;
/// A user and group without rights.
const NOBODY: &str = "65534:65534";
/// The exit code of an engine that did not start the container.
pub(crate) const ENGINE_FAILED: i32 = 125;
/// The exit code of an engine whose whole container was killed: by the kernel when memory runs out, or by a person.
pub(crate) const CONTAINER_KILLED: i32 = 137;
/// In a warning of an engine: it runs the container without a limit that it was given.
pub(crate) const WITHOUT_LIMIT: [&str; 2] = ["discarded", "ignored"];

/// The words of the engine up to the command that it starts in the container of this name.
pub(crate) fn words(
    config: &ContainerConfig,
    name: &str,
    limits: &Limits,
    binds: &[(PathBuf, String)],
    environment: &[(String, String)],
) -> Vec<OsString> {
    let Limits { cpu, memory, processes, disk, temporary, file, open_files, .. } = limits;
    let cpu = cpu.as_secs().max(1);
    let mut words: Vec<OsString> = [
        config.engine.as_str(),
        "run",
        "--rm",
        "-i",
        "--name",
        name,
        "--network",
        "none",
        // Else the engine would write all that is printed to a disk of the machine.
        "--log-driver",
        "none",
        "--read-only",
        "--cap-drop",
        "ALL",
        "--security-opt",
        "no-new-privileges",
        "--user",
        NOBODY,
        "--workdir",
        "/",
    ]
    .map(OsString::from)
    .into();
    let mut add = |flag: &str, value: String| words.extend([flag.into(), value.into()]);
    add("--pids-limit", processes.saturating_add(OWN_PROCESSES).to_string());
    add("--memory", memory.to_string());
    add("--memory-swap", memory.to_string());
    add("--ulimit", format!("cpu={cpu}:{}", cpu + 1));
    add("--ulimit", format!("fsize={file}:{file}"));
    add("--ulimit", format!("nofile={open_files}:{open_files}"));
    add("--ulimit", "core=0:0".to_owned());
    add("--shm-size", SHARED_MEMORY.to_string());
    add("--tmpfs", format!("/tmp:size={temporary},mode=1777"));
    add("--tmpfs", format!("/work:size={disk},mode=1777"));
    for (path, place) in binds {
        add("--volume", format!("{}:{place}:ro", path.display()));
    }
    add("--env", "HOME=/tmp".to_owned());
    for (name, value) in environment {
        add("--env", format!("{name}={value}"));
    }
    if let Some(runtime) = &config.runtime {
        add("--runtime", runtime.clone());
    }
    words.extend(config.flags.iter().map(OsString::from));
    words.push(config.image.as_str().into());
    words
}
