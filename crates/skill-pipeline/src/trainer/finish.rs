//! The end of a run: the test split, read once, and the summary.
//!
//! # Invariants
//!
//! - A finished run makes no model call. Held by `a_finished_run_is_summed_up_again_without_a_call`.

use super::run::Run;
use super::{ScoredSkill, TrainState};
use crate::error::PipelineError;
use crate::event::{Event, EventSink as _, Stage};
use crate::records::arm::{ArmName, ArmRecord, ArmSetting};
use crate::records::document::StepAction;
use crate::records::evaluation::Evaluation;
use crate::records::paired::PairedRecord;
use crate::records::summary::Summary;
use crate::records::{FORMAT_VERSION, StageTokens, TokensByStage};
use crate::run_dir::{EvaluationDir, atomic};
use crate::settings::Evidence;
use crate::stage::evaluate::evaluate;
use crate::warning::Warning;
use skill_core::exact::round_6;
use skill_core::guard::Guarded;
use skill_core::{MeanScore, SkillDoc, SkillId, StepIdx};
use skill_envs::source::document;
use skill_envs::{EnvError, Split};
use skill_llm::error::with_causes;

/// An evaluation after the last step.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    dir: EvaluationDir,
    /// Where the initial skill was measured in the same way.
    baseline: EvaluationDir,
    stage: Stage,
    split: Split,
}

impl Place {
    const FINAL_SELECTION: Self = Self {
        dir: EvaluationDir::FinalSelection,
        baseline: EvaluationDir::Baseline,
        stage: Stage::FinalSelection,
        split: Split::Val,
    };
    pub(super) const FRESH_BASELINE: Self =
        Self { stage: Stage::FreshBaseline, dir: EvaluationDir::FreshBaseline, ..Self::FRESH_BEST };
    pub(super) const FRESH_BEST: Self = Self {
        dir: EvaluationDir::FreshBest,
        baseline: EvaluationDir::FreshBaseline,
        stage: Stage::FreshBest,
        split: Split::Val,
    };

    /// Where an arm is measured.
    fn of_arm(arm: ArmName) -> Self {
        let stage = match arm {
            ArmName::Initial => Stage::TestBaseline,
            ArmName::Trained => Stage::TestBest,
            ArmName::NoSkill => Stage::TestNoSkill,
            ArmName::OneShot => Stage::TestOneShot,
        };
        let (dir, baseline) = (EvaluationDir::of_arm(arm), EvaluationDir::of_arm(ArmName::Initial));
        Self { dir, baseline, stage, split: Split::Test }
    }
}

/// What the test split has shown.
#[derive(Default)]
struct Tested {
    initial: Option<MeanScore>,
    trained: Option<MeanScore>,
    /// The trained skill against the initial one; `None` if they are the same.
    paired: Option<PairedRecord>,
    no_skill: Option<ArmRecord>,
    one_shot: Option<ArmRecord>,
}

impl Run<'_> {
    /// Measures the initial and the best skill on the test split, if that is asked, and writes the summary.
    pub(super) async fn finish(&mut self, state: &TrainState) -> Result<Summary, PipelineError> {
        self.begin_end(state)?;
        let mut tokens = TokensByStage::new();
        if let Some(baseline) = self.dir.read_evaluation(EvaluationDir::Baseline)? {
            add_tokens(&mut tokens, Stage::Baseline.as_str(), baseline.tokens);
        }
        for (stage, used) in state.tokens() {
            add_tokens(&mut tokens, stage, used);
        }
        self.warn_of_no_edits(&state.history);
        let best = self.promote(state, &mut tokens).await?;
        let is_noted = state.last_unmeasured_notes().is_some() && best.skill == state.current.skill;
        let fresh_selection = self.measure_fresh(&best, &mut tokens).await?;
        let tested = self.test(state, &best, &mut tokens).await?;
        let (baseline_test, best_test) = (tested.initial, tested.trained);
        let count = |is_counted: fn(StepAction) -> bool| {
            state.history.iter().filter(|record| is_counted(record.action)).count()
        };
        let delta = best_test.zip(baseline_test).map(|(best, baseline)| round_6(best.hard - baseline.hard));
        let summary = Summary {
            format_version: FORMAT_VERSION.to_owned(),
            version: format!("skillrl-{}", env!("CARGO_PKG_VERSION")),
            env: self.env.name().to_owned(),
            config: self.open.shell.config.told(),
            simulated_models: self.open.shell.config.simulated_models.clone(),
            total_steps: state.history.len(),
            total_accepts: count(StepAction::is_accept),
            total_rejects: count(|action| action == StepAction::Reject),
            total_indecisive: count(|action| action == StepAction::Indecisive),
            total_skips: count(StepAction::is_skip),
            total_empty_replies: state.history.iter().map(|record| record.n_empty_replies).sum(),
            epoch_ends: state.epoch_end_counts(),
            best_step: best.id.origin.step(),
            best_slow_epoch: best.id.origin.ended_epoch(),
            best_skill: best.id,
            is_best_measured_last: is_noted,
            best_skill_hash: best.skill.hash(),
            baseline_selection_score: self.settings.gate.score(state.baseline),
            best_selection_score: best.score,
            best_of: 1 + state.n_measured(),
            fresh_selection,
            current_selection_score: state.current.score,
            gate_metric: Some(self.settings.gate.metric),
            baseline_test_score: baseline_test.map(|score| round_6(self.settings.gate.score(score))),
            test_score: best_test.map(|score| round_6(self.settings.gate.score(score))),
            baseline_test_hard: baseline_test.map(|score| score.hard),
            baseline_test_soft: baseline_test.map(|score| score.soft),
            test_hard: best_test.map(|score| score.hard),
            test_soft: best_test.map(|score| score.soft),
            test_delta_hard: delta,
            test_paired: tested.paired,
            test_no_skill: tested.no_skill,
            test_one_shot: tested.one_shot,
            token_summary: tokens,
            search: self.search_record(state)?,
            extras: serde_json::Map::new(),
        };
        self.dir.write_best_folder(&state.best.skill)?;
        self.dir.write_history(&state.history)?;
        self.dir.write_summary(&summary)?;
        Ok(summary)
    }

    /// Measures the arms on the test split, if it is read: the initial and the best skill, then no skill at all and the
    /// one-shot skill if they are requested or take little.
    async fn test(
        &mut self,
        state: &TrainState,
        best: &ScoredSkill,
        tokens: &mut TokensByStage,
    ) -> Result<Tested, PipelineError> {
        let mut tested = Tested::default();
        if !self.settings.eval_test {
            return Ok(tested);
        }
        let initial = self.initial_skill.clone();
        let is_same = initial == best.skill;
        tested.initial = Some(self.measure(Place::of_arm(ArmName::Initial), &initial, tokens).await?);
        tested.trained = Some(self.measure(Place::of_arm(ArmName::Trained), &best.skill, tokens).await?);
        if !is_same {
            tested.paired = self.compare_with(ArmName::Initial)?;
        }
        if self.measures_no_skill()? {
            let measured = self.measure(Place::of_arm(ArmName::NoSkill), &SkillDoc::default(), tokens).await;
            tested.no_skill = self.arm_record(ArmName::NoSkill, measured)?;
        }
        if self.measures_one_shot()? {
            let measured = match self.one_shot_skill(state, tokens).await {
                Ok(Some(skill)) => self.measure(Place::of_arm(ArmName::OneShot), &skill, tokens).await,
                Ok(None) => return Ok(tested),
                Err(error) => Err(error),
            };
            tested.one_shot = self.arm_record(ArmName::OneShot, measured)?;
        }
        Ok(tested)
    }

    /// The record of an arm besides the initial and the best skill; `None` with a warning if the run has its result without
    /// it.
    fn arm_record(
        &mut self,
        arm: ArmName,
        measured: Result<MeanScore, PipelineError>,
    ) -> Result<Option<ArmRecord>, PipelineError> {
        let setting = match arm {
            ArmName::OneShot => self.settings.one_shot,
            ArmName::NoSkill | ArmName::Initial | ArmName::Trained => self.settings.no_skill,
        };
        let left_out = match measured {
            Ok(score) => {
                return Ok(Some(ArmRecord {
                    hard: score.hard,
                    soft: score.soft,
                    score: round_6(self.settings.gate.score(score)),
                    paired: self.compare_with(arm)?,
                }));
            }
            // The agent may need its skill, such as a file of it.
            Err(PipelineError::Rollout { place, source, .. }) if !matches!(source, EnvError::Model(_)) => {
                let message = format!("stopped at {place}: {}", with_causes(&source));
                match arm {
                    ArmName::OneShot => Warning::OneShotFailed { message },
                    ArmName::NoSkill | ArmName::Initial | ArmName::Trained => {
                        Warning::NoSkillFailed { message }
                    }
                }
            }
            // Requests that a kill has lost may have used up the calls that were set aside for it.
            Err(error) => match error.cap().filter(|what| *what != "time" && setting == ArmSetting::Auto) {
                None => return Err(error),
                Some(what) if arm == ArmName::OneShot => Warning::NoRoomForOneShot { what: what.to_owned() },
                Some(what) => Warning::NoRoomForNoSkill { what: what.to_owned() },
            },
        };
        self.warn(None, left_out);
        Ok(None)
    }

    /// The skill that the run is worth: the last one, if it is better than the best one so far.
    ///
    /// That can be where guidance became part of the skill without the gate. The state stays as it is, so that a run
    /// that is extended is one that was longer from the start.
    async fn promote(
        &mut self,
        state: &TrainState,
        tokens: &mut TokensByStage,
    ) -> Result<ScoredSkill, PipelineError> {
        let (last, best) = (self.last_skill(state, tokens).await?, &state.best);
        let verdict = self.objective(state).decide(last.measures(), best.measures(), best.measures());
        let Evidence { is_guarded, selection_repeats, .. } = self.settings.evidence;
        let falls = || {
            let (last, best) = (&last.item_guards, &best.item_guards);
            Guarded::of(last, best, selection_repeats, self.settings.seed).is_some_and(|found| found.falls)
        };
        if !verdict.action.is_accepted() || is_guarded && falls() {
            return Ok(best.clone());
        }
        self.dir.write_skills(&state.current.skill, &last.skill)?;
        self.warn(None, Warning::LastSkillIsBest { last: last.score, best: best.score });
        Ok(last)
    }

    /// The current skill with its own score: notes that were added after it was measured are measured now.
    async fn last_skill(
        &mut self,
        state: &TrainState,
        tokens: &mut TokensByStage,
    ) -> Result<ScoredSkill, PipelineError> {
        let current = state.current.clone();
        let Some(noted) = state.last_unmeasured_notes() else {
            // What an earlier end of the run measured was another skill.
            atomic::remove_dir(&self.dir.evaluation_dir(EvaluationDir::FinalSelection))?;
            return Ok(current);
        };
        let mean = self.measure(Place::FINAL_SELECTION, &current.skill, tokens).await?;
        let results = self.dir.read_results(EvaluationDir::FinalSelection)?;
        let score = self.settings.gate.score(mean);
        Ok(ScoredSkill {
            reference: current.reference,
            ..ScoredSkill::of(current.skill, score, &results, SkillId::of_step(noted))
        })
    }

    /// Measures a skill at a place, unless this run has measured the same skill there, or the initial one, before.
    pub(super) async fn measure(
        &mut self,
        Place { dir: place, baseline, stage, split }: Place,
        skill: &SkillDoc,
        tokens: &mut TokensByStage,
    ) -> Result<MeanScore, PipelineError> {
        let hash = skill.hash();
        if let Some(known) = self.dir.read_evaluation(place)?
            && known.skill_hash == hash
            && self.dir.keep_evaluation(place)?
        {
            add_tokens(tokens, stage.as_str(), known.tokens);
            let score = MeanScore { hard: known.hard, soft: known.soft };
            self.log.emit(&Event::TestMeasured { stage, score });
            return Ok(score);
        }
        let (evaluation, used) = match self.dir.read_evaluation(baseline)? {
            // The best skill is the initial one: its results are known.
            Some(known) if known.skill_hash == hash => {
                let results = self.dir.read_results(baseline)?;
                let score = MeanScore { hard: known.hard, soft: known.soft };
                (Evaluation { score, results }, StageTokens::default())
            }
            Some(_) | None => {
                self.check_stop(StepIdx(self.length.1), self.length.1)?;
                let watch = self.begin(None, stage);
                let ctx = self.stage_ctx(&watch);
                let evaluation = evaluate(&self.rollouts, split, &document(skill), &ctx).await?;
                self.check_target_speaks(&watch, skill, &evaluation.results).await?;
                let used = self.end(&watch);
                self.warn_of_replies(None, &evaluation.results);
                // What is said to be measured is on the disk before that is said.
                self.journal.flush().await?;
                (evaluation, used)
            }
        };
        self.dir.write_evaluation(place, &hash, &evaluation, used)?;
        add_tokens(tokens, stage.as_str(), used);
        self.log.emit(&Event::TestMeasured { stage, score: evaluation.score });
        Ok(evaluation.score)
    }
}

pub(super) fn add_tokens(tokens: &mut TokensByStage, stage: &str, used: StageTokens) {
    if used.calls > 0 {
        *tokens.entry(stage.to_owned()).or_default() += used;
    }
}
