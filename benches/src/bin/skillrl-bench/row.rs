//! A row of the table: a number beside its goal.

/// Which side of a goal is good.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Goal {
    AtLeast(f64),
    AtMost(f64),
    /// Shown for comparison.
    None,
}

/// A number in its unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    Ratio,
    Milliseconds,
    Megabytes,
    /// Of something that is small beside the memory.
    MillionBytes,
    Kilobytes,
    Percent,
    Seconds,
    PerSecond,
}

impl Unit {
    fn show(self, value: f64) -> String {
        match self {
            Self::Ratio => format!("{value:.3}"),
            Self::Milliseconds => format!("{value:.3} ms"),
            Self::Megabytes => format!("{value:.0} MB"),
            Self::MillionBytes => format!("{value:.2} MB"),
            Self::Kilobytes => format!("{value:.1} kB"),
            Self::Percent => format!("{value:.1} %"),
            Self::Seconds => format!("{value:.2} s"),
            Self::PerSecond => format!("{value:.0}/s"),
        }
    }
}

/// A row of the table.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub(crate) what: String,
    pub(crate) goal: Goal,
    pub(crate) unit: Unit,
    /// No number where something is missing that the measurement needs.
    pub(crate) value: f64,
    /// Details shown beside the value, or the reason why it is missing.
    pub(crate) more: String,
}

impl Row {
    pub(crate) fn markdown(&self) -> String {
        let goal = match self.goal {
            Goal::AtLeast(goal) => format!(">= {}", self.unit.show(goal)),
            Goal::AtMost(goal) => format!("<= {}", self.unit.show(goal)),
            Goal::None => String::new(),
        };
        let value = if self.value.is_nan() { "not measured".to_owned() } else { self.unit.show(self.value) };
        let mark = mark(self.goal, self.value);
        format!("| {} | {goal} | {value} | {mark} | {} |", self.what, self.more)
    }
}

/// Whether a goal is reached, and if not, by how much it is missed.
fn mark(goal: Goal, value: f64) -> String {
    let missed_by = match goal {
        _ if value.is_nan() => return String::new(),
        Goal::AtLeast(goal) if value < goal => (goal - value) / goal,
        Goal::AtMost(goal) if value > goal => (value - goal) / goal,
        Goal::AtLeast(_) | Goal::AtMost(_) => return "reached".to_owned(),
        Goal::None => return String::new(),
    };
    format!("**missed by {:.0} %**", (missed_by * 100.0).max(1.0))
}

/// The middle one, or the mean of the two in the middle; of nothing it is not a number.
pub(crate) fn median(numbers: impl IntoIterator<Item = f64>) -> f64 {
    let mut sorted: Vec<f64> = numbers.into_iter().collect();
    sorted.sort_by(f64::total_cmp);
    let middle = |idx: usize| sorted.get(idx).copied().unwrap_or(f64::NAN);
    match sorted.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => middle(n / 2),
        n => f64::midpoint(middle(n / 2 - 1), middle(n / 2)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_mark(goal: Goal, value: f64, expect: &str) {
        assert_eq!(mark(goal, value), expect, "{goal:?} {value}");
    }

    #[test]
    fn a_missed_goal_says_by_how_much() {
        check_mark(Goal::AtLeast(0.9), 0.9, "reached");
        check_mark(Goal::AtLeast(0.9), 0.45, "**missed by 50 %**");
        check_mark(Goal::AtMost(100.0), 99.9, "reached");
        check_mark(Goal::AtMost(100.0), 125.0, "**missed by 25 %**");
        check_mark(Goal::AtMost(100.0), 100.1, "**missed by 1 %**");
        check_mark(Goal::AtMost(100.0), f64::NAN, "");
        check_mark(Goal::None, 1.0, "");
    }

    #[test]
    fn a_median() {
        assert_eq!(median([3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median([4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!(median(std::iter::empty()).is_nan());
    }

    #[test]
    fn a_row_is_a_line_of_the_table() {
        let row = Row {
            what: "memory".to_owned(),
            goal: Goal::AtMost(100.0),
            unit: Unit::Megabytes,
            value: 50.4,
            more: "bare 40 MB".to_owned(),
        };
        assert_eq!(row.markdown(), "| memory | <= 100 MB | 50 MB | reached | bare 40 MB |");
        let row = Row { value: f64::NAN, more: "no /proc".to_owned(), ..row };
        assert_eq!(row.markdown(), "| memory | <= 100 MB | not measured |  | no /proc |");
    }
}
