//! `skillrl lint`: what a person should know about a skill before others use it.

use crate::CliError;
use crate::args::package::LintArgs;
use crate::exit_code;
use serde_json::json;
use skillrl::config::{Config, LoadedConfig, ModelRole};
use skillrl::core::SkillPackage;
use skillrl::core::lint::{Finding, Form, Severity, TrainingText, byte_order_mark, lint};
use skillrl::engine::Engine;
use skillrl::envs::folder::has_byte_order_mark;
use skillrl::export::{folder_name, skill_at};
use skillrl::lint::{Contradictions, ask_for_contradictions, contradictions_prompt, training_texts};
use skillrl::pipeline::StopSignal;
use skillrl::pipeline::run_dir::{RunStatus, is_run as is_run_dir, run_status};
use skillrl::replay::recorded_loaded;
use skillrl::world;
use std::fmt::Write as _;
use std::path::Path;

pub(crate) fn run(args: &LintArgs) -> crate::Result {
    let skill = skill_at(&args.path)?;
    let package = SkillPackage::of(&skill);
    let is_run = run_status(&args.path) != RunStatus::Absent;
    let folder = folder_name(&args.path);
    // A run calls the folder of its best skill after what it is.
    let is_of_run = args.path.parent().is_some_and(is_run_dir);
    let form = match args.path.is_dir() && !is_run {
        true => Form::Package { folder: (!is_of_run).then_some(folder.as_str()) },
        false => Form::Document,
    };
    let training = training(args, is_run)?;
    let mut findings = lint(&package, form, training.as_deref().unwrap_or_default());
    if form != Form::Document && has_byte_order_mark(&args.path) {
        findings.insert(0, byte_order_mark());
    }
    if let Some(config) = &args.with_model {
        findings.extend(contradictions(&package, config, &args.overrides)?);
    }
    if args.path.is_file() {
        for finding in &mut findings {
            finding.file = args.path.display().to_string();
        }
    }
    let count = |severity| findings.iter().filter(|finding| finding.severity == severity).count();
    let (n_errors, n_warnings) = (count(Severity::Error), count(Severity::Warning));
    let n_items = training.as_ref().map(Vec::len);
    if args.json {
        let value = json!({
            "path": args.path, "skill_hash": skill.hash(), "training_items": n_items,
            "errors": n_errors, "warnings": n_warnings, "findings": findings,
        });
        super::print(&format!("{value}\n"))?;
    } else {
        super::print_wrapped(&describe(&args.path, &findings, (n_errors, n_warnings), n_items))?;
    }
    let fails = n_errors > 0 || (args.strict && n_warnings > 0);
    if !fails { Ok(()) } else { Err(CliError::Reported { code: exit_code::LINT }) }
}

/// The training items to compare with; `None` where nothing says which.
fn training(args: &LintArgs, is_run: bool) -> crate::Result<Option<Vec<TrainingText>>> {
    let loaded = match &args.config {
        Some(config) => load(config, &args.overrides)?,
        None if is_run => match recorded_loaded(&args.path) {
            Ok(loaded) => loaded,
            // All but this one rule can do without.
            Err(error) => {
                super::say(&format!("warning: no training items: {error}"));
                return Ok(None);
            }
        },
        None => return Ok(None),
    };
    let env = world::environment(&loaded, Engine::without_keys(&loaded).judge()?)?;
    Ok(Some(training_texts(env.as_ref(), &loaded.config)))
}

fn load(config: &Path, overrides: &[String]) -> Result<LoadedConfig, skillrl::Error> {
    let loaded = Config::load(config, overrides)?;
    crate::start::say_mapping(&loaded);
    Ok(loaded)
}

/// Says what a call will cost, and makes it.
fn contradictions(
    package: &SkillPackage,
    config: &Path,
    overrides: &[String],
) -> crate::Result<Vec<Finding>> {
    let loaded = load(config, overrides)?;
    let max_tokens = loaded.config.limits.max_reply_tokens;
    let prompt = contradictions_prompt(&loaded.config.prompts)?;
    let asked =
        Contradictions::new(package, prompt.as_deref(), max_tokens).map_err(skillrl::Error::Prompt)?;
    let mut engine = Engine::new(&loaded);
    let model = engine.model(ModelRole::Optimizer)?;
    let n_tokens = asked.estimated_tokens();
    let mut said = format!(
        "asking {} for contradictions: 1 call, about {n_tokens} tokens in and at most {max_tokens} out",
        model.id().model
    );
    if let Some(prices) = loaded.config.models.optimizer.prices()
        && let (Some(input), Some(output)) = (prices.input, prices.output)
    {
        let most = (n_tokens as f64 * input + f64::from(max_tokens) * output) / 1e6;
        let _ = write!(said, ", at most {most:.4} by the configured prices");
    }
    super::say(&said);
    let work = ask_for_contradictions(&asked, model.as_ref());
    let findings = super::block_on(StopSignal::default(), "stopping", work)?
        .map_err(|source| skillrl::Error::Model { role: "optimizer", source })?;
    Ok(findings)
}

fn describe(path: &Path, findings: &[Finding], counts: (usize, usize), n_items: Option<usize>) -> String {
    let mut text = String::new();
    for finding in findings {
        let line = if finding.line == 0 { String::new() } else { format!(":{}", finding.line) };
        let _ = writeln!(
            text,
            "{}{line}: {} [{}] {}\n  {}",
            finding.file,
            finding.severity.as_str(),
            finding.rule,
            finding.message,
            finding.advice
        );
    }
    let plural = |n: usize, word: &str| format!("{n} {word}{}", if n == 1 { "" } else { "s" });
    let _ =
        writeln!(text, "{}: {}, {}", path.display(), plural(counts.0, "error"), plural(counts.1, "warning"));
    match n_items {
        Some(n_items) => {
            let _ = writeln!(text, "compared with {}", plural(n_items, "training item"));
        }
        None => text.push_str("not compared with training items: --config FILE names them\n"),
    }
    text
}
