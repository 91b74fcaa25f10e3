//! `skillrl doctor --measure`: what the validation split can show, before money is spent on training.

use crate::args::{DoctorArgs, Start};
use crate::consent::{Sending, agree, is_new_address};
use crate::estimates::passes_cost;
use crate::measuring::warn_of_replies;
use crate::progress::{Progress, Show};
use crate::table::{counted, grouped};
use skillrl::call_cache::CallCache;
use skillrl::config::{LoadedConfig, ModelRole};
use skillrl::core::usage::dollars;
use skillrl::core::{ItemScore, RolloutResult, SkillDoc};
use skillrl::doctor::DEFAULT_EFFECT;
use skillrl::engine::Engine;
use skillrl::envs::source::document;
use skillrl::envs::{Env, Split};
use skillrl::estimate::{Span, StageEstimate, foreseen, n_steps};
use skillrl::llm::ChatModel;
use skillrl::measurement::Measurement;
use skillrl::pipeline::identity::check_not_empty;
use skillrl::pipeline::noise::{NoiseQuestion, NoiseReport};
use skillrl::pipeline::run_dir::vacant::check_vacant;
use skillrl::pipeline::stage::Draws;
use skillrl::pipeline::stage::silence::check_spoken;
use skillrl::pipeline::{PipelineError, Stage, StopSignal, TrainSettings};
use skillrl::reports::words::percent;
use skillrl::{skills, trainer, world};
use std::fmt::Write as _;
use std::sync::Arc;

/// The passes, with the places that a run would make them at: it finds them in its journal.
const PASSES: [Stage; 2] = [Stage::Baseline, Stage::FreshBaseline];

pub(super) fn run(args: &DoctorArgs, start: &Start) -> crate::Result {
    let effect = args.effect.unwrap_or(DEFAULT_EFFECT);
    if !(effect > 0.0 && effect <= 1.0) {
        let error = crate::error::CommandError::new(format!("--effect is {effect}"));
        return Err(error.with_hint("give a difference of scores above 0, such as 0.05").into());
    }
    let loaded = crate::start::load_start(start, args.quiet)?;
    let settings = trainer::settings(&loaded.config)?;
    settings.validate()?;
    let mut engine = if args.dry_run { Engine::without_keys(&loaded) } else { Engine::new(&loaded) };
    let env = world::environment(&loaded, engine.judge()?)?;
    check_not_empty(env.as_ref(), Split::Val)?;
    let skill = match &args.skill {
        Some(path) => skills::read_skill(path)?,
        None => skills::first_skill(&loaded.config.skill, env.as_ref())?.unwrap_or_default(),
    };
    // An upper bound: passes that are in the run's journal cost nothing.
    let n_samples = PASSES.len() * settings.evidence.selection_repeats;
    let samples = (Split::Val, n_samples as u64);
    let cost = passes_cost(&loaded, env.as_ref(), &skill, &settings, samples)?;
    if args.dry_run {
        return if args.json {
            crate::output::print_json(&cost)
        } else {
            crate::output::print_wrapped(&format!("{}\n", describe_cost(&cost)))
        };
    }
    crate::output::say(&describe_cost(&cost));
    agree(&Sending {
        loaded: &loaded,
        is_new: is_new_address(start, &loaded),
        total: String::new(),
        most: cost.cost.map(|[_, most]| most),
        agrees: args.yes,
    })?;

    let target = engine.model(ModelRole::Target)?;
    let show = if args.json || args.quiet { Show::Quiet } else { Show::Progress };
    let passes = measure(&engine, &loaded, &env, &skill, target, &settings, show)?;
    let rule = settings.evidence.rule(settings.gate, 1);
    let steps = n_steps(env.items(Split::Train).len(), &foreseen(&settings, env.as_ref()));
    let question = NoiseQuestion { effect, n_candidates: usize::try_from(steps).unwrap_or(usize::MAX) };
    let [first, second] = &passes;
    let scores = |results: &[RolloutResult]| results.iter().map(ItemScore::from).collect::<Vec<_>>();
    let Some(report) = NoiseReport::of(&rule, &scores(first), &scores(second), question) else {
        return Err(crate::error::CommandError::of_data("the two passes are not of the same items").into());
    };
    let report = report.with_replies(first, second);
    if args.json {
        crate::output::print_json(&report)
    } else {
        crate::output::print_wrapped(&describe(&report))
    }
}

/// Both passes, through the journal of the run: what is measured here, a run from the same skill does not pay for again.
fn measure(
    engine: &Engine<'_>,
    loaded: &LoadedConfig,
    env: &Arc<dyn Env>,
    skill: &SkillDoc,
    target: Arc<dyn ChatModel>,
    settings: &TrainSettings,
    show: Show,
) -> crate::Result<[Vec<RolloutResult>; 2]> {
    let path = loaded.run_dir();
    check_vacant(&path)?;
    let calls = CallCache::in_dir(&path)?;
    calls.count_spent(engine);
    let source = document(skill);
    let (stop, progress) = (StopSignal::default(), Progress::new(show));
    let per_item = settings.evidence.selection_repeats;
    let measurement = Measurement::new(loaded, env, Split::Val, target, Some(&calls.journal))?;
    let passes = async {
        let mut passes = [Vec::new(), Vec::new()];
        let mut measurement = measurement;
        for (pass_idx, (results, stage)) in passes.iter_mut().zip(PASSES).enumerate() {
            measurement = measurement.of_draws(stage, Draws { first: pass_idx * per_item, per_item });
            let evaluation = measurement.results(&source, (&progress, &stop)).await?.evaluation;
            check_spoken(&evaluation.results, stage)?;
            warn_of_replies(&evaluation.results);
            *results = evaluation.results;
        }
        calls.journal.flush().await?;
        Ok::<_, PipelineError>(passes)
    };
    Ok(crate::runtime::block_on(stop.clone(), "stopping", passes)??)
}

fn describe_cost(cost: &StageEstimate) -> String {
    let range = |span: Span| match span {
        Span { low, high } if low == high => grouped(high),
        Span { low, high } => format!("{} to {}", grouped(low), grouped(high)),
    };
    let money =
        cost.cost.map(|[low, high]| format!(", {} to {}", dollars(low), dollars(high))).unwrap_or_default();
    format!(
        "two passes over the validation split: {} calls, {} tokens in, {} tokens out{money}; calls in the run's journal are not paid for again",
        range(cost.calls),
        range(cost.input_tokens),
        range(cost.output_tokens)
    )
}

fn describe(report: &NoiseReport) -> String {
    let points = |difference: f64| format!("{:.1} points", 100.0 * difference);
    let [first, second] = report.scores;
    let mut text = format!(
        "split       {} items{}\nscores      {} and {}\nflip rate   {:.1} % (scores that differ between the two passes)\n",
        report.n_items,
        if report.repeats > 1 { format!(", {} samples each", report.repeats) } else { String::new() },
        percent(first),
        percent(second),
        100.0 * report.flip_rate,
    );
    let _ = write!(
        text,
        "noise       {} (standard error of the difference of two passes)\n\
         bias        {} (expected selection bias over {} candidates)\n\
         detectable  {} (minimum detectable gain, 80 % power, one-sided 5 %); {:.0} points need {}\n\
         significant {} improved, 0 regressed (minimum for significance)\n",
        points(report.standard_error),
        points(report.expected_inflation),
        report.n_candidates,
        points(report.smallest_effect),
        100.0 * report.effect,
        counted(report.items_needed as u64, "item"),
        report.least_wins,
    );
    if let Some(changed) = report.reply_change_rate {
        let _ = writeln!(text, "replies     {:.1} % differ from one pass to the next", 100.0 * changed);
    }
    match report.reply_change_rate {
        Some(0.0) if report.flip_rate == 0.0 => text.push_str(
            "No reply changed: the target is deterministic here, and a higher score is a difference.\n",
        ),
        Some(_) if report.flip_rate == 0.0 => text.push_str(
            "Replies changed and no score did: the target is not deterministic, and these scores do not show its noise.\n",
        ),
        Some(_) | None => {}
    }
    text
}
