//! What runs and measurements will take, in words, before anything is sent.

use crate::table::{Column, counted, grouped, table, terminal_width};
use skillrl::config::{LoadedConfig, ModelConfig, ModelRole, TrainMode};
use skillrl::core::SkillDoc;
use skillrl::core::usage::dollars;
use skillrl::envs::Env;
use skillrl::envs::Split;
use skillrl::estimate::{
    Assumptions, BankEstimate, Estimate, Prepared, Span, StageEstimate, WeightsEstimate, bank_estimate,
    estimate_passes, probe, weights_estimate,
};
use skillrl::pipeline::{PipelineError, Protocol, TrainSettings};
use skillrl::prompts;
use std::fmt::Write as _;

/// What a run will take, as JSON or for people.
pub(crate) fn described(loaded: &LoadedConfig, is_json: bool) -> crate::Result<String> {
    let prepared = Prepared::new(loaded)?;
    let estimate = of(&prepared)?;
    let width = terminal_width();
    match loaded.config.train.mode {
        TrainMode::Bank => {
            let of_bank = bank_estimate(loaded, prepared.env(), &estimate)?;
            Ok(if is_json { crate::output::json(&of_bank) } else { describe_bank(&of_bank, width) })
        }
        TrainMode::Weights => {
            let of_weights = weights_estimate(loaded, prepared.env(), &estimate);
            Ok(if is_json { crate::output::json(&of_weights) } else { describe_weights(&of_weights, width) })
        }
        TrainMode::Document if is_json => Ok(crate::output::json(&estimate)),
        TrainMode::Document => {
            let roles = ModelRole::of_training(&loaded.config);
            let mut models = roles.iter().filter_map(|role| role.config(&loaded.config));
            let is_paid = models.any(ModelConfig::is_paid);
            let budget = loaded.config.budget;
            let how_many = match loaded.config.train.protocol {
                Protocol::Paper => "",
                // A plan within a number of calls is known, and one within tokens depends on how long texts are.
                Protocol::Auto if budget.tokens.is_none() && budget.money.is_none() => "about ",
                Protocol::Auto => "up to ",
            };
            Ok(format!("{how_many}{}", describe(&estimate, is_paid, width)))
        }
    }
}

/// The estimate of a run.
pub(crate) fn of(prepared: &Prepared) -> crate::Result<Estimate> {
    Ok(crate::runtime::block_on_unwarned(prepared.estimate())??)
}

/// Upper bound on the cost of `samples` rollouts of each item of a split, in US dollars.
pub(crate) fn passes_cost(
    loaded: &LoadedConfig,
    env: &dyn Env,
    skill: &SkillDoc,
    settings: &TrainSettings,
    samples: (Split, u64),
) -> crate::Result<StageEstimate> {
    let prompts = prompts::library(&loaded.config.prompts, env)?;
    let max_tokens = loaded.config.models.target.max_tokens();
    let probing = probe(env, &prompts, skill, settings, max_tokens);
    let probed = crate::runtime::block_on_unwarned(probing)?.map_err(PipelineError::Prompt)?;
    Ok(estimate_passes(&probed, settings, &loaded.config, Assumptions::default(), samples))
}

fn describe(estimate: &Estimate, is_paid: bool, width: Option<usize>) -> String {
    let [n_train, n_val, n_test] = estimate.items;
    let mut text = format!(
        "{} over {n_train} train, {n_val} val and {n_test} test items\n\n",
        counted(u64::from(estimate.steps), if estimate.is_planned() { "proposal" } else { "step" })
    );
    let stages = estimate.stages.iter().chain([&estimate.total]).map(|stage| (None, stage));
    text.push_str(&stage_table(stages, width));
    let assumptions = &estimate.assumptions;
    let [few, many] = assumptions.bytes_per_token;
    let Span { low: shortest, high: longest } = assumptions.target_reply_tokens;
    let Span { low: optimizer_shortest, high: optimizer_longest } = assumptions.optimizer_reply_tokens;
    let _ = write!(
        text,
        "\nAssumptions: {few} to {many} bytes make a token; a reply of the target has {shortest} to {longest}\n\
         tokens, one of the optimizer {optimizer_shortest} to {}, where no limit says less; the skill\n\
         gains up to {} bytes for each edit of the budget, {} in all.\n\
         Not included: reasoning tokens, and retries after a fault. {}\n",
        grouped(optimizer_longest),
        grouped(assumptions.bytes_per_edit.high),
        grouped(assumptions.max_growth_bytes),
        estimate.most(),
    );
    if estimate.total.cost.is_none() && is_paid {
        text.push_str("Cost unknown: set `price_input` and `price_output` of the models (US dollars per million tokens).\n");
    }
    text
}

fn describe_bank(estimate: &BankEstimate, width: Option<usize>) -> String {
    let [n_train, n_trial, n_val, n_test] = estimate.items;
    let mut text = format!(
        "{} after the distillation; {n_train} training items for the teacher, {n_trial} for trials, {n_val} val and {n_test} test items\n\n",
        counted(u64::from(estimate.rounds), "round")
    );
    let stages = estimate.stages.iter().chain([&estimate.total]);
    text.push_str(&stage_table(stages.map(|stage| (Some(stage.rollouts), &stage.used)), width));
    text.push_str(
        "\nTrials depend on what the teacher proposes: `evolution.max_trials` and `max_trial_rollouts` bound them.\n\
         Calls of the teacher come on top: one for about 20 episodes of each type, and one each round.\n",
    );
    text
}

fn describe_weights(estimate: &WeightsEstimate, width: Option<usize>) -> String {
    let [n_train, n_val, n_test] = estimate.items;
    let mut text =
        format!("{n_train} training, {n_val} val and {n_test} test items; what the policy plays:\n\n");
    let phases = estimate.phases.iter().chain([&estimate.total]);
    text.push_str(&stage_table(phases.map(|stage| (Some(stage.rollouts), &stage.used)), width));
    let _ = write!(
        text,
        "\nThe policy runs on this machine and costs nothing. Fine-tuning learns from at most {}.\n\
         The teacher is called {} to {} times: for the skills, and where a type of task stays weak.\n",
        counted(estimate.examples, "example"),
        estimate.teacher_calls.low,
        estimate.teacher_calls.high,
    );
    text
}

/// Stages with what they take, in order; with their rollouts where these are known, and with money where it is.
fn stage_table<'a>(
    stages: impl Iterator<Item = (Option<Span>, &'a StageEstimate)>,
    width: Option<usize>,
) -> String {
    let stages: Vec<_> = stages.collect();
    let mut columns = vec![Column::text("stage")];
    if stages.iter().any(|(rollouts, _)| rollouts.is_some()) {
        columns.push(Column::number("rollouts"));
    }
    columns.extend(["calls", "tokens in", "tokens out"].map(Column::number));
    if stages.last().is_some_and(|(_, total)| total.cost.is_some()) {
        columns.push(Column::number("cost"));
    }
    let cells = |(rollouts, stage): (Option<Span>, &StageEstimate)| {
        let mut cells = row(stage);
        if let Some(rollouts) = rollouts {
            cells.insert(1, between(rollouts, grouped, grouped));
        }
        cells.truncate(columns.len());
        cells
    };
    let rows: Vec<Vec<String>> = stages.into_iter().map(cells).collect();
    table(&columns, &rows, width)
}

fn row(stage: &StageEstimate) -> Vec<String> {
    let cost = match stage.cost {
        Some([0.0, high]) => format!("up to {}", dollars(high)),
        Some([low, high]) => format!("{} to {}", dollars(low), dollars(high)),
        None => String::new(),
    };
    let range = |span: Span| between(span, rounded_down, rounded_up);
    vec![
        stage.stage.to_owned(),
        between(stage.calls, grouped, grouped),
        range(stage.input_tokens),
        range(stage.output_tokens),
        cost,
    ]
}

fn between(span: Span, low: impl Fn(u64) -> String, high: impl Fn(u64) -> String) -> String {
    match span {
        Span { low: 0, high: 0 } => "0".to_owned(),
        Span { low: 0, high: most } => format!("up to {}", high(most)),
        Span { low: least, high: most } if least == most => high(most),
        Span { low: least, high: most } => format!("{} to {}", low(least), high(most)),
    }
}

/// Two digits that count, as many as a range of this kind has.
fn rounded_down(number: u64) -> String {
    let unit = unit_of(number);
    compact(number / unit * unit)
}

fn rounded_up(number: u64) -> String {
    let unit = unit_of(number);
    compact(number.div_ceil(unit).saturating_mul(unit))
}

/// The unit of the second digit.
fn unit_of(number: u64) -> u64 {
    10_u64.pow(number.checked_ilog10().unwrap_or_default().saturating_sub(1))
}

fn compact(number: u64) -> String {
    let (divisor, letter) = match number {
        0..=9_999 => return grouped(number),
        10_000..=999_999 => (1e3, "k"),
        1_000_000..=999_999_999 => (1e6, "M"),
        1_000_000_000.. => (1e9, "G"),
    };
    let value = number as f64 / divisor;
    let digits = usize::from(value < 10.0);
    format!("{value:.digits$}{letter}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_rounded_outwards() {
        for (number, down, up) in [
            (0, "0", "0"),
            (7, "7", "7"),
            (99, "99", "99"),
            (101, "100", "110"),
            (5_369, "5,300", "5,400"),
            (9_999, "9,900", "10k"),
            (221_510, "220k", "230k"),
            (1_999_999, "1.9M", "2.0M"),
            (12_345_678, "12M", "13M"),
            (5_000_000_001, "5.0G", "5.1G"),
        ] {
            assert_eq!((rounded_down(number), rounded_up(number)), (down.to_owned(), up.to_owned()));
        }
        assert!(!rounded_up(u64::MAX).is_empty());
    }

    #[test]
    fn a_range_from_nothing_is_up_to() {
        let shown = |low, high| between(Span { low, high }, rounded_down, rounded_up);
        assert_eq!(
            [shown(0, 0), shown(0, 480), shown(40, 40), shown(36, 48)],
            ["0", "up to 480", "40", "36 to 48"].map(str::to_owned)
        );
    }
}
