//! `skillrl eval`: what a skill is worth on one split.

mod bank;
#[cfg(feature = "weights")]
mod check_batch;
mod markdown;
mod matrix;
mod transfer;

use crate::against::{self, Limits};
use crate::args::{EvalArgs, Start};
use crate::consent::agree_to_passes;
use crate::data_start::{self, Use};
use crate::measuring::{
    activation_words, check_out, score_words, unkept, warn_of_other_data, warn_of_replies, warn_of_test_split,
};
use crate::progress::{Progress, Show};
use crate::run_text::summary::used_words;
use crate::start::simulated_line;
use crate::table::counted;
use serde_json::{Value, json};
use skillrl::config::{LoadedConfig, ModelRole, simulated_models};
use skillrl::core::stats::score_interval;
use skillrl::engine::Engine;
use skillrl::envs::Split;
use skillrl::measurement::{InRun, SkillEvaluation, SkillMeasurement};
use skillrl::pipeline::StopSignal;
use skillrl::pipeline::records::evaluation::EvaluationSummary;
use skillrl::reports::words::percent;
use skillrl::reports::{Comparison, LEVEL};
use skillrl::world;
use std::fmt::Write as _;

pub(crate) fn run(args: &EvalArgs) -> crate::Result {
    if matrix::is_requested(args) {
        return matrix::run(args);
    }
    if let Some(bank) = &args.bank {
        return bank::run(args, bank);
    }
    #[cfg(feature = "weights")]
    if let Some(policy) = args.policy.as_deref().filter(|_| args.check_batch) {
        return check_batch::run(args, policy);
    }
    let (start, loaded) = data_start::load(
        &args.data,
        Start { agrees: args.yes, ..args.config.start() },
        Use::Measures,
        args.quiet || args.json || args.markdown,
    )?;
    let loaded = crate::command::with_policy(loaded, args.policy.as_deref())?;
    let split = args.split.as_deref().map(world::split).transpose()?;
    let limits = Limits::of(args);
    let earlier = args.measurement.against.as_deref().map(against::read).transpose()?;
    let mut engine = Engine::new(&loaded);
    let mut measurement = SkillMeasurement::new(&loaded, &mut engine, split, args.skill.as_deref())?;
    if let Some(earlier) = earlier {
        measurement.compare_with(earlier, limits.max_drop)?;
    }
    let split = measurement.split;
    let measured = (measurement.env.as_ref(), &measurement.skill);
    agree_to_passes(&Start { agrees: args.yes, ..start.clone() }, &loaded, measured, (split, 1))?;
    warn_of_test_split(&loaded, split);
    warn_of_other_data(&loaded, split, &measurement.settings);
    if let Some(out) = &args.measurement.out {
        check_out(out, args.measurement.force)?;
        measurement.keep_in(out, args.measurement.force, &engine)?;
    }
    let n_sent_before = engine.budget().spent().calls;
    let (name, is_kept) = (measurement.name.clone(), args.measurement.out.is_some());
    let stop = StopSignal::default();
    let is_quiet = args.json || args.markdown || args.quiet;
    let progress = Progress::new(if is_quiet { Show::Quiet } else { Show::Progress });
    let measuring = measurement.measure((&progress, &stop));
    let SkillEvaluation { evaluation, summary, in_run, compared } =
        crate::command::block_on(stop.clone(), "stopping", measuring)?
            .map_err(|error| unkept(error, is_kept))?;
    warn_of_replies(&evaluation.results);
    let measured = MeasuredSkill {
        in_run,
        broken: limits.broken(summary.hard, compared.as_ref()),
        n_sent: is_kept.then(|| engine.budget().spent().calls.saturating_sub(n_sent_before)),
        name,
        split,
        summary,
        compared,
    };
    measured.print(args, &start, &loaded)?;
    Ok(against::check(&measured.broken, measured.compared.as_ref())?)
}

/// Scores of the skill, with the comparisons and limits that apply.
struct MeasuredSkill {
    /// The name of the skill for people.
    name: String,
    split: Split,
    summary: EvaluationSummary,
    in_run: Option<InRun>,
    compared: Option<Comparison>,
    /// The limits that it does not keep.
    broken: Vec<String>,
    /// How many requests were sent now, where others may have been before.
    n_sent: Option<u64>,
}

impl MeasuredSkill {
    fn print(&self, args: &EvalArgs, start: &Start, loaded: &LoadedConfig) -> crate::Result {
        let Self { name, split, summary, compared, broken, .. } = self;
        if args.json {
            return crate::command::print(&format!("{}\n", self.to_json(loaded)));
        }
        let simulated = simulated_line(start, loaded, &[ModelRole::Target]);
        if args.markdown {
            let page = markdown::page(name, *split, summary, compared.as_ref(), (broken, &simulated));
            return crate::command::print(&page);
        }
        let against = compared.as_ref().map(crate::against::describe).unwrap_or_default();
        let text = describe(name, *split, summary, self.in_run.as_ref(), self.n_sent);
        crate::command::print_wrapped(&(text + &against + &simulated))
    }

    fn to_json(&self, loaded: &LoadedConfig) -> Value {
        let summary = &self.summary;
        let mut value = json!(summary);
        if let Some(fields) = value.as_object_mut() {
            fields.insert("split".to_owned(), json!(self.split));
            fields.insert("skill".to_owned(), json!(self.name));
            fields.insert("interval".to_owned(), json!(score_interval(summary.hard, summary.n, LEVEL)));
            if let Some(InRun { hard, flip_rate }) = &self.in_run {
                fields.insert("in_run".to_owned(), json!({"hard": hard, "flip_rate": flip_rate}));
            }
            let simulated = simulated_models(&loaded.config, &[ModelRole::Target]);
            fields.insert("simulated_models".to_owned(), json!(simulated));
            fields.insert("broken_limits".to_owned(), json!(self.broken));
            if let Some(compared) = &self.compared {
                fields.insert("against".to_owned(), json!(compared));
            }
        }
        value
    }
}

/// What was measured; `n_sent` is how many requests of it were sent now, where others may have been before.
fn describe(
    name: &str,
    split: Split,
    summary: &EvaluationSummary,
    in_run: Option<&InRun>,
    n_sent: Option<u64>,
) -> String {
    let mut text = format!(
        "skill  {name} ({})\nsplit  {split}, {} items\nscore  {}\n",
        summary.skill_hash,
        summary.n,
        score_words(summary.hard, summary.soft, summary.n)
    );
    if let Some(in_run) = in_run {
        let _ = writeln!(
            text,
            "       the run measured {} with the same skill: {:.0} % of the items came out otherwise",
            percent(in_run.hard),
            100.0 * in_run.flip_rate
        );
    }
    if let Some(activations) = summary.activations {
        let _ = writeln!(text, "loaded {}", activation_words(activations));
    }
    if summary.n_without_number > 0 {
        let _ = writeln!(text, "       {} of {} answers hold no number", summary.n_without_number, summary.n);
    }
    if summary.n_with_marks > 0 {
        let _ = writeln!(
            text,
            "       {} of {} answers are the right one but for marks around it, case or a full stop",
            summary.n_with_marks, summary.n
        );
    }
    for (task_type, score) in &summary.by_task_type {
        let words = score_words(score.hard, score.soft, score.n);
        let _ = writeln!(text, "  {task_type}: {words}, {}", counted(score.n as u64, "item"));
    }
    let tokens = &summary.tokens;
    let now = match n_sent {
        Some(0) if tokens.calls > 0 => "; no request was sent for it now, all replies were kept".to_owned(),
        Some(1) => "; 1 request was sent for it now".to_owned(),
        Some(n_sent) => format!("; {n_sent} requests were sent for it now"),
        None => String::new(),
    };
    let _ = writeln!(text, "used   {}{now}", used_words(*tokens, tokens.has_counts()));
    text
}
