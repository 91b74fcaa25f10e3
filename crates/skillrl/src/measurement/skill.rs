//! A skill on one split, as `skillrl eval` measures it.

use super::{Earlier, Measurement, MeasurementDir, identity};
use crate::config::{LoadedConfig, ModelRole};
use crate::engine::Engine;
use crate::error::Error;
use crate::{skills, world};
use skill_core::{ItemId, RolloutResult, SkillDoc, SkillHash};
use skill_envs::source::document;
use skill_envs::{Env, Split};
use skill_llm::ChatModel;
use skill_pipeline::identity::{check_not_empty, scoring_changes};
use skill_pipeline::records::RunIdentity;
use skill_pipeline::records::arm::ArmName;
use skill_pipeline::records::evaluation::{Evaluation, EvaluationSummary};
use skill_pipeline::run_dir::{EvaluationDir, summarise};
use skill_pipeline::stage::silence::check_spoken;
use skill_pipeline::{EventSink, RunReader, Stage, StopSignal};
use skill_report::Comparison;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// A measurement of a skill, before the first request.
pub struct SkillMeasurement<'run> {
    loaded: &'run LoadedConfig,
    /// The tasks.
    pub env: Arc<dyn Env>,
    /// Those that are measured.
    pub split: Split,
    /// The name of the skill for people.
    pub name: String,
    /// The skill.
    pub skill: SkillDoc,
    /// Settings that decide the scores.
    pub settings: RunIdentity,
    target: Arc<dyn ChatModel>,
    earlier: Option<Earlier>,
    kept: Option<MeasurementDir>,
}

/// The scores of a skill, with the comparisons that there are.
pub struct SkillEvaluation {
    /// Scores and results, without their trajectories.
    pub evaluation: Evaluation,
    /// The same in short.
    pub summary: EvaluationSummary,
    /// An evaluation by the run of the configuration, where it has one.
    pub in_run: Option<InRun>,
    /// The comparison with the earlier measurement.
    pub compared: Option<Comparison>,
}

/// An evaluation of a run of the same skill on the same split.
pub struct InRun {
    /// The strict score of the run.
    pub hard: f64,
    /// The share of the items that one of the two solves and the other does not.
    pub flip_rate: f64,
}

impl<'run> SkillMeasurement<'run> {
    /// Prepares models and tasks: the skill of this path, or the one that [`skills::chosen`] names; the split that is
    /// named, or the usual one.
    ///
    /// # Errors
    ///
    /// A split without items, a skill or data that cannot be read, models that cannot be built.
    pub fn new(
        loaded: &'run LoadedConfig,
        engine: &mut Engine<'_>,
        split: Option<Split>,
        skill: Option<&Path>,
    ) -> Result<Self, Error> {
        let env = world::environment_to_measure(loaded, engine.judge()?, split)?;
        let split = split.unwrap_or_else(|| usual_split(env.as_ref()));
        let (name, skill) = skills::chosen(loaded, skill, env.as_ref())?;
        let target = engine.model(ModelRole::Target)?;
        check_not_empty(env.as_ref(), split)?;
        let settings = identity(loaded, env.as_ref(), split, target.id());
        Ok(Self { loaded, env, split, name, skill, settings, target, earlier: None, kept: None })
    }

    /// Compares the result with an earlier measurement; with `most` a loss of more than this share has to be excluded.
    ///
    /// # Errors
    ///
    /// A measurement that cannot be compared with, or that cannot exclude such a loss.
    pub fn compare_with(&mut self, earlier: Earlier, most: Option<f64>) -> Result<(), Error> {
        let items = self.env.items(self.split);
        earlier.check_items(items, &self.settings, self.split)?;
        if let Some(most) = most {
            earlier.check_loss(self.loaded, items, most)?;
        }
        self.earlier = Some(earlier);
        Ok(())
    }

    /// Keeps calls and result in this directory, and tells the caps what was spent there before.
    ///
    /// # Errors
    ///
    /// A directory that holds another measurement, unless that is to be replaced, and one that cannot be written.
    pub fn keep_in(&mut self, out: &Path, force: bool, engine: &Engine<'_>) -> Result<(), Error> {
        let items = self.env.items(self.split);
        let kept = MeasurementDir::open(out, &self.skill, items, self.settings.clone(), force)?;
        kept.count_spent(engine, None)?;
        self.kept = Some(kept);
        Ok(())
    }

    /// Measures every item, and writes the result where it is kept.
    ///
    /// # Errors
    ///
    /// A failed rollout, a target whose replies are all empty, and a file that cannot be written.
    pub async fn measure(self, sinks: (&dyn EventSink, &StopSignal)) -> Result<SkillEvaluation, Error> {
        let Self { loaded, env, split, skill, settings, target, earlier, kept, .. } = self;
        let journal = kept.as_ref().map(|kept| &kept.journal);
        let measurement = Measurement::new(loaded, &env, split, target, journal)?;
        let (measured, recorded) = measurement.scores(&document(&skill), sinks).await?;
        let evaluation = measured.evaluation;
        check_spoken(&evaluation.results, Stage::Evaluate)?;
        let summary = summarise(&skill.hash(), &evaluation, measured.tokens);
        // The results come out of the journal; the items make room for them.
        drop((measurement, env));
        if let Some(kept) = &kept {
            kept.write(recorded.results(), &summary)?;
        }
        let compared = earlier.map(|earlier| earlier.compare(loaded, &evaluation.results)).transpose()?;
        let in_run =
            InRun::find(&loaded.run_dir(), (split, &settings), &summary.skill_hash, &evaluation.results);
        Ok(SkillEvaluation { evaluation, summary, in_run, compared })
    }
}

/// The split that is measured where none is named: the validation split, or that of test in data with no other.
pub fn usual_split(env: &dyn Env) -> Split {
    let is_only =
        |split: Split| Split::ALL.iter().all(|other| env.items(*other).is_empty() == (*other != split));
    if is_only(Split::Test) { Split::Test } else { Split::Val }
}

impl InRun {
    /// Looks for one in the run of the configuration, which has to be of the same items with the same scorer; the
    /// first that it finds.
    fn find(
        run_dir: &Path,
        (split, settings): (Split, &RunIdentity),
        skill: &SkillHash,
        results: &[RolloutResult],
    ) -> Option<Self> {
        let run = RunReader::open(run_dir).ok()?;
        if !scoring_changes(&run.config().identity, settings, split.as_str()).is_empty() {
            return None;
        }
        let best = run.state().ok().flatten().and_then(|state| EvaluationDir::of_skill(state.best_skill));
        let places = match split {
            Split::Train => Vec::new(),
            Split::Val => {
                [EvaluationDir::Baseline, EvaluationDir::FinalSelection].into_iter().chain(best).collect()
            }
            Split::Test => ArmName::ALL.iter().map(|arm| EvaluationDir::of_arm(*arm)).collect(),
        };
        let is_same = |dir: &EvaluationDir| {
            run.evaluation_summary(*dir).ok().flatten().is_some_and(|known| known.skill_hash == *skill)
        };
        let scores = run.scores(places.into_iter().find(is_same)?).ok().flatten()?;
        let now: BTreeMap<&ItemId, bool> =
            results.iter().map(|result| (&result.id, result.is_success())).collect();
        let both: Vec<(f64, bool, bool)> = scores
            .iter()
            .filter_map(|(id, score)| Some((score.hard, score.is_success(), *now.get(id)?)))
            .collect();
        let n = both.len() as f64;
        let n_flips = both.iter().filter(|(_, then, now)| then != now).count();
        (!both.is_empty()).then(|| Self {
            hard: both.iter().map(|(hard, _, _)| hard).sum::<f64>() / n,
            flip_rate: n_flips as f64 / n,
        })
    }
}
