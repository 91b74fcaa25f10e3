//! A bank against no bank: the same items with its skills and without them.

use super::{Measurement, check_whole, identity};
use crate::call_cache::{CallCache, count_spent_on};
use crate::config::{LoadedConfig, ModelRole, simulated_models};
use crate::engine::Engine;
use crate::error::{Error, MeasurementError};
use crate::{skills, trainer, world};
use serde_json::{Value, json};
use skill_bank::format::{Note, ReadBank};
use skill_bank::retrieve::Retrieval;
use skill_bank::{BankSource, BankView, SkillRef};
use skill_core::canonical::canonical_hash;
use skill_core::{ItemId, SkillDoc};
use skill_envs::source::document;
use skill_envs::{Env, Item, SkillSource, Split};
use skill_llm::{CallCtx, ChatModel, EmbeddingModel, regular_file};
use skill_pipeline::bank::check_embedding;
use skill_pipeline::error::describe_changes;
use skill_pipeline::identity::{check_identity, check_not_empty};
use skill_pipeline::records::RunIdentity;
use skill_pipeline::records::evaluation::Evaluation;
use skill_pipeline::run_dir::atomic;
use skill_pipeline::run_dir::measurement::{BANK_EVALUATION_FILE, seal, unseal};
use skill_pipeline::stage::silence::check_spoken;
use skill_pipeline::{EventSink, PipelineError, Stage, StopSignal};
use skill_report::Comparison;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

/// A measurement of a bank, before the first request.
pub struct BankMeasurement<'run> {
    loaded: &'run LoadedConfig,
    /// The tasks.
    pub env: Arc<dyn Env>,
    /// The split that is measured.
    pub split: Split,
    /// The bank as it is shown.
    pub view: BankView,
    /// What a person should know about its file.
    pub notes: Vec<Note>,
    /// The document around the shown skills.
    frame: SkillDoc,
    target: Arc<dyn ChatModel>,
    embedding: Option<Arc<dyn EmbeddingModel>>,
    retrieval: Retrieval,
    /// Settings that decide the scores.
    pub settings: RunIdentity,
    kept: Option<CallCache>,
}

/// Scores with and without the bank.
pub struct BankEvaluation {
    /// With the frame alone.
    pub without: Evaluation,
    /// With the skills that the bank shows.
    pub with: Evaluation,
    /// The difference by item; `None` where there are none.
    pub difference: Option<Comparison>,
    /// Which items were shown which skills.
    pub shown: ShownSkills,
}

impl<'run> BankMeasurement<'run> {
    /// Prepares models, retrieval, the tasks of a configuration and this bank; the document around its skills is that of
    /// the path, or the first one of a run.
    ///
    /// # Errors
    ///
    /// A bank or a skill that cannot be read, a bank without an active skill, a split without items, and models that cannot
    /// be built.
    pub fn new(
        loaded: &'run LoadedConfig,
        engine: &mut Engine<'_>,
        split: Split,
        (bank, skill): (&Path, Option<&Path>),
    ) -> Result<Self, Error> {
        let ReadBank { bank, notes, .. } = skills::read_shown_bank(bank)?;
        let view = bank.view();
        let env = world::environment(loaded, engine.judge()?)?;
        let frame = match skill {
            Some(path) => skills::read_skill(path)?,
            None => skills::first_skill(&loaded.config.skill, env.as_ref())?.unwrap_or_default(),
        };
        let target = engine.model(ModelRole::Target)?;
        let embedding = engine.retrieval_model()?;
        check_not_empty(env.as_ref(), split)?;
        let retrieval = skills::retrieval(loaded.config.retrieval.as_ref(), embedding.as_deref())?;
        let mut settings = identity(loaded, env.as_ref(), split, target.id());
        settings.insert("skill.initial".to_owned(), json!(frame.hash()));
        settings.insert("bank.version".to_owned(), json!(view.version()));
        settings.insert("retrieval".to_owned(), json!(canonical_hash(&json!(retrieval))));
        if let Some(model) = &embedding {
            settings.insert("models.embedding".to_owned(), json!(model.id().to_string()));
        }
        Ok(Self {
            loaded,
            env,
            notes,
            split,
            view,
            frame,
            target,
            embedding,
            retrieval,
            settings,
            kept: None,
        })
    }

    /// Keeps calls and result in this directory, and tells the caps what was spent there before.
    ///
    /// # Errors
    ///
    /// A directory that holds another measurement, unless that is to be replaced, and one that cannot be written.
    pub fn keep_in(&mut self, out: &Path, force: bool, engine: &Engine<'_>) -> Result<(), Error> {
        if !force {
            check_whole(out)?;
        }
        let file = out.join(BANK_EVALUATION_FILE);
        let other = other_measurement(&file, &self.settings)?;
        let replaces_other = other.is_some();
        if let Some(what) = other.filter(|_| !force) {
            return Err(MeasurementError::Other { path: file, what }.into());
        }
        let kept = CallCache::beside(&file)?;
        let work = canonical_hash(&json!(self.settings));
        count_spent_on(&work, replaces_other, (kept.path(), &kept.journal), engine, None)?;
        self.kept = Some(kept);
        Ok(())
    }

    /// Measures both.
    ///
    /// # Errors
    ///
    /// A failed rollout, and a target whose replies are all empty.
    pub async fn measure(
        &self,
        (events, stop): (&dyn EventSink, &StopSignal),
    ) -> Result<BankEvaluation, Error> {
        let kept = self.kept.as_ref();
        let embedding = self.embedding.clone().map(|model| match kept {
            Some(kept) => kept.embedding(model),
            None => model,
        });
        let journal = kept.map(|kept| &kept.journal);
        let measurement =
            Measurement::new(self.loaded, &self.env, self.split, Arc::clone(&self.target), journal)?;
        let call = CallCtx { cancel: stop.now.clone(), halt: stop.soon.clone(), ..CallCtx::default() };
        check_embedding(embedding.as_deref(), &call).await?;
        let frame = (!self.frame.is_blank()).then(|| self.frame.clone());
        let source = Arc::new(skills::bank_source(self.view.clone(), &self.retrieval, embedding, frame)?);
        let without = measurement.results(&document(&self.frame), (events, stop)).await?.evaluation;
        let shown: Arc<dyn SkillSource> = Arc::clone(&source) as Arc<dyn SkillSource>;
        let with = measurement.results(&shown, (events, stop)).await?.evaluation;
        check_spoken(&without.results, Stage::Evaluate)?;
        let gate = trainer::settings(&self.loaded.config)?.gate;
        Ok(BankEvaluation {
            difference: Comparison::of(gate, &without.results, &with.results),
            shown: ShownSkills::of(self.env.as_ref(), &source, &with),
            without,
            with,
        })
    }

    /// The measurement as JSON, and as the file that [`Self::write`] writes; `bank` is where the bank is.
    pub fn to_json(&self, bank: &Path, evaluation: &BankEvaluation) -> Value {
        let scores = |evaluation: &Evaluation| json!({"hard": evaluation.score.hard, "soft": evaluation.score.soft, "n": evaluation.results.len()});
        let shown = evaluation.shown.counts.iter().map(|(id, n)| (id.to_string(), *n));
        json!({
            "bank": bank,
            "bank_version": self.view.version(),
            "split": self.split,
            "skills": self.view.skills().len(),
            "unmeasured": self.n_unmeasured(),
            "simulated_models": simulated_models(&self.loaded.config, &[ModelRole::Target]),
            "without": scores(&evaluation.without),
            "with": scores(&evaluation.with),
            "difference": evaluation.difference,
            "shown": shown.collect::<BTreeMap<_, _>>(),
            "items": evaluation.shown.items,
            "types": evaluation.shown.types,
            "measured_with": self.settings,
        })
    }

    /// Active skills of the bank that no trial has measured.
    pub fn n_unmeasured(&self) -> usize {
        self.view.skills().iter().filter(|skill| skill.utility.is_none()).count()
    }

    /// Writes the measurement as JSON into a directory.
    ///
    /// # Errors
    ///
    /// A file that cannot be written.
    pub fn write(out: &Path, value: &Value) -> Result<(), Error> {
        unseal(out)?;
        atomic::write_json(&out.join(BANK_EVALUATION_FILE), value)?;
        Ok(seal(out)?)
    }
}

/// Which items were shown which skills.
#[derive(Debug, Default)]
pub struct ShownSkills {
    /// How many items each skill was shown to.
    pub counts: BTreeMap<SkillRef, usize>,
    /// The skills of each item.
    pub items: BTreeMap<String, Vec<String>>,
    /// How often each type was detected.
    pub types: BTreeMap<String, usize>,
    /// Items of no type that the bank knows.
    pub n_unknown: usize,
    /// Detected types for which the bank has no skills.
    pub types_without_skills: BTreeSet<String>,
}

impl ShownSkills {
    /// The skills that each item was shown, by its results, and the types that the bank detects.
    fn of(env: &dyn Env, source: &BankSource, evaluation: &Evaluation) -> Self {
        let mut shown = Self::default();
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
                        shown.types_without_skills.insert(found);
                    }
                }
                None => shown.n_unknown += 1,
            }
        }
        shown
    }
}

/// Contents of a file that is not this measurement, in words.
fn other_measurement(path: &Path, settings: &RunIdentity) -> Result<Option<String>, Error> {
    let found = match regular_file::read(path) {
        Ok(bytes) => serde_json::from_slice::<Value>(&bytes).unwrap_or_default(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(source) => {
            return Err(Error::Read { what: "measurement", path: path.to_owned(), source });
        }
    };
    let known = found.get("measured_with").cloned().map(serde_json::from_value::<RunIdentity>);
    Ok(match known {
        Some(Ok(known)) => match check_identity(path, &known, settings) {
            Err(PipelineError::Mismatch { changes, .. }) => {
                Some(format!("a measurement with other settings ({})", describe_changes(&changes)))
            }
            Ok(()) | Err(_) => None,
        },
        Some(Err(_)) | None => Some("something else than a measurement of this version".to_owned()),
    })
}
