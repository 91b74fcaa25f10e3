//! The numbers of an iteration of reinforcement learning, each declared once.
//!
//! Charts, rows, lines of events, event files of TensorBoard, families of Prometheus and the table of the page read this
//! table. A number that an iteration did not compute is `None`, and nothing is made of it but [`NOT_COMPUTED`].

use super::RlRow;
use skill_pipeline::records::rl::RlIteration;

/// A number that was not computed.
pub const NOT_COMPUTED: &str = "not computed";

/// How a number is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Digits {
    /// This many behind the point.
    Plain(usize),
    /// As percent, with this many behind the point.
    Percent(usize),
}

/// A number of an iteration.
#[derive(Debug, Clone, Copy)]
pub struct RlMetric {
    /// Its name in a line of text and above a column.
    pub name: &'static str,
    /// The title of its chart; without one it has no chart.
    pub title: Option<&'static str>,
    /// Its definition with its unit, as a sentence.
    pub about: &'static str,
    /// Its tag in TensorBoard.
    pub tag: &'static str,
    /// Its family in Prometheus, if it has one of its own.
    pub family: Option<&'static str>,
    digits: Digits,
    value: fn(&RlRow) -> Option<f64>,
}

const fn metric(
    name: &'static str,
    about: &'static str,
    tag: &'static str,
    digits: Digits,
    value: fn(&RlRow) -> Option<f64>,
) -> RlMetric {
    RlMetric { name, title: None, about, tag, family: None, digits, value }
}

impl RlMetric {
    const fn chart(self, title: &'static str) -> Self {
        Self { title: Some(title), ..self }
    }

    const fn family(self, family: &'static str) -> Self {
        Self { family: Some(family), ..self }
    }

    /// Its value; `None` where it was not computed.
    pub fn value(&self, row: &RlRow) -> Option<f64> {
        (self.value)(row)
    }

    /// True for shares, which are shown as percent.
    pub fn is_share(&self) -> bool {
        matches!(self.digits, Digits::Percent(_))
    }

    /// Its value in words.
    pub fn text(&self, row: &RlRow) -> String {
        match (self.value(row), self.digits) {
            (None, _) => NOT_COMPUTED.to_owned(),
            (Some(value), Digits::Plain(digits)) => format!("{value:.digits$}"),
            (Some(value), Digits::Percent(digits)) => format!("{:.digits$} %", 100.0 * value),
        }
    }

    /// Its name and its value.
    pub(crate) fn named(&self, row: &RlRow) -> String {
        format!("{} {}", self.name, self.text(row))
    }
}

/// A number that only an iteration with an optimizer step has; early records have 0 without one.
pub(super) fn trained(row: &RlRow, value: fn(&RlIteration) -> Option<f64>) -> Option<f64> {
    (row.record.steps > 0).then(|| value(&row.record)).flatten()
}

/// All numbers, in the order in which they are shown.
pub const RL_METRICS: &[RlMetric] = &[
    metric(
        "return",
        "Mean score of sampled episodes, less penalties.",
        "train/return",
        Digits::Plain(3),
        |row| Some(row.record.reward),
    )
    .chart("Mean return")
    .family("skillrl_run_return"),
    metric(
        "episodes won",
        "The share of sampled episodes that solved their task.",
        "train/episodes_won",
        Digits::Percent(0),
        |row| Some(row.won),
    )
    .chart("Episodes won"),
    metric(
        "groups without signal",
        "The share of groups whose episodes all have the same return.",
        "train/groups_without_signal",
        Digits::Percent(0),
        |row| Some(row.record.groups_without_signal),
    )
    .chart("Groups without a signal")
    .family("skillrl_run_groups_without_signal"),
    metric(
        "KL",
        "KL divergence from the reference policy, in nats per token.",
        "policy/kl",
        Digits::Plain(4),
        |row| trained(row, |record| record.kl),
    )
    .chart("Divergence")
    .family("skillrl_run_kl"),
    metric(
        "entropy",
        "Mean entropy of the sampled tokens, in nats.",
        "policy/entropy",
        Digits::Plain(3),
        |row| trained(row, |record| record.entropy),
    )
    .chart("Entropy")
    .family("skillrl_run_entropy"),
    metric(
        "clipped",
        "The share of tokens whose gradient was clipped away.",
        "policy/clipped",
        Digits::Percent(1),
        |row| trained(row, |record| record.clipped),
    )
    .chart("Clipped tokens")
    .family("skillrl_run_clipped_share"),
    metric("loss", "The loss, averaged over optimizer steps.", "policy/loss", Digits::Plain(4), |row| {
        trained(row, |record| record.loss)
    }),
    metric(
        "reply tokens",
        "Mean number of sampled tokens of an episode.",
        "train/reply_tokens",
        Digits::Plain(0),
        |row| Some(row.reply_tokens),
    )
    .chart("Reply length")
    .family("skillrl_run_reply_tokens"),
    metric(
        "invalid actions",
        "Mean number of invalid actions of an episode.",
        "train/invalid_actions",
        Digits::Plain(2),
        |row| Some(row.invalid_actions),
    )
    .chart("Invalid actions")
    .family("skillrl_run_invalid_actions"),
    metric(
        "gradient norm",
        "Norm of the gradient before clipping, averaged over optimizer steps.",
        "policy/grad_norm",
        Digits::Plain(3),
        |row| trained(row, |record| record.grad_norm),
    )
    .chart("Gradient norm"),
    metric(
        "tokens/s",
        "Sampled tokens per second, training included.",
        "speed/tokens_per_second",
        Digits::Plain(0),
        |row| row.tokens_per_second,
    )
    .chart("Speed"),
];
