//! The one-shot arm: one request to the optimizer for a better skill, measured on the test split beside the trained one.
//!
//! It shows what the search adds to a single rewrite. The skill is never a candidate: no gate reads its score, and the run
//! delivers the best skill of its search.
//!
//! # Invariants
//!
//! - The request is made once: its skill is in the run directory. Held by
//!   `the_one_shot_skill_is_measured_once_and_never_delivered` in `tests/training/arms.rs`.

use super::TrainState;
use super::finish::add_tokens;
use super::run::Run;
use crate::error::PipelineError;
use crate::event::Stage;
use crate::records::arm::{ArmSetting, OneShotRecord};
use crate::records::document::StepRecord;
use crate::records::{FORMAT_VERSION, TokensByStage};
use crate::settings::protocol::ONE_SHOT_FAILURES;
use crate::stage::reflect::{Material, ReflectSettings, propose};
use crate::stage::update::take_whole;
use crate::warning::Warning;
use skill_core::rewrite::UpdateMode;
use skill_core::{ItemId, RolloutResult, SkillDoc};
use skill_envs::Split;
use std::collections::BTreeSet;

impl Run<'_> {
    /// True if the one-shot arm is measured after the last step. It is left out where the environment reflects by itself:
    /// a single request of ours would not be comparable with its requests.
    pub(super) fn measures_one_shot(&self) -> Result<bool, PipelineError> {
        let n_test = self.env.items(Split::Test).len();
        let is_measured = self.settings.measures_one_shot(n_test, self.initial_rollout()?);
        Ok(is_measured && self.reflections.is_none())
    }

    /// The skill of the arm, by one request unless this run has made it; `None` if there is nothing to learn from, or if the
    /// reply has no skill that may be used.
    pub(super) async fn one_shot_skill(
        &mut self,
        state: &TrainState,
        tokens: &mut TokensByStage,
    ) -> Result<Option<SkillDoc>, PipelineError> {
        if let Some((skill, record)) = self.dir.read_one_shot()? {
            self.dir.put_one_shot(&skill, &record)?;
            add_tokens(tokens, Stage::OneShot.as_str(), record.tokens);
            return Ok(Some(skill.with_carried(self.initial_skill.carried().clone())));
        }
        let failures = self.failures_of_initial_skill(state)?;
        if failures.is_empty() {
            return Ok(self.without_one_shot(
                "the run has recorded no failure of the initial skill on a training task",
            ));
        }
        let initial = self.initial_skill.clone();
        let limit = self.settings.edit_rules.max_tokens;
        let mut prompts = self
            .prompts
            .clone()
            .with_update_mode(UpdateMode::FullRewriteMinibatch)
            .with_memory(String::new())
            .with_size_of(&initial, limit);
        prompts.set_meta_skill("");
        let settings = ReflectSettings {
            minibatch_size: failures.len(),
            edit_budget: 1,
            failure_only: true,
            appendix_source: None,
            ends_in_silence: false,
        };
        self.check_stop(state.last_step, self.length.1)?;
        let watch = self.begin(None, Stage::OneShot);
        let reflection = {
            let (optimizer, ctx) = (self.optimizer(), self.stage_ctx(&watch));
            let shown = Material { failures: failures.iter().collect(), solved: Vec::new(), patterns: "" };
            propose(&shown, &initial, settings, &prompts, &optimizer, &ctx).await?
        };
        let used = self.end(&watch);
        self.journal.flush().await?;
        add_tokens(tokens, Stage::OneShot.as_str(), used);
        let made = reflection.patches.iter().find_map(|raw| take_whole(&initial, &raw.patch).skill);
        let Some(skill) = made else {
            return Ok(self.without_one_shot("the reply contains no skill"));
        };
        if limit.is_some_and(|limit| skill.n_tokens() > limit.max(initial.n_tokens())) {
            return Ok(self.without_one_shot("the skill is longer than a skill may be"));
        }
        let record = OneShotRecord {
            format_version: FORMAT_VERSION.to_owned(),
            skill_hash: skill.hash(),
            items: failures.iter().map(|failure| failure.id.clone()).collect(),
            tokens: used,
        };
        self.dir.put_one_shot(&skill, &record)?;
        Ok(Some(skill))
    }

    /// Failures of the initial skill on training tasks, one for each task: those that the first analysts read.
    fn failures_of_initial_skill(&self, state: &TrainState) -> Result<Vec<RolloutResult>, PipelineError> {
        let round = |record: &StepRecord| record.proposal.as_ref().map(|proposal| proposal.round);
        let Some(first) = state.history.first() else { return Ok(Vec::new()) };
        // The proposals of the first round are all made from the initial skill.
        let records = state.history.iter().take_while(|record| {
            record.step == first.step || (round(record).is_some() && round(record) == round(first))
        });
        let mut seen: BTreeSet<ItemId> = BTreeSet::new();
        let mut failures = Vec::new();
        for record in records {
            let rollouts = self.dir.read_rollouts(record)?;
            failures.extend(
                rollouts.into_iter().filter(|result| !result.is_success() && seen.insert(result.id.clone())),
            );
        }
        failures.truncate(ONE_SHOT_FAILURES);
        Ok(failures)
    }

    /// Says why the arm is left out, if it was requested.
    fn without_one_shot(&mut self, reason: &str) -> Option<SkillDoc> {
        if self.settings.one_shot == ArmSetting::On {
            self.warn(None, Warning::OneShotFailed { message: reason.to_owned() });
        }
        None
    }
}
