//! Episodes in a bank as they were recorded, in place of skills: what the SkillRL paper compares distillation with.

use super::{Change, DistillError, Distillation, LeftOut, LeftOutReason, Proposal};
use crate::episode::{TrainEpisode, steps_text};
use crate::lint::{Forbidden, LintRule, lint_skill};
use crate::skill::{Content, Evidence, SkillProvenance, Tier};

/// Proposes each episode as it was recorded, in the tier of its type, without a call.
///
/// Successes and failures are in the order of the record. An episode without steps or a summary, or with a secret, is
/// left out.
///
/// # Errors
///
/// [`DistillError::NoEpisodes`] if there is none that can be shown.
pub fn raw_episodes(episodes: &[TrainEpisode]) -> Result<Distillation, DistillError> {
    let mut raw = Distillation::default();
    for episode in episodes {
        let tier = if episode.has_type() { Tier::of_type(&episode.task_type) } else { Tier::General };
        let outcome = if episode.success { "success" } else { "failure" };
        let content = Content::Episode {
            item: episode.item.clone(),
            goal: episode.goal.trim().to_owned(),
            outcome: outcome.to_owned(),
            steps: steps_text(episode),
        };
        let [_, _, steps] = content.texts();
        let mut findings = lint_skill(&content, &Forbidden::new(), usize::MAX);
        // Goals, answers and instances are what an episode is about; what is too long is not searched for secrets.
        findings.retain(|finding| [LintRule::Secret, LintRule::Size].contains(&finding.rule));
        let reason = match (steps.is_empty(), findings.is_empty()) {
            (true, _) => Some(LeftOutReason::MissingField { field: "steps" }),
            (false, false) => Some(LeftOutReason::Refused { findings }),
            (false, true) => None,
        };
        if let Some(reason) = reason {
            raw.left_out.push(LeftOut::new(&tier, &episode.id, reason));
            continue;
        }
        let evidence = Evidence {
            items: vec![episode.item.clone()],
            trajectories: vec![episode.id.clone()],
            ..Evidence::default()
        };
        raw.proposals.push(Proposal::new(Change::Add { tier, content }, SkillProvenance::Recorded, evidence));
    }
    if raw.proposals.is_empty() {
        return Err(DistillError::NoEpisodes);
    }
    Ok(raw)
}
