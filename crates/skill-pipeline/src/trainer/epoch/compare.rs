//! The longitudinal comparison: a sample of training items with the skill of the last epoch and with the current one.

use crate::error::PipelineError;
use crate::event::Stage;
use crate::records::TokensByStage;
use crate::records::epoch::PairRecord;
use crate::run_dir::{COMPARISON_PAIRS, RESULTS_FILE};
use crate::stage::rollout::rollout;
use crate::trainer::finish::add_tokens;
use crate::trainer::run::{Run, StageWatch};
use skill_core::{
    ComparisonPair, EpochIdx, MeanScore, PairPolicy, RolloutResult, SkillDoc, StepIdx, comparison_pairs,
    slow_update_order,
};
use skill_envs::source::document;
use skill_envs::{Item, Split};
use std::path::Path;

/// What two skills made of the same items.
pub(super) struct Comparison {
    /// What the optimizer sees.
    pub(super) pairs: Vec<ComparisonPair>,
    /// Mean `hard` of the sample with the skill of the last epoch.
    pub(super) prev_hard: f64,
    /// Mean `hard` of the sample with the current skill.
    pub(super) curr_hard: f64,
}

/// The results of both skills so far.
#[derive(Default)]
struct Sides {
    previous: Vec<RolloutResult>,
    current: Vec<RolloutResult>,
}

impl Run<'_> {
    /// Compares `[previous, current]` and writes what came of it into `files`.
    pub(super) async fn compare(
        &mut self,
        epoch: EpochIdx,
        step: StepIdx,
        skills: [&SkillDoc; 2],
        files: &Path,
        tokens: &mut TokensByStage,
    ) -> Result<Comparison, PipelineError> {
        let settings = self.settings.epoch_end;
        let train = self.env.items(Split::Train);
        let order = slow_update_order(train.len(), epoch, self.settings.seed);
        let mut candidates = order.into_iter().filter_map(|item_idx| train.get(item_idx));
        let policy = settings.pair_policy;
        let watches = [Stage::RolloutPrev, Stage::RolloutCurr].map(|stage| self.begin(Some(step), stage));

        let mut sides = Sides::default();
        let sample: Vec<&Item> = candidates.by_ref().take(settings.samples).collect();
        self.work_on_both(&sample, skills, &watches, &mut sides).await?;
        let [prev_hard, curr_hard] =
            [&sides.previous, &sides.current].map(|side| MeanScore::of_results(side).hard);
        let kept = |sides: &Sides| -> Vec<ComparisonPair> {
            let pairs = comparison_pairs(&sides.previous, &sides.current);
            pairs.into_iter().filter(|pair| policy.keeps(pair.category)).collect()
        };
        let mut pairs = kept(&sides);
        while policy == PairPolicy::Changed && pairs.len() < settings.samples {
            // At least so many more are needed: none of them is drawn in vain, however many workers there are.
            let more: Vec<&Item> = candidates.by_ref().take(settings.samples - pairs.len()).collect();
            if more.is_empty() {
                break;
            }
            self.work_on_both(&more, skills, &watches, &mut sides).await?;
            pairs = kept(&sides);
        }
        for watch in &watches {
            let used = self.end(watch);
            add_tokens(tokens, watch.stage().as_str(), used);
        }
        self.dir.put_json(&files.join("rollout_prev").join(RESULTS_FILE), &sides.previous)?;
        self.dir.put_json(&files.join("rollout_curr").join(RESULTS_FILE), &sides.current)?;
        let write = |name: &str, pairs: &[ComparisonPair]| {
            let records: Vec<PairRecord> = pairs.iter().map(PairRecord::from).collect();
            self.dir.put_json(&files.join(name), &records)
        };
        write(COMPARISON_PAIRS, &pairs)?;
        if policy != PairPolicy::Mixed {
            write("comparison_pairs_all.json", &comparison_pairs(&sides.previous, &sides.current))?;
        }
        Ok(Comparison { pairs, prev_hard, curr_hard })
    }

    /// Runs the agent on the items with both skills; with equal ones once, since the second time would be the first.
    async fn work_on_both(
        &mut self,
        items: &[&Item],
        [previous, current]: [&SkillDoc; 2],
        [watch_prev, watch_curr]: &[StageWatch; 2],
        sides: &mut Sides,
    ) -> Result<(), PipelineError> {
        let work = async |skill: &SkillDoc, watch: &StageWatch| {
            rollout(&self.rollouts, items, &document(skill), &self.stage_ctx(watch)).await
        };
        let of_previous = work(previous, watch_prev).await?;
        let of_current =
            if previous == current { of_previous.clone() } else { work(current, watch_curr).await? };
        self.check_target_speaks(watch_prev, previous, &of_previous).await?;
        if previous != current {
            self.check_target_speaks(watch_curr, current, &of_current).await?;
        }
        self.warn_of_replies(watch_prev.step(), &of_previous);
        self.warn_of_replies(watch_curr.step(), &of_current);
        sides.previous.extend(of_previous);
        sides.current.extend(of_current);
        Ok(())
    }
}
