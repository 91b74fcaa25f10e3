//! `skillrl prune`: takes rules out of a skill that it does not need.

use super::CommandError;
use crate::args::{PruneArgs, Start, as_word};
use crate::consent::agree_to_address;
use crate::estimates::passes_cost;
use crate::progress::{Progress, Show};
use crate::table::{counted, grouped, harmless};
use skillrl::core::rules::{SkillRule, skill_rules};
use skillrl::core::stats::normal::upper_quantile;
use skillrl::core::usage::dollars;
use skillrl::engine::Engine;
use skillrl::envs::Split;
use skillrl::estimate::{Span, StageEstimate};
use skillrl::pipeline::StopSignal;
use skillrl::pipeline::identity::check_not_empty;
use skillrl::pipeline::noise::{ALPHA, flip_rate_at};
use skillrl::pipeline::provenance::LineOrigin;
use skillrl::pipeline::prune::{PruneRecord, RuleDecision, RuleRecord, RuleToTry};
use skillrl::pipeline::records::paired::PairedRecord;
use skillrl::prune::{PRUNED_DIR, PruneOptions, RECORD_FILE, order, prune};
use skillrl::reports::words::{percent, points};
use skillrl::{trainer, world};
use std::fmt::Write as _;
use std::path::Path;

/// The fewest validation items by which a rule is judged.
const MIN_ITEMS: usize = 20;
/// How much of a rule is shown.
const MAX_SHOWN_CHARS: usize = 60;

pub(crate) fn run(args: &PruneArgs) -> crate::Result {
    if !(0.0..=1.0).contains(&args.margin) {
        let error = CommandError::new(format!("--margin is {}", args.margin));
        return Err(error.with_hint("give a difference of scores from 0 to 1, such as 0.02").into());
    }
    let start = args.config.start();
    let loaded = crate::start::load_start(&start, args.quiet)?;
    if !args.dry_run {
        agree_to_address(&start, &loaded)?;
    }
    let settings = trainer::settings(&loaded.config)?;
    settings.validate()?;
    let mut engine = if args.dry_run { Engine::without_keys(&loaded) } else { Engine::new(&loaded) };
    let env = world::environment(&loaded, engine.judge()?)?;
    let (name, skill) = skillrl::skills::chosen(&loaded, args.skill.as_deref(), env.as_ref())?;
    check_not_empty(env.as_ref(), Split::Val)?;
    let n_items = env.items(Split::Val).len();
    check_noise(args.margin, n_items, flip_rate_at(&loaded.run_dir())?)?;
    let rules = skill_rules(&skill);
    if rules.is_empty() {
        let error = CommandError::new(format!("{name} has no rules outside of its protected parts"));
        return Err(error.with_hint("name another skill with --skill").into());
    }
    let run_dir = loaded.run_dir();
    let order = order(&run_dir, &skill, &rules)?;
    if args.dry_run {
        // An upper bound: one pass with the skill, and one without each rule.
        let n_samples = (rules.len() + 1) * settings.evidence.selection_repeats;
        let cost = passes_cost(&loaded, env.as_ref(), &skill, &settings, (Split::Val, n_samples as u64))?;
        return if args.json {
            let tried: Vec<usize> = order.iter().map(|tried| tried.rule_idx + 1).collect();
            super::print(&format!("{}\n", serde_json::json!({"order": tried, "cost": cost})))
        } else {
            super::print_wrapped(&describe_plan(&name, &rules, &order, &cost))
        };
    }
    let out = args.out.clone().unwrap_or_else(|| run_dir.join(PRUNED_DIR));
    let options = PruneOptions { skill, order, margin: args.margin, out };
    let progress = Progress::new(if args.json || args.quiet { Show::Quiet } else { Show::Progress });
    let stop = StopSignal::default();
    let work = prune(&loaded, &mut engine, &env, &options, &progress, &stop);
    let (path, record) = super::block_on(stop.clone(), "stopping", work)??;
    if args.json {
        return super::print_json(&record);
    }
    super::print_wrapped(&describe(&name, &record, &path, &options.out, &start))
}

/// Refuses what would be decided by noise: too few items, or a target whose scores vary by more than the margin.
fn check_noise(margin: f64, n_items: usize, flip_rate: Option<f64>) -> Result<(), CommandError> {
    if n_items < MIN_ITEMS {
        let message = format!(
            "the validation split has {}, and fewer than {MIN_ITEMS} cannot tell whether a rule is needed",
            counted(n_items as u64, "item")
        );
        return Err(
            CommandError::new(message).with_hint("add items, or give the validation split a larger share")
        );
    }
    let Some(rate) = flip_rate.filter(|rate| *rate > 0.0) else { return Ok(()) };
    let hidden = hidden_loss(rate, n_items);
    if margin >= hidden {
        return Ok(());
    }
    let asked = (hidden * 100.0).ceil() / 100.0;
    let message = format!(
        "with a flip rate of {:.0} %, {n_items} validation items cannot distinguish a loss of less than {:.1} points from noise",
        100.0 * rate,
        100.0 * hidden
    );
    let hint = format!(
        "`--margin {asked:.2}` removes rules whose loss cannot be distinguished from noise; more items or `gate.selection_repeats` detect smaller losses"
    );
    Err(CommandError::new(message).with_hint(hint))
}

/// The loss that noise alone makes look like one in a case of twenty: each item that changes counts for or against the
/// skill, so the difference of two passes has a standard error of `sqrt(rate / n)`.
fn hidden_loss(flip_rate: f64, n_items: usize) -> f64 {
    upper_quantile(ALPHA) * (flip_rate / n_items.max(1) as f64).sqrt()
}

fn describe_plan(name: &str, rules: &[SkillRule], order: &[RuleToTry], cost: &StageEstimate) -> String {
    let mut text = format!("{name} has {} rules; they would be tried in this order:\n", rules.len());
    for tried in order {
        let Some(rule) = rules.get(tried.rule_idx) else { continue };
        let lines = [rule.lines.start + 1, rule.lines.end];
        let _ = writeln!(text, "{}", row(&lines_of(lines), &origin_of(tried.origin), &rule.text));
    }
    let most = |span: Span| grouped(span.high);
    let money = cost.cost.map(|[_, high]| format!(", at most {}", dollars(high))).unwrap_or_default();
    let _ = writeln!(
        text,
        "at most {} calls, {} tokens in, {} tokens out{money}: a pass over the validation split with the skill, and one without each rule;\n\
         a removal that lowers the score is stopped as soon as that is certain; calls in the run's journal are not paid for again",
        most(cost.calls),
        most(cost.input_tokens),
        most(cost.output_tokens)
    );
    text
}

fn describe(name: &str, record: &PruneRecord, path: &Path, out: &Path, config: &Start) -> String {
    let mut text = String::new();
    for rule in &record.rules {
        let _ = writeln!(text, "{}", row(&lines_of(rule.lines), "", &rule.text));
        let _ = writeln!(text, "    {}", verdict(rule));
    }
    let [before, after] = record.skill_len;
    let difference = record.paired.as_ref().and_then(difference_words);
    let _ = write!(
        text,
        "\n{name}: {} of {} rules were taken out, {before} characters became {after}\n\
         score {} before, {} after{} on {}; it may fall by {} points\n\
         wrote {} and {}\n",
        record.n_removed,
        record.n_rules,
        percent(record.score_before),
        percent(record.score_after),
        difference.map(|words| format!(" ({words})")).unwrap_or_default(),
        counted(record.rules.first().map_or(0, |rule| rule.n) as u64, "validation rollout"),
        100.0 * record.margin,
        path.display(),
        out.join(RECORD_FILE).display(),
    );
    if record.n_removed > 0 {
        let (config, skill) = (config.as_shell(), as_word(&path.display().to_string()));
        let _ = writeln!(text, "next: skillrl eval {config} --skill {skill} --split test");
    }
    text
}

/// A difference with its interval.
fn difference_words(paired: &PairedRecord) -> Option<String> {
    let (difference, [low, high]) = paired.difference.zip(paired.interval)?;
    Some(format!("{}, 95 % interval {:+.1} to {:+.1}", points(difference), 100.0 * low, 100.0 * high))
}

/// What became of a rule, and by what.
fn verdict(rule: &RuleRecord) -> String {
    let (won, lost) = (rule.won.len(), rule.lost.len());
    match (rule.decision, difference_words(&rule.paired)) {
        (RuleDecision::Removed, difference) => {
            let seen = match won + lost {
                0 => "no effect seen".to_owned(),
                differ => format!("{differ} of {} differ, +{won} -{lost}", rule.n_seen),
            };
            let difference = difference.map(|words| format!(": {words}")).unwrap_or_default();
            format!("removed  {seen}{difference}")
        }
        (RuleDecision::Kept, Some(difference)) => {
            format!("kept     without it {lost} regressed and {won} improved: {difference}")
        }
        (RuleDecision::Kept, None) => {
            format!(
                "kept     without it {lost} regressed and {won} improved (stopped after {} of {})",
                rule.n_seen, rule.n
            )
        }
    }
}

fn lines_of([first, last]: [usize; 2]) -> String {
    if first == last { format!("line {first}") } else { format!("lines {first}-{last}") }
}

fn origin_of(origin: Option<LineOrigin>) -> String {
    match origin {
        Some(LineOrigin::Initial) => "initial".to_owned(),
        Some(LineOrigin::ByHand) => "by hand".to_owned(),
        Some(origin) => origin.step().map(|step| format!("step {step}")).unwrap_or_default(),
        None => String::new(),
    }
}

fn row(first: &str, second: &str, rule: &str) -> String {
    let line = rule.lines().next().unwrap_or_default().trim();
    let line = harmless(line);
    let shown: String = line.chars().take(MAX_SHOWN_CHARS).collect();
    let cut = if shown.len() < line.len() || rule.lines().nth(1).is_some() { " .." } else { "" };
    let second = if second.is_empty() { String::new() } else { format!(" {second:<12}") };
    format!("  {first:<14}{second} {shown}{cut}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_pruned_by_noise() {
        let is_refused = |margin, n_items, rate| check_noise(margin, n_items, rate).is_err();
        // A target that always does the same tells a rule from none, and so does one whose noise nobody knows.
        assert!(!is_refused(0.0, 40, Some(0.0)) && !is_refused(0.0, 40, None));
        assert!(is_refused(0.5, MIN_ITEMS - 1, Some(0.0)), "too few items");
        // 1.645 * sqrt(0.2 / 40).
        assert!((hidden_loss(0.2, 40) - 0.1163).abs() < 1e-3);
        assert!(is_refused(0.0, 40, Some(0.2)) && is_refused(0.11, 40, Some(0.2)));
        assert!(!is_refused(0.12, 40, Some(0.2)));
        assert!(!is_refused(0.06, 160, Some(0.2)), "more items tell smaller losses");
    }
}
