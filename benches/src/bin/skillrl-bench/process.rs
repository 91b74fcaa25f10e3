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

/// Processor time since this process began, in seconds; `None` where there is no `/proc`.
pub(crate) fn cpu_seconds() -> Option<f64> {
    parse_cpu(&std::fs::read_to_string("/proc/self/stat").ok()?)
}

fn parse_cpu(stat: &str) -> Option<f64> {
    // Every Linux on the machines we run on reports hundredths of a second.
    const TICKS_PER_SECOND: f64 = 100.0;
    // The name of the program, in parentheses, may hold anything. User and system time are fields 14 and 15.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut times = fields.split_whitespace().skip(11).map(|field| field.parse::<f64>().ok());
    Some((times.next()?? + times.next()??) / TICKS_PER_SECOND)
}

/// The most memory that this process has had at a time, in bytes; `None` where there is no `/proc`.
pub(crate) fn peak_memory() -> Option<u64> {
    memory("VmHWM:")
}

/// The same of another process.
pub(crate) fn peak_memory_of(process: u32) -> Option<u64> {
    parse_memory(&std::fs::read_to_string(format!("/proc/{process}/status")).ok()?, "VmHWM:")
}

/// By how many bytes this process grows with each of so many things that `make` makes and keeps.
///
/// As many are made before, which take what was left free by then.
pub(crate) async fn memory_per(
    number: u32,
    mut make: impl AsyncFnMut() -> Result<(), Failure>,
) -> Result<f64, Failure> {
    for _ in 0..number {
        make().await?;
    }
    let before = memory("VmRSS:").ok_or("no /proc")?;
    for _ in 0..number {
        make().await?;
    }
    let after = memory("VmRSS:").ok_or("no /proc")?;
    Ok(after.saturating_sub(before) as f64 / f64::from(number.max(1)))
}

fn memory(name: &str) -> Option<u64> {
    parse_memory(&std::fs::read_to_string("/proc/self/status").ok()?, name)
}

fn parse_memory(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_processor_time_is_found_behind_any_name() {
        assert_eq!(parse_cpu("7 (a) b (c) S 1 2 3 4 5 6 7 8 9 10 250 50 0 0 20 0 1 0"), Some(3.0));
        for wrong in ["", "7 (a", "7 (a) S 1", "7 (a) S 1 2 3 4 5 6 7 8 9 10 x y"] {
            assert_eq!(parse_cpu(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn the_memory_is_found() {
        let status = "Name:\tx\nVmHWM:\t   20480 kB\nVmRSS:\t 1 kB\n";
        assert_eq!(parse_memory(status, "VmHWM:"), Some(20 * 1024 * 1024));
        assert_eq!(parse_memory(status, "VmRSS:"), Some(1024));
        for wrong in ["", "VmHWM: x kB", "VmHWM: 7 MB"] {
            assert_eq!(parse_memory(wrong, "VmHWM:"), None, "{wrong}");
        }
    }
}
