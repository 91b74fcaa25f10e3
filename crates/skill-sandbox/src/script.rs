//! The shell script that is the first process inside of the sandbox: it starts the program, ends what that leaves
//! running, and hands out the files.
//!
//! The program runs as a child without the channel for files. The script is process 1 of its namespace, which no signal
//! from inside ends. What it writes to the channel: a line [`BEGAN`], a line [`ENDED`] with the exit code, `1` where a
//! file system is full, and what the cgroup of a container has counted; two lines with the times of the processor; and an
//! archive with the files.

use crate::program::Outputs;
use crate::{Limits, RunError};
use std::fmt::Write as _;

/// The line that says that the program is about to start.
pub(crate) const BEGAN: &[u8] = b"began\n";
/// The beginning of the line that says how it ended.
pub(crate) const ENDED: &[u8] = b"ended ";

/// Other than `bwrap`, an engine keeps a container alive when its caller is killed: then the input ends.
const CONTAINER: &str = "exec 3>&1 4<&0 >&2 </dev/null\n\
    [ $$ = 1 ] && (cat <&4 >/dev/null; kill -9 -1) 3>&- &\nexec 4<&-\n";

/// What the kernel has counted in the cgroup of the container, of version 2 or 1; nothing where it is not shown.
const COUNTS: &str = r#"counted() {
  n=0
  for at in "/sys/fs/cgroup/$2" "/sys/fs/cgroup/$3"; do
    [ -r "$at" ] && while read -r name value; do [ "$name" = "$1" ] && n=$value; done <"$at"
  done
}
counted oom_kill memory.events memory/memory.oom_control; oom=$n
counted max pids.events pids/pids.events; forks=$n
"#;

/// How the script's files leave the sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Channel {
    /// By a pipe that is the standard input.
    Input,
    /// By the standard output; what the program prints goes to the standard error. The standard input stays open for
    /// as long as the caller lives.
    Output,
}

/// What the script needs to know.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Script<'a> {
    pub(crate) channel: Channel,
    /// The working directory.
    pub(crate) work: &'a str,
    /// Where other files may be written.
    pub(crate) temporary: &'a str,
    /// Where the program starts, if not there.
    pub(crate) directory: Option<&'a str>,
    /// What it reads on its standard input.
    pub(crate) stdin: Option<&'a str>,
    /// An archive to unpack into the working directory.
    pub(crate) unpack: Option<&'a str>,
    pub(crate) outputs: &'a Outputs,
    /// Limits that `prlimit` sets; none where the engine sets them.
    pub(crate) limits: Option<RlimitSet>,
}

/// Resource limits of each process of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RlimitSet {
    pub(crate) limits: Limits,
    /// The address space in bytes, and the processes of the user: where no cgroup bounds both.
    pub(crate) is_alone: bool,
}

/// What a process may map beyond its memory, since libraries and threads map more than they use.
const MAPPED_BEYOND: u64 = 1 << 30;
/// How many processes may be begun beyond what is allowed, so that the monitor sees that there are too many.
const PROCESSES_BEYOND: u32 = 16;

impl RlimitSet {
    fn words(self) -> String {
        let Limits { cpu, file, open_files, memory, processes, .. } = self.limits;
        let cpu = cpu.as_secs().max(1);
        let hard = cpu + 1;
        let mut words = format!("prlimit --cpu={cpu}:{hard} --fsize={file} --nofile={open_files} --core=0");
        if self.is_alone {
            let mapped = memory.saturating_add(MAPPED_BEYOND);
            let processes = processes.saturating_add(PROCESSES_BEYOND);
            // Writing to a string does not fail.
            let _ = write!(words, " --as={mapped} --nproc={processes}");
        }
        words + " -- "
    }
}

impl Script<'_> {
    /// The text of the script, whose arguments are the program's words.
    pub(crate) fn text(&self) -> String {
        let Self { work, temporary, .. } = self;
        let mut text = String::new();
        text.push_str(match self.channel {
            Channel::Input => "exec 3>&0 </dev/null\n",
            Channel::Output => CONTAINER,
        });
        text.push_str(&format!("cd {work} || exit 120\n"));
        if let Some(archive) = self.unpack {
            text.push_str(&format!("tar -xf {archive} 3>&- || exit 121\n"));
        }
        // Nobody reads where the caller was killed before `bwrap` could be told to die with it.
        text.push_str("printf 'began\\n' >&3 || exit 122\n");
        let limits = self.limits.map(RlimitSet::words).unwrap_or_default();
        let input = self.stdin.map(|file| format!(" <{file}")).unwrap_or_default();
        text.push_str(&match self.directory {
            None => format!("{limits}\"$@\" 3>&-{input}\nrc=$?\n"),
            Some(directory) => {
                let directory = directory.replace('\'', r"'\''");
                format!("(cd '{directory}' && exec {limits}\"$@\") 3>&-{input}\nrc=$?\n")
            }
        });
        // Outside of a namespace of its own this would end every process of the user.
        text.push_str("[ $$ = 1 ] && kill -9 -1 2>/dev/null\n");
        text.push_str(&format!(
            "full=0\n[ $rc = 0 ] || for at in {work} {temporary} /dev/shm; do\n  \
             [ \"$(stat -f -c %a $at 2>/dev/null)\" = 0 ] && full=1\ndone\n"
        ));
        text.push_str(match self.channel {
            Channel::Input => "oom=0 forks=0\n",
            Channel::Output => COUNTS,
        });
        text.push_str("printf 'ended %d %d %d %d\\n' $rc $full $oom $forks >&3\ntimes >&3\n");
        let members = match self.outputs {
            Outputs::None => return text,
            Outputs::Named(names) => {
                let quoted = names.iter().map(|name| format!("'./{name}'"));
                quoted.collect::<Vec<_>>().join(" ")
            }
            Outputs::All => "--one-file-system .".to_owned(),
        };
        text.push_str(&format!("tar -cf - {members} >&3 2>/dev/null\nexit 0\n"));
        text
    }
}

/// Checks a name that becomes a part of the script.
pub(crate) fn check_name(name: &str) -> Result<(), RunError> {
    check_path(name)?;
    if !name.contains(['\'', '\n']) {
        return Ok(());
    }
    Err(RunError::Program(format!(
        "{name:?} cannot be the name of an output: it holds a quote or a line break"
    )))
}

/// Checks a name that becomes a part of a path in the sandbox.
pub(crate) fn check_path(name: &str) -> Result<(), RunError> {
    let is_plain = |part: &str| !part.is_empty() && part != "." && part != ".." && !part.contains('\0');
    if name.split('/').all(is_plain) {
        return Ok(());
    }
    Err(RunError::Program(format!(
        "{name:?} is not the name of a file in the working directory: it has to be relative, without `..`"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lie_in_the_working_directory_and_end_no_quote() {
        for name in ["output.xlsx", "data/in 1.xlsx", "é"] {
            assert!(check_name(name).is_ok(), "{name}");
        }
        for name in ["", "/etc/passwd", "../x", "a/../b", "a//b", "./a", "a\0"] {
            assert!(matches!(check_name(name), Err(RunError::Program(_))), "{name:?}");
            assert!(check_path(name).is_err(), "{name:?}");
        }
        for name in ["Bob's notes.md", "a\nb"] {
            assert!(matches!(check_name(name), Err(RunError::Program(_))), "{name:?}");
            assert!(check_path(name).is_ok(), "{name:?}");
        }
    }

    /// Where the script is not process 1, nothing of the user is killed.
    #[test]
    fn only_process_1_kills_everything_that_it_can() {
        let outputs = Outputs::All;
        let limits = Some(RlimitSet { limits: Limits::default(), is_alone: true });
        let script = |channel| Script {
            channel,
            work: "/work",
            temporary: "/tmp",
            directory: Some("/data/it's"),
            stdin: Some("/stdin"),
            unpack: Some("/unpack.tar"),
            outputs: &outputs,
            limits,
        };
        for channel in [Channel::Input, Channel::Output] {
            let text = script(channel).text();
            let mut kills = text.lines().filter(|line| line.contains("kill -"));
            assert!(kills.clone().count() >= 1);
            assert!(kills.all(|line| line.starts_with("[ $$ = 1 ] && ")), "{text}");
        }
        let text = script(Channel::Input).text();
        assert!(text.contains(r"(cd '/data/it'\''s' && exec prlimit"), "{text}");
    }
}
