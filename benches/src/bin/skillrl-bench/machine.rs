//! On what the numbers were measured.

/// One line: processor, cores, memory, system.
pub(crate) fn describe() -> String {
    let cpu = field("/proc/cpuinfo", "model name").unwrap_or_else(|| "unknown processor".to_owned());
    let n_cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    let memory = field("/proc/meminfo", "MemTotal").unwrap_or_default();
    let gib = memory.trim_end_matches("kB").trim().parse::<f64>().unwrap_or(0.0) / 1_048_576.0;
    let system = std::env::consts::OS;
    format!("{cpu}, {n_cores} cores, {gib:.0} GiB of memory, {system}")
}

fn field(path: &str, name: &str) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}
