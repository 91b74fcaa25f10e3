//! The end of a run: the test split, read once, and the summary.

use super::TrainState;
use super::run::Run;
use super::step::round_6;
use crate::error::PipelineError;
use crate::event::{Event, EventSink as _, Stage};
use crate::run_dir::EvaluationDir;
use crate::run_dir::format::{FORMAT_VERSION, StageTokens, StepAction, Summary, TokensByStage};
use crate::stage::evaluate::{Evaluation, evaluate};
use skill_core::{MeanScore, SkillDoc};
use skill_envs::Split;

impl Run<'_> {
    /// Measures the initial and the best skill on the test split, if that is asked, and writes the summary.
    pub(super) async fn finish(&mut self, state: &TrainState) -> Result<Summary, PipelineError> {
        let mut tokens = TokensByStage::new();
        if let Some(baseline) = self.dir.read_evaluation(EvaluationDir::Baseline)? {
            add_tokens(&mut tokens, Stage::Baseline.as_str(), baseline.tokens);
        }
        for record in &state.history {
            for (stage, used) in &record.tokens {
                add_tokens(&mut tokens, stage, *used);
            }
        }
        let (mut baseline_test, mut best_test) = (None, None);
        if self.settings.eval_test {
            let initial = self.initial_skill.clone();
            let measured =
                self.test(EvaluationDir::TestBaseline, Stage::TestBaseline, &initial, &mut tokens).await?;
            baseline_test = Some(measured);
            best_test = Some(
                self.test(EvaluationDir::TestBest, Stage::TestBest, &state.best.skill, &mut tokens).await?,
            );
        }
        let count = |is_counted: fn(StepAction) -> bool| {
            state.history.iter().filter(|record| is_counted(record.action)).count()
        };
        let delta = best_test.zip(baseline_test).map(|(best, baseline)| round_6(best.hard - baseline.hard));
        let summary = Summary {
            format_version: FORMAT_VERSION.to_owned(),
            version: format!("skillrl-{}", env!("CARGO_PKG_VERSION")),
            env: self.env.name().to_owned(),
            config: self.config.clone(),
            total_steps: state.history.len(),
            total_accepts: count(StepAction::is_accept),
            total_rejects: count(|action| action == StepAction::Reject),
            total_skips: count(StepAction::is_skip),
            best_step: state.best.step,
            best_skill_hash: state.best.skill.hash(),
            baseline_selection_score: self.settings.gate.score(state.baseline),
            best_selection_score: state.best.score,
            current_selection_score: state.current.score,
            baseline_test_hard: baseline_test.map(|score| score.hard),
            baseline_test_soft: baseline_test.map(|score| score.soft),
            test_hard: best_test.map(|score| score.hard),
            test_soft: best_test.map(|score| score.soft),
            test_delta_hard: delta,
            token_summary: tokens,
            extras: serde_json::Map::new(),
        };
        self.dir.write_summary(&summary)?;
        Ok(summary)
    }

    /// Measures a skill on the test split, unless this run has measured the same skill there before.
    async fn test(
        &mut self,
        place: EvaluationDir,
        stage: Stage,
        skill: &SkillDoc,
        tokens: &mut TokensByStage,
    ) -> Result<MeanScore, PipelineError> {
        let hash = skill.hash();
        if let Some(known) = self.dir.read_evaluation(place)?
            && known.skill_hash == hash
        {
            add_tokens(tokens, stage.as_str(), known.tokens);
            let score = MeanScore { hard: known.hard, soft: known.soft };
            self.log.emit(&Event::TestMeasured { stage, score });
            return Ok(score);
        }
        let (evaluation, used) = match self.dir.read_evaluation(EvaluationDir::TestBaseline)? {
            // The best skill is the initial one: its results are known.
            Some(known) if known.skill_hash == hash => {
                let results = self.dir.read_results(EvaluationDir::TestBaseline)?;
                let score = MeanScore { hard: known.hard, soft: known.soft };
                (Evaluation { score, results }, StageTokens::default())
            }
            Some(_) | None => {
                let watch = self.begin(None, stage);
                let ctx = self.stage_ctx(&watch);
                let evaluation = evaluate(self.env, Split::Test, skill, &self.target, &ctx).await?;
                let used = self.end(&watch);
                self.warn_of_cut_replies(None, &evaluation.results);
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

fn add_tokens(tokens: &mut TokensByStage, stage: &str, used: StageTokens) {
    if used.calls > 0 {
        *tokens.entry(stage.to_owned()).or_default() += used;
    }
}
