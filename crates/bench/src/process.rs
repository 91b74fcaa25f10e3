//! Measurements in processes of their own.

use crate::Failure;
use serde::de::DeserializeOwned;
use std::ffi::OsStr;
use std::process::{Command, Stdio};

/// Starts this program again with these arguments and reads the line of JSON that it prints.
pub(crate) fn measure<Report, Arg>(args: impl IntoIterator<Item = Arg>) -> Result<Report, Failure>
where
    Report: DeserializeOwned,
    Arg: AsRef<OsStr>,
{
    let mut command = Command::new(std::env::current_exe()?);
    // The server is on this machine, whatever proxy the environment names.
    command.args(args).env("NO_PROXY", "*").stdin(Stdio::null()).stderr(Stdio::inherit());
    let output = command.output()?;
    if !output.status.success() {
        return Err(format!("a measurement ended with {}", output.status).into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// The most memory that this process has had at a time, in bytes; `None` where there is no `/proc`.
pub(crate) fn peak_memory() -> Option<u64> {
    parse_peak(&std::fs::read_to_string("/proc/self/status").ok()?)
}

fn parse_peak(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_is_found() {
        assert_eq!(parse_peak("Name:\tx\nVmHWM:\t   20480 kB\nVmRSS:\t 1 kB\n"), Some(20 * 1024 * 1024));
        for wrong in ["", "VmHWM: x kB", "VmHWM: 7 MB"] {
            assert_eq!(parse_peak(wrong), None, "{wrong}");
        }
    }
}
