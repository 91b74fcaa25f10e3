//! The run that is planned: its directory, what its validation split can show, and what it will take.

use super::{Check, DEFAULT_EFFECT, DEFAULT_FLIP_RATE, Examination, Finding, counted};
use crate::config::{Config, EnvKind, LoadedConfig, ModelRole, TrainMode};
use crate::cost::has_prices;
use crate::error::Error;
use crate::estimate::{
    ApproximateCap, Assumptions, MAX_STEPS, Span, StageEstimate, approximate_caps, bank_estimate, forecast,
    foreseen, n_steps, probe, weights_estimate,
};
use skill_core::SkillDoc;
use skill_core::search_plan::LEAST_DECISIONS;
use skill_core::stats::{detectable_effect, items_needed};
use skill_core::usage::dollars;
use skill_envs::{Env, Split};
use skill_llm::error::with_causes;
use skill_pipeline::kind::{has_phases, name_of, trains_bank, trains_weights};
use skill_pipeline::noise::flip_rate_at;
use skill_pipeline::prompts::PromptLibrary;
use skill_pipeline::run_dir::vacant::check_vacant;
use skill_pipeline::run_dir::{RunStatus, run_status};
use skill_pipeline::{PipelineError, Protocol, TrainSettings};
use std::path::Path;

/// How often an edit without effect may pass a test.
const ALPHA: f64 = 0.05;
/// How often an edit with the effect must pass it.
const POWER: f64 = 0.8;

/// Whether the run directory can be made, or what is in it.
pub(super) fn run_dir(loaded: &LoadedConfig) -> Finding {
    let dir = loaded.run_dir();
    let shown = dir.display();
    if has_phases(&dir) {
        let message = format!(
            "{shown} holds a run of several phases, which resumes where it stopped; more `rl.iterations` extend it"
        );
        return Finding::ok(Check::Run, message);
    }
    if trains_weights(&dir) {
        let command = name_of(&dir);
        let message = format!("{shown} holds a run of `skillrl {command}`, which resumes where it stopped");
        return Finding::ok(Check::Run, message);
    }
    match run_status(&dir) {
        RunStatus::Unfinished => {
            return Finding::ok(Check::Run, format!("{shown} holds a run that resumes where it stopped"));
        }
        RunStatus::Finished => {
            let next = match trains_bank(&dir) {
                // Another number of rounds is another run.
                true => "that trained a bank; another `run.dir` starts a new one",
                false => "; more epochs extend it",
            };
            let gap = if next.starts_with(';') { "" } else { " " };
            return Finding::ok(Check::Run, format!("{shown} holds a finished run{gap}{next}"));
        }
        RunStatus::Absent => {}
    }
    // The nearest directory above that is there decides whether the others can be made.
    let is_set = |path: &&Path| !path.as_os_str().is_empty();
    let above = dir.ancestors().filter(is_set).find(|path| path.exists()).unwrap_or(Path::new("."));
    let hint = "name another directory with `run.dir`";
    match std::fs::metadata(above) {
        Ok(found) if !found.is_dir() => {
            Finding::error(Check::Run, format!("{} is not a directory", above.display()), hint)
        }
        Ok(found) if found.permissions().readonly() => {
            Finding::error(Check::Run, format!("{} cannot be written", above.display()), hint)
        }
        Ok(_) if above == dir => match check_vacant(&dir) {
            Ok(()) => Finding::ok(Check::Run, format!("{shown} will be used")),
            Err(error) => Finding::of_error(Check::Run, &Error::Pipeline(error)),
        },
        Ok(_) => Finding::ok(Check::Run, format!("{shown} will be made")),
        Err(error) => {
            Finding::error(Check::Run, format!("{} cannot be read: {error}", above.display()), hint)
        }
    }
}

/// The largest minimum detectable gain without a warning, if nobody has named the gain to detect: hardly an edit gains
/// more.
const COARSE: f64 = 0.25;

/// How much scores vary, and the words before it.
pub(super) type FlipRate = (f64, &'static str);

/// How much scores vary: what was requested, else what the run has measured, where there is one already. A run whose
/// files cannot be read is a finding.
pub(super) fn flip_rate(asked: &Examination, run: &Path) -> (FlipRate, Option<Finding>) {
    // What a person says counts.
    if let Some(rate) = asked.flip_rate {
        return ((rate, "if, as `--flip-rate` says,"), None);
    }
    let assumed = (DEFAULT_FLIP_RATE, "if");
    match flip_rate_at(run) {
        Ok(Some(rate)) => ((rate, "since the run measured that"), None),
        Ok(None) => (assumed, None),
        Err(error) => {
            let error = Error::Pipeline(error);
            let message =
                format!("the flip rate that the run measured cannot be read: {}", with_causes(&error));
            (assumed, Some(Finding::warning(Check::Selection, message, error.hint())))
        }
    }
}

/// The minimum detectable gain of the validation split against the gain to detect.
pub(super) fn selection(
    env: &dyn Env,
    asked: &Examination,
    settings: Option<&TrainSettings>,
    (flip_rate, why): FlipRate,
) -> Finding {
    let effect = asked.effect.unwrap_or(DEFAULT_EFFECT);
    let n_items = env.items(Split::Val).len();
    let of_paper = settings.filter(|settings| settings.protocol == Protocol::Paper);
    let refused = of_paper.and_then(|settings| settings.evidence.check_split(settings.gate, n_items).err());
    if let Some(error) = refused {
        return Finding::of_error(Check::Selection, &Error::Pipeline(error));
    }
    let shown = detectable_effect(flip_rate, n_items, ALPHA, POWER);
    let points = |share: f64| format!("{:.0} points", 100.0 * share);
    let smallest = format!(
        "with {n_items} validation items the minimum detectable gain is {}, {why} {:.0} % of their scores vary by chance",
        points(shown),
        100.0 * flip_rate
    );
    if n_items == 0 {
        let hint = "add items to it, or give it a share in the ratio of the splits";
        return Finding::error(Check::Selection, "the validation split is empty", hint);
    }
    if shown <= effect {
        return Finding::ok(Check::Selection, smallest);
    }
    let needed = items_needed(effect, flip_rate, ALPHA, POWER)
        .map(|needed| format!("a gain of {} needs {needed} of them", points(effect)));
    if asked.effect.is_none() && shown <= COARSE {
        let needed = needed.map(|needed| format!("; {needed}")).unwrap_or_default();
        return Finding::ok(Check::Selection, format!("{smallest}{needed}"));
    }
    // Worlds have a number of games in place of a ratio.
    let more = match EnvKind::parse(env.name()).is_some_and(EnvKind::is_built_in_world) {
        true => "raise `env.max_val`",
        false => "raise the second number of `env.split_ratio`",
    };
    let needed = needed.map(|needed| format!("{needed}: {more}"));
    let coarse = if 1.0 / n_items as f64 > effect {
        format!(" (one item is {})", points(1.0 / n_items as f64))
    } else {
        String::new()
    };
    let named = match asked.effect {
        None => "name the gain that you expect: `skillrl doctor --effect 0.1`",
        Some(_) => "expect a larger gain (`skillrl doctor --effect`)",
    };
    let hint = needed.into_iter().chain([named.to_owned()]).collect::<Vec<_>>().join("; or ");
    Finding::warning(Check::Selection, format!("{smallest}{coarse}"), hint)
}

/// Whether the run makes enough decisions to find anything: each is one try.
pub(super) fn decisions(config: &Config, env: &dyn Env, settings: &TrainSettings) -> Option<Finding> {
    if config.train.mode != TrainMode::Document {
        return None;
    }
    let planned = n_steps(env.items(Split::Train).len(), &foreseen(settings, env));
    let message = format!("{} planned", counted(usize::try_from(planned).unwrap_or(usize::MAX), "decision"));
    if planned >= u64::from(LEAST_DECISIONS) {
        return None;
    }
    let is_certain = config.budget.tokens.is_none() && config.budget.money.is_none();
    let message = match (settings.protocol, is_certain) {
        // How long replies are is assumed, and on the safe side.
        (Protocol::Auto, false) => format!(
            "budget too small: {planned} decisions fit at the maximum reply length, fewer than {LEAST_DECISIONS}: \
             the search may not find what helps"
        ),
        _ => format!(
            "{message}, fewer than {LEAST_DECISIONS}: the search has little chance to find what helps"
        ),
    };
    let hint = match settings.protocol {
        Protocol::Paper => {
            "set `train.protocol = \"auto\"`, or lower `train.batch_size`, or raise `train.epochs`"
        }
        Protocol::Auto => "raise the caps of `[budget]`, or `train.epochs` where there are none",
    };
    Some(Finding::warning(Check::Decisions, message, hint))
}

/// What the run will take, and whether its caps allow it.
pub(super) async fn cost(
    loaded: &LoadedConfig,
    env: &dyn Env,
    prompts: &PromptLibrary,
    skill: &SkillDoc,
    settings: &TrainSettings,
) -> Vec<Finding> {
    let planned = &foreseen(settings, env);
    if n_steps(env.items(Split::Train).len(), planned) > MAX_STEPS {
        let hint = "lower `train.epochs`, or raise `train.batch_size`";
        return vec![Finding::error(Check::Cost, format!("the run has more than {MAX_STEPS} steps"), hint)];
    }
    let max_tokens = loaded.config.models.target.max_tokens();
    match probe(env, prompts, skill, planned, max_tokens).await {
        Ok(probed) => {
            let of_document = forecast(&probed, settings, &loaded.config, Assumptions::default());
            let total = match loaded.config.train.mode {
                TrainMode::Document => {
                    let steps = counted(
                        of_document.steps as usize,
                        if of_document.is_planned() { "proposal" } else { "step" },
                    );
                    Total { rounds: steps, used: of_document.total }
                }
                TrainMode::Weights => {
                    let of_weights = weights_estimate(loaded, env, &of_document);
                    let rollouts = format!("{} rollouts", range(of_weights.total.rollouts));
                    let examples =
                        counted(usize::try_from(of_weights.examples).unwrap_or(usize::MAX), "example");
                    Total { rounds: format!("{rollouts}, at most {examples}"), used: of_weights.total.used }
                }
                TrainMode::Bank => match bank_estimate(loaded, env, &of_document) {
                    Ok(of_bank) => {
                        let rounds = counted(of_bank.rounds as usize, "round");
                        let rollouts = format!("{} rollouts", range(of_bank.total.rollouts));
                        Total { rounds: format!("{rounds}, {rollouts}"), used: of_bank.total.used }
                    }
                    Err(error) => return vec![Finding::of_error(Check::Cost, &Error::Pipeline(error))],
                },
            };
            let mut findings = vec![amounts(&loaded.config, &total)];
            findings.extend(caps(&loaded.config, &total.used));
            findings.extend(approximate_caps(&loaded.config).iter().map(of_approximate_cap));
            findings
        }
        Err(error) => {
            let error = Error::Pipeline(PipelineError::Prompt(error));
            vec![Finding::of_error(Check::Cost, &error)]
        }
    }
}

/// The size of a run: what it repeats, in words, and what all of it uses.
struct Total {
    rounds: String,
    used: StageEstimate,
}

fn range(span: Span) -> String {
    format!("{} to {}", span.low, span.high)
}

fn amounts(config: &Config, Total { rounds, used: total }: &Total) -> Finding {
    let tokens = Span {
        low: total.input_tokens.low.saturating_add(total.output_tokens.low),
        high: total.input_tokens.high.saturating_add(total.output_tokens.high),
    };
    let money =
        total.cost.map_or_else(String::new, |[low, high]| format!(", {} to {}", dollars(low), dollars(high)));
    let mut message = format!("{rounds}, {} calls, {} tokens{money}", range(total.calls), range(tokens));
    if config.train.mode.has_bank() {
        message.push_str("; calls of the teacher come on top");
    }
    let unpriced: Vec<&str> = ModelRole::of_training(config)
        .into_iter()
        .filter(|role| role.config(config).is_some_and(|model| model.is_paid() && !has_prices(model)))
        .map(ModelRole::as_str)
        .collect();
    if unpriced.is_empty() || (total.cost.is_none() && config.budget.money.is_none()) {
        return Finding::ok(Check::Cost, message);
    }
    let message = format!("{message}; the {} has no price", unpriced.join(" and the "));
    Finding::warning(Check::Cost, message, "set `price_input` and `price_output`, per million tokens")
}

/// A cap that a run may pass by the replies that are in flight.
fn of_approximate_cap(cap: &ApproximateCap) -> Finding {
    let hint = match cap.set {
        Some(key) => format!("set `{key}`, which also ends replies that never stop"),
        None => "set `budget.calls`, which holds for every model".to_owned(),
    };
    let message =
        format!("replies of the {} have no limit, so caps on tokens and money are approximate", cap.role);
    Finding::warning(Check::Cost, message, hint)
}

/// Caps that the luckiest run would reach.
fn caps(config: &Config, total: &StageEstimate) -> Vec<Finding> {
    let tokens = total.input_tokens.low.saturating_add(total.output_tokens.low);
    let least_money = total.cost.map(|[low, _]| low);
    let mut findings = Vec::new();
    let mut check = |key: &str, is_reached: bool, cap: String, least: String| {
        if is_reached {
            let message = format!("`budget.{key}` is {cap}, and the run takes {least} at least");
            let hint =
                format!("raise `budget.{key}`, or take fewer epochs or items: the run stops at the cap");
            findings.push(Finding::warning(Check::Cost, message, hint));
        }
    };
    if let Some(cap) = config.budget.calls {
        check("calls", cap < total.calls.low, cap.to_string(), total.calls.low.to_string());
    }
    if let Some(cap) = config.budget.tokens {
        check("tokens", cap < tokens, cap.to_string(), tokens.to_string());
    }
    if let (Some(cap), Some(least)) = (config.budget.money, least_money) {
        check("money", cap < least, cap.to_string(), format!("{least:.2}"));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_whose_flip_rate_cannot_be_read_is_a_finding() {
        for (config, asked, rate, n_findings) in [
            (None, None, DEFAULT_FLIP_RATE, 0),
            (Some("{"), None, DEFAULT_FLIP_RATE, 1),
            (Some("{"), Some(0.5), 0.5, 0),
        ] {
            let run = tempfile::tempdir().unwrap();
            if let Some(config) = config {
                std::fs::write(run.path().join("config.json"), config).unwrap();
            }
            let asked = Examination { flip_rate: asked, ..Examination::default() };
            let ((found, _), finding) = flip_rate(&asked, run.path());
            let is_of_plan = |finding: &Finding| {
                finding.check == Check::Selection && finding.message.contains("config.json")
            };
            assert_eq!(
                (found, finding.iter().filter(|finding| is_of_plan(finding)).count()),
                (rate, n_findings)
            );
            assert_eq!(finding.is_some(), n_findings == 1);
        }
    }
}
