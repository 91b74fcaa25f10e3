//! `skillrl eval --bank`: the tasks of a split with a bank and without it.

use super::out::{check_whole, deciding};
use crate::args::{EvalArgs, MeasurementArgs, Start};
use crate::command::CommandError;
use crate::command::described_spend;
use crate::consent::agree_to_address;
use crate::measuring::{
    check_not_empty, score_words, unkept, warn_of_other_data, warn_of_replies, warn_of_test_split,
};
use crate::named_bank::read_shown;
use crate::progress::{Progress, Show};
use crate::start::{load_start, simulated_line};
use crate::table::{counted, harmless};
use serde_json::{Value, json};
use skillrl::bank::{BankSource, SkillRef};
use skillrl::call_cache::{CallCache, count_spent_on};
use skillrl::config::{ModelRole, simulated_models};
use skillrl::core::ItemId;
use skillrl::core::canonical::canonical_hash;
use skillrl::engine::Engine;
use skillrl::envs::source::document;
use skillrl::envs::{Env, Item, SkillSource, Split};
use skillrl::llm::regular_file;
use skillrl::llm::{CallCtx, ChatModel};
use skillrl::pipeline::bank::check_embedding;
use skillrl::pipeline::bank_dir::read_bank;
use skillrl::pipeline::error::describe_changes;
use skillrl::pipeline::identity::check_identity;
use skillrl::pipeline::records::RunIdentity;
use skillrl::pipeline::records::evaluation::Evaluation;
use skillrl::pipeline::run_dir::atomic;
use skillrl::pipeline::run_dir::measurement::{BANK_EVALUATION_FILE, seal, unseal};
use skillrl::pipeline::stage::StageCtx;
use skillrl::pipeline::stage::evaluate::evaluate;
use skillrl::pipeline::stage::rollout::Rollouts;
use skillrl::pipeline::stage::silence::check_spoken;
use skillrl::pipeline::{PipelineError, Stage, StopSignal};
use skillrl::reports::Comparison;
use skillrl::reports::words::{measured, percent};
use skillrl::{skills, trainer, world};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
/// Tasks of this many types are named at most.
const MAX_NAMED: usize = 12;

pub(crate) fn run(args: &EvalArgs, bank_path: &Path) -> crate::Result {
    let start = Start { agrees: args.yes, ..args.config.start() };
    let loaded = crate::command::with_policy(load_start(&start, args.quiet)?, args.policy.as_deref())?;
    let split = crate::measuring::split_of(args)?;
    let MeasurementArgs { out, force, against, .. } = &args.measurement;
    if against.is_some() {
        let message = "a bank is compared with no bank; `--against` is for skills";
        return Err(CommandError::new(message).with_hint("leave out `--against` or `--bank`").into());
    }
    let read = read_shown(bank_path)?;
    for note in read.notes.iter().filter(|note| note.is_of_log()) {
        crate::command::say(&format!("note: {}", harmless(&note.to_string())));
    }
    let view = read.bank.view();
    let mut engine = Engine::new(&loaded);
    let env = world::environment(&loaded, engine.judge()?)?;
    let frame = match &args.skill {
        Some(path) => skills::read_skill(path)?,
        None => skills::first_skill(&loaded.config.skill, env.as_ref())?.unwrap_or_default(),
    };
    let target = engine.model(ModelRole::Target)?;
    let embedding = engine.retrieval_model()?;
    check_not_empty(env.as_ref(), split)?;
    agree_to_address(&start, &loaded)?;
    warn_of_test_split(&loaded, split);
    let retrieval = skills::retrieval(loaded.config.retrieval.as_ref(), embedding.as_deref())?;
    let mut settings = deciding(&loaded, env.as_ref(), split, target.id());
    warn_of_other_data(&loaded, split, &settings);
    settings.insert("skill.initial".to_owned(), json!(frame.hash()));
    settings.insert("bank.version".to_owned(), json!(view.version()));
    settings.insert("retrieval".to_owned(), json!(canonical_hash(&json!(retrieval))));
    if let Some(model) = &embedding {
        settings.insert("models.embedding".to_owned(), json!(model.id().to_string()));
    }
    if let Some(out) = out.as_deref().filter(|_| !force) {
        check_whole(out)?;
    }
    let same = out.as_deref().map(|out| check_same_measurement(&out.join(BANK_EVALUATION_FILE), &settings));
    let replaces_other = same.as_ref().is_some_and(Result::is_err);
    if let Some(Err(error)) = same.filter(|_| !force) {
        return Err(error);
    }
    let kept = out.as_deref().map(|out| CallCache::beside(&out.join(BANK_EVALUATION_FILE))).transpose()?;
    if let Some(kept) = &kept {
        let work = canonical_hash(&json!(settings));
        count_spent_on(&work, replaces_other, (kept.path(), &kept.journal), &engine, None)?;
    }
    let n_before = engine.budget().spent().calls;
    let chat = |model: Arc<dyn ChatModel>| match &kept {
        Some(kept) => kept.chat(model),
        None => model,
    };
    let embedding = embedding.map(|model| match &kept {
        Some(kept) => kept.embedding(model),
        None => model,
    });
    let first_vector = embedding.clone();
    let judge = env.judge().map(|judge| chat(Arc::clone(judge)));
    let rollouts = Rollouts::local(Arc::clone(&env), chat(target), judge);
    let has_frame = !frame.is_blank();
    let with =
        Arc::new(skills::bank_source(view.clone(), &retrieval, embedding, has_frame.then(|| frame.clone()))?);
    let stop = StopSignal::default();
    let progress = Progress::new(if args.json || args.quiet { Show::Quiet } else { Show::Progress });
    let ctx = StageCtx {
        workers: trainer::settings(&loaded.config)?.workers,
        halt: stop.soon.clone(),
        cancel: stop.now.clone(),
        journal: kept.as_ref().map(|kept| kept.journal.clone()),
        ..StageCtx::new(Stage::Evaluate, &progress)
    };
    let source: Arc<dyn SkillSource> = Arc::clone(&with) as Arc<dyn SkillSource>;
    let measuring = async {
        let call = CallCtx { cancel: ctx.cancel.clone(), halt: ctx.halt.clone(), ..CallCtx::default() };
        check_embedding(first_vector.as_deref(), &call).await?;
        let without = evaluate(&rollouts, split, &document(&frame), &ctx).await?;
        let with_bank = evaluate(&rollouts, split, &source, &ctx).await?;
        Ok::<_, PipelineError>((without, with_bank))
    };
    let (without, with_bank) = crate::command::block_on(stop, "stopping", measuring)?
        .map_err(|error| unkept(error, kept.is_some()))?;
    let shown = shown_to_all(env.as_ref(), &with, &with_bank);
    check_spoken(&without.results, Stage::Evaluate)?;
    warn_of_replies(&with_bank.results);
    let gate = trainer::settings(&loaded.config)?.gate;
    let compared = Comparison::of(gate, &without.results, &with_bank.results);
    let has_changed = read_bank(bank_path).map_or(true, |now| now.bank.view().version() != view.version());
    if has_changed {
        crate::command::say(&format!(
            "warning: {} has changed since this measurement began, which is of the bank as it was then",
            bank_path.display()
        ));
    }
    let n_unmeasured = view.skills().iter().filter(|skill| skill.utility.is_none()).count();
    let value = json!({
        "bank": bank_path,
        "bank_version": view.version(),
        "split": split,
        "skills": view.skills().len(),
        "unmeasured": n_unmeasured,
        "simulated_models": simulated_models(&loaded.config, &[ModelRole::Target]),
        "without": scores(&without),
        "with": scores(&with_bank),
        "difference": compared,
        "shown": shown.counts.iter().map(|(id, n)| (id.to_string(), *n)).collect::<BTreeMap<_, _>>(),
        "items": shown.items,
        "types": shown.types,
        "measured_with": settings,
    });
    if let Some(out) = out {
        unseal(out)?;
        atomic::write_json(&out.join(BANK_EVALUATION_FILE), &value)?;
        seal(out)?;
    }
    if args.json {
        return crate::command::print(&format!("{value}\n"));
    }
    let mut text = format!(
        "bank    {}: {} active, {}\nsplit   {split}, {}\n",
        bank_path.display(),
        counted(view.skills().len() as u64, "skill"),
        measured(view.skills().len() as u64, n_unmeasured as u64),
        counted(env.items(split).len() as u64, "item"),
    );
    for (label, evaluation) in [("without", &without), ("with   ", &with_bank)] {
        let words = score_words(evaluation.score.hard, evaluation.score.soft, evaluation.results.len());
        let _ = writeln!(text, "{label} {words}");
    }
    for (task_type, [before, after, n]) in by_type(&without, &with_bank).into_iter().take(MAX_NAMED) {
        let name = if task_type.is_empty() { "without a type" } else { &task_type };
        let _ = writeln!(text, "  {name}: {} without, {} with, {n} items", percent(before), percent(after));
    }
    if let Some(compared) = &compared {
        text.push_str(&super::against::describe(compared));
    }
    text.push_str(&shown.described());
    if kept.is_some() {
        let _ = writeln!(text, "{}", described_spend(&loaded, &engine, n_before));
    }
    text.push_str(&simulated_line(&start, &loaded, &[ModelRole::Target]));
    crate::command::print_wrapped(&text)
}

fn scores(evaluation: &Evaluation) -> serde_json::Value {
    json!({"hard": evaluation.score.hard, "soft": evaluation.score.soft, "n": evaluation.results.len()})
}

fn by_type(without: &Evaluation, with: &Evaluation) -> BTreeMap<String, [f64; 3]> {
    let mut sums: BTreeMap<String, [f64; 3]> = BTreeMap::new();
    for (before, after) in without.results.iter().zip(&with.results) {
        let [one, other, n] = sums.entry(before.task_type.clone()).or_default();
        *one += before.hard;
        *other += after.hard;
        *n += 1.0;
    }
    for [one, other, n] in sums.values_mut() {
        *one /= *n;
        *other /= *n;
    }
    sums
}

/// Which items were shown which skills.
#[derive(Default)]
struct ShownToAll {
    counts: BTreeMap<SkillRef, usize>,
    items: BTreeMap<String, Vec<String>>,
    /// How often each type was found, and how.
    types: BTreeMap<String, usize>,
    unknown: usize,
    without_task_skills: BTreeSet<String>,
}

impl ShownToAll {
    fn described(&self) -> String {
        let mut text = String::new();
        let shown = self.counts.len();
        let _ = writeln!(text, "shown   {} of the bank to these items", counted(shown as u64, "skill"));
        if self.unknown > 0 {
            let _ = writeln!(
                text,
                "warning: {} of no type that the bank knows; they are shown general skills alone",
                counted(self.unknown as u64, "item")
            );
        }
        if !self.without_task_skills.is_empty() {
            let names: Vec<&str> = self.without_task_skills.iter().map(String::as_str).collect();
            let _ = writeln!(text, "warning: the bank has no skills for the types {}", names.join(", "));
        }
        text
    }
}

/// What every item of the split was shown, by its results, and which types the bank finds in them.
fn shown_to_all(env: &dyn Env, source: &BankSource, evaluation: &Evaluation) -> ShownToAll {
    let mut shown = ShownToAll::default();
    let items: BTreeMap<&ItemId, &Item> =
        Split::ALL.into_iter().flat_map(|split| env.items(split)).map(|item| (&item.id, item)).collect();
    for result in &evaluation.results {
        let parts: Vec<SkillRef> = result.trajectory.shown_parts.iter().map(SkillRef::of_part).collect();
        shown.items.insert(result.id.to_string(), parts.iter().map(SkillRef::to_string).collect());
        for part in parts {
            *shown.counts.entry(part).or_default() += 1;
        }
        let Some(item) = items.get(&result.id) else { continue };
        // Some environments tell the goal only when a rollout begins.
        let goal = env.goal(item).unwrap_or_else(|| result.task_description.clone());
        match source.bank().detect(&item.task_type, &goal).task_type {
            Some(found) => {
                let has_skills = source.bank().view().task_types().any(|known| *known == found);
                *shown.types.entry(found.clone()).or_default() += 1;
                if !has_skills {
                    shown.without_task_skills.insert(found);
                }
            }
            None => shown.unknown += 1,
        }
    }
    shown
}

/// Refuses to write over the result of another measurement.
fn check_same_measurement(path: &Path, settings: &RunIdentity) -> crate::Result {
    let found = match regular_file::read(path) {
        Ok(bytes) => serde_json::from_slice::<Value>(&bytes).unwrap_or_default(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => {
            return Err(CommandError::new(format!("cannot read {}: {error}", path.display())).into());
        }
    };
    let known = found.get("measured_with").cloned().map(serde_json::from_value::<RunIdentity>);
    let what = match known {
        Some(Ok(known)) => match check_identity(path, &known, settings) {
            Err(PipelineError::Mismatch { changes, .. }) => {
                format!("a measurement with other settings ({})", describe_changes(&changes))
            }
            Ok(()) | Err(_) => return Ok(()),
        },
        Some(Err(_)) | None => "something else than a measurement of this version".to_owned(),
    };
    let message = format!("{} holds {what}, which this would replace", path.display());
    let hint = "name another directory with `--out`, or replace it with --force";
    Err(CommandError::new(message).with_hint(hint).into())
}
