//! How much processor time a process has used, for benchmarks.

/// Processor time since the process began, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct CpuTime {
    /// In the program itself.
    pub user: f64,
    /// In the kernel on its behalf.
    pub system: f64,
}

impl CpuTime {
    /// What was used since `earlier`.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self { user: self.user - earlier.user, system: self.system - earlier.system }
    }

    /// Both together.
    pub fn total(self) -> f64 {
        self.user + self.system
    }
}

/// The unit of `/proc/*/stat`: every Linux on the machines we run on reports hundredths of a second.
const TICKS_PER_SECOND: f64 = 100.0;

/// The processor time of this process; `None` where there is no `/proc`.
pub fn of_this_process() -> Option<CpuTime> {
    parse(&std::fs::read_to_string("/proc/self/stat").ok()?)
}

/// The processor time of another process; `None` if there is none of this id.
pub fn of_process(id: u32) -> Option<CpuTime> {
    parse(&std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?)
}

fn parse(stat: &str) -> Option<CpuTime> {
    // The name of the program, in parentheses, may hold anything. User and system time are fields 14 and 15.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut times = fields.split_whitespace().skip(11).map(|field| field.parse::<f64>().ok());
    let (user, system) = (times.next()??, times.next()??);
    Some(CpuTime { user: user / TICKS_PER_SECOND, system: system / TICKS_PER_SECOND })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_are_found_behind_any_name() {
        let stat = "7 (a) b (c) S 1 2 3 4 5 6 7 8 9 10 250 50 0 0 20 0 1 0";
        assert_eq!(parse(stat), Some(CpuTime { user: 2.5, system: 0.5 }));
        for wrong in ["", "7 (a", "7 (a) S 1", "7 (a) S 1 2 3 4 5 6 7 8 9 10 x y"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
