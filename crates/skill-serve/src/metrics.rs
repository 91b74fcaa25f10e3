//! Runs as numbers, in the text format of Prometheus.

use skill_pipeline::run_dir::live::WorkerPulse;
use skill_report::watch::{Listing, Row, Spent};
use skill_report::{BankBrief, Brief, RL_METRICS, RlBrief, RunPhase, SftBrief};
use std::fmt::Write as _;

/// The type of the answer.
pub(crate) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// A family of metrics: its name, its kind, its help, and its values for a run, each with further labels.
type Family = (&'static str, &'static str, &'static str, fn(&Row) -> Vec<(String, f64)>);

#[expect(clippy::cast_precision_loss, reason = "the format has floating-point numbers alone")]
const FAMILIES: &[Family] = &[
    ("skillrl_run_info", "gauge", "1 per run, with its state and environment as labels.", |run| {
        let labels = format!("state=\"{}\",env=\"{}\"", run.state.as_str(), escaped(&run.files.env));
        vec![(labels, 1.0)]
    }),
    (
        "skillrl_run_changed_timestamp_seconds",
        "gauge",
        "Time of the last change of a file of the run.",
        |run| plain(run.changed_unix_ms as f64 / 1_000.0),
    ),
    ("skillrl_run_steps_total", "counter", "Finished steps, rounds of a bank or iterations.", |run| {
        of_files(run, |row| Some(f64::from(row.files.n_steps)))
    }),
    ("skillrl_run_steps_planned", "gauge", "Planned steps of the whole run.", |run| {
        of_files(run, |row| row.files.total_steps.map(f64::from))
    }),
    (
        "skillrl_run_candidates_total",
        "counter",
        "Candidates of finished steps by outcome: accepted, rejected, skipped.",
        |run| {
            let files = &run.files;
            let counts = [
                ("accepted", files.n_accepted),
                ("rejected", files.n_rejected),
                ("skipped", files.n_skipped),
            ];
            if run.state == RunPhase::Damaged {
                return Vec::new();
            }
            counts.map(|(outcome, n)| (format!("outcome=\"{outcome}\""), n as f64)).to_vec()
        },
    ),
    (
        "skillrl_run_proposals",
        "gauge",
        "Proposals of a planned search by state: made, fixed (solved the tasks they came from), taken, accepted.",
        |run| {
            let Some(proposals) = &run.files.proposals else { return Vec::new() };
            let counts = [
                ("made", proposals.made),
                ("fixed", proposals.fixed),
                ("taken", proposals.taken),
                ("accepted", proposals.accepted),
            ];
            counts.map(|(state, n)| (format!("state=\"{state}\""), n as f64)).to_vec()
        },
    ),
    (
        "skillrl_run_score",
        "gauge",
        "Scores by split (selection: of the gate; test: strict) and skill (first, current, best).",
        |run| {
            let files = &run.files;
            // The best bank is the last one: nothing goes back to an earlier one.
            let scores = [
                ("selection", "first", files.baseline),
                ("selection", "current", files.current),
                ("selection", "best", files.best),
                ("test", "first", files.test.map(|[first, _]| first)),
                ("test", "best", files.test.map(|[_, best]| best)),
            ];
            let known = scores.into_iter().filter_map(|(split, skill, score)| {
                Some((format!("split=\"{split}\",skill=\"{skill}\""), score?))
            });
            known.collect()
        },
    ),
    ("skillrl_run_rounds_total", "counter", "Finished rounds of a bank's training.", |run| {
        of_bank(run, |bank| bank.last_round.map(f64::from))
    }),
    ("skillrl_run_skills", "gauge", "Skills of a bank by state: active, waiting, retired.", |run| {
        let Some(bank) = run.files.bank() else { return Vec::new() };
        let counts = [
            ("active", bank.skills.active),
            ("waiting", bank.skills.waiting),
            ("retired", bank.skills.retired),
        ];
        counts.map(|(state, n)| (format!("state=\"{state}\""), n as f64)).to_vec()
    }),
    ("skillrl_run_skills_unmeasured", "gauge", "Active skills of a bank that were never measured.", |run| {
        of_bank(run, |bank| Some(bank.skills.unmeasured as f64))
    }),
    ("skillrl_run_skills_pinned", "gauge", "Pinned skills of a bank.", |run| {
        of_bank(run, |bank| Some(bank.skills.pinned as f64))
    }),
    (
        "skillrl_run_trials_total",
        "counter",
        "Trials of a bank's candidates by verdict: admitted, rejected, undecided.",
        |run| {
            let Some(bank) = run.files.bank() else { return Vec::new() };
            let counts = [
                ("admitted", bank.trials.admitted),
                ("rejected", bank.trials.rejected),
                ("undecided", bank.trials.undecided),
            ];
            counts.map(|(verdict, n)| (format!("verdict=\"{verdict}\""), n as f64)).to_vec()
        },
    ),
    ("skillrl_run_trial_rollouts_total", "counter", "Rollouts of the trials of finished rounds.", |run| {
        of_bank(run, |bank| Some(bank.trial_rollouts as f64))
    }),
    (
        "skillrl_run_loss",
        "gauge",
        "Losses of fine-tuning by part (train, validation), in nats per trained token.",
        |run| {
            let Some(sft) = run.files.sft() else { return Vec::new() };
            let losses = [("train", sft.loss), ("validation", sft.validation_loss)];
            losses.into_iter().filter_map(|(part, loss)| Some((format!("part=\"{part}\""), loss?))).collect()
        },
    ),
    ("skillrl_run_learning_rate", "gauge", "Learning rate of the last step of fine-tuning.", |run| {
        of_sft(run, |sft| sft.learning_rate)
    }),
    ("skillrl_run_grad_norm", "gauge", "Gradient norm of the last step, before clipping.", |run| {
        of_weights(run, |sft| sft.grad_norm, |rl| rl.grad_norm)
    }),
    (
        "skillrl_run_tokens_per_second",
        "gauge",
        "Tokens per second of the last step: trained in fine-tuning, sampled in reinforcement learning.",
        |run| of_weights(run, |sft| sft.tokens_per_second, |rl| rl.tokens_per_second),
    ),
    ("skillrl_run_trained_tokens_total", "counter", "Tokens trained on.", |run| {
        of_weights(run, |sft| Some(sft.tokens as f64), |rl| Some(rl.tokens as f64))
    }),
    ("skillrl_run_peak_memory_bytes", "gauge", "Peak memory of a process of fine-tuning.", |run| {
        of_sft(run, |sft| sft.peak_memory.map(|bytes| bytes as f64))
    }),
    (
        "skillrl_run_games",
        "gauge",
        "Episodes of the last evaluation of trained weights, by what: won, played.",
        |run| {
            let of_sft = || run.files.sft().and_then(|sft| sft.games);
            let of_rl = || run.files.rl().and_then(|rl| rl.games);
            let Some(games) = of_sft().or_else(of_rl) else { return Vec::new() };
            let counts = [("won", games.won), ("played", games.played)];
            counts.map(|(what, n)| (format!("what=\"{what}\""), n as f64)).to_vec()
        },
    ),
    (
        "skillrl_run_episodes",
        "gauge",
        "Episodes of the last iteration by task_type and what: won, played.",
        |run| {
            let Some(rl) = run.files.rl() else { return Vec::new() };
            let counts = rl.by_task_type.iter().flat_map(|(task_type, [won, played])| {
                [("won", won), ("played", played)].map(|(what, n)| {
                    (format!("task_type=\"{}\",what=\"{what}\"", escaped(task_type)), *n as f64)
                })
            });
            counts.collect()
        },
    ),
    ("skillrl_run_sign", "gauge", "1 for each training diagnostic that holds now, by sign.", |run| {
        let signs = run.files.rl().into_iter().flat_map(|rl| &rl.signs);
        signs.map(|found| (format!("sign=\"{}\"", found.sign.as_str()), 1.0)).collect()
    }),
    ("skillrl_run_sampled_tokens_total", "counter", "Tokens sampled in training.", |run| {
        of_rl(run, |rl| Some(rl.sampled_tokens as f64))
    }),
    ("skillrl_run_calls_total", "counter", "Answered calls of finished steps and evaluations.", |run| {
        of_files(run, |row| Some(row.files.used.calls as f64))
    }),
    (
        "skillrl_run_tokens_total",
        "counter",
        "Tokens of these calls by kind: prompt (cached ones included), cached, reply.",
        |run| {
            let used = &run.files.used;
            let kinds = [
                ("prompt", used.prompt_tokens),
                ("cached", used.cached_tokens),
                ("reply", used.completion_tokens),
            ];
            if run.state == RunPhase::Damaged {
                return Vec::new();
            }
            kinds.map(|(kind, n)| (format!("kind=\"{kind}\""), n as f64)).to_vec()
        },
    ),
    (
        "skillrl_run_money_total",
        "counter",
        "Cost of the requests, by the prices of the configuration.",
        |run| of_spent(run, |spent| spent.money),
    ),
    (
        "skillrl_run_spent_requests_total",
        "counter",
        "Requests sent, including retries and cancelled calls.",
        |run| of_spent(run, |spent| Some(spent.requests as f64)),
    ),
    ("skillrl_run_spent_tokens_total", "counter", "Tokens of these requests, prompts and replies.", |run| {
        of_spent(run, |spent| Some(spent.tokens as f64))
    }),
    ("skillrl_run_spent_money_total", "counter", "Cost of these requests.", |run| {
        of_spent(run, |spent| spent.money)
    }),
    ("skillrl_run_spent_seconds_total", "counter", "Seconds that processes have worked on the run.", |run| {
        of_spent(run, |spent| Some(spent.seconds))
    }),
    (
        "skillrl_run_cap",
        "gauge",
        "Caps of the configuration by what: requests, tokens, money, seconds.",
        |run| {
            let Some(caps) = run.spent.as_ref().map(|spent| spent.caps) else { return Vec::new() };
            let caps = [
                ("requests", caps.calls.map(|cap| cap as f64)),
                ("tokens", caps.tokens.map(|cap| cap as f64)),
                ("money", caps.money),
                ("seconds", caps.time_s),
            ];
            caps.into_iter().filter_map(|(what, cap)| Some((format!("what=\"{what}\""), cap?))).collect()
        },
    ),
    ("skillrl_run_worker_slots", "gauge", "Concurrent rollouts of a worker on another machine.", |run| {
        of_workers(run, |worker| f64::from(worker.slots))
    }),
    ("skillrl_run_worker_rollouts", "gauge", "Rollouts in flight on a worker.", |run| {
        of_workers(run, |worker| worker.doing.len() as f64)
    }),
    ("skillrl_run_worker_seen_seconds", "gauge", "Seconds since the last message of a worker.", |run| {
        of_workers(run, |worker| worker.seen_seconds_ago as f64)
    }),
];

fn of_workers(run: &Row, value: fn(&WorkerPulse) -> f64) -> Vec<(String, f64)> {
    let labelled = |worker: &WorkerPulse| (format!("worker=\"{}\"", escaped(&worker.name)), value(worker));
    run.workers.iter().map(labelled).collect()
}

fn plain(value: f64) -> Vec<(String, f64)> {
    vec![(String::new(), value)]
}

fn of_files(run: &Row, value: fn(&Row) -> Option<f64>) -> Vec<(String, f64)> {
    if run.state == RunPhase::Damaged {
        return Vec::new();
    }
    value(run).map(plain).unwrap_or_default()
}

fn of_bank(run: &Row, value: fn(&BankBrief) -> Option<f64>) -> Vec<(String, f64)> {
    run.files.bank().and_then(value).map(plain).unwrap_or_default()
}

fn of_sft(run: &Row, value: fn(&SftBrief) -> Option<f64>) -> Vec<(String, f64)> {
    run.files.sft().and_then(value).map(plain).unwrap_or_default()
}

fn of_rl(run: &Row, value: fn(&RlBrief) -> Option<f64>) -> Vec<(String, f64)> {
    run.files.rl().and_then(value).map(plain).unwrap_or_default()
}

/// Of a run that trains weights, in either way.
fn of_weights(
    run: &Row,
    of_sft_run: fn(&SftBrief) -> Option<f64>,
    of_rl_run: fn(&RlBrief) -> Option<f64>,
) -> Vec<(String, f64)> {
    let value = match &run.files.brief {
        Some(Brief::Rl(rl)) => of_rl_run(rl),
        Some(Brief::Sft(sft)) => of_sft_run(sft),
        Some(_) | None => None,
    };
    value.map(plain).unwrap_or_default()
}

fn of_spent(run: &Row, value: fn(&Spent) -> Option<f64>) -> Vec<(String, f64)> {
    run.spent.as_ref().and_then(value).map(plain).unwrap_or_default()
}

/// A family of metrics, as the documentation lists it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct MetricFamily {
    /// Its name.
    pub name: &'static str,
    /// `gauge` or `counter`.
    pub kind: &'static str,
    /// Its definition, as a sentence.
    pub about: &'static str,
}

/// Every family of `GET /metrics`, in its order.
pub fn metric_families() -> impl Iterator<Item = MetricFamily> {
    let of_runs = FAMILIES.iter().map(|&(name, kind, about, _)| MetricFamily { name, kind, about });
    let of_weights = RL_METRICS
        .iter()
        .filter_map(|metric| Some(MetricFamily { name: metric.family?, kind: "gauge", about: metric.about }));
    of_runs.chain(of_weights)
}

/// All metrics.
pub(crate) fn write(listing: &Listing) -> String {
    let mut text = String::new();
    for (name, kind, help, values) in FAMILIES {
        family(&mut text, listing, (name, kind, help), values);
    }
    for metric in RL_METRICS {
        let Some(name) = metric.family else { continue };
        let value = |run: &Row| run.files.rl().and_then(|rl| metric.value(rl.last.as_ref()?));
        family(&mut text, listing, (name, "gauge", metric.about), &|run| {
            value(run).map(plain).unwrap_or_default()
        });
    }
    text
}

fn family(
    text: &mut String,
    listing: &Listing,
    (name, kind, help): (&str, &str, &str),
    values: &dyn Fn(&Row) -> Vec<(String, f64)>,
) {
    let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
    for run in &listing.rows {
        let own = format!("run=\"{}\"", escaped(&run.name));
        for (labels, value) in values(run) {
            let comma = if labels.is_empty() { "" } else { "," };
            let _ = writeln!(text, "{name}{{{own}{comma}{labels}}} {value}");
        }
    }
}

/// The value of a label.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
